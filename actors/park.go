package actors

import (
	"errors"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/session"
	"troupe/protocol"
	"troupe/store"
)

// DefaultParkAfter is how long a session is idle before it is parked.
const DefaultParkAfter = 10 * time.Minute

// parkDue says that a session may have been idle for long enough.
type parkDue struct{}

// A parked session keeps its handle, its clients and what they have chosen, and
// nothing else: file, index, context and texts go. The next message opens it
// again, as after a crash, and waits for that. While it is parked its file
// belongs to nobody. If it cannot be opened again, because it is gone, another
// process has it, or there are too many open files, whoever asked hears of that
// and the session stays parked: the next one who asks may have more luck.

// watchIdle makes sure that somebody looks when the session has been idle long
// enough. Activity only moves the time; the timer is not touched for it.
func (s *Session) watchIdle(c actor.Context) {
	s.active = time.Now()
	if s.parkTimer == nil && s.cfg.ParkAfter > 0 && s.parkable() {
		s.armPark(c, s.cfg.ParkAfter)
	}
}

func (s *Session) armPark(c actor.Context, after time.Duration) {
	root, self := c.ActorSystem().Root, c.Self()
	s.parkTimer = time.AfterFunc(after, func() { root.Send(self, parkDue{}) })
}

func (s *Session) onParkDue(c actor.Context) {
	s.parkTimer = nil
	if !s.ready || !s.parkable() {
		return // what goes on now ends with a look at the time
	}
	if left := s.cfg.ParkAfter - time.Since(s.active); left > 0 {
		s.armPark(c, left)
		return
	}
	s.park(c)
}

// parkable says whether all there is of the session is in its file.
func (s *Session) parkable() bool {
	if s.spec.Memory || s.file == nil || !s.file.Materialised() || s.closing != nil || len(s.prepared) > 0 || len(s.group) > 0 || !s.output.none() || !s.m.AtRest() {
		return false
	}
	for _, j := range s.jobs {
		if j.kind != session.WorkerRetry && j.kind != session.WorkerUI { // helpers that are kept for the next time
			return false
		}
	}
	return true
}

func (s *Session) park(c actor.Context) {
	for id, j := range s.jobs {
		delete(s.jobs, id)
		c.Stop(j.pid) // a helper without work
	}
	s.retry, s.ui = nil, nil
	s.life.shows = s.info()
	s.letGo()
	s.m, s.ready, s.stale = nil, false, false
	s.dropContext()
	s.waiting, s.next = nil, nil
	s.life.unsent, s.life.shrunk = nil, newShrinker()
	s.work.forgetTexts()
	s.isParked(c)
}

func (s *Session) isParked(c actor.Context) {
	s.parked, s.shown = true, ""
	s.life.shows.Status = "parked"
	c.Send(c.Parent(), status{s.handle, s.life.shows})
}

// mayWait says whether a session whose file cannot be opened again may try
// later: it has a handle that a client knows, and nobody wants it to end.
func (s *Session) mayWait() bool {
	return s.life.opened && s.closing == nil && s.ledger.opening == nil && !slices.ContainsFunc(s.waiting, endsSession)
}

func endsSession(m any) bool {
	r, ok := m.(request)
	if !ok {
		return false
	}
	_, ends := r.Cmd.(protocol.CloseSession)
	return ends
}

// staysParked answers what woke the session up, and closes what a crash has left
// open.
func (s *Session) staysParked(c actor.Context, err *protocol.Error) {
	s.log.Warn().Str("error", err.Message).Msg("the session cannot be woken up")
	for _, ev := range s.endings() {
		s.life.unsent = append(s.life.unsent, outgoing{item: item{event: ev}})
	}
	s.life.shows.Phase, s.life.shows.WaitingFor = string(session.PhaseIdle), []string{}
	s.isParked(c)
	waiting := s.waiting
	s.waiting = nil
	for _, m := range waiting {
		if r, ok := m.(request); ok {
			s.reply(r.Seq, nil, err)
		} else {
			s.whileParked(c, m)
		}
	}
	s.flush(c.ActorSystem().Root)
}

// suspect looks, after something could not be read, whether the file has become
// another one.
func (s *Session) suspect(err *protocol.Error) {
	if err != nil && err.Code == protocol.CodeIO && s.file != nil {
		s.stale = s.stale || errors.Is(s.file.Intact(), store.ErrChanged)
	}
}

// readAnew parks a session whose file was changed under its feet, as soon as
// nothing goes on: who comes next finds what the file says, as after opening it.
func (s *Session) readAnew(c actor.Context) {
	if s.stale && s.ready && s.parkable() {
		s.stopParkTimer()
		s.park(c)
	}
}

// whileParked takes what a parked session is told. What concerns only its
// clients does not wake it.
func (s *Session) whileParked(c actor.Context, m any) {
	switch m := m.(type) {
	case setGates:
		s.life.gates, s.work.settings.Gates = m.gates, m.gates
	case request, closing:
		s.waiting = append(s.waiting, m)
		s.parked = false
		s.start(c)
	default: // of an earlier life
	}
}

func (s *Session) stopParkTimer() {
	if s.parkTimer != nil {
		s.parkTimer.Stop()
		s.parkTimer = nil
	}
}
