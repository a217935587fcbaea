package protocol

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"pgregory.net/rapid"
)

// TestUnmarshal: messages are read as encoding/json reads them, what troupe writes
// and what it does not expect.
func TestUnmarshal(t *testing.T) {
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
		given := map[string]bool{}
		for range rapid.IntRange(0, 8).Draw(t, "members") {
			name, v := member.Draw(t, "member"), value.Draw(t, "value")
			if v == "null" && given[name] { // see TestLastMemberCounts
				continue
			}
			given[name] = true
			raw += `,"` + name + `":` + v
		}
		raw += `}`
		ours, theirs := messageOf(role), messageOf(role)
		err := json.Unmarshal([]byte(raw), theirs)
		if err != nil {
			require.Error(t, Unmarshal([]byte(raw), ours), raw)
			return
		}
		require.NoError(t, Unmarshal([]byte(raw), ours), raw)
		require.Equal(t, string(theirs.AppendJSON(nil)), string(ours.AppendJSON(nil)), raw)
	})
}

// TestLastMemberCounts: of a member that is given twice the last one counts, as for JavaScript, which wrote the files. encoding/json
// keeps what stood before a null.
func TestLastMemberCounts(t *testing.T) {
	for raw, want := range map[string]string{
		`{"role":"user","timestamp":17,"timestamp":null}`:                                        `{"role":"user","content":[],"timestamp":0}`,
		`{"role":"toolResult","toolCallId":"c","toolCallId":null,"toolName":"a","toolName":"b"}`: `{"role":"toolResult","toolCallId":"","toolName":"b","content":[],"isError":false,"timestamp":0}`,
	} {
		m, err := DecodeMessage([]byte(raw))
		require.NoError(t, err)
		require.Equal(t, want, string(m.AppendJSON(nil)))
	}
}

func messageOf(role string) Message {
	return map[string]Message{RoleUser: new(UserMessage), RoleAssistant: new(AssistantMessage), RoleToolResult: new(ToolResultMessage)}[role]
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
