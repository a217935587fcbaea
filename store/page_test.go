package store_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"troupe/protocol"
	"troupe/store"
)

// TestPages: pages of any size, put together, are the list; the words choose as they
// choose from the whole.
func TestPages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []protocol.SessionSummary
		for i := range rapid.IntRange(0, 12).Draw(t, "sessions") {
			all = append(all, protocol.SessionSummary{
				Path: fmt.Sprintf("/s/%d.jsonl", i), Modified: fmt.Sprint("2026-01-0", rapid.IntRange(1, 4).Draw(t, "day")),
				FirstMessage: rapid.SampledFrom([]string{"Mend the Roof", "roof and floor", "floor"}).Draw(t, "first"), AllMessagesText: new("text"),
			})
		}
		page := store.Page{Words: rapid.SampledFrom([]string{"", "ROOF", "floor roof", "none"}).Draw(t, "words"), Textless: rapid.Bool().Draw(t, "textless")}
		want, next, ok := page.Of(all)
		require.True(t, ok)
		require.Empty(t, next)
		page.Limit = rapid.IntRange(1, 5).Draw(t, "limit")
		var got []protocol.SessionSummary
		for range len(all) + 1 {
			part, next, ok := page.Of(all)
			require.True(t, ok)
			require.LessOrEqual(t, len(part), page.Limit)
			got = append(got, part...)
			if page.Cursor = next; next == "" {
				break
			}
			require.Len(t, part, page.Limit)
		}
		require.Empty(t, page.Cursor)
		require.ElementsMatch(t, want, got)
		for i, s := range got {
			require.Equal(t, page.Textless, s.AllMessagesText == nil)
			require.True(t, i == 0 || got[i-1].Modified >= s.Modified)
		}
	})
	_, _, ok := store.Page{Cursor: "?"}.Of(nil)
	assert.False(t, ok)
}
