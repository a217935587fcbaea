package store_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/store"
)

func edit(target, replacement string) protocol.ContextEdit {
	return protocol.ContextEdit{TargetID: target, Replacement: json.RawMessage(replacement)}
}

func compaction(summary, firstKept string) protocol.Compaction {
	return protocol.Compaction{Summary: summary, FirstKeptEntryID: firstKept, TokensBefore: 7}
}

// records numbers entries e1, e2, … in one chain.
func records(entries ...protocol.Entry) []protocol.Record {
	var list []protocol.Record
	parent := ""
	for i, e := range entries {
		id := fmt.Sprint("e", i+1)
		meta := protocol.EntryMeta{ID: id, ParentID: parent, Timestamp: protocol.FormatTime(t0 + int64(i))}
		list = append(list, protocol.Record{EntryMeta: meta, Entry: e})
		parent = id
	}
	return list
}

func message(m protocol.Message) protocol.MessageEntry { return protocol.MessageEntry{Message: m} }

var contextCases = []struct {
	name    string
	entries []protocol.Entry
	want    []string
}{
	{"nothing", nil, []string{}},
	{"settings alone", []protocol.Entry{protocol.ModelChange{}, protocol.SessionInfo{Name: "n"}}, []string{}},
	{"plain", []protocol.Entry{user("a"), answer("b", "c1"), result("c1"), answer("d")},
		[]string{"user: a", "assistant: b call c1", "result c1: result of c1", "assistant: d"}},
	{"what adds nothing", []protocol.Entry{
		user("a"), protocol.Custom{CustomType: "x"}, protocol.Label{TargetID: "e1", Label: "l"}, protocol.ThinkingLevelChange{},
		protocol.UnknownEntry{Type: "hologram", Raw: json.RawMessage(`{}`)}, message(&protocol.UnknownMessage{RoleName: "system"}), user("b"),
	}, []string{"user: a", "user: b"}},
	{"other sources", []protocol.Entry{
		protocol.CustomMessageEntry{CustomType: "note", Content: protocol.TextContent("n")}, protocol.BranchSummary{Summary: "left"},
		protocol.BranchSummary{}, message(&protocol.BashExecutionMessage{Command: "ls", ExcludeFromContext: true}),
		message(&protocol.UnknownMessage{RoleName: "hologram"}),
	}, []string{"custom note: n", "branch: left", "bash: ls", "unknown hologram"}},
	{"failed answers stay", []protocol.Entry{user("a"), failed(protocol.StopError), failed(protocol.StopAborted)},
		[]string{"user: a", "assistant: partial", "assistant: partial"}},
	{"compaction", []protocol.Entry{user("a"), answer("b"), user("c"), answer("d"), compaction("s", "e3"), user("e")},
		[]string{"summary: s", "user: c", "assistant: d", "user: e"}},
	{"compaction keeps from a setting on", []protocol.Entry{user("a"), protocol.ModelChange{}, user("b"), compaction("s", "e2"), user("c")},
		[]string{"summary: s", "user: b", "user: c"}},
	{"compaction keeps nothing by its own id", []protocol.Entry{user("a"), compaction("s", "e2"), user("c")},
		[]string{"summary: s", "user: c"}},
	{"compaction with dangling id", []protocol.Entry{user("a"), compaction("s", "gone"), user("c")}, []string{"summary: s", "user: c"}},
	{"compaction with an id that comes later", []protocol.Entry{user("a"), compaction("s", "e3"), user("c")},
		[]string{"summary: s", "user: c"}},
	{"two compactions", []protocol.Entry{user("a"), user("b"), compaction("s1", "e2"), user("c"), user("d"), compaction("s2", "e5"), user("e")},
		[]string{"summary: s2", "user: d", "user: e"}},
	{"second keeps the first's range", []protocol.Entry{user("a"), user("b"), compaction("s1", "e2"), user("c"), compaction("s2", "e2")},
		[]string{"summary: s2", "user: b", "user: c"}},
	{"second keeps from the first on", []protocol.Entry{user("a"), user("b"), compaction("s1", "e2"), user("c"), compaction("s2", "e3")},
		[]string{"summary: s2", "user: c"}},
	{"second keeps more than the first", []protocol.Entry{user("a"), user("b"), compaction("s1", "e2"), user("c"), compaction("s2", "e1"), user("d")},
		[]string{"summary: s2", "user: a", "user: b", "user: c", "user: d"}},
	{"edit", []protocol.Entry{user("a"), answer("b"), edit("e1", `"A"`), edit("e2", `[{"type":"text","text":"B"}]`)},
		[]string{"user: A", "assistant: B"}},
	{"edit omits", []protocol.Entry{user("a"), answer("b"), edit("e2", `null`), answer("c")}, []string{"user: a", "assistant: c"}},
	{"edit without replacement omits", []protocol.Entry{user("a"), edit("e1", ``)}, []string{}},
	{"last edit counts", []protocol.Entry{user("a"), edit("e1", `null`), edit("e1", `"A"`), user("b"), edit("e4", `"x"`), edit("e4", `null`)},
		[]string{"user: A"}},
	{"edit of a result and a note", []protocol.Entry{
		result("c1"), protocol.CustomMessageEntry{CustomType: "note", Content: protocol.TextContent("n")}, edit("e1", `"R"`), edit("e2", `"N"`),
	}, []string{"result c1: R", "custom note: N"}},
	{"edits that do not count", []protocol.Entry{
		user("a"), message(&protocol.BashExecutionMessage{Command: "ls"}), edit("e1", `5`), edit("e2", `"x"`), edit("gone", `null`),
		edit("e2", `null`), edit("e1", `[{"no":"block"}`),
	}, []string{"user: a", "bash: ls"}},
	{"edit survives compaction", []protocol.Entry{
		user("a"), user("b"), edit("e2", `"B"`), user("c"), edit("e4", `null`), compaction("s", "e2"), user("d"),
	}, []string{"summary: s", "user: B", "user: d"}},
	{"edit after compaction", []protocol.Entry{user("a"), user("b"), compaction("s", "e2"), edit("e2", `"B"`), edit("e1", `"A"`)},
		[]string{"summary: s", "user: B"}},
}

func TestContext(t *testing.T) {
	for _, c := range contextCases {
		t.Run(c.name, func(t *testing.T) {
			branch := records(c.entries...)
			assert.Equal(t, c.want, texts(store.NewContext(branch).Messages()))

			extended := store.NewContext(nil)
			for i, r := range branch {
				extended.Len() // whoever looks on the way must not disturb
				if !extended.Extend(r) {
					assert.Equal(t, "second keeps more than the first", c.name, "only this one needs history")
					extended = store.NewContext(branch[:i+1])
				}
			}
			assert.Equal(t, c.want, texts(extended.Messages()), "extended")
			assert.Equal(t, len(c.want), extended.Len())

			w := twin{entries: branch}
			if len(branch) > 0 {
				w.leaf = branch[len(branch)-1].ID
			}
			if c.name != "edits that do not count" && c.name != "edit of a result and a note" && c.name != "edit" &&
				c.name != "edit without replacement omits" && c.name != "what adds nothing" {
				assert.Equal(t, c.want, w.context(), "the twin agrees")
			}
		})
	}
}

func TestContextItems(t *testing.T) {
	c := store.NewContext(records(user("a"), user("b"), edit("e2", `null`), compaction("s", "e1"), user("c")))
	var got []string
	for _, item := range c.Items() {
		got = append(got, item.EntryID+" "+render(item.Message))
	}
	assert.Equal(t, []string{"e4 summary: s", "e1 user: a", "e5 user: c"}, got)
}

func TestContextSynthesised(t *testing.T) {
	c := store.NewContext(records(
		compaction("s", ""), protocol.BranchSummary{Summary: "left", FromID: "x"},
		protocol.CustomMessageEntry{CustomType: "note", Content: protocol.TextContent("n"), Display: true, Details: json.RawMessage(`{"k":1}`)},
	))
	assert.Equal(t, []protocol.Message{
		&protocol.CompactionSummaryMessage{Summary: "s", TokensBefore: 7, Timestamp: t0},
		&protocol.BranchSummaryMessage{Summary: "left", FromID: "x", Timestamp: t0 + 1},
		&protocol.CustomMessage{CustomType: "note", Content: protocol.TextContent("n"), Display: true, Details: json.RawMessage(`{"k":1}`), Timestamp: t0 + 2},
	}, c.Messages())
}

// An edit of a sealed message must not come out with the sealed bytes.
func TestContextEditOfSealed(t *testing.T) {
	a := answer("secret")
	a.Message = protocol.Seal(a.Message.(*protocol.AssistantMessage))
	c := store.NewContext(records(a, edit("e1", `"public"`)))
	got := string(c.Messages()[0].AppendJSON(nil))
	assert.Contains(t, got, "public")
	assert.NotContains(t, got, "secret")
	assert.Contains(t, got, `"model":"big"`)
	assert.Contains(t, string(a.Message.AppendJSON(nil)), "secret", "history stays")
}

// Slices that were handed out do not change when the context grows.
func TestContextHandsOut(t *testing.T) {
	c := store.NewContext(records(user("a")))
	before := c.Messages()
	c.Extend(protocol.Record{EntryMeta: protocol.EntryMeta{ID: "e2"}, Entry: user("b")})
	c.Extend(protocol.Record{EntryMeta: protocol.EntryMeta{ID: "e3"}, Entry: edit("e1", `"x"`)})
	assert.Equal(t, []string{"user: a"}, texts(before))
	assert.Equal(t, []string{"user: x", "user: b"}, texts(c.Messages()))
}

func TestContextOfSamples(t *testing.T) {
	l, _ := openSample(t, "session-compaction.jsonl")
	c, err := l.View().Context()
	require.NoError(t, err)
	sameMessages(t, l.View())
	var got []string
	for _, item := range c.Items() {
		got = append(got, item.EntryID+" "+item.Message.Role())
	}
	assert.Equal(t, []string{
		"3ccaf181 compactionSummary", "b6ade6e5 assistant", "587b2f67 toolResult", "74bf7b39 assistant", "e74e049a user", "8d7848bc assistant",
	}, got)

	l, _ = openSample(t, "session-retry-and-overflow.jsonl")
	c, err = l.View().Context()
	require.NoError(t, err)
	sameMessages(t, l.View())
	for _, m := range c.Messages() {
		if a, ok := m.(*protocol.AssistantMessage); ok {
			assert.NotEqual(t, protocol.StopError, a.StopReason, "failed attempts were edited out")
		}
	}

	l, _ = openSample(t, "session-tree.jsonl")
	for leaf, want := range map[string][]string{
		"e93d3850": {"user: Start over differently", "assistant: A fresh start."},
		"":         {},
	} {
		v, err := l.View().At(leaf)
		require.NoError(t, err)
		c, err := v.Context()
		require.NoError(t, err)
		sameMessages(t, v)
		assert.Equal(t, want, texts(c.Messages()))
	}
	v, err := l.View().At("8e620605")
	require.NoError(t, err)
	c, err = v.Context()
	require.NoError(t, err)
	sameMessages(t, v)
	got = texts(c.Messages())
	require.Len(t, got, 5)
	assert.Equal(t, "user: What is 1+1?", got[0])
	assert.Contains(t, got[2], "branch: The user explored")
	assert.Equal(t, "assistant: Continuing with option B in mind.", got[4])
}

// Building a context does not read what was compacted away.
func TestContextReadsOnlyItsPart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.jsonl")
	l := store.NewLog(store.OS{}, path, header(), options())
	defer l.Close()
	var kept string
	for i := range 50 {
		kept = add(t, l, user(fmt.Sprint("old ", i)))[0]
	}
	add(t, l, compaction("s", kept), user("new"))
	v := l.View()
	first, last := v.Refs()[0], v.Refs()[49]
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(make([]byte, last.Offset-first.Offset), first.Offset)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	_, err = v.Record(first.ID)
	require.ErrorIs(t, err, store.ErrChanged, "the damage is done")
	c, err := v.Context()
	require.NoError(t, err)
	sameMessages(t, v)
	assert.Equal(t, []string{"summary: s", "user: old 49", "user: new"}, texts(c.Messages()))
}

// TestMessages: clients get messages as they stand in the file, with what this
// version does not know of, unless they could not rely on them.
func TestMessages(t *testing.T) {
	const usage = `"usage":{"input":1,"output":2,"cacheRead":0,"cacheWrite":0,"totalTokens":3,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}`
	const from = `"api":"a","provider":"p","model":"m",` + usage + `,"stopReason":"stop"`
	for name, c := range map[string]struct{ stored, shown string }{
		"as it stands":      {`{"role":"user","content":[{"type":"text","text":"hi"}],"timestamp":1}`, ""},
		"an unknown member": {`{"role":"user","content":[{"type":"text","text":"hi"}],"mood":{"a":[1]},"timestamp":1}`, ""},
		"spaces":            {`{"role":"user" , "content": [{"type":"text","text":"hi"}], "timestamp":1}`, `{"role":"user" , "content": [{"type":"text","text":"hi"}], "timestamp":1}`},
		"an answer":         {`{"role":"assistant","content":[],` + from + `,"timestamp":1,"x":null}`, ""},
		"a result":          {`{"role":"toolResult","toolCallId":"c","toolName":"t","content":[],"isError":false,"timestamp":1,"y":1e2}`, ""},
		"content as text":   {`{"role":"user","content":"hi","timestamp":1,"x":1}`, `{"role":"user","content":[{"type":"text","text":"hi"}],"timestamp":1}`},
		"no time":           {`{"role":"user","content":[],"x":1}`, `{"role":"user","content":[],"timestamp":0}`},
		"half a character":  {`{"role":"user","content":[{"type":"text","text":"\ud800"}],"timestamp":1}`, `{"role":"user","content":[{"type":"text","text":"�"}],"timestamp":1}`},
		"no UTF-8":          {"{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"\xff\"}],\"timestamp\":1}", `{"role":"user","content":[{"type":"text","text":"�"}],"timestamp":1}`},
		"another role":      {`{"role":"weather","x":1}`, ""},
		"no cost": {`{"role":"assistant","content":[],"api":"a","provider":"p","model":"m","usage":{"input":1},"stopReason":"stop","timestamp":1,"x":1}`,
			`{"role":"assistant","content":[],"api":"a","provider":"p","model":"m","usage":{"input":1,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":0,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}},"stopReason":"stop","timestamp":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			l := openText(t, headLine, entryLine("message", "00000001", "", `"message":`+c.stored))
			shown, err := l.View().Messages()
			require.NoError(t, err)
			require.Len(t, shown, 1)
			if c.shown == "" {
				c.shown = c.stored
			}
			assert.Equal(t, c.shown, string(shown[0]))
			sameMessages(t, l.View())
		})
	}
}
