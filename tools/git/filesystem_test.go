package git

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// foreignRepository returns a repository whose configuration describes another file system: that of a
// clone that was made on macOS or Windows.
func foreignRepository(t testing.TB) *world {
	w := newRepository(t)
	if _, ignores := ignoresCase(w.env.Cwd); ignores || !isPOSIX(w.env.Cwd) {
		t.Skip("the file system of the test is one that ignores case, or lacks links or modes")
	}
	w.put("Notes.txt", "notes\n")
	w.put("Dir/one.txt", "one\n")
	w.put("run.sh", "run\n")
	w.git("add", "-A")
	w.git("commit", "-q", "-m", "second")
	for _, setting := range []string{"core.ignoreCase true", "core.precomposeUnicode true", "core.symlinks false", "core.fileMode false"} {
		key, value, _ := strings.Cut(setting, " ")
		w.git("config", key, value)
	}
	return w
}

// TestForeignFileSystem checks tasks in repositories whose configuration says that names in another
// case are the same file, and that there are no links and no modes. Every file is merged as itself, and
// no file of the user is lost.
func TestForeignFileSystem(t *testing.T) {
	t.Parallel()
	const e, composed = "e\u0301.txt", "\u00e9.txt"
	for name, c := range map[string]struct {
		user, task func(t *testing.T, dir string)
		want       map[string]string // changed files; "" is a file that is gone
		follows    bool              // the text of the user follows a rename, or it is a conflict
	}{
		"rename": {
			task: func(t *testing.T, dir string) { rename(t, dir, "Notes.txt", "notes.txt") },
			want: map[string]string{"Notes.txt": "", "notes.txt": "644 notes\n"},
		},
		"rename of a file that the user has changed": {
			user:    func(t *testing.T, dir string) { put(t, filepath.Join(dir, "Notes.txt"), "mine\n") },
			task:    func(t *testing.T, dir string) { rename(t, dir, "Notes.txt", "notes.txt") },
			follows: true,
		},
		"rename to a file of the user": {
			user:    func(t *testing.T, dir string) { put(t, filepath.Join(dir, "notes.txt"), "mine\n") },
			task:    func(t *testing.T, dir string) { rename(t, dir, "Notes.txt", "notes.txt") },
			follows: true,
		},
		"new in another case": {
			user: func(t *testing.T, dir string) { put(t, filepath.Join(dir, "README"), "mine\n") },
			task: func(t *testing.T, dir string) {
				put(t, filepath.Join(dir, "readme"), "by the task\n")
				put(t, filepath.Join(dir, "NOTES.txt"), "by the task\n")
			},
			want: map[string]string{"README": "644 mine\n", "readme": "644 by the task\n", "NOTES.txt": "644 by the task\n"},
		},
		"directory in another case": {
			task: func(t *testing.T, dir string) { rename(t, dir, "Dir", "dIR") },
			want: map[string]string{"Dir/one.txt": "", "dIR/one.txt": "644 one\n"},
		},
		"directory of the user in another case": {
			user:    func(t *testing.T, dir string) { put(t, filepath.Join(dir, "Dir/mine.txt"), "mine\n") },
			task:    func(t *testing.T, dir string) { rename(t, dir, "Dir", "dIR") },
			follows: true,
		},
		"composed": {
			user: func(t *testing.T, dir string) { put(t, filepath.Join(dir, composed), "mine\n") },
			task: func(t *testing.T, dir string) { put(t, filepath.Join(dir, e), "by the task\n") },
			want: map[string]string{composed: "644 mine\n", e: "644 by the task\n"},
		},
		"links": {
			user: func(t *testing.T, dir string) { require.NoError(t, os.Symlink("a.txt", filepath.Join(dir, "mine"))) },
			task: func(t *testing.T, dir string) {
				require.NoError(t, os.Symlink("run.sh", filepath.Join(dir, "link")))
				require.NoError(t, os.Remove(filepath.Join(dir, "Notes.txt")))
				require.NoError(t, os.Symlink("a.txt", filepath.Join(dir, "Notes.txt")))
			},
			want: map[string]string{"mine": "-> a.txt", "link": "-> run.sh", "Notes.txt": "-> a.txt"},
		},
		"modes": {
			user: func(t *testing.T, dir string) { require.NoError(t, os.Chmod(filepath.Join(dir, "dir/b.txt"), 0o755)) },
			task: func(t *testing.T, dir string) {
				require.NoError(t, os.Chmod(filepath.Join(dir, "run.sh"), 0o755))
				put(t, filepath.Join(dir, "new.sh"), "new\n")
				require.NoError(t, os.Chmod(filepath.Join(dir, "new.sh"), 0o755))
			},
			want: map[string]string{"dir/b.txt": "755 b\n", "run.sh": "755 run\n", "new.sh": "755 new\n"},
		},
	} {
		if c.user == nil {
			c.user = func(*testing.T, string) {}
		}
		for when, late := range map[string]bool{" before": false, " meanwhile": true} {
			for _, old := range []bool{false, true} {
				if old && !late {
					continue
				}
				t.Run(name+when, func(t *testing.T) {
					t.Parallel()
					w := foreignRepository(t)
					if old {
						w.ws.version = version{2, 35}
					}
					if !late {
						c.user(t, w.env.Cwd)
					}
					ws := w.prepare(Spec{})
					c.task(t, ws.Path)
					if late {
						c.user(t, w.env.Cwd)
					}
					want := w.tree()
					p := w.plan(ws)
					if c.follows {
						if len(p.Conflicts) == 0 {
							require.NoError(t, w.ws.Apply(t.Context(), w.env, ws, p))
						}
						if late || len(p.Conflicts) > 0 {
							require.Contains(t, slices.Collect(maps.Values(w.tree())), "644 mine\n")
						}
						return
					}
					require.Empty(t, p.Conflicts)
					require.NoError(t, w.ws.Apply(t.Context(), w.env, ws, p))
					for path, text := range c.want {
						if want[path] = text; text == "" {
							delete(want, path)
						}
					}
					require.Equal(t, want, w.tree())
				})
			}
		}
	}
}

func rename(t *testing.T, dir, from, to string) {
	t.Helper()
	require.NoError(t, os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)))
}

// TestIgnoresCase checks directories of which nothing is known by their names.
func TestIgnoresCase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	empty := filepath.Join(dir, "123")
	require.NoError(t, os.Mkdir(empty, 0o755))
	known, ignores := ignoresCase(empty)
	require.False(t, known || ignores, "neither it nor an entry has a letter")
	put(t, filepath.Join(empty, "a"), "")
	known, ignores = ignoresCase(empty)
	require.True(t, known)
	put(t, filepath.Join(empty, "A"), "")
	again, same := ignoresCase(empty)
	require.True(t, again)
	require.Equal(t, ignores, same)
}
