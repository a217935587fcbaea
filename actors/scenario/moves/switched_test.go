package moves

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors"
	"troupe/actors/cluster"
	"troupe/actors/scenario/harness"
	"troupe/actors/scenario/nodetest"
)

// TestSwitched checks that a client whose session was replaced stays in the new session after its
// node is lost, or the session is moved or released. The run of the new session is resumed, and the
// command that replaced the session is executed once.
func TestSwitched(t *testing.T) {
	for _, how := range []string{"lost", "lost in a run", "moved", "released"} {
		for _, by := range []string{"new_session", "fork", "new_session, twice"} {
			t.Run(how+", "+by, func(t *testing.T) {
				harness.Bubble(t, func(t *testing.T) {
					w, _, nodes := nodetest.ClusterWith(t, func(c *actors.Config) {
						if how == "released" {
							c.Sessions.ParkAfter = time.Minute
						}
					}, "a", "b")
					c := nodetest.NewClient(nodes[0], "client-one", `,"features":["deltaUpdates"]`)
					s := c.OpenOn("b", "client-one")
					c.Run(s, "~x~ one")
					c.Run(s, "~x~ two")
					command := `{"id":"x-k","type":"new_session"` + harness.At(s) + `}`
					if by == "fork" {
						second := c.Ask("x-f", "get_fork_messages", s).Get("data.messages.1.entryId").Str
						command = fmt.Sprintf(`{"id":"x-k","type":"fork","entryId":%q%s}`, second, harness.At(s))
					}
					if by == "new_session, twice" {
						require.True(t, c.Repeat(`{"id":"x-first","type":"new_session"`+harness.At(s)+`}`).Get("success").Bool())
					}
					first := c.Repeat(command)
					require.True(t, first.Get("success").Bool(), first.Raw)
					made := c.AskSessionID(s)
					require.NotEqual(t, s, made)
					says := how == "lost in a run" || by == "fork"
					if says {
						c.Say(s, "prompt", "~n~ pace=500 parts=20")
						c.Advance(2 * time.Second)
						if how != "lost in a run" {
							c.Advance(20 * time.Second)
						}
					}
					switch how {
					case "moved":
						v := c.Repeat(`{"id":"x-mv","type":"move_session","node":"a"` + harness.At(s) + `}`)
						// A session without messages may have no log in the cluster.
						if !says && harness.Code(v) == "nothing_to_do" {
							break
						}
						require.True(t, v.Get("success").Bool(), v.Raw)
					case "released":
						c.Advance(3 * time.Minute)
						nodes[1].Member.Drain()
						nodes[1].Daemon.Stop(actors.Stop{})
						c.Advance(5 * time.Second)
					default:
						w.Lose("b")
					}
					c.Advance(20 * time.Second)
					assert.Equal(t, made, c.AskSessionID(s))
					again := c.Repeat(command)
					assert.True(t, again.Get("success").Bool() && again.Get("replayed").Bool(), again.Raw)
					assert.Equal(t, first.Get("data").Raw, again.Get("data").Raw)
					assert.Equal(t, made, c.AskSessionID(s))
					c.Run(s, "~n~ more")
					kinds := c.Kinds(s)
					assert.Equal(t, "agent_settled", kinds[len(kinds)-1], kinds)
					assert.Contains(t, nodes[0].Log(made), "~n~ more")
					assert.NotContains(t, nodes[0].Log(s), "~n~")
					if how == "lost in a run" {
						assert.Len(t, c.Events(s, "agent_settled"), 4, kinds)
						assert.Contains(t, nodes[0].Log(made), "part 19 for ~n~")
					}
					handles := c.Call(t, `{"type":"list_open_sessions"}`).Get("data.sessions.#.sessionId").Raw
					assert.Equal(t, 1, strings.Count(handles, `"`)/2, handles)
					require.NoError(t, c.Leave())
					nodes[0].End()
					if how == "moved" {
						nodes[1].End()
					}
				})
			})
		}
	}
}

// TestSwitchedKeepsWhatItHas checks that the model and thinking level of a session that replaced
// another one are in the log before its first message, and are kept on the next node.
func TestSwitchedKeepsWhatItHas(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		w, _, nodes := nodetest.Cluster(t, "a", "b")
		c := nodetest.NewClient(nodes[0], "client-one", "")
		s := c.OpenOn("b", "client-one")
		c.Call(t, `{"type":"set_model","provider":"acme","modelId":"thinker"`+harness.At(s)+`}`)
		c.Call(t, `{"type":"set_thinking_level","level":"high"`+harness.At(s)+`}`)
		c.Run(s, "~x~ one")
		has := func() string {
			v := c.Call(t, `{"type":"get_state"`+harness.At(s)+`}`)
			return v.Get("data.model.id").Str + " " + v.Get("data.thinkingLevel").Str
		}
		require.Equal(t, "thinker high", has())
		require.True(t, c.Repeat(`{"id":"x-k","type":"new_session"`+harness.At(s)+`}`).Get("success").Bool())
		require.Equal(t, "thinker high", has())
		made := c.AskSessionID(s)
		assert.Contains(t, nodes[0].Log(made), `"thinkingLevel":"high"`)
		w.Lose("b")
		c.Advance(20 * time.Second)
		assert.Equal(t, made, c.AskSessionID(s))
		assert.Equal(t, "thinker high", has())
		require.NoError(t, c.Leave())
		nodes[0].End()
	})
}

// TestSwitchedBack checks that a client that has switched back to its first session is in that
// session after its node is lost, and can read it under its handle.
func TestSwitchedBack(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		w, _, nodes := nodetest.Cluster(t, "a", "b")
		c := nodetest.NewClient(nodes[0], "client-one", `,"features":["deltaUpdates"]`)
		s := c.OpenOn("b", "client-one")
		c.Run(s, "~x~ one")
		require.True(t, c.Repeat(`{"id":"x-k","type":"new_session"`+harness.At(s)+`}`).Get("success").Bool())
		c.Run(s, "~n~ other")
		v := c.Repeat(fmt.Sprintf(`{"id":"x-s","type":"switch_session","sessionPath":%q%s}`, nodetest.CopiesDir+"/"+s+".jsonl", harness.At(s)))
		require.True(t, v.Get("success").Bool(), v.Raw)
		w.Lose("b")
		c.Advance(10 * time.Second)
		assert.Equal(t, s, c.AskSessionID(s))
		assert.Equal(t, "~x~ one", c.Ask("x-m", "get_messages", s).Get("data.messages.0.content.0.text").Str)
		require.NoError(t, c.Leave())
		nodes[0].End()
	})
}

// TestSwitchedIsPinned checks the same for a session whose directory is on one node only. While
// that node is lost, the new session can be read under the handle, and it is the one that is
// adopted.
func TestSwitchedIsPinned(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		w, _, nodes := nodetest.ClusterWith(t, func(c *actors.Config) {
			cl := c.Sessions.Cluster
			cl.Wants = func(string) cluster.Wants { return cluster.Wants{Node: cl.Member.Self()} }
		}, "a", "b")
		far := nodetest.NewClient(nodes[1], "client-one", "")
		s := far.Call(t, `{"type":"open_session","cwd":"/","retain":true}`).Get("data.sessionId").Str
		far.Run(s, "~x~ one")
		require.True(t, far.Call(t, `{"type":"new_session"`+harness.At(s)+`}`).Get("success").Bool())
		far.Run(s, "~n~ other")
		made := far.AskSessionID(s)
		c := nodetest.NewClient(nodes[0], "client-two", "")
		w.Lose("b")
		c.Advance(2 * time.Second)
		said := func(id string) string {
			return c.Ask(id, "get_messages", s).Get("data.messages.0.content.0.text").Str
		}
		assert.Equal(t, "~n~ other", said("x-m1"))
		c.Line(fmt.Sprintf(`{"id":"x-a","type":"adopt_session","cwd":%q%s}`, harness.EmptyDir, harness.At(s)))
		v := c.AwaitResponse("x-a")
		require.True(t, v.Get("success").Bool(), v.Raw)
		require.True(t, c.Ask("x-t", "attach", s).Get("success").Bool())
		assert.Equal(t, made, c.AskSessionID(s))
		assert.Equal(t, "~n~ other", said("x-m2"))
		require.NoError(t, c.Leave())
		nodes[0].End()
	})
}
