package tools

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Whatever the chunks, the tail is that of the whole output, and the file is
// all of it.
func TestOutputIsTheTailOfEverything(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		text := someText.Draw(t, "text")
		o := output{dir: dir}
		for rest := text; rest != ""; {
			n := rapid.SampledFrom([]int{1, 7, 4096, 65536}).Draw(t, "chunk")
			if len(rest)/n > 300 { // not a million chunks
				n = 4096
			}
			n = min(n, len(rest))
			o.write([]byte(rest[:n]))
			rest = rest[n:]
			require.LessOrEqual(t, cap(o.tail), 4*keepBytes)
			require.True(t, utf8.ValidString(o.truncation(false).Content))
		}
		got, path := o.finish()
		require.NoError(t, o.err)
		require.Equal(t, truncateTail(text), got)
		require.Equal(t, got.Truncated, path != "")
		if path != "" {
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, text, string(content))
			require.Regexp(t, regexp.MustCompile(`^pi-bash-[0-9a-f]{16}\.log$`), filepath.Base(path))
			require.NoError(t, os.Remove(path))
		}
	})
}

func TestOutputOfBytesThatAreNotText(t *testing.T) {
	t.Parallel()
	for name, b := range map[string][]byte{
		"a run of them":  bytes.Repeat([]byte{0xff}, 200_000),
		"lines of them":  bytes.Repeat([]byte("\xff\xfe\xfd\n"), 60_000),
		"every second":   bytes.Repeat([]byte("a\xff"), 20_000), // grows when made valid
		"half runes":     bytes.Repeat([]byte("\xe2\x82"), 100_000),
		"runes at a cut": bytes.Repeat([]byte("€"), 100_000),
	} {
		o := output{dir: t.TempDir()}
		for chunk := range bytesChunks(b, 1000) {
			o.write(chunk)
		}
		got, path := o.finish()
		require.True(t, got.Truncated, name)
		assert.True(t, utf8.ValidString(got.Content), name)
		assert.LessOrEqual(t, len(got.Content), MaxBytes, name)
		assert.Equal(t, int64(len(b)), got.TotalBytes, name)
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(b, content), "%s: the file has the bytes as they were", name)
	}
}

func bytesChunks(b []byte, n int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			k := min(n, len(b))
			if !yield(b[:k]) {
				return
			}
			b = b[k:]
		}
	}
}

func TestOutputHoldsBackHalfOfACharacter(t *testing.T) {
	t.Parallel()
	var o output
	o.write([]byte("a\xe2\x82"))
	assert.Equal(t, "a", o.truncation(false).Content)
	assert.Equal(t, "a\uFFFD", o.truncation(true).Content)
	o.write([]byte("\xac"))
	assert.Equal(t, "a€", o.truncation(false).Content)
}

func TestOutputWithoutFile(t *testing.T) {
	t.Parallel()
	o := output{dir: filepath.Join(t.TempDir(), "missing")}
	text := strings.Repeat("0123456789\n", 20_000)
	for chunk := range bytesChunks([]byte(text), 3000) {
		o.write(chunk)
	}
	got, path := o.finish()
	assert.Empty(t, path)
	assert.ErrorIs(t, o.err, os.ErrNotExist)
	assert.Equal(t, truncateTail(text), got, "the tail is there all the same")
}
