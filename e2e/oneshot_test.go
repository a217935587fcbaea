package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

func (p *place) mock(args ...string) []string {
	return append([]string{"--provider", "mock", "--model", "mock-1"}, args...)
}

func TestPrint(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("notes.txt", "remember the milk")
	p.llm.plays(tool("c1", "bash", `{"command":"echo made > made.txt"}`), text("The ", "answer."), text("Second."))
	out, errs, code := p.once("piped: ", p.mock("-p", "@notes.txt", "what is it?", "and then?")...)
	assert.Zero(t, code, errs)
	assert.Equal(t, "Second.\n", out)
	first := p.llm.request(0).body
	assert.Contains(t, first, "piped: ")
	assert.Contains(t, first, "remember the milk")
	assert.Contains(t, first, "what is it?")
	assert.Contains(t, p.llm.request(2).body, "and then?")
	made, err := os.ReadFile(filepath.Join(p.work, "made.txt"))
	require.NoError(t, err)
	assert.Equal(t, "made\n", string(made))

	p.write("handled.ts", `export default (pi) => pi.on("input", (event) => event.text === "mine" ? { action: "handled" } : undefined)`)
	p.llm.plays(text("Theirs."))
	out, errs, code = p.once("", p.mock("-p", "-e", filepath.Join(p.work, "handled.ts"), "theirs", "mine")...)
	assert.Zero(t, code, errs)
	assert.Equal(t, "Theirs.\n", out, "what an extension has dealt with has no answer to wait for")

	p.llm.plays(fail(400, `{"error":{"message":"no such thing"}}`))
	out, errs, code = p.once("", p.mock("-p", "x")...)
	assert.Equal(t, 1, code)
	assert.Empty(t, out)
	assert.Contains(t, errs, "no such thing")
	_, errs, code = p.once("", p.mock("-p")...)
	assert.Equal(t, 2, code)
	assert.Contains(t, errs, "message")
	_, errs, code = p.once("", p.mock("-p", "@missing.txt")...)
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, "missing.txt")
}

// TestCommandOnce: a command of an extension is over when its handler is, and what it began.
func TestCommandOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("own.ts", `export default (pi) => {
		const commands = {
			say: (args, ctx) => ctx.ui.notify("noted " + args),
			boom: () => { throw new Error("it broke") },
			run: async (args) => { await new Promise((go) => setTimeout(go, 20)); pi.sendUserMessage(args); },
			next: (_, ctx) => ctx.newSession(),
			stop: (_, ctx) => ctx.shutdown(),
		};
		for (const name in commands) pi.registerCommand(name, { handler: commands[name] });
		pi.on("input", (event) => event.text === "/mine" ? { action: "handled" } : undefined);
	}`)
	once := func(args ...string) (out, errs string, code int) {
		return p.once("", p.mock(append(args, "-e", filepath.Join(p.work, "own.ts"))...)...)
	}
	p.llm.plays(text("Theirs."), text("Last."))
	out, errs, code := once("-p", "/say it", "/boom", "/run theirs", "/mine", "last", "/next")
	assert.Zero(t, code, errs)
	assert.Equal(t, "Last.\n", out)
	assert.Contains(t, errs, "noted it\n")
	assert.Contains(t, errs, "it broke")
	assert.Contains(t, p.llm.request(0).body, "theirs")

	p.llm.plays(text("Theirs."))
	out, errs, code = once("-p", "/run theirs")
	assert.Zero(t, code, errs)
	assert.Equal(t, "Theirs.\n", out, "the run of a command is waited for")

	out, errs, code = once("--mode", "json", "/say it", "/stop")
	assert.Zero(t, code, errs)
	assert.Contains(t, errs, "noted it")
	assert.NotContains(t, out, "extension_command_end", "no feature wants it")
}

// TestModesOfExtensions: extensions know that nobody is there who could be asked.
func TestModesOfExtensions(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	own := p.extension("own", `export default (pi) => {
		pi.on("agent_start", async (_, ctx) => {
			for (const show of ["setStatus", "setWidget", "setTitle", "setEditorText"]) ctx.ui[show]("x", ["y"]);
			console.error([ctx.mode, ctx.hasUI, pi.hasUI, await ctx.ui.confirm("Sure?", "")].join(" "));
		});
		pi.on("ui_prompt_start", () => console.error("somebody is asked"));
	}`)
	for want, args := range map[string][]string{"print false false false": {"-p"}, "json false false false": {"--mode", "json"}} {
		p.llm.plays(text("Yes."))
		out, errs, code := p.once("", p.mock(append(args, "hello", "-e", own)...)...)
		assert.Zero(t, code, errs)
		assert.Contains(t, errs, want)
		assert.NotContains(t, errs, "somebody is asked")
		assert.NotContains(t, out, "extension_ui_request")
	}
}

// TestEndOfRunOnce: what extensions send at the end of a run belongs to it: its answer is the last one.
func TestEndOfRunOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.llm.plays(text("First."), text("Second."))
	own := p.extension("own", `let n = 0; export default (pi) => pi.on("agent_end", async (_, ctx) => {
		if (n++) return;
		await new Promise((go) => setTimeout(go, 10));
		console.error("idle " + ctx.isIdle());
		pi.sendUserMessage("go on");
	})`)
	out, errs, code := p.once("", p.mock("-p", "hello", "-e", own)...)
	assert.Zero(t, code, errs)
	assert.Equal(t, "Second.\n", out)
	assert.Contains(t, errs, "idle false")
}

// TestSettledOnce: what they send when the session has settled begins a run that is waited for, and
// comes before the next message.
func TestSettledOnce(t *testing.T) {
	t.Parallel()
	for name, send := range map[string]string{
		"user":   `pi.sendUserMessage("go on")`,
		"custom": `pi.sendMessage({ customType: "own", content: "go on", display: true }, { triggerTurn: true })`,
		"input":  `pi.on("input", () => new Promise((go) => setTimeout(go, 20))); pi.sendUserMessage("go on")`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			own := p.extension("own", `let n = 0; export default (pi) => {
				pi.registerCommand("ask", { handler: (args) => pi.sendUserMessage(args) });
				pi.on("agent_settled", async () => { if (n++ % 2) return; await new Promise((go) => setTimeout(go, 20)); `+send+` });
			}`)
			p.llm.plays(text("First."), text("Second."), text("Third."), text("Fourth."))
			out, errs, code := p.once("", p.mock("-p", "hello", "/ask theirs", "-e", own)...)
			assert.Zero(t, code, errs)
			assert.Equal(t, "Fourth.\n", out)
			assert.NotContains(t, errs, "error")
			for n, said := range []string{"hello", "go on", "theirs", "go on"} {
				assert.Contains(t, gjson.Get(p.llm.request(n).body, "messages.@reverse.0").Raw, said)
			}
		})
	}
}

// TestJSONMode: every event, also with -p, wherever that stands.
func TestJSONMode(t *testing.T) {
	for _, args := range []string{"--mode json hello", "--mode json -p hello", "-p --mode json hello", "-p hello --mode json"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			jsonMode(t, strings.Fields(args))
		})
	}
}

func jsonMode(t *testing.T, args []string) {
	p := newPlace(t)
	p.llm.plays(text("hi"))
	out, errs, code := p.once("", p.mock(args...)...)
	require.Zero(t, code, errs)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	assert.Equal(t, "session", gjson.Get(lines[0], "type").Str)
	var seen []string
	for _, l := range lines[1:] {
		require.True(t, json.Valid([]byte(l)))
		seen = append(seen, gjson.Get(l, "type").Str)
	}
	assert.NotContains(t, seen, "response")
	assert.Equal(t, "agent_start", seen[0])
	assert.Equal(t, "agent_settled", seen[len(seen)-1])
	files, _ := filepath.Glob(filepath.Join(p.agent(), "sessions", "*", "*.jsonl"))
	require.Len(t, files, 1)
	assert.Equal(t, gjson.Get(lines[0], "id").Str, readEntries(t, files[0])[0].Get("id").Str)
}

// TestSessionChoice: --session with the beginning of an id, --fork, --continue
// and --export on a session of an earlier run.
func TestSessionChoice(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.llm.plays(text("one"))
	_, errs, code := p.once("", p.mock("-p", "first")...)
	require.Zero(t, code, errs)
	files, _ := filepath.Glob(filepath.Join(p.agent(), "sessions", "*", "*.jsonl"))
	require.Len(t, files, 1)
	id := readEntries(t, files[0])[0].Get("id").Str

	p.llm.plays(text("two"))
	_, errs, code = p.once("", p.mock("--session", id[:18], "-p", "second")...)
	require.Zero(t, code, errs)
	assert.Contains(t, p.llm.request(1).body, "first")
	before := len(readEntries(t, files[0]))

	p.llm.plays(text("three"))
	_, errs, code = p.once("", p.mock("--fork", id[:18], "-p", "third")...)
	require.Zero(t, code, errs)
	assert.Contains(t, p.llm.request(2).body, "second")
	assert.Len(t, readEntries(t, files[0]), before, "the old session stays as it is")
	files, _ = filepath.Glob(filepath.Join(p.agent(), "sessions", "*", "*.jsonl"))
	require.Len(t, files, 2)

	p.llm.plays(text("four"))
	_, errs, code = p.once("", p.mock("--continue", "-p", "fourth")...)
	require.Zero(t, code, errs)
	assert.Contains(t, p.llm.request(3).body, "third", "the newest session")

	out, errs, code := p.once("", "--export", files[0], "page.html")
	require.Zero(t, code, errs)
	assert.Equal(t, "page.html\n", out)
	page, err := os.ReadFile(filepath.Join(p.work, "page.html"))
	require.NoError(t, err)
	assert.Contains(t, string(page), "<!DOCTYPE html>")

	_, errs, code = p.once("", p.mock("--session", "nope", "-p", "x")...)
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, "nope")
	_, errs, code = p.once("", p.mock("--fork", id, "--continue", "-p", "x")...)
	assert.Equal(t, 2, code)
	assert.Contains(t, errs, "exclude")
	_, errs, code = p.once("", p.mock("--resume", "-p", "x")...)
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, "terminal")
}

func TestSchemaCommand(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	out, _, code := p.once("", "schema")
	require.Zero(t, code)
	assert.True(t, json.Valid([]byte(out)))
	out, _, code = p.once("", "schema", "--ts")
	require.Zero(t, code)
	assert.Contains(t, out, "export type Command_prompt = {")
	_, _, code = p.once("", "schema", "--nope")
	assert.Equal(t, 2, code)
	out, _, code = p.once("", "--list-models", "think")
	require.Zero(t, code)
	assert.Contains(t, out, "think2")
	assert.NotContains(t, out, "chat-1")
}

// TestPrintMax: no dialect keeps the level max from a single run.
func TestPrintMax(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	models := strings.Replace(p.llm.modelsJSON(), `"id":"think",`, `"id":"think","thinkingLevelMap":{"xhigh":"xhigh","max":"max"},`, 1)
	p.write(filepath.Join(p.agent(), "models.json"), models)
	for mode, want := range map[string]string{"text": "max", "json": "max", "rpc": "xhigh"} {
		p.llm.plays(tool("c1", "bash", `{"command":"echo level=$PI_REASONING_LEVEL"}`), text("done"))
		args := []string{"--mode", mode, "--provider", "mock", "--model", "think", "--thinking", "max"}
		n := p.llm.count()
		if mode == "rpc" {
			d := p.startRaw(args...)
			d.prompt("x")
			require.Zero(t, d.end())
			assert.Contains(t, d.errors(), "thinking level max: this dialect has none above xhigh")
		} else {
			_, errs, code := p.once("", append(args, "x")...)
			require.Zero(t, code, errs)
			assert.NotContains(t, errs, "thinking level")
		}
		assert.Contains(t, p.llm.request(n+1).body, "level="+want)
	}
}
