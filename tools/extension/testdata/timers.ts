export default function (pi: any) {
	pi.on("agent_start", (_e: any, ctx: any) => {
		let n = 0;
		const each = setInterval(() => {
			if (++n === 3) {
				clearInterval(each);
				ctx.ui.notify("three");
			}
		}, 5);
		clearTimeout(setTimeout(() => ctx.ui.notify("never"), 1));
		queueMicrotask(() => ctx.ui.notify("micro"));
		setTimeout(() => { throw new Error("timer broke"); }, 1);
	});
}
