package providertest

import (
	"encoding/json"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"troupe/protocol"
	"troupe/providers"
	"troupe/providers/wire"
)

// CheckRequests is the part of [Run] that asks whether requests keep the rules,
// for endpoints that share a wire and differ in its details.
func CheckRequests(t *testing.T, fixture Fixture) { (&suite{fixture}).requests(t) }

// requests: whatever a session has been through, the request keeps the rules
// of the service, which Fixture.Check knows.
func (s *suite) requests(t *testing.T) {
	type seen struct {
		header http.Header
		body   []byte
	}
	var last atomic.Pointer[seen]
	stream := join(s.Answer(short))
	r := s.newRig(t, func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		last.Store(&seen{req.Header, body})
		play(stream, 0)(w, req)
	})
	rapid.Check(t, func(rt *rapid.T) {
		req := Requests(r.model).Draw(rt, "request")
		last.Store(nil)
		_, failed, problem := Fold(r.provider.Stream(t.Context(), req))
		require.NoError(rt, problem)
		got := last.Load()
		if got == nil { // nothing was sent: only right if there was nothing to send
			require.NotNil(rt, failed)
			require.Equal(rt, protocol.ErrorInvalid, failed.Kind, failed.Message)
			require.Empty(rt, wire.Convert(&req, wire.Shape{Spoken: true}), failed.Message)
			return
		}
		require.Nil(rt, failed)
		require.True(rt, json.Valid(got.body), "the body is no JSON: %s", got.body)
		require.NoError(rt, s.Check(got.header, got.body, req), "%s", got.body)
	})
}

// Requests generates requests to a model with random histories: answers of the
// model itself and of others, whole, failed and aborted; calls without results,
// results without calls, twice, late; ids that repeat or do not fit; broken
// characters, empty blocks, images, summaries, commands.
func Requests(model *protocol.Model) *rapid.Generator[providers.Request] {
	return rapid.Custom(func(t *rapid.T) providers.Request {
		asked := *model
		if !rapid.Bool().Draw(t, "takes images") {
			asked.Input = []string{"text"}
		}
		asked.Reasoning = rapid.Bool().Draw(t, "can think")
		req := question(&asked)
		req.Messages = Histories(model).Draw(t, "history")
		req.BlockImages = rapid.Bool().Draw(t, "blocks images")
		req.Thinking = asked.Clamp(rapid.SampledFrom(protocol.ThinkingLevels).Draw(t, "level"))
		req.MaxTokens = rapid.SampledFrom([]int64{0, 1, 500, 2048, 1 << 30}).Draw(t, "max tokens")
		req.Cache = rapid.SampledFrom([]providers.CacheRetention{"", providers.CacheLong, providers.CacheNone}).Draw(t, "cache")
		req.System = rapid.SampledFrom([]string{"", " ", "Be kind.", "Half \xf0\x9f a character"}).Draw(t, "system")
		if rapid.Bool().Draw(t, "no tools") {
			req.Tools = nil
		}
		return req
	})
}

// Histories generates the messages of sessions that may end with model.
func Histories(model *protocol.Model) *rapid.Generator[[]protocol.Message] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) protocol.Message { return message(t, model) }), 0, 14)
}

// ids are few, so that they repeat, and of all forms that wires use.
var ids = rapid.SampledFrom([]string{
	"toolu_0", "toolu_0", "call_1", "call_1", "call_2|fc_2", "call_2|fc_9", "a.b:c/d", "a_b_c_d", "", "ünï",
	"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz1",
	"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz2", "Abc123xyZ",
})

var texts = rapid.SampledFrom([]string{
	"", " \n", "Hello", "two\nlines", "quote \" back \\ slash", "漢字 😀", "broken \xff\xfe bytes", "lone \xed\xa0\xbd half",
	"control \x00\x01\x1f", "<b>&amp;\u2028", "ends in space ",
})

var tools = rapid.SampledFrom([]string{"read", "bash", "read", "functions.bash", "", "no such tool!"})

var arguments = rapid.SampledFrom([]string{
	`{}`, `{"path":"a.txt"}`, `{"x":[1,{"y":null}],"s":"\ud83d\ude00 \ud83d \u0000 \\ud800"}`, "{\n \"a\" : \"b\xff\"\n}", `[]`, `null`, ``, `{"cut":`,
})

// thoughtSignatures and textSignatures are of the forms that wires use, some of
// them broken.
var (
	thoughtSignatures = rapid.SampledFrom([]string{
		"", "c2lnbmF0dXJl", "c2lnbmF0dXJ", "reasoning_content", `{"type":"reasoning","id":"rs_1","summary":[]}`,
		`{"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"ZW5j"}`, `{"type":"reasoning","id":"rs_3","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"ZW5j"}`,
		`{"type":"reasoning","id":"rs_4","summary":[],"content":[{"type":"reasoning_text","text":"\ud83d"}]}`, `{"type":"reasoning"`,
	})
	textSignatures = rapid.SampledFrom([]string{
		"", `{"v":1,"id":"msg_1"}`, `{"v":1,"id":"msg_2","phase":"commentary"}`, "msg_legacy", "c2lnbmF0dXJl", `{"v":1`,
		`{"v":1,"id":"msg_abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz"}`,
	})
)

func message(t *rapid.T, model *protocol.Model) protocol.Message {
	switch rapid.SampledFrom([]string{"user", "answer", "answer", "result", "result", "bash", "custom", "branch", "compaction", "unknown"}).Draw(t, "role") {
	case "user":
		return &protocol.UserMessage{Content: input(t)}
	case "answer":
		return answer(t, model)
	case "result":
		return &protocol.ToolResultMessage{
			ToolCallID: ids.Draw(t, "id"), ToolName: tools.Draw(t, "tool"), Content: input(t), IsError: rapid.Bool().Draw(t, "failed"),
		}
	case "bash":
		exit := rapid.IntRange(0, 2).Draw(t, "exit")
		return &protocol.BashExecutionMessage{
			Command: texts.Draw(t, "command"), Output: texts.Draw(t, "output"), ExitCode: &exit,
			Cancelled: rapid.Bool().Draw(t, "cancelled"), ExcludeFromContext: rapid.Bool().Draw(t, "excluded"),
		}
	case "custom":
		return &protocol.CustomMessage{CustomType: "note", Content: input(t)}
	case "branch":
		return &protocol.BranchSummaryMessage{Summary: texts.Draw(t, "summary")}
	case "compaction":
		return &protocol.CompactionSummaryMessage{Summary: texts.Draw(t, "summary")}
	}
	return &protocol.UnknownMessage{RoleName: "system", Raw: []byte(`{"role":"system"}`)}
}

const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

func input(t *rapid.T) protocol.Content {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) protocol.Block {
		switch rapid.IntRange(0, 5).Draw(t, "input") {
		case 0:
			return protocol.Image{Data: pixel, MimeType: "image/png"}
		case 1:
			return protocol.UnknownBlock{Type: "video", Raw: []byte(`{"type":"video"}`)}
		}
		return protocol.Text{Text: texts.Draw(t, "text"), Signature: "ignored"}
	}), 0, 3).Draw(t, "content")
}

func answer(t *rapid.T, model *protocol.Model) *protocol.AssistantMessage {
	m := &protocol.AssistantMessage{
		API: model.API, Provider: model.Provider, Model: model.ID,
		StopReason: rapid.SampledFrom([]protocol.StopReason{
			protocol.StopStop, protocol.StopToolUse, protocol.StopLength, protocol.StopError, protocol.StopAborted,
		}).Draw(t, "stop"),
	}
	if rapid.Bool().Draw(t, "of another model") {
		m.Model = "another"
	}
	m.Content = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) protocol.Block { return answerBlock(t) }), 0, 5).Draw(t, "answer")
	return m
}

func answerBlock(t *rapid.T) protocol.Block {
	switch rapid.IntRange(0, 6).Draw(t, "block") {
	case 0, 1:
		return protocol.ToolCall{
			ID: ids.Draw(t, "id"), Name: tools.Draw(t, "tool"), Arguments: json.RawMessage(arguments.Draw(t, "arguments")),
			ThoughtSignature: rapid.SampledFrom([]string{"", "c2ln", `{"type":"reasoning.encrypted","id":"x","data":"y"}`}).Draw(t, "proof"),
		}
	case 2:
		return protocol.Thinking{
			Thinking:  texts.Draw(t, "thinking"),
			Signature: thoughtSignatures.Draw(t, "signature"),
		}
	case 3:
		return protocol.Thinking{Signature: rapid.SampledFrom([]string{"", "cmVkYWN0ZWQ="}).Draw(t, "redacted"), Redacted: true}
	case 4:
		return protocol.Image{Data: pixel, MimeType: "image/png"}
	}
	return protocol.Text{Text: texts.Draw(t, "text"), Signature: textSignatures.Draw(t, "signature")}
}
