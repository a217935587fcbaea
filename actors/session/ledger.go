package session

import (
	"encoding/json"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/link"
	"troupe/protocol"
)

// ledger keeps the answers a session owes. It lives in the session's props, so
// it survives the actor: whatever happens inside, every command gets one
// answer and no more. Everything here runs on the actor's goroutine.
type ledger struct {
	owed    map[uint64]debt
	order   []uint64      // seqs of owed, oldest first; may name answered ones
	opening *link.Request // the open_session, until it is answered: it survives crashes, for its answer is all the client will know of the session
}

// debt is one answer that is owed.
type debt struct {
	id     json.RawMessage
	name   string
	tag    string // the sessionId the client wrote, if it wrote one
	client link.Client
	credit link.Credit // still to be given back: when the command reaches its handler, for a large answer when that is made
}

func newLedger() *ledger { return &ledger{owed: map[uint64]debt{}} }

func (l *ledger) note(r link.Request) {
	l.owed[r.Seq] = debt{id: r.ID, name: r.Name, tag: r.Tag, client: r.Client, credit: r.Credit}
	l.order = append(l.order, r.Seq)
	if _, ok := r.Cmd.(protocol.OpenSession); ok {
		one := r // only this one goes to the heap
		l.opening = &one
	}
	if len(l.order) > 64 && len(l.order) > 2*len(l.owed) {
		l.compact()
	}
}

func (l *ledger) compact() {
	kept := l.order[:0]
	for _, seq := range l.order {
		if _, ok := l.owed[seq]; ok {
			kept = append(kept, seq)
		}
	}
	l.order = kept
}

// handled says that a command has reached its handler: however long it takes,
// it is no longer on its way.
func (l *ledger) handled(r link.Request) {
	if d, ok := l.owed[r.Seq]; ok && !protocol.TraitsOf(r.Cmd).Large {
		d.credit.GiveBack()
		d.credit = link.Credit{}
		l.owed[r.Seq] = d
	}
}

// asker is the client that a command is still to be answered to; the zero value
// if it was answered.
func (l *ledger) asker(seq uint64) link.Client { return l.owed[seq].client }

// answer makes the response for a command and strikes it out. false means that
// it was answered before.
func (l *ledger) answer(seq uint64, data protocol.Result, err *protocol.Error) (link.Client, *protocol.Response, bool) {
	d, ok := l.owed[seq]
	if !ok {
		return link.Client{}, nil, false
	}
	delete(l.owed, seq)
	d.credit.GiveBack()
	if l.opening != nil && l.opening.Seq == seq {
		l.opening = nil
	}
	return d.client, &protocol.Response{ID: d.id, Command: d.name, Data: data, Err: err, SessionID: d.tag}, true
}

// answerAll answers everything, the open_session only if this is the end.
func (l *ledger) answerAll(root *actor.RootContext, err *protocol.Error, final bool) {
	for _, seq := range l.order {
		if !final && l.opening != nil && l.opening.Seq == seq {
			continue
		}
		if to, resp, ok := l.answer(seq, nil, err); ok {
			to.Send(root, link.Item{Response: resp})
		}
	}
	l.order = l.order[:0]
	if l.opening != nil {
		l.order = append(l.order, l.opening.Seq)
	}
}

// owes says whether a client has still to be answered.
func (l *ledger) owes(to link.Client) bool {
	for _, d := range l.owed {
		if d.client.Is(to) {
			return true
		}
	}
	return false
}

// settle answers everything that a client is still owed, or with a nil error
// strikes it out.
func (l *ledger) settle(root *actor.RootContext, who link.Client, err *protocol.Error) {
	for _, seq := range l.order {
		if d, ok := l.owed[seq]; !ok || !d.client.Is(who) {
			continue
		}
		if to, resp, ok := l.answer(seq, nil, err); ok && err != nil {
			to.Send(root, link.Item{Response: resp})
		}
	}
}
