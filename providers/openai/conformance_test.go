package openai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"troupe/protocol"
	"troupe/providers"
	"troupe/providers/providertest"
	"troupe/providers/wire"
)

func TestConformance(t *testing.T) { providertest.Run(t, fixture{provider: "acme"}) }

var dialectFixtures = []fixture{
	{provider: "openai"}, {provider: "mistral"}, {provider: "deepseek"}, {provider: "openrouter", id: "anthropic/claude-x"},
	{provider: "acme", compat: `{"requiresAssistantAfterToolResult":true,"requiresToolResultName":true,"requiresThinkingAsText":true}`},
	{provider: "zai"}, {provider: "acme", compat: `{"thinkingFormat":"qwen-chat-template","supportsStrictMode":true}`},
}

// TestDialects asks of the endpoints with rules of their own what TestConformance
// asks of a local server.
func TestDialects(t *testing.T) {
	for _, f := range dialectFixtures {
		t.Run(f.provider+f.compat, func(t *testing.T) { providertest.CheckRequests(t, f) })
	}
}

// fixture is the server's side of chat completions, in the dialect of a
// provider.
type fixture struct{ provider, id, compat string }

func (fixture) New(client *wire.Client) providers.Provider { return New(client) }

func (f fixture) Model(baseURL string) *protocol.Model {
	id := f.id
	if id == "" {
		id = "m1"
	}
	return &protocol.Model{
		ID: id, Provider: f.provider, API: CompletionsAPI, BaseURL: baseURL, Reasoning: true, Input: []string{"text", "image"},
		Cost:          protocol.ModelCost{Input: 1, Output: 2, CacheRead: 0.1, CacheWrite: 1.25},
		ContextWindow: 128_000, MaxTokens: 16_000, ProviderConfig: &protocol.ProviderConfig{Compat: json.RawMessage(f.compat)},
	}
}

func chunk(id, choice, more string) []byte {
	return fmt.Appendf(nil, "data: {\"id\":%s,\"object\":\"chat.completion.chunk\",\"created\":1760000000,\"model\":\"m1\",\"choices\":[%s]%s}\n\n", quote(id), choice, more)
}

func quote(s string) string { return string(protocol.AppendString(nil, s)) }

// rawQuote keeps bytes that are not UTF-8, and escapes that the test put there.
func rawQuote(s string) string {
	if strings.Contains(s, "\\u") || strings.ToValidUTF8(s, "") != s {
		return `"` + s + `"`
	}
	return quote(s)
}

func (fixture) Answer(a providertest.Answer) [][]byte {
	var events [][]byte
	add := func(format string, args ...any) {
		choice := fmt.Sprintf(`{"index":0,"delta":{%s},"finish_reason":null}`, fmt.Sprintf(format, args...))
		events = append(events, chunk(a.ID, choice, `,"usage":null`))
	}
	add(`"role":"assistant","content":""`)
	var calls []providertest.Block
	for _, b := range a.Blocks {
		for _, piece := range b.Pieces {
			switch b.Kind {
			case protocol.BlockText:
				add(`"content":%s`, rawQuote(piece))
			case protocol.BlockThinking:
				add(`"reasoning_content":%s`, rawQuote(piece))
			}
		}
		if b.Kind == protocol.BlockToolCall {
			add(`"tool_calls":[{"index":%d,"id":%s,"type":"function","function":{"name":%s,"arguments":""}}]`, len(calls), quote(b.ID), quote(b.Name))
			calls = append(calls, b)
		}
	}
	for piece := range 10 { // the calls grow side by side
		for i, b := range calls {
			if piece < len(b.Pieces) {
				add(`"tool_calls":[{"index":%d,"function":{"arguments":%s}}]`, i, quote(b.Pieces[piece]))
			}
		}
	}
	finish := map[protocol.StopReason]string{"stop": "stop", "length": "length", "toolUse": "tool_calls"}[a.Stop]
	u := a.Usage
	return append(events,
		chunk(a.ID, fmt.Sprintf(`{"index":0,"delta":{},"finish_reason":%q}`, finish), ""),
		chunk(a.ID, "", fmt.Sprintf(`,"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}`,
			u.Input+u.CacheRead, u.Output, u.Input+u.CacheRead+u.Output, u.CacheRead)),
		[]byte("data: [DONE]\n\n"))
}

// Content: the signature of thinking is the field it came in.
func (fixture) Content(a providertest.Answer) protocol.Content {
	content := a.Content()
	for i, b := range content {
		if b, ok := b.(protocol.Thinking); ok {
			b.Signature = "reasoning_content"
			content[i] = b
		}
	}
	return content
}

func (fixture) Keepalive() []byte { return []byte(": OPENROUTER PROCESSING\n\n") }

func (fixture) Failure() []byte {
	return []byte("data: {\"id\":\"x\",\"error\":{\"code\":503,\"message\":\"Provider overloaded\"},\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"},\"finish_reason\":\"error\"}]}\n\n")
}

func (fixture) Refusal(status int, message string) []byte {
	return fmt.Appendf(nil, `{"error":{"message":%s,"type":null,"param":null,"code":null}}`, quote(message))
}

func (f fixture) Check(header http.Header, body []byte, req providers.Request) error {
	c := compatOf(&req)
	return providertest.CheckCompletions(header, body, req, providertest.CompletionsRules{
		Developer: c.SupportsDeveloperRole, Alternate: c.mergeUsers, Bridge: c.RequiresAssistantAfterToolResult,
		ResultNames: c.RequiresToolResultName, NineLetterIDs: c.mistralIDs,
	})
}

func TestCheckKnowsRules(t *testing.T) {
	f := fixture{provider: "acme"}
	req := providers.Request{Model: f.Model("http://127.0.0.1"), Credentials: providers.Credentials{Key: "k"}}
	header := http.Header{"Authorization": {"Bearer k"}}
	good := `{"model":"m","max_tokens":10,"stream":true,"messages":[{"role":"system","content":"s"},{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"x","type":"function","function":{"name":"a","arguments":"{}"}}]},{"role":"tool","tool_call_id":"x","content":"r"}]}`
	if err := f.Check(header, []byte(good), req); err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{
		{`"hi"`, `" "`}, {`"tool_call_id":"x"`, `"tool_call_id":"z"`}, {`"{}"`, `"[]"`}, {`"max_tokens":10`, `"max_tokens":0`},
		{`,{"role":"tool","tool_call_id":"x","content":"r"}`, ``}, {`"hi"`, `"\ud800"`}, {`"name":"a"`, `"name":"a.b"`},
		{`"content":"r"`, `"content":""`}, {`{"role":"user","content":"hi"}`, `{"role":"user","content":"hi"},{"role":"user","content":"ho"}`},
		{`"role":"system"`, `"role":"developer"`},
	} {
		bad := strings.Replace(good, change[0], change[1], 1)
		if change[0] == `"role":"system"` {
			req.Model.Reasoning = false
		}
		if !json.Valid([]byte(bad)) || bad == good {
			t.Fatalf("bad test: %s", bad)
		}
		if f.Check(header, []byte(bad), req) == nil {
			t.Errorf("not noticed: %s", bad)
		}
	}
}

func TestRecorded(t *testing.T) { providertest.Recorded(t, fixture{provider: "acme"}) }

func FuzzStream(f *testing.F) { providertest.Fuzz(f, fixture{provider: "acme"}) }
