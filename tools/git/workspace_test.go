package git

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPrepareTakesWhatIsNotCommitted checks that a workspace contains staged, unstaged and
// untracked changes and removals, but no ignored files. The user's repository stays identical to
// the byte.
func TestPrepareTakesWhatIsNotCommitted(t *testing.T) {
	t.Parallel()
	w := newRepository(t)
	w.put("staged.txt", "staged\n")
	w.git("add", "staged.txt")
	w.put("a.txt", "changed\n")
	w.put("new/untracked.txt", "untracked\n")
	w.put("x.log", "ignored\n")
	require.NoError(t, os.Remove(filepath.Join(w.env.Cwd, "dir/b.txt")))
	w.git("stash", "list")
	before := w.dotGit()

	ws := w.prepare(Spec{})
	require.Equal(t, before, w.dotGit())
	require.Equal(t, map[string]string{
		".gitignore": "644 *.log\nnode_modules/\n", "a.txt": "644 changed\n", "new/untracked.txt": "644 untracked\n", "staged.txt": "644 staged\n",
	}, files(t, ws.Path, ".git"))
	require.Empty(t, w.gitIn(ws.Path, "status", "--porcelain"))
	require.Equal(t, w.git("rev-parse", "HEAD"), w.gitIn(ws.Path, "rev-parse", "HEAD^"))
	require.Equal(t, w.git("rev-parse", "main"), w.gitIn(ws.Path, "rev-parse", "main"), "branches are there")
	require.False(t, strings.HasPrefix(ws.Dir, w.env.Cwd))
}

// TestPrepareKeepsTheDirectory checks a session in a subdirectory: its workspace contains the whole
// repository, and the task works in the same subdirectory.
func TestPrepareKeepsTheDirectory(t *testing.T) {
	t.Parallel()
	w := newRepository(t)
	w.env.Cwd = filepath.Join(w.env.Cwd, "dir")
	ws := w.prepare(Spec{})
	require.Equal(t, "b\n", get(t, filepath.Join(ws.Path, "b.txt")))
	require.Equal(t, "dir", filepath.Base(ws.Path))
}

// TestApply checks that changes of the user and the task to different lines of one file are merged.
// The user's repository is unchanged.
func TestApply(t *testing.T) {
	t.Parallel()
	w := newRepository(t)
	w.put("a.txt", strings.Replace(w.get("a.txt"), "line 2\n", "line 2 by the user\n", 1))
	w.git("add", "a.txt")
	before := w.dotGit()

	ws := w.prepare(Spec{})
	put(t, filepath.Join(ws.Path, "a.txt"), strings.Replace(get(t, filepath.Join(ws.Path, "a.txt")), "line 19\n", "line 19 by the task\n", 1))
	put(t, filepath.Join(ws.Path, "sub/dir/new.txt"), "new\n")
	put(t, filepath.Join(ws.Path, "sub/dir/second.txt"), "second\n")
	require.NoError(t, os.Remove(filepath.Join(ws.Path, "dir/b.txt")))
	require.NoError(t, os.Symlink("a.txt", filepath.Join(ws.Path, "link")))
	require.NoError(t, os.WriteFile(filepath.Join(ws.Path, "run.sh"), []byte("#!/bin/sh\n"), 0o755))
	w.put("a.txt", strings.Replace(w.get("a.txt"), "line 10\n", "line 10 later\n", 1))

	c := w.capture(ws)
	require.False(t, c.Empty)
	require.Contains(t, get(t, c.Patch), "line 19 by the task")
	require.NotContains(t, get(t, c.Patch), "by the user", "what the user did is no work of the task")
	w.apply(ws)
	require.Equal(t, before, w.dotGit())
	want := strings.NewReplacer("line 2\n", "line 2 by the user\n", "line 10\n", "line 10 later\n", "line 19\n", "line 19 by the task\n").Replace(lines(1, 20))
	require.Equal(t, map[string]string{
		".gitignore": "644 *.log\nnode_modules/\n", "a.txt": "644 " + want, "link": "-> a.txt",
		"run.sh": "755 #!/bin/sh\n", "sub/dir/new.txt": "644 new\n", "sub/dir/second.txt": "644 second\n",
	}, w.tree())
	require.NoDirExists(t, filepath.Join(w.env.Cwd, "dir"))

	require.NoError(t, w.ws.Merged(ws))
	require.NoError(t, w.ws.Remove(t.Context(), ws))
	require.NoDirExists(t, ws.Dir)
	require.DirExists(t, ws.Shared, "the call goes on")
	require.NoError(t, w.ws.EndCall(t.Context(), "session", "callT1"))
	require.NoDirExists(t, ws.Shared)
}

// TestConflict checks that a conflict writes nothing.
func TestConflict(t *testing.T) {
	t.Parallel()
	w := newRepository(t)
	ws := w.prepare(Spec{})
	put(t, filepath.Join(ws.Path, "a.txt"), "by the task\n")
	put(t, filepath.Join(ws.Path, "fine.txt"), "fine\n")
	w.put("a.txt", "by the user\n")
	tree, git := w.tree(), w.dotGit()
	p := w.plan(ws)
	require.Equal(t, []string{"a.txt"}, p.Conflicts)
	require.Error(t, w.ws.Apply(t.Context(), w.env, ws, p))
	require.Equal(t, tree, w.tree())
	require.Equal(t, git, w.dotGit())
}

// TestPrepareBesideALeftover checks that a task gets a workspace although an earlier one of its
// name was left behind, in this process or in one that has ended. What is left has its name still.
func TestPrepareBesideALeftover(t *testing.T) {
	t.Parallel()
	w := newRepository(t)
	dirs := map[string]bool{}
	for i := range 3 {
		if i == 2 { // another process
			w.ws.Close()
			w.ws = New(w.ws.dir)
			w.ws.minFree = 1 << 20
			t.Cleanup(w.ws.Close)
		}
		ws := w.prepare(Spec{ID: "T"})
		require.Equal(t, "b\n", get(t, filepath.Join(ws.Path, "dir/b.txt")))
		require.False(t, dirs[ws.Dir])
		dirs[ws.Dir] = true
		again, err := w.ws.Open(ws.Dir)
		require.NoError(t, err)
		require.Equal(t, ws.Dir, again.Dir)
	}
}

// TestPrepareIsCancelled checks that a workspace whose preparation is cancelled is removed, at
// whatever moment that comes.
func TestPrepareIsCancelled(t *testing.T) {
	t.Parallel()
	w := newRepository(t)
	for i := range 300 {
		w.put(fmt.Sprintf("many/%d.txt", i), "text\n")
	}
	cancelled := 0
	for i := range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*5*time.Millisecond)
		ws, err := w.ws.Prepare(ctx, w.env, Spec{Session: "s", Call: fmt.Sprint("c", i), ID: "T"})
		cancel()
		if err == nil {
			require.NoError(t, w.ws.Remove(t.Context(), ws))
		} else {
			cancelled++
		}
		require.NoError(t, w.ws.EndCall(t.Context(), "s", fmt.Sprint("c", i)))
		left, err := filepath.Glob(filepath.Join(w.ws.dir, "*", "*"))
		require.NoError(t, err)
		require.Empty(t, left)
	}
	require.Positive(t, cancelled)
}
