package conn

import (
	"cmp"
	"errors"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/kernel"
	"troupe/actors/link"
	"troupe/actors/relay"
	"troupe/protocol"
)

// Config is what a connection is told at the start. It does not change.
type Config struct {
	Codec        protocol.Codec   // what a client speaks that is connected by bytes
	Dialect      protocol.Dialect // the union if empty
	Features     []string
	MultiSession bool          // no default session
	Default      link.OpenSpec // the default session, and what open_session starts from
	MaxLine      int           // bytes of one input line, 0 for protocol.DefaultMaxLine
	MaxOutput    int           // bytes that may wait for a slow client, 0 for protocol.DefaultMaxOutput

	// Lag is how many bytes of events may wait for the client, beside one record, before they are dropped
	// and it is told to resync; 0 for never: sessions wait until it has read. No session
	// waits for a client that has a limit here.
	Lag int

	Rights // of the client

	Drain bool // at the end of input, let runs finish; else abort them
	Final bool // the process ends with this connection

	OnWindow func(*link.Window) // for tests: sees the connection's window before anything runs
}

// Rights say what a client may do; the zero value is everything.
type Rights struct {
	ViewOnly bool        // it may look, and changes nothing
	Logins   LoginRights // what it may do about credentials
	// Retain keeps the sessions that it opens when nobody listens to them any more, where it
	// does not say otherwise; not its default session.
	Retain bool
	// Single is of a client that has one such connection at a time: a newer one takes the place
	// of an older one of the same clientId.
	Single bool
	Peer   bool // it is one of another node, which leads its lines here: they go no further
	// Device is that of the client's credential, for logs; "" for none.
	Device string
	// Allowed says which files it may name, by absolute paths; nil is all.
	Allowed func(path string) bool
}

// LoginRights say what a client may do about credentials, beyond asking how they stand.
type LoginRights uint8

// The rights there are.
const (
	LoginsHere LoginRights = iota // all: the client's person has this machine
	LoginsNone                    // nothing
	LoginsAfar                    // sign in and out, but nothing listens here for a browser, and no key is taken
)

// Server is what the connections of a process have in common.
type Server struct {
	Version, Epoch string // of the program, and of this process's life, as clients are told
	MaxSessions    int    // likewise
	RingBytes      int    // likewise
	Home           string // the user's, for paths with ~
	Sessions       *actor.PID
	Logins         *actor.PID // nil: there are no credentials to ask about
	Seq            *link.Seq
	Ledgers        *link.Ledgers
	Cluster        *relay.Shared // nil for a node that is alone

	lossy atomic.Int64 // connections for which no session waits
}

// FlushLimit is how long a client may take to read what is left, when nothing
// more comes.
const FlushLimit = 10 * time.Minute

// ReadLimit is how long one write may take while the daemon ends. A client that reads nothing
// for so long is cut off, so that neither the sessions that it shares with others nor the end
// of the daemon wait for it. The only client of a process has [FlushLimit].
const ReadLimit = 700 * time.Millisecond

var (
	// ErrUnread ends a connection whose client did not read the remaining output.
	ErrUnread           = errors.New("the client did not read to the end")
	ErrConnectionBroken = errors.New("internal error: the connection broke")
	// ErrReplaced ends a connection that is [Rights.Single].
	ErrReplaced = errors.New("another connection of this client has taken its place")
)

// Props describes the actor of a connection. It tells its parent when it begins
// to end, as [Ending], and when it has ended, as [Ended].
func Props(k *kernel.Kernel, server *Server, cfg Config, t Transport) *actor.Props {
	cfg.Dialect = cmp.Or(cfg.Dialect, protocol.DialectUnion)
	cfg.MaxLine = cfg.LongestLine()
	cfg.MaxOutput = cmp.Or(cfg.MaxOutput, protocol.DefaultMaxOutput)
	c := &conn{kernel: k, server: server, cfg: cfg, transport: t}
	return k.KeepAlive(c, "conn", kernel.RetryMessage)
}

// LongestLine is how many bytes a line of input may have.
func (c *Config) LongestLine() int { return cmp.Or(c.MaxLine, protocol.DefaultMaxLine) }
