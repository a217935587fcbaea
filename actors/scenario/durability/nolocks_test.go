package durability

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors/scenario/harness"
)

// TestNoLocks checks that sessions work on a file system without locks, and that this is logged
// once.
func TestNoLocks(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t, harness.ParkSoon)
		b.Disk.Fail("lock * always ENOLCK")
		for range 3 {
			s := b.Open()
			b.Run(s, "~"+s+"~ one")
			b.Advance(3 * time.Hour)
			b.RequireWorking(s, "~"+s+"~ two")
		}
		require.Len(t, b.Disk.Files(), 3)
		assert.Equal(t, 1, strings.Count(b.History.Tail(10_000), "cannot be locked"))
		b.Check()
	})
}
