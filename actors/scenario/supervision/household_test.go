package supervision

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors"
	"troupe/actors/actortest"
	"troupe/actors/conn"
	"troupe/actors/scenario/harness"
)

// TestHouseholdSurvives checks that a panic in a connection's actors or in the parent of the
// sessions costs at most the current command. No actor is restarted, and sessions are not affected.
func TestHouseholdSurvives(t *testing.T) {
	type place struct{ actor, point string }
	places := []place{
		{"*/router", "line"}, {"*/router", "Decoded"}, {"*/router", "SessionSpawned"}, {"*/router", "Closed"}, {"*/router", "OpenList"},
		{"*/router", "inputClosed"}, {"*/router", "lineTooLong"},
		{"sessions", "SpawnSession"}, {"sessions", "Spawn"}, {"sessions", "Spawned"}, {"sessions", "status"}, {"sessions", "Closed"}, {"sessions", "ListOpen"},
		{"*/writer", "Records"}, {"*/writer", "wrote"}, {"*/writer", "flush"}, {"*/writer", "setWire"},
		{"conn", "ending"}, {"conn", "drained"}, {"conn", "flushed"},
	}
	for _, p := range places {
		for _, action := range []string{"Panic", "PanicAfter"} {
			for n := range 2 {
				if n > 0 && (p.point == "inputClosed" || p.actor == "conn" || p.point == "flush" || p.point == "setWire") {
					continue // these happen once
				}
				plan := fmt.Sprintf(`%s %s %s %d`, action, p.actor, p.point, n)
				t.Run(strings.ReplaceAll(plan, "/", "-")+fmt.Sprint(n), func(t *testing.T) {
					harness.Bubble(t, func(t *testing.T) { householdCrash(t, plan) })
				})
			}
		}
	}
}

func householdCrash(t *testing.T, plan string) {
	b := harness.Start(t, harness.Faults(plan), harness.ConfirmDanger, func(c *actors.Config) { c.Conn.MultiSession, c.Conn.MaxLine, c.Conn.MaxOutput = true, 10_000, 4_000 })
	b.Call(t, `{"type":"hello","dialect":"union"}`)
	for range 3 { // one of these may be refused
		b.Call(t, `{"type":"open_session"}`)
	}
	sessions := []string{}
	for _, l := range []string{"s1", "s2", "s3"} {
		if b.Call(t, `{"type":"get_state"`+harness.At(l)+`}`).Get("success").Bool() {
			sessions = append(sessions, l)
		}
	}
	require.GreaterOrEqual(t, len(sessions), 1)
	for range 2 {
		b.Line(`{"type":"prompt","message":"` + strings.Repeat("x", 20_000) + `"}`)
	}
	for i, s := range sessions {
		b.Say(s, "prompt", fmt.Sprintf("~%s~ rounds=3 pace=100 parts=%d", s, 100*i))
		b.Send(`{"type":"list_open_sessions"}`)
	}
	b.Crawl(5 * time.Millisecond)
	b.Stop() // until answers pile up
	for range 60 {
		b.Send(`{"type":"get_state"` + harness.At(sessions[0]) + `}`)
	}
	b.Advance(time.Second)
	b.Go()
	b.Advance(time.Hour)
	for _, s := range sessions {
		settled := b.Events(s, "agent_settled")
		if assert.Len(t, settled, 1) { // its prompt may be the command that the crash cost
			assert.Equal(t, "completed", settled[0].Get("outcome").Str)
		}
	}
	if len(sessions) > 1 {
		b.Send(`{"type":"close_session","sessionId":"` + sessions[1] + `"}`)
		b.Send(`{"type":"close_session","sessionId":"` + sessions[1] + `"}`)
	}
	b.Advance(time.Hour)
	b.Check()
	assert.Empty(t, b.Unanswered(), plan)
	assert.NotEmpty(t, b.Config.Faults.Hits(), "the fault has struck")
	assert.NoError(t, b.Err, "the connection ends in order")
	for _, s := range sessions {
		assert.Zero(t, b.Crashes(s))
	}
}

// TestHopeless checks that an actor that panics on every message ends its connection, and that
// nothing waits for it.
func TestHopeless(t *testing.T) {
	for _, plan := range []string{
		`Panic */router line`,
		`Panic */writer Records`,
		`Panic sessions SpawnSession`,
		`Panic conn ending`,
		`Panic conn flushed`,
		`Panic */reader *`,
	} {
		t.Run(strings.ReplaceAll(plan, "/", "-"), func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				b := harness.Start(t, harness.Faults(plan))
				b.Say("", "prompt", "~a~ rounds=1")
				b.Advance(time.Minute)
				b.End()
				assert.ErrorIs(t, b.Err, conn.ErrConnectionBroken)
				require.Empty(t, actortest.Check(b.History, actortest.Options{Lossy: true}))
			})
		})
	}
}

// TestOpenCrashes checks that open_session returns a handle despite a crash, and that no session is
// left if it fails for good.
func TestOpenCrashes(t *testing.T) {
	for _, plan := range []string{
		`Panic * Request 0`, `PanicAfter * Request 0`, `Panic * opened 0`,
		`Panic * Reply 0`, `Panic * opened 0; Panic * opened 0`,
	} {
		t.Run(plan, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				b := harness.Start(t, harness.Faults(plan))
				b.RequireWorking(b.Open(), "~a~")
				assert.NotEmpty(t, b.Config.Faults.Hits())
				b.Check()
			})
		})
	}
	t.Run("for good", func(t *testing.T) {
		harness.Bubble(t, func(t *testing.T) {
			b := harness.Start(t, harness.Faults(`Panic s1 opened`))
			assert.Equal(t, "session_failed", harness.Code(b.Call(t, `{"type":"open_session"}`)))
			assert.Equal(t, "unknown_session", harness.Code(b.Call(t, `{"type":"get_state","sessionId":"s1"}`)))
			assert.Equal(t, "[]", b.Call(t, `{"type":"list_open_sessions"}`).Get("data.sessions").Raw)
			b.Check()
		})
	})
}
