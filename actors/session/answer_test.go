package session

import (
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
	for range maxAnswer >> 20 {
		w.step(StreamParts{1, []protocol.Part{protocol.PartDelta{Delta: chunk}}})
		require.NotNil(t, w.m.run, "it is as long as an answer may be")
	}
	effects := w.step(StreamParts{1, []protocol.Part{protocol.PartDelta{Delta: "x"}}})
	require.Contains(t, effects, Effect(CancelRun{1}))
	require.Nil(t, w.m.run)
	require.True(t, w.brackets.Idle())
	last := w.log[len(w.log)-1].(protocol.MessageEntry).Message.(*protocol.AssistantMessage)
	require.Equal(t, protocol.StopError, last.StopReason)
	require.Equal(t, "the answer was stopped: it is longer than 16 MiB", last.ErrorMessage)
	require.Len(t, last.Content.Text(""), maxAnswer)
}

// TestBashesAreBounded: a client cannot have any number of commands run at once.
func TestBashesAreBounded(t *testing.T) {
	w := newWorld(defaults())
	for range maxBashes {
		require.Contains(t, describe(w.send(protocol.Bash{Command: "sleep 9"})), "StartBash")
	}
	require.Contains(t, describe(w.send(protocol.Bash{Command: "sleep 9"})),
		"error session_busy: 256 bash commands are running: wait for one to end")
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
	effects := w.step(StreamEnd{Run: 1, Done: protocol.PartDone{StopReason: protocol.StopToolUse}})
	require.Contains(t, describe(effects), "The arguments of this call are nested deeper than 1000 levels, so it was not run.")
}
