package defaultsession

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors/cluster/clustertest"
	"troupe/actors/conn"
	"troupe/actors/scenario/harness"
	"troupe/actors/scenario/nodetest"
)

// namedDefault connects a client with a default session. It sends hello with the members more,
// unless the client id is empty, as pi's clients do.
func namedDefault(n *nodetest.Node, client, more string) *nodetest.Node {
	change := func(c *conn.Config) { c.MultiSession, c.Retain = false, false }
	if client == "" {
		return n.ConnectNode(change)
	}
	return nodetest.NewClient(n, client, more, change)
}

// TestDefaultBytes (C10) checks that a client reads the same bytes from its default session whether
// that is on its own node or was moved to another one, in every dialect.
func TestDefaultBytes(t *testing.T) {
	for _, dialect := range []string{"union", "s0", "s1", "s2", "s3", "s4", "pi1"} {
		t.Run(dialect, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				world := func(moves bool) (lines []string) {
					_, _, nodes := nodetest.Cluster(t, "a", "b")
					c := namedDefault(nodes[0], "client-one", fmt.Sprintf(`,"dialect":%q,"features":["stateEvents"]`, dialect))
					c.Run("", "~x~ one")
					s := c.Call(t, `{"type":"get_state"}`).Get("data.sessionId").Str
					// The session gets the rules of this client on the other node.
					by := nodetest.NewClient(nodes[1], "client-two", fmt.Sprintf(`,"dialect":%q`, dialect))
					require.True(t, by.Call(t, `{"type":"attach"`+harness.At(s)+`}`).Get("success").Bool())
					if moves {
						v := by.Call(t, `{"type":"move_session","node":"b"`+harness.At(s)+`}`)
						require.True(t, v.Get("success").Bool(), v.Raw)
						c.Advance(time.Second)
					}
					require.NoError(t, by.Leave())
					c.Advance(time.Second)
					from := len(c.Lines())
					for i, line := range []string{
						`{"id":%d,"type":"get_state","sessionId":""}`, `{"type":"host_tool_result","id":"no-%d","result":{"content":[]}}`, `{"id":%d,"type":"set_session_name","name":"a name"} `, `{"type":"prompt","id":{"sessionId":"x%d"},"message":"~x~ pace=50 parts=8 tool=look rounds=2"}`,
						`{"id":"%d","type":"get_messages"}`, `{"id":"%d","type":"no_such_thing","x":[1,2]}`, `{"type":"set_model","id":"%d"}`, `{"id":"%d","type":"prompt","message":7}`,
						`{"type":"bash","command":"echo hi","id":"%d"}`, `{"type":"get_last_assistant_text","id":[%d]}`, `{"type":"extension_ui_response","id":"no-%d","confirmed":true}`,
						`{"id":"%d","type":"detach","sessionId":"$s"}`, `{"id":"%d","type":"attach","sessionId":"$s"}`, `{"id":"%d","type":"get_state","sessionId":"$s"}`,
						`{"id":"%d","type":"new_session"}`, `{"id":"%d","type":"prompt","message":"~x~ three"}`, `{"id":"%d","type":"get_session_stats"}`,
					} {
						c.Line(strings.ReplaceAll(fmt.Sprintf(line, i), "$s", s))
						c.Advance(10 * time.Second)
					}
					lines = c.Lines()[from:]
					for i := range lines {
						lines[i] = nodetest.NodeMembers.ReplaceAllString(lines[i], "")
					}
					require.NoError(t, c.Leave())
					for _, n := range nodes {
						n.End()
					}
					return lines
				}
				begun := time.Now()
				direct := world(false)
				time.Sleep(time.Hour - time.Since(begun)) // timestamps differ by an hour
				relayed := world(true)
				own := regexp.MustCompile(`"(timestamp|[a-zA-Z]*[sS]ince|modified|created|t|duration|durationMs|ttft)":("[^"]*"|\d+)|"(id|parentId|leafId|entryId)":"[0-9a-f]{8}"|"runId":"[^"]*"|[0-9a-f]{8}-[0-9a-f-]{27}`)
				for i := range max(len(direct), len(relayed)) {
					require.Less(t, i, len(direct), relayed)
					require.Less(t, i, len(relayed), direct[i:])
					require.Equal(t, own.ReplaceAllString(direct[i], ""), own.ReplaceAllString(relayed[i], ""))
				}
				assert.Greater(t, len(direct), 40)
			})
		})
	}
}

// TestDefaultGoesOn checks that a client can use its default session, and receives its events,
// after the session was moved, lost or drained, and after it has come back.
func TestDefaultGoesOn(t *testing.T) {
	for _, happens := range []string{"moved", "moved itself", "moved twice", "moved and back", "stood still", "stood still in a run", "moved and lost in a run", "moved and drained"} {
		for _, more := range []string{"unnamed", "", `,"dialect":"pi1"`, `,"features":["seq","deltaUpdates"]`} {
			t.Run(happens+more, func(t *testing.T) {
				harness.Bubble(t, func(t *testing.T) {
					w, _, nodes := nodetest.Cluster(t, "a", "b", "d")
					a, b := nodes[0], nodes[1]
					name := "client-one"
					if more == "unnamed" {
						name = ""
					}
					c := namedDefault(a, name, more)
					c.Run("", "~x~ one")
					s := c.Call(t, `{"type":"get_state"}`).Get("data.sessionId").Str
					by := nodetest.NewClient(nodes[2], "client-two", "")
					require.True(t, by.Call(t, `{"type":"attach"`+harness.At(s)+`}`).Get("success").Bool())
					move := func(c *nodetest.Node, to string) {
						v := c.Call(t, fmt.Sprintf(`{"type":"move_session","node":%q%s}`, to, harness.At(s)))
						require.True(t, v.Get("success").Bool(), v.Raw)
						c.Advance(2 * time.Second)
					}
					again := func() { // a client with the feature seq attaches again
						if strings.Contains(more, "seq") {
							v := c.Call(t, `{"type":"attach"`+harness.At(s)+`}`)
							require.True(t, v.Get("success").Bool(), v.Raw)
						}
					}
					runs := 1
					moves := 1
					switch happens {
					case "moved":
						move(by, "b")
					case "moved itself":
						move(c, "b")
					case "moved twice", "moved and back":
						move(by, "b")
						again()
						c.Run("", "~x~ between")
						move(by, map[string]string{"moved twice": "d", "moved and back": "a"}[happens])
						runs, moves = runs+1, moves+1
					case "stood still", "stood still in a run":
						if happens == "stood still in a run" {
							c.Say("", "prompt", "~r~ pace=500 parts=20")
							c.Advance(2 * time.Second)
							runs++
						}
						a.Engine.Cut(clustertest.Gone)
						c.Advance(5 * time.Second)
						by.Run(s, "~x~ of another")
						a.Engine.Cut(clustertest.Whole)
						runs++
						again()
						c.Advance(time.Minute)
					case "moved and lost in a run":
						move(by, "b")
						again()
						c.Say("", "prompt", "~r~ pace=500 parts=20")
						c.Advance(2 * time.Second)
						w.Lose("b")
						c.Advance(2 * time.Second)
						again()
						c.Advance(time.Minute)
						runs, moves = runs+1, moves+1
					case "moved and drained":
						move(by, "b")
						b.Member.Drain()
						w.SetNode("b", nil)
						b.End()
						b.Lost = true
						c.Advance(10 * time.Second)
						moves++
					}
					again()
					c.Run("", "~x~ two")
					runs++
					kinds := strings.Join(c.Kinds(""), " ")
					if !strings.Contains(more, "seq") && !strings.Contains(happens, "still") {
						assert.Equal(t, runs, strings.Count(kinds, "agent_settled"), kinds)
					}
					assert.True(t, strings.HasSuffix(kinds, "agent_settled"), kinds)
					assert.Len(t, c.Events("", "session_moved"), moves, kinds)
					assert.NotContains(t, strings.Join(c.Lines(), "\n"), `","sessionId":"`+s+`","command":"prompt"`)
					assert.Empty(t, c.Events(s))
					assert.Empty(t, c.Unanswered())
					text := a.Log(s)
					for _, say := range []string{"~x~ one", "~x~ two"} {
						assert.Equal(t, 1, nodetest.CountUserSaid(text, say))
					}
					open := c.Call(t, `{"type":"list_open_sessions"}`).Get(`data.sessions.#(sessionId=="` + s + `")`)
					assert.True(t, open.Get("isDefault").Bool(), open.Raw)
					require.NoError(t, by.Leave())
					require.NoError(t, c.Leave())
					time.Sleep(5 * time.Second)
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

// TestDefaultWhileMoved checks that commands to a default session that is moved back and forth are
// answered once, and executed once and in order. A command that is sent again is recognized on
// either node.
func TestDefaultWhileMoved(t *testing.T) {
	for _, name := range []string{"", "client-one"} {
		t.Run(name, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				_, _, nodes := nodetest.Cluster(t, "a", "b")
				c := namedDefault(nodes[0], name, "")
				c.Run("", "~x~ one")
				s := c.Call(t, `{"type":"get_state"}`).Get("data.sessionId").Str
				by := nodetest.NewClient(nodes[1], "client-two", "")
				require.True(t, by.Call(t, `{"type":"attach"`+harness.At(s)+`}`).Get("success").Bool())
				var asked []string
				for i := range 16 {
					by.Line(fmt.Sprintf(`{"id":"m%d","type":"move_session","node":%q%s}`, i, []string{"b", "a"}[i%2], harness.At(s)))
					for k := range 12 {
						id := fmt.Sprintf("n%d-%d", i, k)
						c.Line(fmt.Sprintf(`{"id":%q,"type":"set_session_name","name":%q}`, id, id))
						asked = append(asked, id)
						c.Advance(time.Duration(i) * 400 * time.Microsecond)
					}
					by.AwaitResponse(fmt.Sprint("m", i))
					c.Advance(2 * time.Second)
				}
				text, last := nodes[0].Log(s), 0
				for _, id := range asked {
					v := c.AwaitResponse(id)
					require.True(t, v.Get("success").Bool(), v.Raw)
					require.Equal(t, 1, strings.Count(text, `"name":"`+id+`"`), id)
					where := strings.Index(text, `"name":"`+id+`"`)
					require.Greater(t, where, last, id)
					last = where
				}
				if name != "" {
					again := func(line string) {
						c.Line(line)
						c.Advance(10 * time.Second)
						var answers []gjson.Result
						for _, l := range c.Lines() {
							if v := gjson.Parse(l); v.Get("type").Str == "response" && v.Get("id").Str == gjson.Get(line, "id").Str {
								answers = append(answers, v)
							}
						}
						require.NotEmpty(t, answers)
						for _, v := range answers {
							assert.True(t, v.Get("success").Bool(), v.Raw)
							assert.False(t, v.Get("sessionId").Exists(), v.Raw)
						}
					}
					lines := []string{`{"id":"x-0","type":"prompt","message":"~x~ 0"}`, `{"id":"x-1","type":"prompt","message":"~x~ 1"}`}
					for i, to := range []string{"b", "a", "b", "a"} {
						for range 2 {
							again(lines[i%2])
							again(lines[0])
						}
						v := by.Call(t, fmt.Sprintf(`{"type":"move_session","node":%q%s}`, to, harness.At(s)))
						require.True(t, v.Get("success").Bool(), v.Raw)
						c.Advance(2 * time.Second)
					}
					text = nodes[0].Log(s)
					for i := range lines {
						assert.Equal(t, 1, nodetest.CountUserSaid(text, fmt.Sprint("~x~ ", i)))
					}
				}
				assert.Empty(t, c.Unanswered())
				require.NoError(t, by.Leave())
				require.NoError(t, c.Leave())
				for _, n := range nodes {
					n.End()
				}
			})
		})
	}
}

// TestDefaultOfNobody checks that queries to a default session that no node can own are answered
// from the copy of the client's node, without a session id.
func TestDefaultOfNobody(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		w, _, nodes := nodetest.Cluster(t, "a", "b")
		a := nodes[0]
		c := namedDefault(a, "client-one", "")
		c.Run("", "~x~ one")
		s := c.Call(t, `{"type":"get_state"}`).Get("data.sessionId").Str
		v := c.Call(t, `{"type":"move_session","node":"b"`+harness.At(s)+`}`)
		require.True(t, v.Get("success").Bool(), v.Raw)
		c.Run("", "~x~ two")
		a.Engine.Cut(clustertest.Gone)
		w.Lose("b")
		v = c.Call(t, `{"type":"get_messages"}`)
		assert.True(t, v.Get("success").Bool(), v.Raw)
		assert.False(t, v.Get("sessionId").Exists(), v.Raw)
		v = c.Call(t, `{"type":"get_messages"`+harness.At(s)+`}`)
		assert.Equal(t, s, v.Get("sessionId").Str, v.Raw)
		a.Engine.Cut(clustertest.Whole)
		c.Advance(10 * time.Second)
		c.Run("", "~x~ three")
		assert.Equal(t, 1, nodetest.CountUserSaid(a.Log(s), "~x~ three"))
		require.NoError(t, c.Leave())
		a.End()
	})
}
