// Package worker does the jobs of a session that have an end: a stream of a
// model, a tool call, a command of the client, a summary, a delay, a dialog. A job
// runs on a goroutine and tells its session what comes of it, in inputs of the
// machine that carry the number they were started with. A worker that panics is
// not restarted: its job gets an error result.
package worker
