package store_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/store"
)

// hole makes a session file with so many zeros in it, which need no room on the
// disk, and something after them.
func hole(t *testing.T, size int64, after string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s.jsonl")
	begin := headLine + "\n" + userLine("00000001", "", "x") + "\n"
	require.NoError(t, os.WriteFile(path, []byte(begin), 0o600))
	require.NoError(t, os.Truncate(path, int64(len(begin))+size))
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(after)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return path
}

// TestLineTooLong: a line of any length costs a bounded amount of memory and
// one error, wherever the file is read.
func TestLineTooLong(t *testing.T) {
	for name, after := range map[string]string{"line": "\n" + userLine("00000002", "00000001", "y") + "\n", "torn": ""} {
		t.Run(name, func(t *testing.T) {
			path := hole(t, 5<<30, after)
			var before, now runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := store.OpenLog(store.OS{}, path, store.Options{})
			require.ErrorIs(t, err, store.ErrTooLarge)
			assert.Contains(t, err.Error(), "a line may have 268435456 bytes")
			lister := store.NewLister(store.OS{})
			for range 2 {
				list, err := lister.List(store.Query{Dir: filepath.Dir(path)})
				require.NoError(t, err)
				require.Len(t, list, 1)
				assert.Equal(t, "x", list[0].FirstMessage)
			}
			runtime.ReadMemStats(&now)
			assert.Less(t, now.TotalAlloc-before.TotalAlloc, uint64(8*protocol.MaxSessionLine))
		})
	}
}

// TestOldSessionTooLarge: a file of an old version is read as a whole.
func TestOldSessionTooLarge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(`{"type":"session","id":"x"}`+"\n"), 0o600))
	require.NoError(t, os.Truncate(path, protocol.MaxOldSession+1))
	_, err := store.OpenLog(store.OS{}, path, store.Options{})
	require.ErrorIs(t, err, store.ErrTooLarge)
	assert.Contains(t, err.Error(), "version 1")
}

// TestLargeFileGrows: another program puts a hole into a file that is open.
func TestLargeFileGrows(t *testing.T) {
	path := hole(t, 0, "")
	l := open(t, store.OS{}, path)
	require.NoError(t, os.Truncate(path, 5<<30))
	_, err := l.Append(user("a"), t0, true)
	assert.ErrorIs(t, err, store.ErrNotDurable)
	assert.ErrorIs(t, err, store.ErrTooLarge)
	assert.Equal(t, 1, l.Len())
	_, err = l.View().Record("00000001")
	assert.NoError(t, err, "what was there can still be read")
}

// TestEntryTooLong: nothing is written that could not be read again.
func TestEntryTooLong(t *testing.T) {
	l, m := newLog(t)
	add(t, l, user("a"))
	before := len(m.ReadFile(file))
	_, err := l.Append(user(strings.Repeat("x", protocol.MaxSessionLine)), t0, true)
	assert.ErrorIs(t, err, store.ErrTooLarge)
	assert.Len(t, m.ReadFile(file), before)
	add(t, l, user("b"))
}
