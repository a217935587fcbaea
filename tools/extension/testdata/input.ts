export default function (pi: any) {
	pi.on("input", (event: any, ctx: any) => {
		if (event.text === "ping") {
			ctx.ui.notify("pong", "info");
			return { action: "handled" };
		}
		if (event.text.startsWith("?")) return { action: "transform", text: "Briefly: " + event.text.slice(1) };
		return { action: "continue" };
	});
	pi.on("input", (event: any) => {
		if (event.text.startsWith("Briefly")) return { action: "transform", text: event.text + "!" };
	});
	pi.on("before_agent_start", (event: any) => ({
		message: { customType: "note", content: "first", display: true },
		systemPrompt: event.systemPrompt + " Be kind.",
	}));
	pi.on("before_agent_start", (event: any) => ({ systemPrompt: event.systemPrompt + " Be brief." }));
	pi.on("context", (event: any) => ({ messages: event.messages.filter((m: any) => m.role !== "custom") }));
	pi.on("tool_result", (event: any) => ({ details: { n: (event.details?.n ?? 0) + 1 } }));
	pi.on("tool_result", (event: any) => ({ content: [{ type: "text", text: `n=${event.details.n}` }] }));
	pi.on("message_end", (event: any) => ({ message: { ...event.message, content: event.message.content + "." } }));
	pi.on("message_end", () => ({ message: { role: "user", content: "no" } }));
	pi.on("before_provider_headers", (event: any) => {
		event.headers["x-mine"] = "1";
		event.headers["x-gone"] = null;
	});
	pi.on("session_before_switch", () => ({ cancel: false }));
	pi.on("resources_discover", () => ({ skillPaths: ["/skills"] }));
}
