package link

import (
	"github.com/asynkron/protoactor-go/actor"

	"troupe/protocol"
)

// What a router and the owner of logins say to each other. The owner knows routers and
// no clients: what a client is to hear, its router writes.
type (
	// AuthJoin makes a router known: it is told of changes from now on.
	AuthJoin struct{ Router *actor.PID }
	// AuthCommand is a command about credentials. The answer is an AuthAnswer.
	AuthCommand struct {
		Router  *actor.PID
		Key     int // chosen by the router, to tell its commands apart
		Cmd     protocol.Command
		OpenURL bool // the client has the method open_url
		Secrets bool // and the member secret
		Afar    bool // its person may be at another machine: see conn.LoginsAfar
	}
	AuthAnswer struct {
		Key  int
		Data protocol.Result
		Err  *protocol.Error
	}
	// AuthEvent is for the client of a router.
	AuthEvent struct{ Event protocol.Event }
	// AuthReply is an answer to a dialog of a login.
	AuthReply struct {
		Router *actor.PID
		Answer protocol.ExtensionUIResponse
	}
	// CountUsers asks the parent of sessions how many use each provider. The answer is Users.
	CountUsers struct {
		Key  int // chosen by who asks
		From *actor.PID
	}
	Users struct {
		Key int
		Of  map[string]int // by provider
	}
	// AuthLeave says that a router sends nothing more: its logins end, and are answered.
	AuthLeave struct{ Router *actor.PID }
)

// LoginDialog is what the ids of dialogs begin with that belong to a login, and so to no
// session.
const LoginDialog = "login-"
