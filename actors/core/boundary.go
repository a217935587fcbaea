package core

import (
	"slices"

	"troupe/protocol"
)

// asking: extensions are asked what follows, at the end of a turn or of a run or before the
// session settles. Messages that come meanwhile wait in the queues.
type asking struct {
	step            // with its run at the end of that or of a turn, without one before rest
	hook    int     // the open one
	outcome string  // of the run that is over
	pending int     // messages that were queued when it began
	end     *ending // of the run; nil at another moment
}

func (*asking) phase() Phase           { return PhaseStreaming }
func (a *asking) waitingFor() []string { return []string{"extension " + a.at()} }

// at is the moment about which extensions are asked.
func (a *asking) at() string {
	switch {
	case a.run == nil:
		return "agent_before_settle"
	case a.end != nil:
		return "agent_end"
	default:
		return "turn_end"
	}
}

// askAt asks extensions at the end of something.
func (m *Machine) askAt(a *asking, h Hook) {
	a.pending = m.Pending()
	m.enter(a)
	a.hook = m.callHook(h)
}

// endRun closes the run, when extensions have seen that it ends: what they begin with it comes
// before anybody hears that it is over, and a message of theirs is a run of the same work.
func (m *Machine) endRun(r *run, e ending) {
	if !m.listens(HookAgentEnd) || e.outcome == aborted || m.stopping() {
		m.closeRun(r, e)
		return
	}
	m.askAt(&asking{step: step{run: r}, outcome: e.outcome, end: &e}, AgentEndHook{r.messages})
}

// endsRun says whether extensions look at the end of a run.
func (m *Machine) endsRun() bool {
	a, is := m.activity.(*asking)
	return is && a.end != nil
}

// turnEndHook is the turn that ends.
func (r *run) turnEndHook() TurnEndHook {
	h := TurnEndHook{Turn: r.turns - 1, Message: r.answer, MessageID: r.answerID, Results: r.results, Continue: r.wantsMore()}
	for _, c := range r.calls {
		h.ResultIDs = append(h.ResultIDs, c.entry)
	}
	return h
}

// asked takes what extensions say about what follows.
func (m *Machine) asked(a *asking, answer HookAnswer) {
	said, _ := answer.(Proposed)
	if a.end != nil {
		a.end.more = m.Pending() > a.pending
		m.closeRun(a.run, *a.end)
		return
	}
	if a.run != nil {
		a.run.verdict = said.Continue
		m.turnEnd(a.run)
		m.takeDrafts(a.run, said.Entries)
		m.turnOver(a.run)
		return
	}
	m.enter(idle{})
	m.takeDrafts(nil, said.Entries)
	switch goesOn := said.Continue != nil && *said.Continue; {
	case m.stopping() || m.model == nil:
		m.announceSettled(a.outcome)
	case m.Pending() > a.pending:
		m.startRun(cause{queued: true})
	case goesOn:
		m.startRun(cause{})
	default:
		m.announceSettled(a.outcome)
	}
}

// takeDrafts adds entries that extensions want at the end of something.
func (m *Machine) takeDrafts(r *run, drafts []protocol.Entry) {
	for _, e := range drafts {
		switch e := e.(type) {
		case protocol.CustomMessageEntry:
			m.inject(r, e)
		case protocol.ContextEdit:
			if m.log.Has(e.TargetID) {
				m.append(e)
			} else {
				m.emit(protocol.ExtensionError{ExtensionPath: "<runtime>", Event: "context_edit", Error: "no entry " + e.TargetID})
			}
		default:
			m.append(e)
		}
	}
}

// stopAsking ends the wait without an answer, as an outcome.
func (m *Machine) stopAsking(a *asking, outcome string) {
	m.do(CancelHook{a.hook})
	if a.run == nil {
		m.enter(idle{})
		m.announceSettled(a.outcome)
		return
	}
	if a.end != nil {
		m.closeRun(a.run, ending{outcome: outcome})
		return
	}
	m.turnEnd(a.run)
	m.abortTurn(a.run, outcome)
}

// settle ends what an input has caused: extensions may want more.
func (m *Machine) settle(outcome string) {
	if m.work.unsettled && m.listens(HookBeforeSettle) && outcome != aborted && !m.stopping() {
		m.askAt(&asking{outcome: outcome}, BeforeSettleHook{outcome})
		return
	}
	m.announceSettled(outcome)
}

// replaced is the calls of an answer that an extension has put in the place of
// another: those that are in both keep what is known of their arguments.
func (s *stream) replaced(msg *protocol.AssistantMessage) (calls []*call) {
	own := s.calls()
	for _, b := range msg.Content.ToolCalls() {
		c := &call{ToolCall: b}
		if i := slices.IndexFunc(own, func(o *call) bool { return o.ID == b.ID && string(o.Arguments) == string(b.Arguments) }); i >= 0 {
			c.unfit = own[i].unfit
		}
		calls = append(calls, c)
	}
	return calls
}
