package pi

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"troupe/protocol"
)

// LineTooLongError reports an input line above the limit. The line has been
// read to its end and dropped; the next call of Next returns the next line.
type LineTooLongError struct {
	Limit int    // bytes allowed
	Size  int64  // bytes the line had, without its line ending
	Head  []byte // the first bytes of the line, enough to find an id in
}

func (e *LineTooLongError) Error() string {
	return fmt.Sprintf("line of %d bytes exceeds the limit of %d bytes", e.Size, e.Limit)
}

const (
	firstChunk = 2 << 10 // most clients say little
	readChunk  = 32 << 10
	headBytes  = 4 << 10
)

// LineReader cuts a stream into lines: LF only, a CR before it dropped, blank
// lines skipped. Unlike bufio.Scanner it survives an over-long line. Each line
// is handed over to the caller: the reader never touches its bytes again.
type LineReader struct {
	r   io.Reader
	has gives // r, if it is one
	max int
	buf []byte // bytes read and not yet returned; its array is not reused once a line of it went out
	own int    // how large the next array is: as large as reads that fill the one they have
	err error  // sticky error of r
}

// gives is an input in pieces that the reader may keep: a client that is silent has no buffer.
type gives interface{ Chunk() ([]byte, error) }

// NewLineReader reads lines of at most max bytes from r; max 0 means
// [protocol.DefaultMaxLine].
func NewLineReader(r io.Reader, max int) *LineReader {
	if max <= 0 {
		max = protocol.DefaultMaxLine
	}
	has, _ := r.(gives)
	return &LineReader{r: r, has: has, max: max, own: firstChunk}
}

// Next returns the next line without its line ending. Errors: io.EOF at the
// end of input, *[LineTooLongError] for a line above the limit (call Next
// again to go on), anything else from the underlying reader.
func (l *LineReader) Next() ([]byte, error) {
	for {
		line, err := l.next()
		if err != nil {
			return nil, err
		}
		if len(bytes.Trim(line, " \t\r")) > 0 {
			return line, nil
		}
	}
}

// Buffered says that the next line is there already, so that Next will not block.
func (l *LineReader) Buffered() bool { return bytes.IndexByte(l.buf, '\n') >= 0 }

func (l *LineReader) next() ([]byte, error) {
	seen := 0
	for {
		if i := bytes.IndexByte(l.buf[seen:], '\n'); i >= 0 {
			line := l.buf[: seen+i : seen+i]
			if l.buf = l.buf[seen+i+1:]; l.has != nil && len(l.buf) == 0 {
				l.buf = nil
			}
			if cap(line) > 16*readChunk { // do not keep a huge line's array alive for the few bytes after it
				l.buf = append(make([]byte, 0, readChunk), l.buf...)
			}
			line = bytes.TrimSuffix(line, []byte("\r"))
			if len(line) > l.max {
				return nil, &LineTooLongError{l.max, int64(len(line)), head(line)}
			}
			return line, nil
		}
		seen = len(l.buf)
		if seen > l.max+1 { // +1: a CR that would be dropped
			return nil, l.skip()
		}
		if l.err != nil {
			if seen == 0 {
				return nil, l.err
			}
			line := bytes.TrimSuffix(l.buf, []byte("\r"))
			l.buf = nil
			if !errors.Is(l.err, io.EOF) {
				return nil, l.err
			}
			if len(line) > l.max {
				return nil, &LineTooLongError{l.max, int64(len(line)), head(line)}
			}
			return line, nil
		}
		l.fill()
	}
}

// fill reads once more into the free tail of buf, moving to a fresh array when
// the tail is short: earlier lines may still point into the old one.
func (l *LineReader) fill() {
	if l.has != nil {
		chunk, err := l.has.Chunk()
		if l.err = err; len(l.buf) > 0 {
			chunk = append(l.buf, chunk...)
		}
		l.buf = chunk
		return
	}
	if cap(l.buf)-len(l.buf) < l.own/8 {
		grown := make([]byte, len(l.buf), max(l.own, 2*len(l.buf)))
		copy(grown, l.buf)
		l.buf = grown
	}
	n, err := l.r.Read(l.buf[len(l.buf):cap(l.buf)])
	if l.buf = l.buf[:len(l.buf)+n]; len(l.buf) == cap(l.buf) {
		l.own = min(2*l.own, readChunk)
	}
	if err != nil {
		l.err = err
	}
}

// skip drops the rest of an over-long line.
func (l *LineReader) skip() error {
	tooLong := &LineTooLongError{Limit: l.max, Size: int64(len(l.buf)), Head: head(l.buf)}
	scratch := make([]byte, readChunk)
	for l.err == nil {
		n, err := l.r.Read(scratch)
		if err != nil {
			l.err = err
		}
		if i := bytes.IndexByte(scratch[:n], '\n'); i >= 0 {
			tooLong.Size += int64(i)
			l.buf = scratch[i+1 : n]
			return tooLong
		}
		tooLong.Size += int64(n)
	}
	l.buf = nil
	return tooLong
}

func head(line []byte) []byte { return bytes.Clone(line[:min(len(line), headBytes)]) }
