package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"troupe/protocol/bounded"
)

// Held is the operating system's file system for a client that may name some files only. Each
// call resolves its path, judges the result and then works on the opened directory, so no link
// that is swapped meanwhile leads elsewhere.
type Held struct {
	Allowed func(path string) bool // receives absolute paths without links
}

// HeldTo returns fsys, held to the files that a client may name; nil are all. Only the operating
// system's file system has links, so others are returned as they are.
func HeldTo(fsys FS, allowed func(path string) bool) FS {
	if _, real := fsys.(OS); !real || allowed == nil {
		return fsys
	}
	return Held{Allowed: allowed}
}

// in calls f with the directory of a file and the file's name in it.
func (h Held) in(path string, f func(dir *os.Root, name string) error) error {
	dir, name, err := bounded.Within(path, h.Allowed)
	if err != nil {
		return err
	}
	defer dir.Close()
	return f(dir, name)
}

func (h Held) open(path string, flags int) (file File, err error) {
	err = h.in(path, func(dir *os.Root, name string) error {
		f, err := dir.OpenFile(name, flags, 0o600)
		if err == nil {
			file = osFile{f}
		}
		return err
	})
	return file, err
}

// OpenAppend is that of [FS].
func (h Held) OpenAppend(path string) (File, error) { return h.open(path, os.O_RDWR|os.O_APPEND) }

// Open is that of [FS].
func (h Held) Open(path string) (File, error) { return h.open(path, os.O_RDONLY) }

// Create is that of [FS].
func (h Held) Create(path string) (File, error) {
	return h.open(path, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL)
}

// Stat is that of [FS].
func (h Held) Stat(path string) (st fs.FileInfo, err error) {
	err = h.in(path, func(dir *os.Root, name string) error {
		st, err = dir.Stat(name)
		return err
	})
	return st, err
}

// Stamp is that of [FS].
func (h Held) Stamp(path string) (s Stamp, err error) {
	err = h.in(path, func(dir *os.Root, name string) error {
		f, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		s, err = osFile{f}.Stamp()
		return err
	})
	return s, err
}

// ReadDir is that of [FS].
func (h Held) ReadDir(path string) (entries []fs.DirEntry, err error) {
	err = h.in(path, func(dir *os.Root, name string) error {
		entries, err = fs.ReadDir(dir.FS(), name)
		return err
	})
	return entries, err
}

// Rename is that of [FS]. Both names have to be in one directory, as those of a session file and its
// replacement are.
func (h Held) Rename(from, to string) error {
	return h.in(from, func(dir *os.Root, name string) error {
		return h.in(to, func(other *os.Root, as string) error {
			one, err := dir.Stat(".")
			two, err2 := other.Stat(".")
			if err = errors.Join(err, err2); err != nil {
				return err
			}
			if !os.SameFile(one, two) {
				return &os.LinkError{Op: "rename", Old: from, New: to, Err: fs.ErrPermission}
			}
			return dir.Rename(name, as)
		})
	})
}

// Remove is that of [FS].
func (h Held) Remove(path string) error {
	return h.in(path, func(dir *os.Root, name string) error { return dir.Remove(name) })
}

// MkdirAll is that of [FS].
func (h Held) MkdirAll(path string) error {
	if _, err := h.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if up := filepath.Dir(path); up != path {
		if err := h.MkdirAll(up); err != nil {
			return err
		}
	}
	err := h.in(path, func(dir *os.Root, name string) error { return dir.Mkdir(name, 0o700) })
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// SyncDir is that of [FS].
func (h Held) SyncDir(path string) error {
	return h.in(path, func(dir *os.Root, name string) error {
		d, err := dir.Open(name)
		if err != nil {
			return err
		}
		defer d.Close()
		return d.Sync()
	})
}

// LockDir is that of [FS].
func (h Held) LockDir(path string) (unlock func(), err error) {
	err = h.in(path, func(dir *os.Root, name string) error {
		d, err := dir.Open(name)
		if err == nil {
			unlock, err = lockDir(d)
		}
		return err
	})
	return unlock, err
}
