package compat

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/harness"
)

// TestPiReadsOurs checks that pi opens, continues and forks a session written by troupe, and that
// troupe continues the result.
func TestPiReadsOurs(t *testing.T) { eachPi(t, testPiReadsOurs) }

func testPiReadsOurs(t *testing.T, v harness.Pi) {
	p := harness.NewPlace(t)
	p.Model.Enqueue(
		harness.Fail(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), // retried: a context_edit
		harness.ToolCall("c1", "write", `{"path":"x.txt","content":"x"}`).Then(harness.ToolCall("c2", "bash", `{"command":"cat x.txt"}`)), harness.Text("first"),
		harness.Gate("steered").Then(harness.Text("second")), harness.Text("third"),
	)
	p.WriteFile(filepath.Join(p.AgentDir(), "settings.json"), `{"retry":{"baseDelayMs":1,"provider":{"maxRetries":0}}}`)
	d := p.Start("--name", "ours")
	d.Prompt("one")
	d.OK(`{"type":"bash","command":"echo from the user"}`)
	d.OK(`{"type":"set_thinking_level","level":"off"}`)
	d.OK(`{"type":"prompt","message":"two"}`)
	p.Model.Request(3)
	d.OK(`{"type":"steer","message":"a steer"}`)
	p.Model.OpenGate("steered")
	d.Event("agent_settled")
	path, entries := d.SessionFile()
	ours := d.OK(`{"type":"get_messages"}`).Get("messages").Array()
	require.Zero(t, d.Close())

	pi := p.StartPi(v, "--session", path)
	theirs := pi.OK(`{"type":"get_messages"}`).Get("messages").Array()
	theirs = slices.DeleteFunc(theirs, func(m gjson.Result) bool {
		// pi 0.45 does not know context_edit; newer ones have the system prompt among the messages
		return m.Get("stopReason").Str == "error" || m.Get("role").Str == "system"
	})
	require.Equal(t, len(ours), len(theirs))
	for i := range ours {
		assert.Equal(t, ours[i].Get("role").Str, theirs[i].Get("role").Str)
		assert.Equal(t, ours[i].Get("content").String(), theirs[i].Get("content").String())
	}
	p.Model.Enqueue(harness.Text("from pi"))
	pi.OK(`{"type":"prompt","message":"now you"}`)
	pi.Event("agent_end")
	assert.Equal(t, "from pi", pi.OK(`{"type":"get_last_assistant_text"}`).Get("text").Str)
	forks := pi.OK(`{"type":"get_fork_messages"}`).Get("messages").Array()
	require.NotEmpty(t, forks)
	pi.OK(`{"type":"fork","entryId":"` + forks[len(forks)-1].Get("entryId").Str + `"}`)
	// pi 0.45 writes the file of the fork, but still reports and appends to the old file. The test
	// therefore looks for the fork in the directory.
	files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*.jsonl"))
	require.NoError(t, err)
	require.Len(t, files, 2)
	pi.Stdin.Close()
	pi.WaitExit()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Greater(t, len(harness.ReadEntries(t, path)), len(entries))
	assert.Equal(t, "ours", lastOf(raw, "session_info").Get("name").Str)

	for _, file := range files {
		d = p.Start("--session", file)
		n := d.OK(`{"type":"get_state"}`).Get("messageCount").Int()
		p.Model.Enqueue(harness.Text("back"))
		d.Prompt("again")
		assert.Equal(t, n+2, d.OK(`{"type":"get_state"}`).Get("messageCount").Int())
		require.Zero(t, d.Close())
	}
}

// lastOf returns the last entry of a type in a session file.
func lastOf(raw []byte, kind string) (last gjson.Result) {
	gjson.ForEachLine(string(raw), func(e gjson.Result) bool {
		if e.Get("type").Str == kind {
			last = e
		}
		return true
	})
	return last
}
