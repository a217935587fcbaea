package e2e

import (
	"encoding/json"
	"fmt"
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

// llm is a fake model server on loopback. It speaks the wires by their paths,
// plays the answers it is given one after the other, and keeps the requests.
type llm struct {
	t   *testing.T
	srv *httptest.Server

	mu       sync.Mutex
	more     *sync.Cond
	answers  []answer
	of       map[string][]answer // for conversations that begin with a word; see playsTo
	requests []request
	gates    map[string]chan struct{}
	summary  string // answers every summariser, without taking from answers
	think    func(body gjson.Result) answer
	h        *history.History // nil for none
}

// request is what a client asked.
type request struct {
	path   string
	header http.Header
	body   string
}

// answer is how one request is answered.
type answer struct {
	status int    // 0 is 200 and a stream
	body   string // with status
	header http.Header
	steps  []step
	stop   string                                       // stop, length, toolUse; "" by the steps
	raw    func(w http.ResponseWriter, r *http.Request) // writes the answer instead
	cut    bool                                         // the connection closes before the closing event
	input  int                                          // usage; 100 if 0
	output int                                          // usage; 10 if 0
}

// step is a piece of a streamed answer.
type step struct {
	kind string // text, thinking, tool, gate, stall, comment
	id   string // tool
	name string // tool; gate: its name
	part string // text; tool: JSON of the arguments
	sig  string // thinking
}

func text(chunks ...string) answer {
	a := answer{}
	for _, c := range chunks {
		a.steps = append(a.steps, step{kind: "text", part: c})
	}
	return a
}

func tool(id, name, args string) answer {
	return answer{steps: []step{{kind: "tool", id: id, name: name, part: args}}}
}

func (a answer) and(b answer) answer {
	a.steps = append(append([]step(nil), a.steps...), b.steps...)
	return a
}

// gate holds the stream until the test opens it.
func gate(name string) answer { return answer{steps: []step{{kind: "gate", name: name}}} }

func fail(status int, body string) answer { return answer{status: status, body: body} }

func newLLM(t *testing.T) *llm {
	l := &llm{t: t, gates: map[string]chan struct{}{}}
	l.more = sync.NewCond(&l.mu)
	l.srv = httptest.NewServer(http.HandlerFunc(l.serve))
	t.Cleanup(func() {
		l.openAll()
		l.srv.CloseClientConnections()
		l.srv.Close()
	})
	return l
}

func (l *llm) modelsJSON() string {
	model := func(id string, reasoning bool) string {
		extra := `,"reasoning":` + strconv.FormatBool(reasoning)
		return `{"id":"` + id + `","name":"` + id + `","input":["text","image"],"contextWindow":200000,"maxTokens":4096,` +
			`"cost":{"input":3,"output":15,"cacheRead":0.3,"cacheWrite":3.75}` + extra + `}`
	}
	return `{"providers":{
	"mock":{"baseUrl":"` + l.srv.URL + `","api":"anthropic-messages","apiKey":"sk-mock","models":[` + model("mock-1", false) + `,` + model("think", true) + `,` + model("think2", true) + `]},
	"resp":{"baseUrl":"` + l.srv.URL + `/v1","api":"openai-responses","apiKey":"sk-resp","models":[` + model("resp-1", false) + `]},
	"gem":{"baseUrl":"` + l.srv.URL + `/v1beta","api":"google-generative-ai","apiKey":"sk-gem","models":[` + model("gem-1", false) + `]},
	"compat":{"baseUrl":"` + l.srv.URL + `/v1","api":"openai-completions","apiKey":"sk-compat","models":[` + model("chat-1", false) + `]}
	}}`
}

// plays adds answers.
func (l *llm) plays(answers ...answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers = append(l.answers, answers...)
	l.more.Broadcast()
}

// playsTo adds an answer to a conversation whose first message has a word in it.
func (l *llm) playsTo(word string, a answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[string][]answer{}
	}
	l.of[word] = append(l.of[word], a)
}

// begins is the first text of a conversation.
func begins(body []byte) string {
	for _, m := range gjson.GetBytes(body, "messages").Array() {
		if m.Get("role").Str == "user" {
			return m.Get("content").Raw
		}
	}
	return ""
}

// open lets a gate pass.
func (l *llm) open(name string) { close(l.gate(name)) }

func (l *llm) gate(name string) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gates[name] == nil {
		l.gates[name] = make(chan struct{})
	}
	return l.gates[name]
}

func (l *llm) openAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, g := range l.gates {
		select {
		case <-g:
		default:
			close(g)
		}
		delete(l.gates, name)
	}
}

// decide answers every request by what it says, instead of the answers laid out.
// think is called by one request at a time.
func (l *llm) decide(think func(body gjson.Result) answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.think = think
}

// summarises answers every request for a summary with a text.
func (l *llm) summarises(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.summary = text
}

// request waits for the n-th request, from 0.
func (l *llm) request(n int) request {
	l.t.Helper()
	timer := time.AfterFunc(patience, func() { l.mu.Lock(); l.more.Broadcast(); l.mu.Unlock() })
	defer timer.Stop()
	deadline := time.Now().Add(patience)
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.requests) <= n {
		if time.Now().After(deadline) {
			l.t.Fatalf("request %d did not come", n)
		}
		l.more.Wait()
	}
	return l.requests[n]
}

// begun are the beginnings of the conversations that have been asked for.
func (l *llm) begun() (list []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.requests {
		list = append(list, begins([]byte(r.body)))
	}
	return list
}

func (l *llm) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.requests)
}

// next takes the next answer to a conversation that begins with a text.
func (l *llm) next(begins string) (answer, bool) {
	for word, list := range l.of {
		if len(list) > 0 && strings.Contains(begins, word) {
			l.of[word] = list[1:]
			return list[0], true
		}
	}
	return answer{}, false
}

func (l *llm) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	l.mu.Lock()
	l.requests = append(l.requests, request{r.URL.Path, r.Header.Clone(), string(body)})
	n := len(l.requests)
	if l.h != nil {
		l.h.Add(history.Asked, askedLine(n, body))
	}
	a := fail(500, `{"error":{"message":"the test has no answer for this request"}}`)
	if l.think != nil {
		a = l.think(gjson.ParseBytes(body))
	} else if l.summary != "" && strings.Contains(string(body), `conversation>\n`) {
		a = text(l.summary)
	} else if own, is := l.next(begins(body)); is {
		a = own
	} else if len(l.answers) > 0 {
		a, l.answers = l.answers[0], l.answers[1:]
	}
	l.more.Broadcast()
	l.mu.Unlock()
	s := &stream{l: l, w: w, r: r, a: a, n: n}
	defer s.over(0)
	if a.status != 0 {
		for k, v := range a.header {
			w.Header()[k] = v
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(a.status)
		io.WriteString(w, a.body)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	switch {
	case a.raw != nil:
		a.raw(w, r)
	case strings.HasSuffix(r.URL.Path, "/chat/completions"):
		s.completions()
	case strings.HasSuffix(r.URL.Path, "/responses"):
		s.responses()
	case strings.Contains(r.URL.Path, ":streamGenerateContent"):
		s.google()
	default:
		s.messages()
	}
}

// stream writes one answer.
type stream struct {
	l    *llm
	w    http.ResponseWriter
	r    *http.Request
	a    answer
	kind string // of the open block
	said int    // events of openai-responses
	n    int    // of the request, from 1; 0 when it is over
}

// over tells the history what has become of the request, before the client knows.
func (s *stream) over(output int) {
	if s.l.h != nil && s.n != 0 {
		s.l.h.Add(history.Answered, fmt.Sprintf(`{"n":%d,"output":%d}`, s.n, output))
	}
	s.n = 0
}

// askedLine is a request of anthropic-messages as a history has it.
func askedLine(n int, body []byte) string {
	type result struct {
		Call string `json:"call"`
		Text string `json:"text"`
	}
	line := struct {
		N       int      `json:"n"`
		Max     int64    `json:"max"`
		Of      string   `json:"of"`
		Results []result `json:"results"`
	}{N: n, Max: gjson.GetBytes(body, "max_tokens").Int(), Of: begins(body)}
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

func (s *stream) flush() { s.w.(http.Flusher).Flush() }

func (s *stream) event(name string, data any) {
	raw, _ := json.Marshal(data)
	if name != "" {
		fmt.Fprintf(s.w, "event: %s\n", name)
	}
	fmt.Fprintf(s.w, "data: %s\n\n", raw)
	s.flush()
}

// pause handles the steps that are no content; false means that the client has
// gone or the answer is to be left hanging.
func (s *stream) pause(st step) (isPause, goOn bool) {
	switch st.kind {
	case "gate":
		s.flush()
		select {
		case <-s.l.gate(st.name):
			return true, true
		case <-s.r.Context().Done():
			return true, false
		}
	case "stall":
		s.flush()
		<-s.r.Context().Done()
		return true, false
	case "comment":
		fmt.Fprint(s.w, ": keepalive\n\n")
		s.flush()
		return true, true
	}
	return false, true
}

func (a answer) usage() (in, out int) {
	in, out = a.input, a.output
	if in == 0 {
		in = 100
	}
	if out == 0 {
		out = 10
	}
	return in, out
}

func (a answer) hasTools() bool {
	for _, st := range a.steps {
		if st.kind == "tool" {
			return true
		}
	}
	return false
}

type m = map[string]any

// messages speaks anthropic-messages.
func (s *stream) messages() {
	in, out := s.a.usage()
	s.event("message_start", m{"type": "message_start", "message": m{"id": "msg_1", "type": "message", "role": "assistant", "content": []any{},
		"model": "mock", "usage": m{"input_tokens": in, "output_tokens": 1, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}}})
	index := -1
	closeBlock := func() {
		if s.kind != "" {
			s.event("content_block_stop", m{"type": "content_block_stop", "index": index})
			s.kind = ""
		}
	}
	for _, st := range s.a.steps {
		if isPause, goOn := s.pause(st); isPause {
			if !goOn {
				return
			}
			continue
		}
		if s.kind != st.kind || st.kind == "tool" {
			closeBlock()
			index++
			block := m{"type": "text", "text": ""}
			switch st.kind {
			case "thinking":
				block = m{"type": "thinking", "thinking": "", "signature": ""}
			case "tool":
				block = m{"type": "tool_use", "id": st.id, "name": st.name, "input": m{}}
			}
			s.event("content_block_start", m{"type": "content_block_start", "index": index, "content_block": block})
			s.kind = st.kind
		}
		for _, d := range s.anthropicDeltas(st) {
			s.event("content_block_delta", m{"type": "content_block_delta", "index": index, "delta": d})
		}
	}
	closeBlock()
	if s.a.cut {
		return
	}
	stop := map[string]string{"": "end_turn", "stop": "end_turn", "length": "max_tokens", "toolUse": "tool_use"}[s.a.stop]
	if s.a.stop == "" && s.a.hasTools() {
		stop = "tool_use"
	}
	s.over(out)
	s.event("message_delta", m{"type": "message_delta", "delta": m{"stop_reason": stop}, "usage": m{"output_tokens": out}})
	s.event("message_stop", m{"type": "message_stop"})
}

func (s *stream) anthropicDeltas(st step) []m {
	switch st.kind {
	case "thinking":
		return []m{{"type": "thinking_delta", "thinking": st.part}, {"type": "signature_delta", "signature": st.sig}}
	case "tool":
		half := len(st.part) / 2
		return []m{{"type": "input_json_delta", "partial_json": st.part[:half]}, {"type": "input_json_delta", "partial_json": st.part[half:]}}
	}
	return []m{{"type": "text_delta", "text": st.part}}
}

// completions speaks openai-completions.
func (s *stream) completions() {
	in, out := s.a.usage()
	chunk := func(delta m, finish any) {
		s.event("", m{"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": []any{m{"index": 0, "delta": delta, "finish_reason": finish}}})
	}
	chunk(m{"role": "assistant", "content": ""}, nil)
	calls := 0
	for _, st := range s.a.steps {
		if isPause, goOn := s.pause(st); isPause {
			if !goOn {
				return
			}
			continue
		}
		switch st.kind {
		case "text":
			chunk(m{"content": st.part}, nil)
		case "thinking":
			chunk(m{"reasoning_content": st.part}, nil)
		case "tool":
			half := len(st.part) / 2
			chunk(m{"tool_calls": []any{m{"index": calls, "id": st.id, "type": "function", "function": m{"name": st.name, "arguments": st.part[:half]}}}}, nil)
			chunk(m{"tool_calls": []any{m{"index": calls, "function": m{"arguments": st.part[half:]}}}}, nil)
			calls++
		}
	}
	if s.a.cut {
		return
	}
	stop := map[string]string{"": "stop", "stop": "stop", "length": "length", "toolUse": "tool_calls"}[s.a.stop]
	if s.a.stop == "" && calls > 0 {
		stop = "tool_calls"
	}
	chunk(m{}, stop)
	s.event("", m{"id": "chatcmpl-1", "choices": []any{}, "usage": m{"prompt_tokens": in, "completion_tokens": out, "total_tokens": in + out}})
	fmt.Fprint(s.w, "data: [DONE]\n\n")
	s.flush()
}
