package link

import (
	"context"
	"sync"
	"time"
)

// Clients read a file when they are told that it will be changed, to show what
// has become different at the end. So a tool that changes a file waits after the
// record that says so was written to a client: not for an answer, for there is
// none, but for as long as it takes to open a file. pi is that slow by itself.
const (
	LookTime = 10 * time.Millisecond
	readTime = 5 * time.Second // for the record to be written: who reads so late does not look
)

// Receipt says that a record was written, to the first of the clients that it
// went to. It is shared by the writers and by who waits.
type Receipt struct {
	once sync.Once
	done chan struct{} // closed when it is written, or will never be
	at   time.Time     // when; to be read after done
}

func NewReceipt() *Receipt { return &Receipt{done: make(chan struct{})} }

func (r *Receipt) Written() {
	if r != nil {
		r.once.Do(func() {
			r.at = time.Now()
			close(r.done)
		})
	}
}

// Done is closed when it is written, or will never be.
func (r *Receipt) Done() <-chan struct{} { return r.done }

// Wait returns when clients have had their look; false if ctx ended first. A nil
// receipt is one that nobody waits for.
func (r *Receipt) Wait(ctx context.Context) bool {
	if r == nil {
		return ctx.Err() == nil
	}
	late := time.NewTimer(readTime)
	defer late.Stop()
	select {
	case <-r.done:
	case <-late.C:
		return true
	case <-ctx.Done():
		return false
	}
	look := time.NewTimer(time.Until(r.at.Add(LookTime)))
	defer look.Stop()
	select {
	case <-look.C:
		return true
	case <-ctx.Done():
		return false
	}
}
