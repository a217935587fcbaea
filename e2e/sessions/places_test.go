package sessions

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/e2e/harness"
)

// TestSessionIDTwice checks two processes that start a session with the same id. The second one
// reports the file of the first, and opens that session after a restart.
func TestSessionIDTwice(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.Model.Enqueue(harness.Text("one"), harness.Text("two"))
	first, second := p.Start("--session-id", "job-7"), p.Start("--session-id", "job-7")
	second.OK(`{"type":"get_state"}`) // it has looked for the session, and there was none
	first.Prompt("hello")
	path, _ := first.SessionFile()
	for _, command := range []string{`"prompt","message":"lost"`, `"set_session_name","name":"lost"`, `"bash","command":"true"`} {
		v := second.Call(`{"type":` + command + `}`)
		if strings.Contains(command, "bash") {
			assert.Contains(t, v.Get("data.notRecorded").Str, path)
			continue
		}
		assert.Equal(t, "not_durable", v.Get("code").Str)
		assert.Contains(t, v.Get("error").Str, "session id is taken: "+path)
	}
	require.Zero(t, second.Close())
	require.Zero(t, first.Close())
	files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	require.NoError(t, err)
	assert.Equal(t, []string{path}, files)
	again := p.Start("--session-id", "job-7")
	assert.Equal(t, int64(2), again.OK(`{"type":"get_state"}`).Get("messageCount").Int())
	require.Zero(t, again.Close())
}

// TestOddDirectories checks that sessions in directories with unusual names are saved under the
// reported file name and found again.
func TestOddDirectories(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("names that are not UTF-8")
	}
	t.Parallel()
	for name, below := range map[string]string{
		"long": strings.Repeat(strings.Repeat("long ", 40)+"/", 3), "not UTF-8": "\xff\xfe/b\xe9", "plain": "plain",
	} {
		t.Run(name, func(t *testing.T) {
			p := harness.NewPlace(t)
			p.Work = filepath.Join(p.Work, below)
			require.NoError(t, os.MkdirAll(p.Work, 0o700))
			p.Model.Enqueue(harness.Text("one"), harness.Text("two"))
			d := p.Start()
			d.Prompt("first")
			path := d.OK(`{"type":"get_state"}`).Get("sessionFile").Str
			assert.FileExists(t, path)
			assert.Len(t, d.OK(`{"type":"list_sessions"}`).Get("sessions").Array(), 1)
			require.Zero(t, d.Close())
			for _, args := range [][]string{{"--continue"}, {"--session", path}} {
				d := p.Start(args...)
				d.OK(`{"type":"prompt","message":"again"}`)
				d.Event("agent_settled")
				assert.Equal(t, path, d.OK(`{"type":"get_state"}`).Get("sessionFile").Str)
				assert.Empty(t, d.Stderr())
				require.Zero(t, d.Close())
				p.Model.Enqueue(harness.Text("three"))
			}
		})
	}
}

// TestRelativeAgentDir checks that get_state returns an absolute path, since the client may have
// another working directory.
func TestRelativeAgentDir(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile("agent/models.json", p.Model.ModelsJSON())
	p.Model.Enqueue(harness.Text("one"))
	d := p.Start("--agent-dir", "agent")
	d.Prompt("first")
	path := d.OK(`{"type":"get_state"}`).Get("sessionFile").Str
	assert.True(t, filepath.IsAbs(path), path)
	assert.FileExists(t, path)
	require.Zero(t, d.Close())
}

// TestOpenNoSession checks that paths that are not regular files, or only look like one, are
// rejected without blocking.
func TestOpenNoSession(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	d := p.Start()
	paths := []string{"/dev/null", "/dev/zero", p.Work}
	if runtime.GOOS == "linux" {
		paths = append(paths, "/proc/self/mem", "/proc/self/environ", "/proc/kmsg")
	}
	for _, path := range paths {
		for _, command := range []string{`{"type":"open_session","sessionPath":%q}`, `{"type":"switch_session","sessionPath":%q}`} {
			v := d.Call(fmt.Sprintf(command, path))
			assert.Contains(t, []string{"invalid_file", "not_found"}, v.Get("code").Str, v.Raw)
		}
		_, errs, code := p.RunOnce("", "--mode", "rpc", "--session", path)
		assert.Equal(t, 1, code)
		assert.Contains(t, errs, path)
		_, _, code = p.RunOnce("", "--export", path, "page.html")
		assert.Equal(t, 1, code)
	}
	require.Zero(t, d.Close())
}
