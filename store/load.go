package store

import (
	"bytes"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"troupe/protocol"
)

// Damage is what loading had to overlook, and what others did to the file.
type Damage struct {
	Skipped   int   // whole lines that are no entries; they stay where they are
	TornBytes int64 // after the last whole line; the first append moves them to a side file
	Foreign   int   // lines another program wrote while the log was open
}

// loader reads a session file line by line into an index.
type loader struct {
	idx     index
	header  protocol.Header
	found   bool // the header
	skipped int
	head    lineHead
	end     int64 // where the last whole line ends
	junk    int64 // bytes after that which are no line
	open    bool  // the last line is whole but for its line ending
}

// take adds one line. whole is false for a last line without line ending: if
// it is valid it only lacks the ending, else it is torn. take fails at the
// first JSON value that should be the header and is none.
func (l *loader) take(line []byte, off int64, whole bool) error {
	next := off + int64(len(line))
	if whole {
		next++
	}
	if off == 0 {
		line = bytes.TrimPrefix(line, []byte("\xEF\xBB\xBF"))
	}
	if isBlank(line) {
		l.end, l.open = next, l.open && !whole
		return nil
	}
	valid := scanLine(line, &l.head)
	if !valid && !whole {
		l.junk = int64(len(line))
		return nil
	}
	l.end, l.open = next, !whole
	if !l.found {
		return l.takeHeader(line, valid)
	}
	if !valid || !l.idx.addLine(&l.head, off, len(line)) {
		l.skipped++
	}
	return nil
}

// takeHeader expects the header. Lines that are no JSON are passed over, as pi
// does; a value that is no header decides that this is not a session.
func (l *loader) takeHeader(line []byte, valid bool) error {
	if valid {
		if l.header, l.found = decodeHeader(line, &l.head); l.found {
			return nil
		}
	}
	if valid || validJSON(line) {
		return ErrNotSession
	}
	l.skipped++
	return nil
}

// decodeHeader reads a header; it is one if it says so and has an id.
func decodeHeader(line []byte, h *lineHead) (protocol.Header, bool) {
	if string(h.kind) != "session" || len(h.id) == 0 {
		return protocol.Header{}, false
	}
	v := gjson.ParseBytes(line)
	if v.Get("id").Type != gjson.String {
		return protocol.Header{}, false
	}
	header := protocol.Header{
		Version:       1,
		ID:            text(h.id),
		Timestamp:     text(h.stamp),
		Cwd:           stringMember(v, "cwd"),
		ParentSession: stringMember(v, "parentSession"),
	}
	if version := v.Get("version"); version.Type == gjson.Number || version.Type == gjson.String && version.Int() > 0 {
		header.Version = int(version.Int())
	}
	if header.ParentSession == "" { // the Rust port's name for it
		header.ParentSession = stringMember(v, "branchedFrom")
	}
	return header, true
}

func stringMember(v gjson.Result, name string) string {
	if m := v.Get(name); m.Type == gjson.String {
		return text([]byte(m.Str))
	}
	return ""
}

// text makes a string of foreign bytes, with U+FFFD for what is not UTF-8.
func text(b []byte) string {
	if !utf8.Valid(b) {
		b = bytes.ToValidUTF8(b, []byte("\uFFFD"))
	}
	return string(b)
}

func isBlank(line []byte) bool {
	for _, c := range line {
		if !isSpace(c) {
			return false
		}
	}
	return true
}

// usualEntry is the size in bytes below which few entries are: the index makes
// room for so many, once, and gives back what was not needed.
const usualEntry = 256

// load reads a whole session. size is where it ends.
func load(r io.ReaderAt, size int64) (*loader, error) {
	if err := checkBeginning(r, size); err != nil {
		return nil, err
	}
	l := &loader{}
	l.idx.slots = make([]slot, 0, size/usualEntry)
	if err := readLines(r, 0, size, l.take); err != nil {
		return nil, err
	}
	if !l.found {
		return nil, l.whyNoHeader(r, size)
	}
	l.idx.resolve(0)
	l.idx.trim()
	return l, nil
}

// checkBeginning refuses a large file whose first line is no header by its
// length alone, before all of it is read as one line.
func checkBeginning(r io.ReaderAt, size int64) error {
	if size <= protocol.MaxHeader {
		return nil
	}
	b := make([]byte, protocol.MaxHeader)
	if err := readFull(r, b, 0); err != nil {
		return err
	}
	if bytes.IndexByte(b, '\n') < 0 {
		return ErrNotSession
	}
	return nil
}

// whyNoHeader tells a file without any JSON value from one that has yet to
// become a session: nothing in it, or a header whose writing was cut.
func (l *loader) whyNoHeader(r io.ReaderAt, size int64) error {
	if size > protocol.MaxHeader {
		return ErrNotSession
	}
	b := make([]byte, size)
	if _, err := r.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if isUnborn(b) {
		return ErrEmpty
	}
	return ErrNotSession
}

// isUnborn says whether the bytes of a file are all that is left of an attempt
// to create a session: white space, or a part of a header without line ending.
// A power cut may also leave zeros where the header should be.
func isUnborn(b []byte) bool {
	const start = `{"type":"session",`
	b = bytes.TrimRight(b, "\x00")
	if isBlank(b) {
		return true
	}
	if bytes.IndexByte(b, '\n') >= 0 {
		return false
	}
	n := min(len(b), len(start))
	return string(b[:n]) == start[:n]
}
