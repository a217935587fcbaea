package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/tidwall/gjson"
)

// TestHostTools: the model calls a tool that the client runs.
func TestHostTools(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.llm.plays(
		tool("c1", "open_file", `{"line":"7"}`), tool("c2", "open_file", `{"line":{}}`), text("done"),
		tool("c3", "open_file", `{"line":1}`),
	)
	d := p.start()
	d.ok(`{"type":"set_host_tools","tools":[{"name":"open_file","description":"Opens a file in the editor","parameters":{"type":"object","properties":{"line":{"type":"integer"}},"required":["line"]}}]}`)
	assert.Contains(t, d.ok(`{"type":"get_tools"}`).Get("activeToolNames").Raw, "open_file")
	d.ok(`{"type":"prompt","message":"go"}`)
	call := d.event("host_tool_call")
	assert.Equal(t, `{"line":7}`, call.Get("arguments").Raw, "what the schema wants")
	d.send(`{"type":"host_tool_update","id":"` + call.Get("id").Str + `","partialResult":{"content":"opening"}}`)
	assert.Equal(t, "opening", d.event("tool_execution_update").Get("partialResult.content.0.text").Str)
	d.send(`{"type":"host_tool_result","id":"` + call.Get("id").Str + `","result":"opened"}`)
	bad := d.event("tool_execution_end")
	assert.Equal(t, "opened", bad.Get("result.content.0.text").Str)
	bad = d.event("tool_execution_end")
	assert.Equal(t, "c2", bad.Get("toolCallId").Str)
	assert.True(t, bad.Get("isError").Bool(), "wrong arguments do not reach the host")
	d.event("agent_settled")
	assert.Contains(t, p.llm.request(0).body, "Opens a file in the editor")
	assert.Contains(t, p.llm.request(1).body, "opened")

	d.ok(`{"type":"prompt","message":"again"}`)
	call = d.event("host_tool_call")
	d.ok(`{"type":"abort"}`)
	assert.Equal(t, call.Get("id").Str, d.event("host_tool_cancel").Get("targetId").Str)
	for _, l := range d.output() {
		assert.NotContains(t, l, `"command":"host_tool_`, "host frames are not answered")
	}
}

// TestTodos: open items remind the model; the list survives a restart.
func TestTodos(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(filepath.Join(p.agent(), "settings.json"), `{"todo":{"remindersMax":1}}`)
	p.llm.plays(text("I am done"), tool("c1", "todo_write", `{"todos":[{"content":"test","activeForm":"Testing","status":"completed"}]}`), text("Now I am"))
	d := p.start()
	d.ok(`{"type":"set_todos","phases":[{"name":"A","tasks":[{"content":"test"}]}]}`)
	events := d.prompt("go")
	assert.Contains(t, strings.Join(kinds(events), " "), "agent_end todo_reminder agent_start")
	assert.Contains(t, p.llm.request(1).body, "not completed")
	assert.Contains(t, p.llm.request(0).body, "todo_write")
	path, _ := d.sessionFile()
	assert.Zero(t, d.end())
	p.llm.plays(text("idle"))
	d = p.start("--session", path)
	events = d.prompt("still there?")
	assert.NotContains(t, strings.Join(kinds(events), " "), "todo_reminder")
}

// TestStreamRules: what the model writes trips a rule; it is stopped, shown the
// rule and goes on, with nothing settled in between.
func TestStreamRules(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(filepath.Join(p.agent(), "rules", "log.md"), "---\nttsr_trigger: console\\.log\n---\nUse the logger.")
	p.llm.plays(text("I write cons", "ole.log(1)").and(gate("never")), text("logger.info(1)"))
	d := p.start()
	events := d.prompt("go")
	seen := strings.Join(kinds(events), " ")
	assert.Contains(t, seen, "ttsr_triggered message_end turn_end agent_end agent_start")
	assert.Equal(t, 1, strings.Count(seen, "agent_settled"))
	assert.Equal(t, "Use the logger.", find(events, "ttsr_triggered").Get("rules.0.content").Str)
	body := p.llm.request(1).body
	assert.Contains(t, body, "Use the logger.")
	assert.NotContains(t, body, "I write")
	path, _ := d.sessionFile()
	assert.Zero(t, d.end())
	p.llm.plays(text("console.log again"))
	d = p.start("--session", path)
	events = d.prompt("and now")
	assert.NotContains(t, strings.Join(kinds(events), " "), "ttsr_triggered", "once a session")
}

func find(events []gjson.Result, kind string) gjson.Result {
	for _, e := range events {
		if e.Get("type").Str == kind {
			return e
		}
	}
	return gjson.Result{}
}
