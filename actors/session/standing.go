package session

import (
	"slices"

	"troupe/actors/link"
	"troupe/protocol"
)

// standing is what extensions have on show: dialogs that are open, the last status and
// widget of each key, the title. A client that attaches later is shown it, too.
type standing struct {
	list []shown // oldest first
}

type shown struct {
	key    string
	record protocol.ExtensionUIRequest
	told   bool // those who have attached by now know it
}

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
		key = "dialog " + r.ID
	}
	s.drop(key)
	if !over {
		s.list = append(s.list, shown{key: key, record: r})
	}
}

func (s *standing) drop(key string) {
	s.list = slices.DeleteFunc(s.list, func(x shown) bool { return x.key == key })
}

// closed takes back a dialog, and returns it; nil if it is not there.
func (s *standing) closed(id string) *protocol.ExtensionUIRequest {
	key := "dialog " + id
	i := slices.IndexFunc(s.list, func(x shown) bool { return x.key == key })
	if i < 0 {
		return nil
	}
	r := s.list[i].record
	s.drop(key)
	return &r
}

// known notes that everybody who is there has been told.
func (s *standing) known() {
	for i := range s.list {
		s.list[i].told = true
	}
}

// items are what somebody who comes now has not been told.
func (s *standing) items(sizes *link.Sizer) (items []link.Item) {
	for _, x := range s.list {
		if x.told {
			it := link.Item{Event: x.record}
			sizes.Size(&it)
			items = append(items, it)
		}
	}
	return items
}
