package core

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"troupe/protocol"
)

// TestTokenCounts reserves tokens for text by the ratio that a provider counted for earlier text.
func TestTokenCounts(t *testing.T) {
	var c TokenCounts
	first := protocol.ContextSize{Tokens: 1000}
	require.EqualValues(t, 4000, c.input(first), "a token for each byte as long as nothing was counted")

	c.learn(first, protocol.Usage{Input: 3000, CacheRead: 1000})
	require.EqualValues(t, 3000, c.Overhead)
	require.EqualValues(t, 3000+4000, c.input(first), "a child's first prompt brings system prompt and tools as well")
	c.learn(first, protocol.Usage{Input: 5000})
	require.InDelta(t, 3, c.Ratio, 0.001, "without the overhead, and half of the way to the new ratio")

	tail := protocol.ContextSize{Tokens: 6000, Reported: 5000}
	for range 9 {
		c.learn(tail, protocol.Usage{Input: 6500})
	}
	require.InDelta(t, 1.5, c.Ratio, 0.01)
	require.InDelta(t, 1.25*5000+1.25*1.5*1000, c.input(tail), 10)
	c.learn(tail, protocol.Usage{Input: 7500})
	require.InDelta(t, 2.5, c.Ratio, 0.01, "denser text counts at once")
	c.learn(tail, protocol.Usage{Output: 5})
	require.InDelta(t, 2.5, c.Ratio, 0.01, "an answer without a count changes nothing")
}

// TestCountsOfParents starts a child with the ratio that a provider counted for its parent.
func TestCountsOfParents(t *testing.T) {
	w := newWorld(taskSettings(defaults()))
	w.send(protocol.Prompt{Message: "go"})
	attempt := w.m.attempts
	w.step(StreamParts{attempt, []protocol.Part{
		protocol.PartBlockStart{Kind: protocol.BlockToolCall, ID: "c1", Name: TaskTool}, protocol.PartDelta{Delta: "{}"}, protocol.PartBlockEnd{},
		protocol.PartUsage{Usage: protocol.Usage{Input: 700, Output: 5, TotalTokens: 705}},
	}})
	w.step(StreamEnd{Attempt: attempt, Done: protocol.PartDone{StopReason: protocol.StopToolUse}})
	w.step(TaskReady{attempt, "c1", json.RawMessage(`{"agent":"task","tasks":[{"id":"A","description":"a","assignment":"do"}]}`)})
	counts := find[StartChild](t, w.last).Spec.Counts
	require.EqualValues(t, maxTokenRatio, counts.Ratio)
	require.EqualValues(t, 699, counts.Overhead)
}
