package store

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"troupe/protocol"
)

// State is what it takes to resume a session, and how its entries are called.
type State struct {
	protocol.Resume
	Labels map[string]string // by entry id
}

// State reads what is needed to resume the session at the view's leaf. It
// decodes only what matters: of the context no more than its end.
func (v View) State() (State, error) {
	branch := v.branch()
	part, compacted, err := v.contextPart(branch)
	if err != nil {
		return State{}, err
	}
	end, count, err := v.contextEnd(part, compacted)
	if err != nil {
		return State{}, err
	}
	s := State{Resume: protocol.Resume{Context: end.Size()}}
	s.Context.Messages, s.Choices = count, v.Choices()
	if err := v.settings(branch, &s); err != nil {
		return State{}, err
	}
	if err := v.survey(branch, end, &s); err != nil {
		return State{}, err
	}
	return s, v.last(&s.Resume)
}

// last finds the newest message of the branch, and whether a run ends with it.
func (v View) last(r *protocol.Resume) error {
	for ref := range v.Back() {
		if ref.Type != "message" || ref.Role == protocol.RoleBashExecution {
			continue
		}
		record, err := v.Record(ref.ID)
		if err != nil {
			return fmt.Errorf("read the last message: %w", err)
		}
		e, ok := record.Entry.(protocol.MessageEntry)
		if !ok {
			return nil
		}
		r.Last = e.Message
		switch e.Message.(type) {
		case *protocol.UserMessage, *protocol.ToolResultMessage:
			r.Interrupted = true
		default:
			r.Interrupted = len(r.OpenCalls) > 0
			r.Tried, err = v.tried()
		}
		return err
	}
	return nil
}

// tried counts the answers that the branch ends with and that were taken out of the context.
func (v View) tried() (n int, err error) {
	out := map[string]bool{}
	for i := v.leaf; i != none; i = v.slots[i].parent {
		s := &v.slots[i]
		switch {
		case s.kind == kindMessage && s.role == roleBashExecution:
		case s.kind == kindMessage && (s.role != roleAssistant || !out[v.id(i)]):
			return n, nil
		case s.kind == kindMessage:
			n++
		case s.kind == kindContextEdit || s.kind == kindTroupe:
			r, err := v.record(i)
			if err != nil {
				return 0, err
			}
			switch e := r.Entry.(type) {
			case protocol.ContextEdit:
				if _, later := out[e.TargetID]; !later {
					out[e.TargetID] = e.Omits()
				}
			case protocol.Custom:
				if e.CustomType == protocol.CustomInterrupted {
					return n, nil
				}
			default: // of no other type by its kind
			}
		}
	}
	return n, nil
}

// contextEnd builds the end of a context, back to an answer that says how large
// the context was: what a session resumes with does not depend on more. count
// is the number of messages of the whole.
func (v View) contextEnd(part []int32, compacted bool) (end *Context, count int, err error) {
	end, count, err = v.contextTail(part, compacted)
	if end != nil || err != nil {
		return end, count, err
	}
	records, err := v.records(v.contextual(part))
	if err != nil {
		return nil, 0, err
	}
	end = NewContext(records)
	return end, end.Len(), nil
}

// contextTail is contextEnd where an answer since the last compaction says how large the context was, and nil where
// the whole has to be read.
func (v View) contextTail(part []int32, compacted bool) (end *Context, count int, err error) {
	count, plain, err := v.countMessages(part)
	if err != nil || !plain {
		return nil, 0, err
	}
	if compacted {
		count++
	}
	part = v.contextual(part)
	for size := 32; size < len(part); size *= 8 {
		some := part[len(part)-size:]
		if slices.ContainsFunc(some, func(i int32) bool { return v.slots[i].kind == kindCompaction }) {
			break
		}
		records, err := v.records(some)
		if err != nil {
			return nil, 0, err
		}
		end := NewContext(records)
		if _, index, _ := end.LastUsage(); index >= 0 {
			return end, count, nil
		}
	}
	return nil, 0, nil
}

// contextual is what of a part of a branch has to be read for its context, with its first entry, which a
// compaction may name, whatever it is: a session may have thousands of names and labels.
func (v View) contextual(part []int32) (list []int32) {
	for n, i := range part {
		switch v.slots[i].kind {
		case kindMessage, kindCompaction, kindBranchSummary, kindCustomMessage, kindContextEdit:
			list = append(list, i)
		default:
			if n == 0 {
				list = append(list, i)
			}
		}
	}
	return list
}

// countMessages counts what entries add to a context, mostly without reading
// them. It is not plain if that cannot be said of each for itself.
func (v View) countMessages(part []int32) (n int, plain bool, err error) {
	for _, i := range part {
		switch s := &v.slots[i]; s.kind {
		case kindMessage:
			if s.role == roleNone {
				return 0, false, nil
			}
			if s.role != roleSystem {
				n++
			}
		case kindContextEdit:
			return 0, false, nil
		case kindCustomMessage, kindBranchSummary:
			r, err := v.record(i)
			if err != nil {
				return 0, false, err
			}
			if contextMessage(r) != nil {
				n++
			}
		}
	}
	return n, true, nil
}

// settings finds the model and the thinking level that the branch ends with.
func (v View) settings(branch []int32, s *State) error {
	for n := len(branch) - 1; n >= 0 && (s.ModelID == "" || s.Level == ""); n-- {
		slot := v.slots[branch[n]]
		wanted := slot.kind == kindThinkingLevel && s.Level == "" ||
			s.ModelID == "" && (slot.kind == kindModelChange || slot.role == roleAssistant)
		if !wanted {
			continue
		}
		r, err := v.record(branch[n])
		if err != nil {
			return err
		}
		s.setting(r.Entry)
	}
	return nil
}

func (s *State) setting(e protocol.Entry) {
	switch e := e.(type) {
	case protocol.ThinkingLevelChange:
		if e.ThinkingLevel.Valid() {
			s.Level = e.ThinkingLevel
		}
	case protocol.ModelChange:
		s.Provider, s.ModelID = e.Provider, e.ModelID
	case protocol.MessageEntry:
		if m, ok := e.Message.(*protocol.AssistantMessage); ok && m.Model != "" {
			s.Provider, s.ModelID = m.Provider, m.Model
		}
	case protocol.Compaction, protocol.BranchSummary, protocol.Custom, protocol.CustomMessageEntry, protocol.Label,
		protocol.SessionInfo, protocol.ContextEdit, protocol.UnknownEntry:
	}
}

// survey reads the rest in the order of the file.
func (v View) survey(branch []int32, end *Context, s *State) error {
	on := make([]bool, len(v.slots))
	answer := none // the last one of the branch
	for _, i := range branch {
		on[i] = true
		if v.slots[i].role == roleAssistant {
			answer = max(answer, i)
		}
	}
	var list []int32
	for i := range v.slots {
		if s := &v.slots[i]; s.telling() && (s.kind != kindToolOp && s.kind != kindApproval || int32(i) > answer) { // call ids may repeat from answer to answer
			list = append(list, int32(i))
		}
	}
	b := stateBuilder{
		view: v, state: s, labels: labels{}, begun: map[string]protocol.CallOp{}, waiting: map[string]int{}, keys: map[string]int{},
	}
	for line, err := range v.lines(list) {
		if err != nil {
			return err
		}
		b.take(line, on[line.slot])
	}
	b.finish(end)
	return nil
}

// telling says whether an entry bears on the state beside the context.
func (s *slot) telling() bool {
	switch s.kind {
	case kindSessionInfo, kindLabel, kindTodos, kindRules, kindTask, kindQueueOp, kindToolOp, kindApproval, kindBudget, kindCommand:
		return true
	}
	return s.flags&(flagQueueID|flagKey) != 0
}

type stateBuilder struct {
	view    View
	state   *State
	labels  labels
	begun   map[string]protocol.CallOp // tool calls since the last answer of the branch: the last op that names them
	waiting map[string]int             // queued input by id, as its place in Queue
	keys    map[string]int             // as their places in Keys
}

func (b *stateBuilder) take(l *line, onBranch bool) {
	slot := &b.view.slots[l.slot]
	switch slot.kind {
	case kindSessionInfo:
		if name := sessionName(l.b); name != "" {
			b.state.Name = name
		}
	case kindLabel:
		b.labels.take(l)
	case kindQueueOp:
		withData(l, b.queue)
	case kindTask:
		withData(l, func(op protocol.TaskOp) { b.state.Tasks = append(b.state.Tasks, op) })
	case kindBudget:
		withData(l, b.budget)
	case kindCommand:
		withData(l, b.key)
	case kindMessage:
		b.message(l)
	}
	if !onBranch {
		return
	}
	switch slot.kind {
	case kindTodos:
		withData(l, func(list json.RawMessage) { b.state.Todos = list })
	case kindRules:
		withData(l, func(op protocol.RulesOp) { b.state.Rules = append(b.state.Rules, op.Rules...) })
	case kindToolOp:
		withData(l, func(op protocol.ToolOp) { op.Calls(func(id string, of protocol.CallOp) { b.begun[id] = of }) })
	case kindApproval:
		withData(l, func(op protocol.ApprovalOp) { b.begun[op.ToolCallID] = op.Call() })
	}
}

func (b *stateBuilder) budget(op protocol.BudgetOp) {
	switch op.Op {
	case protocol.BudgetOpLimits:
		b.state.Limits = op.Limits
	case protocol.BudgetOpActive:
		b.state.Working = op.Working
	}
}

func (b *stateBuilder) message(l *line) {
	delete(b.waiting, string(l.head.queueID))
	b.key(protocol.SeenKey{Key: protocol.ParseIdempotencyKey(string(l.head.key)), Disposition: protocol.Started.Disposition})
}

// key notes what became of a key: queued input carries it twice, when it is accepted and
// when it is delivered.
func (b *stateBuilder) key(s protocol.SeenKey) {
	at, seen := b.keys[s.Key.Key]
	switch {
	case s.Key.Key == "":
	case seen:
		b.state.Keys[at].Later(s)
	default:
		b.keys[s.Key.Key] = len(b.state.Keys)
		b.state.Keys = append(b.state.Keys, s)
	}
}

func (b *stateBuilder) queue(op protocol.QueueOp) {
	switch op.Op {
	case "add":
		b.state.LastQueueID = max(b.state.LastQueueID, op.Number())
		b.waiting[op.ID] = len(b.state.Queue)
		b.state.Queue = append(b.state.Queue, op.QueuedInput)
		b.key(protocol.SeenKey{Key: op.Key, Disposition: protocol.Queued.Disposition})
	case "remove":
		for _, id := range op.IDs {
			delete(b.waiting, id)
		}
	}
}

func (b *stateBuilder) finish(end *Context) {
	s := b.state
	var queued []protocol.QueuedInput
	for i, q := range s.Queue {
		if at, ok := b.waiting[q.ID]; ok && at == i {
			queued = append(queued, q)
		}
	}
	s.Queue = queued
	s.Keys = slices.Clone(s.Keys[max(0, len(s.Keys)-protocol.MaxKeys):])
	s.Labels = b.labels
	s.Answer, s.OpenCalls, s.Results = openCalls(end.Messages(), b.begun)
}

// openCalls lists the calls of the last answer that nothing has answered, the answer, and
// the results that there are.
// One that failed or was aborted asks for nothing: no model will see it. Once the
// conversation has gone on it is too late for a result.
func openCalls(messages []protocol.Message, begun map[string]protocol.CallOp) (*protocol.AssistantMessage, []protocol.OpenCall, []*protocol.ToolResultMessage) {
	var results []*protocol.ToolResultMessage
	for i := len(messages) - 1; i >= 0; i-- {
		switch m := messages[i].(type) {
		case *protocol.ToolResultMessage:
			results = append(results, m)
		case *protocol.UserMessage:
			return nil, nil, nil
		case *protocol.AssistantMessage:
			if m.StopReason == protocol.StopError || m.StopReason == protocol.StopAborted {
				return nil, nil, nil
			}
			slices.Reverse(results)
			var open []protocol.OpenCall
			for _, call := range m.Content.ToolCalls() {
				if slices.ContainsFunc(results, func(r *protocol.ToolResultMessage) bool { return r.ToolCallID == call.ID }) {
					continue
				}
				open = append(open, begun[call.ID].Open(call, len(open) == 0))
			}
			if open == nil {
				return nil, nil, results
			}
			return m, open, results
		case *protocol.BashExecutionMessage, *protocol.CustomMessage, *protocol.BranchSummaryMessage,
			*protocol.CompactionSummaryMessage, *protocol.UnknownMessage:
		}
	}
	return nil, nil, nil
}

// labels are the labels of a session by entry. Of several for one entry the
// last in the file counts, on whatever branch; an empty one takes it away.
type labels map[string]string

func (l labels) take(entry *line) {
	target, label := rawString(entry.b, "targetId"), rawString(entry.b, "label")
	delete(l, target)
	if label != "" {
		l[target] = label
	}
}

// sessionName is the name in a session_info entry.
func sessionName(line []byte) string { return strings.TrimSpace(rawString(line, "name")) }

// withData reads the data of a custom entry, for do if they fit.
func withData[T any](l *line, do func(op T)) {
	var op T
	if raw := gjson.GetBytes(l.b, "data").Raw; raw != "" && json.Unmarshal([]byte(raw), &op) == nil {
		do(op)
	}
}

// parseUsage reads a usage object, the zero usage if there is none.
func parseUsage(raw []byte) (u protocol.Usage) {
	if len(raw) == 0 || raw[0] != '{' {
		return u
	}
	v := gjson.ParseBytes(raw)
	cost := v.Get("cost")
	u = protocol.Usage{
		Input: v.Get("input").Int(), Output: v.Get("output").Int(),
		CacheRead: v.Get("cacheRead").Int(), CacheWrite: v.Get("cacheWrite").Int(),
		Cost: protocol.Cost{
			Input: cost.Get("input").Float(), Output: cost.Get("output").Float(),
			CacheRead: cost.Get("cacheRead").Float(), CacheWrite: cost.Get("cacheWrite").Float(),
			Total: cost.Get("total").Float(),
		},
	}
	u.TotalTokens = v.Get("totalTokens").Int()
	return u
}
