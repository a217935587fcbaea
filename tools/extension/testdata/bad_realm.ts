export default function (pi: any) {
	pi.on("agent_start", () => {
		(Array.prototype as any).push = null;
		(JSON as any).stringify = null;
		(JSON as any).parse = null;
		(Promise.prototype as any).then = null;
		(Map.prototype as any).get = null;
		(Object as any).keys = null;
	});
	pi.on("agent_end", async (_e: any, ctx: any) => {
		await 1;
		ctx.ui.notify("still here");
	});
	pi.on("tool_call", (e: any) => ({ block: true, reason: e.toolName }));
}
