package actors

import (
	"os"
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
	"troupe/actors/failpoint"
	"troupe/store/resource"
	"troupe/tools"
)

// emptyDir is the working and agent directory of every daemon under test: what
// they write goes to an actortest.Disk.
var emptyDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "troupe-actors-")
	if err != nil {
		panic(err)
	}
	emptyDir = dir
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
	window *window
	stop   chan Stop
	done   chan error
	result error
	over   bool

	answered map[string]int // dialogs, by session
}

// bubble runs a test in fake time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

// start runs a daemon.
func start(t testing.TB, changes ...func(*Config)) *bench {
	h := &actortest.History{}
	return startWith(t, nil, h, actortest.NewDisk(), actortest.NewModels(), changes...)
}

// startWith runs a daemon in a world that was there before it.
func startWith(t testing.TB, schedule *actortest.Schedule, h *actortest.History, disk *actortest.Disk, models *actortest.Models, changes ...func(*Config)) *bench {
	h.Add(actortest.Life, "")
	b := &bench{
		Client: actortest.NewClient(h), t: t, watch: actortest.NewWatch(h), models: models, disk: disk,
		stop: make(chan Stop, 4), done: make(chan error, 1),
		answered: map[string]int{},
	}
	b.cfg = &Config{
		Log: zerolog.New(note{h}), Version: "test", Epoch: "e", In: b.In(), Out: b.Out(), Drain: true,
		AgentDir: emptyDir, SessionDir: "/sessions", Home: emptyDir, Consent: resource.Refused, NoContext: true, NoPrompts: true, NoSkills: true,
		Env: func(string) string { return "" }, Environ: []string{"PATH=/bin:/usr/bin", "ACME_KEY=hunter2"},
		Tools: actortest.Tools(h), Files: new(tools.Files), Guard: tools.NewGuard(), Models: models,
		Exec: actortest.Exec, FS: disk.FS(), Observe: b.watch.Observe,
	}
	b.cfg.Default = OpenSpec{Cwd: emptyDir, Provider: "acme", Model: "plain", Tools: actortest.ToolNames, Settings: []byte(fastRetries)}
	b.cfg.onWindow = func(w *window) { b.window = w }
	for _, c := range changes {
		c(b.cfg)
	}
	if b.Schedule = schedule; schedule != nil {
		b.cfg.Mailbox = schedule.Mailbox
	}
	go func() { b.done <- Run(b.cfg, b.stop) }()
	t.Cleanup(b.abandon)
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

func confirm(c *Config) { c.Confirm = []string{"danger"} }

func durable(c *Config) { c.Durability = "sync" }

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
	found := actortest.Check(b.History, o)
	slices.Sort(found)
	found = append(found, b.watch.Letters()...)
	found = append(found, b.watch.Uninvited()...)
	if len(found) > 0 {
		b.t.Fatalf("%s\n%s", strings.Join(found, "\n"), b.History.Tail(400))
	}
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
