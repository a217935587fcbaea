package worker

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/core"
	"troupe/actors/kernel"
	"troupe/protocol"
)

// UIBroker pairs dialogs with their answers. The first valid answer to a dialog
// counts; later ones, and answers to dialogs nobody opened, are ignored. A
// dialog that is not answered in time, or whose asker no longer wants it, ends
// as cancelled: silence never means yes.
type UIBroker struct {
	open map[string]*dialog
}

type dialog struct {
	request protocol.ExtensionUIRequest
	timer   *time.Timer // nil without a timeout
}

// Messages of the broker.
type (
	AskUI     struct{ Request protocol.ExtensionUIRequest }
	CancelUI  struct{ ID string }
	AnswerUI  struct{ Answer protocol.ExtensionUIResponse }
	uiTimeout struct{ id string }
)

func (u *UIBroker) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		u.open = map[string]*dialog{}
	case *actor.Stopping:
		for id := range u.open {
			u.take(id)
		}
	case AskUI:
		u.ask(c, m.Request)
	case CancelUI:
		u.take(m.ID)
	case uiTimeout:
		if u.take(m.id) != nil {
			c.Send(c.Parent(), core.UIAnswered{ID: m.id, Cancelled: true, Late: true})
		}
	case AnswerUI:
		u.answer(c, m.Answer)
	}
}

func (u *UIBroker) ask(c actor.Context, req protocol.ExtensionUIRequest) {
	d := &dialog{request: req}
	if req.Timeout > 0 {
		d.timer = kernel.After(c, time.Duration(req.Timeout)*time.Millisecond, c.Self(), uiTimeout{req.ID})
	}
	u.open[req.ID] = d
}

// take removes a dialog; nil if it is not open.
func (u *UIBroker) take(id string) *dialog {
	d := u.open[id]
	delete(u.open, id)
	if d != nil && d.timer != nil {
		d.timer.Stop()
	}
	return d
}

func (u *UIBroker) answer(c actor.Context, a protocol.ExtensionUIResponse) {
	d := u.open[a.ID]
	if d == nil {
		return
	}
	if end, ok := ReadAnswer(d.request, a); ok { // otherwise a better answer may come
		u.take(a.ID)
		c.Send(c.Parent(), end)
	}
}

// ReadAnswer is what an answer means for a dialog; false for an answer to another kind.
func ReadAnswer(to protocol.ExtensionUIRequest, a protocol.ExtensionUIResponse) (core.UIAnswered, bool) {
	end := core.UIAnswered{ID: a.ID, Value: a.Value, Cancelled: a.Cancelled}
	if a.Cancelled {
		return end, true
	}
	switch to.Method {
	case "confirm":
		end.Confirmed = a.Confirmed != nil && *a.Confirmed
		return end, a.Confirmed != nil
	case "select":
		return end, a.Value != nil && slices.Contains(to.Options, *a.Value)
	}
	return end, a.Value != nil
}
