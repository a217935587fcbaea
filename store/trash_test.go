package store_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/store"
)

// TestTrash: a session goes to the trash with its children, where no listing finds it; one
// that is open, or is none, stays.
func TestTrash(t *testing.T) {
	root := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	header := `{"type":"session","version":3,"id":"one","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/p"}` + "\n"
	path := write("--p--/one.jsonl", header)
	child := write("--p--/one/A.jsonl", header)
	other := write("--p--/notes.jsonl", `{"hello":1}`+"\n")
	outside := filepath.Join(t.TempDir(), "x.jsonl")
	require.NoError(t, os.WriteFile(outside, []byte(header), 0o600))

	log, err := store.OpenLog(store.OS{}, path, store.Options{Exclusive: true})
	require.NoError(t, err)
	_, err = store.Trash(store.OS{}, root, path)
	require.ErrorIs(t, err, store.ErrInUse)
	require.NoError(t, log.Close())
	for _, wrong := range []string{other, outside, root, filepath.Join(root, "--p--"), filepath.Join(root, "..", filepath.Base(root)+"x", "one.jsonl")} {
		_, err = store.Trash(store.OS{}, root, wrong)
		assert.Error(t, err, wrong)
	}
	_, err = store.Trash(store.OS{}, root, filepath.Join(root, "--p--", "none.jsonl"))
	require.ErrorIs(t, err, fs.ErrNotExist)

	for n, want := range []string{".trash/--p--/one.jsonl", ".trash/--p--/one.2.jsonl"} {
		to, err := store.Trash(store.OS{}, root, path)
		require.NoError(t, err)
		assert.Equal(t, filepath.Join(root, want), to)
		assert.NoFileExists(t, path)
		assert.NoFileExists(t, child)
		if n == 0 {
			assert.FileExists(t, filepath.Join(root, ".trash/--p--/one/A.jsonl"))
		}
		_, err = store.Trash(store.OS{}, root, to)
		require.ErrorIs(t, err, store.ErrNotSession, "it is there already")
		list, err := store.NewLister(store.OS{}).List(store.Query{Dir: root, All: true})
		require.NoError(t, err)
		assert.Empty(t, list)
		write("--p--/one.jsonl", header)
	}
	assert.FileExists(t, outside)
	assert.FileExists(t, other)
}
