// A custom tool as until pi 0.34: a factory that gives what it made.
export default (pi: any) => ({
	name: "old", label: "Old", description: "old", parameters: { type: "object", properties: {} },
	async execute(_id: string, _p: any, onUpdate: any, ctx: any) { onUpdate?.({ content: [] }); return { content: [{ type: "text", text: pi.cwd + " " + ctx.hasUI }] }; },
	onSession(event: any, ctx: any) { ctx.ui.notify("session " + event.reason); },
});
