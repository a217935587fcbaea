package providers

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

	"troupe/e2e/harness"
)

var wires = []string{"mock/mock-1", "compat/chat-1", "resp/resp-1", "gem/gem-1"}

// hangUp resets the connection.
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

func raw(f func(w http.ResponseWriter)) harness.Answer {
	return harness.Answer{Raw: func(w http.ResponseWriter, _ *http.Request) { f(w) }}
}

// TestProviderFaults checks that after any fault of a provider a run ends with the documented
// events, and that the next run works.
func TestProviderFaults(t *testing.T) {
	cut := harness.Text("half").Then(harness.Text(" an answer"))
	cut.Cut = true
	length := harness.ToolCall("c1", "bash", `{"command":"echo never run > ran.txt; exit 1"}`)
	length.Stop = "length"
	garbage := func(w http.ResponseWriter) {
		io.WriteString(w, "data: {\"not\": json\n\ndata: \x00\xff\n\nevent: nonsense\ndata: []\n\n")
	}
	for _, x := range []struct {
		name    string
		answer  harness.Answer
		retried bool   // retried automatically
		kind    string // of auto_retry_start, if there is one
	}{
		{"529", harness.Fail(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), true, "overloaded"},
		{"503", harness.Fail(503, `{"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}`), true, "overloaded"},
		{"429", harness.Fail(429, `{"error":{"message":"Rate limit reached for requests","type":"requests","code":"rate_limit_exceeded"}}`), true, "rate_limit"},
		{"429 retry-after", harness.WithHeader("Retry-After", "0", harness.Fail(429, `{"error":{"message":"slow down"}}`)), true, "rate_limit"},
		{"429 retry-after nonsense", harness.WithHeader("Retry-After", "soon", harness.Fail(429, `{"error":{"message":"slow down"}}`)), true, "rate_limit"},
		{"500", harness.Fail(500, `{"error":{"message":"internal"}}`), true, "server_error"},
		{"502 html", harness.Fail(502, `<html>bad gateway</html>`), true, ""},
		{"cut stream", cut, true, "cut_stream"},
		{"reset", raw(hangUp), true, ""},
		{"reset after content", raw(func(w http.ResponseWriter) { io.WriteString(w, ": hello\n\n"); hangUp(w) }), true, ""},
		{"empty", raw(func(http.ResponseWriter) {}), true, ""},
		{"401", harness.Fail(401, `{"error":{"message":"invalid api key"}}`), false, ""},
		{"400", harness.Fail(400, `{"error":{"message":"bad request: unsupported parameter"}}`), false, ""},
		{"quota", harness.Fail(429, `{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","code":"insufficient_quota"}}`), false, ""},
		{"garbage", raw(garbage), true, ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			p := harness.NewPlace(t)
			p.WriteFile(filepath.Join(p.AgentDir(), "settings.json"), `{"retry":{"baseDelayMs":1,"provider":{"maxRetries":0}}}`)
			d := p.StartRaw("--mode", "rpc", "--multi-session")
			for _, wire := range wires {
				provider, id, _ := strings.Cut(wire, "/")
				h := d.OpenSession(fmt.Sprintf(`,"provider":%q,"modelId":%q`, provider, id))
				p.Model.Enqueue(x.answer, x.answer)
				if provider != "mock" || !strings.Contains(x.name, "401") { // looked up once more
					p.Model.Drop(1)
				}
				p.Model.Enqueue(harness.Text("fine"))
				from := d.Count()
				d.OK(fmt.Sprintf(`{"type":"prompt","sessionId":%q,"message":"go"}`, h))
				settled, to := d.WaitTagged(from, h, "agent_settled")
				seen := kindsOf(d, from, to, h)
				if x.retried {
					assert.Equal(t, "completed", settled.Get("outcome").Str, "%s: %v", wire, seen)
					assert.Contains(t, seen, "agent_end auto_retry_start agent_start", wire)
					assert.Contains(t, seen, "agent_end auto_retry_end agent_settled", wire)
					start, _ := d.WaitTagged(from, h, "auto_retry_start")
					if x.kind != "" {
						assert.Equal(t, x.kind, start.Get("errorKind").Str, "%s: %s", wire, start.Raw)
					}
					continue
				}
				assert.Equal(t, "failed", settled.Get("outcome").Str, wire)
				assert.NotContains(t, seen, "auto_retry", wire)
				p.Model.Clear()
				p.Model.Enqueue(harness.Text("fine"))
				from = d.Count()
				d.OK(fmt.Sprintf(`{"type":"prompt","sessionId":%q,"message":"again"}`, h))
				settled, _ = d.WaitTagged(from, h, "agent_settled")
				assert.Equal(t, "completed", settled.Get("outcome").Str, wire)
			}
		})
	}
	t.Run("length in a tool call", func(t *testing.T) {
		t.Parallel()
		p := harness.NewPlace(t)
		d := p.StartRaw("--mode", "rpc", "--multi-session")
		for _, wire := range wires[:3] { // google sends tool calls whole
			provider, id, _ := strings.Cut(wire, "/")
			h := d.OpenSession(fmt.Sprintf(`,"provider":%q,"modelId":%q`, provider, id))
			cutCall := length
			cutCall.Steps = []harness.Step{{Kind: "tool", ID: "c1", Name: "bash", Part: `{"command":"echo never`}}
			p.Model.Enqueue(cutCall, harness.Text("I see"))
			d.OK(fmt.Sprintf(`{"type":"prompt","sessionId":%q,"message":"go"}`, h))
			end, _ := d.WaitTagged(0, h, "tool_execution_end")
			assert.True(t, end.Get("isError").Bool())
			assert.Contains(t, end.Raw, "incomplete")
			settled, _ := d.WaitTagged(0, h, "agent_settled")
			assert.Equal(t, "completed", settled.Get("outcome").Str, wire)
		}
	})
	t.Run("many calls", func(t *testing.T) {
		t.Parallel()
		flood := harness.Answer{}
		for i := range 2_000 {
			flood.Steps = append(flood.Steps, harness.Step{Kind: "tool", ID: fmt.Sprintf("c%d", i), Name: "bash", Part: `{"command":"touch run"}`})
		}
		for _, dialect := range []string{"union", "pi1"} {
			p := harness.NewPlace(t)
			d := p.StartRaw("--mode", "rpc", "--multi-session", "--dialect", dialect)
			ask := wires
			if dialect == "union" {
				ask = wires[:1] // its updates are long
			}
			for _, wire := range ask {
				provider, id, _ := strings.Cut(wire, "/")
				h := d.OpenSession(fmt.Sprintf(`,"provider":%q,"modelId":%q`, provider, id))
				p.Model.Enqueue(flood)
				d.OK(fmt.Sprintf(`{"type":"prompt","sessionId":%q,"message":"go"}`, h))
				settled, to := d.WaitTagged(0, h, "agent_settled")
				assert.Equal(t, "failed", settled.Get("outcome").Str, wire)
				end, _ := d.WaitTagged(0, h, "agent_end")
				assert.Contains(t, end.Get("messages.1.errorMessage").Str, "more than 256 tool calls", wire)
				assert.NotContains(t, kindsOf(d, 0, to, h), "tool_execution", wire)
				p.Model.Enqueue(harness.Text("fine"))
				from := d.Count()
				d.OK(fmt.Sprintf(`{"type":"prompt","sessionId":%q,"message":"again"}`, h))
				settled, _ = d.WaitTagged(from, h, "agent_settled")
				assert.Equal(t, "completed", settled.Get("outcome").Str, wire)
			}
			size := 0
			for _, l := range d.Lines() {
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
			p := harness.NewCompactingPlace(t)
			p.Model.SetSummary("the summary")
			d := p.StartRaw("--mode", "rpc", "--model", wire)
			p.Model.Enqueue(harness.Text("one"))
			d.Prompt("first")
			p.Model.Enqueue(harness.Fail(400, body), harness.Text("fits now"))
			events := d.Prompt("second " + harness.LongPrompt)
			assert.Equal(t, "completed", events[len(events)-1].Get("outcome").Str, wire)
			assert.Equal(t, "overflow", harness.FirstEvent(events, "auto_compaction_start").Get("reason").Str, wire)
		}
	})
	t.Run("silence", func(t *testing.T) {
		t.Parallel()
		p := harness.NewPlace(t)
		p.WriteFile(filepath.Join(p.AgentDir(), "settings.json"), `{"httpIdleTimeoutMs":100,"retry":{"baseDelayMs":1,"provider":{"maxRetries":0}}}`)
		d := p.StartRaw("--mode", "rpc", "--multi-session")
		silence := func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
		for _, silent := range []harness.Answer{
			{Raw: silence}, // headers, then nothing
			{Raw: func(w http.ResponseWriter, r *http.Request) { // comments are no data
				if _, err := io.WriteString(w, ": keepalive\n\n"); err == nil {
					silence(w, r)
				}
			}},
		} {
			for _, wire := range wires {
				provider, id, _ := strings.Cut(wire, "/")
				h := d.OpenSession(fmt.Sprintf(`,"provider":%q,"modelId":%q`, provider, id))
				p.Model.Enqueue(silent, harness.Text("fine"))
				d.OK(fmt.Sprintf(`{"type":"prompt","sessionId":%q,"message":"go"}`, h))
				start, _ := d.WaitTagged(0, h, "auto_retry_start")
				assert.Equal(t, "stream_stalled", start.Get("errorKind").Str, wire)
				settled, _ := d.WaitTagged(0, h, "agent_settled")
				assert.Equal(t, "completed", settled.Get("outcome").Str, wire)
			}
		}
	})
	t.Run("refused connection", func(t *testing.T) {
		t.Parallel()
		p := harness.NewPlace(t)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		address := l.Addr().String()
		l.Close()
		p.WriteFile(filepath.Join(p.AgentDir(), "models.json"), `{"providers":{"gone":{"baseUrl":"http://`+address+`","api":"anthropic-messages","apiKey":"k","models":[{"id":"g"}]}}}`)
		p.WriteFile(filepath.Join(p.AgentDir(), "settings.json"), `{"retry":{"baseDelayMs":1,"maxRetries":2,"provider":{"maxRetries":0}}}`)
		d := p.StartRaw("--mode", "rpc", "--model", "gone/g")
		events := d.Prompt("go")
		assert.Equal(t, "failed", events[len(events)-1].Get("outcome").Str)
		assert.Equal(t, 2, strings.Count(strings.Join(harness.Kinds(events), " "), "auto_retry_start"))
		end := harness.FirstEvent(events, "auto_retry_end")
		assert.False(t, end.Get("success").Bool())
		assert.NotEmpty(t, end.Get("finalError").Str)
	})
}

// kindsOf lists the types of a session's records between two lines.
func kindsOf(d *harness.Daemon, from, to int, session string) string {
	var list []string
	for _, l := range d.Lines()[from:to] {
		if v := gjson.Parse(l); v.Get("sessionId").Str == session {
			list = append(list, v.Get("type").Str)
		}
	}
	return strings.Join(list, " ")
}
