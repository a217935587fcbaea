package relay

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/cluster"
	"troupe/actors/kernel"
	"troupe/actors/link"
	"troupe/protocol"
)

// finding is a session that is looked for by what may not be its handle. The node that its log names as the last has it
// open, also parked, or nobody has, but for one that is lost, or about to be where it was given to; so that node is asked what it has.
type finding struct {
	Find
	number uint64        // of what is waited for
	at     *node         // that is asked; nil for none
	log    cluster.Seq   // how far the log went when that was chosen
	lacks  cluster.Seq   // how far it went when a node said that it does not have the session; 0 for none
	owned  bool          // it was somebody's while it was looked for
	until  time.Time     // it is looked for
	pause  time.Duration // before it is looked for again
}

type (
	// held is where its log says that a session is.
	held struct {
		key    string
		number uint64
		link.Held
		err error
	}
	// findAgain says that it is time to.
	findAgain struct {
		key    string
		number uint64
	}
)

func (r *relay) find(c actor.Context, m Find) {
	f := &finding{Find: m, until: time.Now().Add(r.patience())}
	r.finds[m.Key] = f
	r.lookAt(c, f)
}

// waitsFor is the session that a message is about, nil if nobody waits for that any more.
func (r *relay) waitsFor(key string, number uint64) *finding {
	if f := r.finds[key]; f != nil && f.number == number {
		return f
	}
	return nil
}

// lookAt asks the log where a session is.
func (r *relay) lookAt(c actor.Context, f *finding) {
	f.at, f.number = nil, r.next()
	m, of, from, look := held{key: f.Key, number: f.number}, f.Find, r.life.ctx, r.shared.Held
	root, self := c.ActorSystem().Root, c.Self()
	kernel.Go(root, self, func() {
		ctx, cancel := context.WithTimeout(from, lookTime)
		defer cancel()
		m.Held, m.err = look(ctx, of.ID, of.ByHandle)
		root.Send(self, m)
	})
}

func (r *relay) held(c actor.Context, m held) {
	f := r.waitsFor(m.key, m.number)
	if f == nil {
		return
	}
	f.owned = f.owned || m.Owned || m.Given
	asked, lives := r.living(m.Node)
	switch {
	case errors.Is(m.err, cluster.ErrNoSession):
		r.findAround(c, f)
	case m.err != nil:
		r.findLater(c, f, m.err)
	case lives && !m.Given && (m.Owned || m.At != f.lacks):
		f.at, f.log = r.nodeOf(c, asked), m.At
		kernel.After(c, listTime, c.Self(), findAgain{f.Key, f.number})
		if f.at.conn != nil {
			r.askFor(f)
		}
	case f.owned: // it is where its handle leads, or about to be
		to := Found{Handle: m.Handle}
		if m.Given && lives {
			to.Node = m.Node
		}
		r.found(c, f, to)
	default:
		r.found(c, f, Found{})
	}
}

// living is another node that can be asked.
func (r *relay) living(name string) (is cluster.Node, lives bool) {
	for _, n := range r.shared.Members.Seen() {
		if n.Name == name && n.Lives && name != r.shared.Members.Self() {
			return n.Node, true
		}
	}
	return is, false
}

// askFor asks a node whether it has a session.
func (r *relay) askFor(f *finding) {
	number := f.number
	r.own(f.at, attachLine{Type: "list_open_sessions"}, func(r *relay, c actor.Context, n *node, a answer) {
		f := r.waitsFor(f.Key, number)
		if f == nil {
			return
		}
		for _, s := range r.openOn(n, a) {
			if f.ByHandle && s.SessionID == f.ID || !f.ByHandle && s.DurableID == f.ID {
				r.found(c, f, Found{Handle: s.SessionID, Node: n.Name})
				return
			}
		}
		f.lacks = f.log
		r.findLater(c, f, cluster.ErrNoSession)
	})
}

// findLater looks for a session again after a while, if it may still be found.
func (r *relay) findLater(c actor.Context, f *finding, why error) {
	switch {
	case time.Now().Before(f.until):
		f.number, f.pause = r.next(), min(max(2*f.pause, firstPause), mostPause)
		kernel.After(c, f.pause, c.Self(), findAgain{f.Key, f.number})
	case errors.Is(why, cluster.ErrNoSession):
		r.found(c, f, Found{})
	default:
		r.found(c, f, Found{Err: unavailable(why)})
	}
}

// findAgain looks for a session again, also where a node has not answered.
func (r *relay) findAgain(c actor.Context, m findAgain) {
	f := r.waitsFor(m.key, m.number)
	switch {
	case f == nil:
	case time.Now().After(f.until):
		r.findLater(c, f, cluster.ErrUnreachable)
	default:
		r.lookAt(c, f)
	}
}

// found ends the search for a session.
func (r *relay) found(c actor.Context, f *finding, m Found) {
	delete(r.finds, f.Key)
	m.Key = f.Key
	c.Send(r.side.router, m)
	r.maybeLeft(c)
}

// openOn is what a node has said that is open there.
func (r *relay) openOn(n *node, a answer) []protocol.OpenSessionInfo {
	var said struct {
		Data struct{ Sessions []protocol.OpenSessionInfo }
	}
	if err := json.Unmarshal(a.line, &said); err != nil {
		r.shared.Log.Warn().Err(err).Str("node", n.Name).Msg("sessions of a node are not listed")
	}
	return said.Data.Sessions
}
