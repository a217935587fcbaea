package page

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/e2e/browser"
	"troupe/e2e/harness"
)

// TestPageKeyboard checks that the page can be used with the keyboard only, on a narrow dark
// screen: a session, a message, an approval and the answer. The focus must be visible.
func TestPageKeyboard(t *testing.T) {
	t.Parallel()
	b := browser.Shared(t)
	p := harness.NewPlace(t)
	s := p.Serve("--listen", "127.0.0.1:0")
	tab := b.NewTab(t, 320, 640, "dark")
	s.Visit(tab, s.Code)
	tab.Until(`document.querySelector("#empty button") !== null`)
	focus := func(selector string) {
		t.Helper()
		for range 60 {
			if tab.Eval(fmt.Sprintf(`document.activeElement.matches(%q)`, selector)) == true {
				assert.NotEqual(t, "none 0px", tab.Eval(`(() => { const s = getComputedStyle(document.activeElement); return s.outlineStyle + " " + (s.boxShadow === "none" ? s.outlineWidth : ""); })()`), "%s: the focus is seen", selector)
				return
			}
			tab.Press("Tab")
		}
		require.Fail(t, "no key leads to "+selector)
	}
	write := func(text string) {
		for _, key := range strings.Split(text, "") {
			tab.Press(key)
		}
	}
	focus("#empty button")
	tab.Press("Enter")
	tab.Until(`document.getElementById("sheet").open`)
	focus("#sheet select")
	write("ask")
	focus(`#sheet button[type="submit"], #sheet form button:not([type])`)
	tab.Press("Enter")
	tab.Until(`!document.getElementById("sheet").open && !document.getElementById("composer").hidden`)
	p.Model.Enqueue(harness.ToolCall("c1", "write", `{"path":"made.txt","content":"`+strings.Repeat("long ", 60)+`"}`), harness.Text("All done."))
	focus("#composer-text")
	write("make it")
	tab.Press("Enter")
	tab.Until(`document.querySelector("#dock .card .diff") !== null`)
	assert.NoFileExists(t, filepath.Join(p.Work, "made.txt"))
	assert.LessOrEqual(t, tab.Eval(`document.documentElement.scrollWidth`), float64(320))
	const below = `document.querySelector("#dock .card .primary").getBoundingClientRect().bottom - document.getElementById("dock").getBoundingClientRect().bottom`
	assert.LessOrEqual(t, tab.Eval(below), float64(0), "the answer is in view, however long what is asked about")
	focus("#dock .card .primary")
	for tab.Eval(`document.querySelector("#dock .card") === null`) != true { // a new card ignores keys for a moment
		tab.Press("Enter")
	}
	sees(tab, "All done.")
	assert.FileExists(t, filepath.Join(p.Work, "made.txt"))
	assert.LessOrEqual(t, tab.Eval(`document.documentElement.scrollWidth`), float64(320))

	p.Model.Enqueue(harness.Text("it ").Then(harness.Gate("escaped")).Then(harness.Text("goes on")))
	say(tab, "once more")
	sees(tab, "it ")
	tab.Press("Escape")
	tab.Until(`document.getElementById("status").textContent === "Esc again stops the run"`)
	tab.Eval(`(troupe.escaped -= 900, Date.now = () => 0, null)`) // simulates that this was long ago and the clock was changed
	tab.Press("Escape")
	p.Model.OpenGate("escaped")
	sees(tab, "it goes on")
	s.CheckTab(tab)

	for _, size := range [][2]int{{640, 360}, {320, 256}} { // 200 % of 1280 × 720, 400 % of 1280 × 1024
		zoomed := b.NewTab(t, size[0], size[1], "light")
		zoomed.Load(s.URL + "/")
		sees(zoomed, "it goes on")
		assert.LessOrEqual(t, zoomed.Eval(`document.documentElement.scrollHeight`), float64(size[1]), "nothing is where nobody can scroll to")
		assert.LessOrEqual(t, zoomed.Eval(`document.documentElement.scrollWidth`), float64(size[0]))
		zoomed.Screenshot(fmt.Sprint("zoomed-", size[0]))
		assert.Equal(t, true, zoomed.Eval(`(() => {
			const main = document.querySelector("main");
			main.scrollTop = main.scrollHeight;
			return main.scrollTop === 0 || document.getElementById("status").getBoundingClientRect().bottom <= innerHeight;
		})()`))
	}
}

// TestPageHostile checks that markup and scripts in messages and tool results are shown as text,
// while they stream and after a reload.
func TestPageHostile(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	beacon := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(beacon.Close)
	raw, err := os.ReadFile("../../store/export/testdata/hostile.txt")
	require.NoError(t, err)
	var lines []string
	for line := range strings.Lines(strings.ReplaceAll(string(raw), "BEACON", beacon.URL)) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	all := strings.Join(lines, "\n\n")
	b := browser.Shared(t)
	p := harness.NewPlace(t)
	p.WriteFile("hostile.txt", all)
	s := p.Serve("--listen", "127.0.0.1:0")
	tab := b.NewTab(t, 1280, 860, "light")
	s.Visit(tab, s.Code)
	begin(tab, "auto")
	p.Model.Enqueue(harness.ToolCall("c1", "bash", `{"command":"cat hostile.txt"}`), harness.ToolCall("c2", "read", `{"path":"hostile.txt"}`), harness.Text(all+"\n\nthe end"))
	say(tab, all)
	sees(tab, "the end")
	tab.Until(`document.getElementById("send").textContent === "Send"`)
	const safe = `window.pwned === undefined && document.querySelectorAll("#conversation :is(script, iframe, object, embed, base, form, svg image, [href^='javascript:' i], [onerror], [onload])").length === 0`
	assert.Equal(t, true, tab.Eval(safe))
	for _, line := range lines {
		p.Model.Enqueue(harness.Text(line + "\n\nheard"))
		before := tab.Eval(shown + `.split("heard").length`)
		say(tab, "more")
		tab.Until(fmt.Sprintf(shown+`.split("heard").length > %v`, before))
		tab.Until(`document.getElementById("send").textContent === "Send"`)
		require.Equal(t, true, tab.Eval(safe), line)
	}
	tab.Load(s.URL + "/")
	sees(tab, "the end")
	tab.Eval(`document.querySelectorAll("#conversation details").forEach((d) => { d.open = true; })`)
	assert.Equal(t, true, tab.Eval(safe))
	assert.Zero(t, asked.Load(), "nobody else is asked for anything")
	s.CheckTab(tab)
}

// TestPageFindsItsWay checks navigation: a wrong pairing code, every sheet of the command list, the
// address of the session after a fork, a reload and a step back, scrolling to the end, and a
// session closed by another client.
func TestPageFindsItsWay(t *testing.T) {
	t.Parallel()
	b := browser.Shared(t)
	p := harness.NewPlace(t)
	p.WriteFile(p.AgentDir()+"/prompts/greet.md", "---\ndescription: greets\n---\nhello there")
	s := p.Serve("--listen", "127.0.0.1:0", "--budget", "tokens=100k")
	stranger := b.NewTab(t, 1280, 500, "light")
	const sheet, status = `document.getElementById("sheet").innerText`, `document.getElementById("status").textContent`

	stranger.Load(s.URL + "/#c=wrong")
	stranger.Until(sheet + `.includes("That code does not work")`)
	const closed = `document.querySelector("#sheet header button").click()`
	stranger.Eval(closed)
	stranger.Until(sheet + `.includes("Paste the code")`)
	stranger.Eval(fmt.Sprintf(`(() => { document.querySelector("#sheet input").value = %q; document.querySelector("#sheet form").requestSubmit(); })()`, s.URL+"/#c="+s.Code))
	const ready = `document.documentElement.dataset.ready === "true"`
	stranger.Until(`!document.getElementById("sheet").open && ` + ready)
	tab := b.NewTab(t, 1280, 500, "light")
	tab.Load(s.URL + "/")
	tab.Until(ready)
	begin(tab, "auto")

	choose := func(name string) {
		tab.Eval(`document.getElementById("show-palette").click()`)
		tab.Eval(fmt.Sprintf(`[...document.querySelectorAll("#sheet .pick")].find((b) => b.textContent.startsWith(%q)).click()`, name))
	}
	for command, shows := range map[string]string{"New session": "Directory", "Name this session": "Save", "Keys": "steer a run", "Find": "Find", "Model": "Model"} {
		choose(command)
		tab.Until(fmt.Sprintf(sheet+`.includes(%q)`, shows))
		tab.Eval(`new Promise((done) => setTimeout(() => requestAnimationFrame(done)))`) // by then the sheet's event has arrived
		assert.Contains(t, tab.Eval(sheet), shows, command)
		tab.Eval(closed)
	}

	settled := func(says string) { tab.Until(fmt.Sprintf(status+` === %q`, says)) }
	p.Model.Enqueue(harness.Text("one\n\n" + strings.Repeat("* long\n", 100)))
	tab.Eval(`(() => { const t = document.getElementById("composer-text"); t.focus(); t.value = "/greet"; t.dispatchEvent(new Event("input")); })()`)
	tab.Until(`document.getElementById(document.activeElement.getAttribute("aria-activedescendant"))?.textContent.includes("greets")`)
	tab.Press("Enter") // the name is complete, so Enter runs it
	sees(tab, "hello there")
	settled("Done")
	assert.Contains(t, tab.Eval(`document.getElementById("budget").textContent`), "of 100k tokens")
	const end = `(() => { const s = document.getElementById("scroll"); return s.scrollHeight - s.scrollTop - s.clientHeight < 2; })()`
	tab.Until(end)
	tab.Eval(`document.getElementById("scroll").scrollTop = 0`)
	tab.Until(`!document.getElementById("to-end").hidden`)
	p.Model.Enqueue(harness.Text("two ").Then(harness.Gate("going on")).Then(harness.Text("three")))
	say(tab, "more")
	sees(tab, "two")
	tab.Until(end)
	tab.Load(s.URL + "/")
	settled("Answering") // also shown to a page that joins later
	p.Model.OpenGate("going on")
	settled("Done")

	first := tab.Eval(`location.hash`)
	choose("Branches")
	tab.Until(`document.querySelector("#tree a") !== null`)
	tab.Eval(`[...document.querySelectorAll("#tree a")].find((a) => a.textContent.includes("more")).click()`)
	tab.Eval(`[...document.querySelectorAll("#sheet button")].find((b) => b.textContent === "Fork before this").click()`)
	tab.Until(fmt.Sprintf(`location.hash !== %q && document.getElementById("composer-text").value === "more"`, first))
	tab.Until(`document.querySelectorAll("#list-body .session").length === 3`) // one is that which the other tab shows
	forked := tab.Eval(`location.hash`)
	tab.Load(s.URL + "/")
	tab.Until(ready + ` && document.querySelectorAll("#conversation article").length === 2`)
	assert.Equal(t, forked, tab.Eval(`location.hash`))
	assert.Equal(t, "more", tab.Eval(`document.getElementById("composer-text").value`), "a draft is its session's")
	tab.Eval(fmt.Sprintf(`document.querySelector("#list-body a[href='%s']").click()`, first))
	sees(tab, "two three")
	tab.Eval(`history.back()`)
	tab.Until(fmt.Sprintf(`location.hash === %q && document.querySelectorAll("#conversation article").length === 2`, forked))

	other := b.NewTab(t, 1280, 860, "light")
	other.Load(s.URL + "/")
	other.Until(ready + ` && troupe.view !== null`)
	assert.Equal(t, true, tab.Eval(`troupe.gone(troupe.view.handle).then(() => troupe.view !== null)`), "it has ended on one node, and goes on on another")
	choose("Close this session")
	for _, one := range []*browser.Tab{tab, other} {
		one.Until(status + ` === "The session was closed." && document.getElementById("composer").hidden`)
		assert.Equal(t, true, one.Eval(`document.getElementById("status").checkVisibility() && document.querySelector("#empty button") !== null`))
		s.CheckTab(one)
	}
	assert.Equal(t, 143, s.Stop())
}

// TestPageEarlier checks that earlier messages are inserted before the current ones, also while an
// answer streams. A tool result is then attached to its call.
func TestPageEarlier(t *testing.T) {
	t.Parallel()
	b := browser.Shared(t)
	p := harness.NewPlace(t)
	const id, rounds = "01a20000-0000-7000-8000-000000000001", 131
	var file strings.Builder
	fmt.Fprintf(&file, `{"type":"session","version":3,"id":%q,"timestamp":"2026-01-01T00:00:00.000Z","cwd":%q}`+"\n", id, p.Work)
	parent, n := "null", 0
	add := func(format string, arguments ...any) {
		n++
		fmt.Fprintf(&file, `{"type":"message","id":"%08x","parentId":%s,"timestamp":"2026-01-01T00:00:00.000Z","message":{%s,"timestamp":%d}}`+"\n", n, parent, fmt.Sprintf(format, arguments...), 1767225600000+n)
		parent = fmt.Sprintf(`"%08x"`, n)
	}
	for i := range rounds {
		add(`"role":"user","content":"question %d"`, i)
		add(`"role":"assistant","content":[{"type":"toolCall","id":"c%d","name":"bash","arguments":{"command":"echo %d"}}],"stopReason":"toolUse"`, i, i)
		add(`"role":"toolResult","toolCallId":"c%d","toolName":"bash","content":[{"type":"text","text":"%d"}],"isError":false`, i, i)
	}
	p.WriteFile(filepath.Join(p.AgentDir(), "sessions", "--old--", "2026-01-01T00-00-00-000Z_"+id+".jsonl"), file.String())
	s := p.Serve("--listen", "127.0.0.1:0")
	tab := b.NewTab(t, 1280, 860, "light")
	s.Visit(tab, s.Code)
	tab.Until(`(document.querySelector("#list-body a:not(.open)")?.click(), ` + shown + `.includes("question 130"))`)
	const alone = `[...document.querySelectorAll("#conversation .who")].filter((n) => n.textContent === "Tool").length`
	assert.Equal(t, float64(1), tab.Eval(alone), "the first of 200 is a result")
	p.Model.Enqueue(harness.Text("said before, ").Then(harness.Gate("earlier")).Then(harness.Text("said behind")))
	say(tab, "go on")
	sees(tab, "said before,")
	tab.Eval(`document.getElementById("earlier").click()`)
	sees(tab, "question 0")
	p.Model.OpenGate("earlier")
	sees(tab, "said before, said behind")
	const questions = `[...document.querySelectorAll("#conversation .user .body")].map((n) => n.textContent.trim()).join("|")`
	var want []string
	for i := range rounds {
		want = append(want, fmt.Sprintf("question %d", i))
	}
	assert.Equal(t, strings.Join(append(want, "go on"), "|"), tab.Eval(questions))
	assert.Equal(t, float64(0), tab.Eval(alone))
	assert.Equal(t, float64(rounds), tab.Eval(`document.querySelectorAll("#conversation details.tool.done").length`))
	s.CheckTab(tab)
	assert.Equal(t, 143, s.Stop())
}
