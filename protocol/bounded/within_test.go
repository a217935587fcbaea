package bounded

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWithin(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	in, out := filepath.Join(top, "in"), filepath.Join(top, "out")
	for _, dir := range []string{in + "/a/b", out} {
		require.NoError(t, os.MkdirAll(dir, 0o700))
	}
	require.NoError(t, os.Symlink(out, in+"/away"))
	require.NoError(t, os.Symlink("a/b", in+"/near"))
	require.NoError(t, os.Symlink("../in", top+"/out/back"))
	below := func(path string) bool { return strings.HasPrefix(path, in+"/") }
	for path, want := range map[string]string{
		in + "/x": in + "/x", in + "/a/b/x": in + "/a/b/x", in + "/near/x": in + "/a/b/x", in + "/near": in + "/a/b", out + "/back/x": in + "/x",
		in + "/away/x": "", in + "/away": "", out + "/x": "", "/": "",
	} {
		dir, name, err := Within(path, below)
		if want == "" {
			assert.ErrorIs(t, err, fs.ErrPermission, path)
			continue
		}
		require.NoError(t, err, path)
		assert.Equal(t, want, filepath.Join(dir.Name(), name))
		assert.NoError(t, dir.Close())
	}
	_, _, err = Within(in+"/none/x", below)
	assert.ErrorIs(t, err, fs.ErrNotExist)
	for _, path := range []string{in + "/away", in + "/near", out + "/back/a"} {
		_, err := OpenRoot(path)
		assert.ErrorIs(t, err, ErrLink, path)
	}
	_, err = OpenRoot("in")
	assert.Error(t, err, "relative")
	root, err := OpenRoot("/")
	require.NoError(t, err)
	assert.NoError(t, root.Close())
}

// TestWithinWhileLinksAreSwapped checks that a directory which is replaced by a link, again and again, is
// opened as the directory that was accepted or not at all.
func TestWithinWhileLinksAreSwapped(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	in, out := filepath.Join(top, "in"), filepath.Join(top, "out")
	for _, dir := range []string{in + "/d/e", out + "/e"} {
		require.NoError(t, os.MkdirAll(dir, 0o700))
	}
	require.NoError(t, os.Symlink(out, in+"/link"))
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			default:
				_ = os.Rename(in+"/d", in+"/away")
				_ = os.Rename(in+"/link", in+"/d")
				_ = os.Rename(in+"/d", in+"/link")
				_ = os.Rename(in+"/away", in+"/d")
			}
		}
	}()
	opened := 0
	for i := 0; opened < 500 && i < 500_000; i++ {
		dir, name, err := Within(in+"/d/e/file", func(path string) bool { return strings.HasPrefix(path, in+"/") })
		if err != nil {
			continue
		}
		opened++
		f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o600)
		if assert.NoError(t, err) {
			assert.NoError(t, f.Close())
		}
		assert.NoError(t, dir.Close())
	}
	close(end)
	<-ended
	assert.NotZero(t, opened)
	assert.NoFileExists(t, out+"/e/file")
	assert.FileExists(t, in+"/d/e/file")
}

// TestWithinAfterSwap puts a link in the place of a directory right after a path through it was accepted.
func TestWithinAfterSwap(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	in, out := filepath.Join(top, "in"), filepath.Join(top, "out")
	for _, dir := range []string{in + "/d/e", out + "/e"} {
		require.NoError(t, os.MkdirAll(dir, 0o700))
	}
	for _, path := range []string{in + "/d/e", in + "/d"} {
		_, _, err := Within(path+"/file", func(string) bool {
			require.NoError(t, os.Rename(path, in+"/kept"))
			require.NoError(t, os.Symlink(out, path))
			return true
		})
		assert.ErrorIs(t, err, ErrLink, path)
		require.NoError(t, os.Remove(path))
		require.NoError(t, os.Rename(in+"/kept", path))
	}
}
