// Package protocol is the vocabulary of troupe: the lines a client writes and
// reads, the messages of a conversation, and the entries of a session file.
// It decides nothing and imports nothing of ours; every other room imports it.
//
// # Framing
//
// Both directions carry UTF-8 JSON, one object per line, ended by LF. A CR
// before the LF is dropped on input. U+2028 and U+2029 are ordinary characters
// and never end a line. Blank lines are ignored. An input line above the limit
// ([DefaultMaxLine] unless the daemon is told otherwise) costs one error and
// nothing else: reading goes on after its LF. Bytes after the last LF at the
// end of input are a line.
//
// # Envelope
//
// A command is an object with a string "type" (the command's name) and an
// optional "id", which may be any JSON value and is echoed verbatim in the one
// response the command gets. Everything else in the object is a parameter;
// unknown members are ignored, and of duplicates the last one counts, as in
// JavaScript.
//
// A line that is not JSON is answered with command "parse" and an error that
// begins "Failed to parse command: "; a JSON value without a string "type" with
// "Missing command type"; an unknown type with "Unknown command: NAME". The
// answers to the first two carry no id, but in pi 1.x that to a missing type.
//
// # Ordering promises
//
//   - Commands of one session take effect in the order they were written.
//   - A command's acceptance is written before the first event it causes.
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
