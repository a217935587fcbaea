let loading = "";
export default function (pi: any) {
	try { pi.sendMessage({ customType: "x", content: "y" }); } catch (e: any) { loading = e.message; }
	pi.registerFlag("plan", { type: "boolean", default: false });
	pi.registerFlag("preset", { type: "string", default: "none" });
	const early = pi.getFlag("preset");
	pi.registerProvider("mine", { baseUrl: "http://x", api: "mine-api", apiKey: "k", models: [{ id: "m" }], refreshModels: async (model: any, n: number) => ({ model, n: n + 1 }) });
	pi.on("agent_start", async (_e: any, ctx: any) => {
		pi.sendMessage({ customType: "note", content: "hello", display: false }, { triggerTurn: true });
		pi.sendMessage({ customType: "old", content: "h" }, true);
		pi.sendUserMessage("do it", { deliverAs: "steer" });
		pi.setSessionName("named");
		pi.setActiveTools(["read"]);
		pi.setThinkingLevel("high");
		pi.setLabel("e1", "here");
		ctx.abort();
		const ok = await pi.setModel({ provider: "p", id: "m" });
		ctx.ui.notify(JSON.stringify({ loading, early, plan: pi.getFlag("plan"), preset: pi.getFlag("preset"), other: pi.getFlag("other"), name: pi.getSessionName(), tools: pi.getActiveTools(), level: pi.getThinkingLevel(), ok, label: ctx.sessionManager.getLabel("e1") }));
		let where = "";
		try { ctx.newSession(); } catch (e: any) { where = e.message; }
		ctx.ui.notify(where);
	});
}
