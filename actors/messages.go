package actors

import (
	"cmp"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/session"
	"troupe/protocol"
	"troupe/store"
)

// Lines: reader → router.
type (
	// line is one input line; its bytes belong to the receiver.
	line struct {
		bytes  []byte
		credit credit // to give back when the command reaches its handler
	}
	// lineTooLong is an input line above the limit; it has been read over.
	lineTooLong struct {
		err    *protocol.LineTooLongError
		credit credit
	}
	// inputClosed is the end of input, for whatever reason.
	inputClosed struct{ err error }
)

// client is where a session's answers and events go: a connection's writer,
// and the tag that its records carry there.
type client struct {
	writer *actor.PID
	router *actor.PID // is told when the session is gone
	window *window    // of the connection
	tag    string     // routing handle, "" for the connection's default session
	muted  bool       // detached: hears nothing but the end
}

// is says whether it is the same way to the same client.
func (cl client) is(other client) bool { return cl.writer.Equal(other.writer) && cl.tag == other.tag }

// known is false for the zero value.
func (cl client) known() bool { return cl.writer != nil }

// send debits records and tells the writer.
func (cl client) send(root *actor.RootContext, items ...item) {
	bytes := 0
	for i := range items {
		if items[i].size == 0 {
			items[i].size = recordSize + weight(items[i].response)
		}
		bytes += items[i].size
	}
	cl.window.take(bytes)
	root.Send(cl.writer, records{tag: cl.tag, items: items})
}

// request is a command on its way to a session, with where to answer.
type request struct {
	session.Command
	client client
	tag    string // the sessionId the client wrote, repeated in the answer
	credit credit // to give back when the command reaches its handler
}

// Output: anyone → writer.
type (
	// records are responses and events in the order they are to be written.
	records struct {
		tag   string
		items []item
	}
	// item is one of: an event, or a response. Its size is what was debited for it.
	item struct {
		event    protocol.Event
		response *protocol.Response
		size     int
		merged   []byte   // the deltas of event and of those merged into it, nil if it is alone
		receipt  *receipt // told when it is written; nil for nobody
	}
	// forget says that a session is gone: nothing more will come with its tag.
	forget struct{ tag string }
	// setGates tells the writer how the client wants to be written to.
	setGates struct{ gates protocol.Gates }
	// flush asks for flushed once everything before it is written.
	flush struct{}
	// flushed says so, or that writing is no longer possible.
	flushed struct{ err error }
	// wrote is the writer's goroutine reporting back.
	wrote struct{ err error }
)

// Household: router, sessions, session and connection among themselves.
type (
	// spawnSession asks sessions for a session; sessionSpawned answers.
	spawnSession struct {
		spec   OpenSpec
		client client
		key    string // the router's, to tell its requests apart
		gates  protocol.Gates
	}
	sessionSpawned struct {
		key    string
		handle string
		pid    *actor.PID
		err    *protocol.Error
	}
	// closing asks a session to end; closed says that it has.
	closing struct {
		abort bool
		deaf  bool   // the client can answer nothing any more
		seq   uint64 // the close_session command to answer, 0 for none
	}
	closed struct {
		handle string
		tell   []*actor.PID // the routers: behind the sessionSpawned that they may still have to get
		last   []lastWord
	}
	// lastWord is the answer to a close_session. The router of who asked writes
	// it, when it routes nothing to the session any more: what a client sends
	// after it has read the answer finds no session.
	lastWord struct {
		to       client
		response *protocol.Response
	}
	// farewell is a router's answer to closed: it sends the session nothing
	// more, so what it sent before has been answered when the session ends.
	farewell struct{}
	// status is what a session tells its parent about itself, for
	// list_open_sessions.
	status struct {
		handle string
		info   protocol.OpenSessionInfo
	}
	// listOpen asks sessions for the live sessions; openList answers.
	listOpen struct {
		seq  uint64
		from *actor.PID
	}
	openList struct {
		seq      uint64
		sessions []protocol.OpenSessionInfo
	}
	// shutdown tells a connection that the process is to end.
	shutdown struct{ abort bool }
	// ending tells a connection that its router has begun to close.
	ending struct{ abort bool }
	// drained says that a router's sessions are gone.
	drained struct{}
	// outputFailed says that the client cannot be written to any more.
	outputFailed struct{ err error }
	// deadline is a timer of a connection.
	deadline struct{ abort bool }
	// crashed makes an actor panic on behalf of its goroutine.
	crashed struct{ reason any }
	// finished tells a worker actor that its goroutine has delivered its result.
	finished struct{}
)

// OpenSpec says what session to open.
type OpenSpec struct {
	Path   string     // an existing session file, "" for a new session
	Log    *store.Log // Path, opened already
	Cwd    string
	CwdSet bool // Cwd was asked for: it counts more than the one in the session file
	Memory bool // keep nothing on disk
	Name   string
	ID     string // of a new session, "" for a fresh one
	Parent string // path of the session file a new one comes from

	Provider, Model    string // "" leaves the choice to the configuration
	Level              protocol.ThinkingLevel
	Tools              []string // nil is the default set
	SystemPrompt       string
	AppendSystemPrompt string
	Settings           []byte // members of settings.json for this session only
	Retain             bool
}

// and is how to end when asked once more, perhaps more strictly.
func (m *closing) and(next closing) *closing {
	if m != nil {
		next.abort, next.deaf = next.abort || m.abort, next.deaf || m.deaf
		next.seq = cmp.Or(next.seq, m.seq)
	}
	return &next
}
