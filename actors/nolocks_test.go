package actors

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNoLocks: where the file system has no locks, sessions are written without
// a lease, and stderr says so once.
func TestNoLocks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := start(t, parkSoon)
		b.disk.Fail("lock * always ENOLCK")
		for range 3 {
			s := b.open()
			b.run(s, "~"+s+"~ one")
			b.pass(3 * time.Hour)
			b.heal(s, "~"+s+"~ two")
		}
		require.Len(t, b.disk.Files(), 3)
		assert.Equal(t, 1, strings.Count(b.History.Tail(10_000), "cannot be locked"))
		b.check()
	})
}
