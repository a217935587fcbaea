package supervision

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors/kernel"
	"troupe/actors/scenario/harness"
)

// TestHungActors checks that an actor that hangs on the reading goroutine delays others by at most
// twice the inline limit, and that its messages are not lost.
func TestHungActors(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t, harness.Faults(`Stall s1 Request 1`))
		bad, good := b.Open(), b.Open()
		b.Advance(time.Minute)
		hung := b.Send(`{"type":"get_state"` + harness.At(bad) + `}`)
		began := time.Now()
		for i := range 50 {
			require.True(t, b.Call(t, `{"type":"set_session_name","name":"`+fmt.Sprint(i)+`"`+harness.At(good)+`}`).Get("success").Bool())
			require.LessOrEqual(t, time.Since(began), 2*kernel.InlineLimit)
			began = time.Now()
		}
		behind := b.Send(`{"type":"get_state"` + harness.At(bad) + `}`)
		b.Advance(time.Minute)
		require.Contains(t, b.Unanswered(), hung)
		b.Config.Faults.Release()
		b.Advance(time.Minute)
		assert.True(t, b.Answer(t, hung).Get("success").Bool())
		assert.True(t, b.Answer(t, behind).Get("success").Bool())
		b.End()
		b.Check()
	})
}
