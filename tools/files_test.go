package tools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRealPath(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	put(t, env, "dir/file", "")
	link := func(target, name string) { require.NoError(t, os.Symlink(target, filepath.Join(env.Cwd, name))) }
	link("dir", "dirlink")
	link("dirlink/file", "filelink")
	link("dir/new", "dangling")
	link("dangling", "twice")
	link("loop2", "loop1")
	link("loop1", "loop2")
	for in, want := range map[string]string{
		"dir/file": "dir/file", "dirlink/file": "dir/file", "filelink": "dir/file", "dirlink/new": "dir/new",
		"dangling": "dir/new", "twice": "dir/new", "no/such/dir": "no/such/dir", "dirlink/../x": "x", "loop1": "loop1",
	} {
		assert.Equal(t, filepath.Join(env.Cwd, want), RealPath(filepath.Join(env.Cwd, in)), in)
	}
	assert.Equal(t, "/", RealPath("/"))
}

func TestLockWaits(t *testing.T) {
	t.Parallel()
	var f Files
	unlock, err := f.Lock(t.Context(), "/x/a")
	require.NoError(t, err)
	other, err := f.Lock(t.Context(), "/x/b")
	require.NoError(t, err, "other files are free")
	other()
	ctx, cancel := context.WithCancel(t.Context())
	waits := make(chan error, 1)
	go func() {
		_, err := f.Lock(ctx, "/x/./a")
		waits <- err
	}()
	cancel()
	assert.ErrorIs(t, <-waits, context.Canceled)
	unlock()
	unlock, err = f.Lock(t.Context(), "/x/a")
	require.NoError(t, err)
	unlock()
	assert.Empty(t, f.locks)
	var none *Files
	unlock, err = none.Lock(t.Context(), "/x/a")
	require.NoError(t, err)
	unlock()
}

func TestLockExcludes(t *testing.T) {
	t.Parallel()
	var f Files
	var all sync.WaitGroup
	counts := make([]int, 3) // the race detector looks on
	for i := range 300 {
		all.Go(func() {
			unlock, err := f.Lock(t.Context(), fmt.Sprint("/file", i%3))
			assert.NoError(t, err)
			counts[i%3]++
			unlock()
		})
	}
	all.Wait()
	assert.Equal(t, []int{100, 100, 100}, counts)
	assert.Empty(t, f.locks)
}

func TestWrite(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	text, result, err := run(t, env, "write", object{"path": "a/b/c.txt", "content": "h\u00e9\r\n"})
	require.NoError(t, err)
	assert.Equal(t, "Wrote 5B to a/b/c.txt.", text)
	assert.Nil(t, result.Details)
	assert.Equal(t, "h\u00e9\r\n", get(t, env, "a/b/c.txt"))
	require.NoError(t, os.Chmod(filepath.Join(env.Cwd, "a/b/c.txt"), 0o600))
	_, _, err = run(t, env, "write", object{"path": "a/b/c.txt", "content": ""})
	require.NoError(t, err)
	assert.Empty(t, get(t, env, "a/b/c.txt"))
	info, err := os.Stat(filepath.Join(env.Cwd, "a/b/c.txt"))
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o600), info.Mode())
}

// A new file has the mode that creating it directly would give it.
func TestWriteNewFileMode(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	direct := put(t, env, "direct", "")
	_, _, err := run(t, env, "write", object{"path": "written", "content": ""})
	require.NoError(t, err)
	want, err := os.Stat(direct)
	require.NoError(t, err)
	got, err := os.Stat(filepath.Join(env.Cwd, "written"))
	require.NoError(t, err)
	assert.Equal(t, want.Mode(), got.Mode())
}

func TestWriteThroughLinks(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	require.NoError(t, os.Symlink("sub/target", filepath.Join(env.Cwd, "dangling")))
	_, _, err := run(t, env, "write", object{"path": "dangling", "content": "x"})
	require.NoError(t, err)
	assert.Equal(t, "x", get(t, env, "sub/target"))
	info, err := os.Lstat(filepath.Join(env.Cwd, "dangling"))
	require.NoError(t, err)
	assert.NotZero(t, info.Mode()&fs.ModeSymlink)
}

func TestWriteErrors(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	put(t, env, "file", "old")
	require.NoError(t, os.Mkdir(filepath.Join(env.Cwd, "dir"), 0o777))
	require.NoError(t, syscall.Mkfifo(filepath.Join(env.Cwd, "fifo"), 0o666))
	for path, want := range map[string]string{
		"dir":                    "EISDIR: is a directory, write '" + env.Cwd + "/dir'",
		"file/x":                 "ENOTDIR: not a directory, mkdir '" + env.Cwd + "/file'",
		"fifo":                   "write '" + env.Cwd + "/fifo': not a regular file",
		strings.Repeat("n", 300): "ENAMETOOLONG: file name too long, write '" + env.Cwd + "/" + strings.Repeat("n", 300) + "'",
		"a\x00b":                 "EINVAL: invalid argument, write '" + env.Cwd + "/a\x00b'",
	} {
		_, _, err := run(t, env, "write", object{"path": path, "content": "new"})
		assert.EqualError(t, err, want)
	}
	assert.Equal(t, "old", get(t, env, "file"))
}

// Where no file can be put beside it, it is overwritten in place.
func TestReplaceFileInPlace(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	name := strings.Repeat("n", 255) // the temporary name is shorter, so this works as usual
	path := put(t, env, name, "old")
	require.NoError(t, ReplaceFile(path, []byte("new"), 0o666))
	assert.Equal(t, "new", get(t, env, name))
	if os.Geteuid() != 0 { // root may write anywhere
		path = put(t, env, "ro/file", "old")
		require.NoError(t, os.Chmod(filepath.Dir(path), 0o500))
		defer os.Chmod(filepath.Dir(path), 0o700)
		require.NoError(t, ReplaceFile(path, []byte("new"), 0o666))
		assert.Equal(t, "new", get(t, env, "ro/file"))
		require.NoError(t, os.Chmod(path, 0o400))
		assert.ErrorIs(t, ReplaceFile(path, []byte("newer"), 0o666), fs.ErrPermission)
	} else { // but may own a file of somebody else
		path = put(t, env, "other", "old")
		require.NoError(t, os.Chown(path, 12345, 12345))
		require.NoError(t, ReplaceFile(path, []byte("new"), 0o666))
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, uint32(12345), info.Sys().(*syscall.Stat_t).Uid)
		assert.Equal(t, "new", get(t, env, "other"))
	}
	entries, err := os.ReadDir(env.Cwd)
	require.NoError(t, err)
	assert.Len(t, entries, 2, "no temporary files")
}

// What fails for want of room leaves the old content; only what forbids a new
// file leads to writing in place.
func TestOnlyInPlace(t *testing.T) {
	t.Parallel()
	for _, err := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG, syscall.EIO, syscall.EMFILE} {
		assert.False(t, onlyInPlace(&fs.PathError{Err: err}), err)
	}
	for _, err := range []error{syscall.EACCES, syscall.EPERM, syscall.EROFS, syscall.EBUSY, syscall.EXDEV, errOtherOwner} {
		assert.True(t, onlyInPlace(errors.Join(&fs.PathError{Err: err}, nil)), err)
	}
}

// A reader sees the old or the new content, never a part.
func TestReplaceFileIsAtomic(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	a, b := strings.Repeat("a", 300_000), strings.Repeat("b", 300_000)
	path := put(t, env, "f", a)
	ctx, cancel := context.WithCancel(t.Context())
	var reader sync.WaitGroup
	reader.Go(func() {
		for ctx.Err() == nil {
			if content := get(t, env, "f"); content != a && content != b {
				assert.Fail(t, "a part", "%d bytes", len(content))
				return
			}
		}
	})
	for i := range 50 {
		require.NoError(t, ReplaceFile(path, []byte([]string{a, b}[i%2]), 0o666))
	}
	cancel()
	reader.Wait()
}
