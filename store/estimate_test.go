package store_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"troupe/protocol"
	"troupe/store"
)

func TestUTF16(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		units := utf16.Encode([]rune(s))
		n := rapid.IntRange(0, len(units)+2).Draw(t, "n")
		cut := store.CutUTF16(s, n)
		require.True(t, strings.HasPrefix(s, cut))
		require.True(t, utf8.ValidString(cut))
		have := len(utf16.Encode([]rune(cut)))
		require.LessOrEqual(t, have, n)
		if cut != s {
			require.GreaterOrEqual(t, have, n-1, "no more than half a pair is missing")
		}
	})
}

func usage(input, output int64) protocol.Usage { return protocol.Usage{Input: input, Output: output} }

func answered(u protocol.Usage, stop protocol.StopReason) protocol.MessageEntry {
	return message(&protocol.AssistantMessage{Content: protocol.TextContent("12345678"), Usage: u, StopReason: stop})
}

func TestContextUsage(t *testing.T) {
	for _, c := range []struct {
		name     string
		entries  []protocol.Entry
		tokens   int64 // -1: unknown
		usage    int64
		trailing int64
		index    int // -1: none
	}{
		{"empty", nil, 0, 0, 0, -1},
		{"guess alone", []protocol.Entry{user("12345678")}, 2, 0, 2, -1},
		{"usage and guess", []protocol.Entry{user("x"), answered(usage(90, 10), protocol.StopStop), user("12345678")}, 102, 100, 2, 1},
		{"total beats sum", []protocol.Entry{answered(protocol.Usage{Input: 1, TotalTokens: 50}, protocol.StopStop)}, 50, 50, 0, 0},
		{"cache counts", []protocol.Entry{answered(protocol.Usage{Input: 1, CacheRead: 2, CacheWrite: 3, Output: 4}, protocol.StopLength)}, 10, 10, 0, 0},
		{"failed answers have no say", []protocol.Entry{
			answered(usage(90, 10), protocol.StopToolUse), answered(usage(900, 0), protocol.StopError), answered(usage(800, 0), protocol.StopAborted),
		}, 104, 100, 4, 0},
		{"zero usage has no say", []protocol.Entry{answered(usage(90, 10), protocol.StopStop), answered(usage(0, 0), protocol.StopStop)}, 102, 100, 2, 0},
		{"right after a compaction", []protocol.Entry{user("x"), answered(usage(90, 10), protocol.StopStop), compaction("1234", "e2")}, 3, 0, 3, -1},
		{"compaction, question", []protocol.Entry{answered(usage(90, 10), protocol.StopStop), compaction("1234", "e1"), user("1234")}, 4, 0, 4, -1},
		{"compaction, answer", []protocol.Entry{
			answered(usage(90, 10), protocol.StopStop), compaction("1234", "e1"), answered(usage(40, 2), protocol.StopStop), user("1234"),
		}, 43, 42, 1, 2},
		{"omitted messages", []protocol.Entry{user("x"), user("y"), answered(usage(40, 2), protocol.StopStop), edit("e1", `null`)}, 42, 42, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := store.NewContext(records(c.entries...))
			u := ctx.Usage(1000)
			assert.Equal(t, c.usage, u.UsageTokens)
			assert.Equal(t, c.trailing, u.TrailingTokens)
			assert.Equal(t, c.usage+c.trailing, ctx.Size().Tokens)
			assert.Equal(t, int64(1000), u.ContextWindow)
			guess := c.name == "right after a compaction" || c.name == "compaction, question"
			assert.Equal(t, !guess, ctx.Known(), "what a compaction has left is a guess until there is an answer")
			assert.Equal(t, c.tokens, u.Tokens)
			assert.InDelta(t, float64(c.tokens)/10, u.Percent, 1e-9)
			assert.Zero(t, ctx.Usage(0).Percent, "of an unknown window there is no share")
			if c.index < 0 {
				assert.Nil(t, u.LastUsageIndex)
			} else {
				assert.Equal(t, c.index, *u.LastUsageIndex)
			}
		})
	}
}

// TestUsageOfAView checks that the size of a branch, measured entry by entry, is that of its context.
func TestUsageOfAView(t *testing.T) {
	long := []protocol.Entry{user("a"), compaction("s", "e1")}
	for range 20 {
		long = append(long, user("12345678"), answered(usage(90, 10), protocol.StopStop))
	}
	cases := map[string][]protocol.Entry{
		"long": long, "long and trailing": append(slices.Clone(long), user("1234"), answered(usage(900, 0), protocol.StopError)),
		"long and edited": append(slices.Clone(long), edit("e42", `null`)), "long without usage": append(slices.Clone(long), compaction("t", "e5")),
		"edited twice":                   {user("12345678"), edit("e1", `"1234567890"`), edit("e1", `5`), user("b")},
		"brought back":                   {user("12345678"), edit("e1", `null`), edit("e1", `"12345678901234567890"`)},
		"edited usage":                   {answered(usage(90, 10), protocol.StopStop), edit("e1", `[]`)},
		"omitted usage":                  {user("x"), answered(usage(9, 10), protocol.StopStop), answered(usage(90, 10), protocol.StopStop), edit("e3", `null`)},
		"edit before a kept":             {user("12345678"), edit("e1", `"1"`), user("b"), compaction("s", "e1"), user("c")},
		"usage kept":                     {user("a"), answered(usage(90, 10), protocol.StopStop), compaction("s", "e2"), user("c")},
		"compaction that keeps no entry": {user("a"), compaction("summary", "e9"), answered(usage(3, 1), protocol.StopStop)},
		"two compactions":                {user("a"), compaction("1", "e1"), user("b"), compaction("22222", "e1"), user("c")},
		"an answer between compactions":  {user("a"), compaction("1", "e1"), answered(usage(3, 1), protocol.StopStop), compaction("22222", "e3"), user("c")},
	}
	for _, c := range contextCases {
		cases[c.name] = c.entries
	}
	for name, entries := range cases {
		t.Run(name, func(t *testing.T) {
			text := []string{headLine}
			for _, r := range records(entries...) {
				text = append(text, string(r.AppendJSON(nil)))
			}
			l := openText(t, text...)
			ctx, err := l.View().Context()
			require.NoError(t, err)
			got, known, err := l.View().Usage(1000)
			require.NoError(t, err)
			assert.Equal(t, ctx.Usage(1000), got)
			assert.Equal(t, ctx.Known(), known)
		})
	}
}
