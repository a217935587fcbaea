// Package actors is the shells: it turns lines into commands, commands into
// inputs of a session.Machine, and the machine's effects into entries of a log,
// requests to a model, child processes and lines. It decides nothing that the
// machine could decide, and is the only importer of protoactor.
//
// # Tree
//
//	system
//	├─ sessions            supervises sessions: always restarts, never stops them
//	│   └─ <handle>        one session: ledger outermost, Machine inside
//	│       ├─ turn/<run>  tool/<run>/<call>  bash/<job>     one per job
//	│       └─ retry  ui                                     spawned when first needed
//	└─ conn/<n>            a failure ends the connection, not the process
//	    └─ reader  router  writer
//
// # Paths
//
// Everything a client says takes one path, reader → router → session, and
// everything it hears takes one, session → writer, so the order of messages is
// the order of mailboxes. Workers answer their session with session.Inputs that
// carry the run number they were started with. No message overtakes another:
// there is no side door, not even for abort.
//
// # Threads
//
// Mailboxes run on the goroutines of a crew, but for those that a line of input
// sets off: the goroutine that has read it runs these, and is relieved from
// reading if that takes long. A command while nothing else goes on is the work
// of one thread.
//
// # Messages
//
//	family     direction           examples
//	lines      reader → router     line, lineTooLong, inputClosed
//	commands   router → session    request (a session.Command and where to answer)
//	results    worker → session    session.StreamParts, session.ToolDone, …
//	output     any → writer        records
//	household                      spawnSession, sessionSpawned, closing, closed, status
//
// # Supervision
//
// A session that panics is restarted at once from its log. What it owed its
// clients is answered by the ledger, which lives outside the actor; what it had
// begun on the wire is closed by its successor. After more than [MaxRestarts]
// panics within [RestartWindow] the session is given up: its clients are told
// session_failed, its commands are answered with that code, and everything else
// in the process goes on. A worker that panics is not restarted: its job gets an
// error result.
package actors
