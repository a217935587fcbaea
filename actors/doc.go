// Package actors is the daemon: connections and sessions, wired together.
// The rooms below it import downward only:
//
//	conn, session → toolbox → worker → link → kernel, core
//
//	core     the pure machine: what a conversation does
//	kernel   goroutines, timers, dispatchers, supervision
//	link     what connections and sessions tell each other
//	worker   jobs with an end: stream, tool call, command, summary, delay, dialog
//	toolbox  the tools there are, whoever runs them
//	logins   who signs in
//	session  the shell of one session, and the parent of all
//	conn     reader, router, writer
//
// # Tree
//
//	daemon                 decides about the end of the process
//	├─ sessions            supervises sessions: always restarts, never stops them
//	│   └─ <handle>        one session: its guard outermost, core.Machine inside
//	│       ├─ turn/<attempt>  tool/<attempt>/<call>  bash/<job>  one per job
//	│       └─ retry  ui                                          spawned when first needed
//	├─ logins              answers about credentials, leads the dialogs of logins
//	└─ conn<n>             one per client; its end, a failure too, is nobody else's
//	    └─ reader  router  writer
//
// # Paths
//
// Everything a client says takes one path, reader → router → session, and
// everything it hears takes one, session → writer, so the order of messages is
// the order of mailboxes. Workers answer their session with core.Inputs that
// carry the attempt that they belong to. No message overtakes another:
// there is no side door, not even for abort.
//
// # Messages
//
//	family     direction           examples
//	lines      reader → router     line, lineTooLong, inputClosed
//	commands   router → session    link.Request (a core.Command and where to answer)
//	results    worker → session    worker.StreamParts, core.ToolDone, …
//	output     any → writer        link.Records
//	household                      link.SpawnSession, link.SessionSpawned, link.Closing, link.Closed
//
// # Tests
//
// Tests of the whole daemon are in packages below scenario, by subject. They run it in fake time by
// packages scenario/harness (one daemon) and scenario/nodetest (nodes of a cluster), with the models,
// tools and disks of package actortest.
package actors
