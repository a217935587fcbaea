package export_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/store/export"
)

// tricky are texts that mean something to an HTML parser, or to a JavaScript
// parser.
var tricky = []string{
	"</script>", "</SCRIPT >", "<!--", "--><script>", "<![CDATA[", "&lt;/script&gt;", "&amp;",
	"\u2028 and \u2029", "quote \" and backslash \\", "{{entries}}", "é 世 \U0001F600",
}

func TestNothingEndsTheData(t *testing.T) {
	var entries []string
	for _, text := range tricky {
		quoted, err := json.Marshal(map[string]string{"type": "custom", "id": text, "customType": text})
		require.NoError(t, err)
		raw := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&", `\u2028`, "\u2028", `\u2029`, "\u2029").Replace(string(quoted))
		entries = append(entries, raw)
	}
	doc := session(entries...)
	doc.Name = strings.Join(tricky, " ")
	doc.SystemPrompt = doc.Name
	html := page(t, doc)

	data := element(t, html, "entries")
	assert.NotContains(t, data, "<")
	assert.NotContains(t, data, ">")
	assert.NotContains(t, data, "&")
	assert.NotContains(t, data, "\u2028")
	assert.NotContains(t, data, "\u2029")
	lines := strings.Split(data, "\n")
	require.Len(t, lines, len(entries))
	for i := range lines {
		assert.JSONEq(t, entries[i], lines[i])
	}
	var info map[string]any
	require.NoError(t, json.Unmarshal([]byte(element(t, html, "session")), &info))
	assert.Equal(t, doc.Name, info["name"])
	assert.Equal(t, doc.SystemPrompt, info["systemPrompt"])
	title := regexp.MustCompile(`(?s)<title>(.*?)</title>`).FindStringSubmatch(html)[1]
	assert.NotContains(t, title, "<")
}

// An entry is a line of the data, whatever it looks like and whether or not it
// is JSON.
func TestEveryEntryIsALine(t *testing.T) {
	html := page(t, session(
		"{\n  \"type\": \"custom\",\r\n  \"id\": \"1\"\n}",
		`{"type":"message","id":"torn","mess`,
		"\xff\xfe not UTF-8 </script>\x00",
		`{"type":"from_the_future","id":"2","parentId":"1","deep":{"list":[1,null,true]}}`,
	))
	lines := strings.Split(element(t, html, "entries"), "\n")
	require.Len(t, lines, 4)
	assert.JSONEq(t, `{"type":"custom","id":"1"}`, lines[0])
	assert.Equal(t, `{"type":"message","id":"torn","mess`, lines[1])
	assert.Equal(t, "\uFFFD not UTF-8 \\u003c/script\\u003e ", lines[2])
	assert.Equal(t, `{"type":"from_the_future","id":"2","parentId":"1","deep":{"list":[1,null,true]}}`, lines[3])
}

var (
	scriptElement = regexp.MustCompile(`(?s)<script>(.*?)</script>`)
	styleElement  = regexp.MustCompile(`(?s)<style>(.*?)</style>`)
	policyMeta    = regexp.MustCompile(`http-equiv="Content-Security-Policy" content="([^"]*)"`)
)

func TestPolicyNamesWhatThePageRuns(t *testing.T) {
	html := page(t, sample(t, "rich.jsonl"))
	directives := map[string]string{}
	for d := range strings.SplitSeq(policyMeta.FindStringSubmatch(html)[1], "; ") {
		name, value, _ := strings.Cut(d, " ")
		directives[name] = value
	}
	assert.Equal(t, hashes(scriptElement, html), directives["script-src"])
	assert.Equal(t, hashes(styleElement, html), directives["style-src"])
	delete(directives, "script-src")
	delete(directives, "style-src")
	assert.Equal(t, map[string]string{
		"default-src": "'none'", "img-src": "data:", "base-uri": "'none'", "form-action": "'none'",
		"require-trusted-types-for": "'script'", "trusted-types": "dompurify",
	}, directives)
}

func hashes(element *regexp.Regexp, html string) string {
	var list []string
	for _, m := range element.FindAllStringSubmatch(html, -1) {
		sum := sha256.Sum256([]byte(m[1]))
		list = append(list, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
	}
	return strings.Join(list, " ")
}

func TestPageAsksForNothing(t *testing.T) {
	html := page(t, session())
	skeleton := scriptElement.ReplaceAllString(html, "")
	for _, pattern := range []string{
		`(?i)(src|srcset|href|action|data|poster|ping)\s*=\s*["']?\s*(https?:|//)`, `(?i)@import|url\(`, `(?i)https?:`, `\{\{`,
	} {
		assert.Empty(t, regexp.MustCompile(pattern).FindAllString(skeleton, -1))
	}
	assert.False(t, strings.Contains(html, "sourceMappingURL"))
}

// What is inlined must reach the browser as it is: nothing in it may end its
// element, and the parser must have nothing to normalise.
func TestScriptsArriveWhole(t *testing.T) {
	html := page(t, session())
	scripts := scriptElement.FindAllStringSubmatch(html, -1)
	assert.Len(t, scripts, 12)
	for _, s := range scripts {
		assert.NotContains(t, s[1], "\r")
		assert.NotContains(t, s[1], "\x00")
		assert.NotRegexp(t, `(?is)<!--.*<script[\s/>]`, s[1])
	}
}

func TestTitle(t *testing.T) {
	for _, c := range []struct{ name, cwd, title string }{
		{"Fix <b>it</b>", "/home/me/demo", "Fix &lt;b&gt;it&lt;/b&gt;"},
		{"  ", "/home/me/demo", "demo · session id-1"},
		{"", `C:\work\demo`, "demo · session id-1"},
		{"", "", "Session id-1"},
		{"", "/", "Session id-1"},
	} {
		html := page(t, export.Document{Name: c.name, Header: protocol.Header{ID: "id-1", Cwd: c.cwd}})
		assert.Contains(t, html, "<title>"+c.title+"</title>")
	}
}

// Tools come from extensions, too; what is wrong with one must not break the
// page.
func TestToolWithBrokenParameters(t *testing.T) {
	doc := session()
	doc.Tools = []protocol.ToolInfo{{Name: "a", Parameters: json.RawMessage(`{"type":`)}, {Name: "b", Parameters: json.RawMessage(`{}`)}}
	var info struct{ Tools []map[string]any }
	require.NoError(t, json.Unmarshal([]byte(element(t, page(t, doc), "session")), &info))
	assert.Equal(t, []map[string]any{
		{"name": "a", "description": "", "parameters": nil}, {"name": "b", "description": "", "parameters": map[string]any{}},
	}, info.Tools)
}

// TestSmallPage shows a whole page but for its scripts and styles. Run with
// GOLDEN=1 to rewrite the file.
func TestSmallPage(t *testing.T) {
	doc := session(
		`{"type":"message","id":"00000001","parentId":null,"timestamp":"2026-11-21T01:04:26.265Z","message":{"role":"user","content":"1 < 2 & 3 > 2?","timestamp":1795223066264}}`,
		`{"type":"message","id":"00000002","parentId":"00000001","timestamp":"2026-11-21T01:04:26.309Z","message":{"role":"assistant","content":[{"type":"text","text":"Yes."}],"stopReason":"stop"}}`,
	)
	doc.Name, doc.Leaf, doc.Generator = "Small", "00000002", "troupe test"
	html := scriptElement.ReplaceAllString(page(t, doc), "<script>…</script>")
	html = styleElement.ReplaceAllString(html, "<style>…</style>")
	html = regexp.MustCompile(`'sha256-[^']*'`).ReplaceAllString(html, "'sha256-…'")
	file := filepath.Join("testdata", "small.html.golden")
	if os.Getenv("GOLDEN") != "" {
		require.NoError(t, os.WriteFile(file, []byte(html), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), html)
}

// The libraries are what VERSIONS says, and every library that is used is
// there.
func TestLibrariesAreAsPublished(t *testing.T) {
	b, err := os.ReadFile("third_party/VERSIONS")
	require.NoError(t, err)
	listed := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var name, version, file, sum string
		_, err := fmt.Sscan(line, &name, &version, &file, &sum)
		require.NoError(t, err, line)
		content, err := os.ReadFile(filepath.Join("third_party", file))
		require.NoError(t, err)
		got := sha256.Sum256(content)
		assert.Equal(t, sum, hex.EncodeToString(got[:]), "%s was changed; run third_party/refresh.sh", file)
		listed[file] = true
	}
	found, err := filepath.Glob("third_party/*/*")
	require.NoError(t, err)
	for _, file := range found {
		rel, err := filepath.Rel("third_party", file)
		require.NoError(t, err)
		assert.True(t, listed[filepath.ToSlash(rel)], "%s is not in VERSIONS", file)
	}
	for _, dir := range []string{"marked", "dompurify", "highlight.js"} {
		assert.True(t, listed[dir+"/LICENSE"], dir)
	}
}

// full is a disk that takes so many bytes.
type full struct{ left int }

var errFull = errors.New("disk full")

func (f *full) Write(p []byte) (int, error) {
	if len(p) > f.left {
		return 0, errFull
	}
	f.left -= len(p)
	return len(p), nil
}

func TestWriteFails(t *testing.T) {
	doc := sample(t, "session-tree.jsonl")
	size := len(page(t, doc))
	for left := 0; left < size; left += size / 50 {
		assert.ErrorIs(t, export.Write(&full{left}, doc), errFull, "%d of %d", left, size)
	}
}

func BenchmarkWrite(b *testing.B) {
	doc := long(10_000)
	var out bytes.Buffer
	require.NoError(b, export.Write(&out, doc))
	b.SetBytes(int64(out.Len()))
	b.ReportAllocs()
	for b.Loop() {
		out.Reset()
		require.NoError(b, export.Write(&out, doc))
	}
}

// long is a session of about n entries in turns of four: a prompt, an answer
// with a call, its result, an answer.
func long(n int) export.Document {
	doc := session()
	parent := "null"
	add := func(i int, message string) {
		id := fmt.Sprintf("%08x", i+1)
		doc.Entries = append(doc.Entries, fmt.Appendf(nil,
			`{"type":"message","id":"%s","parentId":%s,"timestamp":"2026-11-21T01:04:26.265Z","message":%s}`, id, parent, message))
		parent = `"` + id + `"`
	}
	const usage = `"usage":{"input":900,"output":80,"cacheRead":12000,"cacheWrite":300,"totalTokens":13280,"cost":{"total":0.0123}}`
	prose := strings.Repeat("The limiter **caps** the refill in `Take`, so that an idle minute gains nothing. ", 6)
	code := "\\n\\n```go\\nfunc Take(now time.Time) bool {\\n\\treturn true // for now\\n}\\n```\\n\\n- one\\n- two\\n"
	output := strings.Repeat("bucket.go:31: took 24 tokens <after idling>, want 12\\n", 20)
	for i := 0; len(doc.Entries) < n; i += 4 {
		add(i, fmt.Sprintf(`{"role":"user","content":[{"type":"text","text":"Prompt %d: go on with step %d"}]}`, i, i))
		add(i+1, fmt.Sprintf(`{"role":"assistant","content":[{"type":"thinking","thinking":"%s"},{"type":"text","text":"%s"},{"type":"toolCall","id":"c%d","name":"bash","arguments":{"command":"go test ./... -run Step%d"}}],"model":"m",%s,"stopReason":"toolUse"}`, prose, prose, i, i, usage))
		add(i+2, fmt.Sprintf(`{"role":"toolResult","toolCallId":"c%d","toolName":"bash","content":[{"type":"text","text":"%s"}],"isError":false}`, i, output))
		add(i+3, fmt.Sprintf(`{"role":"assistant","content":[{"type":"text","text":"%s%s"}],"model":"m",%s,"stopReason":"stop"}`, prose, code, usage))
	}
	return doc
}
