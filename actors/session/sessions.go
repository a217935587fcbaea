package session

import (
	"cmp"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/kernel"
	"troupe/actors/link"
	"troupe/protocol"
	"troupe/store"
)

// sessions is the parent of all sessions: it makes them, knows which are open,
// and restarts those that crash, always.
type sessions struct {
	kernel *kernel.Kernel
	shared *Shared
	made   int
	table  map[string]*member
	ending *actor.PID // receives a message when no session is left; nil until the end has begun
	give   memoryReturn

	aborting bool // at the end runs are aborted

	over     map[string]*closing // of handles that nothing else may have yet
	changes  uint64              // of sessions so far
	watchers []*actor.PID        // routers that are told of every change
}

// ParentProps describes the parent of all sessions of a process.
func ParentProps(k *kernel.Kernel, shared *Shared) *actor.Props {
	all := &sessions{kernel: k, shared: shared}
	return k.KeepAlive(all, "sessions", kernel.RetryMessage).
		Configure(actor.WithSupervisor(actor.NewRestartingStrategy()))
}

// closing is a session that is over, and its actor is not: in a cluster the same may be had here again.
type closing struct {
	pid   *actor.PID
	waits []link.SpawnSession
}

// member is an open session.
type member struct {
	pid    *actor.PID
	info   protocol.OpenSessionInfo
	router *actor.PID // who asked for it
	key    string     // and under which key
	since  uint64     // the change of a session that was its last one; they are numbered
	model  string     // its provider; "" for none
	ring   *ringAccount
	forget bool // it was sent forgetRing and has not replied
	going  bool // it was sent makeRoom and has not refused
}

func (s *sessions) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		s.table, s.over = map[string]*member{}, map[string]*closing{}
		s.watchNodes(c)
	case link.SpawnSession:
		s.spawn(c, m)
	case fileNamed:
		s.spawnNamed(c, m)
	case nodeDied:
		s.nodeDied(c, m.name)
	case orphans:
		s.adopt(c, m)
	case status:
		if e := s.table[m.handle]; e != nil {
			s.changed(c, e, m.info)
		}
		if m.info.Status == "parked" || m.info.Status == "idle" {
			s.giveBackSoon(c, m.info.Status == "parked")
		}
	case largeAnswer:
		s.giveBackSoon(c, false)
	case gaveUp:
		if e := s.table[m.handle]; e != nil {
			s.changed(c, e, m.listed(e.info))
		}
	case ringsFull:
		s.shrinkRings(c)
	case ringForgotten:
		if e := s.table[m.handle]; e != nil {
			e.forget = false
		}
		s.shrinkRings(c) // events may have been added meanwhile
	case roomRefused:
		s.roomRefused(c, m.handle)
	case link.WatchSessions:
		s.watch(c, m)
	case link.FindSession:
		s.find(c, m)
	case link.Closed:
		if e := s.table[m.Handle]; e != nil {
			c.Send(e.pid, link.RouteClosed{})
			s.over[m.Handle] = &closing{pid: e.pid}
		}
		s.remove(c, m.Handle)
		for _, router := range m.Routers {
			c.Send(router, m)
		}
	case link.Late: // behind Closed
		c.Send(m.Request.Client.Router, m)
	case uses:
		if e := s.table[m.handle]; e != nil {
			e.model = m.provider
		}
	case link.CountUsers:
		of := map[string]int{}
		for _, e := range s.table {
			of[e.model]++
		}
		c.Send(m.From, link.Users{Key: m.Key, Of: of})
	case link.ListOpen:
		c.Send(m.From, link.OpenList{Seq: m.Seq, Sessions: s.list()})
	case link.AskFiles:
		s.askFiles(c, m)
	case giveBackDue:
		always := s.give.always
		s.give.always = false
		kernel.Go(c.ActorSystem().Root, c.Self(), func() { s.shared.GiveBack(always) })
	case link.EndAll:
		s.ending, s.aborting = c.Sender(), s.aborting || m.Abort
		s.tellAll(c, link.Leave{Abort: m.Abort, Final: true, GoesOn: m.GoesOn})
		s.maybeNone(c)
	case *actor.Terminated:
		s.terminated(c, m.Who)
	case *actor.Stopping:
		if s.give.timer != nil {
			s.give.timer.Stop()
		}
	}
}

// find leads a router to a session. The router is told first: what the session
// tells it, also that it has ended meanwhile, must not come before that.
func (s *sessions) find(c actor.Context, m link.FindSession) {
	handle := s.handleOf(m)
	e := s.table[handle]
	if e == nil {
		c.Send(m.Client.Router, link.SessionSpawned{Key: m.Key, Err: protocol.CodeUnknownSession.Errorf(
			"Unknown session: %s", cmp.Or(handle, m.DurableID, m.Path))})
		return
	}
	if m.Client.Tag != "" {
		m.Client.Tag = handle
	}
	c.Watch(m.Client.Router)
	c.Send(m.Client.Router, link.SessionSpawned{Key: m.Key, Handle: handle, PID: e.pid})
	c.Send(e.pid, link.Join{Client: m.Client, Hears: m.Hears, Owed: m.Owed})
}

// handleOf is the handle of the session that a router looks for, "" if it is not open; a handle
// that the router names is taken as it is.
func (s *sessions) handleOf(m link.FindSession) string {
	for handle, e := range s.table {
		if m.DurableID != "" && e.info.DurableID == m.DurableID || m.Path != "" && e.info.SessionFile != nil && *e.info.SessionFile == m.Path {
			return handle
		}
	}
	if m.DurableID+m.Path != "" {
		return ""
	}
	return m.Handle
}

// watch has a router told of every change from now on, or no more.
func (s *sessions) watch(c actor.Context, m link.WatchSessions) {
	s.watchers = slices.DeleteFunc(s.watchers, m.Router.Equal)
	if !m.Off {
		c.Watch(m.Router)
		s.watchers = append(s.watchers, m.Router)
	}
}

// changed notes how a session is, and tells who watches.
func (s *sessions) changed(c actor.Context, e *member, now protocol.OpenSessionInfo) {
	was := e.info
	s.changes++
	e.info, e.since, e.forget = now, s.changes, false                        // a crash may have lost forgetRing
	e.going = e.going && (now.Status == "parked" || now.Status == "closing") // or makeRoom
	if len(s.watchers) > 0 && !reflect.DeepEqual(was, now) {
		s.tellWatchers(c, now)
	}
}

// ringsFull says that the rings of the process are too large.
type ringsFull struct{}

// forgetRing has a session drop its ring: clients that come back get a snapshot.
type forgetRing struct{}

// ringForgotten is the session's reply to forgetRing.
type ringForgotten struct{ handle string }

// shrinkRings has sessions drop their rings until the rest fits, those that have been idle
// longest first. Rings that are about to be dropped count as dropped: each event that a busy
// session adds before an idle one has replied would cost another session its ring.
func (s *sessions) shrinkRings(c actor.Context) {
	excess := s.shared.ringExcess()
	if excess <= 0 {
		return
	}
	for _, e := range s.table {
		if e.forget {
			excess -= e.ring.own.Load()
		}
	}
	for excess > 0 {
		e := s.idlest()
		if e == nil {
			return
		}
		excess -= e.ring.own.Load()
		e.forget = true
		c.Send(e.pid, forgetRing{})
	}
}

// idlest returns the session that has been idle longest of those whose rings can be dropped,
// nil if there is none. Running sessions come last.
func (s *sessions) idlest() (idlest *member) {
	for _, e := range s.table {
		switch {
		case e.forget || e.ring.own.Load() == 0:
		case idlest == nil, !e.runs() && idlest.runs(), e.runs() == idlest.runs() && e.since < idlest.since:
			idlest = e
		}
	}
	return idlest
}

// runs reports whether a session was running when it last sent its status.
func (e *member) runs() bool { return e.info.Status == "running" }

func (s *sessions) tellWatchers(c actor.Context, now protocol.OpenSessionInfo) {
	for _, router := range s.watchers {
		c.Send(router, link.SessionChanged{Info: now})
	}
}

func (s *sessions) tellAll(c actor.Context, m any) {
	for _, e := range s.table {
		c.Send(e.pid, m)
	}
}

func (s *sessions) remove(c actor.Context, handle string) {
	if e := s.table[handle]; e != nil {
		gone := e.info
		gone.Status, gone.Phase, gone.WaitingFor, gone.Clients = "closed", "", []string{}, 0
		s.tellWatchers(c, gone)
	}
	delete(s.table, handle)
	s.maybeNone(c)
}

func (s *sessions) maybeNone(c actor.Context) {
	if s.ending != nil && len(s.table) == 0 {
		c.Send(s.ending, link.NoneOpen{})
	}
}

// giveBackAfter is how long no session has been opened, parked or idle when memory is given
// back: they tend to come, and to fall asleep, together.
const giveBackAfter = time.Second

// memoryReturn is the timer after which memory is returned to the system.
type memoryReturn struct {
	timer  *time.Timer // sends giveBackDue; nil until there is a reason
	always bool        // also if it is little: sessions were opened or parked
}

// giveBackDue says that nothing of the kind has happened for that long.
type giveBackDue struct{}

func (s *sessions) giveBackSoon(c actor.Context, always bool) {
	s.give.always = s.give.always || always
	switch {
	case s.shared.GiveBack == nil:
	case s.give.timer == nil:
		s.give.timer = kernel.After(c, giveBackAfter, c.Self(), giveBackDue{})
	default:
		s.give.timer.Reset(giveBackAfter)
	}
}

// spawn makes a session. A request that broke it midway comes again, and may have
// its session already; a router hears a repeated answer once.
func (s *sessions) spawn(c actor.Context, m link.SpawnSession) {
	for handle, e := range s.table {
		if e.key == m.Key && (m.Client.Router == nil || e.router.Equal(m.Client.Router)) {
			tellSpawned(c, m, link.SessionSpawned{Key: m.Key, Handle: handle, PID: e.pid})
			return
		}
	}
	s.kernel.Faults.Hit("sessions", "Spawn")
	if s.ending != nil && (m.Spec.Child == nil || s.aborting) { // a run that is to finish may need children
		tellSpawned(c, m, link.SessionSpawned{Key: m.Key, Err: protocol.CodeSessionClosing.Errorf("The daemon is shutting down")})
		return
	}
	if s.staying() >= s.shared.MaxSessions && !s.makeRoom(c) {
		tellSpawned(c, m, link.SessionSpawned{Key: m.Key, Err: protocol.CodeOverloaded.Errorf(
			"Too many open sessions: the limit is %d", s.shared.MaxSessions)})
		return
	}
	if cl := s.shared.Cluster; cl != nil && m.Spec.Path != "" && m.Spec.ID == "" && m.Spec.Log == nil && cl.idOf(m.Spec.Path) == "" {
		s.nameFile(c, m)
		return
	}
	s.spawnAs(c, m, s.newHandle(&m.Spec))
}

// fileNamed is a session to be made of a file that the cluster takes in: the file says what it is called on all nodes.
type fileNamed struct {
	link.SpawnSession
	id string
}

// nameFile looks what a file says, off the actor's goroutine.
func (s *sessions) nameFile(c actor.Context, m link.SpawnSession) {
	fsys := s.shared.fs()
	kernel.Background(c, func() any {
		h, ok := store.ReadHeader(fsys, m.Spec.Path)
		if !ok || store.CheckSessionID(h.ID) != nil {
			h.ID = store.NewSessionID(time.Now().UnixMilli())
		}
		return fileNamed{m, h.ID}
	})
}

// spawnNamed makes it. Where its session is open here its file is that of another one, which is refused.
func (s *sessions) spawnNamed(c actor.Context, m fileNamed) {
	handle := m.id
	if s.table[handle] != nil || s.over[handle] != nil {
		handle = s.numbered()
	} else {
		m.Spec.ID = handle
	}
	s.spawnAs(c, m.SpawnSession, handle)
}

// spawnAs makes a session with a handle, or finds the one that has it.
func (s *sessions) spawnAs(c actor.Context, m link.SpawnSession, handle string) {
	if last := s.over[handle]; last != nil { // the actor of its last life here has the name still
		last.waits = append(last.waits, m)
		return
	}
	if e := s.table[handle]; e != nil { // the command has come again, or somebody else has named it
		if e.info.DurableID != "" && e.info.DurableID != handle {
			tellSpawned(c, m, link.SessionSpawned{Key: m.Key, Err: protocol.CodeSessionInUse.Errorf(
				"Session %s has the handle of %s", e.info.DurableID, handle)})
			return
		}
		s.find(c, link.FindSession{Client: m.Client, Key: m.Key, Handle: handle, Hears: m.Hears || m.Client.Tag == "", Owed: m.Owed}) // this node has taken it up meanwhile
		return
	}
	if m.Client.Known() {
		c.Watch(m.Client.Router)
	}
	if m.Client.Tag != "" {
		m.Client.Tag = handle
	}
	ring := s.shared.newRingAccount()
	pid, err := c.SpawnNamed(sessionProps(s.kernel, s.shared, handle, m, ring), handle)
	if err != nil {
		tellSpawned(c, m, link.SessionSpawned{Key: m.Key, Err: protocol.CodeInternal.Errorf("internal error: %s", err).NotRun(protocol.RetryAfter)})
		return
	}
	clients := 1
	if !m.Client.Known() {
		clients = 0
	}
	info := protocol.OpenSessionInfo{
		SessionID: handle, Cwd: m.Spec.Cwd, Status: "opening", Clients: clients, Retain: m.Spec.Retain, WaitingFor: []string{}, Attention: "none",
	}
	if child := m.Spec.Child; child != nil {
		info.ParentSessionID, info.TaskID = child.Parent, child.Entry.ID
	}
	s.table[handle] = &member{pid: pid, router: m.Client.Router, key: m.Key, info: info, ring: ring}
	s.tellWatchers(c, info)
	s.kernel.Faults.Hit("sessions", "Spawned")
	tellSpawned(c, m, link.SessionSpawned{Key: m.Key, Handle: handle, PID: pid})
	if m.Hears || m.Owed {
		c.Send(pid, link.Join{Client: m.Client, Hears: m.Hears, Owed: m.Owed})
	}
	if len(s.table) > 1 && m.Spec.Child == nil { // what opening needs is used once; children begin to work at once
		s.giveBackSoon(c, true)
	}
}

// tellSpawned tells a router of its session; nobody, where none has asked.
func tellSpawned(c actor.Context, to link.SpawnSession, m link.SessionSpawned) {
	if to.Client.Known() {
		c.Send(to.Client.Router, m)
	}
}

// newHandle is the handle of a session that is to be made. In a cluster it is its id, which all nodes know
// it by.
func (s *sessions) newHandle(spec *link.OpenSpec) string {
	if cl := s.shared.Cluster; cl != nil && spec.Log == nil {
		if spec.Path == "" && spec.ID == "" {
			spec.ID = store.NewSessionID(time.Now().UnixMilli())
		}
		if id := cmp.Or(spec.ID, cl.idOf(spec.Path)); id != "" {
			return id
		}
	}
	return s.numbered()
}

func (s *sessions) numbered() string {
	s.made++
	return "s" + strconv.Itoa(s.made)
}

// makeRoom ends the session that has been parked longest of those that are only retained,
// and says whether there is one. Its file is there for who comes back.
func (s *sessions) makeRoom(c actor.Context) bool {
	var oldest *member
	for _, e := range s.table {
		idle := e.info.Retain && e.info.Clients == 0 && e.info.Status == "parked" && e.info.SessionFile != nil && !e.going
		if idle && (oldest == nil || e.since < oldest.since) {
			oldest = e
		}
	}
	if oldest == nil {
		return false
	}
	oldest.going = true
	c.Send(oldest.pid, makeRoom{})
	return true
}

// makeRoom ends a session that no client is attached to.
type makeRoom struct{}

// roomRefused is the reply to makeRoom of a session that has a client again or is active.
type roomRefused struct{ handle string }

// roomRefused closes another session in place of one that refused, if room is still needed.
func (s *sessions) roomRefused(c actor.Context, handle string) {
	e := s.table[handle]
	if e == nil || !e.going {
		return
	}
	if s.staying() >= s.shared.MaxSessions {
		s.makeRoom(c)
	}
	e.going = false
}

// staying returns the number of open sessions, without those that are closing to make room.
func (s *sessions) staying() (n int) {
	for _, e := range s.table {
		if !e.going {
			n++
		}
	}
	return n
}

func (s *sessions) list() []protocol.OpenSessionInfo {
	list := make([]protocol.OpenSessionInfo, 0, len(s.table))
	for _, e := range s.table {
		list = append(list, e.info)
	}
	slices.SortFunc(list, func(a, b protocol.OpenSessionInfo) int {
		return cmp.Or(cmp.Compare(len(a.SessionID), len(b.SessionID)), cmp.Compare(a.SessionID, b.SessionID))
	})
	return list
}

// terminated forgets a session, or has a router that is no more leave its sessions.
func (s *sessions) terminated(c actor.Context, who *actor.PID) {
	for handle, last := range s.over {
		if last.pid.Equal(who) {
			delete(s.over, handle)
			for _, m := range last.waits {
				s.spawn(c, m)
			}
			return
		}
	}
	for handle, e := range s.table {
		if e.pid.Equal(who) {
			s.remove(c, handle)
			return
		}
	}
	s.watchers = slices.DeleteFunc(s.watchers, who.Equal)
	s.tellAll(c, link.Leave{Router: who, Abort: true, Gone: true})
}

// gaveUp says that a session was given up, and how many clients it still has.
type gaveUp struct {
	handle  string
	clients int
}

// listed is the session as it was last known, which names the file.
func (m gaveUp) listed(last protocol.OpenSessionInfo) protocol.OpenSessionInfo {
	last.Status, last.Phase, last.PhaseSince = "failed", "", 0
	last.WaitingFor, last.PendingInputs, last.Clients = []string{}, 0, m.clients
	return last
}

// status is what a session tells its parent about itself, for list_open_sessions.
type status struct {
	handle string
	info   protocol.OpenSessionInfo
}

// largeAnswer is sent by a session after an answer that may have needed much memory.
type largeAnswer struct{}

// uses is what a session tells its parent of its model.
type uses struct{ handle, provider string }
