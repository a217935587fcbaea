package conn

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"

	"troupe/actors/actortest"
	"troupe/actors/link"
	"troupe/protocol"
	"troupe/protocol/pi"
)

// TestOneOfMany: a client of which there may be a thousand is written to at once, and has
// neither buffers nor a goroutine between two writes; what comes close behind another is
// written together.
func TestOneOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &counting{}
		wire, _, _ := protocol.DialectUnion.Open("seq")
		b := newBinOn(out, 1<<20, wire)
		var w *writer
		b.writer = b.probe.Spawn(b.sys, actor.PropsFromProducer(func() actor.Actor {
			w = newWriter(out, &b.runs, b.window, pi.Codec{}, wire, zerolog.Nop(), lag{most: 1 << 20})
			return w
		}))
		free := func() bool { return w.batch.buffers == nil && w.sink.chunks == nil }
		actortest.Settle()
		assert.True(t, free())
		event := link.Item{Event: protocol.TurnStart{}}
		for range 3 {
			time.Sleep(2 * gatherTime)
			b.tell(event)
			actortest.Settle()
			assert.True(t, free())
		}
		assert.Equal(t, "try try try", out.String())
		b.tell(event) // in the same millisecond
		actortest.Settle()
		assert.Equal(t, "try try try write", out.String())
		assert.True(t, free())
		time.Sleep(2 * gatherTime)
		out.half = true
		b.tell(event)
		actortest.Settle()
		assert.Equal(t, "try try try write try write", out.String(), "what did not go at once waits for the client")
		assert.True(t, free())
		assert.NoError(t, b.sys.Root.PoisonFuture(b.probe.PID).Wait())
	})
}

// counting is an output that notes how it is written to.
type counting struct {
	how  []string
	half bool
}

func (c *counting) String() string { return strings.Join(c.how, " ") }

func (c *counting) Write(p []byte) (int, error) {
	c.how = append(c.how, "write")
	return len(p), nil
}

func (c *counting) TryWrite(p []byte) (int, error) {
	c.how = append(c.how, "try")
	if c.half {
		return len(p) / 2, nil
	}
	return len(p), nil
}
