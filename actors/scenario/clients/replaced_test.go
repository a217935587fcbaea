package clients

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors"
	"troupe/actors/actortest"
	"troupe/actors/scenario/harness"
	"troupe/store/config"
)

// TestWaitedForAnotherSession checks that a command sent after switch_session applies to the new
// session: its prompt templates are expanded, and its log determines the tokens used.
func TestWaitedForAnotherSession(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		disk, files := actortest.NewDisk(), map[string]string{}
		for _, name := range []string{"one", "two"} {
			dir := t.TempDir()
			files[name] = filepath.Join(dir, name+".jsonl")
			header := `{"type":"session","version":3,"id":"` + name + `","timestamp":"1999-01-01T00:00:00.000Z","cwd":"` + dir + `"}`
			disk.Mem().WriteFile(files[name], []byte(header+"\n"))
			templates := filepath.Join(dir, ".pi", "prompts")
			require.NoError(t, os.MkdirAll(templates, 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(templates, "look.md"), []byte("~x~ look at "+name), 0o644))
		}
		b := harness.StartWith(t, nil, &actortest.History{}, disk, actortest.NewModels(), func(c *actors.Config) {
			c.Sessions.Consent, c.Sessions.NoPrompts = config.Approved, false
		})
		s := b.Call(t, fmt.Sprintf(`{"type":"open_session","sessionPath":%q,"retain":true}`, files["one"])).Get("data.sessionId").Str
		b.Say(s, "prompt", "/look")
		b.Advance(time.Minute)
		assert.Equal(t, "~x~ look at one", b.Call(t, `{"type":"get_messages"`+harness.At(s)+`}`).Get("data.messages.0.content.0.text").Str)

		left := b.Send(fmt.Sprintf(`{"type":"switch_session","sessionPath":%q%s}`, files["two"], harness.At(s)))
		limits := b.Send(`{"type":"set_budget","limits":{"maxTotalTokens":5000}` + harness.At(s) + `}`)
		b.Say(s, "prompt", "/look")
		b.Advance(time.Minute)
		require.True(t, b.Answer(t, left).Get("success").Bool(), b.Answer(t, left).Raw)
		report := b.Answer(t, limits)
		require.True(t, report.Get("success").Bool(), report.Raw)
		assert.Zero(t, report.Get("data.snapshot.totalTokens").Int(), report.Raw)
		assert.Equal(t, "~x~ look at two", b.Call(t, `{"type":"get_messages"`+harness.At(s)+`}`).Get("data.messages.0.content.0.text").Str)
		b.End()
	})
}
