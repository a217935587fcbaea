package anthropic

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

// fixture is the server's side of the wire.
type fixture struct{}

func (fixture) New(client *wire.Client) providers.Provider { return New(client) }

func (fixture) Model(baseURL string) *protocol.Model {
	return &protocol.Model{
		ID: "claude-x", Provider: "acme", API: API, BaseURL: baseURL, Reasoning: true, Input: []string{"text", "image"},
		Cost:          protocol.ModelCost{Input: 3, Output: 15, CacheRead: 0.3, CacheWrite: 3.75},
		ContextWindow: 200_000, MaxTokens: 64_000, ProviderConfig: &protocol.ProviderConfig{},
	}
}

func event(name, format string, args ...any) []byte {
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, fmt.Sprintf(format, args...))
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
	events := [][]byte{
		event("message_start", `{"type":"message_start","message":{"id":%s,"type":"message","role":"assistant","content":[],"model":"claude-x","stop_reason":null,"usage":{"input_tokens":%d,"cache_creation_input_tokens":%d,"cache_read_input_tokens":%d,"output_tokens":1}}}`,
			quote(a.ID), a.Usage.Input, a.Usage.CacheWrite, a.Usage.CacheRead),
		event("ping", `{"type":"ping"}`),
	}
	var open []int // calls in a row run side by side
	flush := func() {
		for piece := 0; len(open) > 0 && piece < 10; piece++ {
			for _, i := range open {
				if piece < len(a.Blocks[i].Pieces) {
					events = append(events, delta(i, "input_json_delta", "partial_json", a.Blocks[i].Pieces[piece]))
				}
			}
		}
		for _, i := range open {
			events = append(events, event("content_block_stop", `{"type":"content_block_stop","index":%d}`, i))
		}
		open = nil
	}
	for i, b := range a.Blocks {
		if b.Kind == protocol.BlockToolCall {
			events = append(events, event("content_block_start", `{"type":"content_block_start","index":%d,"content_block":{"type":"tool_use","id":%s,"name":%s,"input":{}}}`, i, quote(b.ID), quote(b.Name)))
			open = append(open, i)
			continue
		}
		flush()
		events = append(events, plainBlock(i, b)...)
	}
	flush()
	stop := map[protocol.StopReason]string{"stop": "end_turn", "length": "max_tokens", "toolUse": "tool_use"}[a.Stop]
	return append(events,
		event("message_delta", `{"type":"message_delta","delta":{"stop_reason":%q,"stop_sequence":null},"usage":{"output_tokens":%d}}`, stop, a.Usage.Output),
		event("message_stop", `{"type":"message_stop"}`))
}

func plainBlock(i int, b providertest.Block) (events [][]byte) {
	kind, field := "text", "text"
	if b.Kind == protocol.BlockThinking {
		kind, field = "thinking", "thinking"
	}
	events = append(events, event("content_block_start", `{"type":"content_block_start","index":%d,"content_block":{"type":%q,%q:""}}`, i, kind, field))
	for _, piece := range b.Pieces {
		events = append(events, delta(i, kind+"_delta", field, piece))
	}
	if b.Signature != "" {
		events = append(events, delta(i, "signature_delta", "signature", b.Signature[:3]), delta(i, "signature_delta", "signature", b.Signature[3:]))
	}
	return append(events, event("content_block_stop", `{"type":"content_block_stop","index":%d}`, i))
}

func delta(i int, kind, field, text string) []byte {
	return event("content_block_delta", `{"type":"content_block_delta","index":%d,"delta":{"type":%q,%q:%s}}`, i, kind, field, rawQuote(text))
}

func (fixture) Content(a providertest.Answer) protocol.Content { return a.Content() }

func (fixture) Keepalive() []byte { return event("ping", `{"type": "ping"}`) }

func (fixture) Failure() []byte {
	return event("error", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)
}

func (fixture) Refusal(status int, message string) []byte {
	kind := map[int]string{401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error", 500: "api_error", 529: "overloaded_error"}[status]
	if kind == "" {
		kind = "invalid_request_error"
	}
	return fmt.Appendf(nil, `{"type":"error","error":{"type":%q,"message":%s}}`, kind, quote(message))
}

func (fixture) Check(header http.Header, body []byte, req providers.Request) error {
	return providertest.CheckAnthropic(header, body, req)
}

func TestCheckKnowsRules(t *testing.T) { // a checker that accepts everything would prove nothing
	req := providers.Request{Model: fixture{}.Model("http://127.0.0.1"), Credentials: providers.Credentials{Key: "k"}}
	header := http.Header{"X-Api-Key": {"k"}, "Anthropic-Version": {version}}
	good := `{"model":"m","max_tokens":10,"stream":true,"tools":[{"name":"a","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]},{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"a","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"r"}]}]}`
	if err := (fixture{}).Check(header, []byte(good), req); err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{
		{`"hi"`, `" "`}, {`"id":"x"`, `"id":"x|y"`}, {`"tool_use_id":"x"`, `"tool_use_id":"z"`}, {`"input":{}`, `"input":[]`},
		{`"content":"r"`, `"content":""`}, {`"max_tokens":10`, `"max_tokens":0`}, {`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"r"}]}`, ``},
		{`"hi"`, `"\ud800"`}, {`"name":"a","input":`, `"name":"a.b","input":`}, {`"role":"user"`, `"role":"assistant"`},
	} {
		bad := strings.Replace(good, change[0], change[1], 1)
		if !json.Valid([]byte(bad)) || bad == good {
			t.Fatalf("bad test: %s", bad)
		}
		if (fixture{}).Check(header, []byte(bad), req) == nil {
			t.Errorf("not noticed: %s", bad)
		}
	}
}

func TestRecorded(t *testing.T) { providertest.Recorded(t, fixture{}) }

func FuzzStream(f *testing.F) { providertest.Fuzz(f, fixture{}) }
