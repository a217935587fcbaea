package search

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// compileGlob makes a regular expression of a glob in the syntax of ripgrep and
// fd, https://docs.rs/globset/latest/globset/#syntax: * and ? do not match a
// slash, classes do. It matches paths made by latin1, because a ? is a byte.
//
// If smartCase is set, a glob without capital letters matches either case, where
// fd decides by its own expression: by bytes, and by the ends of ranges.
func compileGlob(glob string, smartCase bool) (*regexp.Regexp, error) {
	p := globParser{glob: glob}
	if err := p.parse(); err != nil {
		return nil, err
	}
	if smartCase && !p.capital {
		p = globParser{glob: glob, anyCase: true}
		if err := p.parse(); err != nil {
			return nil, err
		}
	}
	tokens := p.groups[0][0]
	if len(tokens) == 1 && tokens[0].kind == globPrefix {
		return regexp.Compile("(?s)^.*$")
	}
	return regexp.Compile("(?s)^(?:" + expression(tokens) + ")$")
}

var (
	errEmptyGlob     = errors.New("it is empty")
	errUnclosedClass = errors.New("unclosed character class; missing ']'")
	errGlobRange     = errors.New("invalid range")
	errDangling      = errors.New(`dangling '\'`)
	errUnclosedGroup = errors.New("unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)")
	errUnopenedGroup = errors.New("unopened alternate group; missing '{' (maybe escape '}' with '[}]'?)")
)

type globKind int

const (
	globText   globKind = iota
	globSlash           // a slash that stands for itself
	globAny             // ?
	globStar            // *
	globPrefix          // **/
	globSuffix          // /**
	globMiddle          // /**/
)

// globToken is an element of a glob. The expression of text is complete.
type globToken struct {
	kind globKind
	text string
}

var globExpressions = map[globKind]string{
	globSlash: "/", globAny: "[^/]", globStar: "[^/]*", globPrefix: "(?:/?|.*/)", globSuffix: "/.*", globMiddle: "(?:/|/.*/)",
}

// globParser reads a glob. groups holds the branches of each open group of
// alternatives; the first is the glob itself.
type globParser struct {
	glob    string
	at      int
	before  rune // the character before the current one
	groups  [][][]globToken
	anyCase bool // letters of ASCII match either case
	capital bool // there is a capital letter
}

// branch opens a group.
func (p *globParser) branch() { p.groups = append(p.groups, [][]globToken{nil}) }

// tokens is the branch that is being read.
func (p *globParser) tokens() *[]globToken {
	group := p.groups[len(p.groups)-1]
	return &group[len(group)-1]
}

func (p *globParser) add(kind globKind) { *p.tokens() = append(*p.tokens(), globToken{kind: kind}) }

func (p *globParser) addText(text string) {
	*p.tokens() = append(*p.tokens(), globToken{globText, text})
}

func (p *globParser) peek() rune {
	if p.at >= len(p.glob) {
		return -1
	}
	r, _ := utf8.DecodeRuneInString(p.glob[p.at:])
	return r
}

// next reads a character.
func (p *globParser) next() (r rune, text string) {
	r, width := utf8.DecodeRuneInString(p.glob[p.at:])
	text = p.glob[p.at : p.at+width]
	p.at += width
	p.before = r
	return r, text
}

func (p *globParser) parse() error {
	p.branch()
	for p.at < len(p.glob) {
		before := p.before
		r, text := p.next()
		switch {
		case r == '?':
			p.add(globAny)
		case r == '*':
			p.star(before)
		case r == '/':
			p.add(globSlash)
		case r == '[':
			if err := p.class(); err != nil {
				return err
			}
		case r == '{':
			p.branch()
		case r == '}' && len(p.groups) == 1:
			return errUnopenedGroup
		case r == '}':
			group := p.groups[len(p.groups)-1]
			p.groups = p.groups[:len(p.groups)-1]
			p.addText(alternatives(group))
		case r == ',' && len(p.groups) > 1:
			last := len(p.groups) - 1
			p.groups[last] = append(p.groups[last], nil)
		case r == '\\':
			if p.at == len(p.glob) {
				return errDangling
			}
			_, text = p.next()
			p.literal(text)
		default:
			p.literal(text)
		}
	}
	if len(p.groups) > 1 {
		return errUnclosedGroup
	}
	return nil
}

// literal adds text that stands for itself, byte by byte.
func (p *globParser) literal(text string) {
	text = latin1(text)
	p.capital = p.capital || strings.ContainsFunc(text, unicode.IsUpper)
	quoted := regexp.QuoteMeta(text)
	if lower := strings.ToLower(text); p.anyCase && len(text) == 1 && lower >= "a" && lower <= "z" {
		quoted = "[" + lower + strings.ToUpper(text) + "]"
	}
	p.addText(quoted)
}

// star reads what begins with a star after the character before. Two are more
// than one only if they are all between slashes, commas and braces of groups.
func (p *globParser) star(before rune) {
	if p.peek() != '*' {
		p.add(globStar)
		return
	}
	p.at++
	next := p.peek()
	inGroup := len(p.groups) > 1
	suffix := next == -1 || inGroup && (next == ',' || next == '}')
	switch {
	case len(*p.tokens()) == 0 && (next == -1 || next == '/'):
		p.add(globPrefix)
	case len(*p.tokens()) == 0,
		before != '/' && (!inGroup || before != ',' && before != '{'),
		!suffix && next != '/':
		p.add(globStar)
		p.add(globStar)
		return
	default:
		tokens := p.tokens()
		last := (*tokens)[len(*tokens)-1]
		*tokens = (*tokens)[:len(*tokens)-1]
		switch {
		case last.kind == globPrefix || last.kind == globSuffix:
			p.add(last.kind)
		case suffix:
			p.add(globSuffix)
		default:
			p.add(globMiddle)
		}
	}
	if next == '/' {
		p.at++
		p.before = '/'
	}
}

// class reads a class in brackets. A range of bytes in it is one of the first
// and last bytes of its characters, as in the programs.
func (p *globParser) class() error {
	var pairs [][2]rune
	negated := p.peek() == '!' || p.peek() == '^'
	if negated {
		p.at++
	}
	inRange := false
	for first := true; ; first = false {
		if p.at == len(p.glob) {
			return errUnclosedClass
		}
		r, _ := p.next()
		if r == ']' && !first {
			break
		}
		switch {
		case inRange:
			last := &pairs[len(pairs)-1]
			if last[1] = r; r < last[0] {
				return errGlobRange
			}
			inRange = false
		case r == '-' && !first:
			inRange = true
		default:
			pairs = append(pairs, [2]rune{r, r})
		}
	}
	if inRange {
		pairs = append(pairs, [2]rune{'-', '-'})
	}
	p.addText(p.classExpression(pairs, negated))
	return nil
}

func (p *globParser) classExpression(pairs [][2]rune, negated bool) string {
	var set [256]bool
	for _, pair := range pairs {
		first, last := string(pair[0]), string(pair[1])
		if pair[0] == pair[1] {
			last = ""
		}
		for _, c := range []byte(first + last) {
			set[c] = true
		}
		if last != "" {
			for c := int(first[len(first)-1]); c <= int(last[0]); c++ {
				set[c] = true
			}
		}
	}
	if p.anyCase {
		for c := 'a'; c <= 'z'; c++ {
			either := set[c] || set[c-'a'+'A']
			set[c], set[c-'a'+'A'] = either, either
		}
	}
	var b strings.Builder
	b.WriteByte('[')
	for low := 0; low < len(set); low++ {
		if set[low] == negated {
			continue
		}
		high := low
		for high+1 < len(set) && set[high+1] != negated {
			high++
		}
		p.capital = p.capital || unicode.IsUpper(rune(low)) || unicode.IsUpper(rune(high))
		fmt.Fprintf(&b, `\x{%x}-\x{%x}`, low, high)
		low = high
	}
	b.WriteByte(']')
	return b.String()
}

// alternatives joins the branches of a group that are not empty.
func alternatives(group [][]globToken) string {
	var branches []string
	for _, tokens := range group {
		if e := expression(tokens); e != "" {
			branches = append(branches, e)
		}
	}
	if len(branches) == 0 {
		return ""
	}
	return "(?:" + strings.Join(branches, "|") + ")"
}

func expression(tokens []globToken) string {
	var b strings.Builder
	for _, token := range tokens {
		b.WriteString(token.text + globExpressions[token.kind])
	}
	return b.String()
}

// latin1 makes a character of each byte.
func latin1(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return s
	}
	runes := make([]rune, len(s))
	for i := range runes {
		runes[i] = rune(s[i])
	}
	return string(runes)
}
