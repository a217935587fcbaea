package store_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/store"
)

// TestKernelFiles: what the kernel makes up says that it is a regular, empty
// file, and may wait when it is read or do things when it is written to. It is
// no session and does not become one.
func TestKernelFiles(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link.jsonl")
	require.NoError(t, os.Symlink("/proc/self/comm", link))
	for _, path := range []string{"/proc/kmsg", "/proc/self/mem", "/proc/self/comm", "/proc/self/environ", link, "/dev/null", "/dev/zero", "/proc"} {
		if _, err := os.Stat(path); err != nil {
			continue
		}
		_, err := store.OpenLog(store.OS{}, path, store.Options{})
		assert.ErrorIs(t, err, store.ErrNotSession, path)
		before, _ := os.ReadFile("/proc/self/comm")
		l := store.NewLog(store.OS{}, path, header(), options())
		_, err = l.Append(user("a"), t0, true)
		assert.ErrorIs(t, err, store.ErrNotDurable, path)
		assert.ErrorIs(t, err, fs.ErrExist, path)
		after, _ := os.ReadFile("/proc/self/comm")
		assert.Equal(t, string(before), string(after))
		require.NoError(t, l.Close())
	}
}

// TestInterruptedCalls: a signal in between is nobody's failure.
func TestInterruptedCalls(t *testing.T) {
	calls := 0
	err := store.Again(func() error {
		if calls++; calls < 3 {
			return syscall.EINTR
		}
		return errors.New("other")
	})
	assert.EqualError(t, err, "other")
	assert.Equal(t, 3, calls)
}
