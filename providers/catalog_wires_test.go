package providers_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/providers"
	"troupe/providers/catalog"
	"troupe/providers/providertest"
	"troupe/providers/registry"
)

// TestCatalogWires asks every built-in model the same thing, at its lowest and
// its highest level of thinking, in a conversation that another model began: the
// request must keep the rules of the model's wire.
func TestCatalogWires(t *testing.T) {
	box := newMailbox(t)
	four, dialects := sides(box.client)
	wires := map[string]*side{}
	for _, s := range slices.Concat(dialects, four) {
		wires[s.model.API] = s
	}
	wires["azure-openai-responses"], wires["mistral-conversations"] = wires["openai-responses"], wires["openai-completions"]
	wires["google-vertex"] = wires["google-generative-ai"]
	r := registry.New(registry.Config{Builtin: catalog.FS, Env: func(string) string { return "" }})
	c, err := r.Catalog()
	require.NoError(t, err)
	asked := 0
	for _, m := range c.All() {
		wire := wires[m.API]
		if wire == nil {
			assert.Equal(t, "scripted", m.API, m.ID)
			continue
		}
		plain := *m // the mailbox has no certificate
		plain.BaseURL = "http" + strings.TrimPrefix(strings.NewReplacer("{AZURE_OPENAI_BASE_URL}", "https://x.openai.azure.com/openai/v1", "{AWS_REGION}", "us-east-1", "{CLOUDFLARE_ACCOUNT_ID}", "a", "{CLOUDFLARE_GATEWAY_ID}", "g").Replace(m.BaseURL), "https")
		levels := m.Levels()
		for _, level := range []protocol.ThinkingLevel{levels[0], levels[len(levels)-1]} {
			req := catalogRequest(&plain, level)
			box.last.Store(nil)
			_, failed, problem := providertest.Fold(wire.ask.Stream(context.Background(), req))
			require.NoError(t, problem)
			got := box.last.Load()
			require.NotNil(t, got, "%s/%s: %v", m.Provider, m.ID, failed)
			assert.NoError(t, checkCatalogRequest(wire, got, req), "%s/%s %s: %s", m.Provider, m.ID, level, got.body)
			asked++
		}
	}
	assert.Greater(t, asked, 1000)
}

func catalogRequest(m *protocol.Model, level protocol.ThinkingLevel) providers.Request {
	call := protocol.ToolCall{ID: "call_1|fc_1", Name: "read", Arguments: json.RawMessage(`{"path":"a"}`), ThoughtSignature: "QUFB"}
	return providers.Request{
		Model: m, System: "Be kind.", Thinking: level, SessionID: "s", Credentials: providers.Credentials{Key: "k"},
		Tools: []protocol.ToolInfo{{Name: "read", Description: "Reads.", Parameters: []byte(`{"type":"object"}`)}},
		Messages: []protocol.Message{
			&protocol.UserMessage{Content: protocol.TextContent("Read it.")},
			&protocol.AssistantMessage{API: "x", Provider: "x", Model: "x", Content: protocol.Content{protocol.Thinking{Thinking: "Hm.", Signature: "c2ln"}, call}},
			&protocol.ToolResultMessage{ToolCallID: call.ID, Content: protocol.Content{protocol.Text{Text: "ok"}, protocol.Image{Data: "iVBORw0K", MimeType: "image/png"}}},
		},
	}
}

// checkCatalogRequest applies the rules of a wire, those of the dialect of chat
// completions aside.
func checkCatalogRequest(wire *side, got *letter, req providers.Request) error {
	switch wire.name {
	case "google":
		id := req.Model.ID
		word, _ := req.OwnWord()
		newer := strings.Contains(id, "gemini-3") || strings.Contains(id, "gemini-4") || strings.Contains(id, "latest")
		return providertest.CheckGoogle(got.header, got.body, req, providertest.GoogleRules{Signed: newer, Nested: newer, Levels: newer || strings.Contains(id, "gemma") || word != ""})
	case "completions":
		return providertest.CheckCompletions(got.header, got.body, req, providertest.CompletionsRules{Developer: true, NineLetterIDs: req.Model.Provider == "mistral"})
	}
	return wire.check(got.header, got.body, req)
}
