package protocol

import (
	"encoding/json"
	"slices"
)

// ArgsBuilder reads the JSON text of a tool call's arguments as it streams in
// and can at any time say what it amounts to so far: the longest prefix that
// makes an object, with open strings and brackets closed. Its cost per delta
// is the delta, not the text. The zero value is ready to use.
type ArgsBuilder struct {
	out   []byte // the text without white space between tokens
	stack []byte // open containers, '{' or '['
	mode  argMode
	cut   int // out[:cut] ends after the last finished value or opened container
	str   int // with modeString: out[:str] ends after the last whole character of the string
	isKey bool
	hex   int  // digits of \u still to come
	high  bool // a high surrogate waits for its other half
	code  rune
	lit   int  // where the number or literal in progress starts in out
	null  int  // with modeNull: how much of it there is
	deep  bool // it is broken because it is nested too deep
}

type argMode uint8

const (
	modeStart argMode = iota // nothing but white space so far
	modeValue
	modeKeyOrEnd   // after {
	modeValueOrEnd // after [
	modeKey        // after , in an object
	modeColon
	modeCommaOrEnd
	modeString
	modeEscape
	modeHex
	modeLiteral // number, true, false, null
	modeDone
	modeNull   // nothing but null, or its beginning
	modeBroken // not JSON, or not an object: what came before still counts
)

// Text is the JSON so far: fed to another builder, it brings that where this one is.
func (a *ArgsBuilder) Text() string { return string(a.out) }

// Feed reads the next piece.
func (a *ArgsBuilder) Feed(delta string) {
	for i := 0; i < len(delta); i++ {
		if a.mode == modeString { // the common case in one copy
			j := i
			for j < len(delta) && delta[j] != '"' && delta[j] != '\\' && delta[j] >= 0x20 {
				j++
			}
			if j > i {
				a.out = append(a.out, delta[i:j]...)
				a.high = false // its other half did not come: it stays alone, as JavaScript allows
				a.str = len(a.out)
				i = j - 1
				continue
			}
		}
		a.step(delta[i])
	}
}

func (a *ArgsBuilder) step(c byte) {
	switch a.mode {
	case modeBroken:
		return
	case modeNull:
		a.inNull(c)
		return
	case modeString:
		a.inString(c)
		return
	case modeEscape:
		a.inEscape(c)
		return
	case modeHex:
		a.inHex(c)
		return
	case modeLiteral:
		if isLiteralByte(c) {
			a.out = append(a.out, c)
			return
		}
		if !a.literalOK() {
			a.mode = modeBroken
			return
		}
		a.valueDone()
	}
	if c == ' ' || c == '\t' || c == '\n' || c == '\r' {
		return
	}
	switch a.mode {
	case modeStart:
		switch c {
		case '{':
			a.open(c)
		case 'n':
			a.mode, a.null = modeNull, 1
		default:
			a.mode = modeBroken
		}
	case modeKeyOrEnd, modeKey:
		switch {
		case c == '"':
			a.openString(true)
		case c == '}' && a.mode == modeKeyOrEnd:
			a.closeContainer(c)
		default:
			a.mode = modeBroken
		}
	case modeColon:
		if c != ':' {
			a.mode = modeBroken
			return
		}
		a.out = append(a.out, c)
		a.mode = modeValue
	case modeValue, modeValueOrEnd:
		a.value(c)
	case modeCommaOrEnd:
		top := a.stack[len(a.stack)-1]
		switch {
		case c == ',':
			a.out = append(a.out, c)
			a.mode = modeKey
			if top == '[' {
				a.mode = modeValue
			}
		case c == '}' && top == '{', c == ']' && top == '[':
			a.closeContainer(c)
		default:
			a.mode = modeBroken
		}
	case modeDone:
		a.mode = modeBroken
	case modeString, modeEscape, modeHex, modeLiteral, modeNull, modeBroken: // handled above
	}
}

func (a *ArgsBuilder) inNull(c byte) {
	const null = "null"
	switch {
	case a.null < len(null) && c == null[a.null]:
		a.null++
	case a.null == len(null) && (c == ' ' || c == '\t' || c == '\n' || c == '\r'):
	default:
		a.mode = modeBroken
	}
}

func (a *ArgsBuilder) value(c byte) {
	switch {
	case c == '{' || c == '[':
		a.open(c)
	case c == '"':
		a.openString(false)
	case c == ']' && a.mode == modeValueOrEnd:
		a.closeContainer(c)
	case isLiteralByte(c):
		a.lit = len(a.out)
		a.out = append(a.out, c)
		a.mode = modeLiteral
	default:
		a.mode = modeBroken
	}
}

// MaxArgDepth bounds how deep arguments are nested: most JSON parsers have such
// a bound, and clients read the arguments, too.
const MaxArgDepth = 1000

func (a *ArgsBuilder) open(c byte) {
	if len(a.stack) >= MaxArgDepth {
		a.mode, a.deep = modeBroken, true
		return
	}
	a.stack = append(a.stack, c)
	a.out = append(a.out, c)
	a.cut = len(a.out)
	a.mode = modeKeyOrEnd
	if c == '[' {
		a.mode = modeValueOrEnd
	}
}

func (a *ArgsBuilder) closeContainer(c byte) {
	a.out = append(a.out, c)
	a.stack = a.stack[:len(a.stack)-1]
	a.valueDone()
}

func (a *ArgsBuilder) valueDone() {
	a.cut = len(a.out)
	a.mode = modeCommaOrEnd
	if len(a.stack) == 0 {
		a.mode = modeDone
	}
}

func (a *ArgsBuilder) openString(isKey bool) {
	a.out = append(a.out, '"')
	a.str = len(a.out)
	a.isKey = isKey
	a.high = false
	a.mode = modeString
}

func (a *ArgsBuilder) inString(c byte) {
	switch {
	case c == '"':
		a.out = append(a.out, c)
		if a.isKey {
			a.mode = modeColon
			return
		}
		a.valueDone()
	case c == '\\':
		a.out = append(a.out, c)
		a.mode = modeEscape
	case c < 0x20: // a raw control character: not JSON, but models send raw line breaks
		a.out = AppendEscaped(a.out, string(rune(c)))
		a.str = len(a.out)
	default: // after a backslash that begins no escape
		a.out = append(a.out, c)
		a.str = len(a.out)
	}
}

func (a *ArgsBuilder) inEscape(c byte) {
	switch c {
	case 'u':
		a.out = append(a.out, c)
		a.hex, a.code, a.mode = 4, 0, modeHex
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		a.out = append(a.out, c)
		a.str, a.high, a.mode = len(a.out), false, modeString
	default:
		a.doubleBackslash(len(a.out)-1, c)
	}
}

// doubleBackslash takes a backslash literally that starts no valid escape: models write regular expressions
// and Windows paths like this. at is its index in the output; c is the byte that made the escape invalid, and
// is decoded next.
func (a *ArgsBuilder) doubleBackslash(at int, c byte) {
	a.out = slices.Insert(a.out, at, '\\')
	a.str, a.high, a.mode = len(a.out), false, modeString
	a.step(c)
}

func (a *ArgsBuilder) inHex(c byte) {
	var digit rune
	switch {
	case c >= '0' && c <= '9':
		digit = rune(c - '0')
	case c >= 'a' && c <= 'f':
		digit = rune(c-'a') + 10
	case c >= 'A' && c <= 'F':
		digit = rune(c-'A') + 10
	default: // the output so far ends with \u and up to three digits
		a.doubleBackslash(len(a.out)-(4-a.hex)-len(`\u`), c)
		return
	}
	a.out = append(a.out, c)
	a.code = a.code<<4 | digit
	if a.hex--; a.hex > 0 {
		return
	}
	a.mode = modeString
	a.high = a.code >= 0xD800 && a.code < 0xDC00
	if !a.high {
		a.str = len(a.out)
	}
}

func isLiteralByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c == '-' || c == '+' || c == '.' || c == 'E'
}

func (a *ArgsBuilder) literalOK() bool { return json.Valid(a.out[a.lit:]) }

// AppendJSON appends the object as far as it is known; {} if nothing is.
func (a *ArgsBuilder) AppendJSON(dst []byte) []byte {
	if len(a.stack) == 0 && a.mode != modeDone && a.cut == 0 {
		return append(dst, '{', '}')
	}
	inString := a.mode == modeString || a.mode == modeEscape || a.mode == modeHex
	switch {
	case inString && !a.isKey:
		dst = append(dst, a.out[:a.str]...)
		dst = append(dst, '"')
	case a.mode == modeLiteral && a.literalOK():
		dst = append(dst, a.out...)
	default:
		dst = append(dst, a.out[:a.cut]...)
	}
	for i := len(a.stack) - 1; i >= 0; i-- {
		dst = append(dst, a.stack[i]+2) // '{'+2 is '}', '['+2 is ']'
	}
	return dst
}

// TooDeep says whether the text was given up at [MaxArgDepth].
func (a *ArgsBuilder) TooDeep() bool { return a.deep }

// Complete says whether the text was one whole object. Empty text and null count
// as the empty object: some models send those for a tool without parameters.
func (a *ArgsBuilder) Complete() bool {
	return a.mode == modeDone || a.mode == modeStart || a.mode == modeNull && a.null == len("null")
}
