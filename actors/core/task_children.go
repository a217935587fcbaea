package core

import (
	"cmp"
	"slices"
	"strings"

	"troupe/protocol"
)

// children are those that a session has had, in the order in which they began.
type children struct {
	by   map[string]*childNote // by id in lower case; nil for none
	list []*childNote
}

// childNote is what is known of a child for ever: how it began, and what became of it.
type childNote struct {
	start  protocol.TaskOp
	status string
	at     int64 // when that was, epoch milliseconds

	over  bool           // it has ended
	cost  protocol.Usage // then, as the log has it
	spent amounts        // and as a budget has counted it
}

// named is how a child began; false if there has been none of that id.
func (s *children) named(id string) (protocol.TaskOp, bool) {
	n := s.by[strings.ToLower(id)]
	if n == nil {
		return protocol.TaskOp{}, false
	}
	return n.start, true
}

// begun remembers a child.
func (s *children) begun(op protocol.TaskOp, status string) {
	if s.by == nil {
		s.by = map[string]*childNote{}
	}
	n := &childNote{start: op, status: status, at: op.At}
	s.by[strings.ToLower(op.ID)] = n
	s.list = append(s.list, n)
}

// ended remembers what became of a child.
func (s *children) ended(op protocol.TaskOp) {
	if n := s.by[strings.ToLower(op.ID)]; n != nil && op.Result != nil {
		n.status, n.at, n.over = status(op.Result), op.At, true
		if op.Result.Usage != nil {
			n.cost = *op.Result.Usage
		}
		n.start.Source = cmp.Or(n.start.Source, op.Result.AgentSource)
		n.start.Description = cmp.Or(n.start.Description, op.Result.Description)
	}
}

// apply records what a child has cost since it was over for its parent.
func (in ChildLeft) apply(m *Machine) {
	n := m.children.by[strings.ToLower(in.ID)]
	if n == nil || !n.over || n.start.Call != in.Call {
		return // of another session
	}
	more := in.Usage.Minus(n.cost)
	if more.Sum() <= 0 && more.Cost.Total <= 0 {
		return
	}
	n.cost = in.Usage
	m.appendOwn(protocol.CustomTask, protocol.TaskOp{Op: protocol.TaskSpent, Call: in.Call, ID: in.ID, Spent: &more})
	if m.limited() {
		var used protocol.BudgetUsed
		used.Spend(in.Usage)
		m.countMore(&n.spent, amountsOf(used))
		m.checkBudget()
	}
}

// Subagents are the children of the session, as they began.
func (m *Machine) Subagents() protocol.SubagentList {
	list := protocol.SubagentList{Subagents: make([]protocol.Subagent, 0, len(m.children.list))}
	for _, n := range m.children.list {
		s := protocol.Subagent{
			ID: n.start.ID, Index: n.start.Index, Agent: n.start.Agent, AgentSource: n.start.Source, Description: n.start.Description,
			Status: n.status, SessionFile: n.start.File, LastUpdate: n.at, ParentToolCallID: n.start.Call,
		}
		if it := m.shownItem(n.start.ID); it != nil {
			p := it.progress(m.clock())
			s.Status, s.Task, s.Assignment, s.Progress, s.ChildSessionID = p.Status, p.Task, p.Assignment, &p, p.SessionID
			s.LastUpdate = max(s.LastUpdate, it.heard)
		}
		list.Subagents = append(list.Subagents, s)
	}
	return list
}

// shownItem is the item of a child that has begun and whose call goes on; nil if there
// is none.
func (m *Machine) shownItem(id string) (found *item) {
	m.findCall(func(c *call) bool {
		if c.tasks == nil || c.state != callRunning {
			return false
		}
		i := slices.IndexFunc(c.tasks.items, func(it *item) bool { return it.opened.ID != "" && strings.EqualFold(it.id, id) })
		if i >= 0 {
			found = c.tasks.items[i]
		}
		return i >= 0
	})
	return found
}

// SubagentFile is the session file of a child, which somebody names by its id or, if
// that is empty, by the file itself.
func (m *Machine) SubagentFile(id, file string) (string, *protocol.Error) {
	switch {
	case id != "":
		if op, ok := m.children.named(id); ok && op.File != "" {
			return op.File, nil
		}
		return "", protocol.CodeNotFound.Errorf("Unknown subagent or session file unavailable: %s", id)
	case file != "":
		if slices.ContainsFunc(m.children.list, func(n *childNote) bool { return n.start.File == file }) {
			return file, nil
		}
		return "", protocol.CodeNotFound.Errorf("Unknown subagent session file")
	}
	return "", protocol.CodeInvalidParams.Errorf("get_subagent_messages requires subagentId or sessionFile")
}

// SubagentStage says of a child that it has begun, or how it has ended.
func (m *Machine) SubagentStage(id, agent, status string) protocol.SubagentStage {
	op, _ := m.children.named(id)
	return protocol.SubagentStage{
		ID: id, Agent: agent, AgentSource: op.Source, Description: op.Description, Status: status,
		SessionFile: op.File, ParentToolCallID: op.Call, Index: op.Index, Isolated: op.Workspace != "",
	}
}

// tellReport tells clients that want to know what a child does.
func (m *Machine) tellReport(c *call, it *item) {
	if !m.childrenWatched {
		return
	}
	m.emit(protocol.SubagentProgress{Payload: protocol.SubagentReport{
		Index: it.index, Agent: it.agent.Name, AgentSource: it.agent.Source, Task: it.told, ParentToolCallID: c.ID,
		Assignment: it.want.Assignment, Progress: it.progress(m.clock()), SessionFile: it.opened.File,
	}})
}
