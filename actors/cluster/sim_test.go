package cluster_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"troupe/actors/cluster"
	"troupe/actors/cluster/clustertest"
)

var (
	simSeeds = flag.Int("sim.seeds", 60, "how many clusters TestCluster plays")
	simFirst = flag.Uint64("sim.first", 1, "the first of them")
)

// TestCluster plays clusters in fake time: three nodes that are killed, also between what they write, its effect and its answer (K4), stopped, started twice
// (O3), cut off from the engine or from each other, in one direction or both; an engine that stands still,
// loses answers and takes records late; clients that go from node to node, repeat commands that were
// answered and give up others. In every fourth cluster everybody claims whatever it is asked for (O2,
// C9). The laws are judged of what clients got, of the logs through every node, and of what was done.
func TestCluster(t *testing.T) {
	var acked, faults, between atomic.Int64
	t.Run("seeds", func(t *testing.T) {
		for part := range uint64(runtime.GOMAXPROCS(0)) {
			t.Run(fmt.Sprint(part), func(t *testing.T) {
				t.Parallel()
				for seed := *simFirst + part; seed < *simFirst+uint64(*simSeeds); seed += uint64(runtime.GOMAXPROCS(0)) {
					synctest.Test(t, func(t *testing.T) {
						c := newSim(t, seed)
						c.run()
						n, _ := c.history.Count()
						acked.Add(int64(n))
						faults.Add(int64(c.faults))
						between.Add(c.between.Load())
					})
				}
			})
		}
	})
	t.Logf("%d acknowledged commands, %d faults, of which %d between an append and its answer", acked.Load(), faults.Load(), between.Load())
	require.NotZero(t, between.Load())
	require.Greater(t, acked.Load(), int64(20**simSeeds), "the clusters do their work")
	require.Greater(t, faults.Load(), int64(2**simSeeds))
}

type sim struct {
	t       *testing.T
	seed    uint64
	rand    *rand.Rand // of what nodes and clients do, with mu
	chance  *rand.Rand // of the faults
	greedy  bool
	engine  *clustertest.Memory
	history *clustertest.History
	faults  int
	between atomic.Int64 // lives that ended between what they wrote and its answer

	mu      sync.Mutex
	nodes   [3]*simLife
	lives   []*simLife // all there ever were
	cut     map[[2]int]bool
	effects []clustertest.Effect
	boots   int
}

// simLife is one process of a node.
type simLife struct {
	node   int
	sim    *sim
	engine *clustertest.Memory
	host   *clustertest.Host
	ctx    context.Context
	cancel func()
	ended  chan struct{}
	dies   atomic.Int32 // when it is killed: see mortal
}

// Moments at which a life may end, each once.
const (
	behindAppend = 1 + iota // what is written has had no effect yet
	behindEffect            // and nobody has an answer
)

// mortal is the way of a life to the engine, at which it may end.
type mortal struct {
	*clustertest.Memory
	life *simLife
}

func (m mortal) Append(ctx context.Context, id cluster.SessionID, after cluster.Seq, r cluster.Record) (cluster.Seq, error) {
	seq, err := m.Memory.Append(ctx, id, after, r)
	if err == nil && r.Kind == cluster.Lines && m.life.dies.CompareAndSwap(behindAppend, 0) {
		m.life.kill()
		m.life.sim.between.Add(1)
	}
	return seq, err
}

func newSim(t *testing.T, seed uint64) *sim {
	rnd := rand.New(rand.NewPCG(seed, 23))
	return &sim{
		t: t, seed: seed, rand: rnd, chance: rand.New(rand.NewPCG(seed, 24)), greedy: seed%4 == 0, engine: clustertest.New(seed, rnd.IntN(25)),
		history: clustertest.NewHistory(), cut: map[[2]int]bool{},
	}
}

// begin starts a life of a node; what was before it is not ended by that.
func (c *sim) begin(node int) {
	ctx, cancel := context.WithCancel(context.Background())
	l := &simLife{node: node, sim: c, engine: c.engine.Client(), ctx: ctx, cancel: cancel, ended: make(chan struct{})}
	c.mu.Lock()
	c.boots++
	boot := fmt.Sprint("boot", c.boots)
	c.mu.Unlock()
	l.host = clustertest.NewHost(ctx, clustertest.HostConfig{
		Node: cluster.Node{Name: fmt.Sprint("n", node), Boot: boot}, Engine: mortal{l.engine, l}, Greedy: c.greedy,
		Relay: func(ctx context.Context, to cluster.Node, cmd clustertest.Command) (clustertest.Answer, error) {
			var other int
			if _, err := fmt.Sscanf(to.Name, "n%d", &other); err != nil {
				return clustertest.Answer{}, err
			}
			c.mu.Lock()
			cut := c.cut[[2]int{node, other}]
			c.mu.Unlock()
			if cut {
				<-ctx.Done()
				return clustertest.Answer{}, ctx.Err()
			}
			return c.ask(ctx, other, cmd)
		},
		Effect: func(e clustertest.Effect) {
			c.mu.Lock()
			defer c.mu.Unlock()
			if l.ctx.Err() == nil {
				c.effects = append(c.effects, e)
			}
			if l.dies.CompareAndSwap(behindEffect, 0) {
				l.kill()
				c.between.Add(1)
			}
		},
	})
	go func() {
		defer close(l.ended)
		if err := l.host.Run(); err != nil && !errors.Is(err, cluster.ErrFenced) {
			c.t.Errorf("seed %d: %v", c.seed, err)
		}
		cancel() // a process that has found another of its name ends
	}()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes[node] = l
	c.lives = append(c.lives, l)
}

// kill ends a life without a word.
func (l *simLife) kill() {
	l.engine.Cut(clustertest.Gone)
	l.cancel()
}

var errDown = errors.New("connection refused")

// ask gives a command to whatever life a node has, whose answer is lost with it.
func (c *sim) ask(ctx context.Context, node int, cmd clustertest.Command) (clustertest.Answer, error) {
	c.mu.Lock()
	l, delay := c.nodes[node], time.Duration(c.rand.IntN(2000))*time.Microsecond
	c.mu.Unlock()
	if l == nil || l.ctx.Err() != nil {
		return clustertest.Answer{}, errDown
	}
	time.Sleep(delay)
	answers := make(chan clustertest.Answer, 1)
	go func() { answers <- l.host.Do(ctx, cmd) }()
	select {
	case a := <-answers:
		l.engine.Thaw()
		if l.ctx.Err() != nil {
			return a, errDown
		}
		return a, ctx.Err()
	case <-l.ctx.Done():
		return clustertest.Answer{}, errDown
	case <-ctx.Done():
		return clustertest.Answer{}, ctx.Err()
	}
}

func (c *sim) run() {
	sessions := []cluster.SessionID{"one", "two", "three"}
	for node := range c.nodes {
		c.begin(node)
	}
	ctx, stop := context.WithTimeout(context.Background(), 12*time.Second)
	defer stop()
	var clients sync.WaitGroup
	for i := range 4 {
		cl := &clustertest.Client{
			Name: fmt.Sprint("c", i), Sessions: sessions, Nodes: len(c.nodes), Do: c.ask, Try: 2500 * time.Millisecond, Pause: func() time.Duration { return 300 * time.Millisecond },
			History: c.history, Rand: rand.New(rand.NewPCG(c.seed, 100+uint64(i))),
		}
		clients.Go(func() { cl.Run(ctx) })
	}
	var mends sync.WaitGroup
	for end := time.Now().Add(9 * time.Second); time.Now().Before(end); {
		time.Sleep(time.Duration(500+c.chance.IntN(2500)) * time.Millisecond)
		c.fault(&mends)
	}
	clients.Wait()
	mends.Wait()
	c.heal()
	c.allServed(sessions)
	c.judge(sessions)
	c.mu.Lock()
	lives := c.lives
	c.mu.Unlock()
	for _, l := range lives {
		l.kill()
		<-l.ended
	}
	time.Sleep(2 * cluster.DefaultPatience) // until the last of them has given up
}

// fault has something go wrong for a while.
func (c *sim) fault(mends *sync.WaitGroup) {
	c.faults++
	node := c.chance.IntN(len(c.nodes))
	other := (node + 1 + c.chance.IntN(2)) % 3
	d := []time.Duration{time.Duration(c.chance.IntN(600)), time.Duration(c.chance.IntN(4000))}[c.chance.IntN(2)] * time.Millisecond
	c.mu.Lock()
	l := c.nodes[node]
	c.mu.Unlock()
	later := func(do func()) {
		mends.Go(func() {
			time.Sleep(d)
			do()
		})
	}
	switch c.chance.IntN(8) {
	case 0: // K: killed, and started again
		l.kill()
		later(func() { c.begin(node) })
	case 1: // K4: behind its next append, before that has any effect, or behind the effect, before anybody is told
		l.dies.Store(int32(behindAppend + d/time.Millisecond%2))
		later(func() {
			if l.ctx.Err() != nil {
				c.begin(node)
			}
		})
	case 2: // O3: started a second time
		c.begin(node)
	case 3, 4: // S: stopped
		l.engine.Freeze(d)
	case 5: // N1, N4: cut off from the engine
		l.engine.Cut([]clustertest.Cut{clustertest.Deaf, clustertest.Gone}[c.chance.IntN(2)])
		later(func() {
			if l.ctx.Err() == nil {
				l.engine.Cut(clustertest.Whole)
			}
		})
	case 6: // N5: one link
		c.link(node, other, true)
		later(func() { c.link(node, other, false) })
	case 7: // K5: the engine looks for another leader
		c.engine.Stop(d)
	}
}

func (c *sim) link(a, b int, cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut[[2]int{a, b}], c.cut[[2]int{b, a}] = cut, cut
}

// heal starts what is down. Of two lives of a node that were begun while the engine was away the elder may have said so
// last: then it is the node, and the younger ends.
func (c *sim) heal() {
	c.engine.Faults(0)
	for node := range c.nodes {
		c.mu.Lock()
		lives := slices.DeleteFunc(slices.Clone(c.lives), func(l *simLife) bool { return l.node != node || l.ctx.Err() != nil })
		if len(lives) > 0 {
			c.nodes[node] = lives[len(lives)-1]
		}
		c.mu.Unlock()
		if len(lives) == 0 {
			c.begin(node)
		}
	}
}

// allServed (C15): every session takes a command through every node within 10 seconds.
func (c *sim) allServed(sessions []cluster.SessionID) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, session := range sessions {
		for node := range c.nodes {
			cmd := clustertest.Command{Op: "put", Session: session, Key: fmt.Sprintf("end%s%d/1", session, node)}
			for {
				one, stop := context.WithTimeout(ctx, 2500*time.Millisecond)
				a, err := c.ask(one, node, cmd)
				stop()
				if err == nil && a.Err == "" {
					c.history.Acked(cmd, a)
					break
				}
				if ctx.Err() != nil {
					c.t.Errorf("seed %d: C15: %s does not take a command through node %d: %v %s", c.seed, session, node, err, a.Err)
					return
				}
				if errors.Is(err, errDown) || a.Err == errDown.Error() { // of the node that was asked, or of the one that it asked
					c.heal()
				}
				time.Sleep(20 * time.Millisecond)
			}
		}
	}
}

func (c *sim) judge(sessions []cluster.SessionID) {
	time.Sleep(10 * time.Second) // until what is late has come
	var engines []cluster.Log
	for _, l := range c.nodes {
		engines = append(engines, l.engine)
	}
	for _, v := range c.history.Judge(context.Background(), engines, sessions, c.effects) {
		c.t.Errorf("seed %d: %s", c.seed, v)
	}
}
