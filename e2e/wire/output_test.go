package wire

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/e2e/harness"
)

// TestOutputPaths checks that an output path can neither overwrite a session file nor block the
// daemon. It covers export_html, --export and --pprof.
func TestOutputPaths(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.Model.Enqueue(harness.Text("one"), harness.Text("two"), harness.Text("three"))
	d := p.Start()
	d.Prompt("first")
	own := d.OK(`{"type":"get_state"}`).Get("sessionFile").Str
	d.OK(`{"type":"new_session"}`)
	d.Prompt("second")
	open := d.OK(`{"type":"get_state"}`).Get("sessionFile").Str
	in := func(name string) string { return filepath.Join(p.Work, name) }
	require.NoError(t, os.Symlink(own, in("symlink")))
	require.NoError(t, os.Link(own, in("hardlink")))
	require.NoError(t, syscall.Mkfifo(in("fifo"), 0o600))
	require.NoError(t, os.Symlink("fifo", in("link-to-fifo")))
	require.NoError(t, os.Mkdir(in("dir"), 0o700))
	sessions := map[string]string{}
	for _, path := range []string{own, open} {
		sessions[path] = content(t, path)
	}
	for _, out := range []string{own, open, "symlink", "hardlink", "fifo", "link-to-fifo", "dir", "/dev/null"} {
		v := d.Call(`{"type":"export_html","outputPath":"` + out + `"}`)
		assert.Equal(t, "io_error", v.Get("code").Str, "%s: %s", out, v.Raw)
		_, errs, code := p.RunOnce("", "--export", own, out)
		assert.Equal(t, 1, code, out)
		assert.Contains(t, errs, filepath.Base(out))
		for path, was := range sessions {
			require.Equal(t, was, content(t, path), out)
		}
	}
	d.Prompt("third")
	assert.Len(t, d.OK(`{"type":"get_messages"}`).Get("messages").Array(), 4)

	// An existing file that may be replaced is replaced atomically.
	p.WriteFile("old.html", "old")
	require.NoError(t, os.Chmod(in("old.html"), 0o640))
	require.NoError(t, os.Symlink("old.html", in("link.html")))
	require.NoError(t, os.Symlink("new.html", in("dangling.html")))
	for _, out := range []string{"link.html", "dangling.html"} {
		d.OK(`{"type":"export_html","outputPath":"` + out + `"}`)
		assert.Contains(t, content(t, in(out)), "</html>")
		info, err := os.Lstat(in(out))
		require.NoError(t, err)
		assert.NotZero(t, info.Mode()&os.ModeSymlink, "%s is still a link", out)
	}
	for out, mode := range map[string]os.FileMode{"old.html": 0o640, "new.html": 0o600} {
		info, err := os.Stat(in(out))
		require.NoError(t, err)
		assert.Equal(t, mode, info.Mode().Perm(), out)
	}
	names, err := os.ReadDir(p.Work)
	require.NoError(t, err)
	for _, e := range names {
		assert.False(t, strings.HasSuffix(e.Name(), ".tmp"), e.Name())
	}
	require.Zero(t, d.Close())

	require.NoError(t, os.Mkdir(in("profiles"), 0o700))
	require.NoError(t, syscall.Mkfifo(in("profiles/cpu.pprof"), 0o600))
	_, errs, code := p.RunOnce("", "--pprof", in("profiles"), "--mode", "rpc")
	assert.Zero(t, code)
	assert.Contains(t, errs, "cpu.pprof")
	assert.FileExists(t, in("profiles/allocs.pprof"))
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}
