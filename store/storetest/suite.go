package storetest

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/store"
)

// TestFS checks that a file system keeps the contract of store.FS. root is an
// existing, empty directory of it.
func TestFS(t *testing.T, fsys store.FS, root string) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, fsys store.FS, dir string)
	}{
		{"missing", testMissing},
		{"create is exclusive", testCreate},
		{"writes append", testAppend},
		{"read at", testReadAt},
		{"read-only handle", testReadOnly},
		{"truncate", testTruncate},
		{"rename replaces", testRename},
		{"remove keeps open files", testRemove},
		{"stamps", testStamps},
		{"directories", testDirs},
		{"lock", testLock},
		{"closed", testClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(root, c.name)
			require.NoError(t, fsys.MkdirAll(dir))
			c.test(t, fsys, dir)
		})
	}
}

// put makes a file with content.
func put(t *testing.T, fsys store.FS, name, content string) {
	t.Helper()
	f := open(t, fsys.Create, name)
	_, err := f.Write([]byte(content))
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// get reads a file.
func get(t *testing.T, fsys store.FS, name string) string {
	t.Helper()
	f := open(t, fsys.Open, name)
	st, err := f.Stat()
	require.NoError(t, err)
	b, err := io.ReadAll(io.NewSectionReader(f, 0, st.Size()))
	require.NoError(t, err)
	return string(b)
}

// open opens a file until the end of the test.
func open(t *testing.T, by func(string) (store.File, error), name string) store.File {
	t.Helper()
	f, err := by(name)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// file makes a file with content, and opens it for appending.
func file(t *testing.T, fsys store.FS, dir, content string) (name string, f store.File) {
	t.Helper()
	name = filepath.Join(dir, "f")
	put(t, fsys, name, content)
	return name, open(t, fsys.OpenAppend, name)
}

func testMissing(t *testing.T, fsys store.FS, dir string) {
	name := filepath.Join(dir, "none")
	_, err := fsys.Open(name)
	assert.ErrorIs(t, err, fs.ErrNotExist)
	_, err = fsys.OpenAppend(name)
	assert.ErrorIs(t, err, fs.ErrNotExist, "opening for append creates nothing")
	_, err = fsys.Stat(name)
	assert.ErrorIs(t, err, fs.ErrNotExist)
	_, err = fsys.ReadDir(name)
	assert.ErrorIs(t, err, fs.ErrNotExist)
	assert.ErrorIs(t, fsys.Remove(name), fs.ErrNotExist)
	assert.ErrorIs(t, fsys.Rename(name, name+"2"), fs.ErrNotExist)
	assert.ErrorIs(t, fsys.SyncDir(name), fs.ErrNotExist)
	_, err = fsys.Create(filepath.Join(name, "file"))
	assert.ErrorIs(t, err, fs.ErrNotExist, "creating makes no directories")
}

func testCreate(t *testing.T, fsys store.FS, dir string) {
	name := filepath.Join(dir, "f")
	put(t, fsys, name, "one")
	_, err := fsys.Create(name)
	require.ErrorIs(t, err, fs.ErrExist)
	assert.Equal(t, "one", get(t, fsys, name))
	st, err := fsys.Stat(name)
	require.NoError(t, err)
	assert.Equal(t, int64(3), st.Size())
	assert.Equal(t, "f", st.Name())
	assert.True(t, st.Mode().IsRegular())
	assert.Zero(t, st.Mode().Perm()&0o077, "private to the user")
}

func testAppend(t *testing.T, fsys store.FS, dir string) {
	name, a := file(t, fsys, dir, "start ")
	b := open(t, fsys.OpenAppend, name)
	for _, w := range []struct {
		f    io.Writer
		text string
	}{{a, "a1 "}, {b, "b1 "}, {a, "a2 "}} {
		n, err := w.f.Write([]byte(w.text))
		require.NoError(t, err)
		assert.Equal(t, len(w.text), n)
	}
	stamp, err := a.Stamp()
	require.NoError(t, err)
	assert.Equal(t, int64(len("start a1 b1 a2 ")), stamp.Size)
	assert.Equal(t, "start a1 b1 a2 ", get(t, fsys, name), "each write goes to the end, whoever wrote before")
	require.NoError(t, a.Sync())
}

func testReadAt(t *testing.T, fsys store.FS, dir string) {
	_, f := file(t, fsys, dir, "0123456789")
	p := make([]byte, 4)
	n, err := f.ReadAt(p, 3)
	require.NoError(t, err)
	assert.Equal(t, "3456", string(p[:n]))
	n, err = f.ReadAt(p, 8)
	assert.ErrorIs(t, err, io.EOF, "a read that ends early says so")
	assert.Equal(t, "89", string(p[:n]))
	n, err = f.ReadAt(p, 20)
	assert.ErrorIs(t, err, io.EOF)
	assert.Zero(t, n)
}

func testReadOnly(t *testing.T, fsys store.FS, dir string) {
	name := filepath.Join(dir, "f")
	put(t, fsys, name, "x")
	f := open(t, fsys.Open, name)
	_, err := f.Write([]byte("y"))
	assert.Error(t, err)
	assert.Error(t, f.Truncate(0))
	assert.Equal(t, "x", get(t, fsys, name))
}

func testTruncate(t *testing.T, fsys store.FS, dir string) {
	name, f := file(t, fsys, dir, "0123456789")
	require.NoError(t, f.Truncate(4))
	_, err := f.Write([]byte("x"))
	require.NoError(t, err)
	assert.Equal(t, "0123x", get(t, fsys, name), "the next write goes to the new end")
	require.NoError(t, f.Truncate(7))
	assert.Equal(t, "0123x\x00\x00", get(t, fsys, name))
	st, err := f.Stat()
	require.NoError(t, err)
	assert.Equal(t, int64(7), st.Size())
}

func testRename(t *testing.T, fsys store.FS, dir string) {
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	put(t, fsys, from, "new")
	put(t, fsys, to, "old")
	old := open(t, fsys.Open, to)
	require.NoError(t, fsys.Rename(from, to))
	assert.Equal(t, "new", get(t, fsys, to))
	_, err := fsys.Stat(from)
	assert.ErrorIs(t, err, fs.ErrNotExist)
	p := make([]byte, 3)
	_, err = old.ReadAt(p, 0)
	require.NoError(t, err)
	assert.Equal(t, "old", string(p), "an open file outlives its name")
	require.NoError(t, fsys.SyncDir(dir))
}

func testRemove(t *testing.T, fsys store.FS, dir string) {
	name, f := file(t, fsys, dir, "abc")
	require.NoError(t, fsys.Remove(name))
	p := make([]byte, 3)
	_, err := f.ReadAt(p, 0)
	require.NoError(t, err)
	assert.Equal(t, "abc", string(p))
	_, err = f.Stamp()
	assert.ErrorIs(t, err, fs.ErrNotExist, "no name is left")
	put(t, fsys, name, "again")
	assert.Equal(t, "again", get(t, fsys, name))
	_, err = f.Stamp()
	assert.ErrorIs(t, err, fs.ErrNotExist, "the name is another file's")
}

// testStamps: whatever is done to a file shows in its stamp, and nothing else
// does.
func testStamps(t *testing.T, fsys store.FS, dir string) {
	name, other := filepath.Join(dir, "f"), filepath.Join(dir, "g")
	put(t, fsys, name, "0123456789")
	f := open(t, fsys.OpenAppend, name)
	last, err := f.Stamp()
	require.NoError(t, err)
	at, err := fsys.Stamp(name)
	require.NoError(t, err)
	assert.Equal(t, last, at, "the file and its name say the same")
	assert.Equal(t, "0123456789", get(t, fsys, name))
	again, err := f.Stamp()
	require.NoError(t, err)
	assert.Equal(t, last, again, "who reads changes nothing")
	step := func(what string, do func() error) {
		time.Sleep(10 * time.Millisecond) // the clock of some systems ticks no faster
		require.NoError(t, do())
		now, err := f.Stamp()
		require.NoError(t, err)
		assert.NotEqual(t, last, now, what)
		assert.Equal(t, last.Ino, now.Ino, what)
		last = now
	}
	step("written", func() error { _, err := f.Write([]byte("x")); return err })
	step("cut", func() error { return f.Truncate(5) })
	step("written over, to the same size", func() error {
		_, err := f.Write([]byte("56789"))
		return errors.Join(err, f.Truncate(5))
	})
	step("renamed", func() error { return fsys.Rename(name, other) })
	_, err = fsys.Stamp(name)
	assert.ErrorIs(t, err, fs.ErrNotExist)
	at, err = fsys.Stamp(other)
	require.NoError(t, err)
	assert.Equal(t, last, at)
	put(t, fsys, name, "01234")
	at, err = fsys.Stamp(name)
	require.NoError(t, err)
	assert.NotEqual(t, last.Ino, at.Ino, "another file")
}

func testDirs(t *testing.T, fsys store.FS, dir string) {
	deep := filepath.Join(dir, "a", "b", "c")
	require.NoError(t, fsys.MkdirAll(deep))
	require.NoError(t, fsys.MkdirAll(deep), "a directory that exists is made")
	put(t, fsys, filepath.Join(dir, "z"), "zz")
	put(t, fsys, filepath.Join(dir, "B"), "b")
	entries, err := fsys.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	assert.Equal(t, []string{"B", "a", "z"}, names)
	assert.True(t, entries[1].IsDir())
	info, err := entries[2].Info()
	require.NoError(t, err)
	assert.Equal(t, int64(2), info.Size())
	st, err := fsys.Stat(deep)
	require.NoError(t, err)
	assert.True(t, st.IsDir())
	assert.Error(t, fsys.MkdirAll(filepath.Join(dir, "z", "below")), "a file has no directories below it")
}

func testLock(t *testing.T, fsys store.FS, dir string) {
	name, a := file(t, fsys, dir, "")
	b := open(t, fsys.OpenAppend, name)
	require.NoError(t, a.Lock())
	require.NoError(t, a.Lock(), "the holder may lock again")
	assert.ErrorIs(t, b.Lock(), store.ErrInUse)
	require.NoError(t, a.Close())
	assert.NoError(t, b.Lock(), "closing gives the lock back")
}

func testClosed(t *testing.T, fsys store.FS, dir string) {
	name, f := file(t, fsys, dir, "abc")
	require.NoError(t, f.Close())
	_, err := f.Write([]byte("x"))
	assert.ErrorIs(t, err, fs.ErrClosed)
	_, err = f.ReadAt(make([]byte, 1), 0)
	assert.ErrorIs(t, err, fs.ErrClosed)
	assert.ErrorIs(t, f.Sync(), fs.ErrClosed)
	assert.Equal(t, []byte("abc"), bytes.TrimSpace([]byte(get(t, fsys, name))))
}
