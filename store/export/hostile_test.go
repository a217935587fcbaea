package export_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/e2e/browser"

	"troupe/protocol"
	"troupe/store/export"
)

// beacon is a server that counts who asks.
type beacon struct {
	*httptest.Server
	mu    sync.Mutex
	paths []string
}

func newBeacon(t *testing.T) *beacon {
	b := &beacon{}
	b.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.paths = append(b.paths, r.URL.Path)
	}))
	t.Cleanup(b.Close)
	return b
}

func (b *beacon) asked() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.paths
}

// payloads are the lines of testdata/hostile.txt, with all of them as one text
// at the end.
func payloads(t *testing.T, url string) []string {
	b, err := os.ReadFile("testdata/hostile.txt")
	require.NoError(t, err)
	var list []string
	for line := range strings.Lines(strings.ReplaceAll(string(b), "BEACON", url)) {
		if !strings.HasPrefix(line, "#") {
			list = append(list, strings.TrimSuffix(line, "\n"))
		}
	}
	return append(list, strings.Join(list, "\n"))
}

// infested is a session that has a text wherever a session can have one.
func infested(texts []string) export.Document {
	var doc export.Document
	add := func(entry map[string]any) {
		b, err := json.Marshal(entry)
		if err != nil {
			panic(err)
		}
		doc.Entries = append(doc.Entries, b)
	}
	for n, x := range texts {
		id := func(i int) string { return fmt.Sprintf("%s%d-%d", x, n, i) }
		message := func(i int, m map[string]any) {
			add(map[string]any{"type": "message", "id": id(i), "timestamp": "2026-11-21T01:04:26.265Z", "message": m})
		}
		part := func(kind string, members ...string) map[string]any {
			b := map[string]any{"type": kind}
			for _, m := range members {
				b[m] = x
			}
			return b
		}
		call := func(name string) map[string]any {
			return map[string]any{"type": "toolCall", "id": name + x, "name": name, "arguments": map[string]any{
				"command": x, "path": x, "content": x, "pattern": x, x: x, "edits": []any{map[string]any{"oldText": x, "newText": x + x}},
			}}
		}
		message(1, map[string]any{"role": "user", "content": []any{
			part("text", "text"), part("image", "data", "mimeType"), map[string]any{"type": "image", "mimeType": "image/png", "data": x},
			map[string]any{"type": "image", "mimeType": "image/svg+xml", "data": "PHN2ZyBvbmxvYWQ9ImFsZXJ0KDEpIi8+"}, part(x, x),
		}})
		names := []string{"bash", "read", "write", "edit", "grep", "find", "ls", x}
		content := []any{part("thinking", "thinking"), part("text", "text")}
		for _, name := range names {
			content = append(content, call(name))
		}
		message(2, map[string]any{
			"role": "assistant", "content": content, "model": x, "provider": x, "stopReason": "error", "errorMessage": x,
			"usage": map[string]any{"input": x, "cost": map[string]any{"total": x}},
		})
		for i, name := range names {
			message(10+i, map[string]any{
				"role": "toolResult", "toolCallId": name + x, "toolName": name, "content": []any{part("text", "text")}, "isError": i%2 == 0,
				"details": map[string]any{"diff": "-1 " + x + "\n+1 " + x, "fullOutputPath": x, x: x, "truncation": map[string]any{"truncated": true, "totalLines": x}},
			})
		}
		message(3, map[string]any{"role": "bashExecution", "command": x, "output": x, "exitCode": x, "fullOutputPath": x})
		message(4, map[string]any{"role": "custom", "customType": x, "content": x, "display": true})
		message(5, map[string]any{"role": "system", "content": x, "sections": map[string]any{x: x}, "toolsAdded": []any{map[string]any{"name": x, "description": x}}})
		message(6, map[string]any{"role": x, "content": x})
		for i, kind := range []string{
			"model_change", "thinking_level_change", "compaction", "branch_summary", "custom", "custom_message", "label", "session_info", x,
		} {
			add(map[string]any{
				"type": kind, "id": id(30 + i), "timestamp": x, "provider": x, "modelId": x, "thinkingLevel": x, "summary": x,
				"firstKeptEntryId": x, "fromId": x, "customType": x, "content": x, "display": true, "targetId": id(1), "label": x, "name": x, "data": x,
			})
		}
		doc.Entries = append(doc.Entries, json.RawMessage(strings.ReplaceAll(x, "\n", " "))) // no JSON
	}
	all := texts[len(texts)-1]
	doc.Header = protocol.Header{ID: all, Timestamp: all, Cwd: all, ParentSession: all}
	doc.Name, doc.SystemPrompt, doc.Generator = all, all, all
	doc.Tools = []protocol.ToolInfo{{Name: all, Description: all, Parameters: json.RawMessage(`{"x":"</script>"}`)}}
	return doc
}

// A page shows what is hostile as text: nothing of it runs, and nothing is
// asked for.
func TestHostileContent(t *testing.T) {
	b := browser.Start(t)
	server := newBeacon(t)
	texts := payloads(t, server.URL)
	p := b.NewTab(t, 1280, 900, "light")
	p.Open(save(t, page(t, infested(texts))) + "?open")
	p.Eval(`[...document.querySelectorAll("#filters button")].find((b) => b.textContent === "All").click()`)
	p.Eval(`dispatchEvent(new Event("beforeprint"))`) // draws what is far away
	p.Until(`document.querySelector(".chunk:empty") === null`)
	const unfold = `document.querySelectorAll("#main details").forEach((d) => { d.fill(); d.open = true; })`
	p.Eval(unfold)
	p.Eval(unfold) // folds in folds
	p.Eval(`new Promise((done) => setTimeout(done, 500))`)

	assert.Nil(t, p.Eval(`window.pwned`))
	assert.Empty(t, server.asked())
	for _, what := range []string{
		"iframe", "object", "embed", "form", "video", "audio", "style", "link", "meta", "base", "script", "math", "svg:not(.icon)",
		"[onerror]", "[onload]", "[onclick]", "[onmouseover]", "[onfocus]", "[style*=url]", "[srcset]", "[autofocus]",
		"a[href]:not([href^='#']):not([href^='http://']):not([href^='https://']):not([href^='mailto:'])",
		"a[href^=http]:not([rel='noopener noreferrer'])", "img:not([src^='data:image/'])", "img[src*=svg]",
	} {
		assert.Equal(t, 0.0, p.Eval(count("main "+what)), what)
	}
	assert.Greater(t, p.Eval(count("article")), 500.0, "everything is there")
	assert.Equal(t, 0.0, p.Eval(`[...document.querySelectorAll("article")].filter((a) => a.querySelector(".notice")?.textContent.includes("could not be drawn")).length`))
	quiet(t, p)
}

// closed ends whatever a payload left open, so that the next one counts.
const closed = `"> '> --></script></style></svg></math></table></iframe></object></video></form></details>`

// leaves tells the payloads that send the reader elsewhere. No policy stops
// those, only that HTML in a message is text.
func leaves(text string) bool { return strings.Contains(text, "<meta") }

// Should the scripts ever let something through, the policy still holds: the
// same texts put into the page as HTML do nothing.
func TestPolicyHoldsAlone(t *testing.T) {
	b := browser.Start(t)
	server := newBeacon(t)
	html := page(t, session())
	for _, x := range payloads(t, server.URL) {
		if !leaves(x) {
			html = strings.Replace(html, `<div id="conversation">`, x+closed+`<div id="conversation">`, 1)
		}
	}
	p := b.NewTab(t, 1280, 900, "light")
	p.Load(save(t, html))
	p.Eval(`new Promise((done) => setTimeout(done, 500))`)
	assert.Nil(t, p.Eval(`window.pwned`))
	assert.Empty(t, server.asked())
	assert.Contains(t, p.Said(), "Content Security Policy", "the policy had something to do")
}

// The payloads do act where nothing stops them, or the two tests above would
// prove nothing.
func TestHostileContentIsHostile(t *testing.T) {
	b := browser.Start(t)
	server := newBeacon(t)
	var html strings.Builder
	html.WriteString("<!DOCTYPE html><title>x</title><body>")
	for _, x := range payloads(t, server.URL) {
		if !leaves(x) {
			html.WriteString(x + closed)
		}
	}
	p := b.NewTab(t, 1280, 900, "light")
	p.Load(save(t, html.String()))
	p.Until(`window.pwned !== undefined`)
	for end := time.Now().Add(time.Minute); len(server.asked()) < 10; time.Sleep(10 * time.Millisecond) {
		require.True(t, time.Now().Before(end), "asked only for %v", server.asked())
	}
}
