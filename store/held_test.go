package store

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestHeld checks that every call of a file system which is held to a directory refuses what lies outside,
// also through links, and otherwise does what the system's does.
func TestHeld(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	in, out := filepath.Join(top, "in"), filepath.Join(top, "out")
	for _, dir := range []string{in, out} {
		require.NoError(t, os.MkdirAll(dir, 0o700))
		require.NoError(t, os.WriteFile(dir+"/file", []byte("text"), 0o600))
	}
	require.NoError(t, os.Symlink(out, in+"/away"))
	require.NoError(t, os.Symlink(out+"/file", in+"/link"))
	fsys := HeldTo(OS{}, func(path string) bool { return path == in || strings.HasPrefix(path, in+"/") })
	for _, path := range []string{out + "/file", in + "/away/file", in + "/link"} {
		_, err := fsys.Open(path)
		assert.ErrorIs(t, err, fs.ErrPermission, path)
		_, err = fsys.OpenAppend(path)
		assert.ErrorIs(t, err, fs.ErrPermission, path)
		_, err = fsys.Stat(path)
		assert.ErrorIs(t, err, fs.ErrPermission, path)
		_, err = fsys.Stamp(path)
		assert.ErrorIs(t, err, fs.ErrPermission, path)
		assert.ErrorIs(t, fsys.Remove(path), fs.ErrPermission, path)
		assert.ErrorIs(t, fsys.Rename(path, in+"/x"), fs.ErrPermission, path)
		assert.ErrorIs(t, fsys.Rename(in+"/file", path), fs.ErrPermission, path)
	}
	for _, dir := range []string{out, in + "/away"} {
		_, err := fsys.Create(dir + "/new")
		assert.ErrorIs(t, err, fs.ErrPermission, dir)
		_, err = fsys.ReadDir(dir)
		assert.ErrorIs(t, err, fs.ErrPermission, dir)
		_, err = fsys.LockDir(dir)
		assert.ErrorIs(t, err, fs.ErrPermission, dir)
		assert.ErrorIs(t, fsys.MkdirAll(dir+"/new/deep"), fs.ErrPermission, dir)
		assert.ErrorIs(t, fsys.SyncDir(dir), fs.ErrPermission, dir)
	}
	_, list := fsys.(dirStater)
	assert.False(t, list, "lists take no way past it")

	require.NoError(t, fsys.MkdirAll(in+"/a/b"))
	require.NoError(t, fsys.MkdirAll(in+"/a/b"))
	f, err := fsys.Create(in + "/a/b/new")
	require.NoError(t, err)
	_, err = f.Write([]byte("more"))
	require.NoError(t, err)
	want, err := f.Stamp()
	require.NoError(t, err)
	require.NoError(t, f.Close())
	is, err := fsys.Stamp(in + "/a/b/new")
	require.NoError(t, err)
	assert.Equal(t, want, is)
	require.NoError(t, fsys.Rename(in+"/a/b/new", in+"/a/b/other"))
	entries, err := fsys.ReadDir(in + "/a/b")
	require.NoError(t, err)
	require.Len(t, entries, 1)
	assert.Equal(t, "other", entries[0].Name())
	unlock, err := fsys.LockDir(in)
	require.NoError(t, err)
	unlock()
	require.NoError(t, fsys.SyncDir(in+"/a/b"))
	require.NoError(t, fsys.Remove(in+"/a/b/other"))
	_, err = fsys.Stat(in + "/a/b/other")
	assert.ErrorIs(t, err, fs.ErrNotExist)
	assert.Equal(t, OS{}, HeldTo(OS{}, nil))
}
