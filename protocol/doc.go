// Package protocol is the vocabulary of troupe: commands and their answers,
// events, the messages of a conversation, the entries of a session file, models,
// errors and limits. It decides nothing and imports nothing of ours; every other
// room imports it.
//
// The tables [Commands] and [Events] have one row for each word a client writes
// or reads; decoding, dispatch, the schema and the reference are derived from
// them. How a connection writes the words is another room: package pi.
//
// # Ordering promises
//
//   - Commands of one session take effect in the order they were written.
//   - The acceptance of a message is written before the first event of its run.
//   - Events of a run nest: agent_start … agent_end around turn_start …
//     turn_end around message_start … message_end and tool_execution_start …
//     tool_execution_end, and every start has its end, also after an abort, an
//     error or a crash.
//   - agent_settled follows the last run that an accepted input caused, after
//     every retry, compaction and queued message, and is never missing.
//   - What an event shows is in the session file before the event is written.
//   - Records of different sessions interleave; those of one never reorder.
//
// # Error classes
//
// A failure carries a sentence in "error" (the words of the protocol's seed
// documents where they have some) and a stable word in "code": see [Code].
package protocol
