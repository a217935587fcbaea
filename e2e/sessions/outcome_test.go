package sessions

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/harness"
)

// TestOutcomeOfACrash checks a bash command whose session crashes. If the command had started, the
// client receives outcome unknown and the command does not run again when it is resent. If it had
// not started, the client may resend it.
func TestOutcomeOfACrash(t *testing.T) {
	for plan, begun := range map[string]bool{"PanicAfter s1 StartBash 0": true, "Panic s1 StartBash 0": false} {
		t.Run(plan, func(t *testing.T) {
			t.Parallel()
			p := harness.NewPlace(t)
			cmd := exec.Command(harness.FailpointBinary(t), "--mode", "rpc", "--provider", "mock", "--model", "mock-1")
			cmd.Dir, cmd.Env = p.Work, append(p.Environ(), "TROUPE_FAULTS="+plan)
			d := p.StartCmd(cmd)
			d.OK(`{"type":"hello","clientId":"client-one"}`)
			p.Model.Enqueue(harness.Text("ok"))
			d.Prompt("hello")
			const line = `{"id":"once","type":"bash","command":"echo x >> ran"}`
			answer := func() gjson.Result {
				from := d.Count()
				d.Send(line)
				v, _ := d.Wait(from, "the answer", func(v gjson.Result) bool { return v.Get("id").Str == "once" })
				return v
			}
			v := answer()
			assert.Equal(t, "internal", v.Get("code").Str, v.Raw)
			if begun {
				assert.JSONEq(t, `{"outcome":"unknown","retryable":false}`, v.Get("data").Raw)
				assert.JSONEq(t, `{"outcome":"unknown","retryable":false}`, answer().Get("data").Raw)
			} else {
				assert.JSONEq(t, `{"retryable":true,"retryAfterMs":1000}`, v.Get("data").Raw)
				assert.True(t, answer().Get("success").Bool())
			}
			require.Zero(t, d.Close())
			ran, err := os.ReadFile(filepath.Join(p.Work, "ran"))
			if begun && os.IsNotExist(err) { // it was killed first
				return
			}
			require.NoError(t, err)
			assert.Equal(t, "x\n", string(ran))
		})
	}
}
