package search

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// place is a working directory and a home.
type place struct{ Cwd, Home string }

func newEnv(t testing.TB) place {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	return place{dir, dir}
}

// put writes a file below the working directory.
func put(t testing.TB, env place, name, content string) {
	t.Helper()
	path := filepath.Join(env.Cwd, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o666))
}

func TestWalkNestedRepositories(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	for name, content := range map[string]string{
		".git/config": "", ".git/info/exclude": "excluded", ".gitignore": "*.log\nignored/\n",
		"a.log": "", "excluded": "", "kept": "", "ignored/x": "",
		"nested/.git/config": "", "nested/a.log": "", "nested/x.tmp": "", "nested/.gitignore": "*.tmp", "nested/ignored/y": "",
		"tree/.git": "gitdir: ../.git/worktrees/tree\n", ".git/worktrees/tree/commondir": "../..\n", "tree/excluded": "", "tree/b.log": "",
		"module/.git": "gitdir: ../.git/modules/module\n", ".git/modules/module/info/exclude": "mine", "module/mine": "", "module/b.log": "",
		"odd/.git": "not a link", "odd/c.log": "",
	} {
		put(t, env, name, content)
	}
	assert.Equal(t, []string{".gitignore", "kept", "module/b.log", "nested/.gitignore", "nested/a.log", "nested/ignored/y", "odd/c.log", "tree/b.log"},
		walked(t, env.Cwd, env.Cwd))
	assert.Equal(t, []string{"b.log"}, walked(t, filepath.Join(env.Cwd, "module"), env.Cwd))
}

func TestWalkTop(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	for name, content := range map[string]string{
		".gitignore": "*", "work/.gitignore": "*.log\nbuild\n", "work/sub/a.log": "", "work/sub/b": "", "work/build/c.log": "", "work/build/d": "",
	} {
		put(t, env, name, content)
	}
	work := filepath.Join(env.Cwd, "work")
	assert.Equal(t, []string{".gitignore", "sub/b"}, walked(t, work, work), "what is above the working directory does not count")
	assert.Equal(t, []string{"b"}, walked(t, filepath.Join(work, "sub"), work), "what is in it does")
	assert.Equal(t, []string{"a.log", "b"}, walked(t, filepath.Join(work, "sub"), env.Home+"/elsewhere"), "another place is on its own")
	assert.Equal(t, []string{"c.log", "d"}, walked(t, filepath.Join(work, "build"), work), "who asks for what is ignored wants it")
	assert.Empty(t, walked(t, env.Cwd, env.Cwd))
}

func TestWalkDoesNotFollowLinks(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	put(t, env, "dir/file", "")
	for name, target := range map[string]string{"dir/up": "..", "dir/self": ".", "loop": "loop", "to-file": "dir/file", "to-dir": "dir"} {
		require.NoError(t, os.Symlink(target, filepath.Join(env.Cwd, name)))
	}
	assert.Equal(t, []string{"dir/file", "dir/self", "dir/up", "loop", "to-dir", "to-file"}, walked(t, env.Cwd, env.Cwd))
	assert.Equal(t, []string{"file", "self", "up"}, walked(t, filepath.Join(env.Cwd, "to-dir"), env.Cwd), "except to the root")
}

func TestWalkEnds(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	for _, name := range []string{"a/b/c", "a/d", "e"} {
		put(t, env, name, "")
	}
	var seen []string
	require.NoError(t, Walk(t.Context(), env.Cwd, env.Cwd, func(path string, _ fs.DirEntry) error {
		if seen = append(seen, path); path == "a/b/c" {
			return fs.SkipAll
		}
		return nil
	}))
	assert.Equal(t, []string{"a", "a/b", "a/b/c"}, seen)
	ctx, cancel := context.WithCancel(t.Context())
	err := Walk(ctx, env.Cwd, env.Cwd, func(string, fs.DirEntry) error { cancel(); return nil })
	assert.ErrorIs(t, err, context.Canceled)
	assert.NoError(t, Walk(t.Context(), env.Cwd+"/missing", env.Cwd, nil), "what cannot be read is empty")
}

func TestGlob(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, path string
		isDir, want   bool
	}{
		{"*.go", "a.go", false, true}, {"*.go", "d/e/a.go", false, true}, {"*.go", "a.goo", false, false},
		{"a", "d/a", true, true}, {"a", "a/d", false, false}, {"*", ".hidden", false, true},
		{"src/*.go", "src/a.go", false, true}, {"src/*.go", "x/src/a.go", false, false}, {"src/*.go", "src/x/a.go", false, false},
		{"src/**/*.go", "src/a.go", false, true}, {"src/**/*.go", "src/x/y/a.go", false, true}, {"**/*.go", "a.go", false, true},
		{"./src/*.go", "src/a.go", false, true}, {"/root/src/*.go", "src/a.go", false, true},
		{"*.{ts,js}", "d/a.js", false, true}, {"[ab].c", "b.c", false, true}, {"a?", "ab", false, true},
		{"d/", "d", true, true}, {"d/", "d", false, false}, {"**", "a/b", false, true}, {"a/**", "a/b/c", false, true},
	} {
		g, err := ParseGlob(c.pattern, "/root")
		require.NoError(t, err)
		assert.Equal(t, c.want, g.Match(c.path, c.isDir), "%s on %s", c.pattern, c.path)
	}
	for _, bad := range []string{"", "a[", "{a", "/", "!"} {
		_, err := ParseGlob(bad, "/root")
		assert.ErrorContains(t, err, "invalid glob pattern", bad)
	}
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"*.go", "d/a.go", true}, {"!*.go", "d/a.go", false}, {"!*.go", "d/a.c", true},
		{"src/", "src/x/a.c", true}, {"src/", "lib/src/a.c", true}, {"!src/", "src/a.c", false}, {"src", "src/a.c", false}, {"test*", "tests/a.c", false},
		{"!src", "src/a.c", false}, {"!src", "srcs/a.c", true}, {"!src/lib", "src/lib/a.c", false},
	} {
		g, err := ParseGlob(c.pattern, "/root")
		require.NoError(t, err)
		assert.Equal(t, c.want, g.Admits(c.path), "%s on %s", c.pattern, c.path)
	}
}
