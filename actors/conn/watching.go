package conn

import (
	"cmp"
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/link"
	"troupe/actors/relay"
	"troupe/protocol"
)

// watching is of a connection that is told of every session of the process, or of the cluster.
type watching struct {
	on      bool
	waiting []protocol.OpenSessionInfo          // changes that the client has no room for, one of each session
	known   map[string]protocol.OpenSessionInfo // in a cluster: those that are open, as they were last
	late    []protocol.OpenSessionInfo          // likewise: changes behind a list that is not answered yet
}

// watchSessions begins with the list: what changes after it follows it.
func (r *router) watchSessions(c actor.Context, req protocol.Request) {
	if !r.out.Wire.Has(protocol.FeatureSessionEvents) {
		r.answer(c, req, nil, protocol.CodeInvalidParams.Errorf("watch_sessions needs the feature sessionEvents"))
		return
	}
	r.watch.on = true
	c.Send(r.server.Sessions, link.WatchSessions{Router: c.Self()})
	if r.seesNodes() {
		r.watch.known = map[string]protocol.OpenSessionInfo{}
		c.Send(r.routes.relay, relay.Watch{})
	}
	r.list(c, req)
}

func (r *router) unwatchSessions(c actor.Context, req protocol.Request) {
	r.watch = watching{}
	c.Send(r.server.Sessions, link.WatchSessions{Router: c.Self(), Off: true})
	if r.seesNodes() {
		c.Send(r.routes.relay, relay.Watch{Off: true})
	}
	r.answer(c, req, nil, nil)
}

// sessionChanged tells the client how a session is now, or keeps it until there is room.
func (r *router) sessionChanged(c actor.Context, now protocol.OpenSessionInfo) {
	if !r.watch.on || r.leaving != nil {
		return
	}
	if r.watch.known != nil && r.lists.here != nil {
		r.watch.late = append(r.watch.late, now)
		return
	}
	if r.watch.known != nil && !r.isWhere(&now) {
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

// seesNodes says whether the client hears of the sessions of other nodes: one that another node leads here
// hears of them there.
func (r *router) seesNodes() bool { return r.routes.relay != nil && !r.cfg.Peer }

// isWhere notes on which node a session is, and says whether that is to be told: that it ends on one is of no
// interest once it was heard of from another.
func (r *router) isWhere(now *protocol.OpenSessionInfo) bool {
	now.Node = cmp.Or(now.Node, r.server.Cluster.Members.Self())
	was, known := r.watch.known[now.SessionID]
	if now.Status != "closed" {
		r.watch.known[now.SessionID] = *now
		return true
	}
	if known && was.Node != now.Node {
		return false
	}
	delete(r.watch.known, now.SessionID)
	return known
}

// unwatched is a node that tells nothing any more. Whoever has its sessions next says so.
func (r *router) unwatched(c actor.Context, node string) {
	for _, id := range slices.Sorted(maps.Keys(r.watch.known)) {
		if gone := r.watch.known[id]; gone.Node == node {
			gone.Status, gone.Phase, gone.WaitingFor, gone.Clients = "closed", "", []string{}, 0
			r.sessionChanged(c, gone)
		}
	}
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
