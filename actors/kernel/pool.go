package kernel

import (
	"runtime"
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
}

const (
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
		go p.run(f)
	}
}

func (p *pool) run(f func()) {
	for f != nil {
		f()
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
