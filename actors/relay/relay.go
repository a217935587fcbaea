package relay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/tidwall/gjson"

	"troupe/actors/cluster"
	"troupe/actors/kernel"
	"troupe/actors/link"
	"troupe/protocol"
)

// relay is the way of one client to sessions of other nodes.
type relay struct {
	kernel *kernel.Kernel
	shared *Shared
	side   side

	nodes    map[string]*node
	sessions map[string]*session
	finds    map[string]*finding
	numbers  numbers
	list     listing
	watching bool        // nodes are looked at again and again
	current  *ask        // the command in hand, not passed on yet
	leaving  *link.Leave // nil until the client leaves
	life     life        // of what the relay waits for
}

// numbers are those of looks, lives of wires, own commands.
type numbers struct {
	last  uint64
	asked map[uint64]*search // what all nodes are asked for
}

// life is as long as the relay.
type life struct {
	ctx context.Context
	end context.CancelFunc
}

// side is whose relay it is.
type side struct {
	router *actor.PID
	out    link.Client // the client, for what is none of a session's
	who    cluster.Identity
	inner  bool   // the client is another node's relay, from which nothing goes further
	all    bool   // the client is told of every session
	main   string // the client's default session, if it is one of those that are not here; "" for none
}

// session is one that is not here, or was not.
type session struct {
	id      string
	at      *node // that has it, whether there is a wire already or not; nil while it is looked for
	looking looking
	opens   *Opening // it is still to be made

	waiting []*ask // not sent, oldest first
	hears   bool   // the client has attached
	viewer  bool
	joined  uint64 // the life of the wire over which it hears; 0 for none
	moved   string // why the client is to be told that it is elsewhere; "" if it is not
	told    string // the node of which it was told that last, until that has answered
	behind  bool   // it was told to attach again: it hears no event before that
	seen    seen
}

// looking is how a session is looked for.
type looking struct {
	number uint64 // of the look that is under way, or is to be begun again; 0 for none
	pause  time.Duration
	since  time.Time // when it began
	told   bool      // the client knows
	child  bool      // it is that of another session: the cluster does not keep it, and it goes nowhere
	closed bool      // the node that had it says that it is not there any more
}

// ask is a command that is to be answered.
type ask struct {
	Command
	own   func(r *relay, c actor.Context, n *node, a answer) // of a command of the relay's own: nobody else hears of its answer
	at    time.Time                                          // when it came
	until time.Time                                          // it waits for a session that no node has
	begun bool                                               // a node that has not answered may have run it
	tries int                                                // how often a node answered that it does not have the session
}

// node is another node, and the wire to it.
type node struct {
	cluster.Node
	life    uint64       // of the wire, or the one that is being opened
	conn    cluster.Conn // nil until there is one
	out     *outbox
	asking  int             // of how many sessions it is being found out whether they are elsewhere
	ctx     context.Context // ends with the wire
	cancel  context.CancelFunc
	pending []*ask          // sent and not answered, oldest first
	over    bool            // nothing more is said to it
	spoke   bool            // it has said something
	drains  bool            // it has said that it ends: it takes no command, and what it says of its sessions still counts
	left    map[string]bool // sessions of which the client hears from elsewhere, whatever is still said here
}

const (
	dialTime   = time.Second
	firstPause = 20 * time.Millisecond // before a session is looked for again; doubles
	mostPause  = 100 * time.Millisecond
	idlePause  = 2 * time.Second // of one of which nobody waits for an answer
	waitTold   = time.Second     // how long a client is not told that it waits
	lookTime   = 3 * time.Second
)

// New is the relay of a client, which the connection spawns, and how it goes on after a
// panic. Its first message is [Begin].
func New(k *kernel.Kernel, shared *Shared, out link.Client, who cluster.Identity, inner bool) (actor.Actor, func(actor.Context, any) bool) {
	r := &relay{kernel: k, shared: shared, side: side{out: out, who: who, inner: inner}}
	return r, r.onPanic
}

func (r *relay) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		r.nodes, r.sessions, r.finds, r.numbers.asked = map[string]*node{}, map[string]*session{}, map[string]*finding{}, map[uint64]*search{}
		r.life.ctx, r.life.end = context.WithCancel(context.Background())
	case *actor.Stopping:
		r.life.end()
		for _, n := range r.nodes {
			r.cut(n)
		}
	case kernel.Crashed:
		panic(m.Reason)
	case Begin:
		r.side.router = m.Router
	case Command:
		r.command(c, m)
	case Follow:
		r.follow(c, m)
	case Find:
		r.find(c, m)
	case held:
		r.held(c, m)
	case findAgain:
		r.findAgain(c, m)
	case Hello:
		r.hello(c, m)
	case List:
		r.listAll(c, m)
	case Watch:
		r.watchAll(c, m)
	case listLate:
		if m.seq == r.list.seq {
			r.listDone(c)
		}
	case askLate:
		r.asked(c, m.number, nil, none)
	case located:
		r.located(c, m)
	case lookAgain:
		if s := r.sessions[m.session]; s != nil && s.looking.number == m.look {
			r.lookFor(c, s)
		}
	case connected:
		r.connected(c, m)
	case watch:
		r.watch(c)
	case reclaimed:
		r.reclaimed(c, m)
	case heard:
		r.heard(c, m)
	case lost:
		r.lost(c, m)
	case link.Leave:
		r.leave(c, m)
	}
	r.current = nil
}

// onPanic answers the command that broke the relay. Every other message is left out.
func (r *relay) onPanic(c actor.Context, msg any) (done bool) {
	if m, is := msg.(heard); is {
		m.receipt.Written()
	}
	if r.current != nil {
		r.refuse(c, r.current, protocol.CodeInternal.Errorf("Internal error").NotRun(protocol.RetryAfter))
	}
	return true
}

func (r *relay) next() uint64 {
	r.numbers.last++
	return r.numbers.last
}

// of is a session, which is made known if it is not.
func (r *relay) of(id string) *session {
	s := r.sessions[id]
	if s == nil {
		s = &session{id: id, looking: looking{since: time.Now()}}
		r.sessions[id] = s
	}
	return s
}

func (r *relay) command(c actor.Context, m Command) {
	r.current = &ask{Command: m, at: time.Now(), until: time.Now().Add(r.patience()), begun: m.Begun}
	s := r.of(m.Session)
	if m.Opens != nil {
		s.opens = m.Opens
	}
	r.pass(c, s, r.current)
}

// patience is how long a command waits for a session that no node has.
func (r *relay) patience() time.Duration { return cmp.Or(r.shared.Wait, DefaultWait) }

// follow is where a session goes on that was here.
func (r *relay) follow(c actor.Context, m Follow) {
	s := r.of(m.Session)
	if m.Default {
		r.side.main = s.id
	}
	s.hears, s.viewer, s.moved, s.seen = s.hears || m.Hears, m.Viewer, cmp.Or(m.Why, "failover"), seen{}
	if m.New {
		s.moved = ""
	}
	if !r.side.out.Wire.Has(protocol.FeatureSeq) {
		s.seen.spans = spans{owed: m.Ends, work: m.Owed}
	}
	for _, ev := range m.Asked {
		s.seen.asked.add("", ev)
	}
	r.lookFor(c, s)
}

// pass sends a command to where its session is, or keeps it until that is known.
func (r *relay) pass(c actor.Context, s *session, a *ask) {
	switch {
	case s.at != nil && s.at.drains && !s.looking.child: // which goes nowhere: its node answers
		r.later(c, s, []*ask{a})
		return
	case s.at == nil || s.at.conn == nil:
		s.waiting = append(s.waiting, a)
		if s.at == nil && s.looking.number == 0 || s.looking.number != 0 && s.looking.pause == idlePause {
			s.looking.pause = 0
			r.lookFor(c, s)
		}
		return
	}
	r.join(c, s, a)
	r.send(s.at, a)
}

// join has a node know that the client uses a session there, if it does not yet and the
// command does not say so itself. A client that was told to attach again does not hear what is
// said before it has; but what it asks is answered.
func (r *relay) join(c actor.Context, s *session, a *ask) {
	n := s.at
	if s.joined == n.life {
		return
	}
	s.joined = n.life
	delete(n.left, s.id)
	if _, attaches := a.cmd().(protocol.AttachSession); attaches && len(s.seen.open) == 0 || !s.hears {
		return
	}
	role := ""
	if s.viewer {
		role = string(protocol.RoleViewer)
	}
	r.own(n, attachLine{Type: "attach", SessionID: s.id, Role: role}, func(r *relay, c actor.Context, n *node, a answer) {
		switch {
		case r.sessions[s.id] != s || s.joined != n.life:
		case a.ok:
			s.answered()
			r.joined(c, s, a)
		case a.code == protocol.CodeCwdMissing: // which no waiting changes
			r.endSeen(c, s, interrupted)
			r.giveUp(c, s, protocol.CodeCwdMissing.Errorf("%s", gjson.GetBytes(a.line, "error").Str))
		default:
			r.elsewhere(c, s, n, nil, false)
		}
	})
}

// joined tells the client the end of what was seen, if nothing goes on in a session that it hears of again: what was
// said of that meanwhile it has not heard, also where it was about to go on. How it has ended the node says.
func (r *relay) joined(c actor.Context, s *session, a answer) {
	r.endAskedMissed(c, s, a)
	if state := gjson.GetBytes(a.line, "data.state"); !state.Get("isStreaming").Bool() && !state.Get("isCompacting").Bool() {
		r.endSeen(c, s, cmp.Or(gjson.GetBytes(a.line, "data.outcome").Str, interrupted))
		return
	}
	var open []link.OpenSpan
	if of := gjson.GetBytes(a.line, "data.open"); !of.Exists() || json.Unmarshal([]byte(of.Raw), &open) != nil { // of an older node
		return
	}
	for _, ev := range s.seen.endMissed(open) {
		r.tell(c, s, ev)
	}
}

// endAskedMissed tells the client that questions are over which the node does not have open any more.
func (r *relay) endAskedMissed(c actor.Context, s *session, a answer) {
	if s.at == nil || s.seen.asked.from != s.at.lifeOf() { // see tellMoved
		return
	}
	open := map[string]bool{}
	for _, list := range gjson.GetManyBytes(a.line, "data.dialogs.#.id", "data.approvals.#.id") {
		for _, id := range list.Array() {
			open[id.Str] = true
		}
	}
	for _, ev := range s.seen.asked.endMissed(open) {
		r.tell(c, s, ev)
	}
}

func (a *ask) cmd() protocol.Command {
	if a == nil {
		return nil
	}
	return a.Request.Cmd
}

// acknowledged says whether a command is one that a client may want no answer to, and is answered by nodes all the same, see greet:
// else nobody would know whether it has to be said again where its session goes on.
func acknowledged(spec *protocol.Spec) bool {
	return spec != nil && spec.Params == reflect.TypeFor[protocol.ExtensionUIResponse]()
}

// silent says whether the client wants no answer to a command that was carried out.
func (r *relay) silent(a *ask) bool {
	return a.Request.Spec != nil && a.Request.Spec.Silent && !(acknowledged(a.Request.Spec) && r.side.out.Wire.Has(protocol.FeatureUIAck))
}

// send writes a command to a node.
func (r *relay) send(n *node, a *ask) {
	a.begun = true
	if a.Request.Spec == nil || !a.Request.Spec.Silent || acknowledged(a.Request.Spec) {
		n.pending = append(n.pending, a)
	}
	n.out.put(r.named(a), a.Credit)
	r.shared.Metrics.Count("troupe_cluster_relay_lines_total", 1)
	a.Credit = link.Credit{}
	if r.current == a {
		r.current = nil
	}
}

// lookFor finds out where a session is.
func (r *relay) lookFor(c actor.Context, s *session) {
	s.at, s.looking.number = nil, r.next()
	ask := located{session: s.id, look: s.looking.number}
	opens, members, from := s.opens, r.shared.Members, r.life.ctx
	root, self := c.ActorSystem().Root, c.Self()
	kernel.Go(root, self, func() {
		ctx, cancel := context.WithTimeout(from, lookTime)
		defer cancel()
		id := cluster.SessionID(ask.session)
		if ask.err = cluster.ErrNoSession; cluster.Valid(ask.session) {
			ask.node, ask.err = members.Where(ctx, id)
		}
		if opens != nil && errors.Is(ask.err, cluster.ErrNoSession) {
			ask.node, ask.err = members.Place(id, opens.Wants)
		}
		root.Send(self, ask)
	})
}

func (r *relay) located(c actor.Context, m located) {
	s := r.sessions[m.session]
	if s == nil || s.looking.number != m.look {
		return
	}
	switch {
	case m.err == nil && m.node.Name == r.shared.Members.Self():
		r.here(c, s)
	case m.err == nil && r.side.inner:
		r.giveUp(c, s, protocol.CodeNotHere.Errorf("The session is on another node: %s", m.node.Name))
	case m.err == nil && s.opens != nil && s.opens.elsewhere(m.node, r.shared.Roots):
		r.giveUp(c, s, protocol.CodeInvalidParams.Errorf("cwd has to be given as %s:DIRECTORY: the root is elsewhere on %s", s.opens.Wants.Root, m.node.Name))
	case m.err == nil && m.node.Draining: // it has said so: nobody asks it for anything
		r.waitForDrain(c, s)
	case m.err == nil:
		s.looking.number, s.looking.child = 0, false
		if s.at = r.nodeOf(c, m.node); s.at.conn != nil {
			r.flush(c, s)
		}
	default:
		r.unlocated(c, s, m.err)
	}
}

// unlocated gives a session up that nobody can have, and looks for any other one again.
func (r *relay) unlocated(c actor.Context, s *session, why error) {
	var answered *protocol.Error
	switch {
	case errors.Is(why, cluster.ErrNoSession):
		r.askAround(c, s)
	case errors.Is(why, cluster.ErrNowhere) && s.opens != nil:
		r.giveUp(c, s, protocol.CodeNowhere.Errorf("%s", sentence(why)))
	case errors.As(why, &answered):
		r.refuseAll(c, s, answered)
		r.waitFor(c, s, why)
	case errors.Is(why, cluster.ErrNewer), errors.Is(why, cluster.ErrUpgrade): // which no waiting changes
		r.refuseAll(c, s, protocol.CodeUpgradeNeeded.Errorf("%s", sentence(why)))
		r.waitFor(c, s, why)
	case r.side.inner:
		r.giveUp(c, s, protocol.CodeNotHere.Errorf("The session is not here: %s", sentence(why)))
	default:
		r.waitFor(c, s, why)
	}
}

// giveUp refuses what waits for a session, which is none of the relay's any more.
func (r *relay) giveUp(c actor.Context, s *session, why *protocol.Error) {
	r.refuseAll(c, s, why)
	r.forget(c, s)
}

// here gives a session to the router: it belongs on this node.
func (r *relay) here(c actor.Context, s *session) {
	m := Here{Session: s.id, Hears: s.hears, Viewer: s.viewer}
	r.arrives(c, s, r.shared.Members.Self(), 0)
	m.Behind, m.Works = s.behind, s.seen.work
	for _, a := range s.waiting {
		m.Commands = append(m.Commands, a.Command)
	}
	r.drop(s)
	c.Send(r.side.router, m)
	r.maybeLeft(c)
}

// waitFor looks for a session again later, as long as somebody wants it. What has waited for
// too long is refused.
func (r *relay) waitFor(c actor.Context, s *session, why error) {
	now, kept := time.Now(), s.waiting[:0]
	nobodys := errors.Is(why, cluster.ErrNowhere) || (noEngine(why) || errors.Is(why, errDrains)) && now.Sub(s.looking.since) > waitTold
	for _, a := range s.waiting {
		switch {
		case nobodys && a.own == nil && protocol.TraitsOf(a.cmd()).Is(protocol.InLog):
			c.Send(r.side.router, Read{a.Command})
		case now.Before(a.until):
			kept = append(kept, a)
		default:
			r.refuse(c, a, unavailable(why))
		}
	}
	s.waiting = kept
	if len(s.waiting) == 0 && (!s.hears || r.leaving != nil) {
		r.forget(c, s)
		return
	}
	if s.hears && s.joined == 0 && !s.looking.told && now.Sub(s.looking.since) > waitTold {
		s.looking.told = true
		r.tell(c, s, protocol.SessionWaiting{Since: s.looking.since.UnixMilli()})
	}
	s.looking.pause = min(max(2*s.looking.pause, firstPause), mostPause)
	if len(s.waiting) == 0 && now.Sub(s.looking.since) > r.patience() {
		s.looking.pause = idlePause
	}
	s.at, s.looking.number = nil, r.next()
	kernel.After(c, s.looking.pause, c.Self(), lookAgain{s.id, s.looking.number})
}

// noEngine says whether nobody can say where a session is: a node's copy of it is all there is to be read then.
func noEngine(why error) bool {
	return errors.Is(why, cluster.ErrUnavailable) || errors.Is(why, cluster.ErrUnknown) || errors.Is(why, context.DeadlineExceeded)
}

// unavailable is why a command has waited in vain.
func unavailable(why error) *protocol.Error {
	var lost *cluster.LostError
	if errors.As(why, &lost) {
		err := protocol.CodeNodeLost.Errorf("%s", sentence(why))
		data := protocol.RetryInfo{Retryable: true, Node: lost.Node}
		if !lost.Since.IsZero() {
			data.Since = lost.Since.UnixMilli()
		}
		err.Data = data
		return err
	}
	return protocol.CodeSessionUnavailable.Errorf("No node has the session at the moment: %s", sentence(why)).NotRun(protocol.RetryAfter)
}

// elsewhere looks for a session again that is not on a node, or of which the client hears nothing from
// there any more; at once if it has been there until now. first waits before all others.
func (r *relay) elsewhere(c actor.Context, s *session, from *node, first []*ask, was bool) {
	if s.at != nil && s.at != from { // it is found already
		for _, a := range first {
			r.pass(c, s, a)
		}
		return
	}
	s.waiting = append(first, s.waiting...)
	s.joined = 0
	if s.hears && s.moved == "" {
		s.moved = "failover"
	}
	switch {
	case len(s.waiting) == 0 && !s.hears:
		r.forget(c, s)
	case was:
		s.looking.since, s.looking.told, s.looking.pause = time.Now(), false, 0
		r.lookFor(c, s)
	default:
		r.waitFor(c, s, cluster.ErrUnreachable)
	}
}

// errDrains is why a command waits for a node that comes to its end.
var errDrains = errors.New("its node comes to its end")

// later keeps commands that a node does not take any more until it has given the session up. What it
// says until then the client hears.
func (r *relay) later(c actor.Context, s *session, first []*ask) {
	s.waiting = append(first, s.waiting...)
	drains := s.at != nil && s.at.drains
	if s.at != nil {
		s.looking.since, s.looking.told = time.Now(), false
	}
	if drains {
		r.waitForDrain(c, s)
		return
	}
	r.waitFor(c, s, errDrains)
}

// waitForDrain waits for a node that gives its sessions up, however long it says that it may take: that
// it is lost meanwhile is noticed. What is waited beyond that counts from its end.
func (r *relay) waitForDrain(c actor.Context, s *session) {
	for _, a := range s.waiting {
		a.until = time.Now().Add(r.patience())
	}
	r.waitFor(c, s, errDrains)
}

// answered notes that the session's node has done something for the client.
func (s *session) answered() { s.told, s.looking.pause = "", 0 }

// flush sends what has waited for a session, and tells its client where it is.
func (r *relay) flush(c actor.Context, s *session) {
	waiting := s.waiting
	s.waiting, s.looking.closed = nil, false
	if s.moved != "" {
		r.shared.Metrics.Took("troupe_cluster_failover_seconds", time.Since(s.looking.since))
	}
	r.arrives(c, s, s.at.Name, s.at.life)
	if len(waiting) == 0 && s.hears {
		r.join(c, s, nil)
	}
	for _, a := range waiting {
		r.pass(c, s, a)
	}
}

// arrives tells the client where a session is from now on, over the wire of that life, if it has not heard
// of it from there until now, and was not told so already.
func (r *relay) arrives(c actor.Context, s *session, at string, life uint64) {
	if s.joined != 0 && s.joined != life { // the node that had it has not said so yet
		s.moved = cmp.Or(s.moved, "released")
		for _, n := range r.nodes {
			if n.life == s.joined {
				n.leave(s.id)
			}
		}
		s.joined = 0
	}
	if s.hears && s.moved != "" && s.told != at {
		s.told = at
		r.tellMoved(c, s, at)
	}
	s.moved = ""
}

// leave has nothing of a session pass that is still said here.
func (n *node) leave(session string) {
	if n.left == nil {
		n.left = map[string]bool{}
	}
	n.left[session] = true
}

// tellMoved tells a client that a session is elsewhere. One that counts events attaches again.
func (r *relay) tellMoved(c actor.Context, s *session, to string) {
	r.tell(c, s, protocol.SessionMoved{To: to, Why: s.moved})
	if s.at == nil || s.seen.asked.from != s.at.lifeOf() { // what was asked is over, for everybody
		r.endAsked(c, s)
	}
	switch {
	case r.side.out.Wire.Has(protocol.FeatureSeq):
		s.behind = true
		r.tell(c, s, protocol.Resync{Reason: "moved"})
	case s.at == nil || s.seen.from != s.at.lifeOf(): // not only the wire was cut
		outcome := ""
		if r.shared.Stops {
			outcome = interrupted
		}
		r.endSeen(c, s, outcome)
	}
}

// endAsked tells a client that what it was asked is over.
func (r *relay) endAsked(c actor.Context, s *session) {
	for _, ev := range s.seen.asked.end() {
		r.tell(c, s, ev)
	}
}

// lostOnTheWay is why what a client has seen begin has no other end.
const lostOnTheWay = "interrupted: the node of the session was lost"

// interrupted is the outcome of work of which nothing else is known.
const interrupted = "interrupted"

// endSeen tells a client the end of what it has seen begin; outcome as of [spans.end].
func (r *relay) endSeen(c actor.Context, s *session, outcome string) {
	for _, ev := range s.seen.end(lostOnTheWay, outcome) {
		r.tell(c, s, ev)
	}
}

func (r *relay) tell(c actor.Context, s *session, ev protocol.Event) {
	tag := s.id
	if tag == r.side.main {
		tag = ""
	}
	r.client(tag).Send(c.ActorSystem().Root, link.Item{Event: ev})
}

// client is where a session's records go.
func (r *relay) client(tag string) link.Client {
	to := r.side.out
	to.Who, to.Tag = nil, tag
	return to
}

// refuse answers a command with an error in place of its session. Whatever the reason, the error says whether the
// command may have run.
func (r *relay) refuse(c actor.Context, a *ask, err *protocol.Error) {
	a.Credit.GiveBack()
	a.Credit = link.Credit{}
	if r.current == a {
		r.current = nil
	}
	switch {
	case a.own != nil || a.begun && r.silent(a):
		return
	case a.begun && a.changes():
		err = err.MayHaveRun()
	}
	r.client(a.Request.SessionID).Send(c.ActorSystem().Root, link.Item{
		Response: &protocol.Response{ID: a.Request.ID, Command: a.Request.Name, Err: err},
	})
}

func (r *relay) refuseAll(c actor.Context, s *session, err *protocol.Error) {
	for _, a := range s.waiting {
		r.refuse(c, a, err)
	}
	s.waiting = nil
}

// forget has a session be none of the relay's.
func (r *relay) forget(c actor.Context, s *session) {
	r.drop(s)
	c.Send(r.side.router, Gone{s.id})
	r.maybeLeft(c)
}

func (r *relay) drop(s *session) {
	delete(r.sessions, s.id)
	if r.side.main == s.id {
		r.side.main = ""
	}
}

// sentence is an error as it is told to a client.
func sentence(err error) string {
	if err == nil {
		return "it is looked for"
	}
	return err.Error()
}

// leave ends the relay's wires: at once, or when what was begun has come to its end.
func (r *relay) leave(c actor.Context, m link.Leave) {
	r.leaving = r.leaving.And(m)
	atOnce := r.leaving.Abort || r.leaving.Gone
	for id, s := range r.sessions {
		if !atOnce && (s.at != nil || len(s.waiting) > 0) {
			continue
		}
		for _, a := range s.waiting {
			a.Credit.GiveBack()
		}
		delete(r.sessions, id)
		c.Send(r.side.router, link.Left{Handle: id})
	}
	if atOnce {
		clear(r.finds)
		for name, n := range r.nodes {
			delete(r.nodes, name)
			r.cut(n)
		}
	}
	r.maybeLeft(c)
}

// maybeLeft says no more to nodes to which nothing is to be said, once the client has left.
func (r *relay) maybeLeft(c actor.Context) {
	if r.leaving == nil || len(r.finds) > 0 {
		return
	}
	for _, s := range r.sessions {
		if len(s.waiting) > 0 {
			return
		}
	}
	for _, n := range r.nodes {
		if !n.over {
			n.over = true
			if n.conn == nil {
				r.ended(c, n)
				continue
			}
			n.out.end()
		}
	}
}

// ended lets go of the sessions of a node to which nothing is said any more.
func (r *relay) ended(c actor.Context, n *node) {
	delete(r.nodes, n.Name)
	for id, s := range r.sessions {
		if s.at == n {
			delete(r.sessions, id)
			c.Send(r.side.router, link.Left{Handle: id})
		}
	}
}
