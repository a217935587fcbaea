package main

import (
	"context"
	"os"
	"regexp"
	"strconv"
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

// TestClusterGauges: sessions by what the node may do with them, and how long ago each other node was heard of.
func TestClusterGauges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := clustertest.New(1, 0)
		join := func(name string) (*cluster.Member, *clustertest.Memory, context.CancelFunc) {
			way := engine.Client()
			m := cluster.Join(cluster.MemberConfig{Self: cluster.Node{Name: name, Boot: name}, Log: way, Registry: way})
			ctx, stop := context.WithCancel(t.Context())
			over := make(chan error, 1)
			go func() { over <- m.Run(ctx) }()
			return m, way, func() { stop(); <-over }
		}
		a, way, stopA := join("a")
		_, _, stopB := join("b")
		time.Sleep(2 * time.Second)
		n := &node{member: a, metrics: new(cluster.Metrics)}
		gauge := func(name string) float64 {
			var text strings.Builder
			require.NoError(t, n.measured(&text))
			found := regexp.MustCompile(`(?m)^troupe_cluster_` + regexp.QuoteMeta(name) + ` (\S+)$`).FindStringSubmatch(text.String())
			require.NotNil(t, found, "%s in %s", name, text.String())
			value, err := strconv.ParseFloat(found[1], 64)
			require.NoError(t, err)
			return value
		}
		o, err := a.Claim(t.Context(), "session-1", cluster.Wants{}, cluster.Mark{})
		require.NoError(t, err)
		assert.Equal(t, "1 0 1 1", strings.Join([]string{
			strconv.Itoa(int(gauge(`sessions{state="owner"}`))), strconv.Itoa(int(gauge(`sessions{state="doubtful"}`))),
			strconv.Itoa(int(gauge(`node_sessions{node="a"}`))), strconv.Itoa(int(gauge(`lease`))),
		}, " "))
		assert.Less(t, gauge(`beat_age_seconds{node="b"}`), 0.5)
		stopB()
		time.Sleep(10 * time.Second)
		assert.InDelta(t, 10, gauge(`beat_age_seconds{node="b"}`), 0.5)
		way.Cut(clustertest.Gone)
		appended := make(chan error, 1)
		go func() { appended <- o.Append(t.Context(), []byte("one\n"), nil) }()
		go func() { _, _ = a.Claim(t.Context(), "session-2", cluster.Wants{}, cluster.Mark{}) }()
		time.Sleep(3 * time.Second)
		assert.EqualValues(t, 1, gauge(`sessions{state="doubtful"}`))
		assert.EqualValues(t, 1, gauge(`sessions{state="claiming"}`))
		assert.Zero(t, gauge(`sessions{state="owner"}`)+gauge(`lease`))
		way.Cut(clustertest.Whole)
		stopA()
		require.NoError(t, <-appended)
	})
}

// leasing is a node by itself whose way to the engine can be cut.
func leasing(t *testing.T, o *clusterOptions) (n *node, way *clustertest.Memory, end func()) {
	way = clustertest.New(1, 0)
	m := cluster.Join(cluster.MemberConfig{Self: cluster.Node{Name: "a", Boot: "1"}, Log: way, Registry: way})
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- m.Run(ctx) }()
	return &node{member: m, options: o, begun: time.Now(), over: ctx.Done()}, way, func() { stop(); <-over }
}

// TestReady: a node takes clients until it has been without a lease for ten seconds, also at its start, and again once it has one.
func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, way, end := leasing(t, nil)
		way.Cut(clustertest.Gone)
		time.Sleep(9 * time.Second)
		assert.True(t, n.ready(), "it may have one soon")
		time.Sleep(2 * time.Second)
		assert.False(t, n.ready(), "it never had one")
		way.Cut(clustertest.Whole)
		time.Sleep(2 * time.Second)
		assert.True(t, n.ready())
		for range 20 { // it is asked all the time
			time.Sleep(time.Second)
			require.True(t, n.ready())
		}
		way.Cut(clustertest.Gone)
		for range 9 {
			time.Sleep(time.Second)
			assert.True(t, n.ready(), "without a lease for a moment")
		}
		time.Sleep(3 * time.Second)
		assert.False(t, n.ready())
		way.Cut(clustertest.Whole)
		time.Sleep(2 * time.Second)
		assert.True(t, n.ready())
		end()
	})
}

// meals are when a guard was fed, and for how long.
type meals struct {
	mu   sync.Mutex
	last time.Time
	of   time.Duration
	n    int
}

func (m *meals) Feed(within time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last, m.of, m.n = time.Now(), within, m.n+1
}

func (m *meals) take() (n int, of, ago time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, m.n = m.n, 0
	return n, m.of, time.Since(m.last)
}

// TestFed: where directories are shared commands may run on while the node has a lease, and no longer than three seconds
// before others may begin tools there. Nobody else's commands are ended.
func TestFed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := map[string]cluster.Root{"own": {Mode: cluster.Pinned}, "w": {Mode: cluster.Shared}}
		n, way, end := leasing(t, &clusterOptions{GraceMs: new(15_000), Roots: shared})
		guard := new(meals)
		over := make(chan struct{})
		time.Sleep(time.Second)
		go func() { n.feed(guard); close(over) }()
		time.Sleep(31 * time.Second)
		times, of, ago := guard.take()
		assert.Equal(t, []any{21, 12 * time.Second}, []any{times, of})
		assert.Less(t, ago, 2*time.Second)
		way.Cut(clustertest.Gone)
		time.Sleep(2 * time.Second) // its lease ends
		guard.take()
		time.Sleep(30 * time.Second)
		times, _, _ = guard.take()
		assert.Zero(t, times, "somebody may have taken it for dead")
		way.Cut(clustertest.Whole)
		time.Sleep(4 * time.Second)
		times, _, _ = guard.take()
		assert.NotZero(t, times)
		end()
		<-over
		guard.take()
		for _, o := range []*clusterOptions{
			{GraceMs: new(0), Roots: shared}, {GraceMs: new(15_000), Roots: map[string]cluster.Root{"own": {Mode: cluster.Pinned}, "lib": {Mode: cluster.Git}}},
		} {
			n, _, end := leasing(t, o)
			time.Sleep(time.Second)
			n.feed(guard)
			times, _, _ := guard.take()
			assert.Zero(t, times, "%v", o.Roots)
			end()
		}
	})
}

// TestSizes: what says a size, and what does not.
func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{
		"1": 1, "512": 512, "4K": 4 << 10, "200M": 200 << 20, "1G": 1 << 30,
		"": 0, "0": 0, "-1": 0, "G": 0, "1T": 0, "1KM": 0, "1.5G": 0, "9223372036854775807K": 0, " 1": 0,
	} {
		got, err := parseSize(text)
		assert.Equal(t, want, got, text)
		assert.Equal(t, want == 0, err != nil, text)
	}
}

// TestRootNone: a root of mode none is a directory of the node's own, which it makes: nobody says where.
func TestRootNone(t *testing.T) {
	var o clusterOptions
	require.NoError(t, o.root("chat=none"))
	require.NoError(t, checkRoot(o.Roots["chat"]))
	agentDir := t.TempDir()
	_, told, err := o.trees(agentDir)
	require.NoError(t, err)
	assert.Equal(t, o.Roots, told)
	assert.Equal(t, cluster.None, told["chat"].Mode)
	assert.True(t, strings.HasPrefix(told["chat"].Path, agentDir), told["chat"].Path)
	assert.DirExists(t, told["chat"].Path)
	assert.ErrorContains(t, checkRoot(cluster.Root{Mode: cluster.None, Path: agentDir}), "no path")
	require.NoError(t, os.WriteFile(agentDir+"/file", nil, 0o600))
	_, _, err = o.trees(agentDir + "/file")
	assert.Error(t, err)
}

// TestStrangers: a node does not join where one lives that takes certificates of another authority; one that is gone, or
// does not say whose it takes, keeps nobody out.
func TestStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := clustertest.New(1, 0)
		join := func(name string, ca ...string) context.CancelFunc {
			way := engine.Client()
			m := cluster.Join(cluster.MemberConfig{Self: cluster.Node{Name: name, Boot: name, CA: ca}, Log: way, Registry: way})
			ctx, stop := context.WithCancel(t.Context())
			over := make(chan error, 1)
			go func() { over <- m.Run(ctx) }()
			return func() { stop(); <-over }
		}
		way := engine.Client()
		ask := func() error { return strangers(t.Context(), way, []string{"one", "next"}, time.Second) }
		stopA, stopB, stopC := join("a", "before", "one"), join("b"), join("c", "two")
		time.Sleep(2 * time.Second)
		assert.ErrorContains(t, ask(), "node c of this engine has keys of another authority")
		stopC()
		time.Sleep(time.Second)
		assert.NoError(t, ask())
		stopA()
		stopB()
	})
}

// TestClusterFileOfTheManual: the file that the manual shows is one; what is no object is none.
func TestClusterFileOfTheManual(t *testing.T) {
	manual, err := os.ReadFile("../../docs/cluster/setup.md")
	require.NoError(t, err)
	shown := regexp.MustCompile("(?s)```json\n(.*?)```").FindSubmatch(manual)
	require.NotNil(t, shown)
	dir := t.TempDir()
	read := func(text string) (clusterOptions, error) {
		require.NoError(t, os.WriteFile(dir+"/"+clusterFile, []byte(text), 0o600))
		return readClusterFile(dir)
	}
	o, err := read(string(shown[1]))
	require.NoError(t, err)
	assert.Equal(t, cluster.Root{Path: "/srv/app", Mode: cluster.Shared}, o.Roots["app"])
	assert.Equal(t, cluster.Git, o.Roots["lib"].Mode)
	for _, text := range []string{"null", " null\n", "[]", `"x"`, `{"roots":{"app":"/srv"}}`} {
		_, err := read(text)
		assert.Error(t, err, text)
	}
}

// TestEngineKind: of several servers those behind the first may have no scheme and no user; what is no address of an engine
// stops the start, and does not lead to a server of this machine.
func TestEngineKind(t *testing.T) {
	for list, kind := range map[string]string{
		"nats://e1:4222,e2:4222,e3:4222": "nats", "tls://u:p@e1:4222, e2": "nats", "nats://10.0.0.1:1,nats://10.0.0.2:1,10.0.0.3:1": "nats",
		"postgres://u:p@h1,h2/db": "postgres", "postgresql://h/db": "postgres",
		"": "", "e1:4222": "", "nats://": "", "nats://:4222": "", "nats://e1,": "", "nats://e1,http://e2": "", "nats://e1:x": "", "nats://a b": "", "http://e1": "",
	} {
		assert.Equal(t, kind, engineKind(list), list)
	}
	o := clusterOptions{Engine: "nats://e1:4222", System: "e1:4222", Keys: "/keys"}
	require.ErrorContains(t, o.check(), "--cluster-system")
}
