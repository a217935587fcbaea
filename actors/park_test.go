package actors

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestParkingGivesBack: sessions that fall asleep together give memory back
// once, and the next time again.
func TestParkingGivesBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var given atomic.Int32
		b := start(t, func(c *Config) {
			c.ParkAfter = time.Minute
			c.GiveBack = func() { given.Add(1) }
		})
		sessions := []string{b.open(), b.open(), b.open()}
		sleep := func(round string) {
			for _, s := range sessions {
				b.Say(s, "prompt", "~"+s+round+"~")
				b.pass(giveBackAfter / 3)
			}
			before := given.Load()
			b.pass(50 * time.Second)
			assert.Equal(t, before, given.Load(), "nobody sleeps")
			b.pass(time.Minute)
			require.Contains(t, b.Call(t, `{"type":"list_open_sessions"}`).Raw, `"parked"`)
		}
		sleep("a")
		assert.EqualValues(t, 1, given.Load())
		sleep("b")
		assert.EqualValues(t, 2, given.Load())
		b.end()
		b.check()
	})
}
