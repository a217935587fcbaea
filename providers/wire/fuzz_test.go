package wire

import (
	"net/http"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func FuzzClassify(f *testing.F) {
	f.Add(429, "7", []byte(`{"error":{"code":429,"message":"try again in 3s","details":[{"retryDelay":"4s"}]}}`))
	f.Add(0, "", []byte(`[{"error":{"metadata":{"raw":"{\"error\":1}"}}}]`))
	f.Add(500, "Fri, 20 Nov 2026 12:01:30 GMT", []byte("<html>\xff key=abc"))
	f.Fuzz(func(t *testing.T, status int, after string, body []byte) {
		err := Classify(status, http.Header{"Retry-After": {after}}, body)
		require.NotEmpty(t, err.Kind)
		require.NotEmpty(t, err.Message)
		require.True(t, utf8.ValidString(err.Message) || !utf8.Valid(body), "%q", err.Message)
		require.LessOrEqual(t, len(err.Message), maxMessage+100)
		require.True(t, err.RetryAfter >= 0 && err.RetryAfter <= 24*time.Hour)
	})
}
