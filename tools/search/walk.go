// Package search finds files below a directory for tools, as ripgrep and fd look
// for them: it reads the same ignore files and the same globs.
package search

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Search says where to look, and for which program's rules.
type Search struct {
	Root    string // absolute
	Program Program
	Filter  *Filter // of files, before ignore files; nil for all

	Cwd        string // where rules of the user with a leading slash count from, for Fd
	Home       string
	ConfigHome string // XDG_CONFIG_HOME; "" is .config in Home
}

// walker is one walk.
type walker struct {
	Search
	loader ruleLoader
	prefix string // root relative to the file system's, with a slash at the end
	visit  func(path string, entry fs.DirEntry) error
}

// Walk visits what is below a directory, in the order of names, except .git and
// what ignore files exclude. It does not follow symlinks. It calls visit with
// paths relative to root, with slashes, and ends with ctx's error or the one that
// visit returns; visit may return fs.SkipAll to end the walk. Directories that
// cannot be read are passed over. Ignore files of the directories above count,
// those of git up to the top of the repository; a rule for root itself does not
// exclude the files in it.
func (s Search) Walk(ctx context.Context, visit func(path string, entry fs.DirEntry) error) error {
	w := walker{Search: s, loader: newRuleLoader(s), visit: visit}
	root := s.Root
	if real, err := filepath.EvalSymlinks(root); err == nil {
		root = real
	}
	if below := belowTop(root); below != "" {
		w.prefix = below + "/"
	}
	above := directoriesAbove(root)
	r := w.loader.top(slices.ContainsFunc(append(above, root), func(dir string) bool { return hasFile(dir, ".git") }))
	for _, dir := range above {
		r = w.loader.enter(r, dir, func(name string) bool { return hasFile(dir, name) })
	}
	if err := w.dir(ctx, "", root, r); err != fs.SkipAll {
		return err
	}
	return nil
}

// directoriesAbove lists those above a directory, from the root of the file
// system on.
func directoriesAbove(dir string) (above []string) {
	for parent := filepath.Dir(dir); parent != dir; parent = filepath.Dir(dir) {
		above = append(above, parent)
		dir = parent
	}
	slices.Reverse(above)
	return above
}

func hasFile(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return err == nil
}

// dir walks a directory: "" or a path with a slash at the end, and what that is
// in full. It is given the rules of the directories above.
func (w *walker) dir(ctx context.Context, dir, full string, above rules) error {
	entries, err := os.ReadDir(full)
	if err != nil && len(entries) == 0 {
		return nil
	}
	r := w.loader.enter(above, full, func(name string) bool {
		_, found := slices.BinarySearchFunc(entries, name, func(e fs.DirEntry, name string) int { return strings.Compare(e.Name(), name) })
		return found
	})
	for _, entry := range entries {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if entry.Name() == ".git" {
			continue
		}
		path := dir + entry.Name()
		if w.excluded(&r, path, entry.IsDir()) {
			continue
		}
		if err := w.visit(path, entry); err != nil {
			return err
		}
		if entry.IsDir() {
			if err := w.dir(ctx, path+"/", filepath.Join(full, entry.Name()), r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *walker) excluded(r *rules, path string, isDir bool) bool {
	switch w.Filter.judge(path, isDir) {
	case excluded:
		return true
	case included:
		return false
	}
	return r.ignored(w.prefix+path, isDir)
}
