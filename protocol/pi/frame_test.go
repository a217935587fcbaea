package pi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// readAll returns the lines of a reader, errors in their place.
func readAll(r io.Reader, max int) []string {
	lines := NewLineReader(r, max)
	var out []string
	for {
		line, err := lines.Next()
		var tooLong *LineTooLongError
		switch {
		case err == nil:
			out = append(out, string(line))
		case errors.As(err, &tooLong):
			out = append(out, fmt.Sprintf("!%d", tooLong.Size))
		case err == io.EOF:
			return out
		default:
			return append(out, "error: "+err.Error())
		}
	}
}

func TestLineReader(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"empty", "", nil},
		{"one", "a\n", []string{"a"}},
		{"no LF at the end", "a\nb", []string{"a", "b"}},
		{"CRLF", "a\r\nb\r\n", []string{"a", "b"}},
		{"only the last CR goes", "a\r\r\n", []string{"a\r"}},
		{"CR at the end of input", "a\r", []string{"a"}},
		{"blank lines", "\n \n\t\r\n\na\n   ", []string{"a"}},
		{"other separators are text", "\u2028\u2029\v\fe\x00\n", []string{"\u2028\u2029\v\fe\x00"}},
		{"at the limit", strings.Repeat("x", 10) + "\n", []string{strings.Repeat("x", 10)}},
		{"at the limit with CR", strings.Repeat("x", 10) + "\r\nb\n", []string{strings.Repeat("x", 10), "b"}},
		{"over the limit", strings.Repeat("x", 11) + "\nb\n", []string{"!11", "b"}},
		{"far over the limit", strings.Repeat("x", 100_000) + "\nb\n", []string{"!100000", "b"}},
		{"over the limit at the end", "b\n" + strings.Repeat("x", 70_000), []string{"b", "!70000"}},
		{"two over the limit", strings.Repeat("x", 11) + "\n" + strings.Repeat("y", 12) + "\nb", []string{"!11", "!12", "b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, readAll(strings.NewReader(c.in), 10), "at once")
			require.Equal(t, c.want, readAll(iotest.OneByteReader(strings.NewReader(c.in)), 10), "byte by byte")
			require.Equal(t, c.want, readAll(iotest.DataErrReader(strings.NewReader(c.in)), 10), "data with EOF")
		})
	}
}

func TestLineReader_error(t *testing.T) {
	r := io.MultiReader(strings.NewReader("a\nhalf"), iotest.ErrReader(errors.New("boom")))
	require.Equal(t, []string{"a", "error: boom"}, readAll(r, 0))
}

// TestLineReader_ownership checks that a line returned is never written to
// again, while lines of every size follow.
func TestLineReader_ownership(t *testing.T) {
	var in bytes.Buffer
	for i := range 300 {
		in.WriteString(strings.Repeat(string(rune('a'+i%26)), i*i%5000) + "|\n")
	}
	text := in.String()
	lines := NewLineReader(&in, 0)
	var kept [][]byte
	for {
		line, err := lines.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		kept = append(kept, line)
	}
	require.Equal(t, text, string(bytes.Join(kept, []byte("\n")))+"\n")
	for _, line := range kept { // appending to one must not reach into the next
		_ = append(line, "XXXX"...)
	}
	require.Equal(t, text, string(bytes.Join(kept, []byte("\n")))+"\n")
}

// splitNaively is the twin of LineReader: everything in memory.
func splitNaively(in string, max int) []string {
	var out []string
	parts := strings.Split(in, "\n")
	for i, p := range parts {
		if i == len(parts)-1 && p == "" {
			break
		}
		p = strings.TrimSuffix(p, "\r")
		switch {
		case len(p) > max:
			out = append(out, fmt.Sprintf("!%d", len(p)))
		case strings.Trim(p, " \t\r") != "":
			out = append(out, p)
		}
	}
	return out
}

type chunked struct {
	in     string
	chunks []int
}

func (c *chunked) Read(p []byte) (int, error) {
	if c.in == "" {
		return 0, io.EOF
	}
	n := len(c.in)
	if len(c.chunks) > 0 {
		n, c.chunks = min(n, c.chunks[0]), c.chunks[1:]
	}
	n = copy(p, c.in[:n])
	c.in = c.in[n:]
	return n, nil
}

func TestLineReader_twin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{
			"a", "bb", "\n", "\r\n", "\r", " ", "é", "\u2028", "0123456789", strings.Repeat("z", 40_000),
		})).Draw(t, "in"), "")
		chunks := rapid.SliceOf(rapid.IntRange(1, 50)).Draw(t, "chunks")
		max := rapid.IntRange(1, 60).Draw(t, "max")
		got := readAll(&chunked{in, chunks}, max)
		want := splitNaively(in, max)
		// A CR that ends an over-long line is dropped by the twin only.
		require.Len(t, got, len(want))
		for i := range got {
			if !strings.HasPrefix(want[i], "!") {
				require.Equal(t, want[i], got[i])
			} else {
				require.True(t, strings.HasPrefix(got[i], "!"), "%q for %q", got[i], want[i])
			}
		}
	})
}
