// Everything that an extension can show or ask over RPC, each as a command. What a
// dialog gave comes back as a notice.
export default function (pi) {
  const said = (ctx, name, value) => ctx.ui.notify(name + ": " + JSON.stringify(value ?? null));
  const asks = {
    select: (ctx, o) => ctx.ui.select("Which?", ["a", "b"], o),
    confirm: (ctx, o) => ctx.ui.confirm("Sure?", "Really?", o),
    input: (ctx, o) => ctx.ui.input("Name?", "your name", o),
    bare: (ctx, o) => ctx.ui.input("Name?", undefined, o),
    editor: (ctx) => ctx.ui.editor("Text?", "a\nb"),
  };
  for (const [name, ask] of Object.entries(asks)) {
    pi.registerCommand(name, { handler: async (args, ctx) => {
      const controller = new AbortController();
      const options = args === "timeout" ? { timeout: 20 } : args === "signal" ? { signal: controller.signal } : undefined;
      const answer = ask(ctx, options);
      if (args === "signal") controller.abort();
      said(ctx, name, await answer);
    } });
  }
  pi.registerCommand("several", { handler: async (args, ctx) => {
    said(ctx, "several", await Promise.all([asks.select(ctx), asks.confirm(ctx), asks.input(ctx)]));
  } });
  const shows = {
    notify: (ui) => { ui.notify("plain"); ui.notify("careful", "warning"); ui.notify("broken", "error"); },
    status: (ui) => { ui.setStatus("k", "text"); ui.setStatus("k", ""); ui.setStatus("k", undefined); },
    widget: (ui) => { ui.setWidget("w", ["one", "two"], { placement: "belowEditor" }); ui.setWidget("w", []); ui.setWidget("w", undefined); ui.setWidget("w", () => ({ render: () => [] })); },
    title: (ui) => ui.setTitle("a title"),
    prefill: (ui) => { ui.setEditorText("typed"); ui.pasteToEditor("pasted"); },
    nothing: (ui) => {
      ui.setWorkingMessage("x"); ui.setFooter(() => ({})); ui.setHeader(() => ({})); ui.setEditorComponent(() => ({}));
      const off = ui.onTerminalInput(() => {}); off();
    },
  };
  for (const [name, show] of Object.entries(shows)) {
    pi.registerCommand(name, { handler: async (args, ctx) => { show(ctx.ui); said(ctx, name, ctx.ui.theme.fg("accent", "plain text")); } });
  }
  pi.registerCommand("custom", { handler: async (args, ctx) => {
    said(ctx, "custom", [await ctx.ui.custom(() => { throw new Error("drawn"); }), ctx.ui.getEditorText(), ctx.ui.getAllThemes(), ctx.ui.setTheme("dark").success, ctx.hasUI]);
  } });
  pi.registerCommand("throws", { handler: async () => { throw new Error("on purpose"); } });
  pi.registerTool({
    name: "ask", label: "Ask", description: "Asks", parameters: { type: "object", properties: {} },
    execute: async (id, params, signal, onUpdate, ctx) => ({ content: [{ type: "text", text: String(await asks.confirm(ctx, { signal })) }], details: {} }),
  });
  pi.on("tool_call", async (event, ctx) => {
    if (event.toolName === "bash" && !(await ctx.ui.confirm("Run?", event.input.command))) return { block: true, reason: "not allowed" };
  });
}
