// A tool of its own, with arguments that are checked before it runs.
import type { ExtensionAPI } from "@mariozechner/pi-coding-agent";
import { Type } from "@sinclair/typebox";

export default function (pi: ExtensionAPI) {
  pi.registerTool({
    name: "hello",
    label: "Hello",
    description: "Greets somebody by name.",
    parameters: Type.Object({ name: Type.String({ description: "Whom to greet." }) }),
    async execute(_id, params, _signal, onUpdate) {
      onUpdate?.({ content: [{ type: "text", text: "clearing my throat" }], details: {} });
      return { content: [{ type: "text", text: `Hello, ${params.name}!` }], details: { greeted: params.name } };
    },
  });
}
