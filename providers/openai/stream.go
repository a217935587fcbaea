package openai

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"troupe/protocol"
	"troupe/providers"
	"troupe/providers/wire"
)

// none is the index of a block that is not open.
const none = -1

// decoder reads one answer. Text and thinking come one after the other. A tool call ends before the next one starts, as
// in pi, if all of it has arrived; else it stays open until the end, because the pieces of calls may alternate.
type decoder struct {
	req    *providers.Request
	out    *wire.Parts
	compat *compat

	begun  bool
	open   openBlock
	calls  []*toolCall
	proofs map[string]string // encrypted reasoning details by the id of their call
	finish string            // finish_reason, once there is one
}

// openBlock is the text or thinking that grows at the moment.
type openBlock struct {
	is    bool
	part  int
	kind  protocol.BlockKind
	field string // where thinking came from: its signature
}

// toolCall is a call, of which id and name may come late or never.
type toolCall struct {
	part      int
	index     int64 // the server's, none if it gave none
	id, name  string
	args      protocol.ArgsBuilder
	signature string
}

var (
	eventMembers  = []string{"id", "choices", "usage", "x_groq", "error", "object", "base_resp"}
	choiceMembers = []string{"delta", "message", "finish_reason", "usage"}
	deltaMembers  = append([]string{"content", "refusal", "tool_calls", "function_call", "reasoning_details"}, reasoningFields...)
)

// Event implements [wire.Decoder]. Every event of an answer passes here,
// so its members are looked at once.
func (d *decoder) Event(name string, data gjson.Result) error {
	var id, choices, usage, groq, problem, object, minimax gjson.Result
	protocol.Members(data, eventMembers, &id, &choices, &usage, &groq, &problem, &object, &minimax)
	if u := groq.Get("usage"); u.IsObject() {
		usage = u
	}
	failed := name == "error" || isProblem(problem) || object.Str == "error" || minimax.Get("status_code").Int() != 0
	if failed {
		return format{}.Explain(d.req, wire.ClassifyEvent([]byte(data.Raw)), []byte(data.Raw))
	}
	if !d.begun && choices.Exists() {
		d.begun = true
		d.out.Start(id.Str, data.Get("model").Str)
	}
	if choice := choices.Get("0"); choice.IsObject() {
		usage = d.choice(choice, usage)
	}
	if usage.IsObject() {
		d.out.Usage(usageOf(usage))
	}
	return nil
}

// isProblem says whether the member error of an event is one: some servers send
// an empty one along.
func isProblem(v gjson.Result) bool {
	switch v.Type {
	case gjson.String:
		return v.Str != ""
	case gjson.JSON:
		return v.Raw != "{}" && v.Raw != "[]"
	}
	return v.Type == gjson.True || v.Type == gjson.Number
}

// choice reads the one choice of an event and returns the usage, which may be
// in there.
func (d *decoder) choice(choice, usage gjson.Result) gjson.Result {
	var delta, message, finish, own gjson.Result
	protocol.Members(choice, choiceMembers, &delta, &message, &finish, &own)
	if own.IsObject() {
		usage = own
	}
	if !delta.Exists() {
		delta = message // a server that did not stream after all
	}
	d.delta(delta)
	if finish.Str != "" {
		d.finish = finish.Str
		d.out.Closing()
	}
	return usage
}

func (d *decoder) delta(delta gjson.Result) {
	var thoughts [3]gjson.Result // by reasoningFields
	var content, refusal, calls, call, details gjson.Result
	protocol.Members(delta, deltaMembers, &content, &refusal, &calls, &call, &details, &thoughts[0], &thoughts[1], &thoughts[2])
	for i, field := range reasoningFields {
		if text := wire.String(thoughts[i]); text != "" {
			d.grow(protocol.BlockThinking, field, text)
			break
		}
	}
	d.content(content)
	d.grow(protocol.BlockText, "", wire.String(refusal))
	beside := false
	calls.ForEach(func(_, call gjson.Result) bool {
		d.toolCall(call, beside)
		beside = true
		return true
	})
	if call.IsObject() { // the form before tool_calls
		d.toolCall(gjson.Parse(`{"index":0,"function":`+call.Raw+`}`), false)
	}
	details.ForEach(func(_, detail gjson.Result) bool {
		d.detail(detail)
		return true
	})
}

// content reads text, or the parts in which Mistral sends thinking.
func (d *decoder) content(v gjson.Result) {
	d.grow(protocol.BlockText, "", wire.String(v))
	if !v.IsArray() {
		return
	}
	v.ForEach(func(_, part gjson.Result) bool {
		d.grow(protocol.BlockText, "", wire.String(part.Get("text")))
		part.Get("thinking").ForEach(func(_, piece gjson.Result) bool {
			d.grow(protocol.BlockThinking, partThinking, wire.String(piece.Get("text")))
			return true
		})
		return true
	})
}

// grow adds to the open block, which it changes for one of the kind if need be.
func (d *decoder) grow(kind protocol.BlockKind, field, text string) {
	if text == "" {
		return
	}
	if !d.open.is || d.open.kind != kind || d.open.field != field {
		d.close()
		d.open = openBlock{is: true, kind: kind, field: field, part: d.out.Open(kind, "", "")}
	}
	d.out.Delta(d.open.part, text)
}

// close ends the open text or thinking.
func (d *decoder) close() {
	if d.open.is {
		d.out.Close(d.open.part, protocol.PartBlockEnd{Signature: d.open.field})
		d.open = openBlock{}
	}
}

func (d *decoder) toolCall(v gjson.Result, beside bool) {
	if !v.IsObject() {
		return
	}
	d.close()
	id, name := wire.String(v.Get("id")), wire.String(v.Get("function.name"))
	args := v.Get("function.arguments")
	text := wire.String(args)
	if args.IsObject() { // an object instead of its text
		text = args.Raw
	}
	c := d.find(v.Get("index"), id, name, beside, strings.HasPrefix(strings.TrimSpace(text), "{"))
	if c == nil {
		index := int64(none)
		if v.Get("index").Type == gjson.Number {
			index = v.Get("index").Int()
		}
		d.endComplete()
		c = &toolCall{part: d.out.Open(protocol.BlockToolCall, id, name), index: index, id: id, name: name}
		d.calls = append(d.calls, c)
	} else {
		c.late(id, name)
	}
	if extra := v.Get("extra_content"); extra.IsObject() {
		c.signature = extra.Raw
	}
	c.args.Feed(text)
	d.out.Delta(c.part, text)
}

// endComplete ends the calls of which nothing more is expected. Gateways that route may send the signature of a call
// after all others.
func (d *decoder) endComplete() {
	if d.compat.routes || len(d.proofs) > 0 {
		return
	}
	for _, c := range d.calls {
		if c.id != "" && c.name != "" && c.whole() {
			d.end(c)
		}
	}
}

// end ends a call, unless it has ended.
func (d *decoder) end(c *toolCall) {
	d.out.Close(c.part, protocol.PartBlockEnd{ID: c.id, Name: c.name, Signature: c.signature})
}

// whole says whether the arguments are one whole object.
func (c *toolCall) whole() bool { return c.args.Text() != "" && c.args.Complete() }

// find is the call that a piece belongs to, nil for a new one. The index
// decides; but some servers give all calls the same one, or none, and tell them
// apart by the id. Others send an id of their own with every piece: then only a
// name begins a new call.
//
// beside says that the piece follows another one in the same event, begins that arguments begin with it.
func (d *decoder) find(index gjson.Result, id, name string, beside, begins bool) *toolCall {
	if len(d.calls) == 0 {
		return nil
	}
	last := d.calls[len(d.calls)-1]
	if index.Type == gjson.Number {
		last = nil
		for _, c := range d.calls {
			if c.index == index.Int() {
				last = c
			}
		}
	}
	switch {
	case last == nil, id != "" && last.id != "" && id != last.id && name != "":
		return nil
	case id != "" || name == "":
		return last
	case index.Type != gjson.Number && (beside || last.name != "" && name != last.name):
		return nil // nothing says which call it is, and one name does not come in two pieces there
	case last.whole() && (begins || name != last.name):
		return nil
	}
	return last
}

// late takes an id or a name that was missing. A name in pieces is put
// together; one that is repeated is not.
func (c *toolCall) late(id, name string) {
	c.id = cmp.Or(c.id, id)
	if name != "" && name != c.name {
		c.name += name
	}
}

// detail keeps an encrypted reasoning detail, which belongs to the call of its
// id and may come before it.
func (d *decoder) detail(v gjson.Result) {
	id := v.Get("id").Str
	if v.Get("type").Str != "reasoning.encrypted" || id == "" || v.Get("data").Str == "" {
		return
	}
	if d.proofs == nil {
		d.proofs = map[string]string{}
	}
	d.proofs[id] = v.Raw
	d.out.Alive()
}

// usageOf counts the tokens of an answer. Services count cached tokens as part
// of the prompt; most count thinking as part of the completion, and where the
// total shows that one does not, it is added.
func usageOf(v gjson.Result) protocol.Usage {
	count := func(paths ...string) int64 {
		for _, path := range paths {
			if n := v.Get(path); n.Type == gjson.Number && n.Int() > 0 {
				return n.Int()
			}
		}
		return 0
	}
	u := protocol.Usage{
		Output:     count("completion_tokens"),
		CacheRead:  count("prompt_tokens_details.cached_tokens", "prompt_cache_hit_tokens", "cached_tokens"),
		CacheWrite: count("prompt_tokens_details.cache_write_tokens", "prompt_tokens_details.cache_creation_tokens"),
	}
	prompt := count("prompt_tokens")
	u.Input = max(prompt-u.CacheRead-u.CacheWrite, 0)
	thought := count("completion_tokens_details.reasoning_tokens")
	if thought > 0 && count("total_tokens") == prompt+u.Output+thought {
		u.Output += thought
	}
	return u
}

// End implements [wire.Decoder]. A finish reason makes an answer complete,
// with or without [DONE]; where a server never gives one, [DONE] does.
func (d *decoder) End(done bool) error {
	if d.finish == "" && (d.compat.SupportsFinishReason || !done) {
		return wire.CutStream("finish_reason")
	}
	if err := d.refused(); err != nil {
		return err
	}
	d.close()
	for i, c := range d.calls {
		if detail := d.proofs[c.id]; detail != "" {
			c.signature = detail
		}
		c.id = cmp.Or(c.id, "call_"+strconv.Itoa(i))
		d.end(c)
	}
	reason := protocol.StopStop
	switch d.finish {
	case "length", "max_tokens", "MAX_TOKENS", "model_length":
		reason = protocol.StopLength
	}
	d.out.Done(reason, d.finish)
	return nil
}

// refused is the error that a finish reason stands for, nil if it is none.
func (d *decoder) refused() error {
	switch d.finish {
	case "", "stop", "end", "eos", "eos_token", "stop_sequence", "end_turn", "STOP", "COMPLETE",
		"tool_calls", "tool_call", "tool_use", "function_call", "length", "max_tokens", "MAX_TOKENS", "model_length":
		return nil
	case "content_filter", "sensitive", "refusal", "safety", "SAFETY":
		return wire.Declined(d.finish, "")
	case "model_context_window_exceeded":
		return protocol.ErrorOverflow.Errorf("The context fills the model's window: %s", d.finish)
	case "insufficient_system_resource":
		return protocol.ErrorOverloaded.Errorf("The provider has no capacity: %s", d.finish)
	case "network_error", "error", "abort", "aborted", "cancelled":
		return protocol.ErrorServer.Errorf("The provider broke off the answer: %s", d.finish)
	}
	return protocol.ErrorInternal.Errorf("Unknown finish reason %q", d.finish)
}
