package extension

import "sync"

// box is the mailbox of a VM: work for its goroutine, in order. It has no bound: what
// fills it is bounded where it comes from, and who says something never waits.
type box struct {
	mu   sync.Mutex
	list []func()
	more chan struct{} // holds a token while list is not empty
}

func newBox() *box { return &box{more: make(chan struct{}, 1)} }

func (b *box) put(f func()) {
	b.mu.Lock()
	b.list = append(b.list, f)
	b.mu.Unlock()
	select {
	case b.more <- struct{}{}:
	default:
	}
}

// next waits for work.
func (b *box) next() []func() {
	<-b.more
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.list
	b.list = nil
	return list
}
