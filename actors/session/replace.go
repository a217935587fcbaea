package session

import (
	"slices"

	"troupe/protocol"
)

// replacement is a command that puts another session in this one's place. The
// other session is made ready first, while a run goes on: a path that cannot
// be loaded costs an error and nothing else. Commands sent meanwhile wait, so
// that they reach the session they were meant for. While navigate_tree waits
// for a model's summary, only those wait to which the branch matters.
type replacement struct {
	cmd     Command
	ready   *Prepared
	summary int // epoch of the summary of the branch that is left, 0 for none
	branch  *protocol.BranchSummary
	said    bool // messages were queued during the summary: a run is to follow
}

// leaving says whether navigate_tree waits for the summary of a branch.
func (m *Machine) leaving() bool { return m.replace != nil && m.replace.summary != 0 }

func (m *Machine) beginReplacement(c Command) {
	m.replace = &replacement{cmd: c}
	if _, whole := c.Cmd.(protocol.Clone); whole {
		m.stop(aborted) // the copy has what the run came to
	}
	if !m.active() {
		m.enter(PhaseSwitching)
	}
	m.do(Prepare{Seq: c.Seq, Name: c.Name, Cmd: c.Cmd})
}

// prepared ends the outgoing session's run, drops its queues and swaps.
func (m *Machine) prepared(in Prepared) {
	if m.replace == nil || m.replace.cmd.Seq != in.Seq {
		m.do(Discard{in.Seq})
		return
	}
	nav, isNav := m.replace.cmd.Cmd.(protocol.NavigateTree)
	if isNav && in.Stay {
		m.emit(m.changed("tree"))
		m.reply(m.replace.cmd, protocol.JSON(protocol.NavigateResult{}))
		m.endReplacement()
		return
	}
	if isNav && nav.Summarize && (m.model == nil || m.model.Missing) {
		m.fail(m.replace.cmd, protocol.CodeNoModel.Errorf("No model available for summarization"))
		m.endReplacement()
		return
	}
	m.replace.ready = &in
	m.stop(aborted)
	if isNav && nav.Summarize {
		if slices.ContainsFunc(m.waiting, func(c Command) bool { return supersedes(c.Cmd) }) {
			m.cancelNavigation()
			return
		}
		m.enter(PhaseCompacting)
		m.replace.summary = m.nextEpoch()
		m.do(Summarise{
			Run: m.replace.summary, Model: m.model, Level: m.Level(), Branch: in.Seq,
			Instructions: nav.CustomInstructions, Replace: nav.ReplaceInstructions,
		})
		for len(m.waiting) > 0 && keepsBranch(m.waiting[0].Cmd) {
			c := m.waiting[0]
			m.waiting = m.waiting[1:]
			m.dispatch(c)
		}
		return
	}
	if !isNav { // queues and commands are the session's, not the branch's
		m.dropQueues()
		m.leaveBashes()
	}
	m.do(Swap{in.Seq})
}

// branchSummarised goes where navigate_tree wants to go, with a summary of what
// is left. Without one nothing moves.
func (m *Machine) branchSummarised(in Summarised) {
	r := m.replace
	r.summary = 0
	switch {
	case in.Err != nil:
		m.abandonNavigation(Reply{Seq: r.cmd.Seq, Err: protocol.CodeProvider.Errorf("%s", in.Err.Message)}, r.said)
	default: // a branch without content needs none
		r.branch = in.Branch
		m.do(Swap{r.cmd.Seq})
	}
}

// cancelNavigation gives up a summary that the client does not want to wait for.
// What was queued meanwhile stays queued.
func (m *Machine) cancelNavigation() {
	if m.leaving() {
		m.do(CancelRun{m.replace.summary})
		m.nextEpoch()
	}
	m.abandonNavigation(Reply{Seq: m.replace.cmd.Seq, Data: protocol.JSON(protocol.NavigateResult{Cancelled: true})}, false)
}

func (m *Machine) abandonNavigation(answer Reply, said bool) {
	m.do(Discard{m.replace.cmd.Seq})
	m.do(answer)
	m.enter(PhaseIdle)
	m.replace.said = said
	m.endReplacement()
}

// swapped takes on the other session's identity and answers.
func (m *Machine) swapped(in Swapped) {
	if m.replace == nil || m.replace.ready == nil || m.replace.cmd.Seq != in.Seq {
		return
	}
	c, to := m.replace.cmd, m.replace.ready.To
	text := m.replace.ready.Text
	if in.To != nil {
		to = *in.To
	}
	if _, isNav := c.Cmd.(protocol.NavigateTree); isNav {
		to.Queue, to.Held = nil, nil // they are here already
	}
	m.adopt(to)
	m.arrive()
	if _, isNew := c.Cmd.(protocol.NewSession); isNew {
		m.stampSettings()
	}
	m.emit(m.changed(replaceReason(c.Cmd)))
	answer := Reply{Seq: c.Seq, Data: protocol.Cancelled{}, Regardless: true}
	switch c.Cmd.(type) {
	case protocol.Fork:
		answer.Data = protocol.JSON(protocol.ForkResult{Text: text})
	case protocol.NavigateTree:
		answer.Data = protocol.JSON(protocol.NavigateResult{EditorText: text})
	default: // the others say only that nobody objected
	}
	m.do(answer)
	m.endReplacement()
}

// changed tells clients which session this is now.
func (m *Machine) changed(reason string) protocol.SessionChanged {
	return protocol.SessionChanged{
		Reason: reason, SessionID: m.who.SessionID, SessionFile: m.who.File, SessionName: m.who.Name,
		MessageCount: m.messageCount, LeafID: m.who.LeafID,
	}
}

// arrive records what navigate_tree leaves behind and how the place is called.
func (m *Machine) arrive() {
	nav, isNav := m.replace.cmd.Cmd.(protocol.NavigateTree)
	if !isNav {
		return
	}
	target := nav.TargetID
	if b := m.replace.branch; b != nil {
		m.messageCount++
		m.append(*b, func() { m.messageCount-- })
		m.size.tokens += protocol.EstimateText(b.Summary)
		target = "" // the entry before
	}
	if nav.Label != "" {
		m.note(protocol.Label{TargetID: target, Label: nav.Label}, nil)
	}
}

func replaceReason(cmd protocol.Command) string {
	switch cmd.(type) {
	case protocol.NewSession:
		return "new"
	case protocol.SwitchSession:
		return "switch"
	case protocol.NavigateTree:
		return "tree"
	default:
		return "fork"
	}
}

func (m *Machine) prepareFailed(in PrepareFailed) {
	if m.replace == nil || m.replace.cmd.Seq != in.Seq {
		return
	}
	m.fail(m.replace.cmd, in.Err)
	m.endReplacement()
}

// endReplacement starts a run with what was said during a summary, and lets the
// commands that waited go on, until one of them replaces the session again.
func (m *Machine) endReplacement() {
	said := m.replace.said
	m.replace = nil
	if m.phase == PhaseSwitching {
		m.enter(PhaseIdle)
	}
	if said {
		m.startQueued()
	}
	m.takeWaiting()
}

// lookedUp answers a look-up. A replacement has waited for it, for it closes
// the file that was being read.
func (m *Machine) lookedUp(in LookedUp) {
	i := slices.Index(m.lookups, in.Seq)
	if i < 0 { // asked for by an earlier life, which has been answered for
		return
	}
	m.lookups = slices.Delete(m.lookups, i, i+1)
	m.do(Reply{Seq: in.Seq, Data: in.Data, Err: in.Err})
	m.takeWaiting()
}

func replaces(cmd protocol.Command) bool {
	switch cmd.(type) {
	case protocol.NewSession, protocol.SwitchSession, protocol.Fork, protocol.Clone, protocol.NavigateTree:
		return true
	default:
		return false
	}
}

// takeWaiting handles the commands that waited, in order, as far as they may go
// on.
func (m *Machine) takeWaiting() {
	for len(m.waiting) > 0 && m.replace == nil {
		c := m.waiting[0]
		if len(m.lookups) > 0 && replaces(c.Cmd) {
			return
		}
		m.waiting = m.waiting[1:]
		if m.stopping() {
			m.fail(c, protocol.CodeSessionClosing.Errorf("Session is closing"))
			continue
		}
		m.dispatch(c)
	}
}

// adopt makes a loaded session the current one. Model and level come from its
// branch where it has them, else they stay. If the branch ends inside a run,
// what it was missing is written and returned.
func (m *Machine) adopt(to Loaded) ([]*protocol.ToolResultMessage, *protocol.AssistantMessage) {
	m.who = to
	m.messageCount = to.MessageCount
	m.size = size{tokens: to.Tokens, settled: to.TokensFresh}
	m.recovered = false
	m.dangling = to.Unanswered
	m.keys = keyring{to.Keys}
	m.queueIDs = max(m.queueIDs, to.LastQueueID)
	m.held = to.Held
	m.todos = loadTodos(to.Todos)
	m.fired = map[string]int{}
	for _, name := range to.Rules {
		m.fired[name] = m.turns
	}
	for _, q := range to.Queue {
		queue := m.queueOf(q.Kind)
		*queue = append(*queue, q)
	}
	if to.Model != nil && !(to.Model.Missing && sameModel(to.Model, m.model)) { // the command line takes models that nobody has listed
		m.model = to.Model
	}
	if to.HasLevel {
		m.level = to.Level
	}
	m.level = m.model.Clamp(m.level)
	if to.Interrupted {
		return m.closeInterrupted()
	}
	m.flushHeld()
	return nil, nil
}

// stampSettings records model and level at the head of a new session, so that
// opening it again restores them.
func (m *Machine) stampSettings() {
	if m.model != nil {
		m.note(protocol.ModelChange{Provider: m.model.Provider, ModelID: m.model.ID}, nil)
	}
	m.note(protocol.ThinkingLevelChange{ThinkingLevel: m.level}, nil)
}
