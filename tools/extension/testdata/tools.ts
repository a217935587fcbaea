const parameters = { type: "object", properties: { text: { type: "string" } } };
const tool = (name: string, execute: any, more = {}) => ({ name, label: name, description: name, parameters, execute, ...more });

export default function (pi: any) {
	pi.registerTool(tool("middle", async (_id: string, p: any, onUpdate: any, _ctx: any, signal: AbortSignal) => {
		onUpdate({ content: [{ type: "text", text: "update" }] });
		return `${p.text} ${signal.aborted}`;
	}));
	pi.registerTool(tool("nothing", async () => undefined));
	pi.registerTool(tool("throws", async () => { throw new Error("tool broke"); }));
	pi.registerTool(tool("says_error", async () => ({ content: [{ type: "text", text: "bad" }], isError: true })));
	pi.registerTool(tool("waits", (_id: string, _p: any, signal: AbortSignal) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("stopped"))))));
	pi.registerTool(tool("late", async (_id: string, _p: any, _signal: any, onUpdate: any) => { setTimeout(() => onUpdate({ content: [] }), 1); return "done"; }));
	pi.registerTool(tool("prepared", async (_id: string, p: any) => p.text, { prepareArguments: (a: any) => ({ text: a.txt ?? a.text }) }));
	pi.registerTool(tool("shaped", async (_id: string, p: any) => ({ content: [], structuredContent: { n: p.text === "5" ? 5 : p.text } }),
		{ outputSchema: { type: "object", properties: { n: { type: "number" } }, required: ["n"] } }));
	pi.registerCommand("more", { handler: async () => pi.registerTool(tool("more", async () => "more", { defaultActive: false })) });
}
