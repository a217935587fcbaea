//go:build unix

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"
)

// Lock is an advisory lock of the kernel's: it ends with the process however
// that ends, so there is no stale lock to clean up.
//
// A file counts as taken only if it stays so: the lock of a process that was
// killed is seen for a moment longer where one of its children was between fork
// and exec.
func (f osFile) Lock() error {
	for try := 0; ; try++ {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		if try == lockTries {
			return fmt.Errorf("lock %s: %w", f.Name(), ErrInUse)
		}
		time.Sleep(lockPause)
	}
}

const (
	lockTries = 10
	lockPause = 10 * time.Millisecond
)

// fstat is Size by the call that every system has. It asks the kernel by
// itself: os.File.Stat makes something of every field.
func (f osFile) fstat() (int64, error) {
	var st syscall.Stat_t
	err := syscall.Fstat(int(f.Fd()), &st)
	if err == nil && st.Nlink == 0 {
		err = syscall.ENOENT
	}
	if err != nil {
		return 0, &fs.PathError{Op: "fstat", Path: f.Name(), Err: err}
	}
	return st.Size, nil
}
