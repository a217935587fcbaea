package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

var wires = []string{"mock/mock-1", "compat/chat-1", "resp/resp-1", "gem/gem-1"}

// hangUp closes the connection in the middle.
func hangUp(w http.ResponseWriter) {
	w.(http.Flusher).Flush()
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a reset, not an end
		}
		conn.Close()
	}
}

func raw(f func(w http.ResponseWriter)) answer {
	return answer{raw: func(w http.ResponseWriter, _ *http.Request) { f(w) }}
}

func header(k, v string, a answer) answer {
	a.header = http.Header{k: {v}}
	return a
}

// TestProviderFaults: whatever a provider does, a run ends in one of the
// documented ways, with the documented events, and the next one works.
func TestProviderFaults(t *testing.T) {
	cut := text("half").and(text(" an answer"))
	cut.cut = true
	length := tool("c1", "bash", `{"command":"echo never run > ran.txt; exit 1"}`)
	length.stop = "length"
	garbage := func(w http.ResponseWriter) {
		io.WriteString(w, "data: {\"not\": json\n\ndata: \x00\xff\n\nevent: nonsense\ndata: []\n\n")
	}
	for _, x := range []struct {
		name    string
		answer  answer
		retried bool   // made again by itself
		kind    string // of auto_retry_start, where it is
	}{
		{"529", fail(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), true, "overloaded"},
		{"503", fail(503, `{"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}`), true, "overloaded"},
		{"429", fail(429, `{"error":{"message":"Rate limit reached for requests","type":"requests","code":"rate_limit_exceeded"}}`), true, "rate_limit"},
		{"429 retry-after", header("Retry-After", "0", fail(429, `{"error":{"message":"slow down"}}`)), true, "rate_limit"},
		{"429 retry-after nonsense", header("Retry-After", "soon", fail(429, `{"error":{"message":"slow down"}}`)), true, "rate_limit"},
		{"500", fail(500, `{"error":{"message":"internal"}}`), true, "server_error"},
		{"502 html", fail(502, `<html>bad gateway</html>`), true, ""},
		{"cut stream", cut, true, "cut_stream"},
		{"reset", raw(hangUp), true, ""},
		{"reset after content", raw(func(w http.ResponseWriter) { io.WriteString(w, ": hello\n\n"); hangUp(w) }), true, ""},
		{"empty", raw(func(http.ResponseWriter) {}), true, ""},
		{"401", fail(401, `{"error":{"message":"invalid api key"}}`), false, ""},
		{"400", fail(400, `{"error":{"message":"bad request: unsupported parameter"}}`), false, ""},
		{"quota", fail(429, `{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","code":"insufficient_quota"}}`), false, ""},
		{"garbage", raw(garbage), true, ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.write(filepath.Join(p.agent(), "settings.json"), `{"retry":{"baseDelayMs":1,"provider":{"maxRetries":0}}}`)
			d := p.startRaw("--mode", "rpc", "--multi-session")
			for _, wire := range wires {
				provider, id, _ := strings.Cut(wire, "/")
				h := d.open(fmt.Sprintf(`,"provider":%q,"modelId":%q`, provider, id))
				p.llm.plays(x.answer, x.answer)
				if provider != "mock" || !strings.Contains(x.name, "401") { // a refused key is looked up again, once
					p.llm.drop(1)
				}
				p.llm.plays(text("fine"))
				from := d.count()
				d.ok(fmt.Sprintf(`{"type":"prompt","sessionId":%q,"message":"go"}`, h))
				settled, to := d.tagged(from, h, "agent_settled")
				seen := d.kindsOf(from, to, h)
				if x.retried {
					assert.Equal(t, "completed", settled.Get("outcome").Str, "%s: %v", wire, seen)
					assert.Contains(t, seen, "agent_end auto_retry_start agent_start", wire)
					assert.Contains(t, seen, "agent_end auto_retry_end agent_settled", wire)
					start, _ := d.tagged(from, h, "auto_retry_start")
					if x.kind != "" {
						assert.Equal(t, x.kind, start.Get("errorKind").Str, "%s: %s", wire, start.Raw)
					}
					continue
				}
				assert.Equal(t, "failed", settled.Get("outcome").Str, wire)
				assert.NotContains(t, seen, "auto_retry", wire)
				p.llm.clear()
				p.llm.plays(text("fine"))
				from = d.count()
				d.ok(fmt.Sprintf(`{"type":"prompt","sessionId":%q,"message":"again"}`, h))
				settled, _ = d.tagged(from, h, "agent_settled")
				assert.Equal(t, "completed", settled.Get("outcome").Str, wire)
			}
		})
	}
	t.Run("length in a tool call", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		d := p.startRaw("--mode", "rpc", "--multi-session")
		for _, wire := range wires[:3] { // google sends calls whole
			provider, id, _ := strings.Cut(wire, "/")
			h := d.open(fmt.Sprintf(`,"provider":%q,"modelId":%q`, provider, id))
			cutCall := length
			cutCall.steps = []step{{kind: "tool", id: "c1", name: "bash", part: `{"command":"echo never`}}
			p.llm.plays(cutCall, text("I see"))
			d.ok(fmt.Sprintf(`{"type":"prompt","sessionId":%q,"message":"go"}`, h))
			end, _ := d.tagged(0, h, "tool_execution_end")
			assert.True(t, end.Get("isError").Bool())
			assert.Contains(t, end.Raw, "incomplete")
			settled, _ := d.tagged(0, h, "agent_settled")
			assert.Equal(t, "completed", settled.Get("outcome").Str, wire)
		}
	})
	t.Run("many calls", func(t *testing.T) {
		t.Parallel()
		flood := answer{}
		for i := range 2_000 {
			flood.steps = append(flood.steps, step{kind: "tool", id: fmt.Sprintf("c%d", i), name: "bash", part: `{"command":"touch run"}`})
		}
		for _, dialect := range []string{"union", "pi1"} {
			p := newPlace(t)
			d := p.startRaw("--mode", "rpc", "--multi-session", "--dialect", dialect)
			ask := wires
			if dialect == "union" {
				ask = wires[:1] // its updates are long
			}
			for _, wire := range ask {
				provider, id, _ := strings.Cut(wire, "/")
				h := d.open(fmt.Sprintf(`,"provider":%q,"modelId":%q`, provider, id))
				p.llm.plays(flood)
				d.ok(fmt.Sprintf(`{"type":"prompt","sessionId":%q,"message":"go"}`, h))
				settled, to := d.tagged(0, h, "agent_settled")
				assert.Equal(t, "failed", settled.Get("outcome").Str, wire)
				end, _ := d.tagged(0, h, "agent_end")
				assert.Contains(t, end.Get("messages.1.errorMessage").Str, "more than 256 tool calls", wire)
				assert.NotContains(t, d.kindsOf(0, to, h), "tool_execution", wire)
				p.llm.plays(text("fine"))
				from := d.count()
				d.ok(fmt.Sprintf(`{"type":"prompt","sessionId":%q,"message":"again"}`, h))
				settled, _ = d.tagged(from, h, "agent_settled")
				assert.Equal(t, "completed", settled.Get("outcome").Str, wire)
			}
			size := 0
			for _, l := range d.output() {
				size += len(l)
			}
			assert.Less(t, size, 40<<20, dialect)
		}
	})
	t.Run("overflow", func(t *testing.T) {
		t.Parallel()
		for i, wire := range wires {
			body := []string{
				`{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`,
				`{"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.","code":"context_length_exceeded"}}`,
				`{"error":{"message":"Your input exceeds the context window of this model.","code":"context_length_exceeded"}}`,
				`{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}`,
			}[i]
			p := small(t)
			p.llm.summarises("the summary")
			d := p.startRaw("--mode", "rpc", "--model", wire)
			p.llm.plays(text("one"))
			d.prompt("first")
			p.llm.plays(fail(400, body), text("fits now"))
			events := d.prompt("second " + long)
			assert.Equal(t, "completed", events[len(events)-1].Get("outcome").Str, wire)
			assert.Equal(t, "overflow", find(events, "auto_compaction_start").Get("reason").Str, wire)
		}
	})
	t.Run("silence", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		p.write(filepath.Join(p.agent(), "settings.json"), `{"httpIdleTimeoutMs":100,"retry":{"baseDelayMs":1,"provider":{"maxRetries":0}}}`)
		d := p.startRaw("--mode", "rpc", "--multi-session")
		silence := func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
		for _, silent := range []answer{
			{raw: silence}, // headers, then nothing
			{raw: func(w http.ResponseWriter, r *http.Request) { // comments do not count
				if _, err := io.WriteString(w, ": keepalive\n\n"); err == nil {
					silence(w, r)
				}
			}},
		} {
			for _, wire := range wires {
				provider, id, _ := strings.Cut(wire, "/")
				h := d.open(fmt.Sprintf(`,"provider":%q,"modelId":%q`, provider, id))
				p.llm.plays(silent, text("fine"))
				d.ok(fmt.Sprintf(`{"type":"prompt","sessionId":%q,"message":"go"}`, h))
				start, _ := d.tagged(0, h, "auto_retry_start")
				assert.Equal(t, "stream_stalled", start.Get("errorKind").Str, wire)
				settled, _ := d.tagged(0, h, "agent_settled")
				assert.Equal(t, "completed", settled.Get("outcome").Str, wire)
			}
		}
	})
	t.Run("refused connection", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		address := l.Addr().String()
		l.Close()
		p.write(filepath.Join(p.agent(), "models.json"), `{"providers":{"gone":{"baseUrl":"http://`+address+`","api":"anthropic-messages","apiKey":"k","models":[{"id":"g"}]}}}`)
		p.write(filepath.Join(p.agent(), "settings.json"), `{"retry":{"baseDelayMs":1,"maxRetries":2,"provider":{"maxRetries":0}}}`)
		d := p.startRaw("--mode", "rpc", "--model", "gone/g")
		events := d.prompt("go")
		assert.Equal(t, "failed", events[len(events)-1].Get("outcome").Str)
		assert.Equal(t, 2, strings.Count(strings.Join(kinds(events), " "), "auto_retry_start"))
		end := find(events, "auto_retry_end")
		assert.False(t, end.Get("success").Bool())
		assert.NotEmpty(t, end.Get("finalError").Str)
	})
}

// kindsOf lists the types of a session's records between two lines.
func (d *daemon) kindsOf(from, to int, session string) string {
	var list []string
	for _, l := range d.output()[from:to] {
		if v := gjson.Parse(l); v.Get("sessionId").Str == session {
			list = append(list, v.Get("type").Str)
		}
	}
	return strings.Join(list, " ")
}

// drop takes back the last answers that were laid out, clear all of them.
func (l *llm) drop(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers = l.answers[:len(l.answers)-n]
}

func (l *llm) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers = nil
}
