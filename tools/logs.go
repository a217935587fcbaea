package tools

import (
	"errors"
	"os"
	"slices"
	"sync"

	"troupe/protocol"
)

// logs are the files with whole outputs that the commands of a session have
// left, each within [protocol.MaxLog]. They are removed with the session: until then a model or a client may
// read them. A nil logs keeps no count.
type logs struct {
	each, all int64 // how much one may have, and all of them

	mu     sync.Mutex
	closed bool
	list   []*logFile // oldest first
	total  int64
}

// logFile is the file of one command.
type logFile struct {
	*os.File
	of    *logs
	size  int64
	whole bool // nothing more will be written
}

var errLogFull = errors.New("the log is full")

// create makes a new file in a directory, "" for the system's. Where commands of the sandbox may write
// there, it is the directory with which the session was opened.
func (l *logs) create(dir string, sandbox Sandbox) (*logFile, error) {
	if dir == "" {
		dir = os.TempDir()
	}
	if l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.closed {
			return nil, errClosing
		}
	}
	f, err := sandbox.createLog(dir, "pi-bash-"+randomHex(8)+".log")
	if err != nil {
		return nil, err
	}
	file := &logFile{File: f, of: l}
	if l != nil {
		l.list = append(l.list, file)
	}
	return file, nil
}

// write appends what there is room for; errLogFull says that there was not
// enough.
func (f *logFile) write(p []byte) error {
	room := f.of.reserve(f, int64(len(p)))
	if _, err := f.Write(p[:room]); err != nil {
		return err
	}
	if room < int64(len(p)) {
		return errLogFull
	}
	return nil
}

// reserve makes room for n bytes more of a file, as far as it may grow and
// removing older ones helps.
func (l *logs) reserve(f *logFile, n int64) int64 {
	if l == nil {
		n = min(n, protocol.MaxLog-f.size)
		f.size += n
		return n
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n = min(n, l.each-f.size)
	if l.closed { // the file is removed
		return 0
	}
	for l.total+n > l.all {
		oldest := slices.IndexFunc(l.list, func(f *logFile) bool { return f.whole })
		if oldest < 0 {
			n = max(l.all-l.total, 0)
			break
		}
		l.drop(l.list[oldest])
	}
	l.total += n
	f.size += n
	return n
}

// drop forgets a file and removes it.
func (l *logs) drop(f *logFile) {
	l.list = slices.DeleteFunc(l.list, func(x *logFile) bool { return x == f })
	l.total -= f.size
	os.Remove(f.Name())
}

// finish says that the file is complete.
func (f *logFile) finish() error {
	if f.of != nil {
		f.of.mu.Lock()
		f.whole = true
		f.of.mu.Unlock()
	}
	return f.Close()
}

// discard removes a file that could not be completed.
func (f *logFile) discard() error {
	err := f.Close()
	if f.of == nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	f.of.drop(f)
	return err
}

// removeAll is the end of the session.
func (l *logs) removeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for len(l.list) > 0 {
		l.drop(l.list[0])
	}
}
