// A hook as until pi 0.30: one event for the life of a session.
export default function (pi: any) {
	pi.on("session", (event: any, ctx: any) => {
		ctx.ui.notify("session " + event.reason);
		if (event.reason === "before_new") return { cancel: true };
	});
}
