package compat

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// A literal is an object as documents write it: JSON, a JavaScript literal or a TypeScript type.
// One parser reads all three.
type literal struct {
	kind    byte   // { [ " 0 (number) w (word, a type's name) | (union) . (an ellipsis)
	text    string // of a string, number or word
	members []member
	items   []literal // of an array or union
	list    bool      // a type followed by []
}

type member struct {
	name     string
	optional bool
	value    literal
}

func (l literal) get(name string) (literal, bool) {
	i := slices.IndexFunc(l.members, func(m member) bool { return m.name == name })
	if i < 0 {
		return literal{}, false
	}
	return l.members[i].value, true
}

// str returns the value of a string member, or "" if there is no such member.
func (l literal) str(name string) string {
	if v, ok := l.get(name); ok && v.kind == '"' {
		return v.text
	}
	return ""
}

// example is a literal and its source text.
type example struct {
	literal
	raw string
}

// examples finds all objects in a document. Nested objects are part of the outer one if that can be
// parsed.
func examples(doc string) (found []example) {
	for i := 0; i < len(doc); i++ {
		if doc[i] != '{' {
			continue
		}
		r := reader{text: doc, at: i}
		if l, err := r.term(); err == nil && len(l.members) > 0 && !l.list {
			found = append(found, example{l, strings.TrimSpace(doc[i:r.at])})
			i = r.at - 1
		}
	}
	return found
}

type reader struct {
	text string
	at   int
}

var errNotLiteral = errors.New("no literal")

func (r *reader) space() {
	for r.at < len(r.text) {
		switch {
		case strings.ContainsRune(" \t\r\n", rune(r.text[r.at])):
			r.at++
		case strings.HasPrefix(r.text[r.at:], "//"):
			n := strings.IndexByte(r.text[r.at:], '\n')
			if n < 0 {
				n = len(r.text) - r.at
			}
			r.at += n
		default:
			return
		}
	}
}

func (r *reader) take(token string) bool {
	r.space()
	if strings.HasPrefix(r.text[r.at:], token) {
		r.at += len(token)
		return true
	}
	return false
}

// value parses a term or a union of terms.
func (r *reader) value() (literal, error) {
	r.take("|")
	first, err := r.term()
	if err != nil {
		return first, err
	}
	union := literal{kind: '|', items: []literal{first}}
	for r.take("|") {
		next, err := r.term()
		if err != nil {
			return next, err
		}
		union.items = append(union.items, next)
	}
	if len(union.items) == 1 {
		return first, nil
	}
	return union, nil
}

func (r *reader) term() (l literal, err error) {
	switch {
	case r.take("..."):
		l = literal{kind: '.'}
	case r.take("{"):
		l, err = r.object()
	case r.take("["):
		l, err = r.array()
	case r.at < len(r.text) && r.text[r.at] == '"':
		l, err = r.quoted()
	default:
		l = literal{kind: 'w', text: r.word()}
		if l.text == "" {
			return l, errNotLiteral
		}
		if strings.ContainsAny(l.text[:1], "-0123456789") {
			l.kind = '0'
		}
	}
	if err == nil && r.take("[]") {
		l.list = true
	}
	return l, err
}

func isWord(c byte) bool {
	return c == '_' || c == '-' || c == '.' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func (r *reader) word() string {
	from := r.at
	for r.at < len(r.text) && isWord(r.text[r.at]) {
		r.at++
	}
	return r.text[from:r.at]
}

func (r *reader) quoted() (literal, error) {
	end := r.at + 1
	for end < len(r.text) && r.text[end] != '"' && r.text[end] != '\n' {
		if r.text[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(r.text) || r.text[end] != '"' {
		return literal{}, errNotLiteral
	}
	l := literal{kind: '"'}
	if json.Unmarshal([]byte(r.text[r.at:end+1]), &l.text) != nil {
		return l, errNotLiteral
	}
	r.at = end + 1
	return l, nil
}

func (r *reader) object() (literal, error) {
	l := literal{kind: '{'}
	for !r.take("}") {
		m := member{}
		switch {
		case r.take("..."):
			m = member{name: "...", value: literal{kind: '.'}}
		case r.at < len(r.text) && r.text[r.at] == '"':
			name, err := r.quoted()
			if err != nil {
				return l, err
			}
			m.name = name.text
		default:
			m.name = r.word()
		}
		if m.name == "" {
			return l, errNotLiteral
		}
		if m.name != "..." {
			m.optional = r.take("?")
			m.value = literal{kind: 'w', text: "any"}
			if r.take(":") {
				var err error
				if m.value, err = r.value(); err != nil {
					return l, err
				}
			}
		}
		l.members = append(l.members, m)
		if !r.take(",") && !r.take(";") {
			r.space()
			if r.at >= len(r.text) || r.text[r.at] != '}' {
				return l, errNotLiteral
			}
		}
	}
	return l, nil
}

func (r *reader) array() (literal, error) {
	l := literal{kind: '['}
	for !r.take("]") {
		v, err := r.value()
		if err != nil {
			return l, err
		}
		l.items = append(l.items, v)
		if !r.take(",") {
			r.space()
			if r.at >= len(r.text) || r.text[r.at] != ']' {
				return l, errNotLiteral
			}
		}
	}
	return l, nil
}
