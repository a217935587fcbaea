package process

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/e2e/harness"
)

// TestByteOrderMarks checks that files with a byte order mark, as some editors write them, are read, and that
// no model is sent the mark.
func TestByteOrderMarks(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	const mark = "\ufeff"
	agent := p.AgentDir()
	p.WriteFile(filepath.Join(agent, "models.json"), mark+p.Model.ModelsJSON())
	p.WriteFile(filepath.Join(agent, "settings.json"), mark+`{"defaultProvider":"mock","defaultModel":"mock-1"}`)
	p.WriteFile(filepath.Join(agent, "auth.json"), mark+`{"mock":{"type":"api_key","key":"sk-of-auth"}}`)
	p.WriteFile(filepath.Join(agent, "permissions.json"), mark+`{"deny":["bash"]}`)
	p.WriteFile(filepath.Join(agent, "skills", "one", "SKILL.md"), mark+"---\nname: one\ndescription: The first.\n---\nDo it.")
	p.WriteFile(filepath.Join(p.Work, "AGENTS.md"), mark+"Rules of the project.")
	p.WriteFile(filepath.Join(p.Work, "system.txt"), mark+"You are short.")
	p.WriteFile(filepath.Join(p.Work, "note.txt"), mark+"attached")
	p.Model.Enqueue(harness.Text("yes"))
	out, errs, code := p.RunOnce(mark+"piped ", "-p", "--system-prompt", "system.txt", "@note.txt", "go")
	require.Zero(t, code, errs)
	assert.Equal(t, "yes\n", out)
	assert.Empty(t, errs)
	r := p.Model.Request(0)
	assert.Equal(t, "sk-of-auth", r.Header.Get("x-api-key"))
	assert.NotContains(t, r.Body, mark)
	assert.Contains(t, r.Body, "You are short.")
	assert.Contains(t, r.Body, "Rules of the project.")
	assert.Contains(t, r.Body, "The first.")
	assert.Contains(t, r.Body, "attached")

	files, _ := filepath.Glob(filepath.Join(agent, "sessions", "*", "*.jsonl"))
	require.Len(t, files, 1)
	p.WriteFile(files[0], mark+harness.ReadFile(t, files[0]))
	p.Model.Enqueue(harness.Text("again"))
	_, errs, code = p.RunOnce("", "-p", "--session", files[0], "second")
	require.Zero(t, code, errs)
	assert.Contains(t, p.Model.Request(1).Body, "attached")
}
