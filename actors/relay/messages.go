package relay

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/cluster"
	"troupe/actors/link"
	"troupe/protocol"
)

// Members is what a relay has to know of the cluster. Its calls may take as long as the
// engine does, and are not made by actors.
type Members interface {
	Self() string
	// Where is the node to which lines for a session go now: its owner, or where it belongs.
	// It may be Self, which is then to claim it.
	Where(ctx context.Context, id cluster.SessionID) (cluster.Node, error)
	// Place is the node on which a new session belongs.
	Place(id cluster.SessionID, want cluster.Wants) (cluster.Node, error)
	// Seen is all nodes of which anything was heard, and this one.
	Seen() []cluster.Seen
	// Drains notes that a node has said that it takes no sessions any more.
	Drains(n cluster.Node)
}

// Shared is what the relays of a node have in common.
type Shared struct {
	Members Members
	Dial    cluster.Forwarder
	Wait    time.Duration // how long a line waits for a session that no node has; 0 for DefaultWait
	Log     zerolog.Logger
	Roots   map[string]cluster.Root                                                // of this node
	Held    func(ctx context.Context, id string, byHandle bool) (link.Held, error) // what the log of a session says; nil if nothing can be asked
	Metrics *cluster.Metrics                                                       // nil counts nothing
	Stops   bool                                                                   // a run that was cut off with its node does not go on
	Drain   func()                                                                 // ends this node; nil where nobody can ask for that
}

// DefaultWait is longer than a cluster takes to notice that a node is lost.
const DefaultWait = 10 * time.Second

// What a router tells its relay.
type (
	// Begin says who the router is.
	Begin struct{ Router *actor.PID }
	// Command is a line for a session that is not here.
	Command struct {
		Session string   // its id, which is its handle on every node
		Opens   *Opening // of an open_session: what makes the session; nil for any other command
		Request protocol.Request
		Line    []byte // without its line end
		Named   bool   // the client has named itself, so that what comes again does nothing twice
		Credit  link.Credit
		Known   bool // see [link.Request]
		Begun   bool // see [link.Request]
	}
	// Opening is a session that is to be made. Path is its directory as it is called here; "" if
	// it was named in a way that all nodes understand.
	Opening struct {
		Wants cluster.Wants
		Path  string
	}
	// Follow is a session that the client has used here, and that has moved away.
	Follow struct {
		Session string
		Default bool // it is the client's default session, whose records have no name, nor do commands for it
		Hears   bool
		Viewer  bool
		New     bool             // it was not open here: that it is elsewhere is no news
		Why     string           // as of [protocol.SessionMoved]
		Ends    []protocol.Event // of what the client was told has begun
		Owed    bool             // as of [link.Moved]
		Asked   []protocol.Event // likewise
	}
	// Find asks whether a session is open on another node, by its own id or its handle. The answer is a Found.
	Find struct {
		Key      string
		ID       string
		ByHandle bool
	}
	// Hello is how the client wants to be written to, and what it has said of itself.
	Hello struct{ Client link.Client }
	// List asks every other node which sessions are open there. The answer is a Listed.
	List struct{ Seq uint64 }
	// Watch says that the client is told of every session of the cluster, from the next List on, or no more.
	// What changes the router hears as [link.SessionChanged].
	Watch struct{ Off bool }
)

// What a relay tells its router.
type (
	// Here says that a session belongs on this node: it is to be claimed, and is to have the
	// commands.
	Here struct {
		Session  string
		Hears    bool
		Viewer   bool
		Behind   bool // the client hears no event before it attaches again
		Works    bool // it has seen work begin, and waits for the end of that
		Commands []Command
	}
	// Read says that a command asks about a session that no node can have, which its log answers.
	Read struct{ Command }
	// Named says that a session that was to be made has another handle than it was thought.
	Named struct{ Was, Is string }
	// Found is how a session is called on all nodes; its handle is "" if no other node has it open, as far as is known.
	Found struct {
		Key    string
		Handle string
		Node   string          // that has it, or is about to; "" for this one, or one that is yet to take it
		Err    *protocol.Error // the engine cannot be asked
	}
	// Gone says that a session is none of this relay's any more.
	Gone struct{ Session string }
	// Listed is what the other nodes have said.
	Listed struct {
		Seq      uint64
		Sessions []protocol.OpenSessionInfo
	}
	// Unwatched says that a node tells nothing of its sessions any more.
	Unwatched struct{ Node string }
)

// What goroutines tell their relay.
type (
	// located says where a session is.
	located struct {
		session string
		look    uint64
		node    cluster.Node
		err     error
	}
	// lookAgain says that it is time to.
	lookAgain struct {
		session string
		look    uint64
	}
	// connected says that there is a wire to a node.
	connected struct {
		node string
		life uint64
		conn cluster.Conn
		err  error
	}
	// heard is lines of a node.
	heard struct {
		node    string
		life    uint64
		lines   []byte
		receipt *link.Receipt // to be told when they are written, or will never be
	}
	// lost says that a wire has ended.
	lost struct {
		node string
		life uint64
		err  error
	}
	// watch says that it is time to see whether the nodes live to which there are wires.
	watch struct{}
	// reclaimed says where a session is whose node has not been heard of.
	reclaimed struct {
		session string
		life    uint64 // of the wire
		node    cluster.Node
		err     error
	}
	// listLate says that who has not said by now what is open there is not waited for.
	listLate struct{ seq uint64 }
)
