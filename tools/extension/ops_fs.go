package extension

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// fsFailure words an error of the system as Node does.
func fsFailure(call string, err error, paths ...string) error {
	if err == nil {
		return nil
	}
	f := &failure{Syscall: call, Message: err.Error()}
	var no syscall.Errno
	switch {
	case errors.As(err, &no):
	case errors.Is(err, fs.ErrNotExist):
		no = syscall.ENOENT
	case errors.Is(err, fs.ErrExist):
		no = syscall.EEXIST
	case errors.Is(err, fs.ErrClosed):
		no = syscall.EBADF
	}
	if no != 0 {
		f.Code, f.Errno = unix.ErrnoName(no), -int(no)
		text, ok := nodeWords[no]
		if !ok {
			text = strings.ToLower(no.Error())
		}
		f.Message = fmt.Sprintf("%s: %s, %s", f.Code, text, call)
	}
	if len(paths) > 0 {
		f.Path = paths[0]
		f.Message += " '" + paths[0] + "'"
	}
	if len(paths) > 1 {
		f.Dest = paths[1]
		f.Message += " -> '" + paths[1] + "'"
	}
	return f
}

// nodeWords are errors that Node words in another way than the system does.
var nodeWords = map[syscall.Errno]string{
	syscall.EEXIST: "file already exists", syscall.EISDIR: "illegal operation on a directory", syscall.EBUSY: "resource busy or locked",
	syscall.EXDEV: "cross-device link not permitted", syscall.ELOOP: "too many symbolic links encountered", syscall.ENAMETOOLONG: "name too long",
	syscall.EMFILE: "too many open files", syscall.ENFILE: "file table overflow", syscall.ETXTBSY: "text file is busy", syscall.EIO: "i/o error",
	syscall.ENOSYS: "function not implemented", syscall.ESPIPE: "invalid seek", syscall.ENOTSUP: "operation not supported on socket",
}

// table has what is open in a realm, by the numbers that JavaScript knows.
type table[T io.Closer] struct {
	mu   sync.Mutex
	last int
	open map[int]T
}

// firstNumber leaves out the numbers of streams that extensions take for granted.
const firstNumber = 20

func (t *table[T]) add(x T) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		t.open, t.last = map[int]T{}, firstNumber
	}
	t.last++
	t.open[t.last] = x
	return t.last
}

func (t *table[T]) get(n int) (T, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x, ok := t.open[n]
	if !ok {
		return x, syscall.EBADF
	}
	return x, nil
}

// take gives what closes elsewhere from now on.
func (t *table[T]) take(n int) (T, error) {
	x, err := t.get(n)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, n)
	return x, err
}

func (t *table[T]) closeAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, x := range t.open {
		_ = x.Close() // nobody is there any more who could be told
	}
	clear(t.open)
}

// path makes an argument absolute: a session's folder is not the process's.
func (c *opCall) path(i int) string {
	p := c.args.text(i)
	if p == "" || filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(c.cwd, p)
}

func (c *opCall) mode(i int, usual fs.FileMode) fs.FileMode {
	if n, ok := c.args.number(i); ok {
		return fs.FileMode(uint32(n) & 0o7777)
	}
	return usual
}

// flags reads Node's words for how a file is opened.
func flags(x any) (int, error) {
	switch f := x.(type) {
	case nil:
		return os.O_RDONLY, nil
	case float64:
		return int(f), nil
	case string:
		sync := strings.Contains(f, "s")
		n, ok := map[string]int{
			"r": os.O_RDONLY, "r+": os.O_RDWR, "w": os.O_WRONLY | os.O_CREATE | os.O_TRUNC, "w+": os.O_RDWR | os.O_CREATE | os.O_TRUNC,
			"a": os.O_WRONLY | os.O_CREATE | os.O_APPEND, "a+": os.O_RDWR | os.O_CREATE | os.O_APPEND,
			"wx": os.O_WRONLY | os.O_CREATE | os.O_TRUNC | os.O_EXCL, "wx+": os.O_RDWR | os.O_CREATE | os.O_TRUNC | os.O_EXCL,
			"ax": os.O_WRONLY | os.O_CREATE | os.O_APPEND | os.O_EXCL, "ax+": os.O_RDWR | os.O_CREATE | os.O_APPEND | os.O_EXCL,
		}[sorted(strings.ReplaceAll(f, "s", ""))]
		if ok {
			if sync {
				n |= os.O_SYNC
			}
			return n, nil
		}
	}
	return 0, &failure{Code: "ERR_INVALID_ARG_VALUE", Name: "TypeError", Message: fmt.Sprintf("The argument 'flags' is invalid. Received '%v'", x)}
}

// sorted puts an x before a plus, as both orders are allowed.
func sorted(f string) string {
	if before, ok := strings.CutSuffix(f, "+x"); ok {
		return before + "x+"
	}
	if strings.HasPrefix(f, "x") && len(f) > 1 {
		return f[1:2] + "x" + f[2:]
	}
	return f
}

// file calls f with the file of an argument that is a path or a number.
func (c *opCall) file(i int, call string, f func(*os.File) (any, error)) (any, error) {
	if fd, ok := c.args.number(i); ok {
		file, err := c.files.get(int(fd))
		if err != nil {
			return nil, fsFailure(call, err)
		}
		r, err := f(file)
		return r, fsFailure(call, err)
	}
	file, err := os.Open(c.path(i))
	if err != nil {
		return nil, fsFailure("open", err, c.args.text(i))
	}
	defer file.Close()
	r, err := f(file)
	return r, fsFailure(call, err)
}

// onPath is an operation of a path that gives nothing but errors.
func onPath(call string, f func(c *opCall, path string) error) operation {
	return func(c *opCall) (any, error) {
		return nil, fsFailure(call, f(c, c.path(0)), c.args.text(0))
	}
}

// onPaths is one of two.
func onPaths(call string, f func(c *opCall, a, b string) error) operation {
	return func(c *opCall) (any, error) {
		return nil, fsFailure(call, f(c, c.path(0), c.path(1)), c.args.text(0), c.args.text(1))
	}
}

// onFile is one of an open file.
func onFile(call string, f func(c *opCall, file *os.File) error) operation {
	return func(c *opCall) (any, error) {
		file, err := c.files.get(c.args.int(0))
		if err == nil {
			err = f(c, file)
		}
		return nil, fsFailure(call, err)
	}
}

func millis(n float64) time.Time { return time.UnixMicro(int64(n * 1000)) }

func (c *opCall) times() (time.Time, time.Time) {
	a, _ := c.args.number(1)
	m, _ := c.args.number(2)
	return millis(a), millis(m)
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "file"
	case mode.IsDir():
		return "dir"
	case mode&fs.ModeSymlink != 0:
		return "link"
	case mode&fs.ModeNamedPipe != 0:
		return "fifo"
	case mode&fs.ModeSocket != 0:
		return "socket"
	case mode&fs.ModeCharDevice != 0:
		return "char"
	}
	return "block"
}

// operations are those of host.op and host.start, by name. They are put together
// when the first is asked for: a process without extensions pays nothing.
var operations = sync.OnceValue(func() map[string]operation {
	all := fileOps()
	for _, more := range []map[string]operation{descriptorOps(), procOps(), cryptoOps(), textOps(), intlOps(), toolOps(), netOps()} {
		maps.Copy(all, more)
	}
	return all
})

// fileOps are operations on files by their paths.
func fileOps() map[string]operation {
	return map[string]operation{
		"fs.readFile": func(c *opCall) (any, error) {
			return c.file(0, "read", func(f *os.File) (any, error) {
				if info, err := f.Stat(); err == nil && info.IsDir() {
					return nil, syscall.EISDIR
				}
				b, err := io.ReadAll(f)
				return b, err
			})
		},
		"fs.writeFile": writeFile,
		"fs.stat":      func(c *opCall) (any, error) { return stat(c, "stat", os.Stat) },
		"fs.lstat":     func(c *opCall) (any, error) { return stat(c, "lstat", os.Lstat) },
		"fs.readdir": func(c *opCall) (any, error) {
			list, err := os.ReadDir(c.path(0))
			if err != nil {
				return nil, fsFailure("scandir", err, c.args.text(0))
			}
			out := make([]map[string]string, len(list))
			for i, d := range list {
				out[i] = map[string]string{"name": d.Name(), "type": kindOf(d.Type())}
			}
			return out, nil
		},
		"fs.realpath": func(c *opCall) (any, error) {
			p, err := filepath.EvalSymlinks(c.path(0))
			return p, fsFailure("lstat", err, c.args.text(0))
		},
		"fs.readlink": func(c *opCall) (any, error) {
			p, err := os.Readlink(c.path(0))
			return p, fsFailure("readlink", err, c.args.text(0))
		},
		"fs.mkdir":   mkdir,
		"fs.mkdtemp": mkdtemp,
		"fs.rm":      rm,
		"fs.rmdir":   onPath("rmdir", func(_ *opCall, p string) error { return syscall.Rmdir(p) }),
		"fs.unlink":  onPath("unlink", func(_ *opCall, p string) error { return syscall.Unlink(p) }),
		"fs.rename":  onPaths("rename", func(_ *opCall, a, b string) error { return os.Rename(a, b) }),
		"fs.copyFile": onPaths("copyfile", func(c *opCall, a, b string) error {
			return copyFile(a, b, c.args.int(2)&1 != 0)
		}),
		"fs.cp": cp,
		"fs.symlink": func(c *opCall) (any, error) {
			return nil, fsFailure("symlink", os.Symlink(c.args.text(0), c.path(1)), c.args.text(0), c.args.text(1))
		},
		"fs.link":  onPaths("link", func(_ *opCall, a, b string) error { return os.Link(a, b) }),
		"fs.chmod": onPath("chmod", func(c *opCall, p string) error { return os.Chmod(p, chmodOf(c.args.int(1))) }),
		"fs.chown": onPath("chown", func(c *opCall, p string) error { return os.Chown(p, c.args.int(1), c.args.int(2)) }),
		"fs.utimes": onPath("utime", func(c *opCall, p string) error {
			a, m := c.times()
			return os.Chtimes(p, a, m)
		}),
		"fs.lutimes": onPath("lutime", func(c *opCall, p string) error {
			a, m := c.times()
			return unix.Lutimes(p, []unix.Timeval{unix.NsecToTimeval(a.UnixNano()), unix.NsecToTimeval(m.UnixNano())})
		}),
		"fs.access":   onPath("access", func(c *opCall, p string) error { return syscall.Access(p, uint32(c.args.int(1))) }),
		"fs.truncate": onPath("open", func(c *opCall, p string) error { return os.Truncate(p, int64(c.args.int(1))) }),
		"fs.glob":     globFiles,
	}
}

// descriptorOps are operations on files that are open.
func descriptorOps() map[string]operation {
	return map[string]operation{
		"fs.fstat": func(c *opCall) (any, error) {
			return c.file(0, "fstat", func(f *os.File) (any, error) {
				info, err := f.Stat()
				if err != nil {
					return nil, err
				}
				return statRecord(info), nil
			})
		},
		"fs.open":  openFile,
		"fs.read":  readOpen,
		"fs.write": writeOpen,
		"fs.close": func(c *opCall) (any, error) {
			f, err := c.files.take(c.args.int(0))
			if err == nil {
				err = f.Close()
			}
			return nil, fsFailure("close", err)
		},
		"fs.fsync":     onFile("fsync", func(_ *opCall, f *os.File) error { return f.Sync() }),
		"fs.ftruncate": onFile("ftruncate", func(c *opCall, f *os.File) error { return f.Truncate(int64(c.args.int(1))) }),
		"fs.fchmod":    onFile("fchmod", func(c *opCall, f *os.File) error { return f.Chmod(chmodOf(c.args.int(1))) }),
		"fs.futimes": onFile("futime", func(c *opCall, f *os.File) error {
			a, m := c.times()
			return os.Chtimes(f.Name(), a, m)
		}),
	}
}

func openFile(c *opCall) (any, error) {
	n, err := flags(c.args.at(1))
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(c.path(0), n, c.mode(2, 0o666))
	if err != nil {
		return nil, fsFailure("open", err, c.args.text(0))
	}
	return float64(c.files.add(f)), nil
}

func readOpen(c *opCall) (any, error) {
	f, err := c.files.get(c.args.int(0))
	if err != nil {
		return nil, fsFailure("read", err)
	}
	b := make([]byte, min(max(c.args.int(1), 0), mostRead))
	var n int
	if at, ok := c.args.number(2); ok {
		n, err = f.ReadAt(b, int64(at))
	} else {
		n, err = f.Read(b)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fsFailure("read", err)
	}
	return b[:n], nil
}

func writeOpen(c *opCall) (any, error) {
	f, err := c.files.get(c.args.int(0))
	if err != nil {
		return nil, fsFailure("write", err)
	}
	var n int
	if at, ok := c.args.number(2); ok {
		n, err = f.WriteAt(c.args.bytes(1), int64(at))
	} else {
		n, err = f.Write(c.args.bytes(1))
	}
	return float64(n), fsFailure("write", err)
}

// mostRead is what one read may ask for.
const mostRead = 64 << 20

func chmodOf(mode int) fs.FileMode {
	m := fs.FileMode(mode & 0o777)
	for bit, more := range map[int]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if mode&bit != 0 {
			m |= more
		}
	}
	return m
}

func stat(c *opCall, call string, f func(string) (fs.FileInfo, error)) (any, error) {
	info, err := f(c.path(0))
	if err != nil {
		return nil, fsFailure(call, err, c.args.text(0))
	}
	return statRecord(info), nil
}

func writeFile(c *opCall) (any, error) {
	o := struct {
		Flag any `json:"flag"`
		Mode int `json:"mode"`
	}{Mode: 0o666}
	if err := c.args.into(2, &o); err != nil {
		return nil, err
	}
	if fd, ok := c.args.number(0); ok {
		f, err := c.files.get(int(fd))
		if err == nil {
			_, err = f.Write(c.args.bytes(1))
		}
		return nil, fsFailure("write", err)
	}
	if o.Flag == nil {
		o.Flag = "w"
	}
	n, err := flags(o.Flag)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(c.path(0), n, fs.FileMode(o.Mode&0o777))
	if err != nil {
		return nil, fsFailure("open", err, c.args.text(0))
	}
	_, err = f.Write(c.args.bytes(1))
	return nil, fsFailure("write", errors.Join(err, f.Close()), c.args.text(0))
}

func mkdir(c *opCall) (any, error) {
	o := struct {
		Recursive bool `json:"recursive"`
		Mode      int  `json:"mode"`
	}{Mode: 0o777}
	if err := c.args.into(1, &o); err != nil {
		return nil, err
	}
	mode, path := fs.FileMode(o.Mode&0o777), c.path(0)
	if !o.Recursive {
		return nil, fsFailure("mkdir", os.Mkdir(path, mode), c.args.text(0))
	}
	first := ""
	for p := filepath.Clean(path); ; p = filepath.Dir(p) {
		if _, err := os.Stat(p); err == nil || p == filepath.Dir(p) {
			break
		}
		first = p
	}
	if err := os.MkdirAll(path, mode); err != nil {
		return nil, fsFailure("mkdir", err, c.args.text(0))
	}
	if first == "" {
		return nil, nil
	}
	return first, nil
}

func mkdtemp(c *opCall) (any, error) {
	prefix := c.path(0)
	if strings.HasSuffix(c.args.text(0), "/") {
		prefix += "/"
	}
	dir, name := filepath.Split(prefix)
	p, err := os.MkdirTemp(dir, name)
	return p, fsFailure("mkdtemp", err, c.args.text(0)+"XXXXXX")
}

func rm(c *opCall) (any, error) {
	var o struct{ Recursive, Force bool }
	if err := c.args.into(1, &o); err != nil {
		return nil, err
	}
	path := c.path(0)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && o.Force:
		return nil, nil
	case err != nil:
		return nil, fsFailure("lstat", err, c.args.text(0))
	case info.IsDir() && !o.Recursive:
		return nil, &failure{Code: "ERR_FS_EISDIR", Name: "SystemError", Syscall: "rm", Path: c.args.text(0), Message: "Path is a directory: rm returned EISDIR (is a directory) " + c.args.text(0)}
	case o.Recursive:
		return nil, fsFailure("rm", os.RemoveAll(path), c.args.text(0))
	}
	return nil, fsFailure("rm", os.Remove(path), c.args.text(0))
}

func copyFile(from, to string, exclusive bool) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if info.IsDir() {
		return syscall.EISDIR
	}
	how := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if exclusive {
		how |= os.O_EXCL
	}
	out, err := os.OpenFile(to, how, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func cp(c *opCall) (any, error) {
	o := struct {
		Recursive    bool `json:"recursive"`
		Force        bool `json:"force"`
		ErrorOnExist bool `json:"errorOnExist"`
	}{Force: true}
	if err := c.args.into(2, &o); err != nil {
		return nil, err
	}
	from, to := c.path(0), c.path(1)
	info, err := os.Stat(from)
	if err != nil {
		return nil, fsFailure("cp", err, c.args.text(0))
	}
	if info.IsDir() && !o.Recursive {
		return nil, &failure{Code: "ERR_FS_EISDIR", Message: "Recursive option not enabled, cannot copy a directory: " + c.args.text(0), Syscall: "cp", Path: c.args.text(0)}
	}
	err = filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case d.IsDir():
			return os.MkdirAll(target, 0o777)
		case d.Type()&fs.ModeSymlink != 0:
			link, err := os.Readlink(p)
			if err != nil {
				return err
			}
			return os.Symlink(link, target)
		}
		if _, err := os.Lstat(target); err == nil && !o.Force {
			if o.ErrorOnExist {
				return syscall.EEXIST
			}
			return nil
		}
		return copyFile(p, target, false)
	})
	return nil, fsFailure("cp", err, c.args.text(0), c.args.text(1))
}

// globFiles lists what fits a pattern, as Node's fs.glob: relative to a folder.
func globFiles(c *opCall) (any, error) {
	var o struct {
		Cwd string `json:"cwd"`
	}
	if err := c.args.into(1, &o); err != nil {
		return nil, err
	}
	o.Cwd = cmp.Or(o.Cwd, c.cwd)
	return globIn(o.Cwd, c.args.text(0))
}
