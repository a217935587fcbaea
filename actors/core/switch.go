package core

import (
	"slices"

	"troupe/protocol"
)

// sessionSwitch is a command that puts another session in this one's place. The
// other session is loaded first, while a run goes on: a path that cannot be
// loaded costs an error and nothing else. Commands sent meanwhile wait, so that
// they reach the session they were meant for. While navigate_tree waits for a
// model's summary, only those wait to which the branch matters. While extensions
// are asked whether it may be, an abort withdraws it; while a person is, queries
// are about the session that is still there.
type sessionSwitch struct {
	cmd             Command
	asks, dialog    bool                    // extensions are asked; they ask a person
	arrived         *SessionLoaded          // it waits for queries that read the file; nil for none
	to              SessionLoaded           // once it is loaded
	summary         *protocol.BranchSummary // of the branch that is left, if there is to be one
	queuedMeanwhile bool                    // messages came during the summary: a run is to follow
	again           protocol.SeenKey        // the command was given before, and this came of it
}

func (w *sessionSwitch) navigation() (nav protocol.NavigateTree, is bool) {
	nav, is = w.cmd.Cmd.(protocol.NavigateTree)
	return nav, is
}

func (m *Machine) beginSwitch(c Command) {
	w := &sessionSwitch{cmd: c}
	if key := keyOfCommand(c.Cmd); key.Key != "" {
		if seen := m.keys.find(key.Key); seen != nil {
			w.again = *seen
		}
		switch {
		case w.again.Key.Key != "" && m.conflicts(c, &w.again, key):
			return
		case w.again.Disposition == protocol.KeyDone:
			m.done(c, Arrived(c.Cmd, w.again.Text))
			return
		}
	}
	m.swap = w
	if _, whole := c.Cmd.(protocol.Clone); whole {
		m.stop(aborted) // the copy has what the run came to
	}
	m.do(LoadSession{Seq: c.Seq, Name: c.Name, Cmd: c.Cmd, Again: w.again.Next})
}

// Arrived is the answer to a command that has put another session, or branch, in the place
// of this one: nobody objected.
func Arrived(cmd protocol.Command, text string) protocol.Result {
	switch cmd.(type) {
	case protocol.Fork:
		return protocol.ForkResult{Text: text}
	case protocol.NavigateTree:
		return protocol.NavigateResult{EditorText: text}
	default:
		return protocol.Cancelled{}
	}
}

// swapOf is the switch that a command has begun, nil if it is over.
func (m *Machine) swapOf(seq uint64) *sessionSwitch {
	if m.swap != nil && m.swap.cmd.Seq == seq {
		return m.swap
	}
	return nil
}

// apply notes who is asked whether a switch may be, and lets go on what does not
// wait for that.
func (in SwitchAsked) apply(m *Machine) {
	w := m.swapOf(in.Seq)
	if w == nil {
		return
	}
	w.asks, w.dialog = true, in.Dialog
	m.waiting = slices.DeleteFunc(m.waiting, func(c Command) bool {
		passes := m.passesSwitch(c)
		if passes {
			m.takeUp(c)
		}
		return passes
	})
	if slices.ContainsFunc(m.waiting, m.endsSwitch) {
		m.cancelSwitch()
	}
}

// endsSwitch says whether a command withdraws the switch about which extensions are
// asked: one that stops what goes on, and does not want another session itself.
func (m *Machine) endsSwitch(c Command) bool {
	traits := protocol.TraitsOf(c.Cmd)
	return m.swap != nil && m.swap.asks && traits.Is(protocol.EndsNavigation) && !traits.Replaces()
}

// passesSwitch says whether a command need not wait for the person who is asked about a
// switch: it looks at what is there, or ends a part of it.
func (m *Machine) passesSwitch(c Command) bool {
	traits := protocol.TraitsOf(c.Cmd)
	return m.swap != nil && m.swap.dialog && (traits.Scope == protocol.ScopeQuery || traits.Scope == protocol.ScopeSession && traits.Is(protocol.EndsWork))
}

// apply ends the outgoing session's run, drops its queues and goes over to
// the one that was loaded.
func (in SessionLoaded) apply(m *Machine) {
	w := m.swapOf(in.Seq)
	switch {
	case w == nil:
		m.do(DropLoaded{in.Seq})
		return
	case in.Err != nil:
		m.endSwitch(Reply{Seq: in.Seq, Err: in.Err})
		return
	case in.Veto:
		m.endSwitch(Reply{Seq: in.Seq, Data: vetoed(w.cmd.Cmd)})
		return
	case len(m.slowQueries) > 0:
		w.arrived = &in
		return
	}
	w.asks, w.dialog, w.to = false, false, in
	if in.Nav != nil {
		w.cmd.Cmd = *in.Nav
	}
	nav, isNav := w.navigation()
	nav.Summarize = nav.Summarize && in.Summary == nil
	switch {
	case isNav && in.Stay:
		m.emit(m.changed("tree"))
		m.endSwitch(Reply{Seq: w.cmd.Seq, Data: protocol.NavigateResult{}})
		return
	case isNav && nav.Summarize && (m.model == nil || m.model.Missing):
		m.endSwitch(Reply{Seq: w.cmd.Seq, Err: protocol.CodeNoModel.Errorf("No model available for summarization")})
		return
	}
	m.stop(aborted)
	m.checkBudget()
	if why := m.overBudget(); why != "" && isNav && nav.Summarize {
		m.abandonSwitch(refusedByBudget(why))
		return
	}
	switch {
	case isNav && nav.Summarize && slices.ContainsFunc(m.waiting, func(c Command) bool { return protocol.TraitsOf(c.Cmd).Is(protocol.EndsNavigation) }):
		m.cancelSwitch()
		return
	case isNav && nav.Summarize:
		m.leaveBranch(nav)
		return
	case in.Summary != nil:
		w.summary = in.Summary
	case !isNav: // queues and commands are the session's, not the branch's
		m.dropQueues()
		m.recordBashes()
		if w.isAgain() {
			w.to.Text = w.again.Text
		} else if in.To.File != "" {
			m.noteKey(protocol.SeenKey{Key: keyOfCommand(w.cmd.Cmd), Disposition: protocol.KeyLeft, Next: in.To.File, Text: in.Text})
		}
	}
	m.activate()
}

// vetoed answers a command that an extension has not let happen.
func vetoed(cmd protocol.Command) protocol.Result {
	switch cmd.(type) {
	case protocol.Fork:
		return protocol.ForkResult{Cancelled: true}
	case protocol.NavigateTree:
		return protocol.NavigateResult{Cancelled: true}
	default:
		return protocol.Cancelled{Cancelled: true}
	}
}

// leaveBranch asks for a summary of the branch. What the branch does not matter
// to needs no longer wait.
func (m *Machine) leaveBranch(nav protocol.NavigateTree) {
	a := &leavingBranch{step{attempt: m.newAttempt()}}
	m.enter(a)
	m.request(a.attempt, Summarise{ // that the budget allows it is known
		Attempt: a.attempt, Model: m.model, Level: m.Level(), Branch: m.swap.cmd.Seq,
		Instructions: nav.CustomInstructions, Replace: nav.ReplaceInstructions, Repeats: m.RepeatsAllowed(),
	})
	for len(m.waiting) > 0 && protocol.TraitsOf(m.waiting[0].Cmd).KeepsBranch() {
		c := m.waiting[0]
		m.waiting = m.waiting[1:]
		m.takeUp(c)
	}
}

// isAgain says that the session which was loaded is the one that the same command has begun
// before.
func (w *sessionSwitch) isAgain() bool { return w.again.Next != "" && w.again.Next == w.to.To.File }

func (m *Machine) activate() {
	m.enter(&activating{})
	m.do(ActivateSession{m.swap.cmd.Seq})
}

// branchSummarised goes where navigate_tree wants to go, with a summary of what
// is left. Without one nothing moves.
func (m *Machine) branchSummarised(in Summarised) {
	if in.Branch != nil {
		m.spendSummary(in.Branch.Usage)
	}
	if in.Err != nil {
		m.abandonSwitch(protocol.CodeProvider.Errorf("%s", in.Err.Message))
		return
	}
	m.swap.summary = in.Branch
	m.activate()
}

// cancelSwitch gives up a switch for whose summary, or for what extensions say to it,
// the client does not want to wait. What was queued meanwhile stays queued.
func (m *Machine) cancelSwitch() {
	m.swap.queuedMeanwhile = false
	m.do(DropLoaded{m.swap.cmd.Seq})
	m.endSwitch(Reply{Seq: m.swap.cmd.Seq, Data: vetoed(m.swap.cmd.Cmd)})
}

// abandonSwitch lets go of a session that was loaded in vain.
func (m *Machine) abandonSwitch(why *protocol.Error) {
	m.do(DropLoaded{m.swap.cmd.Seq})
	m.endSwitch(Reply{Seq: m.swap.cmd.Seq, Err: why})
}

// switchLost ends a switch in which an entry could not be written, or whose
// session is not what it was.
func (m *Machine) switchLost(why *protocol.Error) {
	if m.swap != nil {
		m.abandonSwitch(why)
	}
}

// apply takes on the other session's identity and answers.
func (in SessionActivated) apply(m *Machine) {
	w := m.swapOf(in.Seq)
	if _, ok := m.activity.(*activating); !ok || w == nil {
		return
	}
	to := w.to.To
	if in.To != nil {
		to = *in.To
	}
	_, isNav := w.navigation()
	for i := range m.bashes {
		m.bashes[i].left = m.bashes[i].left || !isNav
	}
	m.load(to)
	m.loadModel(to)
	if !isNav {
		m.arriveAtTodos(to)
		m.loadBudget(to.Spent)
		m.workWasCut(to)
	}
	m.work.recovered, m.work.futile = false, false
	m.finishBranch(to)
	m.recordArrival(w)
	reason := "fork"
	switch w.cmd.Cmd.(type) {
	case protocol.NewSession:
		reason = "new"
		m.headless = false
		if !w.isAgain() {
			m.stampSettings()
		}
	case protocol.SwitchSession:
		reason = "switch"
	case protocol.NavigateTree:
		reason = "tree"
	default: // a clone is a fork at the leaf
	}
	m.noteLimits()
	m.keepChoices(nil)
	if !w.isAgain() {
		m.noteKey(protocol.SeenKey{Key: keyOfCommand(w.cmd.Cmd), Disposition: protocol.KeyDone, Text: w.to.Text})
	}
	m.emit(m.changed(reason))
	// The session is there, whatever cannot be written of it; a summary that was asked for is not.
	m.endSwitch(Reply{Seq: in.Seq, Data: Arrived(w.cmd.Cmd, w.to.Text), Regardless: w.summary == nil})
}

// Arrival returns the reply to the command that is replacing this session with another one. It returns the zero value
// while no session is being replaced.
func (m *Machine) Arrival() Reply {
	if m.swap == nil {
		return Reply{}
	}
	return Reply{Seq: m.swap.cmd.Seq, Data: Arrived(m.swap.cmd.Cmd, m.swap.to.Text)}
}

// changed tells clients which session this is now.
func (m *Machine) changed(reason string) protocol.SessionChanged {
	return protocol.SessionChanged{
		Reason: reason, SessionID: m.identity.SessionID, SessionFile: m.identity.File, SessionName: m.name,
		MessageCount: m.size.Messages, LeafID: m.identity.ShownLeaf,
	}
}

// recordArrival writes what navigate_tree leaves behind and how the place is
// called.
func (m *Machine) recordArrival(w *sessionSwitch) {
	nav, isNav := w.navigation()
	if !isNav {
		return
	}
	target := nav.TargetID
	if b := w.summary; b != nil {
		m.size.Add(&protocol.BranchSummaryMessage{Summary: b.Summary})
		target = m.append(*b)
	}
	if nav.Label != "" {
		m.note(protocol.Label{TargetID: target, Label: nav.Label})
	}
}

// endSwitch answers the command, starts a run with what was queued during a
// summary, and lets the commands that waited go on, until one of them replaces
// the session again.
func (m *Machine) endSwitch(answer Reply) {
	m.do(answer)
	w := m.swap
	m.swap = nil
	switch m.activity.(type) {
	case *leavingBranch, *activating:
		m.enter(idle{})
	case idle, *streaming, *runningTools, *retrying, *compacting, *asking: // goes on: it was never in the way
	}
	if w.queuedMeanwhile {
		m.startQueued()
	}
	m.takeNext()
}

// apply answers a slow query. A replacement has waited for it, for it closes
// the file that was being read.
func (in QueryDone) apply(m *Machine) {
	i := slices.Index(m.slowQueries, in.Seq)
	if i < 0 { // asked for by an earlier life, which has been answered for
		return
	}
	m.slowQueries = slices.Delete(m.slowQueries, i, i+1)
	m.do(Reply{Seq: in.Seq, Data: in.Data, Err: in.Err})
	if w := m.swap; w != nil && w.arrived != nil {
		arrived := *w.arrived
		w.arrived = nil
		arrived.apply(m)
	}
	m.takeWaiting()
}

// takeWaiting handles the commands that waited, in order, as far as they may go
// on.
func (m *Machine) takeWaiting() {
	for len(m.waiting) > 0 && m.swap == nil && m.lookUps == 0 {
		c := m.waiting[0]
		if m.mustWait(c) {
			return
		}
		m.waiting = m.waiting[1:]
		if m.stopping() {
			m.fail(c, protocol.CodeSessionClosing.Errorf("Session is closing"))
			continue
		}
		m.takeUp(c)
	}
}

// takeUp handles a command that has waited: at once, if nothing was looked up for it, nor for
// one before it, and it does not depend on extensions: they are taken along, or loaded again.
func (m *Machine) takeUp(c Command) {
	_, isSaid := c.Cmd.(protocol.Expandable)
	_, limits := c.Cmd.(protocol.SetBudget)
	traits := protocol.TraitsOf(c.Cmd)
	if m.lookUps == 0 && !isSaid && !limits && !traits.Is(protocol.NeedsModels) && !((m.reloading || m.set.Extensions.Loaded) && traits.Is(protocol.NeedsExtensions)) {
		m.dispatch(c)
		return
	}
	c.due = true
	m.lookUps++
	m.do(LookUp{c})
}

// lookedUp handles a command that has waited and was looked up again, and those behind it.
func (m *Machine) lookedUp(c Command) {
	m.lookUps--
	c.due = false
	switch {
	case c.Refused != nil:
		m.fail(c, c.Refused)
	case m.stopping():
		m.fail(c, protocol.CodeSessionClosing.Errorf("Session is closing"))
	default:
		m.dispatch(c)
	}
	m.takeWaiting()
}

// stampSettings records model and level at the head of a new session, so that
// opening it again restores them.
func (m *Machine) stampSettings() {
	if m.model != nil {
		m.note(protocol.ModelChange{Provider: m.model.Provider, ModelID: m.model.ID})
	}
	m.note(protocol.ThinkingLevelChange{ThinkingLevel: m.level})
}
