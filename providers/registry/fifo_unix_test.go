//go:build unix

package registry_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/providers/registry"
)

// A pipe that lies where the configuration should be must not make anybody wait
// for its writer.
func TestRegistry_modelsFileIsAPipe(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "models.json"), 0o600))
	r := registry.New(registry.Config{AgentDir: dir, Env: func(string) string { return "" }})
	_, err := r.Catalog()
	assert.ErrorContains(t, err, "models.json: not a regular file")
}
