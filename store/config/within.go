package config

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// OutsideError reports that a client has named a file outside the directories that it may name.
type OutsideError struct {
	Member string // of open_session, such as "settings.skills"
	Path   string
}

func (e *OutsideError) Error() string {
	return fmt.Sprintf("Clients over the network may name files below the daemon's --root directories only: %s: %s", e.Member, e.Path)
}

// errOutside is the problem of a file that a link leads to from a directory that a client has named.
var errOutside = fmt.Errorf("a link that leads out of the daemon's --root directories")

// refuses reports, as a problem too, that a file of a place which the client has named is not one that it may name.
func (in *intake) refuses(d Dirs, file string, where place) bool {
	if !where.held {
		return false
	}
	if d.mayName(file) {
		in.hold(d, file)
		return false
	}
	in.add(file, errOutside)
	return true
}

// hold has a file that the client has named read only where the client may name files.
func (in *intake) hold(d Dirs, file string) {
	if d.Within == nil {
		return
	}
	if in.held == nil {
		in.held = map[string]func(string) bool{}
	}
	in.held[file] = d.Within
}

// mayName reports whether the session's client may name a path.
func (d Dirs) mayName(path string) bool { return d.Within == nil || d.Within(path) }

// checkNamed returns an [OutsideError] if the settings of a client name a file that it may not name.
func (d Dirs) checkNamed(own layer) error {
	if d.Within == nil {
		return nil
	}
	s := Defaults()
	s.apply(own)
	for _, m := range []struct {
		member, path string
		raw          bool
	}{{"sessionDir", s.SessionDir, false}, {"shellPath", s.ShellPath, true}, {"task.isolation.base", s.Task.Isolation.Base, true}} {
		path := d.expand(m.path, d.Cwd)
		raw := m.raw && path != m.path // the path is used as it is written, relative to the daemon's directory
		if m.path != "" && (raw || !d.Within(path)) {
			return &OutsideError{"settings." + m.member, m.path}
		}
	}
	for _, m := range []struct {
		member string
		list   []Named
	}{
		{"skills", s.Skills}, {"prompts", s.Prompts}, {"extensions", s.Extensions}, {"hooks", s.Hooks}, {"customTools", s.CustomTools},
	} {
		for _, n := range m.list {
			if !d.mayUse(n) {
				return &OutsideError{"settings." + m.member, n.Text}
			}
		}
	}
	for _, ref := range s.Packages {
		if o := d.origin(ref.Source, ref.Base); o.kind == fromPath && !d.Within(o.path) {
			return &OutsideError{"settings.packages", ref.Source}
		}
	}
	return nil
}

// mayUse reports whether all files that an entry of a list names are where the client may name some.
// A filter names none.
func (d Dirs) mayUse(n Named) bool {
	if n.Text == "" || signed(n.Text) {
		return true
	}
	for _, text := range []string{n.Text, plainSpaces(n.Text)} { // extensions read other spaces as plain ones
		path := d.expand(text, n.Base)
		if strings.ContainsAny(text, "*?[{") {
			found, _ := doublestar.FilepathGlob(path) // a wrong pattern is named where it is used
			for _, file := range found {
				if !d.Within(file) {
					return false
				}
			}
			path, _ = doublestar.SplitPattern(filepath.ToSlash(path))
		}
		if !d.Within(path) {
			return false
		}
	}
	return true
}

// checkTexts returns an [OutsideError] if a text that may be the name of a file is one that the client may not name.
func (d Dirs) checkTexts(member, value string) error {
	if path := d.expand(value, d.Cwd); value != "" && !d.mayName(path) && exists(path) {
		return &OutsideError{member, value}
	}
	return nil
}

// CheckPrompts returns an [OutsideError] if the prompts of open_session name a file that its client may not name.
func (d Dirs) CheckPrompts(system, more string) error {
	if err := d.checkTexts("systemPrompt", system); err != nil {
		return err
	}
	return d.checkTexts("appendSystemPrompt", more)
}
