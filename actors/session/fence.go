package session

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/cluster"
	"troupe/actors/core"
	"troupe/protocol"
	words "troupe/protocol/extension"
)

// fence is work that waits until the extensions are through with what they were
// told before it: what a handler does is done before the work, as in pi.
type fence struct {
	told  uint64 // events
	heard uint64 // of these, they are through with so many
	work  []core.Effect
}

// through says whether no work has to wait: they have handled all that they were told.
// There may be none.
func (x *extensions) through() bool {
	return x.pid == nil || x.load.over() && x.fence.heard == x.fence.told
}

// tellExtensions tells them an event of the session, if one of them listens.
func (s *Session) tellExtensions(ev protocol.Event) {
	if len(s.ext.listens) == 0 {
		return
	}
	name, payload := s.ext.events.Of(ev, func(name string) bool { return s.ext.listens[name] })
	if name == "" {
		return
	}
	if name != "message_update" && name != "tool_execution_update" { // nothing has changed but what they show
		s.update()
	}
	s.tellEvent(payload)
}

func (s *Session) tellEvent(payload json.RawMessage) {
	s.ext.fence.told++
	s.ext.send(words.Tell{N: s.ext.fence.told, Event: payload})
}

// showEntry shows the extensions an entry that was added to the log.
func (s *Session) showEntry(r protocol.Record) {
	if s.ext.pid == nil {
		return
	}
	s.ext.send(words.Appended{Entry: r.AppendJSON(nil)})
	name, payload := s.ext.events.OfEntry(r, s.reported.model, s.m.Model(), func(name string) bool { return s.ext.listens[name] })
	if name != "" && s.ext.load.done { // what a session begins with is no event to those who come into it
		s.tellEvent(payload)
	}
}

// abortSignal tells handlers that what goes on was stopped.
func (s *Session) abortSignal() {
	if s.ext.pid != nil {
		s.ext.send(words.AbortRun{})
	}
}

// fenced keeps work back until the extensions are through.
func (s *Session) fenced(e core.Effect) bool {
	switch e.(type) {
	case core.StartStream, core.StartTool, core.StartBash, core.Summarise:
		if s.ext.through() {
			return false
		}
		s.ext.fence.work = append(s.ext.fence.work, e)
		return true
	default:
		return false
	}
}

// unfence drops work that was not begun and is cancelled, and says whether there was any.
func (s *Session) unfence(by core.Effect) bool {
	before := len(s.ext.fence.work)
	s.ext.fence.work = slices.DeleteFunc(s.ext.fence.work, func(work core.Effect) bool { return cancels(by, work) })
	return len(s.ext.fence.work) < before
}

// cancels says whether an effect is the end of what another one begins.
func cancels(by, work core.Effect) bool {
	switch work := work.(type) {
	case core.StartStream:
		return by == core.Cancel{Attempt: work.Attempt}
	case core.Summarise:
		return by == core.Cancel{Attempt: work.Attempt}
	case core.StartTool:
		return by == core.Cancel{Attempt: work.Attempt} || by == core.CancelCall{Attempt: work.Attempt, CallID: work.Call.ID}
	case core.StartBash:
		return by == core.CancelBash{Job: work.Job}
	default:
		return false
	}
}

// throughWith begins the work that waited.
func (s *Session) throughWith(c actor.Context, n uint64) {
	s.ext.fence.heard = max(s.ext.fence.heard, min(n, s.ext.fence.told))
	if start := s.ext.load.start; start != 0 && s.ext.fence.heard >= start {
		s.startOver(c)
	}
	s.beginWork(c)
}

// beginWork begins what waited, when nothing is left to wait for.
func (s *Session) beginWork(c actor.Context) {
	if !s.ext.through() {
		return
	}
	work := s.ext.fence.work
	s.ext.fence.work = nil
	for _, e := range work {
		err := s.perform(c, e)
		switch bash, runs := e.(core.StartBash); { // that it begins has to be written, where a cluster keeps the session
		case errors.Is(err, cluster.ErrFenced):
			s.moveAway(c, "fenced")
			return
		case err != nil && runs:
			refusal := protocol.CodeNotDurable.Errorf("Session file could not be written: %s", err)
			if errors.Is(err, cluster.ErrUnknown) { // it may be written there that it begins
				refusal = keptError(s.file.id, err)
			}
			s.inputs.cause(core.BashDone{Job: bash.Job, Err: refusal})
		}
	}
	if in := s.inputs.first(); in != nil {
		s.step(c, in...)
	}
	s.release(c)
}
