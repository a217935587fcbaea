//go:build live

package logins

import (
	"flag"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/harness"
)

var liveProvider = flag.String("live.provider", "", "only this provider")

// live runs the program with the credentials of the person who runs the test. Its output is logged
// only if it fails.
func live(t *testing.T, args ...string) (stdout string, code int) {
	t.Helper()
	cmd := exec.Command(harness.Binary, args...)
	cmd.Dir = t.TempDir()
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if err != nil {
		t.Logf("troupe %s: %v\n%s%s", strings.Join(args, " "), err, out.String(), errs.String())
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// TestLiveLogins asks one short question through every provider with credentials on this machine.
// It costs money. It checks what no fake server can: that providers accept the requests, and how
// they word their errors.
func TestLiveLogins(t *testing.T) {
	require.Empty(t, os.Getenv("TROUPE_CI"), "accounts of people are not for machines")
	out, _ := live(t, "auth", "check", "--json")
	asked := 0
	for line := range strings.Lines(out) {
		v := gjson.Parse(line)
		provider := v.Get("provider").Str
		if *liveProvider != "" && provider != *liveProvider {
			continue
		}
		t.Run(provider, func(t *testing.T) {
			t.Logf("%s by %s %s", v.Get("status").Str, v.Get("source").Str, v.Get("variable").Str)
			if v.Get("status").Str != "ready" {
				t.Skip(v.Get("hint").Str)
			}
			asked++
			answer, code := live(t, "-p", "--provider", provider, "--no-session", "--no-tools", "Answer with the one word: troupe")
			assert.Equal(t, 0, code)
			assert.Contains(t, strings.ToLower(answer), "troupe")
			again, _ := live(t, "auth", "check", provider, "--json")
			assert.Equal(t, "ready", gjson.Get(again, "status").Str, "and the credentials stand as before")
		})
	}
	assert.Positive(t, asked, "there are no credentials to try")
}
