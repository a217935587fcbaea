package providers

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestProxyBy: a proxy that is configured is the way to everything but what NO_PROXY names.
func TestProxyBy(t *testing.T) {
	const proxy = "http://user:canary@proxy.example:3128"
	for _, test := range []struct {
		noProxy, address string
		by               bool
	}{
		{"", "https://api.openai.com/v1", true},
		{"", "http://127.0.0.1:11434/v1", true},
		{"", "http://localhost:11434/v1", true},
		{"api.openai.com", "https://api.openai.com/v1", false},
		{"openai.com", "https://api.openai.com/v1", false},
		{".openai.com", "https://openai.com/v1", true},
		{"api.openai.com:8443", "https://api.openai.com/v1", true},
		{"10.0.0.0/8, nas.lan", "http://10.1.2.3:8000/v1", false},
		{"10.0.0.0/8, nas.lan", "http://nas.lan/v1", false},
		{"10.0.0.0/8, nas.lan", "http://127.0.0.1/v1", true},
		{"*", "https://api.openai.com/v1", false},
		{"*", "http://localhost:11434/v1", false},
		{"x,127.0.0.1", "http://127.0.0.1:11434/v1", false},
		{"127.0.0.1", "http://localhost:11434/v1", true},
		{"LOCALHOST", "http://localhost:11434/v1", false},
		{"127.0.0.1:11434", "http://127.0.0.1:11434/v1", false},
		{"127.0.0.1:11434", "http://127.0.0.1:8000/v1", true},
		{"127.0.0.0/8", "http://127.8.9.1:11434/v1", false},
		{"::1", "http://[::1]:11434/v1", false},
		{"[::1]:11434", "http://[::1]:11434/v1", false},
	} {
		t.Setenv("NO_PROXY", test.noProxy)
		t.Setenv("HTTPS_PROXY", "http://of-the-environment.example")
		to, err := url.Parse(test.address)
		require.NoError(t, err)
		way, err := ProxyBy(proxy)(to)
		require.NoError(t, err)
		if assert.Equal(t, test.by, way != nil, "NO_PROXY=%s %s", test.noProxy, test.address) && test.by {
			assert.Equal(t, proxy, way.String())
		}
	}
	to, err := url.Parse("https://api.openai.com/v1")
	require.NoError(t, err)
	t.Setenv("NO_PROXY", "")
	way, err := ProxyBy("proxy.example:3128")(to)
	require.NoError(t, err)
	assert.Equal(t, "http://proxy.example:3128", way.String())
	for _, wrong := range []string{"http://", "http://user:canary@[", "::canary"} {
		_, err = ProxyBy(wrong)(to)
		assert.EqualError(t, err, "the setting httpProxy is not a URL", wrong)
	}
}
