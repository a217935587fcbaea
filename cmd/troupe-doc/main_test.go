package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"troupe/protocol"
)

// TestGenerated: the files on disk are what the tables say.
func TestGenerated(t *testing.T) {
	for name, want := range files() {
		got, err := os.ReadFile(filepath.Join(dir(), name))
		require.NoError(t, err)
		require.True(t, string(got) == string(want), "protocol/%s is stale: run make generate", name)
	}
}

// TestReference: everything the tables have is in the reference, and every
// reference in the schema leads somewhere.
func TestReference(t *testing.T) {
	text := string(protocol.Reference())
	for _, s := range protocol.Commands {
		require.Contains(t, text, "\n### "+s.Name+"\n")
	}
	for _, e := range protocol.Events {
		require.Contains(t, text, "\n### "+e.Name+"\n")
	}
	var schema struct {
		Defs map[string]json.RawMessage `json:"$defs"`
	}
	raw := protocol.Schema()
	require.NoError(t, json.Unmarshal(raw, &schema))
	for _, part := range strings.Split(string(raw), `"#/$defs/`)[1:] {
		name, _, _ := strings.Cut(part, `"`)
		require.Contains(t, schema.Defs, name)
	}
}
