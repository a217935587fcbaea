package examples

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// vendor starts a local server in place of a provider. It answers with the files of testdata. A
// question that needs a tool is first answered with a tool call.
func vendor(t *testing.T) string {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		name := ""
		switch last := gjson.GetBytes(body, "messages.@reverse.0").Raw; {
		case strings.HasSuffix(r.URL.Path, "/chat/completions"):
			name = "chat.sse"
		case !strings.HasSuffix(r.URL.Path, "/messages"):
			http.NotFound(w, r)
			return
		case strings.Contains(last, "Hello, Ada!"):
			name = "hello-answer.sse"
		case strings.Contains(last, "hello tool"):
			name = "hello-call.sse"
		case strings.Contains(last, "tool_result"):
			name = "answer.sse"
		case strings.Contains(last, "Go version"):
			name = "call.sse"
		default:
			name = "hello.sse"
		}
		answer, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write(answer)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}
