package config

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
)

// What limits something is obeyed or refused, wherever it stands.
func TestLimitsThatCannotBeObeyed(t *testing.T) {
	for text, why := range map[string]string{
		`{"task":{"budget":{"maxCostUSD":5}}}`:                    `settings.json:1:33: task.budget.maxCostUSD: unknown`,
		`{"task.budget.maxToolCall":5}`:                           `task.budget.maxToolCall: unknown`,
		`{"task.budget":5}`:                                       `task.budget: want an object`,
		`{"task":5}`:                                              `task: want an object`,
		`{"task.budget.maxCostUsd":"5"}`:                          `task.budget.maxCostUsd: want a number of at least 0, or null`,
		`{"task.budget.maxToolCalls":1.5}`:                        `task.budget.maxToolCalls: want a whole number of at least 0, or null`,
		`{"task.budget.warnAtRatio":0}`:                           `task.budget.warnAtRatio: want a number above 0, at most 1`,
		`{"task.verification.profiles":{"ci":{"mode":"lsp"}}}`:    `task.verification.profiles: ci: verification mode lsp is not implemented`,
		`{"task.verification.profiles":{"ci":{"commands":[{}]}}}`: `ci: a verification command is empty`,
		`{"task.verification.maxRetries":11}`:                     `task.verification.maxRetries: want a whole number from 0 to 10`,
	} {
		refused(t, text, why)
		w := newWorld(t, nil)
		_, _, _, err := LoadSettings(w.dirs, Policy{}, []byte(text))
		assert.ErrorContains(t, err, why[len(why)-20:], "of a client: %s", text)

		w = newWorld(t, map[string]string{"work/proj/.pi/settings.json": text})
		_, _, _, err = LoadSettings(w.dirs, Policy{Consent: Approved}, nil)
		assert.ErrorContains(t, err, why[len(why)-20:], "of a trusted project: %s", text)
		_, _, problems, err := LoadSettings(w.dirs, Policy{}, nil)
		require.NoError(t, err, "of a project that nobody trusts: %s", text)
		assert.NotEmpty(t, problems)
	}
	w := newWorld(t, map[string]string{"agent/omp.jsonc": `{"task.budget.maxCostUsd": -1}`})
	_, _, _, err := LoadSettings(w.dirs, Policy{}, nil)
	assert.ErrorContains(t, err, "omp.jsonc:1:")
}

// A project lowers limits and raises none; whoever starts the session does both.
func TestWhoLimits(t *testing.T) {
	w := newWorld(t, map[string]string{
		"agent/settings.json":         `{"task":{"budget":{"maxCostUsd":2,"maxToolCalls":10,"maxTotalTokens":100}}}`,
		"work/proj/.pi/settings.json": `{"task":{"budget":{"maxCostUsd":1,"maxToolCalls":11,"maxTotalTokens":null,"maxWallTimeMs":5}}}`,
	})
	limits := func(p Policy, session string) protocol.BudgetLimits {
		s, _, _, err := LoadSettings(w.dirs, p, []byte(session))
		require.NoError(t, err)
		return s.Task.Budget.Limits
	}
	whole := func(n int64) *int64 { return &n }
	cost := func(n float64) *float64 { return &n }
	want := protocol.BudgetLimits{MaxCostUSD: cost(1), MaxToolCalls: whole(10), MaxTotalTokens: whole(100), MaxWallTimeMs: whole(5)}
	for _, consent := range []Consent{Unsaid, Approved} {
		assert.Equal(t, want, limits(Policy{Consent: consent}, ""))
	}
	_, _, problems, err := LoadSettings(w.dirs, Policy{Consent: Approved}, nil)
	require.NoError(t, err)
	assert.Contains(t, w.told(problems), "~/work/proj/.pi/settings.json:1:50: task.budget.maxToolCalls: a project may lower the user's limit, not raise it: 10 stays")
	flags := []byte(`{"task":{"budget":{"maxCostUsd":3}}}`)
	want.MaxCostUSD = cost(3)
	assert.Equal(t, want, limits(Policy{Budget: flags}, ""))
	want.MaxCostUSD, want.MaxToolCalls = nil, whole(20)
	assert.Equal(t, want, limits(Policy{Budget: flags}, `{"task.budget.maxCostUsd":null,"task.budget.maxToolCalls":20}`))
}

// Who limits what a session may use up has not asked for tasks, but who limits these.
func TestTasksAreMentioned(t *testing.T) {
	for setting, mentioned := range map[string]bool{
		`"maxConcurrency": 5`: true, `"budget": {"maxSubagents": 5}`: true, `"budget": {"maxCostUsd": 5, "warnAtRatio": 0.5}`: false,
	} {
		s, _ := newWorld(t, map[string]string{"agent/settings.json": `{"task": {` + setting + `}}`}).settings()
		assert.Equal(t, mentioned, s.Task.Mentioned, setting)
	}
}

func TestOmpFiles(t *testing.T) {
	w := newWorld(t, map[string]string{
		"work/.git/HEAD":      "x",
		"agent/omp.jsonc":     `{"task.maxConcurrency": 5, "theme": "dark", "shellPath": "/evil", /* c */ "task.verification.defaultProfile": "ci"}`,
		"agent/settings.json": `{"task.maxConcurrency": 6}`,
		"work/omp.jsonc":      `{"task": {"verification": {"profiles": {"ci": {"commands": [{"name": "t", "command": "make"}]}, "base": {"onFailure": "discard_patch"}}}}}`,
	})
	s, problems := w.settings()
	assert.Equal(t, int64(6), s.Task.MaxConcurrency, "settings.json is above it")
	assert.Equal(t, "ci", s.Task.Verification.DefaultProfile)
	assert.Contains(t, s.Task.Verification.Profiles, "ci")
	assert.Contains(t, s.Task.Verification.Profiles, "base", "a call may bring the commands")
	assert.Empty(t, s.ShellPath)
	assert.True(t, s.Task.Mentioned)
	for _, told := range w.told(problems) {
		assert.NotContains(t, told, "theme", "the rest is another program's")
	}
	s, _, _, err := LoadSettings(w.dirs, Policy{}, nil)
	require.NoError(t, err)
	assert.Empty(t, s.Task.Verification.Profiles, "nobody trusts the project")
	assert.Equal(t, []string{"task.verification.profiles"}, s.Project.LeftOut)
	w.write("work/proj/omp.jsonc", `{}`)
	s, _ = w.settings()
	assert.Empty(t, s.Task.Verification.Profiles, "the nearest counts alone")
}

func TestIsolationModes(t *testing.T) {
	for mode, on := range map[string]bool{"none": false, "worktree": true, "fuse-overlay": true, "fuse-projfs": true, "auto": true} {
		w := newWorld(t, map[string]string{"agent/settings.json": `{"task.isolation.mode":"` + mode + `"}`})
		s, _ := w.settings()
		assert.Equal(t, on, s.Task.Isolation.Enabled, mode)
	}
}
