package link

import (
	"reflect"
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
