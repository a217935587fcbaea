export default function (pi: any) {
	pi.on("user_bash", (event: any) => {
		if (event.command === "vim") return { result: { output: "(interactive)", exitCode: 1, cancelled: false, truncated: false } };
		if (event.command === "bad") return { nonsense: true };
		if (event.command === "far") {
			return {
				operations: {
					async exec(command: string, cwd: string, { onData }: any) {
						onData(Buffer.from(`${command} in `));
						onData(cwd);
						return { exitCode: 3 };
					},
				},
			};
		}
	});
	// A message grows: every handler sees the whole of it, and always the same object.
	let first: any;
	pi.on("message_update", (event: any, ctx: any) => {
		first ??= event.message;
		ctx.ui.notify(JSON.stringify([event.message.content, first === event.message]));
	});
}
