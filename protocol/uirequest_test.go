package protocol

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestUIRequestPresence: to clear a status and to set an empty one are different
// records; what a method does not have is absent.
func TestUIRequestPresence(t *testing.T) {
	for want, ev := range map[string]ExtensionUIRequest{
		`{"id":"1","method":"setStatus","statusKey":"k"}`:                         {ID: "1", Method: "setStatus", StatusKey: "k"},
		`{"id":"1","method":"setStatus","statusKey":"k","statusText":""}`:         {ID: "1", Method: "setStatus", StatusKey: "k", StatusText: new("")},
		`{"id":"1","method":"setWidget","widgetKey":"k","widgetLines":[]}`:        {ID: "1", Method: "setWidget", WidgetKey: "k", WidgetLines: []string{}},
		`{"id":"1","method":"setWidget","widgetKey":"k"}`:                         {ID: "1", Method: "setWidget", WidgetKey: "k"},
		`{"id":"1","method":"select","title":"","options":[]}`:                    {ID: "1", Method: "select", Title: new(""), Options: []string{}},
		`{"id":"1","method":"set_editor_text","text":""}`:                         {ID: "1", Method: "set_editor_text", Text: new("")},
		`{"id":"1","method":"input","title":"<T>","placeholder":"","timeout":5}`:  {ID: "1", Method: "input", Title: new("<T>"), Placeholder: new(""), Timeout: 5},
		`{"id":"1","method":"confirm","title":"T","message":"","toolCallId":"c"}`: {ID: "1", Method: "confirm", Title: new("T"), Message: new(""), ToolCallID: "c"},
		`{"id":"1","method":"editor","title":"T","prefill":"a\nb"}`:               {ID: "1", Method: "editor", Title: new("T"), Prefill: new("a\nb")},
		`{"id":"1","method":"notify","message":"M","notifyType":"warning"}`:       {ID: "1", Method: "notify", Message: new("M"), NotifyType: "warning"},
	} {
		assert.Equal(t, want, string(AppendValue(nil, ev)))
		o := Object{}
		o.Members(ev, "")
		assert.Equal(t, want[1:len(want)-1], string(o.B[1:]), "as a record has them")
	}
}
