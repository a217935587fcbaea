package jetstream

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors/cluster"
)

// TestNewerRecord (C16): what only a newer version reads is called that, whatever else is in it, and is no damaged record; headers
// that are not known harm nobody.
func TestNewerRecord(t *testing.T) {
	h := headers(cluster.Record{Kind: cluster.Lines, Node: "a", Boot: "a-1", Prev: 1, Epoch: 1, N: 1, Sum: 7})
	h.Set("T-Tomorrow", "x")
	r, err := record(2, h, []byte("one"))
	require.NoError(t, err)
	assert.Equal(t, "one", string(r.Lines))
	h.Set("T-V", strconv.Itoa(cluster.Format+1))
	for range 2 {
		_, err = record(2, h, nil)
		assert.ErrorIs(t, err, cluster.ErrNewer)
		assert.ErrorContains(t, err, strconv.Itoa(cluster.Format+1))
		h.Set("T-N", "of another shape")
	}
	h.Set("T-V", "none")
	_, err = record(2, h, nil)
	assert.ErrorIs(t, err, cluster.ErrDamaged)
}
