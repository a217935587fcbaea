package providers

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"troupe/protocol"
)

// TestEstimateTokens compares with the counts of OpenAI's o200k tokenizer for
// the texts in testdata/tokens.
func TestEstimateTokens(t *testing.T) {
	raw, err := os.ReadFile("testdata/tokens/counts.json")
	require.NoError(t, err)
	var counts map[string]int64
	require.NoError(t, json.Unmarshal(raw, &counts))
	require.Greater(t, len(counts), 12)
	var all, guessed int64
	for name, want := range counts {
		text, err := os.ReadFile(filepath.Join("testdata/tokens", name+".txt"))
		require.NoError(t, err)
		got := EstimateTokens(string(text))
		off := float64(got-want) / float64(want)
		assert.Less(t, math.Abs(off), 0.2, "%s: %d instead of %d, %+.0f%%", name, got, want, off*100)
		all, guessed = all+want, guessed+got
	}
	assert.Less(t, math.Abs(float64(guessed-all)/float64(all)), 0.1, "%d instead of %d in all", guessed, all)
	assert.Zero(t, EstimateTokens(""))
}

func TestEstimateTokens_anything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		n := EstimateTokens(a + " \xff" + b)
		require.GreaterOrEqual(t, n, int64(0))
		require.LessOrEqual(t, n, int64(len(a)+len(b)+2), "no more tokens than bytes")
	})
}

func TestRequest_EstimateInput(t *testing.T) {
	r := &Request{
		Model: &protocol.Model{ID: "m", Input: []string{"text", "image"}}, System: "Be kind.",
		Tools: []protocol.ToolInfo{{Name: "read", Description: "Reads a file."}},
		Messages: []protocol.Message{
			&protocol.UserMessage{Content: protocol.Content{protocol.Text{Text: "What is this?"}, protocol.Image{Data: strings.Repeat("A", 1<<20), MimeType: "image/png"}}},
			&protocol.AssistantMessage{Content: protocol.TextContent(strings.Repeat("never sent ", 1000)), StopReason: protocol.StopError},
		},
	}
	n := r.EstimateInput()
	assert.Greater(t, n, int64(imageTokens+10))
	assert.Less(t, n, int64(imageTokens+50), "an image has its size in tokens, not in bytes, and what is not sent does not count")
	r.BlockImages = true
	assert.Less(t, r.EstimateInput(), int64(60))
}

func BenchmarkEstimateTokens(b *testing.B) {
	text := strings.Repeat("func main() { fmt.Println(\"hello, world\") } // prints\n", 2000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		EstimateTokens(text)
	}
}
