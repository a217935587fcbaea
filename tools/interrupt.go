package tools

import (
	"slices"
	"sync"
)

// Interrupt ends the commands of one call from the goroutine that wants it. The
// end of a context does that too, but only when another goroutine has woken up.
// The zero value is ready for use; a nil one does nothing.
type Interrupt struct {
	mu   sync.Mutex
	over bool
	live []*group
}

// Now sends SIGTERM to what runs, and to what is started later. The context of
// the call has to end as well: what follows is its business.
func (i *Interrupt) Now() {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.over = true
	for _, g := range i.live {
		g.terminate()
	}
}

func (i *Interrupt) add(g *group) {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.live = append(i.live, g)
	if i.over {
		g.terminate()
	}
}

func (i *Interrupt) remove(g *group) {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.live = slices.DeleteFunc(i.live, func(x *group) bool { return x == g })
}
