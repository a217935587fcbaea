package cluster_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors/cluster"
)

// TestPlace (C17): a session is nowhere only if no node has what it wants, and the answer
// says what that is; a node that goes moves its own sessions and no others; the order in which
// nodes are known does not matter, and each gets its share.
func TestPlace(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 17))
		var nodes []cluster.Seen
		for i := range 1 + rng.IntN(6) {
			n := cluster.Node{Name: fmt.Sprint("n", i), Doing: cluster.Doing{Draining: rng.IntN(6) == 0}, Labels: map[string]string{}, Roots: map[string]cluster.Root{}}
			if rng.IntN(2) == 0 {
				n.Labels["gpu"] = "yes"
			}
			if rng.IntN(2) == 0 {
				n.Roots["code"] = cluster.Root{Mode: []cluster.Mode{cluster.Pinned, cluster.Shared, cluster.Git, cluster.None}[rng.IntN(4)]}
			}
			nodes = append(nodes, cluster.Seen{Node: n, Lives: rng.IntN(5) > 0})
		}
		var want cluster.Wants
		if rng.IntN(2) == 0 {
			want.Labels = map[string]string{"gpu": "yes"}
		}
		if rng.IntN(2) == 0 {
			want.Root, want.Node = "code", []string{"", "n0", "n1"}[rng.IntN(3)]
		}
		fit := func(n cluster.Seen) bool {
			r, has := n.Roots["code"]
			return n.Lives && !n.Draining && (want.Labels == nil || n.Labels["gpu"] == "yes") &&
				(want.Root == "" || want.Node == n.Name || has && (r.Mode != cluster.Pinned || want.Node == ""))
		}
		id := cluster.SessionID(fmt.Sprint("session-", seed))
		at, err := cluster.Place(id, want, nodes)
		fits := 0
		for _, n := range nodes {
			if fit(n) {
				fits++
			}
		}
		if fits == 0 {
			require.ErrorIs(t, err, cluster.ErrNowhere, seed)
			for _, n := range nodes {
				says := n.Name
				if r, has := n.Roots["code"]; has && r.Mode == cluster.Pinned && n.Lives && !n.Draining && want.Root != "" && want.Node != "" && want.Node != n.Name {
					says = "the root code of the session is on " + want.Node
				}
				assert.Contains(t, err.Error(), says, seed)
			}
			continue
		}
		require.NoError(t, err, seed)
		rng.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
		again, _ := cluster.Place(id, want, nodes)
		assert.Equal(t, at, again)
		for i, n := range nodes {
			if n.Name == at.Name {
				assert.True(t, fit(n), "%d: %s", seed, at.Name)
				continue
			}
			nodes[i].Lives = false
			without, _ := cluster.Place(id, want, nodes)
			assert.Equal(t, at, without, "%d: another node that goes changes nothing", seed)
			nodes[i].Lives = n.Lives
		}
	}
	count := map[string]int{}
	var nodes []cluster.Seen
	for _, name := range []string{"a", "b", "c"} {
		nodes = append(nodes, cluster.Seen{Node: cluster.Node{Name: name}, Lives: true})
	}
	for i := range 3000 {
		at, _ := cluster.Place(cluster.SessionID(fmt.Sprintf("%08d", i)), cluster.Wants{}, nodes)
		count[at.Name]++
	}
	for _, n := range nodes {
		assert.InDelta(t, 1000, count[n.Name], 120)
	}
	_, err := cluster.Place("x", cluster.Wants{}, nil)
	assert.EqualError(t, err, "no node can take the session: there is no node")
}
