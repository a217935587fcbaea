package core

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"troupe/protocol"
)

// TestTodosAreOfferedAfterAReload: a list that the log holds is worked on as before, in another process
// and in one that switches to its session. Tools that a client or the user has chosen stay the active ones.
func TestTodosAreOfferedAfterAReload(t *testing.T) {
	set := defaults()
	set.MaxReminders = 2
	w := newWorld(set)
	w.send(protocol.SetTodos{Phases: []protocol.TodoPhase{{Name: "A", Tasks: []protocol.TodoItem{{Content: "x"}}}}})
	withTodos := slices.Clone(w.log)
	w.restart()
	assert.Contains(t, w.m.ActiveTools(), TodoTool)
	w.send(protocol.Prompt{Message: "go"})
	w.step(StreamParts{1, []protocol.Part{protocol.PartStart{}}})
	w.step(StreamEnd{Attempt: 1, Done: protocol.PartDone{StopReason: protocol.StopStop}})
	assert.True(t, slices.ContainsFunc(w.wire, func(e protocol.Event) bool {
		_, reminds := e.(protocol.TodoReminder)
		return reminds
	}))

	off := set
	off.TodosOff = true
	w = newWorld(off)
	w.send(protocol.SetTodos{Phases: []protocol.TodoPhase{{Name: "A", Tasks: []protocol.TodoItem{{Content: "x"}}}}})
	assert.Contains(t, w.m.ActiveTools(), TodoTool, "a client wants the list to be worked on")
	w.restart()
	assert.NotContains(t, w.m.ActiveTools(), TodoTool, "the user does not")

	for _, picked := range []bool{false, true} {
		w = newWorld(set)
		if picked {
			w.send(protocol.SetActiveTools{ToolNames: []string{"read", "bash"}})
		}
		w.send(protocol.SwitchSession{SessionPath: "/other.jsonl"})
		w.step(SessionLoaded{Seq: w.seq, To: w.load()})
		w.activated(withTodos)
		assert.Equal(t, !picked, slices.Contains(w.m.ActiveTools(), TodoTool), "picked: %v", picked)
	}
}
