package extension

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"troupe/e2e/need"
	words "troupe/protocol/extension"
)

// inNode loads an extension in Node.
func inNode(t *testing.T, o Options, source string) *world {
	t.Helper()
	need.Program(t, "node")
	o.Engine = EngineNode
	newHost = func(_ *testing.T, o Options) words.Host { return NewInline(o) }
	defer func() { newHost = inlineHost }()
	path := filepath.Join(t.TempDir(), "x.ts")
	require.NoError(t, os.WriteFile(path, []byte(source), 0o600))
	return loadSpec(t, words.Spec{}, o, path)
}

func (w *world) notices() (list []string) {
	for _, a := range w.acts("ui") {
		var r struct{ Message string }
		require.NoError(w.t, json.Unmarshal([]byte(a), &r))
		list = append(list, r.Message)
	}
	return list
}

// What only Node has is there.
func TestNode(t *testing.T) {
	w := inNode(t, testOptions(), `
		import http from "node:http"; import vm from "node:vm"; import { Worker } from "node:worker_threads"; import { createRequire } from "node:module";
		import { Type } from "typebox"; import { truncateToWidth } from "@earendil-works/pi-tui";
		enum Kind { One = "one" }
		export default function (pi: any) {
			pi.registerCommand("go", { handler: async (args: string, ctx: any) => {
				const server = http.createServer((q, a) => a.end("served " + q.url)).listen(0, "127.0.0.1");
				await new Promise((done) => server.once("listening", done));
				const text = await (await fetch("http://127.0.0.1:" + (server.address() as any).port + "/x")).text();
				server.close();
				const answer = await new Promise((done) => new Worker("require('worker_threads').parentPort.postMessage(6 * 7)", { eval: true }).on("message", done));
				const dynamic = await import(["node", "os"].join(":"));
				const tui = createRequire(import.meta.url)("@mariozechner/pi-tui");
				ctx.ui.notify([text, answer, vm.runInNewContext("1 + 1"), Kind.One, Type.String().type, truncateToWidth("abc", 2, ""), typeof dynamic.homedir, typeof tui.Text, process.cwd() === ctx.cwd, args].join(" "));
				ctx.ui.notify(await ctx.ui.select("which", ["a", "b"]));
				try { process.exit(1); } catch (e: any) { ctx.ui.notify(e.message.slice(0, 14)); }
				ctx.ui.notify((await pi.exec("echo", ["hi"])).stdout.trim());
			} });
			pi.on("tool_call", async (e: any) => { e.input.seen = true; });
		}`)
	require.Empty(t, w.ready.Errors)
	w.vm.Command(1, "go", "now")
	op := wait[words.Op](w)
	w.vm.Answer(op.ID, json.RawMessage(`{"value":"b"}`), "")
	require.Empty(t, wait[words.CommandDone](w).Err)
	require.Equal(t, []string{"served /x 42 2 one string ab\x1b[0m function function true now", "b", "process.exit()", "hi"}, w.notices())
	require.JSONEq(t, `{"input":{"a":1,"seen":true}}`, string(w.call(`{"type":"tool_call","toolName":"x","input":{"a":1}}`).Result))
}

// An extension decides by what it imports where all of its session run; packages count only
// with addons.
func TestNodeIsChosen(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	says := func(name, head string) string {
		return write(name+".ts", head+"\nexport default (pi: any) => pi.on('turn_start', (e: any, ctx: any) => ctx.ui.notify('"+name+" ' + (process.release.lts === 'Jod' ? 'quick' : 'node')));")
	}
	write("node_modules/plain/index.js", `try { require("worker_threads"); } catch {} exports.x = 1;`)
	write("node_modules/plain/package.json", `{"name":"plain"}`)
	write("node_modules/native/index.js", `exports.file = () => require.resolve("./build/Release/a.node"); exports.load = () => require("./build/Release/a.node");`)
	write("node_modules/native/package.json", `{"name":"native","gypfile":true}`)
	write("node_modules/native/build/Release/a.node", "no addon")
	plain := says("plain", `import { x } from "plain"; void x;`)
	for want, list := range map[string][]string{
		"quick":  {plain},
		"node":   {says("direct", `import http from "node:http"; void http.createServer;`)},
		"node 2": {plain, says("asks", "// @troupe-host node")},
		"node 3": {plain, says("addon", `import { file } from "native"; if (!file().endsWith("a.node")) throw new Error(file());`)},
		"quick2": {write("stays.ts", "// @troupe-host quick\nimport http from 'node:http'; export default (pi: any) => pi.on('turn_start', (e: any, ctx: any) => ctx.ui.notify('stays ' + (process.release.lts === 'Jod' ? 'quick' : 'node')));")},
	} {
		t.Run(want, func(t *testing.T) {
			if strings.HasPrefix(want, "node") {
				need.Program(t, "node")
			}
			o := testOptions()
			o.Engine, o.CacheDir = EngineAuto, filepath.Join(dir, "cache")
			for range 2 { // bundled, and from the cache
				w := loadSpec(t, words.Spec{}, o, list...)
				require.Empty(t, w.ready.Errors)
				w.tell(`{"type":"turn_start"}`)
				for _, said := range w.notices() {
					require.Contains(t, said, want[:4])
				}
				require.Len(t, w.notices(), len(list))
			}
		})
	}

	t.Setenv("TROUPE_NODE", "/nowhere/node")
	o := testOptions()
	o.Engine = EngineAuto
	w := loadSpec(t, words.Spec{}, o, says("addon2", `import { file } from "native"; void file;`))
	require.Contains(t, w.ready.Errors[0].Message, "needs Node.js")
	o.Engine = EngineNode
	w = loadSpec(t, words.Spec{}, o, says("gate", `// tool_call`))
	require.Contains(t, w.ready.Errors[0].Message, "Node.js was not found")
	require.Equal(t, []string{"tool_call"}, w.ready.Errors[0].Gates)
}

// What breaks in Node ends nothing but that life of the extensions. The limits leave the time to a
// machine that is busy in which Node begins; what runs into one does so in three sessions at once.
func TestNodeThatBreaks(t *testing.T) {
	const source = `
		import { exec, execSync } from "node:child_process";
		export default function (pi: any) {
			pi.on("agent_start", () => { for (;;); });
			pi.on("agent_end", (e: any, ctx: any) => ctx.ui.notify("alive"));
			pi.on("turn_start", () => { const all = []; for (;;) all.push(new Array(1e6).fill(Math.random())); });
			pi.on("turn_end", (e: any, ctx: any) => { execSync("sleep 2.5"); ctx.ui.notify("slept"); });
			pi.on("message_start", () => { void Promise.reject(new Error("nobody cares")); });
			pi.on("message_end", () => { setTimeout(() => { throw new Error("in a timer"); }); });
			pi.on("context", () => new Promise(() => {}));
			pi.on("tool_call", () => new Promise(() => { setTimeout(() => {}, 1e6); }));
			pi.on("model_select", () => { (Array.prototype as any).push = (Array.prototype as any).map = (Promise.prototype as any).then = JSON.stringify = null as any; });
			pi.on("input", async (e: any, ctx: any) => {
				await new Promise((done) => exec("until test -e go; do sleep 0.02; done", { cwd: ctx.cwd }, done));
				return { action: "handled" };
			});
		}`
	o := testOptions()
	o.Limits.Turn, o.Limits.Memory, o.Limits.Recycles = 2*time.Second, 64<<20, 10
	short := o
	short.Limits.Hook = 2 * time.Second // less than the program takes that another session waits for

	w, waits, hooks := inNode(t, o, source), inNode(t, o, source), inNode(t, short, source)
	w.vm.Tell(w.id(), json.RawMessage(`{"type":"agent_start"}`))
	waits.vm.Tell(waits.id(), json.RawMessage(`{"type":"turn_end"}`))
	input := hooks.id()
	hooks.vm.Call(input, json.RawMessage(`{"type":"input"}`))
	hooks.vm.Call(hooks.id(), json.RawMessage(`{"type":"context"}`))
	hooks.vm.Call(hooks.id(), json.RawMessage(`{"type":"tool_call","input":{}}`))

	wait[words.Ready](w) // it begins anew
	require.Contains(t, w.failures(), words.Failure{Path: "<runtime>", Event: "agent_start", Message: "interrupted: it ran for 2s without a break"})
	w.tell(`{"type":"agent_end"}`)
	require.Equal(t, []string{"alive"}, w.notices())

	wait[words.Told](waits)
	require.Equal(t, []string{"slept"}, waits.notices(), "who waits for a program computes nothing")

	for range 2 { // a promise alone, and a timer
		done := wait[words.Done](hooks)
		require.NotEqual(t, input, done.ID, "a handler that waits for a program has time")
		require.True(t, done.TimedOut)
	}
	require.NoError(t, os.WriteFile(filepath.Join(hooks.dir, "go"), nil, 0o600))
	require.JSONEq(t, `{"action":"handled"}`, string(wait[words.Done](hooks).Result))

	w.tell(`{"type":"message_start"}`)
	require.Equal(t, "nobody cares", wait[words.Failure](w).Message)
	w.call(`{"type":"message_end"}`)
	require.Equal(t, "in a timer", wait[words.Failure](w).Message)

	w.vm.Tell(w.id(), json.RawMessage(`{"type":"turn_start"}`))
	wait[words.Ready](w)
	w.tell(`{"type":"agent_end"}`)
	require.Contains(t, show(w.said), "out of memory")

	w.tell(`{"type":"model_select"}`)
	w.tell(`{"type":"agent_end"}`)
	require.Equal(t, []string{"alive", "alive", "alive"}, w.notices(), "the realm is changed, and the way into it is not")
}

// TestNodeThatIsKilled: what was asked of it is over then, and it begins anew.
func TestNodeThatIsKilled(t *testing.T) {
	o := testOptions() // with its patience: the machine may take its time to end a process
	o.Limits.Recycles = 10
	w := inNode(t, o, `
		import { execSync } from "node:child_process";
		export default function (pi: any) {
			pi.on("agent_end", (e: any, ctx: any) => { void execSync; ctx.ui.notify("alive"); });
			pi.on("tool_call", () => new Promise(() => { setTimeout(() => {}, 1e6); }));
		}`)
	var n *nodeEngine
	w.host.(*Inline).mu.Lock()
	for v := range w.host.(*Inline).vms {
		n = v.realm.engine.(*nodeEngine)
	}
	w.host.(*Inline).mu.Unlock()
	id := w.id()
	w.vm.Call(id, json.RawMessage(`{"type":"tool_call","input":{}}`))
	require.NoError(t, n.proc.Signal(syscall.SIGKILL))
	require.Contains(t, wait[words.Done](w).Err, "Node.js ended: killed")
	wait[words.Ready](w)
	w.tell(`{"type":"agent_end"}`)
	require.Equal(t, []string{"alive"}, w.notices())
}
