package process

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/e2e/harness"
)

// keyVars are environment variables with the keys of model providers and other tools.
var keyVars = []string{"MOCK_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY"}

// keysPlace returns a place that has those variables and a model whose key is in the first one.
func keysPlace(t *testing.T) *harness.Place {
	p := harness.NewPlace(t)
	for _, name := range keyVars {
		p.Env = append(p.Env, name+"=sk-of-"+name)
	}
	p.WriteModels(strings.Replace(p.Model.ModelsJSON(), `"apiKey":"sk-mock"`, `"apiKey":"$MOCK_KEY"`, 1))
	return p
}

// TestChildEnvironment checks that child processes see all environment variables except the keys of
// the providers in use.
func TestChildEnvironment(t *testing.T) {
	hidden := func(d *harness.Daemon, session string) string {
		out := d.OK(`{"type":"bash","command":"env"` + session + `}`).Get("output").Str
		var list []string
		for _, name := range keyVars {
			if !strings.Contains(out, "sk-of-"+name) {
				list = append(list, name)
			}
		}
		return strings.Join(list, " ")
	}
	t.Run("the selected model's", func(t *testing.T) {
		t.Parallel()
		p := keysPlace(t)
		d := p.Start()
		assert.Equal(t, "MOCK_KEY", hidden(d, ""))
		d.OK(`{"type":"set_model","provider":"anthropic","modelId":"claude-opus-4-8"}`)
		assert.Equal(t, "MOCK_KEY ANTHROPIC_API_KEY", hidden(d, ""))
		d.OK(`{"type":"set_model","provider":"mock","modelId":"mock-1"}`)
		assert.Equal(t, "MOCK_KEY ANTHROPIC_API_KEY", hidden(d, ""), "it may be selected again")
		p.Model.Enqueue(harness.ToolCall("c1", "bash", `{"command":"env"}`), harness.Text("done"))
		d.OK(`{"type":"prompt","message":"go"}`)
		shown := d.Event("tool_execution_end").Get("result.content.0.text").Str
		assert.NotContains(t, shown, "sk-of-MOCK_KEY")
		assert.NotContains(t, shown, "sk-of-ANTHROPIC_API_KEY")
		assert.Contains(t, shown, "sk-of-GITHUB_TOKEN")
		d.Event("agent_settled")
		assert.Equal(t, "sk-of-MOCK_KEY", p.Model.Request(1).Header.Get("X-Api-Key"))
	})
	t.Run("of another session", func(t *testing.T) {
		t.Parallel()
		p := keysPlace(t)
		d := p.Start("--multi-session")
		one := `,"sessionId":"` + d.OK(`{"type":"open_session"}`).Get("sessionId").Str + `"`
		two := `,"sessionId":"` + d.OK(`{"type":"open_session"}`).Get("sessionId").Str + `"`
		d.OK(`{"type":"set_model","provider":"openai","modelId":"gpt-5.5"` + two + `}`)
		assert.Equal(t, "MOCK_KEY OPENAI_API_KEY", hidden(d, one))
	})
	for settings, want := range map[string]string{
		`{"enabledModels":["openai/gpt-5.5"]}`:                     "MOCK_KEY OPENAI_API_KEY",
		`{"defaultProvider":"anthropic"}`:                          "MOCK_KEY ANTHROPIC_API_KEY",
		`{"defaultModel":"gpt-5.5","defaultProvider":"openai"}`:    "MOCK_KEY OPENAI_API_KEY",
		`{"modelThinkingLevels":{"anthropic/x":"low"}}`:            "MOCK_KEY ANTHROPIC_API_KEY",
		`{"bash":{"inheritEnv":true},"defaultProvider":"openai"}`:  "",
		`{"bash":{"inheritEnv":false},"defaultProvider":"openai"}`: "MOCK_KEY OPENAI_API_KEY",
	} {
		t.Run(settings, func(t *testing.T) {
			t.Parallel()
			p := keysPlace(t)
			p.WriteFile(p.AgentDir()+"/settings.json", settings)
			assert.Equal(t, want, hidden(p.Start(), ""))
		})
	}
	t.Run("named in models.json", func(t *testing.T) {
		t.Parallel()
		p := keysPlace(t)
		p.WriteModels(strings.Replace(p.Model.ModelsJSON(), `"apiKey":"sk-mock"`, `"apiKey":"$GITHUB_TOKEN","headers":{"X-Auth":"$AWS_SECRET_ACCESS_KEY"}`, 1))
		assert.Equal(t, "GITHUB_TOKEN AWS_SECRET_ACCESS_KEY", hidden(p.Start(), ""))
	})
	t.Run("on the command line", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, "MOCK_KEY OPENAI_API_KEY", hidden(keysPlace(t).Start("--models", "openai/gpt*"), ""))
	})
}

// TestOwnEnvironment checks that no tool can read the daemon's own environment or command line
// through /proc.
func TestOwnEnvironment(t *testing.T) {
	t.Parallel()
	p := keysPlace(t)
	require.NoError(t, os.Symlink("/proc/self/environ", filepath.Join(p.Work, "notes.txt")))
	p.Model.Enqueue(
		harness.ToolCall("c1", "read", `{"path":"/proc/self/environ"}`).Then(harness.ToolCall("c2", "read", `{"path":"notes.txt"}`)).
			Then(harness.ToolCall("c3", "grep", `{"pattern":"sk-","path":"/proc/self/environ"}`)).Then(harness.ToolCall("c4", "grep", `{"pattern":"sk-","path":"."}`)).
			Then(harness.ToolCall("c5", "bash", `{"command":"cat /proc/$PPID/environ /proc/$PPID/cmdline /proc/$PPID/task/*/environ | tr '\\0' '\\n'"}`)).
			Then(harness.ToolCall("c6", "read", `{"path":"/proc/thread-self/environ"}`)).Then(harness.ToolCall("c7", "edit", `{"path":"notes.txt","oldText":"a","newText":"b"}`)),
		harness.Text("done"))
	d := p.Start("--tools", "read,grep,bash,edit,find", "--api-key", "sk-of-the-command-line")
	d.Prompt("go")
	d.OK(`{"type":"bash","command":"cat /proc/$PPID/environ /proc/$PPID/cmdline"}`)
	require.Zero(t, d.Close())
	told := p.Model.Request(1).Body // for users other than root, the kernel denies this already
	assert.Equal(t, 5, strings.Count(told, "environment of a process")+strings.Count(told, "permission denied, open"), "the model is told why")
	for _, l := range d.Lines() {
		assert.NotContains(t, l, "sk-of-")
	}
	for i := range 2 {
		assert.False(t, strings.Contains(p.Model.Request(i).Body, "sk-of-"))
	}
	assert.Equal(t, "sk-of-the-command-line", p.Model.Request(0).Header.Get("X-Api-Key"), "it is still known here")
	files, _ := filepath.Glob(filepath.Join(p.AgentDir(), "sessions", "*", "*.jsonl"))
	require.Len(t, files, 1)
	content, err := os.ReadFile(files[0])
	require.NoError(t, err)
	assert.NotContains(t, string(content), "sk-of-")
}

// TestUnpricedModelIsNamed checks that a model without a price is reported once if the settings
// limit the cost and allow unpriced models.
func TestUnpricedModelIsNamed(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteModels(regexp.MustCompile(`"cost":\{[^}]*\},`).ReplaceAllString(p.Model.ModelsJSON(), ""))
	p.WriteFile(filepath.Join(p.AgentDir(), "settings.json"), `{"task":{"budget":{"maxCostUsd":1,"requirePrice":false}}}`)
	d := p.Start()
	d.OK(`{"type":"get_state"}`)
	d.OK(`{"type":"new_session"}`)
	require.Zero(t, d.Close())
	assert.Equal(t, 1, strings.Count(d.Stderr(), "it is not known what mock/mock-1 costs"), d.Stderr())
}
