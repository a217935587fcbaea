package relay

import (
	"strconv"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/kernel"
	"troupe/protocol"
)

// What the cluster does not keep is where it is open, and nowhere else: children, sessions in memory, those in which nothing was said
// yet. The engine knows nothing of them, so the nodes are asked, each once; one that is lost has none any more.

// search is a session that all other nodes are asked for.
type search struct {
	id       string
	byHandle bool                                                 // and not by its own id
	waits    map[string]bool                                      // nodes that have not answered
	late     *time.Timer                                          // sends askLate; nil before
	then     func(actor.Context, *node, protocol.OpenSessionInfo) // of the node that has it; nil for none
}

// none is a session that is not there.
var none protocol.OpenSessionInfo

// askLate says that who has not said by now whether it has a session is not waited for.
type askLate struct{ number uint64 }

// askAll asks all other nodes for a session.
func (r *relay) askAll(c actor.Context, q search) {
	number := r.next()
	q.waits = map[string]bool{}
	r.numbers.asked[number] = &q
	for _, is := range r.shared.Members.Seen() {
		if !is.Lives || is.Name == r.shared.Members.Self() || r.side.inner || isNumber(q.id) {
			continue
		}
		q.waits[is.Name] = true
		if n := r.nodeOf(c, is.Node); n.conn != nil {
			r.askNode(n, number)
		}
	}
	if len(q.waits) == 0 {
		r.asked(c, number, nil, none)
		return
	}
	q.late = kernel.After(c, listTime, c.Self(), askLate{number})
}

// isNumber says whether a handle is one of those that each node gives for itself.
func isNumber(handle string) bool {
	number, is := strings.CutPrefix(handle, "s")
	_, err := strconv.Atoi(number)
	return is && err == nil
}

func (r *relay) askNode(n *node, number uint64) {
	r.own(n, attachLine{Type: "list_open_sessions"}, func(r *relay, c actor.Context, n *node, a answer) {
		q := r.numbers.asked[number]
		if q == nil {
			return
		}
		for _, s := range r.openOn(n, a) {
			if s.SessionID == q.id || !q.byHandle && s.DurableID == q.id {
				r.asked(c, number, n, s)
				return
			}
		}
		r.hasNot(c, number, n)
	})
}

// hasNot notes that a node does not have a session, or will not say so any more.
func (r *relay) hasNot(c actor.Context, number uint64, n *node) {
	q := r.numbers.asked[number]
	if q == nil || !q.waits[n.Name] {
		return
	}
	if delete(q.waits, n.Name); len(q.waits) == 0 {
		r.asked(c, number, nil, none)
	}
}

func (r *relay) asked(c actor.Context, number uint64, at *node, is protocol.OpenSessionInfo) {
	if q := r.numbers.asked[number]; q != nil {
		if delete(r.numbers.asked, number); q.late != nil {
			q.late.Stop()
		}
		q.then(c, at, is)
	}
}

// askAround looks for a session that the cluster does not keep.
func (r *relay) askAround(c actor.Context, s *session) {
	s.looking.number = r.next()
	look := s.looking.number
	r.askAll(c, search{id: s.id, byHandle: true, then: func(c actor.Context, at *node, is protocol.OpenSessionInfo) {
		switch {
		case r.sessions[s.id] != s || s.looking.number != look:
		case at == nil:
			r.gone(c, s)
		default:
			s.at, s.looking.child, s.looking.number = at, is.TaskID != "", 0
			r.flush(c, s)
		}
	}})
}

// findAround is the same for one that may be meant by another name.
func (r *relay) findAround(c actor.Context, f *finding) {
	number := f.number
	r.askAll(c, search{id: f.ID, byHandle: f.ByHandle, then: func(c actor.Context, at *node, is protocol.OpenSessionInfo) {
		switch {
		case r.waitsFor(f.Key, number) == nil:
		case at == nil:
			r.found(c, f, Found{})
		default:
			r.found(c, f, Found{Handle: is.SessionID, Node: at.Name})
		}
	}})
}

// gone gives up a session that no node has. Its client is told, if it was lost with its node and not closed before.
func (r *relay) gone(c actor.Context, s *session) {
	if s.hears && !s.looking.closed {
		r.endAsked(c, s)
		if r.endSeen(c, s, interrupted); r.side.out.Wire.Has(protocol.FeatureSeq) {
			r.tell(c, s, protocol.Resync{Reason: "moved"})
		}
		r.tell(c, s, protocol.SessionFailed{Error: "Session failed: its node was lost, and no other has anything of it"})
	}
	r.giveUp(c, s, protocol.CodeUnknownSession.Errorf("Unknown session: %s", s.id))
}
