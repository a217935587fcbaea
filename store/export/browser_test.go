package export_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/e2e/browser"

	"troupe/protocol"
)

// opened opens a session in a tab of its own.
func opened(t *testing.T, b *browser.Browser, name, leaf, address string) *browser.Tab {
	t.Helper()
	doc := sample(t, name)
	doc.Leaf = leaf
	doc.SystemPrompt = "You are a careful engineer."
	doc.Tools = []protocol.ToolInfo{{Name: "read", Description: "Reads a *file*.", Parameters: []byte(`{"type":"object"}`)}}
	p := b.NewTab(t, 1280, 900, "light")
	p.Open(save(t, page(t, doc)) + address)
	return p
}

// Entries of testdata/rich.jsonl.
const (
	richLeaf = "a101d057"
	richSide = "a1021063" // on the other branch
)

func count(selector string) string {
	return fmt.Sprintf("document.querySelectorAll(%q).length", selector)
}

func text(selector string) string {
	return fmt.Sprintf("document.querySelector(%q).textContent.trim()", selector)
}

// targetInView is true when the page has come to where it was sent.
const targetInView = `(() => {
	const r = document.querySelector(".target").getBoundingClientRect();
	return r.top >= 0 && r.top < innerHeight;
})()`

// quiet checks that the page complained of nothing and asked for nothing.
func quiet(t *testing.T, p *browser.Tab) {
	t.Helper()
	assert.Empty(t, p.Said())
	assert.Empty(t, p.Heard("Page.javascriptDialogOpening"))
	for _, url := range p.Requests() {
		assert.Regexp(t, `^(file:///.*/session\.html|data:image/|blob:)`, url)
	}
}

func TestPageInBrowser(t *testing.T) {
	b := browser.Start(t)
	t.Run("conversation", func(t *testing.T) { testConversation(t, b) })
	t.Run("branches", func(t *testing.T) { testBranches(t, b) })
	t.Run("finding", func(t *testing.T) { testFinding(t, b) })
	t.Run("folds", func(t *testing.T) { testFolds(t, b) })
	t.Run("theme", func(t *testing.T) { testTheme(t, b) })
	t.Run("phone", func(t *testing.T) { testPhone(t, b) })
	t.Run("odd files", func(t *testing.T) { testOddFiles(t, b) })
	t.Run("long session", func(t *testing.T) { testLongSession(t, b) })
	t.Run("pictures", func(t *testing.T) { takePictures(t, b) })
}

func testConversation(t *testing.T, b *browser.Browser) {
	p := opened(t, b, "rich.jsonl", richLeaf, "?open")
	assert.Equal(t, "Rate limiter: fix the burst bug", p.Eval(text("h1")))
	assert.Equal(t, 5.0, p.Eval(count("article.user:not(.shell)")))
	assert.Equal(t, 8.0, p.Eval(count("details.tool")))
	assert.Equal(t, 1.0, p.Eval(count("details.tool.failed")))
	assert.Equal(t, 1.0, p.Eval(count("details.tool.pending")), "the call without a result")
	assert.Equal(t, "go test ./... -run TestBurstAfterIdle -count=1", p.Eval(text("details.tool.failed .brief")))
	assert.Equal(t, "exit 1", p.Eval(text("details.tool.failed .meta")))
	assert.Contains(t, p.Eval(text("details.tool.failed .output")), "want at most 12")
	assert.Equal(t, "+1 −1", p.Eval(`document.querySelector(".diff").closest("details").querySelector(".meta").textContent`))
	assert.Equal(t, "22", p.Eval(text(".line.added .gutter")))
	assert.NotZero(t, p.Eval(count(".line.added mark")))
	assert.NotZero(t, p.Eval(count(".prose .code .hljs-comment")), "code is highlighted")
	assert.NotZero(t, p.Eval(count(".prose table td")), "Markdown is rendered")
	assert.Equal(t, 1.0, p.Eval(count(".picture img[src^='data:image/png;base64,']")))
	p.Until(`document.querySelector(".picture img").naturalWidth === 240`)
	assert.Equal(t, 1.0, p.Eval(count(".divider.compaction")))
	assert.Equal(t, 1.0, p.Eval(count(".notice.bad")))
	assert.Contains(t, p.Eval(text(".terminal.failed .command")), "git push")
	assert.Equal(t, "diagnosis", p.Eval(text("article .badge.label")))
	assert.Equal(t, "left out of the context", p.Eval(`document.querySelector(".notice.bad").closest("article").querySelector(".badge").textContent`))
	assert.Contains(t, p.Eval(text("#totals")), "Prompts5of 6")
	assert.Contains(t, p.Eval(text("#overview .folds")), "System prompt")
	p.Eval(`document.querySelector(".picture img").click()`)
	assert.Equal(t, true, p.Eval(`document.getElementById("viewer").open`))
	// What the numbers of the calls say: the second c1 has its own result.
	assert.Contains(t, p.Eval(`[...document.querySelectorAll("details.tool")].find((d) => d.textContent.includes("mcp__")).textContent`), "28.74 ns/op")
	quiet(t, p)
}

func testBranches(t *testing.T, b *browser.Browser) {
	p := opened(t, b, "rich.jsonl", richLeaf, "")
	assert.Equal(t, "Branch 1 of 2", p.Eval(text(".fork-title")))
	p.Eval(`document.querySelector(".fork a:not([aria-current])").click()`)
	p.Until(text(".fork-title") + ` === "Branch 2 of 2"`)
	assert.Contains(t, p.Eval(text("#conversation")), "GCRA needs one field")
	assert.NotContains(t, p.Eval(text("#conversation")), "costs 28.7 ns")
	assert.Equal(t, 1.0, p.Eval(count(".divider.branch-summary")))
	assert.Contains(t, p.Eval(text("#totals")), "Prompts2of 6")
	p.Eval(`history.back()`)
	p.Until(`location.hash === ""`)
	p.Eval(`document.querySelector("#tree a[href='#` + richLeaf + `']").click()`)
	p.Until(text(".fork-title") + ` === "Branch 1 of 2"`)
	assert.Equal(t, "true", p.Eval(`document.querySelector("#tree a[href='#`+richLeaf+`']").getAttribute("aria-current")`))
	quiet(t, p)

	p = opened(t, b, "rich.jsonl", richLeaf, "#"+richSide)
	assert.Equal(t, "Branch 2 of 2", p.Eval(text(".fork-title")), "a link leads to its branch")
	p.Until(targetInView)

	p = opened(t, b, "session-tree.jsonl", "2349df7e", "")
	assert.Equal(t, 3.0, p.Eval(count(".fork")), "where it was left, too")
	assert.Contains(t, p.Eval(`[...document.querySelectorAll(".fork-title")].at(-1).textContent`), "It goes on elsewhere")
	quiet(t, p)
}

func testFinding(t *testing.T, b *browser.Browser) {
	p := opened(t, b, "rich.jsonl", richLeaf, "")
	rows := func() any { return p.Eval(count("#tree .row")) }
	filter := func(name string) {
		p.Eval(`[...document.querySelectorAll("#filters button")].find((b) => b.textContent === "` + name + `").click()`)
	}
	assert.Equal(t, 18.0, rows())
	filter("Prompts")
	assert.Equal(t, 7.0, rows())
	filter("Labelled")
	assert.Equal(t, 1.0, rows())
	filter("Tools")
	assert.Equal(t, 12.0, rows())
	filter("All")
	assert.Equal(t, 35.0, rows())
	assert.Contains(t, p.Eval(text("#conversation")), "Labelled diagnosis", "the books are shown, too")
	filter("Talk")

	p.Press("/")
	assert.Equal(t, "search", p.Eval(`document.activeElement.id`))
	p.Eval(`(() => { const s = document.getElementById("search"); s.value = "idling TOOK"; s.dispatchEvent(new Event("input")); })()`)
	p.Until(text("#found") + ` === "1 entry found"`)
	p.Eval(`document.querySelector("#tree .row").click()`)
	p.Until(`document.querySelector("details.tool.failed").open`)
	assert.Equal(t, 2.0, p.Eval(`CSS.highlights.get("found").size`))
	p.Press("Escape")
	p.Until(text("#found") + ` === ""`)
	assert.Equal(t, 18.0, rows())
	quiet(t, p)
}

func testFolds(t *testing.T, b *browser.Browser) {
	p := opened(t, b, "rich.jsonl", richLeaf, "")
	p.Until(count("details.tool") + " === 8")
	assert.Equal(t, 1.0, p.Eval(count("details.tool[open]")), "a small diff is shown at once")
	assert.Equal(t, 0.0, p.Eval(count("details.thinking[open]")))
	p.Press("o")
	assert.Equal(t, 8.0, p.Eval(count("details.tool[open]")))
	p.Press("t")
	assert.Equal(t, 1.0, p.Eval(count("details.thinking[open]")))
	p.Press("o")
	assert.Equal(t, 0.0, p.Eval(count("details.tool[open]")))
	for range 3 {
		p.Press("j")
	}
	p.Until(`document.querySelector(".target") !== null && window.scrollY > 0`)
	quiet(t, p)
}

func testTheme(t *testing.T, b *browser.Browser) {
	p := b.NewTab(t, 1280, 900, "dark")
	p.Open(save(t, page(t, sample(t, "session-basic.jsonl"))))
	const background = `getComputedStyle(document.documentElement).backgroundColor`
	const toggle = `document.getElementById("toggle-theme").click()`
	dark := p.Eval(background)
	p.Eval(toggle)
	light := p.Eval(background)
	assert.NotEqual(t, dark, light, "light by choice")
	p.Eval(toggle)
	assert.Equal(t, dark, p.Eval(background), "dark by choice")
	p.Eval(toggle)
	assert.Equal(t, "system", p.Eval(`document.documentElement.dataset.theme`))
	quiet(t, p)
}

func testPhone(t *testing.T, b *browser.Browser) {
	p := b.NewTab(t, 390, 844, "light")
	p.Open(save(t, page(t, sample(t, "rich.jsonl"))) + "?open")
	assert.Equal(t, true, p.Eval(`document.getElementById("sidebar").inert`))
	assert.LessOrEqual(t, p.Eval(`document.documentElement.scrollWidth`), 390.0, "nothing sticks out")
	p.Eval(`document.getElementById("toggle-tree").click()`)
	assert.Equal(t, "flex", p.Eval(`getComputedStyle(document.getElementById("sidebar")).display`))
	p.Eval(`document.querySelector("#tree .row").click()`)
	p.Until(`document.getElementById("sidebar").inert`)
	assert.Greater(t, p.Moving(), 0.0)
	p.Media("prefers-reduced-motion", "reduce")
	assert.Equal(t, 0.0, p.Moving(), "nothing moves for who wants that")
	quiet(t, p)
}

// Files that are damaged, strange or from the future are shown as far as they
// go.
func testOddFiles(t *testing.T, b *browser.Browser) {
	p := b.NewTab(t, 1280, 900, "light")
	for name, c := range map[string]struct {
		entries []string
		shows   string
	}{
		"nothing":        {nil, "No messages yet"},
		"no JSON":        {[]string{`{"type":"message","id":"1","par`}, `{"type":"message","id":"1","par`},
		"no object":      {[]string{`42`, `null`, `"text"`, `[]`}, "Unreadable line"},
		"no members":     {[]string{`{}`, `{"type":"message"}`, `{"type":"message","message":{}}`}, "unknown"},
		"wrong types":    {[]string{`{"type":7,"id":{},"parentId":[],"timestamp":{},"message":"x"}`, `{"type":"message","id":"a","parentId":null,"message":{"role":"assistant","content":[null,7,{"type":"text","text":{}},{"type":"toolCall","id":1,"name":[],"arguments":"x"},{"type":"thinking"},{"type":"image"}],"usage":"none","stopReason":{}}}`}, "Image not shown"},
		"unknown kind":   {[]string{`{"type":"hologram","id":"1","parentId":null,"data":{"deep":"inside"}}`}, "hologram"},
		"unknown role":   {[]string{`{"type":"message","id":"1","parentId":null,"message":{"role":"oracle","content":"the future"}}`}, "the future"},
		"unknown block":  {[]string{`{"type":"message","id":"1","parentId":null,"message":{"role":"user","content":[{"type":"video","x":1}]}}`}, "video"},
		"orphan":         {[]string{`{"type":"message","id":"2","parentId":"gone","message":{"role":"user","content":"where from"}}`}, "where from"},
		"orphan result":  {[]string{`{"type":"message","id":"2","parentId":null,"message":{"role":"toolResult","toolCallId":"x","toolName":"edit","content":"done","isError":true}}`}, "edit"},
		"ring":           {[]string{`{"type":"message","id":"1","parentId":"2","message":{"role":"user","content":"hen"}}`, `{"type":"message","id":"2","parentId":"1","message":{"role":"user","content":"egg"}}`}, "egg"},
		"own parent":     {[]string{`{"type":"message","id":"1","parentId":"1","message":{"role":"user","content":"self"}}`}, "self"},
		"parent later":   {[]string{`{"type":"message","id":"2","parentId":"1","message":{"role":"user","content":"later"}}`, `{"type":"message","id":"1","parentId":null,"message":{"role":"user","content":"sooner"}}`}, "sooner"},
		"duplicate ids":  {[]string{`{"type":"message","id":"1","parentId":null,"message":{"role":"user","content":"one"}}`, `{"type":"message","id":"1","parentId":"1","message":{"role":"user","content":"two"}}`}, "two"},
		"odd ids":        {[]string{`{"type":"message","id":"%E0%A4%A","parentId":null,"message":{"role":"user","content":"odd"}}`, `{"type":"label","id":"__proto__","parentId":"%E0%A4%A","targetId":"%E0%A4%A","label":"constructor"}`}, "constructor"},
		"deep Markdown":  {[]string{`{"type":"message","id":"1","parentId":null,"message":{"role":"user","content":"` + strings.Repeat("> ", 5000) + `deep"}}`}, "deep"},
		"times":          {[]string{`{"type":"message","id":"1","parentId":null,"timestamp":"yesterday","message":{"role":"user","content":"late","timestamp":1e300}}`}, "late"},
		"terminal codes": {[]string{`{"type":"message","id":"1","parentId":null,"message":{"role":"bashExecution","command":"ls","output":"\u001b[31mred\u001b[0m\u001b]0;title\u0007 done","exitCode":0}}`}, "red done"},
		"unseen":         {[]string{call("bash", `{"command":"git push # \u202eohce\u200b \u0007👩‍💻"}`)}, "git push # ‹U+202E›ohce‹U+200B› ‹U+0007›👩‍💻"},
		"unseen space":   {[]string{call("bash", `{"command":"rm a\u2800b\u00a0c\u2003d\u3000e\ufe00"}`)}, "rm a‹U+2800›b‹U+00A0›c‹U+2003›d‹U+3000›e‹U+FE00›"},
		"unseen line":    {[]string{call("bash", `{"command":"rm x #\recho y"}`)}, "rm x #‹U+000D›echo y"},
		"unseen change":  {[]string{call("edit", `{"path":"a","oldText":"same\r\n","newText":"sa\u200bme\r\n"}`)}, "+sa‹U+200B›me\r\n"},
		"unseen name":    {[]string{call("write", `{"path":"a\u202etxt","content":"x"}`)}, "a‹U+202E›txt"},
		"unseen word":    {[]string{call("other", `{"word":"a\u2066b"}`)}, "a‹U+2066›b"},
	} {
		t.Run(name, func(t *testing.T) {
			p := p.Fresh(t)
			p.Open(save(t, page(t, session(c.entries...))) + "?open")
			assert.Contains(t, p.Eval(`document.getElementById("main").textContent`), c.shows)
			p.Eval(`[...document.querySelectorAll("#filters button")].at(-1).click()`)
			assert.NotContains(t, p.Eval(`document.getElementById("main").textContent`), "could not be drawn")
			p.Eval(`document.querySelectorAll("#tree .row").forEach((row) => row.click())`)
			quiet(t, p)
		})
	}
}

// call is an answer that calls a tool.
func call(name, arguments string) string {
	return `{"type":"message","id":"1","parentId":null,"message":{"role":"assistant","content":[{"type":"toolCall","id":"c","name":"` + name + `","arguments":` + arguments + `}]}}`
}

// A session of ten thousand entries opens while one waits for it.
func testLongSession(t *testing.T, b *browser.Browser) {
	html := page(t, long(10_000))
	url := save(t, html)
	p := b.NewTab(t, 1280, 900, "light")
	start := time.Now()
	p.Open(url)
	t.Logf("%d MB open after %v", len(html)>>20, time.Since(start).Round(time.Millisecond))
	t.Logf("script: %v ms", p.Eval(`Math.round(performance.now() - performance.getEntriesByType("navigation")[0].responseEnd)`))
	assert.Less(t, p.Eval(count("article")), 400.0, "what is far away is not drawn")
	assert.Equal(t, 7500.0, p.Eval(count("#tree .row")))

	start = time.Now()
	p.Eval(`document.querySelector("#tree .group:last-child .row:last-child").click()`)
	p.Until(`document.querySelector(".target") !== null`)
	t.Logf("last entry after %v", time.Since(start).Round(time.Millisecond))
	p.Until(targetInView)

	start = time.Now()
	p.Eval(`(() => { const s = document.getElementById("search"); s.value = "prompt 5000"; s.dispatchEvent(new Event("input")); })()`)
	p.Until(text("#found") + ` === "1 entry found"`)
	t.Logf("found after %v", time.Since(start).Round(time.Millisecond))
	p.Eval(`document.querySelector("#tree .row").click()`)
	p.Until(targetInView)
	assert.Contains(t, p.Eval(text(".target")), "Prompt 5000")
	quiet(t, p)
}

// takePictures makes screenshots for people to look at:
//
//	SCREENSHOTS=/tmp/shots go test -run TestPageInBrowser/pictures ./store/export
func takePictures(t *testing.T, b *browser.Browser) {
	if os.Getenv("SCREENSHOTS") == "" {
		t.Skip("set SCREENSHOTS to a directory for pictures of a page")
	}
	require.NoError(t, os.MkdirAll(os.Getenv("SCREENSHOTS"), 0o700))
	doc := sample(t, "rich.jsonl")
	doc.Leaf = richLeaf
	url := save(t, page(t, doc))
	for _, shot := range []struct {
		name, scheme, address, action string
		width, height                 int
	}{
		{"light", "light", "", `0`, 1280, 1500},
		{"light-middle", "light", "", `scrollTo(0, 1350)`, 1280, 1500},
		{"light-search", "light", "", `(() => { const s = document.getElementById("search"); s.value = "refill"; s.dispatchEvent(new Event("input")); })()`, 1280, 900},
		{"dark", "dark", "?open", `0`, 1280, 1500},
		{"dark-middle", "dark", "?open", `scrollTo(0, 1900)`, 1280, 1500},
		{"dark-branch", "dark", "#" + richSide, `0`, 1280, 900},
		{"phone", "light", "", `0`, 390, 844},
		{"phone-middle", "dark", "", `scrollTo(0, 1500)`, 390, 844},
		{"phone-tree", "light", "", `document.getElementById("toggle-tree").click()`, 390, 844},
	} {
		p := b.NewTab(t, shot.width, shot.height, shot.scheme)
		p.Open(url + shot.address)
		p.Eval(shot.action)
		p.Eval(`new Promise((done) => setTimeout(done, 400))`)
		p.Screenshot(shot.name)
	}
}
