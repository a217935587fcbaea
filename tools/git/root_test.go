package git

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/tools"
)

// rooted is a set of machines with working trees of one remote.
type rooted struct {
	t      *testing.T
	env    *tools.Env
	origin string
	roots  []*Root
}

const tree = "session-1"

func newRooted(t *testing.T) *rooted {
	w := newRepository(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	origin := filepath.Join(dir, "origin.git")
	w.git("clone", "-q", "--bare", w.env.Cwd, origin)
	r := &rooted{t: t, env: w.env, origin: origin}
	for _, name := range []string{"a", "b"} {
		r.roots = append(r.roots, &Root{Remote: origin, Dir: filepath.Join(dir, name)})
	}
	return r
}

// takes checks the tree out on a machine and returns the files whose changes were lost.
func (r *rooted) takes(machine int, epoch uint64) []string {
	r.t.Helper()
	found, err := r.roots[machine].CheckOut(context.Background(), r.env, tree, epoch)
	require.NoError(r.t, err)
	return found.Lost
}

func (r *rooted) saves(machine int, epoch uint64) (bool, error) {
	return r.roots[machine].Save(context.Background(), r.env, tree, epoch, "")
}

func (r *rooted) path(machine int, name string) string {
	return filepath.Join(r.roots[machine].Tree(tree), name)
}

func (r *rooted) write(machine int, name, text string) {
	r.t.Helper()
	require.NoError(r.t, os.MkdirAll(filepath.Dir(r.path(machine, name)), 0o755))
	require.NoError(r.t, os.WriteFile(r.path(machine, name), []byte(text), 0o644))
}

// files returns the files of a working tree without .git.
func (r *rooted) files(machine int) map[string]string {
	files := map[string]string{}
	top := r.roots[machine].Tree(tree)
	require.NoError(r.t, filepath.WalkDir(top, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() && e.Name() != ".git" {
			text, err := os.ReadFile(path)
			require.NoError(r.t, err)
			name, _ := filepath.Rel(top, path)
			files[name] = string(text)
		}
		return err
	}))
	return files
}

// git runs git in the working tree, as a tool of the session does.
func (r *rooted) git(machine int, args ...string) string {
	r.t.Helper()
	out, err := command{env: r.env, dir: r.roots[machine].Tree(tree)}.line(context.Background(), args...)
	require.NoError(r.t, err)
	return out
}

// TestRootMoves checks that a session's changed, new, removed and committed files are present on
// the next machine, and on the first one when the session returns. The branches of the remote do
// not change.
func TestRootMoves(t *testing.T) {
	t.Parallel()
	r := newRooted(t)
	branches := r.heads()
	assert.Empty(t, r.takes(0, 5))
	begun := r.files(0)
	require.NotEmpty(t, begun)
	r.write(0, "committed", "one\n")
	r.git(0, "add", "committed")
	r.git(0, "commit", "-q", "-m", "mine")
	head := r.git(0, "rev-parse", "HEAD")
	r.write(0, "committed", "two\n")
	r.write(0, "sub/dir/new", "new\n")
	r.write(0, "with space\nand line", "x")
	r.git(0, "rm", "-q", "--cached", "committed") // the index is not saved
	var first string
	for name := range begun {
		first = max(first, name)
	}
	require.NoError(t, os.Remove(r.path(0, first)))
	changed, err := r.saves(0, 5)
	require.NoError(t, err)
	require.True(t, changed)
	changed, err = r.saves(0, 5)
	require.NoError(t, err)
	assert.False(t, changed, "nothing has changed since")
	was := r.files(0)

	assert.Empty(t, r.takes(1, 9))
	assert.Equal(t, was, r.files(1))
	assert.Equal(t, head, r.git(1, "rev-parse", "HEAD"))
	assert.Equal(t, "troupe/"+tree, r.git(1, "symbolic-ref", "--short", "HEAD"))
	assert.NotEmpty(t, r.git(1, "status", "--porcelain"), "what was not committed is not")
	r.write(1, "sub/dir/new", "newer\n")
	require.NoError(t, os.Remove(r.path(1, "committed")))
	_, err = r.saves(1, 9)
	require.NoError(t, err)

	assert.Empty(t, r.takes(0, 12), "all that was there was saved")
	assert.Equal(t, r.files(1), r.files(0))
	assert.Equal(t, branches, r.heads())
}

// heads returns the branches of the remote.
func (r *rooted) heads() string {
	out, err := command{env: r.env, dir: r.origin}.line(context.Background(), "for-each-ref", "refs/heads")
	require.NoError(r.t, err)
	return out
}

// TestRootBesideAnother checks that a fetch is repeated if it fails because another session's
// worktree is being created, whose HEAD is not a commit yet.
func TestRootBesideAnother(t *testing.T) {
	r := newRooted(t)
	bin := t.TempDir()
	git, err := exec.LookPath("git")
	require.NoError(t, err)
	script := fmt.Sprintf(`#!/bin/sh
for word; do
  if [ "$word" = fetch ] && [ ! -e %[1]s/was ]; then
    : > %[1]s/was
    echo "fatal: bad object worktrees/another/HEAD" >&2
    exit 128
  fi
done
exec %[2]s "$@"
`, bin, git)
	require.NoError(t, os.WriteFile(filepath.Join(bin, "git"), []byte(script), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	assert.Empty(t, r.takes(0, 1))
	assert.FileExists(t, filepath.Join(bin, "was"))
	assert.FileExists(t, r.path(0, ".git"))
}

// TestRootLost checks changes after the last save. If another machine has had the session since,
// they are reported as lost, and the first machine keeps them in a ref below refs/troupe/lost.
// Otherwise they stay in the tree.
func TestRootLost(t *testing.T) {
	t.Parallel()
	r := newRooted(t)
	r.takes(0, 5)
	r.write(0, "kept", "one")
	r.saves(0, 5)
	r.write(0, "kept", "two")
	r.write(0, "new", "new")
	assert.Empty(t, r.takes(0, 7), "nobody else has had it")
	r.write(0, "kept", "three")
	r.write(0, "newer", "newer")
	r.takes(1, 9)
	assert.Equal(t, "two", r.files(1)["kept"])
	lost := r.takes(0, 11)
	assert.Equal(t, []string{"kept", "newer"}, lost)
	assert.Equal(t, r.files(1), r.files(0))
	refs := r.git(0, "for-each-ref", "--format=%(refname)", "refs/troupe/lost/"+tree)
	require.NotEmpty(t, refs)
	assert.Equal(t, "three", r.git(0, "show", refs+":kept"))
}

// TestRootBehind checks that a machine knows the place in the session at which the tree was last
// saved, even if nothing had changed. It also knows whether any other machine has had the tree.
func TestRootBehind(t *testing.T) {
	t.Parallel()
	r := newRooted(t)
	finds := func(machine int, epoch uint64) Found {
		found, err := r.roots[machine].CheckOut(context.Background(), r.env, tree, epoch)
		require.NoError(t, err)
		return found
	}
	saves := func(machine int, epoch uint64, place string, changes bool) {
		changed, err := r.roots[machine].Save(context.Background(), r.env, tree, epoch, place)
		require.NoError(t, err)
		assert.Equal(t, changes, changed)
	}
	assert.Equal(t, Found{}, finds(0, 5))
	assert.Equal(t, Found{Put: true}, finds(1, 7), "it was saved behind nothing")
	saves(1, 7, "one", true)
	saves(1, 7, "one", false)
	assert.Equal(t, Found{Put: true, Behind: "one"}, finds(0, 9))
	assert.Equal(t, Found{Behind: "one"}, finds(0, 11), "nobody else has had it")
	saves(0, 11, "two", true)
	require.NoError(t, os.Rename(r.origin, r.origin+"-away"))
	r.write(0, "new", "new")
	_, err := r.roots[0].Save(context.Background(), r.env, tree, 11, "three")
	require.Error(t, err)
	lost, err := r.roots[0].SetAside(context.Background(), r.env, tree)
	require.NoError(t, err)
	assert.Equal(t, []string{"new"}, lost)
	refs := r.git(0, "for-each-ref", "--format=%(refname)", "refs/troupe/lost/"+tree)
	assert.Equal(t, "new", r.git(0, "show", refs+":new"))
	require.NoError(t, os.Rename(r.origin+"-away", r.origin))
	assert.Equal(t, Found{Put: true, Behind: "two"}, finds(1, 13))
}

// TestRootFenced checks that an owner of an older epoch cannot save over a newer one. A save of the
// old owner during the takeover is overwritten.
func TestRootFenced(t *testing.T) {
	t.Parallel()
	r := newRooted(t)
	r.takes(0, 5)
	r.takes(1, 9)
	r.write(0, "late", "late")
	_, err := r.saves(0, 5)
	require.ErrorIs(t, err, ErrNewerTree)
	r.write(1, "mine", "mine")
	_, err = r.saves(1, 9)
	require.NoError(t, err)
	assert.NotContains(t, r.files(1), "late")

	late := r.roots[0]
	_, err = late.git(r.env).run(context.Background(), "fetch", "-q", r.origin, "+"+remoteRef(tree)+":"+lastRef(tree))
	require.NoError(t, err)
	_, err = r.saves(0, 8) // succeeds: no newer save exists
	require.NoError(t, err)
	r.write(1, "mine", "again")
	_, err = r.saves(1, 9)
	require.NoError(t, err)
	r.write(0, "late", "later")
	_, err = r.saves(0, 8)
	require.ErrorIs(t, err, ErrNewerTree)
	r.takes(0, 12)
	assert.Equal(t, "again", r.files(0)["mine"])
	assert.NotContains(t, r.files(0), "late")
}

// TestRootBranch checks that sessions start with the named branch or the remote's HEAD. Problems
// with a remote are reported when the session starts.
func TestRootBranch(t *testing.T) {
	t.Parallel()
	r := newRooted(t)
	other := command{env: r.env, dir: r.origin}
	_, err := other.run(context.Background(), "branch", "other", "HEAD")
	require.NoError(t, err)
	dir := t.TempDir()
	for remote, problem := range map[string]string{r.origin + "#other": "", r.origin + "#none": "no branch none", filepath.Join(dir, "nowhere"): "ls-remote"} {
		root := &Root{Remote: remote, Dir: t.TempDir()}
		_, err := root.CheckOut(context.Background(), r.env, "session"+strconv.Itoa(len(remote)), 1)
		if problem == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, problem, remote)
	}
	_, err = other.run(context.Background(), "init", "-q", "--bare", filepath.Join(dir, "empty"))
	require.NoError(t, err)
	empty := &Root{Remote: filepath.Join(dir, "empty"), Dir: filepath.Join(dir, "of-empty")}
	_, err = empty.CheckOut(context.Background(), r.env, tree, 1)
	require.ErrorContains(t, err, "no branch")
}

// TestRootTrustsNoTree checks that files in a working tree cannot run commands or redirect git to
// another repository.
func TestRootTrustsNoTree(t *testing.T) {
	t.Parallel()
	r := newRooted(t)
	r.takes(0, 5)
	evil := t.TempDir()
	require.NoError(t, os.WriteFile(r.path(0, ".git"), []byte("gitdir: "+evil+"\n"), 0o644))
	r.write(0, "new", "new")
	r.write(0, ".gitattributes", "* filter=evil\n")
	_, err := r.saves(0, 5)
	require.NoError(t, err)
	r.takes(1, 9)
	assert.Equal(t, "new", r.files(1)["new"])
	r.write(1, "unsaved", "x")
	require.NoError(t, r.roots[1].Forget(context.Background(), r.env, tree))
	require.DirExists(t, r.roots[1].Tree(tree), "it is the only copy")
	_, err = r.saves(1, 9)
	require.NoError(t, err)
	require.NoError(t, r.roots[1].Forget(context.Background(), r.env, tree))
	assert.NoDirExists(t, r.roots[1].Tree(tree))
	r.takes(1, 10)
	assert.Equal(t, "new", r.files(1)["new"])
	assert.False(t, strings.Contains(r.heads(), "troupe"))
}
