package core

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"troupe/protocol"
)

// TestPoolLaws: at each grant there is room for it, or nothing else is reserved; what
// is reserved belongs to a request in flight; nobody waits while nothing is under way;
// nothing is granted once a limit is reached, and limits are passed by one answer.
func TestPoolLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := pool{limits: amounts{math.Inf(1), 1000, math.Inf(1), 5000, 2, 100, math.Inf(1)}}
		flight := map[Ticket]amounts{} // granted, with what it was granted
		waits := map[Ticket]amounts{}
		uncovered, n := 0, 0
		grant := func(task Ticket, need amounts, before amounts) {
			held := amounts{}
			for _, other := range flight {
				held.add(other, 1)
			}
			fits := true
			for i := range need {
				require.Less(t, before[i], p.limits[i])
				fits = fits && before[i]+held[i]+need[i] <= p.limits[i]
			}
			require.True(t, fits || len(flight) == 0, "T8")
			if !fits {
				uncovered++
			}
			flight[task] = need
		}
		hear := func(answers []answer) {
			for _, a := range answers {
				need, waited := waits[a.Ticket]
				require.True(t, waited)
				delete(waits, a.Ticket)
				if a.verdict == granted {
					grant(a.Ticket, need, p.used)
				}
			}
		}
		draw := func(label string, most float64) amounts {
			return amounts{1: rapid.Float64Range(1, 300*most).Draw(t, label+" input"), 3: rapid.Float64Range(1, 900*most).Draw(t, label+" total"),
				4: rapid.Float64Range(0.01, most).Draw(t, label+" cost")}
		}
		t.Repeat(map[string]func(*rapid.T){
			"ask": func(t *rapid.T) {
				n++
				task, need := Ticket{fmt.Sprint("child", rapid.IntRange(1, 4).Draw(t, "child")), n}, draw("need", 2.5)
				before, already := p.used, p.spent()
				switch p.ask(task, need) {
				case granted:
					grant(task, need, before)
				case waiting:
					waits[task] = need
				case denied:
					require.GreaterOrEqual(t, already, 0)
				}
			},
			"settle": func(t *rapid.T) {
				for task, need := range flight {
					delete(flight, task)
					share := rapid.Float64Range(0, 1).Draw(t, "share")
					cost := amounts{}
					cost.add(need, share)
					hear(p.settle(task, cost))
					break
				}
			},
			"give up waiting": func(t *rapid.T) {
				for task := range waits {
					delete(waits, task)
					hear(p.settle(task, amounts{}))
					break
				}
			},
			"child gone": func(t *rapid.T) {
				child := fmt.Sprint("child", rapid.IntRange(1, 4).Draw(t, "child"))
				for task := range flight {
					if task.Child == child {
						delete(flight, task)
					}
				}
				for task := range waits {
					if task.Child == child {
						delete(waits, task)
					}
				}
				hear(p.gone(child))
			},
			"": func(t *rapid.T) {
				require.Equal(t, len(flight), len(p.held), "T9")
				for task, need := range p.held {
					require.Equal(t, flight[task], need, "T9")
				}
				require.Len(t, p.queue, len(waits))
				require.False(t, len(flight) == 0 && len(waits) > 0, "somebody waits for nothing")
				if uncovered == 0 {
					for i := range p.limits {
						require.LessOrEqual(t, p.used[i], p.limits[i]+1e-6)
					}
				}
			},
		})
	})
}

// A cost that is the limit as people write it reaches it, though its binary sum falls short of it.
func TestCostReachesItsLimit(t *testing.T) {
	limit, million := 0.00012, 1e6
	input, output := 1/million*100, 2/million*10
	require.Less(t, input+output, limit)
	p := pool{limits: limitsOf(protocol.BudgetLimits{MaxCostUSD: &limit}), used: amounts{4: input + output}}
	require.Equal(t, 4, p.spent())
}
