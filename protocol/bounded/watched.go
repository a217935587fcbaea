package bounded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Watched is a configuration file that is read when it is first needed and
// again when it has changed. What it said last counts as long as it cannot be
// read, is half written or is gone: somebody may be replacing it. It is not safe
// for concurrent use.
type Watched[T any] struct {
	Path  string // "" for no file
	Limit int64  // bytes
	Parse func([]byte) (T, error)

	Value T
	Err   error // why the file, as it is now, cannot be used

	good bool // the file has been read once
	read bool
	info fs.FileInfo
}

// Refresh reads the file if that is due, and says whether it did. A file that
// never was there is an empty one.
func (f *Watched[T]) Refresh() bool {
	if f.Path == "" {
		return false
	}
	info, err := os.Stat(f.Path)
	if err != nil {
		info = nil
	}
	if f.read && sameFile(f.info, info) {
		return false
	}
	f.read, f.info, f.Err = true, info, nil
	if info == nil {
		switch gone := errors.Is(err, fs.ErrNotExist); {
		case gone && f.good:
			f.Err = goneError(f.Path)
		case !gone:
			f.Err = err
		}
		return true
	}
	value, err := f.load()
	if err != nil {
		f.Err = fmt.Errorf("%s: %w", f.Path, err)
		return true
	}
	f.Value, f.good = value, true
	return true
}

// goneError is a file that was there; it is [fs.ErrNotExist].
type goneError string

func (path goneError) Error() string {
	return string(path) + " is gone: what it said counts until there is another, or a restart"
}

func (goneError) Is(target error) bool { return target == fs.ErrNotExist }

// Again has the next Refresh read the file even if it looks unchanged.
func (f *Watched[T]) Again() { f.read = false }

func (f *Watched[T]) load() (value T, err error) {
	text, err := ReadFile(f.Path, f.Limit)
	if err != nil {
		return value, err
	}
	return f.Parse(text)
}

// sameFile says whether nothing has happened between two looks at a file:
// editors that replace it are noticed by its identity, others by time and size.
func sameFile(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
