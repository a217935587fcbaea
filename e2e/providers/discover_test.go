package providers

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/e2e/harness"
)

// TestDiscover checks that models of a local server are discovered and can be used without a key.
func TestDiscover(t *testing.T) {
	t.Parallel()
	keys := make(chan string, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/models":
			_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"local-8b","meta":{"n_ctx_train":131072}}]}`)
		case "/props":
			_, _ = io.WriteString(w, `{"default_generation_settings":{"n_ctx":16384},"modalities":{"vision":false}}`)
		case "/v1/chat/completions":
			keys <- r.Header.Get("Authorization")
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"from here"}}]}`+"\n\n"+
				`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
		default:
			http.NotFound(w, r)
		}
	}))
	defer srv.Close()
	p := harness.NewPlace(t)
	out, _, code := p.RunOnce("", "models", "discover", srv.URL+"/v1")
	assert.Equal(t, 0, code)
	assert.Contains(t, out, "llama.cpp at "+srv.URL+"/v1")
	assert.Contains(t, out, "local-8b  16.4K")
	assert.Contains(t, out, "too small for an agent: start the server with a larger -c")
	assert.Contains(t, out, `{"providers": {"llamacpp": {"baseUrl": "`+srv.URL+`/v1", "discover": true}}}`)
	_, errs, code := p.RunOnce("", "models", "discover", "http://127.0.0.1:1/v1")
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, "no server answers")

	p.WriteModels(`{"providers": {"llamacpp": {"baseUrl": "` + srv.URL + `/v1", "discover": true}}}`)
	d := p.StartRaw("--mode", "rpc", "--model", "llamacpp/local-8b")
	model := d.OK(`{"type":"get_state"}`).Get("model")
	assert.Equal(t, "local-8b 16384", model.Get("id").Str+" "+model.Get("contextWindow").Raw)
	d.Prompt("hi")
	require.Equal(t, "from here", d.OK(`{"type":"get_last_assistant_text"}`).Get("text").Str)
	assert.NotContains(t, <-keys, "Bearer sk", "no key")
	assert.Contains(t, d.Stderr(), "local-8b has a context of 16384 tokens")
}

// TestDiscoverDown checks that a run with a configured server that is down fails with the server's address instead of
// an answer of the demo model.
func TestDiscoverDown(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteModels(`{"providers": {"ollama": {"baseUrl": "http://127.0.0.1:1/v1", "discover": true}}}`)
	for _, settings := range []string{`{}`, `{"defaultProvider": "ollama", "defaultModel": "llama3"}`} {
		p.WriteFile(p.AgentDir()+"/settings.json", settings)
		out, errs, code := p.RunOnce("hi", "-p", "--no-session")
		assert.Equal(t, 1, code)
		assert.Empty(t, out)
		assert.Contains(t, errs, `No model is available: provider "ollama": http://127.0.0.1:1/v1: no server answers`)
		assert.Contains(t, errs, "Start the server and load a model")
		d := p.StartRaw("--mode", "rpc", "--no-session")
		refused := d.Call(`{"type":"prompt","message":"hi"}`)
		assert.Equal(t, "model_not_found", refused.Get("code").Str)
		require.Zero(t, d.Close())
	}
	p.WriteModels(`{"providers": {}}`)
	p.WriteFile(p.AgentDir()+"/settings.json", `{}`)
	p.Env = append(p.Env, "OLLAMA_HOST=127.0.0.1:1")
	_, errs, code := p.RunOnce("hi", "-p", "--no-session")
	assert.Equal(t, 0, code)
	assert.Contains(t, errs, "OLLAMA_HOST alone adds no models")
}

// TestDiscoverLlama checks a llama.cpp router that is configured by pi's entry in auth.json or by
// the environment.
func TestDiscoverLlama(t *testing.T) {
	t.Parallel()
	keys := make(chan string, 10)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.RequestURI() {
		case "/v1/models":
			_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"qwen","status":{"value":"loaded"}},{"id":"other","status":{"value":"unloaded"}}]}`)
		case "/props":
			_, _ = io.WriteString(w, `{"role":"router","default_generation_settings":{"n_ctx":0}}`)
		case "/props?autoload=false&model=qwen":
			_, _ = io.WriteString(w, `{"default_generation_settings":{"n_ctx":40960},"modalities":{"vision":false}}`)
		case "/v1/chat/completions":
			keys <- r.Header.Get("Authorization")
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"from the router"}}]}`+"\n\n"+
				`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
		default:
			http.NotFound(w, r)
		}
	}))
	defer srv.Close()
	p := harness.NewPlace(t)
	p.WriteFile(p.AgentDir()+"/auth.json", `{"llama.cpp":{"type":"api_key","key":"sekret","env":{"LLAMA_BASE_URL":"`+srv.URL+`"}}}`)
	out, errs, code := p.RunOnce("", "--list-models", "llama.cpp")
	assert.Equal(t, 0, code, errs)
	assert.Contains(t, out, "qwen")
	assert.Contains(t, out, "other")
	d := p.StartRaw("--mode", "rpc", "--model", "llama.cpp/qwen", "--no-session")
	assert.Equal(t, "40960", d.OK(`{"type":"get_state"}`).Get("model.contextWindow").Raw)
	d.Prompt("hi")
	assert.Equal(t, "Bearer sekret", <-keys)

	p.WriteFile(p.AgentDir()+"/auth.json", `{}`)
	p.Env = append(p.Env, "LLAMA_BASE_URL="+srv.URL)
	out, errs, code = p.RunOnce("hi", "-p", "--model", "llama.cpp/qwen", "--no-session")
	assert.Equal(t, 0, code, errs)
	assert.Equal(t, "from the router\n", out)
	assert.NotContains(t, <-keys, "sekret")
}

// TestDiscoverLocal checks that discover.local finds a local server at its default address.
func TestDiscoverLocal(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/tags":
			_, _ = io.WriteString(w, `{"models":[{"name":"qwen:8b","model":"qwen:8b"}]}`)
		case "/api/show":
			_, _ = io.WriteString(w, `{"capabilities":["completion","tools"],"model_info":{"qwen.context_length":65536},"parameters":"num_ctx 65536"}`)
		case "/v1/chat/completions":
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"from Ollama"}}]}`+"\n\n"+
				`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
		default:
			http.NotFound(w, r)
		}
	}))
	defer srv.Close()
	p := harness.NewPlace(t)
	p.Env = append(p.Env, "OLLAMA_HOST="+srv.URL)
	out, _, _ := p.RunOnce("", "--list-models", "qwen")
	assert.NotContains(t, out, "qwen:8b", "nobody has asked for it")
	p.WriteFile(p.AgentDir()+"/settings.json", `{"discover": {"local": true}}`)
	out, errs, _ := p.RunOnce("", "--list-models", "qwen")
	assert.Contains(t, out, "qwen:8b", errs)
	out, errs, code := p.RunOnce("hi", "-p", "--model", "ollama/qwen:8b", "--no-session")
	assert.Equal(t, 0, code, errs)
	assert.Equal(t, "from Ollama\n", out)
}
