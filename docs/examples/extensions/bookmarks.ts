// A command that keeps its state in the session: /bookmark NAME, and /bookmarks to list.
import type { ExtensionAPI } from "@mariozechner/pi-coding-agent";

export default function (pi: ExtensionAPI) {
  pi.registerCommand("bookmark", {
    description: "Remember where we are",
    handler: async (args, ctx) => {
      pi.appendEntry("bookmark", { name: args.trim() || "unnamed" });
      ctx.ui.notify(`Bookmarked: ${args.trim() || "unnamed"}`, "info");
    },
  });
  pi.registerCommand("bookmarks", {
    description: "List what was remembered",
    handler: async (_args, ctx) => {
      const names = ctx.sessionManager.getEntries()
        .filter((e) => e.type === "custom" && e.customType === "bookmark")
        .map((e) => (e as { data: { name: string } }).data.name);
      ctx.ui.notify(names.join(", ") || "none", "info");
    },
  });
}
