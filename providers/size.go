package providers

import "troupe/protocol"

// AnswerLimit is how many tokens the answer may have: what was asked for, at
// most what the model can write, at most what its window has room for besides
// input tokens of context. Services refuse a request whose two parts do not fit
// together, long before the context itself is too large.
//
// thinking is how many tokens of thinking the wire counts as part of the answer,
// 0 for none. What was asked for is the answer alone, so they come on top, as far
// as the model can go.
func (r *Request) AnswerLimit(input, thinking int64) int64 {
	limit := r.roomFor(r.MaxTokens, input)
	if r.MaxTokens > 0 && r.Thinks() && thinking > 0 {
		limit = min(limit+thinking, r.roomFor(0, input))
	}
	return limit
}

// roomFor is how many of the tokens asked for an answer may have; 0 is as many as
// possible.
func (r *Request) roomFor(asked, input int64) int64 {
	limit := r.Model.MaxTokens
	if limit <= 0 {
		limit = fallbackMaxTokens
	}
	if asked > 0 {
		limit = min(limit, asked)
	}
	if window := r.Model.ContextWindow; limit > window/4 && window > 0 {
		// The input is an estimate, and rather low for what tools read; the floor
		// keeps a wrong one from cutting answers short.
		limit = min(limit, max(window-input-input/3, window/8))
	}
	return max(limit, 1)
}

// fallbackMaxTokens is for models that do not say how much they can write.
const fallbackMaxTokens = 16384

// framing is what a message or a tool takes besides its texts, in tokens.
const framing = 4

// EstimateInput is about how many tokens the request has that shows the model
// messages, as wire.Convert made them of its history. It is also what counts as the
// input of an answer whose provider reports no usage.
func (r *Request) EstimateInput(messages []protocol.Message) int64 {
	tokens := protocol.EstimateText(r.System)
	for _, tool := range r.Tools {
		tokens += framing + protocol.EstimateText(tool.Name) + protocol.EstimateText(tool.Description) + protocol.EstimateText(string(tool.Parameters))
	}
	for _, m := range messages {
		tokens += framing + protocol.EstimateTokens(m)
	}
	return tokens
}
