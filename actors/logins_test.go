package actors

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/providers"
)

// fakeLogins asks the person one question for each login.
type fakeLogins struct {
	tell   func(protocol.AuthChanged)
	causes []error // why logins ended
	closed bool
}

func (f *fakeLogins) Auth(provider string) protocol.AuthReport {
	return protocol.AuthReport{Providers: []protocol.ProviderAuth{{ID: "acme", Name: "Acme", State: protocol.AuthExpired, Methods: []string{"browser"}}}}
}

func (f *fakeLogins) Login(ctx context.Context, how protocol.Login, person providers.Dialog) (protocol.LoginResult, *protocol.Error) {
	answer, err := person.Choose(ctx, "Which?", "one", "two")
	if err == nil {
		answer, err = person.Open(ctx, "https://acme.example/"+answer, "Sign in")
	}
	if err != nil {
		f.causes = append(f.causes, err)
		return protocol.LoginResult{}, protocol.CodeLoginCancelled.Errorf("cancelled")
	}
	f.tell(protocol.AuthChanged{Provider: how.Provider, State: protocol.AuthReady})
	return protocol.LoginResult{Provider: how.Provider, Account: answer}, nil
}

func (f *fakeLogins) CancelLogin(string) bool { return false }

func (f *fakeLogins) Logout(context.Context, string, bool) (protocol.LogoutResult, *protocol.Error) {
	return protocol.LogoutResult{}, protocol.CodeIO.Errorf("no")
}

func (f *fakeLogins) Watch(tell func(protocol.AuthChanged)) { f.tell = tell }
func (f *fakeLogins) Close()                                { f.closed = true }

func withLogins(f *fakeLogins) func(*Config) {
	return func(cfg *Config) { cfg.Sessions.Logins = f }
}

// TestLoginDialogs: the questions of a login go to the client that asked, and only its
// answers count; everybody else goes on, and hears what came of it.
func TestLoginDialogs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fakeLogins{}
		a := start(t, withLogins(f))
		b := a.connect()
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
		a.run("", "~s1~ meanwhile")
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
		assert.Equal(t, "io_error", code(b.Call(t, `{"type":"logout","provider":"acme"}`)))
		a.end()
		assert.True(t, f.closed)
	})
}

// TestLoginLeft: a login ends with the client that asked, which is answered if it can
// still read, and nothing of it is left.
func TestLoginLeft(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fakeLogins{}
		a := start(t, withLogins(f))
		b := a.connect()
		login := b.Send(`{"type":"login","provider":"acme"}`)
		b.Settle()
		require.NoError(t, b.leave())
		assert.Equal(t, "login_cancelled", code(b.Answer(t, login)))
		require.Len(t, f.causes, 1)
		assert.True(t, errors.Is(f.causes[0], providers.ErrLoginCancelled))

		c := a.connect()
		c.Send(`{"type":"login","provider":"acme"}`)
		c.Settle()
		c.Break() // it reads no more
		c.Close()
		c.pass(time.Hour)
		assert.Len(t, f.causes, 2, "also of one that is gone without a word")

		login = a.Send(`{"type":"login","provider":"acme"}`)
		a.Settle()
		a.end()
		assert.Equal(t, "login_cancelled", code(a.Answer(t, login)))
	})
}

// TestLoginWithoutLogins: a daemon that has no credentials says so.
func TestLoginWithoutLogins(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := start(t)
		assert.Equal(t, "unsupported", code(a.Call(t, `{"type":"get_auth"}`)))
		a.end()
	})
}
