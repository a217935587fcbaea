package tools

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"troupe/protocol"
)

// regular is a file that is being read. One that the kernel makes up as it is
// read may have no end: it is read for so long and so far, and no longer.
type regular struct {
	f    *os.File
	left int64 // bytes that may still be read of a file of the kernel; negative is any number
}

var (
	errEndless = errors.New("the system makes up this file as it is read, and it has no end: " +
		"read what you need of it with bash, for example with timeout and head")
	errEnviron = errors.New("this is the environment of a process: it is not shown, it may hold keys. For your own use env in bash")
)

// openRegular opens a file for reading. Directories are EISDIR; devices, pipes
// and sockets, which may never end or never begin, are refused, and so are the
// environments of processes.
func openRegular(path string) (*regular, fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, fileError("open", path, err)
	}
	if err := checkRegular(path, info); err != nil {
		return nil, nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may be another one by now
	if err != nil {
		return nil, nil, fileError("open", path, err)
	}
	r, err := newRegular(f)
	if err == nil {
		if info, err = f.Stat(); err == nil {
			err = checkRegular(path, info)
		}
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return r, info, nil
}

func checkRegular(path string, info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return fileError("read", path, syscall.EISDIR)
	case !info.Mode().IsRegular():
		return fmt.Errorf("not a regular file: '%s'", path)
	}
	return nil
}

func newRegular(f *os.File) (*regular, error) {
	r := &regular{f, -1}
	switch kind := kernelFile(f); {
	case kind == environFile:
		return nil, errEnviron
	case kind != diskFile:
		r.left = protocol.MaxKernelFile
		_ = f.SetReadDeadline(time.Now().Add(protocol.MaxKernelWait * time.Second)) // fails for one that never waits
	}
	return r, nil
}

// fileKind is who answers for the content of a file.
type fileKind int

const (
	diskFile    fileKind = iota
	anyKernel            // the kernel, in /proc and the like
	environFile          // the environment of a process
)

func (r *regular) Read(p []byte) (int, error) {
	if r.left < 0 {
		return r.f.Read(p)
	}
	if r.left == 0 {
		return 0, errEndless
	}
	n, err := r.f.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errEndless
	}
	return n, err
}

func (r *regular) Seek(offset int64, whence int) (int64, error) { return r.f.Seek(offset, whence) }

func (r *regular) Close() error { return r.f.Close() }
