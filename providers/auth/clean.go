package auth

import (
	"strings"
	"unicode"

	"troupe/providers"
)

// clean is text of a vendor as it may be shown: one line, at most 200 characters,
// without anything that looks like a key or is one of the secrets.
func clean(text string, secrets ...string) string {
	for _, secret := range secrets {
		if len(secret) >= 8 {
			text = strings.ReplaceAll(text, secret, providers.Masked)
		}
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return ' '
		}
		return r
	}, providers.MaskKeys(text))
	if runes := []rune(text); len(runes) > 200 {
		text = string(runes[:200]) + "…"
	}
	return strings.TrimSpace(text)
}
