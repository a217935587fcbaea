package regex

import (
	"regexp/syntax"
	"strconv"
	"strings"
	"unicode/utf8"
)

// escape reads what follows a backslash outside of classes.
func (p *parser) escape() *syntax.Regexp {
	start := p.at - 1
	switch p.peek() {
	case 'A', 'z':
		return &syntax.Regexp{Op: map[rune]syntax.Op{'A': syntax.OpBeginText, 'z': syntax.OpEndText}[p.next()]}
	case 'b':
		p.next()
		return p.boundary()
	case 'B':
		p.next()
		if !p.flags.unicode {
			return &syntax.Regexp{Op: syntax.OpNoWordBoundary}
		}
		return assertion(noWordBoundary)
	case '<':
		p.next()
		return p.assertion(wordStart)
	case '>':
		p.next()
		return p.assertion(wordEnd)
	}
	if set, ok := p.classEscape(); ok {
		return p.class(set)
	}
	r := p.character(start)
	if p.err != nil {
		return nil
	}
	return p.literal(r)
}

// boundaries are the names in \b{name}.
var boundaries = map[string]rune{"start": wordStart, "end": wordEnd, "start-half": wordStartHalf, "end-half": wordEndHalf}

// boundary reads what follows \b: a name in braces, unless they are a count.
func (p *parser) boundary() *syntax.Regexp {
	plain := assertion(wordBoundary)
	if !p.flags.unicode {
		plain = &syntax.Regexp{Op: syntax.OpWordBoundary}
	}
	rest, ok := strings.CutPrefix(p.pattern[p.at:], "{")
	if !ok || strings.Trim(rest[:min(1, len(rest))], "0123456789, ") == "" { // a count
		return plain
	}
	start := p.at
	name, _, closed := strings.Cut(rest, "}")
	if !closed || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "" {
		p.fail(start, start+1+len(name), "special word boundary assertion is either unclosed or contains an invalid character")
		return nil
	}
	kind, known := boundaries[name]
	if !known {
		p.fail(start+1, start+1+len(name), "unrecognized special word boundary assertion, valid choices are: start, end, start-half or end-half")
		return nil
	}
	p.at += len(name) + len("{}")
	return p.assertion(kind)
}

// assertion makes one that looks at characters or, in ASCII mode, at bytes.
func (p *parser) assertion(kind rune) *syntax.Regexp {
	if !p.flags.unicode {
		kind += asciiWordStart - wordStart
	}
	return assertion(kind)
}

func assertion(kind rune) *syntax.Regexp {
	return &syntax.Regexp{Op: syntax.OpLiteral, Rune: []rune{kind}}
}

// classEscape reads \d, \pL and the like after the backslash, if one is next.
func (p *parser) classEscape() (set runeSet, ok bool) {
	start := p.at - 1
	r := p.peek()
	switch r {
	case 'd', 's', 'w', 'D', 'S', 'W':
		p.next()
		set = perlSet(r|0x20, p.flags.unicode)
	case 'p', 'P':
		p.next()
		set = p.property(start)
	default:
		return nil, false
	}
	if r < 'a' && p.err == nil {
		set = everything(p.flags.unicode).minus(set)
	}
	return set, true
}

func (p *parser) property(start int) (set runeSet) {
	name := ""
	switch {
	case p.done():
	case p.accept("{"):
		inside, _, closed := strings.Cut(p.pattern[p.at:], "}")
		if name = inside; !closed {
			p.fail(start, len(p.pattern), "incomplete escape sequence, reached end of pattern prematurely")
			return nil
		}
		p.at += len(inside) + 1
	default:
		name = string(p.next())
	}
	if name == "" {
		p.fail(start, p.at, "incomplete escape sequence, reached end of pattern prematurely")
		return nil
	}
	if !p.flags.unicode {
		p.fail(start, p.at, "Unicode not allowed here")
		return nil
	}
	set, problem := propertySet(name)
	if problem != "" {
		p.fail(start, p.at, problem)
		return nil
	}
	if p.flags.ignoreCase {
		set = set.folded(true)
	}
	return set
}

var controls = map[rune]rune{'a': '\a', 'f': '\f', 't': '\t', 'n': '\n', 'r': '\r', 'v': '\v'}

// character reads an escaped character after the backslash at start.
func (p *parser) character(start int) rune {
	if p.done() {
		p.fail(start, start+1, "incomplete escape sequence, reached end of pattern prematurely")
		return 0
	}
	r := p.next()
	control, isControl := controls[r]
	switch {
	case isControl:
		return control
	case r == 'x':
		return p.hexadecimal(start, 2)
	case r == 'u':
		return p.hexadecimal(start, 4)
	case r == 'U':
		return p.hexadecimal(start, 8)
	case '0' <= r && r <= '9':
		p.fail(start, p.at, "backreferences are not supported")
	case r >= utf8.RuneSelf || r == '<' || r == '>' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z':
		p.fail(start, p.at, "unrecognized escape sequence")
	}
	return r
}

// hexadecimal reads digits: as many as there are in braces, or a fixed number.
func (p *parser) hexadecimal(start, digits int) rune {
	from := p.at
	if p.accept("{") {
		from++
		digits = strings.IndexByte(p.pattern[from:], '}')
		if digits == 0 {
			p.fail(start, p.at+1, "hexadecimal literal empty")
			return 0
		}
	}
	if digits < 0 || from+digits > len(p.pattern) {
		p.fail(start, len(p.pattern), "incomplete escape sequence, reached end of pattern prematurely")
		return 0
	}
	text := p.pattern[from : from+digits]
	for i, r := range text {
		if !strings.ContainsRune("0123456789abcdefABCDEF", r) {
			p.fail(from+i, from+i+utf8.RuneLen(r), "invalid hexadecimal digit")
			return 0
		}
	}
	n, err := strconv.ParseUint(text, 16, 32)
	if err != nil || !utf8.ValidRune(rune(n)) {
		p.fail(from, from+digits, "hexadecimal literal is not a Unicode scalar value")
		return 0
	}
	braces := p.at > from-1 && p.pattern[from-1] == '{'
	if p.at = from + digits; braces {
		p.at++
	}
	if !p.flags.unicode && p.pattern[start+1] == 'x' && n >= utf8.RuneSelf && n <= 0xff {
		return firstByte + rune(n)
	}
	return rune(n)
}
