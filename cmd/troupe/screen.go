package main

import (
	"bytes"
	"io"
	"os"
	"unicode"

	"github.com/mattn/go-isatty"
)

// screen is a terminal. It obeys control characters, and what we print was
// written by models, servers and files: moving the cursor, changing the
// clipboard or the keyboard is not theirs to do. A pipe or a file gets every
// byte as it is: who reads that may want just those.
type screen struct{ out io.Writer }

// onScreen is the file, or the screen if it is a terminal.
func onScreen(f *os.File) io.Writer {
	if isatty.IsTerminal(f.Fd()) {
		return screen{f}
	}
	return f
}

func (s screen) Write(p []byte) (int, error) {
	if _, err := s.out.Write(plain(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// plain makes control characters visible: all but tab and line feed, with or
// without the carriage return before it, and those that turn the direction of
// text or hide it. What is no UTF-8 counts as one.
func plain(p []byte) []byte {
	p = bytes.ReplaceAll(p, []byte("\r\n"), []byte("\n"))
	return bytes.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp) || r >= 0xE0000 && r < 0xE0080 {
			return unicode.ReplacementChar
		}
		return r
	}, p)
}
