package search

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Glob is a shell pattern for the paths of a walk. One without a slash is about
// names at any depth.
type Glob struct {
	pattern  string
	byName   bool
	dirsOnly bool // had a slash at the end
	negated  bool // had a ! before it
}

// ParseGlob reads a pattern as models write it: it may begin with ./ or with
// the directory it is for.
func ParseGlob(pattern, root string) (g Glob, err error) {
	g.pattern, g.negated = strings.CutPrefix(pattern, "!")
	if rest, ok := strings.CutPrefix(g.pattern, strings.TrimSuffix(filepath.ToSlash(root), "/")+"/"); ok {
		g.pattern = rest
	}
	g.pattern = strings.TrimPrefix(g.pattern, "./")
	g.pattern, g.dirsOnly = strings.CutSuffix(g.pattern, "/")
	if g.pattern == "" || !doublestar.ValidatePattern(g.pattern) {
		return g, fmt.Errorf("invalid glob pattern: %q", pattern)
	}
	g.byName = !strings.Contains(g.pattern, "/")
	return g, nil
}

// Match tests a path relative to the root of the walk.
func (g *Glob) Match(p string, isDir bool) bool {
	if g.byName {
		p = path.Base(p)
	}
	return (isDir || !g.dirsOnly) && doublestar.MatchUnvalidated(g.pattern, p)
}

// Admits says whether a file passes the pattern as a filter. What is in a
// directory that the pattern is about passes with it, or is kept out with it;
// but *test* admits only files of such a name.
func (g *Glob) Admits(p string) bool {
	matched := g.Match(p, false)
	if g.dirsOnly || g.negated {
		for dir := path.Dir(p); !matched && dir != "."; dir = path.Dir(dir) {
			matched = g.Match(dir, true)
		}
	}
	return matched != g.negated
}
