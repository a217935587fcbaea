package git

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"troupe/tools"
)

// TestNotUnderGit checks that a directory without git is isolated with a temporary repository.
func TestNotUnderGit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("a.txt", lines(1, 20))
	w.put("dir/b.txt", "b\n")
	ws := w.prepare(Spec{})
	require.Equal(t, w.tree(), files(t, ws.Path), "and no .git in either")
	put(t, filepath.Join(ws.Path, "dir/b.txt"), "by the task\n")
	put(t, filepath.Join(ws.Path, "c.txt"), "c\n")
	w.put("a.txt", "by the user\n")
	w.apply(ws)
	require.Equal(t, map[string]string{"a.txt": "644 by the user\n", "c.txt": "644 c\n", "dir/b.txt": "644 by the task\n"}, w.tree())
}

func TestNoCommitYet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.git("init", "-q")
	w.put("a.txt", "a\n")
	ws := w.prepare(Spec{})
	put(t, filepath.Join(ws.Path, "b.txt"), "b\n")
	before := w.dotGit()
	w.apply(ws)
	require.Equal(t, before, w.dotGit())
	require.Equal(t, "b\n", w.get("b.txt"))
}

// TestNothingThere checks that an empty directory gives an empty capture, and that a task can add
// files to it.
func TestNothingThere(t *testing.T) {
	t.Parallel()
	for _, init := range []bool{false, true} {
		w := newWorld(t)
		if init {
			w.git("init", "-q")
		}
		ws := w.prepare(Spec{})
		require.True(t, w.capture(ws).Empty)
		put(t, filepath.Join(ws.Path, "b.txt"), "b\n")
		w.apply(ws)
		require.Equal(t, "b\n", w.get("b.txt"))
	}
}

// TestCheckRefuses checks that a directory that cannot be isolated is refused before anything is
// written.
func TestCheckRefuses(t *testing.T) {
	t.Parallel()
	refusal := func(w *world) string {
		t.Helper()
		err := w.ws.Check(t.Context(), w.env)
		require.Error(t, err)
		require.NoDirExists(t, w.ws.dir)
		return err.Error()
	}
	w := newWorld(t)
	w.git("init", "-q", "--bare")
	require.Equal(t, "Isolated task execution requires a git repository (the repository is bare)", refusal(w))

	w = newWorld(t)
	w.env.Home = filepath.Join(w.env.Cwd, "home")
	require.Contains(t, refusal(w), "too high up for a copy")

	w = newRepository(t)
	w.put("home/x", "x\n")
	w.env.Cwd, w.env.Home = filepath.Join(w.env.Cwd, "home"), filepath.Join(w.env.Cwd, "home")
	require.Contains(t, refusal(w), "too high up for a copy")
}

// TestBelowAnotherRepository checks directories of which the repository above has no file: they are
// isolated like a directory without git. What is in that repository does not matter, and git in the
// workspace does not find it.
func TestBelowAnotherRepository(t *testing.T) {
	t.Parallel()
	for _, below := range []string{"plain", "node_modules", "dir/deep"} {
		t.Run(below, func(t *testing.T) {
			t.Parallel()
			w := newRepository(t)
			home := w.env.Cwd
			w.ws.dir = filepath.Join(home, ".cache/wt")
			huge, err := os.Create(filepath.Join(home, "huge.bin"))
			require.NoError(t, err)
			require.NoError(t, huge.Truncate(maxUntrackedFile+1)) // sparse
			require.NoError(t, huge.Close())
			w.put(below+"/x", "x\n")
			w.put("mine.txt", "mine\n")
			before := w.dotGit()
			w.env.Cwd = filepath.Join(home, below)
			ws := w.prepare(Spec{Branch: true})
			require.False(t, ws.Repository)
			require.Equal(t, map[string]string{"x": "644 x\n"}, files(t, ws.root()))
			put(t, filepath.Join(ws.Path, "x"), "by the task\n")
			put(t, filepath.Join(ws.Path, "y"), "new\n")

			cmd := exec.Command("git", "rev-parse", "--show-toplevel")
			cmd.Dir, cmd.Env = ws.Path, WithCeiling(ws.Path, slices.DeleteFunc(slices.Clone(w.env.Environ), func(v string) bool { return strings.HasPrefix(v, "GIT_") }))
			out, err := cmd.CombinedOutput()
			require.Error(t, err, "%s", out)
			require.Contains(t, string(out), "not a git repository")

			w.apply(ws)
			require.Equal(t, map[string]string{"x": "644 by the task\n", "y": "644 new\n"}, w.tree())
			require.Equal(t, before, files(t, filepath.Join(home, ".git")))
		})
	}
}

// TestBelowOwnRepository checks a directory of which the repository above has files. Untracked files
// outside of it stay out of the snapshot where they are too large, and changes of a task there are merged.
func TestBelowOwnRepository(t *testing.T) {
	t.Parallel()
	w := newRepository(t)
	top := w.env.Cwd
	huge, err := os.Create(filepath.Join(top, "huge.bin"))
	require.NoError(t, err)
	require.NoError(t, huge.Truncate(maxUntrackedFile+1)) // sparse
	require.NoError(t, huge.Close())
	w.put("a.txt", "changed\n")
	w.put("dir/untracked", "u\n")
	before := files(t, top, ".git", "huge.bin")
	w.env.Cwd = filepath.Join(top, "dir")
	ws := w.prepare(Spec{})
	require.Equal(t, before, files(t, ws.root(), ".git"))
	require.Contains(t, strings.Join(ws.Notes, "\n"), "untracked files outside of dir/ were left out")
	put(t, filepath.Join(ws.root(), "new.txt"), "new\n")
	put(t, filepath.Join(ws.Path, "b.txt"), "by the task\n")
	w.apply(ws)
	before["new.txt"], before["dir/b.txt"] = "644 new\n", "644 by the task\n"
	require.Equal(t, before, files(t, top, ".git", "huge.bin"))

	second := w.prepare(Spec{})
	put(t, filepath.Join(second.root(), "huge.bin"), "by the task\n")
	require.Equal(t, []string{"huge.bin"}, w.plan(second).Conflicts, "the file of the user is not overwritten")
}

// TestFilesVanish checks a directory in which files come and go while its snapshot is taken.
func TestFilesVanish(t *testing.T) {
	t.Parallel()
	w := newRepository(t)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				name := filepath.Join(w.env.Cwd, fmt.Sprint("tmp", i%50))
				if os.WriteFile(name, []byte(name), 0o600) != nil || os.Remove(name) != nil {
					return
				}
			}
		}
	}()
	for range 5 {
		w.prepare(Spec{})
	}
	close(stop)
	<-done
	require.True(t, hasVanished(fmt.Errorf("x: %w", &failure{stderr: "fatal: unable to stat 'a': No such file or directory"})))
	require.False(t, hasVanished(&failure{stderr: "error: open(\"a\"): Permission denied"}))
}

// TestCeiling checks that no repository is looked for above GIT_CEILING_DIRECTORIES.
func TestCeiling(t *testing.T) {
	w := newRepository(t)
	repository := w.env.Cwd
	w.put("inner/x", "x\n")
	w.git("add", "inner")
	w.env.Cwd = filepath.Join(repository, "inner")
	w.env.Home = filepath.Join(w.env.Cwd, "home")
	require.NoError(t, w.ws.Check(t.Context(), w.env))
	w.env.Environ = append(w.env.Environ, "GIT_CEILING_DIRECTORIES="+repository)
	require.ErrorContains(t, w.ws.Check(t.Context(), w.env), "too high up for a copy")
}

func TestGitIsMissingOrOld(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	w := newWorld(t)
	err := w.ws.Check(t.Context(), w.env)
	require.EqualError(t, err, "Isolated task execution requires a git repository (git not found in PATH)")
	require.NoError(t, os.WriteFile(filepath.Join(bin, "git"), []byte("#!/bin/sh\necho git version 2.25.1\n"), 0o755))
	err = w.ws.Check(t.Context(), w.env)
	require.EqualError(t, err, "Isolated task execution requires a git repository (git 2.25 is too old (2.32))")
}

// TestTooLarge checks that a large untracked file is refused by name, and that a full disk is
// reported.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	w := newRepository(t)
	f, err := os.Create(filepath.Join(w.env.Cwd, "huge.bin"))
	require.NoError(t, err)
	require.NoError(t, f.Truncate(maxUntrackedFile+1)) // sparse
	require.NoError(t, f.Close())
	_, err = w.ws.Prepare(t.Context(), w.env, Spec{Session: "s", Call: "c", ID: "A"})
	require.ErrorContains(t, err, "huge.bin (50.0 MiB)")
	ws, err := w.ws.Prepare(t.Context(), w.env, Spec{Session: "s", Call: "larger", ID: "A", MaxUntracked: 2 * maxUntrackedFile})
	require.NoError(t, err, "who configures it may have it")
	require.NoError(t, w.ws.Remove(t.Context(), ws))
	require.NoError(t, w.ws.EndCall(t.Context(), "s", "larger"))
	require.NoError(t, os.Remove(f.Name()))
	w.put("small.txt", "123456")
	_, err = w.ws.Prepare(t.Context(), w.env, Spec{Session: "s", Call: "smaller", ID: "A", MaxUntracked: 5})
	require.ErrorContains(t, err, "6 bytes in all, at most 5 bytes, and 5 bytes each; the largest is small.txt (6 bytes)")

	w.ws.minFree = 1 << 60
	_, err = w.ws.Prepare(t.Context(), w.env, Spec{Session: "s", Call: "c", ID: "A"})
	require.ErrorContains(t, err, "No space left for the workspace (free ")
	list, err := filepath.Glob(filepath.Join(w.ws.dir, "*/*"))
	require.NoError(t, err)
	require.Empty(t, list, "nothing is left behind")
}

// TestCallSharesASnapshot checks that all tasks of a call start with the same files, even if the
// user edits files in between.
func TestCallSharesASnapshot(t *testing.T) {
	t.Parallel()
	w := newRepository(t)
	one := w.prepare(Spec{Call: "c"})
	w.put("a.txt", "later\n")
	two := w.prepare(Spec{Call: "c"})
	three := w.prepare(Spec{Call: "d"})
	require.Equal(t, one.Baseline, two.Baseline)
	require.Equal(t, lines(1, 20), get(t, filepath.Join(two.Path, "a.txt")))
	require.Equal(t, "later\n", get(t, filepath.Join(three.Path, "a.txt")))
}

// TestCallsOfOneName checks calls that reuse the id of an earlier call, as some models do in each
// answer. They do not start with the snapshot of the earlier call, even if one of its workspaces is
// kept.
func TestCallsOfOneName(t *testing.T) {
	t.Parallel()
	w := newRepository(t)
	kept := w.prepare(Spec{ID: "one", Call: "call_0"})
	require.NoError(t, w.ws.Keep(kept))
	require.NoError(t, w.ws.EndCall(t.Context(), "session", "call_0"))
	w.put("a.txt", "since then\n")
	next := w.prepare(Spec{ID: "two", Call: "call_0"})
	require.Equal(t, "since then\n", get(t, filepath.Join(next.Path, "a.txt")))
	require.NotEqual(t, "since then\n", get(t, filepath.Join(kept.Path, "a.txt")))
	require.Equal(t, w.git("rev-parse", "HEAD"), w.gitIn(kept.Path, "rev-parse", "HEAD"), "its objects are still there")
}

// TestOpenOfOurs checks that opening a workspace of this process writes nothing. A task can then be
// captured even if the disk is full.
func TestOpenOfOurs(t *testing.T) {
	t.Parallel()
	w := newRepository(t)
	ws := w.prepare(Spec{})
	owner := filepath.Join(ws.Dir, "owner.json")
	before, err := os.Stat(owner)
	require.NoError(t, err)
	again, err := w.ws.Open(ws.Dir)
	require.NoError(t, err)
	require.Equal(t, ws.Path, again.Path)
	after, err := os.Stat(owner)
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after))
}

// TestTwoTasksMerge checks that two tasks that changed different lines of one file are both merged.
func TestTwoTasksMerge(t *testing.T) {
	t.Parallel()
	w := newRepository(t)
	for i, ws := range []Workspace{w.prepare(Spec{Call: "c"}), w.prepare(Spec{Call: "c"})} {
		name := filepath.Join(ws.Path, "a.txt")
		line := fmt.Sprintf("line %d\n", 4+10*i)
		put(t, name, strings.Replace(get(t, name), line, "task "+line, 1))
		w.apply(ws)
	}
	require.Equal(t, strings.NewReplacer("line 4\n", "task line 4\n", "line 14\n", "task line 14\n").Replace(lines(1, 20)), w.get("a.txt"))
}

// TestRacyIndex checks a file that was changed within the same clock tick in which it was staged.
// The workspace has its new content, although size and time are unchanged.
func TestRacyIndex(t *testing.T) {
	t.Parallel()
	w := newRepository(t)
	name := filepath.Join(w.env.Cwd, "racy")
	at := time.Now().Add(-time.Hour)
	put(t, name, "one\n")
	require.NoError(t, os.Chtimes(name, at, at))
	w.git("add", "racy")
	put(t, name, "two\n")
	require.NoError(t, os.Chtimes(name, at, at))
	require.NoError(t, os.Chtimes(filepath.Join(w.env.Cwd, ".git/index"), at, at))
	ws := w.prepare(Spec{})
	require.Equal(t, "two\n", get(t, filepath.Join(ws.Path, "racy")))
}

// TestHooks checks that the user's hooks run for commits of the task only.
func TestHooks(t *testing.T) {
	t.Parallel()
	w := newRepository(t)
	for _, name := range []string{"pre-commit", "post-checkout", "reference-transaction"} {
		put(t, filepath.Join(w.env.Cwd, ".git/hooks", name), "#!/bin/sh\necho no >&2\necho "+name+" >> "+w.env.Home+"/hooks\nexit 1\n")
		require.NoError(t, os.Chmod(filepath.Join(w.env.Cwd, ".git/hooks", name), 0o755))
	}
	ws := w.prepare(Spec{Branch: true})
	put(t, filepath.Join(ws.Path, "a.txt"), "by the task\n")
	w.apply(ws)
	require.NoFileExists(t, filepath.Join(w.env.Home, "hooks"))
	require.FileExists(t, filepath.Join(ws.Path, ".git/hooks/pre-commit"))
}

// TestCarry checks that configured ignored directories are copied to the workspace and never merged
// back.
func TestCarry(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"copy", "symlink", ""} {
		w := newRepository(t)
		w.put("node_modules/left/pad.js", "pad\n")
		w.put("other.log", "log\n")
		ws := w.prepare(Spec{Carry: []string{"node_modules"}, CarryBy: by})
		if by == "" && len(ws.Notes) > 0 {
			require.Contains(t, ws.Notes[0], "node_modules was not brought along: the file system cannot share blocks")
			continue
		}
		require.Equal(t, "pad\n", get(t, filepath.Join(ws.Path, "node_modules/left/pad.js")), by)
		require.True(t, w.capture(ws).Empty, by)
		require.Empty(t, w.gitIn(ws.Path, "status", "--porcelain"), by)
		require.NoError(t, w.ws.Remove(t.Context(), ws))
		require.Equal(t, "pad\n", w.get("node_modules/left/pad.js"), by)
	}
}

// TestNestedRepositories checks that nested repositories and submodules are copied and merged, too.
func TestNestedRepositories(t *testing.T) {
	t.Parallel()
	w := newRepository(t)
	other := filepath.Join(w.env.Home, "library")
	require.NoError(t, os.MkdirAll(other, 0o755))
	w.gitIn(other, "init", "-q")
	put(t, filepath.Join(other, "lib.txt"), "lib\n")
	w.gitIn(other, "add", "-A")
	w.gitIn(other, "commit", "-q", "-m", "lib")
	w.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", other, "sub")
	w.git("commit", "-q", "-m", "submodule")
	w.git("clone", "-q", other, "nested")
	w.put("nested/own.txt", "own\n")
	before := w.dotGit()

	ws := w.prepare(Spec{})
	require.Empty(t, ws.Notes)
	require.Len(t, ws.Trees, 3)
	require.Equal(t, "own\n", get(t, filepath.Join(ws.Path, "nested/own.txt")))
	put(t, filepath.Join(ws.Path, "nested/own.txt"), "own by the task\n")
	put(t, filepath.Join(ws.Path, "sub/lib.txt"), "lib by the task\n")
	put(t, filepath.Join(ws.Path, "a.txt"), "a by the task\n")
	c := w.capture(ws)
	require.Len(t, c.Nested, 2)
	require.NotContains(t, get(t, c.Patch), "Subproject")
	p := w.plan(ws)
	require.ElementsMatch(t, []string{"a.txt", "nested/own.txt", "sub/lib.txt"}, p.Paths(ws))
	require.Empty(t, p.Notes)
	w.gitIn(filepath.Join(ws.Path, "sub"), "commit", "-q", "-a", "-m", "by the task")
	p = w.plan(ws)
	require.Equal(t, []string{"sub: what was committed in it is among the changes, the commits are not"}, p.Notes)
	require.ElementsMatch(t, []string{"a.txt", "nested/own.txt", "sub/lib.txt"}, p.Paths(ws))
	require.NoError(t, w.ws.Apply(t.Context(), w.env, ws, p))
	require.Equal(t, "own by the task\n", w.get("nested/own.txt"))
	require.Equal(t, "lib by the task\n", w.get("sub/lib.txt"))
	require.Equal(t, before, w.dotGit())
}

// TestBranch checks branch mode. The task's commits are added to the user's branch with their
// authors and messages, followed by a commit of its uncommitted changes. Uncommitted changes of the
// user stay as they are.
func TestBranch(t *testing.T) {
	t.Parallel()
	w := newRepository(t)
	w.put("staged.txt", "staged\n")
	w.git("add", "staged.txt")
	w.put("a.txt", strings.Replace(w.get("a.txt"), "line 2\n", "line 2 by the user\n", 1))
	w.git("stash", "list")
	ws := w.prepare(Spec{Branch: true})
	require.Equal(t, ws.Branch, strings.TrimSpace(w.gitIn(ws.Path, "branch", "--show-current")))
	put(t, filepath.Join(ws.Path, "c.txt"), "c\n")
	w.gitIn(ws.Path, "add", "c.txt")
	w.gitIn(ws.Path, "-c", "user.name=Bot", "-c", "user.email=bot@example.org", "commit", "-q", "-m", "Add c\n\nIt was missing.")
	put(t, filepath.Join(ws.Path, "dir/b.txt"), "b by the task\n")
	w.put("user.txt", "user\n")
	w.git("add", "user.txt")
	w.git("commit", "-q", "-m", "the user goes on", "user.txt")

	w.apply(ws)
	require.Equal(t, "task T1|Ann\nAdd c|Bot\nthe user goes on|Ann\nfirst|Ann\n", w.git("log", "--format=%s|%an"))
	require.Equal(t, " M a.txt\nA  staged.txt\n", w.git("status", "--porcelain"))
	require.Equal(t, "b by the task\n", w.get("dir/b.txt"))
	require.Contains(t, w.get("a.txt"), "line 2 by the user")
	require.Equal(t, "main\n", w.git("branch", "--format=%(refname:short)"))
	w.git("fsck", "--strict")
}

// TestStagedAndCommitted checks files that a task has staged or committed and not changed since, so
// that only its clone knows them. None is lost, even if it is ignored.
func TestStagedAndCommitted(t *testing.T) {
	t.Parallel()
	for name, branch := range map[string]bool{"patch": false, "branch": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRepository(t)
			ws := w.prepare(Spec{Branch: branch})
			old := time.Now().Add(-time.Minute)
			for file, text := range map[string]string{"a.txt": "a by the task\n", "c.txt": "c\n", "forced.log": "log\n", "staged.txt": "staged\n", "later.txt": "first\n"} {
				path := filepath.Join(ws.Path, file)
				put(t, path, text)
				require.NoError(t, os.Chtimes(path, old, old))
			}
			w.gitIn(ws.Path, "add", "-f", "a.txt", "c.txt", "forced.log", "later.txt")
			w.gitIn(ws.Path, "-c", "user.name=Bot", "-c", "user.email=bot@example.org", "commit", "-q", "-m", "Add c")
			w.gitIn(ws.Path, "add", "staged.txt")
			put(t, filepath.Join(ws.Path, "later.txt"), "second\n")
			w.apply(ws)
			for file, text := range map[string]string{"a.txt": "a by the task\n", "c.txt": "c\n", "forced.log": "log\n", "staged.txt": "staged\n", "later.txt": "second\n"} {
				require.Equal(t, text, w.get(file), file)
			}
			w.git("fsck", "--strict")
		})
	}
}

// TestBelievedUnchanged checks files with the index flags assume-unchanged and skip-worktree. The
// task sees the user's content, and changes on both sides are kept.
func TestBelievedUnchanged(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--assume-unchanged", "--skip-worktree"} {
		w := newRepository(t)
		w.put("b.txt", "b\n")
		w.git("add", "b.txt")
		w.git("commit", "-q", "-m", "b")
		w.git("update-index", flag, "a.txt", "dir/b.txt")
		w.put("a.txt", lines(1, 20)+"by the user\n")
		before := w.dotGit()
		ws := w.prepare(Spec{})
		require.Equal(t, lines(1, 20)+"by the user\n", get(t, filepath.Join(ws.Path, "a.txt")), flag)
		put(t, filepath.Join(ws.Path, "a.txt"), "by the task\n"+get(t, filepath.Join(ws.Path, "a.txt")))
		w.gitIn(ws.Path, "update-index", flag, "b.txt")
		put(t, filepath.Join(ws.Path, "b.txt"), "b by the task\n")
		w.put("dir/b.txt", "b by the user\n")
		w.apply(ws)
		require.Equal(t, "by the task\n"+lines(1, 20)+"by the user\n", w.get("a.txt"), flag)
		require.Equal(t, "b by the task\n", w.get("b.txt"), flag)
		require.Equal(t, "b by the user\n", w.get("dir/b.txt"), flag)
		require.Equal(t, before, w.dotGit(), flag)
	}
}

// TestBranchOfDetachedHead checks that in branch mode a detached HEAD gives a new branch for the
// user to merge.
func TestBranchOfDetachedHead(t *testing.T) {
	t.Parallel()
	w := newRepository(t)
	w.git("checkout", "-q", "--detach")
	ws := w.prepare(Spec{Branch: true})
	put(t, filepath.Join(ws.Path, "c.txt"), "c\n")
	before := w.tree()
	w.apply(ws)
	require.Equal(t, before, w.tree())
	require.Equal(t, "task T1\n", w.git("log", "-1", "--format=%s", ws.Branch))
}

// TestBranchConflict checks that a conflict in branch mode writes nothing, and that Surface creates
// the task's branch.
func TestBranchConflict(t *testing.T) {
	t.Parallel()
	w := newRepository(t)
	ws := w.prepare(Spec{Branch: true})
	put(t, filepath.Join(ws.Path, "a.txt"), "by the task\n")
	w.put("a.txt", "by the user\n")
	refs := w.refs()
	c := w.capture(ws)
	p, err := w.ws.Plan(t.Context(), w.env, ws, c)
	require.NoError(t, err)
	require.Equal(t, []string{"a.txt"}, p.Conflicts)
	require.Equal(t, refs, w.refs())
	branch, err := w.ws.Surface(t.Context(), w.env, ws, c)
	require.NoError(t, err)
	require.Equal(t, "by the task\n", w.git("show", branch+":a.txt"))
}

// TestBranchOfWhatIsNotCommitted checks a task in branch mode that changes a file that is not
// committed on the user's branch. Its commits do not apply, so this is a conflict.
func TestBranchOfWhatIsNotCommitted(t *testing.T) {
	t.Parallel()
	w := newRepository(t)
	w.put("new.txt", "new\n")
	ws := w.prepare(Spec{Branch: true})
	put(t, filepath.Join(ws.Path, "new.txt"), "by the task\n")
	before := w.tree()
	p := w.plan(ws)
	require.Equal(t, []string{"new.txt"}, p.Conflicts)
	require.Equal(t, []string{"its commits do not fit on the branch: they change what is not committed there"}, p.Notes)
	require.Equal(t, before, w.tree())
}

// TestChecksDoNotCount checks that changes made by verification commands are not captured, unless
// the task changes the same file later.
func TestChecksDoNotCount(t *testing.T) {
	t.Parallel()
	w := newRepository(t)
	ws := w.prepare(Spec{})
	put(t, filepath.Join(ws.Path, "a.txt"), "by the task\n")
	first := w.capture(ws)
	put(t, filepath.Join(ws.Path, "build/out"), "by the check\n")
	put(t, filepath.Join(ws.Path, "a.txt"), "formatted\n")
	put(t, filepath.Join(ws.Path, "dir/b.txt"), "formatted\n")
	checked, err := w.ws.Mark(t.Context(), w.env, ws)
	require.NoError(t, err)
	put(t, filepath.Join(ws.Path, "dir/b.txt"), "repaired\n")
	c, err := w.ws.Capture(t.Context(), w.env, ws, CaptureSpec{Since: &first, Checked: checked})
	require.NoError(t, err)
	p, err := w.ws.Plan(t.Context(), w.env, ws, c)
	require.NoError(t, err)
	require.NoError(t, w.ws.Apply(t.Context(), w.env, ws, p))
	require.Equal(t, map[string]string{".gitignore": "644 *.log\nnode_modules/\n", "a.txt": "644 by the task\n", "dir/b.txt": "644 repaired\n"}, w.tree())
}

// TestCaptureOfABrokenClone checks that a task that has damaged its clone is still captured.
func TestCaptureOfABrokenClone(t *testing.T) {
	t.Parallel()
	w := newRepository(t)
	ws := w.prepare(Spec{Branch: true})
	put(t, filepath.Join(ws.Path, "a.txt"), "by the task\n")
	require.NoError(t, os.WriteFile(filepath.Join(ws.Path, ".git/index"), []byte("broken"), 0o600))
	w.apply(ws)
	require.Equal(t, "by the task\n", w.get("a.txt"))

	ws = w.prepare(Spec{})
	require.NoError(t, os.RemoveAll(filepath.Join(ws.Path, ".git")))
	put(t, filepath.Join(ws.Path, "a.txt"), "without a repository\n")
	w.apply(ws)
	require.Equal(t, "without a repository\n", w.get("a.txt"))
}

// TestFilters checks that line endings and clean/smudge filters apply as in the user's git.
func TestFilters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.git("init", "-q")
	w.git("config", "filter.up.clean", "tr A-Z a-z")
	w.git("config", "filter.up.smudge", "tr a-z A-Z")
	w.put(".gitattributes", "*.up filter=up\n*.crlf text eol=crlf\n")
	w.put("x.up", "TEXT\n")
	w.put("y.crlf", "one\r\ntwo\r\n")
	w.git("add", "-A")
	w.git("commit", "-q", "-m", "first")
	ws := w.prepare(Spec{})
	require.Equal(t, "TEXT\n", get(t, filepath.Join(ws.Path, "x.up")))
	put(t, filepath.Join(ws.Path, "x.up"), "TEXT BY THE TASK\n")
	put(t, filepath.Join(ws.Path, "y.crlf"), "one\r\ntwo by the task\r\n")
	w.apply(ws)
	require.Equal(t, "TEXT BY THE TASK\n", w.get("x.up"))
	require.Equal(t, "one\r\ntwo by the task\r\n", w.get("y.crlf"))
}

// TestSandboxOfFilters checks that programs of a repository's own configuration run within the sandbox of the session, and that
// workspaces are made and merged there as without one.
func TestSandboxOfFilters(t *testing.T) {
	t.Parallel()
	for _, files := range []tools.SandboxFiles{tools.SandboxWorkspace, tools.SandboxOff} {
		for _, branch := range []bool{false, true} {
			w := newRepository(t)
			out, err := os.MkdirTemp("/var", "troupe-test-") // none of the directories for temporary files
			require.NoError(t, err)
			t.Cleanup(func() { os.RemoveAll(out) })
			ran := filepath.Join(out, "ran")
			w.put(".gitattributes", "*.up filter=up diff=up merge=up\n")
			w.put("x.up", "text\n")
			w.git("add", "-A")
			w.git("commit", "-q", "-m", "filtered")
			run := "sh -c 'echo $0 >> " + ran + "; cat' "
			for _, key := range []string{"filter.up.clean", "filter.up.smudge", "diff.up.textconv", "diff.up.command", "diff.external", "core.fsmonitor", "core.alternateRefsCommand", "gpg.program"} {
				w.git("config", key, run+key)
			}
			w.git("config", "merge.up.driver", "sh -c 'echo merge >> "+ran+"; exit 1'")
			if files != tools.SandboxOff {
				w.env.Sandbox = tools.Sandbox{Files: files, Workspace: w.env.Cwd}.Open(tools.Sandbox{})
			}
			ws := w.prepare(Spec{Branch: branch})
			put(t, filepath.Join(ws.Path, "x.up"), "text by the task\n")
			put(t, filepath.Join(ws.Path, "a.txt"), "by the task\n")
			w.apply(ws)
			require.Equal(t, "text by the task\n", w.get("x.up"))
			require.Equal(t, "by the task\n", w.get("a.txt"))
			if files == tools.SandboxOff {
				require.FileExists(t, ran, "without a sandbox filters run as in the user's git")
			} else {
				require.NoFileExists(t, ran)
			}
		}
	}
}

// TestKindsOfRepositories checks other kinds of repositories: a linked worktree, a split index, a
// shallow clone, a sparse checkout and SHA-256 objects.
func TestKindsOfRepositories(t *testing.T) {
	t.Parallel()
	kinds := map[string]func(w *world){
		"worktree": func(w *world) {
			w.git("worktree", "add", "-q", filepath.Join(w.env.Home, "linked"))
			w.env.Cwd = filepath.Join(w.env.Home, "linked")
		},
		"split index": func(w *world) { w.git("update-index", "--split-index") },
		"shallow": func(w *world) {
			w.git("commit", "-q", "--allow-empty", "-m", "second")
			to := filepath.Join(w.env.Home, "shallow")
			w.git("clone", "-q", "--depth", "1", "file://"+w.env.Cwd, to)
			w.env.Cwd = to
		},
		"sparse": func(w *world) { w.git("sparse-checkout", "set", "--no-cone", "/*", "!/dir") },
		"sha256": func(w *world) {
			require.NoError(w.t, os.RemoveAll(filepath.Join(w.env.Cwd, ".git")))
			w.git("init", "-q", "--object-format=sha256")
			w.git("add", "-A")
			w.git("commit", "-q", "-m", "first")
		},
		"unmerged": func(w *world) {
			for _, branch := range []string{"left", "right"} {
				w.git("checkout", "-q", "-b", branch, "main")
				w.put("both.txt", branch+"\n")
				w.git("add", "both.txt")
				w.git("commit", "-q", "-m", branch)
			}
			_, err := command{env: w.env, dir: w.env.Cwd}.run(w.t.Context(), "merge", "left")
			require.Error(w.t, err)
		},
	}
	for name, make := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRepository(t)
			make(w)
			status := w.git("status", "--porcelain")
			ws := w.prepare(Spec{})
			require.Equal(t, files(t, w.env.Cwd, ".git"), files(t, ws.Path, ".git"))
			put(t, filepath.Join(ws.Path, "a.txt"), "by the task\n")
			w.apply(ws)
			require.Equal(t, "by the task\n", w.get("a.txt"))
			require.NotEqual(t, status, w.git("status", "--porcelain"))
			if name == "unmerged" {
				require.Contains(t, ws.Notes[0], "a merge is unfinished")
			}
			if name == "sparse" {
				put(t, filepath.Join(ws.Path, "dir/b.txt"), "by the task\n")
				p := w.plan(ws)
				require.Equal(t, []string{"dir/b.txt"}, p.Conflicts)
				require.Equal(t, []string{"dir/b.txt: git knows it, and it is not there: a sparse checkout has left it out"}, p.Notes)
			}
		})
	}
}

// TestSweep checks that a sweep saves the changes of dead processes, removes unused workspaces, and
// touches no workspace of a live process.
func TestSweep(t *testing.T) {
	t.Parallel()
	w := newRepository(t)
	session := func(id string) string { return filepath.Join(w.env.Home, id+".jsonl") }
	live := w.prepare(Spec{ID: "live", File: session("live")})
	changed := w.prepare(Spec{ID: "changed", File: session("changed")})
	unchanged := w.prepare(Spec{ID: "unchanged", File: session("unchanged")})
	done := w.prepare(Spec{ID: "done", File: session("done")})
	put(t, filepath.Join(changed.Path, "a.txt"), "by the task\n")
	require.NoError(t, w.ws.Merged(done))
	for _, ws := range []Workspace{changed, unchanged, done} {
		require.NoError(t, w.ws.Keep(ws))
	}
	other := New(w.ws.dir)
	defer other.Close()
	swept, err := other.Sweep(t.Context(), w.env, 0)
	require.NoError(t, err)
	require.Len(t, swept, 3)
	require.DirExists(t, live.Dir)
	require.DirExists(t, changed.Dir)
	require.NoDirExists(t, unchanged.Dir)
	require.NoDirExists(t, done.Dir)
	require.Contains(t, get(t, strings.TrimSuffix(session("changed"), ".jsonl")+".patch"), "by the task")
	_, err = other.Sweep(t.Context(), w.env, time.Nanosecond)
	require.NoError(t, err)
	require.NoDirExists(t, changed.Dir)
	require.DirExists(t, live.Dir)
	require.DirExists(t, live.Shared)
}

// TestSweepLeavesWhatIsKept checks that a sweep removes kept workspaces only after the configured
// time.
func TestSweepLeavesWhatIsKept(t *testing.T) {
	t.Parallel()
	w := newRepository(t)
	ws := w.prepare(Spec{ID: "conflict"})
	put(t, filepath.Join(ws.Path, "a.txt"), "by the task\n")
	_, err := w.ws.Capture(t.Context(), w.env, ws, CaptureSpec{Patch: filepath.Join(w.env.Home, "conflict.patch")})
	require.NoError(t, err)
	require.NoError(t, w.ws.Keep(ws))
	other := New(w.ws.dir)
	defer other.Close()
	_, err = other.Sweep(t.Context(), w.env, time.Hour)
	require.NoError(t, err)
	require.DirExists(t, ws.Dir)
	_, err = other.Sweep(t.Context(), w.env, time.Nanosecond)
	require.NoError(t, err)
	require.NoDirExists(t, ws.Dir)
}

// TestSweepTorn checks an owner file that is empty after a power failure. Its workspace is kept as
// long as other kept workspaces.
func TestSweepTorn(t *testing.T) {
	t.Parallel()
	w := newRepository(t)
	ws := w.prepare(Spec{})
	w.ws.Close()
	require.NoError(t, os.WriteFile(filepath.Join(ws.Dir, "owner.json"), nil, 0o600))
	other := New(w.ws.dir)
	defer other.Close()
	_, err := other.Sweep(t.Context(), w.env, time.Hour)
	require.NoError(t, err)
	require.DirExists(t, ws.Dir)
	long := time.Now().Add(-2 * time.Hour)
	require.NoError(t, os.Chtimes(ws.Dir, long, long))
	_, err = other.Sweep(t.Context(), w.env, time.Hour)
	require.NoError(t, err)
	require.NoDirExists(t, ws.Dir)
}

// TestSweepBesidePrepare checks that a sweep during Prepare in the same process removes neither the
// new snapshot nor the new directory.
func TestSweepBesidePrepare(t *testing.T) {
	t.Parallel()
	w := newRepository(t)
	prepared, swept := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-prepared:
				swept <- nil
				return
			default:
			}
			if _, err := w.ws.Sweep(t.Context(), w.env, 0); err != nil {
				swept <- err
				return
			}
		}
	}()
	for range 8 {
		ws := w.prepare(Spec{})
		require.FileExists(t, filepath.Join(ws.Path, "a.txt"))
		require.DirExists(t, ws.Shared)
	}
	close(prepared)
	require.NoError(t, <-swept)
}

// TestMergeWaitsForTools checks that a merge waits for a tool that holds the lock of a file.
func TestMergeWaitsForTools(t *testing.T) {
	t.Parallel()
	w := newRepository(t)
	ws := w.prepare(Spec{})
	put(t, filepath.Join(ws.Path, "a.txt"), "by the task\n")
	p := w.plan(ws)
	unlock, err := w.env.Files.Lock(t.Context(), filepath.Join(w.env.Cwd, "a.txt"))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, w.ws.Apply(ctx, w.env, ws, p), context.DeadlineExceeded)
	require.Equal(t, lines(1, 20), w.get("a.txt"))
	unlock()
	require.NoError(t, w.ws.Apply(t.Context(), w.env, ws, p))
	require.Equal(t, "by the task\n", w.get("a.txt"))
}

// TestPrepareIsAborted checks that an aborted Prepare leaves no files.
func TestPrepareIsAborted(t *testing.T) {
	t.Parallel()
	w := newRepository(t)
	w.env.Procs = tools.NewProcs(nil)
	w.env.Procs.KillAll(time.Millisecond)
	_, err := w.ws.Prepare(t.Context(), w.env, Spec{Session: "s", Call: "c", ID: "A"})
	require.Error(t, err)
	list, err := filepath.Glob(filepath.Join(w.ws.dir, "*/*"))
	require.NoError(t, err)
	require.Empty(t, list)
}

// TestDirectoryInTheWay checks a task that replaces a directory by a file. If the user's directory
// contains ignored files or a repository, it is kept and reported. If such a file appears after
// planning, the merge is planned again.
func TestDirectoryInTheWay(t *testing.T) {
	t.Parallel()
	w := newRepository(t)
	w.put("dir/deep/c.txt", "c\n")
	w.git("add", "-A")
	w.git("commit", "-q", "-m", "deep")
	replaced := func() Workspace {
		ws := w.prepare(Spec{})
		require.NoError(t, os.RemoveAll(filepath.Join(ws.Path, "dir")))
		put(t, filepath.Join(ws.Path, "dir"), "a file\n")
		return ws
	}
	ws := replaced()
	for _, more := range []string{"dir/deep/out.log", "dir/deep/.git/x"} {
		w.put(more, "the user's\n")
		tree := w.tree()
		p := w.plan(ws)
		require.Equal(t, []string{"dir"}, p.Conflicts, more)
		require.Equal(t, []string{"dir: the directory that is there holds more than git knows"}, p.Notes, more)
		require.Equal(t, tree, w.tree())
		require.NoError(t, os.RemoveAll(filepath.Join(w.env.Cwd, filepath.FromSlash(filepath.Dir(more)))))
		w.put("dir/deep/c.txt", "c\n")
	}
	p := w.plan(ws)
	require.Empty(t, p.Conflicts)
	w.put("dir/deep/out.log", "the user's\n")
	tree := w.tree()
	require.ErrorIs(t, w.ws.Apply(t.Context(), w.env, ws, p), ErrMoved)
	require.Equal(t, tree, w.tree())
	require.NoError(t, os.Remove(filepath.Join(w.env.Cwd, "dir/deep/out.log")))
	require.NoError(t, os.Mkdir(filepath.Join(w.env.Cwd, "dir/empty"), 0o755))
	w.apply(ws)
	require.Equal(t, "a file\n", w.get("dir"))
}

// TestGitLeavesSomethingBehind checks a git that exits before it has read its input and leaves a
// background process with its pipes. The command does not wait for that process.
func TestGitLeavesSomethingBehind(t *testing.T) {
	w := newWorld(t)
	bin := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, "git"), []byte("#!/bin/sh\nexec 3<&0\nsleep 1000 &\nexit 3\n"), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	over := make(chan error, 1)
	go func() {
		_, err := command{env: w.env, dir: w.env.Cwd}.feed(t.Context(), strings.NewReader(lines(1, 100_000)), "checkout-index")
		over <- err
	}()
	select {
	case err := <-over:
		require.True(t, failedWith(err, 3), "%v", err)
	case <-time.After(time.Minute):
		t.Fatal("it waits for what git has left behind")
	}
}

// TestLinkToAChangedFile checks that a link and its target can change in one merge, although they
// share one file lock.
func TestLinkToAChangedFile(t *testing.T) {
	t.Parallel()
	w := newRepository(t)
	w.put("a", "a\n")
	require.NoError(t, os.Symlink("a", filepath.Join(w.env.Cwd, "link")))
	ws := w.prepare(Spec{})
	put(t, filepath.Join(ws.Path, "a"), "b\n")
	require.NoError(t, os.Remove(filepath.Join(ws.Path, "link")))
	require.NoError(t, os.Symlink("b", filepath.Join(ws.Path, "link")))
	w.apply(ws)
	require.Equal(t, "b\n", w.get("a"))
	to, err := os.Readlink(filepath.Join(w.env.Cwd, "link"))
	require.NoError(t, err)
	require.Equal(t, "b", to)
}

// TestNamesThatAreNotUTF8 checks that a plan survives encoding as JSON even with file names that
// are not UTF-8.
func TestNamesThatAreNotUTF8(t *testing.T) {
	t.Parallel()
	w := newRepository(t)
	w.put("\xff\xfe", "a\n")
	ws := w.prepare(Spec{})
	put(t, filepath.Join(ws.Path, "\xff\xfe"), "b\n")
	put(t, filepath.Join(ws.Path, "\xfd"), "new\n")
	p := w.plan(ws)
	raw, err := json.Marshal(p)
	require.NoError(t, err)
	var kept Plan
	require.NoError(t, json.Unmarshal(raw, &kept))
	require.Equal(t, p, kept)
	w.apply(ws)
	require.Equal(t, "b\n", w.get("\xff\xfe"))
	require.Equal(t, "new\n", w.get("\xfd"))
}

// TestRepositoriesOfATask checks repositories that a task creates or clones. Their files are merged
// back, with or without a commit in them and whether or not the task has added them. The user's
// history never refers to a commit that is missing in the user's repository.
func TestRepositoriesOfATask(t *testing.T) {
	t.Parallel()
	for name, made := range map[string]func(w *world, dir string){
		"with a commit": func(w *world, dir string) { w.gitIn(dir, "commit", "-q", "-m", "inner") },
		"without one":   func(*world, string) {},
		"added": func(w *world, dir string) {
			w.gitIn(dir, "commit", "-q", "-m", "inner")
			w.gitIn(filepath.Dir(dir), "add", "-A")
			w.gitIn(filepath.Dir(dir), "commit", "-q", "-m", "outer")
		},
	} {
		for _, branch := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", branch), func(t *testing.T) {
				t.Parallel()
				w := newRepository(t)
				ws := w.prepare(Spec{Branch: branch})
				inner := filepath.Join(ws.Path, "inner")
				put(t, filepath.Join(inner, "f.txt"), "f\n")
				put(t, filepath.Join(inner, "deep", "g.txt"), "g\n")
				w.gitIn(inner, "init", "-q")
				w.gitIn(filepath.Join(inner, "deep"), "init", "-q")
				w.gitIn(inner, "add", "f.txt")
				made(w, inner)
				put(t, filepath.Join(ws.Path, "outer.txt"), "outer\n")
				put(t, filepath.Join(inner, "late.txt"), "late\n")
				p := w.plan(ws)
				require.Equal(t, []string{"inner is a repository of its own: its files are among the changes, its commits are not"}, p.Notes)
				w.apply(ws)
				require.Equal(t, "f\n", w.get("inner/f.txt"))
				require.Equal(t, "g\n", w.get("inner/deep/g.txt"))
				require.Equal(t, "late\n", w.get("inner/late.txt"))
				require.Equal(t, "outer\n", w.get("outer.txt"))
				require.NotContains(t, w.git("log", "--raw", "--format=", "-m"), gitlink)
				if branch {
					require.Empty(t, w.git("status", "--porcelain"))
				}
			})
		}
	}
}

// TestSubmoduleThatWasNotCheckedOut checks a submodule that only the task has checked out. Its
// changes are in no patch, but they are not lost.
func TestSubmoduleThatWasNotCheckedOut(t *testing.T) {
	t.Parallel()
	w := newRepository(t)
	other := filepath.Join(w.env.Home, "other")
	put(t, filepath.Join(other, "lib.txt"), "lib\n")
	w.gitIn(other, "init", "-q")
	w.gitIn(other, "add", "-A")
	w.gitIn(other, "commit", "-q", "-m", "lib")
	w.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", other, "sub")
	w.git("commit", "-q", "-m", "submodule")
	w.git("submodule", "deinit", "-q", "-f", "sub")
	ws := w.prepare(Spec{})
	require.NoFileExists(t, filepath.Join(ws.Path, "sub/lib.txt"))
	w.gitIn(ws.Path, "clone", "-q", other, "sub")
	require.True(t, w.capture(ws).Empty, "it is as the user has it")
	put(t, filepath.Join(ws.Path, "sub/lib.txt"), "by the task\n")
	_, err := w.ws.Capture(t.Context(), w.env, ws, CaptureSpec{})
	require.EqualError(t, err, "what the task did in the submodule sub is there and nowhere else, because the submodule was not checked out before")
}
