import { Type } from "@sinclair/typebox";
import { StringEnum } from "@mariozechner/pi-ai";

export default function (pi: any) {
	pi.registerTool({
		name: "hello",
		label: "Hello",
		description: "Greets",
		parameters: Type.Object({ name: Type.String({ description: "who" }), times: Type.Optional(Type.Number()), tone: Type.Optional(StringEnum(["warm", "cold"] as const)) }),
		async execute(_id: string, params: any, signal: AbortSignal, onUpdate: any, ctx: any) {
			onUpdate({ content: [{ type: "text", text: "thinking" }] });
			return { content: [{ type: "text", text: `Hello, ${params.name}${"!".repeat(params.times ?? 1)} from ${ctx.cwd}` }], details: { aborted: signal.aborted } };
		},
	});
}
