package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// startUI runs the extension that shows and asks everything.
func (p *place) startUI(args ...string) *daemon {
	path, err := filepath.Abs(filepath.Join("testdata", "extensions", "ui.ts"))
	require.NoError(p.t, err)
	d := p.start(append(args, "-e", path)...)
	if slices.Contains(args, "--multi-session") {
		d.session = d.ok(`{"type":"open_session"}`).Get("sessionId").Str
	}
	d.ok(`{"type":"get_commands"}`)
	return d
}

// inSessions runs a story in the default session and in one that was opened.
func inSessions(t *testing.T, story func(t *testing.T, p *place, d *daemon)) {
	t.Parallel()
	t.Run("default", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		story(t, p, p.startUI())
	})
	t.Run("opened", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		story(t, p, p.startUI("--multi-session"))
	})
}

// command runs a command of an extension.
func (d *daemon) command(line string) {
	d.t.Helper()
	require.Equal(d.t, "handled", d.ok(`{"type":"prompt","message":"/`+line+`"}`).Get("disposition").Str)
}

// notice waits for the notice that a command ends with.
func (d *daemon) notice(name string) string {
	d.t.Helper()
	for {
		if said, ok := strings.CutPrefix(d.ui("notify").Get("message").Str, name+": "); ok {
			return said
		}
	}
}

// TestDialogs: every dialog with every way in which it can end.
func TestDialogs(t *testing.T) {
	inSessions(t, func(t *testing.T, p *place, d *daemon) {
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
			d.command(c.command)
			dialog := d.ui(c.method)
			assert.Contains(t, dialog.Raw, c.record)
			if c.answer != "" {
				d.dialog(dialog, c.answer)
			}
			name, _, _ := strings.Cut(c.command, " ")
			assert.Equal(t, c.want, d.notice(name), c.command+" "+c.answer)
			d.dialog(dialog, `"value":"late"`) // heard by nobody
		}
		require.Zero(t, d.end())
		assert.NotContains(t, strings.Join(d.output(), "\n"), "extension_error")
	})
}

// TestDialogsTogether: several are open at once and answered in any order; an answer
// of the wrong kind, to nobody or a second time is none.
func TestDialogsTogether(t *testing.T) {
	inSessions(t, func(t *testing.T, p *place, d *daemon) {
		d.command("several")
		choice, sure, name := d.ui("select"), d.ui("confirm"), d.ui("input")
		d.dialog(name, `"confirmed":true`)
		d.dialog(sure, `"value":"yes"`)
		d.dialog(gjson.Parse(`{"id":"nobody"}`), `"cancelled":true`)
		d.dialog(name, `"value":"Ann"`)
		d.dialog(name, `"value":"Bob"`)
		d.dialog(choice, `"value":"a"`)
		d.dialog(sure, `"confirmed":true`)
		assert.Equal(t, `["a",true,"Ann"]`, d.notice("several"))
		require.Zero(t, d.end())
	})
}

// TestDialogsOneByOne: pi_agent_rust shows one dialog at a time. The others wait until it is
// over, however that is, and the time of one begins when it is shown.
func TestDialogsOneByOne(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	d := p.startUI("--dialect", "s4")
	d.send(`{"type":"prompt","message":"/several"}`)
	choice := d.ui("select")
	assert.NotContains(t, strings.Join(d.output(), "\n"), `"method":"confirm"`)
	d.dialog(choice, `"value":"a"`)
	sure := d.ui("confirm")
	assert.NotContains(t, strings.Join(d.output(), "\n"), `"method":"input"`)
	d.send(`{"type":"prompt","message":"/select timeout"}`)
	d.dialog(sure, `"cancelled":true`)
	d.dialog(d.ui("input"), `"value":"Ann"`)
	d.ui("select")
	assert.Equal(t, `["a",false,"Ann"]`, d.notice("several"))
	assert.Equal(t, "null", d.notice("select"))
	require.Zero(t, d.end())
}

// TestRecordsWithoutAnswer: what is shown, with what is absent absent and what is empty
// there, and what cannot be shown.
func TestRecordsWithoutAnswer(t *testing.T) {
	inSessions(t, func(t *testing.T, p *place, d *daemon) {
		for _, c := range []struct{ command, want string }{
			{"notify", `"method":"notify","message":"plain" "method":"notify","message":"careful","notifyType":"warning" "method":"notify","message":"broken","notifyType":"error"`},
			{"status", `"method":"setStatus","statusKey":"k","statusText":"text" "method":"setStatus","statusKey":"k","statusText":"" "method":"setStatus","statusKey":"k"`},
			{"widget", `"method":"setWidget","widgetKey":"w","widgetLines":["one","two"],"widgetPlacement":"belowEditor" "method":"setWidget","widgetKey":"w","widgetLines":[] "method":"setWidget","widgetKey":"w"`},
			{"title", `"method":"setTitle","title":"a title"`},
			{"prefill", `"method":"set_editor_text","text":"typed" "method":"set_editor_text","text":"pasted"`},
			{"nothing", ``},
		} {
			from := d.count()
			d.command(c.command)
			assert.Equal(t, `"plain text"`, d.notice(c.command))
			var records []string
			for _, line := range d.output()[from:] {
				if v := gjson.Parse(line); v.Get("type").Str == "extension_ui_request" && !strings.HasPrefix(v.Get("message").Str, c.command+":") {
					_, rest, _ := strings.Cut(line, `"method"`)
					records = append(records, `"method"`+strings.TrimSuffix(rest, "}"))
				}
			}
			assert.Equal(t, c.want, strings.Join(records, " "), c.command)
		}
		d.command("custom")
		assert.Equal(t, `[null,"",[],false,true]`, d.notice("custom"))
		d.command("throws")
		failed := d.event("extension_error")
		assert.Equal(t, "command:throws command on purpose", fmt.Sprint(failed.Get("extensionPath"), failed.Get("event"), failed.Get("error")))
		require.Zero(t, d.end())
	})
}

// TestDialogsThatNobodyAnswers: an abort, the end of the input and a client that was
// never there mean no.
func TestDialogsThatNobodyAnswers(t *testing.T) {
	inSessions(t, func(t *testing.T, p *place, d *daemon) {
		p.llm.plays(tool("c1", "bash", `{"command":"touch ran"}`), tool("c2", "ask", `{}`), text("never"))
		d.ok(`{"type":"prompt","message":"go"}`)
		d.ui("confirm")
		d.ok(`{"type":"abort"}`)
		d.event("agent_settled")
		d.ok(`{"type":"prompt","message":"ask"}`)
		d.ui("confirm")
		d.ok(`{"type":"abort"}`)
		d.event("agent_settled")
		assert.NoFileExists(t, filepath.Join(p.work, "ran"))

		for _, command := range []string{"select", "confirm", "input", "editor", "several"} {
			d.command(command)
		}
		p.llm.plays(tool("c3", "bash", `{"command":"touch ran"}`), text("over"))
		d.ok(`{"type":"prompt","message":"go on"}`)
		d.ui("editor")
		require.Zero(t, d.end(), "open dialogs do not hold the end up")
		assert.NoFileExists(t, filepath.Join(p.work, "ran"))
	})

	p := newPlace(t)
	p.llm.plays(tool("c4", "bash", `{"command":"touch ran"}`), text("done"))
	path, err := filepath.Abs(filepath.Join("testdata", "extensions", "ui.ts"))
	require.NoError(t, err)
	out, _, code := p.once("", "-p", "-e", path, "--provider", "mock", "--model", "mock-1", "go")
	assert.Zero(t, code)
	assert.Contains(t, out, "done")
	assert.NoFileExists(t, filepath.Join(p.work, "ran"), "nobody is there")
}

// TestAbortBehindTheRun: what handlers ask at the end of a run, or behind it, holds up what comes
// next, and an abort ends it.
func TestAbortBehindTheRun(t *testing.T) {
	t.Parallel()
	for event, aborted := range map[string]bool{"agent_end": true, "agent_settled": false} {
		p := newPlace(t)
		p.llm.plays(text("one"), text("two"))
		p.write(filepath.Join(p.agent(), "extensions", "asks.ts"), `export default (pi) => {
			let asked = false;
			pi.on("`+event+`", async (e, ctx) => {
				if (asked) return;
				asked = true;
				ctx.ui.notify("said " + await ctx.ui.input("How was it?"));
			});
		}`)
		d := p.start()
		d.ok(`{"type":"prompt","message":"go"}`)
		if !aborted {
			d.event("agent_settled")
		}
		asked := d.ui("input")
		d.ok(`{"type":"abort"}`)
		if aborted {
			assert.True(t, d.event("agent_settled").Get("aborted").Bool(), "it is over when nobody is asked any more")
		}
		d.wait(0, "what was said", func(v gjson.Result) bool { return v.Get("message").Str == "said undefined" })
		d.dialog(asked, `"value":"late"`)
		d.ok(`{"type":"prompt","message":"again"}`)
		d.event("agent_settled")
		require.Zero(t, d.end())
	}
}

// TestDialogsOfOlderClients: they know dialogs by the name of hooks.
func TestDialogsOfOlderClients(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	d := p.startUI("--dialect", "s3")
	d.ok(`{"type":"prompt","message":"/confirm"}`)
	dialog := d.event("hook_ui_request")
	assert.Equal(t, "confirm", dialog.Get("method").Str)
	d.send(`{"type":"hook_ui_response","id":"` + dialog.Get("id").Str + `","confirmed":true}`)
	assert.Equal(t, "confirm: true", d.event("hook_ui_request").Get("message").Str)
	d.ok(`{"type":"prompt","message":"/throws"}`)
	assert.Equal(t, "on purpose", d.event("hook_error").Get("error").Str)
	require.Zero(t, d.end())
}

// TestDialogOfTwoClients: what an extension asks is shown to all clients of its session, of
// whom one answers; the others are told, also one that comes while it is open, and a later
// answer counts for nothing.
func TestDialogOfTwoClients(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(filepath.Join(p.agent(), "extensions", "asks.ts"), `export default (pi) => {
		pi.registerCommand("ask", { handler: async (args, ctx) => ctx.ui.notify("said " + await ctx.ui.confirm("Sure?", args)) });
	}`)
	s := p.serve()
	a, b, late := s.connect(), s.connect(), s.connect()
	for _, d := range []*daemon{a, b, late} {
		d.ok(`{"type":"hello","features":["dialogEvents"]}`)
	}
	a.ok(`{"type":"get_commands"}`)
	of := `"sessionId":"` + a.ok(`{"type":"list_open_sessions"}`).Get("sessions.0.sessionId").Str + `"`
	attach := `{"type":"attach",` + of + `}`
	b.ok(attach)
	a.command("ask one")
	asked := a.ui("confirm")
	require.Equal(t, asked.Get("id").Str, b.ui("confirm").Get("id").Str)
	assert.Contains(t, late.ok(attach).Raw, asked.Get("id").Str, "it is open")
	b.dialog(asked, `"confirmed":true,`+of)
	for _, d := range []*daemon{a, b, late} {
		over := d.event("dialog_resolved")
		assert.Equal(t, asked.Get("id").Str, over.Get("id").Str, over.Raw)
		assert.Equal(t, "said true", d.ui("notify").Get("message").Str)
	}
	a.dialog(asked, `"confirmed":false`)
	a.command("ask two")
	again := a.ui("confirm")
	a.dialog(again, `"confirmed":false`)
	assert.Equal(t, "said false", b.ui("notify").Get("message").Str)
	for _, d := range []*daemon{a, b, late} {
		require.Zero(t, d.end())
	}
	assert.Equal(t, 143, s.stop())
}

// TestDialogsOfOpenedSessions: in every dialect dialogs of a session that was opened name it, and their answers do.
func TestDialogsOfOpenedSessions(t *testing.T) {
	t.Parallel()
	for _, dialect := range []string{"pi1", "s0", "s1", "s2", "s3", "s4", "union"} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			path, err := filepath.Abs(filepath.Join("testdata", "extensions", "ui.ts"))
			require.NoError(t, err)
			d := p.start("--multi-session", "--dialect", dialect, "-e", path)
			id := d.ok(`{"type":"open_session"}`).Get("sessionId").Str
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
				d.send(`{"type":"prompt","message":"/` + c.command + `","sessionId":"` + id + `"}`)
				of := func(v gjson.Result) bool { return v.Get("type").Str == asks && v.Get("sessionId").Str == id }
				asked := d.next(asks, func(v gjson.Result) bool { return of(v) && v.Get("method").Str == c.command })
				for _, answer := range []string{c.wrong, c.answer} {
					d.send(`{"type":"` + answers + `","id":"` + asked.Get("id").Str + `",` + answer + `,"sessionId":"` + id + `"}`)
				}
				said := d.next("notify", func(v gjson.Result) bool { return of(v) && v.Get("method").Str == "notify" })
				assert.Equal(t, c.want, said.Get("message").Str)
			}
			require.Zero(t, d.end())
		})
	}
}
