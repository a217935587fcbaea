package moves

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors"
	"troupe/actors/cluster"
	"troupe/actors/cluster/clustertest"
	"troupe/actors/scenario/harness"
	"troupe/actors/scenario/nodetest"
)

// replaces are the commands that replace a session with another one. For $entry and $other,
// replacing fills in an entry of the session and the file of another session.
var replaces = []string{
	`"type":"new_session"`, `"type":"fork","entryId":"$entry"`, `"type":"clone"`, `"type":"switch_session","sessionPath":"$other"`,
}

// replacing returns a line with one of the commands in replaces.
func replacing(n *nodetest.Node, command, id, session, other string) string {
	entries := n.Call(n.T, `{"type":"get_entries"`+harness.At(session)+`}`)
	var entry string
	for _, e := range entries.Get("data.entries").Array() {
		if e.Get("message.role").Str == "user" {
			entry = e.Get("id").Str
		}
	}
	command = strings.NewReplacer("$entry", entry, "$other", nodetest.CopiesDir+"/"+other+".jsonl").Replace(command)
	return fmt.Sprintf(`{"id":%q,%s%s}`, id, command, harness.At(session))
}

// TestMoveOfAReplacedSession checks that a session that has just replaced another one can be moved
// together with its handle, even if it has no messages.
func TestMoveOfAReplacedSession(t *testing.T) {
	for _, command := range replaces {
		t.Run(gjson.Get("{"+command+"}", "type").Str, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				_, _, nodes := nodetest.Cluster(t, "a", "b", "d")
				a, d := nodes[0], nodes[2]
				c := nodetest.NewClient(a, "client-one", "")
				before := nodetest.NewClient(a, "client-zero", "")
				other := before.OpenOn("b", "client-zero")
				before.Run(other, "~o~ of the other")
				before.Call(t, `{"type":"close_session"`+harness.At(other)+`}`)
				s := c.OpenOn("b", "client-one")
				c.Run(s, "~a~ one")
				c.Line(replacing(c, command, "x-r", s, other))
				first := c.AwaitResponse("x-r")
				require.True(t, first.Get("success").Bool(), first.Raw)
				made := c.SessionID(s)
				v := c.Call(t, `{"type":"move_session","node":"d"`+harness.At(s)+`}`)
				require.True(t, v.Get("success").Bool(), v.Raw)
				c.Advance(5 * time.Second)
				assert.Equal(t, made, c.SessionID(s))
				assert.True(t, d.Member.Has(cluster.SessionID(made)), "it is on the node to which it was moved")
				c.Run(s, "~b~ two")
				assert.Contains(t, c.Call(t, `{"type":"get_messages"`+harness.At(s)+`}`).Raw, "~b~ two")
				require.NoError(t, c.Leave())
				require.NoError(t, before.Leave())
				for _, n := range nodes {
					n.End()
				}
			})
		})
	}
}

// TestHandleOfAReplacedSession checks that the handle of a replaced session leads to the new
// session on every node, also after the owner was lost or drained, or the session was moved or
// parked. An active run is resumed under the handle. The command is recognized when it is sent
// again to any node, and makes no second session.
func TestHandleOfAReplacedSession(t *testing.T) {
	for _, command := range replaces {
		for _, happens := range []string{"killed", "killed in a run", "drained", "drained in a run", "moved", "parked", "nothing"} {
			t.Run(gjson.Get("{"+command+"}", "type").Str+" "+happens, func(t *testing.T) {
				harness.Bubble(t, func(t *testing.T) {
					w, engine, nodes := nodetest.ClusterWith(t, func(c *actors.Config) {
						c.DrainLimit = time.Second
						if happens == "parked" {
							c.Sessions.ParkAfter = 10 * time.Second
						}
					}, "a", "b", "d")
					a, b, d := nodes[0], nodes[1], nodes[2]
					c := nodetest.NewClient(a, "client-one", `,"features":["deltaUpdates"]`)
					before := nodetest.NewClient(a, "client-zero", "")
					other := before.OpenOn("b", "client-zero")
					before.Run(other, "~o~ of the other")
					before.Call(t, `{"type":"close_session"`+harness.At(other)+`}`)
					s := c.OpenOn("b", "client-one")
					c.Run(s, "~a~ one")
					if strings.Contains(command, "fork") {
						c.Run(s, "~b~ to be forked")
					}
					line := replacing(c, command, "x-r", s, other)
					c.Line(line)
					first := c.AwaitResponse("x-r")
					require.True(t, first.Get("success").Bool(), first.Raw)
					made := c.SessionID(s)
					require.NotEqual(t, s, made)
					late := nodetest.NewClient(d, "client-two", `,"features":["deltaUpdates"]`)
					require.True(t, late.Call(t, `{"type":"attach"`+harness.At(s)+`}`).Get("success").Bool())
					require.Equal(t, made, late.SessionID(s), "clients of every node")
					if strings.Contains(happens, "run") {
						c.Say(s, "prompt", "~r~ pace=500 parts=20")
						c.Advance(2 * time.Second)
					} else {
						c.Run(s, "~r~ parts=2")
					}
					settled := len(c.Events(s, "agent_settled"))
					logs := nodetest.Sessions(t, engine)
					switch strings.Fields(happens)[0] {
					case "killed":
						w.Lose("b")
					case "drained":
						b.Member.Drain()
						w.SetNode("b", nil)
						b.End()
						b.Lost = true
					case "moved":
						v := c.Call(t, `{"type":"move_session","node":"d"`+harness.At(s)+`}`)
						require.True(t, v.Get("success").Bool(), v.Raw)
					case "parked":
						c.Advance(time.Minute)
						b.RequireParked(s)
					}
					c.Advance(time.Minute)
					if strings.Contains(happens, "run") {
						assert.Len(t, c.Events(s, "agent_settled"), settled+1)
						open, _ := c.Spans(s)
						assert.Empty(t, open)
						assert.Contains(t, nodes[0].Log(made), "part 19 for ~r~")
					}
					assert.Equal(t, made, c.SessionID(s))
					assert.Equal(t, made, late.SessionID(s))
					again := nodetest.NewClient(d, "client-one", "")
					require.True(t, again.Call(t, `{"type":"attach"`+harness.At(s)+`}`).Get("success").Bool())
					again.Line(line)
					v := again.AwaitResponse("x-r")
					assert.True(t, v.Get("success").Bool(), v.Raw)
					assert.True(t, v.Get("replayed").Bool(), v.Raw)
					assert.Equal(t, first.Get("data").Raw, v.Get("data").Raw)
					assert.Equal(t, made, again.SessionID(s))
					assert.Equal(t, logs, nodetest.Sessions(t, engine), "no second session")
					again.Run(s, "~z~ behind it")
					assert.Equal(t, 1, nodetest.CountUserSaid(a.Log(made), "~z~ behind it"))
					assert.NotContains(t, a.Log(s), "~z~ behind it")
					open := again.Call(t, `{"type":"list_open_sessions"}`).Get(`data.sessions`).Array()
					i := slices.IndexFunc(open, func(o gjson.Result) bool { return o.Get("sessionId").Str == s })
					if assert.GreaterOrEqual(t, i, 0, open) {
						assert.Equal(t, made, open[i].Get("durableId").Str)
					}
					assert.Len(t, open, 1, "no handle of the new one")
					listed := again.Call(t, `{"type":"list_sessions"}`).Get("data.sessions.#.id").Raw
					for _, id := range []string{s, made} {
						assert.Equal(t, 1, strings.Count(listed, id), listed)
					}
					for _, of := range []*nodetest.Node{before, c, late, again} {
						require.NoError(t, of.Leave())
					}
					for _, n := range nodes {
						if !n.Lost {
							n.End()
						}
					}
				})
			})
		}
	}
}

// TestHandleOfManySessions checks that a handle whose session was replaced several times leads to
// the last one on every node. Commands that were executed under the handle are recognized in each
// of its sessions when the client sends them again.
func TestHandleOfManySessions(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		w, engine, nodes := nodetest.Cluster(t, "a", "b", "d", "e")
		c := nodetest.NewClient(nodes[0], "client-one", "")
		s := c.OpenOn("b", "client-one")
		var lines, data []string
		give := func(line string) {
			t.Helper()
			c.Line(line)
			v := c.AwaitResponse(gjson.Get(line, "id").Str)
			require.True(t, v.Get("success").Bool(), v.Raw)
			c.Advance(5 * time.Second)
			lines, data = append(lines, line), append(data, v.Get("data").Raw)
		}
		say := func(id, text string) {
			give(fmt.Sprintf(`{"id":%q,"type":"prompt","message":%q%s}`, id, text, harness.At(s)))
		}
		var all []string
		leads := func(to string) {
			t.Helper()
			is := c.SessionID(s)
			if to == "" {
				require.NotContains(t, all, is)
				all = append(all, is)
			} else {
				require.Equal(t, to, is)
			}
		}
		leads("")
		say("x-1", "~1~ parts=1")
		give(replacing(c, replaces[0], "x-2", s, ""))
		leads("")
		say("x-3", "~3~ parts=1")
		w.Lose("b")
		say("x-4", "~4~ parts=1")
		// The owner is not the node on which the session was opened.
		give(replacing(c, replaces[1], "x-5", s, ""))
		leads("")
		say("x-6", "~6~ parts=1")
		v := c.Call(t, `{"type":"move_session","node":"e"`+harness.At(s)+`}`)
		require.True(t, v.Get("success").Bool(), v.Raw)
		give(replacing(c, replaces[3], "x-7", s, s)) // back to the first session
		leads(s)
		say("x-8", "~8~ parts=1")
		w.Lose("e")
		c.Advance(5 * time.Second)
		leads(s)
		give(replacing(c, replaces[3], "x-9", s, all[1]))
		leads(all[1])
		say("x-10", "~10~ parts=1")
		logs := nodetest.Sessions(t, engine)
		for _, more := range []func(){func() {}, func() {
			c.Call(t, `{"type":"close_session"`+harness.At(s)+`}`)
			c.Call(t, `{"type":"attach"`+harness.At(s)+`}`)
		}} {
			more()
			again := nodetest.NewClient(nodes[2], "client-one", "")
			require.True(t, again.Call(t, `{"type":"attach"`+harness.At(s)+`}`).Get("success").Bool())
			for i, line := range lines {
				again.Line(line)
				v := again.AwaitResponse(gjson.Get(line, "id").Str)
				assert.True(t, v.Get("success").Bool() && v.Get("replayed").Bool(), v.Raw)
				// The data of replayed prompts and forks may differ.
				if !strings.Contains(line, "prompt") && !strings.Contains(line, "fork") {
					assert.Equal(t, data[i], v.Get("data").Raw, line)
				}
			}
			again.Advance(10 * time.Second)
			require.NoError(t, again.Leave())
		}
		leads(all[1])
		assert.Equal(t, logs, nodetest.Sessions(t, engine))
		for i, want := range [][]string{{"1", "8"}, {"3", "4", "10"}, {"3", "6"}} {
			text := nodes[0].Log(all[i])
			assert.Equal(t, len(want), strings.Count(text, `"role":"user"`), text)
			for _, of := range want {
				assert.Equal(t, 1, nodetest.CountUserSaid(text, "~"+of+"~ parts=1"), of)
			}
		}
		require.NoError(t, c.Leave())
		nodes[0].End()
		nodes[2].End()
	})
}

// TestNodeLostWhileReplacing loses the node at different moments of a command that replaces a
// session. It checks that the command succeeds when it is sent again, that there is exactly one
// more session, and that the handle leads to it.
func TestNodeLostWhileReplacing(t *testing.T) {
	for _, command := range replaces {
		var known, tried atomic.Int32
		const most = 24
		for early := range most {
			t.Run(fmt.Sprint(gjson.Get("{"+command+"}", "type").Str, early), func(t *testing.T) {
				t.Cleanup(func() {
					if tried.Add(1) == most {
						assert.Positive(t, known.Load(), "some were lost behind it")
						assert.Less(t, known.Load(), int32(most), "and some before")
					}
				})
				harness.Bubble(t, func(t *testing.T) {
					w, engine, nodes := nodetest.Cluster(t, "a", "b")
					before := nodetest.NewClient(nodes[0], "client-zero", "")
					other := before.OpenOn("b", "client-zero")
					before.Run(other, "~o~ of the other")
					before.Call(t, `{"type":"close_session"`+harness.At(other)+`}`)
					c := nodetest.NewClient(nodes[0], "client-one", "")
					s := c.OpenOn("b", "client-one")
					c.Run(s, "~a~ one")
					c.Run(s, "~b~ two")
					line := replacing(c, command, "x-r", s, other)
					logs := len(nodetest.Sessions(t, engine))
					c.Line(line)
					c.Advance(time.Duration(early) * 500 * time.Microsecond)
					w.Lose("b")
					v := c.AwaitResponse("x-r")
					require.True(t, v.Get("success").Bool(), v.Raw)
					if strings.Contains(command, "fork") {
						assert.Equal(t, "~b~ two", v.Get("data.text").Str, v.Raw)
					}
					if v.Get("replayed").Bool() {
						known.Add(1)
					}
					made := c.SessionID(s)
					assert.NotEqual(t, s, made)
					more := 1
					if strings.Contains(command, "switch") {
						more = 0
						assert.Equal(t, other, made)
					}
					assert.Len(t, nodetest.Sessions(t, engine), logs+more)
					if strings.Contains(command, "fork") || strings.Contains(command, "clone") {
						assert.Equal(t, 1, nodetest.CountUserSaid(nodes[0].Log(made), "~a~ one"))
					}
					c.Run(s, "~z~ behind it")
					assert.Equal(t, 1, nodetest.CountUserSaid(nodes[0].Log(made), "~z~ behind it"))
					require.NoError(t, c.Leave())
					require.NoError(t, before.Leave())
					nodes[0].End()
				})
			})
		}
	}
}

// TestReplacedWantsTheSame checks that a session that replaces another one keeps its requirements
// for the labels of nodes.
func TestReplacedWantsTheSame(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		_, _, nodes := nodetest.Cluster(t, "a", "b")
		c := nodetest.NewClient(nodes[0], "client-one", "")
		for i, command := range replaces[:3] {
			v := c.Call(t, `{"type":"open_session","cwd":"w:","retain":true,"wants":{"labels":{"is":"b"}}}`)
			require.True(t, v.Get("success").Bool(), v.Raw)
			s := v.Get("data.sessionId").Str
			c.Run(s, "~a~ one")
			c.Line(replacing(c, command, fmt.Sprint("x-r", i), s, ""))
			require.True(t, c.AwaitResponse(fmt.Sprint("x-r", i)).Get("success").Bool())
			assert.Equal(t, "nowhere", harness.Code(c.Call(t, `{"type":"move_session","node":"a"`+harness.At(s)+`}`)))
		}
		require.NoError(t, c.Leave())
		for _, n := range nodes {
			n.End()
		}
	})
}

// TestReplacedWhileTheEngineIsAway checks that a command that replaces a session has no effect if
// the log of the handle cannot be written, and can be sent again. A client that received success
// sees the new session, and so does every node.
func TestReplacedWhileTheEngineIsAway(t *testing.T) {
	for _, command := range replaces[:3] {
		for _, early := range []time.Duration{0, 2, 4, 6, 8} {
			t.Run(fmt.Sprint(gjson.Get("{"+command+"}", "type").Str, int(early)), func(t *testing.T) {
				harness.Bubble(t, func(t *testing.T) {
					w, _, nodes := nodetest.Cluster(t, "a", "b")
					b := nodes[1]
					c := nodetest.NewClient(b, "client-one", "")
					s := c.OpenOn("b", "client-one")
					c.Run(s, "~a~ one")
					c.Run(s, "~b~ two")
					line := replacing(c, command, "x-r", s, "")
					c.Line(line)
					c.Advance(early * time.Millisecond)
					b.Engine.Cut(clustertest.Gone)
					c.Advance(30 * time.Second)
					before := c.Lines()
					b.Engine.Cut(clustertest.Whole)
					c.Advance(10 * time.Second)
					// This may be answered with session_unavailable.
					c.Call(t, `{"type":"get_state"`+harness.At(s)+`}`)
					if i := slices.IndexFunc(before, func(l string) bool { return strings.HasPrefix(l, `{"id":"x-r"`) }); i >= 0 && gjson.Get(before[i], "success").Bool() {
						require.NotEqual(t, s, c.SessionID(s), "it was answered as done")
					}
					v := c.Repeat(strings.Replace(line, "x-r", "x-again", 1))
					if harness.Code(v) == "session_unavailable" || harness.Code(v) == "not_durable" {
						v = c.Repeat(strings.Replace(line, "x-r", "x-more", 1))
					}
					require.True(t, v.Get("success").Bool() || harness.Code(v) == "invalid_params" || harness.Code(v) == "nothing_to_do", v.Raw)
					made := c.SessionID(s)
					require.NotEqual(t, s, made)
					other := nodetest.NewClient(nodes[0], "client-two", "")
					require.True(t, other.Call(t, `{"type":"attach"`+harness.At(s)+`}`).Get("success").Bool())
					require.Equal(t, made, other.SessionID(s))
					w.Lose("b")
					other.Advance(5 * time.Second)
					require.Equal(t, made, other.SessionID(s))
					require.NoError(t, other.Leave())
					nodes[0].End()
				})
			})
		}
	}
}

// TestOpenedByItself checks that the first session of a handle cannot be opened by its path while
// the handle leads to another session that is open on any node. Once that is closed, it can, and
// the handle leads to the first session again.
func TestOpenedByItself(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		_, _, nodes := nodetest.Cluster(t, "a", "b")
		c := nodetest.NewClient(nodes[0], "client-one", "")
		s := c.OpenOn("b", "client-one")
		c.Run(s, "~a~ one")
		c.Line(replacing(c, replaces[0], "x-r", s, ""))
		require.True(t, c.AwaitResponse("x-r").Get("success").Bool())
		c.Run(s, "~n~ of the new one")
		made := c.SessionID(s)
		open := fmt.Sprintf(`{"type":"open_session","sessionPath":%q}`, nodetest.CopiesDir+"/"+s+".jsonl")
		for _, n := range nodes {
			of := nodetest.NewClient(n, "client-two", "")
			assert.Equal(t, "session_in_use", harness.Code(of.Call(t, open)))
			require.NoError(t, of.Leave())
		}
		assert.Equal(t, made, c.SessionID(s))
		c.Call(t, `{"type":"close_session"`+harness.At(s)+`}`)
		of := nodetest.NewClient(nodes[0], "client-three", "")
		require.True(t, of.Call(t, `{"type":"attach"`+harness.At(s)+`}`).Get("success").Bool())
		assert.Equal(t, made, of.SessionID(s))
		of.Call(t, `{"type":"close_session"`+harness.At(s)+`}`)
		v := of.Call(t, open)
		require.True(t, v.Get("success").Bool(), v.Raw)
		assert.Equal(t, s, of.SessionID(s))
		of.Call(t, `{"type":"close_session"`+harness.At(s)+`}`)
		of = nodetest.NewClient(nodes[1], "client-four", "")
		require.True(t, of.Call(t, `{"type":"attach"`+harness.At(s)+`}`).Get("success").Bool())
		assert.Equal(t, s, of.SessionID(s), "also where nothing was said in it")
		for _, n := range nodes {
			n.End()
		}
	})
}
