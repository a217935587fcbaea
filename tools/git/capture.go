package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"troupe/tools"
)

// maxPatch is how large a patch may be that is still merged.
const maxPatch = 64 << 20

// CaptureSpec says how the work of a task is kept.
type CaptureSpec struct {
	// Patch is the file that the patch is written to; those of nested repositories
	// have a number before their ending. "" writes none.
	Patch string
	// Message is that of the commit of what the task did not commit itself.
	Message string
	// Since and Checked are an earlier capture and what [Workspaces.Mark] said
	// after checks had run: what these changed and the task did not touch
	// afterwards counts as in Since.
	Since   *Captured
	Checked []string
}

// Captured is what a task did, against the snapshot that it began with. It is a
// plain value, to be kept in a log.
type Captured struct {
	Trees []string `json:"trees"` // of each tree of the workspace
	Empty bool     `json:"empty"` // nothing changed
	// Patch is the file with the changes, "" if there are none; Nested are those of nested repositories.
	Patch  string   `json:"patch,omitempty"`
	Nested []string `json:"nested,omitempty"`
	Bytes  int64    `json:"bytes,omitempty"` // of all patches
	// Inner are repositories that the task has made or cloned, from the top of the
	// workspace: their files are among its own, what they were before is not.
	Inner []string `json:"inner,omitempty"`
	// Commits are the task's, from the first to the last, of a workspace with a branch.
	Commits []string `json:"commits,omitempty"`
	// Rest says that the last of them is ours, of what the task did not commit itself.
	Rest bool `json:"rest,omitempty"`
}

// Capture records what a task has done so far and makes its patch durable. It
// changes nothing in the workspace. If it fails, the workspace has to be kept.
func (w *Workspaces) Capture(ctx context.Context, env *tools.Env, ws Workspace, spec CaptureSpec) (Captured, error) {
	if _, err := w.probe(ctx, env); err != nil {
		return Captured{}, err
	}
	trees, inner, err := w.markAll(ctx, env, ws)
	if err != nil {
		return Captured{}, w.wordFull(err)
	}
	c := Captured{Trees: trees, Inner: inner, Empty: true}
	for i, t := range ws.Trees {
		if spec.Since != nil && spec.Checked != nil {
			if c.Trees[i], err = t.unchecked(ctx, env, spec.Since.Trees[i], spec.Checked[i], trees[i]); err != nil {
				return c, err
			}
		}
		if err := c.patch(ctx, env, t, i, spec.Patch); err != nil {
			return c, w.wordFull(err)
		}
	}
	if ws.Branch != "" && !c.Empty {
		if c.Commits, c.Rest, err = ws.commits(ctx, env, c, spec.Message); err != nil {
			return c, w.wordFull(err)
		}
	}
	if c.Empty || spec.Patch != "" {
		err = w.note(ws, captured)
	}
	return c, err
}

// Running notes that a task goes on after a capture.
func (w *Workspaces) Running(ws Workspace) error { return w.note(ws, running) }

// Mark records what is in the workspace now, as one tree for each of its own.
func (w *Workspaces) Mark(ctx context.Context, env *tools.Env, ws Workspace) ([]string, error) {
	if _, err := w.probe(ctx, env); err != nil {
		return nil, err
	}
	trees, _, err := w.markAll(ctx, env, ws)
	return trees, err
}

func (w *Workspaces) markAll(ctx context.Context, env *tools.Env, ws Workspace) (trees, inner []string, err error) {
	for _, t := range ws.Trees {
		tree, in, err := w.mark(ctx, env, ws, t)
		if err != nil {
			return nil, nil, err
		}
		trees = append(trees, tree)
		for _, path := range in {
			inner = append(inner, filepath.Join(t.Path, path))
		}
	}
	return trees, inner, nil
}

// mark works with a copy of the task's index, which knows what has not changed,
// or without, if the task left none that can be used.
func (w *Workspaces) mark(ctx context.Context, env *tools.Env, ws Workspace, t Tree) (tree string, inner []string, err error) {
	tmp, err := t.copyIndex(ws.index(t))
	if err != nil {
		return "", nil, err
	}
	defer os.Remove(tmp)
	g := t.at(env, ws.work(t)).with("GIT_INDEX_FILE=" + tmp)
	if tree, inner, err = w.addWork(ctx, g, t); err == nil {
		err = ws.adopt(ctx, env, t, tree)
	}
	if err == nil || ctx.Err() != nil || errors.As(err, new(changedSubmodule)) {
		return tree, inner, err
	}
	if err := os.Remove(tmp); err != nil {
		return "", nil, err
	}
	if _, again := g.run(ctx, "read-tree", t.Base); again != nil {
		return "", nil, err
	}
	return w.addWork(ctx, g, t)
}

// adopt takes over what the task has staged or committed. Its index is believed for a file that has not changed
// since, whose content is then in the task's own clone, and goes with it.
func (ws Workspace) adopt(ctx context.Context, env *tools.Env, t Tree, tree string) error {
	g := t.git(env)
	out, err := g.run(ctx, "diff-tree", "-r", "-z", "--no-abbrev", "--no-renames", t.Base, tree)
	if err != nil {
		return err
	}
	changes, err := parseChanges(out)
	var contents, missing strings.Builder
	for _, c := range changes {
		if c.NewMode != "" && c.NewMode != gitlink {
			fmt.Fprintln(&contents, c.New)
		}
	}
	if err != nil || contents.Len() == 0 {
		return err
	}
	said, err := g.feed(ctx, strings.NewReader(contents.String()), "cat-file", "--batch-check=%(objectname)")
	for line := range strings.Lines(string(said)) {
		if id, is := strings.CutSuffix(line, " missing\n"); is {
			fmt.Fprintln(&missing, id)
		}
	}
	if err != nil || missing.Len() == 0 {
		return err
	}
	g.limit = checkoutTime
	_, err = ws.objects(g, t).feed(ctx, strings.NewReader(missing.String()), "pack-objects", "-q", filepath.Join(t.Store, "objects", "pack", "pack"))
	return err
}

// addWork makes a tree of the files that a task has left. Of a repository in which nobody
// has worked before, git would keep nothing but the name of a commit, which is gone with
// the workspace: it adds its files as those of a directory.
func (w *Workspaces) addWork(ctx context.Context, g command, t Tree) (tree string, inner []string, err error) {
	if inner, err = t.findInner(ctx, g); err != nil {
		return "", nil, err
	}
	for _, path := range inner {
		if _, err := g.run(ctx, "update-index", "--force-remove", "--", path); err != nil {
			return "", nil, err
		}
	}
	t.Nested, t.Only = append(slices.Clip(t.Nested), inner...), ""
	tree, err = w.addAll(ctx, g, t)
	for _, path := range inner {
		if err == nil {
			tree, err = w.addInner(ctx, g, t, path)
		}
	}
	return tree, inner, err
}

// findInner finds the repositories in a working tree that are no trees of the workspace.
func (t Tree) findInner(ctx context.Context, g command) (inner []string, err error) {
	out, err := g.run(ctx, "ls-files", "-t", "-s", "-o", "--exclude-standard", "-z")
	for _, line := range fields(out) {
		path, untracked := strings.CutPrefix(line, "? ")
		if untracked {
			dir, isDir := strings.CutSuffix(path, "/")
			if isDir && !slices.Contains(t.Nested, dir) {
				inner = append(inner, dir)
			}
			continue
		}
		about, path, _ := strings.Cut(line, "\t")
		words := strings.Fields(about)
		if len(words) != 4 || words[1] != gitlink || slices.Contains(t.Nested, path) || !exists(filepath.Join(g.dir, path, ".git")) {
			continue
		}
		if own, err := t.isSubmodule(ctx, g, path); err != nil {
			return nil, err
		} else if !own {
			inner = append(inner, path)
		}
	}
	return inner, err
}

// changedSubmodule is one that the user has not checked out, and the task has.
type changedSubmodule struct{ path string }

func (e changedSubmodule) Error() string {
	return "what the task did in the submodule " + e.path + " is there and nowhere else, because the submodule was not checked out before"
}

// isSubmodule says whether a repository is a submodule of the user's that the task has checked out
// and let be.
func (t Tree) isSubmodule(ctx context.Context, g command, path string) (bool, error) {
	was, err := g.run(ctx, "ls-tree", t.Base, "--", path)
	if err != nil || !strings.HasPrefix(string(was), gitlink) {
		return false, err
	}
	changed, err := g.line(ctx, "diff", "--name-only", "--no-ext-diff", "--ignore-submodules=none", t.Base, "--", path)
	if err == nil && changed != "" {
		err = changedSubmodule{path}
	}
	return true, err
}

// addInner adds the files of such a repository to the index.
func (w *Workspaces) addInner(ctx context.Context, g command, t Tree, path string) (string, error) {
	dir, err := os.MkdirTemp(t.Store, "index-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	in := t.at(g.env, filepath.Join(g.dir, path)).with("GIT_INDEX_FILE=" + filepath.Join(dir, "index"))
	tree, _, err := w.addWork(ctx, in, Tree{Store: t.Store})
	if err == nil {
		_, err = g.run(ctx, "read-tree", "--prefix="+path+"/", tree)
	}
	if err != nil {
		return "", fmt.Errorf("repository %s: %w", path, err)
	}
	return g.line(ctx, "write-tree", "--missing-ok")
}

// unchecked is the tree now, but with the paths that checks changed, and nobody
// since, as they were before the checks.
func (t Tree) unchecked(ctx context.Context, env *tools.Env, before, checked, now string) (string, error) {
	changes, err := t.git(env).run(ctx, "diff-tree", "-r", "-z", "--no-abbrev", "--no-renames", checked, now)
	if err != nil {
		return "", err
	}
	var lines strings.Builder
	list, err := parseChanges(changes)
	for _, c := range list {
		if c.NewMode == "" {
			fmt.Fprintf(&lines, "0 %s\t%s\x00", strings.Repeat("0", len(c.Old)), c.Path)
			continue
		}
		fmt.Fprintf(&lines, "%s %s\t%s\x00", c.NewMode, c.New, c.Path)
	}
	if err != nil {
		return "", err
	}
	index, err := os.MkdirTemp(t.Store, "index-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(index)
	g := t.git(env).with("GIT_INDEX_FILE=" + filepath.Join(index, "index"))
	if _, err := g.run(ctx, "read-tree", before); err != nil {
		return "", err
	}
	if _, err := g.feed(ctx, strings.NewReader(lines.String()), "update-index", "-z", "--replace", "--index-info"); err != nil {
		return "", err
	}
	return g.line(ctx, "write-tree", "--missing-ok")
}

// patch writes that of one tree. It is durable when it returns.
func (c *Captured) patch(ctx context.Context, env *tools.Env, t Tree, number int, name string) error {
	same, err := t.git(env).line(ctx, "rev-parse", t.Base+"^{tree}")
	if err != nil || same == c.Trees[number] {
		return err
	}
	c.Empty = false
	if name == "" {
		return nil
	}
	if number > 0 {
		ext := filepath.Ext(name)
		name = strings.TrimSuffix(name, ext) + fmt.Sprintf(".%d", number) + ext
	}
	n, err := t.writePatch(ctx, env, c.Trees[number], name)
	if err != nil {
		return fmt.Errorf("patch %s: %w", name, err)
	}
	c.Bytes += n
	if number == 0 {
		c.Patch = name
	} else {
		c.Nested = append(c.Nested, name)
	}
	return nil
}

func (t Tree) writePatch(ctx context.Context, env *tools.Env, tree, name string) (int64, error) {
	tmp := name + ".tmp"
	g := t.git(env).writing(filepath.Dir(tmp))
	g.limit = checkoutTime
	_, err := g.run(ctx, "diff-tree", "-r", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--output="+tmp, t.Base, tree)
	if err != nil {
		os.Remove(tmp)
		return 0, err
	}
	return commitFile(tmp, name)
}

// commitFile makes a written file durable and gives it its name.
func commitFile(tmp, name string) (int64, error) {
	f, err := os.OpenFile(tmp, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(tmp, name)
	}
	if err == nil {
		err = tools.SyncDir(filepath.Dir(name))
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
