package actors

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors/cluster"
)

// isIn is the id of the session that a handle has.
func (c *node) isIn(handle string) string {
	c.t.Helper()
	c.asked++
	v := c.asks(fmt.Sprint("x-is", c.asked), "get_state", handle)
	require.True(c.t, v.Get("success").Bool(), v.Raw)
	return v.Get("data.sessionId").Str
}

// repeats says a line again, and returns the answer.
func (c *node) repeats(line string) (v gjson.Result) {
	c.t.Helper()
	before := len(c.Lines())
	c.Line(line)
	c.pass(3 * time.Second)
	for _, l := range c.Lines()[before:] {
		if is := gjson.Parse(l); is.Get("type").Str == "response" && is.Get("id").Str == gjson.Get(line, "id").Str {
			v = is
		}
	}
	return v
}

// TestSwitched: a client whose session was replaced by another is in that one wherever it goes on: where its node is lost, is
// given away, or gives up what rests. The run of the new one goes on for it, and what has made the new session acts once.
func TestSwitched(t *testing.T) {
	for _, how := range []string{"lost", "lost in a run", "moved", "released"} {
		for _, by := range []string{"new_session", "fork", "new_session, twice"} {
			t.Run(how+", "+by, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					w, _, nodes := nodesWith(t, func(c *Config) {
						if how == "released" {
							c.Sessions.ParkAfter = time.Minute
						}
					}, "a", "b")
					c := through(nodes[0], "client-one", `,"features":["deltaUpdates"]`)
					s := c.openOn("b", "client-one")
					c.run(s, "~x~ one")
					c.run(s, "~x~ two")
					command := `{"id":"x-k","type":"new_session"` + at(s) + `}`
					if by == "fork" {
						second := c.asks("x-f", "get_fork_messages", s).Get("data.messages.1.entryId").Str
						command = fmt.Sprintf(`{"id":"x-k","type":"fork","entryId":%q%s}`, second, at(s))
					}
					if by == "new_session, twice" {
						require.True(t, c.repeats(`{"id":"x-first","type":"new_session"`+at(s)+`}`).Get("success").Bool())
					}
					first := c.repeats(command)
					require.True(t, first.Get("success").Bool(), first.Raw)
					made := c.isIn(s)
					require.NotEqual(t, s, made)
					says := how == "lost in a run" || by == "fork"
					if says {
						c.Say(s, "prompt", "~n~ pace=500 parts=20")
						c.pass(2 * time.Second)
						if how != "lost in a run" {
							c.pass(20 * time.Second)
						}
					}
					switch how {
					case "moved":
						v := c.repeats(`{"id":"x-mv","type":"move_session","node":"a"` + at(s) + `}`)
						if !says && code(v) == "nothing_to_do" { // the cluster does not have it
							break
						}
						require.True(t, v.Get("success").Bool(), v.Raw)
					case "released":
						c.pass(3 * time.Minute)
						nodes[1].member.Drain()
						nodes[1].daemon.Stop(Stop{})
						c.pass(5 * time.Second)
					default:
						w.lose("b")
					}
					c.pass(20 * time.Second)
					assert.Equal(t, made, c.isIn(s))
					again := c.repeats(command)
					assert.True(t, again.Get("success").Bool() && again.Get("replayed").Bool(), again.Raw)
					assert.Equal(t, first.Get("data").Raw, again.Get("data").Raw)
					assert.Equal(t, made, c.isIn(s))
					c.run(s, "~n~ more")
					kinds := c.Kinds(s)
					assert.Equal(t, "agent_settled", kinds[len(kinds)-1], kinds)
					assert.Contains(t, nodes[0].lines(made), "~n~ more")
					assert.NotContains(t, nodes[0].lines(s), "~n~")
					if how == "lost in a run" {
						assert.Len(t, c.Events(s, "agent_settled"), 4, kinds)
						assert.Contains(t, nodes[0].lines(made), "part 19 for ~n~")
					}
					handles := c.Call(t, `{"type":"list_open_sessions"}`).Get("data.sessions.#.sessionId").Raw
					assert.Equal(t, 1, strings.Count(handles, `"`)/2, handles)
					require.NoError(t, c.leave())
					nodes[0].end()
					if how == "moved" {
						nodes[1].end()
					}
				})
			})
		}
	}
}

// TestSwitchedKeepsWhatItHas: what a session begins with that was put in the place of another is in the cluster before anything is
// said: the model and the level of the one before, and not those of the node that has it next.
func TestSwitchedKeepsWhatItHas(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _, nodes := nodesOf(t, "a", "b")
		c := through(nodes[0], "client-one", "")
		s := c.openOn("b", "client-one")
		c.Call(t, `{"type":"set_model","provider":"acme","modelId":"thinker"`+at(s)+`}`)
		c.Call(t, `{"type":"set_thinking_level","level":"high"`+at(s)+`}`)
		c.run(s, "~x~ one")
		has := func() string {
			v := c.Call(t, `{"type":"get_state"`+at(s)+`}`)
			return v.Get("data.model.id").Str + " " + v.Get("data.thinkingLevel").Str
		}
		require.Equal(t, "thinker high", has())
		require.True(t, c.repeats(`{"id":"x-k","type":"new_session"`+at(s)+`}`).Get("success").Bool())
		require.Equal(t, "thinker high", has())
		made := c.isIn(s)
		assert.Contains(t, nodes[0].lines(made), `"thinkingLevel":"high"`)
		w.lose("b")
		c.pass(20 * time.Second)
		assert.Equal(t, made, c.isIn(s))
		assert.Equal(t, "thinker high", has())
		require.NoError(t, c.leave())
		nodes[0].end()
	})
}

// TestSwitchedBack: who has gone back to the session of before is in that one, though another had taken its place, and a session whose
// node is lost can be read under the name that its client knows.
func TestSwitchedBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _, nodes := nodesOf(t, "a", "b")
		c := through(nodes[0], "client-one", `,"features":["deltaUpdates"]`)
		s := c.openOn("b", "client-one")
		c.run(s, "~x~ one")
		require.True(t, c.repeats(`{"id":"x-k","type":"new_session"`+at(s)+`}`).Get("success").Bool())
		c.run(s, "~n~ other")
		v := c.repeats(fmt.Sprintf(`{"id":"x-s","type":"switch_session","sessionPath":%q%s}`, copies+"/"+s+".jsonl", at(s)))
		require.True(t, v.Get("success").Bool(), v.Raw)
		w.lose("b")
		c.pass(10 * time.Second)
		assert.Equal(t, s, c.isIn(s))
		assert.Equal(t, "~x~ one", c.asks("x-m", "get_messages", s).Get("data.messages.0.content.0.text").Str)
		require.NoError(t, c.leave())
		nodes[0].end()
	})
}

// TestSwitchedIsPinned: the same where the directory is on one node only: while that is lost the log of the session that its client
// has can be read, and it is that session which is adopted.
func TestSwitchedIsPinned(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _, nodes := nodesWith(t, func(c *Config) {
			cl := c.Sessions.Cluster
			cl.Wants = func(string) cluster.Wants { return cluster.Wants{Node: cl.Member.Self()} }
		}, "a", "b")
		far := through(nodes[1], "client-one", "")
		s := far.Call(t, `{"type":"open_session","cwd":"/","retain":true}`).Get("data.sessionId").Str
		far.run(s, "~x~ one")
		require.True(t, far.Call(t, `{"type":"new_session"`+at(s)+`}`).Get("success").Bool())
		far.run(s, "~n~ other")
		made := far.isIn(s)
		c := through(nodes[0], "client-two", "")
		w.lose("b")
		c.pass(2 * time.Second)
		said := func(id string) string {
			return c.asks(id, "get_messages", s).Get("data.messages.0.content.0.text").Str
		}
		assert.Equal(t, "~n~ other", said("x-m1"))
		c.Line(fmt.Sprintf(`{"id":"x-a","type":"adopt_session","cwd":%q%s}`, emptyDir, at(s)))
		v := c.wait("x-a")
		require.True(t, v.Get("success").Bool(), v.Raw)
		require.True(t, c.asks("x-t", "attach", s).Get("success").Bool())
		assert.Equal(t, made, c.isIn(s))
		assert.Equal(t, "~n~ other", said("x-m2"))
		require.NoError(t, c.leave())
		nodes[0].end()
	})
}
