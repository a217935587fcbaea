package auth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"troupe/protocol"
	"troupe/providers"
)

// login is what is remembered of a provider's login.
type login struct {
	running *renewal // nil for none
	fresh   fresh
	failed  failure
	refused string               // a token that its service has refused
	told    protocol.AuthChanged // how it stood when that was last looked at
	due     string               // the token for whose end a renewal was asked for
	header  map[string]string    // of requests with the token of last
	last    string

	address string // where its token may go, of the last request
	account account
	reused  bool // the person was told that it is pi's
}

// account tells accounts apart.
type account struct {
	of   tokenPair
	name string
}

// fresh is a token that was got by us.
type fresh struct {
	access string
	of     tokenPair // the entry that it belongs to
	at     time.Time // with the monotonic clock, unlike what is in the file
	until  time.Time // it is used

	unsaved *tokens   // what belongs in the file, and could not be written; nil for nothing
	tried   time.Time // to write it
}

// failure is a refresh that is not tried again, as long as the entry is the same.
type failure struct {
	of      tokenPair
	until   time.Time // zero for ever
	passing bool      // it may be another time, and is tried again
	err     *protocol.StreamError
}

// renewal is a refresh under way, of which all who wait take the outcome.
type renewal struct {
	done  chan struct{}
	token string
	err   *protocol.StreamError
}

// of is what is remembered of a provider. The lock is held.
func (s *Store) of(provider string) *login {
	l := s.logins[provider]
	if l == nil {
		l = &login{}
		s.logins[provider] = l
	}
	return l
}

// tokenPair tells the entries of a provider apart.
type tokenPair struct{ access, refresh string }

func (e Entry) id() tokenPair { return tokenPair{e.Access, e.Refresh} }

// good is a token that can be used without asking anybody, "" for none.
func (l *login) good(p policy, e Entry, now time.Time) string {
	if l.fresh.of == e.id() { // it has taken the place of what is in the file
		if l.fresh.access != l.refused && now.Before(l.fresh.until) {
			return l.fresh.access
		}
		return ""
	}
	if p.direct && e.Access != l.refused && e.left(now) > early {
		return e.Access
	}
	return ""
}

// Signer authenticates one request of a provider, and its repeats, by its login, as [Store.File]
// has just found it: to look again before the first of them would bring nothing.
func (s *Store) Signer(provider string) providers.Signer {
	return &signer{store: s, provider: provider}
}

// signer implements [providers.Signer] for one request and its repeats.
type signer struct {
	store    *Store
	provider string

	mu   sync.Mutex
	used string // the token of the last signature
	old  bool   // File was before others
}

func (l *signer) Sign(ctx context.Context, url string, _ []byte) (map[string]string, error) {
	if err := l.store.mayGo(l.provider, url); err != nil {
		return nil, err
	}
	l.mu.Lock()
	look := l.old
	l.old = true
	l.mu.Unlock()
	token, err := l.store.token(ctx, l.provider, 0, look)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.used = token
	l.mu.Unlock()
	l.store.sayReused(l.provider)
	return l.store.headersOf(l.provider, token), nil
}

// mayGo says whether a provider's token may go to a URL.
func (s *Store) mayGo(provider, address string) error {
	s.mu.Lock()
	same := s.of(provider).address == address
	s.mu.Unlock()
	if same {
		return nil
	}
	if err := s.policy(provider).allows(provider, address); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(provider).address = address
	return nil
}

// sayReused tells the person, once, that a login is used which was made elsewhere.
func (s *Store) sayReused(provider string) {
	s.mu.Lock()
	l := s.of(provider)
	said, e := l.reused, s.snapshot.Entries[provider]
	l.reused = true
	s.mu.Unlock()
	if !said && !s.ours(provider, e) {
		s.Notice("using pi's login of " + provider)
	}
}

// Account is told by the token as far as its issuer says in it who it is about: no
// two accounts share a connection.
func (l *signer) Account() string {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	e, read := l.store.snapshot.Entries[l.provider] // as it was at the signature
	if !read {
		e = l.store.read().Entries[l.provider]
	}
	of := l.store.of(l.provider)
	if of.account.name == "" || of.account.of != e.id() {
		of.account = account{e.id(), e.account(l.provider)}
	}
	return of.account.name
}

// account is a name for whose tokens an entry has.
func (e Entry) account(provider string) string {
	who := e.Client
	if parts := strings.Split(e.Access, "."); len(parts) == 3 {
		if claims, err := base64.RawURLEncoding.DecodeString(parts[1]); err == nil && json.Valid(claims) {
			who += "\x00" + gjson.GetBytes(claims, "sub").Str
		}
	}
	sum := sha256.Sum256([]byte(provider + "\x00" + who))
	return hex.EncodeToString(sum[:16])
}

// Forget says that the last token was refused.
func (l *signer) Forget() {
	l.mu.Lock()
	used := l.used
	l.mu.Unlock()
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	if used != "" {
		l.store.of(l.provider).refused = used
	}
}

// token returns a token that is good, after a refresh if need be. The refresh goes on
// when ctx ends: a vendor that has given a new token takes the old one no more.
func (s *Store) token(ctx context.Context, provider string, ahead time.Duration, look bool) (string, *protocol.StreamError) {
	r, token, err := s.begin(provider, ahead, look)
	if r == nil {
		return token, err
	}
	providers.LoginWaits(ctx, provider)
	defer providers.LoginWaits(ctx, "")
	select {
	case <-r.done:
		return r.token, r.err
	case <-ctx.Done():
		return "", protocol.Aborted()
	}
}

// Renew has a login renewed that is about to end, for who was asked to by
// [providers.LoginWatch] a bit earlier.
func (s *Store) Renew(ctx context.Context, provider string) {
	s.mu.Lock()
	l, e := s.of(provider), s.read().Entries[provider]
	ahead := time.Duration(0)
	if l.due != "" && (l.due == e.Access || l.due == l.fresh.access) {
		ahead = 2 * jitter
	}
	s.mu.Unlock()
	_, _ = s.token(ctx, provider, ahead, true)
}

// jitter is by how much renewals that nobody waits for are earlier or later than they have
// to be, so that not all processes of a machine come at once.
const jitter = early / 5

// headersOf are the headers that a token makes. It is asked to be renewed before its end,
// once for each: a login that nobody uses is left alone.
func (s *Store) headersOf(provider, token string) map[string]string {
	s.mu.Lock()
	l, e, now := s.of(provider), s.snapshot.Entries[provider], s.config.Now()
	if l.last != token {
		l.last, l.header = token, map[string]string{"Authorization": "Bearer " + token}
	}
	due, header := s.watch.Due, l.header
	if due == nil || l.due == token || !s.renews(provider, e) {
		s.mu.Unlock()
		return header
	}
	in := e.left(now) - early
	if l.fresh.access == token {
		in = l.fresh.until.Sub(now)
	}
	l.due = token
	s.mu.Unlock()
	if in > 0 {
		about := min(jitter, in/5)
		due(provider, in-about+rand.N(2*about+1))
	}
	return header
}

// begin returns a token, an error, or the refresh to wait for. A token counts as good if it
// will be so for a time ahead. look is whether auth.json may have changed meanwhile.
func (s *Store) begin(provider string, ahead time.Duration, look bool) (*renewal, string, *protocol.StreamError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, found := s.snapshot.Entries[provider]
	if look || !found {
		e, found = s.read().Entries[provider]
	}
	l, now := s.of(provider), s.config.Now()
	token := l.good(s.policy(provider), e, now.Add(ahead))
	if token != "" && l.fresh.unsaved != nil && now.Sub(l.fresh.tried) > rest && s.life.Err() == nil {
		l.fresh.tried = now
		s.pending.Go(func() { s.saveLate(provider) })
	}
	switch {
	case !found || e.Type != typeOAuth:
		return nil, "", protocol.ErrorAuth.Errorf("There is no login of %s in auth.json any more", provider)
	case token != "":
		return nil, token, nil
	case l.running != nil:
		return l.running, "", nil
	case l.failed.of == e.id() && !l.failed.passing && (l.failed.until.IsZero() || now.Before(l.failed.until)):
		return nil, "", l.failed.err
	case l.fresh.of == e.id() && l.fresh.access == l.refused && now.Sub(l.fresh.at) < rest:
		return nil, "", protocol.ErrorAuth.Errorf("%s refuses a login that was renewed this moment: %s", provider, s.again(provider))
	case s.life.Err() != nil:
		return nil, "", protocol.Aborted()
	}
	if l.told.State == "" { // nobody has looked yet, and before it was refused the token was good
		was := *l
		was.refused = ""
		l.told = protocol.AuthChanged{Provider: provider, State: s.stands(&was, provider, e, now)}
	}
	r := &renewal{done: make(chan struct{})}
	l.running = r
	s.pending.Go(func() {
		s.renew(provider, e, l, r)
	})
	return r, "", nil
}

// renew gets another token and tells all who wait.
func (s *Store) renew(provider string, e Entry, l *login, r *renewal) {
	s.tell(protocol.AuthRefreshStart{Provider: provider})
	got, err := s.another(provider, e)
	now := s.config.Now()
	s.mu.Lock()
	state, reason := protocol.AuthReady, ""
	var final *finalError
	switch usable := s.policy(provider).direct && e.left(now) > 0 && e.Access != l.refused; {
	case err == nil:
		l.fresh, l.failed = got, failure{}
		r.token = got.access
	case errors.As(err, &final):
		r.err = protocol.ErrorAuth.Errorf("OAuth refresh failed for %s: %v\n\n%s", provider, err, sentence(s.again(provider)))
		l.failed = failure{of: e.id(), err: r.err}
		if final.briefly {
			l.failed.until = now.Add(rest)
		}
		state, reason = protocol.AuthInvalid, final.Error()
		if !usable {
			break
		}
		r.token, r.err = e.Access, nil // to its end
		state = protocol.AuthExpiring
	default:
		r.err = protocol.ErrorAuth.Errorf("OAuth refresh failed for %s: %v", provider, err)
		l.failed = failure{of: e.id(), passing: true, err: r.err}
		state, reason = protocol.AuthExpired, err.Error()
		if usable {
			r.token, r.err = e.Access, nil
			state = protocol.AuthExpiring
		}
	}
	l.running = nil
	s.mu.Unlock()
	s.tell(protocol.AuthRefreshEnd{Provider: provider, State: state, Reason: reason})
	s.changed(provider, state, reason) // before who waits goes on
	close(r.done)
}

// Report says how a login stands, as far as that shows without asking anybody.
func (s *Store) Report(provider string, e Entry, out *protocol.ProviderAuth) {
	now := s.config.Now()
	s.mu.Lock()
	l := s.of(provider)
	state, failed := s.stands(l, provider, e, now), l.failed
	s.mu.Unlock()
	out.Source, out.ExpiresAt, out.Account = "stored_oauth", e.Expires, s.Account(provider, e)
	if !s.policy(provider).direct {
		out.Source, out.ExpiresAt = "broker", 0
	}
	switch out.State = state; {
	case state == protocol.AuthInvalid:
		out.Reason, out.Hint = failed.err.Message, s.again(provider)
	case state != protocol.AuthReady && failed.of == e.id() && failed.err != nil:
		out.Reason = failed.err.Message
	}
	if provider == openAI && !s.ours(provider, e) {
		out.Hint = "this login was made by another program; `troupe login openai` registers troupe"
	}
}

// stands is how a login stands. The lock is held.
func (s *Store) stands(l *login, provider string, e Entry, now time.Time) protocol.AuthState {
	switch {
	case l.good(s.policy(provider), e, now) != "":
		return protocol.AuthReady
	case l.failed.of == e.id() && l.failed.err != nil && !l.failed.passing:
		return protocol.AuthInvalid
	case e.left(now) > 0:
		return protocol.AuthExpiring
	}
	return protocol.AuthExpired
}

// Account is whose login it is, masked; "" if that is not known.
func (s *Store) Account(provider string, e Entry) string {
	if e.Type != typeOAuth || !s.ours(provider, e) {
		return ""
	}
	return s.notesNow().Logins[provider].Account
}

// finalError is a failure that trying again does not mend.
type finalError struct {
	text    string
	briefly bool // not at once, but later
}

func (e *finalError) Error() string { return e.text }

// again says how to get on without a login that does not work.
func (s *Store) again(provider string) string {
	switch p := s.policy(provider); {
	case s.CanLogin(provider):
		return "sign in again with `troupe login " + provider + "`"
	default:
		return strings.TrimSpace("run pi and sign in to " + provider + " there " + p.hint)
	}
}

func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] + "." }

// another gets another token than that of e: the one that another process has got
// meanwhile, or a new one, in the documented way if there is one, else from pi.
func (s *Store) another(provider string, e Entry) (fresh, error) {
	if s.renews(provider, e) {
		return s.refresh(provider, e)
	}
	return s.ask(provider)
}

// renews says whether a login is renewed here, in its documented way.
func (s *Store) renews(provider string, e Entry) bool {
	d, found := s.device(provider)
	return provider == openAI && e.Client != "" || found && e.Client == d.ClientID
}

// refresh renews a login under the lock of auth.json.
func (s *Store) refresh(provider string, e Entry) (got fresh, err error) {
	failed := s.edit(context.Background(), func(ctx context.Context, list []member) ([]member, bool, error) {
		now, err := parseEntry(find(list, provider))
		if err != nil {
			return nil, false, err
		}
		inFile := now.id()
		if late := s.unsavedOf(provider, inFile); late != nil { // the service takes no older one
			now.Access, now.Refresh, now.Expires = late.access, late.refresh, late.expires
		}
		switch {
		case now.Type != typeOAuth || now.Refresh == "":
			return nil, false, &finalError{text: "there is no login in auth.json any more"}
		case inFile == now.id() && now.Access != e.Access && now.left(s.config.Now()) > time.Minute:
			at := s.config.Now()
			got = fresh{access: now.Access, of: inFile, at: at, until: at.Add(now.left(at) - time.Minute)}
			return nil, false, nil
		}
		ctx, cancel := context.WithTimeout(ctx, exchangeTime)
		defer cancel()
		var t tokens
		var lifetime time.Duration
		if d, found := s.device(provider); found {
			t, lifetime, err = s.refreshDevice(ctx, d, now)
		} else {
			t, lifetime, err = s.refreshOpenAI(ctx, now)
		}
		if err != nil {
			return nil, false, err
		}
		at := s.config.Now()
		got = fresh{access: t.access, of: inFile, at: at, until: at.Add(max(lifetime-8*time.Minute, lifetime*3/4)), unsaved: &t, tried: at}
		if list, err = load(resolved(s.path())); err != nil { // who edits by hand takes no lock
			return nil, false, err
		}
		if now, err = parseEntry(find(list, provider)); err != nil || now.id() != inFile {
			got.unsaved = nil // there is nothing any more that it belongs to
			return nil, false, nil
		}
		return put(list, provider, t.over(find(list, provider))), true, nil
	})
	switch {
	case got.access == "":
		return got, failed
	case failed != nil:
		s.Notice(fmt.Sprintf("the renewed login of %s could not be saved, which is tried again: %v", provider, failed))
	case got.unsaved != nil:
		got.of, got.unsaved = got.unsaved.id(), nil
	}
	return got, nil
}

// unsavedOf are the tokens that belong into the file in the place of those that are there,
// nil for none.
func (s *Store) unsavedOf(provider string, inFile tokenPair) *tokens {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.of(provider); l.fresh.of == inFile {
		return l.fresh.unsaved
	}
	return nil
}

// saveLate writes what could not be written when it was got: other processes and the next
// start have to find it.
func (s *Store) saveLate(provider string) {
	var late *tokens
	err := s.edit(context.Background(), func(_ context.Context, list []member) ([]member, bool, error) {
		now, err := parseEntry(find(list, provider))
		if err == nil {
			late = s.unsavedOf(provider, now.id())
		}
		if late == nil {
			return nil, false, err // it is another login by now
		}
		return put(list, provider, late.over(find(list, provider))), true, nil
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.of(provider); err == nil && late != nil && l.fresh.unsaved == late {
		l.fresh.of, l.fresh.unsaved = late.id(), nil
	}
}

// ask has pi renew a login and print its token.
func (s *Store) ask(provider string) (fresh, error) {
	if s.config.Broker == nil {
		return fresh{}, &finalError{text: "only pi can renew it, and programs are not run here"}
	}
	program := cmp.Or(s.config.Settings().Broker, "pi")
	ctx, cancel := context.WithTimeout(context.Background(), brokerTime) // not shorter: pi, too, has to save what it gets
	defer cancel()
	out, err := s.config.Broker(ctx, program, "auth", "print-bearer-token", "--provider", provider, "--min-expiry", "10m")
	token := strings.TrimSpace(out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fresh{}, &finalError{text: program + " renews it, and is not there"}
	case err != nil && ctx.Err() != nil:
		return fresh{}, fmt.Errorf("%s did not answer within %v", program, brokerTime)
	case err != nil:
		return fresh{}, &finalError{text: fmt.Sprintf("%s auth print-bearer-token: %v", program, err), briefly: true}
	case len(token) < 8 || !isToken(token):
		return fresh{}, &finalError{text: program + " auth print-bearer-token printed no token", briefly: true}
	}
	at := s.config.Now()
	now := s.File().Entries[provider]
	got := fresh{access: token, of: now.id(), at: at, until: at.Add(brokered)}
	if now.Access == token && now.left(at) > 2*time.Minute {
		got.until = at.Add(now.left(at) - 2*time.Minute)
	}
	return got, nil
}
