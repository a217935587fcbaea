package cloud

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

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

// entraVariables are those that an entry of auth.json may have for itself: all that are read.
var entraVariables = []string{
	"AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE", "AZURE_AUTHORITY_HOST",
	"AZURE_CLIENT_CERTIFICATE_PATH", "AZURE_CLIENT_CERTIFICATE_PASSWORD", "AZURE_CLIENT_SEND_CERTIFICATE_CHAIN",
	"AZURE_USERNAME", "AZURE_PASSWORD", "AZURE_TOKEN_CREDENTIALS", "AZURE_REGIONAL_AUTHORITY_NAME", "MSAL_FORCE_REGION", "REGION_NAME",
	"IDENTITY_ENDPOINT", "IDENTITY_HEADER", "IDENTITY_SERVER_THUMBPRINT", "IMDS_ENDPOINT", "MSI_ENDPOINT", "MSI_SECRET", "DEFAULT_IDENTITY_CLIENT_ID",
	"AZURE_CONFIG_DIR", "AZD_CONFIG_DIR",
}

// entraCloud has the identities of Microsoft Entra, as Microsoft's own libraries find them: of
// an application, of a workload, of a machine, and of who has logged in by Azure's command
// line tools. docs/decisions/0018-azure-chain.md says why it is not their library that looks.
type entraCloud struct {
	home     string
	accounts accounts[*entraSigner]
	client   *http.Client // to login services; nil is the network
	run      Program      // nil runs none
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

// Signer implements [providers.Cloud].
func (c *entraCloud) Signer(env func(string) string) providers.Signer {
	return c.accounts.of(look(env, entraVariables), func(account string) *entraSigner {
		return &entraSigner{account: account, classic: newTokens(), foundry: newTokens(), login: newEntraLogin(env, c.client, c.run)}
	})
}

// entraLogin gets access tokens for whoever the variables say we are.
type entraLogin struct {
	env     func(string) string
	client  *http.Client
	run     Program
	pause   time.Duration // before a request is sent once more
	arcKeys string        // the directory of the keys of Azure Arc's agent
}

func newEntraLogin(env func(string) string, client *http.Client, run Program) *entraLogin {
	if client == nil {
		client = clientOf(http.DefaultTransport)
	}
	return &entraLogin{env, client, run, 500 * time.Millisecond, "/var/opt/azcmagent/tokens"}
}

// absent says that a source of credentials is not there: the next one is asked. Any other
// error of a source ends the chain, since somebody meant it to be used.
type absent struct{ error }

func absentf(format string, args ...any) error { return absent{fmt.Errorf(format, args...)} }

// entraChain are the sources in their order, under the names that AZURE_TOKEN_CREDENTIALS has
// for them: those of DefaultAzureCredential in Microsoft's libraries,
// https://learn.microsoft.com/azure/developer/go/sdk/authentication/credential-chains.
var entraChain = []entraSource{
	{"EnvironmentCredential", "prod", (*entraLogin).environment},
	{"WorkloadIdentityCredential", "prod", (*entraLogin).workload},
	{managedIdentity, "prod", (*entraLogin).machine},
	{"AzureCLICredential", "dev", (*entraLogin).azureCLI},
	{"AzureDeveloperCLICredential", "dev", (*entraLogin).azureDeveloperCLI},
	{"AzurePowerShellCredential", "dev", (*entraLogin).azurePowerShell},
}

const managedIdentity = "ManagedIdentityCredential"

// entraSource is a place where credentials may be.
type entraSource struct {
	name, group string
	token       func(l *entraLogin, ctx context.Context, scope string) (token, error)
}

// token is an access token for a scope, by the first source that has one. An application with
// a secret or a federated token is complete, and nothing else is looked for.
func (l *entraLogin) token(ctx context.Context, scope string) (token, error) {
	if l.env("AZURE_TENANT_ID") != "" && l.env("AZURE_CLIENT_ID") != "" {
		switch {
		case l.env("AZURE_CLIENT_SECRET") != "":
			return l.secret(ctx, scope)
		case l.env("AZURE_FEDERATED_TOKEN_FILE") != "":
			return l.workload(ctx, scope)
		}
	}
	chain, err := l.chain()
	if err != nil {
		return token{}, err
	}
	text := "no source has a token. Asked were:"
	for _, source := range chain {
		got, err := source.token(l, ctx, scope)
		switch {
		case err == nil:
			return got, nil
		case ctx.Err() != nil:
			return token{}, ctx.Err()
		}
		text += "\n  " + source.name + ": " + err.Error()
		if _, is := errors.AsType[absent](err); !is {
			break
		}
	}
	return token{}, errors.New(text)
}

// chain is what AZURE_TOKEN_CREDENTIALS leaves of all sources: "dev", "prod", or one of them.
func (l *entraLogin) chain() ([]entraSource, error) {
	want := l.env("AZURE_TOKEN_CREDENTIALS")
	if want == "" {
		return entraChain, nil
	}
	var chain []entraSource
	for _, source := range entraChain {
		if source.group == want || strings.EqualFold(source.name, want) {
			chain = append(chain, source)
		}
	}
	if chain == nil {
		return nil, fmt.Errorf("AZURE_TOKEN_CREDENTIALS is %.60q: it may be dev, prod, or the name of a source as AzureCLICredential", want)
	}
	return chain, nil
}

// secrets are the variables that no error repeats.
var entraSecrets = []string{"AZURE_CLIENT_SECRET", "AZURE_CLIENT_CERTIFICATE_PASSWORD", "AZURE_PASSWORD", "IDENTITY_HEADER", "MSI_SECRET"}

// mask takes the secrets out of a text that others wrote.
func (l *entraLogin) mask(text string, more ...string) string {
	for _, secret := range slices.Concat(look(l.env, entraSecrets), more) {
		if len(secret) >= 6 { // a shorter one is no secret, and would make letters of words unreadable
			text = strings.ReplaceAll(text, secret, providers.Masked)
		}
	}
	return providers.MaskKeys(text)
}

// entraSigner gives requests the access token of one account.
type entraSigner struct {
	account          string
	login            *entraLogin
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
	value, err := held.get(ctx, func(ctx context.Context) (token, error) { return s.login.token(ctx, scope) })
	switch {
	case err == nil:
		return map[string]string{"Authorization": "Bearer " + value}, nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return nil, err
	}
	return nil, protocol.ErrorAuth.Errorf("No credentials for Azure: %s\n\nRun `az login`, set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, or set AZURE_OPENAI_API_KEY.",
		s.login.mask(err.Error()))
}
