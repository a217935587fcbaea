package session

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/cluster"
	"troupe/actors/core"
	"troupe/actors/extension"
	"troupe/actors/kernel"
	"troupe/actors/link"
	"troupe/actors/worker"
	"troupe/protocol"
	"troupe/store"
)

// Session is the shell around one Machine: it turns messages into inputs and
// performs effects, in order. A crash ends it; another one takes its place.
type Session struct {
	*durable
	m        *core.Machine  // nil before the log is open
	waiting  []any          // messages that came while the log is opened
	context  *store.Context // of the branch; nil until it is needed
	jobs     jobs
	loaded   map[uint64]*loadedSession
	inputs   inputs
	reported reported
	output   output
	idle     idleTimer
	ext      extensions
	trust    trustQuestion
}

func newSession(d *durable) *Session {
	return &Session{durable: d, jobs: newJobs(), loaded: map[uint64]*loadedSession{}}
}

// inputs are on their way to the machine.
type inputs struct {
	next  []core.Input   // that effects have caused: handled before anything else
	group []core.Input   // messages whose entries are to share an fsync
	clock wallClock      // finds steps of the clock
	now   int64          // when the last step began, epoch milliseconds
	keys  []string       // of the commands that the last step is about, in a cluster
	step  stepProgress   // the step that is being performed
	early []link.Request // answers to dialogs that are yet to be asked again
}

// cause queues an input behind those that effects have caused.
func (q *inputs) cause(in core.Input) { q.next = append(q.next, in) }

// first takes the next input that an effect has caused, nil if there is none.
func (q *inputs) first() []core.Input {
	if len(q.next) == 0 {
		return nil
	}
	in := q.next[0]
	q.next = q.next[1:]
	return []core.Input{in}
}

// reported is what was told of the machine's state outside the session.
type reported struct {
	does    whatItDoes      // to the parent
	outcome string          // of the last work; "" before it
	shown   shownState      // to clients
	model   *protocol.Model // as noted for the environment of children
	said    gist
	index   indexing

	commands commandsOf
}

// whatItDoes is what list_open_sessions is to say of a session, as far as it changes.
type whatItDoes struct {
	phase     core.Phase
	pending   int // inputs that wait
	attention string
	name      string
}

// receive handles one message.
func (s *Session) receive(c actor.Context, msg any) {
	switch m := msg.(type) {
	case *actor.Started:
		s.start(c)
	case *actor.Stopping, *actor.Restarting:
		if _, stops := m.(*actor.Stopping); stops && !s.life.state.over() { // the daemon's patience is over: those who worked for it end behind it
			s.life.state = closed
			s.shared.onDisk.holders.release(s.handle)
		}
		s.idle.stop()
		s.trustUnanswered()
		s.partingOver(s.ext.asks.parting.seq)
		s.jobs.stopTimers()
		s.output.closeLeft() // what waited for an answer is answered otherwise
		if s.m != nil {
			s.last.nameplate = s.m.Nameplate()
		}
		s.dropAllLoaded()
		s.closeLog()
	case *actor.Terminated:
		if s.ext.is(m.Who) {
			c.Send(c.Self(), extensionsOver{m.Who}) // behind what they have said before, as with workers
		}
		s.jobs.ended(c, m.Who)
	case extensionsOver:
		if s.ext.is(m.who) {
			s.extensionsEnded(c)
		}
	case opened:
		s.onOpened(c, m)
		s.offerTrust(c)
	case goodRead:
		s.goodRead(c, m)
	case kernel.Crashed:
		panic(m.Reason)
	case parkDue:
		s.onParkDue(c)
	case confirm:
		s.current(c, nil)
	default:
		switch {
		case s.life.state == opening:
			s.waiting = append(s.waiting, m)
		case s.life.state == parked && s.life.end == nil && (wakes(m) || endsSession(m) && s.m.Chose()) && !s.wake(c, m):
		default:
			s.tell(c, m)
			s.offerTrust(c)
			s.rest(c)
		}
	}
}

// tell is everything a live session is told.
func (s *Session) tell(c actor.Context, m any) {
	if !s.endsLater(c, m) {
		s.take(c, m)
	}
}

// take is everything that a live session does now: a command that counts no more is left out, and
// messages that came together are handled together.
func (s *Session) take(c actor.Context, m any) {
	if r, ok := m.(link.Request); ok {
		if !s.clients.replies.expects(r.Seq) {
			return // it has waited, and was refused when its client left
		}
		if s.life.moves() && s.clients.replies.hold(r) {
			return // until that has happened
		}
		if s.kept() != nil && (s.doneBefore(c, r) || !s.current(c, &r)) {
			return
		}
		if r.Known { // and is not
			s.answerAtOnce(c, core.Reply{Seq: r.Seq, Err: protocol.CodeUnknownSession.Errorf("Unknown session: %s", s.handle)})
			return
		}
	}
	if s.grouped(c, m) {
		return
	}
	s.endGroup(c)
	if !s.life.state.over() { // else it went to another node over what came before
		s.dispatch(c, m)
	}
}

// dispatch does what a message is about.
func (s *Session) dispatch(c actor.Context, m any) {
	switch m := m.(type) {
	case link.Request:
		s.command(c, m)
		s.clients.replies.handled(m)
	case worker.StreamParts, worker.ToolProgress, worker.BashProgress, childProgress, childHeard,
		core.ChildOpened, core.ChildTold, core.ChildReplied, core.ChildSettled, core.ChildAborted,
		core.WorkspaceReady, core.WorkCaptured, core.CheckDone, core.MergePlanned, core.MergeDone,
		core.StreamEnd, core.ToolDone, core.BashDone, core.Summarised, core.WorkerGone:
		s.fromWorker(c, m)
	case core.QueryDone:
		s.queryDone(c, m)
	case core.HookDone:
		s.hookDone(c, m)
	case core.UIAnswered:
		s.uiAnswered(c, m)
	case indexDue:
		s.reported.index.due = false
		s.index(c)
	case forgetRing:
		s.clients.ring.forget()
		c.Send(c.Parent(), ringForgotten{s.handle})
	case makeRoom:
		s.makeRoom(c)
	case childrenLeave:
		m.stop(c)
	case childrenLeft:
		asked := s.jobs.leaving.asked
		s.jobs.leaving.asked = nil
		for _, r := range asked {
			s.command(c, r)
		}
	case granted:
		m.then(c, m.err)
	case extension.Message:
		s.fromExtensions(c, m)
	case core.Input:
		s.step(c, m)
	case link.WindowOpen:
		s.onWindowOpen(c)
	case loadedSession:
		s.onLoaded(c, m)
	case modelAnswered:
		s.onModelAnswered(m)
	case discovered:
		s.onDiscovered(c, m)
	case startDue:
		s.onStartDue(c, m)
	case firstDue:
		s.onFirstDue(c)
	case unseenDialog:
		s.onUnseenDialog(m)
	case leftBehind:
		s.onLeftBehind(c, m)
	case trustSaid:
		s.onTrustSaid(c, m)
	case reconfigured:
		s.onReconfigured(c, m)
	case treeSaved:
		s.treeSaved(c, m)
	case procsGone:
		s.finish(c)
	case link.Join:
		if m.Owed {
			s.settledBefore(c, m.Client)
		}
	case link.SetDialect:
		if s.setDialect(m) {
			s.step(c, core.Reconfigured{Settings: s.work.settings})
		}
	case link.Leave:
		if s.leaveWaits() {
			s.hold(c, m)
		} else {
			s.leave(c)
		}
	}
	s.takeEarly(c)
}

// command gives a client's command to the machine, unless it is about who hears
// of the session and how long it lives.
func (s *Session) command(c actor.Context, r link.Request) {
	if s.isEarly(r) {
		s.inputs.early = append(s.inputs.early, r)
		return
	}
	err := s.belongs(r)
	if err == nil {
		err = s.tooLate(r)
	}
	if err == nil {
		err = s.outside(r)
	}
	if err != nil {
		s.answerAtOnce(c, core.Reply{Seq: r.Seq, Err: err})
		return
	}
	switch cmd := r.Cmd.(type) {
	case protocol.GetDialogs:
		s.answerAtOnce(c, core.Reply{Seq: r.Seq, Data: s.clients.stands.open(r.Client.Wire)})
		return
	case protocol.ExtensionUIResponse:
		if s.answersTrust(c, r, cmd) {
			return
		}
	case protocol.ApprovalResponse:
		if r.By = s.answerer(r); s.approvedForProject(c, r) {
			return
		}
	case protocol.SetSubagentSubscription:
		s.subscribe(c, r, cmd)
	case protocol.GetPermissions:
		s.answerAtOnce(c, core.Reply{Seq: r.Seq, Data: s.permissions()})
		return
	case protocol.RevokePermission:
		if cmd.Scope == projectOption {
			s.revokeForProject(c, r.Seq, cmd.Rule)
			return
		}
	case protocol.Abort:
		s.stoppedByClient(c, r)
	case protocol.GetSessionStats:
		if l := &s.jobs.leaving; len(l.ending) > 0 && s.askedByParent(r) {
			l.asked = append(l.asked, r)
			return
		}
	case protocol.OpenSession:
		s.answerAtOnce(c, core.Reply{Seq: r.Seq, Data: protocol.OpenedSession{SessionID: s.handle, State: s.m.State()}})
		return
	case protocol.CloseSession:
		s.close(c, ending{abort: cmd.Mode != "drain", asked: []uint64{r.Seq}})
		return
	case protocol.MoveSession:
		s.moveTo(c, r.Seq, cmd.Node)
		return
	case protocol.AttachSession:
		s.attach(c, r)
		return
	case protocol.DetachSession:
		s.detach(c, r)
		return
	default: // the machine's
	}
	if s.waits(r.Cmd) {
		s.hold(c, r)
		return
	}
	s.clients.first.done = true
	_, cycles := r.Cmd.(protocol.CycleModel)
	s.ext.events.Cycles(cycles)
	s.reported.shown.by = r.Client.Name()
	s.step(c, s.complete(r.Command))
	s.reported.shown.by = nil
	switch r.Cmd.(type) {
	case protocol.Abort, protocol.AbortAndPrompt:
		s.abortSignal() // also where nothing goes on any more but what handlers ask about the run that was
	}
}

// complete returns a command with what only the shell can give it: its text expanded,
// and the models there are. It is for one that has waited as well.
func (s *Session) complete(c core.Command) core.Command {
	if c.Said != nil {
		c.Cmd = c.Said
	}
	c.LookedUp = core.LookedUp{}
	if !c.FromExtension {
		if c.Extension = s.extensionCommand(c.Cmd); c.Extension == nil && !s.extensionsSee(c.Cmd) {
			s.expand(&c)
		}
	}
	if protocol.TraitsOf(c.Cmd).Is(protocol.NeedsModels) {
		c.Catalog = s.catalog()
		c.Found = s.lookUp(c.Cmd, c.Catalog)
	}
	if _, limits := c.Cmd.(protocol.SetBudget); limits && s.m.Unlimited() {
		c.Spent = s.spent()
	}
	return c
}

// groupDue comes behind all messages that were in the mailbox with the first of
// a group.
type groupDue struct{}

// grouped keeps a message that only waits in line for those that came with it:
// where every answer stands for an fsync, they share one (group commit).
// Anything else ends the group, so that nothing overtakes; nor does one that has to wait
// for extensions, or that is refused, belong to it.
func (s *Session) grouped(c actor.Context, m any) bool {
	r, ok := m.(link.Request)
	if !ok || !s.work.logs.options.Sync && s.kept() == nil || !protocol.TraitsOf(r.Cmd).Is(protocol.Groups) || s.busy() || s.belongs(r) != nil {
		return false
	}
	if s.inputs.group = append(s.inputs.group, s.complete(r.Command)); len(s.inputs.group) == 1 {
		c.Send(c.Self(), groupDue{})
	}
	s.clients.replies.handled(r)
	return true
}

func (s *Session) endGroup(c actor.Context) {
	if group := s.inputs.group; len(group) > 0 {
		s.inputs.group = nil
		s.step(c, group...)
	}
}

// step feeds the machine and performs what it wants, and then what that caused.
func (s *Session) step(c actor.Context, ins ...core.Input) {
	s.noteState()
	for ; len(ins) > 0; ins = s.inputs.first() {
		s.inputs.now = time.Now().UnixMilli()
		ins = s.inputs.clock.tell(ins, time.Now())
		s.inputs.keys = s.keysOf(ins)
		s.inputs.step.begin(ins)
		effects := s.m.Step(s.inputs.now, s.file.Log, ins...)
		s.last.keep(s.m) // before anything shows a number: a crash on the way must not use it again
		s.inputs.step.effects = effects
		for i := 0; i < len(effects); {
			n, err := s.performSome(c, effects[i:])
			i += n
			s.inputs.step.at = i
			if errors.Is(err, cluster.ErrFenced) {
				s.moveAway(c, "fenced")
				return
			} else if err != nil {
				s.log.Error().Err(err).Msg("session file could not be written")
				s.inputs.next = slices.Insert(s.inputs.next, 0, core.Input(s.reloaded(i, err)))
				break
			}
		}
		s.clients.spans.Promised = false // kept, or the answer repeated an older one
	}
	s.inputs.step.begin(nil)
	s.rebound(c)
	s.answerIdle()
	s.tellCommands()
	s.tellState()
	s.jobs.letLeave(c)
	s.nextDialog(c)
	s.report(c)
	s.sendClients(c) // last, so that who writes it goes on here
}

// sendClients sends clients what they are to hear. In the turn of a line that is what comes
// next: it may be an answer.
func (s *Session) sendClients(c actor.Context) {
	if s.kernel.Dispatcher.Inlining() {
		if s.output.flush == nil {
			root := c.ActorSystem().Root
			s.output.flush = func() { s.clients.flush(root) }
		}
		s.kernel.Dispatcher.First(s.output.flush)
	} else {
		s.clients.flush(c.ActorSystem().Root)
	}
	if s.clients.ring.on && s.shared.ringExcess() > 0 {
		c.Send(c.Parent(), ringsFull{})
	}
}

// do performs an effect that the machine has not asked for, and that appends
// nothing.
func (s *Session) do(c actor.Context, e core.Effect) { _ = s.perform(c, e) }

// answerAtOnce answers without the machine.
func (s *Session) answerAtOnce(c actor.Context, r core.Reply) {
	s.do(c, r)
	s.sendClients(c)
}

// report tells what the session does, and with which model, when that has changed.
func (s *Session) report(c actor.Context) {
	if m := s.m.Model(); m != s.reported.model {
		s.reported.model = m
		s.shared.used.use(m)
		if m != nil {
			c.Send(c.Parent(), uses{s.handle, m.Provider})
		}
	}
	s.index(c)
	s.saveTree(c)
	now := whatItDoes{s.m.Phase(), s.m.Pending(), s.attention(), s.m.Name()}
	if now == s.reported.does && s.life.end == nil {
		return
	}
	s.reported.does = now
	s.tellParent(c)
}

// tellParent tells the parent what list_open_sessions is to say.
func (s *Session) tellParent(c actor.Context) { c.Send(c.Parent(), status{s.handle, s.info()}) }

// attention is why somebody may want to look at the session.
func (s *Session) attention() string {
	switch {
	case s.clients.stands.asks():
		return "dialog"
	case s.m.Phase() != core.PhaseIdle:
		return "none"
	case s.reported.outcome == "completed":
		return "done"
	case s.reported.outcome == "failed":
		return "failed"
	}
	return "none"
}

func (s *Session) info() protocol.OpenSessionInfo {
	st := s.m.State()
	info := protocol.OpenSessionInfo{
		SessionID: s.handle, DurableID: st.SessionID, SessionFile: ownText(st.SessionFile), SessionName: ownText(st.SessionName),
		Cwd: s.work.cwd, Status: "idle", Phase: st.Phase, PhaseSince: st.PhaseSince, WaitingFor: st.WaitingFor,
		PendingInputs: st.PendingMessageCount, Clients: s.clients.attached(), Retain: s.spec.Retain, Attention: s.attention(),
	}
	by := s.whatWasSaid()
	info.Title, info.LastText = cmp.Or(s.m.Name(), by.first), by.last
	if child := s.spec.Child; child != nil {
		info.ParentSessionID, info.TaskID = child.Parent, child.Entry.ID
	}
	if info.WaitingFor == nil {
		info.WaitingFor = []string{}
	}
	switch {
	case s.life.end != nil:
		info.Status = "closing"
	case s.life.state == parked:
		info.Status = "parked"
	case st.IsStreaming:
		info.Status = "running"
	}
	return info
}

// ownText is a copy of a text of a state, which as a whole is not to be kept as long as what is
// listed of a session.
func ownText(text *string) *string {
	if text == nil {
		return nil
	}
	return new(*text)
}

// close begins the end: at once, or when the run is done.
func (s *Session) close(c actor.Context, e ending) {
	s.life.endAs(e)
	s.closeMachine(c)
}

func (s *Session) closeMachine(c actor.Context) {
	s.step(c, core.Closing{
		Abort: s.life.end.abort, Deaf: s.life.end.deaf, GoesOn: s.life.end.goesOn, Over: !s.life.end.final && !s.life.end.moves && s.file.Log != nil,
	})
	if s.life.end.abort { // the machine refuses commands that still wait for extensions
		s.releaseHeldCommands(c)
	}
}

// makeRoom closes a parked session without clients. A session that is active again refuses.
func (s *Session) makeRoom(c actor.Context) {
	switch {
	case s.life.end != nil: // it ends anyway
	case s.life.state == parked && s.clients.attached() == 0:
		s.close(c, ending{abort: true, deaf: true})
	default:
		c.Send(c.Parent(), roomRefused{s.handle})
	}
}

// procsGone says that no process of the session is left.
type procsGone struct{}

// onClosed ends what the session has left running, off the actor's goroutine: its
// extensions first, which may have something to say about the end. If the configuration is being read again, that
// ends first: see reconfiguredAtEnd.
func (s *Session) onClosed(c actor.Context) {
	if s.ext.load.again || s.closeExtensions(c) {
		return
	}
	procs, export := s.work.env.Procs, s.exportAtEnd()
	kernel.Background(c, func() any {
		procs.KillAll(0)
		export()
		return procsGone{}
	})
}

// finish closes the log and tells everybody that the session is gone. last are
// answers that may not come before that; who asked for the end gets theirs behind
// them.
func (s *Session) finish(c actor.Context, last ...link.CloseReply) {
	var moved *link.Moved // it goes on elsewhere
	if s.life.end != nil && (s.life.end.final || s.life.end.moves) && len(s.life.end.asked) == 0 && s.kept() != nil {
		moved = &link.Moved{Why: "released"}
	}
	if s.life.state == parked {
		s.leaveParked(c)
	}
	s.life.state = closed
	s.leftIndex(c)
	s.closeLog()
	s.clients.flush(c.ActorSystem().Root)
	if s.life.end != nil {
		last = append(last, s.clients.replies.closing(nil, s.life.end.asked...)...)
	}
	if moved != nil {
		moved.Unanswered = s.clients.replies.goElsewhere(func(seq uint64) bool { return s.mayHaveRun(seq, nil) })
	}
	s.clients.replies.failAll(c.ActorSystem().Root, s.closingError(errClosing(), nil), true) // what waited for something beside the run
	s.sayMoved(c, moved, last...)
}
