package tools

import (
	"strings"

	"troupe/protocol/bounded"
)

// ignoreRules are the patterns of one .gitignore or exclude file. They mean
// what git says they mean (gitignore(5)), compared byte by byte.
type ignoreRules struct {
	dir   string // slash-separated, relative to the top of the walk; "" is the top
	rules []ignoreRule
}

// ignoreRule is one line of such a file.
type ignoreRule struct {
	pattern  string // without its marks
	negated  bool   // had a leading !
	dirOnly  bool   // had a trailing /
	anchored bool   // had another /: it is about the path below dir, not the name
	prefix   int    // bytes of pattern before the first special character
	suffix   bool   // pattern is * and what a name ends in
}

// maxIgnoreFile bounds what is read of an ignore file.
const maxIgnoreFile = 1 << 20

// loadIgnore reads an ignore file for the directory dir. There are no rules in
// a file that is not there or cannot be read.
func loadIgnore(file, dir string) *ignoreRules {
	content, _ := bounded.ReadFile(file, maxIgnoreFile) // as much as there is room for
	return parseIgnore(string(content), dir)
}

func parseIgnore(content, dir string) *ignoreRules {
	r := &ignoreRules{dir: dir}
	for line := range strings.SplitSeq(strings.TrimPrefix(content, byteOrderMark), "\n") {
		if rule, ok := parseIgnoreRule(strings.TrimSuffix(line, "\r")); ok {
			r.rules = append(r.rules, rule)
		}
	}
	if len(r.rules) == 0 {
		return nil
	}
	return r
}

func parseIgnoreRule(line string) (r ignoreRule, ok bool) {
	if strings.HasPrefix(line, "#") {
		return r, false
	}
	line = trimIgnoreSpaces(line)
	line, r.negated = strings.CutPrefix(line, "!")
	line, r.dirOnly = strings.CutSuffix(line, "/")
	if line == "" && !r.dirOnly {
		return r, false
	}
	r.anchored = strings.Contains(line, "/")
	r.pattern = strings.TrimPrefix(line, "/")
	r.prefix = plainPrefix(r.pattern)
	r.suffix = !r.anchored && strings.HasPrefix(r.pattern, "*") && plainPrefix(r.pattern[1:]) == len(r.pattern)-1
	return r, true
}

func plainPrefix(pattern string) int {
	if i := strings.IndexAny(pattern, `*?[\`); i >= 0 {
		return i
	}
	return len(pattern)
}

// trimIgnoreSpaces drops spaces at the end that are not quoted with a
// backslash.
func trimIgnoreSpaces(line string) string {
	end := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ':
			continue
		case '\\':
			i++
		}
		end = min(i+1, len(line))
	}
	return line[:end]
}

// match says whether the last rule about path ignores or includes it. Path is
// slash-separated and relative to the top of the walk.
func (r *ignoreRules) match(path string, isDir bool) (ignored, decided bool) {
	if r.dir != "" {
		rest, ok := strings.CutPrefix(path, r.dir+"/")
		if !ok {
			return false, false
		}
		path = rest
	}
	name := path[strings.LastIndexByte(path, '/')+1:]
	for i := len(r.rules) - 1; i >= 0; i-- {
		if rule := &r.rules[i]; (isDir || !rule.dirOnly) && rule.matches(path, name) {
			return !rule.negated, true
		}
	}
	return false, false
}

func (r *ignoreRule) matches(path, name string) bool {
	if r.anchored {
		name = path
	}
	if r.suffix {
		return strings.HasSuffix(name, r.pattern[1:])
	}
	// Git compares the part without special characters by itself, which makes
	// the stars of a**/b ones at the beginning.
	if !strings.HasPrefix(name, r.pattern[:r.prefix]) {
		return false
	}
	pattern, name := r.pattern[r.prefix:], name[r.prefix:]
	if pattern == "" {
		return name == ""
	}
	return matchWild(pattern, name)
}

// ignoreStack are the rules for one directory of a walk: those of the
// directories above it, the nearest last.
type ignoreStack []*ignoreRules

// ignored says whether git would ignore path, given that it does not ignore the
// directory it is in.
func (s ignoreStack) ignored(path string, isDir bool) bool {
	for i := len(s) - 1; i >= 0; i-- {
		if ignored, decided := s[i].match(path, isDir); decided {
			return ignored
		}
	}
	return false
}
