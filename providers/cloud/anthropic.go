package cloud

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"troupe/protocol"
	"troupe/protocol/bounded"
	"troupe/providers"
)

// anthropicDomains is where Anthropic's API is.
var anthropicDomains = []string{".anthropic.com"}

// The variables of a federation, as Anthropic's own libraries read them.
const (
	federationRule  = "ANTHROPIC_FEDERATION_RULE_ID"
	federationOrg   = "ANTHROPIC_ORGANIZATION_ID"
	federationToken = "ANTHROPIC_IDENTITY_TOKEN_FILE"
)

// anthropicVariables are those that an entry of auth.json may have for itself.
var anthropicVariables = []string{federationRule, federationOrg, federationToken, "ANTHROPIC_SERVICE_ACCOUNT_ID", "ANTHROPIC_WORKSPACE_ID"}

// maxIdentity is how long a token of a machine may be, in bytes: what Anthropic takes.
const maxIdentity = 16 << 10

// maxToken bounds an answer with a token, in bytes.
const maxToken = 64 << 10

// anthropicCloud has the identity that a machine was given by an identity service of its
// owner's, as Kubernetes and CI services do, in a file. By a rule that the owner has made
// Anthropic gives a token for it that is good for some minutes: workload identity federation,
// https://platform.claude.com/docs/manage-claude/wif-reference.
type anthropicCloud struct {
	client   *http.Client
	accounts accounts[*anthropicSigner]
}

// Found implements [providers.Cloud].
func (*anthropicCloud) Found(env func(string) string) bool {
	return env(federationRule) != "" && env(federationOrg) != "" && env(federationToken) != ""
}

// Address implements [providers.Cloud].
func (*anthropicCloud) Address(baseURL string, _ bool, _ func(string) string) (string, error) {
	return baseURL, nil
}

// Signer implements [providers.Cloud].
func (c *anthropicCloud) Signer(env func(string) string) providers.Signer {
	values := look(env, anthropicVariables)
	return c.accounts.of(values, func(account string) *anthropicSigner {
		return &anthropicSigner{account: account, client: c.client, values: values, tokens: newTokens()}
	})
}

// anthropicSigner gives requests the token of one account.
type anthropicSigner struct {
	account string
	client  *http.Client
	values  []string // of anthropicVariables
	tokens  *tokens
}

// Account implements [providers.Signer].
func (s *anthropicSigner) Account() string { return "anthropic " + s.account }

// Forget implements [providers.Signer].
func (s *anthropicSigner) Forget() { s.tokens.forget() }

// Sign implements [providers.Signer].
func (s *anthropicSigner) Sign(ctx context.Context, address string, _ []byte) (map[string]string, error) {
	if err := allow(address, anthropicDomains); err != nil {
		return nil, err
	}
	for i, name := range anthropicVariables[:3] {
		if s.values[i] == "" {
			return nil, protocol.ErrorAuth.Errorf("No credentials for Anthropic: set %s, %s and %s. The first that is missing is %s", federationRule, federationOrg, federationToken, name)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	value, err := s.tokens.get(ctx, func(ctx context.Context) (token, error) { return s.exchange(ctx, address) })
	switch {
	case err == nil:
		return map[string]string{"Authorization": "Bearer " + value, "Anthropic-Beta": "oauth-2025-04-20"}, nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return nil, err
	}
	return nil, protocol.ErrorAuth.Errorf("No credentials for Anthropic: %s", providers.MaskKeys(err.Error()))
}

// exchange gives the token in the file, which is another one every few minutes, for one of
// Anthropic's at the host that the request goes to.
func (s *anthropicSigner) exchange(ctx context.Context, address string) (token, error) {
	file := s.values[2]
	identity, err := bounded.ReadFile(file, maxIdentity)
	if identity = bytes.TrimSpace(identity); err == nil && len(identity) == 0 {
		err = errors.New("there is no token in it")
	}
	if err != nil {
		return token{}, fmt.Errorf("%s, %s: %w", federationToken, file, err)
	}
	members := map[string]string{"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": string(identity)}
	for i, name := range []string{"federation_rule_id", "organization_id", "", "service_account_id", "workspace_id"} {
		if value := s.values[i]; name != "" && value != "" {
			members[name] = value
		}
	}
	body, err := json.Marshal(members)
	if err != nil {
		return token{}, err
	}
	u, err := url.Parse(address)
	if err != nil {
		return token{}, err
	}
	at := &url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/v1/oauth/token"}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), bytes.NewReader(body))
	if err != nil {
		return token{}, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Anthropic-Beta", "oauth-2025-04-20,oidc-federation-2026-04-01")
	r.Header.Set("User-Agent", "troupe")
	resp, err := s.client.Do(r)
	if err != nil {
		return token{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxToken))
	if err != nil {
		return token{}, err
	}
	if !protocol.ValidJSON(text) {
		text = nil
	}
	said := gjson.ParseBytes(text)
	if resp.StatusCode != http.StatusOK {
		return token{}, refusedBy(resp, said, string(identity))
	}
	value, seconds := said.Get("access_token").Str, said.Get("expires_in").Float()
	if value == "" || strings.ContainsFunc(value, func(c rune) bool { return c <= ' ' || c >= 0x7f }) || seconds <= 0 {
		return token{}, errors.New("the token service gave no token that can be used")
	}
	life := time.Duration(min(seconds, 24*3600)) * time.Second
	return token{value, time.Now().Add(max(life, life/2+early))}, nil // the half of a short life at least
}

// refusedBy says why Anthropic gives no token, without the machine's own.
func refusedBy(resp *http.Response, said gjson.Result, identity string) error {
	why := said.Get("error")
	if why.IsObject() {
		why = why.Get("message")
	}
	text := fmt.Sprintf("the token service refuses (HTTP %d): %.200s %.200s", resp.StatusCode, why.String(), said.Get("error_description").Str)
	text = strings.TrimRight(strings.ReplaceAll(text, identity, "***"), " :")
	if resp.StatusCode == http.StatusUnauthorized {
		text += "\n\nSee whether the federation rule matches the token in " + federationToken + ", and set ANTHROPIC_WORKSPACE_ID if it has several workspaces."
	}
	return errors.New(text)
}
