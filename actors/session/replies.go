package session

import (
	"encoding/json"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/core"
	"troupe/actors/link"
	"troupe/protocol"
)

// replies keeps the answers that a session owes. It survives the actor: whatever
// happens inside, every command gets one answer and no more.
type replies struct {
	pending   map[uint64]pendingReply
	whole     map[uint64]link.Request // in a cluster, what is pending as it came: it may have to go to another node
	untouched bool                    // nothing of it was begun, as the session could not be opened here
	held      map[uint64]bool         // of those, what has had no effect: it came when the session was about to go
	order     []uint64                // seqs of pending, oldest first; may name answered ones
	opening   *link.Request           // the open_session, until it is answered: it survives crashes, for its answer is all the client will know of the session
	late      []core.Reply            // replies that a crashed session left to the restarted one
}

// pendingReply is one answer that is owed. A map keeps up to 128 bytes in place,
// which is what this takes.
type pendingReply struct {
	id      json.RawMessage
	name    string
	tag     string // the sessionId the client wrote, if it wrote one
	client  link.Client
	allowed func(path string) bool // see [link.Request.Allowed]
	credit  link.Credit            // still to be given back: when the command reaches its handler, for a large answer when that is made
}

// expect notes that a command is to be answered.
func (r *replies) expect(m link.Request) {
	if r.pending == nil {
		r.pending, r.whole = map[uint64]pendingReply{}, map[uint64]link.Request{}
	}
	r.pending[m.Seq] = pendingReply{id: m.ID, name: m.Name, tag: m.Tag, client: m.Client, allowed: m.Allowed, credit: m.Credit}
	if m.Line != nil {
		r.whole[m.Seq] = m
	}
	r.order = append(r.order, m.Seq)
	if _, ok := m.Cmd.(protocol.OpenSession); ok {
		r.opening = new(m) // only this one goes to the heap
	}
	if len(r.order) > 64 && len(r.order) > 2*len(r.pending) {
		r.order = slices.DeleteFunc(r.order, func(seq uint64) bool { return !r.expects(seq) })
	}
}

func (r *replies) expects(seq uint64) bool {
	_, ok := r.pending[seq]
	return ok
}

// handled says that a command has reached its handler: however long it takes,
// it is no longer on its way.
func (r *replies) handled(m link.Request) {
	if p, ok := r.pending[m.Seq]; ok && !protocol.TraitsOf(m.Cmd).Is(protocol.Large) {
		p.credit.GiveBack()
		p.credit = link.Credit{}
		r.pending[m.Seq] = p
	}
}

// asker is the client that a command is still to be answered to; the zero value
// if it was answered.
func (r *replies) asker(seq uint64) link.Client { return r.pending[seq].client }

// answer makes the response for a command and strikes it out. false means that
// it was answered before.
func (r *replies) answer(seq uint64, data protocol.Result, err *protocol.Error) (link.Client, *protocol.Response, bool) {
	p, ok := r.pending[seq]
	if !ok {
		return link.Client{}, nil, false
	}
	delete(r.pending, seq)
	delete(r.whole, seq)
	delete(r.held, seq)
	p.credit.GiveBack()
	if r.opening != nil && r.opening.Seq == seq {
		r.opening = nil
	}
	return p.client, &protocol.Response{ID: p.id, Command: p.name, Data: data, Err: err, SessionID: p.tag}, true
}

// failAll answers everything with errors, the open_session only if this is the
// end.
func (r *replies) failAll(root *actor.RootContext, why func(seq uint64) *protocol.Error, final bool) {
	for _, seq := range r.order {
		if r.expects(seq) && (final || !r.outlives(seq)) {
			r.send(root, seq, why(seq))
		}
	}
	r.order = slices.DeleteFunc(r.order, func(seq uint64) bool { return !r.expects(seq) })
}

// known keeps a reply for the restarted session.
func (r *replies) known(answer core.Reply) {
	if r.expects(answer.Seq) {
		r.late = append(r.late, answer)
	}
}

// outlives reports whether a command is answered by the restarted session.
func (r *replies) outlives(seq uint64) bool {
	return r.opening != nil && r.opening.Seq == seq || slices.ContainsFunc(r.late, func(a core.Reply) bool { return a.Seq == seq })
}

func (r *replies) send(root *actor.RootContext, seq uint64, err *protocol.Error) {
	if to, resp, ok := r.answer(seq, nil, err); ok {
		to.Send(root, link.Item{Response: resp})
	}
}

// closing makes answers that are to come behind the end of the session: who has
// read them finds it no more.
func (r *replies) closing(err *protocol.Error, seqs ...uint64) (last []link.CloseReply) {
	for _, seq := range seqs {
		if to, resp, ok := r.answer(seq, nil, err); ok {
			last = append(last, link.CloseReply{To: to, Response: resp})
		}
	}
	return last
}

// owed are the commands of a client that are still to be answered, oldest first.
func (r *replies) owed(to link.Client) (seqs []uint64) {
	for _, seq := range r.order {
		if r.expects(seq) && r.asker(seq).Is(to) {
			seqs = append(seqs, seq)
		}
	}
	return seqs
}

// failClient answers with an error whatever a client is still owed; with a nil
// error, which is for a client that cannot be told, it is owed nothing any more.
func (r *replies) failClient(root *actor.RootContext, who link.Client, err *protocol.Error) {
	for _, seq := range r.owed(who) {
		if err == nil {
			r.answer(seq, nil, nil)
		} else {
			r.send(root, seq, err)
		}
	}
}
