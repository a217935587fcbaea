package session

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/core"
	"troupe/actors/link"
	"troupe/protocol"
)

// clients are those of a session, in the order in which they came, each of another
// connection; and what they are told.
type clients struct {
	list   []*client
	sealed bool // nobody can join any more
	first  beginning
	wants  wants
	host   *actor.PID // the router of the client whose set_host_tools was carried out; nil for none

	replies replies
	seq     uint64 // of the last event that was told
	ring    ring
	unsent  []outgoing // what has happened and they have not been told
	spans   spans
	sizes   link.Sizer
	stands  standing
}

// spans are what has begun for clients and not ended.
type spans struct {
	core.OpenSpans                // with what they have not been told yet
	told           core.OpenSpans // without
}

// beginning is what comes before the answer to the first command: nothing.
type beginning struct {
	asked bool       // a command came
	early []outgoing // records of extensions before that; they follow the first answer, unless that waits for extensions
	done  bool       // a command was executed, or has waited long enough for extensions
}

// wants are what some client has asked for, also one that is not there any more: it may
// come back, and go on where it was.
type wants struct {
	dialogs, states bool
	children        subscriptions
}

// note notes what a client asks for.
func (a *clients) note(w *protocol.Wire) {
	a.ring.on = a.ring.on || w.Has(protocol.FeatureSeq)
	a.wants.dialogs = a.wants.dialogs || w.Has(protocol.FeatureDialogEvents)
	a.wants.states = a.wants.states || w.Has(protocol.FeatureStateEvents)
}

// client is one of them.
type client struct {
	link.Client
	muted     bool        // it has not attached yet, has detached or left: it hears nothing but answers and the end
	attaching uint64      // the attach that is not answered yet: with the answer it hears; 0 for none
	leaving   *link.Leave // it sends nothing more; nil before that
	viewer    bool        // it is not asked

	children protocol.SubagentLevel // what it is told of them
}

// outgoing is a record on its way to one client, or to all.
type outgoing struct {
	to   link.Client // the zero value for all
	item link.Item
	seq  uint64 // of an answer: the command
	past bool   // it has its number, or says of it: an event from before the attach, or the answer to that
}

// attached says whether the session goes on for this client.
func (cl *client) attached() bool { return (!cl.muted || cl.attaching != 0) && cl.leaving == nil }

// answer says whether somebody can still answer questions although the process ends.
func (a *clients) answer() bool {
	return slices.ContainsFunc(a.list, func(cl *client) bool {
		return !cl.muted && !cl.viewer && cl.leaving != nil && cl.leaving.GoesOn && !cl.leaving.Abort && !cl.leaving.Gone
	})
}

// show says whether somebody who is there can show a dialog and answer it.
func (a *clients) show(record protocol.Event) bool {
	return slices.ContainsFunc(a.list, func(cl *client) bool { return cl.attached() && !cl.viewer && cl.Wire.ShowsRecord(record) })
}

// answered notes that an attach was answered.
func (cl *client) answered() {
	if cl.attaching != 0 {
		cl.attaching, cl.muted = 0, false
	}
}

// hears says whether a record is for this client.
func (cl *client) hears(o outgoing) bool {
	if o.item.Event != nil && cl.muted && !o.past {
		return false
	}
	if cl.viewer && isQuestion(o.item.Event) {
		return false
	}
	return !o.to.Known() || o.to.Is(cl.Client)
}

// isQuestion says whether an event is one, which a viewer is not asked: what is open it
// can look up.
func isQuestion(ev protocol.Event) bool {
	switch ev := ev.(type) {
	case protocol.ApprovalRequest:
		return true
	case protocol.ExtensionUIRequest:
		return ev.Asks()
	default:
		return false
	}
}

// join adds a client that does not hear of the session yet, unless it is there.
func (a *clients) join(of link.Client) (cl *client, isNew bool) {
	if cl := a.by(of.Router); cl != nil {
		return cl, false
	}
	cl = &client{Client: of, muted: true}
	a.note(of.Wire)
	a.list = append(a.list, cl)
	return cl, true
}

// by is the client of a router, nil if it is not there.
func (a *clients) by(router *actor.PID) *client {
	for _, cl := range a.list {
		if cl.Router.Equal(router) {
			return cl
		}
	}
	return nil
}

// remove lets go of a client. Nothing more is sent to it.
func (a *clients) remove(root *actor.RootContext, cl *client) {
	a.list = slices.DeleteFunc(a.list, func(other *client) bool { return other == cl })
	if cl.Tag != "" { // untagged records are those of the connection, too
		root.Send(cl.Writer, link.Forget{Tag: cl.Tag})
	}
}

// attached is for how many clients the session goes on.
func (a *clients) attached() (n int) {
	for _, cl := range a.list {
		if cl.attached() {
			n++
		}
	}
	return n
}

// answered notes that every attach was answered.
func (a *clients) answered() {
	for _, cl := range a.list {
		cl.answered()
	}
}

// failAll answers with errors whatever is owed, the open_session only if this is
// the end.
func (a *clients) failAll(root *actor.RootContext, why func(seq uint64) *protocol.Error, final bool) {
	a.replies.failAll(root, why, final)
	a.answered()
}

// hasHost says whether the client that runs the host tools hears of the session.
func (a *clients) hasHost() bool {
	cl := a.by(a.host)
	return cl != nil && cl.attached()
}

// full is the first client that has to read before more is made; nil for none.
func (a *clients) full() *client {
	for _, cl := range a.list {
		if !cl.muted && cl.Window.Holds() {
			return cl
		}
	}
	return nil
}

// fit is how many parts of a model's answer every client has room for.
func (a *clients) fit(parts []protocol.Part) int {
	n := len(parts)
	for _, cl := range a.list {
		if !cl.muted && !cl.Window.Lossy() {
			n = a.sizes.Fit(parts[:n], cl.Window.Room(), cl.Wire.Has(protocol.FeatureDeltaUpdates))
		}
	}
	return n
}

// told says whether a client has a feature.
func (a *clients) told(f protocol.Feature) bool {
	return slices.ContainsFunc(a.list, func(cl *client) bool { return !cl.muted && cl.Wire.Has(f) })
}

// emit tells everybody of an event; what a host tool is asked is told the client
// that runs it.
func (a *clients) emit(ev protocol.Event, receipt *link.Receipt) {
	if a.emitTo(ev) {
		return
	}
	a.spans.Observe(ev)
	it := link.Item{Event: ev, Receipt: receipt}
	a.sizes.Size(&it)
	if n := len(a.unsent); n > 0 && !a.unsent[n-1].to.Known() && a.unsent[n-1].item.Merge(it) {
		return
	}
	o := outgoing{item: it}
	if protocol.RowOf(ev).To == protocol.Host {
		if host := a.by(a.host); host != nil {
			o.to = host.Client
		}
	}
	a.unsent = append(a.unsent, o)
}

// reply answers a command, and returns whom; false if it has been answered.
func (a *clients) reply(seq uint64, data protocol.Result, err *protocol.Error) (link.Client, bool) {
	to, response, ok := a.replies.answer(seq, data, err)
	if ok {
		if err == nil {
			a.spans.ObserveReply(data)
		}
		a.unsent = append(a.unsent, outgoing{to: to, item: link.Item{Response: response}, seq: seq})
	}
	return to, ok
}

// flush sends what has gathered to the clients, each its part, in order. It is
// called after each message, and when the session crashes: what has happened by
// then is in the log and must be told.
func (a *clients) flush(root *actor.RootContext) {
	if len(a.first.early) > 0 && slices.ContainsFunc(a.unsent, func(o outgoing) bool { return o.seq != 0 }) {
		a.unsent, a.first.early = append(a.unsent, a.first.early...), nil
	}
	if len(a.unsent) == 0 || !a.first.asked {
		return
	}
	for i := range a.unsent {
		a.number(&a.unsent[i])
	}
	for _, cl := range a.list {
		var items []link.Item
		for _, o := range a.unsent {
			if !cl.hears(o) {
				continue
			}
			if items == nil {
				items = make([]link.Item, 0, len(a.unsent))
			}
			items = append(items, o.item)
			if o.seq != 0 && o.seq == cl.attaching {
				cl.answered()
				items = append(items, a.stands.items(&a.sizes, cl.viewer || cl.Wire.Has(protocol.FeatureDialogEvents))...)
			}
		}
		if len(items) > 0 {
			cl.Send(root, items...)
		}
	}
	a.answerAbsent(root)
	clear(a.unsent) // an answer may be a whole conversation
	a.unsent = a.unsent[:0]
	a.spans.told = a.spans.OpenSpans
	if len(a.first.early) == 0 {
		a.stands.known()
	}
}

// answerAbsent answers clients that have gone and may come back for it.
func (a *clients) answerAbsent(root *actor.RootContext) {
	for _, o := range a.unsent {
		if o.item.Response != nil && o.to.Ledger() != nil && a.by(o.to.Router) == nil {
			o.to.Send(root, o.item)
		}
	}
}

// number gives an event that all are told of its number, and an answer that of the
// event before it.
func (a *clients) number(o *outgoing) {
	o.item.Settle()
	switch {
	case o.past:
	case o.item.Response != nil:
		o.item.Response.At = a.seq
	case !o.to.Known():
		a.seq++
		o.item.Seq = a.seq
		a.ring.add(o.item)
	}
}

// firstAsked notes that a command came. No line precedes the answer to the first one,
// whatever extensions have to say at the start.
func (a *clients) firstAsked() {
	if !a.first.asked {
		a.first.asked, a.first.early, a.unsent = true, a.unsent, nil
	}
}

// detach stops telling a client about the session. The session goes on; one
// that was not to be retained ends when its run does, if nobody listens any
// more.
func (s *Session) detach(c actor.Context, r link.Request) {
	s.do(c, core.Reply{Seq: r.Seq})
	s.hostLeft(c)
	s.clientsChanged(c)
	if s.clients.attached() == 0 && !s.spec.Retain {
		s.close(c, ending{})
	}
}

// leave lets a client go, or ends with it: see noteLeave.
func (s *Session) leave(c actor.Context) {
	if s.life.end != nil && s.life.end.abort && s.kept() != nil && (s.m.Phase() != core.PhaseIdle || s.m.AsksAgain()) && s.leftForGood() {
		s.moveAway(c, "released") // a run that is cut off goes on where the session is next
		return
	}
	s.withdraw(c)
	if s.orphaned() {
		s.step(c, core.Orphaned{})
	}
	if s.life.end != nil {
		s.closeMachine(c)
	} else {
		s.hostLeft(c)
	}
	if s.life.end == nil && s.leftByParent() {
		s.step(c, core.Pooled{Draws: core.DrawsOwn, Spent: s.spent()})
	}
	s.clientsChanged(c)
}

// leftForGood says whether the process ends.
func (s *Session) leftForGood() bool {
	return slices.ContainsFunc(s.clients.list, func(who *client) bool { return who.leaving != nil && who.leaving.Final })
}

// withdraw takes back what clients that leave at once have asked for and the machine
// has not begun: they are told that it is refused.
func (s *Session) withdraw(c actor.Context) {
	var seqs []uint64
	for _, who := range s.clients.list {
		if who.leaving != nil && who.leaving.Abort {
			seqs = append(seqs, s.clients.replies.owed(who.Client)...)
		}
	}
	if len(seqs) > 0 {
		s.step(c, core.Withdrawn{Seqs: seqs})
	}
}

// clientsChanged tells what has gathered, and everybody whom it concerns that
// others listen now. Nothing waits any more for who does not.
func (s *Session) clientsChanged(c actor.Context) {
	s.clients.flush(c.ActorSystem().Root)
	s.tellClients(c)
	s.subscribed(c)
	if s.clients.attached() == 0 && !s.clients.answer() && !s.waitsForSomebody() {
		s.dismissDialogs(c)
	}
	s.unseen(c)
	if !s.output.none() {
		c.Send(c.Self(), link.WindowOpen{})
	}
	s.tellParent(c)
}

// hostIs notes who has declared the host tools; nobody if the client has left
// before they were.
func (s *Session) hostIs(router *actor.PID) {
	s.clients.host = router
	if !s.clients.hasHost() {
		s.clients.host = nil
		s.inputs.cause(core.HostGone{})
	}
}

// hostLeft ends the calls that wait for a host that has left or detached: it hears
// nothing of them and cannot answer.
func (s *Session) hostLeft(c actor.Context) {
	if s.clients.host != nil && !s.clients.hasHost() {
		s.clients.host = nil
		s.step(c, core.HostGone{})
	}
}

// setDialect notes how a client is written to, and takes on the rules that it has
// chosen if the session has no other: what one client says changes nothing for
// another.
func (s *Session) setDialect(m link.SetDialect) (changed bool) {
	for _, cl := range s.clients.list {
		if cl.Is(m.Client) {
			cl.Wire, cl.Who = m.Client.Wire, m.Client.Who
			s.clients.note(cl.Wire)
		}
	}
	if m.Looks || slices.ContainsFunc(s.clients.list, func(cl *client) bool { return !cl.Is(m.Client) && cl.leaving == nil }) {
		return false
	}
	s.rules, s.work.settings.Rules = m.Rules, m.Rules
	return true
}
