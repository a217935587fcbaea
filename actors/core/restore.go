package core

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"troupe/protocol"
)

// There is one way back from a log: load. A start, a crash, another session, an
// entry that could not be written and a file that somebody else has changed all
// take it; they differ in what goes on meanwhile and in what is written then.

const interruptedMessage = "The run was interrupted: the process ended before it was finished."

// apply begins the machine's life from the log, and closes what an earlier
// life, in this process or another, left open.
func (in Restored) apply(m *Machine) {
	m.set = in.Settings
	m.choices = choices{modelChoice: modelChoice{m.set.Model, m.set.Level}, Modes: m.set.Modes, tools: m.set.Tools}
	m.since = m.now
	if m.set.Child != nil {
		m.draws, m.counts = m.set.Child.Draws, m.set.Child.Counts
	}
	if v := in.Carryover; v != nil { // model and level where the log says nothing else: it knows whether the change failed with the crash
		m.choices, m.counters = v.choices, v.counters
	}
	m.life = in.Life
	m.load(in.Session)
	m.loadModel(in.Session)
	defer in.Requested.apply(m)
	if in.Carryover == nil {
		m.restoreChoices(in.Session.Choices)
		m.arriveAtTodos(in.Session)
		m.restoreLimits()
	}
	m.loadBudget(in.Session.Spent)
	m.workWasCut(in.Session)
	again := in.Carryover == nil && in.Open.Idle() && (m.set.Retained || in.Failover != nil) && m.set.Child == nil && onlyAsked(in.Session.Resume)
	if m.budget != nil && !again { // they get results now, which count
		m.budget.used[toolCalls] += float64(len(in.Session.OpenCalls))
	}
	if in.Carryover != nil && m.draws == DrawsAbove { // what it had asked for is over
		m.do(ReportSpent{All: true, Used: m.reported})
	}
	m.headless = in.Session.LeafID == ""
	m.keepChoices(nil)
	if again {
		m.keepAsked(in.Session)
		m.tellLater(in.Failover)
		return
	}
	if f := in.Failover; f != nil && (in.Session.Interrupted || in.Session.Tried > 0) && !f.Stop && m.model != nil && !m.model.Missing {
		m.failedOver(in.Session, *f)
		return
	}
	m.endOmitted()
	defer m.tellOlder(in)
	results, note := m.finishBranch(in.Session)
	if in.Carryover == nil || m.set.Child != nil {
		m.writeHead()
	}
	if in.Open.Idle() {
		return
	}
	e := lastWords{
		outcome: interrupted, why: interruptedMessage,
		logged: in.Session.Last, written: in.Session.Results, results: results, note: note, own: note != nil,
	}
	if note == nil {
		e.note = m.brokenMessage(protocol.StopError, interruptedMessage)
	}
	m.closeSpans(in.Open, e)
}

// onlyAsked says whether a run was cut off while clients were asked about its calls, none
// of which has begun.
func onlyAsked(to protocol.Resume) bool {
	begun := func(c protocol.OpenCall) bool { return c.Started }
	asked := func(c protocol.OpenCall) bool { return c.Asked != "" }
	return to.Interrupted && slices.ContainsFunc(to.OpenCalls, asked) && !slices.ContainsFunc(to.OpenCalls, begun)
}

// keepAsked leaves the calls open about which clients were asked, for [AskAgain]. Their
// dialogs keep their ids, which no other gets.
func (m *Machine) keepAsked(to Loaded) {
	m.leftOpen = to.Answer
	for _, c := range to.OpenCalls {
		_, number, _ := strings.Cut(c.Asked, "_")
		n, _ := strconv.Atoi(number)
		m.dialogs = max(m.dialogs, n)
	}
}

// failedOver gives calls that were lost with a node a result that says so, and leaves the rest of the run
// for [AskAgain]: what has no second effect, which is a request to a model, and what clients
// were asked about.
func (m *Machine) failedOver(to Loaded, f Failover) {
	m.sayFailedOver(protocol.Custom{CustomType: protocol.CustomFailover, Data: encoded(protocol.FailoverOp{From: f.From}, ownEntry)})
	if len(m.openCalls) > 0 {
		to.OpenCalls = m.openCalls
		m.keepAsked(to)
		m.tellLater(&f)
		return
	}
	m.lost = &f
	if to.Interrupted && len(to.OpenCalls) == 0 {
		m.spendLost()
	}
	if last, is := to.Last.(*protocol.AssistantMessage); is && to.Tried > 0 {
		m.tried, m.failure = to.Tried, last.ErrorMessage
	}
}

// sayFailedOver has the log say that another node goes on: calls about which nobody was asked get results first.
func (m *Machine) sayFailedOver(e protocol.Custom) {
	isAsked := func(c protocol.OpenCall) bool { return c.Asked != "" }
	asked := slices.DeleteFunc(slices.Clone(m.openCalls), func(c protocol.OpenCall) bool { return !isAsked(c) })
	m.openCalls = slices.DeleteFunc(slices.Clone(m.openCalls), isAsked)
	m.answerOpenCallsAs(lostRunning, lostWaiting)
	m.openCalls = asked
	m.flushHeld()
	m.append(e)
}

// takeCutOff is what an earlier life has left to do, which is in the log as far as that could be told.
func (m *Machine) takeCutOff() cutOff {
	was := m.cutOff
	m.cutOff = cutOff{}
	if was.untold != nil && m.isIdle() {
		m.sayFailedOver(*was.untold)
	}
	return was
}

// keepCutOff keeps it where an entry could not be written, and whether that is what says so. A run that has begun
// with it, without a word, is as good as promised: nobody has asked for it who would be refused.
func (m *Machine) keepCutOff(was cutOff, undone []Effect, open *OpenSpans) {
	m.cutOff = was
	for _, e := range undone {
		switch e := e.(type) {
		case Append:
			if c, is := e.Entry.(protocol.Custom); is && c.CustomType == protocol.CustomFailover && m.AsksAgain() {
				m.untold = &c
			}
		case Emit:
			if ev, is := e.Event.(protocol.AgentStart); is && ev.RunID == was.run {
				open.Promised = true
			}
		default: // nothing that matters here
		}
	}
}

// olderFiles is what the model is told of files that are older than what it has done.
const olderFiles = " Its files are as they were when they were last saved, which was before the end of the last turn that had settled: what was changed since is lost."

// tellOlder says that files are older than the log, where no run goes on that would be told.
func (m *Machine) tellOlder(in Restored) {
	if f := in.Failover; f != nil && f.Older {
		m.inject(nil, *noteToModel(protocol.NoteFailover, movedNote(*f)))
	}
}

// tellLater says it once calls have their results that are open.
func (m *Machine) tellLater(f *Failover) {
	if f != nil && f.Older {
		m.forTurnEnd = append(m.forTurnEnd, *noteToModel(protocol.NoteFailover, movedNote(*f)))
	}
}

// movedNote is what the model is told of another machine.
func movedNote(f Failover) string {
	note := "The session goes on on another machine."
	if f.Cwd != "" {
		note += " The directory is now " + f.Cwd + "."
	}
	switch {
	case f.Older:
		note += olderFiles
	case f.Saved:
		note += " Its files are as they were when the last turn had settled: what was changed since is lost."
	}
	return note
}

// endOmitted says in the log that a request is not made again of which the answer was taken out, where another process
// would do that.
func (m *Machine) endOmitted() {
	if m.omitted && m.set.FailsOver {
		m.omitted = false
		m.append(protocol.Custom{CustomType: protocol.CustomInterrupted, Data: json.RawMessage(`{"reason":"not tried again"}`)})
	}
}

// What calls return that were cut off with their node.
const (
	lostRunning = "interrupted: the node that ran it was lost; it may or may not have finished"
	lostWaiting = "not run: the node of the session was lost before it"
)

// askLost makes the request again that was lost.
func (m *Machine) askLost(was cutOff) {
	c := cause{}
	if was.lost.Cwd != "" || was.lost.Saved {
		c.note = noteToModel(protocol.NoteFailover, movedNote(*was.lost))
	}
	if was.tried == 0 || !m.AutoRetry {
		m.startRun(c)
		return
	}
	m.work.unsettled, m.work.retries = true, retries{made: was.tried - 1, since: m.clock()}
	m.scheduleRetry(&m.work.retries, &retrying{failure: protocol.ErrorServer.Errorf("%s", was.failure), note: c.note})
}

// AsksAgain says whether there is anything to be asked again, or to go on with.
func (m *Machine) AsksAgain() bool { return m.leftOpen != nil || m.lost != nil }

// WillAsk says whether what an earlier life has asked in a dialog is yet to be asked again.
func (m *Machine) WillAsk(dialog string) bool {
	if m.leftOpen != nil {
		return slices.ContainsFunc(m.openCalls, func(c protocol.OpenCall) bool { return c.Asked == dialog })
	}
	_, c := m.findCall(func(c *call) bool {
		return c.again == dialog && (c.state == callWaiting || c.hook != 0)
	})
	return dialog != "" && c != nil
}

// apply goes on, in a run of its own, with the calls that clients were asked about when
// the process ended, or with the request that was lost. Calls are judged anew: rules, extensions and tools may be
// others. A message that came before it, or a command that stops what goes on, has ended the matter. One that
// puts another session in this one's place has not: as from any run, it is not known yet whether that is left.
func (AskAgain) apply(m *Machine) {
	was := m.takeCutOff()
	switch {
	case !m.isIdle() || m.stopping():
		return
	case was.leftOpen != nil && len(m.openCalls) > 0:
		m.startCalls(m.reopened(was.leftOpen, m.openCalls), m.newAttempt())
	case was.lost != nil:
		m.askLost(was)
	}
	m.cutOff.run = m.work.lastRun
}

// reopened is a run that goes on with calls that were left open.
func (m *Machine) reopened(answer *protocol.AssistantMessage, open []protocol.OpenCall) *run {
	m.openCalls = nil
	r := m.openRun()
	r.answer, r.offered = answer, m.tools
	for _, c := range open {
		r.calls = append(r.calls, &call{ToolCall: c.Call, consent: consent{again: c.Asked}})
	}
	return r
}

// stopCutOff ends what an earlier life has left to go on with, as if that had begun again.
func (m *Machine) stopCutOff(outcome string) {
	was := m.takeCutOff()
	switch {
	case was.leftOpen != nil && len(m.openCalls) > 0:
		m.abortCallsOf(m.reopened(was.leftOpen, m.openCalls), outcome)
	case was.lost != nil && was.tried > 0: // there is no run
		m.work.unsettled = true
		m.announceSettled(outcome)
	case was.lost != nil:
		m.breakOff(m.openRun(), m.newStream(), protocol.StopAborted, abortedMessage, ending{outcome: outcome})
	}
}

// reloaded takes on what the log says now. Where an entry could not be written,
// commands that needed it fail, those that only ask are answered with what is
// true, and a run ends of which a step was not made. Nothing is written: the disk
// may still be full. The session stays usable, for it may recover.
func (m *Machine) reloaded(in Reloaded, undone []Effect) {
	why := "Session file was changed by another program"
	if in.Err != nil {
		why = "Session file could not be written: " + in.Err.Error()
	}
	refusal := in.refusal(why)
	over := in.Changed || slices.ContainsFunc(undone, ofRun)
	if over {
		m.drop(refusal)
	}
	if m.activity.inRun() != nil { // it goes on
		in.Session.OpenCalls = nil
	}
	left := m.cutOff
	m.load(in.Session)
	if !in.Changed {
		m.keepCutOff(left, undone, &in.Open)
	}
	m.headless = in.Session.LeafID == ""
	m.takeBack(undone)
	if in.Changed {
		m.loadModel(in.Session)
	}
	m.budgetUndone(in.Session.Spent)
	if over {
		m.closeSpans(whole(in.Open, undone), lastWords{
			outcome: failed, why: why, logged: in.Session.Last, note: m.brokenMessage(protocol.StopError, why),
		})
	}
	if in.Changed {
		m.switchLost(refusal)
	}
	for _, e := range undone {
		m.instead(e, refusal)
	}
}

// instead answers for an effect that was not done.
func (m *Machine) instead(e Effect, why *protocol.Error) {
	switch e := e.(type) {
	case Reply:
		switch {
		case e.instead != nil:
			e = Reply{Seq: e.Seq, Data: e.instead(m, why.Message)}
		case e.Err == nil && !e.Regardless:
			e = Reply{Seq: e.Seq, Err: why}
		}
		m.do(e)
	case StartBash:
		BashDone{Job: e.Job, Err: notRun(why)}.apply(m)
	case SlowQuery:
		if protocol.TraitsOf(e.Cmd).Effect() == protocol.EffectOutside {
			QueryDone{Seq: e.Seq, Err: notRun(why)}.apply(m)
		} else {
			m.do(e)
		}
	case LoadSession, ActivateSession:
		m.switchLost(why)
	case Summarise:
		if e.Branch != 0 {
			m.switchLost(why)
		}
	case Emit:
		if changed, is := e.Event.(protocol.SessionChanged); is { // it has: only what follows failed
			m.emit(m.changed(changed.Reason))
		}
	case Closed:
		m.closed = false // it comes again when this step is over
	case SetTimer:
		if e.Name != budgetTimer {
			m.do(e)
		}
		m.armClock()
	case CancelTimer:
		m.do(e)
		m.armClock()
	case CallHook:
		if e.ID == m.intake.hook { // that about a call is the run's
			m.do(e)
		}
	default:
		if e.effect() == apart {
			m.do(e)
		}
	}
}

// notRun returns the error of a command that was not started. It removes an unknown outcome that the log reported.
func notRun(why *protocol.Error) *protocol.Error {
	if why.OutcomeIsUnknown() {
		return why.NotRun(protocol.RetryAfter)
	}
	return why
}

// ofRun says whether an effect is a step of a run.
func ofRun(e Effect) bool {
	switch e := e.(type) {
	case CallHook:
		return e.Hook.kind()&(HookInput|HookBeforeAgentStart) == 0
	case Emit:
		row := protocol.RowOf(e.Event)
		span := cmp.Or(row.Opens, row.Closes)
		return span != "" && span != protocol.SpanRetry // which is between runs
	default:
		return e.effect() == inRun
	}
}

// whole gives an open message the content that its message_end would have shown.
func whole(open OpenSpans, undone []Effect) OpenSpans {
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

// load makes what the log says the conversation. What is queued in a session in
// memory is in no log and stays, as long as the session is the same.
func (m *Machine) load(to Loaded) {
	was := m.conversation
	if m.identity.SessionID != "" && m.identity.SessionID != to.Identity.SessionID {
		m.grants = nil // they were for another session
	}
	m.conversation = conversation{
		identity: to.Identity, given: given{to.Name, loadTodos(to.Todos), to.Limits, to.Choices, false}, size: to.Context, openCalls: to.OpenCalls,
		keys: keyring{to.Keys}, fired: map[string]int{}, omitted: to.Tried > 0,
	}
	m.queueIDs = max(m.queueIDs, to.LastQueueID)
	for _, name := range to.Rules {
		m.fired[name] = m.turns
	}
	m.loadTasks(to.Tasks, to.OpenCalls)
	for _, q := range to.Queue {
		m.requeue(q)
	}
	if m.set.Ephemeral && was.identity.SessionID == to.SessionID {
		m.steering, m.followUp, m.held, m.keys = was.steering, was.followUp, was.held, was.keys
	}
}

// writeHead writes what a session begins with, unless it is there. Where the first attempt
// failed, the first entry that can be written comes behind it.
func (m *Machine) writeHead() {
	if !m.headless {
		return
	}
	m.headless = false
	if m.set.Child != nil {
		m.appendOwn(protocol.CustomSubagent, m.set.Child.SubagentEntry)
	}
	if m.name != "" {
		m.note(protocol.SessionInfo{Name: m.name})
	}
	m.stampSettings()
}

// requeue takes over what an earlier life has queued.
func (m *Machine) requeue(q protocol.QueuedInput) {
	if q.Kind != protocol.QueueBash {
		queue := m.queueOf(q.Kind)
		*queue = append(*queue, q)
		return
	}
	msg, err := protocol.DecodeMessage(q.Message)
	if b, ok := msg.(*protocol.BashExecutionMessage); ok && err == nil {
		m.held = append(m.held, heldBash{q.ID, q.Key, b})
	}
}

// loadModel selects the model and the level of a branch, where it says them.
func (m *Machine) loadModel(to Loaded) {
	if to.Model != nil && !(to.Model.Missing && sameModel(to.Model, m.model)) { // the command line takes models that nobody has listed
		m.model = to.Model
	}
	m.level = cmp.Or(to.Level, m.level)
	m.level = m.model.Clamp(m.level)
}

// apply replaces stored values by those that were requested, and records them: the session is opened
// with them the next time, too.
func (r Requested) apply(m *Machine) {
	was := m.modelChoice
	if r.Model && m.set.Model != nil {
		m.model = m.set.Model
	}
	m.level = m.model.Clamp(cmp.Or(r.Level, m.level))
	if m.model != nil && !sameModel(was.model, m.model) {
		m.note(protocol.ModelChange{Provider: m.model.Provider, ModelID: m.model.ID})
	}
	if m.level != was.level {
		m.note(protocol.ThinkingLevelChange{ThinkingLevel: m.level})
	}
	if r.Name != "" && r.Name != m.name {
		m.name = r.Name
		m.note(protocol.SessionInfo{Name: r.Name})
	}
}

// takeBack makes it as it was before choices that could not be written.
func (m *Machine) takeBack(undone []Effect) {
	for _, e := range slices.Backward(undone) {
		a, _ := e.(Append)
		switch {
		case a.was == nil:
		case a.was.chosen:
			m.choicesUndone(a.was.choices)
		case a.was.model != nil:
			m.modelChoice = *a.was.model
		default:
			m.limitsUndone(a.was)
		}
	}
}

// finishBranch writes what a branch that ends inside a run is missing, and
// returns it; and bash records that waited for the end of a run.
func (m *Machine) finishBranch(to Loaded) ([]*protocol.ToolResultMessage, *protocol.AssistantMessage) {
	if !to.Interrupted {
		m.flushHeld()
		return nil, nil
	}
	results := m.answerOpenCalls()
	m.flushHeld()
	note := m.brokenMessage(protocol.StopAborted, interruptedMessage)
	m.appendMessage(protocol.MessageEntry{Message: note})
	m.append(protocol.Custom{CustomType: protocol.CustomInterrupted, Data: json.RawMessage(`{"reason":"process ended"}`)})
	return results, note
}

// OutcomeOf is how the last work of a session has ended, as its log says.
func OutcomeOf(to protocol.Resume) string {
	last, is := to.Last.(*protocol.AssistantMessage)
	switch {
	case !is, to.Interrupted, last.ErrorMessage == interruptedMessage:
		return interrupted
	case last.StopReason == protocol.StopAborted:
		return aborted
	case last.StopReason == protocol.StopError:
		return failed
	}
	return completed
}

// brokenMessage is an assistant message that says why there is no other.
func (m *Machine) brokenMessage(stop protocol.StopReason, why string) *protocol.AssistantMessage {
	msg := &protocol.AssistantMessage{Content: protocol.Content{}, StopReason: stop, ErrorMessage: why, Timestamp: m.now}
	if m.model != nil {
		msg.API, msg.Provider, msg.Model = m.model.API, m.model.Provider, m.model.ID
	}
	return protocol.Seal(msg)
}

// answerOpenCalls gives results to tool calls that the log holds without any,
// so that the next request to a model is valid.
func (m *Machine) answerOpenCalls() []*protocol.ToolResultMessage {
	return m.answerOpenCallsAs("This call was running when the run was interrupted. It may have had effects; its output is lost.",
		"This call was never started: the run was interrupted before it.")
}

// answerOpenCallsAs says what has become of calls that were running, and of those that waited.
func (m *Machine) answerOpenCallsAs(running, waiting string) []*protocol.ToolResultMessage {
	var results []*protocol.ToolResultMessage
	open := m.openCalls
	m.openCalls = nil
	for _, u := range open {
		text := waiting
		if u.Started {
			text = running
		}
		r := errorResult(text)
		if tasks, begun := m.unfinishedTasks(u.Call.ID); begun {
			r = tasks
		}
		msg := protocol.Seal(&protocol.ToolResultMessage{
			ToolCallID: u.Call.ID, ToolName: u.Call.Name, Content: r.Content, Details: r.Details,
			IsError: true, Timestamp: m.now,
		})
		results = append(results, msg)
		m.appendMessage(protocol.MessageEntry{Message: msg})
	}
	m.unfinished = nil
	return results
}

// drop ends the activity without telling clients and leaves the machine idle; a command that
// waits for it fails. A switch goes on: nothing of it is the run's.
func (m *Machine) drop(why *protocol.Error) {
	switch a := m.activity.(type) {
	case *leavingBranch, *activating:
		return
	case *runningTools:
		for _, c := range slices.Concat(a.run.calls, a.run.inner) {
			m.letGo(c)
			m.dropTasks(c)
			if c.inner != nil {
				m.do(InnerDone{Op: c.inner.op, Err: "ctx.executeTool: the run is over"})
			}
		}
	case *streaming:
		if a.hook != 0 {
			m.do(CancelHook{a.hook})
		}
	case *asking:
		m.do(CancelHook{a.hook})
	case idle, *retrying, *compacting:
	}
	m.release()
	c := m.compaction()
	m.enter(idle{})
	m.work.retries = retries{}
	if c != nil && c.cmd != nil {
		m.fail(*c.cmd, why)
	}
}
