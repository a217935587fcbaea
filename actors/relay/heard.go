package relay

import (
	"bytes"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/tidwall/gjson"

	"troupe/actors/link"
	"troupe/protocol"
)

// answer is a response of a node.
type answer struct {
	line    []byte
	id      string // as it is written; "" for none
	command string
	ok      bool
	code    protocol.Code
}

// begun reports whether a failed command may have run.
func (a answer) begun() bool {
	return !a.ok && gjson.GetBytes(a.line, "data.outcome").Str == protocol.OutcomeUnknown
}

// heard passes on what a node has written, but for answers to the relay's own commands, and
// for what says that a session is not there any more.
func (r *relay) heard(c actor.Context, m heard) {
	n := r.nodes[m.node]
	if n == nil || n.life != m.life {
		m.receipt.Written()
		return
	}
	n.spoke = true
	rest, from := m.lines, 0 // m.lines[from:] is not passed on yet
	var items []link.Item
	pass := func(end int) {
		if end > from {
			items = append(items, link.Item{Lines: m.lines[from:end:end], Size: end - from + link.RecordSize})
		}
	}
	flush := func() {
		if len(items) > 0 {
			r.client("").Send(c.ActorSystem().Root, items...)
			items = nil
		}
	}
	for len(rest) > 0 {
		end := bytes.IndexByte(rest, '\n') + 1
		line := rest[: end-1 : end-1]
		rest = rest[end:]
		after := len(m.lines) - len(rest)
		before := after - end
		bare := r.bare(n, line)
		if r.passes(c, n, line, func() { pass(before); from = before; flush() }) {
			if bare == nil {
				continue
			}
			pass(before)
			items = append(items, link.Item{Lines: bare, Size: len(bare) + link.RecordSize})
			from = after
			continue
		}
		pass(before)
		from = after
	}
	pass(len(m.lines))
	if len(items) == 0 {
		m.receipt.Written()
		return
	}
	items[len(items)-1].Receipt = m.receipt
	flush()
}

// passes looks at a line, and says whether it is the client's. What is to be told to it
// before that line goes behind first.
func (r *relay) passes(c actor.Context, n *node, line []byte, first func()) bool {
	kind := typeOf(line)
	if kind == "response" {
		return r.answered(c, n, line, first)
	}
	if kind == "session_status" {
		r.status(c, n, line)
		return false
	}
	if len(n.left) > 0 && n.left[gjson.GetBytes(line, "sessionId").Str] {
		return false
	}
	switch kind {
	case "session_moved":
		if s := r.sessions[gjson.GetBytes(line, "sessionId").Str]; s != nil && (s.at == n || s.joined == n.life) {
			first()
			s.moved = gjson.GetBytes(line, "why").Str
			r.elsewhere(c, s, n, n.takeBack(s.id, 0), true)
		}
		return false
	case "draining": // of that node, and not of the client's
		n.drains = true
		r.shared.Members.Drains(n.Node)
		return false
	case "extension_ui_request", "hook_ui_request", "approval_request", "approval_resolved", "dialog_resolved":
		r.asks(n, kind, line)
		return true
	default:
		if kind == "extension_command_end" {
			r.asks(n, kind, line)
		}
		if r.behind(line) != nil {
			return false
		}
		return r.sees(n, kind, line)
	}
}

// sees notes what begins and ends for a client that does not ask for it when its session is elsewhere. It returns false for
// a beginning that the client has seen.
func (r *relay) sees(n *node, kind string, line []byte) bool {
	row := rows()[kind]
	if row == nil || r.side.out.Wire.Has(protocol.FeatureSeq) {
		return true
	}
	if s := r.sessions[gjson.GetBytes(line, "sessionId").Str]; s != nil {
		if s.seen.seenOpen(row, line) {
			return false
		}
		s.seen.from = n.lifeOf()
		s.seen.observe(row, line)
	}
	return true
}

// lifeOf names this life of the node.
func (n *node) lifeOf() string { return n.Name + "/" + n.Boot }

// behind is the session of an event of which the client is not to hear yet; nil for every
// other.
func (r *relay) behind(line []byte) *session {
	for _, s := range r.sessions {
		if s.behind && gjson.GetBytes(line, "sessionId").Str == s.id {
			return s
		}
	}
	return nil
}

// takeBack removes the commands of a session, from index from on, that the node has refused to answer, and returns
// them. They had no effect there, or are idempotent.
func (n *node) takeBack(session string, from int) (back []*ask) {
	kept := n.pending[:from:from]
	for _, a := range n.pending[from:] {
		if a.own == nil && a.Session == session {
			a.begun = a.begun && a.changes() && a.actsOnce()
			back = append(back, a)
			continue
		}
		kept = append(kept, a)
	}
	n.pending = kept
	return back
}

// typeOf is the type of a record: it is its first member, or the second behind the id.
func typeOf(line []byte) string {
	const begins = `{"type":"`
	if bytes.HasPrefix(line, []byte(begins)) {
		rest := line[len(begins):]
		if end := bytes.IndexByte(rest, '"'); end >= 0 {
			return string(rest[:end])
		}
	}
	return gjson.GetBytes(line, "type").Str
}

// answered notes an answer, and says whether it is the client's.
func (r *relay) answered(c actor.Context, n *node, line []byte, first func()) bool {
	head := gjson.GetManyBytes(line, "id", "command", "success", "code")
	a := answer{line: line, id: head[0].Raw, command: head[1].Str, ok: head[2].Bool(), code: protocol.Code(head[3].Str)}
	asked, behind := n.takeAnswered(a)
	switch {
	case asked == nil: // of a command that has come again only the first answer is passed on
		spec := protocol.Lookup(a.command)
		return spec == nil || spec.Silent && !acknowledged(spec) && !notThere(a.code)
	case asked.own != nil:
		first()
		asked.own(r, c, n, a)
		return false
	}
	s := r.sessions[asked.Session]
	r.shared.Metrics.Took("troupe_cluster_relay_seconds", time.Since(asked.at))
	heard := !a.ok || !r.silent(asked)
	if s == nil {
		return heard
	}
	if r.notThere(s, n, asked, a) {
		asked.tries++
		asked.begun = false
		switch {
		case s.at != n:
			r.pass(c, s, asked)
		case a.code == protocol.CodeSessionClosing: // earlier commands may be running there and are answered
			r.later(c, s, append([]*ask{asked}, n.takeBack(s.id, behind)...))
		default:
			first := append([]*ask{asked}, n.takeBack(s.id, behind)...)
			before := r.takeLost(c, n, func(a *ask) bool { return a.Session == s.id })
			r.elsewhere(c, s, n, append(before, first...), false)
		}
		return false
	}
	if a.ok {
		s.answered()
		r.runsCommand(n, s, asked, line)
	}
	switch cmd := asked.Request.Cmd.(type) {
	case protocol.AttachSession:
		if a.ok {
			if s.hears {
				first()
				r.joined(c, s, a)
			}
			r.listed(n, s, line)
			s.hears, s.viewer, s.joined, s.behind = true, cmd.Role == protocol.RoleViewer, n.life, false
		} else if !s.hears {
			r.forget(c, s)
		}
	case protocol.DetachSession:
		s.hears = s.hears && !a.ok
	case protocol.CloseSession:
		if a.ok {
			r.forget(c, s)
		}
	case protocol.OpenSession:
		if !a.ok {
			r.forget(c, s)
			break
		}
		s.opens, s.hears, s.joined = nil, true, n.life
		if is := gjson.GetBytes(line, "data.sessionId").Str; is != s.id {
			delete(r.sessions, s.id)
			c.Send(r.side.router, Named{s.id, is})
			s.id = is
			r.sessions[is] = s
		}
	}
	return heard
}

// notThere says whether a node does not have the session that a command is for, or not for long: it
// has done nothing, and is looked for again as long as the command may wait.
func (r *relay) notThere(s *session, n *node, asked *ask, a answer) bool {
	switch {
	case a.ok || a.begun() || time.Now().After(asked.until):
		return false
	case a.code == protocol.CodeUnknownSession: // it may have been closed, and then it is nobody's
		s.looking.closed = true
		return s.joined == n.life && asked.tries < 2
	}
	return notThere(a.code) && (a.code == protocol.CodeNotHere || !s.looking.child && r.leaving == nil)
}

func notThere(code protocol.Code) bool {
	return code == protocol.CodeNotHere || code == protocol.CodeSessionClosing
}

// takeAnswered removes the command that an answer belongs to and returns it with its index; nil if it is unknown.
func (n *node) takeAnswered(a answer) (asked *ask, at int) {
	if at = n.asked(a); at < 0 {
		return nil, at
	}
	asked = n.pending[at]
	n.pending = append(n.pending[:at:at], n.pending[at+1:]...)
	return asked, at
}

// asked is where among them that command is, -1 for nowhere.
func (n *node) asked(a answer) int {
	return slices.IndexFunc(n.pending, func(asked *ask) bool {
		return string(asked.Request.ID) == a.id && (a.id != "" || asked.Request.Name == a.command)
	})
}
