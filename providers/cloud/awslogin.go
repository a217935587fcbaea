package cloud

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/tidwall/gjson"

	"troupe/protocol"
	"troupe/protocol/bounded"
)

// awsLoginFile is a file in which AWS's command line keeps a login. Members that are not known
// here stay as they are.
type awsLoginFile struct {
	path    string
	members map[string]any
}

func readLogin(path string) (*awsLoginFile, error) {
	text, err := bounded.ReadFile(path, maxAWS)
	if err != nil {
		return nil, err
	}
	f := &awsLoginFile{path: path}
	if err := json.Unmarshal(text, &f.members); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// get is a member that is text, or one of an object in it, or "".
func (f *awsLoginFile) get(names ...string) string {
	var value any = f.members
	for _, name := range names {
		object, _ := value.(map[string]any)
		value = object[name]
	}
	text, _ := value.(string)
	return text
}

// expires is the time in a member, and zero where there is none.
func (f *awsLoginFile) expires(names ...string) time.Time {
	at, _ := time.Parse(time.RFC3339, f.get(names...))
	return at
}

// write replaces the file, with its mode.
func (f *awsLoginFile) write() error {
	text, err := json.Marshal(f.members)
	if err != nil {
		return err
	}
	mode := os.FileMode(0o600)
	if st, err := os.Stat(f.path); err == nil {
		mode = st.Mode().Perm()
	}
	next, err := os.CreateTemp(filepath.Dir(f.path), filepath.Base(f.path)+".tmp-*")
	if err != nil {
		return err
	}
	_, err = next.Write(append(text, '\n'))
	err = errors.Join(err, next.Chmod(mode), next.Close())
	if err == nil {
		err = os.Rename(next.Name(), f.path)
	}
	if err != nil {
		_ = os.Remove(next.Name()) // what failed says more
	}
	return err
}

// sso has the credentials of a role by the token of `aws sso login`: of the profile's session,
// or of its start URL as older files have it. A token of a session is renewed.
func (c *awsConfig) sso(p *awsProfile) (aws.CredentialsProvider, error) {
	region, start, session := p.get("sso_region"), p.get("sso_start_url"), p.get("sso_session")
	if p.session != nil {
		of := func(key string) string { return p.session.values[key].text }
		if region != "" && region != of("sso_region") || start != "" && start != of("sso_start_url") {
			return nil, fmt.Errorf("sso_region and sso_start_url in profile %q must match those in its sso-session", p.name)
		}
		region, start = of("sso_region"), of("sso_start_url")
	}
	account, role := p.get("sso_account_id"), p.get("sso_role_name")
	var missing []string
	for i, value := range []string{region, start, account, role} {
		if value == "" {
			missing = append(missing, []string{"sso_region", "sso_start_url", "sso_account_id", "sso_role_name"}[i])
		}
	}
	if missing != nil {
		return nil, fmt.Errorf("profile %q is configured to use SSO but is missing required configuration: %s", p.name, strings.Join(missing, ", "))
	}
	key := start
	if session != "" {
		key = session
	}
	sum := sha1.Sum([]byte(key))
	path := awsFile("sso", "cache", hex.EncodeToString(sum[:])+".json")
	query := url.Values{"account_id": {account}, "role_name": {role}}.Encode()
	return cached(aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
		token, err := c.ssoToken(ctx, path, region, session != "")
		if err != nil {
			return aws.Credentials{}, fmt.Errorf("the SSO session has expired or is invalid: %w", err)
		}
		return c.roleCredentials(ctx, region, query, token)
	}), 0), nil
}

// ssoToken is the access token in a file of `aws sso login`. One that is over is renewed if renew
// says so, and the file has what it takes.
func (c *awsConfig) ssoToken(ctx context.Context, path, region string, renew bool) (string, error) {
	f, err := readLogin(path)
	if err != nil {
		return "", err
	}
	expires := f.expires("expiresAt")
	switch {
	case f.get("accessToken") == "" || expires.IsZero():
		return "", errors.New("cached SSO token must contain accessToken and expiresAt fields")
	case !time.Now().After(expires):
		return f.get("accessToken"), nil
	case !renew:
		return "", errors.New("it is over")
	case f.get("clientId") == "", f.get("clientSecret") == "", f.get("refreshToken") == "":
		return "", errors.New("cached SSO token is expired, or not present, and cannot be refreshed")
	}
	endpoint, err := c.endpoint(oidcService, region)
	if err != nil {
		return "", err
	}
	got, err := c.renew(ctx, strings.TrimSuffix(endpoint, "/")+"/token", "operation error SSO OIDC: CreateToken", "", map[string]string{
		"clientId": f.get("clientId"), "clientSecret": f.get("clientSecret"), "refreshToken": f.get("refreshToken"), "grantType": "refresh_token",
	})
	if err != nil {
		return "", err
	}
	token := got.Get("accessToken").Str
	if token == "" {
		return "", errors.New("operation error SSO OIDC: CreateToken: the answer has no token")
	}
	f.members["accessToken"] = token
	f.members["expiresAt"] = time.Now().Add(time.Duration(got.Get("expiresIn").Int()) * time.Second).UTC().Format(time.RFC3339)
	if next := got.Get("refreshToken").Str; next != "" {
		f.members["refreshToken"] = next
	}
	return token, f.write()
}

// roleCredentials asks the portal for the credentials of a role.
func (c *awsConfig) roleCredentials(ctx context.Context, region, query, token string) (none aws.Credentials, err error) {
	const name = "operation error SSO: GetRoleCredentials"
	endpoint, err := c.endpoint(ssoService, region)
	if err != nil {
		return none, fmt.Errorf("%s: %w", name, err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(endpoint, "/")+"/federation/credentials?"+query, nil)
	if err != nil {
		return none, err
	}
	r.Header.Set("X-Amz-Sso_bearer_token", token)
	body, err := c.call(r, name, jsonRefusal)
	if err != nil {
		return none, err
	}
	got := gjson.GetBytes(body, "roleCredentials")
	return usable(name, aws.Credentials{
		AccessKeyID: got.Get("accessKeyId").Str, SecretAccessKey: got.Get("secretAccessKey").Str, SessionToken: got.Get("sessionToken").Str,
		CanExpire: true, Expires: time.UnixMilli(got.Get("expiration").Int()).UTC(),
	})
}

// jsonRefusal is why a service that speaks JSON refuses.
func jsonRefusal(body []byte) string {
	if !protocol.ValidJSON(body) {
		return ""
	}
	said := gjson.ParseBytes(body)
	return strings.TrimSpace(said.Get("error").Str + " " + said.Get("error_description").Str + said.Get("message").Str)
}

// renew gives the refresh token in members for another login, with a proof of possession where
// there is one.
func (c *awsConfig) renew(ctx context.Context, address, name, proof string, members map[string]string) (gjson.Result, error) {
	body, err := json.Marshal(members)
	if err != nil {
		return gjson.Result{}, err
	}
	r, err := post(ctx, address, "application/json", body)
	if err != nil {
		return gjson.Result{}, err
	}
	if proof != "" {
		r.Header.Set("DPoP", proof)
	}
	answer, err := c.call(r, name, jsonRefusal)
	if err != nil {
		return gjson.Result{}, err
	}
	if !protocol.ValidJSON(answer) {
		return gjson.Result{}, fmt.Errorf("%s: the answer is no JSON", name)
	}
	return gjson.ParseBytes(answer), nil
}

// login has the credentials of a session of `aws login`, which are in its file, and renews them
// there (credentials/logincreds of the SDK).
func (c *awsConfig) login(session string) aws.CredentialsProvider {
	sum := sha256.Sum256([]byte(strings.TrimSpace(session)))
	dir := os.Getenv("AWS_LOGIN_CACHE_DIRECTORY")
	if dir == "" {
		dir = awsFile("login", "cache")
	}
	path := filepath.Join(dir, hex.EncodeToString(sum[:])+".json")
	return aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
		f, err := readLogin(path)
		if err != nil {
			return aws.Credentials{}, fmt.Errorf("load login token: %w", err)
		}
		if err := f.check(); err != nil {
			return aws.Credentials{}, err
		}
		if !time.Now().Before(f.expires("accessToken", "expiresAt")) {
			if err := c.renewLogin(ctx, f); err != nil {
				return aws.Credentials{}, fmt.Errorf("renew login token: %w", err)
			}
		}
		return aws.Credentials{
			AccessKeyID: f.get("accessToken", "accessKeyId"), SecretAccessKey: f.get("accessToken", "secretAccessKey"), SessionToken: f.get("accessToken", "sessionToken"),
			CanExpire: true, Expires: f.expires("accessToken", "expiresAt"),
		}, nil
	})
}

// check finds what is missing in a file of `aws login`.
func (f *awsLoginFile) check() error {
	for _, names := range [][]string{
		{"accessToken", "accessKeyId"}, {"accessToken", "secretAccessKey"}, {"accessToken", "sessionToken"}, {"accessToken", "accountId"},
		{"clientId"}, {"refreshToken"}, {"dpopKey"},
	} {
		if f.get(names...) == "" {
			return fmt.Errorf("validate login token: missing %s", strings.Join(names, "."))
		}
	}
	if f.expires("accessToken", "expiresAt").IsZero() {
		return errors.New("validate login token: missing accessToken.expiresAt")
	}
	return nil
}

// renewLogin renews the credentials in a file of `aws login`.
func (c *awsConfig) renewLogin(ctx context.Context, f *awsLoginFile) error {
	const name = "operation error Signin: CreateOAuth2Token"
	endpoint, err := c.endpoint(signinService, c.region)
	if err != nil {
		return err
	}
	address := strings.TrimSuffix(endpoint, "/") + "/v1/token"
	proof, err := dpop(f.get("dpopKey"), address, time.Now())
	if err != nil {
		return err
	}
	got, err := c.renew(ctx, address, name, proof, map[string]string{"clientId": f.get("clientId"), "refreshToken": f.get("refreshToken"), "grantType": "refresh_token"})
	if err != nil {
		return err
	}
	access := f.members["accessToken"].(map[string]any) // [awsLoginFile.check] has seen members of it
	for _, key := range []string{"accessKeyId", "secretAccessKey", "sessionToken"} {
		access[key] = got.Get("accessToken." + key).Str
	}
	access["expiresAt"] = time.Now().Add(time.Duration(got.Get("expiresIn").Int()) * time.Second).UTC().Format(time.RFC3339Nano)
	f.members["refreshToken"] = got.Get("refreshToken").Str
	if err := f.check(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return f.write()
}

// dpop proves by a signature that who posts to address has the key of a login (RFC 9449).
func dpop(key, address string, at time.Time) (string, error) {
	block, _ := pem.Decode([]byte(key))
	if block == nil {
		return "", errors.New("the dpopKey of the login is not PEM")
	}
	private, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return "", fmt.Errorf("the dpopKey of the login: %w", err)
	}
	point, err := private.PublicKey.Bytes() // 4, X, Y
	if err != nil || len(point) != 65 {
		return "", errors.New("the dpopKey of the login is not on the curve P-256")
	}
	encode := base64.RawURLEncoding.EncodeToString
	header, err := json.Marshal(map[string]any{"typ": "dpop+jwt", "alg": "ES256", "jwk": map[string]string{
		"kty": "EC", "crv": "P-256", "x": encode(point[1:33]), "y": encode(point[33:]),
	}})
	if err != nil {
		return "", err
	}
	claims, err := json.Marshal(map[string]any{"jti": rand.Text(), "htm": http.MethodPost, "htu": address, "iat": at.Unix()})
	if err != nil {
		return "", err
	}
	signed := encode(header) + "." + encode(claims)
	sum := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, private, sum[:])
	if err != nil {
		return "", err
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return signed + "." + encode(signature), nil
}
