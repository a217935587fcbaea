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
	role, api, provider, model, stopReason, toolName, callID []byte // strings, unescaped
	content, usage, stamp, isError                           []byte // JSON
	whole                                                    []byte // JSON, of the message itself
}

// usage is what the entry cost, nil if it does not say.
func (h *lineHead) usage() []byte {
	if h.message.usage != nil {
		return h.message.usage
	}
	return h.topUsage
}

// maxDepth is how deep values may be nested: somewhat deeper than in jsontext,
// which checks what arrives over the wire and from models, since an entry holds
// that a few levels down.
const maxDepth = 10000 + 100

// scanner validates JSON and finds members of objects. It is the reason why a
// hundred thousand entries load in a fraction of the time any general parser
// needs: strings are skipped eight bytes at a time and nothing is built. Most
// bytes of a session are read by value and the functions below it that take the
// bytes and a position and return the position after, -1 where there is no
// JSON: what they work with stays in registers.
// But for maxDepth it accepts exactly what jsontext accepts with duplicate names
// and invalid UTF-8 allowed, which is also what JSON.parse accepts of decoded bytes.
type scanner struct {
	b     []byte
	i     int
	depth int      // containers opened by member functions, not on the stack
	room  [64]byte // for the stack of closing brackets; deeper ones are rare
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
	usual := s.beginning(h)
	if !usual {
		*h, s.i = lineHead{}, 0
		if !s.open() {
			return false
		}
	}
	for first := !usual; ; first = false {
		name, more, ok := s.member(first)
		if !ok || !more {
			return ok
		}
		if !s.topMember(name, h) {
			return false
		}
	}
}

// beginning reads the members that all entries begin with, where they stand as
// pi and troupe write them. If they do not, whatever it has read means nothing.
func (s *scanner) beginning(h *lineHead) bool {
	if !s.text(`{"type":`) || !s.plain(&h.kind) || !s.text(`,"id":`) || !s.plain(&h.id) || !s.text(`,"parentId":`) {
		return false
	}
	if !s.text(`null`) && !s.plain(&h.parent) || !s.text(`,"timestamp":`) || !s.plain(&h.stamp) {
		return false
	}
	s.depth++
	return true
}

// usage reads what an answer cost: a fifth of what there is to read in it, and
// nearly always of the same form.
func (s *scanner) usage(dst *[]byte) bool {
	end := s.i
	for _, t := range &usualUsage {
		if end = textEnd(s.b, end, t); end >= 0 {
			end = numberEnd(s.b, end)
		}
		if end < 0 {
			return s.raw(dst)
		}
	}
	if end = textEnd(s.b, end, "}}"); end < 0 {
		return s.raw(dst)
	}
	*dst, s.i = s.b[s.i:end], end
	return true
}

// usualUsage is what stands before the numbers of a usage as pi and troupe
// write it.
var usualUsage = [...]string{
	`{"input":`, `,"output":`, `,"cacheRead":`, `,"cacheWrite":`, `,"totalTokens":`,
	`,"cost":{"input":`, `,"output":`, `,"cacheRead":`, `,"cacheWrite":`, `,"total":`,
}

// content reads the content of a message, which mostly begins with text.
func (s *scanner) content(dst *[]byte) bool {
	from := s.i
	i := textEnd(s.b, from, `[{"type":"text","text":"`)
	if i < 0 {
		return s.raw(dst)
	}
	if i, _ = stringEnd(s.b, i); i < 0 {
		return false
	}
	i, open := nextValue(s.b, i, append(s.room[:0], ']', '}'))
	if i < 0 {
		return false
	}
	if s.i = i; len(open) > 0 && !s.values(open) {
		return false
	}
	*dst = s.b[from:s.i]
	return true
}

// textEnd is the position after a text that stands at i.
func textEnd(b []byte, i int, t string) int {
	if len(b)-i < len(t) || string(b[i:i+len(t)]) != t {
		return -1
	}
	return i + len(t)
}

// text passes over a text that stands here.
func (s *scanner) text(t string) bool {
	end := textEnd(s.b, s.i, t)
	if end >= 0 {
		s.i = end
	}
	return end >= 0
}

// plain reads a string that stands here, without escape sequences.
func (s *scanner) plain(dst *[]byte) bool {
	if s.i >= len(s.b) || s.b[s.i] != '"' {
		return false
	}
	from := s.i + 1
	end, escaped := stringEnd(s.b, from)
	if end < 0 || escaped {
		return false
	}
	*dst, s.i = s.b[from:end-1], end
	return true
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
		return s.usage(&h.topUsage)
	case "message":
		from := skipSpace(s.b, s.i)
		ok := s.messageMembers(&h.message)
		if ok {
			h.message.whole = s.b[from:s.i]
		}
		return ok
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
	case "api":
		return s.str(&m.api)
	case "provider":
		return s.str(&m.provider)
	case "model":
		return s.str(&m.model)
	case "stopReason":
		return s.str(&m.stopReason)
	case "toolName":
		return s.str(&m.toolName)
	case "toolCallId":
		return s.str(&m.callID)
	case "isError":
		return s.raw(&m.isError)
	case "content":
		return s.content(&m.content)
	case "usage":
		return s.usage(&m.usage)
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
	b, i := s.b, skipSpace(s.b, s.i)
	if i >= len(b) {
		return nil, false, false
	}
	if b[i] == '}' {
		s.i = i + 1
		s.depth--
		return nil, false, true
	}
	if !first {
		if b[i] != ',' {
			return nil, false, false
		}
		i = skipSpace(b, i+1)
	}
	if i >= len(b) || b[i] != '"' {
		return nil, false, false
	}
	end, escaped := stringEnd(b, i+1)
	if end < 0 {
		return nil, false, false
	}
	name = unquote(b[i:end], escaped)
	if i = skipSpace(b, end); i >= len(b) || b[i] != ':' {
		return nil, false, false
	}
	s.i = i + 1
	return name, true, true
}

// str reads a value and, if it is a string, stores its text.
func (s *scanner) str(dst *[]byte) bool {
	*dst = nil
	s.space()
	if s.i >= len(s.b) || s.b[s.i] != '"' {
		return s.value()
	}
	end, escaped := stringEnd(s.b, s.i+1)
	if end < 0 {
		return false
	}
	*dst = unquote(s.b[s.i:end], escaped)
	s.i = end
	return true
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
func (s *scanner) value() bool { return s.values(s.room[:0]) }

// values skips one value and what follows it in the containers that are open,
// by their closing brackets.
func (s *scanner) values(stack []byte) bool {
	b, i := s.b, s.i
	for {
		i = skipSpace(b, i)
		if i >= len(b) {
			return false
		}
		switch c := b[i]; c {
		case '"':
			i, _ = stringEnd(b, i+1)
		case '{', '[':
			if s.depth+len(stack) >= maxDepth {
				return false
			}
			closing := c + 2 // of both kinds
			i = skipSpace(b, i+1)
			if i < len(b) && b[i] == closing {
				i++
				break
			}
			stack = append(stack, closing)
			if c == '{' {
				i = nameEnd(b, i)
			}
			if i < 0 {
				return false
			}
			continue
		default:
			i = plainValueEnd(b, i)
		}
		if i < 0 {
			return false
		}
		if i, stack = nextValue(b, i, stack); i < 0 {
			return false
		}
		if len(stack) == 0 {
			s.i = i
			return true
		}
	}
}

// nextValue leaves the containers that end after a value and moves to the next
// value of the one that does not. Without one the stack is empty.
func nextValue(b []byte, i int, stack []byte) (int, []byte) {
	for len(stack) > 0 {
		i = skipSpace(b, i)
		if i >= len(b) {
			return -1, nil
		}
		c, closing := b[i], stack[len(stack)-1]
		i++
		if c == ',' {
			if closing == '}' {
				i = nameEnd(b, i)
			}
			return i, stack
		}
		if c != closing {
			return -1, nil
		}
		stack = stack[:len(stack)-1]
	}
	return i, stack
}

// space skips white space, of which files written by programs have none.
func (s *scanner) space() { s.i = skipSpace(s.b, s.i) }

func skipSpace(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && isSpace(b[i]) {
		i++
	}
	return i
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

func (s *scanner) atEnd() bool {
	s.space()
	return s.i == len(s.b)
}

// nameEnd is the position after a member's name and the colon.
func nameEnd(b []byte, i int) int {
	i = skipSpace(b, i)
	if i >= len(b) || b[i] != '"' {
		return -1
	}
	if i, _ = stringEnd(b, i+1); i < 0 {
		return -1
	}
	i = skipSpace(b, i)
	if i >= len(b) || b[i] != ':' {
		return -1
	}
	return i + 1
}

// plainValueEnd is the position after a number or a literal.
func plainValueEnd(b []byte, i int) int {
	switch b[i] {
	case 't':
		return textEnd(b, i, "true")
	case 'f':
		return textEnd(b, i, "false")
	case 'n':
		return textEnd(b, i, "null")
	}
	return numberEnd(b, i)
}

func numberEnd(b []byte, i int) int {
	if i < len(b) && b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if i = digitsEnd(b, i); i < 0 {
		return -1
	}
	if i < len(b) && b[i] == '.' {
		if i = digitsEnd(b, i+1); i < 0 {
			return -1
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return digitsEnd(b, i)
	}
	return i
}

// digitsEnd is the position after one or more digits.
func digitsEnd(b []byte, i int) int {
	from := i
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	if i == from {
		return -1
	}
	return i
}

// stringEnd is the position after the quote that ends a string; i is that after
// the one that begins it. It looks at eight bytes at a time; in each of the two
// differences the lowest byte with its high bit set, where the text's own is
// not, is the first that does not stand for itself. The first one finds quotes
// among the control characters: exchanging 0x20 and 0x22, and others above, puts
// them below 0x21.
func stringEnd(b []byte, i int) (end int, escaped bool) {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for i+8 <= len(b) {
		w := binary.LittleEndian.Uint64(b[i:])
		quote, slash := w^ones*2, w^ones*'\\'
		hit := ((quote - ones*0x21) | (slash - ones)) &^ w & highs
		if hit == 0 {
			i += 8
			continue
		}
		at := bits.TrailingZeros64(hit) &^ 7
		i += at >> 3
		if byte(w>>at) == '"' {
			return i + 1, escaped
		}
		if i = escapeEnd(b, i); i < 0 {
			return -1, true
		}
		escaped = true
	}
	for i < len(b) {
		switch c := b[i]; {
		case c == '"':
			return i + 1, escaped
		case c == '\\' || c < ' ':
			if i = escapeEnd(b, i); i < 0 {
				return -1, true
			}
			escaped = true
		default:
			i++
		}
	}
	return -1, escaped
}

// escapeEnd is the position after an escape sequence.
func escapeEnd(b []byte, i int) int {
	switch {
	case b[i] != '\\': // a control character
		return -1
	case i+1 < len(b) && isEscape[b[i+1]]:
		return i + 2
	case i+6 <= len(b) && b[i+1] == 'u' && isHex[b[i+2]] && isHex[b[i+3]] && isHex[b[i+4]] && isHex[b[i+5]]:
		return i + 6
	}
	return -1
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
