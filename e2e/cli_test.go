package e2e

import (
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// once runs the binary to its end.
func (p *place) once(stdin string, args ...string) (stdout, stderr string, code int) {
	p.t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Dir, cmd.Env = p.work, p.environ()
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if _, exited := err.(*exec.ExitError); !exited {
		require.NoError(p.t, err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func TestUsageErrors(t *testing.T) {
	for _, x := range []struct {
		args []string
		says string
	}{
		{[]string{"--mode", "rpc", "--no-such-flag"}, "--no-such-flag"},
		{[]string{"--mode", "rpc", "@file.txt"}, "@file"},
		{[]string{"--mode", "rpc", "hello"}, "hello"},
		{[]string{"--mode", "nonsense"}, "nonsense"},
		{[]string{"--mode", "rpc", "--model"}, "--model"},
	} {
		t.Run(strings.Join(x.args, " "), func(t *testing.T) {
			t.Parallel()
			out, errs, code := newPlace(t).once("", x.args...)
			assert.Equal(t, 2, code)
			assert.Empty(t, out)
			assert.Contains(t, errs, x.says)
			assert.Equal(t, 1, strings.Count(errs, "\n"), errs)
		})
	}
}

func TestHelpAndVersion(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	out, _, code := p.once("", "--help")
	assert.Zero(t, code)
	assert.Contains(t, out, "--mode")
	out, _, code = p.once("", "--version")
	assert.Zero(t, code)
	assert.NotEmpty(t, strings.TrimSpace(out))
}

// TestModelChoice: pattern, provider/id, thinking suffix, and what is not there.
func TestModelChoice(t *testing.T) {
	for _, x := range []struct{ args, id, level string }{
		{"--model mock/think:high", "think", "high"},
		{"--provider mock --model think --thinking low", "think", "low"},
		{"--model chat-1", "chat-1", "off"},
		{"--model chat --thinking high", "chat-1", "off"},
	} {
		t.Run(x.args, func(t *testing.T) {
			t.Parallel()
			d := newPlace(t).startRaw(append([]string{"--mode", "rpc"}, strings.Fields(x.args)...)...)
			st := d.ok(`{"type":"get_state"}`)
			assert.Equal(t, x.id, st.Get("model.id").Str)
			assert.Equal(t, x.level, st.Get("thinkingLevel").Str)
		})
	}
}

// TestOffline: without any configuration the main job runs, and says on stderr
// that the answers are not a model's.
func TestOffline(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(p.agent()+"/models.json", `{"providers":{}}`)
	d := p.startRaw("--mode", "rpc")
	events := d.prompt("hello")
	assert.Equal(t, "completed", events[len(events)-1].Get("outcome").Str)
	require.Zero(t, d.end())
	assert.Contains(t, d.errors(), "offline")
}

// TestContinue opens the newest session of the directory, and only of it.
func TestContinue(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.llm.plays(text("one"), text("two"))
	d := p.start("--name", "first")
	d.prompt("a")
	require.Zero(t, d.end())
	d = p.start("--continue")
	st := d.ok(`{"type":"get_state"}`)
	assert.Equal(t, "first", st.Get("sessionName").Str)
	assert.EqualValues(t, 2, st.Get("messageCount").Int())
	require.Zero(t, d.end())
	p.write(p.root+"/other/x", "")
	d = p.start("--continue", "--cwd", p.root+"/other")
	assert.Zero(t, d.ok(`{"type":"get_state"}`).Get("messageCount").Int())
}

// TestNetworkSettings: silence is cut as the settings say.
func TestNetworkSettings(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(p.agent()+"/settings.json", `{"httpIdleTimeoutMs":50,"retry":{"enabled":false}}`)
	p.llm.plays(text("begun").and(gate("never")))
	d := p.start()
	events := d.prompt("go")
	assert.Equal(t, "failed", events[len(events)-1].Get("outcome").Str)
}

// TestNoHome: without HOME files go where the system says, not into the working
// directory.
func TestNoHome(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	cmd := exec.Command(binary, "--mode", "rpc")
	cmd.Dir, cmd.Env = p.work, []string{"PATH=/usr/bin:/bin", "GOCOVERDIR=" + coverDir}
	cmd.Stdin = strings.NewReader(`{"id":"1","type":"get_state"}` + "\n")
	out, err := cmd.Output()
	require.NoError(t, err)
	who, err := user.Current()
	require.NoError(t, err)
	assert.Contains(t, string(out), `"sessionFile":"`+filepath.Join(who.HomeDir, ".pi"))
	assert.NoDirExists(t, filepath.Join(p.work, ".pi"))
}
