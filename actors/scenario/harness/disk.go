package harness

import (
	"testing"

	"github.com/stretchr/testify/require"

	"troupe/actors/actortest"
	"troupe/store/storetest"
)

// Image is the disk that a daemon leaves when it is killed at some write, and the history until
// then.
type Image struct {
	History *actortest.History
	Disk    *actortest.Disk
}

// Overwrite replaces the content of a file and keeps the inode.
func Overwrite(t *testing.T, disk *storetest.Mem, path string, content []byte) {
	t.Helper()
	f, err := disk.OpenAppend(path)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(0))
	_, err = f.Write(content)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// ReplaceFile replaces a file by a new one with the same content, as editors do.
func ReplaceFile(t *testing.T, disk *storetest.Mem, path string) {
	t.Helper()
	content := disk.ReadFile(path)
	require.NoError(t, disk.Remove(path))
	disk.WriteFile(path, content)
}
