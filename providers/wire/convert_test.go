package wire

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/providers"
)

// Short forms for histories.
type (
	msg  = protocol.Message
	blk  = protocol.Block
	list = protocol.Content
)

func user(text string) msg { return &protocol.UserMessage{Content: protocol.TextContent(text)} }

func answered(blocks ...blk) *protocol.AssistantMessage {
	return &protocol.AssistantMessage{Content: blocks, API: "wire", Provider: "acme", Model: "m1", StopReason: protocol.StopStop}
}

func failed(reason protocol.StopReason, blocks ...blk) msg {
	m := answered(blocks...)
	m.StopReason = reason
	return m
}

func foreign(blocks ...blk) msg {
	m := answered(blocks...)
	m.Model = "m0"
	return m
}

func say(text string) blk { return protocol.Text{Text: text} }

func calls(id, name string) protocol.ToolCall {
	return protocol.ToolCall{ID: id, Name: name, Arguments: json.RawMessage(`{"n":1}`)}
}

func result(id, text string) msg {
	return &protocol.ToolResultMessage{ToolCallID: id, ToolName: "old", Content: protocol.TextContent(text)}
}

// show writes messages as a script, one line per block.
func show(messages []msg) string {
	var b strings.Builder
	for _, m := range messages {
		switch m := m.(type) {
		case *protocol.UserMessage:
			b.WriteString("user:" + showContent(m.Content) + "\n")
		case *protocol.AssistantMessage:
			b.WriteString("assistant:" + showContent(m.Content) + "\n")
		case *protocol.ToolResultMessage:
			flag := ""
			if m.IsError {
				flag = "!"
			}
			b.WriteString("result" + flag + " " + m.ToolCallID + " " + m.ToolName + ":" + showContent(m.Content) + "\n")
		default:
			b.WriteString("?" + m.Role() + "\n")
		}
	}
	return b.String()
}

func showContent(content list) (text string) {
	for _, b := range content {
		switch b := b.(type) {
		case protocol.Text:
			text += " <" + strings.ReplaceAll(b.Text, "\n", "/") + ">"
			if b.Signature != "" {
				text += "~" + b.Signature
			}
		case protocol.Thinking:
			text += " (" + b.Thinking + ")~" + b.Signature
		case protocol.ToolCall:
			text += " " + b.Name + "#" + b.ID + string(b.Arguments)
			if b.ThoughtSignature != "" {
				text += "~" + b.ThoughtSignature
			}
		case protocol.Image:
			text += " [" + b.MimeType + "]"
		default:
			text += " ?"
		}
	}
	return text
}

func TestConvert(t *testing.T) {
	none := strings.ReplaceAll(missingResult, "\n", "/")
	exit := func(n int) *int { return &n }
	image := protocol.Image{Data: "QQ==", MimeType: "image/png"}
	for _, c := range []struct {
		name  string
		in    []msg
		shape Shape
		tweak func(*providers.Request)
		want  string
	}{
		{name: "nothing", want: ""},
		{name: "as it is", in: []msg{user("hi"), answered(say("ho")), user("x")}, want: "user: <hi>\nassistant: <ho>\nuser: <x>\n"},
		{name: "custom, unknown", in: []msg{
			&protocol.CustomMessage{CustomType: "note", Content: protocol.TextContent("remember"), Display: true},
			&protocol.UnknownMessage{RoleName: "system"},
		}, want: "user: <remember>\n"},
		{name: "summaries", in: []msg{
			&protocol.CompactionSummaryMessage{Summary: "C"}, &protocol.BranchSummaryMessage{Summary: "B"},
		}, want: "user: <The earlier part of this conversation was compacted into this summary://<summary>/C/</summary>>\n" +
			"user: <Another branch of this conversation was explored and left. A summary of it://<summary>/B/</summary>>\n"},
		{name: "commands", in: []msg{
			&protocol.BashExecutionMessage{Command: "ls", Output: "a\nb", ExitCode: exit(0)},
			&protocol.BashExecutionMessage{Command: "false", ExitCode: exit(1)},
			&protocol.BashExecutionMessage{Command: "secret", Output: "x", ExcludeFromContext: true},
		}, want: "user: <Ran `ls`/```/a/b/```>\nuser: <Ran `false`/(no output)//Command exited with code 1>\n"},

		{name: "answered calls", in: []msg{answered(calls("a", "ls"), calls("b", "read")), result("a", "1"), result("b", "2")},
			want: "assistant: ls#a{\"n\":1} read#b{\"n\":1}\nresult a ls: <1>\nresult b read: <2>\n"},
		{name: "unanswered in the middle", in: []msg{answered(calls("a", "ls"), calls("b", "ls")), result("a", "1"), user("go on")},
			want: "assistant: ls#a{\"n\":1} ls#b{\"n\":1}\nresult a ls: <1>\nresult! b ls: <" + none + ">\nuser: <go on>\n"},
		{name: "unanswered at the end", in: []msg{user("x"), answered(calls("a", "ls"))},
			want: "user: <x>\nassistant: ls#a{\"n\":1}\nresult! a ls: <" + none + ">\n"},
		{name: "results in another order", in: []msg{answered(calls("a", "ls"), calls("b", "ls")), result("b", "2"), result("a", "1")},
			want: "assistant: ls#a{\"n\":1} ls#b{\"n\":1}\nresult a ls: <1>\nresult b ls: <2>\n"},
		{name: "late result", in: []msg{answered(calls("a", "ls")), user("wait"), result("a", "1")},
			want: "assistant: ls#a{\"n\":1}\nresult a ls: <1>\nuser: <wait>\n"},
		{name: "second result", in: []msg{answered(calls("a", "ls")), result("a", "1"), result("a", "2")},
			want: "assistant: ls#a{\"n\":1}\nresult a ls: <1>\n"},
		{name: "result without a call", in: []msg{user("x"), result("zzz", "1")}, want: "user: <x>\n"},
		{name: "result before its call", in: []msg{result("a", "0"), answered(calls("a", "ls"))},
			want: "assistant: ls#a{\"n\":1}\nresult! a ls: <" + none + ">\n"},
		{name: "ids that begin anew", in: []msg{answered(calls("a", "ls")), result("a", "1"), answered(calls("a", "ls")), result("a", "2")},
			want: "assistant: ls#a{\"n\":1}\nresult a ls: <1>\nassistant: ls#a_2{\"n\":1}\nresult a_2 ls: <2>\n"},
		{name: "one id twice in an answer", in: []msg{answered(calls("a", "ls"), calls("a", "ls")), result("a", "1"), result("a", "2")},
			want: "assistant: ls#a{\"n\":1} ls#a_2{\"n\":1}\nresult a ls: <1>\nresult a_2 ls: <2>\n"},
		{name: "a made id is taken", in: []msg{answered(calls("a", "ls"), calls("a_2", "ls"), calls("a", "ls"))},
			want: "assistant: ls#a{\"n\":1} ls#a_2{\"n\":1} ls#a_3{\"n\":1}\nresult! a ls: <" + none + ">\nresult! a_2 ls: <" + none + ">\nresult! a_3 ls: <" + none + ">\n"},
		{name: "no id", in: []msg{answered(calls("", "ls")), result("", "1")}, want: "assistant: ls#call{\"n\":1}\nresult call ls: <1>\n"},
		{name: "failed answers", in: []msg{
			user("x"), failed(protocol.StopError, say("half"), calls("a", "ls")), result("a", "1"),
			failed(protocol.StopAborted, say("half")), answered(say("whole")),
		}, want: "user: <x>\nassistant: <whole>\n"},
		{name: "the result of a failed answer is not its predecessor's", in: []msg{
			answered(calls("a", "ls")), failed(protocol.StopError, calls("a", "ls")), result("a", "of the failed one"),
		}, want: "assistant: ls#a{\"n\":1}\nresult! a ls: <" + none + ">\n"},
		{name: "cut at the limit", in: []msg{failed(protocol.StopLength, say("long")), user("more")}, want: "assistant: <long>\nuser: <more>\n"},
		{name: "empty blocks", in: []msg{
			&protocol.UserMessage{Content: list{say(""), say(" \n"), say("a")}}, &protocol.UserMessage{}, answered(say("")), answered(),
		}, want: "user: <a>\n"},
		{name: "empty result", in: []msg{answered(calls("a", "ls")), &protocol.ToolResultMessage{ToolCallID: "a", IsError: true}},
			want: "assistant: ls#a{\"n\":1}\nresult! a ls: <(no output)>\n"},
		{name: "names and arguments that no service takes", in: []msg{answered(
			protocol.ToolCall{ID: "a", Name: "functions.bash!", Arguments: json.RawMessage(`[1]`)},
			protocol.ToolCall{ID: "b", Arguments: json.RawMessage(`{"x":`)},
			protocol.ToolCall{ID: "c", Name: "mcp.search", Arguments: json.RawMessage(` {"x":"\ud83d"} `)},
		), result("a", "1"), result("b", "1"), result("c", "1")},
			want: "assistant: functions_bash_#a{} unknown#b{} mcp.search#c{\"x\":\"\\ufffd\"}\nresult a functions_bash_: <1>\nresult b unknown: <1>\nresult c mcp.search: <1>\n"},

		{name: "own thinking", in: []msg{answered(
			protocol.Thinking{Thinking: "hmm", Signature: "s"}, protocol.Thinking{Signature: "empty"}, protocol.Thinking{Thinking: "bare"},
			protocol.Thinking{}, protocol.Thinking{Signature: "r", Redacted: true}, protocol.Thinking{Redacted: true}, say("text"),
		)}, want: "assistant: (hmm)~s ()~empty (bare)~ ()~r <text>\n"},
		{name: "others' thinking", in: []msg{foreign(
			protocol.Thinking{Thinking: "hmm", Signature: "s"}, protocol.Thinking{Signature: "empty"},
			protocol.Thinking{Thinking: "so", Redacted: true, Signature: "r"}, protocol.Text{Text: "Let me", Signature: "t"},
			protocol.Thinking{Thinking: "bare"}, protocol.ToolCall{ID: "a", Name: "ls", Arguments: json.RawMessage("{}"), ThoughtSignature: "p"},
		), result("a", "1")}, want: "assistant: <hmm//> <Let me//> <bare> ls#a{}\nresult a ls: <1>\n"},
		{name: "own signatures", shape: Shape{SignedText: true}, in: []msg{answered(
			protocol.Text{Text: "", Signature: "t0"}, protocol.Text{Text: "x", Signature: "t1"},
			protocol.ToolCall{ID: "a", Name: "ls", Arguments: json.RawMessage("{}"), ThoughtSignature: "p"},
		), result("a", "1")}, want: "assistant: <>~t0 <x>~t1 ls#a{}~p\nresult a ls: <1>\n"},
		{name: "no signed text on this wire", in: []msg{answered(protocol.Text{Signature: "t0"}, protocol.Text{Text: "x", Signature: "t1"})},
			want: "assistant: <x>\n"},
		{name: "same id, other provider", tweak: func(r *providers.Request) { r.Model.Provider = "other" },
			in: []msg{answered(protocol.Thinking{Thinking: "hmm", Signature: "s"})}, want: "assistant: <hmm>\n"},
		{name: "same id, other wire", tweak: func(r *providers.Request) { r.Model.API = "other" },
			in: []msg{answered(protocol.Thinking{Thinking: "hmm", Signature: "s"})}, want: "assistant: <hmm>\n"},

		{name: "images", in: []msg{&protocol.UserMessage{Content: list{say("look"), image, image}}}, want: "user: <look> [image/png] [image/png]\n"},
		{name: "images blocked", tweak: func(r *providers.Request) { r.BlockImages = true }, in: []msg{
			&protocol.UserMessage{Content: list{image, image, say("x"), image}}, answered(calls("a", "ls")),
			&protocol.ToolResultMessage{ToolCallID: "a", Content: list{image}},
		}, want: "user: <" + blockedNote + "> <x> <" + blockedNote + ">\nassistant: ls#a{\"n\":1}\nresult a ls: <" + blockedNote + ">\n"},
		{name: "images the model cannot see", tweak: func(r *providers.Request) { r.Model.Input = []string{"text"} }, in: []msg{
			&protocol.UserMessage{Content: list{image, image}}, answered(calls("a", "ls")),
			&protocol.ToolResultMessage{ToolCallID: "a", Content: list{say("shot"), image}},
		}, want: "user: <" + imageNote + ">\nassistant: ls#a{\"n\":1}\nresult a ls: <shot> <" + toolImageNote + ">\n"},
		{name: "blocks where they do not belong", in: []msg{
			&protocol.UserMessage{Content: list{protocol.Thinking{Thinking: "x"}, calls("a", "ls"), protocol.UnknownBlock{Type: "video"}, say("u")}},
			answered(image, protocol.UnknownBlock{Type: "video"}, say("a")),
		}, want: "user: <u>\nassistant: <a>\n"},

		{name: "users not merged", in: []msg{user("a"), user("b")}, want: "user: <a>\nuser: <b>\n"},
		{name: "users merged", shape: Shape{MergeUsers: true}, in: []msg{user("a"), answered(), user("b"), answered(say("x")), user("c")},
			want: "user: <a> <b>\nassistant: <x>\nuser: <c>\n"},
		{name: "user first and last", shape: Shape{UserFirst: true, UserLast: true}, in: []msg{answered(say("x"))},
			want: "user: <(The conversation begins with the assistant.)>\nassistant: <x>\nuser: <Continue.>\n"},
		{name: "a result is the user's side", shape: Shape{UserLast: true}, in: []msg{user("a"), answered(calls("a", "ls")), result("a", "1")},
			want: "user: <a>\nassistant: ls#a{\"n\":1}\nresult a ls: <1>\n"},
		{name: "silent answers", shape: Shape{Spoken: true}, in: []msg{
			user("a"), answered(protocol.Thinking{Thinking: "only", Signature: "s"}),
			answered(protocol.Thinking{Thinking: "first", Signature: "s"}, say("x"), protocol.Thinking{Thinking: "last", Signature: "s"}),
		}, want: "user: <a>\nassistant: (first)~s <x>\n"},
		{name: "ids of the wire", shape: Shape{ToolID: func(id string, _ bool, try int) string { return SafeID(id, 6, try) }},
			in: []msg{foreign(calls("call|1", "ls"), calls("call.1", "ls"), calls("call:123", "ls")), result("call.1", "2"), result("call|1", "1"), result("call:123", "3")},
			want: "assistant: ls#call_1{\"n\":1} ls#call_2{\"n\":1} ls#call_3{\"n\":1}\n" +
				"result call_1 ls: <1>\nresult call_2 ls: <2>\nresult call_3 ls: <3>\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := &providers.Request{
				Model:    &protocol.Model{ID: "m1", Provider: "acme", API: "wire", Input: []string{"text", "image"}},
				Messages: c.in, Tools: []protocol.ToolInfo{{Name: "mcp.search"}},
			}
			if c.tweak != nil {
				c.tweak(req)
			}
			before := show(c.in)
			assert.Equal(t, c.want, show(Convert(req, c.shape)))
			assert.Equal(t, before, show(c.in), "the history is not changed")
		})
	}
}

func TestSafeID(t *testing.T) {
	for _, c := range []struct {
		id    string
		limit int
		try   int
		want  string
	}{
		{"toolu_01-A", 64, 0, "toolu_01-A"}, {"call_0|fc_0", 64, 0, "call_0_fc_0"}, {"é😀.", 64, 0, "___"}, {"\xff", 64, 0, "_"},
		{strings.Repeat("x", 100), 64, 0, strings.Repeat("x", 64)}, {strings.Repeat("x", 100), 64, 1, strings.Repeat("x", 62) + "_2"},
		{"a", 64, 11, "a_12"}, {"", 64, 0, ""}, {"", 64, 1, "_2"},
	} {
		assert.Equal(t, c.want, SafeID(c.id, c.limit, c.try))
	}
}

func TestHashID(t *testing.T) {
	assert.Equal(t, "Abc123xyZ", HashID("Abc123xyZ", 9, 0))
	seen := map[string]bool{}
	for _, id := range []string{"call_1", "call_2", "", "Abc12_xyZ", "é", strings.Repeat("x", 99), "Abc123xyZ"} {
		for try := range 3 {
			got := HashID(id, 9, try)
			assert.Regexp(t, `^[a-zA-Z0-9]{9}$`, got)
			assert.False(t, seen[got], "%q, try %d", id, try)
			assert.Equal(t, got, HashID(id, 9, try))
			seen[got] = true
		}
	}
}

func TestCleanJSON(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":"b"}`:                       `{"a":"b"}`,
		`{"a":"\ud83d\ude00"}`:            `{"a":"\ud83d\ude00"}`,
		`{"a":"\ud83d"}`:                  `{"a":"\ufffd"}`,
		`{"a":"\uDE00x"}`:                 `{"a":"\ufffdx"}`,
		`{"a":"\ud83d\ud83d\ude00"}`:      `{"a":"\ufffd\ud83d\ude00"}`,
		`{"a":"\\ud83d"}`:                 `{"a":"\\ud83d"}`,
		`{"a":"\\\ud83d"}`:                `{"a":"\\\ufffd"}`,
		`{"a":"\n\t\"\u00e9\ud800"}`:      `{"a":"\n\t\"\u00e9\ufffd"}`,
		"{\"a\":\"\xff\"}":                "{\"a\":\"\uFFFD\"}",
		` {"a":1} `:                       `{"a":1}`,
		`[]`:                              `{}`,
		`"x"`:                             `{}`,
		``:                                `{}`,
		`{"a":`:                           `{}`,
		`{"a":1}{"b":2}`:                  `{}`,
		strings.Repeat(`{"a":`, 1_000_00): `{}`,
	} {
		got := CleanObject(json.RawMessage(in))
		assert.Equal(t, want, string(got))
		require.True(t, json.Valid(got))
	}
}

// TestConvert_oneID is about models that give all their calls one id: a request with many
// such turns takes no longer than it has to.
func TestConvert_oneID(t *testing.T) {
	tries := 0
	shape := Shape{ToolID: func(id string, _ bool, try int) string {
		tries++
		return SafeID(id, 64, try)
	}}
	const turns = 1000
	var messages []protocol.Message
	for range turns {
		messages = append(messages,
			&protocol.AssistantMessage{Content: protocol.Content{protocol.ToolCall{ID: "call_0", Name: "x"}}, StopReason: protocol.StopToolUse},
			&protocol.ToolResultMessage{ToolCallID: "call_0", ToolName: "x", Content: protocol.TextContent("y")})
	}
	seen := map[string]bool{}
	for _, m := range Convert(&providers.Request{Model: &protocol.Model{}, Messages: messages}, shape) {
		if m, ok := m.(*protocol.ToolResultMessage); ok {
			require.False(t, seen[m.ToolCallID], m.ToolCallID)
			seen[m.ToolCallID] = true
		}
	}
	require.Len(t, seen, turns)
	require.LessOrEqual(t, tries, 2*turns)
}
