package wire

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/e2e/harness"
	"troupe/protocol"
)

// TestInactiveTools checks that a deactivated tool does not run, for every way of deactivating it
// and every dialect.
func TestInactiveTools(t *testing.T) {
	call := func(p *harness.Place) {
		p.Model.Enqueue(harness.ToolCall("c1", "bash", `{"command":"touch made"}`), harness.Text("done"))
	}
	refused := func(t *testing.T, p *harness.Place, d *harness.Daemon) {
		t.Helper()
		end := d.Event("tool_execution_end")
		assert.True(t, end.Get("isError").Bool())
		assert.Equal(t, "Tool bash not found", end.Get("result.content.0.text").Str)
		d.Event("agent_end")
		assert.NoFileExists(t, filepath.Join(p.Work, "made"))
		assert.Contains(t, p.Model.Request(1).Body, "Tool bash not found", "the model is told")
	}
	for _, args := range []string{
		"--no-tools", "--tools read", "--exclude-tools bash", "--tools read --confirm bash",
	} {
		for _, dialect := range protocol.Dialects() {
			t.Run(args+" "+string(dialect), func(t *testing.T) {
				t.Parallel()
				p := harness.NewPlace(t)
				call(p)
				d := p.Start(append(strings.Fields(args), "--dialect", string(dialect))...)
				d.OK(`{"type":"prompt","message":"go"}`)
				refused(t, p, d)
				for _, l := range d.Lines() {
					assert.NotContains(t, l, "extension_ui_request", "nobody is asked about what does not run")
				}
			})
		}
	}
	t.Run("settings", func(t *testing.T) {
		t.Parallel()
		p := harness.NewPlace(t)
		p.WriteFile(p.AgentDir()+"/settings.json", `{"defaultTools":["-bash"]}`)
		call(p)
		d := p.Start()
		d.OK(`{"type":"prompt","message":"go"}`)
		refused(t, p, d)
	})
	t.Run("after a restart of the session", func(t *testing.T) {
		t.Parallel()
		p := harness.NewPlace(t)
		call(p)
		d := p.Start("--park-after", "1ms")
		d.OK(`{"type":"set_active_tools","toolNames":[]}`)
		d.OK(`{"type":"prompt","message":"go"}`)
		refused(t, p, d)
	})
	t.Run("an opened session", func(t *testing.T) {
		t.Parallel()
		p := harness.NewPlace(t)
		call(p)
		d := p.Start("--multi-session", "--no-tools")
		handle := d.OK(`{"type":"open_session"}`).Get("sessionId").Str
		d.OK(`{"type":"prompt","message":"go","sessionId":"` + handle + `"}`)
		refused(t, p, d)
	})
	t.Run("print", func(t *testing.T) {
		t.Parallel()
		p := harness.NewPlace(t)
		call(p)
		out, errs, code := p.RunOnce("", p.ModelArgs("--no-tools", "-p", "go")...)
		require.Zero(t, code, errs)
		assert.Equal(t, "done\n", out)
		assert.NoFileExists(t, filepath.Join(p.Work, "made"))
	})
}

// TestRefusedCalls checks tool calls that cannot run. In pi 1.x each of them ends before the next
// call starts. Valid calls run concurrently: c3 reads the data that c5 writes.
func TestRefusedCalls(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	require.NoError(t, syscall.Mkfifo(filepath.Join(p.Work, "pipe"), 0o600))
	p.Model.Enqueue(harness.ToolCall("c1", "nope", `{}`).Then(harness.ToolCall("c2", "bash", `{"comand":"x"}`)).Then(harness.ToolCall("c3", "bash", `{"command":"cat pipe"}`)).
		Then(harness.ToolCall("c4", "read", `{}`)).Then(harness.ToolCall("c5", "bash", `{"command":"echo written > pipe"}`)), harness.Text("done"))
	d := p.Start("--dialect", "pi1")
	var order []string
	for _, e := range d.Prompt("go") {
		switch e.Get("type").Str {
		case "tool_execution_start":
			order = append(order, "+"+e.Get("toolCallId").Str)
		case "tool_execution_end":
			order = append(order, "-"+e.Get("toolCallId").Str)
			assert.Equal(t, !strings.Contains("c3 c5", e.Get("toolCallId").Str), e.Get("isError").Bool())
		}
	}
	require.Len(t, order, 10)
	assert.Equal(t, "+c1 -c1 +c2 -c2 +c3 +c4 -c4 +c5", strings.Join(order[:8], " "))
	assert.ElementsMatch(t, []string{"-c3", "-c5"}, order[8:])
	assert.Contains(t, p.Model.Request(1).Body, "Tool nope not found")
	assert.Contains(t, p.Model.Request(1).Body, "Validation failed for tool")
}

// TestExcludedTools checks that --exclude-tools removes the named tools from the default set and no
// others.
func TestExcludedTools(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ settings, exclude, want string }{
		{`{"task":{"enabled":true}}`, "ls", `["read","bash","edit","write","task"]`},
		{`{"task":{"enabled":true}}`, "bash,task", `["read","edit","write"]`},
		{`{"defaultTools":["+grep"]}`, "edit", `["read","bash","write","grep"]`},
	} {
		p := harness.NewPlace(t)
		p.WriteFile(p.AgentDir()+"/settings.json", c.settings)
		d := p.Start("--exclude-tools", c.exclude)
		assert.Equal(t, c.want, d.OK(`{"type":"get_tools"}`).Get("activeToolNames").Raw, c.exclude)
		d.Close()
	}
}
