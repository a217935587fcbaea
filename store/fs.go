package store

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"
)

// FS is what a session needs of a file system. Implementations are safe for
// concurrent use. Errors are those of package os: fs.ErrNotExist, fs.ErrExist
// and fs.ErrPermission are recognised by errors.Is, as are the errnos below
// them. [OS] is the real one; package storetest has one in memory that can
// crash and a wrapper that fails on demand.
type FS interface {
	// OpenAppend opens an existing file for reading and appending.
	OpenAppend(name string) (File, error)
	// Open opens an existing file for reading.
	Open(name string) (File, error)
	// Create makes a new file, private to the user, for reading and appending.
	// It fails with fs.ErrExist if the name is taken.
	Create(name string) (File, error)
	// Stat follows symbolic links.
	Stat(name string) (fs.FileInfo, error)
	// Stamp is that of the file that a name leads to.
	Stamp(name string) (Stamp, error)
	// ReadDir lists a directory in the order of names.
	ReadDir(name string) ([]fs.DirEntry, error)
	// Rename replaces to, if it exists, in one step.
	Rename(from, to string) error
	Remove(name string) error
	// MkdirAll makes a directory and its parents, private to the user.
	MkdirAll(name string) error
	// SyncDir makes the names in a directory survive a power cut.
	SyncDir(name string) error
	// LockDir keeps others from doing so until unlock. It waits for a moment, then
	// it fails with ErrInUse. It says nothing about files in the directory.
	LockDir(name string) (unlock func(), err error)
}

// File is an open file. Every Write goes to the end of the file, whoever else
// wrote there meanwhile.
type File interface {
	io.Writer
	io.ReaderAt
	io.Closer
	Stat() (fs.FileInfo, error)
	// Stamp fails with fs.ErrNotExist if no name is left for the file.
	Stamp() (Stamp, error)
	Truncate(size int64) error
	// Sync makes the content survive a power cut.
	Sync() error
	// Lock claims the file until Close or the end of the process. It does not
	// wait: if somebody else holds the file it fails with ErrInUse.
	Lock() error
}

// Stamp tells files apart, and the states of one file: as long as it is the
// same, nobody has written to the file, cut, renamed or replaced it.
type Stamp struct {
	Dev, Ino uint64
	Size     int64
	Changed  int64 // when content, names or rights changed last, in nanoseconds as fine as the system's clock for it
}

// sameFile says whether two stamps are of one file, perhaps at different times.
func (s Stamp) sameFile(as Stamp) bool { return s.Dev == as.Dev && s.Ino == as.Ino }

// noLocks says whether an error is a file system's that has no locks, as NFS
// without its lock daemon.
func noLocks(err error) bool {
	return slices.ContainsFunc([]error{syscall.ENOLCK, syscall.EOPNOTSUPP, syscall.ENOTSUP, syscall.ENOSYS}, func(why error) bool { return errors.Is(err, why) })
}

// OS is the operating system's file system.
type OS struct{}

type osFile struct{ *os.File }

func (OS) OpenAppend(name string) (File, error) {
	return openOS(name, os.O_RDWR|os.O_APPEND)
}

func (OS) Open(name string) (File, error) { return openOS(name, os.O_RDONLY) }

func (OS) Create(name string) (File, error) {
	return openOS(name, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL)
}

func openOS(name string, flags int) (File, error) {
	f, err := os.OpenFile(name, flags, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (OS) Stat(name string) (fs.FileInfo, error)      { return os.Stat(name) }
func (OS) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }
func (OS) Rename(from, to string) error               { return os.Rename(from, to) }
func (OS) Remove(name string) error                   { return os.Remove(name) }
func (OS) MkdirAll(name string) error                 { return os.MkdirAll(name, 0o700) }

func (OS) SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
