export default function (pi: any) {
	pi.registerCommand("exec", {
		handler: async (args: string, ctx: any) => {
			const stop = new AbortController();
			const r =
				args === "ok" ? await pi.exec("sh", ["-c", "printf out; printf err >&2; exit 3"])
				: args === "missing" ? await pi.exec("no-such-program", [])
				: args === "timeout" ? await pi.exec("sleep", ["1000"], { timeout: 20 })
				: args === "crash" ? await pi.exec("sh", ["-c", "kill -SEGV $$"])
				: args === "cut" ? await pi.exec("sh", ["-c", "printf 1234567890"], { maxBuffer: 4 })
				: await (setTimeout(() => stop.abort(), 20), pi.exec("sleep", ["1000"], { signal: stop.signal }));
			ctx.ui.notify(JSON.stringify(r));
		},
	});
}
