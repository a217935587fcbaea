package consent

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors"
	"troupe/actors/actortest"
	"troupe/actors/scenario/harness"
	"troupe/store"
)

// asked starts a run with a call that needs approval, and returns the approval request.
func asked(b *harness.Client, session string) gjson.Result {
	b.T.Helper()
	n := len(b.Events(session, "approval_request"))
	b.Say(session, "prompt", "~"+session+"~ rounds=1")
	actortest.Settle()
	list := b.Events(session, "approval_request")
	require.Len(b.T, list, n+1)
	return list[n]
}

// TestGrants checks that a grant for the session or the project consists of the rules that were
// shown, and that grants can be listed and revoked. A grant for the project is on disk before the
// call runs.
func TestGrants(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t, harness.AskMode, func(c *actors.Config) { c.Sessions.AgentDir = "/agent" })
		a.Hello("allows-things", "Ann", "approvals")
		s, other := a.Open(), a.Open()
		permissions := func(session string) gjson.Result {
			return a.Call(t, `{"type":"get_permissions"`+harness.At(session)+`}`).Get("data")
		}
		revoke := func(session, scope, rule string) gjson.Result {
			return a.Call(t, fmt.Sprintf(`{"type":"revoke_permission","scope":%q,"rule":%q%s}`, scope, rule, harness.At(session)))
		}
		ask := asked(a, s)
		rule := ask.Get(`options.#(id=="session").rules.0`).Str
		require.NotEmpty(t, rule, ask.Raw)
		assert.Equal(t, rule, ask.Get(`options.#(id=="project").rules.0`).Str)
		require.True(t, a.Decide(s, ask.Get("id").Str, "session").Get("success").Bool())
		a.Advance(time.Minute)
		a.Run(s, "~"+s+"~ rounds=1")
		assert.Len(t, a.Events(s, "approval_request"), 1, "it was allowed")
		assert.Equal(t, fmt.Sprintf(`[{"rule":%q,"scope":"session"}]`, rule), permissions(s).Get("grants").Raw)
		assert.Equal(t, "ask", permissions(s).Get("mode").Str)
		assert.Equal(t, "[]", permissions(other).Get("grants").Raw)
		require.True(t, revoke(s, "session", rule).Get("success").Bool())
		assert.Equal(t, "not_found", harness.Code(revoke(s, "session", rule)))

		id := asked(a, s).Get("id").Str
		a.Disk.Fail("sync * always EIO")
		assert.Equal(t, "io_error", harness.Code(a.Decide(s, id, "project")))
		assert.Empty(t, permissions(s).Get("grants").Array())
		a.Disk.Fail("")
		require.True(t, a.Decide(s, id, "project").Get("success").Bool(), "it is open as before")
		a.Advance(time.Minute)
		require.Len(t, a.Events(s, "agent_settled"), 3)
		a.Run(other, "~"+other+"~ rounds=1")
		assert.Empty(t, a.Events(other, "approval_request"), "the project's counts in every session of the process")
		grants := permissions(other).Get("grants").Array()
		require.Len(t, grants, 1)
		assert.Equal(t, rule+" project Ann", grants[0].Get("rule").Str+" "+grants[0].Get("scope").Str+" "+grants[0].Get("by").Str)
		require.True(t, revoke(other, "session", rule).Get("code").Str == "not_found")
		require.True(t, revoke(other, "project", rule).Get("success").Bool())
		assert.Equal(t, "not_found", harness.Code(revoke(other, "project", rule)))
		ask = asked(a, other)
		require.True(t, a.Decide(other, ask.Get("id").Str, "no").Get("success").Bool())
		a.Advance(time.Minute)
		a.End()
	})
}

// TestGrantsOfTheDialog checks grants that are given in a dialog by a client without the feature
// approvals. If a grant for the project cannot be written, it becomes one for the session, because
// a dialog answer cannot be refused.
func TestGrantsOfTheDialog(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t, harness.AskMode, func(c *actors.Config) { c.Sessions.AgentDir = "/agent" })
		s, other := a.Open(), a.Open()
		grants := func(session string) string {
			return a.Call(t, `{"type":"get_permissions"`+harness.At(session)+`}`).Get("data.grants.#.scope").Raw
		}
		say := func(session, option string, nth int) {
			t.Helper()
			list := a.Events(session, "extension_ui_request")
			require.Len(t, list, nth+1)
			value := list[nth].Get(`options.#(%"` + option + `*")`).Str
			require.NotEmpty(t, value, list[nth].Raw)
			a.Line(fmt.Sprintf(`{"type":"extension_ui_response","id":%q,"value":%q%s}`, list[nth].Get("id").Str, value, harness.At(session)))
			a.Advance(time.Minute)
			end := a.Events(session, "tool_execution_end")
			require.Len(t, end, nth+1)
			assert.False(t, end[nth].Get("isError").Bool(), end[nth].Raw)
		}
		ask := func(session string) {
			a.Say(session, "prompt", "~"+session+"~ rounds=1")
			actortest.Settle()
		}
		ask(s)
		a.Disk.Fail("sync * always EIO")
		say(s, "Allow for this project", 0)
		assert.Equal(t, `["session"]`, grants(s))
		assert.Equal(t, "[]", grants(other))
		a.Disk.Fail("")
		ask(other)
		say(other, "Allow for this project", 0)
		third := a.Open()
		assert.Equal(t, `["project"]`, grants(third))
		ask(third)
		a.Advance(time.Minute)
		assert.Empty(t, a.Events(third, "extension_ui_request"), "the project's counts in every session of the process")
		require.Len(t, a.Events(third, "agent_settled"), 1)
		a.End()
	})
}

// TestApprovedWithOtherArguments checks that an approval may replace the arguments of the call. The
// new arguments have to match the schema, and are checked against the permissions again.
func TestApprovedWithOtherArguments(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t, harness.AskMode)
		a.Hello("allows-things", "Ann", "approvals")
		s := a.Open()
		id := asked(a, s).Get("id").Str
		assert.Equal(t, "invalid_params", harness.Code(a.Decide(s, id, "session", `"args":{"text":""}`)))
		assert.Equal(t, "invalid_params", harness.Code(a.Decide(s, id, "no", `"args":{"text":""}`)))
		assert.Contains(t, a.Decide(s, id, "once", `"args":{"other":1}`).Get("error").Str, "do not fit")
		assert.Contains(t, a.Decide(s, id, "once", `"args":{"text":5}`).Get("error").Str, `read as {"text":"5"}`, "they are not mended, as a model's are")
		v := a.Decide(s, id, "once", `"args":{"text":"~s1~ other"}`)
		require.True(t, v.Get("success").Bool(), v.Raw)
		a.Advance(time.Minute)
		end := a.Events(s, "tool_execution_end")[0]
		assert.False(t, end.Get("isError").Bool(), end.Raw)
		assert.Equal(t, `{"text":"~s1~ other"}`, end.Get("result.details.approvedArgs").Raw)
		require.Len(t, a.Events(s, "agent_settled"), 1)
		id = asked(a, s).Get("id").Str
		require.True(t, a.Call(t, `{"type":"set_permission_mode","mode":"readonly"`+harness.At(s)+`}`).Get("success").Bool())
		require.True(t, a.Decide(s, id, "once", `"args":{"text":"~s1~ third"}`).Get("success").Bool())
		a.Advance(time.Minute)
		end = a.Events(s, "tool_execution_end")[1]
		assert.Contains(t, end.Get("result.content.0.text").Str, "not permitted", "they are judged as any others")
		a.End()
	})
}

// TestApprovalTimeout checks that a call whose approval has expired does not run, and that all
// clients receive the outcome.
func TestApprovalTimeout(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t, harness.AskMode, func(c *actors.Config) { c.Sessions.ApprovalTimeout = time.Hour })
		a.Hello("allows-things", "Ann", "approvals")
		s := a.Open()
		b := a.Connect(harness.Features("dialogEvents"))
		b.Attach(s)
		ask := asked(a, s)
		assert.Equal(t, time.Hour.Milliseconds(), ask.Get("expiresAt").Int()-ask.Get("askedAt").Int())
		a.Advance(59 * time.Minute)
		require.Empty(t, a.Events(s, "approval_resolved"))
		a.Advance(2 * time.Minute)
		over := a.Events(s, "approval_resolved")
		require.Len(t, over, 1)
		assert.Equal(t, "timeout", over[0].Get("outcome").Str)
		assert.Equal(t, "timeout", b.Events(s, "dialog_resolved")[0].Get("outcome").Str)
		assert.True(t, a.Events(s, "tool_execution_end")[0].Get("isError").Bool())
		assert.Equal(t, "dialog_over", harness.Code(a.Decide(s, ask.Get("id").Str, "once")))
		require.NoError(t, b.Leave())
		a.End()
	})
}

// TestRelativeDirectories checks that paths relative to the daemon's directory are made absolute
// when they are received, so that sessions and grants are found under every spelling.
func TestRelativeDirectories(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
		a := harness.Start(t, harness.AskMode, func(c *actors.Config) {
			c.Sessions.AgentDir, c.Sessions.Home, c.Sessions.Default.Cwd = "/agent", filepath.Join(dir, "sub"), dir
		})
		a.Hello("allows-things", "Ann", "approvals")
		for i, cwd := range []string{"sub", "./sub/../sub", "~", filepath.Join(dir, "sub")} {
			v := a.Call(t, fmt.Sprintf(`{"type":"open_session","cwd":%q}`, cwd))
			require.True(t, v.Get("success").Bool(), v.Raw)
			s := v.Get("data.sessionId").Str
			info := a.Call(t, `{"type":"list_open_sessions"}`).Get(fmt.Sprintf(`data.sessions.#(sessionId==%q)`, s))
			assert.Equal(t, filepath.Join(dir, "sub"), info.Get("cwd").Str, cwd)
			if i == 0 {
				require.True(t, a.Decide(s, asked(a, s).Get("id").Str, "project").Get("success").Bool())
				a.Advance(time.Minute)
				kept, err := store.Grants(a.Disk.FS(), "/agent/troupe/grants.json", filepath.Join(dir, "sub"))
				require.NoError(t, err)
				assert.Len(t, kept, 1)
			}
			assert.True(t, a.Call(t, `{"type":"get_permissions"`+harness.At(s)+`}`).Get(`data.grants.#(scope=="project")`).Exists(), cwd)
			file := info.Get("sessionFile").Str
			require.True(t, a.Call(t, `{"type":"close_session"`+harness.At(s)+`}`).Get("success").Bool())
			if i > 0 {
				continue
			}
			rel, err := filepath.Rel(dir, file)
			require.NoError(t, err)
			for _, command := range []string{"open_session", "attach", "delete_session"} {
				v := a.Call(t, fmt.Sprintf(`{"type":%q,"sessionPath":%q}`, command, rel))
				require.True(t, v.Get("success").Bool(), v.Raw)
				if opened := v.Get("data.sessionId").Str; opened != "" {
					require.True(t, a.Call(t, `{"type":"close_session"`+harness.At(opened)+`}`).Get("success").Bool())
				}
			}
		}
		a.End()
	})
}

// TestApprovalsByChoice checks that a client that supports the dialog method select but no
// approvals receives a select. A client that supports neither sees in the state that the session
// waits for a dialog.
func TestApprovalsByChoice(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t, harness.AskMode)
		hello := a.Call(t, `{"type":"hello","features":["approvals","dialogEvents"],"ui":["select"]}`)
		assert.NotContains(t, hello.Get("data.features").Raw, `"approvals"`)
		assert.Contains(t, hello.Get("data.features").Raw, `"dialogEvents"`)
		s := a.Open()
		a.Say(s, "prompt", "~"+s+"~ rounds=1")
		actortest.Settle()
		asked := a.Events(s, "extension_ui_request")
		require.Len(t, asked, 1)
		assert.Equal(t, "select", asked[0].Get("method").Str)
		open := a.Call(t, `{"type":"get_dialogs"`+harness.At(s)+`}`)
		assert.Equal(t, asked[0].Get("id").Str, open.Get("data.dialogs.0.id").Str)
		a.Send(fmt.Sprintf(`{"type":"extension_ui_response","id":%q,"value":%q%s}`, asked[0].Get("id").Str, asked[0].Get("options.0").Str, harness.At(s)))
		a.Advance(time.Minute)
		assert.Equal(t, "completed", a.Events(s, "agent_settled")[0].Get("outcome").Str)

		a.Call(t, `{"type":"hello","features":["approvals"],"ui":["confirm"]}`)
		v := a.Call(t, `{"type":"open_session","retain":true}`)
		s = v.Get("data.sessionId").Str
		a.Say(s, "prompt", "~"+s+"~ rounds=1")
		actortest.Settle()
		assert.Empty(t, a.Events(s, "extension_ui_request", "approval_request"))
		assert.Equal(t, `["dialog approval_1"]`, a.Call(t, `{"type":"get_state"`+harness.At(s)+`}`).Get("data.waitingFor").Raw)
		listed := a.Call(t, `{"type":"list_open_sessions"}`).Get(fmt.Sprintf("data.sessions.#(sessionId==%q)", s))
		assert.Equal(t, "dialog", listed.Get("attention").Str)
		require.True(t, a.Call(t, `{"type":"abort"`+harness.At(s)+`}`).Get("success").Bool())
		a.Advance(time.Minute)
		a.End()
	})
}
