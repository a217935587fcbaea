package core

import (
	"cmp"
	"encoding/json"
	"strconv"

	"troupe/protocol"
)

// stream is the assistant message in progress.
type stream struct {
	msg     *protocol.AssistantMessage // everything but the content
	model   *protocol.Model            // for prices
	level   protocol.ThinkingLevel     // that was asked for
	blocks  []block
	started bool            // message_start went out
	size    int             // bytes of all blocks
	asked   int             // tool calls among them
	usage   *protocol.Usage // counts not shown yet
	text    int64           // when the first piece of text came, epoch milliseconds; 0 for none yet
	over    *StreamEnd      // the answer is whole, and extensions look at it
	hook    int             // the open one about that, 0 for none
}

type block struct {
	kind protocol.BlockKind
	text []byte
	args protocol.ArgsBuilder
	call protocol.ToolCall
	done protocol.Block // nil while the block grows
	tail []byte         // the end of it, where stream rules watch it
}

// apply notes that a request waits, or does no more.
func (in LoginWaits) apply(m *Machine) {
	if a, asks := m.activity.(interface{ waitsForLogin(string) }); asks && m.activity.begun() == in.Attempt {
		a.waitsForLogin(in.For)
		m.notePhase()
	}
}

// newStream begins the answer to a request that is made now.
func (m *Machine) newStream() *stream {
	s := newStream(m.model, m.now)
	s.level = m.Level()
	return s
}

func newStream(model *protocol.Model, now int64) *stream {
	return &stream{model: model, msg: &protocol.AssistantMessage{
		Content: protocol.Content{}, API: model.API, Provider: model.Provider, Model: model.ID,
		StopReason: protocol.StopStop, Timestamp: now,
	}}
}

func (in StreamParts) apply(m *Machine) {
	s, ok := current[*streaming](m, in.Attempt)
	if !ok || s.over != nil {
		return
	}
	for _, p := range in.Parts {
		if err := s.refusal(p); err != nil { // nothing of the answer is run
			m.release()
			m.streamFailed(s, err)
			return
		}
		switch p := p.(type) {
		case protocol.PartStart:
			s.msg.ResponseID = p.ResponseID
			if m.set.Rules.MessageTimes && p.Named != s.msg.Model {
				s.msg.ResponseModel = p.Named
			}
			if by := p.Model; by != nil {
				s.model, s.msg.API, s.msg.Provider, s.msg.Model = by, by.API, by.Provider, by.ID
			}
			m.startMessage(s)
		case protocol.PartBlockStart:
			m.blockStart(s, p)
		case protocol.PartDelta:
			m.blockDelta(s, p)
			if m.watch(s, p.Index, p.Delta) {
				return
			}
		case protocol.PartBlockEnd:
			m.blockEnd(s, p)
		case protocol.PartUsage:
			s.msg.Usage = s.model.Price(p.Usage)
			s.usage = new(s.msg.Usage)
		case protocol.PartDone:
			// comes as StreamEnd
		}
	}
}

// refusal counts a part and says why the answer ends with it: it comes out of
// order, for blocks open in index order and only open ones grow; or the answer is
// many times what any model writes, of a server that does not stop.
func (s *stream) refusal(p protocol.Part) *protocol.StreamError {
	fits, blocks := true, len(s.blocks)
	switch p := p.(type) {
	case protocol.PartStart:
		s.size += len(p.ResponseID)
	case protocol.PartBlockStart:
		fits = p.Index == blocks
		blocks++
		s.size += len(p.ID) + len(p.Name)
		if p.Kind == protocol.BlockToolCall {
			s.asked++
		}
	case protocol.PartDelta:
		fits = s.grows(p.Index)
		s.size += len(p.Delta)
	case protocol.PartBlockEnd:
		fits = s.grows(p.Index)
		s.size += len(p.ID) + len(p.Name) + len(p.Signature)
	case protocol.PartUsage, protocol.PartDone:
	}
	switch {
	case !fits:
		return protocol.ErrorInternal.Errorf("the provider sent its answer out of order")
	case s.asked > protocol.MaxCalls:
		return protocol.ErrorInvalid.Errorf("the answer was stopped: it has more than %d tool calls; none of them was run", protocol.MaxCalls)
	case blocks > protocol.MaxBlocks:
		return protocol.ErrorInvalid.Errorf("the answer was stopped: it has more than %d blocks", protocol.MaxBlocks)
	case s.size > protocol.MaxAnswer:
		return protocol.ErrorInvalid.Errorf("the answer was stopped: it is longer than %d MiB", protocol.MaxAnswer>>20)
	}
	return nil
}

func (s *stream) grows(index int) bool {
	return index >= 0 && index < len(s.blocks) && s.blocks[index].done == nil
}

// startMessage announces the assistant message once, without content.
func (m *Machine) startMessage(s *streaming) {
	if s.started {
		return
	}
	s.started = true
	m.emit(protocol.MessageStart{Message: new(*s.msg), RunID: s.run.id})
}

func (m *Machine) update(s *streaming, u *protocol.MessageUpdate) {
	u.RunID, u.Usage = s.run.id, s.usage
	s.usage = nil
	m.emit(u)
}

func (m *Machine) blockStart(s *streaming, p protocol.PartBlockStart) {
	m.startMessage(s)
	b := block{kind: p.Kind, call: protocol.ToolCall{ID: s.unique(p.ID, p.Index), Name: p.Name, Arguments: emptyObject}}
	s.blocks = append(s.blocks, b)
	u := &protocol.MessageUpdate{Step: protocol.UpdateStart, Kind: p.Kind, Index: p.Index}
	if p.Kind == protocol.BlockToolCall {
		u.Block = b.call
	}
	m.update(s, u)
}

var emptyObject = json.RawMessage("{}")

func (m *Machine) blockDelta(s *streaming, p protocol.PartDelta) {
	b := &s.blocks[p.Index]
	if p.Delta == "" {
		return
	}
	if b.kind == protocol.BlockToolCall {
		b.args.Feed(p.Delta)
	} else {
		b.text = append(b.text, p.Delta...)
		s.text = cmp.Or(s.text, m.now)
	}
	m.update(s, &protocol.MessageUpdate{Step: protocol.UpdateDelta, Kind: b.kind, Index: p.Index, Delta: p.Delta})
}

func (m *Machine) blockEnd(s *streaming, p protocol.PartBlockEnd) {
	b := &s.blocks[p.Index]
	if p.ID != "" {
		b.call.ID = s.unique(p.ID, p.Index)
	}
	b.call.Name = cmp.Or(p.Name, b.call.Name)
	b.finish(p.Signature, p.Redacted)
	m.update(s, &protocol.MessageUpdate{Step: protocol.UpdateEnd, Kind: b.kind, Index: p.Index, Block: b.done})
}

// unique is the id of the block's call: by its id a call is told from the others
// of its message, and some models give all of them the same.
func (s *stream) unique(id string, index int) string {
	taken := func(id string) bool {
		for i := range s.blocks {
			if i != index && s.blocks[i].call.ID == id {
				return true
			}
		}
		return false
	}
	own := id
	for n := 2; id != "" && taken(own); n++ {
		own = id + "_" + strconv.Itoa(n)
	}
	return own
}

func (b *block) finish(signature string, redacted bool) {
	switch b.kind {
	case protocol.BlockText:
		b.done = protocol.Text{Text: string(b.text), Signature: signature}
	case protocol.BlockThinking:
		b.done = protocol.Thinking{Thinking: string(b.text), Signature: signature, Redacted: redacted}
	case protocol.BlockToolCall:
		b.call.Arguments = b.args.AppendJSON(nil)
		b.call.ThoughtSignature = signature
		b.done = b.call
	}
	b.text, b.tail = nil, nil
}

// content is what the blocks amount to; blocks cut short count as far as they
// got.
func (s *stream) content() protocol.Content {
	content := protocol.Content{}
	for i := range s.blocks {
		b := &s.blocks[i]
		if b.done == nil {
			b.finish("", false)
		}
		content = append(content, b.done)
	}
	return content
}

// apply finishes the assistant message and decides what follows.
func (in StreamEnd) apply(m *Machine) {
	s, ok := current[*streaming](m, in.Attempt)
	if !ok || s.over != nil {
		return
	}
	if in.Err != nil {
		m.streamFailed(s, in.Err)
		return
	}
	for i := range s.blocks {
		if s.blocks[i].done == nil { // the provider's duty, but the client must see an end
			m.blockEnd(s, protocol.PartBlockEnd{Index: i})
		}
	}
	s.msg.StopReason = in.Done.StopReason
	if m.set.Rules.AnswerTimes {
		s.took(m.now)
	}
	if m.set.Rules.MessageTimes {
		s.msg.RawStopReason = in.Done.Raw
	}
	if s.started && m.listens(HookMessageEnd) {
		s.over = &in
		s.hook = m.callHook(MessageEndHook{m.compose(s.stream)})
		return
	}
	m.finishMessage(s.run, s.stream)
	m.answerOver(s, s.calls())
}

// took notes in the answer how long it took.
func (s *stream) took(now int64) {
	s.msg.Duration = new(now - s.msg.Timestamp)
	if s.text != 0 {
		s.msg.TTFT = new(s.text - s.msg.Timestamp)
	}
}

// answered goes on with an answer that extensions have seen.
func (m *Machine) answered(s *streaming, answer HookAnswer) {
	rewritten, ok := answer.(Rewritten)
	if !ok || rewritten.Message == nil {
		m.finishMessage(s.run, s.stream)
		m.answerOver(s, s.calls())
		return
	}
	fitStop(rewritten.Message)
	m.recordAnswer(s.run, protocol.Seal(rewritten.Message))
	m.answerOver(s, s.replaced(rewritten.Message))
}

// answerOver decides what follows an answer that is in the log.
func (m *Machine) answerOver(s *streaming, calls []*call) {
	r := s.run
	m.retryWon()
	r.overflowed = overflows(s.model, r.answer)
	m.work.recovered, m.work.futile = m.work.recovered && r.overflowed, false
	r.calls = calls
	if len(r.calls) == 0 {
		m.endTurn(r)
		return
	}
	m.startCalls(r, s.attempt)
}

// overflows says whether an answer was made of less than its request: some
// providers cut what is larger than the window, and say so only in the counts.
func overflows(model *protocol.Model, answer *protocol.AssistantMessage) bool {
	return answer.StopReason == protocol.StopStop &&
		model.ContextWindow > 0 && answer.Usage.Input+answer.Usage.CacheRead > model.ContextWindow
}

// compose makes the message of its blocks.
func (m *Machine) compose(s *stream) *protocol.AssistantMessage {
	msg := s.msg
	if m.set.Rules.MessageTimes {
		msg.DurationMs, msg.ThinkingLevel = new(m.now-msg.Timestamp), s.level
	}
	msg.Content = s.content()
	fitStop(msg)
	if msg.Usage.TotalTokens == 0 {
		msg.Usage = s.model.Price(msg.Usage)
	}
	return protocol.Seal(msg)
}

// fitStop makes the stop reason of an answer say what is in it.
func fitStop(msg *protocol.AssistantMessage) {
	switch hasCalls := len(msg.Content.ToolCalls()) > 0; {
	case msg.StopReason == protocol.StopToolUse && !hasCalls:
		msg.StopReason = protocol.StopStop
	case msg.StopReason == protocol.StopStop && hasCalls:
		msg.StopReason = protocol.StopToolUse
	}
}

// finishMessage logs the assistant message and announces it whole.
func (m *Machine) finishMessage(r *run, s *stream) {
	msg := m.compose(s)
	m.counts.learn(m.size, msg.Usage)
	r.answer, r.answerID = msg, m.appendMessage(protocol.MessageEntry{Message: msg})
	if !s.started {
		s.started = true
		frame := *msg
		if !m.set.Rules.FullStart && s.model.API == announcesEarly {
			frame = *newStream(s.model, msg.Timestamp).msg
		}
		m.emit(protocol.MessageStart{Message: &frame, RunID: r.id})
	}
	r.messages = append(r.messages, msg)
	m.emit(protocol.MessageEnd{Message: msg, RunID: r.id})
	m.spendAnswer(msg)
}

// recordAnswer is the same for an answer in the place of one that clients have seen
// begin.
func (m *Machine) recordAnswer(r *run, msg *protocol.AssistantMessage) {
	r.answer, r.answerID = msg, m.appendMessage(protocol.MessageEntry{Message: msg})
	r.messages = append(r.messages, msg)
	m.emit(protocol.MessageEnd{Message: msg, RunID: r.id})
}

// announcesEarly is the wire on which pi up to 0.45 announces a message before it
// asks. On the others, and in pi since, one that fails before it begins says so
// already in message_start.
const announcesEarly = "anthropic-messages"

// streamFailed closes a message that the provider did not finish.
func (m *Machine) streamFailed(s *streaming, err *protocol.StreamError) {
	m.breakOff(s.run, s.stream, protocol.StopError, err.Message, ending{outcome: failed, err: err})
}

// breakOff ends a run with an answer that was not finished.
func (m *Machine) breakOff(r *run, s *stream, stop protocol.StopReason, why string, e ending) {
	if s.hook != 0 {
		m.do(CancelHook{s.hook})
		s.hook = 0
	}
	s.msg.StopReason, s.msg.ErrorMessage = stop, why
	m.finishMessage(r, s)
	if stop == protocol.StopAborted && m.words().pisces {
		m.showCut(r)
	}
	m.turnEnd(r)
	m.endRun(r, e)
}
