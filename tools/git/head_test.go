package git

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBranchOfADirectory reads the branch of a working tree, of a linked one and of a subdirectory.
func TestBranchOfADirectory(t *testing.T) {
	root := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(root, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write("a/.git/HEAD", "ref: refs/heads/fix/two-words\n")
	write("a/deep/er/file", "")
	write("a/.git/worktrees/b/HEAD", strings.Repeat("0123456789", 4)+"\n")
	write("b/.git", "gitdir: "+filepath.Join(root, "a/.git/worktrees/b")+"\n")
	write("c/.git", "gitdir: ../a/.git/worktrees/b\n")
	write("d/.git/HEAD", "root:x:0:0 is no commit of git, but as long as one\n")
	write("plain/file", "")
	everywhere := func(string) bool { return true }
	for dir, want := range map[string]string{
		"a": "fix/two-words", "a/deep/er": "fix/two-words", "b": "01234567", "c": "01234567", "d": "", "plain": "", "nowhere": "",
	} {
		within := func(path string) bool { return path != root }
		assert.Equal(t, want, Branch(filepath.Join(root, dir), within), dir)
	}
	assert.Equal(t, "fix/two-words", Branch(filepath.Join(root, "a/deep"), everywhere))
	assert.Empty(t, Branch(filepath.Join(root, "a/deep"), func(string) bool { return false }), "parents that a client may not see are not read")
	within := func(path string) bool { return strings.HasPrefix(path, filepath.Join(root, "b")) }
	assert.Empty(t, Branch(filepath.Join(root, "b"), within), "nor is a HEAD that a .git file names elsewhere")
}
