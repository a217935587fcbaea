// Package resource reads what a person lays out for an agent: settings,
// context files, prompt templates, skills and the parts of the system prompt.
//
// It only ever reads. Nothing is kept between calls and nothing is read before
// it is asked for; what a session needs is passed on as values. What cannot be
// read or makes no sense is reported as a [Problem] and left out: a broken
// file never keeps a session from starting.
//
// Resources come from the agent directory, which is the user's, and from the
// project: .pi/ and .agents/ in the working directory. The project is believed
// by default, as pi 0.45 does; with [Dirs].IgnoreProject its settings,
// templates, skills and system prompt are as good as not there. Context files
// (AGENTS.md) are read in any case, as pi does: they are text for the model
// and name no programs to run.
package resource

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"
)

// Dirs says where resources lie. Paths are absolute.
type Dirs struct {
	Agent string // the agent directory, ~/.pi/agent
	Cwd   string // the working directory
	Home  string // for ~ and ~/.agents; "" for none
	// IgnoreProject leaves out what lies in the project, except context files.
	IgnoreProject bool
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

// errNotFile: the path is a directory, a pipe or a device. Opening the latter
// two might never return.
var errNotFile = errors.New("not a regular file")

// read reads a text file: without byte order mark, with U+FFFD for what is not
// UTF-8. A file that is not there is fs.ErrNotExist.
func read(path string) (string, error) {
	st, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !st.Mode().IsRegular() {
		return "", errNotFile
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	b = bytes.TrimPrefix(b, []byte("\ufeff"))
	if !utf8.Valid(b) {
		b = bytes.ToValidUTF8(b, []byte("\uFFFD"))
	}
	return string(b), nil
}

// readIfThere reads a file that need not exist. A file that cannot be read is
// a problem and counts as absent.
func (p *problems) readIfThere(path string) (text string, ok bool) {
	text, err := read(path)
	if err == nil {
		return text, true
	}
	if !isAbsent(err) {
		p.add(path, err)
	}
	return "", false
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
