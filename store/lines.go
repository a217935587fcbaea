package store

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"troupe/protocol"
)

// readBuffer is how many bytes are read at a time.
const readBuffer = 256 << 10

// readLines calls fn for every line between two offsets. The line is valid
// during the call; whole is false for a last line that has no line ending. A
// line longer than protocol.MaxSessionLine is ErrTooLarge, and so much of it is
// all that is ever in memory.
func readLines(r io.ReaderAt, from, to int64, fn func(line []byte, off int64, whole bool) error) error {
	in := bufio.NewScanner(io.NewSectionReader(r, from, to-from))
	in.Buffer(make([]byte, min(readBuffer, max(0, to-from)+1)), protocol.MaxSessionLine)
	in.Split(splitLines)
	off := from
	for in.Scan() {
		line, whole := bytes.CutSuffix(in.Bytes(), []byte("\n"))
		if err := fn(line, off, whole); err != nil {
			return err
		}
		off += int64(len(in.Bytes()))
	}
	switch err := in.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return lineTooLong(off)
	case err != nil:
		return err
	case off < to:
		return fmt.Errorf("read at %d: %w", off, io.ErrUnexpectedEOF)
	}
	return nil
}

// splitLines is a bufio.SplitFunc whose lines keep their endings.
func splitLines(data []byte, atEOF bool) (advance int, line []byte, err error) {
	n := bytes.IndexByte(data, '\n') + 1
	if n == 0 && atEOF {
		n = len(data)
	}
	if n == 0 {
		return 0, nil, nil
	}
	return n, data[:n], nil
}

// readFull fills p. A file that ends before that is io.ErrUnexpectedEOF.
func readFull(r io.ReaderAt, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = fmt.Errorf("read at %d: %w", off, io.ErrUnexpectedEOF)
	}
	return err
}
