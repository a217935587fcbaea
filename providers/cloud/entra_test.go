package cloud

import (
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
)

// roundTrip is a network of one function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answered is an answer without a connection.
func answered(status int, body string, headers ...string) (*http.Response, error) {
	w := httptest.NewRecorder()
	for i := 0; i < len(headers); i += 2 {
		w.Header().Set(headers[i], headers[i+1])
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
	return w.Result(), nil
}

// tenantOf answers for a tenant: its description, and by token what asks for one.
func tenantOf(token roundTrip) roundTrip {
	return func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/openid-configuration") {
			base := "https://" + r.URL.Host + "/t"
			return answered(200, fmt.Sprintf(`{"issuer":%q,"authorization_endpoint":%q,"token_endpoint":%q}`, base, base+"/a", base+"/token"))
		}
		return token(r)
	}
}

// signEntra has a request signed by a network, and tools.
func signEntra(ctx context.Context, network roundTrip, run Program, pairs ...string) (map[string]string, error) {
	cloud := &entraCloud{client: clientOf(network), run: run}
	return cloud.Signer(environ(pairs...)).Sign(ctx, "https://res.services.ai.azure.com/openai/v1/responses", nil)
}

var nobody = roundTrip(func(*http.Request) (*http.Response, error) { return nil, errors.New("no route to host") })

// TestEntra_renewal: a token that is about to end is asked for anew, and so is the one in the
// file, which somebody else renews.
func TestEntra_renewal(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "token"), "first-identity\n")
	var sent []string
	cloud := &entraCloud{client: clientOf(tenantOf(func(r *http.Request) (*http.Response, error) {
		assert.NoError(t, r.ParseForm())
		sent = append(sent, r.Form.Get("client_assertion"))
		return answered(200, fmt.Sprintf(`{"access_token":"token-%d","expires_in":%d}`, len(sent), 60*len(sent)*len(sent)*len(sent)))
	}))}
	env := environ("AZURE_TENANT_ID=t", "AZURE_CLIENT_ID=c", "AZURE_FEDERATED_TOKEN_FILE="+file)
	for _, want := range []string{"token-1", "token-2", "token-2"} { // of one minute, and of eight
		signed, err := cloud.Signer(env).Sign(t.Context(), "https://res.openai.azure.com/", nil)
		require.NoError(t, err)
		assert.Equal(t, "Bearer "+want, signed["Authorization"])
		write(t, file, "second-identity")
	}
	assert.Equal(t, []string{"first-identity", "second-identity"}, sent)
	cloud.Signer(env).Forget()
	signed, err := cloud.Signer(env).Sign(t.Context(), "https://res.openai.azure.com/", nil)
	require.NoError(t, err)
	assert.Equal(t, "Bearer token-3", signed["Authorization"], "one that was refused")
}

// TestEntra_patience: where no machine answers the search goes on after a second; what may pass
// is tried once more after the pause that is asked for, unless that is too long; and nobody
// waits longer than the patience there is, nor after the end of who asked.
func TestEntra_patience(t *testing.T) {
	hang := roundTrip(func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	az := func(context.Context, string, ...string) (string, string, error) {
		return `{"accessToken":"of-az","expires_on":4102444800}`, "", nil
	}
	app := []string{"AZURE_TENANT_ID=t", "AZURE_CLIENT_ID=c", "AZURE_CLIENT_SECRET=s"}
	run := func(name string, f func(t *testing.T)) {
		t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
	}
	run("no machine", func(t *testing.T) {
		start := time.Now()
		signed, err := signEntra(t.Context(), hang, az)
		require.NoError(t, err)
		assert.Equal(t, "Bearer of-az", signed["Authorization"])
		assert.Equal(t, time.Second, time.Since(start))
	})
	run("no way to a machine", func(t *testing.T) {
		start, tries := time.Now(), 0
		_, err := signEntra(t.Context(), func(r *http.Request) (*http.Response, error) {
			tries++
			return nobody(r)
		}, az)
		require.NoError(t, err)
		assert.Equal(t, 1, tries)
		assert.Zero(t, time.Since(start))
	})
	run("a machine that was asked for", func(t *testing.T) { // without trying first whether it is there
		start := time.Now()
		_, err := signEntra(t.Context(), hang, az, "AZURE_TOKEN_CREDENTIALS=ManagedIdentityCredential")
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, patience, time.Since(start))
	})
	for _, c := range []struct {
		name, header, value string
		tries               int
		least, most         time.Duration
	}{
		{"no pause is named", "X", "", 2, 400 * time.Millisecond, 650 * time.Millisecond},
		{"seconds", "Retry-After", "7", 2, 7 * time.Second, 7 * time.Second},
		{"milliseconds", "X-Ms-Retry-After-Ms", "1500", 2, 1500 * time.Millisecond, 1500 * time.Millisecond},
		{"too long a pause", "Retry-After", "30", 1, 0, 0},
		{"far too long a pause", "Retry-After", "999999999999", 1, 0, 0},
	} {
		run(c.name, func(t *testing.T) {
			start, tries := time.Now(), 0
			_, err := signEntra(t.Context(), tenantOf(func(*http.Request) (*http.Response, error) {
				tries++
				return answered(503, `{"error":{"code":"Busy","message":"come back"}}`, c.header, c.value)
			}), nil, app...)
			var failed *protocol.StreamError
			require.ErrorAs(t, err, &failed)
			assert.Equal(t, protocol.ErrorAuth, failed.Kind)
			assert.Contains(t, failed.Message, "HTTP 503): Busy come back\n")
			assert.Equal(t, c.tries, tries)
			assert.GreaterOrEqual(t, time.Since(start), c.least)
			assert.LessOrEqual(t, time.Since(start), c.most)
		})
	}
	run("a login service that hangs", func(t *testing.T) {
		start := time.Now()
		_, err := signEntra(t.Context(), hang, az, app...)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, patience, time.Since(start))
	})
	run("a login service that hangs once", func(t *testing.T) {
		start, hung := time.Now(), false
		signed, err := signEntra(t.Context(), tenantOf(func(r *http.Request) (*http.Response, error) {
			if !hung {
				hung = true
				return hang(r)
			}
			return answered(200, `{"access_token":"second","expires_in":3600}`)
		}), az, app...)
		require.NoError(t, err)
		assert.Equal(t, "Bearer second", signed["Authorization"])
		assert.Less(t, time.Since(start), patience)
	})
	for name, pairs := range map[string][]string{"login service": app, "machine": {"AZURE_TOKEN_CREDENTIALS=prod"}, "tool": {"AZURE_TOKEN_CREDENTIALS=dev"}} {
		run("given up: "+name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(100*time.Millisecond, cancel)
			start, ran := time.Now(), 0
			_, err := signEntra(ctx, hang, func(ctx context.Context, _ string, _ ...string) (string, string, error) {
				ran++
				<-ctx.Done()
				return "", "", ctx.Err()
			}, pairs...)
			assert.ErrorIs(t, err, context.Canceled)
			assert.Equal(t, 100*time.Millisecond, time.Since(start))
			assert.LessOrEqual(t, ran, 1, "no other tool is started")
		})
	}
}

// TestEntra_arc: the agent of Azure Arc wants a file of its own to be read, and only one in its
// directory is.
func TestEntra_arc(t *testing.T) {
	dir := t.TempDir()
	key := write(t, filepath.Join(dir, "a.key"), "key-canary")
	long := write(t, filepath.Join(dir, "long.key"), strings.Repeat("x", 4097))
	elsewhere := write(t, filepath.Join(t.TempDir(), "a.key"), "elsewhere-canary")
	realm, answer := key, `{"access_token":"of-arc","expires_in":"3600"}`
	ask := func(pairs ...string) (token, error) {
		l := newEntraLogin(environ(append(pairs, "IDENTITY_ENDPOINT=http://127.0.0.1:40342/x", "IMDS_ENDPOINT=http://127.0.0.1:40342")...), clientOf(roundTrip(func(r *http.Request) (*http.Response, error) {
			assert.Equal(t, "true", r.Header.Get("Metadata"))
			assert.Equal(t, "2020-06-01", r.URL.Query().Get("api-version"))
			switch sent := r.Header.Get("Authorization"); sent {
			case "":
				return answered(401, "", "Www-Authenticate", "Basic realm="+realm)
			case "Basic key-canary":
				return answered(200, answer)
			default:
				t.Error("sent " + sent)
				return answered(400, "")
			}
		})), nil)
		l.arcKeys = dir
		return l.machine(t.Context(), foundryScope)
	}
	got, err := ask()
	require.NoError(t, err)
	assert.Equal(t, "of-arc", got.value)
	_, err = ask("AZURE_CLIENT_ID=other")
	assert.ErrorContains(t, err, "another identity than AZURE_CLIENT_ID names")
	answer = `{"access_token":"of-arc","expires_in":"3600","client_id":"OTHER"}`
	_, err = ask("AZURE_CLIENT_ID=other")
	assert.NoError(t, err)
	for _, realm = range []string{elsewhere, dir + "/../" + filepath.Base(dir) + "/../a.key", "/etc/passwd", filepath.Join(dir, "a.txt"), ""} {
		_, err = ask()
		assert.ErrorContains(t, err, "names no key in", realm)
	}
	for file, says := range map[string]string{long: "larger than 4 KiB", filepath.Join(dir, "none.key"): "no such file"} {
		realm = file
		_, err = ask()
		assert.ErrorContains(t, err, says)
	}
}

// TestEntra_serviceFabric: of a cluster's service the certificate is known, and nothing else
// makes it trusted.
func TestEntra_serviceFabric(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "header-canary", r.Header.Get("Secret"))
		_, _ = io.WriteString(w, `{"access_token":"of-fabric","expires_in":3600}`)
	}))
	defer server.Close()
	server.Config.ErrorLog = quiet
	sum := sha1.Sum(server.Certificate().Raw)
	other := sum
	other[0]++
	for sum, says := range map[[sha1.Size]byte]string{sum: "", other: "the certificate is not the one of IDENTITY_SERVER_THUMBPRINT"} {
		l := newEntraLogin(environ("IDENTITY_ENDPOINT="+server.URL, "IDENTITY_HEADER=header-canary", fmt.Sprintf("IDENTITY_SERVER_THUMBPRINT=% X", sum)), clientOf(&http.Transport{}), nil)
		l.pause = 0
		got, err := l.machine(t.Context(), foundryScope)
		if says != "" {
			assert.ErrorContains(t, err, says)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, "of-fabric", got.value)
	}
}

// TestEntra_authority: who vouches for a login service is asked about one that nobody knows, a
// secret goes by https, and to nobody whom the service does not speak for.
func TestEntra_authority(t *testing.T) {
	const good = `{"issuer":"https://login.microsoftonline.com/t","authorization_endpoint":"https://x/a","token_endpoint":"https://tokens.example/{tenant}"}`
	for _, c := range []struct {
		name    string
		env     []string
		answers map[string]string // by host and path; what is not there is refused
		asked   string            // the last
		says    string            // "" for a token
	}{
		{"of Microsoft", nil, map[string]string{"login.microsoftonline.com/T/v2.0/.well-known/openid-configuration": good}, "tokens.example/t", ""},
		{"unknown", []string{"AZURE_AUTHORITY_HOST=https://own.example"}, nil, "login.microsoftonline.com/common/discovery/instance", "own.example: Microsoft's directory of login services: the service refuses (HTTP 404)"},
		{"known to Microsoft", []string{"AZURE_AUTHORITY_HOST=https://own.example"}, map[string]string{
			"login.microsoftonline.com/common/discovery/instance": `{"tenant_discovery_endpoint":"https://own.example/d"}`, "own.example/d": good,
		}, "tokens.example/t", ""},
		{"of this machine", []string{"AZURE_AUTHORITY_HOST=https://localhost:1"}, map[string]string{"localhost:1/T/v2.0/.well-known/openid-configuration": good}, "tokens.example/t", ""},
		{"another issuer", nil, map[string]string{"login.microsoftonline.com/T/v2.0/.well-known/openid-configuration": strings.Replace(good, "login.microsoftonline.com", "evil.example", 1)},
			"login.microsoftonline.com/T/v2.0/.well-known/openid-configuration", "speaks for another: https://evil.example/t"},
		{"too much of it", nil, map[string]string{"login.microsoftonline.com/T/v2.0/.well-known/openid-configuration": strings.Replace(good, "{", "{"+strings.Repeat(" ", maxToken), 1)},
			"login.microsoftonline.com/T/v2.0/.well-known/openid-configuration", "what the login service says of the tenant"},
		{"no issuer", nil, map[string]string{"login.microsoftonline.com/T/v2.0/.well-known/openid-configuration": strings.Replace(good, "https://login.microsoftonline.com/t", "", 1)},
			"login.microsoftonline.com/T/v2.0/.well-known/openid-configuration", "speaks for another"},
		{"tokens without TLS", nil, map[string]string{"login.microsoftonline.com/T/v2.0/.well-known/openid-configuration": strings.Replace(good, "https://tokens", "http://tokens", 1)},
			"login.microsoftonline.com/T/v2.0/.well-known/openid-configuration", "no https address for tokens"},
		{"a region that the machine knows", []string{"AZURE_REGIONAL_AUTHORITY_NAME=TryAutoDetect"}, map[string]string{
			"169.254.169.254/metadata/instance/compute": `{"location":"westeurope"}`, "westeurope.login.microsoft.com/t/v2.0/.well-known/openid-configuration": good,
		}, "tokens.example/t", ""},
		{"a region that nobody knows", []string{"AZURE_REGIONAL_AUTHORITY_NAME=TryAutoDetect"}, map[string]string{"login.microsoftonline.com/T/v2.0/.well-known/openid-configuration": good}, "tokens.example/t", ""},
		{"a region of another cloud", []string{"AZURE_REGIONAL_AUTHORITY_NAME=usgovx", "AZURE_AUTHORITY_HOST=https://login.usgovcloudapi.net/"}, map[string]string{
			"usgovx.login.microsoftonline.us/t/v2.0/.well-known/openid-configuration": good,
		}, "tokens.example/t", ""},
		{"a region by the other variable", []string{"MSAL_FORCE_REGION=westeurope"}, map[string]string{"westeurope.login.microsoft.com/t/v2.0/.well-known/openid-configuration": good}, "tokens.example/t", ""},
		{"no region after all", []string{"AZURE_REGIONAL_AUTHORITY_NAME=disablemsalforceregion", "MSAL_FORCE_REGION=x"}, map[string]string{"login.microsoftonline.com/T/v2.0/.well-known/openid-configuration": good}, "tokens.example/t", ""},
		{"a region that is none", []string{"AZURE_REGIONAL_AUTHORITY_NAME=evil.example/"}, nil, "", "is not a region"},
		{"ADFS has no regions", []string{"AZURE_REGIONAL_AUTHORITY_NAME=evil.example/", "AZURE_TENANT_ID=adfs", "AZURE_AUTHORITY_HOST=https://own.example"}, map[string]string{
			"own.example/adfs/.well-known/openid-configuration": good,
		}, "tokens.example/adfs", ""},
		{"the region is in its name", []string{"AZURE_AUTHORITY_HOST=https://west.own.example"}, map[string]string{
			"login.microsoftonline.com/common/discovery/instance": `{"tenant_discovery_endpoint":"https://west.own.example/d"}`,
			"west.own.example/d": strings.Replace(good, "login.microsoftonline.com", "own.example", 1),
		}, "tokens.example/t", ""},
		{"without TLS", []string{"AZURE_AUTHORITY_HOST=http://login.microsoftonline.com"}, nil, "", "AZURE_AUTHORITY_HOST is not an https address"},
		{"a tenant that is a path", []string{"AZURE_TENANT_ID=../x"}, nil, "", "AZURE_TENANT_ID is neither"},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := ""
			signed, err := signEntra(t.Context(), func(r *http.Request) (*http.Response, error) {
				asked = r.URL.Host + r.URL.Path
				switch answer, found := c.answers[asked]; {
				case found:
					return answered(200, answer)
				case r.URL.Host == "tokens.example":
					return answered(200, `{"access_token":"got","expires_in":3600}`)
				}
				return answered(404, "")
			}, nil, append(c.env, "AZURE_TENANT_ID=T", "AZURE_CLIENT_ID=c", "AZURE_CLIENT_SECRET=secret-canary")...)
			assert.Equal(t, c.asked, asked)
			if c.says != "" {
				assert.ErrorContains(t, err, c.says)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, "Bearer got", signed["Authorization"])
		})
	}
}

// TestEntra_tools: what the tools of people say is passed on, a bounded part of it, and what
// they print has to be a token.
func TestEntra_tools(t *testing.T) {
	exit := errors.New("exit status 1")
	for _, c := range []struct {
		tool, out, stderr string
		err               error
		says              string // "" for a token
	}{
		{"az", `{"accessToken":"x","expires_on":"4102444800"}`, "WARNING: old", nil, ""},
		{"az", `{"accessToken":"x","expiresOn":"2099-12-31 22:33:44.123456"}`, "", nil, ""},
		{"az", `{"accessToken":"x"}`, "", nil, "the end of its token cannot be read"},
		{"az", `{"expires_on":4102444800}`, "", nil, "it printed no token"},
		{"az", `{"accessToken":"x\ny","expires_on":4102444800}`, "", nil, "it printed no token"},
		{"az", strings.Repeat("[", 100_000), "", nil, "az printed no JSON"},
		{"az", "", "ERROR: Please run 'az login' to setup account.\n", exit, "AzureCLICredential: az: exit status 1: ERROR: Please run 'az login' to setup account.\n"},
		{"az", "", strings.Repeat("é", 1000), exit, "é...\n"},
		{"az", "", "", fs.ErrNotExist, "az is not installed"},
		{"azd", `{"token":"x","expiresOn":"2100-01-01T00:00:00Z"}`, "", nil, ""},
		{"azd", "", `{"type":"consoleMessage","data":{"message":"\nERROR: not logged in\n"}}` + "\n" + `{"error":"run azd auth login"}` + "\n", exit, "azd: exit status 1: run azd auth login\n"},
		{"azd", "", `{"type":"consoleMessage","data":{"message":"\nERROR: not logged in\n"}}`, exit, "azd: exit status 1: ERROR: not logged in\n"},
		{"pwsh", `{"Token":"x","ExpiresOn":4102444800}`, "", nil, ""},
		{"pwsh", "", "Write-Error: Az.Accounts ... " + accountsModule, exit, "pwsh: exit status 1: the module Az.Accounts is not installed\n"},
		{"pwsh", "", "Run Connect-AzAccount to login.\n at line 3", exit, "pwsh: exit status 1: run Connect-AzAccount to log in\n"},
	} {
		signed, err := signEntra(t.Context(), nobody, func(_ context.Context, name string, _ ...string) (string, string, error) {
			if name == c.tool {
				return c.out, c.stderr, c.err
			}
			return "", "", fs.ErrNotExist
		}, "AZURE_TOKEN_CREDENTIALS=dev")
		if c.says == "" {
			require.NoError(t, err)
			assert.Equal(t, "Bearer x", signed["Authorization"])
			continue
		}
		require.ErrorContains(t, err, c.says)
		assert.ErrorContains(t, err, "Run `az login`, set AZURE_TENANT_ID")
		assert.Less(t, len(err.Error()), 2000)
	}
	_, err := signEntra(t.Context(), nobody, nil)
	assert.ErrorContains(t, err, "az is not run here")
}

// TestEntra_refusals: what ends the search, with a reason and without what was sent.
func TestEntra_refusals(t *testing.T) {
	bare(t)
	dir := t.TempDir()
	modern, err := os.ReadFile("testdata/entra/modern.p12")
	require.NoError(t, err)
	p12 := write(t, filepath.Join(dir, "modern.p12"), string(modern))
	federated := write(t, filepath.Join(dir, "token"), "identity-canary")
	app := []string{"AZURE_TENANT_ID=t", "AZURE_CLIENT_ID=c"}
	for _, c := range []struct {
		env       []string
		realm     string
		says, not string
	}{
		{[]string{"AZURE_FEDERATED_TOKEN_FILE=" + federated}, "", "(HTTP 400): invalid_client you sent ***", "no source"},
		{[]string{"AZURE_FEDERATED_TOKEN_FILE=" + filepath.Join(dir, "none")}, "", "AZURE_FEDERATED_TOKEN_FILE, " + filepath.Join(dir, "none"), "no source"},
		{[]string{"AZURE_CLIENT_CERTIFICATE_PATH=" + p12, "AZURE_CLIENT_CERTIFICATE_PASSWORD=" + p12Password}, "", "AZURE_CLIENT_CERTIFICATE_PATH, " + p12 + ": neither PEM without a password nor PKCS#12", p12Password},
		{[]string{"AZURE_USERNAME=u@example.com", "AZURE_PASSWORD=password-canary"}, "Federated", "a federated domain, whose WS-Trust login is not offered here: run `az login`", "AzureCLICredential"},
		{[]string{"AZURE_USERNAME=u@example.com", "AZURE_PASSWORD=password-canary"}, "Managed", "(HTTP 400): invalid_client you sent ***", "AzureCLICredential"},
		{[]string{"AZURE_USERNAME=u@example.com"}, "", "AZURE_PASSWORD is not set", "canary"},
		{[]string{"AZURE_TOKEN_CREDENTIALS=mine"}, "", `AZURE_TOKEN_CREDENTIALS is "mine": it may be dev, prod, or`, "canary"},
	} {
		_, err := signEntra(t.Context(), tenantOf(func(r *http.Request) (*http.Response, error) {
			assert.NoError(t, r.ParseForm())
			switch {
			case r.URL.Host == "169.254.169.254":
				return nobody(r)
			case strings.HasPrefix(r.URL.Path, "/common/UserRealm/"):
				return answered(200, fmt.Sprintf(`{"account_type":%q}`, c.realm))
			}
			return answered(400, fmt.Sprintf(`{"error":"invalid_client","error_description":"you sent %s%s","echo":%q}`, r.Form.Get("client_assertion"), r.Form.Get("password"), r.Form.Encode()))
		}), nil, append(c.env, app...)...)
		require.ErrorContains(t, err, c.says)
		assert.NotContains(t, err.Error(), c.not)
		assert.NotContains(t, err.Error(), "canary")
	}
}

// TestEntra_found checks that a resource counts only with a sign of an identity.
func TestEntra_found(t *testing.T) {
	home := bare(t)
	if isAzureMachine() {
		t.Skip("this machine has an identity in Azure")
	}
	const resource = "AZURE_OPENAI_RESOURCE_NAME=mine"
	app := []string{resource, "AZURE_TENANT_ID=t", "AZURE_CLIENT_ID=c"}
	for _, c := range []struct {
		found bool
		env   []string
	}{
		{false, nil},
		{false, []string{resource}},
		{false, []string{"AZURE_OPENAI_BASE_URL=https://mine.openai.azure.com"}},
		{false, app},
		{false, []string{resource, "AZURE_CLIENT_SECRET=s"}},
		{true, append(app, "AZURE_CLIENT_SECRET=s")},
		{true, append(app, "AZURE_CLIENT_CERTIFICATE_PATH=/c")},
		{true, append(app, "AZURE_USERNAME=u")},
		{true, []string{resource, "AZURE_FEDERATED_TOKEN_FILE=/t"}},
		{true, []string{resource, "IDENTITY_ENDPOINT=http://127.0.0.1"}},
		{true, []string{resource, "MSI_ENDPOINT=http://127.0.0.1"}},
		{true, []string{resource, "AZURE_TOKEN_CREDENTIALS=dev"}},
		{false, []string{"AZURE_TOKEN_CREDENTIALS=dev"}},
	} {
		assert.Equal(t, c.found, (&entraCloud{home: home}).Found(environ(c.env...)), "%v", c.env)
	}
	for path, text := range map[string][2]string{
		".azure/azureProfile.json":     {"\ufeff{\"subscriptions\":[{\"id\":\"x\"}]}", `{"subscriptions":[]}`},
		".azd/auth.json":               {`{"auth":{"account":{"currentUser":{"homeAccountId":"x"}}}}`, `{"auth":{"account":{}}}`},
		".Azure/AzureRmContext.json":   {`{"DefaultContextKey":"x"}`, `{}`},
		"elsewhere/azureProfile.json":  {`{"subscriptions":[{}]}`, ""},
		"elsewhere-azd/auth.json":      {`{"auth":{"account":{"currentUser":{}}}}`, ""},
		".azure/msal_token_cache.json": {"", `{}`},
	} {
		for i, want := range []bool{true, false} {
			cloud := &entraCloud{home: t.TempDir()}
			env := []string{resource, "AZURE_CONFIG_DIR=" + filepath.Join(cloud.home, "elsewhere"), "AZD_CONFIG_DIR=" + filepath.Join(cloud.home, "elsewhere-azd")}
			if !strings.HasPrefix(path, "elsewhere") {
				env = env[:1]
			}
			if text[i] == "" {
				continue
			}
			write(t, filepath.Join(cloud.home, path), text[i])
			assert.Equal(t, want, cloud.Found(environ(env...)), "%s: %s", path, text[i])
			assert.False(t, cloud.Found(environ(env[1:]...)), "without a resource")
		}
	}
}

// TestEntra_entry: the variables of an entry of auth.json are those of its account alone, all of
// them.
func TestEntra_entry(t *testing.T) {
	bare(t)
	cloud := &entraCloud{}
	seen := map[string]bool{}
	for _, name := range entraVariables {
		seen[cloud.Signer(environ(name+"=x")).Account()] = true
	}
	assert.Len(t, seen, len(entraVariables))
	read := map[string]bool{}
	for _, file := range []string{"entra.go", "entralogin.go", "entramachine.go", "entratools.go", "entrarequest.go"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range variableRead.FindAllStringSubmatch(string(text), -1) {
			read[m[1]] = true
		}
	}
	delete(read, "AZURE_OPENAI_BASE_URL") // these two are of the address
	delete(read, "AZURE_OPENAI_RESOURCE_NAME")
	for name := range read {
		assert.Contains(t, entraVariables, name)
	}
	assert.Greater(t, len(read), 15)
}

var variableRead = regexp.MustCompile(`env\("([A-Z_]+)"\)`)
