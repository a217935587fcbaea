package git

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"troupe/tools"
	"troupe/tools/testenv"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(mergeKey); dir != "" {
		mergeSteps(dir)
		return
	}
	testenv.Isolate()
	goleak.VerifyTestMain(m)
}

// world is a user's repository and the Workspaces under test.
type world struct {
	t   testing.TB
	env *tools.Env
	ws  *Workspaces
	n   int
}

func newWorld(t testing.TB) *world {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	w := &world{t: t, env: newEnv(t, root), ws: New(filepath.Join(root, "cache"))}
	w.ws.minFree = 1 << 20
	t.Cleanup(w.ws.Close)
	return w
}

// config is a git configuration that only sets the user's name and defaults. Maintenance is off,
// because it would start another process for each commit that may continue in the background.
const config = "[user]\n\tname = Ann\n\temail = ann@example.org\n[init]\n\tdefaultBranch = main\n[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n"

// newEnv returns an environment whose project is in root/repo.
func newEnv(t testing.TB, root string) *tools.Env {
	repo, home := filepath.Join(root, "repo"), filepath.Join(root, "home")
	require.NoError(t, os.MkdirAll(repo, 0o755))
	require.NoError(t, os.MkdirAll(home, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(config), 0o644))
	procs := tools.NewProcs(nil)
	t.Cleanup(func() { procs.KillAll(time.Millisecond) })
	return &tools.Env{Cwd: repo, Home: home, Environ: []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home,
		"GIT_CEILING_DIRECTORIES=" + root, // ignores repositories around TMPDIR
	}, Files: new(tools.Files), Procs: procs}
}

// newRepository returns a world with one commit of two files.
func newRepository(t testing.TB) *world {
	w := newWorld(t)
	w.git("init", "-q")
	w.put("a.txt", lines(1, 20))
	w.put("dir/b.txt", "b\n")
	w.put(".gitignore", "*.log\nnode_modules/\n")
	w.git("add", "-A")
	w.git("commit", "-q", "-m", "first")
	return w
}

func lines(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}

func (w *world) git(args ...string) string { return w.gitIn(w.env.Cwd, args...) }

func (w *world) gitIn(dir string, args ...string) string {
	w.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = dir, append(w.env.Environ, "GIT_OPTIONAL_LOCKS=0")
	out, err := cmd.CombinedOutput()
	require.NoError(w.t, err, "git %v: %s", args, out)
	return string(out)
}

func (w *world) put(name, text string) { put(w.t, filepath.Join(w.env.Cwd, name), text) }

func put(t testing.TB, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

func (w *world) get(name string) string { return get(w.t, filepath.Join(w.env.Cwd, name)) }

func get(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

// prepare makes a workspace for a task.
func (w *world) prepare(spec Spec) Workspace {
	w.t.Helper()
	w.n++
	if spec.ID == "" {
		spec.ID = fmt.Sprintf("T%d", w.n)
	}
	if spec.Call == "" {
		spec.Call = "call" + spec.ID
	}
	if spec.Session == "" {
		spec.Session = "session"
	}
	ws, err := w.ws.Prepare(w.t.Context(), w.env, spec)
	require.NoError(w.t, err)
	return ws
}

func (w *world) capture(ws Workspace) Captured {
	w.t.Helper()
	c, err := w.ws.Capture(w.t.Context(), w.env, ws, CaptureSpec{Patch: filepath.Join(w.env.Home, ws.ID+".patch"), Message: "task " + ws.ID})
	require.NoError(w.t, err)
	return c
}

func (w *world) plan(ws Workspace) Plan {
	w.t.Helper()
	p, err := w.ws.Plan(w.t.Context(), w.env, ws, w.capture(ws))
	require.NoError(w.t, err)
	return p
}

func (w *world) apply(ws Workspace) {
	w.t.Helper()
	p := w.plan(ws)
	require.Empty(w.t, p.Conflicts)
	require.NoError(w.t, w.ws.Apply(w.t.Context(), w.env, ws, p))
}

// files returns the mode and content of every file below a directory, except those named by skip.
func files(t testing.TB, dir string, skip ...string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		rel, _ := filepath.Rel(dir, path)
		for _, s := range skip {
			if rel == s {
				if d.IsDir() {
					return filepath.SkipDir
				}
				return nil
			}
		}
		info, err := d.Info()
		require.NoError(t, err)
		switch {
		case d.IsDir():
		case info.Mode()&fs.ModeSymlink != 0:
			link, err := os.Readlink(path)
			require.NoError(t, err)
			all[rel] = "-> " + link
		default:
			all[rel] = fmt.Sprintf("%o %s", info.Mode().Perm(), get(t, path))
		}
		return nil
	})
	require.NoError(t, err)
	return all
}

func (w *world) dotGit() map[string]string { return files(w.t, filepath.Join(w.env.Cwd, ".git")) }
func (w *world) tree() map[string]string   { return files(w.t, w.env.Cwd, ".git") }
