package bundle

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// gateEvents are the events whose handlers may refuse what would else happen.
var gateEvents = []string{"tool_call", "user_bash"}

// Gates says which gates an extension names in its source, or had when one of the caches
// could last have it loaded. Where an extension that guards something cannot be loaded,
// what it guards must not stand open.
func Gates(path string, caches ...*Cache) []string {
	s := search{seen: map[string]bool{}, left: mostSearched}
	if real, err := realPath(path); err == nil {
		s.file(real)
	}
	for _, c := range caches {
		if e, ok := c.last(path); ok {
			s.names(strings.Join(e.Gates, " "))
			s.missing = slices.DeleteFunc(s.missing, e.madeOf)
		}
	}
	if len(s.missing) > 0 || s.left < 0 {
		return gateEvents
	}
	return s.found
}

// mostSearched is how many bytes of sources are searched for gates; what has more may
// have any.
const mostSearched = 32 << 20

// search goes through the sources of an extension, which need not be well formed. It
// rather looks at a file too many than misses one.
type search struct {
	seen    map[string]bool
	left    int64      // bytes that it may still read, less than 0 if there were more
	found   []string   // gates, in the order of gateEvents
	missing [][]string // what is imported and cannot be read: the files that it may be
}

var (
	// namesFile finds texts that may be the name of a file beside the one that they stand in.
	namesFile = lazy("[\"'`]((?:file://)?(?:\\.{0,2}/|#)[^\"'`\\n]+|\\.{1,2})[\"'`]")
	// importsFile finds those of them that are imported for sure.
	importsFile = lazy("\\b(?:from|import|require)\\s*\\(?\\s*[\"'`](\\.{0,2}/[^\"'`\\n$]+|\\.{1,2})[\"'`]")
	// importsAny finds imports whose names are made when they run.
	importsAny = lazy("\\b(?:import|require)\\s*\\(\\s*(?:[^\"'`\\s)]|`[^`]*\\$)")
)

// file searches a file and those that it imports beside it.
func (s *search) file(path string) {
	if s.seen[path] || s.left < 0 {
		return
	}
	s.seen[path] = true
	text, dir := s.read(path), filepath.Dir(path)
	s.names(text)
	for _, m := range namesFile().FindAllStringSubmatch(text, -1) {
		if strings.HasPrefix(m[1], "#") { // the manifest says which of the package's files it is
			s.all(packageOf(dir))
			continue
		}
		for _, file := range slices.DeleteFunc(candidates(dir, m[1]), notFile) {
			s.file(file)
		}
	}
	for _, m := range importsFile().FindAllStringSubmatch(text, -1) {
		if files := candidates(dir, m[1]); !native(m[1]) && !slices.ContainsFunc(files, isFile) {
			s.missing = append(s.missing, files)
		}
	}
	if importsAny().MatchString(text) {
		s.all(dir)
	}
}

func (s *search) read(path string) string {
	info, err := os.Stat(path)
	var data []byte
	if err == nil && info.Mode().IsRegular() { // what else there is may never end
		if s.left -= info.Size(); s.left < 0 {
			return ""
		}
		data, err = os.ReadFile(path)
	}
	if err != nil && !os.IsNotExist(err) {
		s.missing = append(s.missing, []string{path})
	}
	return string(data)
}

func (s *search) names(text string) {
	for _, name := range gateEvents {
		if strings.Contains(text, name) && !slices.Contains(s.found, name) {
			s.found = append(s.found, name)
		}
	}
	slices.Sort(s.found)
}

// all searches every source below a folder that is the extension's own.
func (s *search) all(dir string) {
	if s.seen[dir] {
		return
	}
	s.seen[dir] = true
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case s.left < 0:
			return fs.SkipAll
		case err != nil:
			s.missing = append(s.missing, []string{path})
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git") && path != dir:
			return fs.SkipDir
		case loaders[filepath.Ext(path)] != 0 && !d.IsDir():
			s.file(path)
		}
		s.left -= perEntry
		return nil
	})
}

// perEntry is what an entry of a folder counts, so that a search of a large one ends.
const perEntry = 1 << 10

// packageOf is the folder of the package to which a folder belongs, that folder itself if
// it belongs to none.
func packageOf(dir string) string {
	for d := dir; d != filepath.Dir(d); d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, "package.json")); err == nil {
			return d
		}
	}
	return dir
}

// candidates are the files that an import in a folder may mean.
func candidates(dir, name string) []string {
	name, _, _ = strings.Cut(strings.TrimPrefix(name, "file://"), "?")
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	bare := strings.TrimSuffix(name, filepath.Ext(name)) // "./gate.js" may be gate.ts
	files := []string{name}
	for ext := range loaders {
		files = append(files, name+ext, bare+ext, filepath.Join(name, "index"+ext))
	}
	return files
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func notFile(path string) bool { return !isFile(path) }

// madeOf says whether one of these files was part of the bundle.
func (b *Bundle) madeOf(files []string) bool {
	return slices.ContainsFunc(b.Inputs, func(in Input) bool { return slices.Contains(files, in.Path) })
}
