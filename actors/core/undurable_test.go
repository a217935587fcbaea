package core

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
)

// TestNotWritten: commands are handled together and the first one's entry
// cannot be written. What needs an entry fails; what asks is answered with what
// is true now, and what changes a mode has changed it.
func TestNotWritten(t *testing.T) {
	m := New()
	before := Loaded{Identity: Identity{SessionID: "s", File: "/s.jsonl"}}
	m.Step(0, &ids{}, Restored{Session: before, Settings: defaults()})
	commands := []protocol.Command{
		protocol.Prompt{Message: "lost", IdempotencyKey: "k"},
		protocol.GetState{}, protocol.GetAvailableThinkingLevels{}, protocol.GetAvailableModels{},
		protocol.SetModel{Provider: modelB.Provider, ModelID: modelB.ID}, protocol.GetAvailableThinkingLevels{}, protocol.GetState{},
		protocol.SetFollowUpMode{Mode: protocol.QueueAll}, protocol.SetActiveTools{ToolNames: []string{"read"}},
		protocol.Prompt{Message: "lost", IdempotencyKey: "k"}, protocol.SetSessionName{Name: "lost"}, protocol.AbortBash{},
	}
	var ins []Input
	for i, cmd := range commands {
		ins = append(ins, Command{Seq: uint64(i + 1), Name: nameOf(cmd), Cmd: cmd, LookedUp: LookedUp{Catalog: catalog, Found: found(m, cmd)}})
	}
	effects := m.Step(1, &ids{}, ins...)
	require.IsType(t, Append{}, effects[0])
	answers := map[uint64]Reply{}
	for _, e := range m.Step(2, &ids{}, Reloaded{Session: before, Err: errors.New("disk full")}) {
		if r, ok := e.(Reply); ok {
			require.NotContains(t, answers, r.Seq)
			answers[r.Seq] = r
		}
	}
	for i, cmd := range commands {
		r := answers[uint64(i+1)]
		switch cmd.(type) {
		case protocol.Prompt, protocol.SetModel, protocol.SetSessionName:
			require.NotNil(t, r.Err, "%T", cmd)
			assert.Equal(t, protocol.CodeNotDurable, r.Err.Code, "%T", cmd)
		case protocol.GetState:
			require.Nil(t, r.Err)
			state := r.Data.(*protocol.SessionState)
			assert.Zero(t, state.MessageCount)
			assert.Nil(t, state.SessionName)
			assert.False(t, state.IsStreaming)
			assert.Equal(t, modelA.ID, state.Model.ID)
		case protocol.GetAvailableThinkingLevels:
			require.Nil(t, r.Err)
			assert.Equal(t, answers[3].Data, r.Data, "of the model that is still the current one")
		default:
			assert.Nil(t, r.Err, "%T", cmd)
		}
	}
	assert.Equal(t, protocol.QueueAll, m.State().FollowUpMode)
	assert.Equal(t, []string{"read"}, m.ActiveTools())
}

// TestBashNotRecorded: a command that has run is answered with what came of it,
// also if its record cannot be written, during a run or not.
func TestBashNotRecorded(t *testing.T) {
	for _, busy := range []bool{false, true} {
		w := newWorld(defaults())
		w.send(protocol.Prompt{Message: "before"})
		if !busy {
			w.send(protocol.Abort{})
		}
		w.send(protocol.Bash{Command: "echo out; exit 3"})
		w.failAt = 0
		code := 3
		r := replyTo(w.step(BashDone{Job: w.bash[0], Result: protocol.BashResult{Output: "out", ExitCode: &code}}))
		require.Nil(t, r.Err)
		raw := string(protocol.AppendValue(nil, r.Data))
		assert.JSONEq(t, `{"output":"out","exitCode":3,"cancelled":false,"truncated":false,
			"totalLines":1,"totalBytes":3,"outputLines":1,"outputBytes":3,
			"notRecorded":"Session file could not be written: disk full"}`, raw)
		assert.Empty(t, w.m.held)
		assert.Equal(t, w.load().Context.Messages, w.m.size.Messages)
	}
}

// limited is a machine whose work may take a second.
func limited(t *testing.T) (*Machine, Loaded) {
	limits, err := protocol.ParseBudgetLimits(protocol.BudgetLimits{}, json.RawMessage(`{"maxWallTimeMs":1000}`))
	require.NoError(t, err)
	set := defaults()
	set.Budget.Limits = limits
	m, before := New(), Loaded{Identity: Identity{SessionID: "s", File: "/s.jsonl"}}
	m.Step(0, &ids{}, Restored{Session: before, Settings: set})
	return m, before
}

// exceeded counts what clients are told of a budget that is used up.
func exceeded(effects []Effect) (n int) {
	for _, e := range effects {
		if e, ok := e.(Emit); ok {
			if _, ok := e.Event.(protocol.BudgetExceeded); ok {
				n++
			}
		}
	}
	return n
}

// TestNotWrittenUsesNoTime: a run of which nothing was written has not begun, and its
// clock does not go on.
func TestNotWrittenUsesNoTime(t *testing.T) {
	m, before := limited(t)
	effects := m.Step(10, &ids{}, Command{Seq: 1, Name: "prompt", Cmd: protocol.Prompt{Message: "lost"}, LookedUp: LookedUp{Catalog: catalog}})
	require.IsType(t, Append{}, effects[0])
	m.Step(11, &ids{}, Reloaded{Session: before, Err: errors.New("disk full")})
	require.Zero(t, exceeded(m.Step(5000, &ids{}, TimerDue{Name: budgetTimer})))
	require.Less(t, m.State().Budget.Snapshot.WallTimeMs, int64(100))
	require.False(t, m.State().IsStreaming)
}

// TestTimeIsExceededOnce: who sets another limit while a run is being stopped that has
// taken too long is not told of the time again.
func TestTimeIsExceededOnce(t *testing.T) {
	m, _ := limited(t)
	m.Step(10, &ids{}, Command{Seq: 1, Name: "prompt", Cmd: protocol.Prompt{Message: "long"}, LookedUp: LookedUp{Catalog: catalog}})
	require.Equal(t, 1, exceeded(m.Step(1010, &ids{}, TimerDue{Name: budgetTimer})))
	require.Zero(t, exceeded(m.Step(1020, &ids{}, Command{Seq: 2, Name: "set_budget", Cmd: protocol.SetBudget{Limits: json.RawMessage(`{"maxSubagents":1}`)}})))
}

// TestCompactionNotWritten: a compaction that ends because nothing can be written says so, at
// whichever of its steps, and is not one that somebody has cancelled.
func TestCompactionNotWritten(t *testing.T) {
	const why = "Session file could not be written: disk full"
	summary := protocol.Compaction{Summary: "short", FirstKeptEntryID: entryID(2)}
	for _, step := range []string{"begin", "end"} {
		w := newWorld(defaults())
		w.send(protocol.Prompt{Message: "before"})
		w.step(StreamParts{1, []protocol.Part{protocol.PartStart{}}})
		w.failAt = map[string]int{"begin": 0, "end": -1}[step]
		effects := w.send(protocol.Compact{})
		if step == "end" {
			w.failAt = 0
			effects = w.step(Summarised{Attempt: w.m.compaction().attempt, Compaction: &summary})
		}
		r := replyTo(effects)
		require.NotNil(t, r.Err, step)
		assert.Equal(t, protocol.CodeNotDurable, r.Err.Code, step)
		assert.Equal(t, why, r.Err.Message, step)
		var ends []string
		for _, ev := range w.wire {
			if end, is := ev.(protocol.AutoCompactionEnd); is {
				assert.False(t, end.Aborted)
				ends = append(ends, end.ErrorMessage)
			}
		}
		assert.Equal(t, map[string][]string{"end": {why}}[step], ends, step)
		assert.True(t, w.spans.Idle())
	}
}

// TestBranchSummaryNotWritten: who asked for a summary of the branch that is left hears that
// it could not be written.
func TestBranchSummaryNotWritten(t *testing.T) {
	w := newWorld(defaults())
	w.send(protocol.SetSessionName{Name: "a"})
	w.send(protocol.NavigateTree{TargetID: entryID(0), Summarize: true})
	seq := w.seq
	w.step(SessionLoaded{Seq: seq, To: w.load()})
	require.Len(t, w.summaries, 1)
	w.step(Summarised{Attempt: w.summaries[0].Attempt, Branch: &protocol.BranchSummary{Summary: "left", FromID: entryID(0)}})
	l := w.load()
	w.failAt = 0
	w.step(SessionActivated{Seq: seq, To: &l})
	r := replyTo(w.last)
	require.NotNil(t, r.Err)
	assert.Equal(t, protocol.CodeNotDurable, r.Err.Code)
	assert.Equal(t, "Session file could not be written: disk full", r.Err.Message)
	assert.Equal(t, 1, w.answers[seq])
}
