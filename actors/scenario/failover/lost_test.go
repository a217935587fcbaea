package failover

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors"
	"troupe/actors/scenario/harness"
	"troupe/actors/scenario/nodetest"
)

// TestNodeLostInTheFirstCommand checks that a bash command that is the first command of a new,
// forked or cloned session does not run again after its node was lost. Its answer says that the
// outcome is unknown.
func TestNodeLostInTheFirstCommand(t *testing.T) {
	for _, by := range []string{"new_session", "fork", "clone"} {
		for _, named := range []bool{true, false} {
			for _, said := range []bool{true, false} {
				if !said && by != "new_session" {
					continue
				}
				together := named // sent at once, the bash command waits for the session
				t.Run(fmt.Sprint(by, named, said), func(t *testing.T) {
					harness.Bubble(t, func(t *testing.T) {
						w, _, nodes := nodetest.ClusterWith(t, func(*actors.Config) {}, "a", "b")
						c := nodetest.NewClient(nodes[0], "client-one", `,"features":["deltaUpdates"]`)
						s := c.OpenOn("b", "client-one")
						if said {
							c.Run(s, "~x~ one")
							c.Run(s, "~x~ two")
						}
						command := `"type":"` + by + `"`
						if by == "fork" {
							command += `,"entryId":"` + c.Ask("x-f", "get_fork_messages", s).Get("data.messages.1.entryId").Str + `"`
						}
						id := `"id":"x-k",`
						if !named {
							id = `"id":17,`
						}
						c.Line(`{` + id + command + harness.At(s) + `}`)
						if !together {
							c.Advance(3 * time.Second)
						}
						c.Line(`{"id":"x-b","type":"bash","command":"sleep=60000"` + harness.At(s) + `}`)
						c.Advance(3 * time.Second)
						made := c.AskSessionID(s)
						require.NotEqual(t, s, made)
						w.Lose("b")
						c.Advance(time.Minute)
						v := c.AwaitResponse("x-b")
						assert.Contains(t, v.Get("error").Str, "may or may not have finished", v.Raw)
						assert.Equal(t, 0, strings.Count(nodes[0].Log(made), `"bashExecution"`))
						require.NoError(t, c.Leave())
						nodes[0].End()
					})
				})
			}
		}
	}
}

// TestNodeDeathIsTold checks that OnDeath callbacks are called when a node is lost.
func TestNodeDeathIsTold(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		w, _, nodes := nodetest.Cluster(t, "a", "b", "c")
		died := make(chan string, 10)
		nodes[0].Config.Sessions.Cluster.OnDeath(func(node string) { died <- node })
		w.Lose("b")
		nodes[0].Advance(10 * time.Second)
		require.Len(t, died, 1)
		assert.Equal(t, "b", <-died)
		nodes[0].End()
		nodes[2].End()
	})
}

// TestNodeLostInAChild (T4) checks that tasks that ran when their node was lost are not run again:
// the call gets a result that says so, and the run is resumed.
func TestNodeLostInAChild(t *testing.T) {
	nodetest.Two(t, func(t *testing.T, a, b *nodetest.Node) {
		id := a.Open()
		a.Say(id, "prompt", "~p~ tool=task rounds=1 children=2 each=stall")
		a.Advance(2 * time.Second)
		require.NotEmpty(t, a.ChildEvents(id))
		a.Lose()
		b.Take(id)
		b.Advance(30 * time.Second)
		settled := b.Events(id, "agent_settled")
		require.NotEmpty(t, settled)
		assert.Equal(t, "completed", settled[len(settled)-1].Get("outcome").Str)
		lines := b.Log(id)
		assert.Equal(t, 1, strings.Count(lines, `"role":"toolResult"`), lines)
		assert.Contains(t, lines, "interrupted")
		assert.Empty(t, b.ChildEvents(id), "no child begins again")
		b.CheckCopy(id)
	}, harness.WithTasks)
}

// TestNodeLostInACompaction (T6) checks that an interrupted compaction leaves nothing in the log
// and is executed when it is sent again. Once it is in the log, it is not executed a second time.
func TestNodeLostInACompaction(t *testing.T) {
	nodetest.Two(t, func(t *testing.T, a, b *nodetest.Node) {
		for _, n := range []*nodetest.Node{a, b} {
			n.Identify("client-me")
		}
		id := a.Open()
		for i := range 4 {
			a.Run(id, fmt.Sprintf("~c%d~ pace=500 parts=4 %s", i, strings.Repeat("word ", 30_000)))
		}
		compact := `{"id":"x-c","type":"compact"` + harness.At(id) + `}`
		a.Line(compact)
		a.Advance(100 * time.Millisecond)
		require.NotContains(t, strings.Join(a.Lines(), "\n"), `{"id":"x-c"`, "it is under way")
		require.NotContains(t, a.Log(id), `"type":"compaction"`)
		a.Lose()
		b.Take(id)
		b.Line(compact)
		b.Advance(time.Minute)
		v := b.Answer(t, "x-c")
		require.True(t, v.Get("success").Bool(), v.Raw)
		b.Call(t, `{"type":"close_session"`+harness.At(id)+`}`)
		b.Take(id)
		b.Line(compact)
		b.Advance(time.Minute)
		assert.Equal(t, 1, strings.Count(b.Log(id), `"type":"compaction"`))
	})
}

// TestNodeLostInARetryWait checks that a run that waited for a retry waits again for the same
// attempt on the next node and makes it, and that all its spans end for the client. A retry that
// was aborted is not resumed.
func TestNodeLostInARetryWait(t *testing.T) {
	for _, how := range []string{"lost", "lost, given up", "drained"} {
		t.Run(how, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				given := strings.Contains(how, "given up")
				w, _, nodes := nodetest.ClusterWith(t, func(c *actors.Config) { c.DrainLimit = 500 * time.Millisecond }, "a", "b")
				c := nodetest.NewClient(nodes[0], "client-one", `,"features":["deltaUpdates"]`)
				s := c.OpenOn("b", "client-one")
				c.Say(s, "prompt", "~x~ fail=overloaded times=1")
				c.Advance(time.Second)
				waits := c.Events(s, "auto_retry_start")
				require.Len(t, waits, 1)
				if given {
					c.Call(t, `{"type":"abort_retry"`+harness.At(s)+`}`)
				}
				if how == "drained" {
					nodes[1].Member.Drain()
					nodes[1].Daemon.Stop(actors.Stop{})
				} else {
					w.Lose("b")
				}
				c.Advance(time.Minute)
				text := nodes[0].Log(s)
				settled := c.Events(s, "agent_settled")
				require.Len(t, settled, 1)
				open, _ := c.Spans(s)
				assert.Empty(t, open, c.Kinds(s))
				if given {
					assert.Len(t, c.Events(s, "auto_retry_start"), 1)
					assert.Empty(t, nodes[0].Models.Asked(), text)
				} else {
					again := c.Events(s, "auto_retry_start")[1]
					assert.Equal(t, waits[0].Get("attempt").Int(), again.Get("attempt").Int())
					assert.Equal(t, "completed", settled[0].Get("outcome").Str)
					assert.Contains(t, text, "part 0 for ~x~")
				}
				assert.Equal(t, 1, strings.Count(text, `"role":"user"`))
				require.NoError(t, c.Leave())
				nodes[0].End()
			})
		})
	}
}

// TestAbortWhileNodeIsLost checks that a run that is aborted while its session has no owner is not
// resumed: no request and no tool runs, and the client receives the end of the run before the
// answer.
func TestAbortWhileNodeIsLost(t *testing.T) {
	for _, during := range []struct{ prompt, event, stop, outcome string }{
		{"pace=500 parts=8", "message_update", "abort", "aborted"},
		{"tool=danger rounds=1 calls=2 work=60000", "tool_execution_start", "abort", "aborted"},
		{"tool=danger rounds=1 calls=1 ask", "extension_ui_request", "abort", "aborted"},
		{"fail=overloaded times=1", "auto_retry_start", "abort", "aborted"},
		{"fail=overloaded times=1", "auto_retry_start", "abort_retry", "failed"},
	} {
		t.Run(during.event+" "+during.stop, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				w, _, nodes := nodetest.ClusterWith(t, func(c *actors.Config) {
					if strings.Contains(during.prompt, "ask") {
						harness.ConfirmDanger(c)
					}
				}, "a", "b")
				c := nodetest.NewClient(nodes[0], "client-one", `,"features":["deltaUpdates"]`)
				s := c.OpenOn("b", "client-one")
				c.Say(s, "prompt", "~x~ "+during.prompt)
				for i := 0; len(c.Events(s, during.event)) == 0; i++ {
					require.Less(t, i, 100)
					c.Advance(20 * time.Millisecond)
				}
				w.Lose("b")
				c.Line(`{"id":"x-stop","type":"` + during.stop + `"` + harness.At(s) + `}`)
				v := c.AwaitResponse("x-stop")
				require.True(t, v.Get("success").Bool(), v.Raw)
				settled := c.Events(s, "agent_settled")
				require.Len(t, settled, 1, c.Kinds(s))
				assert.Equal(t, during.outcome, settled[0].Get("outcome").Str)
				before, text := len(c.Events(s)), nodes[0].Log(s)
				c.Advance(time.Minute)
				assert.Len(t, c.Events(s), before, c.Kinds(s))
				assert.Equal(t, text, nodes[0].Log(s), "it is silent")
				assert.Empty(t, nodes[0].Models.Asked())
				open, wrong := c.Spans(s)
				assert.Empty(t, append(open, wrong...), c.Kinds(s))
				c.Run(s, "~y~ next")
				assert.Len(t, nodes[0].Models.Asked(), 1)
				assert.Len(t, c.Events(s, "agent_settled"), 2)
				require.NoError(t, c.Leave())
				nodes[0].End()
			})
		})
	}
}

// TestNodeLostInAStream (T1) loses the owner in the middle of a model's answer. It checks that
// another node owns the session within 1.5 s and repeats the request. A command that is sent again
// acts once, and a new one is executed.
func TestNodeLostInAStream(t *testing.T) {
	nodetest.Two(t, func(t *testing.T, a, b *nodetest.Node) {
		for _, n := range []*nodetest.Node{a, b} {
			n.Identify("client-me")
		}
		id := a.Open()
		a.Line(`{"id":"p1","type":"prompt","message":"~x~ pace=500 parts=8"` + harness.At(id) + `}`)
		a.Advance(2 * time.Second)
		require.Len(t, a.Models.Asked(), 1)
		a.Lose()
		lost := time.Now()
		require.Equal(t, id, b.Take(id))
		assert.Less(t, time.Since(lost), 1500*time.Millisecond)
		b.Line(`{"id":"p1","type":"prompt","message":"~x~ pace=500 parts=8"` + harness.At(id) + `}`)
		again := b.AwaitAnswer("p1")
		assert.True(t, again.Get("success").Bool() && again.Get("replayed").Bool(), again.Raw)
		b.Advance(20 * time.Second)
		assert.Len(t, b.Models.Asked(), 1)
		kinds := b.Kinds(id)
		assert.Equal(t, "agent_settled", kinds[len(kinds)-1])
		text := b.Log(id)
		assert.Equal(t, 1, strings.Count(text, `"role":"user"`), text)
		assert.Contains(t, text, `"customType":"troupe.failover","data":{"from":"a"}`)
		b.CheckCopy(id)
		b.Line(`{"id":"p2","type":"prompt","message":"~y~ two"` + harness.At(id) + `}`)
		assert.False(t, b.AwaitAnswer("p2").Get("replayed").Bool())
		b.Advance(10 * time.Second)
		assert.Equal(t, 2, strings.Count(b.Log(id), `"role":"user"`))
	})
}

// TestNodeLostInATool (T2) checks that a tool that was running when its node was lost is not
// started again, and that the model receives a result that says so.
func TestNodeLostInATool(t *testing.T) {
	nodetest.Two(t, func(t *testing.T, a, b *nodetest.Node) {
		id := a.Open()
		a.Say(id, "prompt", "~x~ tool=danger rounds=1 calls=2 work=60000")
		for i := 0; len(a.Events(id, "tool_execution_start")) == 0; i++ {
			require.Less(t, i, 100)
			a.Advance(10 * time.Millisecond)
		}
		a.Lose()
		b.Take(id)
		b.Advance(20 * time.Second)
		text := b.Log(id)
		assert.Contains(t, text, "the node that ran it was lost; it may or may not have finished")
		assert.Empty(t, b.Events(id, "tool_execution_start"))
		assert.Len(t, b.Models.Asked(), 1)
	})
}

// TestNodeLostInAnApproval (T3) checks that an open dialog is shown again under its id on the next
// node, and that the call runs after a positive answer.
func TestNodeLostInAnApproval(t *testing.T) {
	nodetest.Two(t, func(t *testing.T, a, b *nodetest.Node) {
		id := a.Open()
		a.Say(id, "prompt", "~x~ rounds=1 calls=1 tool=danger")
		a.Advance(time.Second)
		asked := a.Events(id, "extension_ui_request")
		require.Len(t, asked, 1)
		a.Lose()
		b.Take(id)
		b.Advance(time.Second)
		again := b.Events(id, "extension_ui_request")
		require.Len(t, again, 1)
		assert.Equal(t, asked[0].Get("id").Str, again[0].Get("id").Str)
		b.Line(`{"type":"extension_ui_response","id":"` + again[0].Get("id").Str + `","confirmed":true` + harness.At(id) + `}`)
		b.Advance(time.Minute)
		assert.Len(t, b.Events(id, "tool_execution_start"), 1)
		settled := b.Events(id, "agent_settled")
		require.Len(t, settled, 1)
		assert.Equal(t, "completed", settled[0].Get("outcome").Str)
		assert.Equal(t, 1, strings.Count(b.Log(id), `"role":"toolResult"`))
	}, harness.ConfirmDanger)
}

// TestNodeLostInACommand checks that a bash command that was running when its node was lost does
// not run again when it is sent again, with and without an idempotency key, and that its answer
// says that the outcome is unknown.
func TestNodeLostInACommand(t *testing.T) {
	for _, key := range []string{"", `,"idempotencyKey":"k1"`} {
		t.Run(key, func(t *testing.T) {
			nodetest.Two(t, func(t *testing.T, a, b *nodetest.Node) {
				for _, n := range []*nodetest.Node{a, b} {
					n.Identify("client-me")
				}
				id := a.Open()
				quick := `{"id":"b0","type":"bash","command":"quick"` + harness.At(id) + `}`
				if key != "" { // otherwise the other command is the first one in the log
					a.Line(quick)
					require.True(t, a.AwaitAnswer("b0").Get("success").Bool())
				}
				cut := `{"id":"b1","type":"bash","command":"sleep=60000"` + key + harness.At(id) + `}`
				a.Line(cut)
				a.Advance(time.Second)
				a.Lose()
				b.Take(id)
				b.Line(cut)
				v := b.AwaitAnswer("b1")
				assert.Contains(t, v.Get("error").Str, "may or may not have finished", v.Raw)
				b.Line(quick)
				assert.Equal(t, key != "", b.AwaitAnswer("b0").Get("replayed").Bool())
				assert.Equal(t, 1, strings.Count(b.Log(id), `"bashExecution"`))
				if key != "" {
					v := b.Call(t, `{"type":"bash","command":"sleep=60000"`+key+harness.At(id)+`}`)
					assert.Equal(t, "cancelled", harness.Code(v), v.Raw)
				}
			})
		})
	}
}

// TestNodeLostWithRuns checks that sessions with an active run are resumed on another node without
// a request from a client, and that idle ones are not opened. Every node lists all sessions.
func TestNodeLostWithRuns(t *testing.T) {
	nodetest.Two(t, func(t *testing.T, a, b *nodetest.Node) {
		rests, runs := a.Open(), a.Open()
		a.Run(rests, "~r~ rest")
		a.Say(runs, "prompt", "~x~ pace=500 parts=20")
		a.Advance(3 * time.Second)
		listed := b.Call(t, `{"type":"list_sessions"}`)
		assert.Equal(t, `["~x~ pace=500 parts=20","~r~ rest"]`, listed.Get("data.sessions.#.firstMessage").Raw, listed.Raw)
		assert.Equal(t, nodetest.CopiesDir+"/"+runs+".jsonl", listed.Get("data.sessions.0.path").Str)
		a.Lose()
		b.Advance(3 * time.Second)
		open := b.Call(t, `{"type":"list_open_sessions"}`)
		assert.Contains(t, open.Raw, runs)
		assert.NotContains(t, open.Raw, rests)
		b.Advance(30 * time.Second)
		assert.Contains(t, b.Log(runs), "part 19 for ~x~")
		b.Call(t, `{"type":"attach","sessionId":"`+runs+`"}`)
		assert.EqualValues(t, 2, b.Call(t, `{"type":"get_state"`+harness.At(runs)+`}`).Get("data.messageCount").Int())
	})
}
