package shape

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"
)

// Model is a model server on loopback that speaks the wire of Anthropic. What it
// answers is decided by the first word of the last thing the user said.
type Model struct {
	*httptest.Server
	mu    sync.Mutex
	asked map[string]int // by what was said
	done  chan struct{}
}

// NewModel starts one.
func NewModel() *Model {
	m := &Model{asked: map[string]int{}, done: make(chan struct{})}
	m.Server = httptest.NewServer(http.HandlerFunc(m.serve))
	return m
}

// Close ends it, and what hangs in it.
func (m *Model) Close() {
	close(m.done)
	m.CloseClientConnections()
	m.Server.Close()
}

// Config is a models.json with its models.
func (m *Model) Config() string {
	model := func(id string, reasoning bool, window int) string {
		return fmt.Sprintf(`{"id":%q,"name":%q,"reasoning":%t,"input":["text","image"],"contextWindow":%d,"maxTokens":4096,`+
			`"cost":{"input":3,"output":15,"cacheRead":0.3,"cacheWrite":3.75}}`, id, id, reasoning, window)
	}
	return fmt.Sprintf(`{"providers":{"mock":{"baseUrl":%q,"api":"anthropic-messages","apiKey":"sk-mock","models":[%s,%s,%s]}}}`,
		m.URL, model("plain", false, 200000), model("think", true, 200000), model("small", false, 20000))
}

type object = map[string]any

func (m *Model) serve(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	body := gjson.ParseBytes(raw)
	said, rounds := lastSaid(body)
	m.mu.Lock()
	m.asked[said]++
	n := m.asked[said]
	m.mu.Unlock()
	a := &answer{w: w}
	word, _, _ := strings.Cut(said, " ")
	summary := strings.Contains(string(raw), `conversation>\n`)
	switch {
	case summary && strings.Contains(string(raw), "HANG") && !m.hang(r, 2*time.Second):
	case summary:
		a.whole(100, "## Goal\nthe summary", "end_turn")
	case word == "REFUSED":
		refuse(w, 400, "invalid_request_error", "no such thing")
	case word == "OVERLOADED" && n == 1, word == "BUSY":
		refuse(w, 529, "overloaded_error", "Overloaded")
	case word == "OVERFLOW" && n == 1:
		refuse(w, 400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum")
	case word == "HANGING":
		a.half("wait")
		m.hang(r, time.Hour)
	case word == "CUT":
		a.half("half")
		panic(http.ErrAbortHandler)
	case word == "LENGTH":
		a.whole(100, "cut off", "max_tokens")
	case word == "FULL":
		a.whole(19900, "that was a lot", "end_turn")
	case word == "THINK":
		a.begin(100)
		a.open(object{"type": "thinking", "thinking": "", "signature": ""})
		a.delta(object{"type": "thinking_delta", "thinking": "hm"})
		a.delta(object{"type": "signature_delta", "signature": "c2ln"})
		a.close()
		a.text("thought")
		a.end("end_turn")
	case word == "TOOLS" && rounds < len(toolRounds):
		a.begin(100)
		a.text("working")
		for i, t := range toolRounds[rounds] {
			a.call(fmt.Sprintf("call_%d_%d", rounds, i), t[0], t[1])
		}
		a.end("tool_use")
	case word == "SLEEP" && rounds == 0:
		a.begin(100)
		a.call("call_s", "bash", `{"command":"sleep 30"}`)
		a.call("call_t", "bash", `{"command":"echo never"}`)
		a.end("tool_use")
	default:
		a.whole(100, "answer", "end_turn")
	}
}

// toolRounds are the calls of a run that uses every tool, by round.
var toolRounds = [][][2]string{
	{{"bash", `{"command":"echo out; sleep 0.2; echo more"}`}, {"read", `{"path":"text.txt"}`}},
	{{"write", `{"path":"new.txt","content":"one\n"}`}, {"edit", `{"path":"text.txt","oldText":"two","newText":"2","edits":[{"oldText":"two","newText":"2"}]}`}},
	{{"bash", `{"command":"exit 3"}`}, {"nosuch", `{}`}, {"read", `{}`}, {"bash", `{"command":"seq 1 5000"}`}},
	{{"read", `{"path":"pixel.png"}`}},
}

// hang waits for the end of the request, and is true if the time is over first:
// old versions of pi do not stop a summary.
func (m *Model) hang(r *http.Request, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
	case <-m.done:
	}
	return false
}

func refuse(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Should-Retry", "false") // the client's own repeats only cost time
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"type":"error","error":{"type":%q,"message":%q}}`, kind, message)
}

// lastSaid is the last text of the user, and how many rounds of tools followed.
func lastSaid(body gjson.Result) (said string, rounds int) {
	messages := body.Get("messages").Array()
	for i := len(messages) - 1; i >= 0; i-- {
		m := messages[i]
		if m.Get("role").Str != "user" {
			if m.Get(`content.#(type=="tool_use")`).Exists() {
				rounds++
			}
			continue
		}
		content := m.Get("content")
		if content.Type == gjson.String {
			return content.Str, rounds
		}
		if texts := content.Get(`#(type=="text")#.text`).Array(); len(texts) > 0 {
			return texts[len(texts)-1].Str, rounds
		}
	}
	return "", rounds
}

// answer writes one answer.
type answer struct {
	w     http.ResponseWriter
	index int
}

func (a *answer) event(data object) {
	raw, _ := json.Marshal(data)
	a.w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(a.w, "event: %s\ndata: %s\n\n", data["type"], raw)
	a.w.(http.Flusher).Flush()
}

func (a *answer) begin(tokens int) {
	a.event(object{"type": "message_start", "message": object{"id": "msg_1", "type": "message", "role": "assistant", "content": []any{},
		"model": "mock", "usage": object{"input_tokens": tokens, "output_tokens": 1, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}}})
}

func (a *answer) open(block object) {
	a.event(object{"type": "content_block_start", "index": a.index, "content_block": block})
}

func (a *answer) delta(d object) {
	a.event(object{"type": "content_block_delta", "index": a.index, "delta": d})
}

func (a *answer) close() {
	a.event(object{"type": "content_block_stop", "index": a.index})
	a.index++
}

func (a *answer) text(s string) {
	a.open(object{"type": "text", "text": ""})
	a.delta(object{"type": "text_delta", "text": s})
	a.close()
}

// whole is an answer of one text, half the beginning of one.
func (a *answer) whole(tokens int, text, reason string) {
	a.begin(tokens)
	a.text(text)
	a.end(reason)
}

func (a *answer) half(text string) {
	a.begin(100)
	a.open(object{"type": "text", "text": ""})
	a.delta(object{"type": "text_delta", "text": text})
}

func (a *answer) call(id, name, args string) {
	a.open(object{"type": "tool_use", "id": id, "name": name, "input": object{}})
	a.delta(object{"type": "input_json_delta", "partial_json": args})
	a.close()
}

func (a *answer) end(reason string) {
	a.event(object{"type": "message_delta", "delta": object{"stop_reason": reason}, "usage": object{"output_tokens": 10}})
	a.event(object{"type": "message_stop"})
}
