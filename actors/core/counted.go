package core

import "troupe/protocol"

// TokenCounts compares the tokens that providers have counted with the estimates of the same text. Text
// with many tokens for its bytes, such as hexadecimal numbers, base64, tables or Chinese, takes up to four
// times its estimate, so that requests which run side by side would pass a limit if only the estimate were
// reserved. The zero value is that of a session of which no request was counted.
type TokenCounts struct {
	Ratio    float64 // counted tokens for each estimated one, of text that a provider counted last; 0 if unknown
	Overhead int64   // tokens of a request beside its messages: the system prompt and the tools
}

// BudgetShare is the part of its tree's budget that a child starts with.
type BudgetShare struct {
	Draws  Drawing     // whose budget it draws on
	Counts TokenCounts // the parent's
}

const (
	// reserveMargin allows for text that has more tokens a byte than the text that was counted last.
	reserveMargin = 1.25
	// maxTokenRatio is a token for each byte: no tokenizer makes more.
	maxTokenRatio = 4
)

// learn takes the usage of an answer to a request with a context of a size.
func (c *TokenCounts) learn(size protocol.ContextSize, u protocol.Usage) {
	prompt, estimated := u.Input+u.CacheRead+u.CacheWrite, size.Tokens-size.Reported
	if prompt == 0 || estimated <= 0 {
		return
	}
	counted := prompt - size.Reported
	if size.Reported == 0 {
		counted -= c.Overhead
		c.Overhead = max(0, prompt-estimated)
	}
	ratio := min(max(0, float64(counted)/float64(estimated)), maxTokenRatio)
	c.Ratio = max(ratio, (c.Ratio+ratio)/2) // text of the earlier kind may follow
}

// input returns how many tokens a request with a context of a size may take.
func (c *TokenCounts) input(size protocol.ContextSize) int64 {
	ratio := float64(maxTokenRatio)
	if c.Ratio > 0 {
		ratio = min(reserveMargin*max(1, c.Ratio), maxTokenRatio)
	}
	n := reserveMargin*float64(size.Reported) + ratio*float64(size.Tokens-size.Reported)
	if size.Reported == 0 {
		n += float64(c.Overhead)
	}
	return int64(n)
}
