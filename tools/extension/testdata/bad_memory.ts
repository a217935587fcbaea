export default function (pi: any) {
	pi.on("turn_end", () => {
		const keep: any[] = ((globalThis as any).keep = []);
		for (;;) keep.push(new Array(1000).fill(1));
	});
	pi.on("agent_end", (_e: any, ctx: any) => ctx.ui.notify("next"));
}
