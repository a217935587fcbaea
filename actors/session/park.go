package session

import (
	"errors"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/kernel"
	"troupe/actors/link"
	"troupe/actors/worker"
	"troupe/protocol"
	"troupe/store"
)

// DefaultParkAfter is how long a session is idle before it is parked.
const DefaultParkAfter = 10 * time.Minute

// parkDue says that a session may have been idle for long enough.
type parkDue struct{}

// A parked session keeps its machine and its file, and gives back what can be made
// again from those: the context of the branch, texts of the project, images made
// fit for models. The next command finds everything as it was. Where another
// program has changed the file meanwhile, or under the feet of a live session, it
// is opened again first, as after a crash. If that fails, because it is gone,
// another process has it, or there are too many open files, whoever asked hears of
// that and the session stays parked: the next one who asks may have more luck.

// rest comes behind each message: a session whose file has changed is parked as
// soon as nothing goes on, any other one when it has been idle long enough.
// Activity only moves that time; the timer is not touched for it.
func (s *Session) rest(c actor.Context) {
	s.active = time.Now()
	if s.state == stale && s.parkable() && len(s.group) == 0 && s.output.none() {
		s.park(c)
		s.closeLog()
	}
	if s.state == live && s.parkTimer == nil && s.shared.ParkAfter > 0 && s.parkable() {
		s.armPark(c, s.shared.ParkAfter)
	}
}

func (s *Session) armPark(c actor.Context, after time.Duration) {
	s.parkTimer = kernel.After(c, after, c.Self(), parkDue{})
}

func (s *Session) onParkDue(c actor.Context) {
	s.parkTimer = nil
	if s.state != live || !s.parkable() {
		return // what goes on now ends with a look at the time
	}
	if left := s.shared.ParkAfter - time.Since(s.active); left > 0 {
		s.armPark(c, left)
		return
	}
	s.park(c)
}

// parkable says whether nothing goes on.
func (s *Session) parkable() bool { return s.end == nil && s.m.AtRest() && !s.jobs.busy() }

func (s *Session) park(c actor.Context) {
	s.stopParkTimer()
	s.jobs.stop(c)
	s.dropContext()
	s.life.unsent, s.life.shrunk = nil, worker.NewShrinker()
	s.work.forgetTexts()
	s.becomeParked(c)
}

func (s *Session) becomeParked(c actor.Context) {
	s.life.state, s.reported.phase = parked, ""
	c.Send(c.Parent(), status{s.handle, s.info()})
}

// wakes says whether a message has a parked session look at its file: a command
// does, except for the one that ends it.
func wakes(m any) bool {
	_, isCommand := m.(link.Request)
	return isCommand && !endsSession(m)
}

func endsSession(m any) bool {
	r, _ := m.(link.Request)
	_, ends := r.Cmd.(protocol.CloseSession)
	return ends
}

// wake says whether a parked session can go on with a command at once. Else the
// command waits until the file is open again.
func (s *Session) wake(c actor.Context, m any) bool {
	if s.file != nil && s.file.Untouched() {
		s.life.state = live
		return true
	}
	s.closeLog()
	s.waiting = append(s.waiting, m)
	s.openLog(c)
	return false
}

// suspect looks, after something could not be read, whether the file has become
// another one.
func (s *Session) suspect(err *protocol.Error) {
	if err != nil && err.Code == protocol.CodeIO && s.state == live && errors.Is(s.file.Intact(), store.ErrChanged) {
		s.life.state = stale
	}
}

func (s *Session) stopParkTimer() {
	if s.parkTimer != nil {
		s.parkTimer.Stop()
		s.parkTimer = nil
	}
}
