package pi

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"troupe/protocol"

	"github.com/stretchr/testify/require"
)

func TestDecode_errors(t *testing.T) {
	for _, c := range []struct {
		line, id, name string
		code           protocol.Code
		text           string // a prefix when it ends in …
	}{
		{`{bad json`, ``, "parse", protocol.CodeParse, "Failed to parse command: …"},
		{`{"id":"x","type":"prompt","message":"a`, ``, "parse", protocol.CodeParse, "Failed to parse command: …"},
		{`{"type":"prompt","id":{"a":[1]},"message":}`, ``, "parse", protocol.CodeParse, "Failed to parse command: …"},
		{`{"a":{"id":"inner"},"b":`, ``, "parse", protocol.CodeParse, "Failed to parse command: …"},
		{"\ufeff{\"type\":\"abort\"}", ``, "parse", protocol.CodeParse, "Failed to parse command: …"},
		{"{\"type\":\"prompt\",\"message\":\"\xff\"}", ``, "parse", protocol.CodeParse, "Failed to parse command: invalid UTF-8 at byte 28"},
		{"{\"id\":4,\"type\":\"prompt\",\"message\":\"\xc3\x28\"}", ``, "parse", protocol.CodeParse, "Failed to parse command: invalid UTF-8 at byte 35"},
		{`{"type":"abort"} x`, ``, "parse", protocol.CodeParse, "Failed to parse command: …"},
		{`{"type":"abort"}{"type":"abort"}`, ``, "parse", protocol.CodeParse, "Failed to parse command: …"},
		{`{'type':'abort'}`, ``, "parse", protocol.CodeParse, "Failed to parse command: …"},
		{`{"type":"abort",}`, ``, "parse", protocol.CodeParse, "Failed to parse command: …"},
		{`{"type":"bash","command":"a` + "\x01" + `"}`, ``, "parse", protocol.CodeParse, "Failed to parse command: …"},
		{`{"n":NaN,"type":"abort"}`, ``, "parse", protocol.CodeParse, "Failed to parse command: …"},
		{strings.Repeat("[", 20_000_000), ``, "parse", protocol.CodeParse, "Failed to parse command: …"},
		{strings.Repeat(`{"a":`, 4_000_000), ``, "parse", protocol.CodeParse, "Failed to parse command: …"},

		{`{"id":"x1"}`, `"x1"`, "parse", protocol.CodeMissingType, "Missing command type"},
		{`{"id":7,"type":null}`, `7`, "parse", protocol.CodeMissingType, "Missing command type"},
		{`{"type":7}`, ``, "parse", protocol.CodeMissingType, "Missing command type"},
		{`{}`, ``, "parse", protocol.CodeMissingType, "Missing command type"},
		{`null`, ``, "parse", protocol.CodeMissingType, "Missing command type"},
		{`[1,2]`, ``, "parse", protocol.CodeMissingType, "Missing command type"},
		{`42`, ``, "parse", protocol.CodeMissingType, "Missing command type"},
		{`"str"`, ``, "parse", protocol.CodeMissingType, "Missing command type"},
		{`{"Type":"abort"}`, ``, "parse", protocol.CodeMissingType, "Missing command type"},

		{`{"type":"nope","id":"1"}`, `"1"`, "nope", protocol.CodeUnknownCommand, "Unknown command: nope"},
		{`{"type":""}`, ``, "", protocol.CodeUnknownCommand, "Unknown command: "},
		{`{"type":"Prompt"}`, ``, "Prompt", protocol.CodeUnknownCommand, "Unknown command: Prompt"},

		{`{"type":"prompt"}`, ``, "prompt", protocol.CodeInvalidParams, "Missing message"},
		{`{"type":"prompt","message":null}`, ``, "prompt", protocol.CodeInvalidParams, "Missing message"},
		{`{"type":"prompt","message":5}`, ``, "prompt", protocol.CodeInvalidParams, "message must be a string"},
		{`{"type":"prompt","message":["a"]}`, ``, "prompt", protocol.CodeInvalidParams, "message must be a string"},
		{`{"type":"prompt","message":"a","images":"x"}`, ``, "prompt", protocol.CodeInvalidParams, "images must be an array"},
		{`{"type":"prompt","message":"a","images":[5]}`, ``, "prompt", protocol.CodeInvalidParams, "Invalid image at index 0: not an object"},
		{`{"type":"prompt","message":"a","images":[{"type":"image","data":"aGk=","mimeType":"image/png"},{"type":"video"}]}`, ``, "prompt", protocol.CodeInvalidParams, `Invalid image at index 1: type "video" is not image`},
		{`{"type":"prompt","message":"a","images":[{"type":"image","data":"!!","mimeType":"image/png"}]}`, ``, "prompt", protocol.CodeInvalidParams, "Invalid image at index 0: data is not base64"},
		{`{"type":"prompt","message":"a","images":[{"type":"image","mimeType":"image/png"}]}`, ``, "prompt", protocol.CodeInvalidParams, "Invalid image at index 0: missing data"},
		{`{"type":"prompt","message":"a","images":[{"type":"image","data":"aGk="}]}`, ``, "prompt", protocol.CodeInvalidParams, "Invalid image at index 0: missing mimeType"},
		{`{"type":"prompt","message":"a","images":[{"type":"image","data":"aGk=","mimeType":"text/html"}]}`, ``, "prompt", protocol.CodeInvalidParams, `Invalid image at index 0: mimeType "text/html" is not an image`},
		{`{"type":"prompt","message":"a","images":[{"type":"image","source":{"type":"url","url":"data:image/png,x"}}]}`, ``, "prompt", protocol.CodeInvalidParams, "Invalid image at index 0: data URL without base64"},
		{`{"type":"prompt","message":"a","images":[{"type":"image","source":{"type":"url","url":"data:text/plain;base64,aGk="}}]}`, ``, "prompt", protocol.CodeInvalidParams, `Invalid image at index 0: mimeType "text/plain" is not an image`},
		{`{"type":"prompt","message":"a","images":[{"type":"image","source":{"type":"url"}}]}`, ``, "prompt", protocol.CodeInvalidParams, "Invalid image at index 0: URLs are not fetched; send the data"},
		{`{"type":"prompt","message":"a","images":[{"type":"image","url":"https://x/y.png"}]}`, ``, "prompt", protocol.CodeInvalidParams, "Invalid image at index 0: URLs are not fetched; send the data"},
		{`{"type":"prompt","message":"a","images":[{"type":"image","source":{"type":"url","url":"http://x/y.png"}}]}`, ``, "prompt", protocol.CodeInvalidParams, "Invalid image at index 0: URLs are not fetched; send the data"},
		{`{"type":"prompt","message":"a","streamingBehavior":7}`, ``, "prompt", protocol.CodeInvalidParams, "streamingBehavior must be a string"},
		{`{"type":"prompt","message":"a","streamingBehavior":"later"}`, ``, "prompt", protocol.CodeInvalidParams, "Invalid streamingBehavior: later"},
		{`{"type":"set_model","provider":"p"}`, ``, "set_model", protocol.CodeInvalidParams, "Missing modelId"},
		{`{"type":"set_model","modelId":"m"}`, ``, "set_model", protocol.CodeInvalidParams, "Missing provider"},
		{`{"type":"set_thinking_level"}`, ``, "set_thinking_level", protocol.CodeInvalidParams, "Missing level"},
		{`{"type":"set_thinking_level","level":"bogus"}`, ``, "set_thinking_level", protocol.CodeInvalidParams, "Invalid thinking level: bogus"},
		{`{"type":"set_steering_mode"}`, ``, "set_steering_mode", protocol.CodeInvalidParams, "Missing mode"},
		{`{"type":"set_steering_mode","mode":"zzz"}`, ``, "set_steering_mode", protocol.CodeInvalidParams, "Invalid steering mode"},
		{`{"type":"set_follow_up_mode","mode":"zzz"}`, ``, "set_follow_up_mode", protocol.CodeInvalidParams, "Invalid follow-up mode"},
		{`{"type":"set_queue_mode","mode":"zzz"}`, ``, "set_queue_mode", protocol.CodeInvalidParams, "Invalid queue mode"},
		{`{"type":"set_interrupt_mode","mode":"zzz"}`, ``, "set_interrupt_mode", protocol.CodeInvalidParams, "Invalid interrupt mode"},
		{`{"type":"get_subagent_messages","subagentId":"A","fromByte":-1}`, ``, "get_subagent_messages", protocol.CodeInvalidParams, "fromByte must be at least 0"},
		{`{"type":"set_auto_retry","enabled":"yes"}`, ``, "set_auto_retry", protocol.CodeInvalidParams, "enabled must be a boolean"},
		{`{"type":"set_auto_retry"}`, ``, "set_auto_retry", protocol.CodeInvalidParams, "Missing enabled"},
		{`{"type":"bash"}`, ``, "bash", protocol.CodeInvalidParams, "Missing command"},
		{`{"type":"switch_session"}`, ``, "switch_session", protocol.CodeInvalidParams, "Missing sessionPath"},
		{`{"type":"set_session_name"}`, ``, "set_session_name", protocol.CodeInvalidParams, "Missing name"},
		{`{"type":"set_session_name","name":" \n "}`, ``, "set_session_name", protocol.CodeInvalidParams, "Session name cannot be empty"},
		{`{"type":"abort","sessionId":5}`, ``, "abort", protocol.CodeInvalidParams, "Invalid sessionId: expected a string"},
		{`{"type":"extension_ui_response"}`, ``, "extension_ui_response", protocol.CodeInvalidParams, "Missing id"},
	} {
		short := c.line[:min(len(c.line), 60)]
		req, err := Decode([]byte(c.line))
		require.NotNil(t, err, short)
		require.Equal(t, c.code, err.Code, short)
		if prefix, ok := strings.CutSuffix(c.text, "…"); ok {
			require.True(t, strings.HasPrefix(err.Message, prefix) && len(err.Message) > len(prefix), "%s: %s", short, err.Message)
		} else {
			require.Equal(t, c.text, err.Message, short)
		}
		require.Equal(t, c.id, string(req.ID), short)
		require.Equal(t, c.name, req.Name, short)
	}
}

func TestDecode(t *testing.T) {
	yes, val := true, "blue"
	img := []protocol.Image{{Data: "aGk=", MimeType: "image/png"}}
	for _, c := range []struct {
		line string
		want protocol.Command
	}{
		{`{"type":"abort"}`, protocol.Abort{}},
		{`  {"type":"abort","x":[1,{"type":"prompt"}]}  `, protocol.Abort{}},
		{`{"type":"prompt","type":"abort"}`, protocol.Abort{}}, // JSON.parse: the last of duplicates
		{`{"\u0074ype":"abort"}`, protocol.Abort{}},
		{`{"type":"prompt","message":""}`, protocol.Prompt{}},
		{`{"type":"prompt","message":"a\u2028b\u0000\ud83d\ude00"}`, protocol.Prompt{Message: "a\u2028b\x00😀"}},
		{"{\"type\":\"prompt\",\"message\":\"a\u2028b\u2029\"}", protocol.Prompt{Message: "a\u2028b\u2029"}},
		{`{"type":"prompt","message":"x","streamingBehavior":"follow-up"}`, protocol.Prompt{Message: "x", StreamingBehavior: protocol.BehaviorFollowUp}},
		{`{"type":"prompt","message":"x","streamingBehavior":null,"images":null}`, protocol.Prompt{Message: "x"}},
		{`{"type":"prompt","message":"x","images":[{"type":"image","data":"aGk=","mimeType":"image/png"}]}`, protocol.Prompt{Message: "x", Images: img}},
		{`{"type":"prompt","message":"x","images":[{"type":"image","source":{"type":"base64","mediaType":"image/png","data":"aGk="}}]}`, protocol.Prompt{Message: "x", Images: img}},
		{`{"type":"prompt","message":"x","images":[{"type":"image","source":{"type":"url","url":"data:image/png;base64,aGk="}}]}`, protocol.Prompt{Message: "x", Images: img}},
		{`{"type":"steer","message":"x","images":[{"type":"image","url":"data:image/png;base64,aGk="}]}`, protocol.Steer{Message: "x", Images: img}},
		{`{"type":"follow_up","message":"x","images":[{"type":"image","data":"data:image/png;base64,aGk="}]}`, protocol.FollowUp{Message: "x", Images: img}},
		{`{"type":"queue_message","message":"x","images":[{"type":"image","source":{"type":"url","url":"data:image/png;base64,aGk="}}]}`, protocol.QueueMessage{Message: "x", Images: img}},
		{`{"type":"abort_and_prompt","message":"x","images":[{"type":"image","source":{"type":"url","url":"data:image/png;base64,aGk="}}]}`, protocol.AbortAndPrompt{Message: "x", Images: img}},
		{`{"type":"prompt","message":"x","images":[{"type":"image","source":{"type":"url","url":"data:image/png;name=x;base64,aGk="}}]}`, protocol.Prompt{Message: "x", Images: img}},
		{`{"type":"prompt","message":"x","images":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}]}`, protocol.Prompt{Message: "x", Images: img}},
		{`{"type":"steer","message":"x","images":[{"type":"image","data":"data:image/png;base64,aGk="}]}`, protocol.Steer{Message: "x", Images: img}},
		{`{"type":"bash","command":"ls","excludeFromContext":true}`, protocol.Bash{Command: "ls", ExcludeFromContext: true}},
		{`{"type":"set_session_name","name":" a\r\n b\u2028c "}`, protocol.SetSessionName{Name: "a b c"}},
		{`{"type":"extension_ui_response","requestId":"u1","confirmed":true}`, protocol.ExtensionUIResponse{ID: "u1", RequestID: "u1", Confirmed: &yes}},
		{`{"type":"extension_ui_response","id":"u1","value":"blue"}`, protocol.ExtensionUIResponse{ID: "u1", Value: &val}},
	} {
		req, err := Decode([]byte(c.line))
		require.Nil(t, err, c.line)
		require.Equal(t, c.want, req.Cmd, c.line)
	}
}

func TestDecode_id(t *testing.T) {
	for _, id := range []string{`"x"`, `7`, `null`, `{"a":1}`, `""`, `[1, 2]`, `1e5`, `"\u00e9\ud800"`} {
		req, err := Decode([]byte(`{"id":` + id + `,"type":"abort","sessionId":"s1"}`))
		require.Nil(t, err)
		require.Equal(t, id, string(req.ID))
		require.Equal(t, "s1", req.SessionID)
	}
}

// TestDecode_ownership: what was decoded does not change with the line.
func TestDecode_ownership(t *testing.T) {
	line := []byte(`{"id":"abc","type":"prompt","message":"hello"}`)
	req, err := Decode(line)
	require.Nil(t, err)
	for i := range line {
		line[i] = 'X'
	}
	require.Equal(t, `"abc"`, string(req.ID))
	require.Equal(t, protocol.Prompt{Message: "hello"}, req.Cmd)
}

func TestTooLong(t *testing.T) {
	in := `{"id":"big","type":"prompt","message":"` + strings.Repeat("x", 10_000) + `"}` + "\n"
	_, err := NewLineReader(strings.NewReader(in), 1000).Next()
	req, e := err.(*LineTooLongError).Refusal()
	require.Equal(t, `"big"`, string(req.ID))
	require.Equal(t, "Failed to parse command: line of 10041 bytes exceeds the limit of 1000 bytes", e.Message)
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"id":1,"type":"prompt","message":"x","images":[{"type":"image","data":"aGk=","mimeType":"image/png"}]}`,
		`{"type":"get_entries","limit":5}`, `null`, `[`, `{"type":7}`, "\xff", `{"id":"\ud800","type":"abort"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		before := bytes.Clone(line)
		req, err := Decode(bytes.Clone(line))
		if err == nil {
			require.True(t, utf8.Valid(before) && json.Valid(before), "accepted what is no JSON")
			require.NotNil(t, req.Cmd)
			require.NotNil(t, req.Spec)
		}
		if req.ID != nil {
			require.True(t, json.Valid(req.ID), "id is no JSON: %q", req.ID)
		}
		out := NewEncoder(protocol.Wire{}, "").AppendResponse(nil, protocol.Response{ID: req.ID, Command: req.Name, Err: err})
		require.True(t, json.Valid(out) && utf8.Valid(out), "response: %s", out)
	})
}

// TestDecode_everyCommand decodes each row with every parameter given.
func TestDecode_everyCommand(t *testing.T) {
	for _, s := range protocol.Commands {
		line := map[string]any{"type": s.Name, "id": "i"}
		for _, f := range s.Parameters() {
			line[f.Name] = sampleOf(s.Params.Field(f.Index).Type, f)
		}
		raw, err := json.Marshal(line)
		require.NoError(t, err)
		req, e := Decode(raw)
		require.Nil(t, e, "%s: %s", s.Name, raw)
		require.Equal(t, s.Params, reflect.TypeOf(req.Cmd))
	}
}

func sampleOf(t reflect.Type, f protocol.Param) any {
	if len(f.Enum) > 0 {
		return f.Enum[0]
	}
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return true
	case reflect.Int:
		return f.Min + 1
	case reflect.Pointer:
		return sampleOf(t.Elem(), f)
	case reflect.Slice:
		if t == reflect.TypeFor[json.RawMessage]() {
			return map[string]any{"content": []any{}}
		}
		return []any{}
	}
	return map[string]any{}
}
