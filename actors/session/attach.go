package session

import (
	"bytes"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/link"
	"troupe/protocol"
)

// attach tells a client the state. It hears every event from then on. One that
// says up to which event it has read is told what came since, exactly, or where the
// session stands now.
func (s *Session) attach(c actor.Context, r link.Request) {
	cmd, _ := r.Cmd.(protocol.AttachSession)
	s.clients.flush(c.ActorSystem().Root) // what came before the attach has its number
	numbered := r.Client.Wire.Has(protocol.FeatureSeq)
	if cl := s.clients.by(r.Client.Router); cl != nil {
		cl.viewer = cmd.Role == protocol.RoleViewer
	}
	defer s.clientsChanged(c)
	if err := s.clients.cannotResume(cmd.Since, numbered, s.shared.Epoch); err != nil {
		s.refuseAttach(r, err)
		return
	}
	data := protocol.AttachedSession{SessionID: s.handle, State: s.m.State()}
	open := s.clients.stands.open(r.Client.Wire)
	data.Clients, data.Dialogs, data.Approvals = s.clients.names(), open.Dialogs, open.Approvals
	if !numbered {
		s.growing(r.Client)
		if bytes.HasPrefix(r.ID, []byte(`"`+link.OwnID)) {
			s.attachAgain(r.Seq, r.Client, data)
		} else {
			s.reply(r.Seq, data, nil)
		}
		return
	}
	data.Epoch, data.Seq = s.shared.Epoch, int64(s.clients.seq)
	events, why := s.clients.resume(cmd.Since, r.Client, s.shared.Epoch)
	if why == "" {
		data.Replay, data.Replayed = "exact", new(len(events))
		if len(events) == 0 {
			s.growing(r.Client)
		}
		s.reply(r.Seq, data, nil)
		s.clients.replay(r.Client, events, uint64(cmd.Since.Seq))
		return
	}
	s.growing(r.Client)
	if cmd.Since != nil || cmd.Snapshot != nil {
		var err error
		data.Replay, data.Why = "snapshot", why
		if data.Snapshot, err = s.stand(cmd.Snapshot); err != nil {
			s.refuseAttach(r, protocol.CodeIO.Errorf("Session cannot be read: %s", err))
			return
		}
		data.Snapshot.Entries = s.withRefs(r.Client, protocol.EntryList{Entries: data.Snapshot.Entries}).Entries
		data.Snapshot.Dialogs, data.Snapshot.Approvals = open.Dialogs, open.Approvals
	}
	s.reply(r.Seq, data, nil)
}

// refuseAttach leaves a client what it was.
func (s *Session) refuseAttach(r link.Request, err *protocol.Error) {
	if who := s.clients.by(r.Client.Router); who != nil {
		who.attaching = 0
	}
	s.reply(r.Seq, nil, err)
}

// growing tells the writer of a client the message that is open, which it has not
// seen begin, so that it can show it whole.
func (s *Session) growing(to link.Client) {
	for _, ev := range s.m.Growing() {
		it := link.Item{Event: ev, Known: true, Size: link.RecordSize}
		s.clients.unsent = append(s.clients.unsent, outgoing{to: to, item: it, past: true})
	}
}

// Of what a snapshot has of the entries, unless the client says so.
const (
	snapshotEntries = 200
	snapshotBytes   = 1 << 20
)

// stand is where the session stands: the newest entries, and what is open.
func (s *Session) stand(of *protocol.SnapshotLimits) (*protocol.Snapshot, error) {
	limit, bytes := snapshotEntries, snapshotBytes
	if of != nil && of.Limit > 0 {
		limit = of.Limit
	}
	if of != nil && of.MaxBytes > 0 {
		bytes = of.MaxBytes
	}
	view := s.file.View()
	entries, more, err := view.Newest(limit, bytes)
	if err != nil {
		return nil, err
	}
	shot := &protocol.Snapshot{Entries: entries, HasMore: more, LeafID: view.LeafID(), Tools: s.m.OpenCalls()}
	shot.Steering, shot.FollowUp = s.m.Queued()
	if msg, run := s.m.Partial(); msg != nil {
		shot.Partial = &protocol.PartialMessage{Message: msg, RunID: run}
	}
	return shot, nil
}

// cannotResume says what is wrong with the place from which a client wants to go on.
func (a *clients) cannotResume(since *protocol.StreamPosition, numbered bool, epoch string) *protocol.Error {
	switch {
	case since == nil:
		return nil
	case !numbered:
		return protocol.CodeResyncRequired.Errorf("since needs the feature seq")
	case since.Seq < 0 || since.Epoch == epoch && uint64(since.Seq) > a.seq:
		return protocol.CodeResyncRequired.Errorf("The session has no event %d: the last one is %d", since.Seq, a.seq)
	}
	return nil
}

// resume is what a client has missed; or why that cannot be told.
func (a *clients) resume(since *protocol.StreamPosition, who link.Client, epoch string) (events []link.Item, why string) {
	switch {
	case since == nil:
		return nil, "asked"
	case since.Epoch != epoch:
		return nil, "epoch"
	}
	missed, ok := a.ring.since(uint64(since.Seq), a.seq)
	if !ok {
		return nil, "gone"
	}
	if len(missed) == 0 || who.Wire.Has(protocol.FeatureDeltaUpdates) {
		return missed, ""
	}
	known, ok := a.ring.known(uint64(since.Seq))
	if !ok {
		return nil, "gone"
	}
	a.pastFor(who, known)
	return missed, ""
}

// replay tells a client what it has missed, behind the answer to its attach.
func (a *clients) replay(to link.Client, events []link.Item, seq uint64) {
	if n := len(a.unsent); n > 0 && a.unsent[n-1].item.Response != nil {
		a.unsent[n-1].past = true
		a.unsent[n-1].item.Response.At, a.unsent[n-1].item.Response.Rewinds = seq, true
	}
	for i := range events {
		events[i].Owed = true
	}
	a.pastFor(to, events)
}

func (a *clients) pastFor(to link.Client, events []link.Item) {
	for _, it := range events {
		a.unsent = append(a.unsent, outgoing{to: to, item: it, past: true})
	}
}
