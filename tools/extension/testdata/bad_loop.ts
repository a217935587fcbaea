export default function (pi: any) {
	pi.on("agent_start", () => { try { for (;;); } catch { } });
	pi.on("tool_call", async () => { await 1; for (;;); });
	pi.on("turn_start", () => {
		const again = (): void => void Promise.resolve().then(again);
		for (let i = 0; i < 10; i++) again(); // an interrupt that hits one of them ends only that
	});
	pi.on("agent_end", (_e: any, ctx: any) => ctx.ui.notify("alive"));
}
