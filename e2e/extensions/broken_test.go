package extensions

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

// failures lists the extension errors in events as "event: message".
func failures(events []gjson.Result) (list []string) {
	for _, e := range events {
		if e.Get("type").Str == "extension_error" {
			list = append(list, e.Get("event").Str+": "+e.Get("error").Str)
		}
	}
	return list
}

// TestExtensionsSayNonsense checks that an invalid handler result is reported to the client once
// and has no effect. A request with an invalid header is not retried.
func TestExtensionsSayNonsense(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.Model.Enqueue(harness.Text("fine"))
	d := p.Start("-e", p.WriteExtension("nonsense", `export default (pi) => {
		pi.on("context", (e) => ({ messages: [...e.messages, null] }));
		pi.on("before_provider_headers", (e) => { e.headers["x-count"] = 5 });
		pi.on("before_provider_request", (e) => ({ size: 10n }));
		pi.registerCommand("boom", { handler: () => { throw new Error("it broke") } });
	}`))
	events := d.Prompt("hi")
	failed := strings.Join(failures(events), "\n")
	assert.Regexp(t, `^context: .*\nbefore_provider_headers: .*\nbefore_provider_request: .*$`, failed)
	assert.Equal(t, "completed", events[len(events)-1].Get("outcome").Str)
	d.OK(`{"type":"prompt","message":"/boom"}`)
	assert.Equal(t, "it broke", d.Event("extension_error").Get("error").Str)
	require.Zero(t, d.Close())
	assert.Equal(t, 4, strings.Count(strings.Join(d.Lines(), "\n"), `"type":"extension_error"`), "each is said once")

	asked := p.Model.RequestCount()
	d = p.Start("-e", p.WriteExtension("header", `export default (pi) => { pi.on("before_provider_headers", (e) => { e.headers["not a name"] = "x" }) }`))
	events = d.Prompt("hi")
	assert.Equal(t, "failed", events[len(events)-1].Get("outcome").Str)
	assert.Contains(t, strings.Join(d.Lines(), "\n"), `has an invalid name: \"not a name\"`)
	assert.NotContains(t, strings.Join(d.Lines(), "\n"), "auto_retry_start")
	assert.Equal(t, asked, p.Model.RequestCount())
	require.Zero(t, d.Close())
}

// TestLateAnswerToADialog checks that the answer to a dialog from before a reload does not answer a
// dialog opened after it.
func TestLateAnswerToADialog(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	d := p.Start("-e", p.WriteExtension("asks", `export default (pi) => {
		pi.registerCommand("ask", { handler: async (args, ctx) => ctx.ui.notify("said " + await ctx.ui.confirm("Sure?", args)) });
		pi.registerCommand("reload", { handler: async (args, ctx) => { await ctx.reload(); ctx.ui.notify("behind it") } });
	}`))
	d.OK(`{"type":"get_commands"}`)
	d.OK(`{"type":"prompt","message":"/reload"}`)
	d.Event("session_changed")
	d.OK(`{"type":"prompt","message":"/ask before"}`)
	stale := d.UIRequest("confirm")
	assert.Equal(t, "ask", d.OK(`{"type":"reload_resources"}`).Get("commands.0.name").Str, "they are loaded again")
	d.OK(`{"type":"prompt","message":"/ask after"}`)
	fresh := d.UIRequest("confirm")
	require.Equal(t, "after", fresh.Get("message").Str)
	d.RespondUI(stale, `"confirmed":true`)
	d.RespondUI(fresh, `"confirmed":false`)
	assert.Equal(t, "said false", d.UIRequest("notify").Get("message").Str)
	require.Zero(t, d.Close())
	assert.NotContains(t, strings.Join(d.Lines(), "\n"), "extension_error")
}

// TestGateThatIsGone checks an extension file that no longer exists. This is a load error, and if
// the extension handled tool_call before, all tool calls are refused.
func TestGateThatIsGone(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	gate := p.WriteExtension("gate", `export default (pi) => pi.on("tool_call", () => ({ block: true, reason: "never" }))`)
	call := harness.ToolCall("c1", "bash", `{"command":"echo ran"}`)
	p.Model.Enqueue(call, harness.Text("no"), call, harness.Text("no"), call, harness.Text("yes"))
	d := p.Start("-e", gate)
	assert.Equal(t, "never", harness.ResultTexts(d.Prompt("run it"), "tool_execution_end"))
	require.Zero(t, d.Close())

	require.NoError(t, os.Remove(gate))
	d = p.Start("-e", gate)
	events := d.Prompt("run it")
	assert.Contains(t, harness.ResultTexts(events, "tool_execution_end"), "Tool calls are refused: the extension "+gate)
	assert.Contains(t, strings.Join(d.Lines(), "\n"), `"event":"load","error":"Extension path does not exist: `+gate)
	require.Zero(t, d.Close())

	other := filepath.Join(p.Home, "never-there.ts")
	d = p.Start("-e", other)
	assert.Equal(t, "ran", strings.TrimSpace(harness.ResultTexts(d.Prompt("run it"), "tool_execution_end")))
	assert.Equal(t, 1, strings.Count(d.Stderr(), "Extension path does not exist: "+other))
	require.Zero(t, d.Close())
}

// TestEventsOfOlderSessions checks that session_switch and session_branch, which pi up to 0.64
// emits, follow session_start.
func TestEventsOfOlderSessions(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	d := p.Start("-e", p.WriteExtension("old", `export default (pi) => {
		const cwd = pi.cwd;
		for (const name of ["session_start", "session_switch", "session_branch"]) pi.on(name, (e, ctx) => ctx.ui.notify(name + " " + (e.reason ?? "") + (cwd === ctx.cwd)));
	}`))
	p.Model.Enqueue(harness.Text("hello"))
	next := func() string { return d.UIRequest("notify").Get("message").Str }
	d.OK(`{"type":"get_commands"}`)
	assert.Equal(t, "session_start startuptrue", next())
	d.Prompt("hi")
	entry := d.OK(`{"type":"get_fork_messages"}`).Get("messages.0.entryId").Str
	d.OK(`{"type":"fork","entryId":"` + entry + `"}`)
	assert.Equal(t, "session_start forktrue", next())
	assert.Equal(t, "session_branch true", next())
	d.OK(`{"type":"new_session"}`)
	assert.Equal(t, "session_start newtrue", next())
	assert.Equal(t, "session_switch newtrue", next())
	d.OK(`{"type":"reload_resources"}`)
	assert.Equal(t, "session_start reloadtrue", next())
	require.Zero(t, d.Close())
	assert.NotContains(t, d.Stderr(), "never comes here")
}

// TestExtensionsOfAParkedSession checks that extensions of a parked session keep running and keep
// their state.
func TestExtensionsOfAParkedSession(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	d := p.Start("--park-after", "1ms", "-e", p.WriteExtension("counts", `export default (pi) => {
		let calls = 0;
		pi.registerCommand("count", { handler: (args, ctx) => { calls++; setTimeout(() => ctx.ui.notify("calls " + calls), 50); } });
	}`))
	for _, want := range []string{"calls 1", "calls 2"} {
		d.OK(`{"type":"prompt","message":"/count"}`)
		assert.Equal(t, want, d.UIRequest("notify").Get("message").Str)
		harness.Eventually(t, "parking", func() bool {
			return d.OK(`{"type":"list_open_sessions"}`).Get("sessions.0.status").Str == "parked"
		})
	}
	require.Zero(t, d.Close())
}

// TestProjectTrustedByExtension checks that a user extension can decide whether to trust the
// project, before the first command that depends on it.
func TestProjectTrustedByExtension(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile(".pi/extensions/own.ts", `export default (pi) => {
		pi.registerCommand("own", { handler: (args, ctx) => ctx.ui.notify("trusted " + ctx.isProjectTrusted()) });
		pi.on("project_trust", () => { throw new Error("nobody asks the project") });
	}`)
	asks := p.WriteExtension("asks", `export default (pi) => {
		pi.on("project_trust", async (e, ctx) => ({ trusted: await ctx.ui.select("Trust " + e.cwd + "?", ["yes", "no", "undecided"]) }));
	}`)
	commands := func(d *harness.Daemon) string {
		var names []string
		for _, c := range d.OK(`{"type":"get_commands"}`).Get("commands").Array() {
			names = append(names, c.Get("name").Str)
		}
		return strings.Join(names, " ")
	}
	for _, says := range []string{"yes", "no", "undecided"} {
		d := p.Start("-e", asks)
		assert.False(t, d.OK(`{"type":"get_state"}`).Get("project.trusted").Bool(), "who only looks does not wait")
		d.Send(`{"id":"first","type":"get_commands"}`)
		question := d.UIRequest("select")
		assert.Equal(t, "Trust "+p.Work+"?", question.Get("title").Str)
		d.RespondUI(question, `"value":"`+says+`"`)
		d.Response("first")
		if says == "yes" {
			assert.Equal(t, "own", commands(d))
			d.OK(`{"type":"prompt","message":"/own"}`)
			assert.Equal(t, "trusted true", d.UIRequest("notify").Get("message").Str)
			assert.NotContains(t, d.OK(`{"type":"get_state"}`).Raw, "leftOut")
			d.OK(`{"type":"reload_resources"}`)
			assert.Equal(t, "own", commands(d), "it is not asked again")
		} else {
			assert.Empty(t, commands(d))
		}
		require.Zero(t, d.Close())
		assert.NotContains(t, d.Stderr(), "never comes here")
	}
	for _, flag := range []string{"--approve", "--no-approve"} {
		d := p.Start("-e", asks, flag)
		assert.Equal(t, flag == "--approve", commands(d) == "own")
		require.Zero(t, d.Close())
	}
}

// TestResultsThatCannotBeSent checks that a result that cannot be encoded as JSON is an error of
// its tool, and that the run continues.
func TestResultsThatCannotBeSent(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	d := p.Start("-e", p.WriteExtension("odd", `export default (pi) => {
		const circle = {};
		circle.circle = circle;
		const tool = (name, execute) => pi.registerTool({ name, label: name, description: name, parameters: { type: "object", properties: {} }, execute });
		tool("circle", () => ({ content: [], details: circle }));
		tool("number", async () => ({ content: [], details: 10n }));
		tool("thrown", () => { throw Object.assign(new Error("it broke"), { details: circle }) });
	}`))
	for name, want := range map[string]string{"circle": "circular reference", "number": "", "thrown": "it broke"} {
		p.Model.Enqueue(harness.ToolCall("c1", name, `{}`), harness.Text("fine"))
		end := harness.FirstEvent(d.Prompt("call "+name), "tool_execution_end")
		assert.True(t, end.Get("isError").Bool(), end.Raw)
		assert.Contains(t, end.Get("result.content.0.text").Str, want)
	}
	require.Zero(t, d.Close())
}

// TestLastWordsInTheSessionThatIsLeft checks that an entry appended in session_shutdown is written
// to the old session, exactly once.
func TestLastWordsInTheSessionThatIsLeft(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.Model.Enqueue(harness.Text("hello"))
	d := p.Start("-e", p.WriteExtension("keeps", `export default (pi) => {
		pi.on("session_shutdown", async (e, ctx) => { await pi.exec("true", []); pi.appendEntry("kept", { reason: e.reason, here: ctx.sessionManager.getSessionFile() }); });
		pi.on("agent_end", () => pi.appendEntry("ended", {}));
		pi.registerCommand("new", { handler: async (args, ctx) => { await ctx.newSession(); } });
	}`))
	d.Prompt("hi")
	for _, reason := range []string{"new", "fork", "new"} {
		file := d.OK(`{"type":"get_state"}`).Get("sessionFile").Str
		switch reason {
		case "new":
			d.OK(`{"type":"prompt","message":"/new"}`)
			d.Event("session_changed")
		case "fork":
			p.Model.Enqueue(harness.Text("hello"))
			d.Prompt("hi")
			file = d.OK(`{"type":"get_state"}`).Get("sessionFile").Str
			d.OK(`{"type":"fork","entryId":"` + d.OK(`{"type":"get_fork_messages"}`).Get("messages.0.entryId").Str + `"}`)
		}
		kept, err := os.ReadFile(file)
		if os.IsNotExist(err) { // no message was written
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, 1, strings.Count(string(kept), `"customType":"kept"`), "%s", kept)
		assert.Contains(t, string(kept), `"reason":"`+reason+`"`)
		assert.Contains(t, string(kept), `"here":"`+file+`"`)
		assert.Less(t, strings.Index(string(kept), `"ended"`), strings.Index(string(kept), `"kept"`))
	}
	require.Zero(t, d.Close())
	assert.NotContains(t, strings.Join(d.Lines(), "\n"), "extension_error")
}

// TestLateImportsFailWhenTheyRun checks that an extension loads although import() and require in it name what does not
// exist or cannot be compiled, in code that never runs or that catches the error.
func TestLateImportsFailWhenTheyRun(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile("broken.js", "let a = ;")
	d := extended(p, `
		if (process.env.NEVER) import("../absent/a.ts");
		let caught = [];
		const late = async (load) => { try { await load(); caught.push("-"); } catch (e) { caught.push(e.message); } };
		pi.registerCommand("late", { async handler(args, ctx) {
			await late(() => import("./absent.js"));
			await late(() => require("./absent.js"));
			await late(() => import("absent-package"));
			await late(() => import("./" + "computed.js"));
			await late(() => import("./broken.js"));
			ctx.ui.notify(caught.join("|"));
		} });`)
	d.OK(`{"type":"prompt","message":"/late"}`)
	caught := strings.Split(d.UIRequest("notify").Get("message").Str, "|")
	require.Len(t, caught, 5)
	for i, want := range []string{"Cannot find module './absent.js'", "Cannot find module './absent.js'", "Cannot find module 'absent-package'", "./computed.js", "broken.js:1:9: Unexpected"} {
		assert.Contains(t, caught[i], want)
	}
	p.Model.Enqueue(harness.ToolCall("c1", "bash", `{"command":"echo fine"}`))
	assert.Contains(t, harness.ResultTexts(d.Prompt("go"), "tool_execution_end"), "fine")
}
