package protocol

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// TestEncodings compares what is written, by hand or by tags, with encoding/json on
// the same struct, so that they cannot drift apart.
func TestEncodings(t *testing.T) {
	code := 3
	name := "n"
	for _, v := range []any{
		&SessionState{}, &SessionState{Model: &Model{ID: "m", Input: []string{"text"}}, SessionName: &name, WaitingFor: []string{"x"}},
		Usage{Input: 1, Cost: Cost{Total: 0.5}}, Disposition{"queued"}, Cancelled{true}, ToolResult{Content: TextContent("x")},
		ModelCost{Input: 1}, Header{Version: 3, ID: "i", Timestamp: "t", Cwd: "/"},
		&UserMessage{Content: TextContent("a\nb"), Timestamp: 1},
		&AssistantMessage{Content: Content{Thinking{"t", "sig", true}, ToolCall{"i", "n", json.RawMessage(`{"a":1}`), "ts"}}, ErrorMessage: "e", ResponseID: "r"},
		&ToolResultMessage{ToolCallID: "c", Content: Content{Image{"d", "image/png"}}, Details: json.RawMessage(`{}`), IsError: true},
		&BashExecutionMessage{Command: "c", ExitCode: &code, FullOutputPath: "/p", ExcludeFromContext: true},
		&CustomMessage{CustomType: "t", Content: TextContent("x"), Display: true, Details: json.RawMessage(`1`)},
		&BranchSummaryMessage{"s", "f", 1}, &CompactionSummaryMessage{"s", 2, 3},
		&SessionSummary{Path: "/p", ID: "i", Cwd: "/", Name: "n", ParentSessionPath: "/q", Created: "c", Modified: "m", MessageCount: 2, FirstMessage: "f", AllMessagesText: new("a")},
		&SessionSummary{}, &TreeEntry{ID: "i", Type: "t", Timestamp: "s", Label: "l", Preview: "p"}, &TreeEntry{ParentID: &name},
	} {
		plain := withoutMethods(t, reflect.ValueOf(v))
		var got, want map[string]any
		require.NoError(t, json.Unmarshal(AppendValue(nil, v), &got))
		require.NoError(t, json.Unmarshal(plain, &want))
		delete(got, "role")
		if h, ok := v.(Header); ok {
			require.Equal(t, "session", got["type"])
			delete(got, "type")
			_ = h
		}
		for k, x := range want {
			if x == nil && got[k] == nil {
				got[k] = nil // null and absent are the same to a client
			}
		}
		if w, ok := want["waitingFor"]; ok && w == nil {
			want["waitingFor"] = []any{}
		}
		require.Equal(t, want, got, "%T", v)
	}
}

// TestLists: a list in pieces is the text that encoding/json makes of it.
func TestLists(t *testing.T) {
	leaf := "l"
	for _, n := range []int{0, 1, 3, 5000} {
		var sessions SessionList
		entries := EntryList{LeafID: &leaf, HasMore: true}
		for i := range n {
			sessions.Sessions = append(sessions.Sessions, SessionSummary{Path: "/p", MessageCount: i, FirstMessage: "the <first>\n"})
			entries.Entries = append(entries.Entries, json.RawMessage(`{"type":"message"}`))
		}
		if n == 0 {
			sessions.Sessions, entries.Entries, entries.LeafID = []SessionSummary{}, []json.RawMessage{}, nil
		}
		for _, x := range []struct {
			plain any
			long  Pieces
		}{{sessions, sessions.Long()}, {entries, entries.Long()}} {
			want, err := json.Marshal(x.plain)
			require.NoError(t, err)
			var got []byte
			pieces := 0
			for at := 0; ; {
				var more []byte
				more, at = x.long.AppendPart(nil, at, "")
				require.Less(t, len(more), pieceSize+200)
				got = append(got, more...)
				if pieces++; at == 0 {
					break
				}
			}
			require.JSONEq(t, string(want), string(got))
			require.Equal(t, got, x.long.AppendJSON(nil))
			require.LessOrEqual(t, pieces, len(got)/pieceSize+1)
			require.True(t, len(got) < pieceSize || pieces > 1)
		}
	}
}

// TestTrees: a tree in pieces is the text that encoding/json makes of it, and a
// tree as deep as a long session is written at all.
func TestTrees(t *testing.T) {
	leaf := "l"
	node := func(id string, children ...TreeNode) TreeNode {
		return TreeNode{TreeEntry{ID: id, ParentID: &leaf, Type: "message", Label: "l<" + id, Preview: id}, append([]TreeNode{}, children...)}
	}
	for _, tree := range []SessionTree{
		{Nodes: []TreeNode{}}, {LeafID: &leaf, Nodes: []TreeNode{node("1")}},
		{Nodes: []TreeNode{node("1", node("2"), node("3", node("4"), node("5", node("6")), node("7"))), node("8"), node("9", node("10"))}},
	} {
		want, err := json.Marshal(tree)
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(tree.Long().AppendJSON(nil)))
	}
	deep := []TreeNode{node("0")}
	const depth = 100_000
	for range depth {
		deep = []TreeNode{{TreeEntry{ID: "x"}, deep}}
	}
	text := SessionTree{Nodes: deep}.Long().AppendJSON(nil)
	require.Equal(t, depth+1, bytes.Count(text, []byte(`"children":[`)))
	require.True(t, bytes.HasSuffix(text, []byte(strings.Repeat("]}", depth+2))))
}

// withoutMethods encodes a struct by its tags alone.
func withoutMethods(t *testing.T, v reflect.Value) []byte {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	var fields []reflect.StructField
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() {
			fields = append(fields, f)
		}
	}
	bare := reflect.New(reflect.StructOf(fields)).Elem()
	for _, f := range fields {
		bare.FieldByName(f.Name).Set(v.FieldByName(f.Name))
	}
	out, err := json.Marshal(bare.Interface())
	require.NoError(t, err)
	return out
}

// TestNulls: what there is none of is left out, as by every pi, but in the
// dialects whose documents have a null.
func TestNulls(t *testing.T) {
	for _, c := range []struct {
		value   any
		dialect Dialect
		want    []string // members that are null
	}{
		{&SessionState{}, DialectUnion, []string{"model"}},
		{&SessionState{}, DialectS4, []string{"model", "sessionFile", "sessionName"}},
		{SessionStats{}, DialectUnion, nil},
		{SessionStats{}, DialectS4, []string{"sessionFile"}},
		{SessionStats{ContextUsage: &WindowUsage{}}, DialectPi1, []string{"contextUsage.tokens", "contextUsage.percent"}},
		{TextResult{}, DialectPi1, nil},
		{TextResult{}, DialectUnion, []string{"text"}},
		{OpenedSession{State: &SessionState{}}, DialectS4, []string{"state.model", "state.sessionFile", "state.sessionName"}},
		{BashResult{}, DialectS4, nil},
	} {
		var nulls []string
		all := gjson.ParseBytes(AppendAs(nil, c.value, c.dialect))
		for _, path := range []string{"model", "sessionFile", "sessionName", "contextUsage", "contextUsage.tokens", "contextUsage.percent", "text", "exitCode",
			"fullOutputPath", "state.model", "state.sessionFile", "state.sessionName"} {
			if v := all.Get(path); v.Exists() && v.Type == gjson.Null {
				nulls = append(nulls, path)
			}
		}
		require.Equal(t, c.want, nulls, "%T in %s", c.value, c.dialect)
	}
}

// TestSizeOf: no value is much larger on the wire than it says.
func TestSizeOf(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for _, v := range []any{
		&SessionState{}, &SessionState{Model: &Model{ID: long}, SessionName: &long, WaitingFor: []string{long, long}},
		ModelList{Models: []*Model{{Name: long}, {BaseURL: long}}}, QueueContent{Steering: []string{long}, FollowUp: []string{long}},
		ToolList{AllTools: []ToolInfo{{Name: "n", Parameters: json.RawMessage(`"` + long + `"`)}}}, BashResult{Output: long}, TextResult{Text: &long},
		CommandList{Commands: []SlashCommand{{Name: long, SourceInfo: &SourceInfo{Path: long}}}}, Started, Null{}, nil,
		&UserMessage{Content: TextContent(long)}, Seal(&UserMessage{Content: TextContent(long)}), EntryList{Entries: []json.RawMessage{json.RawMessage(`"` + long + `"`)}}.Long(),
	} {
		require.InDelta(t, len(AppendValue(nil, v)), SizeOf(v), 250, "%T", v)
	}
}

func TestModelOfState(t *testing.T) {
	one, other := &Model{ID: "one", Input: []string{}}, &Model{ID: "other", Input: []string{}}
	for _, m := range []*Model{one, one, other, nil, one} {
		want := `"model":null`
		if m != nil {
			want = `"model":` + string(AppendValue(nil, m))
		}
		require.Contains(t, string(AppendValue(nil, &SessionState{Model: m})), want, "the text that was kept is the one of another model")
	}
}
