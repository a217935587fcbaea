package tools

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strings"
	"unicode/utf8"
)

// keepBytes is how much of the end of the output stays in memory: what
// truncateTail may keep, and enough of the line before to know that it was cut.
const keepBytes = MaxBytes + 64

// output collects what a command writes: the end of it in memory, and all of
// it in a file as soon as it is over the limits, up to [protocol.MaxLog]. Its memory is
// bounded.
type output struct {
	dir     string  // for the file
	sandbox Sandbox // of the command
	logs    *logs   // that the file belongs to
	tail    []byte  // the last bytes; all of them as long as there is no file
	dropped bool    // tail is not everything

	all extent

	file *logFile
	full bool  // the file has only the beginning
	err  error // why there is no file although there should be
}

func (o *output) write(p []byte) {
	if len(p) == 0 {
		return
	}
	o.all.add(p)
	if o.file == nil && o.err == nil && (o.all.bytes > MaxBytes || o.all.lines() > MaxLines) {
		o.spill()
	}
	o.toFile(p)
	o.push(p)
}

// spill moves what there is so far to a new file.
func (o *output) spill() {
	o.file, o.err = o.logs.create(o.dir, o.sandbox)
	o.toFile(o.tail)
}

// toFile writes p to the file, if there is one. A file that cannot be completed
// is removed: the command itself goes on.
func (o *output) toFile(p []byte) {
	if o.file == nil || o.full {
		return
	}
	switch err := o.file.write(p); {
	case errors.Is(err, errLogFull):
		o.full = true
	case err != nil:
		o.err = errors.Join(err, o.file.discard())
		o.file = nil
	}
}

func (o *output) push(p []byte) {
	if len(p) >= keepBytes {
		o.dropped = o.dropped || len(p) > keepBytes || len(o.tail) > 0
		o.tail = append(o.tail[:0], p[len(p)-keepBytes:]...)
		return
	}
	if extra := len(o.tail) + len(p) - keepBytes; extra > 0 && len(o.tail)+len(p) > 2*keepBytes {
		o.dropped = true
		o.tail = append(o.tail[:0], o.tail[extra:]...)
	}
	o.tail = append(o.tail, p...)
}

// truncation is what a reader gets to see. Before the end of the output an
// unfinished character is held back.
func (o *output) truncation(end bool) Truncation {
	t := truncateTail(o.text(end))
	if o.dropped && !t.Truncated {
		t = t.cut(strings.TrimSuffix(t.Content, "\n"), byBytes)
	}
	t.TotalBytes, t.TotalLines = o.all.bytes, o.all.lines()
	return t
}

// text is the tail as valid UTF-8.
func (o *output) text(end bool) string {
	b := o.tail
	if o.dropped {
		b = trimHalfRune(b)
	}
	if !end {
		b = b[:wholeRunes(b)]
	}
	s := strings.ToValidUTF8(string(b), "\uFFFD")
	if o.dropped && len(s) <= MaxBytes { // bytes that are not text became fewer
		if i := strings.IndexByte(s, '\n'); i >= 0 && i < len(s)-1 {
			s = s[i+1:]
		}
	}
	return s
}

// finish closes the file. The truncation it returns is what truncation(true)
// says, with a file if it cut anything.
func (o *output) finish() (t Truncation, path string) {
	t = o.truncation(true)
	if t.Truncated && o.file == nil && o.err == nil {
		o.spill() // by then everything is still in tail
	}
	if path = o.path(); path != "" {
		o.err = o.file.finish()
	}
	return t, path
}

func (o *output) path() string {
	if o.file == nil {
		return ""
	}
	return o.file.Name()
}

// trimHalfRune cuts off the end of a character whose beginning is gone.
func trimHalfRune(b []byte) []byte {
	for i := 0; i < len(b) && i < utf8.UTFMax-1; i++ {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b
}

// wholeRunes is the length of b without an unfinished character at its end.
func wholeRunes(b []byte) int {
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if utf8.FullRune(b[i:]) {
				break
			}
			return i
		}
	}
	return len(b)
}

// randomHex returns n random bytes in hexadecimal.
func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
