export default function (pi: any) {
	pi.on("session_start", (_e: any, ctx: any) => {
		const entries = ctx.sessionManager.getBranch().filter((e: any) => e.customType === "count");
		ctx.ui.setStatus("count", String(entries.at(-1)?.data.n ?? 0));
	});
	pi.on("agent_start", (_e: any, ctx: any) => {
		const mine = () => ctx.sessionManager.getEntries().filter((e: any) => e.customType === "count");
		pi.appendEntry("count", { n: mine().length + 1 });
		pi.appendEntry("count", { n: mine().length + 1 });
		ctx.ui.notify(JSON.stringify(mine().map((e: any) => e.data.n)));
	});
	pi.on("agent_end", (_e: any, ctx: any) => {
		const c = ctx.sessionManager.buildSessionContext();
		ctx.ui.notify(JSON.stringify({ ids: ctx.sessionManager.getBranch().map((e: any) => e.id), roles: c.messages.map((m: any) => m.role), id: ctx.sessionManager.getHeader().id, tree: ctx.sessionManager.getTree().length }));
	});
}
