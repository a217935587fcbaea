package harness

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"troupe/actors"
	"troupe/actors/actortest"
	"troupe/actors/conn"
	"troupe/actors/link"
	"troupe/actors/session"
	"troupe/protocol/pi"
	"troupe/store/config"
	"troupe/tools"
)

// Directories of the process's tests, on a real disk. [Main] creates and removes them.
var (
	// TempDir holds the others.
	TempDir string
	// EmptyDir is the working directory and the agent directory of a daemon. It stays empty: a
	// daemon under test writes to its [actortest.Disk].
	EmptyDir string
	// AgentDir is the agent directory of a daemon with the option [WithTasks]. It holds the agent
	// "helper".
	AgentDir string
)

// HelperAgent is the definition of the agent "helper".
const HelperAgent = "---\nname: helper\ndescription: Helps.\n---\nHelp.\n"

// Main runs the tests of a package, and fails if goroutines are left afterwards.
func Main(m *testing.M) {
	dir, err := os.MkdirTemp("", "troupe-scenario-")
	if err != nil {
		panic(err)
	}
	TempDir, EmptyDir, AgentDir = dir, filepath.Join(dir, "empty"), filepath.Join(dir, "agent")
	err = errors.Join(os.Mkdir(EmptyDir, 0o700), os.MkdirAll(filepath.Join(AgentDir, "agents"), 0o700),
		os.WriteFile(filepath.Join(AgentDir, "agents", "helper.md"), []byte(HelperAgent), 0o600))
	if err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, append(throttles(), goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))...)
}

// throttles ignores the goroutine with which protoactor resets, after a second of real time, its
// count of logged dead letters. A benchmark runs in no bubble and may end earlier. The name of the
// function depends on the compiler's inlining.
func throttles() []goleak.Option {
	const pkg = "github.com/asynkron/protoactor-go/actor."
	return []goleak.Option{
		goleak.IgnoreAnyFunction(pkg + "NewDeadLetter.NewThrottle.func4.1"),
		goleak.IgnoreAnyFunction(pkg + "NewThrottle.func1.1"),
	}
}

// Client is a client of a daemon under test, with access to the daemon and its surroundings.
// [Start] returns the first client, whose connection is the final one: the daemon ends with it.
// [Client.Connect] returns further ones. Both exist within a bubble.
type Client struct {
	*actortest.Client
	T            testing.TB
	Config       *actors.Config
	Watch        *actortest.Watch
	Models       *actortest.Models
	Disk         *actortest.Disk
	Window       *link.Window
	stdio        conn.Stdio
	Daemon       *actors.Daemon
	Connection   *actors.Connection // of a further client; nil for the first one
	Peers        int                // number of the last further client
	StopRequests chan actors.Stop   // stops the daemon; see [actors.Daemon.Stop]
	Done         chan error         // receives the result of the first connection when the daemon has ended
	Err          error              // the result of the first connection, after [Client.Wait]
	over         bool

	answered map[string]int // number of dialogs answered, by session
}

// Bubble runs a test in fake time, in parallel with others.
func Bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

// Start starts a daemon on an empty disk and returns its first client.
func Start(t testing.TB, changes ...func(*actors.Config)) *Client {
	return StartWrapped(t, func(s conn.Stdio) conn.Stdio { return s }, changes...)
}

// StartWrapped is [Start] with a wrapper around the transport of the first client.
func StartWrapped(t testing.TB, change func(conn.Stdio) conn.Stdio, changes ...func(*actors.Config)) *Client {
	h := &actortest.History{}
	c := newClient(t, nil, h, actortest.NewDisk(), actortest.NewModels(), changes...)
	c.stdio = change(c.stdio)
	c.begin()
	return c
}

// StartWith starts a daemon with an existing history, disk and models, as after a restart. A nil
// schedule leaves the interleaving of actors to the runtime.
func StartWith(t testing.TB, schedule *actortest.Schedule, h *actortest.History, disk *actortest.Disk, models *actortest.Models, changes ...func(*actors.Config)) *Client {
	c := newClient(t, schedule, h, disk, models, changes...)
	c.begin()
	return c
}

func (c *Client) begin() {
	c.Daemon = actors.Start(c.Config)
	of := c.Config.Conn
	of.Final = true
	of.OnWindow = func(w *link.Window) { c.Window = w }
	first := c.Daemon.Connect(of, c.stdio)
	ended := make(chan struct{})
	go func() {
		c.Daemon.Wait()
		close(ended)
	}()
	go func() {
		for {
			select {
			case how := <-c.StopRequests:
				c.Daemon.Stop(how)
			case <-ended:
				c.Done <- first.Wait()
				return
			}
		}
	}()
	c.T.Cleanup(c.Abandon)
}

// fastRetries are the settings of a default session.
const fastRetries = `{"retry":{"enabled":true,"maxRetries":3,"baseDelayMs":2000}}`

func newClient(t testing.TB, schedule *actortest.Schedule, h *actortest.History, disk *actortest.Disk, models *actortest.Models, changes ...func(*actors.Config)) *Client {
	h.Add(actortest.Life, "")
	c := &Client{
		Client: actortest.NewClient(h), T: t, Watch: actortest.NewWatch(h), Models: models, Disk: disk,
		StopRequests: make(chan actors.Stop, 4), Done: make(chan error, 1),
		answered: map[string]int{},
	}
	c.stdio = conn.Stdio{In: c.In(), Out: c.Out()}
	c.Config = &actors.Config{
		Log: zerolog.New(historyLog{h}), Observe: c.Watch.Observe, Epoch: "e", Conn: conn.Config{Codec: pi.Codec{}, Drain: true},
	}
	c.Config.Sessions = session.NewShared(session.Config{
		Version: "test", AgentDir: EmptyDir, SessionDir: "/sessions", Home: EmptyDir, Consent: config.Refused,
		NoContext: true, NoPrompts: true, NoSkills: true,
		Env: func(string) string { return "" }, Environ: []string{"PATH=/bin:/usr/bin", "ACME_KEY=hunter2"},
		Tools: actortest.Tools(h), Files: new(tools.Files), Guard: tools.NewGuard(), Models: models,
		Exec: actortest.Exec, FS: disk.FS(),
	}, c.Config.Log)
	c.Config.Sessions.Default = link.OpenSpec{Cwd: EmptyDir, Provider: "acme", Model: "plain", Tools: actortest.ToolNames, Settings: []byte(fastRetries)}
	for _, change := range changes {
		change(c.Config)
	}
	if c.Schedule = schedule; schedule != nil {
		c.Config.Dispatcher = schedule
	}
	return c
}

// Abandon ends the daemon without judging it. It runs after every test: all goroutines of a bubble
// have to end, also after a failure.
func (c *Client) Abandon() {
	c.Config.Faults.Release()
	c.Break()
	c.Close()
	if !c.over {
		c.over = true
		c.Err = <-c.Done
	}
	time.Sleep(2 * time.Second) // protoactor's throttle of dead letters sleeps for one
}

// Advance lets time pass, and then waits until no actor has a message left.
func (c *Client) Advance(d time.Duration) {
	time.Sleep(d)
	c.Settle()
}

// End closes the input and waits for the daemon to end.
func (c *Client) End() {
	c.T.Helper()
	c.Close()
	c.Wait()
}

// Wait waits for the daemon to end and records its result in the history.
func (c *Client) Wait() {
	c.T.Helper()
	if c.over {
		return
	}
	c.over = true
	c.Err = <-c.Done
	c.Settle()
	if c.Err == nil {
		c.History.Add(actortest.End, "")
	} else {
		c.History.Add(actortest.Killed, c.Err.Error())
	}
}

// EndWithin is [Client.End] with a limit for the time that it may take.
func (c *Client) EndWithin(limit time.Duration) {
	c.T.Helper()
	began := time.Now()
	c.End()
	require.LessOrEqual(c.T, time.Since(began), limit)
}
