package responses

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"troupe/protocol"
	"troupe/providers/wire"
)

// appendInput appends the conversation as items, the system prompt first.
func (e *encoder) appendInput(b []byte) []byte {
	if strings.TrimSpace(e.req.System) != "" {
		role := "system"
		if e.compat.RequiresDeveloperRole || e.req.Model.Reasoning && e.compat.SupportsDeveloperRole {
			role = "developer"
		}
		b = append(wire.Str(b, `{"role":"`+role+`","content":`, e.req.System), '}')
	}
	for _, m := range e.messages {
		switch m := m.(type) {
		case *protocol.UserMessage:
			b = append(e.next(b), `{"role":"user","content":`...)
			b = append(appendContent(b, m.Content), '}')
		case *protocol.AssistantMessage:
			b = e.appendAnswer(b, m.Content)
		case *protocol.ToolResultMessage:
			b = e.appendResult(b, m)
		default: // Convert leaves no others
		}
	}
	return b
}

// next begins one more item.
func (e *encoder) next(b []byte) []byte {
	e.count++
	if b[len(b)-1] != '[' {
		b = append(b, ',')
	}
	return b
}

// appendContent writes what a user or a tool says.
func appendContent(b []byte, content protocol.Content) []byte {
	sep := byte('[')
	for _, block := range content {
		b = append(b, sep)
		sep = ','
		switch block := block.(type) {
		case protocol.Text:
			b = wire.Str(b, `{"type":"input_text","text":`, block.Text)
		case protocol.Image:
			b = wire.Str(b, `{"type":"input_image","detail":"auto","image_url":`, "data:"+block.MimeType+";base64,"+block.Data)
		case protocol.Thinking, protocol.ToolCall, protocol.UnknownBlock: // Convert leaves none where input stands
		}
		b = append(b, '}')
	}
	return append(b, ']')
}

// appendResult writes a tool result: a string, or parts if there are images.
func (e *encoder) appendResult(b []byte, m *protocol.ToolResultMessage) []byte {
	call, _, _ := strings.Cut(m.ToolCallID, "|")
	b = append(e.next(b), `{"type":"function_call_output","call_id":`...)
	b = protocol.AppendString(b, call)
	b = append(b, `,"output":`...)
	if len(m.Content.Images()) > 0 {
		b = appendContent(b, m.Content)
	} else {
		b = protocol.AppendString(b, wire.TextOf(m.Content, "\n"))
	}
	return append(b, '}')
}

// appendAnswer writes the items of an answer. The service wants every reasoning
// item to be followed by the item it led to, and an item that it knows by its id
// to be preceded by its reasoning. So reasoning waits until something follows,
// and where reasoning cannot be sent back, what it led to goes without its id.
func (e *encoder) appendAnswer(b []byte, content protocol.Content) []byte {
	var waiting []json.RawMessage
	paired := true
	begin := func() {
		for _, reasoning := range waiting {
			b = append(e.next(b), reasoning...)
		}
		waiting = nil
		b = e.next(b)
	}
	for _, block := range content {
		switch block := block.(type) {
		case protocol.Thinking:
			reasoning, ok := e.reasoning(block.Signature)
			if paired = ok; ok {
				waiting = append(waiting, reasoning)
			}
		case protocol.Text:
			if strings.TrimSpace(block.Text) != "" {
				begin()
				b = e.appendText(b, block, paired)
			}
		case protocol.ToolCall:
			begin()
			b = appendCall(b, block, paired)
		case protocol.Image, protocol.UnknownBlock: // Convert leaves none in an answer
		}
	}
	return b
}

// reasoning is the item that a signature holds, if it can go back: it needs an
// id of its own, and its content, because nothing is stored at the service.
func (e *encoder) reasoning(signature string) (json.RawMessage, bool) {
	if !json.Valid([]byte(signature)) {
		return nil, false
	}
	v := gjson.Parse(signature)
	if v.Get("type").Str != "reasoning" || v.Get("encrypted_content").Str == "" && len(v.Get("content").Array()) == 0 {
		return nil, false
	}
	if !e.claim(v.Get("id").Str) {
		return nil, false
	}
	return wire.CleanObject(json.RawMessage(signature)), true
}

func (e *encoder) appendText(b []byte, text protocol.Text, paired bool) []byte {
	id, phase := textSignature(text.Signature)
	if !paired || !strings.HasPrefix(id, "msg") || !e.claim(id) {
		id = e.newMessageID(id, paired)
	}
	b = wire.Str(b, `{"type":"message","role":"assistant","status":"completed","id":`, id)
	if phase != "" {
		b = wire.Str(b, `,"phase":`, phase)
	}
	b = wire.Str(b, `,"content":[{"type":"output_text","annotations":[],"text":`, text.Text)
	return append(b, `}]}`...)
}

// newMessageID makes an id for a text that has none that can be sent: a hash of
// one that is only too long, else a number. Strict servers insist on an id.
func (e *encoder) newMessageID(id string, paired bool) string {
	if paired && len(id) > maxID {
		if hashed := "msg_" + wire.HashID(id, 12, 0); e.claim(hashed) {
			return hashed
		}
	}
	for n := e.count; ; n++ {
		if made := "msg_" + strconv.Itoa(n); e.claim(made) {
			return made
		}
	}
}

// textSignature reads the signature of a text: JSON as [signText] writes it, or
// just the id, as older session files have it.
func textSignature(signature string) (id, phase string) {
	if !strings.HasPrefix(signature, "{") {
		return signature, ""
	}
	if !json.Valid([]byte(signature)) {
		return "", ""
	}
	v := gjson.Parse(signature)
	return v.Get("id").Str, v.Get("phase").Str
}

// signText is the signature of a text: the id of its item, and the phase of the
// work that it belongs to, if the model tells one.
func signText(id, phase string) string {
	if id == "" {
		return ""
	}
	b := append([]byte(`{"v":1,"id":`), protocol.AppendString(nil, id)...)
	if phase != "" {
		b = wire.Str(b, `,"phase":`, phase)
	}
	return string(append(b, '}'))
}

func appendCall(b []byte, call protocol.ToolCall, paired bool) []byte {
	callID, itemID, _ := strings.Cut(call.ID, "|")
	b = wire.Str(b, `{"type":"function_call","call_id":`, callID)
	if itemID != "" && paired {
		b = wire.Str(b, `,"id":`, itemID)
	}
	b = wire.Str(b, `,"name":`, call.Name)
	b = wire.Str(b, `,"arguments":`, string(call.Arguments))
	return append(b, '}')
}
