package cluster_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors/cluster"
	"troupe/actors/cluster/clustertest"
)

// TestMetrics: what is appended, refused and claimed is counted, as Prometheus reads it.
func TestMetrics(t *testing.T) {
	m := new(cluster.Metrics)
	log := cluster.Measured(clustertest.New(1, 0), m)
	_, err := log.Append(t.Context(), "session-1", 0, cluster.Record{Kind: cluster.Claim})
	require.NoError(t, err)
	_, err = log.Append(t.Context(), "session-1", 0, cluster.Record{Kind: cluster.Claim})
	require.ErrorIs(t, err, cluster.ErrConflict)
	node := cluster.Join(cluster.MemberConfig{Self: cluster.Node{Name: "a", Boot: "1"}, Log: log, Registry: log, Metrics: m})
	o, err := node.Claim(t.Context(), "session-2", cluster.Wants{}, cluster.Mark{})
	require.NoError(t, err)
	require.NoError(t, o.Load(t.Context(), cluster.Mark{}, cluster.Keys{}, nil))
	require.NoError(t, o.Release(t.Context()))
	m.Took("troupe_cluster_relay_seconds", 3*time.Millisecond)
	var text strings.Builder
	require.NoError(t, m.Write(&text, map[string]float64{"troupe_cluster_lease": 1}))
	for _, line := range []string{
		"# TYPE troupe_cluster_lease gauge\ntroupe_cluster_lease 1\n",
		`troupe_cluster_append_retries_total{why="conflict"} 1` + "\n",
		`troupe_cluster_claims_total{why="new"} 1` + "\n",
		"troupe_cluster_released_total 1\n",
		"troupe_cluster_load_seconds_count 1\n",
		"troupe_cluster_append_seconds_count 3\n",
		`troupe_cluster_relay_seconds_bucket{le="0.0025"} 0` + "\n" + `troupe_cluster_relay_seconds_bucket{le="0.005"} 1` + "\n",
	} {
		assert.Contains(t, text.String(), line)
	}
}
