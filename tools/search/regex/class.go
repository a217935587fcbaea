package regex

import (
	"strings"
	"unicode"
)

// bracketed reads a class after its opening bracket at start, with nested
// classes and the operations &&, -- and ~~, which bind less than a list.
func (p *parser) bracketed(start int) runeSet {
	p.nest(start)
	defer func() { p.depth-- }()
	negated := p.accept("^")
	var set, operand runeSet
	operation := ""
	join := func() {
		switch operation {
		case "&&":
			set = intersection(set, operand)
		case "--":
			set = set.minus(operand)
		case "~~":
			set = union(set.minus(operand), operand.minus(set))
		default:
			set = operand
		}
		operand = nil
	}
	for p.skipSpace(); p.accept("-"); p.skipSpace() { // literals, as is a ] in their place
		operand = append(operand, p.caseSet('-', '-')...)
	}
	if len(operand) == 0 && p.accept("]") {
		operand = append(operand, p.caseSet(']', ']')...)
	}
	for {
		p.skipSpace()
		switch {
		case p.done():
			p.fail(start, start+1, "unclosed character class")
			return nil
		case p.accept("]"):
			join()
			if set = set.normalized(); negated {
				set = everything(p.flags.unicode).minus(set)
			}
			return set
		case p.accept("&&"), p.accept("--"), p.accept("~~"):
			join()
			operation = p.pattern[p.at-2 : p.at]
		default:
			operand = union(operand, p.classItem())
		}
	}
}

// classItem reads a nested class, a class escape, a character or a range.
func (p *parser) classItem() runeSet {
	start := p.at
	if p.peek() == '[' {
		if set, ok := p.posix(); ok {
			return set
		}
		p.next()
		return p.bracketed(start)
	}
	low, set := p.classCharacter()
	after := p.at
	p.skipSpace()
	rest := p.pattern[p.at:]
	switch {
	case p.err != nil:
		return nil
	case !strings.HasPrefix(rest, "-") || strings.HasPrefix(rest, "-]") || strings.HasPrefix(rest, "--"):
		if set != nil {
			return set
		}
		return p.caseSet(low, low)
	case set != nil:
		p.fail(start, after, "invalid range boundary, must be a literal")
		return nil
	}
	p.next()
	p.skipSpace()
	if p.done() {
		return nil // the caller reports the unclosed class
	}
	after = p.at
	high, set := p.classCharacter()
	switch {
	case set != nil:
		p.fail(after, p.at, "invalid range boundary, must be a literal")
	case p.err == nil && high < low:
		p.fail(start, p.at, "invalid character class range, the start must be <= the end")
	}
	return p.caseSet(low, high)
}

// classCharacter reads a character, or a class escape and returns its set.
func (p *parser) classCharacter() (r rune, set runeSet) {
	start := p.at
	if r = p.next(); r != '\\' {
		return r, nil
	}
	if set, ok := p.classEscape(); ok {
		if set == nil {
			set = runeSet{}
		}
		return 0, set
	}
	if next := p.peek(); next == 'A' || next == 'z' || next == 'b' || next == 'B' || next == '<' || next == '>' {
		p.fail(start, p.at+1, "invalid escape sequence found in character class")
		return 0, nil
	}
	return p.character(start), nil
}

// caseSet is a range, in either case if that does not matter.
func (p *parser) caseSet(low, high rune) runeSet {
	set := runeSet{low, high}
	if !p.flags.ignoreCase || low > unicode.MaxRune {
		return set
	}
	return set.folded(p.flags.unicode)
}

// posix reads [:name:] or [:^name:]; with another name that is a nested class.
func (p *parser) posix() (set runeSet, ok bool) {
	rest, ok := strings.CutPrefix(p.pattern[p.at:], "[:")
	if !ok {
		return nil, false
	}
	name, _, ok := strings.Cut(rest, ":]")
	if !ok {
		return nil, false
	}
	plain, negated := strings.CutPrefix(name, "^")
	set, known := posixSets[plain]
	if !known {
		return nil, false
	}
	p.at += len("[:") + len(name) + len(":]")
	if p.flags.ignoreCase {
		set = set.folded(p.flags.unicode)
	}
	if negated {
		set = everything(p.flags.unicode).minus(set)
	}
	return set, true
}
