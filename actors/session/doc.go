// Package session is the core of troupe: the rules of one conversation as a
// pure state machine. [Machine.Step] takes an input and returns effects; it
// knows no actors, files, clocks, goroutines or models. Time and numbers come
// with inputs, so the same inputs always give the same effects.
//
// The shell around a Machine (actors.Session) performs effects strictly in
// slice order and turns what comes of them into inputs.
//
// # States
//
//	          prompt, steer, follow_up
//	idle ------------------------------> streaming <-----------+
//	 ^                                    |  |   answer with    | all calls
//	 |  answer without calls,             |  |   tool calls     | answered
//	 |  nothing queued                    |  +--------------> tools
//	 +------------------------------------+                     |
//	 |                                    | retryable error     | abort
//	 |            delay over              v                     |
//	 |        +---------------------- retrying                  |
//	 |        +--> streaming              | abort, exhausted    |
//	 +------------------------------------+---------------------+
//
// A session-replacing command (new_session, switch_session, fork, clone) adds
// the state switching: later commands wait until the other session is loaded.
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
//  5. After [CancelRun] of a run number, no input with that number has an
//     effect.
//  6. [Append] precedes the [Emit] or [Reply] that shows it.
//  7. Loading the log yields the machine's branch.
//  8. Step never blocks, returns no error and is deterministic.
package session
