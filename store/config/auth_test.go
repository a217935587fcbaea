package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWatchOwn: the daemon's settings of logins are those of the user's file, as it is now;
// a project and a session cannot have others.
func TestWatchOwn(t *testing.T) {
	dir := t.TempDir()
	get := WatchOwn(dir)
	assert.Equal(t, Own{}, get())
	for text, want := range map[string]Auth{
		`{"auth": {"reuse": false}}`: {NoReuse: true}, `{"auth": {"reuse": ["xai"], "broker": "/opt/pi"}, "httpProxy": "http://p:1"}`: {Reuse: []string{"xai"}, Broker: "/opt/pi", Proxy: "http://p:1"},
		`{"auth.reuse": []}`: {Reuse: []string{}}, `{"auth": {"reuse": 5}}`: {}, `{}`: {},
	} {
		path := filepath.Join(dir, "settings.json")
		require.NoError(t, os.WriteFile(path+".new", []byte(text), 0o600))
		require.NoError(t, os.Rename(path+".new", path))
		assert.Equal(t, Own{Auth: want}, get(), text)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "settings.json"), []byte(`{"discover": {"local": true}}`), 0o600))
	assert.Equal(t, Own{DiscoverLocal: true}, get())
	for _, location := range []Location{Project, Path} {
		s := Defaults()
		assert.Len(t, s.applyText(`{"auth": {"broker": "/tmp/evil"}}`, location), 1)
		assert.Len(t, s.applyText(`{"discover.local": true}`, location), 1)
		assert.Equal(t, Defaults(), s)
	}
}
