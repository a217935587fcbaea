package extension

import "sync"

// Turns decides on which goroutines work is done. That of production runs what a frame sets
// off on the goroutine that has read it: another one would have to be woken.
type Turns interface {
	// Schedule has work done, now or soon.
	Schedule(work func())
	// Inline runs tell, and may then run what it has scheduled on the same goroutine.
	// It returns false if that took too long: then takeOver was called on another one,
	// and the caller must not read any further.
	Inline(tell, takeOver func()) (reads bool)
	// AtEnd has f done when what Inline does now is over, at once if it does nothing.
	AtEnd(f func())
}

// goroutines is a goroutine for everything.
type goroutines struct{}

func (goroutines) Schedule(work func()) { go work() }

func (goroutines) Inline(tell, _ func()) (reads bool) {
	tell()
	return true
}

func (goroutines) AtEnd(f func()) { f() }

// box is the mailbox of a VM: work in order, one after another, on whichever goroutine. It has
// no bound: what fills it is bounded where it comes from, and who says something never waits.
type box struct {
	turns Turns
	run   func() // takes what next gives, until it is nil

	mu    sync.Mutex
	list  []func()
	ready bool // somebody takes, or is about to
	over  bool
}

func (b *box) put(f func()) {
	b.mu.Lock()
	if b.over {
		b.mu.Unlock()
		return
	}
	b.list = append(b.list, f)
	wake := !b.ready
	b.ready = true
	b.mu.Unlock()
	if wake {
		b.turns.Schedule(b.run)
	}
}

// next is the work that waits, nil if there is none: then the next that comes is scheduled.
func (b *box) next() []func() {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.list
	b.list, b.ready = nil, len(list) > 0
	return list
}

// close drops what waits, and what comes.
func (b *box) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list, b.over = nil, true
}
