package kernel

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// inline lets the goroutine that has read a line run, one after the other, the
// mailboxes that the line makes ready: router, session, writer. Handing each of
// them to another goroutine wakes another processor, which is most of what a
// command costs while nothing else goes on. The order of messages is the
// mailboxes' affair and does not change.
//
// A goroutine cannot read while it runs mailboxes. If that lasts, because a
// mailbox fills as fast as it is emptied, a disk is slow or an actor hangs, a
// watchdog has another goroutine read on, and for a while nothing is run inline.
type inline struct {
	elsewhere func(mailbox func()) // runs a mailbox on another goroutine
	active    atomic.Bool          // a turn is on; changed under mu
	yield     atomic.Bool          // a job has been started that is to begin before the next read
	first     atomic.Int32         // calls of First that go on

	mu       sync.Mutex // guards what follows
	turn     uint64     // the number of the latest turn, from 1
	queue    []func()   // mailboxes to run in this turn, the next one first; at most inlineQueue, and as many by First
	after    []func()   // to do when it has ended
	takeOver func()     // reads on
	watchdog watchdog
}

// watchdog looks for turns that last too long. A timer for each line would cost
// more than the line, so it looks every InlineLimit while lines come, and sleeps
// when none do.
type watchdog struct {
	timer  *time.Timer
	awake  bool   // it will look again
	paused bool   // nothing is run inline until it does
	seen   uint64 // the turn that was on when it looked last
}

const (
	// inlineQueue is how many mailboxes may wait in a turn. Others are run
	// elsewhere.
	inlineQueue = 8
	// InlineLimit is how long a turn may last before the watchdog looks at it
	// for the first time. It ends the turn when it looks for the second time.
	InlineLimit = 20 * time.Millisecond
	// inlinePause is how long nothing is run inline after that.
	inlinePause = time.Second
)

// Inline runs tell and then every mailbox that becomes ready meanwhile, until
// there is none.
func (l *inline) Inline(tell, takeOver func()) (reads bool) {
	turn := l.begin(takeOver)
	if turn == 0 {
		tell()
		return true
	}
	ended := false
	defer func() {
		if !ended { // by a panic: what waits must not wait for ever
			for next, _ := l.next(turn); next != nil; next, _ = l.next(turn) {
				l.elsewhere(next)
			}
			l.afterwards(l.elsewhere)
		}
	}()
	for do := tell; do != nil; {
		do()
		do, reads = l.next(turn)
	}
	ended = true
	l.afterwards(func(f func()) { f() })
	if l.yield.Swap(false) {
		runtime.Gosched() // so that the job starts on this thread, while another one blocks in the read
	}
	return reads
}

// Inlining says whether a turn is on.
func (l *inline) Inlining() bool { return l.active.Load() }

// yieldLater has the turn that is on, if any, end with a yield.
func (l *inline) yieldLater() {
	if l.active.Load() {
		l.yield.Store(true)
	}
}

// begin begins a turn and returns its number, 0 during a pause or another turn.
func (l *inline) begin(takeOver func()) (turn uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := &l.watchdog
	if w.paused || l.active.Load() { // another connection's turn is on
		return 0
	}
	l.turn++
	l.takeOver = takeOver
	l.active.Store(true)
	if w.awake {
		return l.turn
	}
	w.awake, w.seen = true, l.turn
	if w.timer == nil {
		w.timer = time.AfterFunc(InlineLimit, l.look)
	} else {
		w.timer.Reset(InlineLimit)
	}
	return l.turn
}

// next is the mailbox to go on with. If there is none, the turn ends; reads
// says whether it was on until now.
func (l *inline) next(turn uint64) (mailbox func(), reads bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.active.Load() || l.turn != turn {
		return nil, false
	}
	if len(l.queue) == 0 {
		l.active.Store(false)
		l.takeOver = nil // it holds its connection
		return nil, true
	}
	mailbox = l.queue[0]
	n := copy(l.queue, l.queue[1:])
	l.queue[n] = nil
	l.queue = l.queue[:n]
	return mailbox, true
}

// AtEnd has something done when the turn that is on has ended, or at once if none is: what
// is written then to somebody else, his answer does not come into the turn.
func (l *inline) AtEnd(f func()) {
	l.mu.Lock()
	later := l.active.Load()
	if later {
		l.after = append(l.after, f)
	}
	l.mu.Unlock()
	if !later {
		f()
	}
}

// afterwards does what was to be done at the end of turns, unless another one is on.
func (l *inline) afterwards(do func(f func())) {
	l.mu.Lock()
	var list []func()
	if !l.active.Load() {
		list, l.after = l.after, nil
	}
	l.mu.Unlock()
	for _, f := range list {
		do(f)
	}
}

// First runs f. What becomes ready by it is next in the turn that is on: a client that waits
// for an answer does not wait for mailboxes that have become ready elsewhere meanwhile.
func (l *inline) First(f func()) {
	l.first.Add(1)
	defer l.first.Add(-1)
	f()
}

// trySchedule adds a mailbox to the turn that is on. It returns false if none
// is, or too many mailboxes wait already.
func (l *inline) trySchedule(mailbox func()) bool {
	if !l.active.Load() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at, most := len(l.queue), inlineQueue
	if l.first.Load() > 0 {
		at, most = 0, 2*inlineQueue
	}
	if !l.active.Load() || len(l.queue) >= most {
		return false
	}
	l.queue = slices.Insert(l.queue, at, mailbox)
	return true
}

// look ends a turn that was on when the watchdog looked last, and still is.
func (l *inline) look() {
	l.mu.Lock()
	w := &l.watchdog
	var leftover []func()
	var takeOver func()
	switch {
	case w.paused:
		w.paused, w.awake = false, false
	case l.active.Load() && l.turn == w.seen:
		leftover, takeOver = l.queue, l.takeOver
		l.queue = nil
		l.active.Store(false)
		w.paused = true
		w.timer.Reset(inlinePause)
	case l.turn == w.seen:
		w.awake = false
	default:
		w.seen = l.turn
		w.timer.Reset(InlineLimit)
	}
	l.mu.Unlock()
	for _, mailbox := range leftover {
		l.elsewhere(mailbox)
	}
	l.afterwards(l.elsewhere)
	if takeOver != nil {
		takeOver()
	}
}
