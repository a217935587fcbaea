package session

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/core"
	"troupe/actors/kernel"
	"troupe/actors/link"
	"troupe/protocol"
	"troupe/store"
)

// Limits of supervision.
const (
	// MaxRestarts is how often a session may crash within RestartWindow before
	// it is given up.
	MaxRestarts = 5
	// RestartWindow is the time over which crashes are counted.
	RestartWindow = time.Minute
)

// accountable is a session's actor with its life around it, and around the
// faults that are injected, so that these are answered too. It is no middleware,
// which would wrap every message.
type accountable struct {
	session actor.Actor
	*life
}

func (a *accountable) Receive(c actor.Context) {
	msg := c.Message()
	switch m := msg.(type) {
	case link.Request:
		a.ledger.note(m)
		a.noteRequest(c, m)
	case link.Leave:
		if !a.noteLeave(m) {
			return
		}
	case link.Join:
		a.join(c, m.Client)
	case link.RouteClosed:
		a.routeClosed(c, m)
		return
	case opened:
		a.took(c, m)
	}
	if a.state.over() && !kernel.Lifecycle(msg) {
		a.refuse(c, msg)
		return
	}
	defer func() {
		if reason := recover(); reason != nil {
			a.crash(c, msg, reason)
			panic(reason) // supervision restarts the actor
		}
	}()
	if a.kernel.Faults == nil {
		a.session.Receive(c)
	} else {
		a.kernel.Faults.Handle(a.handle, msg, func() { a.session.Receive(c) })
	}
	a.dismiss(c)
}

// crash answers what is owed: the actor that would have answered is gone, and
// its successor does not know. Only an open_session is left to the successor.
func (a *accountable) crash(c actor.Context, msg, reason any) {
	a.log.Error().Str("actor", c.Self().Id).Str("message", fmt.Sprintf("%T", msg)).
		Str("panic", fmt.Sprint(reason)).Bytes("stack", debug.Stack()).Msg("session crashed")
	root := c.ActorSystem().Root
	if a.file != nil {
		a.file.Discard()
	}
	a.flush(root)
	now := time.Now()
	a.crashes = append(a.crashes, now)
	for len(a.crashes) > 0 && now.Sub(a.crashes[0]) > RestartWindow {
		a.crashes = a.crashes[1:]
	}
	if a.state == closed || len(a.crashes) <= MaxRestarts {
		a.ledger.answerAll(root, protocol.CodeInternal.Errorf("Internal error: the session was restarted"), a.state == closed)
		a.audience.answered()
		return
	}
	a.state, a.refusal = failed, sessionFailed()
	unknown := a.ledger.opening != nil
	a.ledger.answerAll(root, a.refusal, true)
	a.audience.answered()
	a.giveUp(c)
	if unknown || a.end != nil { // nobody would close it
		a.sayClosed(c)
	}
	a.dismiss(c)
}

func sessionFailed() *protocol.Error {
	return protocol.CodeSessionFailed.Errorf(
		"Session failed: it crashed more than %d times in %s and was given up", MaxRestarts, RestartWindow)
}

// giveUp tells the clients of a session that is given up, on the crash that was
// one too many. What they have seen begin ends.
func (a *accountable) giveUp(c actor.Context) {
	var endings []link.Item
	nowhere := store.NewLog(nil, "", protocol.Header{}, store.Options{})
	for _, e := range core.New().Step(time.Now().UnixMilli(), nowhere, a.restored(a.plate, core.Settings{})) {
		if e, ok := e.(core.Emit); ok {
			endings = append(endings, link.Item{Event: e.Event})
		}
	}
	root := c.ActorSystem().Root
	for _, l := range a.audience.list {
		var items []link.Item
		if !l.muted {
			items = append(items, endings...)
		}
		l.Send(root, append(items, link.Item{Event: protocol.SessionFailed{Error: a.refusal.Message}})...)
	}
	root.Send(c.Parent(), status{a.handle, protocol.OpenSessionInfo{
		SessionID: a.handle, Status: "failed", Clients: a.audience.attached(), WaitingFor: []string{},
	}})
}

// refuse answers for a session that was given up, or has ended while the command
// was on its way.
func (a *accountable) refuse(c actor.Context, msg any) {
	switch m := msg.(type) {
	case link.Request:
		err := cmp.Or(a.refusal, protocol.CodeSessionClosing.Errorf("Session is closing"))
		closes := a.state == failed && endsSession(m)
		if closes {
			err = nil
		}
		to, resp, ok := a.ledger.answer(m.Seq, nil, err)
		switch {
		case !ok:
		case closes:
			a.sayClosed(c, link.CloseReply{To: to, Response: resp})
		default:
			to.Send(c.ActorSystem().Root, link.Item{Response: resp})
			a.audience.answered()
		}
	case link.Leave:
		if a.state == failed && a.end != nil {
			a.sayClosed(c)
		}
		a.dismiss(c)
	}
}

// sayClosed tells the parent and the routers of the clients that the session has
// ended, and gives its last answers.
func (l *life) sayClosed(c actor.Context, last ...link.CloseReply) {
	l.state = closed
	gone := link.Closed{Handle: l.handle, Replies: last}
	for _, who := range l.audience.list {
		gone.Routers = append(gone.Routers, who.Router)
	}
	c.ActorSystem().Root.Send(c.Parent(), gone)
}

// routeClosed notes that a router, or the parent, sends nothing more.
func (l *life) routeClosed(c actor.Context, m link.RouteClosed) {
	if m.Router == nil {
		l.audience.sealed = true
	} else if who := l.audience.by(m.Router); who != nil {
		l.audience.remove(c.ActorSystem().Root, who)
	}
	l.maybeStop(c)
}

// maybeStop ends the actor when nothing can be sent to it any more.
func (l *life) maybeStop(c actor.Context) {
	if l.state == closed && l.audience.sealed && len(l.audience.list) == 0 && !l.opens {
		c.Poison(c.Self())
	}
}
