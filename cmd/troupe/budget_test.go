package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBudgetFlag(t *testing.T) {
	for value, want := range map[string]string{
		"cost=2.5":              `{"maxCostUsd":2.5}`,
		"wall=30m, tokens=2M":   `{"maxWallTimeMs":1800000,"maxTotalTokens":2000000}`,
		"input=1.5k,output=7":   `{"maxInputTokens":1500,"maxOutputTokens":7}`,
		"tools=500,subagents=0": `{"maxToolCalls":500,"maxSubagents":0}`,
		"cost=none,warn=0.7":    `{"maxCostUsd":null,"warnAtRatio":0.7}`,
		"cost=1,cost=2":         `{"maxCostUsd":2}`,
	} {
		o, err := parseArgs([]string{"--budget", value})
		require.NoError(t, err, value)
		assert.JSONEq(t, `{"task":{"budget":`+want+`}}`, string(o.budget), value)
	}
	o, err := parseArgs([]string{"--budget", "cost=1", "--budget=tools=2"})
	require.NoError(t, err)
	assert.JSONEq(t, `{"task":{"budget":{"maxCostUsd":1,"maxToolCalls":2}}}`, string(o.budget), "they add up")
	for value, why := range map[string]string{
		"":                            `--budget: want limits named cost, input, output, subagents, tokens, tools, wall or warn, got ""`,
		"money=1":                     `tools, wall or warn, got "money=1"`,
		"cost":                        "cost: want a number of at least 0",
		"cost=-1":                     `--budget: cost: want a number of at least 0, got "-1"`,
		"cost=1M":                     "cost: want a number of at least 0",
		"cost=nan":                    "cost: want a number of at least 0",
		"tokens=1.5":                  "tokens: want a number of at least 0",
		"tokens=9007199254740992":     "tokens: want a number of at most 9007199254740991",
		"tokens=99999999999999999999": "tokens: want a number of at most 9007199254740991",
		"cost=1e300":                  "cost: want a number of at most 9007199254740991",
		"tokens=9007199254740991k":    "tokens: want a number of at most 9007199254740991",
		"tokens=k":                    "tokens: want a number of at least 0",
		"wall=5":                      "wall: want a duration, such as 90s or 30m",
		"wall=-5s":                    "wall: want a duration, such as 90s or 30m",
		"warn=none":                   "warn: want a number of at least 0",
		"warn=2":                      "warn: want a number above 0, at most 1",
	} {
		_, err := parseArgs([]string{"--budget", value})
		assert.ErrorContains(t, err, why, value)
	}
}
