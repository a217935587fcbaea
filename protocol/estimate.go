package protocol

import "unicode/utf8"

// imageTokens is what an image counts for.
const imageTokens = 1200

// charsPerToken is the rule of thumb for text.
const charsPerToken = 4

// EstimateTokens guesses how many tokens a message takes: a quarter of its
// characters, counted in UTF-16 as JavaScript does, rounded up.
func EstimateTokens(m Message) int64 {
	return (messageChars(m) + charsPerToken - 1) / charsPerToken
}

// EstimateText guesses how many tokens a text takes.
func EstimateText(s string) int64 {
	return (utf16Len(s) + charsPerToken - 1) / charsPerToken
}

func messageChars(m Message) int64 {
	switch m := m.(type) {
	case *UserMessage:
		return contentChars(m.Content)
	case *AssistantMessage:
		return contentChars(m.Content)
	case *ToolResultMessage:
		return contentChars(m.Content)
	case *CustomMessage:
		return contentChars(m.Content)
	case *BashExecutionMessage:
		return utf16Len(m.Command) + utf16Len(m.Output)
	case *BranchSummaryMessage:
		return utf16Len(m.Summary)
	case *CompactionSummaryMessage:
		return utf16Len(m.Summary)
	case *UnknownMessage: // shown to no model
	}
	return 0
}

func contentChars(content Content) int64 {
	var n int64
	for _, b := range content {
		switch b := b.(type) {
		case Text:
			n += utf16Len(b.Text)
		case Thinking:
			n += utf16Len(b.Thinking)
		case ToolCall:
			n += utf16Len(b.Name) + utf16Len(string(b.Arguments))
		case Image:
			n += imageTokens * charsPerToken
		case UnknownBlock:
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
