package session

import (
	"runtime"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/core"
	"troupe/actors/kernel"
	"troupe/actors/link"
	"troupe/actors/worker"
	"troupe/protocol"
	"troupe/store"
)

// life is what a session keeps beyond a crash of its actor. It belongs to the
// actor's props and is touched on the actor's goroutine only.
type life struct {
	kernel   *kernel.Kernel
	shared   *Shared
	log      zerolog.Logger
	handle   string
	spec     link.OpenSpec
	rules    protocol.Rules
	ledger   *ledger
	audience audience
	host     *actor.PID // the router of the client whose set_host_tools was carried out; nil for none
	state    state
	end      *ending         // how the session is to end; nil while nobody wants it to
	crashes  []time.Time     // those that count
	refusal  *protocol.Error // why it was given up or could not be opened; nil for none

	file      *store.Log       // the open log; a memory log is the session itself and outlives crashes
	opens     bool             // a job opens the file
	opened    bool             // it was open once: a crash reopens file, not spec
	spans     core.OpenSpans   // what clients have been shown and not seen the end of
	carryover *core.Carryover  // of the last machine; nil before the first
	plate     core.Loaded      // of the machine before the last crash: which session it was
	work      *workspace       // settings, resources, tools
	path      string           // of the session file, once it is open
	id        string           // the session's durable id
	shrunk    *worker.Shrinker // images made fit for models
	foreign   *foreign         // queued input that files of others came with
	unsent    []outgoing       // what has happened and clients have not been told
}

// sessionProps describes the actor of one session: the ledger outermost, then
// injected faults, then the session itself.
func sessionProps(k *kernel.Kernel, shared *Shared, handle string, m link.SpawnSession) *actor.Props {
	log := k.Log.With().Str("session", handle).Logger()
	l := &life{
		kernel: k, shared: shared, log: log, handle: handle, spec: m.Spec, rules: m.Rules, ledger: newLedger(),
		shrunk: worker.NewShrinker(), foreign: &foreign{},
	}
	if shared.Forgotten != nil {
		runtime.AddCleanup(l, func(tell func()) { tell() }, shared.Forgotten)
	}
	who, _ := l.audience.join(m.Client)
	who.muted = false
	return k.Props(func() actor.Actor { return &accountable{&Session{life: l}, l} }, "")
}

// restored is how a machine begins with what its predecessor leaves behind beside
// the log.
func (l *life) restored(to core.Loaded, settings core.Settings) core.Restored {
	return core.Restored{Session: to, Settings: settings, Carryover: l.carryover, Open: l.spans}
}

// Session is the shell around one Machine: it turns messages into inputs and
// performs effects, in order.
type Session struct {
	*life
	m       *core.Machine  // nil before the log is open
	waiting []any          // messages that came while the log is opened
	context *store.Context // of the branch; nil until a model is asked

	jobs    jobs
	loaded  map[uint64]*loadedSession
	answers []uint64 // close_session commands to answer at the end

	next     []core.Input // inputs that effects caused: handled before anything else
	group    []core.Input // messages whose entries are to share an fsync
	reported reported
	output   output

	now       int64     // when the machine's step began, ms
	active    time.Time // when the session was last told something
	parkTimer *time.Timer
}

// reported is what was told of the machine's state outside the session.
type reported struct {
	phase   core.Phase      // to the parent
	pending int             // likewise: the inputs that wait
	model   *protocol.Model // as noted for the environment of children
}

// outgoing is a record on its way to one client, or to all.
type outgoing struct {
	to   link.Client // the zero value for all
	item link.Item
	seq  uint64 // of an answer: the command
}

func (s *Session) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		s.start(c)
	case *actor.Stopping, *actor.Restarting:
		s.stopParkTimer()
		s.closeLeft() // what waited for an answer is answered otherwise
		if s.m != nil {
			s.plate = s.m.Nameplate()
		}
		s.closeLog()
	case *actor.Terminated:
		s.jobs.ended(c, m.Who)
	case opened:
		s.onOpened(c, m)
	case kernel.Crashed:
		panic(m.Reason)
	case parkDue:
		s.onParkDue(c)
	default:
		switch {
		case s.state == opening:
			s.waiting = append(s.waiting, m)
		case s.state == parked && wakes(m) && !s.wake(c, m):
		default:
			s.tell(c, m)
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

func (s *Session) take(c actor.Context, m any) {
	if s.grouped(c, m) {
		return
	}
	s.endGroup(c)
	switch m := m.(type) {
	case link.Request:
		s.command(c, m)
		s.ledger.handled(m)
	case worker.StreamParts, worker.ToolProgress, worker.BashProgress,
		core.StreamEnd, core.ToolDone, core.BashDone, core.Summarised, core.WorkerGone:
		s.fromWorker(c, m)
	case core.QueryDone:
		s.queryDone(c, m)
	case core.Input:
		s.step(c, m)
	case link.WindowOpen:
		s.onWindowOpen(c)
	case loadedSession:
		s.onLoaded(c, m)
	case reassembled:
		s.onReassembled(c, m)
	case procsGone:
		s.finish(c)
	case link.SetDialect:
		if s.setDialect(m) {
			s.step(c, core.Reconfigured{Settings: s.work.settings})
		}
	case link.Leave:
		s.leave(c)
	}
}

// command gives a client's command to the machine, unless it is about who hears
// of the session and how long it lives.
func (s *Session) command(c actor.Context, r link.Request) {
	switch cmd := r.Cmd.(type) {
	case protocol.OpenSession:
		s.do(c, core.Reply{Seq: r.Seq, Data: protocol.OpenedSession{SessionID: s.handle, State: s.m.State()}})
		s.flush(c.ActorSystem().Root)
		return
	case protocol.CloseSession:
		s.answers = append(s.answers, r.Seq)
		s.close(c, ending{abort: cmd.Mode != "drain"})
		return
	case protocol.AttachSession:
		s.attach(c, r)
		return
	case protocol.DetachSession:
		s.detach(c, r)
		return
	default: // the machine's
	}
	s.step(c, s.complete(r.Command))
}

// complete returns a command with what only the shell can give it: its text expanded,
// and the models there are.
func (s *Session) complete(c core.Command) core.Command {
	s.expand(&c)
	if protocol.TraitsOf(c.Cmd).NeedsModels {
		c.Catalog = s.catalog()
		c.Found = s.lookUp(c.Cmd, c.Catalog)
	}
	return c
}

// groupDue comes behind all messages that were in the mailbox with the first of
// a group.
type groupDue struct{}

// grouped keeps a message that only waits in line for those that came with it:
// where every answer stands for an fsync, they share one (group commit).
// Anything else ends the group, so that nothing overtakes.
func (s *Session) grouped(c actor.Context, m any) bool {
	r, ok := m.(link.Request)
	if !ok || !s.work.options.Sync || !protocol.TraitsOf(r.Cmd).Groups {
		return false
	}
	if s.group = append(s.group, s.complete(r.Command)); len(s.group) == 1 {
		c.Send(c.Self(), groupDue{})
	}
	s.ledger.handled(r)
	return true
}

func (s *Session) endGroup(c actor.Context) {
	if group := s.group; len(group) > 0 {
		s.group = nil
		s.step(c, group...)
	}
}

// step feeds the machine and performs what it wants, and then what that caused.
func (s *Session) step(c actor.Context, ins ...core.Input) {
	for len(ins) > 0 {
		s.now = time.Now().UnixMilli()
		effects := s.m.Step(s.now, s.file, ins...)
		s.carryOver() // before anything shows a number: a crash on the way must not use it again
		for i := 0; i < len(effects); {
			n, err := s.performSome(c, effects[i:])
			if i += n; err != nil {
				s.log.Error().Err(err).Msg("session file could not be written")
				s.next = slices.Insert(s.next, 0, core.Input(s.reloaded(i, err)))
				break
			}
		}
		s.spans.Promised = false // kept, or the answer repeated an older one
		ins = nil
		if len(s.next) > 0 {
			ins = []core.Input{s.next[0]}
			s.next = s.next[1:]
		}
	}
	s.flush(c.ActorSystem().Root)
	s.report(c)
}

// carryOver keeps what the next machine needs to know.
func (s *Session) carryOver() {
	if s.carryover == nil {
		s.life.carryover = new(core.Carryover)
	}
	*s.carryover = s.m.Carryover()
}

func (s *Session) do(c actor.Context, e core.Effect) {
	if err := s.perform(c, e); err != nil {
		s.log.Error().Err(err).Msg("session file could not be written")
	}
}

// flush sends what has gathered to the clients, each its part, in order. It is
// called after each message, and when the session crashes: what has happened by
// then is in the log and must be told.
func (l *life) flush(root *actor.RootContext) {
	if len(l.unsent) == 0 {
		return
	}
	for i := range l.unsent {
		l.unsent[i].item.Settle()
	}
	for _, who := range l.audience.list {
		var items []link.Item
		for _, o := range l.unsent {
			switch {
			case !o.to.Known():
				if who.muted {
					continue
				}
			case !o.to.Is(who.Client), o.item.Event != nil && who.muted:
				continue
			case o.seq == who.attaching:
				who.answered()
			}
			if items == nil {
				items = make([]link.Item, 0, len(l.unsent))
			}
			items = append(items, o.item)
		}
		if len(items) > 0 {
			who.Send(root, items...)
		}
	}
	l.unsent = l.unsent[:0]
}

// report tells the parent what the session does, when that has changed.
func (s *Session) report(c actor.Context) {
	if m := s.m.Model(); m != s.reported.model {
		s.reported.model = m
		s.shared.used.use(m)
	}
	phase, pending := s.m.Phase(), s.m.Pending()
	if phase == s.reported.phase && pending == s.reported.pending && s.end == nil {
		return
	}
	s.reported.phase, s.reported.pending = phase, pending
	c.Send(c.Parent(), status{s.handle, s.info()})
}

func (s *Session) info() protocol.OpenSessionInfo {
	st := s.m.State()
	info := protocol.OpenSessionInfo{
		SessionID: s.handle, DurableID: st.SessionID, SessionFile: st.SessionFile, SessionName: st.SessionName,
		Cwd: s.work.cwd, Status: "idle", Phase: st.Phase, PhaseSince: st.PhaseSince, WaitingFor: st.WaitingFor,
		PendingInputs: st.PendingMessageCount, Clients: s.audience.attached(), Retain: s.spec.Retain,
	}
	if info.WaitingFor == nil {
		info.WaitingFor = []string{}
	}
	switch {
	case s.end != nil:
		info.Status = "closing"
	case s.state == parked:
		info.Status = "parked"
	case st.IsStreaming:
		info.Status = "running"
	}
	return info
}

// close begins the end: for good, or when the run is done.
func (s *Session) close(c actor.Context, m ending) {
	s.life.end = s.end.and(m)
	s.step(c, core.Closing{Abort: m.abort, Deaf: m.deaf})
}

// procsGone says that no process of the session is left.
type procsGone struct{}

// onClosed ends what the session has left running, off the actor's goroutine.
func (s *Session) onClosed(c actor.Context) {
	procs := s.work.procs
	kernel.Background(c, func() any {
		procs.KillAll(0)
		return procsGone{}
	})
}

// finish closes the log and tells everybody that the session is gone. last are
// answers that may not come before that; who asked for the end gets theirs behind
// them.
func (s *Session) finish(c actor.Context, last ...link.CloseReply) {
	s.life.state = closed
	s.closeLog()
	s.flush(c.ActorSystem().Root)
	for _, seq := range s.answers {
		if to, resp, ok := s.ledger.answer(seq, nil, nil); ok {
			last = append(last, link.CloseReply{To: to, Response: resp})
		}
	}
	s.ledger.answerAll(c.ActorSystem().Root, protocol.CodeSessionClosing.Errorf("Session is closing"), true) // what waited for something beside the run
	s.sayClosed(c, last...)
}

// closeLog closes the log. The memory of a session without a file, or without one
// yet, is kept: it is all there is of it.
func (s *Session) closeLog() {
	if s.file == nil || s.state != closed && (s.spec.Memory || !s.file.Materialised()) {
		return
	}
	s.loader().close(s.file)
	s.file = nil
}
