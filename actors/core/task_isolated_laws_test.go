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

// copies are the workspaces of a history, and what is being done with them.
type copies struct {
	t      *rapid.T
	made   int
	of     map[string]*copyOf // by directory
	asked  map[string]Effect  // what an item waits for, by its id
	logged map[string]bool    // children that the log has, and not their end
}

// copyOf is a workspace.
type copyOf struct {
	item    string
	durable bool // what the child has done is in a patch, or nothing
	planned bool // the log says what a merge is going to write
	merged  bool
	began   bool // its child did
	over    bool
}

// TestLawsOfWorkspaces adds children that work in copies, whose work is verified and
// merged, to faults.
func TestLawsOfWorkspaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := taskSettings(drawSettings(t))
		set.Rules.ParallelTools = rapid.Bool().Draw(t, "parallel")
		set.Tasks.MaxConcurrency = rapid.IntRange(0, 3).Draw(t, "concurrency")
		set.Tasks.Isolation = true
		set.Tasks.Surface = rapid.IntRange(0, 5).Draw(t, "surface") == 0
		set.Tasks.NameCommits = rapid.Bool().Draw(t, "names")
		set.Tasks.Verify = protocol.VerifySettings{
			Enabled: true, DefaultProfile: "ci", MaxRetries: 2, CaptureAfter: rapid.Bool().Draw(t, "captures after"),
			Profiles: map[string]protocol.VerifyProfile{"ci": {
				Commands:  []protocol.VerifyCommand{{Name: "t", Command: "t"}, {Name: "o", Command: "o", Optional: true}},
				OnFailure: rapid.SampledFrom([]string{protocol.ReturnFailure, protocol.RetryOnce, protocol.DiscardPatch}).Draw(t, "on failure"),
			}},
		}
		var err error
		set.Budget.Limits, err = protocol.ParseBudgetLimits(set.Budget.Limits, []byte(rapid.SampledFrom([]string{
			`{}`, `{}`, `{"maxSubagents":2}`, `{"maxInputTokens":40}`, `{"maxWallTimeMs":30000}`,
		}).Draw(t, "limits")))
		require.NoError(t, err)
		w := &copies{t: t, of: map[string]*copyOf{}, asked: map[string]Effect{}, logged: map[string]bool{}}
		h := &history{world: newWorld(set), t: t, tasked: true, copies: w}
		h.done = func(e Effect) { w.hear(h, e) }
		h.send(protocol.Prompt{Message: "go"})
		h.step(StreamParts{h.m.attempts, []protocol.Part{
			protocol.PartBlockStart{Kind: protocol.BlockToolCall, ID: "first", Name: TaskTool}, protocol.PartDelta{Delta: "{}"}, protocol.PartBlockEnd{},
		}})
		h.step(StreamEnd{Attempt: h.m.attempts, Done: protocol.PartDone{StopReason: protocol.StopToolUse}})
		for range 20 + h.pick(60, "steps of children") {
			h.progress()
			h.check()
		}
		h.play(true)
		checkChildren(t, h.wire)
		checkVerifications(t, h.wire)
		checkTaskLog(t, h.log)
		if !h.crashed {
			for dir, c := range w.of {
				require.True(t, c.over, "T15: nobody has let go of %s of %s", dir, c.item)
			}
		}
	})
}

// hear follows what is done with workspaces.
func (w *copies) hear(h *history, e Effect) {
	switch e := e.(type) {
	case PrepareWorkspace:
		w.asked[e.ID] = e
	case StartChild:
		delete(w.asked, e.Spec.Entry.ID)
	case CaptureWork:
		w.asked[e.ID] = e
		require.False(w.t, w.of[e.Dir].over, "T15: captured behind its end")
	case RunCheck:
		w.asked[e.ID] = e
		require.True(w.t, w.of[e.Dir].durable, "T15: checked before it was kept")
	case PlanMerge:
		for id, other := range w.asked {
			switch other.(type) {
			case PlanMerge, ApplyMerge:
				require.True(w.t, id == e.ID || h.m.parallel(id, e.ID), "T4: %s is merged beside %s", e.ID, id)
			}
		}
		w.asked[e.ID] = e
		ended := slices.ContainsFunc(h.wire, func(ev protocol.Event) bool {
			end, is := ev.(protocol.SubagentEnd)
			return is && end.ID == e.ID && end.ExitCode == 0
		})
		require.True(w.t, ended, "T4: the work of %s is to be merged, and it has not succeeded", e.ID)
		require.False(w.t, w.of[e.Dir].merged, "T4: merged twice")
		_, c, it := h.m.childCall(e.Attempt, e.ID)
		require.True(w.t, allDone(c.tasks.items[:it.index]), "T4: %s is merged before those before it", e.ID)
	case ApplyMerge:
		w.asked[e.ID] = e
		require.True(w.t, w.of[e.Dir].planned, "T14: written before the log says so")
		require.False(w.t, h.m.set.Tasks.Surface, "shown and not merged")
	case LeaveWorkspace:
		c := w.of[e.Dir]
		require.NotNil(w.t, c)
		require.False(w.t, c.over, "T15: left twice")
		require.False(w.t, e.Merged && e.Keep)
		require.True(w.t, e.Keep || c.durable || !c.began || len(e.Discard) > 0, "T15: the work of %s is removed and nowhere else", c.item)
		require.True(w.t, !e.Merged || c.merged, "T15: %s is not merged", c.item)
		c.over = true
		delete(w.asked, c.item)
	case Emit:
		if start, is := e.Event.(protocol.SubagentStart); is {
			require.True(w.t, w.logged[start.ID] || strings.Contains(start.ID, "."), "T1: %s is told of before it is in the log", start.ID)
			for _, c := range w.of {
				c.began = c.began || c.item == start.ID && !c.over
			}
		}
	case Append:
		custom, is := e.Entry.(protocol.Custom)
		if !is || custom.CustomType != protocol.CustomTask {
			return
		}
		var op protocol.TaskOp
		require.NoError(w.t, json.Unmarshal(custom.Data, &op))
		switch op.Op {
		case protocol.TaskMerge:
			w.of[op.Workspace].planned = true
		case protocol.TaskStart:
			w.logged[op.ID] = true
		case protocol.TaskEnd:
			delete(w.logged, op.ID)
		}
	default:
	}
}

// parallel says whether two items are of different calls.
func (m *Machine) parallel(a, b string) bool {
	of := func(id string) *call {
		_, c := m.findCall(func(c *call) bool {
			return c.tasks != nil && slices.ContainsFunc(c.tasks.items, func(it *item) bool { return it.id == id })
		})
		return c
	}
	return of(a) != of(b)
}

// lateCopies are what comes of workspaces of a run that is over: nothing but the end of one that
// nobody wants any more.
func (h *history) lateCopies(attempt Attempt, it *item) {
	if h.copies == nil || !it.isolated {
		return
	}
	h.late = append(h.late, WorkCaptured{Attempt: attempt, ID: it.id}, CheckDone{Attempt: attempt, ID: it.id},
		MergePlanned{Attempt: attempt, ID: it.id}, MergeDone{Attempt: attempt, ID: it.id}, WorkerGone{Kind: WorkerIsolated, Attempt: attempt, ID: it.id})
	if _, preparing := it.state.(itemPreparing); preparing {
		h.unwanted = append(h.unwanted, WorkspaceReady{Attempt: attempt, ID: it.id, Dir: "/wt/late", Path: "/wt/late"})
	}
}

// call draws a call of the tool task whose items work in copies.
func (w *copies) call(items []string) string {
	verify := rapid.SampledFrom([]string{"false", "true", `"ci"`, `{"commands":[{"name":"x","command":"x"}],"maxRetries":1}`}).Draw(w.t, "verify")
	return `{"agent":"task","isolated":true,"verify":` + verify + `,"tasks":[` + strings.Join(items, ",") + `]}`
}

// step answers what an item waits for, well or not; false if it waits for other items.
func (h *history) copyStep(attempt Attempt, it *item) bool {
	w := h.copies
	id, job, bad := it.id, it.work.job, h.pick(20, "how") == 0
	gone := bad && h.pick(3, "gone") == 0
	work := func() string { return it.work.dir }
	switch it.state.(type) {
	case itemPreparing:
		switch {
		case gone:
			h.step(WorkerGone{Kind: WorkerIsolated, Attempt: attempt, ID: id, Job: job})
		case bad:
			h.step(WorkspaceReady{Attempt: attempt, ID: id, Err: "no space", Never: h.pick(2, "never") == 0})
		default:
			w.made++
			dir := fmt.Sprintf("/wt/%d", w.made)
			w.of[dir] = &copyOf{item: id}
			h.step(WorkspaceReady{Attempt: attempt, ID: id, Dir: dir, Path: dir + "/work"})
		}
	case itemCapturing:
		switch {
		case gone:
			h.step(WorkerGone{Kind: WorkerIsolated, Attempt: attempt, ID: id, Job: job})
		case bad:
			h.step(WorkCaptured{Attempt: attempt, ID: id, Err: "disk full"})
		default:
			w.of[work()].durable = true
			empty := h.pick(4, "empty") == 0
			in := WorkCaptured{Attempt: attempt, ID: id, Captured: json.RawMessage(`{}`), Tree: fmt.Sprint(h.pick(3, "tree")), Empty: empty, Rest: h.pick(2, "rest") == 0}
			if !empty {
				in.Patch = "/s/" + id + ".patch"
			}
			h.step(in)
		}
	case itemVerifying:
		if gone {
			h.step(WorkerGone{Kind: WorkerIsolated, Attempt: attempt, ID: id, Job: job})
			return true
		}
		e, is := w.asked[id].(RunCheck)
		require.True(h.t, is, "%s is verified and nothing runs: %T", id, w.asked[id])
		h.step(CheckDone{Attempt: attempt, ID: id, Result: protocol.VerificationCommandResult{
			Name: e.Command.Name, Command: e.Command.Command, ExitCode: max(0, h.pick(5, "exit code")-3), DurationMs: 1,
		}, Log: "log"})
	case itemNaming:
		h.childStep(attempt, it)
	case itemMerging:
		if gone {
			h.step(WorkerGone{Kind: WorkerIsolated, Attempt: attempt, ID: id, Job: job})
			return true
		}
		h.mergeStep(attempt, it, bad)
	default:
		return false
	}
	return true
}

func (h *history) mergeStep(attempt Attempt, it *item, bad bool) {
	c := h.copies.of[it.work.dir]
	switch h.copies.asked[it.id].(type) {
	case PlanMerge:
		in := MergePlanned{Attempt: attempt, ID: it.id, Plan: json.RawMessage(`{}`), Paths: []string{"a"}}
		switch {
		case bad:
			in = MergePlanned{Attempt: attempt, ID: it.id, Err: "no"}
		case h.pick(4, "conflict") == 0:
			in = MergePlanned{Attempt: attempt, ID: it.id, Conflicts: []string{"a"}}
		case h.pick(6, "same") == 0:
			in.Plan = nil
			c.merged = true
		case h.pick(6, "aside") == 0:
			in.Plan, in.Branch, in.Aside = nil, "task/a", true
		}
		h.step(in)
	case ApplyMerge:
		in := MergeDone{Attempt: attempt, ID: it.id}
		switch {
		case bad:
			in.Err = "no"
		case h.pick(4, "moved") == 0:
			in.Err, in.Moved, c.planned = "moved", true, false
		default:
			c.merged = true
		}
		h.step(in)
	default:
		require.Fail(h.t, "a merge that nobody works at")
	}
}

// checkVerifications is T2 and T3: attempts count from 1, commands are one after the
// other, and what did not pass is not a success.
func checkVerifications(t *rapid.T, wire []protocol.Event) {
	attempts, running, command, ends := map[string]int{}, map[string]bool{}, map[string]string{}, map[string]int{}
	for i, ev := range wire {
		at := func(ok bool, what string) { require.True(t, ok, "T2: event %d %s: %s", i, DescribeEvent(ev), what) }
		switch ev := ev.(type) {
		case protocol.SubagentStart:
			attempts[ev.ID], running[ev.ID], command[ev.ID] = 0, false, ""
		case protocol.SubagentVerificationStart:
			at(!running[ev.ID] && ev.Attempt == attempts[ev.ID]+1, "attempt")
			attempts[ev.ID], running[ev.ID], ends[ev.ID] = ev.Attempt, true, 0
		case protocol.SubagentVerificationCommandStart:
			at(running[ev.ID] && command[ev.ID] == "" && ev.Attempt == attempts[ev.ID], "command")
			command[ev.ID] = ev.CommandName
		case protocol.SubagentVerificationCommandEnd:
			at(command[ev.ID] == ev.CommandName && ev.Attempt == attempts[ev.ID], "end of a command")
			command[ev.ID] = ""
			ends[ev.ID]++
		case protocol.SubagentVerificationEnd:
			at(running[ev.ID] && command[ev.ID] == "", "end")
			running[ev.ID] = false
		case protocol.SubagentEnd:
			at(!running[ev.ID], "ends in an attempt")
			if v := ev.Verification; v != nil && len(v.Attempts) > 0 {
				at(len(v.Attempts[len(v.Attempts)-1].CommandResults) == ends[ev.ID], "has other results than the commands that ended")
			}
			if v := ev.Verification; v != nil && ev.ExitCode == 0 {
				require.Equal(t, protocol.VerifyPassed, v.Status, "T3: %s", ev.ID)
			}
		default:
		}
	}
}
