package conn

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/link"
	"troupe/protocol"
)

// Lines: reader → router.
type (
	// line is one input line; its bytes belong to the receiver.
	line struct {
		bytes  []byte
		credit link.Credit // to give back when the command reaches its handler
	}
	// call is a request of a client in this process.
	call struct {
		request protocol.Request
		credit  link.Credit
	}
	// lineTooLong is a frame above the limit; it has been read over.
	lineTooLong struct {
		err    protocol.FrameError
		credit link.Credit
	}
	// inputClosed is the end of input, for whatever reason.
	inputClosed struct{ err error }
)

type (
	// flush asks for flushed once everything before it is written.
	flush struct{}
	// flushed says so, or that writing is no longer possible.
	flushed struct{ err error }
	// setWire says how the client wants to be written to.
	setWire struct{ wire protocol.Wire }
	// hearsNothing says that the client is to hear no event with a tag before it attaches again.
	hearsNothing struct{ tag string }
	// hurry says that the daemon ends: a client that stops reading is not waited for.
	hurry struct{}
	// stalled says that a write may have taken longer than [ReadLimit].
	stalled struct{ write uint64 }
	// wrote is the writer's goroutine reporting back.
	wrote struct{ err error }
	// ending tells a connection that its router has begun to close.
	ending struct{ abort bool }
	// clientLost tells a router that its client can say nothing more, and if it
	// is deaf hear nothing, either.
	clientLost struct{ deaf bool }
	// drained says that a router's sessions have ended or let its client go.
	drained struct{}
	// outputFailed says that the client cannot be written to any more.
	outputFailed struct{ err error }
	// replaced says that a newer connection of the client is there.
	replaced struct{}
	// lateFlush says that the client has taken too long to read what was left.
	lateFlush struct{}
)

// A connection and its parent.
type (
	// Shutdown tells a connection to end. Limit is how long its sessions may take for that;
	// GoesOn is that of [link.Leave].
	Shutdown struct {
		Abort, GoesOn bool
		Limit         time.Duration
	}
	// Cut tells a connection that its sessions are not waited for any more; the
	// second one that its client is not, either.
	Cut struct{}
	// Ending says that a connection has begun to end, or ends more strictly. Its
	// client says no more, or reads no more if Abort.
	Ending struct {
		Who   *actor.PID
		Abort bool
	}
	// Ended says that a connection has ended and needs nobody any more. Err says
	// why its output was cut short, nil after an orderly end.
	Ended struct {
		Who *actor.PID
		Err error
	}
)
