// Package kernel runs actors: it decides on which goroutine a mailbox or a job
// runs, what becomes of an actor that crashes, and where injected faults strike.
// Goroutines and timers of actors are started here and nowhere else.
//
// Mailboxes run on the goroutines of a pool. Those that a line of input makes
// ready are run by the goroutine that has read the line; if that takes long,
// another goroutine reads on. So a command while nothing else goes on is the
// work of one thread.
package kernel
