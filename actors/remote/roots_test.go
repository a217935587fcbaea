package remote

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBelow: a path counts as the place to which it leads.
func TestBelow(t *testing.T) {
	root, other := t.TempDir(), t.TempDir()
	link := func(to, name string) { require.NoError(t, os.Symlink(to, filepath.Join(root, name))) }
	require.NoError(t, os.MkdirAll(filepath.Join(root, "a", "b"), 0o700))
	link(other, "out")
	link(filepath.Join(other, "new"), "later")
	link("a", "in")
	link("round", "round")
	link("../"+filepath.Base(other)+"/x", "relative")
	require.NoError(t, os.Symlink(root, filepath.Join(other, "back")))
	below := Below([]string{root, ""})
	for path, want := range map[string]bool{
		root: true, root + "/a/b": true, root + "/none/yet": true, root + "/in/b": true, other + "/back/a": true,
		other: false, "/": false, root + "x": false, root + "/out": false, root + "/out/x": false, root + "/later": false, root + "/later/x": false,
		root + "/relative": false, root + "/round": false, root + "/a/../..": false, filepath.Dir(root): false,
	} {
		assert.Equal(t, want, below(filepath.Clean(path)), path)
	}
}
