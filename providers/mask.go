package providers

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"troupe/protocol"
)

const masked = "***"

// secretText matches what keys of the known services look like, and keys in
// URLs and headers whatever they look like.
var secretText = phrases(
	`\b(sk|pk|rk|gsk|xai|hf|csk|nvapi|r8|pplx|fw|tgp|sess|ghp|gho|ghu|ghs|ghr|glpat)[-_][A-Za-z0-9*_-]{8,}`,
	`\bgithub_pat_[A-Za-z0-9_]{8,}`, `\bAIza[0-9A-Za-z_-]{16,}`, `\bAKIA[0-9A-Z]{12,}`, `\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_.-]{8,}`,
	`\b(bearer|basic)\s+[A-Za-z0-9._~+/*=-]{8,}`,
	`([?&](key|api[_-]?key|token|access_token|auth|sig|signature)=)[^&\s"'\\]+`,
)

// maskPatterns replaces everything that looks like a key.
func maskPatterns(text string) string {
	return secretText().ReplaceAllStringFunc(text, func(match string) string {
		if match[0] == '?' || match[0] == '&' {
			return match[:strings.IndexByte(match, '=')+1] + masked
		}
		if head, _, found := strings.Cut(match, " "); found {
			return head + " " + masked
		}
		return masked
	})
}

// Format keeps secrets out of whatever prints credentials, or a request with
// them.
func (c Credentials) Format(f fmt.State, _ rune) {
	switch {
	case !c.isSet():
		_, _ = io.WriteString(f, "{}")
	default:
		_, _ = io.WriteString(f, "{"+masked+"}")
	}
}

// MarshalJSON keeps secrets out of structured logs.
func (c Credentials) MarshalJSON() ([]byte, error) { return json.Marshal(fmt.Sprint(c)) }

// secrets lists what of c must not show up anywhere, longest first so that one
// secret inside another does not leave a remainder. Very short header values
// are names and flags, and masking them would garble every text.
func (c *Credentials) secrets() []string {
	var list []string
	add := func(value string, least int) {
		for _, form := range []string{value, url.QueryEscape(value), jsonForm(value)} {
			if len(form) >= least {
				list = append(list, form)
			}
		}
	}
	add(c.Key, 4)
	for _, value := range c.Headers {
		add(value, 8)
		if _, token, found := strings.Cut(value, " "); found {
			add(token, 8)
		}
	}
	slices.SortFunc(list, func(a, b string) int { return len(b) - len(a) })
	return slices.Compact(list)
}

// jsonForm is value as it looks inside a JSON string.
func jsonForm(value string) string {
	raw, err := json.Marshal(value)
	if err != nil {
		return value
	}
	return string(raw[1 : len(raw)-1])
}

// mask takes the secrets of a request out of an error.
func (c *Credentials) mask(err *protocol.StreamError) *protocol.StreamError {
	for _, secret := range c.secrets() {
		for _, text := range []*string{&err.Message, &err.Body} {
			*text = maskCut(strings.ReplaceAll(*text, secret, masked), secret)
		}
	}
	return err
}

// maskCut replaces the beginning of a secret at the place where [shorten] cut a
// text.
func maskCut(text, secret string) string {
	at := strings.LastIndex(text, cutMark)
	if at < 0 {
		return text
	}
	for n := len(secret) - 1; n >= 4; n-- {
		if strings.HasSuffix(text[:at], secret[:n]) {
			return text[:at-n] + masked + text[at:]
		}
	}
	return text
}
