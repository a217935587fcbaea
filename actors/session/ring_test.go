package session

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"troupe/actors/link"
	"troupe/protocol"
)

// TestRing: what the ring has of events is what they were, from any of them on, and
// it is no larger than it may be.
func TestRing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := ring{on: true}
		var all []link.Item
		text := func(items []link.Item, from uint64) string {
			var b strings.Builder
			for _, it := range items {
				if it.Seq <= from {
					continue
				}
				switch ev := it.Event.(type) {
				case *protocol.MessageUpdate:
					b.WriteString(ev.Delta)
				default:
					b.WriteString("|")
				}
			}
			return b.String()
		}
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			it := link.Item{Seq: uint64(len(all) + 1), Size: link.RecordSize, Event: protocol.TurnStart{}}
			if rapid.IntRange(0, 5).Draw(t, "kind") > 0 {
				size := rapid.SampledFrom([]int{1, 7, 20_000}).Draw(t, "size")
				it.Event = &protocol.MessageUpdate{Step: protocol.UpdateDelta, Delta: strings.Repeat("x", size), Index: rapid.IntRange(0, 1).Draw(t, "block")}
				it.Size += size
			}
			all = append(all, it)
			r.add(it)
			require.LessOrEqual(t, r.bytes, DefaultRing)
		}
		last := uint64(len(all))
		since := uint64(rapid.IntRange(0, len(all)+1).Draw(t, "since"))
		got, ok := r.since(since, last)
		switch {
		case since > last:
			require.False(t, ok)
		case ok:
			require.Equal(t, text(all, since), text(got, since))
		default:
			require.Less(t, since+1, r.items[0].from)
		}
	})
}

// TestKnownBeforeTheFirstMessage: a client that has read a part of what there was before the
// first message knows of none that is open. Where the ring has forgotten that part, it may.
func TestKnownBeforeTheFirstMessage(t *testing.T) {
	r := ring{on: true}
	for seq := range uint64(4) {
		r.add(link.Item{Seq: seq + 1, Size: link.RecordSize, Event: protocol.ClientsChanged{}})
	}
	known, ok := r.known(2)
	require.True(t, ok)
	require.Empty(t, known)
	r.items = r.items[1:]
	_, ok = r.known(2)
	require.False(t, ok)
}

// TestRingCountsQueues: the content of the queues counts with its size in the ring, which keeps the
// last of several changes one after the other, and counts what it has.
func TestRingCountsQueues(t *testing.T) {
	r, sizes := ring{on: true}, new(link.Sizer)
	texts := []string{}
	for seq := range uint64(1200) {
		texts = append(texts, "a message that waits")
		var ev protocol.Event = protocol.QueueChanged{PendingMessageCount: len(texts), Steering: slices.Clone(texts)}
		if seq%3 == 0 {
			ev = &protocol.MessageUpdate{Step: protocol.UpdateDelta, Delta: strings.Repeat("x", int(seq%700))}
		}
		it := link.Item{Event: ev, Seq: seq + 1}
		sizes.Size(&it)
		r.add(it)
		held, queues := 0, 0
		for i := range r.items {
			held += r.items[i].size()
			if ev, ok := r.items[i].item.Event.(protocol.QueueChanged); ok {
				queues += len(protocol.JSON(ev.Steering))
			}
		}
		require.Equal(t, held, r.bytes)
		require.LessOrEqual(t, queues, DefaultRing)
	}
	for i, m := range r.items[1:] {
		_, is := m.item.Event.(protocol.QueueChanged)
		_, was := r.items[i].item.Event.(protocol.QueueChanged)
		require.False(t, is && was, "two changes of the queues in a row")
	}
}
