package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func lineNumbers(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintf(&b, "%d\n", i)
	}
	return b.String()
}

func TestReadText(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	long := strings.Repeat("x", 60_000)
	for name, c := range map[string]struct {
		file          string
		offset, limit int
		want          string
		by            string
	}{
		"whole":              {"a\nb\n", 0, 0, "a\nb\n", ""},
		"empty":              {"", 0, 0, "", ""},
		"empty from 1":       {"", 1, 5, "", ""},
		"no break at end":    {"a\nb", 0, 0, "a\nb", ""},
		"CRLF":               {"a\r\nb\r\n", 0, 0, "a\r\nb\r\n", ""},
		"offset":             {"a\nb\nc\n", 2, 0, "b\nc\n", ""},
		"negative offset":    {"a\nb\n", -3, 0, "a\nb\n", ""},
		"last line":          {"a\nb\nc", 3, 0, "c", ""},
		"limit":              {"a\nb\nc\n", 0, 2, "a\nb\n\n[1 more lines in the file. Use offset=3 to continue]", ""},
		"limit is all":       {"a\nb\nc\n", 0, 3, "a\nb\nc\n", ""},
		"limit beyond":       {"a\nb\nc\n", 2, 99, "b\nc\n", ""},
		"offset and limit":   {"a\nb\nc\nd\n", 2, 1, "b\n\n[2 more lines in the file. Use offset=3 to continue]", ""},
		"2000 lines":         {lineNumbers(1, 2000), 0, 0, lineNumbers(1, 2000), ""},
		"too many lines":     {lineNumbers(1, 3000), 0, 0, lineNumbers(1, 2000) + "\n[Showing lines 1-2000 of 3000. Use offset=2001 to continue]", byLines},
		"from the middle":    {lineNumbers(1, 5000), 2001, 0, lineNumbers(2001, 4000) + "\n[Showing lines 2001-4000 of 5000. Use offset=4001 to continue]", byLines},
		"limit over the top": {lineNumbers(1, 5000), 11, 3000, lineNumbers(11, 2010) + "\n[Showing lines 11-2010 of 5000. Use offset=2011 to continue]", byLines},
		"too many of both":   {lineNumbers(1, 2000) + long, 0, 0, lineNumbers(1, 2000) + "\n[Showing lines 1-2000 of 2001. Use offset=2001 to continue]", byLines},
		"too many bytes":     {strings.Repeat(long[:999]+"\n", 60), 0, 0, strings.Repeat(long[:999]+"\n", 51) + "\n[Showing lines 1-51 of 60 (50.0KB limit). Use offset=52 to continue]", byBytes},
		"first too long":     {long + "\nb\n", 0, 0, "[Line 1 is 58.6KB, over the limit of 50.0KB. For its beginning use bash: sed -n '1p' f | head -c 51200]", byBytes},
		"later too long":     {"a\n" + long, 2, 1, "[Line 2 is 58.6KB, over the limit of 50.0KB. For its beginning use bash: sed -n '2p' f | head -c 51200]", byBytes},
		"second too long":    {"a\n" + long, 0, 0, "a\n\n[Showing lines 1-1 of 2 (50.0KB limit). Use offset=2 to continue]", byBytes},
		"not quite too long": {long[:MaxBytes] + "\n", 0, 0, long[:MaxBytes] + "\n", ""},
		"not UTF-8":          {"a\xff\xfeb\n", 0, 0, "a\uFFFDb\n", ""},
	} {
		put(t, env, "f", c.file)
		text, result, err := run(t, env, "read", object{"path": "f", "offset": c.offset, "limit": c.limit})
		require.NoError(t, err, name)
		assert.Equal(t, c.want, text, name)
		if c.by == "" {
			assert.Nil(t, result.Details, name)
			continue
		}
		d := unmarshal[struct{ Truncation Truncation }](t, result.Details)
		assert.True(t, d.Truncation.Truncated)
		assert.Equal(t, c.by, d.Truncation.TruncatedBy, name)
		assert.Equal(t, strings.HasPrefix(c.want, "[Line"), d.Truncation.FirstLineExceedsLimit, name)
	}
	put(t, env, "f", "a\nb\n")
	_, _, err := run(t, env, "read", object{"path": "f", "offset": 3})
	assert.EqualError(t, err, "offset 3 is beyond the end of the file, which has 2 lines")
}

// Read is head truncation of a slice of the lines, however the file is read.
func TestReadIsASliceOfTheFile(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := someText.Draw(t, "text")
		lines := strings.SplitAfter(text, "\n")
		if lines[len(lines)-1] == "" {
			lines = lines[:len(lines)-1]
		}
		first := rapid.IntRange(1, len(lines)+1).Draw(t, "first")
		limit := rapid.IntRange(0, 2100).Draw(t, "limit")
		p := page{first: int64(first), limit: int64(limit)}
		for rest := []byte(text); len(rest) > 0; {
			n := min(rapid.SampledFrom([]int{1000, 4096, 65536}).Draw(t, "chunk"), len(rest))
			p.take(rest[:n])
			rest = rest[n:]
		}
		slice := lines[first-1:]
		if limit > 0 {
			slice = slice[:min(limit, len(slice))]
		}
		want := truncateHead(strings.Join(slice, ""))
		require.Equal(t, want, p.truncation())
		require.Equal(t, int64(len(lines)), p.file.lines())
		if want.FirstLineExceedsLimit {
			require.Equal(t, int64(len(slice[0])), p.firstLine)
		}
		require.LessOrEqual(t, len(p.kept), keepPage)
		require.True(t, utf8.ValidString(want.Content))
	})
}

func TestReadAborted(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	put(t, env, "f", strings.Repeat("a\n", 100_000))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := New().Run(ctx, "read", Call{Args: json.RawMessage(`{"path":"f"}`), Env: env})
	assert.EqualError(t, err, "Operation aborted")
}

func TestShellQuote(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"a/b-c_d.go": "a/b-c_d.go", "a b": "'a b'", "it's": `'it'\''s'`, "$x": "'$x'", "~/x": "'~/x'"} {
		assert.Equal(t, want, shellQuote(in))
	}
}

// sparse makes a file of NULs that takes no room, with text in it.
func sparse(t *testing.T, env *Env, size int64, texts map[int64]string) {
	f, err := os.Create(filepath.Join(env.Cwd, "huge"))
	require.NoError(t, err)
	require.NoError(t, f.Truncate(size))
	for at, text := range texts {
		_, err := f.WriteAt([]byte(text), at)
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())
}
