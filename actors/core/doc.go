// Package core is the core of troupe: the rules of one conversation as a pure
// state machine. [Machine.Step] takes inputs and returns effects; it knows no
// actors, files, clocks, goroutines or models. Time comes with the inputs, and so
// does a [Log], which gives new entries their ids; the same inputs always give the
// same effects.
//
// # Activities
//
// A machine does one thing at a time. Commands of the client's shell run beside
// it, and so does loading a session to switch to.
//
//	activity        what it waits for               ends with
//	idle            a command
//	streaming       the model's answer              idle, runningTools, streaming, retrying, compacting
//	runningTools    results, consent                streaming, compacting, idle
//	retrying        the delay before a request      streaming, compacting, idle
//	compacting      a summary of older history      what it was in the way of: streaming, idle, retrying
//	leavingBranch   a summary of the branch left    activating, idle
//	activating      another session, or branch      idle
//	asking          extensions, where a turn ends   streaming, compacting, retrying, idle
//
// A run (agent_start … agent_end) is several activities: it begins in startRun,
// whatever its cause, and ends in endRun, which decides what follows by itself.
// agent_settled says that nothing does.
//
// What an activity has begun outside the machine carries its [Attempt]; results
// of another attempt change nothing.
//
// A machine's state comes from three places: what the log says (conversation),
// what clients chose and the log does not say (choices), and what goes on.
//
// # Laws
//
// Each law is a test of this package, and is checked again over the histories
// of the actor tests and of the built binary.
//
//  1. Every command gets exactly one answer.
//  2. agent_start … agent_end, turn_start … turn_end, message_start …
//     message_end and tool_execution_start … tool_execution_end nest and close,
//     also after abort, error and crash.
//  3. Every tool call has one result before the next assistant message, in call
//     order.
//  4. Steers are delivered in the order sent, follow-ups likewise, steers
//     first.
//  5. After [Cancel] of an attempt, no input with that attempt has an effect.
//  6. [Append] precedes the [Emit] or [Reply] that shows it.
//  7. Loading the log yields the machine's conversation, after every step and also
//     after an entry that could not be written.
//  8. Step never blocks, returns no error and is deterministic.
package core
