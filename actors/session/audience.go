package session

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/core"
	"troupe/actors/link"
	"troupe/protocol"
)

// audience is the clients of a session, in the order in which they came. Each is
// of another connection.
type audience struct {
	list   []*listener
	sealed bool // nobody can join any more
}

// listener is a client of a session.
type listener struct {
	link.Client
	muted     bool        // it has detached or left: it hears nothing but answers and the end
	attaching uint64      // the attach that is not answered yet: with the answer it hears; 0 for none
	leaving   *link.Leave // it sends nothing more; nil before that
}

// attached says whether the session goes on for this client.
func (l *listener) attached() bool { return (!l.muted || l.attaching != 0) && l.leaving == nil }

// join adds a client that does not hear of the session yet, unless it is there.
func (a *audience) join(cl link.Client) (l *listener, isNew bool) {
	if l := a.by(cl.Router); l != nil {
		return l, false
	}
	l = &listener{Client: cl, muted: true}
	a.list = append(a.list, l)
	return l, true
}

// by is the client of a router, nil if it is not there.
func (a *audience) by(router *actor.PID) *listener {
	for _, l := range a.list {
		if l.Router.Equal(router) {
			return l
		}
	}
	return nil
}

// attached is for how many clients the session goes on.
func (a *audience) attached() (n int) {
	for _, l := range a.list {
		if l.attached() {
			n++
		}
	}
	return n
}

// answered notes that an attach was answered.
func (l *listener) answered() {
	if l.attaching != 0 {
		l.attaching, l.muted = 0, false
	}
}

// hostOf is whom an event is for: what a host tool is asked is for the client that
// runs it, everything else for all, which is the zero value.
func (a *audience) hostOf(ev protocol.Event, host *actor.PID) link.Client {
	switch ev.(type) {
	case protocol.HostToolCall, protocol.HostToolCancel:
		if l := a.by(host); l != nil {
			return l.Client
		}
	default: // is for all
	}
	return link.Client{}
}

// answered notes that everything was.
func (a *audience) answered() {
	for _, l := range a.list {
		l.answered()
	}
}

// full says whether a client has to read first.
func (a *audience) full() bool {
	return slices.ContainsFunc(a.list, func(l *listener) bool { return !l.muted && l.Window.Full() })
}

// fit is how many parts of a model's answer every client has room for.
func (a *audience) fit(sizes *link.Sizer, parts []protocol.Part) int {
	n := len(parts)
	for _, l := range a.list {
		if !l.muted {
			n = sizes.Fit(parts[:n], l.Window.Room(), l.Wire.Has(protocol.FeatureDeltaUpdates))
		}
	}
	return n
}

// told says whether a client has a feature.
func (a *audience) told(f protocol.Feature) bool {
	return slices.ContainsFunc(a.list, func(l *listener) bool { return !l.muted && l.Wire.Has(f) })
}

// remove lets go of a client. Nothing more is sent to it.
func (a *audience) remove(root *actor.RootContext, l *listener) {
	a.list = slices.DeleteFunc(a.list, func(x *listener) bool { return x == l })
	if l.Tag != "" { // untagged records are those of the connection, too
		root.Send(l.Writer, link.Forget{Tag: l.Tag})
	}
}

// What follows is noted before the session hears of it: routers count on it, and
// a crash over the message must not part the two.

// noteRequest notes who hears of the session.
func (l *life) noteRequest(c actor.Context, r link.Request) {
	switch r.Cmd.(type) {
	case protocol.AttachSession:
		who := l.join(c, r.Client)
		who.attaching, who.Wire = r.Seq, r.Client.Wire
	case protocol.DetachSession:
		who := l.join(c, r.Client)
		who.muted, who.attaching = true, 0
	default: // changes nothing
	}
}

// join adds a client. One that comes after the end is told so by its router.
func (l *life) join(c actor.Context, cl link.Client) *listener {
	who, isNew := l.audience.join(cl)
	if isNew && l.state == closed {
		c.Send(cl.Router, link.Closed{Handle: l.handle})
	}
	return who
}

// noteLeave notes that a client says nothing more, or nobody does that may still
// come. The session ends when no client is left for which it goes on, unless it
// is to be retained.
func (l *life) noteLeave(m link.Leave) (counts bool) {
	l.spec.Retain = l.spec.Retain && !m.Final
	if m.Router == nil && slices.ContainsFunc(l.audience.list, func(who *listener) bool { return who.leaving == nil }) {
		return false // they say so themselves, behind the commands that they have sent
	}
	who := l.audience.by(m.Router)
	if who != nil {
		who.leaving = who.leaving.And(m)
	}
	switch {
	case who == nil && m.Router != nil: // it has left before
	case l.audience.attached() == 0 && !l.spec.Retain:
		l.end = l.end.and(ending{abort: m.Abort, deaf: true})
	case who != nil && l.end == nil && !m.Final: // the session goes on without it
		who.muted, who.attaching = true, 0
	}
	return true
}

// attach tells a client the state. It hears every event from then on, and none
// before.
func (s *Session) attach(c actor.Context, r link.Request) {
	s.do(c, core.Reply{Seq: r.Seq, Data: protocol.OpenedSession{SessionID: s.handle, State: s.m.State()}})
	s.audienceChanged(c)
}

// detach stops telling a client about the session. The session goes on; one
// that was not to be retained ends when its run does, if nobody listens any
// more.
func (s *Session) detach(c actor.Context, r link.Request) {
	s.do(c, core.Reply{Seq: r.Seq})
	s.hostLeft(c)
	s.audienceChanged(c)
	if s.audience.attached() == 0 && !s.spec.Retain {
		s.close(c, ending{})
	}
}

// audienceChanged tells what has gathered, and everybody whom it concerns that
// others listen now. Nothing waits any more for who does not.
func (s *Session) audienceChanged(c actor.Context) {
	s.flush(c.ActorSystem().Root)
	if !s.output.none() {
		c.Send(c.Self(), link.WindowOpen{})
	}
	c.Send(c.Parent(), status{s.handle, s.info()})
}

// leave lets a client go, or ends with it: see noteLeave.
func (s *Session) leave(c actor.Context) {
	if s.end != nil {
		s.close(c, *s.end)
	} else {
		s.hostLeft(c)
	}
	s.audienceChanged(c)
}

// hostIs notes who has declared the host tools; nil for who has left before they
// were.
func (s *Session) hostIs(router *actor.PID) {
	s.life.host = router
	if !s.hasHost() {
		s.life.host = nil
		s.next = append(s.next, core.HostGone{})
	}
}

// hasHost says whether the client that runs the host tools hears of the session.
func (s *Session) hasHost() bool {
	who := s.audience.by(s.host)
	return who != nil && who.attached()
}

// hostLeft ends the calls that wait for a host that has left or detached: it hears
// nothing of them and cannot answer.
func (s *Session) hostLeft(c actor.Context) {
	if s.host != nil && !s.hasHost() {
		s.life.host = nil
		s.step(c, core.HostGone{})
	}
}

// dismiss lets those go who have left and are owed nothing more. Those with whom
// the session ends, or the process, stay to its end, if they can still hear of it.
func (l *life) dismiss(c actor.Context) {
	for i := len(l.audience.list) - 1; i >= 0; i-- { // from behind: one that goes moves none that is still to come
		who := l.audience.list[i]
		if who.leaving == nil || l.state == closed {
			continue
		}
		root := c.ActorSystem().Root
		switch {
		case who.leaving.Gone:
			l.ledger.settle(root, who.Client, nil)
		case l.end != nil || who.leaving.Final:
			continue
		case who.leaving.Abort:
			l.ledger.settle(root, who.Client, protocol.CodeSessionClosing.Errorf("The connection is closing"))
		case l.ledger.owes(who.Client):
			continue
		}
		l.audience.remove(root, who)
		c.Send(who.Router, link.Left{Handle: l.handle})
	}
}

// setDialect notes how a client is written to, and takes on the rules that it has
// chosen if the session has no other: what one client says changes nothing for
// another.
func (s *Session) setDialect(m link.SetDialect) (changed bool) {
	for _, l := range s.audience.list {
		if l.Is(m.Client) {
			l.Wire = m.Client.Wire
		}
	}
	if slices.ContainsFunc(s.audience.list, func(l *listener) bool { return !l.Is(m.Client) && l.leaving == nil }) {
		return false
	}
	s.rules, s.work.settings.Rules = m.Rules, m.Rules
	return true
}
