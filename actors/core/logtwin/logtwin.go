// Package logtwin reads a session log in the plainest way. It is the twin of what
// the store does on load: the tests of the machine live on it, and the tests of
// the daemon compare the two on every file that was written.
package logtwin

import (
	"encoding/json"
	"slices"
	"strings"

	"troupe/protocol"
)

// Resume is what a file says about its session at a leaf.
func Resume(file []protocol.Record, leaf string) protocol.Resume {
	var r protocol.Resume
	for _, e := range file { // what belongs to the session, whatever the branch
		switch e := e.Entry.(type) {
		case protocol.SessionInfo:
			if name := strings.TrimSpace(e.Name); name != "" {
				r.Name = name
			}
		case protocol.MessageEntry:
			r.Queue = slices.DeleteFunc(r.Queue, func(q protocol.QueuedInput) bool { return q.ID == e.QueueID })
			seen(&r, protocol.SeenKey{Key: e.Key, Disposition: protocol.Started.Disposition})
		case protocol.Custom:
			queue(&r, e)
			command(&r, e)
			task(&r, e)
			budget(&r, e)
		default: // says nothing of these
		}
	}
	if len(r.Queue) == 0 {
		r.Queue = nil
	}
	branch := Branch(file, leaf)
	begun := map[string]protocol.CallOp{}
	for _, e := range branch {
		switch e := e.Entry.(type) {
		case protocol.ModelChange:
			r.Provider, r.ModelID = e.Provider, e.ModelID
		case protocol.ThinkingLevelChange:
			if e.ThinkingLevel.Valid() {
				r.Level = e.ThinkingLevel
			}
		case protocol.Custom:
			custom(&r, begun, e)
		case protocol.MessageEntry:
			if a, ok := e.Message.(*protocol.AssistantMessage); ok {
				clear(begun)
				if a.Model != "" {
					r.Provider, r.ModelID = a.Provider, a.Model
				}
			}
			if _, isBash := e.Message.(*protocol.BashExecutionMessage); !isBash {
				r.Last = e.Message
			}
		default: // likewise
		}
	}
	context := Context(branch)
	for _, m := range context {
		if m.Stale {
			r.Context.Keep(m.Message)
		} else {
			r.Context.Add(m.Message)
		}
	}
	r.Answer, r.OpenCalls, r.Results = openCalls(context, begun)
	switch r.Last.(type) {
	case *protocol.UserMessage, *protocol.ToolResultMessage:
		r.Interrupted = true
	default:
		r.Interrupted = len(r.OpenCalls) > 0
		r.Tried = tried(branch)
	}
	return r
}

// tried counts the answers at the end of a branch that were taken out.
func tried(branch []protocol.Record) (n int) {
	out := map[string]bool{}
	for _, e := range slices.Backward(branch) {
		switch is := e.Entry.(type) {
		case protocol.ContextEdit:
			if _, later := out[is.TargetID]; !later {
				out[is.TargetID] = is.Omits()
			}
		case protocol.Custom:
			if is.CustomType == protocol.CustomInterrupted {
				return n
			}
		case protocol.MessageEntry:
			if _, isBash := is.Message.(*protocol.BashExecutionMessage); isBash {
				break
			}
			if _, answer := is.Message.(*protocol.AssistantMessage); !answer || !out[e.ID] {
				return n
			}
			n++
		default: // says nothing about attempts
		}
	}
	return n
}

// Branch is the entries from the root to a leaf.
func Branch(file []protocol.Record, leaf string) (branch []protocol.Record) {
	for _, e := range slices.Backward(file) {
		if e.ID == leaf {
			branch, leaf = append(branch, e), e.ParentID
		}
	}
	slices.Reverse(branch)
	return branch
}

// Message is a message that a model is shown.
type Message struct {
	ID      string // of its entry
	Message protocol.Message
	Stale   bool // from before the last compaction: what it reports of the context counts no more
}

// Context is what a model is shown of a branch.
func Context(branch []protocol.Record) (list []Message) {
	for i, e := range branch {
		switch e := e.Entry.(type) {
		case protocol.MessageEntry:
			if e.Message.Role() != "system" { // newer versions of pi keep the system prompt there
				list = append(list, Message{ID: branch[i].ID, Message: e.Message})
			}
		case protocol.CustomMessageEntry:
			list = append(list, Message{ID: branch[i].ID, Message: &protocol.CustomMessage{CustomType: e.CustomType, Content: e.Content}})
		case protocol.BranchSummary:
			if e.Summary != "" {
				list = append(list, Message{ID: branch[i].ID, Message: &protocol.BranchSummaryMessage{Summary: e.Summary}})
			}
		case protocol.ContextEdit: // troupe only leaves answers out
			list = slices.DeleteFunc(list, func(m Message) bool { return m.ID == e.TargetID })
		case protocol.Compaction:
			list = append([]Message{{branch[i].ID, &protocol.CompactionSummaryMessage{Summary: e.Summary}, true}}, kept(branch[:i], e.FirstKeptEntryID)...)
		default: // no model is shown it
		}
	}
	return list
}

func kept(branch []protocol.Record, from string) (list []Message) {
	i := slices.IndexFunc(branch, func(r protocol.Record) bool { return r.ID == from })
	if i < 0 {
		return nil
	}
	branch = slices.DeleteFunc(slices.Clone(branch[i:]), func(r protocol.Record) bool {
		_, earlier := r.Entry.(protocol.Compaction)
		return earlier
	})
	list = Context(branch)
	for i := range list {
		list[i].Stale = true
	}
	return list
}

func openCalls(context []Message, begun map[string]protocol.CallOp) (answer *protocol.AssistantMessage, open []protocol.OpenCall, results []*protocol.ToolResultMessage) {
	answered := map[string]bool{}
	for _, m := range slices.Backward(context) {
		switch m := m.Message.(type) {
		case *protocol.UserMessage:
			return nil, nil, nil
		case *protocol.ToolResultMessage:
			answered[m.ToolCallID] = true
			results = append([]*protocol.ToolResultMessage{m}, results...)
		case *protocol.AssistantMessage:
			if m.StopReason == protocol.StopError || m.StopReason == protocol.StopAborted {
				return nil, nil, nil
			}
			for _, c := range m.Content.ToolCalls() {
				if !answered[c.ID] {
					open = append(open, begun[c.ID].Open(c, len(open) == 0))
				}
			}
			if len(open) > 0 {
				answer = m
			}
			return answer, open, results
		default: // neither asks nor answers
		}
	}
	return nil, nil, nil
}

func queue(r *protocol.Resume, e protocol.Custom) {
	var op protocol.QueueOp
	if e.CustomType != protocol.CustomQueue || json.Unmarshal(e.Data, &op) != nil {
		return
	}
	switch op.Op {
	case "add":
		r.Queue = append(r.Queue, op.QueuedInput)
		r.LastQueueID = max(r.LastQueueID, op.Number())
		seen(r, protocol.SeenKey{Key: op.Key, Disposition: protocol.Queued.Disposition})
	case "remove":
		r.Queue = slices.DeleteFunc(r.Queue, func(q protocol.QueuedInput) bool { return slices.Contains(op.IDs, q.ID) })
	}
}

func task(r *protocol.Resume, e protocol.Custom) {
	if e.CustomType == protocol.CustomChoices {
		r.Choices = e.Data
	}
	var op protocol.TaskOp
	if e.CustomType == protocol.CustomTask && json.Unmarshal(e.Data, &op) == nil {
		r.Tasks = append(r.Tasks, op)
	}
}

func budget(r *protocol.Resume, e protocol.Custom) {
	var op protocol.BudgetOp
	if e.CustomType != protocol.CustomBudget || json.Unmarshal(e.Data, &op) != nil {
		return
	}
	switch op.Op {
	case protocol.BudgetOpLimits:
		r.Limits = op.Limits
	case protocol.BudgetOpActive:
		r.Working = op.Working
	}
}

// seen notes what became of a key.
func seen(r *protocol.Resume, s protocol.SeenKey) {
	i := slices.IndexFunc(r.Keys, func(k protocol.SeenKey) bool { return k.Key.Key == s.Key.Key })
	switch {
	case s.Key.Key == "":
	case i >= 0:
		r.Keys[i].Later(s)
	default:
		r.Keys = append(r.Keys, s)
		r.Keys = r.Keys[max(0, len(r.Keys)-protocol.MaxKeys):]
	}
}

func command(r *protocol.Resume, e protocol.Custom) {
	var s protocol.SeenKey
	if e.CustomType == protocol.CustomCommand && json.Unmarshal(e.Data, &s) == nil {
		seen(r, s)
	}
}

// Spent is what a log says was used up.
func Spent(records []protocol.Record) *protocol.BudgetSpent {
	spent := new(protocol.BudgetSpent)
	for _, r := range records {
		moment := protocol.ParseTime(r.Timestamp)
		spent.At(moment)
		switch e := r.Entry.(type) {
		case protocol.Custom:
			var op protocol.BudgetOp
			if e.CustomType == protocol.CustomBudget && json.Unmarshal(e.Data, &op) == nil {
				spent.Note(op, moment)
			}
		case protocol.MessageEntry:
			switch msg := e.Message.(type) {
			case *protocol.AssistantMessage:
				spent.Used.Spend(msg.Usage)
			case *protocol.ToolResultMessage:
				spent.Used.ToolCalls++
			default: // costs nothing
			}
		case protocol.Compaction:
			if e.Usage != nil {
				spent.Used.Spend(*e.Usage)
			}
		case protocol.BranchSummary:
			if e.Usage != nil {
				spent.Used.Spend(*e.Usage)
			}
		default: // costs nothing
		}
	}
	return spent
}

func custom(r *protocol.Resume, begun map[string]protocol.CallOp, e protocol.Custom) {
	switch e.CustomType {
	case protocol.CustomTodos:
		r.Todos = e.Data
	case protocol.CustomRules:
		var op protocol.RulesOp
		if json.Unmarshal(e.Data, &op) == nil {
			r.Rules = append(r.Rules, op.Rules...)
		}
	case protocol.CustomTool:
		var op protocol.ToolOp
		if json.Unmarshal(e.Data, &op) == nil {
			op.Calls(func(id string, of protocol.CallOp) { begun[id] = of })
		}
	case protocol.CustomApproval:
		var op protocol.ApprovalOp
		if json.Unmarshal(e.Data, &op) == nil {
			begun[op.ToolCallID] = op.Call()
		}
	}
}
