package wire

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"troupe/e2e/harness"
)

// TestHostTools checks a tool that runs in the client: the model calls it, and the client sends the
// result.
func TestHostTools(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.Model.Enqueue(
		harness.ToolCall("c1", "open_file", `{"line":"7"}`), harness.ToolCall("c2", "open_file", `{"line":{}}`), harness.Text("done"),
		harness.ToolCall("c3", "open_file", `{"line":1}`),
	)
	d := p.Start()
	d.OK(`{"type":"set_host_tools","tools":[{"name":"open_file","description":"Opens a file in the editor","parameters":{"type":"object","properties":{"line":{"type":"integer"}},"required":["line"]}}]}`)
	assert.Contains(t, d.OK(`{"type":"get_tools"}`).Get("activeToolNames").Raw, "open_file")
	d.OK(`{"type":"prompt","message":"go"}`)
	call := d.Event("host_tool_call")
	assert.Equal(t, `{"line":7}`, call.Get("arguments").Raw, "what the schema wants")
	d.Send(`{"type":"host_tool_update","id":"` + call.Get("id").Str + `","partialResult":{"content":"opening"}}`)
	assert.Equal(t, "opening", d.Event("tool_execution_update").Get("partialResult.content.0.text").Str)
	d.Send(`{"type":"host_tool_result","id":"` + call.Get("id").Str + `","result":"opened"}`)
	bad := d.Event("tool_execution_end")
	assert.Equal(t, "opened", bad.Get("result.content.0.text").Str)
	bad = d.Event("tool_execution_end")
	assert.Equal(t, "c2", bad.Get("toolCallId").Str)
	assert.True(t, bad.Get("isError").Bool(), "wrong arguments do not reach the host")
	d.Event("agent_settled")
	assert.Contains(t, p.Model.Request(0).Body, "Opens a file in the editor")
	assert.Contains(t, p.Model.Request(1).Body, "opened")

	d.OK(`{"type":"prompt","message":"again"}`)
	call = d.Event("host_tool_call")
	d.OK(`{"type":"abort"}`)
	assert.Equal(t, call.Get("id").Str, d.Event("host_tool_cancel").Get("targetId").Str)
	for _, l := range d.Lines() {
		assert.NotContains(t, l, `"command":"host_tool_`, "host frames are not answered")
	}
}

// TestTodos checks that open todo items remind the model once, and that the list survives a
// restart.
func TestTodos(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile(filepath.Join(p.AgentDir(), "settings.json"), `{"todo":{"remindersMax":1}}`)
	p.Model.Enqueue(harness.Text("I am done"), harness.ToolCall("c1", "todo_write", `{"todos":[{"content":"test","activeForm":"Testing","status":"completed"}]}`), harness.Text("Now I am"))
	d := p.Start()
	d.OK(`{"type":"set_todos","phases":[{"name":"A","tasks":[{"content":"test"}]}]}`)
	events := d.Prompt("go")
	assert.Contains(t, strings.Join(harness.Kinds(events), " "), "agent_end todo_reminder agent_start")
	assert.Contains(t, p.Model.Request(1).Body, "not completed")
	assert.Contains(t, p.Model.Request(0).Body, "todo_write")
	path, _ := d.SessionFile()
	assert.Zero(t, d.Close())
	p.Model.Enqueue(harness.Text("idle"))
	d = p.Start("--session", path)
	events = d.Prompt("still there?")
	assert.NotContains(t, strings.Join(harness.Kinds(events), " "), "todo_reminder")
}

// TestStreamRules checks that text matching a stream rule aborts the answer. The model receives the
// rule and answers again, and agent_settled is sent once.
func TestStreamRules(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile(filepath.Join(p.AgentDir(), "rules", "log.md"), "---\nttsr_trigger: console\\.log\n---\nUse the logger.")
	p.Model.Enqueue(harness.Text("I write cons", "ole.log(1)").Then(harness.Gate("never")), harness.Text("logger.info(1)"))
	d := p.Start()
	events := d.Prompt("go")
	seen := strings.Join(harness.Kinds(events), " ")
	assert.Contains(t, seen, "ttsr_triggered message_end turn_end agent_end agent_start")
	assert.Equal(t, 1, strings.Count(seen, "agent_settled"))
	assert.Equal(t, "Use the logger.", harness.FirstEvent(events, "ttsr_triggered").Get("rules.0.content").Str)
	body := p.Model.Request(1).Body
	assert.Contains(t, body, "Use the logger.")
	assert.NotContains(t, body, "I write")
	path, _ := d.SessionFile()
	assert.Zero(t, d.Close())
	p.Model.Enqueue(harness.Text("console.log again"))
	d = p.Start("--session", path)
	events = d.Prompt("and now")
	assert.NotContains(t, strings.Join(harness.Kinds(events), " "), "ttsr_triggered", "once a session")
}
