package actors

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors/conn"
)

func onlyLooks(of *conn.Config) { of.ViewOnly = true }

// TestHelloOfWhoOnlyLooks: it changes how that client is written to, and no rule of a
// session, also of one that nobody else hears.
func TestHelloOfWhoOnlyLooks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := start(t)
		b := a.connect()
		v := b.Call(t, `{"type":"open_session","retain":true}`)
		s := v.Get("data.sessionId").Str
		require.NotEmpty(t, s, v.Raw)
		view := a.connect(onlyLooks)
		view.attach(s)
		require.NoError(t, b.leave())
		v = view.Call(t, `{"type":"hello","dialect":"s4"}`) // one bash command at a time
		require.Equal(t, "s4 view", v.Get("data.dialect").Str+" "+v.Get("data.scope").Str)
		require.Contains(t, v.Get("data.commands").Raw, `"get_state"`)
		require.NotContains(t, v.Get("data.commands").Raw, `"prompt"`, "it is told of what it may do")
		a.attach(s)
		first := a.Send(`{"type":"bash","command":"~` + s + `~b sleep=5000"` + at(s) + `}`)
		a.Settle()
		second := a.Send(`{"type":"bash","command":"~` + s + `~c"` + at(s) + `}`)
		a.pass(time.Minute)
		assert.True(t, a.Answer(t, first).Get("success").Bool())
		assert.True(t, a.Answer(t, second).Get("success").Bool(), "the session has the rules of who opened it")
		require.NoError(t, view.leave())
		a.end()
	})
}

// TestWhoOnlyLooksOpensNothing: no session begins for it, and what is no open session is
// the same to it whether there is a file or not.
func TestWhoOnlyLooksOpensNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := start(t)
		s := a.open()
		a.run(s, "~"+s+"~ one")
		file := a.Call(t, `{"type":"get_state"`+at(s)+`}`).Get("data.sessionFile").Str
		require.NotEmpty(t, file)
		view := a.connect(onlyLooks)
		open := view.Call(t, `{"type":"attach","sessionPath":"`+file+`"}`)
		assert.Equal(t, s, open.Get("data.sessionId").Str, "it is open: %s", open.Raw)
		require.True(t, a.Call(t, `{"type":"close_session"`+at(s)+`}`).Get("success").Bool())
		closed := view.Call(t, `{"type":"attach","sessionPath":"`+file+`"}`)
		missing := view.Call(t, `{"type":"attach","sessionPath":"`+file+`x"}`)
		assert.Equal(t, "unknown_session", code(closed), closed.Raw)
		assert.Equal(t, "unknown_session", code(missing), missing.Raw)
		assert.Equal(t, strings.ReplaceAll(closed.Get("error").Str, file, "F"), strings.ReplaceAll(missing.Get("error").Str, file+"x", "F"))
		assert.Equal(t, "missing_session_id", code(view.Call(t, `{"type":"get_state"}`)), "it has no default session")
		assert.Equal(t, "forbidden", code(view.Call(t, `{"type":"list_sessions","sessionDir":"/"}`)))
		assert.Empty(t, a.openSessions())
		require.NoError(t, view.leave())
		a.end()
	})
}

// TestWhoOnlyLooksIsNobodyElse: by the name of another client it is not sent what that
// one is answered.
func TestWhoOnlyLooksIsNobodyElse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := start(t)
		s := a.open()
		b := a.connect()
		b.named("the-full-client", "Ann")
		b.attach(s)
		line := `{"id":"again","type":"bash","command":"~` + s + `~b sleep=5000"` + at(s) + `}`
		b.Line(line)
		b.Settle()
		view := a.connect(onlyLooks)
		view.named("the-full-client", "Eve")
		b.Line(line)
		a.pass(time.Minute)
		heard := func(who *bench) (n int) {
			for _, l := range who.Lines() {
				n += strings.Count(l, `"again"`)
			}
			return n
		}
		assert.Equal(t, 1, heard(b), "the answer is its own")
		assert.Zero(t, heard(view))
		a.end()
	})
}

// TestListSaysWhatASessionIsAbout: by its first message, or its name, and its last answer,
// also of one that was opened from its file, and of another that has taken its place.
func TestListSaysWhatASessionIsAbout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := start(t)
		s := a.open()
		about := func(session string) string {
			for _, row := range a.Call(t, `{"type":"list_open_sessions"}`).Get("data.sessions").Array() {
				if row.Get("sessionId").Str == session {
					return row.Get("title").Str + " / " + row.Get("lastText").Str
				}
			}
			return "none"
		}
		assert.Equal(t, " / ", about(s))
		a.run(s, "\n~"+s+"~ first rounds=0\nand more")
		assert.Contains(t, about(s), "~"+s+"~ first rounds=0 / part 0 for")
		assert.NotContains(t, about(s), "and more")
		a.run(s, "~"+s+"~ second rounds=0 "+strings.Repeat("long ", 100))
		assert.True(t, strings.HasPrefix(about(s), "~"+s+"~ first rounds=0 / part 0 for ~"+s+"~ second"), about(s))
		assert.Less(t, len(about(s)), 300)
		file := a.Call(t, `{"type":"get_state"`+at(s)+`}`).Get("data.sessionFile").Str
		was := about(s)
		a.Call(t, `{"type":"close_session"`+at(s)+`}`)
		again := a.Call(t, `{"type":"open_session","sessionPath":"`+file+`"}`).Get("data.sessionId").Str
		assert.Equal(t, was, about(again))
		a.Call(t, `{"type":"set_session_name","name":"named"`+at(again)+`}`)
		assert.True(t, strings.HasPrefix(about(again), "named / part"), about(again))
		a.Call(t, `{"type":"new_session"`+at(again)+`}`)
		assert.Equal(t, " / ", about(again))
		a.end()
	})
}
