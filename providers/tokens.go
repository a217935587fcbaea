package providers

import (
	"unicode"
	"unicode/utf8"

	"troupe/protocol"
)

// EstimateTokens is about how many tokens a text has: within a fifth of what
// the tokenizers of the larger models count for prose, code, JSON and logs in
// the usual languages. It cuts the text as they do, into words, numbers,
// punctuation and white space, and weighs the pieces.
func EstimateTokens(text string) int64 {
	n := 0.0
	for len(text) > 0 {
		size, tokens := piece(text)
		n += tokens
		text = text[size:]
	}
	return int64(n + 0.5)
}

// What the pieces weigh, found by comparing with the counts of OpenAI's o200k.
const (
	wordLength   = 7    // letters of a word that are one token
	moreLetters  = 6.0  // further letters that are one more
	shouted      = 0.15 // for every capital of a word in capitals
	digitsOf     = 3    // digits that are one token
	gap          = 0.9  // white space other than one space before a word
	firstMark    = 0.8  // the first of some punctuation in a row
	nextMark     = 0.45
	ideograph    = 0.68
	latinLetter  = 0.5 // with an accent: it breaks the word
	otherLetter  = 0.28
	noiseLength  = 24 // letters and digits in a row that are no words: keys, hashes, data
	noiseDensity = 0.62
)

// piece measures the piece that s begins with: its bytes and its tokens.
func piece(s string) (size int, tokens float64) {
	c := s[0]
	switch {
	case c >= utf8.RuneSelf:
		return beyondASCII(s)
	case isLetter(c), isDigit(c):
		if n := span(s, isAlphanumeric); n >= noiseLength && mixed(s[:n]) {
			return n, float64(n) * noiseDensity
		}
		if isDigit(c) {
			n := span(s, isDigit)
			return n, float64((n + digitsOf - 1) / digitsOf)
		}
		return word(s)
	case isSpace(c):
		n := span(s, isSpace)
		if n == 1 && c == ' ' {
			return 1, 0
		}
		return n, gap
	}
	n := span(s, isMark)
	return n, firstMark + float64(n-1)*nextMark
}

// word measures a word; camelCase has several.
func word(s string) (size int, tokens float64) {
	capitals := 0
	for size < len(s) && isLetter(s[size]) {
		if isCapital(s[size]) {
			if size > capitals {
				break // the next word begins
			}
			capitals++
		}
		size++
	}
	tokens = 1
	if size > wordLength {
		tokens += float64(size-wordLength) / moreLetters
	}
	if capitals == size && size > 2 {
		tokens += float64(size-2) * shouted
	}
	return size, tokens
}

// beyondASCII measures a character beyond ASCII.
func beyondASCII(s string) (size int, tokens float64) {
	r, size := utf8.DecodeRuneInString(s)
	switch {
	case r >= 0x2E80:
		return size, ideograph
	case r < 0x250 || !unicode.IsLetter(r):
		return size, latinLetter
	}
	return size, otherLetter
}

// mixed says whether s is no word or number: digits and letters, or capitals in
// the middle, without a word in sight.
func mixed(s string) bool {
	changes := 0
	for i := 1; i < len(s); i++ {
		if class(s[i]) != class(s[i-1]) {
			changes++
		}
	}
	return changes*5 > len(s)
}

func class(c byte) int {
	switch {
	case isDigit(c):
		return 0
	case isCapital(c):
		return 1
	}
	return 2
}

func span(s string, is func(byte) bool) (n int) {
	for n < len(s) && is(s[n]) {
		n++
	}
	return n
}

func isLetter(c byte) bool       { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isCapital(c byte) bool      { return c >= 'A' && c <= 'Z' }
func isDigit(c byte) bool        { return c >= '0' && c <= '9' }
func isAlphanumeric(c byte) bool { return isLetter(c) || isDigit(c) }
func isSpace(c byte) bool        { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
func isMark(c byte) bool         { return c < utf8.RuneSelf && !isAlphanumeric(c) && !isSpace(c) }

// What a request has besides its texts, in tokens.
const (
	imageTokens   = 1600
	messageTokens = 4 // role and separators
)

// EstimateInput is about how many tokens the request has. It is what counts as
// the input of an answer whose provider reports no usage.
func (r *Request) EstimateInput() (n int64) {
	n = EstimateTokens(r.System)
	for _, tool := range r.Tools {
		n += EstimateTokens(tool.Name) + EstimateTokens(tool.Description) + EstimateTokens(string(tool.Parameters)) + messageTokens
	}
	for _, m := range Convert(r, Shape{}) {
		n += messageTokens
		switch m := m.(type) {
		case *protocol.UserMessage:
			n += contentTokens(m.Content)
		case *protocol.AssistantMessage:
			n += contentTokens(m.Content)
		case *protocol.ToolResultMessage:
			n += contentTokens(m.Content)
		case *protocol.BashExecutionMessage, *protocol.CustomMessage, *protocol.BranchSummaryMessage,
			*protocol.CompactionSummaryMessage, *protocol.UnknownMessage: // Convert leaves none
		}
	}
	return n
}

func contentTokens(content protocol.Content) (n int64) {
	for _, b := range content {
		switch b := b.(type) {
		case protocol.Text:
			n += EstimateTokens(b.Text)
		case protocol.Thinking:
			n += EstimateTokens(b.Thinking)
		case protocol.ToolCall:
			n += EstimateTokens(b.Name) + EstimateTokens(string(b.Arguments)) + messageTokens
		case protocol.Image:
			n += imageTokens
		case protocol.UnknownBlock: // not sent
		}
	}
	return n
}
