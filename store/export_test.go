package store

import (
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

// ReadLines is readLines with the lines as text.
func ReadLines(r io.ReaderAt, from, to int64, fn func(line string, off int64, whole bool)) error {
	return readLines(r, from, to, func(line []byte, off int64, whole bool) error {
		fn(string(line), off, whole)
		return nil
	})
}
