export default function (pi: any) {
	pi.registerCommand("ask", {
		description: "Asks everything",
		handler: async (args: string, ctx: any) => {
			const picked = await ctx.ui.select("Which?", ["a", "b"]);
			const typed = await ctx.ui.input("Name", "your name", { timeout: 1000 });
			const text = await ctx.ui.editor("Edit", "");
			ctx.ui.setStatus("mine", "");
			ctx.ui.setStatus("mine", undefined);
			ctx.ui.setWidget("w", ["one", "two"], { placement: "belowEditor" });
			ctx.ui.setTitle("title");
			ctx.ui.setEditorText("text");
			ctx.ui.notify(JSON.stringify({ args, picked, typed, text, custom: await ctx.ui.custom(() => {}), theme: ctx.ui.theme.fg("accent", "plain") }));
		},
	});
	pi.registerCommand("fail", {
		handler: async () => {
			const inner = () => {
				throw new TypeError("command broke");
			};
			inner();
		},
	});
	pi.registerCommand("new", {
		handler: async (_args: string, ctx: any) => {
			const r = await ctx.newSession({ setup: async (sm: any) => sm.appendMessage({ role: "user", content: "hi" }) });
			ctx.ui.notify("cancelled " + r.cancelled);
		},
	});
	pi.registerCommand("signal", {
		handler: async (_args: string, ctx: any) => {
			const stop = new AbortController();
			setTimeout(() => stop.abort(), 1);
			ctx.ui.notify("got " + (await ctx.ui.confirm("Sure?", "really", { signal: stop.signal })));
		},
	});
}
