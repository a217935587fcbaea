package actors

import "sync/atomic"

// crew runs the mailboxes of a daemon's actors on goroutines that wait for the
// next one. A mailbox that is given a new goroutine each time pays for growing
// its stack each time, which is more than half of what a short command costs.
type crew struct {
	work chan func()
	over chan struct{} // closed at the end: nobody waits any more
	idle atomic.Int32
}

const (
	crewWaiting    = 8   // goroutines kept waiting; idle daemons hold no more
	crewThroughput = 300 // messages of one mailbox in a row
)

func newCrew() *crew { return &crew{work: make(chan func()), over: make(chan struct{})} }

// Schedule runs a mailbox now, on a waiting goroutine or a new one.
func (c *crew) Schedule(mailbox func()) {
	select {
	case c.work <- mailbox:
	default:
		go c.run(mailbox)
	}
}

func (c *crew) Throughput() int { return crewThroughput }

func (c *crew) run(mailbox func()) {
	for {
		mailbox()
		if c.idle.Add(1) > crewWaiting {
			c.idle.Add(-1)
			return
		}
		select {
		case mailbox = <-c.work:
			c.idle.Add(-1)
		case <-c.over:
			return
		}
	}
}

// dismiss ends those who wait.
func (c *crew) dismiss() { close(c.over) }
