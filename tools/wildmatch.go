package tools

import "strings"

// matchWild matches a path with a git pattern: * and ? stay within a name, **
// as a whole name stands for any number of names, [a-z] and [[:alpha:]] for one
// byte, \ takes the next character as it is. A malformed pattern matches
// nothing.
func matchWild(pattern, path string) bool {
	m := wildMatcher{pattern: pattern, path: path}
	return m.match(0, 0)
}

// wildMatcher remembers which positions lead nowhere, so that many stars do not
// cost more than the product of the lengths.
type wildMatcher struct {
	pattern, path string
	failed        map[[2]int]bool
}

func (m *wildMatcher) match(p, s int) bool {
	for p < len(m.pattern) {
		c := m.pattern[p]
		if c == '*' {
			return m.matchStar(p, s)
		}
		if s == len(m.path) {
			return false
		}
		next, ok := m.matchOne(p, m.path[s])
		if !ok {
			return false
		}
		p, s = next, s+1
	}
	return s == len(m.path)
}

// matchOne matches one byte with the pattern at p and returns where the pattern
// goes on.
func (m *wildMatcher) matchOne(p int, b byte) (next int, ok bool) {
	switch c := m.pattern[p]; c {
	case '?':
		return p + 1, b != '/'
	case '[':
		return matchClass(m.pattern, p, b)
	case '\\':
		if p++; p == len(m.pattern) {
			return p, false
		}
		fallthrough
	default:
		return p + 1, m.pattern[p] == b
	}
}

// matchStar tries all that the stars at p can stand for.
func (m *wildMatcher) matchStar(p, s int) bool {
	key := [2]int{p, s}
	if m.failed[key] {
		return false
	}
	if m.tryStar(p, s) {
		return true
	}
	if m.failed == nil {
		m.failed = make(map[[2]int]bool)
	}
	m.failed[key] = true
	return false
}

func (m *wildMatcher) tryStar(p, s int) bool {
	end := p
	for end < len(m.pattern) && m.pattern[end] == '*' {
		end++
	}
	rest := m.pattern[end:]
	wholeName := end-p >= 2 && (p == 0 || m.pattern[p-1] == '/') && (rest == "" || rest[0] == '/' || strings.HasPrefix(rest, `\/`))
	if wholeName && strings.HasPrefix(rest, "/") && m.match(end+1, s) { // no name at all
		return true
	}
	for ; ; s++ {
		if m.match(end, s) {
			return true
		}
		if s == len(m.path) || (m.path[s] == '/' && !wholeName) {
			return false
		}
	}
}

// matchClass matches one byte with the bracket expression at p.
func matchClass(pattern string, p int, b byte) (next int, ok bool) {
	p++
	negated := p < len(pattern) && (pattern[p] == '!' || pattern[p] == '^')
	if negated {
		p++
	}
	matched := false
	for first := true; ; first = false {
		if p >= len(pattern) {
			return p, false
		}
		if pattern[p] == ']' && !first {
			break
		}
		if name, after, ok := className(pattern, p); ok {
			in, known := inClass(name, b)
			if !known {
				return p, false
			}
			matched, p = matched || in, after
			continue
		}
		var low, high byte
		if low, high, p, ok = classRange(pattern, p); !ok {
			return p, false
		}
		matched = matched || b == low || (low <= b && b <= high) // [b-a] is at least b
	}
	return p + 1, matched != negated && b != '/'
}

// className reads [:name:] at p.
func className(pattern string, p int) (name string, after int, ok bool) {
	rest, ok := strings.CutPrefix(pattern[p:], "[:")
	if !ok {
		return "", p, false
	}
	end := strings.IndexByte(rest, ']')
	if end < 1 || rest[end-1] != ':' {
		return "", p, false
	}
	return rest[:end-1], p + 2 + end + 1, true
}

// classRange reads one character or a range of them at p.
func classRange(pattern string, p int) (low, high byte, after int, ok bool) {
	if low, p, ok = classByte(pattern, p); !ok {
		return
	}
	if p+1 >= len(pattern) || pattern[p] != '-' || pattern[p+1] == ']' {
		return low, low, p, true
	}
	high, p, ok = classByte(pattern, p+1)
	return low, high, p, ok
}

func classByte(pattern string, p int) (b byte, after int, ok bool) {
	if pattern[p] == '\\' {
		p++
	}
	if p >= len(pattern) {
		return 0, p, false
	}
	return pattern[p], p + 1, true
}

func inClass(name string, b byte) (in, known bool) {
	lower, upper, digit := 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9'
	graph := '!' <= b && b <= '~'
	switch name {
	case "alnum":
		in = lower || upper || digit
	case "alpha":
		in = lower || upper
	case "blank":
		in = b == ' ' || b == '\t'
	case "cntrl":
		in = b < ' ' || b == 0x7f
	case "digit":
		in = digit
	case "graph":
		in = graph
	case "lower":
		in = lower
	case "print":
		in = graph || b == ' '
	case "punct":
		in = graph && !lower && !upper && !digit
	case "space":
		in = b == ' ' || ('\t' <= b && b <= '\r')
	case "upper":
		in = upper
	case "xdigit":
		in = digit || ('a' <= b && b <= 'f') || ('A' <= b && b <= 'F')
	default:
		return false, false
	}
	return in, true
}
