package durability

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors"
	"troupe/actors/actortest"
	"troupe/actors/scenario/harness"
	"troupe/protocol"
)

// TestSetBeforeTheFirstMessage checks that a setting that was acknowledged before the first message
// survives a restart, and that a session without settings and messages leaves no file.
func TestSetBeforeTheFirstMessage(t *testing.T) {
	commands := map[string]string{
		"name":  `"set_session_name","name":"early"`,
		"model": `"set_model","provider":"acme","modelId":"plain"`,
		"level": `"set_thinking_level","level":"high"`,
		"todos": `"set_todos","phases":[{"name":"A","tasks":[{"content":"x"}]}]`,
	}
	for _, how := range []string{"kill", "power", "end", "crash", "new session"} {
		for what, command := range commands {
			t.Run(what+" "+how, func(t *testing.T) {
				harness.Bubble(t, func(t *testing.T) {
					change := harness.SyncWrites
					if how == "crash" {
						change = harness.Faults(`PanicAfter s1 Request 2`)
					}
					thinker := func(c *actors.Config) { c.Sessions.Default.Model = "thinker" }
					b := harness.Start(t, change, thinker)
					s := b.Open()
					b.Call(t, `{"type":"get_state"`+harness.At(s)+`}`)
					assert.Empty(t, b.Disk.Files(), "who only asks leaves no file")
					if how == "new session" {
						require.True(t, b.Call(t, `{"type":"new_session"`+harness.At(s)+`}`).Get("success").Bool())
						assert.Empty(t, b.Disk.Files())
					}
					v := b.Call(t, `{"type":`+command+harness.At(s)+`}`)
					require.True(t, v.Get("success").Bool(), v.Raw)
					b.Advance(time.Second)
					want := settings(b, s)
					disk, h := b.Disk, b.History
					switch how {
					case "kill", "new session":
						disk, h = b.Disk.Killed(), b.History.Fork()
						h.Add(actortest.Killed, "")
						b.Abandon()
					case "power":
						disk, h = b.Disk.PowerCut(1), b.History.Fork()
						h.Add(actortest.Killed, "")
						b.Abandon()
					default:
						b.End()
					}
					require.Len(t, disk.Files(), 1)
					for _, content := range disk.Files() {
						assert.Contains(t, string(content), map[string]string{
							"name": "session_info", "model": "plain", "level": "high", "todos": protocol.CustomTodos,
						}[what])
					}
					c := harness.StartWith(t, nil, h, disk, b.Models, thinker)
					s = reopen(c, 1)
					assert.Equal(t, want, settings(c, s))
					list := c.Call(t, `{"type":"list_sessions"`+harness.At(s)+`}`).Get("data.sessions")
					assert.Equal(t, int64(0), list.Get("0.messageCount").Int(), list.Raw)
					c.RequireWorking(s, "~a~ last")
					c.End()
					c.Judge(actortest.Options{Files: disk.Files()})
				})
			})
		}
	}
}

// settings returns the settings that can be changed before the first message.
func settings(b *harness.Client, s string) string {
	b.T.Helper()
	state := b.Call(b.T, `{"type":"get_state"`+harness.At(s)+`}`).Get("data")
	return fmt.Sprint(state.Get("sessionName").Raw, state.Get("model.id").Raw, state.Get("thinkingLevel").Raw)
}

// TestChosenAgain checks that selecting the model that is already selected leaves no file.
func TestChosenAgain(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t)
		s := b.Open()
		state := b.Call(t, `{"type":"get_state"`+harness.At(s)+`}`).Get("data")
		v := b.Call(t, fmt.Sprintf(`{"type":"set_model","provider":%s,"modelId":%s%s}`, state.Get("model.provider").Raw, state.Get("model.id").Raw, harness.At(s)))
		require.True(t, v.Get("success").Bool(), v.Raw)
		v = b.Call(t, fmt.Sprintf(`{"type":"set_thinking_level","level":%s%s}`, state.Get("thinkingLevel").Raw, harness.At(s)))
		require.True(t, v.Get("success").Bool(), v.Raw)
		assert.Empty(t, b.Disk.Files())
		b.End()
		assert.Empty(t, b.Disk.Files())
		b.Check()
	})
}
