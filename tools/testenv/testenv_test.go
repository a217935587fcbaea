package testenv

import (
	"flag"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// play selects the behaviour of TestPlay in a run of this binary that another test starts.
var play = flag.String("play", "", "what TestPlay does")

func TestMain(m *testing.M) {
	Isolate()
	os.Exit(m.Run())
}

// plays are tests that another test runs in an isolated process, by name.
var plays = map[string]func(t *testing.T){
	"nothing": func(t *testing.T) { require.NoError(t, os.WriteFile(filepath.Join(t.TempDir(), "f"), nil, 0o600)) },
	"fails":   func(t *testing.T) { t.Error("it fails") },
	"file": func(t *testing.T) {
		require.NoError(t, os.WriteFile(filepath.Join(os.TempDir(), "forgotten"), nil, 0o600))
	},
	"directory": func(t *testing.T) { require.NoError(t, os.Mkdir(filepath.Join(os.TempDir(), "forgotten"), 0)) },
	"home": func(t *testing.T) {
		dir, err := os.UserCacheDir()
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "forgotten"), 0o500))
	},
	"background": func(t *testing.T) { // ends by itself, but the test does not wait for it
		require.NoError(t, exec.Command("sh", "-c", "sleep 0.1 &").Run())
	},
	"process": func(t *testing.T) { require.NoError(t, exec.Command("sh", "-c", "setsid sleep 300 &").Run()) },
	"tree": func(t *testing.T) {
		require.NoError(t, exec.Command("sh", "-c", "sh -c 'trap \"\" TERM; sleep 300 & sleep 301; :' &").Run())
	},
	"cut off": func(t *testing.T) {
		require.NoError(t, exec.Command("sh", "-c", "sleep 300 &").Run())
		require.NoError(t, os.WriteFile(filepath.Join(t.TempDir(), "f"), nil, 0o600))
		select {}
	},
	"surroundings": func(t *testing.T) {
		for _, pair := range os.Environ() {
			name, _, _ := strings.Cut(pair, "=")
			switch name {
			case isolatedKey, "HOME", "TMPDIR", "LC_ALL", "TZ", "GIT_CONFIG_NOSYSTEM", "PATH", "TROUPE_CI", "KEPT":
			default:
				assert.True(t, ofGo(name), pair)
			}
		}
		assert.Equal(t, "UTC", time.Now().Location().String())
		assert.False(t, signal.Ignored(syscall.SIGINT))
		assert.False(t, signal.Ignored(syscall.SIGHUP))
		assert.NoError(t, neutral(filepath.Dir(filepath.Dir(os.TempDir()))))
		file := filepath.Join(t.TempDir(), "f")
		require.NoError(t, os.WriteFile(file, nil, 0o666))
		info, err := os.Stat(file)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o644), info.Mode())
		out, err := exec.Command("go", "env", "GOMODCACHE").Output()
		require.NoError(t, err)
		assert.DirExists(t, strings.TrimSpace(string(out)))
	},
}

func TestPlay(t *testing.T) {
	if *play == "" {
		t.Skip("other tests start it")
	}
	plays[*play](t)
}

// shortDir returns a temporary directory whose path is short enough for makeRoot.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// start runs a play in a process that does not see this one's environment. script is shell code to
// run before it, and args are arguments of the test binary.
func start(t *testing.T, name, script string, args ...string) (code int, output, temp string) {
	t.Helper()
	binary, err := os.Executable()
	require.NoError(t, err)
	temp = shortDir(t)
	args = append([]string{"-c", script + `exec "$0" "$@"`, binary, "-test.run=^TestPlay$", "-play=" + name}, args...)
	cmd := exec.Command("sh", args...)
	cmd.Env = append(environment("", temp, nil), "TMPDIR="+temp, "ANTHROPIC_API_KEY=secret", "GOOGLE_API_KEY=secret", "XDG_CACHE_HOME=/none")
	out, err := cmd.CombinedOutput()
	t.Log(string(out))
	if _, isExit := err.(*exec.ExitError); !isExit {
		require.NoError(t, err)
	}
	return cmd.ProcessState.ExitCode(), string(out), temp
}

// TestIsolate checks that files and processes left by tests are reported and removed, and that a
// run that leaves nothing passes.
func TestIsolate(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes that are left are found on Linux only")
	}
	for name, c := range map[string]struct {
		code int
		says []string
	}{
		"nothing":    {0, nil},
		"fails":      {1, []string{"it fails"}},
		"file":       {1, []string{"left behind:", "tmp/forgotten"}},
		"directory":  {1, []string{"left behind:", "tmp/forgotten"}},
		"home":       {1, []string{"left behind:", "home/.cache/forgotten"}},
		"background": {0, nil},
		"process":    {1, []string{"left behind:", ": sleep 300"}},
		"tree":       {1, []string{"left behind:", "trap"}},
		"cut off":    {2, []string{"panic: test timed out"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, output, temp := start(t, name, "", "-test.timeout=3s")
			assert.Equal(t, c.code, code)
			for _, says := range c.says {
				assert.Contains(t, output, says)
			}
			if c.says == nil {
				assert.NotContains(t, output, "left behind")
			}
			left, err := os.ReadDir(temp)
			require.NoError(t, err)
			assert.Empty(t, left, "the parent removes what is left")
			assert.Empty(t, running(t, temp))
		})
	}
}

// running returns the processes whose TMPDIR is below a directory.
func running(t *testing.T, temp string) (found []string) {
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(t, err)
	for _, name := range environs {
		content, _ := os.ReadFile(name) // the process may be gone
		if strings.Contains(string(content), "TMPDIR="+temp) {
			found = append(found, name)
		}
	}
	return found
}

// TestSurroundings checks that tests do not depend on the directory, environment and user that run
// them.
func TestSurroundings(t *testing.T) {
	for name, script := range map[string]string{
		"plain":      "",
		"umask":      "umask 077; ",
		"variables":  "export TZ=Asia/Kathmandu LC_ALL=tr_TR.UTF-8 https_proxy=http://127.0.0.1:9 AWS_PROFILE=p TROUPE_X=1; ",
		"repository": `mkdir "$TMPDIR/.git" "$TMPDIR/t"; export TMPDIR="$TMPDIR/t"; `,
		"space":      `mkdir "$TMPDIR/a b"; export TMPDIR="$TMPDIR/a b"; `,
		"link":       `mkdir "$TMPDIR/a"; ln -s a "$TMPDIR/b"; export TMPDIR="$TMPDIR/b"; `,
		"no TMPDIR":  "export TMPDIR=/does/not/exist; ",
		"signals":    `trap "" INT HUP; `,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, _, _ := start(t, "surroundings", script)
			assert.Zero(t, code)
		})
	}
}

func TestNeutral(t *testing.T) {
	dir := shortDir(t)
	below := filepath.Join(dir, "a", "b")
	require.NoError(t, os.MkdirAll(below, 0o700))
	require.NoError(t, neutral(below))
	for _, marker := range markers {
		path := filepath.Join(dir, marker)
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		require.ErrorContains(t, neutral(below), path)
		require.NoError(t, os.Remove(path))
	}
	require.Error(t, neutral(below+strings.Repeat("/long", 20)))
	require.Error(t, neutral(below+" c"))
}
