package auth

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/providers"
)

// signing is the vendor's key.
var signing = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// vendor is the login services of OpenAI and OpenRouter. Refresh tokens rotate; one that is
// used again revokes its family.
type vendor struct {
	now func() time.Time

	mu       sync.Mutex
	count    int
	family   map[string]string // by refresh token: its family
	spent    map[string]bool
	revoked  map[string]bool // families
	codes    map[string]url.Values
	requests map[string]int // by path
	reuses   int
	lifetime any // of expires_in; nil leaves it out
	scope    string
	meddle   func(claims map[string]any) // changes the next ID tokens

	fail func(path string) (status int, body string) // 0 for not; instead of an answer
	slow time.Duration
	lost int // answers to come that get lost
}

func newVendor() *vendor {
	return &vendor{
		now: time.Now, family: map[string]string{}, spent: map[string]bool{}, revoked: map[string]bool{}, codes: map[string]url.Values{},
		requests: map[string]int{}, lifetime: 3600, scope: openAIScope,
	}
}

// RoundTrip answers without a network.
func (v *vendor) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if v.slow > 0 {
		select {
		case <-time.After(v.slow):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	v.ServeHTTP(w, r)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lost > 0 {
		v.lost--
		return nil, errors.New("connection reset by peer")
	}
	return w.Result(), nil
}

func (v *vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	v.mu.Lock()
	defer v.mu.Unlock()
	path := r.URL.Path
	v.requests[path]++
	w.Header().Set("Date", v.now().UTC().Format(http.TimeFormat))
	if v.fail != nil {
		if status, text := v.fail(path); status != 0 {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
			return
		}
	}
	form, _ := url.ParseQuery(string(body))
	answer := func(status int, data map[string]any) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(data)
	}
	switch path {
	case "/.well-known/openid-configuration":
		answer(200, map[string]any{"issuer": openAIIssuer, "token_endpoint": openAIToken, "jwks_uri": "https://elsewhere.example/keys", "revocation_endpoint": openAIRevoke})
	case "/.well-known/jwks.json":
		key := signing().PublicKey
		answer(200, map[string]any{"keys": []any{map[string]any{
			"kty": "RSA", "kid": "k1", "alg": "RS256", "n": base64.RawURLEncoding.EncodeToString(key.N.Bytes()),
			"e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(key.E)).Bytes()),
		}}})
	case "/api/accounts/oauth/token":
		if form.Get("resource") != openAIResource {
			answer(400, map[string]any{"error": "invalid_target"})
			return
		}
		if form.Get("grant_type") == "authorization_code" {
			v.byCode(form, answer)
			return
		}
		v.byRefresh(form, answer)
	case "/api/accounts/oauth/revoke":
		v.revoked[v.family[form.Get("token")]] = true
	case "/api/v1/auth/keys":
		var in map[string]string
		_ = json.Unmarshal(body, &in)
		asked, found := v.codes[in["code"]]
		if !found || asked.Get("code_challenge") != challenge(in["code_verifier"]) || in["code_challenge_method"] != "S256" {
			answer(403, map[string]any{"error": map[string]any{"message": "no " + in["code"]}})
			return
		}
		delete(v.codes, in["code"])
		answer(200, map[string]any{"key": "sk-or-v1-of-the-person"})
	default:
		answer(404, nil)
	}
}

func (v *vendor) byCode(form url.Values, answer func(int, map[string]any)) {
	asked, found := v.codes[form.Get("code")]
	if !found || asked.Get("code_challenge") != challenge(form.Get("code_verifier")) || asked.Get("redirect_uri") != form.Get("redirect_uri") {
		answer(400, map[string]any{"error": "invalid_grant", "error_description": "no such code " + form.Get("code")})
		return
	}
	delete(v.codes, form.Get("code"))
	claims := map[string]any{
		"iss": openAIIssuer, "aud": []string{form.Get("client_id")}, "sub": "user-7", "email": "person@mail.example", "nonce": asked.Get("nonce"),
		"iat": v.now().Unix(), "exp": v.now().Add(time.Hour).Unix(),
	}
	if v.meddle != nil {
		v.meddle(claims)
	}
	out := v.issue("family of " + form.Get("code"))
	out["id_token"] = sign(map[string]any{"alg": "RS256", "kid": "k1"}, claims)
	out["scope"] = v.scope
	answer(200, out)
}

func (v *vendor) byRefresh(form url.Values, answer func(int, map[string]any)) {
	token := form.Get("refresh_token")
	family := v.family[token]
	switch {
	case family == "" || v.revoked[family]:
		answer(400, map[string]any{"error": "invalid_grant", "error_description": "nobody knows " + token})
	case v.spent[token]:
		v.reuses++
		v.revoked[family] = true
		answer(400, map[string]any{"error": "refresh_token_reused"})
	default:
		v.spent[token] = true
		answer(200, v.issue(family))
	}
}

func (v *vendor) issue(family string) map[string]any {
	v.count++
	refresh := fmt.Sprintf("refresh-canary-%d", v.count)
	v.family[refresh] = family
	out := map[string]any{"access_token": fmt.Sprintf("access-canary-%d", v.count), "refresh_token": refresh, "token_type": "Bearer"}
	if v.lifetime != nil {
		out["expires_in"] = v.lifetime
	}
	return out
}

func sign(head, claims map[string]any) string {
	part := func(v any) string {
		text, _ := json.Marshal(v)
		return base64.RawURLEncoding.EncodeToString(text)
	}
	text := part(head) + "." + part(claims)
	sum := sha256.Sum256([]byte(text))
	signature, _ := rsa.SignPKCS1v15(rand.Reader, signing(), crypto.SHA256, sum[:])
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// asked is how often a path was asked for.
func (v *vendor) asked(path string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.requests[path]
}

const tokenPath = "/api/accounts/oauth/token"

// consent is what a browser brings back after the person has agreed to an address.
func (v *vendor) consent(address string) url.Values {
	v.mu.Lock()
	defer v.mu.Unlock()
	u, _ := url.Parse(address)
	q := u.Query()
	v.count++
	code := fmt.Sprintf("code-canary-%d", v.count)
	v.codes[code] = q
	client := q.Get("client_id")
	if client == unregistered {
		client = "oaiapp_1"
	}
	return url.Values{"code": {code}, "state": {q.Get("state")}, "client_id": {client}, "iss": {openAIIssuer}}
}

// home is a store with a directory of its own.
type home struct {
	*Store
	t        *testing.T
	dir      string
	vendor   *vendor
	settings Settings
	asked    []string // what the broker was run with
	broker   func() (string, error)
	notices  []string
	mu       sync.Mutex
}

func newHome(t *testing.T) *home {
	h := &home{t: t, dir: t.TempDir(), vendor: newVendor()}
	h.Store = Open(Config{
		Dir: h.dir, Transport: h.vendor, Settings: func() Settings { return h.settings },
		Broker: func(_ context.Context, program string, args ...string) (string, error) {
			h.mu.Lock()
			h.asked = append(h.asked, program+" "+strings.Join(args, " "))
			h.mu.Unlock()
			return h.broker()
		},
		Notice: func(text string) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.notices = append(h.notices, text)
		},
	})
	t.Cleanup(h.Close)
	return h
}

func (h *home) write(text string) {
	h.t.Helper()
	path := filepath.Join(h.dir, "auth.json")
	require.NoError(h.t, os.WriteFile(path+".new", []byte(text), 0o600))
	require.NoError(h.t, os.Rename(path+".new", path))
}

func (h *home) text() string {
	h.t.Helper()
	text, err := os.ReadFile(filepath.Join(h.dir, "auth.json"))
	require.NoError(h.t, err)
	return string(text)
}

// loggedIn writes an entry of OpenAI that is good for a while.
func (h *home) loggedIn(left time.Duration) {
	h.vendor.mu.Lock()
	out := h.vendor.issue("family")
	h.vendor.mu.Unlock()
	h.write(fmt.Sprintf(`{"other": {"x": [1, 2.50]}, "openai": {"type": "oauth", "access": %q, "refresh": %q, "expires": %d, "clientId": "oaiapp_1", "extra": true}}`,
		out["access_token"], out["refresh_token"], time.Now().Add(left).UnixMilli()))
}

// sign signs a request of a provider and returns its token.
func (h *home) sign(provider, address string) (string, providers.Signer, error) {
	h.File()
	signer := h.Signer(provider)
	headers, err := signer.Sign(h.t.Context(), address, nil)
	return strings.TrimPrefix(headers["Authorization"], "Bearer "), signer, err
}

// fakePerson agrees to everything, or does what it is told.
type fakePerson struct {
	vendor  *vendor
	open    func(ctx context.Context, address string) (string, error)
	secret  string
	choices []string // answers; the first option when there are no more
	asked   []string
	told    []string
	pages   []providers.LoginPage
	blind   bool // cannot paste
}

func (p *fakePerson) Pastes() bool { return !p.blind }

func (p *fakePerson) Open(ctx context.Context, page providers.LoginPage) (string, error) {
	address := page.URL
	p.pages = append(p.pages, page)
	if p.open != nil {
		return p.open(ctx, address)
	}
	u, _ := url.Parse(address)
	to := u.Query().Get("redirect_uri")
	if to == "" {
		to = u.Query().Get("callback_url")
	}
	return to + "?" + p.vendor.consent(address).Encode(), nil
}

func (p *fakePerson) Ask(context.Context, string) (string, error) { return p.secret, nil }

func (p *fakePerson) Choose(_ context.Context, question string, options ...string) (string, error) {
	p.asked = append(p.asked, question)
	if len(p.choices) > 0 {
		answer := p.choices[0]
		p.choices = p.choices[1:]
		return answer, nil
	}
	return options[0], nil
}

func (p *fakePerson) Tell(text string) { p.told = append(p.told, text) }

func (h *home) login(how protocol.Login, p *fakePerson) (protocol.LoginResult, *protocol.Error) {
	if p == nil {
		p = &fakePerson{}
	}
	p.vendor = h.vendor
	return h.Login(h.t.Context(), how, p)
}

// onlyChanges notes how logins stand, when that changes.
func onlyChanges(to *[]protocol.AuthChanged) providers.LoginWatch {
	return providers.LoginWatch{Tell: func(ev protocol.Event) {
		if changed, is := ev.(protocol.AuthChanged); is {
			*to = append(*to, changed)
		}
	}}
}
