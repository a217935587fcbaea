package relay

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors"
	"troupe/actors/cluster"
	"troupe/actors/conn"
	"troupe/actors/scenario/harness"
	"troupe/actors/scenario/nodetest"
)

// ownCopies is an option: each node has its own directory for copies, as on separate machines.
func ownCopies(c *actors.Config) { c.Sessions.Cluster.Dir = copiesOf(strings.TrimPrefix(c.Epoch, "e")) }

func copiesOf(node string) string { return "/" + node + nodetest.CopiesDir }

// waysTo returns the ways to address a session other than by its handle: its id, and its paths in
// the two lists that the client's node returns.
func waysTo(n *nodetest.Node, t *testing.T, handle string) map[string]string {
	t.Helper()
	is := n.Call(t, `{"type":"list_open_sessions"}`).Get(`data.sessions.#(sessionId=="` + handle + `")`)
	require.True(t, is.Exists())
	id := is.Get("durableId").Str
	ways := map[string]string{
		"durableId": fmt.Sprintf(`"durableId":%q`, id), "sessionFile": fmt.Sprintf(`"sessionPath":%q`, is.Get("sessionFile").Str),
	}
	if in := n.Call(t, `{"type":"list_sessions","scope":"all"}`).Get(`data.sessions.#(id=="` + id + `")`); in.Exists() {
		ways["path"] = fmt.Sprintf(`"sessionPath":%q`, in.Get("path").Str)
	}
	return ways
}

// TestNamedFar checks that a client of any node can attach to an open session by its id and by the
// paths in lists, repeatedly and in either role. The session may have been replaced, have no
// messages or be parked. The client then receives its events, and its commands are executed.
func TestNamedFar(t *testing.T) {
	for _, is := range []string{"as it was opened", "empty", "replaced", "replaced and used", "parked"} {
		t.Run(is, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				_, _, nodes := nodetest.ClusterWith(t, func(c *actors.Config) {
					ownCopies(c)
					if is == "parked" {
						c.Sessions.ParkAfter = time.Minute
					}
				}, "a", "b", "d")
				first := nodetest.NewClient(nodes[1], "client-one", "")
				s := first.OpenOn("b", "client-one")
				if is != "empty" {
					first.Run(s, "~x~ one")
				}
				if strings.HasPrefix(is, "replaced") {
					require.True(t, first.Call(t, `{"type":"new_session"`+harness.At(s)+`}`).Get("success").Bool())
				}
				if is == "replaced and used" {
					first.Run(s, "~y~ two")
				}
				clients := 0
				script := func(n *nodetest.Node, way string) (answers []string) {
					if is == "parked" {
						first.Advance(2 * time.Minute)
						nodes[1].RequireParked(s)
					}
					clients++
					c := nodetest.NewClient(n, fmt.Sprintf("client-of-%05d", clients), "")
					name := waysTo(c, t, s)[way]
					if name == "" {
						require.NoError(t, c.Leave())
						return nil
					}
					for i, role := range []string{"", `,"role":"viewer"`, ""} {
						id := fmt.Sprintf("x-%d", i)
						c.Line(fmt.Sprintf(`{"id":%q,"type":"attach",%s%s}`, id, name, role))
						answers = append(answers, strings.ReplaceAll(nodetest.NodeMembers.ReplaceAllString(c.AwaitResponse(id).Raw, ""), fmt.Sprintf("client-of-%05d", clients), ""))
						v := c.Call(t, `{"type":"abort"`+harness.At(s)+`}`)
						require.Equal(t, role == "", v.Get("success").Bool(), v.Raw)
					}
					require.True(t, gjson.Get(answers[0], "success").Bool(), answers[0])
					require.Equal(t, s, gjson.Get(answers[0], "data.sessionId").Str, answers[0])
					if is != "empty" && is != "replaced" {
						heard := len(c.Events(s, "agent_settled"))
						c.Run(s, "~z~ parts=1")
						require.Len(t, c.Events(s, "agent_settled"), heard+1)
					}
					require.NoError(t, c.Leave())
					return answers
				}
				for _, way := range []string{"durableId", "sessionFile", "path"} {
					own := script(nodes[1], way)
					assert.Equal(t, (is == "empty" || is == "replaced") && way == "path", own == nil, "%s: not listed before something is said", way)
					for _, n := range []*nodetest.Node{nodes[0], nodes[2]} {
						// In these cases nothing has changed in between.
						if far := script(n, way); is == "empty" || is == "replaced" {
							assert.Equal(t, own, far)
						}
					}
				}
				require.NoError(t, first.Leave())
				for _, n := range nodes {
					n.End()
				}
			})
		})
	}
}

// TestNamedNowhere checks that attach by id does not open a closed session, that attach by path
// does, and that a session that is open on any node is not opened twice. For an unknown session
// every node returns the same error at once.
func TestNamedNowhere(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		_, engine, nodes := nodetest.ClusterWith(t, ownCopies, "a", "b", "d")
		first := nodetest.NewClient(nodes[1], "client-one", "")
		s := first.OpenOn("b", "client-one")
		first.Run(s, "~x~ one")
		ask := func(n *nodetest.Node, line string) gjson.Result {
			t.Helper()
			c := nodetest.NewClient(n, "client-two", "")
			begun := time.Now()
			c.Line(line)
			v := c.AwaitResponse(gjson.Get(line, "id").Str)
			assert.Less(t, time.Since(begun), time.Second, line)
			require.NoError(t, c.Leave())
			return v
		}
		path := func(of, id string) string { return fmt.Sprintf(`"sessionPath":%q`, copiesOf(of)+"/"+id+".jsonl") }
		for i, n := range nodes {
			// These are the paths in list_sessions and list_open_sessions.
			for _, of := range []string{n.Name, "b"} {
				v := ask(n, fmt.Sprintf(`{"id":"x-%d%s","type":"open_session",%s}`, i, of, path(of, s)))
				if n.Name != "b" { // on node b, open_session attaches
					assert.Equal(t, "session_in_use", harness.Code(v), v.Raw)
					assert.Contains(t, v.Get("error").Str, "(by node b)")
				}
			}
		}
		unknown := string(cluster.RandomSessionID())
		logs := nodetest.Sessions(t, engine)
		first.Call(t, `{"type":"close_session"`+harness.At(s)+`}`)
		for i, n := range nodes {
			for _, id := range []string{s, unknown, "no such thing", "../x"} {
				v := ask(n, fmt.Sprintf(`{"id":"y-%d%s","type":"attach","durableId":%q}`, i, id[:2], id))
				assert.Equal(t, "unknown_session Unknown session: "+id, harness.Code(v)+" "+v.Get("error").Str)
			}
			for _, of := range []string{n.Name, "b", "e"} {
				v := ask(n, fmt.Sprintf(`{"id":"z-%d%s","type":"attach",%s}`, i, of, path(of, unknown)))
				assert.Contains(t, []string{"unknown_session", "not_found"}, harness.Code(v), v.Raw)
			}
			for _, file := range []string{"/nowhere.jsonl", "/nowhere/" + s + ".jsonl"} {
				assert.Equal(t, "not_found", harness.Code(ask(n, fmt.Sprintf(`{"id":"n-%d%d","type":"attach","sessionPath":%q}`, i, len(file), file))))
			}
			assert.Empty(t, ask(n, fmt.Sprintf(`{"id":"l-%d","type":"list_open_sessions"}`, i)).Get("data.sessions").Array())
		}
		assert.Equal(t, logs, nodetest.Sessions(t, engine))
		for i, n := range nodes {
			for _, command := range []string{"attach", "open_session"} {
				v := ask(n, fmt.Sprintf(`{"id":"o-%d%s","type":%q,%s}`, i, command, command, path(n.Name, s)))
				require.True(t, v.Get("success").Bool(), v.Raw)
				require.Equal(t, s, v.Get("data.sessionId").Str)
				c := nodetest.NewClient(n, "client-three", "")
				c.Call(t, `{"type":"attach"`+harness.At(s)+`}`)
				c.Call(t, `{"type":"close_session"`+harness.At(s)+`}`)
				require.NoError(t, c.Leave())
			}
		}
		require.NoError(t, first.Leave())
		for _, n := range nodes {
			n.End()
		}
	})
}

// TestNamedDefault checks that a client can attach to the default session of a client of another
// node.
func TestNamedDefault(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		_, _, nodes := nodetest.ClusterWith(t, ownCopies, "a", "b")
		of := nodetest.NewClient(nodes[1], "client-one", "", func(c *conn.Config) { c.MultiSession = false })
		of.Call(t, `{"type":"prompt","message":"~x~ one"}`)
		of.Advance(10 * time.Second)
		id := of.Call(t, `{"type":"get_state"}`).Get("data.sessionId").Str
		c := nodetest.NewClient(nodes[0], "client-two", "")
		for _, way := range waysTo(c, t, id) {
			v := c.Call(t, `{"type":"attach",`+way+`}`)
			require.True(t, v.Get("success").Bool(), v.Raw)
			c.Run(v.Get("data.sessionId").Str, "~y~ two")
		}
		assert.Equal(t, 3, nodetest.CountUserSaid(nodes[0].Log(id), "~y~ two"))
		require.NoError(t, c.Leave())
		require.NoError(t, of.Leave())
		for _, n := range nodes {
			n.End()
		}
	})
}

// TestNamedOnItsWay checks that attach by id or path succeeds while the session is moved or its
// node is drained or lost, and returns the current handle.
func TestNamedOnItsWay(t *testing.T) {
	for _, happens := range []string{"moves", "drained", "lost"} {
		for _, is := range []string{"as it was opened", "replaced"} {
			for early := range 12 {
				t.Run(fmt.Sprint(happens, " ", is, " ", early), func(t *testing.T) {
					harness.Bubble(t, func(t *testing.T) {
						w, _, nodes := nodetest.ClusterWith(t, ownCopies, "a", "b", "d")
						a, b := nodes[0], nodes[1]
						first := nodetest.NewClient(a, "client-one", "")
						s := first.OpenOn("b", "client-one")
						first.Run(s, "~x~ one")
						if is == "replaced" {
							require.True(t, first.Call(t, `{"type":"new_session"`+harness.At(s)+`}`).Get("success").Bool())
							first.Run(s, "~y~ two")
						}
						c := nodetest.NewClient(a, "client-two", "")
						ways := waysTo(c, t, s)
						switch happens {
						case "moves":
							first.Send(`{"type":"move_session","node":"d"` + harness.At(s) + `}`)
						case "drained":
							b.Member.Drain()
							go b.End()
							b.Lost = true
						case "lost":
							w.Lose("b")
						}
						c.Advance(time.Duration(early) * 2 * time.Millisecond)
						for name, way := range ways {
							c.Line(fmt.Sprintf(`{"id":"x-%s","type":"attach",%s}`, name, way))
						}
						for name := range ways {
							v := c.AwaitResponse("x-" + name)
							require.True(t, v.Get("success").Bool(), "%s: %s", name, v.Raw)
							require.Equal(t, s, v.Get("data.sessionId").Str)
						}
						c.Run(s, "~z~ three")
						assert.NotEmpty(t, c.Events(s, "agent_settled"))
						require.NoError(t, first.Leave())
						require.NoError(t, c.Leave())
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

// TestKnownWithoutAttach checks that a command that a client sends again on a new connection to any
// node, without attach, gets its first answer. A new command without attach gets unknown_session
// and does not open the session.
func TestKnownWithoutAttach(t *testing.T) {
	for _, happens := range []string{"nothing", "moved", "lost", "parked", "closed"} {
		for _, command := range []string{`"type":"prompt","message":"~w~ once"`, `"type":"new_session"`, `"type":"set_session_name","name":"once"`, `"type":"bash","command":"echo hi"`} {
			t.Run(happens+" "+gjson.Get("{"+command+"}", "type").Str, func(t *testing.T) {
				harness.Bubble(t, func(t *testing.T) {
					w, engine, nodes := nodetest.ClusterWith(t, func(c *actors.Config) {
						if happens == "parked" {
							c.Sessions.ParkAfter = time.Minute
						}
					}, "a", "b", "d")
					c := nodetest.NewClient(nodes[0], "client-one", "")
					s := c.OpenOn("b", "client-one")
					c.Run(s, "~x~ one")
					line := fmt.Sprintf(`{"id":"x-1",%s%s}`, command, harness.At(s))
					c.Line(line)
					said := c.AwaitResponse("x-1")
					require.True(t, said.Get("success").Bool(), said.Raw)
					c.Advance(10 * time.Second)
					is := c.SessionID(s)
					switch happens {
					case "moved":
						require.True(t, c.Call(t, `{"type":"move_session","node":"d"`+harness.At(s)+`}`).Get("success").Bool())
					case "lost":
						w.Lose("b")
					case "parked":
						c.Advance(2 * time.Minute)
						nodes[1].RequireParked(s)
					case "closed":
						c.Call(t, `{"type":"close_session"`+harness.At(s)+`}`)
					}
					require.NoError(t, c.Leave())
					logs, users := nodetest.Sessions(t, engine), strings.Count(nodes[0].Log(is), `"role":`)
					for i, n := range nodes {
						if n.Lost {
							continue
						}
						again := nodetest.NewClient(n, "client-one", "")
						fresh := again.Repeat(fmt.Sprintf(`{"id":"x-f%d","type":"prompt","message":"~f~ fresh"%s}`, i, harness.At(s)))
						assert.Equal(t, "unknown_session", harness.Code(fresh), fresh.Raw)
						for range 2 {
							v := again.Repeat(line)
							if happens == "closed" && n.Name != "b" {
								assert.Equal(t, "unknown_session", harness.Code(v), v.Raw)
								continue
							}
							assert.True(t, v.Get("success").Bool() && v.Get("replayed").Bool(), v.Raw)
							if happens != "lost" && happens != "moved" || strings.Contains(command, "session") {
								assert.Equal(t, said.Get("data").Raw, v.Get("data").Raw)
							}
						}
						reused := again.Repeat(strings.Replace(fmt.Sprintf(`{"id":"x-1","type":"prompt","message":"~f~ another"%s}`, harness.At(s)), "once", "twice", 1))
						assert.False(t, reused.Get("success").Bool() && !reused.Get("replayed").Bool(), reused.Raw)
						again.Advance(10 * time.Second)
						assert.Equal(t, "unknown_session", harness.Code(again.Repeat(fmt.Sprintf(`{"id":"x-g%d","type":"prompt","message":"~f~ more"%s}`, i, harness.At(s)))))
						assert.Empty(t, again.Events(s))
						assert.Equal(t, happens == "closed", !again.Repeat(fmt.Sprintf(`{"id":"x-l%d","type":"list_open_sessions"}`, i)).Get(`data.sessions.#(sessionId=="`+s+`")`).Exists())
						require.NoError(t, again.Leave())
					}
					assert.Equal(t, logs, nodetest.Sessions(t, engine))
					assert.Equal(t, users, strings.Count(nodes[0].Log(is), `"role":`))
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
