package git

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"troupe/tools"
)

// mergeKey makes the test binary merge the workspace of this name, up to a given step, instead of
// running tests.
const (
	mergeKey = "TROUPE_TEST_MERGE"
)

// errDied simulates the death of the process.
type errDied struct{ step string }

// dieAt applies a plan and stops at the numbered step without any cleanup, as if the process had
// died. It reports whether that step was reached.
func (w *world) dieAt(ws Workspace, p Plan, step int) (died bool, err error) {
	n := 0
	w.ws.step = func(name string) {
		if n++; n > step {
			panic(errDied{name})
		}
	}
	defer func() {
		w.ws.step = nil
		if r := recover(); r != nil {
			if _, ok := r.(errDied); !ok {
				panic(r)
			}
			died = true
			w.env.Files = new(tools.Files) // a dead process holds no locks
		}
	}()
	return false, w.ws.Apply(w.t.Context(), w.env, ws, p)
}

// TestMergeIsCutAnywhere checks a merge that is cut at any step. After recovery the tree is as
// before or fully merged, and no temporary file is left.
func TestMergeIsCutAnywhere(t *testing.T) {
	t.Parallel()
	for _, branch := range []bool{false, true} {
		t.Run(fmt.Sprintf("branch=%v", branch), func(t *testing.T) {
			t.Parallel()
			cut, finished := 0, 0
			w, ws := editedWorld(t, branch)
			before, beforeGit := w.tree(), w.refs()
			p := w.plan(ws)
			for step := 0; ; step++ {
				died, err := w.dieAt(ws, p, step)
				if !died {
					require.NoError(t, err)
					requireMerged(t, w)
					break
				}
				cut++
				r, err := w.ws.Recover(t.Context(), w.env, ws)
				require.NoError(t, err)
				require.Empty(t, r.Foreign)
				if r.Merged {
					finished++
					requireMerged(t, w)
					w, ws = editedWorld(t, branch)
					p = w.plan(ws)
					continue
				}
				// The next round starts from the same state with the same plan.
				require.Equal(t, before, w.tree(), "step %d", step)
				require.Equal(t, map[string]string{"deep/y": "644 y\n", "z": "644 z\n"}, files(t, filepath.Join(w.env.Home, "far")), "step %d", step)
				require.Equal(t, beforeGit, w.refs(), "step %d", step)
				require.NoDirExists(t, filepath.Join(ws.Dir, "merge"))
			}
			require.Greater(t, cut, 8)
			require.Positive(t, finished)
		})
	}
}

// editedWorld returns a task with all kinds of changes: changed, added and removed files, a
// directory replaced by a file and vice versa, and a link replaced by its target.
func editedWorld(t testing.TB, branch bool) (*world, Workspace) {
	w := newRepository(t)
	w.put("file", "file\n")
	w.put("was/dir/x", "x\n")
	put(t, filepath.Join(w.env.Home, "far/deep/y"), "y\n")
	put(t, filepath.Join(w.env.Home, "far/z"), "z\n")
	require.NoError(t, os.Symlink(filepath.Join(w.env.Home, "far"), filepath.Join(w.env.Cwd, "link")))
	w.git("add", "-A")
	w.git("commit", "-q", "-m", "second")
	w.put("a.txt", strings.Replace(w.get("a.txt"), "line 2\n", "line 2 by the user\n", 1))
	ws := w.prepare(Spec{Branch: branch})
	put(t, filepath.Join(ws.Path, "a.txt"), strings.Replace(get(t, filepath.Join(ws.Path, "a.txt")), "line 19\n", "line 19 by the task\n", 1))
	require.NoError(t, os.RemoveAll(filepath.Join(ws.Path, "file")))
	put(t, filepath.Join(ws.Path, "file/inside"), "inside\n")
	require.NoError(t, os.RemoveAll(filepath.Join(ws.Path, "was")))
	put(t, filepath.Join(ws.Path, "was"), "was\n")
	require.NoError(t, os.Remove(filepath.Join(ws.Path, "dir/b.txt")))
	put(t, filepath.Join(ws.Path, "dir/c.txt"), "c\n")
	require.NoError(t, os.Remove(filepath.Join(ws.Path, "link")))
	put(t, filepath.Join(ws.Path, "link/deep/y"), "y\n")
	put(t, filepath.Join(ws.Path, "link/z"), "z by the task\n")
	return w, ws
}

func requireMerged(t testing.TB, w *world) {
	t.Helper()
	want := strings.NewReplacer("line 2\n", "line 2 by the user\n", "line 19\n", "line 19 by the task\n").Replace(lines(1, 20))
	require.Equal(t, map[string]string{
		".gitignore": "644 *.log\nnode_modules/\n", "a.txt": "644 " + want, "file/inside": "644 inside\n", "was": "644 was\n", "dir/c.txt": "644 c\n",
		"link/deep/y": "644 y\n", "link/z": "644 z by the task\n",
	}, w.tree())
	require.Equal(t, map[string]string{"deep/y": "644 y\n", "z": "644 z\n"}, files(t, filepath.Join(w.env.Home, "far")))
}

// refs returns the visible state of the user's repository: refs, stash, index and HEAD.
func (w *world) refs() string {
	return w.git("for-each-ref") + w.git("stash", "list") + w.git("ls-files", "-s") + w.git("symbolic-ref", "HEAD")
}

// TestRecoverKeepsForeignEdits checks a file that the user edits between the cut of a merge and its
// recovery. The recovery changes nothing and reports the file.
func TestRecoverKeepsForeignEdits(t *testing.T) {
	t.Parallel()
	w, ws := editedWorld(t, false)
	p := w.plan(ws)
	for step := 0; ; step++ {
		if died, err := w.dieAt(ws, p, step); !died {
			t.Fatal("the merge was through before a.txt alone was written", err)
		}
		if strings.Contains(w.get("a.txt"), "by the task") {
			break
		}
		_, err := w.ws.Recover(t.Context(), w.env, ws)
		require.NoError(t, err)
	}
	w.put("a.txt", "his own\n")
	before := w.tree()
	r, err := w.ws.Recover(t.Context(), w.env, ws)
	require.NoError(t, err)
	require.Equal(t, Recovered{Foreign: []string{"a.txt"}}, r)
	for name, text := range w.tree() {
		require.Equal(t, before[name], text, name)
	}
	require.Equal(t, "his own\n", w.get("a.txt"))
}

// TestEditInTheMiddle checks that a merge is undone if the user edits a file while it is applied.
// The user's edit is kept.
func TestEditInTheMiddle(t *testing.T) {
	t.Parallel()
	w, ws := editedWorld(t, false)
	before := w.tree()
	p := w.plan(ws)
	w.ws.step = func(name string) {
		if name == "ready" {
			w.put("a.txt", "his own\n")
		}
	}
	require.ErrorIs(t, w.ws.Apply(t.Context(), w.env, ws, p), ErrMoved)
	before["a.txt"] = "644 his own\n"
	require.Equal(t, before, w.tree())
}

// TestPlanAgainAfterAnEdit checks that an edit after planning is detected. The merge is planned
// again and contains both changes.
func TestPlanAgainAfterAnEdit(t *testing.T) {
	t.Parallel()
	w, ws := editedWorld(t, false)
	p := w.plan(ws)
	w.put("a.txt", strings.Replace(w.get("a.txt"), "line 2 by the user\n", "line 2 by the user, twice\n", 1))
	w.put("elsewhere.txt", "does not matter\n")
	before := w.tree()
	require.ErrorIs(t, w.ws.Apply(t.Context(), w.env, ws, p), ErrMoved)
	require.Equal(t, before, w.tree())
	w.apply(ws)
	require.Contains(t, w.get("a.txt"), "line 2 by the user, twice\n")
	require.Contains(t, w.get("a.txt"), "line 19 by the task\n")
}

// TestMergeLosesNothing checks merges of random trees with random edits on both sides and a cut at
// a random step. No edit of the user is lost, the repository is unchanged, and a merge is applied
// completely or not at all.
func TestMergeLosesNothing(t *testing.T) {
	t.Parallel()
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue { // each check starts about thirty processes
		require.NoError(t, f.Value.Set("15"))
		defer f.Value.Set(f.DefValue)
	}
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(&rapidTB{TB: t, rt: rt})
		defer w.ws.Close()
		base := drawTree(rt, "base")
		old := rapid.Bool().Draw(rt, "old git")
		git := rapid.SampledFrom([]string{"commits", "unborn", "none"}).Draw(rt, "git")
		if old {
			w.ws.version = version{2, 35}
		}
		if git != "none" {
			w.git("init", "-q")
		}
		writeTree(w.t, w.env.Cwd, base)
		if git == "commits" {
			w.git("add", "-A")
			w.git("commit", "-q", "--allow-empty", "-m", "base")
		}
		writeTree(w.t, w.env.Cwd, drawEdits(rt, base, "before"))
		ws := w.prepare(Spec{})
		writeTree(w.t, ws.Path, drawEdits(rt, base, "task"))
		writeTree(w.t, w.env.Cwd, drawEdits(rt, base, "user"))
		before := w.tree()
		var dotGit map[string]string
		if git != "none" {
			dotGit = w.dotGit()
		}
		task := files(w.t, ws.Path, ".git")
		start := w.snapshotOf(ws)

		p := w.plan(ws)
		outcome := "conflict"
		if len(p.Conflicts) == 0 {
			died, err := w.dieAt(ws, p, rapid.IntRange(0, 30).Draw(rt, "step"))
			require.NoError(w.t, err)
			outcome = "merged"
			if died {
				r, err := w.ws.Recover(t.Context(), w.env, ws)
				require.NoError(w.t, err)
				require.Empty(w.t, r.Foreign)
				if !r.Merged {
					outcome = "undone"
				}
			}
		}
		if outcome == "merged" {
			requireThreeWay(w.t, start, before, task, w.tree())
		} else {
			require.Equal(w.t, before, w.tree(), outcome)
		}
		if git != "none" {
			require.Equal(w.t, dotGit, w.dotGit())
		}
		require.NoError(w.t, w.ws.Remove(t.Context(), ws))
	})
}

// snapshotOf returns the files with which the workspace started.
func (w *world) snapshotOf(ws Workspace) map[string]string {
	dir := filepath.Join(w.t.TempDir(), "start")
	require.NoError(w.t, os.MkdirAll(dir, 0o755))
	g := ws.Trees[0].at(w.env, dir).with("GIT_INDEX_FILE=" + dir + ".index")
	_, err := g.run(context.Background(), "read-tree", "-u", "--reset", ws.Baseline)
	require.NoError(w.t, err)
	return files(w.t, dir)
}

// requireThreeWay checks a three-way merge. A file that only one side changed has that side's
// content, and a file that neither changed is unchanged. Files that both changed are merged by
// lines.
func requireThreeWay(t testing.TB, base, user, task, now map[string]string) {
	for _, tree := range []map[string]string{base, user, task, now} {
		for path := range tree {
			switch {
			case user[path] == task[path], user[path] != base[path] && task[path] == base[path]:
				require.Equal(t, user[path], now[path], path)
			case user[path] == base[path]:
				require.Equal(t, task[path], now[path], path)
			}
		}
	}
}

// edit is the new content of a file; "" removes the file.
type edit struct{ path, text string }

var names = []string{"a", "b", "c/d", "c/e", "f/g/h", "ä ö", "-x"}

func drawTree(t *rapid.T, label string) []edit {
	var tree []edit
	for _, name := range names {
		if rapid.Bool().Draw(t, label+" has "+name) {
			tree = append(tree, edit{name, lines(1, 12)})
		}
	}
	return tree
}

// drawEdits draws random edits: it changes a line, replaces, adds or removes a file, or makes it a
// link.
func drawEdits(t *rapid.T, base []edit, label string) []edit {
	var edits []edit
	for _, name := range names {
		what := rapid.SampledFrom([]string{"", "", "", "", "line", "line", "all", "remove", "link", "run"}).Draw(t, label+" "+name)
		switch what {
		case "line":
			n := rapid.SampledFrom([]int{1, 6, 12}).Draw(t, label+" line")
			edits = append(edits, edit{name, fmt.Sprintf("line:%d:%s", n, label)})
		case "all":
			edits = append(edits, edit{name, label + "\n"})
		case "link", "run", "remove":
			edits = append(edits, edit{name, what})
		}
	}
	return edits
}

func writeTree(t testing.TB, dir string, edits []edit) {
	for _, e := range edits {
		path := filepath.Join(dir, e.path)
		old, _ := os.ReadFile(path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		var n int
		var by string
		switch _, err := fmt.Sscanf(strings.ReplaceAll(e.text, ":", " "), "line %d %s", &n, &by); {
		case err == nil && strings.HasPrefix(e.text, "line:"):
			text := strings.Replace(string(old), fmt.Sprintf("line %d\n", n), fmt.Sprintf("line %d by %s\n", n, by), 1)
			if text != "" {
				require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
			}
		case e.text == "remove":
			os.Remove(path)
		case e.text == "link":
			os.Remove(path)
			require.NoError(t, os.Symlink("a", path))
		case e.text == "run":
			if len(old) > 0 {
				require.NoError(t, os.Chmod(path, 0o755))
			}
		default:
			os.Remove(path)
			require.NoError(t, os.WriteFile(path, []byte(e.text), 0o644))
		}
	}
}

// rapidTB is a testing.TB whose failures are failures of one rapid check.
type rapidTB struct {
	testing.TB
	rt *rapid.T
}

func (t *rapidTB) Helper()                           {}
func (t *rapidTB) Errorf(format string, args ...any) { t.rt.Errorf(format, args...) }
func (t *rapidTB) FailNow()                          { t.rt.FailNow() }

// job is the input of a helper process.
type job struct {
	Cache     string
	Cwd, Home string
	Workspace string
	Plan      Plan
	Hold      int // step at which it waits to be killed; -1 for never
}

// mergeSteps runs a merge in the helper process. The test kills it on the way.
func mergeSteps(file string) {
	var j job
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &j)
	}
	if err != nil {
		panic(err)
	}
	env := &tools.Env{Cwd: j.Cwd, Home: j.Home, Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + j.Home}, Files: new(tools.Files), Procs: tools.NewProcs(nil)}
	w := New(j.Cache)
	ws, err := w.Open(j.Workspace)
	if err != nil {
		panic(err)
	}
	n := 0
	w.step = func(string) {
		fmt.Println("step")
		if n == j.Hold {
			select {}
		}
		n++
	}
	if err := w.Apply(context.Background(), env, ws, j.Plan); err != nil {
		fmt.Println("failed", err)
		os.Exit(1)
	}
	fmt.Println("ends")
}

var mergeKills = flag.Int("merge.kills", 16, "how many merges TestMergeIsKilled kills")

// TestMergeIsKilled kills a process repeatedly in the middle of a merge: while it waits at a step
// and while it continues from there.
func TestMergeIsKilled(t *testing.T) {
	t.Parallel()
	w, ws := editedWorld(t, false)
	p := w.plan(ws)
	require.NoError(t, w.ws.Keep(ws))
	steps := runKilled(t, w, ws, p, -1, false)
	requireMerged(t, w)
	require.Greater(t, steps, 8)
	outcomes := map[string]int{}
	w, ws = editedWorld(t, false)
	before := w.tree()
	p = w.plan(ws)
	for n := range *mergeKills {
		require.NoError(t, w.ws.Keep(ws))
		runKilled(t, w, ws, p, n*(steps-1)/(*mergeKills-1), n%2 == 0 || n == *mergeKills-1)
		got, err := w.ws.Open(ws.Dir)
		require.NoError(t, err)
		r, err := w.ws.Recover(t.Context(), w.env, got)
		require.NoError(t, err)
		require.Empty(t, r.Foreign)
		if !r.Merged {
			require.Equal(t, before, w.tree())
			outcomes["undone"]++
			continue
		}
		requireMerged(t, w)
		outcomes["merged"]++
		require.NoError(t, w.ws.Remove(t.Context(), got))
		w, ws = editedWorld(t, false)
		before, p = w.tree(), w.plan(ws)
	}
	t.Log(outcomes)
	require.Positive(t, outcomes["undone"], "at the first step")
	require.Positive(t, outcomes["merged"], "at the last step")
}

// runKilled runs a merge in a process and kills it when it reaches step at. If held, the process
// waits at that step, otherwise it continues. With -1 it is not killed. The result is the number of
// steps reached.
func runKilled(t *testing.T, w *world, ws Workspace, p Plan, at int, held bool) (steps int) {
	t.Helper()
	j := job{Cache: w.ws.dir, Cwd: w.env.Cwd, Home: w.env.Home, Workspace: ws.Dir, Plan: p, Hold: -1}
	if held {
		j.Hold = at
	}
	data, err := json.Marshal(j)
	require.NoError(t, err)
	file := filepath.Join(w.env.Home, "job.json")
	require.NoError(t, os.WriteFile(file, data, 0o600))
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), mergeKey+"="+file)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	for lines := bufio.NewScanner(out); lines.Scan(); {
		switch line := lines.Text(); line {
		case "step":
			if steps == at {
				_ = cmd.Process.Kill()
			}
			steps++
		case "ends":
			_ = cmd.Process.Kill() // it would wait another second for the race detector
		default:
			require.Fail(t, line)
		}
	}
	_ = cmd.Wait()
	return steps
}
