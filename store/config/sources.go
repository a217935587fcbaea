package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Sources says where templates or skills are looked for, beside the places
// where they always lie.
type Sources struct {
	Dirs
	Named      []Named // of the settings
	Packages   []Package
	Flags      []string // files and directories of the command line
	NoDefaults bool     // only those of the command line
}

// place is a file or directory to look at.
type place struct {
	path     string
	location Location
	loose    bool     // Markdown files directly in it are resources (skills)
	mustBe   bool     // somebody named it, so that its absence is a problem
	of       *Package // what it is part of; nil for what is no package
	only     *choice  // of a package: which files; the settings' filters are not about it
	held     bool     // the client has named it: only files that it may name count
}

// named lists the places that settings and command line name, patterns
// resolved.
func (s Sources) named(p *problems) []place {
	var places []place
	if !s.NoDefaults {
		for _, n := range s.Named {
			places = append(places, s.resolve(n, p)...)
		}
	}
	for _, flag := range s.Flags {
		places = append(places, place{path: s.expand(flag, s.Cwd), location: Path, loose: true, mustBe: true})
	}
	return places
}

// packed lists the places of a kind that packages have.
func (s Sources) packed(kind string) (places []place) {
	for _, p := range s.Packages {
		if !s.NoDefaults || p.flag {
			places = append(places, p.places[kind]...)
		}
	}
	return places
}

// takes says whether a file found at a place is wanted.
func (s Sources) takes(file string, where place) bool {
	if where.only != nil {
		return where.only.takes(file)
	}
	return s.wanted(file, where.location)
}

func (s Sources) resolve(n Named, p *problems) []place {
	if n.Text == "" || strings.ContainsRune("!+-", rune(n.Text[0])) {
		return nil
	}
	path := s.expand(n.Text, n.Base)
	if !strings.ContainsAny(n.Text, "*?[{") || exists(path) {
		return []place{{path: path, location: Path, loose: true, mustBe: true, held: n.Location == Path}}
	}
	found, err := doublestar.FilepathGlob(path)
	if err != nil {
		p.add(path, err)
	}
	var places []place
	for _, f := range found {
		places = append(places, place{path: f, location: Path, loose: true, held: n.Location == Path})
	}
	return places
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// wanted applies the filters of the settings to a resource: of those that fit,
// the last decides. !pattern takes away what matches it, by path, by path below
// the settings' directory or by name; -path and +path take away and bring back
// one.
func (s Sources) wanted(file string, location Location) bool {
	if location == Path && s.NoDefaults {
		return true
	}
	wanted := true
	for _, n := range s.Named {
		if n.Text == "" || location != Path && n.Location != location {
			continue
		}
		switch pattern := n.Text[1:]; n.Text[0] {
		case '!':
			if matches(pattern, file, n.Base) {
				wanted = false
			}
		case '-':
			wanted = wanted && !names(s.expand(pattern, n.Base), file)
		case '+':
			wanted = wanted || names(s.expand(pattern, n.Base), file)
		}
	}
	return wanted
}

// names says whether a path means a file: it is the file, or the directory of
// a skill.
func names(path, file string) bool { return path == file || path == filepath.Dir(file) }

func matches(pattern, file, base string) bool {
	candidates := []string{file, filepath.Base(file), filepath.Base(filepath.Dir(file)), filepath.Dir(file)}
	if rel, err := filepath.Rel(base, file); err == nil {
		candidates = append(candidates, rel, filepath.Dir(rel))
	}
	return slices.ContainsFunc(candidates, func(c string) bool {
		return doublestar.MatchUnvalidated(filepath.ToSlash(pattern), filepath.ToSlash(c))
	})
}
