package core

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
)

func TestTaskInfo(t *testing.T) {
	parameters := func(o TaskOffer) []string {
		var schema struct{ Properties map[string]any }
		require.NoError(t, json.Unmarshal(TaskInfo(o).Parameters, &schema))
		return slices.Sorted(maps.Keys(schema.Properties))
	}
	assert.Equal(t, []string{"agent", "context", "schema", "tasks"}, parameters(TaskOffer{}))
	assert.Equal(t, []string{"agent", "context", "schema", "tasks"}, parameters(TaskOffer{Verify: true}), "only what is isolated can be verified")
	assert.Equal(t, []string{"agent", "context", "isolated", "schema", "tasks"}, parameters(TaskOffer{Isolation: true}))
	assert.Equal(t, []string{"agent", "context", "isolated", "schema", "tasks", "verify"}, parameters(TaskOffer{Isolation: true, Verify: true}))
	info := TaskInfo(TaskOffer{Agents: protocol.Agents{{Name: "explore", Description: "Looks."}}})
	assert.Contains(t, info.Description, "\n- explore: Looks.")
	_, err := protocol.OutputSchema(info.Parameters)
	require.NoError(t, err, "it is in the subset that arguments are checked by")
}
