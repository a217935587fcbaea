package bounded

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
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
	mark mark
}

// Refresh reads the file if that is due, and says whether it did. A file that
// never was there is an empty one.
func (f *Watched[T]) Refresh() bool {
	if f.Path == "" {
		return false
	}
	mark, err := markOf(f.Path)
	if f.read && f.mark == mark {
		return false
	}
	f.read, f.mark, f.Err = true, mark, nil
	if err != nil {
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

// mark tells a file from what it was at another look: editors that replace it are noticed by
// its identity, others by time and size. It is zero for none.
type mark struct {
	device, file, seconds, fraction, size int64
}

// markOf looks at a file. This is what every request to a model costs, so nothing of it is
// kept on the heap but the path.
func markOf(path string) (mark, error) {
	var st unix.Stat_t
	for {
		err := unix.Stat(path, &st)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return mark{}, &fs.PathError{Op: "stat", Path: path, Err: err}
		}
		return mark{int64(st.Dev), int64(st.Ino), int64(st.Mtim.Sec), int64(st.Mtim.Nsec), st.Size}, nil
	}
}
