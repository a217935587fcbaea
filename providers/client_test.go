package providers

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

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
	far.Settings = &protocol.ModelExtra{Stall: protocol.StallLimits{FirstMs: -1, ContentMs: 9}}
	assert.Equal(t, protocol.StallLimits{ConnectMs: 7, FirstMs: -1, ContentMs: 9}, LimitsFor(far, protocol.StallLimits{ConnectMs: 7, FirstMs: 5}))
}

func TestCredentials_Apply(t *testing.T) {
	apply := func(c Credentials, name string) http.Header {
		h := http.Header{}
		c.Apply(h, name)
		return h
	}
	assert.Equal(t, http.Header{"Authorization": {"Bearer k"}}, apply(Credentials{Key: "k"}, ""))
	assert.Equal(t, http.Header{"X-Api-Key": {"k"}}, apply(Credentials{Key: "k"}, "X-Api-Key"))
	assert.Equal(t, http.Header{"Authorization": {"Bearer k"}}, apply(Credentials{Key: "k", Bearer: true}, "X-Api-Key"))
	assert.Empty(t, apply(Credentials{}, ""), "no key, no header")
	assert.Equal(t, http.Header{"Authorization": {"Basic x"}, "X-Team": {"t"}}, apply(Credentials{Key: "k", Headers: map[string]string{"authorization": "Basic x", "x-team": "t"}}, ""))
}

func TestClient_accounts(t *testing.T) {
	c := NewClient(ClientConfig{})
	one := c.transport(&Credentials{Key: "one"}, "")
	assert.Same(t, one, c.transport(&Credentials{Key: "one"}, ""))
	for _, other := range []Credentials{
		{Key: "two"}, {}, {Key: "one", Bearer: true}, {Key: "one", Headers: map[string]string{"x": "y"}}, {Headers: map[string]string{"one": ""}},
	} {
		assert.NotSame(t, one, c.transport(&other, ""), "%+v", other)
	}
	for i := range maxAccounts - 1 {
		c.transport(&Credentials{Key: "one"}, "") // stays the latest
		c.transport(&Credentials{Key: fmt.Sprint("many ", i)}, "")
	}
	assert.Len(t, c.pool, maxAccounts, "bounded")
	assert.Len(t, c.order, maxAccounts)
	assert.Same(t, one, c.transport(&Credentials{Key: "one"}, ""), "what is used stays")
	c.Close()
	c.Close()
}

func TestEndpoint(t *testing.T) {
	for base, want := range map[string]string{
		"https://a/v1": "https://a/v1/chat", "https://a/v1/": "https://a/v1/chat", "https://a/v1/chat": "https://a/v1/chat",
		"https://a/v1?api-version=2": "https://a/v1/chat?api-version=2", "https://a": "https://a/chat",
	} {
		assert.Equal(t, want, Endpoint(base, "/chat"))
	}
}

func TestRequest_AnswerLimit(t *testing.T) {
	say := func(n int) []protocol.Message {
		return []protocol.Message{&protocol.UserMessage{Content: protocol.TextContent(string(make([]byte, n)))}}
	}
	for _, c := range []struct {
		name           string
		window, max    int64
		asked, want    int64
		bytesOfContext int
	}{
		{"the model's", 200_000, 64_000, 0, 64_000, 0},
		{"asked for", 200_000, 64_000, 2048, 2048, 0},
		{"more than the model can", 200_000, 64_000, 99_000, 64_000, 0},
		{"unknown", 0, 0, 0, fallbackMaxTokens, 0},
		{"the whole window", 128_000, 128_000, 0, 128_000 - (30_000+1024)/3, 30_000},
		{"a full window", 128_000, 128_000, 0, 16_000, 400_000},
		{"small answers are left alone", 128_000, 16_000, 0, 16_000, 400_000},
		{"no window", 0, 64_000, 0, 64_000, 999_999},
	} {
		r := &Request{Model: &protocol.Model{ContextWindow: c.window, MaxTokens: c.max}, MaxTokens: c.asked, Messages: say(c.bytesOfContext)}
		assert.Equal(t, c.want, r.AnswerLimit(), c.name)
	}
	r := &Request{Model: &protocol.Model{}, Messages: []protocol.Message{
		&protocol.UserMessage{Content: protocol.Content{protocol.Image{Data: string(make([]byte, 1<<20))}}},
		&protocol.AssistantMessage{Content: protocol.Content{protocol.Thinking{Thinking: "abc"}, protocol.ToolCall{Name: "ls", Arguments: []byte("{}")}}},
		&protocol.ToolResultMessage{Content: protocol.TextContent("abc")}, &protocol.CustomMessage{Content: protocol.TextContent("abc")},
		&protocol.BashExecutionMessage{Command: "abc"}, &protocol.BranchSummaryMessage{Summary: "abc"}, &protocol.CompactionSummaryMessage{Summary: "abc"},
		&protocol.UnknownMessage{},
	}}
	assert.Equal(t, int64((1024+4800+3+4+3+3+3+3+3)/3), r.estimate())
}

func TestRequest_OutputLimit(t *testing.T) {
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
		assert.Equal(t, c.want, r.OutputLimit(c.thinking), c.name)
	}
}

func TestRequest_thinking(t *testing.T) {
	off := "none"
	m := &protocol.Model{Reasoning: true, Settings: &protocol.ModelExtra{ThinkingValues: map[string]*string{"off": &off, "minimal": nil}}}
	for _, c := range []struct {
		level  protocol.ThinkingLevel
		thinks bool
		effort string
		budget int64
	}{{"", false, "none", 0}, {"off", false, "none", 0}, {"low", true, "low", 2048}, {"high", true, "high", 16384}, {"minimal", true, "minimal", 1024}} {
		r := &Request{Model: m, Thinking: c.level}
		assert.Equal(t, c.thinks, r.Thinks(), c.level)
		assert.Equal(t, c.effort, r.Effort(), c.level)
		assert.Equal(t, c.budget, r.Budget(), c.level)
	}
	r := &Request{Model: &protocol.Model{}, Thinking: "low", Budgets: map[protocol.ThinkingLevel]int64{"low": 3000}}
	assert.False(t, r.Thinks(), "a model that cannot")
	assert.Equal(t, int64(3000), r.Budget())
}
