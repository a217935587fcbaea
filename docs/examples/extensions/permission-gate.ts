// Asks before a shell command that deletes, and blocks it unless somebody says yes.
import type { ExtensionAPI } from "@mariozechner/pi-coding-agent";

export default function (pi: ExtensionAPI) {
  pi.on("tool_call", async (event, ctx) => {
    if (event.toolName !== "bash" || !/\brm\b/.test(String(event.input.command))) return;
    const yes = await ctx.ui.confirm("Delete?", String(event.input.command));
    if (!yes) return { block: true, reason: "Blocked by user" };
  });
}
