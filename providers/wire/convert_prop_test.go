package wire_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"troupe/protocol"
	"troupe/providers/providertest"
	"troupe/providers/wire"
)

func encode(messages []protocol.Message) (lines []string) {
	for _, m := range messages {
		lines = append(lines, string(m.AppendJSON(nil)))
	}
	return lines
}

var model = &protocol.Model{ID: "m", Provider: "p", API: "a", Input: []string{"text", "image"}, Reasoning: true}

// shapes are those of the four wires, more or less, and none at all.
var shapes = rapid.SampledFrom([]wire.Shape{
	{},
	{SignedText: true},
	{MergeUsers: true, UserFirst: true, UserLast: true, Spoken: true, ToolID: func(id string, _ bool, try int) string { return wire.SafeID(id, 64, try) }},
	{MergeUsers: true, ToolID: func(id string, _ bool, try int) string { return wire.HashID(id, 9, try) }},
})

// TestConvert_promises checks what Convert promises on random histories.
func TestConvert_promises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		req, shape := providertest.Requests(model).Draw(t, "request"), shapes.Draw(t, "shape")
		before := encode(req.Messages)
		out := wire.Convert(&req, shape)
		require.Equal(t, before, encode(req.Messages), "the history changed")
		seen := map[string]bool{}
		for i := 0; i < len(out); i++ {
			switch m := out[i].(type) {
			case *protocol.UserMessage:
				require.NotEmpty(t, m.Content)
				if i > 0 && shape.MergeUsers {
					require.NotEqual(t, protocol.RoleUser, out[i-1].Role())
				}
			case *protocol.AssistantMessage:
				require.NotEmpty(t, m.Content)
				for _, call := range m.Content.ToolCalls() {
					require.False(t, seen[call.ID], "id %q twice", call.ID)
					require.NotEmpty(t, call.ID)
					seen[call.ID] = true
					require.True(t, json.Valid(call.Arguments))
					i++
					require.Less(t, i, len(out), "a call without its result")
					r, ok := out[i].(*protocol.ToolResultMessage)
					require.True(t, ok, "a call without its result")
					require.Equal(t, call.ID, r.ToolCallID)
					require.Equal(t, call.Name, r.ToolName)
					require.NotEmpty(t, r.Content)
				}
			default:
				t.Fatalf("%s where none belongs", m.Role())
			}
		}
	})
}

// TestConvert_prefix: what was sent stays sent, so that prompt caches hold.
func TestConvert_prefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		req, shape := providertest.Requests(model).Draw(t, "request"), shapes.Draw(t, "shape")
		shape.MergeUsers, shape.UserLast = false, false
		short := encode(wire.Convert(&req, shape))
		req.Messages = append(req.Messages, &protocol.UserMessage{Content: protocol.TextContent("more")})
		long := encode(wire.Convert(&req, shape))
		require.GreaterOrEqual(t, len(long), len(short))
		if len(short) > 0 {
			require.Equal(t, short, long[:len(short)])
		}
	})
}

// TestConvert_twice: converting what was converted changes nothing.
func TestConvert_twice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		req, shape := providertest.Requests(model).Draw(t, "request"), shapes.Draw(t, "shape")
		once := wire.Convert(&req, shape)
		req.Messages, req.BlockImages = once, false
		require.Equal(t, encode(once), encode(wire.Convert(&req, shape)))
	})
}
