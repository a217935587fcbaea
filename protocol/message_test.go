package protocol

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSeal(t *testing.T) {
	m := Seal(&AssistantMessage{Content: TextContent("a"), StopReason: StopStop})
	first := string(m.AppendJSON(nil))
	require.Equal(t, len(first), SizeOf(m))
	m.StopReason = StopError
	require.Equal(t, first, string(m.AppendJSON(nil)), "a sealed message keeps its bytes")
	require.Contains(t, string(Seal(m).AppendJSON(nil)), `"error"`, "sealing again counts")
}

func TestDecodeMessage(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"role":"user","content":"hi","timestamp":1,"attachments":[]}`, `{"role":"user","content":[{"type":"text","text":"hi"}],"timestamp":1,"attachments":[]}`},
		{`{"role":"hookMessage","customType":"t","content":"x","display":true,"timestamp":1}`, `{"role":"custom","customType":"t","content":[{"type":"text","text":"x"}],"display":true,"timestamp":1}`},
		{`{"role":"system","content":"","sections":{"a":null}}`, `{"role":"system","content":"","sections":{"a":null}}`},
		{`{"role":"user","content":7}`, `{"role":"user","content":[{"type":"text","text":"7"}],"timestamp":0}`},
		{`{"role":"user","content":["a",{"text":"b"},{"type":"text","text":5},{"type":"text","text":"c","textSignature":{}}],"timestamp":"12"}`,
			`{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"},{"type":"text","text":"5"},{"type":"text","text":"c"}],"timestamp":12}`},
		{`{"role":"bashExecution","command":"ls","output":7,"exitCode":"2","cancelled":"false","truncated":1,"timestamp":1790000000000.5}`,
			`{"role":"bashExecution","command":"ls","output":"7","exitCode":2,"cancelled":false,"truncated":true,"timestamp":1790000000000}`},
		{`{"role":"toolResult","toolCallId":"i","toolName":"n","content":[],"isError":"false","timestamp":[],"nestedCalls":{"calls":[{"id":1},2],"complete":"yes"}}`,
			`{"role":"toolResult","toolCallId":"i","toolName":"n","content":[],"isError":false,"timestamp":0,"nestedCalls":{"calls":[{"id":"1","name":"","status":"","arguments":null,"durationMs":0}],"complete":false}}`},
		{`{"role":"custom","customType":"t","content":[{"type":"toolCall","id":"i","name":"n","arguments":"{\"a\":1}"},{"type":"toolCall","id":"j","name":"n","arguments":[1]}],"display":1,"timestamp":1}`,
			`{"role":"custom","customType":"t","content":[{"type":"toolCall","id":"i","name":"n","arguments":{"a":1}},{"type":"toolCall","id":"j","name":"n","arguments":{"value":[1]}}],"display":true,"timestamp":1}`},
		{`{"role":"assistant","content":[{"type":"toolCall","id":"i","name":"n"}],"api":"","provider":"","model":"","stopReason":"","timestamp":0}`,
			`{"role":"assistant","content":[{"type":"toolCall","id":"i","name":"n","arguments":{}}],"api":"","provider":"","model":"","usage":` + string(AppendValue(nil, Usage{})) + `,"stopReason":"","timestamp":0}`},
		{`{"role":"user","content":[{"type":"audio","x":1}],"timestamp":0}`, `{"role":"user","content":[{"type":"audio","x":1}],"timestamp":0}`},
	} {
		m, err := DecodeMessage([]byte(c.in))
		require.NoError(t, err, c.in)
		require.Equal(t, c.want, string(m.AppendJSON(nil)))
	}
	_, err := DecodeMessage([]byte(`{"content":"x"}`))
	require.Error(t, err)
}

func TestBashExecutionMessage_ModelText(t *testing.T) {
	code := 3
	for _, c := range []struct {
		in   BashExecutionMessage
		want string
	}{
		{BashExecutionMessage{Command: "ls", Output: "a"}, "Ran `ls`\n```\na\n```"},
		{BashExecutionMessage{Command: "ls"}, "Ran `ls`\n(no output)"},
		{BashExecutionMessage{Command: "x", Output: "o", ExitCode: &code}, "Ran `x`\n```\no\n```\n\nCommand exited with code 3"},
		{BashExecutionMessage{Command: "x", Output: "o", ExitCode: &code, Cancelled: true}, "Ran `x`\n```\no\n```\n\n(command cancelled)"},
		{BashExecutionMessage{Command: "x", Output: "o", Truncated: true, FullOutputPath: "/t/f"}, "Ran `x`\n```\no\n```\n\n[Output truncated. Full output: /t/f]"},
		{BashExecutionMessage{Command: "x", Output: "o", Truncated: true}, "Ran `x`\n```\no\n```"},
	} {
		assert.Equal(t, c.want, c.in.ModelText())
	}
}
