package actors

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors/actortest"
	"troupe/actors/conn"
)

// knowing is a client with features.
func knowing(features ...string) func(*conn.Config) {
	return func(of *conn.Config) { of.Features = features }
}

// named tells the daemon who a client is.
func (b *bench) named(id, name string, features ...string) {
	list := ""
	for i, f := range features {
		if i > 0 {
			list += ","
		}
		list += fmt.Sprintf("%q", f)
	}
	v := b.Call(b.t, fmt.Sprintf(`{"type":"hello","clientId":%q,"client":{"name":%q},"features":[%s]}`, id, name, list))
	require.True(b.t, v.Get("success").Bool(), v.Raw)
}

func asking(c *Config) { c.Sessions.PermissionMode = "ask" }

// TestDialogIsTakenAwayEverywhere: who attaches is told what is open, who else has
// answered is told to all, and a second answer is refused.
func TestDialogIsTakenAwayEverywhere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := start(t, confirm)
		s := a.open()
		a.Say(s, "prompt", "~a~ rounds=1 tool=danger")
		actortest.Settle()
		b, c := a.connect(), a.connect()
		b.named("first-of-two", "Ann", "seq", "dialogEvents", "uiAck")
		c.named("second-of-two", "Bob", "dialogEvents", "uiAck")
		v := b.Call(t, `{"type":"attach"`+at(s)+`,"snapshot":{}}`)
		assert.Equal(t, "confirm_1", v.Get("data.dialogs.0.id").Str, v.Raw)
		assert.Equal(t, "confirm_1", v.Get("data.snapshot.dialogs.0.id").Str)
		assert.Empty(t, b.Events(s, "extension_ui_request"), "it is in the answer")
		v = c.Call(t, `{"type":"attach"`+at(s)+`}`)
		assert.Equal(t, "confirm_1", v.Get("data.dialogs.0.id").Str)
		assert.Equal(t, "confirm_1", c.Call(t, `{"type":"get_dialogs"`+at(s)+`}`).Get("data.dialogs.0.id").Str)
		answer := func(who *bench) gjson.Result {
			who.Line(`{"type":"extension_ui_response","id":"confirm_1","confirmed":true` + at(s) + `}`)
			actortest.Settle()
			return who.Last("extension_ui_response")
		}
		require.True(t, answer(b).Get("success").Bool())
		v = answer(c)
		assert.Equal(t, "dialog_over answered Ann", v.Get("code").Str+" "+v.Get("data.outcome").Str+" "+v.Get("data.by.name").Str, v.Raw)
		a.pass(time.Minute)
		require.Len(t, a.Events(s, "agent_settled"), 1)
		for _, who := range []*bench{b, c} {
			over := who.Events(s, "dialog_resolved")
			require.Len(t, over, 1)
			assert.Equal(t, "confirm_1 answered first-of-two Ann", fmt.Sprint(over[0].Get("id"), " ", over[0].Get("outcome"), " ", over[0].Get("by.clientId"), " ", over[0].Get("by.name")))
		}
		assert.Empty(t, a.Events(s, "dialog_resolved"), "it has not asked for it")
		assert.Equal(t, "[]", c.Call(t, `{"type":"get_dialogs"`+at(s)+`}`).Get("data.dialogs").Raw)
		require.NoError(t, b.leave())
		require.NoError(t, c.leave())
		a.checkAll()
	})
}

// TestDialogEndsWithTheRun: an abort takes the dialog away from those who did not ask for it.
func TestDialogEndsWithTheRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := start(t, confirm)
		s := a.open()
		b := a.connect(knowing("dialogEvents"))
		b.attach(s)
		a.Say(s, "prompt", "~a~ rounds=1 tool=danger")
		actortest.Settle()
		a.Call(t, `{"type":"abort"`+at(s)+`}`)
		over := b.Events(s, "dialog_resolved")
		require.Len(t, over, 1)
		assert.Equal(t, "aborted", over[0].Get("outcome").Str)
		require.NoError(t, b.leave())
		a.checkAll()
	})
}

// TestApprovalsOfSeveralClients: an approval that is open is shown to who comes later, each
// in its way; the first answer counts and everybody is told of it.
func TestApprovalsOfSeveralClients(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := start(t, asking)
		s := a.open()
		assert.Equal(t, "ask", a.Call(t, `{"type":"get_state"`+at(s)+`}`).Get("data.permissionMode").Str)
		a.Say(s, "prompt", "~a~ rounds=1")
		actortest.Settle()
		id := a.Events(s, "extension_ui_request")[0].Get("id").Str
		b, c, d := a.connect(), a.connect(knowing("dialogEvents")), a.connect()
		b.named("knows-approvals", "Ann", "approvals", "dialogEvents")
		v := b.Call(t, `{"type":"attach"`+at(s)+`}`)
		assert.Equal(t, id, v.Get("data.approvals.0.id").Str, v.Raw)
		assert.Empty(t, v.Get("data.dialogs").Array())
		v = c.Call(t, `{"type":"attach"`+at(s)+`}`)
		assert.Equal(t, id, v.Get("data.dialogs.0.id").Str, v.Raw)
		d.attach(s)
		require.Len(t, d.Events(s, "extension_ui_request"), 1, "behind the answer")
		v = b.Call(t, `{"type":"approval_response","approvalId":"`+id+`","optionId":"once"`+at(s)+`}`)
		require.True(t, v.Get("success").Bool(), v.Raw)
		v = b.Call(t, `{"type":"approval_response","approvalId":"`+id+`","optionId":"no"`+at(s)+`}`)
		assert.Equal(t, "dialog_over allowed Ann", v.Get("code").Str+" "+v.Get("data.outcome").Str+" "+v.Get("data.by.name").Str, v.Raw)
		v = b.Call(t, `{"type":"approval_response","approvalId":"approval_99","optionId":"no"`+at(s)+`}`)
		assert.Equal(t, "not_found", v.Get("code").Str)
		a.pass(time.Minute)
		require.Len(t, a.Events(s, "agent_settled"), 1)
		over := b.Events(s, "approval_resolved")
		require.Len(t, over, 1)
		assert.Equal(t, "allowed Ann", over[0].Get("outcome").Str+" "+over[0].Get("by.name").Str)
		over = c.Events(s, "dialog_resolved")
		require.Len(t, over, 1)
		assert.Equal(t, "answered Ann", over[0].Get("outcome").Str+" "+over[0].Get("by.name").Str)
		for _, who := range []*bench{b, c, d} {
			require.NoError(t, who.leave())
		}
		a.checkAll()
	})
}

// TestLag: a session does not wait for a client whose events may be dropped. It is told
// where they are missing, hears nothing of the session until it attaches again, and is
// then told the rest.
func TestLag(t *testing.T) {
	for _, deltas := range []bool{true, false} {
		t.Run(fmt.Sprint(deltas), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				a := start(t)
				s := a.open()
				features := []string{"seq"}
				if deltas {
					features = append(features, "deltaUpdates")
				}
				b := a.connect(func(of *conn.Config) { of.Features, of.Lag = features, 16<<10 })
				r := &reader{last: b.Call(t, `{"type":"attach"`+at(s)+`}`).Get("data.seq").Int()}
				b.Stop()
				a.Say(s, "prompt", "~"+s+"~ rounds=20 parts=40")
				a.pass(time.Minute)
				require.Len(t, a.Events(s, "agent_settled"), 1, "it has not waited")
				_, out := b.window.Balance()
				assert.Less(t, out, 100<<10)
				b.Send(`{"type":"get_state"` + at(s) + `}`)
				b.Go()
				a.pass(time.Second)
				read := b.Events(s)
				last := read[len(read)-1]
				require.Equal(t, "resync lagged", last.Get("type").Str+" "+last.Get("reason").Str)
				r.take(t, read[:len(read)-1], deltas)
				assert.Equal(t, r.last, last.Get("seq").Int())
				assert.False(t, b.Last("get_state").Get("at").Exists(), "it has not read up to there")
				a.run(s, "~"+s+"~ more")
				assert.Len(t, b.Events(s), len(read), "it hears nothing more")
				v := b.Call(t, fmt.Sprintf(`{"type":"attach"%s,"since":{"epoch":"e","seq":%d}}`, at(s), r.last))
				if v.Get("data.replay").Str == "snapshot" {
					r.last, r.text = v.Get("data.seq").Int(), ""
				}
				a.run(s, "~"+s+"~ and more")
				r.take(t, b.Events(s)[len(read):], deltas)
				assert.Equal(t, "agent_settled", r.lines[len(r.lines)-1].Get("type").Str)
				require.NoError(t, b.leave())
				a.checkAll()
			})
		})
	}
}
