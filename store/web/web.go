package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"

	"troupe/store/export"
)

//go:embed page
var files embed.FS

// Policy is the content security policy of everything but the page. The page may also use its own
// style and its manifest.
const Policy = "default-src 'none'; script-src 'self'; img-src 'self' data: blob:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types dompurify troupe"

// modules are the scripts of the page. They follow the renderers of exported pages and share one
// scope with them. While it loads, a script uses only those before it.
var modules = []string{"highlight", "link", "stream", "view", "dock", "agents", "composer", "list", "changes", "sheets", "logins", "app"}

// An Asset is a file of the page.
type Asset struct {
	Path    string // below the root of the server
	Type    string // its media type
	Body    []byte
	Gzipped func() []byte // compresses the body once, on the first call
	Tag     string        // of its content
	Forever bool          // its path names its content
	Policy  string        // the content security policy under which it has to be served
}

// First reports whether the first visit of a browser loads the asset. The highlighter and the template of
// exports are loaded when code is shown and a session is downloaded.
func (a Asset) First() bool {
	return !strings.HasSuffix(a.Path, "/highlight.js") && !strings.HasSuffix(a.Path, "/export.json")
}

// Assets returns the files of the page by path. The first call builds them.
var Assets = sync.OnceValues(build)

func build() (map[string]Asset, error) {
	kit, err := export.ReadKit()
	if err != nil {
		return nil, err
	}
	own := []string{kit.Renderers}
	for _, name := range modules {
		b, err := files.ReadFile("page/" + name + ".js")
		if err != nil {
			return nil, fmt.Errorf("web: %w", err)
		}
		own = append(own, string(b))
	}
	read := map[string]string{}
	for _, name := range []string{"live.css", "index.html", "icon.svg", "icon.png", "manifest.json"} {
		b, err := files.ReadFile("page/" + name)
		if err != nil {
			return nil, fmt.Errorf("web: %w", err)
		}
		read[name] = string(b)
	}
	template, err := export.Template()
	if err != nil {
		return nil, fmt.Errorf("web: %w", err)
	}
	all := map[string]Asset{}
	add := func(name, kind, text string) string {
		a := newAsset("/ui/"+tag(text)+"/"+name, kind, text)
		a.Forever = true
		all[a.Path] = a
		return a.Path
	}
	const script = "text/javascript; charset=utf-8"
	look := kit.Style + read["live.css"] // within the page: it is painted as soon as it is there
	icons := []string{"{{icon}}", add("icon.svg", "image/svg+xml", read["icon.svg"]), "{{touchicon}}", add("icon.png", "image/png", read["icon.png"])}
	manifest := strings.NewReplacer(icons...).Replace(read["manifest.json"])
	page := strings.NewReplacer(append(icons,
		"{{style}}", look,
		"{{manifest}}", add("manifest.json", "application/manifest+json", manifest),
		"{{libraries}}", add("libraries.js", script, kit.Libraries),
		"{{highlight}}", add("highlight.js", script, kit.Highlighter),
		"{{export}}", add("export.json", "application/json", string(template)),
		"{{script}}", add("page.js", script, export.OneScope(own)),
	)...).Replace(read["index.html"])
	root := newAsset("/", "text/html; charset=utf-8", page)
	sum := sha256.Sum256([]byte(look))
	root.Policy += "; manifest-src 'self'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	all["/"] = root
	return all, nil
}

// Prepare compresses the assets of a first visit, so that the first browser does not wait for it.
func Prepare() {
	assets, err := Assets()
	if err != nil {
		return // the request reports it
	}
	assets["/"].Gzipped()
	for _, a := range assets {
		if a.First() {
			a.Gzipped()
		}
	}
}

func newAsset(path, kind, text string) Asset {
	return Asset{Path: path, Type: kind, Body: []byte(text), Gzipped: sync.OnceValue(func() []byte { return pack(text) }), Tag: tag(text), Policy: Policy}
}

func pack(text string) []byte {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write([]byte(text)) // into memory
	_ = w.Close()
	return packed.Bytes()
}

func tag(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}
