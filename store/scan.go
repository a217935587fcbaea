package store

import (
	"bytes"
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
	stray                   bool   // parentId is no id: the entry follows the one before it
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

// scanner validates JSON and finds members of objects. A session of a hundred
// thousand entries opens in a fraction of the time that any general parser needs,
// because strings are skipped eight bytes at a time and nothing is built. The
// functions that take the bytes and a position return the position after what
// they read, -1 where there is no JSON, and so work in registers.
//
// But for maxDepth it accepts exactly what jsontext accepts with duplicate names
// and invalid UTF-8 allowed, which is also what JSON.parse accepts of decoded bytes.
type scanner struct {
	b     []byte
	i     int
	depth int      // objects that are being read member by member
	room  [64]byte // for the stack of closing brackets; deeper ones are rare
}

// scanLine reads the head of a line. It reports whether the line is a valid
// JSON object.
func scanLine(line []byte, h *lineHead) bool {
	*h = lineHead{}
	s := scanner{b: line}
	return s.object(func(name []byte, _ int) bool { return s.entryMember(name, h) }) && s.atEnd()
}

// validJSON reports whether b is one JSON value.
func validJSON(b []byte) bool {
	s := scanner{b: b}
	return s.value() && s.atEnd()
}

func (s *scanner) entryMember(name []byte, h *lineHead) bool {
	switch string(name) {
	case "type":
		return s.str(&h.kind)
	case "id":
		return s.name(&h.id)
	case "parentId":
		return s.parent(h)
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
		return s.messageObject(&h.message)
	}
	return s.value()
}

// messageObject reads a message, or whatever else stands in its place.
func (s *scanner) messageObject(m *messageHead) bool {
	*m = messageHead{}
	s.space()
	from, ok := s.i, false
	if from < len(s.b) && s.b[from] == '{' {
		ok = s.object(func(name []byte, _ int) bool { return s.messageMember(name, m) })
	} else {
		ok = s.value()
	}
	if ok {
		m.whole = s.b[from:s.i]
	}
	return ok
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
		return s.raw(&m.content)
	case "usage":
		return s.raw(&m.usage)
	case "timestamp":
		return s.raw(&m.stamp)
	}
	return s.value()
}

// object reads an object. Each member's value is read, or skipped, by fn; at is
// where its name stands.
func (s *scanner) object(fn func(name []byte, at int) bool) bool {
	b, i := s.b, skipSpace(s.b, s.i)
	if i >= len(b) || b[i] != '{' {
		return false
	}
	s.depth++ // where it fails nobody reads on
	if i = skipSpace(b, i+1); i < len(b) && b[i] == '}' {
		s.i = i + 1
		s.depth--
		return true
	}
	for {
		at, end, escaped := i, -1, false
		if i < len(b) && b[i] == '"' {
			end, escaped = stringEnd(b, i+1)
		}
		if end < 0 {
			return false
		}
		if i = skipSpace(b, end); i >= len(b) || b[i] != ':' {
			return false
		}
		s.i = i + 1
		if !fn(unquote(b[at:end], escaped), at) {
			return false
		}
		if i = skipSpace(b, s.i); i >= len(b) || b[i] != ',' {
			s.i = i + 1
			s.depth--
			return i < len(b) && b[i] == '}'
		}
		i = skipSpace(b, i+1)
	}
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

// name reads an id: a string or, of a program that counts, a number.
func (s *scanner) name(dst *[]byte) bool {
	s.space()
	if s.i < len(s.b) && (s.b[s.i] == '-' || s.b[s.i]-'0' <= 9) {
		return s.raw(dst)
	}
	return s.str(dst)
}

// parent reads a parentId.
func (s *scanner) parent(h *lineHead) bool {
	from := s.i
	ok := s.name(&h.parent)
	h.stray = ok && h.parent == nil && string(bytes.TrimSpace(s.b[from:s.i])) != "null"
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

// textEnd is the position after a text that stands at i.
func textEnd(b []byte, i int, t string) int {
	if len(b)-i < len(t) || string(b[i:i+len(t)]) != t {
		return -1
	}
	return i + len(t)
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
	case i+6 <= len(b) && b[i+1] == 'u' && isHex(b[i+2]) && isHex(b[i+3]) && isHex(b[i+4]) && isHex(b[i+5]):
		return i + 6
	}
	return -1
}

// isEscape marks the bytes that may follow a backslash, except u.
var isEscape = [256]bool{'"': true, '\\': true, '/': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

func isHex(c byte) bool { return c-'0' <= 9 || c|0x20-'a' <= 5 }
