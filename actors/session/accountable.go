package session

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/kernel"
	"troupe/actors/link"
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
	}
	if a.failed && !kernel.Lifecycle(msg) {
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
	if len(a.crashes) <= MaxRestarts {
		a.ledger.answerAll(root, protocol.CodeInternal.Errorf("Internal error: the session was restarted"), false)
		a.audience.answered()
		return
	}
	a.failed = true
	unknown := a.ledger.opening != nil
	a.ledger.answerAll(root, sessionFailed(), true)
	a.audience.answered()
	a.giveUp(c)
	if unknown || a.closing != nil { // nobody would close it
		a.sayClosed(c)
	}
	a.dismiss(c)
}

func sessionFailed() *protocol.Error {
	return protocol.CodeSessionFailed.Errorf(
		"Session failed: it crashed more than %d times in %s and was given up", MaxRestarts, RestartWindow)
}

// giveUp tells the clients of a session that is given up, on the crash that was
// one too many.
func (a *accountable) giveUp(c actor.Context) {
	endings := a.endings()
	root := c.ActorSystem().Root
	for _, l := range a.audience.list {
		var items []link.Item
		for _, ev := range endings {
			if !l.muted {
				items = append(items, link.Item{Event: ev})
			}
		}
		items = append(items, link.Item{Event: protocol.SessionFailed{Error: sessionFailed().Message}})
		l.Send(root, items...)
	}
	root.Send(c.Parent(), status{a.handle, protocol.OpenSessionInfo{
		SessionID: a.handle, Status: "failed", Clients: a.audience.attached(), WaitingFor: []string{},
	}})
}

// refuse answers for a session that was given up.
func (a *accountable) refuse(c actor.Context, msg any) {
	switch m := msg.(type) {
	case link.Request:
		_, closes := m.Cmd.(protocol.CloseSession)
		err := sessionFailed()
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
		if a.closing != nil {
			a.sayClosed(c)
		}
		a.dismiss(c)
	}
}

// sayClosed tells the parent and the routers of the clients that the session has
// ended, and gives its last answers.
func (l *life) sayClosed(c actor.Context, last ...link.CloseReply) {
	l.gone = true
	gone := link.Closed{Handle: l.handle, Replies: last}
	for _, who := range l.audience.list {
		gone.Routers = append(gone.Routers, who.Router)
	}
	c.ActorSystem().Root.Send(c.Parent(), gone)
}

// routeClosed ends the actor when nobody can send it anything any more.
func (l *life) routeClosed(c actor.Context, m link.RouteClosed) {
	if m.Router == nil {
		l.audience.sealed = true
	} else if who := l.audience.by(m.Router); who != nil {
		l.audience.remove(c.ActorSystem().Root, who)
	}
	if l.gone && l.audience.sealed && len(l.audience.list) == 0 {
		c.Poison(c.Self())
	}
}
