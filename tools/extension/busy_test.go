package extension

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	words "troupe/protocol/extension"
)

// busySource is an extension that is busy in every way: it computes until a file is there,
// loops, waits for a program without a break, computes piece by piece, and never answers.
const busySource = `
	import { existsSync } from "node:fs";
	import { execFileSync } from "node:child_process";
	const work = (until, n = Infinity) => { for (let i = 0; i < n && !existsSync(until); i++); };
	export default (pi) => {
		const command = (name, f) => pi.registerCommand(name, { handler: async (a, ctx) => {
			ctx.ui.notify(name + " begins");
			f(a);
			ctx.ui.notify(name + " ends");
		} });
		command("compute", work);
		command("loop", () => { for (;;); });
		command("wait", (a) => execFileSync("sh", ["-c", 'until test -e "$0"; do sleep 0.01; done', a]));
		pi.registerTool({ name: "pieces", description: "", parameters: { type: "object" }, execute: async (id, { until }, signal, onUpdate, ctx) => {
			ctx.ui.notify("pieces begins");
			while (!signal.aborted) { work(until, 1000); await new Promise((r) => setTimeout(r, 0)); }
			ctx.ui.notify("pieces is aborted");
			return { content: [] };
		} });
		pi.on("tool_call", (e) => { if (e.input.never) return new Promise(() => {}); return { block: true, reason: "no" }; });
		pi.on("before_agent_start", async (e, ctx) => { if (await ctx.ui.confirm("go?")) return { systemPrompt: "yes" }; });
	};`

// second opens another VM in the host of a world.
func (w *world) second(path string) *world {
	other := &world{t: w.t, host: w.host, dir: w.dir, more: make(chan struct{}, 1), opened: make(chan struct{})}
	other.vm = told{w.host.Open(words.Spec{Cwd: w.dir, Reason: "startup", Entries: []words.Entry{{Path: path}}}, other.sink)}
	close(other.opened)
	other.ready = wait[words.Ready](other)
	return other
}

// TestBusySession: whatever the extensions of one session do without a break, those of another
// one in the same process go on: their calls, what is cancelled, their limits, their end. The
// busy one hears of an abort as soon as it takes a break.
func TestBusySession(t *testing.T) {
	newHost = childHost
	defer func() { newHost = inlineHost }()
	path := filepath.Join(t.TempDir(), "busy.ts")
	require.NoError(t, os.WriteFile(path, []byte(busySource), 0o600))
	gate := func(never bool) string {
		input, err := json.Marshal(map[string]bool{"never": never})
		require.NoError(t, err)
		return `{"type":"tool_call","toolName":"bash","toolCallId":"c","input":` + string(input) + `}`
	}
	o := testOptions()
	o.Limits.Turn, o.Limits.Hook = patience, time.Second
	a := loadSpec(t, words.Spec{}, o, path)
	for _, name := range []string{"compute", "wait", "pieces"} {
		done := filepath.Join(a.dir, name)
		begun := a.id()
		if name == "pieces" {
			a.vm.Tool(begun, words.ToolCall{ID: "c1", Name: name, Args: json.RawMessage(`{"until":"` + done + `"}`)})
		} else {
			a.vm.Command(begun, name, done)
		}
		require.Equal(t, name+" begins", a.notice())

		b := a.second(path) // it is loaded meanwhile, too
		for range 50 {
			require.JSONEq(t, `{"block":true,"reason":"no"}`, string(b.call(gate(false)).Result), name)
		}
		id := b.id()
		b.vm.Call(id, json.RawMessage(`{"type":"before_agent_start","prompt":"p"}`))
		asked := wait[words.Op](b)
		b.vm.CancelCall(id)
		require.Equal(t, asked.ID, wait[words.OpCancel](b).ID, name)
		require.True(t, b.call(gate(true)).TimedOut, name)
		b.vm.Close("quit")
		wait[words.Gone](b)

		// The busy one itself.
		if name == "pieces" {
			a.vm.CancelTool(begun)
			require.Equal(t, "pieces is aborted", a.notice())
			wait[words.ToolDone](a)
			continue
		}
		id = a.id()
		a.vm.Call(id, json.RawMessage(`{"type":"before_agent_start","prompt":"p"}`))
		a.vm.CancelCall(id)
		require.NoError(t, os.WriteFile(done, nil, 0o600))
		require.Equal(t, name+" ends", a.notice())
		require.Equal(t, begun, wait[words.CommandDone](a).ID)
	}
}

// TestBusySessionEnds: one that loops is cut short at its limit while another one works, and
// works again itself.
func TestBusySessionEnds(t *testing.T) {
	newHost = childHost
	defer func() { newHost = inlineHost }()
	path := filepath.Join(t.TempDir(), "busy.ts")
	require.NoError(t, os.WriteFile(path, []byte(busySource), 0o600))
	a := loadSpec(t, words.Spec{}, impatient(), path)
	b := a.second(path)
	looping := a.id()
	a.vm.Command(looping, "loop", "")
	require.Equal(t, "loop begins", a.notice())
	const event = `{"type":"tool_call","toolName":"bash","toolCallId":"c","input":{}}`
	id := a.id()
	a.vm.Call(id, json.RawMessage(event))
	a.vm.AbortRun()
	require.JSONEq(t, `{"block":true,"reason":"no"}`, string(b.call(event).Result))
	over := wait[words.CommandDone](a)
	require.Equal(t, looping, over.ID)
	require.Contains(t, over.Err, "interrupted")
	got := wait[words.Done](a)
	require.Equal(t, id, got.ID)
	require.JSONEq(t, `{"block":true,"reason":"no"}`, string(got.Result))
}
