package actors

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors/conn"
)

// withDefault is a client as troupe connect has it: with a default session, which it gives no name.
func withDefault(n *node, changes ...func(*conn.Config)) *node {
	n.bench.peers %= 20
	return &node{bench: n.connect(append([]func(*conn.Config){func(of *conn.Config) { of.MultiSession, of.Drain = false, true }}, changes...)...), name: n.name, member: n.member, way: n.way}
}

// handle is what other nodes call the default session of a client.
func (n *node) handle() string {
	n.t.Helper()
	for _, s := range n.Call(n.t, `{"type":"list_open_sessions"}`).Get("data.sessions").Array() {
		if s.Get("isDefault").Bool() {
			return s.Get("sessionId").Str
		}
	}
	require.Fail(n.t, "no default session is open")
	return ""
}

// TestDefaultSessionGoesOn: a client that gives its session no name notices nothing when it goes on at another node, or comes back: each
// command is answered once, and what it reads has no name either.
func TestDefaultSessionGoesOn(t *testing.T) {
	for _, happens := range []string{"moved", "moved in turns", "killed", "drained"} {
		for _, features := range []string{"", "deltaUpdates,stateEvents,dialogEvents", "seq"} {
			t.Run(happens+" "+features, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					w, _, nodes := nodesWith(t, func(c *Config) { c.DrainLimit = time.Second }, "a", "b", "d")
					a, b := nodes[0], nodes[1]
					c := withDefault(a, func(of *conn.Config) {
						of.Features = strings.FieldsFunc(features, func(r rune) bool { return r == ',' })
					})
					other := through(b, "client-two", "")
					c.run("", "~a~ one")
					s := c.handle()
					require.Len(t, c.Events("", "agent_settled"), 1)
					move := func(to string) {
						v := other.Call(t, `{"type":"attach"`+at(s)+`}`)
						require.True(t, v.Get("success").Bool(), v.Raw)
						v = other.Call(t, `{"type":"move_session","node":"`+to+`"`+at(s)+`}`)
						require.True(t, v.Get("success").Bool(), v.Raw)
						c.pass(3 * time.Second)
					}
					again := func() {
						if features == "seq" {
							v := c.Call(t, `{"type":"attach"`+at(s)+`}`)
							require.True(t, v.Get("success").Bool(), v.Raw)
						}
					}
					move("b")
					again()
					settled := 1
					works := func(text string) {
						settled++
						c.run("", text)
						assert.Len(t, c.Events("", "agent_settled"), settled)
					}
					works("~b~ two")
					switch happens {
					case "moved in turns":
						for i, to := range []string{"a", "d", "b", "a"} {
							move(to)
							again()
							works(fmt.Sprintf("~c%d~ and", i))
						}
					case "killed":
						w.lose("b")
						c.pass(5 * time.Second)
						again()
					case "drained":
						b.member.Drain()
						w.reach("b", nil)
						b.end()
						b.lost = true
						c.pass(5 * time.Second)
						again()
					}
					assert.Equal(t, s, c.handle())
					for _, line := range []string{
						`{"type":"set_session_name","name":"N"}`, `{ "type":"get_state"}`, `{"type":"get_messages"}`, `{"type":"list_sessions"}`, `{"type":"bash","command":"echo hi"}`,
					} {
						v := c.Call(t, line)
						assert.True(t, v.Get("success").Bool(), v.Raw)
						assert.False(t, v.Get("sessionId").Exists(), v.Raw)
					}
					v := c.Call(t, `{"type":"set_model"}`)
					assert.Equal(t, "invalid_params", code(v), v.Raw)
					v = c.Call(t, `{"type":"get_state"`+at(s)+`}`)
					assert.Equal(t, []string{s, s}, []string{v.Get("sessionId").Str, v.Get("data.sessionId").Str}, "it may be named")
					works("~y~ three")
					v = c.Call(t, `{"type":"detach"`+at(s)+`}`)
					assert.Equal(t, "invalid_params", code(v), v.Raw)
					v = c.Call(t, `{"type":"new_session"}`)
					require.True(t, v.Get("success").Bool(), v.Raw)
					works("~z~ four")
					is := c.Call(t, `{"type":"get_state"}`).Get("data.sessionId").Str
					require.NotEqual(t, s, is)
					changed := c.Events(is, "session_changed") // which is what it says here
					require.NotEmpty(t, changed)
					assert.Equal(t, []string{is, ""}, []string{changed[len(changed)-1].Get("sessionId").Str, changed[len(changed)-1].Get("durableId").Str})
					for _, line := range c.Lines() {
						if v := gjson.Parse(line); v.Get("type").Str != "response" && v.Get("type").Str != "session_changed" {
							assert.False(t, v.Get("sessionId").Exists(), line)
						}
					}
					require.NoError(t, c.leave())
					other.pass(30 * time.Second)
					require.NoError(t, other.leave())
					for _, n := range nodes {
						if !n.lost {
							n.end()
						}
					}
				})
			})
		}
	}
}
