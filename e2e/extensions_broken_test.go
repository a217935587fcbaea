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

// failures are the errors of extensions in events, as "event: message".
func failures(events []gjson.Result) (list []string) {
	for _, e := range events {
		if e.Get("type").Str == "extension_error" {
			list = append(list, e.Get("event").Str+": "+e.Get("error").Str)
		}
	}
	return list
}

// TestExtensionsSayNonsense: an answer that cannot be read is named to the client, once,
// and changes nothing; a header that cannot be sent is not tried again and again.
func TestExtensionsSayNonsense(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.llm.plays(text("fine"))
	d := p.start("-e", p.extension("nonsense", `export default (pi) => {
		pi.on("context", (e) => ({ messages: [...e.messages, null] }));
		pi.on("before_provider_headers", (e) => { e.headers["x-count"] = 5 });
		pi.on("before_provider_request", (e) => ({ size: 10n }));
		pi.registerCommand("boom", { handler: () => { throw new Error("it broke") } });
	}`))
	events := d.prompt("hi")
	failed := strings.Join(failures(events), "\n")
	assert.Regexp(t, `^context: .*\nbefore_provider_headers: .*\nbefore_provider_request: .*$`, failed)
	assert.Equal(t, "completed", events[len(events)-1].Get("outcome").Str)
	d.ok(`{"type":"prompt","message":"/boom"}`)
	assert.Equal(t, "it broke", d.event("extension_error").Get("error").Str)
	require.Zero(t, d.end())
	assert.Equal(t, 4, strings.Count(strings.Join(d.output(), "\n"), `"type":"extension_error"`), "each is said once")

	asked := p.llm.count()
	d = p.start("-e", p.extension("header", `export default (pi) => { pi.on("before_provider_headers", (e) => { e.headers["not a name"] = "x" }) }`))
	events = d.prompt("hi")
	assert.Equal(t, "failed", events[len(events)-1].Get("outcome").Str)
	assert.Contains(t, strings.Join(d.output(), "\n"), `has a name that no header can have: \"not a name\"`)
	assert.NotContains(t, strings.Join(d.output(), "\n"), "auto_retry_start")
	assert.Equal(t, asked, p.llm.count())
	require.Zero(t, d.end())
}

// TestLateAnswerToADialog: a yes that comes after a reload is none to what is asked then.
func TestLateAnswerToADialog(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	d := p.start("-e", p.extension("asks", `export default (pi) => {
		pi.registerCommand("ask", { handler: async (args, ctx) => ctx.ui.notify("said " + await ctx.ui.confirm("Sure?", args)) });
		pi.registerCommand("reload", { handler: async (args, ctx) => { await ctx.reload(); ctx.ui.notify("behind it") } });
	}`))
	d.ok(`{"type":"get_commands"}`)
	d.ok(`{"type":"prompt","message":"/reload"}`)
	d.event("session_changed")
	d.ok(`{"type":"prompt","message":"/ask before"}`)
	stale := d.ui("confirm")
	assert.Equal(t, "ask", d.ok(`{"type":"reload_resources"}`).Get("commands.0.name").Str, "they are loaded again")
	d.ok(`{"type":"prompt","message":"/ask after"}`)
	fresh := d.ui("confirm")
	require.Equal(t, "after", fresh.Get("message").Str)
	d.dialog(stale, `"confirmed":true`)
	d.dialog(fresh, `"confirmed":false`)
	assert.Equal(t, "said false", d.ui("notify").Get("message").Str)
	require.Zero(t, d.end())
	assert.NotContains(t, strings.Join(d.output(), "\n"), "extension_error")
}

// TestGateThatIsGone: an extension that was named and is not there is an error of loading
// like any other: what it guarded when it was last there is refused.
func TestGateThatIsGone(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	gate := p.extension("gate", `export default (pi) => pi.on("tool_call", () => ({ block: true, reason: "never" }))`)
	call := tool("c1", "bash", `{"command":"echo ran"}`)
	p.llm.plays(call, text("no"), call, text("no"), call, text("yes"))
	d := p.start("-e", gate)
	assert.Equal(t, "never", texts(d.prompt("run it"), "tool_execution_end"))
	require.Zero(t, d.end())

	require.NoError(t, os.Remove(gate))
	d = p.start("-e", gate)
	events := d.prompt("run it")
	assert.Contains(t, texts(events, "tool_execution_end"), "Tool calls are refused: the extension "+gate)
	assert.Contains(t, strings.Join(d.output(), "\n"), `"event":"load","error":"Extension path does not exist: `+gate)
	require.Zero(t, d.end())

	other := filepath.Join(p.home, "never-there.ts")
	d = p.start("-e", other)
	assert.Equal(t, "ran", strings.TrimSpace(texts(d.prompt("run it"), "tool_execution_end")))
	assert.Equal(t, 1, strings.Count(d.errors(), "Extension path does not exist: "+other))
	require.Zero(t, d.end())
}

// TestEventsOfOlderSessions: what pi up to 0.64 told when another session took the place
// of one comes behind session_start.
func TestEventsOfOlderSessions(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	d := p.start("-e", p.extension("old", `export default (pi) => {
		const cwd = pi.cwd;
		for (const name of ["session_start", "session_switch", "session_branch"]) pi.on(name, (e, ctx) => ctx.ui.notify(name + " " + (e.reason ?? "") + (cwd === ctx.cwd)));
	}`))
	p.llm.plays(text("hello"))
	next := func() string { return d.ui("notify").Get("message").Str }
	d.ok(`{"type":"get_commands"}`)
	assert.Equal(t, "session_start startuptrue", next())
	d.prompt("hi")
	entry := d.ok(`{"type":"get_fork_messages"}`).Get("messages.0.entryId").Str
	d.ok(`{"type":"fork","entryId":"` + entry + `"}`)
	assert.Equal(t, "session_start forktrue", next())
	assert.Equal(t, "session_branch true", next())
	d.ok(`{"type":"new_session"}`)
	assert.Equal(t, "session_start newtrue", next())
	assert.Equal(t, "session_switch newtrue", next())
	d.ok(`{"type":"reload_resources"}`)
	assert.Equal(t, "session_start reloadtrue", next())
	require.Zero(t, d.end())
	assert.NotContains(t, d.errors(), "never comes here")
}

// TestExtensionsOfAParkedSession: they go on, with what they remember.
func TestExtensionsOfAParkedSession(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	d := p.start("--park-after", "1ms", "-e", p.extension("counts", `export default (pi) => {
		let calls = 0;
		pi.registerCommand("count", { handler: (args, ctx) => { calls++; setTimeout(() => ctx.ui.notify("calls " + calls), 50); } });
	}`))
	for _, want := range []string{"calls 1", "calls 2"} {
		d.ok(`{"type":"prompt","message":"/count"}`)
		assert.Equal(t, want, d.ui("notify").Get("message").Str)
		eventually(t, "parking", func() bool {
			return d.ok(`{"type":"list_open_sessions"}`).Get("sessions.0.status").Str == "parked"
		})
	}
	require.Zero(t, d.end())
}

// TestProjectTrustedByExtension: an extension of the user decides, before the first
// command that needs to know, whether what a project brings counts.
func TestProjectTrustedByExtension(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(".pi/extensions/own.ts", `export default (pi) => {
		pi.registerCommand("own", { handler: (args, ctx) => ctx.ui.notify("trusted " + ctx.isProjectTrusted()) });
		pi.on("project_trust", () => { throw new Error("nobody asks the project") });
	}`)
	asks := p.extension("asks", `export default (pi) => {
		pi.on("project_trust", async (e, ctx) => ({ trusted: await ctx.ui.select("Trust " + e.cwd + "?", ["yes", "no", "undecided"]) }));
	}`)
	commands := func(d *daemon) string {
		var names []string
		for _, c := range d.ok(`{"type":"get_commands"}`).Get("commands").Array() {
			names = append(names, c.Get("name").Str)
		}
		return strings.Join(names, " ")
	}
	for _, says := range []string{"yes", "no", "undecided"} {
		d := p.start("-e", asks)
		assert.False(t, d.ok(`{"type":"get_state"}`).Get("project.trusted").Bool(), "who only looks does not wait")
		d.send(`{"id":"first","type":"get_commands"}`)
		question := d.ui("select")
		assert.Equal(t, "Trust "+p.work+"?", question.Get("title").Str)
		d.dialog(question, `"value":"`+says+`"`)
		d.answer("first")
		if says == "yes" {
			assert.Equal(t, "own", commands(d))
			d.ok(`{"type":"prompt","message":"/own"}`)
			assert.Equal(t, "trusted true", d.ui("notify").Get("message").Str)
			assert.NotContains(t, d.ok(`{"type":"get_state"}`).Raw, "leftOut")
			d.ok(`{"type":"reload_resources"}`)
			assert.Equal(t, "own", commands(d), "it is not asked again")
		} else {
			assert.Empty(t, commands(d))
		}
		require.Zero(t, d.end())
		assert.NotContains(t, d.errors(), "never comes here")
	}
	for _, flag := range []string{"--approve", "--no-approve"} {
		d := p.start("-e", asks, flag)
		assert.Equal(t, flag == "--approve", commands(d) == "own")
		require.Zero(t, d.end())
	}
}

// TestResultsThatCannotBeSent: a result that has no form as JSON is an error of its tool,
// and the run goes on.
func TestResultsThatCannotBeSent(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	d := p.start("-e", p.extension("odd", `export default (pi) => {
		const circle = {};
		circle.circle = circle;
		const tool = (name, execute) => pi.registerTool({ name, label: name, description: name, parameters: { type: "object", properties: {} }, execute });
		tool("circle", () => ({ content: [], details: circle }));
		tool("number", async () => ({ content: [], details: 10n }));
		tool("thrown", () => { throw Object.assign(new Error("it broke"), { details: circle }) });
	}`))
	for name, want := range map[string]string{"circle": "circular reference", "number": "", "thrown": "it broke"} {
		p.llm.plays(tool("c1", name, `{}`), text("fine"))
		end := find(d.prompt("call "+name), "tool_execution_end")
		assert.True(t, end.Get("isError").Bool(), end.Raw)
		assert.Contains(t, end.Get("result.content.0.text").Str, want)
	}
	require.Zero(t, d.end())
}

// TestLastWordsInTheSessionThatIsLeft: what an extension keeps when another session takes
// the place of its own is in the one that is left, told once.
func TestLastWordsInTheSessionThatIsLeft(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.llm.plays(text("hello"))
	d := p.start("-e", p.extension("keeps", `export default (pi) => {
		pi.on("session_shutdown", async (e, ctx) => { await pi.exec("true", []); pi.appendEntry("kept", { reason: e.reason, here: ctx.sessionManager.getSessionFile() }); });
		pi.on("agent_end", () => pi.appendEntry("ended", {}));
		pi.registerCommand("new", { handler: async (args, ctx) => { await ctx.newSession(); } });
	}`))
	d.prompt("hi")
	for _, reason := range []string{"new", "fork", "new"} {
		file := d.ok(`{"type":"get_state"}`).Get("sessionFile").Str
		switch reason {
		case "new":
			d.ok(`{"type":"prompt","message":"/new"}`)
			d.event("session_changed")
		case "fork":
			p.llm.plays(text("hello"))
			d.prompt("hi")
			file = d.ok(`{"type":"get_state"}`).Get("sessionFile").Str
			d.ok(`{"type":"fork","entryId":"` + d.ok(`{"type":"get_fork_messages"}`).Get("messages.0.entryId").Str + `"}`)
		}
		kept, err := os.ReadFile(file)
		if os.IsNotExist(err) { // nothing had been said in it
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, 1, strings.Count(string(kept), `"customType":"kept"`), "%s", kept)
		assert.Contains(t, string(kept), `"reason":"`+reason+`"`)
		assert.Contains(t, string(kept), `"here":"`+file+`"`)
		assert.Less(t, strings.Index(string(kept), `"ended"`), strings.Index(string(kept), `"kept"`))
	}
	require.Zero(t, d.end())
	assert.NotContains(t, strings.Join(d.output(), "\n"), "extension_error")
}
