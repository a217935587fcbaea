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

// TestBashAgain: a bash command that comes again with its key runs once. While the first one
// runs both get its answer; behind its end, also in the next machine, the record has it;
// one that was cut off is refused, and one that could not begin may.
func TestBashAgain(t *testing.T) {
	code := 0
	result := protocol.BashResult{Output: "out", ExitCode: &code}.Counted()
	keyed := protocol.Bash{Command: "date", IdempotencyKey: "k"}
	begin := func() *world {
		w := newWorld(defaults())
		w.send(protocol.Prompt{Message: "before"})
		w.send(keyed)
		require.Len(t, w.bash, 1)
		return w
	}

	w := begin()
	require.Empty(t, w.send(keyed), "it runs")
	require.Equal(t, protocol.CodeConflict, replyTo(w.send(protocol.Bash{Command: "other", IdempotencyKey: "k"})).Err.Code)
	require.Equal(t, protocol.CodeConflict, replyTo(w.send(protocol.Prompt{Message: "date", IdempotencyKey: "k"})).Err.Code)
	var answers []Reply
	for _, e := range w.step(BashDone{Job: 1, Result: result}) {
		if r, ok := e.(Reply); ok {
			answers = append(answers, r)
		}
	}
	require.Len(t, answers, 2)
	require.Equal(t, result, answers[0].Data)
	require.Equal(t, result, answers[1].Data)
	require.Equal(t, result, replyTo(w.send(keyed)).Data, "its record waits for the end of the run")
	w.crash()
	require.Equal(t, []Effect{Query{w.seq + 1, "bash", keyed}}, w.send(keyed), "its record is in the log")
	w.restart()
	require.Equal(t, []Effect{Query{w.seq + 1, "bash", keyed}}, w.send(keyed))

	w = begin()
	w.restart()
	require.Equal(t, protocol.CodeCancelled, replyTo(w.send(keyed)).Err.Code, "it may have had effects")
	require.Empty(t, w.bash)

	w = begin()
	gone := replyTo(w.step(WorkerGone{Kind: WorkerBash, Job: 1}))
	require.True(t, gone.Err.OutcomeIsUnknown(), "it may have run")
	again := replyTo(w.send(keyed))
	require.Equal(t, protocol.CodeCancelled, again.Err.Code)
	require.True(t, again.Err.OutcomeIsUnknown())
	require.Len(t, w.bash, 1)

	w = begin()
	w.step(BashDone{Job: 1, Err: protocol.CodeIO.Errorf("no shell")})
	w.restart()
	w.send(keyed)
	require.Len(t, w.bash, 1)
}

// TestSwitchAgain: new_session, fork and clone that come again with their key begin no
// further session: in the one that they have begun they are answered, and the one that they
// have left leads there.
func TestSwitchAgain(t *testing.T) {
	for cmd, answer := range map[protocol.Command]protocol.Result{
		protocol.NewSession{IdempotencyKey: "k"}:          protocol.Cancelled{},
		protocol.Fork{EntryID: "e2", IdempotencyKey: "k"}: protocol.ForkResult{Text: "said"},
		protocol.Clone{IdempotencyKey: "k"}:               protocol.Cancelled{},
	} {
		w := newWorld(defaults())
		w.send(protocol.Prompt{Message: "before"})
		w.send(protocol.Abort{})
		other := Loaded{Identity: Identity{SessionID: "other", File: "/sessions/other.jsonl"}}
		w.send(cmd)
		require.Empty(t, w.loads[0].Again)
		w.step(SessionLoaded{Seq: w.seq, To: other, Text: "said"})
		left := w.log
		require.Equal(t, answer, replyTo(w.step(SessionActivated{Seq: w.seq, To: &other})).Data)
		require.Equal(t, answer, replyTo(w.send(cmd)).Data, "%T: it is there", cmd)
		require.Empty(t, w.loads[1:], "%T", cmd)
		w.log = w.log[len(left):]
		w.restart()
		require.Equal(t, answer, replyTo(w.send(cmd)).Data, "%T: and after a restart", cmd)

		w.log = left
		w.restart()
		w.send(cmd)
		require.Equal(t, "/sessions/other.jsonl", w.loads[0].Again, "%T: the one that was left leads there", cmd)
		w.step(SessionLoaded{Seq: w.seq, To: other})
		written := len(w.log)
		require.Equal(t, answer, replyTo(w.step(SessionActivated{Seq: w.seq, To: &other})).Data)
		require.Len(t, w.log, written, "%T: nothing is written again", cmd)
	}
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
