package actors

import (
	"runtime"
	"sync/atomic"
)

// crew runs the mailboxes of a daemon's actors, and the jobs of its workers, on
// goroutines that wait for the next one. A mailbox that is given a new goroutine
// each time pays for growing its stack each time, which is more than half of
// what a short command costs.
type crew struct {
	lead
	work chan func() // nil sends one home
	idle atomic.Int32
	over atomic.Bool // nobody waits any more
}

const (
	crewWaiting    = 8   // goroutines kept waiting; idle daemons hold no more
	crewThroughput = 300 // messages of one mailbox in a row
)

func newCrew() *crew {
	c := &crew{work: make(chan func())}
	c.lead.run = c.hand
	return c
}

// Schedule runs a mailbox now: by who has just read a line, on a waiting
// goroutine, or on a new one.
func (c *crew) Schedule(mailbox func()) {
	if !c.offer(mailbox) {
		c.hand(mailbox)
	}
}

func (c *crew) hand(mailbox func()) {
	select {
	case c.work <- mailbox:
	default:
		go c.run(mailbox)
	}
}

func (c *crew) Throughput() int { return crewThroughput }

func (c *crew) run(mailbox func()) {
	for mailbox != nil {
		mailbox()
		if c.idle.Add(1) > crewWaiting || c.over.Load() {
			c.idle.Add(-1)
			return
		}
		mailbox = <-c.work
		c.idle.Add(-1)
	}
}

// dismiss ends those who wait. Who counts as idle and does not wait yet will in
// a moment, or has seen that it is over.
func (c *crew) dismiss() {
	c.over.Store(true)
	for c.idle.Load() > 0 {
		select {
		case c.work <- nil:
		default:
			runtime.Gosched()
		}
	}
}
