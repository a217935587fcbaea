package extensions

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/harness"
)

// TestSessionStartIsAwaited checks that no run starts before the handlers of session_start have
// finished, even if they wait for a dialog.
func TestSessionStartIsAwaited(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	d := p.Start("-e", p.WriteExtension("start", `export default (pi) => pi.on("session_start", async (_, ctx) => pi.appendEntry("said", await ctx.ui.input("Who?")))`))
	p.Model.Enqueue(harness.Text("Hello."))
	d.OK(`{"type":"prompt","message":"hello"}`)
	asked := d.UIRequest("input")
	d.OK(`{"type":"abort"}`)
	d.Event("agent_settled")
	d.OK(`{"type":"prompt","message":"again"}`)
	require.Zero(t, p.Model.RequestCount(), "the model was asked before the dialog was answered")
	d.Send(`{"type":"extension_ui_response","id":"` + asked.Get("id").Str + `","value":"Ann"}`)
	d.Event("agent_settled")
	_, entries := d.SessionFile()
	var order []string
	for _, e := range entries {
		if kind := e.Get("type").Str; kind == "custom" || e.Get("message.role").Str == "assistant" {
			order = append(order, kind+" "+e.Get("message.stopReason").Str+e.Get("data").Str)
		}
	}
	require.Equal(t, []string{"message aborted", "custom Ann", "message stop"}, order)
	require.Zero(t, d.Close())
}

// TestFirstCommandIsTold checks that extensions receive the event of the first command, because it
// waits until they are loaded.
func TestFirstCommandIsTold(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	d := p.Start("-e", p.WriteExtension("told", `export default (pi) => pi.on("session_info_changed", (event, ctx) => ctx.ui.notify("named " + event.name))`))
	d.OK(`{"type":"set_session_name","name":"first"}`)
	require.Equal(t, "named first", d.UIRequest("notify").Get("message").Str)
	require.Zero(t, d.Close())
}

// TestExtensionLastWords checks that messages sent in session_shutdown reach the client, from
// synchronous and asynchronous handlers.
func TestExtensionLastWords(t *testing.T) {
	t.Parallel()
	for range 3 { // messages and shutdown must not race
		p := harness.NewPlace(t)
		d := p.Start("-e", p.WriteExtension("words", `export default (pi) => {
			pi.on("session_shutdown", (e, ctx) => { ctx.ui.setStatus("a", "b"); ctx.ui.setStatus("a", undefined) });
			pi.on("session_shutdown", async (e, ctx) => { await pi.exec("true", []); ctx.ui.notify("bye") });
		}`))
		d.OK(`{"type":"get_commands"}`)
		require.Zero(t, d.Close())
		assert.Equal(t, "b", d.UIRequest("setStatus").Get("statusText").Str)
		last := d.UIRequest("setStatus")
		assert.False(t, last.Get("statusText").Exists(), last.Raw)
		assert.Equal(t, "bye", d.UIRequest("notify").Get("message").Str)
	}
}

// TestExtensionShutdown checks that ctx.shutdown ends the program although stdin is open. A running
// prompt finishes first.
func TestExtensionShutdown(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	quit := p.WriteExtension("quit", `export default (pi) => {
		pi.registerCommand("quit", { handler: async (args, ctx) => ctx.shutdown() });
		pi.registerTool({ name: "finish", label: "Finish", description: "Ends", parameters: { type: "object", properties: {} },
			async execute(id, params, signal, onUpdate, ctx) { ctx.shutdown(); return { content: [{ type: "text", text: "ending" }] } } });
		pi.on("session_shutdown", (e, ctx) => ctx.ui.notify("closing"));
	}`)
	d := p.Start("-e", quit)
	d.OK(`{"type":"get_commands"}`)
	d.OK(`{"type":"prompt","message":"/quit"}`)
	assert.Zero(t, d.WaitExit())
	assert.Equal(t, "closing", d.UIRequest("notify").Get("message").Str)

	p.Model.Enqueue(harness.ToolCall("c1", "finish", `{}`), harness.Text("the last word"))
	d = p.Start("-e", quit)
	d.OK(`{"type":"get_commands"}`)
	d.OK(`{"type":"prompt","message":"go"}`)
	assert.Zero(t, d.WaitExit())
	assert.Contains(t, d.Event("agent_end").Raw, "the last word")

	d = p.Start("-e", quit, "--multi-session") // other sessions stay open
	one, other := d.OK(`{"type":"open_session"}`).Get("sessionId").Str, d.OK(`{"type":"open_session"}`).Get("sessionId").Str
	d.OK(`{"type":"get_commands","sessionId":"` + one + `"}`)
	d.OK(`{"type":"prompt","message":"/quit","sessionId":"` + one + `"}`)
	d.UIRequest("notify")
	require.Eventually(t, func() bool { return len(d.OK(`{"type":"list_open_sessions"}`).Get("sessions").Array()) == 1 }, harness.Patience, time.Millisecond)
	d.OK(`{"type":"get_state","sessionId":"` + other + `"}`)
	assert.Zero(t, d.Close())
}

// TestExtensionStartsAgent checks that an extension can start another agent, through
// process.execPath or as pi, without standard input.
func TestExtensionStartsAgent(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.Env = append(p.Env, "PATH=/usr/bin:/bin")
	p.Model.Enqueue(harness.Text("from below"), harness.Text("from below"))
	d := p.Start("-e", p.WriteExtension("starts", `
		import { spawn } from "node:child_process";
		import { existsSync } from "node:fs";
		export default (pi) => {
			pi.registerCommand("start", { handler: async (args, ctx) => {
				const script = process.argv[1];
				const [command, more] = args ? [args, []] : [process.execPath, existsSync(script) ? [script] : []];
				const child = spawn(command, [...more, "-p", "--no-session", "--provider", "mock", "--model", "mock-1", "say it"], { cwd: ctx.cwd, stdio: ["ignore", "pipe", "pipe"] });
				let out = "";
				child.stdout.on("data", (b) => { out += b });
				child.stderr.on("data", (b) => { out += b });
				await new Promise((done) => child.on("close", done));
				ctx.ui.notify(out + child.exitCode);
			} });
		}`))
	for _, command := range []string{"/start", "/start pi"} {
		d.OK(`{"type":"prompt","message":"` + command + `"}`)
		assert.Equal(t, "from below\n0", d.UIRequest("notify").Get("message").Str)
	}
	require.Zero(t, d.Close())
}

// TestSessionStartSeesWhatIsRegistered checks that extensions see their own tools and commands in
// session_start, so that a choice among the active tools keeps those of extensions.
func TestSessionStartSeesWhatIsRegistered(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	tool := func(name, more string) string {
		return `pi.registerTool({ name: "` + name + `", label: "x", description: "x", parameters: { type: "object", properties: {} }, ` + more + ` execute: async () => ({ content: [] }) });`
	}
	d := p.Start("-e", p.WriteExtension("filter", `export default (pi) => {
		`+tool("tool_a", "")+tool("tool_b", "")+tool("tool_c", "defaultActive: false,")+`
		pi.registerCommand("greet", { handler: async () => {} });
		pi.on("session_start", (event, ctx) => {
			const seen = [event.reason, pi.getActiveTools().join(), pi.getAllTools().some((t) => t.name === "tool_c"), pi.getCommands().some((c) => c.name === "greet")];
			pi.setActiveTools(pi.getActiveTools().filter((n) => n !== "tool_b"));
			ctx.ui.notify(seen.join(" "));
		});
	}`))
	shown := func() string { return d.UIRequest("notify").Get("message").Str }
	d.OK(`{"type":"get_commands"}`)
	require.Equal(t, "startup read,bash,edit,write,tool_a,tool_b true true", shown())
	require.Equal(t, `["read","bash","edit","write","tool_a"]`, d.OK(`{"type":"get_tools"}`).Get("activeToolNames").Raw)
	d.OK(`{"type":"reload_resources"}`)
	require.Regexp(t, `^reload read,bash,edit,write,tool_a(,tool_b)? true true$`, shown())
	require.Equal(t, `["read","bash","edit","write","tool_a"]`, d.OK(`{"type":"get_tools"}`).Get("activeToolNames").Raw)
	require.Zero(t, d.Close())

	d = p.Start("-e", p.WriteExtension("filter", `export default (pi) => {
		`+tool("tool_a", "")+tool("tool_b", "")+`
		pi.on("session_start", (event, ctx) => ctx.ui.notify(pi.getActiveTools().join()));
	}`), "--tools", "read,tool_b")
	d.OK(`{"type":"get_tools"}`)
	require.Equal(t, "read,tool_b", shown(), "a list of tools holds for extensions, too")
	require.Zero(t, d.Close())
}

// TestReloadAtTheEndOfInput checks that a process whose last commands replace the session and its extensions
// answers them all, with the commands of the new extensions, and ends.
func TestReloadAtTheEndOfInput(t *testing.T) {
	t.Parallel()
	const reload, tools, other = `{"id":"reload","type":"reload_resources"}`, `{"id":"tools","type":"get_tools"}`, `{"id":"new","type":"new_session"}`
	for name, commands := range map[string][]string{
		"alone":               {reload},
		"after a new session": {`{"type":"get_commands"}`, other, reload},
		"before others":       {other, tools, reload, tools},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := harness.NewPlace(t)
			d := extended(p, `pi.registerTool({ name: "A", execute() {} }); pi.registerCommand("here", { handler() {} });
				pi.on("session_start", () => pi.setActiveTools(pi.getActiveTools()));`)
			for _, line := range commands {
				d.Send(line)
			}
			require.Zero(t, d.Close(), d.Stderr())
			answers := map[string]gjson.Result{}
			for _, line := range d.Lines() {
				if v := gjson.Parse(line); v.Get("type").Str == "response" {
					require.True(t, v.Get("success").Bool(), line)
					answers[v.Get("id").Str] = v.Get("data")
				}
			}
			assert.Equal(t, "here", answers["reload"].Get("commands.0.name").Str)
			if slices.Contains(commands, tools) {
				assert.Equal(t, `["read","bash","edit","write","A"]`, answers["tools"].Get("activeToolNames").Raw)
			}
		})
	}
}

// TestSessionStartThatDoesNotEnd checks that commands are answered while a handler of session_start runs on, and that
// work waits for it.
func TestSessionStartThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	d := extended(p, `pi.on("session_start", () => new Promise(() => setInterval(() => {}, 1000))); pi.registerCommand("here", { handler() {} });`)
	d.OK(`{"type":"get_state"}`)
	assert.Equal(t, "here", d.OK(`{"type":"get_commands"}`).Get("commands.0.name").Str)
	d.OK(`{"type":"prompt","message":"go"}`)
	d.Event("message_end")
	require.Zero(t, p.Model.RequestCount())
	d.OK(`{"type":"abort"}`)
	d.Event("agent_settled")
}
