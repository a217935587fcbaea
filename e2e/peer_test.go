package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// startPi runs pi itself in the place of troupe: same home, same directory, same
// model server.
func (p *place) startPi(v pi, args ...string) *daemon {
	p.t.Helper()
	node, dist := v.install(p.t)
	cmd := exec.Command(node, append([]string{filepath.Join(dist, "cli.js"), "--mode", "rpc", "--provider", "mock", "--model", "mock-1"}, args...)...)
	cmd.Dir, cmd.Env = p.work, append(p.environ(), "PI_OFFLINE=1")
	d := p.run(cmd)
	d.foreign = true
	return d
}

// TestPiReadsOurs: pi opens, continues and forks a session that troupe wrote, and
// troupe goes on with what pi made of it.
func TestPiReadsOurs(t *testing.T) { eachPi(t, testPiReadsOurs) }

func testPiReadsOurs(t *testing.T, v pi) {
	p := newPlace(t)
	p.llm.plays(
		fail(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), // retried: a context_edit
		tool("c1", "write", `{"path":"x.txt","content":"x"}`).and(tool("c2", "bash", `{"command":"cat x.txt"}`)), text("first"),
		gate("steered").and(text("second")), text("third"),
	)
	p.write(filepath.Join(p.agent(), "settings.json"), `{"retry":{"baseDelayMs":1,"provider":{"maxRetries":0}}}`)
	d := p.start("--name", "ours")
	d.prompt("one")
	d.ok(`{"type":"bash","command":"echo from the user"}`)
	d.ok(`{"type":"set_thinking_level","level":"off"}`)
	d.ok(`{"type":"prompt","message":"two"}`)
	p.llm.request(3)
	d.ok(`{"type":"steer","message":"a steer"}`)
	p.llm.open("steered")
	d.event("agent_settled")
	path, entries := d.sessionFile()
	ours := d.ok(`{"type":"get_messages"}`).Get("messages").Array()
	require.Zero(t, d.end())

	pi := p.startPi(v, "--session", path)
	theirs := pi.ok(`{"type":"get_messages"}`).Get("messages").Array()
	theirs = slices.DeleteFunc(theirs, func(m gjson.Result) bool {
		// pi 0.45 does not know context_edit; newer ones have the system prompt among the messages
		return m.Get("stopReason").Str == "error" || m.Get("role").Str == "system"
	})
	require.Equal(t, len(ours), len(theirs))
	for i := range ours {
		assert.Equal(t, ours[i].Get("role").Str, theirs[i].Get("role").Str)
		assert.Equal(t, ours[i].Get("content").String(), theirs[i].Get("content").String())
	}
	p.llm.plays(text("from pi"))
	pi.ok(`{"type":"prompt","message":"now you"}`)
	pi.event("agent_end")
	assert.Equal(t, "from pi", pi.ok(`{"type":"get_last_assistant_text"}`).Get("text").Str)
	forks := pi.ok(`{"type":"get_fork_messages"}`).Get("messages").Array()
	require.NotEmpty(t, forks)
	pi.ok(`{"type":"fork","entryId":"` + forks[len(forks)-1].Get("entryId").Str + `"}`)
	// pi 0.45 writes the fork's file but goes on to name, and to append to, the
	// old one; so the fork is found by looking.
	files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*.jsonl"))
	require.NoError(t, err)
	require.Len(t, files, 2)
	pi.stdin.Close()
	pi.exit()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Greater(t, len(readEntries(t, path)), len(entries))
	assert.Equal(t, "ours", lastOf(raw, "session_info").Get("name").Str)

	for _, file := range files {
		d = p.start("--session", file)
		n := d.ok(`{"type":"get_state"}`).Get("messageCount").Int()
		p.llm.plays(text("back"))
		d.prompt("again")
		assert.Equal(t, n+2, d.ok(`{"type":"get_state"}`).Get("messageCount").Int())
		require.Zero(t, d.end())
	}
}

// lastOf is the last entry of a type in a session file.
func lastOf(raw []byte, kind string) (last gjson.Result) {
	gjson.ForEachLine(string(raw), func(e gjson.Result) bool {
		if e.Get("type").Str == kind {
			last = e
		}
		return true
	})
	return last
}
