package core

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"troupe/protocol"
)

// run is one agent_start … agent_end.
type run struct {
	id       protocol.RunID
	messages []protocol.Message
	turns    int                   // begun
	joinable bool                  // started by an idle steer or follow_up: a plain prompt may still join
	offered  []string              // the tools that the latest request named: only these run
	deferred []protocol.StreamRule // that match and have not stopped the answer
	system   *string               // the system prompt, where an extension has made another

	submitted bool // a child has handed over what it was asked for: no other turn follows
	turn           // the current one
}

// turn is an answer and its calls.
type turn struct {
	answer     *protocol.AssistantMessage
	answerID   string // of its entry
	overflowed bool   // the answer says that its request was too large
	calls      []*call
	parallel   bool                          // the calls run beside each other
	results    []*protocol.ToolResultMessage // in call order
	allowance  *Grant                        // how many of the calls may run; nil where nobody was asked
	verdict    *bool                         // of extensions, whether the model is asked again; nil for none
	inner      []*call                       // that calls have made and that are not over
}

// cause is why a run starts. The zero value asks again for an answer that
// failed.
type cause struct {
	said     *protocol.QueuedInput        // a message of the user, which has to be accepted
	by       Command                      // that brought it
	queued   bool                         // what waits in the queues: steering, else follow-ups
	note     *protocol.CustomMessageEntry // a message of troupe's own, or of an extension
	quiet    bool                         // clients were told of what the note is about
	joinable bool
}

// startRun opens a run: with what has caused it, then what steering waits.
func (m *Machine) startRun(c cause) {
	m.answerOpenCalls()
	if c.said != nil || c.queued {
		m.work.recovered, m.work.reminders = false, 0
		m.submission = submission{}
	}
	var said *protocol.UserMessage
	if c.said != nil { // it is in the log before it is acknowledged
		said = m.accept(*c.said)
		m.reply(c.by, protocol.Started)
	}
	r := m.openRun()
	r.joinable = c.joinable
	if said != nil {
		m.show(r, said)
		m.injectAll(r, &m.forNextTurn)
	}
	switch {
	case c.note == nil:
	case c.quiet && m.set.Rules.QuietNotes:
		m.appendCustom(*c.note)
	default:
		m.inject(r, *c.note)
	}
	if p := c.by.prepared; p != nil {
		r.system = p.SystemPrompt
		for _, e := range p.Messages {
			m.inject(r, e)
		}
	}
	m.deliver(r, m.due(c.queued))
	m.ask(r)
}

// openRun announces a run and its first turn.
func (m *Machine) openRun() *run {
	m.runs++
	r := &run{id: protocol.RunID(strconv.Itoa(m.runs))}
	m.beginClock()
	m.work.unsettled, m.work.lastRun, m.work.outcome = true, r.id, completed
	m.emit(protocol.AgentStart{RunID: r.id})
	m.turnStart(r)
	return r
}

// show announces a message that is in the log, as part of a run if there is one.
func (m *Machine) show(r *run, msg protocol.Message) {
	var id protocol.RunID
	if r != nil {
		r.messages = append(r.messages, msg)
		id = r.id
	}
	m.emit(protocol.MessageStart{Message: msg, RunID: id})
	m.emit(protocol.MessageEnd{Message: msg, RunID: id})
}

// ask requests the next assistant message.
func (m *Machine) ask(r *run) {
	r.offered = m.tools
	m.turns++
	s := &streaming{step{run: r, attempt: m.newAttempt()}, newStream(m.model, m.now)}
	m.enter(s)
	why := m.request(s.attempt, StartStream{Attempt: s.attempt, Model: m.model, Level: m.Level(), Tools: m.tools, SystemPrompt: r.system, Again: m.work.retries.made > 0 && !m.work.retries.won})
	if why != "" {
		m.breakOff(r, s.stream, protocol.StopError, why.Error(), ending{outcome: failed})
	}
}

// stream is the assistant message in progress.
type stream struct {
	msg     *protocol.AssistantMessage // everything but the content
	model   *protocol.Model            // for prices
	blocks  []block
	started bool            // message_start went out
	size    int             // bytes of all blocks
	asked   int             // tool calls among them
	usage   *protocol.Usage // counts not shown yet
	over    *StreamEnd      // the answer is whole, and extensions look at it
	hook    int             // the open one about that, 0 for none
}

type block struct {
	kind protocol.BlockKind
	text []byte
	args protocol.ArgsBuilder
	call protocol.ToolCall
	done protocol.Block // nil while the block grows
	tail []byte         // the end of it, where stream rules watch it
}

// loginWaits notes that a request waits, or does no more.
func (m *Machine) loginWaits(in LoginWaits) {
	if a, asks := m.activity.(interface{ waitsForLogin(string) }); asks && m.activity.begun() == in.Attempt {
		a.waitsForLogin(in.For)
		m.notePhase()
	}
}

func newStream(model *protocol.Model, now int64) *stream {
	return &stream{model: model, msg: &protocol.AssistantMessage{
		Content: protocol.Content{}, API: model.API, Provider: model.Provider, Model: model.ID,
		StopReason: protocol.StopStop, Timestamp: now,
	}}
}

func (m *Machine) streamParts(in StreamParts) {
	s, ok := current[*streaming](m, in.Attempt)
	if !ok || s.over != nil {
		return
	}
	for _, p := range in.Parts {
		if err := s.refusal(p); err != nil { // nothing of the answer is run
			m.release()
			m.streamFailed(s, err)
			return
		}
		switch p := p.(type) {
		case protocol.PartStart:
			s.msg.ResponseID = p.ResponseID
			if by := p.Model; by != nil {
				s.model, s.msg.API, s.msg.Provider, s.msg.Model = by, by.API, by.Provider, by.ID
			}
			m.startMessage(s)
		case protocol.PartBlockStart:
			m.blockStart(s, p)
		case protocol.PartDelta:
			m.blockDelta(s, p)
			if m.watch(s, p.Index, p.Delta) {
				return
			}
		case protocol.PartBlockEnd:
			m.blockEnd(s, p)
		case protocol.PartUsage:
			s.msg.Usage = s.model.Price(p.Usage)
			usage := s.msg.Usage
			s.usage = &usage
		case protocol.PartDone:
			// comes as StreamEnd
		}
	}
}

// refusal counts a part and says why the answer ends with it: it comes out of
// order, for blocks open in index order and only open ones grow; or the answer is
// many times what any model writes, of a server that does not stop.
func (s *stream) refusal(p protocol.Part) *protocol.StreamError {
	fits, blocks := true, len(s.blocks)
	switch p := p.(type) {
	case protocol.PartStart:
		s.size += len(p.ResponseID)
	case protocol.PartBlockStart:
		fits = p.Index == blocks
		blocks++
		s.size += len(p.ID) + len(p.Name)
		if p.Kind == protocol.BlockToolCall {
			s.asked++
		}
	case protocol.PartDelta:
		fits = s.grows(p.Index)
		s.size += len(p.Delta)
	case protocol.PartBlockEnd:
		fits = s.grows(p.Index)
		s.size += len(p.ID) + len(p.Name) + len(p.Signature)
	case protocol.PartUsage, protocol.PartDone:
	}
	switch {
	case !fits:
		return protocol.ErrorInternal.Errorf("the provider sent its answer out of order")
	case s.asked > protocol.MaxCalls:
		return protocol.ErrorInvalid.Errorf("the answer was stopped: it has more than %d tool calls; none of them was run", protocol.MaxCalls)
	case blocks > protocol.MaxBlocks:
		return protocol.ErrorInvalid.Errorf("the answer was stopped: it has more than %d blocks", protocol.MaxBlocks)
	case s.size > protocol.MaxAnswer:
		return protocol.ErrorInvalid.Errorf("the answer was stopped: it is longer than %d MiB", protocol.MaxAnswer>>20)
	}
	return nil
}

func (s *stream) grows(index int) bool {
	return index >= 0 && index < len(s.blocks) && s.blocks[index].done == nil
}

// startMessage announces the assistant message once, without content.
func (m *Machine) startMessage(s *streaming) {
	if s.started {
		return
	}
	s.started = true
	frame := *s.msg
	m.emit(protocol.MessageStart{Message: &frame, RunID: s.run.id})
}

func (m *Machine) update(s *streaming, u *protocol.MessageUpdate) {
	u.RunID, u.Usage = s.run.id, s.usage
	s.usage = nil
	m.emit(u)
}

func (m *Machine) blockStart(s *streaming, p protocol.PartBlockStart) {
	m.startMessage(s)
	b := block{kind: p.Kind, call: protocol.ToolCall{ID: s.unique(p.ID, p.Index), Name: p.Name, Arguments: emptyObject}}
	s.blocks = append(s.blocks, b)
	u := &protocol.MessageUpdate{Step: protocol.UpdateStart, Kind: p.Kind, Index: p.Index}
	if p.Kind == protocol.BlockToolCall {
		u.Block = b.call
	}
	m.update(s, u)
}

var emptyObject = json.RawMessage("{}")

func (m *Machine) blockDelta(s *streaming, p protocol.PartDelta) {
	b := &s.blocks[p.Index]
	if p.Delta == "" {
		return
	}
	if b.kind == protocol.BlockToolCall {
		b.args.Feed(p.Delta)
	} else {
		b.text = append(b.text, p.Delta...)
	}
	m.update(s, &protocol.MessageUpdate{Step: protocol.UpdateDelta, Kind: b.kind, Index: p.Index, Delta: p.Delta})
}

func (m *Machine) blockEnd(s *streaming, p protocol.PartBlockEnd) {
	b := &s.blocks[p.Index]
	if p.ID != "" {
		b.call.ID = s.unique(p.ID, p.Index)
	}
	if p.Name != "" {
		b.call.Name = p.Name
	}
	b.finish(p.Signature, p.Redacted)
	m.update(s, &protocol.MessageUpdate{Step: protocol.UpdateEnd, Kind: b.kind, Index: p.Index, Block: b.done})
}

// unique is the id of the block's call: by its id a call is told from the others
// of its message, and some models give all of them the same.
func (s *stream) unique(id string, index int) string {
	taken := func(id string) bool {
		for i := range s.blocks {
			if i != index && s.blocks[i].call.ID == id {
				return true
			}
		}
		return false
	}
	own := id
	for n := 2; id != "" && taken(own); n++ {
		own = id + "_" + strconv.Itoa(n)
	}
	return own
}

func (b *block) finish(signature string, redacted bool) {
	switch b.kind {
	case protocol.BlockText:
		b.done = protocol.Text{Text: string(b.text), Signature: signature}
	case protocol.BlockThinking:
		b.done = protocol.Thinking{Thinking: string(b.text), Signature: signature, Redacted: redacted}
	case protocol.BlockToolCall:
		b.call.Arguments = b.args.AppendJSON(nil)
		b.call.ThoughtSignature = signature
		b.done = b.call
	}
	b.text, b.tail = nil, nil
}

// content is what the blocks amount to; blocks cut short count as far as they
// got.
func (s *stream) content() protocol.Content {
	content := protocol.Content{}
	for i := range s.blocks {
		b := &s.blocks[i]
		if b.done == nil {
			b.finish("", false)
		}
		content = append(content, b.done)
	}
	return content
}

// streamEnd finishes the assistant message and decides what follows.
func (m *Machine) streamEnd(in StreamEnd) {
	s, ok := current[*streaming](m, in.Attempt)
	if !ok || s.over != nil {
		return
	}
	if in.Err != nil {
		m.streamFailed(s, in.Err)
		return
	}
	for i := range s.blocks {
		if s.blocks[i].done == nil { // the provider's duty, but the client must see an end
			m.blockEnd(s, protocol.PartBlockEnd{Index: i})
		}
	}
	s.msg.StopReason = in.Done.StopReason
	if s.started && m.listens(HookMessageEnd) {
		s.over = &in
		s.hook = m.callHook(MessageEndHook{s.compose()})
		return
	}
	m.finishMessage(s.run, s.stream)
	m.answerOver(s, s.calls())
}

// answered goes on with an answer that extensions have seen.
func (m *Machine) answered(s *streaming, answer HookAnswer) {
	rewritten, ok := answer.(Rewritten)
	if !ok || rewritten.Message == nil {
		m.finishMessage(s.run, s.stream)
		m.answerOver(s, s.calls())
		return
	}
	fitStop(rewritten.Message)
	m.recordAnswer(s.run, protocol.Seal(rewritten.Message))
	m.answerOver(s, s.replaced(rewritten.Message))
}

// answerOver decides what follows an answer that is in the log.
func (m *Machine) answerOver(s *streaming, calls []*call) {
	r := s.run
	m.retryWon()
	r.overflowed = overflows(s.model, r.answer)
	m.work.recovered, m.work.futile = m.work.recovered && r.overflowed, false
	r.calls = calls
	if len(r.calls) == 0 {
		m.endTurn(r)
		return
	}
	m.startCalls(r, s.attempt)
}

// overflows says whether an answer was made of less than its request: some
// providers cut what is larger than the window, and say so only in the counts.
func overflows(model *protocol.Model, answer *protocol.AssistantMessage) bool {
	return answer.StopReason == protocol.StopStop &&
		model.ContextWindow > 0 && answer.Usage.Input+answer.Usage.CacheRead > model.ContextWindow
}

// compose makes the message of its blocks.
func (s *stream) compose() *protocol.AssistantMessage {
	msg := s.msg
	msg.Content = s.content()
	fitStop(msg)
	if msg.Usage.TotalTokens == 0 {
		msg.Usage = s.model.Price(msg.Usage)
	}
	return protocol.Seal(msg)
}

// fitStop makes the stop reason of an answer say what is in it.
func fitStop(msg *protocol.AssistantMessage) {
	switch hasCalls := len(msg.Content.ToolCalls()) > 0; {
	case msg.StopReason == protocol.StopToolUse && !hasCalls:
		msg.StopReason = protocol.StopStop
	case msg.StopReason == protocol.StopStop && hasCalls:
		msg.StopReason = protocol.StopToolUse
	}
}

// finishMessage logs the assistant message and announces it whole.
func (m *Machine) finishMessage(r *run, s *stream) {
	msg := s.compose()
	r.answer, r.answerID = msg, m.appendMessage(protocol.MessageEntry{Message: msg})
	if !s.started {
		s.started = true
		frame := *msg
		if !m.set.Rules.FullStart && s.model.API == announcesEarly {
			frame = *newStream(s.model, msg.Timestamp).msg
		}
		m.emit(protocol.MessageStart{Message: &frame, RunID: r.id})
	}
	r.messages = append(r.messages, msg)
	m.emit(protocol.MessageEnd{Message: msg, RunID: r.id})
	m.spendAnswer(msg)
}

// recordAnswer is the same for an answer in the place of one that clients have seen
// begin.
func (m *Machine) recordAnswer(r *run, msg *protocol.AssistantMessage) {
	r.answer, r.answerID = msg, m.appendMessage(protocol.MessageEntry{Message: msg})
	r.messages = append(r.messages, msg)
	m.emit(protocol.MessageEnd{Message: msg, RunID: r.id})
}

// announcesEarly is the wire on which pi up to 0.45 announces a message before it
// asks. On the others, and in pi since, one that fails before it begins says so
// already in message_start.
const announcesEarly = "anthropic-messages"

// streamFailed closes a message that the provider did not finish.
func (m *Machine) streamFailed(s *streaming, err *protocol.StreamError) {
	m.breakOff(s.run, s.stream, protocol.StopError, err.Message, ending{outcome: failed, err: err})
}

// breakOff ends a run with an answer that was not finished.
func (m *Machine) breakOff(r *run, s *stream, stop protocol.StopReason, why string, e ending) {
	if s.hook != 0 {
		m.do(CancelHook{s.hook})
		s.hook = 0
	}
	s.msg.StopReason, s.msg.ErrorMessage = stop, why
	m.finishMessage(r, s)
	m.turnEnd(r)
	m.endRun(r, e)
}

func (m *Machine) turnStart(r *run) {
	r.turns++
	r.turn = turn{}
	m.emitPlaced(protocol.TurnStart{TurnIndex: r.turns - 1, RunID: r.id})
}

// emitPlaced emits an event with what only the session knows of it: when a turn begins, and
// whose run has ended.
func (m *Machine) emitPlaced(ev protocol.Event) {
	switch of := ev.(type) {
	case protocol.TurnStart:
		of.Timestamp = m.now
		ev = of
	case protocol.AgentEnd:
		of.SessionID, of.SessionFile = m.identity.SessionID, m.identity.File
		ev = of
	default:
	}
	m.emit(ev)
}

func (m *Machine) turnEnd(r *run) {
	m.emit(protocol.TurnEnd{TurnIndex: r.turns - 1, Message: r.answer, ToolResults: emptyNotNil(r.results), RunID: r.id})
	m.injectAll(r, &m.forTurnEnd)
}

// endTurn closes the turn, about which extensions may have a word.
func (m *Machine) endTurn(r *run) {
	if m.listens(HookTurnEnd) {
		m.askAt(r, completed, r.turnEndHook())
		return
	}
	m.turnEnd(r)
	m.turnOver(r)
}

// turnOver goes on with what is queued: steering first, then, if the model wants
// nothing more, follow-ups, else the end.
func (m *Machine) turnOver(r *run) {
	switch {
	case !m.goesOn(r):
		m.endRun(r, ending{outcome: completed})
	case m.overBudget() != "": // what follows needs the model
		m.turnStart(r)
		m.breakOff(r, newStream(m.model, m.now), protocol.StopError, m.overBudget().Error(), ending{outcome: failed})
	case m.tooFull():
		m.beginCompaction(&compacting{step: step{run: r}, reason: reasonThreshold})
	default:
		m.nextTurn(r)
	}
}

// goesOn says whether the run has another turn: the model wants to see the
// results of its calls, or something is queued.
func (m *Machine) goesOn(r *run) bool {
	return !r.submitted && (r.wantsMore() || len(m.steering) > 0 || len(m.followUp) > 0)
}

// wantsMore says whether the model is to see the results of its calls: not if all of
// them say that they are the end. What extensions have said at the end of the turn
// counts instead.
func (r *run) wantsMore() bool {
	if r.verdict != nil {
		return *r.verdict
	}
	return slices.ContainsFunc(r.calls, func(c *call) bool { return !c.final })
}

func (m *Machine) nextTurn(r *run) {
	next := m.due(!r.wantsMore())
	m.turnStart(r)
	if note := m.deferredNote(r); note != nil {
		m.inject(r, *note)
	}
	m.deliver(r, next)
	m.ask(r)
}

// ending is how a run ends.
type ending struct {
	outcome string
	err     *protocol.StreamError // why the request for its last answer failed
	rules   []protocol.StreamRule // that have stopped its last answer: it is made again
}

// endRun closes the run. What was held back for it goes to the log; then it is
// decided what follows by itself: another attempt, a compaction, or rest.
func (m *Machine) endRun(r *run, e ending) {
	m.enter(idle{})
	m.work.outcome = e.outcome
	ruled := len(e.rules) > 0
	if ruled {
		m.retryWon()
		m.noteFired(e.rules)
	}
	retries := e.outcome == failed && m.mayRetry(&m.work.retries, e.err)
	recovers := e.outcome == failed && e.err != nil && e.err.Kind == protocol.ErrorOverflow && m.mayRecover(r.answer)
	later := e.outcome == completed && len(r.deferred) > 0 && !m.stopping() && m.overBudget() == ""
	end := protocol.AgentEnd{Messages: emptyNotNil(r.messages), WillRetry: retries || ruled || later, RunID: r.id}
	switch why := m.cutBy(); {
	case why != "":
		end.Error = why.Error()
	case e.outcome != completed && r.answer != nil:
		end.Error = r.answer.ErrorMessage
	}
	m.emitPlaced(end)
	if retries || recovers && !m.work.recovered || ruled && !m.set.StreamRules.Keep {
		m.omit(r.answerID, protocol.EstimateTokens(r.answer))
	}
	m.flushHeld()
	m.retryOver()
	switch {
	case retries:
		m.scheduleRetry(&m.work.retries, &retrying{failure: e.err})
		return
	case ruled:
		m.startRun(cause{note: m.ruleNote(e.rules, stoppedByRule), quiet: true})
		return
	case later:
		m.startRun(cause{note: m.deferredNote(r)})
		return
	}
	why := end.Error
	if e.outcome == aborted {
		why = m.retryCancelled()
	}
	m.failRetries(m.work.retries.made, why)
	if recovers {
		m.recover()
		return
	}
	m.afterRun(r, e.outcome)
}

// omit takes an answer, which counts for so many tokens, out of the context: its
// request is made again. The file keeps it.
func (m *Machine) omit(id string, tokens int64) {
	m.size.Messages--
	m.size.Tokens -= tokens
	m.append(protocol.ContextEdit{TargetID: id})
}

// announceSettled says that nothing more follows by itself.
func (m *Machine) announceSettled(outcome string) {
	m.stopClock() // also that of a run that nobody has seen begin
	if !m.work.unsettled {
		return
	}
	m.emit(protocol.AgentSettled{Aborted: outcome == aborted, Outcome: outcome, RunID: m.work.lastRun, Submission: m.submission.is})
	m.work.unsettled = false
}

// call is one tool call of the current turn.
type call struct {
	protocol.ToolCall
	state callState
	host  string // the id of the host_tool_call, while the host has it
	unfit string // why its arguments cannot be used, "" if they came whole
	consent
	hooked
	partial protocol.ToolResult // the latest progress
	result  *protocol.ToolResultMessage
	entry   string // of the result
	tasks   *tasks // of a call of the task tool that has begun
	nesting
}

// consent is what is asked about a call before it runs.
type consent struct {
	dialog string
	again  string // the id of the dialog in which an earlier life has asked about it
	// approval is what the dialog asks, if it is about a permission
	approval *protocol.ApprovalRequest
	unbound  bool            // somebody was asked whether it may run without the session's sandbox
	approved json.RawMessage // arguments that somebody has put in the place of the model's; nil for none
}

// hooked is what extensions have to do with a call.
type hooked struct {
	hook  int      // the open hook about it, 0 for none
	asks  HookSet  // what that is: one of [beforeCall] as long as it may not run
	asked bool     // extensions were asked before it ran
	shown int      // how many of its own checks they were shown: see ownChecks
	final bool     // extensions want the run to end with it
	end   *Patched // how it ended, while extensions look at that
}

type callState uint8

const (
	callWaiting callState = iota
	callRunning           // tool_execution_start went out
	callDone              // tool_execution_end went out
)

func (s *stream) calls() []*call {
	var calls []*call
	for i := range s.blocks {
		if b := &s.blocks[i]; b.kind == protocol.BlockToolCall {
			calls = append(calls, &call{ToolCall: b.call, unfit: unfit(&b.args)})
		}
	}
	return calls
}

// unfit says why the arguments of a call cannot be used.
func unfit(args *protocol.ArgsBuilder) string {
	switch {
	case args.TooDeep():
		return fmt.Sprintf("The arguments of this call are nested deeper than %d levels, so it was not run. "+
			"Send it again with a flatter structure.", protocol.MaxArgDepth)
	case !args.Complete():
		return "The arguments of this call arrived incomplete, so it was not run. " +
			"Send it again, with shorter arguments if the output limit cut them off."
	}
	return ""
}

// startCalls begins the execution of a message's tool calls.
func (m *Machine) startCalls(r *run, attempt Attempt) {
	m.enter(&runningTools{step{run: r, attempt: attempt}})
	if m.draws == DrawsAbove {
		m.await(m.askCount(protocol.BudgetUsed{ToolCalls: int64(len(r.calls))}), nil)
		return
	}
	m.runCalls(r)
}

// runCalls executes the calls of an answer, as far as a budget allows them.
func (m *Machine) runCalls(r *run) {
	r.parallel = m.set.Rules.ParallelTools && !slices.ContainsFunc(r.calls, m.isSequential)
	if !r.parallel {
		m.nextCall(r)
		return
	}
	var ids []string
	for _, c := range r.calls {
		ids = append(ids, c.ID)
	}
	m.logTools(protocol.ToolOp{Op: "start", IDs: ids})
	m.startWaiting(r)
}

// startWaiting starts the calls of an answer, which run beside each other. Each
// is shown to the extensions before the next one starts.
func (m *Machine) startWaiting(r *run) {
	for _, c := range r.calls {
		if c.state == callWaiting {
			m.startCall(r, c)
		}
		if c.asks&beforeCall != 0 {
			return
		}
	}
	m.callsSettled(r)
}

// isSequential says whether nothing may run beside a call.
func (m *Machine) isSequential(c *call) bool {
	t := m.builtIn(c.Name)
	return t != nil && t.Sequential
}

// logTools records which calls were about to start, for the reader of a log
// that ends there.
func (m *Machine) logTools(op protocol.ToolOp) {
	if !m.set.Ephemeral {
		m.appendOwn(protocol.CustomTool, op)
	}
}

// logStart records that a call about which somebody was asked is about to start.
func (m *Machine) logStart(c *call) {
	if c.inner == nil {
		m.logTools(protocol.ToolOp{Op: "start", IDs: []string{c.ID}})
	}
}

// nextCall starts the next waiting call, one at a time. Steering that arrived
// after the first call started skips the rest.
func (m *Machine) nextCall(r *run) {
	for i, c := range r.calls {
		if c.state != callWaiting {
			continue
		}
		if i > 0 && !m.set.Rules.ParallelTools && m.InterruptMode != protocol.InterruptWait && len(m.steering) > 0 {
			for _, c := range r.calls[i:] {
				m.announceCall(r, c)
				m.finishCall(r, c, errorResult("Skipped due to queued user message."), true)
			}
			break
		}
		m.startCall(r, c)
		if c.state == callRunning {
			return
		}
	}
	m.callsSettled(r)
}

func (m *Machine) announceCall(r *run, c *call) {
	c.state = callRunning
	m.emit(protocol.ToolExecutionStart{
		ToolCallID: c.ID, ToolName: c.Name, Args: c.Arguments, ParentToolCallID: c.inner.parentID(), RunID: r.id,
	})
	if c.inner == nil { // calls that tools make are not the model's
		m.spendCall()
	}
}

// startCall runs one call, or asks extensions and the client for consent first.
// One that cannot run ends here, before the next one starts.
func (m *Machine) startCall(r *run, c *call) {
	if c.inner == nil && m.callRefusedByBudget(r, c) {
		return
	}
	m.announceCall(r, c)
	switch why := m.refusal(r, c); {
	case why != "":
		m.finishCall(r, c, errorResult(why), true)
	case m.prepares(c):
		m.askBefore(c, PrepareHook{c.ToolCall})
	default:
		m.admitCall(r, c)
	}
}

// admitCall goes on with a call whose arguments are there.
func (m *Machine) admitCall(r *run, c *call) {
	switch why := m.misfit(c, false); {
	case why != "":
		m.finishCall(r, c, errorResult(why), true)
	case m.listens(HookToolCall):
		m.askBefore(c, ToolCallHook{c.ToolCall, c.inner.parentID()})
	default:
		m.allowCall(r, c)
	}
}

// allowCall goes on with a call that no extension has blocked.
func (m *Machine) allowCall(r *run, c *call) {
	if (m.judges() || c.wasAsked()) && c.Name != SubmitTool { // which does nothing outside
		m.judge(c)
		return
	}
	m.permitCall(r, c)
}

// permitCall goes on with a call that no permission rule stands against.
func (m *Machine) permitCall(r *run, c *call) {
	switch {
	case m.nobodyConsents(c):
		m.finishCall(r, c, errorResult(nobodyLeft), true)
	case m.needsConsent(c):
		m.askConsent(c)
	default:
		if c.asked {
			m.logStart(c)
		}
		m.runCall(c)
	}
}

// nobodyConsents says whether a call needs the consent of clients of which none is
// left.
func (m *Machine) nobodyConsents(c *call) bool {
	return m.deaf() && !m.askedLater(c) && m.needsConsent(c)
}

// needsConsent says whether --confirm names a tool that a call is of, or that it has run.
func (m *Machine) needsConsent(c *call) bool {
	return slices.Contains(m.set.Confirm, c.Name) || slices.Contains(m.set.Confirm, BashTool) && len(m.ownChecks(c)) > 0
}

const nobodyLeft = "The user did not allow this tool call: there is nobody left to ask."

// refusal says why a call cannot run: the request did not offer the tool, whoever
// would run it, for a model may know the name from elsewhere; or its arguments
// did not come whole; or somebody who has to see it is not there.
func (m *Machine) refusal(r *run, c *call) string {
	if !slices.Contains(r.offered, c.Name) {
		return "Tool " + c.Name + " not found"
	}
	if c.inner != nil && slices.Contains(notInner, c.Name) {
		return "Tool " + c.Name + " not found"
	}
	if c.unfit != "" {
		return c.unfit
	}
	return m.set.Extensions.Refuse
}

// misfit says what is wrong with the arguments of a call; see Settings.Check.
func (m *Machine) misfit(c *call, exact bool) string {
	if m.set.Check != nil {
		if err := m.set.Check(c.ToolCall, m.host, exact); err != nil {
			return err.Error()
		}
	}
	if r := m.activity.inRun(); len(m.ownChecks(c)) > 0 && !slices.Contains(r.offered, BashTool) {
		return "Invalid verify: commands need the tool " + BashTool + ", which is switched off; a profile may be named."
	}
	return ""
}

// notInner are the tools whose calls only models make: what they do lasts as long as a turn.
var notInner = []string{TaskTool, SubmitTool}

func errorResult(text string) protocol.ToolResult {
	return protocol.ToolResult{Content: protocol.TextContent(text), Details: emptyObject}
}

// runCall has a call carried out.
func (m *Machine) runCall(c *call) {
	m.do(StartTool{m.activity.begun(), c.ToolCall, c.unbound})
}

// findCall is the first of the turn's calls that is wanted, and its run; nil for
// none.
func (m *Machine) findCall(wanted func(*call) bool) (*run, *call) {
	if a, ok := m.activity.(*runningTools); ok {
		for _, list := range [][]*call{a.run.calls, a.run.inner} {
			if i := slices.IndexFunc(list, wanted); i >= 0 {
				return a.run, list[i]
			}
		}
	}
	return nil, nil
}

// callOf is the running call with an id; nil if the attempt is over.
func (m *Machine) callOf(attempt Attempt, id string) (*run, *call) {
	if _, ok := current[*runningTools](m, attempt); !ok {
		return nil, nil
	}
	return m.findCall(func(c *call) bool { return c.ID == id && c.state == callRunning && c.hook == 0 })
}

func (m *Machine) toolProgress(in ToolProgress) {
	if r, c := m.callOf(in.Attempt, in.CallID); c != nil {
		m.progressed(r, c, in.Partial)
	}
}

func (m *Machine) progressed(r *run, c *call, partial protocol.ToolResult) {
	c.partial = partial
	m.emit(protocol.ToolExecutionUpdate{
		ToolCallID: c.ID, ToolName: c.Name, Args: c.Arguments, PartialResult: partial, ParentToolCallID: c.inner.parentID(), RunID: r.id,
	})
	if c.inner != nil {
		m.do(InnerProgress{c.inner.op, partial})
	}
}

func (m *Machine) toolDone(in ToolDone) {
	if r, c := m.callOf(in.Attempt, in.CallID); c != nil {
		if in.Todos != nil {
			m.keepTodos(in.Todos)
		}
		if in.Submission != nil {
			if refused := m.submitted(r, c, in.Submission); refused != nil {
				in.Result, in.IsError = *refused, true
			}
		}
		m.returned(r, c, in.Result, in.IsError)
	}
}

// returned takes the result of a call that ran: extensions may put another in its
// place.
func (m *Machine) returned(r *run, c *call, result protocol.ToolResult, isError bool) {
	if isError && result.Details == nil {
		result.Details = emptyObject
	}
	if m.listens(HookToolResult) {
		c.end = &Patched{result, isError}
		c.hook = m.callHook(ToolResultHook{c.ToolCall, c.inner.parentID(), result, isError})
		return
	}
	m.settleCall(r, c, result, isError)
}

// settleCall ends a call, and goes on with the next.
func (m *Machine) settleCall(r *run, c *call, result protocol.ToolResult, isError bool) {
	m.finishCall(r, c, result, isError)
	m.goOnWithCalls(r)
}

// goOnWithCalls starts what may start after a call has got on.
func (m *Machine) goOnWithCalls(r *run) {
	switch {
	case r.parallel:
		m.startWaiting(r)
	case !slices.ContainsFunc(r.calls, func(c *call) bool { return c.state == callRunning }):
		m.nextCall(r)
	}
}

// finishCall records a call's result. One call at a time, the result goes to
// the log before the client sees it end; in parallel, results go to the log in
// call order once all are there, and the end of a call is only progress.
func (m *Machine) finishCall(r *run, c *call, result protocol.ToolResult, isError bool) {
	m.endInner(r, c)
	c.state, c.partial = callDone, protocol.ToolResult{}
	if result.Content == nil {
		result.Content = protocol.Content{}
	}
	result.Details = c.withApproved(result.Details)
	end := protocol.ToolExecutionEnd{
		ToolCallID: c.ID, ToolName: c.Name, Result: result, IsError: isError, ParentToolCallID: c.inner.parentID(), RunID: r.id,
	}
	if c.inner != nil {
		m.emit(end)
		m.innerOver(r, c, result, isError)
		return
	}
	c.result = protocol.Seal(&protocol.ToolResultMessage{
		ToolCallID: c.ID, ToolName: c.Name, Content: result.Content, Details: result.Details, IsError: isError, Timestamp: m.now,
		StructuredContent: result.StructuredContent, Usage: c.usageOf(result.Usage), NestedCalls: c.nested,
	})
	c.final = c.final || result.Terminate
	if r.parallel {
		m.emit(end)
		return
	}
	c.entry = m.appendMessage(protocol.MessageEntry{Message: c.result})
	m.emit(end)
	m.showResult(r, c)
}

func (m *Machine) showResult(r *run, c *call) {
	r.results = append(r.results, c.result)
	m.show(r, c.result)
}

// callsSettled ends the turn when every call has its result.
func (m *Machine) callsSettled(r *run) {
	if slices.ContainsFunc(r.calls, func(c *call) bool { return c.state != callDone }) {
		return
	}
	if r.parallel {
		m.recordParallel(r)
	}
	m.endTurn(r)
}

func (m *Machine) recordParallel(r *run) {
	for _, c := range r.calls {
		c.entry = m.appendMessage(protocol.MessageEntry{Message: c.result})
		m.showResult(r, c)
	}
}
