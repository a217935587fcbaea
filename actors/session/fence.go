package session

import (
	"encoding/json"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/core"
	"troupe/actors/extension"
	"troupe/protocol"
)

// fence is work that waits until the extensions are through with what they were
// told before it: what a handler does is done before the work, as in pi.
type fence struct {
	told  uint64 // events
	heard uint64 // of these, they are through with so many
	work  []core.Effect
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
	s.ext.send(extension.Tell{N: s.ext.fence.told, Event: payload})
}

// showEntry shows the extensions an entry that was added to the log.
func (s *Session) showEntry(r protocol.Record) {
	if s.ext.pid == nil {
		return
	}
	s.ext.send(extension.Entry{Raw: r.AppendJSON(nil)})
	name, payload := s.ext.events.OfEntry(r, s.reported.model, s.m.Model(), func(name string) bool { return s.ext.listens[name] })
	if name != "" && s.ext.load.done { // what a session begins with is no event to those who come into it
		s.tellEvent(payload)
	}
}

// abortSignal tells handlers that what goes on was stopped.
func (s *Session) abortSignal() {
	if s.ext.pid != nil {
		s.ext.send(extension.AbortRun{})
	}
}

// fenced keeps work back until the extensions are through.
func (s *Session) fenced(e core.Effect) bool {
	switch e.(type) {
	case core.StartStream, core.StartTool, core.StartBash, core.Summarise:
		if s.ext.pid == nil || s.ext.load.over() && s.ext.fence.heard == s.ext.fence.told {
			return false
		}
		s.ext.fence.work = append(s.ext.fence.work, e)
		return true
	default:
		return false
	}
}

// unfence drops work that was not begun and is not wanted any more.
func (s *Session) unfence(attempt core.Attempt) {
	s.ext.fence.work = slices.DeleteFunc(s.ext.fence.work, func(e core.Effect) bool {
		switch e := e.(type) {
		case core.StartStream:
			return e.Attempt == attempt
		case core.StartTool:
			return e.Attempt == attempt
		case core.Summarise:
			return e.Attempt == attempt
		default:
			return false
		}
	})
}

// unfenceCall takes back a call that was not begun.
func (s *Session) unfenceCall(e core.CancelCall) {
	s.ext.fence.work = slices.DeleteFunc(s.ext.fence.work, func(w core.Effect) bool {
		start, ok := w.(core.StartTool)
		return ok && start.Attempt == e.Attempt && start.Call.ID == e.CallID
	})
}

// unfenceBash takes back a command that was not begun, and tells its end.
func (s *Session) unfenceBash(job int) {
	i := slices.IndexFunc(s.ext.fence.work, func(e core.Effect) bool {
		start, ok := e.(core.StartBash)
		return ok && start.Job == job
	})
	if i >= 0 {
		s.ext.fence.work = slices.Delete(s.ext.fence.work, i, i+1)
		s.inputs.cause(core.BashDone{Job: job, Result: protocol.BashResult{Cancelled: true}})
	}
}

// throughWith begins the work that waited.
func (s *Session) throughWith(c actor.Context, n uint64) {
	s.ext.fence.heard = max(s.ext.fence.heard, min(n, s.ext.fence.told))
	s.beginWork(c)
}

// beginWork begins what waited, when nothing is left to wait for.
func (s *Session) beginWork(c actor.Context) {
	if s.ext.pid != nil && (!s.ext.load.over() || s.ext.fence.heard != s.ext.fence.told) {
		return
	}
	work := s.ext.fence.work
	s.ext.fence.work = nil
	for _, e := range work {
		s.do(c, e)
	}
	if in := s.inputs.first(); in != nil {
		s.step(c, in...)
	}
}
