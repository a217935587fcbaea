package cloud

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"golang.org/x/crypto/pkcs12"

	"troupe/protocol/bounded"
	"troupe/providers"
)

// maxCertificate bounds a file with certificates and a key, in bytes.
const maxCertificate = 1 << 20

// clientAssertion is the type of a signed token by which an application shows who it is, RFC 7523.
const clientAssertion = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

// secret gets a token for an application by its password.
func (l *entraLogin) secret(ctx context.Context, scope string) (token, error) {
	at, err := l.endpoint(ctx, true)
	if err != nil {
		return token{}, err
	}
	return l.grant(ctx, at, scope, url.Values{"grant_type": {"client_credentials"}, "client_secret": {l.env("AZURE_CLIENT_SECRET")}})
}

// workload gets a token for an application by one that somebody else vouches for it with, as
// Kubernetes does: the file is read anew each time.
func (l *entraLogin) workload(ctx context.Context, scope string) (token, error) {
	for _, name := range []string{"AZURE_CLIENT_ID", "AZURE_FEDERATED_TOKEN_FILE", "AZURE_TENANT_ID"} {
		if l.env(name) == "" {
			return token{}, absentf("%s is not set", name)
		}
	}
	at, err := l.endpoint(ctx, true)
	if err != nil {
		return token{}, err
	}
	file := l.env("AZURE_FEDERATED_TOKEN_FILE")
	text, err := bounded.ReadFile(file, maxToken)
	if err != nil {
		return token{}, fmt.Errorf("AZURE_FEDERATED_TOKEN_FILE, %s: %w", file, err)
	}
	return l.assert(ctx, at, scope, strings.TrimSpace(string(text)))
}

// environment gets a token for what the other variables say: an application with a
// certificate, or a user with a password.
func (l *entraLogin) environment(ctx context.Context, scope string) (token, error) {
	for _, name := range []string{"AZURE_TENANT_ID", "AZURE_CLIENT_ID"} {
		if l.env(name) == "" {
			return token{}, absentf("%s is not set", name)
		}
	}
	switch {
	case l.env("AZURE_CLIENT_CERTIFICATE_PATH") != "":
		return l.certificate(ctx, scope)
	case l.env("AZURE_USERNAME") == "":
		return token{}, absentf("of its variables only AZURE_TENANT_ID and AZURE_CLIENT_ID are set")
	case l.env("AZURE_PASSWORD") == "":
		return token{}, absentf("AZURE_PASSWORD is not set")
	}
	return l.password(ctx, scope)
}

// certificate gets a token for an application that signs with its key.
func (l *entraLogin) certificate(ctx context.Context, scope string) (token, error) {
	file := l.env("AZURE_CLIENT_CERTIFICATE_PATH")
	text, err := bounded.ReadFile(file, maxCertificate)
	var id *certificates
	if err == nil {
		id, err = readCertificates(text, l.env("AZURE_CLIENT_CERTIFICATE_PASSWORD"))
	}
	if err != nil {
		return token{}, absentf("AZURE_CLIENT_CERTIFICATE_PATH, %s: %w", file, err)
	}
	at, err := l.endpoint(ctx, true)
	if err != nil {
		return token{}, err
	}
	chain := l.env("AZURE_CLIENT_SEND_CERTIFICATE_CHAIN")
	signed, err := id.assertion(at, l.env("AZURE_CLIENT_ID"), chain == "1" || strings.EqualFold(chain, "true"), l.isOld(), time.Now())
	if err != nil {
		return token{}, err
	}
	return l.assert(ctx, at, scope, signed)
}

// assert gets a token for an application by a signed token.
func (l *entraLogin) assert(ctx context.Context, at, scope, assertion string) (token, error) {
	got, err := l.grant(ctx, at, scope, url.Values{
		"grant_type": {"client_credentials"}, "client_info": {"1"}, "client_assertion_type": {clientAssertion}, "client_assertion": {assertion},
	})
	if err != nil {
		err = errors.New(l.mask(err.Error(), assertion))
	}
	return got, err
}

// password gets a token for a user that nobody asks for a second factor. Users whose passwords
// another service keeps have to log in otherwise: that service speaks WS-Trust.
func (l *entraLogin) password(ctx context.Context, scope string) (token, error) {
	at, err := l.endpoint(ctx, false)
	if err != nil {
		return token{}, err
	}
	user := l.env("AZURE_USERNAME")
	if !strings.EqualFold(l.env("AZURE_TENANT_ID"), "adfs") {
		u, err := url.Parse(l.authority())
		if err != nil {
			return token{}, err
		}
		a, err := l.get(ctx, "https://"+u.Host+"/common/UserRealm/"+url.PathEscape(user)+"?api-version=1.0")
		if err != nil {
			return token{}, err
		}
		switch kind := a.said.Get("account_type").Str; kind {
		case "Managed":
		case "Federated":
			return token{}, fmt.Errorf("AZURE_USERNAME is of a federated domain, whose WS-Trust login is not offered here: run `az login`, or use an application with AZURE_CLIENT_SECRET")
		default:
			return token{}, fmt.Errorf("AZURE_USERNAME has no kind of account that is known: %.40q", kind)
		}
	}
	return l.grant(ctx, at, scope, url.Values{"grant_type": {"password"}, "username": {user}, "password": {l.env("AZURE_PASSWORD")}, "client_info": {"1"}})
}

// grant asks for a token at the endpoint of a tenant.
func (l *entraLogin) grant(ctx context.Context, at, scope string, form url.Values) (token, error) {
	form.Set("client_id", l.env("AZURE_CLIENT_ID"))
	form.Set("scope", scope+" openid offline_access profile")
	a, err := l.ask(ctx, entraRequest{method: "POST", address: at, form: form})
	switch {
	case err != nil:
		return token{}, err
	case a.status != 200 && a.status != 201, a.said.Get("error").Str != "":
		return token{}, a.refusal()
	}
	return a.token()
}

// get asks for a document that describes something.
func (l *entraLogin) get(ctx context.Context, address string) (entraAnswer, error) {
	a, err := l.ask(ctx, entraRequest{method: "GET", address: address})
	if err == nil && (a.status != 200 && a.status != 201 || !a.said.IsObject()) {
		err = a.refusal()
	}
	return a, err
}

// trustedAuthorities are the login services of Microsoft's clouds.
var trustedAuthorities = []string{
	"login.microsoftonline.com", "login.microsoft.com", "login.windows.net", "sts.windows.net",
	"login.partner.microsoftonline.cn", "login.chinacloudapi.cn", "login.microsoftonline.de",
	"login.microsoftonline.us", "login.usgovcloudapi.net", "login-us.microsoftonline.com",
	"login.sovcloud-identity.fr", "login.sovcloud-identity.de", "login.sovcloud-identity.sg",
}

// authority is the address of a tenant's login service, with a slash at its end.
func (l *entraLogin) authority() string {
	host := l.env("AZURE_AUTHORITY_HOST")
	if host == "" {
		host = "https://" + trustedAuthorities[0]
	}
	return strings.TrimRight(host, "/") + "/" + l.env("AZURE_TENANT_ID") + "/"
}

// tenant is AZURE_TENANT_ID, "" where nobody says which.
func (l *entraLogin) tenant() (string, error) {
	tenant := l.env("AZURE_TENANT_ID")
	if strings.ContainsFunc(tenant, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '.' && c != '-'
	}) {
		return "", absentf("AZURE_TENANT_ID is neither an id nor a domain: %.60q", tenant)
	}
	return tenant, nil
}

// isOld says whether the login service is one of the kinds that Microsoft Entra has replaced:
// ADFS, and the dSTS of its own houses.
func (l *entraLogin) isOld() bool {
	u, err := url.Parse(strings.ToLower(l.authority()))
	return err == nil && (strings.HasPrefix(u.Path, "/adfs/") || strings.HasPrefix(u.Path, "/dstsv2/"))
}

// endpoint is where a tenant's tokens are asked for, as its login service says: its own, or that
// of a region for an application that wants it.
func (l *entraLogin) endpoint(ctx context.Context, application bool) (string, error) {
	tenant, err := l.tenant()
	if err != nil {
		return "", err
	}
	authority := l.authority()
	u, err := url.Parse(strings.ToLower(authority))
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return "", absentf("AZURE_AUTHORITY_HOST is not an https address: %.100q", l.env("AZURE_AUTHORITY_HOST"))
	}
	document, names, region := authority+"v2.0/.well-known/openid-configuration", []string{u.Host}, ""
	if application && !l.isOld() {
		if region, err = l.region(ctx); err != nil {
			return "", err
		}
	}
	switch {
	case strings.HasPrefix(u.Path, "/adfs/"):
		document = "https://" + u.Host + "/adfs/.well-known/openid-configuration"
	case l.isOld():
	case region != "":
		names = append(names, regionalHost(u.Host), region+"."+regionalHost(u.Host))
		document = "https://" + names[2] + u.Path + "v2.0/.well-known/openid-configuration"
	case !slices.Contains(trustedAuthorities, u.Host) && !providers.IsLoopback(u.Hostname()): // of this machine's Microsoft knows nothing
		a, err := l.get(ctx, "https://"+trustedAuthorities[0]+"/common/discovery/instance?"+url.Values{
			"api-version": {"1.1"}, "authorization_endpoint": {"https://" + u.Host + u.Path + "oauth2/v2.0/authorize"},
		}.Encode())
		if err != nil {
			return "", fmt.Errorf("AZURE_AUTHORITY_HOST, %s: Microsoft's directory of login services: %w", u.Host, err)
		}
		document, names = a.said.Get("tenant_discovery_endpoint").Str, append(names, aliasesOf(u.Host, a.said.Get("metadata"))...)
	}
	a, err := l.get(ctx, document)
	if err != nil {
		return "", fmt.Errorf("what the login service says of the tenant: %w", err)
	}
	at, err := url.Parse(strings.ReplaceAll(a.said.Get("token_endpoint").Str, "{tenant}", strings.ToLower(tenant)))
	issuer, wrong := url.Parse(a.said.Get("issuer").Str)
	switch {
	case err != nil || at.Scheme != "https" || at.Host == "": // a secret goes there
		return "", errors.New("the login service names no https address for tokens")
	case wrong != nil || !isIssuer(issuer, names):
		return "", fmt.Errorf("the login service at %s speaks for another: %.100s", u.Host, a.said.Get("issuer").Str)
	}
	return at.String(), nil
}

// isIssuer says whether whoever issues tokens is the login service that was asked, which has
// several names, or one of Microsoft's.
func isIssuer(issuer *url.URL, names []string) bool {
	host := strings.ToLower(issuer.Host)
	return slices.Contains(names, host) || slices.Contains(trustedAuthorities, host) || host != "" && strings.HasSuffix(names[0], "."+host)
}

// aliasesOf are the other names of a login service in Microsoft's directory.
func aliasesOf(host string, directory gjson.Result) []string {
	for _, one := range directory.Array() {
		var names []string
		for _, name := range one.Get("aliases").Array() {
			names = append(names, strings.ToLower(name.Str))
		}
		if slices.Contains(names, host) {
			return names
		}
	}
	return nil
}

// regionalHost is the domain of the regional login services of a cloud.
func regionalHost(host string) string {
	switch host {
	case "login.microsoftonline.com", "login.windows.net", "sts.windows.net":
		return "login.microsoft.com"
	case "login.chinacloudapi.cn":
		return "login.partner.microsoftonline.cn"
	case "login.usgovcloudapi.net":
		return "login.microsoftonline.us"
	}
	return host
}

// region is where an application wants to log in, "" for anywhere.
func (l *entraLogin) region(ctx context.Context) (string, error) {
	region := l.env("AZURE_REGIONAL_AUTHORITY_NAME")
	if region == "" {
		region = l.env("MSAL_FORCE_REGION")
	}
	switch {
	case strings.EqualFold(region, "DisableMsalForceRegion"):
		return "", nil
	case region != "TryAutoDetect":
		if region != "" && !isRegionLabel(region) {
			return "", fmt.Errorf("AZURE_REGIONAL_AUTHORITY_NAME is not a region: %.70q", region)
		}
		return region, nil
	}
	if region = l.env("REGION_NAME"); region == "" {
		ctx, cancel := context.WithTimeout(ctx, 4*time.Second)
		defer cancel()
		a, err := l.ask(ctx, entraRequest{method: "GET", address: imdsAddress + "/metadata/instance/compute?api-version=2021-02-01", header: map[string]string{"Metadata": "true"}})
		if err == nil && a.status == 200 {
			region = a.said.Get("location").Str
		}
	}
	if !isRegionLabel(region) {
		region = ""
	}
	return region, nil
}

// isRegionLabel says whether a region is one label of a domain name.
func isRegionLabel(region string) bool {
	return region != "" && len(region) <= 63 && region[0] >= 'a' && region[0] <= 'z' && region[len(region)-1] != '-' &&
		!strings.ContainsFunc(region, func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' })
}

// certificates are the key of an application and the certificates that came with it, that of
// the key first.
type certificates struct {
	key   *rsa.PrivateKey
	chain []*x509.Certificate
}

// readCertificates reads a file in the formats of Microsoft's libraries: PEM with a key that is
// not encrypted, or PKCS#12.
func readCertificates(text []byte, password string) (*certificates, error) {
	var blocks []*pem.Block
	if password == "" {
		for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
			blocks = append(blocks, block)
		}
	}
	if len(blocks) == 0 {
		var err error
		if blocks, err = pkcs12.ToPEM(text, password); err != nil {
			return nil, fmt.Errorf("neither PEM without a password nor PKCS#12 of the kinds that are known: %w", err)
		}
	}
	var found certificates
	for _, block := range blocks {
		var err error
		switch block.Type {
		case "CERTIFICATE":
			var one *x509.Certificate
			one, err = x509.ParseCertificate(block.Bytes)
			found.chain = append(found.chain, one)
		case "PRIVATE KEY", "RSA PRIVATE KEY":
			if found.key != nil {
				return nil, errors.New("there are several private keys in it")
			}
			found.key, err = readKey(block)
		}
		if err != nil {
			return nil, err
		}
	}
	if found.key == nil {
		return nil, errors.New("there is no private key in it")
	}
	own := slices.IndexFunc(found.chain, func(c *x509.Certificate) bool { return found.key.PublicKey.Equal(c.PublicKey) })
	if own < 0 {
		return nil, errors.New("there is no certificate of its private key in it")
	}
	one := found.chain[own]
	found.chain = slices.Insert(slices.Delete(found.chain, own, own+1), 0, one)
	return &found, nil
}

func readKey(block *pem.Block) (*rsa.PrivateKey, error) {
	if block.Type == "PRIVATE KEY" {
		if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
			if key, is := key.(*rsa.PrivateKey); is {
				return key, nil
			}
			return nil, errors.New("its private key is not of RSA")
		}
	}
	return x509.ParsePKCS1PrivateKey(block.Bytes)
}

// assertion is a token that an application signs for the endpoint that it is sent to, good for
// ten minutes: https://learn.microsoft.com/entra/identity-platform/certificate-credentials. old
// login services know another algorithm.
func (c *certificates) assertion(audience, client string, withChain, old bool, now time.Time) (string, error) {
	print256, print1 := sha256.Sum256(c.chain[0].Raw), sha1.Sum(c.chain[0].Raw)
	header := map[string]any{"alg": "PS256", "typ": "JWT", "x5t#S256": base64.StdEncoding.EncodeToString(print256[:])}
	if old {
		header = map[string]any{"alg": "RS256", "typ": "JWT", "x5t": base64.StdEncoding.EncodeToString(print1[:])}
	}
	if withChain {
		var chain []string
		for _, one := range c.chain {
			chain = append(chain, base64.StdEncoding.EncodeToString(one.Raw))
		}
		header["x5c"] = chain
	}
	var text string
	for _, part := range []map[string]any{header, {
		"aud": audience, "iss": client, "sub": client, "jti": rand.Text(), "nbf": now.Unix(), "exp": now.Add(10 * time.Minute).Unix(),
	}} {
		json, err := json.Marshal(part)
		if err != nil {
			return "", err
		}
		text += base64.RawURLEncoding.EncodeToString(json) + "."
	}
	text = strings.TrimSuffix(text, ".")
	sum := sha256.Sum256([]byte(text))
	sign := func() ([]byte, error) {
		return rsa.SignPSS(rand.Reader, c.key, crypto.SHA256, sum[:], &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
	}
	if old {
		sign = func() ([]byte, error) { return rsa.SignPKCS1v15(rand.Reader, c.key, crypto.SHA256, sum[:]) }
	}
	signature, err := sign()
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), err
}
