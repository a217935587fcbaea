package session

import "troupe/protocol"

// replacement is a command that puts another session in this one's place. The
// other session is made ready first, while a run goes on: a path that cannot
// be loaded costs an error and nothing else. Commands sent meanwhile wait, so
// that they reach the session they were meant for.
type replacement struct {
	cmd   Command
	ready *Prepared
}

func (m *Machine) beginReplacement(c Command) {
	m.replace = &replacement{cmd: c}
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
	m.replace.ready = &in
	m.stop(aborted)
	m.dropQueues()
	m.do(Swap{in.Seq})
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
	m.adopt(to)
	if _, isNew := c.Cmd.(protocol.NewSession); isNew {
		m.stampSettings()
	}
	m.emit(protocol.SessionChanged{
		Reason: replaceReason(c.Cmd), SessionID: to.SessionID, SessionFile: to.File, SessionName: to.Name,
		MessageCount: to.MessageCount, LeafID: to.LeafID,
	})
	answer := Reply{Seq: c.Seq, Data: protocol.Cancelled{}, Regardless: true}
	if _, isFork := c.Cmd.(protocol.Fork); isFork {
		answer.Data = protocol.JSON(protocol.ForkResult{Text: text})
	}
	m.do(answer)
	m.endReplacement()
}

func replaceReason(cmd protocol.Command) string {
	switch cmd.(type) {
	case protocol.NewSession:
		return "new"
	case protocol.SwitchSession:
		return "switch"
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

// endReplacement handles the commands that waited, until one of them replaces
// the session again.
func (m *Machine) endReplacement() {
	m.replace = nil
	if m.phase == PhaseSwitching {
		m.enter(PhaseIdle)
	}
	for len(m.waiting) > 0 && m.replace == nil {
		c := m.waiting[0]
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
	m.dangling = to.Unanswered
	m.keys = keyring{to.Keys}
	m.queueIDs = max(m.queueIDs, to.LastQueueID)
	m.held = to.Held
	for _, q := range to.Queue {
		queue := m.queueOf(q.Kind)
		*queue = append(*queue, q)
	}
	if to.Model != nil {
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
