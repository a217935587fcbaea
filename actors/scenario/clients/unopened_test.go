package clients

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"troupe/actors"
	"troupe/actors/actortest"
	"troupe/actors/scenario/harness"
)

// TestNotOpenedAtTheEnd checks that commands are answered even if the input has ended and the
// default session cannot be opened.
func TestNotOpenedAtTheEnd(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t, func(c *actors.Config) { c.Sessions.Default.Cwd, c.Sessions.Default.CwdSet = "/nowhere", true })
		first := b.Send(`{"type":"get_state"}`)
		second := b.Send(`{"type":"new_session"}`)
		b.End()
		require.Equal(t, "cwd_missing", b.Answer(t, first).Get("code").Str)
		require.Equal(t, "cwd_missing", b.Answer(t, second).Get("code").Str)
	})
}

// TestOutOfADirectoryThatIsGone checks that a client can leave a session whose directory is
// missing, by switch_session or new_session. Other commands to it are refused.
func TestOutOfADirectoryThatIsGone(t *testing.T) {
	for _, first := range []string{"", `{"type":"get_state"}`} {
		for _, out := range []string{`{"type":"new_session"}`, `{"type":"switch_session","sessionPath":"OTHER"}`} {
			t.Run(first+out, func(t *testing.T) {
				harness.Bubble(t, func(t *testing.T) { leavesGone(t, first, out) })
			})
		}
	}
}

func leavesGone(t *testing.T, first, out string) {
	dir, disk := t.TempDir(), actortest.NewDisk()
	gone, other := dir+"/gone.jsonl", dir+"/other.jsonl"
	for file, cwd := range map[string]string{gone: "/nowhere", other: dir} {
		header := `{"type":"session","version":3,"id":"` + filepath.Base(file) + `","timestamp":"2026-01-01T00:00:00.000Z","cwd":"` + cwd + `"}`
		disk.Mem().WriteFile(file, []byte(header+"\n"))
	}
	b := harness.StartWith(t, nil, &actortest.History{}, disk, actortest.NewModels(), func(c *actors.Config) { c.Sessions.Default.Path, c.Sessions.Default.Cwd = gone, dir })
	if first != "" {
		require.Equal(t, "cwd_missing", b.Call(t, first).Get("code").Str)
	}
	left, after := b.Send(strings.ReplaceAll(out, "OTHER", other)), b.Send(`{"type":"get_state"}`)
	b.End()
	require.True(t, b.Answer(t, left).Get("success").Bool(), b.Answer(t, left).Raw)
	state := b.Answer(t, after)
	require.True(t, state.Get("success").Bool(), state.Raw)
	require.NotEqual(t, gone, state.Get("data.sessionFile").Str)
	if out[9] == 's' {
		require.Equal(t, other, state.Get("data.sessionFile").Str)
	}
}
