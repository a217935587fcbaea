// Package bundle makes one script of an extension and of what it imports. It is the
// only place that imports esbuild.
//
// Files and packages are taken from where the extension lies, its real path that is,
// and become part of the script. What the host provides (node:*, pi's packages) is
// asked for by __troupe.require when the import is evaluated: a name that it lacks is
// undefined where it is used, and not a failure of the whole. A package that is nowhere
// throws where it is imported, so that optional imports in a try work. What only Node has
// can be imported, and throws when it is used: large packages import more than they need.
package bundle

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/evanw/esbuild/pkg/api"
)

// Provided says what the host has for a name that is imported.
type Provided int

const (
	Foreign  Provided = iota // a file or package
	Shim                     // the host has it
	NodeOnly                 // only Node has it
)

// Options of a bundle.
type Options struct {
	// Provides says what the host has for a name, and the name that it goes by.
	Provides func(name string) (id string, p Provided)
}

// Bundle is an extension in one piece.
type Bundle struct {
	Path     string   `json:"path"`   // of the extension
	Inputs   []Input  `json:"inputs"` // the files it was made of
	Shims    []string `json:"shims,omitempty"`
	NodeOnly []Import `json:"nodeOnly,omitempty"`
	Missing  []Import `json:"missing,omitempty"`
	Gates    []string `json:"gates,omitempty"` // events it names whose handlers may refuse something
	Wants    string   `json:"wants,omitempty"` // the engine that its first line names: quick, node

	First string `json:"-"` // the file that the entry imports
	Code  string `json:"-"`
	Map   []byte `json:"-"` // source map, without sources
}

// Import is an import that the host cannot serve.
type Import struct {
	Name string `json:"name"`
	By   string `json:"by"` // the file that imports
}

// installed says whether the package is where Node would look for it, or the file where the path leads.
func (i Import) installed() bool {
	if isPath(i.Name) {
		return i.exists()
	}
	parts := strings.SplitN(i.Name, "/", 3)
	pkg := parts[0]
	if strings.HasPrefix(pkg, "@") && len(parts) > 1 {
		pkg += "/" + parts[1]
	}
	for dir := filepath.Dir(i.By); ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "node_modules", pkg)); err == nil {
			return true
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}

// exists reports whether there is a file that a path may mean. The extension of the name may be missing, or be that of
// what the compiler makes of the file.
func (i Import) exists() bool {
	path := strings.TrimPrefix(i.Name, "file://")
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(i.By), path)
	}
	for _, pattern := range []string{path, path + ".*", strings.TrimSuffix(path, filepath.Ext(path)) + ".*", filepath.Join(path, "index.*")} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return true
		}
	}
	return false
}

// isPath reports whether the name of an import is the path of a file.
func isPath(name string) bool {
	return strings.HasPrefix(name, ".") || filepath.IsAbs(name) || strings.HasPrefix(name, "file://")
}

// NeedsNode gives an import that only Node can serve in full: of the extension's own files a
// module of Node's, of anybody a native addon or a package that is left to it. What packages import of Node beside what is used
// of them does not count. An extension may say itself what it wants.
func (b *Bundle) NeedsNode() (Import, bool) {
	switch b.Wants {
	case "node":
		return Import{Name: wantsNode, By: b.Path}, true
	case "quick":
		return Import{}, false
	}
	for _, i := range b.NodeOnly {
		if native(i.Name) || slices.Contains(leftToNode, i.Name) || isBuiltin(i.Name) && !strings.Contains(i.By, "/node_modules/") {
			return i, true
		}
	}
	return Import{}, false
}

// wantsNode is the first line of an extension that wants Node; another word stands for
// another engine.
const wantsNode = "// @troupe-host node"

var wants = lazy(`^// @troupe-host (node|quick)\s*\n`)

// lazy is an expression that is compiled when it is first needed: most processes bundle nothing.
func lazy(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// Error is why an extension could not be bundled.
type Error struct {
	File         string
	Line, Column int // from 1; 0 is unknown
	Text         string
	More         int // errors beside this one
}

func (e *Error) Error() string {
	text := e.Text
	if e.More > 0 {
		text = fmt.Sprintf("%s (and %d more)", text, e.More)
	}
	if e.File == "" {
		return text
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, text)
}

// Extension bundles the extension in a file. When the script runs, it calls
// __troupe.loaded(path, namespace) with its real path and what the file exports.
func Extension(path string, o Options) (*Bundle, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, &Error{Text: "Extension path does not exist: " + path}
	}
	if real, err = filepath.Abs(real); err != nil {
		return nil, err
	}
	b := &builder{Options: o, bundle: Bundle{Path: real}}
	if text, err := os.ReadFile(real); err == nil { // else the bundler says what is wrong
		if m := wants().FindSubmatch(text); m != nil {
			b.bundle.Wants = string(m[1])
		}
	}
	entry := fmt.Sprintf("import * as extension from %s;\n__troupe.loaded(%[1]s, extension);\n", quote(real))
	return b.build(api.BuildOptions{
		Stdin:  &api.StdinOptions{Contents: entry, ResolveDir: filepath.Dir(real), Sourcefile: entryName},
		Format: api.FormatESModule,
		Banner: map[string]string{"js": "const require = __troupe.requireFrom(" + quote(real) + ");"},
	})
}

// Module bundles what an import or require, whose name was not known before it ran,
// finds from a file. The script is a CommonJS module or, for imports, one of ECMAScript.
func Module(name, from string, imported bool, o Options) (*Bundle, error) {
	name = strings.TrimPrefix(name, "file://")
	b := &builder{Options: o, bundle: Bundle{Path: from}}
	opts := api.BuildOptions{
		Stdin: &api.StdinOptions{
			Contents:   "module.exports = require(" + quote(name) + ");\n",
			ResolveDir: filepath.Dir(from), Sourcefile: entryName,
		},
		Format: api.FormatCommonJS,
	}
	if imported {
		opts.Format = api.FormatESModule
		opts.Stdin.Contents = fmt.Sprintf("import * as m from %s;\nexport * from %[1]s;\nexport default m.default ?? m;\n", quote(name))
		opts.Banner = map[string]string{"js": "const require = __troupe.requireFrom(" + quote(from) + ");"}
	}
	bundle, err := b.build(opts)
	if err != nil {
		return nil, err
	}
	if len(bundle.Missing) > 0 && bundle.Missing[0].By == filepath.Join(filepath.Dir(from), entryName) {
		return nil, missing(name)
	}
	return bundle, nil
}

// entryName is how the few lines that join an extension to the host are called in maps.
const entryName = "<troupe>"

func quote(s string) string {
	b, _ := json.Marshal(s) // a string always has a form
	return string(b)
}

// Namespaces of modules that are not files.
const (
	shimSpace    = "troupe"
	missingSpace = "troupe-missing"
	nodeSpace    = "troupe-node"
	addonSpace   = "troupe-addon"
	brokenSpace  = "troupe-broken"
)

type builder struct {
	Options
	shallow bool // leave out modules that are imported when the script runs

	mu      sync.Mutex // esbuild calls from many goroutines
	bundle  Bundle
	shifted map[string]int    // files whose first line has this many bytes before it
	late    map[string]bool   // files that import() and require name
	broken  map[string]string // of these, the ones that cannot be bundled, and why
}

// build bundles, and leaves out broken files that are only imported when the script runs: that import fails, and
// nothing else, as in Node.
func (b *builder) build(opts api.BuildOptions) (*Bundle, error) {
	clean := b.bundle
	made, err := b.try(opts)
	if err == nil || b.shallow {
		return made, err
	}
	b.broken = map[string]string{}
	for path := range b.late {
		alone := &builder{Options: b.Options, shallow: true}
		if _, err := alone.try(api.BuildOptions{Stdin: &api.StdinOptions{
			Contents: fmt.Sprintf("import * as m from %s;\nexport default m;\n", quote(path)), ResolveDir: filepath.Dir(path), Sourcefile: entryName,
		}, Format: api.FormatESModule}); err != nil {
			b.broken[path] = err.Error()
		}
	}
	if len(b.broken) == 0 {
		return nil, err
	}
	b.bundle = clean
	if made, err = b.try(opts); err != nil {
		return nil, err
	}
	for path := range b.broken { // when it is mended, the bundle in the cache is out of date
		if in, err := inputOf(path); err == nil {
			made.Inputs = append(made.Inputs, in)
		}
	}
	slices.SortFunc(made.Inputs, func(x, y Input) int { return cmp.Compare(x.Path, y.Path) })
	return made, nil
}

// try bundles once.
func (b *builder) try(opts api.BuildOptions) (*Bundle, error) {
	b.shifted, b.late = map[string]int{}, map[string]bool{}
	opts.Bundle, opts.Metafile = true, true
	opts.Platform, opts.Target = api.PlatformNode, api.ES2022
	opts.AbsWorkingDir, opts.Outfile = string(filepath.Separator), "/bundle.js"
	opts.MainFields, opts.Conditions = []string{"module", "main"}, []string{"node"}
	opts.TsconfigRaw = "{}"
	opts.Sourcemap, opts.SourcesContent = api.SourceMapExternal, api.SourcesContentExclude
	opts.Charset = api.CharsetUTF8
	opts.LegalComments = api.LegalCommentsNone
	opts.LogLevel = api.LogLevelSilent
	opts.LogOverride = map[string]api.LogLevel{"empty-import-meta": api.LogLevelSilent}
	opts.Define = map[string]string{
		"import.meta": "__troupe_meta", "__dirname": "__troupe_dirname", "__filename": "__troupe_filename",
	}
	opts.Loader = map[string]api.Loader{
		".md": api.LoaderText, ".txt": api.LoaderText, ".html": api.LoaderText, ".css": api.LoaderText,
		".wasm": api.LoaderBinary, ".node": api.LoaderEmpty,
	}
	opts.Plugins = []api.Plugin{{Name: "troupe", Setup: b.plug}}
	r := api.Build(opts)
	if len(r.Errors) > 0 {
		return nil, b.failure(r.Errors)
	}
	for _, f := range r.OutputFiles {
		if strings.HasSuffix(f.Path, ".map") {
			b.bundle.Map = f.Contents
		} else {
			b.bundle.Code = strings.Replace(string(f.Contents), namespaceHelper, namespaceHelper+"__troupe.namespaceOf(mod) || ", 1)
		}
	}
	for _, name := range gateEvents {
		if strings.Contains(b.bundle.Code, name) {
			b.bundle.Gates = append(b.bundle.Gates, name)
		}
	}
	slices.Sort(b.bundle.Shims)
	b.bundle.Shims = slices.Compact(b.bundle.Shims)
	return &b.bundle, b.inputs(r.Metafile)
}

// namespaceHelper begins esbuild's function that makes a namespace of a CommonJS module: a
// copy for every bundle. Those of the host's modules, which have hundreds of members, are the
// host's, one for all.
const namespaceHelper = "var __toESM = (mod, isNodeMode, target) => "

// failure makes one error of many.
func (b *builder) failure(all []api.Message) error {
	first := slices.MinFunc(all, func(x, y api.Message) int {
		if x.Location == nil || y.Location == nil {
			return 0
		}
		return cmp.Or(cmp.Compare(x.Location.File, y.Location.File), cmp.Compare(x.Location.Line, y.Location.Line))
	})
	e := &Error{Text: first.Text, More: len(all) - 1}
	if l := first.Location; l != nil {
		e.File, e.Line, e.Column = l.File, l.Line, l.Column+1
		if !filepath.IsAbs(e.File) {
			e.File = string(filepath.Separator) + e.File
		}
		if l.Line == 1 {
			e.Column -= b.shifted[e.File]
		}
	}
	return e
}

// inputs notes what the bundle was made of.
func (b *builder) inputs(metafile string) error {
	var meta struct {
		Inputs map[string]struct {
			Imports []struct {
				Path string `json:"path"`
			} `json:"imports"`
		} `json:"inputs"`
	}
	if err := json.Unmarshal([]byte(metafile), &meta); err != nil {
		return fmt.Errorf("esbuild's list of inputs: %w", err)
	}
	absolute := func(name string) string {
		if filepath.IsAbs(name) {
			return name
		}
		return string(filepath.Separator) + name
	}
	for name, of := range meta.Inputs {
		if strings.HasPrefix(name, shimSpace) {
			continue
		}
		if name = absolute(name); filepath.Base(name) == entryName {
			if len(of.Imports) > 0 {
				b.bundle.First = absolute(strings.TrimPrefix(of.Imports[0].Path, brokenSpace+":"))
			}
			continue
		}
		in, err := inputOf(name)
		if err != nil {
			return err
		}
		b.bundle.Inputs = append(b.bundle.Inputs, in)
	}
	slices.SortFunc(b.bundle.Inputs, func(x, y Input) int { return cmp.Compare(x.Path, y.Path) })
	return nil
}

// ours marks a resolution that the plugin itself asked for.
type ours struct{}

func (b *builder) plug(build api.PluginBuild) {
	build.OnResolve(api.OnResolveOptions{Filter: ".*"}, func(a api.OnResolveArgs) (api.OnResolveResult, error) {
		if _, again := a.PluginData.(ours); again || a.Kind == api.ResolveEntryPoint {
			return api.OnResolveResult{}, nil
		}
		if isLate(a.Kind) {
			return b.resolveLate(build, a)
		}
		return b.resolve(build, a)
	})
	build.OnLoad(api.OnLoadOptions{Filter: ".*", Namespace: shimSpace}, func(a api.OnLoadArgs) (api.OnLoadResult, error) {
		return script("module.exports = __troupe.require(" + quote(a.Path) + ");")
	})
	build.OnLoad(api.OnLoadOptions{Filter: ".*", Namespace: missingSpace}, func(a api.OnLoadArgs) (api.OnLoadResult, error) {
		return script("throw __troupe.missing(" + quote(a.Path) + ");")
	})
	build.OnLoad(api.OnLoadOptions{Filter: ".*", Namespace: nodeSpace}, func(a api.OnLoadArgs) (api.OnLoadResult, error) {
		return script("module.exports = __troupe.nodeOnly(" + quote(a.Path) + ");")
	})
	build.OnLoad(api.OnLoadOptions{Filter: ".*", Namespace: addonSpace}, func(a api.OnLoadArgs) (api.OnLoadResult, error) {
		return script("module.exports = __troupe.addon(" + quote(a.Path) + ");")
	})
	build.OnLoad(api.OnLoadOptions{Filter: ".*", Namespace: brokenSpace}, func(a api.OnLoadArgs) (api.OnLoadResult, error) {
		return script("throw new Error(" + quote(b.broken[a.Path]) + ");")
	})
	build.OnLoad(api.OnLoadOptions{Filter: `\.[cm]?[jt]sx?$`, Namespace: "file"}, b.load)
}

func script(code string) (api.OnLoadResult, error) {
	return api.OnLoadResult{Contents: &code, Loader: api.LoaderJS}, nil
}

// isLate reports whether an import fails when it runs, and not when the file is loaded.
func isLate(kind api.ResolveKind) bool {
	return kind == api.ResolveJSDynamicImport || kind == api.ResolveJSRequireCall || kind == api.ResolveJSRequireResolve
}

// resolveLate resolves import() and require. One of a file that does not exist throws when it runs.
func (b *builder) resolveLate(build api.PluginBuild, a api.OnResolveArgs) (api.OnResolveResult, error) {
	r, err := b.resolve(build, a)
	if err != nil {
		return r, err
	}
	importer := a.Importer
	if !filepath.IsAbs(importer) {
		importer = filepath.Join(a.ResolveDir, importer)
	}
	if r.Path == "" || isPath(a.Path) && r.Namespace == "" { // a path
		found, ok := b.installed(build, a)
		if !ok {
			b.note(&b.bundle.Missing, Import{a.Path, importer})
			return api.OnResolveResult{Path: a.Path, Namespace: missingSpace}, nil
		}
		r = found
	}
	if r.Namespace != "" && r.Namespace != "file" {
		return r, nil
	}
	if b.shallow {
		return api.OnResolveResult{Path: a.Path, Namespace: missingSpace}, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.late[r.Path] = true
	if b.broken[r.Path] != "" {
		return api.OnResolveResult{Path: r.Path, Namespace: brokenSpace}, nil
	}
	return r, nil
}

// resolve says what an import means.
func (b *builder) resolve(build api.PluginBuild, a api.OnResolveArgs) (api.OnResolveResult, error) {
	importer := a.Importer
	if !filepath.IsAbs(importer) {
		importer = filepath.Join(a.ResolveDir, importer)
	}
	if native(a.Path) {
		b.note(&b.bundle.NodeOnly, Import{a.Path, importer})
		path := a.Path
		if strings.HasPrefix(path, ".") {
			path = filepath.Join(a.ResolveDir, path)
		}
		return api.OnResolveResult{Path: path, Namespace: addonSpace}, nil
	}
	if strings.HasPrefix(a.Path, ".") || filepath.IsAbs(a.Path) || strings.HasPrefix(a.Path, "#") {
		return api.OnResolveResult{}, nil
	}
	if path, ok := strings.CutPrefix(a.Path, "file://"); ok {
		return api.OnResolveResult{Path: path}, nil
	}
	id, provided := a.Path, Foreign
	if pkg := strings.HasSuffix(a.Path, "/"); !pkg && b.Provides != nil {
		id, provided = b.Provides(a.Path)
	}
	if provided == Foreign && isBuiltin(a.Path) {
		provided = NodeOnly
	}
	switch provided {
	case Shim:
		b.mu.Lock()
		b.bundle.Shims = append(b.bundle.Shims, id)
		b.mu.Unlock()
		return api.OnResolveResult{Path: id, Namespace: shimSpace}, nil
	case NodeOnly:
		if found, ok := b.installed(build, a); ok && !isBuiltin(a.Path) { // a package that we have no part of
			return found, nil
		}
		b.note(&b.bundle.NodeOnly, Import{a.Path, importer})
		return api.OnResolveResult{Path: a.Path, Namespace: nodeSpace}, nil
	}
	if found, ok := b.installed(build, a); ok {
		return found, nil
	}
	b.note(&b.bundle.Missing, Import{a.Path, importer})
	return api.OnResolveResult{Path: a.Path, Namespace: missingSpace}, nil
}

// installed looks for a package where Node would.
func (b *builder) installed(build api.PluginBuild, a api.OnResolveArgs) (api.OnResolveResult, bool) {
	r := build.Resolve(strings.TrimPrefix(a.Path, "file://"), api.ResolveOptions{
		Importer: a.Importer, Namespace: a.Namespace, ResolveDir: a.ResolveDir, Kind: a.Kind, PluginData: ours{}, With: a.With,
	})
	if len(r.Errors) > 0 || r.External || !filepath.IsAbs(r.Path) {
		return api.OnResolveResult{}, false
	}
	if addon, ok := addonOf(r.Path); ok {
		b.note(&b.bundle.NodeOnly, Import{addon, a.Importer})
		return api.OnResolveResult{Path: r.Path, Namespace: addonSpace}, true
	}
	out := api.OnResolveResult{Path: r.Path, Namespace: r.Namespace, Suffix: r.Suffix}
	if !r.SideEffects {
		out.SideEffects = api.SideEffectsFalse
	}
	return out, true
}

// native says that a file is an addon of Node's.
func native(path string) bool { return filepath.Ext(path) == ".node" }

// mentionsAddon finds manifests of packages that may have native addons.
var mentionsAddon = lazy(`"gypfile"|node-gyp|"bindings"|prebuild|"binary"|node-addon-api|"napi"|linux-(x64|arm64)`)

// leftToNode are packages without an addon that need Node all the same: they make contexts of
// node:vm, and only to load them takes the engine longer than anything may run without a break.
var leftToNode = []string{"jsdom"}

// addonOf gives a native addon of the package in which a file lies: such a package finds it by
// where it lies itself, and is left to Node.
func addonOf(file string) (addon string, ok bool) {
	i := strings.LastIndex(file, "/node_modules/")
	if i < 0 {
		return "", false
	}
	root := file[:i+len("/node_modules")]
	parts := strings.SplitN(file[len(root)+1:], "/", 3)
	name := parts[0]
	if strings.HasPrefix(name, "@") && len(parts) > 1 {
		name += "/" + parts[1]
	}
	if slices.Contains(leftToNode, name) {
		return name, true
	}
	dir := filepath.Join(root, name)
	text, err := os.ReadFile(filepath.Join(dir, "package.json"))
	if err != nil || !mentionsAddon().Match(text) {
		return "", false
	}
	var manifest struct{ OptionalDependencies map[string]string }
	_ = json.Unmarshal(text, &manifest) // what is no manifest names no packages
	dirs := []string{dir}
	for dep := range manifest.OptionalDependencies {
		dirs = append(dirs, filepath.Join(root, dep), filepath.Join(dir, "node_modules", dep))
	}
	for _, dir := range dirs {
		for _, pattern := range []string{"*.node", "*/*.node", "*/*/*.node", "*/*/*/*.node"} {
			if found, _ := filepath.Glob(filepath.Join(dir, pattern)); len(found) > 0 {
				return found[0], true
			}
		}
	}
	return "", false
}

func (b *builder) note(list *[]Import, i Import) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Contains(*list, i) {
		*list = append(*list, i)
	}
}

// load reads a source. One that asks where it lies is told so on its first line, since
// in the bundle it lies elsewhere; defines send the question there.
func (b *builder) load(a api.OnLoadArgs) (api.OnLoadResult, error) {
	data, err := os.ReadFile(a.Path)
	if err != nil {
		return api.OnLoadResult{}, err
	}
	text := string(data)
	loader := loaders[filepath.Ext(a.Path)]
	if before := place(a.Path, text); before != "" {
		if rest, ok := strings.CutPrefix(text, "#!"); ok { // the line is no script
			text = "//" + rest
			line, rest, _ := strings.Cut(text, "\n")
			text = line + "\n" + before + rest
		} else {
			text = before + text
			b.mu.Lock()
			b.shifted[a.Path] = len(before)
			b.mu.Unlock()
		}
	}
	return api.OnLoadResult{Contents: &text, Loader: loader, ResolveDir: filepath.Dir(a.Path)}, nil
}

var loaders = map[string]api.Loader{
	".ts": api.LoaderTS, ".mts": api.LoaderTS, ".cts": api.LoaderTS, ".tsx": api.LoaderTSX,
	".js": api.LoaderJS, ".mjs": api.LoaderJS, ".cjs": api.LoaderJS, ".jsx": api.LoaderJSX,
}

// place declares what a source uses of import.meta, __dirname and __filename.
func place(path, text string) string {
	var decl []string
	dir, name := quote(filepath.Dir(path)), quote(path)
	if strings.Contains(text, "import.meta") {
		decl = append(decl, "__troupe_meta=__troupe.meta("+name+")")
	}
	if strings.Contains(text, "__dirname") {
		decl = append(decl, "__troupe_dirname="+dir)
	}
	if strings.Contains(text, "__filename") {
		decl = append(decl, "__troupe_filename="+name)
	}
	if decl == nil {
		return ""
	}
	return "var " + strings.Join(decl, ",") + ";"
}

// isBuiltin says that Node has a module of this name.
func isBuiltin(name string) bool {
	if strings.HasPrefix(name, "node:") {
		return true
	}
	first, rest, deep := strings.Cut(name, "/")
	return slices.Contains(builtins, first) && !(deep && rest == "") // "buffer/" is the package
}

// builtins are Node's modules that need no prefix.
var builtins = strings.Fields(`assert async_hooks buffer child_process cluster console constants crypto dgram
	diagnostics_channel dns domain events fs http http2 https inspector module net os path perf_hooks process
	punycode querystring readline repl stream string_decoder sys timers tls trace_events tty url util v8 vm
	wasi worker_threads zlib`)

// missing is the error of Node for a name that nothing has.
func missing(name string) error { return &Error{Text: "Cannot find module '" + name + "'"} }

// onDisk finds a name that is the path of a file as it stands: beside the one that asks, or in
// a package of the node_modules above it.
func onDisk(name, dir string) (string, bool) {
	isFile := func(path string) bool {
		info, err := os.Stat(path)
		return err == nil && info.Mode().IsRegular()
	}
	if filepath.IsAbs(name) {
		return name, isFile(name)
	}
	if strings.HasPrefix(name, "./") || strings.HasPrefix(name, "../") {
		path := filepath.Join(dir, name)
		return path, isFile(path)
	}
	for ; ; dir = filepath.Dir(dir) {
		path := filepath.Join(dir, "node_modules", name)
		if isFile(path) {
			if real, err := filepath.EvalSymlinks(path); err == nil {
				path = real
			}
			return path, true
		}
		if dir == filepath.Dir(dir) {
			return "", false
		}
	}
}

// Resolve gives the file that an import in the file from means: of any kind, for who asks may
// want to read it.
func Resolve(name, from string, o Options) (string, error) {
	if file, ok := onDisk(name, filepath.Dir(from)); ok {
		return file, nil
	}
	b, err := Module(name, from, false, o)
	if err != nil {
		return "", err
	}
	if len(b.Inputs) == 0 {
		return "", missing(name)
	}
	return b.First, nil
}
