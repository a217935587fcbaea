package tools

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// The limits on what a model gets to read at once, whichever is hit first.
const (
	MaxLines = 2000
	MaxBytes = 50 << 10 // of UTF-8

	maxGrepLine = 500 // characters of one line shown by grep
)

// Truncation is details.truncation: what was cut and how much is left. A last
// line break ends the last line; it does not begin another one.
type Truncation struct {
	Content               string `json:"content"` // what is left
	Truncated             bool   `json:"truncated"`
	TruncatedBy           string `json:"truncatedBy"` // "lines" or "bytes"
	TotalLines            int64  `json:"totalLines"`
	TotalBytes            int64  `json:"totalBytes"`
	OutputLines           int64  `json:"outputLines"`
	OutputBytes           int64  `json:"outputBytes"`
	LastLinePartial       bool   `json:"lastLinePartial"`       // Content is the end of one line that is over the limit
	FirstLineExceedsLimit bool   `json:"firstLineExceedsLimit"` // Content is empty because of that
	MaxLines              int    `json:"maxLines"`
	MaxBytes              int    `json:"maxBytes"`
}

const (
	byLines = "lines"
	byBytes = "bytes"
)

// wholeOf is the truncation that cuts nothing.
func wholeOf(text string, maxLines, maxBytes int) Truncation {
	lines, size := countLines(text), int64(len(text))
	return Truncation{
		Content: text, TotalLines: lines, TotalBytes: size, OutputLines: lines, OutputBytes: size,
		MaxLines: maxLines, MaxBytes: maxBytes,
	}
}

// cut records that only content is left.
func (t Truncation) cut(content, by string) Truncation {
	t.Content, t.Truncated, t.TruncatedBy = content, true, by
	t.OutputLines, t.OutputBytes = countLines(content), int64(len(content))
	return t
}

// truncateHead keeps whole lines from the start.
func truncateHead(text string) Truncation { return TruncateHead(text, MaxLines, MaxBytes) }

// TruncateHead keeps whole lines from the start, within limits of the caller's.
func TruncateHead(text string, maxLines, maxBytes int) Truncation {
	t := wholeOf(text, maxLines, maxBytes)
	end, by := headEnd(text, maxLines, maxBytes)
	switch {
	case by == "":
		return t
	case end == 0:
		t.FirstLineExceedsLimit = true
		return t.cut("", by)
	}
	return t.cut(text[:end-1], by)
}

// headEnd returns the offset after the last line break that TruncateHead
// keeps, and the limit that is in the way of the rest, "" if none is.
func headEnd(text string, maxLines, maxBytes int) (end int, by string) {
	for lines := 0; end < len(text); lines++ {
		next := len(text)
		if i := strings.IndexByte(text[end:], '\n'); i >= 0 {
			next = end + i + 1
		}
		switch {
		case lines == maxLines:
			return end, byLines
		case len(strings.TrimSuffix(text[:next], "\n")) > maxBytes:
			return end, byBytes
		}
		end = next
	}
	return end, ""
}

// truncateTail keeps whole lines from the end, or the end of the last line if
// that alone is too long.
func truncateTail(text string) Truncation { return TruncateTail(text, MaxLines, MaxBytes) }

// TruncateTail does so within limits of the caller's.
func TruncateTail(text string, maxLines, maxBytes int) Truncation {
	t := wholeOf(text, maxLines, maxBytes)
	body := strings.TrimSuffix(text, "\n")
	start, by := tailStart(body, maxLines, maxBytes)
	switch {
	case by == "":
		return t
	case start == len(body):
		t.LastLinePartial = true
		return t.cut(runeSuffix(body, maxBytes), by)
	}
	return t.cut(body[start:], by)
}

// tailStart returns where the last lines that fit begin, and the limit that is
// in the way of the rest, "" if none is. len(body) means that not even the
// last line fits.
func tailStart(body string, maxLines, maxBytes int) (start int, by string) {
	start = len(body)
	for lines, end := 0, len(body); end >= 0; lines++ {
		begin := strings.LastIndexByte(body[:end], '\n') + 1
		switch {
		case lines == maxLines:
			return start, byLines
		case len(body)-begin > maxBytes:
			return start, byBytes
		}
		start, end = begin, begin-1
	}
	return start, ""
}

// runeSuffix is the longest suffix of at most n bytes that begins at a
// character.
func runeSuffix(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[len(s)-n:]
	for i := 0; i < len(s) && i < utf8.UTFMax; i++ {
		if utf8.RuneStart(s[i]) {
			return s[i:]
		}
	}
	return s
}

// extent counts the lines and bytes of a text as it goes by.
type extent struct {
	bytes, breaks int64
	last          byte
}

func (e *extent) add(b []byte) {
	if len(b) > 0 {
		e.bytes += int64(len(b))
		e.breaks += int64(bytes.Count(b, []byte{'\n'}))
		e.last = b[len(b)-1]
	}
}

func (e *extent) lines() int64 {
	if e.bytes > 0 && e.last != '\n' {
		return e.breaks + 1
	}
	return e.breaks
}

func countLines(text string) int64 {
	n := int64(strings.Count(text, "\n"))
	if text != "" && text[len(text)-1] != '\n' {
		n++
	}
	return n
}

// withNotices puts notices in brackets below text, a blank line between.
func withNotices(text string, notices ...string) string {
	if len(notices) == 0 {
		return text
	}
	notice := "[" + strings.Join(notices, ". ") + "]"
	if text == "" {
		return notice
	}
	return text + "\n\n" + notice
}
