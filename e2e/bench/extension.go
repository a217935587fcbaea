//go:build linux

package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"troupe/e2e/figures"
)

// tenExtensions writes ten extensions as people write them, each with a module of
// Node's, a tool with a schema, a command, a flag and handlers, and gives the
// arguments that load them.
func (p *place) tenExtensions() (args []string) {
	for i := range 10 {
		path := filepath.Join(p.home, fmt.Sprintf("ext%d.ts", i))
		p.write(path, strings.ReplaceAll(`
import { existsSync } from "node:fs";
import { join } from "node:path";
import { Type } from "@sinclair/typebox";

interface Kept { seen: number; at: string }

export default function (pi: any) {
  let kept: Kept = { seen: 0, at: "" };
  pi.registerFlag("flag_N", { description: "A flag", type: "boolean", default: false });
  pi.registerTool({
    name: "tool_N", label: "Tool _N", description: "Counts what it was shown",
    parameters: Type.Object({ text: Type.String({ description: "What" }), times: Type.Optional(Type.Number()) }),
    async execute(_id: string, params: { text: string }) {
      kept.seen += params.text.length;
      return { content: [{ type: "text", text: String(kept.seen) }], details: kept };
    },
  });
  pi.registerCommand("command_N", { description: "Says that it is there", handler: async (_args: string, ctx: any) => ctx.ui.notify("there") });
  pi.on("session_start", async (_event: unknown, ctx: any) => {
    kept = { seen: 0, at: existsSync(join(ctx.cwd, ".git")) ? "repository" : "directory" };
    for (const entry of ctx.sessionManager.getEntries()) if (entry.type === "custom" && entry.customType === "kept_N") kept = entry.data;
  });
  pi.on("tool_call", async (event: any) => { if (event.tool_Name === "tool_N" && event.input.text === "") return { block: true, reason: "empty" }; });
}
`, "_N", strconv.Itoa(i)))
		args = append(args, "-e", path)
	}
	return args
}

// extensionCall says in one go that the extensions are there.
const extensionCall = `{"id":"x","type":"prompt","message":"/command9"}`

// runExtensions measures a start with ten extensions that were compiled before.
func runExtensions(x *sampler) values {
	with := how{args: x.tenExtensions()}
	q := x.start(x.agent, with)
	q.send(extensionCall)
	q.until(`"there"`)
	q.end()
	q = x.start(x.agent, with)
	q.send(extensionCall)
	q.until(`"there"`)
	wall := time.Since(q.spawned)
	time.Sleep(500 * time.Millisecond)
	rss := q.memoryOfAll()
	q.end()
	q = x.start(x.agent, with)
	q.call(`{"type":"get_state"}`) // which waits for none of them
	return values{"wall": figures.MS(wall), "rss": rss, "state": figures.MS(time.Since(q.spawned))}
}

// runHook measures a message that goes past a handler and no further.
func runHook(x *sampler) values {
	path := filepath.Join(x.home, "hook.ts")
	x.write(path, `export default (pi) => { pi.on("input", async (event) => event.text === "past" ? { action: "handled" } : undefined); }`)
	q := x.start(x.agent, how{args: []string{"-e", path}})
	var d []time.Duration
	for i := range x.scale(3000, 600) {
		begun := time.Now()
		q.call(`{"type":"prompt","message":"past"}`)
		if took := time.Since(begun); i >= 100 {
			d = append(d, took)
		}
	}
	return values{"p50": figures.US(figures.P50(d)), "p99": figures.US(figures.Quantile(d, 0.99))}
}

// runExtensionMemory measures what a session with ten extensions costs.
func runExtensionMemory(x *sampler) values {
	q := x.ready(x.agent, how{args: x.tenExtensions()})
	q.send(extensionCall)
	q.until(`"there"`)
	time.Sleep(500 * time.Millisecond)
	before := q.memoryOfAll()
	const n = 50
	for _, id := range x.opens(q, n) {
		q.send(`{"id":"x","type":"prompt","message":"/command9","sessionId":"` + id + `"}`)
		q.until(`"there"`)
	}
	time.Sleep(time.Second)
	return values{"each": (q.memoryOfAll() - before) / n}
}

// memoryOfAll is the resident memory of a process and those that it has started.
func (p *proc) memoryOfAll() float64 {
	all := p.memory()
	for _, pid := range figures.Children(p.pid()) {
		all += figures.PrivateMemory(pid)
	}
	return all
}
