package core

import "troupe/protocol"

const abortedMessage = "Request was aborted."

// piscesAborted is what pisces says of an answer that a stream rule has stopped.
const piscesAborted = "Request was aborted"

// showCut shows calls that an answer had begun when it was stopped as pisces does: they begin
// and end. None of them was run, and the log has no result of any.
func (m *Machine) showCut(r *run) {
	for _, c := range r.answer.Content.ToolCalls() {
		m.emit(protocol.ToolExecutionStart{ToolCallID: c.ID, ToolName: c.Name, Args: c.Arguments, RunID: r.id})
		m.emit(protocol.ToolExecutionEnd{
			ToolCallID: c.ID, ToolName: c.Name, Result: errorResult("Tool execution was aborted: " + piscesAborted), IsError: true, RunID: r.id,
		})
	}
}

// abortAndPrompt stops the run and starts another.
func (m *Machine) abortAndPrompt(c Command, p protocol.AbortAndPrompt) {
	if m.refusedByBudget(c) || m.repeated(c, input("", p.Message, p.Images, p.IdempotencyKey)) {
		return
	}
	if err := m.ready(c); err != nil {
		m.fail(c, err)
		return
	}
	m.dropIntake(protocol.CodeCancelled.Errorf("Aborted"))
	m.stop(aborted)
	c.Cmd = protocol.Prompt{Message: p.Message, Images: p.Images, IdempotencyKey: p.IdempotencyKey}
	m.message(c)
}

// stop ends the activity at once, or what would go on by itself, with an outcome, and settles. What it has begun
// outside is cancelled; results that still come carry a stale attempt.
func (m *Machine) stop(outcome string) {
	m.release()
	switch a := m.activity.(type) {
	case idle:
		m.stopCutOff(outcome)
	case *activating:
	case *streaming:
		m.breakOff(a.run, a.stream, protocol.StopAborted, abortedMessage, ending{outcome: outcome})
	case *runningTools:
		m.abortCallsOf(a.run, outcome)
	case *compacting:
		m.cancelCompaction(a, outcome)
	case *retrying:
		if a.summary != nil {
			m.cancelCompaction(a.summary, outcome)
			return
		}
		m.endRetries(outcome, m.retryCancelled())
	case *asking:
		m.stopAsking(a, outcome)
	case *leavingBranch:
		m.cancelSwitch()
	}
}

// abortCallsOf ends a run whose calls are not over.
func (m *Machine) abortCallsOf(r *run, outcome string) {
	m.abortCalls(r)
	m.turnEnd(r)
	m.abortTurn(r, outcome)
}

// abortTurn ends a run that is between two answers with one that says so:
// clients look for its stopReason.
func (m *Machine) abortTurn(r *run, outcome string) {
	m.turnStart(r)
	m.breakOff(r, m.newStream(), protocol.StopAborted, abortedMessage, ending{outcome: outcome})
}

// abortCalls gives every call without a result one that says so.
func (m *Machine) abortCalls(r *run) {
	for _, c := range r.calls {
		if c.state == callDone {
			continue
		}
		m.recordApproval(c, protocol.ApprovalResolved{Outcome: approvalCancelled}, "")
		m.letGo(c)
		if c.state == callWaiting {
			m.announceCall(r, c)
		}
		result := m.abortedResult(c)
		if c.tasks != nil {
			result = m.abortedTasks(c)
		}
		m.finishCall(r, c, result, true)
	}
	if r.parallel {
		m.recordParallel(r)
	}
}

// letGo closes the dialog of a call, and cancels it where the host has it.
func (m *Machine) letGo(c *call) {
	if c.dialog != "" {
		m.do(CancelUI{ID: c.dialog})
		m.withdrawApproval(c)
		c.dialog = ""
	}
	m.cancelHost(c)
	if c.hook != 0 {
		m.do(CancelHook{c.hook})
		c.hook, c.asks = 0, 0
	}
}

// abortedResult keeps what the call had shown so far.
func (m *Machine) abortedResult(c *call) protocol.ToolResult {
	note := "Tool execution aborted"
	if t := m.builtIn(c.Name); t != nil && t.Aborted != "" {
		note = t.Aborted
	}
	if text := c.partial.Content.Text("\n"); text != "" {
		note = text + "\n\n" + note
	}
	return errorResult(note)
}
