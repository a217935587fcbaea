package store

import (
	"fmt"
	"io"

	"troupe/protocol"
)

// What the tests look at that callers do not.

// ScanHead is the readable form of a line's head.
type ScanHead struct {
	Kind, ID, Parent, Stamp, Custom, QueueID, Key, Usage     string
	Role, Provider, Model, StopReason, ToolName, Content, At string
}

func ScanLine(line []byte) (ScanHead, bool) {
	var h lineHead
	ok := scanLine(line, &h)
	m := h.message
	return ScanHead{
		string(h.kind), string(h.id), string(h.parent), string(h.stamp), string(h.custom), string(h.queueID), string(h.key),
		string(h.usage()), string(m.role), string(m.provider), string(m.model), string(m.stopReason), string(m.toolName),
		string(m.content), string(m.stamp),
	}, ok
}

func ValidJSON(b []byte) bool { return validJSON(b) }

func Migrate(src []byte, h protocol.Header) []byte { return migrate(src, h) }

func SetMember(object []byte, name, value string) string {
	return string(setMember(object, name, []byte(value)))
}

func DropMember(object []byte, name string) string { return string(dropMember(object, name)) }

func CutUTF16(s string, n int) string { return cutUTF16(s, n) }

const ReadBuffer = readBuffer

const MaxListText = maxListText

// Loaded is all that loading learns of a session.
type Loaded struct {
	Header         protocol.Header
	Found, Open    bool
	Skipped        int
	End, Junk      int64
	Slots          []string
	Names, Foreign []string
	Newest         map[string]int32 // by id
}

// LoadWith loads with so many scanners and so large a buffer.
func LoadWith(r io.ReaderAt, size int64, scanners, buffer int) (Loaded, error) {
	l, err := loadWith(r, size, scanners, buffer)
	if err != nil {
		return Loaded{}, err
	}
	x := Loaded{
		Header: l.header, Found: l.found, Open: l.open, Skipped: l.skipped, End: l.end, Junk: l.junk,
		Names: l.idx.names, Foreign: l.idx.foreign, Newest: map[string]int32{},
	}
	for i := range l.idx.slots {
		s := &l.idx.slots[i]
		x.Slots = append(x.Slots, fmt.Sprintf("%+v", *s))
		id := s.name(l.idx.names)
		x.Newest[id] = l.idx.find(id)
	}
	return x, nil
}
