package tools

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"troupe/protocol"
	"troupe/tools/realpath"
)

// Files lets one writer at a time at each file, so that edits of one file by
// parallel calls, also of different sessions, build on each other. The zero
// value is ready; a nil Files locks nothing.
type Files struct {
	mu    sync.Mutex
	locks map[string]*fileLock
}

// fileLock is a mutex one can stop waiting for. It lives in Files while
// anybody holds or wants it.
type fileLock struct {
	held chan struct{} // a token in it is the lock
	refs int           // guarded by Files.mu
}

// Lock waits until nobody else holds path, under whatever name, and returns
// how to let go of it. The only error is ctx's.
func (f *Files) Lock(ctx context.Context, path string) (unlock func(), err error) {
	if f == nil {
		return func() {}, ctx.Err()
	}
	key := RealPath(path)
	l := f.ref(key)
	select {
	case l.held <- struct{}{}:
	case <-ctx.Done():
		f.unref(key, l)
		return nil, ctx.Err()
	}
	return sync.OnceFunc(func() {
		<-l.held
		f.unref(key, l)
	}), nil
}

func (f *Files) ref(key string) *fileLock {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.locks[key]
	if l == nil {
		if f.locks == nil {
			f.locks = make(map[string]*fileLock)
		}
		l = &fileLock{held: make(chan struct{}, 1)}
		f.locks[key] = l
	}
	l.refs++
	return l
}

func (f *Files) unref(key string, l *fileLock) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l.refs--; l.refs == 0 {
		delete(f.locks, key)
	}
}

// RealPath resolves the symbolic links of an absolute path as the kernel does. The file
// that a dangling link would create counts as the one it names. See [realpath.Resolve].
func RealPath(path string) string {
	real, _ := realpath.Resolve(path)
	return real
}

var errNotRegular = errors.New("not a regular file")

// ReplaceFile gives path new content, following symlinks and keeping the
// file's mode; a new file gets perm, less the umask. It never waits: what exists
// and is no regular file is refused. A crash or a full disk leaves the old
// content: the new one is written next to the file and renamed. Where a rename
// would change more than the content (hard links, another owner) or is not
// possible (a directory one may not write to, a mounted file), the file is
// written in place.
func ReplaceFile(path string, content []byte, perm fs.FileMode) error {
	path = RealPath(path)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return placeFile(path, content, nil, perm)
	case err != nil:
		return err
	case info.IsDir():
		return syscall.EISDIR
	case !info.Mode().IsRegular():
		return errNotRegular
	}
	if err := checkWritable(path); err != nil {
		return err
	}
	if linkCount(info) <= 1 {
		if err := placeFile(path, content, info, perm); err == nil || !onlyInPlace(err) {
			return err
		}
	}
	return os.WriteFile(path, content, perm)
}

// ReplaceIn is [ReplaceFile] for a file in an open directory. The file itself may not be a symbolic link.
func ReplaceIn(dir *os.Root, name string, content []byte, perm fs.FileMode) error {
	old, err := dir.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return placeIn(dir, name, content, nil, perm)
	case err != nil:
		return err
	case old.IsDir():
		return syscall.EISDIR
	case !old.Mode().IsRegular():
		return errNotRegular
	}
	f, err := dir.OpenFile(name, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if is, err := f.Stat(); err != nil || !os.SameFile(is, old) {
		return errors.Join(err, errNotRegular)
	}
	if linkCount(old) <= 1 {
		if err := placeIn(dir, name, content, old, perm); err == nil || !onlyInPlace(err) {
			return err
		}
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.Write(content)
	return err
}

func placeIn(dir *os.Root, name string, content []byte, old fs.FileInfo, perm fs.FileMode) error {
	temp := temporaryName(name)
	f, err := dir.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	return fill(f, content, old, func() error { return dir.Rename(temp, name) }, func() { _ = dir.Remove(temp) })
}

// onlyInPlace says whether a file that could not be replaced can still be
// written to. What else goes wrong, a full disk above all, would go wrong there
// as well, when the old content is gone.
func onlyInPlace(err error) bool {
	return slices.ContainsFunc([]error{fs.ErrPermission, errOtherOwner, syscall.EROFS, syscall.EBUSY, syscall.EXDEV, syscall.ENAMETOOLONG},
		func(why error) bool { return errors.Is(err, why) })
}

var errOtherOwner = errors.New("a new file has another owner")

// placeFile writes a temporary file and renames it to path. The mode is that
// of old, or perm if old is nil.
func placeFile(path string, content []byte, old fs.FileInfo, perm fs.FileMode) error {
	name := filepath.Join(filepath.Dir(path), temporaryName(filepath.Base(path)))
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	return fill(f, content, old, func() error { return os.Rename(name, path) }, func() { os.Remove(name) })
}

// temporaryName is that of the file that is to replace another one in its directory.
func temporaryName(base string) string {
	return "." + protocol.Prefix(base, 200) + "." + randomHex(4) + ".tmp"
}

// fill writes a new file, which place then puts in place; on failure it is removed.
func fill(f *os.File, content []byte, old fs.FileInfo, place func() error, remove func()) (err error) {
	if old != nil {
		err = takeAfter(f, old)
	}
	if err == nil {
		_, err = f.Write(content)
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = place()
	}
	if err != nil {
		remove()
	}
	return err
}

// takeAfter gives f the mode of old, and fails if f has another owner.
func takeAfter(f *os.File, old fs.FileInfo) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	is, ok := info.Sys().(*syscall.Stat_t)
	was, ok2 := old.Sys().(*syscall.Stat_t)
	if !ok || !ok2 || is.Uid != was.Uid || is.Gid != was.Gid {
		return errOtherOwner
	}
	return f.Chmod(old.Mode().Perm())
}

// checkWritable keeps a rename from replacing a file that may only be read.
func checkWritable(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0) // a pipe may have taken its place
	if err != nil {
		return err
	}
	return f.Close()
}

func linkCount(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink)
	}
	return 1
}
