package store

import (
	"encoding/binary"
	"encoding/json"
	"math/bits"
)

// lineHead is what can be learnt of a line in one pass over its bytes. The
// slices are parts of the line, valid as long as it is, and nil for members
// that are absent or not of the expected kind. Of duplicate members the last
// counts, as in JavaScript.
type lineHead struct {
	kind, id, parent, stamp []byte // strings, unescaped
	custom                  []byte // customType of a custom entry
	queueID, key            []byte // troupeQueueId, troupeKey
	topUsage                []byte // usage beside the message: of summaries and usage entries
	message                 messageHead
}

// messageHead is the part of a lineHead that comes from the member "message".
type messageHead struct {
	role, provider, model, stopReason, toolName []byte // strings, unescaped
	content, usage, stamp                       []byte // JSON
}

// usage is what the entry cost, nil if it does not say.
func (h *lineHead) usage() []byte {
	if h.message.usage != nil {
		return h.message.usage
	}
	return h.topUsage
}

// maxDepth is how deep values may be nested, the same as in jsontext, which
// checks what arrives over the wire.
const maxDepth = 10000

// scanner validates JSON and finds members of objects. It is the reason why a
// hundred thousand entries load in a fraction of the time any general parser
// needs: strings are skipped eight bytes at a time and nothing is built.
// It accepts exactly what jsontext accepts with duplicate names and invalid
// UTF-8 allowed, which is also what JSON.parse accepts of decoded bytes.
type scanner struct {
	b     []byte
	i     int
	stack []byte // closing brackets of open containers
	depth int    // containers opened by member functions, not on the stack
}

// scanLine reads the head of a line. It reports whether the line is a valid
// JSON object.
func scanLine(line []byte, h *lineHead) bool {
	*h = lineHead{}
	s := scanner{b: line}
	return s.top(h) && s.atEnd()
}

// validJSON reports whether b is one JSON value.
func validJSON(b []byte) bool {
	s := scanner{b: b}
	return s.value() && s.atEnd()
}

func (s *scanner) top(h *lineHead) bool {
	if !s.open() {
		return false
	}
	for first := true; ; first = false {
		name, more, ok := s.member(first)
		if !ok || !more {
			return ok
		}
		if !s.topMember(name, h) {
			return false
		}
	}
}

func (s *scanner) topMember(name []byte, h *lineHead) bool {
	switch string(name) {
	case "type":
		return s.str(&h.kind)
	case "id":
		return s.str(&h.id)
	case "parentId":
		return s.str(&h.parent)
	case "timestamp":
		return s.str(&h.stamp)
	case "customType":
		return s.str(&h.custom)
	case "troupeQueueId":
		return s.str(&h.queueID)
	case "troupeKey":
		return s.str(&h.key)
	case "usage":
		return s.raw(&h.topUsage)
	case "message":
		return s.messageMembers(&h.message)
	}
	return s.value()
}

func (s *scanner) messageMembers(m *messageHead) bool {
	*m = messageHead{}
	if s.space(); s.i >= len(s.b) || s.b[s.i] != '{' {
		return s.value()
	}
	s.open()
	for first := true; ; first = false {
		name, more, ok := s.member(first)
		if !ok || !more {
			return ok
		}
		if !s.messageMember(name, m) {
			return false
		}
	}
}

func (s *scanner) messageMember(name []byte, m *messageHead) bool {
	switch string(name) {
	case "role":
		return s.str(&m.role)
	case "provider":
		return s.str(&m.provider)
	case "model":
		return s.str(&m.model)
	case "stopReason":
		return s.str(&m.stopReason)
	case "toolName":
		return s.str(&m.toolName)
	case "content":
		return s.raw(&m.content)
	case "usage":
		return s.raw(&m.usage)
	case "timestamp":
		return s.raw(&m.stamp)
	}
	return s.value()
}

// open enters an object.
func (s *scanner) open() bool {
	s.space()
	if s.i >= len(s.b) || s.b[s.i] != '{' {
		return false
	}
	s.i++
	s.depth++
	return true
}

// member moves to the value of the next member of the object that was opened
// last. more is false at the object's end.
func (s *scanner) member(first bool) (name []byte, more, ok bool) {
	s.space()
	if s.i >= len(s.b) {
		return nil, false, false
	}
	if s.b[s.i] == '}' {
		s.i++
		s.depth--
		return nil, false, true
	}
	if !first {
		if s.b[s.i] != ',' {
			return nil, false, false
		}
		s.i++
		s.space()
	}
	if !s.name(&name) {
		return nil, false, false
	}
	return name, true, true
}

// name reads a member's name and the colon.
func (s *scanner) name(dst *[]byte) bool {
	s.space()
	if s.i >= len(s.b) || s.b[s.i] != '"' {
		return false
	}
	from := s.i
	escaped, ok := s.skipString()
	if !ok {
		return false
	}
	if dst != nil {
		*dst = unquote(s.b[from:s.i], escaped)
	}
	s.space()
	if s.i >= len(s.b) || s.b[s.i] != ':' {
		return false
	}
	s.i++
	return true
}

// str reads a value and, if it is a string, stores its text.
func (s *scanner) str(dst *[]byte) bool {
	*dst = nil
	s.space()
	if s.i >= len(s.b) || s.b[s.i] != '"' {
		return s.value()
	}
	from := s.i
	escaped, ok := s.skipString()
	if ok {
		*dst = unquote(s.b[from:s.i], escaped)
	}
	return ok
}

// raw reads a value and stores its JSON.
func (s *scanner) raw(dst *[]byte) bool {
	s.space()
	from := s.i
	ok := s.value()
	if ok {
		*dst = s.b[from:s.i]
	}
	return ok
}

// unquote returns the text of a valid JSON string.
func unquote(quoted []byte, escaped bool) []byte {
	if !escaped {
		return quoted[1 : len(quoted)-1]
	}
	var text string
	if json.Unmarshal(quoted, &text) != nil {
		return nil
	}
	return []byte(text)
}

// value skips one value, checking it.
func (s *scanner) value() bool {
	s.stack = s.stack[:0]
	for {
		opened, ok := s.scalarOrOpen()
		if !ok {
			return false
		}
		if opened {
			continue
		}
		done, ok := s.afterValue()
		if done || !ok {
			return ok
		}
	}
}

// scalarOrOpen skips a value without parts, or enters one that has some.
func (s *scanner) scalarOrOpen() (opened, ok bool) {
	s.space()
	if s.i >= len(s.b) {
		return false, false
	}
	switch s.b[s.i] {
	case '"':
		_, ok = s.skipString()
		return false, ok
	case '{':
		return s.enter('}')
	case '[':
		return s.enter(']')
	case 't':
		return false, s.literal("true")
	case 'f':
		return false, s.literal("false")
	case 'n':
		return false, s.literal("null")
	}
	return false, s.number()
}

func (s *scanner) enter(closing byte) (opened, ok bool) {
	if s.depth+len(s.stack) >= maxDepth {
		return false, false
	}
	s.i++
	s.space()
	if s.i < len(s.b) && s.b[s.i] == closing {
		s.i++
		return false, true
	}
	s.stack = append(s.stack, closing)
	if closing == '}' {
		return true, s.name(nil)
	}
	return true, true
}

// afterValue leaves the containers that end here and moves to the next value.
func (s *scanner) afterValue() (done, ok bool) {
	for len(s.stack) > 0 {
		s.space()
		if s.i >= len(s.b) {
			return false, false
		}
		c, closing := s.b[s.i], s.stack[len(s.stack)-1]
		s.i++
		if c == ',' {
			return false, closing == ']' || s.name(nil)
		}
		if c != closing {
			return false, false
		}
		s.stack = s.stack[:len(s.stack)-1]
	}
	return true, true
}

// space skips white space, of which files written by programs have none.
func (s *scanner) space() {
	for s.i < len(s.b) && s.b[s.i] <= ' ' && isSpace(s.b[s.i]) {
		s.i++
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

func (s *scanner) atEnd() bool {
	s.space()
	return s.i == len(s.b)
}

func (s *scanner) literal(word string) bool {
	if len(s.b)-s.i < len(word) || string(s.b[s.i:s.i+len(word)]) != word {
		return false
	}
	s.i += len(word)
	return true
}

func (s *scanner) number() bool {
	if s.i < len(s.b) && s.b[s.i] == '-' {
		s.i++
	}
	if s.i < len(s.b) && s.b[s.i] == '0' {
		s.i++
	} else if !s.digits() {
		return false
	}
	if s.i < len(s.b) && s.b[s.i] == '.' {
		s.i++
		if !s.digits() {
			return false
		}
	}
	if s.i < len(s.b) && (s.b[s.i] == 'e' || s.b[s.i] == 'E') {
		s.i++
		if s.i < len(s.b) && (s.b[s.i] == '+' || s.b[s.i] == '-') {
			s.i++
		}
		return s.digits()
	}
	return true
}

func (s *scanner) digits() bool {
	from := s.i
	for s.i < len(s.b) && s.b[s.i]-'0' <= 9 {
		s.i++
	}
	return s.i > from
}

// skipString skips a string that starts at the current byte.
func (s *scanner) skipString() (escaped, ok bool) {
	b, i := s.b, s.i+1
	for {
		i = plainEnd(b, i)
		if i >= len(b) {
			return escaped, false
		}
		switch b[i] {
		case '"':
			s.i = i + 1
			return escaped, true
		case '\\':
			escaped = true
			if i+1 < len(b) && isEscape[b[i+1]] {
				i += 2
			} else if i+6 <= len(b) && b[i+1] == 'u' && isHex[b[i+2]] && isHex[b[i+3]] && isHex[b[i+4]] && isHex[b[i+5]] {
				i += 6
			} else {
				return escaped, false
			}
		default: // a control character
			return escaped, false
		}
	}
}

// isEscape marks the bytes that may follow a backslash, except u; isHex those
// that may follow that.
var (
	isEscape = [256]bool{'"': true, '\\': true, '/': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}
	isHex    = [256]bool{
		'0': true, '1': true, '2': true, '3': true, '4': true, '5': true, '6': true, '7': true, '8': true, '9': true,
		'a': true, 'b': true, 'c': true, 'd': true, 'e': true, 'f': true,
		'A': true, 'B': true, 'C': true, 'D': true, 'E': true, 'F': true,
	}
)

// plainEnd returns the position of the first byte from i on that does not
// stand for itself inside a JSON string: a quote, a backslash or a control
// character. It looks at eight bytes at a time; in each of the three terms the
// lowest byte with its high bit set is the first hit.
func plainEnd(b []byte, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quote, slash := w^(ones*'"'), w^(ones*'\\')
		hit := ((quote-ones)&^quote | (slash-ones)&^slash | (w-ones*0x20)&^w) & highs
		if hit != 0 {
			return i + bits.TrailingZeros64(hit)>>3
		}
	}
	for i < len(b) && b[i] >= 0x20 && b[i] != '"' && b[i] != '\\' {
		i++
	}
	return i
}
