package defaultsession

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors"
	"troupe/actors/cluster/clustertest"
	"troupe/actors/conn"
	"troupe/actors/scenario/harness"
	"troupe/actors/scenario/nodetest"
	"troupe/actors/session"
)

// withDefault connects a client as troupe connect does: with a default session, which its commands
// do not name.
func withDefault(n *nodetest.Node, changes ...func(*conn.Config)) *nodetest.Node {
	return n.ConnectNode(append([]func(*conn.Config){func(of *conn.Config) { of.MultiSession, of.Drain = false, true }}, changes...)...)
}

// handle returns the handle that other nodes use for the default session of a client.
func handle(n *nodetest.Node) string {
	n.T.Helper()
	for _, s := range n.Call(n.T, `{"type":"list_open_sessions"}`).Get("data.sessions").Array() {
		if s.Get("isDefault").Bool() {
			return s.Get("sessionId").Str
		}
	}
	require.Fail(n.T, "no default session is open")
	return ""
}

// TestDefaultSessionGoesOn checks that a client that does not name its session is not affected when
// the session moves to another node or back: each command is answered once, and events carry no
// session id.
func TestDefaultSessionGoesOn(t *testing.T) {
	for _, happens := range []string{"moved", "moved in turns", "killed", "drained"} {
		for _, features := range []string{"", "deltaUpdates,stateEvents,dialogEvents", "seq"} {
			t.Run(happens+" "+features, func(t *testing.T) {
				harness.Bubble(t, func(t *testing.T) {
					w, _, nodes := nodetest.ClusterWith(t, func(c *actors.Config) { c.DrainLimit = time.Second }, "a", "b", "d")
					a, b := nodes[0], nodes[1]
					c := withDefault(a, func(of *conn.Config) {
						of.Features = strings.FieldsFunc(features, func(r rune) bool { return r == ',' })
					})
					other := nodetest.NewClient(b, "client-two", "")
					c.Run("", "~a~ one")
					s := handle(c)
					require.Len(t, c.Events("", "agent_settled"), 1)
					move := func(to string) {
						v := other.Call(t, `{"type":"attach"`+harness.At(s)+`}`)
						require.True(t, v.Get("success").Bool(), v.Raw)
						v = other.Call(t, `{"type":"move_session","node":"`+to+`"`+harness.At(s)+`}`)
						require.True(t, v.Get("success").Bool(), v.Raw)
						c.Advance(3 * time.Second)
					}
					again := func() {
						if features == "seq" {
							v := c.Call(t, `{"type":"attach"`+harness.At(s)+`}`)
							require.True(t, v.Get("success").Bool(), v.Raw)
						}
					}
					move("b")
					again()
					settled := 1
					works := func(text string) {
						settled++
						c.Run("", text)
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
						w.Lose("b")
						c.Advance(5 * time.Second)
						again()
					case "drained":
						b.Member.Drain()
						w.SetNode("b", nil)
						b.End()
						b.Lost = true
						c.Advance(5 * time.Second)
						again()
					}
					assert.Equal(t, s, handle(c))
					for _, line := range []string{
						`{"type":"set_session_name","name":"N"}`, `{ "type":"get_state"}`, `{"type":"get_messages"}`, `{"type":"list_sessions"}`, `{"type":"bash","command":"echo hi"}`,
					} {
						v := c.Call(t, line)
						assert.True(t, v.Get("success").Bool(), v.Raw)
						assert.False(t, v.Get("sessionId").Exists(), v.Raw)
					}
					v := c.Call(t, `{"type":"set_model"}`)
					assert.Equal(t, "invalid_params", harness.Code(v), v.Raw)
					v = c.Call(t, `{"type":"get_state"`+harness.At(s)+`}`)
					assert.Equal(t, []string{s, s}, []string{v.Get("sessionId").Str, v.Get("data.sessionId").Str}, "it may be named")
					works("~y~ three")
					v = c.Call(t, `{"type":"detach"`+harness.At(s)+`}`)
					assert.Equal(t, "invalid_params", harness.Code(v), v.Raw)
					v = c.Call(t, `{"type":"new_session"}`)
					require.True(t, v.Get("success").Bool(), v.Raw)
					works("~z~ four")
					is := c.Call(t, `{"type":"get_state"}`).Get("data.sessionId").Str
					require.NotEqual(t, s, is)
					changed := c.Events(is, "session_changed") // which carries the id on this node
					require.NotEmpty(t, changed)
					assert.Equal(t, []string{is, ""}, []string{changed[len(changed)-1].Get("sessionId").Str, changed[len(changed)-1].Get("durableId").Str})
					for _, line := range c.Lines() {
						if v := gjson.Parse(line); v.Get("type").Str != "response" && v.Get("type").Str != "session_changed" {
							assert.False(t, v.Get("sessionId").Exists(), line)
						}
					}
					require.NoError(t, c.Leave())
					other.Advance(30 * time.Second)
					require.NoError(t, other.Leave())
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

// TestDefaultSessionComesBack checks that a client can have a session of the cluster as its default
// session through any node, whether that is open or closed, and receives all its events. Its first
// command may be one that must not be executed twice.
func TestDefaultSessionComesBack(t *testing.T) {
	for _, is := range []string{"closed", "open", "open under another's name", "lost", "only there", "only there, lost"} {
		for _, first := range []string{"get_state", "prompt"} {
			for _, asked := range []string{"a", "b", "d"} {
				t.Run(is+" "+first+" "+asked, func(t *testing.T) {
					harness.Bubble(t, func(t *testing.T) {
						w, _, nodes := nodetest.Cluster(t, "a", "b", "d")
						at0 := map[string]*nodetest.Node{"a": nodes[0], "b": nodes[1], "d": nodes[2]}
						lost := strings.Contains(is, "lost")
						if lost && asked == "b" {
							asked = "a"
						}
						cwd := "w:"
						if strings.Contains(is, "only") {
							cwd = "only-b:"
						}
						other := nodetest.NewClient(nodes[1], "client-zero", "")
						v := other.Call(t, `{"type":"open_session","cwd":"`+cwd+`"}`)
						require.True(t, v.Get("success").Bool(), v.Raw)
						s := v.Get("data.sessionId").Str
						other.Run(s, "~a~ one")
						id := s
						if strings.Contains(is, "another") {
							require.True(t, other.Call(t, `{"type":"new_session"`+harness.At(s)+`}`).Get("success").Bool())
							other.Run(s, "~a~ one")
							id = other.SessionID(s)
						}
						opened := !strings.Contains(is, "closed") && !strings.Contains(is, "only") || is == "only there, lost"
						if !opened {
							require.True(t, other.Call(t, `{"type":"close_session"`+harness.At(s)+`}`).Get("success").Bool())
						}
						if lost {
							w.Lose("b")
						}
						c := withDefault(at0[asked], func(of *conn.Config) {
							of.Default = at0[asked].Config.Sessions.Default
							of.Default.Path = nodetest.CopiesDir + "/" + id + ".jsonl"
						})
						if first == "prompt" {
							c.Say("", "prompt", "~b~ two")
						}
						if v := c.Call(t, `{"type":"get_state"}`); is == "only there, lost" {
							require.False(t, v.Get("success").Bool(), v.Raw)
							require.NotEqual(t, "unknown_session", harness.Code(v), v.Raw)
						} else {
							require.Equal(t, id, v.Get("data.sessionId").Str, v.Raw)
							if first == "prompt" {
								c.Advance(10 * time.Second)
							} else {
								c.Run("", "~b~ two")
							}
							assert.Len(t, c.Events("", "agent_settled"), 1)
							assert.Equal(t, 1, nodetest.CountUserSaid(at0[asked].Log(id), "~a~ one"))
							assert.Equal(t, 1, nodetest.CountUserSaid(at0[asked].Log(id), "~b~ two"))
							if opened && !lost {
								assert.NotEmpty(t, other.Events(s, "agent_settled"), "it is one session")
								other.Run(s, "~c~ three")
								assert.Len(t, c.Events("", "agent_settled"), 2)
							}
						}
						for _, line := range c.Lines() {
							assert.False(t, gjson.Get(line, "sessionId").Exists(), line)
						}
						require.NoError(t, c.Leave())
						if !lost {
							require.NoError(t, other.Leave())
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
}

// TestSessionsOfADirectory checks that the newest session of a directory, and a session by the
// start of its id, are looked up in the whole cluster if the directory is in a root, and on this
// node otherwise.
func TestSessionsOfADirectory(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		_, _, nodes := nodetest.Cluster(t, "a", "b")
		a, b := nodes[0].Config.Sessions.Cluster, nodes[1].Config.Sessions.Cluster
		newest := func(of *session.Cluster, cwd string) string {
			t.Helper()
			path, err := of.Newest(cwd)
			require.NoError(t, err)
			return strings.TrimSuffix(filepath.Base(path), ".jsonl")
		}
		none := newest(a, harness.EmptyDir)
		assert.Equal(t, ".", none, "there is none yet")
		c := nodetest.NewClient(nodes[1], "client-one", "")
		opened := func(cwd string) string {
			t.Helper()
			v := c.Call(t, `{"type":"open_session","cwd":"`+cwd+`"}`)
			require.True(t, v.Get("success").Bool(), v.Raw)
			s := v.Get("data.sessionId").Str
			c.Run(s, "~a~ one")
			c.Call(t, `{"type":"close_session"`+harness.At(s)+`}`)
			return s
		}
		outside := t.TempDir()
		first := opened("w:")
		assert.Equal(t, []string{first, first}, []string{newest(a, harness.EmptyDir), newest(b, harness.EmptyDir)})
		second, plain := opened("w:"), opened(outside)
		assert.Equal(t, []string{second, second}, []string{newest(a, harness.EmptyDir), newest(b, harness.EmptyDir)})
		assert.Equal(t, []string{".", plain}, []string{newest(a, outside), newest(b, outside)}, "a directory of the other node")
		for _, of := range []*session.Cluster{a, b} {
			path, elsewhere, ok, err := of.Resolve(harness.EmptyDir, first[:8])
			require.NoError(t, err)
			assert.Equal(t, []any{first + ".jsonl", "", true}, []any{filepath.Base(path), elsewhere, ok})
			path, elsewhere, ok, err = of.Resolve(harness.EmptyDir, plain)
			require.NoError(t, err)
			there := outside // another project; on the other node it belongs to no project
			if of == a {
				there = ""
			}
			assert.Equal(t, []any{plain + ".jsonl", there, true}, []any{filepath.Base(path), elsewhere, ok})
			_, _, ok, err = of.Resolve(harness.EmptyDir, "ffffffff-0000")
			require.NoError(t, err)
			assert.False(t, ok)
		}
		nodes[0].Engine.Cut(clustertest.Gone)
		_, err := a.Newest(harness.EmptyDir)
		assert.ErrorContains(t, err, "cannot be listed")
		nodes[0].Engine.Cut(clustertest.Whole)
		c.Advance(10 * time.Second)
		require.NoError(t, c.Leave())
		for _, n := range nodes {
			n.End()
		}
	})
}
