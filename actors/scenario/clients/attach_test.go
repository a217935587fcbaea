package clients

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

	"troupe/actors"
	"troupe/actors/conn"
	"troupe/actors/scenario/harness"
)

// TestTwoClientsOfOneSession checks that both clients of a session receive its events, that only
// the sender receives an answer, and that either client can send prompts.
func TestTwoClientsOfOneSession(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t)
		a.Run("", "~s1~ one")
		b := a.Connect()
		assert.Equal(t, []string{"s1"}, b.OpenSessions())
		assert.Equal(t, "unknown_session", harness.Code(b.Call(t, `{"type":"get_state","sessionId":"s1"}`)), "not before it is attached")
		b.Attach("s1")
		assert.Empty(t, b.Events("s1"), "what happened before is in the state")
		heard := len(a.Events(""))
		b.Run("s1", "~s1~ two rounds=1")
		kinds := b.Kinds("s1")
		assert.NotEmpty(t, kinds)
		assert.Equal(t, len(b.Events("s1")), len(a.Events(""))-heard)
		assert.Len(t, a.Events("", "agent_settled"), 2)
		assert.Len(t, b.Events("s1", "agent_settled"), 1)
		before := len(a.Lines())
		b.Call(t, `{"type":"get_messages","sessionId":"s1"}`)
		assert.Len(t, a.Lines(), before, "an answer is nobody else's")
		assert.Equal(t, int64(2), b.Call(t, `{"type":"list_open_sessions"}`).Get("data.sessions.0.clients").Int())
		require.NoError(t, b.Leave())
		assert.Equal(t, int64(1), a.Call(t, `{"type":"list_open_sessions"}`).Get("data.sessions.0.clients").Int())
		a.Run("", "~s1~ three")
		assert.Len(t, a.Events("", "agent_settled"), 3)
		a.CheckAll()
	})
}

// TestAttachNothingOpen checks that attach by handle fails for a session that is not open.
func TestAttachNothingOpen(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t)
		b := a.Connect()
		b.Send(`{"type":"attach","sessionId":"s7"}`)
		b.Send(`{"type":"get_state","sessionId":"s7"}`) // it waits for the result of the attach
		b.Settle()
		assert.Empty(t, b.Unanswered())
		for _, l := range b.Lines() {
			assert.Contains(t, l, "unknown_session")
		}
		s := a.Open()
		a.Call(t, `{"type":"close_session"`+harness.At(s)+`}`)
		assert.Equal(t, "unknown_session", harness.Code(b.Call(t, `{"type":"attach"`+harness.At(s)+`}`)))
		require.NoError(t, b.Leave())
		a.CheckAll()
	})
}

// TestSessionEndsWithItsLastClient checks that a session ends when its last client leaves,
// whichever client has opened it.
func TestSessionEndsWithItsLastClient(t *testing.T) {
	for _, drain := range []bool{true, false} {
		t.Run(fmt.Sprintf("drain %t", drain), func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				a := harness.Start(t)
				b := a.Connect(func(of *conn.Config) { of.Drain = drain })
				c := a.Connect(func(of *conn.Config) { of.Drain = drain })
				s := b.Open()
				c.Attach(s)
				b.Say(s, "prompt", "~"+s+"~ rounds=20 pace=1000")
				b.Send(`{"type":"bash","command":"~` + s + `~b sleep=5000"` + harness.At(s) + `}`)
				b.Advance(3 * time.Second)
				require.NoError(t, b.Leave(), "it waits for its answers, or is told that there are none")
				assert.Empty(t, b.Unanswered())
				assert.Equal(t, []string{s}, a.OpenSessions())
				c.Advance(time.Second)
				assert.Empty(t, c.Events(s, "agent_settled"), "the run goes on")
				require.NoError(t, c.Leave())
				settled := c.Events(s, "agent_settled")
				require.Len(t, settled, 1, "the last client hears the end")
				assert.Equal(t, map[bool]string{true: "completed", false: "aborted"}[drain], settled[0].Get("outcome").Str)
				assert.Empty(t, a.OpenSessions())
				a.CheckAll()
			})
		})
	}
}

// TestRetainedSessionOutlivesItsClients checks that a retained session stays open without clients,
// and that a new client can attach to it even if it was parked in between.
func TestRetainedSessionOutlivesItsClients(t *testing.T) {
	for _, park := range []time.Duration{0, time.Minute} {
		t.Run(park.String(), func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				a := harness.Start(t, func(c *actors.Config) { c.Sessions.ParkAfter = park })
				b := a.Connect()
				s := b.Call(t, `{"type":"open_session","retain":true}`).Get("data.sessionId").Str
				b.Say(s, "prompt", "~"+s+"~ rounds=2 pace=1000")
				b.Advance(time.Second)
				began := time.Now()
				require.NoError(t, b.Leave())
				assert.Less(t, time.Since(began), time.Second, "nobody waits for the run")
				a.Advance(time.Hour)
				assert.Equal(t, []string{s}, a.OpenSessions())
				c := a.Connect()
				c.Attach(s)
				assert.Equal(t, int64(4), c.Call(t, `{"type":"get_session_stats"`+harness.At(s)+`}`).Get("data.assistantMessages").Int()+1)
				c.RequireWorking(s, "~"+s+"~ again")
				require.NoError(t, c.Leave())
				a.EndWithin(time.Second)
				assert.NoError(t, a.Err, "the end of the process is the end of what nobody hears of")
				a.CheckAll()
			})
		})
	}
}

// TestHeartbeat checks that a client with the feature heartbeat receives one after fifteen seconds
// of silence, and none while other lines are sent.
func TestHeartbeat(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t)
		s := a.Open()
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
		a.Advance(14 * time.Second)
		assert.Zero(t, beats())
		a.Advance(2 * time.Second)
		assert.Equal(t, 1, beats())
		a.Example(a.Events("", "heartbeat")[0], "")
		a.Advance(time.Minute)
		assert.Equal(t, 5, beats())
		for range 20 {
			a.Call(t, `{"type":"get_state"`+harness.At(s)+`}`)
			a.Advance(10 * time.Second)
		}
		assert.LessOrEqual(t, beats(), 6, "there was no silence")
		was := beats()
		a.Stop()
		a.Say(s, "prompt", "~"+s+"~ rounds=0")
		a.Advance(time.Hour)
		a.Go()
		a.Advance(time.Second)
		assert.LessOrEqual(t, beats(), was+2, "while a write is under way there is nothing to say")
		a.Call(t, `{"type":"hello","clientId":"client-one","features":[]}`)
		was = beats()
		a.Advance(time.Hour)
		assert.Equal(t, was, beats())
		a.CheckAll()
	})
}

// TestQuestionsAboutFiles checks the commands that need no session: listing the session files in
// pages, deleting one that is not open, and listing directories.
func TestQuestionsAboutFiles(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		for _, name := range []string{"alpha", "Beta", ".hidden", "gamma"} {
			require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o700))
		}
		for _, name := range []string{"file", "two.txt"} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		}
		require.NoError(t, os.Symlink("file", filepath.Join(dir, "to a file")))
		require.NoError(t, os.Symlink("none", filepath.Join(dir, "to nothing")))
		a := harness.Start(t, func(c *actors.Config) { c.Conn.MultiSession = true })
		var paths []string
		for i := range 3 {
			s := a.Open()
			a.Run(s, fmt.Sprintf("~%s~ rounds=0 word%d", s, i))
			paths = append(paths, a.Call(t, `{"type":"get_state"`+harness.At(s)+`}`).Get("data.sessionFile").Str)
			a.Advance(time.Minute)
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
		assert.Equal(t, "invalid_params", harness.Code(a.Call(t, `{"type":"list_sessions","cursor":"?"}`)))
		assert.Len(t, a.Call(t, `{"type":"list_sessions","limit":1`+harness.At("s1")+`}`).Get("data.sessions").Array(), 1, "a session's own")

		remove := func(path string) gjson.Result {
			return a.Call(t, fmt.Sprintf(`{"type":"delete_session","sessionPath":%q}`, path))
		}
		assert.Equal(t, "session_in_use", harness.Code(remove(paths[1])))
		a.Call(t, `{"type":"close_session","sessionId":"s2"}`)
		to := remove(paths[1]).Get("data.trashPath").Str
		assert.Contains(t, to, "/.trash/")
		assert.Equal(t, "not_found", harness.Code(remove(paths[1])))
		assert.Equal(t, "invalid_params", harness.Code(remove("/etc/passwd")))
		assert.Equal(t, "invalid_params", harness.Code(remove("/sessions/../etc/x.jsonl")))
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
		assert.Equal(t, "not_found", harness.Code(a.Call(t, `{"type":"list_directories","path":"/none/such"}`)))
		assert.Equal(t, "invalid_params", harness.Code(a.Call(t, `{"type":"list_directories","path":"relative"}`)))
		a.End()
	})
}

// TestRetainedMakesRoom checks that retained sessions do not block open_session at the session
// limit: the least recently used one of the parked sessions ends.
func TestRetainedMakesRoom(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t, func(c *actors.Config) { c.Sessions.MaxSessions, c.Sessions.ParkAfter = 3, 9*time.Hour })
		b := a.Connect()
		var kept []string
		for range 3 {
			s := b.Call(t, `{"type":"open_session","retain":true}`).Get("data.sessionId").Str
			b.Run(s, "~"+s+"~ rounds=0")
			kept = append(kept, s)
		}
		require.NoError(t, b.Leave())
		for _, s := range kept {
			a.Attach(s)
			a.Call(t, `{"type":"detach"`+harness.At(s)+`}`)
			a.Advance(time.Minute)
		}
		assert.Equal(t, "overloaded", harness.Code(a.Call(t, `{"type":"open_session"}`)), "they are not parked yet")
		a.Advance(24 * time.Hour)
		a.Attach(kept[1])
		first := a.Open()
		assert.Equal(t, []string{kept[1], kept[2], first}, a.OpenSessions())
		second := a.Open()
		assert.Equal(t, []string{kept[1], first, second}, a.OpenSessions())
		assert.Equal(t, "overloaded", harness.Code(a.Call(t, `{"type":"open_session"}`)), "the rest is in use")
		a.RequireWorking(kept[1], "~"+kept[1]+"~ again")
		a.CheckAll()
	})
}

// TestNobodyWaitsForADrain checks that a client that leaves without draining does not wait for a
// run that never ends, even if another client has closed the session with mode drain.
func TestNobodyWaitsForADrain(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t)
		b := a.Connect(func(of *conn.Config) { of.Drain = false })
		s := b.Call(t, `{"type":"open_session","retain":true}`).Get("data.sessionId").Str
		a.Attach(s)
		b.Say(s, "prompt", "~"+s+"~ stall")
		a.Settle()
		a.Call(t, `{"type":"detach"`+harness.At(s)+`}`)
		id := a.Send(`{"type":"close_session","sessionId":"` + s + `","mode":"drain"}`)
		a.Advance(time.Minute)
		require.NoError(t, b.Leave())
		assert.Contains(t, a.Unanswered(), id)
		a.Call(t, `{"type":"close_session","sessionId":"`+s+`","mode":"abort"}`)
		a.CheckAll()
	})
}

// TestDetachOfSeveral checks that a session works for the clients that are still attached when
// another one detaches, and ends when the last one does.
func TestDetachOfSeveral(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t)
		b := a.Connect()
		s := a.Open()
		b.Attach(s)
		a.Call(t, `{"type":"detach"`+harness.At(s)+`}`)
		b.RequireWorking(s, "~"+s+"~ b is there")
		assert.Empty(t, a.Events(s))
		a.Attach(s)
		b.Call(t, `{"type":"detach"`+harness.At(s)+`}`)
		a.RequireWorking(s, "~"+s+"~ a is there")
		a.Call(t, `{"type":"detach"`+harness.At(s)+`}`)
		a.Settle()
		assert.Empty(t, a.OpenSessions())
		assert.Equal(t, "unknown_session", harness.Code(b.Call(t, `{"type":"attach"`+harness.At(s)+`}`)))
		require.NoError(t, b.Leave())
		a.CheckAll()
	})
}

// TestClosedByOneOfSeveral checks that the other clients of a closed session see the end of its run
// and get unknown_session afterwards. No event reports the close itself.
func TestClosedByOneOfSeveral(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t)
		a.Run("", "~s1~ one")
		b := a.Connect()
		b.Attach("s1")
		a.Say("", "prompt", "~s1~ rounds=20 pace=1000")
		a.Advance(time.Second)
		v := b.Call(t, `{"type":"close_session","sessionId":"s1"}`)
		assert.True(t, v.Get("success").Bool(), v.Raw)
		require.Len(t, a.Events("", "agent_settled"), 2)
		assert.Equal(t, "unknown_session", harness.Code(b.Call(t, `{"type":"get_state","sessionId":"s1"}`)))
		assert.Empty(t, b.OpenSessions())
		state := a.Call(t, `{"type":"get_state"}`)
		assert.True(t, state.Get("success").Bool(), "a default session is made when it is needed: %s", state.Raw)
		require.NoError(t, b.Leave())
		a.End()
	})
}

// TestGoneClientEndsNothingElse checks that a client whose connection breaks in the middle of a
// shared run does not disturb the other clients.
func TestGoneClientEndsNothingElse(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t)
		b := a.Connect()
		s := a.Open()
		b.Attach(s)
		own := b.Open()
		a.Say(s, "prompt", "~"+s+"~ rounds=3 pace=1000")
		b.Say(own, "prompt", "~"+own+"~ rounds=100 pace=1000")
		b.Send(`{"type":"bash","command":"~` + own + `~b sleep=50000"` + harness.At(own) + `}`)
		a.Advance(time.Second)
		b.Stop()
		a.Advance(time.Second) // its window fills
		b.Break()
		b.Send(`{"type":"get_state"}`)
		assert.Error(t, b.WaitClosed())
		a.Advance(time.Minute)
		require.Len(t, a.Events(s, "agent_settled"), 1)
		assert.Equal(t, "completed", a.Events(s, "agent_settled")[0].Get("outcome").Str)
		_, out := b.Window.Balance()
		assert.Zero(t, out, "everything is given back")
		a.Advance(time.Hour)
		assert.Equal(t, []string{s}, a.OpenSessions())
		a.CheckAll()
	})
}

// TestConnectionsLeaveNothing checks that closed and broken connections leave no actor, no session
// and no attached client.
func TestConnectionsLeaveNothing(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t)
		s := a.Open()
		before := a.Watch.Actors()
		for i := range 500 {
			b := a.Connect()
			b.Attach(s)
			b.Open()
			if i%2 == 0 {
				require.NoError(t, b.Leave())
				continue
			}
			b.Break()
			b.Say(s, "prompt", "~"+s+"~ "+fmt.Sprint(i))
			assert.Error(t, b.WaitClosed())
		}
		a.Advance(time.Hour)
		assert.Equal(t, []string{s}, a.OpenSessions())
		assert.Equal(t, before, a.Watch.Actors())
		a.RequireWorking(s, "~"+s+"~ last")
		assert.Equal(t, int64(1), a.Call(t, `{"type":"list_open_sessions"}`).Get("data.sessions.0.clients").Int())
		a.CheckAll()
	})
}

// TestCrashWithSeveralClients checks that a crash of the session leaves no command of any client
// unanswered, and that every client sees the end of each span that it has seen start.
func TestCrashWithSeveralClients(t *testing.T) {
	for _, point := range []string{"Request", "StreamParts", "Append", "Reply", "Leave", "Join"} {
		for n := range 8 {
			plan := fmt.Sprintf(`Panic s1 %s %d`, point, n)
			t.Run(plan, func(t *testing.T) {
				harness.Bubble(t, func(t *testing.T) {
					a := harness.Start(t, harness.Faults(plan))
					s := a.Open()
					b := a.Connect()
					b.Call(t, `{"type":"attach"`+harness.At(s)+`}`)
					a.Say(s, "prompt", "~s1~ one rounds=2 pace=10")
					b.Say(s, "steer", "~s1~ two")
					b.Send(`{"type":"get_messages"` + harness.At(s) + `}`)
					c := a.Connect()
					c.Call(t, `{"type":"attach"`+harness.At(s)+`}`)
					a.Advance(time.Minute)
					require.NoError(t, b.Leave())
					for _, client := range []*harness.Client{a, b, c} {
						assert.Empty(t, client.Unanswered())
					}
					a.Config.Faults.Release()
					a.RequireWorking(s, "~s1~ three")
					a.CheckAll()
				})
			})
		}
	}
}

// TestLostRouter checks that a crash of one of a connection's actors ends that connection only.
func TestLostRouter(t *testing.T) {
	for _, part := range []string{"router", "writer", "reader"} {
		t.Run(part, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				msg := map[string]string{"router": "line", "writer": "Records", "reader": "Line"}[part]
				a := harness.Start(t, harness.Faults(`Panic conn$4/`+part+` `+msg))
				s := a.Open()
				b := a.Connect()
				b.Attach(s)
				c := a.Connect()
				c.Send(`{"type":"attach"` + harness.At(s) + `}`)
				c.Close()
				assert.ErrorIs(t, c.WaitClosed(), conn.ErrConnectionBroken)
				a.RequireWorking(s, "~s1~ it goes on")
				assert.Len(t, b.Events(s, "agent_settled"), 1)
				assert.Equal(t, int64(2), a.Call(t, `{"type":"list_open_sessions"}`).Get("data.sessions.0.clients").Int())
				require.NoError(t, b.Leave())
				a.End()
				assert.NoError(t, a.Err)
			})
		})
	}
}

// TestStopWithSeveralClients checks that all clients receive the end of their runs when the daemon
// stops, and that each connection ends without an error.
func TestStopWithSeveralClients(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t)
		b, c := a.Connect(), a.Connect()
		s := b.Open()
		a.Attach(s)
		own := c.Open()
		b.Say(s, "prompt", "~"+s+"~ rounds=20 pace=1000")
		c.Say(own, "prompt", "~"+own+"~ rounds=20 pace=1000")
		a.Advance(time.Second)
		a.StopRequests <- actors.Stop{Abort: true}
		a.Wait()
		require.NoError(t, a.Err)
		require.NoError(t, b.WaitClosed())
		require.NoError(t, c.WaitClosed())
		for _, v := range []*harness.Client{a, b} {
			require.Len(t, v.Events(s, "agent_settled"), 1)
		}
		require.Len(t, c.Events(own, "agent_settled"), 1)
		assert.ErrorIs(t, a.Daemon.Connect(conn.Config{}, conn.Stdio{In: strings.NewReader("")}).Wait(), actors.ErrStopped)
		a.CheckAll()
	})
}

// TestIdleConnectionEndsNoDrain checks that the daemon drains the sessions of other clients even if
// its final connection has nothing left to wait for.
func TestIdleConnectionEndsNoDrain(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t)
		b := a.Connect()
		s := b.Open()
		b.Say(s, "prompt", "~"+s+"~ rounds=3 pace=100")
		a.Advance(time.Second)
		a.StopRequests <- actors.Stop{}
		a.Wait()
		require.NoError(t, a.Err)
		require.NoError(t, b.WaitClosed())
		settled := b.Events(s, "agent_settled")
		require.Len(t, settled, 1)
		require.Equal(t, "completed", settled[0].Get("outcome").Str)
		a.CheckAll()
	})
}

// TestHostToolsOfOneClient checks that calls of host tools are sent only to the client that has
// declared the tools, and that an open call ends when that client leaves.
func TestHostToolsOfOneClient(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t)
		s := a.Open()
		b := a.Connect()
		b.Attach(s)
		v := b.Call(t, `{"type":"set_host_tools","tools":[{"name":"ask","description":"asks","parameters":{"type":"object"}}]`+harness.At(s)+`}`)
		require.True(t, v.Get("success").Bool(), v.Raw)
		assert.False(t, a.Call(t, `{"type":"set_host_tools","tools":[{"name":""}]`+harness.At(s)+`}`).Get("success").Bool(), "what is refused takes nothing over")
		a.Say(s, "prompt", "~"+s+"~ rounds=1 tool=ask")
		a.Advance(time.Hour)
		assert.Len(t, b.Events(s, "host_tool_call"), 1)
		assert.Empty(t, a.Events(s, "host_tool_call"))
		assert.Empty(t, a.Events(s, "agent_settled"))
		require.NoError(t, b.Leave())
		a.Advance(time.Minute)
		require.Len(t, a.Events(s, "agent_settled"), 1)
		assert.Contains(t, a.Events(s, "tool_execution_end")[0].Raw, "is gone")
		assert.NotContains(t, a.Call(t, `{"type":"get_tools"`+harness.At(s)+`}`).Raw, `"ask"`)
		a.RequireWorking(s, "~"+s+"~ again")
		a.CheckAll()
	})
}

// TestAttachInTheMiddle checks that events that a session emits while it handles an attach are not
// sent to the new client before the answer.
func TestAttachInTheMiddle(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t, harness.SyncWrites, harness.Faults(`Delay 1s s1 Request 1`))
		s := a.Open()
		b := a.Connect()
		a.Send(`{"type":"get_state"` + harness.At(s) + `}`)
		a.Say(s, "prompt", "~"+s+"~ one") // waits for those that came with it: see grouped
		a.Settle()
		b.Send(`{"type":"attach"` + harness.At(s) + `}`)
		a.Advance(time.Minute)
		require.NotEmpty(t, b.Lines())
		assert.Contains(t, b.Lines()[0], `"attach"`)
		assert.Len(t, a.Events(s, "agent_start"), 1)
		assert.Empty(t, b.Events(s, "agent_start"))
		assert.Len(t, b.Events(s, "agent_settled"), 1)
		require.NoError(t, b.Leave())
		a.CheckAll()
	})
}

// TestAnswersWaitForTheirClient checks that a client that does not read does not delay the answers
// to another one. Its own answers arrive in order once it reads again, with the state at the time
// of the command.
func TestAnswersWaitForTheirClient(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t, func(c *actors.Config) { c.Conn.MaxOutput = 64 << 10 })
		s := a.Open()
		for i := range 3 {
			a.Run(s, fmt.Sprint("~"+s+"~ ", i, strings.Repeat(" word", 2000)))
		}
		b := a.Connect()
		b.Attach(s)
		queries := []string{"get_messages", "get_entries", "get_tree", "list_sessions", "get_available_models"}
		b.Stop()
		var asked []string
		for range 5 {
			asked = append(asked, b.Send(`{"type":"get_messages"`+harness.At(s)+`}`))
		}
		for range 3 {
			b.Send(`{"type":"list_sessions"` + harness.At(s) + `}`)
		}
		b.Advance(time.Minute)
		require.True(t, b.Window.Full())
		for _, q := range queries {
			v := a.Call(t, `{"type":"`+q+`"`+harness.At(s)+`}`)
			assert.True(t, v.Get("success").Bool(), v.Raw)
		}
		messages := a.Last("get_messages").Get("data").Raw
		a.Say(s, "prompt", "~"+s+"~ later") // both clients receive its events, so the run waits
		a.Advance(time.Minute)
		assert.Empty(t, a.Events(s, "agent_settled")[3:], "workers wait for every client")
		b.Go()
		b.Advance(time.Minute)
		assert.Len(t, a.Events(s, "agent_settled"), 4)
		var answered []string
		for _, l := range b.Lines() {
			if v := gjson.Parse(l); v.Get("command").Str == "get_messages" {
				answered = append(answered, v.Get("id").Str)
				assert.Equal(t, messages, v.Get("data").Raw)
			}
		}
		assert.Equal(t, asked, answered)
		require.NoError(t, b.Leave())
		a.CheckAll()
	})
}

// TestClosedBesideWhoDoesNotRead checks that close_session does not wait for another client that
// does not read: the pending commands of that client are answered with session_closing.
func TestClosedBesideWhoDoesNotRead(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t, func(c *actors.Config) { c.Conn.MaxOutput = 64 << 10 })
		s := a.Open()
		for i := range 3 {
			a.Run(s, fmt.Sprint("~"+s+"~ ", i, strings.Repeat(" word", 2000)))
		}
		b := a.Connect()
		b.Attach(s)
		b.Stop()
		for range 5 {
			b.Send(`{"type":"get_messages"` + harness.At(s) + `}`)
		}
		b.Advance(time.Minute)
		require.True(t, b.Window.Full())
		v := a.Call(t, `{"type":"close_session"`+harness.At(s)+`}`)
		assert.True(t, v.Get("success").Bool(), v.Raw)
		b.Go()
		b.Advance(time.Minute)
		assert.Empty(t, b.Unanswered())
		assert.Equal(t, "session_closing", harness.Code(b.Last("get_messages")))
		require.NoError(t, b.Leave())
		a.CheckAll()
	})
}

// TestDebitsAreOfTheClient checks that the window of a client is debited with the bytes that are
// written to that client: deltas, while another client receives whole messages.
func TestDebitsAreOfTheClient(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		const limit = 1 << 20
		a := harness.Start(t, func(c *actors.Config) { c.Conn.MaxOutput = limit })
		s := a.Open()
		b := a.Connect()
		b.Call(t, `{"type":"hello","features":["deltaUpdates"]}`)
		b.Attach(s)
		b.Stop()
		read := len(a.Lines())
		a.Say(s, "prompt", "~"+s+"~ parts=300")
		a.Advance(time.Minute)
		require.Len(t, a.Events(s, "agent_settled"), 1)
		whole := 0
		for _, l := range a.Lines()[read:] {
			whole += len(l)
		}
		_, out := b.Window.Balance()
		read = len(b.Lines())
		b.Go()
		b.Advance(time.Minute)
		steps := 0
		for _, l := range b.Lines()[read:] {
			steps += len(l)
		}
		assert.Greater(t, whole, 2*steps)
		assert.InEpsilon(t, steps, out, 0.2, "debited of what is written; %d for the other one", whole)
		_, out = b.Window.Balance()
		assert.Zero(t, out)
		require.NoError(t, b.Leave())
		a.CheckAll()
	})
}

// TestHostToolsBehindAReplacement checks that host tools belong to the client whose declaration was
// executed, even if it waited for new_session. If that client has left by then, the tools are not
// declared.
func TestHostToolsBehindAReplacement(t *testing.T) {
	for _, how := range []string{"stays", "leaves", "breaks", "detaches"} {
		t.Run(how, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				a := harness.Start(t, harness.Faults(`Delay 1s s1 loadedSession`))
				s := a.Open()
				a.Call(t, harness.DeclareTool(s, "old"))
				b := a.Connect()
				b.Attach(s)
				a.Send(`{"type":"new_session"` + harness.At(s) + `}`)
				a.Settle()
				b.Send(harness.DeclareTool(s, "ask"))
				b.Settle()
				require.NotEmpty(t, b.Unanswered(), "it waits")
				switch how {
				case "leaves":
					require.NoError(t, b.Leave())
				case "breaks":
					b.Break()
					b.Send(`{"type":"get_state"` + harness.At(s) + `}`)
					assert.Error(t, b.WaitClosed())
				case "detaches":
					b.Send(`{"type":"detach"` + harness.At(s) + `}`)
				}
				a.Advance(time.Minute)
				a.Say(s, "prompt", "~"+s+"~ rounds=1 tool=ask")
				a.Advance(time.Minute)
				assert.Empty(t, a.Events(s, "host_tool_call"))
				if how == "stays" {
					require.Len(t, b.Events(s, "host_tool_call"), 1)
					require.NoError(t, b.Leave())
					a.Advance(time.Minute)
				} else {
					assert.NotContains(t, a.Call(t, `{"type":"get_tools"`+harness.At(s)+`}`).Raw, `"ask"`)
				}
				assert.Len(t, a.Events(s, "agent_settled"), 1)
				if how == "detaches" {
					require.NoError(t, b.Leave())
				}
				a.RequireWorking(s, "~"+s+"~ again")
				a.CheckAll()
			})
		})
	}
}

// TestHostDetaches checks that a client that detaches receives no more calls of its host tools:
// open calls end, and its tools are removed.
func TestHostDetaches(t *testing.T) {
	for _, alone := range []bool{true, false} {
		t.Run(fmt.Sprintf("alone %t", alone), func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				a := harness.Start(t)
				b := a.Connect()
				s := b.Open()
				if !alone {
					a.Attach(s)
				}
				b.Call(t, harness.DeclareTool(s, "ask"))
				b.Say(s, "prompt", "~"+s+"~ rounds=1 tool=ask")
				b.Advance(time.Second)
				require.Len(t, b.Events(s, "host_tool_call"), 1)
				b.Call(t, `{"type":"detach"`+harness.At(s)+`}`)
				a.Advance(time.Minute)
				if alone {
					assert.Empty(t, a.OpenSessions(), "its run has ended")
				} else {
					require.Len(t, a.Events(s, "agent_settled"), 1)
					assert.Contains(t, a.Events(s, "tool_execution_end")[0].Raw, "is gone")
					assert.NotContains(t, a.Call(t, `{"type":"get_tools"`+harness.At(s)+`}`).Raw, `"ask"`)
					b.Attach(s)
					b.Call(t, harness.DeclareTool(s, "ask"))
					a.Say(s, "prompt", "~"+s+"~ again rounds=1 tool=ask")
					a.Advance(time.Second)
					assert.Len(t, b.Events(s, "host_tool_call"), 2, "it may declare them again")
				}
				require.NoError(t, b.Leave())
				a.CheckAll()
			})
		})
	}
}

// TestHelloOfOneClient checks that the dialect of one client changes neither the output of another
// client nor the rules of a session that both are attached to.
func TestHelloOfOneClient(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t)
		s := a.Open()
		b := a.Connect()
		b.Attach(s)
		b.Call(t, `{"type":"hello","dialect":"s4"}`) // one bash command at a time
		own := b.Open()
		for who, session := range map[*harness.Client]string{a: s, b: own} {
			who.Send(`{"type":"bash","command":"~` + session + `~b sleep=5000"` + harness.At(session) + `}`)
		}
		a.Settle()
		of := map[*harness.Client]string{}
		for who, session := range map[*harness.Client]string{a: s, b: own} {
			of[who] = who.Send(`{"type":"bash","command":"~` + session + `~c"` + harness.At(session) + `}`)
		}
		a.Advance(time.Minute)
		assert.True(t, a.Answer(t, of[a]).Get("success").Bool(), "the session has the rules of who opened it")
		assert.False(t, b.Answer(t, of[b]).Get("success").Bool(), "as chosen")
		a.Call(t, `{"type":"set_session_name","name":"x"`+harness.At(s)+`}`)
		assert.Len(t, a.Events(s, "session_info_changed"), 1)
		assert.Empty(t, b.Events(s, "session_info_changed"), "s4 has none")
		require.NoError(t, b.Leave())
		a.Call(t, `{"type":"hello","dialect":"s4"}`)
		a.Send(`{"type":"bash","command":"~` + s + `~d sleep=5000"` + harness.At(s) + `}`)
		a.Settle()
		assert.False(t, a.Call(t, `{"type":"bash","command":"~`+s+`~e"`+harness.At(s)+`}`).Get("success").Bool(), "now it is alone")
		a.Advance(time.Minute)
		a.End()
	})
}

// TestBehindAnEndThatWaits checks that a command sent after close_session is refused, even if the
// close waits for large answers.
func TestBehindAnEndThatWaits(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t, func(c *actors.Config) { c.Conn.MaxOutput = 64 << 10 })
		s := b.Open()
		for i := range 3 {
			b.Run(s, fmt.Sprint("~"+s+"~ ", i, strings.Repeat(" word", 2000)))
		}
		b.Stop()
		for range 5 {
			b.Send(`{"type":"get_messages"` + harness.At(s) + `}`)
		}
		b.Send(`{"type":"close_session"` + harness.At(s) + `}`)
		late := b.Send(`{"type":"set_session_name","name":"late"` + harness.At(s) + `}`)
		b.Advance(time.Minute)
		b.Go()
		b.Advance(time.Minute)
		assert.True(t, b.Last("get_messages").Get("success").Bool(), "what was asked before is answered")
		assert.False(t, b.Answer(t, late).Get("success").Bool())
		b.Check()
	})
}

// TestHostLeavesWhileParked checks that the tools of a host that left while the session was parked
// are gone when the session is resumed.
func TestHostLeavesWhileParked(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t, func(c *actors.Config) { c.Sessions.ParkAfter = time.Minute })
		s := a.Open()
		b := a.Connect()
		b.Attach(s)
		b.Call(t, harness.DeclareTool(s, "ask"))
		a.Run(s, "~"+s+"~ one")
		a.Advance(time.Hour)
		require.Equal(t, "parked", a.Call(t, `{"type":"list_open_sessions"}`).Get("data.sessions.0.status").Str)
		require.NoError(t, b.Leave())
		a.Advance(time.Minute)
		assert.NotContains(t, a.Call(t, `{"type":"get_tools"`+harness.At(s)+`}`).Raw, `"ask"`)
		a.CheckAll()
	})
}
