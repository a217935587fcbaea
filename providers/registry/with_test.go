package registry

import (
	"context"
	"encoding/json"
	"iter"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/providers"
)

// spoken answers with nothing.
type spoken struct{}

func (spoken) Stream(context.Context, providers.Request) iter.Seq2[protocol.Part, error] {
	return func(yield func(protocol.Part, error) bool) {
		yield(protocol.PartDone{StopReason: protocol.StopStop}, nil)
	}
}

// TestWith_offline: a session that began without a key goes on when extensions bring a provider
// that has one.
func TestWith_offline(t *testing.T) {
	h := newHouse(t)
	h.config.Offline = "scripted"
	r, problems := h.With([]providers.Registration{{Name: "own", Config: json.RawMessage(`{"baseUrl":"http://x","apiKey":"k","api":"openai-completions","models":[{"id":"m"}]}`)}})
	require.Empty(t, problems)
	c, err := r.Catalog()
	require.NoError(t, err)
	assert.Equal(t, map[string]bool{"scripted": true, "own": true}, c.Keys)

	h.SetKey("openai", "k")
	r, _ = h.With([]providers.Registration{{Name: "own", Config: json.RawMessage(`{"baseUrl":"http://x","apiKey":"k","api":"openai-completions","models":[{"id":"m"}]}`)}})
	c, err = r.Catalog()
	require.NoError(t, err)
	assert.Equal(t, map[string]bool{"openai": true, "own": true}, c.Keys)
}

// TestWith: providers of extensions change what is known of others, or bring models in
// their place, and leave the registry that they are added to as it was.
func TestWith(t *testing.T) {
	reg := func(name, config string) providers.Registration {
		return providers.Registration{Name: name, Config: json.RawMessage(config)}
	}
	base := New(Config{Builtin: builtinFS, Env: func(string) string { return "" }})
	own := reg("spoken", `{"models":[{"id":"s"}]}`)
	own.Stream = spoken{}
	r, problems := base.With([]providers.Registration{
		reg("anthropic", `{"headers":{"X":"1"},"apiKey":"k"}`),
		reg("openai", `{"apiKey":"k","models":[{"id":"only","baseUrl":"http://x","api":"openai-completions"}]}`),
		reg("bad", `{"models":[{"id":"x"}]}`), own,
	})
	require.Len(t, problems, 2, "neither an api nor a base URL")
	assert.ErrorContains(t, problems[0], `provider "bad": model x: api is missing`)
	catalog, err := r.Catalog()
	require.NoError(t, err)
	of := map[string][]*protocol.Model{}
	for _, m := range catalog.Models {
		of[m.Provider] = append(of[m.Provider], m)
	}
	require.NotEmpty(t, of["anthropic"])
	assert.Equal(t, "1", of["anthropic"][0].ProviderConfig.Headers["X"])
	require.Len(t, of["openai"], 1)
	assert.Equal(t, "only", of["openai"][0].ID)
	assert.True(t, catalog.HasKey("spoken"), "it needs none")
	for part, err := range r.Stream(t.Context(), providers.Request{Model: of["spoken"][0]}) {
		require.NoError(t, err)
		assert.IsType(t, protocol.PartDone{}, part)
	}
	before, err := base.Catalog()
	require.NoError(t, err)
	assert.Nil(t, before.Find("spoken", "s"))
	cred, failed := r.Credentials(t.Context(), of["openai"][0])
	require.Nil(t, failed)
	assert.Equal(t, "k", cred.Key)
}
