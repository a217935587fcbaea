package wire

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"troupe/protocol"
	"troupe/providers"
)

// secretsOf lists what of c must not show up anywhere, longest first so that one
// secret inside another does not leave a remainder. Very short header values
// are names and flags, and masking them would garble every text.
func secretsOf(c *providers.Credentials) []string {
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
func mask(c *providers.Credentials, err *protocol.StreamError) *protocol.StreamError {
	for _, secret := range secretsOf(c) {
		for _, text := range []*string{&err.Message, &err.Body} {
			*text = maskCut(strings.ReplaceAll(*text, secret, providers.Masked), secret)
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
			return text[:at-n] + providers.Masked + text[at:]
		}
	}
	return text
}
