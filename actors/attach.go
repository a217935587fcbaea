package actors

import (
	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/session"
	"troupe/protocol"
)

// listen notes who hears of the session, when the command arrives: its router
// has noted it already, and a crash over the command must not part the two.
func (l *life) listen(r request) {
	switch r.Cmd.(type) {
	case protocol.AttachSession:
		l.mute(r.client, false)
	case protocol.DetachSession:
		l.mute(r.client, true)
	default: // changes nothing
	}
}

// attach lets a client hear of the session again, and tells it the state.
func (s *Session) attach(c actor.Context, r request) {
	s.do(c, session.Reply{Seq: r.Seq, Data: protocol.JSON(protocol.OpenedSession{SessionID: s.handle, State: s.m.State()})})
	s.flush(c.ActorSystem().Root)
	c.Send(c.Parent(), status{s.handle, s.info()})
}

// detach stops telling a client about the session. The session goes on; one
// that was not to be retained ends when its run does, if nobody listens any
// more.
func (s *Session) detach(c actor.Context, r request) {
	s.do(c, session.Reply{Seq: r.Seq})
	c.Send(c.Self(), windowOpen{}) // nothing waits for who does not listen
	s.flush(c.ActorSystem().Root)
	c.Send(c.Parent(), status{s.handle, s.info()})
	if s.audience() == 0 && !s.spec.Retain {
		s.close(c, closing{})
	}
}

func (l *life) mute(who client, muted bool) {
	for i := range l.clients {
		if cl := &l.clients[i]; cl.is(who) {
			cl.muted = muted
		}
	}
}

// audience is how many clients hear of the session.
func (l *life) audience() int {
	n := 0
	for _, cl := range l.clients {
		if !cl.muted {
			n++
		}
	}
	return n
}

// attachSession and detachSession route the commands. A session that the client
// has detached from takes no other command of it.
func (r *router) attachSession(c actor.Context, req protocol.Request, handle string) {
	to := r.routes[handle]
	if to == nil {
		r.answer(c, req, nil, protocol.CodeUnknownSession.Errorf("Unknown session: %s", handle))
		return
	}
	to.detached = false
	r.forward(c, to, req)
}

func (r *router) detachSession(c actor.Context, req protocol.Request, handle string) {
	to := r.routes[handle]
	switch {
	case to == nil || to.detached:
		r.answer(c, req, nil, protocol.CodeUnknownSession.Errorf("Unknown session: %s", handle))
	case to == r.main:
		r.answer(c, req, nil, protocol.CodeInvalidParams.Errorf("The default session cannot be detached"))
	default:
		to.detached = true
		r.forward(c, to, req)
	}
}
