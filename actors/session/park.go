package session

import (
	"errors"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/core"
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
// fit for models. The next command finds everything as it was, unless another
// program has changed the file meanwhile: then it is opened again first.

// watchIdle makes sure that somebody looks when the session has been idle long
// enough. Activity only moves the time; the timer is not touched for it.
func (s *Session) watchIdle(c actor.Context) {
	s.active = time.Now()
	if s.parkTimer == nil && s.shared.ParkAfter > 0 && s.parkable() {
		s.armPark(c, s.shared.ParkAfter)
	}
}

func (s *Session) armPark(c actor.Context, after time.Duration) {
	s.parkTimer = kernel.After(c, after, c.Self(), parkDue{})
}

func (s *Session) onParkDue(c actor.Context) {
	s.parkTimer = nil
	if !s.ready || !s.parkable() {
		return // what goes on now ends with a look at the time
	}
	if left := s.shared.ParkAfter - time.Since(s.active); left > 0 {
		s.armPark(c, left)
		return
	}
	s.park(c)
}

// parkable says whether nothing goes on.
func (s *Session) parkable() bool { return s.closing == nil && s.m.AtRest() && !s.jobs.busy() }

func (s *Session) park(c actor.Context) {
	s.jobs.stop(c)
	s.dropContext()
	s.life.unsent, s.life.shrunk = nil, worker.NewShrinker()
	s.work.forgetTexts()
	s.parked = true
	s.life.shows = s.info()
	s.saysParked(c)
}

func (s *Session) saysParked(c actor.Context) {
	s.reported.phase = ""
	s.life.shows.Status = "parked"
	c.Send(c.Parent(), status{s.handle, s.life.shows})
}

// unparked says whether a session can go on with a message. A command wakes a
// parked one; where its file is not as it was, it is opened again first, and the
// command waits for that.
func (s *Session) unparked(c actor.Context, m any) bool {
	if _, isCommand := m.(link.Request); !s.parked || !isCommand || endsSession(m) {
		return true
	}
	s.parked = false
	if s.file.Untouched() {
		return true
	}
	s.unload(c)
	s.reopen(c, m)
	return false
}

// unload lets go of a machine and of a file that is not what was read from it.
// The next command opens the file again, as after a crash, and waits for that. If
// it cannot be opened, because it is gone, another process has it, or there are
// too many open files, whoever asked hears of that and the session stays as it
// is: the next one who asks may have more luck.
func (s *Session) unload(c actor.Context) {
	s.stopParkTimer()
	s.jobs.stop(c)
	s.life.shows = s.info()
	s.letGo()
	s.m, s.ready, s.stale, s.parked = nil, false, false, false
	s.dropContext()
	s.waiting, s.next = nil, nil
	s.unloaded = true
}

// mayWait says whether a session whose file cannot be opened again may try
// later: it has a handle that a client knows, and nobody wants it to end.
func (s *Session) mayWait() bool {
	return s.life.opened && s.closing == nil && s.ledger.opening == nil && !slices.ContainsFunc(s.waiting, endsSession)
}

func endsSession(m any) bool {
	r, ok := m.(link.Request)
	if !ok {
		return false
	}
	_, ends := r.Cmd.(protocol.CloseSession)
	return ends
}

// staysUnloaded answers who asked for the session, and closes what a crash has
// left open.
func (s *Session) staysUnloaded(c actor.Context, err *protocol.Error) {
	s.log.Warn().Str("error", err.Message).Msg("the session cannot be opened again")
	for _, ev := range s.endings() {
		s.life.unsent = append(s.life.unsent, outgoing{item: link.Item{Event: ev}})
	}
	s.life.shows.Phase, s.life.shows.WaitingFor = string(core.PhaseIdle), []string{}
	s.unloaded = true
	s.saysParked(c)
	waiting := s.waiting
	s.waiting = nil
	for _, m := range waiting {
		if r, ok := m.(link.Request); ok {
			s.reply(r.Seq, nil, err)
		} else {
			s.whileUnloaded(c, m)
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

// readAnew unloads a session whose file was changed under its feet, as soon as
// nothing goes on: who comes next finds what the file says.
func (s *Session) readAnew(c actor.Context) {
	if s.stale && s.ready && s.parkable() && len(s.group) == 0 && s.output.none() {
		s.unload(c)
		s.saysParked(c)
	}
}

// whileUnloaded takes what a session is told whose file is to be opened again.
// What concerns only its clients does not do that.
func (s *Session) whileUnloaded(c actor.Context, m any) {
	switch m := m.(type) {
	case link.SetDialect:
		s.setDialect(m)
	case link.Leave:
		if s.closing == nil {
			s.life.shows.Clients = s.audience.attached()
			c.Send(c.Parent(), status{s.handle, s.life.shows})
			return
		}
		s.reopen(c, m)
	case link.Request:
		s.reopen(c, m)
	default: // of an earlier life
	}
}

func (s *Session) reopen(c actor.Context, m any) {
	s.waiting = append(s.waiting, m)
	s.unloaded = false
	s.start(c)
}

func (s *Session) stopParkTimer() {
	if s.parkTimer != nil {
		s.parkTimer.Stop()
		s.parkTimer = nil
	}
}
