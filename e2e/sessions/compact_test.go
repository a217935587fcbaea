package sessions

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/harness"
)

func used(a harness.Answer, input int) harness.Answer {
	a.Input = input
	return a
}

// TestCompactManual checks that compact replaces older messages by a summary that lists the files
// they touched. The next request contains the summary and the messages that were kept.
func TestCompactManual(t *testing.T) {
	t.Parallel()
	p := harness.NewCompactingPlace(t)
	p.Model.Enqueue(
		harness.ToolCall("c1", "read", `{"path":"a.txt"}`).Then(harness.ToolCall("c2", "write", `{"path":"b.txt","content":"b"}`)), harness.Text("one done "+harness.Filler),
		harness.Text("two done"), harness.Text("## Goal\nthe first summary"),
	)
	p.WriteFile("a.txt", "a")
	d := p.Start()
	refused := d.Call(`{"type":"compact"}`)
	assert.Equal(t, "Nothing to compact (session too small)", refused.Get("error").Str)
	d.Prompt("one")
	d.Prompt("two " + harness.LongPrompt)
	r := d.OK(`{"type":"compact","customInstructions":"mind the tests"}`)
	assert.Contains(t, r.Get("summary").Str, "the first summary")
	assert.Equal(t, `["a.txt"]`, r.Get("details.readFiles").Raw)
	assert.Equal(t, `["b.txt"]`, r.Get("details.modifiedFiles").Raw)
	assert.NotZero(t, r.Get("tokensBefore").Int())
	ask := p.Model.Request(3).Body
	assert.Contains(t, ask, "Additional focus: mind the tests")
	assert.Contains(t, ask, `[User]: one`)
	assert.NotContains(t, gjson.Get(ask, "tools").Raw, "bash")
	assert.Equal(t, "Already compacted", d.Call(`{"type":"compact"}`).Get("error").Str)
	messages := d.OK(`{"type":"get_messages"}`).Get("messages").Array()
	assert.Equal(t, "compactionSummary", messages[0].Get("role").Str)
	assert.EqualValues(t, len(messages), d.OK(`{"type":"get_state"}`).Get("messageCount").Int())
	usage := d.OK(`{"type":"get_context_usage"}`).Get("usage")
	assert.Equal(t, gjson.Null, usage.Get("lastUsageIndex").Type, "estimated until there is an answer")
	assert.Positive(t, usage.Get("tokens").Int())
	p.Model.Enqueue(harness.Text("three done"))
	d.Prompt("three")
	body := p.Model.Request(4).Body
	assert.Contains(t, body, "the first summary")
	assert.NotContains(t, body, "one done")
	assert.EqualValues(t, 3, d.OK(`{"type":"get_session_stats"}`).Get("userMessages").Int(), "what was compacted counts")

	// The next compaction updates the summary.
	p.Model.Enqueue(harness.Text("four done"), harness.Text("## Goal\nthe second summary"))
	d.Prompt("four " + harness.LongPrompt)
	r = d.OK(`{"type":"compact"}`)
	assert.Contains(t, r.Get("summary").Str, "the second summary")
	assert.Equal(t, `["b.txt"]`, r.Get("details.modifiedFiles").Raw, "files of the earlier summary")
	assert.Contains(t, p.Model.Request(6).Body, "previous-summary")
	assert.Contains(t, p.Model.Request(6).Body, "three")
	require.Zero(t, d.Close())
	// Clients of pi 0.74 and later queue all input until they receive the end event. Clients of pi
	// 0.45 know only the old event names and do not expect an end event.
	var seen []string
	for _, line := range d.Lines() {
		switch v := gjson.Parse(line); {
		case strings.Contains(v.Get("type").Str, "compaction_"):
			seen = append(seen, v.Get("type").Str)
			assert.Equal(t, "manual", v.Get("reason").Str)
		case v.Get("command").Str == "compact":
			seen = append(seen, "answer")
		}
	}
	const one = "compaction_start compaction_end answer"
	assert.Equal(t, strings.Join([]string{one, one, one, one}, " "), strings.Join(seen, " "))
	assert.Contains(t, strings.Join(d.Lines(), "\n"),
		`{"type":"compaction_end","reason":"manual","aborted":false,"willRetry":false,"errorMessage":"Compaction failed: Nothing to compact (session too small)"}`)
}

// TestCompactDialects checks the names of the compaction events in each dialect.
func TestCompactDialects(t *testing.T) {
	t.Parallel()
	const manual, auto = "compaction_start compaction_end", "auto_compaction_start auto_compaction_end"
	for dialect, want := range map[string]string{
		"union": manual + " auto_compaction_start " + manual + " auto_compaction_end", "s0": auto, "s1": auto, "s2": auto,
		"s3": auto, "s4": auto, "pi1": manual + " " + manual,
	} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			p := harness.NewCompactingPlace(t)
			p.Model.Enqueue(harness.Text("one "+harness.Filler), harness.Text("two"), harness.Text("summary"), used(harness.Text("three"), 199_500), harness.Text("summary"))
			d := p.Start("--dialect", dialect)
			d.Prompt("one")
			d.Prompt("two " + harness.LongPrompt)
			d.OK(`{"type":"compact"}`)
			d.Prompt("three " + harness.LongPrompt)
			var seen []string
			for _, line := range d.Lines() {
				if kind := gjson.Get(line, "type").Str; strings.Contains(kind, "compaction_") {
					seen = append(seen, kind)
				}
			}
			assert.Equal(t, want, strings.Join(seen, " "))
		})
	}
}

// TestCompactNothing checks that an automatic compaction that finds nothing to compact emits no
// events.
func TestCompactNothing(t *testing.T) {
	t.Parallel()
	for _, dialect := range []string{"union", "s0", "pi1"} {
		p := harness.NewCompactingPlace(t)
		p.Model.Enqueue(used(harness.Text("one"), 199_500), used(harness.Text("two"), 199_500))
		d := p.Start("--dialect", dialect)
		d.Prompt(harness.LongPrompt)
		d.Prompt("two")
		assert.NotContains(t, strings.Join(d.Lines(), "\n"), "compaction_", dialect)
		assert.Equal(t, 2, p.Model.RequestCount())
	}
}

// TestCompactUsageOverflow checks an answer whose usage exceeds the context window: it is requested
// once more after a compaction. In the dialect of pi 1.x the answer is kept.
func TestCompactUsageOverflow(t *testing.T) {
	t.Parallel()
	for _, dialect := range []string{"union", "s0", "s3", "pi1"} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			p := harness.NewCompactingPlace(t)
			p.Model.SetSummary("summary")
			p.Model.Enqueue(harness.Text("one "+harness.Filler), used(harness.Text("cut"), 300_000), harness.Text("whole"))
			d := p.Start("--dialect", dialect)
			d.Prompt("one")
			events := d.Prompt("two " + harness.LongPrompt)
			settled := events[len(events)-1]
			assert.Equal(t, "completed", settled.Get("outcome").Str)
			for _, e := range events {
				if strings.HasSuffix(e.Get("type").Str, "compaction_end") {
					assert.Equal(t, dialect != "pi1", e.Get("willRetry").Bool(), e.Raw)
				}
			}
			answer := "whole"
			if dialect == "pi1" {
				answer = "cut"
			}
			assert.Equal(t, answer, d.OK(`{"type":"get_last_assistant_text"}`).Get("text").Str)
			messages := d.OK(`{"type":"get_messages"}`).Get("messages")
			assert.Equal(t, `["compactionSummary","user","assistant"]`, messages.Get("#.role").Raw)
			assert.EqualValues(t, 3, d.OK(`{"type":"get_state"}`).Get("messageCount").Int())
			assert.EqualValues(t, 2, d.OK(`{"type":"get_session_stats"}`).Get("assistantMessages").Int())
			path, _ := d.SessionFile()
			require.Zero(t, d.Close())
			d = p.Start("--session", path)
			assert.Equal(t, messages.Raw, d.OK(`{"type":"get_messages"}`).Get("messages").Raw)
			// The request is too large again. There is no third attempt.
			if dialect != "pi1" {
				n := p.Model.RequestCount()
				p.Model.Enqueue(used(harness.Text("cut"), 300_000), used(harness.Text("cut again"), 300_000))
				events = d.Prompt("three " + harness.LongPrompt)
				assert.Equal(t, "completed", events[len(events)-1].Get("outcome").Str)
				assert.Equal(t, 2, strings.Count(strings.Join(harness.Kinds(events), " "), "agent_start"))
				assert.LessOrEqual(t, p.Model.RequestCount()-n, 6)
			}
		})
	}
}

// TestCompactThreshold checks automatic compaction after a run that fills the window, and between
// two turns of a run.
func TestCompactThreshold(t *testing.T) {
	t.Parallel()
	p := harness.NewCompactingPlace(t)
	p.Model.Enqueue(harness.Text("one"), used(harness.Text("two"), 199_500), harness.Text("summary"), harness.Text("after"))
	d := p.Start()
	d.Prompt("one")
	events := d.Prompt("two " + harness.LongPrompt)
	seen := strings.Join(harness.Kinds(events), " ")
	assert.Contains(t, seen, "agent_end auto_compaction_start compaction_start compaction_end auto_compaction_end agent_settled")
	d.Prompt("three")
	assert.Equal(t, 4, p.Model.RequestCount())

	p.Model.SetSummary("summary 2")
	p.Model.Enqueue(used(harness.ToolCall("c1", "bash", `{"command":"echo `+harness.LongPrompt+`"}`), 199_500), harness.Text("done"))
	events = d.Prompt("four")
	seen = strings.Join(harness.Kinds(events), " ")
	assert.Contains(t, seen, "turn_end auto_compaction_start compaction_start compaction_end auto_compaction_end turn_start")
	assert.Equal(t, 1, strings.Count(seen, "agent_start"))
	assert.Equal(t, "completed", events[len(events)-1].Get("outcome").Str)
	last := p.Model.Request(p.Model.RequestCount() - 1).Body
	assert.Equal(t, "tool_result", gjson.Get(last, "messages.@reverse.0.content.0.type").Str, "the call and its result stay")
}

// TestCompactOverflow checks that a request that did not fit is sent again once after a compaction.
func TestCompactOverflow(t *testing.T) {
	t.Parallel()
	p := harness.NewCompactingPlace(t)
	overflow := harness.Fail(400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`)
	p.Model.SetSummary("summary")
	p.Model.Enqueue(harness.Text("one "+harness.Filler+harness.Filler), overflow, harness.Text("answer"))
	d := p.Start()
	d.Prompt("one")
	events := d.Prompt("two")
	seen := strings.Join(harness.Kinds(events), " ")
	assert.Contains(t, seen, "agent_end auto_compaction_start compaction_start compaction_end auto_compaction_end agent_start turn_start message_start")
	assert.Equal(t, "completed", events[len(events)-1].Get("outcome").Str)
	for _, e := range events {
		if e.Get("type").Str == "auto_compaction_end" {
			assert.True(t, e.Get("willRetry").Bool())
			assert.NotContains(t, e.Get("result.summary").Str, "answer")
		}
	}
	p.Model.Enqueue(overflow, overflow)
	events = d.Prompt("three " + harness.LongPrompt)
	assert.Equal(t, "failed", events[len(events)-1].Get("outcome").Str)
	assert.Contains(t, events[len(events)-2].Get("errorMessage").Str, "after one compact-and-retry attempt")
	p.Model.Enqueue(harness.Text("still here"))
	events = d.Prompt("four")
	assert.Equal(t, "completed", events[len(events)-1].Get("outcome").Str)
}

// TestCompactSmallWindow checks that compaction also works in a context window that is smaller than
// the tokens that compaction keeps and reserves by default.
func TestCompactSmallWindow(t *testing.T) {
	t.Parallel()
	for _, window := range []int{8192, 32768} {
		p := harness.NewPlace(t)
		p.WriteFile(filepath.Join(p.AgentDir(), "models.json"), strings.ReplaceAll(p.Model.ModelsJSON(), "200000", strconv.Itoa(window)))
		p.Model.SetSummary("summary")
		half := strings.Repeat("word ", window/5)
		p.Model.Enqueue(harness.Text("one "+half), used(harness.Text("two"), window*3/4), harness.Text("three"))
		d := p.Start()
		d.Prompt("one")
		seen := strings.Join(harness.Kinds(d.Prompt("two "+half)), " ")
		assert.Contains(t, seen, "auto_compaction_start compaction_start compaction_end auto_compaction_end", window)
		d.Prompt("three")
		p.Model.Enqueue(harness.Text("four "+half), harness.Text("five "+half))
		d.Prompt("four")
		d.Prompt("five")
	}
}

// TestCompactFailures checks that a failed compaction leaves the context unchanged and the session
// usable.
func TestCompactFailures(t *testing.T) {
	t.Parallel()
	p := harness.NewCompactingPlace(t)
	p.Model.Enqueue(harness.Text("one "), harness.Text("two"))
	d := p.Start()
	d.Prompt("one")
	d.Prompt("two " + harness.LongPrompt)
	before := d.OK(`{"type":"get_messages"}`).Raw
	cut := harness.Text("half a summ")
	cut.Stop = "length"
	for _, x := range []struct {
		answer harness.Answer
		says   string
	}{
		{harness.Text(" "), "empty summary"},
		{harness.Text(slices.Repeat([]string{strings.Repeat("x", 1<<20)}, 17)...), "longer than 16 MiB"},
		{cut, "cut off"},
		{harness.Fail(401, `{"error":{"message":"invalid x-api-key"}}`), "invalid x-api-key"},
	} {
		p.Model.Enqueue(x.answer)
		r := d.Call(`{"type":"compact"}`)
		assert.False(t, r.Get("success").Bool())
		assert.Contains(t, r.Get("error").Str, x.says)
		assert.Equal(t, before, d.OK(`{"type":"get_messages"}`).Raw)
	}
	// A transient failure is retried.
	p.Model.Enqueue(harness.Fail(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), harness.Gate("summary").Then(harness.Text("never")))
	n := p.Model.RequestCount()
	d.Send(`{"id":"c","type":"compact"}`)
	p.Model.Request(n + 1)
	// Input during a compaction is queued. abort cancels the compaction.
	assert.True(t, d.OK(`{"type":"get_state"}`).Get("isCompacting").Bool())
	assert.Equal(t, "queued", d.OK(`{"type":"prompt","message":"meanwhile"}`).Get("disposition").Str)
	assert.Contains(t, d.Call(`{"type":"compact"}`).Get("error").Str, "Compaction already in progress")
	d.OK(`{"type":"abort"}`)
	v, _ := d.Wait(0, "the answer to compact", func(v gjson.Result) bool { return v.Get("id").Str == "c" })
	assert.Equal(t, "Compaction cancelled", v.Get("error").Str)
	assert.Equal(t, before, d.OK(`{"type":"get_messages"}`).Raw)

	// A steer during a compaction starts a run after it; steers come first.
	p.Model.Enqueue(harness.Gate("go").Then(harness.Text("summary")), harness.Text("to the steer"), harness.Text("to meanwhile"))
	n = p.Model.RequestCount()
	d.Send(`{"id":"c2","type":"compact"}`)
	p.Model.Request(n)
	d.OK(`{"type":"steer","message":"a steer"}`)
	from := d.Count()
	p.Model.OpenGate("go")
	v, _ = d.Wait(0, "the answer to compact", func(v gjson.Result) bool { return v.Get("id").Str == "c2" })
	assert.True(t, v.Get("success").Bool(), v.Raw)
	d.Wait(from, "agent_settled", func(v gjson.Result) bool { return v.Get("type").Str == "agent_settled" })
	body := p.Model.Request(p.Model.RequestCount() - 1).Body
	assert.Less(t, strings.Index(body, "a steer"), strings.Index(body, "meanwhile"))
	assert.Positive(t, strings.Index(body, "a steer"))
}

// TestLongRun checks that hundreds of turns in a small window are compacted again and again. The
// context stays small and correct, also after a restart.
func TestLongRun(t *testing.T) {
	t.Parallel()
	p := harness.NewCompactingPlace(t)
	p.WriteFile(filepath.Join(p.AgentDir(), "models.json"), strings.ReplaceAll(p.Model.ModelsJSON(), "200000", "4000"))
	p.WriteFile(filepath.Join(p.AgentDir(), "settings.json"), `{"compaction":{"reserveTokens":1000,"keepRecentTokens":200}}`)
	d := p.Start()
	p.Model.SetSummary("the summary")
	turns := 200
	if n, err := strconv.Atoi(os.Getenv("TROUPE_LONG_TURNS")); err == nil { // TROUPE_LONG_TURNS=2000
		turns = n
	}
	compactions := 0
	size := 100
	for i := range turns {
		size += 300
		full := size > 3000
		p.Model.Enqueue(used(harness.Text(fmt.Sprintf("answer %d %s", i, harness.Filler)), size))
		if full {
			size = 400
			compactions++
		}
		events := d.Prompt(fmt.Sprintf("prompt %d %s", i, harness.Filler))
		require.Equal(t, full, strings.Contains(strings.Join(harness.Kinds(events), " "), "auto_compaction_end"), "turn %d", i)
	}
	require.Greater(t, compactions, 15)
	last := gjson.Get(p.Model.Request(p.Model.RequestCount()-1).Body, "messages").Raw
	assert.Less(t, len(last), 10_000)
	messages := d.OK(`{"type":"get_messages"}`).Get("messages").Raw
	path, _ := d.SessionFile()
	assert.EqualValues(t, turns, d.OK(`{"type":"get_session_stats"}`).Get("userMessages").Int())
	require.Zero(t, d.Close())
	d = p.Start("--session", path)
	assert.Equal(t, messages, d.OK(`{"type":"get_messages"}`).Get("messages").Raw)
}

// TestHugeResult checks that a tool result larger than the window is truncated before the request
// is sent.
func TestHugeResult(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile(filepath.Join(p.AgentDir(), "models.json"), strings.ReplaceAll(p.Model.ModelsJSON(), "200000", "4000"))
	p.WriteFile(filepath.Join(p.AgentDir(), "settings.json"), `{"compaction":{"reserveTokens":500,"keepRecentTokens":200}}`)
	p.WriteFile("big.txt", strings.Repeat("all work and no play\n", 1500))
	p.Model.SetSummary("the summary")
	p.Model.Enqueue(harness.ToolCall("c1", "read", `{"path":"big.txt"}`), harness.Text("done"))
	d := p.Start()
	events := d.Prompt("read it")
	assert.Equal(t, "completed", events[len(events)-1].Get("outcome").Str)
	body := p.Model.Request(p.Model.RequestCount() - 1).Body
	assert.Contains(t, body, "does not fit")
	assert.Less(t, len(gjson.Get(body, "messages").Raw), 8000)
	messages := d.OK(`{"type":"get_messages"}`).Get("messages").Raw
	assert.Greater(t, len(messages), 20_000, "the session has it whole")
}
