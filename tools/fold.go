package tools

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// foldedText is a text without the differences that models overlook: Unicode
// compatibility forms, kinds of quotation marks, dashes and spaces, and white
// space at the ends of lines. It knows where in the original a passage is.
type foldedText struct {
	text   string
	source string
	lines  []foldedLine
}

// foldedLine is where a line begins, in the folded and the original text. Texts
// are not larger than maxEditSize.
type foldedLine struct{ at, original int32 }

func fold(text string) *foldedText {
	f := &foldedText{source: text, lines: make([]foldedLine, 0, strings.Count(text, "\n")+1)}
	var b strings.Builder
	b.Grow(len(text))
	offset := 0
	for line := range strings.SplitSeq(text, "\n") {
		if offset > 0 {
			b.WriteByte('\n')
		}
		f.lines = append(f.lines, foldedLine{int32(b.Len()), int32(offset)})
		b.WriteString(trimEnd(foldRunes(line)))
		offset += len(line) + 1
	}
	f.text = b.String()
	return f
}

// foldRunes folds everything but the ends of lines.
func foldRunes(s string) string {
	if isASCII(s) {
		return s
	}
	return strings.Map(foldRune, norm.NFKC.String(s))
}

func foldRune(r rune) rune {
	switch {
	case r < utf8.RuneSelf:
		return r
	case '\u2018' <= r && r <= '\u201B':
		return '\''
	case '\u201C' <= r && r <= '\u201F':
		return '"'
	case '\u2010' <= r && r <= '\u2015', r == '\u2212':
		return '-'
	}
	return plainSpace(r)
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func trimEnd(line string) string { return strings.TrimRightFunc(line, unicode.IsSpace) }

// occurrences counts the passages that old means. White space at the end of
// old may be what follows in the line, or be missing there because the line
// ends.
func (f *foldedText) occurrences(old string) (first passage, count int) {
	head, last := "", old
	if i := strings.LastIndexByte(old, '\n'); i >= 0 {
		head, last = fold(old[:i]).text+"\n", old[i+1:]
	}
	full := foldRunes(last)
	trimmed := trimEnd(full)
	start, count := occurrences(f.text, head+full)
	first = passage{start: start, end: start + len(head) + len(full)}
	if len(trimmed) == len(full) || head+trimmed == "" {
		return first, count
	}
	for at := 0; count < maxCount; at++ {
		i := strings.Index(f.text[at:], head+trimmed)
		if i < 0 {
			break
		}
		at += i
		end := at + len(head) + len(trimmed)
		if end < len(f.text) && f.text[end] != '\n' {
			continue
		}
		if count == 0 {
			first = passage{start: at, end: end}
		}
		count++
	}
	return first, count
}

// original is where the folded text's offset at is in the original. White space
// cut off there belongs to the line that a passage leaves alone: a passage that
// starts at the end of a line starts behind it, one that ends there ends before
// it. It is not ok if at is inside of what was one character.
func (f *foldedText) original(at int, start bool) (offset int, ok bool) {
	i, found := slices.BinarySearchFunc(f.lines, int32(at), func(l foldedLine, at int32) int { return int(l.at - at) })
	if !found {
		i--
	}
	line := f.lines[i]
	text, _, _ := strings.Cut(f.source[line.original:], "\n")
	if atEnd := at == len(f.text) || f.text[at] == '\n'; start && atEnd {
		return int(line.original) + len(text), true
	}
	column, ok := unfold(text, at-int(line.at))
	return int(line.original) + column, ok
}

// unfold is the column of line that became column folded.
func unfold(line string, folded int) (column int, ok bool) {
	for folded > 0 {
		size := norm.NFKC.NextBoundaryInString(line[column:], true)
		if size <= 0 {
			return column, false
		}
		folded -= len(foldRunes(line[column : column+size]))
		column += size
	}
	return column, folded == 0
}
