package page

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/e2e/browser"
	"troupe/e2e/harness"
)

// axe returns the JavaScript of axe-core, which finds accessibility problems.
func axe(t *testing.T) string {
	t.Helper()
	dir := filepath.Join("..", "browser", "axe")
	harness.NPMInstall(t, dir)
	file := filepath.Join(dir, "node_modules", "axe-core", "axe.min.js")
	code, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(code)
}

// TestPageForEverybody checks that axe-core finds no serious accessibility problem in any part of
// the page, in light and dark mode, on wide and narrow screens.
func TestPageForEverybody(t *testing.T) {
	t.Parallel()
	code := axe(t)
	b := browser.Shared(t)
	p := harness.NewPlace(t)
	s := p.Serve("--listen", "127.0.0.1:0")
	first := b.NewTab(t, 1280, 860, "light")
	s.Visit(first, s.Code)
	look := func(tab *browser.Tab, what string) {
		tab.Eval(`(delete window.axeFound, axe.run({ resultTypes: ["violations"] }).then((r) => { window.axeFound = r.violations.filter((v) => ["serious", "critical"].includes(v.impact)).map((v) => v.id + ": " + v.nodes.map((n) => n.html.slice(0, 160) + " " + n.failureSummary).join(" | ")); }), 0)`)
		tab.Until(`window.axeFound !== undefined`)
		assert.Equal(t, "", tab.Eval(`window.axeFound.join("\n")`), what)
	}
	first.Until(`document.querySelector("#empty button") !== null`)
	first.Eval(code + "\n;0")
	look(first, "a session without messages")
	begin(first, "ask")
	p.Model.Enqueue(
		harness.ToolCall("c1", "write", `{"path":"made.txt","content":"one\ntwo\n"}`), harness.ToolCall("c2", "bash", `{"command":"echo hello; exit 3"}`),
		harness.Text("All **done**: `code`, [a link](https://example.com/).\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n- [ ] open\n\n```go\nfunc main() {}\n```"),
		harness.ToolCall("c3", "edit", `{"path":"made.txt","oldText":"one","newText":"three"}`),
	)
	answer := func(tab *browser.Tab, about string) { // a new card ignores clicks for a moment
		card := fmt.Sprintf(`[...document.querySelectorAll("#dock .card")].find((c) => c.textContent.includes(%q))`, about)
		tab.Until(card + ` !== undefined`)
		tab.Until(`(` + card + `?.querySelector(".primary")?.click(), ` + card + ` === undefined)`)
	}
	say(first, "make it")
	answer(first, "made.txt")
	answer(first, "echo hello")
	sees(first, "All done")
	say(first, "and change it")
	first.Until(`document.querySelector("#dock .card .diff") !== null`)

	for _, form := range []struct {
		width  int
		scheme string
	}{{320, "light"}, {320, "dark"}, {1280, "dark"}, {1280, "light"}} {
		name := fmt.Sprint(form.width, " ", form.scheme)
		tab := b.NewTab(t, form.width, 860, form.scheme)
		tab.Load(s.URL + "/")
		tab.Until(`document.querySelector("#dock .card .diff") !== null`)
		tab.Eval(code + "\n;0")
		tab.Eval(`(() => {
			document.querySelectorAll("#dock details").forEach((d) => { d.open = true; });
			troupe.toast("Waiting for you", "another session", "s9");
			troupe.view.agents.set("A", { id: "A", agent: "task", childSessionId: "s9", status: "running", description: "Looks." });
			const text = document.getElementById("composer-text");
			text.value = "@made";
			text.dispatchEvent(new Event("input"));
			troupe.changed(troupe.view);
		})()`)
		tab.Until(`document.querySelector("#completions:not([hidden]) > div") !== null && document.querySelector("#agents .agent") !== null`)
		look(tab, name+": a conversation and a question, who is at work, and files to name")
		tab.Eval(`(() => { const text = document.getElementById("composer-text"); text.value = ""; text.dispatchEvent(new Event("input")); })()`)
		tab.Eval(`document.getElementById("toggle-list").click()`)
		look(tab, name+": the list")
		tab.Eval(`document.getElementById("toggle-list").click()`)
		for _, sheet := range []string{"new-session", "model", "show-tree", "show-changes", "show-find", "show-palette"} {
			tab.Eval(fmt.Sprintf(`document.getElementById(%q).click()`, sheet))
			tab.Until(`document.getElementById("sheet").open`)
			look(tab, name+": "+sheet)
			tab.Eval(`document.getElementById("sheet").close()`)
		}
		for _, command := range []string{"Session details", "Keys", "Fork"} {
			tab.Eval(`document.getElementById("show-palette").click()`)
			choose(tab, command)
			tab.Until(`document.getElementById("sheet").open && document.getElementById("sheet-title").textContent !== "Commands"`)
			look(tab, name+": "+command)
			tab.Eval(`document.getElementById("sheet").close()`)
		}
		tab.Eval(`document.querySelector("#conversation .user [aria-label='Edit and send again']").click()`)
		tab.Until(`document.getElementById("queue").textContent.includes("from before this message")`)
		look(tab, name+": editing a message")
		tab.Eval(`[...document.querySelectorAll("#queue button")].find((b) => b.textContent === "Cancel").click()`)
		if form.width == 320 {
			assert.LessOrEqual(t, tab.Eval(`document.documentElement.scrollWidth`), float64(320), name)
			continue
		}
		if form.scheme == "light" { // the last one: it answers
			p.Model.Enqueue(harness.Text("changed"))
			answer(tab, "made.txt")
			sees(tab, "changed")
			tab.Until(`document.querySelector("#list-body .mark.done") !== null`)
			look(tab, name+": a run that is done")
			assert.Greater(t, tab.Moving(), 0.0)
			tab.Media("prefers-reduced-motion", "reduce")
			assert.Equal(t, 0.0, tab.Moving(), "nothing moves for who wants that")
		}
	}
	assert.Equal(t, 143, s.Stop())
}
