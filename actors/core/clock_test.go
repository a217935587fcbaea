package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"troupe/protocol"
)

// TestClockSteps checks that a step of the clock, in either direction, is no time of work: neither for
// the budget nor for the patience of retries. The log says how long was worked before it.
func TestClockSteps(t *testing.T) {
	const hour = 3_600_000
	for _, by := range []int64{hour, -hour} {
		const began = 10 * hour
		m, _ := limited(t) // to a second of work
		m.Step(began, &ids{}, Command{Seq: 1, Name: "prompt", Cmd: protocol.Prompt{Message: "long"}, LookedUp: LookedUp{Catalog: catalog}})
		effects := m.Step(began+100+by, &ids{}, ClockStepped{ByMs: by}, TimerDue{Name: budgetTimer})
		require.Zero(t, exceeded(effects))
		require.EqualValues(t, 100, m.State().Budget.Snapshot.WallTimeMs)
		noted := false
		for _, e := range effects {
			if a, is := e.(Append); is {
				noted = noted || a.Entry.EntryType() == "custom"
			}
		}
		require.True(t, noted, "somebody who reads the log has the times of entries only")
		require.Equal(t, 1, exceeded(m.Step(began+1010+by, &ids{}, TimerDue{Name: budgetTimer})))

		r := &Machine{handling: handling{now: began}}
		r.AutoRetry, r.set.MaxRetries = true, 3
		first := retries{made: 1, since: r.clock()}
		r.now += 1000 + by
		r.stepped += by
		failure := protocol.ErrorServer.Errorf("overloaded")
		require.True(t, r.mayRetry(&first, failure), "a step does not use up the patience")
		r.now += maxRetryTime
		require.False(t, r.mayRetry(&first, failure), "nor renews it")
	}
}
