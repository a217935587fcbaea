// Package discover asks servers of models on a person's own machine what they have, and
// how long a context they give it: what is configured there is not what the model could
// do. It speaks to the address it is given, only when it is asked to.
package discover

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/tidwall/gjson"

	"troupe/protocol"
	"troupe/providers"
)

// Limits of what a server may cost.
const (
	maxAnswer = 1 << 20 // bytes
	maxModels = 1000
)

// timeouts bound how long a server may take.
type timeouts struct {
	connect, answer time.Duration
}

// nearby are the timeouts of a server on a person's own machine, who waits for the answer.
var nearby = timeouts{connect: 300 * time.Millisecond, answer: time.Second}

// The servers that are known.
const (
	Ollama   = "Ollama"
	LlamaCPP = "llama.cpp"
	LMStudio = "LM Studio"
	VLLM     = "vLLM"
	SGLang   = "SGLang"
	Other    = "OpenAI-compatible server"
)

// howToRaise says how a server gives a model more context.
var howToRaise = map[string]string{
	Ollama:   "set OLLAMA_CONTEXT_LENGTH for the server, or num_ctx for the model",
	LlamaCPP: "start the server with a larger -c, or fewer slots (-np)",
	LMStudio: "load the model with a longer context length",
	VLLM:     "start the server with a larger --max-model-len",
	SGLang:   "start the server with a larger --context-length",
	Other:    "see the server's settings",
}

// tooSmall is a context in which an agent does not get far, in tokens.
const tooSmall = 32 << 10

// Places are where servers are usually found, by their addresses. ollama is the value of
// OLLAMA_HOST, "" for none. llama-server listens on 9931, older ones on 8080.
func Places(ollama string) []string {
	first := "http://127.0.0.1:11434/v1"
	if ollama = strings.TrimSuffix(ollama, "/"); ollama != "" {
		if !strings.Contains(ollama, "://") {
			ollama = "http://" + ollama
		}
		if u, err := url.Parse(ollama); err == nil && u.Hostname() != "" && u.Hostname() != "0.0.0.0" {
			if u.Port() == "" {
				u.Host = net.JoinHostPort(u.Hostname(), "11434")
			}
			first = u.Scheme + "://" + u.Host + "/v1"
		}
	}
	return []string{first, "http://127.0.0.1:9931/v1", "http://127.0.0.1:8080/v1", "http://127.0.0.1:1234/v1", "http://127.0.0.1:8000/v1", "http://127.0.0.1:30000/v1"}
}

// ProviderName is what a server of a kind is called among providers.
func ProviderName(kind string) string {
	return strings.ToLower(strings.NewReplacer(" ", "", ".", "", "-compatible", "").Replace(kind))
}

// asker asks one server.
type asker struct {
	client *http.Client
	root   string // without /v1
	base   string
	key    string
}

// Find asks the server at a base URL, which ends with /v1, what it has. key is sent along
// if there is one. The error is one sentence.
func Find(ctx context.Context, baseURL, key string) (providers.LocalServer, error) {
	return nearby.find(ctx, baseURL, key)
}

func (limit timeouts) find(ctx context.Context, baseURL, key string) (providers.LocalServer, error) {
	found := providers.LocalServer{}
	u, err := url.Parse(baseURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return found, fmt.Errorf("%q is not an address of a server", baseURL)
	}
	base := strings.TrimSuffix(baseURL, "/")
	transport := &http.Transport{DialContext: (&net.Dialer{Timeout: limit.connect}).DialContext, TLSHandshakeTimeout: limit.answer}
	defer transport.CloseIdleConnections()
	a := &asker{
		client: &http.Client{Transport: transport, Timeout: limit.answer, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		base:   base, root: strings.TrimSuffix(base, "/v1"), key: key,
	}
	var tags, props, studio, studioNow, list gjson.Result
	var failed error
	var all sync.WaitGroup
	for path, to := range map[string]*gjson.Result{"/api/tags": &tags, "/props": &props, "/api/v0/models": &studio, "/api/v1/models": &studioNow} {
		all.Go(func() { *to, _ = a.get(ctx, a.root+path) })
	}
	all.Go(func() { list, failed = a.get(ctx, a.base+"/models") })
	all.Wait()
	switch {
	case tags.Get("models").IsArray():
		found.Kind, found.Models = Ollama, a.ollama(ctx, tags)
	case studioNow.Get("models.0.loaded_instances").IsArray():
		found.Kind, found.Models = LMStudio, lmStudioNow(studioNow)
	case studio.Get("data.0.type").Exists():
		found.Kind, found.Models = LMStudio, lmStudio(studio)
	case failed != nil:
		return found, fmt.Errorf("%s: %w", base, failed)
	case !list.Get("data").IsArray():
		return found, fmt.Errorf("%s does not say which models it has", base)
	case props.Get("role").Str == "router" || list.Get("data.0.status.value").Exists():
		found.Kind, found.Models = LlamaCPP, a.router(ctx, list, props)
	case props.Get("default_generation_settings").Exists():
		found.Kind, found.Models = LlamaCPP, llamaCPP(list, props)
	default:
		found.Kind, found.Models = others(list)
	}
	found.Models = tidy(found.Models)
	return found, nil
}

// get asks for a JSON object.
func (a *asker) get(ctx context.Context, address string) (gjson.Result, error) {
	return a.ask(ctx, http.MethodGet, address, nil)
}

func (a *asker) ask(ctx context.Context, method, address string, body []byte) (gjson.Result, error) {
	var none gjson.Result
	r, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return none, errors.New("not an address")
	}
	if a.key != "" {
		r.Header.Set("Authorization", "Bearer "+a.key)
	}
	resp, err := a.client.Do(r)
	if err != nil {
		if wrapped, is := errors.AsType[*url.Error](err); is {
			err = wrapped.Err
		}
		return none, fmt.Errorf("no server answers: %s", providers.MaskKeys(err.Error()))
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return none, errors.New("the answer was cut off")
	case resp.StatusCode != http.StatusOK:
		return none, fmt.Errorf("the server answers with status %d", resp.StatusCode)
	case len(text) > maxAnswer:
		return none, errors.New("the answer is larger than 1 MiB")
	case !protocol.ValidJSON(text):
		return none, errors.New("the answer is not JSON")
	}
	return gjson.ParseBytes(text), nil
}

var numCtx = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^num_ctx\s+"?(\d+)`) })

// ollama asks what each model can do. Of the lengths that are known the smallest counts:
// that of the model, that of its Modelfile, that with which it runs.
func (a *asker) ollama(ctx context.Context, tags gjson.Result) []providers.LocalModel {
	running, _ := a.get(ctx, a.root+"/api/ps")
	names := tags.Get("models.#.name").Array()
	list := make([]providers.LocalModel, min(len(names), maxModels))
	var all sync.WaitGroup
	turns := make(chan bool, 8)
	for i := range list {
		all.Go(func() {
			turns <- true
			defer func() { <-turns }()
			m := &list[i]
			m.ID = names[i].String()
			body, _ := json.Marshal(map[string]string{"model": m.ID})
			shown, err := a.ask(ctx, http.MethodPost, a.root+"/api/show", body)
			if err != nil {
				return
			}
			arch := shown.Get("model_info.general\\.architecture").Str
			m.Context = shown.Get("model_info." + gjson.Escape(arch) + "\\.context_length").Int()
			m.AtMost = true
			if found := numCtx().FindStringSubmatch(shown.Get("parameters").Str); found != nil {
				n, _ := strconv.ParseInt(found[1], 10, 64)
				m.Context, m.AtMost = smallest(m.Context, n), false
			}
			can := shown.Get("capabilities").Array()
			has := func(word string) bool {
				return slices.ContainsFunc(can, func(v gjson.Result) bool { return v.Str == word })
			}
			m.Vision, m.Thinking = has("vision"), has("thinking")
			m.Other = len(can) > 0 && !has("completion")
		})
	}
	all.Wait()
	for _, r := range running.Get("models").Array() {
		for i := range list {
			if list[i].ID == r.Get("name").Str {
				list[i].Loaded, list[i].AtMost = true, false
				list[i].Context = smallest(list[i].Context, r.Get("context_length").Int())
			}
		}
	}
	return list
}

// lmStudioNow reads what LM Studio says since 0.4. What is not loaded has the length that it
// is loaded with.
func lmStudioNow(v gjson.Result) (list []providers.LocalModel) {
	for _, m := range v.Get("models").Array() {
		can := m.Get("capabilities")
		one := providers.LocalModel{
			ID: m.Get("key").Str, Context: m.Get("max_context_length").Int(), AtMost: true,
			Vision: can.Get("vision").Bool(), Thinking: can.Get("reasoning").IsObject(), Other: m.Get("type").Str == "embedding",
		}
		for _, loaded := range m.Get("loaded_instances").Array() {
			one.Loaded, one.AtMost = true, false
			one.Context = smallest(one.Context, loaded.Get("config.context_length").Int())
		}
		list = append(list, one)
	}
	return list
}

// lmStudio reads what older ones say.
func lmStudio(v gjson.Result) (list []providers.LocalModel) {
	for _, m := range v.Get("data").Array() {
		kind := m.Get("type").Str
		list = append(list, providers.LocalModel{
			ID: m.Get("id").Str, Context: cmp.Or(m.Get("loaded_context_length").Int(), m.Get("max_context_length").Int()),
			AtMost: m.Get("state").Str != "loaded", Vision: kind == "vlm", Loaded: m.Get("state").Str == "loaded", Other: kind == "embeddings",
		})
	}
	return list
}

func llamaCPP(list, props gjson.Result) (models []providers.LocalModel) {
	perSlot := props.Get("default_generation_settings.n_ctx").Int()
	for _, m := range list.Get("data").Array() {
		models = append(models, providers.LocalModel{
			ID: m.Get("id").Str, Context: smallest(perSlot, m.Get("meta.n_ctx_train").Int()), Vision: props.Get("modalities.vision").Bool(), Loaded: true,
		})
	}
	return models
}

// router asks a server of llama.cpp that loads and unloads models how long the context of each
// is that is loaded; the others have none yet. Without autoload only those can be asked that
// are loaded.
func (a *asker) router(ctx context.Context, list, props gjson.Result) []providers.LocalModel {
	entries := list.Get("data").Array()
	models := make([]providers.LocalModel, min(len(entries), maxModels))
	autoload := props.Get("models_autoload").Type != gjson.False
	var all sync.WaitGroup
	turns := make(chan bool, 8)
	for i := range models {
		entry, m := entries[i], &models[i]
		*m = providers.LocalModel{ID: entry.Get("id").Str, Context: max(entry.Get("meta.n_ctx_train").Int(), 0), AtMost: true}
		switch entry.Get("status.value").Str {
		case "loaded", "sleeping", "loading":
			m.Loaded = true
		default:
			m.Other = !autoload || entry.Get("status.failed").Bool()
		}
		if entry.Get("status.value").Str != "loaded" {
			continue
		}
		all.Go(func() {
			turns <- true
			defer func() { <-turns }()
			own, err := a.get(ctx, a.root+"/props?autoload=false&model="+url.QueryEscape(m.ID))
			if err != nil {
				return
			}
			m.Context, m.AtMost = smallest(own.Get("default_generation_settings.n_ctx").Int(), m.Context), false
			m.Vision = own.Get("modalities.vision").Bool()
		})
	}
	all.Wait()
	return models
}

func others(list gjson.Result) (kind string, models []providers.LocalModel) {
	kind = Other
	for _, m := range list.Get("data").Array() {
		if m.Get("max_model_len").Exists() {
			kind = VLLM
		}
		if m.Get("owned_by").Str == "sglang" {
			kind = SGLang
		}
		models = append(models, providers.LocalModel{ID: m.Get("id").Str, Context: m.Get("max_model_len").Int(), Loaded: true})
	}
	return kind, models
}

// smallest is the smaller of two lengths, of which 0 is not known.
func smallest(a, b int64) int64 {
	switch {
	case a <= 0:
		return max(b, 0)
	case b <= 0:
		return a
	}
	return min(a, b)
}

// tidy leaves out what is no model to talk to, and names that are none.
func tidy(list []providers.LocalModel) []providers.LocalModel {
	seen := map[string]bool{}
	out := slices.DeleteFunc(list, func(m providers.LocalModel) bool {
		odd := strings.ContainsFunc(m.ID, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) })
		drop := m.ID == "" || len(m.ID) > 300 || odd || m.Other || seen[m.ID]
		seen[m.ID] = true
		return drop
	})
	return out[:min(len(out), maxModels)]
}

// Complaint says what a person should know of a model: that its context is too small, or
// not known; "" for nothing.
func Complaint(kind string, m providers.LocalModel) string {
	switch {
	case m.AtMost:
		return "" // it shows when the model is loaded
	case m.Context == 0:
		return fmt.Sprintf("%s: the server does not say how long its context is; it counts as 128000 tokens unless models.json has contextWindow", m.ID)
	case m.Context < tooSmall:
		return fmt.Sprintf("%s has a context of %d tokens, which is too small for an agent: %s", m.ID, m.Context, cmp.Or(howToRaise[kind], howToRaise[Other]))
	}
	return ""
}
