package e2e

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
)

// small is a home whose settings compact early.
func small(t *testing.T) *place {
	p := newPlace(t)
	p.write(filepath.Join(p.agent(), "settings.json"), `{"compaction":{"reserveTokens":1000,"keepRecentTokens":50},"retry":{"baseDelayMs":1,"provider":{"maxRetries":0}}}`)
	return p
}

func (a answer) used(input int) answer {
	a.input = input
	return a
}

const filler = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

// long is a prompt that is all that is kept.
const long = filler + filler + filler

// TestCompactManual: a summary takes the place of older messages, with the
// files they touched; the next request has it and what was kept.
func TestCompactManual(t *testing.T) {
	t.Parallel()
	p := small(t)
	p.llm.plays(
		tool("c1", "read", `{"path":"a.txt"}`).and(tool("c2", "write", `{"path":"b.txt","content":"b"}`)), text("one done "+filler),
		text("two done"), text("## Goal\nthe first summary"),
	)
	p.write("a.txt", "a")
	d := p.start()
	refused := d.call(`{"type":"compact"}`)
	assert.Equal(t, "Nothing to compact (session too small)", refused.Get("error").Str)
	d.prompt("one")
	d.prompt("two " + long)
	r := d.ok(`{"type":"compact","customInstructions":"mind the tests"}`)
	assert.Contains(t, r.Get("summary").Str, "the first summary")
	assert.Equal(t, `["a.txt"]`, r.Get("details.readFiles").Raw)
	assert.Equal(t, `["b.txt"]`, r.Get("details.modifiedFiles").Raw)
	assert.NotZero(t, r.Get("tokensBefore").Int())
	ask := p.llm.request(3).body
	assert.Contains(t, ask, "Additional focus: mind the tests")
	assert.Contains(t, ask, `[User]: one`)
	assert.NotContains(t, gjson.Get(ask, "tools").Raw, "bash")
	assert.Equal(t, "Already compacted", d.call(`{"type":"compact"}`).Get("error").Str)
	messages := d.ok(`{"type":"get_messages"}`).Get("messages").Array()
	assert.Equal(t, "compactionSummary", messages[0].Get("role").Str)
	assert.EqualValues(t, len(messages), d.ok(`{"type":"get_state"}`).Get("messageCount").Int())
	usage := d.ok(`{"type":"get_context_usage"}`).Get("usage")
	assert.Equal(t, gjson.Null, usage.Get("lastUsageIndex").Type, "estimated until there is an answer")
	assert.Positive(t, usage.Get("tokens").Int())
	p.llm.plays(text("three done"))
	d.prompt("three")
	body := p.llm.request(4).body
	assert.Contains(t, body, "the first summary")
	assert.NotContains(t, body, "one done")
	assert.EqualValues(t, 3, d.ok(`{"type":"get_session_stats"}`).Get("userMessages").Int(), "what was compacted counts")

	// The next one brings the summary up to date.
	p.llm.plays(text("four done"), text("## Goal\nthe second summary"))
	d.prompt("four " + long)
	r = d.ok(`{"type":"compact"}`)
	assert.Contains(t, r.Get("summary").Str, "the second summary")
	assert.Equal(t, `["b.txt"]`, r.Get("details.modifiedFiles").Raw, "files of the earlier summary")
	assert.Contains(t, p.llm.request(6).body, "previous-summary")
	assert.Contains(t, p.llm.request(6).body, "three")
	require.Zero(t, d.end())
	// Clients of pi 0.74 and later queue everything until they have heard of the
	// end; those of pi 0.45 know only the old names and expect none.
	var seen []string
	for _, line := range d.output() {
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
	assert.Contains(t, strings.Join(d.output(), "\n"),
		`{"type":"compaction_end","reason":"manual","aborted":false,"willRetry":false,"errorMessage":"Compaction failed: Nothing to compact (session too small)"}`)
}

// TestCompactDialects: which names a client hears.
func TestCompactDialects(t *testing.T) {
	t.Parallel()
	const manual, auto = "compaction_start compaction_end", "auto_compaction_start auto_compaction_end"
	for dialect, want := range map[string]string{
		"union": manual + " auto_compaction_start " + manual + " auto_compaction_end", "s0": auto, "s1": auto, "s2": auto,
		"s3": auto, "s4": auto, "pi1": manual + " " + manual,
	} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			p := small(t)
			p.llm.plays(text("one "+filler), text("two"), text("summary"), text("three").used(199_500), text("summary"))
			d := p.start("--dialect", dialect)
			d.prompt("one")
			d.prompt("two " + long)
			d.ok(`{"type":"compact"}`)
			d.prompt("three " + long)
			var seen []string
			for _, line := range d.output() {
				if kind := gjson.Get(line, "type").Str; strings.Contains(kind, "compaction_") {
					seen = append(seen, kind)
				}
			}
			assert.Equal(t, want, strings.Join(seen, " "))
		})
	}
}

// TestCompactNothing: a compaction that begins by itself and finds nothing to
// compact is not announced.
func TestCompactNothing(t *testing.T) {
	t.Parallel()
	for _, dialect := range []string{"union", "s0", "pi1"} {
		p := small(t)
		p.llm.plays(text("one").used(199_500), text("two").used(199_500))
		d := p.start("--dialect", dialect)
		d.prompt(long)
		d.prompt("two")
		assert.NotContains(t, strings.Join(d.output(), "\n"), "compaction_", dialect)
		assert.Equal(t, 2, p.llm.count())
	}
}

// TestCompactUsageOverflow: an answer that says that its request was larger than
// the window is made again after a compaction, once; in pi 1.x it stands.
func TestCompactUsageOverflow(t *testing.T) {
	t.Parallel()
	for _, dialect := range []string{"union", "s0", "s3", "pi1"} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			p := small(t)
			p.llm.summarises("summary")
			p.llm.plays(text("one "+filler), text("cut").used(300_000), text("whole"))
			d := p.start("--dialect", dialect)
			d.prompt("one")
			events := d.prompt("two " + long)
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
			assert.Equal(t, answer, d.ok(`{"type":"get_last_assistant_text"}`).Get("text").Str)
			messages := d.ok(`{"type":"get_messages"}`).Get("messages")
			assert.Equal(t, `["compactionSummary","user","assistant"]`, messages.Get("#.role").Raw)
			assert.EqualValues(t, 3, d.ok(`{"type":"get_state"}`).Get("messageCount").Int())
			assert.EqualValues(t, 2, d.ok(`{"type":"get_session_stats"}`).Get("assistantMessages").Int())
			path, _ := d.sessionFile()
			require.Zero(t, d.end())
			d = p.start("--session", path)
			assert.Equal(t, messages.Raw, d.ok(`{"type":"get_messages"}`).Get("messages").Raw)
			// Too large again: no third time.
			if dialect != "pi1" {
				n := p.llm.count()
				p.llm.plays(text("cut").used(300_000), text("cut again").used(300_000))
				events = d.prompt("three " + long)
				assert.Equal(t, "completed", events[len(events)-1].Get("outcome").Str)
				assert.Equal(t, 2, strings.Count(strings.Join(kinds(events), " "), "agent_start"))
				assert.LessOrEqual(t, p.llm.count()-n, 6)
			}
		})
	}
}

// TestCompactThreshold: after the run that fills the window, and between turns.
func TestCompactThreshold(t *testing.T) {
	t.Parallel()
	p := small(t)
	p.llm.plays(text("one"), text("two").used(199_500), text("summary"), text("after"))
	d := p.start()
	d.prompt("one")
	events := d.prompt("two " + long)
	seen := strings.Join(kinds(events), " ")
	assert.Contains(t, seen, "agent_end auto_compaction_start compaction_start compaction_end auto_compaction_end agent_settled")
	d.prompt("three")
	assert.Equal(t, 4, p.llm.count())

	p.llm.summarises("summary 2")
	p.llm.plays(tool("c1", "bash", `{"command":"echo `+long+`"}`).used(199_500), text("done"))
	events = d.prompt("four")
	seen = strings.Join(kinds(events), " ")
	assert.Contains(t, seen, "turn_end auto_compaction_start compaction_start compaction_end auto_compaction_end turn_start")
	assert.Equal(t, 1, strings.Count(seen, "agent_start"))
	assert.Equal(t, "completed", events[len(events)-1].Get("outcome").Str)
	last := p.llm.request(p.llm.count() - 1).body
	assert.Equal(t, "tool_result", gjson.Get(last, "messages.@reverse.0.content.0.type").Str, "the call and its result stay")
}

// TestCompactOverflow: the request that did not fit is made again once.
func TestCompactOverflow(t *testing.T) {
	t.Parallel()
	p := small(t)
	overflow := fail(400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`)
	p.llm.summarises("summary")
	p.llm.plays(text("one "+filler+filler), overflow, text("answer"))
	d := p.start()
	d.prompt("one")
	events := d.prompt("two")
	seen := strings.Join(kinds(events), " ")
	assert.Contains(t, seen, "agent_end auto_compaction_start compaction_start compaction_end auto_compaction_end agent_start turn_start message_start")
	assert.Equal(t, "completed", events[len(events)-1].Get("outcome").Str)
	for _, e := range events {
		if e.Get("type").Str == "auto_compaction_end" {
			assert.True(t, e.Get("willRetry").Bool())
			assert.NotContains(t, e.Get("result.summary").Str, "answer")
		}
	}
	p.llm.plays(overflow, overflow)
	events = d.prompt("three " + long)
	assert.Equal(t, "failed", events[len(events)-1].Get("outcome").Str)
	assert.Contains(t, events[len(events)-2].Get("errorMessage").Str, "after one compact-and-retry attempt")
	p.llm.plays(text("still here"))
	events = d.prompt("four")
	assert.Equal(t, "completed", events[len(events)-1].Get("outcome").Str)
}

// TestCompactSmallWindow: a window that is smaller than what is to stay of every context
// is compacted as well, by itself and on a command.
func TestCompactSmallWindow(t *testing.T) {
	t.Parallel()
	for _, window := range []int{8192, 32768} {
		p := newPlace(t)
		p.write(filepath.Join(p.agent(), "models.json"), strings.ReplaceAll(p.llm.modelsJSON(), "200000", strconv.Itoa(window)))
		p.llm.summarises("summary")
		half := strings.Repeat("word ", window/5)
		p.llm.plays(text("one "+half), text("two").used(window*3/4), text("three"))
		d := p.start()
		d.prompt("one")
		seen := strings.Join(kinds(d.prompt("two "+half)), " ")
		assert.Contains(t, seen, "auto_compaction_start compaction_start compaction_end auto_compaction_end", window)
		d.prompt("three")
		p.llm.plays(text("four "+half), text("five "+half))
		d.prompt("four")
		d.prompt("five")
	}
}

// TestCompactFailures: whatever goes wrong, the old context stays and the
// session can be used.
func TestCompactFailures(t *testing.T) {
	t.Parallel()
	p := small(t)
	p.llm.plays(text("one "), text("two"))
	d := p.start()
	d.prompt("one")
	d.prompt("two " + long)
	before := d.ok(`{"type":"get_messages"}`).Raw
	cut := text("half a summ")
	cut.stop = "length"
	for _, x := range []struct {
		answer answer
		says   string
	}{
		{text(" "), "empty summary"},
		{text(slices.Repeat([]string{strings.Repeat("x", 1<<20)}, 17)...), "longer than 16 MiB"},
		{cut, "cut off"},
		{fail(401, `{"error":{"message":"invalid x-api-key"}}`), "invalid x-api-key"},
	} {
		p.llm.plays(x.answer)
		r := d.call(`{"type":"compact"}`)
		assert.False(t, r.Get("success").Bool())
		assert.Contains(t, r.Get("error").Str, x.says)
		assert.Equal(t, before, d.ok(`{"type":"get_messages"}`).Raw)
	}
	// A passing failure is tried again.
	p.llm.plays(fail(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), gate("summary").and(text("never")))
	n := p.llm.count()
	d.send(`{"id":"c","type":"compact"}`)
	p.llm.request(n + 1)
	// What is said meanwhile waits; abort gives the compaction up.
	assert.True(t, d.ok(`{"type":"get_state"}`).Get("isCompacting").Bool())
	assert.Equal(t, "queued", d.ok(`{"type":"prompt","message":"meanwhile"}`).Get("disposition").Str)
	assert.Contains(t, d.call(`{"type":"compact"}`).Get("error").Str, "Compaction already in progress")
	d.ok(`{"type":"abort"}`)
	v, _ := d.wait(0, "the answer to compact", func(v gjson.Result) bool { return v.Get("id").Str == "c" })
	assert.Equal(t, "Compaction cancelled", v.Get("error").Str)
	assert.Equal(t, before, d.ok(`{"type":"get_messages"}`).Raw)

	// A steer during a compaction starts a run after it; steers come first.
	p.llm.plays(gate("go").and(text("summary")), text("to the steer"), text("to meanwhile"))
	n = p.llm.count()
	d.send(`{"id":"c2","type":"compact"}`)
	p.llm.request(n)
	d.ok(`{"type":"steer","message":"a steer"}`)
	from := d.count()
	p.llm.open("go")
	v, _ = d.wait(0, "the answer to compact", func(v gjson.Result) bool { return v.Get("id").Str == "c2" })
	assert.True(t, v.Get("success").Bool(), v.Raw)
	d.wait(from, "agent_settled", func(v gjson.Result) bool { return v.Get("type").Str == "agent_settled" })
	body := p.llm.request(p.llm.count() - 1).body
	assert.Less(t, strings.Index(body, "a steer"), strings.Index(body, "meanwhile"))
	assert.Positive(t, strings.Index(body, "a steer"))
}

// TestLongRun: hundreds of turns in a small window compact again and again; the
// context stays small and right, also after a restart.
func TestLongRun(t *testing.T) {
	t.Parallel()
	p := small(t)
	p.write(filepath.Join(p.agent(), "models.json"), strings.ReplaceAll(p.llm.modelsJSON(), "200000", "4000"))
	p.write(filepath.Join(p.agent(), "settings.json"), `{"compaction":{"reserveTokens":1000,"keepRecentTokens":200}}`)
	d := p.start()
	p.llm.summarises("the summary")
	turns := 200
	if n, err := strconv.Atoi(os.Getenv("TROUPE_LONG_TURNS")); err == nil { // TROUPE_LONG_TURNS=2000
		turns = n
	}
	compactions := 0
	size := 100
	for i := range turns {
		size += 300
		full := size > 3000
		p.llm.plays(text(fmt.Sprintf("answer %d %s", i, filler)).used(size))
		if full {
			size = 400
			compactions++
		}
		events := d.prompt(fmt.Sprintf("prompt %d %s", i, filler))
		require.Equal(t, full, strings.Contains(strings.Join(kinds(events), " "), "auto_compaction_end"), "turn %d", i)
	}
	require.Greater(t, compactions, 15)
	last := gjson.Get(p.llm.request(p.llm.count()-1).body, "messages").Raw
	assert.Less(t, len(last), 10_000)
	messages := d.ok(`{"type":"get_messages"}`).Get("messages").Raw
	path, _ := d.sessionFile()
	assert.EqualValues(t, turns, d.ok(`{"type":"get_session_stats"}`).Get("userMessages").Int())
	require.Zero(t, d.end())
	d = p.start("--session", path)
	assert.Equal(t, messages, d.ok(`{"type":"get_messages"}`).Get("messages").Raw)
}

// TestHugeResult: a tool result larger than the window is cut for the model
// before the request, not by the provider's refusal.
func TestHugeResult(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(filepath.Join(p.agent(), "models.json"), strings.ReplaceAll(p.llm.modelsJSON(), "200000", "4000"))
	p.write(filepath.Join(p.agent(), "settings.json"), `{"compaction":{"reserveTokens":500,"keepRecentTokens":200}}`)
	p.write("big.txt", strings.Repeat("all work and no play\n", 1500))
	p.llm.summarises("the summary")
	p.llm.plays(tool("c1", "read", `{"path":"big.txt"}`), text("done"))
	d := p.start()
	events := d.prompt("read it")
	assert.Equal(t, "completed", events[len(events)-1].Get("outcome").Str)
	body := p.llm.request(p.llm.count() - 1).body
	assert.Contains(t, body, "does not fit")
	assert.Less(t, len(gjson.Get(body, "messages").Raw), 8000)
	messages := d.ok(`{"type":"get_messages"}`).Get("messages").Raw
	assert.Greater(t, len(messages), 20_000, "the session has it whole")
}
