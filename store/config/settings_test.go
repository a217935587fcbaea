package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
)

func TestDefaultSettings(t *testing.T) {
	w := newWorld(t, nil)
	s, problems := w.settings()
	assert.Empty(t, problems)
	assert.Equal(t, protocol.ProjectTrust{Trusted: true, DecidedBy: "--approve"}, s.Project)
	s.Project = protocol.ProjectTrust{}
	assert.Equal(t, Defaults(), s)
	assert.Equal(t, protocol.ThinkingMedium, s.DefaultThinkingLevel)
	assert.Equal(t, int64(16384), s.Compaction.ReserveTokens)
}

func TestSampleSettings(t *testing.T) {
	src, err := os.ReadFile("testdata/settings.json")
	require.NoError(t, err)
	w := newWorld(t, map[string]string{"agent/settings.json": string(src)})
	s, problems := w.settings()
	assert.Empty(t, problems)
	assert.Equal(t, "fake", s.DefaultProvider)
	assert.Equal(t, "m1", s.DefaultModel)
	assert.Equal(t, []string{"fake/*", "fakeanth/claude-x:high"}, s.EnabledModels)
	assert.Equal(t, ThinkingBudgets{Minimal: 1024, Low: 2048, Medium: 8192, High: 16384}, s.ThinkingBudgets)
	assert.Equal(t, "shopt -s expand_aliases", s.ShellCommandPrefix)
}

// applyText applies a text as a layer.
func (s *Settings) applyText(text string, location Location) problems {
	tree, problem := parse("settings.json", []byte(text))
	if problem != nil {
		return problems{*problem}
	}
	return s.apply(layer{path: "settings.json", base: "/base", location: location, access: Everything, src: []byte(text), tree: tree})
}

// one loads settings from one text.
func one(t *testing.T, text string) (*Settings, problems) {
	t.Helper()
	s := Defaults()
	return s, wrong(s.applyText(text, User))
}

// wrong are problems other than that something is not obeyed yet.
func wrong(list problems) problems {
	return slices.DeleteFunc(list, func(p Problem) bool { return strings.Contains(p.Error(), "this version does not obey") })
}

// everyValue is a value for each key, other than the default.
var everyValue = map[string]string{
	"defaultProvider": `"p"`, "defaultModel": `"m"`, "defaultThinkingLevel": `"max"`, "modelThinkingLevels": `{"a/b.c":"low"}`,
	"enabledModels": `["x"]`, "thinkingBudgets.minimal": `1`, "thinkingBudgets.low": `2`, "thinkingBudgets.medium": `3`,
	"thinkingBudgets.high": `4`, "thinkingBudgets.xhigh": `5`, "thinkingBudgets.max": `6`, "defaultTools": `["+grep"]`,
	"queueMode": `"all"`, "steeringMode": `"all"`, "followUpMode": `"all"`, "interruptMode": `"wait"`,
	"compaction.enabled": `false`, "compaction.reserveTokens": `1`, "compaction.keepRecentTokens": `2`,
	"compaction.modelOverrides": `{"p/m":{"reserveTokens":0}}`, "branchSummary.reserveTokens": `9`, "bash.inheritEnv": `true`,
	"retry.enabled": `false`, "retry.maxRetries": `0`, "retry.baseDelayMs": `1`, "retry.maxAgentDelayMs": `3`,
	"retry.provider.maxRetries": `4`, "retry.provider.maxRetryDelayMs": `0`, "retry.provider.timeoutMs": `5`,
	"images.autoResize": `false`, "images.blockImages": `true`,
	"ttsr.enabled": `false`, "ttsr.contextMode": `"keep"`, "ttsr.repeatMode": `"after-gap"`, "ttsr.repeatGap": `1`,
	"ttsr.interruptMode": `"never"`, "ttsr.disabledRules": `["r"]`,
	"todoCompletion.enabled": `false`, "todoCompletion.maxReminders": `9`, "todo.reminders": `false`, "todo.remindersMax": `8`, "todo.reminders.max": `7`,
	"shellPath": `"/bin/zsh"`, "shellCommandPrefix": `"set -e"`, "sessionDir": `"~/s"`,
	"auth.reuse": `["xai"]`, "auth.broker": `"/opt/pi"`, "discover.local": `true`, "httpProxy": `"http://h"`, "httpIdleTimeoutMs": `1`,
	"defaultProjectTrust": `"never"`, "prompts": `["p"]`, "skills": `["s"]`, "enableSkillCommands": `false`,
	"task.enabled": `true`, "task.maxRecursionDepth": `-1`, "task.maxConcurrency": `3`, "task.maxRuntimeMs": `5`, "task.softRequestBudget": `0`,
	"task.agentModelOverrides": `{"explore":"haiku"}`, "task.disabledAgents": `["plan"]`, "modelRoles": `{"smol":"haiku"}`,
	"task.isolation.mode": `"auto"`, "task.isolation.enabled": `true`, "task.isolation.merge": `"branch"`, "task.isolation.apply": `false`,
	"task.isolation.commits": `"ai"`, "task.isolation.carry": `["x"]`, "task.isolation.carryBy": `"copy"`, "task.isolation.maxBytes": `5`,
	"task.isolation.base": `"/x"`, "task.isolation.keepDays": `1`,
	"task.verification.enabled": `true`, "task.verification.defaultProfile": `"ci"`, "task.verification.requireForIsolated": `true`,
	"task.verification.maxRetries": `3`, "task.verification.failureContextLineLimit": `9`, "task.verification.captureAfter": `true`,
	"task.verification.baseline": `true`, "task.verification.profiles": `{"ci":{"mode":"command","commands":[{"name":"t","command":"make"}]}}`,
	"task.budget.maxWallTimeMs": `1`, "task.budget.maxInputTokens": `2`, "task.budget.maxOutputTokens": `3`, "task.budget.maxTotalTokens": `4`,
	"task.budget.maxCostUsd": `5`, "task.budget.maxToolCalls": `6`, "task.budget.maxSubagents": `7`, "task.budget.warnAtRatio": `0.5`,
	"task.budget.reserveOutput": `8`, "task.budget.strict": `false`, "task.budget.requirePrice": `true`,
	"extensions": `["e.ts"]`, "hooks": `["h.ts"]`, "customTools": `["t"]`, "packages": `["npm:x", {"source": "./y", "skills": []}]`,
}

// nested writes a dotted key as objects in objects.
func nested(key, value string) string {
	parts := strings.Split(key, ".")
	text := value
	for i := len(parts) - 1; i >= 0; i-- {
		text = fmt.Sprintf("{%q:%s}", parts[i], text)
	}
	return text
}

// Every key can be set, nested or with dots, and does something; a value of
// another kind is a problem that names key and place, and changes nothing.
func TestEveryKey(t *testing.T) {
	keys := Defaults().fields("", User)
	assert.Len(t, everyValue, len(keys), "the table above knows every key")
	for _, f := range keys {
		value, known := everyValue[f.key]
		require.True(t, known, f.key)
		deep, problems := one(t, nested(f.key, value))
		require.Empty(t, problems, f.key)
		assert.NotEqual(t, Defaults(), deep, f.key)
		dotted, problems := one(t, fmt.Sprintf("{%q:%s}", f.key, value))
		require.Empty(t, problems, f.key)
		assert.Equal(t, deep, dotted, f.key)
		for _, wrong := range []string{`"no such choice\u0000"`, `-7`, `1.5`, `1.5e300`, `true`, `[1]`, `{"x":1}`, `[{}]`} {
			text := fmt.Sprintf("{\n  %q: %s}", f.key, wrong)
			if limits(f.key) && !accepts(f.key, wrong) {
				refused(t, text, f.key+": ")
				continue
			}
			bad, problems := one(t, text)
			if len(problems) == 0 {
				assert.True(t, accepts(f.key, wrong), "%s takes %s", f.key, wrong)
				continue
			}
			require.Len(t, problems, 1)
			if strings.Contains(problems[0].Error(), "unknown settings: "+f.key+".x") { // it is a group, too
				continue
			}
			assert.Equal(t, 2, problems[0].Line, f.key)
			assert.Equal(t, len(f.key)+7, problems[0].Column, f.key)
			assert.Contains(t, problems[0].Error(), f.key+": ")
			assert.Equal(t, Defaults(), bad, "%s = %s", f.key, wrong)
		}
	}
}

// refused says that a user's settings are not begun with.
func refused(t *testing.T, text, why string) {
	t.Helper()
	w := newWorld(t, map[string]string{"agent/settings.json": text})
	_, _, _, err := LoadSettings(w.dirs, Policy{}, nil)
	require.ErrorContains(t, err, why, text)
}

// accepts lists the odd values that are right for some keys.
func accepts(key, value string) bool {
	isText := reflect.ValueOf(everyValue[key]).String()[0] == '"'
	switch {
	case strings.HasPrefix(value, `"no`):
		return isText
	case value == "true":
		return everyValue[key] == "true" || everyValue[key] == "false" || key == "auth.reuse"
	case value == `{"x":1}`:
		return key == "skills"
	case value == "1.5":
		return key == "task.budget.maxCostUsd"
	}
	return false
}

func TestProjectSettings(t *testing.T) {
	w := newWorld(t, map[string]string{
		"agent/settings.json": `{
			"defaultModel": "user", "defaultProvider": "p", "compaction": {"enabled": false, "reserveTokens": 1},
			"retry": {"provider": {"maxRetries": 1, "timeoutMs": 2}}, "enabledModels": ["a", "b"], "skills": ["s1"], "sessionDir": "/u",
			"compaction.modelOverrides": {"p/m": {"reserveTokens": 5}, "p/n": {"reserveTokens": 6}},
		}`,
		"work/proj/.pi/settings.json": `{
			"defaultModel": "project", "compaction": {"reserveTokens": 2}, "retry": {"provider": {"timeoutMs": 3}}, "enabledModels": ["c"],
			"skills": ["s2"], "compaction.modelOverrides": {"p/m": {"keepRecentTokens": 7}},
		}`,
	})
	s, problems := w.settings()
	require.Empty(t, problems)
	assert.Equal(t, "project", s.DefaultModel)
	assert.Equal(t, "p", s.DefaultProvider)
	assert.False(t, s.Compaction.Enabled)
	assert.Equal(t, int64(2), s.Compaction.ReserveTokens)
	assert.Equal(t, ProviderRetry{MaxRetries: 1, MaxRetryDelayMs: 60000, TimeoutMs: 3}, s.Retry.Provider)
	assert.Equal(t, []string{"c"}, s.EnabledModels)
	assert.Equal(t, []Named{{"s1", w.dirs.Agent, User}, {"s2", w.path("work/proj/.pi"), Project}}, s.Skills)
	reserve, keep := s.Compaction.For("p/m")
	assert.Equal(t, []int64{5, 7}, []int64{reserve, keep})
	reserve, keep = s.Compaction.For("p/n")
	assert.Equal(t, []int64{6, 20000}, []int64{reserve, keep})
	reserve, keep = s.Compaction.For("other")
	assert.Equal(t, []int64{2, 20000}, []int64{reserve, keep})
}

func TestOldKeys(t *testing.T) {
	s, problems := one(t, `{"queueMode":"all","skills":{"enableSkillCommands":false,"customDirectories":["d"]}}`)
	require.Empty(t, problems)
	assert.Equal(t, protocol.QueueAll, s.SteeringMode)
	assert.False(t, s.EnableSkillCommands)
	assert.Equal(t, []Named{{"d", "/base", User}}, s.Skills)
	s, problems = one(t, `{"steeringMode":"one-at-a-time","queueMode":"all"}`)
	require.Empty(t, problems)
	assert.Equal(t, protocol.QueueOneAtATime, s.SteeringMode, "the new name wins")
}

func TestBrokenSettings(t *testing.T) {
	w := newWorld(t, map[string]string{
		"agent/settings.json":         "{\n  // a comment\n  \"defaultModel\": \"user\",\n  \"defaultProvider\" \"p\"\n}",
		"work/proj/.pi/settings.json": `{"defaultModel": "project"}`,
	})
	s, problems := w.settings()
	assert.Equal(t, "project", s.DefaultModel, "the other file counts")
	assert.Equal(t, "", s.DefaultProvider)
	require.Len(t, problems, 1)
	assert.Equal(t, "~/agent/settings.json:4:21: invalid character '\"' after object key", w.told(problems)[0])
	before, err := os.ReadFile(w.path("agent/settings.json"))
	require.NoError(t, err)
	assert.Contains(t, string(before), "a comment", "no file is written")
	for text, want := range map[string]string{
		`[]`: "settings.json:1:1: settings are not an object", `{"a":`: "settings.json:1:5: unexpected end of JSON input",
		"{\n\"ü\": x}": "settings.json:2:6: invalid character 'x' looking for beginning of value", `{} {}`: "settings.json:1:4: invalid character '{' after top-level value",
		strings.Repeat("[", 200_000): "settings.json:1:10001: invalid character '[' exceeded max depth",
	} {
		s, problems := one(t, text)
		require.Len(t, problems, 1, text)
		assert.Equal(t, want, problems[0].Error())
		assert.Equal(t, Defaults(), s)
	}
	for _, text := range []string{"", " \n", "// nothing but a comment", "{}"} {
		s, problems := one(t, text)
		assert.Empty(t, problems)
		assert.Equal(t, Defaults(), s)
	}
}

func TestWrongValuesStandAlone(t *testing.T) {
	s, problems := one(t, "{\"defaultModel\": 5,\n \"defaultProvider\": \"p\",\n \"compaction\": {\"enabled\": \"yes\", \"reserveTokens\": 1}}")
	assert.Equal(t, "p", s.DefaultProvider)
	assert.True(t, s.Compaction.Enabled)
	assert.Equal(t, int64(1), s.Compaction.ReserveTokens)
	var told []string
	for _, p := range problems {
		told = append(told, p.Error())
	}
	assert.Equal(t, []string{"settings.json:1:18: defaultModel: want a string", "settings.json:3:28: compaction.enabled: want true or false"}, told)
}

func TestUnreadableSettings(t *testing.T) {
	w := newWorld(t, nil)
	require.NoError(t, os.MkdirAll(w.path("agent/settings.json"), 0o700))
	s, problems := w.settings()
	s.Project = protocol.ProjectTrust{}
	assert.Equal(t, Defaults(), s)
	require.Len(t, problems, 1)
	assert.True(t, errors.Is(problems[0], errNotFile))
}

func TestSettingsAreNotShared(t *testing.T) {
	user, _ := one(t, `{"compaction":{"modelOverrides":{"m":{"reserveTokens":1}}}}`)
	before := *user.Compaction.ModelOverrides["m"].ReserveTokens
	problems := user.applyText(`{"compaction.modelOverrides":{"m":{"reserveTokens":9},"n":{"reserveTokens":-1}}}`, User)
	require.Len(t, problems, 1)
	assert.Equal(t, before, *user.Compaction.ModelOverrides["m"].ReserveTokens, "a failed merge leaves nothing behind")
}

func FuzzSettings(f *testing.F) {
	src, err := os.ReadFile("testdata/settings.json")
	require.NoError(f, err)
	f.Add(string(src))
	for key, value := range everyValue {
		f.Add(nested(key, value))
	}
	f.Add("{\"a\":1, // x\n}")
	f.Fuzz(func(t *testing.T, text string) {
		s := Defaults()
		problems := s.applyText(text, User)
		for _, p := range problems {
			require.NotEmpty(t, p.Error())
		}
		require.Contains(t, []protocol.QueueMode{protocol.QueueAll, protocol.QueueOneAtATime}, s.SteeringMode)
		require.GreaterOrEqual(t, s.Compaction.ReserveTokens, int64(0))
		require.True(t, s.DefaultThinkingLevel.Valid())
	})
}

// What was set is given as somebody wrote it; a project's only if it is trusted.
func TestSettingsAsGiven(t *testing.T) {
	w := newWorld(t, map[string]string{
		"agent/settings.json":         `{"defaultModel": "a", "compaction": {"enabled": false, "reserveTokens": 5}, "mine": {"x": 1}}`,
		"work/proj/.pi/settings.json": `{"compaction": {"reserveTokens": 7}, "steeringMode": "all"}`,
	})
	s, _, _ := w.load(Policy{Consent: Approved})
	require.JSONEq(t, `{"defaultModel":"a","compaction":{"enabled":false,"reserveTokens":7},"mine":{"x":1},"steeringMode":"all"}`, string(s.Given))
	s, _, _ = w.load(Policy{})
	require.JSONEq(t, `{"defaultModel":"a","compaction":{"enabled":false,"reserveTokens":5},"mine":{"x":1}}`, string(s.Given))
}
