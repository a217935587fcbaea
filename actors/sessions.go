package actors

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/protocol"
)

// sessions is the parent of all sessions: it makes them, knows which are live,
// and restarts those that crash, always.
type sessions struct {
	cfg   *Config
	made  int
	table map[string]*member
	give  *time.Timer // calls GiveBack
}

// member is a live session.
type member struct {
	pid    *actor.PID
	info   protocol.OpenSessionInfo
	router *actor.PID // who asked for it
	key    string     // and how he calls it
}

func (s *sessions) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		s.table = map[string]*member{}
	case spawnSession:
		s.spawn(c, m)
	case status:
		if e := s.table[m.handle]; e != nil {
			e.info = m.info
		}
		if m.info.Status == "parked" {
			s.giveBack()
		}
	case closed:
		delete(s.table, m.handle)
		for _, router := range m.tell {
			c.Send(router, m)
		}
	case listOpen:
		c.Send(m.from, openList{m.seq, s.list()})
	case *actor.Terminated:
		s.gone(m.Who)
	}
}

// giveBackAfter is how long no session has been parked when memory is given
// back: they tend to fall asleep together.
const giveBackAfter = time.Second

func (s *sessions) giveBack() {
	switch {
	case s.cfg.GiveBack == nil:
	case s.give == nil:
		s.give = time.AfterFunc(giveBackAfter, s.cfg.GiveBack)
	default:
		s.give.Reset(giveBackAfter)
	}
}

// mend answers the request that broke the parent of sessions in the middle of
// it. A router hears a repeated answer once.
func (s *sessions) mend(c actor.Context, msg any) bool {
	m, ok := msg.(spawnSession)
	if !ok {
		return false // everything else can be told twice
	}
	answer := sessionSpawned{key: m.key, err: protocol.CodeInternal.Errorf("Internal error")}
	for handle, e := range s.table {
		if e.key == m.key && e.router.Equal(m.client.router) {
			answer = sessionSpawned{key: m.key, handle: handle, pid: e.pid}
		}
	}
	c.Send(m.client.router, answer)
	return true
}

func (s *sessions) spawn(c actor.Context, m spawnSession) {
	s.cfg.Faults.Hit("sessions", "Spawn")
	if len(s.table) >= s.cfg.MaxSessions {
		c.Send(m.client.router, sessionSpawned{key: m.key, err: protocol.CodeOverloaded.Errorf(
			"Too many open sessions: the limit is %d", s.cfg.MaxSessions)})
		return
	}
	s.made++
	handle := "s" + strconv.Itoa(s.made)
	if m.client.tag != "" {
		m.client.tag = handle
	}
	pid, err := c.SpawnNamed(sessionProps(s.cfg, handle, m), handle)
	if err != nil {
		c.Send(m.client.router, sessionSpawned{key: m.key, err: protocol.CodeInternal.Errorf("internal error: %s", err)})
		return
	}
	s.table[handle] = &member{pid: pid, router: m.client.router, key: m.key, info: protocol.OpenSessionInfo{
		SessionID: handle, Cwd: m.spec.Cwd, Status: "opening", Clients: 1, Retain: m.spec.Retain, WaitingFor: []string{},
	}}
	s.cfg.Faults.Hit("sessions", "Spawned")
	c.Send(m.client.router, sessionSpawned{key: m.key, handle: handle, pid: pid})
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

func (s *sessions) gone(pid *actor.PID) {
	for handle, e := range s.table {
		if e.pid.Equal(pid) {
			delete(s.table, handle)
		}
	}
}
