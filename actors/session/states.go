package session

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/protocol"
)

// shownState is what clients have been told of the choices of a session.
type shownState struct {
	known   bool
	state   protocol.StateChanged // every member is there
	clients []protocol.ClientRef
	by      *protocol.ClientRef // whose command is carried out; nil for nobody's, or if it has no name
}

// choices are what a session has chosen, or was told to.
func (s *Session) choices() protocol.StateChanged {
	modes := s.m.Modes
	return protocol.StateChanged{
		Model: s.m.Model(), ThinkingLevel: s.m.Level(), PermissionMode: modes.PermissionMode,
		SteeringMode: modes.SteeringMode, FollowUpMode: modes.FollowUpMode,
		AutoCompactionEnabled: new(modes.AutoCompaction), SessionName: new(s.m.Name()), ActiveToolNames: s.m.ActiveTools(),
	}
}

// noteState remembers how things are before they change, where somebody wants to know.
func (s *Session) noteState() {
	if s.clients.wants.states && !s.reported.shown.known {
		s.reported.shown.known, s.reported.shown.state = true, s.choices()
	}
}

// tellState tells clients what has changed of the choices.
func (s *Session) tellState() {
	shown := &s.reported.shown
	if !shown.known {
		return
	}
	was, now := shown.state, s.choices()
	shown.state = now
	if changed, any := now.Since(was); any {
		changed.By = shown.by
		s.emit(changed)
	}
}

// tellClients tells clients who listens, if that has changed.
func (s *Session) tellClients(c actor.Context) {
	if !s.clients.wants.states || s.life.state == closed {
		return
	}
	now := s.clients.names()
	if slices.Equal(now, s.reported.shown.clients) {
		return
	}
	s.reported.shown.clients = now
	s.emit(protocol.ClientsChanged{Clients: now})
	s.clients.flush(c.ActorSystem().Root)
}

func (cl *client) inRole(ref protocol.ClientRef) protocol.ClientRef {
	if cl.viewer {
		ref.Role = protocol.RoleViewer
	}
	return ref
}

// names are the clients that hear of the session; one that has not named itself is there
// without a name.
func (a *clients) names() []protocol.ClientRef {
	names := []protocol.ClientRef{}
	for _, cl := range a.list {
		switch {
		case !cl.attached():
		case cl.Who != nil:
			names = append(names, cl.inRole(cl.Who.Ref))
		default:
			names = append(names, cl.inRole(protocol.ClientRef{}))
		}
	}
	return names
}
