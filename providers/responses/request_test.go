package responses

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

const (
	reasoningA = `{"id":"rs_1","type":"reasoning","encrypted_content":"ZW5jQQ==","summary":[{"type":"summary_text","text":"First the file."}]}`
	reasoningB = `{"id":"rs_2","type":"reasoning","encrypted_content":"ZW5jQg==","summary":[]}`
)

// far is a model of a service that nothing is known about.
func far(compat string) *protocol.Model {
	m := fixture{compat: compat}.Model("https://llm.example.com/v1")
	m.MaxTokens = 8192
	return m
}

func own(m *protocol.Model, blocks ...protocol.Block) *protocol.AssistantMessage {
	return &protocol.AssistantMessage{Content: blocks, API: m.API, Provider: m.Provider, Model: m.ID, StopReason: protocol.StopStop}
}

func call(id string) protocol.ToolCall {
	return protocol.ToolCall{ID: id, Name: "read", Arguments: json.RawMessage(`{"path":"a"}`)}
}

func result(id, text string) *protocol.ToolResultMessage {
	return &protocol.ToolResultMessage{ToolCallID: id, Content: protocol.TextContent(text)}
}

func user(text string) *protocol.UserMessage {
	return &protocol.UserMessage{Content: protocol.TextContent(text)}
}

func conversation(m *protocol.Model) providers.Request {
	return providers.Request{
		Model: m, System: "You are a test agent.",
		Messages: []protocol.Message{
			user("Read notes.md"),
			own(m, protocol.Thinking{Thinking: "First the file.", Signature: reasoningA}, protocol.Text{Text: "Reading.", Signature: `{"v":1,"id":"msg_1","phase":"commentary"}`}, call("call_1|fc_1")),
			result("call_1|fc_1", "# Notes"),
			own(m, protocol.Thinking{Signature: reasoningB}, call("call_2|fc_2")),
			&protocol.ToolResultMessage{ToolCallID: "call_2|fc_2", Content: protocol.Content{
				protocol.Text{Text: "a picture"}, protocol.Image{Data: "iVBORw==", MimeType: "image/png"}}},
		},
		Tools:    []protocol.ToolInfo{{Name: "read", Description: "Reads.", Parameters: []byte(`{"type":"object","properties":{"path":{"type":"string"}}}`)}},
		Thinking: protocol.ThinkingMedium, SessionID: "sess", Credentials: providers.Credentials{Key: "sk-test"},
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
	call, body := encode(t, conversation(far("")))
	assert.JSONEq(t, string(want), body.Raw)
	assert.Equal(t, "https://llm.example.com/v1/responses", call.URL)
	assert.Equal(t, map[string][]string{
		"Authorization": {"Bearer sk-test"}, "session_id": {"sess"}, "X-Client-Request-Id": {"sess"},
	}, map[string][]string(call.Header))
}

// TestEncode_flags: what each flag of models.json changes, as paths of the body
// and what is there; "" means nothing is.
func TestEncode_flags(t *testing.T) {
	for _, c := range []struct {
		compat string
		paths  map[string]string
	}{
		{``, map[string]string{"store": "false", "input.0.role": `"developer"`, "max_output_tokens": "8192", "reasoning": `{"effort":"medium","summary":"auto"}`,
			"include": `["reasoning.encrypted_content"]`, "tools.0.strict": "", "prompt_cache_key": `"sess"`, "prompt_cache_retention": ""}},
		{`{"supportsStore":false}`, map[string]string{"store": ""}},
		{`{"supportsDeveloperRole":false}`, map[string]string{"input.0.role": `"system"`}},
		{`{"supportsReasoningEffort":false}`, map[string]string{"reasoning": `{"summary":"auto"}`}},
		{`{"reasoningEffortMap":{"medium":"default"}}`, map[string]string{"reasoning.effort": `"default"`}},
		{`{"supportsStrictMode":true}`, map[string]string{"tools.0.strict": "false"}},
		{`{"promptCacheKeyMode":"none"}`, map[string]string{"prompt_cache_key": ""}},
		{`{"promptCacheKeyMode":"auto"}`, map[string]string{"prompt_cache_key": `"sess"`}},
		{`{"supportsOpenAIGrammarTools":true,"supportsMidConvoSystemMessages":true,"supportsMidConvoToolAdditions":true}`, map[string]string{"tools.0.type": `"function"`}},
	} {
		_, body := encode(t, conversation(far(c.compat)))
		for path, want := range c.paths {
			assert.Equal(t, want, body.Get(path).Raw, "%s: %s", c.compat, path)
		}
	}
}

func TestEncode_cache(t *testing.T) {
	for _, c := range []struct {
		base, compat string
		cache        providers.CacheRetention
		key, keep    string
	}{
		{"https://api.openai.com/v1", "", "", "sess", ""},
		{"https://api.openai.com/v1", "", providers.CacheLong, "sess", "24h"},
		{"https://api.openai.com/v1", `{"supportsLongCacheRetention":false}`, providers.CacheLong, "sess", ""},
		{"https://api.openai.com/v1", "", providers.CacheNone, "", ""},
		{"https://x.example/v1", "", providers.CacheLong, "sess", ""},
		{"https://x.example/v1", `{"supportsLongCacheRetention":true}`, providers.CacheLong, "sess", "24h"},
	} {
		m := far(c.compat)
		m.BaseURL = c.base
		req := conversation(m)
		req.Cache = c.cache
		call, body := encode(t, req)
		assert.Equal(t, c.key, body.Get("prompt_cache_key").Str, "%+v", c)
		assert.Equal(t, c.keep, body.Get("prompt_cache_retention").Str, "%+v", c)
		assert.Equal(t, c.key, call.Header.Get("X-Client-Request-Id"), "%+v", c)
	}
}

func TestEncode_affinity(t *testing.T) {
	const raw = "session_id"
	for compat, want := range map[string][3]string{
		``: {"sess", "sess", ""}, `{"sessionAffinityFormat":"openai"}`: {"sess", "sess", ""}, `{"sessionAffinityFormat":"openai-nosession"}`: {"", "sess", ""},
		`{"sessionAffinityFormat":"openrouter"}`: {"", "", "sess"}, `{"sendSessionAffinityHeaders":false}`: {"", "", ""},
	} {
		call, _ := encode(t, conversation(far(compat)))
		got := [3]string{strings.Join(map[string][]string(call.Header)[raw], ","), call.Header.Get("X-Client-Request-Id"), call.Header.Get("X-Session-Id")}
		assert.Equal(t, want, got, compat)
	}
}

func TestEncode_endpoints(t *testing.T) {
	for _, c := range []struct{ base, url, role, strict string }{
		{"https://api.openai.com/v1", "https://api.openai.com/v1/responses", "developer", "false"},
		{"https://mine.openai.azure.com/openai/v1?api-version=preview", "https://mine.openai.azure.com/openai/v1/responses?api-version=preview", "developer", "false"},
		{"https://api.x.ai/v1/", "https://api.x.ai/v1/responses", "developer", ""},
		{"http://localhost:1234/v1", "http://localhost:1234/v1/responses", "system", ""},
	} {
		m := far("")
		m.BaseURL = c.base
		call, body := encode(t, conversation(m))
		assert.Equal(t, c.url, call.URL)
		assert.Equal(t, c.role, body.Get("input.0.role").Str, c.base)
		assert.Equal(t, c.strict, body.Get("tools.0.strict").Raw, c.base)
	}
}

func TestEncode_thinking(t *testing.T) {
	none, low := "none", "LOW"
	for _, c := range []struct {
		name   string
		words  map[string]*string
		level  protocol.ThinkingLevel
		compat string
		want   string
	}{
		{"on", nil, "high", "", `{"effort":"high","summary":"auto"}`},
		{"own word", map[string]*string{"low": &low}, "low", "", `{"effort":"LOW","summary":"auto"}`},
		{"off", nil, "off", "", `{"effort":"none"}`},
		{"a word for off", map[string]*string{"off": &none}, "off", "", `{"effort":"none"}`},
		{"cannot be off", map[string]*string{"off": nil}, "off", "", ``},
		{"no effort, off", nil, "off", `{"supportsReasoningEffort":false}`, ``},
	} {
		m := far(c.compat)
		m.ProviderConfig.ThinkingValues = c.words
		req := conversation(m)
		req.Thinking = c.level
		_, body := encode(t, req)
		assert.Equal(t, c.want, body.Get("reasoning").Raw, c.name)
		assert.True(t, body.Get("include").Exists(), c.name)
		m.Reasoning = false
		_, body = encode(t, req)
		assert.False(t, body.Get("reasoning").Exists() || body.Get("include").Exists(), c.name)
		assert.Equal(t, "system", body.Get("input.0.role").Str)
	}
	req := conversation(far(""))
	req.MaxTokens = 3
	_, body := encode(t, req)
	assert.Equal(t, int64(8192), body.Get("max_output_tokens").Int(), "reasoning counts as output, and comes on top as far as the model can go")
	req.Thinking = protocol.ThinkingOff
	_, body = encode(t, req)
	assert.Equal(t, int64(16), body.Get("max_output_tokens").Int(), "the API takes no less")
}

// TestEncode_items: how an answer goes back, item by item.
func TestEncode_items(t *testing.T) {
	m := far("")
	foreign := func(blocks ...protocol.Block) *protocol.AssistantMessage {
		a := own(m, blocks...)
		a.Model = "gpt-other"
		return a
	}
	thought := func(signature string) protocol.Thinking {
		return protocol.Thinking{Thinking: "hm", Signature: signature}
	}
	text := func(s, signature string) protocol.Text { return protocol.Text{Text: s, Signature: signature} }
	message := func(id, s string) string {
		return `{"type":"message","role":"assistant","status":"completed","id":"` + id + `","content":[{"type":"output_text","annotations":[],"text":"` + s + `"}]}`
	}
	function := func(callID, id string) string {
		if id != "" {
			id = `"id":"` + id + `",`
		}
		return `{"type":"function_call",` + id + `"call_id":"` + callID + `","name":"read","arguments":"{\"path\":\"a\"}"}`
	}
	output := func(callID string) string {
		return `{"type":"function_call_output","call_id":"` + callID + `","output":"ok"}`
	}
	long := "msg_" + strings.Repeat("x", 70)
	for _, c := range []struct {
		name string
		in   []protocol.Message
		want []string
	}{
		{"text with an id", []protocol.Message{own(m, text("a", `{"v":1,"id":"msg_7"}`))}, []string{message("msg_7", "a")}},
		{"text of an older file", []protocol.Message{own(m, text("a", "msg_7"))}, []string{message("msg_7", "a")}},
		{"text without an id", []protocol.Message{own(m, text("a", ""), text("b", ""))}, []string{message("msg_2", "a"), message("msg_3", "b")}},
		{"an id that is taken", []protocol.Message{own(m, text("a", "msg_3"), text("b", ""), text("c", "msg_3"))}, []string{message("msg_3", "a"), message("msg_4", "b"), message("msg_5", "c")}},
		{"an id that is too long", []protocol.Message{own(m, text("a", long))}, []string{message("msg_"+wire.HashID(long, 12, 0), "a")}},
		{"another model's", []protocol.Message{foreign(thought(reasoningA), text("a", "msg_7"), call("call_1|fc_1")), result("call_1|fc_1", "ok")},
			[]string{message("msg_2", `hm\n\n`), message("msg_3", "a"), function("call_1", ""), output("call_1")}},
		{"reasoning that nothing followed", []protocol.Message{own(m, text("a", "msg_7"), thought(reasoningA))}, []string{message("msg_7", "a")}},
		{"reasoning before an empty text", []protocol.Message{own(m, text("a", "msg_7"), thought(reasoningA), text(" ", "msg_8"))}, []string{message("msg_7", "a")}},
		{"reasoning twice", []protocol.Message{own(m, thought(reasoningA), text("a", "msg_7")), own(m, thought(reasoningA), text("b", "msg_8"))},
			[]string{reasoningA, message("msg_7", "a"), message("msg_4", "b")}},
		{"reasoning that was not encrypted", []protocol.Message{own(m, thought(`{"type":"reasoning","id":"rs_1","summary":[]}`), text("a", "msg_7"), call("call_1|fc_1")), result("call_1|fc_1", "ok")},
			[]string{message("msg_2", "a"), function("call_1", ""), output("call_1")}},
		{"reasoning in the open", []protocol.Message{own(m, thought(`{"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"t"}]}`), text("a", "msg_7"))},
			[]string{`{"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"t"}]}`, message("msg_7", "a")}},
		{"a call id twice", []protocol.Message{own(m, call("call_1|fc_1")), result("call_1|fc_1", "ok"), own(m, call("call_1|fc_2")), result("call_1|fc_2", "ok")},
			[]string{function("call_1", "fc_1"), output("call_1"), function("call_1_2", ""), output("call_1_2")}},
		{"an item id of another kind", []protocol.Message{own(m, call("call_1|toolu_1")), result("call_1|toolu_1", "ok")}, []string{function("call_1", ""), output("call_1")}},
		{"ids that do not fit", []protocol.Message{own(m, call("functions.bash:0__")), result("functions.bash:0__", "ok")}, []string{function("functions_bash_0", ""), output("functions_bash_0")}},
	} {
		_, body := encode(t, providers.Request{Model: m, Messages: append([]protocol.Message{user("q")}, c.in...)})
		want := `[{"role":"user","content":[{"type":"input_text","text":"q"}]},` + strings.Join(c.want, ",") + `]`
		assert.JSONEq(t, want, body.Get("input").Raw, c.name)
	}
	_, err := format{}.Encode(&providers.Request{Model: m, System: "s", Messages: []protocol.Message{own(m, thought(reasoningA))}})
	require.Error(t, err, "nothing to say")
}

// TestEncode_must: a tool that has to be called is named.
func TestEncode_must(t *testing.T) {
	req := conversation(far(""))
	req.Must, req.Thinking = "read", protocol.ThinkingOff
	_, body := encode(t, req)
	assert.Equal(t, `{"type":"function","name":"read"}`, body.Get("tool_choice").Raw)
}
