//go:build linux

package security

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/harness"
)

// TestSandbox checks that the sandbox confines the model's commands, the client's commands, the
// tools that write files, and extensions with their child processes.
func TestSandbox(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile("tries.js", `module.exports = (pi) => pi.registerTool({
		name: "tries", label: "tries", description: "tries", parameters: { type: "object", properties: {} },
		execute: async () => {
			const said = [];
			try { require("fs").writeFileSync("by-extension", "x"); said.push("wrote"); } catch (e) { said.push(e.code); }
			const r = await pi.exec("sh", ["-c", "echo x > by-exec"]);
			said.push(r.code === 0 ? "ran" : "failed");
			return { content: [{ type: "text", text: said.join(" ") }] };
		},
	})`)
	d := p.Start("-e", "./tries.js", "--sandbox", "readonly", "--sandbox-network", "off")
	p.Model.Enqueue(
		harness.ToolCall("c1", "bash", `{"command":"echo x > by-bash"}`), harness.ToolCall("c2", "write", `{"path":"by-write","content":"x"}`), harness.ToolCall("c3", "tries", `{}`),
		harness.ToolCall("c4", "bash", `{"command":"echo fine > /dev/null; cat tries.js | wc -l"}`), harness.Text("done"))
	ran := d.Prompt("go")
	results := map[string]string{}
	for _, r := range ran {
		if r.Get("type").Str == "tool_execution_end" {
			results[r.Get("toolCallId").Str] = r.Get("result").Raw
		}
	}
	assert.Contains(t, results["c1"], `This runs in a sandbox: nothing can be written; there is no network.`)
	assert.Contains(t, results["c1"], `"sandbox":{"files":"readonly","network":"off"}`)
	assert.Contains(t, results["c2"], `This runs in a sandbox`)
	assert.Contains(t, results["c3"], `EACCES failed`)
	assert.NotContains(t, results["c4"], `This runs in a sandbox`)
	answer := d.OK(`{"type":"bash","command":"echo x > by-client"}`)
	assert.Equal(t, int64(1), answer.Get("exitCode").Int(), answer.Raw)
	for _, name := range []string{"by-bash", "by-write", "by-extension", "by-exec", "by-client"} {
		assert.NoFileExists(t, filepath.Join(p.Work, name))
	}
	require.Zero(t, d.Close())
}

// TestSandboxOfFiles checks that permission files and open_session can make the sandbox stricter
// but never weaker.
func TestSandboxOfFiles(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	tries := func(d *harness.Daemon, session, want string) {
		t.Helper()
		answer := d.OK(`{"type":"bash","command":"touch x && rm x","sessionId":"` + session + `"}`)
		assert.Equal(t, want == "writes", answer.Get("exitCode").Int() == 0, answer.Raw)
	}
	open := func(d *harness.Daemon, members string) string {
		t.Helper()
		return d.OK(`{"type":"open_session","noSession":true` + members + `}`).Get("sessionId").Str
	}
	d := p.Start("--multi-session")
	tries(d, open(d, ""), "writes")
	tries(d, open(d, `,"sandbox":"workspace"`), "writes")
	tries(d, open(d, `,"sandbox":"readonly"`), "does not")
	p.WriteFile(".pi/permissions.json", `{"sandbox": "readonly"}`)
	tries(d, open(d, `,"sandbox":"off"`), "does not")
	p.WriteFile(".pi/permissions.json", `{"sandbox": "off"}`)
	tries(d, open(d, ""), "writes")
	require.NoError(t, os.Remove(filepath.Join(p.Work, ".pi/permissions.json")))
	p.WriteFile(filepath.Join(p.AgentDir(), "permissions.json"), `{"sandbox": "workspace"}`)
	require.Zero(t, d.Close())
	d = p.Start("--multi-session", "--sandbox", "readonly")
	tries(d, open(d, `,"sandbox":"off"`), "does not")
	require.Zero(t, d.Close())
}

// TestSandboxOfInlineExtensions checks that a sandboxed session loads no inline extensions. They
// would run in the daemon, which is not sandboxed.
func TestSandboxOfInlineExtensions(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile("here.js", `require("fs").writeFileSync("ran", "x"); module.exports = () => {}`)
	d := p.Start("-e", "./here.js", "--extension-host", "inline", "--sandbox", "readonly")
	d.OK(`{"type":"get_commands"}`)
	assert.Zero(t, d.Close())
	assert.NoFileExists(t, filepath.Join(p.Work, "ran"))
}

// TestSandboxOfTasks checks that the commands of a task and of its verification run in the
// session's sandbox. In mode workspace they may write to the task's worktree only.
func TestSandboxOfTasks(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	root := outsideOf(t)
	p.Work = filepath.Join(root, "work")
	p.Env = append(p.Env, "TROUPE_WORKTREE_DIR="+filepath.Join(root, "wt"), "OUTSIDE="+filepath.Join(root, "work", "outside"))
	p.WriteFile("a.txt", "one\n")
	p.WriteFile(filepath.Join(p.AgentDir(), "settings.json"), `{"bash":{"inheritEnv":true},"task":{"isolation":{"enabled":true},"verification":{"enabled":true}}}`)
	p.Git("init", "-q")
	p.Git("add", "-A")
	p.Git("-c", "user.name=Ann", "-c", "user.email=a@example.org", "commit", "-q", "-m", "first")
	call := `{"agent":"task","isolated":true,"tasks":[{"id":"A","description":"a","assignment":"CHILDA"}],"verify":{"commands":[
		{"name":"inside","command":"touch made && grep two a.txt"},{"name":"outside","command":"touch $OUTSIDE"}]}}`
	for _, c := range []struct {
		mode    string
		inside  int64
		outside int64
	}{{"off", 0, 0}, {"workspace", 0, 1}, {"readonly", 1, 1}} {
		p.Model.EnqueueFor("CHILDA", harness.ToolCall("w", "bash", `{"command":"touch $OUTSIDE.child; echo two > a.txt"}`))
		p.Model.EnqueueFor("CHILDA", harness.Text("done"))
		p.Model.Enqueue(harness.ToolCall("t", "task", call), harness.Text("thanks"))
		d := p.Start("--tools", "task,bash", "--sandbox", c.mode)
		d.OK(`{"type":"prompt","message":"go"}`)
		end := d.Event("subagent_end")
		d.Event("agent_settled")
		codes := end.Get("verification.attempts.0.commandResults.#.exitCode").Array()
		require.Len(t, codes, 2, end.Raw)
		assert.Equal(t, []int64{c.inside, c.outside}, []int64{codes[0].Int(), codes[1].Int()}, "%s: %s", c.mode, end.Raw)
		for _, name := range []string{"outside", "outside.child"} {
			if c.mode == "off" {
				require.NoError(t, os.Remove(filepath.Join(p.Work, name)))
			} else {
				assert.NoFileExists(t, filepath.Join(p.Work, name), c.mode)
			}
		}
		assert.NoFileExists(t, filepath.Join(p.Work, "made"))
		require.Zero(t, d.Close())
		p.Git("checkout", "-q", ".")
	}
}

// TestSandboxLeft checks that in mode ask a command may run without the sandbox if a client
// approves it each time. In other modes, by a rule, or by the model's request alone, it may not.
func TestSandboxLeft(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	outside := outsideOf(t)
	p.Env = append(p.Env, "OUTSIDE="+outside)
	p.WriteFile(filepath.Join(p.AgentDir(), "settings.json"), `{"bash":{"inheritEnv":true}}`)
	p.WriteFile(filepath.Join(p.AgentDir(), "permissions.json"), `{"allow":["Bash(touch **)"],"deny":["Bash(rm *)"]}`)
	d := p.Start("--sandbox", "workspace", "--permission-mode", "ask", "--features", "approvals")
	p.Model.Enqueue(
		harness.ToolCall("c1", "bash", `{"command":"touch $OUTSIDE/a"}`), harness.ToolCall("c2", "bash", `{"command":"touch $OUTSIDE/b","unsandboxed":true}`),
		harness.ToolCall("c3", "bash", `{"command":"touch $OUTSIDE/c","unsandboxed":true}`), harness.ToolCall("c4", "bash", `{"command":"rm $OUTSIDE/b","unsandboxed":true}`), harness.Text("done"))
	d.OK(`{"type":"prompt","message":"go"}`)
	answer := func(option string) gjson.Result {
		t.Helper()
		asked := d.Event("approval_request")
		d.OK(`{"type":"approval_response","approvalId":"` + asked.Get("id").Str + `","optionId":"` + option + `"}`)
		return asked
	}
	asked := answer("once")
	assert.Equal(t, "c2", asked.Get("toolCallId").Str, "a rule allows the first; the second leaves the sandbox")
	assert.True(t, asked.Get("unsandboxed").Bool())
	assert.Equal(t, "Run bash without the sandbox: touch $OUTSIDE/b", asked.Get("title").Str)
	assert.Equal(t, `["once","no","stop"]`, asked.Get("options.#.id").Raw)
	assert.Equal(t, "c3", answer("no").Get("toolCallId").Str)
	results := map[string]gjson.Result{}
	for _, m := range d.Event("agent_end").Get(`messages.#(role=="toolResult")#`).Array() {
		results[m.Get("toolCallId").Str] = m
	}
	assert.Contains(t, results["c1"].Get("content.0.text").Str, "This runs in a sandbox")
	assert.Equal(t, "workspace", results["c1"].Get("details.sandbox.files").Str)
	assert.False(t, results["c2"].Get("isError").Bool(), results["c2"].Raw)
	assert.False(t, results["c2"].Get("details.sandbox").Exists())
	assert.Contains(t, results["c4"].Get("content.0.text").Str, "not permitted: deny Bash(rm *)")
	assert.NoFileExists(t, filepath.Join(outside, "a"))
	assert.FileExists(t, filepath.Join(outside, "b"))
	assert.NoFileExists(t, filepath.Join(outside, "c"))
	require.Zero(t, d.Close())

	for _, mode := range []string{"auto", "edits", "readonly"} {
		d := p.Start("--sandbox", "workspace", "--permission-mode", mode)
		p.Model.Enqueue(harness.ToolCall("c1", "bash", `{"command":"touch $OUTSIDE/`+mode+`","unsandboxed":true}`), harness.Text("done"))
		assert.Contains(t, harness.ResultTexts(d.Prompt("go"), "tool_execution_end"), "permission mode ask", mode)
		assert.NoFileExists(t, filepath.Join(outside, mode))
		require.Zero(t, d.Close())
	}
}

// outsideOf returns a directory that is not writable in any sandbox.
func outsideOf(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir() // directories for temporary files may always be written to
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(cache, 0o700))
	dir, err := os.MkdirTemp(cache, "troupe-e2e-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
