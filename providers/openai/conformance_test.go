package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"troupe/protocol"
	"troupe/providers"
	"troupe/providers/providertest"
)

func TestConformance(t *testing.T) { providertest.Run(t, fixture{provider: "acme"}) }

// TestDialects asks of the endpoints with rules of their own what TestConformance
// asks of a local server.
func TestDialects(t *testing.T) {
	for _, f := range []fixture{
		{provider: "openai"}, {provider: "mistral"}, {provider: "deepseek"}, {provider: "openrouter", id: "anthropic/claude-x"},
		{provider: "acme", compat: `{"requiresAssistantAfterToolResult":true,"requiresToolResultName":true,"requiresThinkingAsText":true}`},
		{provider: "zai"}, {provider: "acme", compat: `{"thinkingFormat":"qwen-chat-template","supportsStrictMode":true}`},
	} {
		t.Run(f.provider+f.compat, func(t *testing.T) { providertest.CheckRequests(t, f) })
	}
}

// fixture is the server's side of chat completions, in the dialect of a
// provider.
type fixture struct{ provider, id, compat string }

func (fixture) New(client *providers.Client) providers.Provider { return NewCompletions(client) }

func (f fixture) Model(baseURL string) *protocol.Model {
	id := f.id
	if id == "" {
		id = "m1"
	}
	return &protocol.Model{
		ID: id, Provider: f.provider, API: CompletionsAPI, BaseURL: baseURL, Reasoning: true, Input: []string{"text", "image"},
		Cost:          protocol.ModelCost{Input: 1, Output: 2, CacheRead: 0.1, CacheWrite: 1.25},
		ContextWindow: 128_000, MaxTokens: 16_000, Settings: &protocol.ModelExtra{Compat: json.RawMessage(f.compat)},
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

var (
	functionName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	mistralID    = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)
)

// Check knows the rules of the chat completions reference, those of strict chat
// templates for local servers, and those of the dialects.
func (f fixture) Check(header http.Header, body []byte, req providers.Request) error {
	r := &rules{req: req, compat: compatOf(&req), seen: map[string]bool{}}
	r.Must(header.Get("Authorization") == "Bearer "+req.Credentials.Key, "key")
	r.Must(jsontext.Value(body).IsValid(), "UTF-8, surrogates, duplicate names")
	v := gjson.ParseBytes(body)
	r.Must(v.Get("model").Str != "" && v.Get("stream").Bool(), "model, stream")
	r.Must(v.Get("max_tokens").Int()+v.Get("max_completion_tokens").Int() >= 1, "a limit of the answer")
	names := map[string]bool{}
	for _, tool := range v.Get("tools").Array() {
		name := tool.Get("function.name").Str
		r.Must(tool.Get("type").Str == "function" && functionName.MatchString(name) && !names[name], "tool %q", name)
		r.Must(tool.Get("function.parameters.type").Str == "object", "parameters")
		names[name] = true
	}
	r.Must(!v.Get("tools").Exists() || len(names) > 0, "[] is too short - 'tools'")
	r.Must(req.Model.Reasoning || !v.Get("reasoning_effort").Exists() && !v.Get("reasoning").Exists() && !v.Get("thinking").Exists(), "thinking for a model that does not")
	r.messages(v.Get("messages").Array())
	return r.Err()
}

type rules struct {
	providertest.Rules
	req    providers.Request
	compat *compat
	seen   map[string]bool
	open   map[string]bool // calls that wait for their result
}

func (r *rules) messages(list []gjson.Result) {
	r.Must(len(list) > 0, "messages must not be empty")
	before := ""
	for i, m := range list {
		role := m.Get("role").Str
		r.Must(role == "tool" || len(r.open) == 0, "tool_call_ids without response messages")
		switch role {
		case "system", "developer":
			r.Must(i == 0, "system must be first")
			r.Must(role == "system" || r.req.Model.Reasoning && r.compat.SupportsDeveloperRole, "developer")
			r.Must(strings.TrimSpace(m.Get("content").String()) != "", "system content")
		case "user":
			r.Must(!r.compat.mergeUsers || before != "user", "roles must alternate")
			r.Must(!r.compat.RequiresAssistantAfterToolResult || before != "tool", "user after tool")
			r.user(m.Get("content"))
		case "assistant":
			r.assistant(m)
		case "tool":
			id := m.Get("tool_call_id").Str
			r.Must(r.open[id], "unexpected tool_call_id %q", id)
			delete(r.open, id)
			r.Must(m.Get("content").Type == gjson.String && m.Get("content").Str != "", "tool content")
			r.Must(!r.compat.RequiresToolResultName || m.Get("name").Str != "", "tool name")
		default:
			r.Must(false, "role %q", role)
		}
		before = role
	}
	r.Must(len(r.open) == 0, "tool_call_ids without response messages")
	r.Must(!r.compat.mergeUsers || before != "assistant", "expected last role user or tool")
}

func (r *rules) user(content gjson.Result) {
	if content.Type == gjson.String {
		r.Must(strings.TrimSpace(content.Str) != "", "user content")
		return
	}
	parts := content.Array()
	r.Must(len(parts) > 0, "user content")
	for _, part := range parts {
		switch part.Get("type").Str {
		case "text":
			r.Must(strings.TrimSpace(part.Get("text").Str) != "", "text part")
		case "image_url":
			r.Must(r.req.Model.Accepts("image") && !r.req.BlockImages, "image that nobody wants")
			r.Must(strings.HasPrefix(part.Get("image_url.url").Str, "data:image/png;base64,iVBOR"), "data URL")
		default:
			r.Must(false, "part %q", part.Get("type").Str)
		}
	}
}

func (r *rules) assistant(m gjson.Result) {
	content, calls := m.Get("content"), m.Get("tool_calls").Array()
	r.Must(len(calls) > 0 || content.String() != "", "content or tool_calls")
	r.Must(!m.Get("tool_calls").Exists() || len(calls) > 0, "tool_calls must not be empty")
	r.open = map[string]bool{}
	for _, call := range calls {
		id := call.Get("id").Str
		r.Must(id != "" && !r.seen[id], "id %q is empty or not unique", id)
		r.Must(!r.compat.mistralIDs || mistralID.MatchString(id), "Tool call id must be a-z, A-Z, 0-9, with a length of 9: %q", id)
		r.Must(functionName.MatchString(call.Get("function.name").Str), "function name")
		args := call.Get("function.arguments").Str
		r.Must(jsontext.Value(args).IsValid() && gjson.Parse(args).IsObject(), "arguments %q", args)
		r.seen[id], r.open[id] = true, true
	}
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

func FuzzStream(f *testing.F) {
	providertest.Fuzz(f, fixture{provider: "acme"}, func(req providers.Request, body io.Reader) iter.Seq2[protocol.Part, error] {
		return providers.Replay(context.Background(), req, completions{}, body)
	})
}
