package core

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"troupe/protocol"
)

// HookSet is the hooks that extensions listen to, one bit each.
type HookSet uint16

const (
	HookInput HookSet = 1 << iota
	HookBeforeAgentStart
	HookToolCall
	HookToolResult
	HookPrepare // by the tool itself, whoever listens
	HookMessageEnd
	HookTurnEnd
	HookAgentEnd
	HookBeforeSettle
	HookPermission // by the permission rules, which are no extension: see [Judge]
)

// beforeCall is the hooks without whose answer a call does not run.
const beforeCall = HookToolCall | HookPrepare | HookPermission

// Has says whether somebody listens.
func (s HookSet) Has(h HookSet) bool { return s&h != 0 }

// Extensions is what the extensions of a session have registered, as far as the
// rules depend on it. The zero value is a session without any.
type Extensions struct {
	Loaded  bool // there are some
	Listens HookSet
	// Refuse is why no tool may be called: an extension that must see every call
	// is not there. "" refuses none.
	Refuse string
	Tools  []string // of extensions; a new one is active at once
	// Prepares are those that make the arguments of their calls themselves, before
	// these are checked.
	Prepares []string
}

// Hook is a point at which extensions may change what the machine does next. The
// machine waits for their answer. What they may only watch they are told like
// clients, by the shell.
//
//sumtype:decl
type Hook interface{ kind() HookSet }

// KindOf is which hook it is.
func KindOf(h Hook) HookSet { return h.kind() }

// InputHook shows a message before anything is done with it. Its text is as the
// client wrote it.
type InputHook struct{ Command Command }

// BeforeAgentStartHook shows a message that is about to start a run.
type BeforeAgentStartHook struct{ Command Command }

// ToolCallHook shows a call that is about to run.
type ToolCallHook struct {
	Call   protocol.ToolCall
	Parent string // the id of the call that has made it, "" for one of the model
}

// PrepareHook lets a tool of an extension make the arguments of a call out of those
// that the model wrote.
type PrepareHook struct{ Call protocol.ToolCall }

// MessageEndHook shows an answer of the model that has come to its end, before anybody
// else sees it whole.
type MessageEndHook struct{ Message *protocol.AssistantMessage }

// TurnEndHook shows a turn that has come to its end.
type TurnEndHook struct {
	Turn      int // of the run, from 0
	Message   *protocol.AssistantMessage
	MessageID string // of its entry
	Results   []*protocol.ToolResultMessage
	ResultIDs []string
	Continue  bool // the model is to see the results
}

// AgentEndHook shows a run that is about to end. What is sent meanwhile begins the next one. It
// has no answer.
type AgentEndHook struct{ Messages []protocol.Message }

// BeforeSettleHook shows that nothing follows by itself.
type BeforeSettleHook struct{ Outcome string }

// ToolResultHook shows the result of a call, before anybody else sees it.
type ToolResultHook struct {
	Call    protocol.ToolCall
	Parent  string // as in [ToolCallHook]
	Result  protocol.ToolResult
	IsError bool
}

func (InputHook) kind() HookSet            { return HookInput }
func (BeforeAgentStartHook) kind() HookSet { return HookBeforeAgentStart }
func (ToolCallHook) kind() HookSet         { return HookToolCall }
func (ToolResultHook) kind() HookSet       { return HookToolResult }
func (PrepareHook) kind() HookSet          { return HookPrepare }
func (MessageEndHook) kind() HookSet       { return HookMessageEnd }
func (TurnEndHook) kind() HookSet          { return HookTurnEnd }
func (AgentEndHook) kind() HookSet         { return HookAgentEnd }
func (BeforeSettleHook) kind() HookSet     { return HookBeforeSettle }

// HookAnswer is what extensions say to a hook: the one that belongs to it, or nil
// for nothing. To say nothing changes nothing, but for a tool call: that is
// blocked, since whoever had to see it has not.
//
//sumtype:decl
type HookAnswer interface{ answers() HookSet }

// Taken answers an [InputHook]: the command as it goes on, its text expanded.
type Taken struct {
	Command Command
	Handled bool // by an extension: nothing else is done with it
}

// Prepared answers a [BeforeAgentStartHook].
type Prepared struct {
	Messages     []protocol.CustomMessageEntry // that follow the user's
	SystemPrompt *string                       // for this run; nil for the usual one
}

// Gated answers a [ToolCallHook].
type Gated struct {
	Blocked bool
	Reason  string          // why it is blocked, for the model; "" for the usual words
	Final   bool            // the run ends with it, if all calls of the answer say so
	Args    json.RawMessage // in the place of the call's; nil for those
}

// Arranged answers a [PrepareHook].
type Arranged struct {
	Args json.RawMessage
	Err  string // why there are none, for the model; "" if there are
}

// Rewritten answers a [MessageEndHook] with what stands in the place of the message.
type Rewritten struct{ Message *protocol.AssistantMessage }

// Proposed answers a [TurnEndHook] or [BeforeSettleHook].
type Proposed struct {
	Entries  []protocol.Entry // Custom, CustomMessageEntry or ContextEdit, to be added
	Continue *bool            // whether the model is asked again; nil leaves it at that
}

// Judged answers a [Judge]. The zero value lets the call run.
type Judged struct {
	Refused string // why it may not run, for the model
	// Ask is what somebody has to answer first. Who asks, about which call and when, and
	// how to refuse, the machine says.
	Ask *protocol.ApprovalRequest
}

// Patched answers a [ToolResultHook] with what stands in the place of the result.
type Patched struct {
	Result  protocol.ToolResult
	IsError bool
}

func (Taken) answers() HookSet     { return HookInput }
func (Prepared) answers() HookSet  { return HookBeforeAgentStart }
func (Gated) answers() HookSet     { return HookToolCall }
func (Patched) answers() HookSet   { return HookToolResult }
func (Arranged) answers() HookSet  { return HookPrepare }
func (Rewritten) answers() HookSet { return HookMessageEnd }
func (Proposed) answers() HookSet  { return HookTurnEnd | HookBeforeSettle }
func (Judged) answers() HookSet    { return HookPermission }

// intake is messages on their way past the extensions, oldest first. They leave
// it in the order in which they came.
type intake struct {
	list []Command
	seen bool      // the first one's text is final
	prep *Prepared // what was said to its run
	hook int       // the open hook, 0 for none: it is about the first one
}

// next lets the first message go.
func (i *intake) next() { *i = intake{list: i.list[1:]} }

// callHook asks extensions. The number of the hook comes back with the answer.
func (m *Machine) callHook(h Hook) int {
	m.hooks++
	m.do(CallHook{m.hooks, h})
	return m.hooks
}

// listens says whether extensions want to be asked.
func (m *Machine) listens(h HookSet) bool { return m.set.Extensions.Listens.Has(h) }

// message is a prompt, steer or follow_up: it goes past the extensions that want
// to see it, behind those that came before it.
func (m *Machine) message(c Command) {
	if c.Extension != nil {
		m.runExtensionCommand(c)
		return
	}
	if len(m.intake.list) == 0 && !m.listens(HookInput) && !(m.listens(HookBeforeAgentStart) && m.startsRun(c)) {
		m.take(c)
		return
	}
	if key := keyOf(c.Cmd); key != "" { // of the words of the client: a message that it sends again is the same, whatever becomes of it
		c.key = said(c).Key
		if m.repeated(c, protocol.QueuedInput{Key: c.key}) {
			return
		}
	}
	m.takeInTurn(c)
}

// runExtensionCommand starts a command that an extension has registered. It is
// no part of a run, and nobody waits for its end.
func (m *Machine) runExtensionCommand(c Command) {
	if _, ok := c.Cmd.(protocol.Prompt); !ok {
		m.fail(c, protocol.CodeInvalidParams.Errorf(
			"Extension command %q cannot be queued. Use prompt() or execute the command when not streaming.", "/"+c.Extension.Name))
		return
	}
	m.do(RunCommand{c.Seq, c.Extension.Name, c.Extension.Args})
	m.reply(c, protocol.Handled)
}

// takeInTurn takes a message past the extensions, behind those that came before it.
func (m *Machine) takeInTurn(c Command) {
	m.intake.list = append(m.intake.list, c)
	if len(m.intake.list) == 1 {
		m.takeNext()
	}
}

// takeNext goes on with the messages of the intake as far as nobody has to be
// asked.
func (m *Machine) takeNext() {
	for len(m.intake.list) > 0 && m.swap == nil {
		c := m.intake.list[0]
		switch {
		case !m.intake.seen && c.Note == nil && m.listens(HookInput):
			m.intake.hook = m.callHook(InputHook{c})
			return
		case m.intake.prep == nil && m.listens(HookBeforeAgentStart) && m.startsRun(c):
			m.intake.seen = true
			m.intake.hook = m.callHook(BeforeAgentStartHook{c})
			return
		}
		c.prepared = m.intake.prep
		m.intake.next()
		if c.Note != nil {
			m.noteSent(*c.Note, c.prepared)
		} else {
			m.take(c)
		}
	}
	m.takeWaiting()
}

// startsRun says whether a message begins a run now, rather than wait or fail.
func (m *Machine) startsRun(c Command) bool {
	_, isPrompt := c.Cmd.(protocol.Prompt)
	if c.Note != nil {
		return m.isIdle() && m.model != nil && m.closing == nil
	}
	return m.isIdle() && m.model != nil && m.ready(c) == nil && !m.tooFull() && (isPrompt || !m.set.Rules.IdleQueueWaits)
}

// apply takes the answer of extensions. An answer to a hook that nobody waits
// for any more changes nothing.
func (in HookDone) apply(m *Machine) {
	if in.ID == 0 {
		return
	}
	if in.ID == m.intake.hook {
		m.takenIn(in.Answer)
		return
	}
	switch a := m.activity.(type) {
	case *runningTools:
		if r, c := m.findCall(func(c *call) bool { return c.hook == in.ID }); c != nil {
			c.hook = 0
			m.callHooked(r, c, in.Answer)
		}
	case *streaming:
		if a.hook == in.ID {
			a.hook = 0
			m.answered(a, in.Answer)
		}
	case *asking:
		if a.hook == in.ID {
			m.asked(a, in.Answer)
		}
	case idle, *retrying, *compacting, *leavingBranch, *activating: // it was about what is over
	}
}

func (m *Machine) takenIn(answer HookAnswer) {
	m.intake.hook = 0
	first := &m.intake.list[0]
	taken, isTaken := answer.(Taken)
	switch {
	case m.intake.seen: // its run was asked about
		prep, _ := answer.(Prepared)
		m.intake.prep = &prep
	case isTaken && taken.Handled:
		c := *first
		m.intake.next()
		m.done(c, protocol.Handled)
	case isTaken && taken.Command.Refused != nil:
		m.intake.next()
		m.fail(taken.Command, taken.Command.Refused)
	case isTaken:
		taken.Command.key = first.key
		*first = taken.Command
		m.intake.seen = true
	default:
		m.intake.seen = true
	}
	m.takeNext()
}

// dropIntake answers the messages of the intake: nothing was done with them.
func (m *Machine) dropIntake(err *protocol.Error) {
	m.cancelIntakeHook()
	list := m.intake.list
	m.intake = intake{}
	for _, c := range list {
		if c.Note != nil { // it is kept, and begins nothing
			note := *c.Note
			note.Trigger = false
			m.noteSent(note, nil)
			continue
		}
		m.do(Reply{Seq: c.Seq, Err: err})
	}
}

// cancelIntakeHook takes back what extensions were asked about the first message.
func (m *Machine) cancelIntakeHook() {
	if m.intake.hook != 0 {
		m.do(CancelHook{m.intake.hook})
	}
}

// askBefore shows a call to extensions before it runs.
func (m *Machine) askBefore(c *call, h Hook) {
	m.beginAsking(c, h.kind())
	c.hook = m.callHook(h)
}

// beginAsking notes that a call does not run before somebody has answered.
func (m *Machine) beginAsking(c *call, who HookSet) {
	if !c.asked && c.inner == nil {
		m.logTools(protocol.ToolOp{Op: "ask", IDs: []string{c.ID}, Dialog: c.again})
	}
	c.asked, c.asks = true, who
}

// callHooked goes on with a call about which extensions were asked.
func (m *Machine) callHooked(r *run, c *call, answer HookAnswer) {
	asks := c.asks
	c.asks = 0
	switch asks {
	case HookPrepare:
		m.arranged(r, c, answer)
	case HookToolCall:
		m.gated(r, c, answer)
	case HookPermission:
		m.judged(r, c, answer)
	default: // it has run
		end := *c.end
		if patched, ok := answer.(Patched); ok {
			end = patched
		}
		m.finishCall(r, c, end.Result, end.IsError)
	}
	m.goOnWithCalls(r)
}

// arranged goes on with a call whose tool has made its arguments.
func (m *Machine) arranged(r *run, c *call, answer HookAnswer) {
	made, ok := answer.(Arranged)
	switch {
	case !ok:
		m.finishCall(r, c, errorResult("Tool "+c.Name+" did not take the call: its extension did not answer."), true)
	case made.Err != "":
		m.finishCall(r, c, errorResult(made.Err), true)
	default:
		c.Arguments = made.Args
		m.admitCall(r, c)
	}
}

// gated goes on with a call that extensions have to let pass.
func (m *Machine) gated(r *run, c *call, answer HookAnswer) {
	gated, answered := answer.(Gated)
	c.final = c.final || gated.Final
	switch {
	case !answered:
		m.finishCall(r, c, errorResult("Tool execution was blocked: the extension that has to allow it did not answer."), true)
	case gated.Blocked:
		m.finishCall(r, c, errorResult(cmp.Or(gated.Reason, "Tool execution was blocked")), true)
	case c.shown > 0 && gated.Args != nil:
		m.finishCall(r, c, errorResult("This tool call was not run: an extension changed a command of its verify, which cannot be done."), true)
	default:
		if gated.Args != nil {
			c.Arguments = gated.Args
		}
		m.showChecks(r, c)
	}
}

// showChecks shows extensions what a call is going to have run, as calls of bash, one after the other.
func (m *Machine) showChecks(r *run, c *call) {
	own := m.ownChecks(c)
	if c.shown >= len(own) || !m.listens(HookToolCall) {
		m.allowCall(r, c)
		return
	}
	args := protocol.AppendValue(nil, map[string]string{"command": own[c.shown]})
	c.shown++
	m.askBefore(c, ToolCallHook{protocol.ToolCall{ID: c.ID + "/verify/" + strconv.Itoa(c.shown), Name: BashTool, Arguments: args}, c.ID})
}

// extensionsChanged makes tools active that extensions have registered since, and
// takes away those that are gone.
func (m *Machine) extensionsChanged(was []string) {
	now := m.set.Extensions.Tools
	active := slices.DeleteFunc(slices.Clone(m.tools), func(n string) bool {
		return slices.Contains(was, n) && !slices.Contains(now, n) && m.builtIn(n) == nil
	})
	for _, n := range now {
		if !slices.Contains(was, n) && !slices.Contains(active, n) {
			active = append(active, n)
		}
	}
	m.tools = active
}

// asides are messages of extensions that wait for a moment of the conversation.
type asides struct {
	forTurnEnd  []protocol.CustomMessageEntry // for the end of the turn
	forNextTurn []protocol.CustomMessageEntry // for the next message of the user
}

// apply takes a message of an extension to where it belongs.
func (in CustomSent) apply(m *Machine) {
	c := Command{Note: &in, FromExtension: true}
	if !in.Trigger || in.Deliver == DeliverNextTurn || !m.startsRun(c) || len(m.intake.list) == 0 && !m.listens(HookBeforeAgentStart) {
		m.noteSent(in, nil)
		return
	}
	m.takeInTurn(c)
}

// noteSent adds it. prep is what extensions have said to the run that it begins.
func (m *Machine) noteSent(in CustomSent, prep *Prepared) {
	inRun := m.activity.inRun() != nil
	switch {
	case in.Deliver == DeliverNextTurn:
		m.forNextTurn = append(m.forNextTurn, in.Message)
	case inRun && in.Deliver == DeliverAfterTurn:
		m.forTurnEnd = append(m.forTurnEnd, in.Message)
	case inRun, !m.isIdle() && in.Trigger:
		m.enqueueCustom(in)
	case in.Trigger && m.model != nil && m.closing == nil:
		m.startRun(cause{note: &in.Message, by: Command{prepared: prep}})
	default:
		m.inject(nil, in.Message)
	}
}

// enqueueCustom keeps a message of an extension for the run that is on.
func (m *Machine) enqueueCustom(in CustomSent) {
	q := protocol.QueuedInput{Kind: protocol.QueueSteer, Text: in.Message.Content.Text("\n"), Custom: &in.Message}
	if in.Deliver == DeliverFollowUp {
		q.Kind = protocol.QueueFollowUp
	}
	m.addToQueue(q)
}

// deliverCustom adds a message of an extension that was queued. It leaves the
// queue behind its entry: a crash between the two says it twice rather than never.
func (m *Machine) deliverCustom(q protocol.QueuedInput) protocol.Message {
	msg := m.appendCustom(*q.Custom)
	m.logQueue(protocol.QueueOp{Op: "remove", IDs: []string{q.ID}})
	return msg
}

// keyOf is the idempotency key of a message, "" for none.
func keyOf(cmd protocol.Command) string {
	switch cmd := cmd.(type) {
	case protocol.Prompt:
		return cmd.IdempotencyKey
	case protocol.Steer:
		return cmd.IdempotencyKey
	case protocol.FollowUp:
		return cmd.IdempotencyKey
	default:
		return ""
	}
}
