package process

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/harness"
)

func TestPrint(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile("notes.txt", "remember the milk")
	p.Model.Enqueue(harness.ToolCall("c1", "bash", `{"command":"echo made > made.txt"}`), harness.Text("The ", "answer."), harness.Text("Second."))
	out, errs, code := p.RunOnce("piped: ", p.ModelArgs("-p", "@notes.txt", "what is it?", "and then?")...)
	assert.Zero(t, code, errs)
	assert.Equal(t, "Second.\n", out)
	first := p.Model.Request(0).Body
	assert.Contains(t, first, "piped: ")
	assert.Contains(t, first, "remember the milk")
	assert.Contains(t, first, "what is it?")
	assert.Contains(t, p.Model.Request(2).Body, "and then?")
	made, err := os.ReadFile(filepath.Join(p.Work, "made.txt"))
	require.NoError(t, err)
	assert.Equal(t, "made\n", string(made))

	p.WriteFile("handled.ts", `export default (pi) => pi.on("input", (event) => event.text === "mine" ? { action: "handled" } : undefined)`)
	p.Model.Enqueue(harness.Text("Theirs."))
	out, errs, code = p.RunOnce("", p.ModelArgs("-p", "-e", filepath.Join(p.Work, "handled.ts"), "theirs", "mine")...)
	assert.Zero(t, code, errs)
	assert.Equal(t, "Theirs.\n", out, "what an extension has dealt with has no answer to wait for")

	p.Model.Enqueue(harness.Fail(400, `{"error":{"message":"no such thing"}}`))
	out, errs, code = p.RunOnce("", p.ModelArgs("-p", "x")...)
	assert.Equal(t, 1, code)
	assert.Empty(t, out)
	assert.Contains(t, errs, "no such thing")
	_, errs, code = p.RunOnce("", p.ModelArgs("-p")...)
	assert.Equal(t, 2, code)
	assert.Contains(t, errs, "message")
	_, errs, code = p.RunOnce("", p.ModelArgs("-p", "@missing.txt")...)
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, "missing.txt")
}

// TestCommandOnce checks that a single run of an extension command ends when the handler and the
// runs it started have ended.
func TestCommandOnce(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile("own.ts", `export default (pi) => {
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
		return p.RunOnce("", p.ModelArgs(append(args, "-e", filepath.Join(p.Work, "own.ts"))...)...)
	}
	p.Model.Enqueue(harness.Text("Theirs."), harness.Text("Last."))
	out, errs, code := once("-p", "/say it", "/boom", "/run theirs", "/mine", "last", "/next")
	assert.Zero(t, code, errs)
	assert.Equal(t, "Last.\n", out)
	assert.Contains(t, errs, "noted it\n")
	assert.Contains(t, errs, "it broke")
	assert.Contains(t, p.Model.Request(0).Body, "theirs")

	p.Model.Enqueue(harness.Text("Theirs."))
	out, errs, code = once("-p", "/run theirs")
	assert.Zero(t, code, errs)
	assert.Equal(t, "Theirs.\n", out, "the run of a command is waited for")

	out, errs, code = once("--mode", "json", "/say it", "/stop")
	assert.Zero(t, code, errs)
	assert.Contains(t, errs, "noted it")
	assert.NotContains(t, out, "extension_command_end", "no feature wants it")
}

// TestModesOfExtensions checks that extensions in a single run see that no user can be asked.
func TestModesOfExtensions(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	own := p.WriteExtension("own", `export default (pi) => {
		pi.on("agent_start", async (_, ctx) => {
			for (const show of ["setStatus", "setWidget", "setTitle", "setEditorText"]) ctx.ui[show]("x", ["y"]);
			console.error([ctx.mode, ctx.hasUI, pi.hasUI, await ctx.ui.confirm("Sure?", "")].join(" "));
		});
		pi.on("ui_prompt_start", () => console.error("somebody is asked"));
	}`)
	for want, args := range map[string][]string{"print false false false": {"-p"}, "json false false false": {"--mode", "json"}} {
		p.Model.Enqueue(harness.Text("Yes."))
		out, errs, code := p.RunOnce("", p.ModelArgs(append(args, "hello", "-e", own)...)...)
		assert.Zero(t, code, errs)
		assert.Contains(t, errs, want)
		assert.NotContains(t, errs, "somebody is asked")
		assert.NotContains(t, out, "extension_ui_request")
	}
}

// TestEndOfRunOnce checks that a message an extension sends in agent_end belongs to the same run.
// Its answer is printed.
func TestEndOfRunOnce(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.Model.Enqueue(harness.Text("First."), harness.Text("Second."))
	own := p.WriteExtension("own", `let n = 0; export default (pi) => pi.on("agent_end", async (_, ctx) => {
		if (n++) return;
		await new Promise((go) => setTimeout(go, 10));
		console.error("idle " + ctx.isIdle());
		pi.sendUserMessage("go on");
	})`)
	out, errs, code := p.RunOnce("", p.ModelArgs("-p", "hello", "-e", own)...)
	assert.Zero(t, code, errs)
	assert.Equal(t, "Second.\n", out)
	assert.Contains(t, errs, "idle false")
}

// TestSettledOnce checks that a message an extension sends in agent_settled starts another run. The
// process waits for it, and it precedes the next message of the command line.
func TestSettledOnce(t *testing.T) {
	t.Parallel()
	for name, send := range map[string]string{
		"user":   `pi.sendUserMessage("go on")`,
		"custom": `pi.sendMessage({ customType: "own", content: "go on", display: true }, { triggerTurn: true })`,
		"input":  `pi.on("input", () => new Promise((go) => setTimeout(go, 20))); pi.sendUserMessage("go on")`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := harness.NewPlace(t)
			own := p.WriteExtension("own", `let n = 0; export default (pi) => {
				pi.registerCommand("ask", { handler: (args) => pi.sendUserMessage(args) });
				pi.on("agent_settled", async () => { if (n++ % 2) return; await new Promise((go) => setTimeout(go, 20)); `+send+` });
			}`)
			p.Model.Enqueue(harness.Text("First."), harness.Text("Second."), harness.Text("Third."), harness.Text("Fourth."))
			out, errs, code := p.RunOnce("", p.ModelArgs("-p", "hello", "/ask theirs", "-e", own)...)
			assert.Zero(t, code, errs)
			assert.Equal(t, "Fourth.\n", out)
			assert.NotContains(t, errs, "error")
			for n, said := range []string{"hello", "go on", "theirs", "go on"} {
				assert.Contains(t, gjson.Get(p.Model.Request(n).Body, "messages.@reverse.0").Raw, said)
			}
		})
	}
}

// TestJSONMode checks that --mode json prints every event, also in combination with -p in any
// order.
func TestJSONMode(t *testing.T) {
	for _, args := range []string{"--mode json hello", "--mode json -p hello", "-p --mode json hello", "-p hello --mode json"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			jsonMode(t, strings.Fields(args))
		})
	}
}

func jsonMode(t *testing.T, args []string) {
	p := harness.NewPlace(t)
	p.Model.Enqueue(harness.Text("hi"))
	out, errs, code := p.RunOnce("", p.ModelArgs(args...)...)
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
	files, _ := filepath.Glob(filepath.Join(p.AgentDir(), "sessions", "*", "*.jsonl"))
	require.Len(t, files, 1)
	assert.Equal(t, gjson.Get(lines[0], "id").Str, harness.ReadEntries(t, files[0])[0].Get("id").Str)
}

// TestSessionChoice checks --session with a prefix of an id, --fork, --continue and --export on a
// session of an earlier run.
func TestSessionChoice(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.Model.Enqueue(harness.Text("one"))
	_, errs, code := p.RunOnce("", p.ModelArgs("-p", "first")...)
	require.Zero(t, code, errs)
	files, _ := filepath.Glob(filepath.Join(p.AgentDir(), "sessions", "*", "*.jsonl"))
	require.Len(t, files, 1)
	id := harness.ReadEntries(t, files[0])[0].Get("id").Str

	p.Model.Enqueue(harness.Text("two"))
	_, errs, code = p.RunOnce("", p.ModelArgs("--session", id[:18], "-p", "second")...)
	require.Zero(t, code, errs)
	assert.Contains(t, p.Model.Request(1).Body, "first")
	before := len(harness.ReadEntries(t, files[0]))

	p.Model.Enqueue(harness.Text("three"))
	_, errs, code = p.RunOnce("", p.ModelArgs("--fork", id[:18], "-p", "third")...)
	require.Zero(t, code, errs)
	assert.Contains(t, p.Model.Request(2).Body, "second")
	assert.Len(t, harness.ReadEntries(t, files[0]), before, "the old session stays as it is")
	files, _ = filepath.Glob(filepath.Join(p.AgentDir(), "sessions", "*", "*.jsonl"))
	require.Len(t, files, 2)

	p.Model.Enqueue(harness.Text("four"))
	_, errs, code = p.RunOnce("", p.ModelArgs("--continue", "-p", "fourth")...)
	require.Zero(t, code, errs)
	assert.Contains(t, p.Model.Request(3).Body, "third", "the newest session")

	out, errs, code := p.RunOnce("", "--export", files[0], "page.html")
	require.Zero(t, code, errs)
	assert.Equal(t, "page.html\n", out)
	page, err := os.ReadFile(filepath.Join(p.Work, "page.html"))
	require.NoError(t, err)
	assert.Contains(t, string(page), "<!DOCTYPE html>")

	_, errs, code = p.RunOnce("", p.ModelArgs("--session", "nope", "-p", "x")...)
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, "nope")
	_, errs, code = p.RunOnce("", p.ModelArgs("--fork", id, "--continue", "-p", "x")...)
	assert.Equal(t, 2, code)
	assert.Contains(t, errs, "exclude")
	_, errs, code = p.RunOnce("", p.ModelArgs("--resume", "-p", "x")...)
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, "terminal")
}

func TestSchemaCommand(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	out, _, code := p.RunOnce("", "schema")
	require.Zero(t, code)
	assert.True(t, json.Valid([]byte(out)))
	out, _, code = p.RunOnce("", "schema", "--ts")
	require.Zero(t, code)
	assert.Contains(t, out, "export type Command_prompt = {")
	_, _, code = p.RunOnce("", "schema", "--nope")
	assert.Equal(t, 2, code)
	out, _, code = p.RunOnce("", "--list-models", "think")
	require.Zero(t, code)
	assert.Contains(t, out, "think2")
	assert.NotContains(t, out, "chat-1")
}

// TestPrintMax checks that the thinking level max is available in single runs, although the default
// dialect of rpc ends at xhigh.
func TestPrintMax(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	models := strings.Replace(p.Model.ModelsJSON(), `"id":"think",`, `"id":"think","thinkingLevelMap":{"xhigh":"xhigh","max":"max"},`, 1)
	p.WriteFile(filepath.Join(p.AgentDir(), "models.json"), models)
	for mode, want := range map[string]string{"text": "max", "json": "max", "rpc": "xhigh"} {
		p.Model.Enqueue(harness.ToolCall("c1", "bash", `{"command":"echo level=$PI_REASONING_LEVEL"}`), harness.Text("done"))
		args := []string{"--mode", mode, "--provider", "mock", "--model", "think", "--thinking", "max"}
		n := p.Model.RequestCount()
		if mode == "rpc" {
			d := p.StartRaw(args...)
			d.Prompt("x")
			require.Zero(t, d.Close())
			assert.Contains(t, d.Stderr(), "thinking level max: this dialect has none above xhigh")
		} else {
			_, errs, code := p.RunOnce("", append(args, "x")...)
			require.Zero(t, code, errs)
			assert.NotContains(t, errs, "thinking level")
		}
		assert.Contains(t, p.Model.Request(n+1).Body, "level="+want)
	}
}

// TestPrintRetries checks that a single run says on stderr that it repeats a request, as for a server that refuses
// connections.
func TestPrintRetries(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile(filepath.Join(p.AgentDir(), "settings.json"), `{"retry":{"maxRetries":2,"baseDelayMs":1,"provider":{"maxRetries":0}}}`)
	p.WriteModels(`{"providers":{"gone":{"baseUrl":"http://127.0.0.1:1","apiKey":"k","api":"openai-completions","models":[{"id":"m"}]}}}`)
	out, errs, code := p.RunOnce("", "-p", "--model", "gone/m", "go")
	assert.Equal(t, 1, code)
	assert.Empty(t, out)
	assert.Contains(t, errs, "troupe: the request failed, retry 1 of 2 in 1ms: ")
	assert.Contains(t, errs, "troupe: the request failed, retry 2 of 2 in 2ms: ")
	assert.Contains(t, errs, "127.0.0.1:1")
}
