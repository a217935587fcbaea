package tools

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"troupe/protocol/bounded"
)

// walker visits what is below a directory, in the order of names, except .git
// and what git would ignore there, whether or not git knows the place. It does
// not follow symlinks.
type walker struct {
	root   string
	prefix string // root below the top that ignore files count from, with a slash; or ""
	visit  func(path string, entry fs.DirEntry) error
}

// walk calls visit with paths relative to root, with slashes. Visit may return
// fs.SkipAll to end the walk. Directories that cannot be read are passed over.
// Rules of ignore files above root hold up to the top of its git repository,
// or else up to cwd.
func walk(ctx context.Context, root, cwd string, visit func(path string, entry fs.DirEntry) error) error {
	top := ignoreTop(root, cwd)
	w := walker{root: root, visit: visit}
	stack := loadLevel(nil, top, "")
	if rel, err := filepath.Rel(top, root); err == nil && rel != "." {
		var above string
		for name := range strings.SplitSeq(filepath.ToSlash(rel), "/") {
			above += name
			if stack.ignored(above, true) { // somebody who asks for it by name wants it
				stack = nil
			}
			stack = loadLevel(stack, filepath.Join(top, above), above)
			above += "/"
		}
		w.prefix = above
	}
	if err := w.dir(ctx, "", stack); err != fs.SkipAll {
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
func loadLevel(stack ignoreStack, dir, rel string) ignoreStack {
	stack = slices.Clip(stack)
	if isRepository(dir) {
		stack = nil
		if r := loadIgnore(filepath.Join(gitDir(dir), "info", "exclude"), rel); r != nil {
			stack = append(stack, r)
		}
	}
	if r := loadIgnore(filepath.Join(dir, ".gitignore"), rel); r != nil {
		stack = append(stack, r)
	}
	return stack
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

func (w *walker) dir(ctx context.Context, dir string, stack ignoreStack) error {
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
		if stack.ignored(w.prefix+path, entry.IsDir()) {
			continue
		}
		if err := w.visit(path, entry); err != nil {
			return err
		}
		if entry.IsDir() {
			below := loadLevel(stack, filepath.Join(w.root, path), w.prefix+path)
			if err := w.dir(ctx, path+"/", below); err != nil {
				return err
			}
		}
	}
	return nil
}
