package core

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"troupe/protocol"
)

// TestTodoWords: what is told of a list that the model has written, and the ids of what has
// none, in our words and in those of pisces.
func TestTodoWords(t *testing.T) {
	list := func() []protocol.TodoPhase {
		return []protocol.TodoPhase{
			{Name: "Plan", Tasks: []protocol.TodoItem{{Content: "look", Status: TodoCompleted}}},
			{ID: "own", Name: "Work", Tasks: []protocol.TodoItem{{Content: "write", Status: TodoActive}, {ID: "x", Content: "test", Status: TodoPending}}},
		}
	}
	_, s1, _ := protocol.DialectS1.Open()
	for _, c := range []struct {
		name          string
		rules         protocol.Rules
		of            []protocol.TodoPhase
		text, details string
	}{
		{"ours", protocol.Rules{}, list(), "The list has 3 items, 2 of them open.",
			`{"todoPhases":[{"name":"Plan","tasks":[{"id":"1","content":"look","status":"completed"}]},` +
				`{"id":"own","name":"Work","tasks":[{"id":"2","content":"write","status":"in_progress"},{"id":"x","content":"test","status":"pending"}]}]}`},
		{"ours, none", protocol.Rules{}, []protocol.TodoPhase{}, "The list has 0 items, 0 of them open.", `{"todoPhases":[]}`},
		{"pisces", s1, list(), "Remaining items (2):\n  - task-2 write [in_progress] (Work)\n  - x test [pending] (Work)\n" +
			"Phase 2/2 \"Work\" — 0/2 tasks complete\n  Plan:\n    ✓ task-1 look\n  Work:\n    → task-2 write\n    ○ x test",
			`{"phases":[{"id":"phase-1","name":"Plan","tasks":[{"id":"task-1","content":"look","status":"completed"}]},` +
				`{"id":"own","name":"Work","tasks":[{"id":"task-2","content":"write","status":"in_progress"},{"id":"x","content":"test","status":"pending"}]}],"storage":"memory"}`},
		{"pisces, all done", s1, list()[:1], "Remaining items: none.\nPhase 1/1 \"Plan\" — 1/1 tasks complete\n  Plan:\n    ✓ task-1 look",
			`{"phases":[{"id":"phase-1","name":"Plan","tasks":[{"id":"task-1","content":"look","status":"completed"}]}],"storage":"memory"}`},
		{"pisces, none", s1, []protocol.TodoPhase{}, "Todo list cleared.", `{"phases":[],"storage":"memory"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := defaults()
			set.Rules, set.Ephemeral = c.rules, true
			w := newWorld(set)
			result := w.m.wroteTodos(c.of)
			assert.Equal(t, c.text, result.Content.Text(""))
			assert.JSONEq(t, c.details, string(result.Details))
		})
	}
}

// TestPiscesReminder: what the model has left open, by phase.
func TestPiscesReminder(t *testing.T) {
	set := defaults()
	_, set.Rules, _ = protocol.DialectS1.Open()
	set.MaxReminders = 2
	w := newWorld(set)
	w.m.wroteTodos([]protocol.TodoPhase{
		{Name: "Plan", Tasks: []protocol.TodoItem{{Content: "look", Status: TodoCompleted}}},
		{Name: "Work", Tasks: []protocol.TodoItem{{Content: "write", Status: TodoActive}, {Content: "test", Status: TodoPending}}},
	})
	w.m.work.reminders = 1
	assert.Equal(t, "<system-reminder>\nYou stopped with 2 incomplete todo item(s):\n- Work\n  - write\n  - test\n\n"+
		"Please continue working on these tasks or mark them complete if finished.\n(Reminder 1/2)\n</system-reminder>", w.m.reminder(w.m.openTodos()))
}
