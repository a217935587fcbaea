package protocol

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"pgregory.net/rapid"
)

// TestFastMessage: the fast reader and the ordinary one read the same, for what
// troupe writes and for what it does not expect.
func TestFastMessage(t *testing.T) {
	value := rapid.SampledFrom([]string{
		`"text"`, `""`, `"a\nb\"c\\"`, `"\u00e9"`, `"\ud800"`, `"é"`, `0`, `17`, `-3`, `1.5`, `1e3`, `123456789012345678901234567890`,
		`true`, `false`, `null`, `{}`, `[]`, `{"a":1}`, `["x"]`,
		`[{"type":"text","text":"hi"}]`, `[{"type":"text","text":7}]`, `[{"type":"text","text":"hi","Text":"ho","more":1}]`,
		`[{"type":"thinking","thinking":"hm","thinkingSignature":"s","redacted":true}]`, `[{"type":"thinking","redacted":"yes"}]`,
		`[{"type":"toolCall","id":"c","name":"bash","arguments":{"command":"ls"}}]`, `[{"type":"toolCall"}]`, `["bare"]`, `[{"type":"new","x":1}]`,
		`[{"type":"image","data":"AA==","mimeType":"image/png"}]`, `[{"text":"no type"}]`,
		`{"input":1,"output":2,"cacheRead":3,"cacheWrite":4,"totalTokens":10,"cost":{"input":0.1,"output":0.2,"cacheRead":0,"cacheWrite":0,"total":0.3}}`,
		`{"input":1.5}`, `{"cost":{"total":"much"}}`, `{"Input":4}`,
	})
	member := rapid.SampledFrom([]string{
		"content", "api", "provider", "model", "usage", "stopReason", "timestamp", "errorMessage", "responseId", "toolCallId", "toolName",
		"details", "isError", "Content", "invented", "timestamp",
	})
	rapid.Check(t, func(t *rapid.T) {
		role := rapid.SampledFrom([]string{RoleUser, RoleAssistant, RoleToolResult}).Draw(t, "role")
		raw := `{"role":"` + role + `"`
		for range rapid.IntRange(0, 8).Draw(t, "members") {
			raw += `,"` + member.Draw(t, "member") + `":` + value.Draw(t, "value")
		}
		raw += `}`
		fast, ok := fastMessage(role, raw)
		if !ok {
			return
		}
		slow := slowMessage(role, []byte(raw))
		require.Equal(t, string(slow.AppendJSON(nil)), string(fast.AppendJSON(nil)), raw)
	})
}

// TestFastMessageIsUsed: what troupe writes goes the fast way, and comes back.
func TestFastMessageIsUsed(t *testing.T) {
	for _, m := range []Message{
		&UserMessage{Content: TextContent("hello\n\"you\""), Timestamp: 1},
		&AssistantMessage{
			Content: Content{Thinking{Thinking: "hm", Signature: "s"}, Text{Text: "hi"}, ToolCall{ID: "c", Name: "bash", Arguments: json.RawMessage(`{"a":[1]}`)}},
			API:     "a", Provider: "p", Model: "m", StopReason: StopToolUse, Timestamp: 2, Usage: Usage{Input: 1, Cost: Cost{Total: 0.25}},
		},
		&ToolResultMessage{ToolCallID: "c", ToolName: "bash", Content: TextContent("out"), Details: json.RawMessage(`{"x":1}`), IsError: true, Timestamp: 3},
	} {
		raw := string(m.AppendJSON(nil))
		got, ok := fastMessage(m.Role(), raw)
		require.True(t, ok, raw)
		require.Equal(t, raw, string(got.AppendJSON(nil)))
	}
}

func BenchmarkDecodeRecord(b *testing.B) {
	line := []byte(`{"type":"message","id":"0000000a","parentId":"00000009","timestamp":"2026-01-01T00:00:00.000Z","message":` +
		`{"role":"assistant","content":[{"type":"text","text":"An answer of ordinary length, as they come.\nIn two lines."}],"api":"anthropic-messages",` +
		`"provider":"anthropic","model":"m","usage":{"input":1,"output":2,"cacheRead":0,"cacheWrite":0,"totalTokens":3,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}},` +
		`"stopReason":"stop","timestamp":1767225600000}}`)
	if !gjson.ValidBytes(line) {
		b.Fatal("not JSON")
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeRecord(line); err != nil {
			b.Fatal(err)
		}
	}
}
