package cluster_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"troupe/actors/cluster"
	"troupe/actors/cluster/clustertest"
	"troupe/actors/cluster/jetstream"
	"troupe/actors/cluster/postgres"
	"troupe/e2e/cluster/engines"
)

// real says that servers may be started: what is missing for it is a failure then.
var real = flag.Bool("cluster", false, "run the engines of a cluster")

func needsCluster(t *testing.T) {
	t.Helper()
	if !*real {
		t.Skip("make cluster runs it")
	}
}

// beside says that a test runs while others do, behind those that want the machine: nothing of it is judged by
// how long it takes.
func beside(t *testing.T) {
	t.Helper()
	needsCluster(t)
	if !*chaosLong {
		t.Parallel()
	}
}

// natsServers are some servers that are set up.
func natsServers(t *testing.T, opt engines.NatsOptions) *engines.Nats {
	t.Helper()
	needsCluster(t)
	binary, err := engines.Server("../..")
	require.NoError(t, err)
	opt.Binary = binary
	if opt.Dir == "" {
		opt.Dir = t.TempDir()
	}
	n, err := engines.StartNats(opt)
	t.Cleanup(n.Close)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	require.NoError(t, n.Listening(ctx))
	cfg := natsConfig(t, n, 0)
	if opt.Sync != "" { // which would be seen, and refused
		require.ErrorIs(t, jetstream.Init(ctx, cfg, jetstream.Options{}), cluster.ErrSettings)
		cfg.System = ""
	}
	require.NoError(t, jetstream.Init(ctx, cfg, jetstream.Options{}))
	return n
}

func natsConfig(t *testing.T, n *engines.Nats, first int) jetstream.Config {
	return jetstream.Config{URL: n.URL(first), System: n.System(), Single: len(n.Servers) == 1, Warn: func(s string) { t.Log(s) }}
}

func TestSuite_jetstream(t *testing.T) {
	beside(t)
	n := natsServers(t, engines.NatsOptions{N: 3})
	next := 0
	clustertest.Suite(t, func(t *testing.T) cluster.Engine {
		next++
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		e, err := jetstream.Open(ctx, natsConfig(t, n, next))
		require.NoError(t, err)
		t.Cleanup(func() { _ = e.Close() })
		return e
	})
}

// postgresPair is a primary with a standby that is set up.
func postgresPair(t *testing.T) *engines.Postgres {
	t.Helper()
	needsCluster(t)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	dir := t.TempDir()
	p, err := engines.StartPostgres(ctx, dir)
	t.Cleanup(func() {
		if t.Failed() {
			tailLogs(t, dir)
		}
	})
	if p != nil {
		t.Cleanup(p.Close)
	}
	require.NoError(t, err)
	require.NoError(t, postgres.Init(ctx, postgresConfig(t, p)))
	return p
}

func postgresConfig(t *testing.T, p *engines.Postgres) postgres.Config {
	return postgres.Config{URL: p.URL(), Warn: func(s string) { t.Log(s) }}
}

func TestSuite_postgres(t *testing.T) {
	beside(t)
	p := postgresPair(t)
	clustertest.Suite(t, func(t *testing.T) cluster.Engine {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		e, err := postgres.Open(ctx, postgresConfig(t, p))
		require.NoError(t, err)
		t.Cleanup(func() { _ = e.Close() })
		return e
	})
	e, err := postgres.Open(t.Context(), postgresConfig(t, p))
	require.NoError(t, err)
	defer e.Close()
	st, err := e.Status(t.Context())
	require.NoError(t, err)
	require.NotZero(t, st.Groups[0].Records, "nobody has counted yet, and there are some")
}

// tailLogs shows the end of what servers have written.
func tailLogs(t *testing.T, dir string) {
	logs, _ := filepath.Glob(filepath.Join(dir, "*.log"))
	for _, log := range logs {
		text, _ := os.ReadFile(log)
		t.Logf("%s:\n%s", filepath.Base(log), text[max(0, len(text)-3000):])
	}
}

// TestFigures measures what section "Measured" of the manual says of appends and reads. It judges
// nothing: the machine is busy with the servers, too.
func TestFigures(t *testing.T) {
	long(t)
	n := natsServers(t, engines.NatsOptions{N: 3, Direct: true})
	p := postgresPair(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	js, err := jetstream.Open(ctx, natsConfig(t, n, 0))
	require.NoError(t, err)
	defer js.Close()
	direct := postgresConfig(t, p) // as JetStream: no proxy between
	direct.URL = strings.Replace(direct.URL, p.Front.Addr(), fmt.Sprintf("127.0.0.1:%d", p.Ports[0]), 1)
	pg, err := postgres.Open(ctx, direct)
	require.NoError(t, err)
	defer pg.Close()
	line := bytes.Repeat([]byte("x"), 600)
	for name, e := range map[string]cluster.Engine{"jetstream": js, "postgres": pg} {
		writer := func(id string) *cluster.Writer {
			w, err := clustertest.Own(ctx, e, cluster.SessionID(id), "a", "1", cluster.Mark{})
			require.NoError(t, err)
			return w
		}
		syscall.Sync() // what it took to set up the engines is not written while it is measured
		w := writer("alone")
		var took []time.Duration
		for range 3000 {
			begun := time.Now()
			_, err := w.Append(ctx, line, nil)
			require.NoError(t, err)
			took = append(took, time.Since(begun))
		}
		slices.Sort(took)
		p50, p99 := took[len(took)/2], took[len(took)*99/100]
		var all sync.WaitGroup
		begun := time.Now()
		for i := range 16 {
			w := writer(fmt.Sprint("writer-", i))
			all.Go(func() {
				for range 500 {
					if _, err := w.Append(ctx, line, nil); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		many := 16 * 500 / time.Since(begun).Seconds()
		for range 10_000 - len(took) {
			_, err := w.Append(ctx, line, nil)
			require.NoError(t, err)
		}
		begun = time.Now()
		_, err := cluster.Load(ctx, e, "alone", cluster.Mark{}, w.Mark().Seq, func(cluster.Record) error { return nil })
		require.NoError(t, err)
		t.Logf("%-9s append of 600 B alone p50 %.2f p99 %.2f ms; 16 writers %.0f a second; 10,000 records read in %d ms", name,
			p50.Seconds()*1000, p99.Seconds()*1000, many, time.Since(begun).Milliseconds())
	}
}
