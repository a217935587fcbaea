package serve

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/harness"
)

// asksTrust waits for the dialog that asks whether the project is trusted.
func asksTrust(d *harness.Daemon) gjson.Result {
	d.T.Helper()
	d.OK(`{"type":"get_state"}`)
	q := d.Event("extension_ui_request")
	require.Equal(d.T, "select", q.Get("method").Str)
	require.Contains(d.T, q.Get("title").Str, "trust the project")
	return q
}

func saysOfTrust(d *harness.Daemon, q gjson.Result, option int) {
	d.Send(`{"type":"extension_ui_response","id":"` + q.Get("id").Str + `","value":"` + q.Get("options").Array()[option].Str + `"}`)
}

// project returns the member of get_state that lists the ignored files and settings of an untrusted
// project. It is absent for a trusted project.
func project(d *harness.Daemon) gjson.Result {
	return d.OK(`{"type":"get_state"}`).Get("project")
}

func trusts(d *harness.Daemon) bool { return !project(d).Exists() }

// TestServeAsksTrust checks that troupe serve asks a client once per directory whether to trust the
// project, and that it saves the answer. Until a client trusts it, nothing of the project is used.
func TestServeAsksTrust(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile(".pi/settings.json", `{"shellCommandPrefix":"echo PREFIX"}`)
	p.WriteFile(".pi/extensions/hello.ts", `export default (pi) => pi.registerCommand("hello", { handler: async (_, ctx) => ctx.ui.notify("HELLO") })`)
	trust := filepath.Join(p.AgentDir(), "troupe", "trust.json")
	p.WriteFile(trust, `{"/elsewhere":false}`)
	s := p.Serve()

	a := s.Connect("--permission-mode", "auto")
	q := asksTrust(a)
	assert.Contains(t, q.Get("title").Str, p.Work)
	assert.Contains(t, q.Get("title").Str, "shellCommandPrefix")
	assert.Equal(t, `{"trusted":false,"decidedBy":"defaultProjectTrust","leftOut":["shellCommandPrefix",".pi/extensions"]}`, project(a).Raw)
	assert.NotContains(t, a.OK(`{"type":"bash","command":"echo hello"}`).Get("output").Str, "PREFIX")

	b := s.Connect()
	b.OK(`{"type":"get_state"}`)
	require.Zero(t, b.Close())
	assert.NotContains(t, strings.Join(b.Lines(), ""), "extension_ui_request", "one session of a directory asks")

	require.Zero(t, a.Close())
	c := s.Connect("--permission-mode", "auto")
	q = asksTrust(c) // the session that asked is closed
	saysOfTrust(c, q, 0)
	harness.Eventually(t, "the project is trusted", func() bool { return trusts(c) })
	assert.Contains(t, c.OK(`{"type":"bash","command":"echo hello"}`).Get("output").Str, "PREFIX")
	c.OK(`{"type":"prompt","message":"/hello"}`)
	assert.Equal(t, "HELLO", c.UIRequest("notify").Get("message").Str)
	require.Zero(t, c.Close())
	kept, err := os.ReadFile(trust)
	require.NoError(t, err)
	assert.JSONEq(t, `{"/elsewhere":false,"`+p.Work+`":true}`, string(kept))
	assert.Equal(t, 143, s.Stop())

	s = p.Serve()
	d := s.Connect()
	assert.True(t, trusts(d))
	require.Zero(t, d.Close())
	assert.NotContains(t, strings.Join(d.Lines(), ""), "extension_ui_request")
	assert.Equal(t, 143, s.Stop())
}

// TestServeDoesNotTrust checks that "no" is saved, but that "until troupe ends" and a dismissed
// dialog are not.
func TestServeDoesNotTrust(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile(".pi/settings.json", `{"shellCommandPrefix":"echo PREFIX"}`)
	trust := filepath.Join(p.AgentDir(), "troupe", "trust.json")

	s := p.Serve()
	a := s.Connect()
	asksTrust(a)
	require.Zero(t, a.Close())
	b := s.Connect()
	b.Send(`{"type":"extension_ui_response","id":"` + asksTrust(b).Get("id").Str + `","cancelled":true}`)
	assert.False(t, trusts(b))
	require.Zero(t, b.Close())
	c := s.Connect()
	assert.False(t, trusts(c))
	require.Zero(t, c.Close())
	assert.NotContains(t, strings.Join(c.Lines(), ""), "extension_ui_request", "who does not want to say is not asked again")
	assert.Equal(t, 143, s.Stop())
	assert.NoFileExists(t, trust)

	s = p.Serve()
	a = s.Connect()
	saysOfTrust(a, asksTrust(a), 1)
	harness.Eventually(t, "the project is trusted", func() bool { return trusts(a) })
	require.Zero(t, a.Close())
	b = s.Connect()
	assert.True(t, trusts(b))
	require.Zero(t, b.Close())
	assert.Equal(t, 143, s.Stop())
	assert.NoFileExists(t, trust)

	s = p.Serve()
	a = s.Connect()
	saysOfTrust(a, asksTrust(a), 2)
	harness.Eventually(t, "the answer is kept", func() bool { _, err := os.Stat(trust); return err == nil })
	assert.False(t, trusts(a))
	assert.Equal(t, 143, s.Stop())
	s = p.Serve()
	a = s.Connect()
	assert.Equal(t, trust, project(a).Get("decidedBy").Str)
	require.Zero(t, a.Close())
	assert.NotContains(t, strings.Join(a.Lines(), ""), "extension_ui_request")
	assert.Equal(t, 143, s.Stop())
}

// TestServeTrustsLater checks that trust granted during a run takes effect after that run, and that
// any client may grant it. If trust is already decided, no dialog is shown.
func TestServeTrustsLater(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile(".pi/settings.json", `{"shellCommandPrefix":"echo PREFIX"}`)
	s := p.Serve()
	a, b := s.Connect("--permission-mode", "auto"), s.Connect("--no-session")
	b.Send(`{"type":"hello","features":["dialogEvents"]}`)
	q := asksTrust(a)
	id := a.OK(`{"type":"list_open_sessions"}`).Get("sessions.0.sessionId").Str
	b.OK(`{"type":"attach","sessionId":"` + id + `"}`)
	go2 := filepath.Join(p.Root, "go")
	p.Model.Enqueue(harness.ToolCall("c1", "bash", `{"command":"while ! test -e `+go2+`; do sleep 0.02; done; echo one"}`), harness.ToolCall("c2", "bash", `{"command":"echo two"}`), harness.Text("done"))
	a.OK(`{"type":"prompt","message":"go"}`)
	a.Event("tool_execution_start")
	b.Send(`{"type":"extension_ui_response","sessionId":"` + id + `","id":"` + q.Get("id").Str + `","value":"Trust it"}`)
	b.Event("dialog_resolved")
	assert.False(t, trusts(a), "a run goes on as it began")
	p.WriteFile(go2, "")
	a.Event("agent_end")
	harness.Eventually(t, "the project is trusted", func() bool { return trusts(a) })
	assert.NotContains(t, strings.ReplaceAll(strings.Join(a.Lines(), ""), "echo PREFIX", ""), "PREFIX")
	assert.Contains(t, a.OK(`{"type":"bash","command":"echo hello"}`).Get("output").Str, "PREFIX")
	assert.Equal(t, 143, s.Stop())

	for _, flag := range []string{"--approve", "--no-approve"} {
		s := p.Serve(flag)
		require.NoError(t, os.RemoveAll(filepath.Join(p.AgentDir(), "troupe", "trust.json")))
		d := s.Connect()
		assert.Equal(t, flag == "--approve", trusts(d))
		require.Zero(t, d.Close())
		assert.NotContains(t, strings.Join(d.Lines(), ""), "extension_ui_request")
		assert.Equal(t, 143, s.Stop())
	}
}
