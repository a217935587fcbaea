package protocol

import (
	"bytes"
	"encoding/json"
	"math"
	"math/bits"
	"strconv"
	"unicode/utf8"
)

// Appender is implemented by values that write their own JSON. It is how
// everything on the hot path is encoded: no reflection, no intermediate copy,
// and bytes as JSON.stringify would write them.
type Appender interface {
	// AppendJSON appends the value's JSON to dst and returns the result.
	AppendJSON(dst []byte) []byte
}

// AppendValue appends the JSON of v: by its own AppendJSON if it has one, else
// by encoding/json without HTML escaping. A value that cannot be encoded is a
// programming error and panics.
func AppendValue(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case Appender:
		return v.AppendJSON(dst)
	case json.RawMessage:
		return appendRaw(dst, v)
	case string:
		return AppendString(dst, v)
	}
	buf := bytes.NewBuffer(dst)
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("protocol: encode " + err.Error())
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

// appendRaw appends JSON that somebody else wrote. Line breaks between tokens
// would break the framing, so such a value is compacted first.
func appendRaw(dst []byte, raw json.RawMessage) []byte {
	if len(raw) == 0 {
		return append(dst, "null"...)
	}
	if bytes.IndexByte(raw, '\n') < 0 && bytes.IndexByte(raw, '\r') < 0 {
		return append(dst, raw...)
	}
	buf := bytes.NewBuffer(dst)
	if err := json.Compact(buf, raw); err != nil {
		panic("protocol: raw JSON: " + err.Error())
	}
	return buf.Bytes()
}

// marshalAppender adapts an Appender to encoding/json.
func marshalAppender(a Appender) ([]byte, error) { return a.AppendJSON(nil), nil }

const hexDigits = "0123456789abcdef"

// plainEnd returns the position of the first byte from i on that is not ASCII
// or does not stand for itself inside a JSON string. It looks at eight bytes at
// a time.
func plainEnd(s string, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(s); i += 8 {
		w := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		quote, slash := w^(ones*'"'), w^(ones*'\\')
		if hit := (w | (quote-ones)&^quote | (slash-ones)&^slash | (w-ones*0x20)&^w) & highs; hit != 0 {
			return i + bits.TrailingZeros64(hit)>>3
		}
	}
	for i < len(s) && s[i] >= 0x20 && s[i] < utf8.RuneSelf && s[i] != '"' && s[i] != '\\' {
		i++
	}
	return i
}

// AppendString appends s as a JSON string, escaping what JSON.stringify
// escapes and nothing more. Bytes that are not UTF-8 become U+FFFD.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	dst = AppendEscaped(dst, s)
	return append(dst, '"')
}

// AppendEscaped appends the inside of s as a JSON string, without the quotes.
// Escaping is context-free, so AppendEscaped(AppendEscaped(d, a), b) equals
// AppendEscaped(d, a+b) when a ends at a character boundary; the encoder of
// growing messages relies on it.
func AppendEscaped(dst []byte, s string) []byte {
	start := 0
	for i := 0; i < len(s); {
		if i = plainEnd(s, i); i == len(s) {
			break
		}
		c := s[i]
		if c < utf8.RuneSelf {
			dst = append(dst, s[start:i]...)
			switch c {
			case '"', '\\':
				dst = append(dst, '\\', c)
			case '\n':
				dst = append(dst, '\\', 'n')
			case '\r':
				dst = append(dst, '\\', 'r')
			case '\t':
				dst = append(dst, '\\', 't')
			case '\b':
				dst = append(dst, '\\', 'b')
			case '\f':
				dst = append(dst, '\\', 'f')
			default:
				dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			}
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			dst = append(dst, s[start:i]...)
			dst = append(dst, "\uFFFD"...)
			i++
			start = i
			continue
		}
		i += size
	}
	return append(dst, s[start:]...)
}

// AppendFloat appends f as JavaScript prints it. NaN and infinities, which
// JSON cannot carry, become 0: they can only come from a broken price list.
func AppendFloat(dst []byte, f float64) []byte {
	if n := int64(f); float64(n) == f && -1e15 < f && f < 1e15 {
		return strconv.AppendInt(dst, n, 10)
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(dst, '0')
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	dst = strconv.AppendFloat(dst, f, format, -1, 64)
	if format == 'e' { // e-09 is e-9 in JavaScript
		if n := len(dst); n >= 4 && dst[n-4] == 'e' && (dst[n-3] == '-' || dst[n-3] == '+') && dst[n-2] == '0' {
			dst[n-2] = dst[n-1]
			dst = dst[:n-1]
		}
	}
	return dst
}

// object writes the members of a JSON object in the order they are given.
// The zero value of a member that its kind omits when empty is not written.
type object struct {
	b     []byte
	first bool
}

func openObject(dst []byte) object { return object{append(dst, '{'), true} }

func (o *object) key(k string) {
	if !o.first {
		o.b = append(o.b, ',')
	}
	o.first = false
	o.b = append(o.b, '"')
	o.b = append(o.b, k...)
	o.b = append(o.b, '"', ':')
}

func (o *object) str(k, v string) {
	o.key(k)
	o.b = AppendString(o.b, v)
}

func (o *object) optStr(k, v string) {
	if v != "" {
		o.str(k, v)
	}
}

// maybeStr leaves nil out, or writes null for it.
func (o *object) maybeStr(k string, v *string, null bool) {
	if v != nil || null {
		o.nullStr(k, v)
	}
}

// nullStr writes null for nil.
func (o *object) nullStr(k string, v *string) {
	if v == nil {
		o.raw(k, nil)
		return
	}
	o.str(k, *v)
}

func (o *object) strs(k string, list []string) {
	o.key(k)
	o.b = append(o.b, '[')
	for i, s := range list {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.b = AppendString(o.b, s)
	}
	o.b = append(o.b, ']')
}

func (o *object) int(k string, v int64) {
	o.key(k)
	o.b = strconv.AppendInt(o.b, v, 10)
}

func (o *object) float(k string, v float64) {
	o.key(k)
	o.b = AppendFloat(o.b, v)
}

func (o *object) bool(k string, v bool) {
	o.key(k)
	o.b = strconv.AppendBool(o.b, v)
}

func (o *object) optBool(k string, v bool) {
	if v {
		o.bool(k, v)
	}
}

func (o *object) raw(k string, v json.RawMessage) {
	o.key(k)
	o.b = appendRaw(o.b, v)
}

func (o *object) optRaw(k string, v json.RawMessage) {
	if len(v) > 0 {
		o.raw(k, v)
	}
}

func (o *object) app(k string, v Appender) {
	o.key(k)
	o.b = v.AppendJSON(o.b)
}

func (o *object) close() []byte { return append(o.b, '}') }

func appendList[T Appender](dst []byte, list []T) []byte {
	dst = append(dst, '[')
	for i, v := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = v.AppendJSON(dst)
	}
	return append(dst, ']')
}
