package search

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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
		walked(t, env.Cwd))
	assert.Equal(t, []string{"b.log"}, walked(t, filepath.Join(env.Cwd, "module")))
}

func TestWalkTop(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	for name, content := range map[string]string{
		".gitignore": "*.tmp", ".ignore": "*.old", "work/.gitignore": "*.log\nbuild\n", "work/sub/a.log": "", "work/sub/b": "", "work/sub/c.tmp": "",
		"work/sub/d.old": "", "work/build/c.log": "", "work/build/d": "",
	} {
		put(t, env, name, content)
	}
	work := filepath.Join(env.Cwd, "work")
	sub := filepath.Join(work, "sub")
	assert.Equal(t, []string{".gitignore", "sub/b"}, walked(t, work), "fd obeys the files of every directory above")
	assert.Equal(t, []string{"b"}, walked(t, sub))
	assert.Equal(t, []string{"d"}, walked(t, filepath.Join(work, "build")), "files of an ignored directory are found if it is the root")
	assert.Equal(t, []string{"a.log", "b", "c.tmp"}, visited(t, Search{Root: sub}), "ripgrep obeys .gitignore in repositories only")
	put(t, env, "work/.git/config", "")
	assert.Equal(t, []string{"b", "c.tmp"}, visited(t, Search{Root: sub}), "and there no .gitignore of above")
	assert.Equal(t, []string{"b", "c.tmp"}, walked(t, sub), "in a repository fd does the same")
}

// Each file of rules counts for its program, the first that matches decides.
func TestIgnoreFiles(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	for name, content := range map[string]string{
		"repo/.git/info/exclude": "exclude\nboth", "repo/.gitignore": "git\n!both\nshown", "repo/.ignore": "ignore\n*.{x,y}\n!shown\nagain",
		"repo/.rgignore": "rg\n!again", "repo/.fdignore": "fd", ".config/fd/ignore": "userfd", ".config/git/ignore": "usual\n/top", "mine": "mine",
	} {
		put(t, env, name, content)
	}
	names := []string{"exclude", "both", "git", "shown", "ignore", "a.x", "b.y", "c.z", "again", "rg", "fd", "userfd", "usual", "mine", "top", "sub/top"}
	for _, name := range names {
		put(t, env, "repo/"+name, "")
	}
	root := filepath.Join(env.Cwd, "repo")
	found := func(program Program) string {
		var all []string
		for _, path := range visited(t, Search{Root: root, Cwd: root, Home: env.Home, Program: program}) {
			if path[0] != '.' {
				all = append(all, path)
			}
		}
		return strings.Join(all, " ")
	}
	assert.Equal(t, "again both c.z fd mine shown sub/top userfd", found(Ripgrep))
	assert.Equal(t, "both c.z mine rg shown sub/top", found(Fd))
	put(t, env, ".gitconfig", "[user]\nexcludesFile = /wrong\n[Core]\n\texcludesfile = \"~/mine\" # here\n")
	assert.Equal(t, "again both c.z fd shown sub/top top userfd usual", found(Ripgrep))
	assert.Equal(t, "both c.z rg shown sub/top top usual", found(Fd))
}

func TestExpandBraces(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"a{b,c}d": "abd\nacd\n", "{a,b{c,d}}": "a\nbc\nbd\n", "a{}": "a\n", "a{,b}": "ab\n", `\{a,b}`: "", `\{a`: "\\{a\n", "{a": "", "a}": "", "#{a,b}": "",
		strings.Repeat("{a,b}", 12): "",
	} {
		assert.Equal(t, want, expandBraces(line), line)
	}
}

func TestWalkDoesNotFollowLinks(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	put(t, env, "dir/file", "")
	for name, target := range map[string]string{"dir/up": "..", "dir/self": ".", "loop": "loop", "to-file": "dir/file", "to-dir": "dir"} {
		require.NoError(t, os.Symlink(target, filepath.Join(env.Cwd, name)))
	}
	assert.Equal(t, []string{"dir/file", "dir/self", "dir/up", "loop", "to-dir", "to-file"}, walked(t, env.Cwd))
	assert.Equal(t, []string{"file", "self", "up"}, walked(t, filepath.Join(env.Cwd, "to-dir")), "except to the root")
}

func TestWalkEnds(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	for _, name := range []string{"a/b/c", "a/d", "e"} {
		put(t, env, name, "")
	}
	var seen []string
	require.NoError(t, Search{Root: env.Cwd}.Walk(t.Context(), func(path string, _ fs.DirEntry) error {
		if seen = append(seen, path); path == "a/b/c" {
			return fs.SkipAll
		}
		return nil
	}))
	assert.Equal(t, []string{"a", "a/b", "a/b/c"}, seen)
	ctx, cancel := context.WithCancel(t.Context())
	err := Search{Root: env.Cwd}.Walk(ctx, func(string, fs.DirEntry) error { cancel(); return nil })
	assert.ErrorIs(t, err, context.Canceled)
	assert.NoError(t, Search{Root: env.Cwd + "/missing"}.Walk(t.Context(), nil), "what cannot be read is empty")
}

func TestFinder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, path string
		isDir, want   bool
	}{
		{"*.go", "a.go", false, true}, {"*.go", "d/e/a.go", false, true}, {"*.go", "a.goo", false, false},
		{"a", "d/a", true, true}, {"a", "a/d", false, false}, {"*", ".hidden", false, true}, {"", "a/b", false, true},
		{"src/*.go", "src/a.go", false, true}, {"src/*.go", "x/src/a.go", false, true}, {"src/*.go", "src/x/a.go", false, false},
		{"src/**/*.go", "src/a.go", false, true}, {"src/**/*.go", "src/x/y/a.go", false, true}, {"**/*.go", "a.go", false, true},
		{"./src/*.go", "src/a.go", false, true}, {"/root/src/*.go", "src/a.go", false, true}, {"/src/*.go", "src/a.go", false, false},
		{"root/a", "a", false, true}, // the path begins with the root's
		{"*.{ts,js}", "d/a.js", false, true}, {"[ab].c", "b.c", false, true}, {"a?", "ab", false, true},
		{"d/", "d", true, true}, {"d/", "d", false, false}, {"**", "a/b", false, true}, {"a/**", "a/b/c", false, true},
		{"readme*", "README.md", false, true}, {"Readme*", "README.md", false, false}, {"[r]*", "README", false, true}, {"[a-Z]*", "b", false, false},
		{"[^B]b", "ab", false, true}, {"[^B]b", "aB", false, false}, {"\u00e4b", "\u00e4B", false, false},
	} {
		g, err := ParseFinder(c.pattern, "/root")
		if c.pattern == "[a-Z]*" {
			assert.ErrorContains(t, err, "invalid range")
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, c.want, g.Match(c.path, c.isDir), "%s on %s", c.pattern, c.path)
	}
	for bad, want := range map[string]string{
		"a[": "unclosed character class", "{a": "unclosed alternate group", "a}": "unopened alternate group", "/": "it is empty", `a\`: "dangling",
	} {
		_, err := ParseFinder(bad, "/root")
		assert.ErrorContains(t, err, "invalid glob pattern", bad)
		assert.ErrorContains(t, err, want, bad)
	}
}

func TestFilter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, path string
		isDir         bool
		want          verdict
	}{
		{"*.go", "d/a.go", false, included}, {"*.go", "d/a.c", false, excluded}, {"*.go", "d", true, undecided},
		{"!*.go", "d/a.go", false, excluded}, {"!*.go", "d/a.c", false, undecided},
		{"/*.c", "a.c", false, included}, {"/*.c", "d/a.c", false, excluded}, {"/d/*.c", "d/a.c", false, included},
		{"/root/src/*.c", "src/a.c", false, included}, {"./src/*.c", "src/a.c", false, included}, {"!./src/*.c", "src/a.c", false, excluded},
		{"src/", "src/x/a.c", false, included}, {"src/", "lib/src/a.c", false, included}, {"!src/", "src", true, excluded}, {"!src/", "src", false, undecided},
		{"src", "src", true, included}, {"src", "src/a.c", false, excluded}, {"src/**", "src/x/a.c", false, included},
		{"{src,lib}/*.c", "src/a.c", false, included}, {"*.{c,h}", "x/a.h", false, included}, {"a{,b}", "a", false, excluded},
		{"?", "\u00e4", false, excluded}, {"??", "\u00e4", false, included}, {"SRC/*", "src/a", false, excluded},
		{"", "a", false, undecided}, {"#a", "b", false, undecided}, {`\#a`, "#a", false, included}, {`\!a`, "!a", false, included}, {"a ", "a", false, included},
		{"src[^a]a.c", "src/a.c", false, included}, {"a**b", "axb", false, included}, {"**", "a/b", false, included}, {"/", "a", false, excluded},
	} {
		g, err := ParseFilter(c.pattern, "/root")
		require.NoError(t, err)
		assert.Equal(t, c.want, g.judge(c.path, c.isDir), "%s on %s", c.pattern, c.path)
	}
	_, err := ParseFilter("[z-a]", "/root")
	assert.ErrorContains(t, err, `invalid glob pattern: "[z-a]": invalid range`)
}
