package conn

import (
	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/link"
	"troupe/protocol"
)

// watching is of a connection that is told of every session of the process.
type watching struct {
	on      bool
	waiting []protocol.OpenSessionInfo // changes that the client has no room for, one of each session
}

// watchSessions begins with the list: what changes after it follows it.
func (r *router) watchSessions(c actor.Context, req protocol.Request) {
	if !r.out.Wire.Has(protocol.FeatureSessionEvents) {
		r.answer(c, req, nil, protocol.CodeInvalidParams.Errorf("watch_sessions needs the feature sessionEvents"))
		return
	}
	r.watch.on = true
	c.Send(r.server.Sessions, link.WatchSessions{Router: c.Self()})
	r.list(c, req)
}

func (r *router) unwatchSessions(c actor.Context, req protocol.Request) {
	r.watch = watching{}
	c.Send(r.server.Sessions, link.WatchSessions{Router: c.Self(), Off: true})
	r.answer(c, req, nil, nil)
}

// sessionChanged tells the client how a session is now, or keeps it until there is room.
func (r *router) sessionChanged(c actor.Context, now protocol.OpenSessionInfo) {
	if !r.watch.on || r.leaving != nil {
		return
	}
	for i := range r.watch.waiting {
		if r.watch.waiting[i].SessionID == now.SessionID {
			r.watch.waiting[i] = now
			return
		}
	}
	r.watch.waiting = append(r.watch.waiting, now)
	r.nextStatus(c)
}

// nextStatus tells the client what has waited, as far as there is room.
func (r *router) nextStatus(c actor.Context) {
	for len(r.watch.waiting) > 0 {
		if r.out.Window.Full() {
			r.out.Window.Tell(c.Self())
			return
		}
		next := r.watch.waiting[0]
		r.watch.waiting = r.watch.waiting[1:]
		next.IsDefault = r.isDefault(next)
		r.out.Send(c.ActorSystem().Root, link.Item{Event: protocol.SessionStatus(next)})
	}
	r.watch.waiting = nil
}

func (r *router) isDefault(s protocol.OpenSessionInfo) bool {
	return r.routes.main != nil && r.routes.main.handle == s.SessionID
}
