package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// asksTrust is the question whether the project is trusted.
func asksTrust(d *daemon) gjson.Result {
	d.t.Helper()
	d.ok(`{"type":"get_state"}`)
	q := d.event("extension_ui_request")
	require.Equal(d.t, "select", q.Get("method").Str)
	require.Contains(d.t, q.Get("title").Str, "trust the project")
	return q
}

func (d *daemon) saysOfTrust(q gjson.Result, option int) {
	d.send(`{"type":"extension_ui_response","id":"` + q.Get("id").Str + `","value":"` + q.Get("options").Array()[option].Str + `"}`)
}

// project is what get_state says of what is left out, which is nothing of a project that
// is trusted.
func (d *daemon) project() gjson.Result {
	return d.ok(`{"type":"get_state"}`).Get("project")
}

func (d *daemon) trusts() bool { return !d.project().Exists() }

// TestServeAsksTrust: whoever serves is asked whether a project is trusted, once of a
// directory, and the answer is kept. Until somebody says yes nothing of it counts.
func TestServeAsksTrust(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(".pi/settings.json", `{"shellCommandPrefix":"echo PREFIX"}`)
	p.write(".pi/extensions/hello.ts", `export default (pi) => pi.registerCommand("hello", { handler: async (_, ctx) => ctx.ui.notify("HELLO") })`)
	trust := filepath.Join(p.agent(), "troupe", "trust.json")
	p.write(trust, `{"/elsewhere":false}`)
	s := p.serve()

	a := s.connect("--permission-mode", "auto")
	q := asksTrust(a)
	assert.Contains(t, q.Get("title").Str, p.work)
	assert.Contains(t, q.Get("title").Str, "shellCommandPrefix")
	assert.Equal(t, `{"trusted":false,"decidedBy":"defaultProjectTrust","leftOut":["shellCommandPrefix",".pi/extensions"]}`, a.project().Raw)
	assert.NotContains(t, a.ok(`{"type":"bash","command":"echo hello"}`).Get("output").Str, "PREFIX")

	b := s.connect()
	b.ok(`{"type":"get_state"}`)
	require.Zero(t, b.end())
	assert.NotContains(t, strings.Join(b.output(), ""), "extension_ui_request", "one session of a directory asks")

	require.Zero(t, a.end())
	c := s.connect("--permission-mode", "auto")
	q = asksTrust(c) // the session that has asked is gone
	c.saysOfTrust(q, 0)
	eventually(t, "the project is trusted", c.trusts)
	assert.Contains(t, c.ok(`{"type":"bash","command":"echo hello"}`).Get("output").Str, "PREFIX")
	c.ok(`{"type":"prompt","message":"/hello"}`)
	assert.Equal(t, "HELLO", c.ui("notify").Get("message").Str)
	require.Zero(t, c.end())
	kept, err := os.ReadFile(trust)
	require.NoError(t, err)
	assert.JSONEq(t, `{"/elsewhere":false,"`+p.work+`":true}`, string(kept))
	assert.Equal(t, 143, s.stop())

	s = p.serve()
	d := s.connect()
	assert.True(t, d.trusts())
	require.Zero(t, d.end())
	assert.NotContains(t, strings.Join(d.output(), ""), "extension_ui_request")
	assert.Equal(t, 143, s.stop())
}

// TestServeDoesNotTrust: no is kept, "until troupe ends" and silence are not.
func TestServeDoesNotTrust(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(".pi/settings.json", `{"shellCommandPrefix":"echo PREFIX"}`)
	trust := filepath.Join(p.agent(), "troupe", "trust.json")

	s := p.serve()
	a := s.connect()
	asksTrust(a)
	require.Zero(t, a.end())
	b := s.connect()
	b.send(`{"type":"extension_ui_response","id":"` + asksTrust(b).Get("id").Str + `","cancelled":true}`)
	assert.False(t, b.trusts())
	require.Zero(t, b.end())
	c := s.connect()
	assert.False(t, c.trusts())
	require.Zero(t, c.end())
	assert.NotContains(t, strings.Join(c.output(), ""), "extension_ui_request", "who does not want to say is not asked again")
	assert.Equal(t, 143, s.stop())
	assert.NoFileExists(t, trust)

	s = p.serve()
	a = s.connect()
	a.saysOfTrust(asksTrust(a), 1)
	eventually(t, "the project is trusted", a.trusts)
	require.Zero(t, a.end())
	b = s.connect()
	assert.True(t, b.trusts())
	require.Zero(t, b.end())
	assert.Equal(t, 143, s.stop())
	assert.NoFileExists(t, trust)

	s = p.serve()
	a = s.connect()
	a.saysOfTrust(asksTrust(a), 2)
	eventually(t, "the answer is kept", func() bool { _, err := os.Stat(trust); return err == nil })
	assert.False(t, a.trusts())
	assert.Equal(t, 143, s.stop())
	s = p.serve()
	a = s.connect()
	assert.Equal(t, trust, a.project().Get("decidedBy").Str)
	require.Zero(t, a.end())
	assert.NotContains(t, strings.Join(a.output(), ""), "extension_ui_request")
	assert.Equal(t, 143, s.stop())
}

// TestServeTrustsLater: a yes in the middle of a run counts when the run is over, and a
// second client may give it. Where everything was decided before, nobody is asked.
func TestServeTrustsLater(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(".pi/settings.json", `{"shellCommandPrefix":"echo PREFIX"}`)
	s := p.serve()
	a, b := s.connect("--permission-mode", "auto"), s.connect("--no-session")
	b.send(`{"type":"hello","features":["dialogEvents"]}`)
	q := asksTrust(a)
	id := a.ok(`{"type":"list_open_sessions"}`).Get("sessions.0.sessionId").Str
	b.ok(`{"type":"attach","sessionId":"` + id + `"}`)
	go2 := filepath.Join(p.root, "go")
	p.llm.plays(tool("c1", "bash", `{"command":"while ! test -e `+go2+`; do sleep 0.02; done; echo one"}`), tool("c2", "bash", `{"command":"echo two"}`), text("done"))
	a.ok(`{"type":"prompt","message":"go"}`)
	a.event("tool_execution_start")
	b.send(`{"type":"extension_ui_response","sessionId":"` + id + `","id":"` + q.Get("id").Str + `","value":"Trust it"}`)
	b.event("dialog_resolved")
	assert.False(t, a.trusts(), "a run goes on as it began")
	p.write(go2, "")
	a.event("agent_end")
	eventually(t, "the project is trusted", a.trusts)
	assert.NotContains(t, strings.ReplaceAll(strings.Join(a.output(), ""), "echo PREFIX", ""), "PREFIX")
	assert.Contains(t, a.ok(`{"type":"bash","command":"echo hello"}`).Get("output").Str, "PREFIX")
	assert.Equal(t, 143, s.stop())

	for _, flag := range []string{"--approve", "--no-approve"} {
		s := p.serve(flag)
		require.NoError(t, os.RemoveAll(filepath.Join(p.agent(), "troupe", "trust.json")))
		d := s.connect()
		assert.Equal(t, flag == "--approve", d.trusts())
		require.Zero(t, d.end())
		assert.NotContains(t, strings.Join(d.output(), ""), "extension_ui_request")
		assert.Equal(t, 143, s.stop())
	}
}
