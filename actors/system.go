package actors

import (
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/failpoint"
	"troupe/protocol"
	"troupe/providers"
	"troupe/store"
	"troupe/store/resource"
	"troupe/tools"
)

// Config is what the daemon is told at the start. It does not change.
type Config struct {
	Log     zerolog.Logger
	Version string
	Epoch   string // names this process's life

	In  io.Reader // commands
	Out io.Writer // responses and events

	Dialect      protocol.Dialect
	Features     []string
	MultiSession bool     // no default session
	Default      OpenSpec // the default session, and what open_session starts from
	MaxLine      int      // bytes of one input line, 0 for protocol.DefaultMaxLine
	MaxOutput    int      // bytes that may wait for a slow client, 0 for protocol.DefaultMaxOutput
	MaxSessions  int      // open at once, 0 for protocol.DefaultMaxSessions

	Unwatched  bool          // nobody follows the events while they come
	Drain      bool          // at the end of input, let runs finish; else abort them
	ParkAfter  time.Duration // of idleness, 0 for never
	DrainLimit time.Duration // for how long, 0 for DefaultDrainLimit
	AbortLimit time.Duration // to stop what is aborted, 0 for DefaultAbortLimit

	// GiveBack returns memory to the system that is not needed any more, since
	// the runtime is in no hurry to. It is called, on a goroutine of its own,
	// a moment after sessions were parked. Nil is for tests.
	GiveBack func()

	AgentDir      string           // pi's agent directory: sessions, settings, resources
	SessionDir    string           // --session-dir
	Home          string           // for ~
	Consent       resource.Consent // --approve, --no-approve
	NoContext     bool             // read no AGENTS.md
	Prompts       []string
	Skills        []string
	NoPrompts     bool
	NoSkills      bool
	ModelPatterns []string // --models
	Confirm       []string // tools that run only after the client confirmed
	Durability    string   // process or sync

	Env     func(name string) string
	Environ []string // of child processes, before secrets are taken out
	Tools   *tools.Registry
	Files   *tools.Files
	Guard   *tools.Guard
	Models  Models
	Exec    Exec // runs the client's bash commands; tools.Exec if nil
	Faults  *failpoint.Plan
	FS      store.FS                 // where session files are; store.OS if nil
	Observe func(*actor.ActorSystem) // for tests: sees the actor system before anything runs
	Mailbox actor.MailboxProducer    // for tests: decides who handles its next message; nil leaves it to the runtime

	onWindow func(*window) // for tests: sees a connection's window before anything runs
	onLife   func(*life)   // for tests: sees what a session is made of

	crew      *crew        // runs the mailboxes
	said      sync.Map     // problems that have been named on stderr
	saidCount atomic.Int32 // how many they are
	used      sync.Map     // providers in use, see environ.go
	listed    sync.Once
	lists     *store.Lister
}

// lister finds sessions on disk; all sessions of the process share what it
// remembers of their files.
func (c *Config) lister() *store.Lister {
	c.listed.Do(func() { c.lists = store.NewLister(c.fs()) })
	return c.lists
}

// Defaults of Config.
const (
	DefaultDrainLimit = 10 * time.Minute
	DefaultAbortLimit = 5 * time.Second
)

// Models is what sessions need of the providers.
type Models interface {
	// Catalog is what can be selected at this moment. Problems with the
	// configuration of models are reported beside a catalogue that leaves out
	// what is broken.
	Catalog() (*protocol.Catalog, error)
	// Secrets are the environment variables that hold keys: of providers that
	// are used, and what the files of the user name.
	Secrets(used func(provider string) bool) map[string]bool
	// Stream asks a model; see providers.Provider.
	Stream(ctx context.Context, req providers.Request) iter.Seq2[protocol.Part, error]
}

// Exec runs a command in a shell; see tools.Exec.
type Exec func(context.Context, tools.ExecSpec) (tools.ExecResult, error)

// Stop asks a running daemon to end.
type Stop struct{ Abort bool }

var (
	errFlushTimeout     = errors.New("the client did not read to the end")
	errConnectionBroken = errors.New("internal error: the connection broke")
)

func (c *Config) withDefaults() {
	orInt := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	orTime := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	orInt(&c.MaxLine, protocol.DefaultMaxLine)
	orInt(&c.MaxOutput, protocol.DefaultMaxOutput)
	orInt(&c.MaxSessions, protocol.DefaultMaxSessions)
	orTime(&c.DrainLimit, DefaultDrainLimit)
	orTime(&c.AbortLimit, DefaultAbortLimit)
	if c.Dialect == "" {
		c.Dialect = protocol.DialectUnion
	}
	if c.Exec == nil {
		c.Exec = tools.Exec
	}
	if c.Faults == nil {
		c.Faults = failpoint.FromEnv()
	}
}

// fs is where session files are.
func (c *Config) fs() store.FS {
	if c.FS == nil {
		return store.OS{}
	}
	return c.FS
}

// mailboxes says what delivers messages to an actor.
func (c *Config) mailboxes() []actor.PropsOption {
	if c.Mailbox != nil {
		return []actor.PropsOption{actor.WithMailbox(c.Mailbox)}
	}
	return []actor.PropsOption{actor.WithDispatcher(c.crew)}
}

// lead is nil where somebody else decides who handles its next message.
func (c *Config) lead() *lead {
	if c.Mailbox != nil {
		return nil
	}
	return &c.crew.lead
}

// props describes an actor that is not a session: supervised so that its
// children's crashes stop them, and open to injected faults.
func (c *Config) props(produce actor.Producer, name string) *actor.Props {
	options := append(c.mailboxes(), actor.WithSupervisor(stopWorkers))
	if c.Faults != nil {
		options = append(options, actor.WithReceiverMiddleware(c.Faults.Middleware(name)))
	}
	return actor.PropsFromProducer(produce, options...)
}

// Run serves one connection until its input ends or stop says so, and returns
// when everything that was accepted has been answered and written, and every
// child process is gone. The error says why output was cut short.
func Run(cfg *Config, stop <-chan Stop) error {
	cfg.withDefaults()
	cfg.crew = newCrew()
	defer cfg.crew.dismiss()
	sys := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(zerolog.NewSlogHandler(cfg.Log.Level(max(cfg.Log.GetLevel(), zerolog.WarnLevel))))
	}))
	if cfg.Observe != nil {
		cfg.Observe(sys)
	}
	root := sys.Root
	all := &sessions{cfg: cfg}
	parent := root.Spawn(cfg.survivors(all, "sessions", all.mend).
		Configure(actor.WithSupervisor(actor.NewRestartingStrategy()), actor.WithGuardian(stopWorkers)))
	done := make(chan error, 1)
	k := &conn{cfg: cfg, log: cfg.Log, sessions: parent, seq: new(uint64), done: done}
	conn := root.SpawnPrefix(cfg.survivors(k, "conn", again).
		Configure(actor.WithGuardian(stopWorkers)), "conn")
	err := wait(root, conn, done, stop)
	for _, pid := range []*actor.PID{conn, parent} {
		poison(root, pid)
	}
	cfg.Guard.Close()
	return err
}

func wait(root *actor.RootContext, conn *actor.PID, done <-chan error, stop <-chan Stop) error {
	for {
		select {
		case err := <-done:
			return err
		case s := <-stop:
			root.Send(conn, shutdown{abort: s.Abort})
		}
	}
}

// poison ends an actor and its children, behind whatever they have been told.
func poison(root *actor.RootContext, pid *actor.PID) {
	if err := root.PoisonFuture(pid).Wait(); err != nil {
		root.Logger().Warn("actor did not end", slog.String("actor", pid.Id), slog.Any("error", err))
	}
}
