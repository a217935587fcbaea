package core

import (
	"slices"

	"troupe/protocol"
)

// What a client that comes in the middle has to know.

// Growing is the message in progress as the events that would have shown it; none
// while no message is open.
func (m *Machine) Growing() (events []protocol.Event) {
	s, ok := m.activity.(*streaming)
	if !ok || !s.started {
		return nil
	}
	events = append(events, protocol.MessageStart{Message: new(*s.msg), RunID: s.run.id})
	for i := range s.blocks {
		b := &s.blocks[i]
		u := protocol.MessageUpdate{Kind: b.kind, Index: i, RunID: s.run.id}
		begin := u
		begin.Step = protocol.UpdateStart
		if b.kind == protocol.BlockToolCall {
			begin.Block = b.call
		}
		u.Step, u.Delta = protocol.UpdateDelta, b.sofar()
		if b.done != nil {
			u.Step, u.Delta, u.Block = protocol.UpdateEnd, "", b.done
		}
		events = append(events, &begin, &u)
	}
	return events
}

// sofar is the text of a block that grows, or the JSON of its arguments.
func (b *block) sofar() string {
	if b.kind == protocol.BlockToolCall {
		return b.args.Text()
	}
	return string(b.text)
}

// Partial is the message in progress as far as it has come, and its run; nil while
// no message is open.
func (m *Machine) Partial() (*protocol.AssistantMessage, protocol.RunID) {
	s, ok := m.activity.(*streaming)
	if !ok || !s.started {
		return nil, ""
	}
	msg := *s.msg
	msg.Content = protocol.Content{}
	for _, b := range s.blocks { // copies: what is open goes on to grow
		if b.done == nil {
			b.finish("", false)
		}
		msg.Content = append(msg.Content, b.done)
	}
	return &msg, s.run.id
}

// OpenCalls are the calls that have begun and not ended.
func (m *Machine) OpenCalls() []protocol.ToolExecutionState {
	list := []protocol.ToolExecutionState{}
	r := m.activity.inRun()
	if r == nil {
		return list
	}
	for _, c := range slices.Concat(r.calls, r.inner) {
		if c.state != callRunning {
			continue
		}
		open := protocol.ToolExecutionState{ToolCallID: c.ID, ToolName: c.Name, Args: c.Arguments, ParentToolCallID: c.inner.parentID(), RunID: r.id}
		if len(c.partial.Content) > 0 || len(c.partial.Details) > 0 {
			open.PartialResult = &c.partial
		}
		list = append(list, open)
	}
	return list
}

// Queued are the texts of what waits to be delivered.
func (m *Machine) Queued() (steering, followUp []string) { return texts(m.steering), texts(m.followUp) }
