package providers

import (
	"context"
	"errors"

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
	// Watch has tell told of changes, in any order with respect to requests.
	Watch(tell func(protocol.AuthChanged))
	// Close waits for refreshes under way, some seconds at most, and begins no more.
	Close()
}

// Dialog is the person who signs in. Its questions end with ctx.
type Dialog interface {
	// Open shows an address to be opened in a browser. It returns what the person
	// gives in place of coming back by the browser: the address that it ended at.
	Open(ctx context.Context, address, text string) (string, error)
	// Pastes says whether the person can give such an address.
	Pastes() bool
	// Ask asks for a text, which is secret.
	Ask(ctx context.Context, question string) (string, error)
	// Choose asks for one of the options.
	Choose(ctx context.Context, question string, options ...string) (string, error)
	// Tell says something that needs no answer.
	Tell(text string)
}
