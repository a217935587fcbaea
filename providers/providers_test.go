package providers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
)

func TestIsLocal(t *testing.T) {
	for url, want := range map[string]bool{
		"http://localhost:11434/v1": true, "http://127.0.0.1:8080": true, "http://[::1]:1": true, "http://192.168.1.20/v1": true,
		"http://10.1.2.3": true, "http://172.16.0.1": true, "http://169.254.1.1": true, "http://0.0.0.0:8000": true, "http://gpu-box:8000/v1": true,
		"http://models.local": true, "http://host.docker.internal:1234": true, "https://nas.lan": true, "http://a.localhost": true,
		"http://[::ffff:127.0.0.1]:80": true, "http://[fd00::1]/v1": true,
		"https://api.openai.com/v1": false, "http://8.8.8.8": false, "https://172.32.0.1": false, "https://local.example.com": false, "": false,
		"not a url": false, "https://localhost.evil.com": false, "http://%zz": false,
	} {
		assert.Equal(t, want, IsLocal(url), url)
	}
}

func TestLimitsFor(t *testing.T) {
	far, near := &protocol.Model{BaseURL: "https://api.example.com"}, &protocol.Model{BaseURL: "http://127.0.0.1:1"}
	assert.Equal(t, DefaultStall, LimitsFor(far, protocol.StallLimits{}))
	assert.Equal(t, localStall, LimitsFor(near, protocol.StallLimits{}))
	assert.Equal(t, protocol.StallLimits{ConnectMs: 300_000, FirstMs: 5, ContentMs: 300_000}, LimitsFor(far, protocol.StallLimits{FirstMs: 5}))
	far.ProviderConfig = &protocol.ProviderConfig{Stall: protocol.StallLimits{FirstMs: -1, ContentMs: 9}}
	assert.Equal(t, protocol.StallLimits{ConnectMs: 7, FirstMs: -1, ContentMs: 9}, LimitsFor(far, protocol.StallLimits{ConnectMs: 7, FirstMs: 5}))
}

func TestRequest_AnswerLimit(t *testing.T) {
	for _, c := range []struct {
		name        string
		window, max int64
		asked, want int64
		input       int64
	}{
		{"the model's", 200_000, 64_000, 0, 64_000, 0},
		{"asked for", 200_000, 64_000, 2048, 2048, 0},
		{"more than the model can", 200_000, 64_000, 99_000, 64_000, 0},
		{"unknown", 0, 0, 0, fallbackMaxTokens, 0},
		{"the whole window", 128_000, 128_000, 0, 128_000 - 10_000, 7_500},
		{"a full window", 128_000, 128_000, 0, 16_000, 100_000},
		{"small answers are left alone", 128_000, 16_000, 0, 16_000, 100_000},
		{"no window", 0, 64_000, 0, 64_000, 999_999},
	} {
		r := &Request{Model: &protocol.Model{ContextWindow: c.window, MaxTokens: c.max}, MaxTokens: c.asked}
		assert.Equal(t, c.want, r.AnswerLimit(c.input, 0), c.name)
	}
	m := &protocol.Model{Reasoning: true, ContextWindow: 200_000, MaxTokens: 10_000}
	for _, c := range []struct {
		name            string
		asked, thinking int64
		level           protocol.ThinkingLevel
		want            int64
	}{
		{"the model's", 0, 2000, "low", 10_000}, {"on top", 1000, 2000, "low", 3000}, {"as far as it goes", 9000, 2000, "low", 10_000},
		{"no thinking", 1000, 2000, "off", 1000}, {"not counted", 1000, -1, "low", 1000},
	} {
		r := &Request{Model: m, MaxTokens: c.asked, Thinking: c.level}
		assert.Equal(t, c.want, r.AnswerLimit(0, c.thinking), c.name)
	}
}

func TestRequest_thinking(t *testing.T) {
	off := "none"
	m := &protocol.Model{Reasoning: true, ProviderConfig: &protocol.ProviderConfig{ThinkingValues: map[string]*string{"off": &off, "minimal": nil}}}
	for _, c := range []struct {
		level  protocol.ThinkingLevel
		thinks bool
		effort string
		budget int64
	}{{"", false, "none", 0}, {"off", false, "none", 0}, {"low", true, "low", 2048}, {"high", true, "high", 16384}, {"minimal", true, "minimal", 1024}} {
		r := &Request{Model: m, Thinking: c.level}
		assert.Equal(t, c.thinks, r.Thinks(), c.level)
		assert.Equal(t, c.effort, r.Effort(nil), c.level)
		assert.Equal(t, c.budget, r.Budget(), c.level)
	}
	r := &Request{Model: &protocol.Model{}, Thinking: "low", Budgets: map[protocol.ThinkingLevel]int64{"low": 3000}}
	assert.False(t, r.Thinks(), "a model that cannot")
	assert.Equal(t, int64(3000), r.Budget())
}

// TestCredentials_print: no way of printing shows a key.
func TestCredentials_print(t *testing.T) {
	req := Request{Model: &protocol.Model{}, Credentials: Credentials{Key: "canary-key", Headers: map[string]string{"Authorization": "canary-header"}}}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		fmt.Fprintf(&out, verb+verb+verb, req, &req, req.Credentials)
	}
	raw, err := json.Marshal(req.Credentials)
	require.NoError(t, err)
	out.Write(raw)
	log := zerolog.New(&out)
	log.Info().Interface("credentials", req.Credentials).Interface("request", req.Credentials.Headers == nil).Msg("asked")
	assert.NotContains(t, out.String(), "canary")
	assert.NotContains(t, out.String(), fmt.Sprintf("%x", "canary"))
	assert.Contains(t, out.String(), Masked)
	assert.Equal(t, "{}", fmt.Sprint(Credentials{}))
}

// TestMaskKeys_members: what login services repeat of a request is known by its names, in forms
// and in JSON, also where that is quoted.
func TestMaskKeys_members(t *testing.T) {
	for text, want := range map[string]string{
		"client_id=c&client_secret=canary&refresh_token=canary2": "client_id=c&client_secret=***&refresh_token=***",
		`got {"refresh_token": "canary", "expires_in": 5}`:       `got {"refresh_token": "***", "expires_in": 5}`,
		`{\"access_token\":\"canary\",\"x\":1}`:                  `{\"access_token\":\"***\",\"x\":1}`,
		`a\u0026client_assertion=canary\u0026b=1`:                `a\u0026client_assertion=***\u0026b=1`,
		"the refresh_token was used before":                      "the refresh_token was used before",
		"assertion failed: x == y":                               "assertion failed: x == y",
	} {
		assert.Equal(t, want, MaskKeys(text))
	}
}
