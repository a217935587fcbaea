package worker

import (
	"context"
	"errors"
	"iter"

	"troupe/actors/core"
	"troupe/protocol"
	"troupe/providers"
)

// partsBuffered is how many parts may gather between the provider and the
// session before the provider is not read any further.
const partsBuffered = 256

// TurnJob asks a model and passes its answer on. Parts that arrive while the
// session is busy go out together; an idle session gets each at once. complete
// finishes the request: it may read files.
func TurnJob(attempt core.Attempt, models Streamer, complete func(context.Context) providers.Request) Job {
	return func(ctx context.Context, tell func(any)) {
		ctx = withLoginWait(ctx, attempt, tell)
		t := make(Tokens, streamTokens)
		parts := make(chan protocol.Part, partsBuffered)
		var end core.StreamEnd // both are there when parts is closed
		var panicked any
		go func() {
			defer close(parts)
			defer func() { panicked = recover() }()
			end = readStream(ctx, attempt, parts, models.Stream(ctx, complete(ctx)))
		}()
		for part := range parts {
			batch := gather(append(make([]protocol.Part, 0, 1+len(parts)), part), parts)
			if !t.take(ctx) {
				for range parts { // the provider is ending, too
				}
				break
			}
			batch = gather(batch, parts)
			tell(StreamParts{core.StreamParts{Attempt: attempt, Parts: batch}, t})
		}
		switch {
		case panicked != nil:
			panic(panicked) // in the worker's goroutine, where it is reported
		case ctx.Err() == nil:
			tell(end)
		}
	}
}

// withLoginWait has the machine know when a request waits for a login.
func withLoginWait(ctx context.Context, attempt core.Attempt, tell func(any)) context.Context {
	return providers.WithLoginWait(ctx, func(provider string) { tell(core.LoginWaits{Attempt: attempt, For: provider}) })
}

// StreamParts is a batch of parts with the token to give back for it.
type StreamParts struct {
	core.StreamParts
	Tokens Tokens
}

// gather adds the parts that are there already, without waiting.
func gather(batch []protocol.Part, parts <-chan protocol.Part) []protocol.Part {
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

// readStream reads the provider's parts up to its end.
func readStream(ctx context.Context, attempt core.Attempt, parts chan<- protocol.Part, stream iter.Seq2[protocol.Part, error]) core.StreamEnd {
	end := core.StreamEnd{Attempt: attempt}
	ended := false
	for part, err := range stream {
		if err != nil {
			end.Err = streamError(err)
			return end
		}
		if done, ok := part.(protocol.PartDone); ok {
			end.Done, ended = done, true
			continue
		}
		select { // of one way is half the price: mostly there is room
		case parts <- part:
			continue
		default:
		}
		select {
		case parts <- part:
		case <-ctx.Done():
			end.Err = streamError(ctx.Err())
			return end
		}
	}
	if !ended {
		end.Err = protocol.ErrorCutStream.Errorf("the provider's stream ended without a result")
	}
	return end
}

// streamError is why a provider gave no answer.
func streamError(err error) *protocol.StreamError {
	if streamErr, is := errors.AsType[*protocol.StreamError](err); is {
		return streamErr
	}
	return protocol.ErrorInternal.Errorf("%s", err)
}

// Streamer asks a model; see providers.Provider.
type Streamer interface {
	Stream(ctx context.Context, req providers.Request) iter.Seq2[protocol.Part, error]
}
