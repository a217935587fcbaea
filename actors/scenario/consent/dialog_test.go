package consent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors"
	"troupe/actors/actortest"
	"troupe/actors/scenario/harness"
	"troupe/store/config"
)

// TestConsent checks that a tool that needs consent runs only after a positive answer.
func TestConsent(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		runs         bool
	}{
		{"yes", `"confirmed":true`, true},
		{"no", `"confirmed":false`, false},
		{"cancelled", `"cancelled":true`, false},
		{"cancelled beats yes", `"confirmed":true,"cancelled":true`, false},
		{"not an answer to this", `"value":"x"`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				b := harness.Start(t, harness.ConfirmDanger)
				s := b.Open()
				b.Say(s, "prompt", "~a~ rounds=1 tool=danger")
				b.Advance(time.Minute)
				assert.Equal(t, "dialog", b.Call(t, `{"type":"get_state"`+harness.At(s)+`}`).Get("data.phase").Str)
				for range 3 { // the first answer counts; later ones have no effect
					b.Line(`{"type":"extension_ui_response","id":"confirm_1",` + c.answer + harness.At(s) + `}`)
				}
				b.Line(`{"type":"extension_ui_response","id":"confirm_99","confirmed":true` + harness.At(s) + `}`)
				actortest.Settle()
				if c.name == "not an answer to this" {
					require.Empty(t, b.Events(s, "agent_settled"), "a better answer may come")
					b.Send(`{"type":"abort"` + harness.At(s) + `}`)
					actortest.Settle()
				}
				ends := b.Events(s, "tool_execution_end")
				require.Len(t, ends, 1)
				assert.Equal(t, !c.runs, ends[0].Get("isError").Bool())
				require.Len(t, b.Events(s, "agent_settled"), 1)
				b.Check()
			})
		})
	}
}

// TestAbortClosesTheDialog checks that a positive answer after an abort does not run the tool.
func TestAbortClosesTheDialog(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t, harness.ConfirmDanger)
		s := b.Open()
		b.Say(s, "prompt", "~a~ rounds=1 tool=danger")
		actortest.Settle()
		b.Send(`{"type":"abort"` + harness.At(s) + `}`)
		b.Line(`{"type":"extension_ui_response","id":"confirm_1","confirmed":true` + harness.At(s) + `}`)
		b.Advance(time.Minute)
		assert.True(t, b.Events(s, "tool_execution_end")[0].Get("isError").Bool())
		b.Check()
	})
}

// TestOpenDialogIsShownToWhoComesLater checks that a client that attaches while a dialog is open
// receives the dialog after the answer to attach, and may answer it. A closed dialog is not sent.
func TestOpenDialogIsShownToWhoComesLater(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t, harness.ConfirmDanger)
		s := a.Open()
		a.Say(s, "prompt", "~a~ rounds=1 tool=danger")
		actortest.Settle()
		b := a.Connect()
		b.Attach(s)
		dialogs := b.Events(s, "extension_ui_request")
		require.Len(t, dialogs, 1)
		assert.Equal(t, "confirm_1", dialogs[0].Get("id").Str)
		assert.Len(t, a.Events(s, "extension_ui_request"), 1, "who has seen it is not shown it again")
		b.Line(`{"type":"extension_ui_response","id":"confirm_1","confirmed":true` + harness.At(s) + `}`)
		actortest.Settle()
		require.Len(t, a.Events(s, "agent_settled"), 1)
		c := a.Connect()
		c.Attach(s)
		assert.Empty(t, c.Events(s, "extension_ui_request"))
		require.NoError(t, c.Leave())
		require.NoError(t, b.Leave())
		a.CheckAll()
	})
}

// TestAskedAgainAfterARestart checks that an open dialog is shown again under its id if the daemon
// was killed and the session is opened again and retained. The call runs after a positive answer.
// In a session that is not retained, the call is recorded as interrupted.
func TestAskedAgainAfterARestart(t *testing.T) {
	for name, mode := range map[string]func(*actors.Config){"confirm": harness.ConfirmDanger, "approval": harness.AskMode} {
		for _, retain := range []bool{true, false} {
			t.Run(fmt.Sprint(name, " ", retain), func(t *testing.T) {
				harness.Bubble(t, func(t *testing.T) {
					h, disk, models := &actortest.History{}, actortest.NewDisk(), actortest.NewModels()
					a := harness.StartWith(t, nil, h, disk, models, mode)
					s := a.Open()
					a.Say(s, "prompt", "~a~ rounds=1 calls=2 tool=danger")
					a.Settle()
					asked := a.Events(s, "extension_ui_request")
					require.Len(t, asked, 1)
					h, disk = a.History.Fork(), a.Disk.Killed()
					a.Abandon()
					h.Add(actortest.Killed, "kill")

					b := harness.StartWith(t, nil, h, disk, models, mode)
					for path := range disk.Files() {
						s = b.Call(t, fmt.Sprintf(`{"type":"open_session","sessionPath":%q,"retain":%t}`, path, retain)).Get("data.sessionId").Str
					}
					again := b.Events(s, "extension_ui_request")
					state := b.Call(t, `{"type":"get_state"`+harness.At(s)+`}`).Get("data")
					if !retain {
						assert.Empty(t, again)
						assert.Equal(t, "idle", state.Get("phase").Str)
						messages := b.Call(t, `{"type":"get_messages"`+harness.At(s)+`}`).Raw
						assert.Equal(t, 2, strings.Count(messages, "This call was never started"), messages)
						b.RequireWorking(s, "~a~ last")
						b.End()
						b.Judge(actortest.Options{Files: disk.Files(), Free: name != "confirm"})
						return
					}
					require.Len(t, again, 1)
					assert.Equal(t, asked[0].Get("id").Str, again[0].Get("id").Str)
					assert.Equal(t, asked[0].Get("title").Str, again[0].Get("title").Str)
					assert.Equal(t, "dialog", state.Get("phase").Str)
					listed := b.Call(t, `{"type":"get_dialogs"`+harness.At(s)+`}`).Get("data.dialogs")
					assert.Equal(t, again[0].Get("id").Str, listed.Get("0.id").Str)
					for i := range 2 {
						b.Settle()
						q := b.Events(s, "extension_ui_request")[i]
						answer := `"confirmed":true`
						if name == "approval" {
							answer = `"value":` + q.Get("options.0").Raw
						}
						b.Line(`{"type":"extension_ui_response","id":"` + q.Get("id").Str + `",` + answer + harness.At(s) + `}`)
					}
					b.Advance(time.Minute)
					assert.Len(t, b.Events(s, "tool_execution_end"), 2)
					settled := b.Events(s, "agent_settled")
					require.Len(t, settled, 1)
					assert.Equal(t, "completed", settled[0].Get("outcome").Str)
					b.RequireWorking(s, "~a~ last")
					b.End()
					b.Judge(actortest.Options{Files: disk.Files(), Free: name != "confirm"})
				})
			})
		}
	}
}

// TestTrustIsAnsweredAtOnce checks that the answer to the trust dialog counts even if the client
// leaves at once and the dialog worker is slow: no other client receives the dialog.
func TestTrustIsAnsweredAtOnce(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, ".pi"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".pi", "settings.json"), []byte(`{"shellCommandPrefix":"echo PREFIX"}`), 0o600))
	for _, answer := range []string{`"cancelled":true`, `"value":"Do not trust it"`} {
		t.Run(answer, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				a := harness.Start(t, harness.Faults(`Delay 1s */ui AskUI; Delay 1s */ui AnswerUI`), func(c *actors.Config) {
					c.Sessions.AskTrust, c.Sessions.Consent, c.Sessions.AgentDir = true, config.Unsaid, t.TempDir()
					c.Sessions.Default.Cwd = dir
				})
				b := a.Connect()
				b.Call(t, `{"type":"get_state"}`)
				asked := b.Events("", "extension_ui_request")
				require.Len(t, asked, 1)
				b.Line(`{"type":"extension_ui_response","id":"` + asked[0].Get("id").Str + `",` + answer + `}`)
				require.NoError(t, b.Leave())
				c := a.Connect()
				c.Call(t, `{"type":"get_state"}`)
				c.Advance(time.Minute)
				assert.Empty(t, c.Events("", "extension_ui_request"))
				require.NoError(t, c.Leave())
				a.End()
			})
		})
	}
}

// TestDialogsThatNobodyShows checks that a client is only asked with the dialog methods that it
// supports. A dialog that no attached client can show ends with the outcome lost, unless the
// session is retained. Viewers are not asked.
func TestDialogsThatNobodyShows(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t, harness.ConfirmDanger)
		require.True(t, a.Call(t, `{"type":"hello","ui":["select"],"features":["dialogEvents"]}`).Get("success").Bool())
		s := a.Open()
		a.Run(s, "~a~ rounds=1 tool=danger")
		assert.Empty(t, a.Events(s, "extension_ui_request"))
		over := a.Events(s, "dialog_resolved")
		require.Len(t, over, 1)
		assert.Equal(t, "lost", over[0].Get("outcome").Str)
		assert.True(t, a.Events(s, "tool_execution_end")[0].Get("isError").Bool())

		b := a.Connect()
		b.Attach(s)
		a.Say(s, "prompt", "~b~ rounds=1 tool=danger")
		actortest.Settle()
		assert.Empty(t, a.Events(s, "extension_ui_request"), "it is not asked")
		assert.Empty(t, a.Call(t, `{"type":"get_dialogs"`+harness.At(s)+`}`).Get("data.dialogs").Array())
		require.Len(t, b.Events(s, "extension_ui_request"), 1)
		b.Line(`{"type":"extension_ui_response","id":"` + b.Events(s, "extension_ui_request")[0].Get("id").Str + `","confirmed":true` + harness.At(s) + `}`)
		a.Advance(time.Minute)
		assert.False(t, a.Events(s, "tool_execution_end")[1].Get("isError").Bool())

		a.Say(s, "prompt", "~c~ rounds=1 tool=danger")
		actortest.Settle()
		require.Len(t, b.Events(s, "extension_ui_request"), 2)
		require.Len(t, a.Events(s, "dialog_resolved"), 2)
		require.True(t, b.Call(t, `{"type":"attach","role":"viewer"`+harness.At(s)+`}`).Get("success").Bool())
		actortest.Settle()
		require.Len(t, a.Events(s, "dialog_resolved"), 3, "who could show it only views the session now")
		a.Advance(time.Minute)
		require.NoError(t, b.Leave())
		a.CheckAll()
	})
}

// TestRetainedDialogWaits checks that a dialog in a retained session waits for a client that can
// show it.
func TestRetainedDialogWaits(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t, harness.ConfirmDanger)
		require.True(t, a.Call(t, `{"type":"hello","ui":[]}`).Get("success").Bool())
		s := a.Call(t, `{"type":"open_session","retain":true}`).Get("data.sessionId").Str
		a.Say(s, "prompt", "~a~ rounds=1 tool=danger")
		a.Advance(time.Minute)
		assert.Empty(t, a.Events(s, "tool_execution_end"))
		b := a.Connect()
		b.Attach(s)
		actortest.Settle()
		require.Len(t, b.Events(s, "extension_ui_request"), 1)
		b.Line(`{"type":"extension_ui_response","id":"` + b.Events(s, "extension_ui_request")[0].Get("id").Str + `","confirmed":true` + harness.At(s) + `}`)
		a.Advance(time.Minute)
		assert.False(t, a.Events(s, "tool_execution_end")[0].Get("isError").Bool())
		require.NoError(t, b.Leave())
		a.End()
	})
}

// TestViewer checks that a client that is attached as a viewer cannot change the session, while it
// can use other sessions and attach again as a user.
func TestViewer(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t)
		s := a.Open()
		b := a.Connect()
		attached := b.Call(t, `{"type":"attach","role":"viewer"`+harness.At(s)+`}`)
		require.True(t, attached.Get("success").Bool(), attached.Raw)
		for _, command := range []string{`"type":"prompt","message":"~x~"`, `"type":"abort"`, `"type":"set_session_name","name":"x"`, `"type":"bash","command":"~x~"`, `"type":"close_session"`} {
			assert.Equal(t, "forbidden", harness.Code(b.Call(t, `{`+command+harness.At(s)+`}`)), command)
		}
		assert.True(t, b.Call(t, `{"type":"get_state"`+harness.At(s)+`}`).Get("success").Bool())
		own := b.Open()
		b.Run(own, "~y~ of its own")
		clients := a.Call(t, `{"type":"attach"`+harness.At(s)+`}`).Get("data.clients")
		assert.Equal(t, `["viewer"]`, clients.Get("#.role").Raw)
		require.True(t, b.Call(t, `{"type":"attach"`+harness.At(s)+`}`).Get("success").Bool())
		b.Run(s, "~x~ now it may")
		assert.Equal(t, "invalid_params", harness.Code(b.Call(t, `{"type":"attach","role":"king"`+harness.At(s)+`}`)))
		require.NoError(t, b.Leave())
		a.CheckAll()
	})
}

// TestViewersAreNotAsked checks that viewers receive no dialogs, neither when one opens nor when
// they attach. They can list open dialogs, and receive their outcome.
func TestViewersAreNotAsked(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t, harness.AskMode, harness.WithTasks)
		a.Hello("knows-approvals", "Ann", "approvals", "dialogEvents", "seq")
		s := a.Call(t, `{"type":"open_session","retain":true}`).Get("data.sessionId").Str
		modern, classic := a.Connect(harness.Features("approvals", "dialogEvents", "seq")), a.Connect()
		view := func(who *harness.Client, since string) gjson.Result {
			t.Helper()
			v := who.Call(t, `{"type":"attach","role":"viewer"`+since+harness.At(s)+`}`)
			require.True(t, v.Get("success").Bool(), v.Raw)
			return v.Get("data")
		}
		begin := view(modern, "")
		view(classic, "")
		a.Say(s, "prompt", "~p~ tool=task rounds=1 each=rounds=1")
		for n := range 2 { // one of the session, one of its child
			actortest.Settle()
			asks := a.Events(s, "approval_request")
			require.Len(t, asks, n+1)
			id := asks[n].Get("id").Str
			late := a.Connect()
			view(late, "")
			since := fmt.Sprintf(`,"since":{"epoch":%q,"seq":%d}`, begin.Get("epoch").Str, begin.Get("seq").Int())
			assert.Equal(t, id, view(modern, since).Get("approvals.0.id").Str, "it is open")
			assert.Equal(t, id, classic.Call(t, `{"type":"get_dialogs"`+harness.At(s)+`}`).Get("data.dialogs.0.id").Str)
			actortest.Settle()
			for _, who := range []*harness.Client{modern, classic, late} {
				assert.Empty(t, who.Events(s, "approval_request"))
				assert.Empty(t, who.Events(s, "extension_ui_request"))
				assert.Equal(t, "forbidden", harness.Code(who.Decide(s, id, "once")))
			}
			require.True(t, a.Decide(s, id, "once").Get("success").Bool())
			actortest.Settle()
			assert.NotEmpty(t, modern.Events(s, "approval_resolved"))
			require.NoError(t, late.Leave())
		}
		a.Advance(time.Minute)
		require.Len(t, a.Events(s, "agent_settled"), 1)

		a.Say(s, "prompt", "~q~ rounds=1")
		actortest.Settle()
		require.Len(t, a.Events(s, "approval_request"), 3)
		require.True(t, classic.Call(t, `{"type":"attach"`+harness.At(s)+`}`).Get("success").Bool())
		actortest.Settle()
		require.Len(t, classic.Events(s, "extension_ui_request"), 1, "it views no more")
		require.True(t, a.Decide(s, a.Events(s, "approval_request")[2].Get("id").Str, "once").Get("success").Bool())
		a.Advance(time.Minute)
		for _, who := range []*harness.Client{modern, classic} {
			require.NoError(t, who.Leave())
		}
		a.End()
	})
}

// TestViewerAloneIsNobody checks that a session with only a viewer attached counts as unattended,
// for its own dialogs and those of its children.
func TestViewerAloneIsNobody(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t, harness.AskMode, harness.WithTasks, func(c *actors.Config) { c.Sessions.DenyUnattended = true })
		s := a.Call(t, `{"type":"open_session","retain":true}`).Get("data.sessionId").Str
		b := a.Connect()
		require.True(t, b.Call(t, `{"type":"attach","role":"viewer"`+harness.At(s)+`}`).Get("success").Bool())
		a.Say(s, "prompt", "~p~ tool=task rounds=1 each=rounds=1")
		actortest.Settle()
		require.Len(t, a.Events(s, "extension_ui_request"), 1)
		ask := a.Events(s, "extension_ui_request")[0]
		a.Line(`{"type":"extension_ui_response","id":"` + ask.Get("id").Str + `","value":"Allow once"` + harness.At(s) + `}`)
		actortest.Settle()
		require.Len(t, a.Events(s, "extension_ui_request"), 2, "of the child")
		require.True(t, a.Call(t, `{"type":"detach"`+harness.At(s)+`}`).Get("success").Bool())
		a.Advance(time.Minute)
		require.Len(t, b.Events(s, "agent_settled"), 1)
		results := b.Call(t, `{"type":"get_subagent_messages","subagentId":"A"`+harness.At(s)+`}`).Get(`data.messages.#(role=="toolResult")#`).Array()
		require.Len(t, results, 1)
		assert.Contains(t, results[0].Get("content.0.text").Str, "did not allow")
		require.NoError(t, b.Leave())
		a.End()
	})
}

// TestUnattendedIsDenied checks that with --unattended deny a dialog in a retained session is
// denied if no client is attached, and asked if one is.
func TestUnattendedIsDenied(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t, harness.ConfirmDanger, func(c *actors.Config) { c.Sessions.DenyUnattended = true })
		a.Hello("knows-dialogs", "Ann", "dialogEvents")
		s := a.Call(t, `{"type":"open_session","retain":true}`).Get("data.sessionId").Str
		a.Say(s, "prompt", "~a~ rounds=1 tool=danger")
		actortest.Settle()
		require.Len(t, a.Events(s, "extension_ui_request"), 1)
		require.True(t, a.Call(t, `{"type":"detach","sessionId":"`+s+`"}`).Get("success").Bool())
		a.Advance(time.Minute)
		b := a.Connect(harness.Features("dialogEvents"))
		b.Attach(s)
		list := b.Call(t, `{"type":"get_messages"`+harness.At(s)+`}`).Get("data.messages").Array()
		require.Len(t, list, 4, "it was open when the last one left")
		assert.True(t, list[2].Get("isError").Bool())
		b.Say(s, "prompt", "~b~ rounds=1 tool=danger slow")
		require.True(t, b.Call(t, `{"type":"detach","sessionId":"`+s+`"}`).Get("success").Bool())
		a.Advance(time.Minute)
		b.Attach(s)
		list = b.Call(t, `{"type":"get_messages"`+harness.At(s)+`}`).Get("data.messages").Array()
		require.Len(t, list, 8, "it was asked when nobody was there")
		assert.True(t, list[6].Get("isError").Bool())
		require.NoError(t, b.Leave())
		a.End()
	})
}
