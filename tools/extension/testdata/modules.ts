import { readFileSync, writeFileSync } from "node:fs";
import { spawn } from "node:child_process";
import * as path from "path";
import { complete } from "@mariozechner/pi-ai";
import { createReadTool, getAgentDir, truncateTail } from "@earendil-works/pi-coding-agent";
import { Text, visibleWidth } from "@mariozechner/pi-tui";

// What extensions import and use most.
export default function (pi: any) {
	const command = (name: string, f: (args: string, ctx: any) => Promise<unknown>) =>
		pi.registerCommand(name, { handler: async (args: string, ctx: any) => ctx.ui.notify(JSON.stringify(await f(args, ctx))) });
	command("files", async (_args, ctx) => {
		writeFileSync(path.join(ctx.cwd, "f"), "text");
		const read = await createReadTool(ctx.cwd).execute("c", { path: "f" });
		return [readFileSync(path.join(ctx.cwd, "f"), "utf8"), read.content[0].text, truncateTail("a\nb", { maxLines: 1 }).content, typeof getAgentDir(), visibleWidth("ä"), new Text("x").constructor.name];
	});
	command("spawn", () => new Promise((resolve) => {
		const child = spawn("sh", ["-c", "cat; exit 3"]);
		let out = "";
		child.stdout.on("data", (d: Buffer) => (out += d));
		child.on("close", (code: number) => resolve([out, code]));
		child.stdin.end("typed");
	}));
	command("fetch", async (url) => {
		const r = await fetch(url, { method: "POST", body: JSON.stringify({ a: 1 }), headers: { "content-type": "application/json" } });
		const bad = await fetch("http://127.0.0.1:1/").catch((e) => e.name);
		return [r.status, r.headers.get("x-seen"), await r.json(), bad];
	});
	command("complete", async (_args, ctx) => (await complete(ctx.model, { messages: [{ role: "user", content: "hi", timestamp: 0 }] }, {})).content);
	command("clone", async () => structuredClone({ when: new Date(0), bytes: new Uint8Array([1]).length, url: new URL("http://x/y?z=1").searchParams.get("z"), text: new TextDecoder().decode(new TextEncoder().encode("ü")) }));
}
