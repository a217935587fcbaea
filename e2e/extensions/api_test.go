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

// extended starts a daemon with an extension that has this source.
func extended(p *harness.Place, source string, args ...string) *harness.Daemon {
	p.WriteFile("x.js", `module.exports = (pi) => {`+source+`}`)
	return p.Start(append([]string{"-e", "./x.js"}, args...)...)
}

// TestExtensionToolsOfTheAPI checks extension tools: prepareArguments runs before validation,
// terminate ends the run, and structured content is saved.
func TestExtensionToolsOfTheAPI(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	d := extended(p, `pi.registerTool({ name: "sum", description: "adds", executionMode: "sequential",
		parameters: { type: "object", properties: { n: { type: "array", items: { type: "number" } } }, required: ["n"] },
		prepareArguments: (a) => { if (a.n === "no") throw new Error("no numbers"); return { n: String(a.n).split("+").map(Number) }; },
		execute: async (id, { n }) => ({ content: "sum", structuredContent: { sum: n.reduce((a, b) => a + b) }, usage: { input: 3 }, terminate: n.length > 1 }),
	});
	pi.on("tool_result", (ev) => ev.structuredContent ? { details: ev.structuredContent } : undefined);`)
	p.Model.Enqueue(harness.ToolCall("c1", "sum", `{"n":"no"}`), harness.ToolCall("c2", "sum", `{"n":"1+2"}`))
	events := d.Prompt("add")
	assert.Contains(t, harness.ResultTexts(events, "tool_execution_end"), "no numbers")
	messages := d.OK(`{"type":"get_messages"}`).Get("messages").Array()
	last := messages[len(messages)-1]
	assert.Equal(t, `{"sum":3}`, last.Get("structuredContent").Raw, "the run ended with it: %s", last.Raw)
	assert.Equal(t, `{"sum":3}`, last.Get("details").Raw)
	assert.Equal(t, `{"input":3}`, last.Get("usage").Raw)
	assert.Equal(t, `{"n":"1+2"}`, started(d, "c2").Get("args").Raw, "shown as the model wrote them")
}

// started waits for the record that announces a tool call.
func started(d *harness.Daemon, id string) gjson.Result {
	d.T.Helper()
	v, _ := d.Wait(0, "tool_execution_start "+id, func(v gjson.Result) bool {
		return v.Get("type").Str == "tool_execution_start" && v.Get("toolCallId").Str == id
	})
	return v
}

// TestExtensionToolsAreChosen checks that the flags that select tools also apply to tools of
// extensions. Unknown names are reported on stderr.
func TestExtensionToolsAreChosen(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":                             `["read","bash","edit","write","a","b"]`,
		"--tools read,b,nobody":        `["read","b"]`,
		"--no-tools":                   `[]`,
		"--no-builtin-tools":           `["a","b"]`,
		"--exclude-tools bash,a":       `["read","edit","write","b"]`,
		"--no-builtin-tools --tools a": `["a"]`,
	} {
		p := harness.NewPlace(t)
		d := extended(p, `for (const name of ["a", "b"]) pi.registerTool({ name, execute() {} });`, strings.Fields(args)...)
		assert.Equal(t, want, d.OK(`{"type":"get_tools"}`).Get("activeToolNames").Raw, args)
		require.Zero(t, d.Close())
		assert.Equal(t, strings.Contains(args, "nobody"), strings.Contains(d.Stderr(), "--tools: unknown tool nobody"), d.Stderr())
	}
}

// TestExtensionActs checks how extensions change the session, and which events they receive.
func TestExtensionActs(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	d := extended(p, `
		const say = (ctx, text) => ctx.ui.notify(String(text));
		pi.on("session_start", (ev, ctx) => say(ctx, "start " + ev.reason + " " + (ev.previousSessionFile ?? "-")));
		pi.on("before_agent_start", (ev) => { ev.systemPromptOptions.promptGuidelines.push("Hum a tune."); ev.systemPromptOptions.sections.Mood = "Cheerful."; });
		pi.on("turn_start", (ev, ctx) => { ctx.signal.addEventListener("abort", () => say(ctx, "aborted")); });
		pi.registerCommand("model", { async handler(args, ctx) {
			const m = ctx.modelRegistry.getAll().find((m) => m.id === args) ?? { provider: "nobody", id: args };
			say(ctx, await pi.setModel(m).then((r) => r + " " + ctx.model.id, (e) => e.message));
		} });
		pi.registerCommand("options", { handler: (_, ctx) => say(ctx, ctx.getSystemPromptOptions().selectedTools) });`)
	p.Model.Enqueue(harness.Text("hm"))
	d.Prompt("go")
	body := string(p.Model.Request(p.Model.RequestCount() - 1).Body)
	assert.Contains(t, body, "Hum a tune.")
	assert.Contains(t, body, "Cheerful.")
	state := d.OK(`{"type":"get_state"}`)
	d.OK(`{"type":"prompt","message":"/model ` + state.Get("model.id").Str + `"}`)
	assert.Equal(t, "true "+state.Get("model.id").Str, d.UIRequest("notify").Get("message").Str)
	d.OK(`{"type":"prompt","message":"/model other"}`)
	assert.Contains(t, d.UIRequest("notify").Get("message").Str, "Model not found")
	d.OK(`{"type":"prompt","message":"/options"}`)
	assert.Equal(t, "read,bash,edit,write", d.UIRequest("notify").Get("message").Str)

	p.Model.Enqueue(harness.ToolCall("c1", "bash", `{"command":"sleep 100"}`))
	d.OK(`{"type":"prompt","message":"wait"}`)
	d.Event("tool_execution_start")
	d.OK(`{"type":"abort"}`)
	assert.Equal(t, "aborted", d.UIRequest("notify").Get("message").Str)
	d.OK(`{"type":"new_session"}`)
	assert.Equal(t, "start new "+state.Get("sessionFile").Str, d.UIRequest("notify").Get("message").Str)
}

// TestExtensionBoundaries checks the handlers of message_end, turn_end and agent_before_settle.
// They can replace an answer, add entries and continue the run.
func TestExtensionBoundaries(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	d := extended(p, `
		let more = 1;
		pi.on("message_end", (ev) => {
			if (ev.message.role !== "assistant") return;
			return { message: { ...ev.message, content: [{ type: "text", text: ev.message.content[0].text.toUpperCase() }] } };
		});
		pi.on("turn_end", (ev, ctx) => {
			ctx.ui.notify(["turn", ev.turnIndex, ev.message.content[0].text, ev.outcome, ev.context.contextEntries.length > 0].join(" "));
			return { entries: [{ type: "custom", customType: "turns", data: ev.turnIndex }] };
		});
		pi.on("agent_before_settle", (ev, ctx) => {
			ctx.ui.notify("settle " + ev.outcome);
			if (more-- > 0) return { continue: true, entries: [{ type: "custom_message", customType: "n", content: "and more", display: true }] };
		});`)
	p.Model.Enqueue(harness.Text("one"), harness.Text("two"))
	d.OK(`{"type":"prompt","message":"go"}`)
	assert.Equal(t, "turn 0 ONE completed true", d.UIRequest("notify").Get("message").Str)
	assert.Equal(t, "settle completed", d.UIRequest("notify").Get("message").Str)
	assert.Equal(t, "turn 0 TWO completed true", d.UIRequest("notify").Get("message").Str)
	assert.Equal(t, "settle completed", d.UIRequest("notify").Get("message").Str)
	d.Event("agent_settled")
	assert.Contains(t, string(p.Model.Request(p.Model.RequestCount()-1).Body), "ONE", "what is kept is what the model sees")
	assert.Contains(t, string(p.Model.Request(p.Model.RequestCount()-1).Body), "and more")
	assert.Equal(t, 2, strings.Count(d.OK(`{"type":"get_entries"}`).Raw, `"customType":"turns"`))
}

// TestExtensionCompacts checks that extensions can cancel a compaction or provide the summary
// themselves.
func TestExtensionCompacts(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile(filepath.Join(p.AgentDir(), "settings.json"), `{"compaction":{"keepRecentTokens":1}}`)
	d := extended(p, `
		let n = 0;
		pi.on("session_before_compact", (ev, ctx) => {
			ctx.ui.notify([ev.reason, ev.customInstructions, ev.preparation.messagesToSummarize.length, ev.preparation.fileOps.read.size, ev.branchEntries.length > 3].join(" "));
			if (n++ === 0) return { cancel: true };
			return { compaction: { summary: "all was well", firstKeptEntryId: ev.preparation.firstKeptEntryId, tokensBefore: ev.preparation.tokensBefore, details: { mine: 1 } } };
		});
		pi.on("session_compact", (ev, ctx) => ctx.ui.notify("compacted " + ev.fromExtension + " " + ev.compactionEntry.summary));`)
	p.Model.Enqueue(harness.Text("one"), harness.Text("two"))
	d.Prompt("go")
	d.Prompt("go on")
	v := d.Call(`{"type":"compact","customInstructions":"be short"}`)
	assert.Contains(t, v.Get("error").Str, "Compaction cancelled")
	assert.Equal(t, "manual be short 2 0 true", d.UIRequest("notify").Get("message").Str)
	data := d.OK(`{"type":"compact"}`)
	assert.Equal(t, "all was well", data.Get("summary").Str)
	assert.Equal(t, `{"mine":1}`, data.Get("details").Raw)
	d.UIRequest("notify")
	assert.Equal(t, "compacted true all was well", d.UIRequest("notify").Get("message").Str)
	asked := p.Model.RequestCount()
	p.Model.Enqueue(harness.Text("three"))
	d.Prompt("and now")
	assert.Equal(t, asked+1, p.Model.RequestCount(), "no model was asked for a summary")
	assert.Contains(t, string(p.Model.Request(asked).Body), "all was well")
}

// TestExtensionReplaces checks that an extension can set up a new session. It receives
// session_shutdown of the old session and keeps running in the new one.
func TestExtensionReplaces(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	d := extended(p, `
		const say = (ctx, ...words) => ctx.ui.notify(words.join(" "));
		pi.on("session_shutdown", (ev, ctx) => { say(ctx, "shutdown", ev.reason, ev.targetSessionFile !== ctx.sessionManager.getSessionFile()); pi.appendEntry("late", 1); });
		pi.registerCommand("next", { async handler(args, ctx) {
			const r = await ctx.newSession({
				setup: async (sm) => {
					const id = sm.appendMessage({ role: "user", content: [{ type: "text", text: "before" }], timestamp: 1 });
					sm.appendLabelChange(id, "start");
					sm.appendSessionInfo("the next one");
				},
				withSession: async (ctx) => { say(ctx, "with", ctx.sessionManager.getSessionName(), ctx.sessionManager.getEntries().length > 2); await ctx.sendUserMessage("hello"); },
			});
			try { ctx.cwd; } catch (e) { console.error("old: " + e.message); }
		} });
		pi.registerCommand("at", { async handler(args, ctx) {
			const all = ctx.sessionManager.getBranch();
			await ctx.fork(all.filter((e) => e.type === "message")[0].id, { position: "at", withSession: (ctx) => say(ctx, "forked", ctx.sessionManager.getBranch().filter((e) => e.type === "message").length) });
		} });`)
	d.OK(`{"type":"get_commands"}`)
	p.Model.Enqueue(harness.Text("hi"))
	d.OK(`{"type":"prompt","message":"/next"}`)
	assert.Equal(t, "shutdown new true", d.UIRequest("notify").Get("message").Str)
	assert.Equal(t, "with the next one true", d.UIRequest("notify").Get("message").Str)
	d.Event("agent_settled")
	assert.Contains(t, string(p.Model.Request(p.Model.RequestCount()-1).Body), "before")
	assert.Equal(t, "the next one", d.OK(`{"type":"get_state"}`).Get("sessionName").Str)
	assert.NotContains(t, d.OK(`{"type":"get_entries"}`).Raw, `"late"`, "the session that was left cannot be written any more")
	d.OK(`{"type":"prompt","message":"/at"}`)
	assert.Equal(t, "shutdown fork true", d.UIRequest("notify").Get("message").Str)
	assert.Equal(t, "forked 1", d.UIRequest("notify").Get("message").Str)
	require.Zero(t, d.Close())
	assert.Contains(t, d.Stderr(), "old: This extension instance is stale")
}

// TestExtensionResources checks that prompts and skills of an extension are available to the first
// command and after a reload.
func TestExtensionResources(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile("res/hello.md", "---\ndescription: greets\n---\nSay hello to $1")
	p.WriteFile("res/dance/SKILL.md", "---\nname: dance\ndescription: how to dance\n---\nStep.")
	d := extended(p, `pi.on("resources_discover", (ev, ctx) => { ctx.ui.notify(ev.reason); return { promptPaths: ["res/hello.md"], skillPaths: [ev.cwd + "/res/dance"] }; });`)
	p.Model.Enqueue(harness.Text("hi"))
	d.Prompt("/hello Ann")
	body := string(p.Model.Request(p.Model.RequestCount() - 1).Body)
	assert.Contains(t, body, "Say hello to Ann")
	assert.Contains(t, body, "how to dance")
	d.OK(`{"type":"reload_resources"}`)
	commands := d.OK(`{"type":"get_commands"}`).Raw
	assert.Contains(t, commands, `"name":"hello"`)
	assert.Contains(t, commands, `"name":"skill:dance"`)
	assert.Contains(t, strings.Join(d.Lines(), "\n"), `"method":"notify","message":"reload"`)
}

// TestExtensionProvider checks providers registered by extensions. Their models are listed and can
// be selected at the start. Requests use a built-in API or the extension itself. The models
// disappear with the provider.
func TestExtensionProvider(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	model := `{ id: "m1", name: "One", reasoning: false, input: ["text"], cost: { input: 1, output: 2, cacheRead: 0, cacheWrite: 0 }, contextWindow: 100000, maxTokens: 1000 }`
	d := extended(p, `
		pi.registerProvider("own", { baseUrl: "`+p.Model.Server.URL+`", api: "anthropic-messages", apiKey: "sk-own", headers: { "X-Own": "yes" }, models: [`+model+`] });
		pi.registerProvider("mock", { headers: { "X-Added": "too" } });
		pi.registerProvider("spoken", { api: "spoken-api", models: [`+model+`], streamSimple(model, context, options) {
			return (async function* () {
				const said = context.messages.at(-1).content[0].text;
				const message = { role: "assistant", content: [], api: model.api, provider: model.provider, model: model.id, usage: { input: 5, output: 3 }, stopReason: "stop", timestamp: 1 };
				yield { type: "start", partial: message };
				if (said === "fail") { yield { type: "error", reason: "error", error: { ...message, stopReason: "error", errorMessage: "no voice" } }; return; }
				if (said === "wait") { await new Promise((r) => options.signal.addEventListener("abort", r)); console.error("stopped"); return; }
				yield { type: "text_start", contentIndex: 0, partial: message };
				yield { type: "text_delta", contentIndex: 0, delta: "I say ", partial: message };
				yield { type: "text_delta", contentIndex: 0, delta: said, partial: message };
				message.content.push({ type: "text", text: "I say " + said });
				yield { type: "text_end", contentIndex: 0, content: "I say " + said, partial: message };
				if (said === "call") { message.content.push({ type: "toolCall", id: "t1", name: "bash", arguments: { command: "echo called" } }); message.stopReason = "toolUse"; }
				yield { type: "done", reason: message.stopReason, message };
			})();
		} });
		pi.registerProvider("bad", { models: [{ id: "x" }] });
		pi.registerCommand("drop", { handler: (_, ctx) => { pi.unregisterProvider("own"); setTimeout(() => ctx.ui.notify("dropped")); } });
		pi.registerCommand("key", { async handler(_, ctx) { const m = ctx.modelRegistry.find("own", "m1"); ctx.ui.notify(JSON.stringify([await ctx.modelRegistry.getApiKeyAndHeaders(m), await ctx.modelRegistry.getApiKey(m), ctx.modelRegistry.hasConfiguredAuth(m)])); } });
		pi.registerCommand("ask", { async handler(args, ctx) {
			const steps = [], [provider, id] = args.split("/");
			const stream = ctx.modelRegistry.stream(ctx.modelRegistry.find(provider, id), { systemPrompt: "s", messages: [{ role: "user", content: [{ type: "text", text: "you?" }], timestamp: 1 }] }, {});
			for await (const e of stream) steps.push(e.type);
			const r = await stream.result();
			ctx.ui.notify([r.content[0]?.text ?? r.errorMessage, r.stopReason, r.usage.output, steps.join(",")].join("|"));
		} });`, "--model", "own/m1")
	models := d.OK(`{"type":"get_available_models"}`).Raw
	assert.Contains(t, models, `"provider":"own"`)
	assert.Contains(t, models, `"provider":"spoken"`)
	out := strings.Join(d.Lines(), "\n")
	assert.Contains(t, out, `provider \"bad\": model x: api is missing`)

	p.Model.Enqueue(harness.Text("mine"))
	d.Prompt("go")
	r := p.Model.Request(p.Model.RequestCount() - 1)
	assert.Equal(t, "yes", r.Header.Get("X-Own"))
	assert.Equal(t, "sk-own", r.Header.Get("X-Api-Key"))
	p.Model.Enqueue(harness.Text("changed"))
	d.OK(`{"type":"set_model","provider":"mock","modelId":"mock-1"}`)
	d.Prompt("go")
	assert.Equal(t, "too", p.Model.Request(p.Model.RequestCount()-1).Header.Get("X-Added"))

	d.OK(`{"type":"prompt","message":"/key"}`)
	assert.Equal(t, `[{"ok":true,"apiKey":"sk-own","headers":{"X-Own":"yes"}},"sk-own",true]`, d.UIRequest("notify").Get("message").Str)
	p.Model.Enqueue(harness.Text("me"))
	d.OK(`{"type":"prompt","message":"/ask own/m1"}`)
	assert.Equal(t, "me|stop|10|start,text_start,text_delta,text_end,done", d.UIRequest("notify").Get("message").Str)

	d.OK(`{"type":"set_model","provider":"spoken","modelId":"m1"}`)
	last := func(events []gjson.Result) gjson.Result {
		messages := events[len(events)-2].Get("messages").Array()
		return messages[len(messages)-1]
	}
	said := last(d.Prompt("hello"))
	assert.Equal(t, "I say hello", said.Get("content.0.text").Str)
	assert.Equal(t, int64(3), said.Get("usage.output").Int())
	assert.Contains(t, harness.ResultTexts(d.Prompt("call"), "tool_execution_end"), "called")
	d.OK(`{"type":"set_auto_retry","enabled":false}`)
	assert.Equal(t, "no voice", last(d.Prompt("fail")).Get("errorMessage").Str)
	d.OK(`{"type":"prompt","message":"wait"}`)
	d.Event("message_start")
	d.OK(`{"type":"abort"}`)
	d.Event("agent_settled")

	d.OK(`{"type":"prompt","message":"/drop"}`)
	assert.Equal(t, "dropped", d.UIRequest("notify").Get("message").Str)
	assert.NotContains(t, d.OK(`{"type":"get_available_models"}`).Raw, `"provider":"own"`)
	require.Zero(t, d.Close())
	assert.Contains(t, d.Stderr(), "stopped")
}

// TestExtensionVirtualModel checks a virtual model: it routes each request to another model, saves
// its state in the session, and fails requests it cannot route.
func TestExtensionVirtualModel(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	source := `
		pi.registerVirtualModel({ provider: "router", id: "auto", name: "Best", thinkingLevels: ["low", "high"], contextWindow: 90000, async route(request, ctx) {
			const n = (request.state?.n ?? 0) + 1;
			ctx.ui.notify([request.reason, request.model.id, request.thinkingLevel, request.previous?.model.id, n, request.messages.length, request.failed?.message.errorMessage.slice(0, 3)].join());
			const said = request.messages.at(-1).content[0]?.text;
			if (said === "nowhere") throw new Error("no way");
			if (said === "itself") return { model: request.model };
			return { model: ctx.modelRegistry.find("mock", said === "think" ? "think" : "mock-1"), thinkingLevel: "high", state: said === "same" ? request.state : { n } };
		} });
		pi.registerCommand("ask", { async handler(_, ctx) {
			const r = await ctx.modelRegistry.complete(ctx.modelRegistry.find("router", "auto"), { messages: [{ role: "user", content: [{ type: "text", text: "you?" }], timestamp: 1 }] });
			ctx.ui.notify([r.provider, r.model, r.content[0].text].join());
		} });
		pi.registerCommand("drop", { handler: (_, ctx) => { pi.unregisterVirtualModel("router", "auto"); setTimeout(() => ctx.ui.notify("dropped")); } });`
	d := extended(p, source, "--model", "router/auto:high")
	model := d.OK(`{"type":"get_available_models"}`).Get(`models.#(provider=="router")`)
	assert.Equal(t, "pi-virtual", model.Get("api").Str)
	assert.Equal(t, int64(90000), model.Get("contextWindow").Int())

	said := func(events []gjson.Result) (list []string) {
		for _, e := range events {
			if e.Get("method").Str == "notify" {
				list = append(list, e.Get("message").Str)
			}
		}
		return list
	}
	p.Model.Enqueue(harness.ToolCall("c1", "bash", `{"command":"echo hi"}`), harness.Text("done"))
	assert.Equal(t, []string{"user,auto,high,,1,1,", "continuation,auto,high,mock-1,2,3,"}, said(d.Prompt("go")))
	p.Model.Enqueue(harness.Text("deep"))
	end := d.Prompt("think")
	assert.Equal(t, []string{"user,auto,high,mock-1,3,5,"}, said(end))
	messages := end[len(end)-2].Get("messages").Array()
	assert.Equal(t, "think", messages[len(messages)-1].Get("model").Str, "an answer names who gave it")
	assert.Equal(t, "auto", d.OK(`{"type":"get_state"}`).Get("model.id").Str, "and the session who was chosen")
	for _, word := range []string{"nowhere", "itself"} {
		end = d.Prompt(word)
		messages = end[len(end)-2].Get("messages").Array()
		assert.Equal(t, "error", messages[len(messages)-1].Get("stopReason").Str)
		assert.Contains(t, messages[len(messages)-1].Get("errorMessage").Str, map[string]string{"nowhere": "no way", "itself": "virtual, too"}[word])
	}
	p.Model.Enqueue(harness.Text("aside"))
	d.OK(`{"type":"prompt","message":"/ask"}`)
	assert.Equal(t, "direct,auto,low,,1,1,", d.UIRequest("notify").Get("message").Str)
	assert.Equal(t, "mock,mock-1,aside", d.UIRequest("notify").Get("message").Str)
	require.Zero(t, d.Close())

	d = extended(p, source, "--continue", "--model", "router/auto:high") // state is saved
	p.Model.Enqueue(harness.Text("more"))
	assert.Contains(t, said(d.Prompt("same"))[0], "user,auto,high,think,4,")
	d.OK(`{"type":"prompt","message":"/drop"}`)
	assert.Equal(t, "dropped", d.UIRequest("notify").Get("message").Str)
	assert.NotContains(t, d.OK(`{"type":"get_available_models"}`).Raw, `"provider":"router"`)
	require.Zero(t, d.Close())
}

// TestExtensionRequests checks that extensions can inspect and change requests to a provider.
func TestExtensionRequests(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile(filepath.Join(p.AgentDir(), "settings.json"), `{"compaction":{"keepRecentTokens":1}}`)
	d := extended(p, `
		pi.on("before_provider_request", (ev) => ({ ...ev.payload, metadata: { user_id: "me" } }));
		pi.on("before_provider_headers", (ev) => { ev.headers["X-Mine"] = "1"; ev.headers["User-Agent"] = null; });
		pi.on("after_provider_response", (ev, ctx) => ctx.ui.notify("answered " + ev.status));
		let n = 0;
		pi.on("provider_stream_event", (ev, ctx) => { if (n++ === 0) ctx.ui.notify([ev.provider, ev.api, ev.model, ev.data.type].join(" ")); });`)
	p.Model.Enqueue(harness.Text("fine"), harness.Text("a summary"))
	d.Prompt("go")
	r := p.Model.Request(p.Model.RequestCount() - 1)
	assert.Equal(t, "me", gjson.Get(r.Body, "metadata.user_id").Str)
	assert.Equal(t, "1", r.Header.Get("X-Mine"))
	assert.Contains(t, strings.Join(d.Lines(), "\n"), "answered 200")
	d.Rewind()
	d.UIRequest("notify")
	assert.Equal(t, "mock anthropic-messages mock-1 message_start", d.UIRequest("notify").Get("message").Str)
	d.OK(`{"type":"compact"}`)
	r = p.Model.Request(p.Model.RequestCount() - 1)
	assert.Equal(t, "1", r.Header.Get("X-Mine"), "a summary has the headers, too")
	assert.False(t, gjson.Get(r.Body, "metadata.user_id").Exists(), "and nothing else")
}

// TestExtensionsAreAwaitedInReload checks that commands after reload_resources wait until the new
// extensions are loaded, even if there were none before.
func TestExtensionsAreAwaitedInReload(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	d := p.Start()
	d.OK(`{"type":"get_state"}`)
	p.WriteFile(filepath.Join(p.AgentDir(), "extensions", "gate.js"), `module.exports = (pi) => pi.on("tool_call", () => ({ block: true, reason: "not here", terminate: true }));`)
	p.Model.Enqueue(harness.ToolCall("c1", "bash", `{"command":"touch ran"}`))
	d.Send(`{"id":"r","type":"reload_resources"}`)
	d.OK(`{"type":"prompt","message":"go"}`)
	d.Event("agent_settled")
	assert.NoFileExists(t, filepath.Join(p.Work, "ran"))
	assert.Contains(t, strings.Join(d.Lines(), "\n"), "not here")
}

// TestExtensionsNameWhatIsMissing checks that unsupported events and options of an extension are
// reported on stderr once.
func TestExtensionsNameWhatIsMissing(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	d := extended(p, `pi.on("cache_warming_decision", () => {}); pi.on("tool_cal", () => {}); pi.on("turn_start", () => {});
		pi.registerTool({ name: "shy", exposure: "hidden", execute() {} });
		pi.registerTool({ name: "odd", exposure: "codemode", execute() {} });`)
	assert.Equal(t, `["read","bash","edit","write","odd"]`, d.OK(`{"type":"get_tools"}`).Get("activeToolNames").Raw)
	d.OK(`{"type":"new_session"}`)
	d.OK(`{"type":"get_tools"}`)
	require.Zero(t, d.Close())
	for _, text := range []string{"cache_warming_decision never comes", "tool_cal never comes", `of the tool odd is taken for direct`} {
		assert.Equal(t, 1, strings.Count(d.Stderr(), text), "%s: %s", text, d.Stderr())
	}
	assert.NotContains(t, d.Stderr(), "turn_start")
}

// TestHookResultOfNoUse checks that an invalid result of a handler is reported with the path of its
// extension.
func TestHookResultOfNoUse(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	d := extended(p, `pi.on("context", () => ({ messages: [5] })); pi.on("message_end", (ev) => ev.message.role === "assistant" ? { message: { role: "assistant", content: 5 } } : undefined);`)
	p.Model.Enqueue(harness.Text("fine"))
	d.Prompt("go")
	require.Zero(t, d.Close())
	for _, event := range []string{"context", "message_end"} {
		found := 0
		for _, line := range d.Lines() {
			if v := gjson.Parse(line); v.Get("type").Str == "extension_error" && v.Get("event").Str == event {
				found++
				assert.Equal(t, filepath.Join(p.Work, "x.js"), v.Get("extensionPath").Str, line)
			}
		}
		assert.Equal(t, 1, found, event)
	}
}

// TestExtensionTree checks that extensions can summarise the branch that navigate_tree leaves and
// label the entry. It also checks the events for other client commands.
func TestExtensionTree(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	d := extended(p, `
		pi.on("session_before_tree", (ev, ctx) => { ctx.ui.notify([ev.preparation.userWantsSummary, typeof ev.preparation.oldLeafId, ev.signal.aborted].join(" ")); return { summary: { summary: "went astray", details: { d: 1 } }, label: "back" }; });
		pi.on("user_bash", (ev, ctx) => ctx.ui.notify("bash " + ev.excludeFromContext));
		pi.on("model_select", (ev, ctx) => ctx.ui.notify("model " + ev.source));
		pi.registerCommand("scoped", { handler: (_, ctx) => ctx.ui.notify(ctx.scopedModels.map((m) => m.id).join(" ")) });`, "--models", "mock/*")
	p.Model.Enqueue(harness.Text("one"), harness.Text("two"))
	d.Prompt("go")
	d.Prompt("go on")
	entries := d.OK(`{"type":"get_entries"}`).Get("entries").Array()
	var first string
	for _, e := range entries {
		if first == "" && e.Get("message.role").Str == "assistant" {
			first = e.Get("id").Str
		}
	}
	asked := p.Model.RequestCount()
	assert.False(t, d.OK(`{"type":"navigate_tree","targetId":"`+first+`","summarize":true}`).Get("cancelled").Bool())
	assert.Equal(t, "true string false", d.UIRequest("notify").Get("message").Str)
	assert.Equal(t, asked, p.Model.RequestCount(), "no model was asked for a summary")
	all := d.OK(`{"type":"get_entries"}`).Raw
	assert.Contains(t, all, `"summary":"went astray"`)
	assert.Contains(t, all, `"label":"back"`)
	d.OK(`{"type":"bash","command":"true","excludeFromContext":true}`)
	assert.Equal(t, "bash true", d.UIRequest("notify").Get("message").Str)
	d.OK(`{"type":"cycle_model"}`)
	assert.Equal(t, "model cycle", d.UIRequest("notify").Get("message").Str)
	d.OK(`{"type":"prompt","message":"/scoped"}`)
	assert.Equal(t, "mock-1 think think2", d.UIRequest("notify").Get("message").Str)
}

// TestExtensionPayloads checks that event payloads have the same members as in pi 0.87.
func TestExtensionPayloads(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	keepLittle(p)
	d := extended(p, `
		const tell = (ctx, ...list) => ctx.ui.notify(JSON.stringify(list));
		pi.on("thinking_level_select", (e, ctx) => tell(ctx, "level", e.level, e.previousLevel));
		pi.on("session_compact", (e, ctx) => tell(ctx, "compact", e.reason, e.willRetry, e.fromExtension));
		pi.on("after_provider_response", (e, ctx) => tell(ctx, "answered", e.headers["content-type"]));
		pi.on("turn_end", (e, ctx) => { tell(ctx, "turn", e.continue); return { entries: [], continue: e.continue }; });
		pi.on("session_before_tree", (e, ctx) => tell(ctx, "before", e.preparation.commonAncestorId === ctx.sessionManager.getBranch().find((b) => b.message?.role === "user").id, e.preparation.entriesToSummarize.length > 0));
		pi.on("session_tree", (e, ctx) => tell(ctx, "tree", typeof e.oldLeafId, e.oldLeafId !== e.newLeafId));
		pi.on("model_select", (e, ctx) => tell(ctx, "model", e.source));
		pi.on("session_start", (e, ctx) => tell(ctx, "start", e.reason, ctx.sessionManager.getHeader().type));
		pi.on("context_with_system", (e, ctx) => {
			tell(ctx, "whole", e.messages[0].role, e.messages[0].toolsAdded.length > 0, e.messages[1].role);
			e.messages[0].content = "ONLY THIS";
			return { messages: [e.messages[0], { role: "system", content: "AND THAT" }, ...e.messages.slice(1)] };
		});
		pi.registerCommand("tools", { handler(_, ctx) { pi.setActiveTools(["read", "nope"]); tell(ctx, "active", pi.getActiveTools()); } });`)
	said := func(events []gjson.Result) (list []string) {
		for _, e := range events {
			if e.Get("method").Str == "notify" {
				list = append(list, e.Get("message").Str)
			}
		}
		return list
	}
	p.Model.Enqueue(harness.ToolCall("c1", "bash", `{"command":"echo hi"}`), harness.Text(lengthy+lengthy))
	list := said(d.Prompt("hello " + strings.Repeat("again ", 50)))
	whole, answered, turn := `["whole","system",true,"user"]`, `["answered","text/event-stream"]`, `["turn",false]`
	assert.Equal(t, []string{whole, answered, turn, whole, answered, turn}, list[len(list)-6:], "the run goes on after tool calls")
	body := p.Model.Request(0).Body
	assert.Contains(t, body, "ONLY THIS\\n\\nAND THAT")

	until := func(want string) { // fails when no more comes
		t.Helper()
		for d.UIRequest("notify").Get("message").Str != want {
		}
	}
	d.OK(`{"type":"set_model","provider":"mock","modelId":"think"}`)
	until(`["model","set"]`)
	d.OK(`{"type":"set_thinking_level","level":"off"}`)
	d.OK(`{"type":"set_thinking_level","level":"high"}`)
	until(`["level","high","off"]`)
	p.Model.Enqueue(harness.Text("more " + lengthy))
	d.Prompt("more " + strings.Repeat("again ", 50))
	p.Model.Enqueue(harness.Text("summary"), harness.Text("summary"))
	d.OK(`{"type":"compact"}`)
	until(`["compact","manual",false,false]`)
	first := d.OK(`{"type":"get_entries"}`).Get(`entries.#(message.role=="user").id`).Str
	d.OK(`{"type":"navigate_tree","targetId":"` + first + `"}`)
	until(`["before",true,true]`)
	until(`["tree","string",true]`)
	d.OK(`{"type":"prompt","message":"/tools"}`)
	until(`["active",["read"]]`)
	d.OK(`{"type":"new_session"}`)
	until(`["start","new","session"]`)
	assert.Equal(t, 1, strings.Count(strings.Join(d.Lines(), "\n"), `[\"model\",`), "what a session begins with is no event")
	require.Zero(t, d.Close())
}

// TestExtensionExecuteTool checks that a tool can call other tools, subject to validation and
// permission handlers. Only its own result is sent to the model and saved in the session file.
func TestExtensionExecuteTool(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	d := extended(p, `
		const say = (ctx, ...list) => ctx.ui.notify(JSON.stringify(list));
		const usage = (total) => ({ input: 1, output: 1, cacheRead: 0, cacheWrite: 0, totalTokens: 2, cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total } });
		pi.registerTool({ name: "both", description: "calls others", parameters: { type: "object", properties: {} }, async execute(id, params, signal, onUpdate, ctx) {
			const seen = [], out = [];
			const r = await ctx.executeTool("bash", { command: "echo inner" }, { onUpdate: (u) => seen.push(u.content[0]?.text) });
			out.push([r.toolCall.id, r.isError, r.result.content[0].text, typeof r.durationMs, seen.length > 0]);
			for (const [name, args] of [["bash", { command: "rm x" }], ["bash", {}], ["nobody", {}], ["shy", {}], ["task", {}], ["pays", {}]]) {
				const r = await ctx.executeTool(name, args);
				out.push([r.isError, r.result.content[0].text.split("\n")[0]]);
			}
			const controller = new AbortController();
			setTimeout(() => controller.abort(), 50);
			out.push((await ctx.executeTool("bash", { command: "sleep 100" }, { signal: controller.signal })).isError);
			out.push(ctx.tools.map((t) => t.name).sort().join(" "));
			ctx.executeTool("bash", { command: "sleep 100" }).then((r) => say(ctx, "left", r.isError));
			return { content: JSON.stringify(out), details: { own: 1 }, usage: usage(1) };
		} });
		pi.registerTool({ name: "pays", description: "costs", parameters: { type: "object", properties: {} }, execute: async () => ({ content: "paid", usage: usage(5) }) });
		pi.registerTool({ name: "shy", description: "for models", exposure: "model-only", parameters: { type: "object", properties: {} }, execute: async () => "never" });
		pi.on("tool_call", (ev, ctx) => { say(ctx, ev.toolCallId, ev.parentToolCallId); if (ev.input.command === "rm x") return { block: true, reason: "not that" }; });
		pi.on("tool_result", (ev) => ev.parentToolCallId && { content: [{ type: "text", text: "patched " + ev.content[0].text }] });
		pi.registerCommand("outside", { handler: (_, ctx) => say(ctx, typeof ctx.executeTool) });`, "--tools", "bash,both,pays,shy,task")
	p.Model.Enqueue(harness.ToolCall("c1", "both", `{}`), harness.Text("done"))
	events := d.Prompt("go")
	assert.Equal(t, `[["c1/1",false,"patched inner\n","number",true],[true,"not that"],[true,"Validation failed for tool \"bash\":"],[true,"Tool nobody not found"],`+
		`[true,"Tool shy not found"],[true,"Tool task not found"],[false,"patched paid"],true,"bash both pays task"]`, result(d, "c1"))
	for _, text := range []string{`[\"c1\",null]`, `[\"c1/1\",\"c1\"]`} {
		assert.Contains(t, strings.Join(d.Lines(), "\n"), text)
	}
	assert.Equal(t, "c1", started(d, "c1/1").Get("parentToolCallId").Str)
	assert.NotContains(t, d.OK(`{"type":"get_entries"}`).Raw, "patched inner\\n\"}]", "what a tool has called is in no log")
	d.Wait(0, "the end of a call that nobody waits for, which is that of the one that made it", func(v gjson.Result) bool { return v.Get("message").Str == `["left",true]` })
	all := strings.Join(d.Lines(), "\n")
	assert.Equal(t, strings.Count(all, `"type":"tool_execution_start"`), strings.Count(all, `"type":"tool_execution_end"`))
	ends := 0
	for _, e := range events {
		if e.Get("type").Str == "message_end" && e.Get("message.role").Str == "toolResult" {
			ends++
			r := e.Get("message")
			assert.Equal(t, "c1/1 ok, c1/2 error, c1/3 error, c1/4 error, c1/5 error, c1/6 ok, c1/7 error, c1/8 error", nested(r.Get("nestedCalls.calls")))
			assert.Equal(t, `{"command":"echo inner"} not that true`, r.Get("nestedCalls.calls.0.arguments").Raw+" "+r.Get("nestedCalls.calls.1.error").Str+" "+r.Get("nestedCalls.complete").Raw)
			assert.Equal(t, `{"own":1} 6`, r.Get("details").Raw+" "+r.Get("usage.cost.total").Raw)
		}
	}
	assert.Equal(t, 1, ends)
	assert.InDelta(t, 6, d.OK(`{"type":"get_session_stats"}`).Get("cost").Num, 0.1, "with what was called")
	d.OK(`{"type":"prompt","message":"/outside"}`)
	for d.UIRequest("notify").Get("message").Str != `["undefined"]` {
	}

	p.Model.Enqueue(harness.ToolCall("c2", "both", `{}`)) // abort also ends nested calls
	d.OK(`{"type":"prompt","message":"again"}`)
	started(d, "c2/1")
	d.OK(`{"type":"abort"}`)
	d.Event("agent_settled")
	all = strings.Join(d.Lines(), "\n")
	assert.Equal(t, strings.Count(all, `"type":"tool_execution_start"`), strings.Count(all, `"type":"tool_execution_end"`))
	require.Zero(t, d.Close())
}

// nested lists the ids and states of the calls that a tool has made.
func nested(calls gjson.Result) string {
	var list []string
	for _, c := range calls.Array() {
		list = append(list, c.Get("id").Str+" "+c.Get("status").Str)
	}
	return strings.Join(list, ", ")
}

// result waits for the text of the result of a call.
func result(d *harness.Daemon, id string) string {
	d.T.Helper()
	v, _ := d.Wait(0, "tool_execution_end "+id, func(v gjson.Result) bool {
		return v.Get("type").Str == "tool_execution_end" && v.Get("toolCallId").Str == id
	})
	return v.Get("result.content.0.text").Str
}

// TestExtensionLogin checks that a saved OAuth login of an extension's provider is refreshed by the
// extension. The new credentials are saved with all their members.
func TestExtensionLogin(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	model := `{ id: "m1", name: "One", reasoning: false, input: ["text"], cost: { input: 1, output: 2, cacheRead: 0, cacheWrite: 0 }, contextWindow: 100000, maxTokens: 1000 }`
	path := filepath.Join(p.AgentDir(), "auth.json")
	p.WriteFile(path, `{"corp":{"type":"oauth","access":"old","refresh":"r1","expires":1,"realm":"east"}}`)
	d := extended(p, `
		let n = 0;
		pi.registerProvider("corp", { baseUrl: "`+p.Model.Server.URL+`", api: "anthropic-messages", models: [`+model+`], oauth: {
			name: "Corp", async login() { throw new Error("nobody is there"); },
			async refreshToken(c, signal) {
				if (c.refresh !== "r1" || signal.aborted) throw new Error("no such login");
				return { access: "new" + ++n, refresh: "r2", expires: Date.now() + 3600000, realm: c.realm };
			},
			getApiKey: (c) => c.realm + "-" + c.access,
			modifyModels: (models, c) => models.map((m) => m.provider === "corp" ? { ...m, name: m.name + " in the " + c.realm } : m),
		} });
		pi.registerCommand("key", { async handler(_, ctx) { ctx.ui.notify(await ctx.modelRegistry.getApiKeyForProvider("corp")); } });`, "--model", "corp/m1")
	assert.Equal(t, "One in the east", d.OK(`{"type":"get_available_models"}`).Get(`models.#(provider=="corp").name`).Str)
	p.Model.Enqueue(harness.Text("one"), harness.Text("two"))
	d.Prompt("go")
	d.Prompt("go on")
	assert.Equal(t, "east-new1", p.Model.Request(0).Header.Get("X-Api-Key"))
	assert.Equal(t, "east-new1", p.Model.Request(1).Header.Get("X-Api-Key"), "what is good is not bought again")
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	stored := gjson.GetBytes(raw, "corp")
	assert.Equal(t, []string{"oauth", "new1", "r2", "east"}, []string{stored.Get("type").Str, stored.Get("access").Str, stored.Get("refresh").Str, stored.Get("realm").Str})
	d.OK(`{"type":"prompt","message":"/key"}`)
	assert.Equal(t, "east-new1", d.UIRequest("notify").Get("message").Str)

	p.WriteFile(path, `{"corp":{"type":"oauth","access":"old","refresh":"spent","expires":1}}`)
	d.OK(`{"type":"set_auto_retry","enabled":false}`)
	events := d.Prompt("and now")
	messages := events[len(events)-2].Get("messages").Array()
	assert.Contains(t, messages[len(messages)-1].Get("errorMessage").Str, "no such login")
	raw, err = os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "spent", gjson.GetBytes(raw, "corp.refresh").Str, "what cannot be bought leaves what was there")
	require.Zero(t, d.Close())
	assert.NotContains(t, strings.Join(d.Lines(), "\n"), "does not use")
}

// TestExtensionRefreshModels checks that a provider's model list is refreshed by its extension. If
// the refresh fails, the old list is kept.
func TestExtensionRefreshModels(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	d := extended(p, `
		const model = (id) => ({ id, name: id, reasoning: false, input: ["text"], cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 }, contextWindow: 1000, maxTokens: 100 });
		let n = 0;
		pi.registerProvider("live", { baseUrl: "`+p.Model.Server.URL+`", api: "anthropic-messages", apiKey: "k", models: [model("first")], async refreshModels({ signal }) {
			if (++n === 3) throw new Error("is down");
			return [model("found" + n)];
		} });
		pi.registerCommand("again", { async handler(_, ctx) { await ctx.modelRegistry.refresh(); setTimeout(() => ctx.ui.notify("asked")); } });`)
	live := func() string {
		return d.OK(`{"type":"get_available_models"}`).Get(`models.#(provider=="live")#.id`).Raw
	}
	assert.Equal(t, `["found1"]`, live())
	d.OK(`{"type":"prompt","message":"/again"}`)
	d.UIRequest("notify")
	assert.Equal(t, `["found2"]`, live())
	d.OK(`{"type":"prompt","message":"/again"}`)
	d.UIRequest("notify")
	assert.Equal(t, `["found2"]`, live())
	assert.Contains(t, strings.Join(d.Lines(), "\n"), `"event":"refresh_models","error":"is down"`)
	require.Zero(t, d.Close())
}
