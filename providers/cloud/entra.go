package cloud

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	azurecloud "github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"troupe/protocol"
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
}

// entraCloud has the identities of Microsoft Entra, by Microsoft's own library:
// of an application, of a workload, of a machine, and of who has logged in by
// Azure's command line tools.
type entraCloud struct {
	accounts accounts[*entraSigner]
	client   policy.Transporter // nil for the network
}

// Found implements [providers.Cloud]. The address of a resource is what says
// that somebody means to use it: it has no other use.
func (*entraCloud) Found(env func(string) string) bool {
	return env("AZURE_OPENAI_BASE_URL") != "" || env("AZURE_OPENAI_RESOURCE_NAME") != ""
}

// Address implements [providers.Cloud].
func (*entraCloud) Address(baseURL string, _ bool, _ func(string) string) (string, error) {
	return baseURL, nil
}

// Signer implements [providers.Cloud].
func (c *entraCloud) Signer(env func(string) string) providers.Signer {
	return c.accounts.of(look(env, entraVariables), func(account string) *entraSigner {
		return &entraSigner{
			account: account, classic: newTokens(), foundry: newTokens(),
			credential: func() (azcore.TokenCredential, error) { return entraCredential(env, c.client) },
		}
	})
}

// entraCredential is who env says we are.
func entraCredential(env func(string) string, client policy.Transporter) (azcore.TokenCredential, error) {
	tenant, id, secret, file := env("AZURE_TENANT_ID"), env("AZURE_CLIENT_ID"), env("AZURE_CLIENT_SECRET"), env("AZURE_FEDERATED_TOKEN_FILE")
	// A prompt waits: what fails twice is said.
	options, own := azcore.ClientOptions{Retry: policy.RetryOptions{MaxRetries: 1, RetryDelay: 500 * time.Millisecond, TryTimeout: patience / 2}}, false
	if client != nil {
		options.Transport = client
	}
	if host := env("AZURE_AUTHORITY_HOST"); host != "" {
		options.Cloud = azurecloud.Configuration{ActiveDirectoryAuthorityHost: host}
		own = providers.IsLoopback(hostOf(host)) // of which Microsoft knows nothing
	}
	switch {
	case tenant != "" && id != "" && secret != "":
		return azidentity.NewClientSecretCredential(tenant, id, secret, &azidentity.ClientSecretCredentialOptions{
			ClientOptions: options, DisableInstanceDiscovery: own,
		})
	case tenant != "" && id != "" && file != "":
		return azidentity.NewWorkloadIdentityCredential(&azidentity.WorkloadIdentityCredentialOptions{
			ClientOptions: options, TenantID: tenant, ClientID: id, TokenFilePath: file, DisableInstanceDiscovery: own,
		})
	}
	return azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{ClientOptions: options, TenantID: tenant, DisableInstanceDiscovery: own})
}

// entraSigner gives requests the access token of one account.
type entraSigner struct {
	account          string
	credential       func() (azcore.TokenCredential, error)
	classic, foundry *tokens // by scope
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
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return nil, err
	}
	return nil, protocol.ErrorAuth.Errorf("No credentials for Azure: %s\n\nRun `az login`, set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, or set AZURE_OPENAI_API_KEY.",
		providers.MaskKeys(err.Error()))
}
