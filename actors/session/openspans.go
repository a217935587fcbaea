package session

import (
	"strconv"

	"troupe/actors/core"
	"troupe/actors/link"
	"troupe/protocol"
)

// openSpans lists the spans that clients have seen begin and not end, for a relay that has missed events.
func openSpans(of core.OpenSpans) []link.OpenSpan {
	list := []link.OpenSpan{}
	add := func(span protocol.Span, is map[string]string) { list = append(list, link.OpenSpan{Span: span, Is: is}) }
	run := string(of.Run)
	if run != "" {
		add(protocol.SpanRun, map[string]string{"runId": run})
	}
	if of.Turn {
		add(protocol.SpanTurn, map[string]string{"runId": run, "turnIndex": strconv.Itoa(of.Turns - 1)})
	}
	if of.Message != nil {
		is := map[string]string{}
		if role, at := messageHead(of.Message); at != 0 {
			is["message.timestamp"] = strconv.FormatInt(at, 10)
			if role != "" {
				is["message.role"] = role
			}
		}
		add(protocol.SpanMessage, is)
	}
	for _, t := range of.Tools {
		add(protocol.SpanTool, map[string]string{"toolCallId": t.ToolCallID})
	}
	for _, child := range of.Children {
		add(protocol.SpanChild, map[string]string{"id": child.ID})
		if child.Attempt != 0 {
			add(protocol.SpanAttempt, map[string]string{"id": child.ID, "attempt": strconv.Itoa(child.Attempt)})
		}
		if child.Command != "" {
			add(protocol.SpanCheck, map[string]string{"id": child.ID, "commandName": child.Command})
		}
	}
	if of.Compact != "" {
		add(protocol.SpanCompaction, map[string]string{"reason": of.Compact})
	}
	if of.Retry != 0 {
		add(protocol.SpanRetry, map[string]string{"attempt": strconv.Itoa(of.Retry)})
	}
	return list
}

// beginnings are the events that began the spans that are open, outermost first. A relay drops those that its client has
// seen. A compaction, a retry and a verification have no beginning there: their ends mean the same without.
func beginnings(of core.OpenSpans) (list []protocol.Event) {
	if of.Run != "" {
		list = append(list, protocol.AgentStart{RunID: of.Run})
	}
	if of.Turn {
		list = append(list, protocol.TurnStart{TurnIndex: of.Turns - 1, RunID: of.Run})
	}
	if of.Message != nil {
		list = append(list, protocol.MessageStart{Message: of.Message, RunID: of.Run})
	}
	for _, t := range of.Tools {
		list = append(list, t)
	}
	for _, child := range of.Children {
		list = append(list, protocol.SubagentStart{ID: child.ID, Agent: child.Agent})
	}
	return list
}

// attachAgain answers a relay that attaches again for its client, and sends it the open spans.
func (s *Session) attachAgain(seq uint64, to link.Client, data protocol.AttachedSession) {
	open := s.clients.spans.OpenSpans
	s.reply(seq, link.AttachedLate{AttachedSession: data, Outcome: s.outcome(), Open: openSpans(open)}, nil)
	var items []link.Item
	for _, ev := range beginnings(open) {
		it := link.Item{Event: ev}
		s.clients.sizes.Size(&it)
		items = append(items, it)
	}
	s.clients.pastFor(to, items)
}

// messageHead returns what tells a message that has begun from the others of its run: its role, "" for one that dialects
// name in their own way, and its time.
func messageHead(m protocol.Message) (role string, at int64) {
	switch m := m.(type) {
	case *protocol.UserMessage:
		return m.Role(), m.Timestamp
	case *protocol.AssistantMessage:
		return m.Role(), m.Timestamp
	case *protocol.ToolResultMessage:
		return m.Role(), m.Timestamp
	case *protocol.CustomMessage:
		return "", m.Timestamp
	default:
		return "", 0
	}
}
