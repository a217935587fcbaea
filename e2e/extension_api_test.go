package e2e

import (
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
