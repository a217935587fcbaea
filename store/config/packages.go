package config

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/tidwall/gjson"

	"troupe/protocol"
)

// PackageRef is a package as settings or the command line name it: npm:name@range,
// git:host/owner/repo@ref, the URL of a repository, or a path.
type PackageRef struct {
	Source   string
	Base     string   // the directory relative paths start from
	Location Location // who names it
	Adjusts  bool     // a project's word about the user's package, which stays: autoload is false
	// Only chooses among what the package has, by kind; a kind that is not in it is
	// taken whole, and of one with an empty list nothing is.
	Only map[string][]string
}

// Kinds of what packages have, as manifests and settings call them. Themes are
// for screens.
const (
	kindExtensions = "extensions"
	kindSkills     = "skills"
	kindPrompts    = "prompts"
	kindThemes     = "themes"
)

// Package is a package that is installed.
type Package struct {
	Source   string // as it is named
	Root     string
	Location Location // who names it; Path for the command line and the client
	flag     bool     // of the command line
	held     bool     // a path of the client's: only files that it may name count
	places   map[string][]place
}

// sourceOf says in the words of pi 1.x where a part of a package comes from.
func (p *Package) sourceOf(file string) *protocol.SourceInfo {
	if p == nil {
		return nil
	}
	scope := string(p.Location)
	if p.Location == Path {
		scope = scopeTemporary
	}
	return &protocol.SourceInfo{Path: file, Source: p.Source, Scope: scope, Origin: "package", BaseDir: p.Root}
}

// PackageSources says which packages are looked for, and where.
type PackageSources struct {
	Dirs
	Named  []PackageRef    // of the settings
	Flags  []string        // of the command line; what names no package is passed over
	Global func() []string // node_modules directories of npm -g, where old versions of pi installed
}

// LoadPackages finds what is installed of the packages that are named: first those
// of the command line, then the project's, then the user's. Of several names for one
// package the first counts. Nothing is ever installed: pi does that, and who starts an
// agent has not asked for it.
func LoadPackages(s PackageSources) ([]Package, []Problem) {
	scan := packageScan{PackageSources: s, intake: s.take("packages"), at: map[string]int{}}
	for _, flag := range s.Flags {
		if o := s.origin(flag, s.Cwd); o.kind != fromPath || isPackage(o.path) {
			scan.add(PackageRef{Source: flag, Base: s.Cwd, Location: Path}, o, true)
		}
	}
	for _, whose := range []Location{Path, Project, User} {
		for _, adjusts := range []bool{false, true} {
			for _, ref := range s.Named {
				if ref.Location == whose && ref.Adjusts == adjusts {
					scan.add(ref, s.origin(ref.Source, ref.Base), false)
				}
			}
		}
	}
	var found []Package
	for _, n := range scan.named {
		if p, ok := scan.resolve(n); ok {
			found = append(found, p)
		}
	}
	return found, scan.problems
}

type packageScan struct {
	PackageSources
	*intake
	named []namedPackage
	at    map[string]int // by identity: the place in named
}

// namedPackage is a package and all that is said about it.
type namedPackage struct {
	PackageRef
	origin
	flag   bool
	adjust []map[string][]string // words of the project about what is the user's
}

// add notes a package, unless somebody with more to say has named it. What only
// adjusts is kept until the package itself is named.
func (s *packageScan) add(ref PackageRef, o origin, flag bool) {
	i, known := s.at[o.id]
	switch {
	case !known:
		s.at[o.id] = len(s.named)
		s.named = append(s.named, namedPackage{PackageRef: ref, origin: o, flag: flag})
	case s.named[i].Adjusts && !ref.Adjusts:
		adjust := append(s.named[i].adjust, s.named[i].Only)
		s.named[i] = namedPackage{PackageRef: ref, origin: o, adjust: adjust}
	}
}

// resolve finds a package's directory and what is in it.
func (s *packageScan) resolve(n namedPackage) (Package, bool) {
	p := Package{Source: n.Source, Location: n.Location, flag: n.flag, held: n.Location == Path && !n.flag && n.kind == fromPath, places: map[string][]place{}}
	switch {
	case n.Adjusts: // nobody names what it is about
		return p, false
	case n.wrong != "":
		s.problems.add(n.Source, errors.New(n.wrong))
		return p, false
	}
	i := slices.IndexFunc(s.lies(n), exists)
	if i < 0 {
		s.problems.add(n.Source, n.absent())
		return p, false
	}
	p.Root = s.lies(n)[i]
	if st, err := os.Stat(p.Root); err == nil && !st.IsDir() { // a path may name a single file
		p.places[kindExtensions] = []place{{path: p.Root, mustBe: true, held: p.held}}
		return p, true
	}
	s.fill(&p, n)
	whose := Package{Source: p.Source, Root: p.Root, Location: p.Location}
	for _, places := range p.places {
		for i := range places {
			places[i].of = &whose
		}
	}
	return p, true
}

// piSays is a sentence that pi's users know.
type piSays string

func (p piSays) Error() string { return string(p) }

// absent says that a package is not there, and what would bring it.
func (n namedPackage) absent() error {
	switch {
	case n.kind == fromPath:
		return piSays("Package path does not exist: " + n.path)
	case n.Location == Project:
		return piSays(fmt.Sprintf("Package not installed: %s (pi install -l %s)", n.Source, n.Source))
	}
	return piSays(fmt.Sprintf("Package not installed: %s (pi install %s)", n.Source, n.Source))
}

// fill finds what a package has: what its manifest lists, or what is in the
// directories that are called as the kinds are. One with neither is an extension.
func (s *packageScan) fill(p *Package, n namedPackage) {
	manifest, version := s.manifest(p.Root, n.Location)
	if o := n.origin; o.exact() && version != "" && version != o.ref {
		s.problems.add(n.Source, fmt.Errorf("version %s is installed", version))
	}
	listed := manifest.IsObject()
	for _, kind := range []string{kindExtensions, kindSkills, kindPrompts} {
		choice := &choice{root: p.Root}
		if list := manifest.Get(kind); list.Exists() {
			entries, err := stringList(list)
			if err != nil {
				s.problems.add(filepath.Join(p.Root, "package.json"), fmt.Errorf("%s: %w", kind, err))
			}
			choice.manifest = entries
			p.places[kind] = s.listed(p.Root, entries, n.Location)
		} else if dir := filepath.Join(p.Root, kind); !listed && exists(dir) {
			p.places[kind] = []place{{path: dir, location: n.Location, loose: true}}
		}
		choice.only = n.Only[kind]
		for _, words := range n.adjust {
			choice.adjust = append(choice.adjust, words[kind])
		}
		for i := range p.places[kind] {
			p.places[kind][i].only, p.places[kind][i].held = choice, p.held
		}
	}
	bare := len(p.places) == 0 && !exists(filepath.Join(p.Root, kindThemes))
	_, index := indexOf(p.Root)
	if !listed && (bare || index && n.kind == fromPath && p.places[kindExtensions] == nil) {
		p.places[kindExtensions] = []place{{path: p.Root, location: n.Location, mustBe: true}}
	}
}

// manifest reads what a directory says of itself as a package of pi, or of
// oh-my-pi. Without a word of it the result is no object.
func (in *intake) manifest(dir string, location Location) (manifest gjson.Result, version string) {
	file := filepath.Join(dir, "package.json")
	src, ok := in.readIfThere(file, location)
	if !ok {
		return gjson.Result{}, ""
	}
	tree, problem := parse(file, []byte(src))
	if problem != nil {
		in.problems = append(in.problems, *problem)
	}
	for _, key := range []string{"pi", "omp"} {
		if m := tree.Get(key); m.IsObject() {
			return m, tree.Get("version").Str
		}
	}
	return gjson.Result{}, tree.Get("version").Str
}

// listed are the places that the entries of a manifest mean: paths and patterns.
func (in *intake) listed(root string, entries []string, location Location) []place {
	var places []place
	for _, entry := range entries {
		switch {
		case entry == "" || signed(entry):
		case strings.ContainsAny(entry, "*?[{") && !exists(filepath.Join(root, entry)):
			found, err := doublestar.Glob(os.DirFS(root), strings.TrimPrefix(filepath.ToSlash(entry), "./"))
			if err != nil {
				in.add(filepath.Join(root, entry), err)
			}
			for _, f := range found {
				places = append(places, place{path: filepath.Join(root, f), location: location, loose: true})
			}
		default:
			places = append(places, place{path: filepath.Join(root, entry), location: location, loose: true, mustBe: true})
		}
	}
	return places
}

// isPackage says whether a directory calls itself a package, or is laid out as
// one.
func isPackage(dir string) bool {
	manifest, _ := new(intake).manifest(dir, User)
	return manifest.IsObject() || slices.ContainsFunc([]string{kindExtensions, kindSkills, kindPrompts}, func(kind string) bool {
		st, err := os.Stat(filepath.Join(dir, kind))
		return err == nil && st.IsDir()
	})
}

// signed says whether an entry of a list is a filter and names nothing by itself.
func signed(entry string) bool { return entry != "" && strings.ContainsRune("!+-", rune(entry[0])) }

// choice says which files of a package are wanted.
type choice struct {
	root     string
	manifest []string   // signs of the manifest; what it names otherwise are places
	only     []string   // of the settings; nil takes all, an empty list nothing
	adjust   [][]string // of the project, about what the user has
}

func (c *choice) takes(file string) bool {
	wanted := c.signs(c.manifest, file, true)
	if c.only != nil {
		plain := slices.ContainsFunc(c.only, func(e string) bool { return !signed(e) })
		named := c.names(c.only, file)
		wanted = c.signs(c.only, file, wanted && len(c.only) > 0 && (named || !plain))
	}
	for _, list := range c.adjust {
		wanted = c.signs(list, file, wanted || c.names(list, file))
	}
	return wanted
}

// names says whether a list has a file without a sign.
func (c *choice) names(list []string, file string) bool {
	return slices.ContainsFunc(list, func(e string) bool {
		return e != "" && !signed(e) && (matches(strings.TrimPrefix(e, "./"), file, c.root) || below(filepath.Join(c.root, e), file))
	})
}

// signs applies the filters of a list: !pattern takes away, +path brings back,
// -path takes away for good, in this order.
func (c *choice) signs(list []string, file string, wanted bool) bool {
	for _, sign := range "!+-" {
		for _, entry := range list {
			if entry == "" || rune(entry[0]) != sign {
				continue
			}
			switch arg := entry[1:]; sign {
			case '!':
				wanted = wanted && !matches(strings.TrimPrefix(arg, "./"), file, c.root)
			case '+':
				wanted = wanted || names(absolute(arg, c.root), file)
			case '-':
				wanted = wanted && !names(absolute(arg, c.root), file)
			}
		}
	}
	return wanted
}

func absolute(path, base string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(base, path)
}

// from is how a package is got.
type from uint8

const (
	fromPath from = iota
	fromNPM
	fromGit
	fromPi // it is in pi itself
)

// origin is what the source of a package says.
type origin struct {
	kind  from
	id    string // the same for every source that means this package
	path  string // absolute; of npm the package's name; of git the path at the host
	host  string
	ref   string // a version or a range, a branch or a commit
	wrong string // why it cannot be one
}

// exact says whether the source wants one version.
func (o origin) exact() bool {
	return o.kind == fromNPM && o.ref != "" && strings.Trim(o.ref, "0123456789.") == "" && strings.Count(o.ref, ".") == 2
}

// origin reads the source of a package. What is none of the other kinds is a path.
func (d Dirs) origin(source, base string) origin {
	scheme, rest, ok := strings.Cut(source, ":")
	switch {
	case ok && scheme == "builtin":
		return origin{kind: fromPi, id: source, wrong: "this version has no built-in extensions"}
	case ok && scheme == "npm":
		return npmOrigin(rest)
	case ok && scheme == "git" && !strings.HasPrefix(rest, "//"):
		return gitOrigin(rest)
	case ok && slices.Contains([]string{"https", "http", "ssh", "git"}, scheme):
		return gitOrigin(source)
	}
	path := d.expand(plainSpaces(source), base)
	return origin{kind: fromPath, id: real(path), path: path}
}

func npmOrigin(source string) origin {
	name, ref := source, ""
	if i := strings.LastIndexByte(source, '@'); i > 0 {
		name, ref = source[:i], source[i+1:]
	}
	o := origin{kind: fromNPM, id: "npm:" + name, path: name, ref: ref}
	if slash := strings.Count(name, "/"); !filepath.IsLocal(name) || filepath.Clean(name) != name || slash > 1 || (slash == 1) != (name[0] == '@') {
		o.wrong = "no name of an npm package"
	}
	return o
}

// gitOrigin reads host/owner/repo@ref, user@host:owner/repo@ref or a URL with @ref
// or #ref behind it.
func gitOrigin(source string) origin {
	o := origin{kind: fromGit, wrong: "no address of a repository"}
	if u, err := url.Parse(source); err == nil && u.Host != "" {
		o.host, o.path, o.ref = u.Hostname(), u.Path, u.Fragment
	} else {
		source, o.ref, _ = strings.Cut(source, "#")
		if i := strings.IndexByte(source, '@'); i >= 0 && i < strings.IndexByte(source, ':') {
			source = strings.Replace(source[i+1:], ":", "/", 1)
		}
		o.host, o.path, _ = strings.Cut(source, "/")
	}
	if i := strings.LastIndexByte(o.path, '@'); i > 0 {
		o.path, o.ref = o.path[:i], o.path[i+1:]
	}
	o.path = strings.TrimSuffix(strings.Trim(o.path, "/"), ".git")
	o.id = "git:" + o.host + "/" + o.path
	if o.host != "" && filepath.IsLocal(o.host) && filepath.IsLocal(o.path) && filepath.Clean(o.path) == o.path && strings.Contains(o.path, "/") {
		o.wrong = ""
	}
	return o
}

// lies are the directories a package may be installed in.
func (s *packageScan) lies(n namedPackage) []string {
	below := filepath.Join("git", n.host, n.path)
	switch n.kind {
	case fromPath:
		return []string{n.path}
	case fromNPM:
		below = filepath.Join("npm", "node_modules", n.path)
	case fromGit, fromPi:
	}
	user := []string{filepath.Join(s.Agent, below)}
	if n.kind == fromNPM && s.Global != nil && !exists(user[0]) {
		for _, dir := range s.Global() {
			user = append(user, filepath.Join(dir, n.path))
		}
	}
	project := filepath.Join(s.Dirs.project(), below)
	switch {
	case n.flag:
		all := append(s.tried(n.origin), user...)
		if s.Access == Everything {
			all = append(all, project)
		}
		return all
	case n.Location == Project:
		return []string{project}
	}
	return user
}

// tried are the directories where pi keeps packages of its command line, each
// below a name made of a hash.
func (s *packageScan) tried(o origin) []string {
	const hash = "[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]"
	last := filepath.Join("node_modules", o.path)
	if o.kind == fromGit {
		last = o.path
	}
	var found []string
	all := filepath.Join(s.Agent, "tmp", "extensions")
	if !exists(all) {
		return nil
	}
	for _, dir := range s.list(all, User) {
		under, err := filepath.Glob(filepath.Join(all, dir.Name(), hash))
		if err != nil || o.kind == fromGit && !strings.Contains(dir.Name(), o.host) {
			continue
		}
		for _, u := range under {
			found = append(found, filepath.Join(u, last))
		}
	}
	return found
}

// plainSpaces makes spaces of the other kinds, which come with paths that were
// copied from a page, plain ones.
func plainSpaces(path string) string {
	return strings.Map(func(r rune) rune {
		if r == '\u00a0' || r >= '\u2000' && r <= '\u200a' || r == '\u202f' || r == '\u205f' || r == '\u3000' {
			return ' '
		}
		return r
	}, path)
}

// packages takes over a list of packages, each a source or an object with it.
func packages(dst *[]PackageRef, base string, location Location) func(gjson.Result) error {
	return func(v gjson.Result) error {
		if !v.IsArray() {
			return errors.New("want a list of packages")
		}
		var list []PackageRef
		for _, item := range v.Array() {
			ref := PackageRef{Source: strings.Clone(item.Str), Base: base, Location: location, Only: map[string][]string{}}
			if item.IsObject() {
				ref.Source = strings.Clone(item.Get("source").Str)
				ref.Adjusts = location == Project && item.Get("autoload").Type == gjson.False
				for _, kind := range []string{kindExtensions, kindSkills, kindPrompts} {
					if only := item.Get(kind); only.Exists() {
						entries, err := stringList(only)
						if err != nil {
							return fmt.Errorf("%s: %w", kind, err)
						}
						ref.Only[kind] = entries
					}
				}
			}
			if ref.Source == "" {
				return errors.New("want sources of packages, or objects with one")
			}
			if list = append(list, ref); len(list) > protocol.MaxResourceValues {
				return fmt.Errorf("more than %d entries", protocol.MaxResourceValues)
			}
		}
		*dst = append(*dst, list...)
		return nil
	}
}
