package extension

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"troupe/protocol"
)

// TestEvents: what clients are told of, extensions are told by the same names, if
// they listen.
func TestEvents(t *testing.T) {
	all := func(string) bool { return true }
	none := func(string) bool { return false }
	answer := protocol.Seal(&protocol.AssistantMessage{Content: protocol.TextContent("x"), StopReason: protocol.StopStop})
	call := protocol.ToolCall{ID: "c", Name: "read", Arguments: []byte(`{}`)}
	var e Events
	for _, c := range []struct {
		ev   protocol.Event
		name string
		want string
	}{
		{protocol.AgentStart{RunID: "1"}, "agent_start", `{"type":"agent_start"}`},
		{protocol.TurnEnd{Message: answer, ToolResults: []*protocol.ToolResultMessage{}}, "turn_end", `"turnIndex":-1`},
		{protocol.MessageEnd{Message: answer}, "message_end", `"role":"assistant"`},
		{&protocol.MessageUpdate{Step: protocol.UpdateDelta, Kind: protocol.BlockText, Delta: "<d>"}, "message_update", `"type":"text_delta"`},
		{&protocol.MessageUpdate{Step: protocol.UpdateStart, Kind: protocol.BlockToolCall, Block: call}, "message_update", `"type":"toolcall_start"`},
		{protocol.ToolExecutionStart{ToolCallID: "c", ToolName: "read", Args: []byte(`{"a":1}`)}, "tool_execution_start", `"toolName":"read"`},
		{protocol.AgentSettled{Outcome: "completed"}, "agent_settled", `"aborted":false`},
		{protocol.ThinkingLevelChanged{Level: "high"}, "thinking_level_select", `{"type":"thinking_level_select","level":"high","previousLevel":""}`},
		{protocol.SessionChanged{Reason: "tree", LeafID: "e1"}, "session_tree", `"newLeafId":"e1"`},
		{protocol.SessionChanged{Reason: "new"}, "", ``},
		{protocol.ExtensionUIRequest{ID: "1"}, "", ``},
	} {
		name, payload := e.Of(c.ev, all)
		assert.Equal(t, c.name, name, "%T", c.ev)
		assert.Contains(t, string(payload), c.want)
		name, payload = e.Of(c.ev, none)
		assert.Empty(t, name)
		assert.Nil(t, payload)
	}
	_, first := e.Of(protocol.TurnStart{}, all)
	_, next := e.Of(protocol.TurnStart{}, all)
	assert.Contains(t, string(first), `"turnIndex":0`)
	assert.Contains(t, string(next), `"turnIndex":1`)

	model := &protocol.Model{ID: "m", Provider: "p"}
	name, payload := e.OfEntry(protocol.Record{Entry: protocol.ModelChange{}}, nil, model, all)
	assert.Equal(t, "model_select", name)
	assert.Contains(t, string(payload), `"id":"m"`)
	assert.NotContains(t, string(payload), "previousModel")
	name, payload = e.OfEntry(protocol.Record{EntryMeta: protocol.EntryMeta{ID: "e9"}, Entry: protocol.Compaction{Summary: "s"}}, nil, nil, all)
	assert.Equal(t, "session_compact", name)
	assert.Contains(t, string(payload), `"id":"e9"`)
	name, _ = e.OfEntry(protocol.Record{Entry: protocol.Label{}}, nil, nil, all)
	assert.Empty(t, name)
}
