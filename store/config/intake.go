package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"unicode/utf8"

	"troupe/protocol"
	"troupe/protocol/bounded"
)

// errNotFile: the path is a directory, a pipe or a device.
var errNotFile = bounded.ErrNotFile

// read reads a text file: without byte order mark, with U+FFFD for what is not
// UTF-8. A file that is not there is fs.ErrNotExist.
func read(path string, limit int64) (string, error) {
	b, err := bounded.ReadFile(path, limit)
	if err != nil {
		return "", err
	}
	return text(b), nil
}

// readWithin is read for a file that a client has named.
func readWithin(path string, limit int64, within func(path string) bool) (string, error) {
	b, err := bounded.ReadFileWithin(path, limit, within)
	if err != nil {
		return "", err
	}
	return text(b), nil
}

func text(b []byte) string {
	b = bounded.WithoutMark(b)
	if !utf8.Valid(b) {
		b = bytes.ToValidUTF8(b, []byte("\uFFFD"))
	}
	return string(b)
}

// intake reads the files of one kind, within the limits of a kind. Beyond them
// nothing more is read, and one problem says so.
type intake struct {
	problems
	kind    string // what problems call it
	strange string // the working directory of a project that is not trusted: nothing is read through links out of it; "" for none
	top     string // the repository that it is in, or itself, as it is written in paths, once it was looked for
	project string // its real path

	// held are files that a client has named, with the [Dirs.Within] by which they were accepted. It is
	// asked again when one is opened, so a link that was swapped meanwhile leads nowhere.
	held map[string]func(path string) bool

	repository string // the real path of top
	files      int
	bytes      int
	entries    int
	full       bool
}

// take begins to read files of one kind.
func (d Dirs) take(kind string) *intake {
	in := &intake{kind: kind}
	if d.Access < Everything {
		in.strange = d.Cwd
	}
	return in
}

// real is a path without symbolic links, or the path itself where it cannot be
// told.
func real(path string) string {
	if r, err := filepath.EvalSymlinks(path); err == nil {
		return r
	}
	return path
}

var (
	errFull     = errors.New("the limits of its kind are reached")
	errLeadsOut = errors.New("a link that leads out of the project, which is not trusted")
)

// leadsOut reports whether a path of a project that is not trusted leads, through symbolic links,
// out of it. A link in the working directory may lead only to files of that directory: the
// repository above may be somebody else's, such as one of all dotfiles of the user. A link in the
// directories above may lead anywhere in the repository.
func (in *intake) leadsOut(path string) bool {
	if in.strange == "" || !exists(path) {
		return false
	}
	if in.top == "" {
		up := upToRepository(in.strange)
		in.top = up[len(up)-1]
		in.project, in.repository = real(in.strange), real(in.top)
	}
	if below(in.strange, path) {
		return !below(in.project, real(path))
	}
	return below(in.top, path) && !below(in.repository, real(path))
}

// below says whether a path is a directory or lies in it.
func below(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// read reads a file of the project, of the user or of whoever named it.
func (in *intake) read(path string, location Location) (string, error) {
	if in.full {
		return "", errFull
	}
	if location == Project && in.leadsOut(path) {
		return "", errLeadsOut
	}
	var src string
	var err error
	if within := in.held[path]; within != nil {
		src, err = readWithin(path, protocol.MaxTextFile, within)
	} else {
		src, err = read(path, protocol.MaxTextFile)
	}
	if err != nil {
		return "", err
	}
	in.files++
	in.bytes += len(src)
	if in.files > protocol.MaxTextFiles || in.bytes > protocol.MaxTextTotal {
		in.stop(path)
		return "", errFull
	}
	return src, nil
}

// stop says, once, that the rest is left out.
func (in *intake) stop(path string) {
	if !in.full {
		in.full = true
		in.add(path, fmt.Errorf("%s: more than %d files, %d MiB or %d directory entries: the rest is left out",
			in.kind, protocol.MaxTextFiles, protocol.MaxTextTotal>>20, protocol.MaxEntries))
	}
}

// list lists a directory.
func (in *intake) list(dir string, location Location) []fs.DirEntry {
	if in.full {
		return nil
	}
	if location == Project && in.leadsOut(dir) {
		in.add(dir, errLeadsOut)
		return nil
	}
	entries, more, err := bounded.ReadDir(dir, protocol.MaxEntries-in.entries)
	in.entries += len(entries)
	if err != nil {
		in.add(dir, err)
	}
	if more {
		in.stop(dir)
	}
	return entries
}

// failed notes why a file was not read, unless that was said before.
func (in *intake) failed(path string, err error) {
	if err != errFull {
		in.add(path, err)
	}
}

// readIfThere reads a file that need not exist. A file that cannot be read is
// a problem and counts as absent.
func (in *intake) readIfThere(path string, location Location) (src string, ok bool) {
	src, err := in.read(path, location)
	if err == nil {
		return src, true
	}
	if !isAbsent(err) {
		in.failed(path, err)
	}
	return "", false
}
