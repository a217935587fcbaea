package auth

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/providers"
)

// gateway is a login service of somebody's own, by code.
type gateway struct {
	device map[string]any // what it says when it is asked for a code
	says   []string       // errors for the polls to come; then tokens
	gives  map[string]any
	asked  []time.Time
	forms  []url.Values
}

func (g *gateway) RoundTrip(r *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(r.Body)
	form, _ := url.ParseQuery(string(body))
	g.forms = append(g.forms, form)
	w := httptest.NewRecorder()
	answer := func(status int, data any) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(data)
	}
	switch {
	case r.URL.Path == "/device":
		answer(200, g.device)
	case len(g.says) > 0:
		g.asked = append(g.asked, time.Now())
		said := g.says[0]
		if g.says = g.says[1:]; said == "down" {
			answer(503, nil)
			break
		}
		answer(400, map[string]any{"error": said})
	default:
		g.asked = append(g.asked, time.Now())
		answer(200, g.gives)
	}
	return w.Result(), nil
}

func newGateway(t *testing.T) (*gateway, *Store) {
	g := &gateway{
		device: map[string]any{"device_code": "device-canary", "user_code": "AB\x1b-12", "verification_uri": "https://sso.example/go", "verification_uri_complete": "https://sso.example/go?c=AB", "expires_in": 600, "interval": 3},
		gives:  map[string]any{"access_token": "access-canary", "refresh_token": "refresh-canary", "token_type": "bearer", "expires_in": 3600},
	}
	s := Open(Config{Dir: t.TempDir(), Transport: g})
	s.SetDevices(map[string]Device{
		"acme":   {DeviceURL: "https://sso.example/device", TokenURL: "https://sso.example/token", ClientID: "ours", Scope: "models", Origin: "https://llm.example"},
		"openai": {DeviceURL: "https://sso.example/device", TokenURL: "https://sso.example/token", ClientID: "ours", Origin: "https://llm.example"},
	})
	t.Cleanup(s.Close)
	return g, s
}

// TestLoginDevice: the person is shown a code, and is waited for as the service wants it.
func TestLoginDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newGateway(t)
		g.says = []string{"authorization_pending", "slow_down", "down", "authorization_pending"}
		p := &fakePerson{open: func(ctx context.Context, _ string) (string, error) {
			<-ctx.Done()
			return "", context.Cause(ctx)
		}}
		begun := time.Now()
		done, failed := s.Login(t.Context(), protocol.Login{Provider: "acme"}, p)
		require.Nil(t, failed)
		assert.Equal(t, "acme", done.Provider)
		require.Len(t, p.pages, 1)
		assert.Equal(t, providers.LoginPage{Text: "Sign in to acme", URL: "https://sso.example/go", Launch: "https://sso.example/go?c=AB", Code: "AB -12", Left: 5 * 2 * time.Minute}, p.pages[0])
		var waits []time.Duration
		for _, at := range g.asked {
			waits = append(waits, at.Sub(begun))
			begun = at
		}
		assert.Equal(t, []time.Duration{3 * time.Second, 3 * time.Second, 8 * time.Second, 8 * time.Second, 8 * time.Second}, waits, "never at once, and slower when it is told to")
		assert.Equal(t, url.Values{"client_id": {"ours"}, "scope": {"models"}}, g.forms[0])
		assert.Equal(t, url.Values{"client_id": {"ours"}, "grant_type": {deviceGrant}, "device_code": {"device-canary"}}, g.forms[1])

		e := s.File().Entries["acme"]
		assert.Equal(t, Entry{Type: typeOAuth, Access: "access-canary", Refresh: "refresh-canary", Expires: e.Expires, Client: "ours"}, e)
		assert.Equal(t, UseLogin, s.Use("acme", e))
		headers, err := s.Signer("acme").Sign(t.Context(), "https://llm.example/v1/chat/completions", nil)
		require.NoError(t, err)
		assert.Equal(t, "Bearer access-canary", headers["Authorization"])
		for _, elsewhere := range []string{"https://evil.example/v1", "http://llm.example/v1", "https://llm.example:8443/v1", "https://sso.example/v1"} {
			_, err = s.Signer("acme").Sign(t.Context(), elsewhere, nil)
			assert.ErrorContains(t, err, "auth_host_refused", elsewhere)
		}

		time.Sleep(time.Hour)
		g.gives = map[string]any{"access_token": "second-canary", "expires_in": 3600}
		headers, err = s.Signer("acme").Sign(t.Context(), "https://llm.example/v1/chat/completions", nil)
		require.NoError(t, err)
		assert.Equal(t, "Bearer second-canary", headers["Authorization"])
		assert.Equal(t, url.Values{"client_id": {"ours"}, "scope": {"models"}, "grant_type": {"refresh_token"}, "refresh_token": {"refresh-canary"}}, g.forms[len(g.forms)-1])
		assert.Equal(t, "refresh-canary", s.File().Entries["acme"].Refresh, "it goes on with the old one")
	})
}

// TestLoginDevice_ends: by the person, the service, time, and what is not safe.
func TestLoginDevice_ends(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*gateway, *fakePerson)
		code   protocol.Code
		want   string
	}{
		"declined":        {func(g *gateway, _ *fakePerson) { g.says = []string{"access_denied"} }, protocol.CodeLoginFailed, "it was declined"},
		"too late":        {func(g *gateway, _ *fakePerson) { g.says = []string{"authorization_pending", "expired_token"} }, protocol.CodeLoginTimeout, ""},
		"the code's time": {func(g *gateway, _ *fakePerson) { g.device["expires_in"], g.says = 2, []string{"authorization_pending"} }, protocol.CodeLoginTimeout, ""},
		"another error":   {func(g *gateway, _ *fakePerson) { g.says = []string{"invalid_client"} }, protocol.CodeLoginFailed, "invalid_client"},
		"cancelled": {func(g *gateway, p *fakePerson) {
			p.open = func(context.Context, string) (string, error) { return "", providers.ErrLoginCancelled }
		}, protocol.CodeLoginCancelled, ""},
		"no code":   {func(g *gateway, _ *fakePerson) { delete(g.device, "user_code") }, protocol.CodeLoginFailed, "gave no code"},
		"not https": {func(g *gateway, _ *fakePerson) { g.device["verification_uri"] = "http://sso.example/go" }, protocol.CodeLoginFailed, "not safe"},
		"script":    {func(g *gateway, _ *fakePerson) { g.device["verification_uri"] = "javascript:alert(1)" }, protocol.CodeLoginFailed, "not safe"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, s := newGateway(t)
				p := &fakePerson{open: func(context.Context, string) (string, error) { return "typed it", nil }}
				c.change(g, p)
				_, failed := s.Login(t.Context(), protocol.Login{Provider: "acme", Method: methodDevice}, p)
				require.NotNil(t, failed)
				assert.Equal(t, c.code, failed.Code, failed.Message)
				assert.Contains(t, failed.Message, c.want)
				assert.NotContains(t, failed.Message, "canary")
				assert.NoFileExists(t, s.path())
			})
		})
	}
}

// TestLoginDevice_vendors: a provider whose terms are known has no login that somebody
// configures, and without a refresh token a login is used to its end.
func TestLoginDevice_vendors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newGateway(t)
		_, failed := s.Login(t.Context(), protocol.Login{Provider: "openai", Method: methodDevice}, &fakePerson{})
		require.NotNil(t, failed)
		assert.Equal(t, protocol.CodeLoginUnsupported, failed.Code)
		assert.Equal(t, []string{"browser", "paste", "api_key"}, s.Methods("openai"))
		_, failed = s.Login(t.Context(), protocol.Login{Provider: "acme", Method: methodPaste}, &fakePerson{})
		require.NotNil(t, failed)
		assert.Contains(t, failed.Message, "but by device, api_key")
		_, failed = s.Login(t.Context(), protocol.Login{Provider: "xai", Method: methodDevice}, &fakePerson{})
		require.NotNil(t, failed)
		assert.Equal(t, "There is no login for xai here: store a key (method api_key) or set XAI_API_KEY", failed.Message)
		assert.Empty(t, g.forms)

		wait := &fakePerson{open: func(ctx context.Context, _ string) (string, error) { <-ctx.Done(); return "", ctx.Err() }}
		g.gives = map[string]any{"access_token": "short-canary", "expires_in": 1200}
		_, failed = s.Login(t.Context(), protocol.Login{Provider: "acme"}, wait)
		require.Nil(t, failed)
		_, err := s.Signer("acme").Sign(t.Context(), "https://llm.example/v1", nil)
		require.NoError(t, err)
		time.Sleep(time.Hour)
		_, err = s.Signer("acme").Sign(t.Context(), "https://llm.example/v1", nil)
		assert.Contains(t, failure_(t, err).Message, "it is over, and its service gave nothing to renew it by\n\nSign in again with `troupe login acme`.")
	})
}

// TestDevice_Check: what a configuration needs.
func TestDevice_Check(t *testing.T) {
	good := Device{DeviceURL: "https://a.example/d", TokenURL: "http://127.0.0.1:80/t", ClientID: "c"}
	require.NoError(t, good.Check())
	for i, change := range []func(*Device){
		func(d *Device) { d.DeviceURL = "http://a.example/d" }, func(d *Device) { d.TokenURL = "" }, func(d *Device) { d.TokenURL = "file:///etc" }, func(d *Device) { d.ClientID = "" },
	} {
		d := good
		change(&d)
		assert.Error(t, d.Check(), fmt.Sprint(i))
	}
}
