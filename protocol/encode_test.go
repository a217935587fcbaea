package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"pgregory.net/rapid"
)

func TestAppendString(t *testing.T) {
	for in, want := range map[string]string{
		"": `""`, "a<b>&c": `"a<b>&c"`, "\"\\\n\r\t\b\f\x00\x1f": `"\"\\\n\r\t\b\f\u0000\u001f"`,
		"é\u2028\u2029\x7f😀": "\"é\u2028\u2029\x7f😀\"", "a\xffb\xc3": "\"a\ufffdb\ufffd\"", "\ufffd": "\"\ufffd\"",
	} {
		require.Equal(t, want, string(AppendString(nil, in)), "%q", in)
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		var back string
		require.NoError(t, json.Unmarshal(AppendString(nil, a), &back))
		require.Equal(t, a, back)
		joined := AppendEscaped(AppendEscaped(nil, a), b)
		require.Equal(t, string(AppendEscaped(nil, a+b)), string(joined), "escaping is context-free")
	})
}

func TestAppendFloat(t *testing.T) {
	for _, f := range []float64{0, 1, -1, 0.1, 1e-6, 1e-7, 1.5e-9, 1e20, 1e21, 1e300, 0.00030000000000000003, 123456.789, math.MaxFloat64, math.SmallestNonzeroFloat64} {
		want, err := json.Marshal(f)
		require.NoError(t, err)
		require.Equal(t, string(want), string(AppendFloat(nil, f)))
	}
	require.Equal(t, "0", string(AppendFloat(nil, math.NaN())))
	require.Equal(t, "0", string(AppendFloat(nil, math.Inf(1))))
}

// TestAppendString_likeNode compares with JSON.stringify where node is there.
func TestAppendString_likeNode(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("no node to compare with")
	}
	var text strings.Builder
	for r := rune(0); r < 0x3000; r++ {
		text.WriteRune(r)
	}
	text.WriteString("😀\U0010FFFF")
	in := "const s=[];for(let i=0;i<0x3000;i++)s.push(String.fromCodePoint(i));s.push('😀',String.fromCodePoint(0x10ffff));process.stdout.write(JSON.stringify(s.join('')))"
	out, err := exec.Command(node, "-e", in).Output()
	require.NoError(t, err)
	require.Equal(t, string(out), string(AppendString(nil, text.String())))
}

// naive is the twin of Encoder: the message so far as plain Go values, encoded
// anew for every update.
type naive struct {
	frame  AssistantMessage
	blocks []map[string]any
	args   []string
}

func (n *naive) fold(u *MessageUpdate) {
	if u.Usage != nil {
		n.frame.Usage = *u.Usage
	}
	for len(n.blocks) <= u.Index {
		n.blocks = append(n.blocks, nil)
		n.args = append(n.args, "")
	}
	switch u.Step {
	case UpdateStart:
		switch u.Kind {
		case BlockText:
			n.blocks[u.Index] = map[string]any{"type": "text", "text": ""}
		case BlockThinking:
			n.blocks[u.Index] = map[string]any{"type": "thinking", "thinking": ""}
		case BlockToolCall:
			c := u.Block.(ToolCall)
			n.blocks[u.Index] = map[string]any{"type": "toolCall", "id": c.ID, "name": c.Name, "arguments": map[string]any{}}
		}
	case UpdateDelta:
		b := n.blocks[u.Index]
		switch u.Kind {
		case BlockText:
			b["text"] = b["text"].(string) + u.Delta
		case BlockThinking:
			b["thinking"] = b["thinking"].(string) + u.Delta
		case BlockToolCall:
			n.args[u.Index] += u.Delta
			var obj map[string]any
			json.Unmarshal(argsOf(n.args[u.Index]).AppendJSON(nil), &obj)
			b["arguments"] = obj
		}
	case UpdateEnd:
		var b map[string]any
		json.Unmarshal(u.Block.AppendJSON(nil), &b)
		n.blocks[u.Index] = b
	}
}

func (n *naive) message() map[string]any {
	var m map[string]any
	json.Unmarshal(n.frame.AppendJSON(nil), &m)
	list := []any{}
	for _, b := range n.blocks {
		raw, _ := json.Marshal(b)
		var copied any
		json.Unmarshal(raw, &copied)
		list = append(list, copied)
	}
	m["content"] = list
	return m
}

// drawUpdates makes a random stream of one message: blocks that overlap, open
// in index order.
func drawUpdates(t *rapid.T) []*MessageUpdate {
	type open struct {
		kind BlockKind
		text string
	}
	var updates []*MessageUpdate
	live := map[int]*open{}
	next := 0
	for range rapid.IntRange(1, 40).Draw(t, "steps") {
		switch rapid.IntRange(0, 4).Draw(t, "step") {
		case 0:
			kind := BlockKind(rapid.IntRange(0, 2).Draw(t, "kind"))
			u := &MessageUpdate{Step: UpdateStart, Kind: kind, Index: next}
			if kind == BlockToolCall {
				u.Block = ToolCall{ID: fmt.Sprint("c", next), Name: "bash", Arguments: json.RawMessage("{}")}
			}
			live[next] = &open{kind: kind}
			updates = append(updates, u)
			next++
		case 1:
			for i, o := range live {
				u := &MessageUpdate{Step: UpdateEnd, Kind: o.kind, Index: i}
				switch o.kind {
				case BlockText:
					u.Block = Text{Text: o.text}
				case BlockThinking:
					u.Block = Thinking{Thinking: o.text, Signature: "sig"}
				case BlockToolCall:
					u.Block = ToolCall{ID: fmt.Sprint("c", i), Name: "bash", Arguments: argsOf(o.text).AppendJSON(nil)}
				}
				updates = append(updates, u)
				delete(live, i)
				break
			}
		default:
			for i, o := range live {
				delta := rapid.StringN(1, 8, -1).Draw(t, "delta")
				if o.kind == BlockToolCall {
					delta = rapid.SampledFrom([]string{`{"a":"`, `x\n`, `"`, `,"b":1`, `}`}).Draw(t, "args")
				}
				o.text += delta
				u := &MessageUpdate{Step: UpdateDelta, Kind: o.kind, Index: i, Delta: delta}
				if rapid.IntRange(0, 5).Draw(t, "usage") == 0 {
					u.Usage = &Usage{Input: 10, Output: int64(len(o.text))}
				}
				updates = append(updates, u)
				break
			}
		}
	}
	return updates
}

func TestEncoder_cumulative(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gates, _ := DialectUnion.Gates()
		enc := NewEncoder(gates, "")
		frame := AssistantMessage{Content: Content{}, API: "a", Provider: "p", Model: "m\"", StopReason: StopStop, Timestamp: 5}
		n := naive{frame: frame}
		enc.AppendEvent(nil, MessageStart{Message: &frame, RunID: "1"})
		for _, u := range drawUpdates(t) {
			u.RunID = "1"
			n.fold(u)
			line := enc.AppendEvent(nil, u)
			require.True(t, utf8.Valid(line))
			require.Equal(t, 1, strings.Count(string(line), "\n"))
			var got map[string]any
			require.NoError(t, json.Unmarshal(line, &got), "%s", line)
			want := n.message()
			require.Equal(t, want, got["message"])
			step := got["assistantMessageEvent"].(map[string]any)
			require.Equal(t, want, step["partial"])
			require.Equal(t, "1", got["runId"])
			require.EqualValues(t, u.Index, step["contentIndex"])
			checkStep(t, u, step)
		}
	})
}

func checkStep(t *rapid.T, u *MessageUpdate, step map[string]any) {
	name := []string{"text", "thinking", "toolcall"}[u.Kind] + []string{"_start", "_delta", "_end"}[u.Step]
	require.Equal(t, name, step["type"])
	switch {
	case u.Step == UpdateDelta:
		require.Equal(t, u.Delta, step["delta"])
	case u.Step == UpdateEnd && u.Kind == BlockToolCall:
		require.NotNil(t, step["toolCall"])
	case u.Step == UpdateEnd:
		require.Contains(t, step, "content")
	}
}

// TestEncoder_deltas: folding the steps of a delta-only stream gives the same
// message as the cumulative stream ends with.
func TestEncoder_deltas(t *testing.T) {
	gates, _ := DialectPi1.Gates()
	enc := NewEncoder(gates, "")
	frame := AssistantMessage{Content: Content{}, StopReason: StopStop}
	var out []byte
	out = enc.AppendEvent(out, MessageStart{Message: &frame})
	usage := Usage{Input: 3, TotalTokens: 3}
	for _, u := range []*MessageUpdate{
		{Step: UpdateStart, Kind: BlockText},
		{Step: UpdateDelta, Kind: BlockText, Delta: "hi", Usage: &usage},
		{Step: UpdateEnd, Kind: BlockText, Block: Text{Text: "hi"}},
		{Step: UpdateStart, Kind: BlockToolCall, Index: 1, Block: ToolCall{ID: "c", Name: "ls"}},
		{Step: UpdateEnd, Kind: BlockToolCall, Index: 1, Block: ToolCall{ID: "c", Name: "ls", Arguments: json.RawMessage("{}")}},
	} {
		out = enc.AppendEvent(out, u)
	}
	want := `{"type":"message_start","message":{"role":"assistant","content":[],"api":"","provider":"","model":"","usage":U0,"stopReason":"pending","timestamp":0}}
{"type":"message_update","usage":U0,"assistantMessageEvent":{"type":"text_start","contentIndex":0}}
{"type":"message_update","usage":U3,"assistantMessageEvent":{"type":"text_delta","contentIndex":0,"delta":"hi"}}
{"type":"message_update","usage":U3,"assistantMessageEvent":{"type":"text_end","contentIndex":0,"content":"hi"}}
{"type":"message_update","usage":U3,"assistantMessageEvent":{"type":"toolcall_start","contentIndex":1,"id":"c","toolName":"ls"}}
{"type":"message_update","usage":U3,"assistantMessageEvent":{"type":"toolcall_end","contentIndex":1,"toolCall":{"type":"toolCall","id":"c","name":"ls","arguments":{}}}}
`
	want = strings.NewReplacer("U0", string(Usage{}.AppendJSON(nil)), "U3", string(usage.AppendJSON(nil))).Replace(want)
	require.Equal(t, want, string(out))
}

func TestEncoder_dialects(t *testing.T) {
	lines := func(d Dialect, ev Event, features ...string) string {
		gates, ok := d.Gates(features...)
		require.True(t, ok)
		return string(NewEncoder(gates, "").AppendEvent(nil, ev))
	}
	for _, c := range []struct {
		d        Dialect
		ev       Event
		features []string
		want     string
	}{
		{"", AgentStart{RunID: "7"}, nil, `{"type":"agent_start","runId":"7"}`},
		{"", AgentSettled{Outcome: "completed", RunID: "7"}, nil, `{"type":"agent_settled","aborted":false,"outcome":"completed","runId":"7"}`},
		{"", QueueChanged{2, []string{"a"}, []string{"b"}}, nil, `{"type":"queue_changed","pendingMessageCount":2}`},
		{"pi1", QueueChanged{2, []string{"a"}, []string{"b"}}, nil, `{"type":"queue_update","steering":["a"],"followUp":["b"]}`},
		{"", QueueChanged{2, []string{"a"}, []string{"b"}}, []string{"queueUpdate", "nonsense"}, `{"type":"queue_update","steering":["a"],"followUp":["b"]}`},
		{"", ExtensionError{"x", "tool_call", "boom"}, nil, `{"type":"extension_error","extensionPath":"x","event":"tool_call","error":"boom"}` + "\n" + `{"type":"hook_error","hookPath":"x","event":"tool_call","error":"boom"}`},
		{"s0", ExtensionError{"x", "e", "boom"}, nil, `{"type":"hook_error","hookPath":"x","event":"e","error":"boom"}`},
		{"s1", ExtensionError{"x", "e", "boom"}, nil, `{"type":"extension_error","extensionPath":"x","event":"e","error":"boom"}`},
		// The union tells of what begins by itself under both names, the newer inside the older.
		{"", AutoCompactionStart{"manual"}, nil, `{"type":"compaction_start","reason":"manual"}`},
		{"", AutoCompactionStart{"threshold"}, nil, `{"type":"auto_compaction_start","reason":"threshold"}` + "\n" + `{"type":"compaction_start","reason":"threshold"}`},
		{"", AutoCompactionEnd{Reason: "overflow", Aborted: true}, nil, `{"type":"compaction_end","reason":"overflow","aborted":true,"willRetry":false}` + "\n" + `{"type":"auto_compaction_end","result":null,"aborted":true,"willRetry":false}`},
		{"", AutoCompactionEnd{Reason: "manual", ErrorMessage: "no"}, nil, `{"type":"compaction_end","reason":"manual","aborted":false,"willRetry":false,"errorMessage":"no"}`},
		{"s0", AutoCompactionStart{"manual"}, nil, ``},
		{"s0", AutoCompactionStart{"overflow"}, nil, `{"type":"auto_compaction_start","reason":"overflow"}`},
		{"s3", AutoCompactionEnd{Reason: "threshold", Aborted: true}, nil, `{"type":"auto_compaction_end","result":null,"aborted":true,"willRetry":false}`},
		{"s4", AutoCompactionEnd{Reason: "manual"}, nil, ``},
		{"s4", AutoCompactionEnd{Reason: "manual", Aborted: true}, []string{"compactionEvents"}, `{"type":"compaction_end","reason":"manual","result":null,"aborted":true,"willRetry":false}`},
		{"pi1", AutoCompactionStart{"threshold"}, nil, `{"type":"compaction_start","reason":"threshold"}`},
		{"pi1", AutoCompactionEnd{Reason: "manual", ErrorMessage: "no"}, nil, `{"type":"compaction_end","reason":"manual","aborted":false,"willRetry":false,"errorMessage":"no"}`},
		{"", BashExecutionUpdate{ID: json.RawMessage("5"), Delta: "x"}, nil, ``},
		{"pi1", BashExecutionUpdate{ID: json.RawMessage("5"), Delta: "x"}, nil, `{"type":"bash_execution_update","id":5,"delta":"x"}`},
		{"s0", ThinkingLevelChanged{"high"}, nil, ``},
		{"s2", SessionInfoChanged{"n"}, nil, ``},
		{"", ThinkingLevelChanged{"high"}, nil, `{"type":"thinking_level_changed","level":"high"}`},
		{"", SessionInfoChanged{"n"}, nil, `{"type":"session_info_changed","name":"n"}`},
		{"pi1", ThinkingLevelChanged{"high"}, nil, `{"type":"thinking_level_changed","level":"high"}`},
		{"", SessionFailed{"gone"}, nil, `{"type":"session_failed","error":"gone"}`},
		{"", AutoRetryEnd{Success: true, Attempt: 2}, nil, `{"type":"auto_retry_end","success":true,"attempt":2}`},
		{"", SessionChanged{Reason: "new", SessionID: "id"}, nil, `{"type":"session_changed","reason":"new","messageCount":0,"leafId":null,"sessionId":"id"}`},
	} {
		require.Equal(t, c.want, strings.TrimSuffix(lines(c.d, c.ev, c.features...), "\n"), "%s %T", c.d, c.ev)
	}
	_, ok := Dialect("s9").Gates()
	require.False(t, ok)
}

func TestEncoder_tags(t *testing.T) {
	gates, _ := DialectUnion.Gates("seq")
	enc := NewEncoder(gates, "s2")
	out := enc.AppendEvent(nil, TurnStart{"1"})
	out = enc.AppendResponse(out, Response{ID: json.RawMessage(`"x"`), Command: "get_state"})
	out = enc.AppendEvent(out, SessionChanged{Reason: "new", SessionID: "durable", LeafID: "ab"})
	require.Equal(t, `{"type":"turn_start","runId":"1","sessionId":"s2","seq":1}
{"id":"x","type":"response","command":"get_state","success":true,"sessionId":"s2","seq":2}
{"type":"session_changed","reason":"new","messageCount":0,"leafId":"ab","durableId":"durable","sessionId":"s2","seq":3}
`, string(out))
}

func TestResponse(t *testing.T) {
	for _, c := range []struct {
		r    Response
		want string
	}{
		{Response{Command: "abort"}, `{"type":"response","command":"abort","success":true}`},
		{Response{ID: json.RawMessage(`null`), Command: "abort"}, `{"id":null,"type":"response","command":"abort","success":true}`},
		{Response{Command: "cycle_model", Data: Null{}}, `{"type":"response","command":"cycle_model","success":true,"data":null}`},
		{Response{Command: "prompt", Data: Started}, `{"type":"response","command":"prompt","success":true,"data":{"disposition":"started"}}`},
		{Response{Command: "x", Err: CodeUnknownCommand.Errorf("Unknown command: %s", "x")}, `{"type":"response","command":"x","success":false,"error":"Unknown command: x","code":"unknown_command"}`},
	} {
		require.Equal(t, c.want, string(c.r.AppendJSON(nil)))
	}
}

// TestEncodings compares every hand-written encoding with encoding/json on the
// same struct, so that the two cannot drift apart.
func TestEncodings(t *testing.T) {
	code := 3
	name := "n"
	for _, v := range []Appender{
		&SessionState{}, &SessionState{Model: &Model{ID: "m", Input: []string{"text"}}, SessionName: &name, WaitingFor: []string{"x"}},
		Usage{Input: 1, Cost: Cost{Total: 0.5}}, Disposition{"queued"}, Cancelled{true}, ToolResult{Content: TextContent("x")},
		ModelCost{Input: 1}, Header{Version: 3, ID: "i", Timestamp: "t", Cwd: "/"},
		&UserMessage{Content: TextContent("a\nb"), Timestamp: 1},
		&AssistantMessage{Content: Content{Thinking{"t", "sig", true}, ToolCall{"i", "n", json.RawMessage(`{"a":1}`), "ts"}}, ErrorMessage: "e", ResponseID: "r"},
		&ToolResultMessage{ToolCallID: "c", Content: Content{Image{"d", "image/png"}}, Details: json.RawMessage(`{}`), IsError: true},
		&BashExecutionMessage{Command: "c", ExitCode: &code, FullOutputPath: "/p", ExcludeFromContext: true},
		&CustomMessage{CustomType: "t", Content: TextContent("x"), Display: true, Details: json.RawMessage(`1`)},
		&BranchSummaryMessage{"s", "f", 1}, &CompactionSummaryMessage{"s", 2, 3},
		&SessionSummary{Path: "/p", ID: "i", Cwd: "/", Name: "n", ParentSessionPath: "/q", Created: "c", Modified: "m", MessageCount: 2, FirstMessage: "f", AllMessagesText: "a"},
		&SessionSummary{}, &TreeEntry{ID: "i", Type: "t", Timestamp: "s", Label: "l", Preview: "p"}, &TreeEntry{ParentID: &name},
	} {
		plain := withoutMethods(t, reflect.ValueOf(v))
		var got, want map[string]any
		require.NoError(t, json.Unmarshal(v.AppendJSON(nil), &got))
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
				more, at = x.long.AppendPart(nil, at)
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

func TestSeal(t *testing.T) {
	m := Seal(&AssistantMessage{Content: TextContent("a"), StopReason: StopStop})
	first := string(m.AppendJSON(nil))
	require.Equal(t, len(first), EncodedSize(m))
	m.StopReason = StopError
	require.Equal(t, first, string(m.AppendJSON(nil)), "a sealed message keeps its bytes")
	require.Contains(t, string(Seal(m).AppendJSON(nil)), `"error"`, "sealing again counts")
}

func TestDecodeMessage(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"role":"user","content":"hi","timestamp":1,"attachments":[]}`, `{"role":"user","content":[{"type":"text","text":"hi"}],"timestamp":1,"attachments":[]}`},
		{`{"role":"hookMessage","customType":"t","content":"x","display":true,"timestamp":1}`, `{"role":"custom","customType":"t","content":[{"type":"text","text":"x"}],"display":true,"timestamp":1}`},
		{`{"role":"system","content":"","sections":{"a":null}}`, `{"role":"system","content":"","sections":{"a":null}}`},
		{`{"role":"assistant","content":7}`, `{"role":"assistant","content":7}`},
		{`{"role":"assistant","content":[{"type":"toolCall","id":"i","name":"n"}],"api":"","provider":"","model":"","stopReason":"","timestamp":0}`,
			`{"role":"assistant","content":[{"type":"toolCall","id":"i","name":"n","arguments":{}}],"api":"","provider":"","model":"","usage":` + string(Usage{}.AppendJSON(nil)) + `,"stopReason":"","timestamp":0}`},
		{`{"role":"user","content":[{"type":"audio","x":1}],"timestamp":0}`, `{"role":"user","content":[{"type":"audio","x":1}],"timestamp":0}`},
	} {
		m, err := DecodeMessage([]byte(c.in))
		require.NoError(t, err, c.in)
		require.Equal(t, c.want, string(m.AppendJSON(nil)))
	}
	_, err := DecodeMessage([]byte(`{"content":"x"}`))
	require.Error(t, err)
}

func TestModel(t *testing.T) {
	word := "low"
	m := &Model{Reasoning: true, Cost: ModelCost{Input: 3, Output: 15}, Settings: &ModelExtra{
		ThinkingLevels: []ThinkingLevel{ThinkingXHigh},
		ThinkingValues: map[string]*string{"minimal": nil, "low": &word},
		Tiers:          []CostTier{{InputAbove: 100, ModelCost: ModelCost{Input: 6, Output: 30}}},
	}}
	require.Equal(t, []ThinkingLevel{"off", "low", "medium", "high", "xhigh"}, m.Levels())
	for in, want := range map[ThinkingLevel]ThinkingLevel{"off": "off", "minimal": "low", "high": "high", "xhigh": "xhigh", "max": "xhigh"} {
		require.Equal(t, want, m.Clamp(in), in)
	}
	require.Equal(t, ThinkingOff, (*Model)(nil).Clamp("high"))
	require.Equal(t, ThinkingHigh, (&Model{Reasoning: true}).Clamp("xhigh"))

	u := m.Price(Usage{Input: 100, Output: 10})
	require.EqualValues(t, 110, u.TotalTokens)
	require.Equal(t, 0.00030000000000000003, u.Cost.Input, "as JavaScript multiplies")
	require.InDelta(t, 0.0006, m.Price(Usage{Input: 100, CacheRead: 1}).Cost.Input, 1e-9, "the tier counts cached input")

	c := &Catalog{Models: []*Model{{ID: "a", Provider: "p"}, {ID: "b", Provider: "q"}}, Keys: map[string]bool{"q": true}}
	require.Equal(t, "b", c.Find("q", "b").ID)
	require.Nil(t, c.Find("q", "a"))
	require.Len(t, c.Available(), 1)
	require.False(t, (*Catalog)(nil).HasKey("p"))
}

func TestAllocations(t *testing.T) {
	gates, _ := DialectUnion.Gates()
	for _, c := range []struct {
		name  string
		gates Gates
		max   float64
	}{{"cumulative", gates, 0}, {"delta-only", func() Gates { g, _ := DialectPi1.Gates(); return g }(), 0}} {
		enc := NewEncoder(c.gates, "")
		enc.AppendEvent(nil, MessageStart{Message: &AssistantMessage{}})
		enc.AppendEvent(nil, &MessageUpdate{Step: UpdateStart})
		buf := make([]byte, 0, 1<<20)
		u := &MessageUpdate{Step: UpdateDelta, Delta: "some twenty bytes of it", RunID: "1"}
		n := testing.AllocsPerRun(500, func() { buf = enc.AppendEvent(buf[:0], u) })
		require.LessOrEqual(t, n, c.max, c.name)
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, d := range []Dialect{DialectUnion, DialectPi1} {
		for _, size := range []int{0, 1_000, 50_000} {
			b.Run(fmt.Sprintf("%s/%d", d, size), func(b *testing.B) {
				gates, _ := d.Gates()
				enc := NewEncoder(gates, "")
				enc.AppendEvent(nil, MessageStart{Message: &AssistantMessage{}})
				enc.AppendEvent(nil, &MessageUpdate{Step: UpdateStart})
				enc.AppendEvent(nil, &MessageUpdate{Step: UpdateDelta, Delta: strings.Repeat("x", size)})
				u := &MessageUpdate{Step: UpdateDelta, RunID: "1"}
				var buf []byte
				b.ReportAllocs()
				for b.Loop() {
					buf = enc.AppendEvent(buf[:0], u)
				}
				b.SetBytes(int64(len(buf)))
			})
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, name := range []string{"get_state", "prompt"} {
		b.Run(name, func(b *testing.B) {
			line := []byte(`{"id":"req_1","type":"` + name + `","message":"tidy up the code, please"}`)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Decode(line); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestNulls: what there is none of is left out, as by every pi, but in the
// dialects whose documents have a null.
func TestNulls(t *testing.T) {
	for _, c := range []struct {
		value Appender
		want  []string // members that are null
	}{
		{&SessionState{}, []string{"model"}},
		{&SessionState{Nulls: true}, []string{"model", "sessionFile", "sessionName"}},
		{SessionStats{}, nil},
		{SessionStats{Nulls: true}, []string{"sessionFile"}},
		{SessionStats{ContextUsage: &WindowUsage{}}, []string{"contextUsage.tokens", "contextUsage.percent"}},
		{TextResult{}, nil},
		{TextResult{Null: true}, []string{"text"}},
		{JSON(BashResult{}), nil},
	} {
		var nulls []string
		all := gjson.ParseBytes(c.value.AppendJSON(nil))
		for _, path := range []string{"model", "sessionFile", "sessionName", "contextUsage", "contextUsage.tokens", "contextUsage.percent", "text", "exitCode", "fullOutputPath"} {
			if v := all.Get(path); v.Exists() && v.Type == gjson.Null {
				nulls = append(nulls, path)
			}
		}
		require.Equal(t, c.want, nulls, "%T", c.value)
	}
}
