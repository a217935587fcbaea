// Package session is the shell around one machine of actors/core: it turns
// messages into inputs of the machine, and the machine's effects into entries of
// a log, workers and records for clients. It decides nothing that the machine
// could decide. The parent of all sessions is here, too.
//
// # Supervision
//
// A session that panics is restarted at once from its log. What it owed its
// clients is answered by its guard, which lives outside the actor; what it had
// begun on the wire is closed by its successor. After more than [MaxRestarts]
// panics within [RestartWindow] the session is given up: its clients are told
// session_failed, its commands are answered with that code, and everything else
// in the process goes on.
package session
