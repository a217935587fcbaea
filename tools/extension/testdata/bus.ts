export default function (pi: any) {
	pi.events.on("ping", (data: any) => pi.events.emit("pong", { ...data, seen: true }));
	pi.events.on("ping", () => { throw new Error("listener broke"); });
	pi.events.on("ping", async () => { throw new Error("promise broke"); });
	const off = pi.events.on("gone", () => pi.events.emit("pong", "never"));
	off();
	pi.on("agent_start", (_e: any, ctx: any) => {
		pi.events.on("pong", (data: any) => ctx.ui.notify(JSON.stringify(data)));
		pi.events.emit("ping", { n: 1 });
		pi.events.emit("gone", {});
	});
}
