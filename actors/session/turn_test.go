package session

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/assert"

	"troupe/actors/kernel"
)

// TestTurnOfACrash: what a turn waits for may panic. Then nothing of it counts as done: the turn ends where it
// waits, and nothing is told of what comes behind.
func TestTurnOfACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turn turn
		var said []string
		sys := actor.NewActorSystem()
		pid := sys.Root.Spawn(actor.PropsFromFunc(func(c actor.Context) {
			handle := func(any) {
				err := turn.wait(c, func(context.Context) error { panic("the engine") })
				said = append(said, "went on", err.Error())
			}
			switch m := c.Message().(type) {
			case string:
				turn.take(m, handle)
			case wentOn:
				turn.resume(m, handle)
			case kernel.Crashed:
				turn.abandon()
				said = append(said, "crashed")
			}
		}))
		sys.Root.Send(pid, "append")
		synctest.Wait()
		assert.Equal(t, []string{"crashed"}, said)
	})
}
