package discover

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/providers"
)

// serve is a server that answers by path, or by path and body.
func serve(t *testing.T, answers map[string]string) string {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for _, key := range []string{r.URL.RequestURI(), r.URL.Path + " " + string(body), r.URL.Path} {
			if text, found := answers[key]; found {
				_, _ = io.WriteString(w, text)
				return
			}
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(srv.Close)
	return srv.URL + "/v1"
}

// The answers have the form that the servers' documents give.
var (
	ollamaAnswers = map[string]string{
		"/api/tags":                                     `{"models":[{"name":"qwen3:8b","model":"qwen3:8b","size":5225388164,"details":{"family":"qwen3"}},{"name":"small:1b"},{"name":"nomic-embed-text:latest"},{"name":"fixed:7b"}]}`,
		"/api/ps":                                       `{"models":[{"name":"qwen3:8b","size_vram":6654289920,"context_length":4096}]}`,
		`/api/show {"model":"qwen3:8b"}`:                `{"parameters":"stop \"<|im_end|>\"\ntemperature 0.6","model_info":{"general.architecture":"qwen3","qwen3.context_length":40960},"capabilities":["completion","tools","thinking"]}`,
		`/api/show {"model":"small:1b"}`:                `{"model_info":{"general.architecture":"gemma3","gemma3.context_length":131072},"capabilities":["completion","vision"]}`,
		`/api/show {"model":"fixed:7b"}`:                `{"parameters":"num_ctx                        65536\nstop \"x\"","model_info":{"general.architecture":"llama","llama.context_length":131072},"capabilities":["completion","tools"]}`,
		`/api/show {"model":"nomic-embed-text:latest"}`: `{"model_info":{"general.architecture":"nomic-bert","nomic-bert.context_length":2048},"capabilities":["embedding"]}`,
		"/v1/models":                                    `{"object":"list","data":[{"id":"qwen3:8b"},{"id":"small:1b"}]}`,
	}
	llamaAnswers = map[string]string{
		"/v1/models": `{"object":"list","data":[{"id":"gpt-oss-20b.gguf","object":"model","meta":{"n_ctx_train":131072,"n_params":20914757184}}]}`,
		"/props":     `{"default_generation_settings":{"id":0,"n_ctx":16384,"params":{}},"total_slots":2,"modalities":{"vision":true,"audio":false}}`,
	}
	routerAnswers = map[string]string{
		"/v1/models": `{"object":"list","data":[{"id":"a:Q4","object":"model","status":{"value":"loaded","args":["llama-server"]},"meta":{"n_ctx_train":131072}},{"id":"b","status":{"value":"unloaded"}},
			{"id":"broken","status":{"value":"unloaded","failed":true,"exit_code":1}},{"id":"c","status":{"value":"sleeping"}}]}`,
		"/props":                             `{"role":"router","default_generation_settings":{"params":null,"n_ctx":0},"models_autoload":true}`,
		"/props?autoload=false&model=a%3AQ4": `{"default_generation_settings":{"n_ctx":40960},"modalities":{"vision":true}}`,
	}
	byHandAnswers = map[string]string{"/v1/models": routerAnswers["/v1/models"], "/props": `{"role":"router","models_autoload":false}`}
	studioAnswers = map[string]string{
		"/api/v0/models": `{"data":[{"id":"qwen2-vl-7b","type":"vlm","state":"not-loaded","max_context_length":32768},{"id":"llama-3.1-8b","type":"llm","state":"loaded","max_context_length":131072,"loaded_context_length":8192},{"id":"nomic","type":"embeddings","max_context_length":2048}]}`,
		"/v1/models":     `{"data":[{"id":"qwen2-vl-7b"}]}`,
	}
	studioNowAnswers = map[string]string{
		"/api/v1/models": `{"models":[{"type":"llm","key":"google/gemma-3-4b","loaded_instances":[],"max_context_length":131072,"capabilities":{"vision":true,"trained_for_tool_use":false}},
			{"type":"llm","key":"qwen/qwen3.5-9b","loaded_instances":[{"id":"qwen/qwen3.5-9b","config":{"context_length":4096}},{"id":"qwen/qwen3.5-9b:2","config":{"context_length":8192}}],"max_context_length":262144,"capabilities":{"vision":false,"reasoning":{"default":"on"}}},
			{"type":"embedding","key":"nomic","loaded_instances":[],"max_context_length":2048}]}`,
		"/v1/models": `{"data":[{"id":"qwen/qwen3.5-9b"}]}`,
	}
	vllmAnswers = map[string]string{"/v1/models": `{"object":"list","data":[{"id":"Qwen/Qwen3-Coder","object":"model","owned_by":"vllm","max_model_len":262144}]}`}
)

// patient are timeouts that only a hang reaches: how fast a server of a test answers depends on what
// else the machine does.
var patient = timeouts{connect: time.Minute, answer: time.Minute}

func TestFind(t *testing.T) {
	for name, c := range map[string]struct {
		answers map[string]string
		want    providers.LocalServer
	}{
		"Ollama": {ollamaAnswers, providers.LocalServer{Kind: Ollama, Models: []providers.LocalModel{
			{ID: "qwen3:8b", Context: 4096, Thinking: true, Loaded: true},
			{ID: "small:1b", Context: 131072, AtMost: true, Vision: true},
			{ID: "fixed:7b", Context: 65536},
		}}},
		"llama.cpp": {llamaAnswers, providers.LocalServer{Kind: LlamaCPP, Models: []providers.LocalModel{{ID: "gpt-oss-20b.gguf", Context: 16384, Vision: true, Loaded: true}}}},
		"llama.cpp, router": {routerAnswers, providers.LocalServer{Kind: LlamaCPP, Models: []providers.LocalModel{
			{ID: "a:Q4", Context: 40960, Vision: true, Loaded: true}, {ID: "b", AtMost: true}, {ID: "c", AtMost: true, Loaded: true},
		}}},
		"llama.cpp, router without autoload": {byHandAnswers, providers.LocalServer{Kind: LlamaCPP, Models: []providers.LocalModel{
			{ID: "a:Q4", Context: 131072, Loaded: true}, {ID: "c", AtMost: true, Loaded: true},
		}}},
		"LM Studio": {studioAnswers, providers.LocalServer{Kind: LMStudio, Models: []providers.LocalModel{
			{ID: "qwen2-vl-7b", Context: 32768, AtMost: true, Vision: true}, {ID: "llama-3.1-8b", Context: 8192, Loaded: true},
		}}},
		"LM Studio 0.4": {studioNowAnswers, providers.LocalServer{Kind: LMStudio, Models: []providers.LocalModel{
			{ID: "google/gemma-3-4b", Context: 131072, AtMost: true, Vision: true}, {ID: "qwen/qwen3.5-9b", Context: 4096, Thinking: true, Loaded: true},
		}}},
		"vLLM": {vllmAnswers, providers.LocalServer{Kind: VLLM, Models: []providers.LocalModel{{ID: "Qwen/Qwen3-Coder", Context: 262144, Loaded: true}}}},
		"SGLang": {map[string]string{"/v1/models": `{"object":"list","data":[{"id":"Qwen/Qwen3-Coder","object":"model","owned_by":"sglang","max_model_len":32768}]}`},
			providers.LocalServer{Kind: SGLang, Models: []providers.LocalModel{{ID: "Qwen/Qwen3-Coder", Context: 32768, Loaded: true}}}},
		"other": {map[string]string{"/v1/models": `{"data":[{"id":"m"},{"id":"m"},{"id":"bad\u001b[31m"},{"id":5},{}]}`}, providers.LocalServer{Kind: Other, Models: []providers.LocalModel{{ID: "m", Loaded: true}}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := patient.find(t.Context(), serve(t, c.answers), "")
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
}

// TestFind_broken: what is no such server is one sentence, soon.
func TestFind_broken(t *testing.T) {
	for name, c := range map[string]struct{ answer, want string }{
		"page":        {"<html>", "the answer is not JSON"},
		"wrong types": {`{"data":5}`, "does not say which models it has"},
		"huge":        {`{"data":"` + strings.Repeat("x", maxAnswer) + `"}`, "larger than 1 MiB"},
	} {
		_, err := patient.find(t.Context(), serve(t, map[string]string{"/v1/models": c.answer}), "")
		assert.ErrorContains(t, err, c.want, name)
	}
	_, err := patient.find(t.Context(), "http://127.0.0.1:1/v1", "")
	assert.ErrorContains(t, err, "no server answers")
	_, err = patient.find(t.Context(), "file:///etc/passwd", "")
	assert.ErrorContains(t, err, "is not an address")

	elsewhere := serve(t, vllmAnswers)
	srv := httptest.NewServer(http.RedirectHandler(elsewhere+"/models", http.StatusFound))
	defer srv.Close()
	_, err = patient.find(t.Context(), srv.URL+"/v1", "")
	assert.ErrorContains(t, err, "status 302", "nobody is followed")

	stuck := make(chan bool)
	srv = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-stuck }))
	defer srv.Close()
	defer close(stuck)
	_, err = Find(t.Context(), srv.URL+"/v1", "")
	require.ErrorContains(t, err, "no server answers")
}

func TestFind_key(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer k" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, vllmAnswers[r.URL.Path])
	}))
	defer srv.Close()
	_, err := patient.find(t.Context(), srv.URL+"/v1", "")
	assert.ErrorContains(t, err, "status 401")
	got, err := patient.find(t.Context(), srv.URL+"/v1", "k")
	require.NoError(t, err)
	assert.Len(t, got.Models, 1)
}

func TestComplaint(t *testing.T) {
	for want, m := range map[string]providers.LocalModel{
		"": {ID: "m", Context: 65536}, "OLLAMA_CONTEXT_LENGTH": {ID: "m", Context: 4096}, "does not say": {ID: "m"},
	} {
		got := Complaint(Ollama, m)
		assert.Contains(t, got, want)
		assert.Equal(t, want == "", got == "")
	}
	assert.Empty(t, Complaint(Ollama, providers.LocalModel{ID: "m", Context: 4096, AtMost: true}))
	assert.Contains(t, Complaint("something", providers.LocalModel{ID: "m", Context: 1}), "see the server's settings")
}

func TestPlaces(t *testing.T) {
	for in, want := range map[string]string{
		"": "http://127.0.0.1:11434/v1", "127.0.0.1:9999": "http://127.0.0.1:9999/v1", "box": "http://box:11434/v1", "0.0.0.0": "http://127.0.0.1:11434/v1", "https://box:443/": "https://box:443/v1", "::": "http://127.0.0.1:11434/v1",
	} {
		assert.Equal(t, want, Places(in)[0], in)
	}
	assert.Len(t, Places(""), 6)
	assert.Contains(t, Places(""), "http://127.0.0.1:9931/v1", "the default of llama-server")
}
