package store_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/store"
)

// TestAppendAllocations: what an append allocates does not depend on how long
// the session is.
func TestAppendAllocations(t *testing.T) {
	e := protocol.MessageEntry{Message: protocol.Seal(benchMessage(1).(*protocol.AssistantMessage))}
	for _, history := range []int{100, 20_000} {
		t.Run(fmt.Sprint(history), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s.jsonl")
			writeSession(t, path, history)
			l, err := store.OpenLog(store.OS{}, path, store.Options{})
			require.NoError(t, err)
			defer l.Close()
			n := testing.AllocsPerRun(500, func() {
				if _, err := l.Append(e, bench0, true); err != nil {
					t.Fatal(err)
				}
			})
			t.Logf("%v allocations", n)
			require.LessOrEqual(t, n, 8.0) // 7, one of them the path of the stamp, and one more with the race detector
		})
	}
}
