package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// world is a home with a project in it; files are named by paths below home.
type world struct {
	t    *testing.T
	home string
	dirs Dirs
}

func newWorld(t *testing.T, files map[string]string) world {
	t.Helper()
	home, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	w := world{t, home, Dirs{Agent: filepath.Join(home, "agent"), Cwd: filepath.Join(home, "work/proj"), Home: home, Access: Everything}}
	for name, content := range files {
		w.write(name, content)
	}
	require.NoError(t, os.MkdirAll(w.dirs.Cwd, 0o700))
	return w
}

// settings loads the settings of a world whose project is trusted.
func (w world) settings() (*Settings, []Problem) {
	w.t.Helper()
	s, dirs, problems, err := LoadSettings(w.dirs, Policy{Consent: Approved}, nil)
	require.NoError(w.t, err)
	require.Equal(w.t, Everything, dirs.Access)
	return s, problems
}

func (w world) path(name string) string { return filepath.Join(w.home, name) }

func (w world) write(name, content string) {
	w.t.Helper()
	require.NoError(w.t, os.MkdirAll(filepath.Dir(w.path(name)), 0o700))
	require.NoError(w.t, os.WriteFile(w.path(name), []byte(content), 0o600))
}

// told renders problems without the world's own path.
func (w world) told(problems []Problem) []string {
	var list []string
	for _, p := range problems {
		list = append(list, strings.ReplaceAll(p.Error(), w.home, "~"))
	}
	return list
}

// short is a path without the world's own.
func (w world) short(path string) string { return strings.Replace(path, w.home, "~", 1) }
