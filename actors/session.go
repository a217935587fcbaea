package actors

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/session"
	"troupe/protocol"
	"troupe/providers"
	"troupe/store"
	"troupe/tools"
)

// life is what a session keeps beyond a crash of its actor. It belongs to the
// actor's props and is touched on the actor's goroutine only.
type life struct {
	cfg     *Config
	log     zerolog.Logger
	handle  string
	spec    OpenSpec
	gates   protocol.Gates
	ledger  *ledger
	clients []client

	file      *store.Log               // the open log; a memory log is the session itself and outlives crashes
	brackets  session.Brackets         // what clients have been shown and not seen the end of
	vitals    session.Vitals           // of the last machine
	lived     bool                     // there was one
	opening   chan opened              // receives the file that is being opened; nil once it is taken
	opened    bool                     // the session was open once: a crash reopens file, not spec
	gone      bool                     // closed: told its clients and parent
	closing   *closing                 // the end has begun
	farewells int                      // how many of them have answered
	refusal   *protocol.Error          // why it could not be opened
	work      *workspace               // settings, resources, tools
	path      string                   // of the session file, once it is open
	id        string                   // the session's durable id
	shrunk    *shrinker                // images made fit for models
	foreign   *foreign                 // queued input that files of others came with
	unsent    []outgoing               // what has happened and clients have not been told
	shows     protocol.OpenSessionInfo // what list_open_sessions says
}

// sessionProps describes the actor of one session: the ledger outermost, then
// injected faults, then the session itself.
func sessionProps(cfg *Config, handle string, m spawnSession) *actor.Props {
	log := cfg.Log.With().Str("session", handle).Logger()
	l := &life{
		cfg: cfg, log: log, handle: handle, spec: m.spec, gates: m.gates, ledger: newLedger(log),
		clients: []client{m.client}, shrunk: newShrinker(), foreign: &foreign{},
	}
	if cfg.onLife != nil {
		cfg.onLife(l)
	}
	l.ledger.onCrash = func(c actor.Context) {
		if l.file != nil {
			l.file.Discard()
		}
		l.flush(c.ActorSystem().Root)
	}
	l.ledger.onFail = l.failed
	l.ledger.onEnd = l.forgotten
	l.ledger.onRequest = l.listen
	l.ledger.onClosing = func(m closing) {
		l.closing = l.closing.and(m)
	}
	l.ledger.onClose = func(c actor.Context, last ...lastWord) {
		l.sayClosed(c.ActorSystem().Root, c.Parent(), last...)
	}
	return actor.PropsFromProducer(func() actor.Actor {
		return &accountable{&Session{life: l}, l.ledger, handle, cfg.Faults}
	}, append(cfg.mailboxes(), actor.WithSupervisor(stopWorkers))...)
}

// lastVitals is nil before the first machine.
func (l *life) lastVitals() *session.Vitals {
	if !l.lived {
		return nil
	}
	one := l.vitals
	return &one
}

// failed tells the clients of a session that is given up, on the crash that was
// one too many.
func (l *life) failed(c actor.Context) {
	endings := l.endings()
	for _, cl := range l.clients {
		var items []item
		for _, ev := range endings {
			if !cl.muted {
				items = append(items, item{event: ev})
			}
		}
		items = append(items, item{event: protocol.SessionFailed{Error: sessionFailed().Message}})
		cl.send(c.ActorSystem().Root, items...)
	}
	c.ActorSystem().Root.Send(c.Parent(), status{l.handle, protocol.OpenSessionInfo{
		SessionID: l.handle, Status: "failed", Clients: len(l.clients), WaitingFor: []string{},
	}})
}

// endings close what clients have seen begin, where no machine can: the session
// has no file to go on with.
func (l *life) endings() (events []protocol.Event) {
	m := session.New()
	effects := m.Step(time.Now().UnixMilli(), session.Restored{
		Settings: session.Settings{Ephemeral: true}, Vitals: l.lastVitals(), Open: l.brackets,
	})
	for _, e := range effects {
		if e, ok := e.(session.Emit); ok {
			events = append(events, e.Event)
		}
	}
	if l.lived { // the numbers that were used are used
		l.vitals = m.Vitals()
	}
	l.brackets = session.Brackets{}
	return events
}

// Session is the shell around one Machine: it turns messages into inputs and
// performs effects, in order.
type Session struct {
	*life
	m       *session.Machine
	ready   bool            // the machine runs
	waiting []any           // messages that came before
	context *store.Context  // of the branch; nil until a model is asked
	memo    *providers.Memo // of the context, as models were shown it
	resume  *closing        // the end had begun when an earlier life crashed

	jobs     map[string]job      // running workers, by PID
	receipts map[string]*receipt // of calls that clients look at first, by call
	retry    *actor.PID
	ui       *actor.PID
	prepared map[uint64]*preparedSession
	answers  []uint64 // close_session commands to answer at the end

	next     []session.Input // inputs that effects caused: handled before anything else
	group    []session.Input // messages whose entries are to share an fsync
	shown    session.Phase
	shownLen int
	selected *protocol.Model // as noted for the environment of children
	output   output

	now       int64     // when the machine's step began, ms
	active    time.Time // when the session was last told something
	parkTimer *time.Timer
	parked    bool
	stale     bool // the file is no longer what was read from it
}

// job is a running worker.
type job struct {
	kind session.WorkerKind
	run  int // of a bash command: its job number
	id   string
	pid  *actor.PID
	stop *tools.Interrupt // of a tool call; nil for others
}

// outgoing is a record on its way to one client, or to all.
type outgoing struct {
	to   client // the zero value for all
	item item
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
		s.workerEnded(c, m.Who)
	case ready:
		s.onOpened(c, m)
	case crashed:
		panic(m.reason)
	case parkDue:
		s.onParkDue(c)
	default:
		switch {
		case s.parked:
			s.whileParked(c, m)
		case s.gone:
			s.late(c, m)
		case !s.ready:
			s.waiting = append(s.waiting, m)
		default:
			s.tell(c, m)
			s.watchIdle(c)
			s.readAnew(c)
		}
	}
}

// late is what a session is told after its end: commands that were on their
// way, and the farewells of its clients, after which nothing more can come.
func (s *Session) late(c actor.Context, m any) {
	switch m := m.(type) {
	case request:
		err := s.refusal
		if err == nil {
			err = protocol.CodeSessionClosing.Errorf("Session is closing")
		}
		s.reply(m.Seq, nil, err)
		s.flush(c.ActorSystem().Root)
	case farewell:
		if s.life.farewells++; s.life.farewells >= len(s.clients) {
			s.forgotten(c.ActorSystem().Root)
			c.Poison(c.Self())
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
	case request:
		s.command(c, m)
		s.ledger.handled(m)
	case streamParts, toolProgress, bashProgress,
		session.StreamEnd, session.ToolDone, session.BashDone, session.Summarised, session.WorkerGone:
		s.fromWorker(c, m)
	case session.LookedUp:
		s.lookedUp(c, m)
	case session.Input:
		s.step(c, m)
	case windowOpen:
		s.onWindowOpen(c)
	case preparedSession:
		s.onPrepared(c, m)
	case reassembled:
		s.onReassembled(c, m)
	case procsGone:
		s.bury(c)
	case setGates:
		s.setGates(c, m)
	case closing:
		s.close(c, m)
	}
}

// command gives a client's command to the machine, after what only the shell
// can do to it: expand its text, look up models.
func (s *Session) command(c actor.Context, r request) {
	switch cmd := r.Cmd.(type) {
	case protocol.OpenSession:
		s.do(c, session.Reply{Seq: r.Seq, Data: protocol.JSON(protocol.OpenedSession{SessionID: s.handle, State: s.m.State()})})
		s.flush(c.ActorSystem().Root)
		return
	case protocol.CloseSession:
		s.close(c, closing{abort: cmd.Mode != "drain", seq: r.Seq})
		return
	case protocol.AttachSession:
		s.attach(c, r)
		return
	case protocol.DetachSession:
		s.detach(c, r)
		return
	default: // the machine's
	}
	s.expand(&r.Command)
	if needsCatalog(r.Cmd) {
		r.Catalog = s.catalog()
	}
	s.step(c, r.Command)
}

func needsCatalog(cmd protocol.Command) bool {
	switch cmd.(type) {
	case protocol.Prompt, protocol.Steer, protocol.FollowUp, protocol.AbortAndPrompt,
		protocol.SetModel, protocol.CycleModel, protocol.Compact, protocol.GetAvailableModels:
		return true
	default:
		return false
	}
}

// groupDue comes behind all messages that were in the mailbox with the first of
// a group.
type groupDue struct{}

// grouped keeps a message that only waits in line for those that came with it:
// where every answer stands for an fsync, they share one (group commit).
// Anything else ends the group, so that nothing overtakes.
func (s *Session) grouped(c actor.Context, m any) bool {
	r, ok := m.(request)
	if !ok || !s.work.options.Sync {
		return false
	}
	switch r.Cmd.(type) {
	case protocol.Prompt, protocol.Steer, protocol.FollowUp, protocol.QueueMessage:
	default:
		return false
	}
	s.expand(&r.Command)
	r.Catalog = s.catalog()
	if s.group = append(s.group, r.Command); len(s.group) == 1 {
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
func (s *Session) step(c actor.Context, ins ...session.Input) {
	for len(ins) > 0 {
		s.now = time.Now().UnixMilli()
		effects := s.m.Step(s.now, ins...)
		s.life.vitals, s.life.lived = s.m.Vitals(), true // before anything shows a number: a crash on the way must not use it again
		for i := 0; i < len(effects); {
			n, err := s.performSome(c, effects[i:])
			if i += n; err != nil {
				s.log.Error().Err(err).Msg("session file could not be written")
				s.stale = s.stale || errors.Is(err, store.ErrChanged)
				s.next = slices.Insert(s.next, 0, session.Input(session.AppendFailed{Index: i, Err: err, Open: s.brackets}))
				break
			}
		}
		s.brackets.Promised = false // kept, or the answer repeated an older one
		ins = nil
		if len(s.next) > 0 {
			ins = []session.Input{s.next[0]}
			s.next = s.next[1:]
		}
	}
	s.flush(c.ActorSystem().Root)
	s.report(c)
}

func (s *Session) do(c actor.Context, e session.Effect) {
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
		l.unsent[i].item.settle()
	}
	for _, cl := range l.clients {
		var items []item
		for _, o := range l.unsent {
			if !o.to.known() && !cl.muted || o.to.known() && o.to.is(cl) {
				if items == nil {
					items = make([]item, 0, len(l.unsent))
				}
				items = append(items, o.item)
			}
		}
		if len(items) > 0 {
			cl.send(root, items...)
		}
	}
	for _, o := range l.unsent { // a client that has left is still owed its answers
		if o.to.known() && !slices.ContainsFunc(l.clients, o.to.is) {
			o.to.send(root, o.item)
		}
	}
	l.unsent = l.unsent[:0]
}

// report tells the parent what the session does, when that has changed.
func (s *Session) report(c actor.Context) {
	if m := s.m.Model(); m != s.selected {
		s.selected = m
		s.cfg.use(m)
	}
	phase, pending := s.m.Phase(), s.m.Pending()
	if phase == s.shown && pending == s.shownLen && s.closing == nil {
		return
	}
	s.shown, s.shownLen = phase, pending
	s.life.shows = s.info()
	c.Send(c.Parent(), status{s.handle, s.life.shows})
}

func (s *Session) info() protocol.OpenSessionInfo {
	st := s.m.State()
	info := protocol.OpenSessionInfo{
		SessionID: s.handle, DurableID: st.SessionID, SessionFile: st.SessionFile, SessionName: st.SessionName,
		Cwd: s.work.cwd, Status: "idle", Phase: st.Phase, PhaseSince: st.PhaseSince, WaitingFor: st.WaitingFor,
		PendingInputs: st.PendingMessageCount, Clients: s.audience(), Retain: s.spec.Retain,
	}
	if info.WaitingFor == nil {
		info.WaitingFor = []string{}
	}
	switch {
	case s.closing != nil:
		info.Status = "closing"
	case st.IsStreaming:
		info.Status = "running"
	}
	return info
}

func (s *Session) setGates(c actor.Context, m setGates) {
	s.life.gates = m.gates
	s.work.settings.Gates = m.gates
	s.step(c, session.Reconfigured{Settings: s.work.settings})
}

// workerEnded queues the end of a worker behind whatever it has sent before:
// Terminated is a system message and would overtake a result.
func (s *Session) workerEnded(c actor.Context, pid *actor.PID) {
	j, ok := s.jobs[pid.Id]
	if !ok {
		return
	}
	delete(s.jobs, pid.Id)
	c.Send(c.Self(), session.WorkerGone{Kind: j.kind, Run: j.run, ID: j.id})
}

// close begins the end: for good, or when the run is done.
func (s *Session) close(c actor.Context, m closing) {
	if m.seq != 0 {
		s.answers = append(s.answers, m.seq)
	}
	s.life.closing = s.closing.and(m)
	s.step(c, session.Closing{Abort: m.abort, Deaf: m.deaf})
}

// procsGone says that no process of the session is left.
type procsGone struct{}

// onClosed ends what the session has left running, off the actor's goroutine.
func (s *Session) onClosed(c actor.Context) {
	procs := s.work.procs
	background(c, func() any {
		procs.KillAll(0)
		return procsGone{}
	})
}

// bury lets go of the file, answers who asked for the end, and tells everybody
// that the session is gone.
func (s *Session) bury(c actor.Context) {
	if s.gone {
		return
	}
	s.gone = true
	s.letGo()
	s.flush(c.ActorSystem().Root)
	var last []lastWord
	for _, seq := range s.answers {
		if to, resp, ok := s.ledger.answer(seq, nil, nil); ok {
			last = append(last, lastWord{to, resp})
		}
	}
	s.ledger.answerAll(c, protocol.CodeSessionClosing.Errorf("Session is closing"), true) // what waited for something beside the run
	s.sayClosed(c, last...)
}

func (s *Session) sayClosed(c actor.Context, last ...lastWord) {
	s.life.sayClosed(c.ActorSystem().Root, c.Parent(), last...)
}

// forgotten is the session's last word to the writers of its clients.
func (l *life) forgotten(root *actor.RootContext) {
	for _, cl := range l.clients {
		if cl.tag != "" { // untagged records are those of the connection, too
			root.Send(cl.writer, forget{cl.tag})
		}
	}
}

func (l *life) sayClosed(root *actor.RootContext, parent *actor.PID, last ...lastWord) {
	l.gone = true
	gone := closed{handle: l.handle, last: last}
	for _, cl := range l.clients {
		gone.tell = append(gone.tell, cl.router)
	}
	root.Send(parent, gone)
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

// track remembers a worker under its PID.
func (s *Session) track(pid *actor.PID, j job) {
	j.pid = pid
	s.jobs[pid.Id] = j
}

func (s *Session) spawn(c actor.Context, name string, produce actor.Producer) *actor.PID {
	full := s.handle + "/" + name
	pid, err := c.SpawnNamed(s.cfg.props(produce, full), name)
	if err != nil { // the name is taken by a worker that has not quite ended
		pid = c.SpawnPrefix(s.cfg.props(produce, full), name+"~"+strconv.FormatInt(time.Now().UnixNano(), 36))
	}
	s.cfg.lead().started()
	return pid
}
