package responses

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"troupe/protocol"
	"troupe/providers/wire"
)

// decoder reads one answer: items, which open, grow and close each by itself,
// and an event that ends the whole.
type decoder struct {
	out   *wire.Parts
	items map[string]*item // the newest by key
	order []*item
}

// item is one item of the answer that becomes a block.
type item struct {
	part   int // its index among the parts
	kind   protocol.BlockKind
	id     string // the service's id of the item
	call   string // a call's own id
	phase  string // of a text
	key    string // of its first event
	custom bool   // a call whose input is a text and no JSON: it is known when the item is done
	named  bool   // it was announced: its ids are known
	grew   bool   // something of it was streamed
	gap    bool   // the next piece of thinking begins a new paragraph
	closed bool
}

// Event implements [wire.Decoder].
func (d *decoder) Event(name string, data gjson.Result) error {
	switch kind := cmp.Or(data.Get("type").Str, name); kind {
	case "response.output_text.delta", "response.refusal.delta":
		d.grow(data, protocol.BlockText)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta", "response.reasoning.delta":
		d.grow(data, protocol.BlockThinking)
	case "response.function_call_arguments.delta":
		d.grow(data, protocol.BlockToolCall)
	case "response.function_call_arguments.done":
		if it := d.item(data); it != nil && !it.grew && !it.custom {
			d.add(it, wire.String(data.Get("arguments")))
		}
	case "response.reasoning_summary_part.added":
		if it := d.item(data); it != nil {
			it.gap = it.grew
		}
		d.out.Alive()
	case "response.output_item.added":
		d.announce(data)
		d.out.Alive()
	case "response.output_item.done":
		d.whole(d.same(data), key(data), data.Get("item"))
		d.out.Alive()
	case "response.created":
		d.out.Start(data.Get("response.id").Str, "") // pi does not tell the name either
	case "response.completed", "response.incomplete", "response.done":
		return d.finish(data.Get("response"))
	case "response.failed", "response.cancelled", "error":
		return d.failure(data)
	} // keepalives, progress of what we do not show, and whatever comes next
	return nil
}

// End implements [wire.Decoder]: only the closing event ends an answer.
func (d *decoder) End(bool) error { return wire.CutStream("response.completed") }

// key tells the items of an answer apart. The index does; ids are for servers
// without one: some gateways give an item another id in every event.
func key(event gjson.Result) string {
	if n := event.Get("output_index"); n.Type == gjson.Number {
		return strconv.FormatInt(n.Int(), 10)
	}
	if id := event.Get("item_id").Str; id != "" {
		return id
	}
	return event.Get("item.id").Str
}

// item is the item that an event belongs to, nil for none: that of its id, else the newest of its index. Some
// servers give all items the same index.
func (d *decoder) item(event gjson.Result) *item {
	if id := event.Get("item_id").Str; id != "" {
		for _, it := range d.order {
			if it.named && it.id == id {
				return it
			}
		}
	}
	return d.items[key(event)]
}

// same is the item that an event with an item describes, nil if it describes one that is new: an item of the
// same index is another one if its kind differs, or its call, or if it is done and has another id.
func (d *decoder) same(event gjson.Result) *item {
	v := event.Get("item")
	id, call, kind := v.Get("id").Str, v.Get("call_id").Str, kindOf(v)
	for _, it := range d.order {
		if it.named && it.kind == kind && (call != "" && it.call == call || call == "" && id != "" && it.id == id) {
			return it
		}
	}
	it := d.items[key(event)]
	switch {
	case it == nil, it.kind != kind, call != "" && it.call != "" && call != it.call, it.closed && id != "" && it.id != "" && id != it.id:
		return nil
	}
	return it
}

// announce begins an item, unless it began without being announced.
func (d *decoder) announce(event gjson.Result) {
	it, v := d.same(event), event.Get("item")
	if id := v.Get("id").Str; it != nil && it.named && id != "" && it.id != id {
		it = nil
	}
	if it == nil {
		it = d.open(key(event), v)
	}
	if it != nil {
		it.named = true
	}
}

// kindOf is the kind of block that an item becomes.
func kindOf(v gjson.Result) protocol.BlockKind {
	switch v.Get("type").Str {
	case "reasoning":
		return protocol.BlockThinking
	case "function_call", "custom_tool_call":
		return protocol.BlockToolCall
	}
	return protocol.BlockText
}

// open begins the block of an item, nil for an item of a kind that is not ours
// to show.
func (d *decoder) open(key string, v gjson.Result) *item {
	it := &item{id: v.Get("id").Str, phase: v.Get("phase").Str, kind: kindOf(v)}
	id, name := "", ""
	switch v.Get("type").Str {
	case "message", "reasoning":
	case "function_call", "custom_tool_call":
		it.custom, it.call = v.Get("type").Str == "custom_tool_call", v.Get("call_id").Str
		if it.custom {
			it.id = "" // it goes back as a function call, which has other ids
		}
		id, name = it.toolID(), v.Get("name").Str
	default:
		return nil
	}
	return d.begin(key, it, id, name)
}

func (d *decoder) begin(key string, it *item, id, name string) *item {
	it.part, it.key = d.out.Open(it.kind, id, name), key
	d.items[key] = it
	d.order = append(d.order, it)
	return it
}

// toolID is the id of a call in a session: CALL|ITEM, or the half there is.
func (it *item) toolID() string {
	if it.call == "" || it.id == "" {
		return it.call + it.id
	}
	return it.call + "|" + it.id
}

// grow adds a delta to its item. Text and thinking need no announcement: some
// servers skip it.
func (d *decoder) grow(event gjson.Result, kind protocol.BlockKind) {
	it := d.item(event)
	if it == nil || it.kind != kind && it.closed {
		if kind == protocol.BlockToolCall {
			return // nobody could tell what it calls
		}
		it = d.begin(key(event), &item{kind: kind, id: event.Get("item_id").Str}, "", "")
	}
	if it.kind == kind {
		d.add(it, wire.String(event.Get("delta")))
	}
}

func (d *decoder) add(it *item, text string) {
	if text == "" || it.closed {
		return
	}
	if it.gap {
		text, it.gap = "\n\n"+text, false
	}
	it.grew = true
	d.out.Delta(it.part, text)
}

// whole closes an item with what its last event says, and fills in what was not
// streamed.
func (d *decoder) whole(it *item, key string, v gjson.Result) {
	if it == nil {
		it = d.open(key, v)
	}
	if it == nil || it.closed {
		return
	}
	if !it.grew {
		d.add(it, textOf(v))
	}
	end := protocol.PartBlockEnd{}
	switch it.kind {
	case protocol.BlockText:
		if id := v.Get("id").Str; id != "" {
			it.id = id
		}
		if phase := v.Get("phase").Str; phase != "" {
			it.phase = phase
		}
		end.Signature = signText(it.id, it.phase)
	case protocol.BlockThinking:
		if v.Get("encrypted_content").Str != "" || len(v.Get("content").Array()) > 0 {
			end.Signature = v.Raw
		}
	case protocol.BlockToolCall:
		if call := v.Get("call_id").Str; call != "" {
			it.call = call
		}
		if id := v.Get("id").Str; id != "" && !it.custom {
			it.id = id
		}
		end.ID, end.Name = it.toolID(), v.Get("name").Str
		end.ID = cmp.Or(end.ID, "call_"+strconv.Itoa(it.part))
	}
	it.closed = true
	d.out.Close(it.part, end)
}

// textOf is the text of a whole item.
func textOf(v gjson.Result) string {
	var list []string
	collect := func(parts gjson.Result, fields ...string) {
		parts.ForEach(func(_, part gjson.Result) bool {
			for _, field := range fields {
				if text := wire.String(part.Get(field)); text != "" {
					list = append(list, text)
				}
			}
			return true
		})
	}
	switch v.Get("type").Str {
	case "message":
		collect(v.Get("content"), "text", "refusal")
		return strings.Join(list, "")
	case "reasoning":
		if collect(v.Get("summary"), "text"); len(list) == 0 {
			collect(v.Get("content"), "text")
		}
		return strings.Join(list, "\n\n")
	}
	if v.Get("type").Str == "custom_tool_call" {
		return customArgs(wire.String(v.Get("input")))
	}
	if args := v.Get("arguments"); args.IsObject() { // an object instead of its text
		return args.Raw
	}
	return wire.String(v.Get("arguments"))
}

// customArgs are the arguments of a call whose input is a text: the object that it holds, else the text
// as the member input.
func customArgs(input string) string {
	if protocol.ValidJSON([]byte(input)) && gjson.Parse(input).IsObject() {
		return input
	}
	return string(append(wire.Str(nil, `{"input":`, input), '}'))
}

// finish ends the answer as the status of the response says.
func (d *decoder) finish(response gjson.Result) error {
	d.out.Start(response.Get("id").Str, "")
	d.rest(response.Get("output"))
	if usage := response.Get("usage"); usage.IsObject() {
		d.out.UsageTimes(usageOf(usage), tierFactor(response.Get("service_tier").Str))
	}
	why := response.Get("incomplete_details.reason").Str
	switch status := response.Get("status").Str; status {
	case "failed", "cancelled":
		return d.failure(response)
	case "incomplete":
		if why == "content_filter" {
			return wire.Declined(why, "")
		}
		why = cmp.Or(why, status)
		d.out.Done(protocol.StopLength, why)
	default:
		d.out.Done(protocol.StopStop, cmp.Or(status, "completed"))
	}
	return nil
}

// rest closes the items that are still open with what the closing event says
// about them. Where nothing was streamed at all it has the whole answer.
func (d *decoder) rest(output gjson.Result) {
	streamed := len(d.order) > 0
	n := 0
	output.ForEach(func(_, v gjson.Result) bool {
		k := strconv.Itoa(n)
		n++
		it := d.same(gjson.Parse(`{"output_index":` + k + `,"item":` + v.Raw + `}`))
		if it != nil || !streamed || kindOf(v) == protocol.BlockToolCall {
			d.whole(it, k, v)
		}
		return true
	})
	for _, it := range d.order { // of servers that close nothing
		if !it.closed && it.kind == protocol.BlockToolCall && it.toolID() == "" {
			d.out.Close(it.part, protocol.PartBlockEnd{ID: "call_" + strconv.Itoa(it.part)})
		}
	}
}

// failure says why the service broke the answer off.
func (d *decoder) failure(v gjson.Result) error {
	status := cmp.Or(v.Get("response.status").Str, v.Get("status").Str)
	if status == "cancelled" || v.Get("type").Str == "response.cancelled" {
		return protocol.ErrorServer.Errorf("The provider broke off the answer: cancelled")
	}
	err := wire.ClassifyEvent([]byte(v.Raw))
	if text := broken(v); text != "" {
		err.Message = wire.Plain(text)
	}
	return aboutPlan(err, []byte(v.Raw))
}

// broken is what an event says about the end of an answer, "" if it is in another
// form.
func broken(v gjson.Result) string {
	if e := v.Get("response.error"); e.Get("message").Str != "" && e.Get("code").Str != "" {
		return e.Get("code").Str + ": " + e.Get("message").Str
	}
	if v.Get("type").Str == "error" && v.Get("message").Str != "" && v.Get("code").Str != "" {
		return "Error Code " + v.Get("code").Str + ": " + v.Get("message").Str
	}
	return ""
}

// usageOf counts the tokens of an answer. Cached tokens are part of the input,
// thinking is part of the output.
func usageOf(v gjson.Result) protocol.Usage {
	count := func(path string) int64 { return max(v.Get(path).Int(), 0) }
	u := protocol.Usage{
		Output:     count("output_tokens"),
		CacheRead:  count("input_tokens_details.cached_tokens"),
		CacheWrite: count("input_tokens_details.cache_write_tokens"),
	}
	u.Input = max(count("input_tokens")-u.CacheRead-u.CacheWrite, 0)
	return u
}

// tierFactor is what a service tier costs in terms of the price list.
func tierFactor(tier string) float64 {
	switch tier {
	case "flex":
		return 0.5
	case "priority":
		return 2
	}
	return 1
}
