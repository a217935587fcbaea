package e2e

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
)

// gallery is one of the extensions that the documentation shows.
func gallery(t *testing.T, name string) string {
	path, err := filepath.Abs(filepath.Join("..", "docs", "examples", "extensions", name+".ts"))
	require.NoError(t, err)
	return path
}

// ui waits for the next record of a method, and skips what lies before it.
func (d *daemon) ui(method string) gjson.Result {
	d.t.Helper()
	return d.next("extension_ui_request "+method, func(v gjson.Result) bool {
		return v.Get("type").Str == "extension_ui_request" && v.Get("method").Str == method && (d.session == "" || v.Get("sessionId").Str == d.session)
	})
}

func (d *daemon) dialog(dialog gjson.Result, members string) {
	d.t.Helper()
	d.send(`{"type":"extension_ui_response",` + d.named() + `"id":"` + dialog.Get("id").Str + `",` + members + `}`)
}

// TestPermissionGate: a call that the gate has to see does not run without its yes,
// whoever does not say it: the person, an abort, the end.
func TestPermissionGate(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	d := p.start("-e", gallery(t, "permission-gate"))
	remove := tool("c1", "bash", `{"command":"rm -f victim"}`)
	ask := func() gjson.Result {
		p.write("victim", "x")
		d.ok(`{"type":"prompt","message":"clean up"}`)
		dialog := d.ui("confirm")
		assert.Equal(t, "rm -f victim", dialog.Get("message").Str)
		assert.False(t, dialog.Get("options").Exists(), "what the method does not have is absent")
		return dialog
	}
	result := func() (string, bool) {
		end := d.event("tool_execution_end")
		d.event("agent_settled")
		return end.Get("result.content.0.text").Str, end.Get("isError").Bool()
	}

	p.llm.plays(remove, text("no"), remove, text("yes"), remove, tool("c2", "bash", `{"command":"echo fine"}`), text("fine"), remove, text("over"))
	d.dialog(ask(), `"confirmed":false`)
	said, failed := result()
	assert.Equal(t, "Blocked by user", said)
	assert.True(t, failed)
	assert.FileExists(t, filepath.Join(p.work, "victim"))

	d.dialog(ask(), `"confirmed":true`)
	_, failed = result()
	assert.False(t, failed)
	assert.NoFileExists(t, filepath.Join(p.work, "victim"))

	ask()
	d.ok(`{"type":"abort"}`)
	d.event("agent_settled")
	assert.FileExists(t, filepath.Join(p.work, "victim"))

	d.ok(`{"type":"prompt","message":"echo"}`)
	said, failed = result()
	assert.Equal(t, "fine", strings.TrimSpace(said), "what the gate does not care about runs")
	assert.False(t, failed)

	ask()
	require.Zero(t, d.end())
	assert.FileExists(t, filepath.Join(p.work, "victim"), "silence is no yes")
}

// TestGateThatIsBroken: an extension that cannot be loaded and names tool_call in its
// source refuses every call, until it is mended and reloaded; other extensions work.
func TestGateThatIsBroken(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	gate := filepath.Join(p.home, "gate.ts")
	p.write(gate, `export default function (pi) { pi.on("tool_call", () => {}); oops`)
	p.write("kept", "x")
	d := p.start("-e", gate, "-e", gallery(t, "bookmarks"))
	p.llm.plays(tool("c1", "read", `{"path":"kept"}`), text("no"), tool("c2", "read", `{"path":"kept"}`), text("yes"))
	events := d.prompt("read it")
	assert.Contains(t, texts(events, "tool_execution_end"), "Tool calls are refused: the extension "+gate)
	assert.Contains(t, strings.Join(d.output(), "\n"), `"type":"extension_error","extensionPath":"`+gate+`","event":"load"`)
	assert.Equal(t, "handled", d.ok(`{"type":"prompt","message":"/bookmark here"}`).Get("disposition").Str)
	assert.Equal(t, "Bookmarked: here", d.ui("notify").Get("message").Str)

	p.write(gate, `export default function (pi) { pi.on("tool_call", () => {}) }`)
	d.ok(`{"type":"reload_resources"}`)
	d.ok(`{"type":"get_commands"}`) // waits until they are loaded
	events = d.prompt("read it again")
	assert.NotContains(t, texts(events, "tool_execution_end"), "refused")
	require.Zero(t, d.end())

	p.write(gate, `export default function (pi) { pi.on("user_bash", () => {}); oops`)
	d = p.start("-e", gate)
	d.ok(`{"type":"get_commands"}`)
	assert.Contains(t, d.call(`{"type":"bash","command":"echo hi"}`).Get("error").Str, "Commands of the user are refused")
	d = p.start("-e", gate, "--extension-errors", "ignore")
	d.ok(`{"type":"get_commands"}`)
	assert.Equal(t, "hi\n", d.ok(`{"type":"bash","command":"echo hi"}`).Get("output").Str)
}

// texts are the texts of the tool results of events, one a line.
func texts(events []gjson.Result, kind string) string {
	var list []string
	for _, ev := range events {
		if ev.Get("type").Str == kind {
			list = append(list, ev.Get("result.content.0.text").Str)
		}
	}
	return strings.Join(list, "\n")
}

// TestExtensionTool: a tool of an extension is listed, offered to the model, checked,
// shown while it runs, and recorded with its details.
func TestExtensionTool(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	d := p.start("-e", gallery(t, "hello-tool"))
	tools := d.ok(`{"type":"get_tools"}`)
	assert.Contains(t, tools.Get("activeToolNames").Raw, `"hello"`)
	p.llm.plays(tool("c1", "hello", `{"name":7}`), tool("c2", "hello", `{}`), tool("c3", "hello", `{"name":"Ann"}`), text("done"))
	events := d.prompt("greet")
	said := strings.Split(texts(events, "tool_execution_end"), "\n")
	assert.Contains(t, texts(events, "tool_execution_end"), `Validation failed for tool "hello"`)
	assert.Equal(t, "Hello, Ann!", said[len(said)-1])
	assert.Contains(t, strings.Join(d.output(), "\n"), `"type":"tool_execution_update"`)
	assert.Contains(t, d.ok(`{"type":"get_messages"}`).Raw, `"details":{"greeted":"Ann"}`)
	assert.Contains(t, string(p.llm.request(p.llm.count()-1).body), `"hello"`, "the model is offered it")
}

// TestExtensionInput: a message goes past extensions before anything is done with it,
// and their flags are options of the command line.
func TestExtensionInput(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	d := p.start("-e", gallery(t, "shorthand"), "--brief")
	assert.Equal(t, "handled", d.ok(`{"type":"prompt","message":"ping"}`).Get("disposition").Str)
	assert.Equal(t, "pong", d.ui("notify").Get("message").Str)
	p.llm.plays(text("42"))
	events := d.prompt("? the answer")
	assert.Contains(t, events[2].Raw, "In one sentence: the answer")
	assert.Contains(t, string(p.llm.request(p.llm.count()-1).body), "Answer in one sentence.")
	require.Zero(t, d.end())
	assert.NotContains(t, d.errors(), "brief")
}

// TestExtensionState: what an extension keeps in a session is there when that is
// opened again, and in no other one.
func TestExtensionState(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	d := p.start("-e", gallery(t, "bookmarks"))
	names := func() string {
		d.ok(`{"type":"prompt","message":"/bookmarks"}`)
		return d.ui("notify").Get("message").Str
	}
	commands := d.ok(`{"type":"get_commands"}`).Get("commands").Raw
	assert.Contains(t, commands, `"name":"bookmark","description":"Remember where we are","source":"extension"`)
	d.ok(`{"type":"prompt","message":"/bookmark start"}`)
	assert.Equal(t, "Bookmarked: start", d.ui("notify").Get("message").Str)
	assert.Equal(t, "start", names())
	steer := d.call(`{"type":"steer","message":"/bookmark x"}`)
	assert.Contains(t, steer.Get("error").Str, `Extension command "/bookmark" cannot be queued.`)
	p.llm.plays(text("kept"))
	d.prompt("keep it")
	file := d.ok(`{"type":"get_state"}`).Get("sessionFile").Str
	d.ok(`{"type":"new_session"}`)
	assert.Equal(t, "none", names())
	d.ok(`{"type":"switch_session","sessionPath":"` + file + `"}`)
	assert.Equal(t, "start", names())
	require.Zero(t, d.end())
	d = p.start("-e", gallery(t, "bookmarks"), "--session", file)
	assert.Equal(t, "start", names())
}

// TestExtensionRedacts: what a handler makes of a result is what everybody sees: the
// client, the session file and the model.
func TestExtensionRedacts(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("secret", "key sk-abcdefgh12345678 here")
	d := p.start("-e", gallery(t, "redact"))
	p.llm.plays(tool("c1", "read", `{"path":"secret"}`), text("done"))
	d.prompt("read it")
	assert.NotContains(t, strings.Join(d.output(), "\n"), "abcdefgh12345678")
	assert.Contains(t, strings.Join(d.output(), "\n"), "sk-…")
	assert.NotContains(t, string(p.llm.request(p.llm.count()-1).body), "abcdefgh12345678")
}

// TestExtensionsVeto: extensions may keep a session where it is, and hear of its end.
func TestExtensionsVeto(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("veto.js", `module.exports = (pi) => {
		pi.on("session_before_switch", async (ev, ctx) => ({ cancel: !(await ctx.ui.confirm("Leave?", ev.reason)) }));
		pi.on("session_shutdown", (ev, ctx) => { require("fs").writeFileSync("ended", ev.reason); });
	}`)
	d := p.start("-e", "./veto.js")
	d.ok(`{"type":"get_commands"}`)
	id := d.ok(`{"type":"get_state"}`).Get("sessionId").Str
	for _, yes := range []string{"false", "true"} {
		d.send(`{"id":"new-` + yes + `","type":"new_session"}`)
		d.dialog(d.ui("confirm"), `"confirmed":`+yes)
		v, _ := d.wait(0, "new_session", func(v gjson.Result) bool { return v.Get("id").Str == "new-"+yes })
		assert.Equal(t, yes == "false", v.Get("data.cancelled").Bool(), v.Raw)
		assert.Equal(t, yes == "false", d.ok(`{"type":"get_state"}`).Get("sessionId").Str == id)
	}
	require.Zero(t, d.end())
	assert.FileExists(t, filepath.Join(p.work, "ended"))
}

// TestExtensionsThatBreak: no error of an extension ends the daemon or holds it up.
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
			p := newPlace(t)
			p.write("bad.ts", source)
			d := p.start("-e", "./bad.ts", "-e", gallery(t, "hello-tool"))
			assert.Contains(t, d.ok(`{"type":"get_tools"}`).Raw, `"hello"`)
			p.llm.plays(text("still here"))
			d.prompt("there?")
			d.wait(0, "extension_error", func(v gjson.Result) bool { return v.Get("type").Str == "extension_error" })
			require.Zero(t, d.end())
		})
	}
}

// TestHostIsKilled: where the process of the extensions ends, sessions go on, what
// waited for it is answered, and it is there again.
func TestHostIsKilled(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("suicide.ts", `export default (pi) => {
		pi.registerTool({ name: "die", label: "d", description: "d", parameters: { type: "object", properties: {} },
			execute: async () => { process.kill(process.pid, "SIGKILL"); await new Promise(() => {}); } });
		pi.on("tool_call", () => {});
	}`)
	d := p.start("-e", "./suicide.ts")
	d.ok(`{"type":"get_commands"}`)
	p.llm.plays(tool("c1", "die", `{}`), text("oh"), tool("c2", "bash", `{"command":"echo back"}`), text("good"))
	events := d.prompt("die")
	assert.NotEmpty(t, texts(events, "tool_execution_end"))
	require.Eventually(t, func() bool { return strings.Contains(d.ok(`{"type":"get_tools"}`).Raw, `"die"`) }, patience, 50*time.Millisecond)
	require.Zero(t, d.end())
}

// TestExtensionsAreNamed: what was configured and is not there is named once on
// stderr.
func TestExtensionsAreNamed(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(filepath.Join(p.agent(), "settings.json"), `{"packages":["npm:none","./pack"],"extensions":["gone.ts"]}`)
	p.write(filepath.Join(p.agent(), "pack/prompts/ask.md"), "Ask")
	d := p.start("--tools", "read,nope")
	commands := d.ok(`{"type":"get_commands"}`).Get("commands")
	assert.Equal(t, "ask", commands.Get("0.name").Str)
	assert.JSONEq(t, `{"path":"`+p.agent()+`/pack/prompts/ask.md","source":"./pack","scope":"user","origin":"package","baseDir":"`+p.agent()+`/pack"}`, commands.Get("0.sourceInfo").Raw)
	require.Zero(t, d.end())
	for _, line := range []string{
		"Package not installed: npm:none (pi install npm:none)",
		"Extension path does not exist: " + p.agent() + "/gone.ts",
		"--tools: unknown tool nope",
	} {
		assert.Equal(t, 1, strings.Count(d.errors(), line), "%s\n%s", line, d.errors())
	}
}

// TestUnknownOptions: a long option that nobody knows is an error, unless there is an
// extension that might have it; one that none has claimed is named.
func TestUnknownOptions(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	state := `{"id":"1","type":"get_commands"}` + "\n"
	_, errs, code := p.once(state, "--mode", "rpc", "--preset", "fast")
	assert.Equal(t, 2, code)
	assert.Equal(t, "troupe: unknown option --preset (try troupe --help)\n", errs)
	_, _, code = p.once(state, "--mode", "rpc", "-x")
	assert.Equal(t, 2, code)

	p.write(filepath.Join(p.home, "preset.ts"), `export default (pi) => pi.registerFlag("plan", { type: "boolean" })`)
	for args, named := range map[string]bool{"--preset fast": true, "--preset=fast": true, "--plan": false} {
		out, errs, code := p.once(state, append([]string{"--mode", "rpc", "--no-session", "-e", "~/preset.ts"}, strings.Fields(args)...)...)
		assert.Zero(t, code, errs)
		assert.Contains(t, out, `"success":true`)
		assert.Equal(t, named, strings.Contains(errs, "unknown option --preset: no extension has it"), errs)
	}
	_, errs, code = p.once(state, "--mode", "rpc", "-e", "~/preset.ts", "-x")
	assert.Equal(t, 2, code, errs)
	p.write(filepath.Join(p.home, "bad.ts"), `x`)
	_, errs, code = p.once(state, "--mode", "rpc", "-e", "~/bad.ts", "--extension-errors", "fatal")
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, p.home+"/bad.ts")
	_, errs, code = p.once(state, "--mode", "rpc", "-e", "npm:none", "--extension-errors", "fatal")
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, "Package not installed: npm:none (pi install npm:none)")
	_, _, code = p.once(state, "--mode", "rpc", "--no-session", "--extension-errors", "fatal")
	assert.Zero(t, code, "nothing is wrong where there is no extension")
}

// stop ends the process in which the extensions of a daemon run, as a lack of memory
// would.
func (d *daemon) stopHost() {
	d.t.Helper()
	host := 0
	require.Eventually(d.t, func() bool {
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", d.cmd.Process.Pid))
		for _, list := range lists {
			children, _ := os.ReadFile(list)
			for _, pid := range strings.Fields(string(children)) {
				if line, _ := os.ReadFile("/proc/" + pid + "/cmdline"); strings.Contains(string(line), "ext-host") {
					host, _ = strconv.Atoi(pid)
				}
			}
		}
		return host != 0
	}, patience, 5*time.Millisecond)
	require.NoError(d.t, syscall.Kill(host, syscall.SIGKILL))
}

// TestGateInReload: a message that comes while the extensions are read again waits
// for them, as does one behind a new session.
func TestGateInReload(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"reload_resources", "new_session"} {
		p := newPlace(t)
		p.write("victim", "x")
		d := p.start("-e", gallery(t, "permission-gate"))
		d.ok(`{"type":"get_commands"}`)
		p.llm.plays(tool("c1", "bash", `{"command":"rm -f victim"}`), text("no"))
		d.send(`{"type":"` + before + `"}`)
		d.send(`{"type":"prompt","message":"clean up"}`)
		d.dialog(d.ui("confirm"), `"confirmed":false`)
		d.event("agent_settled")
		assert.FileExists(t, filepath.Join(p.work, "victim"), before)
		require.Zero(t, d.end())
	}
}

// TestGateIsKilled: an answer to what a gate asked before its process ended is none to
// what the next one asks, and a message waits for one that ends while it is loaded.
func TestGateIsKilled(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("victim", "x")
	p.write("mark.js", `module.exports = (pi) => pi.on("session_start", (ev) => require("fs").writeFileSync("started-" + ev.reason, ""))`)
	d := p.start("-e", gallery(t, "permission-gate"), "-e", "./mark.js")
	d.ok(`{"type":"get_commands"}`)
	remove := tool("c1", "bash", `{"command":"rm -f victim"}`)
	p.llm.plays(remove, text("no"), remove, text("no"))
	d.ok(`{"type":"prompt","message":"clean up"}`)
	old := d.ui("confirm")
	d.stopHost()
	d.event("agent_settled")
	require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(p.work, "started-reload")); return err == nil }, patience, 5*time.Millisecond)
	d.ok(`{"type":"prompt","message":"clean up"}`)
	next := d.ui("confirm")
	d.dialog(old, `"confirmed":true`)
	d.ok(`{"type":"get_state"}`)
	d.dialog(next, `"confirmed":false`)
	d.event("agent_settled")
	assert.FileExists(t, filepath.Join(p.work, "victim"), "an answer of an earlier life")
	require.Zero(t, d.end())

	p.write("gate.js", `module.exports = async (pi) => { pi.on("tool_call", () => ({ block: true })); if (!require("fs").existsSync("once")) { require("fs").writeFileSync("once", ""); await new Promise(() => {}); } }`)
	p.llm.plays(remove, text("no"))
	d = p.start("-e", "./gate.js")
	d.send(`{"type":"prompt","message":"clean up"}`)
	require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(p.work, "once")); return err == nil }, patience, 5*time.Millisecond)
	d.stopHost()
	d.event("agent_settled")
	assert.FileExists(t, filepath.Join(p.work, "victim"))
	require.Zero(t, d.end(), "the end does not wait for who is gone")
}

// TestGateOfAnotherSession: what could not be loaded, and what does not load again,
// refuses in the session that follows, too.
func TestGateOfAnotherSession(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]string{
		"at first": `module.exports = (pi) => { pi.on("tool_call", () => {}); throw new Error("broken") }`,
		"then":     `let n = 0; module.exports = (pi) => { if (n++) throw new Error("broken"); pi.on("tool_call", () => {}) }`,
	} {
		p := newPlace(t)
		p.write("gate.js", source)
		p.write("victim", "x")
		d := p.start("-e", "./gate.js")
		d.ok(`{"type":"get_commands"}`)
		d.ok(`{"type":"new_session"}`)
		p.llm.plays(tool("c1", "bash", `{"command":"rm -f victim"}`), text("no"))
		d.prompt("clean up")
		assert.FileExists(t, filepath.Join(p.work, "victim"), name)
		require.Zero(t, d.end())
	}
}

// TestExtensionsOfAnotherDirectory: a session of another directory has that one's
// extensions, gates too, and not those of the one that was left.
func TestExtensionsOfAnotherDirectory(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	other := filepath.Join(p.root, "other")
	p.write(filepath.Join(other, ".pi/extensions/gate.js"), `module.exports = (pi) => pi.on("tool_call", () => ({ block: true, reason: "not in here" }))`)
	p.write(filepath.Join(p.work, ".pi/extensions/here.js"), `module.exports = (pi) => pi.registerCommand("here", { handler: async () => {} })`)
	p.write("kept", "x")
	p.llm.plays(text("hello"), tool("c1", "read", `{"path":"kept"}`), text("no"))
	there := p.start("--approve", "--cwd", other)
	there.prompt("hello")
	file := there.ok(`{"type":"get_state"}`).Get("sessionFile").Str
	require.Zero(t, there.end())

	d := p.start("--approve")
	assert.Contains(t, d.ok(`{"type":"get_commands"}`).Raw, `"name":"here"`)
	d.ok(`{"type":"switch_session","sessionPath":"` + file + `"}`)
	assert.NotContains(t, d.ok(`{"type":"get_commands"}`).Raw, `"name":"here"`)
	assert.Equal(t, "not in here", texts(d.prompt("read it"), "tool_execution_end"))
	require.Zero(t, d.end())
}

// TestExtensionsAtTheEnd: an end of input while an extension is about to ask, or gives
// commands, comes.
func TestExtensionsAtTheEnd(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("late.js", `module.exports = (pi) => {
		pi.on("agent_end", async (ev, ctx) => { await new Promise((done) => setTimeout(done, 100)); await ctx.ui.select("Next?", ["a"]); });
		pi.on("session_shutdown", async (ev, ctx) => { if (ev.reason !== "quit") return; pi.setActiveTools([]); pi.sendUserMessage("more"); await ctx.ui.confirm("Really?", ""); });
		pi.registerCommand("again", { handler: (args, ctx) => ctx.reload() });
	}`)
	d := p.start("-e", "./late.js")
	d.ok(`{"type":"prompt","message":"/again"}`)
	d.event("session_changed")
	p.llm.plays(text("done"))
	d.ok(`{"type":"prompt","message":"hi"}`)
	d.event("turn_end")
	require.Zero(t, d.end())
	assert.NotContains(t, d.errors(), "panic")
	assert.NotContains(t, d.errors(), "second answer")
	assert.NotContains(t, d.errors(), "command:again")
}

// TestWorkWaitsForHandlers: what a handler does about an event is done before the work
// behind the event begins, as in pi.
func TestWorkWaitsForHandlers(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("stash.js", `module.exports = (pi) => pi.on("turn_start", async (ev) => {
		await new Promise((done) => setTimeout(done, 500));
		require("fs").writeFileSync("stashed", "turn " + ev.turnIndex);
	})`)
	d := p.start("-e", "./stash.js")
	p.llm.plays(tool("c1", "bash", `{"command":"cat stashed"}`), text("done"))
	assert.Equal(t, "turn 0", texts(d.prompt("look"), "tool_execution_end"))
	require.Zero(t, d.end())
}

// TestAbortWhileExtensionsLoad: a message that waits for extensions is stopped by the
// abort behind it, and seen by what is asked behind it.
func TestAbortWhileExtensionsLoad(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("slow.js", `module.exports = async (pi) => {
		const fs = require("fs");
		while (!fs.existsSync("go")) await new Promise((done) => setTimeout(done, 5));
	}`)
	d := p.start("-e", "./slow.js")
	p.llm.plays(text("never").and(gate("never")))
	d.send(`{"id":"prompt","type":"prompt","message":"go"}`)
	d.send(`{"id":"abort","type":"abort"}`)
	d.send(`{"id":"state","type":"get_state"}`)
	p.write("go", "")
	assert.True(t, d.answer("prompt").Get("success").Bool())
	assert.True(t, d.event("agent_settled").Get("aborted").Bool())
	assert.True(t, d.answer("abort").Get("success").Bool())
	assert.False(t, d.answer("state").Get("data.isStreaming").Bool())
	require.Zero(t, d.end())
}

// TestExtensionsOfChildren: the agents of tasks have the extensions of who starts them: gates see their calls, where
// they work, and tools are theirs unless their file names others.
func TestExtensionsOfChildren(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(filepath.Join(p.agent(), "settings.json"), `{"task":{"isolation":{"enabled":true}}}`)
	p.write(filepath.Join(p.agent(), "agents", "finder.md"), "---\ndescription: Finds.\ntools: read, look_up, nothing_has_it\n---\nFind.\n")
	p.write("victim", "x")
	own := p.extension("own", `export default (pi) => {
		pi.registerTool({ name: "look_up", description: "Looks up.", parameters: { type: "object", properties: {} },
			execute: async (id, params, signal, update, ctx) => ({ content: [{ type: "text", text: "found in " + ctx.cwd }] }) });
		pi.on("tool_call", (event) => event.toolName === "bash" && event.input.command.includes("rm") ? { block: true, reason: "not in this house" } : undefined);
	}`)
	item := func(id, agent, isolated string) string {
		return `{"agent":"` + agent + `","isolated":` + isolated + `,"tasks":[{"id":"` + id + `","description":"d","assignment":"CHILD` + id + ` do it"}]}`
	}
	p.llm.plays(tool("c1", "task", item("A", "task", "false")).and(tool("c2", "task", item("B", "task", "true"))).and(tool("c3", "task", item("C", "finder", "false"))).and(tool("c4", "task", item("D", "explore", "false"))), text("thanks"))
	for _, id := range []string{"A", "B"} {
		p.llm.playsTo("CHILD"+id, tool("w"+id, "bash", `{"command":"rm victim"}`))
	}
	for _, id := range []string{"A", "B", "C"} {
		p.llm.playsTo("CHILD"+id, tool("l"+id, "look_up", `{}`))
	}
	for _, id := range []string{"A", "B", "C", "D"} {
		p.llm.playsTo("CHILD"+id, text("this is "+id))
	}
	d := p.start("-e", own)
	d.prompt("go")
	require.Zero(t, d.end())
	assert.FileExists(t, filepath.Join(p.work, "victim"))
	assert.Contains(t, d.errors(), "finder.md: unknown tools: nothing_has_it")
	offered, blocked, found := map[string]string{}, map[string]bool{}, map[string]string{}
	for n := range p.llm.count() {
		body := p.llm.request(n).body
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
	assert.Equal(t, p.work, found["A"])
	assert.NotEqual(t, p.work, found["B"])
	assert.NotEmpty(t, found["B"])
	assert.Equal(t, p.work, found["C"])
}
