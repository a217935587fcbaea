package session

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"slices"
	"time"
	"weak"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/core"
	"troupe/actors/kernel"
	"troupe/actors/link"
	"troupe/actors/worker"
	"troupe/protocol"
	"troupe/store"
)

// Limits of supervision.
const (
	// MaxRestarts is how often a session may crash within RestartWindow before
	// it is given up.
	MaxRestarts = 5
	// RestartWindow is the time over which crashes are counted.
	RestartWindow = time.Minute
)

// crashGuard is around a session's actor, and around the faults that are injected:
// it notes what a crash must not lose before the session hears of it, answers for
// a session that crashes, and for one that is over. It is no middleware, which
// would wrap every message.
type crashGuard struct {
	session *Session
	*durable
}

// sessionProps describes the actor of one session.
func sessionProps(k *kernel.Kernel, shared *Shared, handle string, m link.SpawnSession, ring *ringAccount) *actor.Props {
	d := &durable{
		kernel: k, shared: shared, log: k.Log.Hook(ofSession(handle)), handle: handle, spec: m.Spec, rules: m.Rules,
		file: logFile{foreign: &foreign{}}, shrunk: worker.NewShrinker(),
	}
	if shared.Spawned != nil {
		state := weak.Make(d)
		shared.Spawned(func() bool { return state.Value() != nil })
	}
	d.clients.ring.limit, d.clients.ring.sizes = shared.RingBytes, ring
	if m.Client.Known() {
		first, _ := d.clients.join(m.Client)
		first.muted = false
	}
	if !m.Client.Known() {
		d.clients.firstAsked()
	}
	return k.Props(func() actor.Actor { return &crashGuard{newSession(d), d} }, "")
}

// ofSession names a session in what is logged of it. A context of the logger would take half
// a kilobyte of each session.
type ofSession string

func (h ofSession) Run(e *zerolog.Event, _ zerolog.Level, _ string) { e.Str("session", string(h)) }

func (g *crashGuard) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started, *actor.Stopping, *actor.Restarting, kernel.Crashed:
		g.life.turn.abandon()
		g.receive(c, m)
	case wentOn:
		g.life.turn.resume(m, g.handler(c))
	case inDoubt:
		g.doubtful(c.ActorSystem().Root, m)
	default:
		if g.shared.Cluster == nil {
			g.receive(c, m)
		} else {
			g.life.turn.take(m, g.handler(c))
		}
	}
}

// handler handles the messages of turns.
func (g *crashGuard) handler(c actor.Context) func(any) { return func(m any) { g.receive(c, m) } }

// receive handles one message.
func (g *crashGuard) receive(c actor.Context, msg any) {
	switch m := msg.(type) {
	case link.Request:
		g.clients.firstAsked()
		g.clients.replies.expect(m)
		g.noteRequest(c, m)
	case link.Leave:
		if !g.noteLeave(m) {
			return
		}
	case link.Join:
		if who := g.join(c, m.Client, m.Hears); m.Hears { // it has asked another node
			who.muted = false
			g.clients.firstAsked()
		}
	case link.RouteClosed:
		g.routeClosed(c, m)
		return
	case opened:
		g.noteOpened(c, m)
	}
	if g.life.state.over() && !kernel.Lifecycle(msg) {
		g.refuse(c, msg)
		return
	}
	defer func() {
		switch reason := recover(); reason {
		case nil:
		case errAbandoned:
			panic(reason)
		default:
			g.crash(c, msg, reason)
			panic(reason) // supervision restarts the actor
		}
	}()
	g.session.inputs.step.reset()
	if g.kernel.Faults == nil {
		g.session.receive(c, msg)
	} else {
		g.kernel.Faults.Handle(g.handle, msg, func() { g.session.receive(c, msg) })
	}
	g.removeLeft(c)
}

// crash answers what is owed: the actor that would have answered is gone, and
// its successor does not know. Only an open_session is left to the successor.
func (g *crashGuard) crash(c actor.Context, msg, reason any) {
	g.log.Error().Str("actor", c.Self().Id).Str("message", fmt.Sprintf("%T", msg)).
		Str("panic", fmt.Sprint(reason)).Bytes("stack", debug.Stack()).Msg("session crashed")
	root := c.ActorSystem().Root
	if g.file.Log != nil {
		g.file.Discard()
	}
	g.endCommands()
	g.session.sendKnownReplies()
	g.clients.flush(root)
	why := g.session.interruptionError(protocol.CodeInternal.Errorf("Internal error: the session was restarted"), msg)
	switch {
	case g.life.state == closed: // there is no successor
		g.clients.failAll(root, why, true)
	case g.life.crashed(time.Now()):
		g.clients.failAll(root, why, false)
	default:
		g.giveUp(c, msg)
	}
}

// endCommands tells clients that the commands of extensions are over: those that ran them end
// with the session.
func (g *crashGuard) endCommands() {
	of := &g.session.reported.commands
	for _, name := range slices.Concat(of.over, of.running) {
		g.clients.emit(protocol.ExtensionCommandEnd{Name: name}, nil)
	}
	*of = commandsOf{}
}

// giveUp ends a session on the crash that was one too many. What its clients have
// seen begin ends.
func (g *crashGuard) giveUp(c actor.Context, msg any) {
	root := c.ActorSystem().Root
	g.life.state = failed
	g.shared.onDisk.holders.release(g.handle)
	g.life.refusal = protocol.CodeSessionFailed.Errorf(
		"Session failed: it crashed more than %d times in %s and was given up", MaxRestarts, RestartWindow)
	var last []link.CloseReply // the client does not know the session yet
	if opening := g.clients.replies.opening; opening != nil {
		last = g.clients.replies.closing(g.life.refusal, opening.Seq)
	}
	g.clients.failAll(root, g.session.closingError(g.life.refusal, msg), true)
	nowhere := store.NewLog(nil, "", protocol.Header{}, store.Options{})
	for _, e := range core.New().Step(time.Now().UnixMilli(), nowhere, g.restored(core.Loaded{}, core.Settings{})) {
		if e, ok := e.(core.Emit); ok {
			g.clients.emit(e.Event, nil)
		}
	}
	g.clients.flush(root)
	g.clients.ring.close() // no client can attach any more
	g.clients.seq++
	for _, to := range g.clients.list {
		to.Send(root, link.Item{Event: protocol.SessionFailed{Error: g.life.refusal.Message}, Seq: g.clients.seq})
	}
	g.tellFailed(c)
	if last != nil || g.life.end != nil { // nobody would close it
		g.sayClosed(c, last...)
	}
	g.removeLeft(c)
}

// tellFailed tells the parent what list_open_sessions is to say.
func (g *crashGuard) tellFailed(c actor.Context) {
	c.Send(c.Parent(), gaveUp{g.handle, g.clients.attached()})
}

// restored is the first input of a machine: what the log says, and what its
// predecessor leaves behind.
func (d *durable) restored(to core.Loaded, settings core.Settings) core.Restored {
	settings.Retained, settings.FailsOver = d.spec.Retain, keptBy(d.file.Log) != nil
	if settings.FailsOver {
		settings.Opened = d.shared.opened(d.spec)
	}
	d.life.ids = d.shared.newLife()
	return core.Restored{
		Session: to, Settings: settings, Requested: d.requested(to), Carryover: d.last.carryover, Open: d.clients.spans.OpenSpans, Failover: d.failover(to), Life: d.life.ids,
	}
}

// requested returns the model, level and name that flags or open_session request for a stored session.
// A restart requests nothing: clients may have chosen something else since.
func (d *durable) requested(to core.Loaded) core.Requested {
	spec := d.spec
	if d.last.ran() || spec.Path == "" || to.LeafID == "" {
		return core.Requested{}
	}
	anyOfProvider := spec.Model == "" && to.Model != nil && to.Model.Provider == spec.Provider
	return core.Requested{
		Model: d.work.modelAsked && !spec.Inherited.Model && !anyOfProvider,
		Level: d.work.levelAsked, Name: spec.Name,
	}
}

// refuse answers for a session that was given up, or has ended while the command
// was on its way. One that was given up ends when somebody wants it to, or has
// only now been told that it was opened.
func (g *crashGuard) refuse(c actor.Context, msg any) {
	gaveUp := g.life.state == failed
	switch m := msg.(type) {
	case link.Request:
		_, opens := m.Cmd.(protocol.OpenSession)
		switch {
		case gaveUp && endsSession(m):
			g.sayClosed(c, g.clients.replies.closing(nil, m.Seq)...)
		case gaveUp && opens:
			g.sayClosed(c, g.clients.replies.closing(g.life.refusal, m.Seq)...)
		case g.life.moved && g.clients.replies.hold(m):
			c.Send(c.Parent(), link.Late{Handle: g.handle, Request: g.clients.replies.take(m.Seq)})
			g.clients.answered()
		default:
			g.clients.replies.send(c.ActorSystem().Root, m.Seq, cmp.Or(g.life.refusal, errClosing()))
			g.clients.answered()
		}
	case link.Leave:
		if gaveUp && g.life.end != nil {
			g.sayClosed(c)
		}
		g.removeLeft(c)
	}
	if g.life.state == failed {
		g.tellFailed(c)
	}
}

func errClosing() *protocol.Error { return protocol.CodeSessionClosing.Errorf("Session is closing") }

// sayClosed tells the parent and the routers of the clients that the session has
// ended, and gives its last answers.
func (d *durable) sayClosed(c actor.Context, last ...link.CloseReply) { d.sayMoved(c, nil, last...) }

// sayMoved is sayClosed for a session that goes on elsewhere; moved is nil for one that does not.
func (d *durable) sayMoved(c actor.Context, moved *link.Moved, last ...link.CloseReply) {
	d.life.state, d.life.moved = closed, moved != nil
	d.shared.onDisk.holders.release(d.handle)
	d.clients.ring.close()
	gone := link.Closed{Handle: d.handle, Quit: d.life.end != nil && d.life.end.quit, Replies: last, Moved: moved, Refused: d.life.refusal}
	for _, who := range d.clients.list {
		gone.Routers = append(gone.Routers, who.Router)
	}
	c.ActorSystem().Root.Send(c.Parent(), gone)
}

// routeClosed notes that a router, or the parent, sends nothing more.
func (d *durable) routeClosed(c actor.Context, m link.RouteClosed) {
	if m.Router == nil {
		d.clients.sealed = true
	} else {
		if who := d.clients.by(m.Router); who != nil {
			d.clients.remove(c.ActorSystem().Root, who)
		}
		c.Send(m.Router, link.Quiet{})
	}
	d.maybeStop(c)
}

// maybeStop ends the actor when nothing can be sent to it any more.
func (d *durable) maybeStop(c actor.Context) {
	if d.life.state == closed && d.clients.sealed && len(d.clients.list) == 0 && !d.file.opening {
		c.Poison(c.Self())
	}
}

// noteRequest notes who hears of the session: routers count on it, and a crash
// over the message must not part the two.
func (d *durable) noteRequest(c actor.Context, r link.Request) {
	switch r.Cmd.(type) {
	case protocol.AttachSession:
		who := d.join(c, r.Client, false)
		who.attaching, who.Wire, who.Who = r.Seq, r.Client.Wire, r.Client.Who
	case protocol.DetachSession:
		who := d.join(c, r.Client, false)
		who.muted, who.attaching = true, 0
	default: // changes nothing
	}
}

// join adds a client, which may have heard of the session on another node. One that comes after the end is told so by its
// router, or led to where the session is.
func (d *durable) join(c actor.Context, cl link.Client, hears bool) *client {
	who, isNew := d.clients.join(cl)
	if isNew && d.life.state == closed {
		gone := link.Closed{Handle: d.handle}
		if d.life.moved {
			gone.Moved = &link.Moved{Why: "released", New: !hears}
		}
		c.Send(cl.Router, gone)
	}
	return who
}

// noteLeave notes that a client says nothing more, or nobody does that may still
// come. The session ends when no client is left for which it goes on, unless it
// is to be retained.
func (d *durable) noteLeave(m link.Leave) (counts bool) {
	d.life.goesOn = d.life.goesOn || d.spec.Retain && m.Final && m.GoesOn // also for a client that goes by itself meanwhile
	d.spec.Retain = d.spec.Retain && !m.Final
	if m.Router == nil && slices.ContainsFunc(d.clients.list, func(who *client) bool { return who.leaving == nil }) {
		return false // they say so themselves, behind the commands that they have sent
	}
	who := d.clients.by(m.Router)
	if who != nil {
		who.leaving = who.leaving.And(m)
	}
	switch {
	case who == nil && m.Router != nil:
		return false // it has left before
	case d.clients.attached() == 0 && !d.spec.Retain:
		d.life.endAs(ending{abort: m.Abort, deaf: !d.clients.answer(), final: m.Final, goesOn: m.GoesOn || d.life.goesOn})
	case who != nil && (d.life.end == nil || m.Abort) && !m.Final: // the session goes on without it
		who.muted, who.attaching = true, 0
	}
	return true
}

// removeLeft lets those go who have left and are owed nothing more. Those with
// whom the session ends, or the process, stay to its end, if they can still hear
// of it, and do not leave in a hurry a run that others wait for.
func (d *durable) removeLeft(c actor.Context) {
	if d.life.state == closed {
		return
	}
	root := c.ActorSystem().Root
	for i := len(d.clients.list) - 1; i >= 0; i-- { // from behind: one that goes moves none that is still to come
		who := d.clients.list[i]
		switch {
		case who.leaving == nil:
			continue
		case who.Ledger() != nil && (who.leaving.Gone || who.leaving.Abort) && !who.leaving.Final && d.life.end == nil:
			// it may come back for its answers
		case who.leaving.Gone:
			d.clients.replies.failClient(root, who.Client, nil)
		case who.leaving.Final, d.life.end != nil && !(who.leaving.Abort && (d.clients.attached() > 0 || !d.life.end.abort)):
			continue
		case who.leaving.Abort:
			d.clients.replies.failClient(root, who.Client, protocol.CodeSessionClosing.Errorf("The connection is closing"))
		case len(d.clients.replies.owed(who.Client)) > 0:
			continue
		}
		d.clients.remove(root, who)
		c.Send(who.Router, link.Left{Handle: d.handle})
	}
}
