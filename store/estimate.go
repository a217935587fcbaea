package store

import (
	"encoding/json"

	"troupe/protocol"
)

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
	return derived(u)
}

// derived sets the totals.
func derived(u protocol.ContextUsage) protocol.ContextUsage {
	u.TrailingTokens = u.Tokens - u.UsageTokens
	if u.ContextWindow > 0 {
		u.Percent = float64(u.Tokens) / float64(u.ContextWindow) * 100
	}
	return u
}

// Usage is [Context.Usage] of the view's branch, and whether the size is [Context.Known]. It holds one entry at a time
// in memory, and reads no more than the end of a branch that has an answer which reports the size.
func (v View) Usage(window int64) (u protocol.ContextUsage, known bool, err error) {
	part, compacted, err := v.contextPart(v.branch())
	if err != nil {
		return u, false, err
	}
	end, count, err := v.contextTail(part, compacted)
	if err != nil {
		return u, false, err
	}
	if end != nil {
		u = end.Usage(window)
		u.LastUsageIndex = new(*u.LastUsageIndex + count - end.Len())
		return u, true, nil
	}
	s, err := v.sizeOf(v.contextual(part), compacted)
	if err != nil {
		return u, false, err
	}
	u = protocol.ContextUsage{Tokens: s.size.Tokens, ContextWindow: window}
	if s.usageAt >= 0 {
		u.UsageTokens, u.LastUsageIndex = s.usage, &s.usageAt
	}
	return derived(u), s.usageAt >= 0 || !compacted, nil
}

// contextSizer measures a context entry by entry.
type contextSizer struct {
	size    protocol.ContextSize
	edits   map[string][]json.RawMessage // replacements by the id of the entry they are about, in order
	kept    bool                         // the next items were kept by the compaction
	usage   int64                        // of the last answer that reports one, since the compaction
	usageAt int                          // its place among the messages, -1 for none
}

// sizeOf measures the context that a part of a branch makes.
func (v View) sizeOf(part []int32, compacted bool) (*contextSizer, error) {
	s := &contextSizer{edits: map[string][]json.RawMessage{}, kept: compacted, usageAt: -1}
	last := -1 // the compaction
	for n, i := range part {
		if v.slots[i].kind != kindCompaction && v.slots[i].kind != kindContextEdit {
			continue
		}
		r, err := v.record(i)
		if err != nil {
			return nil, err
		}
		switch e := r.Entry.(type) {
		case protocol.ContextEdit:
			s.edits[e.TargetID] = append(s.edits[e.TargetID], e.Replacement)
		case protocol.Compaction:
			last = n
		default: // the index names no other kinds
		}
	}
	if compacted {
		r, err := v.record(part[last])
		if err != nil {
			return nil, err
		}
		c := &Context{}
		c.begin(r)
		s.take(c.items[0])
	}
	n := 0
	for l, err := range v.lines(part) {
		if err != nil {
			return nil, err
		}
		if s.kept = s.kept && n < last; n == last {
			n++
			continue
		}
		n++
		r, err := protocol.DecodeRecord(l.wire())
		if err != nil {
			return nil, err
		}
		if m := contextMessage(r); m != nil {
			s.take(contextItem{id: r.ID, base: m})
		}
	}
	return s, nil
}

// take measures the next message, as edits have changed it.
func (s *contextSizer) take(item contextItem) {
	m := item.base
	for _, replacement := range s.edits[item.id] {
		if changed, ok := edited(item.base, replacement); ok {
			m = changed
		}
	}
	switch {
	case m == nil:
	case s.kept:
		s.size.Keep(m)
	default:
		if sum := reportedUsage(m); sum > 0 {
			s.usage, s.usageAt = sum, s.size.Messages
		}
		s.size.Add(m)
	}
}

// reportedUsage returns the usage that an answer reports; 0 for failed answers and other messages.
func reportedUsage(m protocol.Message) int64 {
	a, ok := m.(*protocol.AssistantMessage)
	if !ok || a.StopReason == protocol.StopError || a.StopReason == protocol.StopAborted {
		return 0
	}
	return a.Usage.Sum()
}
