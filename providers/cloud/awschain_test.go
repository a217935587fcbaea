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
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"math/rand/v2"
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
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/signin"
	"github.com/aws/aws-sdk-go-v2/service/sso"
	"github.com/aws/aws-sdk-go-v2/service/ssooidc"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	endpoints "github.com/aws/smithy-go/endpoints"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fakeAWS is every service that gives credentials, on this machine, and a proxy for what is to
// go elsewhere, which it writes down and refuses.
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

// take is what was asked since the last time.
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

// proof checks the signature of a proof, and is what it says but for the time and its name.
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

// oneOf is one of values.
func oneOf[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// roleProfiles is a random file of profiles that refer to each other.
func roleProfiles(r *rand.Rand, conf bool, dir string) string {
	names := []string{"default", "a", "b", "c", "d"}
	var text strings.Builder
	line := func(often int, format string, args ...any) {
		if r.IntN(often) == 0 {
			fmt.Fprintf(&text, format+"\n", args...)
		}
	}
	role := func() string { return "arn:aws:iam::1:role/" + oneOf(r, "x", "y", "z", "x", "y", "z", "denied") }
	for _, name := range names {
		if r.IntN(10) == 0 || !conf && r.IntN(3) > 0 {
			continue
		}
		if conf && (name != "default" || r.IntN(3) == 0) {
			name = "profile " + name
		}
		fmt.Fprintf(&text, "[%s]\n", name)
		line(2, "region = %s", oneOf(r, "eu-west-1", "cn-north-1", "us-gov-west-1", "us-east-1"))
		line(5, "role_session_name = of-%s", name)
		line(8, "duration_seconds = %s", oneOf(r, "3600", "901", "961", "0x1000", "x"))
		line(8, "external_id = e")
		line(15, "mfa_serial = m")
		line(25, "use_fips_endpoint = %s", oneOf(r, "true", "false", "x"))
		line(25, "use_dualstack_endpoint = true")
		line(15, "ignore_configured_endpoint_urls = true")
		line(4, "services = own")
		line(12, "endpoint_url = https://endpoint.example")
		kinds := 1
		if r.IntN(20) == 0 {
			kinds = 2
		}
		for range kinds {
			switch r.IntN(9) {
			case 0:
				fmt.Fprintf(&text, "aws_access_key_id = AKID%s%d\naws_secret_access_key = s\n", strings.ToUpper(name[len(name)-1:]), r.IntN(10))
				line(3, "role_arn = %s", role())
			case 1, 2:
				fmt.Fprintf(&text, "source_profile = %s\n", oneOf(r, append(names, "a", "b", "c", "d", "nobody")...))
				if r.IntN(12) > 0 {
					fmt.Fprintf(&text, "role_arn = %s\n", role())
				}
			case 3:
				fmt.Fprintf(&text, "credential_source = %s\nrole_arn = %s\n", oneOf(r, "Environment", "EcsContainer", "EcsContainer", "Ec2InstanceMetadata", "x"), role())
			case 4:
				fmt.Fprintf(&text, "web_identity_token_file = %s\nrole_arn = %s\n", filepath.Join(dir, oneOf(r, "identity", "identity", "identity", "none")), role())
			case 5:
				for _, key := range []string{"sso_region = ap-south-1", "sso_start_url = https://" + oneOf(r, "fresh", "over", "none") + ".example.com/start", "sso_account_id = 1", "sso_role_name = r"} {
					if r.IntN(15) > 0 {
						text.WriteString(key + "\n")
					}
				}
				line(4, "role_arn = %s", role())
			case 6:
				fmt.Fprintf(&text, "sso_session = %s\nsso_account_id = 1\nsso_role_name = %s\n", oneOf(r, "fresh", "fresh", "over", "over", "denied", "none", "broken"), oneOf(r, "r", "r", "r", "denied"))
				line(6, "sso_region = %s", oneOf(r, "eu-west-1", "us-east-1"))
			case 7:
				fmt.Fprintf(&text, "login_session = arn:aws:%s\n", oneOf(r, "fresh", "fresh", "over", "over", "denied", "broken", "none"))
				line(4, "role_arn = %s", role())
			case 8:
				fmt.Fprintf(&text, "credential_process = echo '{\"Version\":1,\"AccessKeyId\":\"AKIDPROGRAM\",\"SecretAccessKey\":\"s\"}'\n")
				line(4, "role_arn = %s", role())
			}
		}
	}
	if conf {
		for _, name := range []string{"fresh", "over", "denied", "broken"} {
			fmt.Fprintf(&text, "[sso-session %s]\nsso_start_url = https://corp.example.com/start\n", name)
			if name != "broken" || r.IntN(2) == 0 {
				fmt.Fprintf(&text, "sso_region = eu-west-1\n")
			}
		}
		text.WriteString("[services own]\nsts =\n  endpoint_url = https://sts.example\nsso =\n  endpoint_url = https://sso.example\nsso_oidc =\n  endpoint_url = https://oidc.example/x/\n")
	}
	return text.String()
}

// roleWorld is a random machine with profiles that refer to each other.
type roleWorld struct {
	home    string
	process map[string]string
	files   map[string]string // by path
}

// loginKey is a key of `aws login`, with a zero byte at the beginning of its X or of none of its
// coordinates: the SDK leaves such bytes away.
func loginKey(zero bool) string {
	for {
		key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
		if err != nil {
			panic(err)
		}
		der, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			panic(err)
		}
		if point, err := key.PublicKey.Bytes(); err == nil && (point[1] == 0) == zero && point[33] != 0 {
			return string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
		}
	}
}

func newRoleWorld(r *rand.Rand, home, server string) *roleWorld {
	w := &roleWorld{home, map[string]string{}, map[string]string{}}
	file := func(text string, elements ...string) {
		w.files[filepath.Join(append([]string{home}, elements...)...)] = text
	}
	file(roleProfiles(r, true, home), ".aws", "config")
	file(roleProfiles(r, false, home), ".aws", "credentials")
	file("identity-token", "identity")
	file(oneOf(r, "Bearer of-a-file", "two\nlines"), "container-token")
	for name, text := range map[string]string{
		"fresh":                           `{"accessToken":"sso-fresh","expiresAt":"2099-01-01T00:00:00Z"}`,
		"over":                            `{"accessToken":"sso-over","expiresAt":"2020-01-01T00:00:00Z","clientId":"c","clientSecret":"cs","refreshToken":"r","registrationExpiresAt":"2099-01-01T00:00:00Z","scopes":["a"]}`,
		"denied":                          `{"accessToken":"sso-over","expiresAt":"2020-01-01T00:00:00Z","clientId":"denied","clientSecret":"cs","refreshToken":"r"}`,
		"broken":                          `{"accessToken":"sso-over"}`,
		"https://fresh.example.com/start": `{"accessToken":"old-fresh","expiresAt":"2099-01-01T00:00:00Z"}`,
		"https://over.example.com/start":  `{"accessToken":"old-over","expiresAt":"2020-01-01T00:00:00Z","clientId":"c","clientSecret":"cs","refreshToken":"r"}`,
	} {
		sum := sha1.Sum([]byte(name))
		file(text, ".aws", "sso", "cache", hex.EncodeToString(sum[:])+".json")
	}
	for name, expires := range map[string]string{"fresh": "2099-01-01T00:00:00Z", "over": "2020-01-01T00:00:00Z", "denied": "2020-01-01T00:00:00Z", "broken": "never"} {
		sum := sha256.Sum256([]byte("arn:aws:" + name))
		text, err := json.Marshal(map[string]any{
			"accessToken": map[string]any{"accessKeyId": "ASIALOGIN", "secretAccessKey": "s", "sessionToken": "of-" + name, "accountId": "1", "expiresAt": expires},
			"tokenType":   "aws_sigv4", "refreshToken": "r", "identityToken": "i", "clientId": name, "dpopKey": sharedLoginKey(),
		})
		if err != nil {
			panic(err)
		}
		file(string(text), ".aws", "login", "cache", hex.EncodeToString(sum[:])+".json")
	}
	w.variables(r, server)
	return w
}

var sharedLoginKey = sync.OnceValue(func() string { return loginKey(false) })

func (w *roleWorld) variables(r *rand.Rand, server string) {
	set := func(often int, name, value string) {
		if r.IntN(often) == 0 {
			w.process[name] = value
		}
	}
	if r.IntN(8) > 0 {
		w.process["AWS_PROFILE"] = oneOf(r, "a", "b", "c", "d", "a", "b", "c", "d", "default", "nobody")
	}
	set(10, "AWS_DEFAULT_PROFILE", oneOf(r, "a", "b", "nobody"))
	set(5, "AWS_REGION", oneOf(r, "us-west-2", "aws-global", "eusc-de-east-1", "us-isob-east-1"))
	set(8, "AWS_DEFAULT_REGION", "eu-north-1")
	if r.IntN(8) == 0 {
		w.process["AWS_WEB_IDENTITY_TOKEN_FILE"] = filepath.Join(w.home, oneOf(r, "identity", "identity", "identity", "none"))
		set(1+r.IntN(2), "AWS_ROLE_ARN", "arn:aws:iam::1:role/env")
		set(2, "AWS_ROLE_SESSION_NAME", "of-env")
	}
	if r.IntN(8) == 0 {
		w.process[oneOf(r, "AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY")] = "AKIDENV"
		w.process[oneOf(r, "AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY")] = "s"
		set(3, "AWS_SESSION_TOKEN", "of-env")
	}
	if r.IntN(3) > 0 {
		w.process["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = oneOf(r, server+"/container", server+"/container", server+"/container", server+"/container", server+"/container?denied", "http://10.0.0.1/container", "http:///container", "::")
		set(2, "AWS_CONTAINER_AUTHORIZATION_TOKEN", "of-env")
		set(6, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", filepath.Join(w.home, oneOf(r, "container-token", "none")))
	}
	if r.IntN(3) == 0 {
		w.process["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = server
	} else {
		w.process["AWS_EC2_METADATA_DISABLED"] = "true"
	}
	for _, service := range []string{"STS", "SSO", "SSO_OIDC", "SIGNIN"} {
		if r.IntN(4) > 0 {
			w.process["AWS_ENDPOINT_URL_"+service] = server + oneOf(r, "", "", "", "/", "/base")
		}
	}
	set(6, "AWS_ENDPOINT_URL", oneOf(r, server+"/general", ""))
	set(20, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", oneOf(r, "true", "TRUE", "false", "x"))
	set(30, "AWS_USE_FIPS_ENDPOINT", oneOf(r, "true", "true", "False", "x"))
	set(30, "AWS_USE_DUALSTACK_ENDPOINT", "true")
	set(50, "AWS_CA_BUNDLE", filepath.Join(w.home, "none"))
	set(30, "AWS_LOGIN_CACHE_DIRECTORY", filepath.Join(w.home, "none"))
}

// begin writes the files and sets the variables.
func (w *roleWorld) begin(t *testing.T) {
	for path, text := range w.files {
		write(t, path, text)
	}
	for name, value := range w.process {
		t.Setenv(name, value)
	}
}

// after is what is in the files of logins, but for times.
func (w *roleWorld) after(t *testing.T) map[string]any {
	found := map[string]any{}
	for path, before := range w.files {
		if filepath.Ext(path) != ".json" {
			continue
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		if string(text) == before {
			continue
		}
		var members map[string]any
		require.NoError(t, json.Unmarshal(text, &members), path)
		of := members
		if access, is := members["accessToken"].(map[string]any); is {
			of = access
		}
		at, err := time.Parse(time.RFC3339, of["expiresAt"].(string))
		require.NoError(t, err)
		of["expiresAt"] = time.Until(at).Round(5 * time.Minute).String()
		found[path] = members
	}
	for _, path := range []string{".aws/sso/cache", ".aws/login/cache"} {
		entries, err := os.ReadDir(filepath.Join(w.home, path))
		require.NoError(t, err)
		found[path] = len(entries)
	}
	return found
}

// outcome is what came of looking for credentials.
type outcome struct {
	id, token, region, failed string
	asked                     []string
	files                     map[string]any
}

func (o *outcome) fail(err error) {
	o.failed = "other"
	for _, kind := range []string{"failed to get shared config profile", "MFA", "partial credentials", "requires role_arn", "static credentials are empty"} {
		if strings.Contains(err.Error(), kind) {
			o.failed = kind
			break
		}
	}
}

func (w *roleWorld) ours(t *testing.T, f *fakeAWS) (o outcome, err error) {
	w.begin(t)
	cfg, err := loadAWS(t.Context(), newAWSInput(os.Getenv), f.proxy)
	var cred aws.Credentials
	if err == nil {
		cred, err = cached(cfg.credentials, time.Minute).Retrieve(t.Context())
	}
	if err == nil {
		o.id, o.token, o.region = cred.AccessKeyID, cred.SessionToken, cfg.region
	} else {
		o.fail(err)
	}
	o.asked, o.files = f.take(), w.after(t)
	return o, err
}

func (w *roleWorld) theirs(t *testing.T, f *fakeAWS) (o outcome, err error) {
	w.begin(t)
	cfg, err := config.LoadDefaultConfig(t.Context(), config.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} }),
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.Proxy = f.proxy })))
	var cred aws.Credentials
	if err == nil {
		cred, err = cfg.Credentials.Retrieve(t.Context())
	}
	var missing config.SharedConfigProfileNotExistError
	if key := w.process["AWS_ACCESS_KEY_ID"]; key != "" && w.process["AWS_SECRET_ACCESS_KEY"] != "" && errors.As(err, &missing) {
		// That AWS_PROFILE names none does not keep keys from being used, as was decided here.
		cred, err = aws.Credentials{AccessKeyID: key, SessionToken: w.process["AWS_SESSION_TOKEN"]}, nil
		cfg.Region = regionOf(os.Getenv)
	}
	if err == nil {
		o.id, o.token, o.region = cred.AccessKeyID, cred.SessionToken, cfg.Region
	} else {
		o.fail(err)
	}
	o.asked, o.files = f.take(), w.after(t)
	return o, err
}

// TestRoles: on random machines with profiles that refer to each other, to files, to programs and to services, the
// keys, the region, the class of an error, what services are asked and what is written to files
// of logins are those of AWS's own library.
func TestRoles(t *testing.T) {
	f := newFakeAWS(t)
	found := map[string]int{}
	for seed := range *worlds / 4 {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newRoleWorld(rand.New(rand.NewPCG(seed, 2)), bare(t), f.server.URL)
			require.NoError(t, os.Unsetenv("AWS_EC2_METADATA_DISABLED"))
			theirs, theirErr := w.theirs(t, f)
			ours, ourErr := w.ours(t, f)
			for _, asked := range theirs.asked {
				found[strings.Join(strings.FieldsFunc(asked, func(c rune) bool { return c == ' ' || c == '?' })[:2], " ")]++
				if at := strings.Index(asked, "Action="); at > 0 {
					found[strings.SplitN(asked[at:], "&", 2)[0]]++
				}
			}
			found[theirs.failed]++
			if !assert.Equal(t, theirs, ours) {
				t.Logf("process %v\ntheirs %v\nours %v\nconfig:\n%s\ncredentials:\n%s", w.process, theirErr, ourErr, w.files[filepath.Join(w.home, ".aws/config")], w.files[filepath.Join(w.home, ".aws/credentials")])
			}
		})
	}
	for _, kind := range []string{
		"", "other", "failed to get shared config profile", "MFA", "requires role_arn", "static credentials are empty", "Action=AssumeRole", "Action=AssumeRoleWithWebIdentity",
		"POST /token", "POST /v1/token", "GET /federation/credentials", "GET /container",
	} {
		assert.NotZero(t, found[kind], "%q did not come: %v", kind, found)
	}
}

// TestAWS_asked: a service is asked once for all requests of an account, nobody is followed who
// sends elsewhere, and what to do is said where a login is over.
func TestAWS_asked(t *testing.T) {
	home := bare(t)
	f := newFakeAWS(t)
	const address = "https://bedrock-runtime.eu-west-1.amazonaws.com/model/m/converse-stream"
	cloud := &awsCloud{proxy: f.proxy}
	t.Setenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/container")
	signer := cloud.Signer(os.Getenv)
	for range 3 {
		signed, err := signer.Sign(t.Context(), address, nil)
		require.NoError(t, err)
		assert.Contains(t, signed["Authorization"], "Credential=ASIA")
	}
	assert.Equal(t, []string{"GET 169.254.170.2/container?"}, f.take())
	signer.Forget()
	_, err := signer.Sign(t.Context(), address, nil)
	require.NoError(t, err)
	assert.Len(t, f.take(), 1)

	elsewhere := httptest.NewServer(http.RedirectHandler(f.server.URL, http.StatusTemporaryRedirect))
	defer elsewhere.Close()
	for name, says := range map[string]string{"sso": "aws sso login", "login": "`aws login`", "role": "HTTP 307"} {
		t.Setenv("AWS_ENDPOINT_URL_STS", elsewhere.URL)
		file := write(t, filepath.Join(home, name), "[profile sso]\nsso_session=s\nsso_account_id=1\nsso_role_name=r\n[sso-session s]\nsso_region=eu-west-1\nsso_start_url=https://x\n"+
			"[profile login]\nlogin_session=x\n[profile role]\nrole_arn=r\nsource_profile=keys\n[profile keys]\naws_access_key_id=AKIDKEYS\naws_secret_access_key=s\n")
		_, err := cloud.Signer(environ("AWS_PROFILE="+name, "AWS_REGION=eu-west-1", "AWS_CONFIG_FILE="+file)).Sign(t.Context(), address, nil)
		assert.ErrorContains(t, err, says)
		assert.Empty(t, f.take())
	}
}

// TestAWS_differs: what is not as AWS's own library has it, on purpose. A file of a login keeps
// what is not known here and a refresh token that no other comes for, a proof has its key's whole
// coordinates, and what stands alone or is missing is no reason to end.
func TestAWS_differs(t *testing.T) {
	home := bare(t)
	f := newFakeAWS(t)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/token":
			_, _ = io.WriteString(w, `{"accessToken":"renewed","expiresIn":3600}`)
		case "/v1/token":
			f.proof(r.Header.Get("DPoP"))
			_, _ = io.WriteString(w, `{"accessToken":{"accessKeyId":"ASIANEXT","secretAccessKey":"s","sessionToken":"t"},"expiresIn":900,"refreshToken":"next"}`)
		default:
			assert.Equal(t, "renewed", r.Header.Get("X-Amz-Sso_bearer_token"))
			_, _ = io.WriteString(w, `{"roleCredentials":{"accessKeyId":"ASIASSO","secretAccessKey":"s","sessionToken":"t","expiration":4070908800000}}`)
		}
	}))
	defer service.Close()
	for _, name := range []string{"SSO", "SSO_OIDC", "SIGNIN"} {
		t.Setenv("AWS_ENDPOINT_URL_"+name, service.URL)
	}
	sign := func(profile string) (string, error) {
		file := write(t, filepath.Join(home, "config"), "[profile p]\nregion=eu-west-1\n"+profile+"[sso-session s]\nsso_region=eu-west-1\nsso_start_url=https://x\n")
		signed, err := (&awsCloud{}).Signer(environ("AWS_PROFILE=p", "AWS_CONFIG_FILE="+file)).Sign(t.Context(), "https://bedrock-runtime.eu-west-1.amazonaws.com/", nil)
		return signed["Authorization"], err
	}
	sum := sha1.Sum([]byte("s"))
	path := write(t, filepath.Join(home, ".aws/sso/cache", hex.EncodeToString(sum[:])+".json"), `{"accessToken":"o","expiresAt":"2020-01-01T00:00:00Z","clientId":"c","clientSecret":"cs","refreshToken":"r","own":[1]}`)
	got, err := sign("sso_session=s\nsso_role_name='\nsso_account_id=1\n")
	require.NoError(t, err)
	assert.Contains(t, got, "Credential=ASIASSO/")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Contains(t, string(text), `"refreshToken":"r"`)
	assert.Contains(t, string(text), `"own":[1]`)
	_, err = sign("sso_session=s\nsso_role_name=r\n")
	assert.ErrorContains(t, err, "missing required configuration: sso_account_id")

	for _, c := range []struct{ key, says string }{{loginKey(true), ""}, {"no PEM", "not PEM"}} {
		login, err := json.Marshal(map[string]any{
			"accessToken": map[string]any{"accessKeyId": "o", "secretAccessKey": "s", "sessionToken": "t", "accountId": "1", "expiresAt": "2020-01-01T00:00:00Z"},
			"clientId":    "c", "refreshToken": "r", "dpopKey": c.key, "own": "member",
		})
		require.NoError(t, err)
		sum := sha256.Sum256([]byte("session"))
		path := write(t, filepath.Join(home, ".aws/login/cache", hex.EncodeToString(sum[:])+".json"), string(login))
		got, err := sign("login_session=session\n")
		if c.says != "" {
			assert.ErrorContains(t, err, c.says)
			continue
		}
		require.NoError(t, err)
		assert.Contains(t, got, "Credential=ASIANEXT/")
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Contains(t, string(text), `"own":"member"`)
		assert.Contains(t, string(text), `"refreshToken":"next"`)
	}
}

// TestAWS_certificates: AWS_CA_BUNDLE, or ca_bundle of the profile, says whose certificates count
// for services that give credentials.
func TestAWS_certificates(t *testing.T) {
	home := bare(t)
	server := httptest.NewUnstartedServer(newFakeAWS(t))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // hears of who does not trust it
	server.StartTLS()
	defer server.Close()
	t.Setenv("AWS_ENDPOINT_URL_STS", server.URL)
	bundle := write(t, filepath.Join(home, "bundle.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	for _, c := range []struct{ variable, key, says string }{
		{"", "", "certificate signed by unknown authority"}, {bundle, "", ""}, {"", "ca_bundle=" + bundle, ""}, {home, "", "bundle"}, {filepath.Join(home, "config"), "", "failed to load custom CA bundle"},
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

// TestContainerHosts: without TLS, the credentials of a container are asked for on this machine
// and at the services that containers have, and nowhere else.
func TestContainerHosts(t *testing.T) {
	for address, ok := range map[string]bool{
		"http://127.0.0.1:1/x": true, "http://[::1]/": true, "http://169.254.170.2/x": true, "http://169.254.170.23/x": true, "http://[fd00:ec2::23]/x": true, "https://elsewhere.example/": true,
		"http://10.0.0.1/": false, "http://169.254.169.254/": false, "http://[fd00:ec2::254]/": false, "http:///x": false, "https:///x": false, "::": false,
	} {
		err := allowContainer(t.Context(), address)
		assert.Equal(t, ok, err == nil, "%s: %v", address, err)
	}
}

// profileWords are what random files of profiles are made of.
var profileWords = []string{
	"[default]", "[a]", "[profile a]", "[profile b]", "[ profile\tb ] # x", "[profile a", "[sso-session s]", "[services v]", "[profile profile b]", "[profile default]", "[]", "[DEFAULT]",
	"region", "REGION", "role_arn", "source_profile", "sso_session", "services", "aws_access_key_id", "aws_secret_access_key", "aws_session_token", "duration_seconds", "external_id",
	"credential_process", "sso_region", "sso_start_url", "sts", "endpoint_url", "use_fips_endpoint", "web_identity_token_file", "login_session",
	"a", "b", "v", "s", "eu-west-1", "'quoted'", "\"quoted\"", "'half", "x y", "3600", "true",
	" = ", "=", ":", " : ", " ", "  ", "\t", "\n", "\n", "\n", "\n  ", "\n\t", "\r\n", " #c", ";c", " ;c", "#c", "é", "\u00a0",
}

// readAs reads files of profiles as the SDK does; false where that panics, as at a lone
// quotation mark.
func readAs(conf, cred, name string) (got config.SharedConfig, err error, ok bool) {
	defer func() { _ = recover() }()
	got, err = config.LoadSharedConfigProfile(context.Background(), name, func(o *config.LoadSharedConfigOptions) {
		o.ConfigFiles, o.CredentialsFiles = []string{conf}, []string{cred}
	})
	return got, err, true
}

// seenProfile is what counts of a profile.
func seenProfile(c *config.SharedConfig) map[string]any {
	if c == nil {
		return nil
	}
	seen := map[string]any{
		"keys": c.Credentials.AccessKeyID + " " + c.Credentials.SecretAccessKey, "region": c.Region, "role_arn": c.RoleARN, "external_id": c.ExternalID, "mfa_serial": c.MFASerial, "role_session_name": c.RoleSessionName,
		"source_profile": c.SourceProfileName, "credential_source": c.CredentialSource, "credential_process": c.CredentialProcess, "web_identity_token_file": c.WebIdentityTokenFile,
		"sso_session": c.SSOSessionName, "sso_region": c.SSORegion, "sso_start_url": c.SSOStartURL, "sso_account_id": c.SSOAccountID, "sso_role_name": c.SSORoleName, "login_session": c.LoginSession,
		"use_fips_endpoint": c.UseFIPSEndpoint == aws.FIPSEndpointStateEnabled, "source": seenProfile(c.Source), "sts": c.Services.ServiceValues["sts"]["endpoint_url"],
	}
	if c.Credentials.HasKeys() {
		seen["token"] = c.Credentials.SessionToken
	}
	if c.SSOSession != nil {
		seen["session"] = c.SSOSession.SSORegion + " " + c.SSOSession.SSOStartURL
	}
	return seen
}

// seen is what counts of our reading.
func (p *awsProfile) seen() map[string]any {
	if p == nil {
		return nil
	}
	seen := map[string]any{"keys": " ", "use_fips_endpoint": strings.EqualFold(p.get("use_fips_endpoint"), "true"), "source": p.source.seen(), "sts": p.services["sts"]["endpoint_url"]}
	for _, key := range []string{
		"region", "role_arn", "external_id", "mfa_serial", "role_session_name", "source_profile", "credential_source", "credential_process", "web_identity_token_file",
		"sso_session", "sso_region", "sso_start_url", "sso_account_id", "sso_role_name", "login_session",
	} {
		seen[key] = p.get(key)
	}
	if p.hasKeys() {
		seen["keys"], seen["token"] = p.get("aws_access_key_id")+" "+p.get("aws_secret_access_key"), p.get("aws_session_token")
	}
	if p.session != nil {
		seen["session"] = p.session.values["sso_region"].text + " " + p.session.values["sso_start_url"].text
	}
	return seen
}

// sameProfiles compares our reading of two files with the SDK's.
func sameProfiles(t *testing.T, dir, conf, cred string) {
	t.Helper()
	confFile, credFile := write(t, filepath.Join(dir, "config"), conf), write(t, filepath.Join(dir, "credentials"), cred)
	for _, name := range []string{"default", "a", "b", "profile b", "DEFAULT"} {
		theirs, theirErr, ok := readAs(confFile, credFile, name)
		sections, err := readProfiles(confFile, credFile)
		require.NoError(t, err)
		ours, ourErr := sections.profile(name, map[string]bool{})
		if !ok {
			continue
		}
		about := fmt.Sprintf("%s\nconfig: %q\ncredentials: %q", name, conf, cred)
		if theirErr == nil {
			require.NoError(t, ourErr, about)
			require.Equal(t, seenProfile(&theirs), ours.seen(), about)
			continue
		}
		if strings.Contains(theirErr.Error(), "use_fips") || strings.Contains(theirErr.Error(), "invalid value") {
			continue
		}
		require.Error(t, ourErr, "%s: %v", about, theirErr)
		for _, kind := range []string{"failed to get shared config profile", "requires role_arn", "partial credentials", "failed to load assume role", "failed to find SSO session section", "one "} {
			require.Equal(t, strings.Contains(theirErr.Error(), kind), strings.Contains(ourErr.Error(), kind), "%s: %v, %v", about, theirErr, ourErr)
		}
	}
}

// TestProfiles: random files of profiles say to us what they say to AWS's own library.
func TestProfiles(t *testing.T) {
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(3, 3))
	text := func() string {
		var b strings.Builder
		for range r.IntN(60) {
			if r.IntN(4) == 0 {
				b.WriteString(oneOf(r, profileWords[:12]...) + "\n")
			} else if r.IntN(2) == 0 {
				b.WriteString(oneOf(r, "", "", " ", "\t") + oneOf(r, profileWords[12:31]...) + oneOf(r, " = ", "=", ":", " =\n") + oneOf(r, profileWords[31:41]...) + "\n")
			} else {
				b.WriteString(oneOf(r, profileWords...))
			}
		}
		return b.String()
	}
	for range *worlds / 2 {
		sameProfiles(t, dir, text(), text())
	}
}

// FuzzProfiles looks for files of profiles that say something else to us than to AWS's own
// library.
func FuzzProfiles(f *testing.F) {
	f.Add("[default]\nregion = x\n", "[default]\naws_access_key_id = a\naws_secret_access_key = s\n")
	f.Add("[profile a]\nservices = v\n[services v]\nsts =\n  endpoint_url = https://x\n more\n", "[a]\nrole_arn: 'x' ; c\nsource_profile=a\n")
	f.Add("[default]\nregion =\n  more\nexternal_id = a\n  b # c\n\tc = d # e\n  f\n[services v]\nsts = \n  endpoint_url = https://x # c\n  goes on\n", "")
	f.Add("[profile a]\nsource_profile = a\nrole_arn = r\nrole_session_name = n\nmfa_serial = m\nexternal_id = e\naws_access_key_id = a\naws_secret_access_key = s\naws_session_token = t\n", "[a]\naws_access_key_id = b\naws_secret_access_key = s\n")
	f.Add("[profile a]\nsource_profile = b\nrole_arn = r\n[profile b]\nsource_profile = a\nrole_arn = q\nrole_session_name = n\n", "[b]\naws_access_key_id = b\n")
	f.Fuzz(func(t *testing.T, conf, cred string) { sameProfiles(t, t.TempDir(), conf, cred) })
}

// TestEndpoints: services are asked where AWS's own library asks them, in every part of AWS.
func TestEndpoints(t *testing.T) {
	regions := []string{"us-east-1", "us-east-2", "eu-west-1", "ap-southeast-7", "mx-central-1", "me-west-1", "cn-north-1", "cn-northwest-1", "us-gov-west-1", "us-gov-east-1", "us-iso-east-1", "us-isob-west-1", "us-isof-south-1", "eu-isoe-west-1", "eusc-de-east-1", "aws-global", "xx-new-9"}
	for _, region := range regions {
		for i := range 4 {
			fips, dual := i&1 != 0, i&2 != 0
			c := &awsConfig{profile: &awsProfile{}, fips: fips, dual: dual}
			ask := func(s awsService, resolve func() (endpoints.Endpoint, error)) {
				ours, err := c.endpoint(s, region)
				require.NoError(t, err)
				theirs, err := resolve()
				require.NoError(t, err)
				assert.Equal(t, theirs.URI.String(), ours, "%v %s fips %v dual %v", s, region, fips, dual)
			}
			ask(stsService, func() (endpoints.Endpoint, error) {
				return sts.NewDefaultEndpointResolverV2().ResolveEndpoint(t.Context(), sts.EndpointParameters{Region: &region, UseFIPS: &fips, UseDualStack: &dual})
			})
			ask(ssoService, func() (endpoints.Endpoint, error) {
				return sso.NewDefaultEndpointResolverV2().ResolveEndpoint(t.Context(), sso.EndpointParameters{Region: &region, UseFIPS: &fips, UseDualStack: &dual})
			})
			ask(oidcService, func() (endpoints.Endpoint, error) {
				return ssooidc.NewDefaultEndpointResolverV2().ResolveEndpoint(t.Context(), ssooidc.EndpointParameters{Region: &region, UseFIPS: &fips, UseDualStack: &dual})
			})
			ask(signinService, func() (endpoints.Endpoint, error) {
				return signin.NewDefaultEndpointResolverV2().ResolveEndpoint(t.Context(), signin.EndpointParameters{Region: &region, UseFIPS: &fips, UseDualStack: &dual, IsControlPlane: aws.Bool(false)})
			})
		}
	}
}
