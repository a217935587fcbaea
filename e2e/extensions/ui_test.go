package extensions

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/harness"
)

// startUI starts a daemon with the extension ui.ts, which uses every dialog and every UI method.
func startUI(p *harness.Place, args ...string) *harness.Daemon {
	path, err := filepath.Abs(filepath.Join("..", "testdata", "extensions", "ui.ts"))
	require.NoError(p.T, err)
	d := p.Start(append(args, "-e", path)...)
	if slices.Contains(args, "--multi-session") {
		d.Session = d.OK(`{"type":"open_session"}`).Get("sessionId").Str
	}
	d.OK(`{"type":"get_commands"}`)
	return d
}

// inSessions runs a test in the default session and in an opened session.
func inSessions(t *testing.T, story func(t *testing.T, p *harness.Place, d *harness.Daemon)) {
	t.Parallel()
	t.Run("default", func(t *testing.T) {
		t.Parallel()
		p := harness.NewPlace(t)
		story(t, p, startUI(p))
	})
	t.Run("opened", func(t *testing.T) {
		t.Parallel()
		p := harness.NewPlace(t)
		story(t, p, startUI(p, "--multi-session"))
	})
}

// runCommand runs a command of an extension.
func runCommand(d *harness.Daemon, line string) {
	d.T.Helper()
	require.Equal(d.T, "handled", d.OK(`{"type":"prompt","message":"/`+line+`"}`).Get("disposition").Str)
}

// notice waits for the notification that ends a command and returns its text.
func notice(d *harness.Daemon, name string) string {
	d.T.Helper()
	for {
		if said, ok := strings.CutPrefix(d.UIRequest("notify").Get("message").Str, name+": "); ok {
			return said
		}
	}
}

// TestDialogs checks every dialog with every way in which it can end.
func TestDialogs(t *testing.T) {
	inSessions(t, func(t *testing.T, p *harness.Place, d *harness.Daemon) {
		for _, c := range []struct{ command, method, record, answer, want string }{
			{"select", "select", `"title":"Which?","options":["a","b"]`, `"value":"b"`, `"b"`},
			{"select", "select", "", `"cancelled":true`, `null`},
			{"confirm", "confirm", `"title":"Sure?","message":"Really?"`, `"confirmed":true`, `true`},
			{"confirm", "confirm", "", `"confirmed":false`, `false`},
			{"confirm", "confirm", "", `"cancelled":true`, `false`},
			{"input", "input", `"title":"Name?","placeholder":"your name"`, `"value":"Ann"`, `"Ann"`},
			{"input", "input", "", `"value":""`, `""`},
			{"input", "input", "", `"cancelled":true`, `null`},
			{"bare", "input", `"method":"input","title":"Name?"}`, `"value":"x"`, `"x"`},
			{"editor", "editor", `"title":"Text?","prefill":"a\nb"`, `"value":"c\nd"`, `"c\nd"`},
			{"editor", "editor", "", `"cancelled":true`, `null`},
			{"select timeout", "select", `"timeout":20`, "", `null`},
			{"confirm timeout", "confirm", `"timeout":20`, "", `false`},
			{"input timeout", "input", `"timeout":20`, "", `null`},
			{"select signal", "select", "", "", `null`},
			{"confirm signal", "confirm", "", "", `false`},
		} {
			runCommand(d, c.command)
			dialog := d.UIRequest(c.method)
			assert.Contains(t, dialog.Raw, c.record)
			if c.answer != "" {
				d.RespondUI(dialog, c.answer)
			}
			name, _, _ := strings.Cut(c.command, " ")
			assert.Equal(t, c.want, notice(d, name), c.command+" "+c.answer)
			d.RespondUI(dialog, `"value":"late"`) // ignored
		}
		require.Zero(t, d.Close())
		assert.NotContains(t, strings.Join(d.Lines(), "\n"), "extension_error")
	})
}

// TestDialogsTogether checks that several dialogs can be open at once and answered in any order.
// Answers of the wrong kind, to an unknown dialog, or sent twice are ignored.
func TestDialogsTogether(t *testing.T) {
	inSessions(t, func(t *testing.T, p *harness.Place, d *harness.Daemon) {
		runCommand(d, "several")
		choice, sure, name := d.UIRequest("select"), d.UIRequest("confirm"), d.UIRequest("input")
		d.RespondUI(name, `"confirmed":true`)
		d.RespondUI(sure, `"value":"yes"`)
		d.RespondUI(gjson.Parse(`{"id":"nobody"}`), `"cancelled":true`)
		d.RespondUI(name, `"value":"Ann"`)
		d.RespondUI(name, `"value":"Bob"`)
		d.RespondUI(choice, `"value":"a"`)
		d.RespondUI(sure, `"confirmed":true`)
		assert.Equal(t, `["a",true,"Ann"]`, notice(d, "several"))
		require.Zero(t, d.Close())
	})
}

// TestDialogsOneByOne checks the dialect of pi_agent_rust, which shows one dialog at a time. The
// next dialog is shown when the previous one has ended, and its timeout starts then.
func TestDialogsOneByOne(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	d := startUI(p, "--dialect", "s4")
	d.Send(`{"type":"prompt","message":"/several"}`)
	choice := d.UIRequest("select")
	assert.NotContains(t, strings.Join(d.Lines(), "\n"), `"method":"confirm"`)
	d.RespondUI(choice, `"value":"a"`)
	sure := d.UIRequest("confirm")
	assert.NotContains(t, strings.Join(d.Lines(), "\n"), `"method":"input"`)
	d.Send(`{"type":"prompt","message":"/select timeout"}`)
	d.RespondUI(sure, `"cancelled":true`)
	d.RespondUI(d.UIRequest("input"), `"value":"Ann"`)
	d.UIRequest("select")
	assert.Equal(t, `["a",false,"Ann"]`, notice(d, "several"))
	assert.Equal(t, "null", notice(d, "select"))
	require.Zero(t, d.Close())
}

// TestRecordsWithoutAnswer checks the records of UI methods that need no answer. Absent members are
// omitted, and empty ones are sent.
func TestRecordsWithoutAnswer(t *testing.T) {
	inSessions(t, func(t *testing.T, p *harness.Place, d *harness.Daemon) {
		for _, c := range []struct{ command, want string }{
			{"notify", `"method":"notify","message":"plain" "method":"notify","message":"careful","notifyType":"warning" "method":"notify","message":"broken","notifyType":"error"`},
			{"status", `"method":"setStatus","statusKey":"k","statusText":"text" "method":"setStatus","statusKey":"k","statusText":"" "method":"setStatus","statusKey":"k"`},
			{"widget", `"method":"setWidget","widgetKey":"w","widgetLines":["one","two"],"widgetPlacement":"belowEditor" "method":"setWidget","widgetKey":"w","widgetLines":[] "method":"setWidget","widgetKey":"w"`},
			{"title", `"method":"setTitle","title":"a title"`},
			{"prefill", `"method":"set_editor_text","text":"typed" "method":"set_editor_text","text":"pasted"`},
			{"nothing", ``},
		} {
			from := d.Count()
			runCommand(d, c.command)
			assert.Equal(t, `"plain text"`, notice(d, c.command))
			var records []string
			for _, line := range d.Lines()[from:] {
				if v := gjson.Parse(line); v.Get("type").Str == "extension_ui_request" && !strings.HasPrefix(v.Get("message").Str, c.command+":") {
					_, rest, _ := strings.Cut(line, `"method"`)
					records = append(records, `"method"`+strings.TrimSuffix(rest, "}"))
				}
			}
			assert.Equal(t, c.want, strings.Join(records, " "), c.command)
		}
		runCommand(d, "custom")
		assert.Equal(t, `[null,"",[],false,true]`, notice(d, "custom"))
		runCommand(d, "throws")
		failed := d.Event("extension_error")
		assert.Equal(t, "command:throws command on purpose", fmt.Sprint(failed.Get("extensionPath"), failed.Get("event"), failed.Get("error")))
		require.Zero(t, d.Close())
	})
}

// TestDialogsThatNobodyAnswers checks that abort, the end of input and a missing client count as
// no.
func TestDialogsThatNobodyAnswers(t *testing.T) {
	inSessions(t, func(t *testing.T, p *harness.Place, d *harness.Daemon) {
		p.Model.Enqueue(harness.ToolCall("c1", "bash", `{"command":"touch ran"}`), harness.ToolCall("c2", "ask", `{}`), harness.Text("never"))
		d.OK(`{"type":"prompt","message":"go"}`)
		d.UIRequest("confirm")
		d.OK(`{"type":"abort"}`)
		d.Event("agent_settled")
		d.OK(`{"type":"prompt","message":"ask"}`)
		d.UIRequest("confirm")
		d.OK(`{"type":"abort"}`)
		d.Event("agent_settled")
		assert.NoFileExists(t, filepath.Join(p.Work, "ran"))

		for _, command := range []string{"select", "confirm", "input", "editor", "several"} {
			runCommand(d, command)
		}
		p.Model.Enqueue(harness.ToolCall("c3", "bash", `{"command":"touch ran"}`), harness.Text("over"))
		d.OK(`{"type":"prompt","message":"go on"}`)
		d.UIRequest("editor")
		require.Zero(t, d.Close(), "open dialogs do not hold the end up")
		assert.NoFileExists(t, filepath.Join(p.Work, "ran"))
	})

	p := harness.NewPlace(t)
	p.Model.Enqueue(harness.ToolCall("c4", "bash", `{"command":"touch ran"}`), harness.Text("done"))
	path, err := filepath.Abs(filepath.Join("..", "testdata", "extensions", "ui.ts"))
	require.NoError(t, err)
	out, _, code := p.RunOnce("", "-p", "-e", path, "--provider", "mock", "--model", "mock-1", "go")
	assert.Zero(t, code)
	assert.Contains(t, out, "done")
	assert.NoFileExists(t, filepath.Join(p.Work, "ran"), "nobody is there")
}

// TestAbortBehindTheRun checks dialogs opened in agent_end or agent_settled. They delay the next
// run, and abort closes them.
func TestAbortBehindTheRun(t *testing.T) {
	t.Parallel()
	for event, aborted := range map[string]bool{"agent_end": true, "agent_settled": false} {
		p := harness.NewPlace(t)
		p.Model.Enqueue(harness.Text("one"), harness.Text("two"))
		p.WriteFile(filepath.Join(p.AgentDir(), "extensions", "asks.ts"), `export default (pi) => {
			let asked = false;
			pi.on("`+event+`", async (e, ctx) => {
				if (asked) return;
				asked = true;
				ctx.ui.notify("said " + await ctx.ui.input("How was it?"));
			});
		}`)
		d := p.Start()
		d.OK(`{"type":"prompt","message":"go"}`)
		if !aborted {
			d.Event("agent_settled")
		}
		asked := d.UIRequest("input")
		d.OK(`{"type":"abort"}`)
		if aborted {
			assert.True(t, d.Event("agent_settled").Get("aborted").Bool(), "it is over when nobody is asked any more")
		}
		d.Wait(0, "what was said", func(v gjson.Result) bool { return v.Get("message").Str == "said undefined" })
		d.RespondUI(asked, `"value":"late"`)
		d.OK(`{"type":"prompt","message":"again"}`)
		d.Event("agent_settled")
		require.Zero(t, d.Close())
	}
}

// TestDialogsOfOlderClients checks that older clients receive dialogs as hook_ui_request.
func TestDialogsOfOlderClients(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	d := startUI(p, "--dialect", "s3")
	d.OK(`{"type":"prompt","message":"/confirm"}`)
	dialog := d.Event("hook_ui_request")
	assert.Equal(t, "confirm", dialog.Get("method").Str)
	d.Send(`{"type":"hook_ui_response","id":"` + dialog.Get("id").Str + `","confirmed":true}`)
	assert.Equal(t, "confirm: true", d.Event("hook_ui_request").Get("message").Str)
	d.OK(`{"type":"prompt","message":"/throws"}`)
	assert.Equal(t, "on purpose", d.Event("hook_error").Get("error").Str)
	require.Zero(t, d.Close())
}

// TestDialogOfTwoClients checks that a dialog is shown to all clients of its session, including one
// that attaches later. When one client answers, the others receive dialog_resolved. Later answers
// are ignored.
func TestDialogOfTwoClients(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile(filepath.Join(p.AgentDir(), "extensions", "asks.ts"), `export default (pi) => {
		pi.registerCommand("ask", { handler: async (args, ctx) => ctx.ui.notify("said " + await ctx.ui.confirm("Sure?", args)) });
	}`)
	s := p.Serve()
	a, b, late := s.Connect(), s.Connect(), s.Connect()
	for _, d := range []*harness.Daemon{a, b, late} {
		d.OK(`{"type":"hello","features":["dialogEvents"]}`)
	}
	a.OK(`{"type":"get_commands"}`)
	of := `"sessionId":"` + a.OK(`{"type":"list_open_sessions"}`).Get("sessions.0.sessionId").Str + `"`
	attach := `{"type":"attach",` + of + `}`
	b.OK(attach)
	runCommand(a, "ask one")
	asked := a.UIRequest("confirm")
	require.Equal(t, asked.Get("id").Str, b.UIRequest("confirm").Get("id").Str)
	assert.Contains(t, late.OK(attach).Raw, asked.Get("id").Str, "it is open")
	b.RespondUI(asked, `"confirmed":true,`+of)
	for _, d := range []*harness.Daemon{a, b, late} {
		over := d.Event("dialog_resolved")
		assert.Equal(t, asked.Get("id").Str, over.Get("id").Str, over.Raw)
		assert.Equal(t, "said true", d.UIRequest("notify").Get("message").Str)
	}
	a.RespondUI(asked, `"confirmed":false`)
	runCommand(a, "ask two")
	again := a.UIRequest("confirm")
	a.RespondUI(again, `"confirmed":false`)
	assert.Equal(t, "said false", b.UIRequest("notify").Get("message").Str)
	for _, d := range []*harness.Daemon{a, b, late} {
		require.Zero(t, d.Close())
	}
	assert.Equal(t, 143, s.Stop())
}

// TestDialogsOfOpenedSessions checks in every dialect that dialogs of an opened session and their
// answers carry its session id.
func TestDialogsOfOpenedSessions(t *testing.T) {
	t.Parallel()
	for _, dialect := range []string{"pi1", "s0", "s1", "s2", "s3", "s4", "union"} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			p := harness.NewPlace(t)
			path, err := filepath.Abs(filepath.Join("..", "testdata", "extensions", "ui.ts"))
			require.NoError(t, err)
			d := p.Start("--multi-session", "--dialect", dialect, "-e", path)
			id := d.OK(`{"type":"open_session"}`).Get("sessionId").Str
			asks, answers := "extension_ui_request", "extension_ui_response"
			if dialect == "s3" {
				asks, answers = "hook_ui_request", "hook_ui_response"
			}
			for _, c := range []struct{ command, wrong, answer, want string }{
				{"select", `"confirmed":true`, `"value":"b"`, `select: "b"`},
				{"confirm", `"value":"yes"`, `"confirmed":true`, `confirm: true`},
				{"input", `"confirmed":true`, `"value":""`, `input: ""`},
				{"editor", `"confirmed":true`, `"cancelled":true`, `editor: null`},
			} {
				d.Send(`{"type":"prompt","message":"/` + c.command + `","sessionId":"` + id + `"}`)
				of := func(v gjson.Result) bool { return v.Get("type").Str == asks && v.Get("sessionId").Str == id }
				asked := d.Next(asks, func(v gjson.Result) bool { return of(v) && v.Get("method").Str == c.command })
				for _, answer := range []string{c.wrong, c.answer} {
					d.Send(`{"type":"` + answers + `","id":"` + asked.Get("id").Str + `",` + answer + `,"sessionId":"` + id + `"}`)
				}
				said := d.Next("notify", func(v gjson.Result) bool { return of(v) && v.Get("method").Str == "notify" })
				assert.Equal(t, c.want, said.Get("message").Str)
			}
			require.Zero(t, d.Close())
		})
	}
}
