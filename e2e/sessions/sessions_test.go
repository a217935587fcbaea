package sessions

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
)

// TestManySessions checks that sessions run at the same time without seeing each other's data.
func TestManySessions(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	d := p.StartRaw("--mode", "rpc", "--multi-session", "--model", "mock/mock-1")
	assert.Equal(t, "missing_session_id", d.Call(`{"type":"get_state"}`).Get("code").Str)
	const n = 20
	handles := make([]string, n)
	for i := range handles {
		dir := filepath.Join(p.Root, fmt.Sprintf("dir%d", i))
		require.NoError(t, os.MkdirAll(dir, 0o700))
		handles[i] = d.OpenSession(fmt.Sprintf(`,"cwd":%q,"name":"canary-%d"`, dir, i))
	}
	for range n {
		p.Model.Enqueue(harness.Gate("all").Then(harness.Text("ok")))
	}
	for i, h := range handles {
		d.OK(fmt.Sprintf(`{"type":"prompt","sessionId":%q,"message":"canary-%d"}`, h, i))
	}
	p.Model.Request(n - 1)
	running := 0
	for _, s := range d.OK(`{"type":"list_open_sessions"}`).Get("sessions").Array() {
		if s.Get("status").Str == "running" {
			running++
		}
	}
	assert.Equal(t, n, running)
	p.Model.OpenGate("all")
	for _, h := range handles {
		d.WaitTagged(0, h, "agent_settled")
	}
	for i, h := range handles {
		messages := d.OK(fmt.Sprintf(`{"type":"get_messages","sessionId":%q}`, h)).Get("messages").Raw
		assert.Equal(t, 1, strings.Count(messages, "canary-"))
		assert.Contains(t, messages, fmt.Sprintf(`"canary-%d"`, i))
		st := d.OK(fmt.Sprintf(`{"type":"get_state","sessionId":%q}`, h))
		assert.Equal(t, fmt.Sprintf("canary-%d", i), st.Get("sessionName").Str)
	}
	d.OK(fmt.Sprintf(`{"type":"close_session","sessionId":%q}`, handles[0]))
	assert.Equal(t, "unknown_session", d.Call(fmt.Sprintf(`{"type":"get_state","sessionId":%q}`, handles[0])).Get("code").Str)
	assert.Len(t, d.OK(`{"type":"list_open_sessions"}`).Get("sessions").Array(), n-1)
}

// TestAttachDetach checks that a retained session keeps running after its client detaches, and that
// attach returns its current state.
func TestAttachDetach(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.Model.Enqueue(harness.Gate("go").Then(harness.Text("unheard")), harness.Text("heard"), harness.Gate("end").Then(harness.Text("last")))
	d := p.Start()
	h := d.OpenSession(`,"retain":true`)
	d.OK(fmt.Sprintf(`{"type":"prompt","sessionId":%q,"message":"one"}`, h))
	p.Model.Request(0)
	d.OK(fmt.Sprintf(`{"type":"detach","sessionId":%q}`, h))
	from := d.Count()
	assert.Equal(t, "unknown_session", d.Call(fmt.Sprintf(`{"type":"get_state","sessionId":%q}`, h)).Get("code").Str)
	p.Model.OpenGate("go")
	harness.Eventually(t, "the end of the run", func() bool {
		s := d.OK(`{"type":"list_open_sessions"}`).Get(`sessions.#(sessionId=="` + h + `")`)
		return s.Get("status").Str == "idle" && s.Get("clients").Int() == 0
	})
	for _, l := range d.Lines()[from:] { // list_open_sessions shows the text
		assert.True(t, gjson.Get(l, "type").Str == "response" || !strings.Contains(l, "unheard"), l)
	}
	st := d.OK(fmt.Sprintf(`{"type":"attach","sessionId":%q}`, h))
	assert.EqualValues(t, 2, st.Get("state.messageCount").Int())
	from = d.Count()
	d.OK(fmt.Sprintf(`{"type":"prompt","sessionId":%q,"message":"two"}`, h))
	d.WaitTagged(from, h, "agent_settled")

	// Without retain, the session is closed when its run ends.
	brief := d.OpenSession("")
	d.OK(fmt.Sprintf(`{"type":"prompt","sessionId":%q,"message":"three"}`, brief))
	p.Model.Request(2)
	d.OK(fmt.Sprintf(`{"type":"detach","sessionId":%q}`, brief))
	p.Model.OpenGate("end")
	harness.Eventually(t, "the end of the session", func() bool {
		return !strings.Contains(d.OK(`{"type":"list_open_sessions"}`).Raw, `"`+brief+`"`)
	})
	assert.Equal(t, "unknown_session", d.Call(`{"type":"attach","sessionId":"s99"}`).Get("code").Str)
}

// TestParking checks that an idle session is parked to free its memory, and that the next command
// restores it unchanged.
func TestParking(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.Model.Enqueue(harness.Text("one"), harness.Text("two"))
	d := p.Start("--park-after", "1ms")
	d.Prompt("first")
	d.OK(`{"type":"set_steering_mode","mode":"all"}`)
	parked := func() {
		harness.Eventually(t, "parking", func() bool {
			return d.OK(`{"type":"list_open_sessions"}`).Get("sessions.0.status").Str == "parked"
		})
	}
	parked()
	st := d.OK(`{"type":"get_state"}`)
	assert.EqualValues(t, 2, st.Get("messageCount").Int())
	assert.Equal(t, "all", st.Get("steeringMode").Str)
	parked()
	d.Prompt("second")
	assert.Contains(t, p.Model.Request(1).Body, "first")
	parked()
	path := st.Get("sessionFile").Str
	assert.Zero(t, d.Close())
	assert.Equal(t, 2, strings.Count(string(must(os.ReadFile(path))), `"role":"assistant"`))
}

// TestSessionInUse checks that a session file has one writer at a time.
func TestSessionInUse(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.Model.Enqueue(harness.Text("one"))
	d := p.Start()
	d.Prompt("first")
	path, _ := d.SessionFile()
	other := p.Start("--no-session")
	r := other.Call(fmt.Sprintf(`{"type":"switch_session","sessionPath":%q}`, path))
	assert.Equal(t, "session_in_use", r.Get("code").Str)
	assert.Contains(t, r.Get("error").Str, fmt.Sprintf("process %d", d.Cmd.Process.Pid))
	require.NoError(t, d.Cmd.Process.Kill())
	d.WaitExit()
	other.OK(fmt.Sprintf(`{"type":"switch_session","sessionPath":%q}`, path))
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// TestSessionSettings checks that settings of open_session apply to that session only.
func TestSessionSettings(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	d := p.Start()
	h := d.OpenSession(`,"settings":{"compaction":{"enabled":false},"steeringMode":"all"},"thinkingLevel":"high","provider":"mock","modelId":"think","tools":["read"]`)
	st := d.OK(fmt.Sprintf(`{"type":"get_state","sessionId":%q}`, h))
	assert.False(t, st.Get("autoCompactionEnabled").Bool())
	assert.Equal(t, "all", st.Get("steeringMode").Str)
	assert.Equal(t, "high", st.Get("thinkingLevel").Str)
	assert.Equal(t, `["read"]`, d.OK(fmt.Sprintf(`{"type":"get_tools","sessionId":%q}`, h)).Get("activeToolNames").Raw)
	assert.True(t, d.OK(`{"type":"get_state"}`).Get("autoCompactionEnabled").Bool())
}

// TestLeafOfChanges checks that session_changed contains the current leaf, or null for an empty
// session.
func TestLeafOfChanges(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.Model.Enqueue(harness.Text("one"), harness.Text("two"), harness.Text("a summary"))
	d := p.Start()
	d.Prompt("first")
	first := d.OK(`{"type":"get_fork_messages"}`).Get("messages.0.entryId").Str
	d.Prompt("second")
	d.OK(`{"type":"navigate_tree","targetId":"` + first + `","summarize":true,"label":"here"}`)
	tree := d.Event("session_changed")
	assert.Equal(t, d.OK(`{"type":"get_tree"}`).Get("leafId").Str, tree.Get("leafId").Str)
	assert.EqualValues(t, 1, tree.Get("messageCount").Int())
	d.OK(`{"type":"new_session"}`)
	assert.Equal(t, "null", d.Event("session_changed").Get("leafId").Raw)
}

// TestDirectoryIsGone checks a session file whose working directory no longer exists. Every command
// fails with cwd_missing, and the file can be opened with another directory.
func TestDirectoryIsGone(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile("old.jsonl", `{"type":"session","version":3,"id":"11111111-1111-4111-8111-111111111111","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/nowhere"}
{"type":"message","id":"aaaaaaaa","parentId":null,"timestamp":"2026-01-01T00:00:00.000Z","message":{"role":"user","content":"hi","timestamp":1}}
`)
	old := filepath.Join(p.Work, "old.jsonl")
	d := p.Start("--session", old)
	for range 2 {
		assert.Equal(t, "cwd_missing", d.Call(`{"type":"get_state"}`).Get("code").Str)
	}
	opened := d.Call(`{"type":"open_session","sessionPath":"` + old + `","cwd":"` + p.Work + `"}`)
	require.True(t, opened.Get("success").Bool(), opened.Raw)
	assert.NotZero(t, opened.Get("data.state.messageCount").Int(), "what is in it is there")
}

// TestLossesAreReported checks that opening a truncated or emptied session file reports the loss on stderr, and that
// new_session leaves a session whose file was lost while it was open.
func TestLossesAreReported(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	d := p.Start()
	p.Model.Enqueue(harness.Text("one"))
	d.Prompt("a")
	file := d.OK(`{"type":"get_state"}`).Get("sessionFile").Str
	require.Zero(t, d.Close())
	assert.NotContains(t, d.Stderr(), "lost")
	text, err := os.ReadFile(file)
	require.NoError(t, err)

	require.NoError(t, os.WriteFile(file, text[:len(text)-20], 0o600))
	d = p.Start("--session", file)
	d.OK(`{"type":"get_state"}`)
	require.Zero(t, d.Close())
	assert.Contains(t, d.Stderr(), "the session file ends in the middle of an entry: that entry is lost")

	require.NoError(t, os.WriteFile(file, nil, 0o600))
	d = p.Start("--session", file)
	d.OK(`{"type":"get_state"}`)
	require.Zero(t, d.Close())
	assert.Contains(t, d.Stderr(), "the session file is empty: what it held is lost")

	for _, lose := range []func() error{
		func() error { return os.Truncate(file, 0) },
		func() error { return os.Remove(file) },
		func() error {
			return os.WriteFile(file, []byte(strings.Replace(string(text), `"id":"`, `"id":"x`, 1)), 0o600)
		},
	} {
		require.NoError(t, os.WriteFile(file, text, 0o600))
		d = p.Start("--session", file)
		p.Model.Enqueue(harness.Text("two"))
		d.Prompt("b")
		require.NoError(t, lose())
		assert.Equal(t, "not_durable", d.Call(`{"type":"prompt","message":"c"}`).Get("code").Str)
		d.OK(`{"type":"new_session"}`)
		p.Model.Enqueue(harness.Text("three"))
		d.Prompt("d")
		st := d.OK(`{"type":"get_state"}`)
		assert.NotEqual(t, file, st.Get("sessionFile").Str)
		assert.EqualValues(t, 2, st.Get("messageCount").Int())
		assert.FileExists(t, st.Get("sessionFile").Str)
		require.Zero(t, d.Close())
	}
}
