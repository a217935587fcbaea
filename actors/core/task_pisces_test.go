package core

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
)

// TestTaskInPisces: what results of items have in s1 beside ours.
func TestTaskInPisces(t *testing.T) {
	handed := &protocol.Submission{Data: json.RawMessage(`{"a":1}`)}
	for name, c := range map[string]struct {
		of   item
		is   protocol.TaskResult
		want string
	}{
		"never begun": {item{override: []string{"m"}}, protocol.TaskResult{ModelOverride: []string{"m"}, Error: "no"}, `{"aborted":false,"error":"no","stderr":""}`},
		"handed over": {item{begun: begun{opened: ChildOpened{ID: "A"}, handed: handed}}, protocol.TaskResult{},
			`{"aborted":false,"stderr":"","extractedToolData":{"submit_result":[{"data":{"a":1},"status":"success"}]}}`},
		"an error": {item{begun: begun{opened: ChildOpened{ID: "A"}, handed: &protocol.Submission{Error: "cannot"}}}, protocol.TaskResult{Error: "cannot", Aborted: true},
			`{"aborted":true,"error":"cannot","stderr":"cannot","extractedToolData":{"submit_result":[{"status":"aborted","error":"cannot"}]}}`},
		"unfit": {item{begun: begun{opened: ChildOpened{ID: "A"}, handed: &protocol.Submission{Data: handed.Data, Unfit: "/a"}}}, protocol.TaskResult{Error: "/a"},
			`{"aborted":false,"error":"/a","stderr":"/a"}`},
		"with children": {item{begun: begun{opened: ChildOpened{ID: "A"}, activity: protocol.TaskActivity{Tasks: []json.RawMessage{json.RawMessage(`{"results":[]}`)}}}},
			protocol.TaskResult{}, `{"aborted":false,"stderr":"","extractedToolData":{"task":[{"results":[]}]}}`},
		"isolated": {item{begun: begun{opened: ChildOpened{ID: "A"}}, work: workspace{contents: contents{captured: json.RawMessage(`1`), patch: "/p"}}},
			protocol.TaskResult{PatchPath: "/p"}, `{"aborted":false,"stderr":"","patchPath":"/p","nestedPatches":[]}`},
		"discarded": {item{begun: begun{opened: ChildOpened{ID: "A"}}, work: workspace{contents: contents{captured: json.RawMessage(`1`), patch: "/p"}}},
			protocol.TaskResult{}, `{"aborted":false,"stderr":""}`},
	} {
		t.Run(name, func(t *testing.T) {
			c.of.inPisces(&c.is)
			var members map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(protocol.AppendValue(nil, c.is), &members))
			for _, same := range []string{"index", "id", "agent", "agentSource", "task", "assignment", "exitCode", "output", "truncated", "durationMs", "tokens"} {
				delete(members, same)
			}
			assert.JSONEq(t, c.want, string(protocol.JSON(members)))
		})
	}
}

// TestPiscesMergeSummary: what has become of the work of isolated items, by patches or branches.
func TestPiscesMergeSummary(t *testing.T) {
	result := func(merged bool, exit int, patch, branch string) protocol.TaskResult {
		return protocol.TaskResult{Merged: &merged, ExitCode: exit, PatchPath: patch, BranchName: branch}
	}
	const (
		byHand   = "<system-notification>Patches were not applied and must be handled manually.</system-notification>\n"
		branches = "<system-notification>Branches were not merged and must be handled manually.</system-notification>\n\nBranches:\n"
	)
	for name, c := range map[string]struct {
		of   []protocol.TaskResult
		want string
	}{
		"patches":              {[]protocol.TaskResult{result(true, 0, "/a", ""), result(false, 0, "", "")}, "Applied patches: yes\n"},
		"a patch left":         {[]protocol.TaskResult{result(true, 0, "/a", ""), result(false, 0, "/b", "")}, byHand + "\nPatch artifacts:\n- /b\n"},
		"a branch":             {[]protocol.TaskResult{result(true, 0, "/a", "x/A")}, "Merged 1 branch: x/A\n"},
		"branches":             {[]protocol.TaskResult{result(true, 0, "/a", "x/A"), result(true, 0, "/b", "x/B"), result(false, 0, "", "")}, "Merged 2 branches: x/A, x/B\n"},
		"a branch left":        {[]protocol.TaskResult{result(true, 0, "/a", "x/A"), result(false, 0, "/b", "x/B")}, "Merged 1 branch: x/A\n" + branches + "- x/B\n"},
		"a branch and failure": {[]protocol.TaskResult{result(true, 0, "/a", "x/A"), result(false, 1, "/b", "")}, "Merged 1 branch: x/A\n" + byHand + "\nPatch artifacts:\n- /b\n"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, "\n<merge-summary>\n"+c.want+"</merge-summary>\n", mergeSummary(c.of))
		})
	}
	assert.Empty(t, mergeSummary([]protocol.TaskResult{{}}), "none was isolated")
}

// TestPiscesWorkspaceOnly: where work is that no patch has, the model reads.
func TestPiscesWorkspaceOnly(t *testing.T) {
	text := piscesText(&protocol.TaskResult{ID: "A", ExitCode: 1, Error: "it could not be captured", Merged: new(bool), Workspace: "/w"})
	assert.Contains(t, text, "What it changed is only in its workspace.\nWorkspace: /w\n")
}

// TestFitUpdate: an update that would be too long has less of what has ended, and then of what is older.
func TestFitUpdate(t *testing.T) {
	long := []string{strings.Repeat("x", maxShown/2)}
	of := func(status string, extracted int) protocol.TaskProgress {
		p := protocol.TaskProgress{Status: status, RecentOutput: long}
		if extracted > 0 {
			p.Extracted = &protocol.ToolData{Tasks: []json.RawMessage{json.RawMessage(strings.Repeat(" ", extracted))}}
		}
		return p
	}
	list := []protocol.TaskProgress{of(protocol.TaskRunning, 0), of(protocol.TaskCompleted, 0), of(protocol.TaskRunning, 0)}
	fitUpdate(list)
	assert.Equal(t, [][]string{long, {}, long}, [][]string{list[0].RecentOutput, list[1].RecentOutput, list[2].RecentOutput})
	list[1] = of(protocol.TaskRunning, 0)
	fitUpdate(list)
	assert.Equal(t, [][]string{{}, long, long}, [][]string{list[0].RecentOutput, list[1].RecentOutput, list[2].RecentOutput})
	list = []protocol.TaskProgress{of(protocol.TaskRunning, 10), of(protocol.TaskCompleted, maxShown)}
	fitUpdate(list)
	assert.Nil(t, list[1].Extracted)
	assert.Equal(t, long, list[1].RecentOutput, "it is short enough")
}
