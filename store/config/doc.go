// Package config reads what a person lays out for an agent: settings,
// context files, prompt templates, skills and the parts of the system prompt.
//
// It only ever reads. Nothing is kept between calls and nothing is read before
// it is asked for; what a session needs is passed on as values. What cannot be
// read or makes no sense is reported as a [Problem] and left out: a broken
// file never keeps a session from starting.
//
// Resources come from the agent directory, which is the user's, and from the
// project: .pi/ and .agents/ in the working directory. Nobody has looked at a
// project because its directory was opened, so [Parts] says of everything it
// may bring what it could do, and [Decide] whether it is trusted with that:
// without trust its text loads, and settings that cannot run programs, change
// endpoints, relax limits or grant anything. Context files (AGENTS.md) load in
// any case, as in pi: they are text for the model and name no programs to run.
//
// All of it was written by somebody else, so all of it is read within limits:
// see package bounded and [protocol.Limits].
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
)

// Dirs says where resources lie. Paths are absolute.
type Dirs struct {
	Agent string // the agent directory, ~/.pi/agent
	Cwd   string // the working directory
	Home  string // for ~ and ~/.agents; "" for none
	// Access is what the project may bring; without one it is as little as
	// there is. See Decide.
	Access Access
	// Within reports whether the session's client may name a path. It follows symbolic links;
	// nil is every path.
	Within func(path string) bool
}

func (d Dirs) project() string { return filepath.Join(d.Cwd, ".pi") }

// Location says whose a resource is, in the words of the wire.
type Location string

const (
	User    Location = "user"
	Project Location = "project"
	Path    Location = "path" // named by settings or on the command line
)

// Problem is something that was left out, and why. Line and Column count from
// 1 and are 0 where there is no position to point at.
type Problem struct {
	Path         string
	Line, Column int
	Err          error
}

func (p Problem) Error() string {
	if p.Line > 0 {
		return fmt.Sprintf("%s:%d:%d: %v", p.Path, p.Line, p.Column, p.Err)
	}
	return p.Path + ": " + p.Err.Error()
}

func (p Problem) Unwrap() error { return p.Err }

// problems collects what went wrong.
type problems []Problem

func (p *problems) add(path string, err error) {
	*p = append(*p, Problem{Path: path, Err: err})
}

// isAbsent says whether an error means that there is no such file, also
// because what should be a directory on the way is none.
func isAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// expand makes a path absolute: a leading ~ is home, a relative path is taken
// from base.
func (d Dirs) expand(path, base string) string {
	switch {
	case path == "~" && d.Home != "":
		return d.Home
	case strings.HasPrefix(path, "~/") && d.Home != "":
		return filepath.Join(d.Home, path[2:])
	case filepath.IsAbs(path):
		return filepath.Clean(path)
	}
	return filepath.Join(base, path)
}
