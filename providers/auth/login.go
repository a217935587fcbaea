package auth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"troupe/protocol"
	"troupe/providers"
)

// How long a person may take to sign in.
const (
	loginTime    = 5 * time.Minute
	maxLoginTime = 15 * time.Minute
)

// The methods of signing in, as on the wire.
const (
	methodKey     = "api_key"
	methodBrowser = "browser"
	methodPaste   = "paste"
	methodDevice  = "device"
)

// errTimeout is the end of a login that nobody has signed in to.
var errTimeout = errors.New("the login was not completed in time")

// flow is a vendor's documented way to sign in.
type flow func(s *Store, ctx context.Context, how protocol.Login, person providers.Dialog) (account string, err error)

var flows map[string]flow

func init() {
	flows = map[string]flow{openAI: (*Store).loginOpenAI, openRouter: (*Store).loginOpenRouter}
}

// CanLogin says whether one can sign in to a provider here.
func (s *Store) CanLogin(provider string) bool {
	_, byCode := s.device(provider)
	return byCode || flows[provider] != nil
}

// Never says why there are no credentials at all for a provider here, "" where there
// are.
func (s *Store) Never(provider string) string {
	if providers.VendorOf(provider).Env != nil {
		return "" // a key
	}
	return s.policy(provider).never
}

// Methods are the ways to give a provider credentials here.
func (s *Store) Methods(provider string) []string {
	switch {
	case flows[provider] != nil:
		return []string{methodBrowser, methodPaste, methodKey}
	case s.CanLogin(provider):
		return []string{methodDevice, methodKey}
	case s.Never(provider) != "":
		return []string{}
	}
	return []string{methodKey}
}

// Login implements that of [providers.Logins].
func (s *Store) Login(ctx context.Context, how protocol.Login, person providers.Dialog) (protocol.LoginResult, *protocol.Error) {
	provider := how.Provider
	none := protocol.LoginResult{}
	method := how.Method
	if method == "" {
		method = methodKey
		if how.Key == "" && s.CanLogin(provider) {
			method = s.Methods(provider)[0]
		}
	}
	switch p := s.policy(provider); {
	case s.Never(provider) != "", method != methodKey && p.never != "":
		return none, protocol.CodeLoginUnsupported.Errorf("Signing in to %s is not offered: %s", provider, p.never)
	case method != methodKey && !s.CanLogin(provider):
		return none, protocol.CodeLoginUnsupported.Errorf("%s", strings.TrimSpace(fmt.Sprintf("There is no login for %s here: store a key (method api_key) %s", provider, p.hint)))
	case !slices.Contains(s.Methods(provider), method):
		return none, protocol.CodeLoginUnsupported.Errorf("One does not sign in to %s by %s, but by %s", provider, method, strings.Join(s.Methods(provider), ", "))
	case how.Key != "" && method != methodKey:
		return none, protocol.CodeInvalidParams.Errorf("key goes with the method api_key only")
	}
	how.Method = method
	ctx, done, busy := s.attempt(ctx, how)
	if busy != nil {
		return none, busy
	}
	defer done()
	account, err := "", s.canWrite(ctx)
	if err != nil { // nobody signs in for nothing
		return none, outcome(ctx, provider, err)
	}
	switch method {
	case methodKey:
		err = s.storeKey(ctx, how, person)
	case methodDevice:
		account, err = s.loginDevice(ctx, how, person)
	default:
		account, err = flows[provider](s, ctx, how, person)
	}
	if err != nil {
		return none, outcome(ctx, provider, err)
	}
	s.signedIn(provider)
	return protocol.LoginResult{Provider: provider, ProviderID: provider, Account: account}, nil
}

// canWrite says why what a login brings could not be kept, as far as that shows before.
func (s *Store) canWrite(ctx context.Context) error {
	err := s.edit(ctx, func(context.Context, []member) ([]member, bool, error) { return nil, false, nil })
	if err == nil || ctx.Err() != nil {
		return err
	}
	return because(causeStore, err.Error())
}

// signedIn forgets what was wrong with a login before.
func (s *Store) signedIn(provider string) {
	s.mu.Lock()
	l := s.of(provider)
	l.failed, l.fresh, l.refused = failure{}, fresh{}, ""
	s.mu.Unlock()
	s.changed(provider, protocol.AuthReady, "")
}

// attempt begins a login, of which a provider has one at a time.
func (s *Store) attempt(ctx context.Context, how protocol.Login) (context.Context, func(), *protocol.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attempts[how.Provider] != nil {
		return nil, nil, protocol.CodeLoginBusy.Errorf("Another login for %s is in progress", how.Provider)
	}
	limit := loginTime
	if how.TimeoutMs > 0 {
		limit = min(time.Duration(how.TimeoutMs)*time.Millisecond, maxLoginTime)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	timed, stop := context.WithTimeoutCause(ctx, limit, errTimeout)
	s.attempts[how.Provider] = cancel
	return timed, func() {
		stop()
		cancel(nil)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.attempts, how.Provider)
	}, nil
}

// CancelLogin ends a login that somebody waits for; false if there is none.
func (s *Store) CancelLogin(provider string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	cancel := s.attempts[provider]
	if cancel != nil {
		cancel(providers.ErrLoginCancelled)
	}
	return cancel != nil
}

// outcome words why a login came to nothing.
func outcome(ctx context.Context, provider string, err error) *protocol.Error {
	var known *protocol.Error
	switch cause := context.Cause(ctx); {
	case errors.As(err, &known):
		return known
	case errors.Is(err, providers.ErrLoginCancelled), errors.Is(cause, providers.ErrLoginCancelled), errors.Is(cause, context.Canceled):
		return protocol.CodeLoginCancelled.Errorf("The login of %s was cancelled", provider)
	case errors.Is(cause, errTimeout), errors.Is(err, errTimeout):
		return protocol.CodeLoginTimeout.Errorf("The login for %s was not completed in time", provider)
	}
	failed := protocol.CodeLoginFailed.Errorf("Signing in to %s failed: %v", provider, err)
	failed.Data = protocol.LoginFailure{Cause: causeOf(err)}
	return failed
}

// storeKey keeps a key that the person gives.
func (s *Store) storeKey(ctx context.Context, how protocol.Login, person providers.Dialog) error {
	key := strings.TrimSpace(how.Key)
	if key == "" {
		var err error
		if key, err = person.Ask(ctx, "API key for "+how.Provider); err != nil {
			return err
		}
		key = strings.TrimSpace(key)
	}
	switch {
	case !isToken(strings.ReplaceAll(key, " ", "")):
		return because(causeKey, "a key is one line of text")
	case key[0] == '!': // in auth.json that is a command, which nobody means who was asked for a key
		return because(causeKey, "no key begins with an exclamation mark; a command that prints the key is stored by `troupe login "+how.Provider+" --store-command COMMAND`")
	}
	return s.keep(ctx, how.Provider, strings.ReplaceAll(key, "$", "$$"), person) // what names a variable has one $
}

// StoreCommand keeps a command in place of a key, which it prints whenever one is needed.
// It is for who sits at the machine: no client of the wire comes here.
func (s *Store) StoreCommand(ctx context.Context, provider, command string, person providers.Dialog) *protocol.Error {
	command = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(command), "!"))
	switch {
	case s.Never(provider) != "":
		return protocol.CodeLoginUnsupported.Errorf("Signing in to %s is not offered: %s", provider, s.Never(provider))
	case command == "" || strings.ContainsAny(command, "\r\n\x00"):
		return protocol.CodeInvalidParams.Errorf("A command that prints a key is one line of text")
	}
	ctx, over, busy := s.attempt(ctx, protocol.Login{Provider: provider})
	if busy != nil {
		return busy
	}
	defer over()
	if err := s.keep(ctx, provider, "!"+command, person); err != nil {
		return outcome(ctx, provider, err)
	}
	s.signedIn(provider)
	return nil
}

// keep writes a key, or the command that prints one.
func (s *Store) keep(ctx context.Context, provider, key string, person providers.Dialog) error {
	if e := s.File().Entries[provider]; e.Type == typeOAuth {
		if err := s.mayReplace(ctx, provider, person); err != nil {
			return err
		}
	}
	return s.edit(ctx, func(_ context.Context, list []member) ([]member, bool, error) {
		old, _ := parseEntry(find(list, provider))
		entry := []member{{"type", []byte(`"api_key"`)}, {"key", protocol.AppendString(nil, key)}}
		if old.Type == typeKey { // what else a person has put there stays
			entry, _ = membersOf(find(list, provider))
			entry = put(entry, "key", protocol.AppendString(nil, key))
		}
		return put(list, provider, object(entry)), true, nil
	})
}

// mayReplace asks before somebody else's entry is written over.
func (s *Store) mayReplace(ctx context.Context, provider string, person providers.Dialog) error {
	e, found := s.File().Entries[provider]
	if !found || s.ours(provider, e) {
		return nil
	}
	what := "a login of another program"
	if e.Type == typeKey {
		what = "an API key"
	}
	const replace, keep = "Replace it", "Keep it"
	answer, err := person.Choose(ctx, fmt.Sprintf("auth.json has %s for %s", what, provider), replace, keep)
	if err != nil {
		return err
	}
	if answer != replace {
		return providers.ErrLoginCancelled
	}
	return nil
}

// save writes a login that was made here, with what we note of it.
func (s *Store) saveLogin(ctx context.Context, provider string, t tokens, n note) error {
	return s.edit(context.WithoutCancel(ctx), func(_ context.Context, list []member) ([]member, bool, error) {
		err := s.note(func(all *notes) {
			if all.Logins == nil {
				all.Logins = map[string]note{}
			}
			n.Made = true
			all.Logins[provider] = n
		})
		return put(list, provider, t.over(nil)), err == nil, err
	})
}

// browse sends the person to a vendor and waits until the browser comes back, or the
// person brings what it came back with.
func (s *Store) browse(ctx context.Context, person providers.Dialog, back *callback, address, text, state string) (url.Values, error) {
	for {
		asking, stop := context.WithCancel(ctx)
		type reply struct {
			text string
			err  error
		}
		given := make(chan reply, 1)
		go func() {
			text, err := person.Open(asking, providers.LoginPage{URL: address, Text: text})
			given <- reply{text, err}
		}()
		select {
		case values := <-back.arrived():
			stop()
			return values, nil
		case <-ctx.Done():
			stop()
			return nil, context.Cause(ctx)
		case r := <-given:
			stop()
			if r.err != nil {
				return nil, r.err
			}
			values, err := pasted(r.text, state)
			if err == nil {
				return values, nil
			}
			person.Tell(err.Error())
		}
	}
}

// code is what a vendor sends back, or why it sends none.
func code(values url.Values) (string, error) {
	if failed := values.Get("error"); failed != "" {
		if failed == "access_denied" {
			return "", because(causeDenied, "it was declined (access_denied)")
		}
		return "", &refusal{code: clean(failed), text: clean(values.Get("error_description"))}
	}
	if code := values.Get("code"); code != "" {
		return code, nil
	}
	return "", because(causeAnswer, "the answer has no code")
}

// Logout implements that of [providers.Logins], but for what else gives a key: who
// knows that tells of the change.
func (s *Store) Logout(ctx context.Context, provider string, revoke bool) (protocol.LogoutResult, *protocol.Error) {
	var out protocol.LogoutResult
	var gone Entry
	err := s.edit(ctx, func(_ context.Context, list []member) ([]member, bool, error) {
		at := slices.IndexFunc(list, func(m member) bool { return m.name == provider })
		if at < 0 {
			return nil, false, nil
		}
		gone, _ = parseEntry(list[at].value)
		out.Removed = true
		return slices.Delete(list, at, at+1), true, nil
	})
	if err != nil {
		return out, protocol.CodeIO.Errorf("auth.json was not written: %v", err)
	}
	if out.Removed && revoke && provider == openAI && gone.Client != "" && gone.Refresh != "" {
		out.Revoked = s.revokeOpenAI(ctx, gone) == nil
	}
	if out.Removed {
		s.mu.Lock()
		s.logins[provider] = &login{told: s.of(provider).told}
		s.mu.Unlock()
	}
	return out, nil
}
