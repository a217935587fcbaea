package cloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
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

// tenantOf describes a tenant of Microsoft's login service, and leaves other requests to token.
func tenantOf(token roundTrip) roundTrip {
	return func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/openid-configuration") {
			base := "https://" + r.URL.Host + "/t"
			return answered(200, fmt.Sprintf(`{"issuer":%q,"authorization_endpoint":%q,"token_endpoint":%q}`, base, base+"/a", base+"/token"), "Content-Type", "application/json")
		}
		if strings.HasSuffix(r.URL.Path, "/discovery/instance") {
			return answered(200, `{"tenant_discovery_endpoint":"https://login.microsoftonline.com/t/v2.0/.well-known/openid-configuration","metadata":[]}`, "Content-Type", "application/json")
		}
		return token(r)
	}
}

// signEntra signs a request of the variables' account over a network.
func signEntra(ctx context.Context, network roundTrip, pairs ...string) (map[string]string, error) {
	cloud := &entraCloud{client: clientOf(network)}
	return cloud.Signer(environ(pairs...)).Sign(ctx, "https://res.services.ai.azure.com/openai/v1/responses", nil)
}

var unreachable = roundTrip(func(*http.Request) (*http.Response, error) { return nil, errors.New("no route to host") })

// TestEntra_renewal: a token is requested again shortly before it ends, with the federated token
// that is in the file then, and after Forget.
func TestEntra_renewal(t *testing.T) {
	bare(t)
	file := write(t, filepath.Join(t.TempDir(), "token"), "first-identity\n")
	var sent []string
	cloud := &entraCloud{client: clientOf(tenantOf(func(r *http.Request) (*http.Response, error) {
		assert.NoError(t, r.ParseForm())
		sent = append(sent, strings.TrimSpace(r.Form.Get("client_assertion")))
		return answered(200, fmt.Sprintf(`{"access_token":"token-%d","expires_in":%d,"token_type":"Bearer"}`, len(sent), 60*len(sent)*len(sent)*len(sent)))
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
	assert.Equal(t, "Bearer token-3", signed["Authorization"], "the refused one is not used again")
}

// TestEntra_sources: each source that users have gives a token.
func TestEntra_sources(t *testing.T) {
	if isAzureMachine() {
		t.Skip("this machine has an identity in Azure")
	}
	key, err := os.ReadFile("testdata/entra/app.p12")
	require.NoError(t, err)
	for name, c := range map[string]struct {
		env   func(dir string) []string // of the process
		asks  string                    // part of the request for a token; "" for a tool
		az    string                    // what az prints
		grant string
	}{
		"certificate": {env: func(dir string) []string {
			return []string{"AZURE_TENANT_ID=t", "AZURE_CLIENT_ID=c", "AZURE_CLIENT_CERTIFICATE_PATH=" + write(t, filepath.Join(dir, "app.p12"), string(key)), "AZURE_CLIENT_CERTIFICATE_PASSWORD=" + p12Password}
		}, asks: "/t/token", grant: "client_credentials"},
		"machine":  {env: func(string) []string { return []string{"AZURE_TOKEN_CREDENTIALS=ManagedIdentityCredential"} }, asks: "169.254.169.254/metadata/identity/oauth2/token"},
		"az login": {env: func(string) []string { return nil }, az: `{"accessToken":"of-az","expires_on":4102444800}`},
	} {
		t.Run(name, func(t *testing.T) {
			home := bare(t)
			for _, pair := range c.env(home) {
				name, value, _ := strings.Cut(pair, "=")
				t.Setenv(name, value)
			}
			if c.az != "" {
				t.Setenv("PATH", filepath.Dir(write(t, filepath.Join(home, "bin", "az"), "#!/bin/sh\nprintf '%s' '"+c.az+"'\n"))+":/usr/bin:/bin")
				require.NoError(t, os.Chmod(filepath.Join(home, "bin", "az"), 0o700))
			}
			asked := ""
			cloud := &entraCloud{client: clientOf(tenantOf(func(r *http.Request) (*http.Response, error) {
				if c.az != "" {
					return unreachable(r)
				}
				asked = r.URL.Host + r.URL.Path
				assert.NoError(t, r.ParseForm())
				assert.Equal(t, c.grant, r.PostForm.Get("grant_type"))
				// The library keeps tokens of machines for the whole process, unless they end soon.
				return answered(200, fmt.Sprintf(`{"access_token":"of-az","expires_in":"60","expires_on":"%d","token_type":"Bearer","resource":"r"}`, time.Now().Add(time.Minute).Unix()), "Content-Type", "application/json")
			}))}
			signed, err := cloud.Signer(os.Getenv).Sign(t.Context(), "https://res.services.ai.azure.com/openai/v1/responses", nil)
			require.NoError(t, err)
			assert.Equal(t, "Bearer of-az", signed["Authorization"])
			assert.Contains(t, asked, c.asks)
		})
	}
}

// TestEntra_refusals: an error says what the service answered, without secrets that were sent, and
// what a user can do. A source that is set up and fails ends the search.
func TestEntra_refusals(t *testing.T) {
	bare(t)
	dir := t.TempDir()
	federated := write(t, filepath.Join(dir, "token"), "identity-canary")
	for _, c := range []struct {
		env  []string
		says string
	}{
		{[]string{"AZURE_CLIENT_SECRET=secret-canary"}, "you sent ***"},
		{[]string{"AZURE_FEDERATED_TOKEN_FILE=" + federated}, "you sent ***"},
		{[]string{"AZURE_FEDERATED_TOKEN_FILE=" + filepath.Join(dir, "none")}, filepath.Join(dir, "none")},
		{[]string{"AZURE_CLIENT_CERTIFICATE_PATH=" + federated}, "AZURE_CLIENT_CERTIFICATE_PATH, " + federated},
		{[]string{"AZURE_CLIENT_CERTIFICATE_PATH=" + filepath.Join(dir, "none")}, "no such file"},
		{[]string{"AZURE_TOKEN_CREDENTIALS=mine"}, "AZURE_TOKEN_CREDENTIALS cannot be set for one entry of auth.json"},
		{[]string{"AZURE_AUTHORITY_HOST=http://login.example", "AZURE_CLIENT_SECRET=secret-canary"}, "https"},
	} {
		_, err := signEntra(t.Context(), tenantOf(func(r *http.Request) (*http.Response, error) {
			assert.NoError(t, r.ParseForm())
			sent := r.Form.Get("client_assertion") + r.Form.Get("client_secret")
			return answered(400, fmt.Sprintf(`{"error":"invalid_client","error_description":"you sent %s","echo":%q}`, sent, r.Form.Encode()), "Content-Type", "application/json")
		}), append(c.env, "AZURE_TENANT_ID=t", "AZURE_CLIENT_ID=c")...)
		var failed *protocol.StreamError
		require.ErrorAs(t, err, &failed, "%v", c.env)
		assert.Equal(t, protocol.ErrorAuth, failed.Kind)
		assert.Contains(t, failed.Message, c.says)
		assert.Contains(t, failed.Message, "Run `az login`, set AZURE_TENANT_ID")
		assert.NotContains(t, failed.Message, "canary")
	}
}

// TestEntra_plain: a secret is not sent to an address for tokens that is not https.
func TestEntra_plain(t *testing.T) {
	bare(t)
	sent := false
	_, err := signEntra(t.Context(), func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/openid-configuration") {
			return answered(200, `{"issuer":"https://login.microsoftonline.com/t","authorization_endpoint":"https://x/a","token_endpoint":"http://tokens.example/t"}`, "Content-Type", "application/json")
		}
		sent = sent || r.Method == http.MethodPost
		return answered(200, `{"access_token":"got","expires_in":3600,"token_type":"Bearer"}`)
	}, "AZURE_TENANT_ID=t", "AZURE_CLIENT_ID=c", "AZURE_CLIENT_SECRET=secret-canary")
	assert.ErrorContains(t, err, "https")
	assert.False(t, sent)
}

// TestEntra_ends: a login service that does not answer delays a prompt no longer than its client
// waits.
func TestEntra_ends(t *testing.T) {
	bare(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := signEntra(ctx, func(r *http.Request) (*http.Response, error) {
		cancel()
		<-r.Context().Done()
		return nil, r.Context().Err()
	}, "AZURE_TENANT_ID=t", "AZURE_CLIENT_ID=c", "AZURE_CLIENT_SECRET=s")
	assert.ErrorIs(t, err, context.Canceled)
}

// p12Password opens testdata/entra/app.p12.
const p12Password = "test-password"

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

// TestEntra_entry: entries of auth.json with different variables are different accounts.
func TestEntra_entry(t *testing.T) {
	bare(t)
	cloud := &entraCloud{}
	seen := map[string]bool{}
	for _, name := range append(entraVariables, processVariables...) {
		seen[cloud.Signer(environ(name+"=x")).Account()] = true
	}
	assert.Len(t, seen, len(entraVariables)+len(processVariables))
}
