package export

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// files are read when the first page is written.
//
//go:embed page third_party/*/*.js
var files embed.FS

// A Kit is what another page needs to draw entries as the exported one does.
type Kit struct {
	Renderers   string // scripts that share a scope with those that use them; see [OneScope]
	Libraries   string // what they need: Markdown, and the sanitiser
	Highlighter string // colours of code, which they can do without
	Style       string
}

// ReadKit reads them from the program.
func ReadKit() (Kit, error) {
	read, err := readFiles()
	if err != nil {
		return Kit{}, err
	}
	join := func(names []string) string {
		var all strings.Builder
		for _, text := range read(names) {
			all.WriteString(dropSourceMap(text) + "\n")
		}
		return all.String()
	}
	return Kit{
		Renderers: join(renderers), Libraries: join(libraries[:2]), Highlighter: join(libraries[2:]), Style: join([]string{"page/theme.css", "page/content.css"}),
	}, nil
}

// libraries stand before the page's own script, each in an element of its own.
// A grammar of highlight.js registers itself with the one before it.
var libraries = []string{
	"third_party/marked/marked.umd.js",
	"third_party/dompurify/purify.min.js",
	"third_party/highlight.js/highlight.min.js",
	"third_party/highlight.js/dart.min.js",
	"third_party/highlight.js/dockerfile.min.js",
	"third_party/highlight.js/elixir.min.js",
	"third_party/highlight.js/haskell.min.js",
	"third_party/highlight.js/nix.min.js",
	"third_party/highlight.js/powershell.min.js",
	"third_party/highlight.js/protobuf.min.js",
	"third_party/highlight.js/scala.min.js",
}

// modules are the parts of the page's own script, which share one scope. Each
// only uses at load time what stands before it.
var modules = append(slices.Clone(renderers), "page/overview.js", "page/conversation.js", "page/main.js")

// renderers are those that draw entries, wherever they come from.
var renderers = []string{
	"page/dom.js",
	"page/format.js",
	"page/session.js",
	"page/markdown.js",
	"page/code.js",
	"page/diff.js",
	"page/image.js",
	"page/tools.js",
	"page/messages.js",
	"page/search.js",
	"page/tree.js",
}

var styles = []string{"page/theme.css", "page/layout.css", "page/content.css", "page/print.css"}

// parts are the page around its data. The title stands between the first two,
// the session and the entries between those that follow.
type parts struct {
	head, beforeSession, beforeEntries, tail string
}

// Template returns the page as a JSON array of four texts. Between them stand the title, the session
// and the entries: a browser that has those makes the same file as [Write].
func Template() ([]byte, error) {
	p, err := pageParts()
	if err != nil {
		return nil, err
	}
	return json.Marshal([]string{p.head, p.beforeSession, p.beforeEntries, p.tail})
}

// pageParts puts the page together once.
var pageParts = sync.OnceValues(buildPage)

func buildPage() (parts, error) {
	read, err := readFiles()
	if err != nil {
		return parts{}, err
	}
	style := strings.Join(read(styles), "\n")
	scripts := read(libraries)
	for i := range scripts {
		scripts[i] = dropSourceMap(scripts[i])
	}
	scripts = append(scripts, OneScope(read(modules)))

	var elements strings.Builder
	for _, s := range scripts {
		elements.WriteString("<script>" + s + "</script>\n")
	}
	html := strings.NewReplacer(
		"{{policy}}", policy(scripts, style),
		"{{style}}", style,
		"{{scripts}}", elements.String(),
	).Replace(read([]string{"page/page.html"})[0])
	return splitPage(html)
}

// readFiles returns a function that reads embedded files, after it has made
// sure that all of them are there.
func readFiles() (func(names []string) []string, error) {
	all := map[string]string{}
	for _, list := range [][]string{libraries, modules, styles, {"page/page.html"}} {
		for _, name := range list {
			b, err := files.ReadFile(name)
			if err != nil {
				return nil, fmt.Errorf("export: %w", err)
			}
			all[name] = string(b)
		}
	}
	return func(names []string) []string {
		texts := make([]string, len(names))
		for i, name := range names {
			texts[i] = all[name]
		}
		return texts
	}, nil
}

// OneScope wraps scripts in one function: they see each other, and nobody else sees
// them.
func OneScope(modules []string) string {
	return "(() => {\n\"use strict\";\n" + strings.Join(modules, "\n") + "})();\n"
}

// dropSourceMap removes the reference to a source map: a browser whose tools
// are open would ask for it.
func dropSourceMap(script string) string {
	if i := strings.LastIndex(script, "\n//# sourceMappingURL="); i >= 0 {
		return script[:i+1]
	}
	return script
}

// policy is the content security policy of a page with these scripts and this
// style. Scripts and styles run by hash, images are data, and only the
// sanitiser may make HTML of a string.
func policy(scripts []string, style string) string {
	var hashes strings.Builder
	for _, s := range scripts {
		hashes.WriteString(" " + hash(s))
	}
	return strings.Join([]string{
		"default-src 'none'",
		"script-src" + hashes.String(),
		"style-src " + hash(style),
		"img-src data:",
		"base-uri 'none'",
		"form-action 'none'",
		"require-trusted-types-for 'script'",
		"trusted-types dompurify",
	}, "; ")
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// splitPage cuts the page where its data goes.
func splitPage(html string) (p parts, err error) {
	for _, cut := range []struct {
		mark string
		part *string
	}{{"{{title}}", &p.head}, {"{{session}}", &p.beforeSession}, {"{{entries}}", &p.beforeEntries}} {
		before, after, ok := strings.Cut(html, cut.mark)
		if !ok {
			return parts{}, fmt.Errorf("export: page.html has no %s", cut.mark)
		}
		*cut.part, html = before, after
	}
	p.tail = html
	return p, nil
}
