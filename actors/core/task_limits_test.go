package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"troupe/protocol"
)

// TestLimitOfZero checks that a limit of 0 means the same in agent files as in the budget of a session:
// no model is called. A limit that is left out does not apply.
func TestLimitOfZero(t *testing.T) {
	zero, one, free, cheap := int64(0), int64(1), 0.0, 0.5
	for name, c := range map[string][2]protocol.Agent{
		"maxTurns":       {{MaxTurns: &zero}, {MaxTurns: &one}},
		"maxWallTimeMs":  {{Limits: protocol.BudgetLimits{MaxWallTimeMs: &zero}}, {Limits: protocol.BudgetLimits{MaxWallTimeMs: &one}}},
		"maxTotalTokens": {{Limits: protocol.BudgetLimits{MaxTotalTokens: &zero}}, {Limits: protocol.BudgetLimits{MaxTotalTokens: &one}}},
		"maxToolCalls":   {{Limits: protocol.BudgetLimits{MaxToolCalls: &zero}}, {Limits: protocol.BudgetLimits{MaxToolCalls: &one}}},
		"maxCostUsd":     {{Limits: protocol.BudgetLimits{MaxCostUSD: &free}}, {Limits: protocol.BudgetLimits{MaxCostUSD: &cheap}}},
	} {
		for i, agent := range append(c[:], protocol.Agent{}) {
			agent.Name = "a"
			m := &Machine{set: Settings{Tasks: TaskSettings{Agents: protocol.Agents{agent}, Ceiling: []string{"read"}}}}
			_, refused := m.newItem(&taskCall{Agent: "a"}, taskItem{Assignment: "x"})
			if i > 0 {
				require.Empty(t, refused, name)
				continue
			}
			require.Equal(t, "Agent a may not do anything: its limit "+name+" is 0.", refused)
			spent := pool{limits: limitsOf(agent.Limits)}
			require.Equal(t, name != "maxTurns", spent.spent() >= 0, "a session with the same limit asks no model, either")
		}
	}
}
