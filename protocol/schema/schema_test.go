package schema

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"troupe/protocol"
)

// TestReference: everything the tables have is in the reference, and every
// reference in the schema leads somewhere.
func TestReference(t *testing.T) {
	text := string(Reference())
	for _, s := range protocol.Commands {
		require.Contains(t, text, "\n### "+s.Name+"\n")
	}
	for _, e := range protocol.Events {
		require.Contains(t, text, "\n### "+e.Name+"\n")
	}
	var schema struct {
		Defs map[string]json.RawMessage `json:"$defs"`
	}
	raw := JSON()
	require.NoError(t, json.Unmarshal(raw, &schema))
	for _, part := range strings.Split(string(raw), `"#/$defs/`)[1:] {
		name, _, _ := strings.Cut(part, `"`)
		require.Contains(t, schema.Defs, name)
	}
}
