package providertest

import (
	"bytes"
	"io"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"troupe/protocol"
	"troupe/providers"
)

// Read reads an answer from a body.
type Read func(req providers.Request, body io.Reader) iter.Seq2[protocol.Part, error]

// pieces are the members that grow a block, of all wires.
var pieces = regexp.MustCompile(`"(text|content|delta|thinking|partial_json|arguments|reasoning_content)": ?"([^"\\]+)"`)

// Echoes plays the recorded streams with events repeated, each with another
// text, and sees that an answer is the same when no two events are alike: with
// a varying number of spaces in them, which no decoder sees.
func Echoes(t *testing.T, fixture Fixture, read Read) {
	paths, err := filepath.Glob("testdata/*.sse")
	require.NoError(t, err)
	streams := [][]byte{join(fixture.Answer(full)), join(fixture.Answer(short))}
	for _, path := range paths {
		stream, err := os.ReadFile(path)
		require.NoError(t, err)
		streams = append(streams, stream)
	}
	req := question(fixture.Model("http://127.0.0.1:1"))
	rapid.Check(t, func(t *rapid.T) {
		stream := repeated(t, rapid.SampledFrom(streams).Draw(t, "stream"))
		alike, distinct := describeAll(read(req, bytes.NewReader(stream))), describeAll(read(req, bytes.NewReader(spaced(stream))))
		if alike != distinct {
			t.Fatalf("%s\n--- alike\n%s\n--- distinct\n%s", stream, alike, distinct)
		}
	})
}

func describeAll(parts iter.Seq2[protocol.Part, error]) string {
	var b strings.Builder
	for part, err := range parts {
		line, _, _ := strings.Cut(Describe(part, err), "not JSON: ") // quotes the event, spaces and all
		b.WriteString(line + "\n")
	}
	return b.String()
}

// repeated sends some events several times, with other texts.
func repeated(t *rapid.T, stream []byte) (out []byte) {
	text := rapid.OneOf(
		rapid.SampledFrom([]string{"", "a", " word", "type", "text", `\n`, `\"`, `\u00e9`, "wörld", "世界", "0", "stop", "{", `{\"a\":1}`, "\xff", "\t"}),
		rapid.StringMatching(`[a-z :,{}]{1,9}`),
	)
	for _, event := range bytes.SplitAfter(stream, []byte("\n\n")) {
		out = append(out, event...)
		found := pieces.FindAllSubmatchIndex(event, -1)
		if len(found) == 0 {
			continue
		}
		at := found[rapid.IntRange(0, len(found)-1).Draw(t, "member")]
		for range rapid.IntRange(0, 3).Draw(t, "copies") {
			out = append(out, event[:at[4]]...)
			out = append(out, text.Draw(t, "text")...)
			out = append(out, event[at[5]:]...)
		}
	}
	return out
}

// spaced makes neighbouring events differ.
func spaced(stream []byte) (out []byte) {
	for i, event := range bytes.SplitAfter(stream, []byte("data:")) {
		if brace := bytes.IndexByte(event, '{'); i > 0 && brace >= 0 {
			event = bytes.Join([][]byte{event[:brace+1], event[brace+1:]}, bytes.Repeat([]byte(" "), i%7))
		}
		out = append(out, event...)
	}
	return out
}
