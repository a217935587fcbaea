package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"
)

// Appender is implemented by values that write their own JSON. It is how
// everything on the hot path is encoded: no reflection, no intermediate copy,
// and bytes as JSON.stringify would write them.
type Appender interface {
	// AppendJSON appends the value's JSON to dst and returns the result.
	AppendJSON(dst []byte) []byte
}

// DialectAppender is an Appender that some dialects have in another form.
type DialectAppender interface {
	// AppendAs appends the value's JSON in a dialect; "" is what files have.
	AppendAs(dst []byte, d Dialect) []byte
}

// AppendRaw appends JSON that somebody else wrote. Line breaks between tokens
// would break the framing, so such a value is compacted first.
func AppendRaw(dst []byte, raw json.RawMessage) []byte {
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

// JSON is a value as encoding/json writes it. One that cannot be written is a programming
// error, and panics.
func JSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("protocol: encode %T: %s", v, err))
	}
	return raw
}

// maxDepth is how deep jsontext lets values be nested.
const maxDepth = 10_000

// ValidJSON says whether raw is one JSON value that is not nested too deeply, and
// so may be given to gjson, which answers on anything. Duplicate names and lone
// surrogates are allowed, as JavaScript allows them.
func ValidJSON(raw []byte) bool {
	// gjson's check is twice as fast and recurses as deep as its input goes: it sees
	// only what is too short to be too deep. FuzzValidJSON holds the two to each other.
	if len(raw) <= maxDepth {
		return gjson.ValidBytes(raw)
	}
	return jsontext.Value(raw).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// Members reads members of an object in one pass: each name's value into the pointer at
// its place, where nothing stays what it was. Of duplicates the last counts, as in
// JavaScript.
func Members(object gjson.Result, names []string, into ...*gjson.Result) {
	object.ForEach(func(key, value gjson.Result) bool {
		for i, name := range names {
			if name == key.Str {
				*into[i] = value
				break
			}
		}
		return true
	})
}

// lenient reads what JavaScript reads: of duplicate names the last counts, lone
// surrogates become U+FFFD. Names differ from a field's in case only where
// encoding/json wrote or read the file before.
var lenient = jsonv2.JoinOptions(
	jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsonv2.MatchCaseInsensitiveNames(true),
)

// Unmarshal reads the JSON of a session file into what v points to. It is
// encoding/json's, and three times as fast: a long session is read with it.
func Unmarshal(raw []byte, v any) error { return jsonv2.Unmarshal(raw, v, lenient) }

const hexDigits = "0123456789abcdef"

// word is the first eight bytes, the very first one lowest.
func word[T string | json.RawMessage](s T) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// plainEnd returns the position of the first byte from i on that is not ASCII
// or does not stand for itself inside a JSON string. It looks at eight bytes at
// a time.
func plainEnd(s string, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(s); i += 8 {
		w := word(s[i:])
		quote, slash := w^(ones*'"'), w^(ones*'\\')
		if hit := (w | (quote-ones)&^quote | (slash-ones)&^slash | (w-ones*0x20)&^w) & highs; hit != 0 {
			return i + bits.TrailingZeros64(hit)>>3
		}
	}
	for i < len(s) && plain[s[i]] {
		i++
	}
	return i
}

// plain are the bytes that plainEnd goes over.
var plain = func() (list [256]bool) {
	for c := range list {
		list[c] = c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\'
	}
	return list
}()

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
	// Prices: a decimal of no more than 15 digits that is read as f is the
	// shortest one that is.
	if n := int64(f*1e6 + 0.5); 0 < f && f < 1e9 && float64(n)/1e6 == f {
		dst = append(strconv.AppendInt(dst, n/1e6, 10), '.')
		for rest, unit := n%1e6, int64(1e5); rest > 0; rest, unit = rest%unit, unit/10 {
			dst = append(dst, '0'+byte(rest/unit))
		}
		return dst
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

// Object writes the members of a JSON object in the order they are given. Of
// each pair of methods the one with Opt leaves out a zero value. The zero Object
// goes on with an object that has members already.
type Object struct {
	B     []byte // what is written so far
	first bool   // there is no member yet
}

// OpenObject begins an object behind dst.
func OpenObject(dst []byte) Object { return Object{append(dst, '{'), true} }

// Key begins a member; its value is to be appended to B.
func (o *Object) Key(k string) {
	if !o.first {
		o.B = append(o.B, ',')
	}
	o.first = false
	o.B = append(o.B, '"')
	o.B = append(o.B, k...)
	o.B = append(o.B, '"', ':')
}

// Str writes a string.
func (o *Object) Str(k, v string) {
	o.Key(k)
	o.B = AppendString(o.B, v)
}

// OptStr is Str, but for the empty string.
func (o *Object) OptStr(k, v string) {
	if v != "" {
		o.Str(k, v)
	}
}

// Int writes a whole number.
func (o *Object) Int(k string, v int64) {
	o.Key(k)
	o.B = strconv.AppendInt(o.B, v, 10)
}

// Bool writes true or false.
func (o *Object) Bool(k string, v bool) {
	o.Key(k)
	o.B = strconv.AppendBool(o.B, v)
}

// Raw writes JSON that somebody else wrote; none is null.
func (o *Object) Raw(k string, v json.RawMessage) {
	o.Key(k)
	o.B = AppendRaw(o.B, v)
}

// OptRaw is Raw, but for none.
func (o *Object) OptRaw(k string, v json.RawMessage) {
	if len(v) > 0 {
		o.Raw(k, v)
	}
}

// Close ends the object and returns what was written.
func (o *Object) Close() []byte { return append(o.B, '}') }

// AppendList appends an array of values.
func AppendList[T Appender](dst []byte, list []T) []byte {
	dst = append(dst, '[')
	for i, v := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = v.AppendJSON(dst)
	}
	return append(dst, ']')
}

// SyntaxError says where text stops being JSON. It repeats nothing of it.
func SyntaxError(text []byte) error {
	var v any
	err := json.Unmarshal(text, &v)
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return errors.New("not valid JSON")
	}
	before := text[:min(int(syntax.Offset), len(text))]
	return fmt.Errorf("line %d: %w", bytes.Count(before, []byte("\n"))+1, err)
}
