package cloud

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fakeAWS is every AWS service that issues credentials, and a proxy that records requests to
// other hosts and refuses them.
type fakeAWS struct {
	t      *testing.T
	server *httptest.Server

	mu    sync.Mutex
	asked []string
}

func newFakeAWS(t *testing.T) *fakeAWS {
	f := &fakeAWS{t: t}
	f.server = httptest.NewServer(f)
	t.Cleanup(f.server.Close)
	return f
}

// proxy leads everything but this machine to the fake.
func (f *fakeAWS) proxy(r *http.Request) (*url.URL, error) {
	if r.URL.Hostname() == "127.0.0.1" {
		return nil, nil
	}
	return url.Parse(f.server.URL)
}

// take returns the requests since the last call.
func (f *fakeAWS) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	asked := f.asked
	f.asked = nil
	return asked
}

var (
	madeUp    = regexp.MustCompile(`^(aws-go-sdk-|troupe-)?[0-9]{15,}$`)
	signature = regexp.MustCompile(`^AWS4-HMAC-SHA256 Credential=(\w+)/\d+/([^/]*)/(\w+)/aws4_request, SignedHeaders=([^,]*), Signature=\w+$`)
)

func (f *fakeAWS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/latest/") {
		f.machine(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	assert.NoError(f.t, err)
	about := r.Method + " " + r.Host + r.URL.Path + "?" + r.URL.RawQuery
	if r.Host == strings.TrimPrefix(f.server.URL, "http://") {
		about = r.Method + " " + r.URL.Path + "?" + r.URL.RawQuery
	}
	kind := r.Header.Get("Content-Type")
	switch {
	case kind == "application/x-www-form-urlencoded":
		form, err := url.ParseQuery(string(body))
		assert.NoError(f.t, err)
		if madeUp.MatchString(form.Get("RoleSessionName")) {
			form.Set("RoleSessionName", "made-up")
		}
		about += " " + form.Encode()
	case kind == "application/json":
		var members map[string]string
		assert.NoError(f.t, json.Unmarshal(body, &members))
		text, err := json.Marshal(members)
		assert.NoError(f.t, err)
		about += " " + string(text)
	case len(body) > 0:
		about += " " + kind + " " + string(body)
	}
	if auth := r.Header.Get("Authorization"); strings.HasPrefix(auth, "AWS4") {
		parts := signature.FindStringSubmatch(auth)
		if assert.NotNil(f.t, parts, auth) {
			about += fmt.Sprintf(" signed by %s %s for %s", parts[1], r.Header.Get("X-Amz-Security-Token"), parts[2:4])
			f.verify(r, body, parts)
		}
	} else if auth != "" {
		about += " " + auth
	}
	if token := r.Header.Get("X-Amz-Sso_bearer_token"); token != "" {
		about += " token " + token
	}
	if proof := r.Header.Get("DPoP"); proof != "" {
		about += " proof " + f.proof(proof)
	}
	f.mu.Lock()
	f.asked = append(f.asked, about)
	f.mu.Unlock()
	f.answer(w, r, about)
}

// verify signs the request again: every secret is "s".
func (f *fakeAWS) verify(r *http.Request, body []byte, parts []string) {
	again, err := http.NewRequest(r.Method, "http://"+r.Host+r.URL.RequestURI(), bytes.NewReader(body))
	assert.NoError(f.t, err)
	for name := range strings.SplitSeq(parts[4], ";") {
		if name != "host" && name != "content-length" && name != "x-amz-date" && name != "x-amz-security-token" {
			again.Header.Set(name, r.Header.Get(name))
		}
	}
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	assert.NoError(f.t, err)
	sum := sha256.Sum256(body)
	cred := aws.Credentials{AccessKeyID: parts[1], SecretAccessKey: "s", SessionToken: r.Header.Get("X-Amz-Security-Token")}
	assert.NoError(f.t, signRequest(context.Background(), again, hex.EncodeToString(sum[:]), cred, parts[3], parts[2], at))
	assert.Equal(f.t, again.Header.Get("Authorization"), r.Header.Get("Authorization"))
}

// proof checks the signature of a proof and returns its claims, without time and id.
func (f *fakeAWS) proof(text string) string {
	parts := strings.Split(text, ".")
	if !assert.Len(f.t, parts, 3) {
		return ""
	}
	decode := func(s string) []byte {
		b, err := base64.RawURLEncoding.DecodeString(s)
		assert.NoError(f.t, err)
		return b
	}
	var header struct {
		Typ, Alg string
		Jwk      struct{ Kty, X, Y, Crv string }
	}
	var claims map[string]any
	assert.NoError(f.t, json.Unmarshal(decode(parts[0]), &header))
	assert.NoError(f.t, json.Unmarshal(decode(parts[1]), &claims))
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), slices.Concat([]byte{4}, decode(header.Jwk.X), decode(header.Jwk.Y)))
	if !assert.NoError(f.t, err) {
		return ""
	}
	sum, signature := sha256.Sum256([]byte(parts[0]+"."+parts[1])), decode(parts[2])
	assert.True(f.t, ecdsa.Verify(key, sum[:], new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])))
	assert.NotEmpty(f.t, claims["jti"])
	assert.InDelta(f.t, time.Now().Unix(), claims["iat"], 60)
	return fmt.Sprint(header, claims["htm"], claims["htu"])
}

// answer gives credentials that depend on the question.
func (f *fakeAWS) answer(w http.ResponseWriter, r *http.Request, about string) {
	sum := sha1.Sum([]byte(about))
	id, at := "ASIA"+strings.ToUpper(hex.EncodeToString(sum[:4])), time.Now().Add(time.Hour).UTC()
	refused := strings.Contains(about, "denied")
	if refused {
		w.WriteHeader(http.StatusForbidden)
	}
	action := regexp.MustCompile(`Action=(\w+)`).FindStringSubmatch(about)
	switch path := r.URL.Path; {
	case r.Method == http.MethodConnect:
		w.WriteHeader(http.StatusBadGateway)
	case action != nil && refused:
		_, _ = io.WriteString(w, `<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>no such role for you</Message></Error></ErrorResponse>`)
	case action != nil:
		_, _ = fmt.Fprintf(w, `<%[1]sResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><%[1]sResult><AssumedRoleUser><Arn>arn:aws:sts::1:x</Arn></AssumedRoleUser>`+
			`<Credentials><AccessKeyId>%[2]s</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>token-of-%[2]s</SessionToken><Expiration>%[3]s</Expiration></Credentials></%[1]sResult></%[1]sResponse>`, action[1], id, at.Format(time.RFC3339))
	case refused:
		_, _ = io.WriteString(w, `{"error":"TOKEN_EXPIRED","message":"no"}`)
	case strings.HasSuffix(path, "/federation/credentials"):
		_, _ = fmt.Fprintf(w, `{"roleCredentials":{"accessKeyId":%q,"secretAccessKey":"s","sessionToken":"token-of-%s","expiration":%d}}`, id, id, at.UnixMilli())
	case strings.HasSuffix(path, "/v1/token"):
		_, _ = fmt.Fprintf(w, `{"accessToken":{"accessKeyId":%q,"secretAccessKey":"s","sessionToken":"token-of-%s"},"tokenType":"aws_sigv4","expiresIn":900,"refreshToken":"next"}`, id, id)
	case strings.HasSuffix(path, "/token"):
		_, _ = fmt.Fprintf(w, `{"accessToken":"renewed-%s","tokenType":"Bearer","expiresIn":3600,"refreshToken":"next"}`, id)
	case strings.HasSuffix(path, "/container"):
		_, _ = fmt.Fprintf(w, `{"AccessKeyId":%q,"SecretAccessKey":"s","Token":"token-of-%s","Expiration":%q}`, id, id, at.Format(time.RFC3339))
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// machine is the metadata service of a machine.
func (f *fakeAWS) machine(w http.ResponseWriter, r *http.Request) {
	const roles = "/latest/meta-data/iam/security-credentials/"
	switch r.URL.Path {
	case "/latest/api/token":
		w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "300")
		_, _ = io.WriteString(w, "t")
	case roles:
		_, _ = io.WriteString(w, "role")
	case roles + "role":
		_, _ = fmt.Fprintf(w, `{"Code":"Success","AccessKeyId":"ASIAMACHINE","SecretAccessKey":"s","Token":"t","Expiration":%q}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// TestAWS_asked: credentials are requested once for all requests of an account, and again after
// Forget.
func TestAWS_asked(t *testing.T) {
	bare(t)
	f := newFakeAWS(t)
	const address = "https://bedrock-runtime.eu-west-1.amazonaws.com/model/m/converse-stream"
	cloud := &awsCloud{proxy: f.proxy}
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f.server.URL+"/container")
	signer := cloud.Signer(os.Getenv)
	for range 3 {
		signed, err := signer.Sign(t.Context(), address, nil)
		require.NoError(t, err)
		assert.Contains(t, signed["Authorization"], "Credential=ASIA")
	}
	assert.Equal(t, []string{"GET /container?"}, f.take())
	signer.Forget()
	_, err := signer.Sign(t.Context(), address, nil)
	require.NoError(t, err)
	assert.Len(t, f.take(), 1)
}

// loginKey is a key that `aws login` writes. The SDK leaves out a leading zero byte of a
// coordinate, so the key has none.
func loginKey(t *testing.T) string {
	for {
		key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
		require.NoError(t, err)
		der, err := x509.MarshalECPrivateKey(key)
		require.NoError(t, err)
		if point, err := key.PublicKey.Bytes(); err == nil && point[1] != 0 && point[33] != 0 {
			return string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
		}
	}
}

// TestAWS_services: each kind of profile gets its credentials from the service that issues them,
// and an expired login is renewed first. Where it cannot be renewed, the error names the command
// that logs in again.
func TestAWS_services(t *testing.T) {
	const address = "https://bedrock-runtime.eu-west-1.amazonaws.com/model/m/converse-stream"
	for name, c := range map[string]struct {
		profile string
		env     map[string]string
		asked   []string // expressions, one for each request
		says    string   // part of the error; "" for none
	}{
		"role": {
			profile: "role_arn=arn:aws:iam::1:role/r\nsource_profile=keys\nexternal_id=x\n",
			asked:   []string{`^POST /\? Action=AssumeRole&.*ExternalId=x.*signed by AKIDKEYS`},
		},
		"role refused": {
			profile: "role_arn=denied\nsource_profile=keys\n", asked: []string{`Action=AssumeRole`}, says: "no such role for you",
		},
		"role with MFA": {profile: "role_arn=r\nsource_profile=keys\nmfa_serial=m\n", says: "MFA"},
		"web identity": {
			env:   map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": "identity", "AWS_ROLE_ARN": "arn:aws:iam::1:role/w"},
			asked: []string{`^POST /\? Action=AssumeRoleWithWebIdentity&.*WebIdentityToken=identity-token`},
		},
		"sso": {
			profile: "sso_session=fresh\nsso_account_id=1\nsso_role_name=r\n",
			asked:   []string{`^GET /federation/credentials\?.*token sso-fresh`},
		},
		"sso, expired": {
			profile: "sso_session=over\nsso_account_id=1\nsso_role_name=r\n",
			asked:   []string{`^POST /token\?.*refresh_token`, `^GET /federation/credentials\?.*token renewed-`},
		},
		"sso, refused": {
			profile: "sso_session=denied\nsso_account_id=1\nsso_role_name=r\n", asked: []string{`^POST /token\?`}, says: "aws sso login",
		},
		"sso, no login": {profile: "sso_session=none\nsso_account_id=1\nsso_role_name=r\n", says: "aws sso login"},
		"login, expired": {
			profile: "login_session=arn:aws:over\n", asked: []string{`^POST /v1/token\?.*proof`},
		},
		"login, refused": {profile: "login_session=arn:aws:denied\n", asked: []string{`^POST /v1/token\?`}, says: "`aws login`"},
		"no login":       {profile: "login_session=arn:aws:none\n", says: "`aws login`"},
		"container": {
			env:   map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "/container"},
			asked: []string{`^GET /container`},
		},
		"container elsewhere": {
			env: map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://10.0.0.1/container"}, says: "only loopback/ecs/eks hosts are allowed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			home := bare(t)
			f := newFakeAWS(t)
			for _, service := range []string{"STS", "SSO", "SSO_OIDC", "SIGNIN"} {
				t.Setenv("AWS_ENDPOINT_URL_"+service, f.server.URL)
			}
			writeLogins(t, home)
			for name, value := range c.env {
				switch {
				case name == "AWS_WEB_IDENTITY_TOKEN_FILE":
					value = write(t, filepath.Join(home, value), "identity-token")
				case strings.HasPrefix(value, "/"):
					value = f.server.URL + value
				}
				t.Setenv(name, value)
			}
			file := write(t, filepath.Join(home, "config"), "[default]\nregion=eu-west-1\n"+c.profile+
				"[profile keys]\naws_access_key_id=AKIDKEYS\naws_secret_access_key=s\n"+
				"[sso-session fresh]\nsso_region=eu-west-1\nsso_start_url=https://x\n[sso-session over]\nsso_region=eu-west-1\nsso_start_url=https://x\n"+
				"[sso-session denied]\nsso_region=eu-west-1\nsso_start_url=https://x\n[sso-session none]\nsso_region=eu-west-1\nsso_start_url=https://x\n")
			signed, err := (&awsCloud{proxy: f.proxy}).Signer(environ("AWS_CONFIG_FILE="+file)).Sign(t.Context(), address, nil)
			if c.says == "" {
				require.NoError(t, err)
				assert.Contains(t, signed["Authorization"], "Credential=ASIA")
			} else {
				assert.ErrorContains(t, err, c.says)
			}
			asked := f.take()
			require.Len(t, asked, len(c.asked), "%q", asked)
			for i, want := range c.asked {
				assert.Regexp(t, want, asked[i])
			}
		})
	}
}

// writeLogins writes the files of `aws sso login` and `aws login`.
func writeLogins(t *testing.T, home string) {
	for name, text := range map[string]string{
		"fresh":  `{"accessToken":"sso-fresh","expiresAt":"2099-01-01T00:00:00Z"}`,
		"over":   `{"accessToken":"sso-over","expiresAt":"2020-01-01T00:00:00Z","clientId":"c","clientSecret":"cs","refreshToken":"r","registrationExpiresAt":"2099-01-01T00:00:00Z","scopes":["a"]}`,
		"denied": `{"accessToken":"sso-over","expiresAt":"2020-01-01T00:00:00Z","clientId":"denied","clientSecret":"cs","refreshToken":"r"}`,
	} {
		sum := sha1.Sum([]byte(name))
		write(t, filepath.Join(home, ".aws/sso/cache", hex.EncodeToString(sum[:])+".json"), text)
	}
	for _, name := range []string{"over", "denied"} {
		sum := sha256.Sum256([]byte("arn:aws:" + name))
		text, err := json.Marshal(map[string]any{
			"accessToken": map[string]any{"accessKeyId": "ASIALOGIN", "secretAccessKey": "s", "sessionToken": "t", "accountId": "1", "expiresAt": "2020-01-01T00:00:00Z"},
			"tokenType":   "aws_sigv4", "refreshToken": "r", "identityToken": "i", "clientId": name, "dpopKey": loginKey(t),
		})
		require.NoError(t, err)
		write(t, filepath.Join(home, ".aws/login/cache", hex.EncodeToString(sum[:])+".json"), string(text))
	}
}

// TestAWS_certificates: AWS_CA_BUNDLE, or ca_bundle of the profile, holds the certificates by
// which services that issue credentials are trusted.
func TestAWS_certificates(t *testing.T) {
	home := bare(t)
	server := httptest.NewUnstartedServer(newFakeAWS(t))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // logs clients that do not trust it
	server.StartTLS()
	defer server.Close()
	t.Setenv("AWS_ENDPOINT_URL_STS", server.URL)
	bundle := write(t, filepath.Join(home, "bundle.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	for _, c := range []struct{ variable, key, says string }{
		{"", "", "certificate signed by unknown authority"}, {bundle, "", ""}, {"", "ca_bundle=" + bundle, ""}, {home, "", "directory"}, {filepath.Join(home, "config"), "", "failed to load custom CA bundle"},
	} {
		t.Setenv("AWS_CA_BUNDLE", c.variable)
		file := write(t, filepath.Join(home, "config"), "[default]\nrole_arn=r\naws_access_key_id=AKID\naws_secret_access_key=s\nregion=eu-west-1\n"+c.key)
		signed, err := (&awsCloud{}).Signer(environ("AWS_CONFIG_FILE="+file)).Sign(t.Context(), "https://bedrock-runtime.eu-west-1.amazonaws.com/", nil)
		if c.says != "" {
			assert.ErrorContains(t, err, c.says)
			continue
		}
		require.NoError(t, err)
		assert.Contains(t, signed["Authorization"], "Credential=ASIA")
	}
}
