package actors

import (
	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/session"
	"troupe/protocol"
)

// A client that asks and does not read must not fill the memory with answers.
// Small ones are bounded by the writer; a session that has given the writer more
// than MaxOutput in large ones answers no further question of that kind until
// enough of it is written. The questions wait in order, and their credits with
// them, so that in the end the client waits, too. Other commands go on: an abort
// does not stand behind what is slow to read.

// none says that nothing is unwritten, waiting or under way.
func (b *burden) none() bool { return b.bytes+len(b.held)+len(b.lookUps)+b.looking == 0 }

// maxLookUps is how many look-ups of a session go on at once.
const maxLookUps = 2

// burden is what a session has to do with large answers.
type burden struct {
	bytes   int   // of answers that are not written yet
	held    []any // what waits for that: questions, and an end in order
	ending  bool  // an end is among them: every command waits behind it
	looking int   // look-ups under way
	lookUps []session.LookUp
}

// weight is about how many bytes an answer keeps until it is written.
func weight(r *protocol.Response) int {
	if r == nil {
		return 0
	}
	if w, ok := r.Data.(protocol.Weighed); ok {
		return w.Weight()
	}
	return 0
}

// heavy says whether an answer can grow with a session, or with the number of
// sessions.
func heavy(cmd protocol.Command) bool {
	switch cmd.(type) {
	case protocol.GetMessages, protocol.GetEntries, protocol.GetTree, protocol.GetSessionTree,
		protocol.GetForkMessages, protocol.GetLastAssistantText, protocol.ListSessions, protocol.ExportHTML:
		return true
	default:
		return false
	}
}

// holds keeps a message for later, if it has to wait.
func (s *Session) holds(m any) bool {
	if s.load.bytes <= s.cfg.MaxOutput && len(s.load.held) == 0 {
		return false
	}
	ends := false
	switch m := m.(type) {
	case request:
		switch m.Cmd.(type) {
		case protocol.AttachSession, protocol.DetachSession:
			return false // who hears of the session is noted already, see listen: the answer must not come later
		default:
		}
		if _, ends = m.Cmd.(protocol.CloseSession); !ends && !heavy(m.Cmd) && !s.load.ending {
			return false
		}
	case closing:
		if ends = true; m.abort {
			return false
		}
	default:
		return false
	}
	s.load.held, s.load.ending = append(s.load.held, m), s.load.ending || ends
	return true
}

// unload goes on with what has waited.
func (s *Session) unload(c actor.Context, m unloaded) {
	s.load.bytes = max(0, s.load.bytes-m.bytes) // an earlier life may have sent it
	s.nextLookUp(c)
	for len(s.load.held) > 0 && s.load.bytes <= s.cfg.MaxOutput && !s.gone {
		m := s.load.held[0]
		if s.load.held = s.load.held[1:]; len(s.load.held) == 0 {
			s.load.held, s.load.ending = nil, false
		}
		s.take(c, m)
	}
}

// lookUp answers a command that takes long, off the actor's goroutine.
func (s *Session) lookUp(c actor.Context, e session.LookUp) {
	s.load.lookUps = append(s.load.lookUps, e)
	s.nextLookUp(c)
}

func (s *Session) nextLookUp(c actor.Context) {
	for len(s.load.lookUps) > 0 && s.load.looking < maxLookUps && s.load.bytes <= s.cfg.MaxOutput {
		e := s.load.lookUps[0]
		s.load.lookUps = s.load.lookUps[1:]
		s.load.looking++
		find := s.search(e.Cmd)
		background(c, func() any {
			data, err := find()
			return session.LookedUp{Seq: e.Seq, Data: data, Err: err}
		})
	}
}

// lookedUp answers a look-up and begins the next.
func (s *Session) lookedUp(c actor.Context, m session.LookedUp) {
	s.load.looking = max(0, s.load.looking-1) // an earlier life may have begun it
	s.suspect(m.Err)
	s.step(c, m)
	s.nextLookUp(c)
}
