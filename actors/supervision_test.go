package actors

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors/actortest"
	"troupe/actors/session"
)

// TestBudget: five crashes in a minute are forgiven, the sixth is not. The
// others in the process do not notice.
func TestBudget(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := start(t, faults(`Panic s1 Request 1+`))
		bad := b.open()
		good := b.open()
		b.Say(good, "prompt", "~g~ rounds=5 pace=1000")
		for i := range session.MaxRestarts {
			v := b.Call(t, `{"type":"get_state"`+at(bad)+`}`)
			require.Equal(t, "internal", code(v), "crash %d", i)
			b.pass(time.Second)
		}
		require.Empty(t, b.Events(bad, "session_failed"))
		v := b.Call(t, `{"type":"get_state"`+at(bad)+`}`)
		require.Equal(t, "session_failed", code(v))
		require.Len(t, b.Events(bad, "session_failed"), 1)
		for range 3 { // whatever comes is answered, and nothing crashes any more
			require.Equal(t, "session_failed", code(b.Call(t, `{"type":"prompt","message":"x"`+at(bad)+`}`)))
		}
		require.Equal(t, session.MaxRestarts+1, b.crashes(bad))
		listed := b.Call(t, `{"type":"list_open_sessions"}`).Get("data.sessions.0")
		assert.Equal(t, "failed", listed.Get("status").Str)
		assert.NotEmpty(t, listed.Get("durableId").Str, "what it was is still known: %s", listed.Raw)
		assert.Equal(t, int64(1), listed.Get("clients").Int())

		b.pass(time.Minute)
		assert.Equal(t, "completed", b.Events(good, "agent_settled")[0].Get("outcome").Str)

		v = b.Call(t, `{"type":"close_session","sessionId":"`+bad+`"}`)
		assert.True(t, v.Get("success").Bool(), "a failed session can be let go: %s", v.Raw)
		assert.Equal(t, "unknown_session", code(b.Call(t, `{"type":"get_state"`+at(bad)+`}`)))
		b.endsWithin(time.Second)
		b.check()
	})
}

// endsWithin ends the input and says how long the daemon may take.
func (b *bench) endsWithin(limit time.Duration) {
	b.t.Helper()
	began := time.Now()
	b.end()
	require.LessOrEqual(b.t, time.Since(began), limit)
}

// TestBudget_slow: crashes that are far apart are forgiven for ever.
func TestBudget_slow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := start(t, faults(`Panic s1 Request 1+`))
		s := b.open()
		for range 20 {
			require.Equal(t, "internal", code(b.Call(t, `{"type":"get_state"`+at(s)+`}`)))
			b.pass(session.RestartWindow / (session.MaxRestarts - 1))
		}
		b.cfg.Faults.Release()
		b.heal(s, "~a~ well again")
		b.check()
	})
}

// TestFailedSessionDoesNotDelayTheEnd: nobody has to let go of it first.
func TestFailedSessionDoesNotDelayTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := start(t, faults(`Panic s1 *`))
		b.Call(t, `{"type":"open_session"}`)
		b.pass(time.Minute)
		b.Send(`{"type":"get_state","sessionId":"s1"}`)
		b.pass(time.Minute)
		require.NotEmpty(t, b.Events("s1", "session_failed"))
		b.endsWithin(time.Second)
		b.check()
	})
}

// TestRestartIsQuick: fake time does not pass while a session restarts.
func TestRestartIsQuick(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := start(t, faults(`Panic s1 Request 1`))
		s := b.open()
		began := time.Now()
		b.Call(t, `{"type":"get_state"`+at(s)+`}`)
		v := b.Call(t, `{"type":"get_state"`+at(s)+`}`)
		assert.True(t, v.Get("success").Bool(), v.Raw)
		assert.Less(t, time.Since(began), 50*time.Millisecond)
		b.check()
	})
}

// TestSettingsSurviveACrash: what clients told the session is as it was, also
// before anything is on disk.
func TestSettingsSurviveACrash(t *testing.T) {
	for _, prompted := range []bool{false, true} {
		t.Run(fmt.Sprintf("prompted %t", prompted), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := start(t, faults(`Panic s1 Request 7`))
				s := b.open()
				b.Send(`{"type":"set_model","provider":"acme","modelId":"thinker"` + at(s) + `}`)
				b.Send(`{"type":"set_thinking_level","level":"high"` + at(s) + `}`)
				b.Send(`{"type":"set_steering_mode","mode":"all"` + at(s) + `}`)
				b.Send(`{"type":"set_session_name","name":"mine"` + at(s) + `}`)
				if prompted {
					b.Say(s, "prompt", "~a~")
				} else {
					b.Send(`{"type":"get_commands"` + at(s) + `}`)
				}
				b.pass(time.Minute)
				before := b.Call(t, `{"type":"get_state"`+at(s)+`}`).Get("data")
				require.Equal(t, "internal", code(b.Call(t, `{"type":"get_state"`+at(s)+`}`)))
				after := b.Call(t, `{"type":"get_state"`+at(s)+`}`).Get("data")
				for _, member := range []string{"model.id", "thinkingLevel", "steeringMode", "sessionName", "sessionId", "sessionFile", "messageCount"} {
					assert.Equal(t, before.Get(member).String(), after.Get(member).String(), member)
				}
				b.check()
			})
		})
	}
}

// TestMemorySessionSurvivesACrash: there is no file, and still nothing is lost.
func TestMemorySessionSurvivesACrash(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := start(t, faults(`Panic s1 StreamEnd 1`))
		v := b.Call(t, `{"type":"open_session","noSession":true}`)
		s := v.Get("data.sessionId").Str
		b.run(s, "~a~ one")
		b.run(s, "~a~ two crashes")
		v = b.Call(t, `{"type":"get_messages"`+at(s)+`}`)
		assert.Contains(t, v.Raw, "~a~ one")
		assert.Contains(t, v.Raw, "~a~ two crashes")
		b.cfg.Faults.Release()
		b.heal(s, "~a~ three")
		b.end()
		b.judge(actortest.Options{})
		assert.Empty(t, b.disk.Files())
	})
}

// TestConnectionParts: a part of the connection that crashes ends the
// connection: the sessions are aborted and recorded, and Run returns.
func TestConnectionParts(t *testing.T) {
	for _, c := range []struct{ part, msg string }{
		{"reader", ""}, {"router", "line"}, {"writer", "Records"}, {"writer", "wrote"}, {"router", "Closed"}, {"router", "SessionSpawned"},
	} {
		t.Run(c.part+" "+c.msg, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := start(t, faults(fmt.Sprintf(`Panic */%s %s 3`, c.part, c.msg)))
				b.Say("", "prompt", "~a~ rounds=3 pace=1000 work=1000")
				for range 6 {
					b.Send(`{"type":"get_state"}`)
				}
				b.pass(time.Second)
				b.Close()
				began := time.Now()
				b.wait()
				assert.Less(t, time.Since(began), time.Minute)
				b.History.Add(actortest.Killed, "")
				again := startWith(t, nil, b.History, b.disk, b.models)
				for path := range b.disk.Files() {
					v := again.Call(t, fmt.Sprintf(`{"type":"open_session","sessionPath":%q}`, path))
					require.True(t, v.Get("success").Bool(), v.Raw)
					again.heal(v.Get("data.sessionId").Str, "~a~ again")
				}
				again.end()
				again.judge(actortest.Options{Files: b.disk.Files(), Mixed: true})
			})
		})
	}
}
