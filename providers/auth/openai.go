package auth

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"troupe/protocol"
	"troupe/providers"
)

// Sign in with ChatGPT, as OpenAI documents it for programs that run on a person's
// own machine: each installation is a client of its own under the name troupe, and
// its tokens are for the public API.
const (
	openAI         = "openai"
	openAIIssuer   = "https://auth.openai.com"
	openAIAuthURL  = openAIIssuer + "/api/accounts/authorize"
	openAIToken    = openAIIssuer + "/api/accounts/oauth/token"
	openAIRevoke   = openAIIssuer + "/api/accounts/oauth/revoke"
	openAIKeys     = openAIIssuer + "/.well-known/jwks.json"
	openAIResource = "https://api.openai.com/v1"
	openAIPort     = 1455
	openAIScope    = "openid profile email offline_access resource.invoke chatgpt.tokens.use.direct"
	openAIPlan     = "chatgpt.tokens.use.direct" // the scope without which there is no login to use

	// unregistered stands for a client that has no id yet; it is never stored.
	unregistered = "dynamic_agent_client"
)

// places are the addresses of a login service, which may say others of its own.
type places struct{ authorize, token, keys, revoke, issuer string }

// openAIPlaces asks where the login service has its parts. What is on another host does
// not count, and without an answer the documented ones do.
func (s *Store) openAIPlaces(ctx context.Context) places {
	p := places{openAIAuthURL, openAIToken, openAIKeys, openAIRevoke, openAIIssuer}
	ctx, cancel := context.WithTimeout(ctx, exchangeTime/2)
	defer cancel()
	found, err := s.call(ctx, http.MethodGet, openAIIssuer+"/.well-known/openid-configuration", "", nil)
	if err != nil || strings.TrimSuffix(found.Get("issuer").Str, "/") != openAIIssuer {
		return p
	}
	p.issuer = found.Get("issuer").Str
	for name, place := range map[string]*string{
		"authorization_endpoint": &p.authorize, "token_endpoint": &p.token, "jwks_uri": &p.keys, "revocation_endpoint": &p.revoke,
	} {
		if said := found.Get(name).Str; strings.HasPrefix(said, openAIIssuer+"/") {
			*place = said
		}
	}
	return p
}

// loginOpenAI signs in with ChatGPT.
func (s *Store) loginOpenAI(ctx context.Context, how protocol.Login, person providers.Dialog) (string, error) {
	if err := s.mayReplace(ctx, openAI, person); err != nil {
		return "", err
	}
	const yes, no = "Yes", "No"
	if !s.notesNow().Logins[openAI].Background {
		answer, err := person.Choose(ctx, "troupe uses your ChatGPT plan also while nobody watches: sessions that were left running, tasks, retries. May it?", yes, no)
		switch {
		case err != nil:
			return "", err
		case answer != yes:
			return "", because(causeDenied, "without that sessions cannot run on the plan; use an API key")
		}
	}
	host, err := s.hostID(ctx)
	if err != nil {
		return "", err
	}
	state, nonce, verifier := secretText(), secretText(), secretText()
	const path = "/auth/callback"
	redirect := "http://127.0.0.1:1455" + path
	var back *callback
	if how.Method == methodBrowser {
		switch back, err = listen(openAIPort, path, state); {
		case err != nil && !person.Pastes():
			return "", because(causePort, "port 1455, to which the browser comes back, is in use by another program, perhaps another login: end it and try again")
		case err != nil:
			person.Tell("port 1455 is in use by another program, perhaps another login: when the browser cannot show its last page, copy the address of it and paste it here")
		}
		defer back.close()
	}
	at := s.openAIPlaces(ctx)
	known := s.notesNow().Logins[openAI].Client
	query := url.Values{
		"client_id": {known}, "response_type": {"code"}, "redirect_uri": {redirect}, "resource": {openAIResource}, "scope": {openAIScope},
		"ext_agent_host_id": {host}, "state": {state}, "nonce": {nonce}, "code_challenge": {challenge(verifier)}, "code_challenge_method": {"S256"},
	}
	if known == "" {
		query.Set("client_id", unregistered)
		query.Set("agent_name_hint", "troupe")
	}
	values, err := s.browse(ctx, person, back, at.authorize+"?"+query.Encode(), "Sign in with ChatGPT", state)
	if err != nil {
		return "", err
	}
	return s.finishOpenAI(ctx, at, values, attempt{redirect, nonce, verifier, known})
}

// attempt is what has to be known again when the browser comes back.
type attempt struct{ redirect, nonce, verifier, client string }

// finishOpenAI buys tokens for the code, checks who they are about and what for, and
// keeps them.
func (s *Store) finishOpenAI(ctx context.Context, at places, values url.Values, a attempt) (string, error) {
	code, err := code(values)
	if err != nil {
		return "", err
	}
	if iss := values.Get("iss"); iss != "" && iss != at.issuer {
		return "", because(causeAnswer, "the answer is of another login service")
	}
	client := values.Get("client_id")
	switch {
	case a.client != "" && client != "" && client != a.client:
		return "", because(causeAnswer, "the answer is for another registration of troupe")
	case client == "":
		client = a.client
	}
	if client == "" || client == unregistered {
		return "", because(causeAnswer, "the login service has not registered this installation")
	}
	limited, cancel := context.WithTimeout(ctx, exchangeTime)
	defer cancel()
	out, err := s.call(limited, http.MethodPost, at.token, formType, []byte(url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "code_verifier": {a.verifier}, "redirect_uri": {a.redirect},
		"client_id": {client}, "resource": {openAIResource},
	}.Encode()), code, a.verifier)
	if err != nil {
		return "", err
	}
	s.skew(out.date)
	t, _, err := s.issued(out, Entry{Client: client})
	if err != nil {
		return "", err
	}
	claims, err := s.identity(limited, out.Get("id_token").Str, at.keys, at.issuer, client, a.nonce)
	if err != nil {
		return "", err
	}
	t.scopes = strings.Fields(out.Get("scope").Str)
	switch {
	case !slices.Contains(t.scopes, openAIPlan):
		return "", because(causeDenied, "use of the plan was declined: without it there is nothing to use; sign in again, or use an API key")
	case t.refresh == "":
		return "", because(causeAnswer, "the login service gave nothing to renew the login by")
	}
	account := maskMail(claims.Get("email").Str)
	return account, s.saveLogin(ctx, openAI, t, note{Client: client, Subject: claims.Get("sub").Str, Account: account, Background: true})
}

// revokeOpenAI tells OpenAI that a login is over.
func (s *Store) revokeOpenAI(ctx context.Context, e Entry) (err error) {
	ctx, cancel := context.WithTimeout(ctx, exchangeTime)
	defer cancel()
	form := url.Values{"token": {e.Refresh}, "token_type_hint": {"refresh_token"}, "client_id": {e.Client}}
	_, err = s.persist(ctx, s.openAIPlaces(ctx).revoke, form, e.Refresh)
	return err
}

// maskMail is an address that its owner knows again and others do not learn.
func maskMail(address string) string {
	name, domain, found := strings.Cut(address, "@")
	if !found || name == "" {
		return ""
	}
	first := string([]rune(name)[:1])
	return clean(first + "…@" + domain)
}

// OpenRouter gives a key of the person's own to any program that asks (PKCE). It has
// neither clients nor a state, so the path is what nobody can guess.
const (
	openRouter     = "openrouter"
	openRouterAuth = "https://openrouter.ai/auth"
	openRouterKeys = "https://openrouter.ai/api/v1/auth/keys"
	forever        = 1<<53 - 1 // the end of a login that has none, as pi writes it
)

// loginOpenRouter has a key made.
func (s *Store) loginOpenRouter(ctx context.Context, how protocol.Login, person providers.Dialog) (string, error) {
	if err := s.mayReplace(ctx, openRouter, person); err != nil {
		return "", err
	}
	verifier, path := secretText(), "/"+secretText()
	redirect := fmt.Sprintf("http://127.0.0.1:%d%s", 49152+rand.N(16384), path) // to paste: nobody has to be there, and who is cannot use the code
	var back *callback
	if how.Method == methodBrowser {
		var err error
		if back, err = listen(0, path, ""); err != nil {
			return "", err
		}
		defer back.close()
		redirect = back.redirect
	}
	query := url.Values{"callback_url": {redirect}, "code_challenge": {challenge(verifier)}, "code_challenge_method": {"S256"}}
	values, err := s.browse(ctx, person, back, openRouterAuth+"?"+query.Encode(), "Sign in to OpenRouter", "")
	if err != nil {
		return "", err
	}
	code, err := code(values)
	if err != nil {
		return "", err
	}
	limited, cancel := context.WithTimeout(ctx, exchangeTime)
	defer cancel()
	asked := protocol.JSON(map[string]string{"code": code, "code_verifier": verifier, "code_challenge_method": "S256"})
	out, err := s.call(limited, http.MethodPost, openRouterKeys, "application/json", asked, code, verifier)
	if err != nil {
		return "", err
	}
	key := out.Get("key").Str
	if len(key) < 8 || !isToken(key) {
		return "", because(causeAnswer, "OpenRouter gave no key")
	}
	return "", s.saveLogin(ctx, openRouter, tokens{access: key, expires: forever}, note{})
}
