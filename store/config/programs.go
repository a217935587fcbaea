package config

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"troupe/protocol"
)

// Programs lists the files and directories that run because settings or the command line
// name them, or because an extension imports them: extensions, hooks, custom tools,
// packages that are directories, and the shell. Some need not exist yet. Of a project
// that is not trusted, settings name none.
func Programs(d Dirs, s *Settings, packages []Package, found []Extension) []string {
	p := programs{cwd: d.Cwd, seen: map[string]bool{}}
	if strings.ContainsRune(s.ShellPath, filepath.Separator) {
		p.add(d.expand(s.ShellPath, d.Cwd))
	}
	for _, n := range slices.Concat(s.Extensions, s.Hooks, s.CustomTools) {
		if text := strings.TrimLeft(n.Text, "+"); text != "" && !signed(text) {
			p.add(beforeWildcard(d.expand(plainSpaces(text), n.Base)))
		}
	}
	for _, ref := range s.Packages {
		if o := d.origin(ref.Source, ref.Base); o.kind == fromPath {
			p.add(o.path)
		}
	}
	for _, pack := range packages {
		p.add(pack.Root)
		p.add(filepath.Join(pack.Root, "package.json"))
	}
	for _, e := range found {
		p.module(e.Path)
		p.module(e.Real)
	}
	p.follow()
	return p.list
}

// beforeWildcard is the directory in which a pattern looks, or a path without wildcards.
func beforeWildcard(path string) string {
	if i := strings.IndexAny(path, "*?[{"); i >= 0 {
		return filepath.Dir(path[:i] + "x")
	}
	return path
}

// programs collects what runs.
type programs struct {
	cwd  string
	list []string
	seen map[string]bool
	todo []string // modules of which the imports are still to be read
}

// add takes up a file or directory. One that holds the working directory is left out:
// nothing could be edited in there. Its modules are taken up one by one.
func (p *programs) add(path string) {
	if path = filepath.Clean(path); p.seen[path] || below(path, p.cwd) {
		return
	}
	p.seen[path] = true
	p.list = append(p.list, path)
}

// module takes up a module, and where its packages are looked for.
func (p *programs) module(file string) {
	p.add(file)
	p.todo = append(p.todo, file)
	for dir := filepath.Dir(file); below(p.cwd, dir); dir = filepath.Dir(dir) {
		p.add(filepath.Join(dir, "node_modules"))
	}
}

// maxImports bounds the modules that are read.
const maxImports = 1000

// relativeImport is every string that may name another module.
var relativeImport = regexp.MustCompile("[\"'`](\\.{1,2}/[^\"'`\\n]+|\\.{1,2})[\"'`]")

var moduleEnds = []string{"", ".ts", ".js", ".mts", ".mjs", ".cts", ".cjs", ".tsx", ".jsx", ".json"}

// follow adds the modules that are imported by a relative path, and those that they import in turn.
func (p *programs) follow() {
	read := map[string]bool{}
	for len(p.todo) > 0 && len(read) < maxImports {
		file := p.todo[0]
		p.todo = p.todo[1:]
		if read[file] {
			continue
		}
		read[file] = true
		info, err := os.Stat(file)
		if err != nil || !info.Mode().IsRegular() || info.Size() > protocol.MaxTextTotal {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for _, m := range relativeImport.FindAllSubmatch(text, -1) {
			p.imported(filepath.Join(filepath.Dir(file), string(m[1])))
		}
	}
}

// imported takes up every file that an import may mean, those with other ends included:
// one that is made later would come first.
func (p *programs) imported(path string) {
	stem := path
	if slices.Contains(moduleEnds[1:], filepath.Ext(path)) {
		stem = strings.TrimSuffix(path, filepath.Ext(path))
	}
	candidates := []string{path}
	for _, end := range moduleEnds[1:] {
		candidates = append(candidates, stem+end, path+end, filepath.Join(path, "index"+end))
	}
	for _, c := range candidates {
		p.add(c)
		if info, err := os.Stat(c); err == nil && info.Mode().IsRegular() {
			p.todo = append(p.todo, c)
		}
	}
}
