package session

import (
	"context"
	"errors"
	"iter"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/kernel"
)

// turn is the handling of one message by a session of a cluster. What it appends is known
// to be kept only when an engine has answered, which may take seconds: meanwhile the
// session's goroutine is given back, and what comes waits behind the turn, as in a mailbox.
// Like the durable that it is part of it is touched on the actor's goroutine only.
type turn struct {
	yield  func(struct{}) bool // leaves a turn in the middle; nil while none is handled
	goOn   func() (struct{}, bool)
	stop   func()   // nil when it was called
	waits  *waiting // what the turn waits for; nil for nothing
	behind []any    // messages that have come meanwhile
}

// waiting is something that is done for a turn on another goroutine.
type waiting struct{ err error } // errAbandoned as long as it has not returned, as when it panics

// wentOn says that a turn can go on.
type wentOn struct{ from *waiting }

// errAbandoned is what a turn panics with that is not to go on.
var errAbandoned = errors.New("the turn was abandoned")

// take handles a message, or has it wait behind the one that is handled.
func (t *turn) take(msg any, handle func(any)) {
	t.behind = append(t.behind, msg)
	t.drain(handle)
}

// drain handles what has come, until one has to wait.
func (t *turn) drain(handle func(any)) {
	for len(t.behind) > 0 && t.waits == nil {
		msg := t.behind[0]
		t.behind = t.behind[1:]
		t.goOn, t.stop = iter.Pull(func(yield func(struct{}) bool) {
			t.yield = yield
			defer func() {
				t.yield = nil
				if reason := recover(); reason != nil && reason != any(errAbandoned) {
					panic(reason)
				}
			}()
			handle(msg)
		})
		t.goOn()
	}
}

// resume goes on with the turn that has waited, and with what came behind it.
func (t *turn) resume(m wentOn, handle func(any)) {
	if m.from != t.waits {
		return // of a turn that was abandoned
	}
	t.waits = nil
	t.goOn()
	t.drain(handle)
}

// wait does something on another goroutine, and goes on behind it. Outside of a turn, as
// when the actor stops, it is done at once. A turn that is abandoned ends here, unless what was
// done succeeded: then it goes on to where it would have to wait again.
func (t *turn) wait(c actor.Context, do func(context.Context) error) error {
	if t.yield == nil {
		return do(context.Background())
	}
	if t.stop == nil {
		panic(errAbandoned)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	root, self, w, over := c.ActorSystem().Root, c.Self(), &waiting{errAbandoned}, make(chan struct{})
	kernel.Go(root, self, func() {
		defer close(over)
		w.err = do(ctx)
		root.Send(self, wentOn{w})
	})
	t.waits = w
	if t.yield(struct{}{}) {
		return w.err
	}
	cancel()
	<-over
	if t.waits = nil; w.err != nil {
		panic(errAbandoned)
	}
	return nil
}

// abandon ends a turn that waits: the actor ends or is restarted.
func (t *turn) abandon() {
	if stop := t.stop; t.waits != nil {
		t.stop = nil
		stop()
	}
}
