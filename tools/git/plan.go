package git

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"troupe/tools"
)

// Change is a file that a merge writes or removes.
type Change struct {
	Tree    int    `json:"tree,omitempty"` // of the workspace's trees
	Path    string `json:"path"`           // below the top of that
	OldMode string `json:"oldMode,omitempty"`
	NewMode string `json:"newMode,omitempty"` // as git writes modes; "" is no file
	Old     string `json:"old,omitempty"`
	New     string `json:"new,omitempty"` // names of the contents
}

// jsonChange is a change as JSON, which can only say names that are UTF-8.
type jsonChange struct {
	plainChange
	RawPath []byte `json:"rawPath,omitempty"` // of another name
}

type plainChange Change

func (c Change) MarshalJSON() ([]byte, error) {
	j := jsonChange{plainChange: plainChange(c)}
	if !utf8.ValidString(c.Path) {
		j.RawPath = []byte(c.Path)
	}
	return json.Marshal(j)
}

func (c *Change) UnmarshalJSON(data []byte) error {
	var j jsonChange
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	*c = Change(j.plainChange)
	if j.RawPath != nil {
		c.Path = string(j.RawPath)
	}
	return nil
}

// Plan is a merge that has been computed and not yet carried out. It is a plain
// value, to be kept in a log.
type Plan struct {
	From    []string `json:"from"` // the user's trees, as they were when it was made
	To      []string `json:"to"`   // what they will be
	Changes []Change `json:"changes"`
	// Conflicts are paths that both sides changed, or that are in the way. With
	// any, the plan is not carried out.
	Conflicts []string `json:"conflicts,omitempty"`
	Notes     []string `json:"notes,omitempty"`
	// Ref moves in branch mode.
	Ref *RefUpdate `json:"ref,omitempty"`
}

// Paths names what a plan changes, from the top of the user's tree.
func (p Plan) Paths(ws Workspace) []string {
	var all []string
	for _, c := range p.Changes {
		all = append(all, filepath.Join(ws.Trees[c.Tree].Path, c.Path))
	}
	return all
}

// tooLarge refuses a merge.
type tooLarge struct{ bytes int64 }

func (e tooLarge) Error() string {
	return fmt.Sprintf("Patch too large (%s, at most %s)", size(e.bytes), size(maxPatch))
}

// Plan merges what a task did with what the user has done since. It writes
// nothing outside the workspace and its snapshot.
func (w *Workspaces) Plan(ctx context.Context, env *tools.Env, ws Workspace, c Captured) (Plan, error) {
	v, err := w.probe(ctx, env)
	if err != nil {
		return Plan{}, err
	}
	if c.Bytes > maxPatch {
		return Plan{}, tooLarge{c.Bytes}
	}
	var p Plan
	for _, path := range c.Inner {
		p.Notes = append(p.Notes, path+" is a repository of its own: its files are among the changes, its commits are not")
	}
	for i, t := range ws.Trees {
		now, err := w.snapshot(ctx, env, t)
		if err != nil {
			return p, w.wordFull(err)
		}
		if i > 0 && ws.committed(ctx, env, t) {
			p.Notes = append(p.Notes, t.Path+": what was committed in it is among the changes, the commits are not")
		}
		to, conflicts, err := t.merge(ctx, t.git(env), v, t.Base, now, c.Trees[i])
		if err != nil {
			return p, w.wordFull(err)
		}
		p.From, p.To = append(p.From, now), append(p.To, to)
		for _, path := range conflicts {
			p.Conflicts = append(p.Conflicts, filepath.Join(t.Path, path))
		}
		if len(conflicts) == 0 {
			if err := p.add(ctx, env, t, i); err != nil {
				return p, err
			}
		}
	}
	if ws.Branch != "" && len(p.Conflicts) == 0 && !c.Empty {
		if err := w.planBranch(ctx, env, v, ws, c, &p); err != nil {
			return p, w.wordFull(err)
		}
	}
	return p, nil
}

// committed says whether a task has made commits in a tree. In one that it has broken there
// are none that could be named.
func (ws Workspace) committed(ctx context.Context, env *tools.Env, t Tree) bool {
	head, err := command{env: env, dir: ws.work(t)}.line(ctx, "rev-parse", "--verify", "-q", "HEAD")
	return err == nil && head != t.Base
}

// merge merges two trees that come from the base. Commits that we make up for them have the base
// as their parent, whatever the task did to its history.
func (t Tree) merge(ctx context.Context, g command, v version, base, ours, theirs string) (tree string, conflicts []string, err error) {
	g = g.with(identity...)
	if !v.atLeast(hasMergeTree) {
		return t.applyTree(ctx, g, base, ours, theirs)
	}
	sides := []string{ours, theirs}
	for i, side := range sides {
		if sides[i], err = g.line(ctx, "commit-tree", side, "-p", base, "-m", "side"); err != nil {
			return "", nil, err
		}
	}
	out, err := g.run(ctx, "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", sides[0], sides[1])
	if err != nil && !failedWith(err, 1) {
		return "", nil, err
	}
	parts := fields(out)
	if len(parts) == 0 {
		return "", nil, fmt.Errorf("git merge-tree: no result: %w", err)
	}
	if err == nil {
		return parts[0], nil, nil
	}
	return parts[0], unique(parts[1:]), nil
}

// applyTree does so with a git that cannot merge trees.
func (t Tree) applyTree(ctx context.Context, g command, base, ours, theirs string) (tree string, conflicts []string, err error) {
	dir, err := os.MkdirTemp(t.Store, "apply-")
	if err != nil {
		return "", nil, err
	}
	defer os.RemoveAll(dir)
	patch, err := g.run(ctx, "diff-tree", "-r", "-p", "--binary", "--full-index", "--no-renames", base, theirs)
	if err != nil {
		return "", nil, err
	}
	if len(patch) == 0 {
		return ours, nil, nil
	}
	g = g.with("GIT_INDEX_FILE=" + filepath.Join(dir, "index"))
	if _, err := g.run(ctx, "read-tree", ours); err != nil {
		return "", nil, err
	}
	_, failed := g.feed(ctx, strings.NewReader(string(patch)), "apply", "--cached", "--3way", "--whitespace=nowarn")
	if failed == nil {
		tree, err = g.line(ctx, "write-tree", "--missing-ok")
		return tree, nil, err
	}
	if !failedWith(failed, 1) {
		return "", nil, failed
	}
	out, err := g.run(ctx, "diff", "--cached", "--name-only", "--diff-filter=U", "-z")
	if err != nil {
		return "", nil, err
	}
	if conflicts = unique(fields(out)); len(conflicts) == 0 { // it did not even get to a merge
		conflicts, err = t.bothChanged(ctx, g, base, ours, theirs)
	}
	return ours, conflicts, err
}

// bothChanged names the paths that both sides changed.
func (t Tree) bothChanged(ctx context.Context, g command, base, ours, theirs string) ([]string, error) {
	var sides [2][]string
	for i, side := range []string{ours, theirs} {
		out, err := g.run(ctx, "diff-tree", "-r", "--name-only", "--no-renames", "-z", base, side)
		if err != nil {
			return nil, err
		}
		sides[i] = fields(out)
	}
	both := slices.DeleteFunc(sides[1], func(p string) bool { return !slices.Contains(sides[0], p) })
	if len(both) == 0 {
		return nil, errors.New("git apply refused the changes and names no conflict")
	}
	return both, nil
}

func unique(list []string) []string {
	list = slices.DeleteFunc(list, func(s string) bool { return s == "" })
	slices.Sort(list)
	return slices.Compact(list)
}

// add turns the difference of two trees into changes.
func (p *Plan) add(ctx context.Context, env *tools.Env, t Tree, number int) error {
	out, err := t.git(env).run(ctx, "diff-tree", "-r", "-z", "--no-abbrev", "--no-renames", p.From[number], p.To[number])
	if err != nil {
		return err
	}
	list, err := parseChanges(out)
	if err != nil {
		return err
	}
	removed := make(map[string]bool)
	for _, c := range list {
		removed[c.Path] = c.NewMode == ""
	}
	for _, c := range list {
		c.Tree = number
		if strings.HasPrefix(c.OldMode, gitlink) || strings.HasPrefix(c.NewMode, gitlink) {
			p.Notes = append(p.Notes, fmt.Sprintf("%s: which commit of a submodule is wanted is in the patch and was not merged", c.Path))
			continue
		}
		if why := inTheWay(t.Top, c, removed); why != "" {
			p.Conflicts = append(p.Conflicts, filepath.Join(t.Path, c.Path))
			p.Notes = append(p.Notes, filepath.Join(t.Path, c.Path)+": "+why)
			continue
		}
		p.Changes = append(p.Changes, c)
	}
	return nil
}

// inTheWay says why the place of a file is not as the tree says; "" if it is.
func inTheWay(top string, c Change, removed map[string]bool) string {
	info, err := lstat(top, c.Path)
	there := err == nil && !info.IsDir()
	for dir := filepath.Dir(c.Path); dir != "."; dir = filepath.Dir(dir) {
		info, err := lstat(top, dir)
		if err == nil && !info.IsDir() && !removed[dir] {
			return dir + ", above it, is no directory"
		}
	}
	switch {
	case there && c.OldMode == "":
		return "something that git ignores is there"
	case !there && c.OldMode != "":
		return "git knows it, and it is not there: a sparse checkout has left it out"
	case c.NewMode != "" && holdsMore(top, c.Path, removed):
		return "the directory that is there holds more than git knows"
	}
	return ""
}

// lstat looks at what is in a working tree. What a link in it leads to is not.
func lstat(top, path string) (fs.FileInfo, error) {
	for dir := filepath.Dir(path); dir != "."; dir = filepath.Dir(dir) {
		if info, err := os.Lstat(filepath.Join(top, dir)); err == nil && !info.IsDir() {
			return nil, &fs.PathError{Op: "lstat", Path: filepath.Join(top, path), Err: syscall.ENOTDIR}
		}
	}
	return os.Lstat(filepath.Join(top, path))
}

// holdsMore says that a directory, which is to make room for a file, holds more than
// directories and what is removed: files that git ignores, or a repository.
func holdsMore(top, dir string, removed map[string]bool) bool {
	list, err := os.ReadDir(filepath.Join(top, dir))
	if err != nil {
		return false // it is no directory, or Apply will say what is wrong with it
	}
	return slices.ContainsFunc(list, func(e os.DirEntry) bool {
		path := filepath.Join(dir, e.Name())
		if e.IsDir() {
			return holdsMore(top, path, removed)
		}
		return !removed[path]
	})
}

// parseChanges reads the raw form of diff-tree.
func parseChanges(out []byte) ([]Change, error) {
	parts := fields(out)
	if len(parts)%2 != 0 {
		return nil, errors.New("git diff-tree: half a record")
	}
	var list []Change
	for i := 0; i < len(parts); i += 2 {
		words := strings.Fields(strings.TrimPrefix(parts[i], ":"))
		if len(words) != 5 {
			return nil, fmt.Errorf("git diff-tree: unknown record %q", parts[i])
		}
		c := Change{Path: parts[i+1], OldMode: words[0], NewMode: words[1], Old: words[2], New: words[3]}
		if c.OldMode == "000000" {
			c.OldMode, c.Old = "", ""
		}
		if c.NewMode == "000000" {
			c.NewMode, c.New = "", ""
		}
		list = append(list, c)
	}
	return list, nil
}
