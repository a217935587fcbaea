package registry

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/providers"
	"troupe/providers/auth"
)

// loginEntry is an entry of a login that is good for an hour.
func loginEntry(access string) string {
	return fmt.Sprintf(`{"type": "oauth", "access": %q, "refresh": "refresh-token", "expires": %d}`, access, time.Now().Add(time.Hour).UnixMilli())
}

// TestLogins_owned: a login in auth.json owns its provider: no other credential takes its
// place, but one that was given for this run.
func TestLogins_owned(t *testing.T) {
	h := newHouse(t, "OPENAI_API_KEY", "from-env")
	h.write("auth.json", `{"openai": `+loginEntry("access-token")+`}`)
	assert.True(t, h.catalog().HasKey("openai"))
	req, failed := h.ask("openai", "gpt-5.5")
	require.Nil(t, failed)
	assert.Empty(t, req.Credentials.Key)
	headers, err := req.Credentials.Signer.Sign(t.Context(), "https://api.openai.com/v1/responses", nil)
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"Authorization": "Bearer access-token"}, headers)
	assert.JSONEq(t, `{"supportsMaxOutputTokens":false,"supportsLongCacheRetention":false,"requiresDeveloperRole":true}`, string(req.Model.ProviderConfig.Compat))
	assert.NotContains(t, fmt.Sprint(req.Credentials), "access-token")

	h.write("models.json", `{"providers": {"openai": {"baseUrl": "https://mirror.example/v1", "apiKey": "other"}}}`)
	req, failed = h.ask("openai", "gpt-5.5")
	require.Nil(t, failed)
	_, err = req.Credentials.Signer.Sign(t.Context(), req.Model.BaseURL, nil)
	assert.ErrorContains(t, err, "auth_host_refused")

	h.SetKey("openai", "given")
	req, failed = h.ask("openai", "gpt-5.5")
	require.Nil(t, failed)
	assert.Equal(t, "given", req.Credentials.Key)
	assert.Nil(t, req.Credentials.Signer)
}

// TestLogins_notUsed: a login that is not used counts as none, and it is said why.
func TestLogins_notUsed(t *testing.T) {
	h := newHouse(t)
	h.write("auth.json", `{"anthropic": `+loginEntry("access-token")+`}`)
	c := h.catalog()
	assert.False(t, c.HasKey("anthropic"))
	assert.Contains(t, c.NotUsed["anthropic"], "Anthropic does not allow plan logins in other programs")
	_, failed := h.ask("anthropic", "claude-haiku-4-5")
	require.NotNil(t, failed)
	assert.Contains(t, failed.Message, "Anthropic does not allow plan logins in other programs")
	report := h.Auth("anthropic").Providers[0]
	assert.Equal(t, protocol.AuthUnsupported, report.State)

	h = newHouse(t, "ANTHROPIC_API_KEY", "own-key")
	h.write("auth.json", `{"anthropic": `+loginEntry("access-token")+`}`)
	req, failed := h.ask("anthropic", "claude-haiku-4-5")
	require.Nil(t, failed, "what is not used does not stand in the way")
	assert.Equal(t, "own-key", req.Credentials.Key)
	report = h.Auth("anthropic").Providers[0]
	assert.Equal(t, "environment", report.Source)
	assert.Equal(t, "ANTHROPIC_API_KEY", report.Variable)
	assert.NotEmpty(t, report.Reason)
}

// gate lets one token in.
type gate struct {
	token string
	asked []string
}

func (g *gate) Stream(ctx context.Context, req providers.Request) iter.Seq2[protocol.Part, error] {
	return func(yield func(protocol.Part, error) bool) {
		headers, err := req.Credentials.Signer.Sign(ctx, req.Model.BaseURL, nil)
		if err != nil {
			yield(nil, err)
			return
		}
		g.asked = append(g.asked, headers["Authorization"])
		if headers["Authorization"] != "Bearer "+g.token {
			refused := protocol.ErrorAuth.Errorf("401")
			refused.Status = 401
			yield(nil, refused)
			return
		}
		yield(protocol.PartDone{StopReason: protocol.StopStop}, nil)
	}
}

// TestLogins_refused: a token that is refused in the middle of a run is renewed, and the
// request made once more; what stays refused is one error.
func TestLogins_refused(t *testing.T) {
	h := newHouse(t)
	g := &gate{token: "token-of-pi-2"}
	n := 0
	h.config.APIs = map[string]providers.Provider{"openai-responses": g}
	h.config.Logins = auth.Open(auth.Config{Dir: h.dir, Broker: func(context.Context, string, ...string) (string, error) {
		n++
		return fmt.Sprint("token-of-pi-", n+1), nil
	}})
	h.write("auth.json", `{"openai": `+loginEntry("token-of-pi-1")+`}`)
	ask := func() *protocol.StreamError {
		return outcome(h.Stream(t.Context(), providers.Request{Model: h.catalog().Find("openai", "gpt-5.5")}))
	}
	require.Nil(t, ask())
	assert.Equal(t, []string{"Bearer token-of-pi-1", "Bearer token-of-pi-2"}, g.asked)
	require.Nil(t, ask())
	assert.Len(t, g.asked, 3)

	g.token, g.asked = "another", nil
	failed := ask()
	require.NotNil(t, failed)
	assert.Equal(t, protocol.ErrorAuth, failed.Kind)
	assert.Contains(t, failed.Message, "refuses a login that was renewed this moment")
	assert.Equal(t, []string{"Bearer token-of-pi-2"}, g.asked, "one request, one error")
	assert.Equal(t, 1, n)
}

// TestLogins_shared: what an extension adds shares the owner of auth.json.
func TestLogins_shared(t *testing.T) {
	h := newHouse(t)
	other, problems := h.With(nil)
	require.Empty(t, problems)
	assert.Same(t, h.config.Logins, other.config.Logins)
}

// TestLogins_report: every source is named, and nothing of its value.
func TestLogins_report(t *testing.T) {
	h := newHouse(t, "GROQ_API_KEY", "canary-1")
	h.write("models.json", `{"providers": {"mine": {"name": "Mine", "baseUrl": "https://x.example", "api": "wire", "apiKey": "canary-2", "models": [{"id": "m"}]}}}`)
	h.write("auth.json", `{"zz-other": {"type": "api_key", "key": "canary-3"}, "openai": `+loginEntry("canary-4")+`, "xai": {"type": "oauth", "access": "canary-5", "refresh": "canary-6", "expires": 1}, "radius": {"type": "oauth", "access": "canary-7", "refresh": "r", "expires": 1}}`)
	h.SetKey("anthropic", "canary-8")
	got := map[string]string{}
	report := h.Auth("")
	for _, p := range report.Providers {
		got[p.ID] = string(p.State) + " " + p.Source
	}
	assert.Equal(t, map[string]string{
		"anthropic": "ready command_line", "openai": "ready stored_oauth", "zz-other": "ready stored_key", "mine": "ready models_json", "xai": "expired stored_oauth", "radius": "unsupported ",
	}, got)
	assert.NotContains(t, string(protocol.AppendValue(nil, report)), "canary")
	assert.Empty(t, h.Auth("nobody").Providers)
}

// TestLogins_device: a login by code is for a provider of one's own, and its tokens go where its
// models are.
func TestLogins_device(t *testing.T) {
	h := newHouse(t)
	const login = `"login": {"deviceUrl": "https://sso.example/d", "tokenUrl": "https://sso.example/t", "clientId": "c"}`
	h.write("models.json", `{"providers": {"acme": {"baseUrl": "https://llm.example/v1", "api": "openai-completions", "models": [{"id": "m"}], `+login+`}}}`)
	h.catalog()
	assert.Equal(t, []string{"device", "api_key"}, h.Auth("acme").Providers[0].Methods)
	h.write("auth.json", `{"acme": {"type": "oauth", "access": "access-token", "refresh": "r", "clientId": "c", "expires": 4102444800000}}`)
	req, failed := h.ask("acme", "m")
	require.Nil(t, failed)
	headers, err := req.Credentials.Signer.Sign(t.Context(), req.Model.BaseURL+"/chat/completions", nil)
	require.NoError(t, err)
	assert.Equal(t, "Bearer access-token", headers["Authorization"])
	_, err = req.Credentials.Signer.Sign(t.Context(), "https://llm.example.evil/v1", nil)
	assert.ErrorContains(t, err, "auth_host_refused")
	for text, want := range map[string]string{
		`"openai": {` + login + `}`: "login is for providers of your own",
		`"acme": {"api": "openai-completions", "models": [{"id": "m", "baseUrl": "https://x.example"}], ` + login + `}`:                                                             "login needs a baseUrl",
		`"acme": {"baseUrl": "https://x.example", "api": "openai-completions", "login": {"deviceUrl": "http://sso.example", "tokenUrl": "https://sso.example/t", "clientId": "c"}}`: "by https or on this machine",
		`"acme": {"baseUrl": "https://x.example", "login": 5}`: "login must be",
	} {
		h.write("models.json", `{"providers": {`+text+`}}`)
		_, err := h.Catalog()
		assert.ErrorContains(t, err, want)
	}
}

// TestLogins_changes: what another program does to auth.json is told when it is noticed, once,
// also where several registries look.
func TestLogins_changes(t *testing.T) {
	h := newHouse(t, "GROQ_API_KEY", "from-env")
	other, problems := h.With(nil)
	require.Empty(t, problems)
	var told []protocol.AuthChanged
	h.Watch(providers.LoginWatch{Tell: func(ev protocol.Event) { told = append(told, ev.(protocol.AuthChanged)) }})
	steps := []struct {
		file string
		want []protocol.AuthChanged
	}{
		{`{"xai": ` + loginEntry("a") + `, "mistral": {"type": "api_key", "key": "k"}}`, nil}, // how it was found
		{`{"xai": ` + loginEntry("a") + `, "groq": {"type": "api_key", "key": "k"}}`, []protocol.AuthChanged{
			{Provider: "mistral", State: protocol.AuthNone}, {Provider: "groq", State: protocol.AuthReady},
		}},
		{`{"xai": {"type": "oauth", "access": "b", "refresh": "r", "expires": 5}}`, []protocol.AuthChanged{{Provider: "xai", State: protocol.AuthExpired}}},
		{`{"anthropic": ` + loginEntry("a") + `}`, []protocol.AuthChanged{
			{Provider: "xai", State: protocol.AuthNone},
			{Provider: "anthropic", State: protocol.AuthUnsupported, Reason: "the login in auth.json is not used: Anthropic does not allow plan logins in other programs; use a key, Bedrock, Vertex or Foundry"},
		}},
	}
	for _, step := range steps {
		told = nil
		h.write("auth.json", step.file)
		for range 2 {
			_, _ = h.Catalog()
			_, _ = other.Catalog()
		}
		assert.ElementsMatch(t, step.want, told, step.file)
	}
	told = nil
	out, failed := h.Logout(t.Context(), "anthropic", true)
	require.Nil(t, failed)
	assert.True(t, out.Removed)
	assert.Equal(t, []protocol.AuthChanged{{Provider: "anthropic", State: protocol.AuthNone}}, told)
	h.write("auth.json", `{"groq": {"type": "api_key", "key": "k"}}`)
	_, _ = h.Catalog()
	told = nil
	out, failed = h.Logout(t.Context(), "groq", true)
	require.Nil(t, failed)
	assert.Equal(t, "GROQ_API_KEY", out.Remaining)
	assert.Empty(t, told, "the key of the environment takes its place: it is ready as before")
}

// TestSources_random: of random places where a key may be, the first in the order that the
// documents name counts, and get_auth names the one that is used.
func TestSources_random(t *testing.T) {
	vendors := []providers.Vendor{providers.VendorOf("anthropic"), providers.VendorOf("openai")}
	models := map[string]string{"anthropic": "claude-opus-4-8", "openai": "gpt-5.5"}
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		v := vendors[r.IntN(len(vendors))]
		var env []string
		want, source, variable := "", "", ""
		take := func(value, from, name string) {
			if want == "" {
				want, source, variable = value, from, name
			}
		}
		given, stored, own, file := r.IntN(4) == 0, r.IntN(3), r.IntN(2) == 0, r.IntN(3)
		set := map[string]bool{}
		for _, name := range append(slices.Clone(v.Env), "FILE_KEY", "STORED_KEY") {
			if set[name] = r.IntN(2) == 0; set[name] {
				env = append(env, name, "of-"+name)
			}
		}
		h := newHouse(t, env...)
		if given {
			h.SetKey(v.ID, "of-command-line")
			take("of-command-line", "command_line", "")
		}
		entry := ""
		if own {
			entry = `, "env": {"STORED_KEY": "of-own", "FILE_KEY": "of-own-file"}`
		}
		switch {
		case stored == 1:
			h.write("auth.json", `{"`+v.ID+`": {"type": "api_key", "key": "of-store"`+entry+`}}`)
			take("of-store", "stored_key", "")
		case stored == 2:
			h.write("auth.json", `{"`+v.ID+`": {"type": "api_key", "key": "$STORED_KEY"`+entry+`}}`)
			if own {
				take("of-own", "stored_key", "")
			} else if set["STORED_KEY"] {
				take("of-STORED_KEY", "stored_key", "")
			}
		}
		switch file {
		case 1:
			h.write("models.json", `{"providers": {"`+v.ID+`": {"apiKey": "of-file"}}}`)
			take("of-file", "models_json", "")
		case 2:
			h.write("models.json", `{"providers": {"`+v.ID+`": {"apiKey": "$FILE_KEY"}}}`)
			if own && stored > 0 {
				take("of-own-file", "models_json", "")
			} else if set["FILE_KEY"] {
				take("of-FILE_KEY", "models_json", "")
			}
		}
		for _, name := range v.Env {
			if set[name] {
				take("of-"+name, "environment", name)
			}
		}
		about := fmt.Sprintf("%d: %s, given %v, stored %d, own %v, file %d, %v", seed, v.ID, given, stored, own, file, env)
		report := h.Auth(v.ID).Providers[0]
		assert.Equal(t, source+" "+variable, report.Source+" "+report.Variable, about)
		assert.Equal(t, want != "", h.catalog().HasKey(v.ID), about)
		req, failed := h.ask(v.ID, models[v.ID])
		if want == "" {
			require.NotNil(t, failed, about)
			continue
		}
		require.Nil(t, failed, about)
		assert.Equal(t, want, req.Credentials.Key, about)
	}
}
