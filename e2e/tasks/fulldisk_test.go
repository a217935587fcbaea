package tasks

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/harness"
	"troupe/e2e/need"
)

// TestFullDiskOfTasks checks a disk that is full when a worktree is created, written, captured or
// merged. The task reports it, the user's files are unchanged, and existing work is kept.
func TestFullDiskOfTasks(t *testing.T) {
	for _, c := range []struct {
		name, fails, output string // git command that fails, and a command that the child runs
		begins, kept        bool
		code                int64
		says                string
	}{
		{name: "prepare", fails: "checkout", code: 1, says: "No space left for the workspace"},
		{name: "write", output: "cat a.txt > /dev/full", begins: true},
		{name: "capture", fails: "diff-tree", begins: true, code: 1, kept: true, says: "No space left"},
		{name: "merge", fails: "checkout-index", begins: true, kept: true, says: "No space left"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := harness.NewPlace(t)
			real := need.Program(t, "git")
			bin := filepath.Join(p.Root, "bin")
			p.WriteFile(filepath.Join(bin, "git"), "#!/bin/sh\nfor a; do if [ \"$a\" = '"+c.fails+"' ]; then echo 'fatal: write error: No space left on device' >&2; exit 128; fi; done\n"+
				"exec '"+real+"' \"$@\"\n")
			require.NoError(t, os.Chmod(filepath.Join(bin, "git"), 0o700))
			p.Env = append(p.Env, "PATH="+bin+":"+os.Getenv("PATH"))
			p.WriteFile(filepath.Join(p.Work, "a.txt"), "one\n")
			for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=u", "-c", "user.email=u@example.org", "commit", "-q", "-m", "first"}} {
				p.Git(args...)
			}
			p.WriteFile(filepath.Join(p.AgentDir(), "settings.json"), `{"task":{"isolation":{"enabled":true}}}`)
			p.Model.Enqueue(harness.ToolCall("c1", "task", `{"agent":"task","isolated":true,"tasks":[{"id":"A","description":"a","assignment":"CHILDA do it"}]}`), harness.Text("thanks"))
			p.Model.EnqueueFor("CHILDA", harness.ToolCall("w1", "bash", `{"command":"echo by A > a.txt; `+c.output+`"}`))
			p.Model.EnqueueFor("CHILDA", harness.Text("this is A"))
			d := p.Start("--tools", "task,bash")
			records := d.Prompt("go")
			var result gjson.Result
			begun := false
			for _, r := range records {
				begun = begun || r.Get("type").Str == "subagent_start"
				if r.Get("type").Str == "tool_execution_end" {
					result = r.Get("result.details.results.0")
				}
			}
			assert.Equal(t, c.begins, begun)
			assert.Equal(t, c.code, result.Get("exitCode").Int(), result.Raw)
			assert.Contains(t, result.Raw, c.says)
			assert.Equal(t, c.kept, result.Get("workspace").Str != "", result.Raw)
			if c.kept {
				found, err := filepath.Glob(filepath.Join(result.Get("workspace").Str, "*", "a.txt"))
				require.NoError(t, err)
				require.Len(t, found, 1)
				assert.Equal(t, "by A\n", harness.ReadFile(t, found[0]))
			}
			want := "one\n"
			if c.name == "write" { // only the command in the child fails
				want = "by A\n"
			}
			assert.Equal(t, want, harness.ReadFile(t, filepath.Join(p.Work, "a.txt")))
			require.Zero(t, d.Close())
		})
	}
}

// TestDamagedChild checks a session file with invalid lines. They are skipped and reported, also
// for a resumed child.
func TestDamagedChild(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile(filepath.Join(p.AgentDir(), "settings.json"), `{"task":{"enabled":true}}`)
	call := func(resume string) harness.Answer {
		return harness.ToolCall("c"+resume, "task", `{"agent":"task","tasks":[{"id":"A","description":"a","assignment":"CHILDA go","resume":"`+resume+`"}]}`)
	}
	p.Model.Enqueue(call(""), harness.Text("thanks"), call("A"), harness.Text("thanks again"))
	p.Model.EnqueueFor("CHILDA", harness.Text("this is A"))
	p.Model.EnqueueFor("CHILDA", harness.Text("this is A again"))
	d := p.Start()
	records := d.Prompt("go")
	require.Zero(t, d.Close())
	assert.NotContains(t, d.Stderr(), "damaged")
	var file string
	for _, r := range records {
		if r.Get("toolName").Str == "task" && r.Get("type").Str == "tool_execution_end" {
			file = r.Get("result.details.results.0.sessionFile").Str
		}
	}
	p.WriteFile(file, harness.ReadFile(t, file)+"no entry\n")
	d = p.Start("--continue")
	records = d.Prompt("go on")
	require.Zero(t, d.Close())
	assert.Contains(t, records[len(records)-1].Raw, "completed")
	assert.Contains(t, d.Stderr(), file)
	assert.Contains(t, d.Stderr(), "the session file is damaged: lines that are no entries are left out")
	assert.Contains(t, harness.ReadFile(t, file), "this is A again")
}

// TestIsolationThatIsOff checks that an agent file that asks for a worktree while isolation is off
// is reported and still works.
func TestIsolationThatIsOff(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{false, true} {
		p := harness.NewPlace(t)
		p.WriteFile(p.AgentDir()+"/agents/apart.md", "---\nname: apart\ndescription: works apart\nisolation: worktree\n---\nWork.\n")
		p.WriteFile(p.AgentDir()+"/settings.json", fmt.Sprintf(`{"task":{"isolation":{"enabled":%t}}}`, on))
		_, said, code := p.RunOnce(`{"type":"get_state"}`+"\n", "--mode", "rpc")
		require.Zero(t, code)
		require.Equal(t, !on, strings.Contains(said, "isolation has no effect"), said)
	}
}
