package clients

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors/conn"
	"troupe/actors/scenario/harness"
)

func onlyLooks(of *conn.Config) { of.ViewOnly = true }

// TestHelloOfWhoOnlyLooks checks that hello of a view-only client changes how that client is
// written to, but no rule of a session, even if no other client is attached to it.
func TestHelloOfWhoOnlyLooks(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t)
		b := a.Connect()
		v := b.Call(t, `{"type":"open_session","retain":true}`)
		s := v.Get("data.sessionId").Str
		require.NotEmpty(t, s, v.Raw)
		view := a.Connect(onlyLooks)
		view.Attach(s)
		require.NoError(t, b.Leave())
		v = view.Call(t, `{"type":"hello","dialect":"s4"}`) // one bash command at a time
		require.Equal(t, "s4 view", v.Get("data.dialect").Str+" "+v.Get("data.scope").Str)
		require.Contains(t, v.Get("data.commands").Raw, `"get_state"`)
		require.NotContains(t, v.Get("data.commands").Raw, `"prompt"`, "it is told of what it may do")
		a.Attach(s)
		first := a.Send(`{"type":"bash","command":"~` + s + `~b sleep=5000"` + harness.At(s) + `}`)
		a.Settle()
		second := a.Send(`{"type":"bash","command":"~` + s + `~c"` + harness.At(s) + `}`)
		a.Advance(time.Minute)
		assert.True(t, a.Answer(t, first).Get("success").Bool())
		assert.True(t, a.Answer(t, second).Get("success").Bool(), "the session has the rules of who opened it")
		require.NoError(t, view.Leave())
		a.End()
	})
}

// TestWhoOnlyLooksOpensNothing checks that no session is opened for a view-only client, and that
// its errors do not reveal whether a session file exists.
func TestWhoOnlyLooksOpensNothing(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t)
		s := a.Open()
		a.Run(s, "~"+s+"~ one")
		file := a.Call(t, `{"type":"get_state"`+harness.At(s)+`}`).Get("data.sessionFile").Str
		require.NotEmpty(t, file)
		view := a.Connect(onlyLooks)
		open := view.Call(t, `{"type":"attach","sessionPath":"`+file+`"}`)
		assert.Equal(t, s, open.Get("data.sessionId").Str, "it is open: %s", open.Raw)
		require.True(t, a.Call(t, `{"type":"close_session"`+harness.At(s)+`}`).Get("success").Bool())
		closed := view.Call(t, `{"type":"attach","sessionPath":"`+file+`"}`)
		missing := view.Call(t, `{"type":"attach","sessionPath":"`+file+`x"}`)
		assert.Equal(t, "unknown_session", harness.Code(closed), closed.Raw)
		assert.Equal(t, "unknown_session", harness.Code(missing), missing.Raw)
		assert.Equal(t, strings.ReplaceAll(closed.Get("error").Str, file, "F"), strings.ReplaceAll(missing.Get("error").Str, file+"x", "F"))
		assert.Equal(t, "missing_session_id", harness.Code(view.Call(t, `{"type":"get_state"}`)), "it has no default session")
		assert.Equal(t, "forbidden", harness.Code(view.Call(t, `{"type":"list_sessions","sessionDir":"/"}`)))
		assert.Empty(t, a.OpenSessions())
		require.NoError(t, view.Leave())
		a.End()
	})
}

// TestWhoOnlyLooksIsNobodyElse checks that a view-only client that uses the id of another client
// does not receive the answers of that client.
func TestWhoOnlyLooksIsNobodyElse(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t)
		s := a.Open()
		b := a.Connect()
		b.Hello("the-full-client", "Ann")
		b.Attach(s)
		line := `{"id":"again","type":"bash","command":"~` + s + `~b sleep=5000"` + harness.At(s) + `}`
		b.Line(line)
		b.Settle()
		view := a.Connect(onlyLooks)
		view.Hello("the-full-client", "Eve")
		b.Line(line)
		a.Advance(time.Minute)
		heard := func(who *harness.Client) (n int) {
			for _, l := range who.Lines() {
				n += strings.Count(l, `"again"`)
			}
			return n
		}
		assert.Equal(t, 1, heard(b), "the answer is its own")
		assert.Zero(t, heard(view))
		a.End()
	})
}

// TestListSaysWhatASessionIsAbout checks the title and last text in list_open_sessions: the first
// message or the name, and the last answer. A session that was opened from a file has them too, and
// a session that replaced another one has its own.
func TestListSaysWhatASessionIsAbout(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t)
		s := a.Open()
		about := func(session string) string {
			for _, row := range a.Call(t, `{"type":"list_open_sessions"}`).Get("data.sessions").Array() {
				if row.Get("sessionId").Str == session {
					return row.Get("title").Str + " / " + row.Get("lastText").Str
				}
			}
			return "none"
		}
		assert.Equal(t, " / ", about(s))
		a.Run(s, "\n~"+s+"~ first rounds=0\nand more")
		assert.Contains(t, about(s), "~"+s+"~ first rounds=0 / part 0 for")
		assert.NotContains(t, about(s), "and more")
		a.Run(s, "~"+s+"~ second rounds=0 "+strings.Repeat("long ", 100))
		assert.True(t, strings.HasPrefix(about(s), "~"+s+"~ first rounds=0 / part 0 for ~"+s+"~ second"), about(s))
		assert.Less(t, len(about(s)), 300)
		file := a.Call(t, `{"type":"get_state"`+harness.At(s)+`}`).Get("data.sessionFile").Str
		was := about(s)
		a.Call(t, `{"type":"close_session"`+harness.At(s)+`}`)
		again := a.Call(t, `{"type":"open_session","sessionPath":"`+file+`"}`).Get("data.sessionId").Str
		assert.Equal(t, was, about(again))
		a.Call(t, `{"type":"set_session_name","name":"named"`+harness.At(again)+`}`)
		assert.True(t, strings.HasPrefix(about(again), "named / part"), about(again))
		a.Call(t, `{"type":"new_session"`+harness.At(again)+`}`)
		assert.Equal(t, " / ", about(again))
		a.End()
	})
}
