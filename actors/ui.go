package actors

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/session"
	"troupe/protocol"
)

// uiBroker pairs dialogs with their answers. The first valid answer to a dialog
// counts; later ones, and answers to dialogs nobody opened, are ignored. A
// dialog that is not answered in time, or whose asker no longer wants it, ends
// as cancelled: silence never means yes.
type uiBroker struct {
	open map[string]*dialog
}

type dialog struct {
	request protocol.ExtensionUIRequest
	timer   *time.Timer // nil without a timeout
}

// Messages of the broker.
type (
	askUI     struct{ request protocol.ExtensionUIRequest }
	cancelUI  struct{ id string }
	answerUI  struct{ answer protocol.ExtensionUIResponse }
	uiTimeout struct{ id string }
)

func (u *uiBroker) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		u.open = map[string]*dialog{}
	case *actor.Stopping:
		for id := range u.open {
			u.take(id)
		}
	case askUI:
		u.ask(c, m.request)
	case cancelUI:
		u.take(m.id)
	case uiTimeout:
		if u.take(m.id) != nil {
			c.Send(c.Parent(), session.UIAnswered{ID: m.id, Cancelled: true})
		}
	case answerUI:
		u.answer(c, m.answer)
	}
}

func (u *uiBroker) ask(c actor.Context, req protocol.ExtensionUIRequest) {
	d := &dialog{request: req}
	if req.Timeout > 0 {
		root, self := c.ActorSystem().Root, c.Self()
		d.timer = time.AfterFunc(time.Duration(req.Timeout)*time.Millisecond, func() { root.Send(self, uiTimeout{req.ID}) })
	}
	u.open[req.ID] = d
}

// take removes a dialog; nil if it is not open.
func (u *uiBroker) take(id string) *dialog {
	d := u.open[id]
	delete(u.open, id)
	if d != nil && d.timer != nil {
		d.timer.Stop()
	}
	return d
}

func (u *uiBroker) answer(c actor.Context, a protocol.ExtensionUIResponse) {
	d := u.open[a.ID]
	if d == nil {
		return
	}
	end, ok := d.read(a)
	if !ok {
		return // not an answer to this kind of dialog; a better one may come
	}
	u.take(a.ID)
	c.Send(c.Parent(), end)
}

// read is what an answer means for this dialog.
func (d *dialog) read(a protocol.ExtensionUIResponse) (session.UIAnswered, bool) {
	end := session.UIAnswered{ID: a.ID, Value: a.Value, Cancelled: a.Cancelled}
	if a.Cancelled {
		return end, true
	}
	switch d.request.Method {
	case "confirm":
		if a.Confirmed == nil {
			return end, false
		}
		end.Confirmed = *a.Confirmed
		return end, true
	case "select":
		return end, a.Value != nil && slices.Contains(d.request.Options, *a.Value)
	}
	return end, a.Value != nil
}
