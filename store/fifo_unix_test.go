//go:build unix

package store_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/store"
)

// Opening a pipe would wait for its writer; listing must pass it over.
func TestPipesAreNoSessions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe.jsonl")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	_, err := store.OpenLog(store.OS{}, path, store.Options{})
	assert.ErrorIs(t, err, store.ErrNotSession)
	assert.Empty(t, listIDs(t, store.NewLister(store.OS{}), store.Query{Dir: filepath.Dir(path)}))
	l := store.NewLog(store.OS{}, path, header(), store.Options{})
	defer l.Close()
	_, err = l.Append(user("a"), t0, true)
	assert.ErrorIs(t, err, store.ErrNotDurable)
}
