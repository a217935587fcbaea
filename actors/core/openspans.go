package core

import (
	"encoding/json"
	"slices"
	"strconv"

	"troupe/protocol"
)

// OpenSpans is what has been begun on the wire and not ended. It follows the
// events that really went out, so that a session that crashed, or whose log
// could not be written, can close exactly what its clients have seen open.
// The zero value is an idle session.
type OpenSpans struct {
	Run      protocol.RunID   // "" outside a run
	Message  protocol.Message // begun and not ended
	Tools    []protocol.ToolExecutionStart
	Children OpenChildren
	Messages []protocol.Message // ended, of this run
	OpenTurn
	Retry    int    // attempt announced by auto_retry_start and not ended
	Compact  string // reason of an auto_compaction_start without its end, "" for none
	Settle   bool   // a run began since the last agent_settled
	Promised bool   // a command was answered with started, and its agent_start did not go out
	LastRun  protocol.RunID
}

// OpenTurn is what of the latest turn went out.
type OpenTurn struct {
	Turn    bool             // it has not ended
	Turns   int              // of the run, with this one
	Last    protocol.Message // its assistant message
	Results []*protocol.ToolResultMessage
	Ended   []string // calls whose end went out
}

// ObserveReply follows a successful answer that went out.
func (b *OpenSpans) ObserveReply(data protocol.Result) {
	if d, ok := data.(protocol.Disposition); ok && d == protocol.Started && b.Run == "" {
		b.Promised = true
	}
}

// Observe follows an event that went out.
func (b *OpenSpans) Observe(ev protocol.Event) {
	switch ev := ev.(type) {
	case protocol.AgentStart:
		*b = OpenSpans{Run: ev.RunID, LastRun: ev.RunID, Settle: true, Retry: b.Retry}
	case protocol.AgentEnd:
		*b = OpenSpans{Settle: b.Settle, Retry: b.Retry, LastRun: b.LastRun}
	case protocol.TurnStart:
		b.OpenTurn = OpenTurn{Turn: true, Turns: ev.TurnIndex + 1}
	case protocol.TurnEnd:
		b.Turn = false
	case protocol.MessageStart:
		b.Message = ev.Message
	case protocol.MessageEnd:
		b.Message = nil
		if b.Run == "" { // of an extension, between runs
			return
		}
		b.Messages = append(b.Messages, ev.Message)
		if a, ok := ev.Message.(*protocol.AssistantMessage); ok {
			b.Last = a
		}
		if r, ok := ev.Message.(*protocol.ToolResultMessage); ok {
			b.Results = append(b.Results, r)
		}
	case protocol.ToolExecutionStart:
		b.Tools = append(b.Tools, ev)
	case protocol.ToolExecutionEnd:
		b.Tools = slices.DeleteFunc(slices.Clone(b.Tools), func(t protocol.ToolExecutionStart) bool { return t.ToolCallID == ev.ToolCallID })
		b.Ended = append(b.Ended, ev.ToolCallID)
	case protocol.AutoRetryStart:
		b.Retry = ev.Attempt
	case protocol.AutoRetryEnd:
		b.Retry = 0
	case protocol.AutoCompactionStart:
		b.Compact = ev.Reason
	case protocol.AutoCompactionEnd:
		b.Compact = ""
	case protocol.AgentSettled:
		b.Settle = false
	default: // is about a child, or begins and ends nothing, as its row says
		b.Children.observe(ev)
	}
}

// Idle says that nothing is open.
func (b *OpenSpans) Idle() bool {
	return b.Run == "" && b.Message == nil && b.Retry == 0 && b.Compact == "" && !b.Settle && !b.Promised
}

// lastWords is how a run that cannot go on is closed on the wire.
type lastWords struct {
	outcome string
	why     string
	logged  protocol.Message              // the last message of the branch
	written []*protocol.ToolResultMessage // results that the log had, of the last answer
	results []*protocol.ToolResultMessage // results that were logged for calls left open
	note    *protocol.AssistantMessage    // stands for the message that did not come
	own     bool                          // note is in the log: it gets a turn if it has none
	again   bool                          // the run goes on by itself
}

// closeSpans ends what the clients have seen begin.
func (m *Machine) closeSpans(open OpenSpans, e lastWords) {
	if open.Promised && open.Run == "" { // the client waits for it to end
		m.runs++
		begin := protocol.AgentStart{RunID: protocol.RunID(strconv.Itoa(m.runs))}
		open.Observe(begin)
		m.emit(begin)
	}
	open.end(e, m.emitPlaced)
	m.work.unsettled, m.work.lastRun = open.Settle, open.LastRun
	m.announceSettled(e.outcome)
}

// Lost ends what clients have seen begin of a session that goes on where they hear nothing of that. again says
// that the run goes on there by itself: then it is settled there, and owed says that clients wait for that.
func (b OpenSpans) Lost(why string, again bool) (list []protocol.Event, owed bool) {
	note := protocol.Seal(&protocol.AssistantMessage{Content: protocol.Content{}, StopReason: protocol.StopError, ErrorMessage: why})
	b.end(lastWords{why: why, note: note, again: again}, func(ev protocol.Event) { list = append(list, ev) })
	if b.Settle && !again {
		list = append(list, protocol.AgentSettled{Outcome: interrupted, RunID: b.LastRun})
	}
	return list, b.Settle && again
}

// end says the ends of all that is open but for what is settled later.
func (b *OpenSpans) end(e lastWords, tell func(protocol.Event)) {
	say := func(ev protocol.Event) {
		b.Observe(ev)
		tell(ev)
	}
	run, noted := b.Run, false
	if b.Compact != "" {
		say(protocol.AutoCompactionEnd{Reason: b.Compact, ErrorMessage: e.why})
	}
	if b.Message != nil {
		end := endOf(b.Message, e)
		noted = end == protocol.Message(e.note)
		say(protocol.MessageEnd{Message: end, RunID: run})
	}
	for _, ev := range b.Children.closing(e.why, protocol.VerifySkipped) {
		say(ev)
	}
	untold := slices.Clone(e.results)
	for _, r := range e.written { // and not told, some of them
		if asks(b.Last, r.ToolCallID) && !b.told(r.ToolCallID) {
			untold = append(untold, r)
		}
	}
	for _, r := range inCallOrder(b.Last, untold) {
		b.closeCall(r, say)
	}
	for _, t := range slices.Clone(b.Tools) {
		say(protocol.ToolExecutionEnd{
			ToolCallID: t.ToolCallID, ToolName: t.ToolName, Result: errorResult(e.why), IsError: true, RunID: run,
		})
	}
	showNote := func() {
		noted = true
		say(protocol.MessageStart{Message: e.note, RunID: run})
		say(protocol.MessageEnd{Message: e.note, RunID: run})
	}
	if b.Turn {
		if b.Last == nil {
			showNote()
		}
		say(protocol.TurnEnd{TurnIndex: b.Turns - 1, Message: b.Last, ToolResults: emptyNotNil(inCallOrder(b.Last, b.Results)), RunID: run})
	}
	if run != "" && e.own && !noted {
		say(protocol.TurnStart{TurnIndex: b.Turns, RunID: run})
		showNote()
		say(protocol.TurnEnd{TurnIndex: b.Turns - 1, Message: e.note, ToolResults: []*protocol.ToolResultMessage{}, RunID: run})
	}
	if run != "" {
		say(protocol.AgentEnd{Messages: emptyNotNil(b.Messages), Error: e.why, WillRetry: e.again, RunID: run})
	}
	if b.Retry > 0 {
		say(protocol.AutoRetryEnd{Attempt: b.Retry, FinalError: e.why})
	}
}

// endOf is the message_end for a message whose start went out: what the log
// has of it, or the note in its place.
func endOf(started protocol.Message, e lastWords) protocol.Message {
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

// told says whether clients have been told the result of a call.
func (b *OpenSpans) told(id string) bool {
	return slices.ContainsFunc(b.Results, func(r *protocol.ToolResultMessage) bool { return r.ToolCallID == id })
}

// asks says whether a message has a call.
func asks(msg protocol.Message, id string) bool { return callIndex(msg, id) >= 0 }

// callIndex is where a call is among those of a message, -1 if it is none of them.
func callIndex(msg protocol.Message, id string) int {
	a, is := msg.(*protocol.AssistantMessage)
	if !is {
		return -1
	}
	return slices.IndexFunc(a.Content.ToolCalls(), func(c protocol.ToolCall) bool { return c.ID == id })
}

// inCallOrder sorts results as their calls stand in a message: a log may have that of a call that was lost with its node before that of
// an earlier one, about which somebody was asked.
func inCallOrder(msg protocol.Message, results []*protocol.ToolResultMessage) []*protocol.ToolResultMessage {
	sorted := slices.Clone(results)
	slices.SortStableFunc(sorted, func(a, b *protocol.ToolResultMessage) int {
		return callIndex(msg, a.ToolCallID) - callIndex(msg, b.ToolCallID)
	})
	return sorted
}

func (b *OpenSpans) closeCall(r *protocol.ToolResultMessage, say func(protocol.Event)) {
	run := b.Run
	if run == "" || !b.Turn { // the client has seen the turn end without it
		return
	}
	begun := slices.ContainsFunc(b.Tools, func(t protocol.ToolExecutionStart) bool { return t.ToolCallID == r.ToolCallID })
	ended := slices.Contains(b.Ended, r.ToolCallID) // run in parallel: it was over, and its result not recorded yet
	if !begun && !ended {
		say(protocol.ToolExecutionStart{ToolCallID: r.ToolCallID, ToolName: r.ToolName, Args: argsOf(b.Last, r.ToolCallID), RunID: run})
	}
	if !ended {
		say(protocol.ToolExecutionEnd{
			ToolCallID: r.ToolCallID, ToolName: r.ToolName, IsError: r.IsError, RunID: run,
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
