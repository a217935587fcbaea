package tools

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"troupe/protocol"
)

func numbered(from, to int, line string) string {
	return strings.Repeat(line+"\n", to-from+1)
}

func TestTruncateHead(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", MaxBytes)
	for name, c := range map[string]struct {
		text, content, by string
		lines, outLines   int64
		firstTooLong      bool
	}{
		"empty":              {},
		"one line":           {text: "a", content: "a", lines: 1, outLines: 1},
		"line break at end":  {text: "a\n", content: "a\n", lines: 1, outLines: 1},
		"blank lines":        {text: "\n\n", content: "\n\n", lines: 2, outLines: 2},
		"2000 lines":         {text: numbered(1, 2000, "x"), content: numbered(1, 2000, "x"), lines: 2000, outLines: 2000},
		"2001 lines":         {text: numbered(1, 2001, "x"), content: strings.TrimSuffix(numbered(1, 2000, "x"), "\n"), by: byLines, lines: 2001, outLines: 2000},
		"exactly the bytes":  {text: long, content: long, lines: 1, outLines: 1},
		"and a line break":   {text: long + "\n", content: long + "\n", lines: 1, outLines: 1},
		"and a blank line":   {text: long + "\n\n", content: long, by: byBytes, lines: 2, outLines: 1},
		"one byte too many":  {text: long + "x", by: byBytes, lines: 1, firstTooLong: true},
		"first line too big": {text: long + "x\nb", by: byBytes, lines: 2, firstTooLong: true},
		"second too big":     {text: "a\n" + long, content: "a", by: byBytes, lines: 2, outLines: 1},
	} {
		got := truncateHead(c.text)
		want := Truncation{
			Content: c.content, Truncated: c.by != "", TruncatedBy: c.by, TotalLines: c.lines, TotalBytes: int64(len(c.text)),
			OutputLines: c.outLines, OutputBytes: int64(len(c.content)), FirstLineExceedsLimit: c.firstTooLong,
			MaxLines: 2000, MaxBytes: 51200,
		}
		assert.Equal(t, want, got, name)
	}
}

func TestTruncateTail(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", MaxBytes)
	euros := strings.Repeat("€", MaxBytes/3+1)
	for name, c := range map[string]struct {
		text, content, by string
		lines, outLines   int64
		partial           bool
	}{
		"empty":             {},
		"line break":        {text: "\n", content: "\n", lines: 1, outLines: 1},
		"line break at end": {text: "a\nb\n", content: "a\nb\n", lines: 2, outLines: 2},
		"2000 lines":        {text: numbered(1, 2000, "x"), content: numbered(1, 2000, "x"), lines: 2000, outLines: 2000},
		"2001 lines":        {text: "first\n" + numbered(1, 2000, "x"), content: strings.TrimSuffix(numbered(1, 2000, "x"), "\n"), by: byLines, lines: 2001, outLines: 2000},
		"2001 open lines":   {text: "first\n" + numbered(1, 1999, "x") + "last", content: numbered(1, 1999, "x") + "last", by: byLines, lines: 2001, outLines: 2000},
		"exactly the bytes": {text: long + "\n", content: long + "\n", lines: 1, outLines: 1},
		"line before":       {text: "a\n" + long, content: long, by: byBytes, lines: 2, outLines: 1},
		"last line too big": {text: "a\n" + long + "y\n", content: long[1:] + "y", by: byBytes, lines: 2, outLines: 1, partial: true},
		"cut at a rune":     {text: euros, content: strings.Repeat("€", MaxBytes/3), by: byBytes, lines: 1, outLines: 1, partial: true},
	} {
		got := truncateTail(c.text)
		want := Truncation{
			Content: c.content, Truncated: c.by != "", TruncatedBy: c.by, TotalLines: c.lines, TotalBytes: int64(len(c.text)),
			OutputLines: c.outLines, OutputBytes: int64(len(c.content)), LastLinePartial: c.partial,
			MaxLines: 2000, MaxBytes: 51200,
		}
		assert.Equal(t, want, got, name)
	}
}

// naive does what truncation is defined as, on a list of lines.
func naive(text string, tail bool) (content string, truncated bool) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	var kept []string
	for size := 0; len(lines) > 0 && len(kept) < MaxLines; {
		line := lines[0]
		if tail {
			line = lines[len(lines)-1]
		}
		if size += len(line) + 1; size-1 > MaxBytes {
			break
		}
		if tail {
			kept, lines = append([]string{line}, kept...), lines[:len(lines)-1]
		} else {
			kept, lines = append(kept, line), lines[1:]
		}
	}
	if len(lines) == 0 {
		return text, false
	}
	return strings.Join(kept, "\n"), true
}

// someText is text around the limits.
var someText = rapid.Custom(func(t *rapid.T) string {
	line := rapid.SampledFrom([]string{"", "x", "äöü", strings.Repeat("line ", 5), strings.Repeat("€", 100), strings.Repeat("w", 20000)})
	var b strings.Builder
	for range rapid.IntRange(0, 4).Draw(t, "blocks") {
		one, n := line.Draw(t, "line"), rapid.SampledFrom([]int{1, 2, 3, 500, 999, 1000, 1001}).Draw(t, "times")
		if n > 3 && len(one) > 1000 {
			n = 3
		}
		b.WriteString(strings.Repeat(one+"\n", n))
	}
	b.WriteString(rapid.SampledFrom([]string{"", "end"}).Draw(t, "end"))
	return b.String()
})

func TestTruncateIsWhatItSays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := someText.Draw(t, "text")
		for _, tail := range []bool{false, true} {
			got := truncateHead(text)
			if tail {
				got = truncateTail(text)
			}
			content, truncated := naive(text, tail)
			require.Equal(t, truncated, got.Truncated)
			require.Equal(t, content, got.Content)
			require.True(t, utf8.ValidString(got.Content))
		}
	})
}

func TestFormatSize(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0B", 1023: "1023B", 1024: "1.0KB", 1536: "1.5KB", 51200: "50.0KB", 1 << 20: "1.0MB", 3 << 30: "3072.0MB",
	} {
		assert.Equal(t, want, protocol.FormatSize(n))
	}
}

func TestRuneCuts(t *testing.T) {
	t.Parallel()
	s := "a€😀b"
	for n := range len(s) + 2 {
		p, q := protocol.Prefix(s, n), runeSuffix(s, n)
		assert.True(t, utf8.ValidString(p) && strings.HasPrefix(s, p) && len(p) <= n && len(p) > n-4 || p == s, "prefix %d", n)
		assert.True(t, utf8.ValidString(q) && strings.HasSuffix(s, q) && len(q) <= n && len(q) > n-4 || q == s, "suffix %d", n)
	}
}
