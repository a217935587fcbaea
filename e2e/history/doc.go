// Package history records what clients of a daemon said and heard, and checks
// it against the promises of the design. It knows the wire and the session
// file, and nothing of how either comes about, so the same checkers judge the
// actors in a bubble of fake time, the built binary, and a history typed by hand.
//
// # Checkers
//
// The names are those of docs/reliability.md.
//
//	S1   every command has exactly one answer, and no answer is without a command
//	S2   runs, turns, messages, tools and retries nest and close; a settled run says nothing more
//	S3   seq rises by one per session, where the feature is on
//	S4   accepted input is delivered, returned or still queued, once, in order
//	S5   every tool call that began has one end, and every stored call one result
//	S6   session files parse, are one tree, and only ever grow
//	S8   nothing of one session shows in another
//	S9   after an abort is answered its run is over
//	S10  a tool that needs consent runs at most once per consent
//	S11  every output line is one JSON object in valid UTF-8 and holds no secret
//	L1   at the end every run is settled
//
// S7 and S12, and L2 to L5, are about things that are not on the wire; the
// harnesses check them where they can be seen.
package history
