package actors

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors/actortest"
	"troupe/actors/conn"
)

// knowing is a client with features.
func knowing(features ...string) func(*conn.Config) {
	return func(of *conn.Config) { of.Features = features }
}

// named tells the daemon who a client is.
func (b *bench) named(id, name string, features ...string) {
	list := ""
	for i, f := range features {
		if i > 0 {
			list += ","
		}
		list += fmt.Sprintf("%q", f)
	}
	v := b.Call(b.t, fmt.Sprintf(`{"type":"hello","clientId":%q,"client":{"name":%q},"features":[%s]}`, id, name, list))
	require.True(b.t, v.Get("success").Bool(), v.Raw)
}

func asking(c *Config) { c.Sessions.PermissionMode = "ask" }

// TestNamesOfClients: what a client says of itself has bounds.
func TestNamesOfClients(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := start(t)
		for _, id := range []string{"short", "with space", strings.Repeat("x", 65), "../../etc"} {
			assert.Equal(t, "invalid_params", code(a.Call(t, fmt.Sprintf(`{"type":"hello","clientId":%q}`, id))), id)
		}
		assert.Equal(t, "invalid_params", code(a.Call(t, fmt.Sprintf(`{"type":"hello","client":{"name":%q}}`, strings.Repeat("x", 201)))))
		a.checkAll()
	})
}

// TestDialogIsTakenAwayEverywhere: who attaches is told what is open, who else has
// answered is told to all, and a second answer is refused.
func TestDialogIsTakenAwayEverywhere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := start(t, confirm)
		s := a.open()
		a.Say(s, "prompt", "~a~ rounds=1 tool=danger")
		actortest.Settle()
		b, c := a.connect(), a.connect()
		b.named("first-of-two", "Ann", "seq", "dialogEvents", "uiAck")
		c.named("second-of-two", "Bob", "dialogEvents", "uiAck")
		v := b.Call(t, `{"type":"attach"`+at(s)+`,"snapshot":{}}`)
		assert.Equal(t, "confirm_1", v.Get("data.dialogs.0.id").Str, v.Raw)
		assert.Equal(t, "confirm_1", v.Get("data.snapshot.dialogs.0.id").Str)
		assert.Empty(t, b.Events(s, "extension_ui_request"), "it is in the answer")
		v = c.Call(t, `{"type":"attach"`+at(s)+`}`)
		assert.Equal(t, "confirm_1", v.Get("data.dialogs.0.id").Str)
		assert.Equal(t, "confirm_1", c.Call(t, `{"type":"get_dialogs"`+at(s)+`}`).Get("data.dialogs.0.id").Str)
		answer := func(who *bench) gjson.Result {
			who.Line(`{"type":"extension_ui_response","id":"confirm_1","confirmed":true` + at(s) + `}`)
			actortest.Settle()
			return who.Last("extension_ui_response")
		}
		require.True(t, answer(b).Get("success").Bool())
		v = answer(c)
		assert.Equal(t, "dialog_over answered Ann", v.Get("code").Str+" "+v.Get("data.outcome").Str+" "+v.Get("data.by.name").Str, v.Raw)
		a.pass(time.Minute)
		require.Len(t, a.Events(s, "agent_settled"), 1)
		for _, who := range []*bench{b, c} {
			over := who.Events(s, "dialog_resolved")
			require.Len(t, over, 1)
			assert.Equal(t, "confirm_1 answered first-of-two Ann", fmt.Sprint(over[0].Get("id"), " ", over[0].Get("outcome"), " ", over[0].Get("by.clientId"), " ", over[0].Get("by.name")))
		}
		assert.Empty(t, a.Events(s, "dialog_resolved"), "it has not asked for it")
		assert.Equal(t, "[]", c.Call(t, `{"type":"get_dialogs"`+at(s)+`}`).Get("data.dialogs").Raw)
		require.NoError(t, b.leave())
		require.NoError(t, c.leave())
		a.checkAll()
	})
}

// TestDialogEndsWithTheRun: an abort takes the dialog away from those who did not ask for it.
func TestDialogEndsWithTheRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := start(t, confirm)
		s := a.open()
		b := a.connect(knowing("dialogEvents"))
		b.attach(s)
		a.Say(s, "prompt", "~a~ rounds=1 tool=danger")
		actortest.Settle()
		a.Call(t, `{"type":"abort"`+at(s)+`}`)
		over := b.Events(s, "dialog_resolved")
		require.Len(t, over, 1)
		assert.Equal(t, "aborted", over[0].Get("outcome").Str)
		require.NoError(t, b.leave())
		a.checkAll()
	})
}

// TestApprovalsOfSeveralClients: an approval that is open is shown to who comes later, each
// in its way; the first answer counts and everybody is told of it.
func TestApprovalsOfSeveralClients(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := start(t, asking)
		s := a.open()
		assert.Equal(t, "ask", a.Call(t, `{"type":"get_state"`+at(s)+`}`).Get("data.permissionMode").Str)
		a.Say(s, "prompt", "~a~ rounds=1")
		actortest.Settle()
		id := a.Events(s, "extension_ui_request")[0].Get("id").Str
		b, c, d := a.connect(), a.connect(knowing("dialogEvents")), a.connect()
		b.named("knows-approvals", "Ann", "approvals", "dialogEvents")
		v := b.Call(t, `{"type":"attach"`+at(s)+`}`)
		assert.Equal(t, id, v.Get("data.approvals.0.id").Str, v.Raw)
		assert.Empty(t, v.Get("data.dialogs").Array())
		v = c.Call(t, `{"type":"attach"`+at(s)+`}`)
		assert.Equal(t, id, v.Get("data.dialogs.0.id").Str, v.Raw)
		d.attach(s)
		require.Len(t, d.Events(s, "extension_ui_request"), 1, "behind the answer")
		v = b.Call(t, `{"type":"approval_response","approvalId":"`+id+`","optionId":"once"`+at(s)+`}`)
		require.True(t, v.Get("success").Bool(), v.Raw)
		v = b.Call(t, `{"type":"approval_response","approvalId":"`+id+`","optionId":"no"`+at(s)+`}`)
		assert.Equal(t, "dialog_over allowed Ann", v.Get("code").Str+" "+v.Get("data.outcome").Str+" "+v.Get("data.by.name").Str, v.Raw)
		v = b.Call(t, `{"type":"approval_response","approvalId":"approval_99","optionId":"no"`+at(s)+`}`)
		assert.Equal(t, "not_found", v.Get("code").Str)
		a.pass(time.Minute)
		require.Len(t, a.Events(s, "agent_settled"), 1)
		over := b.Events(s, "approval_resolved")
		require.Len(t, over, 1)
		assert.Equal(t, "allowed Ann", over[0].Get("outcome").Str+" "+over[0].Get("by.name").Str)
		over = c.Events(s, "dialog_resolved")
		require.Len(t, over, 1)
		assert.Equal(t, "answered Ann", over[0].Get("outcome").Str+" "+over[0].Get("by.name").Str)
		for _, who := range []*bench{b, c, d} {
			require.NoError(t, who.leave())
		}
		a.checkAll()
	})
}

// TestLag: a session does not wait for a client whose events may be dropped. It is told
// where they are missing, hears nothing of the session until it attaches again, and is
// then told the rest.
func TestLag(t *testing.T) {
	for _, deltas := range []bool{true, false} {
		t.Run(fmt.Sprint(deltas), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				a := start(t)
				s := a.open()
				features := []string{"seq"}
				if deltas {
					features = append(features, "deltaUpdates")
				}
				b := a.connect(func(of *conn.Config) { of.Features, of.Lag, of.MaxOutput = features, 16<<10, 8<<10 })
				r := &reader{last: b.Call(t, `{"type":"attach"`+at(s)+`}`).Get("data.seq").Int()}
				b.Stop()
				a.Say(s, "prompt", "~"+s+"~ rounds=20 parts=40")
				a.pass(time.Minute)
				require.Len(t, a.Events(s, "agent_settled"), 1, "it has not waited")
				_, out := b.window.Balance()
				assert.Less(t, out, 100<<10)
				b.Send(`{"type":"get_state"` + at(s) + `}`)
				b.Go()
				a.pass(time.Second)
				read := b.Events(s)
				last := read[len(read)-1]
				require.Equal(t, "resync lagged", last.Get("type").Str+" "+last.Get("reason").Str)
				r.take(t, read[:len(read)-1], deltas)
				assert.Equal(t, r.last, last.Get("seq").Int())
				assert.False(t, b.Last("get_state").Get("at").Exists(), "it has not read up to there")
				a.run(s, "~"+s+"~ more")
				assert.Len(t, b.Events(s), len(read), "it hears nothing more")
				v := b.Call(t, fmt.Sprintf(`{"type":"attach"%s,"since":{"epoch":"e","seq":%d}}`, at(s), r.last))
				if v.Get("data.replay").Str == "snapshot" {
					r.last, r.text = v.Get("data.seq").Int(), ""
				}
				a.run(s, "~"+s+"~ and more")
				r.take(t, b.Events(s)[len(read):], deltas)
				assert.Equal(t, "agent_settled", r.lines[len(r.lines)-1].Get("type").Str)
				require.NoError(t, b.leave())
				a.checkAll()
			})
		})
	}
}

// TestStateIsToldToAll: what one client chooses, and who comes and goes, is told to those
// who want to know.
func TestStateIsToldToAll(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := start(t)
		s := a.open()
		b := a.connect()
		b.named("watches-it-all", "Ann", "stateEvents", "seq")
		v := b.Call(t, `{"type":"attach"`+at(s)+`}`)
		assert.Equal(t, `[{},{"clientId":"watches-it-all","name":"Ann"}]`, v.Get("data.clients").Raw)
		c := a.connect()
		c.named("changes-it-all", "Bob")
		c.attach(s)
		for _, line := range []string{
			`{"type":"set_thinking_level","level":"off"`, `{"type":"set_permission_mode","mode":"readonly"`,
			`{"type":"set_steering_mode","mode":"all"`, `{"type":"set_steering_mode","mode":"all"`,
			`{"type":"set_session_name","name":"N"`, `{"type":"set_auto_compaction","enabled":false`, `{"type":"set_active_tools","toolNames":[]`,
		} {
			require.True(t, c.Call(t, line+at(s)+`}`).Get("success").Bool(), line)
		}
		a.Call(t, `{"type":"set_follow_up_mode","mode":"all"`+at(s)+`}`)
		require.NoError(t, c.leave())
		var told []string
		for _, ev := range b.Events(s, "state_changed", "clients_changed") {
			members := []string{}
			for key, value := range ev.Map() {
				if key != "type" && key != "sessionId" && key != "seq" && key != "seqFrom" {
					members = append(members, key+"="+value.Raw)
				}
			}
			slices.Sort(members)
			told = append(told, strings.Join(members, " "))
		}
		bob := `by={"clientId":"changes-it-all","name":"Bob"} `
		assert.Equal(t, []string{
			`clients=[{},{"clientId":"watches-it-all","name":"Ann"}]`,
			`clients=[{},{"clientId":"watches-it-all","name":"Ann"},{"clientId":"changes-it-all","name":"Bob"}]`,
			bob + `permissionMode="readonly"`, bob + `steeringMode="all"`, bob + `sessionName="N"`, `autoCompactionEnabled=false ` + strings.TrimSpace(bob),
			`activeToolNames=[] ` + strings.TrimSpace(bob), `followUpMode="all"`,
			`clients=[{},{"clientId":"watches-it-all","name":"Ann"}]`,
		}, told)
		assert.Empty(t, a.Events(s, "state_changed", "clients_changed"))
		require.NoError(t, b.leave())
		a.checkAll()
	})
}

// TestEntriesBackwards: a client reads a session from its end, page by page.
func TestEntriesBackwards(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := start(t)
		s := a.open()
		for i := range 6 {
			a.run(s, fmt.Sprintf("~%s~ %d", s, i))
		}
		ids := func(v gjson.Result) (list []string) {
			for _, e := range v.Get("data.entries").Array() {
				list = append(list, e.Get("id").Str)
			}
			return list
		}
		ask := func(more string) gjson.Result { return a.Call(t, `{"type":"get_entries"`+at(s)+more+`}`) }
		all := ids(ask(""))
		var found []string
		for before, more := "end", true; more; before = found[0] {
			v := ask(fmt.Sprintf(`,"before":%q,"limit":5`, before))
			more = v.Get("data.hasMore").Bool()
			found = append(ids(v), found...)
		}
		assert.Equal(t, all, found)
		assert.Len(t, ids(ask(`,"before":"end","maxBytes":1`)), 1)
		assert.Equal(t, "not_found", code(ask(`,"before":"nobody"`)))
		assert.Equal(t, "invalid_params", code(ask(`,"before":"end","since":"`+all[0]+`"`)))
		assert.Equal(t, "invalid_params", code(ask(`,"maxBytes":1`)))
		a.checkAll()
	})
}

// TestWatchSessions: a connection that watches is told of every session of the process: that
// it begins, what it does, that somebody is wanted, how it went, that it is gone.
func TestWatchSessions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := start(t, confirm)
		b := a.connect(knowing("sessionEvents"))
		assert.Equal(t, "invalid_params", code(a.Call(t, `{"type":"watch_sessions"}`)), "without the feature")
		assert.Equal(t, "[]", b.Call(t, `{"type":"watch_sessions"}`).Get("data.sessions").Raw)
		s := a.open()
		a.Say(s, "prompt", "~"+s+"~ rounds=1 tool=danger")
		actortest.Settle()
		a.Line(`{"type":"extension_ui_response","id":"confirm_1","confirmed":true` + at(s) + `}`)
		a.pass(time.Minute)
		a.Call(t, `{"type":"set_session_name","name":"N"`+at(s)+`}`)
		a.Call(t, `{"type":"close_session"`+at(s)+`}`)
		a.pass(time.Second)
		var told []string
		for _, v := range b.Events(s, "session_status") {
			now := v.Get("status").Str + " " + v.Get("phase").Str + " " + v.Get("attention").Str + " " + v.Get("sessionName").Str
			if len(told) == 0 || told[len(told)-1] != now {
				told = append(told, now)
			}
		}
		assert.Equal(t, []string{
			"opening  none ", "idle idle none ", "running streaming none ", "running dialog dialog ", "running tools none ", "running streaming none ",
			"idle idle done ", "idle idle done N", "closing idle done N", "closed  done N",
		}, told)
		require.True(t, b.Call(t, `{"type":"unwatch_sessions"}`).Get("success").Bool())
		n := len(b.Lines())
		a.open()
		assert.Len(t, b.Lines(), n)
		require.NoError(t, b.leave())
		a.checkAll()
	})
}

// TestAttachByOtherNames: a session is found by the id in its file and by its file, which is
// opened if nobody has.
func TestAttachByOtherNames(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := start(t)
		s := a.open()
		a.run(s, "~"+s+"~ one")
		state := a.Call(t, `{"type":"get_state"`+at(s)+`}`)
		id, file := state.Get("data.sessionId").Str, state.Get("data.sessionFile").Str
		b := a.connect()
		attach := func(who *bench, by, name string) gjson.Result {
			return who.Call(t, fmt.Sprintf(`{"type":"attach",%q:%q}`, by, name))
		}
		for by, name := range map[string]string{"durableId": id, "sessionPath": file, "sessionId": s} {
			v := attach(b, by, name)
			assert.Equal(t, s+" "+s, v.Get("data.sessionId").Str+" "+v.Get("sessionId").Str, v.Raw)
			assert.Equal(t, s, attach(b, by, name).Get("data.sessionId").Str, "again")
			assert.Equal(t, s, attach(a, by, name).Get("data.sessionId").Str, "who has it anyway")
		}
		a.run(s, "~"+s+"~ two")
		assert.Len(t, b.Events(s, "agent_settled"), 1, "told once")
		assert.Equal(t, "unknown_session", code(attach(b, "durableId", "nobody")))
		assert.Equal(t, "invalid_params", code(b.Call(t, `{"type":"attach"}`)))
		assert.Equal(t, "invalid_params", code(b.Call(t, fmt.Sprintf(`{"type":"attach","durableId":%q,"sessionPath":%q}`, id, file))))
		a.Call(t, `{"type":"close_session"`+at(s)+`}`)
		assert.Equal(t, "unknown_session", code(attach(b, "durableId", id)), "it is not open")
		v := attach(b, "sessionPath", file)
		again := v.Get("data.sessionId").Str
		assert.Equal(t, id, v.Get("data.state.sessionId").Str, v.Raw)
		b.run(again, "~"+again+"~ three")
		assert.False(t, attach(b, "sessionPath", "/nowhere.jsonl").Get("success").Bool())
		require.NoError(t, b.leave())
		a.checkAll()
	})
}

// TestCommandsComeAgain: a client that has not read an answer because its connection broke
// sends the command again, and it does nothing twice.
func TestCommandsComeAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := start(t)
		s := a.open()
		come := func() *bench {
			b := a.connect()
			b.named("comes-back-again", "Ann")
			b.attach(s)
			return b
		}
		say := func(b *bench, line string) gjson.Result {
			n := len(b.Lines())
			b.Line(line)
			actortest.Settle()
			for _, text := range b.Lines()[n:] {
				if v := gjson.Parse(text); v.Get("type").Str == "response" {
					return v
				}
			}
			return gjson.Result{}
		}
		names := 0
		lose := func(b *bench) { // it is noticed when something is written
			b.Break()
			names++
			a.Call(t, fmt.Sprintf(`{"type":"set_session_name","name":"%d"%s}`, names, at(s)))
			require.Error(t, b.gone())
		}
		prompt := `{"id":"p1","type":"prompt","message":"~s1~ once"` + at(s) + `}`
		b := come()
		first := say(b, prompt)
		require.True(t, first.Get("success").Bool(), first.Raw)
		a.pass(time.Minute)
		lose(b)
		b = come()
		again := say(b, prompt)
		assert.True(t, again.Get("replayed").Bool(), again.Raw)
		assert.Equal(t, first.Get("data").Raw, again.Get("data").Raw)
		assert.Equal(t, "duplicate_command", code(say(b, `{"id":"p1","type":"prompt","message":"~s1~ other"`+at(s)+`}`)))
		for range 2 {
			v := say(b, `{"id":"q1","type":"get_state"`+at(s)+`}`)
			assert.True(t, v.Get("success").Bool() && !v.Get("replayed").Bool(), "what asks is asked anew")
		}
		opened := say(b, `{"id":"o1","type":"open_session"}`).Get("data.sessionId").Str
		require.NotEmpty(t, opened)
		assert.Equal(t, opened, say(b, `{"id":"o1","type":"open_session"}`).Get("data.sessionId").Str)
		assert.Len(t, a.openSessions(), 2)
		a.pass(time.Minute)
		assert.Len(t, a.Events(s, "agent_settled"), 1)

		slow := `{"id":"b1","type":"bash","command":"~s1~ sleep=60000"` + at(s) + `}`
		assert.Empty(t, say(b, slow).Raw)
		lose(b)
		b = come()
		assert.Empty(t, say(b, slow).Raw, "it is under way")
		a.pass(time.Hour)
		v := b.Last("bash")
		assert.True(t, v.Get("id").Str == "b1" && v.Get("success").Bool(), v.Raw)
		assert.True(t, say(b, slow).Get("replayed").Bool())

		require.False(t, say(b, `{"id":"u1","type":"prompt","message":"x","sessionId":"s9"}`).Get("success").Bool())
		assert.False(t, say(b, `{"id":"u1","type":"prompt","message":"x","sessionId":"s9"}`).Get("replayed").Bool(), "it has done nothing")
		require.NoError(t, b.leave())
		c := a.connect()
		c.named("somebody-else", "Bob")
		c.attach(s)
		assert.False(t, say(c, prompt).Get("replayed").Bool(), "ids are each client's own")
		a.pass(time.Minute)
		require.NoError(t, c.leave())
		a.pass(11 * time.Minute)
		b = come()
		assert.False(t, say(b, prompt).Get("replayed").Bool(), "it is forgotten in time")
		a.pass(time.Minute)
		require.NoError(t, b.leave())
		a.end()
	})
}

// TestReplayIsWhole: what the answer to an attach has promised comes, also if it is more than
// may wait for a client for which no session waits.
func TestReplayIsWhole(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := start(t, func(c *Config) { c.Sessions.RingBytes = 8 << 20 })
		s := a.open()
		b := a.connect(func(of *conn.Config) { of.Features, of.Lag = []string{"seq", "settingEvents"}, 4<<10 })
		from := b.Call(t, `{"type":"attach"`+at(s)+`}`).Get("data.seq").Int()
		require.NoError(t, b.leave())
		for i := range 500 {
			a.Call(t, fmt.Sprintf(`{"type":"set_session_name","name":"%d %s"%s}`, i, strings.Repeat("x", 2000), at(s)))
		}
		b = a.connect(func(of *conn.Config) { of.Features, of.Lag = []string{"seq", "settingEvents"}, 4<<10 })
		b.Stop() // all of it waits
		id := b.Send(fmt.Sprintf(`{"type":"attach"%s,"since":{"epoch":"e","seq":%d}}`, at(s), from))
		a.Settle()
		b.Go()
		a.Settle()
		v := b.Answer(t, id)
		require.Equal(t, "exact", v.Get("data.replay").Str, v.Raw)
		read := b.Events(s)
		require.Len(t, read, int(v.Get("data.replayed").Int()))
		for i, ev := range read {
			require.Equal(t, from+int64(i)+1, ev.Get("seq").Int(), ev.Raw)
		}
		require.NoError(t, b.leave())
		a.end()
	})
}
