package harness

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"troupe/e2e/history"
)

// ModelServer is a fake model server on loopback. The path of a request selects the protocol of its
// answer: anthropic-messages, openai-completions, openai-responses or google-generative-ai. It
// returns the enqueued answers in order and records the requests.
type ModelServer struct {
	Server *httptest.Server
	t      *testing.T

	mu       sync.Mutex
	more     *sync.Cond // signals a request
	answers  []Answer
	queues   map[string][]Answer // of EnqueueFor, by word
	requests []Request
	gates    map[string]chan struct{} // closed ones are open
	summary  string                   // of SetSummary
	decide   func(body gjson.Result) Answer
	history  *history.History // nil for none
}

// Request is a request to the model.
type Request struct {
	Path   string
	Header http.Header
	Body   string
}

func newModelServer(t *testing.T) *ModelServer {
	s := &ModelServer{t: t, gates: map[string]chan struct{}{}}
	s.more = sync.NewCond(&s.mu)
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() {
		s.OpenGates()
		s.Server.CloseClientConnections()
		s.Server.Close()
	})
	return s
}

// ModelsJSON is a models.json with the models of this server, one provider for each
// protocol: mock, resp, gem and compat.
func (s *ModelServer) ModelsJSON() string {
	model := func(id string, reasoning bool) string {
		extra := `,"reasoning":` + strconv.FormatBool(reasoning)
		return `{"id":"` + id + `","name":"` + id + `","input":["text","image"],"contextWindow":200000,"maxTokens":4096,` +
			`"cost":{"input":3,"output":15,"cacheRead":0.3,"cacheWrite":3.75}` + extra + `}`
	}
	return `{"providers":{
	"mock":{"baseUrl":"` + s.Server.URL + `","api":"anthropic-messages","apiKey":"sk-mock","models":[` + model("mock-1", false) + `,` + model("think", true) + `,` + model("think2", true) + `]},
	"resp":{"baseUrl":"` + s.Server.URL + `/v1","api":"openai-responses","apiKey":"sk-resp","models":[` + model("resp-1", false) + `]},
	"gem":{"baseUrl":"` + s.Server.URL + `/v1beta","api":"google-generative-ai","apiKey":"sk-gem","models":[` + model("gem-1", false) + `]},
	"compat":{"baseUrl":"` + s.Server.URL + `/v1","api":"openai-completions","apiKey":"sk-compat","models":[` + model("chat-1", false) + `]}
	}}`
}

// Enqueue adds answers for the next requests.
func (s *ModelServer) Enqueue(answers ...Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = append(s.answers, answers...)
	s.more.Broadcast()
}

// EnqueueFor adds an answer for a conversation whose first message contains a word.
// Such answers are preferred to those of Enqueue.
func (s *ModelServer) EnqueueFor(word string, a Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queues == nil {
		s.queues = map[string][]Answer{}
	}
	s.queues[word] = append(s.queues[word], a)
}

// firstMessage is the content of the first user message of a conversation.
func firstMessage(body []byte) string {
	for _, m := range gjson.GetBytes(body, "messages").Array() {
		if m.Get("role").Str == "user" {
			return m.Get("content").Raw
		}
	}
	return ""
}

// Clear drops the enqueued answers that no request has consumed.
func (s *ModelServer) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = nil
}

// Drop drops the n answers that were enqueued last.
func (s *ModelServer) Drop(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = s.answers[:len(s.answers)-n]
}

// OpenGate releases the answers that wait at a gate, now and in the future.
func (s *ModelServer) OpenGate(name string) { close(s.gate(name)) }

func (s *ModelServer) gate(name string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gates[name] == nil {
		s.gates[name] = make(chan struct{})
	}
	return s.gates[name]
}

// OpenGates opens all gates and forgets their names.
func (s *ModelServer) OpenGates() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, g := range s.gates {
		select {
		case <-g:
		default:
			close(g)
		}
		delete(s.gates, name)
	}
}

// Decide sets a function that computes every answer from the request body, instead of the answers
// of Enqueue. It is called for one request at a time.
func (s *ModelServer) Decide(decide func(body gjson.Result) Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.decide = decide
}

// SetSummary sets the answer to every request for a summary. Such requests do not consume answers
// of Enqueue.
func (s *ModelServer) SetSummary(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.summary = text
}

// Request waits for request n, counted from 0, and returns it.
func (s *ModelServer) Request(n int) Request {
	s.t.Helper()
	timer := time.AfterFunc(Patience, func() { s.mu.Lock(); s.more.Broadcast(); s.mu.Unlock() })
	defer timer.Stop()
	deadline := time.Now().Add(Patience)
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.requests) <= n {
		if time.Now().After(deadline) {
			s.t.Fatalf("request %d did not come", n)
		}
		s.more.Wait()
	}
	return s.requests[n]
}

// Conversations returns the first user message of each request so far.
func (s *ModelServer) Conversations() (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		list = append(list, firstMessage([]byte(r.Body)))
	}
	return list
}

// RequestCount returns the number of requests so far.
func (s *ModelServer) RequestCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}

// next takes the next answer for a conversation with this first message.
func (s *ModelServer) next(first string) (Answer, bool) {
	for word, list := range s.queues {
		if len(list) > 0 && strings.Contains(first, word) {
			s.queues[word] = list[1:]
			return list[0], true
		}
	}
	return Answer{}, false
}

func (s *ModelServer) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.requests = append(s.requests, Request{r.URL.Path, r.Header.Clone(), string(body)})
	n := len(s.requests)
	if s.history != nil {
		s.history.Add(history.Asked, historyLine(n, body))
	}
	a := Fail(500, `{"error":{"message":"the test has no answer for this request"}}`)
	if s.decide != nil {
		a = s.decide(gjson.ParseBytes(body))
	} else if s.summary != "" && strings.Contains(string(body), `conversation>\n`) {
		a = Text(s.summary)
	} else if own, is := s.next(firstMessage(body)); is {
		a = own
	} else if len(s.answers) > 0 {
		a, s.answers = s.answers[0], s.answers[1:]
	}
	s.more.Broadcast()
	s.mu.Unlock()
	out := &stream{model: s, w: w, r: r, a: a, n: n}
	defer out.recordUsage(0)
	if a.Status != 0 {
		for k, v := range a.Header {
			w.Header()[k] = v
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(a.Status)
		io.WriteString(w, a.Body)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	switch {
	case a.Raw != nil:
		a.Raw(w, r)
	case strings.HasSuffix(r.URL.Path, "/chat/completions"):
		out.completions()
	case strings.HasSuffix(r.URL.Path, "/responses"):
		out.responses()
	case strings.Contains(r.URL.Path, ":streamGenerateContent"):
		out.google()
	default:
		out.messages()
	}
}

// historyLine converts a request of anthropic-messages to the form of package history.
func historyLine(n int, body []byte) string {
	type result struct {
		Call string `json:"call"`
		Text string `json:"text"`
	}
	line := struct {
		N       int      `json:"n"`
		Max     int64    `json:"max"`
		Of      string   `json:"of"`
		Results []result `json:"results"`
	}{N: n, Max: gjson.GetBytes(body, "max_tokens").Int(), Of: firstMessage(body)}
	tasks := map[string]bool{}
	for _, block := range gjson.GetBytes(body, "messages.#.content|@flatten").Array() {
		if block.Get("name").Str == "task" {
			tasks[block.Get("id").Str] = true
		}
		if call := block.Get("tool_use_id").Str; tasks[call] {
			line.Results = append(line.Results, result{call, block.Get("content").Raw})
		}
	}
	raw, _ := json.Marshal(line)
	return string(raw)
}
