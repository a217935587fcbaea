package cloud

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/providers"
)

// environ is an environment of these variables alone.
func environ(pairs ...string) func(string) string {
	return func(name string) string {
		for _, pair := range pairs {
			if value, found := strings.CutPrefix(pair, name+"="); found {
				return value
			}
		}
		return ""
	}
}

// bare takes the variables of clouds from the process, and its home: the
// libraries look there themselves.
func bare(t *testing.T) string {
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, "AWS_") || strings.HasPrefix(name, "AZURE_") || strings.HasPrefix(name, "GOOGLE_") || strings.HasPrefix(name, "GCLOUD_") {
			t.Setenv(name, "") // so that it comes back
			require.NoError(t, os.Unsetenv(name))
		}
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	// AWS's library looks for the home once, when the program starts.
	conf, cred := config.DefaultSharedConfigFiles, config.DefaultSharedCredentialsFiles
	config.DefaultSharedConfigFiles = []string{filepath.Join(home, ".aws", "config")}
	config.DefaultSharedCredentialsFiles = []string{filepath.Join(home, ".aws", "credentials")}
	t.Cleanup(func() { config.DefaultSharedConfigFiles, config.DefaultSharedCredentialsFiles = conf, cred })
	return home
}

func write(t *testing.T, path, text string) string {
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// TestSignV4 compares with signatures that were worked out by hand from the
// published algorithm, for paths whose escapes are escaped again, with and without the token of
// a session.
func TestSignV4(t *testing.T) {
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	const host = "https://bedrock-runtime.eu-west-1.amazonaws.com"
	for _, path := range []string{
		"/model/us.anthropic.x-v1%3A0/converse-stream",
		"/model/arn%3Aaws%3Abedrock%3Aeu-west-1%3A1%3Aprompt-router%2Fx/converse-stream",
		"/model/arn%3Aaws%3Abedrock%3Aeu-west-1%3A123456789012%3Aapplication-inference-profile%2Fabc/converse-stream",
		"/model/arn%3Aaws-us-gov%3Abedrock%3Aus-gov-west-1%3A1%3Aprovisioned-model%2Fx~y/converse-stream",
		"/model/with%20space/converse-stream", "/model/%E6%A8%A1%E5%9E%8B/converse-stream", "/model/a%2Bb%3Dc/converse-stream", "/model/a+b/converse-stream",
		"/anthropic/v1/messages", "/openai/v1/responses", "/openai/v1/chat/completions?b=2&a=%C3%A9", "/",
	} {
		for _, token := range []string{"", "session+/=", "tökén"} {
			cred := aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", SessionToken: token}
			body := []byte(`{"text":"é"}`)
			signed, err := signV4(t.Context(), host+path, body, cred, "eu-west-1", at)
			require.NoError(t, err)
			assert.Equal(t, "20261123T120000Z", signed["X-Amz-Date"])
			assert.Equal(t, token, signed["X-Amz-Security-Token"])
			assert.Equal(t, byHand(t, host+path, body, cred, "eu-west-1", at), signed["Authorization"], path+" "+token)
		}
	}
}

func TestAWS_sources(t *testing.T) {
	home := bare(t)
	file := write(t, filepath.Join(home, "config"), `
[default]
region = sa-east-1
[profile fixed]
region = ap-south-1
aws_access_key_id = AKIDFIXED
aws_secret_access_key = secret
[profile program]
credential_process = /bin/echo '{"Version":1,"AccessKeyId":"AKIDPROGRAM","SecretAccessKey":"s"}'
[profile empty]
region = eu-north-1
[profile gone]
sso_session = corp
sso_account_id = 123456789012
sso_role_name = x
[sso-session corp]
sso_region = us-east-1
sso_start_url = https://corp.example.com/start
`)
	sign := func(pairs ...string) (string, error) {
		signer := (&awsCloud{}).Signer(environ(append(pairs, "AWS_CONFIG_FILE="+file)...))
		signed, err := signer.Sign(t.Context(), "https://bedrock-mantle.eu-west-3.api.aws/v1/chat/completions", []byte("{}"))
		return signed["Authorization"], err
	}
	for _, c := range []struct{ env, want string }{
		{"AWS_BEARER_TOKEN_BEDROCK=bedrock-api-key-x", "Bearer bedrock-api-key-x"},
		{"AWS_PROFILE=fixed", "Credential=AKIDFIXED/"},
		{"AWS_PROFILE=program", "Credential=AKIDPROGRAM/"},
	} {
		got, err := sign(c.env)
		require.NoError(t, err, c.env)
		assert.Contains(t, got, c.want)
	}
	got, err := sign("AWS_ACCESS_KEY_ID=AKIDENV", "AWS_SECRET_ACCESS_KEY=s")
	require.NoError(t, err)
	assert.Contains(t, got, "Credential=AKIDENV/")
	assert.Contains(t, got, "/eu-west-3/bedrock/aws4_request", "the region of the host")
	for _, c := range []struct{ profile, says string }{{"empty", "AWS_BEARER_TOKEN_BEDROCK"}, {"gone", "aws sso login"}, {"none", "none"}} {
		_, err = sign("AWS_PROFILE=" + c.profile)
		var failed *protocol.StreamError
		require.ErrorAs(t, err, &failed, c.profile)
		assert.Equal(t, protocol.ErrorAuth, failed.Kind)
		assert.Contains(t, failed.Message, c.says)
	}

	for _, c := range []struct {
		region string
		env    []string
	}{
		{"eu-west-2", []string{"AWS_REGION=eu-west-2", "AWS_DEFAULT_REGION=x"}},
		{"eu-west-1", []string{"AWS_DEFAULT_REGION=eu-west-1"}},
		{"ap-south-1", []string{"AWS_PROFILE=fixed", "AWS_CONFIG_FILE=" + file}},
		{"sa-east-1", []string{"AWS_CONFIG_FILE=" + file}},
		{"us-east-1", []string{"AWS_CONFIG_FILE=" + home + "/none"}},
	} {
		address, err := (&awsCloud{}).Address("https://bedrock-runtime.{AWS_REGION}.amazonaws.com", false, environ(c.env...))
		require.NoError(t, err)
		assert.Equal(t, "https://bedrock-runtime."+c.region+".amazonaws.com", address)
	}
	_, err = (&awsCloud{}).Address("https://x.{AWS_REGION}.amazonaws.com", false, environ("AWS_REGION=evil.com/#"))
	assert.Error(t, err)
}

// TestHosts: credentials go to their cloud, by TLS, and to this machine.
func TestHosts(t *testing.T) {
	for address, ok := range map[string]bool{
		"https://bedrock-runtime.us-east-1.amazonaws.com/x": true, "https://bedrock-mantle.us-east-1.api.aws/v1": true,
		"http://127.0.0.1:1/x": true, "http://localhost:1/x": true, "http://[::1]:1/x": true,
		"http://bedrock-runtime.us-east-1.amazonaws.com/x": false, "https://amazonaws.com.evil.example/x": false,
		"https://evilamazonaws.com/": false, "https://10.0.0.1/": false, "https://evil.example/.amazonaws.com": false,
	} {
		err := allow(address, awsDomains)
		assert.Equal(t, ok, err == nil, "%s: %v", address, err)
	}
	for _, cloud := range All(t.TempDir(), func() string { return "" }) {
		_, err := cloud.Signer(environ()).Sign(t.Context(), "https://models.example.com/v1", nil)
		assert.ErrorContains(t, err, "auth_host_refused")
	}
}

// tokenServer is a service that gives out access tokens.
func tokenServer(t *testing.T, answer func(form func(string) string) (int, string)) (*httptest.Server, *atomic.Int32) {
	var count atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count.Add(1)
		assert.NoError(t, r.ParseForm())
		status, body := answer(r.Form.Get)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return server, &count
}

const vertexURL = "https://us-east5-aiplatform.googleapis.com/v1/x"

func TestGoogle(t *testing.T) {
	home := bare(t)
	server, count := tokenServer(t, func(form func(string) string) (int, string) {
		switch {
		case form("grant_type") == "refresh_token" && form("refresh_token") == "good":
			return 200, `{"access_token":"of-user","expires_in":3600,"token_type":"Bearer"}`
		case strings.Contains(form("grant_type"), "jwt-bearer") && form("assertion") != "":
			return 200, `{"access_token":"of-service","expires_in":3600,"token_type":"Bearer"}`
		}
		return 400, `{"error":"invalid_grant","error_description":"Token has been expired or revoked."}`
	})
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	text, err := json.Marshal(map[string]string{"type": "service_account", "project_id": "own-project", "client_email": "a@b", "token_uri": server.URL,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))})
	require.NoError(t, err)
	service := write(t, filepath.Join(home, "service.json"), string(text))
	cloud := &googleCloud{home: home}

	env := environ("GOOGLE_APPLICATION_CREDENTIALS="+service, "GOOGLE_CLOUD_LOCATION=us-east5")
	assert.True(t, cloud.Found(env))
	address, err := cloud.Address("https://aiplatform.googleapis.com/v1/publishers/google", false, env)
	require.NoError(t, err)
	assert.Equal(t, "https://us-east5-aiplatform.googleapis.com/v1/projects/own-project/locations/us-east5/publishers/google", address)
	for range 3 {
		signed, err := cloud.Signer(env).Sign(t.Context(), vertexURL, nil)
		require.NoError(t, err)
		assert.Equal(t, map[string]string{"Authorization": "Bearer of-service"}, signed)
	}
	assert.EqualValues(t, 1, count.Load(), "the token is kept")
	cloud.Signer(env).Forget()
	_, err = cloud.Signer(env).Sign(t.Context(), vertexURL, nil)
	require.NoError(t, err)
	assert.EqualValues(t, 2, count.Load())

	env = environ("GOOGLE_CLOUD_PROJECT=p", "GOOGLE_CLOUD_LOCATION=global")
	assert.False(t, cloud.Found(env))
	_, err = cloud.Signer(environ("GOOGLE_APPLICATION_CREDENTIALS="+home+"/none")).Sign(t.Context(), vertexURL, nil)
	assert.ErrorContains(t, err, "none")
	address, err = cloud.Address("https://aiplatform.googleapis.com/v1/publishers/anthropic", false, env)
	require.NoError(t, err)
	assert.Equal(t, "https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/anthropic", address)
	for _, place := range []string{"us", "eu"} {
		address, err = cloud.Address("https://aiplatform.googleapis.com/v1/publishers/anthropic", false, environ("GOOGLE_CLOUD_PROJECT=p", "GOOGLE_CLOUD_LOCATION="+place))
		require.NoError(t, err)
		assert.Equal(t, "https://aiplatform."+place+".rep.googleapis.com/v1/projects/p/locations/"+place+"/publishers/anthropic", address)
		assert.NoError(t, allow(address, googleDomains))
	}
	address, err = cloud.Address("https://aiplatform.googleapis.com/v1/publishers/google", true, env)
	require.NoError(t, err)
	assert.Equal(t, "https://aiplatform.googleapis.com/v1/publishers/google", address, "a key knows its project")
	_, err = cloud.Address("https://aiplatform.googleapis.com/v1/publishers/google", false, environ())
	assert.ErrorContains(t, err, "GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION")
}

// TestGoogle_files: what is wrong with a file of credentials is said, and its
// addresses are none that somebody else reads.
func TestGoogle_files(t *testing.T) {
	home := bare(t)
	for text, says := range map[string]string{
		`{"type":"authorized_user"`: "not a JSON object",
		`{"type":"service_account","client_email":"a","private_key":"x","token_uri":"http://evil.example/token"}`:                           "neither https",
		`{"type":"external_account","token_url":"https://sts.googleapis.com/v1/token","credential_source":{"url":"http://evil.example/t"}}`: "neither https",
		`{"type":"external_account","service_account_impersonation_url":"HTTP://evil.example/sa"}`:                                          "neither https",
		`{"type":"impersonated_service_account","source_credentials":{"type":"authorized_user","token_uri":"http://evil.example"}}`:         "neither https",
	} {
		file := write(t, filepath.Join(home, "adc.json"), text)
		_, err := (&googleCloud{home: home}).Signer(environ("GOOGLE_APPLICATION_CREDENTIALS="+file)).Sign(t.Context(), vertexURL, nil)
		var failed *protocol.StreamError
		require.ErrorAs(t, err, &failed, text)
		assert.Contains(t, failed.Message, says)
	}
	assert.ErrorContains(t, googleHint(errors.New(`oauth2: "invalid_grant" "reauth related error (invalid_rapt)"`)), "gcloud auth application-default login")
}

func TestEntra(t *testing.T) {
	bare(t)
	var scopes []string
	tenant := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		base := "https://" + r.Host + "/tenant-1"
		if strings.HasSuffix(r.URL.Path, "/.well-known/openid-configuration") {
			_, _ = fmt.Fprintf(w, `{"issuer":%q,"authorization_endpoint":%q,"token_endpoint":%q}`, base+"/v2.0", base+"/authorize", base+"/token")
			return
		}
		assert.NoError(t, r.ParseForm())
		scopes = append(scopes, r.Form.Get("scope"))
		if r.Form.Get("client_secret") != "good-secret" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":"invalid_client","error_description":"AADSTS7000215: Invalid client secret provided."}`)
			return
		}
		_, _ = io.WriteString(w, `{"access_token":"entra-token","expires_in":3600,"token_type":"Bearer"}`)
	}))
	defer tenant.Close()
	cloud := &entraCloud{client: tenant.Client()}
	env := func(secret string) func(string) string {
		return environ("AZURE_TENANT_ID=tenant-1", "AZURE_CLIENT_ID=app", "AZURE_CLIENT_SECRET="+secret, "AZURE_AUTHORITY_HOST="+tenant.URL)
	}
	for _, host := range []string{"res.openai.azure.com", "res.services.ai.azure.com", "res.openai.azure.com"} {
		signed, err := cloud.Signer(env("good-secret")).Sign(t.Context(), "https://"+host+"/openai/v1/responses", nil)
		require.NoError(t, err)
		assert.Equal(t, map[string]string{"Authorization": "Bearer entra-token"}, signed)
	}
	require.Len(t, scopes, 2, "one token for each scope")
	assert.Contains(t, scopes[0], classicScope)
	assert.Contains(t, scopes[1], foundryScope)

	_, err := cloud.Signer(env("wrong-secret")).Sign(t.Context(), "https://res.openai.azure.com/openai/v1/responses", nil)
	assert.ErrorContains(t, err, "Invalid client secret")
	assert.ErrorContains(t, err, "az login")
	assert.NotContains(t, err.Error(), "wrong-secret")
	assert.NotEqual(t, cloud.Signer(env("a")).Account(), cloud.Signer(env("b")).Account())
}

// TestAnthropic: the token of a machine, which is read anew each time, is exchanged for one of
// Anthropic's, at the host that the request goes to.
func TestAnthropic(t *testing.T) {
	home := t.TempDir()
	file := filepath.Join(home, "token")
	var asked []string
	answer, status := `{"access_token":"sk-ant-oat01-first","token_type":"Bearer","expires_in":3600}`, http.StatusOK
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		asked = append(asked, r.Method+" "+r.URL.Path+" "+r.Header.Get("Anthropic-Beta")+" "+string(body))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	defer service.Close()
	cloud := &anthropicCloud{client: clientOf(http.DefaultTransport)}
	base := []string{"ANTHROPIC_FEDERATION_RULE_ID=fdrl_1", "ANTHROPIC_ORGANIZATION_ID=org", "ANTHROPIC_IDENTITY_TOKEN_FILE=" + file}
	assert.True(t, cloud.Found(environ(base...)))
	assert.False(t, cloud.Found(environ(base[:2]...)))
	sign := func(pairs ...string) (string, error) {
		signed, err := cloud.Signer(environ(append(pairs, base...)...)).Sign(t.Context(), service.URL+"/v1/messages", nil)
		return signed["Authorization"] + " " + signed["Anthropic-Beta"], err
	}
	_, err := sign()
	assert.ErrorContains(t, err, "No credentials for Anthropic: ANTHROPIC_IDENTITY_TOKEN_FILE, "+file)
	write(t, file, " \n")
	_, err = sign()
	assert.ErrorContains(t, err, "there is no token in it")
	write(t, file, strings.Repeat("x", maxIdentity+1))
	_, err = sign()
	assert.ErrorContains(t, err, "larger than 16 KiB")
	require.Empty(t, asked)

	write(t, file, "identity-canary-1\n")
	for range 2 {
		got, err := sign()
		require.NoError(t, err)
		assert.Equal(t, "Bearer sk-ant-oat01-first oauth-2025-04-20", got)
	}
	const way = "POST /v1/oauth/token oauth-2025-04-20,oidc-federation-2026-04-01 "
	assert.Equal(t, []string{way + `{"assertion":"identity-canary-1","federation_rule_id":"fdrl_1","grant_type":"urn:ietf:params:oauth:grant-type:jwt-bearer","organization_id":"org"}`}, asked)

	asked, answer = nil, `{"access_token":"sk-ant-oat01-second","expires_in":60}`
	write(t, file, "identity-canary-2")
	got, err := sign("ANTHROPIC_SERVICE_ACCOUNT_ID=svac_1", "ANTHROPIC_WORKSPACE_ID=wrkspc_1")
	require.NoError(t, err)
	assert.Equal(t, "Bearer sk-ant-oat01-second oauth-2025-04-20", got, "another account")
	assert.Equal(t, []string{way + `{"assertion":"identity-canary-2","federation_rule_id":"fdrl_1","grant_type":"urn:ietf:params:oauth:grant-type:jwt-bearer","organization_id":"org","service_account_id":"svac_1","workspace_id":"wrkspc_1"}`}, asked)

	signer := cloud.Signer(environ(base...))
	signer.Forget()
	for wrong, want := range map[string]string{
		`{"error":"invalid_grant","error_description":"no rule for identity-canary-2"}`: "(HTTP 401): invalid_grant no rule for ***",
		`{"error":{"message":"no such rule"}}`:                                          "(HTTP 401): no such rule",
		`<html>`:                                                                        "(HTTP 401)",
	} {
		answer, status = wrong, http.StatusUnauthorized
		_, err = sign()
		require.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "canary")
		assert.ErrorContains(t, err, "set ANTHROPIC_WORKSPACE_ID")
	}
	status = http.StatusOK
	for _, wrong := range []string{`{}`, `{"access_token":"a b","expires_in":60}`, `{"access_token":"a"}`, `<html>`} {
		answer = wrong
		_, err = sign()
		assert.ErrorContains(t, err, "no token that can be used", wrong)
	}
	for _, elsewhere := range []string{"https://api.anthropic.com.evil.example/v1/messages", "http://api.anthropic.com/v1/messages"} {
		_, err = signer.Sign(t.Context(), elsewhere, nil)
		assert.ErrorContains(t, err, "auth_host_refused")
	}
	_, err = cloud.Signer(environ(base[:2]...)).Sign(t.Context(), service.URL, nil)
	assert.ErrorContains(t, err, "The first that is missing is ANTHROPIC_IDENTITY_TOKEN_FILE")
}

// TestProxy: a configured proxy leads to login services, but not to this machine and its
// cloud's service for it; a login service that sends somewhere else is not followed there.
func TestProxy(t *testing.T) {
	bare(t)
	for address, want := range map[string]string{
		"https://sts.eu-west-1.amazonaws.com/": "http://proxy.example:3128", "https://oauth2.googleapis.com/token": "http://proxy.example:3128",
		"http://127.0.0.1:40342/token": "", "http://localhost/token": "", "http://[::1]/": "", "http://169.254.169.254/latest": "", "http://169.254.170.2/v2/credentials": "",
		"http://[fd00:ec2::254]/latest": "", "http://metadata.google.internal/": "",
	} {
		r, err := http.NewRequest(http.MethodGet, address, nil)
		require.NoError(t, err)
		to, err := proxyTo(r, "http://proxy.example:3128")
		require.NoError(t, err)
		said := ""
		if to != nil {
			said = to.String()
		}
		assert.Equal(t, want, said, address)
	}
	var asked atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		assert.Equal(t, http.MethodConnect, r.Method)
		w.WriteHeader(http.StatusBadGateway)
	}))
	defer proxy.Close()
	home := t.TempDir()
	clouds := All(home, func() string { return proxy.URL })
	file := write(t, filepath.Join(home, "adc.json"), `{"type":"authorized_user","client_id":"c","client_secret":"s","refresh_token":"r","token_uri":"https://oauth2.googleapis.example/token"}`)
	profiles := write(t, filepath.Join(home, "config"), "[profile p]\nrole_arn = arn:aws:iam::123456789012:role/r\nsource_profile = q\nregion = eu-west-1\n[profile q]\naws_access_key_id = AKIDEXAMPLE\naws_secret_access_key = s\n")
	for cloud, use := range map[string]struct {
		address string
		env     func(string) string
	}{
		providers.CloudGoogle: {vertexURL, environ("GOOGLE_APPLICATION_CREDENTIALS=" + file)},
		providers.CloudEntra:  {"https://res.openai.azure.com/openai/v1/responses", environ("AZURE_TENANT_ID=t", "AZURE_CLIENT_ID=c", "AZURE_CLIENT_SECRET=s")},
		providers.CloudAWS:    {"https://bedrock-runtime.eu-west-1.amazonaws.com/model/m/converse-stream", environ("AWS_PROFILE=p", "AWS_CONFIG_FILE="+profiles)},
	} {
		before := asked.Load()
		_, err := clouds[cloud].Signer(use.env).Sign(t.Context(), use.address, nil)
		assert.Error(t, err, cloud)
		assert.Greater(t, asked.Load(), before, cloud)
	}

	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("what was meant for the login service went elsewhere")
	}))
	defer elsewhere.Close()
	service := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer service.Close()
	file = write(t, filepath.Join(home, "adc.json"), `{"type":"authorized_user","client_id":"c","client_secret":"s","refresh_token":"r","token_uri":"`+service.URL+`"}`)
	_, err := (&googleCloud{home: home}).Signer(environ("GOOGLE_APPLICATION_CREDENTIALS="+file)).Sign(t.Context(), vertexURL, nil)
	assert.Error(t, err)
}

// TestTokens: one request gets the token for all, and it is renewed before its
// end.
func TestTokens(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	held := newTokens()
	held.now = func() time.Time { return now }
	var fetched atomic.Int32
	fetch := func(context.Context) (token, error) {
		return token{fmt.Sprint("t", fetched.Add(1)), now.Add(time.Hour)}, nil
	}
	got := make(chan string, 50)
	for range 50 {
		go func() {
			value, _ := held.get(t.Context(), fetch)
			got <- value
		}()
	}
	for range 50 {
		assert.Equal(t, "t1", <-got)
	}
	for _, c := range []struct {
		later time.Duration
		want  string
	}{{55 * time.Minute, "t1"}, {2 * time.Minute, "t2"}} {
		now = now.Add(c.later)
		value, err := held.get(t.Context(), fetch)
		require.NoError(t, err)
		assert.Equal(t, c.want, value)
	}
	now = now.Add(2 * time.Hour)
	_, err := held.get(t.Context(), func(context.Context) (token, error) { return token{}, errors.New("no") })
	assert.EqualError(t, err, "no")
	value, err := held.get(t.Context(), fetch)
	require.NoError(t, err)
	assert.Equal(t, "t3", value)
}

var _ = []providers.Cloud{&awsCloud{}, &googleCloud{}, &entraCloud{}}
