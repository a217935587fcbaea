package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/protocol"
	"troupe/providers"
)

// TestLogin_openAI: a first login registers this installation under the name troupe, and
// writes the entry as pi does; a second one is of the same client.
func TestLogin_openAI(t *testing.T) {
	h := newHome(t)
	var addresses []string
	p := &fakePerson{}
	p.open = func(_ context.Context, address string) (string, error) {
		addresses = append(addresses, address)
		return "http://127.0.0.1:1455/auth/callback?" + h.vendor.consent(address).Encode(), nil
	}
	how := protocol.Login{Provider: openAI, Method: methodPaste}
	result, failed := h.login(how, p)
	require.Nil(t, failed)
	assert.Equal(t, protocol.LoginResult{Provider: openAI, ProviderID: openAI, Account: "p…@mail.example"}, result)
	assert.Len(t, p.asked, 1, "for use while nobody watches")
	u, err := url.Parse(addresses[0])
	require.NoError(t, err)
	q := u.Query()
	assert.Equal(t, "https://auth.openai.com/api/accounts/authorize", u.Scheme+"://"+u.Host+u.Path)
	for name, want := range map[string]string{
		"client_id": "dynamic_agent_client", "agent_name_hint": "troupe", "response_type": "code", "redirect_uri": "http://127.0.0.1:1455/auth/callback",
		"resource": "https://api.openai.com/v1", "scope": openAIScope, "code_challenge_method": "S256",
	} {
		assert.Equal(t, want, q.Get(name), name)
	}
	assert.Regexp(t, `^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, q.Get("ext_agent_host_id"))
	assert.NotEqual(t, q.Get("state"), q.Get("nonce"))

	var file map[string]map[string]any
	require.NoError(t, json.Unmarshal([]byte(h.text()), &file))
	entry := file[openAI]
	assert.Equal(t, "oaiapp_1", entry["clientId"])
	assert.Equal(t, "oauth", entry["type"])
	assert.Contains(t, entry["scopes"], openAIPlan)
	assert.Len(t, entry, 6)
	notes, err := os.ReadFile(filepath.Join(h.dir, "troupe", "logins.json"))
	require.NoError(t, err)
	assert.NotContains(t, string(notes), "canary", "no secret is noted")
	assert.Contains(t, string(notes), q.Get("ext_agent_host_id"))

	again := Open(h.config)
	defer again.Close()
	_, failed = again.Login(t.Context(), how, p)
	require.Nil(t, failed)
	u, err = url.Parse(addresses[1])
	require.NoError(t, err)
	assert.Equal(t, "oaiapp_1", u.Query().Get("client_id"))
	assert.Empty(t, u.Query().Get("agent_name_hint"))
	assert.Equal(t, q.Get("ext_agent_host_id"), u.Query().Get("ext_agent_host_id"))
	assert.Len(t, p.asked, 1, "consent is asked for once")
}

// TestLogin_elsewhere: what another process has noted of a login that it made counts here, too:
// it is troupe's, and not one of pi's that settings switch off.
func TestLogin_elsewhere(t *testing.T) {
	h, other := newHome(t), newHome(t)
	h.loggedIn(time.Hour)
	h.settings.NoReuse = true
	assert.Equal(t, UseRefused, h.Use(openAI, h.File().Entries[openAI]))
	other.Store = Open(Config{Dir: h.dir, Transport: other.vendor})
	defer other.Store.Close()
	p := &fakePerson{open: func(_ context.Context, address string) (string, error) {
		return "http://127.0.0.1:1455/auth/callback?" + other.vendor.consent(address).Encode(), nil
	}, choices: []string{"Replace it"}}
	_, failed := other.login(protocol.Login{Provider: openAI, Method: methodPaste}, p)
	require.Nil(t, failed)
	e := h.File().Entries[openAI]
	assert.Equal(t, UseLogin, h.Use(openAI, e))
	assert.Equal(t, "p…@mail.example", h.Account(openAI, e))
}

// TestLogin_refused: what must not become a login does not, and writes nothing.
func TestLogin_refused(t *testing.T) {
	back := func(change func(url.Values)) func(*home, *fakePerson) {
		return func(h *home, p *fakePerson) {
			p.open = func(_ context.Context, address string) (string, error) {
				values := h.vendor.consent(address)
				change(values)
				return "http://127.0.0.1:1455/auth/callback?" + values.Encode(), nil
			}
		}
	}
	claim := func(name string, value any) func(*home, *fakePerson) {
		return func(h *home, _ *fakePerson) { h.vendor.meddle = func(c map[string]any) { c[name] = value } }
	}
	for name, c := range map[string]struct {
		change func(*home, *fakePerson)
		want   string
		cause  string
	}{
		"declined":                 {back(func(v url.Values) { v.Set("error", "access_denied") }), "it was declined (access_denied)", "access_denied"},
		"not registered":           {back(func(v url.Values) { v.Set("error", "invalid_client"); v.Set("error_description", "no\x1b[31m way") }), "invalid_client: no [31m way", "invalid_client"},
		"without a code":           {back(func(v url.Values) { v.Del("code") }), "the answer has no code", "invalid_answer"},
		"another code":             {back(func(v url.Values) { v.Set("code", "guess-canary") }), "(HTTP 400): invalid_grant: no such code ***", "invalid_grant"},
		"another issuer":           {back(func(v url.Values) { v.Set("iss", "https://evil.example") }), "the answer is of another login service", "invalid_answer"},
		"no client":                {back(func(v url.Values) { v.Del("client_id") }), "has not registered this installation", "invalid_answer"},
		"the placeholder":          {back(func(v url.Values) { v.Set("client_id", unregistered) }), "has not registered this installation", "invalid_answer"},
		"token of another issuer":  {claim("iss", "https://evil.example"), "of another issuer", "invalid_id_token"},
		"token for another client": {claim("aud", "somebody"), "issued to another program", "invalid_id_token"},
		"token for several":        {claim("aud", []string{"oaiapp_1", "somebody"}), "issued to another program", "invalid_id_token"},
		"token by another":         {claim("azp", "somebody"), "issued to another program", "invalid_id_token"},
		"token that is over":       {claim("exp", time.Now().Add(-time.Minute).Unix()), "the ID token is over", "invalid_id_token"},
		"another nonce":            {claim("nonce", "x"), "of another attempt", "invalid_id_token"},
		"nobody":                   {claim("sub", ""), "names nobody", "invalid_id_token"},
		"use of the plan declined": {func(h *home, _ *fakePerson) { h.vendor.scope = "openid profile" }, "use of the plan was declined", "access_denied"},
		"no consent":               {func(_ *home, p *fakePerson) { p.choices = []string{"No"} }, "without that sessions cannot run on the plan", "access_denied"},
		"service down":             {func(h *home, _ *fakePerson) { h.vendor.fail = func(string) (int, string) { return 500, "<html>" } }, "(HTTP 500)", "http_500"},
	} {
		t.Run(name, func(t *testing.T) {
			h, p := newHome(t), &fakePerson{}
			c.change(h, p)
			_, failed := h.login(protocol.Login{Provider: openAI, Method: methodPaste}, p)
			require.NotNil(t, failed)
			assert.Equal(t, protocol.CodeLoginFailed, failed.Code)
			assert.Contains(t, failed.Message, c.want)
			assert.Equal(t, protocol.LoginFailure{Cause: c.cause}, failed.Data)
			assert.NotContains(t, failed.Message, "canary")
			assert.NoFileExists(t, h.path())
		})
	}
}

// TestIdentity_signature: only the issuer's signature counts.
func TestIdentity_signature(t *testing.T) {
	h := newHome(t)
	claims := map[string]any{"iss": openAIIssuer, "aud": "c", "sub": "s", "nonce": "n", "exp": time.Now().Add(time.Hour).Unix()}
	good := sign(map[string]any{"alg": "RS256", "kid": "k1"}, claims)
	check := func(token string) error {
		_, err := h.identity(t.Context(), token, openAIKeys, openAIIssuer, "c", "n")
		return err
	}
	require.NoError(t, check(good))
	parts := strings.Split(good, ".")
	other := strings.Split(sign(map[string]any{"alg": "RS256", "kid": "k1"}, map[string]any{"iss": openAIIssuer, "aud": "c", "sub": "other", "nonce": "n", "exp": time.Now().Add(time.Hour).Unix()}), ".")
	for name, token := range map[string]string{
		"other claims": parts[0] + "." + other[1] + "." + parts[2], "none": strings.Split(sign(map[string]any{"alg": "none"}, claims), ".")[0] + "." + parts[1] + ".",
		"shared secret": sign(map[string]any{"alg": "HS256", "kid": "k1"}, claims), "another key": sign(map[string]any{"alg": "RS256", "kid": "k2"}, claims),
		"EC by RSA key": sign(map[string]any{"alg": "ES256", "kid": "k1"}, claims), "": "", "two parts": "a.b", "no JSON": "YQ.YQ.YQ",
	} {
		assert.Error(t, check(token), name)
	}
}

// TestVerify_ES256: the other kind of signature.
func TestVerify_ES256(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	point, err := key.PublicKey.Bytes()
	require.NoError(t, err)
	digest := sha256.Sum256([]byte("what is signed"))
	r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
	require.NoError(t, err)
	signature := append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	enc := base64.RawURLEncoding.EncodeToString
	keys := gjson.Parse(fmt.Sprintf(`{"keys": [{"kty": "EC", "crv": "P-256", "x": %q, "y": %q}]}`, enc(point[1:33]), enc(point[33:])))
	head := gjson.Parse(`{"alg": "ES256"}`)
	assert.True(t, verify(keys, head, digest[:], signature))
	signature[5] ^= 1
	assert.False(t, verify(keys, head, digest[:], signature))
	signature[5] ^= 1
	assert.False(t, verify(gjson.Parse(`{"keys": [{"kty": "EC", "crv": "P-256", "x": "AQ", "y": "AQ"}]}`), head, digest[:], signature), "a point that is not on the curve")
}

// TestLogin_browser: the browser comes back to this machine, once, with the right state
// and from nowhere else.
func TestLogin_browser(t *testing.T) {
	h, p := newHome(t), &fakePerson{}
	get := func(address, host string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		require.NoError(t, err)
		if host != "" {
			r.Host = host
		}
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer resp.Body.Close()
		assert.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
		assert.Equal(t, "no-referrer", resp.Header.Get("Referrer-Policy"))
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(body)
	}
	var to string
	p.open = func(ctx context.Context, address string) (string, error) {
		u, _ := url.Parse(address)
		values := h.vendor.consent(address)
		to = u.Query().Get("callback_url")
		status, _ := get(to+"x", "")
		assert.Equal(t, 404, status)
		status, _ = get(to+"?"+values.Encode(), "evil.example")
		assert.Equal(t, 400, status, "by the name of another host")
		status, _ = get(to+"?code="+strings.Repeat("x", maxQuery), "")
		assert.Equal(t, 400, status)
		resp, err := http.Post(to, "text/plain", nil)
		require.NoError(t, err)
		resp.Body.Close()
		assert.Equal(t, 405, resp.StatusCode)
		status, page := get(to+"?"+values.Encode(), "")
		assert.Equal(t, 200, status)
		assert.NotContains(t, page, "canary")
		<-ctx.Done()
		return "", context.Cause(ctx)
	}
	_, failed := h.login(protocol.Login{Provider: openRouter}, p)
	require.Nil(t, failed)
	assert.JSONEq(t, fmt.Sprintf(`{"openrouter": {"type": "oauth", "access": "sk-or-v1-of-the-person", "refresh": "", "expires": %d}}`, int64(forever)), h.text())
	u, err := url.Parse(to)
	require.NoError(t, err)
	_, err = net.Dial("tcp", u.Host)
	require.Error(t, err, "nobody listens any more")
	assert.Equal(t, UseKey, h.Use(openRouter, h.File().Entries[openRouter]))
}

// TestCallback_state: another state is refused, and the right one still counts.
func TestCallback_state(t *testing.T) {
	c, err := listen(0, "/auth/callback", "right")
	require.NoError(t, err)
	defer c.close()
	for i, want := range []int{400, 400, 200, 400} {
		query := []string{"?code=c", "?code=c&state=wrong", "?code=c&state=right", "?code=again&state=right"}[i]
		resp, err := http.Get(c.redirect + query)
		require.NoError(t, err)
		resp.Body.Close()
		assert.Equal(t, want, resp.StatusCode, query)
	}
	assert.Equal(t, "c", (<-c.arrived()).Get("code"))
}

// TestLogin_pasted: what is no such address is said so, and asked for again.
func TestLogin_pasted(t *testing.T) {
	h, p := newHome(t), &fakePerson{}
	tries := 0
	p.open = func(_ context.Context, address string) (string, error) {
		switch tries++; tries {
		case 1:
			return "hello", nil
		case 2:
			return "http://127.0.0.1:1455/auth/callback?code=c&state=of-another", nil
		}
		return " http://127.0.0.1:1455/auth/callback?" + h.vendor.consent(address).Encode() + "\n", nil
	}
	_, failed := h.login(protocol.Login{Provider: openAI, Method: methodPaste}, p)
	require.Nil(t, failed)
	assert.Len(t, p.told, 2)
}

// TestLogin_port: where another program has the port a person pastes, or is told at once.
func TestLogin_port(t *testing.T) {
	var other net.Listener
	require.Eventually(t, func() (free bool) { // another test may have it
		var err error
		other, err = net.Listen("tcp4", "127.0.0.1:1455")
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	defer other.Close()
	h := newHome(t)
	how := protocol.Login{Provider: openAI}
	_, failed := h.login(how, &fakePerson{blind: true})
	require.NotNil(t, failed)
	assert.Contains(t, failed.Message, "port 1455")
	p := &fakePerson{}
	_, failed = h.login(how, p)
	require.Nil(t, failed)
	assert.Len(t, p.told, 1)
}

// TestLogin_replaces: somebody else's entry is written over only if the person says so.
func TestLogin_replaces(t *testing.T) {
	for _, entry := range []string{`{"type": "api_key", "key": "k"}`, `{"type": "oauth", "access": "a", "refresh": "r", "expires": 1, "clientId": "of-pi"}`} {
		h, p := newHome(t), &fakePerson{choices: []string{"Keep it"}}
		h.write(`{"openai": ` + entry + `}`)
		_, failed := h.login(protocol.Login{Provider: openAI, Method: methodPaste}, p)
		require.NotNil(t, failed)
		assert.Equal(t, protocol.CodeLoginCancelled, failed.Code)
		assert.Contains(t, h.text(), entry)
		p = &fakePerson{}
		_, failed = h.login(protocol.Login{Provider: openAI, Method: methodPaste}, p)
		require.Nil(t, failed)
		assert.Len(t, p.asked, 2)
		assert.Contains(t, h.text(), "oaiapp_1")
	}
}

// TestLogin_ends: by the person, by time, by who cancels it; the next one can begin.
func TestLogin_ends(t *testing.T) {
	h := newHome(t)
	waiting := make(chan bool)
	wait := &fakePerson{open: func(ctx context.Context, _ string) (string, error) {
		waiting <- true
		<-ctx.Done()
		return "", context.Cause(ctx)
	}}
	over := make(chan *protocol.Error)
	begin := func(how protocol.Login) {
		go func() {
			_, failed := h.login(how, wait)
			over <- failed
		}()
		<-waiting
	}
	begin(protocol.Login{Provider: openRouter})
	_, failed := h.login(protocol.Login{Provider: openRouter}, nil)
	require.NotNil(t, failed)
	assert.Equal(t, protocol.CodeLoginBusy, failed.Code)
	assert.True(t, h.CancelLogin(openRouter))
	assert.Equal(t, protocol.CodeLoginCancelled, (<-over).Code)
	assert.False(t, h.CancelLogin(openRouter))
	begin(protocol.Login{Provider: openRouter, TimeoutMs: 1})
	assert.Equal(t, protocol.CodeLoginTimeout, (<-over).Code)
	_, failed = h.login(protocol.Login{Provider: openRouter}, &fakePerson{open: func(context.Context, string) (string, error) { return "", providers.ErrLoginCancelled }})
	assert.Equal(t, protocol.CodeLoginCancelled, failed.Code)
}

// TestLogin_nowhere: nobody is sent to a vendor for what could not be kept.
func TestLogin_nowhere(t *testing.T) {
	for name, spoil := range map[string]func(h *home){
		"a file that is no JSON": func(h *home) { h.write(`{ // mine`) },
		"something in the place of the lock": func(h *home) {
			require.NoError(h.t, os.WriteFile(lockOf(h.path()), nil, 0o600))
		},
	} {
		for provider, method := range map[string]string{openAI: methodPaste, openRouter: methodPaste, "groq": methodKey} {
			h := newHome(t)
			spoil(h)
			p := &fakePerson{vendor: h.vendor, secret: "new-key"}
			_, failed := h.login(protocol.Login{Provider: provider, Method: method}, p)
			require.NotNil(t, failed, name)
			assert.Equal(t, protocol.LoginFailure{Cause: causeStore}, failed.Data, name)
			assert.Empty(t, append(p.asked, p.told...), name)
			assert.Empty(t, p.pages, name)
		}
	}
}

// TestLogout: the entry goes, the vendor is told, and the registration is kept.
func TestLogout(t *testing.T) {
	h := newHome(t)
	how := protocol.Login{Provider: openAI, Method: methodPaste}
	_, failed := h.login(how, nil)
	require.Nil(t, failed)
	out, failed := h.Logout(t.Context(), openAI, true)
	require.Nil(t, failed)
	assert.Equal(t, protocol.LogoutResult{Removed: true, Revoked: true}, out)
	assert.JSONEq(t, `{}`, h.text())
	assert.Len(t, h.vendor.revoked, 1)
	_, _, err := h.sign(openAI, modelURL)
	require.Error(t, err)
	_, failed = h.login(how, &fakePerson{open: func(_ context.Context, address string) (string, error) {
		assert.Contains(t, address, "client_id=oaiapp_1")
		return "http://127.0.0.1:1455/auth/callback?" + h.vendor.consent(address).Encode(), nil
	}})
	require.Nil(t, failed)
	out, failed = h.Logout(t.Context(), openAI, false)
	require.Nil(t, failed)
	assert.Equal(t, protocol.LogoutResult{Removed: true}, out)
}

// TestLogin_key: a key is stored, and what a person has put beside one stays.
func TestLogin_key(t *testing.T) {
	h := newHome(t)
	h.write(`{"groq": {"type": "api_key", "key": "old", "env": {"X": "y"}}}`)
	_, failed := h.login(protocol.Login{Provider: "groq"}, &fakePerson{secret: "new-key\n"})
	require.Nil(t, failed)
	assert.JSONEq(t, `{"groq": {"type": "api_key", "key": "new-key", "env": {"X": "y"}}}`, h.text())
	h.write(`{"xai": {"type": "oauth", "access": "a", "refresh": "r", "expires": 1}}`)
	_, failed = h.login(protocol.Login{Provider: "xai", Key: "new-key"}, &fakePerson{choices: []string{"Keep it"}})
	assert.Equal(t, protocol.CodeLoginCancelled, failed.Code, "a login of pi is not written over in silence")
	for _, wrong := range []string{"two\nlines", "a\u200bkey", "clé", "\x07bell"} {
		_, failed = h.login(protocol.Login{Provider: "groq", Key: wrong}, nil)
		require.NotNil(t, failed, wrong)
		assert.Equal(t, protocol.CodeLoginFailed, failed.Code)
	}
	_, failed = h.login(protocol.Login{Provider: "groq", Key: "a$HOME"}, nil)
	require.Nil(t, failed)
	assert.Equal(t, "a$$HOME", h.File().Entries["groq"].Key, "no variable is meant")
	_, failed = h.login(protocol.Login{Provider: "groq", Key: " !touch made"}, nil)
	assert.Equal(t, protocol.CodeLoginFailed, failed.Code)
	assert.Contains(t, failed.Message, "--store-command")
	assert.Equal(t, protocol.LoginFailure{Cause: "invalid_key"}, failed.Data)
	require.Nil(t, h.StoreCommand(t.Context(), "groq", "!pass show groq", &fakePerson{}))
	assert.Equal(t, "!pass show groq", h.File().Entries["groq"].Key)
	for _, wrong := range []string{"", " ! ", "a\nb"} {
		assert.Equal(t, protocol.CodeInvalidParams, h.StoreCommand(t.Context(), "groq", wrong, &fakePerson{}).Code)
	}
	assert.Equal(t, protocol.CodeLoginUnsupported, h.StoreCommand(t.Context(), "google-gemini-cli", "x", &fakePerson{}).Code)
	_, failed = h.login(protocol.Login{Provider: openAI, Method: methodBrowser, Key: "k"}, nil)
	assert.Equal(t, protocol.CodeInvalidParams, failed.Code)
}
