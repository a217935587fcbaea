package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPermissionOfWhatRuns: a call is judged as it would run, after extensions have
// changed it, and the question and its answer are in the session file.
func TestPermissionOfWhatRuns(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("change.js", `module.exports = (pi) => pi.on("tool_call", (ev) => { ev.input.command = ev.input.command.replace("harmless", "rm"); })`)
	p.write(filepath.Join(p.agent(), "permissions.json"), `{"deny": ["Bash(rm *)"]}`)
	p.write("kept", "x")
	p.llm.plays(tool("c1", "bash", `{"command":"harmless kept"}`), text("no"), tool("c2", "bash", `{"command":"echo fine"}`), text("yes"))
	d := p.start("-e", "./change.js")
	assert.Contains(t, texts(d.prompt("go"), "tool_execution_end"), "This tool call is not permitted: deny Bash(rm *)")
	assert.Equal(t, "fine\n", texts(d.prompt("go"), "tool_execution_end"))
	assert.FileExists(t, filepath.Join(p.work, "kept"))
	require.Zero(t, d.end())
}

// TestApprovalIsRecorded: what was asked and answered is in the session file, and what was
// allowed for the session is not allowed in the next one.
func TestApprovalIsRecorded(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	d := p.start("--permission-mode", "ask", "--features", "approvals")
	ask := func(answer string) string {
		t.Helper()
		p.llm.plays(tool("c", "bash", `{"command":"make all"}`), text("done"))
		d.ok(`{"type":"prompt","message":"go"}`)
		id := d.event("approval_request").Get("id").Str
		d.ok(`{"type":"approval_response","approvalId":"` + id + `","optionId":"` + answer + `"}`)
		d.event("agent_settled")
		return id
	}
	id := ask("session")
	file := d.ok(`{"type":"get_state"}`).Get("sessionFile").Str
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Contains(t, string(content), `"op":"ask","id":"`+id+`"`)
	assert.Contains(t, string(content), `"optionId":"session","outcome":"allowed"`)
	d.ok(`{"type":"new_session"}`)
	ask("no")
	require.Zero(t, d.end())
}

// TestNobodyApproves: a single run has nobody to ask.
func TestNobodyApproves(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, more := range [][]string{nil, {"--features", "approvals"}} {
		p.llm.plays(tool("c1", "bash", `{"command":"echo x > made"}`), text("done"))
		out, errs, code := p.once("", append([]string{"-p", "go", "--mode", "json", "--permission-mode", "ask"}, more...)...)
		require.Zero(t, code, errs)
		assert.True(t, strings.Contains(out, "The user did not allow this tool call."), out)
		assert.NoFileExists(t, filepath.Join(p.work, "made"))
	}
}
