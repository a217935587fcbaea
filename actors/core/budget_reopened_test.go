package core

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
)

// TestOpenedBeyondItsBudget: a session that is opened with less than it has used up says so before it is
// asked for more, and writes and tells nothing for being opened.
func TestOpenedBeyondItsBudget(t *testing.T) {
	limited := func(limit string) (set Settings) {
		set = defaults()
		var err error
		set.Budget.Limits, err = protocol.ParseBudgetLimits(set.Budget.Limits, []byte(`{"maxTotalTokens":`+limit+`}`))
		require.NoError(t, err)
		return set
	}
	w := newWorld(limited("1000"))
	w.send(protocol.Prompt{Message: "go"})
	w.step(StreamParts{1, []protocol.Part{protocol.PartStart{}, protocol.PartUsage{Usage: protocol.Usage{Input: 300, Output: 10, TotalTokens: 310}}}})
	w.step(StreamEnd{Attempt: 1, Done: protocol.PartDone{StopReason: protocol.StopStop}})
	again := &world{set: limited("200"), answers: map[uint64]int{}, failAt: -1, dieAt: -1, log: w.log, file: true, m: New()}
	require.Empty(t, again.step(Restored{Session: again.load(), Settings: again.set}))
	report := again.m.budgetReport()
	assert.Equal(t, protocol.BudgetStopped, report.Snapshot.Status)
	assert.Equal(t, protocol.BudgetTotalTokens, report.Exceeded)
	assert.Equal(t, protocol.BudgetStopped, again.m.budgetState().Snapshot.Status)
	assert.Contains(t, refusals(again.send(protocol.Prompt{Message: "more"})), "budget_exceeded")
}

// reported is the answer to a command about the budget, as JSON, or its error.
func reported(t *testing.T, effects []Effect) string {
	for _, e := range effects {
		if r, is := e.(Reply); is && r.Err != nil {
			return string(r.Err.Code)
		} else if is {
			limits, err := json.Marshal(r.Data.(protocol.BudgetReport).Limits)
			require.NoError(t, err)
			return string(limits)
		}
	}
	return ""
}

// TestLimitsOutliveTheProcess: what a client has set holds after a restart, too, with the
// stricter one of each pair where the start has limits of its own; it goes along to a session
// that takes the place, and stays there. Without set_budget nothing is written.
func TestLimitsOutliveTheProcess(t *testing.T) {
	w := newWorld(defaults())
	begun := len(w.log)
	require.Equal(t, `{}`, reported(t, w.send(protocol.GetBudget{})))
	require.Len(t, w.log, begun)
	const set = `{"maxTotalTokens":1000,"maxToolCalls":3}`
	effects := w.send(protocol.SetBudget{Limits: json.RawMessage(set)})
	require.Equal(t, set, reported(t, effects))
	require.IsType(t, Append{}, effects[0], "persisted, then announced")

	w.restart()
	assert.Equal(t, set, reported(t, w.send(protocol.GetBudget{})))
	var err error
	w.set.Budget.Limits, err = protocol.ParseBudgetLimits(protocol.BudgetLimits{}, []byte(`{"maxTotalTokens":2000,"maxToolCalls":2,"maxSubagents":1}`))
	require.NoError(t, err)
	w.restart()
	const both = `{"maxTotalTokens":1000,"maxToolCalls":2,"maxSubagents":1}`
	assert.Equal(t, both, reported(t, w.send(protocol.GetBudget{})))

	w.send(protocol.NewSession{})
	w.step(SessionLoaded{Seq: w.seq, To: Loaded{Identity: Identity{SessionID: "other"}}})
	w.activated(nil)
	w.set.Budget.Limits = protocol.BudgetLimits{}
	w.restart()
	assert.Equal(t, both, reported(t, w.send(protocol.GetBudget{})), "in the session that came after it")
	w.send(protocol.SetBudget{Limits: json.RawMessage(`{"maxTotalTokens":null,"maxToolCalls":null,"maxSubagents":null}`)})
	w.restart()
	assert.Equal(t, `{}`, reported(t, w.send(protocol.GetBudget{})), "taken away")
}

// TestLimitsThatCannotBeWritten: the client is told, and those from before hold.
func TestLimitsThatCannotBeWritten(t *testing.T) {
	for _, next := range []string{`{"maxTotalTokens":5}`, `{"maxTotalTokens":5000}`, `{"maxTotalTokens":null}`} {
		for _, before := range []string{`{}`, `{"maxTotalTokens":1000}`} {
			w := newWorld(defaults())
			w.send(protocol.SetSessionName{Name: "a"})
			if before != `{}` {
				w.send(protocol.SetBudget{Limits: json.RawMessage(before)})
			}
			w.failAt = 0
			assert.Equal(t, string(protocol.CodeNotDurable), reported(t, w.send(protocol.SetBudget{Limits: json.RawMessage(next)})))
			assert.Equal(t, before, reported(t, w.send(protocol.GetBudget{})), next)
			w.restart()
			assert.Equal(t, before, reported(t, w.send(protocol.GetBudget{})), next)
		}
	}
}

// TestWorkIsCountedOverAKill: the log says when work of which the time counts begins and ends;
// of work that was cut off the next process says how far it had come, before anything else,
// also where nothing is limited any more. Without a limit nothing is written.
func TestWorkIsCountedOverAKill(t *testing.T) {
	notes := func(log []protocol.Entry) (list []string) {
		for _, e := range log {
			if c, is := e.(protocol.Custom); is && c.CustomType == protocol.CustomBudget {
				list = append(list, string(c.Data))
			}
		}
		return list
	}
	for _, stays := range []bool{true, false} {
		set := defaults()
		var err error
		set.Budget.Limits, err = protocol.ParseBudgetLimits(set.Budget.Limits, []byte(`{"maxWallTimeMs":5000}`))
		require.NoError(t, err)
		w := newWorld(set)
		w.send(protocol.Prompt{Message: "go"})
		w.step(StreamParts{1, []protocol.Part{protocol.PartStart{}}})
		require.Equal(t, []string{`{"op":"active","working":true}`}, notes(w.log))
		if !stays {
			set.Budget.Limits = protocol.BudgetLimits{}
		}
		again := &world{set: set, answers: map[uint64]int{}, failAt: -1, dieAt: -1, log: w.log, file: true, m: New(), now: w.now}
		to := again.load()
		to.Spent.Used.WallTimeMs = 3000 // as entries say: those of the world have no time
		effects := again.step(Restored{Session: to, Settings: set})
		require.IsType(t, Append{}, effects[0])
		assert.Equal(t, `{"op":"active","activeMs":3000}`, string(effects[0].(Append).Entry.(protocol.Custom).Data))
		assert.False(t, again.load().Working)
		if stays {
			assert.Equal(t, int64(3000), again.m.budgetReport().Snapshot.WallTimeMs)
		}
	}
	w := newWorld(defaults())
	w.send(protocol.Prompt{Message: "go"})
	w.step(StreamParts{1, []protocol.Part{protocol.PartStart{}}})
	w.step(StreamEnd{Attempt: 1, Done: protocol.PartDone{StopReason: protocol.StopStop}})
	w.restart()
	assert.Empty(t, notes(w.log))
}
