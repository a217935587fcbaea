package registry

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/providers"
)

// doorman is a provider that lets one key in.
type doorman struct {
	key   string
	asked []string // the keys it saw
	parts bool     // says something before it refuses
}

func (d *doorman) Stream(_ context.Context, req providers.Request) iter.Seq2[protocol.Part, error] {
	return func(yield func(protocol.Part, error) bool) {
		d.asked = append(d.asked, req.Credentials.Key)
		if d.parts && !yield(protocol.PartStart{}, nil) {
			return
		}
		if req.Credentials.Key != d.key {
			yield(nil, protocol.ErrorAuth.Errorf("401 token expired"))
			return
		}
		yield(protocol.PartDone{StopReason: protocol.StopStop}, nil)
	}
}

// TestRegistry_renew: a key that has expired is looked for again, once, and
// nobody notices if the new one is good.
func TestRegistry_renew(t *testing.T) {
	door := &doorman{key: "token-2"}
	h := newHouse(t)
	h.config.APIs = map[string]providers.Provider{"wire": door}
	runs := 0
	h.output = func(string) (string, error) {
		runs++
		return fmt.Sprint("token-", runs), nil
	}
	h.write("models.json", `{"providers": {"cloud": {"baseUrl": "https://x.example", "api": "wire", "apiKey": "!print token", "models": [{"id": "m"}]}}}`)
	ask := func(cred providers.Credentials) *protocol.StreamError {
		failed := outcome(h.Stream(t.Context(), providers.Request{Model: h.catalog().Find("cloud", "m"), Credentials: cred}))
		return failed
	}
	require.Nil(t, ask(providers.Credentials{}), "the second token is good")
	assert.Equal(t, []string{"token-1", "token-2"}, door.asked)
	require.Nil(t, ask(providers.Credentials{}))
	assert.Equal(t, []string{"token-1", "token-2", "token-2"}, door.asked, "it is kept")

	door.key, door.asked = "token-9", nil
	require.NotNil(t, ask(providers.Credentials{}), "once more, not for ever")
	assert.Equal(t, []string{"token-2", "token-3"}, door.asked)
	door.asked = nil
	require.NotNil(t, ask(providers.Credentials{Key: "given"}), "what a request brings is not replaced")
	assert.Equal(t, []string{"given"}, door.asked)
	door.asked, door.parts = nil, true
	require.NotNil(t, ask(providers.Credentials{}), "nothing is asked twice once an answer has begun")
	assert.Len(t, door.asked, 1)

	door.asked, door.parts = nil, false
	h.output = func(string) (string, error) { return "", errors.New("not logged in") }
	failed := ask(providers.Credentials{})
	require.NotNil(t, failed)
	assert.Equal(t, protocol.ErrorAuth, failed.Kind)
}

// TestRegistry_renewFile: somebody else wrote a new key into auth.json while
// the old one was used.
func TestRegistry_renewFile(t *testing.T) {
	h := newHouse(t)
	door := &doorman{key: "new-key"}
	h.write("auth.json", `{"zz-other": {"type": "api_key", "key": "old-key"}}`)
	h.config.APIs = map[string]providers.Provider{"wire": refreshing{door, func() { h.write("auth.json", `{"zz-other": {"type": "api_key", "key": "new-key"}}`) }}}
	failed := outcome(h.Stream(t.Context(), providers.Request{Model: h.catalog().Find("zz-other", "z")}))
	require.Nil(t, failed)
	assert.Equal(t, []string{"old-key", "new-key"}, door.asked)
}

// refreshing does something before each request.
type refreshing struct {
	providers.Provider
	before func()
}

func (r refreshing) Stream(ctx context.Context, req providers.Request) iter.Seq2[protocol.Part, error] {
	r.before()
	return r.Provider.Stream(ctx, req)
}

func TestRegistry_Secrets(t *testing.T) {
	h := newHouse(t)
	used := func(provider string) bool { return provider == "google" || provider == "scripted" }
	names := func() []string { return slices.Sorted(maps.Keys(h.Secrets(used))) }
	plain := names()
	assert.Equal(t, []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}, plain, "the catalogue does not count")
	h.write("models.json", `{"providers": {"a": {"baseUrl": "https://x.example", "api": "wire", "apiKey": "$A_KEY",
		"headers": {"Authorization": "Bearer ${GATEWAY_TOKEN}", "X-Home": "$HOME", "X-Team": "TEAM", "X-JWT": "Bearer $XJ"},
		"models": [{"id": "m", "headers": {"X-Auth": "$MODEL_AUTH"}}]},
		"anthropic": {"apiKey": "LEGACY_KEY", "modelOverrides": {"claude-haiku-4-5": {"headers": {"Api-Key": "$OVER_KEY"}}}},
		"openai": {"apiKey": "!print $INSIDE_A_COMMAND"}}}`)
	h.write("auth.json", `{"openai": {"type": "api_key", "key": "pre-$AUTH_KEY-$$-post"}}`)
	h.SetKey("groq", "given")
	cloudy := h.Secrets(func(provider string) bool {
		return provider == "amazon-bedrock" || provider == "azure-openai-responses"
	})
	for _, name := range []string{"AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_CONTAINER_AUTHORIZATION_TOKEN", "AZURE_CLIENT_SECRET", "AZURE_CLIENT_CERTIFICATE_PASSWORD", "IDENTITY_HEADER"} {
		assert.True(t, cloudy[name], name)
	}
	got := h.Secrets(func(string) bool { return false })
	assert.Equal(t, []string{
		"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_OAUTH_TOKEN", "AUTH_KEY", "A_KEY", "GATEWAY_TOKEN", "GROQ_API_KEY",
		"INSIDE_A_COMMAND", "LEGACY_KEY", "MODEL_AUTH", "OPENAI_API_KEY", "OVER_KEY", "TEAM", "XJ",
	}, slices.Sorted(maps.Keys(got)))
}

func TestVariablesOf(t *testing.T) {
	for in, want := range map[string][]string{
		"": nil, "sk-literal": nil, "MY_KEY": {"MY_KEY"}, " MY_KEY ": {"MY_KEY"}, "K": nil, "9KEY": nil, "My_Key": nil,
		"$MY_KEY": {"MY_KEY"}, "${my_key}": {"my_key"}, "Bearer $A and ${B}": {"A", "B"}, "$$": nil, "$$A": nil, "a$$$B": {"B"},
		"$5": nil, "${": nil, "!print $A": {"A"}, "!": nil, "!printenv my_key | head": {"my_key"}, "!gcloud auth print-access-token": nil, "!sh -c 'echo ${K1}-K_2'": {"K1", "K_2"},
	} {
		assert.Equal(t, want, variablesOf(in), "%q", in)
	}
}

// TestRegistry_offline: without any key a provider that needs none is offered,
// and goes away when there is one.
func TestRegistry_offline(t *testing.T) {
	h := newHouse(t)
	h.config.Offline = "scripted"
	c := h.catalog()
	assert.Equal(t, map[string]bool{"scripted": true}, c.Keys)
	choice := providers.ChooseModel(c, providers.Wishes{})
	assert.Equal(t, "demo", choice.Model.ID)
	assert.Equal(t, "no provider has an API key; scripted/demo answers, offline", choice.Warning)

	h.SetKey("openai", "k")
	c = h.catalog()
	assert.Equal(t, map[string]bool{"openai": true}, c.Keys)
	choice = providers.ChooseModel(c, providers.Wishes{})
	assert.Equal(t, "gpt-5.5", choice.Model.ID)
	assert.Empty(t, choice.Warning)

	assert.Empty(t, newHouse(t).catalog().Keys, "only if it is wanted")
}

// TestChooseModel_offline: the demo does not answer in the name of a model that
// was asked for.
func TestRegistry_azureVariants(t *testing.T) {
	ask := func(t *testing.T, file string, env ...string) providers.Request {
		h := newHouse(t, append([]string{"AZURE_OPENAI_API_KEY", "azure-key"}, env...)...)
		h.config.APIs["azure-openai-responses"] = h.recorder
		h.write("models.json", file)
		m := h.catalog().Find("mine", "m")
		if m == nil {
			m = h.catalog().Find("azure-openai-responses", "gpt-5.4")
		}
		req, failed := h.askModel(m)
		require.Nil(t, failed)
		return req
	}
	for _, c := range [][3]string{
		{"https://mine.openai.azure.com/openai/v1", "", "https://mine.openai.azure.com/openai/v1"},
		{"https://mine.openai.azure.com", "v1", "https://mine.openai.azure.com/openai/v1"},
		{"https://mine.openai.azure.com/openai/", "2025-04-01-preview", "https://mine.openai.azure.com/openai/v1?api-version=2025-04-01-preview"},
		{"https://mine.openai.azure.com/openai/v1?api-version=preview", "2025", "https://mine.openai.azure.com/openai/v1?api-version=preview"},
		{"https://proxy.example/azure", "", "https://proxy.example/azure"},
	} {
		req := ask(t, `{}`, "AZURE_OPENAI_BASE_URL", c[0], "AZURE_OPENAI_API_VERSION", c[1])
		assert.Equal(t, c[2], req.Model.BaseURL)
		assert.Equal(t, map[string]string{"Api-Key": "azure-key"}, req.Credentials.Headers)
	}
	custom := func(api, base, more string) providers.Credentials {
		return ask(t, `{"providers": {"mine": {"baseUrl": "`+base+`", "api": "`+api+`", "apiKey": "k"`+more+`, "models": [{"id": "m"}]}}}`).Credentials
	}
	inHeader := providers.Credentials{Headers: map[string]string{"Api-Key": "k"}}
	assert.Equal(t, inHeader, custom("azure-openai-responses", "https://proxy.example", ""), "an API of Azure")
	assert.Equal(t, inHeader, custom("openai-completions", "https://mine.services.ai.azure.com/openai/v1", ""), "an address of Azure")
	assert.Equal(t, providers.Credentials{Key: "k"}, custom("anthropic-messages", "https://mine.services.ai.azure.com/anthropic", ""), "Claude takes its own header there")
	assert.Equal(t, providers.Credentials{Key: "k"}, custom("openai-completions", "https://notazure.com", ""))
	assert.Equal(t, providers.Credentials{Headers: map[string]string{"Authorization": "Bearer k"}}, custom("openai-responses", "https://mine.openai.azure.com", `, "authHeader": true`), "a token of the cloud")
}

// TestRegistry_services: services without a catalogue of their own, by the
// configuration of one of the wires.
func TestRegistry_services(t *testing.T) {
	h := newHouse(t, "GOOGLE_CLOUD_API_KEY", "vertex-key", "AZURE_OPENAI_API_KEY", "azure-key")
	h.config.APIs["google-vertex"], h.config.APIs["google-generative-ai"] = h.recorder, h.recorder
	h.write("models.json", `{"providers": {
		"google-vertex": {"baseUrl": "https://aiplatform.googleapis.com/v1/publishers/google", "api": "google-vertex", "models": [{"id": "gemini-3.5-flash"}]},
		"vertex-token": {"baseUrl": "https://aiplatform.googleapis.com/v1/publishers/google", "api": "google-generative-ai",
			"headers": {"Authorization": "!print Bearer token"}, "models": [{"id": "gemini-3.5-flash"}]},
		"azure": {"baseUrl": "https://mine.openai.azure.com", "api": "openai-responses", "models": [{"id": "gpt-5.5"}]},
		"groq-like": {"baseUrl": "https://api.groq.com/openai/v1", "api": "openai-completions", "apiKey": "gsk", "models": [{"id": "x"}]}}}`)
	for _, c := range []struct {
		provider, id, base string
		cred               providers.Credentials
	}{
		{"google-vertex", "gemini-3.5-flash", "https://aiplatform.googleapis.com/v1/publishers/google", providers.Credentials{Key: "vertex-key"}},
		{"vertex-token", "gemini-3.5-flash", "https://aiplatform.googleapis.com/v1/publishers/google", providers.Credentials{Headers: map[string]string{"Authorization": "out-of-print Bearer token"}}},
		{"azure", "gpt-5.5", "https://mine.openai.azure.com/openai/v1", providers.Credentials{Headers: map[string]string{"Api-Key": "azure-key"}}},
		{"groq-like", "x", "https://api.groq.com/openai/v1", providers.Credentials{Key: "gsk"}},
	} {
		assert.True(t, h.catalog().HasKey(c.provider), c.provider)
		req, failed := h.ask(c.provider, c.id)
		require.Nil(t, failed, c.provider)
		assert.Equal(t, c.base, req.Model.BaseURL, c.provider)
		assert.Equal(t, c.cred.Key, req.Credentials.Key, c.provider)
		assert.Equal(t, c.cred.Headers, req.Credentials.Headers, c.provider)
	}
}

// outcome is how an answer ended, nil for well.
func outcome(answer iter.Seq2[protocol.Part, error]) (failed *protocol.StreamError) {
	for _, err := range answer {
		errors.As(err, &failed)
	}
	return failed
}
