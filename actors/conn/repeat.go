package conn

import (
	"hash/fnv"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/link"
	"troupe/protocol"
)

// fingerprint tells lines apart.
func fingerprint(line []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(line)
	return h.Sum64()
}

// nameClient notes what the client says of itself.
func (r *router) nameClient(c actor.Context, name *protocol.ClientRef) {
	r.closeLedger(c)
	if r.out.Who = nil; name != nil {
		r.out.Who = &link.Who{Ref: *name}
		r.openLedger(c)
	}
}

// openLedger begins to remember what the client is answered, if it has named itself. One
// that may only look has nothing to repeat, and by the name of another it would be sent
// the answers to that one's commands.
func (r *router) openLedger(c actor.Context) {
	if name := r.out.Name(); name != nil && name.ClientID != "" && !r.cfg.ViewOnly {
		by := r.out
		by.Router = c.Self()
		var single *actor.PID
		if r.cfg.Single {
			single = c.Parent()
		}
		ledger, older := r.server.Ledgers.Of(name.ClientID, by, single)
		r.out.Who = &link.Who{Ref: *name, Ledger: ledger}
		if older != nil {
			c.Send(older, replaced{})
		}
	}
}

func (r *router) closeLedger(c actor.Context) {
	if ledger := r.out.Ledger(); ledger != nil {
		ledger.Leave(c.Self(), c.Parent())
		r.out.Who = &link.Who{Ref: r.out.Who.Ref}
	}
}

// repeats deals with a command that the client has sent before, perhaps by another
// connection; false if it is to be carried out.
func (r *router) repeats(c actor.Context, req protocol.Request) bool {
	if r.out.Ledger() == nil || r.current.line == 0 || !actsOnce(req) {
		return false
	}
	seen, answer, tag := r.out.Ledger().Begin(string(req.ID), r.current.line)
	switch seen {
	case link.Fresh:
		return false
	case link.Reused:
		r.current.release()
		r.current.owed = false
		to := r.out
		to.Who = nil // the answer is to the command that had the id
		to.Send(c.ActorSystem().Root, link.Item{Response: &protocol.Response{
			ID: req.ID, Command: req.Name, Err: protocol.CodeDuplicateCommand.Errorf("The id was used for another command"),
		}})
	case link.Answered:
		r.current.release()
		r.current.owed = false
		to := r.out
		to.Tag = tag
		to.Send(c.ActorSystem().Root, link.Item{Response: answer})
	case link.UnderWay:
		r.current.release()
		r.current.owed = false
	}
	return true
}

// actsOnce says whether a command that comes again must do nothing again, which takes an
// id to know it by.
func actsOnce(req protocol.Request) bool {
	return req.Spec != nil && req.Spec.Is(protocol.ActsOnce) && len(req.ID) > 0 && req.ID[0] == '"'
}
