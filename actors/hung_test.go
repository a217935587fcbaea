package actors

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors/kernel"
)

// TestHungActors: whichever actor hangs on the goroutine that reads, others are
// served within twice the limit, and what it was told is not lost.
func TestHungActors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := start(t, faults(`Stall s1 Request 1`))
		bad, good := b.open(), b.open()
		b.pass(time.Minute)
		hung := b.Send(`{"type":"get_state"` + at(bad) + `}`)
		began := time.Now()
		for i := range 50 {
			require.True(t, b.Call(t, `{"type":"set_session_name","name":"`+fmt.Sprint(i)+`"`+at(good)+`}`).Get("success").Bool())
			require.LessOrEqual(t, time.Since(began), 2*kernel.InlineLimit)
			began = time.Now()
		}
		behind := b.Send(`{"type":"get_state"` + at(bad) + `}`)
		b.pass(time.Minute)
		require.Contains(t, b.Unanswered(), hung)
		b.cfg.Faults.Release()
		b.pass(time.Minute)
		assert.True(t, b.Answer(t, hung).Get("success").Bool())
		assert.True(t, b.Answer(t, behind).Get("success").Bool())
		b.end()
		b.check()
	})
}
