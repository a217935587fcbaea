package providers_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"troupe/protocol"
	"troupe/providers"
	"troupe/providers/anthropic"
	"troupe/providers/bedrock"
	"troupe/providers/google"
	"troupe/providers/openai"
	"troupe/providers/providertest"
	"troupe/providers/responses"
	"troupe/providers/wire"
)

// side is one end of a hand-over: a model, its wire, and the rules that its
// service has published.
type side struct {
	name  string
	model *protocol.Model
	ask   providers.Provider
	check func(header http.Header, body []byte, req providers.Request) error
}

// mailbox is a server that keeps the last request and refuses it.
type mailbox struct {
	client *wire.Client
	last   atomic.Pointer[letter]
}

type letter struct {
	header http.Header
	body   []byte
}

func newMailbox(t *testing.T) *mailbox {
	m := &mailbox{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m.last.Store(&letter{r.Header, body})
		w.WriteHeader(http.StatusTeapot)
	}))
	// Whatever the address, it leads here: the dialects go by it.
	m.client = wire.NewClient(wire.ClientConfig{Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
	}})
	t.Cleanup(func() {
		m.client.Close()
		server.Close()
	})
	return m
}

// sent is the request that a side makes.
func (m *mailbox) sent(t *rapid.T, s *side, req providers.Request) *letter {
	m.last.Store(nil)
	_, failed, problem := providertest.Fold(s.ask.Stream(context.Background(), req))
	require.NoError(t, problem)
	require.NotNil(t, failed)
	got := m.last.Load()
	require.NotNil(t, got, "nothing was sent: %v", failed)
	return got
}

// sides are the four wires, and the dialects of two of them.
func sides(client *wire.Client) (four, dialects []*side) {
	model := func(api, provider, id, base string) *protocol.Model {
		return &protocol.Model{
			ID: id, Provider: provider, API: api, BaseURL: base, Reasoning: true, Input: []string{"text", "image"},
			ContextWindow: 200_000, MaxTokens: 32_000, ProviderConfig: &protocol.ProviderConfig{},
		}
	}
	completions := func(rules providertest.CompletionsRules) func(http.Header, []byte, providers.Request) error {
		return func(h http.Header, b []byte, r providers.Request) error {
			return providertest.CheckCompletions(h, b, r, rules)
		}
	}
	gemini := func(rules providertest.GoogleRules) func(http.Header, []byte, providers.Request) error {
		return func(h http.Header, b []byte, r providers.Request) error {
			return providertest.CheckGoogle(h, b, r, rules)
		}
	}
	chat := openai.New(client)
	four = []*side{
		{"anthropic", model(anthropic.API, "anthropic", "claude-opus-4-8", "http://api.anthropic.com"), anthropic.New(client), providertest.CheckAnthropic},
		{"completions", model(openai.CompletionsAPI, "acme", "glm-5", "http://llm.example.com/v1"), chat, completions(providertest.CompletionsRules{Developer: true})},
		{"responses", model(responses.API, "openai", "gpt-5.5", "http://api.openai.com/v1"), responses.New(client), providertest.CheckResponses},
		{"google", model(google.API, "google", "gemini-2.5-pro", "http://generativelanguage.googleapis.com/v1beta"), google.New(client), gemini(providertest.GoogleRules{})},
	}
	dialects = []*side{
		{"converse", model(bedrock.API, "amazon-bedrock", "us.anthropic.claude-x-v1:0", "http://bedrock-runtime.us-east-1.amazonaws.com"), bedrock.New(client), providertest.CheckConverse},
		{"openai completions", model(openai.CompletionsAPI, "openai", "gpt-4.1", "http://api.openai.com/v1"), chat, completions(providertest.CompletionsRules{Developer: true})},
		{"mistral", model(openai.CompletionsAPI, "mistral", "devstral", "http://api.mistral.ai/v1"), chat, completions(providertest.CompletionsRules{Alternate: true, ResultNames: true, NineLetterIDs: true})},
		{"local", model(openai.CompletionsAPI, "ollama", "qwen", "http://localhost:11434/v1"), chat, completions(providertest.CompletionsRules{Alternate: true})},
		{"gemini 3", model(google.API, "google", "gemini-3.5-flash", "http://generativelanguage.googleapis.com/v1beta"), google.New(client), gemini(providertest.GoogleRules{Signed: true, Nested: true, Levels: true})},
	}
	return four, dialects
}

// TestHandover: whatever models worked on a session before, in all twelve
// directions, the next one gets a request that its service takes, with
// everything that was said and nothing that only another model understands.
func TestHandover(t *testing.T) {
	box := newMailbox(t)
	four, dialects := sides(box.client)
	for _, to := range four {
		for _, from := range four {
			if from != to {
				t.Run(from.name+" to "+to.name, func(t *testing.T) { box.handOver(t, to, from.model) })
			}
		}
	}
	for _, to := range slices.Concat(four, dialects) {
		t.Run("all to "+to.name, func(t *testing.T) {
			box.handOver(t, to, four[0].model, four[1].model, four[2].model, four[3].model)
		})
	}
}

func (m *mailbox) handOver(t *testing.T, to *side, from ...*protocol.Model) {
	models := from
	if !slices.Contains(from, to.model) {
		models = append(slices.Clone(from), to.model)
	}
	journeys := providertest.Journeys(models...)
	rapid.Check(t, func(t *rapid.T) {
		j := journeys.Draw(t, "journey")
		before := fmt.Sprintf("%+v", encode(j.Messages))
		req := providers.Request{
			Model: to.model, System: "Be kind.", Messages: j.Messages, SessionID: "s",
			Tools:       []protocol.ToolInfo{{Name: "read", Description: "Reads.", Parameters: []byte(`{"type":"object"}`)}},
			Thinking:    to.model.Clamp(rapid.SampledFrom(protocol.ThinkingLevels).Draw(t, "level")),
			Credentials: providers.Credentials{Key: "the-key"},
		}
		got := m.sent(t, to, req)
		body := string(got.body)
		require.NoError(t, to.check(got.header, got.body, req), "%s", body)
		require.Equal(t, before, fmt.Sprintf("%+v", encode(j.Messages)), "the session changed")
		for _, text := range j.Said {
			require.Equal(t, 1, strings.Count(body, text), "%s in %s", text, body)
		}
		for _, text := range j.Thought {
			require.Contains(t, body, text)
		}
		for _, text := range slices.Concat(j.Unsaid, j.Lost) {
			require.NotContains(t, body, text)
		}
		for model, proofs := range j.Proofs {
			for _, proof := range proofs {
				require.Equal(t, model == to.model, strings.Contains(body, proof), "%s of %s in %s", proof, model.ID, body)
			}
		}
	})
}

// TestHandover_back: a session that comes back to its first model gives that
// model the same beginning as before, so that its prompt cache holds.
func TestHandover_back(t *testing.T) {
	box := newMailbox(t)
	four, _ := sides(box.client)
	for _, home := range four {
		t.Run(home.name, func(t *testing.T) {
			var away []*protocol.Model
			for _, other := range four {
				if other != home {
					away = append(away, other.model)
				}
			}
			first, second := providertest.Journeys(home.model), providertest.Journeys(away...)
			rapid.Check(t, func(t *rapid.T) { box.comeBack(t, home, first.Draw(t, "first"), second.Draw(t, "second")) })
		})
	}
}

func (m *mailbox) comeBack(t *rapid.T, home *side, first, second *providertest.Journey) {
	ask := func(messages []protocol.Message) []string {
		req := providers.Request{Model: home.model, Messages: messages, SessionID: "s", Cache: providers.CacheNone, Credentials: providers.Credentials{Key: "k"}}
		return elements(m.sent(t, home, req).body, []string{"messages", "input", "contents"})
	}
	more := &protocol.UserMessage{Content: protocol.TextContent("more")}
	short := ask(append(slices.Clone(first.Messages), more))
	long := ask(slices.Concat(first.Messages, []protocol.Message{more}, second.Messages, first.Messages[:1]))
	n := len(short) - 1 // the last may have grown
	require.GreaterOrEqual(t, len(long), n)
	require.Equal(t, short[:n], long[:n])
}

// elements are the messages of a request, whatever the wire calls them.
func elements(body []byte, names []string) (list []string) {
	for _, name := range names {
		for _, v := range gjson.GetBytes(body, name).Array() {
			list = append(list, v.Raw)
		}
	}
	return list
}

func encode(messages []protocol.Message) (lines []string) {
	for _, m := range messages {
		lines = append(lines, string(m.AppendJSON(nil)))
	}
	return lines
}
