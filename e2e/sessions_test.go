package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// tagged waits for a record of a session, from a line on.
func (d *daemon) tagged(from int, session, kind string) (gjson.Result, int) {
	return d.wait(from, kind+" of "+session, func(v gjson.Result) bool {
		return v.Get("sessionId").Str == session && v.Get("type").Str == kind
	})
}

func (d *daemon) open(params string) string {
	d.t.Helper()
	return d.ok(`{"type":"open_session"` + params + `}`).Get("sessionId").Str
}

// TestManySessions: runs of different sessions go on at the same time, and
// nothing of one shows in another.
func TestManySessions(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	d := p.startRaw("--mode", "rpc", "--multi-session", "--model", "mock/mock-1")
	assert.Equal(t, "missing_session_id", d.call(`{"type":"get_state"}`).Get("code").Str)
	const n = 20
	handles := make([]string, n)
	for i := range handles {
		dir := filepath.Join(p.root, fmt.Sprintf("dir%d", i))
		require.NoError(t, os.MkdirAll(dir, 0o700))
		handles[i] = d.open(fmt.Sprintf(`,"cwd":%q,"name":"canary-%d"`, dir, i))
	}
	for range n {
		p.llm.plays(gate("all").and(text("ok")))
	}
	for i, h := range handles {
		d.ok(fmt.Sprintf(`{"type":"prompt","sessionId":%q,"message":"canary-%d"}`, h, i))
	}
	p.llm.request(n - 1)
	running := 0
	for _, s := range d.ok(`{"type":"list_open_sessions"}`).Get("sessions").Array() {
		if s.Get("status").Str == "running" {
			running++
		}
	}
	assert.Equal(t, n, running)
	p.llm.open("all")
	for _, h := range handles {
		d.tagged(0, h, "agent_settled")
	}
	for i, h := range handles {
		messages := d.ok(fmt.Sprintf(`{"type":"get_messages","sessionId":%q}`, h)).Get("messages").Raw
		assert.Equal(t, 1, strings.Count(messages, "canary-"))
		assert.Contains(t, messages, fmt.Sprintf(`"canary-%d"`, i))
		st := d.ok(fmt.Sprintf(`{"type":"get_state","sessionId":%q}`, h))
		assert.Equal(t, fmt.Sprintf("canary-%d", i), st.Get("sessionName").Str)
	}
	d.ok(fmt.Sprintf(`{"type":"close_session","sessionId":%q}`, handles[0]))
	assert.Equal(t, "unknown_session", d.call(fmt.Sprintf(`{"type":"get_state","sessionId":%q}`, handles[0])).Get("code").Str)
	assert.Len(t, d.ok(`{"type":"list_open_sessions"}`).Get("sessions").Array(), n-1)
}

// TestAttachDetach: a session that a client has detached from goes on unheard;
// attach shows what has become of it.
func TestAttachDetach(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.llm.plays(gate("go").and(text("unheard")), text("heard"), gate("end").and(text("last")))
	d := p.start()
	h := d.open(`,"retain":true`)
	d.ok(fmt.Sprintf(`{"type":"prompt","sessionId":%q,"message":"one"}`, h))
	p.llm.request(0)
	d.ok(fmt.Sprintf(`{"type":"detach","sessionId":%q}`, h))
	from := d.count()
	assert.Equal(t, "unknown_session", d.call(fmt.Sprintf(`{"type":"get_state","sessionId":%q}`, h)).Get("code").Str)
	p.llm.open("go")
	eventually(t, "the end of the run", func() bool {
		s := d.ok(`{"type":"list_open_sessions"}`).Get(`sessions.#(sessionId=="` + h + `")`)
		return s.Get("status").Str == "idle" && s.Get("clients").Int() == 0
	})
	for _, l := range d.output()[from:] { // the list says what it was about
		assert.True(t, gjson.Get(l, "type").Str == "response" || !strings.Contains(l, "unheard"), l)
	}
	st := d.ok(fmt.Sprintf(`{"type":"attach","sessionId":%q}`, h))
	assert.EqualValues(t, 2, st.Get("state.messageCount").Int())
	from = d.count()
	d.ok(fmt.Sprintf(`{"type":"prompt","sessionId":%q,"message":"two"}`, h))
	d.tagged(from, h, "agent_settled")

	// Without retain the session ends when its run does.
	brief := d.open("")
	d.ok(fmt.Sprintf(`{"type":"prompt","sessionId":%q,"message":"three"}`, brief))
	p.llm.request(2)
	d.ok(fmt.Sprintf(`{"type":"detach","sessionId":%q}`, brief))
	p.llm.open("end")
	eventually(t, "the end of the session", func() bool {
		return !strings.Contains(d.ok(`{"type":"list_open_sessions"}`).Raw, `"`+brief+`"`)
	})
	assert.Equal(t, "unknown_session", d.call(`{"type":"attach","sessionId":"s99"}`).Get("code").Str)
}

// TestParking: an idle session gives its memory back and wakes on the next
// command as if nothing had been.
func TestParking(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.llm.plays(text("one"), text("two"))
	d := p.start("--park-after", "1ms")
	d.prompt("first")
	d.ok(`{"type":"set_steering_mode","mode":"all"}`)
	parked := func() {
		eventually(t, "parking", func() bool {
			return d.ok(`{"type":"list_open_sessions"}`).Get("sessions.0.status").Str == "parked"
		})
	}
	parked()
	st := d.ok(`{"type":"get_state"}`)
	assert.EqualValues(t, 2, st.Get("messageCount").Int())
	assert.Equal(t, "all", st.Get("steeringMode").Str)
	parked()
	d.prompt("second")
	assert.Contains(t, p.llm.request(1).body, "first")
	parked()
	path := st.Get("sessionFile").Str
	assert.Zero(t, d.end())
	assert.Equal(t, 2, strings.Count(string(must(os.ReadFile(path))), `"role":"assistant"`))
}

// TestSessionInUse: one writer a file.
func TestSessionInUse(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.llm.plays(text("one"))
	d := p.start()
	d.prompt("first")
	path, _ := d.sessionFile()
	other := p.start("--no-session")
	r := other.call(fmt.Sprintf(`{"type":"switch_session","sessionPath":%q}`, path))
	assert.Equal(t, "session_in_use", r.Get("code").Str)
	assert.Contains(t, r.Get("error").Str, fmt.Sprintf("process %d", d.cmd.Process.Pid))
	require.NoError(t, d.cmd.Process.Kill())
	d.exit()
	other.ok(fmt.Sprintf(`{"type":"switch_session","sessionPath":%q}`, path))
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// TestSessionSettings: settings of open_session count for that session only.
func TestSessionSettings(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	d := p.start()
	h := d.open(`,"settings":{"compaction":{"enabled":false},"steeringMode":"all"},"thinkingLevel":"high","provider":"mock","modelId":"think","tools":["read"]`)
	st := d.ok(fmt.Sprintf(`{"type":"get_state","sessionId":%q}`, h))
	assert.False(t, st.Get("autoCompactionEnabled").Bool())
	assert.Equal(t, "all", st.Get("steeringMode").Str)
	assert.Equal(t, "high", st.Get("thinkingLevel").Str)
	assert.Equal(t, `["read"]`, d.ok(fmt.Sprintf(`{"type":"get_tools","sessionId":%q}`, h)).Get("activeToolNames").Raw)
	assert.True(t, d.ok(`{"type":"get_state"}`).Get("autoCompactionEnabled").Bool())
}

// TestLeafOfChanges: session_changed names the leaf that the session really has,
// and none where there is nothing yet.
func TestLeafOfChanges(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.llm.plays(text("one"), text("two"), text("a summary"))
	d := p.start()
	d.prompt("first")
	first := d.ok(`{"type":"get_fork_messages"}`).Get("messages.0.entryId").Str
	d.prompt("second")
	d.ok(`{"type":"navigate_tree","targetId":"` + first + `","summarize":true,"label":"here"}`)
	tree := d.event("session_changed")
	assert.Equal(t, d.ok(`{"type":"get_tree"}`).Get("leafId").Str, tree.Get("leafId").Str)
	assert.EqualValues(t, 1, tree.Get("messageCount").Int())
	d.ok(`{"type":"new_session"}`)
	assert.Equal(t, "null", d.event("session_changed").Get("leafId").Raw)
}

// TestDirectoryIsGone: the file of the default session names a directory that is no more.
// Every command says so, and the file is free: it can be opened with another directory.
func TestDirectoryIsGone(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("old.jsonl", `{"type":"session","version":3,"id":"11111111-1111-4111-8111-111111111111","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/nowhere"}
{"type":"message","id":"aaaaaaaa","parentId":null,"timestamp":"2026-01-01T00:00:00.000Z","message":{"role":"user","content":"hi","timestamp":1}}
`)
	old := filepath.Join(p.work, "old.jsonl")
	d := p.start("--session", old)
	for range 2 {
		assert.Equal(t, "cwd_missing", d.call(`{"type":"get_state"}`).Get("code").Str)
	}
	opened := d.call(`{"type":"open_session","sessionPath":"` + old + `","cwd":"` + p.work + `"}`)
	require.True(t, opened.Get("success").Bool(), opened.Raw)
	assert.NotZero(t, opened.Get("data.state.messageCount").Int(), "what is in it is there")
}
