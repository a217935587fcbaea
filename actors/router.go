package actors

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/session"
	"troupe/protocol"
)

// router decodes a connection's lines, answers what concerns no session and
// forwards the rest to the session it is meant for.
type router struct {
	cfg      *Config
	log      zerolog.Logger
	name     string // in fault plans
	sessions *actor.PID
	writer   *actor.PID
	window   *window

	gates   protocol.Gates
	dialect protocol.Dialect
	seq     *uint64 // shared by the process: ledgers tell commands apart by it

	routes  map[string]*route // by handle; the default session under its handle too
	opening map[string]*route // by key, until the handle is known
	main    *route            // the default session, nil until the first command for it
	keys    int
	lists   []listing // list_open_sessions commands, oldest first
	listing uint64    // the number of the one that is being answered, 0 for none

	inHand  asked // the command in hand
	owed    bool  // it is neither answered nor on its way
	credit  credit
	closing *closing
}

// route is the way to one session.
type route struct {
	key      string
	handle   string
	pid      *actor.PID // nil until it is spawned
	backlog  []any      // what is to be sent to it then
	detached bool       // the client wants to hear nothing of it
	tag      string     // on its records: its handle, "" for the default session
}

// asked is a command of the router.
type asked struct {
	id   json.RawMessage
	name string
}

// listing is a list_open_sessions that waits.
type listing struct {
	asked
	credit credit
}

func (r *router) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		r.routes, r.opening = map[string]*route{}, map[string]*route{}
	case line, lineTooLong, inputClosed:
		r.input(c, m)
	case sessionSpawned:
		r.spawned(c, m)
	case openList:
		r.openList(c, m)
	case windowOpen:
		r.nextList(c)
	case closed:
		r.closed(c, m)
	case shutdown:
		r.close(c, closing{abort: m.abort})
	}
}

// input handles what came from the reader.
func (r *router) input(c actor.Context, m any) {
	switch m := m.(type) {
	case line:
		r.inHand, r.owed, r.credit = asked{}, true, m.credit
		req, err := protocol.Decode(m.bytes)
		if err != nil && !r.gates.AnswersWithID(err.Code) {
			req.ID = nil
		}
		r.inHand = asked{req.ID, req.Name}
		r.cfg.Faults.Hit(r.name, "Decoded")
		r.request(c, req, err)
	case lineTooLong:
		m.credit.giveBack()
		req, err := protocol.TooLong(m.err)
		r.respond(c, req.ID, req.Name, nil, err)
	case inputClosed:
		r.close(c, closing{abort: !r.cfg.Drain, deaf: true})
	}
}

// request routes one decoded line.
func (r *router) request(c actor.Context, req protocol.Request, err *protocol.Error) {
	if err != nil {
		r.release()
		r.respond(c, req.ID, req.Name, nil, err)
		return
	}
	if r.closing != nil {
		r.release()
		r.respond(c, req.ID, req.Name, nil, protocol.CodeSessionClosing.Errorf("The daemon is shutting down"))
		return
	}
	if req.Spec.Owner == protocol.OwnerRouter {
		r.own(c, req)
		return
	}
	to, err := r.routeOf(c, req)
	if err != nil {
		r.release()
		r.respond(c, req.ID, req.Name, nil, err)
		return
	}
	r.forward(c, to, req)
}

// mend answers the command that broke the router. What it was in the middle of
// otherwise is a change to its tables, which can be made again.
func (r *router) mend(c actor.Context, msg any) bool {
	_, isLine := msg.(line)
	if r.owed {
		r.release()
		r.respond(c, r.inHand.id, r.inHand.name, nil, protocol.CodeInternal.Errorf("Internal error"))
	}
	return isLine
}

// release gives back what the line in hand took, once.
func (r *router) release() {
	r.credit.giveBack()
	r.credit = credit{}
}

func (r *router) nextSeq() uint64 {
	*r.seq++
	return *r.seq
}

// forward sends a command to its session, or keeps it until there is one.
func (r *router) forward(c actor.Context, to *route, req protocol.Request) {
	m := request{
		Command: session.Command{Seq: r.nextSeq(), ID: req.ID, Name: req.Name, Cmd: req.Cmd, Size: r.credit.bytes},
		client:  r.client(c, to), tag: req.SessionID, credit: r.credit,
	}
	r.send(c, to, m)
}

func (r *router) send(c actor.Context, to *route, m any) {
	r.owed = false
	if to.pid == nil {
		to.backlog = append(to.backlog, m)
		return
	}
	c.Send(to.pid, m)
}

func (r *router) client(c actor.Context, to *route) client {
	return client{writer: r.writer, router: c.Self(), window: r.window, tag: to.tag}
}

// routeOf finds the session a command is meant for. The default session is made
// when the first command needs it.
func (r *router) routeOf(c actor.Context, req protocol.Request) (*route, *protocol.Error) {
	if req.SessionID != "" {
		if to := r.routes[req.SessionID]; to != nil && !to.detached {
			return to, nil
		}
		return nil, protocol.CodeUnknownSession.Errorf("Unknown session: %s", req.SessionID)
	}
	if r.main != nil {
		return r.main, nil
	}
	if r.cfg.MultiSession {
		return nil, protocol.CodeMissingSessionID.Errorf("Missing sessionId")
	}
	r.main = r.open(c, r.cfg.Default, true)
	return r.main, nil
}

func (r *router) open(c actor.Context, spec OpenSpec, isMain bool) *route {
	r.keys++
	to := &route{key: strconv.Itoa(r.keys)}
	if !isMain {
		to.tag = "pending" // replaced by the handle before anything is sent
	}
	r.opening[to.key] = to
	c.Send(r.sessions, spawnSession{spec: spec, client: r.client(c, to), key: to.key, gates: r.gates})
	return to
}

func (r *router) spawned(c actor.Context, m sessionSpawned) {
	to := r.opening[m.key]
	if to == nil {
		return
	}
	delete(r.opening, m.key)
	if m.err != nil {
		r.refuseBacklog(c, to, m.err)
		return
	}
	to.handle, to.pid = m.handle, m.pid
	if to != r.main {
		to.tag = m.handle
	}
	r.routes[m.handle] = to
	backlog := to.backlog
	to.backlog = nil
	for _, b := range backlog {
		if req, ok := b.(request); ok {
			req.client = r.client(c, to)
			b = req
		}
		c.Send(to.pid, b)
	}
}

// refuseBacklog answers what was meant for a session that could not be made.
func (r *router) refuseBacklog(c actor.Context, to *route, err *protocol.Error) {
	if to == r.main {
		r.main = nil
	}
	for _, b := range to.backlog {
		if req, ok := b.(request); ok {
			req.credit.giveBack()
			r.respond(c, req.ID, req.Name, nil, err)
		}
	}
	r.maybeDrained(c)
}

// own handles the commands that concern the connection.
func (r *router) own(c actor.Context, req protocol.Request) {
	switch cmd := req.Cmd.(type) {
	case protocol.GetProtocolInfo:
		r.answer(c, req, protocol.JSON(r.info()), nil)
	case protocol.Hello:
		r.hello(c, req, cmd)
	case protocol.OpenSession:
		to := r.open(c, openSpec(r.cfg.Default, cmd), false)
		r.forward(c, to, req)
	case protocol.CloseSession:
		r.closeSession(c, req, cmd)
	case protocol.AttachSession:
		r.attachSession(c, req, cmd.SessionID)
	case protocol.DetachSession:
		r.detachSession(c, req, cmd.SessionID)
	case protocol.ListOpenSessions:
		r.lists = append(r.lists, listing{asked{req.ID, req.Name}, r.credit})
		r.owed = false
		r.nextList(c)
	default:
		r.answer(c, req, nil, protocol.CodeUnsupported.Errorf("%s is not supported by this version", req.Name))
	}
}

func (r *router) answer(c actor.Context, req protocol.Request, data protocol.Result, err *protocol.Error) {
	r.release()
	r.respond(c, req.ID, req.Name, data, err)
}

func (r *router) respond(c actor.Context, id json.RawMessage, name string, data protocol.Result, err *protocol.Error) {
	r.owed = false
	client{writer: r.writer, window: r.window}.send(c.ActorSystem().Root, item{
		response: &protocol.Response{ID: id, Command: name, Data: data, Err: err},
	})
}

// openSpec is what open_session asks for, on top of the daemon's defaults.
func openSpec(base OpenSpec, o protocol.OpenSession) OpenSpec {
	spec := OpenSpec{
		Path: o.SessionPath, Cwd: o.Cwd, CwdSet: o.Cwd != "", Memory: o.NoSession || base.Memory && o.SessionPath == "", Name: o.Name,
		Provider: o.Provider, Model: o.ModelID, Level: o.ThinkingLevel, Tools: o.Tools,
		SystemPrompt: o.SystemPrompt, AppendSystemPrompt: o.AppendSystemPrompt, Settings: o.Settings, Retain: o.Retain,
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
		spec.Tools = base.Tools
	}
	if spec.SystemPrompt == "" {
		spec.SystemPrompt = base.SystemPrompt
	}
	if spec.AppendSystemPrompt == "" {
		spec.AppendSystemPrompt = base.AppendSystemPrompt
	}
	return spec
}

func (r *router) closeSession(c actor.Context, req protocol.Request, cmd protocol.CloseSession) {
	to := r.routes[cmd.SessionID]
	if to == nil {
		r.answer(c, req, nil, protocol.CodeUnknownSession.Errorf("Unknown session: %s", cmd.SessionID))
		return
	}
	r.forward(c, to, req)
}

// nextList asks for a list of the open sessions, one at a time: it grows with
// their number.
func (r *router) nextList(c actor.Context) {
	switch {
	case len(r.lists) == 0 || r.listing != 0:
	case r.window.full():
		r.window.tell(c.Self())
	default:
		r.listing = r.nextSeq()
		c.Send(r.sessions, listOpen{r.listing, c.Self()})
	}
}

func (r *router) openList(c actor.Context, m openList) {
	if m.seq != r.listing {
		return
	}
	a := r.lists[0]
	r.lists, r.listing = r.lists[1:], 0
	list := []protocol.OpenSessionInfo{}
	for _, s := range m.sessions {
		s.IsDefault = r.main != nil && r.main.handle == s.SessionID
		list = append(list, s)
	}
	a.credit.giveBack()
	r.respond(c, a.id, a.name, protocol.JSON(protocol.OpenSessions{Sessions: list}), nil)
	r.nextList(c)
	r.maybeDrained(c)
}

func (r *router) info() protocol.ProtocolInfo {
	info := protocol.ProtocolInfo{
		Protocol: "pi-rpc", Dialect: string(r.dialect), Features: r.gates.On(), Epoch: r.cfg.Epoch,
		Events: protocol.EventTypes(),
		Limits: protocol.ProtocolLimits{MaxLineBytes: r.cfg.MaxLine, MaxSessions: r.cfg.MaxSessions, MaxOutputBytes: r.cfg.MaxOutput},
		Server: protocol.ServerInfo{Name: "troupe", Version: r.cfg.Version},
	}
	for _, s := range protocol.Commands {
		info.Commands = append(info.Commands, s.Name)
	}
	slices.Sort(info.Commands)
	return info
}

func (r *router) hello(c actor.Context, req protocol.Request, h protocol.Hello) {
	dialect := r.dialect
	if h.Dialect != "" {
		dialect = protocol.Dialect(h.Dialect)
	}
	gates, ok := dialect.Gates(h.Features...)
	if !ok {
		r.answer(c, req, nil, protocol.CodeInvalidParams.Errorf("Unknown dialect: %s", h.Dialect))
		return
	}
	r.dialect, r.gates = dialect, gates
	c.Send(r.writer, setGates{gates})
	for _, to := range r.routes {
		c.Send(to.pid, setGates{gates})
	}
	for _, to := range r.opening {
		to.backlog = append(to.backlog, setGates{gates})
	}
	r.answer(c, req, protocol.JSON(r.info()), nil)
}

// close asks every session of the connection to end. A second, stricter call
// tightens the first.
func (r *router) close(c actor.Context, m closing) {
	if r.closing != nil && (r.closing.abort || !m.abort) && (r.closing.deaf || !m.deaf) {
		return
	}
	r.closing = r.closing.and(m)
	c.Send(c.Parent(), ending{m.abort})
	for _, to := range r.routes {
		c.Send(to.pid, m)
	}
	for _, to := range r.opening {
		to.backlog = append(to.backlog, m)
	}
	r.maybeDrained(c)
}

func (r *router) closed(c actor.Context, m closed) {
	to := r.routes[m.handle]
	if to != nil {
		delete(r.routes, m.handle)
		if to == r.main {
			r.main = nil
		}
	}
	for _, last := range m.last {
		if last.to.writer.Equal(r.writer) {
			last.to.send(c.ActorSystem().Root, item{response: last.response})
		}
	}
	if to != nil {
		c.Send(to.pid, farewell{}) // behind the last word: the session's own last message lets the writer forget it
	}
	r.maybeDrained(c)
}

// maybeDrained reports when nothing of this connection is left to wait for.
func (r *router) maybeDrained(c actor.Context) {
	if r.closing != nil && len(r.routes)+len(r.opening)+len(r.lists) == 0 {
		c.Send(c.Parent(), drained{})
	}
}
