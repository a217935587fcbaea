package google

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/protocol"
	"troupe/providers"
	"troupe/providers/wire"
)

func model(id string) *protocol.Model {
	return fixture{id}.Model("https://generativelanguage.googleapis.com/v1beta")
}

func own(m *protocol.Model, blocks ...protocol.Block) *protocol.AssistantMessage {
	return &protocol.AssistantMessage{Content: blocks, API: m.API, Provider: m.Provider, Model: m.ID, StopReason: protocol.StopStop}
}

func call(id, signature string) protocol.ToolCall {
	return protocol.ToolCall{ID: id, Name: "read", Arguments: json.RawMessage(`{"path":"a"}`), ThoughtSignature: signature}
}

func result(id string, blocks ...protocol.Block) *protocol.ToolResultMessage {
	return &protocol.ToolResultMessage{ToolCallID: id, Content: blocks}
}

func text(s string) protocol.Text { return protocol.Text{Text: s} }

func user(s string) *protocol.UserMessage {
	return &protocol.UserMessage{Content: protocol.TextContent(s)}
}

var image = protocol.Image{Data: "iVBORw==", MimeType: "image/png"}

func conversation(m *protocol.Model) providers.Request {
	return providers.Request{
		Model: m, System: "You are a test agent.",
		Messages: []protocol.Message{
			&protocol.UserMessage{Content: protocol.Content{text("Read notes.md"), image}},
			own(m, protocol.Thinking{Thinking: "First the file.", Signature: "QUFB"}, text("Reading."), call("read_1", "QkJC"), call("read_2", "")),
			result("read_1", text("# Notes")),
			&protocol.ToolResultMessage{ToolCallID: "read_2", IsError: true, Content: protocol.Content{text("no such file")}},
			own(m, protocol.Text{Text: "Done.", Signature: "Q0ND"}),
			user("Thanks"),
		},
		Tools:    []protocol.ToolInfo{{Name: "read", Description: "Reads.", Parameters: []byte(`{"type":"object","properties":{"path":{"type":"string"}}}`)}},
		Thinking: protocol.ThinkingMedium, SessionID: "sess", Credentials: providers.Credentials{Key: "AIza-test"},
	}
}

func encode(t *testing.T, req providers.Request) (*wire.Call, gjson.Result) {
	t.Helper()
	call, err := format{}.Encode(&req)
	require.NoError(t, err)
	require.True(t, json.Valid(call.Body), "%s", call.Body)
	return call, gjson.ParseBytes(call.Body)
}

func TestEncode_sample(t *testing.T) {
	want, err := os.ReadFile("testdata/request.json")
	require.NoError(t, err)
	call, body := encode(t, conversation(model("gemini-3.5-flash")))
	assert.JSONEq(t, string(want), body.Raw)
	assert.Equal(t, "https://generativelanguage.googleapis.com/v1beta/models/gemini-3.5-flash:streamGenerateContent?alt=sse", call.URL)
	assert.Equal(t, map[string][]string{"X-Goog-Api-Key": {"AIza-test"}}, map[string][]string(call.Header))
}

func TestEndpoint(t *testing.T) {
	const op = ":streamGenerateContent?alt=sse"
	for _, c := range [][3]string{
		{"https://generativelanguage.googleapis.com/v1beta", "m", "https://generativelanguage.googleapis.com/v1beta/models/m" + op},
		{"https://generativelanguage.googleapis.com/", "m", "https://generativelanguage.googleapis.com/v1beta/models/m" + op},
		{"https://x.example/v1/models/", "models/m", "https://x.example/v1/models/m" + op},
		{"https://x.example", "a/b", "https://x.example/models/a%2Fb" + op},
		{"https://aiplatform.googleapis.com/v1/publishers/google", "m", "https://aiplatform.googleapis.com/v1/publishers/google/models/m" + op},
		{"https://x.example/v1?a=b", "m", "https://x.example/v1/models/m:streamGenerateContent?a=b&alt=sse"},
	} {
		assert.Equal(t, c[2], endpoint(c[0], c[1]))
	}
}

func TestEncode_thinking(t *testing.T) {
	low := "low"
	for _, c := range []struct {
		id    string
		level protocol.ThinkingLevel
		words map[string]*string
		want  string
	}{
		{"gemini-3.1-pro-preview", "minimal", nil, `{"includeThoughts":true,"thinkingLevel":"LOW"}`},
		{"gemini-3.1-pro-preview", "medium", nil, `{"includeThoughts":true,"thinkingLevel":"HIGH"}`},
		{"gemini-3.5-flash", "minimal", nil, `{"includeThoughts":true,"thinkingLevel":"MINIMAL"}`},
		{"gemini-3.5-flash", "medium", nil, `{"includeThoughts":true,"thinkingLevel":"MEDIUM"}`},
		{"gemini-3.5-flash", "medium", map[string]*string{"medium": &low}, `{"includeThoughts":true,"thinkingLevel":"LOW"}`},
		{"gemini-3.5-flash", "xhigh", nil, `{"includeThoughts":true,"thinkingLevel":"HIGH"}`},
		{"gemini-3.5-flash", "off", nil, ``},
		{"gemini-flash-latest", "high", nil, `{"includeThoughts":true,"thinkingLevel":"HIGH"}`},
		{"gemma-4-31b-it", "high", nil, `{"includeThoughts":true,"thinkingLevel":"HIGH"}`},
		{"gemini-2.5-pro", "minimal", nil, `{"includeThoughts":true,"thinkingBudget":128}`},
		{"gemini-2.5-pro", "high", nil, `{"includeThoughts":true,"thinkingBudget":32768}`},
		{"gemini-2.5-pro", "off", nil, ``},
		{"gemini-2.5-flash", "low", nil, `{"includeThoughts":true,"thinkingBudget":2048}`},
		{"gemini-2.5-flash", "high", nil, `{"includeThoughts":true,"thinkingBudget":24576}`},
		{"gemini-2.5-flash", "off", nil, `{"thinkingBudget":0}`},
		{"gemini-2.5-flash", "off", map[string]*string{"off": nil}, ``},
		{"gemini-2.5-flash-lite", "minimal", nil, `{"includeThoughts":true,"thinkingBudget":512}`},
		{"deep-research", "high", nil, `{"includeThoughts":true,"thinkingBudget":-1}`},
		{"deep-research", "low", map[string]*string{"low": &low}, `{"includeThoughts":true,"thinkingLevel":"LOW"}`},
	} {
		m := model(c.id)
		m.ProviderConfig.ThinkingValues = c.words
		req := conversation(m)
		req.Thinking = c.level
		_, body := encode(t, req)
		assert.Equal(t, c.want, body.Get("generationConfig.thinkingConfig").Raw, "%s %s", c.id, c.level)
		m.Reasoning = false
		_, body = encode(t, req)
		assert.False(t, body.Get("generationConfig.thinkingConfig").Exists())
	}
	req := conversation(model("gemini-2.5-flash"))
	req.Budgets = map[protocol.ThinkingLevel]int64{"medium": 1 << 20}
	_, body := encode(t, req)
	assert.Equal(t, int64(24576), body.Get("generationConfig.thinkingConfig.thinkingBudget").Int(), "no more than the model can")
	req.Budgets, req.MaxTokens = nil, 1000
	_, body = encode(t, req)
	assert.Equal(t, int64(1000+8192), body.Get("generationConfig.maxOutputTokens").Int(), "thinking counts as output")
}

// TestEncode_contents: how a history goes back, content by content.
func TestEncode_contents(t *testing.T) {
	const asked = `{"role":"user","parts":[{"text":"q"}]}`
	said := func(parts ...string) string {
		return `{"role":"model","parts":[` + strings.Join(parts, ",") + `]}`
	}
	told := func(parts ...string) string {
		return `{"role":"user","parts":[` + strings.Join(parts, ",") + `]}`
	}
	called := func(signature string) string {
		if signature != "" {
			signature = `,"thoughtSignature":"` + signature + `"`
		}
		return `{"functionCall":{"name":"read","args":{"path":"a"}}` + signature + `}`
	}
	answered := func(more string) string {
		return `{"functionResponse":{"name":"read","response":{"output":"ok"}` + more + `}}`
	}
	const png = `{"inlineData":{"mimeType":"image/png","data":"iVBORw=="}}`
	for _, c := range []struct {
		name, id string
		in       func(m *protocol.Model) []protocol.Message
		want     []string
	}{
		{"a call of another model, older", "gemini-2.5-pro", func(m *protocol.Model) []protocol.Message {
			return []protocol.Message{own(model("x"), call("1", "QUFB")), result("1", text("ok"))}
		}, []string{said(called("")), told(answered(""))}},
		{"a call of another model, newer", "gemini-3-flash", func(m *protocol.Model) []protocol.Message {
			return []protocol.Message{own(model("x"), call("1", "QUFB"), call("2", "QUFB")), result("1", text("ok")), result("2", text("ok"))}
		}, []string{said(called(skipSignature), called("")), told(answered(""), answered(""))}},
		{"a broken signature", "gemini-3-flash", func(m *protocol.Model) []protocol.Message {
			return []protocol.Message{own(m, protocol.Text{Text: "a", Signature: "QUF"}, call("1", "Q*FB")), result("1", text("ok"))}
		}, []string{said(`{"text":"a"}`, called(skipSignature)), told(answered(""))}},
		{"a signed empty text", "gemini-3-flash", func(m *protocol.Model) []protocol.Message {
			return []protocol.Message{own(m, protocol.Thinking{Thinking: "hm"}, protocol.Text{Signature: "QUFB"}), user("r")}
		}, []string{said(`{"text":"hm","thought":true}`, `{"text":"","thoughtSignature":"QUFB"}`), told(`{"text":"r"}`)}},
		{"images of tools, newer", "gemini-3-flash", func(m *protocol.Model) []protocol.Message {
			return []protocol.Message{own(m, call("1", "QUFB")), result("1", text("ok"), image)}
		}, []string{said(called("QUFB")), told(answered(`,"parts":[` + png + `]`))}},
		{"images of tools, older", "gemini-2.5-pro", func(m *protocol.Model) []protocol.Message {
			return []protocol.Message{own(m, call("1", ""), call("2", "")), result("1", text("ok"), image), result("2", text("ok"), image), user("r")}
		}, []string{said(called(""), called("")), told(answered(""), answered("")), told(`{"text":"`+imagesText+`"}`, png, png), told(`{"text":"r"}`)}},
		{"answers in a row", "gemini-2.5-pro", func(m *protocol.Model) []protocol.Message {
			return []protocol.Message{own(m, text("a")), own(m, text("b")), user("r"), user("s")}
		}, []string{said(`{"text":"a"}`, `{"text":"b"}`), told(`{"text":"r"}`, `{"text":"s"}`)}},
	} {
		m := model(c.id)
		_, body := encode(t, providers.Request{Model: m, Messages: append([]protocol.Message{user("q")}, c.in(m)...)})
		assert.JSONEq(t, "["+asked+","+strings.Join(c.want, ",")+"]", body.Get("contents").Raw, c.name)
	}
	hosted := model("claude-sonnet-4-5")
	_, body := encode(t, providers.Request{Model: hosted, Messages: []protocol.Message{user("q"), own(hosted, call("a:b", "")), result("a:b", text("ok"))}})
	assert.Equal(t, "a_b a_b", body.Get("contents.1.parts.0.functionCall.id").Str+" "+body.Get("contents.2.parts.0.functionResponse.id").Str)
	_, err := format{}.Encode(&providers.Request{Model: hosted, System: "s"})
	require.Error(t, err)
}

func TestFunctionName(t *testing.T) {
	for in, want := range map[string]string{
		"read": "read", "_x": "_x", "1st": "_1st", "": "_", "-a": "_-a", strings.Repeat("9", 64): "_" + strings.Repeat("9", 63),
	} {
		assert.Equal(t, want, functionName(in))
	}
}

// TestIDs: calls of answers without an id of the response still differ.
func TestIDs(t *testing.T) {
	a, b := &decoder{}, &decoder{}
	assert.NotEqual(t, a.newID("read"), b.newID("read"))
	assert.True(t, strings.HasPrefix(a.newID("read"), "read_"))
}

// TestEncode_must: a tool that has to be called is named.
func TestEncode_must(t *testing.T) {
	req := conversation(model("gemini-3.5-flash"))
	req.Must, req.Thinking = "read", protocol.ThinkingOff
	_, body := encode(t, req)
	assert.Equal(t, `{"mode":"ANY","allowedFunctionNames":["read"]}`, body.Get("toolConfig.functionCallingConfig").Raw)
}
