package consent

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors/actortest"
	"troupe/actors/scenario/harness"
)

// TestDialogIsTakenAwayEverywhere checks that attach returns the open dialogs, that all clients
// receive the outcome with the client that answered, and that a second answer is rejected with
// dialog_over.
func TestDialogIsTakenAwayEverywhere(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t, harness.ConfirmDanger)
		s := a.Open()
		a.Say(s, "prompt", "~a~ rounds=1 tool=danger")
		actortest.Settle()
		b, c := a.Connect(), a.Connect()
		b.Hello("first-of-two", "Ann", "seq", "dialogEvents", "uiAck")
		c.Hello("second-of-two", "Bob", "dialogEvents", "uiAck")
		v := b.Call(t, `{"type":"attach"`+harness.At(s)+`,"snapshot":{}}`)
		assert.Equal(t, "confirm_1", v.Get("data.dialogs.0.id").Str, v.Raw)
		assert.Equal(t, "confirm_1", v.Get("data.snapshot.dialogs.0.id").Str)
		assert.Empty(t, b.Events(s, "extension_ui_request"), "it is in the answer")
		v = c.Call(t, `{"type":"attach"`+harness.At(s)+`}`)
		assert.Equal(t, "confirm_1", v.Get("data.dialogs.0.id").Str)
		assert.Equal(t, "confirm_1", c.Call(t, `{"type":"get_dialogs"`+harness.At(s)+`}`).Get("data.dialogs.0.id").Str)
		answer := func(who *harness.Client) gjson.Result {
			who.Line(`{"type":"extension_ui_response","id":"confirm_1","confirmed":true` + harness.At(s) + `}`)
			actortest.Settle()
			return who.Last("extension_ui_response")
		}
		require.True(t, answer(b).Get("success").Bool())
		v = answer(c)
		assert.Equal(t, "dialog_over answered Ann", v.Get("code").Str+" "+v.Get("data.outcome").Str+" "+v.Get("data.by.name").Str, v.Raw)
		a.Advance(time.Minute)
		require.Len(t, a.Events(s, "agent_settled"), 1)
		for _, who := range []*harness.Client{b, c} {
			over := who.Events(s, "dialog_resolved")
			require.Len(t, over, 1)
			assert.Equal(t, "confirm_1 answered first-of-two Ann", fmt.Sprint(over[0].Get("id"), " ", over[0].Get("outcome"), " ", over[0].Get("by.clientId"), " ", over[0].Get("by.name")))
		}
		assert.Empty(t, a.Events(s, "dialog_resolved"), "it has not asked for it")
		assert.Equal(t, "[]", c.Call(t, `{"type":"get_dialogs"`+harness.At(s)+`}`).Get("data.dialogs").Raw)
		require.NoError(t, b.Leave())
		require.NoError(t, c.Leave())
		a.CheckAll()
	})
}

// TestDialogEndsWithTheRun checks that an abort closes the dialog for all clients.
func TestDialogEndsWithTheRun(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t, harness.ConfirmDanger)
		s := a.Open()
		b := a.Connect(harness.Features("dialogEvents"))
		b.Attach(s)
		a.Say(s, "prompt", "~a~ rounds=1 tool=danger")
		actortest.Settle()
		a.Call(t, `{"type":"abort"`+harness.At(s)+`}`)
		over := b.Events(s, "dialog_resolved")
		require.Len(t, over, 1)
		assert.Equal(t, "aborted", over[0].Get("outcome").Str)
		require.NoError(t, b.Leave())
		a.CheckAll()
	})
}

// TestApprovalsOfSeveralClients checks that each client that attaches receives an open approval in
// the form that it supports. The first answer counts, and all clients receive the outcome.
func TestApprovalsOfSeveralClients(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t, harness.AskMode)
		s := a.Open()
		assert.Equal(t, "ask", a.Call(t, `{"type":"get_state"`+harness.At(s)+`}`).Get("data.permissionMode").Str)
		a.Say(s, "prompt", "~a~ rounds=1")
		actortest.Settle()
		id := a.Events(s, "extension_ui_request")[0].Get("id").Str
		b, c, d := a.Connect(), a.Connect(harness.Features("dialogEvents")), a.Connect()
		b.Hello("knows-approvals", "Ann", "approvals", "dialogEvents")
		v := b.Call(t, `{"type":"attach"`+harness.At(s)+`}`)
		assert.Equal(t, id, v.Get("data.approvals.0.id").Str, v.Raw)
		assert.Empty(t, v.Get("data.dialogs").Array())
		v = c.Call(t, `{"type":"attach"`+harness.At(s)+`}`)
		assert.Equal(t, id, v.Get("data.dialogs.0.id").Str, v.Raw)
		d.Attach(s)
		require.Len(t, d.Events(s, "extension_ui_request"), 1, "behind the answer")
		v = b.Call(t, `{"type":"approval_response","approvalId":"`+id+`","optionId":"once"`+harness.At(s)+`}`)
		require.True(t, v.Get("success").Bool(), v.Raw)
		v = b.Call(t, `{"type":"approval_response","approvalId":"`+id+`","optionId":"no"`+harness.At(s)+`}`)
		assert.Equal(t, "dialog_over allowed Ann", v.Get("code").Str+" "+v.Get("data.outcome").Str+" "+v.Get("data.by.name").Str, v.Raw)
		v = b.Call(t, `{"type":"approval_response","approvalId":"approval_99","optionId":"no"`+harness.At(s)+`}`)
		assert.Equal(t, "not_found", v.Get("code").Str)
		a.Advance(time.Minute)
		require.Len(t, a.Events(s, "agent_settled"), 1)
		over := b.Events(s, "approval_resolved")
		require.Len(t, over, 1)
		assert.Equal(t, "allowed Ann", over[0].Get("outcome").Str+" "+over[0].Get("by.name").Str)
		over = c.Events(s, "dialog_resolved")
		require.Len(t, over, 1)
		assert.Equal(t, "answered Ann", over[0].Get("outcome").Str+" "+over[0].Get("by.name").Str)
		for _, who := range []*harness.Client{b, c, d} {
			require.NoError(t, who.Leave())
		}
		a.CheckAll()
	})
}
