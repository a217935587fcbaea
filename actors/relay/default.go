package relay

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"

	"troupe/protocol"
)

// The default session of a client has no name on its records, nor in commands for it. On another node it is one of many, and
// has a name: what goes there is given it, and what comes from there loses it.

// named is the line of a command as its node is to read it.
func (r *relay) named(a *ask) []byte {
	_, attaches := a.cmd().(protocol.AttachSession) // which says itself what it is about
	if a.own != nil || a.Session != r.side.main || a.Request.SessionID != "" || attaches {
		return a.Line
	}
	end := bytes.LastIndexByte(a.Line, '}') // behind all others: of members of one name the last one counts, and its type the line has
	line := append(make([]byte, 0, len(a.Line)+64), a.Line[:end]...)
	line = strconv.AppendQuote(append(line, `,"sessionId":`...), a.Session) // an id has nothing that is to be escaped
	return append(line, a.Line[end:]...)
}

// bare is a line of a node as the client reads it of its default session, with its end; nil for any other, and for the answer
// to a command that has named it.
func (r *relay) bare(n *node, line []byte) []byte {
	if r.side.main == "" || typeOf(line) == "session_status" { // which names the one that it is about
		return nil
	}
	tag := gjson.GetBytes(line, "sessionId")
	if tag.Str != r.side.main {
		return nil
	}
	if typeOf(line) == "response" {
		head := gjson.GetManyBytes(line, "id", "command")
		if i := n.asked(answer{id: head[0].Raw, command: head[1].Str}); i >= 0 && n.pending[i].Request.SessionID != "" {
			return nil
		}
	}
	from := tag.Index - len(`,"sessionId":`)
	rest := line[tag.Index+len(tag.Raw):]
	switch typeOf(line) {
	case "session_changed": // which says what the session is called by itself where that is not its name
		rest = bytes.Replace(rest, []byte(`"durableId":`), []byte(`"sessionId":`), 1)
	case "agent_end": // likewise, where a dialect has the file
		if file := gjson.GetBytes(line, "sessionFile"); file.Index > 0 {
			before := file.Index - len(`"sessionFile":`) - len(line) + len(rest)
			own := append(protocol.AppendString([]byte(`"sessionId":`), CopyOf(file.Str)), ',')
			rest = slices.Concat(rest[:before], own, rest[before:])
		}
	}
	return append(append(bytes.Clone(line[:from]), rest...), '\n')
}
