package link

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"troupe/protocol"
)

// TestMerge: only neighbours of an event become one whose row says so.
func TestMerge(t *testing.T) {
	for _, row := range protocol.Events {
		ev := reflect.New(row.Event).Elem()
		if row.Event.Kind() == reflect.Pointer {
			ev.Set(reflect.ValueOf(&protocol.MessageUpdate{Step: protocol.UpdateDelta}))
		}
		it := Item{Event: ev.Interface().(protocol.Event)}
		require.Equal(t, row.Merges, it.Merge(it), row.Name)
	}
}

// TestQueueRecords: a client that is not shown the content of the queues does not hold it, and is
// not debited for it.
func TestQueueRecords(t *testing.T) {
	queue := protocol.QueueChanged{PendingMessageCount: 2, Steering: []string{strings.Repeat("x", 10_000)}, FollowUp: []string{"b"}}
	for _, features := range [][]string{nil, {"queueUpdate"}} {
		wire, _, _ := protocol.DialectUnion.Open(features...)
		items := []Item{{Event: queue}}
		new(Sizer).Size(&items[0])
		require.Greater(t, items[0].Size, 10_000)
		cl := Client{Wire: &wire}
		cl.measure(&items[0])
		if features != nil {
			require.Equal(t, queue, items[0].Event)
			require.Greater(t, items[0].Size, 10_000)
			continue
		}
		require.Equal(t, protocol.QueueChanged{PendingMessageCount: 2}, items[0].Event)
		require.Equal(t, RecordSize, items[0].Size)
	}
}
