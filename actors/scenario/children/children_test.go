package children

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors"
	"troupe/actors/cluster/clustertest"
	"troupe/actors/scenario/harness"
	"troupe/actors/scenario/nodetest"
)

// children returns the child sessions of a session that a node lists, by task id.
func children(c *nodetest.Node, of string) map[string]string {
	c.T.Helper()
	all := map[string]string{}
	for _, s := range c.Call(c.T, `{"type":"list_open_sessions"}`).Get("data.sessions").Array() {
		if s.Get("parentSessionId").Str == of {
			all[s.Get("taskId").Str] = s.Get("sessionId").Str
		}
	}
	return all
}

// works opens a session on node b with a client of that node, and has it start tasks.
func works(t *testing.T, b *nodetest.Node, prompt string) (parent *nodetest.Node, s string) {
	t.Helper()
	b.Disk.Mem().WriteFile(harness.AgentDir+"/agents/helper.md", []byte("---\nname: helper\ndescription: Helps.\n---\nHelp.\n"))
	parent = nodetest.NewClient(b, "client-parent", `,"features":["deltaUpdates"]`)
	s = parent.OpenOn("b", "client-parent")
	parent.Line(`{"id":"x-works","type":"prompt","message":"` + prompt + `"` + harness.At(s) + `}`)
	require.True(t, parent.AwaitResponse("x-works").Get("success").Bool())
	parent.Advance(time.Second)
	return parent, s
}

// TestChildFromAnyNode (C10) checks that a child session can be used through a node that does not
// own it: attach, read, steer, answer dialogs and abort yield the same bytes as on the owner.
// Commands that only the parent may send are refused, and so are commands of clients that are not
// attached.
func TestChildFromAnyNode(t *testing.T) {
	for _, features := range []string{"", `,"features":["seq","deltaUpdates","stateEvents","dialogEvents"]`} {
		for _, of := range []struct{ name, prompt, confirm string }{
			{"child", "~p~ tool=task rounds=1 each=rounds=3,work=4000", ""},
			{"child that asks", "~p~ tool=task rounds=1 each=rounds=3,work=4000,tool=danger", "danger"},
			{"grandchild", "~p~ tool=task rounds=1 each=tool=task,rounds=1,agent=helper,each=rounds=4", "note"},
		} {
			t.Run(of.name+" "+fmt.Sprint(features != ""), func(t *testing.T) {
				harness.Bubble(t, func(t *testing.T) {
					world := func(gateway int) (lines []string) {
						_, _, nodes := nodetest.ClusterWith(t, func(c *actors.Config) {
							harness.WithTasks(c)
							c.Sessions.Confirm = []string{of.confirm}
						}, "a", "b", "c")
						parent, s := works(t, nodes[1], of.prompt)
						c := nodetest.NewClient(nodes[gateway], "client-one", features)
						child := children(c, s)["A"]
						if of.name == "grandchild" {
							child = children(c, child)["A"]
						}
						require.NotEmpty(t, child)
						for i, line := range []string{
							`{"type":"steer","message":"x"%s}`, `{"type":"get_messages"%s}`, `{"type":"attach"%s}`, `{"type":"get_state"%s}`, `{"type":"get_dialogs"%s}`,
							`{"type":"steer","message":"~p~B faster"%s}`, `{"type":"follow_up","message":"~p~B more"%s}`, `{"type":"prompt","message":"x"%s}`, `{"type":"bash","command":"true"%s}`,
							`{"type":"close_session"%s}`, `{"type":"move_session","node":"c"%s}`, `{"type":"get_entries"%s}`, `{"type":"no_such_thing","x":[1,2]%s}`, `{"type":"detach"%s}`, `{"type":"get_state"%s}`,
							`{"type":"attach"%s,"role":"viewer"}`, `{"type":"abort"%s}`, `{"type":"detach"%s}`, `{"type":"attach","durableId":CHILD}`,
						} {
							id := fmt.Sprintf("x-%d", i)
							line = strings.Replace(strings.Replace(line, "{", `{"id":"`+id+`",`, 1), "CHILD", `"`+child+`"`, 1)
							c.Line(strings.Replace(line, "%s", harness.At(child), 1))
							c.AwaitResponse(id)
						}
						for _, ask := range c.Events(child, "extension_ui_request") {
							if ask.Get("method").Str == "confirm" {
								c.Line(`{"type":"extension_ui_response","confirmed":true,"id":"` + ask.Get("id").Str + `"` + harness.At(child) + `}`)
							}
						}
						c.Advance(2 * time.Second)
						// A child stays open while a client is attached.
						for i, line := range []string{`"abort"`, `"get_state"`, `"detach"`, `"get_state"`, `"get_messages"`, `"attach"`} {
							c.Line(strings.Replace(`{"id":"x-after-I","type":`+line+harness.At(child)+`}`, "I", fmt.Sprint(i), 1))
							v := c.AwaitResponse(fmt.Sprintf("x-after-%d", i))
							assert.Equal(t, map[bool]string{i > 2: "unknown_session"}[true], harness.Code(v), v.Raw)
							c.Advance(2 * time.Second)
						}
						assert.Len(t, parent.Events(s, "agent_settled"), 1)
						for _, line := range c.Lines()[1:] { // the answer to hello names the node
							// The answer to list_open_sessions names nodes.
							if !strings.Contains(line, `"command":"list_open_sessions"`) {
								lines = append(lines, strings.ReplaceAll(strings.ReplaceAll(nodetest.NodeMembers.ReplaceAllString(line, ""), child, "CHILD"), s, "PARENT"))
							}
						}
						require.NoError(t, c.Leave())
						require.NoError(t, parent.Leave())
						for _, n := range nodes {
							n.End()
						}
						return lines
					}
					begun := time.Now()
					direct := world(1)
					time.Sleep(time.Hour - time.Since(begun)) // timestamps differ by an hour
					relayed := world(0)
					times := regexp.MustCompile(`"(timestamp|[a-zA-Z]*[sS]ince|modified|created|t|startedAt)":("[^"]*"|\d+)|"(id|parentId|leafId|entryId)":"[0-9a-f]{8}"|confirm_[0-9A-Z]+`)
					for i := range max(len(direct), len(relayed)) {
						require.Less(t, i, len(direct), relayed)
						require.Less(t, i, len(relayed), direct[i:])
						require.Equal(t, times.ReplaceAllString(direct[i], ""), times.ReplaceAllString(relayed[i], ""))
					}
					assert.Greater(t, len(direct), 20)
				})
			})
		}
	}
}

// TestUnknownFromAnyNode checks that commands for a session that no node has are answered with
// unknown_session at once, even if a node was just lost. For a handle that has a meaning on its own
// node only, the other nodes are not queried.
func TestUnknownFromAnyNode(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		w, _, nodes := nodetest.Cluster(t, "a", "b", "c")
		c := nodetest.NewClient(nodes[0], "client-one", "")
		ask := func(i int, within time.Duration) {
			for j, line := range []string{`"attach"`, `"get_messages"`, `"steer","message":"x"`, `"attach","role":"viewer"`} {
				for k, handle := range []string{"01234567-89ab-7def-8123-456789abcdef", "s1", "no/such thing"} {
					id, begun := fmt.Sprintf("x-%d-%d-%d", i, j, k), time.Now()
					c.Line(`{"id":"` + id + `","type":` + line + harness.At(handle) + `}`)
					v := c.AwaitResponse(id)
					assert.Equal(t, "unknown_session", harness.Code(v), "%d %s: %s", i, line, v.Raw)
					assert.LessOrEqual(t, time.Since(begun), within, v.Raw)
				}
			}
		}
		ask(0, 100*time.Millisecond)
		w.Lose("b")
		ask(1, 100*time.Millisecond)
		c.Advance(5 * time.Second)
		ask(2, 100*time.Millisecond)
		require.NoError(t, c.Leave())
		nodes[0].End()
		nodes[2].End()
	})
}

// TestChildIsLost checks that a client that is attached to a child session sees its spans end and
// receives session_failed when the owner is lost or stalled. If the owner drains or the parent is
// replaced, the child ends its run itself. Later commands get unknown_session.
func TestChildIsLost(t *testing.T) {
	for _, features := range []string{`,"features":["deltaUpdates","dialogEvents"]`, `,"features":["seq","deltaUpdates"]`} {
		for _, how := range []string{"lost", "stands still", "drains", "new_session"} {
			t.Run(how+" "+fmt.Sprint(strings.Contains(features, "seq")), func(t *testing.T) {
				harness.Bubble(t, func(t *testing.T) {
					w, _, nodes := nodetest.ClusterWith(t, func(c *actors.Config) {
						harness.WithTasks(c)
						harness.ConfirmDanger(c)
					}, "a", "b", "c")
					parent, s := works(t, nodes[1], "~p~ tool=task rounds=1 children=2 each=rounds=3,tool=danger")
					c := nodetest.NewClient(nodes[0], "client-one", features)
					child := children(c, s)["A"]
					v := c.Call(t, `{"type":"attach"`+harness.At(child)+`}`)
					require.True(t, v.Get("success").Bool(), v.Raw)
					watcher := nodetest.NewClient(nodes[0], "client-two", `,"features":["sessionEvents","deltaUpdates"]`)
					watched := watcher.Call(t, `{"type":"watch_sessions"}`).Get("data.sessions.#.sessionId").Raw
					require.Contains(t, watched, child)
					switch how {
					case "lost":
						w.Lose("b")
					case "stands still":
						nodes[1].Engine.Cut(clustertest.Gone)
					case "drains":
						nodes[1].Member.Drain()
						nodes[1].Daemon.Stop(actors.Stop{Abort: true})
					case "new_session":
						v := parent.Call(t, `{"type":"new_session"`+harness.At(s)+`}`)
						require.True(t, v.Get("success").Bool(), v.Raw)
						c.Advance(time.Second)
						// The child is there until it is detached.
						v = c.Call(t, `{"type":"detach"`+harness.At(child)+`}`)
						require.True(t, v.Get("success").Bool(), v.Raw)
					}
					c.Advance(10 * time.Second)
					c.Line(`{"id":"x-read","type":"get_messages"` + harness.At(child) + `}`)
					assert.Equal(t, "unknown_session", harness.Code(c.AwaitResponse("x-read")))
					c.Line(`{"id":"x-again","type":"attach"` + harness.At(child) + `}`)
					assert.Equal(t, "unknown_session", harness.Code(c.AwaitResponse("x-again")))
					kinds := c.Kinds(child)
					switch {
					case how != "lost" && how != "stands still":
						assert.Contains(t, kinds, "agent_end", "it has said so itself")
					case strings.Contains(features, "seq"):
						assert.Equal(t, []string{"resync", "session_failed"}, kinds[len(kinds)-2:])
					default:
						assert.Equal(t, []string{"dialog_resolved", "session_failed"}, kinds[len(kinds)-2:])
					}
					closed := slices.ContainsFunc(watcher.Lines(), func(line string) bool {
						e := gjson.Parse(line)
						return e.Get("type").Str == "session_status" && e.Get("sessionId").Str == child && e.Get("status").Str == "closed"
					})
					assert.Equal(t, how != "stands still", closed, "of that one nobody knows yet")
					assert.Empty(t, children(watcher, s))
					if how == "stands still" {
						nodes[1].Engine.Cut(clustertest.Whole)
						parent.Advance(5 * time.Second)
						assert.Empty(t, children(watcher, s), "nobody keeps it open")
					}
					require.NoError(t, c.Leave())
					require.NoError(t, watcher.Leave())
					if nodes[1].Lost = how == "lost" || how == "drains"; !nodes[1].Lost {
						require.NoError(t, parent.Leave())
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

// TestOpenFromAnyNode checks that a session without a log in the cluster can be used from another
// node: one in memory, or one without messages.
func TestOpenFromAnyNode(t *testing.T) {
	for _, kind := range []string{`,"noSession":true`, ""} {
		t.Run(kind, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				_, _, nodes := nodetest.Cluster(t, "a", "b", "c")
				direct := nodetest.NewClient(nodes[1], "client-one", `,"features":["deltaUpdates"]`)
				direct.Line(`{"id":"x-open","type":"open_session"` + kind + `}`)
				s := direct.AwaitResponse("x-open").Get("data.sessionId").Str
				c := nodetest.NewClient(nodes[0], "client-two", `,"features":["deltaUpdates"]`)
				v := c.Call(t, `{"type":"attach"`+harness.At(s)+`}`)
				require.True(t, v.Get("success").Bool(), v.Raw)
				c.Run(s, "~x~ one")
				for _, of := range []*nodetest.Node{c, direct} {
					kinds := of.Kinds(s)
					require.NotEmpty(t, kinds)
					assert.Equal(t, "agent_settled", kinds[len(kinds)-1])
				}
				require.NoError(t, c.Leave())
				require.NoError(t, direct.Leave())
				for _, n := range nodes {
					n.End()
				}
			})
		})
	}
}

// TestChildStaysBehind checks that the files of a child stay on the node where it ran. After the
// parent has moved, its children are not listed with files there, and resuming one fails with an
// error that names the node. After the parent has moved back, everything works as before.
func TestChildStaysBehind(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		_, _, nodes := nodetest.ClusterWith(t, harness.WithTasks, "a", "b")
		parent, s := works(t, nodes[1], "~p~ tool=task rounds=1 each=rounds=1")
		parent.Advance(10 * time.Second)
		const resume = "~r~ tool=task rounds=1 resume=A each=rounds=1"
		files := func() string {
			return parent.Call(t, `{"type":"get_subagents"`+harness.At(s)+`}`).Get("data.subagents.#.sessionFile").Raw
		}
		named := files()
		require.Equal(t, `["`+nodetest.CopiesDir+"/"+s+`/A.jsonl"]`, named)
		read := func(of string) gjson.Result {
			return parent.Call(t, `{"type":"get_subagent_messages",`+of+harness.At(s)+`}`)
		}
		byFile := `"sessionFile":"` + nodetest.CopiesDir + "/" + s + `/A.jsonl"`

		move := func(node string) {
			v := parent.Call(t, `{"type":"move_session","node":"`+node+`"`+harness.At(s)+`}`)
			require.True(t, v.Get("success").Bool(), v.Raw)
			parent.Advance(2 * time.Second)
		}
		move("a")
		assert.Equal(t, `[]`, files())
		for _, of := range []string{`"subagentId":"A"`, byFile} {
			assert.Equal(t, "not_found", harness.Code(read(of)), of)
		}
		parent.Run(s, resume)
		ends := parent.Events(s, "tool_execution_end")
		require.Len(t, ends, 2)
		assert.Contains(t, ends[1].Raw, "its session is kept on node b, where it ran, and is not on this one")
		move("b")
		assert.Equal(t, named, files())
		for _, of := range []string{`"subagentId":"A"`, byFile} {
			assert.Greater(t, read(of).Get("data.messages.#").Int(), int64(2), of)
		}
		parent.Run(s, strings.Replace(resume, "~r~", "~r2~", 1))
		ends = parent.Events(s, "tool_execution_end")
		require.Len(t, ends, 3)
		assert.EqualValues(t, 0, ends[2].Get("result.details.results.0.exitCode").Int(), ends[2].Raw)
		require.NoError(t, parent.Leave())
		nodes[0].End()
		nodes[1].End()
	})
}
