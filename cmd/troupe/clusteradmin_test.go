package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors/cluster"
	"troupe/actors/cluster/clustertest"
)

// TestClusterArguments: what troupe cluster is told wrong it says before it does anything; nothing is ignored.
func TestClusterArguments(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	const engine = " --cluster nats://127.0.0.1:1"
	for _, c := range []struct{ args, want string }{
		{"", "cluster: a command is missing: want init, status, spread, drain, move, check or export"},
		{"frob", `unknown command "cluster frob": want init, status`},
		{"drian n", `unknown command "cluster drian" (did you mean "cluster drain"?)`},
		{"status x", `cluster status: unexpected argument "x"`},
		{"move s", "cluster move: NODE is missing"},
		{"status", "the engine is unknown: give --cluster URL"},
		{"status --cluster", "--cluster needs a value: URL"},
		{"status --cluster http://x", "want nats://HOST:PORT"},
		{"status --nope", `unknown option "--nope"`},
		{"status --node a" + engine, "options of troupe cluster init"},
		{"check --replicas 3" + engine, "options of troupe cluster init"},
		{"init", "cluster init: want --cluster-dir"},
		{"init --node a" + engine, "--node needs --cluster-dir"},
		{"init --replicas x" + engine, `--replicas: want a number from 1 to 2147483647, got "x"`},
		{"init --partitions 0" + engine, `--partitions: want a number from 1 to 2147483647, got "0"`},
		{"init --partitions 3 --cluster-dir d", "--replicas and --partitions need --cluster nats://"},
		{"init --replicas 3 --cluster postgres://x", "--replicas and --partitions need --cluster nats://"},
		{"check a/b" + engine, `"a/b" is not the name of a session or a node`},
		{"export a/b f" + engine, `"a/b" is not the name of a session or a node`},
		{"drain a/b" + engine, `"a/b" is not the name of a session or a node`},
		{"move s n" + engine, "--cluster-dir is missing"},
		{"drain n" + engine, "--cluster-dir is missing"},
	} {
		err := administer(strings.Fields(c.args))
		var usage usageError
		assert.True(t, errors.As(err, &usage), "%s: %v", c.args, err)
		assert.ErrorContains(t, err, c.want, c.args)
	}
}

// oneServer is an engine whose copy is that of a server.
type oneServer struct{ cluster.Engine }

func (e oneServer) Sources() []cluster.Source {
	from := e.Engine.Sources()[0]
	from.Server = true
	return []cluster.Source{from}
}

// storedBeats is an engine that hears nothing of nodes by itself: what it has of them has to be asked for.
type storedBeats struct {
	cluster.Engine
	begun time.Time
}

func (storedBeats) Nodes() []cluster.Node {
	return []cluster.Node{{Name: "a", Beat: 3}, {Name: "b", Beat: 3}, {Name: "c", Beat: 3}, {Name: "d", Beat: 3, Doing: cluster.Doing{Draining: true}}, {Name: "e", Beat: 3}}
}

func (e storedBeats) Node(_ context.Context, name string) (cluster.Node, bool, error) {
	n := cluster.Node{Name: name, Beat: 3 + uint64(time.Since(e.begun)/cluster.Stock.Every)}
	switch name {
	case "b":
		n.Draining = true
	case "e":
		n.Stuck = true
	case "c", "d":
		n.Beat = 3
	}
	return n, name != "c", nil
}

// TestHeardOf: a node that lives does so whether an engine tells of it by itself or has to be asked.
func TestHeardOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, err := heardOf(t.Context(), storedBeats{begun: time.Now()})
		require.NoError(t, err)
		states := map[string]string{}
		for _, n := range nodes {
			states[n.Name] = n.state
		}
		require.Equal(t, map[string]string{"a": "lives", "b": "draining", "c": "SILENT", "d": "has ended", "e": "lives, and cannot write to its disk"}, states)
	})
}

// awayServer is one that cannot be read.
type awayServer struct{ cluster.Engine }

func (awayServer) Sources() []cluster.Source {
	return []cluster.Source{{Name: "away", Server: true, Read: func(context.Context, cluster.SessionID, cluster.Seq, cluster.Seq, func(cluster.Record) error) error {
		return cluster.ErrUnavailable
	}}}
}

// TestCheckLog: a log that has lost its end on all servers is not whole: the index says how far it went.
func TestCheckLog(t *testing.T) {
	engine, id := clustertest.New(1, 0), cluster.SessionID("session-1")
	e := oneServer{engine}
	assert.ErrorIs(t, checkLog(t.Context(), e, id, false), cluster.ErrNoSession)
	w, err := clustertest.Own(t.Context(), engine, id, "a", "a-1", cluster.Mark{})
	require.NoError(t, err)
	for _, line := range []string{"one", "two"} {
		_, err = w.Append(t.Context(), []byte(line), nil)
		require.NoError(t, err)
	}
	require.NoError(t, checkLog(t.Context(), e, id, false), "one of which the index knows nothing")
	assert.ErrorIs(t, checkLog(t.Context(), awayServer{engine}, id, false), cluster.ErrUnavailable, "not that there is none")
	at := w.Mark()
	says := func(seq cluster.Seq, sum uint64) {
		require.NoError(t, engine.SetIndex(t.Context(), id, fmt.Appendf(nil, `{"id":"session-1","seq":%d,"sum":%d}`, seq, sum)))
	}
	says(at.Seq, at.Sum)
	require.NoError(t, checkLog(t.Context(), e, id, false))
	says(at.Seq, at.Sum+1)
	assert.ErrorContains(t, checkLog(t.Context(), e, id, false), "another log")
	says(at.Seq, at.Sum)
	for left := 2; left >= 0; left-- {
		engine.Damage(id, func(r []cluster.Record) []cluster.Record { return r[:left] })
		assert.ErrorContains(t, checkLog(t.Context(), e, id, false), fmt.Sprintf("%d is known", at.Seq), left)
	}
}

// TestDrainNamesWhatIsNotSaved: who drains a node hears of sessions that it cannot save while it still tries, and that it has failed
// to; not of those that it has saved in the end, and nothing else is taken for its last word.
func TestDrainNamesWhatIsNotSaved(t *testing.T) {
	for _, c := range []struct{ then, want string }{
		{"saved", ""}, {"given up", "could not be saved: 1"}, {"started again", "not heard of any more"}, {"lost", "not heard of any more"},
	} {
		t.Run(c.then, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				engine := clustertest.New(1, 0).Client()
				says := func(n cluster.Node) { require.NoError(t, engine.Beat(t.Context(), n)) }
				n := cluster.Node{Name: "a", Boot: "a-1", Addr: "here", Beat: 1, Doing: cluster.Doing{Sessions: 2}}
				says(n)
				result := make(chan error, 1)
				var out strings.Builder
				go func(first cluster.Node) { result <- awaitEnd(&out, engine, first) }(n)
				time.Sleep(5 * time.Second)
				for i := range 240 {
					n.Beat, n.Sessions, n.Unsaved = n.Beat+1, i%2, []cluster.SessionID{"s1"} // one may be closed, and another opened for its child
					says(n)
					time.Sleep(cluster.Stock.Every)
				}
				select {
				case err := <-result:
					t.Fatal("it did not wait: ", err)
				default:
				}
				switch c.then {
				case "saved":
					n.Sessions, n.Unsaved, n.Addr = 0, nil, ""
					says(n)
				case "given up":
					n.Sessions, n.Addr = 0, ""
					says(n)
				case "started again":
					says(cluster.Node{Name: "a", Boot: "a-2", Beat: 1})
				}
				err := <-result
				said := out.String()
				assert.Equal(t, 1, strings.Count(said, "session s1 stays on node a"), said)
				if c.want == "" {
					require.NoError(t, err)
					assert.NotContains(t, said, "refs/troupe/lost")
				} else {
					require.ErrorContains(t, err, c.want)
					assert.Contains(t, said, "refs/troupe/lost/s1")
				}
			})
		})
	}
}
