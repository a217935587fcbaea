package store

import (
	"unicode/utf8"

	"troupe/protocol"
)

// imageTokens is what an image counts for.
const imageTokens = 1200

// charsPerToken is the rule of thumb for text.
const charsPerToken = 4

// EstimateTokens guesses how many tokens a message takes: a quarter of its
// characters, counted in UTF-16 as JavaScript does, rounded up.
func EstimateTokens(m protocol.Message) int64 {
	return (messageChars(m) + charsPerToken - 1) / charsPerToken
}

// EstimateText guesses how many tokens a text takes.
func EstimateText(s string) int64 {
	return (utf16Len(s) + charsPerToken - 1) / charsPerToken
}

func messageChars(m protocol.Message) int64 {
	switch m := m.(type) {
	case *protocol.UserMessage:
		return contentChars(m.Content)
	case *protocol.AssistantMessage:
		return contentChars(m.Content)
	case *protocol.ToolResultMessage:
		return contentChars(m.Content)
	case *protocol.CustomMessage:
		return contentChars(m.Content)
	case *protocol.BashExecutionMessage:
		return utf16Len(m.Command) + utf16Len(m.Output)
	case *protocol.BranchSummaryMessage:
		return utf16Len(m.Summary)
	case *protocol.CompactionSummaryMessage:
		return utf16Len(m.Summary)
	case *protocol.UnknownMessage: // shown to no model
	}
	return 0
}

func contentChars(content protocol.Content) int64 {
	var n int64
	for _, b := range content {
		switch b := b.(type) {
		case protocol.Text:
			n += utf16Len(b.Text)
		case protocol.Thinking:
			n += utf16Len(b.Thinking)
		case protocol.ToolCall:
			n += utf16Len(b.Name) + utf16Len(string(b.Arguments))
		case protocol.Image:
			n += imageTokens * charsPerToken
		case protocol.UnknownBlock:
		}
	}
	return n
}

// utf16Len is the length of a string in JavaScript.
func utf16Len(s string) int64 {
	var n int64
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			i++
			n++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		i += size
		n++
		if r > 0xffff {
			n++
		}
	}
	return n
}

// cutUTF16 cuts a text after n UTF-16 units, or one before where that would
// split a character.
func cutUTF16(s string, n int) string {
	for i, r := range s {
		n--
		if r > 0xffff {
			n--
		}
		if n < 0 {
			return s[:i]
		}
	}
	return s
}

// LastUsage is the newest usage in the context: that of the last answer that
// neither failed nor was aborted and reports one. index is its place among the
// messages, -1 if there is none. fresh says that it is newer than the last
// compaction and so counts what the context now holds.
func (c *Context) LastUsage() (u protocol.Usage, index int, fresh bool) {
	shown := c.visible()
	for i := len(shown) - 1; i >= 0; i-- {
		m, ok := shown[i].message.(*protocol.AssistantMessage)
		if ok && m.StopReason != protocol.StopError && m.StopReason != protocol.StopAborted && m.Usage.Sum() > 0 {
			return m.Usage, i, shown[i].item >= c.after
		}
	}
	return protocol.Usage{}, -1, false
}

// Tokens estimates the size of the context: the last fresh usage and a guess
// for every message after it, or guesses alone.
func (c *Context) Tokens() int64 {
	usage, trailing, _ := c.tokens()
	return usage + trailing
}

func (c *Context) tokens() (usage, trailing int64, index int) {
	u, index, fresh := c.LastUsage()
	if fresh {
		usage = u.Sum()
	} else {
		index = -1
	}
	for _, s := range c.visible()[index+1:] {
		trailing += EstimateTokens(s.message)
	}
	return usage, trailing, index
}

// Usage says how full a model's window is. Right after a compaction, until
// there is a new answer, the size counts as unknown.
func (c *Context) Usage(window int64) protocol.ContextUsage {
	usage, trailing, index := c.tokens()
	u := protocol.ContextUsage{ContextWindow: window, UsageTokens: usage, TrailingTokens: trailing}
	if index >= 0 {
		u.LastUsageIndex = &index
	} else if c.compacted {
		return u
	}
	tokens := usage + trailing
	u.Tokens = &tokens
	if window > 0 {
		percent := float64(tokens) / float64(window) * 100
		u.Percent = &percent
	}
	return u
}
