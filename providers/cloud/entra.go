package cloud

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	azurecloud "github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/tidwall/gjson"

	"troupe/protocol"
	"troupe/protocol/bounded"
	"troupe/providers"
)

// azureDomains are the domains of Azure OpenAI and Foundry, those of the
// sovereign clouds among them.
var azureDomains = []string{
	".openai.azure.com", ".cognitiveservices.azure.com", ".ai.azure.com",
	".openai.azure.us", ".cognitiveservices.azure.us", ".openai.azure.cn", ".cognitiveservices.azure.cn",
}

// The scopes of tokens: that of Foundry, and that of resources that are older.
const (
	foundryScope = "https://ai.azure.com/.default"
	classicScope = "https://cognitiveservices.azure.com/.default"
)

// entraVariables are those that an entry of auth.json may have for itself.
var entraVariables = []string{
	"AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE", "AZURE_AUTHORITY_HOST",
	"AZURE_CLIENT_CERTIFICATE_PATH", "AZURE_CLIENT_CERTIFICATE_PASSWORD", "AZURE_CLIENT_SEND_CERTIFICATE_CHAIN",
}

// processVariables are read by Microsoft's library from the environment of the process alone.
var processVariables = []string{
	"AZURE_USERNAME", "AZURE_PASSWORD", "AZURE_TOKEN_CREDENTIALS", "AZURE_REGIONAL_AUTHORITY_NAME", "MSAL_FORCE_REGION", "IDENTITY_ENDPOINT", "IDENTITY_HEADER",
	"IDENTITY_SERVER_THUMBPRINT", "IMDS_ENDPOINT", "MSI_ENDPOINT", "MSI_SECRET", "DEFAULT_IDENTITY_CLIENT_ID", "AZURE_CONFIG_DIR", "AZD_CONFIG_DIR",
}

// entraCloud has the identities of Microsoft Entra, found by Microsoft's library azidentity:
// of an application, of a workload, of a machine, and of a user who has logged in with one of
// Azure's command line tools.
type entraCloud struct {
	home     string
	accounts accounts[*entraSigner]
	client   *http.Client // to login services; nil is the network
}

// Found implements [providers.Cloud]: a resource is named, and there is a sign of an identity. Azure's
// identities are there for other things on most machines, and the name of a resource opens nothing.
func (c *entraCloud) Found(env func(string) string) bool {
	if env("AZURE_OPENAI_BASE_URL") == "" && env("AZURE_OPENAI_RESOURCE_NAME") == "" {
		return false
	}
	return hasEntraVariables(env) || c.hasEntraLogin(env) || isAzureMachine()
}

// hasEntraVariables returns whether variables describe an identity, or choose among its sources.
func hasEntraVariables(env func(string) string) bool {
	if env("AZURE_TENANT_ID") != "" && env("AZURE_CLIENT_ID") != "" {
		for _, name := range []string{"AZURE_CLIENT_SECRET", "AZURE_CLIENT_CERTIFICATE_PATH", "AZURE_USERNAME"} {
			if env(name) != "" {
				return true
			}
		}
	}
	for _, name := range []string{"AZURE_FEDERATED_TOKEN_FILE", "IDENTITY_ENDPOINT", "MSI_ENDPOINT", "AZURE_TOKEN_CREDENTIALS"} {
		if env(name) != "" {
			return true
		}
	}
	return false
}

// hasEntraLogin returns whether a user has logged in with one of Azure's command line tools. Their
// files are those of azure-cli (profile), azure-dev (auth) and Azure PowerShell (context); each has an
// entry for the user until the logout.
func (c *entraCloud) hasEntraLogin(env func(string) string) bool {
	for _, login := range []struct{ path, user string }{
		{filepath.Join(cmp.Or(env("AZURE_CONFIG_DIR"), filepath.Join(c.home, ".azure")), "azureProfile.json"), "subscriptions.0"},
		{filepath.Join(cmp.Or(env("AZD_CONFIG_DIR"), filepath.Join(c.home, ".azd")), "auth.json"), "auth.account.currentUser"},
		{filepath.Join(c.home, ".Azure", "AzureRmContext.json"), "DefaultContextKey"},
	} {
		text, err := bounded.ReadFile(login.path, maxEntraFile)
		if err == nil && gjson.GetBytes(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")), login.user).Exists() {
			return true
		}
	}
	return false
}

// maxEntraFile is in bytes. A profile lists all subscriptions of its users.
const maxEntraFile = 4 << 20

// azureAssetTag is the asset tag of the chassis of virtual machines in Azure, "MSFT AZURE VM" in ASCII codes.
const azureAssetTag = "7783-7084-3265-9085-8269-3286-77"

// isAzureMachine returns whether this machine may have an identity: a virtual machine in Azure, or one that
// Azure Arc manages.
var isAzureMachine = sync.OnceValue(func() bool {
	tag, _ := bounded.ReadFile("/sys/class/dmi/id/chassis_asset_tag", 256)
	return strings.TrimSpace(string(tag)) == azureAssetTag || isThere(arcAgent)
})

// Address implements [providers.Cloud].
func (*entraCloud) Address(baseURL string, _ bool, _ func(string) string) (string, error) {
	return baseURL, nil
}

// arcAgent is the program by which Azure Arc gives a machine its identity.
const arcAgent = "/opt/azcmagent/bin/himds"

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Signer implements [providers.Cloud].
func (c *entraCloud) Signer(env func(string) string) providers.Signer {
	return c.accounts.of(look(env, append(entraVariables, processVariables...)), func(account string) *entraSigner {
		return &entraSigner{
			account: account, classic: newTokens(), foundry: newTokens(),
			credential: func() (azcore.TokenCredential, error) { return newEntraCredential(env, c.client) },
		}
	})
}

// newEntraCredential returns the credential that the variables describe: an application with a
// secret, a certificate or a federated token, or the first of DefaultAzureCredential's sources,
// https://learn.microsoft.com/azure/developer/go/sdk/authentication/credential-chains.
func newEntraCredential(env func(string) string, client *http.Client) (azcore.TokenCredential, error) {
	for _, name := range processVariables {
		if env(name) != os.Getenv(name) {
			return nil, fmt.Errorf("%s cannot be set for one entry of auth.json: set it in the environment of troupe", name)
		}
	}
	// A prompt waits for it, so a failed request is repeated once.
	options, loopback := azcore.ClientOptions{Retry: policy.RetryOptions{MaxRetries: 1, RetryDelay: 500 * time.Millisecond, TryTimeout: patience / 2}}, false
	if client == nil {
		client = clientOf(http.DefaultTransport)
	}
	options.Transport = entraTransport{client}
	if host := env("AZURE_AUTHORITY_HOST"); host != "" {
		options.Cloud = azurecloud.Configuration{ActiveDirectoryAuthorityHost: host}
		loopback = providers.IsLoopback(hostOf(host)) // Microsoft's directory of login services does not know it
	}
	tenant, id := env("AZURE_TENANT_ID"), env("AZURE_CLIENT_ID")
	secret, certificate, token := env("AZURE_CLIENT_SECRET"), env("AZURE_CLIENT_CERTIFICATE_PATH"), env("AZURE_FEDERATED_TOKEN_FILE")
	switch {
	case tenant == "" || id == "":
	case secret != "":
		return azidentity.NewClientSecretCredential(tenant, id, secret, &azidentity.ClientSecretCredentialOptions{
			ClientOptions: options, DisableInstanceDiscovery: loopback,
		})
	case token != "":
		return azidentity.NewWorkloadIdentityCredential(&azidentity.WorkloadIdentityCredentialOptions{
			ClientOptions: options, TenantID: tenant, ClientID: id, TokenFilePath: token, DisableInstanceDiscovery: loopback,
		})
	case certificate != "":
		text, err := bounded.ReadFile(certificate, maxEntraFile)
		if err != nil {
			return nil, fmt.Errorf("AZURE_CLIENT_CERTIFICATE_PATH: %w", err)
		}
		certificates, key, err := azidentity.ParseCertificates(text, []byte(env("AZURE_CLIENT_CERTIFICATE_PASSWORD")))
		if err != nil {
			return nil, fmt.Errorf("AZURE_CLIENT_CERTIFICATE_PATH, %s: %w", certificate, err)
		}
		chain := env("AZURE_CLIENT_SEND_CERTIFICATE_CHAIN")
		return azidentity.NewClientCertificateCredential(tenant, id, certificates, key, &azidentity.ClientCertificateCredentialOptions{
			ClientOptions: options, DisableInstanceDiscovery: loopback, SendCertificateChain: chain == "1" || strings.EqualFold(chain, "true"),
		})
	}
	return azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{
		ClientOptions: options, TenantID: tenant, DisableInstanceDiscovery: loopback,
	})
}

// entraTransport carries requests of Microsoft's library. It sends secrets by https or to this
// machine only, and removes them from refusals, which the library quotes as a whole.
type entraTransport struct{ client *http.Client }

// secretMembers are the members of a request for a token that nobody else may read.
var secretMembers = []string{"client_secret", "client_assertion", "password"}

// maxRefusal is in bytes.
const maxRefusal = 64 << 10

// Do implements policy.Transporter of azcore.
func (t entraTransport) Do(r *http.Request) (*http.Response, error) {
	secrets, err := secretsIn(r)
	if err != nil {
		return nil, err
	}
	if secrets != nil && r.URL.Scheme != "https" && !providers.IsLoopback(r.URL.Hostname()) {
		return nil, fmt.Errorf("the address for tokens is not https: %s://%s", r.URL.Scheme, r.URL.Host)
	}
	answer, err := t.client.Do(r)
	if err != nil || answer.StatusCode < http.StatusBadRequest || secrets == nil {
		return answer, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxRefusal))
	if err != nil {
		return nil, err
	}
	said := map[string]string{}
	for _, member := range []string{"error", "error_description"} {
		value := gjson.GetBytes(text, member).String()
		for _, secret := range secrets {
			value = strings.ReplaceAll(value, secret, "***")
		}
		said[member] = value
	}
	clean, err := json.Marshal(said)
	answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(clean)), int64(len(clean))
	return answer, err
}

// secretsIn returns the secrets in the form of a request, or nil if it has no secret.
func secretsIn(r *http.Request) (secrets []string, err error) {
	if r.Body == nil || r.Method != http.MethodPost {
		return nil, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	_ = r.Body.Close()
	r.Body = io.NopCloser(bytes.NewReader(body))
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, nil // not a form
	}
	for _, member := range secretMembers {
		if value := form.Get(member); value != "" {
			secrets = append(secrets, value)
		}
	}
	return secrets, nil
}

// entraSigner gives requests the access token of one account.
type entraSigner struct {
	account          string
	credential       func() (azcore.TokenCredential, error) // a new one, without tokens that were refused
	classic, foundry *tokens                                // by scope
}

// Account implements [providers.Signer].
func (s *entraSigner) Account() string { return "entra " + s.account }

// Forget implements [providers.Signer].
func (s *entraSigner) Forget() {
	s.classic.forget()
	s.foundry.forget()
}

// Sign implements [providers.Signer].
func (s *entraSigner) Sign(ctx context.Context, address string, _ []byte) (map[string]string, error) {
	if err := allow(address, azureDomains); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	held, scope := s.foundry, foundryScope
	if host := hostOf(address); strings.Contains(host, ".openai.azure.") || strings.Contains(host, ".cognitiveservices.azure.") {
		held, scope = s.classic, classicScope
	}
	value, err := held.get(ctx, func(ctx context.Context) (token, error) {
		credential, err := s.credential()
		if err != nil {
			return token{}, err
		}
		got, err := credential.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{scope}})
		return token{got.Token, got.ExpiresOn}, err
	})
	switch {
	case err == nil:
		return map[string]string{"Authorization": "Bearer " + value}, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return nil, err
	}
	return nil, protocol.ErrorAuth.Errorf("No credentials for Azure: %s\n\nRun `az login`, set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, or set AZURE_OPENAI_API_KEY.",
		providers.MaskKeys(err.Error()))
}
