package page

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"troupe/e2e/browser"
	"troupe/e2e/harness"
)

const title, place = `document.getElementById("bar-title").textContent`, `document.getElementById("bar-place").textContent`

// choose takes an entry of a sheet that offers several.
func choose(tab *browser.Tab, name string) {
	tab.Until(fmt.Sprintf(`[...document.querySelectorAll("#sheet .pick")].some((b) => b.textContent.startsWith(%q))`, name))
	tab.Eval(fmt.Sprintf(`[...document.querySelectorAll("#sheet .pick")].find((b) => b.textContent.startsWith(%q)).click()`, name))
}

// write types text into the composer.
func write(tab *browser.Tab, text string) {
	tab.Eval(fmt.Sprintf(`(() => { const t = document.getElementById("composer-text"); t.focus(); t.value = %q; t.dispatchEvent(new Event("input")); })()`, text))
}

// TestPageFront checks what a new browser sees first: a composer that works at once, the directory with
// its branch, the model, and times that are relative. Another directory takes the place of an unused session.
func TestPageFront(t *testing.T) {
	t.Parallel()
	b := browser.Shared(t)
	p := harness.NewPlace(t)
	p.Git("init", "-q", "-b", "feature/page")
	other := filepath.Join(p.Work, "other")
	p.WriteFile(filepath.Join(other, "file"), "")
	at := time.Now().Add(-3*time.Hour - 5*time.Minute)
	stamp := at.UTC().Format("2006-01-02T15:04:05.000Z")
	id := "01a20000-0000-7000-8000-000000000001"
	p.WriteFile(filepath.Join(p.AgentDir(), "sessions", "--old--", "2026-01-01T00-00-00-000Z_"+id+".jsonl"), fmt.Sprintf(
		`{"type":"session","version":3,"id":%q,"timestamp":%q,"cwd":%q}`+"\n"+`{"type":"message","id":"00000001","parentId":null,"timestamp":%[2]q,"message":{"role":"user","content":"of before","timestamp":%[4]d}}`+"\n",
		id, stamp, p.Work, at.UnixMilli()))
	s := p.Serve("--listen", "127.0.0.1:0")
	tab := b.NewTab(t, 1280, 860, "light")
	s.Visit(tab, s.Code)
	tab.Until(`document.activeElement.id === "composer-text"`)
	tab.Until(fmt.Sprintf(`document.querySelector("#empty code")?.textContent === %q && %s.endsWith("· feature/page")`, p.Work, place))
	assert.Equal(t, "mock-1", tab.Eval(`document.getElementById("model").textContent`))
	assert.Nil(t, tab.Eval(`document.getElementById("no-key")`), "there is a key")
	tab.Until(`[...document.querySelectorAll("#list-body .session")].some((n) => n.textContent.includes("of before") && n.textContent.includes("3 h ago"))`)

	tab.Load(s.URL + "/") // the page remembers which session it has opened by itself
	tab.Until(`document.querySelector("#empty button") !== null`)
	write(tab, "half a thought")
	first := tab.Eval(`troupe.view.key`)
	tab.Eval(`document.querySelector("#empty button").click()`)
	tab.Eval(fmt.Sprintf(`document.querySelector("#sheet input[name=cwd]").value = %q`, other))
	tab.Eval(`document.querySelector("#sheet form").requestSubmit()`)
	tab.Until(fmt.Sprintf(`troupe.view?.key !== %q && document.querySelector("#empty code")?.textContent === %q`, first, other))
	assert.Equal(t, "half a thought", tab.Eval(`document.getElementById("composer-text").value`), "a draft moves along")
	tab.Until(`troupe.list.open.size === 1`) // the session that was not used is closed
	tab.Until(place + `.endsWith("work/other · feature/page")`)

	p.Model.Enqueue(harness.Text("and an answer"))
	say(tab, "a whole one")
	sees(tab, "and an answer")
	tab.Until(`document.querySelector("#empty").textContent === "" && document.querySelector("#conversation .user .when").textContent === "now"`)
	again := b.NewTab(t, 1280, 860, "light")
	again.Load(s.URL + "/")
	sees(again, "and an answer")
	assert.Equal(t, float64(1), again.Eval(`troupe.list.open.size`), "where a session is open, none is added")
	s.CheckTab(tab)
	assert.Equal(t, 143, s.Stop())
}

// TestPageWithoutKey checks that the page says where a key comes from before a message fails for it.
func TestPageWithoutKey(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	s := p.Serve("--listen", "127.0.0.1:0", "--model", "anthropic/claude-sonnet-4-5")
	tab := browser.Shared(t).NewTab(t, 390, 844, "dark")
	s.Visit(tab, s.Code)
	tab.Until(`document.getElementById("no-key")?.textContent.includes("ANTHROPIC_API_KEY")`)
	assert.Contains(t, tab.Eval(`document.getElementById("no-key").textContent`), "run troupe login on the machine")
	assert.LessOrEqual(t, tab.Eval(`document.getElementById("empty").scrollWidth - document.getElementById("empty").clientWidth`), float64(0), "a long path is not cut off")
	tab.Screenshot("no-key")
	say(tab, "/login")
	tab.Until(`document.querySelectorAll("#sheet [data-provider]").length > 0`)
	assert.Contains(t, tab.Eval(`document.getElementById("sheet").textContent`), "--allow-login")
	assert.Equal(t, float64(0), tab.Eval(`document.querySelectorAll("#sheet [data-provider] button").length`), "nothing is offered that would be refused")
	tab.Eval(`document.getElementById("sheet").close()`)
	permitted := harness.NewPlace(t).Serve("--listen", "127.0.0.1:0", "--allow-login", "--model", "anthropic/claude-sonnet-4-5")
	other := browser.Shared(t).NewTab(t, 1280, 860, "light")
	permitted.Visit(other, permitted.Code)
	other.Until(`document.querySelector("#no-key button") !== null`)
	other.Eval(`document.querySelector("#no-key button").click()`)
	other.Until(`document.querySelectorAll("#sheet [data-provider] button").length > 0`)
	permitted.CheckTab(other)
	assert.Equal(t, 143, permitted.Stop())
	assert.LessOrEqual(t, tab.Eval(`document.documentElement.scrollWidth`), float64(390))
	s.CheckTab(tab)
	assert.Equal(t, 143, s.Stop())
}

// prominent counts the visible buttons that look like the one to press.
const prominent = `(() => {
	const probe = document.body.appendChild(document.createElement("i"));
	probe.style.color = "var(--accent)";
	const accent = getComputedStyle(probe).color;
	probe.remove();
	return [...document.querySelectorAll("button")].filter((b) => b.checkVisibility() && getComputedStyle(b).backgroundColor === accent).length;
})()`

// rows counts the rows in which the composer stands.
const rows = `(() => {
	const boxes = [...document.querySelectorAll("#composer :is(textarea, button, select, .attach)")].filter((n) => n.checkVisibility() && n.getBoundingClientRect().width > 1).map((n) => n.getBoundingClientRect());
	const ends = [];
	for (const box of boxes.sort((a, b) => a.top - b.top)) if (ends.length === 0 || box.top >= ends.at(-1)) ends.push(box.bottom);
	return ends.length;
})()`

// TestPageAsks checks an approval on a phone: the question in words, ten lines of its diff, one prominent
// button, and a reason for no. What was denied is not shown as failed. The composer takes two rows.
func TestPageAsks(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	s := p.Serve("--listen", "127.0.0.1:0")
	tab := browser.Shared(t).NewTab(t, 390, 664, "light") // a phone with the bars of its browser
	s.Visit(tab, s.Code)
	tab.Until(`document.querySelector("#empty button") !== null`)
	assert.Equal(t, float64(2), tab.Eval(rows))
	assert.Equal(t, float64(1), tab.Eval(prominent))
	p.Model.Enqueue(
		harness.ToolCall("c1", "write", `{"path":"hello.txt","content":"`+strings.Repeat(`a line\n`, 40)+`"}`), harness.ToolCall("c2", "bash", `{"command":"touch made; exit 3"}`),
		harness.Text("Then not."))
	say(tab, "greet")
	tab.Until(`document.querySelector("#dock .card .diff") !== null`)
	tab.Screenshot("asks")
	assert.Equal(t, "Allow write to hello.txt?", tab.Eval(`document.querySelector("#dock h2").textContent`))
	assert.Equal(t, "write", tab.Eval(`document.querySelector("#dock h2 strong").textContent`))
	assert.Equal(t, "Permission mode: Ask", tab.Eval(`document.querySelector("#dock .why").textContent`))
	assert.GreaterOrEqual(t, tab.Eval(`(() => {
		const seen = document.querySelector("#dock .preview").getBoundingClientRect();
		return [...document.querySelectorAll("#dock .line.added")].filter((l) => { const r = l.getBoundingClientRect(); return r.top >= seen.top && r.bottom <= Math.min(seen.bottom, innerHeight); }).length;
	})()`), float64(10))
	assert.Equal(t, float64(1), tab.Eval(prominent))
	assert.Equal(t, float64(2), tab.Eval(rows))
	assert.LessOrEqual(t, tab.Eval(`document.documentElement.scrollHeight`), float64(664))
	lying := browser.Shared(t).NewTab(t, 844, 390, "dark")
	lying.Load(s.URL + "/")
	lying.Until(`document.querySelector("#dock .card .primary")?.getBoundingClientRect().bottom <= innerHeight`)
	tab.Eval(`document.querySelector("#dock input").value = "French, please"`)
	tab.Until(`([...document.querySelectorAll("#dock button")].find((b) => b.textContent === "Deny")?.click(), document.querySelector("#dock h2")?.textContent !== "Allow write to hello.txt?")`)
	tab.Until(`document.querySelector("#dock h2")?.textContent === "Allow bash to run this command?"`)
	tab.Until(`(document.querySelector("#dock .primary")?.click(), document.querySelector("#dock .card") === null)`)
	sees(tab, "Then not.")
	const states = `[...document.querySelectorAll("#conversation .tool .status")].map((n) => n.getAttribute("aria-label")).join()`
	assert.Equal(t, "Denied,Failed", tab.Eval(states))
	tab.Load(s.URL + "/")
	sees(tab, "Then not.")
	assert.Equal(t, "Denied,Failed", tab.Eval(states))
	assert.Contains(t, p.Model.Request(1).Body, "French, please")
	s.CheckTab(tab)
	assert.Equal(t, 143, s.Stop())
}

// TestPageCommands checks the commands that a slash offers, the page's own beside those of prompts and
// extensions, and that an extension's command has precedence.
func TestPageCommands(t *testing.T) {
	t.Parallel()
	b := browser.Shared(t)
	p := harness.NewPlace(t)
	p.WriteFile(p.AgentDir()+"/prompts/greet.md", "---\ndescription: greets\n---\nhello there")
	p.WriteFile(p.AgentDir()+"/prompts/agents.md", "---\ndescription: my own\n---\nwhich agents are there?")
	s := p.Serve("--listen", "127.0.0.1:0")
	tab := b.NewTab(t, 1280, 860, "light")
	s.Visit(tab, s.Code)
	tab.Until(`document.querySelector("#empty button") !== null`)
	offered := func(text, want string) {
		t.Helper()
		write(tab, text)
		tab.Until(fmt.Sprintf(`!document.getElementById("completions").hidden && [...document.querySelectorAll("#completions strong")].map((n) => n.textContent).join() === %q`, want))
	}
	write(tab, "/")
	tab.Until(`["/model", "/compact", "/new", "/fork", "/export", "/help", "/greet"].every((c) => [...document.querySelectorAll("#completions strong")].some((n) => n.textContent === c))`)
	offered("/mod", "/model")
	tab.Press("Enter")
	const sheet = `document.getElementById("sheet-title")?.textContent`
	tab.Until(sheet + ` === "Model"`)
	choose(tab, "Provider credentials")
	tab.Until(sheet + ` === "Credentials"`)
	assert.Equal(t, "", tab.Eval(`document.getElementById("composer-text").value`))
	tab.Eval(`document.getElementById("sheet").close()`)
	for command, shows := range map[string]string{"/help": "Keys", "/new": "New session", "/session": "Session", "/tree": "Branches", "/find": "Find", "/changes": "Changed files"} {
		say(tab, command)
		tab.Until(fmt.Sprintf(sheet+` === %q`, shows))
		tab.Eval(`document.getElementById("sheet").close()`)
	}
	say(tab, "/name Of two words")
	tab.Until(title + ` === "Of two words"`)
	p.Model.Enqueue(harness.Text("those"), harness.Text("these"))
	say(tab, "/agents")
	sees(tab, "those")
	assert.Contains(t, p.Model.Request(0).Body, "which agents are there?", "a prompt has precedence")
	tab.Until(`document.getElementById("status").textContent === "Done"`)
	say(tab, "/fork")
	choose(tab, "which agents")
	tab.Until(`document.getElementById("composer-text").value.includes("which agents are there?")`)
	tab.Until(`document.querySelectorAll("#conversation article").length === 0`)
	assert.Equal(t, 1, p.Model.RequestCount())
	s.CheckTab(tab)
	assert.Equal(t, 143, s.Stop())
}

// paste puts a picture into the composer.
const paste = `(() => {
	const data = new DataTransfer();
	data.items.add(new File([Uint8Array.from(atob("` + harness.Pixel + `"), (c) => c.charCodeAt(0))], "dot.png", { type: "image/png" }));
	document.getElementById("composer-text").dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
})()`

// TestPageEdits checks that a message can be edited and sent again: the conversation continues from before
// it. Cancelling gives the draft back.
func TestPageEdits(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	s := p.Serve("--listen", "127.0.0.1:0")
	tab := browser.Shared(t).NewTab(t, 1280, 860, "light")
	s.Visit(tab, s.Code)
	tab.Until(`document.querySelector("#empty button") !== null`)
	p.Model.Enqueue(harness.Text("one"), harness.Text("two"), harness.Text("three"))
	say(tab, "first")
	sees(tab, "one")
	tab.Until(`document.getElementById("status").textContent === "Done"`)
	tab.Eval(paste)
	tab.Until(`document.querySelector("#composer img") !== null`)
	say(tab, "secnod")
	sees(tab, "two")
	tab.Until(`document.getElementById("status").textContent === "Done"`)
	edit := func() {
		tab.Eval(`[...document.querySelectorAll("#conversation .user [aria-label='Edit and send again']")].at(-1).click()`)
		tab.Until(`document.getElementById("composer-text").value === "secnod" && document.getElementById("queue").textContent.includes("from before this message")`)
	}
	write(tab, "a draft")
	edit()
	tab.Eval(`[...document.querySelectorAll("#queue button")].find((b) => b.textContent === "Cancel").click()`)
	assert.Equal(t, "a draft", tab.Eval(`document.getElementById("composer-text").value`))
	assert.Equal(t, "", tab.Eval(`document.getElementById("queue").textContent`))
	assert.Equal(t, float64(0), tab.Eval(`document.querySelectorAll("#pictures img").length`))
	tab.Load(s.URL + "/") // pictures are fetched by their addresses from here on
	sees(tab, "two")
	edit()
	assert.Equal(t, float64(1), tab.Eval(`document.querySelectorAll("#pictures img").length`))
	say(tab, "second")
	sees(tab, "three")
	tab.Until(`document.getElementById("status").textContent === "Done"`)
	tab.Until(`[...document.querySelectorAll("#conversation .user .body")].map((n) => n.textContent.trim()).join() === "first,second"`)
	last := p.Model.Request(2).Body
	assert.NotContains(t, last, "secnod")
	assert.Contains(t, last, harness.Pixel, "the picture of the message")
	assert.Contains(t, last, "one")
	s.CheckTab(tab)
	assert.Equal(t, 143, s.Stop())
}

// catchDownload keeps the text and the name of the next file that the page downloads.
const catchDownload = `(() => {
	const make = URL.createObjectURL;
	URL.createObjectURL = (blob) => { if (blob.type === "text/html") blob.text().then((text) => { window.downloaded = text; }); return make.call(URL, blob); };
	addEventListener("click", (e) => { if (e.target.download) { window.named = e.target.download; e.preventDefault(); } });
})()`

// TestPageChanges checks the list of changed files with their diffs, and that the session downloads as the
// page that an export shows.
func TestPageChanges(t *testing.T) {
	t.Parallel()
	b := browser.Shared(t)
	p := harness.NewPlace(t)
	s := p.Serve("--listen", "127.0.0.1:0")
	tab := b.NewTab(t, 1280, 860, "light")
	s.Visit(tab, s.Code)
	begin(tab, "auto")
	p.Model.Enqueue(
		harness.ToolCall("c1", "write", `{"path":"made.txt","content":"one\ntwo\n"}`), harness.ToolCall("c2", "edit", `{"path":"made.txt","oldText":"one","newText":"three"}`),
		harness.ToolCall("c3", "edit", `{"path":"made.txt","oldText":"absent","newText":"x"}`), harness.ToolCall("c4", "write", `{"path":"sub/b.txt","content":"</script><b>b</b>\u2028\n"}`),
		harness.Text("All </script> made."))
	tab.Eval(paste)
	tab.Until(`document.querySelector("#composer img") !== null`)
	say(tab, "make it")
	sees(tab, "All")
	tab.Until(`document.getElementById("status").textContent === "Done"`)
	tab.Eval(`document.getElementById("show-changes").click()`)
	tab.Until(`document.querySelectorAll("#sheet .file").length === 2`)
	tab.Eval(`document.querySelectorAll("#sheet .file").forEach((f) => { f.open = true; })`)
	tab.Until(`document.querySelectorAll("#sheet .file .diff").length === 2`)
	assert.Equal(t, "made.txt+3 −1|sub/b.txt+1 −0", tab.Eval(`[...document.querySelectorAll("#sheet .file summary")].map((n) => n.textContent).join("|")`))
	assert.Equal(t, "one|two|…|three", tab.Eval(`[...document.querySelectorAll("#sheet .file")[0].querySelectorAll(".line:is(.added, .gap) .text")].map((n) => n.textContent.trim()).join("|")`))
	tab.Eval(`document.getElementById("sheet").close()`)

	tab.Eval(catchDownload)
	say(tab, "/export")
	tab.Until(`window.downloaded !== undefined && window.named !== undefined`)
	assert.Regexp(t, `^session-[0-9a-f]{8}\.html$`, tab.Eval(`window.named`))
	out := filepath.Join(p.Root, "downloaded.html")
	p.WriteFile(out, tab.Eval(`window.downloaded`).(string))
	saved := b.NewTab(t, 1280, 860, "light")
	saved.Open("file://" + out)
	saved.Until(`document.querySelector("article.entry > .body") !== null`)
	assert.Equal(t, exported(s, b, tab.Eval(`troupe.view.state.sessionFile`).(string)), saved.Eval(words))
	saved.Until(`document.querySelector("figure img")?.naturalWidth === 1`) // a picture is in the file
	s.CheckTab(tab)
	assert.Equal(t, 143, s.Stop())
}

// TestPageToasts checks that a page reports on sessions that it does not show, and leads there.
func TestPageToasts(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	s := p.Serve("--listen", "127.0.0.1:0")
	tab := browser.Shared(t).NewTab(t, 1280, 860, "light")
	s.Visit(tab, s.Code)
	tab.Until(`document.querySelector("#empty button") !== null`)
	p.Model.Enqueue(harness.Text("slowly ").Then(harness.Gate("slow")).Then(harness.Text("done")))
	say(tab, "the long one")
	sees(tab, "slowly")
	tab.Eval(`document.getElementById("new-session").click()`)
	tab.Eval(`document.querySelector("#sheet form").requestSubmit()`)
	tab.Until(`document.querySelector("#empty button") !== null`)
	p.Model.OpenGate("slow")
	const toasts = `[...document.querySelectorAll("#toasts .toast")].map((n) => n.querySelector("span").textContent).join("|")`
	tab.Until(toasts + ` === "A run is done the long one"`)
	tab.Eval(`[...document.querySelectorAll("#toasts button")].find((b) => b.textContent === "Show").click()`)
	sees(tab, "slowly done")
	assert.Equal(t, "", tab.Eval(toasts))

	owner, _ := s.Dial(s.Token(), "troupe.v1") // a session that this page has never shown
	owner.Send(`{"id":"hello","type":"hello","features":["approvals"],"ui":["approval"]}`)
	owner.Send(`{"id":"open","type":"open_session","permissionMode":"ask"}`)
	handle := owner.WaitFor("open").Get("data.sessionId").Str
	p.Model.Enqueue(harness.ToolCall("c1", "write", `{"path":"made.txt","content":"made\n"}`), harness.Text("All of it."))
	owner.Send(`{"id":"p","type":"prompt","message":"elsewhere","sessionId":"` + handle + `"}`)
	tab.Until(toasts + ` === "Waiting for you elsewhere"`)
	tab.Eval(`document.querySelector("#toasts [aria-label=Dismiss]").click()`)
	assert.Equal(t, "", tab.Eval(toasts))

	tab.Eval(`(() => { // a hidden page notifies through the browser
		window.notified = [];
		window.Notification = class { static permission = "granted"; constructor(text, { body }) { window.notified.push(text + ": " + body); } };
		Object.defineProperty(document, "visibilityState", { get: () => "hidden" });
	})()`)
	approval := owner.WaitFor("approval_request")
	owner.Send(`{"id":"yes","type":"approval_response","sessionId":"` + handle + `","approvalId":"` + approval.Get("id").Str + `","optionId":"once"}`)
	tab.Until(`window.notified.join() === "A run is done: elsewhere"`)
	assert.Equal(t, "", tab.Eval(toasts))
	s.CheckTab(tab)
	assert.Equal(t, 143, s.Stop())
}
