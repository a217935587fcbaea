package link

import (
	"testing"
	"testing/synctest"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors/actortest"
)

// TestWindow: what is admitted, who waits and who is woken.
func TestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actor.NewActorSystem(actortest.Quiet())
		probe := actortest.NewProbe(sys)
		const limit = 100 << 10
		w := NewWindow(limit, sys.Root)
		stop := make(chan struct{})

		huge, ok := w.Admit(10*limit, stop)
		require.True(t, ok, "a line of any size gets in when there is room at all")
		admitted := make(chan Credit, 100)
		go func() {
			defer close(admitted)
			for range cap(admitted) {
				c, ok := w.Admit(0, stop)
				if !ok {
					return
				}
				admitted <- c
			}
		}()
		actortest.Settle()
		assert.Empty(t, admitted)
		huge.GiveBack()
		actortest.Settle()
		assert.Len(t, admitted, limit/AnswerRoom)

		assert.False(t, w.Full(), "lines are no output")
		w.take(limit / 2)
		assert.True(t, w.Full())
		assert.Zero(t, w.Room())
		w.Tell(probe.PID)
		actortest.Settle()
		assert.Empty(t, probe.Take())
		w.Give(limit / 4)
		actortest.Settle()
		assert.Equal(t, []any{WindowOpen{}}, probe.Take(), "once")
		w.Give(limit / 4)
		w.Tell(probe.PID)
		actortest.Settle()
		assert.Equal(t, []any{WindowOpen{}}, probe.Take(), "it was open")

		w.take(10 * limit)
		w.Tell(probe.PID)
		w.Close()
		actortest.Settle()
		assert.Equal(t, []any{WindowOpen{}}, probe.Take(), "nobody waits for a client that is gone")
		assert.False(t, w.Full())
		_, ok = w.Admit(limit, stop)
		assert.True(t, ok)
		close(stop)
		actortest.Settle()
		require.NoError(t, sys.Root.PoisonFuture(probe.PID).Wait())
	})
}
