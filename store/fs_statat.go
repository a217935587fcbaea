//go:build linux || darwin

package store

import (
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// statDir stats the regular files in a directory whose names end with suffix,
// also those behind symbolic links. Listing sessions that are known is little
// else, and this way the system looks at a name instead of a path, and nothing
// is made of the answer but what is needed.
func (OS) statDir(dir, suffix string) ([]fileStat, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, suffix) })
	fd := int(d.Fd())
	return statAll(len(names), func(i int) (fileStat, bool) { return statAt(fd, names[i]) }), nil
}

// statAt stats a regular file in an open directory.
func statAt(dir int, name string) (fileStat, bool) {
	var st unix.Stat_t
	err := fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		err = fstatat(dir, name, &st, 0)
	}
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fileStat{}, false
	}
	return fileStat{name, time.Unix(st.Mtim.Unix()), st.Size}, true
}

func fstatat(dir int, name string, st *unix.Stat_t, flags int) error {
	return again(func() error { return unix.Fstatat(dir, name, st, flags) })
}
