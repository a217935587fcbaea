package cluster

import (
	"maps"
	"math"
	"slices"
	"time"
)

// Timing is how often nodes give a sign of life, and how many of them may be missing.
// All nodes of a cluster have the same.
type Timing struct {
	Every time.Duration // between the end of a beat and the next
	Miss  int           // how many may be missing; 2 at least
}

// Stock is what a cluster has unless it says otherwise.
var Stock = Timing{Every: 250 * time.Millisecond, Miss: 4}

// lease is how long a beat that was stored counts, from when it was sent.
func (t Timing) lease() time.Duration { return time.Duration(t.Miss-1) * t.Every }

// enough is how many own beats have to be stored, since another node was last heard of,
// before it may be taken for dead. Of these the first may have been under way then, so that
// Miss intervals pass at least: one more than any lease lasts, for clocks that do not run
// equally fast.
func (t Timing) enough() uint64 { return uint64(t.Miss) + 1 }

// Beats is what one node knows of who is alive, itself among them. It has no clock: each
// step is told the time, of which only differences count. A node's own beats are its measure
// of how long others are silent: where the engine is away nobody dies.
//
// A lease says that nobody can have taken the node for dead. One that has lapsed comes
// back with another number: who served reads from memory under the old one appends first
// to what it reads.
//
// Whoever wants to claim a session reads its tail, and then says [Watch]: that the owner is
// dead is true behind that tail only. If the owner comes back meanwhile, and appends under its
// new lease, the claim does not follow the tail any more and is refused.
type Beats struct {
	timing Timing
	tries  uint64        // beats that were sent, each with its number
	looks  uint64        // likewise
	stored uint64        // own beats that the engine has taken, and said so
	last   uint64        // the number of the last of them
	busy   bool          // one is under way
	sent   time.Duration // when it, or the last one, was sent
	due    time.Duration // when the next is

	leased bool
	until  time.Duration // the end of the lease
	number uint64        // of the lease

	others map[string]*other
}

// other is another node: what was heard of it, and who wants to know about it.
type other struct {
	Node                  // as it was heard of last; the zero value before
	when    time.Duration // it was
	at      uint64        // own beats that were stored then
	wanted  uint64        // how often somebody has begun to want to know whether it lives
	asked   uint64        // the same when it was looked up
	told    uint64        // how many of these know that it is dead
	looking uint64        // the number of the look that is under way; 0 for none
	dead    bool          // it was found to be, behind when it was heard of
}

// What happens to a node's beats.
type (
	// Tick is that time has passed.
	Tick struct{}
	// Stored is that the engine has a beat.
	Stored struct{ Beat uint64 }
	// Failed is that it has not, or that nobody knows.
	Failed struct{ Beat uint64 }
	// Heard is what a node has said, as it was heard, which may be late.
	Heard struct{ Node Node }
	// Watch is that somebody wants to know whether a node lives, from now on.
	Watch struct{ Name string }
	// Looked is what the engine has of a node now: the answer to a [Look]. Found is false
	// if the engine could not say.
	Looked struct {
		Look
		Node  Node
		Found bool
	}
)

// What is to be done about that.
type (
	// Store is to store a beat, of this number.
	Store struct{ Beat uint64 }
	// Look is to read what the engine has of a node.
	Look struct {
		Name   string
		Number uint64
	}
	// Regained is to append before anything is shown: a lease has lapsed, and this is another one.
	Regained struct{}
	// Dead is that a node may be taken for dead, by those who have said Watch until it had been said so often:
	// see [Beats.Wanted]. The others began to want it behind the look.
	Dead struct {
		Name   string
		Wanted uint64
	}
)

// NewBeats is a node that has not given a sign of life yet.
func NewBeats(t Timing) *Beats { return &Beats{timing: t, others: map[string]*other{}} }

// Lease is the number of the lease that the node has; false without one.
func (b *Beats) Lease(now time.Duration) (number uint64, ok bool) {
	return b.number, b.leased && now < b.until
}

// Wanted is how often Watch was said of a node.
func (b *Beats) Wanted(name string) uint64 { return b.of(name).wanted }

// of is what is known of a node.
func (b *Beats) of(name string) *other {
	o := b.others[name]
	if o == nil { // nothing was heard of it, so its silence begins now
		o = &other{at: b.stored}
		b.others[name] = o
	}
	return o
}

// silence is how many own beats were stored since a node was last heard of.
func (b *Beats) silence(name string) uint64 {
	if o := b.of(name); o.Name != "" {
		return b.stored - o.at
	}
	return math.MaxUint64
}

// lives says whether a node was heard of lately. It is a guess: that it is dead takes more.
func (b *Beats) lives(name string) bool { return b.silence(name) < b.timing.enough() }

// late says whether a node should have been heard of by now.
func (b *Beats) late(name string) bool { return b.silence(name) > 2 }

// Next is when time matters next, unless something else happens before.
func (b *Beats) Next() time.Duration { return b.due }

// Step takes an event, at a time, and returns what is to be done.
func (b *Beats) Step(event any, now time.Duration) (effects []any) {
	switch e := event.(type) {
	case Tick:
		if !b.busy && now >= b.due {
			b.tries++
			b.busy, b.sent = true, now
			effects = append(effects, Store{b.tries})
		}
	case Stored:
		effects = b.beatStored(e.Beat, now)
	case Failed:
		if b.busy && e.Beat == b.tries {
			b.busy, b.due = false, now+b.timing.Every
		}
	case Heard:
		b.heard(e.Node, now)
	case Watch:
		o := b.of(e.Name)
		o.wanted++
		effects = b.lookUp(e.Name, o)
	case Looked:
		effects = b.looked(e, now)
	}
	return effects
}

// beatStored renews the lease, and looks for nodes that have been silent for long. The
// next beat comes an interval behind this one, however late that was: the number of
// beats is a measure of time.
func (b *Beats) beatStored(beat uint64, now time.Duration) (effects []any) {
	if !b.busy || beat != b.tries { // the answer to an earlier one says nothing of this one
		return nil
	}
	if !b.leased || b.sent >= b.until {
		b.number++
		if b.leased {
			effects = append(effects, Regained{})
		}
	}
	b.busy, b.due, b.leased, b.until = false, now+b.timing.Every, true, b.sent+b.timing.lease()
	b.stored, b.last = b.stored+1, beat
	for _, name := range slices.Sorted(maps.Keys(b.others)) {
		effects = append(effects, b.lookUp(name, b.others[name])...)
	}
	return effects
}

// lookUp reads what the engine has of a node that has been silent for long, if somebody wants
// to know.
func (b *Beats) lookUp(name string, o *other) []any {
	if o.wanted == o.told || o.looking > 0 || b.stored-o.at < b.timing.enough() {
		return nil
	}
	b.looks++
	o.asked, o.looking = o.wanted, b.looks
	return []any{Look{name, b.looks}}
}

// news says whether a node says something that is not known: a beat, or that it drains.
func (b *Beats) news(n Node) bool {
	o := b.of(n.Name)
	return o.Boot != n.Boot || o.Beat < n.Beat || n.Draining && !o.Draining
}

// heard notes a sign of life.
func (b *Beats) heard(n Node, now time.Duration) {
	if !b.news(n) {
		return
	}
	o := b.of(n.Name)
	if o.Boot == n.Boot { // once it drains it does until its end
		n.Draining, n.Beat = n.Draining || o.Draining, max(n.Beat, o.Beat)
	}
	o.Node, o.when, o.at, o.dead = n, now, b.stored, false
}

// looked judges a node by what the engine has of it: what was heard may be late.
func (b *Beats) looked(e Looked, now time.Duration) []any {
	o := b.of(e.Name)
	if o.looking == 0 || o.looking != e.Number { // an earlier answer says nothing of now
		return nil
	}
	o.looking = 0
	e.Node.Name = e.Name
	switch {
	case !e.Found: // again behind the next beat
		return nil
	case b.news(e.Node):
		b.heard(e.Node, now)
		return nil
	case b.stored-o.at < b.timing.enough(): // it was heard of meanwhile
		return nil
	}
	o.told = o.asked // and who has begun to want it behind that look gets another
	return append([]any{Dead{e.Name, o.told}}, b.lookUp(e.Name, o)...)
}
