package session

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors/link"
	"troupe/protocol"
)

// TestSettingsOfTheStart: a session takes the settings that are in the file when it opens, not
// those that the start of the process has read.
func TestSettingsOfTheStart(t *testing.T) {
	agent, cwd := t.TempDir(), t.TempDir()
	write := func(dir string) {
		require.NoError(t, os.WriteFile(filepath.Join(agent, "settings.json"), []byte(`{"sessionDir":"`+dir+`"}`), 0o600))
	}
	h := NewShared(Config{AgentDir: agent, Env: func(string) string { return "" }, Default: link.OpenSpec{Cwd: cwd}}, zerolog.Nop())
	write("/a")
	require.NoError(t, CheckLimits(h, protocol.Rules{}, false))
	write("/b")
	files, _, _, err := h.loadSettings(link.OpenSpec{Cwd: cwd}, protocol.Rules{})
	require.NoError(t, err)
	assert.Equal(t, "/b", files.SessionDir)
}
