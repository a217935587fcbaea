package actors

import (
	"cmp"
	"errors"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/conn"
	"troupe/actors/failpoint"
	"troupe/actors/kernel"
	"troupe/actors/link"
	"troupe/actors/relay"
	"troupe/actors/session"
)

// Config is what the daemon is told at the start.
type Config struct {
	Log      zerolog.Logger
	Epoch    string          // names this process's life to clients
	Sessions *session.Shared // what all sessions have in common
	Conn     conn.Config     // the connection that Run serves

	Relay *relay.Shared // the way to sessions of other nodes; nil for a daemon that is alone

	DrainLimit time.Duration // for runs to finish at the end, 0 for DefaultDrainLimit
	AbortLimit time.Duration // to stop what is aborted, 0 for DefaultAbortLimit

	Faults  *failpoint.Plan
	Observe func(*actor.ActorSystem) // for tests: sees the actor system before anything runs

	Dispatcher kernel.Dispatcher // decides who handles its next message; nil is that of production
}

// Defaults of Config.
const (
	DefaultDrainLimit = 10 * time.Minute
	DefaultAbortLimit = 5 * time.Second
)

// ErrStopped is the end of a connection to a daemon that has ended.
var ErrStopped = errors.New("the daemon has stopped")

// Stop asks a running daemon to end.
type Stop struct{ Abort bool }

// Daemon is what runs in one process: sessions, and any number of connections to
// them. Connections come and go; sessions end with their last client, unless
// they are to be retained.
type Daemon struct {
	cfg    *Config
	kernel *kernel.Kernel
	root   *actor.RootContext
	pid    *actor.PID    // of its supervisor
	over   chan struct{} // closed when everything has ended
}

// Start starts a daemon without a connection.
func Start(cfg *Config) *Daemon {
	k := &kernel.Kernel{Log: cfg.Log, Faults: cfg.Faults, Dispatcher: cfg.Dispatcher}
	if k.Faults == nil {
		k.Faults = failpoint.FromEnv()
	}
	if k.Dispatcher == nil {
		k.Dispatcher = kernel.New()
	}
	sys := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(zerolog.NewSlogHandler(cfg.Log.Level(max(cfg.Log.GetLevel(), zerolog.WarnLevel))))
	}))
	if cfg.Observe != nil {
		cfg.Observe(sys)
	}
	d := &Daemon{cfg: cfg, kernel: k, root: sys.Root, over: make(chan struct{})}
	cfg.Sessions.Epoch = cfg.Epoch
	s := &supervisor{
		kernel: k, log: cfg.Log, shared: cfg.Sessions, over: d.over,
		server:     conn.Server{Version: cfg.Sessions.Version, Epoch: cfg.Epoch, Home: cfg.Sessions.Home, MaxSessions: cfg.Sessions.MaxSessions, RingBytes: cmp.Or(cfg.Sessions.RingBytes, session.DefaultRing), Seq: &cfg.Sessions.Seq, Ledgers: new(link.Ledgers), Cluster: cfg.Relay},
		drainLimit: cmp.Or(cfg.DrainLimit, DefaultDrainLimit), abortLimit: cmp.Or(cfg.AbortLimit, DefaultAbortLimit),
	}
	pid, err := d.root.SpawnNamed(k.KeepAlive(s, "daemon", kernel.RetryMessage).Configure(actor.WithGuardian(kernel.StopChildren)), "daemon")
	if err != nil {
		panic(err) // the first actor of a system has any name it likes
	}
	d.pid = pid
	return d
}

// Connection is one that a daemon has.
type Connection struct {
	daemon *Daemon
	done   chan struct{} // closed when it has ended
	err    error         // then
	pid    *actor.PID    // the supervisor's; nil until there is an actor
	final  bool
}

// Connect serves another client, from now on until either of them ends the
// connection. Of a connection that is final the daemon takes its leave, too.
func (d *Daemon) Connect(of conn.Config, t conn.Transport) *Connection {
	c := &Connection{daemon: d, done: make(chan struct{}), final: of.Final}
	select {
	case <-d.over:
		_ = t.Close() // of a connection that never was
	default:
		d.root.Send(d.pid, connect{c, of, t})
	}
	return c
}

// Dial makes a client in this process: what it says and hears are values.
func (d *Daemon) Dial(of conn.Config) *conn.Client {
	client := conn.NewClient()
	d.Connect(of, client.Transport())
	return client
}

// Wait returns when the connection has ended: nil after an orderly end, when
// everything that was accepted has been answered and written, else why output
// was cut short.
func (c *Connection) Wait() error {
	select {
	case <-c.done:
	case <-c.daemon.over:
		select {
		case <-c.done: // first
		default:
			return ErrStopped
		}
	}
	return c.err
}

// Stop begins the end of the daemon, or ends it more strictly: it takes no
// further command and connection, its runs finish or are aborted, what they have
// to say is written. [Daemon.Wait] says when that is done.
func (d *Daemon) Stop(how Stop) { d.root.Send(d.pid, how) }

// Wait returns when the daemon has ended, after [Daemon.Stop] or with its final
// connection, and every child process is gone. It has to be called once.
func (d *Daemon) Wait() {
	<-d.over
	if err := d.root.PoisonFuture(d.pid).Wait(); err != nil {
		d.root.Logger().Warn("actor did not end", slog.String("actor", d.pid.Id), slog.Any("error", err))
	}
	d.cfg.Sessions.Close()
	if host := d.cfg.Sessions.ExtensionHost; host != nil { // first: to the guard it is a process that was left behind
		if err := host.Close(); err != nil {
			d.cfg.Log.Warn().Err(err).Msg("ending the extension host")
		}
	}
	if logins := d.cfg.Sessions.Logins; logins != nil { // before the guard, which would end who renews one for us
		logins.Close()
	}
	d.cfg.Sessions.Guard.Close()
	d.kernel.Dispatcher.Close()
}

// Run serves one client until its input ends or stop says so, and returns when
// the daemon has ended. The error is that of the connection.
func Run(cfg *Config, t conn.Transport, stop <-chan Stop) error {
	d := Start(cfg)
	of := cfg.Conn
	of.Final = true
	return d.runWith(d.Connect(of, t), stop)
}

// runWith runs the daemon until it ends.
func (d *Daemon) runWith(c *Connection, stop <-chan Stop) error {
	for {
		select {
		case s := <-stop:
			d.Stop(s)
		case <-d.over:
			d.Wait()
			return c.Wait()
		}
	}
}
