package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"

	"troupe/protocol"
)

// readBuffer is how much is read at a time.
const readBuffer = 256 << 10

// readLines calls fn for every line between two offsets. The line is valid
// during the call; whole is false for a last line that has no line ending.
func readLines(r io.ReaderAt, from, to int64, fn func(line []byte, off int64, whole bool) error) error {
	in := lineReader{r: r, from: from, to: to}
	buf := make([]byte, min(readBuffer, max(0, to-from)))
	for {
		block, off, err := in.next(buf)
		if err != nil {
			return err
		}
		if block == nil {
			break
		}
		if err := eachLine(block, off, fn); err != nil {
			return err
		}
		buf = block[:cap(block)]
	}
	if len(in.rest) > 0 {
		return fn(in.rest, in.from, false)
	}
	return nil
}

// eachLine calls fn for every line of a block of whole lines.
func eachLine(block []byte, off int64, fn func(line []byte, off int64, whole bool) error) error {
	for len(block) > 0 {
		n := bytes.IndexByte(block, '\n')
		if err := fn(block[:n], off, true); err != nil {
			return err
		}
		block, off = block[n+1:], off+int64(n)+1
	}
	return nil
}

// lineReader cuts a part of a file into blocks of whole lines.
type lineReader struct {
	r        io.ReaderAt
	from, to int64  // what has not been returned
	rest     []byte // the beginning of that, which was read together with the block before
}

// next reads a block into buf, or a larger one if a line does not fit, and
// returns it and where it begins. At the end there is none: what rest has then
// is a last line without line ending. The block before stays as it is, unless
// buf is its own.
func (l *lineReader) next(buf []byte) (block []byte, off int64, err error) {
	if len(buf) < len(l.rest) {
		buf = make([]byte, 2*len(l.rest))
	}
	have := copy(buf, l.rest)
	for l.from+int64(have) < l.to {
		if have == len(buf) {
			if have >= protocol.MaxSessionLine {
				return nil, 0, lineTooLong(l.from)
			}
			buf = append(buf, make([]byte, len(buf))...)
		}
		fresh := buf[have:min(int64(len(buf)), l.to-l.from)]
		if _, err := readSome(l.r, fresh, l.from+int64(have)); err != nil {
			return nil, 0, err
		}
		if end := bytes.LastIndexByte(fresh, '\n') + 1; end > 0 {
			block, off = buf[:have+end], l.from
			l.from, l.rest = off+int64(len(block)), fresh[end:]
			return block, off, nil
		}
		have += len(fresh)
	}
	l.rest = buf[:have]
	return nil, l.from, nil
}

// readSome fills p. A file that is shorter than it was said to be is an error.
func readSome(r io.ReaderAt, p []byte, off int64) (int, error) {
	n, err := r.ReadAt(p, off)
	if n == len(p) {
		return n, nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = fmt.Errorf("read at %d: %w", off, io.ErrUnexpectedEOF)
	}
	return n, err
}

// Scanning is nearly all that loading a session costs, and of a large one it is
// done by several goroutines.
const (
	parallelSize = 1 << 20 // bytes of a session from which on that is faster
	maxScanners  = 8       // since each has a buffer, and there is one goroutine that joins what they find
)

func scanners(size int64) int {
	if size < parallelSize {
		return 1
	}
	return min(maxScanners, runtime.GOMAXPROCS(0))
}

// readAll takes all lines. With more than one scanner, the lines after the
// header are scanned by so many goroutines, a block at a time; this one reads
// the blocks and adds what was found in them to the index in the order of the
// file, so that the outcome is the same.
func (l *loader) readAll(r io.ReaderAt, size int64, scanners, buffer int) error {
	if scanners <= 1 {
		return readLines(r, 0, size, l.take)
	}
	in := &lineReader{r: r, to: size}
	for buf := make([]byte, buffer); !l.found; {
		block, off, err := in.next(buf)
		if err != nil {
			return err
		}
		if block == nil {
			break
		}
		if err := eachLine(block, off, l.take); err != nil {
			return err
		}
	}
	if l.found {
		if err := l.scanAll(in, scanners, buffer); err != nil {
			return err
		}
	}
	if len(in.rest) > 0 {
		return l.take(in.rest, in.from, false)
	}
	return nil
}

// scanAll takes the blocks that are left to read.
func (l *loader) scanAll(in *lineReader, scanners, buffer int) error {
	ring := make([]scan, scanners+1) // one is filled while the others are scanned
	work := make(chan *scan, len(ring))
	var over sync.WaitGroup
	for range scanners {
		over.Go(func() {
			for s := range work {
				s.run()
			}
		})
	}
	defer over.Wait()
	defer close(work)
	for i := range ring {
		ring[i] = scan{buf: make([]byte, buffer), done: make(chan struct{}, 1)}
	}
	for n := 0; ; n++ {
		s := &ring[n%len(ring)]
		if n >= len(ring) {
			l.join(s, in.to)
		}
		var err error
		if s.block, s.off, err = in.next(s.buf); err != nil {
			return err
		}
		if s.block == nil {
			for i := max(0, n-len(ring)+1); i < n; i++ {
				l.join(&ring[i%len(ring)], in.to)
			}
			return nil
		}
		work <- s
	}
}

// join adds what was found in a block, when that is known.
func (l *loader) join(s *scan, size int64) {
	<-s.done
	end := s.off + int64(len(s.block))
	if n := len(l.idx.slots) + len(s.entries); n > cap(l.idx.slots) {
		// As many as there will be if it goes on like this, which it need not.
		l.idx.reserve(min(4*n, int(1.05*float64(n)*float64(size)/float64(end))))
	}
	for i := range s.entries {
		l.idx.add(&s.entries[i])
	}
	l.skipped += s.skipped
	l.end, l.open = end, false
}

// scan is a block of whole lines and what was found in it.
type scan struct {
	buf     []byte // that the block is read into, unless it has too long a line
	block   []byte
	off     int64
	entries []entry
	skipped int // lines that are no entries
	done    chan struct{}
	head    lineHead
}

func (s *scan) run() {
	s.entries, s.skipped = s.entries[:0], 0
	_ = eachLine(s.block, s.off, s.take)
	s.done <- struct{}{}
}

func (s *scan) take(line []byte, off int64, _ bool) error {
	valid := scanLine(line, &s.head)
	if !valid && isBlank(line) {
		return nil
	}
	e, ok := entry{}, false
	if valid {
		e, ok = entryOf(&s.head, off, len(line))
	}
	if ok {
		s.entries = append(s.entries, e)
	} else {
		s.skipped++
	}
	return nil
}
