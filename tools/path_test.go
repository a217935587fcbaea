package tools

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"
)

func TestResolvePath(t *testing.T) {
	t.Parallel()
	env := &Env{Cwd: "/project", Home: "/home/me"}
	for in, want := range map[string]string{
		"a.txt": "/project/a.txt", "./a/../b": "/project/b", "../x": "/x", "/etc/passwd": "/etc/passwd", "": "/project", ".": "/project",
		"~": "/home/me", "~/x": "/home/me/x", "~user/x": "/project/~user/x", "a~": "/project/a~",
		"@a.txt": "/project/a.txt", "@@a": "/project/@a", "@~/x": "/home/me/x", "@/abs": "/abs",
		"a\u00a0b\u2003c\u202fd\u205fe\u3000f": "/project/a b c d e f", "tab\there": "/project/tab\there",
	} {
		assert.Equal(t, want, env.ResolvePath(in), "%q", in)
	}
}

// The spellings that macOS stores are found under the one that a model types.
func TestResolveExistingSpellings(t *testing.T) {
	t.Parallel()
	for stored, typed := range map[string]string{
		"plain.png": "plain.png",
		"Screenshot 2026-01-02 at 3.04.05\u202fPM.png": "Screenshot 2026-01-02 at 3.04.05 PM.png",
		"Screenshot at 9.00.00\u202fam.png":            "Screenshot at 9.00.00 am.png",
		norm.NFD.String("Bücher.txt"):                  "Bücher.txt",
		"Capture d\u2019écran.png":                     "Capture d'écran.png",
		norm.NFD.String("Capture d\u2019écran 2.png"):  "Capture d'écran 2.png",
	} {
		env := newEnv(t)
		path := put(t, env, stored, "found")
		assert.Equal(t, path, env.resolveExisting(typed), "%q", stored)
		text, _, err := run(t, env, "read", object{"path": typed})
		require.NoError(t, err, "%q", stored)
		assert.Equal(t, "found", text)
		assert.Equal(t, filepath.Join(env.Cwd, "other PM.png"), env.resolveExisting("other PM.png"))
	}
}

func TestFileError(t *testing.T) {
	t.Parallel()
	_, err := os.Open("/does/not/exist")
	err = fileError("open", "/does/not/exist", err)
	assert.EqualError(t, err, "ENOENT: no such file or directory, open '/does/not/exist'")
	assert.ErrorIs(t, err, os.ErrNotExist)
	cause := errors.New("something else")
	err = fileError("read", "x", cause)
	assert.EqualError(t, err, "read 'x': something else")
	assert.ErrorIs(t, err, cause)
}

func TestOpenRegular(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	require.NoError(t, syscall.Mkfifo(filepath.Join(env.Cwd, "fifo"), 0o666))
	require.NoError(t, os.Symlink("loop", filepath.Join(env.Cwd, "loop")))
	for path, want := range map[string]string{
		"fifo":      "not a regular file: '" + env.Cwd + "/fifo'", // would block
		"/dev/zero": "not a regular file: '/dev/zero'",            // would not end
		"loop":      "ELOOP: too many levels of symbolic links, open '" + env.Cwd + "/loop'",
		".":         "EISDIR: is a directory, read '" + env.Cwd + "'",
		"missing":   "ENOENT: no such file or directory, open '" + env.Cwd + "/missing'",
	} {
		_, _, err := run(t, env, "read", object{"path": path})
		assert.EqualError(t, err, want)
	}
}
