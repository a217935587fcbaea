export default function (pi: any) {
	pi.on("agent_start", () => {
		Promise.reject(new Error("nobody cares"));
		const later = Promise.reject(new Error("somebody does"));
		Promise.resolve().then(() => later.catch(() => {}));
	});
	pi.on("agent_end", () => { throw new Error("handler broke"); });
	pi.on("agent_end", (_e: any, ctx: any) => ctx.ui.notify("next"));
	pi.on("turn_start", () => new Promise(() => {}));
	pi.on("tool_call", () => new Promise(() => {}));
	pi.on("session_before_tree", () => {
		const circle: any = {};
		circle.circle = circle;
		return { summary: circle };
	});
	pi.on("turn_end", () => new ArrayBuffer(2 ** 31));
}
