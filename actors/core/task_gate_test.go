package core

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
)

// checkedTask is a machine that has been asked for an isolated task which brings two commands of its own.
func checkedTask(t *testing.T, change func(*Settings)) (w *world, effects []Effect) {
	t.Helper()
	set := taskSettings(defaults())
	set.Tasks.Isolation = true
	change(&set)
	w = newWorld(set)
	w.send(protocol.Prompt{Message: "go"})
	args := `{"agent":"task","isolated":true,"tasks":[{"id":"One","description":"d","assignment":"a"}],` +
		`"verify":{"commands":[{"name":"a","command":"make a"},{"name":"b","command":"make b"}]}}`
	_, own := set.Tasks.Checks(json.RawMessage(args))
	require.Equal(t, []string{"make a", "make b"}, own)
	return w, w.step(StreamParts{1, []protocol.Part{
		protocol.PartStart{}, protocol.PartBlockStart{Kind: protocol.BlockToolCall, ID: "t", Name: TaskTool}, protocol.PartDelta{Delta: args}, protocol.PartBlockEnd{},
	}})
}

// started says whether the call was begun.
func started(effects []Effect) (begun bool) {
	for _, e := range effects {
		_, runs := e.(StartTool)
		begun = begun || runs
	}
	return begun
}

// result is what the call came to.
func (w *world) result() string {
	last := w.log[len(w.log)-1]
	for i := len(w.log) - 1; i >= 0; i-- {
		if e, ok := w.log[i].(protocol.MessageEntry); ok {
			if m, ok := e.Message.(*protocol.ToolResultMessage); ok {
				return m.Content.Text("")
			}
		}
	}
	return DescribeEntry(last)
}

// TestChecksAreCommands: commands with which a call of the task tool has its work verified are what a
// model wants run, like calls of bash, and stand behind the same doors.
func TestChecksAreCommands(t *testing.T) {
	end := func(w *world) []Effect {
		return w.step(StreamEnd{Attempt: 1, Done: protocol.PartDone{StopReason: protocol.StopToolUse}})
	}
	t.Run("run", func(t *testing.T) {
		w, _ := checkedTask(t, func(*Settings) {})
		assert.True(t, started(end(w)))
	})
	t.Run("bash is off", func(t *testing.T) {
		w, _ := checkedTask(t, func(s *Settings) { s.Tools = []string{"read", TaskTool} })
		assert.False(t, started(end(w)))
		assert.Contains(t, w.result(), "commands need the tool bash")
	})
	t.Run("bash is asked about", func(t *testing.T) {
		w, _ := checkedTask(t, func(s *Settings) { s.Confirm = []string{"bash"} })
		effects := end(w)
		assert.False(t, started(effects))
		ask := effects[len(effects)-1].(AskUI)
		assert.Contains(t, *ask.Request.Message, "make a\nmake b")
		assert.True(t, started(w.step(UIAnswered{ID: ask.Request.ID, Confirmed: true})))
	})
	gate := func(s *Settings) { s.Extensions.Listens = HookToolCall }
	hook := func(effects []Effect) CallHook { return effects[len(effects)-1].(CallHook) }
	t.Run("an extension sees each", func(t *testing.T) {
		w, _ := checkedTask(t, gate)
		h := hook(end(w))
		for _, command := range []string{"make a", "make b"} {
			h = hook(w.step(HookDone{h.ID, Gated{}}))
			shown := h.Hook.(ToolCallHook)
			assert.Equal(t, "bash", shown.Call.Name)
			assert.Equal(t, "t", shown.Parent)
			assert.JSONEq(t, `{"command":"`+command+`"}`, string(shown.Call.Arguments))
		}
		assert.True(t, started(w.step(HookDone{h.ID, Gated{}})))
	})
	t.Run("an extension blocks one", func(t *testing.T) {
		w, _ := checkedTask(t, gate)
		h := hook(end(w))
		h = hook(w.step(HookDone{h.ID, Gated{}}))
		assert.False(t, started(w.step(HookDone{h.ID, Gated{Blocked: true, Reason: "not that"}})))
		assert.Equal(t, "not that", w.result())
	})
	t.Run("an extension changes one", func(t *testing.T) {
		w, _ := checkedTask(t, gate)
		h := hook(end(w))
		h = hook(w.step(HookDone{h.ID, Gated{}}))
		assert.False(t, started(w.step(HookDone{h.ID, Gated{Args: json.RawMessage(`{"command":"true"}`)}})))
		assert.Contains(t, w.result(), "changed a command of its verify")
	})
}

// capturedTask is one whose work is about to be verified.
func capturedTask(t *testing.T) (*world, Attempt) {
	t.Helper()
	w, _ := checkedTask(t, func(*Settings) {})
	effects := w.step(StreamEnd{Attempt: 1, Done: protocol.PartDone{StopReason: protocol.StopToolUse}})
	i := slices.IndexFunc(effects, func(e Effect) bool { _, starts := e.(StartTool); return starts })
	require.GreaterOrEqual(t, i, 0)
	start := effects[i].(StartTool)
	attempt := start.Attempt
	w.step(TaskReady{Attempt: attempt, CallID: "t", Args: start.Call.Arguments})
	w.step(WorkspaceReady{Attempt: attempt, ID: "One", Dir: "/wt/One", Path: "/wt/One"})
	w.step(ChildOpened{Attempt: attempt, ID: "One", SessionID: "s9", Model: "acme/m1"})
	w.step(ChildSettled{Attempt: attempt, ID: "One", Outcome: completed, Text: "done"})
	w.step(WorkCaptured{Attempt: attempt, ID: "One", Tree: "T"})
	return w, attempt
}

// verifiedTask is one whose work is about to be merged.
func verifiedTask(t *testing.T) (*world, Attempt) {
	w, attempt := capturedTask(t)
	for _, name := range []string{"a", "b"} {
		w.step(CheckDone{Attempt: attempt, ID: "One", Result: protocol.VerificationCommandResult{Name: name}})
	}
	return w, attempt
}

// TestBranchThatIsNotThere: of a merge that failed no branch is named, since the user's repository has none.
func TestBranchThatIsNotThere(t *testing.T) {
	w, attempt := verifiedTask(t)
	w.step(MergePlanned{Attempt: attempt, ID: "One", Plan: json.RawMessage(`{}`), Paths: []string{"a"}, Branch: "troupe/task/x/One"})
	w.step(MergeDone{Attempt: attempt, ID: "One", Err: "the objects cannot be written"})
	require.Contains(t, w.result(), "Note: not merged: the objects cannot be written")
	require.NotContains(t, w.result(), "troupe/task")
}

// TestMergeIsOvertaken: work is merged at last, however often a merge of another session, or the user, has changed its files
// behind its plan; what all plans say is said once.
func TestMergeIsOvertaken(t *testing.T) {
	w, attempt := verifiedTask(t)
	for round := range 10 {
		w.step(MergePlanned{Attempt: attempt, ID: "One", Plan: json.RawMessage(`{}`), Paths: []string{"a"}, Notes: []string{"a note"}})
		effects := w.step(MergeDone{Attempt: attempt, ID: "One", Err: "moved", Moved: true})
		require.True(t, slices.ContainsFunc(effects, func(e Effect) bool { _, plans := e.(PlanMerge); return plans }), "round %d", round)
	}
	w.step(MergePlanned{Attempt: attempt, ID: "One", Plan: json.RawMessage(`{}`), Paths: []string{"a"}, Notes: []string{"a note"}})
	w.step(MergeDone{Attempt: attempt, ID: "One"})
	require.Contains(t, w.result(), "Its changes were merged.")
	require.Equal(t, 1, strings.Count(w.result(), "a note"))
}

// TestCutCheckHasTaken: a command of a verification that is cut off says how long it has run, in the event
// and in the record of its attempt.
func TestCutCheckHasTaken(t *testing.T) {
	w, _ := capturedTask(t)
	w.now += 1500
	var end protocol.SubagentVerificationCommandEnd
	var over protocol.SubagentEnd
	for _, e := range w.send(protocol.Abort{}) {
		switch ev := eventOf(e).(type) {
		case protocol.SubagentVerificationCommandEnd:
			end = ev
		case protocol.SubagentEnd:
			over = ev
		}
	}
	const took = 2500 // and the step of the abort
	assert.Equal(t, protocol.SubagentVerificationCommandEnd{ID: "One", Attempt: 1, CommandName: "a", ExitCode: cutShort, DurationMs: took}, end)
	require.NotNil(t, over.Verification)
	assert.EqualValues(t, took, over.Verification.Attempts[0].CommandResults[0].DurationMs)
}

// eventOf is the event that an effect emits; nil for another effect.
func eventOf(e Effect) protocol.Event {
	if emit, is := e.(Emit); is {
		return emit.Event
	}
	return nil
}
