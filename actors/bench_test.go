package actors

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"go.uber.org/goleak"

	"troupe/actors/actortest"
	"troupe/actors/conn"
	"troupe/actors/failpoint"
	"troupe/actors/link"
	"troupe/actors/session"
	"troupe/protocol/pi"
	"troupe/store/config"
	"troupe/tools"
)

// emptyDir is the working and agent directory of every daemon under test: what
// they write goes to an actortest.Disk. agentDir is the agent directory of those that have
// tasks, with an agent; noFiles has the directory of each node's root without files.
var emptyDir, agentDir, noFiles string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "troupe-actors-")
	if err != nil {
		panic(err)
	}
	emptyDir, agentDir, noFiles = filepath.Join(dir, "empty"), filepath.Join(dir, "agent"), filepath.Join(dir, "none")
	err = errors.Join(os.Mkdir(emptyDir, 0o700), os.MkdirAll(filepath.Join(agentDir, "agents"), 0o700),
		os.WriteFile(filepath.Join(agentDir, "agents", "helper.md"), []byte("---\nname: helper\ndescription: Helps.\n---\nHelp.\n"), 0o600))
	if err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, append(throttles(), goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))...)
}

// throttles excuses the goroutine with which protoactor forgets, after a second
// of real time, how many dead letters it has logged. A benchmark, which lives in
// no bubble, may end before it. Its name depends on what the compiler inlines.
func throttles() []goleak.Option {
	const pkg = "github.com/asynkron/protoactor-go/actor."
	return []goleak.Option{
		goleak.IgnoreAnyFunction(pkg + "NewDeadLetter.NewThrottle.func4.1"),
		goleak.IgnoreAnyFunction(pkg + "NewThrottle.func1.1"),
	}
}

// bench is a daemon under test and everything around it. It lives in a bubble.
type bench struct {
	*actortest.Client
	t      testing.TB
	cfg    *Config
	watch  *actortest.Watch
	models *actortest.Models
	disk   *actortest.Disk
	window *link.Window
	stdio  conn.Stdio
	daemon *Daemon
	conn   *Connection // of a client that has joined; nil of the first
	peers  int         // how many have
	stop   chan Stop
	done   chan error
	result error
	over   bool

	answered map[string]int // dialogs, by session
}

// connect makes another client of the daemon. It uses the first one's world.
func (b *bench) connect(changes ...func(*conn.Config)) *bench {
	b.peers++
	p := &bench{
		Client: actortest.NewClient(b.History), t: b.t, cfg: b.cfg, watch: b.watch, models: b.models, disk: b.disk,
		daemon: b.daemon, answered: map[string]int{},
	}
	p.Conn, p.Schedule = b.peers, b.Schedule
	of := b.cfg.Conn
	for _, change := range changes {
		change(&of)
	}
	of.OnWindow = func(w *link.Window) { p.window = w }
	p.conn = b.daemon.Connect(of, conn.Stdio{In: p.In(), Out: p.Out()})
	b.t.Cleanup(func() { // before the daemon is abandoned
		p.Break()
		p.Close()
	})
	b.Settle()
	return p
}

// leave closes the input of a client that has joined, and returns when its
// connection has ended.
func (b *bench) leave() error {
	b.t.Helper()
	b.Close()
	return b.gone()
}

// gone waits for the end of a connection and says in the history how it was.
func (b *bench) gone() error {
	b.t.Helper()
	err := b.conn.Wait()
	b.Settle()
	kind := actortest.Left
	if err != nil {
		kind = actortest.Broken
	}
	b.History.AddTo(b.Conn, kind, fmt.Sprint(err))
	return err
}

// bubble runs a test in fake time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

// start runs a daemon.
func start(t testing.TB, changes ...func(*Config)) *bench {
	return startOver(t, func(s conn.Stdio) conn.Stdio { return s }, changes...)
}

// startOver runs a daemon whose client speaks in another way.
func startOver(t testing.TB, change func(conn.Stdio) conn.Stdio, changes ...func(*Config)) *bench {
	h := &actortest.History{}
	b := newBench(t, nil, h, actortest.NewDisk(), actortest.NewModels(), changes...)
	b.stdio = change(b.stdio)
	b.begin()
	return b
}

// startWith runs a daemon in a world that was there before it.
func startWith(t testing.TB, schedule *actortest.Schedule, h *actortest.History, disk *actortest.Disk, models *actortest.Models, changes ...func(*Config)) *bench {
	b := newBench(t, schedule, h, disk, models, changes...)
	b.begin()
	return b
}

func (b *bench) begin() {
	b.daemon = Start(b.cfg)
	of := b.cfg.Conn
	of.Final = true
	of.OnWindow = func(w *link.Window) { b.window = w }
	first := b.daemon.Connect(of, b.stdio)
	go func() { b.done <- b.daemon.runWith(first, b.stop) }()
	b.t.Cleanup(b.abandon)
}

func newBench(t testing.TB, schedule *actortest.Schedule, h *actortest.History, disk *actortest.Disk, models *actortest.Models, changes ...func(*Config)) *bench {
	h.Add(actortest.Life, "")
	b := &bench{
		Client: actortest.NewClient(h), t: t, watch: actortest.NewWatch(h), models: models, disk: disk,
		stop: make(chan Stop, 4), done: make(chan error, 1),
		answered: map[string]int{},
	}
	b.stdio = conn.Stdio{In: b.In(), Out: b.Out()}
	b.cfg = &Config{
		Log: zerolog.New(note{h}), Observe: b.watch.Observe, Epoch: "e", Conn: conn.Config{Codec: pi.Codec{}, Drain: true},
	}
	b.cfg.Sessions = session.NewShared(session.Config{
		Version: "test", AgentDir: emptyDir, SessionDir: "/sessions", Home: emptyDir, Consent: config.Refused,
		NoContext: true, NoPrompts: true, NoSkills: true,
		Env: func(string) string { return "" }, Environ: []string{"PATH=/bin:/usr/bin", "ACME_KEY=hunter2"},
		Tools: actortest.Tools(h), Files: new(tools.Files), Guard: tools.NewGuard(), Models: models,
		Exec: actortest.Exec, FS: disk.FS(),
	}, b.cfg.Log)
	b.cfg.Sessions.Default = link.OpenSpec{Cwd: emptyDir, Provider: "acme", Model: "plain", Tools: actortest.ToolNames, Settings: []byte(fastRetries)}
	for _, c := range changes {
		c(b.cfg)
	}
	if b.Schedule = schedule; schedule != nil {
		b.cfg.Dispatcher = schedule
	}
	return b
}

// abandon ends a daemon that a failed test has left: a bubble has to be empty
// in the end.
func (b *bench) abandon() {
	b.cfg.Faults.Release()
	b.Break()
	b.Close()
	if !b.over {
		b.over = true
		b.result = <-b.done
	}
	time.Sleep(2 * time.Second) // the library's throttle of dead letters sleeps for one
}

const fastRetries = `{"retry":{"enabled":true,"maxRetries":3,"baseDelayMs":2000}}`

// note puts log lines into the history.
type note struct{ h *actortest.History }

func (n note) Write(p []byte) (int, error) {
	n.h.Notef("log: %s", strings.TrimSpace(string(p)))
	return len(p), nil
}

// faults is a change that injects a plan.
func faults(plan string) func(*Config) {
	return func(c *Config) {
		p, err := failpoint.Parse(plan)
		if err != nil {
			panic(err)
		}
		c.Faults = p
	}
}

func confirm(c *Config) { c.Sessions.Confirm = []string{"danger"} }

func durable(c *Config) { c.Sessions.Durability = "sync" }

// run sends a prompt to a session and lets an hour pass, or until nothing moves.
func (b *bench) run(session, text string) gjson.Result {
	b.t.Helper()
	id := b.Say(session, "prompt", text)
	b.pass(time.Hour)
	return b.Answer(b.t, id)
}

// pass lets time pass, and everything settle.
func (b *bench) pass(d time.Duration) {
	time.Sleep(d)
	b.Settle()
}

// open opens a session and returns its handle.
func (b *bench) open() string {
	b.t.Helper()
	v := b.Call(b.t, `{"type":"open_session"}`)
	require.True(b.t, v.Get("success").Bool(), v.Raw)
	return v.Get("data.sessionId").Str
}

// end closes the input and waits for the daemon.
func (b *bench) end() {
	b.t.Helper()
	b.Close()
	b.wait()
}

// wait waits for the daemon and says in the history how it ended.
func (b *bench) wait() {
	b.t.Helper()
	if b.over {
		return
	}
	b.over = true
	b.result = <-b.done
	b.Settle()
	if b.result == nil {
		b.History.Add(actortest.End, "")
	} else {
		b.History.Add(actortest.Killed, b.result.Error())
	}
}

// check ends the daemon and judges all that happened.
func (b *bench) check() {
	b.t.Helper()
	b.end()
	b.judge(actortest.Options{Files: b.disk.Files()})
}

func (b *bench) judge(o actortest.Options) {
	b.t.Helper()
	o.Canary, o.Secrets = canary, []string{"hunter2"}
	for path, content := range o.Files {
		requireTwin(b.t, path, content)
	}
	found := actortest.Check(b.History, o)
	slices.Sort(found)
	found = append(found, b.watch.Letters()...)
	found = append(found, b.watch.Uninvited()...)
	found = append(found, b.twice()...)
	if len(found) > 0 {
		b.t.Fatalf("%s\n%s", strings.Join(found, "\n"), b.History.Tail(400))
	}
}

// twice are the commands that came to an end once more, after their answer. That may be where a
// session has crashed, and where a client has gone to whom nothing is owed any more.
func (b *bench) twice() (found []string) {
	for _, r := range b.History.Records() {
		switch {
		case r.Conn > 0, strings.HasPrefix(r.Line, "crash of "):
			return nil
		case strings.Contains(r.Line, "second answer to a command dropped"):
			found = append(found, "L1: a command was answered, and came to an end once more: "+r.Line)
		}
	}
	return found
}

// canary is the mark of a session in a text: ~a~.
func canary(text string) string {
	_, rest, found := strings.Cut(text, "~")
	mark, _, whole := strings.Cut(rest, "~")
	if !found || !whole {
		return ""
	}
	return "~" + mark + "~"
}

func code(v gjson.Result) string { return v.Get("code").Str }

func TestMainJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := start(t)
		v := b.run("", "~a~ rounds=2 calls=2")
		assert.True(t, v.Get("success").Bool(), v.Raw)
		assert.Len(t, b.Events("", "tool_execution_end"), 4)
		assert.Equal(t, "completed", b.Events("", "agent_settled")[0].Get("outcome").Str)
		b.check()
		assert.Len(t, b.disk.Files(), 1)
	})
}
