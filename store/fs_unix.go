//go:build unix

package store

import (
	"errors"
	"fmt"
	"syscall"
)

// Lock is an advisory lock of the kernel's: it ends with the process however
// that ends, so there is no stale lock to clean up.
func (f osFile) Lock() error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return fmt.Errorf("lock %s: %w", f.Name(), ErrInUse)
	}
	return err
}
