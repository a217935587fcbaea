package wire

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/harness"
)

// killed kills the daemon and opens the session in a new one.
func killed(d *harness.Daemon, path string) *harness.Daemon {
	d.T.Helper()
	require.NoError(d.T, d.Cmd.Process.Signal(syscall.SIGKILL))
	<-d.Exited
	return d.Place.Start("--session", path)
}

// TestKeysOutliveAKill checks that bash, new_session, fork and clone are not executed again when
// they are resent with the same idempotency key, even if the daemon was killed in between.
func TestKeysOutliveAKill(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.Model.Enqueue(harness.Text("one"), harness.Text("two"), harness.Text("three"), harness.Text("four"))
	d := p.Start()
	d.Prompt("hello")
	first, entries := d.SessionFile()
	hello := ""
	for _, e := range entries {
		if e.Get("message.role").Str == "user" {
			hello = e.Get("id").Str
		}
	}

	const ran = `{"type":"bash","command":"echo x >> ran; echo out","idempotencyKey":"b"}`
	answer := d.OK(ran)
	d = killed(d, first)
	assert.JSONEq(t, answer.Raw, d.OK(ran).Raw)
	assert.Equal(t, "conflict", d.Call(`{"type":"bash","command":"echo","idempotencyKey":"b"}`).Get("code").Str)

	d.Send(`{"id":"cut","type":"bash","command":"echo x >> cut; sleep 60","idempotencyKey":"c"}`)
	cut := filepath.Join(p.Work, "cut")
	harness.Eventually(t, "the command", func() bool { _, err := os.Stat(cut); return err == nil })
	d = killed(d, first)
	assert.Equal(t, "cancelled", d.Call(`{"type":"bash","command":"echo x >> cut; sleep 60","idempotencyKey":"c"}`).Get("code").Str)
	for _, name := range []string{"ran", "cut"} {
		has, err := os.ReadFile(filepath.Join(p.Work, name))
		require.NoError(t, err)
		assert.Equal(t, "x\n", string(has), name)
	}

	where := func() gjson.Result { return d.OK(`{"type":"get_state"}`) }
	for kind, command := range map[string]string{
		"new":   `{"type":"new_session","idempotencyKey":"n"}`,
		"fork":  fmt.Sprintf(`{"type":"fork","entryId":%q,"idempotencyKey":"f"}`, hello),
		"clone": `{"type":"clone","idempotencyKey":"o"}`,
	} {
		answer := d.OK(command)
		second := where().Get("sessionFile").Str
		require.NotEqual(t, first, second, kind)
		d.Prompt("in " + kind)
		d = killed(d, second)
		assert.JSONEq(t, answer.Raw, d.OK(command).Raw, kind)
		assert.Equal(t, second, where().Get("sessionFile").Str, "%s: it is there", kind)
		entries := where().Get("messageCount").Int()
		d = killed(d, first)
		assert.JSONEq(t, answer.Raw, d.OK(command).Raw, kind)
		assert.Equal(t, second, where().Get("sessionFile").Str, "%s: the one that was left leads there", kind)
		assert.Equal(t, entries, where().Get("messageCount").Int(), kind)
		d = killed(d, first)
	}
	require.Equal(t, 0, d.Close())
}
