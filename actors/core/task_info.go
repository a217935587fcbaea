package core

import (
	"encoding/json"
	"strings"

	"troupe/protocol"
)

// TaskOffer is what the task tool can do in a session.
type TaskOffer struct {
	Agents    protocol.Agents // that may be started
	Isolation bool            // items may work in workspaces of their own
	Strict    bool            // an item with an empty id is refused
	Verify    bool            // what they do there may be checked by commands
}

// TaskInfo describes the task tool to a model, in one form for every dialect: calls
// in the forms of others are mended.
func TaskInfo(o TaskOffer) protocol.ToolInfo {
	var b strings.Builder
	b.WriteString("Start agents that work on their own, side by side, each in a session of its own, and wait for all of them. " +
		"An agent sees none of this conversation: its assignment, after the context that all share, must say everything it needs. " +
		"Give each a part that does not depend on the others. Agents:")
	for _, a := range o.Agents {
		b.WriteString("\n- " + a.Name + ": " + a.Description)
	}
	return protocol.ToolInfo{
		Name: TaskTool, Description: b.String(), Parameters: taskParameters(o),
		Snippet: "task: have agents work on parts of it, side by side",
	}
}

// property is a parameter; nothing is required that mending fills in.
type property struct {
	Type        any                 `json:"type,omitempty"`
	Description string              `json:"description,omitempty"`
	Items       *property           `json:"items,omitempty"`
	Properties  map[string]property `json:"properties,omitempty"`
	Required    []string            `json:"required,omitempty"`
	MinItems    int                 `json:"minItems,omitempty"`
	MaxItems    int                 `json:"maxItems,omitempty"`
	MaxLength   int                 `json:"maxLength,omitempty"`
}

func taskParameters(o TaskOffer) json.RawMessage {
	item := property{Type: "object", Required: []string{"id", "description", "assignment"}, Properties: map[string]property{
		"id":          {Type: "string", MaxLength: maxTaskID, Description: "Short name, unique in the call: letters, digits, _ and -."},
		"description": {Type: "string", Description: "One line for the user. The agent does not see it."},
		"assignment":  {Type: "string", Description: "What the agent is told: everything it needs to know."},
		"agent":       {Type: "string", Description: "Instead of the call's agent."},
		"model":       {Type: "string", Description: "Instead of the agent's model; :level may stand behind it."},
		"resume":      {Type: "string", Description: "The id of an earlier task, to go on in its session."},
		"schema":      {Type: "object", Description: "Instead of the call's schema."},
	}}
	call := property{Type: "object", Required: []string{"tasks"}, Properties: map[string]property{
		"agent":   {Type: "string", Description: "Name of the agent for all tasks that name none."},
		"context": {Type: "string", Description: "What all agents are told before their assignment."},
		"schema":  {Type: "object", Description: "JSON Type Definition or JSON Schema of what each agent hands over."},
		"tasks":   {Type: "array", MinItems: 1, MaxItems: MaxTasks, Items: &item},
	}}
	if o.Isolation {
		call.Properties["isolated"] = property{Type: "boolean", Description: "Each task works in a copy of the repository; " +
			"what it changes is merged when it has succeeded."}
	}
	if o.Isolation && o.Verify {
		call.Properties["verify"] = property{Type: []string{"boolean", "string", "object"}, Description: "Run commands on what an isolated task has " +
			"changed, and merge only if they pass: true for the default profile, the name of a profile, or {profile?, commands?, onFailure?}."}
	}
	return protocol.JSON(call)
}
