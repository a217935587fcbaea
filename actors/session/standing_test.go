package session

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"troupe/actors/link"
	"troupe/protocol"
)

// TestStanding: the last of each key stands until it is taken back; a notice does not,
// and what nobody has been told yet is not told twice.
func TestStanding(t *testing.T) {
	text := "x"
	var s standing
	ids := func() (list []string) {
		for _, it := range s.items(new(link.Sizer), false) {
			list = append(list, it.Event.(protocol.ExtensionUIRequest).ID)
		}
		return list
	}
	status := func(id, key string, text *string) protocol.ExtensionUIRequest {
		return protocol.ExtensionUIRequest{ID: id, Method: "setStatus", StatusKey: key, StatusText: text}
	}
	s.note(status("1", "a", &text), false)
	assert.Empty(t, ids(), "it is on its way to all")
	s.known()
	s.note(status("2", "b", &text), false)
	s.note(protocol.ExtensionUIRequest{ID: "3", Method: "notify"}, false)
	s.note(protocol.ExtensionUIRequest{ID: "4", Method: "confirm"}, true)
	s.note(protocol.ExtensionUIRequest{ID: "5", Method: "setWidget", WidgetKey: "a", WidgetLines: []string{}}, false)
	s.note(protocol.ExtensionUIRequest{ID: "6", Method: "setTitle"}, false)
	s.known()
	assert.Equal(t, []string{"1", "2", "4", "5", "6"}, ids())
	s.note(status("7", "a", nil), false)
	s.note(protocol.ExtensionUIRequest{ID: "8", Method: "setTitle"}, false)
	assert.Equal(t, "4", s.closed("4").record.(protocol.ExtensionUIRequest).ID)
	assert.Nil(t, s.closed("4"))
	s.known()
	assert.Equal(t, []string{"2", "5", "8"}, ids())
}
