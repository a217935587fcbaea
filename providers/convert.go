package providers

import (
	"fmt"
	"strings"

	"troupe/protocol"
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
func Convert(req *Request, shape Shape) []protocol.Message {
	c := &converter{req: req, shape: shape, used: make(map[string]bool, len(req.Messages)), waiting: make(map[string]*turn, len(req.Messages))}
	c.out = make([]protocol.Message, 0, len(req.Messages)+2)
	turns := make([]turn, len(req.Messages))
	for i, m := range req.Messages {
		c.pair(&turns[i], m)
	}
	for i := range turns {
		c.emit(&turns[i])
	}
	c.trim()
	return c.out
}

type converter struct {
	req     *Request
	shape   Shape
	out     []protocol.Message
	used    map[string]bool  // ids of calls given out
	waiting map[string]*turn // the latest answer that made a call of this id
}

// turn is a message and, for an answer, its calls with their results.
type turn struct {
	user    *protocol.UserMessage
	answer  *protocol.AssistantMessage
	calls   []call
	dropped bool // the answer is left out
}

type call struct {
	id     string // as the history has it
	result *protocol.ToolResultMessage
}

// pair sorts one message in: what it is to a model, and which call it answers.
func (c *converter) pair(t *turn, m protocol.Message) {
	switch m := m.(type) {
	case *protocol.UserMessage:
		t.user = m
	case *protocol.AssistantMessage:
		c.addAnswer(t, m)
	case *protocol.ToolResultMessage:
		c.addResult(m)
	case *protocol.BashExecutionMessage:
		if !m.ExcludeFromContext {
			t.user = userText(BashText(m), m.Timestamp)
		}
	case *protocol.CustomMessage:
		t.user = &protocol.UserMessage{Content: m.Content, Timestamp: m.Timestamp}
	case *protocol.BranchSummaryMessage:
		t.user = userText(summaryText("Another branch of this conversation was explored and left. A summary of it:", m.Summary), m.Timestamp)
	case *protocol.CompactionSummaryMessage:
		t.user = userText(summaryText("The earlier part of this conversation was compacted into this summary:", m.Summary), m.Timestamp)
	case *protocol.UnknownMessage: // nothing a model could read
	}
}

func userText(text string, timestamp int64) *protocol.UserMessage {
	return &protocol.UserMessage{Content: protocol.TextContent(text), Timestamp: timestamp}
}

func summaryText(lead, summary string) string {
	return lead + "\n\n<summary>\n" + summary + "\n</summary>"
}

// BashText is how a model reads about a command that the client ran.
func BashText(m *protocol.BashExecutionMessage) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Ran `%s`\n", m.Command)
	if m.Output == "" {
		b.WriteString("(no output)")
	} else {
		fmt.Fprintf(&b, "```\n%s\n```", m.Output)
	}
	switch {
	case m.Cancelled:
		b.WriteString("\n\n(command cancelled)")
	case m.ExitCode != nil && *m.ExitCode != 0:
		fmt.Fprintf(&b, "\n\nCommand exited with code %d", *m.ExitCode)
	}
	if m.Truncated && m.FullOutputPath != "" {
		fmt.Fprintf(&b, "\n\n[Output truncated. Full output: %s]", m.FullOutputPath)
	}
	return b.String()
}

// addAnswer takes an answer and opens its calls. The calls of an answer that is
// left out are opened, too: their results go the same way.
func (c *converter) addAnswer(t *turn, m *protocol.AssistantMessage) {
	t.answer = m
	t.dropped = m.StopReason == protocol.StopError || m.StopReason == protocol.StopAborted
	for _, b := range m.Content {
		if b, ok := b.(protocol.ToolCall); ok {
			t.calls = append(t.calls, call{id: b.ID})
			c.waiting[b.ID] = t
		}
	}
}

// addResult gives a result to the nearest call before it. Servers that number
// their calls anew in every answer make the nearest the right one. A second
// result for the same call, and one without a call, is nobody's.
func (c *converter) addResult(m *protocol.ToolResultMessage) {
	t := c.waiting[m.ToolCallID]
	if t == nil {
		return
	}
	for i := range t.calls {
		if t.calls[i].id == m.ToolCallID && t.calls[i].result == nil {
			t.calls[i].result = m
			return
		}
	}
}

// emit appends what a turn shows the model.
func (c *converter) emit(t *turn) {
	switch {
	case t.user != nil:
		c.emitUser(t.user)
	case t.answer != nil && !t.dropped:
		c.emitAnswer(t)
	}
}

func (c *converter) emitUser(m *protocol.UserMessage) {
	content := c.input(m.Content, imageNote)
	if len(content) == 0 {
		return
	}
	if n := len(c.out); c.shape.MergeUsers && n > 0 {
		if before, ok := c.out[n-1].(*protocol.UserMessage); ok {
			merged := append(before.Content[:len(before.Content):len(before.Content)], content...)
			c.out[n-1] = &protocol.UserMessage{Content: merged, Timestamp: before.Timestamp}
			return
		}
	}
	if asItIs(m.Content) {
		c.out = append(c.out, m)
		return
	}
	c.out = append(c.out, &protocol.UserMessage{Content: content, Timestamp: m.Timestamp})
}

func (c *converter) emitAnswer(t *turn) {
	m := t.answer
	if asItIs(m.Content) {
		c.out = append(c.out, m)
		return
	}
	own := m.Provider == c.req.Model.Provider && m.API == c.req.Model.API && m.Model == c.req.Model.ID
	content := c.answer(m.Content, own)
	for n := len(content); c.shape.Spoken && n > 0; n-- {
		if _, silent := content[n-1].(protocol.Thinking); !silent {
			break
		}
		content = content[:n-1]
	}
	if len(content) == 0 {
		return
	}
	calls := make([]protocol.ToolCall, 0, len(t.calls))
	for i, b := range content {
		if b, ok := b.(protocol.ToolCall); ok {
			b.ID = c.newID(b.ID, own)
			calls = append(calls, b)
			content[i] = b
		}
	}
	c.out = append(c.out, &protocol.AssistantMessage{
		Content: content, API: m.API, Provider: m.Provider, Model: m.Model,
		Usage: m.Usage, StopReason: m.StopReason, Timestamp: m.Timestamp, ResponseID: m.ResponseID,
	})
	for i := range t.calls {
		c.out = append(c.out, c.result(t.calls[i].result, calls[i].ID, calls[i].Name, m.Timestamp))
	}
}

// newID gives a call an id that no other call of the request has.
func (c *converter) newID(id string, own bool) string {
	for try := 0; ; try++ {
		fit := suffixed(id, try)
		if c.shape.ToolID != nil {
			fit = c.shape.ToolID(id, own, try)
		}
		if fit != "" && !c.used[fit] {
			c.used[fit] = true
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

// answer is the content of an assistant message, its calls with their old ids.
// Some wires join the texts of a message: thinking that became text is set
// apart from its neighbours.
func (c *converter) answer(content protocol.Content, own bool) protocol.Content {
	out := make(protocol.Content, 0, len(content))
	thought := false // the last block is thinking that became text
	text := func(b protocol.Text, isThought bool) {
		if n := len(out); n > 0 && (thought || isThought) {
			if before, ok := out[n-1].(protocol.Text); ok {
				before.Text += "\n\n"
				out[n-1] = before
			}
		}
		out, thought = append(out, b), isThought
	}
	for _, b := range content {
		switch b := b.(type) {
		case protocol.Text:
			if !own || !c.shape.SignedText {
				b.Signature = ""
			}
			if b.Signature != "" || !blank(b.Text) {
				text(b, false)
			}
		case protocol.Thinking:
			switch {
			case own && (b.Signature != "" || !b.Redacted && !blank(b.Thinking)):
				out, thought = append(out, b), false
			case !own && !b.Redacted && !blank(b.Thinking):
				text(protocol.Text{Text: b.Thinking}, true)
			}
		case protocol.ToolCall:
			out, thought = append(out, c.toolCall(b, own)), false
		case protocol.Image, protocol.UnknownBlock: // no wire takes them back
		}
	}
	return out
}

func (c *converter) toolCall(b protocol.ToolCall, own bool) protocol.ToolCall {
	if !own {
		b.ThoughtSignature = ""
	}
	b.Name = c.toolName(b.Name)
	b.Arguments = cleanObject(b.Arguments)
	return b
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
