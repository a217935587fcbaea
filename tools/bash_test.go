package tools

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
)

func TestBashResults(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	for command, want := range map[string]struct{ text, err string }{
		"echo one; echo two":         {text: "one\ntwo\n"},
		"true":                       {text: "(no output)"},
		"exit 3":                     {err: "(no output)\n\nCommand exited with code 3"},
		"echo hi; exit 3":            {err: "hi\n\n\nCommand exited with code 3"},
		"printf hi; kill -9 $$":      {err: "hi\n\nCommand exited with code 137"},
		`printf '\033[1mbold\033[m'`: {text: "\x1b[1mbold\x1b[m"},
	} {
		text, result, err := run(t, env, "bash", object{"command": command})
		assert.Equal(t, want.text, text, command)
		assert.Nil(t, result.Details, command)
		if want.err == "" {
			assert.NoError(t, err, command)
		} else {
			assert.EqualError(t, err, want.err, command)
		}
	}
}

func TestBashTimeout(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	_, _, err := run(t, env, "bash", object{"command": "echo go; sleep 300", "timeout": 0.25})
	assert.EqualError(t, err, "go\n\n\nCommand timed out after 0.25 seconds")
	_, _, err = run(t, env, "bash", object{"command": "exec sleep 300", "timeout": "0.05"})
	assert.EqualError(t, err, "Command timed out after 0.05 seconds")
	text, _, err := run(t, env, "bash", object{"command": "echo in time", "timeout": 1e300})
	require.NoError(t, err)
	assert.Equal(t, "in time\n", text)
	for _, bad := range []string{"0", "-1", "1e999", `"NaN"`} {
		_, _, err := run(t, env, "bash", `{"command":"touch X","timeout":`+bad+`}`)
		assert.Error(t, err, bad)
	}
	assert.NoFileExists(t, env.Cwd+"/X")
}

func TestBashAborted(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	ctx, cancel := context.WithCancel(t.Context())
	call := Call{Args: json.RawMessage(`{"command":"echo started; sleep 300"}`), Env: env,
		Progress: func(protocol.ToolResult) { cancel() }}
	_, err := New().Run(ctx, "bash", call)
	assert.EqualError(t, err, "started\n\n\nCommand aborted")
	_, err = New().Run(ctx, "bash", call)
	assert.EqualError(t, err, "Command aborted")
}

// bashDetailsOf reads the details of a truncated result.
func bashDetailsOf(t *testing.T, r protocol.ToolResult) (truncation map[string]any, path string) {
	d := unmarshal[struct {
		Truncation     map[string]any `json:"truncation"`
		FullOutputPath string         `json:"fullOutputPath"`
	}](t, r.Details)
	return d.Truncation, d.FullOutputPath
}

func TestBashTruncates(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	for command, notice := range map[string]string{
		"seq 1 2500": "\n2500\n\n[Showing lines 501-2500 of 2500. Full output: PATH]",
		"for i in $(seq 1500); do printf '%0100d\\n' $i; done": "1500\n\n[Showing lines 995-1500 of 1500 (50.0KB limit). Full output: PATH]",
		"echo a; head -c 120000 /dev/zero | tr '\\0' z":        "zz\n\n[Showing the last 50.0KB of line 2, of 117.2KB in all. Full output: PATH]",
	} {
		text, result, err := run(t, env, "bash", object{"command": command})
		require.NoError(t, err)
		truncation, path := bashDetailsOf(t, result)
		assert.True(t, strings.HasSuffix(text, strings.ReplaceAll(notice, "PATH", path)), "%s", text[len(text)-200:])
		assert.Equal(t, true, truncation["truncated"])
		assert.True(t, strings.HasPrefix(text, truncation["content"].(string)))
		assert.ElementsMatch(t, []string{"content", "truncated", "truncatedBy", "totalLines", "totalBytes", "outputLines",
			"outputBytes", "lastLinePartial", "firstLineExceedsLimit", "maxLines", "maxBytes"}, keys(truncation))
		assert.FileExists(t, path)
	}
	_, result, err := run(t, env, "bash", object{"command": "seq 1 2500; exit 1"})
	assert.ErrorContains(t, err, "\n2500\n\n[Showing lines 501-2500 of 2500. Full output: ")
	assert.ErrorContains(t, err, "]\n\nCommand exited with code 1")
	_, path := bashDetailsOf(t, result)
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())
}

func keys(m map[string]any) (list []string) {
	for k := range m {
		list = append(list, k)
	}
	return list
}

func TestBashProgress(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	var seen []protocol.ToolResult
	_, err := New().Run(t.Context(), "bash", Call{
		Args: json.RawMessage(`{"command":"echo one; until [ -e seen ]; do sleep 0.01; done; seq 1 3000"}`), Env: env,
		Progress: func(r protocol.ToolResult) {
			seen = append(seen, r)
			put(t, env, "seen", "")
		},
	})
	require.NoError(t, err)
	require.NotEmpty(t, seen)
	assert.Equal(t, protocol.ToolResult{Content: protocol.TextContent("one\n"), Details: json.RawMessage("{}")}, seen[0])
	last := seen[len(seen)-1]
	truncation, path := bashDetailsOf(t, last)
	assert.Equal(t, truncation["content"], last.Content.Text(""))
	assert.FileExists(t, path)
}

func TestSeconds(t *testing.T) {
	t.Parallel()
	for s, want := range map[float64]time.Duration{1: time.Second, 0.001: time.Millisecond, 1e-300: 1, 1e300: 1<<63 - 1} {
		got, err := seconds(s)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
}
