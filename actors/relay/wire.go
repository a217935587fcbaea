package relay

import (
	"sync"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/cluster"
	"troupe/actors/link"
)

const (
	readAhead = 256 << 10 // bytes of a node that are not written to the client yet, when no more are read
	writeMost = 64 << 10  // bytes of lines that are written at once, but for one line that is longer
)

// outbox is the lines that wait to be written to a node. How many there may be the client's
// window says: each gives its credit back when it is written.
type outbox struct {
	mu     sync.Mutex // guards what follows
	queue  []outgoing
	ending bool          // nothing follows
	wake   chan struct{} // has room for one
}

type outgoing struct {
	line   []byte
	credit link.Credit
}

func newOutbox() *outbox { return &outbox{wake: make(chan struct{}, 1)} }

func (o *outbox) put(line []byte, credit link.Credit) {
	o.mu.Lock()
	o.queue = append(o.queue, outgoing{line, credit})
	o.mu.Unlock()
	o.poke()
}

// end says that nothing follows.
func (o *outbox) end() {
	o.mu.Lock()
	o.ending = true
	o.mu.Unlock()
	o.poke()
}

func (o *outbox) poke() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

func (o *outbox) take() (all []outgoing, ending bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	all, o.queue = o.queue, nil
	return all, o.ending
}

// write writes to a node until that fails or nothing follows. Why it fails who reads finds
// out.
func (o *outbox) write(c cluster.Conn, stop <-chan struct{}) {
	for {
		all, ending := o.take()
		var buf []byte
		var done []link.Credit
		flush := func() bool {
			if len(buf) == 0 {
				return true
			}
			err := c.Write(buf)
			for _, credit := range done {
				credit.GiveBack()
			}
			buf, done = buf[:0], done[:0]
			return err == nil
		}
		for i, out := range all {
			buf = append(append(buf, out.line...), '\n')
			done = append(done, out.credit)
			if len(buf) >= writeMost && !flush() {
				giveBack(all[i+1:])
				_ = c.Close()
				return
			}
		}
		if !flush() {
			_ = c.Close()
			return
		}
		if ending {
			_ = c.CloseWrite()
			return
		}
		select {
		case <-o.wake:
		case <-stop:
			all, _ := o.take()
			giveBack(all)
			return
		}
	}
}

func giveBack(all []outgoing) {
	for _, out := range all {
		out.credit.GiveBack()
	}
}

// read tells a relay what a node writes, until it writes no more. It does not read further
// while too much of that is not written to the client: then the node's own connection is full,
// and it knows what to do about a client that does not read.
func read(root *actor.RootContext, self *actor.PID, node string, life uint64, c cluster.Conn, stop <-chan struct{}) {
	var under underWay
	for {
		lines, err := c.Read()
		if err != nil {
			root.Send(self, lost{node, life, err})
			return
		}
		receipt := link.NewReceipt()
		under.add(receipt, len(lines))
		root.Send(self, heard{node, life, lines, receipt})
		if !under.room(stop) {
			root.Send(self, lost{node, life, nil})
			return
		}
	}
}

// underWay is what was read and may not be written, oldest first.
type underWay struct {
	receipts []*link.Receipt
	sizes    []int
	bytes    int
}

func (u *underWay) add(r *link.Receipt, bytes int) {
	u.receipts, u.sizes, u.bytes = append(u.receipts, r), append(u.sizes, bytes), u.bytes+bytes
}

// room waits until more may be read; false if it was stopped.
func (u *underWay) room(stop <-chan struct{}) bool {
	for len(u.receipts) > 0 {
		select {
		case <-u.receipts[0].Done():
		default:
			if u.bytes <= readAhead {
				return true
			}
			select {
			case <-u.receipts[0].Done():
			case <-stop:
				return false
			}
		}
		u.bytes -= u.sizes[0]
		u.receipts, u.sizes = u.receipts[1:], u.sizes[1:]
	}
	return true
}
