package google

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

var familyModels = []string{"gemini-3.1-pro-preview", "gemini-3.5-flash", "gemini-2.5-pro", "gemini-2.5-flash-lite", "gemma-4-31b-it", "claude-sonnet-4-5", "gemini-flash-latest"}

// TestFamilies asks of the other models what TestConformance asks of one.
func TestFamilies(t *testing.T) {
	for _, id := range familyModels {
		t.Run(id, func(t *testing.T) { providertest.CheckRequests(t, fixture{id}) })
	}
}

// fixture is the server's side of the wire.
type fixture struct{ id string }

func (fixture) New(client *wire.Client) providers.Provider { return New(client) }

func (f fixture) Model(baseURL string) *protocol.Model {
	id := f.id
	if id == "" {
		id = "gemini-2.5-flash"
	}
	return &protocol.Model{
		ID: id, Provider: "acme", API: API, BaseURL: baseURL, Reasoning: true, Input: []string{"text", "image"},
		Cost:          protocol.ModelCost{Input: 0.3, Output: 2.5, CacheRead: 0.03},
		ContextWindow: 1_048_576, MaxTokens: 65_536, ProviderConfig: &protocol.ProviderConfig{},
	}
}

func quote(s string) string { return string(protocol.AppendString(nil, s)) }

// rawQuote keeps bytes that are not UTF-8, and escapes that the test put there.
func rawQuote(s string) string {
	if strings.Contains(s, "\\u") || strings.ToValidUTF8(s, "") != s {
		return `"` + s + `"`
	}
	return quote(s)
}

// chunk is an event with parts; more is what else the candidate has.
func chunk(id, parts, more string, u protocol.Usage) []byte {
	return fmt.Appendf(nil, "data: {\"candidates\":[{\"content\":{\"parts\":[%s],\"role\":\"model\"},\"index\":0%s}],\"usageMetadata\":{\"promptTokenCount\":%d,\"cachedContentTokenCount\":%d,\"candidatesTokenCount\":%d,\"thoughtsTokenCount\":%d,\"totalTokenCount\":%d},\"modelVersion\":\"gemini\",\"responseId\":%s}\n\n",
		parts, more, u.Input+u.CacheRead, u.CacheRead, u.Output-u.Output/3, u.Output/3, u.Input+u.CacheRead+u.Output, quote(id))
}

func (fixture) Answer(a providertest.Answer) [][]byte {
	var events [][]byte
	u := a.Usage
	u.Output = 3
	add := func(format string, args ...any) {
		events = append(events, chunk(a.ID, fmt.Sprintf(format, args...), "", u))
	}
	for _, b := range a.Blocks {
		if b.Kind == protocol.BlockToolCall {
			add(`{"functionCall":{"name":%s,"args":%s}}`, quote(b.Name), b.Text())
			continue
		}
		thought := ""
		if b.Kind == protocol.BlockThinking {
			thought = `,"thought":true`
		}
		for i, piece := range b.Pieces {
			signature := ""
			if b.Signature != "" && i == len(b.Pieces)-1 {
				signature = `,"thoughtSignature":` + quote(b.Signature)
			}
			add(`{"text":%s%s%s}`, rawQuote(piece), thought, signature)
		}
	}
	finish := "STOP"
	if a.Stop == protocol.StopLength {
		finish = "MAX_TOKENS"
	}
	return append(events, chunk(a.ID, `{"text":""}`, `,"finishReason":"`+finish+`"`, a.Usage))
}

// Content: calls have no ids, so the decoder makes some.
func (fixture) Content(a providertest.Answer) protocol.Content {
	content, n := a.Content(), 0
	for i, b := range content {
		if b, ok := b.(protocol.ToolCall); ok {
			b.ID = fmt.Sprintf("%s_%s_%d", b.Name, a.ID, n)
			content[i] = b
			n++
		}
	}
	return content
}

func (fixture) Keepalive() []byte { return []byte(": ping\n\n") }

func (fixture) Failure() []byte {
	return []byte("data: {\"error\":{\"code\":503,\"message\":\"The model is overloaded. Please try again later.\",\"status\":\"UNAVAILABLE\"}}\n\n")
}

func (fixture) Refusal(status int, message string) []byte {
	word := map[int]string{400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED"}[status]
	return fmt.Appendf(nil, `{"error":{"code":%d,"message":%s,"status":%q}}`, status, quote(message), word)
}

func (fixture) Check(header http.Header, body []byte, req providers.Request) error {
	newer := strings.Contains(req.Model.ID, "gemini-3") || strings.Contains(req.Model.ID, "latest")
	return providertest.CheckGoogle(header, body, req, providertest.GoogleRules{
		Signed: newer, Nested: newer, Levels: newer || strings.Contains(req.Model.ID, "gemma"),
	})
}

func TestCheckKnowsRules(t *testing.T) { // a checker that accepts everything would prove nothing
	f := fixture{"gemini-3-flash"}
	req := providers.Request{Model: f.Model("http://127.0.0.1"), Credentials: providers.Credentials{Key: "k"}}
	header := http.Header{"X-Goog-Api-Key": {"k"}}
	good := `{"generationConfig":{"maxOutputTokens":10,"thinkingConfig":{"thinkingLevel":"LOW"}},"contents":[{"role":"user","parts":[{"text":"hi"}]},` +
		`{"role":"model","parts":[{"functionCall":{"name":"a","args":{}},"thoughtSignature":"c2ln"}]},` +
		`{"role":"user","parts":[{"functionResponse":{"name":"a","response":{"output":"r"}}}]}]}`
	if err := f.Check(header, []byte(good), req); err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{
		{`"hi"`, `" "`}, {`"name":"a","response"`, `"name":"b","response"`}, {`"args":{}`, `"args":[]`}, {`"maxOutputTokens":10`, `"maxOutputTokens":0`},
		{`"thoughtSignature":"c2ln"`, `"thoughtSignature":"c2l"`}, {`,"thoughtSignature":"c2ln"`, ``}, {`"hi"`, `"\ud800"`}, {`"output":"r"`, `"output":""`},
		{`"LOW"`, `"SOME"`}, {`"thinkingLevel":"LOW"`, `"thinkingBudget":9`}, {`"role":"model"`, `"role":"assistant"`}, {`"role":"user","parts":[{"text"`, `"role":"model","parts":[{"text"`},
		{`,{"role":"user","parts":[{"functionResponse":{"name":"a","response":{"output":"r"}}}]}`, ``}, {`{"output":"r"}}}`, `{"output":"r"}}},{"text":"more"}`},
		{`"functionCall":{"name":"a"`, `"functionCall":{"name":"1a"`},
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
