package cloud

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
	"github.com/aws/aws-sdk-go-v2/credentials/processcreds"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"

	"troupe/protocol/bounded"
)

// awsInput is what an account has for itself; the rest is the process's.
type awsInput struct {
	region                     string                  // "" for the profile's
	configuration, credentials string                  // the files of profiles
	profile                    string                  // "" for the process's
	keys                       aws.CredentialsProvider // nil where a profile has them, or somebody has to be asked
}

// newAWSInput takes from env what an entry of auth.json may have for itself.
func newAWSInput(env func(string) string) awsInput {
	in := awsInput{
		region:        regionOf(env),
		configuration: cmp.Or(env("AWS_CONFIG_FILE"), os.Getenv("AWS_CONFIG_FILE"), awsFile("config")),
		credentials:   cmp.Or(env("AWS_SHARED_CREDENTIALS_FILE"), os.Getenv("AWS_SHARED_CREDENTIALS_FILE"), awsFile("credentials")),
	}
	key, secret, token, profile := env("AWS_ACCESS_KEY_ID"), env("AWS_SECRET_ACCESS_KEY"), env("AWS_SESSION_TOKEN"), env("AWS_PROFILE")
	ownKey, ownProfile := key != os.Getenv("AWS_ACCESS_KEY_ID"), profile != os.Getenv("AWS_PROFILE") // the entry's
	if ownProfile {
		in.profile = profile
	}
	if ownKey && token == os.Getenv("AWS_SESSION_TOKEN") {
		token = "" // it belongs to the key of the process
	}
	if key != "" && secret != "" && !ownProfile { // a profile of the entry goes before keys, as --profile and pi have it
		in.keys = credentials.NewStaticCredentialsProvider(key, secret, token)
	}
	return in
}

// loadProfile reads the profile that is asked for, or the default one, which need not be there.
func (in awsInput) loadProfile() (*awsProfile, error) {
	asked := cmp.Or(in.profile, os.Getenv("AWS_PROFILE"))
	name := cmp.Or(asked, os.Getenv("AWS_DEFAULT_PROFILE"), "default")
	sections, err := readProfiles(in.configuration, in.credentials)
	if err != nil {
		return nil, err
	}
	p, err := sections.profile(name, map[string]bool{})
	if _, missing := err.(*noProfileError); missing && asked == "" {
		return &awsProfile{name: name}, nil
	}
	return p, err
}

// regionOf is the region of the account, "" where nobody names one.
func (in awsInput) regionOf(p *awsProfile) string {
	return cmp.Or(in.region, os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"), p.get("region"))
}

// awsConfig is where one account gets its credentials, and how services of AWS are asked for
// them.
type awsConfig struct {
	profile        *awsProfile
	region         string // "" where nobody names one
	client         *http.Client
	fips, dual     bool // which endpoints
	ignoreEndpoint bool // whether configured ones do not count
	credentials    aws.CredentialsProvider
}

// loadAWS reads the configuration of an account as config.LoadDefaultConfig of AWS's SDK for Go
// does. It is not called, as it links the tables of endpoints of four services, which would be
// paid for at every start (docs/decisions/0019-aws-chain.md); it is the oracle of the tests.
func loadAWS(ctx context.Context, in awsInput, proxy func(*http.Request) (*url.URL, error)) (*awsConfig, error) {
	for _, s := range []awsSwitch{fipsSwitch, dualSwitch, ignoreSwitch} {
		if err := s.check(); err != nil {
			return nil, err
		}
	}
	p, err := in.loadProfile()
	if _, missing := errors.AsType[*noProfileError](err); missing && in.keys != nil { // which does not matter to who has keys
		return &awsConfig{region: in.region, credentials: in.keys}, nil
	}
	if err != nil {
		return nil, err
	}
	client, err := awsClient(proxy, cmp.Or(os.Getenv("AWS_CA_BUNDLE"), p.get("ca_bundle")))
	if err != nil {
		return nil, err
	}
	c := &awsConfig{
		profile: p, region: in.regionOf(p), client: client, credentials: in.keys,
		fips: fipsSwitch.on(p), dual: dualSwitch.on(p), ignoreEndpoint: ignoreSwitch.on(p),
	}
	if c.credentials == nil {
		c.credentials, err = c.chain(ctx, in.profile != "")
	}
	return c, err
}

// awsSwitch is a setting that is on or off: of the environment, or else of the profile.
type awsSwitch struct{ variable, key string }

var (
	fipsSwitch   = awsSwitch{"AWS_USE_FIPS_ENDPOINT", "use_fips_endpoint"}
	dualSwitch   = awsSwitch{"AWS_USE_DUALSTACK_ENDPOINT", "use_dualstack_endpoint"}
	ignoreSwitch = awsSwitch{"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "ignore_configured_endpoint_urls"}
)

// check refuses another value of the variable; in profiles, that is off.
func (s awsSwitch) check() error {
	if value := os.Getenv(s.variable); value != "" && !strings.EqualFold(value, "true") && !strings.EqualFold(value, "false") {
		return fmt.Errorf("invalid value for environment variable, %s=%s, need true or false", s.variable, value)
	}
	return nil
}

func (s awsSwitch) on(p *awsProfile) bool {
	return strings.EqualFold(cmp.Or(os.Getenv(s.variable), p.get(s.key)), "true")
}

// awsClient speaks to services of AWS, and trusts the certificates in bundle alone if there is
// one. Connections do not wait for the next time, which is in an hour.
func awsClient(proxy func(*http.Request) (*url.URL, error), bundle string) (*http.Client, error) {
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	network := &http.Transport{Proxy: proxy, TLSHandshakeTimeout: patience, ForceAttemptHTTP2: true, DisableKeepAlives: true}
	if bundle != "" {
		text, err := bounded.ReadFile(bundle, maxProfiles)
		if err != nil {
			return nil, fmt.Errorf("failed to read custom CA bundle PEM file: %w", err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("failed to load custom CA bundle PEM file %s", bundle)
		}
		network.TLSClientConfig = &tls.Config{RootCAs: roots}
	}
	return clientOf(network), nil
}

// chain finds who has credentials: a profile that was asked for, keys of the environment, web
// identity, the profile (resolveCredentialChain of the SDK's config).
func (c *awsConfig) chain(ctx context.Context, asked bool) (aws.CredentialsProvider, error) {
	keys := environmentKeys()
	switch file := os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE"); {
	case asked:
	case keys.HasKeys():
		return credentials.StaticCredentialsProvider{Value: keys}, nil
	case file != "":
		return c.webIdentity(file, os.Getenv("AWS_ROLE_ARN"), os.Getenv("AWS_ROLE_SESSION_NAME"))
	}
	return c.ofProfile(ctx, c.profile)
}

// environmentKeys are the keys in the process's environment, by their old names too.
func environmentKeys() aws.Credentials {
	return aws.Credentials{
		AccessKeyID:     cmp.Or(os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_ACCESS_KEY")),
		SecretAccessKey: cmp.Or(os.Getenv("AWS_SECRET_ACCESS_KEY"), os.Getenv("AWS_SECRET_KEY")),
		SessionToken:    os.Getenv("AWS_SESSION_TOKEN"),
	}
}

// ofProfile has the credentials of a profile, or of the role that these assume. Where it has
// none, the container is asked, and then the machine (resolveCredsFromProfile of the SDK's
// config).
func (c *awsConfig) ofProfile(ctx context.Context, p *awsProfile) (found aws.CredentialsProvider, err error) {
	switch {
	case p.source != nil:
		found, err = c.ofProfile(ctx, p.source)
	case p.hasKeys():
		found = credentials.NewStaticCredentialsProvider(p.get("aws_access_key_id"), p.get("aws_secret_access_key"), p.get("aws_session_token"))
	case p.set("credential_source"):
		found, err = c.namedSource(ctx, p.get("credential_source"))
	case p.set("web_identity_token_file"):
		return c.webIdentity(p.get("web_identity_token_file"), p.get("role_arn"), p.get("role_session_name"))
	case p.set("sso_session"), p.set(legacySSO...):
		found, err = c.sso(p)
	case p.set("login_session"):
		found = cached(c.login(p.get("login_session")), 0)
	case p.set("credential_process"):
		// The library gives the program its own input, for codes that somebody types. Ours
		// are commands of a client.
		found = processcreds.NewProvider("exec </dev/null\n" + p.get("credential_process"))
	default:
		if found, err = c.container(ctx); found == nil && err == nil {
			found = machine()
		}
	}
	if err != nil || !p.set("role_arn") {
		return found, err
	}
	return c.assumeRole(p, found)
}

// namedSource is what credential_source names.
func (c *awsConfig) namedSource(ctx context.Context, name string) (aws.CredentialsProvider, error) {
	switch name {
	case "Environment":
		return credentials.StaticCredentialsProvider{Value: environmentKeys()}, nil
	case "Ec2InstanceMetadata":
		return machine(), nil
	case "EcsContainer":
		found, err := c.container(ctx)
		if found == nil && err == nil {
			err = errors.New("credential_source is EcsContainer, but neither AWS_CONTAINER_CREDENTIALS_RELATIVE_URI nor AWS_CONTAINER_CREDENTIALS_FULL_URI is set")
		}
		return found, err
	}
	return nil, fmt.Errorf("credential_source is %s, and not EcsContainer, Ec2InstanceMetadata or Environment", name)
}

// machine asks the machine's metadata service. On a laptop nobody answers there, and a prompt
// must not wait for it.
func machine() aws.CredentialsProvider {
	return cached(ec2rolecreds.New(func(o *ec2rolecreds.Options) {
		o.Client = imds.New(imds.Options{HTTPClient: &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}, Retryer: aws.NopRetryer{}})
	}), 0)
}

// container asks the service that a container has for its credentials; nil where there is none.
func (c *awsConfig) container(ctx context.Context) (aws.CredentialsProvider, error) {
	address := os.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI")
	if path := os.Getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"); path != "" {
		address = "http://169.254.170.2" + path
	} else if address == "" {
		return nil, nil
	} else if err := allowContainer(ctx, address); err != nil {
		return nil, err
	}
	return cached(endpointcreds.New(address, func(o *endpointcreds.Options) {
		o.HTTPClient, o.Retryer = c.client, aws.NopRetryer{}
		o.AuthorizationToken = os.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN")
		if file := os.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); file != "" { // read each time: it is renewed
			o.AuthorizationTokenProvider = endpointcreds.TokenProviderFunc(func() (string, error) {
				token, err := bounded.ReadFile(file, maxAWS)
				return string(token), err
			})
		}
	}), 5*time.Minute), nil
}

// containerHosts are where containers ask, besides their own machine: ECS, and EKS by IPv4 and
// IPv6.
var containerHosts = []net.IP{net.IPv4(169, 254, 170, 2), net.IPv4(169, 254, 170, 23), net.ParseIP("fd00:ec2::23")}

// allowContainer refuses to ask without TLS elsewhere than a container's own service.
func allowContainer(ctx context.Context, address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return fmt.Errorf("AWS_CONTAINER_CREDENTIALS_FULL_URI is not a URL: %w", err)
	case u.Hostname() == "":
		return errors.New("AWS_CONTAINER_CREDENTIALS_FULL_URI names no host")
	case u.Scheme != "http":
		return nil
	}
	addresses, err := net.DefaultResolver.LookupHost(ctx, u.Hostname()) // an address is its own
	if err != nil {
		return fmt.Errorf("AWS_CONTAINER_CREDENTIALS_FULL_URI: failed to resolve host %q: %w", u.Hostname(), err)
	}
	for _, text := range addresses {
		ip := net.ParseIP(text)
		if ip.IsLoopback() {
			continue
		}
		known := false
		for _, host := range containerHosts {
			known = known || host.Equal(ip)
		}
		if !known {
			return fmt.Errorf("AWS_CONTAINER_CREDENTIALS_FULL_URI: invalid endpoint host, %q, only loopback/ecs/eks hosts are allowed", u.Hostname())
		}
	}
	return nil
}

// cached keeps credentials until window before they expire.
func cached(p aws.CredentialsProvider, window time.Duration) aws.CredentialsProvider {
	if _, is := p.(*aws.CredentialsCache); is {
		return p
	}
	return aws.NewCredentialsCache(p, func(o *aws.CredentialsCacheOptions) { o.ExpiryWindow = window })
}
