package kernel

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

// pool is the dispatcher of production. It runs mailboxes and jobs on goroutines
// that are kept for the next one: a new goroutine has to grow its stack first,
// which is more than half of what a short command costs. Mailboxes that a line of
// input makes ready are run by the goroutine that has read it; see [inline].
type pool struct {
	inline
	work   chan func() // nil tells a goroutine to end
	idle   atomic.Int32
	closed atomic.Bool
	crowd  crowd
}

// crowd is what waits for a goroutine when very much becomes ready at once: an event for a
// thousand clients. What has waited is taken by whoever is done with something, on the stack
// that it has grown. As long as something waits there is a goroutine that has yet to begin,
// so that nothing waits for those that block.
type crowd struct {
	mu       sync.Mutex
	starting int // goroutines that have yet to begin
	waiting  []func()
	any      atomic.Bool // something waits
}

const (
	poolStarting   = 128 // goroutines that have yet to begin, before others wait
	poolIdle       = 8   // goroutines that are kept while there is nothing to do
	poolThroughput = 300 // messages of one mailbox before others may run
)

// New returns the dispatcher of production.
func New() Dispatcher { return newPool() }

func newPool() *pool {
	p := &pool{work: make(chan func())}
	p.inline.elsewhere = p.submit
	return p
}

// Mailbox leaves the choice of the mailbox to the library.
func (p *pool) Mailbox() []actor.PropsOption { return []actor.PropsOption{actor.WithDispatcher(p)} }

// Schedule runs a mailbox that has become ready.
func (p *pool) Schedule(mailbox func()) {
	if !p.trySchedule(mailbox) {
		p.submit(mailbox)
	}
}

// Throughput is the number of messages a mailbox handles before it yields.
func (p *pool) Throughput() int { return poolThroughput }

// Go runs a job. If a line of input has led to it, the goroutine that has read
// the line lets it begin before it reads on.
func (p *pool) Go(job func()) {
	p.yieldLater()
	p.submit(job)
}

// submit runs f on an idle goroutine, or on a new one.
func (p *pool) submit(f func()) {
	select {
	case p.work <- f:
	default:
		if p.crowd.mayStart(f) {
			go p.run(f)
		}
	}
}

// mayStart says whether there may be one more goroutine, for f. If not f waits.
func (w *crowd) mayStart(f func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.starting < poolStarting {
		w.starting++
		return true
	}
	w.waiting = append(w.waiting, f)
	w.any.Store(true)
	return false
}

// begun notes that a goroutine has begun. If it was the last one, and something waits,
// there is to be another, for what is returned.
func (w *crowd) begun() (f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.starting--
	if w.starting == 0 && len(w.waiting) > 0 {
		w.starting++
		return w.first()
	}
	return nil
}

// next takes what has waited longest; nil if nothing waits.
func (w *crowd) next() func() {
	if !w.any.Load() {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) == 0 {
		return nil
	}
	return w.first()
}

func (w *crowd) first() func() {
	f := w.waiting[0]
	w.waiting[0] = nil
	if w.waiting = w.waiting[1:]; len(w.waiting) == 0 {
		w.waiting = nil
		w.any.Store(false)
	}
	return f
}

func (p *pool) run(f func()) {
	if more := p.crowd.begun(); more != nil {
		go p.run(more)
	}
	for f != nil {
		f()
		for f = p.crowd.next(); f != nil; f = p.crowd.next() {
			f()
		}
		if p.idle.Add(1) > poolIdle || p.closed.Load() {
			p.idle.Add(-1)
			return
		}
		f = <-p.work
		p.idle.Add(-1)
	}
}

// Close ends the goroutines that are idle. One that has counted itself as idle
// and does not receive yet will do so in a moment, or has seen closed.
func (p *pool) Close() {
	p.closed.Store(true)
	for p.idle.Load() > 0 {
		select {
		case p.work <- nil:
		default:
			runtime.Gosched()
		}
	}
}
