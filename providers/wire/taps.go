package wire

import (
	"net/http"
	"strings"

	"troupe/providers"
)

// tapped lets whoever looks at requests change an encoded one.
func (c *Call) tapped(t *providers.Taps) {
	if t == nil {
		return
	}
	if t.Headers != nil {
		changed := http.Header{}
		for name, value := range t.Headers(single(c.Header)) {
			changed.Set(name, value)
		}
		c.Header = changed
	}
	if t.Body != nil {
		c.Body = t.Body(c.Body)
	}
}

// single are headers with one value each, by names in small letters.
func single(h http.Header) map[string]string {
	out := make(map[string]string, len(h))
	for name := range h {
		out[strings.ToLower(name)] = h.Get(name)
	}
	return out
}

// tellAnswer tells whoever looks at requests of an answer.
func tellAnswer(t *providers.Taps, resp *http.Response) {
	if t != nil && t.Answered != nil {
		t.Answered(resp.StatusCode, single(resp.Header))
	}
}
