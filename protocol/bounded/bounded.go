// Package bounded reads files and directories that somebody else wrote: what a
// repository brings, what a person configures, what an editor leaves. Whoever
// wrote one decides neither how much memory it takes nor whether reading it
// ever ends.
//
// It stands below every room, since each reads such files: it knows nothing of
// ours, and there is no other reader for them.
package bounded

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"
)

// ErrNotFile says that a path is a directory, a pipe, a socket or a device:
// opening or reading it might never return.
var ErrNotFile = errors.New("not a regular file")

// TooLarge says that a file has more bytes than whoever asked wants to have.
type TooLarge struct{ Limit int64 }

func (e TooLarge) Error() string {
	if e.Limit >= 1<<20 && e.Limit%(1<<20) == 0 {
		return fmt.Sprintf("larger than %d MiB", e.Limit>>20)
	}
	return fmt.Sprintf("larger than %d KiB", e.Limit>>10)
}

// ReadFile reads a file of at most limit bytes. Of a larger one it returns the
// beginning, with an error that is [TooLarge]. The byte order mark that some
// editors write at the beginning of a text is left out.
//
// A file that says it has no bytes is empty, also where reading it would bring
// some: what the kernel makes up under /proc may wait for ever, never end, or
// be the environment of this process.
func ReadFile(path string, limit int64) ([]byte, error) {
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular(): // some devices act when they are opened
		return nil, ErrNotFile
	}
	// Not to wait for the writer of a pipe that has taken the file's place.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	return readOpen(f, limit)
}

// ReadFileWithin is [ReadFile] for a file that a client names, see [Within].
func ReadFileWithin(path string, limit int64, allowed func(path string) bool) ([]byte, error) {
	dir, name, err := Within(path, allowed)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	st, err := dir.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, ErrNotFile
	}
	f, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	return readOpen(f, limit)
}

// readOpen reads an open file and closes it.
func readOpen(f *os.File, limit int64) ([]byte, error) {
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := st.Size()
	switch {
	case !st.Mode().IsRegular():
		return nil, ErrNotFile
	case size == 0:
		return nil, nil
	}
	b := make([]byte, 0, min(size, limit)+1) // a byte more shows the end without growing
	for int64(len(b)) <= limit {
		if len(b) == cap(b) {
			b = slices.Grow(b, int(min(int64(len(b)), limit+1-int64(len(b)))))
		}
		n, err := f.Read(b[len(b):min(int64(cap(b)), limit+1)])
		b = b[:len(b)+n]
		if err == io.EOF {
			return WithoutMark(b), nil
		}
		if err != nil {
			return nil, err
		}
	}
	return WithoutMark(b[:limit]), TooLarge{limit}
}

// WithoutMark returns a text without the UTF-8 byte order mark at its beginning.
func WithoutMark(text []byte) []byte { return bytes.TrimPrefix(text, []byte("\xEF\xBB\xBF")) }

// ReadDir lists at most limit entries of a directory, sorted by name. more says
// that there are others.
func ReadDir(dir string, limit int) (entries []fs.DirEntry, more bool, err error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	if entries, err = f.ReadDir(limit + 1); err == io.EOF {
		err = nil
	}
	if more = len(entries) > limit; more {
		entries = entries[:limit]
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return entries, more, err
}
