package anthropic

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"troupe/protocol"
	"troupe/providers/wire"
)

// decoder reads one answer. Blocks carry the server's index, which may have
// gaps where a block is of a kind we do not know.
type decoder struct {
	out    *wire.Parts
	blocks map[int64]*blockState
	order  []*blockState
	usage  protocol.Usage
	hour   int64  // of usage.CacheWrite, the tokens that stay for an hour
	stop   string // stop_reason, once there is one
	why    string // the explanation of a refusal
}

// blockState is a block between its start and its stop.
type blockState struct {
	part      int // its index among the parts
	kind      protocol.BlockKind
	signature strings.Builder
	redacted  bool
	input     string // arguments given whole at the start
	grew      bool   // arguments came in deltas
}

var (
	eventMembers = []string{"type", "index", "delta", "content_block"}
	deltaMembers = []string{"type", "signature", "text", "thinking", "partial_json"}
)

// Event implements [wire.Decoder].
func (d *decoder) Event(name string, data gjson.Result) error {
	var kind, at, delta, start gjson.Result
	protocol.Members(data, eventMembers, &kind, &at, &delta, &start) // in one pass: most events are deltas
	index := at.Int()
	switch cmp.Or(kind.Str, name) {
	case "content_block_delta":
		d.delta(index, delta)
	case "content_block_start":
		d.open(index, start)
	case "content_block_stop":
		if b := d.blocks[index]; b != nil {
			d.close(b)
			delete(d.blocks, index) // some servers give all blocks the same index
		}
	case "message_start":
		d.out.Start(data.Get("message.id").Str, data.Get("message.model").Str)
		d.addUsage(data.Get("message.usage"))
	case "message_delta":
		d.addUsage(data.Get("usage"))
		if stop := data.Get("delta.stop_reason"); stop.Type == gjson.String {
			d.stop = stop.Str
			d.out.Alive()
			d.why = data.Get("delta.stop_details.explanation").Str
		}
	case "message_stop":
		return d.finish()
	case "error":
		return wire.ClassifyEvent([]byte(data.Raw))
	} // ping, and whatever comes next
	return nil
}

// End implements [wire.Decoder]: only message_stop ends an answer.
func (d *decoder) End(bool) error { return wire.CutStream("message_stop") }

func (d *decoder) open(index int64, start gjson.Result) {
	b := &blockState{}
	id, name := "", ""
	switch start.Get("type").Str {
	case "text":
	case "thinking":
		b.kind = protocol.BlockThinking
		b.signature.WriteString(start.Get("signature").Str)
	case "redacted_thinking":
		b.kind, b.redacted = protocol.BlockThinking, true
		b.signature.WriteString(start.Get("data").Str)
	case "tool_use":
		b.kind = protocol.BlockToolCall
		id, name = start.Get("id").Str, start.Get("name").Str
		id = cmp.Or(id, "call_"+strconv.Itoa(d.out.Len()))
		if input := start.Get("input"); input.IsObject() && input.Raw != "{}" {
			b.input = input.Raw
		}
	default: // a server-side tool or something newer: not ours to show
		return
	}
	d.add(index, b, id, name)
	d.out.Delta(b.part, wire.String(start.Get("text")))
	d.out.Delta(b.part, wire.String(start.Get("thinking")))
}

func (d *decoder) add(index int64, b *blockState, id, name string) {
	b.part = d.out.Open(b.kind, id, name)
	d.blocks[index] = b
	d.order = append(d.order, b)
}

func (d *decoder) delta(index int64, delta gjson.Result) {
	var kind, signature, prose, thought, args gjson.Result
	protocol.Members(delta, deltaMembers, &kind, &signature, &prose, &thought, &args)
	b := d.blocks[index]
	if b == nil || kind.Str == "text_delta" && b.kind != protocol.BlockText || kind.Str == "thinking_delta" && b.kind != protocol.BlockThinking {
		if b = d.unannounced(index, kind.Str); b == nil {
			return
		}
	}
	switch kind.Str {
	case "text_delta":
		d.out.Delta(b.part, wire.String(prose))
	case "thinking_delta":
		d.out.Delta(b.part, wire.String(thought))
	case "input_json_delta":
		b.grew = b.grew || args.Str != ""
		d.out.Delta(b.part, wire.String(args))
	case "signature_delta":
		b.signature.WriteString(signature.Str)
		d.out.Alive()
	} // citations_delta says nothing that a message can hold
}

// unannounced opens a block whose start never came: some servers skip it.
func (d *decoder) unannounced(index int64, kind string) *blockState {
	b := &blockState{}
	switch kind {
	case "text_delta":
	case "thinking_delta":
		b.kind = protocol.BlockThinking
	default:
		return nil
	}
	d.add(index, b, "", "")
	return b
}

func (d *decoder) close(b *blockState) {
	if b.input != "" && !b.grew {
		d.out.Delta(b.part, b.input)
	}
	end := protocol.PartBlockEnd{Redacted: b.redacted}
	if b.kind == protocol.BlockThinking {
		end.Signature = b.signature.String()
	}
	d.out.Close(b.part, end)
}

// addUsage takes the counts that are there; later ones replace earlier ones.
func (d *decoder) addUsage(u gjson.Result) {
	if !u.IsObject() {
		return
	}
	for path, dst := range map[string]*int64{
		"input_tokens":                &d.usage.Input,
		"output_tokens":               &d.usage.Output,
		"cache_read_input_tokens":     &d.usage.CacheRead,
		"cache_creation_input_tokens": &d.usage.CacheWrite,
	} {
		if n := u.Get(path); n.Type == gjson.Number && n.Int() >= 0 {
			*dst = n.Int()
		}
	}
	if n := u.Get("cache_creation.ephemeral_1h_input_tokens"); n.Type == gjson.Number {
		d.hour = n.Int()
	}
	d.out.UsageHour(d.usage, d.hour)
}

// finish ends the answer as its stop reason says.
func (d *decoder) finish() error {
	for _, b := range d.order {
		d.close(b)
	}
	switch d.stop {
	case "max_tokens":
		d.out.Done(protocol.StopLength, d.stop)
	case "end_turn", "stop_sequence", "pause_turn", "tool_use", "":
		d.out.Done(protocol.StopStop, d.stop)
	case "model_context_window_exceeded":
		return d.out.Full(d.stop)
	case "refusal", "sensitive":
		return wire.Declined(d.stop, d.why)
	default:
		return protocol.ErrorInternal.Errorf("Unknown stop reason %q", d.stop)
	}
	return nil
}
