package extensions

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/harness"
)

// gallery returns the path of an example extension of the documentation.
func gallery(t *testing.T, name string) string {
	path, err := filepath.Abs(filepath.Join("..", "..", "docs", "examples", "extensions", name+".ts"))
	require.NoError(t, err)
	return path
}

// TestPermissionGate checks that a tool call does not run unless the permission gate extension gets
// a yes. Denial, abort and shutdown all count as no.
func TestPermissionGate(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	d := p.Start("-e", gallery(t, "permission-gate"))
	remove := harness.ToolCall("c1", "bash", `{"command":"rm -f victim"}`)
	ask := func() gjson.Result {
		p.WriteFile("victim", "x")
		d.OK(`{"type":"prompt","message":"clean up"}`)
		dialog := d.UIRequest("confirm")
		assert.Equal(t, "rm -f victim", dialog.Get("message").Str)
		assert.False(t, dialog.Get("options").Exists(), "what the method does not have is absent")
		return dialog
	}
	result := func() (string, bool) {
		end := d.Event("tool_execution_end")
		d.Event("agent_settled")
		return end.Get("result.content.0.text").Str, end.Get("isError").Bool()
	}

	p.Model.Enqueue(remove, harness.Text("no"), remove, harness.Text("yes"), remove, harness.ToolCall("c2", "bash", `{"command":"echo fine"}`), harness.Text("fine"), remove, harness.Text("over"))
	d.RespondUI(ask(), `"confirmed":false`)
	said, failed := result()
	assert.Equal(t, "Blocked by user", said)
	assert.True(t, failed)
	assert.FileExists(t, filepath.Join(p.Work, "victim"))

	d.RespondUI(ask(), `"confirmed":true`)
	_, failed = result()
	assert.False(t, failed)
	assert.NoFileExists(t, filepath.Join(p.Work, "victim"))

	ask()
	d.OK(`{"type":"abort"}`)
	d.Event("agent_settled")
	assert.FileExists(t, filepath.Join(p.Work, "victim"))

	d.OK(`{"type":"prompt","message":"echo"}`)
	said, failed = result()
	assert.Equal(t, "fine", strings.TrimSpace(said), "what the gate does not care about runs")
	assert.False(t, failed)

	ask()
	require.Zero(t, d.Close())
	assert.FileExists(t, filepath.Join(p.Work, "victim"), "silence is no yes")
}

// TestGateThatIsBroken checks an extension that cannot be loaded and whose source mentions
// tool_call. All tool calls are refused until it is fixed and reloaded, while other extensions
// work.
func TestGateThatIsBroken(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	gate := filepath.Join(p.Home, "gate.ts")
	p.WriteFile(gate, `export default function (pi) { pi.on("tool_call", () => {}); oops`)
	p.WriteFile("kept", "x")
	d := p.Start("-e", gate, "-e", gallery(t, "bookmarks"))
	p.Model.Enqueue(harness.ToolCall("c1", "read", `{"path":"kept"}`), harness.Text("no"), harness.ToolCall("c2", "read", `{"path":"kept"}`), harness.Text("yes"))
	events := d.Prompt("read it")
	assert.Contains(t, harness.ResultTexts(events, "tool_execution_end"), "Tool calls are refused: the extension "+gate)
	assert.Contains(t, strings.Join(d.Lines(), "\n"), `"type":"extension_error","extensionPath":"`+gate+`","event":"load"`)
	assert.Equal(t, "handled", d.OK(`{"type":"prompt","message":"/bookmark here"}`).Get("disposition").Str)
	assert.Equal(t, "Bookmarked: here", d.UIRequest("notify").Get("message").Str)

	p.WriteFile(gate, `export default function (pi) { pi.on("tool_call", () => {}) }`)
	d.OK(`{"type":"reload_resources"}`)
	d.OK(`{"type":"get_commands"}`) // waits until extensions are loaded
	events = d.Prompt("read it again")
	assert.NotContains(t, harness.ResultTexts(events, "tool_execution_end"), "refused")
	require.Zero(t, d.Close())

	p.WriteFile(gate, `export default function (pi) { pi.on("user_bash", () => {}); oops`)
	d = p.Start("-e", gate)
	d.OK(`{"type":"get_commands"}`)
	assert.Contains(t, d.Call(`{"type":"bash","command":"echo hi"}`).Get("error").Str, "Commands of the user are refused")
	d = p.Start("-e", gate, "--extension-errors", "ignore")
	d.OK(`{"type":"get_commands"}`)
	assert.Equal(t, "hi\n", d.OK(`{"type":"bash","command":"echo hi"}`).Get("output").Str)
}

// TestExtensionTool checks that an extension tool is listed and offered to the model. Its arguments
// are validated, its progress is shown and its details are recorded.
func TestExtensionTool(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	d := p.Start("-e", gallery(t, "hello-tool"))
	tools := d.OK(`{"type":"get_tools"}`)
	assert.Contains(t, tools.Get("activeToolNames").Raw, `"hello"`)
	p.Model.Enqueue(harness.ToolCall("c1", "hello", `{"name":7}`), harness.ToolCall("c2", "hello", `{}`), harness.ToolCall("c3", "hello", `{"name":"Ann"}`), harness.Text("done"))
	events := d.Prompt("greet")
	said := strings.Split(harness.ResultTexts(events, "tool_execution_end"), "\n")
	assert.Contains(t, harness.ResultTexts(events, "tool_execution_end"), `Validation failed for tool "hello"`)
	assert.Equal(t, "Hello, Ann!", said[len(said)-1])
	assert.Contains(t, strings.Join(d.Lines(), "\n"), `"type":"tool_execution_update"`)
	assert.Contains(t, d.OK(`{"type":"get_messages"}`).Raw, `"details":{"greeted":"Ann"}`)
	assert.Contains(t, string(p.Model.Request(p.Model.RequestCount()-1).Body), `"hello"`, "the model is offered it")
}

// TestExtensionInput checks that extensions can handle or change a message before it is processed.
// Their flags are options of the command line.
func TestExtensionInput(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	d := p.Start("-e", gallery(t, "shorthand"), "--brief")
	assert.Equal(t, "handled", d.OK(`{"type":"prompt","message":"ping"}`).Get("disposition").Str)
	assert.Equal(t, "pong", d.UIRequest("notify").Get("message").Str)
	p.Model.Enqueue(harness.Text("42"))
	events := d.Prompt("? the answer")
	assert.Contains(t, events[2].Raw, "In one sentence: the answer")
	assert.Contains(t, string(p.Model.Request(p.Model.RequestCount()-1).Body), "Answer in one sentence.")
	require.Zero(t, d.Close())
	assert.NotContains(t, d.Stderr(), "brief")
}

// TestExtensionState checks that entries of an extension are restored when its session is opened
// again, and are not visible in other sessions.
func TestExtensionState(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	d := p.Start("-e", gallery(t, "bookmarks"))
	names := func() string {
		d.OK(`{"type":"prompt","message":"/bookmarks"}`)
		return d.UIRequest("notify").Get("message").Str
	}
	commands := d.OK(`{"type":"get_commands"}`).Get("commands").Raw
	assert.Contains(t, commands, `"name":"bookmark","description":"Remember where we are","source":"extension"`)
	d.OK(`{"type":"prompt","message":"/bookmark start"}`)
	assert.Equal(t, "Bookmarked: start", d.UIRequest("notify").Get("message").Str)
	assert.Equal(t, "start", names())
	steer := d.Call(`{"type":"steer","message":"/bookmark x"}`)
	assert.Contains(t, steer.Get("error").Str, `Extension command "/bookmark" cannot be queued.`)
	p.Model.Enqueue(harness.Text("kept"))
	d.Prompt("keep it")
	file := d.OK(`{"type":"get_state"}`).Get("sessionFile").Str
	d.OK(`{"type":"new_session"}`)
	assert.Equal(t, "none", names())
	d.OK(`{"type":"switch_session","sessionPath":"` + file + `"}`)
	assert.Equal(t, "start", names())
	require.Zero(t, d.Close())
	d = p.Start("-e", gallery(t, "bookmarks"), "--session", file)
	assert.Equal(t, "start", names())
}

// TestExtensionRedacts checks that a tool result changed by a handler is changed for the client,
// the session file and the model.
func TestExtensionRedacts(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile("secret", "key sk-abcdefgh12345678 here")
	d := p.Start("-e", gallery(t, "redact"))
	p.Model.Enqueue(harness.ToolCall("c1", "read", `{"path":"secret"}`), harness.Text("done"))
	d.Prompt("read it")
	assert.NotContains(t, strings.Join(d.Lines(), "\n"), "abcdefgh12345678")
	assert.Contains(t, strings.Join(d.Lines(), "\n"), "sk-…")
	assert.NotContains(t, string(p.Model.Request(p.Model.RequestCount()-1).Body), "abcdefgh12345678")
}

// TestExtensionsVeto checks that extensions can prevent a session switch, and that they receive
// session_shutdown.
func TestExtensionsVeto(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile("veto.js", `module.exports = (pi) => {
		pi.on("session_before_switch", async (ev, ctx) => ({ cancel: !(await ctx.ui.confirm("Leave?", ev.reason)) }));
		pi.on("session_shutdown", (ev, ctx) => { require("fs").writeFileSync("ended", ev.reason); });
	}`)
	d := p.Start("-e", "./veto.js")
	d.OK(`{"type":"get_commands"}`)
	id := d.OK(`{"type":"get_state"}`).Get("sessionId").Str
	for _, yes := range []string{"false", "true"} {
		d.Send(`{"id":"new-` + yes + `","type":"new_session"}`)
		d.RespondUI(d.UIRequest("confirm"), `"confirmed":`+yes)
		v, _ := d.Wait(0, "new_session", func(v gjson.Result) bool { return v.Get("id").Str == "new-"+yes })
		assert.Equal(t, yes == "false", v.Get("data.cancelled").Bool(), v.Raw)
		assert.Equal(t, yes == "false", d.OK(`{"type":"get_state"}`).Get("sessionId").Str == id)
	}
	require.Zero(t, d.Close())
	assert.FileExists(t, filepath.Join(p.Work, "ended"))
}

// TestExtensionsThatBreak checks that an error in an extension neither ends nor blocks the daemon.
func TestExtensionsThatBreak(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]string{
		"syntax":    `export default function (`,
		"throws":    `throw new Error("at the start")`,
		"factory":   `export default () => { throw new Error("in the factory") }`,
		"not one":   `export const x = 1`,
		"rejection": `export default () => { Promise.reject(new Error("nobody waits")) }`,
		"handler":   `export default (pi) => pi.on("agent_start", () => { throw new Error("in a handler") })`,
		"exits":     `export default (pi) => pi.on("agent_start", () => process.exit(3))`,
		"endless":   `export default (pi) => pi.on("agent_start", () => { for (;;); })`,
		"missing":   `import x from "not-installed"; export default () => x()`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := harness.NewPlace(t)
			p.WriteFile("bad.ts", source)
			d := p.Start("-e", "./bad.ts", "-e", gallery(t, "hello-tool"))
			assert.Contains(t, d.OK(`{"type":"get_tools"}`).Raw, `"hello"`)
			p.Model.Enqueue(harness.Text("still here"))
			d.Prompt("there?")
			d.Wait(0, "extension_error", func(v gjson.Result) bool { return v.Get("type").Str == "extension_error" })
			require.Zero(t, d.Close())
		})
	}
}

// TestHostIsKilled checks that sessions survive the death of the extension host. Pending calls are
// answered, and the host is restarted.
func TestHostIsKilled(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile("suicide.ts", `export default (pi) => {
		pi.registerTool({ name: "die", label: "d", description: "d", parameters: { type: "object", properties: {} },
			execute: async () => { process.kill(process.pid, "SIGKILL"); await new Promise(() => {}); } });
		pi.on("tool_call", () => {});
	}`)
	d := p.Start("-e", "./suicide.ts")
	d.OK(`{"type":"get_commands"}`)
	p.Model.Enqueue(harness.ToolCall("c1", "die", `{}`), harness.Text("oh"), harness.ToolCall("c2", "bash", `{"command":"echo back"}`), harness.Text("good"))
	events := d.Prompt("die")
	assert.NotEmpty(t, harness.ResultTexts(events, "tool_execution_end"))
	require.Eventually(t, func() bool { return strings.Contains(d.OK(`{"type":"get_tools"}`).Raw, `"die"`) }, harness.Patience, 50*time.Millisecond)
	require.Zero(t, d.Close())
}

// TestExtensionsAreNamed checks that missing packages and extensions are reported on stderr once.
func TestExtensionsAreNamed(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile(filepath.Join(p.AgentDir(), "settings.json"), `{"packages":["npm:none","./pack"],"extensions":["gone.ts"]}`)
	p.WriteFile(filepath.Join(p.AgentDir(), "pack/prompts/ask.md"), "Ask")
	d := p.Start("--tools", "read,nope")
	commands := d.OK(`{"type":"get_commands"}`).Get("commands")
	assert.Equal(t, "ask", commands.Get("0.name").Str)
	assert.JSONEq(t, `{"path":"`+p.AgentDir()+`/pack/prompts/ask.md","source":"./pack","scope":"user","origin":"package","baseDir":"`+p.AgentDir()+`/pack"}`, commands.Get("0.sourceInfo").Raw)
	require.Zero(t, d.Close())
	for _, line := range []string{
		"Package not installed: npm:none (pi install npm:none)",
		"Extension path does not exist: " + p.AgentDir() + "/gone.ts",
		"--tools: unknown tool nope",
	} {
		assert.Equal(t, 1, strings.Count(d.Stderr(), line), "%s\n%s", line, d.Stderr())
	}
}

// TestUnknownOptions checks that an unknown long option is an error. With extensions, which may
// define it, it is only reported if none of them does.
func TestUnknownOptions(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	state := `{"id":"1","type":"get_commands"}` + "\n"
	_, errs, code := p.RunOnce(state, "--mode", "rpc", "--preset", "fast")
	assert.Equal(t, 2, code)
	assert.Equal(t, "troupe: unknown option \"--preset\" (try troupe --help)\n", errs)
	_, _, code = p.RunOnce(state, "--mode", "rpc", "-x")
	assert.Equal(t, 2, code)

	p.WriteFile(filepath.Join(p.Home, "preset.ts"), `export default (pi) => pi.registerFlag("plan", { type: "boolean" })`)
	for args, named := range map[string]bool{"--preset fast": true, "--preset=fast": true, "--plan": false} {
		out, errs, code := p.RunOnce(state, append([]string{"--mode", "rpc", "--no-session", "-e", "~/preset.ts"}, strings.Fields(args)...)...)
		assert.Zero(t, code, errs)
		assert.Contains(t, out, `"success":true`)
		assert.Equal(t, named, strings.Contains(errs, "unknown option --preset: no extension has it"), errs)
	}
	_, errs, code = p.RunOnce(state, "--mode", "rpc", "--no-session", "-e", "~/preset.ts", "--modle", "x")
	assert.Zero(t, code)
	assert.Contains(t, errs, `unknown option --modle: no extension has it (did you mean \"--model\"?)`)
	_, errs, code = p.RunOnce(state, "--mode", "rpc", "-e", "~/preset.ts", "-x")
	assert.Equal(t, 2, code, errs)
	p.WriteFile(filepath.Join(p.Home, "bad.ts"), `x`)
	_, errs, code = p.RunOnce(state, "--mode", "rpc", "-e", "~/bad.ts", "--extension-errors", "fatal")
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, p.Home+"/bad.ts")
	_, errs, code = p.RunOnce(state, "--mode", "rpc", "-e", "npm:none", "--extension-errors", "fatal")
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, "Package not installed: npm:none (pi install npm:none)")
	_, _, code = p.RunOnce(state, "--mode", "rpc", "--no-session", "--extension-errors", "fatal")
	assert.Zero(t, code, "nothing is wrong where there is no extension")
}

// stopHost kills the extension host of a daemon, as the out-of-memory killer would.
func stopHost(d *harness.Daemon) {
	d.T.Helper()
	host := 0
	require.Eventually(d.T, func() bool {
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", d.Cmd.Process.Pid))
		for _, list := range lists {
			children, _ := os.ReadFile(list)
			for _, pid := range strings.Fields(string(children)) {
				if line, _ := os.ReadFile("/proc/" + pid + "/cmdline"); strings.Contains(string(line), "ext-host") {
					host, _ = strconv.Atoi(pid)
				}
			}
		}
		return host != 0
	}, harness.Patience, 5*time.Millisecond)
	require.NoError(d.T, syscall.Kill(host, syscall.SIGKILL))
}

// TestGateInReload checks that a message sent during a reload, or right after new_session, waits
// until the extensions are loaded.
func TestGateInReload(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"reload_resources", "new_session"} {
		p := harness.NewPlace(t)
		p.WriteFile("victim", "x")
		d := p.Start("-e", gallery(t, "permission-gate"))
		d.OK(`{"type":"get_commands"}`)
		p.Model.Enqueue(harness.ToolCall("c1", "bash", `{"command":"rm -f victim"}`), harness.Text("no"))
		d.Send(`{"type":"` + before + `"}`)
		d.Send(`{"type":"prompt","message":"clean up"}`)
		d.RespondUI(d.UIRequest("confirm"), `"confirmed":false`)
		d.Event("agent_settled")
		assert.FileExists(t, filepath.Join(p.Work, "victim"), before)
		require.Zero(t, d.Close())
	}
}

// TestGateIsKilled checks that an answer to a dialog of a killed extension host does not answer a
// dialog of the next one. If the host dies while it loads, a message waits for the restart.
func TestGateIsKilled(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile("victim", "x")
	p.WriteFile("mark.js", `module.exports = (pi) => pi.on("session_start", (ev) => require("fs").writeFileSync("started-" + ev.reason, ""))`)
	d := p.Start("-e", gallery(t, "permission-gate"), "-e", "./mark.js")
	d.OK(`{"type":"get_commands"}`)
	remove := harness.ToolCall("c1", "bash", `{"command":"rm -f victim"}`)
	p.Model.Enqueue(remove, harness.Text("no"), remove, harness.Text("no"))
	d.OK(`{"type":"prompt","message":"clean up"}`)
	old := d.UIRequest("confirm")
	stopHost(d)
	d.Event("agent_settled")
	require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(p.Work, "started-reload")); return err == nil }, harness.Patience, 5*time.Millisecond)
	d.OK(`{"type":"prompt","message":"clean up"}`)
	next := d.UIRequest("confirm")
	d.RespondUI(old, `"confirmed":true`)
	d.OK(`{"type":"get_state"}`)
	d.RespondUI(next, `"confirmed":false`)
	d.Event("agent_settled")
	assert.FileExists(t, filepath.Join(p.Work, "victim"), "an answer of an earlier life")
	require.Zero(t, d.Close())

	p.WriteFile("gate.js", `module.exports = async (pi) => { pi.on("tool_call", () => ({ block: true })); if (!require("fs").existsSync("once")) { require("fs").writeFileSync("once", ""); await new Promise(() => {}); } }`)
	p.Model.Enqueue(remove, harness.Text("no"))
	d = p.Start("-e", "./gate.js")
	d.Send(`{"type":"prompt","message":"clean up"}`)
	require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(p.Work, "once")); return err == nil }, harness.Patience, 5*time.Millisecond)
	stopHost(d)
	d.Event("agent_settled")
	assert.FileExists(t, filepath.Join(p.Work, "victim"))
	require.Zero(t, d.Close(), "the end does not wait for who is gone")
}

// TestGateOfAnotherSession checks that an extension that cannot be loaded also refuses tool calls
// in the next session.
func TestGateOfAnotherSession(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]string{
		"at first": `module.exports = (pi) => { pi.on("tool_call", () => {}); throw new Error("broken") }`,
		"then":     `let n = 0; module.exports = (pi) => { if (n++) throw new Error("broken"); pi.on("tool_call", () => {}) }`,
	} {
		p := harness.NewPlace(t)
		p.WriteFile("gate.js", source)
		p.WriteFile("victim", "x")
		d := p.Start("-e", "./gate.js")
		d.OK(`{"type":"get_commands"}`)
		d.OK(`{"type":"new_session"}`)
		p.Model.Enqueue(harness.ToolCall("c1", "bash", `{"command":"rm -f victim"}`), harness.Text("no"))
		d.Prompt("clean up")
		assert.FileExists(t, filepath.Join(p.Work, "victim"), name)
		require.Zero(t, d.Close())
	}
}

// TestExtensionsOfAnotherDirectory checks that a session of another directory has the extensions of
// that directory only.
func TestExtensionsOfAnotherDirectory(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	other := filepath.Join(p.Root, "other")
	p.WriteFile(filepath.Join(other, ".pi/extensions/gate.js"), `module.exports = (pi) => pi.on("tool_call", () => ({ block: true, reason: "not in here" }))`)
	p.WriteFile(filepath.Join(p.Work, ".pi/extensions/here.js"), `module.exports = (pi) => pi.registerCommand("here", { handler: async () => {} })`)
	p.WriteFile("kept", "x")
	p.Model.Enqueue(harness.Text("hello"), harness.ToolCall("c1", "read", `{"path":"kept"}`), harness.Text("no"))
	there := p.Start("--approve", "--cwd", other)
	there.Prompt("hello")
	file := there.OK(`{"type":"get_state"}`).Get("sessionFile").Str
	require.Zero(t, there.Close())

	d := p.Start("--approve")
	assert.Contains(t, d.OK(`{"type":"get_commands"}`).Raw, `"name":"here"`)
	d.OK(`{"type":"switch_session","sessionPath":"` + file + `"}`)
	assert.NotContains(t, d.OK(`{"type":"get_commands"}`).Raw, `"name":"here"`)
	assert.Equal(t, "not in here", harness.ResultTexts(d.Prompt("read it"), "tool_execution_end"))
	require.Zero(t, d.Close())
}

// TestExtensionsAtTheEnd checks that the daemon exits at the end of input, even if an extension
// opens a dialog or sends commands at that time.
func TestExtensionsAtTheEnd(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile("late.js", `module.exports = (pi) => {
		pi.on("agent_end", async (ev, ctx) => { await new Promise((done) => setTimeout(done, 100)); await ctx.ui.select("Next?", ["a"]); });
		pi.on("session_shutdown", async (ev, ctx) => { if (ev.reason !== "quit") return; pi.setActiveTools([]); pi.sendUserMessage("more"); await ctx.ui.confirm("Really?", ""); });
		pi.registerCommand("again", { handler: (args, ctx) => ctx.reload() });
	}`)
	d := p.Start("-e", "./late.js")
	d.OK(`{"type":"prompt","message":"/again"}`)
	d.Event("session_changed")
	p.Model.Enqueue(harness.Text("done"))
	d.OK(`{"type":"prompt","message":"hi"}`)
	d.Event("turn_end")
	require.Zero(t, d.Close())
	assert.NotContains(t, d.Stderr(), "panic")
	assert.NotContains(t, d.Stderr(), "second answer")
	assert.NotContains(t, d.Stderr(), "command:again")
}

// TestWorkWaitsForHandlers checks that the work after an event starts only when its handlers have
// finished, as in pi.
func TestWorkWaitsForHandlers(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile("stash.js", `module.exports = (pi) => pi.on("turn_start", async (ev) => {
		await new Promise((done) => setTimeout(done, 500));
		require("fs").writeFileSync("stashed", "turn " + ev.turnIndex);
	})`)
	d := p.Start("-e", "./stash.js")
	p.Model.Enqueue(harness.ToolCall("c1", "bash", `{"command":"cat stashed"}`), harness.Text("done"))
	assert.Equal(t, "turn 0", harness.ResultTexts(d.Prompt("look"), "tool_execution_end"))
	require.Zero(t, d.Close())
}

// TestAbortWhileExtensionsLoad checks a message that waits for extensions to load: abort stops it,
// and get_state after that reports it as stopped.
func TestAbortWhileExtensionsLoad(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile("slow.js", `module.exports = async (pi) => {
		const fs = require("fs");
		while (!fs.existsSync("go")) await new Promise((done) => setTimeout(done, 5));
	}`)
	d := p.Start("-e", "./slow.js")
	p.Model.Enqueue(harness.Text("never").Then(harness.Gate("never")))
	d.Send(`{"id":"prompt","type":"prompt","message":"go"}`)
	d.Send(`{"id":"abort","type":"abort"}`)
	d.Send(`{"id":"state","type":"get_state"}`)
	p.WriteFile("go", "")
	assert.True(t, d.Response("prompt").Get("success").Bool())
	assert.True(t, d.Event("agent_settled").Get("aborted").Bool())
	assert.True(t, d.Response("abort").Get("success").Bool())
	assert.False(t, d.Response("state").Get("data.isStreaming").Bool())
	require.Zero(t, d.Close())
}

// TestExtensionsOfChildren checks that task agents have the extensions of their parent. Handlers
// see their calls with the right directory. All extension tools are available unless the agent file
// lists its tools.
func TestExtensionsOfChildren(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile(filepath.Join(p.AgentDir(), "settings.json"), `{"task":{"isolation":{"enabled":true}}}`)
	p.WriteFile(filepath.Join(p.AgentDir(), "agents", "finder.md"), "---\ndescription: Finds.\ntools: read, look_up, nothing_has_it\n---\nFind.\n")
	p.WriteFile("victim", "x")
	own := p.WriteExtension("own", `export default (pi) => {
		pi.registerTool({ name: "look_up", description: "Looks up.", parameters: { type: "object", properties: {} },
			execute: async (id, params, signal, update, ctx) => ({ content: [{ type: "text", text: "found in " + ctx.cwd }] }) });
		pi.on("tool_call", (event) => event.toolName === "bash" && event.input.command.includes("rm") ? { block: true, reason: "not in this house" } : undefined);
	}`)
	item := func(id, agent, isolated string) string {
		return `{"agent":"` + agent + `","isolated":` + isolated + `,"tasks":[{"id":"` + id + `","description":"d","assignment":"CHILD` + id + ` do it"}]}`
	}
	p.Model.Enqueue(harness.ToolCall("c1", "task", item("A", "task", "false")).Then(harness.ToolCall("c2", "task", item("B", "task", "true"))).Then(harness.ToolCall("c3", "task", item("C", "finder", "false"))).Then(harness.ToolCall("c4", "task", item("D", "explore", "false"))), harness.Text("thanks"))
	for _, id := range []string{"A", "B"} {
		p.Model.EnqueueFor("CHILD"+id, harness.ToolCall("w"+id, "bash", `{"command":"rm victim"}`))
	}
	for _, id := range []string{"A", "B", "C"} {
		p.Model.EnqueueFor("CHILD"+id, harness.ToolCall("l"+id, "look_up", `{}`))
	}
	for _, id := range []string{"A", "B", "C", "D"} {
		p.Model.EnqueueFor("CHILD"+id, harness.Text("this is "+id))
	}
	d := p.Start("-e", own)
	d.Prompt("go")
	require.Zero(t, d.Close())
	assert.FileExists(t, filepath.Join(p.Work, "victim"))
	assert.Contains(t, d.Stderr(), "finder.md: unknown tools: nothing_has_it")
	offered, blocked, found := map[string]string{}, map[string]bool{}, map[string]string{}
	for n := range p.Model.RequestCount() {
		body := p.Model.Request(n).Body
		id, is := strings.CutPrefix(gjson.Get(body, `messages.#(role=="user").content.0.text`).Str, "CHILD")
		if !is {
			continue
		}
		offered[id[:1]] = gjson.Get(body, "tools.#.name").Raw
		blocked[id[:1]] = strings.Contains(body, "not in this house")
		if _, where, is := strings.Cut(body, "found in "); is {
			found[id[:1]], _, _ = strings.Cut(where, `"`)
		}
	}
	assert.Equal(t, map[string]bool{"A": true, "B": true, "C": false, "D": false}, blocked)
	assert.Contains(t, offered["A"], "look_up")
	assert.Contains(t, offered["C"], "look_up")
	assert.NotContains(t, offered["D"], "look_up", "its file names others")
	assert.Equal(t, p.Work, found["A"])
	assert.NotEqual(t, p.Work, found["B"])
	assert.NotEmpty(t, found["B"])
	assert.Equal(t, p.Work, found["C"])
}
