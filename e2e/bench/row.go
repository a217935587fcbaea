//go:build linux

package main

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"troupe/e2e/figures"
)

// row is one thing that is measured of each agent: a run of it gives one value
// for each metric. A metric that is a p50 is one of many measurements in the run.
type row struct {
	name    string
	how     how
	who     string // agents
	reps    int
	metrics []metric
	run     func(x *sampler) map[string]float64
}

// metric is a line of the table.
type metric struct {
	key    string
	title  string
	unit   string
	target float64 // 0 for none
	more   bool    // more is better
}

// sampler is what a row has for one sample.
type sampler struct {
	*place
	agent *agent
	how   how
	quick bool
}

// scale is n, or less of it in a hurry.
func (x *sampler) scale(n, quick int) int {
	if x.quick {
		return quick
	}
	return n
}

type values = map[string]float64

const (
	everyone = "limit troupe pi newer"
	repeats  = "limit troupe pi"    // those whose updates repeat the message
	pieces   = "limit troupe newer" // those whose updates can be the delta alone
)

var (
	delta      = how{}
	cumulative = how{cumulative: true}
)

var rows = []row{
	{"start", delta, everyone, 15, []metric{
		{"wall", "spawn → first `get_state` answer", "ms", 10, false},
		{"cpu", "CPU for that", "ms", 10, false},
		{"rss", "idle private memory, after 0.5 s", "MB", 4, false}, {"pss", "the same with its share of common pages (PSS)", "MB", 0, false},
	}, runStart},
	{"roundtrip", delta, everyone, 7, []metric{{"p50", "idle round trip p50", "µs", 15, false}}, runRoundtrip},
	{"pipeline", delta, everyone, 7, []metric{{"rate", "pipelined commands", "1/s", 300_000, true}}, runPipeline},
	{"request", delta, everyone, 7, []metric{{"p50", "prompt → request at the model p50", "ms", 0.5, false}}, runRequest},
	{"delta", delta, pieces, 5, []metric{{"p50", "delta in → line out p50, delta-only", "ms", 0.1, false}}, runDelta},
	{"delta-cumulative", cumulative, repeats, 5, []metric{{"p50", "delta in → line out p50, cumulative", "ms", 0.1, false}}, runDelta},
	{"5000", delta, pieces, 7, burstMetrics("5,000 deltas, delta-only", 400_000), burst(5000)},
	{"5000-cumulative", cumulative, repeats, 7, burstMetrics("5,000 deltas, cumulative", 10_000), burst(5000)},
	{"20000", delta, pieces, 7, burstMetrics("20,000 deltas, delta-only", 400_000), burst(20_000)},
	{"20000-cumulative", cumulative, "limit troupe", 3, burstMetrics("20,000 deltas, cumulative", 4000), burst(20_000)},
	{"turns", delta, everyone, 5, []metric{{"rate", "200 turns with one bash call each", "1/s", 500, true}}, runTurns},
	{"tool-100MB", delta, everyone, 5, []metric{
		{"wall", "tool bash with 100 MB of output", "s", 0.12, false}, {"peak", "peak memory there", "MB", 25, false},
	}, runToolOutput},
	{"bash-100MB", delta, everyone, 5, []metric{
		{"wall", "RPC bash with 100 MB of output", "s", 0.36, false}, {"peak", "peak memory there", "MB", 25, false},
	}, runBashOutput},
	{"abort", delta, everyone, 5, []metric{{"p50", "abort while streaming → `agent_end` p50", "ms", 0.4, false}}, runAbort},
	{"abort-sleep", delta, everyone, 5, []metric{
		{"p50", "abort in `sleep 60` → `agent_end` p50", "ms", 0.8, false}, {"gone", "the same → child gone p50", "ms", 1, false},
	}, runAbortSleep},
	{"100k", delta, everyone, 5, []metric{
		{"switch", "session of 100,000 entries (40 MB): switch", "ms", 150, false}, {"rss", "memory after, 1 s later", "MB", 60, false},
		{"append", "append one entry p50", "µs", 15, false}, {"state", "`get_state` p50", "µs", 15, false},
	}, runHuge},
	{"10k-turn", delta, everyone, 5, []metric{
		{"p50", "10,000 entries in the context: a whole turn p50", "ms", 8, false},
	}, runContext},
	{"10k-messages", delta, "troupe pi newer", 5, []metric{
		{"wall", "`get_messages` of 10,000 messages", "ms", 0, false}, {"grown", "peak memory on top of that before", "MB", 0, false},
	}, runMessages},
	{"continue", how{args: []string{"--continue"}}, "troupe pi newer", 7, []metric{
		{"wall", "start with `--continue` among 1,000 sessions", "ms", 15, false},
	}, runContinue},
	{"10x50", cumulative, everyone, 3, streamMetrics("10 sessions × 50 deltas/s", 40, 0.6, 0), streams(10)},
	{"100x50", delta, "troupe", 3, streamMetrics("100 sessions × 50 deltas/s", 120, 5, 5), streams(100)},
	{"100x50-cumulative", cumulative, "troupe", 3, streamMetrics("100 sessions × 50 deltas/s, cumulative", 120, 5, 5), streams(100)},
	{"500-idle", how{args: []string{"--park-after", "4s"}}, "troupe", 3, []metric{
		{"rss", "500 open idle sessions", "MB", 100, false}, {"each", "a session that has not been used", "KiB", 64, false},
		{"used", "500 idle sessions after one turn each", "MB", 100, false}, {"parked", "a parked session", "KiB", 64, false},
	}, runIdle},
	{"extensions", delta, "troupe pi newer", 7, []metric{
		{"wall", "start with ten extensions → the answer of one", "ms", 25, false}, {"rss", "memory then, 0.5 s later", "MB", 0, false},
		{"state", "start with ten extensions → first get_state", "ms", 10, false},
	}, runExtensions},
	{"extension-hook", delta, "troupe newer", 5, []metric{
		{"p50", "prompt past a handler p50", "µs", 150, false}, {"p99", "the same p99", "µs", 1000, false},
	}, runHook},
	{"extension-memory", delta, "troupe", 3, []metric{{"each", "a further session with ten extensions", "MB", 2, false}}, runExtensionMemory},
	{"task-first", delta, "troupe pi newer", 5, []metric{
		{"p50", "call of a task → its child's request p50", "ms", 2, false}, {"budget", "the same below a limit of cost p50", "ms", 2, false},
	}, runTask},
	{"task-100", delta, "troupe", 5, []metric{
		{"last", "100 tasks → the last child's request", "ms", 100, false},
		{"abort", "abort of 100 children → `agent_end`", "ms", 5, false}, {"gone", "the same → last of their processes gone", "ms", 100, false},
	}, runTasks},
	{"task-100x50", delta, "troupe", 3, []metric{
		{"rss", "100 children × 50 deltas/s: memory", "MB", 70, false}, {"cpu", "CPU in 10 s of it", "s", 3, false},
		{"abort", "abort of them → `agent_end`", "ms", 5, false},
	}, runStreamingTasks},
	{"task-isolated", delta, "troupe", 5, []metric{
		{"p50", "call of an isolated task, 1,000 files → its request p50", "ms", 250, false},
		{"eight", "eight of them → the last one's request p50", "ms", 0, false},
	}, runIsolatedTask},
	{"clients", delta, "troupe", 3, []metric{
		{"cpu", "1,000 clients of one session × 20 words/s: cores", "", 0.4, false}, {"rss", "memory then", "MB", 90, false},
		{"idle", "a client that is idle", "KiB", 60, false}, {"p50", "word in → read by a client p50", "ms", 0, false}, {"p99", "the same p99", "ms", 100, false},
	}, runClients},
	{"replay", delta, "troupe", 5, []metric{{"p50", "10,000 missed records, replayed p50", "ms", 60, false}}, runReplay},
	{"page", delta, "troupe", 5, []metric{{"paint", "first paint of the page, nothing cached", "ms", 250, false}}, runPage},
	{"list", delta, "troupe", 5, []metric{
		{"cold", "listing 10,000 sessions, cold", "ms", 0, false}, {"warm", "listing 10,000 sessions, warm, p50", "ms", 100, false},
	}, runList},
}

func runStart(x *sampler) values {
	q := x.start(x.agent, x.how)
	q.call(`{"type":"get_state"}`)
	wall, cpu := time.Since(q.spawned), q.cpu()
	time.Sleep(500 * time.Millisecond)
	return values{"wall": figures.MS(wall), "cpu": cpu * 1e3, "rss": q.memory(), "pss": figures.ProportionalMemory(q.pid())}
}

func runRoundtrip(x *sampler) values {
	q := x.ready(x.agent, x.how)
	line := []byte(`{"id":"r","type":"get_state"}` + "\n")
	var d []time.Duration
	for i := range x.scale(6000, 2000) {
		begun := time.Now()
		q.write(line)
		q.next()
		if took := time.Since(begun); i >= 500 {
			d = append(d, took)
		}
	}
	return values{"p50": figures.US(figures.P50(d))}
}

func runPipeline(x *sampler) values {
	q := x.ready(x.agent, x.how)
	n := x.scale(200_000, 50_000)
	if x.agent.peer {
		n = 20_000
	}
	lines := bytes.Repeat([]byte(`{"id":"r","type":"get_state"}`+"\n"), 1000)
	rate := 0.0
	for range 2 { // the first is to warm up
		begun := time.Now()
		go func() {
			defer func() { recover() }() // a process that has died is noticed by the reader
			for range n / 1000 {
				q.write(lines)
			}
		}()
		for range n {
			q.next()
		}
		rate = float64(n) / time.Since(begun).Seconds()
	}
	return values{"rate": rate}
}

func runRequest(x *sampler) values {
	q := x.ready(x.agent, x.how)
	short := textAnswer(1, "ok")
	asked := make(chan time.Time, 1)
	x.model.answers(func(a *ask) {
		asked <- a.at
		a.play(short)
	})
	var d []time.Duration
	for i := range x.scale(150, 60) {
		begun := time.Now()
		q.send(`{"id":"p","type":"prompt","message":"go"}`)
		q.until(agentEnd)
		if at := <-asked; i >= 10 {
			d = append(d, at.Sub(begun))
		}
		time.Sleep(2 * time.Millisecond)
	}
	return values{"p50": figures.MS(figures.P50(d))}
}

func runDelta(x *sampler) values {
	q := x.ready(x.agent, x.how)
	n := x.scale(300, 100)
	base := time.Now()
	x.model.answers(func(a *ask) {
		a.begin()
		for range n {
			time.Sleep(10 * time.Millisecond) // more than a frame of cumulative updates
			a.delta(stamp(base))
		}
		a.end()
	})
	q.send(`{"id":"p","type":"prompt","message":"go"}`)
	var d []time.Duration
	for {
		line := q.next()
		if bytes.HasPrefix(line, []byte(agentEnd)) {
			break
		}
		if took, ok := since(base, line); ok {
			d = append(d, took)
		}
	}
	if len(d) < n*9/10 {
		figures.Fail("%d of %d deltas", len(d), n)
	}
	return values{"p50": figures.MS(figures.P50(d[n/10:]))}
}

// stamp is a piece of text that says when it was sent.
func stamp(base time.Time) string { return "t" + strconv.FormatInt(int64(time.Since(base)), 10) + "t " }

// since reads the stamp of a line: how long the oldest text in it was under way.
func since(base time.Time, line []byte) (time.Duration, bool) {
	now := time.Since(base)
	const mark = `"delta":"t`
	if !bytes.HasPrefix(line, []byte(update)) {
		return 0, false
	}
	i := bytes.Index(line, []byte(mark))
	if i < 0 {
		return 0, false
	}
	digits, _, _ := bytes.Cut(line[i+len(mark):min(len(line), i+40)], []byte("t"))
	at, err := strconv.ParseInt(string(digits), 10, 64)
	return now - time.Duration(at), err == nil
}

func burstMetrics(title string, target float64) []metric {
	return []metric{
		{"rate", title, "deltas/s", target, true}, {"peak", "peak memory there", "MB", 30, false},
		{"lines", "updates written for it", "", 0, false}, {"bytes", "bytes written for it", "MB", 0, false},
	}
}

// burst plays answers of n pieces at once. The first is to warm up.
func burst(n int) func(x *sampler) values {
	return func(x *sampler) values {
		q := x.ready(x.agent, x.how)
		answer := textAnswer(n, "word ")
		x.model.answers(func(a *ask) { a.play(answer) })
		q.prompt("go")
		took, lines, size := q.prompt("go")
		return values{"rate": float64(n) / took.Seconds(), "peak": q.peak(), "lines": float64(lines), "bytes": float64(size) / 1e6}
	}
}

func runTurns(x *sampler) values {
	q := x.ready(x.agent, x.how)
	n := x.scale(200, 100)
	var answers [][]byte
	for i := range n {
		answers = append(answers, bashAnswer(i, "true"))
	}
	answers = append(answers, textAnswer(1, "done"))
	next := 0
	x.model.answers(func(a *ask) {
		next++ // before the answer: what comes at its end is the end of the run
		a.play(answers[next-1])
	})
	took, _, _ := q.prompt("go")
	if next != n+1 {
		figures.Fail("%d requests for %d turns", next, n)
	}
	return values{"rate": float64(n) / took.Seconds()}
}

const hundredMB = "yes 0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz | head -c 100000000"

func runToolOutput(x *sampler) values {
	q := x.ready(x.agent, x.how)
	answers := [][]byte{bashAnswer(1, hundredMB), textAnswer(1, "done")}
	next := 0
	x.model.answers(func(a *ask) {
		next++ // before the answer: what comes at its end is the end of the run
		a.play(answers[next-1])
	})
	took, _, _ := q.prompt("go")
	return values{"wall": took.Seconds(), "peak": q.peak()}
}

func runBashOutput(x *sampler) values {
	q := x.ready(x.agent, x.how)
	begun := time.Now()
	q.call(`{"type":"bash","command":"` + hundredMB + `"}`)
	return values{"wall": time.Since(begun).Seconds(), "peak": q.peak()}
}

func runAbort(x *sampler) values {
	q := x.ready(x.agent, x.how)
	x.model.answers(func(a *ask) {
		a.begin()
		for !a.gone {
			a.delta("word ")
			time.Sleep(time.Millisecond)
		}
	})
	var d []time.Duration
	for range x.scale(40, 15) {
		q.send(`{"id":"p","type":"prompt","message":"go"}`)
		for range 10 {
			q.until(update)
		}
		begun := time.Now()
		q.send(`{"id":"a","type":"abort"}`)
		q.until(agentEnd)
		d = append(d, time.Since(begun))
		q.until(`"command":"abort"`)
		time.Sleep(5 * time.Millisecond)
	}
	return values{"p50": figures.MS(figures.P50(d))}
}

func runAbortSleep(x *sampler) values {
	q := x.ready(x.agent, x.how)
	file := filepath.Join(x.root, "pid")
	answer := bashAnswer(1, "echo $$ > "+file+"; exec sleep 60")
	x.model.answers(func(a *ask) { a.play(answer) })
	var ends, gones []time.Duration
	for range x.scale(20, 8) {
		os.Remove(file)
		q.send(`{"id":"p","type":"prompt","message":"go"}`)
		q.until(toolStart)
		pid := 0
		for pid == 0 {
			time.Sleep(2 * time.Millisecond)
			raw, _ := os.ReadFile(file)
			if bytes.HasSuffix(raw, []byte("\n")) {
				pid, _ = strconv.Atoi(strings.TrimSpace(string(raw)))
			}
		}
		time.Sleep(5 * time.Millisecond)
		gone := figures.End(pid)
		begun := time.Now()
		q.send(`{"id":"a","type":"abort"}`)
		q.until(agentEnd)
		ends = append(ends, time.Since(begun))
		at, ok := <-gone
		if !ok {
			figures.Fail("the child stays")
		}
		gones = append(gones, at.Sub(begun))
		q.until(`"command":"abort"`)
		time.Sleep(5 * time.Millisecond)
	}
	return values{"p50": figures.MS(figures.P50(ends)), "gone": figures.MS(figures.P50(gones))}
}

func runHuge(x *sampler) values {
	path := filepath.Join(x.sessions(), "2026-11-21T01-04-26-000Z_0000ffff-0cac-777d-9222-07d0c3020a70.jsonl")
	x.session(path, 100_000, 100, 0xffff)
	q := x.ready(x.agent, x.how)
	begun := time.Now()
	q.call(`{"type":"switch_session","sessionPath":"` + path + `"}`)
	switched := time.Since(begun)
	v := values{"switch": figures.MS(switched)}
	time.Sleep(time.Second)
	v["rss"] = q.memory()
	for _, one := range []struct{ key, line string }{
		{"state", `{"id":"x","type":"get_state"}`}, {"append", ""},
	} {
		var d []time.Duration
		n := x.scale(1000, 300)
		if x.agent.peer {
			n = 30
		}
		for i := range n {
			line := one.line
			if line == "" && x.agent.bare {
				line = `{"id":"x","type":"set_thinking_level","level":"off"}`
			} else if line == "" {
				line = `{"id":"x","type":"set_session_name","name":"name ` + strconv.Itoa(i) + `"}`
			}
			begun := time.Now()
			q.send(line)
			q.until(`"id":"x"`)
			d = append(d, time.Since(begun))
		}
		v[one.key] = figures.US(figures.P50(d[len(d)/10:]))
	}
	return v
}

// conversation opens a session of n messages.
func (x *sampler) conversation(n int) *proc {
	path := filepath.Join(x.sessions(), "2026-11-21T01-04-26-000Z_0000eeee-0cac-777d-9222-07d0c3020a70.jsonl")
	x.session(path, n, 100, 0xeeee)
	q := x.ready(x.agent, x.how)
	q.call(`{"type":"switch_session","sessionPath":"` + path + `"}`)
	return q
}

// turnWith is the median time of a whole turn with n messages behind it.
func turnWith(x *sampler, n, turns int) float64 {
	q := x.conversation(n)
	short := textAnswer(1, "ok")
	x.model.answers(func(a *ask) { a.play(short) })
	var d []time.Duration
	for i := range turns + 2 {
		if took, _, _ := q.prompt("go"); i >= 2 {
			d = append(d, took)
		}
		time.Sleep(time.Millisecond)
	}
	return figures.MS(figures.P50(d))
}

func runContext(x *sampler) values { return values{"p50": turnWith(x, 10_000, x.scale(20, 8))} }

func runMessages(x *sampler) values {
	q := x.conversation(10_000)
	time.Sleep(300 * time.Millisecond)
	before := figures.Memory(q.pid(), "VmRSS") // beside the peak, which is resident memory too
	q.resetPeak()
	begun := time.Now()
	q.call(`{"type":"get_messages"}`)
	took := time.Since(begun)
	return values{"wall": figures.MS(took), "grown": q.peak() - before}
}

func runContinue(x *sampler) values {
	x.fill(1000)
	q := x.start(x.agent, x.how)
	answer := q.call(`{"type":"get_state"}`)
	took := time.Since(q.spawned)
	if n := gjson.GetBytes(answer, "data.messageCount").Int(); n != 8 {
		figures.Fail("--continue did not continue: %s", answer)
	}
	return values{"wall": figures.MS(took)}
}

func streamMetrics(title string, memory, cpu, p99 float64) []metric {
	return []metric{
		{"rss", title + ": memory", "MB", memory, false},
		{"cpu", "CPU in 10 s of it", "s", cpu, false},
		{"p50", "delta p50 there", "ms", 0, false},
		{"p99", "delta p99 there", "ms", p99, false},
	}
}

// streams runs n conversations at once, each with 50 deltas a second: in one
// process if the agent can, else in n.
func streams(n int) func(x *sampler) values {
	return func(x *sampler) values {
		seconds := x.scale(10, 3)
		base := time.Now()
		var over sync.WaitGroup
		x.model.answers(func(a *ask) {
			a.begin()
			time.Sleep(time.Duration(rand.IntN(20_000)) * time.Microsecond)
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for range 50 * seconds {
				<-tick.C
				a.delta(stamp(base))
			}
			a.end()
		})
		procs, prompts := x.conversations(n)
		cpu, memory := 0.0, 0.0
		for _, q := range procs {
			cpu -= q.cpu()
		}
		begun := time.Now()
		var mu sync.Mutex
		var all []time.Duration
		for _, q := range procs {
			for _, p := range prompts[q] {
				q.send(p)
			}
			over.Add(1)
			go func() {
				defer over.Done()
				defer func() { recover() }()
				d := q.deltas(base, len(prompts[q]))
				mu.Lock()
				all = append(all, d...)
				mu.Unlock()
			}()
		}
		stop := make(chan struct{})
		go func() { over.Wait(); close(stop) }()
		for running := true; running; {
			select {
			case <-stop:
				running = false
			case <-time.After(500 * time.Millisecond):
			}
			now := 0.0
			for _, q := range procs {
				now += q.memory()
			}
			memory = max(memory, now)
		}
		took := time.Since(begun)
		for _, q := range procs {
			cpu += q.cpu()
		}
		if want := n * 50 * seconds; len(all) < want*9/10 {
			figures.Fail("%d of %d deltas", len(all), want)
		}
		return values{"rss": memory, "cpu": cpu * 10 / took.Seconds(), "p50": figures.MS(figures.P50(all)), "p99": figures.MS(figures.Quantile(all, 0.99))}
	}
}

// conversations begins processes that hold n conversations, and makes the prompts of each.
func (x *sampler) conversations(n int) (procs []*proc, prompts map[*proc][]string) {
	prompts = map[*proc][]string{}
	if x.agent.many {
		q := x.ready(x.agent, x.how)
		for range n {
			id := gjson.GetBytes(q.call(`{"type":"open_session"}`), "data.sessionId").Str
			prompts[q] = append(prompts[q], `{"id":"p","type":"prompt","message":"go","sessionId":"`+id+`"}`)
		}
		return []*proc{q}, prompts
	}
	for range n {
		q := x.ready(x.agent, x.how)
		procs = append(procs, q)
		prompts[q] = []string{`{"id":"p","type":"prompt","message":"go"}`}
	}
	return procs, prompts
}

// deltas reads to the end of so many runs, and returns how long each delta was on its way.
func (q *proc) deltas(base time.Time, runs int) (list []time.Duration) {
	for runs > 0 {
		line := q.next()
		if bytes.HasPrefix(line, []byte(agentEnd)) {
			runs--
		} else if took, ok := since(base, line); ok {
			list = append(list, took)
		}
	}
	return list
}

// opens opens n sessions in one process and returns their handles.
func (x *sampler) opens(q *proc, n int) []string {
	go func() {
		defer func() { recover() }()
		for range n {
			q.send(`{"id":"o","type":"open_session"}`)
		}
	}()
	var ids []string
	for len(ids) < n {
		ids = append(ids, gjson.GetBytes(q.until(`"id":"o"`), "data.sessionId").Str)
	}
	return ids
}

func runIdle(x *sampler) values {
	const n = 500
	q := x.ready(x.agent, x.how)
	short := textAnswer(20, "word ")
	x.model.answers(func(a *ask) { a.play(short) })
	turns := func(ids []string) {
		for _, id := range ids {
			q.send(`{"id":"p","type":"prompt","message":"go","sessionId":"` + id + `"}`)
			q.until(agentEnd)
		}
	}
	turns(x.opens(q, 1)) // so that what the program itself needs for one is not counted as theirs
	time.Sleep(500 * time.Millisecond)
	before := q.memory()
	ids := x.opens(q, n)
	time.Sleep(2 * time.Second)
	idle := q.memory()
	turns(ids)
	time.Sleep(time.Second)
	used := q.memory()
	time.Sleep(5 * time.Second)
	if line := q.call(`{"type":"list_open_sessions"}`); bytes.Count(line, []byte(`"parked"`)) < n {
		figures.Fail("not all sessions are parked: %s", line[:min(len(line), 600)])
	}
	return values{"rss": idle, "each": (idle - before) * 1024 / n, "used": used, "parked": (q.memory() - before) * 1024 / n}
}

func runList(x *sampler) values {
	x.fill(10_000)
	q := x.ready(x.agent, x.how)
	var d []time.Duration
	for range 6 {
		begun := time.Now()
		line := q.call(`{"type":"list_sessions"}`)
		d = append(d, time.Since(begun))
		if n := bytes.Count(line, []byte(`"firstMessage"`)); n < 10_000 {
			figures.Fail("%d sessions listed: %s", n, line[:min(len(line), 600)])
		}
	}
	return values{"cold": figures.MS(d[0]), "warm": figures.MS(figures.P50(d[1:]))}
}
