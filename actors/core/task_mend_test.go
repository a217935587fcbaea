package core

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"troupe/protocol"
)

func TestMendTask(t *testing.T) {
	for _, c := range []struct{ name, given, want string }{
		{"ours stays", `{"agent":"task","tasks":[{"id":"A","description":"d","assignment":"a"}]}`,
			`{"agent":"task","tasks":[{"id":"A","description":"d","assignment":"a"}]}`},
		{"an agent and a task each", `{"tasks":[{"agent":"explore","task":"Look.\nThere."},{"agent":"plan","task":"Plan.","model":"m"}]}`,
			`{"tasks":[{"agent":"explore","id":"Explore1","description":"Look.","assignment":"Look.\nThere."},
				{"agent":"plan","id":"Plan2","description":"Plan.","assignment":"Plan.","model":"m"}]}`},
		{"without a list", `{"agent":"task","task":"Do it.","name":"fix the parser","effort":"lo","outputSchema":{"type":"string"},"isolated":true}`,
			`{"agent":"task","schema":{"type":"string"},"isolated":true,
				"tasks":[{"id":"fix-the-parser","description":"Do it.","assignment":"Do it.","model":"inherit:low"}]}`},
		{"of Claude Code", `{"description":"d","prompt":"Do it.","subagent_type":"explore"}`,
			`{"agent":"explore","tasks":[{"id":"Explore1","description":"d","assignment":"Do it."}]}`},
		{"an output", `{"agent":"a","output":{"type":"string"},"tasks":[{"id":"x","description":"d","task":"t"}]}`,
			`{"agent":"a","schema":{"type":"string"},"tasks":[{"id":"x","description":"d","assignment":"t"}]}`},
		{"an output each", `{"agent":"a","tasks":[{"id":"x","description":"d","task":"t","outputSchema":{"type":"string"}}]}`,
			`{"agent":"a","tasks":[{"id":"x","description":"d","assignment":"t","schema":{"type":"string"}}]}`},
		{"effort behind a model", `{"tasks":[{"id":"x","agent":"a","description":"d","assignment":"t","model":"m","effort":"hi"}]}`,
			`{"tasks":[{"id":"x","agent":"a","description":"d","assignment":"t","model":"m:high"}]}`},
		{"all isolated", `{"agent":"a","tasks":[{"id":"x","description":"d","assignment":"t","isolated":true},{"id":"y","description":"d","assignment":"t","isolated":true}]}`,
			`{"agent":"a","isolated":true,"tasks":[{"id":"x","description":"d","assignment":"t"},{"id":"y","description":"d","assignment":"t"}]}`},
		{"some isolated", `{"agent":"a","tasks":[{"id":"x","description":"d","assignment":"t","isolated":true},{"id":"y","description":"d","assignment":"t"}]}`,
			`{"agent":"a","tasks":[{"id":"x","description":"d","assignment":"t","isolated":true},{"id":"y","description":"d","assignment":"t"}]}`},
		{"a list in a text", `{"agent":"a","tasks":"[{\"task\":\"t\"}]"}`,
			`{"agent":"a","tasks":[{"id":"A1","description":"t","assignment":"t"}]}`},
		{"ours wins", `{"agent":"a","tasks":[{"id":"x","name":"n","description":"d","assignment":"ours","task":"theirs"}]}`,
			`{"agent":"a","tasks":[{"id":"x","name":"n","description":"d","assignment":"ours","task":"theirs"}]}`},
		{"nothing to do", `{"agent":"a"}`, `{"agent":"a"}`},
		{"no tasks but a list", `{"agent":"a","tasks":[]}`, `{"agent":"a","tasks":[]}`},
		{"items that are none", `{"tasks":[3,null]}`, `{"tasks":[3,null]}`},
		{"no object", `[1]`, `[1]`},
		{"null", `null`, `null`},
	} {
		assert.JSONEq(t, c.want, string(MendTask(json.RawMessage(c.given), false)), c.name)
	}
}

// What was mended is not mended again, and stays JSON.
func TestMendTaskTwice(t *testing.T) {
	names := rapid.SampledFrom([]string{"agent", "tasks", "task", "name", "id", "prompt", "subagent_type", "output", "outputSchema", "schema",
		"effort", "model", "isolated", "description", "assignment"})
	values := rapid.SampledFrom([]string{`"x"`, `""`, `"lo"`, `true`, `false`, `null`, `3`, `{}`, `[]`, `"ä b/c"`})
	rapid.Check(t, func(t *rapid.T) {
		item := func(label string) string {
			var b strings.Builder
			for i, name := range rapid.SliceOfNDistinct(names, 0, 6, rapid.ID).Draw(t, label) {
				if i > 0 {
					b.WriteByte(',')
				}
				b.WriteString(`"` + name + `":` + values.Draw(t, label+" value"))
			}
			return "{" + b.String() + "}"
		}
		raw := item("call")
		if rapid.Bool().Draw(t, "list") {
			raw = `{"agent":"a","tasks":[` + item("first") + "," + item("second") + "]}"
		}
		once := MendTask(json.RawMessage(raw), false)
		require.True(t, json.Valid(once), raw)
		require.JSONEq(t, string(once), string(MendTask(once, false)), raw)
	})
}

func TestTaskRefusals(t *testing.T) {
	agents := protocol.Agents{
		{Name: "task", Spawns: []string{"*"}}, {Name: "explore", Aliases: []string{"scout"}}, {Name: "off"}, {Name: "apart", Isolated: true},
	}
	pisces := taskRules{taskWords: taskWords{pisces: true}}
	one := `{"agent":"task","tasks":[{"id":"A","assignment":"a"}]}`
	for _, c := range []struct {
		name, call string
		rules      taskRules
		want       string
	}{
		{"fine", one, taskRules{}, ""},
		{"an alias", strings.Replace(one, "task", "scout", 1), taskRules{}, ""},
		{"none", `{"agent":"task"}`, taskRules{}, "No tasks provided."},
		{"too many", `{"agent":"task","tasks":[` + strings.Repeat(`{},`, MaxTasks) + `{}]}`, taskRules{}, "Too many tasks (101). Max is 100."},
		{"twice", `{"agent":"task","tasks":[{"id":"A","assignment":"a"},{"id":"a","assignment":"a"}]}`, taskRules{}, "Duplicate task id: a"},
		{"odd id", `{"agent":"task","tasks":[{"id":"a/b","assignment":"a"}]}`, taskRules{}, `Invalid task id: "a/b". Use up to 48 of A-Z, a-z, 0-9, _ and -.`},
		{"no assignment", `{"agent":"task","tasks":[{"id":"A","assignment":" "}]}`, taskRules{}, "Task A has no assignment."},
		{"no agent", `{"tasks":[{"id":"A","assignment":"a"}]}`, taskRules{}, "Task A names no agent. Available: apart, explore, off, task"},
		{"unknown", strings.Replace(one, "task", "oracle", 1), taskRules{}, "Unknown agent: oracle. Available: apart, explore, off, task"},
		{"switched off", strings.Replace(one, `"task"`, `"off"`, 1), taskRules{disabled: []string{"off"}}, "Agent off is disabled"},
		{"its own kind", one, taskRules{spawner: agents[0]}, ""},
		{"not its own kind", one, taskRules{spawner: protocol.Agent{Name: "task", Spawns: []string{"explore"}}}, "Agent task may not spawn task"},
		{"another kind", strings.Replace(one, `"task"`, `"explore"`, 1), taskRules{spawner: agents[0]}, ""},
		{"spawns nothing", one, taskRules{spawner: agents[1]}, "Agent explore may not spawn task"},
		{"isolated, off", strings.Replace(one, `{"agent"`, `{"isolated":true,"agent"`, 1), taskRules{}, "Task isolation is off (task.isolation.enabled)"},
		{"isolated, on", strings.Replace(one, `{"agent"`, `{"isolated":true,"agent"`, 1), taskRules{isolation: true}, ""},
		{"isolated in parts", strings.Replace(one, `"id"`, `"isolated":true,"id"`, 1), taskRules{isolation: true},
			"Tasks of one call are isolated all or none: pass isolated once, beside tasks."},
		{"no such profile", strings.Replace(one, `{"agent"`, `{"isolated":true,"agent"`, 1), taskRules{isolation: true, verify: `Unknown or invalid verification profile "x".`}, `Unknown or invalid verification profile "x".`},
		{"verified in the open", one, taskRules{isolation: true, verified: true},
			"Verification requires isolated task execution. Pass isolated: true or disable verify."},
		{"verified, isolated by its agent", strings.Replace(one, `"task"`, `"apart"`, 1), taskRules{isolation: true, verified: true}, ""},
		{"no such profile, in the open", one, taskRules{isolation: true, verify: "x"}, "Verification requires isolated task execution. Pass isolated: true or disable verify."},
		{"switched off and not there", strings.Replace(one, `"task"`, `"oracle"`, 1), taskRules{disabled: []string{"oracle"}}, "Agent oracle is disabled"},
		{"none, to pisces", `{"agent":"task"}`, pisces, "No tasks provided. Use: { agent, context, tasks: [{id, description, args}, ...] }"},
		{"ids, to pisces", `{"agent":"task","tasks":[{"id":"A"},{"id":""},{"id":"b"},{"id":"a"},{"id":" "},{"id":"B"},{"id":"a"}]}`, pisces,
			"Invalid tasks: Missing task ids at indexes: 1, 4. Duplicate task ids detected (case-insensitive): A (indexes 0, 3, 6); b (indexes 2, 5)"},
		{"no agent, to pisces", `{"tasks":[{"id":"A","assignment":"a"}]}`, pisces,
			"Validation failed for tool \"task\":\n  - agent: must have required property 'agent'\n\nReceived arguments:\n" +
				"{\n  \"tasks\": [\n    {\n      \"id\": \"A\",\n      \"assignment\": \"a\"\n    }\n  ]\n}"},
		{"unknown, to pisces", strings.Replace(one, "task", "oracle", 1), pisces, `Unknown agent "oracle". Available: task, explore, off, apart`},
		{"switched off, to pisces", strings.Replace(one, `"task"`, `"off"`, 1), taskRules{taskWords: pisces.taskWords, disabled: []string{"off"}},
			`Agent "off" is disabled in settings. Enable it via /agents, or use a different agent type. Available: task, explore, apart`},
		{"isolated, off, to pisces", strings.Replace(one, `{"agent"`, `{"isolated":false,"agent"`, 1), pisces,
			"Task isolation is disabled. Remove the isolated argument or set task.isolation.mode to 'worktree', 'fuse-overlay', or 'fuse-projfs'."},
		{"nothing to resume", strings.Replace(one, `"id"`, `"resume":"B","id"`, 1), taskRules{fits: func(i taskItem) string { return "no " + i.Resume }}, "no B"},
	} {
		var call taskCall
		require.NoError(t, json.Unmarshal([]byte(c.call), &call), c.name)
		c.rules.agents, c.rules.raw = agents, json.RawMessage(c.call)
		assert.Equal(t, c.want, call.refusal(&c.rules), c.name)
	}
}
