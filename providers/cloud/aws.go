package cloud

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"

	"troupe/protocol"
	"troupe/providers"
)

// awsDomains are the domains of AWS's endpoints, those of private links among
// them.
var awsDomains = []string{".amazonaws.com", ".amazonaws.com.cn", ".api.aws"}

// awsRegion is the region of requests where nobody names one.
const awsRegion = "us-east-1"

// bearerVariable holds a key of Bedrock, which needs no signature.
const bearerVariable = "AWS_BEARER_TOKEN_BEDROCK"

// awsVariables are those that an entry of auth.json may have for itself.
var awsVariables = []string{
	bearerVariable, "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE",
	"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_REGION", "AWS_DEFAULT_REGION",
}

// awsCloud finds the credentials that AWS's own tools use, with AWS's SDK: environment, web
// identity, profiles, container, machine. The sources and their order are those of
// https://docs.aws.amazon.com/sdk-for-go/v2/developer-guide/configure-gosdk.html.
type awsCloud struct {
	proxy    func(*http.Request) (*url.URL, error) // to login services; nil obeys the environment
	accounts accounts[*awsSigner]
}

// Found implements [providers.Cloud]. A file of profiles alone does not count:
// it is there for something else on most machines.
func (*awsCloud) Found(env func(string) string) bool {
	if env("AWS_ACCESS_KEY_ID") != "" && env("AWS_SECRET_ACCESS_KEY") != "" {
		return true
	}
	for _, name := range []string{
		bearerVariable, "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE",
		"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
	} {
		if env(name) != "" {
			return true
		}
	}
	return false
}

// regionMark stands for the region in a base URL.
const regionMark = "{AWS_REGION}"

// Address implements [providers.Cloud]: it fills in the region, of the variables,
// of the profile, or the usual one.
func (c *awsCloud) Address(baseURL string, _ bool, env func(string) string) (string, error) {
	if !strings.Contains(baseURL, regionMark) {
		return baseURL, nil
	}
	region := regionOf(env)
	if region == "" {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		options, _ := c.options(env)
		if cfg, err := config.LoadDefaultConfig(ctx, options...); err == nil { // reads files only
			region = cfg.Region
		}
	}
	region = cmp.Or(region, awsRegion)
	if !isRegion().MatchString(region) {
		return "", protocol.ErrorInvalid.Errorf("The region of AWS is not one: %.40q", region)
	}
	return strings.ReplaceAll(baseURL, regionMark, region), nil
}

func regionOf(env func(string) string) string {
	if region := env("AWS_REGION"); region != "" {
		return region
	}
	return env("AWS_DEFAULT_REGION")
}

var (
	isRegion   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9-]{1,40}$`) })
	hostRegion = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\.([a-z]{2,3}(?:-[a-z]+)+-[0-9]+)\.`) })
)

// Signer implements [providers.Cloud].
func (c *awsCloud) Signer(env func(string) string) providers.Signer {
	return c.accounts.of(look(env, awsVariables), func(account string) *awsSigner {
		s := &awsSigner{account: account, bearer: strings.TrimSpace(env(bearerVariable)), region: regionOf(env)}
		s.options, s.keys = c.options(env)
		return s
	})
}

// options returns the settings that differ from the environment of the process, which the SDK
// reads itself. keys are the static keys of env, or nil if the SDK has to find credentials.
func (c *awsCloud) options(env func(string) string) (options []func(*config.LoadOptions) error, keys aws.CredentialsProvider) {
	options = []func(*config.LoadOptions) error{
		config.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} }),
		config.WithEC2RoleCredentialOptions(func(o *ec2rolecreds.Options) {
			// Outside a cloud the service does not answer, and a prompt must not wait for it.
			o.Client = imds.New(imds.Options{HTTPClient: &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}, Retryer: aws.NopRetryer{}})
		}),
	}
	if c.proxy != nil {
		// The SDK adds the certificates of AWS_CA_BUNDLE to its own client only.
		options = append(options, config.WithHTTPClient(awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.Proxy = c.proxy })))
	}
	if region := regionOf(env); region != "" {
		options = append(options, config.WithRegion(region))
	}
	if file := env("AWS_CONFIG_FILE"); file != "" {
		options = append(options, config.WithSharedConfigFiles([]string{file}))
	}
	if file := env("AWS_SHARED_CREDENTIALS_FILE"); file != "" {
		options = append(options, config.WithSharedCredentialsFiles([]string{file}))
	}
	key, secret, token, profile := env("AWS_ACCESS_KEY_ID"), env("AWS_SECRET_ACCESS_KEY"), env("AWS_SESSION_TOKEN"), env("AWS_PROFILE")
	ownKey, ownProfile := key != os.Getenv("AWS_ACCESS_KEY_ID"), profile != os.Getenv("AWS_PROFILE") // the entry's
	if ownProfile {
		options = append(options, config.WithSharedConfigProfile(profile))
	}
	if ownKey && token == os.Getenv("AWS_SESSION_TOKEN") {
		token = "" // it belongs to the key of the process
	}
	if key != "" && secret != "" && !ownProfile { // a profile of the entry goes before keys, as --profile and pi have it
		keys = aws.NewCredentialsCache(credentials.NewStaticCredentialsProvider(key, secret, token))
		options = append(options, config.WithCredentialsProvider(keys))
	}
	return options, keys
}

// awsSigner signs the requests of one account with Signature Version 4, or
// gives them its key.
type awsSigner struct {
	account string
	bearer  string
	region  string // "" for the profile's
	options []func(*config.LoadOptions) error
	keys    aws.CredentialsProvider // static keys of the variables; nil if the SDK finds credentials

	mu     sync.Mutex
	loaded *aws.Config
}

// Account implements [providers.Signer].
func (s *awsSigner) Account() string { return "aws " + s.account }

// Forget implements [providers.Signer].
func (s *awsSigner) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loaded = nil
}

// Sign implements [providers.Signer].
func (s *awsSigner) Sign(ctx context.Context, address string, body []byte) (map[string]string, error) {
	if err := allow(address, awsDomains); err != nil {
		return nil, err
	}
	if s.bearer != "" {
		return map[string]string{"Authorization": "Bearer " + s.bearer}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cfg, err := s.load(ctx)
	if err != nil {
		return nil, err
	}
	cred, err := cfg.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, awsHint(err)
	}
	region := awsRegion
	if match := hostRegion().FindStringSubmatch(hostOf(address)); match != nil {
		region = match[1]
	} else if cfg.Region != "" {
		region = cfg.Region
	}
	return signV4(ctx, address, body, cred, region, time.Now())
}

// load reads the configuration once, and again when it could not be read.
func (s *awsSigner) load(ctx context.Context) (*aws.Config, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loaded == nil {
		cfg, err := config.LoadDefaultConfig(ctx, s.options...)
		if _, is := errors.AsType[config.SharedConfigProfileNotExistError](err); is && s.keys != nil { // AWS_PROFILE names no profile, but there are keys
			cfg, err = aws.Config{Region: s.region, Credentials: s.keys}, nil
		}
		if err != nil {
			return nil, awsHint(err)
		}
		s.loaded = &cfg
	}
	return s.loaded, nil
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// signV4 signs the host, the time and the body. Other headers are left out of
// the signature: what is on the way may touch them.
func signV4(ctx context.Context, address string, body []byte, cred aws.Credentials, region string, at time.Time) (map[string]string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, nil)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	hash := hex.EncodeToString(sum[:])
	r.Header.Set("X-Amz-Content-Sha256", hash)
	if err := signRequest(ctx, r, hash, cred, "bedrock", region, at); err != nil {
		return nil, err
	}
	signed := map[string]string{}
	for name := range r.Header {
		signed[name] = r.Header.Get(name)
	}
	return signed, nil
}

// signRequest is how the library is called: its path is escaped a second time, as all
// services but one want it.
func signRequest(ctx context.Context, r *http.Request, hash string, cred aws.Credentials, service, region string, at time.Time) error {
	return v4.NewSigner().SignHTTP(ctx, cred, r, hash, service, region, at)
}

// awsHint says what to do about the failures that have a cure.
func awsHint(err error) error {
	text, lower := err.Error(), strings.ToLower(err.Error())
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case strings.Contains(lower, "login token"), strings.Contains(lower, "signin"):
		text += "\n\nLog in again with `aws login`, with --profile NAME if AWS_PROFILE names one."
	case strings.Contains(lower, "sso"):
		text += "\n\nLog in again with `aws sso login`, with --profile NAME if AWS_PROFILE names one."
	case strings.Contains(lower, "no ec2 imds role found"), strings.Contains(lower, "failed to refresh cached credentials"):
		text += "\n\nSet " + bearerVariable + ", AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
	}
	return protocol.ErrorAuth.Errorf("No credentials for AWS: %s", providers.MaskKeys(text))
}
