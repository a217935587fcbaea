package realpath

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/tools/testenv"
)

var trees = flag.Int("realpath.trees", 60, "random trees of links that TestResolveAgreesWithTheKernel makes")

func TestMain(m *testing.M) {
	testenv.Isolate()
	os.Exit(m.Run())
}

func TestResolve(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for _, dir := range []string{"w/.git/hooks", "w/src", "out/deep"} {
		require.NoError(t, os.MkdirAll(filepath.Join(top, dir), 0o700))
	}
	for name, target := range map[string]string{
		"w/hooks": ".git/hooks", "w/link": "../out/deep", "w/abs": top + "/out", "w/chain": "link/..", "w/dangling": "link/../new", "w/loop": "loop", "w/self": "/proc/self/cwd",
	} {
		require.NoError(t, os.Symlink(target, filepath.Join(top, name)))
	}
	for _, c := range []struct {
		path, want string
		known      bool
	}{
		{"w/a", "w/a", true},
		{"w/./src//x", "w/src/x", true},
		{"w/hooks/../config", "w/.git/config", true},
		{"w/link/../rc", "out/rc", true},
		{"w/link/../../w/src/x", "w/src/x", true},
		{"w/abs/../x", "x", true},
		{"w/chain/x", "out/x", true},
		{"w/dangling", "out/new", true},
		{"w/dangling/../x", "out/x", true},
		{"w/none/../x", "w/x", true},
		{"w/none/a/b", "w/none/a/b", true},
		{"w/loop/x", "w/loop/x", false},
		{"w/self/x", "", false},
	} {
		got, known := Resolve(top + "/" + c.path)
		assert.Equal(t, c.known, known, c.path)
		if c.want != "" {
			assert.Equal(t, filepath.Join(top, c.want), got, c.path)
		}
	}
	got, known := Resolve("/../../etc")
	assert.Equal(t, "/etc", got)
	assert.True(t, known)
}

// TestResolveAgreesWithTheKernel writes through random words in random trees of links: the
// file appears where Resolve has said before.
func TestResolveAgreesWithTheKernel(t *testing.T) {
	written := 0
	for seed := range *trees {
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		top, err := filepath.EvalSymlinks(t.TempDir())
		require.NoError(t, err)
		top += strings.Repeat("/deep", 16) // no word leads above the temporary directory
		require.NoError(t, os.MkdirAll(top, 0o700))
		names := []string{"a", "b", "c", "d", "..", ".", "", "..", "e"}
		word := func(most int) string {
			parts := make([]string, 1+r.IntN(most))
			for i := range parts {
				parts[i] = names[r.IntN(len(names))]
			}
			return strings.Join(parts, "/")
		}
		for range 25 {
			at := filepath.Join(top, filepath.Clean("/"+word(3)))
			switch r.IntN(3) {
			case 0:
				_ = os.MkdirAll(at, 0o700)
			case 1:
				_ = os.Symlink(filepath.Join(top, filepath.Clean("/"+word(3)))+"/"+strings.ReplaceAll(word(2), "..", "."), at)
			default:
				_ = os.Symlink(word(4), at)
			}
		}
		for i := range 40 {
			path := fmt.Sprintf("%s/%s/%s", top, word(6), []string{"a", "b", "new"}[r.IntN(3)])
			want, known := Resolve(path)
			if !strings.HasPrefix(want, top+"/") {
				continue
			}
			before, err := os.Stat(want)
			if err == nil && before.IsDir() {
				continue
			}
			mark := fmt.Sprintf("%d/%d", seed, i)
			if os.WriteFile(path, []byte(mark), 0o600) != nil {
				continue
			}
			written++
			require.True(t, known, path)
			info, err := os.Lstat(want)
			require.NoError(t, err, "%s is not at %s (seed %d)", path, want, seed)
			require.True(t, info.Mode().IsRegular(), "%s: %s is a link (seed %d)", path, want, seed)
			content, err := os.ReadFile(want)
			require.NoError(t, err)
			require.Equal(t, mark, string(content), "%s is not at %s (seed %d)", path, want, seed)
		}
	}
	require.Greater(t, written, *trees, "few of the words lead anywhere")
}

// TestResolveRelative checks that a relative path starts at the working directory.
func TestResolveRelative(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	t.Chdir(dir)
	require.NoError(t, os.Symlink("target", "link"))
	for path, want := range map[string]string{"a": "a", "./a/../b": "b", "link/x": "target/x", "": "", ".": ""} {
		real, known := Resolve(path)
		assert.True(t, known)
		assert.Equal(t, filepath.Join(dir, want), real, path)
	}
}
