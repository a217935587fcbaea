package session

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors/link"
	"troupe/protocol"
)

// TestSettingsOfTheStart: the default session takes the settings that the start has just read,
// once. One that begins later finds what was changed meanwhile.
func TestSettingsOfTheStart(t *testing.T) {
	agent, cwd := t.TempDir(), t.TempDir()
	write := func(dir string) {
		require.NoError(t, os.WriteFile(filepath.Join(agent, "settings.json"), []byte(`{"sessionDir":"`+dir+`"}`), 0o600))
	}
	synctest.Test(t, func(t *testing.T) {
		h := NewShared(Config{AgentDir: agent, Env: func(string) string { return "" }, Default: link.OpenSpec{Cwd: cwd}}, zerolog.Nop())
		read := func() string {
			files, _, _, err := h.loadSettings(link.OpenSpec{Cwd: cwd}, protocol.Rules{})
			require.NoError(t, err)
			return files.SessionDir
		}
		write("/a")
		require.NoError(t, CheckLimits(h, protocol.Rules{}, false))
		write("/b")
		assert.Equal(t, "/a", read())
		assert.Equal(t, "/b", read(), "once")

		require.NoError(t, CheckLimits(h, protocol.Rules{}, false))
		write("/c")
		time.Sleep(justRead)
		assert.Equal(t, "/c", read(), "a moment later")

		require.NoError(t, CheckLimits(h, protocol.Rules{}, true))
		write("/d")
		assert.Equal(t, "/d", read(), "without a default session")

		require.NoError(t, CheckLimits(h, protocol.Rules{}, false))
		write("/e")
		files, _, _, err := h.loadSettings(link.OpenSpec{Cwd: t.TempDir()}, protocol.Rules{})
		require.NoError(t, err)
		assert.Equal(t, "/e", files.SessionDir, "of another directory")
	})
}
