package tools

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

const (
	// grepRead is how much of a file is read at once. It is ripgrep's number, since
	// a NUL ends the search of a file before the part that it is read with.
	grepRead = 64 << 10
	// grepBlock is the longest line that is searched as a whole.
	grepBlock = 256 << 10
)

var grepBuffers = sync.Pool{New: func() any { return new([grepBlock]byte) }}

// fileSearch is the search of one file, block by block.
type fileSearch struct {
	*grepRun
	path string // as shown

	line    int64    // the number of the next line
	recent  []string // the last lines before it that were not shown, at most context
	after   int      // how many following lines are context
	shown   int64    // the last line shown
	midLine bool     // the next block goes on with a line that was too long for one
	matched bool     // and that was shown
}

// searchFile searches one file, of a binary one all or the blocks before the
// first NUL. Its lines may be of any length: one that does not fit a block is
// searched in pieces.
func (s *grepRun) searchFile(ctx context.Context, file, path string, binary bool) error {
	f, _, err := openRegular(file)
	if err != nil {
		return err
	}
	defer f.Close()
	buf := grepBuffers.Get().(*[grepBlock]byte)
	defer grepBuffers.Put(buf)
	fs := fileSearch{grepRun: s, path: path, line: 1}
	text, err := decoded(f)
	if err != nil {
		return fileError("read", file, err)
	}
	for have := 0; ; {
		n, err := io.ReadFull(text, buf[have:min(max(grepRead, 2*have), grepBlock)])
		block := buf[:have+n]
		end := err == io.EOF || err == io.ErrUnexpectedEOF
		switch {
		case err != nil && !end:
			return fileError("read", file, err)
		case !binary && bytes.IndexByte(block[have:], 0) >= 0:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
		whole := len(block)
		if i := bytes.LastIndexByte(block, '\n'); !end && (i >= 0 || whole < grepBlock) {
			whole = i + 1
		}
		if err := fs.block(block[:whole]); err != nil || end {
			return err
		}
		have = copy(buf[:], block[whole:])
	}
}

// decoded reads a file as UTF-8, without a byte order mark at the beginning,
// which tells UTF-16 apart. Like ripgrep it drops two of UTF-16.
func decoded(f io.ReadSeeker) (io.Reader, error) {
	var begin [4]byte
	n, err := io.ReadFull(f, begin[:])
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, err
	}
	mark, order := "", unicode.LittleEndian
	for _, known := range []string{"\xef\xbb\xbf", "\xff\xfe", "\xfe\xff"} {
		if strings.HasPrefix(string(begin[:n]), known) {
			mark = known
		}
	}
	if mark == "\xfe\xff" {
		order = unicode.BigEndian
	}
	skip := len(mark)
	if string(begin[:n]) == mark+mark {
		skip = n
	}
	if _, err := f.Seek(int64(skip), io.SeekStart); err != nil || len(mark) != 2 {
		return f, err
	}
	return transform.NewReader(f, unicode.UTF16(order, unicode.IgnoreBOM).NewDecoder()), nil
}

// block searches whole lines, or a piece of one.
func (s *fileSearch) block(b []byte) error {
	look := b // where to look for what must be in a match
	if s.pattern.fold {
		s.lower = lowerASCII(s.lower[:0], b)
		look = s.lower
	}
	for at := 0; at < len(b); {
		start := at + s.candidate(look[at:])
		if err := s.pass(b[at:start]); err != nil {
			return err
		}
		if start == len(b) {
			return nil
		}
		at = start + lineOffset(b[start:], 1)
		if err := s.try(b[start:at]); err != nil {
			return err
		}
	}
	return nil
}

// candidate is where the next line begins that may match.
func (s *fileSearch) candidate(b []byte) int {
	if len(s.pattern.must) == 0 {
		return 0
	}
	i := bytes.Index(b, s.pattern.must)
	if i < 0 {
		return len(b)
	}
	return bytes.LastIndexByte(b[:i], '\n') + 1
}

// try looks at one line.
func (s *fileSearch) try(line []byte) error {
	text := withoutEnd(line)
	if s.matched || !s.pattern.match(text) {
		return s.pass(line)
	}
	if s.more = s.matches == s.limit; s.more {
		return errEnough
	}
	s.matches++
	if err := s.showRecent(); err != nil {
		return err
	}
	if err := s.show(s.path, ':', s.line, s.pattern.excerpt(text)); err != nil {
		return err
	}
	s.shown, s.after, s.matched = s.line, s.context, true
	s.next(line)
	return nil
}

// pass goes over lines that do not match.
func (s *fileSearch) pass(b []byte) error {
	for s.after > 0 && len(b) > 0 {
		end := lineOffset(b, 1)
		if !s.midLine {
			s.shown = s.line
			if err := s.show(s.path, '-', s.line, displayed(b[:end])); err != nil {
				return err
			}
		}
		if s.next(b[:end]); !s.midLine {
			s.after--
		}
		b = b[end:]
	}
	if len(b) == 0 {
		return nil
	}
	s.remember(b)
	s.line += int64(bytes.Count(b, []byte{'\n'}))
	s.midLine = b[len(b)-1] != '\n'
	s.matched = s.matched && s.midLine
	return nil
}

// next goes to the line after line, or stays if the line is not over.
func (s *fileSearch) next(line []byte) {
	s.midLine = line[len(line)-1] != '\n'
	if !s.midLine {
		s.line++
		s.matched = false
	}
}

// remember keeps the last lines of b as context for a match after them.
func (s *fileSearch) remember(b []byte) {
	if s.context == 0 {
		return
	}
	if s.midLine { // its beginning is remembered
		b = b[lineOffset(b, 1):]
	}
	start := len(b)
	for n := 0; n < s.context && start > 0; n++ {
		start = bytes.LastIndexByte(b[:start-1], '\n') + 1
	}
	for start < len(b) {
		end := start + lineOffset(b[start:], 1)
		s.recent = append(s.recent, displayed(b[start:end]))
		start = end
	}
	s.recent = s.recent[max(len(s.recent)-s.context, 0):]
}

// showRecent shows the context before a match, and a line that separates it
// from what was shown before.
func (s *fileSearch) showRecent() error {
	if s.context == 0 {
		return nil
	}
	if s.midLine && len(s.recent) > 0 { // that is the beginning of the match's own line
		s.recent = s.recent[:len(s.recent)-1]
	}
	first := s.line - int64(len(s.recent))
	if s.list.lines > 0 && (s.shown == 0 || first > s.shown+1) && !s.list.add("--") {
		return errEnough
	}
	for i, text := range s.recent {
		if err := s.show(s.path, '-', first+int64(i), text); err != nil {
			return err
		}
	}
	s.recent = s.recent[:0]
	return nil
}

// withoutEnd cuts off the line end.
func withoutEnd(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte{'\n'}), []byte{'\r'})
}

// displayed is a line as it is shown, no longer than that takes.
func displayed(line []byte) string {
	const enough = 4*maxGrepLine + 4
	line = withoutEnd(line[:min(len(line), enough)])
	return strings.ToValidUTF8(string(line), "\uFFFD")
}
