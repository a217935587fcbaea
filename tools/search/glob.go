package search

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
)

// Filter selects files by a glob as ripgrep's --glob does: by a line of an
// ignore file with the opposite meaning, so that it also finds what ignore files
// exclude. https://docs.rs/ignore/latest/ignore/overrides/
type Filter struct {
	pattern  *regexp.Regexp // nil selects everything
	negated  bool           // had a leading !: it excludes
	dirsOnly bool           // had a trailing /
}

// ParseFilter reads a glob as models write it: it may begin with ./ or with the
// directory it is for. As in ripgrep, the pattern src/ is about the directory;
// here it selects the files below it, where ripgrep would find none.
func ParseFilter(glob, root string) (*Filter, error) {
	f := &Filter{}
	line := strings.TrimRightFunc(glob, unicode.IsSpace)
	if strings.HasSuffix(line, `\`) && line != glob {
		line += " "
	}
	if line == "" || line[0] == '#' {
		return f, nil
	}
	line, f.negated = strings.CutPrefix(line, "!")
	for strings.HasPrefix(line, "./") {
		line = line[len("./"):]
	}
	if prefix := strings.TrimSuffix(filepath.ToSlash(root), "/"); strings.HasPrefix(line, prefix+"/") {
		line = line[len(prefix):]
	}
	if strings.HasPrefix(line, `\!`) || strings.HasPrefix(line, `\#`) {
		line = line[1:]
	}
	line, anchored := strings.CutPrefix(line, "/")
	line, f.dirsOnly = strings.CutSuffix(line, "/")
	if !anchored && !strings.Contains(line, "/") && line != "**" {
		line = "**/" + line
	}
	switch {
	case f.dirsOnly && !f.negated:
		line, f.dirsOnly = line+"/**/*", false
	case strings.HasSuffix(line, "/**"):
		line += "/*"
	}
	compiled, err := compileGlob(line, false)
	if err != nil {
		return nil, fmt.Errorf("invalid glob pattern: %q: %w", glob, err)
	}
	f.pattern = compiled
	return f, nil
}

// verdict is the decision of a filter or of ignore files about a path.
type verdict int

const (
	undecided verdict = iota
	excluded
	included // although other rules exclude it
)

// judge decides about a path relative to the root of the walk.
func (f *Filter) judge(path string, isDir bool) verdict {
	switch {
	case f == nil || f.pattern == nil:
		return undecided
	case (isDir || !f.dirsOnly) && f.pattern.MatchString(latin1(path)):
		if f.negated {
			return excluded
		}
		return included
	case !f.negated && !isDir:
		return excluded
	}
	return undecided
}

// Finder selects paths by a glob as fd does: by the name, or by the whole path if
// the glob has a slash. A glob without capital letters is about either case.
type Finder struct {
	pattern  *regexp.Regexp // nil selects everything
	byPath   bool
	dirsOnly bool   // had a trailing /, which fd does not find anything with
	root     string // with a slash at the end
}

// ParseFinder reads a glob for a search of root, an absolute path. The glob may
// begin with ./.
func ParseFinder(glob, root string) (*Finder, error) {
	f := &Finder{root: strings.TrimSuffix(filepath.ToSlash(root), "/") + "/"}
	if glob == "" {
		return f, nil
	}
	pattern, dirsOnly := strings.CutSuffix(strings.TrimPrefix(glob, "./"), "/")
	f.dirsOnly = dirsOnly
	f.byPath = strings.Contains(pattern, "/")
	if f.byPath && !strings.HasPrefix(pattern, "/") && !strings.HasPrefix(pattern, "**/") {
		pattern = "**/" + pattern
	}
	compiled, err := compileGlob(pattern, true)
	if err == nil && pattern == "" {
		err = errEmptyGlob
	}
	if err != nil {
		return nil, fmt.Errorf("invalid glob pattern: %q: %w", glob, err)
	}
	f.pattern = compiled
	return f, nil
}

// Match tests a path relative to the root of the walk.
func (f *Finder) Match(path string, isDir bool) bool {
	if f.pattern == nil {
		return true
	}
	if f.byPath {
		path = f.root + path
	} else {
		path = path[strings.LastIndexByte(path, '/')+1:]
	}
	return (isDir || !f.dirsOnly) && f.pattern.MatchString(latin1(path))
}
