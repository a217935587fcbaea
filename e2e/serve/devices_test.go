package serve

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/e2e/harness"
)

// TestDevicesAreShown checks that the list of devices has one line for each, whatever the file of devices says, and
// nothing that a terminal obeys.
func TestDevicesAreShown(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	dir := filepath.Join(p.AgentDir(), "troupe")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	const hostile = `\u001b[2J\r\nd-1\tfull\u009b31m\u202e\u2028x`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "devices.json"), []byte(`[{"id":"`+hostile+`","scope":"`+hostile+`","name":"`+hostile+`"}]`), 0o600))
	cmd := exec.Command(harness.Binary, "serve", "devices")
	cmd.Env = p.Environ()
	out, err := cmd.Output()
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	require.Len(t, lines, 2)
	assert.Equal(t, 3, strings.Count(lines[1], "‹U+001B›[2J‹U+000D›‹U+000A›d-1‹U+0009›full‹U+009B›31m‹U+202E›‹U+2028›x"), "%q", lines[1])
}
