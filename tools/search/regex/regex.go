// Package regex matches single lines against regular expressions in the syntax
// of Rust's regex crate, which is ripgrep's: https://docs.rs/regex/latest/regex/#syntax.
//
// Go's regexp does most of the work. It lacks Unicode word boundaries and takes
// an invalid byte for U+FFFD, so a small simulation of the same program decides
// where these matter.
package regex

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Options change the meaning of a pattern.
type Options struct {
	Literal    bool // the pattern is plain text
	IgnoreCase bool
}

// Regexp is a compiled pattern. It is not safe for concurrent use.
type Regexp struct {
	// filter matches every line that the pattern matches, and possibly more.
	// It is nil for patterns that package regexp refuses, such as a{2000}.
	filter  *regexp.Regexp
	exact   bool // filter decides for lines of valid UTF-8
	tree    *syntax.Regexp
	machine machine
}

// maxProgram is the number of instructions that a pattern may compile to.
const maxProgram = 100_000

// Compile parses a pattern. An error shows the pattern and the position.
func Compile(pattern string, options Options) (*Regexp, error) {
	p := parser{pattern: pattern, flags: flags{unicode: true, ignoreCase: options.IgnoreCase}}
	var tree *syntax.Regexp
	switch {
	case !utf8.ValidString(pattern):
		return nil, errors.New("regex parse error: the pattern is not valid UTF-8")
	case options.Literal:
		tree = p.text()
	default:
		tree = p.parse()
	}
	if p.err != nil {
		return nil, p.err
	}
	if err := checkLiterals(tree); err != nil {
		return nil, err
	}
	if programSize(tree) > maxProgram {
		return nil, fmt.Errorf("compiled regex exceeds size limit of %d instructions", maxProgram)
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, fmt.Errorf("regex parse error: %w", err)
	}
	widened, exact := widen(tree)
	r := &Regexp{tree: widened, exact: exact, machine: machine{prog: prog}}
	var source strings.Builder
	goPattern(&source, widened)
	if filter, err := regexp.Compile(source.String()); err == nil {
		r.filter = filter
	}
	return r, nil
}

// Tree is the syntax tree of a pattern that matches at least the same lines.
func (r *Regexp) Tree() *syntax.Regexp { return r.tree }

// Text returns the text that the pattern stands for if it is nothing but text.
func (r *Regexp) Text() (text string, ok bool) {
	if r.filter == nil || !r.exact {
		return "", false
	}
	return r.filter.LiteralPrefix()
}

// Match reports whether a line, without its line end, has a match.
func (r *Regexp) Match(line []byte) bool {
	if r.filter != nil {
		if !r.filter.Match(line) {
			return false
		}
		if r.exact && utf8.Valid(line) {
			return true
		}
	}
	return r.machine.match(line)
}

// Index returns the approximate start of the first match in a line that has one.
func (r *Regexp) Index(line []byte) int {
	if r.filter != nil {
		if at := r.filter.FindIndex(line); at != nil {
			return at[0]
		}
	}
	return 0
}

// checkLiterals refuses patterns with a character that no line has.
func checkLiterals(re *syntax.Regexp) error {
	var r rune
	switch {
	case re.Op == syntax.OpLiteral:
		for _, r = range re.Rune {
			if r == '\n' || r == 0 {
				break
			}
		}
	case re.Op == syntax.OpCharClass && len(re.Rune) == 2 && re.Rune[0] == re.Rune[1]:
		r = re.Rune[0]
	default:
		r = ' '
	}
	switch {
	case r == '\n':
		return errors.New(`the literal "\n" is not allowed in a regex: matches do not span lines`)
	case r == 0 && len(re.Rune) > 0:
		return errors.New(`pattern contains "\0" but it is impossible to match`)
	}
	for _, sub := range re.Sub {
		if err := checkLiterals(sub); err != nil {
			return err
		}
	}
	return nil
}

// programSize estimates the number of instructions, at most a little more than
// maxProgram.
func programSize(re *syntax.Regexp) int {
	size := 1 + len(re.Rune)
	if re.Op == syntax.OpCharClass {
		size = 1
	}
	for _, sub := range re.Sub {
		size = min(size+programSize(sub), maxProgram+1)
	}
	if re.Op == syntax.OpRepeat {
		size = min(size, maxProgram) * max(re.Min, re.Max, 1)
	}
	return min(size, maxProgram+1)
}

// widen replaces the parts that package regexp does not know by ones that match
// at least as much. It is exact if there were none.
func widen(re *syntax.Regexp) (_ *syntax.Regexp, exact bool) {
	switch {
	case re.Op == syntax.OpLiteral && re.Rune[0] > unicode.MaxRune:
		return &syntax.Regexp{Op: syntax.OpEmptyMatch}, false
	case re.Op == syntax.OpCharClass && len(re.Rune) > 0 && re.Rune[len(re.Rune)-1] > unicode.MaxRune:
		valid := runeSet{utf8.RuneError, utf8.RuneError}
		for i := 0; i < len(re.Rune); i += 2 {
			if low, high := re.Rune[i], min(re.Rune[i+1], unicode.MaxRune); low <= high {
				valid = append(valid, low, high)
			}
		}
		return &syntax.Regexp{Op: syntax.OpCharClass, Flags: re.Flags, Rune: valid.normalized()}, false
	case len(re.Sub) == 0:
		return re, true
	}
	wide := *re
	wide.Sub = make([]*syntax.Regexp, len(re.Sub))
	exact = true
	for i, sub := range re.Sub {
		var same bool
		wide.Sub[i], same = widen(sub)
		exact = exact && same
	}
	return &wide, exact
}

// parseError is an error at a place of a pattern, as ripgrep shows it.
type parseError struct {
	pattern    string
	start, end int // in bytes
	text       string
}

func (e *parseError) Error() string {
	if strings.ContainsRune(e.pattern, '\n') || len(e.pattern) > 500 {
		return fmt.Sprintf("regex parse error at offset %d: %s", e.start, e.text)
	}
	before := utf8.RuneCountInString(e.pattern[:e.start])
	marked := max(utf8.RuneCountInString(e.pattern[e.start:e.end]), 1)
	return fmt.Sprintf("regex parse error:\n    %s\n    %s%s\nerror: %s", e.pattern, strings.Repeat(" ", before), strings.Repeat("^", marked), e.text)
}
