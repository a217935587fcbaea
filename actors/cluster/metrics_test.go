package cluster_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
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
	_, err = o.Load(t.Context(), cluster.Mark{}, cluster.Keys{}, nil)
	require.NoError(t, err)
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

// TestMetricsOfDamage: a source that gives what is no log is counted once, under the name that somebody waits for, and
// the engine is told which.
func TestMetricsOfDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, engine := new(cluster.Metrics), &holey{Memory: clustertest.New(1, 0)}
		log := cluster.Measured(engine, m)
		w, err := clustertest.Own(t.Context(), log, session, "a", "1", cluster.Mark{})
		require.NoError(t, err)
		for range 3 {
			engine.hole, err = w.Append(t.Context(), []byte("line"), nil)
			require.NoError(t, err)
		}
		_, err = w.Append(t.Context(), []byte("line"), nil)
		require.NoError(t, err)
		load := func() {
			_, err = cluster.Load(t.Context(), log, session, cluster.Mark{}, w.Mark().Seq, func(cluster.Record) error { return nil })
			require.NoError(t, err)
		}
		load()
		assert.Equal(t, []string{"one"}, engine.damaged)
		assert.Contains(t, written(t, m), "# TYPE troupe_cluster_chain_errors_total counter\ntroupe_cluster_chain_errors_total 1\n")
		engine.hole = 0
		load()
		assert.Contains(t, written(t, m), "troupe_cluster_chain_errors_total 1\n", "of a good one nothing is counted")
	})
}

func written(t *testing.T, m *cluster.Metrics) string {
	t.Helper()
	var text strings.Builder
	require.NoError(t, m.Write(&text, nil))
	return text.String()
}

// TestWatched: each claim, doubt, fence and release is counted, once, and the log has a line for it with session,
// epoch and why.
func TestWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := clustertest.New(1, 0)
		var mu sync.Mutex
		var lines []string
		counts := map[string]*cluster.Metrics{}
		watched := func(name, boot string) *peer {
			counts[boot] = new(cluster.Metrics)
			return join(t, engine, name, boot, func(c *cluster.MemberConfig) {
				c.Metrics = counts[boot]
				c.Said = func(what string, values ...any) {
					mu.Lock()
					defer mu.Unlock()
					lines = append(lines, strings.TrimSpace(boot+" "+what+" "+fmt.Sprintln(values...)))
				}
			})
		}
		said := func() (all []string) {
			mu.Lock()
			defer mu.Unlock()
			all, lines = lines, nil
			return all
		}
		is := func(boot, line string) { t.Helper(); assert.Contains(t, written(t, counts[boot]), line+"\n") }
		line := func(format string, args ...any) string { return fmt.Sprintf(format, args...) }

		a, b := watched("a", "a1"), watched("b", "b1")
		settle()
		old := claim(t, a)
		assert.Equal(t, []string{line("a1 session claimed session %s epoch %d why new from", session, old.Epoch())}, said())
		is("a1", `troupe_cluster_claims_total{why="new"} 1`)

		require.NoError(t, old.Append(t.Context(), []byte("one\n"), nil))
		a.way.Cut(clustertest.Gone)
		time.AfterFunc(300*time.Millisecond, func() { a.way.Cut(clustertest.Whole) })
		require.NoError(t, old.Append(t.Context(), []byte("two\n"), nil))
		assert.Empty(t, said(), "less than a second is no doubt that anybody is told of")
		a.way.Cut(clustertest.Gone)
		time.AfterFunc(3*time.Second, func() { a.way.Cut(clustertest.Whole) })
		require.NoError(t, old.Append(t.Context(), []byte("three\n"), nil))
		got := said()
		require.Len(t, got, 1)
		assert.Contains(t, got[0], line("a1 session was in doubt session %s epoch %d for 3.", session, old.Epoch()))
		is("a1", "troupe_cluster_doubtful_seconds_count 1")
		is("a1", `troupe_cluster_doubtful_seconds_bucket{le="2.5"} 0`)
		settle()

		a.kill()
		time.Sleep(2 * time.Second)
		o := claim(t, b)
		assert.Equal(t, []string{line("b1 session claimed session %s epoch %d why dead from a", session, o.Epoch())}, said())
		is("b1", `troupe_cluster_claims_total{why="dead"} 1`)
		for range 3 { // once, however often it is tried
			require.ErrorIs(t, old.Append(t.Context(), []byte("late\n"), nil), cluster.ErrFenced)
			require.ErrorIs(t, old.Current(t.Context()), cluster.ErrFenced)
		}
		assert.Equal(t, []string{line("a1 session fenced session %s epoch %d", session, old.Epoch())}, said())
		is("a1", "troupe_cluster_fenced_total 1")

		require.NoError(t, o.Release(t.Context()))
		assert.Equal(t, []string{line("b1 session released session %s epoch %d", session, o.Epoch())}, said())
		is("b1", "troupe_cluster_released_total 1")
		o = claim(t, b)
		assert.Equal(t, []string{line("b1 session claimed session %s epoch %d why release from b", session, o.Epoch())}, said())
		is("b1", `troupe_cluster_claims_total{why="release"} 1`)

		twin := watched("b", "b2")
		young := claim(t, twin)
		assert.Equal(t, []string{line("b2 session claimed session %s epoch %d why boot from b", session, young.Epoch())}, said())
		is("b2", `troupe_cluster_claims_total{why="boot"} 1`)
		require.ErrorIs(t, o.Release(t.Context()), cluster.ErrFenced)
		assert.Equal(t, []string{line("b1 session fenced session %s epoch %d", session, o.Epoch())}, said(), "who finds it out when it gives the session up")
		is("b1", "troupe_cluster_fenced_total 1")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.Error(t, young.Release(ctx))
		assert.Empty(t, said(), "what was not said in the log is not said to be")
	})
}
