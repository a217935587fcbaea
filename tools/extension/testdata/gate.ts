import type { ExtensionAPI } from "@mariozechner/pi-coding-agent";

// Blocks rm, asks about sudo, rewrites ls, and breaks on "throw".
export default function (pi: ExtensionAPI) {
	pi.on("tool_call", async (event, ctx) => {
		if (event.toolName !== "bash") return;
		const command: string = event.input.command;
		if (command.startsWith("rm")) return { block: true, reason: "no rm here" };
		if (command === "long") return { block: true, reason: "x".repeat(1e5) };
		if (command === "huge") await ctx.ui.select("many", Array(2e3).fill("an option of some length".repeat(40)));
		if (command.startsWith("throw")) throw new Error("the gate broke");
		if (command.startsWith("sudo") && !(await ctx.ui.confirm("Dangerous", command))) return { block: true };
		if (command === "ls") event.input.command = "ls -l";
	});
}
