package responses

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

func TestConformance(t *testing.T) { providertest.Run(t, fixture{}) }

// TestVariants asks of endpoints with rules of their own what TestConformance
// asks of a local server.
func TestVariants(t *testing.T) {
	for _, f := range []fixture{
		{provider: "openai", id: "gpt-5.5"}, {compat: `{"supportsDeveloperRole":false,"supportsStrictMode":true,"sessionAffinityFormat":"openrouter"}`},
	} {
		t.Run(f.provider+f.compat, func(t *testing.T) { providertest.CheckRequests(t, f) })
	}
}

// fixture is the server's side of the wire.
type fixture struct{ provider, id, compat string }

func (fixture) New(client *wire.Client) providers.Provider { return New(client) }

func (f fixture) Model(baseURL string) *protocol.Model {
	provider, id := f.provider, f.id
	if provider == "" {
		provider, id = "acme", "gpt-x"
	}
	return &protocol.Model{
		ID: id, Provider: provider, API: API, BaseURL: baseURL, Reasoning: true, Input: []string{"text", "image"},
		Cost:          protocol.ModelCost{Input: 1.25, Output: 10, CacheRead: 0.125},
		ContextWindow: 400_000, MaxTokens: 128_000, ProviderConfig: &protocol.ProviderConfig{Compat: json.RawMessage(f.compat)},
	}
}

// events numbers the events of an answer.
type events struct {
	list [][]byte
}

func (e *events) add(name, format string, args ...any) {
	e.list = append(e.list, event(name, fmt.Sprintf(`"sequence_number":%d,`, len(e.list))+format, args...))
}

func event(name, format string, args ...any) []byte {
	return fmt.Appendf(nil, "event: %s\ndata: {\"type\":%q,%s}\n\n", name, name, fmt.Sprintf(format, args...))
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
	e := &events{}
	e.add("response.created", `"response":{"id":%s,"status":"in_progress","output":[]}`, quote(a.ID))
	e.add("response.in_progress", `"response":{"id":%s}`, quote(a.ID))
	for i, b := range a.Blocks {
		switch b.Kind {
		case protocol.BlockThinking:
			e.reasoning(i, b)
		case protocol.BlockText:
			e.message(i, b)
		case protocol.BlockToolCall:
			e.call(i, b)
		}
	}
	status, details := "completed", "null"
	if a.Stop == protocol.StopLength {
		status, details = "incomplete", `{"reason":"max_output_tokens"}`
	}
	u := a.Usage
	e.add("response."+status, `"response":{"id":%s,"object":"response","status":%q,"error":null,"incomplete_details":%s,"output":[],"usage":{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d},"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":1},"total_tokens":%d}}`,
		quote(a.ID), status, details, u.Input+u.CacheRead, u.CacheRead, u.Output, u.Input+u.CacheRead+u.Output)
	return e.list
}

func reasoningItem(b providertest.Block) string {
	return fmt.Sprintf(`{"id":"rs_1","type":"reasoning","encrypted_content":%q,"summary":[{"type":"summary_text","text":%s}]}`, b.Signature, quote(b.Text()))
}

func (e *events) reasoning(i int, b providertest.Block) {
	e.add("response.output_item.added", `"output_index":%d,"item":{"id":"rs_1","type":"reasoning","summary":[]}`, i)
	e.add("response.reasoning_summary_part.added", `"item_id":"rs_1","output_index":%d,"summary_index":0,"part":{"type":"summary_text","text":""}`, i)
	for _, piece := range b.Pieces {
		e.add("response.reasoning_summary_text.delta", `"item_id":"rs_1","output_index":%d,"summary_index":0,"delta":%s`, i, rawQuote(piece))
	}
	e.add("response.output_item.done", `"output_index":%d,"item":%s`, i, reasoningItem(b))
}

func (e *events) message(i int, b providertest.Block) {
	id := fmt.Sprintf("msg_%d", i)
	e.add("response.output_item.added", `"output_index":%d,"item":{"id":%q,"type":"message","status":"in_progress","content":[],"role":"assistant"}`, i, id)
	e.add("response.content_part.added", `"item_id":%q,"output_index":%d,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}`, id, i)
	for _, piece := range b.Pieces {
		e.add("response.output_text.delta", `"item_id":%q,"output_index":%d,"content_index":0,"delta":%s`, id, i, rawQuote(piece))
	}
	item := fmt.Sprintf(`{"id":%q,"type":"message","status":"completed","content":[{"type":"output_text","text":%s,"annotations":[]}],"role":"assistant"}`, id, rawQuote(b.Text()))
	e.add("response.output_item.done", `"output_index":%d,"item":%s`, i, item)
}

func (e *events) call(i int, b providertest.Block) {
	const form = `{"id":"fc_%s","type":"function_call","status":%q,"arguments":%s,"call_id":%s,"name":%s}`
	e.add("response.output_item.added", `"output_index":%d,"item":`+form, i, b.ID, "in_progress", `""`, quote(b.ID), quote(b.Name))
	for _, piece := range b.Pieces {
		e.add("response.function_call_arguments.delta", `"item_id":"fc_%s","output_index":%d,"delta":%s`, b.ID, i, quote(piece))
	}
	e.add("response.function_call_arguments.done", `"item_id":"fc_%s","output_index":%d,"arguments":%s`, b.ID, i, quote(b.Text()))
	item := fmt.Sprintf(form, b.ID, "completed", quote(b.Text()), quote(b.ID), quote(b.Name))
	e.add("response.output_item.done", `"output_index":%d,"item":%s`, i, item)
}

// Content: the signature of thinking is its whole item, that of a text is its
// id, and a call has two ids.
func (fixture) Content(a providertest.Answer) protocol.Content {
	content := a.Content()
	for i, b := range content {
		switch b := b.(type) {
		case protocol.Thinking:
			b.Signature = reasoningItem(a.Blocks[i])
			content[i] = b
		case protocol.Text:
			b.Signature = fmt.Sprintf(`{"v":1,"id":"msg_%d"}`, i)
			content[i] = b
		case protocol.ToolCall:
			b.ID += "|fc_" + b.ID
			content[i] = b
		}
	}
	return content
}

func (fixture) Keepalive() []byte {
	return []byte("event: keepalive\ndata: {\"type\":\"keepalive\",\"sequence_number\":3}\n\n")
}

func (fixture) Failure() []byte {
	return event("response.failed", `"response":{"id":"resp_1","object":"response","status":"failed","error":{"code":"server_is_overloaded","message":"Our servers are currently overloaded. Please try again later."},"output":[]}`)
}

func (fixture) Refusal(_ int, message string) []byte {
	return fmt.Appendf(nil, `{"error":{"message":%s,"type":null,"param":null,"code":null}}`, quote(message))
}

func (fixture) Check(header http.Header, body []byte, req providers.Request) error {
	return providertest.CheckResponses(header, body, req)
}

func TestCheckKnowsRules(t *testing.T) { // a checker that accepts everything would prove nothing
	f := fixture{}
	req := providers.Request{Model: f.Model("http://127.0.0.1"), Credentials: providers.Credentials{Key: "k"}}
	header := http.Header{"Authorization": {"Bearer k"}}
	good := `{"model":"m","stream":true,"store":false,"max_output_tokens":16,"prompt_cache_key":"s","include":["reasoning.encrypted_content"],"input":[` +
		`{"role":"user","content":[{"type":"input_text","text":"hi"}]},{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"e"},` +
		`{"type":"function_call","id":"fc_1","call_id":"x","name":"a","arguments":"{}"},{"type":"function_call_output","call_id":"x","output":"r"},` +
		`{"type":"message","role":"assistant","id":"msg_1","content":[{"type":"output_text","text":"t"}]}]}`
	if err := f.Check(header, []byte(good), req); err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{
		{`"hi"`, `" "`}, {`"call_id":"x","output"`, `"call_id":"z","output"`}, {`"{}"`, `"[]"`}, {`"max_output_tokens":16`, `"max_output_tokens":15`},
		{`,{"type":"function_call_output","call_id":"x","output":"r"}`, ``}, {`"hi"`, `"\ud800"`}, {`"name":"a"`, `"name":"a.b"`},
		{`"output":"r"`, `"output":""`}, {`"id":"fc_1"`, `"id":"call_1"`}, {`"id":"msg_1"`, `"id":"x_1"`}, {`"id":"fc_1"`, `"id":"rs_1"`},
		{`"encrypted_content":"e"`, `"encrypted_content":""`}, {`"store":false`, `"store":true`}, {`"call_id":"x","name"`, `"call_id":"a|b","name"`},
		{`{"type":"function_call","id":"fc_1","call_id":"x","name":"a","arguments":"{}"},{"type":"function_call_output","call_id":"x","output":"r"},{"type":"message","role":"assistant","id":"msg_1","content":[{"type":"output_text","text":"t"}]}`,
			`{"role":"user","content":[{"type":"input_text","text":"ho"}]}`},
	} {
		bad := strings.Replace(good, change[0], change[1], 1)
		if !json.Valid([]byte(bad)) || bad == good {
			t.Fatalf("bad test: %s", bad)
		}
		if f.Check(header, []byte(bad), req) == nil {
			t.Errorf("not noticed: %s", bad)
		}
	}
}

func TestRecorded(t *testing.T) { providertest.Recorded(t, fixture{}) }

func FuzzStream(f *testing.F) { providertest.Fuzz(f, fixture{}) }

func BenchmarkEncode10000(b *testing.B) {
	providertest.BenchmarkEncode(b, format{}, fixture{}.Model("http://127.0.0.1:1"))
}

func BenchmarkDelta(b *testing.B) { providertest.BenchmarkDeltas(b, fixture{}) }
