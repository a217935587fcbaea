package anthropic

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
	"troupe/providers/providertest"
	"troupe/providers/wire"
)

// conversation is the one of testdata/request.json, which pi sent for it.
func conversation(model *protocol.Model) providers.Request {
	object := func(props string, required string) json.RawMessage {
		return json.RawMessage(`{"type":"object","properties":` + props + `,"required":` + required + `}`)
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
			answer(protocol.Text{Text: "Reading the file first."}, call("toolu_0", "read", `{"path":"notes.md"}`)),
			result("toolu_0", "# Notes\nfix teh typo\n"),
			answer(call("toolu_0", "edit", `{"path":"notes.md","edits":[{"oldText":"teh","newText":"the"}]}`), call("toolu_1", "bash", `{"command":"wc -l notes.md"}`)),
			result("toolu_0", "Successfully replaced 1 block(s) in notes.md."),
			result("toolu_1", "2 notes.md\n"),
		},
		Tools: []protocol.ToolInfo{
			{Name: "read", Description: "(omitted)", Parameters: object(`{"path":`+str+`,"offset":`+num+`,"limit":`+num+`}`, `["path"]`)},
			{Name: "edit", Description: "(omitted)", Parameters: object(`{"path":`+str+`,"edits":{"type":"array","items":`+string(object(`{"oldText":`+str+`,"newText":`+str+`}`, `["oldText","newText"]`))+`,"description":"(omitted)"}}`, `["path","edits"]`)},
			{Name: "bash", Description: "(omitted)", Parameters: object(`{"command":`+str+`,"timeout":`+num+`}`, `["command"]`)},
		},
		Thinking:    protocol.ThinkingMedium,
		Credentials: providers.Credentials{Key: "sk-test"},
	}
}

func encode(t testing.TB, req providers.Request) (*wire.Call, gjson.Result) {
	t.Helper()
	call, err := format{}.Encode(&req)
	require.NoError(t, err)
	require.True(t, json.Valid(call.Body), "%s", call.Body)
	return call, gjson.ParseBytes(call.Body)
}

func withCompat(model *protocol.Model, compat string) *protocol.Model {
	model.ProviderConfig = &protocol.ProviderConfig{Compat: json.RawMessage(compat)}
	return model
}

func TestEncode_sample(t *testing.T) {
	want, err := os.ReadFile("testdata/request.json")
	require.NoError(t, err)
	model := withCompat(fixture{}.Model("http://127.0.0.1:1/anthropic"), `{"supportsEagerToolInputStreaming":true}`)
	call, body := encode(t, conversation(model))
	assert.JSONEq(t, string(want), body.Raw)
	assert.Equal(t, "http://127.0.0.1:1/anthropic/v1/messages", call.URL)
	assert.Equal(t, map[string][]string{"X-Api-Key": {"sk-test"}, "Anthropic-Version": {"2023-06-01"}, "Anthropic-Beta": {"interleaved-thinking-2025-05-14"}}, map[string][]string(call.Header))
}

func TestEncode_thinking(t *testing.T) {
	const adaptive = `{"forceAdaptiveThinking":true}`
	word := func(s string) *string { return &s }
	for _, c := range []struct {
		name     string
		compat   string
		values   map[string]*string
		level    protocol.ThinkingLevel
		asked    int64
		thinking string
		effort   string
		max      int64
		beta     bool
	}{
		{name: "off", level: "off", thinking: `{"type":"disabled"}`, max: 64_000},
		{name: "nothing said", thinking: `{"type":"disabled"}`, max: 64_000},
		{name: "cannot be off", level: "off", values: map[string]*string{"off": nil}, max: 64_000},
		{name: "budget", level: "medium", thinking: `{"type":"enabled","budget_tokens":8192,"display":"summarized"}`, max: 64_000, beta: true},
		{name: "budget on top", level: "low", asked: 2000, thinking: `{"type":"enabled","budget_tokens":2048,"display":"summarized"}`, max: 4048, beta: true},
		{name: "budget over the model", level: "high", asked: 60_000, thinking: `{"type":"enabled","budget_tokens":16384,"display":"summarized"}`, max: 64_000, beta: true},
		{name: "adaptive", compat: adaptive, level: "medium", thinking: `{"type":"adaptive","display":"summarized"}`, effort: "medium", max: 64_000},
		{name: "adaptive minimal", compat: adaptive, level: "minimal", thinking: `{"type":"adaptive","display":"summarized"}`, effort: "low", max: 64_000},
		{name: "adaptive in its own words", compat: adaptive, level: "xhigh", values: map[string]*string{"xhigh": word("max")}, thinking: `{"type":"adaptive","display":"summarized"}`, effort: "max", max: 64_000},
		{name: "adaptive off", compat: adaptive, level: "off", thinking: `{"type":"disabled"}`, max: 64_000},
		{name: "adaptive asked", compat: adaptive, level: "high", asked: 100, thinking: `{"type":"adaptive","display":"summarized"}`, effort: "high", max: 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			model := withCompat(fixture{}.Model("http://127.0.0.1:1"), c.compat)
			model.ProviderConfig.ThinkingValues = c.values
			req := conversation(model)
			req.Thinking, req.MaxTokens = c.level, c.asked
			call, body := encode(t, req)
			assert.Equal(t, c.thinking, body.Get("thinking").Raw)
			assert.Equal(t, c.effort, body.Get("output_config.effort").Str)
			assert.Equal(t, c.max, body.Get("max_tokens").Int())
			assert.Equal(t, c.beta, call.Header.Get("Anthropic-Beta") != "")
		})
	}
	t.Run("no room", func(t *testing.T) {
		model := fixture{}.Model("http://127.0.0.1:1")
		model.MaxTokens = 2047
		_, body := encode(t, conversation(model))
		assert.Equal(t, `{"type":"disabled"}`, body.Get("thinking").Raw, "less than the least budget")
		model.MaxTokens = 3000
		_, body = encode(t, conversation(model))
		assert.Equal(t, int64(3000-1024), body.Get("thinking.budget_tokens").Int())
	})
	t.Run("budgets of the settings", func(t *testing.T) {
		req := conversation(fixture{}.Model("http://127.0.0.1:1"))
		req.Budgets = map[protocol.ThinkingLevel]int64{"medium": 4321}
		_, body := encode(t, req)
		assert.Equal(t, int64(4321), body.Get("thinking.budget_tokens").Int())
	})
	t.Run("a model that cannot", func(t *testing.T) {
		model := fixture{}.Model("http://127.0.0.1:1")
		model.Reasoning = false
		_, body := encode(t, conversation(model))
		assert.False(t, body.Get("thinking").Exists())
	})
}

func TestEncode_cache(t *testing.T) {
	const short, long = `{"type":"ephemeral"}`, `{"type":"ephemeral","ttl":"1h"}`
	places := []string{"system.0.cache_control", "tools.2.cache_control", "messages.4.content.1.cache_control"}
	for _, c := range []struct {
		name, base, compat string
		cache              providers.CacheRetention
		want               [3]string
	}{
		{"usual", "https://api.anthropic.com", ``, "", [3]string{short, short, short}},
		{"long", "https://api.anthropic.com", ``, providers.CacheLong, [3]string{long, long, long}},
		{"long elsewhere", "https://x.example", ``, providers.CacheLong, [3]string{short, short, short}},
		{"long elsewhere, it says", "https://x.example", `{"supportsLongCacheRetention":true}`, providers.CacheLong, [3]string{long, long, long}},
		{"long, but it cannot", "https://api.anthropic.com", `{"supportsLongCacheRetention":false}`, providers.CacheLong, [3]string{short, short, short}},
		{"not on tools", "https://x.example", `{"supportsCacheControlOnTools":false}`, "", [3]string{short, "", short}},
		{"none", "https://api.anthropic.com", ``, providers.CacheNone, [3]string{}},
	} {
		req := conversation(withCompat(fixture{}.Model(c.base), c.compat))
		req.Cache = c.cache
		_, body := encode(t, req)
		count := 0
		for i, place := range places {
			assert.Equal(t, c.want[i], body.Get(place).Raw, "%s: %s", c.name, place)
			if c.want[i] != "" {
				count++
			}
		}
		assert.Equal(t, count, strings.Count(body.Raw, "cache_control"), c.name)
	}
	req := conversation(fixture{}.Model("http://127.0.0.1:1"))
	image := protocol.Image{Data: "QQ==", MimeType: "image/png"}
	for _, last := range []protocol.Message{
		&protocol.UserMessage{Content: protocol.Content{protocol.Text{Text: "a"}, protocol.Text{Text: "b"}}},
		&protocol.UserMessage{Content: protocol.Content{protocol.Text{Text: "a"}, image}},
	} {
		req.Messages = append(conversation(req.Model).Messages, last)
		_, body := encode(t, req)
		assert.Equal(t, short, body.Get("messages.4.content.3.cache_control").Raw, "the user's words join the results before them")
		assert.False(t, body.Get("messages.5").Exists())
	}
}

func TestEncode_blocks(t *testing.T) {
	model := fixture{}.Model("http://127.0.0.1:1")
	own := func(blocks ...protocol.Block) protocol.Message {
		return &protocol.AssistantMessage{Content: blocks, API: API, Provider: model.Provider, Model: model.ID, StopReason: protocol.StopStop}
	}
	image := protocol.Image{Data: "QQ==", MimeType: "image/png"}
	user := &protocol.UserMessage{Content: protocol.TextContent("hi")}
	content := func(compat string, messages ...protocol.Message) string {
		t.Helper()
		req := providers.Request{Model: withCompat(model, compat), Messages: messages, Cache: providers.CacheNone}
		_, body := encode(t, req)
		return body.Get("messages.1.content").Raw
	}
	text := protocol.Text{Text: "t"}
	assert.Equal(t, `[{"type":"thinking","thinking":"h","signature":"s=="},{"type":"redacted_thinking","data":"r=="},{"type":"text","text":"bare"},{"type":"text","text":"t"}]`,
		content("", user, own(protocol.Thinking{Thinking: "h", Signature: "s=="}, protocol.Thinking{Signature: "r==", Redacted: true}, protocol.Thinking{Thinking: "bare"}, text)))
	assert.Equal(t, `[{"type":"thinking","thinking":"bare","signature":""},{"type":"text","text":"t"}]`,
		content(`{"allowEmptySignature":true}`, user, own(protocol.Thinking{Thinking: "bare"}, text)))
	call := own(protocol.ToolCall{ID: "a", Name: "shot", Arguments: json.RawMessage(`{}`)})
	result := func(content ...protocol.Block) protocol.Message {
		return &protocol.ToolResultMessage{ToolCallID: "a", Content: content, IsError: true}
	}
	_, body := encode(t, providers.Request{Model: model, Cache: providers.CacheNone, Messages: []protocol.Message{
		user, call, result(text, protocol.Text{Text: "u"}), own(text), user, call, result(image), user, call, result(text, image)}})
	const png = `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QQ=="}}`
	assert.Equal(t, `"t\nu"`, body.Get("messages.2.content.0.content").Raw)
	assert.True(t, body.Get("messages.2.content.0.is_error").Bool())
	assert.Equal(t, `[{"type":"text","text":"(see the image)"},`+png+`]`, body.Get("messages.6.content.0.content").Raw)
	assert.Equal(t, `[{"type":"text","text":"t"},`+png+`]`, body.Get("messages.8.content.0.content").Raw)
	assert.Equal(t, `[{"name":"shot","description":"No longer available.","input_schema":{"type":"object","properties":{}}}]`, body.Get("tools").Raw, "calls need tools, even when none is active")
	assert.Equal(t, "none", body.Get("tool_choice.type").Str)
	assert.False(t, body.Get("system").Exists())
}

func TestEncode_headers(t *testing.T) {
	model := withCompat(fixture{}.Model("http://127.0.0.1:1"), `{"sendSessionAffinityHeaders":true}`)
	req := conversation(model)
	req.SessionID, req.UserID, req.Deployment = "sess", "someone", "deployed"
	req.Credentials = providers.Credentials{Key: "tok", Bearer: true, Headers: map[string]string{"anthropic-beta": "context-1m", "X-Team": "t"}}
	call, body := encode(t, req)
	assert.Equal(t, "Bearer tok", call.Header.Get("Authorization"))
	assert.Empty(t, call.Header.Get("X-Api-Key"))
	assert.Equal(t, "context-1m,"+wire.InterleavedBeta, call.Header.Get("Anthropic-Beta"))
	assert.Equal(t, "sess", call.Header.Get("X-Session-Affinity"))
	assert.Equal(t, "t", call.Header.Get("X-Team"))
	assert.Equal(t, "someone", body.Get("metadata.user_id").Str)
	assert.Equal(t, "deployed", body.Get("model").Str)

	req.Credentials.Headers["anthropic-beta"] = wire.InterleavedBeta + ",other"
	call, _ = encode(t, req)
	assert.Equal(t, wire.InterleavedBeta+",other", call.Header.Get("Anthropic-Beta"), "not twice")
}

func TestEndpoint(t *testing.T) {
	for base, want := range map[string]string{
		"https://api.anthropic.com":           "https://api.anthropic.com/v1/messages",
		"https://api.anthropic.com/":          "https://api.anthropic.com/v1/messages",
		"https://api.anthropic.com/v1":        "https://api.anthropic.com/v1/messages",
		"https://api.anthropic.com/v1/":       "https://api.anthropic.com/v1/messages",
		"https://api.minimax.io/anthropic":    "https://api.minimax.io/anthropic/v1/messages",
		"https://x.example/v1/messages":       "https://x.example/v1/messages",
		"https://x.example/v1?version=2":      "https://x.example/v1/messages?version=2",
		"https://x.example/anthropic?a=b&c=d": "https://x.example/anthropic/v1/messages?a=b&c=d",
	} {
		assert.Equal(t, want, endpoint(base))
	}
}

func BenchmarkEncode10000(b *testing.B) {
	providertest.BenchmarkEncode(b, format{}, fixture{}.Model("http://127.0.0.1:1"))
}

func BenchmarkDelta(b *testing.B) { providertest.BenchmarkDeltas(b, fixture{}) }

// TestEncode_must: a tool that has to be called is named, unless the model thinks.
func TestEncode_must(t *testing.T) {
	req := conversation(fixture{}.Model("http://127.0.0.1:1"))
	req.Must, req.Thinking = "read", protocol.ThinkingOff
	_, body := encode(t, req)
	assert.Equal(t, `{"type":"tool","name":"read"}`, body.Get("tool_choice").Raw)
	req.Thinking = protocol.ThinkingHigh
	_, body = encode(t, req)
	assert.False(t, body.Get("tool_choice").Exists())
}
