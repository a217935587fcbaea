package providers

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
)

// lines is a wire that is no more than what [Converse] asks of one.
func lines(req *Request) []byte {
	talk := Converse(req, Shape{}, func(any) {})
	defer talk.Close()
	b := append([]byte(nil), talk.Known...)
	for i, m := range talk.Messages {
		if i == talk.Cut {
			talk.Keep(b, nil)
		}
		b = append(m.AppendJSON(b), '\n')
	}
	return b
}

func said(texts ...string) (messages []protocol.Message) {
	for i, text := range texts {
		if i%2 == 0 {
			messages = append(messages, &protocol.UserMessage{Content: protocol.TextContent(text)})
		} else {
			messages = append(messages, &protocol.AssistantMessage{Content: protocol.TextContent(text)})
		}
	}
	return messages
}

func memoRequest(messages []protocol.Message) *Request {
	return &Request{
		Model: &protocol.Model{ID: "m", MaxTokens: 100, ContextWindow: 200}, Messages: messages,
		Tools: []protocol.ToolInfo{{Name: "read"}}, Memo: new(Memo),
	}
}

func TestMemo_cut(t *testing.T) {
	call := &protocol.AssistantMessage{Content: protocol.Content{protocol.ToolCall{ID: "1", Name: "read", Arguments: []byte("{}")}}}
	late := &protocol.ToolResultMessage{ToolCallID: "1", ToolName: "read", Content: protocol.TextContent("found")}
	req := memoRequest(append(said("a", "b", "c"), call))
	lines(req)
	assert.Len(t, req.Memo.messages, 3, "up to the call, whose result may come")

	req.Messages = append(req.Messages, said("d", "e", "f")...)
	lines(req)
	assert.Len(t, req.Memo.messages, 6)

	req.Messages = append(req.Messages, late)
	want := *req
	want.Memo = nil
	assert.Equal(t, string(lines(&want)), string(lines(req)), "the result stands with its call")
	assert.Empty(t, req.Memo.messages, "what was remembered is wrong, and there is nothing behind the result")

	req.Messages = append(req.Messages, said("g", "h")...)
	lines(req)
	assert.Len(t, req.Memo.messages, 9)
}

func TestMemo_twoAtOnce(t *testing.T) {
	req := memoRequest(said("a", "b", "c"))
	want := string(lines(req))
	talk := Converse(req, Shape{}, func(any) {})
	assert.NotNil(t, talk.Known)
	assert.Equal(t, want, string(lines(req)), "without the memo, which is in use")
	talk.Close()
	assert.Len(t, req.Memo.messages, 2)
}

func TestMemo_bounded(t *testing.T) {
	req := memoRequest(said(strings.Repeat("a", 1<<20), "b", "c"))
	lines(req)
	require.NotEmpty(t, req.Memo.messages)
	assert.InDelta(t, 1<<20, req.Memo.held.Load(), 1<<10)

	req.Messages = append(req.Messages, said("d", strings.Repeat("e", memoLimit), "f")...)
	lines(req)
	lines(req)
	assert.Empty(t, req.Memo.messages, "too long")
	assert.Zero(t, req.Memo.held.Load())

	memoTotal.Add(memoBudget)
	defer memoTotal.Add(-memoBudget)
	req.Messages = said("a", "b", "c")
	lines(req)
	assert.Empty(t, req.Memo.messages, "others have it all")
}

func TestIDs(t *testing.T) {
	var ids IDs
	assert.True(t, ids.Add("a"))
	assert.True(t, ids.Add("b"))
	assert.False(t, ids.Add("a"))
	ids.Cut(1)
	assert.Equal(t, 1, ids.Len())
	assert.True(t, ids.Has("a"))
	assert.True(t, ids.Add("b"))
}
