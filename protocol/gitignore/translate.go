package gitignore

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// translate makes a pattern of doublestar of one of git's: braces mean
// themselves, ** is more than * only as a whole name, and /** is not about the
// directory before it. It is not ok for what is malformed and matches nothing.
func translate(pattern string) (_ string, ok bool) {
	var out []byte
	whole := -1 // where the last ** that is a whole name ends in out, with its slash
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; c {
		case '*':
			rest := strings.TrimLeft(pattern[i:], "*")
			stars := len(pattern) - i - len(rest)
			if stars == 1 || i > 0 && pattern[i-1] != '/' || rest != "" && rest[0] != '/' && !strings.HasPrefix(rest, `\/`) {
				out = append(out, '*')
			} else {
				if len(out) == whole {
					out = out[:whole-len("**/")] // **/** is **
				}
				begins := len(out) == 0
				out = append(out, "**"...)
				whole = len(out) + len("/")
				if rest == "" && !begins || strings.HasPrefix(rest, `\`) { // one name at least
					out = append(out, "/*"...)
				}
			}
			i += stars - 1
		case '?':
			out = append(out, '?')
		case '[':
			set, end, ok := class(pattern, i)
			if !ok || !slices.Contains(set[:], true) {
				return "", false
			}
			out = appendClass(out, set)
			i = end
		case '\\':
			if i++; i == len(pattern) {
				return "", false
			}
			out = appendByte(out, pattern[i])
		default:
			out = appendByte(out, c)
		}
	}
	if rest, cut := strings.CutSuffix(string(out), "/"); cut { // no path ends like that
		return "", rest == "**"
	}
	return string(out), true
}

// appendByte appends a byte that means itself.
func appendByte(dst []byte, c byte) []byte {
	if strings.IndexByte(`*?[]{}\^!-`, c) >= 0 {
		dst = append(dst, '\\')
	}
	return utf8.AppendRune(dst, rune(c))
}

// appendClass appends a set of bytes in brackets.
func appendClass(dst []byte, set [256]bool) []byte {
	dst = append(dst, '[')
	for low := 0; low < len(set); low++ {
		if !set[low] {
			continue
		}
		high := low
		for high+1 < len(set) && set[high+1] {
			high++
		}
		dst = appendByte(dst, byte(low))
		if high > low {
			dst = appendByte(append(dst, '-'), byte(high))
		}
		low = high
	}
	return append(dst, ']')
}

// classNames are the names of sets that git knows. They mean what they mean in
// package regexp.
var classNames = []string{"alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "xdigit"}

// class reads the bracket expression at i: the bytes that it matches, among them
// never a slash, and where it ends.
func class(pattern string, i int) (set [256]bool, end int, ok bool) {
	i++
	negated := i < len(pattern) && (pattern[i] == '!' || pattern[i] == '^')
	if negated {
		i++
	}
	for first := true; ; first = false {
		switch {
		case i >= len(pattern):
			return set, i, false
		case pattern[i] == ']' && !first:
			for c := range set {
				set[c] = set[c] != negated && c != '/'
			}
			return set, i, true
		}
		if name, after, ok := className(pattern, i); ok {
			if !slices.Contains(classNames, name) {
				return set, i, false
			}
			named := regexp.MustCompile("[[:" + name + ":]]")
			for c := range set {
				set[c] = set[c] || named.MatchString(string(rune(c)))
			}
			i = after
			continue
		}
		low, after, ok := classByte(pattern, i)
		high := low
		if ok && after+1 < len(pattern) && pattern[after] == '-' && pattern[after+1] != ']' {
			high, after, ok = classByte(pattern, after+1)
		}
		if !ok {
			return set, i, false
		}
		set[low] = true // also of [b-a]
		for c := int(low); c <= int(high); c++ {
			set[c] = true
		}
		i = after
	}
}

// className reads [:name:] at i.
func className(pattern string, i int) (name string, after int, ok bool) {
	rest, ok := strings.CutPrefix(pattern[i:], "[:")
	if !ok {
		return "", i, false
	}
	name, _, closed := strings.Cut(rest, "]")
	name, colon := strings.CutSuffix(name, ":")
	return name, i + len("[:") + len(name) + len(":]"), closed && colon
}

// classByte reads one character of a bracket expression at i.
func classByte(pattern string, i int) (c byte, after int, ok bool) {
	if i < len(pattern) && pattern[i] == '\\' {
		i++
	}
	if i >= len(pattern) {
		return 0, i, false
	}
	return pattern[i], i + 1, true
}
