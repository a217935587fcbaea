package actors

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

	"troupe/actors/cluster"
	"troupe/actors/cluster/clustertest"
)

// replaces are the commands that put another session in the place of one: an entry of it and the file of another session are filled in.
var replaces = []string{
	`"type":"new_session"`, `"type":"fork","entryId":"$entry"`, `"type":"clone"`, `"type":"switch_session","sessionPath":"$other"`,
}

// replacing is such a command.
func (n *node) replacing(command, id, session, other string) string {
	entries := n.Call(n.t, `{"type":"get_entries"`+at(session)+`}`)
	var entry string
	for _, e := range entries.Get("data.entries").Array() {
		if e.Get("message.role").Str == "user" {
			entry = e.Get("id").Str
		}
	}
	command = strings.NewReplacer("$entry", entry, "$other", copies+"/"+other+".jsonl").Replace(command)
	return fmt.Sprintf(`{"id":%q,%s%s}`, id, command, at(session))
}

// durable is the session to which a handle leads.
func (n *node) durable(handle string) string {
	n.t.Helper()
	v := n.Call(n.t, `{"type":"get_state"`+at(handle)+`}`)
	require.True(n.t, v.Get("success").Bool(), v.Raw)
	return v.Get("data.sessionId").Str
}

// TestMoveOfAReplacedSession: what a command has put in the place of a session is moved right behind it as a drain takes it along, also
// where nothing was said in it yet, and with it the handle.
func TestMoveOfAReplacedSession(t *testing.T) {
	for _, command := range replaces {
		t.Run(gjson.Get("{"+command+"}", "type").Str, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				_, _, nodes := nodesOf(t, "a", "b", "d")
				a, d := nodes[0], nodes[2]
				c := through(a, "client-one", "")
				before := through(a, "client-zero", "")
				other := before.openOn("b", "client-zero")
				before.run(other, "~o~ of the other")
				before.Call(t, `{"type":"close_session"`+at(other)+`}`)
				s := c.openOn("b", "client-one")
				c.run(s, "~a~ one")
				c.Line(c.replacing(command, "x-r", s, other))
				first := c.wait("x-r")
				require.True(t, first.Get("success").Bool(), first.Raw)
				made := c.durable(s)
				v := c.Call(t, `{"type":"move_session","node":"d"`+at(s)+`}`)
				require.True(t, v.Get("success").Bool(), v.Raw)
				c.pass(5 * time.Second)
				assert.Equal(t, made, c.durable(s))
				assert.True(t, d.member.Has(cluster.SessionID(made)), "it is on the node to which it was moved")
				c.run(s, "~b~ two")
				assert.Contains(t, c.Call(t, `{"type":"get_messages"`+at(s)+`}`).Raw, "~b~ two")
				require.NoError(t, c.leave())
				require.NoError(t, before.leave())
				for _, n := range nodes {
					n.end()
				}
			})
		})
	}
}

// TestHandleOfAReplacedSession: once a command has put another session in the place of one, the handle is that session, for clients of
// every node, also when the node is lost, is drained, gives the session to another one, or has parked it. A run of it goes on under
// the handle; the command, which comes again through any node, is known, with its answer, and makes no second session.
func TestHandleOfAReplacedSession(t *testing.T) {
	for _, command := range replaces {
		for _, happens := range []string{"killed", "killed in a run", "drained", "drained in a run", "moved", "parked", "nothing"} {
			t.Run(gjson.Get("{"+command+"}", "type").Str+" "+happens, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					w, engine, nodes := nodesWith(t, func(c *Config) {
						c.DrainLimit = time.Second
						if happens == "parked" {
							c.Sessions.ParkAfter = 10 * time.Second
						}
					}, "a", "b", "d")
					a, b, d := nodes[0], nodes[1], nodes[2]
					c := through(a, "client-one", `,"features":["deltaUpdates"]`)
					before := through(a, "client-zero", "")
					other := before.openOn("b", "client-zero")
					before.run(other, "~o~ of the other")
					before.Call(t, `{"type":"close_session"`+at(other)+`}`)
					s := c.openOn("b", "client-one")
					c.run(s, "~a~ one")
					if strings.Contains(command, "fork") {
						c.run(s, "~b~ to be forked")
					}
					line := c.replacing(command, "x-r", s, other)
					c.Line(line)
					first := c.wait("x-r")
					require.True(t, first.Get("success").Bool(), first.Raw)
					made := c.durable(s)
					require.NotEqual(t, s, made)
					late := through(d, "client-two", `,"features":["deltaUpdates"]`)
					require.True(t, late.Call(t, `{"type":"attach"`+at(s)+`}`).Get("success").Bool())
					require.Equal(t, made, late.durable(s), "clients of every node")
					if strings.Contains(happens, "run") {
						c.Say(s, "prompt", "~r~ pace=500 parts=20")
						c.pass(2 * time.Second)
					} else {
						c.run(s, "~r~ parts=2")
					}
					settled := len(c.Events(s, "agent_settled"))
					logs := sessionsOf(t, engine)
					switch strings.Fields(happens)[0] {
					case "killed":
						w.lose("b")
					case "drained":
						b.member.Drain()
						w.reach("b", nil)
						b.end()
						b.lost = true
					case "moved":
						v := c.Call(t, `{"type":"move_session","node":"d"`+at(s)+`}`)
						require.True(t, v.Get("success").Bool(), v.Raw)
					case "parked":
						c.pass(time.Minute)
						b.parked(s)
					}
					c.pass(time.Minute)
					if strings.Contains(happens, "run") {
						assert.Len(t, c.Events(s, "agent_settled"), settled+1)
						open, _ := c.unended(s)
						assert.Empty(t, open)
						assert.Contains(t, nodes[0].lines(made), "part 19 for ~r~")
					}
					assert.Equal(t, made, c.durable(s))
					assert.Equal(t, made, late.durable(s))
					again := through(d, "client-one", "")
					require.True(t, again.Call(t, `{"type":"attach"`+at(s)+`}`).Get("success").Bool())
					again.Line(line)
					v := again.wait("x-r")
					assert.True(t, v.Get("success").Bool(), v.Raw)
					assert.True(t, v.Get("replayed").Bool(), v.Raw)
					assert.Equal(t, first.Get("data").Raw, v.Get("data").Raw)
					assert.Equal(t, made, again.durable(s))
					assert.Equal(t, logs, sessionsOf(t, engine), "no second session")
					again.run(s, "~z~ behind it")
					assert.Equal(t, 1, said(a.lines(made), "~z~ behind it"))
					assert.NotContains(t, a.lines(s), "~z~ behind it")
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
					for _, of := range []*node{before, c, late, again} {
						require.NoError(t, of.leave())
					}
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

// TestHandleOfManySessions: a handle that was led on several times, and back, is at every node what it was last; what was carried out
// under it in any of its sessions is known in all of them, also where the client says all of it again.
func TestHandleOfManySessions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, engine, nodes := nodesOf(t, "a", "b", "d", "e")
		c := through(nodes[0], "client-one", "")
		s := c.openOn("b", "client-one")
		var lines, data []string
		give := func(line string) {
			t.Helper()
			c.Line(line)
			v := c.wait(gjson.Get(line, "id").Str)
			require.True(t, v.Get("success").Bool(), v.Raw)
			c.pass(5 * time.Second)
			lines, data = append(lines, line), append(data, v.Get("data").Raw)
		}
		say := func(id, text string) {
			give(fmt.Sprintf(`{"id":%q,"type":"prompt","message":%q%s}`, id, text, at(s)))
		}
		var all []string
		leads := func(to string) {
			t.Helper()
			is := c.durable(s)
			if to == "" {
				require.NotContains(t, all, is)
				all = append(all, is)
			} else {
				require.Equal(t, to, is)
			}
		}
		leads("")
		say("x-1", "~1~ parts=1")
		give(c.replacing(replaces[0], "x-2", s, ""))
		leads("")
		say("x-3", "~3~ parts=1")
		w.lose("b")
		say("x-4", "~4~ parts=1")
		give(c.replacing(replaces[1], "x-5", s, "")) // its log has another node than the one that it began on
		leads("")
		say("x-6", "~6~ parts=1")
		v := c.Call(t, `{"type":"move_session","node":"e"`+at(s)+`}`)
		require.True(t, v.Get("success").Bool(), v.Raw)
		give(c.replacing(replaces[3], "x-7", s, s)) // back
		leads(s)
		say("x-8", "~8~ parts=1")
		w.lose("e")
		c.pass(5 * time.Second)
		leads(s)
		give(c.replacing(replaces[3], "x-9", s, all[1]))
		leads(all[1])
		say("x-10", "~10~ parts=1")
		logs := sessionsOf(t, engine)
		for _, more := range []func(){func() {}, func() { c.Call(t, `{"type":"close_session"`+at(s)+`}`); c.Call(t, `{"type":"attach"`+at(s)+`}`) }} {
			more()
			again := through(nodes[2], "client-one", "")
			require.True(t, again.Call(t, `{"type":"attach"`+at(s)+`}`).Get("success").Bool())
			for i, line := range lines {
				again.Line(line)
				v := again.wait(gjson.Get(line, "id").Str)
				assert.True(t, v.Get("success").Bool() && v.Get("replayed").Bool(), v.Raw)
				if !strings.Contains(line, "prompt") && !strings.Contains(line, "fork") { // what was forked counts until the handle is back
					assert.Equal(t, data[i], v.Get("data").Raw, line)
				}
			}
			again.pass(10 * time.Second)
			require.NoError(t, again.leave())
		}
		leads(all[1])
		assert.Equal(t, logs, sessionsOf(t, engine))
		for i, want := range [][]string{{"1", "8"}, {"3", "4", "10"}, {"3", "6"}} {
			text := nodes[0].lines(all[i])
			assert.Equal(t, len(want), strings.Count(text, `"role":"user"`), text)
			for _, of := range want {
				assert.Equal(t, 1, said(text, "~"+of+"~ parts=1"), of)
			}
		}
		require.NoError(t, c.leave())
		nodes[0].end()
		nodes[2].end()
	})
}

// TestNodeLostWhileReplacing: the node is lost at any moment of such a command. Whoever says it again is answered as if nothing had
// happened, there is one session more, and the handle leads to it.
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
				bubble(t, func(t *testing.T) {
					w, engine, nodes := nodesOf(t, "a", "b")
					before := through(nodes[0], "client-zero", "")
					other := before.openOn("b", "client-zero")
					before.run(other, "~o~ of the other")
					before.Call(t, `{"type":"close_session"`+at(other)+`}`)
					c := through(nodes[0], "client-one", "")
					s := c.openOn("b", "client-one")
					c.run(s, "~a~ one")
					c.run(s, "~b~ two")
					line := c.replacing(command, "x-r", s, other)
					logs := len(sessionsOf(t, engine))
					c.Line(line)
					c.pass(time.Duration(early) * 500 * time.Microsecond)
					w.lose("b")
					v := c.wait("x-r")
					require.True(t, v.Get("success").Bool(), v.Raw)
					if strings.Contains(command, "fork") {
						assert.Equal(t, "~b~ two", v.Get("data.text").Str, v.Raw)
					}
					if v.Get("replayed").Bool() {
						known.Add(1)
					}
					made := c.durable(s)
					assert.NotEqual(t, s, made)
					more := 1
					if strings.Contains(command, "switch") {
						more = 0
						assert.Equal(t, other, made)
					}
					assert.Len(t, sessionsOf(t, engine), logs+more)
					if strings.Contains(command, "fork") || strings.Contains(command, "clone") {
						assert.Equal(t, 1, said(nodes[0].lines(made), "~a~ one"))
					}
					c.run(s, "~z~ behind it")
					assert.Equal(t, 1, said(nodes[0].lines(made), "~z~ behind it"))
					require.NoError(t, c.leave())
					require.NoError(t, before.leave())
					nodes[0].end()
				})
			})
		}
	}
}

// TestReplacedWantsTheSame: a session that takes the place of one that has to be on a node with a label has to be on one, too.
func TestReplacedWantsTheSame(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, _, nodes := nodesOf(t, "a", "b")
		c := through(nodes[0], "client-one", "")
		for i, command := range replaces[:3] {
			v := c.Call(t, `{"type":"open_session","cwd":"w:","retain":true,"wants":{"labels":{"is":"b"}}}`)
			require.True(t, v.Get("success").Bool(), v.Raw)
			s := v.Get("data.sessionId").Str
			c.run(s, "~a~ one")
			c.Line(c.replacing(command, fmt.Sprint("x-r", i), s, ""))
			require.True(t, c.wait(fmt.Sprint("x-r", i)).Get("success").Bool())
			assert.Equal(t, "nowhere", code(c.Call(t, `{"type":"move_session","node":"a"`+at(s)+`}`)))
		}
		require.NoError(t, c.leave())
		for _, n := range nodes {
			n.end()
		}
	})
}

// TestReplacedWhileTheEngineIsAway: where the log of the handle cannot say where that leads, the command has not been carried out: the
// session is what it was, and the command can come again. What the client is told is what every node knows.
func TestReplacedWhileTheEngineIsAway(t *testing.T) {
	for _, command := range replaces[:3] {
		for _, early := range []time.Duration{0, 2, 4, 6, 8} {
			t.Run(fmt.Sprint(gjson.Get("{"+command+"}", "type").Str, int(early)), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					w, _, nodes := nodesOf(t, "a", "b")
					b := nodes[1]
					c := through(b, "client-one", "")
					s := c.openOn("b", "client-one")
					c.run(s, "~a~ one")
					c.run(s, "~b~ two")
					line := c.replacing(command, "x-r", s, "")
					c.Line(line)
					c.pass(early * time.Millisecond)
					b.way.Cut(clustertest.Gone)
					c.pass(30 * time.Second)
					before := c.Lines()
					b.way.Cut(clustertest.Whole)
					c.pass(10 * time.Second)
					c.Call(t, `{"type":"get_state"`+at(s)+`}`) // which may be told that it is not to be had at the moment
					if i := slices.IndexFunc(before, func(l string) bool { return strings.HasPrefix(l, `{"id":"x-r"`) }); i >= 0 && gjson.Get(before[i], "success").Bool() {
						require.NotEqual(t, s, c.durable(s), "it was answered as done")
					}
					v := c.repeats(strings.Replace(line, "x-r", "x-again", 1))
					if code(v) == "session_unavailable" || code(v) == "not_durable" {
						v = c.repeats(strings.Replace(line, "x-r", "x-more", 1))
					}
					require.True(t, v.Get("success").Bool() || code(v) == "invalid_params" || code(v) == "nothing_to_do", v.Raw)
					made := c.durable(s)
					require.NotEqual(t, s, made)
					other := through(nodes[0], "client-two", "")
					require.True(t, other.Call(t, `{"type":"attach"`+at(s)+`}`).Get("success").Bool())
					require.Equal(t, made, other.durable(s))
					w.lose("b")
					other.pass(5 * time.Second)
					require.Equal(t, made, other.durable(s))
					require.NoError(t, other.leave())
					nodes[0].end()
				})
			})
		}
	}
}

// TestOpenedByItself: the session with which a handle began is not opened by itself as long as that leads to another one which is open
// on any node; then it is, and the handle is that session again.
func TestOpenedByItself(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, _, nodes := nodesOf(t, "a", "b")
		c := through(nodes[0], "client-one", "")
		s := c.openOn("b", "client-one")
		c.run(s, "~a~ one")
		c.Line(c.replacing(replaces[0], "x-r", s, ""))
		require.True(t, c.wait("x-r").Get("success").Bool())
		c.run(s, "~n~ of the new one")
		made := c.durable(s)
		open := fmt.Sprintf(`{"type":"open_session","sessionPath":%q}`, copies+"/"+s+".jsonl")
		for _, n := range nodes {
			of := through(n, "client-two", "")
			assert.Equal(t, "session_in_use", code(of.Call(t, open)))
			require.NoError(t, of.leave())
		}
		assert.Equal(t, made, c.durable(s))
		c.Call(t, `{"type":"close_session"`+at(s)+`}`)
		of := through(nodes[0], "client-three", "")
		require.True(t, of.Call(t, `{"type":"attach"`+at(s)+`}`).Get("success").Bool())
		assert.Equal(t, made, of.durable(s))
		of.Call(t, `{"type":"close_session"`+at(s)+`}`)
		v := of.Call(t, open)
		require.True(t, v.Get("success").Bool(), v.Raw)
		assert.Equal(t, s, of.durable(s))
		of.Call(t, `{"type":"close_session"`+at(s)+`}`)
		of = through(nodes[1], "client-four", "")
		require.True(t, of.Call(t, `{"type":"attach"`+at(s)+`}`).Get("success").Bool())
		assert.Equal(t, s, of.durable(s), "also where nothing was said in it")
		for _, n := range nodes {
			n.end()
		}
	})
}

// sessionsOf are the sessions of which an engine has a log.
func sessionsOf(t *testing.T, engine *clustertest.Memory) (ids []string) {
	t.Helper()
	all, _, err := engine.Client().List(t.Context(), "", 1000)
	require.NoError(t, err)
	for _, id := range all {
		ids = append(ids, string(id))
	}
	slices.Sort(ids)
	return ids
}
