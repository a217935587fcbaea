package supervision

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors/actortest"
	"troupe/actors/scenario/harness"
	"troupe/actors/session"
)

// TestBudget checks that a session is restarted after five crashes in a minute and fails with the
// sixth, and that other sessions are not affected.
func TestBudget(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t, harness.Faults(`Panic s1 Request 1+`))
		bad := b.Open()
		good := b.Open()
		b.Say(good, "prompt", "~g~ rounds=5 pace=1000")
		for i := range session.MaxRestarts {
			v := b.Call(t, `{"type":"get_state"`+harness.At(bad)+`}`)
			require.Equal(t, "internal", harness.Code(v), "crash %d", i)
			b.Advance(time.Second)
		}
		require.Empty(t, b.Events(bad, "session_failed"))
		v := b.Call(t, `{"type":"get_state"`+harness.At(bad)+`}`)
		require.Equal(t, "session_failed", harness.Code(v))
		require.Len(t, b.Events(bad, "session_failed"), 1)
		b.Example(b.Events(bad, "session_failed")[0], "")
		for range 3 { // all commands are answered, and nothing crashes any more
			require.Equal(t, "session_failed", harness.Code(b.Call(t, `{"type":"prompt","message":"x"`+harness.At(bad)+`}`)))
		}
		require.Equal(t, session.MaxRestarts+1, b.Crashes(bad))
		listed := b.Call(t, `{"type":"list_open_sessions"}`).Get("data.sessions.0")
		assert.Equal(t, "failed", listed.Get("status").Str)
		assert.NotEmpty(t, listed.Get("durableId").Str, "what it was is still known: %s", listed.Raw)
		assert.Equal(t, int64(1), listed.Get("clients").Int())

		b.Advance(time.Minute)
		assert.Equal(t, "completed", b.Events(good, "agent_settled")[0].Get("outcome").Str)

		v = b.Call(t, `{"type":"close_session","sessionId":"`+bad+`"}`)
		assert.True(t, v.Get("success").Bool(), "a failed session can be let go: %s", v.Raw)
		assert.Equal(t, "unknown_session", harness.Code(b.Call(t, `{"type":"get_state"`+harness.At(bad)+`}`)))
		b.EndWithin(time.Second)
		b.Check()
	})
}

// TestBudget_slow checks that a session whose crashes are far apart is always restarted.
func TestBudget_slow(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t, harness.Faults(`Panic s1 Request 1+`))
		s := b.Open()
		for range 20 {
			require.Equal(t, "internal", harness.Code(b.Call(t, `{"type":"get_state"`+harness.At(s)+`}`)))
			b.Advance(session.RestartWindow / (session.MaxRestarts - 1))
		}
		b.Config.Faults.Release()
		b.RequireWorking(s, "~a~ well again")
		b.Check()
	})
}

// TestFailedSessionDoesNotDelayTheEnd checks that the daemon ends at once although a failed session
// is still open.
func TestFailedSessionDoesNotDelayTheEnd(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t, harness.Faults(`Panic s1 *`))
		b.Call(t, `{"type":"open_session"}`)
		b.Advance(time.Minute)
		b.Send(`{"type":"get_state","sessionId":"s1"}`)
		b.Advance(time.Minute)
		require.NotEmpty(t, b.Events("s1", "session_failed"))
		b.EndWithin(time.Second)
		b.Check()
	})
}

// TestRestartIsQuick checks that a session restarts without a delay.
func TestRestartIsQuick(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t, harness.Faults(`Panic s1 Request 1`))
		s := b.Open()
		began := time.Now()
		b.Call(t, `{"type":"get_state"`+harness.At(s)+`}`)
		v := b.Call(t, `{"type":"get_state"`+harness.At(s)+`}`)
		assert.True(t, v.Get("success").Bool(), v.Raw)
		assert.Less(t, time.Since(began), 50*time.Millisecond)
		b.Check()
	})
}

// TestSettingsSurviveACrash checks that settings are kept after a crash, also before anything is on
// disk.
func TestSettingsSurviveACrash(t *testing.T) {
	for _, prompted := range []bool{false, true} {
		t.Run(fmt.Sprintf("prompted %t", prompted), func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				b := harness.Start(t, harness.Faults(`Panic s1 Request 7`))
				s := b.Open()
				b.Send(`{"type":"set_model","provider":"acme","modelId":"thinker"` + harness.At(s) + `}`)
				b.Send(`{"type":"set_thinking_level","level":"high"` + harness.At(s) + `}`)
				b.Send(`{"type":"set_steering_mode","mode":"all"` + harness.At(s) + `}`)
				b.Send(`{"type":"set_session_name","name":"mine"` + harness.At(s) + `}`)
				if prompted {
					b.Say(s, "prompt", "~a~")
				} else {
					b.Send(`{"type":"get_commands"` + harness.At(s) + `}`)
				}
				b.Advance(time.Minute)
				before := b.Call(t, `{"type":"get_state"`+harness.At(s)+`}`).Get("data")
				require.Equal(t, "internal", harness.Code(b.Call(t, `{"type":"get_state"`+harness.At(s)+`}`)))
				after := b.Call(t, `{"type":"get_state"`+harness.At(s)+`}`).Get("data")
				for _, member := range []string{"model.id", "thinkingLevel", "steeringMode", "sessionName", "sessionId", "sessionFile", "messageCount"} {
					assert.Equal(t, before.Get(member).String(), after.Get(member).String(), member)
				}
				b.Check()
			})
		})
	}
}

// TestMemorySessionSurvivesACrash checks that a session in memory loses no message when it crashes.
func TestMemorySessionSurvivesACrash(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t, harness.Faults(`Panic s1 StreamEnd 1`))
		v := b.Call(t, `{"type":"open_session","noSession":true}`)
		s := v.Get("data.sessionId").Str
		b.Run(s, "~a~ one")
		b.Run(s, "~a~ two crashes")
		v = b.Call(t, `{"type":"get_messages"`+harness.At(s)+`}`)
		assert.Contains(t, v.Raw, "~a~ one")
		assert.Contains(t, v.Raw, "~a~ two crashes")
		b.Config.Faults.Release()
		b.RequireWorking(s, "~a~ three")
		b.End()
		b.Judge(actortest.Options{})
		assert.Empty(t, b.Disk.Files())
	})
}

// TestConnectionParts checks that a crash of one of a connection's actors ends the connection, and
// that its sessions are aborted, recorded and can be opened again.
func TestConnectionParts(t *testing.T) {
	for _, c := range []struct{ part, msg string }{
		{"reader", ""}, {"router", "line"}, {"writer", "Records"}, {"writer", "wrote"}, {"router", "Closed"}, {"router", "SessionSpawned"},
	} {
		t.Run(c.part+" "+c.msg, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				b := harness.Start(t, harness.Faults(fmt.Sprintf(`Panic */%s %s 3`, c.part, c.msg)))
				b.Say("", "prompt", "~a~ rounds=3 pace=1000 work=1000")
				for range 6 {
					b.Send(`{"type":"get_state"}`)
				}
				b.Advance(time.Second)
				b.Close()
				began := time.Now()
				b.Wait()
				assert.Less(t, time.Since(began), time.Minute)
				b.History.Add(actortest.Killed, "")
				again := harness.StartWith(t, nil, b.History, b.Disk, b.Models)
				for path := range b.Disk.Files() {
					v := again.Call(t, fmt.Sprintf(`{"type":"open_session","sessionPath":%q}`, path))
					require.True(t, v.Get("success").Bool(), v.Raw)
					again.RequireWorking(v.Get("data.sessionId").Str, "~a~ again")
				}
				again.End()
				again.Judge(actortest.Options{Files: b.Disk.Files(), Mixed: true})
			})
		})
	}
}
