package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/session"
)

// DefaultParkAfter is how long a session is idle before it is parked.
const DefaultParkAfter = 10 * time.Minute

// parkDue says that a session may have been idle for long enough.
type parkDue struct{}

// A parked session keeps its handle, its clients and what they have chosen, and
// nothing else: file, index, context and texts go. The next message opens it
// again, as after a crash, and waits for that. While it is parked its file
// belongs to nobody.

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
	if s.spec.Memory || s.file == nil || !s.file.Materialised() || s.closing != nil || len(s.prepared) > 0 || len(s.group) > 0 || !s.load.none() || !s.m.AtRest() {
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
	info := s.info()
	s.letGo()
	s.m, s.ready, s.parked = nil, false, true
	s.dropContext()
	s.waiting, s.next = nil, nil
	s.life.unsent, s.life.shrunk = nil, newShrinker()
	s.work.forgetTexts()
	info.Status = "parked"
	c.Send(c.Parent(), status{s.handle, info})
	s.shown = ""
}

// whileParked takes what a parked session is told. What concerns only its
// clients does not wake it.
func (s *Session) whileParked(c actor.Context, m any) {
	switch m := m.(type) {
	case backpressure:
		s.pressure(m)
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
