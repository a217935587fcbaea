package conn

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"

	"troupe/actors/actortest"
	"troupe/actors/link"
	"troupe/protocol"
	"troupe/protocol/pi"
)

// TestOneRecordAlwaysFits: a record that is as large as all that may wait, or larger, is
// not dropped, with little ones beside it. Several such are.
func TestOneRecordAlwaysFits(t *testing.T) {
	const limit = 4 << 10
	long := func(seq uint64) link.Item {
		return link.Item{Event: protocol.MessageEnd{Message: protocol.Seal(&protocol.UserMessage{Content: protocol.TextContent(strings.Repeat("x", 3*limit))})}, Seq: seq, Size: 3 * limit}
	}
	little := func(seq uint64) link.Item { return link.Item{Event: protocol.TurnStart{}, Seq: seq} }
	for _, of := range []struct {
		name  string
		waits []link.Item
		reads string
	}{
		{"alone", []link.Item{long(2)}, "turn_start message_end"},
		{"with others", []link.Item{little(2), long(3), little(4)}, "turn_start turn_start message_end turn_start"},
		{"two of them", []link.Item{little(2), long(3), long(4)}, "turn_start resync"},
	} {
		t.Run(of.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := actortest.NewClient(&actortest.History{})
				wire, _, _ := protocol.DialectUnion.Open("seq")
				b := newBinOn(client.Out(), 1<<20, wire)
				b.Client, b.window = client, link.NewLossyWindow(1<<20, b.sys.Root)
				writer := b.probe.Spawn(b.sys, actor.PropsFromProducer(func() actor.Actor {
					return newWriter(client.Out(), &b.runs, b.window, pi.Codec{}, wire, zerolog.Nop(), lag{most: limit})
				}))
				b.writer = writer
				b.Stop()
				b.tell(little(1))
				actortest.Settle() // is being written
				b.tell(of.waits...)
				actortest.Settle()
				b.Go()
				actortest.Settle()
				var kinds []string
				for _, l := range b.Events("s1") {
					kinds = append(kinds, l.Get("type").Str)
				}
				assert.Equal(t, of.reads, strings.Join(kinds, " "))
				b.end(t)
			})
		})
	}
}

// TestLongRecordOfAnotherSession: the events of a session that has too many waiting are dropped;
// the one long record of another session, which may wait, is not dropped with them.
func TestLongRecordOfAnotherSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 4 << 10
		client := actortest.NewClient(&actortest.History{})
		wire, _, _ := protocol.DialectUnion.Open("seq")
		b := newBinOn(client.Out(), 1<<20, wire)
		b.Client, b.window = client, link.NewLossyWindow(1<<20, b.sys.Root)
		b.writer = b.probe.Spawn(b.sys, actor.PropsFromProducer(func() actor.Actor {
			return newWriter(client.Out(), &b.runs, b.window, pi.Codec{}, wire, zerolog.Nop(), lag{most: limit})
		}))
		send := func(tag string, seq uint64, size int) {
			link.Client{Writer: b.writer, Window: b.window, Tag: tag}.Send(b.sys.Root, link.Item{Event: protocol.TurnStart{}, Seq: seq, Size: size})
		}
		b.Stop()
		send("s0", 1, 1)
		actortest.Settle() // is being written
		send("s2", 1, 3*limit)
		for seq := range uint64(3) {
			send("s1", seq+1, limit/2)
		}
		actortest.Settle()
		b.Go()
		actortest.Settle()
		read := map[string][]string{}
		for _, tag := range []string{"s1", "s2"} {
			for _, l := range b.Events(tag) {
				read[tag] = append(read[tag], l.Get("type").Str)
			}
		}
		assert.Equal(t, map[string][]string{"s1": {"resync"}, "s2": {"turn_start"}}, read)
		b.end(t)
	})
}

// TestShareOfWhatMayWait: a few clients that do not read have their own limit; many share what
// may wait for all.
func TestShareOfWhatMayWait(t *testing.T) {
	var others atomic.Int64
	l := lag{most: 1 << 20, others: &others}
	for n, want := range map[int64]int{0: 1 << 20, 1: 1 << 20, 256: 1 << 20, 512: 1 << 19, 1024: 1 << 18} {
		others.Store(n)
		assert.Equal(t, want, l.limit(), n)
	}
}
