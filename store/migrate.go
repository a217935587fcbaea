package store

import (
	"bytes"
	"hash/fnv"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"

	"troupe/protocol"
)

// migrate rewrites a session of version 1 or 2 as version 3. Members keep
// their place and their bytes, new ones go to the end of their object, lines
// that are no JSON stay as they are, and a torn last line gets a line ending.
//
//   - version 1 has no ids and no parents: the entries become one chain. A
//     compaction names the first entry it keeps by its number among the lines
//     that are JSON, the header being 0.
//   - before version 3 the role custom was called hookMessage.
//
// Ids are derived from the session's id and the line number, so that an old
// file that is never appended to has the same ids each time it is opened.
// Migrating is idempotent, as far as ids are concerned: entries that have one
// keep it and its parent.
func migrate(src []byte, header protocol.Header) []byte {
	m := migration{version: header.Version, session: header.ID, taken: map[string]bool{}}
	m.survey(src)
	for line := range bytes.Lines(src) {
		m.line(bytes.TrimSuffix(line, []byte("\n")))
	}
	return m.out
}

type migration struct {
	version int
	session string
	ids     []string        // of every line that is JSON, "" for the header and for what is no entry
	taken   map[string]bool // ids
	out     []byte
	at      int    // number of the current line among those that are JSON
	prev    string // id of the entry before
}

// survey gives every entry its id.
func (m *migration) survey(src []byte) {
	var h lineHead
	for line := range bytes.Lines(src) {
		if scanLine(line, &h) && len(h.id) > 0 {
			m.taken[string(h.id)] = true
		}
	}
	for line := range bytes.Lines(src) {
		switch isObject := scanLine(line, &h); {
		case isObject:
			m.ids = append(m.ids, m.idFor(&h))
		case validJSON(line):
			m.ids = append(m.ids, "")
		}
	}
}

func (m *migration) idFor(h *lineHead) string {
	switch {
	case h.kind == nil || string(h.kind) == "session":
		return ""
	case len(h.id) > 0:
		return string(h.id)
	case m.version >= 2: // had ids: one without is damaged
		return ""
	}
	for salt := 0; ; salt++ {
		hash := fnv.New32a()
		hash.Write([]byte(m.session + "/" + strconv.Itoa(len(m.ids)) + "/" + strconv.Itoa(salt)))
		id := string(appendID(nil, hash.Sum32()))
		if !m.taken[id] {
			m.taken[id] = true
			return id
		}
	}
}

func (m *migration) line(line []byte) {
	var h lineHead
	switch isObject := scanLine(line, &h); {
	case isObject && string(h.kind) == "session":
		m.out = append(m.out, m.headerLine(line)...)
		m.at++
	case isObject && h.kind != nil:
		m.out = append(m.out, m.entryLine(line, &h)...)
		m.at++
	default:
		m.out = append(m.out, line...)
		if isObject || validJSON(line) {
			m.at++
		}
	}
	m.out = append(m.out, '\n')
}

func (m *migration) headerLine(line []byte) []byte {
	return setMember(line, "version", strconv.AppendInt(nil, protocol.SessionVersion, 10))
}

func (m *migration) entryLine(line []byte, h *lineHead) []byte {
	if m.version < 2 {
		line = m.giveID(line, h)
		if string(h.kind) == "compaction" {
			line = m.keptByID(line)
		}
	}
	if string(h.message.role) == "hookMessage" {
		line = setMember(line, "message", setMember(messageOf(line), "role", []byte(`"custom"`)))
	}
	return line
}

func (m *migration) giveID(line []byte, h *lineHead) []byte {
	id := m.ids[m.at]
	if len(h.id) == 0 {
		line = setMember(line, "id", quote(id))
	}
	if _, has := lastMember(line, "parentId"); !has {
		parent := []byte("null")
		if m.prev != "" {
			parent = quote(m.prev)
		}
		line = setMember(line, "parentId", parent)
	}
	m.prev = id
	return line
}

func (m *migration) keptByID(line []byte) []byte {
	const oldName, newName = "firstKeptEntryIndex", "firstKeptEntryId"
	index, has := lastMember(line, oldName)
	if !has {
		return line
	}
	n, err := strconv.Atoi(string(line[index.value:index.end]))
	line = dropMember(line, oldName)
	if err != nil || n < 0 || n >= len(m.ids) || m.ids[n] == "" {
		return line
	}
	return setMember(line, newName, quote(m.ids[n]))
}

func quote(s string) []byte { return protocol.AppendString(nil, s) }

// messageOf returns the value of the member "message" of a line that has one.
func messageOf(line []byte) []byte {
	m, _ := lastMember(line, "message")
	return line[m.value:m.end]
}

// place says where a member of an object stands: from the first byte of its
// name to the end of its value.
type place struct{ name, value, end int }

// eachMember calls fn for the members of a valid JSON object.
func eachMember(object []byte, fn func(name []byte, at place)) {
	s := scanner{b: object}
	s.object(func(name []byte, at int) bool {
		value := skipSpace(s.b, s.i)
		ok := s.value()
		fn(name, place{at, value, s.i})
		return ok
	})
}

// lastMember finds the member that counts among those with a name.
func lastMember(object []byte, name string) (found place, has bool) {
	eachMember(object, func(n []byte, at place) {
		if string(n) == name {
			found, has = at, true
		}
	})
	return found, has
}

// setMember returns the object with a member set to a JSON value: in place if
// it has the member, else as its last.
func setMember(object []byte, name string, value []byte) []byte {
	if at, has := lastMember(object, name); has {
		return slices.Concat(object[:at.value], value, object[at.end:])
	}
	last := bytes.LastIndexByte(object, '}')
	var comma []byte
	if body := bytes.TrimSpace(object[:last]); len(body) > 1 {
		comma = []byte(",")
	}
	return slices.Concat(object[:last], comma, quote(name), []byte(":"), value, object[last:])
}

// dropMember returns the object without the members of a name.
func dropMember(object []byte, name string) []byte {
	var keep [][]byte
	eachMember(object, func(n []byte, at place) {
		if string(n) != name {
			keep = append(keep, object[at.name:at.end])
		}
	})
	return slices.Concat([]byte("{"), bytes.Join(keep, []byte(",")), []byte("}"))
}

// rawString is a member's text in a valid JSON object, "" if it is no string.
func rawString(object []byte, name string) string {
	if v := gjson.GetBytes(object, name); v.Type == gjson.String {
		return text([]byte(v.Str))
	}
	return ""
}
