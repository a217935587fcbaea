package core

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"troupe/protocol"
)

// taskSettings are those of a session that may have children.
func taskSettings(set Settings) Settings {
	set.KnownTools = append(slices.Clip(set.KnownTools), protocol.ToolInfo{Name: TaskTool})
	set.Tools = append(slices.Clip(set.Tools), TaskTool)
	set.Tasks = TaskSettings{
		Agents: protocol.Agents{
			{Name: "task", Source: protocol.AgentBundled, Spawns: []string{protocol.SpawnsAll}},
			{Name: "look", Source: protocol.AgentBundled, Tools: []string{"read"}},
		},
		MaxConcurrency: 2, MaxDepth: 2, Ceiling: []string{"read", "bash", TaskTool, TodoTool},
	}
	return set
}

// TestLawsOfTasks adds children to faults.
func TestLawsOfTasks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := taskSettings(drawSettings(t))
		set.Rules.ParallelTools = rapid.Bool().Draw(t, "parallel")
		set.Tasks.MaxConcurrency = rapid.IntRange(0, 3).Draw(t, "concurrency")
		var err error
		set.Budget.Limits, err = protocol.ParseBudgetLimits(set.Budget.Limits, []byte(rapid.SampledFrom([]string{
			`{}`, `{}`, `{"maxSubagents":0}`, `{"maxSubagents":2}`, `{"maxInputTokens":12}`, `{"maxWallTimeMs":9000}`,
		}).Draw(t, "limits")))
		require.NoError(t, err)
		h := &history{world: newWorld(set), t: t, tasked: true}
		h.send(protocol.Prompt{Message: "go"})
		h.step(StreamParts{h.m.attempts, []protocol.Part{
			protocol.PartBlockStart{Kind: protocol.BlockToolCall, ID: "first", Name: TaskTool}, protocol.PartDelta{Delta: "{}"}, protocol.PartBlockEnd{},
		}})
		h.step(StreamEnd{Attempt: h.m.attempts, Done: protocol.PartDone{StopReason: protocol.StopToolUse}})
		for range h.pick(30, "steps of children") {
			h.progress()
			h.check()
		}
		h.play(true)
		checkChildren(t, h.wire)
		checkTaskLog(t, h.log)
	})
}

// taskStep moves a call of the task tool.
func (h *history) taskStep(a *runningTools, c *call) {
	if c.tasks == nil {
		agent := rapid.SampledFrom([]string{"task", "look", "nobody"}).Draw(h.t, "agent")
		var items []string
		for i := range h.pick(4, "items") {
			items = append(items, fmt.Sprintf(`{"id":"I%d","description":"d","assignment":"do %d"}`, i, i))
		}
		args := `{"agent":"` + agent + `","tasks":[` + strings.Join(items, ",") + `]}`
		if h.copies != nil && h.pick(5, "isolated") > 0 {
			args = h.copies.call(items)
		}
		h.step(TaskReady{a.attempt, c.ID, json.RawMessage(args)})
		return
	}
	var live []*item
	for _, it := range c.tasks.items {
		if _, queued := it.state.(itemQueued); !queued && !it.done() {
			live = append(live, it)
		}
	}
	limit := h.set.Tasks.MaxConcurrency
	require.True(h.t, limit == 0 || len(live) <= limit, "T6: %d live items", len(live))
	working := slices.DeleteFunc(slices.Clone(live), func(it *item) bool { _, waits := it.state.(itemWaiting); return waits })
	require.NotEmpty(h.t, working, "T6: a call goes on of which nothing is at work")
	it := working[h.pick(len(working), "item")]
	switch s := it.state.(type) {
	case itemOpening:
		if s.opened != nil {
			return
		}
		in := ChildOpened{Attempt: a.attempt, ID: it.id, SessionID: "s9", File: "/sessions/0/" + it.id + ".jsonl"}
		if h.pick(6, "open fails") == 0 {
			in.Err = "no"
		}
		h.step(in)
	case itemRunning:
		h.childStep(a.attempt, it)
	default:
		h.copyStep(a.attempt, it)
	}
}

// childGone says that a child was lost.
func childGone(attempt Attempt, id string) Input {
	return WorkerGone{Kind: WorkerChild, Attempt: attempt, ID: id}
}

func (h *history) childStep(attempt Attempt, it *item) {
	told := func(ev protocol.Event) { h.step(ChildTold{attempt, it.id, ev}) }
	what := h.pick(8, "child")
	if h.copies != nil && h.pick(2, "settles") == 0 {
		what = 7
	}
	switch what {
	case 0:
		h.step(ChildProgress{Attempt: attempt, ID: it.id, Usage: protocol.Usage{Input: 5}})
	case 1:
		h.step(childGone(attempt, it.id))
	case 2:
		if len(it.open) == 1 {
			told(protocol.SubagentStart{ID: "N", Agent: "look"})
		}
	case 3:
		if len(it.open) == 2 {
			told(protocol.SubagentEnd{ID: "N", Agent: "look"})
		}
	case 4:
		told(protocol.ExtensionUIRequest{ID: "confirm_1", Method: "confirm", Title: new("Run bash?")})
	case 5:
		told(protocol.ApprovalRequest{ID: "approval_1", ToolCallID: "b1", Options: []protocol.ApprovalOption{{ID: "once", Kind: protocol.AllowOnce, Label: "Allow once"}}})
	default:
		outcome := rapid.SampledFrom([]string{completed, completed, failed, aborted}).Draw(h.t, "outcome")
		h.step(ChildSettled{Attempt: attempt, ID: it.id, Outcome: outcome, Text: "done", Usage: protocol.Usage{Input: 10}})
	}
}

// checkChildren is T1 and the second half of T6: every child that begins ends, once,
// inside of its call, and the items of a call begin in their order.
func checkChildren(t *rapid.T, wire []protocol.Event) {
	open := map[string]string{} // call by child
	began := map[string]string{}
	for i, ev := range wire {
		at := func(ok bool, what string) {
			require.True(t, ok, "T1: event %d %s: %s", i, DescribeEvent(ev), what)
		}
		switch ev := ev.(type) {
		case protocol.SubagentStart:
			_, is := open[ev.ID]
			at(!is, "begun twice")
			parent, _, nested := strings.Cut(ev.ID, ".")
			if nested {
				at(open[parent] != "", "its parent is not at work")
				ev.ToolCallID = open[parent]
			} else {
				at(began[ev.ToolCallID] < ev.ID, "out of order")
				began[ev.ToolCallID] = ev.ID
			}
			open[ev.ID] = ev.ToolCallID
		case protocol.SubagentEnd:
			at(open[ev.ID] != "", "ended and not begun")
			for id := range open {
				at(!strings.HasPrefix(id, ev.ID+"."), "its child is at work")
			}
			delete(open, ev.ID)
		case protocol.ToolExecutionEnd:
			for id, call := range open {
				at(call != ev.ToolCallID, "the call ends before "+id)
			}
		case protocol.AgentEnd:
			at(len(open) == 0, "children outlive their run")
		}
	}
	require.Empty(t, open, "T1: children that do not end")
}

// checkTaskLog: a child that has an end has begun, and ends once.
func checkTaskLog(t *rapid.T, log []protocol.Entry) {
	open := map[string]bool{}
	for _, e := range log {
		custom, ok := e.(protocol.Custom)
		if !ok || custom.CustomType != protocol.CustomTask {
			continue
		}
		var op protocol.TaskOp
		require.NoError(t, json.Unmarshal(custom.Data, &op))
		switch op.Op {
		case protocol.TaskStart:
			require.False(t, open[op.ID], "begun twice: %s", op.ID)
			open[op.ID] = true
		case protocol.TaskEnd:
			require.True(t, open[op.ID], "ended and not begun, or twice: %s", op.ID)
			require.NotNil(t, op.Result.Usage, "T7: an end without usage")
			delete(open, op.ID)
		}
	}
}
