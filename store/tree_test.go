package store_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/protocol"
	"troupe/store"
)

// draw renders a tree, a node a line.
func draw(nodes []protocol.TreeNode, depth int) string {
	var b strings.Builder
	for _, n := range nodes {
		fmt.Fprintf(&b, "%s%s %s", strings.Repeat("  ", depth), n.Entry.ID, n.Entry.Type)
		if n.Entry.Label != "" {
			fmt.Fprintf(&b, " <%s>", n.Entry.Label)
		}
		if n.Entry.Preview != "" {
			fmt.Fprintf(&b, " %q", n.Entry.Preview)
		}
		b.WriteString("\n" + draw(n.Children, depth+1))
	}
	return b.String()
}

func TestTreeOfSample(t *testing.T) {
	l, _ := openSample(t, "session-tree.jsonl")
	tree, err := l.View().Tree()
	require.NoError(t, err)
	golden(t, "tree.txt", "leaf "+*tree.LeafID+"\n"+draw(tree.Nodes, 0))
}

// golden compares with a file in testdata; run with GOLDEN=1 to rewrite it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name
	if os.Getenv("GOLDEN") != "" {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}

func TestPreviews(t *testing.T) {
	long := strings.Repeat("a", 139) + "😀b"
	for _, c := range []struct{ line, want string }{
		{userLine("00000001", "", "hi there"), "hi there"},
		{userLine("00000001", "", strings.Repeat("x", 500)), strings.Repeat("x", 140)},
		{userLine("00000001", "", long), strings.Repeat("a", 139)},
		{entryLine("message", "00000001", "", `"message":{"role":"user","content":[{"type":"text","text":"a"},{"type":"image","data":"","mimeType":""},{"type":"text","text":"b"}]}`), "a b"},
		{entryLine("message", "00000001", "", `"message":{"role":"user","content":[]}`), ""},
		{entryLine("message", "00000001", "", `"message":{"role":"assistant","content":[{"type":"thinking","thinking":"t"},{"type":"text","text":"a\nb"}]}`), "a\nb"},
		{entryLine("message", "00000001", "", `"message":{"role":"assistant","content":[{"type":"toolCall","id":"c","name":"n","arguments":{}}]}`), ""},
		{entryLine("message", "00000001", "", `"message":{"role":"toolResult","toolName":"bash","content":[]}`), "[toolResult:bash]"},
		{entryLine("message", "00000001", "", `"message":{"role":"bashExecution","command":"ls"}`), ""},
		{entryLine("message", "00000001", "", `"message":{"role":"custom","content":"x"}`), ""},
		{entryLine("message", "00000001", "", `"message":7`), ""},
		{entryLine("compaction", "00000001", "", `"summary":"s"`), "[compaction]"},
		{entryLine("branch_summary", "00000001", "", `"summary":"s"`), "[branch_summary]"},
		{entryLine("custom_message", "00000001", "", `"content":"s"`), "[custom_message]"},
		{entryLine("custom", "00000001", "", `"customType":"s"`), "[custom]"},
		{entryLine("model_change", "00000001", "", `"provider":"p","modelId":"m"`), "[model:p/m]"},
		{entryLine("thinking_level_change", "00000001", "", `"thinkingLevel":"low"`), "[thinking:low]"},
		{entryLine("label", "00000001", "", `"targetId":"x","label":"l"`), "[label:l]"},
		{entryLine("label", "00000001", "", `"targetId":"x"`), "[label:]"},
		{entryLine("session_info", "00000001", "", `"name":"n"`), "[session_info:n]"},
		{entryLine("context_edit", "00000001", "", `"targetId":"x"`), ""},
		{entryLine("hologram", "00000001", "", ""), ""},
	} {
		tree, err := openText(t, headLine, c.line).View().Tree()
		require.NoError(t, err)
		assert.Equal(t, c.want, tree.Nodes[0].Entry.Preview, c.line)
	}
}

// TestOwnEntries: what troupe notes for itself is not shown; what follows it
// follows the entry before.
func TestOwnEntries(t *testing.T) {
	own := func(id, parent, kind string) string {
		return entryLine("custom", id, parent, `"customType":"troupe.`+kind+`","data":{}`)
	}
	l := openText(t, headLine,
		own("00000001", "", "todos"),
		userLine("00000002", "00000001", "one"),
		own("00000003", "00000002", "queue"),
		own("00000004", "00000003", "tool"),
		userLine("00000005", "00000004", "two"),
		entryLine("custom", "00000006", "00000003", `"customType":"mine"`),
		own("00000007", "00000005", "rules"),
		own("00000008", "00000007", "later"),
	)
	v := l.View()
	tree, err := v.Tree()
	require.NoError(t, err)
	assert.Equal(t, "00000002 message \"one\"\n  00000005 message \"two\"\n  00000006 custom \"[custom]\"\n", draw(tree.Nodes, 0))
	assert.Equal(t, "00000005", *tree.LeafID)
	assert.Equal(t, "00000005", v.ShownLeaf())
	assert.Equal(t, "00000008", v.Leaf())
	assert.Nil(t, tree.Nodes[0].Entry.ParentID)
	assert.Equal(t, "00000002", *tree.Nodes[0].Children[0].Entry.ParentID)

	whole, err := v.WholeTree()
	require.NoError(t, err)
	got := gjson.ParseBytes(whole.AppendJSON(nil))
	assert.Equal(t, "00000005", got.Get("leafId").Str)
	assert.Equal(t, "null", got.Get("tree.0.entry.parentId").Raw)
	assert.Equal(t, `["00000002","00000002"]`, got.Get("tree.0.children.#.entry.parentId").Raw)

	entries, more, err := v.Entries("", 2)
	require.NoError(t, err)
	assert.True(t, more)
	require.Len(t, entries, 2)
	assert.Equal(t, "00000002", gjson.GetBytes(entries[1], "parentId").Str)
	entries, more, err = v.Entries("00000004", 0) // somebody who has read the file may name one of them
	require.NoError(t, err)
	assert.False(t, more)
	require.Len(t, entries, 2)

	// A view that begins with them alone is an empty session.
	v, err = v.At("00000001")
	require.NoError(t, err)
	assert.Empty(t, v.ShownLeaf())
}

func TestTreeOrderAndRoots(t *testing.T) {
	at := func(line string, second int) string {
		return strings.Replace(line, "04:27", fmt.Sprintf("04:%02d", second), 1)
	}
	l := openText(t, headLine,
		at(userLine("0000000a", "", "root"), 1),
		at(userLine("0000000b", "0000000a", "late"), 9),
		at(userLine("0000000c", "0000000a", "early"), 3),
		at(userLine("0000000d", "0000000a", "also early"), 3),
		at(userLine("0000000e", "lost", "orphan"), 0),
	)
	tree, err := l.View().Tree()
	require.NoError(t, err)
	assert.Equal(t, `0000000e message "orphan"
0000000a message "root"
  0000000c message "early"
  0000000d message "also early"
  0000000b message "late"
`, draw(tree.Nodes, 0))
	assert.Equal(t, "lost", *tree.Nodes[0].Entry.ParentID, "as the file says")
	assert.Nil(t, tree.Nodes[1].Entry.ParentID)
	assert.Equal(t, "0000000e", *tree.LeafID)
	v, err := l.View().At("")
	require.NoError(t, err)
	tree, err = v.Tree()
	require.NoError(t, err)
	assert.Nil(t, tree.LeafID)
	encoded, err := json.Marshal(tree)
	require.NoError(t, err)
	assert.NotContains(t, string(encoded), `"children":null`)
}

func TestEmptyTree(t *testing.T) {
	l, _ := newLog(t)
	tree, err := l.View().Tree()
	require.NoError(t, err)
	encoded, err := json.Marshal(tree)
	require.NoError(t, err)
	assert.JSONEq(t, `{"leafId":null,"nodes":[]}`, string(encoded))
}

func TestDeepTree(t *testing.T) {
	const n = 50_000
	lines := []string{headLine}
	parent := ""
	for i := range n {
		id := fmt.Sprintf("%08x", i)
		lines = append(lines, userLine(id, parent, "x"))
		parent = id
	}
	tree, err := openText(t, lines...).View().Tree()
	require.NoError(t, err)
	assert.Equal(t, n, countNodes(tree.Nodes))
}

func TestRawTree(t *testing.T) {
	l, _ := openSample(t, "session-tree.jsonl")
	nodes, err := l.View().RawTree()
	require.NoError(t, err)
	require.Len(t, nodes, 1)
	var labels []string
	seen := 0
	for todo := nodes; len(todo) > 0; todo = todo[1:] {
		n := todo[0]
		todo = append(todo[:len(todo):len(todo)], n.Children...)
		id := rawID(t, n.Entry)
		raw, err := l.View().Raw(id)
		require.NoError(t, err)
		assert.Equal(t, string(raw), string(n.Entry))
		if n.Label != "" {
			labels = append(labels, id+" "+n.Label+" "+n.LabelTimestamp)
		}
		seen++
	}
	assert.Equal(t, l.Len(), seen)
	assert.Equal(t, []string{"c51ca74b from-b 2026-11-21T01:04:28.480Z"}, labels)

	whole, err := l.View().WholeTree()
	require.NoError(t, err)
	text, err := json.Marshal(nodes)
	require.NoError(t, err)
	leaf := l.Leaf()
	want, err := json.Marshal(protocol.WholeTree{Tree: text, LeafID: &leaf})
	require.NoError(t, err)
	assert.JSONEq(t, string(want), string(whole.AppendJSON(nil)))
	whole, err = openText(t, headLine).View().WholeTree()
	require.NoError(t, err)
	assert.JSONEq(t, `{"tree":[],"leafId":null}`, string(whole.AppendJSON(nil)))
}

func rawID(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var e struct{ ID string }
	require.NoError(t, json.Unmarshal(raw, &e))
	return e.ID
}

func TestEntries(t *testing.T) {
	l, _ := newLog(t)
	got := add(t, l, user("a"), user("b"), user("c"), user("d"))
	for _, c := range []struct {
		since string
		limit int
		want  []string
		more  bool
	}{
		{"", 0, got, false},
		{"", 2, got[:2], true},
		{"", 4, got, false},
		{got[0], 2, got[1:3], true},
		{got[1], 2, got[2:], false},
		{got[3], 5, nil, false},
	} {
		entries, more, err := l.View().Entries(c.since, c.limit)
		require.NoError(t, err)
		var have []string
		for _, e := range entries {
			have = append(have, rawID(t, e))
		}
		assert.Equal(t, c.want, have)
		assert.Equal(t, c.more, more)
		assert.NotNil(t, entries)
	}
	_, _, err := l.View().Entries("nope", 0)
	assert.ErrorIs(t, err, store.ErrNoEntry)
}

func TestForkMessages(t *testing.T) {
	l, _ := newLog(t)
	first := add(t, l, user("one"))[0]
	two := protocol.MessageEntry{Message: &protocol.UserMessage{Content: protocol.Content{
		protocol.Text{Text: "t"}, protocol.Image{Data: "AAAA", MimeType: "image/png"}, protocol.Text{Text: "wo"},
	}}}
	image := protocol.MessageEntry{Message: &protocol.UserMessage{Content: protocol.Content{protocol.Image{Data: "AAAA", MimeType: "image/png"}}}}
	second := add(t, l, two)[0]
	add(t, l, answer("x"), image, user("  "))
	require.NoError(t, l.SetLeaf(first))
	third := add(t, l, user("three"))[0]
	on, err := l.View().ForkMessages(false)
	require.NoError(t, err)
	assert.Equal(t, []protocol.ForkMessage{{EntryID: first, Text: "one"}, {EntryID: third, Text: "three"}}, on)
	all, err := l.View().ForkMessages(true)
	require.NoError(t, err)
	assert.Equal(t, []protocol.ForkMessage{{EntryID: first, Text: "one"}, {EntryID: second, Text: "two"}, {EntryID: third, Text: "three"}}, all)
	v, err := l.View().At("")
	require.NoError(t, err)
	none, err := v.ForkMessages(false)
	require.NoError(t, err)
	assert.NotNil(t, none)
	assert.Empty(t, none)
}

func TestLastAssistantText(t *testing.T) {
	empty := message(&protocol.AssistantMessage{StopReason: protocol.StopAborted})
	for _, c := range []struct {
		name    string
		entries []protocol.Entry
		want    string
	}{
		{"none", []protocol.Entry{user("a")}, ""},
		{"one", []protocol.Entry{answer(" b\n"), user("c"), protocol.SessionInfo{Name: "n"}}, "b"},
		{"blocks are joined", []protocol.Entry{message(&protocol.AssistantMessage{Content: protocol.Content{protocol.Text{Text: "a"}, protocol.Thinking{Thinking: "t"}, protocol.Text{Text: "b"}}})}, "ab"},
		{"aborted and empty is passed over", []protocol.Entry{answer("b"), empty}, "b"},
		{"aborted with text", []protocol.Entry{answer("b"), failed(protocol.StopAborted)}, "partial"},
		{"only calls", []protocol.Entry{answer("b"), answer("", "c1")}, ""},
	} {
		l := store.NewLog(nil, "", header(), options())
		add(t, l, c.entries...)
		got, err := l.View().LastAssistantText(false)
		require.NoError(t, err)
		if c.want == "" {
			assert.Nil(t, got, c.name)
		} else {
			require.NotNil(t, got, c.name)
			assert.Equal(t, c.want, *got, c.name)
		}
	}
}

// TestLastAssistantText_onlyText: what pi 1.6.0 answers about each end, after an earlier answer.
func TestLastAssistantText_onlyText(t *testing.T) {
	thinking, call := protocol.Thinking{Thinking: "Hm."}, protocol.ToolCall{ID: "c", Name: "read", Arguments: json.RawMessage(`{}`)}
	for _, c := range []struct {
		reason  protocol.StopReason
		content protocol.Content
		want    string
	}{
		{protocol.StopStop, nil, ""},
		{protocol.StopStop, protocol.Content{thinking}, ""},
		{protocol.StopStop, protocol.TextContent("  "), ""},
		{protocol.StopStop, protocol.Content{call}, ""},
		{protocol.StopError, nil, "before"},
		{protocol.StopError, protocol.TextContent(" "), "before"},
		{protocol.StopError, protocol.TextContent("partial"), "partial"},
		{protocol.StopAborted, nil, "before"},
		{protocol.StopAborted, protocol.Content{thinking}, "before"},
		{protocol.StopLength, nil, "before"},
		{protocol.StopLength, protocol.Content{thinking}, "before"},
		{protocol.StopLength, protocol.TextContent("partial"), "partial"},
		{protocol.StopToolUse, nil, "before"},
		{protocol.StopToolUse, protocol.Content{call}, "before"},
		{protocol.StopToolUse, protocol.Content{protocol.Text{Text: "x"}, call}, "x"},
	} {
		l := store.NewLog(nil, "", header(), options())
		add(t, l, answer("before"), user("q"), message(&protocol.AssistantMessage{StopReason: c.reason, Content: c.content}))
		got, err := l.View().LastAssistantText(true)
		require.NoError(t, err)
		have := ""
		if got != nil {
			have = *got
		}
		assert.Equal(t, c.want, have, "%s %v", c.reason, c.content)
	}
}

func TestStats(t *testing.T) {
	l, _ := newLog(t)
	kept := add(t, l, user("a"), answer("x", "c1", "c2"), result("c1"), result("c2"), message(&protocol.BashExecutionMessage{Command: "ls"}),
		protocol.CustomMessageEntry{CustomType: "n"}, protocol.BranchSummary{Summary: "s"}, protocol.BranchSummary{},
		protocol.SessionInfo{Name: "n"}, message(&protocol.UnknownMessage{RoleName: "system", Raw: json.RawMessage(`{"role":"system"}`)}))
	before, err := l.View().Stats(true)
	require.NoError(t, err)
	path := file
	want := protocol.SessionStats{
		SessionFile: &path, SessionID: "id-1", UserMessages: 1, AssistantMessages: 1, ToolCalls: 2, ToolResults: 2, TotalMessages: 7,
		Tokens: protocol.TokenTotals{Input: 10, Output: 2, CacheRead: 3, CacheWrite: 4, Total: 19}, Cost: 0.5,
		Session: &protocol.TotalsByFile{Tokens: protocol.TokenTotals{Input: 10, Output: 2, CacheRead: 3, CacheWrite: 4, Total: 19}, Cost: 0.5, Costs: protocol.Cost{Total: 0.5}},
	}
	assert.Equal(t, want, before)

	paid := compaction("s", "")
	paid.Usage = &protocol.Usage{Input: 100, Cost: protocol.Cost{Total: 1}}
	add(t, l, paid)
	after, err := l.View().Stats(true)
	require.NoError(t, err)
	want.Tokens.Input, want.Tokens.Total, want.Cost = 110, 119, 1.5
	want.Session = &protocol.TotalsByFile{Tokens: want.Tokens, Cost: 1.5, Costs: protocol.Cost{Total: 1.5}}
	assert.Equal(t, want, after, "counts do not go down by compaction")

	require.NoError(t, l.SetLeaf(kept[0]))
	left, err := l.View().Stats(true)
	require.NoError(t, err)
	assert.Equal(t, 1, left.TotalMessages)
	assert.Zero(t, left.Tokens)
	assert.Equal(t, want.Session, left.Session, "the file has everything")

	inMemory, err := store.NewLog(nil, "", header(), options()).View().Stats(true)
	require.NoError(t, err)
	assert.Nil(t, inMemory.SessionFile)
}

// TestStatsOfRetries: an answer that was taken out and made again counts only
// where it is asked for. What it cost always does.
func TestStatsOfRetries(t *testing.T) {
	l, _ := newLog(t)
	ids := add(t, l, user("a"), answer("failed"), answer("again"))
	add(t, l, edit(ids[1], "null"))
	for retried, want := range map[bool]int{true: 2, false: 1} {
		stats, err := l.View().Stats(retried)
		require.NoError(t, err)
		assert.Equal(t, want, stats.AssistantMessages)
		assert.Equal(t, want+1, stats.TotalMessages)
		assert.EqualValues(t, 20, stats.Tokens.Input)
	}
	add(t, l, edit(ids[1], `[{"type":"text","text":"back"}]`)) // the last edit counts
	stats, err := l.View().Stats(false)
	require.NoError(t, err)
	assert.Equal(t, 2, stats.AssistantMessages)
}
