package core

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"troupe/protocol"
)

// TestEndlessAnswer: a server that never stops is stopped, and what it said up
// to then is kept.
func TestEndlessAnswer(t *testing.T) {
	w := newWorld(defaults())
	w.send(protocol.Prompt{Message: "x"})
	w.step(StreamParts{1, []protocol.Part{protocol.PartStart{}, protocol.PartBlockStart{Kind: protocol.BlockText}}})
	chunk := strings.Repeat("x", 1<<20)
	for range protocol.MaxAnswer >> 20 {
		w.step(StreamParts{1, []protocol.Part{protocol.PartDelta{Delta: chunk}}})
		require.IsType(t, &streaming{}, w.m.activity, "it is as long as an answer may be")
	}
	effects := w.step(StreamParts{1, []protocol.Part{protocol.PartDelta{Delta: "x"}}})
	require.Contains(t, effects, Effect(Cancel{1}))
	require.Equal(t, idle{}, w.m.activity)
	require.True(t, w.spans.Idle())
	last := w.log[len(w.log)-1].(protocol.MessageEntry).Message.(*protocol.AssistantMessage)
	require.Equal(t, protocol.StopError, last.StopReason)
	require.Equal(t, "the answer was stopped: it is longer than 16 MiB", last.ErrorMessage)
	require.Len(t, last.Content.Text(""), protocol.MaxAnswer)
}

// TestBashesAreBounded: a client cannot have any number of commands run at once.
func TestBashesAreBounded(t *testing.T) {
	w := newWorld(defaults())
	for range protocol.MaxBashes {
		require.Contains(t, describe(w.send(protocol.Bash{Command: "sleep 9"})), "StartBash")
	}
	require.Contains(t, describe(w.send(protocol.Bash{Command: "sleep 9"})),
		"error overloaded: 256 bash commands are running: wait for one to end")
	w.step(BashDone{Job: 1})
	require.Contains(t, describe(w.send(protocol.Bash{Command: "sleep 9"})), "StartBash")
}

// TestDeepCall: arguments that are nested too deep did arrive, and the model is
// told what is wrong with them.
func TestDeepCall(t *testing.T) {
	w := newWorld(defaults())
	w.send(protocol.Prompt{Message: "x"})
	depth := protocol.MaxArgDepth
	w.step(StreamParts{1, []protocol.Part{
		protocol.PartStart{}, protocol.PartBlockStart{Kind: protocol.BlockToolCall, ID: "a", Name: "read"},
		protocol.PartDelta{Delta: `{"path":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}`},
		protocol.PartBlockEnd{},
	}})
	effects := w.step(StreamEnd{Attempt: 1, Done: protocol.PartDone{StopReason: protocol.StopToolUse}})
	require.Contains(t, describe(effects), "The arguments of this call are nested deeper than 1000 levels, so it was not run.")
}

// TestAnswerOfManyParts: an answer is bounded in what no delta counts, too: calls,
// blocks, and their names. Nothing of one that is too large is run.
func TestAnswerOfManyParts(t *testing.T) {
	call := func(i int) []protocol.Part {
		return []protocol.Part{
			protocol.PartBlockStart{Index: i, Kind: protocol.BlockToolCall, ID: fmt.Sprintf("c%d", i), Name: "bash"},
			protocol.PartDelta{Index: i, Delta: "{}"}, protocol.PartBlockEnd{Index: i},
		}
	}
	text := func(i int) []protocol.Part {
		return []protocol.Part{protocol.PartBlockStart{Index: i}, protocol.PartBlockEnd{Index: i}}
	}
	long := strings.Repeat("x", 1<<20)
	for _, c := range []struct {
		name  string
		most  int
		block func(i int) []protocol.Part
		want  string
	}{
		{"calls", protocol.MaxCalls, call, "the answer was stopped: it has more than 256 tool calls; none of them was run"},
		{"texts", protocol.MaxBlocks, text, "the answer was stopped: it has more than 1024 blocks"},
		{"names", protocol.MaxAnswer >> 20, func(i int) []protocol.Part {
			return []protocol.Part{protocol.PartBlockStart{Index: i, Kind: protocol.BlockToolCall, ID: long[:1<<19], Name: long[:1<<19]}}
		}, "the answer was stopped: it is longer than 16 MiB"},
		{"names at the end", protocol.MaxAnswer >> 20, func(i int) []protocol.Part {
			return []protocol.Part{protocol.PartBlockStart{Index: i, Kind: protocol.BlockToolCall}, protocol.PartBlockEnd{Index: i, ID: long[:1<<19], Name: long[:1<<19]}}
		}, "the answer was stopped: it is longer than 16 MiB"},
		{"signatures", protocol.MaxAnswer >> 20, func(i int) []protocol.Part {
			return []protocol.Part{protocol.PartBlockStart{Index: i, Kind: protocol.BlockThinking}, protocol.PartBlockEnd{Index: i, Signature: long}}
		}, "the answer was stopped: it is longer than 16 MiB"},
	} {
		for _, dialect := range protocol.Dialects() {
			set := defaults()
			_, set.Rules, _ = dialect.Open()
			w := newWorld(set)
			w.send(protocol.Prompt{Message: "x"})
			w.step(StreamParts{1, []protocol.Part{protocol.PartStart{}}})
			for i := range c.most {
				w.step(StreamParts{1, c.block(i)})
				require.IsType(t, &streaming{}, w.m.activity, "%s: it is as large as an answer may be", c.name)
			}
			effects := w.step(StreamParts{1, c.block(c.most)})
			require.Contains(t, effects, Effect(Cancel{1}), c.name)
			require.Equal(t, idle{}, w.m.activity, c.name)
			require.True(t, w.spans.Idle(), c.name)
			last := w.log[len(w.log)-1].(protocol.MessageEntry).Message.(*protocol.AssistantMessage)
			require.Equal(t, protocol.StopError, last.StopReason, c.name)
			require.Equal(t, c.want, last.ErrorMessage, c.name)
			for _, e := range effects {
				_, runs := e.(StartTool)
				require.False(t, runs, c.name)
			}
		}
	}
}

// TestQueuesAreBounded: what waits for its turn has a bound in bytes, whatever
// queue it is in and whoever puts it there; a single message always fits, and
// what was taken out makes room.
func TestQueuesAreBounded(t *testing.T) {
	const full = "error overloaded: Too much is queued: the limit is 64 MiB"
	large := strings.Repeat("x", protocol.MaxQueued/4)
	for name, add := range map[string]protocol.Command{
		"steer":         protocol.Steer{Message: large},
		"follow_up":     protocol.FollowUp{Message: large},
		"queue_message": protocol.QueueMessage{Message: large},
		"prompt":        protocol.Prompt{Message: large, StreamingBehavior: protocol.BehaviorFollowUp},
		"image":         protocol.Steer{Message: "see", Images: []protocol.Image{{Data: large, MimeType: "image/png"}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(defaults())
			w.send(protocol.Prompt{Message: "run"})
			for range 3 {
				require.Empty(t, refusals(w.send(add)))
			}
			require.Contains(t, refusals(w.send(add)), full)
			require.Contains(t, refusals(w.send(protocol.Steer{Message: large})), full, "the queues share the bound")
			require.Empty(t, refusals(w.send(protocol.Steer{Message: "short"})))
			w.send(protocol.ClearQueue{})
			require.Empty(t, refusals(w.send(add)))
		})
	}
	t.Run("a single one", func(t *testing.T) {
		w := newWorld(defaults())
		w.send(protocol.Prompt{Message: "run"})
		require.Empty(t, refusals(w.send(protocol.Steer{Message: strings.Repeat("x", protocol.MaxQueued)})))
	})
	t.Run("bash", func(t *testing.T) {
		w := newWorld(defaults())
		w.send(protocol.Prompt{Message: "run"})
		for job := range 4 {
			require.Empty(t, refusals(w.send(protocol.Bash{Command: "x"})))
			w.step(BashDone{Job: job + 1, Result: protocol.BashResult{Output: large}})
		}
		require.Contains(t, refusals(w.send(protocol.Bash{Command: "x"})), full)
	})
}

// refusals describes the answers that are errors, and leaves out what else there is: here it is large.
func refusals(effects []Effect) string {
	var b strings.Builder
	for _, e := range effects {
		if r, ok := e.(Reply); ok && r.Err != nil {
			b.WriteString(describeReply(r) + "\n")
		}
	}
	return b.String()
}

// TestWaitingIsBounded: commands that wait for another session to be ready have
// a bound, and an abort is not among those who wait.
func TestWaitingIsBounded(t *testing.T) {
	w := newWorld(defaults())
	w.send(protocol.NewSession{})
	command := func() Command {
		w.seq++
		return Command{Seq: w.seq, Name: "set_session_name", Cmd: protocol.SetSessionName{Name: "n"}, Size: protocol.MaxWaiting / 4}
	}
	for range 4 {
		require.Empty(t, w.step(command()))
	}
	require.Contains(t, describe(w.step(command())), "error overloaded: Too many commands wait: the limit is 64 MiB")
}
