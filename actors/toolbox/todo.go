package toolbox

import (
	"encoding/json"
	"errors"
	"fmt"

	"troupe/actors/core"
	"troupe/protocol"
)

// Todo is the tool with which a model keeps the session's todo list. The list is
// part of the machine's state, so a call returns the new one.
type Todo struct{}

var todoInfo = protocol.ToolInfo{
	Name: core.TodoTool,
	Description: "Replace the todo list of this session. Keep it up to date while you work: exactly one item in_progress " +
		"while there is something to do, and mark items completed as soon as they are.",
	Parameters: json.RawMessage(`{"type":"object","properties":{"todos":{"type":"array","description":"The whole list, in order.",` +
		`"items":{"type":"object","properties":{"id":{"type":"string"},"content":{"type":"string","description":"What is to be done."},` +
		`"activeForm":{"type":"string","description":"The same as something that is going on: Fixing the test."},` +
		`"status":{"enum":["pending","in_progress","completed"]}},"required":["content","status"]}}},"required":["todos"]}`),
	Snippet: "todo_write: keep the todo list of this session",
}

// Infos describes the tool.
func (Todo) Infos() []protocol.ToolInfo { return []protocol.ToolInfo{todoInfo} }

// Start makes the new list; what is told of it is the machine's business.
func (Todo) Start(call protocol.ToolCall) (Work, error) {
	phases, err := todoPhases(call)
	if err != nil {
		return nil, err
	}
	n, active := 0, 0
	for _, phase := range phases {
		for i := range phase.Tasks {
			n++
			if why := core.CompleteTodo(&phase.Tasks[i], n); why != "" {
				return nil, errors.New(why)
			}
			if phase.Tasks[i].Status == core.TodoActive {
				active++
			}
		}
	}
	if active > 1 {
		//lint:ignore ST1005 it is a sentence for the model
		return nil, errors.New("Only one item can be in_progress.")
	}
	return Result{Todos: phases}, nil
}

// todoPhases reads the list of a call: as the schema has it, or in the form of
// pisces, whose models replace phases.
func todoPhases(call protocol.ToolCall) ([]protocol.TodoPhase, error) {
	var theirs struct {
		Ops []struct {
			Op     string               `json:"op"`
			Phases []protocol.TodoPhase `json:"phases"`
		} `json:"ops"`
	}
	if json.Unmarshal(call.Arguments, &theirs) == nil && len(theirs.Ops) == 1 && theirs.Ops[0].Op == "replace" {
		return append([]protocol.TodoPhase{}, theirs.Ops[0].Phases...), nil
	}
	raw, err := Fit(todoInfo, call)
	if err != nil {
		return nil, err
	}
	var args struct {
		Todos []protocol.TodoItem `json:"todos"`
	}
	if err := json.Unmarshal(raw, &args); err != nil {
		//lint:ignore ST1005 it is a sentence for the model
		return nil, fmt.Errorf("Validation failed for tool %q: %w", core.TodoTool, err)
	}
	if len(args.Todos) == 0 {
		return []protocol.TodoPhase{}, nil
	}
	return []protocol.TodoPhase{{Name: "Todos", Tasks: args.Todos}}, nil
}
