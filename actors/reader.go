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
	in      io.Reader
	max     int
	router  *actor.PID
	credits credits
	lead    *lead // nil leaves what a line sets off to others
	faults  *failpoint.Plan
	stop    chan struct{}
}

// credits bounds how many lines are under way between the reader and the
// sessions, so that a client cannot fill the memory with commands. A credit is
// taken for a line, and another for every 64 KiB of it, and given back when the
// command reaches its handler, not when it is answered: a long command never
// stops the reading.
type credits chan struct{}

const (
	lineCredits = 4096
	creditBytes = 64 << 10
)

func newCredits() credits { return make(credits, lineCredits) }

// credit is what was taken for one line.
type credit struct {
	of credits
	n  int
}

// creditFor is what a line of so many bytes takes: never more than there is.
func (c credits) creditFor(size int) credit {
	return credit{c, min(1+size/creditBytes, cap(c))}
}

// take takes it, false if that was stopped.
func (c credit) take(stop <-chan struct{}) bool {
	for range c.n {
		select {
		case c.of <- struct{}{}:
			continue
		default: // to wait for two things costs more than to try one
		}
		select {
		case c.of <- struct{}{}:
		case <-stop:
			return false
		}
	}
	return true
}

func (c credit) giveBack() {
	for range c.n {
		select {
		case <-c.of:
		default: // given back by a handler that crashed after all
		}
	}
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
	var text []byte
	tell := func() { // made once
		m := line{text}
		text = nil // who waits for the next line does not keep this one
		root.Send(r.router, m)
	}
	relief := func() { go r.read(root, self, lines, stop) }
	for {
		bytes, err := lines.Next()
		tooLong := asTooLong(err)
		if (err == nil || tooLong != nil) && !r.credits.creditFor(len(bytes)).take(stop) {
			return
		}
		select {
		case <-stop:
			return
		default:
		}
		switch {
		case err == nil:
			r.faults.Hit(self.Id, "Line")
			text = bytes
			if r.lead == nil || lines.Buffered() {
				tell()
			} else if !r.lead.follow(tell, relief) {
				return
			}
		case tooLong != nil:
			root.Send(r.router, lineTooLong{tooLong})
		default:
			root.Send(r.router, inputClosed{err})
			return
		}
	}
}
