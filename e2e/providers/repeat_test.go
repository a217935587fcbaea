package providers

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

	"troupe/e2e/harness"
)

// TestPassingFailure checks a transient failure: a 5xx or 429 status or a broken connection. In
// dialects whose pi repeats requests itself, the run does not fail. In the others it fails and is
// retried by the session. A lasting failure is retried by the session after the repeats.
func TestPassingFailure(t *testing.T) {
	overloaded := harness.Fail(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)
	never := harness.WithHeader("X-Should-Retry", "false", overloaded)
	for _, x := range []struct {
		name     string
		args     []string
		settings string
		answers  []harness.Answer
		asked    int
		want     string // the events that say how it went
	}{
		{"union, 529", nil, `{}`, []harness.Answer{overloaded, harness.Text("fine")}, 2, "agent_end"},
		{"union, 500", nil, `{}`, []harness.Answer{harness.Fail(500, `{}`), harness.Text("fine")}, 2, "agent_end"},
		{"union, 429", nil, `{}`, []harness.Answer{harness.Fail(429, `{}`), harness.Text("fine")}, 2, "agent_end"},
		{"union, reset", nil, `{}`, []harness.Answer{raw(func(http.ResponseWriter) { panic(http.ErrAbortHandler) }), harness.Text("fine")}, 2, "agent_end"},
		{"union, twice", nil, `{}`, []harness.Answer{overloaded, overloaded, harness.Text("fine")}, 3, "agent_end"},
		{"union, three times", nil, `{"retry":{"baseDelayMs":1}}`, []harness.Answer{overloaded, overloaded, overloaded, harness.Text("fine")}, 4, "agent_end auto_retry_start agent_end auto_retry_end"},
		{"union, not wanted by the service", nil, `{"retry":{"baseDelayMs":1}}`, []harness.Answer{never, harness.Text("fine")}, 2, "agent_end auto_retry_start agent_end auto_retry_end"},
		{"union, after content", nil, `{"retry":{"baseDelayMs":1}}`, []harness.Answer{cutOff("half"), harness.Text("fine")}, 2, "agent_end auto_retry_start agent_end auto_retry_end"},
		{"union, switched off", nil, `{"retry":{"baseDelayMs":1,"provider":{"maxRetries":0}}}`, []harness.Answer{overloaded, harness.Text("fine")}, 2, "agent_end auto_retry_start agent_end auto_retry_end"},
		{"union, without end", nil, `{"retry":{"baseDelayMs":1}}`, []harness.Answer{overloaded, overloaded, overloaded, overloaded, harness.Text("fine")}, 4, "agent_end auto_retry_start agent_end auto_retry_end"},
		{"union, off", nil, `{"retry":{"enabled":false}}`, []harness.Answer{overloaded, harness.Text("fine")}, 1, "agent_end"},
		{"union, off but for the provider", nil, `{"retry":{"enabled":false,"provider":{"maxRetries":1}}}`, []harness.Answer{overloaded, overloaded, harness.Text("fine")}, 2, "agent_end"},
		{"union, none", nil, `{"retry":{"maxRetries":0}}`, []harness.Answer{overloaded, harness.Text("fine")}, 1, "agent_end"},
		{"union, one", nil, `{"retry":{"maxRetries":1}}`, []harness.Answer{overloaded, overloaded, harness.Text("fine")}, 2, "agent_end"},
		{"union, two", nil, `{"retry":{"maxRetries":2}}`, []harness.Answer{overloaded, overloaded, overloaded, harness.Text("fine")}, 3, "agent_end"},
		{"union, two, more of the provider", nil, `{"retry":{"maxRetries":2,"provider":{"maxRetries":5}}}`, []harness.Answer{overloaded, overloaded, overloaded, harness.Text("fine")}, 3, "agent_end"},
		{"union, two, one of the provider", nil, `{"retry":{"baseDelayMs":1,"maxRetries":2,"provider":{"maxRetries":1}}}`, []harness.Answer{overloaded, overloaded, overloaded, harness.Text("fine")}, 3, "agent_end auto_retry_start agent_end auto_retry_end"},
		{"union, a wait that the service wants", nil, `{"retry":{"maxAgentDelayMs":1}}`, []harness.Answer{harness.WithHeader("Retry-After", "25", overloaded), harness.Text("fine")}, 2, "agent_end auto_retry_start agent_end auto_retry_end"},
		{"pi1, one, more of the provider", []string{"--dialect", "pi1"}, `{"retry":{"maxRetries":1,"provider":{"maxRetries":5}}}`, []harness.Answer{overloaded, overloaded, harness.Text("fine")}, 2, "agent_end"},
		{"s0", []string{"--dialect", "s0"}, `{}`, []harness.Answer{overloaded, harness.Text("fine")}, 2, "agent_end"},
		{"s2", []string{"--dialect", "s2"}, `{}`, []harness.Answer{overloaded, harness.Text("fine")}, 2, "agent_end"},
		{"s3", []string{"--dialect", "s3"}, `{}`, []harness.Answer{overloaded, harness.Text("fine")}, 2, "agent_end"},
		{"s1", []string{"--dialect", "s1"}, `{"retry":{"baseDelayMs":1}}`, []harness.Answer{overloaded, harness.Text("fine")}, 2, "agent_end auto_retry_start agent_end auto_retry_end"},
		{"s4", []string{"--dialect", "s4"}, `{"retry":{"baseDelayMs":1}}`, []harness.Answer{overloaded, harness.Text("fine")}, 2, "agent_end auto_retry_start agent_end auto_retry_end"},
		{"pi1", []string{"--dialect", "pi1"}, `{"retry":{"baseDelayMs":1}}`, []harness.Answer{overloaded, harness.Text("fine")}, 2, "agent_end auto_retry_start auto_retry_end agent_end"},
		{"pi1, asked for", []string{"--dialect", "pi1"}, `{"retry":{"provider":{"maxRetries":1}}}`, []harness.Answer{overloaded, harness.Text("fine")}, 2, "agent_end"},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			p := harness.NewPlace(t)
			p.WriteFile(filepath.Join(p.AgentDir(), "settings.json"), x.settings)
			d := p.StartRaw(append([]string{"--mode", "rpc", "--multi-session"}, x.args...)...)
			for _, wire := range wires {
				provider, id, _ := strings.Cut(wire, "/")
				h := d.OpenSession(fmt.Sprintf(`,"provider":%q,"modelId":%q`, provider, id))
				p.Model.Clear()
				p.Model.Enqueue(x.answers...)
				before, from := p.Model.RequestCount(), d.Count()
				d.OK(fmt.Sprintf(`{"type":"prompt","sessionId":%q,"message":"go"}`, h))
				_, to := d.WaitTagged(from, h, "agent_settled")
				var seen []string
				for _, l := range d.Lines()[from:to] {
					v := gjson.Parse(l)
					if kind := v.Get("type").Str; v.Get("sessionId").Str == h && (kind == "agent_end" || strings.HasPrefix(kind, "auto_retry")) {
						seen = append(seen, kind)
					}
				}
				assert.Equal(t, x.want, strings.Join(seen, " "), wire)
				assert.Equal(t, x.asked, p.Model.RequestCount()-before, wire)
			}
		})
	}
}

// cutOff is an answer that ends in the middle.
func cutOff(said string) harness.Answer {
	a := harness.Text(said)
	a.Cut = true
	return a
}

// TestPassingFailure_summary checks that requests for summaries are repeated, too.
func TestPassingFailure_summary(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile(filepath.Join(p.AgentDir(), "settings.json"), `{"compaction":{"keepRecentTokens":5}}`)
	d := p.Start("--verbose")
	p.Model.Enqueue(harness.Text("one"), harness.Text("two"))
	d.Prompt("the first thing that is said")
	root := d.OK(`{"type":"get_fork_messages"}`).Get("messages.0.entryId").Str
	d.Prompt("the second thing that is said")
	p.Model.Enqueue(harness.Fail(503, `{}`), harness.Text("the summary"))
	assert.Contains(t, d.OK(`{"type":"compact"}`).Get("summary").Str, "the summary")
	p.Model.Enqueue(harness.Fail(429, `{}`), harness.Text("the branch"))
	r := d.OK(fmt.Sprintf(`{"type":"navigate_tree","targetId":%q,"summarize":true}`, root))
	assert.False(t, r.Get("cancelled").Bool(), r.Raw)
	assert.Equal(t, 6, p.Model.RequestCount())
	assert.NotContains(t, strings.Join(d.Lines(), " "), "auto_retry", "nobody is told")
	require.Zero(t, d.Close())
	assert.Equal(t, 2, strings.Count(d.Stderr(), `"againInMs":500`), "but the log, for who asked for it")
}

// TestRefusalsAreQuiet checks that failed requests write nothing to stderr, which clients show to
// their users. pi writes nothing either.
func TestRefusalsAreQuiet(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	d := p.Start()
	p.Model.Enqueue(harness.Fail(500, `{}`), harness.Text("fine"), harness.Fail(400, `{"error":{"message":"no"}}`))
	d.Prompt("one")
	d.Prompt("two")
	require.Zero(t, d.Close())
	assert.Empty(t, d.Stderr())
}

// TestPassingFailure_once checks that single runs repeat requests, too.
func TestPassingFailure_once(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.Model.Enqueue(harness.Fail(500, `{}`), harness.Text("printed"), harness.Fail(500, `{}`), harness.Text("printed"))
	out, errs, code := p.RunOnce("", p.ModelArgs("-p", "go")...)
	assert.Equal(t, "printed\n", out)
	assert.Zero(t, code, errs)
	out, _, code = p.RunOnce("", p.ModelArgs("--mode", "json", "go")...)
	assert.Zero(t, code)
	assert.Equal(t, 1, strings.Count(out, `"agent_end"`))
}

// TestPassingFailure_abort checks that a long wait is announced, and that it ends when the run is
// aborted.
func TestPassingFailure_abort(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	d := p.Start()
	slow := harness.WithHeader("Retry-After", "50", harness.Fail(429, `{"error":{"message":"slow down"}}`))
	begun := time.Now()
	requests := 0
	for _, c := range []struct {
		end    string
		prompt bool // which has an answer of its own
	}{{`{"type":"abort"}`, false}, {`{"type":"new_session"}`, false}, {`{"type":"abort_and_prompt","message":"x"}`, true}} {
		p.Model.Enqueue(slow)
		if c.prompt {
			p.Model.Enqueue(harness.Text("x"))
		}
		d.OK(`{"type":"prompt","message":"go"}`)
		p.Model.Request(requests)
		requests++
		assert.EqualValues(t, 50_000, d.Event("auto_retry_start").Get("delayMs").Int())
		d.OK(c.end)
		d.Event("agent_settled")
		if c.prompt {
			d.Event("agent_settled")
			requests++
		}
	}
	require.Zero(t, d.Close())
	assert.Less(t, time.Since(begun), 20*time.Second)
	assert.Equal(t, requests, p.Model.RequestCount(), "nothing is asked again")
}
