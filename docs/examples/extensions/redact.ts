// Takes keys out of what tools give back, before the model or the session file sees them.
import type { ExtensionAPI } from "@mariozechner/pi-coding-agent";

const KEY = /sk-[A-Za-z0-9]{8,}/g;

export default function (pi: ExtensionAPI) {
  pi.on("tool_result", async (event) => {
    const content = event.content.map((part) => (part.type === "text" ? { ...part, text: part.text.replace(KEY, "sk-…") } : part));
    return { content };
  });
}
