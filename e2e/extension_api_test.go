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

// extended starts a daemon with an extension of this source.
func (p *place) extended(source string, args ...string) *daemon {
	p.write("x.js", `module.exports = (pi) => {`+source+`}`)
	return p.start(append([]string{"-e", "./x.js"}, args...)...)
}

// TestExtensionToolsOfTheAPI: a tool makes its arguments itself before they are
// checked, says when it is enough, and what it says beside its text is kept.
func TestExtensionToolsOfTheAPI(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	d := p.extended(`pi.registerTool({ name: "sum", description: "adds", executionMode: "sequential",
		parameters: { type: "object", properties: { n: { type: "array", items: { type: "number" } } }, required: ["n"] },
		prepareArguments: (a) => { if (a.n === "no") throw new Error("no numbers"); return { n: String(a.n).split("+").map(Number) }; },
		execute: async (id, { n }) => ({ content: "sum", structuredContent: { sum: n.reduce((a, b) => a + b) }, usage: { input: 3 }, terminate: n.length > 1 }),
	});
	pi.on("tool_result", (ev) => ev.structuredContent ? { details: ev.structuredContent } : undefined);`)
	p.llm.plays(tool("c1", "sum", `{"n":"no"}`), tool("c2", "sum", `{"n":"1+2"}`))
	events := d.prompt("add")
	assert.Contains(t, texts(events, "tool_execution_end"), "no numbers")
	messages := d.ok(`{"type":"get_messages"}`).Get("messages").Array()
	last := messages[len(messages)-1]
	assert.Equal(t, `{"sum":3}`, last.Get("structuredContent").Raw, "the run ended with it: %s", last.Raw)
	assert.Equal(t, `{"sum":3}`, last.Get("details").Raw)
	assert.Equal(t, `{"input":3}`, last.Get("usage").Raw)
	assert.Equal(t, `{"n":"1+2"}`, d.started("c2").Get("args").Raw, "shown as the model wrote them")
}

// started is the record that announces a call.
func (d *daemon) started(id string) gjson.Result {
	d.t.Helper()
	v, _ := d.wait(0, "tool_execution_start "+id, func(v gjson.Result) bool {
		return v.Get("type").Str == "tool_execution_start" && v.Get("toolCallId").Str == id
	})
	return v
}

// TestExtensionToolsAreChosen: the flags that choose tools choose among those of
// extensions, too, and a name that nobody has is named.
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
		p := newPlace(t)
		d := p.extended(`for (const name of ["a", "b"]) pi.registerTool({ name, execute() {} });`, strings.Fields(args)...)
		assert.Equal(t, want, d.ok(`{"type":"get_tools"}`).Get("activeToolNames").Raw, args)
		require.Zero(t, d.end())
		assert.Equal(t, strings.Contains(args, "nobody"), strings.Contains(d.errors(), "--tools: unknown tool nobody"), d.errors())
	}
}

// TestExtensionActs: what extensions do to the session, and what they are told of it.
func TestExtensionActs(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	d := p.extended(`
		const say = (ctx, text) => ctx.ui.notify(String(text));
		pi.on("session_start", (ev, ctx) => say(ctx, "start " + ev.reason + " " + (ev.previousSessionFile ?? "-")));
		pi.on("before_agent_start", (ev) => { ev.systemPromptOptions.promptGuidelines.push("Hum a tune."); ev.systemPromptOptions.sections.Mood = "Cheerful."; });
		pi.on("turn_start", (ev, ctx) => { ctx.signal.addEventListener("abort", () => say(ctx, "aborted")); });
		pi.registerCommand("model", { async handler(args, ctx) {
			const m = ctx.modelRegistry.getAll().find((m) => m.id === args) ?? { provider: "nobody", id: args };
			say(ctx, await pi.setModel(m).then((r) => r + " " + ctx.model.id, (e) => e.message));
		} });
		pi.registerCommand("options", { handler: (_, ctx) => say(ctx, ctx.getSystemPromptOptions().selectedTools) });`)
	p.llm.plays(text("hm"))
	d.prompt("go")
	body := string(p.llm.request(p.llm.count() - 1).body)
	assert.Contains(t, body, "Hum a tune.")
	assert.Contains(t, body, "Cheerful.")
	state := d.ok(`{"type":"get_state"}`)
	d.ok(`{"type":"prompt","message":"/model ` + state.Get("model.id").Str + `"}`)
	assert.Equal(t, "true "+state.Get("model.id").Str, d.ui("notify").Get("message").Str)
	d.ok(`{"type":"prompt","message":"/model other"}`)
	assert.Contains(t, d.ui("notify").Get("message").Str, "Model not found")
	d.ok(`{"type":"prompt","message":"/options"}`)
	assert.Equal(t, "read,bash,edit,write", d.ui("notify").Get("message").Str)

	p.llm.plays(tool("c1", "bash", `{"command":"sleep 100"}`))
	d.ok(`{"type":"prompt","message":"wait"}`)
	d.event("tool_execution_start")
	d.ok(`{"type":"abort"}`)
	assert.Equal(t, "aborted", d.ui("notify").Get("message").Str)
	d.ok(`{"type":"new_session"}`)
	assert.Equal(t, "start new "+state.Get("sessionFile").Str, d.ui("notify").Get("message").Str)
}

// TestExtensionBoundaries: what handlers make of an answer is what is kept, and they say
// what follows a turn and a run.
func TestExtensionBoundaries(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	d := p.extended(`
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
	p.llm.plays(text("one"), text("two"))
	d.ok(`{"type":"prompt","message":"go"}`)
	assert.Equal(t, "turn 0 ONE completed true", d.ui("notify").Get("message").Str)
	assert.Equal(t, "settle completed", d.ui("notify").Get("message").Str)
	assert.Equal(t, "turn 0 TWO completed true", d.ui("notify").Get("message").Str)
	assert.Equal(t, "settle completed", d.ui("notify").Get("message").Str)
	d.event("agent_settled")
	assert.Contains(t, string(p.llm.request(p.llm.count()-1).body), "ONE", "what is kept is what the model sees")
	assert.Contains(t, string(p.llm.request(p.llm.count()-1).body), "and more")
	assert.Equal(t, 2, strings.Count(d.ok(`{"type":"get_entries"}`).Raw, `"customType":"turns"`))
}

// TestExtensionCompacts: extensions make a summary themselves, or do not want one.
func TestExtensionCompacts(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(filepath.Join(p.agent(), "settings.json"), `{"compaction":{"keepRecentTokens":1}}`)
	d := p.extended(`
		let n = 0;
		pi.on("session_before_compact", (ev, ctx) => {
			ctx.ui.notify([ev.reason, ev.customInstructions, ev.preparation.messagesToSummarize.length, ev.preparation.fileOps.read.size, ev.branchEntries.length > 3].join(" "));
			if (n++ === 0) return { cancel: true };
			return { compaction: { summary: "all was well", firstKeptEntryId: ev.preparation.firstKeptEntryId, tokensBefore: ev.preparation.tokensBefore, details: { mine: 1 } } };
		});
		pi.on("session_compact", (ev, ctx) => ctx.ui.notify("compacted " + ev.fromExtension + " " + ev.compactionEntry.summary));`)
	p.llm.plays(text("one"), text("two"))
	d.prompt("go")
	d.prompt("go on")
	v := d.call(`{"type":"compact","customInstructions":"be short"}`)
	assert.Contains(t, v.Get("error").Str, "Compaction cancelled")
	assert.Equal(t, "manual be short 2 0 true", d.ui("notify").Get("message").Str)
	data := d.ok(`{"type":"compact"}`)
	assert.Equal(t, "all was well", data.Get("summary").Str)
	assert.Equal(t, `{"mine":1}`, data.Get("details").Raw)
	d.ui("notify")
	assert.Equal(t, "compacted true all was well", d.ui("notify").Get("message").Str)
	asked := p.llm.count()
	p.llm.plays(text("three"))
	d.prompt("and now")
	assert.Equal(t, asked+1, p.llm.count(), "no model was asked for a summary")
	assert.Contains(t, string(p.llm.request(asked).body), "all was well")
}

// TestExtensionReplaces: an extension sets up the session that follows, is told the end
// of the one before it, and goes on in the new one.
func TestExtensionReplaces(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	d := p.extended(`
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
	d.ok(`{"type":"get_commands"}`)
	p.llm.plays(text("hi"))
	d.ok(`{"type":"prompt","message":"/next"}`)
	assert.Equal(t, "shutdown new true", d.ui("notify").Get("message").Str)
	assert.Equal(t, "with the next one true", d.ui("notify").Get("message").Str)
	d.event("agent_settled")
	assert.Contains(t, string(p.llm.request(p.llm.count()-1).body), "before")
	assert.Equal(t, "the next one", d.ok(`{"type":"get_state"}`).Get("sessionName").Str)
	assert.NotContains(t, d.ok(`{"type":"get_entries"}`).Raw, `"late"`, "the session that was left cannot be written any more")
	d.ok(`{"type":"prompt","message":"/at"}`)
	assert.Equal(t, "shutdown fork true", d.ui("notify").Get("message").Str)
	assert.Equal(t, "forked 1", d.ui("notify").Get("message").Str)
	require.Zero(t, d.end())
	assert.Contains(t, d.errors(), "old: This extension instance is stale")
}

// TestExtensionResources: prompts and skills of an extension are there from the first
// command on, and after a reload.
func TestExtensionResources(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("res/hello.md", "---\ndescription: greets\n---\nSay hello to $1")
	p.write("res/dance/SKILL.md", "---\nname: dance\ndescription: how to dance\n---\nStep.")
	d := p.extended(`pi.on("resources_discover", (ev, ctx) => { ctx.ui.notify(ev.reason); return { promptPaths: ["res/hello.md"], skillPaths: [ev.cwd + "/res/dance"] }; });`)
	p.llm.plays(text("hi"))
	d.prompt("/hello Ann")
	body := string(p.llm.request(p.llm.count() - 1).body)
	assert.Contains(t, body, "Say hello to Ann")
	assert.Contains(t, body, "how to dance")
	d.ok(`{"type":"reload_resources"}`)
	commands := d.ok(`{"type":"get_commands"}`).Raw
	assert.Contains(t, commands, `"name":"hello"`)
	assert.Contains(t, commands, `"name":"skill:dance"`)
	assert.Contains(t, strings.Join(d.output(), "\n"), `"method":"notify","message":"reload"`)
}

// TestExtensionProvider: models of an extension are listed, chosen at the start, asked
// over the wires that we have or by the extension itself, and gone when it is.
func TestExtensionProvider(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	model := `{ id: "m1", name: "One", reasoning: false, input: ["text"], cost: { input: 1, output: 2, cacheRead: 0, cacheWrite: 0 }, contextWindow: 100000, maxTokens: 1000 }`
	d := p.extended(`
		pi.registerProvider("own", { baseUrl: "`+p.llm.srv.URL+`", api: "anthropic-messages", apiKey: "sk-own", headers: { "X-Own": "yes" }, models: [`+model+`] });
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
	models := d.ok(`{"type":"get_available_models"}`).Raw
	assert.Contains(t, models, `"provider":"own"`)
	assert.Contains(t, models, `"provider":"spoken"`)
	out := strings.Join(d.output(), "\n")
	assert.Contains(t, out, `provider \"bad\": model x: api is missing`)

	p.llm.plays(text("mine"))
	d.prompt("go")
	r := p.llm.request(p.llm.count() - 1)
	assert.Equal(t, "yes", r.header.Get("X-Own"))
	assert.Equal(t, "sk-own", r.header.Get("X-Api-Key"))
	p.llm.plays(text("changed"))
	d.ok(`{"type":"set_model","provider":"mock","modelId":"mock-1"}`)
	d.prompt("go")
	assert.Equal(t, "too", p.llm.request(p.llm.count()-1).header.Get("X-Added"))

	d.ok(`{"type":"prompt","message":"/key"}`)
	assert.Equal(t, `[{"ok":true,"apiKey":"sk-own","headers":{"X-Own":"yes"}},"sk-own",true]`, d.ui("notify").Get("message").Str)
	p.llm.plays(text("me"))
	d.ok(`{"type":"prompt","message":"/ask own/m1"}`)
	assert.Equal(t, "me|stop|10|start,text_start,text_delta,text_end,done", d.ui("notify").Get("message").Str)

	d.ok(`{"type":"set_model","provider":"spoken","modelId":"m1"}`)
	last := func(events []gjson.Result) gjson.Result {
		messages := events[len(events)-2].Get("messages").Array()
		return messages[len(messages)-1]
	}
	said := last(d.prompt("hello"))
	assert.Equal(t, "I say hello", said.Get("content.0.text").Str)
	assert.Equal(t, int64(3), said.Get("usage.output").Int())
	assert.Contains(t, texts(d.prompt("call"), "tool_execution_end"), "called")
	d.ok(`{"type":"set_auto_retry","enabled":false}`)
	assert.Equal(t, "no voice", last(d.prompt("fail")).Get("errorMessage").Str)
	d.ok(`{"type":"prompt","message":"wait"}`)
	d.event("message_start")
	d.ok(`{"type":"abort"}`)
	d.event("agent_settled")

	d.ok(`{"type":"prompt","message":"/drop"}`)
	assert.Equal(t, "dropped", d.ui("notify").Get("message").Str)
	assert.NotContains(t, d.ok(`{"type":"get_available_models"}`).Raw, `"provider":"own"`)
	require.Zero(t, d.end())
	assert.Contains(t, d.errors(), "stopped")
}

// TestExtensionVirtualModel: a virtual model says for each request who answers it, keeps what it
// wants to know in the session, and fails the request if it does not know.
func TestExtensionVirtualModel(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
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
	d := p.extended(source, "--model", "router/auto:high")
	model := d.ok(`{"type":"get_available_models"}`).Get(`models.#(provider=="router")`)
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
	p.llm.plays(tool("c1", "bash", `{"command":"echo hi"}`), text("done"))
	assert.Equal(t, []string{"user,auto,high,,1,1,", "continuation,auto,high,mock-1,2,3,"}, said(d.prompt("go")))
	p.llm.plays(text("deep"))
	end := d.prompt("think")
	assert.Equal(t, []string{"user,auto,high,mock-1,3,5,"}, said(end))
	messages := end[len(end)-2].Get("messages").Array()
	assert.Equal(t, "think", messages[len(messages)-1].Get("model").Str, "an answer names who gave it")
	assert.Equal(t, "auto", d.ok(`{"type":"get_state"}`).Get("model.id").Str, "and the session who was chosen")
	for _, word := range []string{"nowhere", "itself"} {
		end = d.prompt(word)
		messages = end[len(end)-2].Get("messages").Array()
		assert.Equal(t, "error", messages[len(messages)-1].Get("stopReason").Str)
		assert.Contains(t, messages[len(messages)-1].Get("errorMessage").Str, map[string]string{"nowhere": "no way", "itself": "virtual, too"}[word])
	}
	p.llm.plays(text("aside"))
	d.ok(`{"type":"prompt","message":"/ask"}`)
	assert.Equal(t, "direct,auto,low,,1,1,", d.ui("notify").Get("message").Str)
	assert.Equal(t, "mock,mock-1,aside", d.ui("notify").Get("message").Str)
	require.Zero(t, d.end())

	d = p.extended(source, "--continue", "--model", "router/auto:high") // what it keeps is in the session
	p.llm.plays(text("more"))
	assert.Contains(t, said(d.prompt("same"))[0], "user,auto,high,think,4,")
	d.ok(`{"type":"prompt","message":"/drop"}`)
	assert.Equal(t, "dropped", d.ui("notify").Get("message").Str)
	assert.NotContains(t, d.ok(`{"type":"get_available_models"}`).Raw, `"provider":"router"`)
	require.Zero(t, d.end())
}

// TestExtensionRequests: extensions look at requests on their way and change them.
func TestExtensionRequests(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(filepath.Join(p.agent(), "settings.json"), `{"compaction":{"keepRecentTokens":1}}`)
	d := p.extended(`
		pi.on("before_provider_request", (ev) => ({ ...ev.payload, metadata: { user_id: "me" } }));
		pi.on("before_provider_headers", (ev) => { ev.headers["X-Mine"] = "1"; ev.headers["User-Agent"] = null; });
		pi.on("after_provider_response", (ev, ctx) => ctx.ui.notify("answered " + ev.status));
		let n = 0;
		pi.on("provider_stream_event", (ev, ctx) => { if (n++ === 0) ctx.ui.notify([ev.provider, ev.api, ev.model, ev.data.type].join(" ")); });`)
	p.llm.plays(text("fine"), text("a summary"))
	d.prompt("go")
	r := p.llm.request(p.llm.count() - 1)
	assert.Equal(t, "me", gjson.Get(r.body, "metadata.user_id").Str)
	assert.Equal(t, "1", r.header.Get("X-Mine"))
	assert.Contains(t, strings.Join(d.output(), "\n"), "answered 200")
	d.rewind()
	d.ui("notify")
	assert.Equal(t, "mock anthropic-messages mock-1 message_start", d.ui("notify").Get("message").Str)
	d.ok(`{"type":"compact"}`)
	r = p.llm.request(p.llm.count() - 1)
	assert.Equal(t, "1", r.header.Get("X-Mine"), "a summary has the headers, too")
	assert.False(t, gjson.Get(r.body, "metadata.user_id").Exists(), "and nothing else")
}

// TestExtensionsAreAwaitedInReload: what comes behind reload_resources waits for the
// extensions that it brings, also where there were none.
func TestExtensionsAreAwaitedInReload(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	d := p.start()
	d.ok(`{"type":"get_state"}`)
	p.write(filepath.Join(p.agent(), "extensions", "gate.js"), `module.exports = (pi) => pi.on("tool_call", () => ({ block: true, reason: "not here", terminate: true }));`)
	p.llm.plays(tool("c1", "bash", `{"command":"touch ran"}`))
	d.send(`{"id":"r","type":"reload_resources"}`)
	d.ok(`{"type":"prompt","message":"go"}`)
	d.event("agent_settled")
	assert.NoFileExists(t, filepath.Join(p.work, "ran"))
	assert.Contains(t, strings.Join(d.output(), "\n"), "not here")
}

// TestExtensionsNameWhatIsMissing: what an extension registers and we do not have is
// named on stderr, once.
func TestExtensionsNameWhatIsMissing(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	d := p.extended(`pi.on("cache_warming_decision", () => {}); pi.on("tool_cal", () => {}); pi.on("turn_start", () => {});
		pi.registerTool({ name: "shy", exposure: "hidden", execute() {} });
		pi.registerTool({ name: "odd", exposure: "codemode", execute() {} });`)
	assert.Equal(t, `["read","bash","edit","write","odd"]`, d.ok(`{"type":"get_tools"}`).Get("activeToolNames").Raw)
	d.ok(`{"type":"new_session"}`)
	d.ok(`{"type":"get_tools"}`)
	require.Zero(t, d.end())
	for _, text := range []string{"cache_warming_decision never comes", "tool_cal never comes", `of the tool odd is taken for direct`} {
		assert.Equal(t, 1, strings.Count(d.errors(), text), "%s: %s", text, d.errors())
	}
	assert.NotContains(t, d.errors(), "turn_start")
}

// TestHookResultOfNoUse: what a handler returns and nobody can read is reported as its own.
func TestHookResultOfNoUse(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	d := p.extended(`pi.on("context", () => ({ messages: [5] })); pi.on("message_end", (ev) => ev.message.role === "assistant" ? { message: { role: "assistant", content: 5 } } : undefined);`)
	p.llm.plays(text("fine"))
	d.prompt("go")
	require.Zero(t, d.end())
	for _, event := range []string{"context", "message_end"} {
		found := 0
		for _, line := range d.output() {
			if v := gjson.Parse(line); v.Get("type").Str == "extension_error" && v.Get("event").Str == event {
				found++
				assert.Equal(t, filepath.Join(p.work, "x.js"), v.Get("extensionPath").Str, line)
			}
		}
		assert.Equal(t, 1, found, event)
	}
}

// TestExtensionTree: extensions summarise the branch that navigate_tree leaves and name
// the place; and hear what a command of the client is about.
func TestExtensionTree(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	d := p.extended(`
		pi.on("session_before_tree", (ev, ctx) => { ctx.ui.notify([ev.preparation.userWantsSummary, typeof ev.preparation.oldLeafId, ev.signal.aborted].join(" ")); return { summary: { summary: "went astray", details: { d: 1 } }, label: "back" }; });
		pi.on("user_bash", (ev, ctx) => ctx.ui.notify("bash " + ev.excludeFromContext));
		pi.on("model_select", (ev, ctx) => ctx.ui.notify("model " + ev.source));
		pi.registerCommand("scoped", { handler: (_, ctx) => ctx.ui.notify(ctx.scopedModels.map((m) => m.id).join(" ")) });`, "--models", "mock/*")
	p.llm.plays(text("one"), text("two"))
	d.prompt("go")
	d.prompt("go on")
	entries := d.ok(`{"type":"get_entries"}`).Get("entries").Array()
	var first string
	for _, e := range entries {
		if first == "" && e.Get("message.role").Str == "assistant" {
			first = e.Get("id").Str
		}
	}
	asked := p.llm.count()
	assert.False(t, d.ok(`{"type":"navigate_tree","targetId":"`+first+`","summarize":true}`).Get("cancelled").Bool())
	assert.Equal(t, "true string false", d.ui("notify").Get("message").Str)
	assert.Equal(t, asked, p.llm.count(), "no model was asked for a summary")
	all := d.ok(`{"type":"get_entries"}`).Raw
	assert.Contains(t, all, `"summary":"went astray"`)
	assert.Contains(t, all, `"label":"back"`)
	d.ok(`{"type":"bash","command":"true","excludeFromContext":true}`)
	assert.Equal(t, "bash true", d.ui("notify").Get("message").Str)
	d.ok(`{"type":"cycle_model"}`)
	assert.Equal(t, "model cycle", d.ui("notify").Get("message").Str)
	d.ok(`{"type":"prompt","message":"/scoped"}`)
	assert.Equal(t, "mock-1 think think2", d.ui("notify").Get("message").Str)
}

// TestExtensionPayloads: what events have beside their names is what pi 0.87 gives with them.
func TestExtensionPayloads(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	keepLittle(p)
	d := p.extended(`
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
	p.llm.plays(tool("c1", "bash", `{"command":"echo hi"}`), text(lengthy+lengthy))
	list := said(d.prompt("hello " + strings.Repeat("again ", 50)))
	whole, answered, turn := `["whole","system",true,"user"]`, `["answered","text/event-stream"]`, `["turn",false]`
	assert.Equal(t, []string{whole, answered, turn, whole, answered, turn}, list[len(list)-6:], "the run goes on after tool calls")
	body := p.llm.request(0).body
	assert.Contains(t, body, "ONLY THIS\\n\\nAND THAT")

	until := func(want string) { // fails when no more comes
		t.Helper()
		for d.ui("notify").Get("message").Str != want {
		}
	}
	d.ok(`{"type":"set_model","provider":"mock","modelId":"think"}`)
	until(`["model","set"]`)
	d.ok(`{"type":"set_thinking_level","level":"off"}`)
	d.ok(`{"type":"set_thinking_level","level":"high"}`)
	until(`["level","high","off"]`)
	p.llm.plays(text("more " + lengthy))
	d.prompt("more " + strings.Repeat("again ", 50))
	p.llm.plays(text("summary"), text("summary"))
	d.ok(`{"type":"compact"}`)
	until(`["compact","manual",false,false]`)
	first := d.ok(`{"type":"get_entries"}`).Get(`entries.#(message.role=="user").id`).Str
	d.ok(`{"type":"navigate_tree","targetId":"` + first + `"}`)
	until(`["before",true,true]`)
	until(`["tree","string",true]`)
	d.ok(`{"type":"prompt","message":"/tools"}`)
	until(`["active",["read"]]`)
	d.ok(`{"type":"new_session"}`)
	until(`["start","new","session"]`)
	assert.Equal(t, 1, strings.Count(strings.Join(d.output(), "\n"), `[\"model\",`), "what a session begins with is no event")
	require.Zero(t, d.end())
}

// TestExtensionExecuteTool: a tool calls others, past checks and gates, and what it gets is for it
// alone: the model and the session file have only its own result.
func TestExtensionExecuteTool(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	d := p.extended(`
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
	p.llm.plays(tool("c1", "both", `{}`), text("done"))
	events := d.prompt("go")
	assert.Equal(t, `[["c1/1",false,"patched inner\n","number",true],[true,"not that"],[true,"Validation failed for tool \"bash\":"],[true,"Tool nobody not found"],`+
		`[true,"Tool shy not found"],[true,"Tool task not found"],[false,"patched paid"],true,"bash both pays task"]`, d.result("c1"))
	for _, text := range []string{`[\"c1\",null]`, `[\"c1/1\",\"c1\"]`} {
		assert.Contains(t, strings.Join(d.output(), "\n"), text)
	}
	assert.Equal(t, "c1", d.started("c1/1").Get("parentToolCallId").Str)
	assert.NotContains(t, d.ok(`{"type":"get_entries"}`).Raw, "patched inner\\n\"}]", "what a tool has called is in no log")
	d.wait(0, "the end of a call that nobody waits for, which is that of the one that made it", func(v gjson.Result) bool { return v.Get("message").Str == `["left",true]` })
	all := strings.Join(d.output(), "\n")
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
	assert.InDelta(t, 6, d.ok(`{"type":"get_session_stats"}`).Get("cost").Num, 0.1, "with what was called")
	d.ok(`{"type":"prompt","message":"/outside"}`)
	for d.ui("notify").Get("message").Str != `["undefined"]` {
	}

	p.llm.plays(tool("c2", "both", `{}`)) // abort ends what a tool has called, too
	d.ok(`{"type":"prompt","message":"again"}`)
	d.started("c2/1")
	d.ok(`{"type":"abort"}`)
	d.event("agent_settled")
	all = strings.Join(d.output(), "\n")
	assert.Equal(t, strings.Count(all, `"type":"tool_execution_start"`), strings.Count(all, `"type":"tool_execution_end"`))
	require.Zero(t, d.end())
}

// nested are calls that a tool has made, as ids and how they ended.
func nested(calls gjson.Result) string {
	var list []string
	for _, c := range calls.Array() {
		list = append(list, c.Get("id").Str+" "+c.Get("status").Str)
	}
	return strings.Join(list, ", ")
}

// result is the text of the result of a call.
func (d *daemon) result(id string) string {
	d.t.Helper()
	v, _ := d.wait(0, "tool_execution_end "+id, func(v gjson.Result) bool {
		return v.Get("type").Str == "tool_execution_end" && v.Get("toolCallId").Str == id
	})
	return v.Get("result.content.0.text").Str
}

// TestExtensionLogin: a login that auth.json has for a provider of an extension is used as the
// extension says, and the one that it buys is kept with all that is in it.
func TestExtensionLogin(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	model := `{ id: "m1", name: "One", reasoning: false, input: ["text"], cost: { input: 1, output: 2, cacheRead: 0, cacheWrite: 0 }, contextWindow: 100000, maxTokens: 1000 }`
	path := filepath.Join(p.agent(), "auth.json")
	p.write(path, `{"corp":{"type":"oauth","access":"old","refresh":"r1","expires":1,"realm":"east"}}`)
	d := p.extended(`
		let n = 0;
		pi.registerProvider("corp", { baseUrl: "`+p.llm.srv.URL+`", api: "anthropic-messages", models: [`+model+`], oauth: {
			name: "Corp", async login() { throw new Error("nobody is there"); },
			async refreshToken(c, signal) {
				if (c.refresh !== "r1" || signal.aborted) throw new Error("no such login");
				return { access: "new" + ++n, refresh: "r2", expires: Date.now() + 3600000, realm: c.realm };
			},
			getApiKey: (c) => c.realm + "-" + c.access,
			modifyModels: (models, c) => models.map((m) => m.provider === "corp" ? { ...m, name: m.name + " in the " + c.realm } : m),
		} });
		pi.registerCommand("key", { async handler(_, ctx) { ctx.ui.notify(await ctx.modelRegistry.getApiKeyForProvider("corp")); } });`, "--model", "corp/m1")
	assert.Equal(t, "One in the east", d.ok(`{"type":"get_available_models"}`).Get(`models.#(provider=="corp").name`).Str)
	p.llm.plays(text("one"), text("two"))
	d.prompt("go")
	d.prompt("go on")
	assert.Equal(t, "east-new1", p.llm.request(0).header.Get("X-Api-Key"))
	assert.Equal(t, "east-new1", p.llm.request(1).header.Get("X-Api-Key"), "what is good is not bought again")
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	stored := gjson.GetBytes(raw, "corp")
	assert.Equal(t, []string{"oauth", "new1", "r2", "east"}, []string{stored.Get("type").Str, stored.Get("access").Str, stored.Get("refresh").Str, stored.Get("realm").Str})
	d.ok(`{"type":"prompt","message":"/key"}`)
	assert.Equal(t, "east-new1", d.ui("notify").Get("message").Str)

	p.write(path, `{"corp":{"type":"oauth","access":"old","refresh":"spent","expires":1}}`)
	d.ok(`{"type":"set_auto_retry","enabled":false}`)
	events := d.prompt("and now")
	messages := events[len(events)-2].Get("messages").Array()
	assert.Contains(t, messages[len(messages)-1].Get("errorMessage").Str, "no such login")
	raw, err = os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "spent", gjson.GetBytes(raw, "corp.refresh").Str, "what cannot be bought leaves what was there")
	require.Zero(t, d.end())
	assert.NotContains(t, strings.Join(d.output(), "\n"), "does not use")
}

// TestExtensionRefreshModels: a provider whose list lives elsewhere is asked for it, and one that
// fails keeps the list that it has.
func TestExtensionRefreshModels(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	d := p.extended(`
		const model = (id) => ({ id, name: id, reasoning: false, input: ["text"], cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 }, contextWindow: 1000, maxTokens: 100 });
		let n = 0;
		pi.registerProvider("live", { baseUrl: "` + p.llm.srv.URL + `", api: "anthropic-messages", apiKey: "k", models: [model("first")], async refreshModels({ signal }) {
			if (++n === 3) throw new Error("is down");
			return [model("found" + n)];
		} });
		pi.registerCommand("again", { async handler(_, ctx) { await ctx.modelRegistry.refresh(); setTimeout(() => ctx.ui.notify("asked")); } });`)
	live := func() string {
		return d.ok(`{"type":"get_available_models"}`).Get(`models.#(provider=="live")#.id`).Raw
	}
	assert.Equal(t, `["found1"]`, live())
	d.ok(`{"type":"prompt","message":"/again"}`)
	d.ui("notify")
	assert.Equal(t, `["found2"]`, live())
	d.ok(`{"type":"prompt","message":"/again"}`)
	d.ui("notify")
	assert.Equal(t, `["found2"]`, live())
	assert.Contains(t, strings.Join(d.output(), "\n"), `"event":"refresh_models","error":"is down"`)
	require.Zero(t, d.end())
}
