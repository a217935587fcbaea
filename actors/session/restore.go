package session

import (
	"encoding/json"
	"slices"

	"troupe/protocol"
)

const interruptedMessage = "The run was interrupted: the process ended before it was finished."

// restored begins the machine's life from the log, and closes what an earlier
// life, in this process or another, left open.
func (m *Machine) restored(in Restored) {
	m.restoring = true
	m.set = in.Settings
	m.steeringMode, m.followUpMode = in.Settings.SteeringMode, in.Settings.FollowUpMode
	m.interruptMode = in.Settings.InterruptMode
	m.autoRetry, m.autoCompaction = in.Settings.AutoRetry, in.Settings.AutoCompaction
	m.model, m.level, m.tools = in.Settings.Model, in.Settings.Level, in.Settings.Tools
	m.since = m.now
	fresh := in.Vitals == nil && in.Session.LeafID == ""
	if v := in.Vitals; v != nil {
		m.steeringMode, m.followUpMode, m.interruptMode = v.SteeringMode, v.FollowUpMode, v.InterruptMode
		m.autoRetry, m.autoCompaction = v.AutoRetry, v.AutoCompaction
		m.tools, m.host = v.Tools, v.Host
		m.model, m.level = v.Model, v.Level // where the log says nothing else: it knows whether the change failed with the crash
		m.epoch, m.runs, m.jobs, m.dialogs = v.Epoch+1, v.Runs, v.Jobs, v.Dialogs
		m.queueIDs = v.QueueIDs
	}
	results, note := m.adopt(in.Session)
	if fresh {
		if m.who.Name != "" {
			m.note(protocol.SessionInfo{Name: m.who.Name}, nil)
		}
		m.stampSettings()
	}
	if in.Open.Idle() {
		return
	}
	e := ending{
		outcome: interrupted, why: interruptedMessage,
		logged: in.Session.Last, results: results, note: note, own: note != nil,
	}
	if note == nil {
		e.note = m.brokenMessage(protocol.StopError, interruptedMessage)
	}
	m.closeWire(in.Open, e)
}

// closeInterrupted writes what a branch that ends inside a run is missing, and
// returns it.
func (m *Machine) closeInterrupted() ([]*protocol.ToolResultMessage, *protocol.AssistantMessage) {
	results := m.answerDangling()
	m.flushHeld()
	note := m.brokenMessage(protocol.StopAborted, interruptedMessage)
	m.appendMessage(protocol.MessageEntry{Message: note}, nil)
	m.append(protocol.Custom{CustomType: protocol.CustomInterrupted, Data: json.RawMessage(`{"reason":"process ended"}`)}, nil)
	m.who.Interrupted = false
	return results, note
}

// brokenMessage is an assistant message that says why there is no other.
func (m *Machine) brokenMessage(stop protocol.StopReason, why string) *protocol.AssistantMessage {
	msg := &protocol.AssistantMessage{Content: protocol.Content{}, StopReason: stop, ErrorMessage: why, Timestamp: m.now}
	if m.model != nil {
		msg.API, msg.Provider, msg.Model = m.model.API, m.model.Provider, m.model.ID
	}
	return protocol.Seal(msg)
}

// answerDangling gives results to tool calls that the log holds without any,
// so that the next request to a model is valid.
func (m *Machine) answerDangling() []*protocol.ToolResultMessage {
	var results []*protocol.ToolResultMessage
	dangling := m.dangling
	m.dangling = nil
	for _, u := range dangling {
		text := "This call was never started: the run was interrupted before it."
		if u.Started {
			text = "This call was running when the run was interrupted. It may have had effects; its output is lost."
		}
		r := errorResult(text)
		msg := protocol.Seal(&protocol.ToolResultMessage{
			ToolCallID: u.Call.ID, ToolName: u.Call.Name, Content: r.Content, Details: r.Details,
			IsError: true, Timestamp: m.now,
		})
		results = append(results, msg)
		m.appendMessage(protocol.MessageEntry{Message: msg}, func() { m.dangling = slices.Insert(m.dangling, 0, u) })
	}
	return results
}

// reset drops everything in progress and leaves the machine idle.
func (m *Machine) reset() {
	if m.run != nil {
		m.do(CancelRun{m.epoch})
		for _, c := range m.run.calls {
			if c.dialog != "" {
				m.do(CancelUI{c.dialog})
			}
			m.cancelHost(c)
		}
	}
	if m.retry != nil {
		m.do(CancelRetry{m.retry.run})
	}
	if c := m.compaction; c != nil {
		if m.compaction = nil; c.waiting {
			m.do(CancelRetry{c.run})
		} else {
			m.do(CancelRun{c.run})
		}
		if c.cmd != nil {
			m.fail(*c.cmd, protocol.CodeCancelled.Errorf("Compaction cancelled"))
		}
	}
	m.run, m.retry, m.tries = nil, nil, attempts{}
	m.nextEpoch()
	m.enter(PhaseIdle)
}

// ending is how a run that cannot go on is closed on the wire.
type ending struct {
	outcome string
	why     string
	logged  protocol.Message              // the last message of the branch
	results []*protocol.ToolResultMessage // results that were logged for calls left open
	note    *protocol.AssistantMessage    // stands for the message that did not come
	own     bool                          // note is in the log: it gets a turn if it has none
}

// closeWire ends what the clients have seen begin.
func (m *Machine) closeWire(open Brackets, e ending) {
	say := func(ev protocol.Event) {
		open.Note(ev)
		m.emit(ev)
	}
	if open.Promised && open.Run == "" { // the client waits for it to end
		say(protocol.AgentStart{RunID: m.nextRun()})
	}
	run, noted := open.Run, false
	if open.Compact {
		say(protocol.AutoCompactionEnd{Reason: open.Compacting, ErrorMessage: e.why})
	}
	if open.Message != nil {
		end := m.endOf(open.Message, e)
		noted = end == protocol.Message(e.note)
		say(protocol.MessageEnd{Message: end, RunID: run})
	}
	for _, r := range e.results {
		m.closeCall(&open, r, say)
	}
	for _, t := range slices.Clone(open.Tools) {
		say(protocol.ToolExecutionEnd{
			ToolCallID: t.ToolCallID, ToolName: t.ToolName, Result: errorResult(e.why), IsError: true, RunID: run,
		})
	}
	showNote := func() {
		noted = true
		say(protocol.MessageStart{Message: e.note, RunID: run})
		say(protocol.MessageEnd{Message: e.note, RunID: run})
	}
	if open.Turn {
		if open.Last == nil {
			showNote()
		}
		say(protocol.TurnEnd{Message: open.Last, ToolResults: emptyNotNil(open.Results), RunID: run})
	}
	if run != "" && e.own && !noted {
		say(protocol.TurnStart{RunID: run})
		showNote()
		say(protocol.TurnEnd{Message: e.note, ToolResults: []*protocol.ToolResultMessage{}, RunID: run})
	}
	if run != "" {
		say(protocol.AgentEnd{Messages: emptyNotNil(open.Messages), Error: e.why, RunID: run})
	}
	if open.Retry > 0 {
		say(protocol.AutoRetryEnd{Attempt: open.Retry, FinalError: e.why})
	}
	m.settle = settle{owed: open.Settle, last: open.LastRun}
	m.settled(e.outcome)
}

// endOf is the message_end for a message whose start went out: what the log
// has of it, or the note in its place.
func (m *Machine) endOf(started protocol.Message, e ending) protocol.Message {
	a, ok := started.(*protocol.AssistantMessage)
	if !ok {
		return started
	}
	if l, ok := e.logged.(*protocol.AssistantMessage); ok && l.Timestamp == a.Timestamp {
		return l
	}
	if len(a.Content) > 0 { // written nowhere, but the client has seen it grow
		broken := *a
		broken.StopReason, broken.ErrorMessage = protocol.StopError, e.why
		return protocol.Seal(&broken)
	}
	return e.note
}

func (m *Machine) closeCall(open *Brackets, r *protocol.ToolResultMessage, say func(protocol.Event)) {
	run := open.Run
	if run == "" || !open.Turn { // the client has seen the turn end without it
		return
	}
	begun := slices.ContainsFunc(open.Tools, func(t protocol.ToolExecutionStart) bool { return t.ToolCallID == r.ToolCallID })
	ended := slices.Contains(open.Ended, r.ToolCallID) // run in parallel: it was over, and its result not recorded yet
	if !begun && !ended {
		say(protocol.ToolExecutionStart{ToolCallID: r.ToolCallID, ToolName: r.ToolName, Args: argsOf(open.Last, r.ToolCallID), RunID: run})
	}
	if !ended {
		say(protocol.ToolExecutionEnd{
			ToolCallID: r.ToolCallID, ToolName: r.ToolName, IsError: true, RunID: run,
			Result: protocol.ToolResult{Content: r.Content, Details: r.Details},
		})
	}
	say(protocol.MessageStart{Message: r, RunID: run})
	say(protocol.MessageEnd{Message: r, RunID: run})
}

func argsOf(msg protocol.Message, id string) json.RawMessage {
	if a, ok := msg.(*protocol.AssistantMessage); ok {
		for _, c := range a.Content.ToolCalls() {
			if c.ID == id {
				return c.Arguments
			}
		}
	}
	return emptyObject
}

// rollBack takes back what the machine made of the appends that were not done.
func (m *Machine) rollBack(from int) {
	for i := len(m.undo) - 1; i >= from; i-- {
		if m.undo[i] != nil {
			m.undo[i]()
		}
	}
}

// appendFailed answers for the effects that were not done: commands fail, and
// if one of the effects was a step of the run, the run ends. The session stays
// usable, for the disk may recover.
func (m *Machine) appendFailed(in AppendFailed, undone []Effect) {
	why := "Session file could not be written: " + in.Err.Error()
	if slices.ContainsFunc(undone, ofRun) {
		m.rememberDangling(in.Open, in.done)
		m.reset()
		m.closeWire(withContent(in.Open, undone), ending{
			outcome: failed, why: why, note: m.brokenMessage(protocol.StopError, why),
		})
	}
	for _, e := range undone {
		switch e := e.(type) {
		case Reply:
			switch {
			case e.instead != nil:
				e = Reply{Seq: e.Seq, Data: e.instead(m, why)}
			case e.Err == nil && !e.Regardless:
				e = Reply{Seq: e.Seq, Err: protocol.CodeNotDurable.Errorf("%s", why)}
			}
			m.do(e)
		case Answer, LookUp, Quiet, CancelRun, CancelBash, CancelRetry, CancelUI, ResolveUI, Discard, Reconfigure:
			m.do(e) // nothing of these depends on the entry
		case StartBash:
			m.bashDone(BashDone{Job: e.Job, Err: protocol.CodeNotDurable.Errorf("%s", why)})
		case Prepare, Swap:
			m.abandonReplacement(why)
		case Emit:
			if _, changed := e.Event.(protocol.SessionChanged); changed {
				m.do(e) // the swap has been made
			}
		case Summarise:
			if e.Branch != 0 {
				m.abandonReplacement(why)
			}
		case Closed:
			m.closed = false // it comes again when this step is over
		case Append, StartStream, StartTool, ScheduleRetry, AskUI:
			// not done, and nobody was told
		}
	}
}

// ofRun says whether an effect is a step of a run.
func ofRun(e Effect) bool {
	switch e := e.(type) {
	case StartStream, StartTool, ScheduleRetry, AskUI, Summarise:
		return true
	case Emit:
		switch e.Event.(type) {
		case protocol.AgentStart, protocol.AgentEnd, protocol.TurnStart, protocol.TurnEnd, protocol.MessageStart,
			protocol.MessageEnd, protocol.ToolExecutionStart, protocol.ToolExecutionEnd, protocol.AgentSettled,
			protocol.AutoCompactionStart, protocol.AutoCompactionEnd:
			return true
		default:
			return false
		}
	default:
		return false
	}
}

// withContent gives an open message the content that its message_end would
// have shown.
func withContent(open Brackets, undone []Effect) Brackets {
	for _, e := range undone {
		if e, ok := e.(Emit); ok && open.Message != nil {
			if end, ok := e.Event.(protocol.MessageEnd); ok && end.Message.Role() == open.Message.Role() {
				open.Message = end.Message
				return open
			}
		}
	}
	return open
}

// rememberDangling notes the calls of the last message in the log that will
// stay without a result.
func (m *Machine) rememberDangling(open Brackets, done []Effect) {
	if m.restoring { // the log has said it: an earlier life may have written results that it did not show
		return
	}
	last, ok := open.Last.(*protocol.AssistantMessage)
	if !ok || !open.Turn {
		return
	}
	answered := map[string]bool{}
	for _, r := range open.Results {
		answered[r.ToolCallID] = true
	}
	for _, e := range done { // logged, but not shown before the failure
		if a, ok := e.(Append); ok {
			if entry, ok := a.Entry.(protocol.MessageEntry); ok {
				if r, ok := entry.Message.(*protocol.ToolResultMessage); ok {
					answered[r.ToolCallID] = true
				}
			}
		}
	}
	for _, u := range m.dangling { // taken back already
		answered[u.Call.ID] = true
	}
	for _, c := range last.Content.ToolCalls() {
		if !answered[c.ID] {
			begun := slices.ContainsFunc(open.Tools, func(t protocol.ToolExecutionStart) bool { return t.ToolCallID == c.ID })
			m.dangling = append(m.dangling, Unanswered{c, begun})
		}
	}
}

func (m *Machine) abandonReplacement(why string) {
	if m.replace == nil {
		return
	}
	if m.replace.ready != nil {
		m.do(Discard{m.replace.cmd.Seq})
	}
	m.fail(m.replace.cmd, protocol.CodeNotDurable.Errorf("%s", why))
	m.endReplacement()
}

// workerGone turns the silent end of a worker into a result. A result that the
// worker sent before it ended has been handled already, and the job is closed.
func (m *Machine) workerGone(in WorkerGone) {
	const why = "internal error: the worker ended without a result"
	switch in.Kind {
	case WorkerStream:
		m.streamEnd(StreamEnd{Run: in.Run, Err: protocol.ErrorInternal.Errorf("%s", why)})
	case WorkerTool:
		m.toolDone(ToolDone{Run: in.Run, CallID: in.ID, Result: errorResult(why), IsError: true})
	case WorkerBash:
		m.bashDone(BashDone{Job: in.Run, Err: protocol.CodeInternal.Errorf("%s", why)})
	case WorkerRetry:
		if c := m.retryOfCompaction(in.Run); c != nil {
			c.waiting, c.attempt = false, m.set.MaxRetries
			m.summarised(Summarised{Run: in.Run, Err: protocol.ErrorInternal.Errorf("%s", why)})
		}
		if m.retry != nil && m.retry.run == in.Run {
			m.cancelRetry(why)
			m.settled(failed)
		}
	case WorkerSummary:
		m.summarised(Summarised{Run: in.Run, Err: protocol.ErrorInternal.Errorf("%s", why)})
	case WorkerUI:
		m.dialogsLost()
	}
}

// close stops taking commands. Work goes on to its end, or stops now.
func (m *Machine) close(in Closing) {
	if m.closing == nil {
		m.closing = &in
	}
	m.closing.Abort = m.closing.Abort || in.Abort
	m.closing.Deaf = m.closing.Deaf || in.Deaf
	if !in.Abort {
		if in.Deaf {
			m.nobodyAnswers()
		}
		return
	}
	if m.leaving() {
		m.cancelNavigation()
	}
	m.stop(aborted)
	m.stopBashes()
}

// maybeClosed reports, once, that a closing machine has nothing left to do.
func (m *Machine) maybeClosed() {
	if m.closing == nil || m.closed || m.active() || len(m.bashes) > 0 || m.replace != nil || len(m.lookups) > 0 {
		return
	}
	m.closed = true
	m.do(Closed{})
}
