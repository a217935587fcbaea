package wire

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"troupe/protocol"
	"troupe/providers"
)

func TestAuthorize(t *testing.T) {
	apply := func(c providers.Credentials, name string) http.Header {
		h := http.Header{}
		Authorize(h, &c, name)
		return h
	}
	assert.Equal(t, http.Header{"Authorization": {"Bearer k"}}, apply(providers.Credentials{Key: "k"}, ""))
	assert.Equal(t, http.Header{"X-Api-Key": {"k"}}, apply(providers.Credentials{Key: "k"}, "X-Api-Key"))
	assert.Equal(t, http.Header{"Authorization": {"Bearer k"}}, apply(providers.Credentials{Key: "k", Bearer: true}, "X-Api-Key"))
	assert.Empty(t, apply(providers.Credentials{}, ""), "no key, no header")
	assert.Equal(t, http.Header{"Authorization": {"Basic x"}, "X-Team": {"t"}}, apply(providers.Credentials{Key: "k", Headers: map[string]string{"authorization": "Basic x", "x-team": "t"}}, ""))
}

func TestClient_accounts(t *testing.T) {
	c := NewClient(ClientConfig{})
	one := c.transport(&providers.Credentials{Key: "one"}, "")
	assert.Same(t, one, c.transport(&providers.Credentials{Key: "one"}, ""))
	for _, other := range []providers.Credentials{
		{Key: "two"}, {}, {Key: "one", Bearer: true}, {Key: "one", Headers: map[string]string{"x": "y"}}, {Headers: map[string]string{"one": ""}},
	} {
		assert.NotSame(t, one, c.transport(&other, ""), "%+v", other)
	}
	for i := range maxAccounts - 1 {
		c.transport(&providers.Credentials{Key: "one"}, "") // stays the latest
		c.transport(&providers.Credentials{Key: fmt.Sprint("many ", i)}, "")
	}
	assert.Len(t, c.pool, maxAccounts, "bounded")
	assert.Len(t, c.order, maxAccounts)
	assert.Same(t, one, c.transport(&providers.Credentials{Key: "one"}, ""), "what is used stays")
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

func TestRequest_EstimateInput(t *testing.T) {
	r := &providers.Request{
		Model: &protocol.Model{ID: "m", Input: []string{"text", "image"}}, System: "Be kind.",
		Tools: []protocol.ToolInfo{{Name: "read", Description: "Reads a file."}},
		Messages: []protocol.Message{
			&protocol.UserMessage{Content: protocol.Content{protocol.Text{Text: "What is this?"}, protocol.Image{Data: strings.Repeat("A", 1<<20), MimeType: "image/png"}}},
			&protocol.AssistantMessage{Content: protocol.TextContent(strings.Repeat("never sent ", 1000)), StopReason: protocol.StopError},
		},
	}
	estimate := func() int64 { return r.EstimateInput(Convert(r, Shape{})) }
	assert.InDelta(t, 1200+20, estimate(), 5, "an image has its size in tokens, not in bytes, and what is not sent does not count")
	assert.GreaterOrEqual(t, cap(Buffer(r.Messages, estimate())), 1<<20)
	r.BlockImages = true
	assert.Less(t, estimate(), int64(60))
}
