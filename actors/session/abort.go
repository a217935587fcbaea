package session

import "troupe/protocol"

const abortedMessage = "Request was aborted."

// abort stops the run. The client hears the end of everything that was begun
// before it hears that the abort is done. Queued messages stay queued.
func (m *Machine) abort(c Command) {
	m.stop(aborted)
	m.do(Reply{Seq: c.Seq, Regardless: true})
}

// abortAndPrompt stops the run and starts another.
func (m *Machine) abortAndPrompt(c Command, p protocol.AbortAndPrompt) {
	if err := m.ready(c); err != nil {
		m.fail(c, err)
		return
	}
	m.stop(aborted)
	m.begin(c, Queued{Text: p.Message, Images: p.Images})
}

// stop ends whatever goes on, with an outcome, and settles.
func (m *Machine) stop(outcome string) {
	switch {
	case m.run != nil:
		m.stopRun(outcome)
	case m.compaction != nil:
		m.cancelCompaction()
		m.settled(outcome)
	case m.retry != nil:
		m.cancelRetry(m.retryCancelled())
		m.settled(outcome)
	}
}

// stopRun closes the run in this step. Killing what it started goes on behind;
// results that still come carry a stale run number.
func (m *Machine) stopRun(outcome string) {
	if m.compaction != nil { // between two turns
		m.cancelCompaction()
	} else {
		m.do(CancelRun{m.epoch})
		if m.run.stream != nil {
			m.abortMessage(m.run.stream)
			m.turnEnd()
			m.endRun(outcome, nil)
			return
		}
		m.abortCalls()
		m.turnEnd()
	}
	m.run.turns++
	m.emit(protocol.TurnStart{RunID: m.run.id})
	m.run.calls, m.run.results = nil, nil
	m.abortMessage(newStream(m.model, m.now)) // clients look for its stopReason
	m.turnEnd()
	m.endRun(outcome, nil)
}

func (m *Machine) abortMessage(s *stream) {
	s.msg.StopReason = protocol.StopAborted
	s.msg.ErrorMessage = abortedMessage
	m.finishMessage(s)
}

// abortCalls gives every call without a result one that says so.
func (m *Machine) abortCalls() {
	for _, c := range m.run.calls {
		if c.state == callDone {
			continue
		}
		if c.dialog != "" {
			m.do(CancelUI{c.dialog})
			c.dialog = ""
		}
		m.cancelHost(c)
		if c.state == callWaiting {
			m.announceCall(c)
		}
		m.finishCall(c, abortedResult(c), true)
	}
	if m.set.Gates.Has(protocol.FeatureParallelTools) {
		m.recordParallel()
	}
}

// abortedResult keeps what the call had shown so far.
func abortedResult(c *call) protocol.ToolResult {
	note := "Tool execution aborted"
	if c.Name == "bash" {
		note = "Command aborted"
	}
	if text := c.partial.Content.Text("\n"); text != "" {
		note = text + "\n\n" + note
	}
	return errorResult(note)
}
