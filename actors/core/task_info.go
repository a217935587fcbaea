package core

import (
	"encoding/json"
	"strconv"
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

// taskParameters is written out, as every session that begins needs it. Nothing is required that
// mending fills in.
func taskParameters(o TaskOffer) json.RawMessage {
	var isolation string
	if o.Isolation {
		isolation = `,"isolated":{"type":"boolean","description":"Each task works in a copy of the repository; ` +
			`what it changes is merged when it has succeeded."}`
	}
	if o.Isolation && o.Verify {
		isolation += `,"verify":{"type":["boolean","string","object"],"description":"Run commands on what an isolated task has ` +
			`changed, and merge only if they pass: true for the default profile, the name of a profile, or {profile?, commands?, onFailure?}."}`
	}
	return json.RawMessage(`{"type":"object","properties":{` +
		`"agent":{"type":"string","description":"Name of the agent for all tasks that name none."},` +
		`"context":{"type":"string","description":"What all agents are told before their assignment."},` +
		`"schema":{"type":"object","description":"JSON Type Definition or JSON Schema of what each agent hands over."},` +
		`"tasks":{"type":"array","minItems":1,"maxItems":` + strconv.Itoa(MaxTasks) + `,"items":{"type":"object","properties":{` +
		`"id":{"type":"string","description":"Short name, unique in the call: letters, digits, _ and -.","maxLength":` + strconv.Itoa(maxTaskID) + `},` +
		`"description":{"type":"string","description":"One line for the user. The agent does not see it."},` +
		`"assignment":{"type":"string","description":"What the agent is told: everything it needs to know."},` +
		`"agent":{"type":"string","description":"Instead of the call's agent."},` +
		`"model":{"type":"string","description":"Instead of the agent's model; :level may stand behind it."},` +
		`"resume":{"type":"string","description":"The id of an earlier task, to go on in its session."},` +
		`"schema":{"type":"object","description":"Instead of the call's schema."}},` +
		`"required":["id","description","assignment"]}}` + isolation + `},"required":["tasks"]}`)
}
