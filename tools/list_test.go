package tools

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFind(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	for _, name := range []string{"a.go", "b/c.go", "b/c.txt", "b/d/.e.go", ".git/x.go", "out/f.go"} {
		put(t, env, name, "")
	}
	put(t, env, ".gitignore", "out/\n")
	require.NoError(t, os.Symlink("b", filepath.Join(env.Cwd, "link.go")))
	for name, c := range map[string]struct {
		args object
		want string
	}{
		"names":       {object{"pattern": "*.go"}, "a.go\nb/c.go\nb/d/.e.go\nlink.go"},
		"directories": {object{"pattern": "[bd]"}, "b/\nb/d/"},
		"paths":       {object{"pattern": "b/**/*.go"}, "b/c.go\nb/d/.e.go"},
		"everything":  {object{"pattern": "**"}, ".gitignore\na.go\nb/\nb/c.go\nb/c.txt\nb/d/\nb/d/.e.go\nlink.go"},
		"below":       {object{"pattern": "*.go", "path": "b"}, "c.go\nd/.e.go"},
		"ignored dir": {object{"pattern": "*.go", "path": "out"}, "f.go"},
		"nothing":     {object{"pattern": "*.rs"}, "No files found matching the pattern"},
		"limit":       {object{"pattern": "*.go", "limit": 2}, "a.go\nb/c.go\n\n[2 results limit reached. Use limit=4 for more, or a narrower pattern]"},
		"just enough": {object{"pattern": "*.go", "limit": 4}, "a.go\nb/c.go\nb/d/.e.go\nlink.go"},
	} {
		text, result, err := run(t, env, "find", c.args)
		require.NoError(t, err, name)
		assert.Equal(t, c.want, text, name)
		if name == "limit" {
			assert.JSONEq(t, `{"resultLimitReached":2}`, string(result.Details))
		} else {
			assert.Nil(t, result.Details, name)
		}
	}
	for path, want := range map[string]string{"missing": "ENOENT: no such file or directory, stat '", "a.go": "ENOTDIR: not a directory, scandir '"} {
		_, _, err := run(t, env, "find", object{"pattern": "*", "path": path})
		assert.ErrorContains(t, err, want)
		_, _, err = run(t, env, "ls", object{"path": path})
		assert.ErrorContains(t, err, want)
	}
	_, _, err := run(t, env, "find", object{"pattern": "a["})
	assert.ErrorContains(t, err, "invalid glob pattern")
}

func TestFindTruncates(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	for i := range 300 {
		put(t, env, fmt.Sprintf("%s/%03d", strings.Repeat("d", 200), i), "")
	}
	text, result, err := run(t, env, "find", object{"pattern": "0*"})
	require.NoError(t, err)
	assert.Equal(t, 100, strings.Count(text, "\n")+1)
	assert.Nil(t, result.Details)
	text, result, err = run(t, env, "find", object{"pattern": "*"})
	require.NoError(t, err)
	d := unmarshal[struct{ Truncation Truncation }](t, result.Details)
	assert.Equal(t, byBytes, d.Truncation.TruncatedBy)
	assert.True(t, strings.HasSuffix(text, "\n\n[Cut at 2000 lines or 50.0KB: ask for less]"))
	assert.Equal(t, d.Truncation.Content, strings.TrimSuffix(text, "\n\n[Cut at 2000 lines or 50.0KB: ask for less]"))
}

func TestLs(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	text, _, err := run(t, env, "ls", object{})
	require.NoError(t, err)
	assert.Equal(t, "(empty directory)", text)
	for _, name := range []string{"b", "A", "a2", ".dot", "C/x", "Z"} {
		put(t, env, name, "")
	}
	require.NoError(t, os.Symlink("C", filepath.Join(env.Cwd, "linked")))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(env.Cwd, "dangling")))
	text, result, err := run(t, env, "ls", object{})
	require.NoError(t, err)
	assert.Equal(t, ".dot\nA\na2\nb\nC/\nlinked/\nZ", text)
	assert.Nil(t, result.Details)
	text, result, err = run(t, env, "ls", object{"path": ".", "limit": 3})
	require.NoError(t, err)
	assert.Equal(t, ".dot\nA\na2\n\n[3 entries limit reached. Use limit=6 for more]", text)
	assert.JSONEq(t, `{"entryLimitReached":3}`, string(result.Details))
	text, _, err = run(t, env, "ls", object{"path": "C"})
	require.NoError(t, err)
	assert.Equal(t, "x", text)
}

func TestLsOfManyFiles(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	for i := range 2500 {
		put(t, env, fmt.Sprintf("f%04d", i), "")
	}
	text, _, err := run(t, env, "ls", object{})
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(text, "f0000\n"))
	assert.Contains(t, text, "\nf0499\n\n[500 entries limit reached. Use limit=1000 for more]")
	text, result, err := run(t, env, "ls", object{"limit": 2400})
	require.NoError(t, err)
	assert.Contains(t, text, "\nf1999\n\n[Cut at 2000 lines or 50.0KB: ask for less]")
	d := unmarshal[struct{ Truncation Truncation }](t, result.Details)
	assert.Equal(t, byLines, d.Truncation.TruncatedBy)
}
