package tools

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// sanitizer turns what a program writes to a terminal into plain text: valid
// UTF-8 without escape sequences and control characters; tabs and line feeds
// stay. Each run of bytes that are not UTF-8 becomes one U+FFFD. The text may
// come in chunks cut at any byte: the result is the same. The zero value is
// ready.
type sanitizer struct {
	state   escape
	part    [utf8.UTFMax]byte // an unfinished character at the end of the last chunk
	partLen int
	invalid bool // the last byte was not UTF-8
}

// escape is where in an escape sequence (ECMA-48) the text is.
type escape uint8

const (
	ground    escape = iota
	escaped          // after ESC
	escapedIn        // after ESC and intermediate bytes
	csi              // after ESC [: parameters up to a final byte
	str              // in an OSC, DCS, SOS, PM or APC string
	strEsc           // after ESC in one, which probably ends it
)

const esc = 0x1b

// append appends the plain text of chunk to dst.
func (s *sanitizer) append(dst, chunk []byte) []byte {
	for len(chunk) > 0 {
		if s.state == ground && s.partLen == 0 {
			n := plainRun(chunk)
			if n > 0 {
				s.invalid = false
				dst = append(dst, chunk[:n]...)
				chunk = chunk[n:]
				continue
			}
		}
		var r rune
		var ok bool
		if r, chunk, ok = s.decode(chunk); ok {
			dst = s.put(dst, r)
		}
	}
	return dst
}

// finish appends what an unfinished character at the very end stands for.
func (s *sanitizer) finish(dst []byte) []byte {
	if s.partLen == 0 {
		return dst
	}
	s.partLen = 0
	if s.invalid {
		return dst
	}
	return s.put(dst, utf8.RuneError)
}

// plainRun counts the leading bytes that are text as they are. It looks at
// eight bytes at a time; of the marks of those that are not, the lowest is
// right.
func plainRun(p []byte) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	i := 0
	for i+8 <= len(p) {
		w := binary.LittleEndian.Uint64(p[i:])
		del := w ^ ones*0x7f
		hit := (w | (w-ones*' ')&^w | (del-ones)&^del) & highs
		if hit == 0 {
			i += 8
			continue
		}
		if i += bits.TrailingZeros64(hit) >> 3; p[i] != '\n' && p[i] != '\t' {
			return i
		}
		i++
	}
	for ; i < len(p); i++ {
		if c := p[i]; (c < ' ' && c != '\n' && c != '\t') || c >= 0x7f {
			return i
		}
	}
	return len(p)
}

// decode takes one character from the last chunk's rest and chunk. Not ok
// means that there is none yet, or that it adds to a run of invalid bytes.
func (s *sanitizer) decode(chunk []byte) (r rune, rest []byte, ok bool) {
	had := s.partLen
	if had == 0 && chunk[0] < utf8.RuneSelf {
		s.invalid = false
		return rune(chunk[0]), chunk[1:], true
	}
	n := had + copy(s.part[had:], chunk)
	if !utf8.FullRune(s.part[:n]) {
		s.partLen = n
		return 0, chunk[n-had:], false
	}
	r, size := utf8.DecodeRune(s.part[:n])
	if size >= had {
		s.partLen = 0
		chunk = chunk[size-had:]
	} else { // the first byte was no start after all; look at the others again
		s.partLen = copy(s.part[:], s.part[size:had])
	}
	ok = true
	if r == utf8.RuneError && size == 1 {
		ok, s.invalid = !s.invalid, true
	} else {
		s.invalid = false
	}
	return r, chunk, ok
}

// put lets one character have its effect.
func (s *sanitizer) put(dst []byte, r rune) []byte {
	if s.swallow(r) || isControl(r) {
		return dst
	}
	return utf8.AppendRune(dst, r)
}

func isControl(r rune) bool {
	switch r {
	case '\n', '\t':
		return false
	case 0xFFF9, 0xFFFA, 0xFFFB: // interlinear annotations
		return true
	}
	return r < ' ' || 0x7f <= r && r <= 0x9f
}

// swallow says whether r belongs to an escape sequence.
func (s *sanitizer) swallow(r rune) bool {
	switch s.state {
	case str:
		return s.inString(r)
	case strEsc:
		if r == '\\' {
			s.state = ground
			return true
		}
		return s.afterEsc(r)
	case escaped:
		return s.afterEsc(r)
	case escapedIn:
		return s.inSequence(r, '/')
	case csi:
		return s.inSequence(r, '?')
	}
	return s.begin(r)
}

// begin is what r does outside of a sequence, and to one it does not fit in.
func (s *sanitizer) begin(r rune) bool {
	switch r {
	case esc:
		s.state = escaped
	case 0x9b:
		s.state = csi
	case 0x90, 0x98, 0x9d, 0x9e, 0x9f:
		s.state = str
	default:
		s.state = ground
		return false
	}
	return true
}

func (s *sanitizer) afterEsc(r rune) bool {
	switch {
	case r == '[':
		s.state = csi
	case r == ']', r == 'P', r == 'X', r == '^', r == '_':
		s.state = str
	case ' ' <= r && r <= '/':
		s.state = escapedIn
	case '0' <= r && r <= '~':
		s.state = ground
	default:
		return s.begin(r)
	}
	return true
}

// inSequence goes on after bytes up to last and ends with any above.
func (s *sanitizer) inSequence(r, last rune) bool {
	switch {
	case ' ' <= r && r <= last:
	case last < r && r <= '~':
		s.state = ground
	default:
		return s.begin(r)
	}
	return true
}

// inString ends with BEL, ST, CAN, SUB, and at the end of the line: a program
// that forgets the end must not hide all that follows.
func (s *sanitizer) inString(r rune) bool {
	switch r {
	case '\n':
		s.state = ground
		return false
	case esc:
		s.state = strEsc
	case 0x07, 0x18, 0x1a, 0x9c:
		s.state = ground
	}
	return true
}
