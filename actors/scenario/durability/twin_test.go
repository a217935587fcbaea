package durability

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"troupe/actors/scenario/harness"
)

// TestTwinOfSamples checks that the store and its model read the same state from session files that
// pi and other programs have written.
func TestTwinOfSamples(t *testing.T) {
	samples, err := filepath.Glob("../../../store/testdata/*.jsonl")
	require.NoError(t, err)
	require.NotEmpty(t, samples)
	for _, path := range samples {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".jsonl"), func(t *testing.T) {
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			harness.RequireTwin(t, "/s/"+filepath.Base(path), content)
		})
	}
}
