package registry

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/providers"
)

// builtinFS is a small catalogue.
var builtinFS = fstest.MapFS{
	"anthropic.json": {Data: []byte(`{"name": "Anthropic", "api": "anthropic-messages", "baseUrl": "https://api.anthropic.com",
		"compat": {"supportsEagerToolInputStreaming": true}, "models": [
		{"id": "claude-opus-4-8", "name": "Claude Opus 4.8", "reasoning": true, "input": ["text", "image"],
		 "cost": {"input": 5, "output": 25, "cacheRead": 0.5, "cacheWrite": 6.25}, "contextWindow": 1000000, "maxTokens": 128000,
		 "thinkingLevelMap": {"xhigh": "xhigh", "max": "max"}, "compat": {"forceAdaptiveThinking": true}},
		{"id": "claude-haiku-4-5"}]}`)},
	"openai.json": {Data: []byte(`{"api": "openai-responses", "baseUrl": "https://api.openai.com/v1", "models": [
		{"id": "gpt-5.5", "reasoning": true, "thinkingLevelMap": {"off": null, "low": "LOW"}}]}`)},
	"cloudflare-ai-gateway.json": {Data: []byte(`{"api": "wire", "baseUrl": "https://gateway.example/{CLOUDFLARE_GATEWAY_ID}", "models": [{"id": "m"}]}`)},
	"azure.json":                 {Data: []byte(`{"api": "openai-responses", "baseUrl": "{AZURE_OPENAI_BASE_URL}", "models": [{"id": "gpt-5.4"}]}`)},
	"scripted.json":              {Data: []byte(`{"api": "scripted", "models": [{"id": "demo"}]}`)},
	"zz-other.json":              {Data: []byte(`{"api": "wire", "baseUrl": "https://zz.example", "models": [{"id": "z"}]}`)},
}

// recorder is a provider that keeps what it is asked and answers with parts or
// an error.
type recorder struct {
	mu   sync.Mutex
	reqs []providers.Request
	err  error
}

func (r *recorder) Stream(_ context.Context, req providers.Request) iter.Seq2[protocol.Part, error] {
	return func(yield func(protocol.Part, error) bool) {
		r.mu.Lock()
		r.reqs = append(r.reqs, req)
		err := r.err
		r.mu.Unlock()
		if err != nil {
			yield(nil, err)
			return
		}
		if yield(protocol.PartStart{}, nil) {
			yield(protocol.PartDone{StopReason: protocol.StopStop}, nil)
		}
	}
}

func (r *recorder) last() providers.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reqs[len(r.reqs)-1]
}

// house is a registry with an agent directory of its own.
type house struct {
	*Registry
	t        *testing.T
	dir      string
	recorder *recorder
	commands []string // that were run
	output   func(command string) (string, error)
}

func newHouse(t *testing.T, env ...string) *house {
	h := &house{t: t, dir: t.TempDir(), recorder: &recorder{}}
	h.output = func(command string) (string, error) { return "out-of-" + command, nil }
	h.Registry = New(Config{
		AgentDir: h.dir, Builtin: builtinFS, Env: environ(env...),
		APIs: map[string]providers.Provider{
			"anthropic-messages": h.recorder, "openai-responses": h.recorder, "openai-completions": h.recorder, "scripted": h.recorder, "wire": h.recorder,
		},
		Command: func(_ context.Context, command string) (string, error) {
			h.commands = append(h.commands, command)
			return h.output(command)
		},
	})
	return h
}

// write replaces a file and makes sure that it looks changed.
func (h *house) write(name, text string) {
	h.t.Helper()
	path := filepath.Join(h.dir, name)
	require.NoError(h.t, os.WriteFile(path+".new", []byte(text), 0o600))
	require.NoError(h.t, os.Rename(path+".new", path))
}

func (h *house) catalog() *protocol.Catalog {
	h.t.Helper()
	c, err := h.Catalog()
	require.NoError(h.t, err)
	return c
}

// ask sends a request and returns what the provider got, or the error.
func (h *house) ask(provider, id string) (providers.Request, *protocol.StreamError) {
	h.t.Helper()
	c, _ := h.Catalog()
	model := c.Find(provider, id)
	require.NotNil(h.t, model, "%s/%s", provider, id)
	return h.askModel(model)
}

func (h *house) askModel(model *protocol.Model) (providers.Request, *protocol.StreamError) {
	for _, err := range h.Stream(h.t.Context(), providers.Request{Model: model}) {
		var failed *protocol.StreamError
		if errors.As(err, &failed) {
			return providers.Request{}, failed
		}
	}
	return h.recorder.last(), nil
}

func TestRegistry_readsNothingUntilAsked(t *testing.T) {
	r := New(Config{AgentDir: "/does/not/exist", Builtin: panicFS{}, Env: func(string) string { panic("environment read") }})
	assert.NotNil(t, r)
}

type panicFS struct{}

func (panicFS) Open(name string) (fs.File, error) { panic("opened " + name) }

func TestRegistry_builtins(t *testing.T) {
	h := newHouse(t, "OPENAI_API_KEY", "sk-env")
	c := h.catalog()
	var names []string
	assert.Len(t, c.Models, 1, "what there is no key for is not read until somebody asks")
	for _, m := range c.All() {
		names = append(names, m.Provider+"/"+m.ID)
	}
	assert.Equal(t, []string{"openai/gpt-5.5", "anthropic/claude-opus-4-8", "anthropic/claude-haiku-4-5", "azure/gpt-5.4", "cloudflare-ai-gateway/m", "scripted/demo", "zz-other/z"}, names)
	assert.Equal(t, map[string]bool{"openai": true}, c.Keys)
	assert.Same(t, c, h.catalog(), "the same snapshot until something changes")

	opus := c.Find("anthropic", "claude-opus-4-8")
	assert.Equal(t, &protocol.Model{
		ID: "claude-opus-4-8", Name: "Claude Opus 4.8", API: "anthropic-messages", Provider: "anthropic", BaseURL: "https://api.anthropic.com",
		Reasoning: true, Input: []string{"text", "image"}, Cost: protocol.ModelCost{Input: 5, Output: 25, CacheRead: 0.5, CacheWrite: 6.25},
		ContextWindow: 1_000_000, MaxTokens: 128_000, ProviderConfig: opus.ProviderConfig,
	}, opus)
	assert.JSONEq(t, `{"supportsEagerToolInputStreaming":true,"forceAdaptiveThinking":true}`, string(opus.ProviderConfig.Compat))
	assert.Equal(t, protocol.ThinkingLevels, opus.Levels())

	haiku := c.Find("anthropic", "claude-haiku-4-5")
	assert.Equal(t, "claude-haiku-4-5", haiku.Name)
	assert.Equal(t, []string{"text"}, haiku.Input)
	assert.Equal(t, int64(defaultWindow), haiku.ContextWindow)
	assert.Equal(t, int64(defaultMaxTokens), haiku.MaxTokens)

	gpt := c.Find("openai", "gpt-5.5")
	assert.Equal(t, []protocol.ThinkingLevel{"minimal", "low", "medium", "high"}, gpt.Levels())
	assert.Equal(t, "LOW", (&providers.Request{Model: gpt, Thinking: "low"}).Effort(nil))
	assert.Equal(t, "high", (&providers.Request{Model: gpt, Thinking: "high"}).Effort(nil))
}

// The example that pi's own configuration documents.
const sampleModels = `{
  // providers of mine
  "providers": {
    "fake": {
      "baseUrl": "http://127.0.0.1:18931/v1",
      "api": "openai-completions",
      "apiKey": "sk-test",
      "headers": { "x-team": "demo" },
      "compat": { "supportsDeveloperRole": false, "maxTokensField": "max_tokens", "openRouterRouting": {"only": ["a"], "order": ["b"]} },
      "models": [
        { "id": "m1", "name": "Fake One", "contextWindow": 128000, "maxTokens": 4096,
          "cost": { "input": 1, "output": 2, "cacheRead": 0.1, "cacheWrite": 1.25, "tiers": [
            {"inputTokensAbove": 400000, "input": 4, "output": 4, "cacheRead": 4, "cacheWrite": 4},
            {"inputTokensAbove": 200000, "input": 2, "output": 4, "cacheRead": 0.2, "cacheWrite": 2.5}] } },
        { "id": "think", "reasoning": true, "input": ["text", "image"], "contextWindow": 200000, "maxTokens": 8192,
          "headers": {"X-Team": "other", "x-more": "$MORE"},
          "compat": { "thinkingFormat": "qwen", "supportsStore": false, "openRouterRouting": {"only": ["c"]} } }, /* comma */
      ],
    },
    "fakeanth": {
      "baseUrl": "https://anth.example/anthropic", "api": "anthropic-messages", "apiKey": "$FAKE_ANTH_KEY", "authHeader": true,
      "models": [ { "id": "claude-x", "api": "wire", "baseUrl": "https://elsewhere.example", "stall": {"firstMs": 9} } ],
      "stall": {"contentMs": 7}
    },
    "anthropic": {
      "headers": {"x-all": "yes"},
      "modelOverrides": { "claude-opus-4-8": { "contextWindow": 400000, "cost": { "input": 4 }, "name": "Mine" }, "no-such-model": {"maxTokens": 1} }
    },
    "openai": { "baseUrl": "https://proxy.example/v1", "models": [{"id": "gpt-5.5", "name": "Replaced"}, {"id": "gpt-new"}] }
  }
}`

func TestRegistry_modelsFile(t *testing.T) {
	h := newHouse(t)
	h.write("models.json", sampleModels)
	c := h.catalog()

	m1 := c.Find("fake", "m1")
	assert.Equal(t, "Fake One", m1.Name)
	assert.Equal(t, protocol.ModelCost{Input: 1, Output: 2, CacheRead: 0.1, CacheWrite: 1.25}, m1.Cost)
	assert.Equal(t, int64(200_000), m1.ProviderConfig.Tiers[0].InputAbove, "by rising threshold")
	assert.InDelta(t, 0.6, m1.Price(protocol.Usage{Input: 300_000}).Cost.Input, 1e-9)

	think := c.Find("fake", "think")
	assert.Equal(t, map[string]string{"X-Team": "other", "x-more": "$MORE"}, think.ProviderConfig.Headers)
	assert.JSONEq(t, `{"supportsDeveloperRole":false,"maxTokensField":"max_tokens","thinkingFormat":"qwen","supportsStore":false,
		"openRouterRouting":{"only":["c"],"order":["b"]}}`, string(think.ProviderConfig.Compat))

	x := c.Find("fakeanth", "claude-x")
	assert.Equal(t, "wire https://elsewhere.example", x.API+" "+x.BaseURL)
	assert.Equal(t, protocol.StallLimits{FirstMs: 9, ContentMs: 7}, x.ProviderConfig.Stall)

	opus := c.Find("anthropic", "claude-opus-4-8")
	assert.Equal(t, int64(400_000), opus.ContextWindow)
	assert.Equal(t, "Mine", opus.Name)
	assert.Equal(t, protocol.ModelCost{Input: 4, Output: 25, CacheRead: 0.5, CacheWrite: 6.25}, opus.Cost, "prices merge")
	assert.Equal(t, map[string]string{"x-all": "yes"}, opus.ProviderConfig.Headers)
	assert.Contains(t, string(opus.ProviderConfig.Compat), "forceAdaptiveThinking")
	assert.Equal(t, "yes", c.Find("anthropic", "claude-haiku-4-5").ProviderConfig.Headers["x-all"])
	assert.Nil(t, c.Find("anthropic", "no-such-model"))

	assert.Equal(t, "Replaced", c.Find("openai", "gpt-5.5").Name)
	assert.Equal(t, "openai-responses https://proxy.example/v1", c.Find("openai", "gpt-new").API+" "+c.Find("openai", "gpt-new").BaseURL)
	assert.Equal(t, map[string]bool{"fake": true}, c.Keys, "$FAKE_ANTH_KEY is not set")
}

func TestRegistry_modelsFileProblems(t *testing.T) {
	good := `"good": {"baseUrl": "http://x.example", "api": "wire", "apiKey": "k", "models": [{"id": "g"}]}`
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"syntax", "{\n \"providers\": {\n  \"a\" {} } }", []string{"models.json", "line 3"}},
		{"empty", "", []string{"models.json"}},
		{"not an object", `[1]`, []string{`"providers" must be an object`}},
		{"providers", `{"providers": []}`, []string{`"providers" must be an object`}},
		{"types", `{"providers": {` + good + `, "bad": {"baseUrl": 7}}}`, []string{`provider "bad"`, "baseUrl must be a string"}},
		{"a secret of the wrong type", `{"providers": {"bad": {"apiKey": 12345678}}}`, []string{`provider "bad"`, "apiKey must be a string"}},
		{"several", `{"providers": {"bad": {"models": [{"name": "x"}, {"id": "y", "contextWindow": "big"}, {"id": "z", "input": ["smell"]}]}, "empty": {}}}`,
			[]string{"model 2: contextWindow must be a whole number", `provider "empty": has neither models nor anything to change`}},
		{"missing", `{"providers": {"bad": {"models": [{"name": "x", "input": ["smell"], "cost": {"input": 1}, "maxTokens": -1, "contextWindow": -1}]}}}`,
			[]string{"model 1: id is missing", "api is missing", "baseUrl is missing", "cost needs", `input "smell"`, "maxTokens is negative", "contextWindow is negative"}},
		{"compat", `{"providers": {"anthropic": {"compat": {"supportsStore": "yes"}, "modelOverrides": {"a": {"compat": [], "thinkingLevelMap": {"huge": "x"}}, "b": 1}}}}`,
			[]string{`override of "b"`}},
		{"compat values", `{"providers": {"anthropic": {"compat": {"supportsStore": "yes"}, "modelOverrides": {"a": {"compat": [], "thinkingLevelMap": {"huge": "x"}}}}}}`,
			[]string{"supportsStore is neither true nor false", "override of a: thinkingLevelMap", "override of a: compat is not an object"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t, "ANTHROPIC_API_KEY", "k")
			h.write("models.json", c.text)
			catalog, err := h.Catalog()
			require.Error(t, err)
			for _, text := range c.want {
				assert.ErrorContains(t, err, text)
			}
			assert.NotContains(t, err.Error(), "12345678")
			assert.NotNil(t, catalog.Find("anthropic", "claude-opus-4-8"), "the built-in models stay")
			assert.Nil(t, catalog.Find("good", "g"), "one bad entry drops every custom model")
			again, err := h.Catalog()
			require.Error(t, err, "the problem is told until it is gone")
			assert.Same(t, catalog, again)

			h.write("models.json", `{"providers": {`+good+`}}`)
			assert.NotNil(t, h.catalog().Find("good", "g"))

			h.write("models.json", c.text)
			catalog, err = h.Catalog()
			require.Error(t, err)
			assert.NotNil(t, catalog.Find("good", "g"), "a file that is broken for a moment takes no model away")
			assert.True(t, catalog.HasKey("good"))
			require.NoError(t, os.Remove(filepath.Join(h.dir, "models.json")))
			catalog, err = h.Catalog()
			require.ErrorContains(t, err, "models.json is gone")
			assert.NotNil(t, catalog.Find("good", "g"))
			h.write("models.json", `{}`)
			assert.Nil(t, h.catalog().Find("good", "g"), "one that says so does")
		})
	}
}

func TestRegistry_keys(t *testing.T) {
	h := newHouse(t, "ANTHROPIC_API_KEY", "from-env", "MY_VAR", "from-var")
	models := `{"providers": {"anthropic": {"apiKey": "from-models"}, "openai": {"apiKey": "$MY_VAR"}}}`
	h.write("models.json", models)
	key := func(provider, id string) string {
		t.Helper()
		req, failed := h.ask(provider, id)
		require.Nil(t, failed)
		return req.Credentials.Key
	}
	assert.Equal(t, "from-models", key("anthropic", "claude-haiku-4-5"))
	assert.Equal(t, "from-var", key("openai", "gpt-5.5"))
	h.write("auth.json", `{"anthropic": {"type": "api_key", "key": "!print key"}, "openai": {"type": "of somebody else", "access": "never", "refresh": "r", "expires": 1}}`)
	assert.Equal(t, "out-of-print key", key("anthropic", "claude-haiku-4-5"))
	assert.Equal(t, "from-var", key("openai", "gpt-5.5"), "entries of other types are left alone")
	h.SetKey("anthropic", "from-flag")
	assert.Equal(t, "from-flag", key("anthropic", "claude-haiku-4-5"))
	h.SetKey("anthropic", "")
	h.write("auth.json", `{"anthropic": {"type": "api_key", "key": "$MINE", "env": {"MINE": "own-variable"}}}`)
	assert.Equal(t, "own-variable", key("anthropic", "claude-haiku-4-5"), "a changed file is read again")
	h.write("auth.json", `{"anthropic": {"type": "api_key", "key": "$UNSET"}}`)
	assert.Equal(t, "from-models", key("anthropic", "claude-haiku-4-5"), "no value, next source")
	h.write("models.json", `{"providers": {"openai": {"apiKey": "$MY_VAR"}}}`)
	assert.Equal(t, "from-env", key("anthropic", "claude-haiku-4-5"), "the environment is last")
}

func TestRegistry_brokenAuthFile(t *testing.T) {
	h := newHouse(t)
	h.write("auth.json", `{"anthropic": {"type": "api_key", "key": "good-key"}}`)
	require.True(t, h.catalog().HasKey("anthropic"))
	h.write("auth.json", `{"anthropic": {"type": "api_k`)
	c, err := h.Catalog()
	require.ErrorContains(t, err, "auth.json")
	assert.True(t, c.HasKey("anthropic"), "a half-written file takes nobody's key away")
	h.write("auth.json", `[]`)
	_, err = h.Catalog()
	require.ErrorContains(t, err, "auth.json")
	h.write("auth.json", `{"anthropic": {"type": "api_key", "key": 5}, "openai": {"type": "api_key", "key": "k"}}`)
	c, err = h.Catalog()
	require.ErrorContains(t, err, `the entry of "anthropic" is not used`)
	assert.False(t, c.HasKey("anthropic"))
	assert.True(t, c.HasKey("openai"), "a wrong entry is its own provider's trouble")
	text, readErr := os.ReadFile(filepath.Join(h.dir, "auth.json"))
	require.NoError(t, readErr)
	require.NoError(t, os.Remove(filepath.Join(h.dir, "auth.json")))
	c, err = h.Catalog()
	require.NoError(t, err)
	assert.False(t, c.HasKey("openai"), "who removes secrets means it")
	assert.Equal(t, `{"anthropic": {"type": "api_key", "key": 5}, "openai": {"type": "api_key", "key": "k"}}`, string(text), "never written")
}

func TestRegistry_noKey(t *testing.T) {
	h := newHouse(t)
	_, failed := h.ask("anthropic", "claude-haiku-4-5")
	require.NotNil(t, failed)
	assert.Equal(t, protocol.ErrorAuth, failed.Kind)
	first, how, _ := strings.Cut(failed.Message, "\n\n")
	assert.Equal(t, "No API key found for anthropic.", first)
	assert.Contains(t, how, "ANTHROPIC_API_KEY")
	assert.Contains(t, how, filepath.Join(h.dir, "auth.json"))
	assert.Empty(t, h.recorder.reqs)

	_, failed = h.ask("zz-other", "z")
	require.NotNil(t, failed)
	assert.Contains(t, failed.Message, "No API key found for zz-other.")
}

func TestRegistry_keyless(t *testing.T) {
	h := newHouse(t)
	h.write("models.json", `{"providers": {
		"ollama": {"baseUrl": "http://localhost:11434/v1", "api": "openai-completions", "models": [{"id": "q"}]},
		"lan": {"baseUrl": "http://192.168.1.5:8080/v1", "api": "openai-completions", "models": [{"id": "q"}]},
		"header": {"baseUrl": "https://gateway.example", "api": "wire", "headers": {"Authorization": "Bearer $GATEWAY"}, "models": [{"id": "q"}]},
		"header2": {"baseUrl": "https://gateway.example", "api": "wire", "headers": {"X-Api-Key": "abc"}, "models": [{"id": "q"}]},
		"far": {"baseUrl": "https://far.example/v1", "api": "openai-completions", "models": [{"id": "q"}]},
		"play": {"baseUrl": "answers.json", "api": "scripted", "models": [{"id": "q"}]}}}`)
	assert.Equal(t, map[string]bool{"ollama": true, "lan": true, "header2": true, "play": true}, h.catalog().Keys)
	for _, provider := range []string{"ollama", "lan", "header2", "play"} {
		req, failed := h.ask(provider, "q")
		require.Nil(t, failed)
		assert.Empty(t, req.Credentials.Key)
	}
	for _, provider := range []string{"far", "header"} {
		_, failed := h.ask(provider, "q")
		require.NotNil(t, failed)
		assert.Equal(t, protocol.ErrorAuth, failed.Kind)
	}
}

// TestRegistry_namedKeyWithoutValue checks that models of a provider are not offered while the key that its
// configuration names has no value, also where none would be needed. A command counts as a key without being executed.
func TestRegistry_namedKeyWithoutValue(t *testing.T) {
	h := newHouse(t, "SET", "k")
	h.write("models.json", `{"providers": {
		"unset": {"baseUrl": "https://far.example/v1", "apiKey": "$NOT_SET", "api": "openai-completions", "models": [{"id": "q"}]},
		"part": {"baseUrl": "https://far.example/v1", "apiKey": "a-${NOT_SET}", "api": "openai-completions", "models": [{"id": "q"}]},
		"near": {"baseUrl": "http://localhost:11434/v1", "apiKey": "$NOT_SET", "api": "openai-completions", "models": [{"id": "q"}]},
		"set": {"baseUrl": "http://localhost:11434/v1", "apiKey": "$SET", "api": "openai-completions", "models": [{"id": "q"}]},
		"command": {"baseUrl": "https://far.example/v1", "apiKey": "!false", "api": "openai-completions", "models": [{"id": "q"}]}}}`)
	own := providers.Registration{Name: "spoken", Config: json.RawMessage(`{"apiKey":"$NOT_SET","models":[{"id":"s"}]}`), Stream: spoken{}}
	r, problems := h.With([]providers.Registration{own})
	require.Empty(t, problems)
	c, err := r.Catalog()
	require.NoError(t, err)
	assert.Equal(t, map[string]bool{"set": true, "command": true}, c.Keys)
	_, failed := h.ask("near", "q")
	assert.Nil(t, failed, "a client may still choose it")
}

func TestRegistry_scripted(t *testing.T) {
	h := newHouse(t)
	assert.False(t, h.catalog().HasKey("scripted"), "the demo is not offered")
	_, failed := h.ask("scripted", "demo")
	require.Nil(t, failed, "but it answers whoever asks")
	h.SetKey("scripted", "on")
	assert.True(t, h.catalog().HasKey("scripted"))
	assert.True(t, newHouse(t, "TROUPE_SCRIPT", "x.json").catalog().HasKey("scripted"))
}

func TestRegistry_bearerAndHeaders(t *testing.T) {
	h := newHouse(t, "ANTHROPIC_AUTH_TOKEN", "token", "SET", "value")
	req, failed := h.ask("anthropic", "claude-haiku-4-5")
	require.Nil(t, failed)
	assert.Equal(t, providers.Credentials{Key: "token", Bearer: true}, req.Credentials)

	h.SetKey("github-copilot", "gh")
	req, failed = h.askModel(&protocol.Model{ID: "m", Provider: "github-copilot", API: "anthropic-messages", BaseURL: "https://c.example"})
	require.Nil(t, failed)
	assert.Equal(t, providers.Credentials{Key: "gh", Bearer: true}, req.Credentials)

	h.write("models.json", `{"providers": {"fake": {"baseUrl": "https://x.example", "api": "wire", "apiKey": "k", "authHeader": true,
		"headers": {"x-a": "$SET", "x-b": "$UNSET", "x-c": "!print c"}, "models": [{"id": "m"}]}}}`)
	req, failed = h.ask("fake", "m")
	require.Nil(t, failed)
	assert.Equal(t, providers.Credentials{Key: "k", Headers: map[string]string{"Authorization": "Bearer k", "x-a": "value", "x-c": "out-of-print c"}}, req.Credentials)

	given := providers.Credentials{Key: "given"}
	for range h.Stream(t.Context(), providers.Request{Model: req.Model, Credentials: given}) {
	}
	assert.Equal(t, given, h.recorder.last().Credentials, "what a request brings is not replaced")
}

func TestRegistry_azure(t *testing.T) {
	h := newHouse(t, "AZURE_OPENAI_API_KEY", "azure-key")
	assert.False(t, h.catalog().HasKey("azure-openai-responses"), "no address")
	_, failed := h.ask("azure-openai-responses", "gpt-5.4")
	require.NotNil(t, failed)
	assert.Contains(t, failed.Message, "AZURE_OPENAI_BASE_URL")

	h = newHouse(t, "AZURE_OPENAI_API_KEY", "azure-key", "AZURE_OPENAI_RESOURCE_NAME", "mine", "AZURE_OPENAI_DEPLOYMENT_NAME_MAP", "x=y, gpt-5.4=prod")
	assert.True(t, h.catalog().HasKey("azure-openai-responses"))
	req, failed := h.ask("azure-openai-responses", "gpt-5.4")
	require.Nil(t, failed)
	assert.Equal(t, "https://mine.openai.azure.com/openai/v1", req.Model.BaseURL)
	assert.Equal(t, "prod", req.WireModel())
	assert.Equal(t, "gpt-5.4", req.Model.ID)
	assert.Equal(t, providers.Credentials{Headers: map[string]string{"Api-Key": "azure-key"}}, req.Credentials)
	assert.Equal(t, "{AZURE_OPENAI_BASE_URL}", h.catalog().Find("azure-openai-responses", "gpt-5.4").BaseURL, "the catalogue is not changed")
}

func TestRegistry_commands(t *testing.T) {
	h := newHouse(t)
	h.write("models.json", `{"providers": {"fake": {"baseUrl": "https://x.example", "api": "wire", "apiKey": "!print key", "models": [{"id": "m", "headers": {"x-h": "!print header"}}]}}}`)
	assert.True(t, h.catalog().HasKey("fake"))
	assert.Empty(t, h.commands, "looking at the models runs nothing")
	for range 2 {
		_, failed := h.ask("fake", "m")
		require.Nil(t, failed)
	}
	assert.Equal(t, []string{"print key", "print header"}, h.commands)

	h.recorder.err = protocol.ErrorAuth.Errorf("401")
	_, failed := h.ask("fake", "m")
	require.NotNil(t, failed)
	h.recorder.err = nil
	_, failed = h.ask("fake", "m")
	require.Nil(t, failed)
	assert.Len(t, h.commands, 6, "after a failure of kind auth the commands run again: at once, in case they print something else, and for the next request")

	h.Refresh("fake")
	h.output = func(string) (string, error) { return "", errors.New("exit status 1: sk-secret-0123456789") }
	_, failed = h.ask("fake", "m")
	require.NotNil(t, failed)
	assert.Equal(t, protocol.ErrorAuth, failed.Kind)
	assert.Equal(t, "The command for the API key of fake failed: exit status 1: ***", failed.Message)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range h.Stream(ctx, providers.Request{Model: h.catalog().Find("fake", "m")}) {
		var failed *protocol.StreamError
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, protocol.ErrorAborted, failed.Kind)
	}
}

func TestRegistry_dispatch(t *testing.T) {
	h := newHouse(t)
	_, failed := h.askModel(&protocol.Model{ID: "m", Provider: "p", API: "smoke-signals"})
	require.NotNil(t, failed)
	assert.Equal(t, protocol.ErrorInvalid, failed.Kind)
	assert.Contains(t, failed.Message, `"smoke-signals"`)

	n := 0
	for range h.Stream(t.Context(), providers.Request{Model: h.catalog().Find("scripted", "demo")}) {
		n++
		break
	}
	assert.Equal(t, 1, n)

	long := newHouse(t, "PI_CACHE_RETENTION", "long")
	req, failed := long.ask("scripted", "demo")
	require.Nil(t, failed)
	assert.Equal(t, providers.CacheLong, req.Cache)
}

// TestRegistry_change: a change in place is noticed by time or size, too.
func TestRegistry_change(t *testing.T) {
	h := newHouse(t)
	path := filepath.Join(h.dir, "auth.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"anthropic": {"type": "api_key", "key": "aaaa"}}`), 0o600))
	req, _ := h.ask("anthropic", "claude-haiku-4-5")
	assert.Equal(t, "aaaa", req.Credentials.Key)
	require.NoError(t, os.WriteFile(path, []byte(`{"anthropic": {"type": "api_key", "key": "bbbb"}}`), 0o600))
	require.NoError(t, os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)))
	req, _ = h.ask("anthropic", "claude-haiku-4-5")
	assert.Equal(t, "bbbb", req.Credentials.Key)
}

func TestRegistry_concurrent(t *testing.T) {
	h := newHouse(t, "ANTHROPIC_API_KEY", "k")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 20 {
				switch i % 4 {
				case 0:
					h.SetKey("openai", "x")
				case 1:
					h.Refresh("anthropic")
				default:
					c, err := h.Catalog()
					assert.NoError(t, err)
					for range h.Stream(t.Context(), providers.Request{Model: c.Find("anthropic", "claude-haiku-4-5")}) {
					}
				}
			}
		})
	}
	all.Wait()
}

// TestOverridesOfListed checks that modelOverrides change models that models.json lists itself, also those
// that replace built-in ones.
func TestOverridesOfListed(t *testing.T) {
	h := newHouse(t)
	h.write("models.json", `{"providers": {
		"openai": {"apiKey": "k", "models": [{"id": "gpt-5.5", "name": "Replaced"}], "modelOverrides": {"gpt-5.5": {"contextWindow": 1234}}},
		"own": {"baseUrl": "https://own.example", "api": "wire", "apiKey": "k", "models": [{"id": "m", "contextWindow": 1, "maxTokens": 2}, {"id": "n"}],
			"modelOverrides": {"m": {"contextWindow": 64000, "reasoning": true}}}}}`)
	c := h.catalog()
	m := c.Find("own", "m")
	assert.EqualValues(t, 64000, m.ContextWindow)
	assert.EqualValues(t, 2, m.MaxTokens)
	assert.True(t, m.Reasoning)
	assert.False(t, c.Find("own", "n").Reasoning)
	replaced := c.Find("openai", "gpt-5.5")
	assert.Equal(t, "Replaced", replaced.Name)
	assert.EqualValues(t, 1234, replaced.ContextWindow)
}

// TestStall_configured: models.json overrides the limits, field by field: those
// of a provider for all its models, those of a model for itself.
func TestStall_configured(t *testing.T) {
	h := newHouse(t)
	h.write("models.json", `{"providers": {
		"anthropic": {"stall": {"firstMs": 600000}, "modelOverrides": {"claude-opus-4-8": {"stall": {"contentMs": -1}}}},
		"slow": {"baseUrl": "https://slow.example", "api": "wire", "apiKey": "k", "stall": {"connectMs": 1000}, "models": [{"id": "m", "stall": {"connectMs": 2000}}, {"id": "n"}]}}}`)
	limits := func(provider, id string) protocol.StallLimits {
		return providers.LimitsFor(h.catalog().Find(provider, id), protocol.StallLimits{ContentMs: 42})
	}
	assert.Equal(t, protocol.StallLimits{ConnectMs: 300_000, FirstMs: 600_000, ContentMs: -1}, limits("anthropic", "claude-opus-4-8"))
	assert.Equal(t, protocol.StallLimits{ConnectMs: 300_000, FirstMs: 600_000, ContentMs: 42}, limits("anthropic", "claude-haiku-4-5"))
	assert.Equal(t, protocol.StallLimits{ConnectMs: 2000, FirstMs: 300_000, ContentMs: 42}, limits("slow", "m"))
	assert.Equal(t, int64(1000), limits("slow", "n").ConnectMs)
}

// TestRegistry_formerName: the earlier id of a provider finds its models in sessions and settings. They
// are offered under it only to those who have configured it.
func TestRegistry_formerName(t *testing.T) {
	env := []string{"AZURE_OPENAI_BASE_URL", "https://mine.openai.azure.com"}
	offered := func(h *house) (list []string) {
		for _, m := range h.catalog().Available() {
			if strings.HasPrefix(m.Provider, "azure") {
				list = append(list, m.Provider+"/"+m.ID)
			}
		}
		return list
	}
	h := newHouse(t, append(env, "AZURE_OPENAI_API_KEY", "k")...)
	assert.Equal(t, []string{"azure/gpt-5.4"}, offered(h))
	assert.True(t, h.catalog().HasKey("azure-openai-responses"))
	assert.NotNil(t, h.catalog().Find("azure-openai-responses", "gpt-5.4"))

	h = newHouse(t, env...)
	assert.Empty(t, offered(h))
	assert.False(t, h.catalog().HasKey("azure-openai-responses"))

	h.write("auth.json", `{"azure-openai-responses": {"type": "api_key", "key": "k"}}`)
	assert.Equal(t, []string{"azure-openai-responses/gpt-5.4"}, offered(h))
}

// TestRegistry_gatewayKey: the key opens the gateway and is not passed on to the vendor behind it.
func TestRegistry_gatewayKey(t *testing.T) {
	h := newHouse(t, "CLOUDFLARE_API_KEY", "k")
	assert.False(t, h.catalog().HasKey("cloudflare-ai-gateway"), "no address")
	h = newHouse(t, "CLOUDFLARE_API_KEY", "k", "CLOUDFLARE_GATEWAY_ID", "g")
	req, failed := h.ask("cloudflare-ai-gateway", "m")
	require.Nil(t, failed)
	assert.Empty(t, req.Credentials.Key)
	assert.Equal(t, map[string]string{"Cf-Aig-Authorization": "Bearer k"}, req.Credentials.Headers)
}
