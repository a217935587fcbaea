package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/conn"
	"troupe/actors/kernel"
	"troupe/actors/link"
	"troupe/actors/logins"
	"troupe/actors/session"
)

// supervisor is the parent of everything in a daemon, and decides about its end:
// it lets connections and sessions finish within a limit, then aborts what they
// do, then cuts them short.
type supervisor struct {
	kernel *kernel.Kernel
	log    zerolog.Logger
	shared *session.Shared
	server conn.Server
	open   map[string]*Connection // by PID
	over   chan<- struct{}

	drainLimit, abortLimit time.Duration

	stage stage
	gone  bool        // no session is left, or none is waited for any more
	stdio bool        // it lives for one client, and with it ends whoever could be asked
	timer *time.Timer // for the next stage
}

// stage is how far the end of a daemon has come.
type stage int

const (
	serving  stage = iota
	draining       // runs finish
	aborting       // runs are stopped
	cutting        // sessions are not waited for any more
	leaving        // nor are clients that do not read
	ended
)

type (
	// connect asks for a connection.
	connect struct {
		*Connection
		of conn.Config
		t  conn.Transport
	}
	// limit ends a stage.
	limit struct{ of stage }
)

func (s *supervisor) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		s.open = map[string]*Connection{}
		s.server.Sessions = s.spawnSessions(c)
		s.server.Logins = s.spawnLogins(c)
	case connect:
		s.connect(c, m)
	case conn.Ending:
		if connection := s.open[m.Who.Id]; connection != nil && connection.final {
			s.stop(c, m.Abort)
		}
	case conn.Ended:
		c.Poison(m.Who) // behind what it has still been told
		s.closed(c, m.Who, m.Err)
	case Stop:
		s.stop(c, m.Abort)
	case link.NoneOpen:
		s.gone = true
		s.maybeOver()
	case limit:
		if m.of == s.stage {
			s.late(c)
		}
	case *actor.Terminated:
		if m.Who.Equal(s.server.Sessions) {
			s.gone = true
		}
		s.closed(c, m.Who, conn.ErrConnectionBroken)
	}
}

func (s *supervisor) spawnSessions(c actor.Context) *actor.PID {
	pid, err := c.SpawnNamed(session.ParentProps(s.kernel, s.shared), "sessions")
	if err != nil {
		panic(err)
	}
	return pid
}

// spawnLogins makes the owner of logins, nil if there are none.
func (s *supervisor) spawnLogins(c actor.Context) *actor.PID {
	if s.shared.Logins == nil {
		return nil
	}
	pid, err := c.SpawnNamed(logins.Props(s.kernel, s.shared.Logins, s.server.Sessions), "logins")
	if err != nil {
		panic(err)
	}
	return pid
}

func (s *supervisor) connect(c actor.Context, m connect) {
	switch {
	case m.pid != nil: // told twice
		return
	case s.stage != serving:
		m.err = ErrStopped
		close(m.done)
		_ = m.t.Close()
		return
	}
	s.stdio = s.stdio || m.final
	own := m.of.Default.Cwd != "" // what its client has asked for
	if !own {
		m.of.Default = s.shared.Default
	}
	if !m.final && !own { // the session that was chosen at the start belongs to who started it
		m.of.Default = m.of.Default.Fresh()
	}
	m.pid = c.SpawnPrefix(conn.Props(s.kernel, &s.server, m.of, m.t), "conn")
	s.open[m.pid.Id] = m.Connection
}

// closed lets go of a connection, and ends with the final one. One that had nothing left to
// wait for does not cut short what the others' sessions finish.
func (s *supervisor) closed(c actor.Context, who *actor.PID, err error) {
	connection := s.open[who.Id]
	if connection != nil {
		delete(s.open, who.Id)
		connection.err = err
		close(connection.done)
		if connection.final {
			s.stop(c, s.stage == serving || err != nil)
		}
	}
	s.maybeOver()
}

// stop begins the end, or tightens it.
func (s *supervisor) stop(c actor.Context, abort bool) {
	next := draining
	if abort {
		next = aborting
	}
	if s.stage < next {
		s.enter(c, next)
	}
}

// late goes on to the next stage of an end that takes too long.
func (s *supervisor) late(c actor.Context) {
	switch s.stage {
	case draining:
		s.log.Warn().Dur("limit", s.drainLimit).Msg("run did not finish in time: aborting it")
	case aborting:
		if !s.gone {
			s.log.Error().Dur("limit", s.abortLimit).Msg("sessions did not stop in time")
		}
	default: // said before
	}
	s.enter(c, s.stage+1)
}

func (s *supervisor) enter(c actor.Context, next stage) {
	s.stage = next
	var tell any = conn.Cut{}
	after := s.abortLimit
	switch next {
	case draining, aborting:
		if next == draining {
			after = s.drainLimit
		}
		s.shared.Cluster.EndBy(time.Now().Add(after))
		tell = conn.Shutdown{Abort: next == aborting, Limit: after, GoesOn: !s.stdio}
		c.Request(s.server.Sessions, link.EndAll{Abort: next == aborting, GoesOn: !s.stdio})
	case leaving:
		s.gone = true
	case ended:
		clear(s.open)
	default:
	}
	for _, connection := range s.open {
		c.Send(connection.pid, tell)
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	s.timer = kernel.After(c, after, c.Self(), limit{next})
	s.maybeOver()
}

// maybeOver notices that everything has ended.
func (s *supervisor) maybeOver() {
	if s.stage == serving || !s.gone || len(s.open) > 0 || s.over == nil {
		return
	}
	s.stage = ended
	s.timer.Stop()
	close(s.over)
	s.over = nil
}
