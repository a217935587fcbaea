package tasks

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/harness"
	"troupe/e2e/history"
	"troupe/e2e/need"
)

// twoTasks holds the arguments of a task call with two children.
const twoTasks = `{"agent":"task","tasks":[{"id":"A","description":"a","assignment":"CHILDA do it"},{"id":"B","description":"b","assignment":"CHILDB do it"}]}`

// faulty starts the binary with failpoints and records the history of its place.
func faulty(p *harness.Place, plan string, args ...string) *harness.Daemon {
	p.T.Helper()
	program := harness.FailpointBinary(p.T)
	p.RecordHistory()
	cmd := exec.Command(program, append([]string{"--mode", "rpc", "--provider", "mock", "--model", "mock-1"}, args...)...)
	cmd.Dir, cmd.Env = p.Work, append(p.Environ(), "TROUPE_FAULTS="+plan)
	return p.StartCmd(cmd)
}

// TestChildCrashes checks that a child that crashes once is resumed and succeeds, while one that
// always crashes fails. Its sibling and the run of the parent are not affected.
func TestChildCrashes(t *testing.T) {
	for plan, error := range map[string]string{
		`Panic s2 Append 3`:             "",
		`Panic s2 StreamEnd`:            "The run was interrupted: the process ended before it was finished.",
		`Panic s1/sub/A childSettled 0`: "Internal error",
	} {
		t.Run(strings.ReplaceAll(plan, "/", "-"), func(t *testing.T) {
			t.Parallel()
			p := harness.NewPlace(t)
			p.WriteFile(filepath.Join(p.AgentDir(), "settings.json"), `{"task":{"maxConcurrency":1}}`) // A is s2
			p.Model.Enqueue(harness.ToolCall("c1", "task", twoTasks), harness.Text("thanks"))
			for range 3 {
				p.Model.EnqueueFor("CHILDA", harness.Text("this is A"))
			}
			p.Model.EnqueueFor("CHILDB", harness.Text("this is B"))
			d := faulty(p, plan, "--tools", "task")
			records := d.Prompt("go")
			assert.Equal(t, "completed", records[len(records)-1].Get("outcome").Str)
			results := event0(d, "tool_execution_end").Get("result.details.results")
			assert.Equal(t, error, results.Get("0.error").Str, results.Raw)
			assert.Equal(t, error != "", results.Get("0.exitCode").Int() != 0)
			assert.Equal(t, "this is B", results.Get("1.output").Str)
			require.Zero(t, d.Close())
			p.CheckHistory(history.Options{Concurrency: 1})
		})
	}
}

// TestParentCrashes checks a session that crashes while children run. Clients receive the end of
// each child and of the run, no child stays open, no process is left, and the session responds.
func TestParentCrashes(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.Model.Enqueue(harness.ToolCall("c1", "task", twoTasks), harness.Text("better"))
	for _, child := range []string{"A", "B"} {
		p.Model.EnqueueFor("CHILD"+child, harness.ToolCall("w1", "bash", `{"command":"echo $$ > pid`+child+`; exec sleep 600"}`))
	}
	d := faulty(p, `Panic s1 Request 1`, "--tools", "task,bash")
	d.OK(`{"type":"prompt","message":"go"}`)
	a, b := harness.WaitPID(t, filepath.Join(p.Work, "pidA")), harness.WaitPID(t, filepath.Join(p.Work, "pidB"))
	d.Call(`{"type":"get_messages"}`)
	var kinds []string
	d.Wait(0, "the end of the run", func(v gjson.Result) bool {
		switch kind := v.Get("type").Str; kind {
		case "subagent_end", "tool_execution_end", "agent_end":
			kinds = append(kinds, strings.TrimSpace(kind+" "+v.Get("id").Str))
		}
		return v.Get("type").Str == "agent_settled" && assert.Equal(t, "interrupted", v.Get("outcome").Str)
	})
	assert.ElementsMatch(t, []string{"subagent_end A", "subagent_end B", "tool_execution_end", "agent_end"}, kinds)
	assert.Equal(t, []string{"tool_execution_end", "agent_end"}, kinds[2:])
	d.OK(`{"type":"get_state"}`)
	harness.Eventually(t, "the end of their processes", func() bool { return !harness.Alive(a) && !harness.Alive(b) })
	harness.Eventually(t, "the end of children", func() bool { return len(d.OK(`{"type":"list_open_sessions"}`).Get("sessions").Array()) == 1 })
	records := d.Prompt("again")
	assert.Equal(t, "completed", records[len(records)-1].Get("outcome").Str)
	require.Zero(t, d.Close())
	p.CheckHistory(history.Options{Concurrency: 32})
}

// event0 waits for the first event of a type.
func event0(d *harness.Daemon, kind string) gjson.Result {
	d.T.Helper()
	v, _ := d.Wait(0, kind, func(v gjson.Result) bool { return v.Get("type").Str == kind })
	return v
}

// TestWithoutGit checks that isolated tasks are refused and not started if git is missing or too
// old, or if the directory is no repository and too large to copy.
func TestWithoutGit(t *testing.T) {
	for _, c := range []struct{ name, git, says string }{
		{"none", "", "git not found in PATH"},
		{"old", "echo git version 2.25.0", "git 2.25 is too old (2.32)"},
		{"large", "exec " + need.Program(t, "git") + ` "$@"`, "is no repository and too large for one of its own: 1 files, 256.0 MiB; at most 20000 files, 256.0 MiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := harness.NewPlace(t)
			bin := filepath.Join(p.Root, "bin")
			require.NoError(t, os.MkdirAll(bin, 0o700))
			for _, program := range []string{"sh", "bash"} {
				real := need.Program(t, program)
				require.NoError(t, os.Symlink(real, filepath.Join(bin, program)))
			}
			if c.git != "" {
				p.WriteFile(filepath.Join(bin, "git"), "#!/bin/sh\n"+c.git+"\n")
				require.NoError(t, os.Chmod(filepath.Join(bin, "git"), 0o700))
			}
			p.WriteFile("large", "")
			require.NoError(t, os.Truncate(filepath.Join(p.Work, "large"), 256<<20+1))
			p.Env = append(p.Env, "PATH="+bin)
			p.WriteFile(filepath.Join(p.AgentDir(), "settings.json"), `{"task":{"isolation":{"enabled":true}}}`)
			p.Model.Enqueue(harness.ToolCall("c1", "task", `{"isolated":true,`+twoTasks[1:]), harness.Text("oh"))
			d := p.Start("--tools", "task,bash")
			for _, r := range d.Prompt("go") {
				assert.NotEqual(t, "subagent_start", r.Get("type").Str)
			}
			end := event0(d, "tool_execution_end")
			said := end.Get("result.content.0.text").Str
			assert.True(t, end.Get("isError").Bool())
			assert.True(t, strings.HasPrefix(said, "Isolated task execution requires a git repository ("), said)
			assert.Contains(t, said, c.says)
			require.Zero(t, d.Close())
		})
	}
}

// TestManyTasksUnread checks a client that starts to read only after a hundred children have
// finished. It receives every status change and the response to its query.
func TestManyTasksUnread(t *testing.T) {
	t.Parallel()
	const children = 100
	p := harness.NewPlace(t)
	program := harness.FailpointBinary(t) // without the race detector: a hundred sessions
	p.WriteFile(filepath.Join(p.AgentDir(), "settings.json"), `{"task":{"maxConcurrency":100}}`)
	var items []string
	for i := range children {
		items = append(items, fmt.Sprintf(`{"id":"C%d","description":"d","assignment":"CHILD%03d"}`, i, i))
		p.Model.EnqueueFor(fmt.Sprintf("CHILD%03d", i), harness.Text(strings.Fields(strings.Repeat("word ", 50))...))
	}
	p.Model.Enqueue(harness.ToolCall("c1", "task", `{"agent":"task","tasks":[`+strings.Join(items, ",")+`]}`), harness.Text("thanks"))
	cmd := exec.Command(program, "--mode", "rpc", "--provider", "mock", "--model", "mock-1", "--tools", "task")
	cmd.Dir, cmd.Env = p.Work, p.Environ()
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer cmd.Process.Kill()
	_, err = io.WriteString(in, `{"id":"go","type":"prompt","message":"go"}`+"\n"+`{"id":"state","type":"get_state"}`+"\n")
	require.NoError(t, err)
	p.Model.Request(children + 1) // the answer to all results

	h := &history.History{}
	h.Add(history.Life, "")
	h.Add(history.Command, `{"id":"go","type":"prompt","message":"go"}`)
	h.Add(history.Command, `{"id":"state","type":"get_state"}`)
	seen, answered, done := map[string]int{}, false, map[string]bool{}
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		h.Add(history.Output, strings.TrimSpace(line))
		v := gjson.Parse(line)
		switch kind := v.Get("type").Str; kind {
		case "subagent_start", "subagent_end":
			seen[kind]++
		case "tool_execution_update":
			for _, c := range v.Get("partialResult.details.progress").Array() {
				id, is := c.Get("id").Str, c.Get("status").Str == "completed"
				assert.False(t, done[id] && !is, "%s goes back", id)
				done[id] = is
			}
		case "tool_execution_end":
			assert.Len(t, v.Get(`result.details.results.#(exitCode==0)#`).Array(), children)
		case "response":
			answered = answered || v.Get("id").Str == "state"
		}
		if v.Get("type").Str == "agent_settled" {
			break
		}
	}
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
	h.Add(history.End, "")
	assert.True(t, answered)
	assert.Equal(t, map[string]int{"subagent_start": children, "subagent_end": children}, seen)
	assert.Empty(t, history.Check(h, history.Options{Concurrency: children, Free: true}))
}
