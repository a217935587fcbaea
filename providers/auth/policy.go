package auth

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"troupe/protocol"
	"troupe/providers"
)

// policy is how the login of a provider is used. Vendors' terms are part of it.
type policy struct {
	hosts  []string // where its tokens go; nil is wherever the provider's models are
	origin string   // the one place where they go, in place of hosts; "" for hosts
	direct bool     // a token in the file is used while it is good; else pi is asked for one
	never  string   // why it is not used at all, and what to do; "" for used
	hint   string   // what else there is, where it is refreshed by pi
	compat string   // how requests with its tokens depart from its wire
}

var policies = map[string]policy{
	"openai": {hosts: []string{"api.openai.com"}, direct: true,
		compat: `{"supportsMaxOutputTokens":false,"supportsLongCacheRetention":false,"requiresDeveloperRole":true}`},
	"openrouter":  {hosts: []string{"openrouter.ai"}, direct: true},
	"xai":         {hosts: []string{"api.x.ai"}, direct: true, hint: "or set XAI_API_KEY"},
	"kimi-coding": {hosts: []string{"api.kimi.com"}, direct: true, hint: "or create a key in the Kimi Code console"},
	"meta":        {hosts: []string{"api.meta.ai"}, direct: true, hint: "or set META_API_KEY"},

	"anthropic":          {never: "Anthropic does not allow plan logins in other programs; use a key, Bedrock, Vertex or Foundry"},
	"google-gemini-cli":  {never: noGoogle},
	"google-antigravity": {never: noGoogle},
	"google":             {never: noGoogle},
	"github-copilot":     {never: "not offered: GitHub has no public model API for other clients"},
	"openai-codex":       {never: "sign in with `troupe login openai` instead; it uses the same plan"},
	"qwen":               {never: "the free tier has ended; use QWEN_TOKEN_PLAN_API_KEY"},
	"radius":             {never: "its gateway speaks a protocol of pi's own"},
}

const noGoogle = "Google does not allow its plan logins in other programs and suspends accounts; use GEMINI_API_KEY or Vertex"

// policy is the policy for a provider's entry of a login. One that nobody knows is
// of an extension of pi, and pi's to refresh.
func (s *Store) policy(provider string) policy {
	if d, found := s.device(provider); found {
		return policy{origin: d.Origin, direct: true}
	}
	return policies[provider]
}

// Compat is how requests that go with a login depart from their provider's wire, nil for
// not at all.
func Compat(provider string) json.RawMessage { return json.RawMessage(policies[provider].compat) }

// allows says whether a token may go to a URL.
func (p policy) allows(provider, address string) *protocol.StreamError {
	u, err := url.Parse(address)
	if err != nil {
		return protocol.ErrorInvalid.Errorf("The address of %s is not a URL", provider)
	}
	host := strings.ToLower(u.Hostname())
	switch {
	case p.origin != "":
		if u.Scheme+"://"+u.Host == p.origin {
			return nil
		}
		return protocol.ErrorAuth.Errorf("The login of %s is not sent to %s: it goes to %s (auth_host_refused)", provider, u.Scheme+"://"+u.Host, p.origin)
	case p.hosts == nil && (u.Scheme == "https" || providers.IsLoopback(host)):
		return nil
	case u.Scheme == "https" && (u.Port() == "" || u.Port() == "443") && slices.Contains(p.hosts, host):
		return nil
	}
	return protocol.ErrorAuth.Errorf("The login of %s is not sent to %s: it goes by https to %s. Another server needs a key of its own (auth_host_refused)",
		provider, u.Scheme+"://"+u.Host, strings.Join(p.hosts, ", "))
}

// Use is how an entry of auth.json counts.
type Use int

// The ways.
const (
	UseNothing Use = iota // there is no entry, or one that nobody can read
	UseKey                // a key
	UseLogin              // a login, by [Store.Signer]
	UseRefused            // a login that is not used: [Store.Why] says why
)

// Use says how a provider's entry counts.
func (s *Store) Use(provider string, e Entry) Use {
	switch {
	case e.Type == typeKey:
		return UseKey
	case e.Type != typeOAuth:
		return UseNothing
	case s.Why(provider, e) != "":
		return UseRefused
	case e.permanent():
		return UseKey
	}
	return UseLogin
}

// Why says why a login is not used, "" if it is.
func (s *Store) Why(provider string, e Entry) string {
	if e.Type != typeOAuth {
		return ""
	}
	if p := s.policy(provider); p.never != "" {
		return p.never
	}
	if s.ours(provider, e) {
		return ""
	}
	set := s.config.Settings()
	if set.NoReuse || set.Reuse != nil && !slices.Contains(set.Reuse, provider) {
		return "the setting auth.reuse switches pi's login off"
	}
	return ""
}

// ours says whether an entry is of a login that was made here.
func (s *Store) ours(provider string, e Entry) bool {
	note := s.notesNow().Logins[provider]
	return note.Client != "" && note.Client == e.Client || note.Made && e.permanent()
}
