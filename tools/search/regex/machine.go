package regex

import (
	"regexp/syntax"
	"unicode"
	"unicode/utf8"
)

// Instructions for characters above unicode.MaxRune have another meaning: the
// assertions that package regexp/syntax does not have, and single bytes that
// are not part of valid UTF-8.
const (
	wordBoundary rune = unicode.MaxRune + 1 + iota
	noWordBoundary
	wordStart
	wordEnd
	wordStartHalf
	wordEndHalf
	asciiWordStart // of (?-u), in the same order
	asciiWordEnd
	asciiWordStartHalf
	asciiWordEndHalf

	assertionsEnd
	firstByte rune = unicode.MaxRune + 0x101 // of byte 0
)

// machine simulates a program in all its states at once.
type machine struct {
	prog          *syntax.Prog
	current, next states
}

// states is a set of instructions in the order they were added.
type states struct {
	list []uint32
	slot []uint32 // where in list an instruction is
}

func (s *states) has(pc uint32) bool {
	at := s.slot[pc]
	return int(at) < len(s.list) && s.list[at] == pc
}

func (s *states) insert(pc uint32) {
	s.slot[pc] = uint32(len(s.list))
	s.list = append(s.list, pc)
}

func (m *machine) match(line []byte) bool {
	if m.current.slot == nil {
		m.current.slot = make([]uint32, len(m.prog.Inst))
		m.next.slot = make([]uint32, len(m.prog.Inst))
	}
	m.current.list = m.current.list[:0]
	before, after, width := rune(-1), rune(-1), 0
	for {
		if after, width = decode(line); len(line) == 0 {
			after = -1
		}
		if m.add(&m.current, uint32(m.prog.Start), before, after) {
			return true
		}
		if len(line) == 0 {
			return false
		}
		line = line[width:]
		following, _ := decode(line)
		if len(line) == 0 {
			following = -1
		}
		m.next.list = m.next.list[:0]
		for _, pc := range m.current.list {
			if inst := &m.prog.Inst[pc]; takes(inst, after) && m.add(&m.next, inst.Out, after, following) {
				return true
			}
		}
		m.current, m.next = m.next, m.current
		before = after
	}
}

// add adds an instruction and those that follow without a character. It returns
// true if one of them is a match.
func (m *machine) add(s *states, pc uint32, before, after rune) bool {
	for !s.has(pc) {
		s.insert(pc)
		inst := &m.prog.Inst[pc]
		switch inst.Op {
		case syntax.InstMatch:
			return true
		case syntax.InstAlt, syntax.InstAltMatch:
			if m.add(s, inst.Out, before, after) {
				return true
			}
			pc = inst.Arg
			continue
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(inst.Arg)&^syntax.EmptyOpContext(before, after) != 0 {
				return false
			}
		case syntax.InstCapture, syntax.InstNop:
		case syntax.InstRune1:
			if r := inst.Rune[0]; r <= unicode.MaxRune || r >= assertionsEnd || !holds(r, before, after) {
				return false
			}
		default:
			return false
		}
		pc = inst.Out
	}
	return false
}

// takes reports whether an instruction consumes a character.
func takes(inst *syntax.Inst, r rune) bool {
	switch inst.Op {
	case syntax.InstRune, syntax.InstRune1:
		return inst.MatchRune(r)
	case syntax.InstRuneAny:
		return r <= unicode.MaxRune
	case syntax.InstRuneAnyNotNL:
		return r <= unicode.MaxRune && r != '\n'
	}
	return false
}

// decode returns the first character of a line, above firstByte for a byte that
// is not UTF-8.
func decode(line []byte) (r rune, width int) {
	r, width = utf8.DecodeRune(line)
	if r == utf8.RuneError && width == 1 {
		r = firstByte + rune(line[0])
	}
	return r, width
}

// holds evaluates an assertion between two characters; -1 is the end of a line.
// Those about a side without a word never hold beside an invalid byte, except in
// ASCII mode.
func holds(assertion, before, after rune) bool {
	is, valid := isWord, func(r rune) bool { return r < firstByte }
	if assertion >= asciiWordStart {
		is, valid = syntax.IsWordChar, func(rune) bool { return true }
		assertion += wordStart - asciiWordStart
	}
	left, right := is(before), is(after)
	switch assertion {
	case wordBoundary:
		return left != right
	case noWordBoundary:
		return left == right && valid(before) && valid(after)
	case wordStart:
		return !left && right
	case wordEnd:
		return left && !right
	case wordStartHalf:
		return !left && valid(before)
	default:
		return !right && valid(after)
	}
}

func isWord(r rune) bool {
	if r < utf8.RuneSelf {
		return syntax.IsWordChar(r)
	}
	return r <= unicode.MaxRune && wordSet().contains(r)
}
