package actors

import (
	"errors"
	"io"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/failpoint"
	"troupe/protocol"
)

// reader cuts a connection's input into lines for the router. The blocking
// read is a goroutine of its own. It cannot always be woken from a read of
// stdin, so at shutdown it is abandoned: it holds nothing but the stream.
type reader struct {
	in     io.Reader
	max    int
	router *actor.PID
	window *window
	lead   *lead // nil leaves what a line sets off to others
	faults *failpoint.Plan
	stop   chan struct{}
}

func (r *reader) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		r.stop = make(chan struct{})
		go r.read(c.ActorSystem().Root, c.Self(), protocol.NewLineReader(r.in, r.max), r.stop)
	case crashed:
		panic(m.reason)
	case *actor.Stopping:
		close(r.stop)
	}
}

// asTooLong is nil for any other error.
func asTooLong(err error) (e *protocol.LineTooLongError) {
	if err != nil {
		e, _ = errors.AsType[*protocol.LineTooLongError](err)
	}
	return e
}

func (r *reader) read(root *actor.RootContext, self *actor.PID, lines *protocol.LineReader, stop chan struct{}) {
	defer func() {
		if reason := recover(); reason != nil {
			root.Send(self, crashed{reason})
		}
	}()
	var next line
	tell := func() { // made once
		m := next
		next = line{} // who waits for the next line does not keep this one
		root.Send(r.router, m)
	}
	relief := func() { go r.read(root, self, lines, stop) }
	for {
		bytes, err := lines.Next()
		tooLong := asTooLong(err)
		var cost credit
		if err == nil || tooLong != nil {
			var ok bool
			if cost, ok = r.window.admit(len(bytes), stop); !ok {
				return
			}
		}
		select {
		case <-stop:
			return
		default:
		}
		switch {
		case err == nil:
			r.faults.Hit(self.Id, "Line")
			next = line{bytes, cost}
			if r.lead == nil || lines.Buffered() {
				tell()
			} else if !r.lead.follow(tell, relief) {
				return
			}
		case tooLong != nil:
			root.Send(r.router, lineTooLong{tooLong, cost})
		default:
			root.Send(r.router, inputClosed{err})
			return
		}
	}
}
