package git

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"troupe/tools"
)

// RefUpdate is the move of a branch of the user.
type RefUpdate struct {
	Name string `json:"name"` // refs/heads/…
	Old  string `json:"old,omitempty"`
	New  string `json:"new"`
	// Only says that no file is touched: the user has no branch checked out, or is in the middle of an
	// operation, and gets a branch to merge himself.
	Only bool `json:"only,omitempty"`
}

// indexUpdate are entries of the user's index that change with the branch, in
// the form of update-index --index-info. Entries in which he staged something of
// his own are not among them.
type indexUpdate struct {
	Old string `json:"old"`
	New string `json:"new"`
}

// objects adds the objects of the task's own clone.
func (ws Workspace) objects(g command, t Tree) command {
	return g.with("GIT_ALTERNATE_OBJECT_DIRECTORIES=" + filepath.Join(ws.work(t), ".git", "objects"))
}

// commits are those of the task, from the first to the last. What it did not commit becomes one more. A history
// that is not a line from the baseline, or may name commits of repositories that it made, becomes
// one commit. Rest says that there was something that it did not commit.
func (ws Workspace) commits(ctx context.Context, env *tools.Env, c Captured, message string) (list []string, rest bool, err error) {
	tree := c.Trees[0]
	t := ws.Trees[0]
	g := ws.objects(t.git(env), t)
	if message == "" {
		message = "task " + ws.ID
	}
	if len(c.Inner) == 0 {
		if list, err = ws.history(ctx, env, g); err != nil {
			return nil, false, err
		}
	}
	last := t.Base
	if len(list) > 0 {
		last = list[len(list)-1]
	}
	has, err := g.line(ctx, "rev-parse", last+"^{tree}")
	if err != nil || has == tree {
		return list, false, err
	}
	one, err := commitAs(ctx, g, author(ctx, g), tree, last, message)
	return append(list, one), true, err
}

// history is the line of commits from the baseline to the task's HEAD; none if it
// is not a line.
func (ws Workspace) history(ctx context.Context, env *tools.Env, g command) ([]string, error) {
	own := command{env: env, dir: ws.root(), vars: []string{"GIT_DIR=" + filepath.Join(ws.root(), ".git")}}
	head, err := own.line(ctx, "rev-parse", "-q", "--verify", "HEAD^{commit}")
	if err != nil || head == ws.Baseline {
		return nil, ctx.Err() // a task may have broken its clone: then its files are one commit
	}
	if _, err := g.run(ctx, "merge-base", "--is-ancestor", ws.Baseline, head); err != nil {
		return nil, ctx.Err()
	}
	out, err := g.line(ctx, "rev-list", "--reverse", "--parents", ws.Baseline+".."+head)
	if err != nil {
		return nil, err
	}
	var list []string
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		if len(words) != 2 {
			return nil, nil
		}
		list = append(list, words[0])
	}
	return list, nil
}

// author is the user, or us if git does not know him.
func author(ctx context.Context, g command) []string {
	if _, err := g.run(ctx, "var", "GIT_AUTHOR_IDENT"); err == nil {
		return nil
	}
	return identity
}

func commitAs(ctx context.Context, g command, vars []string, tree, parent, message string) (string, error) {
	args := []string{"commit-tree", tree, "-F", "-"}
	if parent != "" {
		args = append(args, "-p", parent)
	}
	out, err := g.with(vars...).feed(ctx, strings.NewReader(message), args...)
	return strings.TrimSpace(string(out)), err
}

// planBranch puts the commits of the task on top of the user's HEAD.
func (w *Workspaces) planBranch(ctx context.Context, env *tools.Env, v version, ws Workspace, c Captured, p *Plan) error {
	t := ws.Trees[0]
	src, err := find(ctx, env, t.Top)
	if err != nil {
		return err
	}
	head, conflicts, err := w.rebuild(ctx, env, v, ws, c.Commits, src.head)
	if err != nil {
		return err
	}
	if len(conflicts) > 0 { // of the files there was none
		p.Conflicts = conflicts
		p.Notes = append(p.Notes, "its commits do not fit on the branch: they change what is not committed there")
		return nil
	}
	if head == src.head {
		return nil // nothing is left of it
	}
	name, err := command{env: env, dir: t.Top}.line(ctx, "symbolic-ref", "-q", "HEAD")
	if err == nil && !src.busy() {
		p.Ref = &RefUpdate{Name: name, Old: src.head, New: head}
		return nil
	}
	if err != nil && !failedWith(err, 1) {
		return err
	}
	p.Ref = &RefUpdate{Name: "refs/heads/" + ws.Branch, New: head, Only: true}
	p.Changes = nil
	p.Notes = append(p.Notes, "no branch is checked out, or an operation goes on: the work is on branch "+ws.Branch)
	return nil
}

// busy says that the user is in the middle of something.
func (s source) busy() bool {
	for _, name := range []string{"rebase-merge", "rebase-apply", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG"} {
		if exists(filepath.Join(s.gitDir, name)) {
			return true
		}
	}
	return false
}

// rebuild makes the commits once more on top of head.
func (w *Workspaces) rebuild(ctx context.Context, env *tools.Env, v version, ws Workspace, commits []string, head string) (string, []string, error) {
	t := ws.Trees[0]
	g := ws.objects(t.git(env), t)
	before := ws.Baseline
	for _, commit := range commits {
		ours, err := treeOf(ctx, g, head)
		if err != nil {
			return "", nil, err
		}
		theirs, err := treeOf(ctx, g, commit)
		if err != nil {
			return "", nil, err
		}
		tree, conflicts, err := t.merge(ctx, g, v, before, ours, theirs)
		if err != nil || len(conflicts) > 0 {
			return "", conflicts, err
		}
		if before = commit; tree == ours {
			continue
		}
		if head, err = copyCommit(ctx, g, commit, tree, head); err != nil {
			return "", nil, err
		}
	}
	return head, nil, nil
}

// treeOf is the tree of a commit; of none, the empty one.
func treeOf(ctx context.Context, g command, commit string) (string, error) {
	if commit == "" {
		out, err := g.feed(ctx, strings.NewReader(""), "mktree")
		return strings.TrimSpace(string(out)), err
	}
	return g.line(ctx, "rev-parse", commit+"^{tree}")
}

// copyCommit makes a commit by the author of another and with its message.
func copyCommit(ctx context.Context, g command, commit, tree, parent string) (string, error) {
	out, err := g.run(ctx, "log", "-1", "--date=raw", "--format=%an%x00%ae%x00%ad%x00%B", commit)
	if err != nil {
		return "", err
	}
	parts := strings.SplitN(string(out), "\x00", 4)
	if len(parts) != 4 {
		return "", errors.New("git log: half a commit")
	}
	vars := append([]string{}, author(ctx, g)...)
	vars = append(vars, "GIT_AUTHOR_NAME="+parts[0], "GIT_AUTHOR_EMAIL="+parts[1], "GIT_AUTHOR_DATE="+parts[2])
	return commitAs(ctx, g, vars, tree, parent, strings.TrimRight(parts[3], "\n")+"\n")
}

// Surface gives the user a branch with the work of a task as the task left it,
// for who does not want it merged, or cannot. It touches nothing else.
func (w *Workspaces) Surface(ctx context.Context, env *tools.Env, ws Workspace, c Captured) (branch string, err error) {
	if ws.Branch == "" || len(c.Commits) == 0 {
		return "", nil
	}
	m := &merge{trees: ws.Trees, Plan: Plan{Ref: &RefUpdate{Name: "refs/heads/" + ws.Branch, New: c.Commits[len(c.Commits)-1], Only: true}}}
	if err := m.sendObjects(ctx, env, ws); err != nil {
		return "", w.wordFull(err)
	}
	return ws.Branch, m.updateRef(ctx, env)
}

// prepareRef brings the objects over, which nothing refers to yet, and notes what
// will change in the index.
func (m *merge) prepareRef(ctx context.Context, env *tools.Env, ws Workspace) error {
	if m.Plan.Ref == nil {
		return nil
	}
	if err := m.sendObjects(ctx, env, ws); err != nil {
		return err
	}
	if m.Plan.Ref.Only {
		return nil
	}
	var err error
	m.Index, err = m.planIndex(ctx, env)
	return err
}

func (m *merge) sendObjects(ctx context.Context, env *tools.Env, ws Workspace) error {
	t := m.trees[0]
	want := m.Plan.Ref.New + "\n"
	if t.Before != "" {
		want += "^" + t.Before + "\n"
	}
	if old := m.Plan.Ref.Old; old != "" {
		want += "^" + old + "\n"
	}
	pack, err := ws.objects(t.git(env), t).feed(ctx, strings.NewReader(want), "pack-objects", "--revs", "--stdout", "-q")
	if err != nil {
		return err
	}
	_, err = t.users(ctx, env).feed(ctx, strings.NewReader(string(pack)), "unpack-objects", "-q")
	return err
}

// planIndex finds the entries that are as in the old commit.
func (m *merge) planIndex(ctx context.Context, env *tools.Env) (*indexUpdate, error) {
	g := command{env: env, dir: m.trees[0].Top}
	staged, err := entries(ctx, g, "ls-files", "-s", "-z")
	if err != nil {
		return nil, err
	}
	before := map[string]string{}
	if m.Plan.Ref.Old != "" {
		if before, err = entries(ctx, g, "ls-tree", "-r", "-z", m.Plan.Ref.Old); err != nil {
			return nil, err
		}
	}
	after, err := entries(ctx, g, "ls-tree", "-r", "-z", m.Plan.Ref.New)
	if err != nil {
		return nil, err
	}
	u := new(indexUpdate)
	for path := range union(before, after) {
		if before[path] == after[path] || staged[path] != before[path] {
			continue
		}
		u.Old += infoLine(path, before[path], len(m.Plan.Ref.New))
		u.New += infoLine(path, after[path], len(m.Plan.Ref.New))
	}
	return u, nil
}

func union(a, b map[string]string) map[string]bool {
	all := make(map[string]bool)
	for _, m := range []map[string]string{a, b} {
		for path := range m {
			all[path] = true
		}
	}
	return all
}

// entries are "mode hash" by path. Of a path with a conflict in the index it is
// none that a tree has.
func entries(ctx context.Context, g command, args ...string) (map[string]string, error) {
	out, err := g.run(ctx, args...)
	if err != nil {
		return nil, err
	}
	all := make(map[string]string)
	for _, line := range fields(out) {
		meta, path, _ := strings.Cut(line, "\t")
		words := strings.Fields(meta) // mode hash stage, or mode type hash
		if len(words) != 3 {
			return nil, fmt.Errorf("git %s: unknown line %q", args[0], line)
		}
		switch {
		case args[0] == "ls-tree":
			all[path] = words[0] + " " + words[2]
		case words[2] == "0":
			all[path] = words[0] + " " + words[1]
		default:
			all[path] = "conflict"
		}
	}
	return all, nil
}

func infoLine(path, entry string, hashLen int) string {
	if entry == "" {
		entry = "0 " + strings.Repeat("0", hashLen)
	}
	return entry + "\t" + path + "\x00"
}

// moveRef changes index and branch, or neither. Once more is no harm.
func (m *merge) moveRef(env *tools.Env) error {
	if m.Plan.Ref == nil {
		return nil
	}
	ctx := context.Background() // what has begun is finished
	if err := m.setIndex(ctx, env, true); err != nil {
		return err
	}
	m.next("index")
	if err := m.updateRef(ctx, env); err != nil {
		return errors.Join(err, m.setIndex(ctx, env, false))
	}
	m.next("branch")
	return nil
}

func (m *merge) setIndex(ctx context.Context, env *tools.Env, forward bool) error {
	if m.Index == nil || m.Index.New == "" {
		return nil
	}
	lines := m.Index.New
	if !forward {
		lines = m.Index.Old
	}
	g := m.trees[0].users(ctx, env)
	_, err := g.feed(ctx, strings.NewReader(lines), "update-index", "-z", "--replace", "--index-info")
	return err
}

// updateRef moves the branch if it is still where it was.
func (m *merge) updateRef(ctx context.Context, env *tools.Env) error {
	r := m.Plan.Ref
	g := m.trees[0].users(ctx, env)
	now, err := g.line(ctx, "rev-parse", "-q", "--verify", r.Name)
	if err != nil && !failedWith(err, 1) {
		return err
	}
	if now == r.New {
		return nil
	}
	old := r.Old
	if old == "" {
		old = strings.Repeat("0", len(r.New))
	}
	if _, err := g.with(author(ctx, g)...).run(ctx, "update-ref", "-m", "task", r.Name, r.New, old); err != nil {
		return fmt.Errorf("%w: %w", ErrMoved, err)
	}
	return nil
}
