package actors

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// lead lets the goroutine that has read a line run, one after the other, the
// mailboxes that the line sets off: router, session, writer. Handing each to
// another goroutine wakes another processor, which is most of what a command
// costs while nothing else goes on. What is told to whom, and in which order,
// is the mailboxes' affair and does not change.
//
// The leader cannot read while it leads. If that lasts, because a mailbox fills
// as fast as it is emptied, a disk is slow or an actor hangs, it is relieved:
// somebody else reads on, it goes on as any other goroutine that runs a
// mailbox, and for a while nobody leads.
type lead struct {
	run     func(mailbox func()) // runs a mailbox on another goroutine
	leading atomic.Bool          // changed under mu
	work    atomic.Bool          // goroutines were started that have much to do

	mu     sync.Mutex
	turns  uint64            // how often somebody has led
	queue  [leadQueue]func() // mailboxes to run, oldest first; further ones go to other goroutines
	queued int
	relief func() // reads on
	guard  *time.Timer
	seen   uint64 // turns when the guard looked last
	awake  bool   // the guard will look again
	paused bool   // nobody leads until it does
}

const (
	// leadQueue is how many mailboxes may wait for a leader.
	leadQueue = 8
	// leadLimit is how long a leader may keep the input waiting. The guard
	// looks that often, so it may be twice as long.
	leadLimit = 20 * time.Millisecond
	// leadPause is how long nobody leads after that.
	leadPause = time.Second
)

// follow runs tell and then every mailbox that is offered, until there is none.
// It returns false if that took too long: then relief has been called on
// another goroutine, and the caller no longer is who reads.
func (l *lead) follow(tell, relief func()) (reads bool) {
	turn := l.begin(relief)
	if turn == 0 {
		tell()
		return true
	}
	ended := false
	defer func() {
		if !ended { // by a panic: what waits must not wait for ever
			for next, _ := l.next(turn); next != nil; next, _ = l.next(turn) {
				l.run(next)
			}
		}
	}()
	for do := tell; do != nil; {
		do()
		do, reads = l.next(turn)
	}
	ended = true
	if l.work.Swap(false) {
		runtime.Gosched() // here and now, while another thread blocks in the read
	}
	return reads
}

// started tells the leader, if there is one, not to keep a worker waiting.
func (l *lead) started() {
	if l != nil && l.leading.Load() {
		l.work.Store(true)
	}
}

// begin is 0 while nobody is to lead.
func (l *lead) begin(relief func()) (turn uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.paused {
		return 0
	}
	l.turns++
	l.relief = relief
	l.leading.Store(true)
	if l.awake {
		return l.turns
	}
	// A timer for each line would cost more than the line: the guard looks now
	// and then while lines come, and sleeps when none do.
	l.awake, l.seen = true, l.turns
	if l.guard == nil {
		l.guard = time.AfterFunc(leadLimit, l.look)
	} else {
		l.guard.Reset(leadLimit)
	}
	return l.turns
}

// next is the mailbox to go on with. If there is none, the turn ends; reads
// says whether it was on until now.
func (l *lead) next(turn uint64) (mailbox func(), reads bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.leading.Load() || l.turns != turn {
		return nil, false
	}
	if l.queued == 0 {
		l.leading.Store(false)
		return nil, true
	}
	mailbox = l.queue[0]
	copy(l.queue[:], l.queue[1:l.queued])
	l.queued--
	l.queue[l.queued] = nil
	return mailbox, true
}

// offer gives a mailbox to the leader: false if nobody leads, or too many wait
// already.
func (l *lead) offer(mailbox func()) bool {
	if !l.leading.Load() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.leading.Load() || l.queued == len(l.queue) {
		return false
	}
	l.queue[l.queued] = mailbox
	l.queued++
	return true
}

// look relieves a leader who led when the guard looked last, and still does.
func (l *lead) look() {
	l.mu.Lock()
	var orphans [leadQueue]func()
	var relief func()
	switch {
	case l.paused:
		l.paused, l.awake = false, false
	case l.leading.Load() && l.turns == l.seen:
		orphans, relief = l.queue, l.relief
		clear(l.queue[:])
		l.queued = 0
		l.leading.Store(false)
		l.paused = true
		l.guard.Reset(leadPause)
	case l.turns == l.seen:
		l.awake = false
	default:
		l.seen = l.turns
		l.guard.Reset(leadLimit)
	}
	l.mu.Unlock()
	for _, mailbox := range orphans {
		if mailbox != nil {
			l.run(mailbox)
		}
	}
	if relief != nil {
		relief()
	}
}
