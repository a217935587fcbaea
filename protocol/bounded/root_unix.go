//go:build unix

package bounded

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// OpenRoot opens a directory by an absolute path without following symbolic links, in none of its
// components. It fails with [ErrLink] if one of them is a link, or is replaced by another directory
// meanwhile.
func OpenRoot(path string) (*os.Root, error) {
	dir, err := openDirectory(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	// Both are open, so equal identities mean the same directory.
	want, err := dir.Stat()
	is, err2 := root.Stat(".")
	if err = errors.Join(err, err2); err == nil && !os.SameFile(want, is) {
		err = &os.PathError{Op: "open", Path: path, Err: ErrLink}
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return root, nil
}

// openDirectory walks to a directory by descriptors.
func openDirectory(path string) (*os.File, error) {
	failed := func(err error) error { return &os.PathError{Op: "open", Path: path, Err: err} }
	if !filepath.IsAbs(path) {
		return nil, failed(unix.EINVAL)
	}
	at, err := open(unix.AT_FDCWD, "/")
	for name := range strings.SplitSeq(filepath.Clean(path), "/") {
		if err != nil {
			return nil, failed(err)
		}
		if name == "" {
			continue
		}
		var next int
		next, err = open(at, name)
		if err != nil && isLink(at, name) {
			err = ErrLink
		}
		unix.Close(at)
		at = next
	}
	if err != nil {
		return nil, failed(err)
	}
	return os.NewFile(uintptr(at), path), nil
}

func open(at int, name string) (fd int, err error) {
	for {
		fd, err = unix.Openat(at, name, directoryOnly|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

func isLink(at int, name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK
}
