package providers

import (
	"context"
	"errors"
	"time"

	"troupe/protocol"
)

// ErrLoginCancelled is the end of a login that somebody did not want any more.
var ErrLoginCancelled = errors.New("the login was cancelled")

// Logins is what there is to know and to do about credentials. Implementations are
// safe for concurrent use.
type Logins interface {
	// Auth reports on the providers that can be used, or could, or on one. Nothing
	// secret is in it, and nobody is asked.
	Auth(provider string) protocol.AuthReport
	// Login signs a person in and returns when that is done. At the end of ctx it
	// gives up, for the reason that ctx has, and leaves nothing behind.
	Login(ctx context.Context, how protocol.Login, person Dialog) (protocol.LoginResult, *protocol.Error)
	// CancelLogin ends a login that somebody waits for; false if there is none.
	CancelLogin(provider string) bool
	// Logout takes a provider's entry out of auth.json. It asks the vendor to revoke
	// what was issued, if it can and revoke says so.
	Logout(ctx context.Context, provider string, revoke bool) (protocol.LogoutResult, *protocol.Error)
	// Renew has the login of a provider renewed that is about to end, or every one for
	// "", and waits for that.
	Renew(ctx context.Context, provider string)
	// Watch has somebody told of what happens, in any order with respect to requests,
	// in place of whoever was told before.
	Watch(who LoginWatch)
	// Close waits for refreshes under way, some seconds at most, and begins no more.
	Close()
}

// LoginWatch is told of what happens to logins, on any goroutine, and must not wait. A
// function that is nil is not called.
type LoginWatch struct {
	Tell func(protocol.Event) // AuthChanged, AuthRefreshStart, AuthRefreshEnd
	// Due says that a login is in use which ends some time later than in: Renew is to be
	// called then, so that no request has to wait for it. A later call for the same
	// provider replaces one before.
	Due func(provider string, in time.Duration)
}

// Dialog is the person who signs in. Its questions end with ctx.
type Dialog interface {
	// Open shows an address to be opened in a browser. It returns what the person
	// gives in place of coming back by the browser: the address that it ended at. Of a
	// page with a code nothing comes back.
	Open(ctx context.Context, page LoginPage) (string, error)
	// Pastes says whether the person can give such an address.
	Pastes() bool
	// Ask asks for a text, which is secret.
	Ask(ctx context.Context, question string) (string, error)
	// Choose asks for one of the options.
	Choose(ctx context.Context, question string, options ...string) (string, error)
	// Tell says something that needs no answer.
	Tell(text string)
}

// LoginPage is where a person signs in.
type LoginPage struct {
	URL    string
	Text   string        // what it is for
	Code   string        // that is to be typed there; "" for none
	Launch string        // the same place with the code filled in; "" for none
	Left   time.Duration // how long the code is good for
}

type loginWait struct{}

// WithLoginWait has waits called when something that is done with the context waits for the
// login of a provider, and with "" when it does no more. It must not wait itself.
func WithLoginWait(ctx context.Context, waits func(provider string)) context.Context {
	return context.WithValue(ctx, loginWait{}, waits)
}

// LoginWaits says that it waits, or for "" that it does no more.
func LoginWaits(ctx context.Context, provider string) {
	if waits, ok := ctx.Value(loginWait{}).(func(string)); ok {
		waits(provider)
	}
}
