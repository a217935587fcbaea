package pi

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"troupe/protocol"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// naive is the twin of Encoder: the message so far as plain Go values, encoded
// anew for every update.
type naive struct {
	frame  protocol.AssistantMessage
	blocks []map[string]any
	args   []string
}

func (n *naive) fold(u *protocol.MessageUpdate) {
	if u.Usage != nil {
		n.frame.Usage = *u.Usage
	}
	for len(n.blocks) <= u.Index {
		n.blocks = append(n.blocks, nil)
		n.args = append(n.args, "")
	}
	switch u.Step {
	case protocol.UpdateStart:
		switch u.Kind {
		case protocol.BlockText:
			n.blocks[u.Index] = map[string]any{"type": "text", "text": ""}
		case protocol.BlockThinking:
			n.blocks[u.Index] = map[string]any{"type": "thinking", "thinking": ""}
		case protocol.BlockToolCall:
			c := u.Block.(protocol.ToolCall)
			n.blocks[u.Index] = map[string]any{"type": "toolCall", "id": c.ID, "name": c.Name, "arguments": map[string]any{}}
		}
	case protocol.UpdateDelta:
		b := n.blocks[u.Index]
		switch u.Kind {
		case protocol.BlockText:
			b["text"] = b["text"].(string) + u.Delta
		case protocol.BlockThinking:
			b["thinking"] = b["thinking"].(string) + u.Delta
		case protocol.BlockToolCall:
			n.args[u.Index] += u.Delta
			var obj map[string]any
			json.Unmarshal(soFar(n.args[u.Index]), &obj)
			b["arguments"] = obj
		}
	case protocol.UpdateEnd:
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
func drawUpdates(t *rapid.T) []*protocol.MessageUpdate {
	type open struct {
		kind protocol.BlockKind
		text string
	}
	var updates []*protocol.MessageUpdate
	live := map[int]*open{}
	next := 0
	for range rapid.IntRange(1, 40).Draw(t, "steps") {
		switch rapid.IntRange(0, 4).Draw(t, "step") {
		case 0:
			kind := protocol.BlockKind(rapid.IntRange(0, 2).Draw(t, "kind"))
			u := &protocol.MessageUpdate{Step: protocol.UpdateStart, Kind: kind, Index: next}
			if kind == protocol.BlockToolCall {
				u.Block = protocol.ToolCall{ID: fmt.Sprint("c", next), Name: "bash", Arguments: json.RawMessage("{}")}
			}
			live[next] = &open{kind: kind}
			updates = append(updates, u)
			next++
		case 1:
			for i, o := range live {
				u := &protocol.MessageUpdate{Step: protocol.UpdateEnd, Kind: o.kind, Index: i}
				switch o.kind {
				case protocol.BlockText:
					u.Block = protocol.Text{Text: o.text}
				case protocol.BlockThinking:
					u.Block = protocol.Thinking{Thinking: o.text, Signature: "sig"}
				case protocol.BlockToolCall:
					u.Block = protocol.ToolCall{ID: fmt.Sprint("c", i), Name: "bash", Arguments: soFar(o.text)}
				}
				updates = append(updates, u)
				delete(live, i)
				break
			}
		default:
			for i, o := range live {
				delta := rapid.StringN(1, 8, -1).Draw(t, "delta")
				if o.kind == protocol.BlockToolCall {
					delta = rapid.SampledFrom([]string{`{"a":"`, `x\n`, `"`, `,"b":1`, `}`}).Draw(t, "args")
				}
				o.text += delta
				u := &protocol.MessageUpdate{Step: protocol.UpdateDelta, Kind: o.kind, Index: i, Delta: delta}
				if rapid.IntRange(0, 5).Draw(t, "usage") == 0 {
					u.Usage = &protocol.Usage{Input: 10, Output: int64(len(o.text))}
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
		wire, _, _ := protocol.DialectUnion.Open()
		enc := NewEncoder(wire, "")
		frame := protocol.AssistantMessage{Content: protocol.Content{}, API: "a", Provider: "p", Model: "m\"", StopReason: protocol.StopStop, Timestamp: 5}
		n := naive{frame: frame}
		enc.AppendEvent(nil, protocol.MessageStart{Message: &frame, RunID: "1"}, 0)
		for _, u := range drawUpdates(t) {
			u.RunID = "1"
			n.fold(u)
			line := enc.AppendEvent(nil, u, 0)
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

func checkStep(t *rapid.T, u *protocol.MessageUpdate, step map[string]any) {
	name := []string{"text", "thinking", "toolcall"}[u.Kind] + []string{"_start", "_delta", "_end"}[u.Step]
	require.Equal(t, name, step["type"])
	switch {
	case u.Step == protocol.UpdateDelta:
		require.Equal(t, u.Delta, step["delta"])
	case u.Step == protocol.UpdateEnd && u.Kind == protocol.BlockToolCall:
		require.NotNil(t, step["toolCall"])
	case u.Step == protocol.UpdateEnd:
		require.Contains(t, step, "content")
	}
}

// TestEncoder_deltas: folding the steps of a delta-only stream gives the same
// message as the cumulative stream ends with.
func TestEncoder_deltas(t *testing.T) {
	wire, _, _ := protocol.DialectPi1.Open()
	enc := NewEncoder(wire, "")
	frame := protocol.AssistantMessage{Content: protocol.Content{}, StopReason: protocol.StopStop}
	var out []byte
	out = enc.AppendEvent(out, protocol.MessageStart{Message: &frame}, 0)
	usage := protocol.Usage{Input: 3, TotalTokens: 3}
	for _, u := range []*protocol.MessageUpdate{
		{Step: protocol.UpdateStart, Kind: protocol.BlockText},
		{Step: protocol.UpdateDelta, Kind: protocol.BlockText, Delta: "hi", Usage: &usage},
		{Step: protocol.UpdateEnd, Kind: protocol.BlockText, Block: protocol.Text{Text: "hi"}},
		{Step: protocol.UpdateStart, Kind: protocol.BlockToolCall, Index: 1, Block: protocol.ToolCall{ID: "c", Name: "ls"}},
		{Step: protocol.UpdateEnd, Kind: protocol.BlockToolCall, Index: 1, Block: protocol.ToolCall{ID: "c", Name: "ls", Arguments: json.RawMessage("{}")}},
	} {
		out = enc.AppendEvent(out, u, 0)
	}
	want := `{"type":"message_start","message":{"role":"assistant","content":[],"api":"","provider":"","model":"","usage":U0,"stopReason":"pending","timestamp":0}}
{"type":"message_update","usage":U0,"assistantMessageEvent":{"type":"text_start","contentIndex":0}}
{"type":"message_update","usage":U3,"assistantMessageEvent":{"type":"text_delta","contentIndex":0,"delta":"hi"}}
{"type":"message_update","usage":U3,"assistantMessageEvent":{"type":"text_end","contentIndex":0,"content":"hi"}}
{"type":"message_update","usage":U3,"assistantMessageEvent":{"type":"toolcall_start","contentIndex":1,"id":"c","toolName":"ls"}}
{"type":"message_update","usage":U3,"assistantMessageEvent":{"type":"toolcall_end","contentIndex":1,"toolCall":{"type":"toolCall","id":"c","name":"ls","arguments":{}}}}
`
	want = strings.NewReplacer("U0", string(protocol.AppendValue(nil, protocol.Usage{})), "U3", string(protocol.AppendValue(nil, usage))).Replace(want)
	require.Equal(t, want, string(out))
}

func TestEncoder_dialects(t *testing.T) {
	lines := func(d protocol.Dialect, ev protocol.Event, features ...string) string {
		wire, _, ok := d.Open(features...)
		require.True(t, ok)
		return string(NewEncoder(wire, "").AppendEvent(nil, ev, 0))
	}
	for _, c := range []struct {
		d        protocol.Dialect
		ev       protocol.Event
		features []string
		want     string
	}{
		{"", protocol.AgentStart{RunID: "7"}, nil, `{"type":"agent_start","runId":"7"}`},
		{"", protocol.AgentSettled{Outcome: "completed", RunID: "7"}, nil, `{"type":"agent_settled","aborted":false,"outcome":"completed","runId":"7"}`},
		{"", protocol.QueueChanged{PendingMessageCount: 2, Steering: []string{"a"}, FollowUp: []string{"b"}}, nil, `{"type":"queue_changed","pendingMessageCount":2}`},
		{"pi1", protocol.QueueChanged{PendingMessageCount: 2, Steering: []string{"a"}, FollowUp: []string{"b"}}, nil, `{"type":"queue_update","steering":["a"],"followUp":["b"]}`},
		{"", protocol.QueueChanged{PendingMessageCount: 2, Steering: []string{"a"}, FollowUp: []string{"b"}}, []string{"queueUpdate", "nonsense"}, `{"type":"queue_update","steering":["a"],"followUp":["b"]}`},
		{"", protocol.ExtensionError{ExtensionPath: "x", Event: "tool_call", Error: "boom"}, nil, `{"type":"extension_error","extensionPath":"x","event":"tool_call","error":"boom"}` + "\n" + `{"type":"hook_error","hookPath":"x","event":"tool_call","error":"boom"}`},
		{"s0", protocol.ExtensionError{ExtensionPath: "x", Event: "e", Error: "boom"}, nil, `{"type":"hook_error","hookPath":"x","event":"e","error":"boom"}`},
		{"s1", protocol.ExtensionError{ExtensionPath: "x", Event: "e", Error: "boom"}, nil, `{"type":"extension_error","extensionPath":"x","event":"e","error":"boom"}`},
		// The union tells of what begins by itself under both names, the newer inside the older.
		{"", protocol.AutoCompactionStart{Reason: "manual"}, nil, `{"type":"compaction_start","reason":"manual"}`},
		{"", protocol.AutoCompactionStart{Reason: "threshold"}, nil, `{"type":"auto_compaction_start","reason":"threshold"}` + "\n" + `{"type":"compaction_start","reason":"threshold"}`},
		{"", protocol.AutoCompactionEnd{Reason: "overflow", Aborted: true}, nil, `{"type":"compaction_end","reason":"overflow","aborted":true,"willRetry":false}` + "\n" + `{"type":"auto_compaction_end","result":null,"aborted":true,"willRetry":false}`},
		{"", protocol.AutoCompactionEnd{Reason: "manual", ErrorMessage: "no"}, nil, `{"type":"compaction_end","reason":"manual","aborted":false,"willRetry":false,"errorMessage":"no"}`},
		{"s0", protocol.AutoCompactionStart{Reason: "manual"}, nil, ``},
		{"s0", protocol.AutoCompactionStart{Reason: "overflow"}, nil, `{"type":"auto_compaction_start","reason":"overflow"}`},
		{"s3", protocol.AutoCompactionEnd{Reason: "threshold", Aborted: true}, nil, `{"type":"auto_compaction_end","result":null,"aborted":true,"willRetry":false}`},
		{"s4", protocol.AutoCompactionEnd{Reason: "manual"}, nil, ``},
		{"s4", protocol.AutoCompactionEnd{Reason: "manual", Aborted: true}, []string{"compactionEvents"}, `{"type":"compaction_end","reason":"manual","result":null,"aborted":true,"willRetry":false}`},
		{"pi1", protocol.AutoCompactionStart{Reason: "threshold"}, nil, `{"type":"compaction_start","reason":"threshold"}`},
		{"pi1", protocol.AutoCompactionEnd{Reason: "manual", ErrorMessage: "no"}, nil, `{"type":"compaction_end","reason":"manual","aborted":false,"willRetry":false,"errorMessage":"no"}`},
		{"", protocol.BashExecutionUpdate{ID: json.RawMessage("5"), Delta: "x"}, nil, ``},
		{"pi1", protocol.BashExecutionUpdate{ID: json.RawMessage("5"), Delta: "x"}, nil, `{"type":"bash_execution_update","id":5,"delta":"x"}`},
		{"s0", protocol.ThinkingLevelChanged{Level: "high"}, nil, ``},
		{"s2", protocol.SessionInfoChanged{Name: "n"}, nil, ``},
		{"", protocol.ThinkingLevelChanged{Level: "high"}, nil, `{"type":"thinking_level_changed","level":"high"}`},
		{"", protocol.SessionInfoChanged{Name: "n"}, nil, `{"type":"session_info_changed","name":"n"}`},
		{"pi1", protocol.ThinkingLevelChanged{Level: "high"}, nil, `{"type":"thinking_level_changed","level":"high"}`},
		{"", protocol.SessionFailed{Error: "gone"}, nil, `{"type":"session_failed","error":"gone"}`},
		{"", protocol.AutoRetryEnd{Success: true, Attempt: 2}, nil, `{"type":"auto_retry_end","success":true,"attempt":2}`},
		{"", protocol.SessionChanged{Reason: "new", SessionID: "id"}, nil, `{"type":"session_changed","reason":"new","sessionId":"id","messageCount":0,"leafId":null}`},
	} {
		require.Equal(t, c.want, strings.TrimSuffix(lines(c.d, c.ev, c.features...), "\n"), "%s %T", c.d, c.ev)
	}
	_, _, ok := protocol.Dialect("s9").Open()
	require.False(t, ok)
}

// TestEncoder_pisces: s1 says who has said what no model said, wherever a message is shown, and
// has its own forms for what troupe adds to a conversation.
func TestEncoder_pisces(t *testing.T) {
	list := []protocol.Message{
		protocol.Seal(&protocol.UserMessage{Content: protocol.TextContent("hi"), Timestamp: 1}),
		protocol.Seal(&protocol.CustomMessage{CustomType: protocol.NoteTodos, Content: protocol.TextContent("go on"), Display: true, Timestamp: 2}),
		protocol.Seal(&protocol.CustomMessage{CustomType: protocol.NoteRules, Content: protocol.TextContent("never"), Details: []byte(`{"rules":["r"]}`), Timestamp: 3}),
		protocol.Seal(&protocol.CustomMessage{CustomType: "x", Content: protocol.TextContent("note"), Display: true, Timestamp: 4}),
	}
	theirs := []string{
		`{"role":"user","attribution":"user","content":[{"type":"text","text":"hi"}],"timestamp":1}`,
		`{"role":"developer","content":[{"type":"text","text":"go on"}],"attribution":"agent","timestamp":2}`,
		`{"role":"custom","customType":"ttsr-injection","content":"never","display":false,"details":{"rules":["r"]},"attribution":"agent","timestamp":3}`,
		`{"role":"custom","attribution":"agent","customType":"x","content":[{"type":"text","text":"note"}],"display":true,"timestamp":4}`,
	}
	for _, d := range protocol.Dialects() {
		wire, _, _ := d.Open()
		e := NewEncoder(wire, "")
		var raw [][]byte
		for i, m := range list {
			want := string(m.AppendJSON(nil))
			raw = append(raw, []byte(want))
			if d == protocol.DialectS1 {
				want = theirs[i]
			}
			require.JSONEq(t, `{"type":"message_end","message":`+want+`}`, string(e.AppendEvent(nil, protocol.MessageEnd{Message: m}, 0)))
		}
		all := "[" + strings.Join(theirs, ",") + "]"
		if d != protocol.DialectS1 {
			all = string(protocol.AppendValue(nil, list))
		}
		require.JSONEq(t, all, string(protocol.AppendAs(nil, list, wire.Dialect)))
		long, next := e.AppendLong(nil, protocol.Response{Command: "get_messages"}, protocol.NewMessages(raw), 0)
		require.Zero(t, next)
		require.JSONEq(t, `{"type":"response","command":"get_messages","success":true,"data":{"messages":`+all+`}}`, string(long))
	}
}

func TestEncoder_tags(t *testing.T) {
	wire, _, _ := protocol.DialectUnion.Open("seq")
	enc := NewEncoder(wire, "s2")
	out := enc.AppendEvent(nil, protocol.TurnStart{RunID: "1"}, 1)
	out = enc.AppendResponse(out, protocol.Response{ID: json.RawMessage(`"x"`), Command: "get_state", At: 1})
	out = enc.AppendEvent(out, protocol.HostToolCancel{ID: "c", TargetID: "h"}, 0)
	out = enc.AppendEvent(out, protocol.SessionChanged{Reason: "new", SessionID: "durable", LeafID: "ab"}, 4)
	require.Equal(t, `{"type":"turn_start","sessionId":"s2","seq":1,"runId":"1"}
{"id":"x","type":"response","sessionId":"s2","at":1,"command":"get_state","success":true}
{"type":"host_tool_cancel","sessionId":"s2","id":"c","targetId":"h"}
{"type":"session_changed","sessionId":"s2","seq":4,"seqFrom":2,"reason":"new","durableId":"durable","messageCount":0,"leafId":"ab"}
`, string(out))
}

// TestEncoder_heads: what routes a record, in every dialect and of every event, stands at
// its beginning: the type, the session, the number.
func TestEncoder_heads(t *testing.T) {
	for _, d := range protocol.Dialects() {
		wire, _, _ := d.Open(append(features(), "seq")...)
		enc, seen := NewEncoder(wire, "s2"), 0
		for i := range protocol.Events {
			row := &protocol.Events[i]
			value := reflect.New(row.Event).Elem()
			if row.Event.Kind() == reflect.Pointer {
				value.Set(reflect.New(row.Event.Elem()))
			}
			withInterfaces(reflect.Indirect(value))
			for line := range strings.Lines(string(enc.AppendEvent(nil, value.Interface().(protocol.Event), uint64(i+1)))) {
				require.Regexp(t, `^\{"type":"\w+","sessionId":"s2"(,"seq":\d+(,"seqFrom":\d+)?)?[,}]`, line, "%s %s", d, row.Name)
				if strings.Contains(line, `"seq":`) {
					require.Contains(t, line, `"s2","seq":`, row.Name)
				}
				seen++
			}
		}
		require.Greater(t, seen, 20, "%s: what was looked at", d)
	}
}

func features() (names []string) {
	for _, f := range protocol.Features() {
		names = append(names, string(f))
	}
	return names
}

// withInterfaces gives a message, an event or an entry to the fields that want one.
func withInterfaces(v reflect.Value) {
	if v.Kind() != reflect.Struct {
		return
	}
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case !f.CanSet():
		case f.Type() == reflect.TypeFor[protocol.Message]():
			f.Set(reflect.ValueOf(&protocol.UserMessage{}))
		case f.Type() == reflect.TypeFor[protocol.Event]():
			f.Set(reflect.ValueOf(protocol.TurnStart{}))
		case f.Type() == reflect.TypeFor[protocol.Entry]():
			f.Set(reflect.ValueOf(protocol.Label{}))
		default:
			withInterfaces(f)
		}
	}
}

// TestEncoder_children: the events of a child are written as those of a session to the
// same client, but without its number and tag; of a message whose beginning the client
// has not seen there is nothing before its end.
func TestEncoder_children(t *testing.T) {
	wire, _, _ := protocol.DialectUnion.Open("seq")
	enc := NewEncoder(wire, "s2")
	of := func(id string, ev protocol.Event) string {
		return string(enc.AppendEvent(nil, protocol.SubagentEvent{Payload: protocol.ChildEvent{ID: id, Is: ev}}, 0))
	}
	delta := func(text string) *protocol.MessageUpdate {
		return &protocol.MessageUpdate{Step: protocol.UpdateDelta, Kind: protocol.BlockText, Delta: text}
	}
	require.Equal(t, `{"type":"subagent_event","sessionId":"s2","payload":{"id":"A","event":{"type":"turn_start"}}}`+"\n", of("A", protocol.TurnStart{}))
	require.Empty(t, of("A", delta("late")))
	of("A", protocol.MessageStart{Message: &protocol.AssistantMessage{}})
	require.Empty(t, of("B", delta("of another")))
	require.Contains(t, of("A", delta("one")), `"content":[{"type":"text","text":"one"}]`)
	require.Contains(t, of("A", delta("two")), `"content":[{"type":"text","text":"onetwo"}]`)
	require.Equal(t, 2, strings.Count(of("A", protocol.ExtensionError{}), `{"type":"subagent_event",`), "the union knows it under two names")
	of("B", protocol.MessageStart{Message: &protocol.AssistantMessage{}})
	enc.AppendEvent(nil, protocol.Resync{}, 0)
	require.Empty(t, of("B", delta("behind what was dropped")))
	of("A", protocol.MessageStart{Message: &protocol.AssistantMessage{}})
	enc.AppendEvent(nil, protocol.SubagentLifecycle{Payload: protocol.SubagentStage{ID: "A", Status: protocol.TaskCompleted}}, 0)
	require.Empty(t, of("A", delta("of another life")))
}

// TestEncoder_numbers: an event that the union knows under two names has one number,
// one that the dialect does not have is counted by the next.
func TestEncoder_numbers(t *testing.T) {
	wire, _, _ := protocol.DialectUnion.Open("seq")
	enc := NewEncoder(wire, "")
	two := string(enc.AppendEvent(nil, protocol.ExtensionError{}, 1))
	require.Equal(t, 2, strings.Count(two, "\n"), two)
	require.Equal(t, 1, strings.Count(two, `"seq":1`), two)
	wire, _, _ = protocol.Dialect("s0").Open("seq")
	enc = NewEncoder(wire, "")
	require.Empty(t, enc.AppendEvent(nil, protocol.AutoCompactionStart{Reason: "manual"}, 1))
	require.Contains(t, string(enc.AppendEvent(nil, protocol.TurnStart{}, 2)), `"seq":2,"seqFrom":1`)
}

func TestResponse(t *testing.T) {
	for _, c := range []struct {
		r    protocol.Response
		want string
	}{
		{protocol.Response{Command: "abort"}, `{"type":"response","command":"abort","success":true}`},
		{protocol.Response{ID: json.RawMessage(`null`), Command: "abort"}, `{"id":null,"type":"response","command":"abort","success":true}`},
		{protocol.Response{Command: "cycle_model", Data: protocol.Null{}}, `{"type":"response","command":"cycle_model","success":true,"data":null}`},
		{protocol.Response{Command: "prompt", Data: protocol.Started}, `{"type":"response","command":"prompt","success":true,"data":{"disposition":"started"}}`},
		{protocol.Response{Command: "x", Err: protocol.CodeUnknownCommand.Errorf("Unknown command: %s", "x")}, `{"type":"response","command":"x","success":false,"error":"Unknown command: x","code":"unknown_command"}`},
	} {
		require.Equal(t, c.want, strings.TrimSuffix(string(NewEncoder(protocol.Wire{}, "").AppendResponse(nil, c.r)), "\n"))
	}
}

// TestResponseOmitted checks that a malformed extension_ui_response is answered only to clients that asked for it.
func TestResponseOmitted(t *testing.T) {
	for name, c := range map[string]struct {
		dialect  protocol.Dialect
		features []string
		want     bool
	}{
		"union": {dialect: "union"}, "pi1": {dialect: "pi1"}, "s1": {dialect: "s1"}, "s4": {dialect: "s4", want: true},
		"dialogEvents": {dialect: "union", features: []string{"dialogEvents"}, want: true},
		"uiAck":        {dialect: "union", features: []string{"uiAck"}, want: true},
	} {
		wire, _, _ := c.dialect.Open(c.features...)
		e := NewEncoder(wire, "")
		for _, command := range []string{"extension_ui_response", "hook_ui_response"} {
			got := e.AppendResponse(nil, protocol.Response{Command: command, Err: protocol.CodeInvalidParams.Errorf("Missing id")})
			require.Equal(t, c.want, len(got) > 0, "%s: %s: %s", name, command, got)
		}
		got := e.AppendResponse(nil, protocol.Response{Command: "extension_ui_response", Err: protocol.CodeUnknownSession.Errorf("gone")})
		require.NotEmpty(t, got, name)
	}
}

func TestAllocations(t *testing.T) {
	wire, _, _ := protocol.DialectUnion.Open()
	for _, c := range []struct {
		name string
		wire protocol.Wire
		max  float64
	}{{"cumulative", wire, 0}, {"delta-only", func() protocol.Wire { g, _, _ := protocol.DialectPi1.Open(); return g }(), 0}} {
		enc := NewEncoder(c.wire, "")
		enc.AppendEvent(nil, protocol.MessageStart{Message: &protocol.AssistantMessage{}}, 0)
		enc.AppendEvent(nil, &protocol.MessageUpdate{Step: protocol.UpdateStart}, 0)
		buf := make([]byte, 0, 1<<20)
		u := &protocol.MessageUpdate{Step: protocol.UpdateDelta, Delta: "some twenty bytes of it", RunID: "1"}
		n := testing.AllocsPerRun(500, func() { buf = enc.AppendEvent(buf[:0], u, 0) })
		require.LessOrEqual(t, n, c.max, c.name)
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, d := range []protocol.Dialect{protocol.DialectUnion, protocol.DialectPi1} {
		for _, size := range []int{0, 1_000, 50_000} {
			b.Run(fmt.Sprintf("%s/%d", d, size), func(b *testing.B) {
				wire, _, _ := d.Open()
				enc := NewEncoder(wire, "")
				enc.AppendEvent(nil, protocol.MessageStart{Message: &protocol.AssistantMessage{}}, 0)
				enc.AppendEvent(nil, &protocol.MessageUpdate{Step: protocol.UpdateStart}, 0)
				enc.AppendEvent(nil, &protocol.MessageUpdate{Step: protocol.UpdateDelta, Delta: strings.Repeat("x", size)}, 0)
				u := &protocol.MessageUpdate{Step: protocol.UpdateDelta, RunID: "1"}
				var buf []byte
				b.ReportAllocs()
				for b.Loop() {
					buf = enc.AppendEvent(buf[:0], u, 0)
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

// soFar is what the text of arguments amounts to.
func soFar(text string) []byte {
	var args protocol.ArgsBuilder
	args.Feed(text)
	return args.AppendJSON(nil)
}
