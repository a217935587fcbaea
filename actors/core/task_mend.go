package core

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"troupe/protocol"
)

// TaskTool names the tool that starts children.
const TaskTool = "task"

// MaxTasks is how many items a call of the task tool has at most.
const MaxTasks = 100

const (
	maxTaskID          = 48 // characters
	maxTaskDescription = 80 // characters of an assignment that stand for a description
)

// taskCall is what a model asks of the task tool.
type taskCall struct {
	Agent    string          `json:"agent"`   // of items that name none
	Context  string          `json:"context"` // stands before every assignment
	Schema   json.RawMessage `json:"schema"`  // of what each hands over
	Tasks    []taskItem      `json:"tasks"`
	Isolated *bool           `json:"isolated"` // nil is what the agent says
	Verify   json.RawMessage `json:"verify"`
}

// taskItem is one child.
type taskItem struct {
	ID          string          `json:"id"`
	Description string          `json:"description"`
	Assignment  string          `json:"assignment"`
	Schema      json.RawMessage `json:"schema"` // of what it hands over; nil is the call's
	Agent       string          `json:"agent"`
	Model       string          `json:"model"`
	Resume      string          `json:"resume"` // the id of an earlier child to go on with
	Isolated    *bool           `json:"isolated"`
}

// agentOf is the name of the agent that an item asks for.
func (c *taskCall) agentOf(item *taskItem) string {
	if item.Agent != "" {
		return item.Agent
	}
	return c.Agent
}

// MendTask brings the arguments of a task call into the form of our schema: models
// were taught the forms of other programs. What it does not know stays as it is. An id
// that is there and empty stays so if that is to be refused.
func MendTask(raw json.RawMessage, refused bool) json.RawMessage {
	call, ok := readObject(raw)
	if !ok {
		return raw
	}
	rename(call, "agent", "subagent_type")
	if _, has := call["tasks"]; !has && hasAny(call, "assignment", "task", "prompt") {
		call = oneItem(call)
	}
	rename(call, "schema", "output", "outputSchema")
	if items, ok := readList(call["tasks"]); ok {
		mendItems(call, items, refused)
	}
	if mended := protocol.JSON(call); !sameJSON(raw, mended) {
		return mended
	}
	return raw // with its members in their order
}

// sameJSON says whether two texts are the same but for the order of members.
func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// oneItem makes a call of the form that has no list.
func oneItem(flat map[string]json.RawMessage) map[string]json.RawMessage {
	call := map[string]json.RawMessage{}
	for _, name := range []string{"agent", "context", "schema", "output", "outputSchema", "isolated", "verify"} {
		if v, has := flat[name]; has {
			call[name] = v
			delete(flat, name)
		}
	}
	call["tasks"] = append(append(json.RawMessage("["), protocol.JSON(flat)...), ']')
	return call
}

func mendItems(call map[string]json.RawMessage, items []json.RawMessage, refused bool) {
	agent := readText(call["agent"])
	for i, raw := range items {
		item, ok := readObject(raw)
		if !ok {
			continue
		}
		rename(item, "agent", "subagent_type")
		rename(item, "assignment", "task", "prompt")
		if _, has := item["id"]; !has && readText(item["name"]) != "" {
			item["id"] = protocol.JSON(asID(readText(item["name"])))
			delete(item, "name")
		}
		rename(item, "schema", "output", "outputSchema")
		mendEffort(item)
		if _, has := item["id"]; readText(item["id"]) == "" && !(has && refused) {
			name := agent
			if own := readText(item["agent"]); own != "" {
				name = own
			}
			item["id"] = protocol.JSON(numberedID(name, i+1))
		}
		if readText(item["description"]) == "" {
			item["description"] = protocol.JSON(beginning(readText(item["assignment"])))
		}
		items[i] = protocol.JSON(item)
	}
	liftIsolated(call, items)
	call["tasks"] = append(append(json.RawMessage("["), bytes.Join(rawBytes(items), []byte(","))...), ']')
}

// mendEffort makes an item's effort the level behind its model.
func mendEffort(item map[string]json.RawMessage) {
	level, ok := map[string]string{"lo": "low", "low": "low", "med": "medium", "medium": "medium", "hi": "high", "high": "high"}[readText(item["effort"])]
	if !ok {
		return
	}
	model := readText(item["model"])
	if model == "" {
		model = protocol.ModelInherit
	}
	item["model"] = protocol.JSON(model + ":" + level)
	delete(item, "effort")
}

// liftIsolated makes what all items say of isolation what the call says.
func liftIsolated(call map[string]json.RawMessage, items []json.RawMessage) {
	lifted := common(items, "isolated")
	if lifted == nil || call["isolated"] != nil && !bytes.Equal(call["isolated"], lifted) {
		return
	}
	call["isolated"] = lifted
	for i, raw := range items {
		if item, ok := readObject(raw); ok {
			delete(item, "isolated")
			items[i] = protocol.JSON(item)
		}
	}
}

// common is the value that every item has under a name, nil if there is none.
func common(items []json.RawMessage, name string) (value json.RawMessage) {
	for i, raw := range items {
		item, _ := readObject(raw)
		own := item[name]
		if own == nil || i > 0 && !bytes.Equal(own, value) {
			return nil
		}
		value = own
	}
	return value
}

// asID makes an id of a name that somebody has chosen freely.
func asID(name string) string {
	id := strings.Map(func(r rune) rune {
		if isIDRune(r) {
			return r
		}
		return '-'
	}, name)
	return id[:min(len(id), maxTaskID)]
}

func isIDRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}

// numberedID is the id of an item that has none.
func numberedID(agent string, n int) string {
	if agent == "" {
		agent = TaskTool
	}
	first, size := utf8.DecodeRuneInString(agent)
	number := strconv.Itoa(n)
	id := asID(string(unicode.ToUpper(first)) + agent[size:])
	return id[:min(len(id), maxTaskID-len(number))] + number
}

// beginning is as much of a text's first line as stands for a description.
func beginning(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if runes := []rune(line); len(runes) > maxTaskDescription {
		return string(runes[:maxTaskDescription])
	}
	return line
}

// rename gives a member our name, unless it is there already.
func rename(m map[string]json.RawMessage, ours string, others ...string) {
	for _, name := range others {
		v, has := m[name]
		if _, there := m[ours]; has && !there {
			m[ours] = v
			delete(m, name)
		}
	}
}

func hasAny(m map[string]json.RawMessage, names ...string) bool {
	for _, name := range names {
		if _, has := m[name]; has {
			return true
		}
	}
	return false
}

// readObject reads an object.
func readObject(raw json.RawMessage) (map[string]json.RawMessage, bool) {
	var m map[string]json.RawMessage
	return m, json.Unmarshal(raw, &m) == nil && m != nil
}

// readList reads a list, or a text that holds one.
func readList(raw json.RawMessage) ([]json.RawMessage, bool) {
	var list []json.RawMessage
	if s := readText(raw); s != "" {
		raw = json.RawMessage(s)
	}
	return list, json.Unmarshal(raw, &list) == nil && list != nil
}

// readText reads a string, "" for anything else.
func readText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

func rawBytes(list []json.RawMessage) [][]byte {
	bytes := make([][]byte, len(list))
	for i := range list {
		bytes[i] = list[i]
	}
	return bytes
}

// taskRules are what a call of the task tool is checked against.
type taskRules struct {
	taskWords
	raw       json.RawMessage // the arguments
	agents    protocol.Agents
	disabled  []string              // names of agents that the user has switched off
	spawner   protocol.Agent        // of the session that calls; the zero value may start everything
	isolation bool                  // items may be isolated
	verify    string                // why what the call wants verified cannot be, "" for no reason
	verified  bool                  // the call wants to be verified
	fits      func(taskItem) string // why an item cannot be resumed, "" for no reason; nil for none
}

// refusal says why a call starts nothing, "" if it may begin. It is checked as a
// whole: no item begins beside one that is wrong.
func (c *taskCall) refusal(r *taskRules) string {
	switch n := len(c.Tasks); {
	case n == 0:
		return r.noTasks()
	case n > MaxTasks:
		return fmt.Sprintf("Too many tasks (%d). Max is %d.", n, MaxTasks)
	}
	if why := r.ids(c.Tasks); why != "" {
		return why
	}
	for i := range c.Tasks {
		if why := c.refusedItem(&c.Tasks[i], r); why != "" {
			return why
		}
	}
	return c.refusedMode(r)
}

// refusedItem says what is wrong with an item.
func (c *taskCall) refusedItem(item *taskItem, r *taskRules) string {
	if why := idRefusal(item.ID); why != "" {
		return why
	}
	if strings.TrimSpace(item.Assignment) == "" {
		return fmt.Sprintf("Task %s has no assignment.", item.ID)
	}
	if c.Isolated != nil && item.Isolated != nil && *c.Isolated != *item.Isolated || c.Isolated == nil && item.Isolated != nil {
		return "Tasks of one call are isolated all or none: pass isolated once, beside tasks."
	}
	if item.Resume != "" && r.fits != nil {
		return r.fits(*item)
	}
	name := c.agentOf(item)
	if name == "" {
		return r.noAgent(item, r.agents, r.raw)
	}
	agent, ok := r.agents.Named(name)
	switch {
	case !ok && slices.Contains(r.disabled, name):
		return r.disabledAgent(name, r.agents, r.disabled)
	case !ok:
		return r.unknownAgent(name, r.agents)
	case slices.Contains(r.disabled, agent.Name):
		return r.disabledAgent(agent.Name, r.agents, r.disabled)
	case r.spawner.Name != "" && !r.spawner.MaySpawn(agent.Name):
		return fmt.Sprintf("Agent %s may not spawn %s", r.spawner.Name, agent.Name)
	}
	return ""
}

func idRefusal(id string) string {
	if id == "" || len(id) > maxTaskID || strings.ContainsFunc(id, func(r rune) bool { return !isIDRune(r) }) {
		return fmt.Sprintf("Invalid task id: %q. Use up to %d of A-Z, a-z, 0-9, _ and -.", id, maxTaskID)
	}
	return ""
}

// refusedMode says what is wrong with isolation and verification.
func (c *taskCall) refusedMode(r *taskRules) string {
	isolated := c.Isolated != nil && *c.Isolated
	if why := r.isolationOff(c.Isolated); why != "" && !r.isolation {
		return why
	}
	switch {
	case (r.verified || r.verify != "") && !isolated && !c.agentsIsolate(r):
		return "Verification requires isolated task execution. Pass isolated: true or disable verify."
	case r.verify != "":
		return r.verify
	}
	return ""
}

// agentsIsolate says whether every item works in a workspace of its own because of
// its agent.
func (c *taskCall) agentsIsolate(r *taskRules) bool {
	if !r.isolation || c.Isolated != nil {
		return false
	}
	for i := range c.Tasks {
		if agent, _ := r.agents.Named(c.agentOf(&c.Tasks[i])); !agent.Isolated {
			return false
		}
	}
	return true
}
