package providers

import (
	"bytes"
	"unicode/utf8"

	"troupe/protocol"
)

// echo recognises an event that differs from the one before it in nothing but
// the text it adds to a block. Most of a long answer is such events, and reading
// one as JSON costs ten times what this comparison does.
//
// What it takes over from the event before is what its decoder made of it: one
// delta of text or thinking and nothing else. A decoder's state after such an
// event is the same as after the next one, so it need not see it. (That is not
// so for tool calls: a name may come in pieces beside the arguments.)
type echo struct {
	set           bool
	name          string
	before, after []byte // of the text, in the event's data
	index         int    // of the block
}

// repeats returns the text of an event if it is one more of the kind.
func (e *echo) repeats(name string, data []byte) (text []byte, ok bool) {
	if !e.set || len(data) <= len(e.before)+len(e.after) || !bytes.HasSuffix(data, e.after) || !bytes.HasPrefix(data, e.before) || name != e.name {
		return nil, false
	}
	text = data[len(e.before) : len(data)-len(e.after)]
	return text, plainText(text)
}

// plainText says whether text stands for itself in a JSON string.
func plainText(text []byte) bool {
	ascii := true
	for _, b := range text {
		if b < ' ' || b == '"' || b == '\\' {
			return false
		}
		ascii = ascii && b < utf8.RuneSelf
	}
	return ascii || utf8.Valid(text)
}

// learn looks at what a decoder made of an event that is no repetition: out's
// parts from a place on.
func (e *echo) learn(name string, data []byte, out *Parts, from int) {
	e.set = false
	if len(out.out) != from+1 {
		return
	}
	delta, ok := out.out[from].(protocol.PartDelta)
	if !ok || out.blocks[delta.Index].kind == protocol.BlockToolCall || bytes.IndexByte(data, '\\') >= 0 { // without escapes a string is what its decoder reads
		return
	}
	at := quoted(data, delta.Delta)
	if at < 0 || quoted(data[at:], delta.Delta) >= 0 { // it could be another member that says the same
		return
	}
	e.set, e.name, e.index = true, name, delta.Index
	e.before = append(e.before[:0], data[:at]...)
	e.after = append(e.after[:0], data[at+len(delta.Delta):]...)
}

// quoted finds a text between quotes, -1 if it is not there.
func quoted(data []byte, text string) int {
	for from := 0; ; {
		i := bytes.Index(data[from:], []byte(text))
		if i < 0 {
			return -1
		}
		at := from + i
		if end := at + len(text); at > 0 && data[at-1] == '"' && end < len(data) && data[end] == '"' {
			return at
		}
		from = at + 1
	}
}
