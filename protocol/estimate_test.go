package protocol

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestEstimateTokens(t *testing.T) {
	image := Image{Data: "AAAA", MimeType: "image/png"}
	for _, c := range []struct {
		name string
		m    Message
		want int64
	}{
		{"empty", &UserMessage{}, 0},
		{"rounded up", &UserMessage{Content: TextContent("abcde")}, 2},
		{"exact", &UserMessage{Content: TextContent("abcdefgh")}, 2},
		{"blocks add up before rounding", &UserMessage{Content: Content{Text{Text: "ab"}, Text{Text: "cd"}}}, 1},
		{"a letter with an accent", &UserMessage{Content: TextContent("äöüß")}, 1},
		{"characters of three and four bytes", &UserMessage{Content: TextContent("你好世界😀")}, 4},
		{"image", &UserMessage{Content: Content{image}}, 1200},
		{"image and text", &ToolResultMessage{Content: Content{image, Text{Text: "abcd"}, image}}, 2401},
		{"signatures do not count", &AssistantMessage{Content: Content{
			Thinking{Thinking: "abcd", Signature: strings.Repeat("x", 400)}, Text{Text: "abcd", Signature: strings.Repeat("x", 400)},
		}}, 2},
		{"call", &AssistantMessage{Content: Content{
			ToolCall{ID: "ignored", Name: "read", Arguments: json.RawMessage(`{"path":"a"}`)},
		}}, 4},
		{"custom", &CustomMessage{Content: TextContent("abcd")}, 1},
		{"bash", &BashExecutionMessage{Command: "ls", Output: "a\nb\nc\n"}, 2},
		{"branch summary", &BranchSummaryMessage{Summary: "abcd"}, 1},
		{"compaction summary", &CompactionSummaryMessage{Summary: "abcde"}, 2},
		{"unknown", &UnknownMessage{RoleName: "x", Raw: json.RawMessage(`{"content":"long enough"}`)}, 0},
	} {
		assert.Equal(t, c.want, EstimateTokens(c.m), c.name)
	}
	assert.Equal(t, int64(3), EstimateText("123456789"))
	assert.Zero(t, EstimateText(""))
}

// TestTextSize compares with counting byte by byte.
func TestTextSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-zäß你😀]{0,40}`), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "text")
		want := int64(len(s))
		for i := range len(s) {
			if s[i]&0xe0 == 0xc0 {
				want--
			}
		}
		require.Equal(t, want, TextSize(s))
		require.Equal(t, want, TextSize(json.RawMessage(s)))
	})
}

func BenchmarkTextSize(b *testing.B) {
	s := strings.Repeat("the size of a context ", 10_000)
	b.SetBytes(int64(len(s)))
	for b.Loop() {
		TextSize(s)
	}
}

// TestEstimateText_kinds compares with the counts of OpenAI's o200k tokenizer for
// the texts in testdata/tokens.
func TestEstimateText_kinds(t *testing.T) {
	dense := map[string]float64{ // more tokens than their length tells
		"gotest_output": 0.25, "html": 0.25, "json": 0.45, "listing": 0.45, "numbers": 0.55, "hex": 0.6, "base64": 0.65,
	}
	raw, err := os.ReadFile("testdata/tokens/counts.json")
	require.NoError(t, err)
	var counts map[string]int64
	require.NoError(t, json.Unmarshal(raw, &counts))
	for name, want := range counts {
		text, err := os.ReadFile(filepath.Join("testdata/tokens", name+".txt"))
		require.NoError(t, err)
		off := float64(EstimateText(string(text))-want) / float64(want)
		assert.Less(t, off, 0.25, name)
		assert.Greater(t, off, -max(dense[name], 0.2), name)
	}
}
