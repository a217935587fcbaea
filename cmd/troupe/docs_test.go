package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/tools"
	engine "troupe/tools/extension"
)

// root is the repository, seen from this package.
const root = "../.."

// documents are what people read, by their paths in the repository.
func documents(t *testing.T) []string {
	list := []string{root + "/README.md"}
	for _, pattern := range []string{"/docs/*.md", "/docs/*/*.md"} {
		docs, err := filepath.Glob(root + pattern)
		require.NoError(t, err)
		list = append(list, docs...)
	}
	return list
}

func read(t *testing.T, path string) string {
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// tracked is every file of the repository.
func tracked(t *testing.T) []string {
	out, err := exec.Command("git", "-C", root, "ls-files").Output()
	require.NoError(t, err)
	return strings.Fields(string(out))
}

var (
	quotedPath = regexp.MustCompile("`([a-z0-9-]+/[\\w./<>*-]*)`")
	anchor     = regexp.MustCompile(`\]\(([^)#:]*)#([^)]*)\)`)
	target     = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	testName   = regexp.MustCompile(`\b(Test[A-Z]\w*)`)
	rooms      = []string{"cmd", "actors", "protocol", "providers", "tools", "store", "e2e", "docs"}
)

// TestDocsNameFiles holds documents to files, packages and tests that exist.
func TestDocsNameFiles(t *testing.T) {
	files := tracked(t)
	exists := func(pattern string) bool {
		pattern = strings.TrimSuffix(regexp.MustCompile(`<\w+>`).ReplaceAllString(pattern, "*"), "/...")
		return slices.ContainsFunc(files, func(f string) bool {
			for ; f != "."; f = filepath.Dir(f) {
				if ok, _ := filepath.Match(strings.TrimSuffix(pattern, "/"), f); ok {
					return true
				}
			}
			return false
		})
	}
	var tests strings.Builder
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			tests.WriteString(read(t, filepath.Join(root, f)))
		}
	}
	for _, doc := range documents(t) {
		text := read(t, doc)
		for _, m := range quotedPath.FindAllStringSubmatch(text, -1) {
			if first, _, _ := strings.Cut(m[1], "/"); slices.Contains(rooms, first) {
				require.True(t, exists(m[1]), "%s names %s, which does not exist", doc, m[1])
			}
		}
		for _, m := range target.FindAllStringSubmatch(text, -1) {
			_, err := os.Stat(filepath.Join(filepath.Dir(doc), m[1]))
			require.NoError(t, err, "%s links to %s", doc, m[1])
		}
		for _, m := range anchor.FindAllStringSubmatch(text, -1) {
			page := doc
			if m[1] != "" {
				page = filepath.Join(filepath.Dir(doc), m[1])
			}
			require.True(t, slices.Contains(headings(read(t, page)), m[2]), "%s links to %s#%s", doc, m[1], m[2])
		}
		for _, m := range testName.FindAllStringSubmatch(text, -1) {
			require.True(t, strings.Contains(tests.String(), "func "+m[1]), "%s names %s, which does not exist", doc, m[1])
		}
	}
}

// headings returns the anchors of a page's headings, as GitHub makes them.
func headings(page string) (list []string) {
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page, -1) {
		name := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		list = append(list, strings.ReplaceAll(name, " ", "-"))
	}
	return list
}

// TestDependencies: docs/dependencies.md names every module that go.mod requires directly.
func TestDependencies(t *testing.T) {
	direct, _, _ := strings.Cut(read(t, root+"/go.mod"), "\n)\n")
	page := read(t, root+"/docs/dependencies.md")
	modules := regexp.MustCompile(`(?m)^\t(\S+) v`).FindAllStringSubmatch(direct, -1)
	require.Greater(t, len(modules), 30)
	for _, m := range modules {
		listed := strings.Contains(page, "`"+m[1]+"`")
		for _, family := range []string{"github.com/aws/aws-sdk-go-v2", "github.com/Azure/azure-sdk-for-go"} {
			listed = listed || strings.HasPrefix(m[1], family+"/") && strings.Contains(page, "`"+family+"`")
		}
		require.True(t, listed, "docs/dependencies.md lacks %s", m[1])
	}
	for _, m := range regexp.MustCompile("`([a-z.]+/[^`]*)`").FindAllStringSubmatch(page, -1) {
		require.Contains(t, direct, "\t"+m[1], "docs/dependencies.md")
	}
}

// TestDecisions checks that each decision record has a number without gaps, a date and a status, and
// that the index lists it.
func TestDecisions(t *testing.T) {
	records, err := filepath.Glob(root + "/docs/decisions/[0-9]*.md")
	require.NoError(t, err)
	require.NotEmpty(t, records)
	index := read(t, root+"/docs/decisions/README.md")
	for i, record := range records {
		name, number := filepath.Base(record), fmt.Sprintf("%04d", i+1)
		require.True(t, strings.HasPrefix(name, number+"-"), "%s: want the number %s", name, number)
		require.Regexp(t, `\A# `+number+`\. .+\n\nDate: 20\d\d-\d\d-\d\d\. Status: (proposed|accepted|superseded by \[.+\]\(.+\))\.\n`, read(t, record))
		require.Contains(t, index, "("+name+")")
	}
}

// words are numbers as documents write them.
var words = []string{"no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"}

// TestDocsCount holds the numbers that documents say to what they count.
func TestDocsCount(t *testing.T) {
	makefile := read(t, root+"/Makefile")
	variable := func(name string) string {
		return regexp.MustCompile(`(?m)^` + name + ` \?= (\d+)$`).FindStringSubmatch(makefile)[1]
	}
	flag := func(file, name string) string {
		return regexp.MustCompile(`"` + regexp.QuoteMeta(name) + `", \w+\("\w+", (\d+)\)`).FindStringSubmatch(read(t, root+"/"+file))[1]
	}
	says := func(doc, format string, args ...any) {
		t.Helper()
		require.Contains(t, read(t, root+"/"+doc), fmt.Sprintf(format, args...))
	}
	says("docs/reliability.md", "make chaos                          # %s seeds, %s kill cycles", variable("CHAOS_SEEDS"), variable("KILL_CYCLES"))
	says("docs/reliability.md", "the short measure: %s seeds, %s kill cycles", flag("actors/scenario/chaos/chaos_test.go", "chaos.seeds"), flag("e2e/chaos/chaos_test.go", "kill.cycles"))
	says("docs/configuration.md", "the %s tools", words[len(tools.New().Names())])
	names := []string{}
	for _, d := range protocol.Dialects() {
		names = append(names, "`"+string(d)+"`")
	}
	says("docs/architecture.md", "One binary speaks %s.", strings.Join(names, ", "))
	for _, name := range names {
		says("docs/pi-compatibility.md", "%s", name)
	}
	damages := regexp.MustCompile(`(?m)^\t\t\{"[^"]+", "[SL]\d`).FindAllString(read(t, root+"/e2e/history/history_test.go"), -1)
	says("docs/reliability.md", "damages a\n   good history in %d ways", len(damages))
	limits := engine.DefaultLimits()
	says("docs/extensions.md", "| JavaScript without a break | %v |", limits.Turn)
	says("docs/extensions.md", "process, request or file | %v |", limits.Hook)
	says("docs/extensions.md", "| loading a module and its factory | %v |", limits.Load)
	says("docs/extensions.md", "| handlers of `session_shutdown` | %v |", limits.Shutdown)
	says("docs/extensions.md", "| memory of a session's extensions | %d MiB |", limits.Memory>>20)
	says("docs/extensions.md", "| open operations of a session | %d |", limits.Ops)
}
