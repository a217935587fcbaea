import type { ExtensionAPI } from "@mariozechner/pi-coding-agent";

// Blocks rm, asks about sudo, rewrites ls, and breaks on "throw".
export default function (pi: ExtensionAPI) {
	pi.on("tool_call", async (event, ctx) => {
		if (event.toolName !== "bash") return;
		const command: string = event.input.command;
		if (command.startsWith("rm")) return { block: true, reason: "no rm here" };
		if (command === "long") return { block: true, reason: "x".repeat(1e6) };
		if (command === "huge") await ctx.ui.select("many", Array(5e4).fill("an option of some length"));
		if (command.startsWith("throw")) throw new Error("the gate broke");
		if (command.startsWith("sudo") && !(await ctx.ui.confirm("Dangerous", command))) return { block: true };
		if (command === "ls") event.input.command = "ls -l";
	});
}
