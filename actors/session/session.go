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
	host     *actor.PID  // the router of the client whose set_host_tools was carried out; nil for none
	crashes  []time.Time // those that count
	failed   bool        // given up: nothing reaches the actor any more

	file      *store.Log               // the open log; a memory log is the session itself and outlives crashes
	spans     core.OpenSpans           // what clients have been shown and not seen the end of
	carryover core.Carryover           // of the last machine
	lived     bool                     // there was one
	opening   chan opened              // receives the file that is being opened; nil once it is taken
	opened    bool                     // the session was open once: a crash reopens file, not spec
	gone      bool                     // closed: told its clients and parent
	closing   *closing                 // the end has begun
	refusal   *protocol.Error          // why it could not be opened
	work      *workspace               // settings, resources, tools
	path      string                   // of the session file, once it is open
	id        string                   // the session's durable id
	shrunk    *worker.Shrinker         // images made fit for models
	foreign   *foreign                 // queued input that files of others came with
	unsent    []outgoing               // what has happened and clients have not been told
	shows     protocol.OpenSessionInfo // what list_open_sessions says
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

// lastCarryover is nil before the first machine.
func (l *life) lastCarryover() *core.Carryover {
	if !l.lived {
		return nil
	}
	one := l.carryover
	return &one
}

// endings close what clients have seen begin, where no machine can: the session
// has no file to go on with.
func (l *life) endings() (events []protocol.Event) {
	m := core.New()
	nowhere := store.NewLog(nil, "", protocol.Header{}, store.Options{})
	effects := m.Step(time.Now().UnixMilli(), nowhere, core.Restored{
		Settings: core.Settings{Ephemeral: true}, Carryover: l.lastCarryover(), Open: l.spans,
	})
	for _, e := range effects {
		if e, ok := e.(core.Emit); ok {
			events = append(events, e.Event)
		}
	}
	if l.lived { // the numbers that were used are used
		l.carryover = m.Carryover()
	}
	l.spans = core.OpenSpans{}
	return events
}

// Session is the shell around one Machine: it turns messages into inputs and
// performs effects, in order.
type Session struct {
	*life
	m       *core.Machine
	ready   bool           // the machine runs
	waiting []any          // messages that came before
	context *store.Context // of the branch; nil until a model is asked
	resume  *closing       // the end had begun when an earlier life crashed

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
	parked    bool // what can be made again was given back
	unloaded  bool // there is no machine: the file is to be opened again
	stale     bool // the file is no longer what was read from it
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
		s.letGo()
	case *actor.Terminated:
		s.jobs.ended(c, m.Who)
	case ready:
		s.onOpened(c, m)
	case kernel.Crashed:
		panic(m.Reason)
	case parkDue:
		s.onParkDue(c)
	default:
		switch {
		case s.unloaded:
			s.whileUnloaded(c, m)
		case s.gone:
			s.late(c, m)
		case !s.ready:
			s.waiting = append(s.waiting, m)
		case s.unparked(c, m):
			s.tell(c, m)
			s.watchIdle(c)
			s.readAnew(c)
		}
	}
}

// late answers commands that were on their way when the session ended.
func (s *Session) late(c actor.Context, m any) {
	if m, ok := m.(link.Request); ok {
		err := s.refusal
		if err == nil {
			err = protocol.CodeSessionClosing.Errorf("Session is closing")
		}
		s.reply(m.Seq, nil, err)
		s.flush(c.ActorSystem().Root)
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
		s.bury(c)
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
		s.close(c, closing{abort: cmd.Mode != "drain"})
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
		s.life.carryover, s.life.lived = s.m.Carryover(), true // before anything shows a number: a crash on the way must not use it again
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
	if phase == s.reported.phase && pending == s.reported.pending && s.closing == nil {
		return
	}
	s.reported.phase, s.reported.pending = phase, pending
	s.life.shows = s.info()
	c.Send(c.Parent(), status{s.handle, s.life.shows})
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
	case s.closing != nil:
		info.Status = "closing"
	case s.parked:
		info.Status = "parked"
	case st.IsStreaming:
		info.Status = "running"
	}
	return info
}

// closing is how a session ends.
type closing struct {
	abort bool // the run does not end first
	deaf  bool // no client can answer a dialog any more
}

// and is how a session ends that is asked to once more: as strictly as either
// wants. A nil receiver has not been asked yet.
func (m *closing) and(next closing) *closing {
	if m != nil {
		next.abort, next.deaf = next.abort || m.abort, next.deaf || m.deaf
	}
	return &next
}

// close begins the end: for good, or when the run is done.
func (s *Session) close(c actor.Context, m closing) {
	s.life.closing = s.closing.and(m)
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

// bury lets go of the file and tells everybody that the session is gone. last
// are answers that may not come before that; who asked for the end gets theirs
// behind them.
func (s *Session) bury(c actor.Context, last ...link.CloseReply) {
	if s.gone {
		return
	}
	s.gone = true
	s.letGo()
	s.flush(c.ActorSystem().Root)
	for _, seq := range s.answers {
		if to, resp, ok := s.ledger.answer(seq, nil, nil); ok {
			last = append(last, link.CloseReply{To: to, Response: resp})
		}
	}
	s.ledger.answerAll(c.ActorSystem().Root, protocol.CodeSessionClosing.Errorf("Session is closing"), true) // what waited for something beside the run
	s.sayClosed(c, last...)
}

// letGo closes the log. The memory of a session without a file, or without one
// yet, is kept: it is all there is of it.
func (s *Session) letGo() {
	if s.file == nil || !s.gone && (s.spec.Memory || !s.file.Materialised()) {
		return
	}
	if err := s.file.Close(); err != nil {
		s.log.Warn().Err(err).Msg("closing the session file")
	}
	s.file = nil
}
