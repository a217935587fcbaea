package store

import (
	"github.com/tidwall/gjson"

	"troupe/protocol"
)

// Stats counts the view's branch, with what was compacted, and sums up what
// the branch and the whole file cost, summaries included. The sums never go
// down while a session is appended to. Answers that a context edit has taken
// out, because they failed and were asked for again, are counted only with
// retried; what they cost always is.
func (v View) Stats(retried bool) (protocol.SessionStats, error) {
	stats := protocol.SessionStats{SessionID: v.header.ID, Session: &protocol.TotalsByFile{}}
	if v.path != "" {
		stats.SessionFile = &v.path
	}
	on := make([]bool, len(v.slots))
	branch := v.branch()
	for _, i := range branch {
		on[i] = true
	}
	omitted := map[string]bool{}
	if !retried {
		var err error
		if omitted, err = v.edits(branch); err != nil {
			return protocol.SessionStats{}, err
		}
	}
	var list []int32
	for i := range v.slots {
		if on[i] || v.slots[i].flags&flagUsage != 0 || v.slots[i].kind == kindTask {
			list = append(list, int32(i))
		}
	}
	var spent, file, children protocol.Usage
	made := map[string]int{} // children
	for l, err := range v.lines(list) {
		if err != nil {
			return protocol.SessionStats{}, err
		}
		u := parseUsage(l.head.usage())
		if v.slots[l.slot].kind == kindTask {
			var id string
			var below int
			if id, below, u = costOfChild(l.b); id != "" {
				made[id] = max(made[id], 1+below)
			}
			children = children.Add(u)
		}
		file = file.Add(u)
		if on[l.slot] {
			spent = spent.Add(u)
			if s := &v.slots[l.slot]; s.role != roleAssistant || !omitted[string(l.head.id)] {
				count(&stats, s, l)
			}
		}
	}
	stats.Tokens, stats.Cost = totals(spent)
	stats.Session.Tokens, stats.Session.Cost = totals(file)
	stats.Session.Costs = file.Cost
	if len(made) > 0 {
		stats.Subagents = &protocol.ChildTotals{}
		for _, n := range made {
			stats.Subagents.Count += n
		}
		stats.Subagents.Tokens, stats.Subagents.Cost = totals(children)
	}
	return stats, nil
}

// costOfChild is the id of a child of which an entry records what it has cost, how many
// children there have been below it, and that cost; "" for another entry.
func costOfChild(line []byte) (id string, below int, u protocol.Usage) {
	data := gjson.GetBytes(line, "data")
	usage := "result.usage"
	switch data.Get("op").Str {
	case protocol.TaskEnd:
	case protocol.TaskSpent:
		usage = "spent"
	default:
		return "", 0, u
	}
	return data.Get("id").Str, int(data.Get("result.subagents").Int()), parseUsage([]byte(data.Get(usage).Raw))
}

// count adds an entry to the counters. Everything that a model may see as a
// message counts as one.
func count(stats *protocol.SessionStats, s *slot, l *line) {
	switch s.kind {
	case kindCustomMessage:
		stats.TotalMessages++
	case kindBranchSummary:
		if rawString(l.b, "summary") != "" {
			stats.TotalMessages++
		}
	case kindMessage:
		countMessage(stats, s.role, l.head.message.content)
	}
}

func countMessage(stats *protocol.SessionStats, r role, content []byte) {
	if r == roleSystem {
		return
	}
	stats.TotalMessages++
	switch r {
	case roleUser:
		stats.UserMessages++
	case roleToolResult:
		stats.ToolResults++
	case roleAssistant:
		stats.AssistantMessages++
		gjson.ParseBytes(content).ForEach(func(_, block gjson.Result) bool {
			if block.Get("type").Str == "toolCall" {
				stats.ToolCalls++
			}
			return true
		})
	}
}

func totals(u protocol.Usage) (protocol.TokenTotals, float64) {
	return protocol.TokenTotals{
		Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite,
		Total: u.Input + u.Output + u.CacheRead + u.CacheWrite,
	}, u.Cost.Total
}
