package cluster_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
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
	p := postgresPair(t)
	clustertest.Suite(t, func(t *testing.T) cluster.Engine {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		e, err := postgres.Open(ctx, postgresConfig(t, p))
		require.NoError(t, err)
		t.Cleanup(func() { _ = e.Close() })
		return e
	})
}

// tailLogs shows the end of what servers have written.
func tailLogs(t *testing.T, dir string) {
	logs, _ := filepath.Glob(filepath.Join(dir, "*.log"))
	for _, log := range logs {
		text, _ := os.ReadFile(log)
		t.Logf("%s:\n%s", filepath.Base(log), text[max(0, len(text)-3000):])
	}
}
