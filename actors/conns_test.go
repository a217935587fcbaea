package actors

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors/actortest"
	"troupe/actors/conn"
)

// attach attaches a client to a session of the daemon.
func (b *bench) attach(session string) {
	b.t.Helper()
	v := b.Call(b.t, `{"type":"attach"`+at(session)+`}`)
	require.True(b.t, v.Get("success").Bool(), v.Raw)
	require.Equal(b.t, session, v.Get("data.sessionId").Str)
}

// sessions are the handles of the open sessions.
func (b *bench) openSessions() (handles []string) {
	b.t.Helper()
	for _, s := range b.Call(b.t, `{"type":"list_open_sessions"}`).Get("data.sessions").Array() {
		handles = append(handles, s.Get("sessionId").Str)
	}
	return handles
}

// checkAll judges what all clients said and heard; the first one's default
// session is s1.
func (b *bench) checkAll() {
	b.t.Helper()
	b.end()
	b.judge(actortest.Options{Files: b.disk.Files(), Defaults: map[int]string{0: "s1"}})
}

// TestTwoClientsOfOneSession: events go to both, answers to who asked, and either
// may say what is to be done.
func TestTwoClientsOfOneSession(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := start(t)
		a.run("", "~s1~ one")
		b := a.connect()
		assert.Equal(t, []string{"s1"}, b.openSessions())
		assert.Equal(t, "unknown_session", code(b.Call(t, `{"type":"get_state","sessionId":"s1"}`)), "not before it is attached")
		b.attach("s1")
		assert.Empty(t, b.Events("s1"), "what happened before is in the state")
		heard := len(a.Events(""))
		b.run("s1", "~s1~ two rounds=1")
		kinds := b.Kinds("s1")
		assert.NotEmpty(t, kinds)
		assert.Equal(t, len(b.Events("s1")), len(a.Events(""))-heard)
		assert.Len(t, a.Events("", "agent_settled"), 2)
		assert.Len(t, b.Events("s1", "agent_settled"), 1)
		before := len(a.Lines())
		b.Call(t, `{"type":"get_messages","sessionId":"s1"}`)
		assert.Len(t, a.Lines(), before, "an answer is nobody else's")
		assert.Equal(t, int64(2), b.Call(t, `{"type":"list_open_sessions"}`).Get("data.sessions.0.clients").Int())
		require.NoError(t, b.leave())
		assert.Equal(t, int64(1), a.Call(t, `{"type":"list_open_sessions"}`).Get("data.sessions.0.clients").Int())
		a.run("", "~s1~ three")
		assert.Len(t, a.Events("", "agent_settled"), 3)
		a.checkAll()
	})
}

// TestAttachNothingOpen: only what is open can be attached.
func TestAttachNothingOpen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := start(t)
		b := a.connect()
		b.Send(`{"type":"attach","sessionId":"s7"}`)
		b.Send(`{"type":"get_state","sessionId":"s7"}`) // it waits for what becomes of the attach
		b.Settle()
		assert.Empty(t, b.Unanswered())
		for _, l := range b.Lines() {
			assert.Contains(t, l, "unknown_session")
		}
		s := a.open()
		a.Call(t, `{"type":"close_session"`+at(s)+`}`)
		assert.Equal(t, "unknown_session", code(b.Call(t, `{"type":"attach"`+at(s)+`}`)))
		require.NoError(t, b.leave())
		a.checkAll()
	})
}

// TestSessionEndsWithItsLastClient: whoever opened it.
func TestSessionEndsWithItsLastClient(t *testing.T) {
	for _, drain := range []bool{true, false} {
		t.Run(fmt.Sprintf("drain %t", drain), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				a := start(t)
				b := a.connect(func(of *conn.Config) { of.Drain = drain })
				c := a.connect(func(of *conn.Config) { of.Drain = drain })
				s := b.open()
				c.attach(s)
				b.Say(s, "prompt", "~"+s+"~ rounds=20 pace=1000")
				b.Send(`{"type":"bash","command":"~` + s + `~b sleep=5000"` + at(s) + `}`)
				b.pass(3 * time.Second)
				require.NoError(t, b.leave(), "it waits for its answers, or is told that there are none")
				assert.Empty(t, b.Unanswered())
				assert.Equal(t, []string{s}, a.openSessions())
				c.pass(time.Second)
				assert.Empty(t, c.Events(s, "agent_settled"), "the run goes on")
				require.NoError(t, c.leave())
				settled := c.Events(s, "agent_settled")
				require.Len(t, settled, 1, "the last client hears the end")
				assert.Equal(t, map[bool]string{true: "completed", false: "aborted"}[drain], settled[0].Get("outcome").Str)
				assert.Empty(t, a.openSessions())
				a.checkAll()
			})
		})
	}
}

// TestRetainedSessionOutlivesItsClients and is found by the next one, also if it
// was parked meanwhile.
func TestRetainedSessionOutlivesItsClients(t *testing.T) {
	for _, park := range []time.Duration{0, time.Minute} {
		t.Run(park.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				a := start(t, func(c *Config) { c.Sessions.ParkAfter = park })
				b := a.connect()
				s := b.Call(t, `{"type":"open_session","retain":true}`).Get("data.sessionId").Str
				b.Say(s, "prompt", "~"+s+"~ rounds=2 pace=1000")
				b.pass(time.Second)
				began := time.Now()
				require.NoError(t, b.leave())
				assert.Less(t, time.Since(began), time.Second, "nobody waits for the run")
				a.pass(time.Hour)
				assert.Equal(t, []string{s}, a.openSessions())
				c := a.connect()
				c.attach(s)
				assert.Equal(t, int64(4), c.Call(t, `{"type":"get_session_stats"`+at(s)+`}`).Get("data.assistantMessages").Int()+1)
				c.heal(s, "~"+s+"~ again")
				require.NoError(t, c.leave())
				a.endsWithin(time.Second)
				assert.NoError(t, a.result, "the end of the process is the end of what nobody hears of")
				a.checkAll()
			})
		})
	}
}

// TestHeartbeat: who wants to be told that the connection lives is told so after fifteen
// seconds of silence, and not while anything else is said.
func TestHeartbeat(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := start(t)
		s := a.open()
		v := a.Call(t, `{"type":"hello","clientId":"client-one","features":["heartbeat"]}`).Get("data")
		assert.Equal(t, "client-one 15000 262144", fmt.Sprint(v.Get("clientId"), " ", v.Get("heartbeatMs"), " ", v.Get("limits.ringBytes")))
		beats := func() (n int) {
			for _, line := range a.Lines() {
				if v := gjson.Parse(line); v.Get("type").Str == "heartbeat" {
					assert.Positive(t, v.Get("t").Int())
					n++
				}
			}
			return n
		}
		a.pass(14 * time.Second)
		assert.Zero(t, beats())
		a.pass(2 * time.Second)
		assert.Equal(t, 1, beats())
		a.pass(time.Minute)
		assert.Equal(t, 5, beats())
		for range 20 {
			a.Call(t, `{"type":"get_state"`+at(s)+`}`)
			a.pass(10 * time.Second)
		}
		assert.LessOrEqual(t, beats(), 6, "there was no silence")
		was := beats()
		a.Stop()
		a.Say(s, "prompt", "~"+s+"~ rounds=0")
		a.pass(time.Hour)
		a.Go()
		a.pass(time.Second)
		assert.LessOrEqual(t, beats(), was+2, "while a write is under way there is nothing to say")
		a.Call(t, `{"type":"hello","clientId":"client-one","features":[]}`)
		was = beats()
		a.pass(time.Hour)
		assert.Equal(t, was, beats())
		a.checkAll()
	})
}

// TestQuestionsAboutFiles: a connection without a session lists those that there are, in
// pages, deletes one that is not open, and looks for a directory.
func TestQuestionsAboutFiles(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		for _, name := range []string{"alpha", "Beta", ".hidden", "gamma"} {
			require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o700))
		}
		for _, name := range []string{"file", "two.txt"} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		}
		require.NoError(t, os.Symlink("file", filepath.Join(dir, "to a file")))
		require.NoError(t, os.Symlink("none", filepath.Join(dir, "to nothing")))
		a := start(t, func(c *Config) { c.Conn.MultiSession = true })
		var paths []string
		for i := range 3 {
			s := a.open()
			a.run(s, fmt.Sprintf("~%s~ rounds=0 word%d", s, i))
			paths = append(paths, a.Call(t, `{"type":"get_state"`+at(s)+`}`).Get("data.sessionFile").Str)
			a.pass(time.Minute)
		}
		list := func(more string) gjson.Result {
			v := a.Call(t, `{"type":"list_sessions"`+more+`}`)
			require.True(t, v.Get("success").Bool(), v.Raw)
			return v.Get("data")
		}
		assert.Len(t, list("").Get("sessions").Array(), 3)
		first := list(`,"limit":2,"withText":false`)
		assert.Equal(t, []string{paths[2], paths[1]}, []string{first.Get("sessions.0.path").Str, first.Get("sessions.1.path").Str})
		assert.False(t, first.Get("sessions.0.allMessagesText").Exists())
		rest := list(`,"limit":2,"cursor":"` + first.Get("nextCursor").Str + `"`)
		assert.Equal(t, paths[0], rest.Get("sessions.0.path").Str)
		assert.Len(t, rest.Get("sessions").Array(), 1)
		assert.False(t, rest.Get("nextCursor").Exists())
		assert.Equal(t, paths[1], list(`,"query":"WORD1"`).Get("sessions.0.path").Str)
		assert.Equal(t, "invalid_params", code(a.Call(t, `{"type":"list_sessions","cursor":"?"}`)))
		assert.Len(t, a.Call(t, `{"type":"list_sessions","limit":1`+at("s1")+`}`).Get("data.sessions").Array(), 1, "a session's own")

		remove := func(path string) gjson.Result {
			return a.Call(t, fmt.Sprintf(`{"type":"delete_session","sessionPath":%q}`, path))
		}
		assert.Equal(t, "session_in_use", code(remove(paths[1])))
		a.Call(t, `{"type":"close_session","sessionId":"s2"}`)
		to := remove(paths[1]).Get("data.trashPath").Str
		assert.Contains(t, to, "/.trash/")
		assert.Equal(t, "not_found", code(remove(paths[1])))
		assert.Equal(t, "invalid_params", code(remove("/etc/passwd")))
		assert.Equal(t, "invalid_params", code(remove("/sessions/../etc/x.jsonl")))
		assert.Len(t, list("").Get("sessions").Array(), 2)

		directories := func(more string) gjson.Result {
			return a.Call(t, fmt.Sprintf(`{"type":"list_directories","path":%q%s}`, dir, more)).Get("data")
		}
		assert.Equal(t, `["Beta","alpha","gamma"]`, directories("").Get("directories").Raw)
		assert.Equal(t, filepath.Dir(dir), directories("").Get("parent").Str)
		assert.Equal(t, `["Beta"]`, directories(`,"query":"ET"`).Get("directories").Raw)
		assert.Equal(t, `[".hidden"]`, directories(`,"query":".h"`).Get("directories").Raw)
		assert.False(t, directories("").Get("files").Exists())
		assert.Equal(t, `["Beta"]`, directories(`,"files":true,"query":"t"`).Get("directories").Raw)
		assert.Equal(t, `["to a file","two.txt"]`, directories(`,"files":true,"query":"t"`).Get("files").Raw, "a link to nothing is none")
		assert.Equal(t, "not_found", code(a.Call(t, `{"type":"list_directories","path":"/none/such"}`)))
		assert.Equal(t, "invalid_params", code(a.Call(t, `{"type":"list_directories","path":"relative"}`)))
		a.end()
	})
}

// TestRetainedMakesRoom: sessions that are only retained keep nobody from opening one: of
// those that are parked, the one that nobody has used for the longest time ends.
func TestRetainedMakesRoom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := start(t, func(c *Config) { c.Sessions.MaxSessions, c.Sessions.ParkAfter = 3, 9*time.Hour })
		b := a.connect()
		var kept []string
		for range 3 {
			s := b.Call(t, `{"type":"open_session","retain":true}`).Get("data.sessionId").Str
			b.run(s, "~"+s+"~ rounds=0")
			kept = append(kept, s)
		}
		require.NoError(t, b.leave())
		for _, s := range kept {
			a.attach(s)
			a.Call(t, `{"type":"detach"`+at(s)+`}`)
			a.pass(time.Minute)
		}
		assert.Equal(t, "overloaded", code(a.Call(t, `{"type":"open_session"}`)), "they are not parked yet")
		a.pass(24 * time.Hour)
		a.attach(kept[1])
		first := a.open()
		assert.Equal(t, []string{kept[1], kept[2], first}, a.openSessions())
		second := a.open()
		assert.Equal(t, []string{kept[1], first, second}, a.openSessions())
		assert.Equal(t, "overloaded", code(a.Call(t, `{"type":"open_session"}`)), "the rest is in use")
		a.heal(kept[1], "~"+kept[1]+"~ again")
		a.checkAll()
	})
}

// TestNobodyWaitsForADrain: a client that leaves in a hurry does not wait for a run that
// never ends, because somebody else has asked the session to end with it.
func TestNobodyWaitsForADrain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := start(t)
		b := a.connect(func(of *conn.Config) { of.Drain = false })
		s := b.Call(t, `{"type":"open_session","retain":true}`).Get("data.sessionId").Str
		a.attach(s)
		b.Say(s, "prompt", "~"+s+"~ stall")
		a.Settle()
		a.Call(t, `{"type":"detach"`+at(s)+`}`)
		id := a.Send(`{"type":"close_session","sessionId":"` + s + `","mode":"drain"}`)
		a.pass(time.Minute)
		require.NoError(t, b.leave())
		assert.Contains(t, a.Unanswered(), id)
		a.Call(t, `{"type":"close_session","sessionId":"`+s+`","mode":"abort"}`)
		a.checkAll()
	})
}

// TestDetachOfSeveral: a session goes on for who is attached.
func TestDetachOfSeveral(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := start(t)
		b := a.connect()
		s := a.open()
		b.attach(s)
		a.Call(t, `{"type":"detach"`+at(s)+`}`)
		b.heal(s, "~"+s+"~ b is there")
		assert.Empty(t, a.Events(s))
		a.attach(s)
		b.Call(t, `{"type":"detach"`+at(s)+`}`)
		a.heal(s, "~"+s+"~ a is there")
		a.Call(t, `{"type":"detach"`+at(s)+`}`)
		a.Settle()
		assert.Empty(t, a.openSessions())
		assert.Equal(t, "unknown_session", code(b.Call(t, `{"type":"attach"`+at(s)+`}`)))
		require.NoError(t, b.leave())
		a.checkAll()
	})
}

// TestClosedByOneOfSeveral: its other clients see the end of its run, and find it no
// more. No event says that it was closed.
func TestClosedByOneOfSeveral(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := start(t)
		a.run("", "~s1~ one")
		b := a.connect()
		b.attach("s1")
		a.Say("", "prompt", "~s1~ rounds=20 pace=1000")
		a.pass(time.Second)
		v := b.Call(t, `{"type":"close_session","sessionId":"s1"}`)
		assert.True(t, v.Get("success").Bool(), v.Raw)
		require.Len(t, a.Events("", "agent_settled"), 2)
		assert.Equal(t, "unknown_session", code(b.Call(t, `{"type":"get_state","sessionId":"s1"}`)))
		assert.Empty(t, b.openSessions())
		state := a.Call(t, `{"type":"get_state"}`)
		assert.True(t, state.Get("success").Bool(), "a default session is made when it is needed: %s", state.Raw)
		require.NoError(t, b.leave())
		a.end()
	})
}

// TestGoneClientEndsNothingElse: a client that cannot be written to, in the middle
// of a run that it shares, costs the others nothing.
func TestGoneClientEndsNothingElse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := start(t)
		b := a.connect()
		s := a.open()
		b.attach(s)
		own := b.open()
		a.Say(s, "prompt", "~"+s+"~ rounds=3 pace=1000")
		b.Say(own, "prompt", "~"+own+"~ rounds=100 pace=1000")
		b.Send(`{"type":"bash","command":"~` + own + `~b sleep=50000"` + at(own) + `}`)
		a.pass(time.Second)
		b.Stop()
		a.pass(time.Second) // its window fills
		b.Break()
		b.Send(`{"type":"get_state"}`)
		assert.Error(t, b.gone())
		a.pass(time.Minute)
		require.Len(t, a.Events(s, "agent_settled"), 1)
		assert.Equal(t, "completed", a.Events(s, "agent_settled")[0].Get("outcome").Str)
		_, out := b.window.Balance()
		assert.Zero(t, out, "everything is given back")
		a.pass(time.Hour)
		assert.Equal(t, []string{s}, a.openSessions())
		a.checkAll()
	})
}

// actors is how many there are in the daemon.
func (b *bench) actors() (n int) {
	for _, shard := range b.daemon.root.ActorSystem().ProcessRegistry.LocalPIDs.LocalPIDs {
		n += shard.Count()
	}
	return n
}

// TestConnectionsLeaveNothing: whoever comes and goes, however it ends, leaves no
// actor, no session and no client of a session.
func TestConnectionsLeaveNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := start(t)
		s := a.open()
		before := a.actors()
		for i := range 500 {
			b := a.connect()
			b.attach(s)
			b.open()
			if i%2 == 0 {
				require.NoError(t, b.leave())
				continue
			}
			b.Break()
			b.Say(s, "prompt", "~"+s+"~ "+fmt.Sprint(i))
			assert.Error(t, b.gone())
		}
		a.pass(time.Hour)
		assert.Equal(t, []string{s}, a.openSessions())
		assert.Equal(t, before, a.actors())
		a.heal(s, "~"+s+"~ last")
		assert.Equal(t, int64(1), a.Call(t, `{"type":"list_open_sessions"}`).Get("data.sessions.0.clients").Int())
		a.checkAll()
	})
}

// TestCrashWithSeveralClients: each is answered what it asked, and all see the end
// of what they saw begin.
func TestCrashWithSeveralClients(t *testing.T) {
	for _, point := range []string{"Request", "StreamParts", "Append", "Reply", "Leave", "Join"} {
		for n := range 8 {
			plan := fmt.Sprintf(`Panic s1 %s %d`, point, n)
			t.Run(plan, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					a := start(t, faults(plan))
					s := a.open()
					b := a.connect()
					b.Call(t, `{"type":"attach"`+at(s)+`}`)
					a.Say(s, "prompt", "~s1~ one rounds=2 pace=10")
					b.Say(s, "steer", "~s1~ two")
					b.Send(`{"type":"get_messages"` + at(s) + `}`)
					c := a.connect()
					c.Call(t, `{"type":"attach"`+at(s)+`}`)
					a.pass(time.Minute)
					require.NoError(t, b.leave())
					for _, client := range []*bench{a, b, c} {
						assert.Empty(t, client.Unanswered())
					}
					a.cfg.Faults.Release()
					a.heal(s, "~s1~ three")
					a.checkAll()
				})
			})
		}
	}
}

// TestLostRouter: a connection that breaks takes nothing with it.
func TestLostRouter(t *testing.T) {
	for _, part := range []string{"router", "writer", "reader"} {
		t.Run(part, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				msg := map[string]string{"router": "line", "writer": "Records", "reader": "Line"}[part]
				a := start(t, faults(`Panic conn$4/`+part+` `+msg))
				s := a.open()
				b := a.connect()
				b.attach(s)
				c := a.connect()
				c.Send(`{"type":"attach"` + at(s) + `}`)
				c.Close()
				assert.ErrorIs(t, c.gone(), conn.ErrConnectionBroken)
				a.heal(s, "~s1~ it goes on")
				assert.Len(t, b.Events(s, "agent_settled"), 1)
				assert.Equal(t, int64(2), a.Call(t, `{"type":"list_open_sessions"}`).Get("data.sessions.0.clients").Int())
				require.NoError(t, b.leave())
				a.end()
				assert.NoError(t, a.result)
			})
		})
	}
}

// TestStopWithSeveralClients: all of them hear the end, and each connection ends
// in order.
func TestStopWithSeveralClients(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := start(t)
		b, c := a.connect(), a.connect()
		s := b.open()
		a.attach(s)
		own := c.open()
		b.Say(s, "prompt", "~"+s+"~ rounds=20 pace=1000")
		c.Say(own, "prompt", "~"+own+"~ rounds=20 pace=1000")
		a.pass(time.Second)
		a.stop <- Stop{Abort: true}
		a.wait()
		require.NoError(t, a.result)
		require.NoError(t, b.gone())
		require.NoError(t, c.gone())
		for _, v := range []*bench{a, b} {
			require.Len(t, v.Events(s, "agent_settled"), 1)
		}
		require.Len(t, c.Events(own, "agent_settled"), 1)
		assert.ErrorIs(t, a.daemon.Connect(conn.Config{}, conn.Stdio{In: strings.NewReader("")}).Wait(), ErrStopped)
		a.checkAll()
	})
}

// TestIdleConnectionEndsNoDrain: what is being drained for others goes on when the
// connection that is final has nothing left to wait for.
func TestIdleConnectionEndsNoDrain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := start(t)
		b := a.connect()
		s := b.open()
		b.Say(s, "prompt", "~"+s+"~ rounds=3 pace=100")
		a.pass(time.Second)
		a.stop <- Stop{}
		a.wait()
		require.NoError(t, a.result)
		require.NoError(t, b.gone())
		settled := b.Events(s, "agent_settled")
		require.Len(t, settled, 1)
		require.Equal(t, "completed", settled[0].Get("outcome").Str)
		a.checkAll()
	})
}

// TestHostToolsOfOneClient: what they are asked is for the client that declared
// them, and a call whose client leaves ends, though others are there.
func TestHostToolsOfOneClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := start(t)
		s := a.open()
		b := a.connect()
		b.attach(s)
		v := b.Call(t, `{"type":"set_host_tools","tools":[{"name":"ask","description":"asks","parameters":{"type":"object"}}]`+at(s)+`}`)
		require.True(t, v.Get("success").Bool(), v.Raw)
		assert.False(t, a.Call(t, `{"type":"set_host_tools","tools":[{"name":""}]`+at(s)+`}`).Get("success").Bool(), "what is refused takes nothing over")
		a.Say(s, "prompt", "~"+s+"~ rounds=1 tool=ask")
		a.pass(time.Hour)
		assert.Len(t, b.Events(s, "host_tool_call"), 1)
		assert.Empty(t, a.Events(s, "host_tool_call"))
		assert.Empty(t, a.Events(s, "agent_settled"))
		require.NoError(t, b.leave())
		a.pass(time.Minute)
		require.Len(t, a.Events(s, "agent_settled"), 1)
		assert.Contains(t, a.Events(s, "tool_execution_end")[0].Raw, "is gone")
		assert.NotContains(t, a.Call(t, `{"type":"get_tools"`+at(s)+`}`).Raw, `"ask"`)
		a.heal(s, "~"+s+"~ again")
		a.checkAll()
	})
}

// TestAttachInTheMiddle: what a session still says when an attach reaches it comes
// before the answer, and the client does not hear it.
func TestAttachInTheMiddle(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := start(t, durable, faults(`Delay 1s s1 Request 1`))
		s := a.open()
		b := a.connect()
		a.Send(`{"type":"get_state"` + at(s) + `}`)
		a.Say(s, "prompt", "~"+s+"~ one") // waits for those that came with it: see grouped
		a.Settle()
		b.Send(`{"type":"attach"` + at(s) + `}`)
		a.pass(time.Minute)
		require.NotEmpty(t, b.Lines())
		assert.Contains(t, b.Lines()[0], `"attach"`)
		assert.Len(t, a.Events(s, "agent_start"), 1)
		assert.Empty(t, b.Events(s, "agent_start"))
		assert.Len(t, b.Events(s, "agent_settled"), 1)
		require.NoError(t, b.leave())
		a.checkAll()
	})
}

// TestAnswersWaitForTheirClient: a client that does not read delays no answer to
// another, and has its own in order, as of their time, when it reads again.
func TestAnswersWaitForTheirClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := start(t, func(c *Config) { c.Conn.MaxOutput = 64 << 10 })
		s := a.open()
		for i := range 3 {
			a.run(s, fmt.Sprint("~"+s+"~ ", i, strings.Repeat(" word", 2000)))
		}
		b := a.connect()
		b.attach(s)
		queries := []string{"get_messages", "get_entries", "get_tree", "list_sessions", "get_available_models"}
		b.Stop()
		var asked []string
		for range 5 {
			asked = append(asked, b.Send(`{"type":"get_messages"`+at(s)+`}`))
		}
		for range 3 {
			b.Send(`{"type":"list_sessions"` + at(s) + `}`)
		}
		b.pass(time.Minute)
		require.True(t, b.window.Full())
		for _, q := range queries {
			v := a.Call(t, `{"type":"`+q+`"`+at(s)+`}`)
			assert.True(t, v.Get("success").Bool(), v.Raw)
		}
		messages := a.Last("get_messages").Get("data").Raw
		a.Say(s, "prompt", "~"+s+"~ later") // shown to both, so that it waits
		a.pass(time.Minute)
		assert.Empty(t, a.Events(s, "agent_settled")[3:], "workers wait for every client")
		b.Go()
		b.pass(time.Minute)
		assert.Len(t, a.Events(s, "agent_settled"), 4)
		var answered []string
		for _, l := range b.Lines() {
			if v := gjson.Parse(l); v.Get("command").Str == "get_messages" {
				answered = append(answered, v.Get("id").Str)
				assert.Equal(t, messages, v.Get("data").Raw)
			}
		}
		assert.Equal(t, asked, answered)
		require.NoError(t, b.leave())
		a.checkAll()
	})
}

// TestClosedBesideWhoDoesNotRead: close_session waits for the answers to its own
// client, and the others are told that theirs do not come.
func TestClosedBesideWhoDoesNotRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := start(t, func(c *Config) { c.Conn.MaxOutput = 64 << 10 })
		s := a.open()
		for i := range 3 {
			a.run(s, fmt.Sprint("~"+s+"~ ", i, strings.Repeat(" word", 2000)))
		}
		b := a.connect()
		b.attach(s)
		b.Stop()
		for range 5 {
			b.Send(`{"type":"get_messages"` + at(s) + `}`)
		}
		b.pass(time.Minute)
		require.True(t, b.window.Full())
		v := a.Call(t, `{"type":"close_session"`+at(s)+`}`)
		assert.True(t, v.Get("success").Bool(), v.Raw)
		b.Go()
		b.pass(time.Minute)
		assert.Empty(t, b.Unanswered())
		assert.Equal(t, "session_closing", code(b.Last("get_messages")))
		require.NoError(t, b.leave())
		a.checkAll()
	})
}

// TestDebitsAreOfTheClient: what a client has not read counts as it is written to
// that client: in steps, beside another one that is shown whole messages.
func TestDebitsAreOfTheClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const limit = 1 << 20
		a := start(t, func(c *Config) { c.Conn.MaxOutput = limit })
		s := a.open()
		b := a.connect()
		b.Call(t, `{"type":"hello","features":["deltaUpdates"]}`)
		b.attach(s)
		b.Stop()
		read := len(a.Lines())
		a.Say(s, "prompt", "~"+s+"~ parts=300")
		a.pass(time.Minute)
		require.Len(t, a.Events(s, "agent_settled"), 1)
		whole := 0
		for _, l := range a.Lines()[read:] {
			whole += len(l)
		}
		_, out := b.window.Balance()
		read = len(b.Lines())
		b.Go()
		b.pass(time.Minute)
		steps := 0
		for _, l := range b.Lines()[read:] {
			steps += len(l)
		}
		assert.Greater(t, whole, 2*steps)
		assert.InEpsilon(t, steps, out, 0.2, "debited of what is written; %d for the other one", whole)
		_, out = b.window.Balance()
		assert.Zero(t, out)
		require.NoError(t, b.leave())
		a.checkAll()
	})
}

// declare is a set_host_tools with one tool.
func declare(session, tool string) string {
	return `{"type":"set_host_tools","tools":[{"name":"` + tool + `","description":"asks","parameters":{"type":"object"}}]` + at(session) + `}`
}

// TestHostToolsBehindAReplacement: the host is who sent the declaration that was
// carried out, also if that has waited; a client that has left meanwhile is none.
func TestHostToolsBehindAReplacement(t *testing.T) {
	for _, how := range []string{"stays", "leaves", "breaks", "detaches"} {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				a := start(t, faults(`Delay 1s s1 loadedSession`))
				s := a.open()
				a.Call(t, declare(s, "old"))
				b := a.connect()
				b.attach(s)
				a.Send(`{"type":"new_session"` + at(s) + `}`)
				a.Settle()
				b.Send(declare(s, "ask"))
				b.Settle()
				require.NotEmpty(t, b.Unanswered(), "it waits")
				switch how {
				case "leaves":
					require.NoError(t, b.leave())
				case "breaks":
					b.Break()
					b.Send(`{"type":"get_state"` + at(s) + `}`)
					assert.Error(t, b.gone())
				case "detaches":
					b.Send(`{"type":"detach"` + at(s) + `}`)
				}
				a.pass(time.Minute)
				a.Say(s, "prompt", "~"+s+"~ rounds=1 tool=ask")
				a.pass(time.Minute)
				assert.Empty(t, a.Events(s, "host_tool_call"))
				if how == "stays" {
					require.Len(t, b.Events(s, "host_tool_call"), 1)
					require.NoError(t, b.leave())
					a.pass(time.Minute)
				} else {
					assert.NotContains(t, a.Call(t, `{"type":"get_tools"`+at(s)+`}`).Raw, `"ask"`)
				}
				assert.Len(t, a.Events(s, "agent_settled"), 1)
				if how == "detaches" {
					require.NoError(t, b.leave())
				}
				a.heal(s, "~"+s+"~ again")
				a.checkAll()
			})
		})
	}
}

// TestHostDetaches: a client that has detached hears of no call and answers none:
// those that wait for it end, and its tools go.
func TestHostDetaches(t *testing.T) {
	for _, alone := range []bool{true, false} {
		t.Run(fmt.Sprintf("alone %t", alone), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				a := start(t)
				b := a.connect()
				s := b.open()
				if !alone {
					a.attach(s)
				}
				b.Call(t, declare(s, "ask"))
				b.Say(s, "prompt", "~"+s+"~ rounds=1 tool=ask")
				b.pass(time.Second)
				require.Len(t, b.Events(s, "host_tool_call"), 1)
				b.Call(t, `{"type":"detach"`+at(s)+`}`)
				a.pass(time.Minute)
				if alone {
					assert.Empty(t, a.openSessions(), "its run has ended")
				} else {
					require.Len(t, a.Events(s, "agent_settled"), 1)
					assert.Contains(t, a.Events(s, "tool_execution_end")[0].Raw, "is gone")
					assert.NotContains(t, a.Call(t, `{"type":"get_tools"`+at(s)+`}`).Raw, `"ask"`)
					b.attach(s)
					b.Call(t, declare(s, "ask"))
					a.Say(s, "prompt", "~"+s+"~ again rounds=1 tool=ask")
					a.pass(time.Second)
					assert.Len(t, b.Events(s, "host_tool_call"), 2, "it may declare them again")
				}
				require.NoError(t, b.leave())
				a.checkAll()
			})
		})
	}
}

// TestHelloOfOneClient: what one client chooses changes neither how another is
// written to, nor the rules of a session that both hear of.
func TestHelloOfOneClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := start(t)
		s := a.open()
		b := a.connect()
		b.attach(s)
		b.Call(t, `{"type":"hello","dialect":"s4"}`) // one bash command at a time
		own := b.open()
		for who, session := range map[*bench]string{a: s, b: own} {
			who.Send(`{"type":"bash","command":"~` + session + `~b sleep=5000"` + at(session) + `}`)
		}
		a.Settle()
		of := map[*bench]string{}
		for who, session := range map[*bench]string{a: s, b: own} {
			of[who] = who.Send(`{"type":"bash","command":"~` + session + `~c"` + at(session) + `}`)
		}
		a.pass(time.Minute)
		assert.True(t, a.Answer(t, of[a]).Get("success").Bool(), "the session has the rules of who opened it")
		assert.False(t, b.Answer(t, of[b]).Get("success").Bool(), "as chosen")
		a.Call(t, `{"type":"set_session_name","name":"x"`+at(s)+`}`)
		assert.Len(t, a.Events(s, "session_info_changed"), 1)
		assert.Empty(t, b.Events(s, "session_info_changed"), "s4 has none")
		require.NoError(t, b.leave())
		a.Call(t, `{"type":"hello","dialect":"s4"}`)
		a.Send(`{"type":"bash","command":"~` + s + `~d sleep=5000"` + at(s) + `}`)
		a.Settle()
		assert.False(t, a.Call(t, `{"type":"bash","command":"~`+s+`~e"`+at(s)+`}`).Get("success").Bool(), "now it is alone")
		a.pass(time.Minute)
		a.end()
	})
}

// TestBehindAnEndThatWaits: what a client says behind its close_session comes too
// late, also if that waits for large answers.
func TestBehindAnEndThatWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := start(t, func(c *Config) { c.Conn.MaxOutput = 64 << 10 })
		s := b.open()
		for i := range 3 {
			b.run(s, fmt.Sprint("~"+s+"~ ", i, strings.Repeat(" word", 2000)))
		}
		b.Stop()
		for range 5 {
			b.Send(`{"type":"get_messages"` + at(s) + `}`)
		}
		b.Send(`{"type":"close_session"` + at(s) + `}`)
		late := b.Send(`{"type":"set_session_name","name":"late"` + at(s) + `}`)
		b.pass(time.Minute)
		b.Go()
		b.pass(time.Minute)
		assert.True(t, b.Last("get_messages").Get("success").Bool(), "what was asked before is answered")
		assert.False(t, b.Answer(t, late).Get("success").Bool())
		b.check()
	})
}

// TestHostLeavesWhileParked: its tools are gone when the session wakes up.
func TestHostLeavesWhileParked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := start(t, func(c *Config) { c.Sessions.ParkAfter = time.Minute })
		s := a.open()
		b := a.connect()
		b.attach(s)
		b.Call(t, declare(s, "ask"))
		a.run(s, "~"+s+"~ one")
		a.pass(time.Hour)
		require.Equal(t, "parked", a.Call(t, `{"type":"list_open_sessions"}`).Get("data.sessions.0.status").Str)
		require.NoError(t, b.leave())
		a.pass(time.Minute)
		assert.NotContains(t, a.Call(t, `{"type":"get_tools"`+at(s)+`}`).Raw, `"ask"`)
		a.checkAll()
	})
}
