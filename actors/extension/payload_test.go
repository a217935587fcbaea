package extension

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors/core"
	"troupe/protocol"
	"troupe/protocol/extension"
)

var (
	rpc  = core.Command{Cmd: protocol.Prompt{Message: "hi", Images: []protocol.Image{{Data: "QQ==", MimeType: "image/png"}}}}
	call = protocol.ToolCall{ID: "c1", Name: "bash", Arguments: json.RawMessage(`{"command":"ls"}`)}
	hook = core.ToolResultHook{Call: call, Result: protocol.ToolResult{Content: protocol.TextContent("out"), Details: json.RawMessage(`{"n":1}`)}}
)

// TestPayload: hooks are shown as pi shows them.
func TestPayload(t *testing.T) {
	own := core.Command{Cmd: protocol.Steer{Message: "go"}, FromExtension: true}
	for want, h := range map[string]core.Hook{
		`{"type":"input","text":"hi","images":[{"type":"image","data":"QQ==","mimeType":"image/png"}],"source":"rpc"}`:                                                   core.InputHook{Command: rpc},
		`{"type":"input","text":"go","source":"extension","streamingBehavior":"steer"}`:                                                                                  core.InputHook{Command: own},
		`{"type":"input","text":"later","source":"rpc","streamingBehavior":"followUp"}`:                                                                                  core.InputHook{Command: core.Command{Cmd: protocol.FollowUp{Message: "later"}}},
		`{"type":"before_agent_start","messageType":"user","prompt":"go","systemPrompt":"You are"}`:                                                                      core.BeforeAgentStartHook{Command: own},
		`{"type":"tool_call","toolName":"bash","toolCallId":"c1","input":{"command":"ls"}}`:                                                                              core.ToolCallHook{Call: call},
		`{"type":"tool_result","toolName":"bash","toolCallId":"c1","input":{"command":"ls"},"content":[{"type":"text","text":"out"}],"details":{"n":1},"isError":false}`: hook,
	} {
		assert.JSONEq(t, want, string(payload(h, SystemPrompt{Text: "You are"})))
	}
}

// TestAnswer: what extensions say is read as their API has it; what cannot be
// read is an error, and nothing else.
// TestPayloadOfANote: a message of an extension that begins a run is shown as it is.
func TestPayloadOfANote(t *testing.T) {
	note := core.CustomSent{Message: protocol.CustomMessageEntry{CustomType: "n", Content: protocol.TextContent("look"), Display: true, Details: json.RawMessage(`{"x":1}`)}}
	raw := payload(core.BeforeAgentStartHook{Command: core.Command{Note: &note, FromExtension: true}}, SystemPrompt{Text: "You are"})
	require.Equal(t, "custom", gjson.GetBytes(raw, "messageType").Str)
	require.False(t, gjson.GetBytes(raw, "prompt").Exists())
	m := gjson.GetBytes(raw, "message")
	require.Equal(t, `custom n look true {"x":1} true`, fmt.Sprint(m.Get("role").Str, " ", m.Get("customType").Str, " ", m.Get("content.0.text").Str, " ",
		m.Get("display").Raw, " ", m.Get("details").Raw, " ", m.Get("timestamp").Int() > 0))
}

func TestAnswer(t *testing.T) {
	note := protocol.CustomMessageEntry{CustomType: "n", Content: protocol.TextContent("x"), Display: true}
	system, empty := "Be brief.", protocol.Content{}
	steer := core.Command{Cmd: protocol.Steer{Message: "hi"}}
	follow := core.Command{Cmd: protocol.FollowUp{Message: "hi"}}
	for _, c := range []struct {
		hook core.Hook
		said string
		want core.HookAnswer // nil: it cannot be read
	}{
		{core.InputHook{Command: rpc}, ``, core.Taken{Command: rpc}},
		{core.InputHook{Command: rpc}, `null`, core.Taken{Command: rpc}},
		{core.InputHook{Command: rpc}, `{"action":"continue","text":"no"}`, core.Taken{Command: rpc}},
		{core.InputHook{Command: rpc}, `{"action":"handled"}`, core.Taken{Command: rpc, Handled: true}},
		{core.InputHook{Command: rpc}, `{"action":"transform","text":"HI"}`, core.Taken{Command: core.Command{Cmd: protocol.Prompt{Message: "HI", Images: []protocol.Image{{Data: "QQ==", MimeType: "image/png"}}}}}},
		{core.InputHook{Command: rpc}, `{"action":"transform","text":"HI","images":[]}`, core.Taken{Command: core.Command{Cmd: protocol.Prompt{Message: "HI"}}}},
		{core.InputHook{Command: steer}, `{"action":"transform","text":"HI","images":[{"data":"QQ==","mimeType":"image/png"}]}`,
			core.Taken{Command: core.Command{Cmd: protocol.Steer{Message: "HI", Images: []protocol.Image{{Data: "QQ==", MimeType: "image/png"}}}}}},
		{core.InputHook{Command: follow}, `{"action":"transform","text":""}`, core.Taken{Command: core.Command{Cmd: protocol.FollowUp{}}}},
		{core.InputHook{Command: rpc}, `[]`, nil},
		{core.BeforeAgentStartHook{Command: rpc}, `{}`, core.Prepared{}},
		{core.BeforeAgentStartHook{Command: rpc}, `{"systemPrompt":"Be brief.","messages":[{"customType":"n","content":"x","display":true}]}`,
			core.Prepared{SystemPrompt: &system, Messages: []protocol.CustomMessageEntry{note}}},
		{core.BeforeAgentStartHook{Command: rpc}, `{"messages":[{"customType":"n","content":7}]}`, nil},
		{core.ToolCallHook{Call: call}, `null`, core.Gated{}},
		{core.ToolCallHook{Call: call}, `{"block":true,"reason":"no"}`, core.Gated{Blocked: true, Reason: "no"}},
		{core.ToolCallHook{Call: call}, `{"input":{"command":"ls -l"}}`, core.Gated{Args: json.RawMessage(`{"command":"ls -l"}`)}},
		{core.ToolCallHook{Call: call}, `{"block":"yes"}`, nil},
		{hook, ``, core.Patched{Result: hook.Result}},
		{hook, `{"content":"y","isError":true}`, core.Patched{Result: protocol.ToolResult{Content: protocol.TextContent("y"), Details: hook.Result.Details}, IsError: true}},
		{hook, `{"content":null,"details":[1]}`, core.Patched{Result: protocol.ToolResult{Content: empty, Details: json.RawMessage(`[1]`)}}},
		{hook, `{"content":{}}`, nil},
	} {
		got, err := answer(Call{CallHook: core.CallHook{Hook: c.hook}}, json.RawMessage(c.said))
		if c.want == nil {
			require.Error(t, err, c.said)
			continue
		}
		require.NoError(t, err, c.said)
		assert.Equal(t, c.want, got, "%T %s", c.hook, c.said)
	}
	long, err := answer(Call{CallHook: core.CallHook{Hook: core.ToolCallHook{Call: call}}}, json.RawMessage(`{"block":true,"reason":"`+strings.Repeat("é", 100<<10)+`"}`))
	require.NoError(t, err)
	assert.Less(t, len(long.(core.Gated).Reason), maxReason+10, "a reason is bounded")
}

// TestCommand: what extensions do is what clients do, by the same commands.
func TestCommand(t *testing.T) {
	for _, c := range []struct {
		name, args string
		want       protocol.Command
	}{
		{"sendUserMessage", `{"content":"x"}`, protocol.Prompt{Message: "x"}},
		{"sendUserMessage", `{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"options":{"deliverAs":"followUp"}}`,
			protocol.Prompt{Message: "a\nb", StreamingBehavior: protocol.BehaviorFollowUp}},
		{"setSessionName", `{"name":"n"}`, protocol.SetSessionName{Name: "n"}},
		{"setLabel", `{"entryId":"e1","label":"l"}`, protocol.SetEntryLabel{TargetID: "e1", Label: "l"}},
		{"setActiveTools", `{"names":["read"]}`, protocol.SetActiveTools{ToolNames: []string{"read"}}},
		{"setThinkingLevel", `{"level":"high"}`, protocol.SetThinkingLevel{Level: protocol.ThinkingHigh}},
		{"abort", ``, protocol.Abort{}},
		{"compact", `{"customInstructions":"x"}`, protocol.Compact{CustomInstructions: "x"}},
		{"setModel", `{"provider":"p","modelId":"m"}`, protocol.SetModel{Provider: "p", ModelID: "m"}},
		{"newSession", `{"parentSession":"p"}`, protocol.NewSession{ParentSession: "p"}},
		{"switchSession", `{"sessionPath":"p"}`, protocol.SwitchSession{SessionPath: "p"}},
		{"fork", `{"entryId":"e"}`, protocol.Fork{EntryID: "e"}},
		{"navigateTree", `{"targetId":"e","summarize":true,"label":"l"}`, protocol.NavigateTree{TargetID: "e", Summarize: true, Label: "l"}},
		{"reload", ``, protocol.ReloadResources{}},
	} {
		got, err := command(c.name, json.RawMessage(c.args))
		require.NoError(t, err)
		assert.Equal(t, c.want, got)
	}
	for name, args := range map[string]string{"sendUserMessage": `{"content":"x","options":{"deliverAs":"now"}}`, "complete": `{}`, "setLabel": `[]`} {
		_, err := command(name, json.RawMessage(args))
		require.Error(t, err, name)
	}
}

// TestReadSend: options of pi.sendMessage say when the message comes to the model.
func TestReadSend(t *testing.T) {
	for options, want := range map[string]core.CustomSent{
		``:                                    {},
		`,"options":{"triggerTurn":true}`:     {Trigger: true},
		`,"options":{"triggerTurn":false}`:    {Deliver: core.DeliverAfterTurn},
		`,"options":{"deliverAs":"followUp"}`: {Deliver: core.DeliverFollowUp},
		`,"options":{"deliverAs":"nextTurn"}`: {Deliver: core.DeliverNextTurn},
		`,"options":{"deliverAs":"steer","triggerTurn":false}`: {},
	} {
		want.Message = protocol.CustomMessageEntry{CustomType: "n", Content: protocol.Content{}}
		got, err := readSend(json.RawMessage(`{"message":{"customType":"n","content":null}` + options + `}`))
		require.NoError(t, err)
		assert.Equal(t, want, got, options)
	}
	_, err := readSend(json.RawMessage(`{"message":{},"options":{"deliverAs":"soon"}}`))
	require.Error(t, err)
}

// TestMissingGate: an extension that has to see calls and is not there refuses
// them all; another is only missed.
func TestMissingGate(t *testing.T) {
	assert.Empty(t, missingGate([]extension.LoadError{{Path: "a.ts", Message: "x"}, {Path: "b.ts", Message: "y", Gates: []string{"user_bash"}}}, "tool_call", "Tool calls are"))
	assert.Contains(t, missingGate([]extension.LoadError{{Path: "a.ts", Message: "x", Gates: []string{"tool_call"}}}, "tool_call", "Tool calls are"), "a.ts")
}
