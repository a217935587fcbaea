package tools

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The same rules as regular expressions, for text that is there as a whole.
var (
	escapeSequences = regexp.MustCompile(`(?:\x1b[\]PX^_]|[\x{90}\x{98}\x{9d}\x{9e}\x{9f}])[^\x07\x18\x1a\x1b\x{9c}\n]*(?:\x07|\x18|\x1a|\x{9c}|\x1b\\)?` +
		`|(?:\x1b\[|\x{9b})[\x20-\x3f]*[\x40-\x7e]?` +
		`|\x1b[\x20-\x2f]+[\x30-\x7e]?` +
		`|\x1b[\x30-\x7e]?`)
	controls = regexp.MustCompile(`[\x00-\x08\x0b-\x1f\x{7f}-\x{9f}\x{fff9}-\x{fffb}]`)
)

func sanitizeTwin(b []byte) string {
	s := strings.ToValidUTF8(string(b), "\uFFFD")
	return controls.ReplaceAllString(escapeSequences.ReplaceAllString(s, ""), "")
}

// sanitized cleans chunks.
func sanitized(chunks ...[]byte) string {
	var s sanitizer
	var dst []byte
	for _, c := range chunks {
		dst = s.append(dst, c)
	}
	return string(s.finish(dst))
}

func TestSanitize(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain\ttext\n":                     "plain\ttext\n",
		"\x1b[31mred\x1b[0m\r\nline2\n":     "red\nline2\n",
		"\x01\x02ok\x7f\x00":                "ok",
		"10%\r20%\r":                        "10%20%",
		"\x1b]0;title\x07text":              "text",
		"\x1b]8;;http://x\x1b\\link":        "link",
		"\x1bP1$r0m\x1b\\after":             "after",
		"\x1b(B\x1b=\x1b>\x1b7":             "",
		"\x1b[38;5;196;48:2::1:2:3mx":       "x",
		"\x1b[?25l\x1b[2K\x1b[1Gx":          "x",
		"\u009b31mred\u009d0;t\u009cx":      "redx",
		"never ended \x1b]0;title\nnext":    "never ended \nnext",
		"broken \x1b[3\nnext":               "broken \nnext",
		"broken \x1b[3\x1b[1mnext":          "broken next",
		"\x1b]a\x1b[1mb":                    "b",
		"h\u00e9llo \u20ac \U0001F600":      "h\u00e9llo \u20ac \U0001F600",
		"\xff\xfe bad \xe2\x82":             "\uFFFD bad \uFFFD",
		"\xe2\x82A":                         "\uFFFDA",
		"\xed\xa0\x80 surrogate":            "\uFFFD surrogate",
		"a\ufff9b\ufffac\ufffbd":            "abcd",
		"\x1b":                              "",
		"\x1b\x1b\x1b[mx":                   "x",
		"\x1b[\u00e9":                       "\u00e9",
		"\xff\x1b[1m\xff":                   "\uFFFD\uFFFD",
		"\x1b]\xff\x07":                     "",
		"\x1b \x1b":                         "",
		"\x1b[" + strings.Repeat("1;", 999): "",
	} {
		assert.Equal(t, want, sanitized([]byte(in)), "%q", in)
		assert.Equal(t, want, sanitizeTwin([]byte(in)), "twin, %q", in)
	}
}

// Cut at any two places the result is the same.
func TestSanitizeAtEverySplit(t *testing.T) {
	t.Parallel()
	text := []byte("a\x1b[1;31mé\x1b]0;tïtle\x07€\xff\xe2\x82\xf0\x9f\x98😀\x1bP\x1bq\x1b\\\u009b1m\r\n\x1b(Bz\xf0\x9f")
	want := sanitizeTwin(text)
	for i := range len(text) + 1 {
		for j := i; j <= len(text); j++ {
			require.Equal(t, want, sanitized(text[:i], text[i:j], text[j:]), "cut at %d and %d", i, j)
		}
	}
	var single [][]byte
	for i := range text {
		single = append(single, text[i:i+1])
	}
	require.Equal(t, want, sanitized(single...))
}

func FuzzSanitize(f *testing.F) {
	for _, s := range []string{"", "a\x1b[1mb", "\x1b]0;x\x1b\\y", "\xe2\x82\xac\xff\x9b", "\u009d\u009c\n\x18\x1a", "\xf0\x9f\x98"} {
		f.Add([]byte(s), uint8(1))
	}
	f.Fuzz(func(t *testing.T, b []byte, cut uint8) {
		at := min(int(cut), len(b))
		got := sanitized(b[:at], b[at:])
		require.Equal(t, sanitizeTwin(b), got)
		require.True(t, utf8.ValidString(got))
	})
}

func BenchmarkSanitize(b *testing.B) {
	plain := []byte(strings.Repeat("a line of ordinary output, nothing special\n", 1500))
	color := []byte(strings.Repeat("\x1b[32mok\x1b[0m  troupe/tools 0.12s é\r\n", 1500))
	for name, text := range map[string][]byte{"plain": plain, "color": color} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			var s sanitizer
			var dst []byte
			for b.Loop() {
				dst = s.append(dst[:0], text)
			}
		})
	}
}
