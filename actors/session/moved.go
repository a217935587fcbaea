package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/cluster"
	"troupe/actors/core"
	"troupe/actors/kernel"
	"troupe/actors/link"
	"troupe/protocol"
)

// A session that the cluster keeps is this node's as long as what it appends is accepted. What
// clients are shown from memory counts only while nobody can have claimed it, so that each
// command has that looked at first. Once somebody has, the session is over here, without a
// word of its own: its work is killed, and its clients are led to where it is.

// kept is how the cluster has the session; nil for one that it does not keep, or not yet.
func (s *Session) kept() *kept {
	if k := keptBy(s.file.Log); k != nil && k.owned != nil {
		return k
	}
	return nil
}

// watchOver has the session told when it should make sure that it is still this node's.
func (s *Session) watchOver(c actor.Context) {
	k := keptBy(s.file.Log)
	if k == nil {
		return
	}
	root, self := c.ActorSystem().Root, c.Self()
	k.wake = func() { root.Send(self, confirm{}) }
	k.doubt = func(since time.Time) { root.Send(self, inDoubt{since}) }
	k.wait = func(do func(context.Context) error) error { return s.life.turn.wait(c, do) }
	if k.owned != nil {
		k.owned.Woken(k.wake)
		k.owned.Doubted(k.doubt)
	}
}

// inDoubt says that what is appended has been in doubt for a while.
type inDoubt struct{ since time.Time }

// doubtful tells who hears of the session that it cannot be written at the moment, in the middle of a
// turn. It is no event that counts: nothing has happened.
func (d *durable) doubtful(root *actor.RootContext, m inDoubt) {
	if d.life.turn.waits == nil {
		return
	}
	d.clients.flush(root) // what is in the log
	for _, cl := range d.clients.list {
		if !cl.muted {
			cl.Send(root, link.Item{Event: protocol.SessionWaiting{Since: m.since.UnixMilli()}})
		}
	}
}

// failover says whether the log that was opened comes from a node that was lost.
func (d *durable) failover(to core.Loaded) *core.Failover {
	k := keptBy(d.file.Log)
	if k == nil || k.owned == nil || k.owned.From == "" || d.last.ran() && k.owned.From == k.cluster.Member.Self() {
		return nil
	}
	f := core.Failover{From: k.owned.From, Stop: k.cluster.Stop}
	if dir := k.dir(); dir != "" && dir != d.file.Header().Cwd && !k.cluster.noFiles(dir) {
		f.Cwd = dir
	}
	if op, adopted := d.file.View().Adopted(); adopted {
		f.Cwd = op.Cwd
	}
	f.Saved = k.tree != nil && (f.From != k.cluster.Member.Self() || k.tree.found.Put) // it may have had the session, and no tree
	f.Older = f.Saved && k.tree.older(d.file.View(), to.Interrupted || to.Tried > 0)
	return &f
}

// grace is for what runs in a directory that the node has, too, which was lost with the session: that one may be cut off
// only, and what ran there runs on until it is ended for want of a sign that the session is still its own, see
// [tools.Guard.Feed]. The function waits until then; nil where nothing has to wait.
func (s *Session) grace() func(context.Context) error {
	k := s.kept()
	if k == nil || k.owned.Why != "dead" || k.owned.From == k.cluster.Member.Self() || k.cluster.Member.Root(k.owned.Wants.Root).Mode != cluster.Shared {
		return nil
	}
	until := k.owned.Since().Add(k.cluster.Grace)
	if time.Until(until) <= 0 {
		return nil
	}
	return func(ctx context.Context) error {
		select {
		case <-time.After(time.Until(until)):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// confirm has the session make sure that it is still this node's.
type confirm struct{}

// current makes sure that the session is this node's before a command is handled, or without one.
func (s *Session) current(c actor.Context, r *link.Request) bool {
	k := s.kept()
	if k == nil || s.life.state.over() || s.life.state == parked {
		return true
	}
	switch err := k.wait(k.owned.Current); {
	case err == nil:
		return true
	case errors.Is(err, cluster.ErrFenced):
		s.moveAway(c, "fenced")
	case r == nil:
		s.log.Warn().Err(err).Msg("ownership of the session is in doubt")
	default:
		if final(err) {
			s.life.state = stale
		}
		s.answerAtOnce(c, core.Reply{Seq: r.Seq, Err: keptError(k.id, err)})
	}
	return false
}

// key names a command over all nodes; "" for one that may come again, or whose client has
// not said who it is.
func (p *pendingReply) key() string {
	who := p.client.Name()
	if who == nil || who.ClientID == "" || len(p.id) == 0 || p.id[0] != '"' {
		return ""
	}
	spec := protocol.Lookup(p.name)
	if spec == nil || spec.Scope == protocol.ScopeQuery || spec.Scope == protocol.ScopeConnection {
		return ""
	}
	var id string
	if json.Unmarshal(p.id, &id) != nil {
		return ""
	}
	return who.ClientID + "/" + id
}

// keyOf is the key of a command that is to be answered.
func (r *replies) keyOf(seq uint64) string {
	p := r.pending[seq]
	return p.key()
}

// keysOf are the keys of the commands among some inputs.
func (s *Session) keysOf(ins []core.Input) (keys []string) {
	if s.kept() == nil {
		return nil
	}
	for _, in := range ins {
		if cmd, ok := in.(core.Command); ok {
			if key := s.clients.replies.keyOf(cmd.Seq); key != "" {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// sign gives what is about to be appended the keys of the commands whose effect it is: those that the
// step is about, and those that are answered behind it. What is said of one that is about to run is not its effect.
func (s *Session) sign(effects []core.Effect) {
	k := keptBy(s.file.Log)
	if _, appends := effects[0].(core.Append); k == nil || !appends {
		return
	}
	keys, refused, begins := s.inputs.keys, map[string]bool{}, map[string]bool{}
	for _, e := range effects {
		switch e := e.(type) {
		case core.Reply:
			if key := s.clients.replies.keyOf(e.Seq); key == "" {
			} else if e.Err != nil {
				refused[key] = true
			} else {
				keys = append(keys, key)
			}
		default:
			if seq, runs := startsOutside(e); runs {
				begins[s.clients.replies.keyOf(seq)] = true
			}
		}
	}
	k.sign = nil
	seen := map[string]bool{}
	for _, key := range keys {
		as := key
		if begins[key] {
			as += begun
		}
		if !seen[key] && !refused[key] && (k.owned == nil || k.owned.Done(as) == 0) {
			k.sign = append(k.sign, as)
		}
		seen[key] = true
	}
}

// doneBefore answers a command whose effect is in the log: it has come again, perhaps by way of another
// node.
func (s *Session) doneBefore(c actor.Context, r link.Request) bool {
	k := s.kept()
	if k == nil {
		return false
	}
	key := s.clients.replies.keyOf(r.Seq)
	if key == "" {
		return false
	}
	if slices.Contains(s.keysOf(s.inputs.group), key) {
		s.endGroup(c)
	}
	switch {
	case k.owned.Done(key) != 0, s.file.led.done.Find(key) != 0:
	case k.owned.Done(key+begun) != 0: // its end was lost with a node
		s.answerAtOnce(c, core.Reply{Seq: r.Seq, Err: protocol.CodeCancelled.Errorf("interrupted: the node that ran it was lost; it may or may not have finished").MayHaveRun()})
		return true
	default:
		return false
	}
	if s.current(c, &r) {
		if _, ok := s.clients.reply(r.Seq, s.loggedReply(k, r.Cmd, key), nil); ok {
			s.clients.unsent[len(s.clients.unsent)-1].item.Response.Replayed = true
		}
		s.clients.flush(c.ActorSystem().Root)
	}
	return true
}

// begun is behind the key of a command of which the log says that it was begun, and its effect comes later.
const begun = "\x00begun"

// settledBefore tells a client that comes from another node that nothing goes on, where that was told before it came.
func (s *Session) settledBefore(c actor.Context, who link.Client) {
	if s.life.state == live || s.life.state == parked {
		if st := s.m.State(); !st.IsStreaming && !st.IsCompacting {
			who.Send(c.ActorSystem().Root, link.Item{Event: protocol.AgentSettled{Outcome: s.outcome()}})
		}
	}
}

// outcome is how the last work of the session has ended: as was told here, or as its log says.
func (s *Session) outcome() string {
	if s.reported.outcome != "" || s.file.Log == nil {
		return cmp.Or(s.reported.outcome, "interrupted")
	}
	st, err := s.file.View().State()
	if err != nil {
		return "interrupted"
	}
	return core.OutcomeOf(st.Resume)
}

// startsOutside returns the command whose effect outside the log starts with e.
func startsOutside(e core.Effect) (seq uint64, is bool) {
	switch e := e.(type) {
	case core.StartBash:
		return e.Seq, true
	case core.SlowQuery:
		return e.Seq, protocol.TraitsOf(e.Cmd).Effect() == protocol.EffectOutside
	default:
		return 0, false
	}
}

// noteBegun says in the log that a command of a client runs, before it does, unless an entry says so that is there already.
func (s *Session) noteBegun(e core.Effect) error {
	if seq, is := startsOutside(e); is {
		return s.note(seq, begun)
	}
	return nil
}

// note records in the log of a cluster that a command was executed that no entry names.
func (s *Session) note(seq uint64, as string) error {
	k, key := s.kept(), s.clients.replies.keyOf(seq)
	if k == nil || key == "" || k.owned.Done(key+as) != 0 {
		return nil
	}
	return k.wait(func(ctx context.Context) error { return k.owned.Note(ctx, nil, []string{key + as}) })
}

// fencedGrace is what is left to commands of a session that another node has: they may be at work on what its own are.
const fencedGrace = time.Millisecond

// moveAway ends the session here: another node has it. Nothing that was not told is told. Commands
// that have had no effect here go where the session is.
func (s *Session) moveAway(c actor.Context, why string) {
	if s.life.state.over() {
		return
	}
	if s.work != nil {
		procs := s.work.env.Procs
		kernel.Background(c, func() any {
			procs.KillAll(fencedGrace)
			return procsGone{}
		})
	}
	s.idle.stop()
	for _, j := range s.jobs.running {
		j.stop.Now()
	}
	s.jobs.stop(c)
	if s.ext.pid != nil {
		c.Stop(s.ext.pid)
	}
	s.output.closeLeft()
	s.dropAllLoaded()
	s.leaveTo(c, why)
}

// leaveTo tells routers that the session goes on elsewhere.
func (s *Session) leaveTo(c actor.Context, why string) {
	moved := &link.Moved{Why: why, Asked: s.endsOfAsking(), Unopened: s.clients.replies.untouched}
	moved.Ends, moved.Owed = s.clients.spans.told.Lost("interrupted: another node has the session", !s.shared.Cluster.Stop)
	s.clients.unsent, s.inputs.next, s.inputs.group = s.clients.unsent[:0], nil, nil
	begun := func(seq uint64) bool { return s.mayHaveRun(seq, nil) }
	moved.Unanswered = s.clients.replies.goElsewhere(begun)
	s.clients.replies.failAll(c.ActorSystem().Root, s.interruptionError(protocol.CodeSessionUnavailable.Errorf("The session is on another node"), nil), true)
	s.life.state = closed
	s.closeLog()
	s.sayMoved(c, moved)
}

// moveTo gives the session to another node, if nothing goes on in it.
func (s *Session) moveTo(c actor.Context, seq uint64, node string) {
	k := s.kept()
	var err *protocol.Error
	switch {
	case s.shared.Cluster == nil:
		err = protocol.CodeUnsupported.Errorf("There are no other nodes: this daemon is alone")
	case s.spec.Child != nil:
		err = protocol.CodeInvalidParams.Errorf("A child is on the node of the session above it")
	case node == s.shared.Cluster.Member.Self():
		s.answerAtOnce(c, core.Reply{Seq: seq})
		return
	case k == nil:
		err = protocol.CodeNothingToDo.Errorf("Nothing was said in the session yet: the cluster does not have it")
	default:
		if why := k.cluster.Member.Take(node, k.owned.Wants); why != nil {
			err = protocol.CodeNowhere.Errorf("%s", why)
		} else if st, why := os.Stat(s.work.cwd); why != nil || !st.IsDir() { // nor will it there, and here it works on
			err = protocol.CodeCwdMissing.Errorf("Working directory does not exist: %s", s.work.cwd)
		} else if !s.m.AtRest() || s.jobs.busy() {
			err = protocol.CodeSessionBusy.Errorf("The session is busy: abort its work, or wait")
		} else if s.commandsRun() || len(s.ext.asks.dialogs) > 0 {
			err = protocol.CodeSessionBusy.Errorf("An extension carries out a command, or asks: answer it, or wait")
		}
	}
	s.answerAtOnce(c, core.Reply{Seq: seq, Err: err})
	if err == nil {
		k.owned.Heir = node
		s.close(c, ending{moves: true})
	}
}

// anyMayGo says whether anything that is to be answered can go to another node.
func (r *replies) anyMayGo() bool { return len(r.whole) > 0 }

// mayGo says whether a command that is to be answered can.
func (r *replies) mayGo(seq uint64) bool {
	_, whole := r.whole[seq]
	p := r.pending[seq]
	return whole && (r.untouched || r.held[seq] || p.actsOnce())
}

// hold notes that a command has had no effect, and says whether another node can have it. What is waited for before the session
// can go is still taken.
func (r *replies) hold(m link.Request) bool {
	if _, whole := r.whole[m.Seq]; whole && !protocol.TraitsOf(m.Cmd).Is(protocol.EndsWork) {
		if r.held == nil {
			r.held = map[uint64]bool{}
		}
		r.held[m.Seq] = true
	}
	return r.mayGo(m.Seq)
}

// goElsewhere removes the commands that another node will answer and returns them, oldest first. They have not begun,
// or are idempotent.
func (r *replies) goElsewhere(begun func(seq uint64) bool) (list []link.Request) {
	for _, seq := range r.order {
		_, whole := r.whole[seq]
		switch hasBegun := begun(seq); {
		case r.mayGo(seq), whole && !hasBegun:
			again := r.take(seq)
			again.Begun = hasBegun
			list = append(list, again)
		}
	}
	return list
}

// take strikes out a command that somebody else answers, who gives its credit back.
func (r *replies) take(seq uint64) link.Request {
	again, p := r.whole[seq], r.pending[seq]
	again.Credit, p.credit = p.credit, link.Credit{}
	r.pending[seq] = p
	r.answer(seq, nil, nil)
	return again
}

// actsOnce reports whether a repeated command is idempotent.
func (p *pendingReply) actsOnce() bool {
	spec := protocol.Lookup(p.name)
	return p.key() != "" || spec != nil && spec.Effect() == protocol.EffectNone
}
