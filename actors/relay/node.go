package relay

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/cluster"
	"troupe/actors/kernel"
	"troupe/actors/link"
	"troupe/protocol"
)

// nodeOf is a node, to which a wire is opened if there is none.
func (r *relay) nodeOf(c actor.Context, is cluster.Node) *node {
	if n := r.nodes[is.Name]; n != nil {
		return n
	}
	n := &node{Node: is, life: r.next(), out: newOutbox()}
	n.ctx, n.cancel = context.WithCancel(r.life.ctx)
	r.nodes[is.Name] = n
	dial, who, life, from := r.shared.Dial, r.identity(), n.life, n.ctx
	root, self := c.ActorSystem().Root, c.Self()
	kernel.Go(root, self, func() {
		ctx, cancel := context.WithTimeout(from, dialTime)
		defer cancel()
		wire, err := dial.Dial(ctx, is, who)
		root.Send(self, connected{is.Name, life, wire, err})
	})
	return n
}

// identity is the client as nodes are told of it.
func (r *relay) identity() cluster.Identity {
	who := r.side.who
	if name := r.side.out.Name(); name != nil {
		who.ClientID = name.ClientID
	}
	return who
}

func (r *relay) connected(c actor.Context, m connected) {
	n := r.nodes[m.node]
	if n == nil || n.life != m.life {
		if m.conn != nil {
			_ = m.conn.Close()
		}
		return
	}
	if m.err != nil {
		r.shared.Log.Info().Err(m.err).Str("node", m.node).Msg("no connection to the node of a session")
		delete(r.nodes, m.node)
		if errors.Is(m.err, cluster.ErrUpgrade) {
			for _, s := range r.sessions {
				if s.at == n {
					r.unlocated(c, s, m.err)
				}
			}
		}
		r.without(c, n)
		return
	}
	n.conn = m.conn
	root, self := c.ActorSystem().Root, c.Self()
	kernel.Go(root, self, func() { n.out.write(m.conn, n.ctx.Done()) })
	kernel.Go(root, self, func() { read(root, self, m.node, m.life, m.conn, n.ctx.Done()) })
	r.greet(n)
	r.watchSoon(c, watchEvery)
	for _, s := range r.sessions {
		if s.at == n {
			r.flush(c, s)
		}
	}
	r.listNode(n)
	for _, f := range r.finds {
		if f.at == n {
			r.askFor(f)
		}
	}
	for number, q := range r.numbers.asked {
		if q.waits[n.Name] {
			r.askNode(n, number)
		}
	}
	r.maybeLeft(c)
}

// helloLine and attachLine are commands of the relay's own.
type (
	helloLine struct {
		ID       string               `json:"id"`
		Type     string               `json:"type"`
		Dialect  protocol.Dialect     `json:"dialect,omitempty"`
		Features []string             `json:"features"`
		ClientID string               `json:"clientId,omitempty"`
		Client   *protocol.ClientName `json:"client,omitempty"`
		UI       []string             `json:"ui,omitempty"`
	}
	attachLine struct {
		ID        string `json:"id"`
		Type      string `json:"type"`
		SessionID string `json:"sessionId,omitempty"`
		Role      string `json:"role,omitempty"`
	}
)

// greet tells a node how the client wants to be written to.
func (r *relay) greet(n *node) {
	h := helloLine{Type: "hello", Dialect: r.side.out.Wire.Dialect, Features: r.side.out.Wire.On(), UI: r.side.out.Wire.UI}
	h.Features = slices.DeleteFunc(h.Features, func(f string) bool { return f == string(protocol.FeatureHeartbeat) }) // that is this node's
	if ack := string(protocol.FeatureUIAck); !slices.Contains(h.Features, ack) {
		h.Features = append(h.Features, ack) // for the relay: see acknowledged
	}
	if name := r.side.out.Name(); name != nil && name.ClientID != "" {
		h.ClientID, h.Client = name.ClientID, &protocol.ClientName{Name: name.Name}
	}
	r.own(n, h, nil)
}

// own says a command to a node that no client has said.
func (r *relay) own(n *node, cmd any, then func(*relay, actor.Context, *node, answer)) {
	id := link.OwnID + strconv.FormatUint(r.next(), 10)
	switch line := cmd.(type) {
	case helloLine:
		line.ID = id
		cmd = line
	case attachLine:
		line.ID = id
		cmd = line
	}
	line, err := json.Marshal(cmd)
	if err != nil {
		panic(err)
	}
	if then == nil {
		then = func(*relay, actor.Context, *node, answer) {}
	}
	r.send(n, &ask{Command: Command{Line: line, Request: protocol.Request{ID: json.RawMessage(strconv.Quote(id))}}, own: then})
}

// hello has all nodes write to the client as it wants from now on.
func (r *relay) hello(_ actor.Context, m Hello) {
	r.side.out = m.Client
	for _, n := range r.nodes {
		if n.conn != nil {
			r.greet(n)
		}
	}
}

// lost is the end of a wire: of a node, of what lies between, or in order.
func (r *relay) lost(c actor.Context, m lost) {
	n := r.nodes[m.node]
	if n == nil || n.life != m.life {
		return
	}
	if m.err != nil && !errors.Is(m.err, io.EOF) {
		r.shared.Log.Info().Err(m.err).Str("node", m.node).Msg("connection to a node has ended")
	}
	r.cut(n)
	delete(r.nodes, m.node)
	r.without(c, n)
}

// cut ends the wire to a node.
func (r *relay) cut(n *node) {
	n.cancel()
	if n.conn != nil {
		_ = n.conn.Close()
	}
	n.out.end()
}

// without resends or refuses the commands of a node whose connection is lost.
func (r *relay) without(c actor.Context, n *node) {
	again := map[string][]*ask{}
	for _, a := range r.takeLost(c, n, func(*ask) bool { return true }) {
		again[a.Session] = append(again[a.Session], a)
	}
	n.pending = nil
	if n.over {
		r.ended(c, n)
		return
	}
	for id, s := range r.sessions {
		if s.at == n || s.joined == n.life || len(again[id]) > 0 {
			r.elsewhere(c, s, n, again[id], n.spoke)
		}
	}
	if r.side.all {
		c.Send(r.side.router, Unwatched{n.Name})
		r.list.sessions = slices.DeleteFunc(r.list.sessions, func(s protocol.OpenSessionInfo) bool { return s.Node == n.Name })
	}
	if r.list.without(n.Name) {
		r.listDone(c)
	}
	for number := range r.numbers.asked {
		r.hasNot(c, number, n)
	}
}

// takeLost removes the commands that a lost node will not answer. It returns those that are idempotent, which are sent
// to the next owner of their session. It refuses the others, which may have run.
func (r *relay) takeLost(c actor.Context, n *node, of func(*ask) bool) (again []*ask) {
	kept := n.pending[:0:0]
	for _, a := range n.pending {
		switch {
		case a.own != nil || !of(a):
			kept = append(kept, a)
		case r.leaving != nil || !a.actsOnce():
			r.refuse(c, a, protocol.CodeSessionUnavailable.Errorf("The session's node was lost").NotRun(protocol.RetryAfter))
		default:
			again = append(again, a)
		}
	}
	n.pending = kept
	return again
}

// changes reports whether running the command twice has another effect than running it once.
func (a *ask) changes() bool {
	return a.Request.Spec == nil || a.Request.Spec.Effect() != protocol.EffectNone
}

// actsOnce reports whether a repeated command is idempotent: it changes nothing, or its client and id are known.
func (a *ask) actsOnce() bool {
	return !a.changes() || a.Named && len(a.Request.ID) > 0 && a.Request.ID[0] == '"'
}

// listing is the question to all nodes which sessions are open there.
type listing struct {
	seq      uint64 // 0 for none
	waits    map[string]bool
	sessions []protocol.OpenSessionInfo
}

// without says that a node does not answer any more, and whether it was the last.
func (l *listing) without(node string) (last bool) {
	if l.seq == 0 || !l.waits[node] {
		return false
	}
	delete(l.waits, node)
	return len(l.waits) == 0
}

const listTime = time.Second

func (r *relay) listAll(c actor.Context, m List) {
	r.list = listing{seq: m.Seq, waits: map[string]bool{}}
	for _, is := range r.shared.Members.Seen() {
		if !is.Lives || is.Name == r.shared.Members.Self() {
			continue
		}
		r.list.waits[is.Name] = true
		if n := r.nodeOf(c, is.Node); n.conn != nil {
			r.listNode(n)
		}
	}
	if len(r.list.waits) == 0 {
		r.listDone(c)
		return
	}
	kernel.After(c, listTime, c.Self(), listLate{m.Seq})
}

// listNode asks a node, if it is one of those that are to be asked. What is said to a client that is told
// of every session is the beginning of what it is told.
func (r *relay) listNode(n *node) {
	if !r.list.waits[n.Name] && !r.side.all {
		return
	}
	seq, ask := r.list.seq, "list_open_sessions"
	if r.side.all {
		ask = "watch_sessions"
	}
	r.own(n, attachLine{Type: ask}, func(r *relay, c actor.Context, n *node, a answer) {
		asked := r.list.seq == seq && r.list.waits[n.Name]
		for _, s := range r.openOn(n, a) {
			s.Node, s.IsDefault = n.Name, false
			if asked {
				r.list.sessions = append(r.list.sessions, s)
			} else if r.side.all { // it came too late for the list, or was not there
				c.Send(r.side.router, link.SessionChanged{Info: s})
			}
		}
		if asked && r.list.without(n.Name) {
			r.listDone(c)
		}
	})
}

// watchAll has the client told of the sessions of all nodes, also those that come later, or no more.
func (r *relay) watchAll(c actor.Context, m Watch) {
	if r.side.all = !m.Off; r.side.all {
		r.watchSoon(c, watchEvery)
		return
	}
	for _, n := range r.nodes {
		if n.conn != nil {
			r.own(n, attachLine{Type: "unwatch_sessions"}, nil)
		}
	}
}

// status is how a session of a node is now. What it says before it has answered is in the answer.
func (r *relay) status(c actor.Context, n *node, line []byte) {
	var now protocol.OpenSessionInfo
	if err := json.Unmarshal(line, &now); err != nil || !r.side.all || r.list.waits[n.Name] {
		return
	}
	now.Node, now.IsDefault = n.Name, false
	c.Send(r.side.router, link.SessionChanged{Info: now})
}

func (r *relay) listDone(c actor.Context) {
	m := Listed{r.list.seq, r.list.sessions}
	r.list = listing{}
	c.Send(r.side.router, m)
}

const (
	watchEvery = 250 * time.Millisecond
	watchLate  = 20 * time.Millisecond // while it is open whether a node of the client's is lost
)

// watchSoon looks at the nodes again after a while.
func (r *relay) watchSoon(c actor.Context, after time.Duration) {
	if !r.watching {
		r.watching = true
		kernel.After(c, after, c.Self(), watch{})
	}
}

// watch looks for nodes of which nobody has heard for long, although there is a wire to them: one
// that stands still, or has lost the engine. Its sessions may be elsewhere.
func (r *relay) watch(c actor.Context) {
	r.watching = false
	if len(r.nodes) == 0 && !r.side.all || r.leaving != nil {
		return
	}
	lives, after := map[string]bool{}, watchEvery
	for _, n := range r.shared.Members.Seen() {
		if !n.Lives {
			continue
		}
		lives[n.Name] = true
		if r.side.all && n.Name != r.shared.Members.Self() {
			r.nodeOf(c, n.Node)
		}
		if n.Late && r.nodes[n.Name] != nil {
			after = watchLate
		}
	}
	r.watchSoon(c, after)
	for _, n := range r.nodes {
		if n.conn == nil || n.asking > 0 || lives[n.Name] {
			continue
		}
		for id, s := range r.sessions {
			if s.at == n {
				n.asking++
				r.askAbout(c, n, id)
			}
		}
	}
}

func (r *relay) askAbout(c actor.Context, n *node, session string) {
	root, self := c.ActorSystem().Root, c.Self()
	members, from, life := r.shared.Members, n.ctx, n.life
	kernel.Go(root, self, func() {
		ctx, cancel := context.WithTimeout(from, lookTime)
		defer cancel()
		is, err := members.Where(ctx, cluster.SessionID(session))
		root.Send(self, reclaimed{session, life, is, err})
	})
}

// reclaimed leads a session elsewhere that its node has lost, and may not know.
func (r *relay) reclaimed(c actor.Context, m reclaimed) {
	for _, n := range r.nodes {
		if n.life != m.life {
			continue
		}
		n.asking--
		s := r.sessions[m.session]
		if s == nil || s.at != n {
			continue
		}
		if m.err == nil && m.node.Name != n.Name || s.looking.child && errors.Is(m.err, cluster.ErrNoSession) {
			if n.leave(s.id); s.looking.child { // which is there as long as somebody hears of it
				r.own(n, attachLine{Type: "detach", SessionID: s.id}, nil)
			}
			r.elsewhere(c, s, n, r.takeLost(c, n, func(a *ask) bool { return a.Session == s.id }), true)
		}
	}
}
