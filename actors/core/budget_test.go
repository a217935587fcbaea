package core

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"troupe/actors/core/logtwin"
	"troupe/protocol"
)

// budgetHistory is a history in which something is limited.
type budgetHistory struct {
	*history
	told  map[protocol.BudgetReason]bool
	over  bool
	exact bool // the log has everything that was used up
}

// TestLawsOfBudgets adds limits, which clients change, and a clock to random
// histories with faults.
func TestLawsOfBudgets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := drawSettings(t)
		set.Rules.ParallelTools = rapid.Bool().Draw(t, "parallel")
		set.MaxReminders = 2
		set.Budget.WarnAtRatio = 0.5
		var err error
		set.Budget.Limits, err = protocol.ParseBudgetLimits(set.Budget.Limits, drawLimits(t))
		require.NoError(t, err)
		h := &budgetHistory{history: &history{world: newWorld(set), t: t}, told: map[protocol.BudgetReason]bool{}, exact: true}
		h.watch, h.done = h.watchRequests, h.checkTold
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			h.play()
			h.checkUsed()
		}
		h.finish()
		require.True(t, h.spans.Idle(), "law 2: %+v", h.spans)
		checkNesting(t, h.wire)
	})
}

func drawLimits(t *rapid.T) json.RawMessage {
	limits := map[string]any{}
	for _, name := range []string{"maxWallTimeMs", "maxOutputTokens", "maxTotalTokens", "maxToolCalls"} {
		if rapid.Bool().Draw(t, name) {
			limits[name] = rapid.SampledFrom([]any{nil, 0, 2, 30, 9000, 400_000}).Draw(t, "limit")
		}
	}
	raw, err := json.Marshal(limits)
	if err != nil {
		panic(err)
	}
	return raw
}

func (h *budgetHistory) play() {
	session, logs, faulty := h.session, h.logs, false
	switch h.pick(10, "turn") {
	case 0:
		faulty = true
		was := h.m.limits()
		if h.fault(); h.m.limits() != was { // set by a command that the crash has kept from being answered
			h.told, h.over = map[protocol.BudgetReason]bool{}, false
		}
	case 1:
		h.send(protocol.SetBudget{Limits: drawLimits(h.t)})
	case 2:
		h.now += int64(h.pick(5000, "time"))
		h.step(TimerDue{Name: budgetTimer})
	default:
		h.action()
	}
	if h.logs != logs { // that of another session says all of it, that of another branch has no other branches
		h.exact = h.session != session
	}
	h.exact = h.exact && !faulty
}

// watchRequests is T11: nothing is sent to a model behind a budget that is exceeded,
// and no tool runs behind the limit of calls.
func (h *budgetHistory) watchRequests(was protocol.BudgetReason, effects []Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case Emit:
			if ev, ok := e.Event.(protocol.BudgetExceeded); ok {
				was = ev.Snapshot.Reason
			}
			if ev, ok := e.Event.(protocol.SessionChanged); ok && ev.Reason != "tree" { // of another file
				was = ""
			}
		case Append:
			if c, ok := e.Entry.(protocol.Custom); ok && string(c.Data) == `{"op":"cleared"}` {
				was = ""
			}
		case Reply:
			if removes(e) {
				was = ""
			}
		case StartStream, Summarise:
			require.Empty(h.t, was, "T11: %T", e)
		case StartTool:
			b := h.m.budget // of the calls of an answer, those may wait for consent that are within the limit
			require.False(h.t, was == protocol.BudgetToolCalls && b.used[toolCalls] > b.pool.limits[toolCalls], "T11")
		default:
		}
	}
}

// removes says whether an answer is to a command that has taken all limits away, or has
// raised them so far that none is reached: what fails behind it does not undo that.
func removes(e Reply) bool {
	report, is := e.Data.(protocol.BudgetReport)
	return is && (report.Limits.None() || report.Exceeded == "" && len(report.Warned) == 0)
}

// checkTold is T10: each warning once, exceeded once, and no warning behind it, until
// limits are raised or another session takes the place of this one.
func (h *budgetHistory) checkTold(e Effect) {
	switch e := e.(type) {
	case Reply:
		if removes(e) {
			h.told, h.over = map[protocol.BudgetReason]bool{}, false
		}
	case Append:
		if c, ok := e.Entry.(protocol.Custom); ok && string(c.Data) == `{"op":"cleared"}` {
			h.told, h.over = map[protocol.BudgetReason]bool{}, false
		}
	case Emit:
		switch ev := e.Event.(type) {
		case protocol.SessionChanged:
			h.told, h.over = map[protocol.BudgetReason]bool{}, false
		case protocol.BudgetWarning:
			require.False(h.t, h.told[ev.Snapshot.Reason], "T10: warned twice of %s", ev.Snapshot.Reason)
			require.False(h.t, h.over, "T10: warned of %s behind the end", ev.Snapshot.Reason)
			h.told[ev.Snapshot.Reason] = true
		case protocol.BudgetExceeded:
			require.False(h.t, h.over, "T10: exceeded twice")
			h.over = true
		default:
		}
	default:
	}
}

// checkUsed is T9 and T12: what is reserved belongs to the request in flight, and
// the log says what was used up, and which limits a client has set.
func (h *budgetHistory) checkUsed() {
	b := h.m.budget
	if !h.dead {
		require.Equal(h.t, h.load().Limits, h.m.kept, "limits that a client has set")
	}
	if b == nil || h.dead {
		return
	}
	if h.m.activity.begun() == 0 {
		require.Empty(h.t, b.held, "T9")
	}
	require.LessOrEqual(h.t, len(b.held), 1, "T9")
	require.Empty(h.t, b.queue)
	if !h.exact || !h.m.AtRest() || h.m.openCalls != nil {
		return
	}
	logged, known := logtwin.Spent(h.records()).Used, b.used.used()
	require.Equal(h.t, known.ToolCalls, logged.ToolCalls, "T12: %s", fmt.Sprint(h.log))
	require.Equal(h.t, known.TotalTokens, logged.TotalTokens, "T12")
	require.InDelta(h.t, known.CostUSD, logged.CostUSD, 1e-6, "T12")
	require.LessOrEqual(h.t, logged.WallTimeMs, known.WallTimeMs, "T12")
}
