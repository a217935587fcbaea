package examples

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// block is a fenced block of a page.
type block struct {
	lang string
	code string
	line int    // in the page, for messages
	save string // the file that it is to be written to; empty for none
	stay bool   // keeps running while the reader continues
	want *block // the output that the page shows below it; nil for none
}

// runs reports whether a block is executed. make targets and go test are not, since this test is
// one of them.
func (b *block) runs() bool {
	if strings.HasPrefix(b.code, "make ") || strings.HasPrefix(b.code, "go test ") {
		return false
	}
	return b.save != "" || slices.Contains([]string{"sh", "bash", "python"}, b.lang)
}

// programs returns the programs that a block needs and a minimal machine lacks.
func (b *block) programs() (list []string) {
	for _, name := range []string{"python3", "curl"} {
		if b.save == "" && regexp.MustCompile(`\b`+name+`\b`).MatchString(b.code) {
			list = append(list, name)
		}
	}
	if b.lang == "python" && b.save == "" {
		list = append(list, "python3")
	}
	return list
}

var (
	fence  = regexp.MustCompile("(?ms)^( *)```([a-z]+)\n(.*?)^ *```$")
	saveAs = regexp.MustCompile("Save\\s+as\\s+`([^`]+)`[^`]*:\\s*$")
)

// blocks parses the fenced blocks of a page.
func blocks(t *testing.T, path string) (list []*block) {
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	page, end := string(raw), 0
	for _, at := range fence.FindAllStringSubmatchIndex(page, -1) {
		indent, before := page[at[2]:at[3]], page[end:at[0]]
		b := &block{lang: page[at[4]:at[5]], line: strings.Count(page[:at[0]], "\n") + 1}
		for line := range strings.Lines(page[at[6]:at[7]]) {
			b.code += strings.TrimPrefix(line, indent)
		}
		if m := saveAs.FindStringSubmatch(before); m != nil {
			b.save = m[1]
		}
		b.stay = strings.HasSuffix(strings.TrimSpace(before), "leave it running:") || isServer(b.code)
		if b.lang == "text" && strings.TrimSpace(before) == "" && len(list) > 0 {
			list[len(list)-1].want = b
		} else {
			list = append(list, b)
		}
		end = at[1]
	}
	return list
}

// isServer reports whether a block starts a server in the foreground.
func isServer(code string) bool {
	rest, is := strings.CutPrefix(code, "troupe serve ")
	first, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	return is && strings.Count(code, "\n") == 1 && !strings.Contains(code, "||") && !slices.Contains([]string{"pair", "devices", "revoke"}, first)
}

// forms lists the forms by which variable parts of output are compared.
var forms = []struct {
	text *regexp.Regexp
	form string
}{
	{regexp.MustCompile(`"time":"[^"]*"`), `"time":"T"`},
	{regexp.MustCompile(`[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d ([AP]M )?\S+ 20\d\d`), "DATE"},
	{regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d[:-]\d\d[:-]\d\d([.-]\d+)?Z`), "TIME"},
	{regexp.MustCompile(`(?m)^20\d\d-\d\d-\d\d \d\d:\d\d:\d\d `), "TIME "},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UUID"},
	{regexp.MustCompile(`\b1[78]\d{11}\b`), "MILLISECONDS"},
	{regexp.MustCompile(`#c=[\w-]+…?`), "#c=CODE"},
	{regexp.MustCompile(`process \d+( on [\w.-]+)?`), "process N"},
}

// shaped replaces the variable parts of a text by their forms.
func shaped(text string) string {
	for _, f := range forms {
		text = f.text.ReplaceAllLiteralString(text, f.form)
	}
	return strings.TrimRight(text, "\n ")
}

// shows reports whether output has the form of the pasted text.
func shows(pasted, output string) bool {
	pattern := strings.Builder{}
	pattern.WriteString(`(?s)\A`)
	for i, line := range strings.Split(shaped(pasted), "\n") {
		if strings.TrimSpace(line) == "…" {
			pattern.WriteString(`(?:.*\n)??`)
			continue
		}
		for j, part := range strings.Split(line, "…") {
			if j > 0 {
				pattern.WriteString(`[^\n]*`)
			}
			pattern.WriteString(regexp.QuoteMeta(part))
		}
		_ = i
		pattern.WriteString(`\n`)
	}
	return regexp.MustCompile(pattern.String() + `\z`).MatchString(shaped(output) + "\n")
}

// TestShows checks which differences the comparison of outputs reports.
func TestShows(t *testing.T) {
	for _, x := range []struct {
		pasted, output string
		want           bool
	}{
		{"a\nb", "a\nb\n", true},
		{"a\nb", "a\nb\nc\n", false},
		{"a\nb", "a\n", false},
		{"a\n…\nc", "a\nb\nb\nc\n", true},
		{"a\n…\nc", "a\nc\n", true},
		{"a\n…\nc", "a\nb\n", false},
		{"a\n…", "a\nb\n", true},
		{"a … z", "a b z", true},
		{"a … z", "a b\nz", false},
		{"at Fri Nov 27 09:30:00 UTC 2026", "at Sat Jan  2 11:00:59 CET 2027", true},
		{"/#c=4f1c…", "/#c=o9QJf-iwN1qy", true},
		{`{"time":"x","n":1}`, `{"time":"2026-11-27T11:15:14.8Z","n":1}`, true},
		{`{"time":"x","n":1}`, `{"time":"2026-11-27T11:15:14.8Z","n":2}`, false},
		{"a.c", "abc", false},
	} {
		require.Equal(t, x.want, shows(x.pasted, x.output), "%q %q", x.pasted, x.output)
	}
}

// TestBlocks checks that a page is parsed as the package comment describes.
func TestBlocks(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, os.WriteFile(page, []byte("x\n```sh\na\n```\n\n```text\nb\n```\n\n1. Save\n   as `c.json` in the project:\n\n   ```json\n   {\n     }\n   ```\n"), 0o600))
	list := blocks(t, page)
	require.Len(t, list, 2)
	require.Equal(t, block{lang: "sh", code: "a\n", line: 2, want: list[0].want}, *list[0])
	require.Equal(t, "b\n", list[0].want.code)
	require.Equal(t, block{lang: "json", code: "{\n  }\n", line: 13, save: "c.json"}, *list[1])
}
