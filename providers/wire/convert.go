package wire

import (
	"slices"

	"troupe/protocol"
	"troupe/providers"
)

// Shape is what a wire, or one endpoint of it, demands of a conversation.
type Shape struct {
	// ToolID makes a tool call's id fit the wire. own tells whether the very
	// model that is asked made the id. try counts from 0; a higher one asks for
	// another id because the one before is taken. nil keeps ids that are free.
	ToolID func(id string, own bool, try int) string

	MergeUsers bool // user messages in a row become one
	UserFirst  bool // the first message must be the user's
	UserLast   bool // the last message must not be the assistant's
	SignedText bool // texts carry signatures, empty ones, too; otherwise they are dropped
	Spoken     bool // an answer must not end in thinking: what does is cut back, or left out
}

// Convert turns the messages of a session into what a model is shown: user,
// assistant and tool result messages only, each with content. Whatever the
// history went through, the result keeps these promises:
//
//   - Every tool call is answered by exactly one result, which follows its
//     message directly, in the order of the calls; there are no other results.
//   - Ids of calls are unique in the request and fit the wire.
//   - Answers that failed or were aborted are left out, with their results.
//   - Signatures are there, byte for byte, only if the asked model wrote them;
//     the thinking of other models has become text.
//   - There is no image where the model or the settings do not want any, no
//     empty block, and the arguments of calls are JSON objects.
//
// Converting a longer history gives the conversion of the shorter one as its
// beginning as far as its turns were complete, so that prompt caches hold. The
// messages passed in are not changed; the result may share them.
func Convert(req *providers.Request, shape Shape) []protocol.Message {
	c := &converter{req: req, shape: shape}
	for i, m := range req.Messages {
		c.pair(i, m)
	}
	c.out = make([]protocol.Message, 0, len(req.Messages)+2)
	c.used = make(map[string]struct{}, len(c.calls))
	for i, m := range req.Messages {
		c.emit(i, m)
	}
	c.trim()
	return c.out
}

// converter goes over the history twice: to find the result of every call,
// which may stand anywhere behind it, and to write down what is shown. Most
// messages are shown as they are; only others are made anew.
type converter struct {
	req   *providers.Request
	shape Shape
	out   []protocol.Message
	used  map[string]struct{}   // ids of calls
	tries map[askedID]int       // how many forms of an id that several calls have are taken
	own   *protocol.UserMessage // made here of several, so that it may grow

	scratch protocol.Content // of one answer

	turns   []turn
	calls   []call         // of the turns, in a row
	waiting map[string]int // for indexed of the turns: the latest one with a call of this id
	indexed int
	emitted int // turns
}

// askedID is the id of a call as it was recorded; own says that the model wrote it itself.
type askedID struct {
	id  string
	own bool
}

// turn is an answer that calls tools.
type turn struct {
	message    int // of the history
	first, end int // of the calls
}

type call struct {
	id     string // as the history has it
	result *protocol.ToolResultMessage
}

// pair takes note of calls and their results. The calls of an answer that is
// left out count, too: their results go the same way.
func (c *converter) pair(i int, m protocol.Message) {
	switch m := m.(type) {
	case *protocol.AssistantMessage:
		first := len(c.calls)
		for _, b := range m.Content {
			if b, ok := b.(protocol.ToolCall); ok {
				c.calls = append(c.calls, call{id: b.ID})
			}
		}
		if len(c.calls) > first {
			c.turns = append(c.turns, turn{i, first, len(c.calls)})
		}
	case *protocol.ToolResultMessage:
		c.addResult(m)
	case *protocol.UserMessage, *protocol.BashExecutionMessage, *protocol.CustomMessage, *protocol.BranchSummaryMessage,
		*protocol.CompactionSummaryMessage, *protocol.UnknownMessage: // none of either
	}
}

// addResult gives a result to the nearest call before it. Servers that number
// their calls anew in every answer make the nearest the right one. A second
// result for the same call, and one without a call, is nobody's.
func (c *converter) addResult(m *protocol.ToolResultMessage) {
	turn := len(c.turns) - 1
	if !slices.ContainsFunc(c.callsOf(turn), func(call call) bool { return call.id == m.ToolCallID }) {
		turn = c.find(m.ToolCallID)
	}
	calls := c.callsOf(turn)
	for i := range calls {
		if calls[i].id == m.ToolCallID && calls[i].result == nil {
			calls[i].result = m
			break
		}
	}
}

// callsOf are the calls of a turn, none of turn -1.
func (c *converter) callsOf(turn int) []call {
	if turn < 0 {
		return nil
	}
	t := c.turns[turn]
	return c.calls[t.first:t.end]
}

// find is the latest turn with a call of this id, -1 if there is none. Nearly
// every result follows its call, so few histories need the index.
func (c *converter) find(id string) int {
	if c.waiting == nil {
		c.waiting = make(map[string]int, len(c.calls))
	}
	for ; c.indexed < len(c.turns); c.indexed++ {
		for _, call := range c.callsOf(c.indexed) {
			c.waiting[call.id] = c.indexed
		}
	}
	if turn, ok := c.waiting[id]; ok {
		return turn
	}
	return -1
}

// emit appends what a message of the history shows the model.
func (c *converter) emit(i int, m protocol.Message) {
	switch m := m.(type) {
	case *protocol.UserMessage:
		c.emitUser(m)
	case *protocol.AssistantMessage:
		var calls []call
		if c.emitted < len(c.turns) && c.turns[c.emitted].message == i {
			calls = c.callsOf(c.emitted)
			c.emitted++
		}
		if m.StopReason != protocol.StopError && m.StopReason != protocol.StopAborted {
			c.emitAnswer(m, calls)
		}
	case *protocol.ToolResultMessage: // emitAnswer shows it
	case *protocol.BashExecutionMessage:
		if !m.ExcludeFromContext {
			c.emitUser(userText(m.ModelText(), m.Timestamp))
		}
	case *protocol.CustomMessage:
		c.emitUser(&protocol.UserMessage{Content: m.Content, Timestamp: m.Timestamp})
	case *protocol.BranchSummaryMessage:
		c.emitUser(userText(summaryText("Another branch of this conversation was explored and left. A summary of it:", m.Summary), m.Timestamp))
	case *protocol.CompactionSummaryMessage:
		c.emitUser(userText(summaryText("The earlier part of this conversation was compacted into this summary:", m.Summary), m.Timestamp))
	case *protocol.UnknownMessage: // nothing a model could read
	}
}

func userText(text string, timestamp int64) *protocol.UserMessage {
	return &protocol.UserMessage{Content: protocol.TextContent(text), Timestamp: timestamp}
}

func summaryText(lead, summary string) string {
	return lead + "\n\n<summary>\n" + summary + "\n</summary>"
}

func (c *converter) emitUser(m *protocol.UserMessage) {
	content := c.input(m.Content, imageNote)
	if len(content) == 0 {
		return
	}
	if n := len(c.out); c.shape.MergeUsers && n > 0 {
		if before, ok := c.out[n-1].(*protocol.UserMessage); ok {
			if before != c.own {
				c.own = &protocol.UserMessage{Content: slices.Clip(before.Content), Timestamp: before.Timestamp}
				c.out[n-1] = c.own
			}
			c.own.Content = append(c.own.Content, content...)
			return
		}
	}
	if asItIs(m.Content) {
		c.out = append(c.out, m)
		return
	}
	c.out = append(c.out, &protocol.UserMessage{Content: content, Timestamp: m.Timestamp})
}

func (c *converter) emitAnswer(m *protocol.AssistantMessage, calls []call) {
	if asItIs(m.Content) {
		c.out = append(c.out, m)
		return
	}
	own := m.Provider == c.req.Model.Provider && m.API == c.req.Model.API && m.Model == c.req.Model.ID
	content, shared := c.answer(m.Content, own)
	if len(content) == 0 {
		return
	}
	at := len(c.out)
	c.out = append(c.out, m)
	for i, b := range content {
		b, ok := b.(protocol.ToolCall)
		if !ok {
			continue
		}
		if id := c.newID(b.ID, own); id != b.ID {
			if shared {
				content, shared = slices.Clone(content), false
			}
			b.ID = id
			content[i] = b
		}
		c.out = append(c.out, c.result(calls[0].result, b.ID, b.Name, m.Timestamp))
		calls = calls[1:]
	}
	if !shared {
		c.out[at] = &protocol.AssistantMessage{
			Content: content, API: m.API, Provider: m.Provider, Model: m.Model,
			Usage: m.Usage, StopReason: m.StopReason, Timestamp: m.Timestamp, ResponseID: m.ResponseID,
		}
	}
}

// newID gives a call an id that no other call of the request has.
func (c *converter) newID(id string, own bool) string {
	of := askedID{id, own}
	for try := c.tries[of]; ; try++ {
		fit := suffixed(id, try)
		if c.shape.ToolID != nil {
			fit = c.shape.ToolID(id, own, try)
		}
		if _, taken := c.used[fit]; fit != "" && !taken {
			c.used[fit] = struct{}{}
			if try > 0 { // there are models that call all their calls the same
				if c.tries == nil {
					c.tries = map[askedID]int{}
				}
				c.tries[of] = try + 1
			}
			return fit
		}
	}
}

// missingResult is shown for a call whose result was never recorded: the run
// was interrupted, or the daemon ended.
const missingResult = "No result was recorded for this call: it was interrupted and may or may not have taken effect."

func (c *converter) result(m *protocol.ToolResultMessage, id, name string, timestamp int64) *protocol.ToolResultMessage {
	if m == nil {
		return &protocol.ToolResultMessage{
			ToolCallID: id, ToolName: name, IsError: true, Timestamp: timestamp, Content: protocol.TextContent(missingResult),
		}
	}
	if m.ToolCallID == id && m.ToolName == name && asItIs(m.Content) {
		return m
	}
	content := c.input(m.Content, toolImageNote)
	if len(content) == 0 {
		content = protocol.TextContent("(no output)")
	}
	return &protocol.ToolResultMessage{
		ToolCallID: id, ToolName: name, Content: content, IsError: m.IsError, Timestamp: m.Timestamp,
	}
}

// trim puts a user's words where the wire must have them.
func (c *converter) trim() {
	if len(c.out) == 0 {
		return
	}
	if _, ok := c.out[0].(*protocol.UserMessage); !ok && c.shape.UserFirst {
		first := userText("(The conversation begins with the assistant.)", 0)
		c.out = append([]protocol.Message{first}, c.out...)
	}
	if _, ok := c.out[len(c.out)-1].(*protocol.AssistantMessage); ok && c.shape.UserLast {
		c.out = append(c.out, userText("Continue.", 0))
	}
}

// What stands for an image that the model does not get.
const (
	blockedNote   = "(image left out: images are switched off)"
	imageNote     = "(image left out: the model does not take images)"
	toolImageNote = "(image of the tool left out: the model does not take images)"
)

// input is the content of a user message or a tool result: text and images.
// Notes for images in a row become one.
func (c *converter) input(content protocol.Content, note string) protocol.Content {
	if asItIs(content) {
		return content
	}
	if c.req.BlockImages {
		note = blockedNote
	}
	images := !c.req.BlockImages && c.req.Model.Accepts("image")
	out := make(protocol.Content, 0, len(content))
	noted := false
	for _, b := range content {
		switch b := b.(type) {
		case protocol.Text:
			if blank(b.Text) {
				continue
			}
			out, noted = append(out, protocol.Text{Text: b.Text}), false
		case protocol.Image:
			if images {
				out = append(out, b)
			} else if !noted {
				out, noted = append(out, protocol.Text{Text: note}), true
			}
		case protocol.Thinking, protocol.ToolCall, protocol.UnknownBlock: // nobody's input
		}
	}
	return out
}

// asItIs recognises the usual input, one text, which needs no copy.
func asItIs(content protocol.Content) bool {
	if len(content) != 1 {
		return false
	}
	text, ok := content[0].(protocol.Text)
	return ok && text.Signature == "" && !blank(text.Text)
}

// TextOf joins the texts of content; nothing is copied if there is one.
func TextOf(content protocol.Content, sep string) string {
	if len(content) == 1 {
		text, _ := content[0].(protocol.Text)
		return text.Text
	}
	return content.Text(sep)
}

// answer is the content of an assistant message, its calls with their old ids.
// Some wires join the texts of a message: thinking that became text is set
// apart from its neighbours. same says that it is the content that came in,
// which most answers are: nothing is copied then.
func (c *converter) answer(content protocol.Content, own bool) (out protocol.Content, same bool) {
	c.scratch, same = c.scratch[:0], true
	thought := false // the last block is thinking that became text
	text := func(b protocol.Text, isThought bool) {
		if n := len(c.scratch); n > 0 && (thought || isThought) {
			if before, ok := c.scratch[n-1].(protocol.Text); ok {
				before.Text += "\n\n"
				c.scratch[n-1] = before
			}
		}
		c.scratch, thought, same = append(c.scratch, b), isThought, false
	}
	keep := func(b protocol.Block) { c.scratch, thought = append(c.scratch, b), false }
	for _, block := range content {
		switch b := block.(type) {
		case protocol.Text:
			signed := b.Signature != "" && own && c.shape.SignedText
			switch {
			case !signed && blank(b.Text):
				same = false
			case !thought && (signed || b.Signature == ""):
				keep(block)
			default:
				if !signed {
					b.Signature = ""
				}
				text(b, false)
			}
		case protocol.Thinking:
			switch {
			case own && (b.Signature != "" || !b.Redacted && !blank(b.Thinking)):
				keep(block)
			case !own && !b.Redacted && !blank(b.Thinking):
				text(protocol.Text{Text: b.Thinking}, true)
			default:
				same = false
			}
		case protocol.ToolCall:
			if call, changed := c.toolCall(b, own); changed {
				block, same = call, false
			}
			keep(block)
		case protocol.Image, protocol.UnknownBlock: // no wire takes them back
			same = false
		}
	}
	for n := len(c.scratch); c.shape.Spoken && n > 0; n-- {
		if _, silent := c.scratch[n-1].(protocol.Thinking); !silent {
			break
		}
		c.scratch, same = c.scratch[:n-1], false
	}
	if same {
		return content, true
	}
	return slices.Clone(c.scratch), false
}

func (c *converter) toolCall(b protocol.ToolCall, own bool) (call protocol.ToolCall, changed bool) {
	call = b
	if !own {
		call.ThoughtSignature = ""
	}
	call.Name = c.toolName(b.Name)
	call.Arguments = CleanObject(b.Arguments)
	return call, call.ThoughtSignature != b.ThoughtSignature || call.Name != b.Name || !sameBytes(call.Arguments, b.Arguments)
}

// toolName keeps the name of a tool there is. Models call tools that do not
// exist, by names that no service takes back.
func (c *converter) toolName(name string) string {
	for _, t := range c.req.Tools {
		if t.Name == name {
			return name
		}
	}
	if name = SafeID(name, 64, 0); name == "" {
		return "unknown"
	}
	return name
}
