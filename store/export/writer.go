package export

import (
	"bytes"
	"html"
	"io"
	"unicode/utf8"
)

// writer writes the pieces of a page. After an error it writes nothing more.
type writer struct {
	w   io.Writer
	buf []byte
	err error
}

// text writes s as it is.
func (w *writer) text(s string) {
	if w.err == nil {
		_, w.err = io.WriteString(w.w, s)
	}
}

// html writes s as the text of an element.
func (w *writer) html(s string) { w.text(html.EscapeString(s)) }

// json writes a JSON text as one line of a script element.
func (w *writer) json(b []byte) {
	if w.err != nil {
		return
	}
	w.buf = appendScriptData(w.buf[:0], b)
	_, w.err = w.w.Write(w.buf)
}

const hexDigits = "0123456789abcdef"

// appendScriptData appends a JSON text so that nothing in it can end the
// script element or change how the rest is read: <, > and & become escapes,
// and so do the two line separators that older JavaScript does not allow in
// strings. In JSON these characters occur in strings only, where the escape
// means the same. Line breaks, which occur between tokens only, become spaces:
// a line is an entry.
func appendScriptData(dst, b []byte) []byte {
	if !utf8.Valid(b) {
		b = bytes.ToValidUTF8(b, []byte("\uFFFD"))
	}
	start := 0
	for i, c := range b {
		var escaped string
		size := 1
		switch {
		case c == '<' || c == '>' || c == '&':
			escaped = `\u00` + string([]byte{hexDigits[c>>4], hexDigits[c&15]})
		case c == '\n' || c == '\r' || c == 0:
			escaped = " "
		case c == 0xE2 && bytes.HasPrefix(b[i:], []byte("\u2028")):
			escaped, size = `\u2028`, 3
		case c == 0xE2 && bytes.HasPrefix(b[i:], []byte("\u2029")):
			escaped, size = `\u2029`, 3
		default:
			continue
		}
		dst = append(dst, b[start:i]...)
		dst = append(dst, escaped...)
		start = i + size
	}
	return append(dst, b[start:]...)
}
