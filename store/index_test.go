package store

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFresh asks an index that grows for ids that are there, each of which it
// must know, and ids that are not, of which it may mistake one in eight.
func TestFresh(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	x, there := &index{}, map[uint32]bool{}
	add := func(id string) {
		line := []byte(`{"type":"session_info","id":"` + id + `","parentId":null,"timestamp":"","name":"n"}`)
		var h lineHead
		require.True(t, scanLine(line, &h))
		require.True(t, x.addLine(&h, 0, len(line)))
	}
	asked, wrong := 0, 0
	for i := range 20_000 {
		id := rnd.Uint32() % 1_000_000
		if fresh := x.fresh(id); there[id] {
			require.False(t, fresh, "%08x, of %d", id, i)
		} else if asked++; !fresh {
			wrong++
		}
		add(fmt.Sprintf("%08x", id))
		there[id] = true
		require.False(t, x.fresh(id))
		if i%100 == 0 {
			add(fmt.Sprintf("wide-%d", i))
		}
	}
	for id := range there {
		require.False(t, x.fresh(id))
	}
	require.LessOrEqual(t, wrong, asked/8)
	require.NotZero(t, wrong, "the bits are few")
}
