package cluster_test

import (
	"container/heap"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors/cluster"
)

var beatSeeds = flag.Int("beats.seeds", 400, "how many histories TestBeats plays")

// world is two nodes and an engine, in a time that is nobody's: each node has a clock of
// its own, stands still now and then, and hears and is heard late or not at all.
type world struct {
	rng  *rand.Rand
	now  time.Duration
	next happenings

	calm  bool                    // everything arrives
	beats map[string]cluster.Node // what the engine has
	tail  int                     // of the log of the one session
	owner string

	a, b   *clocked
	reads  int // that were served from memory
	stale  int // of them by who did not own the session any more
	claims []time.Duration
}

type happening struct {
	at time.Duration
	do func()
}

type happenings []happening

func (h happenings) Len() int           { return len(h) }
func (h happenings) Less(i, j int) bool { return h[i].at < h[j].at }
func (h happenings) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *happenings) Push(x any)        { *h = append(*h, x.(happening)) }
func (h *happenings) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

func (w *world) after(d time.Duration, do func()) { heap.Push(&w.next, happening{w.now + d, do}) }

// clocked is a node: its beats, how fast its clock runs, and until when it stands still.
type clocked struct {
	w       *world
	name    string
	rate    float64
	stopped time.Duration
	dead    bool
	beats   *cluster.Beats
	other   *clocked

	valid  uint64 // the lease under which it has appended
	tail   int    // read before it said Watch
	asked  uint64 // how often it had then
	wants  int    // the number of the wish, 0 for none
	wishes int
}

func (n *clocked) clock() time.Duration { return time.Duration(float64(n.w.now) * n.rate) }

// step takes an event.
func (n *clocked) step(event any) {
	n.awake(func() { n.handle(event) })
}

// awake does something as soon as the node does not stand still.
func (n *clocked) awake(do func()) {
	switch {
	case n.dead:
	case n.w.now < n.stopped:
		n.w.after(n.stopped-n.w.now, func() { n.awake(do) })
	default:
		do()
	}
}

func (n *clocked) handle(event any) {
	for _, e := range n.beats.Step(event, n.clock()) {
		switch e := e.(type) {
		case cluster.Store:
			n.store(e.Beat)
		case cluster.Look:
			n.w.send(func() {
				found, has := n.w.beats[e.Name]
				n.w.send(func() { n.step(cluster.Looked{Look: e, Node: found, Found: has}) }, func() { n.step(cluster.Looked{Look: e}) })
			}, func() { n.step(cluster.Looked{Look: e}) })
		case cluster.Dead:
			if n.asked <= e.Wanted {
				n.claim()
			}
		}
	}
}

// send has something arrive, late or not at all: then lost is known half a second later.
func (w *world) send(arrives, lost func()) {
	d, fault := time.Duration(w.rng.Int64N(int64(15*time.Millisecond))), w.rng.IntN(20)
	if w.calm {
		fault = -1
	}
	switch fault {
	case 0:
		w.after(500*time.Millisecond, lost)
	case 1: // it arrives, but too late for who has sent it
		w.after(500*time.Millisecond, lost)
		w.after(d+time.Duration(w.rng.Int64N(int64(2*time.Second))), arrives)
	case 2, 3: // late, but in time
		w.after(d+time.Duration(w.rng.Int64N(int64(220*time.Millisecond))), arrives)
	default:
		w.after(d, arrives)
	}
}

func (n *clocked) store(beat uint64) {
	self := cluster.Node{Name: n.name, Boot: "boot", Beat: beat}
	n.w.send(func() {
		if n.w.beats[n.name].Beat < beat {
			n.w.beats[n.name] = self
			if n.w.calm || n.w.rng.IntN(3) == 0 { // what is heard is no more than a hint
				n.w.send(func() { n.other.step(cluster.Heard{Node: self}) }, func() {})
			}
		}
		n.w.send(func() { n.step(cluster.Stored{Beat: beat}) }, func() { n.step(cluster.Failed{Beat: beat}) })
	}, func() { n.step(cluster.Failed{Beat: beat}) })
}

// wish has the node want the session of the other: it reads the tail, and then asks whether
// the other lives.
func (n *clocked) wish() {
	if n.wants > 0 || n.w.owner == n.name {
		return
	}
	n.wishes++
	number := n.wishes
	n.wants = number
	over := func() {
		if n.wants == number {
			n.wants = 0
		}
	}
	n.w.send(func() {
		tail := n.w.tail
		n.w.send(func() {
			n.awake(func() {
				if n.wants == number {
					n.tail = tail
					n.handle(cluster.Watch{Name: n.other.name})
					n.asked = n.beats.Wanted(n.other.name)
				}
			})
		}, over)
	}, over)
	n.w.after(4*time.Second, over)
}

func (n *clocked) claim() {
	tail := n.tail
	n.w.send(func() {
		if n.w.tail == tail {
			n.w.tail++
			n.w.owner = n.name
			n.w.claims = append(n.w.claims, n.w.now)
		}
		n.wants = 0
	}, func() { n.wants = 0 })
}

// read serves a read from memory, or makes sure that it may.
func (n *clocked) read() {
	if n.dead || n.w.now < n.stopped {
		return
	}
	lease, ok := n.beats.Lease(n.clock())
	switch {
	case !ok:
	case lease == n.valid:
		n.w.reads++
		if n.w.owner != n.name {
			n.w.stale++
		}
	default:
		n.w.send(func() {
			if n.w.owner == n.name {
				n.w.tail++
				n.w.send(func() { n.valid = lease }, func() {})
			}
		}, func() {})
	}
}

func newWorld(seed uint64) *world {
	rng := rand.New(rand.NewPCG(seed, 22))
	w := &world{rng: rng, beats: map[string]cluster.Node{}, owner: "b"}
	node := func(name string) *clocked {
		return &clocked{w: w, name: name, rate: 0.9 + 0.2*rng.Float64(), beats: cluster.NewBeats(cluster.Stock)}
	}
	w.a, w.b = node("a"), node("b")
	w.a.other, w.b.other = w.b, w.a
	for _, n := range []*clocked{w.a, w.b} {
		var tick func()
		tick = func() {
			n.step(cluster.Tick{})
			w.after(5*time.Millisecond, tick)
		}
		w.after(time.Duration(rng.Int64N(int64(time.Second))), tick)
	}
	var read, wish func()
	read = func() { w.b.read(); w.after(time.Duration(rng.Int64N(int64(20*time.Millisecond))), read) }
	wish = func() { w.a.wish(); w.after(time.Duration(rng.Int64N(int64(300*time.Millisecond))), wish) }
	w.after(0, read)
	w.after(time.Second, wish)
	return w
}

func (w *world) run(until time.Duration) {
	for w.now < until && len(w.next) > 0 {
		h := heap.Pop(&w.next).(happening)
		w.now = max(w.now, h.at)
		h.do()
	}
}

// TestBeats (C8): nodes that stand still, clocks that run a fifth apart, answers that are late
// or lost: nobody serves a read from memory of a session that somebody else has claimed.
func TestBeats(t *testing.T) {
	reads, claims := 0, 0
	for seed := range uint64(*beatSeeds) {
		w := newWorld(seed)
		var stop func()
		stop = func() {
			n := []*clocked{w.a, w.b}[w.rng.IntN(2)]
			n.stopped = w.now + time.Duration(w.rng.Int64N(int64(2500*time.Millisecond)))
			w.after(time.Duration(w.rng.Int64N(int64(4*time.Second))), stop)
		}
		w.after(2*time.Second, stop)
		w.run(12 * time.Second)
		require.Zero(t, w.stale, "seed %d: %d reads, claims at %v", seed, w.reads, w.claims)
		reads += w.reads
		claims += len(w.claims)
	}
	assert.Greater(t, reads, 50**beatSeeds, "reads are served")
	assert.Greater(t, claims, *beatSeeds/20, "and sessions claimed")
}

// TestBeats_death: where nothing goes wrong nobody who lives is taken for dead, and of who
// has died that is known within 2 seconds.
func TestBeats_death(t *testing.T) {
	for seed := range uint64(200) {
		w := newWorld(seed)
		w.calm, w.a.rate, w.b.rate = true, 1, 1
		w.run(10 * time.Second)
		require.Empty(t, w.claims, seed)
		died := w.now
		w.b.dead = true
		w.run(15 * time.Second)
		require.Len(t, w.claims, 1, seed)
		assert.GreaterOrEqual(t, w.claims[0]-died, 750*time.Millisecond, "seed %d: no lease is left", seed)
		assert.LessOrEqual(t, w.claims[0]-died, 2*time.Second, seed)
	}
}

// TestBeats_interval: a beat that was late has an interval behind it, too: else the number of
// beats would say nothing of the time that has passed.
func TestBeats_interval(t *testing.T) {
	b := cluster.NewBeats(cluster.Stock)
	assert.Equal(t, []any{cluster.Store{Beat: 1}}, b.Step(cluster.Tick{}, 0))
	_, leased := b.Lease(0)
	assert.False(t, leased)
	assert.Empty(t, b.Step(cluster.Stored{Beat: 1}, 400*time.Millisecond))
	number, leased := b.Lease(749 * time.Millisecond)
	assert.True(t, leased, "from when it was sent")
	assert.EqualValues(t, 1, number)
	_, leased = b.Lease(750 * time.Millisecond)
	assert.False(t, leased)
	assert.Empty(t, b.Step(cluster.Tick{}, 649*time.Millisecond))
	assert.Equal(t, 650*time.Millisecond, b.Next())
	assert.Equal(t, []any{cluster.Store{Beat: 2}}, b.Step(cluster.Tick{}, 650*time.Millisecond))
	assert.Empty(t, b.Step(cluster.Stored{Beat: 1}, 700*time.Millisecond), "of an earlier one")
	assert.Empty(t, b.Step(cluster.Tick{}, 2*time.Second), "one at a time")
}
