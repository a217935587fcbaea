package session

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/core"
	"troupe/actors/link"
	"troupe/actors/worker"
	"troupe/protocol"
)

// ask shows clients a dialog of the machine, and waits for the answer.
func (s *Session) ask(c actor.Context, e core.AskUI) {
	s.oneByOne(c, e.Request.ID, func(c actor.Context) { s.askNow(c, e) })
}

func (s *Session) askNow(c actor.Context, e core.AskUI) {
	if e.Approval != nil {
		s.clients.stands.ask(*e.Approval)
		s.emit(*e.Approval)
	} else {
		s.clients.stands.note(e.Request, true)
		s.emit(e.Request)
	}
	s.tellUI(c, worker.AskUI{Request: e.Request})
	s.unseen(c)
}

// oneByOne shows a dialog, behind those that were asked before it where the dialect shows one at
// a time.
func (s *Session) oneByOne(c actor.Context, id string, show func(actor.Context)) {
	if stands := &s.clients.stands; s.rules.OneDialog && (stands.asks() || len(stands.waits) > 0) {
		stands.waits = append(stands.waits, unshown{id, show})
		return
	}
	show(c)
}

// nextDialog shows the dialog whose turn it is.
func (s *Session) nextDialog(c actor.Context) {
	for stands := &s.clients.stands; len(stands.waits) > 0 && !stands.asks(); {
		next := stands.waits[0]
		stands.waits = stands.waits[1:]
		next.show(c)
	}
}

// unseen ends the dialogs that nobody who is there can show, unless somebody may still
// come. A session that is not retained ends where nobody is there at all; what a child asks is
// shown to the clients of its parent, too.
func (s *Session) unseen(c actor.Context) {
	if s.waitsForSomebody() || s.spec.Child != nil || s.clients.attached() == 0 && !s.spec.Retain {
		return
	}
	for i := range s.clients.stands.list {
		x := &s.clients.stands.list[i]
		id := x.dialogID()
		if id == "" || x.answer != nil || s.clients.show(x.record) {
			continue
		}
		x.answer = &protocol.DialogOver{Outcome: string(protocol.DialogLost)}
		s.tellUI(c, worker.AnswerUI{Answer: protocol.ExtensionUIResponse{ID: id, Cancelled: true}})
	}
}

// waitsForSomebody says whether dialogs stay open when nobody is there who can answer.
func (s *Session) waitsForSomebody() bool {
	return (s.spec.Retain || s.life.goesOn) && !s.shared.DenyUnattended
}

// dialogOver takes a dialog away from those who are shown it. That of an approval is taken
// away by its approval_resolved. nil if it is not open.
func (s *Session) dialogOver(id string, how protocol.DialogOver) *shown {
	x := s.clients.stands.closed(id)
	if x == nil {
		return nil
	}
	if _, is := x.record.(protocol.ExtensionUIRequest); is {
		s.clients.stands.remember(id, how)
		if s.clients.wants.dialogs {
			s.emit(protocol.DialogResolved{ID: id, Outcome: protocol.DialogOutcome(how.Outcome), By: how.By})
		}
	}
	return x
}

// uiAnswered takes the end of a dialog from the worker that keeps them.
func (s *Session) uiAnswered(c actor.Context, m core.UIAnswered) {
	how := protocol.DialogOver{Outcome: string(protocol.DialogTimeout)}
	if x := s.clients.stands.dialog(m.ID); x != nil && x.answer != nil {
		how, m.By = *x.answer, x.answer.By
	}
	if s.trustAnswered(c, m, how) || s.dialogAnswered(m, how) {
		s.partingAsks(c)
		s.nextDialog(c)
		s.clients.flush(c.ActorSystem().Root)
		s.report(c)
		return
	}
	goOn := func(c actor.Context) {
		s.dialogOver(m.ID, how)
		s.step(c, m)
	}
	if !s.answeredForProject(c, m, goOn) {
		goOn(c)
	}
}

// dialogsLost takes away what nobody can answer any more: who has asked is gone.
func (s *Session) dialogsLost() {
	lost := protocol.DialogOver{Outcome: string(protocol.DialogLost)}
	s.clients.stands.waits = nil
	open := s.clients.stands.open(&protocol.Wire{Features: map[protocol.Feature]bool{protocol.FeatureApprovals: true}})
	for _, d := range open.Dialogs {
		s.dialogOver(d.ID, lost)
	}
	for _, a := range open.Approvals {
		s.emit(protocol.ApprovalResolved{ID: a.ID, ToolCallID: a.ToolCallID, Outcome: "cancelled"})
	}
	s.trustUnanswered()
}

// askedBefore says whether a dialog was open in an earlier life of the session, perhaps on another node, and is not any more: what
// that life has asked about calls is asked again under its id, if it is, before the run is over.
func (s *Session) askedBefore(id string) bool {
	again := !protocol.AsksOnce(id) && (s.m.AsksAgain() || !s.m.AtRest())
	return ofAnotherLife(id, s.life.ids) && s.clients.stands.dialog(id) == nil && !again
}

// endsOfAsking are the ends of the dialogs and commands of extensions, and of what children ask, where the session goes on
// without them. What the session itself asks about calls is asked again under its id, unless runs do not go on elsewhere.
func (s *Session) endsOfAsking() (list []protocol.Event) {
	open := s.clients.stands.open(&protocol.Wire{Features: map[protocol.Feature]bool{protocol.FeatureApprovals: true}})
	once := func(id string) bool { return protocol.AsksOnce(id) || s.shared.Cluster.Stop }
	for _, a := range open.Approvals {
		if once(a.ID) {
			list = append(list, protocol.ApprovalResolved{ID: a.ID, ToolCallID: a.ToolCallID, Outcome: "cancelled"})
		}
	}
	for _, d := range open.Dialogs {
		if once(d.ID) {
			list = append(list, protocol.DialogResolved{ID: d.ID, Outcome: protocol.DialogLost})
		}
	}
	for _, name := range slices.Concat(s.reported.commands.over, s.reported.commands.running) {
		list = append(list, protocol.ExtensionCommandEnd{Name: name})
	}
	return list
}

// answerer is who answers a dialog: of a child, the client of its parent.
func (s *Session) answerer(r link.Request) *protocol.ClientRef {
	if s.askedByParent(r) {
		return r.By
	}
	return r.Client.Name()
}

// isEarly says whether a command answers a dialog of an earlier life that is not asked again yet: a client has not
// heard that the life is over.
func (s *Session) isEarly(r link.Request) bool {
	switch cmd := r.Cmd.(type) {
	case protocol.ApprovalResponse:
		return s.m.WillAsk(cmd.ApprovalID)
	case protocol.ExtensionUIResponse:
		return s.m.WillAsk(cmd.ID)
	}
	return false
}

// takeEarly takes the answers that have waited until they were asked for, or are not any more.
func (s *Session) takeEarly(c actor.Context) {
	early := s.inputs.early
	s.inputs.early = nil
	for _, r := range early {
		if !s.life.state.over() { // else it goes where the session is
			s.command(c, r)
		}
	}
}

// tooLate refuses an answer to a dialog that is over, or has an answer. A client that was
// written before there was such a refusal does not get it.
func (s *Session) tooLate(r link.Request) *protocol.Error {
	id, answers := "", false
	switch cmd := r.Cmd.(type) {
	case protocol.ApprovalResponse:
		id, answers = cmd.ApprovalID, true
	case protocol.ExtensionUIResponse:
		id, answers = cmd.ID, r.Client.Wire.Has(protocol.FeatureDialogEvents)
		defer s.clients.stands.answered(cmd, s.answerer(r))
	}
	if !answers {
		return nil
	}
	how := s.clients.stands.past(id)
	if _, is := r.Cmd.(protocol.ExtensionUIResponse); how == nil && is && s.askedBefore(id) {
		how = &protocol.DialogOver{Outcome: string(protocol.DialogLost)}
	}
	if how == nil {
		return nil
	}
	err := protocol.CodeDialogOver.Errorf("The dialog is over: %s", how.Outcome)
	err.Data = *how
	return err
}
