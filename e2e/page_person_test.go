package e2e

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
)

// TestPageKeyboard: a session, a message, an approval and the answer by keys alone, on a
// narrow dark screen. What has the focus can be seen.
func TestPageKeyboard(t *testing.T) {
	t.Parallel()
	b := browser.Start(t)
	p := newPlace(t)
	s := p.serve("--listen", "127.0.0.1:0")
	tab := b.NewTab(t, 320, 640, "dark")
	s.visit(tab, s.code)
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
	p.llm.plays(tool("c1", "write", `{"path":"made.txt","content":"`+strings.Repeat("long ", 60)+`"}`), text("All done."))
	focus("#composer-text")
	write("make it")
	tab.Press("Enter")
	tab.Until(`document.querySelector("#dock .card .diff") !== null`)
	assert.NoFileExists(t, filepath.Join(p.work, "made.txt"))
	assert.LessOrEqual(t, tab.Eval(`document.documentElement.scrollWidth`), float64(320))
	const below = `document.querySelector("#dock .card .primary").getBoundingClientRect().bottom - document.getElementById("dock").getBoundingClientRect().bottom`
	assert.LessOrEqual(t, tab.Eval(below), float64(0), "the answer is in view, however long what is asked about")
	focus("#dock .card .primary")
	for tab.Eval(`document.querySelector("#dock .card") === null`) != true { // a card takes no key in the moment in which it appears
		tab.Press("Enter")
	}
	sees(tab, "All done.")
	assert.FileExists(t, filepath.Join(p.work, "made.txt"))
	assert.LessOrEqual(t, tab.Eval(`document.documentElement.scrollWidth`), float64(320))
	s.calm(tab)
}

// TestPageHostile: what would act if it were taken for more than text does nothing on the
// page, whether a model says it or a tool, while it comes and behind a reload.
func TestPageHostile(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	beacon := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(beacon.Close)
	raw, err := os.ReadFile("../store/export/testdata/hostile.txt")
	require.NoError(t, err)
	var lines []string
	for line := range strings.Lines(strings.ReplaceAll(string(raw), "BEACON", beacon.URL)) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	all := strings.Join(lines, "\n\n")
	b := browser.Start(t)
	p := newPlace(t)
	p.write("hostile.txt", all)
	s := p.serve("--listen", "127.0.0.1:0")
	tab := b.NewTab(t, 1280, 860, "light")
	s.visit(tab, s.code)
	begin(tab, "auto")
	p.llm.plays(tool("c1", "bash", `{"command":"cat hostile.txt"}`), tool("c2", "read", `{"path":"hostile.txt"}`), text(all+"\n\nthe end"))
	say(tab, all)
	sees(tab, "the end")
	tab.Until(`document.getElementById("send").textContent === "Send"`)
	const safe = `window.pwned === undefined && document.querySelectorAll("#conversation :is(script, iframe, object, embed, base, form, svg image, [href^='javascript:' i], [onerror], [onload])").length === 0`
	assert.Equal(t, true, tab.Eval(safe))
	for _, line := range lines {
		p.llm.plays(text(line + "\n\nheard"))
		before := tab.Eval(shown + `.split("heard").length`)
		say(tab, "more")
		tab.Until(fmt.Sprintf(shown+`.split("heard").length > %v`, before))
		tab.Until(`document.getElementById("send").textContent === "Send"`)
		require.Equal(t, true, tab.Eval(safe), line)
	}
	tab.Load(s.base + "/")
	sees(tab, "the end")
	tab.Eval(`document.querySelectorAll("#conversation details").forEach((d) => { d.open = true; })`)
	assert.Equal(t, true, tab.Eval(safe))
	assert.Zero(t, asked.Load(), "nobody else is asked for anything")
	s.calm(tab)
}
