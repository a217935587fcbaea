// Rewrites what a person types: "?" in front asks for a short answer, "ping" is answered at once.
import type { ExtensionAPI } from "@mariozechner/pi-coding-agent";

export default function (pi: ExtensionAPI) {
  pi.registerFlag("brief", { description: "Always ask for short answers", type: "boolean", default: false });
  pi.on("input", async (event, ctx) => {
    if (event.text === "ping") {
      ctx.ui.notify("pong", "info");
      return { action: "handled" };
    }
    if (event.text.startsWith("?")) return { action: "transform", text: `In one sentence: ${event.text.slice(1).trim()}` };
  });
  pi.on("before_agent_start", async (event) => {
    if (pi.getFlag("brief")) return { systemPrompt: `${event.systemPrompt}\n\nAnswer in one sentence.` };
  });
}
