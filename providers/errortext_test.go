package providers_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/providers"
	"troupe/providers/anthropic"
	"troupe/providers/google"
	"troupe/providers/openai"
	"troupe/providers/providertest"
	"troupe/providers/responses"
	"troupe/providers/wire"
)

// TestErrorTexts: what people read when a service refuses is what pi shows them.
// The table was recorded with pi 0.31.1, 0.45.7 and 0.74.2, which agree but for
// the second line of a gateway's error in 0.31.1, and with pi 0.87.1 (full). Not
// as in pi, on purpose:
//
//   - a body in a form that the service's client does not know, of which pi says
//     "status code (no body)" or "Unexpected end of JSON input", is shown;
//   - text that is no JSON is in one line;
//   - what goes wrong before or within the answer is named: "Connection error:
//     connection refused (…)" for "Connection error.", and an answer that ended
//     too early is an error.
func TestErrorTexts(t *testing.T) {
	const (
		plain = `{"error": {"message": "mock error", "type": "mock", "code": "400"}}`
		rest  = `{"error":{"type":"t","code":"c"}}`
		page  = "<html><body><h1>Bad\n Gateway</h1></body></html>"
		line  = "<html><body><h1>Bad Gateway</h1></body></html>"
		meta  = `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"the raw upstream text"}}}`
	)
	type service struct {
		name, api, provider string
		full                bool
	}
	var (
		claude  = service{"anthropic", anthropic.API, "acme", false}
		claude1 = service{"anthropic, full", anthropic.API, "acme", true}
		chat    = service{"completions", openai.CompletionsAPI, "acme", false}
		chat1   = service{"completions, full", openai.CompletionsAPI, "acme", true}
		mistral = service{"mistral", openai.MistralAPI, "acme", true}
		resp    = service{"responses", responses.API, "acme", false}
		resp1   = service{"responses, full", responses.API, "acme", true}
		own1    = service{"responses of OpenAI, full", responses.API, "openai", true}
		azure1  = service{"azure, full", responses.AzureAPI, "acme", true}
		gem     = service{"google", google.API, "acme", false}
		gem1    = service{"google, full", google.API, "acme", true}
	)
	for _, c := range []struct {
		status int
		body   string
		want   map[service]string
	}{
		{400, plain, map[service]string{
			claude:  `400 {"error":{"message":"mock error","type":"mock","code":"400"}}`,
			claude1: `400 {"error":{"message":"mock error","type":"mock","code":"400"}}`,
			chat:    `400 mock error`, chat1: `400: {"message":"mock error","type":"mock","code":"400"}`,
			mistral: `Mistral API error (400): {"error":{"message":"mock error","type":"mock","code":"400"}}`,
			resp:    `400 mock error`, resp1: `acme API error (400): {"message":"mock error","type":"mock","code":"400"}`,
			own1:   `OpenAI API error (400): {"message":"mock error","type":"mock","code":"400"}`,
			azure1: `Azure OpenAI API error (400): {"message":"mock error","type":"mock","code":"400"}`,
			gem:    `{"error":{"message":"mock error","type":"mock","code":"400"}}`,
			gem1:   `{"error":{"message":"mock error","type":"mock","code":"400"}}`,
		}},
		{400, rest, map[service]string{
			claude: `400 ` + rest, chat: `400 {"type":"t","code":"c"}`, chat1: `400 {"type":"t","code":"c"}`,
			resp: `400 {"type":"t","code":"c"}`, resp1: `acme API error (400): 400 {"type":"t","code":"c"}`, gem: rest,
		}},
		{502, page, map[service]string{
			claude: "502 " + line, claude1: "502 " + line, chat: "502 " + line, chat1: "502 " + line, resp: "502 " + line,
			resp1: "acme API error (502): 502 " + line, mistral: "Mistral API error (502): " + line,
			gem: `{"error":{"message":"` + line + `","code":502,"status":"Bad Gateway"}}`,
		}},
		{400, "", map[service]string{
			claude: "400 status code (no body)", chat: "400 status code (no body)", chat1: "400 status code (no body)",
			resp: "400 status code (no body)", resp1: "acme API error (400): 400 status code (no body)",
			mistral: "Mistral API error (400): Bad Request", gem: "400 status code (no body)",
		}},
		{400, meta, map[service]string{
			claude: "400 " + meta, chat: "400 Provider returned error\nthe raw upstream text",
			chat1: `400: {"message":"Provider returned error","code":400,"metadata":{"raw":"the raw upstream text"}}`,
			resp:  "400 Provider returned error", gem: meta,
		}},
		{400, `{"error":"just a string"}`, map[service]string{
			claude: `400 {"error":"just a string"}`, chat: `400 "just a string"`, chat1: `400 "just a string"`, resp: `400 "just a string"`,
			resp1: `acme API error (400): 400 "just a string"`,
		}},
		{400, `{"error":{"message":{"a":1},"type":"t"}}`, map[service]string{
			chat: `400 {"a":1}`, chat1: `400: {"message":{"a":1},"type":"t"}`, resp: `400 {"a":1}`,
		}},
		{400, `{"error":{"message":"","type":"t"}}`, map[service]string{
			chat: `400 {"message":"","type":"t"}`, chat1: `400 {"message":"","type":"t"}`, resp: `400 {"message":"","type":"t"}`,
		}},
		{400, `{"error":{"message":"line one\nline two   spaces","type":"t"}}`, map[service]string{
			chat: "400 line one\nline two   spaces", resp: "400 line one\nline two   spaces",
		}},
		{400, `{"message":"top message","code":"x"}`, map[service]string{
			claude: "400 top message", claude1: "400 top message", chat: `400 {"message":"top message","code":"x"}`,
			gem: `{"message":"top message","code":"x"}`,
		}},
		{400, `{"error":null}`, map[service]string{chat: `400 {"error":null}`, gem: `{"error":null}`}},
		{200, plain, map[service]string{chat: `mock error`, resp: `mock error`}},
	} {
		for w, want := range c.want {
			failed := refusal(t, w.api, w.provider, w.full, c.status, c.body)
			assert.Equal(t, want, failed.Message, "%s, %d: %s", w.name, c.status, c.body)
			said := c.body
			if c.body == plain {
				said = strings.ReplaceAll(c.body, ": ", ":")
				said = strings.ReplaceAll(said, ", ", ",")
			}
			assert.Equal(t, strings.Join(strings.Fields(said), " "), strings.Join(strings.Fields(failed.Body), " "), "the log has all of it")
		}
	}
}

// TestErrorTexts_secrets: a sentence that is taken out of a body is masked as the
// body is, and cut.
func TestErrorTexts_secrets(t *testing.T) {
	for _, api := range []string{anthropic.API, openai.CompletionsAPI, openai.MistralAPI, responses.API, google.API} {
		for _, full := range []bool{false, true} {
			for _, body := range []string{
				`{"error":{"message":"bad key sk-proj-0123456789abcdef and canary-key-0123456789","metadata":{"raw":"canary-key-0123456789"}}}`,
				`{"message":"bad key sk-proj-0123456789abcdef and canary-key-0123456789"}`,
				`bad key sk-proj-0123456789abcdef and canary-key-0123456789`,
				`{"error":"bad key sk-proj-0123456789abcdef and canary-key-0123456789"}`,
			} {
				failed := refusal(t, api, "acme", full, 400, body)
				for _, text := range []string{failed.Message, failed.Body} {
					assert.NotContains(t, text, "0123456789", "%s %s", api, body)
					assert.Contains(t, text, "bad key", "%s %s", api, body)
				}
			}
			long := refusal(t, api, "acme", full, 400, `{"error":{"message":"`+strings.Repeat("long ", 100_000)+`"}}`)
			assert.Less(t, len(long.Message), 5000, api)
			assert.Less(t, len(long.Body), 5000, api)
		}
	}
}

// refusal is how a wire reads one response.
func refusal(t *testing.T, api, provider string, full bool, status int, body string) *protocol.StreamError {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	defer server.Close()
	client := wire.NewClient(wire.ClientConfig{})
	defer client.Close()
	wires := map[string]providers.Provider{
		anthropic.API: anthropic.New(client), openai.CompletionsAPI: openai.New(client), openai.MistralAPI: openai.New(client),
		responses.API: responses.New(client), responses.AzureAPI: responses.New(client), google.API: google.New(client),
	}
	_, failed, problem := providertest.Fold(wires[api].Stream(t.Context(), providers.Request{
		Model: &protocol.Model{ID: "m", Provider: provider, API: api, BaseURL: server.URL}, FullErrors: full,
		Messages: []protocol.Message{&protocol.UserMessage{Content: protocol.TextContent("Hello")}}, Credentials: providers.Credentials{Key: "canary-key-0123456789"},
	}))
	require.NoError(t, problem)
	require.NotNil(t, failed)
	return failed
}
