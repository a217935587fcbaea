package openai

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/protocol"
	"troupe/providers"
	"troupe/providers/providertest"
	"troupe/providers/wire"
)

// conversation is the one of testdata/request.json, which pi sent for it.
func conversation(model *protocol.Model) providers.Request {
	object := func(props string, required string) json.RawMessage {
		return json.RawMessage(`{"type":"object","required":` + required + `,"properties":` + props + `}`)
	}
	answer := func(blocks ...protocol.Block) *protocol.AssistantMessage {
		return &protocol.AssistantMessage{Content: blocks, API: model.API, Provider: model.Provider, Model: model.ID, StopReason: protocol.StopToolUse}
	}
	call := func(id, name, args string) protocol.ToolCall {
		return protocol.ToolCall{ID: id, Name: name, Arguments: json.RawMessage(args)}
	}
	result := func(id, text string) *protocol.ToolResultMessage {
		return &protocol.ToolResultMessage{ToolCallID: id, Content: protocol.TextContent(text)}
	}
	const str, num = `{"type":"string","description":"(omitted)"}`, `{"type":"number","description":"(omitted)"}`
	return providers.Request{
		Model:  model,
		System: "You are a test agent.\n\n<cwd>\n/home/me/demo\n</cwd>",
		Messages: []protocol.Message{
			&protocol.UserMessage{Content: protocol.TextContent("Read notes.md and fix the typo")},
			answer(protocol.Text{Text: "Reading the file first."}, call("call_r1", "read", `{"path":"notes.md"}`)),
			result("call_r1", "# Notes\nfix teh typo\n"),
			answer(call("call_e1", "edit", `{"path":"notes.md","edits":[{"oldText":"teh","newText":"the"}]}`), call("call_b1", "bash", `{"command":"wc -l notes.md"}`)),
			result("call_e1", "Successfully replaced 1 block(s) in notes.md."),
			result("call_b1", "2 notes.md\n"),
		},
		Tools: []protocol.ToolInfo{
			{Name: "read", Description: "(omitted)", Parameters: object(`{"path":`+str+`,"offset":`+num+`,"limit":`+num+`}`, `["path"]`)},
			{Name: "edit", Description: "(omitted)", Parameters: object(`{"path":`+str+`,"edits":{"type":"array","items":`+string(object(`{"oldText":`+str+`,"newText":`+str+`}`, `["oldText","newText"]`))+`,"description":"(omitted)"}}`, `["path","edits"]`)},
			{Name: "bash", Description: "(omitted)", Parameters: object(`{"command":`+str+`,"timeout":`+num+`}`, `["command"]`)},
		},
		Thinking:    protocol.ThinkingMedium,
		SessionID:   "sess",
		Credentials: providers.Credentials{Key: "sk-test"},
	}
}

// far is a model of a service that nothing is known about.
func far(compat string) *protocol.Model {
	model := fixture{provider: "acme", id: "think", compat: compat}.Model("https://llm.example.com/v1")
	model.MaxTokens, model.ContextWindow = 8192, 200_000
	return model
}

func encode(t testing.TB, req providers.Request) (*wire.Call, gjson.Result) {
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
	assert.Equal(t, "https://llm.example.com/v1/chat/completions", call.URL)
	assert.Equal(t, map[string][]string{"Authorization": {"Bearer sk-test"}}, map[string][]string(call.Header))
}

// TestEncode_flags: what each flag of models.json changes, as paths of the body
// and what is there; "" means nothing is.
func TestEncode_flags(t *testing.T) {
	for _, c := range []struct {
		compat string
		paths  map[string]string
	}{
		{``, map[string]string{"store": "false", "messages.0.role": `"system"`, "max_completion_tokens": "8192", "max_tokens": "",
			"stream_options.include_usage": "true", "reasoning_effort": `"medium"`, "tools.0.function.strict": "", "prompt_cache_key": "", "priority": ""}},
		{`{"supportsStore":false}`, map[string]string{"store": ""}},
		{`{"supportsDeveloperRole":true}`, map[string]string{"messages.0.role": `"developer"`}},
		{`{"supportsReasoningEffort":false}`, map[string]string{"reasoning_effort": ""}},
		{`{"reasoningEffortMap":{"medium":"default"}}`, map[string]string{"reasoning_effort": `"default"`}},
		{`{"supportsUsageInStreaming":false}`, map[string]string{"stream_options": ""}},
		{`{"supportsStrictMode":true}`, map[string]string{"tools.0.function.strict": "false"}},
		{`{"maxTokensField":"max_tokens"}`, map[string]string{"max_tokens": "8192", "max_completion_tokens": ""}},
		{`{"requiresToolResultName":true}`, map[string]string{"messages.3.name": `"read"`}},
		{`{"requiresNonNullAssistantContent":true}`, map[string]string{"messages.4.content": `""`}},
		{`{"requiresAssistantAfterToolResult":true}`, map[string]string{"messages.4.content": `""`}},
		{`{"requiresReasoningContentOnAssistantMessages":true}`, map[string]string{"messages.2.reasoning_content": `""`}},
		{`{"promptCacheKeyMode":"session"}`, map[string]string{"prompt_cache_key": `"sess"`}},
		{`{"promptCacheKeyMode":"none","supportsLongCacheRetention":true}`, map[string]string{"prompt_cache_key": ""}},
		{`{"supportsLongCacheRetention":true}`, map[string]string{"prompt_cache_retention": ""}}, // only where it was asked for
		{`{"thinkingFormat":"zai"}`, map[string]string{"thinking.type": `"enabled"`}},
		{`{"supportsOpenAIGrammarTools":true,"supportsMidConvoSystemMessages":true,"supportsMidConvoToolAdditions":true}`, map[string]string{"tools.0.type": `"function"`, "messages.1.role": `"user"`}},
		{`{"zaiToolStream":true}`, map[string]string{"tool_stream": "true"}},
		{`{"vllmPriority":-5}`, map[string]string{"priority": "-5"}},
		{`{"openRouterRouting":{"only":["a"]}}`, map[string]string{"provider": ""}}, // not OpenRouter
		{`{"vercelGatewayRouting":{"order":["b"]}}`, map[string]string{"providerOptions": `{"gateway":{"order":["b"]}}`}},
		{`{"thinkingTokenBudgetField":"thinking_budget"}`, map[string]string{"thinking_budget": "7168"}},
		{`{"cacheControlFormat":"anthropic"}`, map[string]string{"messages.0.content": `[{"type":"text","text":"You are a test agent.\n\n<cwd>\n/home/me/demo\n</cwd>","cache_control":{"type":"ephemeral"}}]`,
			"tools.2.cache_control": `{"type":"ephemeral"}`, "messages.2.content": `[{"type":"text","text":"Reading the file first.","cache_control":{"type":"ephemeral"}}]`, "messages.1.content": `"Read notes.md and fix the typo"`}},
	} {
		_, body := encode(t, conversation(far(c.compat)))
		for path, want := range c.paths {
			assert.Equal(t, want, body.Get(path).Raw, "%s: %s", c.compat, path)
		}
	}
}

func TestEncode_thinkingFormats(t *testing.T) {
	off, own := "none", "LOW"
	fields := []string{"reasoning_effort", "reasoning", "thinking", "enable_thinking", "chat_template_kwargs", "chat_template_args", "prompt_mode"}
	for _, c := range []struct {
		format, more string
		level        protocol.ThinkingLevel
		want         string // of the fields above, those that are there
	}{
		{"openai", "", "high", `reasoning_effort="high"`},
		{"openai", "", "off", ``},
		{"openai", "", "low", `reasoning_effort="LOW"`},
		{"openrouter", "", "high", `reasoning={"effort":"high"}`},
		{"openrouter", "", "off", `reasoning={"effort":"none"}`},
		{"together", "", "high", `reasoning_effort="high" reasoning={"enabled":true}`},
		{"together", "", "off", `reasoning={"enabled":false}`},
		{"ant-ling", "", "high", ``},
		{"ant-ling", "", "low", `reasoning={"effort":"LOW"}`},
		{"zai", "", "high", `reasoning_effort="high" thinking={"type":"enabled","clear_thinking":false}`},
		{"zai", "", "off", `thinking={"type":"disabled"}`},
		{"deepseek", "", "high", `reasoning_effort="high" thinking={"type":"enabled"}`},
		{"deepseek", "", "off", `thinking={"type":"disabled"}`},
		{"qwen", "", "high", `reasoning_effort="high" enable_thinking=true`},
		{"qwen", `,"supportsReasoningEffort":false`, "high", `enable_thinking=true`},
		{"qwen", "", "off", `enable_thinking=false`},
		{"qwen-chat-template", "", "high", `chat_template_kwargs={"enable_thinking":true,"preserve_thinking":true}`},
		{"qwen-chat-template", "", "off", `chat_template_kwargs={"enable_thinking":false,"preserve_thinking":true}`},
		{"chat-template", `,"chatTemplateKwargs":{"on":{"$var":"thinking.enabled"},"z":1,"e":{"$var":"thinking.effort"},"b":{"$var":"thinking.budget"},"q":{"$var":"nobody knows"}}`, "high",
			`chat_template_kwargs={"b":16384,"e":"high","on":true,"z":1}`},
		{"chat-template", `,"chatTemplateKwargs":{"e":{"$var":"thinking.effort"}}`, "off", `chat_template_kwargs={}`},
		{"chat-template", `,"chatTemplateKwargs":{"e":{"$var":"thinking.enabled","omitWhenOff":true},"f":false}`, "off", `chat_template_kwargs={"f":false}`},
		{"chat-template", `,"chatTemplateKwargs":{"e":{"$var":"thinking.enabled","omitWhenOff":true}}`, "high", `chat_template_kwargs={"e":true}`},
		{"baseten", `,"chatTemplateArgs":{"enable_thinking":{"$var":"thinking.enabled"}}`, "high", `reasoning_effort="high" chat_template_args={"enable_thinking":true}`},
		{"baseten", `,"chatTemplateArgs":{"enable_thinking":{"$var":"thinking.enabled"}}`, "off", `chat_template_args={"enable_thinking":false}`},
		{"string-thinking", "", "high", `thinking="high"`},
		{"string-thinking", "", "off", ``},
		{"mistral", "", "high", `prompt_mode="reasoning"`},
		{"mistral", "", "off", ``},
	} {
		model := far(`{"thinkingFormat":"` + c.format + `"` + c.more + `}`)
		model.ProviderConfig.ThinkingValues = map[string]*string{"low": &own}
		req := conversation(model)
		req.Thinking = c.level
		_, body := encode(t, req)
		var got []string
		for _, field := range fields {
			if v := body.Get(field); v.Exists() {
				got = append(got, field+"="+v.Raw)
			}
		}
		assert.Equal(t, c.want, strings.Join(got, " "), "%s %s", c.format, c.level)

		model.Reasoning = false
		_, body = encode(t, req)
		for _, field := range fields {
			if field != "chat_template_args" {
				assert.False(t, body.Get(field).Exists(), "%s: %s for a model that does not think", c.format, field)
			}
		}
	}
	model := far("")
	model.ProviderConfig.ThinkingValues = map[string]*string{"off": &off}
	req := conversation(model)
	req.Thinking = protocol.ThinkingOff
	_, body := encode(t, req)
	assert.Equal(t, "none", body.Get("reasoning_effort").Str, "a model that has a word for off")
}

// TestDetection: what is known of an endpoint by its provider's name or its
// address, and that models.json is stronger.
func TestDetection(t *testing.T) {
	body := func(provider, base, compat string) gjson.Result {
		model := fixture{provider: provider, compat: compat}.Model(base)
		model.ID = "m"
		_, v := encode(t, conversation(model))
		return v
	}
	for _, c := range []struct{ provider, base, developer, store, limit string }{
		{"acme", "https://llm.example.com/v1", "system", "false", "max_completion_tokens"},
		{"openai", "https://api.openai.com/v1", "developer", "false", "max_completion_tokens"},
		{"ollama", "http://localhost:11434/v1", "system", "", "max_tokens"},
		{"mine", "http://10.0.0.7:8000/v1", "system", "", "max_tokens"},
		{"openai", "http://127.0.0.1:4000/v1", "system", "", "max_tokens"},
		{"cerebras", "https://proxy.example/v1", "system", "", "max_completion_tokens"},
		{"mine", "https://api.cerebras.ai/v1", "system", "", "max_completion_tokens"},
		{"xai", "https://api.x.ai/v1", "system", "", "max_completion_tokens"},
		{"chutes", "https://llm.chutes.ai/v1", "system", "", "max_tokens"},
		{"deepseek", "https://api.deepseek.com", "system", "", "max_tokens"},
		{"zai", "https://api.z.ai/api/coding/paas/v4", "system", "", "max_tokens"},
		{"mistral", "https://api.mistral.ai/v1", "system", "", "max_tokens"},
		{"openrouter", "https://openrouter.ai/api/v1", "system", "false", "max_completion_tokens"},
		{"groq", "https://api.groq.com/openai/v1", "system", "false", "max_completion_tokens"},
		{"mine", "https://notmistral.ai/v1", "system", "false", "max_completion_tokens"},
	} {
		v := body(c.provider, c.base, "")
		assert.Equal(t, c.developer, v.Get("messages.0.role").Str, "%s %s", c.provider, c.base)
		assert.Equal(t, c.store, v.Get("store").Raw, "%s %s", c.provider, c.base)
		assert.True(t, v.Get(c.limit).Exists(), "%s %s", c.provider, c.base)
	}
	v := body("cerebras", "https://api.cerebras.ai/v1", `{"supportsStore":true,"supportsDeveloperRole":true}`)
	assert.Equal(t, "developer false", v.Get("messages.0.role").Str+" "+v.Get("store").Raw)
	v = body("broken", "https://x.example", `{"supportsStore":"yes","maxTokensField":"max_tokens"}`)
	assert.True(t, v.Get("max_tokens").Exists(), "one bad flag does not hide the others")
}

func TestEncode_openRouter(t *testing.T) {
	for _, m := range []*protocol.Model{
		fixture{provider: "openrouter", compat: `{"openRouterRouting":{"only":["a"]}}`}.Model("https://proxy.example/v1"),
		fixture{provider: "mine", compat: `{"openRouterRouting":{"only":["a"]}}`}.Model("https://openrouter.ai/api/v1"),
	} {
		_, body := encode(t, conversation(m))
		assert.Equal(t, `{"only":["a"]}`, body.Get("provider").Raw)
	}
}

// TestMistralAPI: a model of Mistral's own wire is asked by the same shape.
func TestMistralAPI(t *testing.T) {
	m := fixture{provider: "mistral"}.Model("https://api.mistral.ai")
	m.API = MistralAPI
	call, body := encode(t, conversation(m))
	assert.Equal(t, "https://api.mistral.ai/v1/chat/completions", call.URL)
	assert.Equal(t, "reasoning", body.Get("prompt_mode").Str)
	m.BaseURL = "https://proxy.example/mistral"
	call, _ = encode(t, conversation(m))
	assert.Equal(t, "https://proxy.example/mistral/chat/completions", call.URL)
}

func TestEncode_promptCache(t *testing.T) {
	for _, c := range []struct {
		base, compat string
		cache        providers.CacheRetention
		key, keep    string
	}{
		{"https://api.openai.com/v1", "", "", "sess", ""},
		{"https://api.openai.com/v1", "", providers.CacheLong, "sess", "24h"},
		{"https://api.openai.com/v1", "", providers.CacheNone, "", ""},
		{"https://x.example/v1", "", "", "", ""},
		{"https://x.example/v1", "", providers.CacheLong, "", ""},
		{"https://x.example/v1", `{"supportsLongCacheRetention":true}`, providers.CacheLong, "sess", "24h"},
	} {
		req := conversation(fixture{provider: "acme", compat: c.compat}.Model(c.base))
		req.Cache = c.cache
		_, body := encode(t, req)
		assert.Equal(t, c.key, body.Get("prompt_cache_key").Str, "%+v", c)
		assert.Equal(t, c.keep, body.Get("prompt_cache_retention").Str, "%+v", c)
	}
	for _, c := range []struct {
		compat string
		cache  providers.CacheRetention
		want   string
	}{
		{`{"cacheControlFormat":"anthropic","supportsLongCacheRetention":true}`, providers.CacheLong, `{"type":"ephemeral","ttl":"1h"}`},
		{`{"cacheControlFormat":"anthropic"}`, providers.CacheLong, `{"type":"ephemeral"}`},
		{`{"cacheControlFormat":"anthropic"}`, providers.CacheNone, ``},
	} {
		req := conversation(far(c.compat))
		req.Cache = c.cache
		_, body := encode(t, req)
		assert.Equal(t, c.want, body.Get("tools.2.cache_control").Raw)
	}
	claude := fixture{provider: "openrouter", id: "anthropic/claude-x"}.Model("https://openrouter.ai/api/v1")
	_, body := encode(t, conversation(claude))
	assert.True(t, body.Get("messages.2.content.0.cache_control").Exists(), "OpenRouter passes the marks on to Anthropic")
}

func TestEncode_affinity(t *testing.T) {
	call, _ := encode(t, conversation(far(`{"sendSessionAffinityHeaders":true}`)))
	const raw = "session_id" // as it is, not as net/http would write it
	assert.Equal(t, []string{"sess"}, map[string][]string(call.Header)[raw])
	assert.Equal(t, "sess", call.Header.Get("X-Session-Affinity"))
	assert.Equal(t, "sess", call.Header.Get("X-Client-Request-Id"))
	call, _ = encode(t, conversation(far(`{"sendSessionAffinityHeaders":true,"sessionAffinityFormat":"openai-nosession"}`)))
	assert.Empty(t, map[string][]string(call.Header)[raw])
	assert.Equal(t, "sess sess", call.Header.Get("X-Session-Affinity")+" "+call.Header.Get("X-Client-Request-Id"))
	call, _ = encode(t, conversation(far(`{"sendSessionAffinityHeaders":true,"sessionAffinityFormat":"openrouter"}`)))
	assert.Equal(t, "sess", call.Header.Get("X-Session-Id"))
	assert.Empty(t, map[string][]string(call.Header)[raw])
	req := conversation(far(`{"sendSessionAffinityHeaders":true}`))
	req.SessionID, req.Credentials = "", providers.Credentials{}
	call, _ = encode(t, req)
	assert.Empty(t, call.Header, "no session, no key: no header")
}

func TestEncode_messages(t *testing.T) {
	image := protocol.Image{Data: "QQ==", MimeType: "image/png"}
	const png = `{"type":"image_url","image_url":{"url":"data:image/png;base64,QQ=="}}`
	user := func(blocks ...protocol.Block) protocol.Message { return &protocol.UserMessage{Content: blocks} }
	text := func(s string) protocol.Text { return protocol.Text{Text: s} }
	own := func(model *protocol.Model, blocks ...protocol.Block) protocol.Message {
		return &protocol.AssistantMessage{Content: blocks, API: CompletionsAPI, Provider: model.Provider, Model: model.ID}
	}
	call := func(id, proof string) protocol.ToolCall {
		return protocol.ToolCall{ID: id, Name: "shot", Arguments: json.RawMessage(`{}`), ThoughtSignature: proof}
	}
	result := func(id string, blocks ...protocol.Block) protocol.Message {
		return &protocol.ToolResultMessage{ToolCallID: id, Content: blocks}
	}
	thought := func(signature string) protocol.Thinking {
		return protocol.Thinking{Thinking: "hm", Signature: signature}
	}
	const asked = `{"role":"user","content":"q"}`
	calls := func(ids ...string) string {
		var list []string
		for _, id := range ids {
			list = append(list, `{"id":"`+id+`","type":"function","function":{"name":"shot","arguments":"{}"}}`)
		}
		return `"tool_calls":[` + strings.Join(list, ",") + `]`
	}
	for _, c := range []struct {
		name, compat, base string
		in                 func(m *protocol.Model) []protocol.Message
		want               string
	}{
		{name: "text", in: func(*protocol.Model) []protocol.Message { return []protocol.Message{user(text("a"), text("b"))} },
			want: `{"role":"user","content":"a\n\nb"}`},
		{name: "images", in: func(*protocol.Model) []protocol.Message { return []protocol.Message{user(text("a"), image)} },
			want: `{"role":"user","content":[{"type":"text","text":"a"},` + png + `]}`},
		{name: "texts of an answer", in: func(m *protocol.Model) []protocol.Message {
			return []protocol.Message{user(text("q")), own(m, text("a"), text("b"))}
		},
			want: asked + `,{"role":"assistant","content":"ab"}`},
		{name: "thinking goes where it came from", in: func(m *protocol.Model) []protocol.Message {
			return []protocol.Message{user(text("q")), own(m, thought("reasoning"), thought("reasoning"), text("a")), user(text("r")), own(m, thought("reasoning_text"), text("b"))}
		}, want: asked + `,{"role":"assistant","content":"a","reasoning":"hm\nhm"},{"role":"user","content":"r"},{"role":"assistant","content":"b","reasoning_text":"hm"}`},
		{name: "thinking of no field", in: func(m *protocol.Model) []protocol.Message {
			return []protocol.Message{user(text("q")), own(m, thought(""), text("a"))}
		},
			want: asked + `,{"role":"assistant","content":"hm\n\na"}`},
		{name: "thinking of no field where one is required", compat: `{"requiresReasoningContentOnAssistantMessages":true}`,
			in: func(m *protocol.Model) []protocol.Message {
				return []protocol.Message{user(text("q")), own(m, thought("?"), text("a"))}
			},
			want: asked + `,{"role":"assistant","content":"a","reasoning_content":"hm"}`},
		{name: "thinking as text", compat: `{"requiresThinkingAsText":true}`,
			in: func(m *protocol.Model) []protocol.Message {
				return []protocol.Message{user(text("q")), own(m, thought("reasoning"), text("a"))}
			},
			want: asked + `,{"role":"assistant","content":"hm\n\na"}`},
		{name: "thinking among the parts", in: func(m *protocol.Model) []protocol.Message {
			return []protocol.Message{user(text("q")), own(m, thought("thinking"), text("a"))}
		},
			want: asked + `,{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"a"}]}`},
		{name: "images of tools", in: func(m *protocol.Model) []protocol.Message {
			return []protocol.Message{user(text("q")), own(m, call("x", ""), call("y", "")), result("x", image), result("y", text("two"), image), user(text("r"))}
		}, want: asked + `,{"role":"assistant","content":null,` + calls("x", "y") + `},{"role":"tool","tool_call_id":"x","content":"(see the image below)"},` +
			`{"role":"tool","tool_call_id":"y","content":"two"},{"role":"user","content":[{"type":"text","text":"The images of the tool results above:"},` + png + `,` + png + `]},{"role":"user","content":"r"}`},
		{name: "images of tools, users merged", base: "http://127.0.0.1:1", in: func(m *protocol.Model) []protocol.Message {
			return []protocol.Message{user(text("q")), own(m, call("x", "")), result("x", image), user(text("r"))}
		}, want: asked + `,{"role":"assistant","content":null,` + calls("x") + `},{"role":"tool","tool_call_id":"x","content":"(see the image below)"},` +
			`{"role":"user","content":[{"type":"text","text":"The images of the tool results above:"},` + png + `,{"type":"text","text":"r"}]}`},
		{name: "a bridge", compat: `{"requiresAssistantAfterToolResult":true}`, in: func(m *protocol.Model) []protocol.Message {
			return []protocol.Message{user(text("q")), own(m, call("x", "")), result("x", text("1")), user(text("r"))}
		}, want: asked + `,{"role":"assistant","content":"",` + calls("x") + `},{"role":"tool","tool_call_id":"x","content":"1"},` +
			`{"role":"assistant","content":"I have read the tool results."},{"role":"user","content":"r"}`},
		{name: "proofs", in: func(m *protocol.Model) []protocol.Message {
			return []protocol.Message{user(text("q")), own(m, call("x", `{"type":"reasoning.encrypted","id":"x","data":"e"}`), call("y", `{"google":{"thought_signature":"s"}}`), call("z", "c2ln"))}
		}, want: asked + `,{"role":"assistant","content":null,"tool_calls":[{"id":"x","type":"function","function":{"name":"shot","arguments":"{}"}},` +
			`{"id":"y","type":"function","function":{"name":"shot","arguments":"{}"},"extra_content":{"google":{"thought_signature":"s"}}},` +
			`{"id":"z","type":"function","function":{"name":"shot","arguments":"{}"}}],"reasoning_details":[{"type":"reasoning.encrypted","id":"x","data":"e"}]}` +
			missing("x") + missing("y") + missing("z")},
	} {
		t.Run(c.name, func(t *testing.T) {
			model := far(c.compat)
			if c.base != "" {
				model.BaseURL = c.base
			}
			_, body := encode(t, providers.Request{Model: model, Messages: c.in(model)})
			assert.JSONEq(t, "["+c.want+"]", body.Get("messages").Raw)
		})
	}
}

func missing(id string) string {
	return `,{"role":"tool","tool_call_id":"` + id + `","content":"No result was recorded for this call: it was interrupted and may or may not have taken effect."}`
}

func TestToolIDs(t *testing.T) {
	long := strings.Repeat("x", 60)
	for _, c := range []struct {
		provider, id string
		own          bool
		want         string
	}{
		{"acme", "call_1", false, "call_1"}, {"acme", "call_0|fc_0", false, "call_0"}, {"acme", "a:b|fc", false, "a_b"}, {"acme", long, false, long},
		{"acme", long + "|fc", false, long[:40]}, {"openai", long, false, long[:40]}, {"openai", long, true, long}, {"acme", "own|id", true, "own|id"},
		{"mistral", "call_1", false, wire.HashID("call_1", 9, 0)}, {"mistral", "Abc123xyZ", true, "Abc123xyZ"},
	} {
		e := &encoder{req: &providers.Request{Model: &protocol.Model{Provider: c.provider}}}
		e.compat = compatOf(e.req)
		assert.Equal(t, c.want, e.toolID(c.id, c.own, 0), "%s %s", c.provider, c.id)
		assert.NotEqual(t, c.want, e.toolID(c.id, c.own, 1), "another id when it is taken")
	}
}

func TestEncode_noTools(t *testing.T) {
	req := conversation(far(""))
	req.Tools = nil
	_, body := encode(t, req)
	assert.False(t, body.Get("tools").Exists())
	req.Model = far(`{"requiresToolsWithToolHistory":true}`)
	_, body = encode(t, req)
	assert.Equal(t, "[]", body.Get("tools").Raw)
	req.Messages = req.Messages[:1]
	_, body = encode(t, req)
	assert.False(t, body.Get("tools").Exists())
}

// TestExplain: Cerebras refuses a context that is too large without a word;
// others have other reasons for that.
func TestExplain(t *testing.T) {
	empty := func(provider string, status int) protocol.ErrorKind {
		model := fixture{provider: provider}.Model("https://x.example")
		return format{}.Explain(&providers.Request{Model: model}, wire.Classify(status, nil, nil), nil).Kind
	}
	assert.Equal(t, protocol.ErrorOverflow, empty("cerebras", 400))
	assert.Equal(t, protocol.ErrorOverflow, empty("cerebras", 413))
	assert.Equal(t, protocol.ErrorInvalid, empty("acme", 400))
	assert.Equal(t, protocol.ErrorServer, empty("cerebras", 500))
}

// TestFinishReason: a server that never gives a finish reason is believed when
// it says [DONE], and only then.
func TestFinishReason(t *testing.T) {
	f := fixture{provider: "acme", compat: `{"supportsFinishReason":false}`}
	for stream, ok := range map[string]bool{
		"data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\ndata: [DONE]\n\n": true,
		"data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n":                 false,
		"data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\ndata: [DON":       false,
		"data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\ndata: [DONE]":     true,
	} {
		got, failed := providertest.Play(t, f, []byte(stream))
		if !ok {
			require.NotNil(t, failed, stream)
			assert.Equal(t, protocol.ErrorCutStream, failed.Kind)
			continue
		}
		require.Nil(t, failed, stream)
		assert.Equal(t, "x", got.Content.Text(""))
		assert.Equal(t, protocol.StopStop, got.Stop)
	}
}

// TestOpenEnd: after the finish reason the rest, usage and [DONE], may be late
// or missing, even where the server keeps the connection open.
func TestOpenEnd(t *testing.T) {
	const text, usage = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}\n\n", "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3}}\n\n"
	f := fixture{provider: "acme"}
	for stream, input := range map[string]int64{text: 0, text + usage: 3, text + usage + "data: [DONE]\n\n": 3} {
		got, failed, took := providertest.PlayOpen(t, f, []byte(stream))
		require.Nil(t, failed)
		assert.Equal(t, "x", got.Content.Text(""))
		if input > 0 {
			assert.Equal(t, input, got.Usage.Input)
		} else {
			assert.Greater(t, got.Usage.Input, int64(30), "an estimate")
		}
		assert.Less(t, took, 10*time.Second)
	}
}

func BenchmarkEncode10000(b *testing.B) {
	providertest.BenchmarkEncode(b, format{}, far(""))
}

func BenchmarkDelta(b *testing.B) { providertest.BenchmarkDeltas(b, fixture{provider: "acme"}) }

// TestEncode_must: a tool that has to be called is named, unless the model thinks.
func TestEncode_must(t *testing.T) {
	req := conversation(far(""))
	req.Must, req.Thinking = "read", protocol.ThinkingOff
	_, body := encode(t, req)
	assert.Equal(t, `{"type":"function","function":{"name":"read"}}`, body.Get("tool_choice").Raw)
	req.Thinking = protocol.ThinkingHigh
	_, body = encode(t, req)
	assert.False(t, body.Get("tool_choice").Exists())
}
