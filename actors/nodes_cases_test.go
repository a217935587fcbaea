package actors

import (
	"context"
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

	"troupe/actors/actortest"
	"troupe/actors/cluster"
	"troupe/actors/cluster/clustertest"
	"troupe/actors/session"
	"troupe/protocol"
	"troupe/tools"
)

// TestDiskOfAnOwner (D1, D2): the disk on which an owner has its copies is full, or fails, at any of its operations: nobody
// is told of it, the cluster has everything, and the copy is whole when the session is had again.
func TestDiskOfAnOwner(t *testing.T) {
	for _, plan := range []string{
		"write *.jsonl #1+ ENOSPC", "write *.jsonl #2 short=20", "write *.jsonl #2+ EIO", "create *.jsonl always ENOSPC", "fstat *.jsonl #3+ EIO",
		"rename * always EIO", "write *.mark* always ENOSPC",
	} {
		t.Run(plan, func(t *testing.T) {
			oneNode(t, func(t *testing.T, a *node) {
				id := a.open()
				a.disk.Fail(plan)
				a.run(id, "~a~ one")
				a.run(id, "~b~ two")
				lines := a.lines(id)
				assert.Contains(t, lines, "~a~ one")
				assert.Contains(t, lines, "~b~ two")
				settled := a.Events(id, "agent_settled")
				require.Len(t, settled, 2)
				assert.Equal(t, "completed", settled[1].Get("outcome").Str)
				a.disk.Fail("")
				a.Call(t, `{"type":"close_session"`+at(id)+`}`)
				a.take(id)
				a.same(id)
				assert.EqualValues(t, 4, a.Call(t, `{"type":"get_state"`+at(id)+`}`).Get("data.messageCount").Int())
			})
		})
	}
}

// TestNodeDeathIsTold: who has wires of a node is told that it was lost, as the parent of sessions is.
func TestNodeDeathIsTold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _, nodes := nodesOf(t, "a", "b", "c")
		died := make(chan string, 10)
		nodes[0].cfg.Sessions.Cluster.OnDeath(func(node string) { died <- node })
		w.lose("b")
		nodes[0].pass(10 * time.Second)
		require.Len(t, died, 1)
		assert.Equal(t, "b", <-died)
		nodes[0].end()
		nodes[2].end()
	})
}

// TestNodeLostInAChild (T4): tasks that ran when the node of their session was lost are not run again: the call has a
// result that says so, and the run goes on.
func TestNodeLostInAChild(t *testing.T) {
	twoNodes(t, func(t *testing.T, a, b *node) {
		id := a.open()
		a.Say(id, "prompt", "~p~ tool=task rounds=1 children=2 each=stall")
		a.pass(2 * time.Second)
		require.NotEmpty(t, a.childEvents(id))
		a.lose()
		b.take(id)
		b.pass(30 * time.Second)
		settled := b.Events(id, "agent_settled")
		require.NotEmpty(t, settled)
		assert.Equal(t, "completed", settled[len(settled)-1].Get("outcome").Str)
		lines := b.lines(id)
		assert.Equal(t, 1, strings.Count(lines, `"role":"toolResult"`), lines)
		assert.Contains(t, lines, "interrupted")
		assert.Empty(t, b.childEvents(id), "no child begins again")
		b.same(id)
	}, withTasks)
}

// TestNodeLostInACompaction (T6): a compaction that was under way has left nothing, and begins again when it is asked for again;
// once it is in the log it is not done twice.
func TestNodeLostInACompaction(t *testing.T) {
	twoNodes(t, func(t *testing.T, a, b *node) {
		for _, n := range []*node{a, b} {
			n.Call(t, fmt.Sprintf(helloAs, "client-me"))
		}
		id := a.open()
		for i := range 4 {
			a.run(id, fmt.Sprintf("~c%d~ pace=500 parts=4 %s", i, strings.Repeat("word ", 30_000)))
		}
		compact := `{"id":"x-c","type":"compact"` + at(id) + `}`
		a.Line(compact)
		a.pass(100 * time.Millisecond)
		require.NotContains(t, strings.Join(a.Lines(), "\n"), `{"id":"x-c"`, "it is under way")
		require.NotContains(t, a.lines(id), `"type":"compaction"`)
		a.lose()
		b.take(id)
		b.Line(compact)
		b.pass(time.Minute)
		v := b.Answer(t, "x-c")
		require.True(t, v.Get("success").Bool(), v.Raw)
		b.Call(t, `{"type":"close_session"`+at(id)+`}`)
		b.take(id)
		b.Line(compact)
		b.pass(time.Minute)
		assert.Equal(t, 1, strings.Count(b.lines(id), `"type":"compaction"`))
	})
}

// TestNodeLostInARetryWait: a run that waited for its next attempt waits again, of the same number, and makes it; its client hears
// the end of all that has begun, and at last that nothing goes on. A wait that was given up does not begin again.
func TestNodeLostInARetryWait(t *testing.T) {
	for _, how := range []string{"lost", "lost, given up", "drained"} {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				given := strings.Contains(how, "given up")
				w, _, nodes := nodesWith(t, func(c *Config) { c.DrainLimit = 500 * time.Millisecond }, "a", "b")
				c := through(nodes[0], "client-one", `,"features":["deltaUpdates"]`)
				s := c.openOn("b", "client-one")
				c.Say(s, "prompt", "~x~ fail=overloaded times=1")
				c.pass(time.Second)
				waits := c.Events(s, "auto_retry_start")
				require.Len(t, waits, 1)
				if given {
					c.Call(t, `{"type":"abort_retry"`+at(s)+`}`)
				}
				if how == "drained" {
					nodes[1].member.Drain()
					nodes[1].daemon.Stop(Stop{})
				} else {
					w.lose("b")
				}
				c.pass(time.Minute)
				text := nodes[0].lines(s)
				settled := c.Events(s, "agent_settled")
				require.Len(t, settled, 1)
				open, _ := c.unended(s)
				assert.Empty(t, open, c.Kinds(s))
				if given {
					assert.Len(t, c.Events(s, "auto_retry_start"), 1)
					assert.Empty(t, nodes[0].models.Asked(), text)
				} else {
					again := c.Events(s, "auto_retry_start")[1]
					assert.Equal(t, waits[0].Get("attempt").Int(), again.Get("attempt").Int())
					assert.Equal(t, "completed", settled[0].Get("outcome").Str)
					assert.Contains(t, text, "part 0 for ~x~")
				}
				assert.Equal(t, 1, strings.Count(text, `"role":"user"`))
				require.NoError(t, c.leave())
				nodes[0].end()
			})
		})
	}
}

// TestAbortWhileNodeIsLost: a run that is aborted while no node has its session does not go on, whatever it was about when its node was
// lost: nothing is asked, nothing runs, and the client hears that it is over before the answer.
func TestAbortWhileNodeIsLost(t *testing.T) {
	for _, during := range []struct{ prompt, event, stop, outcome string }{
		{"pace=500 parts=8", "message_update", "abort", "aborted"},
		{"tool=danger rounds=1 calls=2 work=60000", "tool_execution_start", "abort", "aborted"},
		{"tool=danger rounds=1 calls=1 ask", "extension_ui_request", "abort", "aborted"},
		{"fail=overloaded times=1", "auto_retry_start", "abort", "aborted"},
		{"fail=overloaded times=1", "auto_retry_start", "abort_retry", "failed"},
	} {
		t.Run(during.event+" "+during.stop, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w, _, nodes := nodesWith(t, func(c *Config) {
					if strings.Contains(during.prompt, "ask") {
						confirm(c)
					}
				}, "a", "b")
				c := through(nodes[0], "client-one", `,"features":["deltaUpdates"]`)
				s := c.openOn("b", "client-one")
				c.Say(s, "prompt", "~x~ "+during.prompt)
				for i := 0; len(c.Events(s, during.event)) == 0; i++ {
					require.Less(t, i, 100)
					c.pass(20 * time.Millisecond)
				}
				w.lose("b")
				c.Line(`{"id":"x-stop","type":"` + during.stop + `"` + at(s) + `}`)
				v := c.wait("x-stop")
				require.True(t, v.Get("success").Bool(), v.Raw)
				settled := c.Events(s, "agent_settled")
				require.Len(t, settled, 1, c.Kinds(s))
				assert.Equal(t, during.outcome, settled[0].Get("outcome").Str)
				before, text := len(c.Events(s)), nodes[0].lines(s)
				c.pass(time.Minute)
				assert.Len(t, c.Events(s), before, c.Kinds(s))
				assert.Equal(t, text, nodes[0].lines(s), "it is silent")
				assert.Empty(t, nodes[0].models.Asked())
				open, wrong := c.unended(s)
				assert.Empty(t, append(open, wrong...), c.Kinds(s))
				c.run(s, "~y~ next")
				assert.Len(t, nodes[0].models.Asked(), 1)
				assert.Len(t, c.Events(s, "agent_settled"), 2)
				require.NoError(t, c.leave())
				nodes[0].end()
			})
		})
	}
}

// TestBadLogs: a log that is damaged, or that only a newer version reads, is no session here, and not another one; nothing is claimed
// for good by who has tried. Where its engine has it whole again, it is there.
func TestBadLogs(t *testing.T) {
	oneNode(t, func(t *testing.T, a *node) {
		id := a.open()
		a.run(id, "~a~ one")
		a.Call(t, `{"type":"close_session"`+at(id)+`}`)
		opens := func() string {
			v := a.Call(t, fmt.Sprintf(`{"type":"open_session","sessionPath":%q}`, copies+"/"+id+".jsonl"))
			if code(v) == "session_damaged" {
				assert.Regexp(t, `record \d+ behind \d+`, v.Get("error").Str, "it says where")
			}
			return code(v)
		}
		a.way.Newer(cluster.SessionID(id), true)
		require.Equal(t, "upgrade_needed", opens())
		a.way.Newer(cluster.SessionID(id), false)
		for _, suffix := range []string{"", ".mark"} {
			require.NoError(t, a.disk.FS().Remove(copies+"/"+id+".jsonl"+suffix))
		}
		flip := func(r []cluster.Record) []cluster.Record {
			r[1].Lines = slices.Clone(r[1].Lines)
			r[1].Lines[5] ^= 1
			return r
		}
		for range 2 {
			a.way.Damage(cluster.SessionID(id), flip)
			require.Equal(t, "session_damaged", opens())
			require.Equal(t, "session_damaged", opens())
			a.way.Damage(cluster.SessionID(id), flip)
			require.Empty(t, opens())
			a.same(id)
			a.Call(t, `{"type":"close_session"`+at(id)+`}`)
			for _, suffix := range []string{"", ".mark"} {
				require.NoError(t, a.disk.FS().Remove(copies+"/"+id+".jsonl"+suffix))
			}
		}
	})
}

// TestDirectoryGone: a session whose directory was removed works on where it is, and is not moved, for no other node could open it. When
// its node is lost it cannot be had, and what it has said can be read.
func TestDirectoryGone(t *testing.T) {
	dir := filepath.Join(emptyDir, t.Name())
	require.NoError(t, os.Mkdir(dir, 0o700))
	bubble(t, func(t *testing.T) {
		w, _, nodes := nodesOf(t, "a", "b")
		c := through(nodes[0], "client-one", "")
		var s string
		for i := 0; ; i++ {
			id := fmt.Sprintf("x-o%d", i)
			c.Line(fmt.Sprintf(`{"id":%q,"type":"open_session","cwd":"w:%s","retain":true}`, id, t.Name()))
			s = c.wait(id).Get("data.sessionId").Str
			if strings.Contains(c.Call(t, `{"type":"list_open_sessions"}`).Get(`data.sessions.#(sessionId=="`+s+`")`).Raw, `"node":"b"`) {
				break
			}
		}
		c.run(s, "~x~ one")
		require.NoError(t, os.Remove(dir))
		v := c.Call(t, `{"type":"move_session","node":"a"`+at(s)+`}`)
		assert.Equal(t, "cwd_missing", code(v), v.Raw)
		c.run(s, "~x~ two")
		assert.Empty(t, c.Events(s, "session_moved"))
		assert.Len(t, c.Events(s, "agent_settled"), 2)
		w.lose("b")
		c.pass(5 * time.Second)
		v = c.Call(t, `{"type":"get_messages"`+at(s)+`}`)
		assert.Contains(t, v.Raw, "~x~ two")
		assert.Equal(t, "cwd_missing", code(c.Call(t, `{"type":"attach"`+at(s)+`}`)))
		assert.Contains(t, c.Call(t, `{"type":"get_messages"`+at(s)+`}`).Raw, "~x~ two")
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.True(t, c.Call(t, `{"type":"attach"`+at(s)+`}`).Get("success").Bool())
		c.run(s, "~x~ three")
		require.NoError(t, c.leave())
		nodes[0].end()
	})
}

// TestFencedKills (C7): what a session has started is dead, whatever it thinks of signals, a fifth of a second after the session has
// found that another node has it, and nothing is started any more.
func TestFencedKills(t *testing.T) {
	bubble(t, func(t *testing.T) {
		engine, h := clustertest.New(1, 0), &actortest.History{}
		var procs *tools.Procs
		a := startNode(t, engine, h, "a", func(c *Config) {
			c.Sessions.Guard.Close() // no script of it: it would keep time from passing
			run := c.Sessions.Exec
			c.Sessions.Exec = func(ctx context.Context, spec tools.ExecSpec) (tools.ExecResult, error) {
				procs = spec.Env.Procs
				return run(ctx, spec)
			}
		})
		b := startNode(t, engine, h, "b")
		id := a.open()
		a.Send(`{"type":"bash","command":"sleep=60000"` + at(id) + `}`)
		a.pass(time.Second)
		starts := func(command string) (string, error) {
			env := &tools.Env{Cwd: "/", Environ: []string{"PATH=/bin:/usr/bin"}, Procs: procs}
			r, err := tools.Exec(t.Context(), tools.ExecSpec{Env: env, Command: command})
			return strings.TrimSpace(r.Output.Content), err
		}
		pid, err := starts("trap '' TERM; sleep 300 </dev/null >/dev/null 2>&1 & echo $!")
		require.NoError(t, err)
		runs := func() bool {
			stat, err := os.ReadFile("/proc/" + pid + "/stat")
			return err == nil && !strings.Contains(string(stat), ") Z ")
		}
		require.True(t, runs())
		a.way.Cut(clustertest.Gone)
		b.take(id)
		require.True(t, runs())
		a.way.Cut(clustertest.Whole)
		read := a.Send(`{"type":"get_state"` + at(id) + `}`)
		for range 100 {
			if a.pass(10 * time.Millisecond); !slices.Contains(a.Unanswered(), read) {
				break
			}
		}
		require.NotContains(t, a.Unanswered(), read, "it knows")
		a.pass(200 * time.Millisecond)
		assert.False(t, runs())
		_, err = starts("true")
		require.ErrorContains(t, err, "closing")
		a.end()
		b.end()
	})
}

// TestApprovalOfBothOwners: of a dialog that is open at the owner of before and at the next one only what the next one is
// answered counts.
func TestApprovalOfBothOwners(t *testing.T) {
	twoNodes(t, func(t *testing.T, a, b *node) {
		id := a.open()
		a.Say(id, "prompt", "~x~ rounds=1 calls=1 tool=danger")
		a.pass(time.Second)
		asked := a.Events(id, "extension_ui_request")
		require.Len(t, asked, 1)
		a.way.Cut(clustertest.Gone)
		b.take(id)
		b.pass(time.Second)
		ran := func() (times int) { // wherever: what it does is done before anybody can be told
			for _, r := range a.History.Records() {
				if r.Kind == actortest.Ran {
					times++
				}
			}
			return times
		}
		yes := `{"type":"extension_ui_response","id":"` + asked[0].Get("id").Str + `","confirmed":true` + at(id) + `}`
		a.Line(yes)
		a.pass(time.Second)
		a.way.Cut(clustertest.Whole)
		a.pass(10 * time.Second)
		assert.Zero(t, ran())
		assert.Empty(t, a.Events(id, "tool_execution_end"))
		assert.Empty(t, b.Events(id, "tool_execution_end"))
		assert.NotContains(t, b.lines(id), `"role":"toolResult"`)
		b.Line(yes)
		b.pass(time.Minute)
		assert.Equal(t, 1, ran())
		assert.Empty(t, a.Events(id, "tool_execution_end"))
		assert.Len(t, b.Events(id, "tool_execution_end"), 1)
		assert.Equal(t, 1, strings.Count(b.lines(id), `"role":"toolResult"`))
	}, confirm)
}

// TestAnsweredWhileNodeIsLost: what a person answers to a dialog whose node is lost counts where it is asked again: the
// answer waits for that.
func TestAnsweredWhileNodeIsLost(t *testing.T) {
	for _, next := range []string{"a", "c"} {
		for _, features := range []string{`["approvals","deltaUpdates"]`, `["uiAck","deltaUpdates"]`} {
			for _, after := range []time.Duration{0, 600 * time.Millisecond, 3 * time.Second} {
				t.Run(fmt.Sprint(next, features, after), func(t *testing.T) {
					bubble(t, func(t *testing.T) {
						w, _, nodes := nodesWith(t, asking, "a", "b", "c")
						c := through(nodes[0], "client-one", `,"features":`+features)
						s := c.openBehind("b", next, "client-one")
						c.Line(`{"id":"x-p","type":"prompt","message":"~x~ rounds=1 calls=1 tool=danger"` + at(s) + `}`)
						c.pass(time.Second)
						asks, answer := "extension_ui_request", `{"id":"x-yes","type":"extension_ui_response","value":"Allow once","id":%q`
						if strings.Contains(features, "approvals") {
							asks, answer = "approval_request", `{"id":"x-yes","type":"approval_response","optionId":"once","approvalId":%q`
						}
						asked := c.Events(s, asks)
						require.Len(t, asked, 1, c.Kinds(s))
						w.lose("b")
						c.pass(after)
						c.Line(fmt.Sprintf(answer, asked[0].Get("id").Str) + at(s) + `}`)
						c.pass(time.Minute)
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
						assert.Equal(t, 1, strings.Count(c.lines(s), `"role":"toolResult"`))
						require.NoError(t, c.leave())
						nodes[0].end()
						nodes[2].end()
					})
				})
			}
		}
	}
}

// TestRootWithoutFiles: a session in a root of mode none has no tool that touches files, and no bash, whoever asks for them. It works
// where each node has an empty directory for it, and goes on anywhere; what begins in it is as it is.
func TestRootWithoutFiles(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _, nodes := nodesWith(t, func(c *Config) {
			require.NoError(t, os.MkdirAll(c.Relay.Roots["n"].Path, 0o700))
			c.Sessions.Cluster.Wants = func(cwd string) cluster.Wants {
				o, _, err := c.Relay.Wants(protocol.OpenSession{Cwd: cwd}, cwd)
				require.Nil(t, err)
				return o.Wants
			}
		}, "a", "b")
		c := through(nodes[0], "client-one", "")
		open := func(i int, how string) gjson.Result {
			id := fmt.Sprint("x-o", i)
			c.Line(fmt.Sprintf(`{"id":%q,"type":"open_session","retain":true,%s}`, id, how))
			return c.wait(id)
		}
		for i, how := range []string{`"cwd":"n:sub"`, `"cwd":"/","wants":{"root":"n"}`, `"cwd":"w:","wants":{"root":"n"}`} {
			v := open(i, how)
			assert.Equal(t, "invalid_params", code(v), v.Raw)
		}
		var s string
		for i := 10; ; i++ {
			v := open(i, `"cwd":"n:","tools":["note","danger"]`)
			require.True(t, v.Get("success").Bool(), v.Raw)
			if s = v.Get("data.sessionId").Str; v.Get("data.node").Str == "b" || nodes[1].member.Has(cluster.SessionID(s)) {
				break
			}
			c.Call(t, `{"type":"close_session"`+at(s)+`}`)
		}
		none := func(s, node string) {
			t.Helper()
			assert.Equal(t, `[[],["todo_write","task"]]`, c.Call(t, `{"type":"get_tools"`+at(s)+`}`).Get("data.[activeToolNames,allTools.#.name]").Raw)
			c.Call(t, `{"type":"set_active_tools","toolNames":["note"]`+at(s)+`}`)
			assert.Equal(t, `[]`, c.Call(t, `{"type":"get_tools"`+at(s)+`}`).Get("data.activeToolNames").Raw)
			assert.Equal(t, "unsupported", code(c.Call(t, `{"type":"bash","command":"echo hi"`+at(s)+`}`)))
			assert.Contains(t, c.Call(t, `{"type":"list_open_sessions"}`).Get(`data.sessions.#(sessionId=="`+s+`")`).Raw, `"cwd":"`+everywhere(node)["n"].Path+`"`)
		}
		none(s, "b")
		c.run(s, "~w~ tool=danger rounds=1 calls=1")
		results := c.Events(s, "tool_execution_end")
		require.Len(t, results, 1)
		assert.Contains(t, results[0].Raw, "not found")
		c.Say(s, "prompt", "~x~ pace=500 parts=8")
		c.pass(2 * time.Second)
		w.lose("b")
		c.pass(30 * time.Second)
		assert.Contains(t, nodes[0].lines(s), "part 7 for ~x~")
		assert.NotContains(t, nodes[0].lines(s), "directory")
		none(s, "a")
		require.True(t, c.Call(t, `{"type":"new_session"`+at(s)+`}`).Get("success").Bool())
		none(s, "a")
		c.run(s, "~y~ two")
		made := c.Call(t, `{"type":"get_state"`+at(s)+`}`).Get("data.sessionId").Str
		at, err := nodes[0].member.Where(t.Context(), cluster.SessionID(made))
		require.NoError(t, err)
		assert.Equal(t, "a", at.Name)
		require.NoError(t, c.leave())
		nodes[0].end()
	})
}

// TestDamagedIsRead: of a session whose log is damaged what is good of it can be read, here and through another node, as often as one
// likes, and anything else is refused. Nothing is left over by that, and where its engine has the log whole again it goes on with
// all of it.
func TestDamagedIsRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, engine, nodes := nodesOf(t, "a", "b")
		c := through(nodes[0], "client-one", "")
		flip := func(s, of string) {
			engine.Damage(cluster.SessionID(s), func(r []cluster.Record) []cluster.Record {
				bad := slices.IndexFunc(r, func(r cluster.Record) bool { return strings.Contains(string(r.Lines), of) })
				r[bad].Lines = slices.Clone(r[bad].Lines)
				r[bad].Lines[len(r[bad].Lines)-2] ^= 1
				return r
			})
		}
		for i, on := range []string{"a", "b"} {
			s, owner := c.openOn(on, "client-one"), nodes[i]
			c.run(s, "~x~ one")
			c.run(s, "~y~ two")
			c.Call(t, `{"type":"close_session"`+at(s)+`}`)
			c.pass(time.Second)
			asks := func(n, command string) gjson.Result { return c.asks(fmt.Sprint("x-", on, n, command), command, s) }
			for k, bad := range []string{"~y~ two", "~x~ one"} {
				for _, suffix := range []string{"", ".mark"} {
					require.NoError(t, owner.disk.FS().Remove(copies+"/"+s+".jsonl"+suffix))
				}
				flip(s, bad)
				for n := range 3 {
					n := fmt.Sprint(k, n)
					assert.Equal(t, "session_damaged", code(asks(n, "attach")))
					begun := time.Now()
					v := asks(n, "get_messages")
					assert.Less(t, time.Since(begun), 5*time.Second)
					if k == 1 {
						assert.Equal(t, "session_damaged", code(v), "nothing was said before that")
						continue
					}
					require.True(t, v.Get("success").Bool(), v.Raw)
					assert.Contains(t, v.Raw, "~x~ one")
					assert.NotContains(t, v.Raw, "~y~ two")
					v = asks(n, "get_last_assistant_text")
					assert.Contains(t, v.Get("data.text").Str, "for ~x~", v.Raw)
				}
				flip(s, bad)
				require.True(t, asks(fmt.Sprint(k), "attach").Get("success").Bool())
				assert.EqualValues(t, 4, c.Call(t, `{"type":"get_state"`+at(s)+`}`).Get("data.messageCount").Int())
				owner.same(s)
				c.Call(t, `{"type":"close_session"`+at(s)+`}`)
				c.pass(time.Second)
			}
			var all []cluster.Record
			engine.Damage(cluster.SessionID(s), func(r []cluster.Record) []cluster.Record {
				all = r
				return r[:slices.IndexFunc(r, func(r cluster.Record) bool { return strings.Contains(string(r.Lines), "~y~ two") })]
			})
			for k := range 2 {
				n := fmt.Sprint("e", k)
				assert.Equal(t, "session_damaged", code(asks(n, "attach")), "with its copy, or what the index says")
				v := asks(n, "get_messages")
				require.True(t, v.Get("success").Bool(), v.Raw)
				assert.Equal(t, k == 0, strings.Contains(v.Raw, "~y~ two"), "the copy has it")
				for _, suffix := range []string{"", ".mark"} {
					require.NoError(t, owner.disk.FS().Remove(copies+"/"+s+".jsonl"+suffix))
				}
			}
			engine.Damage(cluster.SessionID(s), func([]cluster.Record) []cluster.Record { return all })
			files, err := owner.disk.FS().ReadDir(copies)
			require.NoError(t, err)
			for _, f := range files {
				assert.NotContains(t, f.Name(), "aside")
			}
		}
		b := through(nodes[1], "client-two", "")
		s := b.Call(t, `{"type":"open_session","cwd":"/","retain":true}`).Get("data.sessionId").Str
		b.run(s, "~x~ one")
		b.run(s, "~y~ two")
		w.lose("b")
		flip(s, "~y~ two")
		for n := range 2 {
			v := c.asks(fmt.Sprint("x-l", n), "get_messages", s)
			require.True(t, v.Get("success").Bool(), "its node is lost: %s", v.Raw)
			assert.Contains(t, v.Raw, "~x~ one")
			assert.NotContains(t, v.Raw, "~y~ two")
		}
		require.NoError(t, c.leave())
		nodes[0].end()
	})
}

// TestLogWithoutItsEnd (C12): a log that has lost its end is damaged, and no shorter session, also at a node that has no copy of it: the
// index says how far it went. What is left can be read; where its engine has all of it again it goes on.
func TestLogWithoutItsEnd(t *testing.T) {
	twoNodes(t, func(t *testing.T, a, b *node) {
		id := a.open()
		a.run(id, "~x~ one")
		a.run(id, "~y~ two")
		a.Call(t, `{"type":"close_session"`+at(id)+`}`)
		a.pass(time.Second)
		var whole []cluster.Record
		cut := func(r []cluster.Record) []cluster.Record {
			whole = r
			return r[:slices.IndexFunc(r, func(r cluster.Record) bool { return strings.Contains(string(r.Lines), "~y~ two") })]
		}
		damaged := func(n *node) {
			t.Helper()
			n.way.Damage(cluster.SessionID(id), cut)
			tail, err := n.way.Tail(t.Context(), cluster.SessionID(id))
			require.NoError(t, err)
			for range 2 {
				v := n.Call(t, fmt.Sprintf(`{"type":"open_session","sessionPath":%q}`, copies+"/"+id+".jsonl"))
				assert.Equal(t, "session_damaged", code(v), v.Raw)
				assert.Contains(t, v.Get("error").Str, fmt.Sprintf("its last record is %d", tail.Seq))
				again, err := n.way.Tail(t.Context(), cluster.SessionID(id))
				require.NoError(t, err)
				assert.Equal(t, tail.Seq, again.Seq, "nobody has claimed it")
			}
			n.way.Damage(cluster.SessionID(id), func([]cluster.Record) []cluster.Record { return whole })
		}
		damaged(a)
		for _, suffix := range []string{"", ".mark"} {
			require.NoError(t, a.disk.FS().Remove(copies+"/"+id+".jsonl"+suffix))
		}
		damaged(a)
		a.lose()
		b.pass(3 * time.Second)
		damaged(b)
		b.way.Damage(cluster.SessionID(id), cut) // what is left is another session, for who wants that
		require.NoError(t, session.Export(t.Context(), b.way, b.disk.FS(), id, copies+"/export"))
		left := strings.Replace(string(b.disk.Mem().ReadFile(copies+"/export")), id, "another-one", 1)
		require.NoError(t, b.disk.Mem().MkdirAll("/sessions"))
		b.disk.Mem().WriteFile("/sessions/left.jsonl", []byte(left))
		v := b.Call(t, `{"type":"open_session","sessionPath":"/sessions/left.jsonl"}`)
		require.True(t, v.Get("success").Bool(), v.Raw)
		assert.Equal(t, "another-one 2", v.Get("data.state.sessionId").Str+" "+v.Get("data.state.messageCount").Raw)
		b.way.Damage(cluster.SessionID(id), func([]cluster.Record) []cluster.Record { return whole })
		b.take(id)
		assert.EqualValues(t, 4, b.Call(t, `{"type":"get_state"`+at(id)+`}`).Get("data.messageCount").Int())
		b.same(id)
	})
}

// TestLogWithoutItsEndAfterAKill: the copy of a node that was killed has no mark of what was acknowledged last, and tells all the same that the
// log has lost it: that is no shorter session there, the copy stays what it is, and what was said can be read.
func TestLogWithoutItsEndAfterAKill(t *testing.T) {
	bubble(t, func(t *testing.T) {
		engine, h, disk := clustertest.New(1, 0), &actortest.History{}, actortest.NewDisk()
		a := startNodeOn(t, engine, h, "a", "a-1", disk)
		id := a.open()
		a.run(id, "~x~ one")
		a.run(id, "~y~ two")
		a.lose()
		disk = disk.Killed()
		copied := string(disk.Mem().ReadFile(copies + "/" + id + ".jsonl"))
		require.Contains(t, copied, "~y~ two")
		a = startNodeOn(t, engine, h, "a", "a-2", disk)
		var whole []cluster.Record
		a.way.Damage(cluster.SessionID(id), func(r []cluster.Record) []cluster.Record {
			whole = r
			return r[:slices.IndexFunc(r, func(r cluster.Record) bool { return strings.Contains(string(r.Lines), "~y~ two") })]
		})
		open := fmt.Sprintf(`{"type":"open_session","sessionPath":%q}`, copies+"/"+id+".jsonl")
		for range 2 {
			v := a.Call(t, open)
			assert.Equal(t, "session_damaged", code(v), v.Raw)
			assert.Equal(t, copied, string(disk.Mem().ReadFile(copies+"/"+id+".jsonl")))
		}
		a.way.Damage(cluster.SessionID(id), func([]cluster.Record) []cluster.Record { return whole })
		v := a.Call(t, open)
		require.True(t, v.Get("success").Bool(), v.Raw)
		assert.EqualValues(t, 4, a.Call(t, `{"type":"get_state"`+at(id)+`}`).Get("data.messageCount").Int())
		a.same(id)
		a.end()
	})
}

// TestParkedIsDamaged: a session that rests, and whose log is found damaged when somebody asks for it, stays: what is good of it can be
// read, and it goes on once its log is whole, or is one that this node can read. A command that was refused meanwhile acts when it comes again
// under its id, once.
func TestParkedIsDamaged(t *testing.T) {
	oneNode(t, func(t *testing.T, a *node) {
		a.Call(t, fmt.Sprintf(helloAs, "client-me"))
		id := a.open()
		a.run(id, "~x~ one")
		a.run(id, "~y~ two")
		a.pass(2 * time.Minute)
		flip := func(r []cluster.Record) []cluster.Record {
			bad := slices.IndexFunc(r, func(r cluster.Record) bool { return strings.Contains(string(r.Lines), "~y~ two") })
			r[bad].Lines = slices.Clone(r[bad].Lines)
			r[bad].Lines[len(r[bad].Lines)-2] ^= 1
			return r
		}
		for _, suffix := range []string{"", ".mark"} {
			require.NoError(t, a.disk.FS().Remove(copies+"/"+id+".jsonl"+suffix))
		}
		a.way.Damage(cluster.SessionID(id), flip)
		for range 2 {
			v := a.Call(t, `{"type":"get_messages"`+at(id)+`}`)
			require.True(t, v.Get("success").Bool(), v.Raw)
			assert.Contains(t, v.Raw, "~x~ one")
			assert.NotContains(t, v.Raw, "~y~ two")
		}
		said := func() gjson.Result {
			before := len(a.Lines())
			a.Line(`{"id":"x-z","type":"prompt","message":"~z~ three"` + at(id) + `}`)
			a.pass(20 * time.Second)
			for _, line := range a.Lines()[before:] {
				if strings.HasPrefix(line, `{"id":"x-z"`) {
					return gjson.Parse(line)
				}
			}
			return gjson.Result{}
		}
		assert.Equal(t, "session_damaged", code(said()))
		a.way.Damage(cluster.SessionID(id), flip)
		a.way.Newer(cluster.SessionID(id), true)
		assert.Equal(t, "upgrade_needed", code(said()))
		a.way.Newer(cluster.SessionID(id), false)
		for range 2 {
			v := said()
			assert.True(t, v.Get("success").Bool(), v.Raw)
		}
		assert.EqualValues(t, 6, a.Call(t, `{"type":"get_state"`+at(id)+`}`).Get("data.messageCount").Int())
		a.same(id)
	}, func(c *Config) { c.Sessions.ParkAfter = time.Minute })
}

// TestNotTakenIn: a file that the cluster cannot open is left as it is, for pi and for the cluster once its directory is there.
func TestNotTakenIn(t *testing.T) {
	oneNode(t, func(t *testing.T, a *node) {
		file := []byte(`{"type":"session","version":3,"id":"0198c0de-0000-7000-8000-000000000001","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/not/there"}` + "\n")
		require.NoError(t, a.disk.Mem().MkdirAll("/sessions"))
		a.disk.Mem().WriteFile("/sessions/x.jsonl", file)
		for range 2 {
			v := a.Call(t, `{"type":"open_session","sessionPath":"/sessions/x.jsonl"}`)
			assert.Equal(t, "cwd_missing", code(v), v.Raw)
		}
		s := a.open()
		v := a.Call(t, `{"type":"switch_session","sessionPath":"/sessions/x.jsonl"`+at(s)+`}`)
		assert.Equal(t, "cwd_missing", code(v), v.Raw)
		assert.Equal(t, string(file), string(a.disk.Mem().ReadFile("/sessions/x.jsonl")))
		v = a.Call(t, fmt.Sprintf(`{"type":"open_session","sessionPath":"/sessions/x.jsonl","cwd":%q}`, emptyDir))
		require.True(t, v.Get("success").Bool(), v.Raw)
		assert.Equal(t, "0198c0de-0000-7000-8000-000000000001", v.Get("data.sessionId").Str)
	})
}

// openIn opens a session in a directory that every node has, on one of them.
func (c *node) openIn(cwd, name, client string) string {
	c.t.Helper()
	root, _, _ := strings.Cut(cwd, ":")
	for i := len(c.Lines()); ; i++ {
		command := fmt.Sprintf("open-%s-%d", name, i)
		at, err := c.member.Place(cluster.NewSessionID(client, command), cluster.Wants{Root: root})
		require.NoError(c.t, err)
		if at.Name != name {
			continue
		}
		c.Line(fmt.Sprintf(`{"id":%q,"type":"open_session","cwd":%q,"retain":true}`, command, cwd))
		v := c.wait(command)
		require.True(c.t, v.Get("success").Bool(), v.Raw)
		return v.Get("data.sessionId").Str
	}
}

// removable is a directory of a session, and what it is called on every node.
func removable(t *testing.T) (dir, cwd string) {
	require.NoError(t, os.MkdirAll(dirs(), 0o700))
	dir, err := os.MkdirTemp(dirs(), "")
	require.NoError(t, err)
	return dir, "d:" + filepath.Base(dir)
}

// TestMoveWithoutADirectory: a session whose directory was removed works on where it is: it is not given to a node that does not have
// the directory either. Once it is closed nobody can open it, and what it has said can be read at any node, also by who has not attached.
func TestMoveWithoutADirectory(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir, cwd := removable(t)
		_, _, nodes := nodesOf(t, "a", "b", "c")
		c := through(nodes[0], "client-one", "")
		s := c.openIn(cwd, "b", "client-one")
		c.run(s, "~x~ one")
		require.NoError(t, os.Remove(dir))
		for i, to := range []string{"a", "c"} {
			v := c.Call(t, `{"type":"move_session","node":"`+to+`"`+at(s)+`}`)
			assert.Equal(t, "cwd_missing", code(v), v.Raw)
			c.run(s, fmt.Sprintf("~y~ still here %d", i))
			assert.Contains(t, nodes[0].lines(s), fmt.Sprintf("part 0 for ~y~ still here %d", i))
		}
		assert.Empty(t, c.Events(s, "session_moved"))
		require.True(t, nodes[1].member.Has(cluster.SessionID(s)))
		require.True(t, c.Call(t, `{"type":"close_session"`+at(s)+`}`).Get("success").Bool())
		for i, n := range nodes {
			other := through(n, fmt.Sprint("client-", i), "")
			other.reads(s)
			v := other.Call(t, `{"type":"attach"`+at(s)+`}`)
			assert.Equal(t, "cwd_missing", code(v), v.Raw)
			other.reads(s)
			require.NoError(t, other.leave())
		}
		require.NoError(t, c.leave())
		for _, n := range nodes {
			n.end()
		}
	})
}

// TestMovedInVain: a session that was given to a node on which it cannot be opened after all goes back to the one that had it: its clients
// are led there and back, and it goes on.
func TestMovedInVain(t *testing.T) {
	for _, features := range []string{`["deltaUpdates"]`, `["seq","deltaUpdates"]`} {
		t.Run(features, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				for _, name := range []string{"a", "b"} { // c has lost it
					require.NoError(t, os.MkdirAll(filepath.Join(noFiles, name), 0o700))
				}
				_, _, nodes := nodesOf(t, "a", "b", "c")
				var clients []*node
				for i, n := range nodes {
					clients = append(clients, through(n, fmt.Sprint("client-", i), `,"features":`+features))
				}
				s := clients[0].openIn("n:", "b", "client-0")
				for _, c := range clients[1:] {
					require.True(t, c.Call(t, `{"type":"attach"`+at(s)+`}`).Get("success").Bool())
				}
				clients[0].run(s, "~x~ one")
				clients[0].Call(t, `{"type":"move_session","node":"c"`+at(s)+`}`)
				clients[0].pass(5 * time.Second)
				require.True(t, nodes[1].member.Has(cluster.SessionID(s)))
				for i, c := range clients {
					moved := c.Events(s, "session_moved")
					require.NotEmpty(t, moved)
					assert.LessOrEqual(t, len(moved), 2, c.Kinds(s))
					assert.Equal(t, "b", moved[len(moved)-1].Get("to").Str, moved)
					if strings.Contains(features, "seq") {
						require.True(t, c.Call(t, `{"type":"attach"`+at(s)+`}`).Get("success").Bool())
					}
					c.run(s, fmt.Sprintf("~y~ more %d", i))
					kinds := c.Kinds(s)
					assert.Equal(t, "agent_settled", kinds[len(kinds)-1])
				}
				for _, c := range clients {
					require.NoError(t, c.leave())
				}
				for _, n := range nodes {
					n.end()
				}
			})
		})
	}
}

// TestNobodyHasTheRoot: what a session has said whose root no node has that lives can be read at once.
func TestNobodyHasTheRoot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _, nodes := nodesOf(t, "a", "b")
		c := through(nodes[0], "client-one", "")
		s := c.openIn("only-b:", "b", "client-one")
		c.run(s, "~x~ one")
		w.lose("b")
		other := through(nodes[0], "client-two", "")
		other.pass(2 * time.Second)
		other.reads(s)
		for _, c := range []*node{c, other} {
			require.NoError(t, c.leave())
		}
		nodes[0].end()
	})
}

// TestLostWithoutADirectory: a session whose directory was removed, and whose node is lost then, can be opened nowhere: its clients hear that
// what they saw begin has ended, nobody tries again and again, and what it has said can be read.
func TestLostWithoutADirectory(t *testing.T) {
	for _, next := range []string{"a", "c"} { // the node of the client, or another one
		t.Run(next, func(t *testing.T) { lostWithoutADirectory(t, next) })
	}
}

func lostWithoutADirectory(t *testing.T, heir string) {
	bubble(t, func(t *testing.T) {
		dir, cwd := removable(t)
		w, _, nodes := nodesOf(t, "a", "b", "c")
		c, s := through(nodes[0], "client-one", ""), ""
		for { // one that belongs there when b is lost
			s = c.openIn(cwd, "b", "client-one")
			next, err := cluster.Place(cluster.SessionID(s), cluster.Wants{Root: "d"}, slices.DeleteFunc(c.member.Seen(), func(n cluster.Seen) bool { return n.Name == "b" }))
			require.NoError(t, err)
			if next.Name == heir {
				break
			}
			c.Call(t, `{"type":"close_session"`+at(s)+`}`)
		}
		c.run(s, "~w~ one")
		c.Say(s, "prompt", "~x~ pace=500 parts=40")
		c.pass(3 * time.Second)
		require.NoError(t, os.Remove(dir))
		w.lose("b")
		c.pass(time.Minute)
		settled := c.Events(s, "agent_settled")
		require.Len(t, settled, 2, c.Kinds(s))
		assert.Equal(t, "interrupted", settled[1].Get("outcome").Str)
		open, _ := c.unended(s)
		assert.Empty(t, open, c.Kinds(s))
		tail, err := nodes[0].way.Tail(t.Context(), cluster.SessionID(s))
		require.NoError(t, err)
		c.pass(time.Minute)
		still, err := nodes[0].way.Tail(t.Context(), cluster.SessionID(s))
		require.NoError(t, err)
		assert.Equal(t, tail.Seq, still.Seq)
		c.reads(s)
		require.NoError(t, c.leave())
		nodes[0].end()
		nodes[2].end()
	})
}

// TestKeptIsNotDeleted: a session that the cluster keeps is not deleted by the path that a list gives, and the answer says so: its log is no
// file of this node.
func TestKeptIsNotDeleted(t *testing.T) {
	oneNode(t, func(t *testing.T, a *node) {
		id := a.open()
		a.run(id, "~a~ one")
		a.Call(t, `{"type":"close_session"`+at(id)+`}`)
		a.pass(2 * time.Second)
		path := a.Call(t, `{"type":"list_sessions","scope":"all"}`).Get(`data.sessions.#(id=="` + id + `").path`).Str
		require.NotEmpty(t, path)
		v := a.Call(t, fmt.Sprintf(`{"type":"delete_session","sessionPath":%q}`, path))
		assert.Equal(t, "unsupported", code(v), v.Raw)
		a.take(id)
		a.same(id)
	})
}
