package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"troupe/protocol"
	"troupe/store"
	"troupe/store/storetest"
	"troupe/tools/testenv"
)

func TestMain(m *testing.M) {
	testenv.Isolate()
	goleak.VerifyTestMain(m)
}

// t0 is when the tests take place, in epoch milliseconds.
const t0 = int64(1_795_223_066_021)

// file is where the tests' session lies.
const file = "/home/me/.pi/agent/sessions/--p--/s.jsonl"

func header() protocol.Header { return store.NewHeader("id-1", "/p", "", t0) }

// counting is a source of ids that are 00000001, 00000002, …
type counting struct{ n uint32 }

func (c *counting) Read(p []byte) (int, error) {
	for i := 0; i+4 <= len(p); i += 4 {
		c.n++
		p[i], p[i+1], p[i+2], p[i+3] = byte(c.n>>24), byte(c.n>>16), byte(c.n>>8), byte(c.n)
	}
	return len(p), nil
}

func options() store.Options { return store.Options{Rand: &counting{}} }

func user(text string) protocol.MessageEntry {
	return protocol.MessageEntry{Message: &protocol.UserMessage{Content: protocol.TextContent(text), Timestamp: t0}}
}

func answer(text string, calls ...string) protocol.MessageEntry {
	m := &protocol.AssistantMessage{
		Content: protocol.Content{}, API: "fake", Provider: "acme", Model: "big", StopReason: protocol.StopStop, Timestamp: t0,
		Usage: protocol.Usage{Input: 10, Output: 2, CacheRead: 3, CacheWrite: 4, TotalTokens: 19, Cost: protocol.Cost{Total: 0.5}},
	}
	if text != "" {
		m.Content = append(m.Content, protocol.Text{Text: text})
	}
	for _, id := range calls {
		m.StopReason = protocol.StopToolUse
		m.Content = append(m.Content, protocol.ToolCall{ID: id, Name: "read", Arguments: json.RawMessage(`{"path":"a"}`)})
	}
	return protocol.MessageEntry{Message: m}
}

func failed(reason protocol.StopReason, calls ...string) protocol.MessageEntry {
	e := answer("partial", calls...)
	e.Message.(*protocol.AssistantMessage).StopReason = reason
	return e
}

func result(call string) protocol.MessageEntry {
	return protocol.MessageEntry{Message: &protocol.ToolResultMessage{
		ToolCallID: call, ToolName: "read", Content: protocol.TextContent("result of " + call), Timestamp: t0,
	}}
}

// add appends entries durably and returns their ids.
func add(t require.TestingT, l *store.Log, entries ...protocol.Entry) []string {
	var ids []string
	for _, e := range entries {
		meta, err := l.Append(e, t0, true)
		require.NoError(t, err)
		ids = append(ids, meta.ID)
	}
	return ids
}

// newLog is an unborn session in a memory file system.
func newLog(t *testing.T) (*store.Log, *storetest.Mem) {
	t.Helper()
	m := storetest.NewMem()
	l := store.NewLog(m, file, header(), options())
	t.Cleanup(func() { l.Close() })
	return l, m
}

// open loads a session that must load.
func open(t require.TestingT, fsys store.FS, path string) *store.Log {
	l, err := store.OpenLog(fsys, path, store.Options{})
	require.NoError(t, err)
	if c, ok := t.(interface{ Cleanup(func()) }); ok {
		c.Cleanup(func() { l.Close() })
	}
	return l
}

// openText loads a session of lines.
func openText(t require.TestingT, lines ...string) *store.Log {
	m := storetest.NewMem()
	m.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"))
	return open(t, m, file)
}

// openSample loads a copy of a file in testdata.
func openSample(t *testing.T, name string) (*store.Log, string) {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, src, 0o600))
	return open(t, store.OS{}, path), path
}

func ids(refs []store.Ref) []string {
	list := make([]string, len(refs))
	for i, r := range refs {
		list[i] = r.ID
	}
	return list
}

// headLine and entryLine write lines by hand.
const headLine = `{"type":"session","version":3,"id":"id-1","timestamp":"2026-11-21T01:04:26.021Z","cwd":"/p"}`

func entryLine(kind, id, parent, rest string) string {
	p := "null"
	if parent != "" {
		p = `"` + parent + `"`
	}
	if rest != "" {
		rest = "," + rest
	}
	return fmt.Sprintf(`{"type":%q,"id":%q,"parentId":%s,"timestamp":"2026-11-21T01:04:27.000Z"%s}`, kind, id, p, rest)
}

func userLine(id, parent, text string) string {
	return entryLine("message", id, parent, fmt.Sprintf(`"message":{"role":"user","content":%q,"timestamp":%d}`, text, t0))
}

// texts renders a context, one message a line.
func texts(messages []protocol.Message) []string {
	list := []string{}
	for _, m := range messages {
		list = append(list, render(m))
	}
	return list
}

// sameMessages: clients are shown what a model is, and no less than the file says.
func sameMessages(t require.TestingT, v store.View) {
	c, err := v.Context()
	require.NoError(t, err)
	shown, err := v.Messages()
	require.NoError(t, err)
	require.Len(t, shown, c.Len())
	for i, m := range c.Messages() {
		require.True(t, json.Valid(shown[i]), string(shown[i]))
		again, err := protocol.DecodeMessage(shown[i])
		require.NoError(t, err)
		require.Equal(t, string(m.AppendJSON(nil)), string(again.AppendJSON(nil)))
		var full, read map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(shown[i], &full))
		require.NoError(t, json.Unmarshal(m.AppendJSON(nil), &read))
		for name := range read {
			require.Contains(t, full, name, string(shown[i]))
		}
	}
}

func render(m protocol.Message) string {
	switch m := m.(type) {
	case *protocol.UserMessage:
		return "user: " + m.Content.Text("|")
	case *protocol.AssistantMessage:
		s := "assistant: " + m.Content.Text("|")
		for _, c := range m.Content.ToolCalls() {
			s += " call " + c.ID
		}
		return s
	case *protocol.ToolResultMessage:
		return "result " + m.ToolCallID + ": " + m.Content.Text("|")
	case *protocol.CustomMessage:
		return "custom " + m.CustomType + ": " + m.Content.Text("|")
	case *protocol.BashExecutionMessage:
		return "bash: " + m.Command
	case *protocol.BranchSummaryMessage:
		return "branch: " + m.Summary
	case *protocol.CompactionSummaryMessage:
		return "summary: " + m.Summary
	case *protocol.UnknownMessage:
		return "unknown " + m.RoleName
	}
	return "?"
}

// errReader fails.
type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }

// isAbsent says whether opening failed because nothing is stored yet.
func isAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, store.ErrEmpty)
}

func mustUnmarshal(raw []byte, v any) {
	if err := json.Unmarshal(raw, v); err != nil {
		panic(err)
	}
}

func custom(customType string, op any) protocol.Custom {
	return protocol.Custom{CustomType: customType, Data: protocol.AppendValue(nil, op)}
}

func queueOp(op protocol.QueueOp) protocol.Entry { return custom(protocol.CustomQueue, op) }

func toolOp(op string, ids ...string) protocol.Entry {
	return custom(protocol.CustomTool, protocol.ToolOp{Op: op, IDs: ids})
}

func started(ids ...string) protocol.Entry { return toolOp("start", ids...) }
