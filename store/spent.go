package store

import "troupe/protocol"

// Spent sums up what the session has used up, in all branches of its file. What a
// fork or a clone came with was paid for by the session that it was copied from:
// those entries are older than the file.
func (v View) Spent() (*protocol.BudgetSpent, error) {
	var list []int32
	for i := range v.slots {
		if s := &v.slots[i]; s.flags&flagUsage != 0 || s.role == roleToolResult || s.kind == kindBudget || s.kind == kindTask {
			list = append(list, int32(i))
		}
	}
	spent := new(protocol.BudgetSpent)
	for l, err := range v.lines(list) {
		if err != nil {
			return nil, err
		}
		if string(l.head.stamp) < v.header.Timestamp {
			continue
		}
		s, moment := &v.slots[l.slot], protocol.ParseTime(string(l.head.stamp))
		spent.At(moment)
		switch {
		case s.kind == kindBudget:
			withData(l, func(op protocol.BudgetOp) { spent.Note(op, moment) })
			continue
		case s.kind == kindTask:
			withData(l, func(op protocol.TaskOp) { spendTask(spent, op, l.b) })
			continue
		case s.role == roleToolResult:
			spent.Used.ToolCalls++
		}
		spent.Used.Spend(parseUsage(l.head.usage()))
	}
	return spent, nil
}

// spendTask adds what a step of a child says: that there was one, or what it has cost.
func spendTask(spent *protocol.BudgetSpent, op protocol.TaskOp, line []byte) {
	switch op.Op {
	case protocol.TaskStart:
		spent.Used.Subagents++
	case protocol.TaskEnd, protocol.TaskSpent:
		_, _, usage := costOfChild(line)
		spent.Used.Spend(usage)
	}
}
