package main

import (
	goflag "flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"troupe/protocol/schema"
)

var update = goflag.Bool("update", false, "write the generated files")

// TestGenerated: the files on disk are what the tables say.
func TestGenerated(t *testing.T) {
	for name, want := range map[string][]byte{"REFERENCE.md": reference(), "schema.json": schema.JSON()} {
		path := "../../protocol/" + name
		if *update {
			require.NoError(t, os.WriteFile(path, want, 0o644))
		}
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, string(got) == string(want), "protocol/%s is stale: run make generate", name)
	}
}
