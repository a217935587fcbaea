package session

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/core"
	"troupe/actors/kernel"
	"troupe/actors/link"
	"troupe/actors/worker"
	"troupe/protocol"
)

// output is what a session does about clients that do not read; see [link.Window].
// Commands go on while the window is full, so that an abort stops a run; what
// waits is work that would only make more output.
type output struct {
	work        []any       // messages of workers, oldest first
	answers     []answer    // large answers, oldest first, and what comes behind them
	querying    int         // slow queries under way
	slowQueries []slowQuery // slow queries that wait, oldest first
	left        []func()    // closes logs that waiting answers are still to be read from
	flush       func()      // of clients, made when it is first put off
}

// answer is what waits until a client has read more: a large answer to it, or
// what it has said behind an end in order.
type answer struct {
	by   link.Client // whose turn it is; the zero value for an end that concerns all
	ends bool        // it ends the session: what its client says waits behind it
	do   func(actor.Context)
}

// slowQuery is a search that takes long, with all that it needs of the moment when
// it was asked for.
type slowQuery struct {
	seq  uint64
	by   link.Client
	find func() (protocol.Result, error)
}

// maxSlowQueries is how many slow queries of a session go on at once.
const maxSlowQueries = 2

// none says that nothing waits or is under way.
func (o *output) none() bool {
	return len(o.work)+len(o.answers)+len(o.slowQueries)+o.querying == 0
}

// awaitWindow makes sure that the session hears when workers can go on.
func (s *Session) awaitWindow(c actor.Context) {
	if cl := s.clients.full(); cl != nil {
		cl.Window.Tell(c.Self())
		return
	}
	c.Send(c.Self(), link.WindowOpen{}) // it has opened meanwhile, or its client has left
}

// fromWorker takes a message of a worker, or keeps it until the window is open. What
// one worker says stays in order.
func (s *Session) fromWorker(c actor.Context, m any) {
	if len(s.output.work) > 0 || s.clients.full() != nil {
		if s.output.work = append(s.output.work, m); len(s.output.work) == 1 {
			s.awaitWindow(c)
		}
		return
	}
	if s.worked(c, m); len(s.output.work) > 0 {
		s.awaitWindow(c)
	}
}

// worked handles a message of a worker. Of a batch of parts it handles no more
// than the window has room for: each may show a whole message.
func (s *Session) worked(c actor.Context, m any) {
	switch m := m.(type) {
	case worker.StreamParts:
		n := s.clients.fit(m.Parts)
		rest := m
		m.Parts, rest.Parts = m.Parts[:n], m.Parts[n:]
		s.step(c, m.StreamParts)
		if len(rest.Parts) == 0 {
			m.Tokens.Give()
		} else {
			s.output.work = append([]any{rest}, s.output.work...)
		}
	case worker.ToolProgress:
		s.step(c, m.ToolProgress)
		m.Tokens.Give()
	case childProgress:
		s.step(c, m.ChildProgress)
		m.Tokens.Give()
	case childHeard:
		s.onChildHeard(c, m)
	case worker.BashProgress:
		s.step(c, m.BashProgress)
		m.Tokens.Give()
	case core.WorkerGone:
		if m.Kind == core.WorkerUI {
			s.dismissDialogs(c)
		}
		s.step(c, m)
		if m.Kind == core.WorkerUI {
			s.dialogsLost() // the machine has ended its own
		}
	case core.Input:
		s.step(c, m)
	}
}

// onWindowOpen goes on with what has waited.
func (s *Session) onWindowOpen(c actor.Context) {
	s.nextSlowQuery(c)
	s.nextAnswers(c)
	for len(s.output.work) > 0 && s.clients.full() == nil && s.life.state != closed {
		m := s.output.work[0]
		if s.output.work = s.output.work[1:]; len(s.output.work) == 0 {
			s.output.work = nil
		}
		s.worked(c, m)
	}
	if len(s.output.work) > 0 && s.life.state != closed {
		s.awaitWindow(c)
	}
}

// nextAnswers makes the answers whose clients have read enough: those to one
// client in order, whatever another one does.
func (s *Session) nextAnswers(c actor.Context) {
	var held []link.Client
	for i := 0; i < len(s.output.answers) && s.life.state != closed; {
		next := s.output.answers[i]
		turn := func(cl link.Client) bool { return !cl.Known() || cl.Is(next.by) }
		switch {
		case !next.by.Known() && i > 0, slices.ContainsFunc(held, turn):
			held = append(held, next.by)
			i++
		case next.by.Known() && next.by.Window.Full():
			next.by.Window.Tell(c.Self())
			held = append(held, next.by)
			i++
		default:
			s.output.answers = slices.Delete(s.output.answers, i, i+1)
			next.do(c)
			s.clients.flush(c.ActorSystem().Root)
		}
	}
	if len(s.output.answers) == 0 {
		s.output.answers = nil
		s.output.closeLeft()
	}
}

// inTurn makes a large answer to a client, now or when the client has read enough.
func (s *Session) inTurn(c actor.Context, by link.Client, do func(actor.Context)) {
	if by.Known() && (by.Window.Full() || s.output.waitsBehind(by, true)) {
		s.later(c, answer{by: by, do: do})
	} else {
		do(c)
	}
}

// waitsBehind says whether something of a client waits, or nothing but an end if
// that is what counts. The zero value asks for all clients.
func (o *output) waitsBehind(by link.Client, anything bool) bool {
	return slices.ContainsFunc(o.answers, func(a answer) bool {
		return (anything || a.ends) && (!by.Known() || !a.by.Known() || a.by.Is(by))
	})
}

// later does what has to wait until a client has read more.
func (s *Session) later(c actor.Context, a answer) {
	s.output.answers = append(s.output.answers, a)
	if a.by.Known() && a.by.Window.Full() {
		a.by.Window.Tell(c.Self())
	}
}

// endsLater keeps an end in order behind the answers that wait, and every
// command behind that. A close_session waits for the answers to its own client;
// an end that nobody asked for, because nobody is left, for all.
func (s *Session) endsLater(c actor.Context, m any) bool {
	var by link.Client
	ends := true
	switch m := m.(type) {
	case link.Request:
		switch m.Cmd.(type) {
		case protocol.AttachSession, protocol.DetachSession:
			return false // who hears of the session is noted already, see noteRequest: the answer must not come later
		case protocol.CloseSession:
		default:
			ends = false
		}
		by = m.Client
	case link.Leave:
		if s.life.end == nil || s.life.end.abort {
			return false
		}
	default:
		return false
	}
	if !s.output.waitsBehind(by, ends) {
		return false
	}
	s.later(c, answer{by, ends, func(c actor.Context) { s.take(c, m) }})
	return true
}

// closeLater closes a log, at once or when no answer waits to be read from it.
func (o *output) closeLater(close func()) {
	o.left = append(o.left, close)
	if len(o.answers) == 0 {
		o.closeLeft()
	}
}

func (o *output) closeLeft() {
	for _, close := range o.left {
		close()
	}
	o.left = nil
}

// slowQuery answers a command that takes long, off the actor's goroutine.
func (s *Session) slowQuery(c actor.Context, e core.SlowQuery) {
	s.output.slowQueries = append(s.output.slowQueries, slowQuery{e.Seq, s.clients.replies.asker(e.Seq), s.search(e.Cmd, s.clients.replies.pending[e.Seq].allowed)})
	s.nextSlowQuery(c)
}

// nextSlowQuery begins the queries whose clients have read enough.
func (s *Session) nextSlowQuery(c actor.Context) {
	for i := 0; i < len(s.output.slowQueries) && s.output.querying < maxSlowQueries; {
		next := s.output.slowQueries[i]
		if next.by.Known() && next.by.Window.Full() {
			next.by.Window.Tell(c.Self())
			i++
			continue
		}
		s.output.slowQueries = slices.Delete(s.output.slowQueries, i, i+1)
		s.output.querying++
		kernel.Background(c, func() any {
			data, err := found(next.find())
			return core.QueryDone{Seq: next.seq, Data: data, Err: err}
		})
	}
}

// queryDone answers a slow query and begins the next.
func (s *Session) queryDone(c actor.Context, m core.QueryDone) {
	s.output.querying = max(0, s.output.querying-1) // an earlier life may have begun it
	s.suspect(m.Err)
	s.step(c, m)
	c.Send(c.Parent(), largeAnswer{})
	s.nextSlowQuery(c)
}
