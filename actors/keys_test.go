package actors

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"troupe/actors/actortest"
)

// TestKeysOutliveTheSession: a repeated message runs nothing after the session
// was parked, has crashed, or was killed, whatever its key looks like.
func TestKeysOutliveTheSession(t *testing.T) {
	for _, key := range []string{`k`, `#`, `a#b`, `a#`, `#a#b#`, `\"\\`, `\n\u0000`, `😀#`, `\ud800#`} {
		for _, how := range []string{"park", "crash", "kill"} {
			t.Run(fmt.Sprintf("%q %s", key, how), func(t *testing.T) {
				bubble(t, func(t *testing.T) { keyOutlives(t, key, how) })
			})
		}
	}
}

func keyOutlives(t *testing.T, key, how string) {
	named := `"idempotencyKey":"` + key + `"`
	b := start(t, faults(`Panic s1 Request 3`), func(c *Config) { c.Sessions.ParkAfter = 2 * time.Hour })
	if how != "crash" {
		b.cfg.Faults.Release()
	}
	s := b.open()
	first := b.Say(s, "prompt", "~a~ one", named)
	b.pass(time.Minute)
	assert.Equal(t, "started", b.Answer(t, first).Get("data.disposition").Str)
	switch how {
	case "park":
		b.pass(3 * time.Hour)
		assert.Contains(t, b.Call(t, `{"type":"list_open_sessions"}`).Raw, `"parked"`)
	case "crash":
		b.Send(`{"type":"get_state"` + at(s) + `}`)
		b.Send(`{"type":"get_state"` + at(s) + `}`)
		b.pass(time.Minute)
		b.cfg.Faults.Release()
		assert.Equal(t, 1, b.crashes(s))
	case "kill":
		h, disk := b.History.Fork(), b.disk.Killed()
		h.Add(actortest.Killed, "")
		b.abandon()
		b = startWith(t, nil, h, disk, b.models)
		s = b.reopen(1)
	}
	again := b.Say(s, "prompt", "~a~ one", named)
	b.pass(time.Minute)
	assert.Equal(t, "started", b.Answer(t, again).Get("data.disposition").Str)
	other := b.Say(s, "prompt", "~a~ two", named)
	b.pass(time.Minute)
	assert.Equal(t, "conflict", code(b.Answer(t, other)))
	assert.Equal(t, []string{"~a~ one"}, b.models.Asked(), "it ran once")
}
