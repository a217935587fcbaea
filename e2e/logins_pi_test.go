package e2e

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
)

// piLogins is the program of a real pi; without it the test needs nothing of npm.
var piLogins = flag.String("pi.logins", "", "a pi that renews logins beside troupe, in one auth.json")

// TestLoginsWithPi: pi and troupe renew logins in one file at the same time. Neither uses a
// token twice, nor loses what the other has written.
func TestLoginsWithPi(t *testing.T) {
	if *piLogins == "" {
		t.Skip("-pi.logins PROGRAM")
	}
	p := newPlace(t)
	v := newVendors(p)
	v.lifetime = 1 // as good as over: everybody renews at every request
	anthropic, _ := v.issue()
	refresh := "refresh" + anthropic[len("access"):]
	p.write(p.agent()+"/auth.json", fmt.Sprintf(`{"anthropic":{"type":"oauth","access":%q,"refresh":%q,"expires":1,"ours":1},"openai":%s}`, anthropic, refresh, v.entry(-time.Minute)))
	var all sync.WaitGroup
	for range 2 {
		d := p.startRaw("--mode", "rpc", "--model", "openai/gpt-5.5", "--no-session")
		all.Go(func() {
			for range 25 {
				d.prompt("hi")
			}
		})
	}
	for range 2 {
		all.Go(func() {
			for range 4 {
				cmd := exec.Command(*piLogins, "-p", "hi", "--provider", "anthropic", "--model", "claude-sonnet-4-5", "--no-session")
				cmd.Dir, cmd.Env = p.work, append(p.environ(), "NODE_EXTRA_CA_CERTS="+filepath.Join(p.root, "ca.pem"), "NODE_USE_ENV_PROXY=1")
				out, _ := cmd.CombinedOutput() // the model refuses it: what counts is the login
				t.Logf("pi: %.300s", out)
			}
		})
	}
	all.Wait()
	t.Logf("asked: %v", v.asked)
	assert.Zero(t, v.reuses)
	text, err := os.ReadFile(p.agent() + "/auth.json")
	require.NoError(t, err)
	for _, provider := range []string{"anthropic", "openai"} {
		token := gjson.GetBytes(text, provider+".refresh").Str
		assert.True(t, v.good[token] && !v.spent[token], "%s has the token that was issued last: %s", provider, token)
	}
	assert.NoDirExists(t, p.agent()+"/auth.json.lock")
}
