package clients

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors"
	"troupe/actors/conn"
	"troupe/actors/scenario/harness"
	"troupe/protocol"
	"troupe/providers"
)

// fakeLogins asks the user one question for each login.
type fakeLogins struct {
	watch  providers.LoginWatch
	mu     sync.Mutex // guards the fields below
	causes []error    // why logins ended
	asked  []protocol.Login
	closed bool

	renewed []string
}

func (f *fakeLogins) Auth(provider string) protocol.AuthReport {
	one := protocol.ProviderAuth{ID: cmp.Or(provider, "acme"), Name: "Acme", State: protocol.AuthExpired, Methods: []string{"browser", "paste", "api_key"}}
	switch provider {
	case "keys":
		one = protocol.ProviderAuth{ID: provider, State: protocol.AuthNone, Methods: []string{"api_key"}}
	case "boxes":
		one = protocol.ProviderAuth{ID: provider, State: protocol.AuthNone, Methods: []string{"device", "api_key"}}
	}
	return protocol.AuthReport{Providers: []protocol.ProviderAuth{one}}
}

func (f *fakeLogins) Login(ctx context.Context, how protocol.Login, person providers.Dialog) (protocol.LoginResult, *protocol.Error) {
	f.note(func() { f.asked = append(f.asked, how) })
	if how.Provider == "keys" {
		key, err := person.Ask(ctx, "Key?")
		if err != nil {
			var known *protocol.Error
			if errors.As(err, &known) {
				return protocol.LoginResult{}, known
			}
			return protocol.LoginResult{}, protocol.CodeLoginCancelled.Errorf("cancelled")
		}
		return protocol.LoginResult{Provider: "keys", Account: key}, nil
	}
	answer, err := person.Choose(ctx, "Which?", "one", "two")
	if err == nil {
		answer, err = person.Open(ctx, providers.LoginPage{URL: "https://acme.example/" + answer, Text: "Sign in"})
	}
	if err != nil {
		f.note(func() { f.causes = append(f.causes, err) })
		return protocol.LoginResult{}, protocol.CodeLoginCancelled.Errorf("cancelled")
	}
	f.watch.Tell(protocol.AuthChanged{Provider: how.Provider, State: protocol.AuthReady})
	return protocol.LoginResult{Provider: how.Provider, Account: answer}, nil
}

// note writes and seen reads the records of logins, which run on goroutines of their own.
func (f *fakeLogins) note(what func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	what()
}

func seen[T any](f *fakeLogins, list *[]T) []T {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(*list)
}

func (f *fakeLogins) CancelLogin(string) bool { return false }

func (f *fakeLogins) Logout(context.Context, string, bool) (protocol.LogoutResult, *protocol.Error) {
	return protocol.LogoutResult{}, protocol.CodeIO.Errorf("no")
}

func (f *fakeLogins) Watch(who providers.LoginWatch) { f.watch = who }

func (f *fakeLogins) Close() { f.closed = true }

func (f *fakeLogins) Renew(_ context.Context, provider string) {
	f.note(func() { f.renewed = append(f.renewed, provider) })
}

func withLogins(f *fakeLogins) func(*actors.Config) {
	return func(cfg *actors.Config) { cfg.Sessions.Logins = f }
}

// TestLoginDialogs checks that the dialogs of a login are sent to the client that has started it,
// and that only this client's answers count. Other clients are not blocked, and receive the result.
func TestLoginDialogs(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		f := &fakeLogins{}
		a := harness.Start(t, withLogins(f))
		b := a.Connect()
		a.Call(t, `{"type":"hello","features":["auth","openUrl"]}`)
		b.Call(t, `{"type":"hello","features":["auth"]}`)
		login := a.Send(`{"type":"login","provider":"acme"}`)
		a.Settle()
		asked := a.Events("", "extension_ui_request")
		require.Len(t, asked, 1)
		assert.Empty(t, b.Events("", "extension_ui_request"))
		id := asked[0].Get("id").Str
		for _, wrong := range []string{`"value":"three"`, `"confirmed":true`} {
			a.Send(`{"type":"extension_ui_response","id":"` + id + `",` + wrong + `}`)
		}
		b.Send(`{"type":"extension_ui_response","id":"` + id + `","value":"one"}`)
		a.Run("", "~s1~ meanwhile")
		assert.Len(t, a.Events("", "extension_ui_request"), 1, "nothing of it was an answer")
		a.Send(`{"type":"extension_ui_response","id":"` + id + `","value":"two"}`)
		a.Settle()
		open := a.Events("", "extension_ui_request")[1]
		assert.Equal(t, "open_url https://acme.example/two", open.Get("method").Str+" "+open.Get("url").Str)
		a.Send(`{"type":"extension_ui_response","id":"` + open.Get("id").Str + `","value":"pasted"}`)
		a.Settle()
		assert.Equal(t, "pasted", a.Answer(t, login).Get("data.account").Str)
		assert.Len(t, a.Events("", "auth_changed"), 1)
		assert.Len(t, b.Events("", "auth_changed"), 1)
		list := b.Call(t, `{"type":"get_login_providers"}`).Get("data.providers.0")
		assert.Equal(t, `{"id":"acme","name":"Acme","available":true,"authenticated":true}`, list.Raw)
		assert.Equal(t, "io_error", harness.Code(b.Call(t, `{"type":"logout","provider":"acme"}`)))
		a.End()
		assert.True(t, f.closed)
	})
}

// TestLoginLeft checks that a login ends with the client that has started it. The client receives
// an answer if it can still read.
func TestLoginLeft(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		f := &fakeLogins{}
		a := harness.Start(t, withLogins(f))
		b := a.Connect()
		login := b.Send(`{"type":"login","provider":"acme"}`)
		b.Settle()
		require.NoError(t, b.Leave())
		assert.Equal(t, "login_cancelled", harness.Code(b.Answer(t, login)))
		require.Len(t, seen(f, &f.causes), 1)
		assert.True(t, errors.Is(seen(f, &f.causes)[0], providers.ErrLoginCancelled))

		c := a.Connect()
		c.Send(`{"type":"login","provider":"acme"}`)
		c.Settle()
		c.Break() // it reads nothing any more
		c.Close()
		c.Advance(time.Hour)
		assert.Len(t, seen(f, &f.causes), 2, "also of one that is gone without a word")

		login = a.Send(`{"type":"login","provider":"acme"}`)
		a.Settle()
		a.End()
		assert.Equal(t, "login_cancelled", harness.Code(a.Answer(t, login)))
	})
}

// TestLoginWithoutLogins checks that get_auth returns unsupported on a daemon without a credential
// store.
func TestLoginWithoutLogins(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t)
		assert.Equal(t, "unsupported", harness.Code(a.Call(t, `{"type":"get_auth"}`)))
		a.End()
	})
}

// TestLoginRights checks that a remote client may log in or out only if that is allowed, and then
// only by methods that open nothing on the daemon's machine and accept no API key.
func TestLoginRights(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		f := &fakeLogins{}
		a := harness.Start(t, withLogins(f))
		none := a.Connect(func(of *conn.Config) { of.Logins = conn.LoginsNone })
		afar := a.Connect(func(of *conn.Config) { of.Logins = conn.LoginsAfar })
		for _, b := range []*harness.Client{none, afar} {
			b.Call(t, `{"type":"hello","features":["auth","openUrl","secretInput"]}`)
		}
		for _, line := range []string{
			`{"type":"login","provider":"acme"}`, `{"type":"login","provider":"acme","method":"paste"}`, `{"type":"login","provider":"boxes","method":"device"}`,
			`{"type":"login","provider":"keys","key":"k"}`, `{"type":"cancel_login","provider":"acme"}`, `{"type":"logout","provider":"acme"}`,
		} {
			refused := none.Call(t, line)
			assert.Equal(t, "forbidden", harness.Code(refused), line)
			assert.Contains(t, refused.Get("error").Str, "--allow-login")
		}
		assert.True(t, none.Call(t, `{"type":"get_auth"}`).Get("success").Bool(), "to ask is no login")
		for line, want := range map[string]string{
			`{"type":"login","provider":"acme","method":"browser"}`: "forbidden", `{"type":"login","provider":"acme","method":"api_key"}`: "forbidden",
			`{"type":"login","provider":"keys","key":"k"}`: "forbidden", `{"type":"login","provider":"keys"}`: "login_unsupported",
		} {
			assert.Equal(t, want, harness.Code(afar.Call(t, line)), line)
		}
		assert.Empty(t, seen(f, &f.asked), "nothing of it was begun")
		for _, provider := range []string{"acme", "boxes"} {
			login := afar.Send(`{"type":"login","provider":"` + provider + `"}`)
			afar.Settle()
			id := afar.Events("", "extension_ui_request")[len(seen(f, &f.asked))-1].Get("id").Str
			afar.Send(`{"type":"extension_ui_response","id":"` + id + `","cancelled":true}`)
			afar.Settle()
			assert.Equal(t, "login_cancelled", harness.Code(afar.Answer(t, login)))
		}
		assert.Equal(t, []protocol.Login{{Provider: "acme", Method: "paste"}, {Provider: "boxes", Method: "device"}}, seen(f, &f.asked))
		assert.Empty(t, a.Events("", "extension_ui_request"))
		assert.Empty(t, none.Events("", "extension_ui_request"))
		assert.Equal(t, "io_error", harness.Code(afar.Call(t, `{"type":"logout","provider":"acme"}`)), "that was tried")
		a.End()
	})
}

// TestLoginSecrets checks that only a client with the feature secretInput receives a dialog for an
// API key.
func TestLoginSecrets(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		f := &fakeLogins{}
		a := harness.Start(t, withLogins(f))
		a.Call(t, `{"type":"hello","features":["auth","openUrl"]}`)
		for _, line := range []string{`{"type":"login","provider":"keys"}`, `{"type":"login","provider":"keys","method":"api_key"}`} {
			refused := a.Call(t, line)
			assert.Equal(t, "login_unsupported", harness.Code(refused))
			assert.Contains(t, refused.Get("error").Str, "`troupe login")
		}
		assert.Empty(t, a.Events("", "extension_ui_request"))
		a.Call(t, `{"type":"hello","features":["secretInput"]}`)
		login := a.Send(`{"type":"login","provider":"keys"}`)
		a.Settle()
		asked := a.Events("", "extension_ui_request")
		require.Len(t, asked, 1)
		assert.True(t, asked[0].Get("secret").Bool())
		a.Send(`{"type":"extension_ui_response","id":"` + asked[0].Get("id").Str + `","value":"typed"}`)
		a.Settle()
		assert.Equal(t, "typed", a.Answer(t, login).Get("data.account").Str)
		a.End()
	})
}

// TestLoginUsers checks that get_auth returns how many sessions use a model of a provider.
func TestLoginUsers(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		f := &fakeLogins{}
		a := harness.Start(t, withLogins(f))
		used := func(provider string) int64 {
			return a.Call(t, `{"type":"get_auth","provider":"`+provider+`"}`).Get("data.providers.0.usedBy").Int()
		}
		provider := a.Call(t, `{"type":"get_state"}`).Get("data.model.provider").Str
		require.NotEmpty(t, provider)
		assert.EqualValues(t, 1, used(provider))
		assert.Zero(t, used("keys"))
		a.End()
	})
}

// TestLoginDue checks that a login in use is renewed when it is due, and that all clients receive
// the events.
func TestLoginDue(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		f := &fakeLogins{}
		a := harness.Start(t, withLogins(f))
		b := a.Connect()
		for _, client := range []*harness.Client{a, b} {
			client.Call(t, `{"type":"hello","features":["auth"]}`)
		}
		f.watch.Due("acme", time.Hour)
		f.watch.Due("acme", 2*time.Hour)
		a.Advance(time.Hour + time.Minute)
		assert.Empty(t, seen(f, &f.renewed), "the later word counts")
		a.Advance(time.Hour)
		assert.Equal(t, []string{"acme"}, seen(f, &f.renewed))
		f.watch.Tell(protocol.AuthRefreshStart{Provider: "acme"})
		f.watch.Tell(protocol.AuthRefreshEnd{Provider: "acme", State: protocol.AuthReady})
		a.Settle()
		for _, client := range []*harness.Client{a, b} {
			assert.Len(t, client.Events("", "auth_refresh_start"), 1)
			assert.Equal(t, "ready", client.Events("", "auth_refresh_end")[0].Get("state").Str)
		}
		a.Example(a.Events("", "auth_refresh_start")[0], "")
		a.Example(a.Events("", "auth_refresh_end")[0], "")
		f.watch.Due("acme", time.Hour)
		a.End()
	})
}
