package conn

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
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

// route is the way to one session.
type route struct {
	key      string
	handle   string     // "" until it is spawned
	pid      *actor.PID // nil until it is spawned or found
	backlog  []any      // what is to be sent to it then
	detached bool       // the client wants to hear nothing of it
	viewed   bool       // the client is a viewer of it
	tag      string     // on its records: its handle, "" for the default session
	path     string     // of the file that is to be opened if nobody has; "" for none
	far      bool       // it is on another node, or nobody knows where: pid is that of the relay
	claim    bool       // it is of the cluster, and belongs on this node: it is to be opened if nobody has
}

// lists are the commands that wait for a list of open sessions, or of files, oldest first.
// They are answered one at a time, since an answer grows with the number of sessions.
type lists struct {
	waiting []listing
	asked   uint64         // the number under which the parent of sessions was asked for the first, 0 if it was not
	here    *link.OpenList // its answer, while other nodes are asked
}

type listing struct {
	id     json.RawMessage
	name   string
	credit link.Credit
	cmd    protocol.Command
	unhad  string // the session that it is about, which no node has; "" for none
}

// command is the one that the router is handling.
type command struct {
	id     json.RawMessage
	name   string
	line   uint64 // its fingerprint; 0 for none
	owed   bool   // it is neither answered nor on its way
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
	case relay.Here, relay.Read, relay.Named, relay.Gone, relay.Listed, relay.Unwatched:
		r.fromRelay(c, m)
	case link.Closed:
		r.closed(c, m)
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
		req = r.placed(req)
	}
	switch {
	case err != nil:
	case r.leaving != nil && !r.stillTaken(req):
		err = r.leavingError()
	case r.cfg.ViewOnly && !onlyLooks(req.Cmd):
		err = protocol.CodeForbidden.Errorf("This client may only watch")
	case r.outside(req.Cmd) != nil:
		err = r.outside(req.Cmd)
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
		r.respond(c, r.current.id, r.current.name, nil, protocol.CodeInternal.Errorf("Internal error"))
	}
	return isLine || isCall
}

// forward sends the current command to its session, or keeps it until the session
// is spawned.
func (r *router) forward(c actor.Context, to *route, req protocol.Request) {
	m := link.Request{
		Command: core.Command{Seq: r.server.Seq.Next(), ID: req.ID, Name: req.Name, Cmd: req.Cmd, Size: r.current.credit.Bytes},
		Client:  r.client(c, to), Tag: req.SessionID, Credit: r.current.credit, Line: r.current.bytes, Allowed: r.cfg.Allowed,
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
	c.Send(to.pid, m)
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
	r.routes.main = r.open(c, spec, true)
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
	c.Send(r.server.Sessions, link.SpawnSession{Spec: spec, Client: r.client(c, to), Key: to.key, Rules: r.rules})
	return to
}

func (r *router) spawned(c actor.Context, m link.SessionSpawned) {
	to := r.routes.opening[m.Key]
	if to == nil {
		return
	}
	delete(r.routes.opening, m.Key)
	switch {
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
	r.routes.opening[to.key] = to
	c.Send(r.server.Sessions, link.SpawnSession{Spec: spec, Client: r.client(c, to), Key: to.key, Rules: r.rules})
}

// join sends what was meant for a route by the one that leads to the same session.
func (r *router) join(c actor.Context, from, to *route) {
	to.detached = false
	for _, b := range from.backlog {
		switch m := b.(type) {
		case link.Request:
			m.Client = r.clientOf(c, to, m)
			c.Send(to.pid, m)
		case link.Leave:
			c.Send(to.pid, m)
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

// own handles the commands that concern the connection.
func (r *router) own(c actor.Context, req protocol.Request) {
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

// openSpec is what open_session asks for, on top of the daemon's defaults; retain is what
// counts if it does not say so.
func openSpec(base link.OpenSpec, o protocol.OpenSession, retain bool) link.OpenSpec {
	spec := link.OpenSpec{
		Path: o.SessionPath, Cwd: o.Cwd, CwdSet: o.Cwd != "", Memory: o.NoSession || base.Memory && o.SessionPath == "", Name: o.Name,
		Provider: o.Provider, Model: o.ModelID, Level: o.ThinkingLevel, Tools: o.Tools,
		SystemPrompt: o.SystemPrompt, AppendSystemPrompt: o.AppendSystemPrompt, Settings: o.Settings,
		PermissionMode: string(o.PermissionMode), Sandbox: o.Sandbox, SandboxNetwork: o.SandboxNetwork, Retain: *cmp.Or(o.Retain, &retain),
	}
	if spec.Cwd == "" {
		spec.Cwd = base.Cwd
	}
	if spec.Provider == "" && spec.Model == "" {
		spec.Provider, spec.Model = base.Provider, base.Model
	}
	if spec.Level == "" {
		spec.Level = base.Level
	}
	if spec.Tools == nil {
		spec.Tools, spec.FreeTools, spec.WithoutTools = base.Tools, base.FreeTools, base.WithoutTools
	}
	if spec.SystemPrompt == "" {
		spec.SystemPrompt = base.SystemPrompt
	}
	if spec.AppendSystemPrompt == "" {
		spec.AppendSystemPrompt = base.AppendSystemPrompt
	}
	return spec
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

// list answers with the open sessions, behind those who have asked before.
func (r *router) list(c actor.Context, req protocol.Request) {
	r.lists.waiting = append(r.lists.waiting, listing{req.ID, req.Name, r.current.credit, req.Cmd, ""})
	r.current.owed = false
	r.nextList(c)
}

// nextList asks for the open sessions, if a command waits for them.
func (r *router) nextList(c actor.Context) {
	switch {
	case len(r.lists.waiting) == 0 || r.lists.asked != 0:
	case r.out.Window.Full():
		r.out.Window.Tell(c.Self())
	default:
		r.lists.asked = r.server.Seq.Next()
		if first := r.lists.waiting[0]; first.unhad != "" || protocol.TraitsOf(first.cmd).Is(protocol.AboutFiles) {
			c.Send(r.server.Sessions, link.AskFiles{Seq: r.lists.asked, From: c.Self(), Session: first.unhad, Cmd: first.cmd, Spec: r.cfg.Default, Rules: r.rules, Allowed: r.cfg.Allowed})
			return
		}
		c.Send(r.server.Sessions, link.ListOpen{Seq: r.lists.asked, From: c.Self()})
	}
}

// filesAnswer answers the oldest command that waits, which was about files.
func (r *router) filesAnswer(c actor.Context, m link.FilesAnswer) {
	if m.Seq != r.lists.asked {
		return
	}
	first := r.lists.waiting[0]
	r.lists = lists{waiting: r.lists.waiting[1:]}
	first.credit.GiveBack()
	to := r.out
	to.Tag = first.unhad
	to.Send(c.ActorSystem().Root, link.Item{Response: &protocol.Response{ID: first.id, Command: first.name, Data: m.Data, Err: m.Err}})
	r.nextList(c)
	r.maybeDrained(c)
}

// openList answers the oldest list_open_sessions that waits, and asks for the next.
func (r *router) openList(c actor.Context, m link.OpenList) {
	if m.Seq != r.lists.asked {
		return
	}
	if r.seesNodes() && r.lists.here == nil {
		r.listElsewhere(c, m)
		return
	}
	first := r.lists.waiting[0]
	r.lists = lists{waiting: r.lists.waiting[1:]}
	list := []protocol.OpenSessionInfo{}
	for _, s := range m.Sessions {
		s.IsDefault = r.isDefault(s)
		list = append(list, s)
	}
	first.credit.GiveBack()
	r.respond(c, first.id, first.name, protocol.OpenSessions{Sessions: list}, nil)
	r.nextList(c)
	r.maybeDrained(c)
}

// scope is what a client that may not do everything may do.
func (r *router) scope() string {
	if r.cfg.ViewOnly {
		return "view"
	}
	return ""
}

func (r *router) info() protocol.ProtocolInfo {
	info := protocol.ProtocolInfo{
		Protocol: "pi-rpc", Dialect: string(r.out.Wire.Dialect), Features: r.out.Wire.On(), Epoch: r.server.Epoch,
		Events: protocol.EventTypes(),
		Limits: protocol.ProtocolLimits{MaxLineBytes: r.cfg.MaxLine, MaxSessions: r.server.MaxSessions, MaxOutputBytes: r.cfg.MaxOutput},
		Server: protocol.ServerInfo{Name: "troupe", Version: r.server.Version}, Scope: r.scope(),
	}
	info.Limits.RingBytes = r.server.RingBytes
	if name := r.out.Name(); name != nil {
		info.ClientID = name.ClientID
	}
	if r.out.Wire.Has(protocol.FeatureHeartbeat) {
		info.HeartbeatMs = protocol.HeartbeatMs
	}
	for _, s := range protocol.Commands {
		if !r.cfg.ViewOnly || s.Is(protocol.Looks) {
			info.Commands = append(info.Commands, s.Name)
		}
	}
	slices.Sort(info.Commands)
	return info
}

// hello chooses how the client is written to from now on, and by which rules the
// sessions behave that it opens. Of those that are open already it changes the
// ones that nobody else hears, unless this client may only look.
func (r *router) hello(c actor.Context, req protocol.Request, h protocol.Hello) {
	wire, rules, ok := cmp.Or(protocol.Dialect(h.Dialect), r.out.Wire.Dialect).Open(h.Features...)
	if !ok {
		r.answer(c, req, nil, protocol.CodeInvalidParams.Errorf("Unknown dialect: %s", h.Dialect))
		return
	}
	who, err := h.Who()
	if err != nil {
		r.answer(c, req, nil, err)
		return
	}
	wire.ShowOnly(h.UI)
	r.out.Wire, r.rules = &wire, rules
	r.nameClient(c, who)
	c.Send(r.out.Writer, setWire{wire})
	for _, to := range r.routes.byHandle {
		c.Send(to.pid, link.SetDialect{Client: r.client(c, to), Rules: rules, Looks: r.cfg.ViewOnly})
	}
	for _, to := range r.routes.opening {
		to.backlog = append(to.backlog, link.SetDialect{Client: r.client(c, to), Rules: rules, Looks: r.cfg.ViewOnly})
	}
	if r.routes.relay != nil {
		c.Send(r.routes.relay, relay.Hello{Client: r.out})
	}
	r.answer(c, req, r.info(), nil)
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
	r.leaveLogins(c)
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

// closed forgets a session that has ended, and answers the commands that asked for
// the end: only now does what the client sends next find no session.
func (r *router) closed(c actor.Context, m link.Closed) {
	to := r.routes.byHandle[m.Handle]
	if m.Moved != nil && to != nil && r.moved(c, to, m) {
		return
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

// maybeDrained reports when nothing of this connection is left to wait for.
func (r *router) maybeDrained(c actor.Context) {
	if r.leaving != nil && len(r.routes.byHandle)+len(r.routes.opening)+r.routes.closing+len(r.lists.waiting)+len(r.asked.waiting) == 0 {
		c.Send(c.Parent(), drained{})
	}
}

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
	} else if cmd.DurableID != "" && r.routes.relay != nil {
		to = r.routes.to(cmd.DurableID)
	}
	if to == nil {
		to = r.find(c, cmd)
	}
	if to.detached = false; r.cfg.ViewOnly {
		cmd.Role = protocol.RoleViewer
		req.Cmd = cmd
	}
	to.viewed = cmd.Role == protocol.RoleViewer
	r.forward(c, to, req)
}

// find looks for a session that another connection has opened.
func (r *router) find(c actor.Context, cmd protocol.AttachSession) *route {
	to := r.newRoute()
	to.handle, to.tag = cmd.SessionID, cmp.Or(cmd.SessionID, "pending")
	if !r.cfg.ViewOnly { // who only looks opens no file, and does not learn whether there is one
		to.path = cmd.SessionPath
	}
	find := link.FindSession{Client: r.client(c, to), Key: to.key, DurableID: cmd.DurableID, Path: cmd.SessionPath}
	find.Client.Tag = cmd.SessionID
	c.Send(r.server.Sessions, find)
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
