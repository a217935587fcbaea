package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// TestPermissionOfWhatRuns: a call is judged as it would run, after extensions have
// changed it, and the question and its answer are in the session file.
func TestPermissionOfWhatRuns(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("change.js", `module.exports = (pi) => pi.on("tool_call", (ev) => { ev.input.command = ev.input.command.replace("harmless", "rm"); })`)
	p.write(filepath.Join(p.agent(), "permissions.json"), `{"deny": ["Bash(rm *)"]}`)
	p.write("kept", "x")
	p.llm.plays(tool("c1", "bash", `{"command":"harmless kept"}`), text("no"), tool("c2", "bash", `{"command":"echo fine"}`), text("yes"))
	d := p.start("-e", "./change.js")
	assert.Contains(t, texts(d.prompt("go"), "tool_execution_end"), "This tool call is not permitted: deny Bash(rm *)")
	assert.Equal(t, "fine\n", texts(d.prompt("go"), "tool_execution_end"))
	assert.FileExists(t, filepath.Join(p.work, "kept"))
	require.Zero(t, d.end())
}

// TestPermissionOfReplacedTools: what rules deny of a built-in tool, or ask about, holds for the tool
// of an extension that has taken its place as well, whatever a person changes; what they allow does not.
func TestPermissionOfReplacedTools(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("replaces.js", `module.exports = (pi) => {
		for (const name of ["bash", "read", "deploy"]) pi.registerTool({ name, description: "", parameters: { type: "object" }, execute: async (id, args) => ({ content: [{ type: "text", text: "mine " + JSON.stringify(args) }] }) });
	}`)
	p.write(filepath.Join(p.agent(), "permissions.json"), `{"allow": ["Bash(ls *)"], "deny": ["Bash(rm *)", "Read(.env)"], "ask": ["Bash(git push *)"]}`)
	d := p.start("-e", "./replaces.js", "--features", "approvals")
	run := func(name, args string) string {
		t.Helper()
		p.llm.plays(tool("c", name, args), text("over"))
		return texts(d.prompt("go"), "tool_execution_end")
	}
	assert.Equal(t, `mine {"command":"ls src"}`, run("bash", `{"command":"ls src"}`))
	assert.Contains(t, run("bash", `{"command":"ls; rm src"}`), "not permitted: deny Bash(rm *)")
	assert.Contains(t, run("read", `{"path":"./.env"}`), "not permitted: deny Read(.env)")
	assert.Equal(t, `mine {"file":".env"}`, run("read", `{"file":".env"}`), "nobody knows what this means")

	ask := func(name, args string) gjson.Result {
		t.Helper()
		p.llm.plays(tool("c", name, args), text("over"))
		d.ok(`{"type":"prompt","message":"go"}`)
		return d.event("approval_request")
	}
	answer := func(asked gjson.Result, option string) string {
		t.Helper()
		d.ok(`{"type":"approval_response","approvalId":"` + asked.Get("id").Str + `","optionId":` + option + `}`)
		said := d.event("tool_execution_end").Get("result.content.0.text").Str
		d.event("agent_settled")
		return said
	}
	assert.Contains(t, answer(ask("bash", `{"command":"git push origin"}`), `"once","args":{"command":"rm src"}`), "not permitted: deny Bash(rm *)")
	d.ok(`{"type":"set_permission_mode","mode":"ask"}`)
	asked := ask("bash", `{"command":"ls src"}`)
	assert.Equal(t, `["once","session","no","stop"]`, asked.Get("options.#.id").Raw, "a rule that is kept would be one for the built-in tool")
	assert.Equal(t, `mine {"command":"ls src"}`, answer(asked, `"session"`))
	assert.Equal(t, `mine {"command":"ls lib"}`, run("bash", `{"command":"ls lib"}`))
	assert.Contains(t, run("bash", `{"command":"rm src"}`), "not permitted", "what was allowed in the session is still denied where a rule says so")
	assert.Equal(t, `["once","session","project","no","stop"]`, ask("deploy", `{}`).Get("options.#.id").Raw)
	require.Zero(t, d.end())
}

// TestApprovalIsRecorded: what was asked and answered is in the session file, and what was
// allowed for the session is not allowed in the next one.
func TestApprovalIsRecorded(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	d := p.start("--permission-mode", "ask", "--features", "approvals")
	ask := func(answer string) string {
		t.Helper()
		p.llm.plays(tool("c", "bash", `{"command":"make all"}`), text("done"))
		d.ok(`{"type":"prompt","message":"go"}`)
		id := d.event("approval_request").Get("id").Str
		d.ok(`{"type":"approval_response","approvalId":"` + id + `","optionId":"` + answer + `"}`)
		d.event("agent_settled")
		return id
	}
	id := ask("session")
	file := d.ok(`{"type":"get_state"}`).Get("sessionFile").Str
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Contains(t, string(content), `"op":"ask","id":"`+id+`"`)
	assert.Contains(t, string(content), `"optionId":"session","outcome":"allowed"`)
	d.ok(`{"type":"new_session"}`)
	ask("no")
	require.Zero(t, d.end())
}

// TestNobodyApproves: a single run has nobody to ask.
func TestNobodyApproves(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, more := range [][]string{nil, {"--features", "approvals"}} {
		p.llm.plays(tool("c1", "bash", `{"command":"echo x > made"}`), text("done"))
		out, errs, code := p.once("", append([]string{"-p", "go", "--mode", "json", "--permission-mode", "ask"}, more...)...)
		require.Zero(t, code, errs)
		assert.True(t, strings.Contains(out, "The user did not allow this tool call."), out)
		assert.NoFileExists(t, filepath.Join(p.work, "made"))
	}
}

// TestPermissionOfTasks: what a task would be verified by is judged with its call, as bash
// is. What the user's settings run is only ever denied; what a call brings is asked about.
func TestPermissionOfTasks(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(filepath.Join(p.agent(), "settings.json"), `{"task":{"isolation":{"enabled":true},"verification":{"enabled":true,"profiles":{
		"mine":{"commands":[{"name":"mine","command":"touch by-profile"}]},"gone":{"commands":[{"name":"gone","command":"rm x"}]}}}}}`)
	p.write(filepath.Join(p.agent(), "permissions.json"), `{"allow": ["task"], "deny": ["Bash(rm *)"]}`)
	p.write("a.txt", "one\n")
	p.git("init", "-q")
	p.git("add", "-A")
	p.git("commit", "-q", "-m", "first")
	d := p.start("--tools", "task,bash", "--permission-mode", "ask")
	begin := func(verify string) {
		t.Helper()
		p.llm.plays(tool("t", "task", `{"agent":"task","isolated":true,"verify":`+verify+`,"tasks":[{"id":"A","description":"a","assignment":"CHILDA"}]}`), text("ok"))
		d.ok(`{"type":"prompt","message":"go"}`)
	}
	for verify, why := range map[string]string{
		`{"commands":[{"name":"x","command":"true; rm a.txt"}]}`: "This tool call is not permitted: its verification runs true; rm a.txt: deny Bash(rm *)",
		`"gone"`: "This tool call is not permitted: its verification runs rm x: deny Bash(rm *)",
	} {
		begin(verify)
		assert.Contains(t, d.event("tool_execution_end").Raw, why)
		d.event("agent_settled")
	}

	p.llm.playsTo("CHILDA", text("done"))
	begin(`"mine"`)
	end := d.event("subagent_end")
	assert.Equal(t, "passed", end.Get("verification.status").Str, "nobody was asked: "+end.Raw)
	d.event("agent_settled")

	p.llm.playsTo("CHILDA", tool("b", "bash", `{"command":"touch by-child"}`))
	p.llm.playsTo("CHILDA", text("done"))
	begin(`{"profile":"mine","commands":[{"name":"one","command":"touch one"},{"name":"two","command":"touch two"}]}`)
	call := d.event("tool_execution_start")
	ask := d.event("extension_ui_request")
	assert.Equal(t, "Run task, verified by: touch one\ntouch two\nthe mode is ask\n\n"+call.Get("args").Raw, ask.Get("title").Str)
	assert.Equal(t, `["Allow once","Deny","Deny and stop"]`, ask.Get("options").Raw)
	d.ok(`{"type":"get_state"}`)
	d.send(`{"type":"extension_ui_response","id":"` + ask.Get("id").Str + `","value":"Allow once"}`)
	ask = d.event("extension_ui_request")
	assert.Equal(t, "[A-2] Run bash: touch by-child\nthe mode is ask", ask.Get("title").Str, "a child asks as its parent does")
	d.send(`{"type":"extension_ui_response","id":"` + ask.Get("id").Str + `","value":"Deny"}`)
	end = d.event("subagent_end")
	assert.Equal(t, "passed", end.Get("verification.status").Str, end.Raw)
	d.event("agent_settled")
	assert.NoFileExists(t, filepath.Join(p.work, "by-child"))

	begin(`{"commands":[{"name":"one","command":"touch one"}]}`)
	ask = d.event("extension_ui_request")
	d.send(`{"type":"extension_ui_response","id":"` + ask.Get("id").Str + `","value":"Deny"}`)
	assert.Contains(t, d.event("tool_execution_end").Raw, `"isError":true`)
	d.event("agent_settled")
	require.Zero(t, d.end())
}

// TestProjectRulesOfTasks: what a project forbids is forbidden in copies of it as well,
// though git ignores the file that says so.
func TestProjectRulesOfTasks(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(filepath.Join(p.agent(), "settings.json"), `{"task":{"isolation":{"enabled":true}}}`)
	p.write(".gitignore", ".pi/\n")
	p.write(".pi/permissions.json", `{"deny": ["Bash(touch *)"]}`)
	p.git("init", "-q")
	p.git("add", "-A")
	p.git("commit", "-q", "-m", "first")
	d := p.start("--tools", "task,bash")
	p.llm.plays(tool("t", "task", `{"agent":"task","isolated":true,"tasks":[{"id":"A","description":"a","assignment":"CHILDA"}]}`), text("ok"))
	p.llm.playsTo("CHILDA", tool("c", "task", `{"agent":"quick_task","isolated":true,"tasks":[{"id":"B","description":"b","assignment":"CHILDB"}]}`))
	p.llm.playsTo("CHILDA", tool("b", "bash", `{"command":"touch by-child"}`))
	p.llm.playsTo("CHILDA", text("done"))
	p.llm.playsTo("CHILDB", tool("b", "bash", `{"command":"touch by-grandchild"}`))
	p.llm.playsTo("CHILDB", text("done"))
	ends := ""
	for _, e := range d.prompt("go") {
		if e.Get("type").Str == "subagent_end" {
			ends += e.Get("id").Str + " " + e.Get("exitCode").Raw + " "
		}
	}
	assert.Equal(t, "A.B 0 A 0 ", ends)
	v := d.ok(`{"type":"get_subagent_messages","subagentId":"A"}`)
	assert.Contains(t, v.Get("messages.#.content").Raw, "This tool call is not permitted: deny Bash(touch *)")
	for _, name := range []string{"by-child", "by-grandchild"} {
		assert.NoFileExists(t, filepath.Join(p.work, name))
	}
	require.Zero(t, d.end())
}
