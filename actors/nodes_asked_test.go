package actors

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

	"troupe/actors/actortest"
	"troupe/actors/cluster/clustertest"
)

// questions are the ids by which a client is asked something in a session, each once.
func (n *node) questions(session, event string) (ids []string) {
	for _, e := range n.Events(session, event) {
		if id := e.Get("id").Str; !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// gated gives a session an extension that asks about every call.
func gated(t *testing.T) func(*Config) {
	found := filepath.Join(t.TempDir(), "x.ts")
	require.NoError(t, os.WriteFile(found, nil, 0o600))
	return func(c *Config) {
		c.Sessions.ExtensionHost, c.Sessions.Extensions.Sources = actortest.GateHost{}, []string{found}
	}
}

// TestQuestionsOverNodes: what is asked where a session goes on never has the id of what was asked before: an answer that comes too
// late must not be one to another question.
func TestQuestionsOverNodes(t *testing.T) {
	const hostTool = "host_tool_call"
	gate := gated(t)
	for _, by := range []struct {
		name, tool, event string
		open, again       bool // when the node is lost; and what was open is asked again, under its id
		change            func(*Config)
	}{
		{"extension", "danger", "extension_ui_request", true, false, gate},
		{"consent", "danger", "extension_ui_request", true, true, confirm},
		{"consent, answered", "danger", "extension_ui_request", false, false, confirm},
		{"host tool", "hosted", hostTool, true, false, func(*Config) {}},
	} {
		t.Run(by.name, func(t *testing.T) {
			twoNodes(t, func(t *testing.T, a, b *node) {
				asks := func(n *node, id, name string) string {
					t.Helper()
					if by.event == hostTool {
						require.True(t, n.Call(t, declare(id, by.tool)).Get("success").Bool())
					}
					n.Say(id, "prompt", "~"+name+"~ rounds=1 calls=1 tool="+by.tool)
					n.pass(time.Second)
					ids := n.questions(id, by.event)
					require.NotEmpty(t, ids)
					return ids[len(ids)-1]
				}
				answer := func(n *node, id, to string) {
					line := `{"type":"extension_ui_response","confirmed":true`
					if by.event == hostTool {
						line = `{"type":"host_tool_result","result":"the answer to it"`
					}
					n.Line(line + `,"id":"` + to + `"` + at(id) + `}`)
					n.pass(5 * time.Second)
				}
				s := a.open()
				results := func() int { return strings.Count(b.lines(s), `"role":"toolResult"`) }
				first := asks(a, s, "x")
				answer(a, s, first)
				old := asks(a, s, "y")
				require.NotEqual(t, first, old)
				if !by.open {
					answer(a, s, old)
				}
				a.lose()
				b.take(s)
				b.pass(10 * time.Second)
				if by.again {
					require.Equal(t, []string{old}, b.questions(s, by.event))
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

// takenOver has a session of b go on at a: b is lost, or is fenced, which it finds when a has the session already. The nodes that
// are left then are to be ended with what is returned.
func takenOver(w *wires, a, b *node, session, how string) (end func()) {
	if how == "lost" {
		w.lose("b")
		return a.end
	}
	b.way.Cut(clustertest.Gone)
	w.reach("b", nil)
	other := through(a, "client-two", "")
	require.True(a.t, other.Call(a.t, `{"type":"attach"`+at(session)+`}`).Get("success").Bool())
	b.way.Cut(clustertest.Whole)
	return func() {
		require.NoError(a.t, other.leave())
		a.end()
		b.end()
	}
}

// TestDialogEndsWithItsNode: whoever was shown a dialog of an extension is told that it is over when the node that has asked is lost or
// drained, or finds that another one has the session, and that the command is that has asked. Who answers it then is told so.
func TestDialogEndsWithItsNode(t *testing.T) {
	gate := gated(t)
	for _, how := range []string{"lost", "drained", "fenced"} {
		for _, prompt := range []string{"~x~ rounds=1 calls=1 tool=danger", "/xc"} {
			for _, seq := range []string{"", `,"seq"`} {
				t.Run(how+" "+prompt+seq, func(t *testing.T) {
					bubble(t, func(t *testing.T) {
						w, _, nodes := nodesWith(t, func(c *Config) {
							c.DrainLimit = 500 * time.Millisecond
							gate(c)
						}, "a", "b")
						a, b := nodes[0], nodes[1]
						of := a
						if how == "fenced" {
							of = b
						}
						c := through(of, "client-one", `,"features":["deltaUpdates","dialogEvents","stateEvents","uiAck"`+seq+`]`)
						s := c.openOn("b", "client-one")
						c.Say(s, "prompt", prompt)
						c.pass(time.Second)
						old := c.questions(s, "extension_ui_request")
						require.Len(t, old, 1)
						require.Empty(t, c.Events(s, "dialog_resolved"))
						end := a.end
						if how == "drained" {
							b.member.Drain()
							b.daemon.Stop(Stop{})
						} else {
							end = takenOver(w, a, b, s, how)
						}
						c.pass(20 * time.Second)
						if seq != "" {
							require.True(t, c.Call(t, `{"type":"attach"`+at(s)+`}`).Get("success").Bool())
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
						c.Line(`{"type":"extension_ui_response","id":"` + old[0] + `","confirmed":true` + at(s) + `}`)
						v := c.wait(old[0])
						assert.Equal(t, "dialog_over lost", code(v)+" "+v.Get("data.outcome").Str, v.Raw)
						require.NoError(t, c.leave())
						end()
					})
				})
			}
		}
	}
}

// TestApprovalEndsWithItsNode: where runs do not go on elsewhere nothing is asked again, and whoever was shown what the session itself has
// asked about a call is told that it is over.
func TestApprovalEndsWithItsNode(t *testing.T) {
	for _, how := range []string{"lost", "fenced"} {
		for _, by := range [][3]string{{"approvals", "approval_request", "approval_resolved"}, {"dialogEvents", "extension_ui_request", "dialog_resolved"}} {
			for _, seq := range []string{"", `,"seq"`} {
				t.Run(how+" "+by[0]+seq, func(t *testing.T) {
					bubble(t, func(t *testing.T) {
						w, _, nodes := nodesWith(t, func(c *Config) {
							if by[0] == "approvals" {
								asking(c)
							} else {
								confirm(c)
							}
							c.Sessions.Cluster.Stop, c.Relay.Stops = true, true
						}, "a", "b")
						a, b := nodes[0], nodes[1]
						of := a
						if how == "fenced" {
							of = b
						}
						c := through(of, "client-one", `,"features":["deltaUpdates","`+by[0]+`"`+seq+`]`)
						s := c.openOn("b", "client-one")
						c.Say(s, "prompt", "~x~ rounds=1 calls=1 tool=danger")
						c.pass(time.Second)
						old := c.questions(s, by[1])
						require.Len(t, old, 1, c.Kinds(s))
						end := takenOver(w, a, b, s, how)
						c.pass(20 * time.Second)
						if seq != "" {
							require.True(t, c.Call(t, `{"type":"attach"`+at(s)+`}`).Get("success").Bool())
						}
						over := c.Events(s, by[2])
						require.Len(t, over, 1, c.Kinds(s))
						assert.Equal(t, old[0], over[0].Get("id").Str)
						assert.Equal(t, old, c.questions(s, by[1]), "it is not asked again")
						require.NoError(t, c.leave())
						end()
					})
				})
			}
		}
	}
}

// TestAnswersBehindAMove: what a client answers to a question is acknowledged once, if it wants that, also if it comes to a node that gives
// the session up at that moment, or is lost; those to calls of host tools never are.
func TestAnswersBehindAMove(t *testing.T) {
	answers := []string{
		`"type":"extension_ui_response","confirmed":true,"id":%q`, `"type":"approval_response","approvalId":"none","optionId":"once","id":%q`,
		`"type":"host_tool_result","result":"none","id":%q`,
	}
	for _, how := range []string{"moved", "moved, of its own node", "drained", "lost"} {
		for _, features := range []string{`"uiAck","dialogEvents"`, `"uiAck"`, `"dialogEvents"`} {
			t.Run(how+" "+features, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					w, _, nodes := nodesOf(t, "a", "b")
					of := nodes[0]
					if strings.Contains(how, "own") {
						of = nodes[1]
					}
					c := through(of, "client-one", `,"features":[`+features+`,"deltaUpdates"]`)
					s := c.openOn("b", "client-one")
					c.run(s, "~x~ one")
					asked, before := []string{}, len(c.Lines())
					say := func(n int) {
						for i := range n {
							for k, line := range answers {
								id := fmt.Sprintf("x-%d-%d-%d", len(asked), i, k)
								c.Line(`{` + fmt.Sprintf(line, id) + at(s) + `}`)
								asked = append(asked, id)
							}
							c.pass(time.Duration(i) * 300 * time.Microsecond)
						}
					}
					say(1)
					switch how {
					default:
						c.Line(`{"id":"x-m","type":"move_session","node":"a"` + at(s) + `}`)
					case "drained":
						nodes[1].member.Drain()
						nodes[1].daemon.Stop(Stop{})
					case "lost":
						w.lose("b")
					}
					say(12)
					c.pass(20 * time.Second)
					heard := strings.Join(c.Lines()[before:], "\n")
					for i, id := range asked {
						want := 1
						if k := i % len(answers); k == 2 || k == 0 && !strings.Contains(features, "uiAck") {
							want = 0
						}
						assert.Equal(t, want, strings.Count(heard, `{"id":"`+id+`","type":"response"`), "%s: %s", id, answers[i%len(answers)])
					}
					assert.NotContains(t, heard, "session_closing")
					require.NoError(t, c.leave())
					nodes[0].end()
					if strings.HasPrefix(how, "moved") {
						nodes[1].end()
					}
				})
			})
		}
	}
}

// TestMoveWaitsForExtensions: a session in which a command of an extension runs, or asks, does not rest: it is not moved before that has
// ended, and whoever answers is heard.
func TestMoveWaitsForExtensions(t *testing.T) {
	gate := gated(t)
	for _, from := range []int{0, 1} {
		t.Run(fmt.Sprint(from), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				_, _, nodes := nodesWith(t, gate, "a", "b")
				c := through(nodes[from], "client-one", `,"features":["deltaUpdates","dialogEvents","stateEvents","uiAck"]`)
				s := c.openOn("b", "client-one")
				c.run(s, "~x~ one")
				c.Say(s, "prompt", "/xc")
				c.pass(time.Second)
				asked := c.questions(s, "extension_ui_request")
				require.Len(t, asked, 1)
				move := `{"type":"move_session","node":"a"` + at(s) + `}`
				assert.Equal(t, "session_busy", code(c.Call(t, move)))
				c.pass(time.Minute)
				assert.Empty(t, c.Events(s, "dialog_resolved"))
				assert.Empty(t, c.Events(s, "session_moved"))
				c.Line(`{"type":"extension_ui_response","id":"` + asked[0] + `","confirmed":true` + at(s) + `}`)
				v := c.wait(asked[0])
				assert.True(t, v.Get("success").Bool(), v.Raw)
				c.pass(time.Second)
				over := c.Events(s, "dialog_resolved")
				require.Len(t, over, 1)
				assert.Equal(t, "answered", over[0].Get("outcome").Str)
				assert.Len(t, c.Events(s, "extension_command_end"), 1)
				v = c.Call(t, move)
				require.True(t, v.Get("success").Bool(), v.Raw)
				c.pass(time.Second)
				assert.Len(t, c.Events(s, "session_moved"), 1)
				c.run(s, "~x~ two")
				require.NoError(t, c.leave())
				for _, n := range nodes {
					n.end()
				}
			})
		})
	}
}
