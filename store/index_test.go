package store

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHas asks an index that grows for ids that are there and ids that are not.
func TestHas(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	x, there := &index{}, map[string]bool{}
	add := func(id string) {
		line := []byte(`{"type":"session_info","id":"` + id + `","parentId":null,"timestamp":"","name":"n"}`)
		var h lineHead
		require.True(t, scanLine(line, &h))
		require.True(t, x.addLine(&h, 0, len(line)))
		there[id] = true
	}
	for i := range 5000 {
		id := fmt.Sprintf("%08x", rnd.Uint32()%20_000) // often one that is there
		require.Equal(t, there[id], x.has(id), "%s, of %d", id, len(x.slots))
		if i%3 == 0 {
			id = "wide-" + id
			require.Equal(t, there[id], x.has(id))
		}
		add(id)
		require.True(t, x.has(id))
	}
	for id := range there {
		require.True(t, x.has(id), id)
	}
	require.False(t, x.has(""))
}
