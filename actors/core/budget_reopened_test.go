package core

import (
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
