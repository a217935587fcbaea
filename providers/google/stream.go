package google

import (
	"crypto/rand"
	"strconv"

	"github.com/tidwall/gjson"

	"troupe/protocol"
	"troupe/providers/wire"
)

// decoder reads one answer. Text and thinking come in pieces, one block after
// the other; a call comes whole.
type decoder struct {
	out *wire.Parts

	id     string // of the response
	calls  int
	usage  protocol.Usage
	finish string // finishReason, once there is one
	why    string // what the service says about it

	open      bool // a text or thinking grows at the moment
	part      int
	kind      protocol.BlockKind
	signature string // the last that came with the open block
}

// Event implements [wire.Decoder].
func (d *decoder) Event(_ string, data gjson.Result) error {
	if data.Get("error").IsObject() {
		return wire.ClassifyEvent([]byte(data.Raw))
	}
	if reason := data.Get("promptFeedback.blockReason").Str; reason != "" {
		return wire.Declined(reason, data.Get("promptFeedback.blockReasonMessage").Str)
	}
	if id := data.Get("responseId").Str; id != "" && d.id == "" {
		d.id = id
	}
	candidate := data.Get("candidates.0")
	if candidate.IsObject() {
		d.out.Start(d.id, "")
	}
	candidate.Get("content.parts").ForEach(func(_, part gjson.Result) bool {
		d.add(part)
		return true
	})
	if usage := data.Get("usageMetadata"); usage.IsObject() {
		if u := usageOf(usage); u != d.usage { // every event repeats the counts
			d.usage = u
			d.out.Usage(u)
		}
	}
	if finish := candidate.Get("finishReason").Str; finish != "" {
		d.finish, d.why = finish, candidate.Get("finishMessage").Str
		d.out.Closing()
	}
	return nil
}

// add reads one part of the answer.
func (d *decoder) add(part gjson.Result) {
	signature := part.Get("thoughtSignature").Str
	if call := part.Get("functionCall"); call.IsObject() {
		d.call(call, signature)
		return
	}
	text := part.Get("text")
	if text.Type != gjson.String {
		d.out.Alive() // an image, code that ran, or something newer: not ours to show
		return
	}
	kind := protocol.BlockText
	if part.Get("thought").Bool() {
		kind = protocol.BlockThinking
	}
	if text.Str == "" && signature == "" {
		return
	}
	if !d.open || d.kind != kind {
		d.close()
		d.open, d.kind, d.part = true, kind, d.out.Open(kind, "", "")
	}
	if signature != "" {
		d.signature = signature
		d.out.Alive()
	}
	d.out.Delta(d.part, wire.String(text))
}

// close ends the open text or thinking.
func (d *decoder) close() {
	if d.open {
		d.out.Close(d.part, protocol.PartBlockEnd{Signature: d.signature})
		d.open, d.signature = false, ""
	}
}

func (d *decoder) call(v gjson.Result, signature string) {
	d.close()
	name := wire.String(v.Get("name"))
	id := wire.String(v.Get("id"))
	if id == "" {
		id = d.newID(name)
	}
	d.calls++
	part := d.out.Open(protocol.BlockToolCall, id, name)
	args := "{}"
	if v := v.Get("args"); v.IsObject() {
		args = v.Raw
	}
	d.out.Delta(part, args)
	d.out.Close(part, protocol.PartBlockEnd{Signature: signature})
}

// newID names a call, which the service does not. Clients tell calls of a whole
// session apart by it, so it holds the id of the response.
func (d *decoder) newID(name string) string {
	if d.id == "" {
		d.id = rand.Text()
	}
	return wire.SafeID(name, 24, 0) + "_" + wire.SafeID(d.id, 32, 0) + "_" + strconv.Itoa(d.calls)
}

// usageOf counts the tokens of an answer. Cached tokens are part of the prompt,
// thoughts are no part of the candidates.
func usageOf(v gjson.Result) protocol.Usage {
	count := func(path string) int64 { return max(v.Get(path).Int(), 0) }
	cached := count("cachedContentTokenCount")
	return protocol.Usage{
		Input:     max(count("promptTokenCount")-cached, 0) + count("toolUsePromptTokenCount"),
		Output:    count("candidatesTokenCount") + count("thoughtsTokenCount"),
		CacheRead: cached,
	}
}

// End implements [wire.Decoder]. The service just ends the stream; the
// finish reason makes an answer complete.
func (d *decoder) End(bool) error {
	d.close()
	switch d.finish {
	case "":
		return wire.CutStream("finishReason")
	case "STOP":
		d.out.Done(protocol.StopStop, d.finish)
	case "MAX_TOKENS":
		d.out.Done(protocol.StopLength, d.finish)
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "MODEL_ARMOR",
		"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION":
		return wire.Declined(d.finish, d.why)
	case "MISSING_THOUGHT_SIGNATURE":
		return protocol.ErrorInvalid.Errorf("%s", d.explain("The provider misses a signature"))
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE",
		"NO_IMAGE", "IMAGE_OTHER", "OTHER", "FINISH_REASON_UNSPECIFIED":
		// The model lost its way, not the request: asking again usually helps.
		return protocol.ErrorServer.Errorf("%s", d.explain("The provider broke off the answer"))
	default:
		return protocol.ErrorInternal.Errorf("%s", d.explain("Unknown finish reason"))
	}
	return nil
}

func (d *decoder) explain(what string) string {
	if d.why != "" {
		return what + ": " + d.finish + ": " + d.why
	}
	return what + ": " + d.finish
}
