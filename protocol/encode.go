package protocol

import (
	"strconv"
)

// Encoder writes the records of one session for one client: it knows the
// client's dialect, tags records, and keeps the text of the assistant message
// that is being streamed, already escaped, so that a cumulative
// message_update costs a copy and never a new encoding. It must see every
// event of the session, in order.
type Encoder struct {
	gates     Gates
	deltas    bool   // FeatureDeltaUpdates
	runIDs    bool   // FeatureRunIDs
	withSeq   bool   // FeatureSeq
	sessionID string // "" leaves records untagged
	seq       uint64
	growing   growing
}

// NewEncoder makes the encoder for one session and one client. sessionID is
// the routing handle put on every record; "" for a client's default session.
func NewEncoder(gates Gates, sessionID string) *Encoder {
	return &Encoder{
		gates: gates, sessionID: sessionID,
		deltas: gates.Has(FeatureDeltaUpdates), runIDs: gates.Has(FeatureRunIDs), withSeq: gates.Has(FeatureSeq),
	}
}

// AppendResponse appends a response as a line.
func (e *Encoder) AppendResponse(dst []byte, r Response) []byte {
	if e.sessionID != "" {
		r.SessionID = e.sessionID
	}
	dst = r.AppendJSON(dst)
	if e.withSeq {
		o := object{b: dst[:len(dst)-1]}
		e.appendSeq(&o)
		dst = o.close()
	}
	return append(dst, '\n')
}

// AppendLong appends a piece of the line of a response whose data is long: the
// one at a position, which is 0 at first, and returns the position of the next
// piece, 0 when the line is complete. No other record may be appended meanwhile.
func (e *Encoder) AppendLong(dst []byte, r Response, data Long, at int) (out []byte, next int) {
	if at == 0 {
		o := r.open(dst)
		o.key("data")
		dst = o.b
	}
	if dst, next = data.AppendPart(dst, at); next != 0 {
		return dst, next
	}
	if e.sessionID != "" {
		r.SessionID = e.sessionID
	}
	o := object{b: dst}
	o.optStr("sessionId", r.SessionID)
	if e.withSeq {
		e.appendSeq(&o)
	}
	return append(o.close(), '\n'), 0
}

func (e *Encoder) appendSeq(o *object) {
	e.seq++
	o.key("seq")
	o.b = strconv.AppendUint(o.b, e.seq, 10)
}

// AppendEvent appends an event as lines: one, or none for an event that the
// client's dialect does not have, or two for one that the union knows under two
// names.
func (e *Encoder) AppendEvent(dst []byte, ev Event) []byte {
	switch ev := ev.(type) {
	case *MessageUpdate:
		return e.appendUpdate(dst, ev)
	case MessageStart:
		e.growing.begin(ev.Message)
		return e.record(dst, "message_start", ev.RunID, func(o *object) { o.app("message", e.started(ev.Message)) })
	case MessageEnd:
		e.growing.end()
		return e.record(dst, "message_end", ev.RunID, func(o *object) { o.app("message", ev.Message) })
	case AgentStart:
		return e.record(dst, "agent_start", ev.RunID, nil)
	case AgentEnd:
		return e.record(dst, "agent_end", ev.RunID, func(o *object) {
			o.key("messages")
			o.b = appendList(o.b, ev.Messages)
			o.optStr("error", ev.Error)
			o.bool("willRetry", ev.WillRetry)
		})
	case TurnStart:
		return e.record(dst, "turn_start", ev.RunID, nil)
	case TurnEnd:
		return e.record(dst, "turn_end", ev.RunID, func(o *object) {
			o.app("message", ev.Message)
			o.key("toolResults")
			o.b = appendList(o.b, ev.ToolResults)
		})
	case ToolExecutionStart:
		return e.record(dst, "tool_execution_start", ev.RunID, func(o *object) {
			o.str("toolCallId", ev.ToolCallID)
			o.str("toolName", ev.ToolName)
			o.raw("args", ev.Args)
		})
	case ToolExecutionUpdate:
		return e.record(dst, "tool_execution_update", ev.RunID, func(o *object) {
			o.str("toolCallId", ev.ToolCallID)
			o.str("toolName", ev.ToolName)
			o.raw("args", ev.Args)
			o.app("partialResult", ev.PartialResult)
		})
	case ToolExecutionEnd:
		return e.record(dst, "tool_execution_end", ev.RunID, func(o *object) {
			o.str("toolCallId", ev.ToolCallID)
			o.str("toolName", ev.ToolName)
			o.app("result", ev.Result)
			o.bool("isError", ev.IsError)
		})
	case AgentSettled:
		if !e.gates.Has(FeatureSettled) {
			return dst
		}
		return e.record(dst, "agent_settled", ev.RunID, func(o *object) {
			o.bool("aborted", ev.Aborted)
			o.str("outcome", ev.Outcome)
		})
	case AutoCompactionStart:
		return e.compactionStart(dst, ev)
	case AutoCompactionEnd:
		return e.compactionEnd(dst, ev)
	case SessionChanged:
		return e.record(dst, "session_changed", "", func(o *object) {
			o.str("reason", ev.Reason)
			o.optStr("sessionFile", ev.SessionFile)
			o.optStr("sessionName", ev.SessionName)
			o.int("messageCount", int64(ev.MessageCount))
			if ev.LeafID == "" {
				o.raw("leafId", nil)
			} else {
				o.str("leafId", ev.LeafID)
			}
			if e.sessionID == "" { // a tagged record's sessionId is the routing handle
				o.str("sessionId", ev.SessionID)
			} else {
				o.str("durableId", ev.SessionID)
			}
		})
	case QueueChanged:
		if !e.gates.Has(FeatureQueueUpdate) {
			return e.record(dst, "queue_changed", "", func(o *object) {
				o.int("pendingMessageCount", int64(ev.PendingMessageCount))
			})
		}
		return e.record(dst, "queue_update", "", func(o *object) {
			o.strs("steering", ev.Steering)
			o.strs("followUp", ev.FollowUp)
		})
	case SessionInfoChanged, ThinkingLevelChanged:
		return e.gated(dst, FeatureSettingEvents, ev)
	case SummarizationRetry:
		return e.gated(dst, FeatureEntryEvents, ev)
	case EntryAppended:
		if !e.gates.Has(FeatureEntryEvents) {
			return dst
		}
		return e.record(dst, "entry_appended", "", func(o *object) { o.app("entry", ev.Entry) })
	case BashExecutionUpdate:
		if !e.gates.Has(FeatureBashUpdates) {
			return dst
		}
		return e.record(dst, "bash_execution_update", "", func(o *object) {
			o.optRaw("id", ev.ID)
			o.str("delta", ev.Delta)
		})
	case ExtensionError:
		return e.extensionError(dst, ev)
	case AutoRetryStart, AutoRetryEnd, SessionFailed, ExtensionUIRequest, HostToolCall, HostToolCancel, TTSRTriggered, TodoReminder:
		return e.plain(dst, ev)
	}
	panic("protocol: unknown event")
}

// record writes one line: type, what body writes, and the tags.
func (e *Encoder) record(dst []byte, kind string, run RunID, body func(*object)) []byte {
	o := openObject(dst)
	o.str("type", kind)
	if body != nil {
		body(&o)
	}
	e.tags(&o, run)
	return append(o.close(), '\n')
}

func (e *Encoder) tags(o *object, run RunID) {
	if run != "" && e.runIDs {
		o.str("runId", string(run))
	}
	o.optStr("sessionId", e.sessionID)
	if e.withSeq {
		e.appendSeq(o)
	}
}

// plain writes an event by its struct tags. Only for events that are rare.
func (e *Encoder) plain(dst []byte, ev Event) []byte {
	o := openObject(dst)
	o.str("type", ev.EventType())
	members := AppendValue(nil, ev) // {…}
	if len(members) > 2 {
		o.b = append(o.b, ',')
		o.b = append(o.b, members[1:len(members)-1]...)
	}
	e.tags(&o, "")
	return append(o.close(), '\n')
}

func (e *Encoder) gated(dst []byte, f Feature, ev Event) []byte {
	if !e.gates.Has(f) {
		return dst
	}
	return e.plain(dst, ev)
}

// compactionNames says under which names a client hears of a compaction: the
// old ones tell only of what begins by itself, the new ones of all.
func (e *Encoder) compactionNames(reason string) (auto, plain bool) {
	return !e.gates.NoAutoCompaction && reason != "manual", e.gates.Has(FeatureCompactionEvents)
}

// compactionStart writes the newer pair of names inside the older.
func (e *Encoder) compactionStart(dst []byte, ev AutoCompactionStart) []byte {
	reason := func(o *object) { o.str("reason", ev.Reason) }
	auto, plain := e.compactionNames(ev.Reason)
	if auto {
		dst = e.record(dst, "auto_compaction_start", "", reason)
	}
	if plain {
		dst = e.record(dst, "compaction_start", "", reason)
	}
	return dst
}

func (e *Encoder) compactionEnd(dst []byte, ev AutoCompactionEnd) []byte {
	rest := func(o *object) {
		o.bool("aborted", ev.Aborted)
		o.bool("willRetry", ev.WillRetry)
		o.optStr("errorMessage", ev.ErrorMessage)
	}
	auto, plain := e.compactionNames(ev.Reason)
	if plain {
		dst = e.record(dst, "compaction_end", "", func(o *object) {
			o.str("reason", ev.Reason)
			switch {
			case ev.Result != nil:
				o.key("result")
				o.b = AppendValue(o.b, ev.Result)
			case e.gates.Nulls:
				o.raw("result", nil)
			}
			rest(o)
		})
	}
	if auto {
		dst = e.record(dst, "auto_compaction_end", "", func(o *object) {
			if ev.Result == nil {
				o.raw("result", nil)
			} else {
				o.key("result")
				o.b = AppendValue(o.b, ev.Result)
			}
			rest(o)
		})
	}
	return dst
}

func (e *Encoder) extensionError(dst []byte, ev ExtensionError) []byte {
	if !e.gates.Has(FeatureHookErrorOnly) {
		dst = e.plain(dst, ev)
	}
	if !e.gates.Has(FeatureExtensionErrorOnly) {
		dst = e.record(dst, "hook_error", "", func(o *object) {
			o.str("hookPath", ev.ExtensionPath)
			o.str("event", ev.Event)
			o.str("error", ev.Error)
		})
	}
	return dst
}

// started is a message as message_start shows it.
func (e *Encoder) started(m Message) Message {
	if a, ok := m.(*AssistantMessage); ok && e.gates.PendingStop && a.StopReason == StopStop {
		pending := *a
		pending.enc = nil
		pending.StopReason = "pending"
		return &pending
	}
	return m
}

// appendUpdate is the hot path: no closure, no boxing, no allocation.
func (e *Encoder) appendUpdate(dst []byte, ev *MessageUpdate) []byte {
	g := &e.growing
	g.fold(ev, e.deltas)
	o := object{b: append(dst, `{"type":"message_update"`...)}
	if e.deltas {
		o.key("usage")
		o.b = append(o.b, g.usage()...)
		o.key("assistantMessageEvent")
		step := openObject(o.b)
		appendStep(&step, ev, true)
		o.b = step.close()
	} else {
		e.appendCumulative(&o, ev)
	}
	e.tags(&o, ev.RunID)
	return append(o.close(), '\n')
}

func (e *Encoder) appendCumulative(o *object, ev *MessageUpdate) {
	o.key("message")
	from := len(o.b)
	o.b = e.growing.appendMessage(o.b)
	to := len(o.b)
	o.key("assistantMessageEvent")
	step := openObject(o.b)
	appendStep(&step, ev, false)
	step.key("partial")
	step.b = append(step.b, step.b[from:to]...)
	o.b = step.close()
}

func appendStep(o *object, ev *MessageUpdate, withCall bool) {
	o.str("type", ev.Kind.String()+[...]string{"_start", "_delta", "_end"}[ev.Step])
	o.int("contentIndex", int64(ev.Index))
	switch ev.Step {
	case UpdateStart:
		if call, ok := ev.Block.(ToolCall); ok && withCall {
			o.str("id", call.ID)
			o.str("toolName", call.Name)
		}
	case UpdateDelta:
		o.str("delta", ev.Delta)
	case UpdateEnd:
		switch b := ev.Block.(type) {
		case Text:
			o.str("content", b.Text)
		case Thinking:
			o.str("content", b.Thinking)
		case ToolCall:
			o.app("toolCall", b)
		case Image, UnknownBlock: // models do not stream these
		}
	}
}

// growing is the assistant message in progress: its frame, and its blocks as
// JSON that only ever grows at the end.
type growing struct {
	frame  *AssistantMessage // everything but the content; nil when no message is open
	blocks []growingBlock
	tail   []byte // the encoded frame, valid while frame does not change
	counts []byte // the encoded usage, likewise
}

type growingBlock struct {
	kind BlockKind
	text []byte // text and thinking: escaped so far
	args *ArgsBuilder
	call ToolCall
	done []byte // the finished block's JSON
}

func (g *growing) begin(m Message) {
	*g = growing{}
	if a, ok := m.(*AssistantMessage); ok {
		frame := *a
		frame.enc = nil
		frame.StopReason = StopStop // the wire's placeholder until the message ends
		g.frame = &frame
	}
}

func (g *growing) end() { *g = growing{} }

// fold applies one step. With frameOnly the content is not kept.
func (g *growing) fold(ev *MessageUpdate, frameOnly bool) {
	if g.frame == nil {
		g.frame = &AssistantMessage{StopReason: StopStop}
	}
	if ev.Usage != nil {
		g.frame.Usage = *ev.Usage
		g.tail, g.counts = g.tail[:0], g.counts[:0]
	}
	if frameOnly {
		return
	}
	for len(g.blocks) <= ev.Index {
		g.blocks = append(g.blocks, growingBlock{kind: ev.Kind})
	}
	b := &g.blocks[ev.Index]
	switch ev.Step {
	case UpdateStart:
		if b.kind == BlockToolCall {
			b.call, _ = ev.Block.(ToolCall)
			b.args = new(ArgsBuilder)
		}
	case UpdateDelta:
		if b.args != nil {
			b.args.Feed(ev.Delta)
		} else {
			b.text = AppendEscaped(b.text, ev.Delta)
		}
	case UpdateEnd:
		*b = growingBlock{kind: b.kind, done: ev.Block.AppendJSON(nil)}
	}
}

func (g *growing) usage() []byte {
	if len(g.counts) == 0 {
		g.counts = g.frame.Usage.AppendJSON(g.counts)
	}
	return g.counts
}

func (g *growing) appendMessage(dst []byte) []byte {
	dst = append(dst, `{"role":"assistant","content":[`...)
	for i := range g.blocks {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = g.blocks[i].appendJSON(dst)
	}
	dst = append(dst, ']')
	if len(g.tail) == 0 {
		o := object{b: g.tail}
		g.frame.appendTail(&o)
		g.tail = o.close()
	}
	return append(dst, g.tail...)
}

func (b *growingBlock) appendJSON(dst []byte) []byte {
	switch {
	case b.done != nil:
		return append(dst, b.done...)
	case b.kind == BlockText:
		dst = append(dst, `{"type":"text","text":"`...)
		dst = append(dst, b.text...)
		return append(dst, `"}`...)
	case b.kind == BlockThinking:
		dst = append(dst, `{"type":"thinking","thinking":"`...)
		dst = append(dst, b.text...)
		return append(dst, `"}`...)
	}
	o := openObject(dst)
	o.str("type", "toolCall")
	o.str("id", b.call.ID)
	o.str("name", b.call.Name)
	o.key("arguments")
	if b.args == nil {
		o.b = append(o.b, "{}"...)
	} else {
		o.b = b.args.AppendJSON(o.b)
	}
	return o.close()
}
