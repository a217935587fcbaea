package protocol

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestDecode_errors(t *testing.T) {
	for _, c := range []struct {
		line, id, name string
		code           Code
		text           string // a prefix when it ends in …
	}{
		{`{bad json`, ``, "parse", CodeParse, "Failed to parse command: …"},
		{`{"id":"x","type":"prompt","message":"a`, ``, "parse", CodeParse, "Failed to parse command: …"},
		{`{"type":"prompt","id":{"a":[1]},"message":}`, ``, "parse", CodeParse, "Failed to parse command: …"},
		{`{"a":{"id":"inner"},"b":`, ``, "parse", CodeParse, "Failed to parse command: …"},
		{"\ufeff{\"type\":\"abort\"}", ``, "parse", CodeParse, "Failed to parse command: …"},
		{"{\"type\":\"prompt\",\"message\":\"\xff\"}", ``, "parse", CodeParse, "Failed to parse command: invalid UTF-8 at byte 28"},
		{"{\"id\":4,\"type\":\"prompt\",\"message\":\"\xc3\x28\"}", ``, "parse", CodeParse, "Failed to parse command: invalid UTF-8 at byte 35"},
		{`{"type":"abort"} x`, ``, "parse", CodeParse, "Failed to parse command: …"},
		{`{"type":"abort"}{"type":"abort"}`, ``, "parse", CodeParse, "Failed to parse command: …"},
		{`{'type':'abort'}`, ``, "parse", CodeParse, "Failed to parse command: …"},
		{`{"type":"abort",}`, ``, "parse", CodeParse, "Failed to parse command: …"},
		{`{"type":"bash","command":"a` + "\x01" + `"}`, ``, "parse", CodeParse, "Failed to parse command: …"},
		{`{"n":NaN,"type":"abort"}`, ``, "parse", CodeParse, "Failed to parse command: …"},
		{strings.Repeat("[", 20_000_000), ``, "parse", CodeParse, "Failed to parse command: …"},
		{strings.Repeat(`{"a":`, 4_000_000), ``, "parse", CodeParse, "Failed to parse command: …"},

		{`{"id":"x1"}`, `"x1"`, "parse", CodeMissingType, "Missing command type"},
		{`{"id":7,"type":null}`, `7`, "parse", CodeMissingType, "Missing command type"},
		{`{"type":7}`, ``, "parse", CodeMissingType, "Missing command type"},
		{`{}`, ``, "parse", CodeMissingType, "Missing command type"},
		{`null`, ``, "parse", CodeMissingType, "Missing command type"},
		{`[1,2]`, ``, "parse", CodeMissingType, "Missing command type"},
		{`42`, ``, "parse", CodeMissingType, "Missing command type"},
		{`"str"`, ``, "parse", CodeMissingType, "Missing command type"},
		{`{"Type":"abort"}`, ``, "parse", CodeMissingType, "Missing command type"},

		{`{"type":"nope","id":"1"}`, `"1"`, "nope", CodeUnknownCommand, "Unknown command: nope"},
		{`{"type":""}`, ``, "", CodeUnknownCommand, "Unknown command: "},
		{`{"type":"Prompt"}`, ``, "Prompt", CodeUnknownCommand, "Unknown command: Prompt"},

		{`{"type":"prompt"}`, ``, "prompt", CodeInvalidParams, "Missing message"},
		{`{"type":"prompt","message":null}`, ``, "prompt", CodeInvalidParams, "Missing message"},
		{`{"type":"prompt","message":5}`, ``, "prompt", CodeInvalidParams, "message must be a string"},
		{`{"type":"prompt","message":["a"]}`, ``, "prompt", CodeInvalidParams, "message must be a string"},
		{`{"type":"prompt","message":"a","images":"x"}`, ``, "prompt", CodeInvalidParams, "images must be an array"},
		{`{"type":"prompt","message":"a","images":[5]}`, ``, "prompt", CodeInvalidParams, "Invalid image at index 0: not an object"},
		{`{"type":"prompt","message":"a","images":[{"type":"image","data":"aGk=","mimeType":"image/png"},{"type":"video"}]}`, ``, "prompt", CodeInvalidParams, `Invalid image at index 1: type "video" is not image`},
		{`{"type":"prompt","message":"a","images":[{"type":"image","data":"!!","mimeType":"image/png"}]}`, ``, "prompt", CodeInvalidParams, "Invalid image at index 0: data is not base64"},
		{`{"type":"prompt","message":"a","images":[{"type":"image","mimeType":"image/png"}]}`, ``, "prompt", CodeInvalidParams, "Invalid image at index 0: missing data"},
		{`{"type":"prompt","message":"a","images":[{"type":"image","data":"aGk="}]}`, ``, "prompt", CodeInvalidParams, "Invalid image at index 0: missing mimeType"},
		{`{"type":"prompt","message":"a","images":[{"type":"image","data":"aGk=","mimeType":"text/html"}]}`, ``, "prompt", CodeInvalidParams, `Invalid image at index 0: mimeType "text/html" is not an image`},
		{`{"type":"prompt","message":"a","images":[{"type":"image","source":{"type":"url","url":"data:image/png,x"}}]}`, ``, "prompt", CodeInvalidParams, "Invalid image at index 0: data URL without base64"},
		{`{"type":"prompt","message":"a","images":[{"type":"image","source":{"type":"url","url":"data:text/plain;base64,aGk="}}]}`, ``, "prompt", CodeInvalidParams, `Invalid image at index 0: mimeType "text/plain" is not an image`},
		{`{"type":"prompt","message":"a","images":[{"type":"image","source":{"type":"url"}}]}`, ``, "prompt", CodeInvalidParams, "Invalid image at index 0: URLs are not fetched; send the data"},
		{`{"type":"prompt","message":"a","images":[{"type":"image","url":"https://x/y.png"}]}`, ``, "prompt", CodeInvalidParams, "Invalid image at index 0: URLs are not fetched; send the data"},
		{`{"type":"prompt","message":"a","images":[{"type":"image","source":{"type":"url","url":"http://x/y.png"}}]}`, ``, "prompt", CodeInvalidParams, "Invalid image at index 0: URLs are not fetched; send the data"},
		{`{"type":"prompt","message":"a","streamingBehavior":7}`, ``, "prompt", CodeInvalidParams, "streamingBehavior must be a string"},
		{`{"type":"prompt","message":"a","streamingBehavior":"later"}`, ``, "prompt", CodeInvalidParams, "Invalid streamingBehavior: later"},
		{`{"type":"set_model","provider":"p"}`, ``, "set_model", CodeInvalidParams, "Missing modelId"},
		{`{"type":"set_model","modelId":"m"}`, ``, "set_model", CodeInvalidParams, "Missing provider"},
		{`{"type":"set_thinking_level"}`, ``, "set_thinking_level", CodeInvalidParams, "Missing level"},
		{`{"type":"set_thinking_level","level":"bogus"}`, ``, "set_thinking_level", CodeInvalidParams, "Invalid thinking level: bogus"},
		{`{"type":"set_steering_mode"}`, ``, "set_steering_mode", CodeInvalidParams, "Missing mode"},
		{`{"type":"set_steering_mode","mode":"zzz"}`, ``, "set_steering_mode", CodeInvalidParams, "Invalid steering mode"},
		{`{"type":"set_follow_up_mode","mode":"zzz"}`, ``, "set_follow_up_mode", CodeInvalidParams, "Invalid follow-up mode"},
		{`{"type":"set_queue_mode","mode":"zzz"}`, ``, "set_queue_mode", CodeInvalidParams, "Invalid queue mode"},
		{`{"type":"set_interrupt_mode","mode":"zzz"}`, ``, "set_interrupt_mode", CodeInvalidParams, "Invalid interrupt mode"},
		{`{"type":"set_auto_retry","enabled":"yes"}`, ``, "set_auto_retry", CodeInvalidParams, "enabled must be a boolean"},
		{`{"type":"set_auto_retry"}`, ``, "set_auto_retry", CodeInvalidParams, "Missing enabled"},
		{`{"type":"bash"}`, ``, "bash", CodeInvalidParams, "Missing command"},
		{`{"type":"switch_session"}`, ``, "switch_session", CodeInvalidParams, "Missing sessionPath"},
		{`{"type":"set_session_name"}`, ``, "set_session_name", CodeInvalidParams, "Missing name"},
		{`{"type":"set_session_name","name":" \n "}`, ``, "set_session_name", CodeInvalidParams, "Session name cannot be empty"},
		{`{"type":"abort","sessionId":5}`, ``, "abort", CodeInvalidParams, "Invalid sessionId: expected a string"},
		{`{"type":"extension_ui_response"}`, ``, "extension_ui_response", CodeInvalidParams, "Missing id"},
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
	img := []Image{{"aGk=", "image/png"}}
	for _, c := range []struct {
		line string
		want Command
	}{
		{`{"type":"abort"}`, Abort{}},
		{`  {"type":"abort","x":[1,{"type":"prompt"}]}  `, Abort{}},
		{`{"type":"prompt","type":"abort"}`, Abort{}}, // JSON.parse: the last of duplicates
		{`{"\u0074ype":"abort"}`, Abort{}},
		{`{"type":"prompt","message":""}`, Prompt{}},
		{`{"type":"prompt","message":"a\u2028b\u0000\ud83d\ude00"}`, Prompt{Message: "a\u2028b\x00😀"}},
		{"{\"type\":\"prompt\",\"message\":\"a\u2028b\u2029\"}", Prompt{Message: "a\u2028b\u2029"}},
		{`{"type":"prompt","message":"x","streamingBehavior":"follow-up"}`, Prompt{Message: "x", StreamingBehavior: BehaviorFollowUp}},
		{`{"type":"prompt","message":"x","streamingBehavior":null,"images":null}`, Prompt{Message: "x"}},
		{`{"type":"prompt","message":"x","images":[{"type":"image","data":"aGk=","mimeType":"image/png"}]}`, Prompt{Message: "x", Images: img}},
		{`{"type":"prompt","message":"x","images":[{"type":"image","source":{"type":"base64","mediaType":"image/png","data":"aGk="}}]}`, Prompt{Message: "x", Images: img}},
		{`{"type":"prompt","message":"x","images":[{"type":"image","source":{"type":"url","url":"data:image/png;base64,aGk="}}]}`, Prompt{Message: "x", Images: img}},
		{`{"type":"steer","message":"x","images":[{"type":"image","url":"data:image/png;base64,aGk="}]}`, Steer{Message: "x", Images: img}},
		{`{"type":"follow_up","message":"x","images":[{"type":"image","data":"data:image/png;base64,aGk="}]}`, FollowUp{Message: "x", Images: img}},
		{`{"type":"queue_message","message":"x","images":[{"type":"image","source":{"type":"url","url":"data:image/png;base64,aGk="}}]}`, QueueMessage{Message: "x", Images: img}},
		{`{"type":"abort_and_prompt","message":"x","images":[{"type":"image","source":{"type":"url","url":"data:image/png;base64,aGk="}}]}`, AbortAndPrompt{Message: "x", Images: img}},
		{`{"type":"prompt","message":"x","images":[{"type":"image","source":{"type":"url","url":"data:image/png;name=x;base64,aGk="}}]}`, Prompt{Message: "x", Images: img}},
		{`{"type":"prompt","message":"x","images":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}]}`, Prompt{Message: "x", Images: img}},
		{`{"type":"steer","message":"x","images":[{"type":"image","data":"data:image/png;base64,aGk="}]}`, Steer{Message: "x", Images: img}},
		{`{"type":"bash","command":"ls","excludeFromContext":true}`, Bash{Command: "ls", ExcludeFromContext: true}},
		{`{"type":"set_session_name","name":" a\r\n b\u2028c "}`, SetSessionName{Name: "a b c"}},
		{`{"type":"extension_ui_response","requestId":"u1","confirmed":true}`, ExtensionUIResponse{ID: "u1", RequestID: "u1", Confirmed: &yes}},
		{`{"type":"extension_ui_response","id":"u1","value":"blue"}`, ExtensionUIResponse{ID: "u1", Value: &val}},
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
	require.Equal(t, Prompt{Message: "hello"}, req.Cmd)
}

func TestTooLong(t *testing.T) {
	in := `{"id":"big","type":"prompt","message":"` + strings.Repeat("x", 10_000) + `"}` + "\n"
	_, err := NewLineReader(strings.NewReader(in), 1000).Next()
	req, e := TooLong(err.(*LineTooLongError))
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
		out := Response{ID: req.ID, Command: req.Name, Err: err}.AppendJSON(nil)
		require.True(t, json.Valid(out) && utf8.Valid(out), "response: %s", out)
	})
}

// TestTable checks what every row must have.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range Commands {
		require.False(t, seen[s.Name], "%s twice", s.Name)
		seen[s.Name] = true
		require.NotEmpty(t, s.Doc, s.Name)
		require.NotEmpty(t, s.Since, s.Name)
		require.Same(t, Lookup(s.Name), Lookup(s.Name))
		for _, f := range s.fields() {
			require.NotEmpty(t, f.name, "%s", s.Params)
			require.NotEmpty(t, f.doc, "%s.%s needs a doc tag", s.Params, f.name)
		}
		if s.Result != nil {
			zero := reflect.New(s.Result)
			if s.Result.Kind() == reflect.Pointer {
				zero.Elem().Set(reflect.New(s.Result.Elem()))
			}
			out := AppendValue(nil, zero.Elem().Interface())
			require.True(t, json.Valid(out), "%s: %s", s.Name, out)
		}
	}
	for _, e := range Events {
		require.NotEmpty(t, e.Doc, e.Name)
		require.NotEmpty(t, e.Since, e.Name)
	}
}

// TestDecode_everyCommand decodes each row with every parameter given.
func TestDecode_everyCommand(t *testing.T) {
	for _, s := range Commands {
		line := map[string]any{"type": s.Name, "id": "i"}
		for _, f := range s.fields() {
			line[f.name] = sampleOf(s.Params.Field(f.index).Type, f)
		}
		raw, err := json.Marshal(line)
		require.NoError(t, err)
		req, e := Decode(raw)
		require.Nil(t, e, "%s: %s", s.Name, raw)
		require.Equal(t, s.Params, reflect.TypeOf(req.Cmd))
	}
}

func sampleOf(t reflect.Type, f field) any {
	if len(f.enum) > 0 {
		return f.enum[0]
	}
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return true
	case reflect.Int:
		return f.min + 1
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

// TestRecords_samples reads files that pi wrote and writes them again: nothing
// may be lost.
func TestRecords_samples(t *testing.T) {
	files, err := os.ReadDir("testdata")
	require.NoError(t, err)
	lines := 0
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".jsonl") || strings.Contains(file.Name(), "v1-input") {
			continue
		}
		raw, err := os.ReadFile("testdata/" + file.Name())
		require.NoError(t, err)
		for i, line := range strings.Split(strings.TrimSpace(string(raw)), "\n") {
			if i == 0 {
				continue // the header
			}
			r, err := DecodeRecord([]byte(line))
			require.NoError(t, err, "%s:%d", file.Name(), i+1)
			again, err := DecodeRecord(r.AppendJSON(nil))
			require.NoError(t, err)
			require.Equal(t, r, again, "%s:%d", file.Name(), i+1)
			if _, unknown := r.Entry.(UnknownEntry); unknown {
				require.Equal(t, line, string(r.AppendJSON(nil)))
			}
			requireContains(t, line, string(r.AppendJSON(nil)))
			lines++
		}
	}
	require.Greater(t, lines, 60)
}

// requireContains: every member that we know of the first object is in the
// second with the same value. Members of newer versions may be missing: the
// store keeps the line itself.
func requireContains(t *testing.T, want, got string) {
	var w, g map[string]any
	require.NoError(t, json.Unmarshal([]byte(want), &w))
	require.NoError(t, json.Unmarshal([]byte(got), &g))
	for k, v := range g {
		if _, text := w[k].(string); k == "message" || k == "usage" || k == "fromHook" || k == "content" && text {
			continue // looked into below, or written in another form
		}
		require.Equal(t, w[k], v, k)
	}
	if m, ok := g["message"].(map[string]any); ok {
		for k, v := range m {
			if _, text := w["message"].(map[string]any)[k].(string); k == "usage" || k == "content" && text {
				continue
			}
			require.Equal(t, w["message"].(map[string]any)[k], v, k)
		}
	}
}

func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{
		"": "", " ": "", "a": "a", "a b": "a b", "a  b": "a b", " a": "a", "a ": "a", "a\tb": "a b", "a\x00b": "a\x00b",
		"é  b": "é b", "é b": "é b", "a\u0085b": "a b", "a\u2028\u2029b": "a b", "a\u00a0b": "a b", "\r\n": "", "ab c d": "ab c d",
	} {
		require.Equal(t, want, oneLine(in), "%q", in)
	}
}

// TestRecordTwice: of duplicate members the last counts, as in pi.
func TestRecordTwice(t *testing.T) {
	r, err := DecodeRecord([]byte(`{"type":"custom","type":"message","id":"1","id":"2","parentId":"1","parentId":null,"timestamp":"a","timestamp":"b",` +
		`"message":{"role":"assistant"},"message":{"role":"user","content":"last","timestamp":1}}`))
	require.NoError(t, err)
	require.Equal(t, EntryMeta{ID: "2", Timestamp: "b"}, r.EntryMeta)
	require.Equal(t, "last", r.Entry.(MessageEntry).Message.(*UserMessage).Content.Text(""))
}
