package cloud

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/tidwall/gjson"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"troupe/protocol"
	"troupe/protocol/bounded"
	"troupe/providers"
)

// googleDomains are the domains of Vertex AI.
var googleDomains = []string{".aiplatform.googleapis.com", "-aiplatform.googleapis.com", ".rep.googleapis.com"}

// googleScope is the scope of Vertex AI.
const googleScope = "https://www.googleapis.com/auth/cloud-platform"

// googleVariables are those that an entry of auth.json may have for itself.
var googleVariables = []string{"GOOGLE_APPLICATION_CREDENTIALS", "CLOUDSDK_CONFIG", "GOOGLE_CLOUD_QUOTA_PROJECT"}

// googleCloud has Application Default Credentials, by Google's own library.
type googleCloud struct {
	home     string
	client   *http.Client // to login services; nil is the network
	accounts accounts[*googleSigner]
}

// Found implements [providers.Cloud]: there is a file of credentials, and the
// place of the models is known.
func (c *googleCloud) Found(env func(string) string) bool {
	file := c.file(env)
	_, err := os.Stat(file)
	return err == nil && projectOf(env, file) != "" && env("GOOGLE_CLOUD_LOCATION") != ""
}

// file is where the credentials are if they are in a file.
func (c *googleCloud) file(env func(string) string) string {
	if file := env("GOOGLE_APPLICATION_CREDENTIALS"); file != "" {
		return file
	}
	dir := cmp.Or(env("CLOUDSDK_CONFIG"), filepath.Join(c.home, ".config", "gcloud"))
	return filepath.Join(dir, "application_default_credentials.json")
}

// projectOf is the project of the variables, or that of a service account.
func projectOf(env func(string) string, file string) string {
	for _, name := range []string{"GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT"} {
		if project := env(name); project != "" {
			return project
		}
	}
	c, _ := readGoogle(file)
	return c.Project
}

// googleFile is what we read of a file of credentials.
type googleFile struct {
	Type    string `json:"type"`
	Project string `json:"project_id"`
	Quota   string `json:"quota_project_id"`
	text    []byte
}

// maxGoogleFile is in bytes: these files have some hundreds.
const maxGoogleFile = 64 << 10

func readGoogle(file string) (c googleFile, err error) {
	if c.text, err = bounded.ReadFile(file, maxGoogleFile); err != nil {
		return c, err
	}
	if json.Unmarshal(c.text, &c) != nil {
		return c, errors.New(file + " is not a JSON object of credentials")
	}
	return c, nil
}

var isPlace = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9.:_-]{1,100}$`) })

// Address implements [providers.Cloud]: it puts project and location before the
// publisher, where a key has neither, and the location before the host.
func (c *googleCloud) Address(baseURL string, keyed bool, env func(string) string) (string, error) {
	before, publisher, found := strings.Cut(baseURL, "/publishers/")
	if keyed || !found || strings.Contains(before, "/projects/") {
		return baseURL, nil
	}
	project, location := projectOf(env, c.file(env)), env("GOOGLE_CLOUD_LOCATION")
	if project == "" || location == "" {
		return "", protocol.ErrorInvalid.Errorf("Vertex AI needs to know where its models are: set GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION (global, or a region as us-east5)")
	}
	if !isPlace().MatchString(project) || !isPlace().MatchString(location) {
		return "", protocol.ErrorInvalid.Errorf("GOOGLE_CLOUD_PROJECT or GOOGLE_CLOUD_LOCATION is not a name: %.40q, %.40q", project, location)
	}
	u, err := url.Parse(before)
	if err != nil {
		return "", protocol.ErrorInvalid.Errorf("The base URL is not a URL")
	}
	if u.Host == "aiplatform.googleapis.com" {
		u.Host = googleHost(location)
	}
	return u.String() + "/projects/" + project + "/locations/" + location + "/publishers/" + publisher, nil
}

// googleHost is where the models of a location are: a region, two continents with hosts of
// another form, or anywhere.
func googleHost(location string) string {
	switch location {
	case "global":
		return "aiplatform.googleapis.com"
	case "us", "eu":
		return "aiplatform." + location + ".rep.googleapis.com"
	}
	return location + "-aiplatform.googleapis.com"
}

// Signer implements [providers.Cloud].
func (c *googleCloud) Signer(env func(string) string) providers.Signer {
	return c.accounts.of(look(env, googleVariables), func(account string) *googleSigner {
		client := c.client
		if client == nil {
			client = clientOf(http.DefaultTransport)
		}
		return &googleSigner{
			account: account, client: client, file: c.file(env), named: env("GOOGLE_APPLICATION_CREDENTIALS") != "",
			quota: env("GOOGLE_CLOUD_QUOTA_PROJECT"), tokens: newTokens(),
		}
	})
}

// googleSigner gives requests the access token of one account.
type googleSigner struct {
	account string
	client  *http.Client
	file    string
	named   bool   // somebody said that the file is there
	quota   string // the project that pays; "" for the one of the file
	tokens  *tokens
}

// Account implements [providers.Signer].
func (s *googleSigner) Account() string { return "google " + s.account }

// Forget implements [providers.Signer].
func (s *googleSigner) Forget() { s.tokens.forget() }

// Sign implements [providers.Signer].
func (s *googleSigner) Sign(ctx context.Context, address string, _ []byte) (map[string]string, error) {
	if err := allow(address, googleDomains); err != nil {
		return nil, err
	}
	file, err := readGoogle(s.file)
	if err != nil && (s.named || !errors.Is(err, fs.ErrNotExist)) {
		return nil, protocol.ErrorAuth.Errorf("No credentials for Google: %v", err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	value, err := s.tokens.get(context.WithValue(ctx, oauth2.HTTPClient, s.client), file.fetch)
	if err != nil {
		return nil, googleHint(err)
	}
	signed := map[string]string{"Authorization": "Bearer " + value}
	file.Quota = cmp.Or(s.quota, file.Quota)
	if file.Quota != "" {
		signed["X-Goog-User-Project"] = file.Quota
	}
	return signed, nil
}

// fetch gets an access token for the credentials of a file, or without one for
// those of the machine.
func (c googleFile) fetch(ctx context.Context) (token, error) {
	if c.text != nil && !safeAddresses(gjson.ParseBytes(c.text)) {
		return token{}, errors.New("an address in the file of credentials is neither https nor of this machine")
	}
	var cred *google.Credentials
	var err error
	if c.text == nil {
		cred, err = google.FindDefaultCredentials(ctx, googleScope)
	} else {
		cred, err = google.CredentialsFromJSONWithType(ctx, c.text, google.CredentialsType(c.Type), googleScope)
	}
	if err != nil {
		return token{}, err
	}
	got, err := cred.TokenSource.Token()
	if err != nil {
		return token{}, err
	}
	return token{got.AccessToken, got.Expiry}, nil
}

// safeAddresses says whether nobody else can read what goes to the addresses in a file of
// credentials, wherever they stand: those of tokens, of identities, of whom to become.
func safeAddresses(v gjson.Result) bool {
	safe := true
	switch {
	case v.IsObject(), v.IsArray():
		v.ForEach(func(_, member gjson.Result) bool {
			safe = safeAddresses(member)
			return safe
		})
	case v.Type == gjson.String && len(v.Str) > 5 && strings.EqualFold(v.Str[:5], "http:"):
		u, err := url.Parse(v.Str)
		safe = err == nil && (providers.IsLoopback(u.Hostname()) || isMetadata(u))
	}
	return safe
}

// isMetadata says whether a URL is of the metadata service of a machine in a
// cloud, which speaks no TLS.
func isMetadata(u *url.URL) bool {
	return u.Hostname() == "169.254.169.254" || u.Hostname() == "metadata.google.internal"
}

// googleHint says what to do about the failures that have a cure.
func googleHint(err error) error {
	text := err.Error()
	if refused, is := errors.AsType[*oauth2.RetrieveError](err); is { // not the body: it may repeat the request
		text = strings.TrimSpace(fmt.Sprintf("the login service refuses (HTTP %d) %s %.200s", refused.Response.StatusCode, refused.ErrorCode, refused.ErrorDescription))
	}
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case strings.Contains(text, "invalid_grant"), strings.Contains(text, "invalid_rapt"), strings.Contains(text, "could not find default credentials"):
		text += "\n\nRun `gcloud auth application-default login`, or set GOOGLE_CLOUD_API_KEY."
	}
	return protocol.ErrorAuth.Errorf("No credentials for Google: %s", providers.MaskKeys(text))
}
