package conn

import (
	"encoding/json"
	"path/filepath"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/cluster"
	"troupe/actors/link"
	"troupe/actors/relay"
	"troupe/protocol"
)

// identity is the client as other nodes are told of it, before it says who it is.
func (cfg *Config) identity() cluster.Identity {
	return cluster.Identity{
		Device: cfg.Device, ViewOnly: cfg.ViewOnly, Confined: cfg.Allowed != nil, Retain: cfg.Retain, Drain: cfg.Drain, Lossy: cfg.Lag > 0,
	}
}

// goesFar sends a line on that is for a session of another node, and says whether it is one.
// What is wrong with it that node says: it may know more than this one.
func (r *router) goesFar(c actor.Context, req protocol.Request, err *protocol.Error) bool {
	if r.routes.relay == nil || r.leaving != nil {
		return false
	}
	if cmd, opens := req.Cmd.(protocol.OpenSession); opens && err == nil && !r.cfg.Peer && r.paths().outside(r.paths().placed(req).Cmd) == nil && !r.cfg.ViewOnly {
		return r.openElsewhere(c, req, cmd)
	}
	to := r.routes.farDefault(req)
	if req.SessionID != "" {
		to = r.routes.to(req.SessionID)
	} else if err != nil {
		return false
	}
	if to == nil || !to.far {
		return false
	}
	switch cmd := req.Cmd.(type) {
	case protocol.AdoptSession: // it is for this node
		return false
	case protocol.AttachSession:
		if cmd.Named() != nil {
			return false
		}
		to.detached, to.viewed = false, cmd.Role == protocol.RoleViewer || r.cfg.ViewOnly
	case protocol.DetachSession:
		if to.detached || to == r.routes.main {
			return false
		}
		to.detached = true
	default:
		if to.detached {
			return false
		}
	}
	r.forwardFar(c, to.handle, req, nil)
	return true
}

// farDefault is the default session, if a command is for it and it is on another node.
func (r *routes) farDefault(req protocol.Request) *route {
	if r.main == nil || !r.main.far || req.Spec == nil || req.Spec.Scope == protocol.ScopeConnection || answersLogin(req) {
		return nil
	}
	return r.main
}

// forwardFar gives the current command to the relay.
func (r *router) forwardFar(c actor.Context, session string, req protocol.Request, opens *relay.Opening) {
	r.current.owed = false
	c.Send(r.routes.relay, relay.Command{
		Session: session, Opens: opens, Request: req, Line: r.current.bytes, Named: r.out.Ledger() != nil, Credit: r.current.credit,
	})
}

// openElsewhere places a session that is to be made, and says whether that is the relay's. A
// session that is kept in memory, begins with a file of this node, or in a directory that is
// relative to that of this daemon, is made here.
func (r *router) openElsewhere(c actor.Context, req protocol.Request, cmd protocol.OpenSession) bool {
	relative := cmd.Cwd != "" && !filepath.IsAbs(cmd.Cwd) && !r.paths().inRoot(cmd.Cwd)
	if relative || cmd.SessionPath != "" || cmd.NoSession || r.cfg.Default.Memory {
		return false
	}
	opens, _, err := r.server.Cluster.Wants(cmd, r.cfg.Default.Cwd)
	if err != nil {
		r.answer(c, req, nil, err)
		return true
	}
	id := r.newSessionID(req)
	to := &route{handle: id, tag: id, pid: r.routes.relay, far: true}
	if known := r.routes.to(id); known != nil { // the command has come again
		if !known.far {
			return false
		}
		to = known
	}
	r.routes.byHandle[id] = to
	r.forwardFar(c, id, req, &opens)
	return true
}

// newSessionID is the id of a session that a command makes.
func (r *router) newSessionID(req protocol.Request) string {
	var command string
	if name := r.out.Name(); r.out.Ledger() != nil && len(req.ID) > 0 && req.ID[0] == '"' && json.Unmarshal(req.ID, &command) == nil {
		return string(cluster.NewSessionID(name.ClientID, command))
	}
	return string(cluster.RandomSessionID())
}

// openSession makes a session here.
func (r *router) openSession(c actor.Context, req protocol.Request, cmd protocol.OpenSession) {
	if cmd.Wants != nil && r.routes.relay == nil {
		r.answer(c, req, nil, protocol.CodeUnsupported.Errorf("wants is for nodes of a cluster, and this daemon is alone"))
		return
	}
	spec := openSpec(r.cfg.Default, cmd, r.cfg.Retain)
	if r.routes.relay != nil && cmd.SessionPath == "" && (!spec.Memory || cmd.Wants != nil || r.paths().inRoot(cmd.Cwd)) {
		if err := r.inCluster(&spec, cmd); err != nil {
			r.answer(c, req, nil, err)
			return
		}
		if !spec.Memory {
			spec.ID = r.newSessionID(req)
		}
	}
	if id := relay.CopyOf(spec.Path); id != "" && r.seesNodes() {
		r.forward(c, r.openUnlessElsewhere(c, spec, id), req)
		return
	}
	r.forward(c, r.open(c, spec, false), req)
}

// inCluster notes what a session needs of its node, and where its directory is on this one.
func (r *router) inCluster(spec *link.OpenSpec, cmd protocol.OpenSession) *protocol.Error {
	opens, cwd, err := r.server.Cluster.Wants(cmd, r.cfg.Default.Cwd)
	if err != nil {
		return err
	}
	if cwd == "" {
		return protocol.CodeNowhere.Errorf("This node has no root %s", opens.Wants.Root)
	}
	switch root := opens.Wants.Root; {
	case spec.Memory && cmd.Wants != nil:
		return protocol.CodeInvalidParams.Errorf("A session in memory is made by the node that is asked: it has no wants")
	case spec.Memory && r.server.Cluster.Roots[root].Mode == cluster.Git:
		return protocol.CodeInvalidParams.Errorf("A session in the root %s has a working tree of its own, and is kept: noSession is not possible", root)
	}
	spec.Wants, spec.Cwd, spec.CwdSet = opens.Wants, cwd, true
	return nil
}

// mayBeFar says whether a session that is not open here may be one of the cluster.
func (r *router) mayBeFar(to *route, err *protocol.Error) bool {
	return r.routes.relay != nil && err.Code == protocol.CodeUnknownSession && to.handle != ""
}

// askRelay has the relay look for a session that is not open here.
func (r *router) askRelay(c actor.Context, to *route) {
	backlog := to.backlog
	to.far, to.pid, to.backlog = true, r.routes.relay, nil
	if to != r.routes.main {
		to.tag = to.handle
	}
	r.routes.byHandle[to.handle] = to
	for _, b := range backlog {
		switch m := b.(type) {
		case link.Request:
			c.Send(r.routes.relay, r.again(to.handle, m))
		case link.Leave:
			c.Send(r.routes.relay, m)
		}
	}
}

// forget has a command be unknown to the ledger of its client, also where that has left: it does nothing on this node, and
// is to be carried out when it comes again.
func forget(m link.Request) {
	if ledger := m.Client.Ledger(); ledger != nil {
		ledger.Drop(string(m.ID))
	}
}

// again is a command for the relay that was on its way to a session.
func (r *router) again(session string, m link.Request) relay.Command {
	forget(m)
	return relay.Command{
		Session: session, Line: m.Line, Named: r.out.Ledger() != nil, Credit: m.Credit, Known: m.Known, Begun: m.Begun,
		Request: protocol.Request{ID: m.ID, Name: m.Name, SessionID: m.Tag, Spec: protocol.SpecOf(m.Cmd), Cmd: m.Cmd},
	}
}

// fromRelay is what the relay says.
func (r *router) fromRelay(c actor.Context, m any) {
	switch m := m.(type) {
	case relay.Here:
		r.here(c, m)
	case relay.Read:
		r.listNext(c, listing{m.Request.ID, m.Request.Name, m.Credit, m.Request.Cmd, m.Session, m.Request.SessionID})
	case relay.Named:
		if to := r.routes.byHandle[m.Was]; to != nil {
			delete(r.routes.byHandle, m.Was)
			to.handle, to.tag = m.Is, m.Is
			r.routes.byHandle[m.Is] = to
		}
	case relay.Gone:
		if to := r.routes.byHandle[m.Session]; to != nil && to.far {
			r.remove(to)
			if to.tag != "" {
				c.Send(r.out.Writer, link.Forget{Tag: to.tag})
			}
		}
		r.maybeDrained(c)
	case relay.Found:
		r.found(c, m)
	case relay.Listed:
		r.listed(c, m)
	case relay.Unwatched:
		r.unwatched(c, m.Node)
	}
}

// here makes a session that belongs on this node, or goes on with it, and gives it the
// commands that the relay has had for it.
func (r *router) here(c actor.Context, m relay.Here) {
	to := r.routes.byHandle[m.Session]
	if to == nil || !to.far || r.leaving != nil {
		for _, cmd := range m.Commands {
			cmd.Credit.GiveBack()
			r.respond(c, cmd.Request.ID, cmd.Request.Name, nil, protocol.CodeSessionClosing.Errorf("The connection is closing"))
		}
		r.remove(to)
		r.maybeDrained(c)
		return
	}
	if m.Behind {
		c.Send(r.out.Writer, hearsNothing{to.tag})
	}
	delete(r.routes.byHandle, m.Session)
	to.far, to.pid, to.claim, to.hears, to.key = false, nil, true, m.Hears, r.routes.newKey()
	to.viewed, to.works = to.viewed || m.Viewer, m.Works
	r.routes.opening[to.key] = to
	begun := false
	for _, cmd := range m.Commands {
		r.current = command{owed: true, credit: cmd.Credit, id: cmd.Request.ID, name: cmd.Request.Name, bytes: cmd.Line, known: cmd.Known}
		if r.out.Ledger() != nil {
			r.current.line = fingerprint(cmd.Line)
		}
		if r.repeats(c, cmd.Request) {
			continue
		}
		if open, is := cmd.Request.Cmd.(protocol.OpenSession); is && !begun {
			spec := openSpec(r.cfg.Default, open, r.cfg.Retain)
			if err := r.inCluster(&spec, open); err != nil {
				r.answer(c, cmd.Request, nil, err)
				continue
			}
			begun, spec.ID, to.claim = true, m.Session, false
			r.spawn(c, to, spec)
		}
		r.forward(c, to, cmd.Request)
	}
	if !begun {
		find := link.FindSession{Client: r.client(c, to), Key: to.key, Handle: to.handle, Hears: m.Hears, Owed: m.Works}
		c.Send(r.server.Sessions, find)
	}
}

// claim opens a session of the cluster that nobody has.
func (r *router) claim(c actor.Context, to *route) {
	to.claim = false
	spec := r.cfg.Default.Fresh()
	spec.ID, spec.Claim = to.handle, true
	if to != r.routes.main {
		spec.Retain = r.cfg.Retain
	}
	r.routes.opening[to.key] = to
	c.Send(r.server.Sessions, link.SpawnSession{
		Spec: spec, Client: r.client(c, to), Key: to.key, Rules: r.rules, Hears: to.hears, Owed: to.works,
	})
}

// moved is what becomes of a session that goes on elsewhere, and says whether the client is
// led there. The node of which the client is one is told, and leads it.
func (r *router) moved(c actor.Context, to *route, m link.Closed) bool {
	switch {
	case r.cfg.Peer:
		tagged := r.out
		tagged.Tag = to.tag
		tagged.Send(c.ActorSystem().Root, link.Item{Event: protocol.SessionMoved{Why: m.Moved.Why}})
		for _, req := range m.Moved.Unanswered { // the other node sends them again
			if req.Client.Router.Equal(c.Self()) {
				req.Credit.GiveBack()
				forget(req)
			}
		}
		return false
	case r.routes.relay == nil || r.leaving != nil:
		if to == r.routes.main { // its client's next command has it again, if it can be had here, and no other
			own := &r.cfg.Default
			own.ID, own.Claim, own.Path, own.Log = to.handle, true, "", nil
		}
		r.cannotFollow(c, m)
		return false
	}
	c.Send(to.pid, link.RouteClosed{Router: c.Self()})
	r.routes.closing++
	to.far, to.pid = true, r.routes.relay
	c.Send(to.pid, relay.Follow{
		Session: to.handle, Default: to == r.routes.main, Hears: !to.detached && !m.Moved.New, Viewer: to.viewed,
		New: m.Moved.Unopened, Why: m.Moved.Why, Ends: m.Moved.Ends, Owed: m.Moved.Owed, Asked: m.Moved.Asked,
	})
	for _, req := range m.Moved.Unanswered {
		if req.Client.Router.Equal(c.Self()) {
			c.Send(to.pid, r.again(to.handle, req))
		}
	}
	return true
}

// settle tells the client that nothing comes of the work any more that it saw begin on another node.
func (r *router) settle(c actor.Context, to *route) {
	tagged := r.out
	tagged.Tag = to.tag
	tagged.Send(c.ActorSystem().Root, link.Item{Event: protocol.AgentSettled{Outcome: "interrupted"}})
}

// late has a command answered where its session is now, which came to it behind its move.
func (r *router) late(c actor.Context, m link.Late) {
	switch to := r.routes.to(m.Handle); {
	case to != nil && to.far:
		c.Send(to.pid, r.again(to.handle, m.Request))
		return
	case to != nil: // it has come back
		m.Request.Client = r.clientOf(c, to, m.Request)
		r.send(c, to, m.Request)
		return
	}
	r.refuseAgain(c, m.Request, protocol.CodeSessionClosing.Errorf("Session is closing"))
}

// refuseAgain answers a command that has had no effect, and may be given again.
func (r *router) refuseAgain(c actor.Context, m link.Request, why *protocol.Error) {
	m.Credit.GiveBack()
	forget(m)
	r.respond(c, m.ID, m.Name, nil, why)
}

// cannotFollow answers commands of a client that is not led to where its session is.
func (r *router) cannotFollow(c actor.Context, m link.Closed) {
	for _, req := range m.Moved.Unanswered {
		if req.Client.Router.Equal(c.Self()) {
			err := protocol.CodeSessionUnavailable.Errorf("The session is on another node")
			r.refuseAgain(c, req, err.CutOff(protocol.Lookup(req.Name), req.Begun))
		}
	}
}

// adoptSession has a session go on here whose directory is on another node.
func (r *router) adoptSession(c actor.Context, req protocol.Request, cmd protocol.AdoptSession) {
	if r.server.Cluster == nil {
		r.answer(c, req, nil, protocol.CodeUnsupported.Errorf("There are no other nodes: this daemon is alone"))
		return
	}
	opens, cwd, err := r.server.Cluster.Wants(protocol.OpenSession{Cwd: cmd.Cwd}, "")
	if err == nil && cwd == "" {
		err = protocol.CodeNowhere.Errorf("This node has no root %s", opens.Wants.Root)
	}
	if err == nil && r.cfg.Allowed != nil && !r.cfg.Allowed(cwd) {
		err = errOutside(cmd.Cwd)
	}
	if err != nil {
		r.answer(c, req, nil, err)
		return
	}
	cmd.Cwd = cwd
	req.Cmd = cmd
	r.list(c, req)
}

// drainNode ends this node, if another one asks for that.
func (r *router) drainNode(c actor.Context, req protocol.Request) {
	if !r.cfg.Peer || r.server.Cluster == nil || r.server.Cluster.Drain == nil {
		r.answer(c, req, nil, protocol.CodeForbidden.Errorf("Only an administrator with the keys of a node may drain it"))
		return
	}
	r.answer(c, req, nil, nil)
	r.server.Cluster.Drain()
}
