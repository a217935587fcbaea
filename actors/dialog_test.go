package actors

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors/actortest"
)

// TestConsent: a tool that needs consent runs after a yes and not otherwise.
func TestConsent(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		runs         bool
	}{
		{"yes", `"confirmed":true`, true},
		{"no", `"confirmed":false`, false},
		{"cancelled", `"cancelled":true`, false},
		{"cancelled beats yes", `"confirmed":true,"cancelled":true`, false},
		{"not an answer to this", `"value":"x"`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := start(t, confirm)
				s := b.open()
				b.Say(s, "prompt", "~a~ rounds=1 tool=danger")
				b.pass(time.Minute)
				assert.Equal(t, "dialog", b.Call(t, `{"type":"get_state"`+at(s)+`}`).Get("data.phase").Str)
				for range 3 { // the first answer counts; more of them change nothing
					b.Line(`{"type":"extension_ui_response","id":"confirm_1",` + c.answer + at(s) + `}`)
				}
				b.Line(`{"type":"extension_ui_response","id":"confirm_99","confirmed":true` + at(s) + `}`)
				actortest.Settle()
				if c.name == "not an answer to this" {
					require.Empty(t, b.Events(s, "agent_settled"), "a better answer may come")
					b.Send(`{"type":"abort"` + at(s) + `}`)
					actortest.Settle()
				}
				ends := b.Events(s, "tool_execution_end")
				require.Len(t, ends, 1)
				assert.Equal(t, !c.runs, ends[0].Get("isError").Bool())
				require.Len(t, b.Events(s, "agent_settled"), 1)
				b.check()
			})
		})
	}
}

// TestAbortClosesTheDialog: a yes that comes after the abort runs nothing.
func TestAbortClosesTheDialog(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := start(t, confirm)
		s := b.open()
		b.Say(s, "prompt", "~a~ rounds=1 tool=danger")
		actortest.Settle()
		b.Send(`{"type":"abort"` + at(s) + `}`)
		b.Line(`{"type":"extension_ui_response","id":"confirm_1","confirmed":true` + at(s) + `}`)
		b.pass(time.Minute)
		assert.True(t, b.Events(s, "tool_execution_end")[0].Get("isError").Bool())
		b.check()
	})
}

// TestOpenDialogIsShownToWhoComesLater: a client that attaches while a dialog is open is
// shown it behind the answer, and may answer it; one that is closed is not shown.
func TestOpenDialogIsShownToWhoComesLater(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := start(t, confirm)
		s := a.open()
		a.Say(s, "prompt", "~a~ rounds=1 tool=danger")
		actortest.Settle()
		b := a.connect()
		b.attach(s)
		dialogs := b.Events(s, "extension_ui_request")
		require.Len(t, dialogs, 1)
		assert.Equal(t, "confirm_1", dialogs[0].Get("id").Str)
		assert.Len(t, a.Events(s, "extension_ui_request"), 1, "who has seen it is not shown it again")
		b.Line(`{"type":"extension_ui_response","id":"confirm_1","confirmed":true` + at(s) + `}`)
		actortest.Settle()
		require.Len(t, a.Events(s, "agent_settled"), 1)
		c := a.connect()
		c.attach(s)
		assert.Empty(t, c.Events(s, "extension_ui_request"))
		require.NoError(t, c.leave())
		require.NoError(t, b.leave())
		a.checkAll()
	})
}
