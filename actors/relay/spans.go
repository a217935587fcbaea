package relay

import (
	"bytes"
	"slices"
	"sync"

	"github.com/tidwall/gjson"

	"troupe/actors/link"
	"troupe/protocol"
)

// spans are what a client has been told has begun in a session and not that it has ended, oldest
// first. A node that is lost ends nothing any more, and another one knows of nothing that it began:
// a client that does not ask for a snapshot is told here.
type spans struct {
	from   string // the life of the node that has said so
	open   []span
	answer protocol.Message // the last of the turn that is open; nil for none
	work   bool             // a run has begun since the last agent_settled
	owed   []protocol.Event // the ends of what was seen of a session that was here
}

// span is one of them.
type span struct {
	of   protocol.Span
	id   string // of a tool call or a child; "" for what there is one of
	line []byte // with which it began
}

var rows = sync.OnceValue(func() map[string]*protocol.EventSpec {
	m := map[string]*protocol.EventSpec{}
	for i, e := range protocol.Events {
		if e.Opens != "" || e.Closes != "" {
			m[e.Name] = &protocol.Events[i]
		}
	}
	return m
})

// observe follows an event that the client is told.
func (s *spans) observe(row *protocol.EventSpec, line []byte) {
	of, id := row.Opens+row.Closes, ""
	switch of {
	case protocol.SpanTool:
		id = gjson.GetBytes(line, "toolCallId").Str
	case protocol.SpanChild, protocol.SpanAttempt, protocol.SpanCheck:
		id = gjson.GetBytes(line, "id").Str
	default: // there is one at a time
	}
	s.open = slices.DeleteFunc(s.open, func(o span) bool { return o.of == of && o.id == id }) // it may be told by two names
	switch {
	case row.Opens == protocol.SpanRun:
		s.work = true
	case row.Closes == protocol.SpanWork:
		s.work = false
	case row.Opens == protocol.SpanTurn:
		s.answer = nil
	case row.Closes == protocol.SpanMessage:
		if m, is := messageOf(line).(*protocol.AssistantMessage); is {
			s.answer = m
		}
	}
	if row.Opens != "" {
		s.open = append(s.open, span{of, id, bytes.Clone(line)})
	}
}

// seenOpen reports whether the client has seen a span begin that an event begins, and not end.
func (s *spans) seenOpen(row *protocol.EventSpec, line []byte) bool {
	at := func(path string) string { return gjson.GetBytes(line, path).String() }
	is := map[string]string{}
	switch row.Opens {
	case protocol.SpanRun:
		is["runId"] = at("runId")
	case protocol.SpanTurn:
		is["runId"], is["turnIndex"] = at("runId"), at("turnIndex")
	case protocol.SpanMessage:
		is["message.role"], is["message.timestamp"] = at("message.role"), at("message.timestamp")
	case protocol.SpanTool:
		is["toolCallId"] = at("toolCallId")
	case protocol.SpanChild:
		is["id"] = at("id")
	default:
		return false
	}
	return slices.ContainsFunc(s.open, func(o span) bool { return o.matches(link.OpenSpan{Span: row.Opens, Is: is}) })
}

// matches reports whether a span is one that a session has named.
func (o span) matches(named link.OpenSpan) bool {
	if o.of != named.Span {
		return false
	}
	for path, value := range named.Is {
		if v := gjson.GetBytes(o.line, path); v.Exists() && v.String() != value {
			return false
		}
	}
	return true
}

// endMissed ends the spans that are not open any more, the latest first, and returns the events that do. The others stay.
func (s *spans) endMissed(open []link.OpenSpan) (list []protocol.Event) {
	kept := s.open[:0:0]
	for _, o := range slices.Backward(s.open) {
		if slices.ContainsFunc(open, o.matches) {
			kept = append(kept, o)
			continue
		}
		list = append(list, s.ending(o, missedOnTheWay, true))
	}
	slices.Reverse(kept)
	s.open = kept
	return list
}

// missedOnTheWay is why a span ends of which the client has not read the real end.
const missedOnTheWay = "ended while the connection to the session's node was lost: the log of the session has the result"

// messageOf is the message that an event is about; nil if it cannot be read.
func messageOf(line []byte) protocol.Message {
	m, err := protocol.DecodeMessage([]byte(gjson.GetBytes(line, "message").Raw))
	if err != nil {
		return nil
	}
	return m
}

// end ends all that is open, the latest first, and says with which events. outcome is that of the work, "" where it
// goes on by itself: that it is settled is told later.
func (s *spans) end(why, outcome string) (list []protocol.Event) {
	again := outcome == ""
	list = s.owed
	for _, o := range slices.Backward(s.open) {
		list = append(list, s.ending(o, why, again))
	}
	if s.work && !again {
		list = append(list, protocol.AgentSettled{Outcome: outcome})
	}
	*s = spans{work: s.work && again}
	return list
}

func (s *spans) ending(o span, why string, again bool) protocol.Event {
	at := func(member string) gjson.Result { return gjson.GetBytes(o.line, member) }
	run := protocol.RunID(at("runId").Str)
	switch o.of {
	case protocol.SpanRun:
		return protocol.AgentEnd{Messages: []protocol.Message{}, Error: why, WillRetry: again, RunID: run}
	case protocol.SpanTurn:
		answer := s.answer
		if answer == nil {
			answer = broken(nil, why)
		}
		return protocol.TurnEnd{TurnIndex: int(at("turnIndex").Int()), Message: answer, ToolResults: []*protocol.ToolResultMessage{}, RunID: run}
	case protocol.SpanMessage:
		m := messageOf(o.line)
		if a, is := m.(*protocol.AssistantMessage); is || m == nil {
			m = broken(a, why)
			s.answer = m
		}
		return protocol.MessageEnd{Message: m, RunID: run}
	case protocol.SpanTool:
		failed := protocol.ToolResult{Content: protocol.TextContent(why), Details: []byte("{}")}
		return protocol.ToolExecutionEnd{ToolCallID: o.id, ToolName: at("toolName").Str, Result: failed, IsError: true, RunID: run}
	case protocol.SpanCompaction:
		return protocol.AutoCompactionEnd{Reason: at("reason").Str, ErrorMessage: why}
	case protocol.SpanRetry:
		return protocol.AutoRetryEnd{Attempt: int(at("attempt").Int()), FinalError: why}
	case protocol.SpanCheck:
		return protocol.SubagentVerificationCommandEnd{ID: o.id, Attempt: int(at("attempt").Int()), CommandName: at("commandName").Str, ExitCode: -1}
	case protocol.SpanAttempt:
		return protocol.SubagentVerificationEnd{ID: o.id, Attempt: int(at("attempt").Int()), Status: protocol.VerifySkipped}
	case protocol.SpanChild:
		return protocol.SubagentEnd{ID: o.id, Agent: at("agent").Str, ExitCode: 1, Aborted: true, Error: why}
	case protocol.SpanWork: // see end
	}
	panic("nothing begins a span " + o.of)
}

// broken is a message that does not come any more, as it had begun; nil for one that had not.
func broken(begun *protocol.AssistantMessage, why string) protocol.Message {
	m := protocol.AssistantMessage{Content: protocol.Content{}}
	if begun != nil {
		m = *begun
	}
	m.StopReason, m.ErrorMessage = protocol.StopError, why
	return protocol.Seal(&m)
}
