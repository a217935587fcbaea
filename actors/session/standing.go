package session

import (
	"slices"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/link"
	"troupe/actors/worker"
	"troupe/protocol"
)

// standing is what is on show: dialogs and approvals that are open, and of extensions the
// last status and widget of each key, and the title. A client that attaches later is
// shown it, too.
type standing struct {
	list []shown // oldest first
	over []ended // dialogs and approvals that are over, oldest first

	waits []unshown // dialogs for their turn, oldest first, where one at a time is shown
}

// unshown is a dialog that is not shown yet.
type unshown struct {
	id   string
	show func(actor.Context)
}

// keptEnds is how many dialogs are remembered that are over: who answers one of them is
// told how it ended.
const keptEnds = 64

type shown struct {
	key    string
	record protocol.Event // an ExtensionUIRequest or an ApprovalRequest
	told   bool           // those who have attached by now know it

	answer *protocol.DialogOver // what a client has said, which is on its way; nil for nothing
}

// ended is a dialog that is over.
type ended struct {
	id  string
	how protocol.DialogOver
}

// dialogKey is the key of what waits for an answer.
func dialogKey(id string) string { return "dialog " + id }

// note keeps a record that stands until another of its key, or until it is taken back.
// A notice does not stand.
func (s *standing) note(r protocol.ExtensionUIRequest, dialog bool) {
	key, over := "", false
	switch r.Method {
	case "setStatus":
		key, over = "status "+r.StatusKey, r.StatusText == nil
	case "setWidget":
		key, over = "widget "+r.WidgetKey, r.WidgetLines == nil
	case "setTitle":
		key = "title"
	default:
		if !dialog {
			return
		}
		key = dialogKey(r.ID)
	}
	s.drop(key)
	if !over {
		s.list = append(s.list, shown{key: key, record: r})
	}
}

// ask keeps an approval until it is resolved.
func (s *standing) ask(r protocol.ApprovalRequest) {
	s.list = append(s.list, shown{key: dialogKey(r.ID), record: r})
}

func (s *standing) drop(key string) {
	s.list = slices.DeleteFunc(s.list, func(x shown) bool { return x.key == key })
}

// dialog is one that is open; nil if it is not there. It is valid until another change.
func (s *standing) dialog(id string) *shown {
	key := dialogKey(id)
	i := slices.IndexFunc(s.list, func(x shown) bool { return x.key == key })
	if i < 0 {
		return nil
	}
	return &s.list[i]
}

// closed takes back a dialog, and returns it; nil if it is not there, or not shown yet.
func (s *standing) closed(id string) *shown {
	s.waits = slices.DeleteFunc(s.waits, func(w unshown) bool { return w.id == id })
	x := s.dialog(id)
	if x == nil {
		return nil
	}
	was := *x
	s.drop(was.key)
	return &was
}

// remember keeps how a dialog has ended.
func (s *standing) remember(id string, how protocol.DialogOver) {
	if s.over = append(s.over, ended{id, how}); len(s.over) > keptEnds {
		s.over = slices.Delete(s.over, 0, len(s.over)-keptEnds)
	}
}

// past is how a dialog has ended, or is about to; nil if it waits for an answer, or
// nobody knows of it.
func (s *standing) past(id string) *protocol.DialogOver {
	if x := s.dialog(id); x != nil {
		return x.answer
	}
	for i := len(s.over) - 1; i >= 0; i-- {
		if s.over[i].id == id {
			return &s.over[i].how
		}
	}
	return nil
}

// answered notes an answer to a dialog, if it is one: the first one counts.
func (s *standing) answered(a protocol.ExtensionUIResponse, by *protocol.ClientRef) {
	x := s.dialog(a.ID)
	if x == nil || x.answer != nil {
		return
	}
	asked, is := x.record.(protocol.ExtensionUIRequest)
	if r, approval := x.record.(protocol.ApprovalRequest); approval {
		asked, is = r.Select(), true
	}
	if _, fits := worker.ReadAnswer(asked, a); is && fits {
		how := protocol.DialogAnswered
		if a.Cancelled {
			how = protocol.DialogCancelled
		}
		x.answer = &protocol.DialogOver{Outcome: string(how), By: by}
	}
}

// asks says whether something waits for an answer.
func (s *standing) asks() bool {
	return slices.ContainsFunc(s.list, func(x shown) bool { return strings.HasPrefix(x.key, dialogKey("")) })
}

// dialogID is the id of a dialog or an approval, "" of what wants no answer.
func (x *shown) dialogID() string {
	id, is := strings.CutPrefix(x.key, dialogKey(""))
	if !is {
		return ""
	}
	return id
}

// open are the dialogs and approvals that wait for an answer and that a client can show;
// approvals as dialogs for one that does not know them.
func (s *standing) open(to *protocol.Wire) protocol.OpenDialogs {
	open := protocol.OpenDialogs{Dialogs: []protocol.ExtensionUIRequest{}, Approvals: []protocol.ApprovalRequest{}}
	for _, x := range s.list {
		if !to.ShowsRecord(x.record) {
			continue
		}
		switch r := x.record.(type) {
		case protocol.ApprovalRequest:
			if to.Has(protocol.FeatureApprovals) {
				open.Approvals = append(open.Approvals, r)
			} else {
				open.Dialogs = append(open.Dialogs, r.Select())
			}
		case protocol.ExtensionUIRequest:
			if x.key == dialogKey(r.ID) {
				open.Dialogs = append(open.Dialogs, r)
			}
		}
	}
	return open
}

// known notes that everybody who is there has been told.
func (s *standing) known() {
	for i := range s.list {
		s.list[i].told = true
	}
}

// items are what somebody who comes now has not been told. listed says that the answer to
// the attach has the dialogs, or that it is not asked.
func (s *standing) items(sizes *link.Sizer, listed bool) (items []link.Item) {
	for _, x := range s.list {
		if !x.told {
			continue
		}
		if r, is := x.record.(protocol.ExtensionUIRequest); listed && (!is || x.key == dialogKey(r.ID)) {
			continue
		}
		it := link.Item{Event: x.record}
		sizes.Size(&it)
		items = append(items, it)
	}
	return items
}
