package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWatchAuth: the daemon's settings of logins are those of the user's file, as it is now;
// a project and a session cannot have others.
func TestWatchAuth(t *testing.T) {
	dir := t.TempDir()
	get := WatchAuth(dir)
	assert.Equal(t, Auth{}, get())
	for text, want := range map[string]Auth{
		`{"auth": {"reuse": false}}`: {NoReuse: true}, `{"auth": {"reuse": ["xai"], "broker": "/opt/pi"}, "httpProxy": "http://p:1"}`: {Reuse: []string{"xai"}, Broker: "/opt/pi", Proxy: "http://p:1"},
		`{"auth.reuse": []}`: {Reuse: []string{}}, `{"auth": {"reuse": 5}}`: {}, `{}`: {},
	} {
		path := filepath.Join(dir, "settings.json")
		require.NoError(t, os.WriteFile(path+".new", []byte(text), 0o600))
		require.NoError(t, os.Rename(path+".new", path))
		assert.Equal(t, want, get(), text)
	}
	for _, location := range []Location{Project, Path} {
		s := Defaults()
		assert.Len(t, s.applyText(`{"auth": {"broker": "/tmp/evil"}}`, location), 1)
		assert.Equal(t, Defaults(), s)
	}
}
