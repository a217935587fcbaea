package conn

import (
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/link"
	"troupe/protocol"
)

// asked are the commands about credentials that wait for their answer. Their lines are
// credited when they are handed on: a login takes as long as a person does.
type asked struct {
	waiting map[int]listing
	made    int
}

// maxAsked bounds the commands about credentials of one connection that wait.
const maxAsked = 32

// joinLogins has the owner of logins tell of changes.
func (r *router) joinLogins(c actor.Context) {
	r.asked.waiting = map[int]listing{}
	if r.server.Logins != nil {
		c.Send(r.server.Logins, link.AuthJoin{Router: c.Self()})
	}
}

// leaveLogins ends the logins of this connection; they are answered.
func (r *router) leaveLogins(c actor.Context) {
	if r.server.Logins != nil {
		c.Send(r.server.Logins, link.AuthLeave{Router: c.Self()})
	}
}

// askLogins hands on a command about credentials.
func (r *router) askLogins(c actor.Context, req protocol.Request) {
	switch {
	case r.server.Logins == nil:
		r.answer(c, req, nil, protocol.CodeUnsupported.Errorf("There are no credentials here"))
		return
	case r.cfg.Logins == LoginsNone && changesLogins(req.Cmd):
		r.answer(c, req, nil, protocol.CodeForbidden.Errorf("Signing in and out over the network is off: run `troupe login` on the server's machine, or start the server with --allow-login"))
		return
	case len(r.asked.waiting) == maxAsked:
		r.answer(c, req, nil, protocol.CodeOverloaded.Errorf("Too many commands about credentials wait: the limit is %d", maxAsked))
		return
	}
	r.asked.made++
	r.asked.waiting[r.asked.made] = listing{id: req.ID, name: req.Name}
	r.current.release()
	r.current.owed = false
	c.Send(r.server.Logins, link.AuthCommand{
		Router: c.Self(), Key: r.asked.made, Cmd: req.Cmd,
		OpenURL: r.out.Wire.Has(protocol.FeatureOpenURL), Secrets: r.out.Wire.Has(protocol.FeatureSecretInput), Afar: r.cfg.Logins == LoginsAfar,
	})
}

// changesLogins says whether a command about credentials does more than ask.
func changesLogins(cmd protocol.Command) bool {
	switch cmd.(type) {
	case protocol.GetAuth, protocol.GetLoginProviders:
		return false
	}
	return true
}

// authAnswer answers one.
func (r *router) authAnswer(c actor.Context, m link.AuthAnswer) {
	of, waits := r.asked.waiting[m.Key]
	if !waits {
		return
	}
	delete(r.asked.waiting, m.Key)
	r.respond(c, of.id, of.name, m.Data, m.Err)
	r.maybeDrained(c)
}

// answersLogin leads the answer to a dialog of a login past the sessions.
func (r *router) answersLogin(c actor.Context, req protocol.Request) bool {
	if r.server.Logins == nil || !answersLogin(req) {
		return false
	}
	c.Send(r.server.Logins, link.AuthReply{Router: c.Self(), Answer: req.Cmd.(protocol.ExtensionUIResponse)})
	r.answer(c, req, nil, nil)
	return true
}

// answersLogin says whether a command answers what a login has asked, which is no session's.
func answersLogin(req protocol.Request) bool {
	answer, is := req.Cmd.(protocol.ExtensionUIResponse)
	return is && strings.HasPrefix(answer.ID, link.LoginDialog)
}
