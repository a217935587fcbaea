package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"troupe/protocol"
)

// Form is what an extension was when its place got its name. Its code decides what
// it is; the form is the first guess.
type Form string

const (
	AnExtension Form = "extension"
	AHook       Form = "hook" // pi up to 0.34
	ACustomTool Form = "tool" // pi up to 0.34
)

// Extension is a module that somebody wants to run. What is here was found by
// reading names and manifests; nothing of it has run.
type Extension struct {
	Path string // as it was found, and as clients are told
	Real string // without symbolic links: what it is known by, and where its imports start
	Form Form

	Source  string // cli, local (settings), auto (a directory of extensions), or the package as it is named
	Scope   string // user, project or temporary
	Package bool   // it is part of a package
	Base    string // the directory of the package, or of the settings that name it; "" for none
}

// Words of Extension.Source and Extension.Scope, which clients see.
const (
	sourceCLI, sourceLocal, sourceAuto = "cli", "local", "auto"
	scopeTemporary                     = "temporary"
)

// ExtensionFlags is what the command line says of extensions.
type ExtensionFlags struct {
	Sources []string        // -e: files, directories and packages
	Hooks   []string        // --hook
	Tools   []string        // --tool
	None    bool            // only those of the command line
	Host    string          // what runs them; HostOff for nothing
	Global  func() []string // node_modules directories of npm -g, where old versions of pi installed packages
}

// HostOff is the host that runs no extension, because somebody said so.
const HostOff = "off"

// FindExtensions finds packages and extensions by what settings and command line
// say.
func FindExtensions(d Dirs, s *Settings, f ExtensionFlags) ([]Package, []Extension, []Problem) {
	packages, problems := LoadPackages(PackageSources{Dirs: d, Named: s.Packages, Flags: f.Sources, Global: f.Global})
	found, more := LoadExtensions(ExtensionSources{
		Dirs: d, Named: s.Extensions, Hooks: s.Hooks, Tools: s.CustomTools, Packages: packages, Flags: f,
	})
	return packages, found, append(problems, more...)
}

// ExtensionSources says where extensions are looked for, beside the places where
// they always lie.
type ExtensionSources struct {
	Dirs
	Named, Hooks, Tools []Named // of the settings: extensions, hooks, customTools
	Packages            []Package
	Flags               ExtensionFlags
}

// LoadExtensions finds extensions, in the order in which they are to be loaded:
// those of the command line; the project's, of its settings and of
// .pi/extensions; the user's likewise; those of packages. What older versions of pi
// called hooks and custom tools comes after the extensions of the same scope. One file
// is one extension, at the first place where it is found.
//
// They are programs, so those of a project need its trust, in every dialect.
func LoadExtensions(s ExtensionSources) ([]Extension, []Problem) {
	scan := extensionScan{ExtensionSources: s, intake: s.take("extensions"), seen: map[string]bool{}}
	for _, f := range []struct {
		form  Form
		flags []string
	}{{AnExtension, s.Flags.Sources}, {AHook, s.Flags.Hooks}, {ACustomTool, s.Flags.Tools}} {
		for _, flag := range f.flags {
			scan.flag(flag, f.form)
		}
	}
	if s.Flags.None {
		return scan.found, scan.problems
	}
	scan.named(Path)
	if s.Access == Everything && s.project() != s.Agent { // somebody works in the directory above the agent's
		scan.named(Project)
	}
	scan.named(User)
	for _, p := range s.Packages {
		scan.pack(p, false)
	}
	return scan.found, scan.problems
}

type extensionScan struct {
	ExtensionSources
	*intake
	found []Extension
	seen  map[string]bool // real paths
}

// flag takes up what the command line names: a package, or a file or directory.
func (s *extensionScan) flag(source string, form Form) {
	if i := slices.IndexFunc(s.Packages, func(p Package) bool { return p.flag && p.Source == source }); i >= 0 {
		s.pack(s.Packages[i], true)
		return
	}
	if o := s.origin(source, s.Cwd); o.kind == fromPath { // a package that is not there has been named
		s.note(s.at(o.path, Path, 0), Extension{Form: form, Source: sourceCLI, Scope: scopeTemporary}, nil)
	}
}

// pack takes up the extensions of a package.
func (s *extensionScan) pack(p Package, flag bool) {
	if p.flag != flag {
		return
	}
	as := Extension{Form: AnExtension, Source: p.Source, Scope: string(p.Location), Package: true, Base: p.Root}
	if p.Location == Path {
		as.Scope = scopeTemporary
	}
	for _, where := range p.places[kindExtensions] {
		s.note(s.allowed(s.in(where), where.held), as, where.only)
	}
}

// named takes up what the settings of a scope name, and what lies in its
// directories.
func (s *extensionScan) named(scope Location) {
	base := map[Location]string{Path: s.Cwd, Project: s.Dirs.project(), User: s.Agent}[scope]
	for _, old := range []struct {
		form  Form
		named []Named
		auto  func(base string) []string
	}{{AnExtension, s.Named, s.autoExtensions}, {AHook, s.Hooks, s.autoHooks}, {ACustomTool, s.Tools, s.autoTools}} {
		as := Extension{Form: old.form, Source: sourceLocal, Scope: string(scope), Base: base}
		if scope == Path {
			as.Scope = scopeTemporary
		}
		filter := &choice{root: base}
		for _, n := range old.named {
			if n.Location == scope && signed(n.Text) {
				filter.manifest = append(filter.manifest, n.Text[:1]+s.expand(plainSpaces(n.Text[1:]), ""))
			}
		}
		for _, n := range old.named {
			if n.Location == scope && n.Text != "" && !signed(n.Text) {
				s.note(s.allowed(s.pattern(n), scope == Path), as, filter)
			}
		}
		if as.Source = sourceAuto; scope != Path {
			s.note(old.auto(base), as, filter)
		}
	}
}

// allowed leaves out files that the client has named, if held, and may not name.
func (s *extensionScan) allowed(files []string, held bool) []string {
	return slices.DeleteFunc(files, func(file string) bool { return s.refuses(s.Dirs, file, place{held: held}) })
}

// note takes up files, those that a choice does not want and those that are there
// already left out.
func (s *extensionScan) note(files []string, as Extension, only *choice) {
	for _, file := range files {
		as.Path, as.Real = file, real(file)
		if s.seen[as.Real] || only != nil && !only.takes(file) {
			continue
		}
		s.seen[as.Real] = true
		s.found = append(s.found, as)
	}
}

// pattern lists what an entry of settings means.
func (s *extensionScan) pattern(n Named) []string {
	path := s.expand(plainSpaces(n.Text), n.Base)
	if !strings.ContainsAny(n.Text, "*?[{") || exists(path) {
		return s.at(path, n.Location, 0)
	}
	found, err := doublestar.FilepathGlob(path)
	if err != nil {
		s.add(path, err)
	}
	var files []string
	for _, f := range found {
		files = append(files, s.at(f, n.Location, 0)...)
	}
	return files
}

// in lists the files of a place of a package.
func (s *extensionScan) in(where place) []string {
	if !where.mustBe && !exists(where.path) {
		return nil
	}
	return s.at(where.path, where.location, 0)
}

// at lists the files that a path means which somebody named: a file, a directory
// that is an extension, or one with extensions in it. What is not there is listed, too.
func (s *extensionScan) at(path string, location Location, depth int) []string {
	st, err := os.Stat(path)
	switch {
	case isAbsent(err): // whoever loads it says so, and knows whether it was a gate
		return []string{path}
	case err != nil:
		s.add(path, err)
		return nil
	case !st.IsDir():
		if !slices.Contains(moduleNames, filepath.Ext(path)) {
			s.add(path, fmt.Errorf("an extension is one of %s", strings.Join(moduleNames, " ")))
			return nil
		}
		return []string{path}
	case depth == protocol.MaxDepth:
		s.add(path, errors.New("manifests name each other in a circle"))
		return nil
	}
	files, is := s.own(path, location, depth)
	if !is {
		if files = s.auto(path, location); len(files) == 0 {
			s.add(path, errors.New("no extension in this directory"))
		}
	}
	return files
}

// moduleNames are the ends of names of files that may be extensions when
// somebody names them; of those that are found only the first two are.
var moduleNames = []string{".ts", ".js", ".mts", ".cts", ".mjs", ".cjs", ".tsx", ".jsx"}

// isModule says whether a file that was found is an extension. Declarations of
// types have nothing to run.
func isModule(name string) bool {
	return slices.Contains(moduleNames[:2], filepath.Ext(name)) && !strings.HasSuffix(name, ".d.ts")
}

// own lists the files of a directory that is an extension itself: what its manifest
// names, and nothing else, or its index.
func (s *extensionScan) own(dir string, location Location, depth int) (files []string, is bool) {
	if manifest, _ := s.manifest(dir, location); manifest.Get(kindExtensions).Exists() {
		entries, err := stringList(manifest.Get(kindExtensions))
		if err != nil {
			s.add(filepath.Join(dir, "package.json"), fmt.Errorf("%s: %w", kindExtensions, err))
		}
		filter := &choice{root: dir, manifest: entries}
		for _, where := range s.listed(dir, entries, location) {
			for _, file := range s.at(where.path, location, depth+1) {
				if filter.takes(file) {
					files = append(files, file)
				}
			}
		}
		return files, true
	}
	return indexOf(dir)
}

// indexOf is the file that stands for a directory.
func indexOf(dir string) (files []string, is bool) {
	for _, name := range []string{"index.ts", "index.js"} {
		if file := filepath.Join(dir, name); exists(file) {
			return []string{file}, true
		}
	}
	return nil, false
}

// auto lists what is in a directory of extensions: its files and the directories
// in it that are extensions; no deeper.
func (s *extensionScan) auto(dir string, location Location) (files []string) {
	if !exists(dir) {
		return nil
	}
	rules := ignoreIn(dir, nil)
	for _, e := range s.list(dir, location) {
		path := filepath.Join(dir, e.Name())
		st, err := os.Stat(path) // through symbolic links
		switch {
		case err != nil || e.Name()[0] == '.' || e.Name() == "node_modules" || rules.Ignored(filepath.ToSlash(path), st.IsDir()):
		case !st.IsDir():
			if isModule(e.Name()) {
				files = append(files, path)
			}
		default:
			own, _ := s.own(path, location, 0)
			within := ignoreIn(path, rules)
			files = append(files, slices.DeleteFunc(own, func(f string) bool { return within.Ignored(filepath.ToSlash(f), false) })...)
		}
	}
	return files
}

// autoExtensions lists what lies in the directories of extensions below the
// project's .pi or the agent directory.
func (s *extensionScan) autoExtensions(base string) (files []string) {
	for _, dir := range s.bases(base) {
		files = append(files, s.auto(filepath.Join(dir, "extensions"), User)...)
	}
	return files
}

// autoHooks lists the files in the directories of hooks; oh-my-pi has two below.
func (s *extensionScan) autoHooks(base string) (files []string) {
	dirs := []string{"hooks"}
	if s.ofOMP() {
		dirs = append(dirs, "hooks/pre", "hooks/post")
	}
	for _, dir := range s.bases(base) {
		for _, name := range dirs {
			for _, e := range s.auto(filepath.Join(dir, name), User) {
				if filepath.Dir(e) == filepath.Join(dir, name) {
					files = append(files, e)
				}
			}
		}
	}
	return files
}

// autoTools lists the custom tools: each a directory with an index. Programs that old
// versions of pi kept beside them are none.
func (s *extensionScan) autoTools(base string) (files []string) {
	for _, dir := range s.bases(base) {
		dir = filepath.Join(dir, "tools")
		if !exists(dir) {
			continue
		}
		for _, e := range s.list(dir, User) {
			if e.Name()[0] != '.' && e.Name() != "node_modules" {
				found, _ := indexOf(filepath.Join(dir, e.Name()))
				files = append(files, found...)
			}
		}
	}
	return files
}

// bases are the directories that a scope keeps its things in: oh-my-pi has another
// one in projects, beside pi's.
func (s *extensionScan) bases(base string) []string {
	if base == s.Dirs.project() && s.ofOMP() {
		return []string{base, filepath.Join(s.Cwd, ".omp")}
	}
	return []string{base}
}

// ofOMP says whether the agent directory is one of oh-my-pi.
func (d Dirs) ofOMP() bool {
	return slices.Contains(strings.Split(filepath.ToSlash(d.Agent), "/"), ".omp")
}
