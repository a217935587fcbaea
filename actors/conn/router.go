package conn

import (
	"encoding/json"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/core"
	"troupe/actors/failpoint"
	"troupe/actors/link"
	"troupe/actors/relay"
	"troupe/protocol"
)

// router decodes a connection's lines, answers what concerns no session and
// forwards the rest to the session it is meant for.
type router struct {
	cfg    *Config
	server *Server
	faults *failpoint.Plan
	name   string      // in fault plans
	out    link.Client // for what concerns no session

	rules protocol.Rules // of the sessions that it opens

	routes  routes
	lists   lists
	watch   watching
	asked   asked
	current command
	leaving *link.Leave // nil until the connection ends
}

// command is the one that the router is handling.
type command struct {
	id     json.RawMessage
	name   string
	line   uint64 // its fingerprint; 0 for none
	known  bool   // as of [link.Request]
	owed   bool   // it is neither answered nor on its way
	begun  bool   // the router itself is carrying it out
	bytes  []byte // of its line, where another node may get it; nil without a cluster
	credit link.Credit
}

// release credits the line to the window, once.
func (cur *command) release() {
	cur.credit.GiveBack()
	cur.credit = link.Credit{}
}

func (r *router) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		r.routes = routes{byHandle: map[string]*route{}, opening: map[string]*route{}, relay: r.routes.relay}
		r.joinLogins(c)
	case line, call, lineTooLong, inputClosed:
		r.input(c, m)
	case link.SessionSpawned:
		r.spawned(c, m)
	case link.OpenList:
		r.openList(c, m)
	case link.FilesAnswer:
		r.filesAnswer(c, m)
	case link.WindowOpen:
		r.nextList(c)
		r.nextStatus(c)
	case link.AuthAnswer:
		r.authAnswer(c, m)
	case link.AuthEvent:
		r.out.Send(c.ActorSystem().Root, link.Item{Event: m.Event})
	case link.SessionChanged:
		r.sessionChanged(c, m.Info)
	case relay.Here, relay.Read, relay.Named, relay.Gone, relay.Listed, relay.Unwatched, relay.Found:
		r.fromRelay(c, m)
	case link.Closed:
		r.closed(c, m)
	case link.Late:
		r.late(c, m)
	case link.Left:
		r.remove(r.routes.byHandle[m.Handle])
		r.maybeDrained(c)
	case link.Quiet:
		r.routes.closing--
		r.maybeDrained(c)
	case Shutdown:
		if (r.cfg.Lag > 0 || r.cfg.Peer) && r.leaving == nil { // the others see their pipe close
			r.out.Send(c.ActorSystem().Root, link.Item{Event: protocol.Draining{DeadlineMs: m.Limit.Milliseconds()}})
		}
		r.leave(c, link.Leave{Abort: m.Abort, Final: true, GoesOn: m.GoesOn})
	case clientLost:
		r.leave(c, link.Leave{Abort: r.cfg.Final || !r.cfg.Drain, Gone: m.deaf, Final: r.cfg.Final})
	}
}

// input handles what the reader has read, or a client in this process has called.
func (r *router) input(c actor.Context, m any) {
	switch m := m.(type) {
	case line:
		r.current = command{owed: true, credit: m.credit}
		req, err := r.cfg.Codec.Decode(m.bytes, r.out.Wire)
		r.current.id, r.current.name = req.ID, req.Name
		r.faults.Hit(r.name, "Decoded")
		if r.out.Ledger() != nil {
			r.current.line = fingerprint(m.bytes)
		}
		if r.routes.relay != nil {
			r.current.bytes = m.bytes
		}
		r.request(c, req, err)
	case call:
		r.current = command{owed: true, credit: m.credit, id: m.request.ID, name: m.request.Name}
		r.request(c, m.request, m.request.Spec.Check(m.request.Cmd))
	case lineTooLong:
		m.credit.GiveBack()
		req, err := m.err.Refusal()
		r.respond(c, req.ID, req.Name, nil, err)
	case inputClosed:
		r.inputEnds(c)
	}
}

// inputEnds leaves every session of the connection: it has nothing more to say.
func (r *router) inputEnds(c actor.Context) {
	r.leave(c, link.Leave{Abort: !r.cfg.Drain, Final: r.cfg.Final})
}

// request routes one decoded line.
func (r *router) request(c actor.Context, req protocol.Request, err *protocol.Error) {
	var to *route
	if r.goesFar(c, req, err) {
		return
	}
	if err == nil {
		req = r.paths().placed(req)
	}
	switch {
	case err != nil:
	case r.leaving != nil && !r.stillTaken(req):
		err = r.leavingError()
	case r.cfg.ViewOnly && !onlyLooks(req.Cmd):
		err = protocol.CodeForbidden.Errorf("This client may only watch")
	case r.paths().outside(req.Cmd) != nil:
		err = r.paths().outside(req.Cmd)
	case r.repeats(c, req):
		return
	case req.Spec.Scope == protocol.ScopeConnection:
		r.own(c, req)
		return
	case r.cfg.MultiSession && req.SessionID == "" && req.Spec.Is(protocol.AboutFiles):
		r.list(c, req)
		return
	case r.answersLogin(c, req):
		return
	default:
		to, err = r.routeOf(c, req)
	}
	if err == nil && to.viewed && !onlyLooks(req.Cmd) {
		err = errViewer
	}
	if err != nil {
		r.answer(c, req, nil, err)
		return
	}
	r.forward(c, to, req)
}

// onlyLooks says whether a command is one for viewers: see [protocol.Looks].
func onlyLooks(cmd protocol.Command) bool {
	switch cmd := cmd.(type) {
	case protocol.ListSessions:
		return cmd.SessionDir+cmd.Under == "" // else it asks what is in a directory
	case protocol.GetSubagentMessages:
		return cmd.SessionFile == ""
	default:
		return protocol.TraitsOf(cmd).Is(protocol.Looks)
	}
}

// stillTaken says whether a command is taken although the process ends: a run may wait for it,
// which has its time to come to an end.
func (r *router) stillTaken(req protocol.Request) bool {
	to := r.routes.main
	if req.SessionID != "" {
		to = r.routes.to(req.SessionID)
	}
	return r.leaving.GoesOn && !r.leaving.Abort && req.Spec.Is(protocol.EndsWork) && to != nil && !to.far
}

// leavingError refuses a command that comes behind the end of its connection, or
// of the process.
func (r *router) leavingError() *protocol.Error {
	if r.leaving.Final {
		return protocol.CodeSessionClosing.Errorf("The daemon is shutting down")
	}
	return protocol.CodeSessionClosing.Errorf("The connection is closing")
}

// onPanic answers the command that broke the router. Every other message changes
// its tables, which can be done again.
func (r *router) onPanic(c actor.Context, msg any) (done bool) {
	_, isLine := msg.(line)
	_, isCall := msg.(call)
	if r.current.owed {
		r.current.release()
		err := protocol.CodeInternal.Errorf("Internal error")
		r.respond(c, r.current.id, r.current.name, nil, err.CutOff(protocol.Lookup(r.current.name), r.current.begun))
	}
	return isLine || isCall
}

// forward sends the current command to its session, or keeps it until the session
// is spawned.
func (r *router) forward(c actor.Context, to *route, req protocol.Request) {
	m := link.Request{
		Command: core.Command{Seq: r.server.Seq.Next(), ID: req.ID, Name: req.Name, Cmd: req.Cmd, Size: r.current.credit.Bytes},
		Client:  r.client(c, to), Tag: req.SessionID, Credit: r.current.credit, Line: r.current.bytes, Allowed: r.cfg.Allowed, Known: r.current.known,
	}
	r.send(c, to, m)
}

// send sends to a session, or keeps the message until the session is spawned.
func (r *router) send(c actor.Context, to *route, m any) {
	r.current.owed = false
	if to.pid == nil {
		to.backlog = append(to.backlog, m)
		return
	}
	if req, is := m.(link.Request); is && to.far {
		m = r.again(to.handle, req)
	}
	c.Send(to.pid, m)
}

// client is where a session answers.
func (r *router) client(c actor.Context, to *route) link.Client {
	return link.Client{Writer: r.out.Writer, Router: c.Self(), Window: r.out.Window, Wire: r.out.Wire, Who: r.out.Who, Tag: to.tag}
}

// clientOf is where a command is answered that has waited. Who has said it stays the same: the
// connection may have ended meanwhile.
func (r *router) clientOf(c actor.Context, to *route, m link.Request) link.Client {
	client := r.client(c, to)
	client.Who = m.Client.Who
	return client
}

// own handles the commands that concern the connection.
func (r *router) own(c actor.Context, req protocol.Request) {
	r.current.begun = true
	switch cmd := req.Cmd.(type) {
	case protocol.GetProtocolInfo:
		r.answer(c, req, r.info(), nil)
	case protocol.Ping:
		r.answer(c, req, protocol.Pong{T: time.Now().UnixMilli()}, nil)
	case protocol.Hello:
		r.hello(c, req, cmd)
	case protocol.DrainNode:
		r.drainNode(c, req)
	case protocol.OpenSession:
		r.openSession(c, req, cmd)
	case protocol.CloseSession:
		r.toSession(c, req, cmd.SessionID)
	case protocol.MoveSession:
		r.toSession(c, req, cmd.SessionID)
	case protocol.AttachSession:
		r.attachSession(c, req, cmd)
	case protocol.DetachSession:
		r.detachSession(c, req, cmd.SessionID)
	case protocol.GetAuth, protocol.GetLoginProviders, protocol.Login, protocol.CancelLogin, protocol.Logout:
		r.askLogins(c, req)
	case protocol.ListOpenSessions, protocol.DeleteSession, protocol.ListDirectories, protocol.GetCluster:
		r.list(c, req)
	case protocol.AdoptSession:
		r.adoptSession(c, req, cmd)
	case protocol.WatchSessions:
		r.watchSessions(c, req)
	case protocol.UnwatchSessions:
		r.unwatchSessions(c, req)
	default:
		r.answer(c, req, nil, protocol.CodeUnsupported.Errorf("%s is not supported by this version", req.Name))
	}
}

// answer answers the current command.
func (r *router) answer(c actor.Context, req protocol.Request, data protocol.Result, err *protocol.Error) {
	r.current.release()
	r.respond(c, req.ID, req.Name, data, err)
}

func (r *router) respond(c actor.Context, id json.RawMessage, name string, data protocol.Result, err *protocol.Error) {
	r.current.owed = false
	r.out.Send(c.ActorSystem().Root, link.Item{
		Response: &protocol.Response{ID: id, Command: name, Data: data, Err: err},
	})
}

// leave leaves every session of the connection. A second, stricter call tightens
// the first.
func (r *router) leave(c actor.Context, m link.Leave) {
	m.Router = c.Self()
	all := r.leaving.And(m)
	if r.leaving != nil && *all == *r.leaving {
		return
	}
	if r.leaving == nil {
		r.closeLedger(c)
	}
	r.leaving = all
	c.Send(c.Parent(), ending{m.Abort})
	r.sendAll(c, m)
	r.stopFinding(c)
	r.leaveLogins(c)
	r.maybeDrained(c)
}

// maybeDrained reports when nothing of this connection is left to wait for.
func (r *router) maybeDrained(c actor.Context) {
	if r.leaving != nil && len(r.routes.byHandle)+len(r.routes.opening)+r.routes.closing+len(r.lists.waiting)+len(r.asked.waiting) == 0 {
		c.Send(c.Parent(), drained{})
	}
}
