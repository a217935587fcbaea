package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// TestPassingFailure: one passing 5xx, 429 or broken connection is no failed run
// where pi of that age repeats a request by itself, and one where it does not.
// What lasts is retried by the session once the repeats are used up.
func TestPassingFailure(t *testing.T) {
	overloaded := fail(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)
	never := header("X-Should-Retry", "false", overloaded)
	for _, x := range []struct {
		name     string
		args     []string
		settings string
		answers  []answer
		asked    int
		want     string // the events that say how it went
	}{
		{"union, 529", nil, `{}`, []answer{overloaded, text("fine")}, 2, "agent_end"},
		{"union, 500", nil, `{}`, []answer{fail(500, `{}`), text("fine")}, 2, "agent_end"},
		{"union, 429", nil, `{}`, []answer{fail(429, `{}`), text("fine")}, 2, "agent_end"},
		{"union, reset", nil, `{}`, []answer{raw(func(http.ResponseWriter) { panic(http.ErrAbortHandler) }), text("fine")}, 2, "agent_end"},
		{"union, twice", nil, `{}`, []answer{overloaded, overloaded, text("fine")}, 3, "agent_end"},
		{"union, three times", nil, `{"retry":{"baseDelayMs":1}}`, []answer{overloaded, overloaded, overloaded, text("fine")}, 4, "agent_end auto_retry_start agent_end auto_retry_end"},
		{"union, not wanted by the service", nil, `{"retry":{"baseDelayMs":1}}`, []answer{never, text("fine")}, 2, "agent_end auto_retry_start agent_end auto_retry_end"},
		{"union, after content", nil, `{"retry":{"baseDelayMs":1}}`, []answer{cutOff("half"), text("fine")}, 2, "agent_end auto_retry_start agent_end auto_retry_end"},
		{"union, switched off", nil, `{"retry":{"baseDelayMs":1,"provider":{"maxRetries":0}}}`, []answer{overloaded, text("fine")}, 2, "agent_end auto_retry_start agent_end auto_retry_end"},
		{"union, no retry by the session", nil, `{"retry":{"enabled":false}}`, []answer{overloaded, text("fine")}, 2, "agent_end"},
		{"union, a wait that is too long", nil, `{"retry":{"enabled":false,"provider":{"maxRetryDelayMs":2000}}}`, []answer{header("Retry-After", "30", overloaded), text("fine")}, 1, "agent_end"},
		{"s0", []string{"--dialect", "s0"}, `{}`, []answer{overloaded, text("fine")}, 2, "agent_end"},
		{"s2", []string{"--dialect", "s2"}, `{}`, []answer{overloaded, text("fine")}, 2, "agent_end"},
		{"s3", []string{"--dialect", "s3"}, `{}`, []answer{overloaded, text("fine")}, 2, "agent_end"},
		{"s1", []string{"--dialect", "s1"}, `{"retry":{"baseDelayMs":1}}`, []answer{overloaded, text("fine")}, 2, "agent_end auto_retry_start agent_end auto_retry_end"},
		{"s4", []string{"--dialect", "s4"}, `{"retry":{"baseDelayMs":1}}`, []answer{overloaded, text("fine")}, 2, "agent_end auto_retry_start agent_end auto_retry_end"},
		{"pi1", []string{"--dialect", "pi1"}, `{"retry":{"baseDelayMs":1}}`, []answer{overloaded, text("fine")}, 2, "agent_end auto_retry_start auto_retry_end agent_end"},
		{"pi1, asked for", []string{"--dialect", "pi1"}, `{"retry":{"provider":{"maxRetries":1}}}`, []answer{overloaded, text("fine")}, 2, "agent_end"},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.write(filepath.Join(p.agent(), "settings.json"), x.settings)
			d := p.startRaw(append([]string{"--mode", "rpc", "--multi-session"}, x.args...)...)
			for _, wire := range wires {
				provider, id, _ := strings.Cut(wire, "/")
				h := d.open(fmt.Sprintf(`,"provider":%q,"modelId":%q`, provider, id))
				p.llm.clear()
				p.llm.plays(x.answers...)
				before, from := p.llm.count(), d.count()
				d.ok(fmt.Sprintf(`{"type":"prompt","sessionId":%q,"message":"go"}`, h))
				_, to := d.tagged(from, h, "agent_settled")
				var seen []string
				for _, l := range d.output()[from:to] {
					v := gjson.Parse(l)
					if kind := v.Get("type").Str; v.Get("sessionId").Str == h && (kind == "agent_end" || strings.HasPrefix(kind, "auto_retry")) {
						seen = append(seen, kind)
					}
				}
				assert.Equal(t, x.want, strings.Join(seen, " "), wire)
				assert.Equal(t, x.asked, p.llm.count()-before, wire)
			}
		})
	}
}

// cutOff is an answer that ends in the middle.
func cutOff(said string) answer {
	a := text(said)
	a.cut = true
	return a
}

// TestPassingFailure_summary: summaries are requests like others.
func TestPassingFailure_summary(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(filepath.Join(p.agent(), "settings.json"), `{"compaction":{"keepRecentTokens":5}}`)
	d := p.start("--verbose")
	p.llm.plays(text("one"), text("two"))
	d.prompt("the first thing that is said")
	root := d.ok(`{"type":"get_fork_messages"}`).Get("messages.0.entryId").Str
	d.prompt("the second thing that is said")
	p.llm.plays(fail(503, `{}`), text("the summary"))
	assert.Contains(t, d.ok(`{"type":"compact"}`).Get("summary").Str, "the summary")
	p.llm.plays(fail(429, `{}`), text("the branch"))
	r := d.ok(fmt.Sprintf(`{"type":"navigate_tree","targetId":%q,"summarize":true}`, root))
	assert.False(t, r.Get("cancelled").Bool(), r.Raw)
	assert.Equal(t, 6, p.llm.count())
	assert.NotContains(t, strings.Join(d.output(), " "), "auto_retry", "nobody is told")
	require.Zero(t, d.end())
	assert.Equal(t, 2, strings.Count(d.errors(), `"againInMs":500`), "but the log, for who asked for it")
}

// TestRefusalsAreQuiet: clients show their users what comes on stderr, and pi
// writes nothing there when a request fails.
func TestRefusalsAreQuiet(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	d := p.start()
	p.llm.plays(fail(500, `{}`), text("fine"), fail(400, `{"error":{"message":"no"}}`))
	d.prompt("one")
	d.prompt("two")
	require.Zero(t, d.end())
	assert.Empty(t, d.errors())
}

// TestPassingFailure_once: so it is without RPC.
func TestPassingFailure_once(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.llm.plays(fail(500, `{}`), text("printed"), fail(500, `{}`), text("printed"))
	out, errs, code := p.once("", p.mock("-p", "go")...)
	assert.Equal(t, "printed\n", out)
	assert.Zero(t, code, errs)
	out, _, code = p.once("", p.mock("--mode", "json", "go")...)
	assert.Zero(t, code)
	assert.Equal(t, 1, strings.Count(out, `"agent_end"`))
}

// TestPassingFailure_abort: a wait before a repeat ends with whatever ends a run.
func TestPassingFailure_abort(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	d := p.start()
	slow := header("Retry-After", "50", fail(429, `{"error":{"message":"slow down"}}`))
	begun := time.Now()
	for _, end := range []string{`{"type":"abort"}`, `{"type":"new_session"}`, `{"type":"abort_and_prompt","message":"x"}`} {
		n := p.llm.count()
		p.llm.plays(slow, text("x"))
		d.ok(`{"type":"prompt","message":"go"}`)
		p.llm.request(n)
		d.ok(end)
		p.llm.clear()
	}
	assert.Less(t, time.Since(begun), 20*time.Second)
}
