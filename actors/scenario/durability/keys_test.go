package durability

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"troupe/actors"
	"troupe/actors/actortest"
	"troupe/actors/scenario/harness"
)

// TestKeysOutliveTheSession checks that a message with a known idempotency key does not run again
// after the session was parked, has crashed or was killed, for unusual keys too.
func TestKeysOutliveTheSession(t *testing.T) {
	for _, key := range []string{`k`, `#`, `a#b`, `a#`, `#a#b#`, `\"\\`, `\n\u0000`, `😀#`, `\ud800#`} {
		for _, how := range []string{"park", "crash", "kill"} {
			t.Run(fmt.Sprintf("%q %s", key, how), func(t *testing.T) {
				harness.Bubble(t, func(t *testing.T) { keyOutlives(t, key, how) })
			})
		}
	}
}

func keyOutlives(t *testing.T, key, how string) {
	named := `"idempotencyKey":"` + key + `"`
	b := harness.Start(t, harness.Faults(`Panic s1 Request 3`), func(c *actors.Config) { c.Sessions.ParkAfter = 2 * time.Hour })
	if how != "crash" {
		b.Config.Faults.Release()
	}
	s := b.Open()
	first := b.Say(s, "prompt", "~a~ one", named)
	b.Advance(time.Minute)
	assert.Equal(t, "started", b.Answer(t, first).Get("data.disposition").Str)
	switch how {
	case "park":
		b.Advance(3 * time.Hour)
		assert.Contains(t, b.Call(t, `{"type":"list_open_sessions"}`).Raw, `"parked"`)
	case "crash":
		b.Send(`{"type":"get_state"` + harness.At(s) + `}`)
		b.Send(`{"type":"get_state"` + harness.At(s) + `}`)
		b.Advance(time.Minute)
		b.Config.Faults.Release()
		assert.Equal(t, 1, b.Crashes(s))
	case "kill":
		h, disk := b.History.Fork(), b.Disk.Killed()
		h.Add(actortest.Killed, "")
		b.Abandon()
		b = harness.StartWith(t, nil, h, disk, b.Models)
		s = reopen(b, 1)
	}
	again := b.Say(s, "prompt", "~a~ one", named)
	b.Advance(time.Minute)
	assert.Equal(t, "started", b.Answer(t, again).Get("data.disposition").Str)
	other := b.Say(s, "prompt", "~a~ two", named)
	b.Advance(time.Minute)
	assert.Equal(t, "conflict", harness.Code(b.Answer(t, other)))
	assert.Equal(t, []string{"~a~ one"}, b.Models.Asked(), "it ran once")
}
