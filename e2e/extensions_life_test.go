package e2e

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// extension writes one of the test's own, and gives its path.
func (p *place) extension(name, source string) string {
	path := filepath.Join(p.home, name+".ts")
	p.write(path, source)
	return path
}

// TestSessionStartIsAwaited: no run begins before the handlers of session_start are through, however
// long somebody thinks about what they ask.
func TestSessionStartIsAwaited(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	d := p.start("-e", p.extension("start", `export default (pi) => pi.on("session_start", async (_, ctx) => pi.appendEntry("said", await ctx.ui.input("Who?")))`))
	p.llm.plays(text("Hello."))
	d.ok(`{"type":"prompt","message":"hello"}`)
	asked := d.ui("input")
	d.ok(`{"type":"abort"}`)
	d.event("agent_settled")
	d.ok(`{"type":"prompt","message":"again"}`)
	require.Zero(t, p.llm.count(), "the model was asked before the dialog was answered")
	d.send(`{"type":"extension_ui_response","id":"` + asked.Get("id").Str + `","value":"Ann"}`)
	d.event("agent_settled")
	_, entries := d.sessionFile()
	var order []string
	for _, e := range entries {
		if kind := e.Get("type").Str; kind == "custom" || e.Get("message.role").Str == "assistant" {
			order = append(order, kind+" "+e.Get("message.stopReason").Str+e.Get("data").Str)
		}
	}
	require.Equal(t, []string{"message aborted", "custom Ann", "message stop"}, order)
	require.Zero(t, d.end())
}

// TestFirstCommandIsTold: what the first commands do is told, for they wait until extensions are there.
func TestFirstCommandIsTold(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	d := p.start("-e", p.extension("told", `export default (pi) => pi.on("session_info_changed", (event, ctx) => ctx.ui.notify("named " + event.name))`))
	d.ok(`{"type":"set_session_name","name":"first"}`)
	require.Equal(t, "named first", d.ui("notify").Get("message").Str)
	require.Zero(t, d.end())
}

// TestExtensionLastWords: what extensions say about the end is heard, whether they
// wait for something or not.
func TestExtensionLastWords(t *testing.T) {
	t.Parallel()
	for range 3 { // their end and their words must not race
		p := newPlace(t)
		d := p.start("-e", p.extension("words", `export default (pi) => {
			pi.on("session_shutdown", (e, ctx) => { ctx.ui.setStatus("a", "b"); ctx.ui.setStatus("a", undefined) });
			pi.on("session_shutdown", async (e, ctx) => { await pi.exec("true", []); ctx.ui.notify("bye") });
		}`))
		d.ok(`{"type":"get_commands"}`)
		require.Zero(t, d.end())
		assert.Equal(t, "b", d.ui("setStatus").Get("statusText").Str)
		last := d.ui("setStatus")
		assert.False(t, last.Get("statusText").Exists(), last.Raw)
		assert.Equal(t, "bye", d.ui("notify").Get("message").Str)
	}
}

// TestExtensionShutdown: ctx.shutdown ends the program, though its input is open;
// a run that goes on is finished first.
func TestExtensionShutdown(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	quit := p.extension("quit", `export default (pi) => {
		pi.registerCommand("quit", { handler: async (args, ctx) => ctx.shutdown() });
		pi.registerTool({ name: "finish", label: "Finish", description: "Ends", parameters: { type: "object", properties: {} },
			async execute(id, params, signal, onUpdate, ctx) { ctx.shutdown(); return { content: [{ type: "text", text: "ending" }] } } });
		pi.on("session_shutdown", (e, ctx) => ctx.ui.notify("closing"));
	}`)
	d := p.start("-e", quit)
	d.ok(`{"type":"get_commands"}`)
	d.ok(`{"type":"prompt","message":"/quit"}`)
	assert.Zero(t, d.exit())
	assert.Equal(t, "closing", d.ui("notify").Get("message").Str)

	p.llm.plays(tool("c1", "finish", `{}`), text("the last word"))
	d = p.start("-e", quit)
	d.ok(`{"type":"get_commands"}`)
	d.ok(`{"type":"prompt","message":"go"}`)
	assert.Zero(t, d.exit())
	assert.Contains(t, d.event("agent_end").Raw, "the last word")

	d = p.start("-e", quit, "--multi-session") // others stay
	one, other := d.ok(`{"type":"open_session"}`).Get("sessionId").Str, d.ok(`{"type":"open_session"}`).Get("sessionId").Str
	d.ok(`{"type":"get_commands","sessionId":"` + one + `"}`)
	d.ok(`{"type":"prompt","message":"/quit","sessionId":"` + one + `"}`)
	d.ui("notify")
	require.Eventually(t, func() bool { return len(d.ok(`{"type":"list_open_sessions"}`).Get("sessions").Array()) == 1 }, patience, time.Millisecond)
	d.ok(`{"type":"get_state","sessionId":"` + other + `"}`)
	assert.Zero(t, d.end())
}

// TestExtensionStartsAgent: an extension starts the agent that it runs in, by the
// path of the running program or as pi, with nothing on its standard input.
func TestExtensionStartsAgent(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.env = append(p.env, "PATH=/usr/bin:/bin")
	p.llm.plays(text("from below"), text("from below"))
	d := p.start("-e", p.extension("starts", `
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
		d.ok(`{"type":"prompt","message":"` + command + `"}`)
		assert.Equal(t, "from below\n0", d.ui("notify").Get("message").Str)
	}
	require.Zero(t, d.end())
}
