package core

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"troupe/protocol"
)

// TodoTool names the tool with which a model keeps the session's todo list. It is
// active once a client has set a list, or asked for the tool by name.
const TodoTool = "todo_write"

// Statuses of a todo item.
const (
	TodoPending   = "pending"
	TodoActive    = "in_progress"
	TodoCompleted = "completed"
)

// setTodos replaces the list on a client's command.
func (m *Machine) setTodos(c Command, s protocol.SetTodos) {
	phases := s.Phases
	n := 0
	for i := range phases {
		if phases[i].Tasks == nil {
			phases[i].Tasks = []protocol.TodoItem{}
		}
		for j := range phases[i].Tasks {
			n++
			if why := CompleteTodo(&phases[i].Tasks[j], n); why != "" {
				m.fail(c, protocol.CodeInvalidParams.Errorf("%s", why))
				return
			}
		}
	}
	m.keepTodos(phases)
	m.offerTodos()
	m.reply(c, protocol.TodoResult{TodoPhases: emptyNotNil(m.todos)})
}

// offerTodos lets the model work on the list.
func (m *Machine) offerTodos() {
	if !slices.Contains(m.tools, TodoTool) {
		m.tools = append(m.tools[:len(m.tools):len(m.tools)], TodoTool)
	}
}

// arriveAtTodos offers the list that a log came with, as whoever has set it had it: the log
// does not say which tools are active. Those that a client or the user has chosen stay as they are.
func (m *Machine) arriveAtTodos(to Loaded) {
	if len(to.Todos) > 0 && !m.picked && !m.set.TodosOff {
		m.offerTodos()
	}
}

// CompleteTodo fills in the status that the n-th item of a list may lack, from 1, and says
// what is wrong with the item, "" for nothing.
func CompleteTodo(t *protocol.TodoItem, n int) string {
	if strings.TrimSpace(t.Content) == "" {
		return fmt.Sprintf("Todo item %d has no content", n)
	}
	switch t.Status {
	case "":
		t.Status = TodoPending
	case TodoPending, TodoActive, TodoCompleted:
	default:
		return fmt.Sprintf("Todo item %d has an unknown status: %s", n, t.Status)
	}
	return ""
}

// wroteTodos makes a list the session's that the model has written, and is what is told of it.
func (m *Machine) wroteTodos(phases []protocol.TodoPhase) protocol.ToolResult {
	m.keepTodos(phases)
	if m.words().pisces {
		return m.piscesTodos()
	}
	n := 0
	for _, p := range phases {
		n += len(p.Tasks)
	}
	return protocol.ToolResult{
		Content: protocol.TextContent(fmt.Sprintf("The list has %d items, %d of them open.", n, len(m.openTodos()))),
		Details: protocol.JSON(protocol.TodoResult{TodoPhases: phases}),
	}
}

// keepTodos makes a list the session's, in the log too, with ids for what has none.
func (m *Machine) keepTodos(phases []protocol.TodoPhase) {
	n, before := 0, ""
	if m.words().pisces {
		before = "task-"
	}
	for i := range phases {
		if m.words().pisces && phases[i].ID == "" {
			phases[i].ID = "phase-" + strconv.Itoa(i+1)
		}
		for j := range phases[i].Tasks {
			if n++; phases[i].Tasks[j].ID == "" {
				phases[i].Tasks[j].ID = before + strconv.Itoa(n)
			}
		}
	}
	m.todos = phases
	m.appendOwn(protocol.CustomTodos, protocol.TodoResult{TodoPhases: emptyNotNil(phases)})
}

// loadTodos reads what keepTodos wrote.
func loadTodos(data json.RawMessage) []protocol.TodoPhase {
	var r protocol.TodoResult
	if len(data) == 0 || json.Unmarshal(data, &r) != nil {
		return nil
	}
	return r.TodoPhases
}

func (m *Machine) openTodos() []protocol.TodoItem {
	var open []protocol.TodoItem
	for _, p := range m.todos {
		for _, t := range p.Tasks {
			if t.Status != TodoCompleted {
				open = append(open, t)
			}
		}
	}
	return open
}

// settleOrRemind settles, unless the model is to be reminded of what it has left
// open.
func (m *Machine) settleOrRemind(outcome string) {
	if outcome == completed && m.work.unsettled && m.remind() {
		return
	}
	if m.remindToSubmit(outcome) {
		return
	}
	m.settle(outcome)
}

// remind starts another run because of open items: a few times for each message
// of the user, and only where the model can do something about the list.
func (m *Machine) remind() bool {
	open := m.openTodos()
	if len(open) == 0 || m.overBudget() != "" || m.work.reminders >= m.set.MaxReminders || m.stopping() || m.model == nil || !slices.Contains(m.tools, TodoTool) {
		return false
	}
	m.work.reminders++
	m.emit(protocol.TodoReminder{Todos: open, Attempt: m.work.reminders, MaxAttempts: m.set.MaxReminders})
	m.startRun(cause{note: noteToModel(protocol.NoteTodos, m.reminder(open)), quiet: true})
	return true
}

// reminder is what the model is told of items that it has left open.
func (m *Machine) reminder(open []protocol.TodoItem) string {
	var text strings.Builder
	if m.words().pisces {
		fmt.Fprintf(&text, "<system-reminder>\nYou stopped with %d incomplete todo item(s):\n", len(open))
		for _, p := range m.todos {
			name := "- " + p.Name + "\n"
			for _, t := range p.Tasks {
				if t.Status != TodoCompleted {
					text.WriteString(name + "  - " + t.Content + "\n")
					name = ""
				}
			}
		}
		fmt.Fprintf(&text, "\nPlease continue working on these tasks or mark them complete if finished.\n(Reminder %d/%d)\n</system-reminder>", m.work.reminders, m.set.MaxReminders)
		return text.String()
	}
	fmt.Fprintf(&text, "<todo-reminder attempt=\"%d/%d\">\nThese items of the todo list are not completed:\n", m.work.reminders, m.set.MaxReminders)
	for _, t := range open {
		fmt.Fprintf(&text, "- [%s] %s\n", t.Status, t.Content)
	}
	text.WriteString("Go on with them, or bring the list up to date with todo_write if they are done or no longer wanted.\n</todo-reminder>")
	return text.String()
}

// piscesTodos is what pisces tells of a list that was written.
func (m *Machine) piscesTodos() protocol.ToolResult {
	storage := "session"
	if m.set.Ephemeral {
		storage = "memory"
	}
	return protocol.ToolResult{
		Content: protocol.TextContent(piscesTodoText(m.todos, len(m.openTodos()))),
		Details: protocol.JSON(protocol.PiscesTodos{Phases: m.todos, Storage: storage}),
	}
}

func piscesTodoText(phases []protocol.TodoPhase, open int) string {
	if len(phases) == 0 {
		return "Todo list cleared."
	}
	var items, all strings.Builder
	now, nowOpen := len(phases)-1, 0 // the first phase that is not over, or the last
	for i := range slices.Backward(phases) {
		p, left := &phases[i], 0
		for _, t := range p.Tasks {
			if t.Status != TodoCompleted {
				left++
			}
		}
		if left > 0 {
			now, nowOpen = i, left
		}
	}
	for _, p := range phases {
		all.WriteString("\n  " + p.Name + ":")
		for _, t := range p.Tasks {
			sign := "○"
			switch t.Status {
			case TodoActive:
				sign = "→"
			case TodoCompleted:
				sign = "✓"
			}
			if t.Status != TodoCompleted {
				fmt.Fprintf(&items, "\n  - %s %s [%s] (%s)", t.ID, t.Content, t.Status, p.Name)
			}
			fmt.Fprintf(&all, "\n    %s %s %s", sign, t.ID, t.Content)
		}
	}
	head := "Remaining items: none."
	if open > 0 {
		head = fmt.Sprintf("Remaining items (%d):%s", open, &items)
	}
	n := len(phases[now].Tasks)
	return fmt.Sprintf("%s\nPhase %d/%d %q — %d/%d tasks complete%s", head, now+1, len(phases), phases[now].Name, n-nowOpen, n, &all)
}

// noteToModel is a message of troupe's own.
func noteToModel(kind, text string) *protocol.CustomMessageEntry {
	return &protocol.CustomMessageEntry{CustomType: kind, Content: protocol.TextContent(text), Display: true}
}

// inject adds a message that no user wrote to the conversation.
func (m *Machine) inject(r *run, e protocol.CustomMessageEntry) { m.show(r, m.appendCustom(e)) }

// appendCustom adds a message that no user wrote to the branch.
func (m *Machine) appendCustom(e protocol.CustomMessageEntry) *protocol.CustomMessage {
	msg := protocol.Seal(&protocol.CustomMessage{
		CustomType: e.CustomType, Content: e.Content, Display: e.Display, Details: e.Details, Timestamp: m.now,
	})
	m.size.Add(msg)
	m.append(e)
	return msg
}

// injectAll adds messages that have waited.
func (m *Machine) injectAll(r *run, list *[]protocol.CustomMessageEntry) {
	for _, e := range *list {
		m.inject(r, e)
	}
	*list = nil
}
