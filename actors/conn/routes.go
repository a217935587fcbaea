package conn

import (
	"cmp"
	"strconv"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/link"
	"troupe/actors/relay"
	"troupe/protocol"
)

// routes are the ways to the sessions of a connection.
type routes struct {
	byHandle map[string]*route
	opening  map[string]*route // by key: asked for, and not spawned yet
	main     *route            // the default session, nil until the first command for it; in one of the maps, too
	keys     int
	closing  int        // sessions that have ended and may still answer what was on its way to them
	relay    *actor.PID // the way to sessions of other nodes; nil without a cluster
}

// to is the route to a session that is open or looked for, nil if there is none.
func (r *routes) to(handle string) *route {
	if to := r.byHandle[handle]; to != nil {
		return to
	}
	for _, to := range r.opening {
		if to.handle == handle {
			return to
		}
	}
	return nil
}

// newKey tells what is asked of the parent of sessions apart.
func (r *routes) newKey() string {
	r.keys++
	return strconv.Itoa(r.keys)
}

// naming is how the client has named a session that it has not had before, and what is done where that is not open here.
type naming struct {
	attaches  bool           // it has asked to hear of it
	elsewhere *relay.Find    // how other nodes are asked for it; nil if they are not
	path      string         // of the file that is opened if nobody has it; "" for none
	opens     *link.OpenSpec // it is made if no other node has it open
}

// route is the way to one session.
type route struct {
	naming
	key      string
	handle   string     // "" until it is spawned
	pid      *actor.PID // nil until it is spawned or found
	backlog  []any      // what is to be sent to it then
	detached bool       // the client wants to hear nothing of it
	viewed   bool       // the client is a viewer of it
	tag      string     // on its records: its handle, "" for the default session
	far      bool       // it is on another node, or nobody knows where: pid is that of the relay
	claim    bool       // it is of the cluster, and belongs on this node: it is to be opened if nobody has
	hears    bool       // of such a one: the client has heard of it on another node
	works    bool       // the client was led here while it saw the session work
}

// routeOf finds the session a command is meant for. The default session is made
// when the first command needs it.
func (r *router) routeOf(c actor.Context, req protocol.Request) (*route, *protocol.Error) {
	if req.SessionID != "" {
		if to := r.routes.to(req.SessionID); to != nil && !to.detached {
			return to, nil
		}
		_, isImage := req.Cmd.(protocol.GetImage)
		if isImage || r.routes.relay != nil && req.Spec.Is(protocol.InLog) { // who reads need not hear of the session: of one whose node is lost nobody can
			return r.find(c, protocol.AttachSession{SessionID: req.SessionID}), nil
		}
		if r.mayBeKnown(req) {
			return r.findKnown(c, req.SessionID), nil
		}
		return nil, protocol.CodeUnknownSession.Errorf("Unknown session: %s", req.SessionID)
	}
	if r.routes.main != nil {
		return r.routes.main, nil
	}
	if r.cfg.MultiSession || r.cfg.ViewOnly { // who only looks opens nothing
		return nil, protocol.CodeMissingSessionID.Errorf("Missing sessionId")
	}
	spec := r.cfg.Default
	switch req.Cmd.(type) {
	case protocol.NewSession, protocol.SwitchSession:
		spec.Leaves = true
	}
	r.routes.main = r.openDefault(c, spec)
	return r.routes.main, nil
}

// newRoute is a route to a session that is not known yet.
func (r *router) newRoute() *route {
	to := &route{key: r.routes.newKey()}
	r.routes.opening[to.key] = to
	return to
}

// open asks for a session and returns the route to it.
func (r *router) open(c actor.Context, spec link.OpenSpec, isMain bool) *route {
	to := r.newRoute()
	if !isMain {
		to.tag = "pending" // replaced by the handle before anything is sent
	}
	r.spawn(c, to, spec)
	return to
}

// spawn asks for the session of a route.
func (r *router) spawn(c actor.Context, to *route, spec link.OpenSpec) {
	r.routes.opening[to.key] = to
	spec.Allowed = r.cfg.Allowed
	c.Send(r.server.Sessions, link.SpawnSession{Spec: spec, Client: r.client(c, to), Key: to.key, Rules: r.rules})
}

// openSpec is what open_session asks for, on top of the daemon's defaults; retain is what
// counts if it does not say so.
func openSpec(base link.OpenSpec, o protocol.OpenSession, retain bool) link.OpenSpec {
	spec := link.OpenSpec{
		Path: o.SessionPath, Cwd: cmp.Or(o.Cwd, base.Cwd), CwdSet: o.Cwd != "", Memory: o.NoSession || base.Memory && o.SessionPath == "", Name: o.Name,
		Provider: o.Provider, Model: o.ModelID, Level: cmp.Or(o.ThinkingLevel, base.Level), Tools: o.Tools,
		SystemPrompt: cmp.Or(o.SystemPrompt, base.SystemPrompt), AppendSystemPrompt: cmp.Or(o.AppendSystemPrompt, base.AppendSystemPrompt), Settings: o.Settings,
		PermissionMode: string(o.PermissionMode), Sandbox: o.Sandbox, SandboxNetwork: o.SandboxNetwork, Retain: *cmp.Or(o.Retain, &retain),
	}
	spec.Inherited.Level = o.ThinkingLevel == ""
	if spec.Provider == "" && spec.Model == "" {
		spec.Provider, spec.Model, spec.Inherited.Model = base.Provider, base.Model, true
	}
	if spec.Tools == nil {
		spec.Tools, spec.FreeTools, spec.WithoutTools = base.Tools, base.FreeTools, base.WithoutTools
	}
	return spec
}

func (r *router) spawned(c actor.Context, m link.SessionSpawned) {
	to := r.routes.opening[m.Key]
	if to == nil {
		return
	}
	delete(r.routes.opening, m.Key)
	switch {
	case m.Err != nil && to.elsewhere != nil:
		r.findElsewhere(c, to)
		return
	case m.Err != nil && to.path != "":
		r.openFile(c, to)
		return
	case m.Err != nil && to.claim:
		r.claim(c, to)
		return
	case m.Err != nil && r.mayBeFar(to, m.Err):
		r.askRelay(c, to)
		return
	case m.Err != nil:
		r.refuseBacklog(c, to, m.Err)
		return
	}
	if known := r.routes.byHandle[m.Handle]; known != nil { // it was named in another way before
		r.join(c, to, known)
		return
	}
	to.handle, to.pid = m.Handle, m.PID
	if to != r.routes.main {
		to.tag = m.Handle
	}
	r.routes.byHandle[m.Handle] = to
	backlog := to.backlog
	to.backlog = nil
	for _, b := range backlog {
		switch m := b.(type) { // what carries the client was made before its tag was known
		case link.Request:
			m.Client = r.clientOf(c, to, m)
			b = m
		case link.SetDialect:
			m.Client = r.client(c, to)
			b = m
		}
		c.Send(to.pid, b)
	}
}

// openFile opens the file for a client that has wanted to attach to its session, which is
// not open.
func (r *router) openFile(c actor.Context, to *route) {
	spec := openSpec(r.cfg.Default, protocol.OpenSession{SessionPath: to.path}, r.cfg.Retain)
	to.path = ""
	r.spawn(c, to, spec)
}

// join sends what was meant for a route by the one that leads to the same session.
func (r *router) join(c actor.Context, from, to *route) {
	if to.detached = false; from.attaches {
		to.viewed = from.viewed
	}
	for _, b := range from.backlog {
		switch m := b.(type) {
		case link.Request:
			m.Client = r.clientOf(c, to, m)
			r.send(c, to, m)
		case link.Leave:
			r.send(c, to, m)
		}
	}
}

// refuseBacklog answers the commands for a session that could not be opened.
func (r *router) refuseBacklog(c actor.Context, to *route, err *protocol.Error) {
	if to == r.routes.main {
		r.routes.main = nil
	}
	for _, b := range to.backlog {
		if req, ok := b.(link.Request); ok {
			req.Credit.GiveBack()
			if r.leaving != nil { // who comes back for the answer gives it again
				forget(req)
			}
			r.respond(c, req.ID, req.Name, nil, err)
		}
	}
	r.maybeDrained(c)
}

// sendAll sends to every session of the connection.
func (r *router) sendAll(c actor.Context, m any) {
	for _, to := range r.routes.byHandle {
		c.Send(to.pid, m)
	}
	for _, to := range r.routes.opening {
		to.backlog = append(to.backlog, m)
	}
}

// toSession forwards a command of the connection that is about a session of it.
func (r *router) toSession(c actor.Context, req protocol.Request, handle string) {
	to := r.routes.to(handle)
	if to == nil {
		r.answer(c, req, nil, protocol.CodeUnknownSession.Errorf("Unknown session: %s", handle))
		return
	}
	if to.viewed {
		r.answer(c, req, nil, errViewer)
		return
	}
	r.forward(c, to, req)
}

// errViewer refuses what changes a session to who has attached to watch it.
var errViewer = protocol.CodeForbidden.Errorf("This client is a viewer of the session")

// attachSession and detachSession route the commands. A session that the client
// has detached from takes no other command of it. One that another connection has
// opened is looked for.
func (r *router) attachSession(c actor.Context, req protocol.Request, cmd protocol.AttachSession) {
	if err := cmd.Named(); err != nil {
		r.answer(c, req, nil, err)
		return
	}
	var to *route
	if cmd.SessionID != "" {
		to = r.routes.to(cmd.SessionID)
	}
	if to == nil {
		to = r.find(c, cmd)
	}
	if to.detached = false; r.cfg.ViewOnly {
		cmd.Role = protocol.RoleViewer
		req.Cmd = cmd
	}
	to.attaches, to.viewed = true, cmd.Role == protocol.RoleViewer
	r.forward(c, to, req)
}

// find looks for a session that another connection has opened.
func (r *router) find(c actor.Context, cmd protocol.AttachSession) *route {
	to := r.newRoute()
	to.handle, to.tag = cmd.SessionID, cmp.Or(cmd.SessionID, "pending")
	if !r.cfg.ViewOnly { // who only looks opens no file, and does not learn whether there is one
		to.path = cmd.SessionPath
	}
	if id := cmp.Or(cmd.DurableID, relay.CopyOf(cmd.SessionPath)); id != "" {
		to.elsewhere = r.elsewhere(to, id)
	}
	c.Send(r.server.Sessions, link.FindSession{
		Client: r.client(c, to), Key: to.key, Handle: cmd.SessionID, DurableID: cmd.DurableID, Path: cmd.SessionPath,
	})
	return to
}

func (r *router) detachSession(c actor.Context, req protocol.Request, handle string) {
	to := r.routes.to(handle)
	switch {
	case to == nil || to.detached:
		r.answer(c, req, nil, protocol.CodeUnknownSession.Errorf("Unknown session: %s", handle))
	case to == r.routes.main:
		r.answer(c, req, nil, protocol.CodeInvalidParams.Errorf("The default session cannot be detached"))
	default:
		to.detached = true
		r.forward(c, to, req)
	}
}

// closed forgets a session that has ended, and answers the commands that asked for
// the end: only now does what the client sends next find no session.
func (r *router) closed(c actor.Context, m link.Closed) {
	to := r.routes.byHandle[m.Handle]
	if m.Moved != nil && to != nil && r.moved(c, to, m) {
		return
	}
	if m.Refused != nil && m.Refused.Code == protocol.CodeCwdMissing && to != nil && to.works { // it could not be opened here
		r.settle(c, to)
	}
	quit := m.Quit && to != nil && to == r.routes.main && len(r.routes.byHandle)+len(r.routes.opening) == 1
	r.remove(to)
	for _, last := range m.Replies {
		if last.To.Writer.Equal(r.out.Writer) {
			last.To.Send(c.ActorSystem().Root, link.Item{Response: last.Response})
		}
	}
	if to != nil {
		c.Send(to.pid, link.RouteClosed{Router: c.Self()}) // behind the replies: on it the session tells the writer to forget its tag
		if !to.far {
			r.routes.closing++
		}
	}
	if quit {
		r.inputEnds(c)
	}
	r.maybeDrained(c)
}

// remove forgets a route, nil for none.
func (r *router) remove(to *route) {
	if to != nil {
		delete(r.routes.byHandle, to.handle)
		if to == r.routes.main {
			r.routes.main = nil
		}
	}
}
