package session

import (
	"slices"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/core"
	"troupe/actors/link"
	"troupe/protocol"
)

// subscriptions are what clients are told of children beside what everybody is.
type subscriptions struct {
	level protocol.SubagentLevel // the highest that a client has; "" for none
	sizes map[string]*link.Sizer // of the events of each child, by its id
}

// subscribe notes how much a client is told of children.
func (s *Session) subscribe(c actor.Context, r link.Request, cmd protocol.SetSubagentSubscription) {
	if who := s.clients.by(r.Client.Router); who != nil {
		who.children = cmd.Level
	}
	s.subscribed(c)
}

// subscribed has machine and minders tell as much as some client wants to know.
func (s *Session) subscribed(c actor.Context) {
	level := s.clients.childLevel()
	if was := s.clients.wants.children.level; level == was || was == "" && level == protocol.SubagentsOff || s.m == nil || s.life.state.over() {
		return
	}
	s.clients.wants.children.level = level
	s.step(c, core.ChildrenWatched{On: level != protocol.SubagentsOff})
	for _, j := range s.jobs.running {
		if j.kind == core.WorkerChild {
			c.Send(j.pid, passEvents{level == protocol.SubagentsEvents})
		}
	}
}

// childLevel is the highest level that a client has.
func (a *clients) childLevel() protocol.SubagentLevel {
	level := protocol.SubagentsOff
	for _, cl := range a.list {
		switch {
		case !cl.attached():
		case cl.children == protocol.SubagentsEvents:
			return cl.children
		case cl.children == protocol.SubagentsProgress:
			level = cl.children
		}
	}
	return level
}

// tellStage tells subscribers that a child of the session has begun or ended.
func (s *Session) tellStage(ev protocol.Event) {
	if s.clients.wants.children.level == "" || s.clients.wants.children.level == protocol.SubagentsOff || s.m == nil {
		return
	}
	switch ev := ev.(type) {
	case protocol.SubagentStart:
		s.stage(ev.ID, ev.Agent, protocol.SubagentBegun)
	case protocol.SubagentEnd:
		status := protocol.TaskCompleted
		switch {
		case ev.Aborted:
			status = protocol.TaskAborted
		case ev.ExitCode != 0:
			status = protocol.TaskFailed
		}
		s.stage(ev.ID, ev.Agent, status)
		delete(s.clients.wants.children.sizes, ev.ID)
	default: // is about no beginning or end
	}
}

func (s *Session) stage(id, agent, status string) {
	if !strings.Contains(id, ".") { // else it is a child's child
		s.clients.emit(protocol.SubagentLifecycle{Payload: s.m.SubagentStage(id, agent, status)}, nil)
	}
}

// emitTo tells those of a child who want to know it, and says whether an event is of
// that kind.
func (a *clients) emitTo(ev protocol.Event) bool {
	switch ev := ev.(type) {
	case protocol.SubagentLifecycle, protocol.SubagentProgress:
		a.sendSubscribers(link.Item{Event: ev, Size: link.EventSize(ev)}, protocol.SubagentsProgress, protocol.SubagentsEvents)
	case protocol.SubagentEvent:
		of := link.Item{Event: ev.Payload.Is}
		a.wants.children.sizer(ev.Payload.ID).Size(&of)
		a.sendSubscribers(link.Item{Event: ev, Size: link.RecordSize + of.Size, Whole: of.Whole}, protocol.SubagentsEvents)
	default:
		return false
	}
	return true
}

// sendSubscribers tells those clients that have one of some levels.
func (a *clients) sendSubscribers(it link.Item, levels ...protocol.SubagentLevel) {
	for _, cl := range a.list {
		if !cl.muted && cl.attached() && slices.Contains(levels, cl.children) {
			a.unsent = append(a.unsent, outgoing{to: cl.Client, item: it})
		}
	}
}

func (t *subscriptions) sizer(id string) *link.Sizer {
	if t.sizes == nil {
		t.sizes = map[string]*link.Sizer{}
	}
	if t.sizes[id] == nil {
		t.sizes[id] = new(link.Sizer)
	}
	return t.sizes[id]
}

// passEvents tells a minder whether to pass on every event of its child.
type passEvents struct{ on bool }

// childHeard is an event of a child on its way to subscribers. It counts for the child
// as not written until they get it.
type childHeard struct {
	attempt core.Attempt
	id      string
	event   protocol.Event
	bytes   int
	window  *link.Window
}

// onChildHeard tells subscribers what a child's session has told.
func (s *Session) onChildHeard(c actor.Context, m childHeard) {
	defer m.window.Give(m.bytes)
	if s.minder(m.attempt, m.id) == nil {
		return // it is over for clients
	}
	s.clients.emit(protocol.SubagentEvent{Payload: protocol.ChildEvent{ID: m.id, Is: m.event}}, nil)
	s.clients.flush(c.ActorSystem().Root)
}

// passesOn says whether subscribers are told of an event of a child as it is: dialogs
// are asked in the name of the parent.
func passesOn(ev protocol.Event) bool {
	row := protocol.RowOf(ev)
	return row.To == protocol.Everybody && !row.Dialog
}
