package actors

import (
	"context"
	"errors"
	"sync"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/session"
	"troupe/protocol"
	"troupe/providers"
)

// partsBuffered is how many parts may gather between the provider and the
// session before the provider is not read any further.
const partsBuffered = 256

// turnJob asks a model and passes its answer on. Parts that arrive while the
// session is busy go out together; an idle session gets each at once.
func turnJob(root *actor.RootContext, to *actor.PID, run int, t tokens, stream func(context.Context, func(protocol.Part) bool) error) func(context.Context) {
	return func(ctx context.Context) {
		parts := make(chan protocol.Part, partsBuffered)
		var end session.StreamEnd
		var reading sync.WaitGroup
		var panicked any
		reading.Add(1)
		go func() {
			defer reading.Done()
			defer close(parts)
			defer func() { panicked = recover() }()
			end = readStream(ctx, run, parts, stream)
		}()
		defer func() {
			reading.Wait()
			if panicked != nil {
				panic(panicked) // in the worker's goroutine, where it is reported
			}
		}()
		for part := range parts {
			batch := gather(part, parts)
			if !t.take(ctx) {
				for range parts { // the provider is ending, too
				}
				return
			}
			batch = gather2(batch, parts)
			root.Send(to, streamParts{session.StreamParts{Run: run, Parts: batch}, t})
		}
		reading.Wait()
		if panicked == nil && ctx.Err() == nil {
			root.Send(to, end)
		}
	}
}

// streamParts is a batch of parts with the token to give back for it.
type streamParts struct {
	session.StreamParts
	tokens tokens
}

func gather(first protocol.Part, parts <-chan protocol.Part) []protocol.Part {
	return gather2(append(make([]protocol.Part, 0, 1+len(parts)), first), parts)
}

// gather2 adds what is there already, without waiting.
func gather2(batch []protocol.Part, parts <-chan protocol.Part) []protocol.Part {
	for len(batch) < partsBuffered {
		select {
		case p, ok := <-parts:
			if !ok {
				return batch
			}
			batch = append(batch, p)
		default:
			return batch
		}
	}
	return batch
}

// readStream pulls the provider's parts until its end.
func readStream(ctx context.Context, run int, parts chan<- protocol.Part, stream func(context.Context, func(protocol.Part) bool) error) session.StreamEnd {
	var done *protocol.PartDone
	err := stream(ctx, func(p protocol.Part) bool {
		if d, ok := p.(protocol.PartDone); ok {
			done = &d
			return true
		}
		select {
		case parts <- p:
			return true
		case <-ctx.Done():
			return false
		}
	})
	var streamErr *protocol.StreamError
	switch {
	case errors.As(err, &streamErr):
		return session.StreamEnd{Run: run, Err: streamErr}
	case err != nil:
		return session.StreamEnd{Run: run, Err: protocol.ErrorInternal.Errorf("%s", err)}
	case done == nil:
		return session.StreamEnd{Run: run, Err: protocol.ErrorCutStream.Errorf("the provider's stream ended without a result")}
	}
	return session.StreamEnd{Run: run, Done: *done}
}

// provide adapts a provider's sequence.
func provide(models Models, complete func() providers.Request) func(context.Context, func(protocol.Part) bool) error {
	return func(ctx context.Context, yield func(protocol.Part) bool) error {
		for part, err := range models.Stream(ctx, complete()) {
			if err != nil {
				return err
			}
			if !yield(part) {
				return context.Canceled
			}
		}
		return nil
	}
}
