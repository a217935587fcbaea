package session

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"troupe/protocol"
)

// TodoTool is how a model keeps the session's todo list. It is active once a
// client has set a list, or asked for the tool by name. The machine runs it
// itself: the list is part of the session's state.
var TodoTool = protocol.ToolInfo{
	Name: "todo_write",
	Description: "Replace the todo list of this session. Keep it up to date while you work: exactly one item in_progress " +
		"while there is something to do, and mark items completed as soon as they are.",
	Parameters: json.RawMessage(`{"type":"object","properties":{"todos":{"type":"array","description":"The whole list, in order.",` +
		`"items":{"type":"object","properties":{"id":{"type":"string"},"content":{"type":"string","description":"What is to be done."},` +
		`"activeForm":{"type":"string","description":"The same as something that is going on: Fixing the test."},` +
		`"status":{"enum":["pending","in_progress","completed"]}},"required":["content","status"]}}},"required":["todos"]}`),
	Snippet: "todo_write: keep the todo list of this session",
}

// Statuses of a todo item.
const (
	todoPending   = "pending"
	todoActive    = "in_progress"
	todoCompleted = "completed"
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
			if why := fixTodo(&phases[i].Tasks[j], n); why != "" {
				m.fail(c, protocol.CodeInvalidParams.Errorf("%s", why))
				return
			}
		}
	}
	m.keepTodos(phases)
	if !m.toolActive(TodoTool.Name) {
		m.tools = append(m.tools[:len(m.tools):len(m.tools)], TodoTool.Name)
	}
	m.reply(c, protocol.JSON(protocol.TodoResult{TodoPhases: emptyNotNil(m.todos)}))
}

func (m *Machine) toolActive(name string) bool {
	for _, t := range m.tools {
		if t == name {
			return true
		}
	}
	return false
}

// fixTodo fills in what may be missing and says what is wrong.
func fixTodo(t *protocol.TodoItem, n int) string {
	if strings.TrimSpace(t.Content) == "" {
		return fmt.Sprintf("Todo item %d has no content", n)
	}
	switch t.Status {
	case "":
		t.Status = todoPending
	case todoPending, todoActive, todoCompleted:
	default:
		return fmt.Sprintf("Todo item %d has an unknown status: %s", n, t.Status)
	}
	if t.ID == "" {
		t.ID = strconv.Itoa(n)
	}
	return ""
}

// keepTodos makes a list the session's, in the log too.
func (m *Machine) keepTodos(phases []protocol.TodoPhase) {
	old := m.todos
	m.todos = phases
	data, err := json.Marshal(protocol.TodoResult{TodoPhases: emptyNotNil(phases)})
	if err != nil {
		panic("session: todo entry: " + err.Error())
	}
	m.append(protocol.Custom{CustomType: protocol.CustomTodos, Data: data}, func() { m.todos = old })
}

// loadTodos reads what keepTodos wrote.
func loadTodos(data json.RawMessage) []protocol.TodoPhase {
	var r protocol.TodoResult
	if len(data) == 0 || json.Unmarshal(data, &r) != nil {
		return nil
	}
	return r.TodoPhases
}

// writeTodos runs the model's call of the tool.
func (m *Machine) writeTodos(c *call) {
	var args struct {
		Todos []protocol.TodoItem `json:"todos"`
	}
	if err := json.Unmarshal(c.Arguments, &args); err != nil {
		m.finishCall(c, errorResult("Validation failed for tool \"todo_write\": "+err.Error()), true)
		return
	}
	active := 0
	for i := range args.Todos {
		if why := fixTodo(&args.Todos[i], i+1); why != "" {
			m.finishCall(c, errorResult(why), true)
			return
		}
		if args.Todos[i].Status == todoActive {
			active++
		}
	}
	if active > 1 {
		m.finishCall(c, errorResult("Only one item can be in_progress."), true)
		return
	}
	phases := []protocol.TodoPhase{}
	if len(args.Todos) > 0 {
		phases = append(phases, protocol.TodoPhase{Name: "Todos", Tasks: args.Todos})
	}
	m.keepTodos(phases)
	open := len(m.openTodos())
	details, err := json.Marshal(protocol.TodoResult{TodoPhases: phases})
	if err != nil {
		panic("session: todo details: " + err.Error())
	}
	m.finishCall(c, protocol.ToolResult{
		Content: protocol.TextContent(fmt.Sprintf("The list has %d items, %d of them open.", len(args.Todos), open)), Details: details,
	}, false)
}

func (m *Machine) openTodos() []protocol.TodoItem {
	var open []protocol.TodoItem
	for _, p := range m.todos {
		for _, t := range p.Tasks {
			if t.Status != todoCompleted {
				open = append(open, t)
			}
		}
	}
	return open
}

// rest settles, unless the model is to be reminded of what it has left open.
func (m *Machine) rest(outcome string) {
	if outcome == completed && m.settle.owed && m.remind() {
		return
	}
	m.settled(outcome)
}

// remind starts another run because of open items: a few times for each message
// of the user, and only where the model can do something about the list.
func (m *Machine) remind() bool {
	open := m.openTodos()
	if len(open) == 0 || m.reminders >= m.set.MaxReminders || m.stopping() || m.model == nil || !m.toolActive(TodoTool.Name) {
		return false
	}
	m.reminders++
	m.emit(protocol.TodoReminder{Todos: open, Attempt: m.reminders, MaxAttempts: m.set.MaxReminders})
	var text strings.Builder
	fmt.Fprintf(&text, "<todo-reminder attempt=\"%d/%d\">\nThese items of the todo list are not completed:\n", m.reminders, m.set.MaxReminders)
	for _, t := range open {
		fmt.Fprintf(&text, "- [%s] %s\n", t.Status, t.Content)
	}
	text.WriteString("Go on with them, or bring the list up to date with todo_write if they are done or no longer wanted.\n</todo-reminder>")
	m.openRun()
	m.inject("todo-reminder", text.String())
	m.ask()
	return true
}

// inject adds a message of troupe's own to the conversation.
func (m *Machine) inject(kind, text string) {
	msg := protocol.Seal(&protocol.CustomMessage{
		CustomType: kind, Content: protocol.TextContent(text), Display: true, Timestamp: m.now,
	})
	old := m.size
	m.messageCount++
	m.size.grow(msg)
	m.append(protocol.CustomMessageEntry{CustomType: kind, Content: msg.Content, Display: true}, func() {
		m.messageCount--
		m.size = old
	})
	m.show(msg)
}
