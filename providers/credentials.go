package providers

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"strings"
	"sync"
)

// Credentials are what a request authenticates with. They appear in no log,
// event or error.
type Credentials struct {
	Key     string
	Headers map[string]string // sent as they are, replacing others of the same name
	Bearer  bool              // send Key as Authorization: Bearer whatever the wire's habit
	Signer  Signer            // authenticates each request when it is sent, in place of a key; nil for none
}

// IsSet says whether there is anything to authenticate with.
func (c *Credentials) IsSet() bool { return c.Key != "" || len(c.Headers) > 0 || c.Signer != nil }

// Equal says whether c and other authenticate as the same account.
func (c *Credentials) Equal(other *Credentials) bool {
	return c.Key == other.Key && c.Bearer == other.Bearer && maps.Equal(c.Headers, other.Headers) && c.account() == other.account()
}

// account is who signs, "" for nobody.
func (c *Credentials) account() string {
	if c.Signer == nil {
		return ""
	}
	return c.Signer.Account()
}

// Format keeps secrets out of whatever prints credentials, or a request with
// them.
func (c Credentials) Format(f fmt.State, _ rune) {
	switch {
	case !c.IsSet():
		_, _ = io.WriteString(f, "{}")
	default:
		_, _ = io.WriteString(f, "{"+Masked+"}")
	}
}

// MarshalJSON keeps secrets out of structured logs.
func (c Credentials) MarshalJSON() ([]byte, error) { return json.Marshal(fmt.Sprint(c)) }

// Masked stands for a secret.
const Masked = "***"

// secretText matches what keys of the known services look like, and keys in
// URLs and headers whatever they look like.
var secretText = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("(?is)" + strings.Join([]string{
		`\b(sk|pk|rk|gsk|xai|hf|csk|nvapi|r8|pplx|fw|tgp|sess|ghp|gho|ghu|ghs|ghr|glpat)[-_][A-Za-z0-9*_-]{8,}`,
		`\bgithub_pat_[A-Za-z0-9_]{8,}`, `\bAIza[0-9A-Za-z_-]{16,}`, `\bAKIA[0-9A-Z]{12,}`, `\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_.-]{8,}`,
		`\b(bearer|basic)\s+[A-Za-z0-9._~+/*=-]{8,}`,
		`//[^/?#\s"'\\@]+@`,
		`([?&](key|api[_-]?key|token|access_token|auth|sig|signature)=)[^&\s"'\\]+`,
	}, "|"))
})

// secretMember matches secrets by their names in requests to login services, which some of
// these repeat when they refuse one: in forms and in JSON.
var secretMember = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)((?:\b|\\u0026)(?:client_secret|refresh_token|access_token|id_token|subject_token|client_assertion|assertion|code_verifier|device_code)` +
		`(?:=|\\*"\s*:\s*\\*"))[^&\s"'\\,}]+`)
})

// MaskKeys replaces everything that looks like a key.
func MaskKeys(text string) string {
	text = secretMember().ReplaceAllString(text, "${1}"+Masked)
	return secretText().ReplaceAllStringFunc(text, func(match string) string {
		if match[0] == '/' { // the user and password of an address
			return "//" + Masked + "@"
		}
		if match[0] == '?' || match[0] == '&' {
			return match[:strings.IndexByte(match, '=')+1] + Masked
		}
		if head, _, found := strings.Cut(match, " "); found {
			return head + " " + Masked
		}
		return Masked
	})
}
