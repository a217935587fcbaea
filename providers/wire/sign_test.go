package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/providers"
)

// stamp signs with a number that grows.
type stamp struct {
	name string
	n    int
	err  error
	sent []string
}

func (s *stamp) Sign(ctx context.Context, url string, body []byte) (map[string]string, error) {
	s.n++
	s.sent = append(s.sent, string(body))
	if s.name == "slow" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return map[string]string{"Authorization": fmt.Sprintf("Stamp signature-%d", s.n), "X-Goog-User-Project": "my-project", "Anthropic-Beta": "signed"}, s.err
}
func (s *stamp) Account() string { return s.name }
func (s *stamp) Forget()         {}

// TestSign: every attempt is signed anew, by the bytes that are sent, and the
// signature gets into no text.
func TestSign(t *testing.T) {
	var seen, betas []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		betas = append(betas, r.Header.Get("Anthropic-Beta"))
		seen = append(seen, r.Header.Get("Authorization")+" "+string(body))
		w.WriteHeader(503)
		_, _ = io.WriteString(w, `{"message":"you said `+r.Header.Get("Authorization")+` for `+r.Header.Get("X-Goog-User-Project")+`"}`)
	}))
	defer server.Close()
	client := NewClient(ClientConfig{})
	defer client.Close()
	var headers map[string]string
	ask := func(ctx context.Context, signer providers.Signer, url string) *protocol.StreamError {
		req := providers.Request{
			Model: &protocol.Model{Provider: "acme", BaseURL: url}, Credentials: providers.Credentials{Signer: signer, Headers: headers}, System: "the body",
			Repeats: providers.Repeats{Max: 1},
		}
		for _, err := range client.Stream(ctx, req, plainWire{}) {
			var failed *protocol.StreamError
			if errors.As(err, &failed) {
				return failed
			}
		}
		return nil
	}
	signer := &stamp{name: "a"}
	failed := ask(t.Context(), signer, server.URL)
	require.NotNil(t, failed)
	require.Len(t, seen, 2)
	assert.Equal(t, []string{"signed", "signed"}, betas)
	assert.True(t, strings.HasPrefix(seen[0], "Stamp signature-1 ") && strings.HasPrefix(seen[1], "Stamp signature-2 "), seen)
	assert.Equal(t, []string{"the body", "the body"}, signer.sent)
	assert.NotContains(t, failed.Message+failed.Body, "signature-2")
	assert.Contains(t, failed.Message, "for my-project")

	failed = ask(t.Context(), &stamp{name: "b", err: errors.New("log in again")}, server.URL)
	require.NotNil(t, failed)
	assert.Equal(t, protocol.ErrorAuth, failed.Kind)
	assert.Contains(t, failed.Message, "log in again")
	assert.Len(t, seen, 2, "nothing goes out unsigned")

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	failed = ask(ctx, &stamp{name: "slow"}, server.URL)
	require.NotNil(t, failed)
	assert.Equal(t, protocol.ErrorAborted, failed.Kind)

	betas, headers = nil, map[string]string{"Anthropic-Beta": "of-the-wire"}
	_ = ask(t.Context(), signer, server.URL)
	assert.Equal(t, []string{"of-the-wire,signed", "of-the-wire,signed"}, betas)

	one := accountOf(&providers.Credentials{Signer: &stamp{name: "one"}})
	assert.NotEqual(t, one, accountOf(&providers.Credentials{Signer: &stamp{name: "two"}}), "accounts share no connections")
	assert.Equal(t, one, accountOf(&providers.Credentials{Signer: &stamp{name: "one"}}))
}
