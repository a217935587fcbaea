//go:build unix

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Lock is an advisory lock of the kernel's: it ends with the process however
// that ends, so there is no stale lock to clean up.
//
// A file counts as taken only if it stays so: the lock of a process that was
// killed is seen for a moment longer where one of its children was between fork
// and exec.
func (f osFile) Lock() error { return flock(f.File) }

func flock(f *os.File) error {
	for try := 0; ; try++ {
		err := again(func() error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) })
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
		case try == lockTries:
			return fmt.Errorf("lock %s: %w", f.Name(), ErrInUse)
		}
		time.Sleep(lockPause)
	}
}

func (OS) LockDir(name string) (unlock func(), err error) {
	d, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return lockDir(d)
}

// lockDir locks an open directory, and closes it with the lock.
func lockDir(d *os.File) (unlock func(), err error) {
	if err := flock(d); err != nil {
		d.Close()
		return nil, err
	}
	return func() { d.Close() }, nil
}

const (
	lockTries = 10
	lockPause = 10 * time.Millisecond
)

// Stamp asks the kernel by itself: os.Stat makes something of every field.
func (OS) Stamp(name string) (Stamp, error) {
	s, err := stat(name)
	if err != nil {
		return Stamp{}, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return s, nil
}

func (f osFile) Stamp() (Stamp, error) {
	s, err := fstat(int(f.Fd()))
	if err != nil {
		return Stamp{}, &fs.PathError{Op: "fstat", Path: f.Name(), Err: err}
	}
	return s, nil
}

func fstat(fd int) (Stamp, error) {
	var st unix.Stat_t
	err := again(func() error { return unix.Fstat(fd, &st) })
	return newStamp(&st, err)
}

func stat(name string) (Stamp, error) {
	var st unix.Stat_t
	err := again(func() error { return unix.Stat(name, &st) })
	return newStamp(&st, err)
}

func newStamp(st *unix.Stat_t, err error) (Stamp, error) {
	if err == nil && st.Nlink == 0 {
		err = syscall.ENOENT
	}
	if err != nil {
		return Stamp{}, err
	}
	return Stamp{Dev: uint64(st.Dev), Ino: uint64(st.Ino), Size: st.Size, Changed: st.Ctim.Nano()}, nil
}

// again repeats a call that a signal has interrupted.
func again(call func() error) error {
	for {
		if err := call(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
