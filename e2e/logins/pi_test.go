package logins

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/harness"
)

// loginRounds is the number of prompts of each of the two daemons with expired logins.
var loginRounds = flag.Int("logins.rounds", 10, "prompts of each daemon that renews logins beside a pi, in one auth.json")

// newestPi returns a script that runs the newest installed pi. The Node of the older one cannot use
// a proxy.
func newestPi(t *testing.T) string {
	node, dist := harness.Pi0871.Install(t)
	path := filepath.Join(t.TempDir(), "pi")
	script := fmt.Sprintf("#!/bin/sh\nexec '%s' '%s' \"$@\"\n", node, filepath.Join(dist, "cli.js"))
	require.NoError(t, os.WriteFile(path, []byte(script), 0o755))
	return path
}

// TestLoginsWithPi checks pi and troupe refreshing logins in one file at the same time. Neither
// uses a token twice or loses an entry that the other has written.
func TestLoginsWithPi(t *testing.T) {
	t.Parallel()
	program := newestPi(t)
	p := harness.NewPlace(t)
	v := newVendors(p)
	v.lifetime = 1 // expires at once: every request refreshes it
	anthropic, _ := v.issue()
	refresh := "refresh" + anthropic[len("access"):]
	p.WriteFile(p.AgentDir()+"/auth.json", fmt.Sprintf(`{"anthropic":{"type":"oauth","access":%q,"refresh":%q,"expires":1,"ours":1},"openai":%s}`, anthropic, refresh, v.entry(-time.Minute)))
	var all sync.WaitGroup
	for range 2 {
		d := p.StartRaw("--mode", "rpc", "--model", "openai/gpt-5.5", "--no-session")
		all.Go(func() {
			for range *loginRounds {
				d.Prompt("hi")
			}
		})
	}
	for range 2 {
		all.Go(func() {
			for range max(*loginRounds/8, 1) {
				cmd := exec.Command(program, "-p", "hi", "--provider", "anthropic", "--model", "claude-sonnet-4-5", "--no-session")
				cmd.Dir, cmd.Env = p.Work, append(p.Environ(), "NODE_EXTRA_CA_CERTS="+filepath.Join(p.Root, "ca.pem"), "NODE_USE_ENV_PROXY=1")
				out, _ := cmd.CombinedOutput() // the model rejects it; only the login matters
				t.Logf("pi: %.300s", out)
			}
		})
	}
	all.Wait()
	t.Logf("asked: %v", v.asked)
	assert.Zero(t, v.reuses)
	assert.Positive(t, v.count("platform.claude.com/v1/oauth/token"), "pi has renewed, too")
	assert.Positive(t, v.count(openAITokens))
	text, err := os.ReadFile(p.AgentDir() + "/auth.json")
	require.NoError(t, err)
	for _, provider := range []string{"anthropic", "openai"} {
		token := gjson.GetBytes(text, provider+".refresh").Str
		assert.True(t, v.good[token] && !v.spent[token], "%s has the token that was issued last: %s", provider, token)
	}
	assert.NoDirExists(t, p.AgentDir()+"/auth.json.lock")
}

// TestBroker checks a real pi as token broker: it refreshes the login of many sessions once.
func TestBroker(t *testing.T) {
	t.Parallel()
	program := newestPi(t)
	p := harness.NewPlace(t)
	v := newVendors(p)
	access, refresh := v.issue()
	p.WriteFile(p.AgentDir()+"/auth.json", fmt.Sprintf(`{"xai":{"type":"oauth","access":%q,"refresh":%q,"expires":1}}`, access, refresh))
	p.WriteFile(p.AgentDir()+"/settings.json", fmt.Sprintf(`{"auth":{"broker":%q}}`, program))
	p.Env = append(p.Env, "NODE_EXTRA_CA_CERTS="+filepath.Join(p.Root, "ca.pem"), "NODE_USE_ENV_PROXY=1")
	d := p.StartRaw("--mode", "rpc", "--model", "xai/grok-4.7")
	assert.Equal(t, "expired", d.OK(`{"type":"get_auth","provider":"xai"}`).Get("providers.0.state").Str)
	var sessions []string
	for range 5 {
		sessions = append(sessions, d.OpenSession(`,"noSession":true`))
	}
	for _, s := range sessions {
		d.Send(`{"type":"prompt","message":"hi","sessionId":"` + s + `"}`)
	}
	for _, s := range sessions {
		end, _ := d.WaitTagged(0, s, "agent_end")
		assert.Equal(t, "stop", end.Get("messages.@reverse.0.stopReason").Str, end.Raw)
	}
	t.Logf("asked: %v", v.asked)
	assert.Equal(t, "ready stored_oauth", d.OK(`{"type":"get_auth","provider":"xai"}`).Get("providers.0.state").Str+" "+d.OK(`{"type":"get_auth","provider":"xai"}`).Get("providers.0.source").Str)
	assert.True(t, v.spent[refresh], "pi has renewed it")
	assert.Zero(t, v.reuses)
	assert.Equal(t, 0, d.Close())
	assert.Contains(t, d.Stderr(), "using pi's login of xai")
	assert.NotContains(t, d.Stderr(), "canary")
}
