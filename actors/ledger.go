package actors

import (
	"encoding/json"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/failpoint"
	"troupe/protocol"
)

// Limits of supervision.
const (
	// MaxRestarts is how often a session may crash within RestartWindow before
	// it is given up.
	MaxRestarts = 5
	// RestartWindow is the time over which crashes are counted.
	RestartWindow = time.Minute
)

// ledger keeps the answers a session owes. It lives in the session's props, so
// it survives the actor: whatever happens inside, every command gets one
// answer and no more. Everything here runs on the actor's goroutine.
type ledger struct {
	log       zerolog.Logger
	owed      map[uint64]debt
	order     []uint64 // seqs of owed, oldest first; may name answered ones
	opening   *request // the open_session, until it is answered: it survives crashes, for its answer is all the client will know of the session
	crashes   []time.Time
	failed    bool                  // given up: nothing reaches the actor any more
	onCrash   func(c actor.Context) // before anything is answered
	onFail    func(c actor.Context)
	onEnd     func(root *actor.RootContext)           // nobody will say anything any more
	onRequest func(r request)                         // before the session hears of it
	onClosing func(m closing)                         // before the session hears of it: a crash must not lose it
	onClose   func(c actor.Context, last ...lastWord) // a session that was given up is let go
}

// debt is one answer that is owed.
type debt struct {
	id     json.RawMessage
	name   string
	tag    string // the sessionId the client wrote, if it wrote one
	client client
	credit credit // still to be given back: when the command reaches its handler, for a large answer when that is made
}

func newLedger(log zerolog.Logger) *ledger {
	return &ledger{log: log, owed: map[uint64]debt{}}
}

// accountable is a session's actor with its ledger around it, and around the
// faults that are injected, so that these are answered too. It is no middleware,
// which would wrap every message.
type accountable struct {
	actor.Actor
	*ledger
	name   string
	faults *failpoint.Plan
}

func (a *accountable) Receive(c actor.Context) {
	msg := c.Message()
	switch m := msg.(type) {
	case request:
		a.note(m)
		a.onRequest(m)
	case closing:
		a.onClosing(m)
	}
	if a.failed && !lifecycle(msg) {
		a.refuse(c, msg)
		return
	}
	defer func() {
		if reason := recover(); reason != nil {
			a.crash(c, msg, reason)
			panic(reason) // supervision restarts the actor
		}
	}()
	if a.faults == nil {
		a.Actor.Receive(c)
		return
	}
	a.faults.Handle(a.name, msg, func() { a.Actor.Receive(c) })
}

func lifecycle(m any) bool {
	switch m.(type) {
	case actor.SystemMessage, actor.AutoReceiveMessage:
		return true
	}
	return false
}

func (l *ledger) note(r request) {
	l.owed[r.Seq] = debt{id: r.ID, name: r.Name, tag: r.tag, client: r.client, credit: r.credit}
	l.order = append(l.order, r.Seq)
	if _, ok := r.Cmd.(protocol.OpenSession); ok {
		one := r // only this one goes to the heap
		l.opening = &one
	}
	if len(l.order) > 64 && len(l.order) > 2*len(l.owed) {
		l.compact()
	}
}

func (l *ledger) compact() {
	kept := l.order[:0]
	for _, seq := range l.order {
		if _, ok := l.owed[seq]; ok {
			kept = append(kept, seq)
		}
	}
	l.order = kept
}

// handled says that a command has reached its handler: however long it takes,
// it is no longer on its way.
func (l *ledger) handled(r request) {
	if d, ok := l.owed[r.Seq]; ok && !large(r.Cmd) {
		d.credit.giveBack()
		d.credit = credit{}
		l.owed[r.Seq] = d
	}
}

// answer makes the response for a command and strikes it out. false means that
// it was answered before.
func (l *ledger) answer(seq uint64, data protocol.Result, err *protocol.Error) (client, *protocol.Response, bool) {
	d, ok := l.owed[seq]
	if !ok {
		return client{}, nil, false
	}
	delete(l.owed, seq)
	d.credit.giveBack()
	if l.opening != nil && l.opening.Seq == seq {
		l.opening = nil
	}
	return d.client, &protocol.Response{ID: d.id, Command: d.name, Data: data, Err: err, SessionID: d.tag}, true
}

// crash answers what is owed: the actor that would have answered is gone, and
// its successor does not know. Only an open_session is left to the successor.
func (l *ledger) crash(c actor.Context, msg, reason any) {
	l.log.Error().Str("actor", c.Self().Id).Str("message", fmt.Sprintf("%T", msg)).
		Str("panic", fmt.Sprint(reason)).Bytes("stack", debug.Stack()).Msg("session crashed")
	l.onCrash(c)
	now := time.Now()
	l.crashes = append(l.crashes, now)
	for len(l.crashes) > 0 && now.Sub(l.crashes[0]) > RestartWindow {
		l.crashes = l.crashes[1:]
	}
	err := protocol.CodeInternal.Errorf("Internal error: the session was restarted")
	if len(l.crashes) > MaxRestarts {
		l.failed = true
		err = sessionFailed()
	}
	unknown := l.opening != nil
	l.answerAll(c, err, l.failed)
	if l.failed {
		l.onFail(c)
		if unknown { // to every client: nobody would close it
			l.onClose(c)
		}
	}
}

func sessionFailed() *protocol.Error {
	return protocol.CodeSessionFailed.Errorf(
		"Session failed: it crashed more than %d times in %s and was given up", MaxRestarts, RestartWindow)
}

// answerAll answers everything, the open_session only if this is the end.
func (l *ledger) answerAll(c actor.Context, err *protocol.Error, final bool) {
	for _, seq := range l.order {
		if !final && l.opening != nil && l.opening.Seq == seq {
			continue
		}
		if to, resp, ok := l.answer(seq, nil, err); ok {
			to.send(c.ActorSystem().Root, item{response: resp})
		}
	}
	l.order = l.order[:0]
	if l.opening != nil {
		l.order = append(l.order, l.opening.Seq)
	}
}

// refuse answers for a session that was given up.
func (l *ledger) refuse(c actor.Context, msg any) {
	switch m := msg.(type) {
	case request:
		if _, isClose := m.Cmd.(protocol.CloseSession); isClose {
			if to, resp, ok := l.answer(m.Seq, nil, nil); ok {
				l.onClose(c, lastWord{to, resp})
			}
			return
		}
		if to, resp, ok := l.answer(m.Seq, nil, sessionFailed()); ok {
			to.send(c.ActorSystem().Root, item{response: resp})
		}
	case closing:
		l.onClose(c)
	case farewell:
		l.onEnd(c.ActorSystem().Root)
		c.ActorSystem().Root.Poison(c.Self())
	}
}
