package failover

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors"
	"troupe/actors/actortest"
	"troupe/actors/cluster/clustertest"
	"troupe/actors/scenario/harness"
	"troupe/actors/scenario/nodetest"
)

// questions returns the distinct ids of the events of a type in a session, in order.
func questions(n *nodetest.Node, session, event string) (ids []string) {
	for _, e := range n.Events(session, event) {
		if id := e.Get("id").Str; !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// gated returns an option: sessions have an extension that asks about every call.
func gated(t *testing.T) func(*actors.Config) {
	found := filepath.Join(t.TempDir(), "x.ts")
	require.NoError(t, os.WriteFile(found, nil, 0o600))
	return func(c *actors.Config) {
		c.Sessions.ExtensionHost, c.Sessions.Extensions.Sources = actortest.GateHost{}, []string{found}
	}
}

// TestQuestionsOverNodes checks that a dialog on the next owner never has the id of an earlier
// dialog, so that a late answer cannot be taken for the answer to another dialog.
func TestQuestionsOverNodes(t *testing.T) {
	const hostTool = "host_tool_call"
	gate := gated(t)
	for _, by := range []struct {
		name, tool, event string
		open, again       bool // open when the node is lost; asked again under its id
		change            func(*actors.Config)
	}{
		{"extension", "danger", "extension_ui_request", true, false, gate},
		{"consent", "danger", "extension_ui_request", true, true, harness.ConfirmDanger},
		{"consent, answered", "danger", "extension_ui_request", false, false, harness.ConfirmDanger},
		{"host tool", "hosted", hostTool, true, false, func(*actors.Config) {}},
	} {
		t.Run(by.name, func(t *testing.T) {
			nodetest.Two(t, func(t *testing.T, a, b *nodetest.Node) {
				asks := func(n *nodetest.Node, id, name string) string {
					t.Helper()
					if by.event == hostTool {
						require.True(t, n.Call(t, harness.DeclareTool(id, by.tool)).Get("success").Bool())
					}
					n.Say(id, "prompt", "~"+name+"~ rounds=1 calls=1 tool="+by.tool)
					n.Advance(time.Second)
					ids := questions(n, id, by.event)
					require.NotEmpty(t, ids)
					return ids[len(ids)-1]
				}
				answer := func(n *nodetest.Node, id, to string) {
					line := `{"type":"extension_ui_response","confirmed":true`
					if by.event == hostTool {
						line = `{"type":"host_tool_result","result":"the answer to it"`
					}
					n.Line(line + `,"id":"` + to + `"` + harness.At(id) + `}`)
					n.Advance(5 * time.Second)
				}
				s := a.Open()
				results := func() int { return strings.Count(b.Log(s), `"role":"toolResult"`) }
				first := asks(a, s, "x")
				answer(a, s, first)
				old := asks(a, s, "y")
				require.NotEqual(t, first, old)
				if !by.open {
					answer(a, s, old)
				}
				a.Lose()
				b.Take(s)
				b.Advance(10 * time.Second)
				if by.again {
					require.Equal(t, []string{old}, questions(b, s, by.event))
					answer(b, s, old)
				}
				before := results()
				now := asks(b, s, "z")
				assert.NotContains(t, []string{first, old}, now)
				answer(b, s, old)
				answer(b, s, first)
				assert.Equal(t, before, results(), "nobody has answered it")
				answer(b, s, now)
				assert.Equal(t, before+1, results())
			}, by.change)
		})
	}
}

// takenOver makes node a take over a session of node b: either b is lost, or it is cut off from the
// engine until a owns the session. The returned function ends the nodes that remain.
func takenOver(w *nodetest.Network, a, b *nodetest.Node, session, how string) (end func()) {
	if how == "lost" {
		w.Lose("b")
		return a.End
	}
	b.Engine.Cut(clustertest.Gone)
	w.SetNode("b", nil)
	other := nodetest.NewClient(a, "client-two", "")
	require.True(a.T, other.Call(a.T, `{"type":"attach"`+harness.At(session)+`}`).Get("success").Bool())
	b.Engine.Cut(clustertest.Whole)
	return func() {
		require.NoError(a.T, other.Leave())
		a.End()
		b.End()
	}
}

// TestDialogEndsWithItsNode checks that an open dialog of an extension, and the command that opened
// it, end for all clients when the owner is lost, drained or fenced. A later answer is rejected
// with dialog_over.
func TestDialogEndsWithItsNode(t *testing.T) {
	gate := gated(t)
	for _, how := range []string{"lost", "drained", "fenced"} {
		for _, prompt := range []string{"~x~ rounds=1 calls=1 tool=danger", "/xc"} {
			for _, seq := range []string{"", `,"seq"`} {
				t.Run(how+" "+prompt+seq, func(t *testing.T) {
					harness.Bubble(t, func(t *testing.T) {
						w, _, nodes := nodetest.ClusterWith(t, func(c *actors.Config) {
							c.DrainLimit = 500 * time.Millisecond
							gate(c)
						}, "a", "b")
						a, b := nodes[0], nodes[1]
						of := a
						if how == "fenced" {
							of = b
						}
						c := nodetest.NewClient(of, "client-one", `,"features":["deltaUpdates","dialogEvents","stateEvents","uiAck"`+seq+`]`)
						s := c.OpenOn("b", "client-one")
						c.Say(s, "prompt", prompt)
						c.Advance(time.Second)
						old := questions(c, s, "extension_ui_request")
						require.Len(t, old, 1)
						require.Empty(t, c.Events(s, "dialog_resolved"))
						end := a.End
						if how == "drained" {
							b.Member.Drain()
							b.Daemon.Stop(actors.Stop{})
						} else {
							end = takenOver(w, a, b, s, how)
						}
						c.Advance(20 * time.Second)
						if seq != "" {
							require.True(t, c.Call(t, `{"type":"attach"`+harness.At(s)+`}`).Get("success").Bool())
						}
						over := c.Events(s, "dialog_resolved")
						require.Len(t, over, 1, c.Kinds(s))
						assert.Equal(t, old[0]+" lost", over[0].Get("id").Str+" "+over[0].Get("outcome").Str)
						ends := c.Events(s, "extension_command_end")
						if prompt == "/xc" {
							require.Len(t, ends, 1, c.Kinds(s))
							assert.Equal(t, "xc", ends[0].Get("name").Str)
						} else {
							assert.Empty(t, ends)
						}
						c.Line(`{"type":"extension_ui_response","id":"` + old[0] + `","confirmed":true` + harness.At(s) + `}`)
						v := c.AwaitResponse(old[0])
						assert.Equal(t, "dialog_over lost", harness.Code(v)+" "+v.Get("data.outcome").Str, v.Raw)
						require.NoError(t, c.Leave())
						end()
					})
				})
			}
		}
	}
}

// TestApprovalEndsWithItsNode checks that an open approval ends for all clients when its owner is
// lost or fenced, in a cluster that does not resume runs. It is not asked again.
func TestApprovalEndsWithItsNode(t *testing.T) {
	for _, how := range []string{"lost", "fenced"} {
		for _, by := range [][3]string{{"approvals", "approval_request", "approval_resolved"}, {"dialogEvents", "extension_ui_request", "dialog_resolved"}} {
			for _, seq := range []string{"", `,"seq"`} {
				t.Run(how+" "+by[0]+seq, func(t *testing.T) {
					harness.Bubble(t, func(t *testing.T) {
						w, _, nodes := nodetest.ClusterWith(t, func(c *actors.Config) {
							if by[0] == "approvals" {
								harness.AskMode(c)
							} else {
								harness.ConfirmDanger(c)
							}
							c.Sessions.Cluster.Stop, c.Relay.Stops = true, true
						}, "a", "b")
						a, b := nodes[0], nodes[1]
						of := a
						if how == "fenced" {
							of = b
						}
						c := nodetest.NewClient(of, "client-one", `,"features":["deltaUpdates","`+by[0]+`"`+seq+`]`)
						s := c.OpenOn("b", "client-one")
						c.Say(s, "prompt", "~x~ rounds=1 calls=1 tool=danger")
						c.Advance(time.Second)
						old := questions(c, s, by[1])
						require.Len(t, old, 1, c.Kinds(s))
						end := takenOver(w, a, b, s, how)
						c.Advance(20 * time.Second)
						if seq != "" {
							require.True(t, c.Call(t, `{"type":"attach"`+harness.At(s)+`}`).Get("success").Bool())
						}
						over := c.Events(s, by[2])
						require.Len(t, over, 1, c.Kinds(s))
						assert.Equal(t, old[0], over[0].Get("id").Str)
						assert.Equal(t, old, questions(c, s, by[1]), "it is not asked again")
						require.NoError(t, c.Leave())
						end()
					})
				})
			}
		}
	}
}

// TestAnswersBehindAMove checks that an answer to a dialog is acknowledged once to a client that
// asks for it, also if it arrives while the session is moved or its node is lost. Results of host
// tools are never acknowledged.
func TestAnswersBehindAMove(t *testing.T) {
	answers := []string{
		`"type":"extension_ui_response","confirmed":true,"id":%q`, `"type":"approval_response","approvalId":"none","optionId":"once","id":%q`,
		`"type":"host_tool_result","result":"none","id":%q`,
	}
	for _, how := range []string{"moved", "moved, of its own node", "drained", "lost"} {
		for _, features := range []string{`"uiAck","dialogEvents"`, `"uiAck"`, `"dialogEvents"`} {
			t.Run(how+" "+features, func(t *testing.T) {
				harness.Bubble(t, func(t *testing.T) {
					w, _, nodes := nodetest.Cluster(t, "a", "b")
					of := nodes[0]
					if strings.Contains(how, "own") {
						of = nodes[1]
					}
					c := nodetest.NewClient(of, "client-one", `,"features":[`+features+`,"deltaUpdates"]`)
					s := c.OpenOn("b", "client-one")
					c.Run(s, "~x~ one")
					asked, before := []string{}, len(c.Lines())
					say := func(n int) {
						for i := range n {
							for k, line := range answers {
								id := fmt.Sprintf("x-%d-%d-%d", len(asked), i, k)
								c.Line(`{` + fmt.Sprintf(line, id) + harness.At(s) + `}`)
								asked = append(asked, id)
							}
							c.Advance(time.Duration(i) * 300 * time.Microsecond)
						}
					}
					say(1)
					switch how {
					default:
						c.Line(`{"id":"x-m","type":"move_session","node":"a"` + harness.At(s) + `}`)
					case "drained":
						nodes[1].Member.Drain()
						nodes[1].Daemon.Stop(actors.Stop{})
					case "lost":
						w.Lose("b")
					}
					say(12)
					c.Advance(20 * time.Second)
					heard := strings.Join(c.Lines()[before:], "\n")
					for i, id := range asked {
						want := 1
						if k := i % len(answers); k == 2 || k == 0 && !strings.Contains(features, "uiAck") {
							want = 0
						}
						assert.Equal(t, want, strings.Count(heard, `{"id":"`+id+`","type":"response"`), "%s: %s", id, answers[i%len(answers)])
					}
					assert.NotContains(t, heard, "session_closing")
					require.NoError(t, c.Leave())
					nodes[0].End()
					if strings.HasPrefix(how, "moved") {
						nodes[1].End()
					}
				})
			})
		}
	}
}

// TestMoveWaitsForExtensions checks that a session with a running command of an extension is not
// moved before the command has ended, and that its dialog can be answered meanwhile.
func TestMoveWaitsForExtensions(t *testing.T) {
	gate := gated(t)
	for _, from := range []int{0, 1} {
		t.Run(fmt.Sprint(from), func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				_, _, nodes := nodetest.ClusterWith(t, gate, "a", "b")
				c := nodetest.NewClient(nodes[from], "client-one", `,"features":["deltaUpdates","dialogEvents","stateEvents","uiAck"]`)
				s := c.OpenOn("b", "client-one")
				c.Run(s, "~x~ one")
				c.Say(s, "prompt", "/xc")
				c.Advance(time.Second)
				asked := questions(c, s, "extension_ui_request")
				require.Len(t, asked, 1)
				move := `{"type":"move_session","node":"a"` + harness.At(s) + `}`
				assert.Equal(t, "session_busy", harness.Code(c.Call(t, move)))
				c.Advance(time.Minute)
				assert.Empty(t, c.Events(s, "dialog_resolved"))
				assert.Empty(t, c.Events(s, "session_moved"))
				c.Line(`{"type":"extension_ui_response","id":"` + asked[0] + `","confirmed":true` + harness.At(s) + `}`)
				v := c.AwaitResponse(asked[0])
				assert.True(t, v.Get("success").Bool(), v.Raw)
				c.Advance(time.Second)
				over := c.Events(s, "dialog_resolved")
				require.Len(t, over, 1)
				assert.Equal(t, "answered", over[0].Get("outcome").Str)
				assert.Len(t, c.Events(s, "extension_command_end"), 1)
				v = c.Call(t, move)
				require.True(t, v.Get("success").Bool(), v.Raw)
				c.Advance(time.Second)
				assert.Len(t, c.Events(s, "session_moved"), 1)
				c.Run(s, "~x~ two")
				require.NoError(t, c.Leave())
				for _, n := range nodes {
					n.End()
				}
			})
		})
	}
}

// TestApprovalOfBothOwners checks that an answer counts only at the new owner, if a dialog is open
// at both the previous and the new one.
func TestApprovalOfBothOwners(t *testing.T) {
	nodetest.Two(t, func(t *testing.T, a, b *nodetest.Node) {
		id := a.Open()
		a.Say(id, "prompt", "~x~ rounds=1 calls=1 tool=danger")
		a.Advance(time.Second)
		asked := a.Events(id, "extension_ui_request")
		require.Len(t, asked, 1)
		a.Engine.Cut(clustertest.Gone)
		b.Take(id)
		b.Advance(time.Second)
		ran := func() (times int) { // on any node: a call is recorded before an event reports it
			for _, r := range a.History.Records() {
				if r.Kind == actortest.Ran {
					times++
				}
			}
			return times
		}
		yes := `{"type":"extension_ui_response","id":"` + asked[0].Get("id").Str + `","confirmed":true` + harness.At(id) + `}`
		a.Line(yes)
		a.Advance(time.Second)
		a.Engine.Cut(clustertest.Whole)
		a.Advance(10 * time.Second)
		assert.Zero(t, ran())
		assert.Empty(t, a.Events(id, "tool_execution_end"))
		assert.Empty(t, b.Events(id, "tool_execution_end"))
		assert.NotContains(t, b.Log(id), `"role":"toolResult"`)
		b.Line(yes)
		b.Advance(time.Minute)
		assert.Equal(t, 1, ran())
		assert.Empty(t, a.Events(id, "tool_execution_end"))
		assert.Len(t, b.Events(id, "tool_execution_end"), 1)
		assert.Equal(t, 1, strings.Count(b.Log(id), `"role":"toolResult"`))
	}, harness.ConfirmDanger)
}

// TestAnsweredWhileNodeIsLost checks that an answer to a dialog of a lost node is kept until the
// new owner asks again, and counts there.
func TestAnsweredWhileNodeIsLost(t *testing.T) {
	for _, next := range []string{"a", "c"} {
		for _, features := range []string{`["approvals","deltaUpdates"]`, `["uiAck","deltaUpdates"]`} {
			for _, after := range []time.Duration{0, 600 * time.Millisecond, 3 * time.Second} {
				t.Run(fmt.Sprint(next, features, after), func(t *testing.T) {
					harness.Bubble(t, func(t *testing.T) {
						w, _, nodes := nodetest.ClusterWith(t, harness.AskMode, "a", "b", "c")
						c := nodetest.NewClient(nodes[0], "client-one", `,"features":`+features)
						s := c.OpenWithHeir("b", next, "client-one")
						c.Line(`{"id":"x-p","type":"prompt","message":"~x~ rounds=1 calls=1 tool=danger"` + harness.At(s) + `}`)
						c.Advance(time.Second)
						asks, answer := "extension_ui_request", `{"id":"x-yes","type":"extension_ui_response","value":"Allow once","id":%q`
						if strings.Contains(features, "approvals") {
							asks, answer = "approval_request", `{"id":"x-yes","type":"approval_response","optionId":"once","approvalId":%q`
						}
						asked := c.Events(s, asks)
						require.Len(t, asked, 1, c.Kinds(s))
						w.Lose("b")
						c.Advance(after)
						c.Line(fmt.Sprintf(answer, asked[0].Get("id").Str) + harness.At(s) + `}`)
						c.Advance(time.Minute)
						for _, line := range c.Lines() {
							if v := gjson.Parse(line); v.Get("type").Str == "response" {
								assert.True(t, v.Get("success").Bool(), line)
							}
						}
						again := c.Events(s, asks)
						require.Len(t, again, 2, c.Kinds(s))
						assert.Equal(t, asked[0].Get("id").Str, again[1].Get("id").Str)
						kinds := c.Kinds(s)
						assert.Equal(t, "agent_settled", kinds[len(kinds)-1], kinds)
						assert.Equal(t, 1, strings.Count(c.Log(s), `"role":"toolResult"`))
						require.NoError(t, c.Leave())
						nodes[0].End()
						nodes[2].End()
					})
				})
			}
		}
	}
}
