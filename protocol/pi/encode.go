package pi

import (
	"bytes"
	"cmp"
	"maps"
	"reflect"
	"slices"

	"troupe/protocol"
)

// Encoder writes the records of one session for one client: it knows the
// client's dialect, tags records, and keeps the text of the assistant message
// that is being streamed, already escaped, so that a cumulative
// message_update costs a copy and never a new encoding. It must see every
// event of the session, in order.
type Encoder struct {
	wire      protocol.Wire
	deltas    bool   // FeatureDeltaUpdates
	withSeq   bool   // FeatureSeq
	sessionID string // "" leaves records untagged
	last      uint64 // the number of the last event that the client knows of
	growing   growing
	children  map[string]*Encoder // of the events of children that the client has subscribed to, by id
}

// NewEncoder makes the encoder for one session and one client. sessionID is
// the routing handle put on every record; "" for a client's default session.
func NewEncoder(wire protocol.Wire, sessionID string) *Encoder {
	return &Encoder{
		wire: wire, sessionID: sessionID,
		deltas: wire.Has(protocol.FeatureDeltaUpdates), withSeq: wire.Has(protocol.FeatureSeq),
	}
}

// AppendResponse appends a response as a line.
//
// Nothing is appended if the client does not expect the response: see [Encoder.omits].
func (e *Encoder) AppendResponse(dst []byte, r protocol.Response) []byte {
	if e.omits(r) {
		return dst
	}
	o := e.response(dst, r)
	switch {
	case r.Err != nil:
		o.Str("error", r.Err.Message)
		o.Str("code", string(r.Err.Code))
		if r.Err.Data != nil {
			o.Key("data")
			o.B = protocol.AppendAs(o.B, r.Err.Data, e.wire.Dialect)
		}
	case r.Data != nil:
		o.Key("data")
		o.B = protocol.AppendAs(o.B, e.data(r.Data), e.wire.Dialect)
	}
	return append(o.Close(), '\n')
}

// omits reports whether a response is not written, because its command is not answered. Failures are written, except of
// an extension_ui_response that names no dialog or has a malformed answer: pi ignores those (protocol.md C36), and a
// client that has not asked for the feature dialogEvents may be written for pi.
func (e *Encoder) omits(r protocol.Response) bool {
	row := protocol.Lookup(r.Command)
	if row == nil || !row.Silent || e.wire.Has(protocol.FeatureUIAck) {
		return false
	}
	answersDialog := row.Params == reflect.TypeFor[protocol.ExtensionUIResponse]()
	return r.Err == nil || answersDialog && r.Err.Code == protocol.CodeInvalidParams && !e.wire.Has(protocol.FeatureDialogEvents)
}

// data is what this client is shown in the place of the data of an answer.
func (e *Encoder) data(data protocol.Result) protocol.Result {
	list, ok := data.(protocol.CommandList)
	if !ok {
		return data
	}
	list.Commands = slices.Clone(list.Commands)
	for i := range list.Commands {
		c := &list.Commands[i]
		if e.wire.TemplateSource && c.Source == "prompt" {
			c.Source = "template"
		}
		if !e.wire.SourceInfo {
			c.SourceInfo = nil
		}
		if e.wire.NoLocation {
			c.Path, c.Location = "", ""
		}
	}
	return list
}

// AppendLong appends a piece of the line of a response whose data is long: the
// one at a position, which is 0 at first, and returns the position of the next
// piece, 0 when the line is complete. No other record may be appended meanwhile.
func (e *Encoder) AppendLong(dst []byte, r protocol.Response, data protocol.Long, at int) (out []byte, next int) {
	if at == 0 {
		o := e.response(dst, r)
		o.Key("data")
		dst = o.B
	}
	if dst, next = data.AppendPart(dst, at, e.wire.Dialect); next != 0 {
		return dst, next
	}
	return append(dst, '}', '\n'), 0
}

// response begins the line of a response: all of it but error and data.
func (e *Encoder) response(dst []byte, r protocol.Response) protocol.Object {
	o := protocol.OpenObject(dst)
	o.OptRaw("id", r.ID) // in front, as pi has it
	e.head(&o, "response", cmp.Or(e.sessionID, r.SessionID))
	if e.withSeq && r.At > 0 {
		o.Int("at", int64(r.At))
	}
	if r.At > 0 || r.Rewinds {
		e.last = r.At // of one that attaches again, what it says that it has read
	}
	if r.Replayed {
		o.Bool("replayed", true)
	}
	o.Str("command", r.Command)
	o.Bool("success", r.Err == nil)
	return o
}

// begin begins the line of an event. It stands for those before it that the client
// was not told of one by one, too: parts that were merged into it, and events that
// its dialect does not have. A second line of an event has no number.
func (e *Encoder) begin(dst []byte, kind string, seq uint64) protocol.Object {
	o := protocol.OpenObject(dst)
	e.head(&o, kind, e.sessionID)
	if e.withSeq && seq > e.last {
		o.Int("seq", int64(seq))
		if seq > e.last+1 {
			o.Int("seqFrom", int64(e.last+1))
		}
		e.last = seq
	}
	return o
}

// head writes what routes a record, in this order: its type and the session it
// belongs to, before its place among the records of the session, so that a hub
// passes a line on without reading all of it.
func (e *Encoder) head(o *protocol.Object, kind, sessionID string) {
	o.Str("type", kind)
	o.OptStr("sessionId", sessionID)
}

// AppendEvent appends an event as lines: one, or none for an event that the
// client's dialect does not have, or two for one that the union knows under two
// names.
func (e *Encoder) AppendEvent(dst []byte, ev protocol.Event, seq uint64) []byte {
	switch ev := ev.(type) {
	case *protocol.MessageUpdate:
		return e.appendUpdate(dst, ev, seq)
	case protocol.SubagentEvent:
		return e.appendChild(dst, ev.Payload)
	default:
		e.Fold(ev)
	}
	if !e.wire.ShowsRecord(ev) {
		return dst
	}
	for _, row := range protocol.RowsOf(ev) {
		if !e.wire.Tells(row) {
			continue
		}
		if members, ok := row.Form(ev); ok {
			o := e.begin(dst, row.Name, seq)
			o.Members(e.shown(members), e.wire.Dialect)
			dst = append(o.Close(), '\n')
		}
	}
	return dst
}

// Fold implements [protocol.Encoder].
func (e *Encoder) Fold(ev protocol.Event) {
	switch ev := ev.(type) {
	case *protocol.MessageUpdate:
		e.growing.fold(ev, e.deltas)
	case protocol.MessageStart:
		e.growing.begin(ev.Message)
	case protocol.MessageEnd:
		e.growing.end()
	case protocol.Resync: // what came of children is missing as well
		e.children = nil
	case protocol.SubagentLifecycle:
		if ev.Payload.Status != protocol.SubagentBegun {
			delete(e.children, ev.Payload.ID)
		}
	default: // has nothing to do with the message that grows
	}
}

// appendChild appends an event of a child, as a client of its session is told it, in
// as many lines. Of a message whose beginning was not seen there is nothing to show
// until it ends.
func (e *Encoder) appendChild(dst []byte, of protocol.ChildEvent) []byte {
	child := e.children[of.ID]
	if child == nil {
		wire := e.wire
		wire.Features = maps.Clone(wire.Features)
		delete(wire.Features, protocol.FeatureSeq)
		if e.children == nil {
			e.children = map[string]*Encoder{}
		}
		child = NewEncoder(wire, "")
		e.children[of.ID] = child
	}
	if _, grows := of.Is.(*protocol.MessageUpdate); grows && child.growing.frame == nil {
		return dst
	}
	for line := range bytes.Lines(child.AppendEvent(nil, of.Is, 0)) {
		o := e.begin(dst, "subagent_event", 0)
		o.Key("payload")
		p := protocol.OpenObject(o.B)
		p.Str("id", of.ID)
		p.Key("event")
		p.B = append(p.B, bytes.TrimRight(line, "\n")...)
		o.B = p.Close()
		dst = append(o.Close(), '\n')
	}
	return dst
}

// shown is what this client is shown in the place of the members of a record.
func (e *Encoder) shown(members any) any {
	switch m := members.(type) {
	case protocol.MessageStart:
		m.Message = e.started(m.Message)
		return m
	case protocol.AgentEnd:
		if e.sessionID != "" {
			m.SessionID = ""
		}
		return m
	case protocol.SessionChanged:
		if e.sessionID != "" { // the sessionId of a tagged record is the routing handle
			m.SessionID, m.DurableID = "", m.SessionID
		}
		return m
	case protocol.Resync:
		m.Seq = int64(e.last)
		return m
	}
	return members
}

// started is a message as message_start shows it.
func (e *Encoder) started(m protocol.Message) protocol.Message {
	if a, ok := m.(*protocol.AssistantMessage); ok && e.wire.PendingStop && a.StopReason == protocol.StopStop {
		pending := a.Unsealed()
		pending.StopReason = "pending"
		return pending
	}
	return m
}

// appendUpdate is the hot path: no closure, no boxing, no allocation.
func (e *Encoder) appendUpdate(dst []byte, ev *protocol.MessageUpdate, seq uint64) []byte {
	g := &e.growing
	g.fold(ev, e.deltas)
	o := e.begin(dst, "message_update", seq)
	if e.deltas {
		o.Key("usage")
		o.B = append(o.B, g.usage()...)
		o.Key("assistantMessageEvent")
		step := protocol.OpenObject(o.B)
		appendStep(&step, ev, true)
		o.B = step.Close()
	} else {
		e.appendCumulative(&o, ev)
	}
	o.OptStr("runId", string(ev.RunID))
	return append(o.Close(), '\n')
}

func (e *Encoder) appendCumulative(o *protocol.Object, ev *protocol.MessageUpdate) {
	o.Key("message")
	from := len(o.B)
	o.B = e.growing.appendMessage(o.B)
	to := len(o.B)
	o.Key("assistantMessageEvent")
	step := protocol.OpenObject(o.B)
	appendStep(&step, ev, false)
	step.Key("partial")
	step.B = append(step.B, step.B[from:to]...)
	o.B = step.Close()
}

func appendStep(o *protocol.Object, ev *protocol.MessageUpdate, withCall bool) {
	o.Str("type", ev.Kind.String()+[...]string{"_start", "_delta", "_end"}[ev.Step])
	o.Int("contentIndex", int64(ev.Index))
	switch ev.Step {
	case protocol.UpdateStart:
		if call, ok := ev.Block.(protocol.ToolCall); ok && withCall {
			o.Str("id", call.ID)
			o.Str("toolName", call.Name)
		}
	case protocol.UpdateDelta:
		o.Str("delta", ev.Delta)
	case protocol.UpdateEnd:
		switch b := ev.Block.(type) {
		case protocol.Text:
			o.Str("content", b.Text)
		case protocol.Thinking:
			o.Str("content", b.Thinking)
		case protocol.ToolCall:
			o.Key("toolCall")
			o.B = b.AppendJSON(o.B)
		case protocol.Image, protocol.UnknownBlock: // models do not stream these
		}
	}
}

// growing is the assistant message in progress: its frame, and its blocks as
// JSON that only ever grows at the end.
type growing struct {
	frame  *protocol.AssistantMessage // everything but the content; nil when no message is open
	blocks []growingBlock
	tail   []byte // the encoded frame, valid while frame does not change
	counts []byte // the encoded usage, likewise
}

type growingBlock struct {
	kind protocol.BlockKind
	text []byte // text and thinking: escaped so far
	args *protocol.ArgsBuilder
	call protocol.ToolCall
	done []byte // the finished block's JSON
}

func (g *growing) begin(m protocol.Message) {
	*g = growing{}
	if a, ok := m.(*protocol.AssistantMessage); ok {
		g.frame = a.Unsealed()
		g.frame.Content, g.frame.StopReason = nil, protocol.StopStop // the wire's placeholder until the message ends
	}
}

func (g *growing) end() { *g = growing{} }

// fold applies one step. With frameOnly the content is not kept.
func (g *growing) fold(ev *protocol.MessageUpdate, frameOnly bool) {
	if g.frame == nil {
		g.frame = new(protocol.AssistantMessage)
		g.frame.StopReason = protocol.StopStop
	}
	if ev.Usage != nil {
		g.frame.Usage = *ev.Usage
		g.tail, g.counts = g.tail[:0], g.counts[:0]
	}
	if !frameOnly {
		g.keep(ev)
	}
}

// keep takes in the content. It is a function of its own for its frame: a thousand clients
// that keep nothing would each need a larger stack.
func (g *growing) keep(ev *protocol.MessageUpdate) {
	for len(g.blocks) <= ev.Index {
		g.blocks = append(g.blocks, growingBlock{kind: ev.Kind})
	}
	b := &g.blocks[ev.Index]
	switch ev.Step {
	case protocol.UpdateStart:
		if b.kind == protocol.BlockToolCall {
			b.call, _ = ev.Block.(protocol.ToolCall)
			b.args = new(protocol.ArgsBuilder)
		}
	case protocol.UpdateDelta:
		if b.args != nil {
			b.args.Feed(ev.Delta)
		} else {
			b.text = protocol.AppendEscaped(b.text, ev.Delta)
		}
	case protocol.UpdateEnd:
		*b = growingBlock{kind: b.kind, done: ev.Block.AppendJSON(nil)}
	}
}

func (g *growing) usage() []byte {
	if len(g.counts) == 0 {
		g.counts = protocol.AppendValue(g.counts, &g.frame.Usage)
	}
	return g.counts
}

// answerHead is how an answer begins, up to its content.
const answerHead = `{"role":"assistant","content":[`

func (g *growing) appendMessage(dst []byte) []byte {
	dst = append(dst, answerHead...)
	for i := range g.blocks {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = g.blocks[i].appendJSON(dst)
	}
	dst = append(dst, ']')
	if len(g.tail) == 0 {
		g.tail = g.frame.AppendJSON(nil)[len(answerHead)+len("]"):]
	}
	return append(dst, g.tail...)
}

func (b *growingBlock) appendJSON(dst []byte) []byte {
	switch {
	case b.done != nil:
		return append(dst, b.done...)
	case b.kind == protocol.BlockText:
		dst = append(dst, `{"type":"text","text":"`...)
		dst = append(dst, b.text...)
		return append(dst, `"}`...)
	case b.kind == protocol.BlockThinking:
		dst = append(dst, `{"type":"thinking","thinking":"`...)
		dst = append(dst, b.text...)
		return append(dst, `"}`...)
	}
	o := protocol.OpenObject(dst)
	o.Str("type", "toolCall")
	o.Str("id", b.call.ID)
	o.Str("name", b.call.Name)
	o.Key("arguments")
	if b.args == nil {
		o.B = append(o.B, "{}"...)
	} else {
		o.B = b.args.AppendJSON(o.B)
	}
	return o.Close()
}
