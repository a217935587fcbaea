package tools

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestGitignore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rules   string
		ignored string // paths, those with a slash at the end are directories
		kept    string
	}{
		{"*.log", "a.log d/e/b.log .log", "a.log.txt alog log"},
		{"/*.log", "a.log", "d/a.log"},
		{"build", "build build/ d/build", "rebuild build.txt"},
		{"build/", "build/ d/build/", "build d/build"},
		{"/build", "build", "d/build"},
		{"d/build", "d/build", "build x/d/build"},
		{"d/", "d/ x/d/", "d"},
		{"**/foo", "foo d/foo d/e/foo", "foo2"},
		{"**/foo/bar", "foo/bar d/foo/bar", "bar foo/x/bar"},
		{"a/**", "a/b a/b/c", "a a/ xa/b"},
		{"a/**/b", "a/b a/x/b a/x/y/b", "ab a/xb x/a/b"},
		{"a/*/b", "a/x/b", "a/b a/x/y/b"},
		{"a**/b", "a/b a/x/b axe/b", "a"},
		{"?at", "cat bat d/rat", "at chat"},
		{"[a-c]x", "ax bx cx", "dx x"},
		{"[!a-c]x", "dx 1x", "ax x"},
		{"[^a]x", "bx", "ax"},
		{"[]x]y", "]y xy", "ay"},
		{"[a-]y", "ay -y", "by"},
		{"[[:digit:][:upper:]]y", "1y Ay", "ay"},
		{"[[:nope:]]y", "", "ny :y"},
		{"[[:alpha:]]-[[:alnum:]]-[[:lower:]]-[[:xdigit:]]", "a-1-b-F A-z-c-9", "1-1-b-F a-_-b-F a-1-B-F a-1-b-g"},
		{"[[:punct:]][[:graph:]][[:print:]]", "-x! _-a", "axx -xä"},
		{"x[[:space:]]y", "", "x-y"},
		{"x[![:space:][:cntrl:][:blank:]]y", "x-y", "xxyy"},
		{"[[:x]", "[ : x", "a"},
		{"[z-a]", "z", "a b"},
		{"[a-\\c]", "a b c", "d \\"},
		{"[a-", "", "a -"},
		{"[a\\", "", "a"},
		{"a[", "", "a[ a"},
		{"a\\", "", "a a\\"},
		{"\\#x", "#x", "x"},
		{"\\!x", "!x", "x"},
		{"# comment\n\nx", "x", "#"},
		{"\\*", "*", "a"},
		{"*.txt\n!keep.txt", "a.txt", "keep.txt d/keep.txt"},
		{"!keep.txt\n*.txt", "keep.txt", ""},
		{"x\r\ny\r\n", "x y", "z"},
		{"\uFEFFx", "x", ""},
		{"x ", "x", ""},
		{"*", "a a/ d/b", ""},
		{"**", "a a/ d/b", ""},
		{"/", "", "a a/"},
		{"//", "", "a a/"},
		{"\u00e4?", "\u00e4x", "\u00e4"},
	} {
		stack := ignoreStack{parseIgnore(c.rules, "")}
		if stack[0] == nil {
			stack = nil
		}
		for path := range strings.FieldsSeq(c.ignored) {
			name, isDir := strings.CutSuffix(path, "/")
			assert.True(t, stack.ignored(name, isDir), "%q ignores %q", c.rules, path)
		}
		for path := range strings.FieldsSeq(c.kept) {
			name, isDir := strings.CutSuffix(path, "/")
			assert.False(t, stack.ignored(name, isDir), "%q keeps %q", c.rules, path)
		}
	}
	assert.True(t, ignoreStack{parseIgnore("a\\ ", "")}.ignored("a ", false), "a quoted space at the end")
	assert.True(t, ignoreStack{parseIgnore("/x", "d")}.ignored("d/x", false), "rules of a directory below")
	assert.False(t, ignoreStack{parseIgnore("x", "d")}.ignored("x", false))
	assert.False(t, ignoreStack{parseIgnore("x", ""), parseIgnore("!x", "d")}.ignored("d/x", false), "the nearest decides")
	assert.Nil(t, loadIgnore("/does/not/exist", ""))
}

// Many stars must not take forever.
func TestWildmatchIsNotExponential(t *testing.T) {
	t.Parallel()
	assert.False(t, matchWild(strings.Repeat("*a", 30)+"b", strings.Repeat("a", 100)))
	assert.False(t, matchWild(strings.Repeat("**/a/", 20)+"b", strings.Repeat("a/", 100)))
}

// gitIn runs git without what the machine's users have configured.
func gitIn(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "XDG_CONFIG_HOME=" + dir}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "git %v: %s", args, stderr.String())
	return string(out)
}

func needGit(t testing.TB) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
}

// walked lists the files that a walk of root visits.
func walked(t testing.TB, root, cwd string) (files []string) {
	require.NoError(t, walk(t.Context(), root, cwd, func(path string, entry fs.DirEntry) error {
		if !entry.IsDir() {
			files = append(files, path)
		}
		return nil
	}))
	slices.Sort(files)
	return files
}

var (
	treeNames = []string{"a", "b", "ab", "a.c", "b.c", "foo", "bar", "baz", "x.log", "y.log", "build", "A", "#h", "!b", "a b", "-x", "a-b", "]", "ä", "a*", "a?b", "a\\", "x ", "sub", ".hid", "[a]"}
	ruleParts = []string{"a", "b", "ab", "*", "**", "?", "a*", "*.c", "*.log", "foo", "bar", "b*z", "[ab]", "[!a]", "[^b]*", "[a-b]", "[]]", "[[:alpha:]]*", "build", "sub", "\\a", "\\*", "a\\?b", "a\\\\", "ä", "?a", "**a", "a**", "a**b", "[", "[a", "\\", "[a-", ".hid", ".*", "*b*", "***", "[[:space:]b]", "[b\\]]", "x\\ ", "A", "[A-Z]", "[!a-z]", "[a-ce-]b", "#h", "\\#h", "!b", "\\!b"}
)

func pick(r *rand.Rand, list []string) string { return list[r.IntN(len(list))] }

func randomRules(r *rand.Rand) string {
	var lines []string
	for range 1 + r.IntN(5) {
		rule := ""
		if r.IntN(4) == 0 {
			rule += "!"
		}
		if r.IntN(4) == 0 {
			rule += "/"
		}
		rule += pick(r, ruleParts)
		for r.IntN(3) == 0 {
			rule += "/" + pick(r, ruleParts)
		}
		if r.IntN(6) == 0 {
			rule += pick(r, ruleParts)
		}
		rule += []string{"", "", "", "/", " ", "\\ ", "/**", "\r", "  ", "//"}[r.IntN(10)]
		lines = append(lines, rule)
	}
	return strings.Join(lines, "\n") + []string{"", "\n"}[r.IntN(2)]
}

// growTree makes files, directories and ignore files below dir.
func growTree(t testing.TB, r *rand.Rand, dir string, depth int) {
	for range 2 + r.IntN(6) {
		path := filepath.Join(dir, pick(r, treeNames))
		if _, err := os.Lstat(path); err == nil {
			continue
		}
		if depth > 0 && r.IntN(5) < 2 {
			require.NoError(t, os.Mkdir(path, 0o777))
			growTree(t, r, path, depth-1)
		} else if r.IntN(12) == 0 {
			require.NoError(t, os.Symlink([]string{".", "a", "nowhere", ".."}[r.IntN(4)], path))
		} else {
			require.NoError(t, os.WriteFile(path, nil, 0o666))
		}
	}
	if r.IntN(3) == 0 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, ".gitignore"), []byte(randomRules(r)), 0o666))
	}
}

// In random trees with random rules, the walk sees what git sees.
func TestWalkAgreesWithGit(t *testing.T) {
	needGit(t)
	t.Parallel()
	trees := 40
	if os.Getenv("TOOLS_TREES") != "" {
		_, err := fmt.Sscan(os.Getenv("TOOLS_TREES"), &trees)
		require.NoError(t, err)
	}
	seed := rand.Uint64()
	for i := range trees {
		compareWithGit(t, rand.New(rand.NewPCG(seed, uint64(i))), fmt.Sprintf("seed %d, tree %d", seed, i))
	}
}

func compareWithGit(t *testing.T, r *rand.Rand, name string) {
	root := t.TempDir()
	gitIn(t, root, "init", "-q")
	growTree(t, r, root, 3)
	rules := randomRules(r)
	require.NoError(t, os.WriteFile(filepath.Join(root, ".gitignore"), []byte(rules), 0o666))
	require.NoError(t, os.WriteFile(filepath.Join(root, ".git", "info", "exclude"), []byte(randomRules(r)), 0o666))
	want := strings.Split(gitIn(t, root, "ls-files", "-z", "--others", "--exclude-standard"), "\x00")
	slices.Sort(want)
	got := append([]string{""}, walked(t, root, root)...)
	if !assert.Equal(t, want, got, name) {
		dumpRules(t, root)
		t.FailNow()
	}
	// From a directory below it is the same, as long as that is not ignored.
	for _, sub := range []string{"sub", "a", "foo"} {
		if info, err := os.Lstat(filepath.Join(root, sub)); err == nil && info.IsDir() {
			var below []string
			for _, path := range want {
				if rest, ok := strings.CutPrefix(path, sub+"/"); ok {
					below = append(below, rest)
				}
			}
			if len(below) > 0 {
				require.Equal(t, below, walked(t, filepath.Join(root, sub), root), name)
			}
		}
	}
	// And without a repository, except for what only that has.
	require.NoError(t, os.WriteFile(filepath.Join(root, ".git", "info", "exclude"), nil, 0o666))
	want = walked(t, root, root)
	require.NoError(t, os.RemoveAll(filepath.Join(root, ".git")))
	require.Equal(t, want, walked(t, root, root), name)
}

func dumpRules(t *testing.T, root string) {
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if d.Name() == ".gitignore" || d.Name() == "exclude" {
			content, _ := os.ReadFile(path)
			t.Logf("%s: %q", path, content)
		}
		return err
	}))
}

// FuzzGitignore compares one rule and one path with git check-ignore, where git
// is installed, and looks for crashes everywhere.
func FuzzGitignore(f *testing.F) {
	for _, rule := range ruleParts {
		f.Add(rule+"\n"+rule+"/**/"+rule, "a/b.c", len(rule)%2 == 0)
	}
	_, err := exec.LookPath("git")
	git := err == nil
	f.Fuzz(func(t *testing.T, rules, path string, isDir bool) {
		stack := ignoreStack{}
		if r := parseIgnore(rules, ""); r != nil {
			stack = append(stack, r)
		}
		ignored := stack.ignored(path, isDir)
		if !git || !plainPath(path) || strings.Contains(rules, "\x00") || len(rules) > 1000 {
			return
		}
		root := t.TempDir()
		gitIn(t, root, "init", "-q")
		full := filepath.Join(root, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o777))
		if isDir {
			require.NoError(t, os.Mkdir(full, 0o777))
			require.NoError(t, os.WriteFile(filepath.Join(full, "zz"), nil, 0o666))
		} else {
			require.NoError(t, os.WriteFile(full, nil, 0o666))
		}
		require.NoError(t, os.WriteFile(filepath.Join(root, ".gitignore"), []byte(rules), 0o666))
		listed := strings.Split(gitIn(t, root, "ls-files", "-z", "--others", "--exclude-standard"), "\x00")
		want := append([]string{""}, walked(t, root, root)...)
		slices.Sort(listed)
		require.Equal(t, listed, want, "rules %q, path %q, alone ignored: %v", rules, path, ignored)
	})
}

// plainPath says that a file can have this path in a test.
func plainPath(path string) bool {
	if len(path) > 100 || strings.ContainsAny(path, "\x00") || !filepath.IsLocal(path) || filepath.Clean(path) != path || path == "." {
		return false
	}
	for name := range strings.SplitSeq(path, "/") {
		if strings.HasPrefix(strings.ToLower(name), ".git") || strings.HasPrefix(strings.ToLower(name), "git~") {
			return false
		}
	}
	return true
}
