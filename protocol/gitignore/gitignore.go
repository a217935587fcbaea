// Package gitignore says what the rules of .gitignore files leave out, as git
// does (gitignore(5)), compared byte by byte.
//
// It stands below every room, as package bounded does: tools and skills look
// through directories that have such files, and a rule means one thing.
package gitignore

import (
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
)

// Rules are those that hold in a directory: of its own ignore files, and of
// those of the directories above it. Nil has none. They do not change.
type Rules struct {
	above *Rules
	dir   string // where they hold, "" for everywhere, else with a slash at the end
	rules []rule
	count int // of rules, with those above
}

// rule is one line of an ignore file: prefix stands first in what matches, and
// pattern fits the rest.
type rule struct {
	prefix  string
	pattern string // of doublestar, see latin1; "" leaves nothing
	suffix  bool   // prefix is not what matches begins with, but what it ends in
	negated bool   // had a leading !
	dirOnly bool   // had a trailing /
	nameful bool   // had no other /: it is about the name, at any depth
}

// With adds the rules of an ignore file's content, which holds for what is in
// dir. Paths, dir among them, have slashes and begin at the same place; "" is
// that place. Together at most limit rules count, 0 is any number.
func (r *Rules) With(content []byte, dir string, limit int) *Rules {
	added := &Rules{above: r, dir: dir}
	if r != nil {
		added.count = r.count
	}
	if dir != "" {
		added.dir += "/"
	}
	for line := range strings.SplitSeq(strings.TrimPrefix(string(content), "\ufeff"), "\n") {
		if limit > 0 && added.count == limit {
			break
		}
		if rule, ok := parse(strings.TrimSuffix(line, "\r")); ok {
			added.rules = append(added.rules, rule)
			added.count++
		}
	}
	if len(added.rules) == 0 {
		return r
	}
	return added
}

// Ignored says whether git would ignore a path, given that it does not ignore
// the directory it is in. The nearest rules decide, and of those the last.
func (r *Rules) Ignored(path string, isDir bool) bool {
	ignored, _ := r.Decide(path, isDir)
	return ignored
}

// Decide is Ignored for a path that other rules may decide about: decided is
// false if no rule matches it.
func (r *Rules) Decide(path string, isDir bool) (ignored, decided bool) {
	for ; r != nil; r = r.above {
		below, ok := strings.CutPrefix(path, r.dir)
		if !ok {
			continue
		}
		name := below[strings.LastIndexByte(below, '/')+1:]
		for i := len(r.rules) - 1; i >= 0; i-- {
			if rule := &r.rules[i]; (isDir || !rule.dirOnly) && rule.matches(below, name) {
				return !rule.negated, true
			}
		}
	}
	return false, false
}

func (r *rule) matches(path, name string) bool {
	if !r.nameful {
		name = path
	}
	if r.suffix {
		return strings.HasSuffix(name, r.prefix)
	}
	rest, ok := strings.CutPrefix(name, r.prefix)
	if !ok || r.pattern == "" {
		return ok && rest == ""
	}
	return doublestar.MatchUnvalidated(r.pattern, latin1(rest))
}

// parse reads a line. It is not ok if nothing can match it.
func parse(line string) (r rule, ok bool) {
	if strings.HasPrefix(line, "#") {
		return r, false
	}
	line, r.negated = strings.CutPrefix(trimSpaces(line), "!")
	line, r.dirOnly = strings.CutSuffix(line, "/")
	r.nameful = !strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if line == "" {
		return r, false
	}
	if r.suffix = r.nameful && line[0] == '*' && plainPrefix(line[1:]) == len(line)-1; r.suffix {
		r.prefix = line[1:]
		return r, true
	}
	// Git compares the part without special characters by itself, which makes
	// the stars of a**/b ones at the beginning.
	n := plainPrefix(line)
	r.prefix = line[:n]
	r.pattern, ok = translate(line[n:])
	return r, ok
}

func plainPrefix(pattern string) int {
	if i := strings.IndexAny(pattern, `*?[\`); i >= 0 {
		return i
	}
	return len(pattern)
}

// trimSpaces drops spaces at the end that are not quoted with a backslash.
func trimSpaces(line string) string {
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

// latin1 makes a character of each byte: doublestar compares characters, git
// bytes.
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
