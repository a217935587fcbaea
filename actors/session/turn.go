package session

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"troupe/protocol"
)

// startRun opens a run. first is the message that caused it, nil for a retry.
func (m *Machine) startRun(first *protocol.UserMessage) {
	m.openRun()
	if first != nil {
		m.show(first)
	}
	m.deliver(take(&m.steering, m.steeringMode))
	m.ask()
}

func (m *Machine) openRun() {
	id := m.nextRun()
	m.run = &run{id: id, turns: 1}
	m.settle = settle{owed: true, last: id, outcome: completed}
	m.emit(protocol.AgentStart{RunID: id})
	m.emit(protocol.TurnStart{RunID: id})
}

// show announces a message that is in the log as part of the run.
func (m *Machine) show(msg protocol.Message) {
	m.run.messages = append(m.run.messages, msg)
	m.emit(protocol.MessageStart{Message: msg, RunID: m.run.id})
	m.emit(protocol.MessageEnd{Message: msg, RunID: m.run.id})
}

// ask requests the next assistant message.
func (m *Machine) ask() {
	m.run.answer, m.run.calls, m.run.results = nil, nil, nil
	m.run.stream, m.run.offered = newStream(m.model, m.now), m.tools
	m.turns++
	m.enter(PhaseStreaming)
	m.do(StartStream{Run: m.nextEpoch(), Model: m.model, Level: m.Level(), Tools: m.tools})
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
	tail    []byte          // the end of what stream rules watch
}

type block struct {
	kind protocol.BlockKind
	text []byte
	args protocol.ArgsBuilder
	call protocol.ToolCall
	done protocol.Block // nil while the block grows
}

func newStream(model *protocol.Model, now int64) *stream {
	return &stream{model: model, msg: &protocol.AssistantMessage{
		Content: protocol.Content{}, API: model.API, Provider: model.Provider, Model: model.ID,
		StopReason: protocol.StopStop, Timestamp: now,
	}}
}

func (m *Machine) streamParts(in StreamParts) {
	if in.Run != m.epoch || m.run == nil || m.run.stream == nil {
		return
	}
	s := m.run.stream
	for _, p := range in.Parts {
		err := s.tooMuch(p)
		if !s.fits(p) {
			err = protocol.ErrorInternal.Errorf("the provider sent its answer out of order")
		}
		if err != nil { // nothing of the answer is run
			m.do(CancelRun{m.epoch})
			m.streamFailed(s, err)
			return
		}
		switch p := p.(type) {
		case protocol.PartStart:
			s.msg.ResponseID = p.ResponseID
			m.startMessage()
		case protocol.PartBlockStart:
			m.blockStart(s, p)
		case protocol.PartDelta:
			m.blockDelta(s, p)
			if m.watch(s, s.blocks[p.Index].kind, p.Delta) {
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

// fits says whether a part may come now: blocks open in index order and only
// open ones grow.
func (s *stream) fits(p protocol.Part) bool {
	switch p := p.(type) {
	case protocol.PartBlockStart:
		return p.Index == len(s.blocks)
	case protocol.PartDelta:
		return p.Index >= 0 && p.Index < len(s.blocks) && s.blocks[p.Index].done == nil
	case protocol.PartBlockEnd:
		return p.Index >= 0 && p.Index < len(s.blocks) && s.blocks[p.Index].done == nil
	case protocol.PartStart, protocol.PartUsage, protocol.PartDone:
	}
	return true
}

// tooMuch counts a part and says whether the answer exceeds a limit with it: many
// times what any model writes, and an end to a server that does not stop.
func (s *stream) tooMuch(p protocol.Part) *protocol.StreamError {
	switch p := p.(type) {
	case protocol.PartBlockStart:
		s.size += len(p.ID) + len(p.Name)
		if p.Kind == protocol.BlockToolCall {
			s.asked++
		}
		switch {
		case s.asked > protocol.MaxCalls:
			return protocol.ErrorInvalid.Errorf("the answer was stopped: it has more than %d tool calls; none of them was run", protocol.MaxCalls)
		case len(s.blocks) >= protocol.MaxBlocks:
			return protocol.ErrorInvalid.Errorf("the answer was stopped: it has more than %d blocks", protocol.MaxBlocks)
		}
	case protocol.PartDelta:
		s.size += len(p.Delta)
	case protocol.PartBlockEnd:
		s.size += len(p.ID) + len(p.Name) + len(p.Signature)
	case protocol.PartStart:
		s.size += len(p.ResponseID)
	case protocol.PartUsage, protocol.PartDone:
	}
	if s.size > protocol.MaxAnswer {
		return protocol.ErrorInvalid.Errorf("the answer was stopped: it is longer than %d MiB", protocol.MaxAnswer>>20)
	}
	return nil
}

// startMessage announces the assistant message once, without content.
func (m *Machine) startMessage() {
	s := m.run.stream
	if s.started {
		return
	}
	s.started = true
	frame := *s.msg
	m.emit(protocol.MessageStart{Message: &frame, RunID: m.run.id})
}

func (m *Machine) update(s *stream, u *protocol.MessageUpdate) {
	u.RunID, u.Usage = m.run.id, s.usage
	s.usage = nil
	m.emit(u)
}

func (m *Machine) blockStart(s *stream, p protocol.PartBlockStart) {
	m.startMessage()
	b := block{kind: p.Kind, call: protocol.ToolCall{ID: s.unique(p.ID, p.Index), Name: p.Name, Arguments: emptyObject}}
	s.blocks = append(s.blocks, b)
	u := &protocol.MessageUpdate{Step: protocol.UpdateStart, Kind: p.Kind, Index: p.Index}
	if p.Kind == protocol.BlockToolCall {
		u.Block = b.call
	}
	m.update(s, u)
}

var emptyObject = json.RawMessage("{}")

func (m *Machine) blockDelta(s *stream, p protocol.PartDelta) {
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

func (m *Machine) blockEnd(s *stream, p protocol.PartBlockEnd) {
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
	b.text = nil
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
	if in.Run != m.epoch || m.run == nil || m.run.stream == nil {
		return
	}
	s := m.run.stream
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
	m.finishMessage(s)
	m.retryWon()
	if m.overflowed = nil; overflows(s.model, m.run.answer) {
		m.overflowed = m.run.answer
	} else {
		m.recovered = false
	}
	m.run.calls = s.calls()
	if len(m.run.calls) == 0 {
		m.endTurn()
		return
	}
	m.startCalls()
}

// overflows says whether an answer was made of less than its request: some
// providers cut what is larger than the window, and say so only in the counts.
func overflows(model *protocol.Model, answer *protocol.AssistantMessage) bool {
	return answer.StopReason == protocol.StopStop &&
		model.ContextWindow > 0 && answer.Usage.Input+answer.Usage.CacheRead > model.ContextWindow
}

// finishMessage logs the assistant message and announces it whole.
func (m *Machine) finishMessage(s *stream) {
	msg := s.msg
	msg.Content = s.content()
	switch hasCalls := len(msg.Content.ToolCalls()) > 0; {
	case msg.StopReason == protocol.StopToolUse && !hasCalls:
		msg.StopReason = protocol.StopStop
	case msg.StopReason == protocol.StopStop && hasCalls:
		msg.StopReason = protocol.StopToolUse
	}
	if msg.Usage.TotalTokens == 0 {
		msg.Usage = s.model.Price(msg.Usage)
	}
	protocol.Seal(msg)
	if !s.started {
		frame := *msg
		if !m.set.Gates.PendingStop && s.model.API == announcesEarly {
			frame = *newStream(s.model, msg.Timestamp).msg
		}
		s.started = true
		m.appendMessage(protocol.MessageEntry{Message: msg}, nil)
		m.emit(protocol.MessageStart{Message: &frame, RunID: m.run.id})
	} else {
		m.appendMessage(protocol.MessageEntry{Message: msg}, nil)
	}
	m.run.messages = append(m.run.messages, msg)
	m.run.answer = msg
	m.run.stream = nil
	m.emit(protocol.MessageEnd{Message: msg, RunID: m.run.id})
}

// announcesEarly is the wire on which pi up to 0.45 announces a message before it
// asks. On the others, and in pi since, one that fails before it begins says so
// already in message_start.
const announcesEarly = "anthropic-messages"

// streamFailed closes a message that the provider did not finish.
func (m *Machine) streamFailed(s *stream, err *protocol.StreamError) {
	s.msg.StopReason = protocol.StopError
	s.msg.ErrorMessage = err.Message
	m.finishMessage(s)
	m.turnEnd()
	m.endRun(failed, err)
}

func (m *Machine) turnEnd() {
	m.emit(protocol.TurnEnd{Message: m.run.answer, ToolResults: emptyNotNil(m.run.results), RunID: m.run.id})
}

// endTurn closes the turn and goes on with what is queued: steering first,
// then, if the model wants nothing more, follow-ups, else the end.
func (m *Machine) endTurn() {
	m.turnEnd()
	switch {
	case !m.goesOn():
		m.endRun(completed, nil)
	case m.tooFull():
		m.beginCompaction(&compaction{reason: reasonThreshold, then: thenTurn})
	default:
		m.nextTurn()
	}
}

// goesOn says whether the run has another turn: the model wants to see the
// results of its calls, or something is queued.
func (m *Machine) goesOn() bool {
	return len(m.run.calls) > 0 || len(m.steering) > 0 || len(m.followUp) > 0
}

func (m *Machine) nextTurn() {
	next := take(&m.steering, m.steeringMode)
	if len(next) == 0 && len(m.run.calls) == 0 {
		next = take(&m.followUp, m.followUpMode)
	}
	m.run.turns++
	m.emit(protocol.TurnStart{RunID: m.run.id})
	m.deliver(next)
	m.ask()
}

// endRun closes the run. What was held back for it goes to the log, then a
// retry may follow.
func (m *Machine) endRun(outcome string, err *protocol.StreamError) {
	r := m.run
	m.run = nil
	m.nextEpoch()
	m.enter(PhaseIdle)
	m.settle.outcome = outcome
	again := outcome == failed && m.mayRetry(err)
	end := protocol.AgentEnd{Messages: emptyNotNil(r.messages), WillRetry: again, RunID: r.id}
	if outcome != completed && r.answer != nil {
		end.Error = r.answer.ErrorMessage
	}
	m.emit(end)
	recovers := outcome == failed && err != nil && err.Kind == protocol.ErrorOverflow && m.mayRecover(r.answer)
	if again || recovers && !m.recovered {
		m.omitAnswer()
	}
	m.flushHeld()
	m.retryOver()
	if again {
		m.scheduleRetry(err)
		return
	}
	m.giveUpRetry(outcome, end.Error)
	if recovers {
		m.recover()
		return
	}
	m.afterRun(outcome)
}

// omitAnswer takes the newest answer out of the context: its request is made
// again. The file keeps it.
func (m *Machine) omitAnswer() {
	m.messageCount--
	m.append(protocol.ContextEdit{}, func() { m.messageCount++ })
}

// settled announces that nothing more follows by itself.
func (m *Machine) settled(outcome string) {
	if !m.settle.owed {
		return
	}
	m.emit(protocol.AgentSettled{Aborted: outcome == aborted, Outcome: outcome, RunID: m.settle.last})
	m.settle.owed = false
}

// call is one tool call of the current turn.
type call struct {
	protocol.ToolCall
	state   callState
	host    string // the id of the host_tool_call, while the host has it
	unfit   string // why its arguments cannot be used, "" if they came whole
	dialog  string
	partial protocol.ToolResult // the latest progress
	result  *protocol.ToolResultMessage
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
func (m *Machine) startCalls() {
	m.enter(PhaseTools)
	if !m.set.Gates.Has(protocol.FeatureParallelTools) {
		m.nextCall()
		return
	}
	var ids []string
	for _, c := range m.run.calls {
		ids = append(ids, c.ID)
	}
	m.logTools(protocol.ToolOp{Op: "start", IDs: ids})
	for _, c := range m.run.calls {
		m.startCall(c)
	}
	m.callsSettled()
}

// logTools records which calls were about to start, for the reader of a log
// that ends there.
func (m *Machine) logTools(op protocol.ToolOp) {
	if m.set.Ephemeral {
		return
	}
	data, err := json.Marshal(op)
	if err != nil {
		panic("session: tool entry: " + err.Error())
	}
	m.append(protocol.Custom{CustomType: protocol.CustomTool, Data: data}, nil)
}

// nextCall starts the next waiting call, one at a time. Steering that arrived
// after the first call started skips the rest.
func (m *Machine) nextCall() {
	for i, c := range m.run.calls {
		if c.state != callWaiting {
			continue
		}
		if i > 0 && m.interruptMode != protocol.InterruptWait && len(m.steering) > 0 {
			m.skipFrom(i)
			break
		}
		m.startCall(c)
		if c.state == callRunning {
			return
		}
	}
	m.callsSettled()
}

func (m *Machine) skipFrom(i int) {
	for _, c := range m.run.calls[i:] {
		m.announceCall(c)
		m.finishCall(c, errorResult("Skipped due to queued user message."), true)
	}
}

func (m *Machine) announceCall(c *call) {
	c.state = callRunning
	m.emit(protocol.ToolExecutionStart{
		ToolCallID: c.ID, ToolName: c.Name, Args: c.Arguments, RunID: m.run.id,
	})
}

// startCall runs one call, or asks for consent first. One that cannot run ends
// here, before the next one starts.
func (m *Machine) startCall(c *call) {
	m.announceCall(c)
	if why := m.refusal(c); why != "" {
		m.finishCall(c, errorResult(why), true)
		return
	}
	switch {
	case slices.Contains(m.set.Confirm, c.Name) && m.deaf():
		m.finishCall(c, errorResult("The user did not allow this tool call: there is nobody left to ask."), true)
	case slices.Contains(m.set.Confirm, c.Name):
		m.askConsent(c)
	case c.Name == TodoTool.Name:
		m.writeTodos(c)
	default:
		m.do(StartTool{m.epoch, c.ToolCall})
	}
}

// refusal says why a call cannot run: the request did not offer the tool, whoever
// would run it, for a model may know the name from elsewhere; or its arguments
// did not come whole, or are wrong.
func (m *Machine) refusal(c *call) string {
	if !slices.Contains(m.run.offered, c.Name) {
		return "Tool " + c.Name + " not found"
	}
	if c.unfit != "" {
		return c.unfit
	}
	if m.set.Check != nil && c.Name != TodoTool.Name { // that one looks for itself
		if err := m.set.Check(c.ToolCall, m.hostTool(c.Name)); err != nil {
			return err.Error()
		}
	}
	return ""
}

func errorResult(text string) protocol.ToolResult {
	return protocol.ToolResult{Content: protocol.TextContent(text), Details: emptyObject}
}

func (m *Machine) findCall(run int, id string) *call {
	if run != m.epoch || m.run == nil {
		return nil
	}
	for _, c := range m.run.calls {
		if c.ID == id && c.state == callRunning {
			return c
		}
	}
	return nil
}

func (m *Machine) toolProgress(in ToolProgress) {
	c := m.findCall(in.Run, in.CallID)
	if c == nil {
		return
	}
	c.partial = in.Partial
	m.emit(protocol.ToolExecutionUpdate{
		ToolCallID: c.ID, ToolName: c.Name, Args: c.Arguments, PartialResult: in.Partial, RunID: m.run.id,
	})
}

func (m *Machine) toolDone(in ToolDone) {
	c := m.findCall(in.Run, in.CallID)
	if c == nil {
		return
	}
	if in.IsError && in.Result.Details == nil {
		in.Result.Details = emptyObject
	}
	m.finishCall(c, in.Result, in.IsError)
	m.afterCall()
}

func (m *Machine) afterCall() {
	if m.set.Gates.Has(protocol.FeatureParallelTools) {
		m.callsSettled()
		return
	}
	m.nextCall()
}

// finishCall records a call's result. One call at a time, the result goes to
// the log before the client sees it end; in parallel, results go to the log in
// call order once all are there, and the end of a call is only progress.
func (m *Machine) finishCall(c *call, r protocol.ToolResult, isError bool) {
	c.state, c.partial = callDone, protocol.ToolResult{}
	if r.Content == nil {
		r.Content = protocol.Content{}
	}
	c.result = protocol.Seal(&protocol.ToolResultMessage{
		ToolCallID: c.ID, ToolName: c.Name, Content: r.Content, Details: r.Details, IsError: isError, Timestamp: m.now,
	})
	end := protocol.ToolExecutionEnd{
		ToolCallID: c.ID, ToolName: c.Name, Result: r, IsError: isError, RunID: m.run.id,
	}
	if m.set.Gates.Has(protocol.FeatureParallelTools) {
		m.emit(end)
		return
	}
	m.appendMessage(protocol.MessageEntry{Message: c.result}, nil)
	m.emit(end)
	m.showResult(c)
}

func (m *Machine) showResult(c *call) {
	m.run.results = append(m.run.results, c.result)
	m.show(c.result)
}

// callsSettled ends the turn when every call has its result.
func (m *Machine) callsSettled() {
	for _, c := range m.run.calls {
		if c.state != callDone {
			return
		}
	}
	if m.set.Gates.Has(protocol.FeatureParallelTools) {
		m.recordParallel()
	}
	m.endTurn()
}

func (m *Machine) recordParallel() {
	for _, c := range m.run.calls {
		m.appendMessage(protocol.MessageEntry{Message: c.result}, nil)
		m.showResult(c)
	}
}

func (m *Machine) nextRun() protocol.RunID {
	m.runs++
	return protocol.RunID(strconv.Itoa(m.runs))
}
