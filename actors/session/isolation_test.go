package session

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"troupe/actors/core"
	"troupe/tools"
	"troupe/tools/git"
)

// Where no branch is checked out that could be moved, the work is on one of its own, and
// nobody is told that it was merged.
func TestNoBranchIsCheckedOut(t *testing.T) {
	root := t.TempDir()
	repo := filepath.Join(root, "repo")
	require.NoError(t, os.Mkdir(repo, 0o755))
	procs := tools.NewProcs(nil)
	t.Cleanup(func() { procs.KillAll(time.Millisecond) })
	vars := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + root}
	in := func(args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = repo, vars
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "git %v: %s", args, out)
		return string(out)
	}
	in("init", "-q")
	in("-c", "user.name=Ann", "-c", "user.email=ann@example.org", "commit", "-q", "--allow-empty", "-m", "first")
	in("checkout", "-q", "--detach")
	all := git.New(filepath.Join(root, "cache"))
	t.Cleanup(all.Close)
	iso := isolation{
		all: all, env: &tools.Env{Cwd: repo, Home: root, Environ: vars, Files: new(tools.Files), Procs: procs},
		session: "s", files: filepath.Join(root, "session"), shared: newWorkspaces(), settings: settingsOfIsolation{branch: true},
	}
	ready := iso.prepare(t.Context(), core.PrepareWorkspace{Call: "c", ID: "A"})
	require.Empty(t, ready.Err)
	require.NoError(t, os.WriteFile(filepath.Join(ready.Path, "a.txt"), []byte("a\n"), 0o644))
	work := iso.capture(t.Context(), core.CaptureWork{ID: "A", Dir: ready.Dir, Description: "adds a file"})
	require.Empty(t, work.Err)
	plan := iso.plan(t.Context(), core.PlanMerge{ID: "A", Dir: ready.Dir, Captured: json.RawMessage(work.Captured)})
	require.Empty(t, plan.Err)
	require.True(t, plan.Aside)
	require.Nil(t, plan.Plan, "there is nothing to merge")
	require.Equal(t, "a\n", in("show", plan.Branch+":a.txt"))
	require.NoFileExists(t, filepath.Join(repo, "a.txt"))
}

// A merge that was cut off with its node (T5), or whose workspace is gone, is neither repeated nor called undone.
func TestMergeOfAnotherMachine(t *testing.T) {
	all := git.New(filepath.Join(t.TempDir(), "cache"))
	t.Cleanup(all.Close)
	gone := filepath.Join(t.TempDir(), "cache", "tasks", "x")
	r := recoverMerge(all, &tools.Env{}, gone)
	require.False(t, r.Merged)
	require.Contains(t, r.Err, "is not on this machine")
	require.NoDirExists(t, gone)
}

// TestIsolationBase expands ~ in task.isolation.base, as in every other setting that names a directory.
func TestIsolationBase(t *testing.T) {
	h := &Shared{Config: Config{Home: "/home/u"}}
	require.Equal(t, "/home/u/wt", isolationBase("~/wt", h))
	require.Equal(t, "/home/u", isolationBase("~", h))
	require.Equal(t, "/w", isolationBase("/w", h))
}
