package protocol

import (
	"encoding/json"
	"math/bits"
)

// imageTokens is what an image counts for.
const imageTokens = 1200

// bytesPerToken is the rule of thumb for text.
const bytesPerToken = 4

// EstimateTokens is about how many tokens a message takes: [EstimateText] of all
// its texts and calls, 1200 for an image.
func EstimateTokens(m Message) int64 { return TokensOf(messageSize(m)) }

// EstimateText is about how many tokens a text takes, wherever no provider has
// counted them: a quarter of its characters, rounded up, which is what pi shows,
// but a quarter of the bytes of characters that have more than two, as Chinese
// and Japanese do. Prose and code are within a fifth of what tokenizers count;
// JSON, logs and numbers take up to twice as many tokens.
func EstimateText(s string) int64 { return TokensOf(TextSize(s)) }

// TokensOf is about how many tokens a text takes whose pieces have a [TextSize].
func TokensOf(size int64) int64 { return (size + bytesPerToken - 1) / bytesPerToken }

// ContextSize is how large the part of a conversation is that a model is shown.
type ContextSize struct {
	Messages int
	// Tokens is what the newest answer reports, with an estimate of what came after
	// it; estimates alone where no answer since the last compaction reports any.
	Tokens int64
	// Reported is the part of Tokens that the newest answer reports, 0 for none.
	Reported int64
	// Answered says that a model has answered since the last compaction.
	Answered bool
}

// Add counts a message at the end.
func (z *ContextSize) Add(m Message) {
	a, ok := m.(*AssistantMessage)
	ok = ok && a.StopReason != StopError && a.StopReason != StopAborted
	z.Keep(m)
	if ok && a.Usage.Sum() > 0 {
		z.Tokens, z.Reported = a.Usage.Sum(), a.Usage.Sum()
	}
	z.Answered = z.Answered || ok
}

// Keep counts a message that a compaction has kept, or its summary: what an
// answer reported counts no more.
func (z *ContextSize) Keep(m Message) {
	z.Messages++
	z.Tokens += EstimateTokens(m)
}

func messageSize(m Message) int64 {
	switch m := m.(type) {
	case *UserMessage:
		return contentSize(m.Content)
	case *AssistantMessage:
		return contentSize(m.Content)
	case *ToolResultMessage:
		return contentSize(m.Content)
	case *CustomMessage:
		return contentSize(m.Content)
	case *BashExecutionMessage:
		return TextSize(m.Command) + TextSize(m.Output)
	case *BranchSummaryMessage:
		return TextSize(m.Summary)
	case *CompactionSummaryMessage:
		return TextSize(m.Summary)
	case *UnknownMessage: // shown to no model
	}
	return 0
}

func contentSize(content Content) (n int64) {
	for _, b := range content {
		switch b := b.(type) {
		case Text:
			n += TextSize(b.Text)
		case Thinking:
			n += TextSize(b.Thinking)
		case ToolCall:
			n += TextSize(b.Name) + TextSize(b.Arguments)
		case Image:
			n += imageTokens * bytesPerToken
		case UnknownBlock:
		}
	}
	return n
}

// TextSize counts the bytes of a text, one for a character of two. A whole context passes
// here with each request: it looks at eight bytes at a time.
func TextSize[T string | json.RawMessage](s T) int64 {
	const tops, firsts, highs = 0xe0e0e0e0e0e0e0e0, 0xc0c0c0c0c0c0c0c0, 0x8080808080808080
	n := len(s)
	for ; len(s) >= 8; s = s[8:] {
		if w := word(s); w&highs != 0 {
			other := w&tops ^ firsts // of each byte 0 in the first of two
			n -= bits.OnesCount64(^(other | other<<1 | other<<2) & highs)
		}
	}
	for i := range len(s) {
		if s[i]&0xe0 == 0xc0 {
			n--
		}
	}
	return int64(n)
}
