package tools

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
)

// The environment of a process is shown by no tool, under whatever name.
func TestEnvironIsNotShown(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	require.NoError(t, os.Symlink("/proc/self/environ", filepath.Join(env.Cwd, "link")))
	require.NoError(t, os.Symlink("/proc", filepath.Join(env.Cwd, "proc")))
	for _, path := range []string{"/proc/self/environ", "/proc/thread-self/environ", "/proc/self/root/proc/self/environ", "link", "proc/self/environ"} {
		_, _, err := run(t, env, "read", map[string]any{"path": path})
		assert.ErrorIs(t, err, errEnviron, path)
		_, _, err = run(t, env, "grep", map[string]any{"pattern": "=", "path": path})
		assert.ErrorIs(t, err, errEnviron, path)
		_, _, err = run(t, env, "edit", map[string]any{"path": path, "edits": []map[string]any{{"oldText": "a", "newText": "b"}}})
		assert.ErrorIs(t, err, errEnviron, path)
	}
	text, _, err := run(t, env, "read", map[string]any{"path": "/proc/self/status"})
	require.NoError(t, err)
	assert.Contains(t, text, "Pid:")
	text, _, err = run(t, env, "grep", map[string]any{"pattern": "processor", "path": "/proc/cpuinfo"})
	require.NoError(t, err)
	assert.Contains(t, text, "processor")
}

// A file of the kernel without end does not keep its reader, however it has none:
// by being silent, or by never stopping.
func TestKernelFilesWithoutEnd(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	if f, err := os.Open("/proc/kmsg"); err == nil { // root's
		f.Close()
		_, _, err = run(t, env, "read", map[string]any{"path": "/proc/kmsg"})
		assert.ErrorIs(t, err, errEndless)
	}
	f, err := os.Open("/dev/zero") // stands for /proc/kcore, which few systems show
	require.NoError(t, err)
	r := &regular{f, protocol.MaxKernelFile}
	defer r.Close()
	n, err := io.Copy(io.Discard, r)
	assert.ErrorIs(t, err, errEndless)
	assert.EqualValues(t, protocol.MaxKernelFile, n)
}
