package cloud

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	azurecloud "github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/pkcs12"

	"troupe/providers"
)

var entraWorlds = flag.Uint64("cloud.entra", 300, "random environments that are compared with Microsoft's own library")

// azure is a random machine: its variables, what the services say that they lead to, and the
// tools that are there.
type azure struct {
	vars   map[string]string
	tenant string // how the login service of a tenant answers
	realm  string // whose a user's password is
	imds   string // how a machine's service answers
	tools  map[string]string
}

// azureFiles are the files that worlds name.
type azureFiles struct{ dir, bin string }

func (f azureFiles) path(name string) string { return filepath.Join(f.dir, name) }

const p12Password = "test-password"

// newAzureFiles writes certificates of all kinds, and a federated token.
func newAzureFiles(t *testing.T) azureFiles {
	f := azureFiles{dir: t.TempDir(), bin: t.TempDir()}
	p12, err := os.ReadFile("testdata/entra/app.p12")
	require.NoError(t, err)
	blocks, err := pkcs12.ToPEM(p12, p12Password)
	require.NoError(t, err)
	key, cert := "", ""
	for _, b := range blocks {
		b.Headers = nil
		if b.Type == "CERTIFICATE" {
			cert += string(pem.EncodeToMemory(b))
		} else {
			key += string(pem.EncodeToMemory(b))
		}
	}
	ec, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	require.NoError(t, err)
	ecText, err := x509.MarshalPKCS8PrivateKey(ec)
	require.NoError(t, err)
	of, err := x509.ParsePKCS1PrivateKey(blocks[slices.IndexFunc(blocks, func(b *pem.Block) bool { return b.Type != "CERTIFICATE" })].Bytes)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(of)
	require.NoError(t, err)
	modern, err := os.ReadFile("testdata/entra/modern.p12")
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	defer server.Close()
	other := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	for name, text := range map[string]string{
		"rsa.pem": key + cert, "chain.pem": other + cert + key, "pkcs8.pem": cert + string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})),
		"nokey.pem": cert, "nocert.pem": key, "twokeys.pem": key + key + cert, "othercert.pem": key + other,
		"ec.pem": cert + string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: ecText})), "broken.pem": "-----BEGIN", "token": "federated-token-1",
		"app.p12": string(p12), "modern.p12": string(modern),
	} {
		write(t, f.path(name), text)
	}
	return f
}

// pick chooses one; the first has half of the chances.
func pick[T any](r *rand.Rand, likely T, others ...T) T {
	if len(others) == 0 || r.IntN(2) == 0 {
		return likely
	}
	return others[r.IntN(len(others))]
}

// fakeTool is a shell script in place of one of the tools.
func fakeTool(r *rand.Rand, name string) string {
	good := map[string][]string{
		"az": {
			`{"accessToken":"of-az","expires_on":4102444800,"expiresOn":"2100-01-01 01:00:00.000000"}`, `{"accessToken":"of-az","expiresOn":"2099-12-31 22:33:44.123456"}`,
			`{"accessToken":"of-az","expires_on":0,"expiresOn":"2099-12-31 22:33:44"}`, `{"accessToken":"of-az","expiresOn":"soon"}`, `not json`, ``,
		},
		"azd":  {`{"token":"of-azd","expiresOn":"2100-01-01T00:00:00Z"}`, `{"token":"of-azd","expiresOn":"soon"}`, `{`},
		"pwsh": {`{"Token":"of-pwsh","ExpiresOn":4102444800}`, `{"Token":"of-pwsh","ExpiresOn":"soon"}`},
	}[name]
	switch r.IntN(5) {
	case 0:
		return ""
	case 1:
		return "echo 'ERROR: nobody has logged in' >&2; exit 1"
	case 2:
		return `echo '{"type":"consoleMessage","data":{"message":"nobody"}}' >&2; exit 3`
	}
	return "echo '" + pick(r, good[0], good[1:]...) + "'"
}

// newAzure makes a random machine.
func newAzure(r *rand.Rand, f azureFiles) azure {
	w := azure{map[string]string{}, "", "", "", map[string]string{}}
	set := func(chance int, name, likely string, others ...string) {
		if r.IntN(chance) == 0 {
			w.vars[name] = pick(r, likely, others...)
		}
	}
	if app := r.IntN(3); app > 0 { // or nothing of an application
		set(1, "AZURE_TENANT_ID", "tenant-1", "Tenant.Example.com", "adfs", "tenant/1")
		set(1, "AZURE_CLIENT_ID", "app-1")
		if app == 2 {
			switch r.IntN(6) {
			case 0:
				set(1, "AZURE_CLIENT_SECRET", "secret-canary")
			case 1:
				set(1, "AZURE_FEDERATED_TOKEN_FILE", f.path("token"), f.path("none"))
			case 2, 3:
				set(1, "AZURE_CLIENT_CERTIFICATE_PATH", f.path("chain.pem"), f.path("rsa.pem"), f.path("pkcs8.pem"), f.path("nokey.pem"), f.path("nocert.pem"), f.path("twokeys.pem"),
					f.path("othercert.pem"), f.path("ec.pem"), f.path("broken.pem"), f.path("none"), f.path("app.p12"), f.path("modern.p12"), f.path("app.p12"))
				if strings.HasSuffix(w.vars["AZURE_CLIENT_CERTIFICATE_PATH"], ".p12") || r.IntN(9) == 0 {
					set(1, "AZURE_CLIENT_CERTIFICATE_PASSWORD", p12Password, "another-password")
				}
				set(3, "AZURE_CLIENT_SEND_CERTIFICATE_CHAIN", "true", "1", "0", "TRUE", "yes")
			default:
				set(1, "AZURE_USERNAME", "u /ser@example.com")
				if r.IntN(5) > 0 {
					set(1, "AZURE_PASSWORD", "password-canary")
				}
			}
		}
	}
	set(5, "AZURE_CLIENT_ID", "app-1")
	set(4, "AZURE_AUTHORITY_HOST", "https://login.partner.microsoftonline.cn", "https://127.0.0.1:40443/", "https://login.private.example/", "http://login.plain.example", "https://login.usgovcloudapi.net/")
	set(6, "AZURE_REGIONAL_AUTHORITY_NAME", "westeurope", "disablemsalforceregion", "not a region", "TryAutoDetect")
	if w.vars["AZURE_REGIONAL_AUTHORITY_NAME"] == "TryAutoDetect" { // else the library asks the network of this machine
		set(1, "REGION_NAME", "northeurope", "No Region")
	}
	set(4, "AZURE_TOKEN_CREDENTIALS", "dev", "prod", "managedidentitycredential", "AzureCLICredential", "EnvironmentCredential", "WorkloadIdentityCredential", "AzureDeveloperCLICredential", "AzurePowerShellCredential", "nonsense", "PROD")
	switch r.IntN(9) {
	case 0:
		w.vars["IDENTITY_ENDPOINT"], w.vars["IDENTITY_HEADER"] = "http://127.0.0.1:40342/msi/token?a=b", "header-canary"
		if r.IntN(2) == 0 {
			w.vars["IDENTITY_ENDPOINT"] = pick(r, "https://127.0.0.1:40443/sf", "http://127.0.0.1:40342/sf")
			w.vars["IDENTITY_SERVER_THUMBPRINT"] = pick(r, "{thumbprint}", strings.Repeat("00 ", 20), "00:11")
		}
	case 1:
		w.vars["MSI_ENDPOINT"] = "http://127.0.0.1:40342/oauth2/token"
		set(2, "MSI_SECRET", "msi-canary")
		set(2, "DEFAULT_IDENTITY_CLIENT_ID", "id-2")
	case 2:
		w.vars["IDENTITY_ENDPOINT"], w.vars["IMDS_ENDPOINT"] = "http://127.0.0.1:40342/arc", "http://127.0.0.1:40342"
	}
	w.tenant = pick(r, `{"access_token":"of-tenant","expires_in":3600,"token_type":"Bearer"}`, `{"access_token":"of-tenant","expires_in":"3600","ext_expires_in":"7200"}`,
		`{"access_token":"of-tenant","expires_on":"4102444800","expires_in":1}`, `{"access_token":"of-tenant"}`, `{"error":"invalid","access_token":"of-tenant","expires_in":3600}`, `{"expires_in":3600}`, `<html>`, "401", "400", "500", "503 once", "no document", "foreign issuer", "gone once", "gone")
	w.realm = pick(r, "Managed", "Federated", "Strange")
	w.imds = pick(r, "gone", `{"access_token":"of-machine","expires_on":"4102444800","resource":"x"}`, `{"access_token":"of-machine","expires_on":4102444800}`,
		`{"access_token":"of-machine","expires_in":"3600","client_id":"app-1"}`, `{"access_token":"of-machine","expires_on":"12/31/2099 23:00:00"}`, `{"access_token":"of-machine","expires_on":"soon"}`,
		`<html>`, "400", "403", "403 unreachable", "404", "503 once", "500")
	for _, name := range []string{"az", "azd", "pwsh"} {
		if text := fakeTool(r, name); text != "" {
			w.tools[name] = text
		}
	}
	return w
}

// azureFake is all services at once, and hears what they are asked.
type azureFake struct {
	azure
	mu     sync.Mutex
	heard  []string
	failed map[string]bool // what has failed once
	key    *rsa.PublicKey
	t      *testing.T
}

func (f *azureFake) once(what string) bool {
	first := !f.failed[what]
	f.failed[what] = true
	return first
}

// reply answers as a world says: with a status, or a body.
func (f *azureFake) reply(w http.ResponseWriter, what, place string) {
	switch what {
	case "503 once":
		if f.once(place) {
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return
		}
		what = `{"access_token":"of-second-try","expires_in":3600}`
	case "400", "401", "403", "404", "500":
		w.WriteHeader(int(what[0]-'0')*100 + int(what[2]-'0'))
		_, _ = io.WriteString(w, `{"error":"invalid_client","error_description":"AADSTS1: no, not with `+strings.Join(slices.Sorted(maps.Values(f.vars)), " ")+`"}`)
		return
	case "403 unreachable":
		http.Error(w, `connecting to 169.254.169.254:80: dial tcp: connectex: A socket operation was attempted to an unreachable network.`, http.StatusForbidden)
		return
	}
	_, _ = io.WriteString(w, what)
}

func (f *azureFake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	assert.NoError(f.t, r.ParseForm())
	switch r.URL.Path {
	case "/common/discovery/instance": // which the library looks at for its cache, too
	case "/mex": // WS-Trust, which is not spoken here
	default:
		f.hear(r)
	}
	tenant, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	base := "https://" + r.Host + "/" + tenant
	f.serve(w, r, base)
}

func (f *azureFake) hear(r *http.Request) {
	line := fmt.Sprint(r.Method, " ", r.Host, r.URL.EscapedPath(), " ", f.plain(r.Form))
	for _, name := range []string{"Metadata", "X-Identity-Header", "Secret", "Authorization"} {
		if value := r.Header.Get(name); value != "" {
			line += " " + name + ": " + value
		}
	}
	f.heard = append(f.heard, line)
}

// serve answers; base is the address of the tenant in a request to its login service.
func (f *azureFake) serve(w http.ResponseWriter, r *http.Request, base string) {
	switch path := r.URL.Path; {
	case path == "/common/discovery/instance":
		u, err := url.Parse(r.Form.Get("authorization_endpoint"))
		assert.NoError(f.t, err)
		name, _, _ := strings.Cut(u.Path[1:], "/")
		_, _ = fmt.Fprintf(w, `{"tenant_discovery_endpoint":"https://%[1]s/%[2]s/v2.0/.well-known/openid-configuration","metadata":[{"preferred_network":%[1]q,"preferred_cache":%[1]q,"aliases":[%[1]q,"sts.private.example"]}]}`, u.Host, name)
	case strings.HasSuffix(path, "/.well-known/openid-configuration"):
		issuer := base + "/v2.0"
		switch {
		case f.tenant == "no document":
			http.Error(w, `{"error":"invalid_tenant","error_description":"AADSTS90002: no such tenant"}`, 400)
			return
		case f.tenant == "foreign issuer":
			issuer = "https://evil.example/tenant-1"
		case strings.HasSuffix(r.Host, ".private.example"):
			issuer = "https://sts.private.example/tenant-1"
		}
		_, _ = fmt.Fprintf(w, `{"issuer":%q,"authorization_endpoint":%q,"token_endpoint":%q}`, issuer, base+"/authorize", "https://"+r.Host+"/{tenant}/oauth2/v2.0/token")
	case strings.HasPrefix(path, "/common/UserRealm/"):
		_, _ = fmt.Fprintf(w, `{"account_type":%q,"domain_name":"example.com","cloud_instance_name":"x","cloud_audience_urn":"urn:x","federation_protocol":"WSTrust","federation_metadata_url":"https://fed.example/mex"}`, f.realm)
	case strings.HasSuffix(path, "/oauth2/v2.0/token"):
		if f.tenant == "gone" || f.tenant == "gone once" && f.once("tenant") {
			panic(http.ErrAbortHandler)
		}
		f.reply(w, cmp.Or(strings.TrimPrefix(f.tenant, "gone once"), `{"access_token":"of-tenant","expires_in":3600}`), "tenant")
	case strings.HasPrefix(path, "/metadata/") && r.Header.Get("Metadata") == "":
		w.WriteHeader(400) // whether anybody is there
	case path == "/arc":
		w.Header().Set("Www-Authenticate", "Basic realm=/etc/passwd")
		w.WriteHeader(pick(rand.New(rand.NewPCG(uint64(len(f.imds)), 0)), 401, 400))
	case f.imds == "gone": // services that variables name are there
		f.reply(w, `{"access_token":"of-machine","expires_on":"4102444800"}`, "machine")
	default:
		f.reply(w, f.imds, "machine")
	}
}

// plain is a form in an order, and with what a signed token says in its place.
func (f *azureFake) plain(form url.Values) string {
	form = maps.Clone(form)
	if signed := form.Get("client_assertion"); strings.Count(signed, ".") == 2 {
		form.Set("client_assertion", f.opened(signed))
	}
	text, err := url.QueryUnescape(form.Encode())
	assert.NoError(f.t, err)
	return text
}

// opened verifies a signed token as RFC 7518 has it, and says what is in it.
func (f *azureFake) opened(signed string) string {
	parts := strings.Split(signed, ".")
	var text [3][]byte
	for i := range parts {
		var err error
		text[i], err = base64.RawURLEncoding.DecodeString(parts[i])
		assert.NoError(f.t, err)
	}
	var header, claims map[string]any
	assert.NoError(f.t, json.Unmarshal(text[0], &header))
	assert.NoError(f.t, json.Unmarshal(text[1], &claims))
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if header["alg"] == "PS256" {
		assert.NoError(f.t, rsa.VerifyPSS(f.key, crypto.SHA256, sum[:], text[2], &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}))
	} else {
		assert.NoError(f.t, rsa.VerifyPKCS1v15(f.key, crypto.SHA256, sum[:], text[2]))
	}
	assert.EqualValues(f.t, 600, claims["exp"].(float64)-claims["nbf"].(float64))
	assert.NotEmpty(f.t, claims["jti"])
	for _, name := range []string{"exp", "nbf", "jti"} {
		delete(claims, name)
	}
	return fmt.Sprint(header, claims)
}

// network leads to the fake whatever the address, and nowhere if a machine has no service.
func (f *azureFake) network(t *testing.T) (client *http.Client, thumbprint string) {
	secure, plain := httptest.NewTLSServer(f), httptest.NewServer(f)
	secure.Config.ErrorLog, plain.Config.ErrorLog = quiet, quiet
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			host, port, _ := net.SplitHostPort(address)
			to := plain.Listener.Addr().String()
			switch {
			case host == "169.254.169.254" && f.imds == "gone":
				return nil, errors.New("no route to host")
			case port == "443" || port == "40443":
				to = secure.Listener.Addr().String()
			}
			return new(net.Dialer).DialContext(ctx, network, to)
		},
	}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		secure.Close()
		plain.Close()
	})
	sum := sha1.Sum(secure.Certificate().Raw)
	return &http.Client{Transport: transport, Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, hex.EncodeToString(sum[:])
}

// given is what somebody gets who asks for a token, and what he asked for it.
type given struct {
	token  string
	end    string // see roughly
	tried  int    // sources, if none had one
	failed bool
	heard  []string
}

func (g *given) got(value string, end time.Time, err error, sources *regexp.Regexp) {
	if err != nil {
		g.failed = true
		g.tried = len(sources.FindAllString(err.Error(), -1))
		return
	}
	g.token, g.end = value, roughly(end)
}

// roughly is when a token ends: for one that lasts so many seconds from now, about how many. The two
// that are compared were asked for one after the other.
func roughly(end time.Time) string {
	if left := time.Until(end); left.Abs() < 24*time.Hour {
		return left.Round(10 * time.Minute).String()
	}
	return end.UTC().String()
}

var (
	theirSources = regexp.MustCompile(`(?m)^\t[^\t]`)
	ourSources   = regexp.MustCompile(`(?m)^  \w+Credential: `)
)

// library is Microsoft's for what env says, as this program used it.
func library(env func(string) string, client policy.Transporter) (azcore.TokenCredential, error) {
	tenant, id, secret, file := env("AZURE_TENANT_ID"), env("AZURE_CLIENT_ID"), env("AZURE_CLIENT_SECRET"), env("AZURE_FEDERATED_TOKEN_FILE")
	options, own := azcore.ClientOptions{Transport: client, Retry: policy.RetryOptions{MaxRetries: 1, RetryDelay: time.Millisecond, TryTimeout: patience / 2}}, false
	if host := env("AZURE_AUTHORITY_HOST"); host != "" {
		options.Cloud = azurecloud.Configuration{ActiveDirectoryAuthorityHost: host}
		own = providers.IsLoopback(hostOf(host))
	}
	switch {
	case tenant != "" && id != "" && secret != "":
		return azidentity.NewClientSecretCredential(tenant, id, secret, &azidentity.ClientSecretCredentialOptions{ClientOptions: options, DisableInstanceDiscovery: own})
	case tenant != "" && id != "" && file != "":
		return azidentity.NewWorkloadIdentityCredential(&azidentity.WorkloadIdentityCredentialOptions{ClientOptions: options, TenantID: tenant, ClientID: id, TokenFilePath: file, DisableInstanceDiscovery: own})
	}
	return azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{ClientOptions: options, TenantID: tenant, DisableInstanceDiscovery: own})
}

// execute is a [Program] as the program itself has one.
func execute(ctx context.Context, name string, args ...string) (string, string, error) {
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if errors.Is(err, exec.ErrNotFound) {
		err = fs.ErrNotExist
	}
	return out.String(), said.String(), err
}

// see has one of the two ask for a token, each in the same world as it was at its beginning.
func (w azure) see(t *testing.T, f azureFiles, key *rsa.PublicKey, ask func(client *http.Client) (string, time.Time, error), sources *regexp.Regexp) (g given) {
	fake := &azureFake{azure: w, failed: map[string]bool{}, key: key, t: t}
	client, thumbprint := fake.network(t)
	if w.vars["IDENTITY_SERVER_THUMBPRINT"] == "{thumbprint}" {
		t.Setenv("IDENTITY_SERVER_THUMBPRINT", thumbprint)
	}
	calls := f.path("calls")
	write(t, calls, "")
	value, end, err := ask(client)
	g.got(value, end, err, sources)
	text, err := os.ReadFile(calls)
	require.NoError(t, err)
	fake.mu.Lock()
	defer fake.mu.Unlock()
	g.heard = append(fake.heard, strings.Split(strings.TrimSpace(string(text)), "\n")...)
	return g
}

// TestEntraChoices: in random environments a token, or where the search for one ends, and all
// that services and tools are asked, are those of Microsoft's own library.
func TestEntraChoices(t *testing.T) {
	bare(t)
	f := newAzureFiles(t)
	blocks, err := pkcs12.ToPEM(func() []byte { b, _ := os.ReadFile("testdata/entra/app.p12"); return b }(), p12Password)
	require.NoError(t, err)
	var key *rsa.PublicKey
	for _, b := range blocks {
		if cert, err := x509.ParseCertificate(b.Bytes); err == nil {
			key = cert.PublicKey.(*rsa.PublicKey)
		}
	}
	t.Setenv("PATH", f.bin)
	local := time.Local
	time.Local = time.FixedZone("elsewhere", 12600)
	t.Cleanup(func() { time.Local = local })
	found := map[string]int{}
	for seed := range *entraWorlds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newAzure(rand.New(rand.NewPCG(seed, 2)), f)
			for name, value := range w.vars {
				t.Setenv(name, value)
			}
			for _, name := range []string{"az", "azd", "pwsh"} {
				file := filepath.Join(f.bin, name)
				_ = os.Remove(file)
				if text, there := w.tools[name]; there {
					require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\nfor last; do :; done\ncase $0 in *pwsh) echo pwsh $1 $2 $3 $4;; *) echo ${0##*/} \"$@\";; esac >>"+f.path("calls")+"\n"+text+"\n"), 0o700))
				}
			}
			scope := fmt.Sprintf("https://ai.azure.com/w%d/.default", seed) // the library keeps tokens of machines in a place of its own
			theirs := w.see(t, f, key, func(client *http.Client) (string, time.Time, error) {
				cred, err := library(os.Getenv, client)
				if err != nil {
					return "", time.Time{}, err
				}
				got, err := cred.GetToken(t.Context(), policy.TokenRequestOptions{Scopes: []string{scope}})
				return got.Token, got.ExpiresOn, err
			}, theirSources)
			ours := w.see(t, f, key, func(client *http.Client) (string, time.Time, error) {
				l := newEntraLogin(os.Getenv, client, execute)
				l.pause = time.Millisecond
				got, err := l.token(t.Context(), scope)
				if err != nil {
					assert.NotContains(t, l.mask(err.Error()), "canary")
				}
				return got.value, got.expires, err
			}, ourSources)
			assert.Equal(t, theirs, ours, "%+v", w)
			found[cmp.Or(ours.token, fmt.Sprint(ours.tried, " tried"))]++
		})
	}
	for _, kind := range []string{"of-tenant", "of-second-try", "of-machine", "of-az", "of-azd", "of-pwsh", "0 tried", "1 tried", "3 tried", "6 tried"} {
		assert.GreaterOrEqual(t, found[kind], 5, "%s came too rarely for the others to say much: %v", kind, found)
	}
}

var quiet = log.New(io.Discard, "", 0)
