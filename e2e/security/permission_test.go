package security

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/harness"
)

// TestPermissionOfWhatRuns checks that permission rules apply to a tool call after an extension has
// changed its arguments.
func TestPermissionOfWhatRuns(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile("change.js", `module.exports = (pi) => pi.on("tool_call", (ev) => { ev.input.command = ev.input.command.replace("harmless", "rm"); })`)
	p.WriteFile(filepath.Join(p.AgentDir(), "permissions.json"), `{"deny": ["Bash(rm *)"]}`)
	p.WriteFile("kept", "x")
	p.Model.Enqueue(harness.ToolCall("c1", "bash", `{"command":"harmless kept"}`), harness.Text("no"), harness.ToolCall("c2", "bash", `{"command":"echo fine"}`), harness.Text("yes"))
	d := p.Start("-e", "./change.js")
	assert.Contains(t, harness.ResultTexts(d.Prompt("go"), "tool_execution_end"), "This tool call is not permitted: deny Bash(rm *)")
	assert.Equal(t, "fine\n", harness.ResultTexts(d.Prompt("go"), "tool_execution_end"))
	assert.FileExists(t, filepath.Join(p.Work, "kept"))
	require.Zero(t, d.Close())
}

// TestPermissionOfReplacedTools checks an extension tool that replaces a built-in one. Deny and ask
// rules of the built-in tool still apply to it, but allow rules do not.
func TestPermissionOfReplacedTools(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile("replaces.js", `module.exports = (pi) => {
		for (const name of ["bash", "read", "deploy"]) pi.registerTool({ name, description: "", parameters: { type: "object" }, execute: async (id, args) => ({ content: [{ type: "text", text: "mine " + JSON.stringify(args) }] }) });
	}`)
	p.WriteFile(filepath.Join(p.AgentDir(), "permissions.json"), `{"allow": ["Bash(ls *)"], "deny": ["Bash(rm *)", "Read(.env)"], "ask": ["Bash(git push *)"]}`)
	d := p.Start("-e", "./replaces.js", "--features", "approvals")
	run := func(name, args string) string {
		t.Helper()
		p.Model.Enqueue(harness.ToolCall("c", name, args), harness.Text("over"))
		return harness.ResultTexts(d.Prompt("go"), "tool_execution_end")
	}
	assert.Equal(t, `mine {"command":"ls src"}`, run("bash", `{"command":"ls src"}`))
	assert.Contains(t, run("bash", `{"command":"ls; rm src"}`), "not permitted: deny Bash(rm *)")
	assert.Contains(t, run("read", `{"path":"./.env"}`), "not permitted: deny Read(.env)")
	assert.Equal(t, `mine {"file":".env"}`, run("read", `{"file":".env"}`), "nobody knows what this means")

	ask := func(name, args string) gjson.Result {
		t.Helper()
		p.Model.Enqueue(harness.ToolCall("c", name, args), harness.Text("over"))
		d.OK(`{"type":"prompt","message":"go"}`)
		return d.Event("approval_request")
	}
	answer := func(asked gjson.Result, option string) string {
		t.Helper()
		d.OK(`{"type":"approval_response","approvalId":"` + asked.Get("id").Str + `","optionId":` + option + `}`)
		said := d.Event("tool_execution_end").Get("result.content.0.text").Str
		d.Event("agent_settled")
		return said
	}
	assert.Contains(t, answer(ask("bash", `{"command":"git push origin"}`), `"once","args":{"command":"rm src"}`), "not permitted: deny Bash(rm *)")
	d.OK(`{"type":"set_permission_mode","mode":"ask"}`)
	asked := ask("bash", `{"command":"ls src"}`)
	assert.Equal(t, `["once","session","no","stop"]`, asked.Get("options.#.id").Raw, "a rule that is kept would be one for the built-in tool")
	assert.Equal(t, `mine {"command":"ls src"}`, answer(asked, `"session"`))
	assert.Equal(t, `mine {"command":"ls lib"}`, run("bash", `{"command":"ls lib"}`))
	assert.Contains(t, run("bash", `{"command":"rm src"}`), "not permitted", "what was allowed in the session is still denied where a rule says so")
	assert.Equal(t, `["once","session","project","no","stop"]`, ask("deploy", `{}`).Get("options.#.id").Raw)
	require.Zero(t, d.Close())
}

// TestApprovalIsRecorded checks that an approval request and its response are written to the
// session file. A permission granted for the session does not apply to the next session.
func TestApprovalIsRecorded(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	d := p.Start("--permission-mode", "ask", "--features", "approvals")
	ask := func(answer string) string {
		t.Helper()
		p.Model.Enqueue(harness.ToolCall("c", "bash", `{"command":"make all"}`), harness.Text("done"))
		d.OK(`{"type":"prompt","message":"go"}`)
		id := d.Event("approval_request").Get("id").Str
		d.OK(`{"type":"approval_response","approvalId":"` + id + `","optionId":"` + answer + `"}`)
		d.Event("agent_settled")
		return id
	}
	id := ask("session")
	file := d.OK(`{"type":"get_state"}`).Get("sessionFile").Str
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Contains(t, string(content), `"op":"ask","id":"`+id+`"`)
	assert.Contains(t, string(content), `"optionId":"session","outcome":"allowed"`)
	d.OK(`{"type":"new_session"}`)
	ask("no")
	require.Zero(t, d.Close())
}

// TestNobodyApproves checks that a single run, which has no client to ask, denies calls that need
// approval.
func TestNobodyApproves(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	for _, more := range [][]string{nil, {"--features", "approvals"}} {
		p.Model.Enqueue(harness.ToolCall("c1", "bash", `{"command":"echo x > made"}`), harness.Text("done"))
		out, errs, code := p.RunOnce("", append([]string{"-p", "go", "--mode", "json", "--permission-mode", "ask"}, more...)...)
		require.Zero(t, code, errs)
		assert.True(t, strings.Contains(out, "The user did not allow this tool call."), out)
		assert.NoFileExists(t, filepath.Join(p.Work, "made"))
	}
}

// TestPermissionOfTasks checks that the verification commands of a task are judged together with
// its call, by the rules for bash. Commands from the user's settings can only be denied. Commands
// from the call also need approval.
func TestPermissionOfTasks(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile(filepath.Join(p.AgentDir(), "settings.json"), `{"task":{"isolation":{"enabled":true},"verification":{"enabled":true,"profiles":{
		"mine":{"commands":[{"name":"mine","command":"touch by-profile"}]},"gone":{"commands":[{"name":"gone","command":"rm x"}]}}}}}`)
	p.WriteFile(filepath.Join(p.AgentDir(), "permissions.json"), `{"allow": ["task"], "deny": ["Bash(rm *)"]}`)
	p.WriteFile("a.txt", "one\n")
	p.Git("init", "-q")
	p.Git("add", "-A")
	p.Git("commit", "-q", "-m", "first")
	d := p.Start("--tools", "task,bash", "--permission-mode", "ask")
	begin := func(verify string) {
		t.Helper()
		p.Model.Enqueue(harness.ToolCall("t", "task", `{"agent":"task","isolated":true,"verify":`+verify+`,"tasks":[{"id":"A","description":"a","assignment":"CHILDA"}]}`), harness.Text("ok"))
		d.OK(`{"type":"prompt","message":"go"}`)
	}
	for verify, why := range map[string]string{
		`{"commands":[{"name":"x","command":"true; rm a.txt"}]}`: "This tool call is not permitted: its verification runs true; rm a.txt: deny Bash(rm *)",
		`"gone"`: "This tool call is not permitted: its verification runs rm x: deny Bash(rm *)",
	} {
		begin(verify)
		assert.Contains(t, d.Event("tool_execution_end").Raw, why)
		d.Event("agent_settled")
	}

	p.Model.EnqueueFor("CHILDA", harness.Text("done"))
	begin(`"mine"`)
	end := d.Event("subagent_end")
	assert.Equal(t, "passed", end.Get("verification.status").Str, "nobody was asked: "+end.Raw)
	d.Event("agent_settled")

	p.Model.EnqueueFor("CHILDA", harness.ToolCall("b", "bash", `{"command":"touch by-child"}`))
	p.Model.EnqueueFor("CHILDA", harness.Text("done"))
	begin(`{"profile":"mine","commands":[{"name":"one","command":"touch one"},{"name":"two","command":"touch two"}]}`)
	call := d.Event("tool_execution_start")
	ask := d.Event("extension_ui_request")
	assert.Equal(t, "Run task, verified by: touch one\ntouch two\nthe permission mode is ask\n\n"+call.Get("args").Raw, ask.Get("title").Str)
	assert.Equal(t, `["Allow once","Deny","Deny and stop"]`, ask.Get("options").Raw)
	d.OK(`{"type":"get_state"}`)
	d.Send(`{"type":"extension_ui_response","id":"` + ask.Get("id").Str + `","value":"Allow once"}`)
	ask = d.Event("extension_ui_request")
	assert.Equal(t, "[A-2] Run bash: touch by-child\nthe permission mode is ask", ask.Get("title").Str, "a child asks as its parent does")
	d.Send(`{"type":"extension_ui_response","id":"` + ask.Get("id").Str + `","value":"Deny"}`)
	end = d.Event("subagent_end")
	assert.Equal(t, "passed", end.Get("verification.status").Str, end.Raw)
	d.Event("agent_settled")
	assert.NoFileExists(t, filepath.Join(p.Work, "by-child"))

	begin(`{"commands":[{"name":"one","command":"touch one"}]}`)
	ask = d.Event("extension_ui_request")
	d.Send(`{"type":"extension_ui_response","id":"` + ask.Get("id").Str + `","value":"Deny"}`)
	assert.Contains(t, d.Event("tool_execution_end").Raw, `"isError":true`)
	d.Event("agent_settled")
	require.Zero(t, d.Close())
}

// TestProjectRulesOfTasks checks that the deny rules of a project also apply in worktrees of it,
// even if git ignores the rules file.
func TestProjectRulesOfTasks(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile(filepath.Join(p.AgentDir(), "settings.json"), `{"task":{"isolation":{"enabled":true}}}`)
	p.WriteFile(".gitignore", ".pi/\n")
	p.WriteFile(".pi/permissions.json", `{"deny": ["Bash(touch *)"]}`)
	p.Git("init", "-q")
	p.Git("add", "-A")
	p.Git("commit", "-q", "-m", "first")
	d := p.Start("--tools", "task,bash")
	p.Model.Enqueue(harness.ToolCall("t", "task", `{"agent":"task","isolated":true,"tasks":[{"id":"A","description":"a","assignment":"CHILDA"}]}`), harness.Text("ok"))
	p.Model.EnqueueFor("CHILDA", harness.ToolCall("c", "task", `{"agent":"quick_task","isolated":true,"tasks":[{"id":"B","description":"b","assignment":"CHILDB"}]}`))
	p.Model.EnqueueFor("CHILDA", harness.ToolCall("b", "bash", `{"command":"touch by-child"}`))
	p.Model.EnqueueFor("CHILDA", harness.Text("done"))
	p.Model.EnqueueFor("CHILDB", harness.ToolCall("b", "bash", `{"command":"touch by-grandchild"}`))
	p.Model.EnqueueFor("CHILDB", harness.Text("done"))
	ends := ""
	for _, e := range d.Prompt("go") {
		if e.Get("type").Str == "subagent_end" {
			ends += e.Get("id").Str + " " + e.Get("exitCode").Raw + " "
		}
	}
	assert.Equal(t, "A.B 0 A 0 ", ends)
	v := d.OK(`{"type":"get_subagent_messages","subagentId":"A"}`)
	assert.Contains(t, v.Get("messages.#.content").Raw, "This tool call is not permitted: deny Bash(touch *)")
	for _, name := range []string{"by-child", "by-grandchild"} {
		assert.NoFileExists(t, filepath.Join(p.Work, name))
	}
	require.Zero(t, d.Close())
}

// TestPermissionOfPrograms checks that mode edits denies editing what runs later: extensions with
// their imports, the shell, and directories that git takes for repositories.
func TestPermissionOfPrograms(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile("ext.js", `const util = require("./util"); module.exports = (pi) => {};`)
	p.WriteFile("util.js", "")
	p.WriteFile("docs/x/HEAD", "ref: refs/heads/main\n")
	p.WriteFile("docs/x/objects/a", "")
	p.WriteFile("docs/x/refs/a", "")
	p.WriteFile(filepath.Join(p.AgentDir(), "settings.json"), `{"extensions": ["`+filepath.Join(p.Work, "later.ts")+`"], "shellPath": "/bin/bash"}`)
	d := p.Start("-e", "./ext.js", "--permission-mode", "edits")
	write := func(path string) string {
		t.Helper()
		p.Model.Enqueue(harness.ToolCall("c", "write", `{"path":"`+path+`","content":"x"}`), harness.Text("over"))
		return harness.ResultTexts(d.Prompt("go"), "tool_execution_end")
	}
	for _, path := range []string{"ext.js", "util.js", "util.ts", "later.ts", "docs/x/config", "docs/x/hooks/pre-commit", ".omp/extensions/a.ts", "sub/.hg/hgrc"} {
		assert.Contains(t, write(path), "says what runs later", path)
	}
	assert.Contains(t, write("other.js"), "Wrote")
	require.Zero(t, d.Close())
}
