package session

import (
	"context"
	"errors"
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

// DefaultParkAfter is how long a session is idle before it is parked.
const DefaultParkAfter = 10 * time.Minute

// parkDue says that a session may have been idle for long enough.
type parkDue struct{}

// idleTimer knows how long a session has been idle. Activity only moves the time;
// the timer is not touched for it.
type idleTimer struct {
	since time.Time   // when the session was last told something
	timer *time.Timer // sends parkDue; nil while there is none
}

func (t *idleTimer) start(c actor.Context, after time.Duration) {
	t.timer = kernel.After(c, after, c.Self(), parkDue{})
}

func (t *idleTimer) stop() {
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
}

// A parked session keeps its state machine and its file, and frees everything that can be rebuilt:
// the context of the branch, texts of the project, and images converted for models. Extensions stay
// loaded, since their state exists only in memory. The next command restores the session. If another
// program has changed the file meanwhile, the session is opened again first, as after a crash. If
// that fails, because the file is gone or locked or too many files are open, the command returns the
// error and the session stays parked. The next command tries again.

// rest comes behind each message: a session whose file has changed is parked as
// soon as nothing goes on, any other one when it has been idle long enough.
func (s *Session) rest(c actor.Context) {
	s.idle.since = time.Now()
	if s.life.state == stale && s.parkable() && len(s.inputs.group) == 0 && s.output.none() {
		s.park(c)
		s.closeLog()
	}
	if s.life.state == live && s.idle.timer == nil && s.shared.ParkAfter > 0 && s.parkable() {
		s.idle.start(c, s.shared.ParkAfter)
	}
}

func (s *Session) onParkDue(c actor.Context) {
	s.idle.timer = nil
	if s.life.state != live || !s.parkable() {
		return // what goes on now ends with a look at the time
	}
	if left := s.shared.ParkAfter - time.Since(s.idle.since); left > 0 {
		s.idle.start(c, left)
	} else {
		s.park(c)
	}
}

// parkable says whether nothing goes on.
func (s *Session) parkable() bool {
	return s.life.end == nil && s.m.AtRest() && s.trust.dialog == "" && !s.jobs.busy() && s.ext.atRest()
}

func (s *Session) park(c actor.Context) {
	s.idle.stop()
	s.jobs.stop(c)
	s.context = nil
	s.clients.ring.forget()
	s.clients.unsent, s.shrunk = nil, worker.NewShrinker()
	s.work.prompts.forget()
	if s.kept() != nil { // whoever is asked next has it, which may be another node
		s.leftIndex(c)
		s.closeLog()
	}
	s.becomeParked(c)
}

// leaveParked says in the log of a session that is closed while it is parked that this node keeps it open no more. When the
// process ends, its end says that.
func (s *Session) leaveParked(c actor.Context) {
	cl, end := s.shared.Cluster, s.life.end
	id := cl.idOf(s.file.path)
	if id == "" || end == nil || end.final {
		return
	}
	err := s.life.turn.wait(c, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, engineTime)
		defer cancel()
		return cl.Member.Leave(ctx, cluster.SessionID(id), cl.claimant(s.handle, s.known()))
	})
	if err != nil {
		s.log.Warn().Err(err).Msg("the log does not say that the session is closed: other handles cannot have it while this node lives")
	}
}

func (s *Session) becomeParked(c actor.Context) {
	s.life.state, s.reported.does.phase = parked, ""
	s.tellParent(c)
}

// wakes says whether a message has a parked session look at its file: a command
// does, except for the one that ends it, and what an extension says or does.
func wakes(m any) bool {
	switch m.(type) {
	case link.Request:
		return !endsSession(m)
	case extension.Message, core.CustomSent, core.EntryMade:
		return true
	default:
		return false
	}
}

func endsSession(m any) bool {
	r, _ := m.(link.Request)
	_, ends := r.Cmd.(protocol.CloseSession)
	return ends
}

// wake says whether a parked session can go on with a command at once. Else the
// command waits until the file is open again.
func (s *Session) wake(c actor.Context, m any) bool {
	if s.file.Log != nil && s.file.Untouched() {
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
	if err != nil && err.Code == protocol.CodeIO && s.life.state == live && errors.Is(s.file.Intact(), store.ErrChanged) {
		s.life.state = stale
	}
}
