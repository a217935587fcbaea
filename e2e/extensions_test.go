package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestExtensionsAreNamed: what somebody configured and nothing runs is named once on
// stderr, whatever way it was asked for; what is not there, too.
func TestExtensionsAreNamed(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(filepath.Join(p.agent(), "extensions/gate.ts"), "x")
	p.write(filepath.Join(p.agent(), "settings.json"), `{"packages":["npm:none","./pack"],"extensions":["gone.ts"]}`)
	p.write(filepath.Join(p.agent(), "pack/prompts/ask.md"), "Ask")
	p.write(filepath.Join(p.home, "cli.ts"), "x")
	p.write(filepath.Join(p.home, "hook.ts"), "x")
	d := p.start("-e", "~/cli.ts", "--hook", "~/hook.ts", "--tools", "read,nope")
	commands := d.ok(`{"type":"get_commands"}`).Get("commands")
	assert.Equal(t, "ask", commands.Get("0.name").Str)
	assert.JSONEq(t, `{"path":"`+p.agent()+`/pack/prompts/ask.md","source":"./pack","scope":"user","origin":"package","baseDir":"`+p.agent()+`/pack"}`, commands.Get("0.sourceInfo").Raw)
	require.Zero(t, d.end())
	for _, line := range []string{
		"extensions found, not run by this version: " + p.home + "/cli.ts, " + p.home + "/hook.ts, " + p.agent() + "/extensions/gate.ts",
		"Package not installed: npm:none (pi install npm:none)",
		"Extension path does not exist: " + p.agent() + "/gone.ts",
		"--tools: unknown tool nope",
	} {
		assert.Equal(t, 1, strings.Count(d.errors(), line), "%s\n%s", line, d.errors())
	}
	for _, args := range [][]string{{"-ne"}, {"--extension-host", "off"}} {
		d := p.start(args...)
		d.ok(`{"type":"get_state"}`)
		require.Zero(t, d.end())
		assert.NotContains(t, d.errors(), "extensions found")
	}
}

// TestUnknownOptions: a long option that nobody knows is an error, unless there is an
// extension that does not run and might have it.
func TestUnknownOptions(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	state := `{"id":"1","type":"get_state"}` + "\n"
	_, errs, code := p.once(state, "--mode", "rpc", "--preset", "fast")
	assert.Equal(t, 2, code)
	assert.Equal(t, "troupe: unknown option --preset (try troupe --help)\n", errs)
	_, _, code = p.once(state, "--mode", "rpc", "-x")
	assert.Equal(t, 2, code)

	p.write(filepath.Join(p.home, "preset.ts"), "x")
	for _, args := range [][]string{{"--preset", "fast"}, {"--preset=fast"}, {"--plan"}} {
		out, errs, code := p.once(state, append([]string{"--mode", "rpc", "--no-session", "-e", "~/preset.ts"}, args...)...)
		assert.Zero(t, code, errs)
		assert.Contains(t, out, `"success":true`)
		assert.Equal(t, 1, strings.Count(errs, "unknown option "+strings.Join(args, " ")+": ignored"), errs)
	}
	_, errs, code = p.once(state, "--mode", "rpc", "-e", "~/preset.ts", "-x")
	assert.Equal(t, 2, code, errs)
	_, errs, code = p.once(state, "--mode", "rpc", "-e", "~/preset.ts", "--extension-errors", "fatal")
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, "extensions found, not run by this version: "+p.home+"/preset.ts")
	_, errs, code = p.once(state, "--mode", "rpc", "-e", "npm:none", "--extension-errors", "fatal")
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, "Package not installed: npm:none (pi install npm:none)")
	_, _, code = p.once(state, "--mode", "rpc", "--no-session", "--extension-errors", "fatal")
	assert.Zero(t, code, "nothing is wrong where there is no extension")
}
