package logins

import (
	"bufio"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"troupe/e2e/harness"
)

// vendors simulates the hosts of OpenAI and OpenRouter. It is a proxy that answers for them with
// certificates that the daemons of its place trust. Refresh tokens rotate, and repeated use of one
// is counted.
type vendors struct {
	t     *testing.T
	key   *rsa.PrivateKey
	ca    *x509.Certificate
	certs sync.Map // by host

	mu       sync.Mutex
	made     int
	good     map[string]bool // valid access and refresh tokens
	spent    map[string]bool
	codes    map[string]url.Values
	lifetime int
	reuses   int
	asked    map[string]int // by host and path
	tokens   []string       // tokens of all model requests
	hold     chan bool      // no token is issued until it is closed; nil to issue at once
	holdAt   string         // suffix of the path that hold blocks, "" for /oauth/token

	turns   int            // tool turns before the final answer
	reached func(turn int) // called before each answer; turn counts finished turns; may be nil
}

func newVendors(p *harness.Place) *vendors {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(p.T, err)
	v := &vendors{t: p.T, key: key, good: map[string]bool{}, spent: map[string]bool{}, codes: map[string]url.Values{}, asked: map[string]int{}, lifetime: 3600}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(p.T, err)
	v.ca, err = x509.ParseCertificate(der)
	require.NoError(p.T, err)
	file := filepath.Join(p.Root, "ca.pem")
	p.WriteFile(file, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	srv := httptest.NewServer(http.HandlerFunc(v.tunnel))
	p.T.Cleanup(srv.Close)
	p.Env = append(p.Env, "HTTPS_PROXY="+srv.URL, "SSL_CERT_FILE="+file, "SSL_CERT_DIR=/nowhere")
	return v
}

// tunnel answers a CONNECT request in place of the requested host.
func (v *vendors) tunnel(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(w, "not a proxy for this", http.StatusBadRequest)
		return
	}
	raw, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	_, _ = io.WriteString(raw, "HTTP/1.1 200 OK\r\n\r\n")
	conn := tls.Server(raw, &tls.Config{GetCertificate: v.certificate})
	defer conn.Close()
	for in := bufio.NewReader(conn); ; {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		answer := httptest.NewRecorder()
		v.serve(answer, req)
		if answer.Result().Write(conn) != nil {
			return
		}
	}
}

func (v *vendors) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if cert, found := v.certs.Load(hello.ServerName); found {
		return cert.(*tls.Certificate), nil
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{hello.ServerName}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, v.ca, &v.key.PublicKey, v.key)
	if err != nil {
		return nil, err
	}
	cert := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: v.key}
	v.certs.Store(hello.ServerName, cert)
	return cert, nil
}

func (v *vendors) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	form, _ := url.ParseQuery(string(body))
	say := func(status int, data any) {
		text, _ := json.Marshal(data)
		w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		w.WriteHeader(status)
		_, _ = w.Write(text)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	where := r.Host + r.URL.Path
	v.asked[where]++
	at := v.holdAt
	if at == "" {
		at = "/oauth/token"
	}
	if hold := v.hold; hold != nil && strings.HasSuffix(where, at) {
		v.mu.Unlock()
		<-hold
		v.mu.Lock()
	}
	switch where {
	case "auth.openai.com/.well-known/openid-configuration":
		say(200, map[string]any{"issuer": "https://auth.openai.com"})
	case "auth.openai.com/.well-known/jwks.json":
		say(200, map[string]any{"keys": []any{map[string]any{"kty": "RSA", "alg": "RS256", "n": enc64(v.key.N.Bytes()), "e": enc64(big.NewInt(int64(v.key.E)).Bytes())}}})
	case "auth.openai.com/api/accounts/oauth/token":
		v.token(form, say)
	case "auth.openai.com/api/accounts/oauth/revoke":
		delete(v.good, form.Get("token"))
		say(200, nil)
	case "api.openai.com/v1/models":
		if !v.good[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")] {
			say(401, nil)
			return
		}
		say(200, map[string]any{"models": []any{map[string]any{"slug": "gpt-of-the-plan", "display_name": "Of the plan", "visibility": "list", "context_window": 300000}}})
	case "openrouter.ai/api/v1/auth/keys":
		var in map[string]string
		_ = json.Unmarshal(body, &in)
		sum := sha256.Sum256([]byte(in["code_verifier"]))
		if v.codes[in["code"]].Get("code_challenge") != enc64(sum[:]) {
			say(403, map[string]any{"error": "no"})
			return
		}
		say(200, map[string]any{"key": "sk-or-canary-key"})
	case "api.openai.com/v1/responses", "api.x.ai/v1/responses":
		v.model(w, r, body, say)
	default: // other hosts at which pi refreshes logins
		var in map[string]string
		if strings.HasSuffix(r.URL.Path, "/token") {
			if json.Unmarshal(body, &in) == nil {
				form = url.Values{"grant_type": {in["grant_type"]}, "refresh_token": {in["refresh_token"]}}
			}
			v.token(form, say)
			return
		}
		say(404, map[string]any{"error": "nothing at " + where})
	}
}

func enc64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func (v *vendors) token(form url.Values, say func(int, any)) {
	refresh := form.Get("refresh_token")
	switch asked := v.codes[form.Get("code")]; {
	case form.Get("grant_type") == "refresh_token" && v.spent[refresh]:
		v.reuses++
		say(400, map[string]any{"error": "refresh_token_reused"})
		return
	case form.Get("grant_type") == "refresh_token" && !v.good[refresh]:
		say(400, map[string]any{"error": "invalid_grant", "error_description": "revoked: " + refresh})
		return
	case form.Get("grant_type") == "authorization_code" && asked == nil:
		say(400, map[string]any{"error": "invalid_grant"})
		return
	default:
		v.spent[refresh] = true
		access, next := v.issue()
		out := map[string]any{"access_token": access, "refresh_token": next, "expires_in": v.lifetime, "token_type": "Bearer"}
		if asked != nil {
			out["scope"] = asked.Get("scope")
			out["id_token"] = v.sign(map[string]any{"iss": "https://auth.openai.com", "aud": form.Get("client_id"), "sub": "u1", "email": "ann@mail.example", "nonce": asked.Get("nonce"), "exp": time.Now().Add(time.Hour).Unix()})
		}
		say(200, out)
	}
}

// issue creates tokens. The caller holds the lock.
func (v *vendors) issue() (access, refresh string) {
	v.made++
	access, refresh = fmt.Sprintf("access-canary-%d", v.made), fmt.Sprintf("refresh-canary-%d", v.made)
	v.good[access], v.good[refresh] = true, true
	return access, refresh
}

// entry returns a login for auth.json that expires after left.
func (v *vendors) entry(left time.Duration) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	access, refresh := v.issue()
	return fmt.Sprintf(`{"type":"oauth","access":%q,"refresh":%q,"expires":%d,"clientId":"oaiapp_7","scopes":["chatgpt.tokens.use.direct"]}`, access, refresh, time.Now().Add(left).UnixMilli())
}

func (v *vendors) sign(claims map[string]any) string {
	head, _ := json.Marshal(map[string]any{"alg": "RS256"})
	text, _ := json.Marshal(claims)
	signed := enc64(head) + "." + enc64(text)
	sum := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, v.key, crypto.SHA256, sum[:])
	require.NoError(v.t, err)
	return signed + "." + enc64(signature)
}

// model answers requests with a valid token.
func (v *vendors) model(w http.ResponseWriter, r *http.Request, body []byte, say func(int, any)) {
	turn := strings.Count(string(body), `"function_call_output"`)
	if v.reached != nil {
		v.mu.Unlock()
		v.reached(turn)
		v.mu.Lock()
	}
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	v.tokens = append(v.tokens, token)
	if !v.good[token] {
		say(401, map[string]any{"error": map[string]any{"code": "token_revoked", "message": "Your token has been revoked"}})
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if turn < v.turns {
		call := fmt.Sprintf(`{"type":"function_call","id":"fc_%d","call_id":"call_%[1]d","name":"ls","arguments":"{}"}`, turn)
		for _, event := range []string{
			`{"type":"response.created","response":{"id":"r"}}`, `{"type":"response.output_item.added","output_index":0,"item":` + call + `}`,
			`{"type":"response.output_item.done","output_index":0,"item":` + call + `}`,
			`{"type":"response.completed","response":{"id":"r","status":"completed","output":[],"usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}}`,
		} {
			_, _ = io.WriteString(w, "data: "+event+"\n\n")
		}
		if f, ok := w.(*httptest.ResponseRecorder); ok {
			w.Header().Set("Content-Length", fmt.Sprint(f.Body.Len()))
		}
		return
	}
	for _, event := range []string{
		`{"type":"response.created","response":{"id":"r"}}`,
		`{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"m","role":"assistant","content":[]}}`,
		`{"type":"response.output_text.delta","output_index":0,"content_index":0,"item_id":"m","delta":"from the plan"}`,
		`{"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"m","role":"assistant","status":"completed","content":[{"type":"output_text","text":"from the plan"}]}}`,
		`{"type":"response.completed","response":{"id":"r","status":"completed","output":[],"usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}}`,
	} {
		_, _ = io.WriteString(w, "data: "+event+"\n\n")
	}
	if f, ok := w.(*httptest.ResponseRecorder); ok {
		w.Header().Set("Content-Length", fmt.Sprint(f.Body.Len()))
	}
}

// consent returns the address to which a browser is redirected after the user has agreed.
func (v *vendors) consent(address string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	u, err := url.Parse(address)
	require.NoError(v.t, err)
	q := u.Query()
	v.made++
	code := fmt.Sprintf("code-canary-%d", v.made)
	v.codes[code] = q
	back := url.Values{"code": {code}}
	to := q.Get("callback_url")
	if to == "" {
		to = q.Get("redirect_uri")
		back.Set("state", q.Get("state"))
		back.Set("client_id", "oaiapp_7")
	}
	return to + "?" + back.Encode()
}

// revoke invalidates all tokens.
func (v *vendors) revoke() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.good = map[string]bool{}
}

func (v *vendors) count(where string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.asked[where]
}
