package store

import "troupe/protocol"

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

// Known says whether the size of the context is more than a guess at what a
// compaction has left: there was none, or an answer since.
func (c *Context) Known() bool {
	_, _, fresh := c.LastUsage()
	return fresh || !c.compacted
}

// Size is how large the context is.
func (c *Context) Size() (z protocol.ContextSize) {
	_, from, fresh := c.LastUsage()
	if !fresh {
		from = 0
	}
	for _, s := range c.visible()[from:] {
		if s.item < c.after {
			z.Keep(s.message)
		} else {
			z.Add(s.message)
		}
	}
	z.Messages = c.Len()
	return z
}

// Usage says how full a model's window is: by the last answer and an estimate
// of what came after it, or by an estimate of everything.
func (c *Context) Usage(window int64) protocol.ContextUsage {
	u := protocol.ContextUsage{Tokens: c.Size().Tokens, ContextWindow: window}
	if usage, index, fresh := c.LastUsage(); fresh {
		u.UsageTokens, u.LastUsageIndex = usage.Sum(), &index
	}
	u.TrailingTokens = u.Tokens - u.UsageTokens
	if window > 0 {
		u.Percent = float64(u.Tokens) / float64(window) * 100
	}
	return u
}
