package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// killed ends the daemon at once, and another one opens a session.
func (d *daemon) killed(path string) *daemon {
	d.t.Helper()
	require.NoError(d.t, d.cmd.Process.Signal(syscall.SIGKILL))
	<-d.exited
	return d.p.start("--session", path)
}

// TestKeysOutliveAKill: bash, new_session, fork and clone that come again with their key do
// nothing again, though the process was killed between the two.
func TestKeysOutliveAKill(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.llm.plays(text("one"), text("two"), text("three"), text("four"))
	d := p.start()
	d.prompt("hello")
	first, entries := d.sessionFile()
	hello := ""
	for _, e := range entries {
		if e.Get("message.role").Str == "user" {
			hello = e.Get("id").Str
		}
	}

	const ran = `{"type":"bash","command":"echo x >> ran; echo out","idempotencyKey":"b"}`
	answer := d.ok(ran)
	d = d.killed(first)
	assert.JSONEq(t, answer.Raw, d.ok(ran).Raw)
	assert.Equal(t, "conflict", d.call(`{"type":"bash","command":"echo","idempotencyKey":"b"}`).Get("code").Str)

	d.send(`{"id":"cut","type":"bash","command":"echo x >> cut; sleep 60","idempotencyKey":"c"}`)
	cut := filepath.Join(p.work, "cut")
	eventually(t, "the command", func() bool { _, err := os.Stat(cut); return err == nil })
	d = d.killed(first)
	assert.Equal(t, "cancelled", d.call(`{"type":"bash","command":"echo x >> cut; sleep 60","idempotencyKey":"c"}`).Get("code").Str)
	for _, name := range []string{"ran", "cut"} {
		has, err := os.ReadFile(filepath.Join(p.work, name))
		require.NoError(t, err)
		assert.Equal(t, "x\n", string(has), name)
	}

	where := func() gjson.Result { return d.ok(`{"type":"get_state"}`) }
	for kind, command := range map[string]string{
		"new":   `{"type":"new_session","idempotencyKey":"n"}`,
		"fork":  fmt.Sprintf(`{"type":"fork","entryId":%q,"idempotencyKey":"f"}`, hello),
		"clone": `{"type":"clone","idempotencyKey":"o"}`,
	} {
		answer := d.ok(command)
		second := where().Get("sessionFile").Str
		require.NotEqual(t, first, second, kind)
		d.prompt("in " + kind)
		d = d.killed(second)
		assert.JSONEq(t, answer.Raw, d.ok(command).Raw, kind)
		assert.Equal(t, second, where().Get("sessionFile").Str, "%s: it is there", kind)
		entries := where().Get("messageCount").Int()
		d = d.killed(first)
		assert.JSONEq(t, answer.Raw, d.ok(command).Raw, kind)
		assert.Equal(t, second, where().Get("sessionFile").Str, "%s: the one that was left leads there", kind)
		assert.Equal(t, entries, where().Get("messageCount").Int(), kind)
		d = d.killed(first)
	}
	require.Equal(t, 0, d.end())
}
