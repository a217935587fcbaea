package providers

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
)

// catalogOf is a catalogue of PROVIDER/ID; keyed providers have a key.
func catalogOf(keyed string, ids ...string) *protocol.Catalog {
	c := &protocol.Catalog{Keys: map[string]bool{}}
	for _, k := range strings.Fields(keyed) {
		c.Keys[k] = true
	}
	for _, id := range ids {
		provider, rest, _ := strings.Cut(id, "/")
		c.Models = append(c.Models, &protocol.Model{Provider: provider, ID: rest, Name: "Name of " + rest, MaxTokens: 7})
	}
	return c
}

var stock = catalogOf("anthropic openrouter",
	"anthropic/claude-opus-4-8", "anthropic/claude-sonnet-4-5", "anthropic/claude-sonnet-4-5-20250929", "anthropic/claude-sonnet-4-10",
	"openai/gpt-5.5", "openai/gpt-5.5-pro", "openai/o3",
	"openrouter/openai/gpt-5.5", "openrouter/openai/gpt-oss-120b", "openrouter/qwen/qwen3:free", "openrouter/x/odd:high",
	"copilot/gpt-5.5", "copilot/claude-sonnet-4-10",
)

func name(m *protocol.Model) string {
	if m == nil {
		return ""
	}
	return m.Provider + "/" + m.ID
}

func TestResolveModel(t *testing.T) {
	for _, c := range []struct {
		provider, pattern, want string
		level                   protocol.ThinkingLevel
		warns                   bool
	}{
		{pattern: "claude-opus-4-8", want: "anthropic/claude-opus-4-8"},
		{pattern: "CLAUDE-Opus-4-8", want: "anthropic/claude-opus-4-8"},
		{pattern: "claude-opus-4-8:high", want: "anthropic/claude-opus-4-8", level: "high"},
		{pattern: "anthropic/claude-opus-4-8:xhigh", want: "anthropic/claude-opus-4-8", level: "xhigh"},
		{pattern: "Anthropic/opus", want: "anthropic/claude-opus-4-8"},
		{pattern: "opus", want: "anthropic/claude-opus-4-8"},
		{pattern: "opus:low", want: "anthropic/claude-opus-4-8", level: "low"},
		{pattern: "name of claude-op", want: "anthropic/claude-opus-4-8"},
		{pattern: "sonnet", want: "anthropic/claude-sonnet-4-10"},
		{pattern: "sonnet-4-5", want: "anthropic/claude-sonnet-4-5"},
		{pattern: "claude-sonnet-4-5-20250929", want: "anthropic/claude-sonnet-4-5-20250929"},
		{pattern: "gpt-5.5", want: "openai/gpt-5.5"},
		{pattern: "openai/gpt-5.5", want: "openai/gpt-5.5"},
		{pattern: "openai/gpt-oss-120b", want: "openrouter/openai/gpt-oss-120b"},
		{pattern: "openrouter/openai/gpt-5.5", want: "openrouter/openai/gpt-5.5"},
		{pattern: "qwen/qwen3:free", want: "openrouter/qwen/qwen3:free"},
		{pattern: "qwen/qwen3:free:minimal", want: "openrouter/qwen/qwen3:free", level: "minimal"},
		{pattern: "x/odd:high", want: "openrouter/x/odd:high"},
		{pattern: "oss", want: "openrouter/openai/gpt-oss-120b"},
		{pattern: "anthropic/claude-next", want: "anthropic/claude-next", warns: true},
		{pattern: "anthropic/claude-next:high", want: "anthropic/claude-next", level: "high", warns: true},
		{provider: "openai", pattern: "o3", want: "openai/o3"},
		{provider: "OpenAI", pattern: "openai/o3", want: "openai/o3"},
		{provider: "openai", pattern: "gpt", want: "openai/gpt-5.5-pro"},
		{provider: "openai", pattern: "", want: "openai/gpt-5.5"},
		{provider: "copilot", pattern: "", want: "copilot/gpt-5.5"},
		{provider: "openrouter", pattern: "openai/gpt-5.5", want: "openrouter/openai/gpt-5.5"},
		{provider: "openai", pattern: "brand-new", want: "openai/brand-new", warns: true},
		{pattern: " opus ", want: "anthropic/claude-opus-4-8"},
	} {
		got, err := ResolveModel(stock, c.provider, c.pattern)
		require.NoError(t, err, "%+v", c)
		assert.Equal(t, c.want, name(got.Model), "%+v", c)
		assert.Equal(t, c.level, got.Level, "%+v", c)
		assert.Equal(t, c.warns, got.Warning != "", "%+v: %s", c, got.Warning)
		if c.warns {
			assert.Equal(t, int64(7), got.Model.MaxTokens, "like the provider's usual model")
			assert.Nil(t, stock.Find(got.Model.Provider, got.Model.ID), "the catalogue is not changed")
		}
	}
	for _, c := range [][2]string{{"", "no-such-model"}, {"nobody", "opus"}, {"", ""}, {"", "nobody/opus-x"}, {"", "opus:enormous"}} {
		_, err := ResolveModel(stock, c[0], c[1])
		assert.Error(t, err, "%q", c)
	}
	keyed := catalogOf("copilot", "openai/gpt-5.5", "copilot/gpt-5.5")
	got, err := ResolveModel(keyed, "", "gpt-5.5")
	require.NoError(t, err)
	assert.Equal(t, "copilot/gpt-5.5", name(got.Model), "of providers that share an id, one with a key")
}

func TestResolveScope(t *testing.T) {
	for _, c := range []struct {
		patterns, want string
		warnings       int
	}{
		{"claude-opus-4-8", "anthropic/claude-opus-4-8", 0},
		{"opus:high sonnet", "anthropic/claude-opus-4-8:high anthropic/claude-sonnet-4-10", 0},
		{"openrouter/*", "openrouter/openai/gpt-5.5 openrouter/openai/gpt-oss-120b openrouter/qwen/qwen3:free openrouter/x/odd:high", 0},
		{"*SONNET*", "anthropic/claude-sonnet-4-5 anthropic/claude-sonnet-4-5-20250929 anthropic/claude-sonnet-4-10", 0},
		{"claude-*-4-[58]:low", "anthropic/claude-opus-4-8:low anthropic/claude-sonnet-4-5:low", 0},
		{"claude-*-4-[!58]?", "anthropic/claude-sonnet-4-10", 0},
		{"openai/gpt-5.?", "openrouter/openai/gpt-5.5", 0},
		{"openai/gpt-5.5", "openrouter/openai/gpt-5.5", 0},
		{"o3", "", 1},
		{"openai/*5", "openrouter/openai/gpt-5.5", 0},
		{"opus nothing-like-it [unclosed", "anthropic/claude-opus-4-8", 2},
		{"opus claude-opus* opus:high", "anthropic/claude-opus-4-8", 0},
	} {
		scope, warnings := ResolveScope(stock, append(strings.Fields(c.patterns), " ", ""))
		var got []string
		for _, choice := range scope {
			s := name(choice.Model)
			if choice.Level != "" {
				s += ":" + string(choice.Level)
			}
			got = append(got, s)
		}
		assert.Equal(t, c.want, strings.Join(got, " "), c.patterns)
		assert.Len(t, warnings, c.warnings, c.patterns)
	}
	scope, warnings := ResolveScope(stock, nil)
	assert.Empty(t, scope)
	assert.Empty(t, warnings)
}

// TestCredentials checks that a key in hand is chosen before the identity of a cloud, and both before
// providers without credentials.
func TestCredentials(t *testing.T) {
	c := catalogOf("azure mine local amazon-bedrock", "openai/gpt-9", "azure/gpt-9", "azure/gpt-10", "local/gpt-9", "mine/gpt-9", "mine/gpt-8", "amazon-bedrock/gpt-9")
	c.Opened = map[string]protocol.Credential{"azure": protocol.CredentialCloud, "amazon-bedrock": protocol.CredentialCloud, "local": protocol.CredentialNone}
	for pattern, want := range map[string]string{"gpt-9": "local/gpt-9", "gpt": "local/gpt-9", "gpt-8": "mine/gpt-8", "gpt-10": "azure/gpt-10", "azure/gpt-9": "azure/gpt-9"} {
		choice, err := ResolveModel(c, "", pattern)
		require.NoError(t, err)
		assert.Equal(t, want, name(choice.Model), pattern)
	}
	assert.Equal(t, "mine/gpt-9", name(ChooseModel(c, Wishes{}).Model))
	assert.Equal(t, "azure/gpt-9", name(ChooseModel(c, Wishes{DefaultProvider: "azure", DefaultModel: "gpt-9"}).Model), "who names it has it")
	delete(c.Keys, "mine")
	assert.Equal(t, "azure/gpt-9", name(ChooseModel(c, Wishes{}).Model))
	delete(c.Keys, "local")
	assert.Equal(t, "azure/gpt-9", name(ChooseModel(c, Wishes{}).Model))
	choice, err := ResolveModel(c, "", "gpt-9")
	require.NoError(t, err)
	assert.Equal(t, "azure/gpt-9", name(choice.Model))
}

func TestCompareIDs(t *testing.T) {
	in := []string{"gpt-5.10", "gpt-5.9", "gpt-5", "gpt-5.9-pro", "a", "gpt-05.9", "gpt-5.09b"}
	slices.SortFunc(in, compareIDs)
	assert.Equal(t, []string{"a", "gpt-5", "gpt-5.9", "gpt-05.9", "gpt-5.9-pro", "gpt-5.09b", "gpt-5.10"}, in)
}

func TestChooseModel(t *testing.T) {
	choice := func(id string) Choice {
		provider, rest, _ := strings.Cut(id, "/")
		return Choice{Model: stock.Find(provider, rest), Level: "high"}
	}
	flag := choice("openai/o3")
	scope := []Choice{choice("openrouter/openai/gpt-5.5"), choice("anthropic/claude-sonnet-4-5")}
	for _, c := range []struct {
		name    string
		wishes  Wishes
		want    string
		level   protocol.ThinkingLevel
		warning string
	}{
		{"nothing", Wishes{}, "anthropic/claude-opus-4-8", "", ""},
		{"flag", Wishes{Flag: &flag, Scope: scope, DefaultProvider: "anthropic", DefaultModel: "claude-sonnet-4-5"}, "openai/o3", "high", ""},
		{"scope", Wishes{Scope: scope, DefaultProvider: "openai", DefaultModel: "o3"}, "openrouter/openai/gpt-5.5", "high", ""},
		{"default in the scope", Wishes{Scope: scope, DefaultProvider: "anthropic", DefaultModel: "claude-sonnet-4-5"}, "anthropic/claude-sonnet-4-5", "high", ""},
		{"session", Wishes{SessionProvider: "anthropic", SessionModel: "claude-sonnet-4-5", DefaultProvider: "openrouter", DefaultModel: "openai/gpt-5.5"}, "anthropic/claude-sonnet-4-5", "", ""},
		{"session before scope", Wishes{Continuing: true, Scope: scope, SessionProvider: "anthropic", SessionModel: "claude-sonnet-4-10"}, "anthropic/claude-sonnet-4-10", "", ""},
		{"session gone", Wishes{SessionProvider: "anthropic", SessionModel: "claude-2", DefaultProvider: "openrouter", DefaultModel: "openai/gpt-5.5"}, "openrouter/openai/gpt-5.5", "", "anthropic/claude-2 is not known"},
		{"session without key", Wishes{SessionProvider: "openai", SessionModel: "o3"}, "anthropic/claude-opus-4-8", "", "openai/o3 has no API key; using anthropic/claude-opus-4-8"},
		{"default", Wishes{DefaultProvider: "anthropic", DefaultModel: "claude-sonnet-4-5"}, "anthropic/claude-sonnet-4-5", "", ""},
		{"default without key", Wishes{DefaultProvider: "openai", DefaultModel: "o3"}, "anthropic/claude-opus-4-8", "", ""},
	} {
		got := ChooseModel(stock, c.wishes)
		assert.Equal(t, c.want, name(got.Model), c.name)
		assert.Equal(t, c.level, got.Level, c.name)
		assert.Contains(t, got.Warning, c.warning, c.name)
		assert.Equal(t, c.warning == "", got.Warning == "", c.name)
	}
	odd := catalogOf("zz", "aa/x", "zz/y", "zz/z")
	assert.Equal(t, "zz/y", name(ChooseModel(odd, Wishes{}).Model), "the first there is a key for")
	poor := catalogOf("", "openai/o3")
	assert.Nil(t, ChooseModel(poor, Wishes{}).Model)
	assert.Equal(t, "openai/o3", name(ChooseModel(poor, Wishes{DefaultProvider: "openai", DefaultModel: "o3"}).Model), "so that the first request says whose key is missing")
}

func TestChooseModel_offline(t *testing.T) {
	only := catalogOf("scripted", "openai/o3", "scripted/demo")
	for _, c := range []struct {
		name          string
		wishes        Wishes
		want, warning string
	}{
		{"nothing asked for", Wishes{}, "scripted/demo", "no provider has an API key; scripted/demo answers, offline"},
		{"a default without a key", Wishes{DefaultProvider: "openai", DefaultModel: "o3"}, "openai/o3", ""},
		{"the demo is the default", Wishes{DefaultProvider: "scripted", DefaultModel: "demo"}, "scripted/demo", ""},
		{"a default that is gone", Wishes{DefaultProvider: "openai", DefaultModel: "o9"}, "scripted/demo", "no provider has an API key; scripted/demo answers, offline"},
		{"the session's model has no key", Wishes{SessionProvider: "openai", SessionModel: "o3"}, "scripted/demo", "the session's model openai/o3 has no API key; using scripted/demo"},
	} {
		got := ChooseModel(only, c.wishes)
		assert.Equal(t, c.want, name(got.Model), c.name)
		assert.Equal(t, c.warning, got.Warning, c.name)
	}
}

// TestChooseModel_lazy: the choice at the start describes no provider that has no
// credentials; describing all costs more than the rest of the start.
func TestChooseModel_lazy(t *testing.T) {
	c := catalogOf("zz", "zz/y")
	for _, v := range Vendors {
		c.Unlisted = append(c.Unlisted, protocol.LazyProvider{Provider: v.ID, Load: func() []*protocol.Model {
			t.Errorf("the models of %s are asked for", v.ID)
			return nil
		}})
	}
	assert.Equal(t, "zz/y", name(ChooseModel(c, Wishes{}).Model))
	assert.Equal(t, "zz/y", name(ChooseModel(c, Wishes{DefaultProvider: "zz", DefaultModel: "y"}).Model))
}

// TestForeign: a provider that nobody knows is named only where no whole id is.
func TestForeign(t *testing.T) {
	for pattern, want := range map[string]bool{
		"router/auto": true, "Router/auto:high": true, "x/odd": true, "x/odd:high": false, "qwen/qwen3:free:minimal": false,
		"openai/gpt-next": false, "openrouter/auto": false, "opus": false, "/auto": false, "router/": false,
	} {
		assert.Equal(t, want, Foreign(stock, pattern), pattern)
	}
}
