package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// plainPages are the pages that are held to the limits below: those that a newcomer reads first.
var plainPages = []string{
	"README.md", "docs/getting-started.md", "docs/troubleshooting.md", "docs/configuration.md", "docs/cli.md", "docs/clients.md", "docs/dependencies.md",
	"docs/serve.md", "docs/api.md", "docs/pi-compatibility.md", "docs/tasks.md",
	"docs/protocol/messages.md", "docs/protocol/errors.md", "docs/protocol/dialects.md",
	"docs/contributing.md", "docs/changelog.md", "docs/security-reporting.md", "docs/decisions/README.md",
	"docs/architecture.md", "docs/logins.md", "docs/extensions.md", "docs/tested-extensions.md", "docs/performance.md",
	"docs/cluster/setup.md", "docs/cluster/clients.md", "docs/cluster/operations.md", "docs/cluster/limits.md",
}

// Limits of plain pages, in words and in characters.
const (
	maxReadmeWords   = 800
	maxMeanSentence  = 20
	maxSentence      = 35
	maxMarkdownWidth = 120
)

var (
	fenced   = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	comment  = regexp.MustCompile(`(?s)<!--.*?-->`)
	code     = regexp.MustCompile("`[^`]*`")
	linked   = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	reflink  = regexp.MustCompile(`(?m)^\[[^\]]+\]: .*$`)
	marker   = regexp.MustCompile(`^\s*([-*]|\d+\.)\s+`)
	sentence = regexp.MustCompile(`[.!?]['")*]*(\s+|$)`)

	// unidiomatic are expressions that a reader stumbles over. What they are replaced by depends on
	// the sentence; usually a named subject and a verb of the field will do.
	unidiomatic = []*regexp.Regexp{
		regexp.MustCompile(`(^|[ .;:,(])([Ww]ho|[Nn]obody|[Ss]omebody) (is|has|was|does|wants|needs|can|comes|goes|asks|gives|writes|reads|meets|hears|sets|says)`),
		regexp.MustCompile(`[, ]what (is|was|has|it|they|an?|the|came|comes)\b`),
		regexp.MustCompile(`[Bb]ehind (a|an|the|it|that|each|which) `),
		regexp.MustCompile(`(goes|go|went) on( |,|\.)`),
		regexp.MustCompile(`[Ii]s (told|said|asked|heard)( |,|\.)`),
		regexp.MustCompile(`(are|is) none( |,|\.)`),
		regexp.MustCompile(`[Aa]new`),
	}
)

// paragraphs returns the running text of a page: without code, output, tables and headings. Code
// within a line counts as one word.
func paragraphs(page string) (list []string) {
	for _, cut := range []*regexp.Regexp{fenced, comment, reflink} {
		page = cut.ReplaceAllString(page, "\n")
	}
	page = code.ReplaceAllString(linked.ReplaceAllString(page, "$1"), "CODE")
	text := ""
	end := func() {
		if strings.TrimSpace(text) != "" {
			list = append(list, strings.Join(strings.Fields(text), " "))
		}
		text = ""
	}
	for line := range strings.Lines(page) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.TrimSpace(line) == "", strings.HasPrefix(strings.TrimSpace(line), "|"), strings.HasPrefix(line, "#"):
			end()
		case marker.MatchString(line):
			end()
			text = marker.ReplaceAllString(line, "")
		default:
			text += " " + line
		}
	}
	end()
	return list
}

// sentences splits a paragraph.
func sentences(paragraph string) (list []string) {
	for {
		at := sentence.FindStringIndex(paragraph)
		if at == nil {
			break
		}
		list = append(list, strings.TrimSpace(paragraph[:at[1]]))
		paragraph = paragraph[at[1]:]
	}
	if paragraph != "" {
		list = append(list, paragraph)
	}
	return slices.DeleteFunc(list, func(s string) bool { return s == "" })
}

// TestPlainPages measures the pages that a newcomer reads first.
func TestPlainPages(t *testing.T) {
	for _, name := range plainPages {
		page := read(t, root+"/"+name)
		words, count := 0, 0
		for _, p := range paragraphs(page) {
			for _, s := range sentences(p) {
				n := len(strings.Fields(s))
				words, count = words+n, count+1
				assert.LessOrEqual(t, n, maxSentence, "%s: words of %q", name, s)
			}
		}
		assert.LessOrEqual(t, float64(words)/float64(count), float64(maxMeanSentence), "%s: words of a sentence, on average", name)
		if name == "README.md" {
			assert.LessOrEqual(t, words, maxReadmeWords, "%s: words", name)
		}
		t.Logf("%s: %d words, %.1f a sentence", name, words, float64(words)/float64(count))
		for line := range strings.Lines(fenced.ReplaceAllString(page, "")) {
			line = strings.TrimRight(line, "\n")
			if !strings.HasPrefix(strings.TrimSpace(line), "|") {
				assert.LessOrEqual(t, utf8.RuneCountInString(line), maxMarkdownWidth, "%s: characters of %q", name, line)
			}
			for _, u := range unidiomatic {
				assert.False(t, u.MatchString(line), "%s: %q in %q", name, u.FindString(line), line)
			}
		}
	}
}

// TestSentences: text is counted as a reader would count it.
func TestSentences(t *testing.T) {
	page := "# A heading of many words\n\nOne two [three](x.md). Four `five five` six:\n\n```sh\nno words\n```\n\n- Seven\n  eight\n- nine\n\n| no | words |\n"
	var all [][]string
	for _, p := range paragraphs(page) {
		all = append(all, sentences(p))
	}
	require.Equal(t, [][]string{{"One two three.", "Four CODE six:"}, {"Seven eight"}, {"nine"}}, all)
}

// TestReadmeFigures holds the figures of the README to the rows of docs/performance.md that it names.
func TestReadmeFigures(t *testing.T) {
	rows := map[string]string{}
	for line := range strings.Lines(read(t, root+"/docs/performance.md")) {
		if cells := strings.Split(line, "|"); len(cells) > 8 {
			rows[strings.TrimSpace(cells[1])] = " " + regexp.MustCompile(`<sub>.*?</sub>|\*`).ReplaceAllString(line, "") + " "
		}
	}
	figures, compared := false, 0
	for line := range strings.Lines(read(t, root+"/README.md")) {
		cells := strings.Split(line, "|")
		switch {
		case strings.Contains(line, "row of [docs/performance.md]"):
			figures = true
		case figures && len(cells) == 6 && !strings.HasPrefix(line, "|---"):
			var measured string
			for name := range strings.SplitSeq(cells[4], ";") {
				require.Contains(t, rows, strings.TrimSpace(name))
				measured += rows[strings.TrimSpace(name)]
			}
			for _, n := range regexp.MustCompile(`\d[\d.]*`).FindAllString(cells[2]+cells[3], -1) {
				compared++
				assert.Contains(t, measured, " "+n+" ", "README: %s", line)
			}
		case figures && len(cells) < 3:
			figures = false
		}
	}
	require.Equal(t, 7, compared)
}
