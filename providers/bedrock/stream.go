package bedrock

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"troupe/protocol"
	"troupe/providers/wire"
)

// decoder reads one answer. Only tool calls announce their blocks; others begin
// with their first delta.
type decoder struct {
	out    *wire.Parts
	blocks map[int64]*blockState
	stop   string // stopReason, once there is one
}

// blockState is a block between its beginning and its stop.
type blockState struct {
	part      int // its index among the parts
	kind      protocol.BlockKind
	signature strings.Builder
	redacted  bool
}

// Event implements [wire.Decoder].
func (d *decoder) Event(name string, data gjson.Result) error {
	index := data.Get("contentBlockIndex").Int()
	switch name {
	case "messageStart":
		d.out.Start("", "")
	case "contentBlockStart":
		if call := data.Get("start.toolUse"); call.IsObject() {
			d.call(index, call)
		}
	case "contentBlockDelta":
		d.delta(index, data.Get("delta"))
	case "contentBlockStop":
		d.close(index)
	case "messageStop":
		d.stop = data.Get("stopReason").Str
		if d.stop == "" {
			return protocol.ErrorServer.Errorf("Broken answer: messageStop without a stopReason")
		}
		d.out.Closing() // metadata is still to come
	case "metadata":
		d.usage(data.Get("usage"))
		if d.stop != "" {
			return d.finish()
		}
	default:
		if strings.HasPrefix(name, wire.ExceptionEvent) {
			return wire.ClassifyEvent([]byte(data.Raw))
		}
	} // and whatever comes next
	return nil
}

// End implements [wire.Decoder]: only messageStop ends an answer.
func (d *decoder) End(bool) error {
	if d.stop == "" {
		return wire.CutStream("messageStop")
	}
	return d.finish()
}

func (d *decoder) call(index int64, call gjson.Result) {
	id := cmp.Or(call.Get("toolUseId").Str, "call_"+strconv.Itoa(d.out.Len()))
	d.open(index, protocol.BlockToolCall, id, call.Get("name").Str)
}

// open begins a block. An index that is taken begins another one.
func (d *decoder) open(index int64, kind protocol.BlockKind, id, name string) *blockState {
	d.close(index)
	b := &blockState{kind: kind, part: d.out.Open(kind, id, name)}
	d.blocks[index] = b
	return b
}

// block is the block of an index, of this kind.
func (d *decoder) block(index int64, kind protocol.BlockKind) *blockState {
	if b := d.blocks[index]; b != nil && b.kind == kind {
		return b
	}
	return d.open(index, kind, "", "")
}

func (d *decoder) delta(index int64, delta gjson.Result) {
	if text := delta.Get("text"); text.Exists() {
		d.out.Delta(d.block(index, protocol.BlockText).part, wire.String(text))
	}
	if input := delta.Get("toolUse.input"); input.Exists() {
		if b := d.blocks[index]; b != nil && b.kind == protocol.BlockToolCall {
			d.out.Delta(b.part, wire.String(input))
		}
	}
	thought := delta.Get("reasoningContent")
	if !thought.IsObject() {
		return
	}
	b := d.block(index, protocol.BlockThinking)
	d.out.Delta(b.part, wire.String(thought.Get("text")))
	b.signature.WriteString(thought.Get("signature").Str)
	if redacted := thought.Get("redactedContent"); redacted.Exists() {
		b.redacted = true
		b.signature.WriteString(redacted.Str)
	}
	d.out.Alive()
}

func (d *decoder) close(index int64) {
	b := d.blocks[index]
	if b == nil {
		return
	}
	delete(d.blocks, index)
	end := protocol.PartBlockEnd{Redacted: b.redacted}
	if b.kind == protocol.BlockThinking {
		end.Signature = b.signature.String()
	}
	d.out.Close(b.part, end)
}

// usage takes the counts; tokens of the cache are not among the input's.
func (d *decoder) usage(u gjson.Result) {
	if !u.IsObject() {
		return
	}
	count := func(name string) int64 { return max(u.Get(name).Int(), 0) }
	hour := int64(0)
	u.Get("cacheDetails").ForEach(func(_, detail gjson.Result) bool {
		if detail.Get("ttl").Str == "1h" {
			hour += max(detail.Get("inputTokens").Int(), 0)
		}
		return true
	})
	d.out.UsageHour(protocol.Usage{
		Input: count("inputTokens"), Output: count("outputTokens"),
		CacheRead: count("cacheReadInputTokens"), CacheWrite: count("cacheWriteInputTokens"),
	}, hour)
}

// finish ends the answer as its stop reason says.
func (d *decoder) finish() error {
	for _, index := range slices.Sorted(maps.Keys(d.blocks)) {
		d.close(index)
	}
	switch d.stop {
	case "end_turn", "stop_sequence", "tool_use":
		d.out.Done(protocol.StopStop, d.stop)
	case "max_tokens":
		d.out.Done(protocol.StopLength, d.stop)
	case "model_context_window_exceeded":
		return d.out.Full(d.stop)
	case "guardrail_intervened", "content_filtered":
		return wire.Declined(d.stop, "")
	case "malformed_model_output", "malformed_tool_use":
		return protocol.ErrorServer.Errorf("The model's answer was broken (%s)", d.stop)
	default:
		return protocol.ErrorInternal.Errorf("Unknown stop reason %q", d.stop)
	}
	return nil
}
