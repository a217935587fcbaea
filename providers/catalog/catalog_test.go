package catalog_test

import (
	"io/fs"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/providers"
	"troupe/providers/catalog"
	"troupe/providers/registry"
)

func load(t testing.TB, env func(string) string) *protocol.Catalog {
	t.Helper()
	c, err := registry.New(registry.Config{Builtin: catalog.FS, Env: env}).Catalog()
	require.NoError(t, err)
	return c
}

func none(string) string { return "" }

// served are the wires that troupe speaks.
var served = []string{"anthropic-messages", "openai-completions", "openai-responses", "google-generative-ai", "google-vertex", "bedrock-converse-stream", "azure-openai-responses", "mistral-conversations", "scripted"}

func TestModels(t *testing.T) {
	c := load(t, none)
	require.Greater(t, len(c.All()), 500)
	seen := map[string]bool{}
	for _, m := range c.All() {
		name := m.Provider + "/" + m.ID
		assert.False(t, seen[name], "%s twice", name)
		seen[name] = true
		assert.Contains(t, served, m.API, name)
		assert.Positive(t, m.ContextWindow, name)
		assert.Positive(t, m.MaxTokens, name)
		assert.LessOrEqual(t, m.MaxTokens, m.ContextWindow, name)
		assert.Contains(t, m.Input, "text", name)
		assert.NotEmpty(t, m.Name, name)
		for _, price := range []float64{m.Cost.Input, m.Cost.Output, m.Cost.CacheRead, m.Cost.CacheWrite} {
			assert.True(t, price >= 0 && price < 1000, name)
		}
		if m.API != "scripted" && !strings.HasPrefix(m.BaseURL, "{") {
			u, err := url.Parse(strings.NewReplacer("{AWS_REGION}", "us-east-1").Replace(m.BaseURL))
			require.NoError(t, err, name)
			assert.Equal(t, "https", u.Scheme, name)
		}
		for _, header := range []string{"User-Agent", "Editor-Version", "Copilot-Integration-Id"} {
			assert.NotContains(t, m.ProviderConfig.Headers, header, "%s: troupe does not pretend to be somebody else", name)
		}
		assert.NotEmpty(t, m.Levels(), name)
	}
}

// TestProviders: every file is a provider that a key opens, and each of them
// has a model to begin with.
func TestProviders(t *testing.T) {
	files, err := fs.Glob(catalog.FS, "*.json")
	require.NoError(t, err)
	none := load(t, none)
	assert.Empty(t, none.Keys, "without keys nothing is on offer")
	for _, file := range files {
		provider := strings.TrimSuffix(file, ".json")
		r := registry.New(registry.Config{Builtin: catalog.FS, Env: func(name string) string {
			if strings.HasPrefix(name, "AZURE_OPENAI_BASE") || strings.HasPrefix(name, "CLOUDFLARE_") && strings.HasSuffix(name, "_ID") {
				return "https://x.example"
			}
			return ""
		}})
		r.SetKey(provider, "k")
		c, err := r.Catalog()
		require.NoError(t, err)
		available := c.Available()
		require.NotEmpty(t, available, provider)
		choice := providers.ChooseModel(c, providers.Wishes{})
		require.NotNil(t, choice.Model, provider)
		assert.Equal(t, provider, choice.Model.Provider)
		usual, err := providers.ResolveModel(c, provider, "")
		require.NoError(t, err)
		assert.Equal(t, usual.Model.ID, choice.Model.ID, "%s: the usual model is not in the list", provider)
	}
}

func TestEnvironment(t *testing.T) {
	for name, provider := range map[string]string{
		"ANTHROPIC_API_KEY": "anthropic", "ANTHROPIC_OAUTH_TOKEN": "anthropic", "OPENAI_API_KEY": "openai", "GEMINI_API_KEY": "google",
		"MISTRAL_API_KEY": "mistral", "GROQ_API_KEY": "groq", "CEREBRAS_API_KEY": "cerebras", "XAI_API_KEY": "xai", "OPENROUTER_API_KEY": "openrouter",
		"AI_GATEWAY_API_KEY": "vercel-ai-gateway", "ZAI_API_KEY": "zai", "MINIMAX_API_KEY": "minimax", "MINIMAX_CN_API_KEY": "minimax-cn",
		"HF_TOKEN": "huggingface", "OPENCODE_API_KEY": "opencode", "KIMI_API_KEY": "kimi-coding", "COPILOT_GITHUB_TOKEN": "github-copilot",
		"DEEPSEEK_API_KEY": "deepseek", "MOONSHOT_API_KEY": "moonshotai", "TROUPE_SCRIPT": "scripted",
	} {
		c := load(t, func(asked string) string {
			if asked == name {
				return "k"
			}
			return ""
		})
		assert.True(t, c.HasKey(provider), "%s opens %s", name, provider)
		assert.True(t, slices.ContainsFunc(c.Available(), func(m *protocol.Model) bool { return m.Provider == provider }))
	}
}

func BenchmarkCatalog(b *testing.B) {
	for b.Loop() {
		load(b, none)
	}
}

// TestKeysAreNeeded: no built-in provider can be asked without a key, which is
// why those without one need not be read at the start.
func TestKeysAreNeeded(t *testing.T) {
	c, err := registry.New(registry.Config{AgentDir: t.TempDir(), Builtin: catalog.FS, Env: func(string) string { return "" }}).Catalog()
	require.NoError(t, err)
	for _, m := range c.All() {
		if m.Provider != "scripted" {
			require.False(t, providers.IsLocal(m.BaseURL), m.ID)
			if m.ProviderConfig == nil {
				continue
			}
			for name := range m.ProviderConfig.Headers {
				require.NotContains(t, []string{"authorization", "x-api-key", "api-key", "x-goog-api-key"}, strings.ToLower(name), m.ID)
			}
		}
	}
}
