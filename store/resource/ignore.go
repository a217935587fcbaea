package resource

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"troupe/protocol"
	"troupe/protocol/bounded"
)

// ignoreNames are the files that say what not to look at.
var ignoreNames = []string{".gitignore", ".ignore", ".fdignore"}

// ignoreRule is one line of such a file, applied to paths below its directory.
type ignoreRule struct {
	pattern string // with slashes
	keep    bool   // the line began with !
	dirOnly bool   // it ended with /
}

// ignores are the rules of one directory and, before them, of those above.
type ignores struct {
	above *ignores
	dir   string
	rules []ignoreRule
	count int // of rules, those above with it
}

// with adds the rules of a directory.
func (g *ignores) with(dir string) *ignores {
	var rules []ignoreRule
	count := 0
	if g != nil {
		count = g.count
	}
	for _, name := range ignoreNames {
		b, err := bounded.ReadFile(filepath.Join(dir, name), protocol.MaxIgnoreFile)
		if err == nil || errors.Is(err, bounded.TooLarge{Limit: protocol.MaxIgnoreFile}) { // as much as there is room for
			for line := range strings.Lines(text(b)) {
				if r, ok := parseIgnore(strings.TrimRight(line, "\r\n")); ok && count < protocol.MaxIgnoreRules {
					count++
					rules = append(rules, r)
				}
			}
		}
	}
	if len(rules) == 0 {
		return g
	}
	return &ignores{g, dir, rules, count}
}

// parseIgnore reads a line as git does: a pattern without a slash inside
// matches at any depth, others from the file's directory on.
func parseIgnore(line string) (r ignoreRule, ok bool) {
	if !strings.HasSuffix(line, `\ `) {
		line = strings.TrimRight(line, " \t")
	}
	if line == "" || line[0] == '#' {
		return r, false
	}
	line, r.keep = strings.CutPrefix(line, "!")
	line = strings.TrimPrefix(line, `\`) // of \# and \!
	line, r.dirOnly = strings.CutSuffix(line, "/")
	switch {
	case strings.HasPrefix(line, "/"):
		r.pattern = line[1:]
	case strings.Contains(line, "/"):
		r.pattern = line
	default:
		r.pattern = "**/" + line
	}
	return r, line != "" && doublestar.ValidatePattern(r.pattern)
}

// ignored says whether a file or directory is to be passed over. Rules of
// nearer directories, and later ones, win.
func (g *ignores) ignored(path string, isDir bool) bool {
	for ; g != nil; g = g.above {
		rel, err := filepath.Rel(g.dir, path)
		if err != nil || !filepath.IsLocal(rel) {
			continue
		}
		rel = filepath.ToSlash(rel)
		for i := len(g.rules) - 1; i >= 0; i-- {
			r := g.rules[i]
			if (isDir || !r.dirOnly) && doublestar.MatchUnvalidated(r.pattern, rel) {
				return !r.keep
			}
		}
	}
	return false
}
