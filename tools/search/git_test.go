package search

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

	"troupe/protocol/gitignore"
)

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

// walked lists the files that a walk of root visits, as fd would.
func walked(t testing.TB, root string) []string {
	return visited(t, Search{Root: root, Cwd: root, Program: Fd})
}

func visited(t testing.TB, s Search) (files []string) {
	t.Helper()
	require.NoError(t, s.Walk(t.Context(), func(path string, entry fs.DirEntry) error {
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
	got := append([]string{""}, walked(t, root)...)
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
				require.Equal(t, below, walked(t, filepath.Join(root, sub)), name)
			}
		}
	}
	// And without a repository, except for what only that has.
	require.NoError(t, os.WriteFile(filepath.Join(root, ".git", "info", "exclude"), nil, 0o666))
	want = walked(t, root)
	require.NoError(t, os.RemoveAll(filepath.Join(root, ".git")))
	require.Equal(t, want, walked(t, root), name)
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
		var none *gitignore.Rules
		ignored := none.With([]byte(rules), "", 0).Ignored(path, isDir)
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
		want := append([]string{""}, walked(t, root)...)
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
