package tasks

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors"
	"troupe/actors/actortest"
	"troupe/actors/conn"
	"troupe/actors/scenario/harness"
)

// results returns how the items of the first call of the tool task ended, as "ID exit-code error".
func results(b *harness.Client, session string) (list []string, call gjson.Result) {
	b.T.Helper()
	ends := b.Events(session, "tool_execution_end")
	require.NotEmpty(b.T, ends)
	call = ends[0]
	for _, r := range call.Get("result.details.results").Array() {
		list = append(list, fmt.Sprintf("%s %d %s", r.Get("id").Str, r.Get("exitCode").Int(), r.Get("error").Str))
	}
	return list, call
}

// alone requires that no session except this one is open.
func alone(b *harness.Client, session string) {
	b.T.Helper()
	open := b.Call(b.T, `{"type":"list_open_sessions"}`).Get("data.sessions.#.sessionId").String()
	require.Equal(b.T, `["`+session+`"]`, open, "children are gone")
}

// TestTasks checks that children run in parallel, report their results, and are closed.
func TestTasks(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t, harness.WithTasks)
		s := b.Open()
		b.Run(s, "~p~ tool=task rounds=1 children=3 each=rounds=1,work=50")
		results, _ := results(b, s)
		assert.Equal(t, []string{"A 0 ", "B 0 ", "C 0 "}, results)
		events := b.ChildEvents(s)
		assert.Equal(t, []string{"start A", "start B", "start C"}, events[:3])
		assert.Len(t, events, 6)
		alone(b, s)
		stats := b.Call(t, `{"type":"get_session_stats"`+harness.At(s)+`}`).Get("data")
		assert.Equal(t, int64(3), stats.Get("subagents.count").Int())
		assert.Equal(t, int64(30), stats.Get("subagents.tokens.input").Int())
		b.End()
		b.Check()
	})
}

// TestTasksAreCut checks that an abort ends all children at once, and that none stays open.
func TestTasksAreCut(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t, harness.WithTasks)
		s := b.Open()
		b.Say(s, "prompt", "~p~ tool=task rounds=1 children=2 each=stall")
		b.Advance(time.Second)
		require.Equal(t, []string{"start A", "start B"}, b.ChildEvents(s))
		b.Call(t, `{"type":"abort"`+harness.At(s)+`}`)
		require.Equal(t, []string{"start A", "start B", "end A 1", "end B 1"}, b.ChildEvents(s))
		b.Advance(time.Second)
		alone(b, s)
		b.RequireWorking(s, "~p~ again")
		b.End()
		b.Check()
	})
}

// TestFileOfACutTask checks that a task runs although the session file of an earlier one of its id is
// there, of which the log says nothing because its call was aborted while the session was opened.
// The earlier file is kept as it is.
func TestFileOfACutTask(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t, harness.WithTasks)
		s := b.Open()
		b.Run(s, "~a~ one")
		path := b.Call(t, `{"type":"get_state"`+harness.At(s)+`}`).Get("data.sessionFile").Str
		left := strings.TrimSuffix(path, ".jsonl") + "/A.jsonl"
		text := []byte(`{"type":"session","version":3,"id":"left","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/"}` + "\n")
		require.NoError(t, b.Disk.Mem().MkdirAll(filepath.Dir(left)))
		b.Disk.Mem().WriteFile(left, text)
		b.Run(s, "~p~ tool=task rounds=1 children=2 each=rounds=1,work=50")
		results, call := results(b, s)
		assert.Equal(t, []string{"A 0 ", "B 0 "}, results)
		file := call.Get("result.details.results.0.sessionFile").Str
		assert.NotEqual(t, left, file)
		assert.Contains(t, string(b.Disk.Mem().ReadFile(file)), `"role":"assistant"`)
		assert.Equal(t, string(text), string(b.Disk.Mem().ReadFile(left)))
		v := b.Call(t, `{"type":"get_subagent_messages","subagentId":"A"`+harness.At(s)+`}`)
		assert.True(t, v.Get("success").Bool(), v.Raw)
		b.End()
		b.Check()
	})
}

// TestTasksOfAChangedFile checks that a session whose file is changed by another program while
// children run ends its run and its children without a crash.
func TestTasksOfAChangedFile(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t, harness.WithTasks)
		s := b.Open()
		b.Run(s, "~p~ first")
		b.Say(s, "prompt", "~p~ tool=task rounds=1 children=2 each=stall")
		b.Advance(time.Second)
		for name, text := range b.Disk.Files() {
			if bytes.Contains(text, []byte("~p~ first")) {
				b.Disk.Mem().WriteFile(name, append(text, `{"type":"label","id":"0badcafe","parentId":null,"timestamp":"2000-01-01T00:00:00.000Z","targetId":"0badcafe"}`+"\n"...))
			}
		}
		b.Say(s, "steer", "~p~ more")
		b.Advance(time.Minute)
		require.Zero(t, b.Crashes(s))
		alone(b, s)
		b.RequireWorking(s, "~p~ again")
		b.End()
	})
}

// TestChildrenCrash checks that a child that crashes once completes its task. A child that crashes
// repeatedly, or whose supervising actor crashes, fails without affecting the others.
func TestChildrenCrash(t *testing.T) {
	for _, c := range []struct{ plan, a string }{
		{`Panic s2 StreamEnd 0`, "A 0 "}, {`PanicAfter s2 ToolDone 0`, "A 0 "}, {`Panic s2 Append 0`, "A 0 "}, {`Panic s2 Append 1`, "A 0 "}, {`PanicAfter s2 Append 1`, "A 0 "}, {`Panic s2 Append 2`, "A 0 "}, {`Panic s2 Reply 0`, "A 0 "}, {`Panic s2 Reply 1`, "A 0 "}, {`PanicAfter s2 Reply 1`, "A 0 "},
		{`Panic s2 StreamEnd`, "A 1 The run was interrupted: the process ended before it was finished."},
		{`Panic s2 opened`, "A 1 Session failed: it crashed more than 5 times in 1m0s and was given up"},
		{`Panic s1/sub/A Records 3`, "A 1 Internal error"}, {`Panic s1/sub/A SessionSpawned`, "A 1 Internal error"},
		{`Panic s1/sub/A childSettled`, "A 1 Internal error"},
	} {
		t.Run(strings.ReplaceAll(c.plan, "/", "-"), func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				b := harness.Start(t, harness.WithTasks, harness.Faults(c.plan))
				s := b.Open()
				b.Run(s, "~p~ tool=task rounds=1 children=2 each=rounds=1,work=50")
				results, _ := results(b, s)
				require.Len(t, results, 2)
				want := []string{c.a, "B 0 "}
				// B was opened first.
				if strings.Contains(c.plan, " s2 ") && results[0] == "A 0 " {
					want = []string{"A 0 ", "B" + c.a[1:]}
				}
				assert.Equal(t, want, results)
				b.Config.Faults.Release()
				b.Advance(time.Minute)
				alone(b, s)
				b.RequireWorking(s, "~p~ again")
				b.End()
				b.Check()
			})
		})
	}
}

// TestParentCrashes checks that, when the parent crashes, the spans of its children end for
// clients, and no child stays open.
func TestParentCrashes(t *testing.T) {
	for _, plan := range []string{
		`Panic s1 ChildOpened 1`, `PanicAfter s1 ChildOpened 1`, `Panic s1 ChildSettled 1`, `PanicAfter s1 ChildSettled 0`,
		`PanicAfter s1 StartChild 0`, `PanicAfter s1 TellChild 1`, `PanicAfter s1 CloseChild 0`, `Panic s1 childProgress 0`,
	} {
		t.Run(plan, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				b := harness.Start(t, harness.WithTasks, harness.Faults(plan))
				s := b.Open()
				b.Say(s, "prompt", "~p~ tool=task rounds=1 children=2 each=rounds=2,work=200")
				b.AdvanceApproving(s, time.Hour)
				assert.Equal(t, 1, b.Crashes(s))
				settled := b.Events(s, "agent_settled")
				require.Len(t, settled, 1)
				assert.Equal(t, "interrupted", settled[0].Get("outcome").Str)
				alone(b, s)
				b.RequireWorking(s, "~p~ again")
				b.End()
				b.Check()
			})
		})
	}
}

// stages returns the lifecycle events of children that a subscribed client has received.
func stages(b *harness.Client, session string) (list []string) {
	for _, e := range b.Events(session, "subagent_lifecycle") {
		list = append(list, e.Get("payload.id").Str+" "+e.Get("payload.status").Str)
	}
	return list
}

// TestSubscriptions checks that only subscribed clients receive events of children, and only while
// they are attached.
func TestSubscriptions(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t, harness.WithTasks)
		s := a.Open()
		b, c := a.Connect(), a.Connect()
		for who, level := range map[*harness.Client]string{b: "progress", c: "events"} {
			who.Attach(s)
			v := who.Call(t, `{"type":"set_subagent_subscription","level":"`+level+`"`+harness.At(s)+`}`)
			require.Equal(t, level, v.Get("data.level").Str)
		}
		a.Run(s, "~p~ tool=task rounds=1 children=2 each=rounds=1,work=500")
		assert.Empty(t, a.Events(s, "subagent_lifecycle", "subagent_progress", "subagent_event"))
		want := []string{"A started", "B started", "A completed", "B completed"}
		assert.ElementsMatch(t, want, stages(b, s))
		assert.ElementsMatch(t, want, stages(c, s))
		assert.Greater(t, len(b.Events(s, "subagent_progress")), 4, "also between begin and end")
		assert.Empty(t, b.Events(s, "subagent_event"))
		heard := map[string][]string{}
		for _, e := range c.Events(s, "subagent_event") {
			id := e.Get("payload.id").Str
			heard[id] = append(heard[id], e.Get("payload.event.type").Str)
		}
		require.Len(t, heard, 2)
		for id, kinds := range heard {
			assert.Equal(t, "agent_start", kinds[0], id)
			assert.Equal(t, "agent_settled", kinds[len(kinds)-1], id)
			assert.Contains(t, kinds, "message_update")
			assert.Contains(t, kinds, "tool_execution_end")
		}
		n := len(c.Events(s, "subagent_event"))
		c.Call(t, `{"type":"detach"`+harness.At(s)+`}`)
		a.Run(s, "~p~ again tool=task rounds=1 children=1 each=rounds=1,work=50")
		assert.Len(t, c.Events(s, "subagent_event"), n)
		assert.Len(t, stages(b, s), 6)
		c.Attach(s)
		a.Run(s, "~p~ and again tool=task rounds=1 children=1 each=rounds=1,work=50")
		assert.Greater(t, len(c.Events(s, "subagent_event")), n, "what a client has asked for stands")
		a.End()
		a.Judge(actortest.Options{Files: a.Disk.Files(), Defaults: map[int]string{0: "s1"}})
	})
}

// TestSubscribersSeeCrashes checks that a subscribed client sees the children end when the parent
// crashes, and receives events of children after the restart.
func TestSubscribersSeeCrashes(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t, harness.WithTasks, harness.Faults(`Panic s1 childProgress 4`))
		s := b.Open()
		b.Call(t, `{"type":"set_subagent_subscription","level":"events"`+harness.At(s)+`}`)
		b.Say(s, "prompt", "~p~ tool=task rounds=1 children=2 each=rounds=2,work=200")
		b.AdvanceApproving(s, time.Hour)
		assert.Equal(t, 1, b.Crashes(s))
		assert.Equal(t, []string{"A started", "B started", "A aborted", "B aborted"}, stages(b, s))
		b.Run(s, "~p~ tool=task rounds=1 children=1 each=rounds=1,work=50")
		assert.Len(t, stages(b, s), 6)
		b.End()
		b.Check()
	})
}

// TestSubscriberDoesNotRead checks that children wait for a client that has subscribed to all
// events and does not read, and that an abort is not blocked by it.
func TestSubscriberDoesNotRead(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t, harness.WithTasks)
		s := a.Open()
		b := a.Connect(func(of *conn.Config) { of.MaxOutput = 32 << 10 })
		b.Attach(s)
		b.Call(t, `{"type":"set_subagent_subscription","level":"events"`+harness.At(s)+`}`)
		b.Stop()
		a.Say(s, "prompt", "~p~ tool=task rounds=1 children=2 each=parts=3000")
		a.Advance(time.Minute)
		require.Empty(t, a.Events(s, "subagent_end"), "they wait")
		assert.Less(t, b.Window.Out(), 96<<10)
		a.Call(t, `{"type":"abort"`+harness.At(s)+`}`)
		assert.NotEmpty(t, a.Events(s, "subagent_end"))
		assert.Len(t, a.Events(s, "subagent_end"), len(a.Events(s, "subagent_start")))
		a.Advance(time.Second)
		b.Go()
		a.Advance(time.Second)
		alone(a, s)
		a.End()
		a.Judge(actortest.Options{Files: a.Disk.Files(), Defaults: map[int]string{0: "s1"}})
	})
}

// TestSubscriberLags checks that events of children are dropped for a client with a lag limit that
// does not read, like all other events.
func TestSubscriberLags(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t, harness.WithTasks)
		s := a.Open()
		b := a.Connect(func(of *conn.Config) { of.Lag = 64 << 10 })
		b.Attach(s)
		b.Call(t, `{"type":"set_subagent_subscription","level":"events"`+harness.At(s)+`}`)
		b.Stop()
		a.Run(s, "~p~ tool=task rounds=1 children=2 each=parts=3000")
		results, _ := results(a, s)
		assert.Equal(t, []string{"A 0 ", "B 0 "}, results, "nobody waits for it")
		assert.Less(t, b.Window.Out(), 1<<20)
		b.Go()
		a.Advance(time.Second)
		assert.NotEmpty(t, b.Events(s, "resync"))
		heard := len(b.Events(s, "subagent_event"))
		assert.Less(t, heard, 3000)
		b.Attach(s)
		a.Run(s, "~p~ again tool=task rounds=1 children=1 each=rounds=0")
		assert.Greater(t, len(b.Events(s, "subagent_event")), heard, "it hears of children again")
		a.End()
	})
}

// TestAnotherClientOfAChild checks that a client of another connection can find, watch, steer and
// abort a child: only this item ends, and the parent receives the reason.
func TestAnotherClientOfAChild(t *testing.T) {
	t.Run("process", func(t *testing.T) { anotherClientOfAChild(t) })
	t.Run("sync", func(t *testing.T) { anotherClientOfAChild(t, harness.SyncWrites) })
}

func anotherClientOfAChild(t *testing.T, options ...func(*actors.Config)) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t, append(options, harness.WithTasks)...)
		s := a.Open()
		a.Say(s, "prompt", "~p~ tool=task rounds=1 children=3 each=rounds=3,work=1000")
		a.Advance(time.Second / 2)
		b := a.Connect()
		child := ""
		for _, open := range b.Call(t, `{"type":"list_open_sessions"}`).Get("data.sessions").Array() {
			if open.Get("taskId").Str == "B" {
				child = open.Get("sessionId").Str
				assert.Equal(t, s, open.Get("parentSessionId").Str)
			}
		}
		require.NotEmpty(t, child)
		b.Attach(child)
		for _, cmd := range []string{
			`"prompt","message":"x"`, `"abort_and_prompt","message":"x"`, `"set_model","provider":"a","modelId":"b"`, `"set_active_tools","toolNames":[]`,
			`"bash","command":"true"`, `"compact"`, `"set_session_name","name":"x"`, `"new_session"`, `"close_session"`, `"set_permission_mode","mode":"auto"`,
		} {
			v := b.Call(t, `{"type":`+cmd+harness.At(child)+`}`)
			assert.Equal(t, "session_busy", harness.Code(v), cmd)
			assert.Equal(t, "Session belongs to task B", v.Get("error").Str, cmd)
		}
		assert.Equal(t, "tools", b.Call(t, `{"type":"get_state"`+harness.At(child)+`}`).Get("data.phase").Str)
		b.Say(child, "steer", "~p~B faster rounds=3 work=5000")
		a.Advance(time.Second)
		said := false
		for _, m := range b.Events(child, "message_end") {
			said = said || strings.Contains(m.Raw, "~p~B faster")
		}
		assert.True(t, said, "the child was told")
		require.True(t, b.Call(t, `{"type":"abort"`+harness.At(child)+`}`).Get("success").Bool())
		assert.Equal(t, "aborted", b.Events(child, "agent_settled")[0].Get("outcome").Str)
		a.Advance(time.Minute)
		results, call := results(a, s)
		assert.Equal(t, []string{"A 0 ", "B 1 Aborted by the client", "C 0 "}, results)
		assert.False(t, call.Get("isError").Bool())
		assert.Equal(t, "Aborted by the client", call.Get("result.details.results.1.abortReason").Str)
		settled := a.Events(s, "agent_settled")
		require.Len(t, settled, 1)
		assert.Equal(t, "completed", settled[0].Get("outcome").Str)
		b.Run(child, "~p~B and now?") // stays open for attached clients, and belongs to no task
		b.Call(t, `{"type":"detach"`+harness.At(child)+`}`)
		a.Advance(time.Second)
		alone(a, s)
		a.End()
		a.Judge(actortest.Options{Defaults: map[int]string{0: "s1"}})
	})
}

// TestApprovalsOfChildren checks that a call of a child that needs approval is shown in the
// parent's session, as an approval or a dialog. The first answer counts, has the usual effects in
// the child, and is reported to all clients.
func TestApprovalsOfChildren(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t, harness.WithTasks, func(c *actors.Config) { c.Sessions.PermissionMode = "ask" })
		require.True(t, a.Call(t, `{"type":"hello","clientId":"knows-approvals","client":{"name":"Ann"},"features":["approvals","dialogEvents"],"ui":["approval"]}`).Get("success").Bool())
		s := a.Open()
		b := a.Connect(harness.Features("dialogEvents"))
		b.Attach(s)
		a.Say(s, "prompt", "~p~ tool=task rounds=1 each=rounds=5")
		actortest.Settle()
		require.True(t, a.Decide(s, a.Events(s, "approval_request")[0].Get("id").Str, "once").Get("success").Bool())
		// open returns the n-th request, as both clients receive it.
		open := func(n int) gjson.Result {
			t.Helper()
			actortest.Settle()
			asks, selects := a.Events(s, "approval_request"), b.Events(s, "extension_ui_request")
			require.Len(t, asks, n+1)
			require.Len(t, selects, n+1)
			ask := asks[n]
			assert.Equal(t, ask.Get("id").Str, selects[n].Get("id").Str)
			assert.Equal(t, "note", ask.Get("toolName").Str, ask.Raw)
			assert.Equal(t, `{"text":`, ask.Get("args").Raw[:8])
			assert.Contains(t, ask.Get("title").Str, "[A] Run note")
			assert.Contains(t, selects[n].Get("title").Str, "[A] Run note")
			assert.Empty(t, a.Events(s, "extension_ui_request"))
			list := a.Call(t, `{"type":"get_dialogs"`+harness.At(s)+`}`).Get("data")
			assert.Equal(t, ask.Get("id").Str, list.Get("approvals.0.id").Str)
			return ask
		}
		// over checks the outcome of the n-th request, as both clients receive it.
		over := func(n int, ours, theirs string) {
			t.Helper()
			actortest.Settle()
			ends, gone := a.Events(s, "approval_resolved"), b.Events(s, "dialog_resolved")
			require.Len(t, ends, n+1)
			require.Len(t, gone, n+1)
			assert.Equal(t, ours, ends[n].Get("outcome").Str+" "+ends[n].Get("optionId").Str+" "+ends[n].Get("by.name").Str)
			assert.Equal(t, theirs, gone[n].Get("outcome").Str+" "+gone[n].Get("by.name").Str)
			assert.Equal(t, ends[n].Get("id").Str, gone[n].Get("id").Str)
		}
		result := func(n int) gjson.Result {
			t.Helper()
			actortest.Settle()
			found := a.Call(t, `{"type":"get_subagent_messages","subagentId":"A"`+harness.At(s)+`}`).Get(`data.messages.#(role=="toolResult")#`).Array()
			require.Len(t, found, n+1)
			return found[n]
		}

		id := open(1).Get("id").Str
		assert.Equal(t, "invalid_params", harness.Code(a.Decide(s, id, "never")))
		assert.Equal(t, "invalid_params", harness.Code(a.Decide(s, id, "once", `"args":{"other":1}`)), "the child says what fits")
		v := a.Decide(s, id, "once", `"args":{"text":"~p~A other"}`)
		require.True(t, v.Get("success").Bool(), v.Raw)
		v = a.Decide(s, id, "no")
		assert.Equal(t, "dialog_over allowed Ann", v.Get("code").Str+" "+v.Get("data.outcome").Str+" "+v.Get("data.by.name").Str, v.Raw)
		over(1, "allowed once Ann", "answered Ann")
		a.Advance(time.Second)
		assert.Equal(t, `{"text":"~p~A other"}`, result(0).Get("details.approvedArgs").Raw)

		id = open(2).Get("id").Str
		require.True(t, a.Decide(s, id, "no", `"feedback":"not that one"`).Get("success").Bool())
		over(2, "denied no Ann", "answered Ann")
		a.Advance(time.Second)
		assert.Contains(t, result(1).Get("content.0.text").Str, "not that one")

		ask := open(3)
		choices := b.Events(s, "extension_ui_request")[3].Get("options").Array()
		b.Line(`{"type":"extension_ui_response","id":"` + ask.Get("id").Str + `","value":"` + choices[0].Str + `"` + harness.At(s) + `}`)
		over(3, "allowed once ", "answered ")
		a.Advance(time.Second)
		assert.False(t, result(2).Get("isError").Bool())

		id = open(4).Get("id").Str
		require.True(t, a.Decide(s, id, "session").Get("success").Bool())
		over(4, "allowed session Ann", "answered Ann")
		a.Advance(time.Minute)
		require.Len(t, a.Events(s, "agent_settled"), 1, "what was allowed always is asked no more")
		assert.False(t, result(4).Get("isError").Bool())
		results, _ := results(a, s)
		assert.Equal(t, []string{"A 0 "}, results)

		a.Say(s, "prompt", "~q~ tool=task rounds=1 each=rounds=2")
		actortest.Settle()
		require.True(t, a.Decide(s, a.Events(s, "approval_request")[5].Get("id").Str, "once").Get("success").Bool())
		over(5, "allowed once Ann", "answered Ann")
		id = a.Events(s, "approval_request")[6].Get("id").Str
		require.True(t, a.Call(t, `{"type":"abort"`+harness.At(s)+`}`).Get("success").Bool())
		over(6, "cancelled  ", "aborted ")
		assert.Equal(t, "dialog_over", harness.Code(a.Decide(s, id, "once")))
		assert.Empty(t, a.Call(t, `{"type":"get_dialogs"`+harness.At(s)+`}`).Get("data.approvals").Array())
		require.NoError(t, b.Leave())
		a.End()
		a.Check()
	})
}

// TestDialogsOfChildren checks that a dialog of a child is shown in the parent's session as well,
// and is closed there when a client answers it in the child's session.
func TestDialogsOfChildren(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t, harness.WithTasks, func(c *actors.Config) { c.Sessions.Confirm = []string{"note"} })
		a.Hello("knows-dialogs", "Ann", "dialogEvents")
		s := a.Open()
		a.Say(s, "prompt", "~p~ tool=task rounds=1 each=rounds=2")
		actortest.Settle()
		child := a.Events(s, "subagent_start")[0].Get("sessionId").Str
		b := a.Connect()
		b.Hello("at-the-child", "Bob", "dialogEvents")
		b.Attach(child)
		a.Advance(time.Second)
		asks := a.Events(s, "extension_ui_request")
		require.Len(t, asks, 1)
		assert.Contains(t, asks[0].Get("title").Str, "[A] ")
		require.Len(t, a.Call(t, `{"type":"get_dialogs"`+harness.At(s)+`}`).Get("data.dialogs").Array(), 1)
		id := b.Call(t, `{"type":"get_dialogs"`+harness.At(child)+`}`).Get("data.dialogs.0.id").Str
		require.NotEmpty(t, id)
		b.Line(`{"type":"extension_ui_response","id":"` + id + `","confirmed":true` + harness.At(child) + `}`)
		a.Advance(time.Second)
		over := a.Events(s, "dialog_resolved")
		require.Len(t, over, 1)
		assert.Equal(t, asks[0].Get("id").Str+" answered Bob", over[0].Get("id").Str+" "+over[0].Get("outcome").Str+" "+over[0].Get("by.name").Str)

		asks = a.Events(s, "extension_ui_request")
		require.Len(t, asks, 2, "the child has gone on")
		list := a.Call(t, `{"type":"get_dialogs"`+harness.At(s)+`}`).Get("data.dialogs").Array()
		require.Len(t, list, 1)
		assert.Equal(t, asks[1].Get("id").Str, list[0].Get("id").Str)
		a.Line(`{"type":"extension_ui_response","id":"` + asks[1].Get("id").Str + `","confirmed":true` + harness.At(s) + `}`)
		a.Advance(time.Minute)
		require.Len(t, a.Events(s, "dialog_resolved"), 2)
		require.Len(t, a.Events(s, "agent_settled"), 1)
		require.NoError(t, b.Leave())
		a.End()
		a.Check()
	})
}

// TestChildrenOfChildrenFollowTheMode checks that grandchildren use the permission mode of the root
// session, like children.
func TestChildrenOfChildrenFollowTheMode(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t, harness.WithTasks, func(c *actors.Config) { c.Sessions.PermissionMode = "ask" })
		a.Hello("knows-approvals", "Ann", "approvals")
		s := a.Open()
		a.Say(s, "prompt", "~p~ tool=task rounds=1 each=tool=task,rounds=1,agent=helper,each=rounds=4")
		for i, title := range []string{"task", "[A] ", "[A] [A"} {
			a.Advance(time.Second)
			asks := a.Events(s, "approval_request")
			require.Len(t, asks, i+1)
			assert.Contains(t, asks[i].Get("title").Str, title)
			if i == 2 {
				assert.Equal(t, "note", asks[i].Get("toolName").Str)
				require.True(t, a.Call(t, `{"type":"set_permission_mode","mode":"auto"`+harness.At(s)+`}`).Get("success").Bool())
			}
			require.True(t, a.Decide(s, asks[i].Get("id").Str, "once").Get("success").Bool())
		}
		a.Advance(time.Minute)
		require.Len(t, a.Events(s, "approval_request"), 3, "nothing is asked any more")
		require.Len(t, a.Events(s, "agent_settled"), 1)
		results, _ := results(a, s)
		assert.Equal(t, []string{"A 0 "}, results)
		a.End()
		a.Check()
	})
}

// TestChildrenFollowTheMode checks that a new permission mode of the parent applies to the next
// calls of running children, and that open approvals stay open.
func TestChildrenFollowTheMode(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t, harness.WithTasks)
		a.Hello("knows-approvals", "Ann", "approvals")
		s := a.Open()
		set := func(mode string) {
			t.Helper()
			require.True(t, a.Call(t, `{"type":"set_permission_mode","mode":"`+mode+`"`+harness.At(s)+`}`).Get("success").Bool())
		}
		a.Say(s, "prompt", "~p~ tool=task rounds=1 children=2 each=rounds=3,work=1000")
		a.Advance(time.Second / 2)
		set("readonly")
		a.Advance(time.Minute)
		require.Len(t, a.Events(s, "agent_settled"), 1)
		for _, id := range []string{"A", "B"} {
			results := a.Call(t, `{"type":"get_subagent_messages","subagentId":"`+id+`"`+harness.At(s)+`}`).Get(`data.messages.#(role=="toolResult")#`).Array()
			require.Len(t, results, 3)
			assert.False(t, results[0].Get("isError").Bool(), "it had begun")
			for _, r := range results[1:] {
				assert.Contains(t, r.Get("content.0.text").Str, "not permitted")
			}
		}

		set("ask")
		a.Say(s, "prompt", "~q~ tool=task rounds=1 each=rounds=5")
		asks := func(n int) gjson.Result {
			t.Helper()
			a.Advance(time.Second)
			list := a.Events(s, "approval_request")
			require.Len(t, list, n)
			return list[n-1]
		}
		require.True(t, a.Decide(s, asks(1).Get("id").Str, "once").Get("success").Bool())
		ask := asks(2)
		require.Equal(t, "note", ask.Get("toolName").Str)
		set("auto")
		a.Advance(time.Minute)
		require.Len(t, a.Events(s, "approval_resolved"), 1, "it stays open")
		require.True(t, a.Decide(s, ask.Get("id").Str, "once").Get("success").Bool())
		a.Advance(time.Minute)
		asks(2)
		require.Len(t, a.Events(s, "agent_settled"), 2)
		a.End()
		a.Check()
	})
}

// TestChildrenShareABudget checks that parallel children exceed a limit by at most one answer,
// because only one request runs at a time near the limit. Items that have not started are refused,
// a crashed child leaves no reservation, and clients are notified once.
func TestChildrenShareABudget(t *testing.T) {
	const prompt, answer = "~p~ tool=task rounds=1 children=8 each=rounds=0", 5
	var calls int64 // estimated tokens of the answer with the call
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t, harness.WithTasks)
		s := b.Open()
		b.Call(t, `{"type":"set_budget","limits":{"maxOutputTokens":100000}`+harness.At(s)+`}`)
		b.Run(s, prompt)
		calls = b.Call(t, `{"type":"get_budget"`+harness.At(s)+`}`).Get("data.snapshot.outputTokens").Int() - 9*answer
		b.End()
		b.Check()
	})
	for name, plan := range map[string]string{"fine": "", "a child crashes": `Panic s2 StreamEnd 0`, "a minder crashes": `Panic s1/sub/A Records 3`} {
		t.Run(name, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				b := harness.Start(t, harness.WithTasks, harness.Faults(plan))
				b.Models.Watch(b.History)
				s := b.Open()
				b.Call(t, `{"type":"set_budget","limits":{"maxOutputTokens":`+fmt.Sprint(calls+17)+`}`+harness.At(s)+`}`)
				b.Run(s, prompt)
				used := b.Call(t, `{"type":"get_budget"`+harness.At(s)+`}`).Get("data.snapshot")
				assert.Equal(t, calls+4*answer, used.Get("outputTokens").Int(), "one answer beyond the limit")
				assert.Equal(t, "exceeded", used.Get("status").Str)
				results, _ := results(b, s)
				done, refused := 0, 0
				for _, r := range results {
					switch {
					case strings.HasSuffix(r, " 0 "):
						done++
					case strings.HasSuffix(r, " 1 Budget exceeded (output_tokens)"):
						refused++
					}
				}
				if plan == "" {
					assert.Equal(t, 4, done, results)
					assert.Equal(t, 4, refused, results)
				}
				assert.LessOrEqual(t, done, 4, results)
				assert.GreaterOrEqual(t, done+refused, 7, "only the one that crashed ended otherwise, whether it had been answered or not: %s", results)
				assert.Len(t, b.Events(s, "budget_exceeded"), 2, "the session and the call")
				b.Config.Faults.Release()
				b.Advance(time.Minute)
				alone(b, s)
				v := b.Call(t, `{"type":"prompt","message":"~p~ more"`+harness.At(s)+`}`)
				assert.Equal(t, "budget_exceeded", v.Get("code").Str)
				b.Call(t, `{"type":"set_budget","limits":{"maxOutputTokens":null}`+harness.At(s)+`}`)
				b.RequireWorking(s, "~p~ again")
				b.End()
				// No model has reported the estimated tokens of the calls.
				b.Judge(actortest.Options{Files: b.Disk.Files(), Output: 17})
			})
		})
	}
}

// TestTasksAfterTheEndOfInput checks that a run that drains after the end of the input can still
// open children, and that an abort leaves none.
func TestTasksAfterTheEndOfInput(t *testing.T) {
	for _, drain := range []bool{true, false} {
		t.Run(fmt.Sprint(drain), func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				b := harness.Start(t, harness.WithTasks, func(c *actors.Config) { c.Conn.Drain = drain })
				b.Say("", "prompt", "~p~ tool=task rounds=2 children=2 each=rounds=1,work=500")
				b.Close()
				b.Wait()
				require.NoError(t, b.Err)
				if !drain {
					assert.Equal(t, "aborted", b.Events("", "agent_settled")[0].Get("outcome").Str)
					return
				}
				ends := b.Events("", "tool_execution_end")
				require.Len(t, ends, 2)
				for _, call := range ends {
					assert.Equal(t, "[0,0]", call.Get("result.details.results.#.exitCode").Raw, call.Raw)
				}
				assert.Equal(t, "completed", b.Events("", "agent_settled")[0].Get("outcome").Str)
			})
		})
	}
}
