// Package relay leads a client to sessions of other nodes of a cluster: its lines go there as
// it has written them, and what these nodes write comes back as it is. One relay belongs to
// one connection, and has one wire to each node where the client has sessions.
//
// A relay knows little of what it passes on. It looks for the session of a line, waits for one
// that nobody owns, remembers which lines are not answered, and where a node is lost it says
// those again that may come twice: the same line, with the same id. It never relays what comes
// from another relay, so that a line goes one hop.
package relay
