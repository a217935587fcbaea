package page

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/browser"
	"troupe/e2e/harness"
)

// begin creates a session on the page.
func begin(p *browser.Tab, mode string) {
	p.Until(`document.querySelector("#empty button") !== null`)
	p.Eval(`document.querySelector("#empty button").click()`)
	p.Eval(fmt.Sprintf(`document.querySelector("#sheet select").value = %q`, mode))
	p.Eval(`document.querySelector("#sheet form").requestSubmit()`)
	p.Until(`!document.getElementById("sheet").open && !document.getElementById("composer").hidden`)
}

func say(p *browser.Tab, message string) {
	p.Eval(fmt.Sprintf(`(() => { const t = document.getElementById("composer-text"); t.value = %q; t.dispatchEvent(new Event("input")); document.getElementById("composer").requestSubmit(); })()`, message))
}

const shown = `document.getElementById("conversation").textContent` // of what is not in view, too

func sees(p *browser.Tab, text string) { p.Until(fmt.Sprintf(shown+`.includes(%q)`, text)) }

// TestPage checks a conversation in the browser: a prompt, a tool call, an approval with its diff,
// and the answer. A second tab sees the same and can answer. It also checks a reload during a
// stream and revoked access.
func TestPage(t *testing.T) {
	t.Parallel()
	b := browser.Start(t) // a new browser, so that it reports the first paint
	p := harness.NewPlace(t)
	s := p.Serve("--listen", "127.0.0.1:0")
	token := s.Token()

	tab := b.NewTab(t, 1280, 860, "light")
	s.Visit(tab, s.Code)
	const painted = `(performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0)`
	tab.Until(painted + ` > 0`)
	t.Log("first contentful paint, ms:", tab.Eval(painted))
	assert.NotContains(t, tab.Eval(`location.href`), s.Code)
	begin(tab, "ask")
	assert.Greater(t, tab.Eval(`document.getElementById("composer-text").clientHeight`), float64(30), "there is room for a line")
	p.Model.Enqueue(harness.ToolCall("c1", "write", `{"path":"made.txt","content":"<b>made</b>\u202e.\u200b\n"}`).Then(harness.Gate("asked")), harness.Text("All **done**. <script>document.title='owned'</script> [x](javascript:alert(1)) ![y](http://127.0.0.1:9/y.png)"))
	say(tab, "make it")
	p.Model.OpenGate("asked")
	tab.Until(`document.querySelector("#dock .card .diff") !== null`)
	assert.Contains(t, tab.Eval(`document.querySelector("#dock .card").innerText`), "<b>made</b>‹U+202E›.‹U+200B›", "nothing that is asked about is unseen")
	assert.Equal(t, "Allow once,Deny,Deny and stop", tab.Eval(`[...document.querySelectorAll("#dock .answers button")].slice(0, 3).map((b) => b.innerText).join()`))
	assert.NoFileExists(t, filepath.Join(p.Work, "made.txt"))

	other := b.NewTab(t, 390, 844, "dark") // the same browser: it has the token
	other.Load(s.URL + "/")
	other.Until(`document.querySelector("#dock .card .primary") !== null`)
	other.Until(`(document.querySelector("#dock .card .primary")?.click(), document.querySelector("#dock .card") === null)`)
	sees(other, "All done.")
	sees(tab, "All done.")
	tab.Until(`document.querySelector("#dock .card") === null`)
	assert.FileExists(t, filepath.Join(p.Work, "made.txt"))
	assert.NotEqual(t, "owned", tab.Eval(`document.title`))
	assert.Equal(t, float64(0), tab.Eval(`document.querySelectorAll("#conversation script, #conversation [href^='javascript:'], #conversation img").length`))
	assert.LessOrEqual(t, other.Eval(`document.documentElement.scrollWidth`), float64(390))

	p.Model.Enqueue(harness.ToolCall("c2", "bash", `{"command":"echo asked\ndate","timeout":7}`), harness.Text("It was changed."))
	say(other, "run it")
	other.Until(`document.querySelector("#dock .arguments") !== null`)
	const write = `((name, text) => { const f = document.querySelector("#dock textarea[aria-label=" + name + "]"); f.value = text; f.dispatchEvent(new Event("input")); })`
	const always = `[...document.querySelectorAll("#dock button[data-kind=allow_always]")].map((b) => b.disabled).join()`
	assert.Equal(t, "false,false", other.Eval(always))
	other.Eval(write + `("command", "echo written")`)
	other.Eval(write + `("timeout", "seven")`)
	assert.Equal(t, "true,true", other.Eval(always), "these would allow what was asked")
	const allow = `(document.querySelector("#dock .card .primary")?.click(), document.getElementById("alert").textContent)`
	other.Until(allow + `.includes("cannot be read")`)
	other.Eval(write + `("timeout", '"7"')`)
	other.Until(allow + `.includes("do not fit")`)
	assert.Equal(t, "echo written", other.Eval(`document.querySelector("#dock textarea").value`), "what was refused can be mended")
	other.Eval(write + `("timeout", "7")`)
	other.Until(allow + ` !== null && document.querySelector("#dock .card") === null`)
	sees(other, "It was changed.")
	const ran = `[...document.querySelectorAll("#conversation details.tool")].at(-1)`
	other.Eval(ran + `.open = true`)
	other.Until(ran + `.textContent.includes("arguments were changed when")`)
	assert.Equal(t, "$ echo writtenwritten", other.Eval(ran+`.querySelector(".terminal").textContent`), "what has run, and what it said")
	assert.NotContains(t, other.Eval(ran+`.textContent`), "asked")

	p.Model.Enqueue(harness.Text("first half ").Then(harness.Gate("half")).Then(harness.Text("second half")))
	say(tab, "and now slowly")
	sees(tab, "first half")
	tab.Load(s.URL + "/")
	sees(tab, "first half")
	tab.Until(`document.getElementById("send").textContent === "Steer" && !document.getElementById("stop").hidden`)
	p.Model.OpenGate("half")
	sees(tab, "first half second half")
	tab.Until(`document.getElementById("send").textContent === "Send"`)
	assert.Equal(t, float64(1), tab.Eval(shown+`.split("first half").length - 1`))
	s.CheckTab(tab)
	s.CheckTab(other)

	_, answer := s.Do("POST", "/v1/rpc", `{"id":1,"type":"list_open_sessions"}`, harness.Bearer(token)...)
	assert.Contains(t, answer, `"success":true`)
	require.NoError(t, os.WriteFile(filepath.Join(p.AgentDir(), "troupe", "devices.json"), []byte("[]"), 0o600))
	tab.Until(`document.documentElement.dataset.ready === "login"`)
	assert.Contains(t, tab.Eval(`document.getElementById("sheet").innerText`), "withdrawn")
	assert.Equal(t, 143, s.Stop())
}

// TestPageWatches checks that a device with view scope sees the conversation and the approval
// requests, but no controls that change anything.
func TestPageWatches(t *testing.T) {
	t.Parallel()
	b := browser.Shared(t)
	p := harness.NewPlace(t)
	s := p.Serve("--listen", "127.0.0.1:0", "--pair", "view")
	raw, err := os.ReadFile(filepath.Join(p.AgentDir(), "troupe", "serve.token"))
	require.NoError(t, err)
	owner, _ := s.Dial(strings.TrimSpace(string(raw)), "troupe.v1")
	owner.Send(`{"id":"hello","type":"hello","features":["approvals"],"ui":["approval"]}`)
	owner.Send(`{"id":"open","type":"open_session","permissionMode":"ask"}`)
	handle := owner.WaitFor("open").Get("data.sessionId").Str

	tab := b.NewTab(t, 1280, 860, "light")
	s.Visit(tab, s.Code)
	p.Model.Enqueue(harness.ToolCall("c1", "write", `{"path":"made.txt","content":"made\n"}`), harness.Text("All of it."))
	owner.Send(`{"id":"p","type":"prompt","message":"make it","sessionId":"` + handle + `"}`)
	tab.Until(`document.querySelector("#list button, #list a") !== null`)
	tab.Until(`(document.querySelector("#list li button, #list li a")?.click(), ` + shown + `.includes("make it"))`)
	tab.Until(`document.querySelector("#dock .card .diff") !== null`)
	assert.Contains(t, tab.Eval(`document.querySelector("#dock").innerText`), "Answer on another device")
	const acts = `[...document.querySelectorAll("button, select, textarea, input:not([type=search])")].filter((n) => !n.disabled && n.checkVisibility() && !n.closest("#list") &&
		/^(allow|deny|send|steer|queue|stop|new session|fork|delete|save|cancel)/i.test(n.textContent.trim())).map((n) => n.textContent.trim()).join("|")`
	tab.Eval(`(troupe.view.agents.set("A", { id: "A", agent: "task", childSessionId: "s9", status: "running" }), troupe.changed(troupe.view), null)`)
	assert.Equal(t, float64(1), tab.Eval(`document.querySelectorAll("#agents button").length`), "a way to look at it")
	assert.Equal(t, "", tab.Eval(acts))
	assert.Equal(t, float64(0), tab.Eval(`document.querySelectorAll("[aria-label='Edit and send again']").length`))
	tab.Eval(`document.getElementById("show-palette").click()`)
	assert.Equal(t, "", tab.Eval(`[...document.querySelectorAll("#sheet .pick")].map((b) => b.textContent).filter((name) => /^(New|Model|Fork|Compact|Name|Close|Provider)/.test(name)).join()`))
	choose(tab, "Session details")
	tab.Until(`document.getElementById("sheet-title")?.textContent === "Session"`)
	assert.Equal(t, true, tab.Eval(`[...document.querySelectorAll("#sheet dd :is(select, button)")].every((n) => n.disabled)`))
	tab.Eval(`document.getElementById("sheet").close()`)
	assert.Equal(t, float64(0), tab.Eval(`document.querySelectorAll("#dock .arguments, #dock textarea").length`))
	assert.Equal(t, true, tab.Eval(`document.getElementById("new-session").hidden`))
	assert.Equal(t, true, tab.Eval(`["composer-text", "send", "model", "level", "mode"].every((id) => document.getElementById(id).disabled)`))
	assert.NoFileExists(t, filepath.Join(p.Work, "made.txt"))

	approval := owner.WaitFor("approval_request")
	owner.Send(`{"id":"yes","type":"approval_response","sessionId":"` + handle + `","approvalId":"` + approval.Get("id").Str + `","optionId":"once"}`)
	tab.Until(`document.querySelector("#dock .card") === null`)
	sees(tab, "All of it.")

	p.Model.Enqueue(harness.ToolCall("c2", "write", `{"path":"more.txt","content":"more\n"}`), harness.Text("And more."))
	owner.Send(`{"id":"again","type":"prompt","message":"more","sessionId":"` + handle + `"}`)
	approval = owner.WaitFor("approval_request")
	tab.Until(`document.querySelector("#dock .card .diff") !== null`) // although it cannot answer
	owner.Send(`{"id":"yes too","type":"approval_response","sessionId":"` + handle + `","approvalId":"` + approval.Get("id").Str + `","optionId":"once"}`)
	tab.Until(`document.querySelector("#dock .card") === null`)
	sees(tab, "And more.")
	tab.Eval(catchDownload)
	tab.Eval(`document.getElementById("show-palette").click()`)
	choose(tab, "Download as HTML")
	tab.Until(`window.downloaded?.includes("And more.")`) // it reads, and the server writes nothing
	s.CheckTab(tab)
	assert.Equal(t, 143, s.Stop())
}

// TestPageSessions checks that the page lists the sessions on disk page by page, searches and
// deletes them, and completes the directory of a new session.
func TestPageSessions(t *testing.T) {
	t.Parallel()
	b := browser.Shared(t)
	p := harness.NewPlace(t)
	for _, dir := range []string{"first project", "second"} {
		require.NoError(t, os.MkdirAll(filepath.Join(p.Work, dir), 0o700))
	}
	dir := filepath.Join(p.AgentDir(), "sessions", "--old--")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	for i := range 120 {
		id := fmt.Sprintf("01a20000-0000-7000-8000-%012d", i)
		content := fmt.Sprintf(`{"type":"session","version":3,"id":%q,"timestamp":"2026-01-01T00:00:00.000Z","cwd":%q}`+"\n"+
			`{"type":"message","id":"00000001","parentId":null,"timestamp":"2026-01-01T00:00:00.000Z","message":{"role":"user","content":"question <b>%d</b>","timestamp":%d}}`+"\n"+
			`{"type":"message","id":"00000002","parentId":"00000001","timestamp":"2026-01-01T00:00:01.000Z","message":{"role":"assistant","content":[{"type":"text","text":"the answer is needle%03d"}],"timestamp":%d}}`+"\n",
			id, p.Work, i, 1767225600000+int64(i)*1000, i, 1767225600500+int64(i)*1000)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "2026-01-01T00-00-00-000Z_"+id+".jsonl"), []byte(content), 0o600))
	}
	s := p.Serve("--listen", "127.0.0.1:0", "--compress")
	tab := b.NewTab(t, 1280, 860, "light")
	s.Visit(tab, s.Code)
	const rows = `document.querySelectorAll("#list-body .session:not(.open)").length` // the page has opened one
	tab.Until(rows + ` === 100`)
	assert.Contains(t, tab.Eval(`document.querySelector("#list-body .session:not(.open)").textContent`), "question <b>119</b>")
	tab.Eval(`document.querySelector("#list-body .more").click()`)
	tab.Until(rows + ` === 120`)
	search := func(words string) {
		tab.Eval(fmt.Sprintf(`(() => { const f = document.getElementById("list-search"); f.value = %q; f.dispatchEvent(new Event("input")); })()`, words))
	}
	search("NEEDLE007 answer")
	tab.Until(rows + ` === 1`)
	assert.Contains(t, tab.Eval(`document.querySelector("#list-body .session:not(.open)").textContent`), "question <b>7</b>")
	tab.Eval(`document.querySelector("#list-body .remove").click()`)
	tab.Until(`document.getElementById("sheet").open`)
	tab.Eval(`document.getElementById("sure").click()`)
	tab.Until(rows + ` === 0`)
	gone, err := filepath.Glob(filepath.Join(p.AgentDir(), "sessions", ".trash", "--old--", "*.jsonl"))
	require.NoError(t, err)
	assert.Len(t, gone, 1)
	search("")
	tab.Until(rows + ` === 100`)
	tab.Eval(`document.querySelector("#list-body .session:not(.open)").click()`)
	sees(tab, "the answer is needle119")
	p.WriteFile("first project/notes.md", "")
	asked := 0
	for _, of := range [][]string{ // the text up to the cursor, and its completion
		{"see @FIR", `see @"first project/`},
		{`see @"first project/no`, `see @"first project/notes.md" `},
		{"@sec", "@second/"},
	} {
		tab.Eval(fmt.Sprintf(`(() => { const t = document.getElementById("composer-text"); t.focus(); t.value = %q + ", please"; t.setSelectionRange(%d, %[2]d); t.dispatchEvent(new Event("input")); })()`, of[0], len(of[0])))
		tab.Until(fmt.Sprintf(`document.querySelector("#completions:not([hidden]) > [aria-selected=true]")?.dataset.written === %q`, strings.TrimSuffix(of[1], " ")))
		tab.Press("Tab")
		assert.Equal(t, of[1]+", please", tab.Eval(`document.getElementById("composer-text").value`))
		assert.Equal(t, float64(len(of[1])), tab.Eval(`document.getElementById("composer-text").selectionStart`))
	}

	for _, frame := range tab.Heard("Network.webSocketFrameSent") {
		if sent := gjson.GetBytes(frame, "response.payloadData").Str; gjson.Get(sent, "type").Str == "list_directories" {
			assert.NotEmpty(t, gjson.Get(sent, "sessionId").Str, "files of the session are on its node: %s", sent)
			asked++
		}
	}
	assert.Positive(t, asked)

	tab.Eval(`document.getElementById("new-session").click()`)
	tab.Until(`document.querySelector("#sheet input[name=cwd]") !== null`)
	tab.Eval(fmt.Sprintf(`(() => { const f = document.querySelector("#sheet input[name=cwd]"); f.value = %q; f.dispatchEvent(new Event("input")); })()`, p.Work+"/FIR"))
	tab.Until(fmt.Sprintf(`[...document.querySelectorAll("#directories option")].some((o) => o.value === %q)`, filepath.Join(p.Work, "first project")))
	s.CheckTab(tab)
	assert.Equal(t, 143, s.Stop())
}

// words is an expression for the text of each message on a live or exported page.
const words = `JSON.stringify([...document.querySelectorAll("article.entry > .body")].map((b) => b.textContent.replace(/\\s+/g, " ").trim()))`

// exported returns the texts of a session that was exported with --export.
func exported(s *harness.Server, b *browser.Browser, file string) any {
	s.T.Helper()
	out := filepath.Join(s.Place.Root, "exported.html")
	cmd := exec.Command(harness.Binary, "--export", file, out)
	cmd.Env = s.Place.Environ()
	said, err := cmd.CombinedOutput()
	require.NoError(s.T, err, "%s", said)
	tab := b.NewTab(s.T, 1280, 860, "light")
	tab.Open("file://" + out)
	tab.Until(`document.querySelector("article.entry > .body") !== null`)
	return tab.Eval(words)
}

// TestPageCut breaks the WebSocket 50 times while an answer streams and restarts the daemon. The
// page must then show the same text as an export of the session file.
func TestPageCut(t *testing.T) {
	t.Parallel()
	b := browser.Shared(t)
	p := harness.NewPlace(t)
	s := p.Serve("--listen", "127.0.0.1:0")
	tab := b.NewTab(t, 1280, 860, "light")
	s.Visit(tab, s.Code)
	begin(tab, "auto")
	const cuts, parts = 50, 100
	a := harness.Text("begin ")
	for i := range cuts {
		a = a.Then(harness.Gate(fmt.Sprint("g", i)))
		for j := range parts {
			a = a.Then(harness.Text(fmt.Sprintf("w%d-%d ", i, j)))
		}
	}
	p.Model.Enqueue(a)
	say(tab, "stream")
	sees(tab, "begin")
	for i := range cuts {
		tab.Eval(`troupe.link.socket?.close()`)
		p.Model.OpenGate(fmt.Sprint("g", i))
		tab.Until(`troupe.link.open || (troupe.link.again(), false)`)
	}
	tab.Until(`document.getElementById("send").textContent === "Send"`)
	offline := func(message string) { // a message sent while disconnected
		tab.Eval(`(troupe.link.socket?.close(), null)`)
		tab.Until(`!troupe.link.open && (clearTimeout(troupe.link.timer), true)`)
		say(tab, message)
		tab.Until(fmt.Sprintf(`document.getElementById("queue").textContent.includes(%q)`, "not sent yet "+message))
	}
	p.Model.Enqueue(harness.Text("heard it"))
	offline("said offline")
	tab.Eval(`troupe.link.again()`)
	sees(tab, "heard it")
	tab.Until(`document.getElementById("queue").textContent === ""`)
	var want strings.Builder
	want.WriteString("begin")
	for i := range cuts {
		for j := range parts {
			fmt.Fprintf(&want, " w%d-%d", i, j)
		}
	}
	sees(tab, want.String())
	assert.Equal(t, float64(1), tab.Eval(shown+`.split("begin").length - 1`))
	assert.Equal(t, exported(s, b, tab.Eval(`troupe.view.state.sessionFile`).(string)), tab.Eval(words))

	address := strings.TrimPrefix(s.URL, "http://")
	require.NoError(t, s.Cmd.Process.Kill())
	<-s.Ended
	tab.Until(`document.documentElement.dataset.ready === "offline"`)
	again := p.Serve("--listen", address)
	tab.Until(`document.documentElement.dataset.ready === "true" || (troupe.link.again(), false)`)
	sees(tab, want.String())
	p.Model.Enqueue(harness.Text("still here"))
	say(tab, "are you there?")
	sees(tab, "still here")
	offline("for the one that is gone")
	assert.Equal(t, 143, again.Stop())

	again = p.Serve("--listen", address) // its handles belong to other sessions
	token, err := os.ReadFile(filepath.Join(p.AgentDir(), "troupe", "serve.token"))
	require.NoError(t, err)
	_, answer := again.Do("POST", "/v1/rpc", fmt.Sprintf(`{"id":1,"type":"open_session","cwd":%q,"retain":true}`, p.Work), harness.Bearer(strings.TrimSpace(string(token)))...)
	require.Contains(t, answer, `"sessionId":"s1"`)
	p.Model.Enqueue(harness.Text("here as well"))
	tab.Eval(`troupe.link.again()`)
	sees(tab, "for the one that is gone")
	sees(tab, "here as well")
	sees(tab, want.String())
	assert.NotEqual(t, "s1", tab.Eval(`troupe.view.handle`))
	assert.Equal(t, 143, again.Stop())

	third := p.Serve("--listen", address) // no session is open: the list shows the files
	fresh := b.NewTab(t, 1280, 860, "light")
	fresh.Load(third.URL + "/")
	fresh.Until(`document.querySelector("#list-body .session .row-text")?.textContent === "stream"`)
	third.CheckTab(fresh)
	assert.Equal(t, 143, third.Stop())
}

// TestPagePictures checks that an image in a prompt is shown in the conversation, also after a
// reload, when it is fetched by its address.
func TestPagePictures(t *testing.T) {
	t.Parallel()
	b := browser.Shared(t)
	p := harness.NewPlace(t)
	s := p.Serve("--listen", "127.0.0.1:0")
	tab := b.NewTab(t, 1280, 860, "light")
	s.Visit(tab, s.Code)
	begin(tab, "auto")
	p.Model.Enqueue(harness.Text("a dot"))
	tab.Eval(`(() => {
		const data = new DataTransfer();
		data.items.add(new File([Uint8Array.from(atob("` + harness.Pixel + `"), (c) => c.charCodeAt(0))], "dot.png", { type: "image/png" }));
		document.getElementById("composer-text").dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
	})()`)
	tab.Until(`document.querySelector("#composer img") !== null`)
	say(tab, "what is it?")
	sees(tab, "a dot")
	const drawn = `document.querySelectorAll("#conversation figure img").length === 1 && document.querySelector("#conversation figure img").naturalWidth === 1`
	tab.Until(drawn)
	tab.Load(s.URL + "/")
	sees(tab, "a dot")
	tab.Until(drawn)
	assert.Contains(t, tab.Eval(`document.querySelector("#conversation figure img").src`), "blob:")
	s.CheckTab(tab)
}

// TestPageCopied checks that a duplicated tab, which has the client id of the original, gets a new
// one. Both tabs keep working.
func TestPageCopied(t *testing.T) {
	t.Parallel()
	b := browser.Shared(t)
	p := harness.NewPlace(t)
	s := p.Serve("--listen", "127.0.0.1:0")
	tab := b.NewTab(t, 1280, 860, "light")
	s.Visit(tab, s.Code)
	begin(tab, "auto")
	name := tab.Eval(`sessionStorage.getItem("troupe-client")`)
	copied := b.NewTab(t, 1280, 860, "light")
	copied.Load(s.URL + "/")
	copied.Until(`document.documentElement.dataset.ready === "true"`)
	copied.Eval(fmt.Sprintf(`sessionStorage.setItem("troupe-client", %q)`, name))
	copied.Load(s.URL + "/")
	tab.Until(fmt.Sprintf(`![%q, null].includes(sessionStorage.getItem("troupe-client"))`, name))
	p.Model.Enqueue(harness.Text("first"), harness.Text("second"))
	say(tab, "from the one")
	sees(copied, "first")
	say(copied, "from the other")
	sees(tab, "second")
	assert.Equal(t, name, copied.Eval(`sessionStorage.getItem("troupe-client")`))
	s.CheckTab(tab)
	s.CheckTab(copied)
}

// TestPageFirefox checks a conversation in Firefox: a prompt, a tool call, an approval with its
// diff, the answer and a reload.
func TestPageFirefox(t *testing.T) {
	t.Parallel()
	tab := browser.StartFirefox(t)
	p := harness.NewPlace(t)
	s := p.Serve("--listen", "127.0.0.1:0")
	tab.Load(s.URL + "/#c=" + s.Code)
	tab.Until(`document.documentElement.dataset.ready === "true"`)
	tab.Until(`document.querySelector("#empty button") !== null`)
	tab.Eval(`document.querySelector("#empty button").click()`)
	tab.Eval(`document.querySelector("#sheet select").value = "ask"`)
	tab.Eval(`document.querySelector("#sheet form").requestSubmit()`)
	tab.Until(`!document.getElementById("sheet").open && !document.getElementById("composer").hidden`)
	p.Model.Enqueue(harness.ToolCall("c1", "write", `{"path":"made.txt","content":"<b>made</b>\n"}`), harness.Text("All **done**."))
	tab.Eval(`(() => { const t = document.getElementById("composer-text"); t.value = "make it"; t.dispatchEvent(new Event("input")); document.getElementById("composer").requestSubmit(); })()`)
	tab.Until(`document.querySelector("#dock .card .diff") !== null`)
	assert.NoFileExists(t, filepath.Join(p.Work, "made.txt"))
	assert.Equal(t, "Allow write to made.txt?", tab.Eval(`document.querySelector("#dock h2").textContent`))
	assert.Equal(t, float64(1), tab.Eval(prominent))
	tab.Until(`(document.querySelector("#dock .card .primary")?.click(), document.querySelector("#dock .card") === null)`)
	tab.Until(shown + `.includes("All done.")`)
	tab.Eval(`document.getElementById("show-changes").click()`)
	tab.Until(`document.querySelector("#sheet .file .diff") !== null`)
	tab.Eval(`document.getElementById("sheet").close()`)
	tab.Eval(`(() => { const t = document.getElementById("composer-text"); t.value = "/exp"; t.dispatchEvent(new Event("input")); })()`)
	tab.Until(`document.querySelector("#completions:not([hidden]) strong")?.textContent === "/export"`)
	tab.Eval(`(() => { const t = document.getElementById("composer-text"); t.value = ""; t.dispatchEvent(new Event("input")); })()`)
	assert.FileExists(t, filepath.Join(p.Work, "made.txt"))
	tab.Load(s.URL + "/")
	tab.Until(shown + `.includes("All done.")`)
	for _, said := range strings.Split(tab.Said(), "\n") {
		if !strings.Contains(said, "connection to ws://") { // a browser says that of each that breaks
			assert.Empty(t, said)
		}
	}
}

// TestPageDialogs checks that dialogs of extensions are shown on all pages of a session and
// disappear everywhere when one page answers. Typed text is kept when another page answers. A page
// that reconnects shows the open dialogs. A new daemon removes them from the page.
func TestPageDialogs(t *testing.T) {
	t.Parallel()
	b := browser.Shared(t)
	p := harness.NewPlace(t)
	source, err := os.ReadFile(filepath.Join("..", "testdata", "extensions", "ui.ts"))
	require.NoError(t, err)
	p.WriteFile(filepath.Join(p.AgentDir(), "extensions", "ui.ts"), string(source))
	s := p.Serve("--listen", "127.0.0.1:0")
	tab := b.NewTab(t, 1280, 860, "light")
	s.Visit(tab, s.Code)
	begin(tab, "auto")
	p.Model.Enqueue(harness.Text("here I am")) // from here on the session has a file and survives its daemon
	say(tab, "hello")
	sees(tab, "here I am")
	say(tab, "/several")
	cards := func(p *browser.Tab, want string) {
		t.Helper()
		p.Until(fmt.Sprintf(`[...document.querySelectorAll("#dock .card h2")].map((h) => h.textContent).join() === %q`, want))
	}
	press := func(p *browser.Tab, card, button string) { // a new card ignores clicks for a moment
		t.Helper()
		p.Until(fmt.Sprintf(`((card) => (card && [...card.querySelectorAll("button")].find((b) => b.textContent === %[2]q).click(), card === undefined))
			([...document.querySelectorAll("#dock .card")].find((c) => c.querySelector("h2").textContent === %[1]q))`, card, button))
	}
	write := func(p *browser.Tab, text string) {
		p.Eval(fmt.Sprintf(`((f) => { f.focus(); f.value = %q; })(document.querySelector("#dock input, #dock textarea"))`, text))
	}
	noticed := func(p *browser.Tab, text string) {
		t.Helper()
		p.Until(fmt.Sprintf(`document.body.textContent.includes(%q)`, text))
	}
	cards(tab, "Which?,Sure?,Name?")
	other := b.NewTab(t, 390, 844, "dark")
	other.Load(s.URL + "/")
	cards(other, "Which?,Sure?,Name?")
	write(tab, "An")
	press(other, "Which?", "b")
	cards(tab, "Sure?,Name?")
	assert.Equal(t, "An", tab.Eval(`document.querySelector("#dock input").value`))
	press(tab, "Sure?", "Yes")
	cards(other, "Name?")
	tab.Load(s.URL + "/")
	cards(tab, "Name?")
	write(tab, "Ann")
	press(tab, "Name?", "OK")
	cards(other, "")
	for _, page := range []*browser.Tab{tab, other} {
		noticed(page, `several: ["b",true,"Ann"]`)
	}

	say(tab, "/editor")
	cards(other, "Text?")
	assert.Equal(t, "a\nb", other.Eval(`document.querySelector("#dock textarea").value`))
	for _, page := range []*browser.Tab{tab, other} {
		page.Load("about:blank#gone")
	}
	other.Load(s.URL + "/")
	cards(other, "Text?")
	press(other, "Text?", "Cancel")
	noticed(other, `editor: null`)

	say(other, "/confirm")
	cards(other, "Sure?")
	address := strings.TrimPrefix(s.URL, "http://")
	assert.Equal(t, 143, s.Stop())
	again := p.Serve("--listen", address)
	other.Until(`document.documentElement.dataset.ready === "true" || (troupe.link.again(), false)`)
	cards(other, "")
	sees(other, "here I am")
	say(other, "/input")
	cards(other, "Name?")
	write(other, "still here")
	press(other, "Name?", "OK")
	noticed(other, `input: "still here"`)
	assert.Equal(t, 143, again.Stop())
}

// TestPageBeforeTheFirstWord checks a session without messages. It has no file and ends with its
// daemon, and the page continues in a new session with the same settings and the typed text.
func TestPageBeforeTheFirstWord(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	s := p.Serve("--listen", "127.0.0.1:0")
	tab := browser.Shared(t).NewTab(t, 1280, 860, "light")
	s.Visit(tab, s.Code)
	begin(tab, "readonly")
	tab.Eval(`(() => { const t = document.getElementById("composer-text"); t.value = "half a thought"; t.dispatchEvent(new Event("input")); })()`)
	handle := tab.Eval(`troupe.view.key`)
	assert.Equal(t, 143, s.Stop())
	again := p.Serve("--listen", strings.TrimPrefix(s.URL, "http://"))
	tab.Until(`document.documentElement.dataset.ready === "true" || (troupe.link.again(), false)`)
	tab.Until(`troupe.view?.loaded && document.getElementById("composer-text").value === "half a thought"`)
	assert.NotEqual(t, handle, tab.Eval(`troupe.view.key`))
	assert.Equal(t, "readonly", tab.Eval(`document.getElementById("mode").value`))
	p.Model.Enqueue(harness.Text("and the other half"))
	tab.Eval(`document.getElementById("composer").requestSubmit()`)
	sees(tab, "and the other half")
	assert.Equal(t, 143, again.Stop())
}

// TestPageAgents checks that the page shows the running subagents of a session and can open, steer
// and stop them. When an opened subagent ends, the page returns to its parent.
func TestPageAgents(t *testing.T) {
	t.Parallel()
	b := browser.Shared(t)
	p := harness.NewPlace(t)
	s := p.Serve("--listen", "127.0.0.1:0", "--tools", "task,bash")
	tab := b.NewTab(t, 1280, 860, "light")
	s.Visit(tab, s.Code)
	begin(tab, "auto")
	parent := tab.Eval(`troupe.view.handle`)
	p.Model.Enqueue(harness.ToolCall("t", "task", `{"agent":"task","tasks":[{"id":"Anna","description":"looks\u202e","assignment":"CHILDA"},{"id":"Bert","description":"waits","assignment":"CHILDB"},{"id":"Carl","description":"waits","assignment":"CHILDC"}]}`), harness.Text("That was all."))
	p.Model.EnqueueFor("CHILDA", harness.Text("A begins ").Then(harness.Gate("a")).Then(harness.Text("and ends")))
	p.Model.EnqueueFor("CHILDA", harness.Text("turned").Then(harness.Gate("turned")))
	p.Model.EnqueueFor("CHILDB", harness.Text("B begins ").Then(harness.Gate("b")))
	p.Model.EnqueueFor("CHILDC", harness.Text("C begins ").Then(harness.Gate("c")))
	say(tab, "go")
	const agents = `[...document.querySelectorAll("#agents .agent")].map((a) => a.textContent).join("|")`
	tab.Until(agents + `.includes("looks‹U+202E›") && ` + agents + `.includes("Bert")`)
	press := func(text string) {
		tab.Eval(fmt.Sprintf(`[...document.querySelectorAll("#agents button, #sheet button")].find((b) => (b.ariaLabel ?? b.textContent).startsWith(%q)).click()`, text))
	}
	tab.Load(s.URL + "/") // there are no further events about them
	tab.Until(agents + `.includes("Anna") && ` + agents + `.includes("Bert")`)
	press("Anna")
	sees(tab, "A begins")
	assert.Contains(t, tab.Eval(agents), "Subagent of")
	tab.Until(`document.getElementById("send").textContent === "Steer"`)
	say(tab, "turn left")
	tab.Until(`document.getElementById("queue").textContent.includes("turn left")`)
	p.Model.OpenGate("a")
	sees(tab, "turned")
	sees(tab, "turn left")
	p.Model.OpenGate("turned")
	tab.Until(`document.getElementById("send").textContent === "Send"`)
	press("the parent session")
	tab.Until(fmt.Sprintf(`troupe.view.handle === %q`, parent))
	tab.Until(agents + `.includes("Bert") && !` + agents + `.includes("Anna")`)
	press("Stop Carl")
	tab.Until(`!` + agents + `.includes("Carl")`)
	press("Bert")
	sees(tab, "B begins")
	tab.Eval(`document.getElementById("stop").click()`)
	tab.Until(`document.getElementById("status").textContent === "Stopped"`)
	press("the parent session")
	sees(tab, "That was all.")
	tab.Until(`troupe.list.open.size === 1`) // opening a subagent does not keep it open
	tab.Until(agents + ` === ""`)
	tab.Eval(`document.getElementById("show-palette").click()`)
	press("Agents")
	tab.Until(`document.getElementById("sheet").innerText.includes("Bert")`)
	assert.Regexp(t, `(?s)Anna.*completed.*Bert.*aborted`, tab.Eval(`document.getElementById("sheet").innerText`))
	press("Anna") // its file is listed like other sessions
	sees(tab, "turn left")
	s.CheckTab(tab)
	assert.Equal(t, 143, s.Stop())
}
