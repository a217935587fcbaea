package regex

import (
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// flags are those of (?i) and the like that matter for a single line.
type flags struct {
	ignoreCase bool
	dotAll     bool
	swapGreed  bool
	unicode    bool
	extended   bool // white space and comments do not count
}

// maxNesting is the depth of groups and classes.
const maxNesting = 250

// parser reads a pattern into a syntax tree of package regexp/syntax. The first
// error moves it to the end.
type parser struct {
	pattern string
	at      int // in bytes
	flags   flags
	depth   int
	names   []string // of groups
	err     error
}

func (p *parser) fail(start, end int, text string) {
	if p.err == nil {
		p.err = &parseError{p.pattern, min(start, len(p.pattern)), min(end, len(p.pattern)), text}
	}
	p.at = len(p.pattern)
}

func (p *parser) done() bool { return p.at >= len(p.pattern) }

// peek returns the next character, or -1 at the end.
func (p *parser) peek() rune {
	if p.done() {
		return -1
	}
	r, _ := utf8.DecodeRuneInString(p.pattern[p.at:])
	return r
}

func (p *parser) next() rune {
	r, width := utf8.DecodeRuneInString(p.pattern[p.at:])
	p.at += width
	return r
}

// accept skips text if it is next.
func (p *parser) accept(text string) bool {
	if !strings.HasPrefix(p.pattern[p.at:], text) {
		return false
	}
	p.at += len(text)
	return true
}

// skipSpace skips white space and comments in extended mode.
func (p *parser) skipSpace() {
	for p.flags.extended && !p.done() {
		switch r := p.peek(); {
		case unicode.IsSpace(r):
			p.next()
		case r == '#':
			if end := strings.IndexByte(p.pattern[p.at:], '\n'); end >= 0 {
				p.at += end + 1
			} else {
				p.at = len(p.pattern)
			}
		default:
			return
		}
	}
}

func (p *parser) text() *syntax.Regexp {
	re := &syntax.Regexp{Op: syntax.OpEmptyMatch}
	if p.pattern != "" {
		re = p.literal([]rune(p.pattern)...)
	}
	return re
}

func (p *parser) parse() *syntax.Regexp {
	re := p.alternation()
	if p.peek() == ')' {
		p.fail(p.at, p.at+1, "unopened group")
	}
	return re
}

// alternation reads up to the end or a closing parenthesis.
func (p *parser) alternation() *syntax.Regexp {
	var branches, items []*syntax.Regexp
	repeatable := false // the last item can have a repetition
	for {
		p.skipSpace()
		switch r := p.peek(); r {
		case -1, ')':
			branches = append(branches, concatenation(items))
			if len(branches) == 1 {
				return branches[0]
			}
			return &syntax.Regexp{Op: syntax.OpAlternate, Sub: branches}
		case '|':
			p.next()
			branches, items, repeatable = append(branches, concatenation(items)), nil, false
		case '*', '+', '?', '{':
			if !repeatable {
				p.fail(p.at, p.at+1, "repetition operator missing expression")
				continue
			}
			items[len(items)-1] = p.repetition(items[len(items)-1])
		default:
			item := p.item()
			if repeatable = item != nil; repeatable {
				items = append(items, item)
			}
		}
	}
}

// concatenation joins items, and neighbouring characters to one text.
func concatenation(items []*syntax.Regexp) *syntax.Regexp {
	var joined []*syntax.Regexp
	for _, item := range items {
		if n := len(joined); n > 0 && isText(item) && isText(joined[n-1]) && joined[n-1].Flags == item.Flags {
			last := *joined[n-1]
			last.Rune = append(slices.Clip(last.Rune), item.Rune...)
			joined[n-1] = &last
			continue
		}
		joined = append(joined, item)
	}
	switch len(joined) {
	case 0:
		return &syntax.Regexp{Op: syntax.OpEmptyMatch}
	case 1:
		return joined[0]
	}
	return &syntax.Regexp{Op: syntax.OpConcat, Sub: joined}
}

func isText(re *syntax.Regexp) bool {
	return re.Op == syntax.OpLiteral && re.Rune[0] <= unicode.MaxRune
}

// repetition reads *, +, ? or a count after an item.
func (p *parser) repetition(item *syntax.Regexp) *syntax.Regexp {
	re := &syntax.Regexp{Sub: []*syntax.Regexp{item}}
	switch p.peek() {
	case '{':
		re.Op = syntax.OpRepeat
		re.Min, re.Max = p.counts()
	case '*':
		re.Op = syntax.OpStar
	case '+':
		re.Op = syntax.OpPlus
	default:
		re.Op = syntax.OpQuest
	}
	if re.Op != syntax.OpRepeat {
		p.next()
	}
	p.skipSpace()
	if p.accept("?") != p.flags.swapGreed {
		re.Flags |= syntax.NonGreedy
	}
	return re
}

// counts reads {n}, {n,} or {n,m}; most is -1 for any number.
func (p *parser) counts() (least, most int) {
	start := p.at
	p.next()
	least = p.decimal(start)
	most = least
	if p.skipSpace(); p.accept(",") {
		p.skipSpace()
		if most = -1; p.peek() != '}' {
			most = p.decimal(start)
		}
	}
	if p.skipSpace(); p.err == nil && !p.accept("}") {
		p.fail(start, p.at, "unclosed counted repetition")
	}
	if p.err == nil && most >= 0 && most < least {
		p.fail(start, p.at, "invalid repetition count range, the start must be <= the end")
	}
	return least, most
}

func (p *parser) decimal(start int) int {
	space := func() {
		for unicode.IsSpace(p.peek()) {
			p.next()
		}
	}
	space()
	from := p.at
	for r := p.peek(); '0' <= r && r <= '9'; r = p.peek() {
		p.next()
	}
	digits := p.pattern[from:p.at]
	space()
	n, err := strconv.ParseUint(digits, 10, 31)
	switch {
	case p.done():
		p.fail(start, from, "unclosed counted repetition")
	case digits == "":
		p.fail(from, from, "repetition quantifier expects a valid decimal")
	case err != nil:
		p.fail(from, p.at, "decimal literal invalid")
	}
	return int(n)
}

// item reads one thing that can be repeated, or flags, which are nil.
func (p *parser) item() *syntax.Regexp {
	switch r := p.next(); r {
	case '(':
		return p.group()
	case '[':
		return p.class(p.bracketed(p.at - 1))
	case '.':
		return p.class(p.anyCharacter())
	case '^':
		return &syntax.Regexp{Op: syntax.OpBeginText}
	case '$':
		return &syntax.Regexp{Op: syntax.OpEndText}
	case '\\':
		return p.escape()
	default:
		return p.literal(r)
	}
}

func (p *parser) anyCharacter() runeSet {
	all := everything(p.flags.unicode)
	if p.flags.dotAll {
		return all
	}
	return all.minus(runeSet{'\n', '\n'})
}

func (p *parser) literal(runes ...rune) *syntax.Regexp {
	re := &syntax.Regexp{Op: syntax.OpLiteral, Rune: runes}
	switch {
	case !p.flags.ignoreCase || runes[0] > unicode.MaxRune:
	case p.flags.unicode:
		re.Flags = syntax.FoldCase
	default:
		return p.class(runeSet{runes[0], runes[0]}.folded(false))
	}
	return re
}

func (p *parser) class(set runeSet) *syntax.Regexp {
	if len(set) == 0 {
		return &syntax.Regexp{Op: syntax.OpNoMatch}
	}
	return &syntax.Regexp{Op: syntax.OpCharClass, Rune: set}
}

// nest counts a level of nesting, which the caller leaves with p.depth--.
func (p *parser) nest(start int) {
	if p.depth++; p.depth > maxNesting {
		p.fail(start, p.at, "exceeded the maximum number of nested parentheses/brackets ("+strconv.Itoa(maxNesting)+")")
	}
}

// group reads what follows an opening parenthesis.
func (p *parser) group() *syntax.Regexp {
	start := p.at - 1
	before := p.flags
	p.skipSpace()
	for _, look := range []string{"?=", "?!", "?<=", "?<!"} {
		if p.accept(look) {
			p.fail(start, p.at, "look-around, including look-ahead and look-behind, is not supported")
			return nil
		}
	}
	switch {
	case p.accept("?P<") || p.accept("?<"):
		p.groupName()
	case p.accept("?"):
		if p.groupFlags(start); p.err == nil && p.pattern[p.at-1] == ')' {
			return nil // for the rest of the group around it
		}
	}
	p.nest(start)
	inner := p.alternation()
	p.depth--
	if p.err == nil && !p.accept(")") {
		p.fail(start, start+1, "unclosed group")
	}
	p.flags = before
	if inner == nil || inner.Op == syntax.OpEmptyMatch {
		return &syntax.Regexp{Op: syntax.OpEmptyMatch}
	}
	return &syntax.Regexp{Op: syntax.OpConcat, Sub: []*syntax.Regexp{inner}} // not one text with its neighbours
}

func (p *parser) groupName() {
	start := p.at
	end := strings.IndexByte(p.pattern[start:], '>')
	if end < 0 {
		p.fail(start, len(p.pattern), "unclosed capture group name")
		return
	}
	name := p.pattern[start : start+end]
	for i, r := range name {
		letter := r == '_' || unicode.IsLetter(r)
		if !letter && (i == 0 || r != '.' && r != '[' && r != ']' && !unicode.IsDigit(r)) {
			p.fail(start+i, start+i+utf8.RuneLen(r), "invalid capture group character")
			return
		}
	}
	switch {
	case name == "":
		p.fail(start, start, "empty capture group name")
		return
	case slices.Contains(p.names, name):
		p.fail(start, start+end, "duplicate capture group name")
		return
	}
	p.names = append(p.names, name)
	p.at = start + end + 1
}

// groupFlags reads flags up to : or ).
func (p *parser) groupFlags(start int) {
	on, seen := true, ""
	from := p.at
	for !p.done() {
		r := p.next()
		switch {
		case r == ':' || r == ')':
			switch {
			case r == ')' && p.at-1 == from:
				p.fail(p.at-2, p.at-1, "repetition operator missing expression")
			case !on && strings.HasSuffix(p.pattern[:p.at-1], "-"):
				p.fail(p.at-2, p.at-1, "dangling flag negation operator")
			}
			return
		case strings.ContainsRune(seen, r):
			p.fail(p.at-1, p.at, "duplicate flag")
			return
		}
		seen += string(r)
		switch r {
		case '-':
			on = false
		case 'i':
			p.flags.ignoreCase = on
		case 's':
			p.flags.dotAll = on
		case 'U':
			p.flags.swapGreed = on
		case 'u':
			p.flags.unicode = on
		case 'x':
			p.flags.extended = on
		case 'm', 'R': // a line has no line ends inside
		default:
			p.fail(p.at-utf8.RuneLen(r), p.at, "unrecognized flag")
			return
		}
	}
	p.fail(start, start+1, "unclosed group")
}
