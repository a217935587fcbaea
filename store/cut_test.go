package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"troupe/protocol"
	"troupe/store"
)

// drawn is a context written as one letter a message: u user, a answer, r tool
// result, b bash, s compaction summary; each of 10 tokens.
func drawn(shape string) (items []store.Item) {
	text := strings.Repeat("x", 40)
	for i, c := range shape {
		item := store.Item{EntryID: fmt.Sprint(i)}
		switch c {
		case 'u':
			item.Message = &protocol.UserMessage{Content: protocol.TextContent(text)}
		case 'a':
			item.Message = &protocol.AssistantMessage{Content: protocol.TextContent(text)}
		case 'r':
			item.Message = &protocol.ToolResultMessage{Content: protocol.TextContent(text)}
		case 'b':
			item.Message = &protocol.BashExecutionMessage{Output: text}
		case 's':
			item.Message = &protocol.CompactionSummaryMessage{Summary: "old"}
		}
		items = append(items, item)
	}
	return items
}

func TestNewCut(t *testing.T) {
	for _, c := range []struct {
		shape           string
		keep            int64
		history, prefix int
		first           string
		err             error
	}{
		{"", 10, 0, 0, "", store.ErrTooSmall},
		{"s", 10, 0, 0, "", store.ErrCompacted},
		{"ua", 1000, 0, 0, "", store.ErrTooSmall},
		{"uaua", 20, 2, 0, "2", nil},        // between two turns
		{"uaua", 10, 2, 1, "3", nil},        // in the middle of a turn
		{"uararaua", 40, 0, 5, "5", nil},    // the result at the budget goes with its call
		{"uarara", 20, 0, 5, "5", nil},      // the budget ends at a result: the next answer
		{"uaua" + "ba", 20, 4, 0, "4", nil}, // a command of the user begins a turn
		{"suaua", 20, 2, 0, "3", nil},       // the summary is not summarised again
		{"sua", 1000, 0, 0, "", store.ErrTooSmall},
	} {
		cut, err := store.NewCut(drawn(c.shape), c.keep)
		if c.err != nil {
			assert.ErrorIs(t, err, c.err, c.shape)
			continue
		}
		require.NoError(t, err, c.shape)
		assert.Len(t, cut.History, c.history, "%s: history", c.shape)
		assert.Len(t, cut.Prefix, c.prefix, "%s: prefix", c.shape)
		assert.Equal(t, c.first, cut.FirstKept, c.shape)
	}
}

// TestCutKeepsOrder: whatever the context, nothing is lost or doubled, the kept
// part begins where it may, and keeps what it should.
func TestCutKeepsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := rapid.StringMatching(`s?(u(a(rr?a)*)?|b){0,12}`).Draw(t, "shape")
		keep := rapid.Int64Range(1, 300).Draw(t, "keep")
		items := drawn(shape)
		cut, err := store.NewCut(items, keep)
		if err != nil {
			require.True(t, errors.Is(err, store.ErrTooSmall) || errors.Is(err, store.ErrCompacted))
			return
		}
		if strings.HasPrefix(shape, "s") {
			items = items[1:]
			require.Equal(t, "old", cut.Previous)
		}
		all := append(append(append([]protocol.Message{}, cut.History...), cut.Prefix...), cut.Kept...)
		require.Len(t, all, len(items))
		for i := range all {
			require.Same(t, items[i].Message, all[i])
		}
		require.NotEqual(t, protocol.RoleToolResult, cut.Kept[0].Role())
		require.NotEmpty(t, append(cut.History, cut.Prefix...))
	})
}

func TestFilesOf(t *testing.T) {
	call := func(name, args string) protocol.Message {
		return &protocol.AssistantMessage{Content: protocol.Content{protocol.ToolCall{Name: name, Arguments: json.RawMessage(args)}}}
	}
	use := func(tool string) protocol.FileUse {
		return map[string]protocol.FileUse{"read": protocol.ReadsFile, "edit": protocol.WritesFile, "write": protocol.WritesFile}[tool]
	}
	lists := store.FilesOf([]protocol.Message{
		call("read", `{"path":"b"}`), call("read", `{"path":"a"}`), call("edit", `{"path":"b"}`), call("write", `{"path":"c"}`),
		call("bash", `{"command":"rm x","path":"x"}`), call("read", `{"path":7}`), call("read", `broken`),
	}, use, json.RawMessage(`{"readFiles":["old","c"],"modifiedFiles":["gone"]}`), json.RawMessage(`[]`))
	assert.Equal(t, []string{"a", "old"}, lists.ReadFiles)
	assert.Equal(t, []string{"b", "c", "gone"}, lists.ModifiedFiles)
	raw, err := json.Marshal(store.FilesOf(nil, use))
	require.NoError(t, err)
	assert.JSONEq(t, `{"readFiles":[],"modifiedFiles":[]}`, string(raw))
}
