package core

import (
	"encoding/json"
	"fmt"
	"slices"

	"troupe/protocol"
)

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
	began   int64  // when its tool was started, epoch milliseconds; 0 if it was not
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
	case slices.Contains(m.set.Extensions.Prepares, c.Name):
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
	case m.deaf() && !m.askedLater(c) && m.needsConsent(c):
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
	c.began = m.now
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

func (in ToolProgress) apply(m *Machine) {
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

func (in ToolDone) apply(m *Machine) {
	if r, c := m.callOf(in.Attempt, in.CallID); c != nil {
		if in.Todos != nil {
			in.Result = m.wroteTodos(in.Todos)
		}
		if in.Submission != nil {
			if refused := m.submitted(r, in.Submission); refused != nil {
				in.Result, in.IsError = *refused, true
			}
		}
		if in.Refused {
			c.began = 0
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
		ToolCallID: c.ID, ToolName: c.Name, Result: result, IsError: isError, DurationMs: m.ranFor(c), ParentToolCallID: c.inner.parentID(), RunID: r.id,
	}
	if m.set.Rules.MessageTimes && result.Structured != nil {
		end.Result.StructuredContent, end.Result.IsError = result.Structured(), isError
	}
	end.Result.Structured = nil
	if c.inner != nil {
		m.emit(end)
		m.innerOver(r, c, result, isError)
		return
	}
	c.result = protocol.Seal(&protocol.ToolResultMessage{
		ToolCallID: c.ID, ToolName: c.Name, Content: result.Content, Details: result.Details, IsError: isError, DurationMs: end.DurationMs, Timestamp: m.now,
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

// ranFor returns how long the tool of a call ran, in milliseconds; nil for a call that did not run, and in dialects
// that do not tell it.
func (m *Machine) ranFor(c *call) *int64 {
	if !m.set.Rules.MessageTimes || c.began == 0 {
		return nil
	}
	return new(m.now - c.began)
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
