package core

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"troupe/protocol"
)

// shown is a plan in a line.
func (p *verifyPlan) shown() string {
	if p == nil {
		return "none"
	}
	var names []string
	for _, c := range p.Commands {
		names = append(names, c.Name)
	}
	text := p.Profile + "(" + strings.Join(names, " ") + ") " + p.OnFailure + " " + string(rune('0'+p.Repairs))
	if p.Note != "" {
		text += " noted"
	}
	return text
}

func TestPlanVerify(t *testing.T) {
	var set protocol.VerifySettings
	require.NoError(t, json.Unmarshal([]byte(`{"DefaultProfile":"ci","MaxRetries":1,"Profiles":{
		"ci":{"mode":"command","commands":[{"name":"types","command":"a"},{"name":"tests","command":"b"}]},
		"fix":{"commands":[{"name":"f","command":"c"}],"onFailure":"retry_once"},
		"thrice":{"commands":[{"name":"f","command":"c"}],"onFailure":"discard_patch","maxRetries":3},
		"base":{"onFailure":"discard_patch"},
		"nothing":{"mode":"none"}}}`), &set))
	required, without := set, set
	required.Enabled, required.RequireForIsolated = true, true
	without.DefaultProfile = ""
	unrepaired, broken, hollow := set, required, required
	unrepaired.MaxRetries, broken.DefaultProfile, hollow.DefaultProfile = 0, "gone", "nothing"
	const ci = "ci(types tests) return_failure 0"
	for _, c := range []struct {
		set  *protocol.VerifySettings
		call string
		want string
	}{
		{&set, ``, "none"},
		{&set, `null`, "none"},
		{&set, `false`, "none"},
		{&set, `true`, ci},
		{&set, `""`, ci},
		{&set, `"fix"`, "fix(f) retry_once 1"},
		{&set, `"thrice"`, "thrice(f) discard_patch 3"},
		{&set, `"nothing"`, "none"},
		{&set, `"x"`, `Unknown or invalid verification profile "x".`},
		{&set, `{}`, ci},
		{&set, `{"mode":"none"}`, "none"},
		{&set, `{"mode":"none","profile":"x"}`, "none"},
		{&set, `{"profile":"fix"}`, "fix(f) retry_once 1"},
		{&set, `{"profile":"x"}`, `Unknown or invalid verification profile "x".`},
		{&set, `{"profile":"fix","commands":[{"command":"x"}]}`, "fix(check1) retry_once 1"},
		{&set, `{"profile":"base","commands":[{"command":"x"}]}`, "base(check1) discard_patch 0"},
		{&set, `"base"`, "Verification requires at least one command. Provide verify.commands or configure task.verification.profiles."},
		{&set, `{"commands":[{"name":"x","command":"x"}],"onFailure":"discard_patch","maxRetries":2}`, "ci(x) discard_patch 2"},
		{&set, `{"commands":[]}`, "Verification requires at least one command. Provide verify.commands or configure task.verification.profiles."},
		{&set, `{"commands":[{"name":"x"}]}`, "Invalid verify: a verification command is empty."},
		{&set, `{"mode":"lsp"}`, "Invalid verify: verification mode lsp is not implemented."},
		{&set, `{"lspDiagnostics":{}}`, "LSP-based task verification is not implemented yet. Use command checks for now."},
		{&set, `{"onFailure":"merge"}`, "Invalid verify: onFailure: want return_failure, retry_once or discard_patch."},
		{&set, `{"maxRetries":11}`, "Invalid verify: maxRetries: want a whole number from 0 to 10."},
		{&set, `7`, "Invalid verify: want true, false, the name of a profile, or {profile?, commands?, mode?, maxRetries?, onFailure?}."},
		{&set, `{"commands":3}`, "Invalid verify: want true, false, the name of a profile, or {profile?, commands?, mode?, maxRetries?, onFailure?}."},
		{&without, `true`, "Verification requested but no verification profile or commands were provided."},
		{&without, `{"commands":[{"command":"x"}]}`, "(check1) return_failure 0"},
		{&without, `{}`, "Verification requires at least one command. Provide verify.commands or configure task.verification.profiles."},
		{&unrepaired, `"thrice"`, "thrice(f) discard_patch 0"},
		{&unrepaired, `"fix"`, "fix(f) retry_once 0"},

		{&required, ``, ci},
		{&required, `false`, ci + " noted"},
		{&required, `true`, ci},
		{&required, `"fix"`, "ci(types tests f) return_failure 0"},
		{&required, `"nothing"`, ci},
		{&required, `{"mode":"none"}`, ci},
		{&required, `{"profile":"fix","commands":[{"command":"x"}],"maxRetries":3,"onFailure":"retry_once"}`, "ci(types tests f check1) return_failure 0"},
		{&broken, ``, `Unknown or invalid verification profile "gone".`},
		{&hollow, ``, `Unknown or invalid verification profile "nothing".`},
		{&hollow, `"fix"`, `Unknown or invalid verification profile "nothing".`},
	} {
		plan, refusal := planVerify(json.RawMessage(c.call), true, c.set)
		got := plan.shown()
		if refusal != "" {
			require.Nil(t, plan, c.call)
			got = refusal
		}
		assert.Equal(t, c.want, got, "%s, required %v", c.call, c.set.RequireForIsolated)
	}
	plan, refusal := planVerify(nil, false, &required)
	assert.Equal(t, "none", plan.shown()+refusal, "only isolated tasks")
	plan, _ = planVerify([]byte(`"fix"`), true, &required)
	plan.Commands[0].Command = "changed"
	assert.Equal(t, "a", required.Profiles["ci"].Commands[0].Command, "a plan shares nothing with the settings")
}

// What the model is told of the work of an item is what became of it.
func TestWorkText(t *testing.T) {
	failed := &protocol.VerificationResult{
		Status: protocol.VerifyFailed, OnFailure: protocol.DiscardPatch, Attempts: []protocol.VerificationAttempt{{Status: protocol.VerifyFailed}},
	}
	for want, r := range map[string]protocol.TaskResult{
		"Its changes were merged.":                     {Merged: new(true)},
		"It changed no file.":                          {},
		"Its changes were not merged.":                 {PatchPath: "/p"},
		"What it changed is only in its workspace.":    {Workspace: "/w"},
		"What it changed was discarded.":               {Verification: failed},
		"Its changes were not merged, because of conf": {Conflicts: []string{"a"}, PatchPath: "/p", Workspace: "/w"},
	} {
		if r.Merged == nil {
			r.Merged = new(bool)
		}
		assert.Contains(t, workText(&r), want)
	}
	assert.Equal(t, "Patch: /p\nWorkspace: /w\nNote: n\n", workText(&protocol.TaskResult{PatchPath: "/p", Workspace: "/w", Notes: []string{"n"}}), "it was cut off")
	assert.Empty(t, workText(&protocol.TaskResult{}), "it was not isolated")
	assert.Contains(t, piscesText(&protocol.TaskResult{Aborted: true, Workspace: "/w"}), "\nWorkspace: /w\n", "it was at work when it was cut off")
}

// TestTextOfManyTasks is T16: the model is told of every task, in at most 50 KB, also of a call
// that a kill has cut.
func TestTextOfManyTasks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var results []protocol.TaskResult
		for i := range rapid.IntRange(1, 100).Draw(t, "tasks") {
			r := protocol.TaskResult{ID: fmt.Sprintf("%047d%d", i, i%10), Agent: strings.Repeat("a", 60), Usage: new(protocol.Usage)}
			r.Output = strings.Repeat("x", rapid.SampledFrom([]int{0, 100, 600, 4_000, 90_000}).Draw(t, "output"))
			if rapid.Bool().Draw(t, "fails") {
				r.ExitCode, r.Error, r.SessionFile = 1, strings.Repeat("e", 3_000), "/s"
				r.Merged, r.PatchPath = new(bool), strings.Repeat("/p", 50)
			}
			results = append(results, r)
		}
		for _, w := range []taskWords{{}, {pisces: true}} {
			text := w.summary(results, 1)
			require.LessOrEqual(t, len(text), maxTaskText)
			for i := range results {
				require.Contains(t, text, results[i].ID)
			}
		}
		m := New()
		for i := range results {
			m.unfinished = append(m.unfinished, protocol.TaskOp{Op: protocol.TaskStart, Call: "c", ID: results[i].ID},
				protocol.TaskOp{Op: protocol.TaskEnd, Call: "c", ID: results[i].ID, Result: shortened(results[i])})
		}
		cut, begun := m.unfinishedTasks("c")
		require.True(t, begun)
		require.LessOrEqual(t, len(cut.Content.Text("")), maxTaskText)
	})
}
