package clients

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
	"troupe/actors/scenario/harness"
)

// TestNamesOfClients checks that hello limits the length and the characters of client ids and
// names.
func TestNamesOfClients(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t)
		for _, id := range []string{"short", "with space", strings.Repeat("x", 65), "../../etc"} {
			assert.Equal(t, "invalid_params", harness.Code(a.Call(t, fmt.Sprintf(`{"type":"hello","clientId":%q}`, id))), id)
		}
		assert.Equal(t, "invalid_params", harness.Code(a.Call(t, fmt.Sprintf(`{"type":"hello","client":{"name":%q}}`, strings.Repeat("x", 201)))))
		a.CheckAll()
	})
}

// TestStateIsToldToAll checks that changed settings and attached clients are reported to every
// client with the feature stateEvents, and to no other.
func TestStateIsToldToAll(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t)
		s := a.Open()
		b := a.Connect()
		b.Hello("watches-it-all", "Ann", "stateEvents", "seq")
		v := b.Call(t, `{"type":"attach"`+harness.At(s)+`}`)
		assert.Equal(t, `[{},{"clientId":"watches-it-all","name":"Ann"}]`, v.Get("data.clients").Raw)
		c := a.Connect()
		c.Hello("changes-it-all", "Bob")
		c.Attach(s)
		for _, line := range []string{
			`{"type":"set_thinking_level","level":"off"`, `{"type":"set_permission_mode","mode":"readonly"`,
			`{"type":"set_steering_mode","mode":"all"`, `{"type":"set_steering_mode","mode":"all"`,
			`{"type":"set_session_name","name":"N"`, `{"type":"set_auto_compaction","enabled":false`, `{"type":"set_active_tools","toolNames":[]`,
		} {
			require.True(t, c.Call(t, line+harness.At(s)+`}`).Get("success").Bool(), line)
		}
		a.Call(t, `{"type":"set_follow_up_mode","mode":"all"`+harness.At(s)+`}`)
		require.NoError(t, c.Leave())
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
		b.Example(b.Events(s, "state_changed")[0], "")
		b.Example(b.Events(s, "clients_changed")[1], "")
		require.NoError(t, b.Leave())
		a.CheckAll()
	})
}

// TestEntriesBackwards checks that a client can read a session from its end, page by page.
func TestEntriesBackwards(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t)
		s := a.Open()
		for i := range 6 {
			a.Run(s, fmt.Sprintf("~%s~ %d", s, i))
		}
		ids := func(v gjson.Result) (list []string) {
			for _, e := range v.Get("data.entries").Array() {
				list = append(list, e.Get("id").Str)
			}
			return list
		}
		ask := func(more string) gjson.Result { return a.Call(t, `{"type":"get_entries"`+harness.At(s)+more+`}`) }
		all := ids(ask(""))
		var found []string
		for before, more := "end", true; more; before = found[0] {
			v := ask(fmt.Sprintf(`,"before":%q,"limit":5`, before))
			more = v.Get("data.hasMore").Bool()
			found = append(ids(v), found...)
		}
		assert.Equal(t, all, found)
		assert.Len(t, ids(ask(`,"before":"end","maxBytes":1`)), 1)
		assert.Equal(t, "not_found", harness.Code(ask(`,"before":"nobody"`)))
		assert.Equal(t, "invalid_params", harness.Code(ask(`,"before":"end","since":"`+all[0]+`"`)))
		assert.Equal(t, "invalid_params", harness.Code(ask(`,"maxBytes":1`)))
		a.CheckAll()
	})
}

// TestWatchSessions checks that a connection with watch_sessions receives the status of every
// session of the daemon: opening, running, waiting for a dialog, done, closed.
func TestWatchSessions(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t, harness.ConfirmDanger)
		b := a.Connect(harness.Features("sessionEvents"))
		assert.Equal(t, "invalid_params", harness.Code(a.Call(t, `{"type":"watch_sessions"}`)), "without the feature")
		assert.Equal(t, "[]", b.Call(t, `{"type":"watch_sessions"}`).Get("data.sessions").Raw)
		s := a.Open()
		a.Say(s, "prompt", "~"+s+"~ rounds=1 tool=danger")
		actortest.Settle()
		a.Line(`{"type":"extension_ui_response","id":"confirm_1","confirmed":true` + harness.At(s) + `}`)
		a.Advance(time.Minute)
		a.Call(t, `{"type":"set_session_name","name":"N"`+harness.At(s)+`}`)
		a.Call(t, `{"type":"close_session"`+harness.At(s)+`}`)
		a.Advance(time.Second)
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
		a.Open()
		assert.Len(t, b.Lines(), n)
		require.NoError(t, b.Leave())
		a.CheckAll()
	})
}

// TestAttachByOtherNames checks that attach accepts the id in a session's file and the path of the
// file. A session that is not open is opened by its path.
func TestAttachByOtherNames(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t)
		s := a.Open()
		a.Run(s, "~"+s+"~ one")
		state := a.Call(t, `{"type":"get_state"`+harness.At(s)+`}`)
		id, file := state.Get("data.sessionId").Str, state.Get("data.sessionFile").Str
		b := a.Connect()
		attach := func(who *harness.Client, by, name string) gjson.Result {
			return who.Call(t, fmt.Sprintf(`{"type":"attach",%q:%q}`, by, name))
		}
		for by, name := range map[string]string{"durableId": id, "sessionPath": file, "sessionId": s} {
			v := attach(b, by, name)
			assert.Equal(t, s+" "+s, v.Get("data.sessionId").Str+" "+v.Get("sessionId").Str, v.Raw)
			assert.Equal(t, s, attach(b, by, name).Get("data.sessionId").Str, "again")
			assert.Equal(t, s, attach(a, by, name).Get("data.sessionId").Str, "who has it anyway")
		}
		a.Run(s, "~"+s+"~ two")
		assert.Len(t, b.Events(s, "agent_settled"), 1, "told once")
		assert.Equal(t, "unknown_session", harness.Code(attach(b, "durableId", "nobody")))
		assert.Equal(t, "invalid_params", harness.Code(b.Call(t, `{"type":"attach"}`)))
		assert.Equal(t, "invalid_params", harness.Code(b.Call(t, fmt.Sprintf(`{"type":"attach","durableId":%q,"sessionPath":%q}`, id, file))))
		a.Call(t, `{"type":"close_session"`+harness.At(s)+`}`)
		assert.Equal(t, "unknown_session", harness.Code(attach(b, "durableId", id)), "it is not open")
		v := attach(b, "sessionPath", file)
		again := v.Get("data.sessionId").Str
		assert.Equal(t, id, v.Get("data.state.sessionId").Str, v.Raw)
		b.Run(again, "~"+again+"~ three")
		assert.False(t, attach(b, "sessionPath", "/nowhere.jsonl").Get("success").Bool())
		require.NoError(t, b.Leave())
		a.CheckAll()
	})
}

// TestCommandsComeAgain checks that a client that lost its connection before an answer can send the
// command again: the command takes effect once, and its answer is replayed.
func TestCommandsComeAgain(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t)
		s := a.Open()
		come := func() *harness.Client {
			b := a.Connect()
			b.Hello("comes-back-again", "Ann")
			b.Attach(s)
			return b
		}
		say := func(b *harness.Client, line string) gjson.Result {
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
		lose := func(b *harness.Client) { // noticed when the daemon writes
			b.Break()
			names++
			a.Call(t, fmt.Sprintf(`{"type":"set_session_name","name":"%d"%s}`, names, harness.At(s)))
			require.Error(t, b.WaitClosed())
		}
		prompt := `{"id":"p1","type":"prompt","message":"~s1~ once"` + harness.At(s) + `}`
		b := come()
		first := say(b, prompt)
		require.True(t, first.Get("success").Bool(), first.Raw)
		a.Advance(time.Minute)
		lose(b)
		b = come()
		again := say(b, prompt)
		assert.True(t, again.Get("replayed").Bool(), again.Raw)
		assert.Equal(t, first.Get("data").Raw, again.Get("data").Raw)
		assert.Equal(t, "duplicate_command", harness.Code(say(b, `{"id":"p1","type":"prompt","message":"~s1~ other"`+harness.At(s)+`}`)))
		for range 2 {
			v := say(b, `{"id":"q1","type":"get_state"`+harness.At(s)+`}`)
			assert.True(t, v.Get("success").Bool() && !v.Get("replayed").Bool(), "what asks is asked anew")
		}
		opened := say(b, `{"id":"o1","type":"open_session"}`).Get("data.sessionId").Str
		require.NotEmpty(t, opened)
		assert.Equal(t, opened, say(b, `{"id":"o1","type":"open_session"}`).Get("data.sessionId").Str)
		assert.Len(t, a.OpenSessions(), 2)
		a.Advance(time.Minute)
		assert.Len(t, a.Events(s, "agent_settled"), 1)

		slow := `{"id":"b1","type":"bash","command":"~s1~ sleep=60000"` + harness.At(s) + `}`
		assert.Empty(t, say(b, slow).Raw)
		lose(b)
		b = come()
		assert.Empty(t, say(b, slow).Raw, "it is under way")
		a.Advance(time.Hour)
		v := b.Last("bash")
		assert.True(t, v.Get("id").Str == "b1" && v.Get("success").Bool(), v.Raw)
		assert.True(t, say(b, slow).Get("replayed").Bool())

		require.False(t, say(b, `{"id":"u1","type":"prompt","message":"x","sessionId":"s9"}`).Get("success").Bool())
		assert.False(t, say(b, `{"id":"u1","type":"prompt","message":"x","sessionId":"s9"}`).Get("replayed").Bool(), "it has done nothing")
		require.NoError(t, b.Leave())
		c := a.Connect()
		c.Hello("somebody-else", "Bob")
		c.Attach(s)
		assert.False(t, say(c, prompt).Get("replayed").Bool(), "ids are each client's own")
		a.Advance(time.Minute)
		require.NoError(t, c.Leave())
		a.Advance(11 * time.Minute)
		b = come()
		assert.False(t, say(b, prompt).Get("replayed").Bool(), "it is forgotten in time")
		a.Advance(time.Minute)
		require.NoError(t, b.Leave())
		a.End()
	})
}
