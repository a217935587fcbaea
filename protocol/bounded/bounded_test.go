package bounded

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	for _, size := range []int{0, 1, 9, 10} {
		require.NoError(t, os.WriteFile(file, []byte(strings.Repeat("x", size)), 0o600))
		b, err := ReadFile(file, 10)
		require.NoError(t, err)
		assert.Equal(t, strings.Repeat("x", size), string(b))
	}
	for _, size := range []int64{11, 100, 1 << 40} { // the last is a hole
		require.NoError(t, os.Truncate(file, size))
		b, err := ReadFile(file, 10)
		assert.Equal(t, TooLarge{10}, err)
		assert.Len(t, b, 10, "as much as was asked for")
	}
	for text, want := range map[string]string{"\ufeff{}": "{}", "\ufeff": "", "{}\ufeff": "{}\ufeff", "\xEF\xBBx": "\xEF\xBBx"} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		b, err := ReadFile(file, 10)
		require.NoError(t, err)
		assert.Equal(t, want, string(b), "without byte order mark")
	}
	_, err := ReadFile(filepath.Join(dir, "none"), 10)
	assert.ErrorIs(t, err, fs.ErrNotExist)
	assert.Equal(t, "larger than 4 KiB", TooLarge{4 << 10}.Error())
	assert.Equal(t, "larger than 2 MiB", TooLarge{2 << 20}.Error())
}

// TestNothingWaits reads what never ends and what never begins.
func TestNothingWaits(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	require.NoError(t, os.Symlink("fifo", filepath.Join(dir, "link")))
	for _, path := range []string{dir, filepath.Join(dir, "fifo"), filepath.Join(dir, "link"), "/dev/zero", "/dev/null", "/dev/tty"} {
		_, err := ReadFile(path, 10)
		if !os.IsNotExist(err) {
			assert.ErrorIs(t, err, ErrNotFile, path)
		}
	}
	for _, path := range []string{"/proc/self/cmdline", "/proc/self/environ", "/proc/self/mem", "/proc/kmsg"} {
		b, _ := ReadFile(path, 10) // where the system refuses, that is as good
		require.Empty(t, b, path)
	}
}

func TestReadDir(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"c", "a", "b"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	names := func(limit int) (list []string, more bool) {
		entries, more, err := ReadDir(dir, limit)
		require.NoError(t, err)
		for _, e := range entries {
			list = append(list, e.Name())
		}
		return list, more
	}
	list, more := names(3)
	assert.Equal(t, []string{"a", "b", "c"}, list)
	assert.False(t, more)
	list, more = names(2)
	assert.Len(t, list, 2)
	assert.True(t, more)
	_, _, err := ReadDir(filepath.Join(dir, "a"), 3)
	assert.Error(t, err)
	_, _, err = ReadDir(filepath.Join(dir, "none"), 3)
	assert.ErrorIs(t, err, fs.ErrNotExist)
	empty, more, err := ReadDir(t.TempDir(), 3)
	require.NoError(t, err)
	assert.Empty(t, empty)
	assert.False(t, more)
}
