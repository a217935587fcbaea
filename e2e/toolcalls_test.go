package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
)

// TestInactiveTools: a tool that is switched off does not run, however it was
// switched off, whoever the client is.
func TestInactiveTools(t *testing.T) {
	call := func(p *place) {
		p.llm.plays(tool("c1", "bash", `{"command":"touch made"}`), text("done"))
	}
	refused := func(t *testing.T, p *place, d *daemon) {
		t.Helper()
		end := d.event("tool_execution_end")
		assert.True(t, end.Get("isError").Bool())
		assert.Equal(t, "Tool bash not found", end.Get("result.content.0.text").Str)
		d.event("agent_end")
		assert.NoFileExists(t, filepath.Join(p.work, "made"))
		assert.Contains(t, p.llm.request(1).body, "Tool bash not found", "the model is told")
	}
	for _, args := range []string{
		"--no-tools", "--tools read", "--exclude-tools bash", "--tools read --confirm bash",
	} {
		for _, dialect := range protocol.Dialects() {
			t.Run(args+" "+string(dialect), func(t *testing.T) {
				t.Parallel()
				p := newPlace(t)
				call(p)
				d := p.start(append(strings.Fields(args), "--dialect", string(dialect))...)
				d.ok(`{"type":"prompt","message":"go"}`)
				refused(t, p, d)
				for _, l := range d.output() {
					assert.NotContains(t, l, "extension_ui_request", "nobody is asked about what does not run")
				}
			})
		}
	}
	t.Run("settings", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		p.write(p.agent()+"/settings.json", `{"defaultTools":["-bash"]}`)
		call(p)
		d := p.start()
		d.ok(`{"type":"prompt","message":"go"}`)
		refused(t, p, d)
	})
	t.Run("after a restart of the session", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		call(p)
		d := p.start("--park-after", "1ms")
		d.ok(`{"type":"set_active_tools","toolNames":[]}`)
		d.ok(`{"type":"prompt","message":"go"}`)
		refused(t, p, d)
	})
	t.Run("an opened session", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		call(p)
		d := p.start("--multi-session", "--no-tools")
		handle := d.ok(`{"type":"open_session"}`).Get("sessionId").Str
		d.ok(`{"type":"prompt","message":"go","sessionId":"` + handle + `"}`)
		refused(t, p, d)
	})
	t.Run("print", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		call(p)
		out, errs, code := p.once("", p.mock("--no-tools", "-p", "go")...)
		require.Zero(t, code, errs)
		assert.Equal(t, "done\n", out)
		assert.NoFileExists(t, filepath.Join(p.work, "made"))
	})
}

// TestRefusedCalls: in pi 1.x a call that cannot run ends before the next one
// starts; the others run side by side.
func TestRefusedCalls(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.llm.plays(tool("c1", "nope", `{}`).and(tool("c2", "bash", `{"comand":"x"}`)).and(tool("c3", "bash", `{"command":"sleep 0.1"}`)).
		and(tool("c4", "read", `{}`)).and(tool("c5", "bash", `{"command":"true"}`)), text("done"))
	d := p.start("--dialect", "pi1")
	var order []string
	for _, e := range d.prompt("go") {
		switch e.Get("type").Str {
		case "tool_execution_start":
			order = append(order, "+"+e.Get("toolCallId").Str)
		case "tool_execution_end":
			order = append(order, "-"+e.Get("toolCallId").Str)
			assert.Equal(t, !strings.Contains("c3 c5", e.Get("toolCallId").Str), e.Get("isError").Bool())
		}
	}
	assert.Equal(t, "+c1 -c1 +c2 -c2 +c3 +c4 -c4 +c5 -c5 -c3", strings.Join(order, " "))
	assert.Contains(t, p.llm.request(1).body, "Tool nope not found")
	assert.Contains(t, p.llm.request(1).body, "Validation failed for tool")
}

// TestExcludedTools: what is left out is all that is missing, of whatever would be active else.
func TestExcludedTools(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ settings, exclude, want string }{
		{`{"task":{"enabled":true}}`, "ls", `["read","bash","edit","write","task"]`},
		{`{"task":{"enabled":true}}`, "bash,task", `["read","edit","write"]`},
		{`{"defaultTools":["+grep"]}`, "edit", `["read","bash","write","grep"]`},
	} {
		p := newPlace(t)
		p.write(p.agent()+"/settings.json", c.settings)
		d := p.start("--exclude-tools", c.exclude)
		assert.Equal(t, c.want, d.ok(`{"type":"get_tools"}`).Get("activeToolNames").Raw, c.exclude)
		d.end()
	}
}
