package chaos

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/harness"
	"troupe/e2e/history"
)

var (
	killSeed   = flag.Uint64("kill.seed", 0, "run this kill cycle only")
	killCycles = flag.Int("kill.cycles", number("TROUPE_KILL_CYCLES", 10), "how many kill cycles to run")
	killFirst  = flag.Uint64("kill.first", 1, "the seed of the first")
)

func number(env string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(env)); err == nil {
		return n
	}
	return otherwise
}

// TestKillCycles kills the process at random moments and at failpoints. Each next process opens the
// remaining files and is killed, too. After the last process has exited normally, the history of
// all of them is checked.
func TestKillCycles(t *testing.T) {
	program := harness.FailpointBinary(t)
	var seeds []uint64
	for i := range *killCycles {
		seeds = append(seeds, *killFirst+uint64(i))
	}
	if *killSeed != 0 {
		seeds = []uint64{*killSeed}
	}
	const lanes = 4
	for lane := range lanes {
		t.Run(fmt.Sprint("lane ", lane), func(t *testing.T) {
			t.Parallel()
			for i, seed := range seeds {
				if i%lanes != lane {
					continue
				}
				if !t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { killCycle(t, program, seed) }) {
					return
				}
			}
		})
	}
}

// cycle is the run of one seed: one place, several processes and one history.
type cycle struct {
	t       *testing.T
	p       *harness.Place
	program string
	rng     *rand.Rand
	h       *history.History
	mark    string // set in the environment of all processes of the cycle
	said    int
	marks   map[string]string // by session file
}

func killCycle(t *testing.T, program string, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	c := &cycle{
		t: t, p: harness.NewPlace(t), program: program, rng: rng, h: &history.History{},
		mark: fmt.Sprintf("TROUPE_CHAOS=%d.%d", os.Getpid(), seed), marks: map[string]string{},
	}
	c.p.Model.Decide(brain())
	c.p.WriteFile(filepath.Join(c.p.AgentDir(), "settings.json"), `{"retry":{"baseDelayMs":5,"provider":{"maxRetries":0}}}`)
	var plans []string
	defer func() {
		if t.Failed() {
			t.Logf("\nreplay: go test ./e2e/chaos -run TestKillCycles -kill.seed=%d\nplans: %q\n%s", seed, plans, c.h.Tail(200))
		}
	}()
	before := map[string][]byte{}
	for range 1 + rng.IntN(2) {
		plan := c.drawPlan(seed)
		plans = append(plans, plan)
		c.doomed(plan)
		after := c.files()
		for path := range before {
			require.True(t, history.Grown(before[path], after[path]), "S6: %s did not only grow", path)
		}
		before = after
	}
	c.lastLife()
	c.nobodyLeft()
	found := history.Check(c.h, history.Options{Canary: markOf, Files: c.files(), Free: true, Mixed: true, Secrets: []string{"sk-mock"}})
	require.Empty(t, found)
}

// drawPlan returns the failpoint at which the process kills itself, or "" if the test kills it.
func (c *cycle) drawPlan(seed uint64) string {
	if c.rng.IntN(3) == 0 {
		return ""
	}
	pick := func(list ...string) string { return list[c.rng.IntN(len(list))] }
	where := pick("s?", "s?", "s?", "s?/turn/*", "s?/tool/*", "*/router", "*/writer")
	when := fmt.Sprintf("* %d", c.rng.IntN(60))
	if where == "s?" {
		point := pick("Append", "Append", "Append", "Reply", "Reply", "Emit", "StartTool", "StartStream", "ToolDone", "StreamEnd", "Request", "opened")
		when = fmt.Sprintf("%s %d", point, c.rng.IntN(12))
	}
	return fmt.Sprintf("%s %s %s", pick("Kill", "KillAfter"), where, when)
}

var markPattern = regexp.MustCompile(`~\w+~`)

func markOf(text string) string { return markPattern.FindString(text) }

func (c *cycle) files() map[string][]byte {
	paths, _ := filepath.Glob(filepath.Join(c.p.AgentDir(), "sessions", "*", "*.jsonl"))
	files := map[string][]byte{}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		require.NoError(c.t, err)
		files[path] = raw
	}
	return files
}

// mortal is a process that may be killed at any moment.
type mortal struct {
	*harness.Daemon
	c        *cycle
	commands []string
	sessions []string // handles; "" is the default session
	marks    map[string]string
}

func (c *cycle) start(plan string) *mortal {
	cmd := exec.Command(c.program, "--mode", "rpc", "--provider", "mock", "--model", "mock-1")
	cmd.Dir = c.p.Work
	cmd.Env = append(c.p.Environ(), c.mark, "TROUPE_FAULTS="+plan)
	return &mortal{Daemon: c.p.StartCmd(cmd), c: c, marks: map[string]string{}}
}

// tell writes a command. Write errors are ignored, since the process may be dead.
func (m *mortal) tell(command string) (id string) {
	id = fmt.Sprintf("k%d", len(m.commands))
	line := `{"id":"` + id + `",` + strings.TrimPrefix(command, "{")
	m.commands = append(m.commands, line)
	_, _ = io.WriteString(m.Stdin, line+"\n")
	return id
}

// answer waits for a response or for the end of the process.
func (m *mortal) answer(id string) (gjson.Result, bool) {
	v, _, found := m.WaitOrEOF(0, "the answer to "+m.commands[len(m.commands)-1], func(v gjson.Result) bool {
		return v.Get("type").Str == "response" && v.Get("id").Str == id
	})
	return v, found
}

// open opens all existing session files and some new sessions.
func (m *mortal) open(fresh int) {
	for path, content := range m.c.files() {
		if v, ok := m.takeOver(path); ok {
			require.True(m.T, v.Get("success").Bool(), "%s: %s", path, v.Raw)
			s := v.Get("data.sessionId").Str
			m.sessions = append(m.sessions, s)
			m.marks[s] = markOf(string(content))
		}
	}
	for range fresh {
		if v, ok := m.answer(m.tell(`{"type":"open_session"}`)); ok {
			s := v.Get("data.sessionId").Str
			m.sessions = append(m.sessions, s)
		}
	}
	for _, s := range m.sessions {
		if m.marks[s] == "" {
			m.c.said++
			m.marks[s] = fmt.Sprintf("~n%d~", m.c.said)
		}
	}
}

// takeOver opens the session file of a killed process. A child that the process was about to start
// also holds the lock, until it has executed its program or is killed. This cannot be observed, so
// takeOver polls.
func (m *mortal) takeOver(path string) (gjson.Result, bool) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(harness.Patience); ; <-tick.C {
		v, ok := m.answer(m.tell(fmt.Sprintf(`{"type":"open_session","sessionPath":%q}`, path)))
		if !ok || v.Get("code").Str != "session_in_use" || time.Now().After(deadline) {
			return v, ok
		}
	}
}

func (m *mortal) say(s, command, words string, more string) {
	m.c.said++
	text, _ := json.Marshal(fmt.Sprintf("%s%d %s", m.marks[s], m.c.said, words))
	m.tell(fmt.Sprintf(`{"type":%q,"message":%s,"sessionId":%q%s}`, command, text, s, more))
}

// chatter sends random commands.
func (m *mortal) chatter(n int) {
	rng := m.c.rng
	pick := func(list ...string) string { return list[rng.IntN(len(list))] }
	for range n {
		if len(m.sessions) == 0 {
			return
		}
		s := m.sessions[rng.IntN(len(m.sessions))]
		words := pick("", "rounds=1", "rounds=2 calls=2", "rounds=1 stubborn", "rounds=1 flood", "slow", "fail", "rounds=1 slow")
		switch rng.IntN(12) {
		case 0, 1, 2, 3:
			m.say(s, "prompt", words, "")
		case 4:
			m.say(s, "prompt", words, `,"streamingBehavior":"`+pick("steer", "followUp")+`"`)
		case 5, 6:
			m.say(s, "steer", words, "")
		case 7, 8:
			m.say(s, "follow_up", words, "")
		case 9:
			m.tell(fmt.Sprintf(`{"type":%q,"sessionId":%q}`, pick("abort", "clear_queue", "get_state", "get_messages"), s))
		case 10:
			m.say(s, "abort_and_prompt", words, "")
		case 11: // lets earlier commands make progress
			m.answer(m.tell(fmt.Sprintf(`{"type":"get_state","sessionId":%q}`, s)))
		}
	}
}

// record adds the commands and output of a process to the history.
func (m *mortal) record(end history.Kind) {
	h := m.c.h
	h.Add(history.Life, "")
	for _, l := range m.commands {
		h.Add(history.Command, l)
	}
	lines := m.Lines()
	if n := len(lines); n > 0 && strings.HasSuffix(lines[n-1], " (without LF)") {
		lines = lines[:n-1] // cut off by the kill
	}
	for _, l := range lines {
		h.Add(history.Output, l)
	}
	h.Add(end, "")
}

// doomed runs a process until SIGKILL.
func (c *cycle) doomed(plan string) {
	m := c.start(plan)
	limit := time.Duration(c.rng.IntN(60)) * time.Millisecond
	if plan != "" {
		limit = 300 * time.Millisecond // fallback if the failpoint is not reached
	}
	timer := time.AfterFunc(limit, func() { _ = m.Cmd.Process.Kill() })
	defer timer.Stop()
	m.open(1 + c.rng.IntN(2))
	m.chatter(3 + c.rng.IntN(15))
	<-m.Exited
	m.record(history.Killed)
}

// lastLife opens all sessions in a last process and completes a prompt in each of them.
func (c *cycle) lastLife() {
	m := c.start("")
	m.open(0)
	for _, s := range m.sessions {
		state, ok := m.answer(m.tell(fmt.Sprintf(`{"type":"get_state","sessionId":%q}`, s)))
		require.True(c.t, ok)
		require.False(c.t, state.Get("data.isStreaming").Bool(), "what was queued does not run by itself")
		m.tell(fmt.Sprintf(`{"type":"clear_queue","sessionId":%q}`, s))
		m.say(s, "prompt", "the end", "")
	}
	require.Equal(c.t, 0, m.Close())
	settled := 0
	for _, l := range m.Lines() {
		if v := gjson.Parse(l); v.Get("type").Str == "agent_settled" && v.Get("outcome").Str == "completed" {
			settled++
		}
	}
	require.Equal(c.t, len(m.sessions), settled, "L5")
	m.record(history.End)
}

// nobodyLeft checks invariant L4: no process of the cycle is left.
func (c *cycle) nobodyLeft() {
	harness.Eventually(c.t, "the end of every child", func() bool { return len(withEnv(c.mark)) == 0 })
}

// withEnv lists the processes that have this variable in their environment.
func withEnv(kv string) (pids []int) {
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range procs {
		raw, _ := os.ReadFile(filepath.Join(dir, "environ"))
		if slices.Contains(strings.Split(string(raw), "\x00"), kv) {
			pid, _ := strconv.Atoi(filepath.Base(dir))
			pids = append(pids, pid)
		}
	}
	return pids
}

// brain computes answers from the user's last message, so that they are the same before and after a
// kill. Words: rounds=N, calls=N, stubborn (a command that ignores TERM, forks away and holds the
// pipe), flood, slow, fail (the first time).
func brain() func(body gjson.Result) harness.Answer {
	failed := map[string]bool{}
	return func(body gjson.Result) harness.Answer {
		said, rounds := lastSaid(body)
		if strings.Contains(said, "fail") && !failed[said] {
			failed[said] = true
			return harness.Fail(529, "")
		}
		return think(said, rounds)
	}
}

func lastSaid(body gjson.Result) (text string, rounds int) {
	messages := body.Get("messages").Array()
	for i := len(messages) - 1; i >= 0; i-- {
		content := messages[i].Get("content")
		if messages[i].Get("role").Str == "assistant" {
			if content.Get(`#(type=="tool_use")`).Exists() {
				rounds++
			}
			continue
		}
		if content.Type == gjson.String {
			return content.Str, rounds
		}
		texts := content.Get(`#(type=="text")#.text`).Array()
		if len(texts) > 0 {
			return texts[len(texts)-1].Str, rounds
		}
	}
	return "", rounds
}

var roundsPattern = regexp.MustCompile(`rounds=(\d)`)

func think(said string, rounds int) harness.Answer {
	want := 0
	if m := roundsPattern.FindStringSubmatch(said); m != nil {
		want, _ = strconv.Atoi(m[1])
	}
	if rounds >= want {
		if strings.Contains(said, "slow") {
			a := harness.Text("I heard ")
			for range 20 {
				a.Steps = append(a.Steps, harness.Step{Kind: "comment"}, harness.Step{Kind: "text", Part: said + "; "})
			}
			return a
		}
		return harness.Text("I heard ", said)
	}
	command := "echo " + strings.Fields(said)[0]
	switch {
	case strings.Contains(said, "stubborn"):
		command = "trap '' TERM; (setsid sleep 0.3 >&2 &) ; sleep 0.05; echo done"
	case strings.Contains(said, "flood"):
		command = "head -c 300000 /dev/zero | tr '\\0' x"
	}
	args, _ := json.Marshal(map[string]string{"command": command})
	id := strings.Map(func(r rune) rune {
		if r == '~' {
			return '_'
		}
		return r
	}, strings.Fields(said)[0])
	a := harness.ToolCall(fmt.Sprintf("%s-%d-0", id, rounds), "bash", string(args))
	if strings.Contains(said, "calls=2") {
		a = a.Then(harness.ToolCall(fmt.Sprintf("%s-%d-1", id, rounds), "bash", string(args)))
	}
	return a
}

// TestKillLeavesNoChild checks that the children of a killed process are killed, even if they try
// to escape.
func TestKillLeavesNoChild(t *testing.T) {
	for name, command := range map[string]string{
		"ignores TERM":    `trap '' TERM INT HUP; echo $$ > pid; while :; do sleep 1; done`,
		"holds the pipe":  `sleep 600 & echo $! > pid; wait`,
		"forks away":      `(setsid sh -c 'echo $$ > pid; exec sleep 600' &) ; sleep 600`,
		"floods":          `echo $$ > pid; exec yes`,
		"closes its pipe": `echo $$ > pid; exec >&- 2>&-; exec sleep 600`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := harness.NewPlace(t)
			mark := fmt.Sprintf("TROUPE_CHAOS=%d.%s", os.Getpid(), strings.ReplaceAll(name, " ", "_"))
			p.Env = append(p.Env, mark)
			args, _ := json.Marshal(map[string]string{"command": command})
			// The first command starts the guard process. A child that is started before the guard
			// would not be killed by it.
			p.Model.Enqueue(harness.ToolCall("c0", "bash", `{"command":"true"}`), harness.ToolCall("c1", "bash", string(args)))
			d := p.Start()
			d.OK(`{"type":"prompt","message":"go"}`)
			harness.WaitPID(t, filepath.Join(p.Work, "pid"))
			require.NoError(t, d.Cmd.Process.Kill())
			<-d.Exited
			harness.Eventually(t, "the end of every child", func() bool { return len(withEnv(mark)) == 0 })
		})
	}
}

// TestTwoProcesses checks that a session file has one writer, and that it is free as soon as the
// owner is dead.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.Model.Enqueue(harness.Text("one"), harness.Text("two"))
	first := p.Start()
	first.Prompt("hello")
	path, _ := first.SessionFile()
	second := p.Start("--multi-session")
	open := fmt.Sprintf(`{"type":"open_session","sessionPath":%q}`, path)
	for range 3 {
		v := second.Call(open)
		require.Equal(t, "session_in_use", v.Get("code").Str, v.Raw)
	}
	require.NoError(t, first.Cmd.Process.Signal(syscall.SIGKILL))
	<-first.Exited
	s := second.OK(open).Get("sessionId").Str
	second.OK(fmt.Sprintf(`{"type":"prompt","message":"again","sessionId":%q}`, s))
	second.Event("agent_settled")
	require.Len(t, harness.ReadEntries(t, path)[3:], 4, "the conversation goes on in the same file")
}

// TestFileSizeLimit checks a disk that fills up during a conversation. Rejected input is not in the
// session file, and all of its lines are whole.
func TestFileSizeLimit(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	long := strings.Repeat("words ", 2000)
	p.Model.Enqueue(harness.Text(long), harness.Text(long), harness.Text(long), harness.Text(long), harness.Text(long), harness.Text(long))
	cmd := exec.Command("sh", "-c", `ulimit -f 32; trap '' XFSZ; exec "$0" --mode rpc --provider mock --model mock-1`, harness.Binary) // 16 or 32 KiB
	cmd.Dir, cmd.Env = p.Work, p.Environ()
	d := p.StartCmd(cmd)
	refused := false
	for i := range 6 {
		v := d.Call(fmt.Sprintf(`{"type":"prompt","message":"~a~ %d"}`, i))
		if !v.Get("success").Bool() {
			require.Equal(t, "not_durable", v.Get("code").Str, v.Raw)
			refused = true
			continue
		}
		d.Event("agent_settled")
	}
	path := d.OK(`{"type":"get_state"}`).Get("sessionFile").Str
	require.Equal(t, 0, d.Close())
	harness.ReadEntries(t, path)
	if !refused {
		require.Contains(t, strings.Join(d.Lines(), "\n"), "could not be written")
	}
	again := p.StartRaw("--mode", "rpc", "--provider", "mock", "--model", "mock-1", "--session", path)
	p.Model.Enqueue(harness.Text("there is room"))
	again.Prompt("~a~ later")
	require.Equal(t, 0, again.Close())
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Empty(t, history.Check(&history.History{}, history.Options{Files: map[string][]byte{path: raw}}))
}

// TestStoppedReader checks that a client that stops reading costs a bounded amount of memory, and
// receives everything once it reads again.
func TestStoppedReader(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	long := make([]string, 3000)
	for i := range long {
		long[i] = strings.Repeat("x", 200)
	}
	p.Model.Enqueue(harness.Text(long...), harness.Text("after"))
	cmd := exec.Command(harness.Binary, "--mode", "rpc", "--provider", "mock", "--model", "mock-1")
	cmd.Dir, cmd.Env = p.Work, p.Environ()
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	cmd.Stdout = w
	require.NoError(t, cmd.Start())
	w.Close()
	_, _ = io.WriteString(in, `{"id":"1","type":"prompt","message":"go"}`+"\n")
	p.Model.Request(0)
	for i := range 200 {
		_, _ = fmt.Fprintf(in, `{"id":"m%d","type":"get_messages"}`+"\n", i)
	}
	in.Close()
	peak := rss(cmd.Process.Pid)
	out, err := io.ReadAll(r)
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
	require.Less(t, peak, 300<<20, "the race detector multiplies")
	answers := 0
	for line := range strings.Lines(string(out)) {
		require.True(t, gjson.Valid(line))
		if gjson.Get(line, "type").Str == "response" {
			answers++
		}
	}
	require.Equal(t, 201, answers)
	require.Contains(t, string(out), `"agent_settled"`)
}

func rss(pid int) int {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	f := strings.Fields(string(raw))
	if len(f) < 2 {
		return 0
	}
	pages, _ := strconv.Atoi(f[1])
	return pages * os.Getpagesize()
}
