package protocol

import (
	"encoding/json"
	"math"
	"reflect"
	"unicode/utf8"
)

// secondHead is an upper bound of the bytes before the members in the second line of an event.
const secondHead = 120

// EventSize returns the length of the members of an event. An event with two names counts as both lines
// if one client can receive both, and as the longer one otherwise.
func EventSize(ev Event) int {
	rows := RowsOf(ev)
	if len(rows) < 2 {
		return SizeOf(ev)
	}
	sum, longest := 0, 0
	for i, row := range rows {
		members, ok := row.Form(ev)
		if !ok {
			continue
		}
		n := SizeOf(members)
		longest = max(longest, n)
		switch {
		case i == 0:
			sum = n
		case !row.excludes(rows[0]):
			sum += secondHead + n
		}
	}
	return max(sum, longest)
}

// excludes reports whether no client can receive the event under the names of both rows.
func (s *EventSpec) excludes(other *EventSpec) bool {
	return s.Needs != "" && s.Needs == other.Unless || other.Needs != "" && other.Needs == s.Unless
}

// Size returns the length of the values in the line of a response, without member names and punctuation.
func (r *Response) Size() int {
	n := len(r.ID) + EscapedSize(r.Command) + EscapedSize(r.SessionID) + SizeOf(r.Data)
	if r.Err != nil {
		n += EscapedSize(r.Err.Message) + len(r.Err.Code) + SizeOf(r.Err.Data)
	}
	return n
}

// EscapedSize returns the length of the text that [AppendEscaped] appends for s.
func EscapedSize(s string) int {
	n := len(s)
	for i := 0; i < len(s); {
		if i = plainEnd(s, i); i == len(s) {
			break
		}
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				n += len("\uFFFD") - 1
			}
			i += size
			continue
		}
		switch c {
		case '"', '\\', '\n', '\r', '\t', '\b', '\f':
			n++
		default:
			n += len(`\u0000`) - 1
		}
		i++
	}
	return n
}

func stringSize(v reflect.Value) int { return len(`""`) + EscapedSize(v.String()) }

func boolSize(v reflect.Value) int {
	if v.Bool() {
		return len("true")
	}
	return len("false")
}

func intSize(v reflect.Value) int {
	n, digits := v.Int(), 1
	if n < 0 {
		digits++
	}
	for ; n <= -10 || n >= 10; n /= 10 {
		digits++
	}
	return digits
}

func floatSize(v reflect.Value) int {
	if f := v.Float(); math.Trunc(f) == f && math.Abs(f) < 10 {
		return len("-0")
	}
	var room [32]byte
	return len(AppendFloat(room[:0], v.Float()))
}

// rawSize is the length of JSON that somebody else wrote.
func rawSize(v reflect.Value) int { return max(v.Len(), len("null")) }

// foreignSize encodes a value of a type that only encoding/json can write, for its length. Such
// values are rare in records, and small.
func foreignSize(v reflect.Value) (n int) {
	defer func() {
		if recover() != nil { // a method of the value itself
			n = len("null")
		}
	}()
	raw, err := json.Marshal(v.Interface())
	if err != nil {
		return len("null")
	}
	return len(raw)
}

// attribution is an upper bound of the member that s1 has in messages which no model wrote.
const attribution = len(`"attribution":"agent",`)

// extraSize returns the length of the members that messages and blocks have beside those of their
// tags, such as the role. members returns the length of the others.
func extraSize(t reflect.Type, members func(reflect.Value) int) int {
	extra := 0
	switch t {
	case reflect.TypeFor[*UserMessage](), reflect.TypeFor[*CustomMessage]():
		extra = attribution
		fallthrough
	case reflect.TypeFor[*AssistantMessage](), reflect.TypeFor[*ToolResultMessage](), reflect.TypeFor[*BashExecutionMessage](),
		reflect.TypeFor[*BranchSummaryMessage](), reflect.TypeFor[*CompactionSummaryMessage]():
		zero := reflect.New(t.Elem())
		return extra + len(zero.Interface().(Message).AppendJSON(nil)) - members(zero)
	case reflect.TypeFor[Text](), reflect.TypeFor[Thinking](), reflect.TypeFor[ToolCall](), reflect.TypeFor[Image]():
		zero := reflect.Zero(t)
		return len(zero.Interface().(Block).AppendJSON(nil)) - members(zero)
	}
	return 0
}

// Weight is 0 for a message that was not encoded.
func (m *UserMessage) Weight() int { return m.sealed.withAttribution() }

// Weight is 0 for a message that was not encoded.
func (m *CustomMessage) Weight() int { return m.sealed.withAttribution() }

func (s *sealed) withAttribution() int {
	if len(s.enc) == 0 {
		return 0
	}
	return len(s.enc) + attribution
}

// Weight makes an UnknownMessage a Weighed.
func (m *UnknownMessage) Weight() int { return len(m.Raw) }

// Weight makes an UnknownBlock a Weighed.
func (b UnknownBlock) Weight() int { return len(b.Raw) }

// Weight makes Raw a Weighed.
func (r Raw) Weight() int { return max(len(r), len("null")) }

// Weight makes a Header a Weighed.
func (h Header) Weight() int {
	return len(`{"type":"session","version":3,"id":"","timestamp":"","cwd":"","parentSession":""}`) +
		EscapedSize(h.ID) + EscapedSize(h.Timestamp) + EscapedSize(h.Cwd) + EscapedSize(h.ParentSession)
}

// Weight makes a Record a Weighed.
func (r Record) Weight() int {
	if u, ok := r.Entry.(UnknownEntry); ok {
		return len(u.Raw)
	}
	n := len(`"type":"","id":"","parentId":"","timestamp":"",`) + EscapedSize(r.ID) + EscapedSize(r.ParentID) + EscapedSize(r.Timestamp)
	if r.Entry != nil {
		n += len(r.Entry.EntryType()) + SizeOf(r.Entry)
	}
	return n
}

// Weight makes a ChildEvent a Weighed: its event is written as each client is written to.
func (c ChildEvent) Weight() int {
	n := len(`{"id":"","event":}`) + EscapedSize(c.ID) + len(c.Event)
	if c.Is != nil {
		n += EventSize(c.Is)
	}
	return n
}
