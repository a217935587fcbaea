package core

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"troupe/protocol"
)

// TestKeysOutliveTheMachine: whatever characters an idempotency key has, a
// repeat gets the first answer from the next machine, too, and runs nothing;
// the same key with another message is refused.
func TestKeysOutliveTheMachine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.OneOf(rapid.StringN(1, 20, -1), rapid.StringMatching(`[#a"\\]{1,5}`)).Draw(t, "key")
		w := newWorld(defaults())
		first := rapid.SampledFrom([]func(text string) protocol.Command{
			func(text string) protocol.Command { return protocol.Prompt{Message: text, IdempotencyKey: key} },
			func(text string) protocol.Command { return protocol.Steer{Message: text, IdempotencyKey: key} },
			func(text string) protocol.Command { return protocol.FollowUp{Message: text, IdempotencyKey: key} },
		}).Draw(t, "command")
		disposition := protocol.Started
		if rapid.Bool().Draw(t, "busy") {
			w.send(protocol.Prompt{Message: "before"})
			disposition = protocol.Queued
			if p, ok := first("").(protocol.Prompt); ok {
				first = func(text string) protocol.Command {
					p.Message, p.StreamingBehavior = text, protocol.BehaviorSteer
					return p
				}
			}
		}
		require.Equal(t, disposition, replyTo(w.send(first("text"))).Data)
		w.crash()
		written := len(w.log)
		require.Equal(t, disposition, replyTo(w.send(first("text"))).Data, "key %q", key)
		require.Equal(t, protocol.CodeConflict, replyTo(w.send(first("other"))).Err.Code)
		require.Len(t, w.log, written, "a repeat is written nowhere")
	})
}

// replyTo is the answer among a command's effects.
func replyTo(effects []Effect) Reply {
	for _, e := range effects {
		if r, ok := e.(Reply); ok {
			return r
		}
	}
	return Reply{}
}
