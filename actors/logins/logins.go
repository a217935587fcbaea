// Package logins is where connections ask about credentials: one actor a process, which
// has everything done that takes long, and leads the questions of a login to the client
// that asked for it, and to no other.
package logins

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/kernel"
	"troupe/actors/link"
	"troupe/protocol"
	"troupe/providers"
)

// owner is the actor.
type owner struct {
	logins   providers.Logins
	sessions *actor.PID // their parent
	routers  map[string]*actor.PID
	running  map[job]running        // commands under way
	open     map[string]*dialog     // by id
	counting map[int]done           // reports that wait for who uses what
	due      map[string]*time.Timer // renewals to come, by provider
	made     int                    // dialogs and reports
}

// job is a command of a router.
type job struct {
	router string
	key    int
}

// dialog waits for one answer of one client.
type dialog struct {
	router  string
	options []string // of a select; nil for any text
	answer  chan<- protocol.ExtensionUIResponse
}

type (
	// done is the end of a command.
	done struct {
		of     job
		router *actor.PID
		answer link.AuthAnswer
	}
	// ask opens a dialog, or without an answer just tells something.
	ask struct {
		router  *actor.PID
		request protocol.ExtensionUIRequest
		answer  chan<- protocol.ExtensionUIResponse
	}
	// over closes a dialog.
	over struct {
		of chan<- protocol.ExtensionUIResponse
	}
	// told is for everybody.
	told struct{ event protocol.Event }
	// due asks for a login to be renewed when a time has passed, renewal when it has.
	due struct {
		provider string
		in       time.Duration
	}
	renewal struct{ provider string }
	renewed struct{}
)

// Props describes the actor.
func Props(k *kernel.Kernel, logins providers.Logins, sessions *actor.PID) *actor.Props {
	o := &owner{
		logins: logins, sessions: sessions, counting: map[int]done{}, due: map[string]*time.Timer{},
		routers: map[string]*actor.PID{}, running: map[job]running{}, open: map[string]*dialog{},
	}
	return k.KeepAlive(o, "logins", kernel.RetryMessage)
}

func (o *owner) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		root, self := c.ActorSystem().Root, c.Self()
		o.logins.Watch(providers.LoginWatch{
			Tell: func(ev protocol.Event) { root.Send(self, told{ev}) },
			Due:  func(provider string, in time.Duration) { root.Send(self, due{provider, in}) },
		})
	case *actor.Stopping:
		o.logins.Watch(providers.LoginWatch{})
		for _, timer := range o.due {
			timer.Stop()
		}
		for _, r := range o.running {
			r.cancel(providers.ErrLoginCancelled)
		}
	case link.AuthJoin:
		o.routers[m.Router.Id] = m.Router
	case link.AuthLeave:
		o.leave(m.Router)
	case link.AuthCommand:
		o.command(c, m)
	case link.AuthReply:
		o.reply(m)
	case ask:
		o.ask(c, m)
	case over:
		maps.DeleteFunc(o.open, func(_ string, d *dialog) bool { return d.answer == m.of })
	case done:
		o.done(c, m)
	case link.Users:
		o.counted(c, m)
	case due:
		if before := o.due[m.provider]; before != nil {
			before.Stop()
		}
		o.due[m.provider] = kernel.After(c, m.in, c.Self(), renewal{m.provider})
	case renewal:
		delete(o.due, m.provider)
		kernel.Background(c, func() any {
			o.logins.Renew(context.Background(), m.provider)
			return renewed{}
		})
	case told:
		for _, router := range o.routers {
			c.Send(router, link.AuthEvent{Event: m.event})
		}
	}
}

// running is a command that is being carried out.
type running struct {
	cancel context.CancelCauseFunc
	login  bool // it needs its client
}

// done answers a command, a report with how many sessions use each provider.
func (o *owner) done(c actor.Context, m done) {
	delete(o.running, m.of)
	if _, is := m.answer.Data.(protocol.AuthReport); is {
		o.made++
		o.counting[o.made] = m
		c.Send(o.sessions, link.CountUsers{Key: o.made, From: c.Self()})
		return
	}
	c.Send(m.router, m.answer)
}

// counted answers a report that has waited for this.
func (o *owner) counted(c actor.Context, m link.Users) {
	of, waits := o.counting[m.Key]
	if !waits {
		return
	}
	delete(o.counting, m.Key)
	report := protocol.AuthReport{Providers: slices.Clone(of.answer.Data.(protocol.AuthReport).Providers)}
	for i := range report.Providers {
		report.Providers[i].UsedBy = m.Of[report.Providers[i].ID]
	}
	of.answer.Data = report
	c.Send(of.router, of.answer)
}

// leave ends the logins of a client that is gone. What else it has asked for is done: a
// logout needs nobody.
func (o *owner) leave(router *actor.PID) {
	delete(o.routers, router.Id)
	for of, r := range o.running {
		if of.router == router.Id && r.login {
			r.cancel(providers.ErrLoginCancelled)
		}
	}
}

// command has a command carried out, elsewhere: files are read, vendors are asked.
func (o *owner) command(c actor.Context, m link.AuthCommand) {
	of := job{m.Router.Id, m.Key}
	if _, twice := o.running[of]; twice {
		return
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	_, isLogin := m.Cmd.(protocol.Login)
	o.running[of] = running{cancel, isLogin}
	p := &person{root: c.ActorSystem().Root, self: c.Self(), router: m.Router, openURL: m.OpenURL, secrets: m.Secrets, afar: m.Afar}
	kernel.Background(c, func() any {
		defer cancel(nil)
		data, err := o.carryOut(ctx, m.Cmd, p)
		if err != nil {
			data = nil
		}
		return done{of, m.Router, link.AuthAnswer{Key: m.Key, Data: data, Err: err}}
	})
}

// carryOut runs on a goroutine of its own.
func (o *owner) carryOut(ctx context.Context, cmd protocol.Command, p *person) (protocol.Result, *protocol.Error) {
	switch cmd := cmd.(type) {
	case protocol.GetAuth:
		report := o.logins.Auth(cmd.Provider)
		if cmd.Provider != "" && len(report.Providers) == 0 {
			return nil, protocol.CodeInvalidParams.Errorf("Unknown provider: %s", cmd.Provider)
		}
		return report, nil
	case protocol.GetLoginProviders:
		return providersOf(o.logins.Auth("")), nil
	case protocol.Login:
		if p.afar {
			var err *protocol.Error
			if cmd, err = o.fromAfar(cmd); err != nil {
				return nil, err
			}
		}
		if err := p.refuses(cmd); err != nil {
			return nil, err
		}
		return o.logins.Login(ctx, cmd, p)
	case protocol.CancelLogin:
		if !o.logins.CancelLogin(cmd.Provider) {
			return nil, protocol.CodeNotFound.Errorf("No login for %s is in progress", cmd.Provider)
		}
		return nil, nil
	case protocol.Logout:
		return o.logins.Logout(ctx, cmd.Provider, cmd.Revoke == nil || *cmd.Revoke)
	}
	return nil, protocol.CodeUnsupported.Errorf("%T is not about credentials", cmd)
}

// fromAfar is a login as a client may have it whose person may be at another machine:
// a browser there does not come back here, a port here is not opened for somebody
// there, and what is stored as a key is known to no vendor, and may be a command.
func (o *owner) fromAfar(how protocol.Login) (protocol.Login, *protocol.Error) {
	if how.Key != "" || how.Method == "api_key" || how.Method == "browser" {
		return how, protocol.CodeForbidden.Errorf("Over the network one signs in by paste or device code only: use `troupe login %s` on the daemon's machine", how.Provider)
	}
	if how.Method != "" {
		return how, nil
	}
	for _, p := range o.logins.Auth(how.Provider).Providers {
		for _, method := range p.Methods {
			if method == "paste" || method == "device" {
				how.Method = method
				return how, nil
			}
		}
	}
	return how, protocol.CodeLoginUnsupported.Errorf("There is no login of %s by paste or device code: use `troupe login %[1]s` on the daemon's machine", how.Provider)
}

// providersOf says of a report what oh-my-pi's clients want to know.
func providersOf(report protocol.AuthReport) protocol.LoginProviders {
	out := protocol.LoginProviders{Providers: []protocol.LoginProvider{}}
	for _, p := range report.Providers {
		if len(p.Methods) > 0 {
			out.Providers = append(out.Providers, protocol.LoginProvider{
				ID: p.ID, Name: p.Name, Available: p.Methods[0] != "api_key",
				Authenticated: p.State == protocol.AuthReady || p.State == protocol.AuthExpiring || p.State == protocol.AuthExpired,
			})
		}
	}
	return out
}

// ask shows a dialog to the client of a login, or tells it something.
func (o *owner) ask(c actor.Context, m ask) {
	o.made++
	m.request.ID = link.LoginDialog + strconv.Itoa(o.made)
	if m.answer != nil {
		o.open[m.request.ID] = &dialog{m.router.Id, m.request.Options, m.answer}
	}
	c.Send(m.router, link.AuthEvent{Event: m.request})
}

// reply leads an answer to who waits for it. The first one that fits counts.
func (o *owner) reply(m link.AuthReply) {
	d := o.open[m.Answer.ID]
	if d == nil || d.router != m.Router.Id || !d.fits(m.Answer) {
		return
	}
	delete(o.open, m.Answer.ID)
	d.answer <- m.Answer // it has room for one
}
