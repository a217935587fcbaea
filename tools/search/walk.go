// Package search finds files below a directory for tools: by walking it as git
// would look at it, and by patterns as models write them.
package search

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"troupe/protocol/bounded"
	"troupe/protocol/gitignore"
)

// walker is one walk.
type walker struct {
	root   string
	prefix string // root below the top that ignore files count from, with a slash; or ""
	visit  func(path string, entry fs.DirEntry) error
}

// Walk visits what is below a directory, in the order of names, except .git and
// what git would ignore there, whether or not git knows the place. It does not
// follow symlinks. It calls visit with paths relative to root, with slashes, and
// ends with ctx's error or the one that visit returns; visit may return
// fs.SkipAll to end the walk. Directories that cannot be read are passed over.
// Rules of ignore files above root hold up to the top of its git repository,
// or else up to cwd.
func Walk(ctx context.Context, root, cwd string, visit func(path string, entry fs.DirEntry) error) error {
	top := ignoreTop(root, cwd)
	w := walker{root: root, visit: visit}
	rules := loadLevel(nil, top, "")
	if rel, err := filepath.Rel(top, root); err == nil && rel != "." {
		var above string
		for name := range strings.SplitSeq(filepath.ToSlash(rel), "/") {
			above += name
			if rules.Ignored(above, true) { // somebody who asks for it by name wants it
				rules = nil
			}
			rules = loadLevel(rules, filepath.Join(top, above), above)
			above += "/"
		}
		w.prefix = above
	}
	if err := w.dir(ctx, "", rules); err != fs.SkipAll {
		return err
	}
	return nil
}

// ignoreTop is the directory from which on ignore files count.
func ignoreTop(root, cwd string) string {
	for dir := root; ; dir = filepath.Dir(dir) {
		if isRepository(dir) {
			return dir
		}
		if filepath.Dir(dir) == dir {
			break
		}
	}
	if rel, err := filepath.Rel(cwd, root); err == nil && filepath.IsLocal(rel) {
		return cwd
	}
	return root
}

func isRepository(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, ".git"))
	return err == nil
}

// loadLevel adds the rules of one directory. A repository begins anew.
func loadLevel(rules *gitignore.Rules, dir, rel string) *gitignore.Rules {
	if isRepository(dir) {
		rules = loadRules(nil, filepath.Join(gitDir(dir), "info", "exclude"), rel)
	}
	return loadRules(rules, filepath.Join(dir, ".gitignore"), rel)
}

// maxIgnoreFile bounds what is read of an ignore file.
const maxIgnoreFile = 1 << 20

// loadRules adds those of an ignore file for the directory rel. A file that is
// not there or cannot be read has none.
func loadRules(rules *gitignore.Rules, file, rel string) *gitignore.Rules {
	content, _ := bounded.ReadFile(file, maxIgnoreFile) // as much as there is room for
	return rules.With(content, rel, 0)
}

// maxGitFile bounds the files of git that hold a path.
const maxGitFile = 16 << 10

// gitDir is where a repository keeps what all its worktrees share.
func gitDir(dir string) string {
	git := filepath.Join(dir, ".git")
	content, err := bounded.ReadFile(git, maxGitFile)
	if err != nil {
		return git // a directory
	}
	target, ok := strings.CutPrefix(strings.TrimSpace(string(content)), "gitdir: ")
	if !ok {
		return git
	}
	git = absolute(dir, target)
	if common, err := bounded.ReadFile(filepath.Join(git, "commondir"), maxGitFile); err == nil {
		git = absolute(git, strings.TrimSpace(string(common)))
	}
	return git
}

func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

func (w *walker) dir(ctx context.Context, dir string, rules *gitignore.Rules) error {
	entries, err := os.ReadDir(filepath.Join(w.root, dir))
	if err != nil && len(entries) == 0 {
		return nil
	}
	for _, entry := range entries {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if entry.Name() == ".git" {
			continue
		}
		path := dir + entry.Name()
		if rules.Ignored(w.prefix+path, entry.IsDir()) {
			continue
		}
		if err := w.visit(path, entry); err != nil {
			return err
		}
		if entry.IsDir() {
			below := loadLevel(rules, filepath.Join(w.root, path), w.prefix+path)
			if err := w.dir(ctx, path+"/", below); err != nil {
				return err
			}
		}
	}
	return nil
}
