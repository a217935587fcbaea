package session

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/core"
	"troupe/actors/extension"
	"troupe/actors/kernel"
	"troupe/actors/worker"
	"troupe/protocol"
)

// extensionUI shows a record of an extension to the clients, and opens a dialog if
// it wants an answer. Nobody there means no.
func (s *Session) extensionUI(c actor.Context, m extension.UI) {
	m.Request.ID = s.shared.recordID("ext", s.life.ids)
	if m.Op == 0 {
		s.clients.stands.note(m.Request, false)
		s.emit(m.Request)
		return
	}
	switch {
	case s.ext.asks.over, m.Session != s.ext.load.nth, s.shared.Mode != "", s.clients.attached() == 0 && !s.waitsForSomebody():
		s.nobodyIsThere(c, m.Op)
		return
	case len(s.ext.asks.dialogs) >= maxDialogs:
		s.answerOp(m.Op, json.RawMessage(`{"cancelled":true}`), "")
		s.extensionFailed(runtimeFailure("ui", fmt.Sprintf("more than %d dialogs are open", maxDialogs)))
		return
	}
	s.ext.asks.dialogs[m.Request.ID] = m.Op
	s.oneByOne(c, m.Request.ID, func(c actor.Context) {
		s.clients.stands.note(m.Request, true)
		s.tellPrompt("ui_prompt_start", m.Request)
		s.emit(m.Request)
		s.tellUI(c, worker.AskUI{Request: m.Request})
		s.unseen(c)
	})
	s.partingAsks(c)
}

// nobodyIsThere cancels a dialog that nobody can be shown. Who asks again and again, until there is
// an answer, is let wait between: he would use up a processor.
func (s *Session) nobodyIsThere(c actor.Context, op uint64) {
	a := &s.ext.asks
	if a.unseen++; a.unseen > maxDialogs {
		kernel.After(c, unseenEvery, c.Self(), unseenDialog{s.ext.nth, op})
		return
	}
	s.answerOp(op, json.RawMessage(`{"cancelled":true}`), "")
}

// unseenEvery is how soon a dialog that nobody is shown is cancelled, behind the first ones.
const unseenEvery = 100 * time.Millisecond

// unseenDialog is one of an actor of extensions that is to be cancelled now.
type unseenDialog struct {
	nth int
	op  uint64
}

func (s *Session) onUnseenDialog(m unseenDialog) {
	if m.nth == s.ext.nth && s.ext.pid != nil {
		s.answerOp(m.op, json.RawMessage(`{"cancelled":true}`), "")
	}
}

// maxDialogs is how many dialogs of extensions may be open at once.
const maxDialogs = 64

// dialogAnswered gives an extension the answer to its dialog; false if it is not
// its own.
func (s *Session) dialogAnswered(m core.UIAnswered, how protocol.DialogOver) bool {
	op, ok := s.ext.asks.dialogs[m.ID]
	if !ok {
		return false
	}
	delete(s.ext.asks.dialogs, m.ID)
	s.promptOver(m.ID, how)
	var a any = map[string]bool{"cancelled": true}
	switch {
	case m.Cancelled:
	case m.Value != nil:
		a = map[string]string{"value": *m.Value}
	default:
		a = map[string]bool{"confirmed": m.Confirmed}
	}
	s.answerOp(op, protocol.JSON(a), "")
	return true
}

// promptOver takes a dialog of an extension away.
func (s *Session) promptOver(id string, how protocol.DialogOver) {
	if x := s.dialogOver(id, how); x != nil {
		if r, is := x.record.(protocol.ExtensionUIRequest); is {
			s.tellPrompt("ui_prompt_end", r)
		}
	}
}

// tellPrompt tells extensions that somebody is asked something, or not any more.
func (s *Session) tellPrompt(name string, r protocol.ExtensionUIRequest) {
	if !s.ext.listens[name] || s.ext.asks.over {
		return
	}
	s.tellEvent(protocol.JSON(map[string]any{"type": name, "reason": "ui_prompt", "kind": r.Method, "title": r.Title}))
}

// dialogGone closes a dialog that its extension does not want any more.
func (s *Session) dialogGone(c actor.Context, op uint64) {
	for id, of := range s.ext.asks.dialogs {
		if of == op {
			delete(s.ext.asks.dialogs, id)
			s.promptOver(id, protocol.DialogOver{Outcome: string(protocol.DialogAborted)})
			s.tellUI(c, worker.CancelUI{ID: id})
			s.partingAsks(c)
		}
	}
}

// dismissDialogs ends every dialog of extensions as if it had been cancelled:
// nobody can answer.
func (s *Session) dismissDialogs(c actor.Context) {
	for _, id := range slices.Sorted(maps.Keys(s.ext.asks.dialogs)) {
		s.tellUI(c, worker.CancelUI{ID: id})
		s.dialogAnswered(core.UIAnswered{ID: id, Cancelled: true}, protocol.DialogOver{Outcome: string(protocol.DialogLost)})
	}
}
