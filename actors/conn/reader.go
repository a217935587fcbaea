package conn

import (
	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/failpoint"
	"troupe/actors/kernel"
	"troupe/actors/link"
	"troupe/protocol"
)

// reader cuts a connection's input into lines for the router. The blocking
// read is a goroutine of its own. It cannot always be woken from a read of
// stdin, so at shutdown it is abandoned: it holds nothing but the stream.
type reader struct {
	lines  protocol.Frames
	name   string // in fault plans
	router *actor.PID
	window *link.Window
	runs   kernel.Dispatcher
	faults *failpoint.Plan
	stop   chan struct{}
}

func (r *reader) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		r.stop = make(chan struct{})
		root, self, stop := c.ActorSystem().Root, c.Self(), r.stop
		kernel.Go(root, self, func() { r.read(root, self, stop) })
	case kernel.Crashed:
		panic(m.Reason)
	case *actor.Stopping:
		close(r.stop)
	}
}

func (r *reader) read(root *actor.RootContext, self *actor.PID, stop chan struct{}) {
	var next line
	tell := func() { // made once
		m := next
		next = line{} // who waits for the next line does not keep this one
		root.Send(r.router, m)
	}
	takeOver := func() { kernel.Go(root, self, func() { r.read(root, self, stop) }) }
	for {
		bytes, err := r.lines.Next()
		bad, _ := err.(protocol.FrameError)
		var cost link.Credit
		if err == nil || bad != nil {
			var ok bool
			if cost, ok = r.window.Admit(len(bytes), stop); !ok {
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
			r.faults.Hit(r.name, "Line")
			next = line{bytes, cost}
			if r.lines.Buffered() {
				tell()
			} else if !r.runs.Inline(tell, takeOver) {
				return
			}
		case bad != nil:
			root.Send(r.router, lineTooLong{bad, cost})
		default:
			root.Send(r.router, inputClosed{err})
			return
		}
	}
}
