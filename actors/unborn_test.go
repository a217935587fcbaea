package actors

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors/actortest"
	"troupe/protocol"
)

// TestSetBeforeTheFirstMessage: what a client has set and was told of is there
// in the next life, although nothing was said yet; and who sets nothing leaves
// no file.
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
				bubble(t, func(t *testing.T) {
					change := durable
					if how == "crash" {
						change = faults(`PanicAfter s1 Request 2`)
					}
					thinker := func(c *Config) { c.Sessions.Default.Model = "thinker" }
					b := start(t, change, thinker)
					s := b.open()
					b.Call(t, `{"type":"get_state"`+at(s)+`}`)
					assert.Empty(t, b.disk.Files(), "who only asks leaves no file")
					if how == "new session" {
						require.True(t, b.Call(t, `{"type":"new_session"`+at(s)+`}`).Get("success").Bool())
						assert.Empty(t, b.disk.Files())
					}
					v := b.Call(t, `{"type":`+command+at(s)+`}`)
					require.True(t, v.Get("success").Bool(), v.Raw)
					b.pass(time.Second)
					want := b.settings(s)
					disk, h := b.disk, b.History
					switch how {
					case "kill", "new session":
						disk, h = b.disk.Killed(), b.History.Fork()
						h.Add(actortest.Killed, "")
						b.abandon()
					case "power":
						disk, h = b.disk.PowerCut(1), b.History.Fork()
						h.Add(actortest.Killed, "")
						b.abandon()
					default:
						b.end()
					}
					require.Len(t, disk.Files(), 1)
					for _, content := range disk.Files() {
						assert.Contains(t, string(content), map[string]string{
							"name": "session_info", "model": "plain", "level": "high", "todos": protocol.CustomTodos,
						}[what])
					}
					c := startWith(t, nil, h, disk, b.models, thinker)
					s = c.reopen(1)
					assert.Equal(t, want, c.settings(s))
					list := c.Call(t, `{"type":"list_sessions"`+at(s)+`}`).Get("data.sessions")
					assert.Equal(t, int64(0), list.Get("0.messageCount").Int(), list.Raw)
					c.heal(s, "~a~ last")
					c.end()
					c.judge(actortest.Options{Files: disk.Files()})
				})
			})
		}
	}
}

// settings is what can be set before the first message.
func (b *bench) settings(s string) string {
	b.t.Helper()
	state := b.Call(b.t, `{"type":"get_state"`+at(s)+`}`).Get("data")
	return fmt.Sprint(state.Get("sessionName").Raw, state.Get("model.id").Raw, state.Get("thinkingLevel").Raw)
}

// TestChosenAgain: to choose the model that is chosen leaves no file.
func TestChosenAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := start(t)
		s := b.open()
		state := b.Call(t, `{"type":"get_state"`+at(s)+`}`).Get("data")
		v := b.Call(t, fmt.Sprintf(`{"type":"set_model","provider":%s,"modelId":%s%s}`, state.Get("model.provider").Raw, state.Get("model.id").Raw, at(s)))
		require.True(t, v.Get("success").Bool(), v.Raw)
		v = b.Call(t, fmt.Sprintf(`{"type":"set_thinking_level","level":%s%s}`, state.Get("thinkingLevel").Raw, at(s)))
		require.True(t, v.Get("success").Bool(), v.Raw)
		assert.Empty(t, b.disk.Files())
		b.end()
		assert.Empty(t, b.disk.Files())
		b.check()
	})
}
