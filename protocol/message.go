package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/tidwall/gjson"
)

// Message is one element of a conversation, as it stands in events, in
// responses and in the session file. Messages are shared between goroutines
// once they are finished and must not be changed then.
//
//sumtype:decl
type Message interface {
	Appender
	// Role is the wire's discriminator: "user", "assistant", …
	Role() string
	message()
}

// Roles of the messages troupe writes itself. Others are kept as
// [UnknownMessage].
const (
	RoleUser              = "user"
	RoleAssistant         = "assistant"
	RoleToolResult        = "toolResult"
	RoleBashExecution     = "bashExecution"
	RoleCustom            = "custom"
	RoleBranchSummary     = "branchSummary"
	RoleCompactionSummary = "compactionSummary"
)

// StopReason says why an assistant message ended.
type StopReason string

const (
	StopStop    StopReason = "stop"    // the model was done
	StopLength  StopReason = "length"  // the output limit cut it
	StopToolUse StopReason = "toolUse" // it wants tools run
	StopError   StopReason = "error"   // the provider failed; errorMessage says how
	StopAborted StopReason = "aborted" // the client stopped it
)

// UserMessage is what the person said. Content is text and image blocks; a
// plain string, which old files and some clients use, is read as one text
// block.
type UserMessage struct {
	Content     Content         `json:"content" doc:"In s1 the message has attribution as well: user."`
	Timestamp   int64           `json:"timestamp"`             // epoch milliseconds
	Attachments json.RawMessage `json:"attachments,omitempty"` // of some clients' own; kept, and no model sees it
	sealed      `json:"-"`
}

// AssistantMessage is one answer of a model.
type AssistantMessage struct {
	Content      Content    `json:"content"`
	API          string     `json:"api"`
	Provider     string     `json:"provider"`
	Model        string     `json:"model"`
	Usage        Usage      `json:"usage"`
	StopReason   StopReason `json:"stopReason"`
	Timestamp    int64      `json:"timestamp"`              // epoch milliseconds, when the request was made
	ErrorMessage string     `json:"errorMessage,omitempty"` // with stopReason error and aborted
	ResponseID   string     `json:"responseId,omitempty"`   // the provider's id of the answer
	Duration     *int64     `json:"duration,omitempty"`     // in s1: milliseconds from the request to the end of a whole answer
	TTFT         *int64     `json:"ttft,omitempty"`         // likewise, to the first piece of its text

	// In pi1, in the order of pi 1.6: the provider's own names, and how the answer was made.
	ResponseModel string        `json:"responseModel,omitempty"` // of the model, if it is not Model
	RawStopReason string        `json:"rawStopReason,omitempty"`
	DurationMs    *int64        `json:"durationMs,omitempty"` // from the request to the end
	ThinkingLevel ThinkingLevel `json:"thinkingLevel,omitempty"`

	sealed `json:"-"`
}

// ToolResultMessage answers one tool call of the assistant message before it.
type ToolResultMessage struct {
	ToolCallID string          `json:"toolCallId"`
	ToolName   string          `json:"toolName"`
	Content    Content         `json:"content"`
	Details    json.RawMessage `json:"details,omitempty"` // tool-specific, opaque to the protocol
	IsError    bool            `json:"isError"`
	DurationMs *int64          `json:"durationMs,omitempty"` // in pi1: how long the tool ran; nil for a call that did not run
	Timestamp  int64           `json:"timestamp"`            // epoch milliseconds
	// StructuredContent and Usage are those of the [ToolResult].
	StructuredContent json.RawMessage `json:"structuredContent,omitempty"`
	Usage             json.RawMessage `json:"usage,omitempty"`
	NestedCalls       *NestedCalls    `json:"nestedCalls,omitempty"`
	sealed            `json:"-"`
}

// NestedCalls are the calls that a tool of an extension has made while it ran.
type NestedCalls struct {
	Calls    []NestedCall `json:"calls"`
	Complete bool         `json:"complete"` // there were no others
}

// NestedCall is one of them.
type NestedCall struct {
	ID         string          `json:"id"`
	Name       string          `json:"name"`
	Status     string          `json:"status" enum:"ok,error"`
	Arguments  json.RawMessage `json:"arguments"`
	DurationMs int64           `json:"durationMs"`
	Error      string          `json:"error,omitempty"` // what the result says, if it is one
}

// BashExecutionMessage records a bash command of the client.
type BashExecutionMessage struct {
	Command            string `json:"command"`
	Output             string `json:"output"`
	ExitCode           *int   `json:"exitCode,omitempty"` // absent when the command was killed
	Cancelled          bool   `json:"cancelled"`
	Truncated          bool   `json:"truncated"`
	FullOutputPath     string `json:"fullOutputPath,omitempty"`
	ExcludeFromContext bool   `json:"excludeFromContext,omitempty"` // kept in the file, never sent to a model
	Timestamp          int64  `json:"timestamp"`                    // epoch milliseconds
	sealed             `json:"-"`
}

// Result is what the command was answered.
func (m *BashExecutionMessage) Result() BashResult {
	return BashResult{
		Output: m.Output, ExitCode: m.ExitCode, Cancelled: m.Cancelled, Truncated: m.Truncated, FullOutputPath: m.FullOutputPath,
	}.Counted()
}

// CustomMessage is context that neither the person nor the model wrote: an
// extension's note, a reminder. The model sees its content as user text.
type CustomMessage struct {
	CustomType string          `json:"customType" doc:"In s1 a todo-reminder is a message of the role developer, and all have attribution: agent."`
	Content    Content         `json:"content" also:"string" doc:"In s1 that of ttsr-injection is a string."`
	Display    bool            `json:"display"`
	Details    json.RawMessage `json:"details,omitempty"`
	Timestamp  int64           `json:"timestamp"` // epoch milliseconds
	sealed     `json:"-"`
}

// BranchSummaryMessage stands in the context for a branch that was left. It is
// made from a branch_summary entry and never stored as a message.
type BranchSummaryMessage struct {
	Summary   string `json:"summary"`
	FromID    string `json:"fromId"`
	Timestamp int64  `json:"timestamp"` // epoch milliseconds
}

// CompactionSummaryMessage stands in the context for history that was
// summarised. It is made from a compaction entry and never stored as a message.
type CompactionSummaryMessage struct {
	Summary      string `json:"summary"`
	TokensBefore int64  `json:"tokensBefore"` // size of the context it replaced, in tokens
	Timestamp    int64  `json:"timestamp"`    // epoch milliseconds
}

// UnknownMessage is a message of a role this version does not know. It is kept
// and shown as it is and contributes nothing to a model's context.
type UnknownMessage struct {
	RoleName string
	Raw      json.RawMessage
}

func (*UserMessage) message()              {}
func (*AssistantMessage) message()         {}
func (*ToolResultMessage) message()        {}
func (*BashExecutionMessage) message()     {}
func (*CustomMessage) message()            {}
func (*BranchSummaryMessage) message()     {}
func (*CompactionSummaryMessage) message() {}
func (*UnknownMessage) message()           {}

func (*UserMessage) Role() string              { return RoleUser }
func (*AssistantMessage) Role() string         { return RoleAssistant }
func (*ToolResultMessage) Role() string        { return RoleToolResult }
func (*BashExecutionMessage) Role() string     { return RoleBashExecution }
func (*CustomMessage) Role() string            { return RoleCustom }
func (*BranchSummaryMessage) Role() string     { return RoleBranchSummary }
func (*CompactionSummaryMessage) Role() string { return RoleCompactionSummary }
func (m *UnknownMessage) Role() string         { return m.RoleName }

// sealed is the text of a message that was encoded, nil for one that was not.
type sealed struct{ enc []byte }

func (s *sealed) seal() *sealed { return s }

// Weight of a sealed message is its length.
func (s *sealed) Weight() int { return len(s.enc) }

// Seal encodes a finished message once. Every later AppendJSON of the same
// message copies the bytes: the log line, message_end, turn_end and agent_end
// share one encoding. The message must not change afterwards, unless it is
// sealed again.
func Seal[M Message](m M) M {
	if s, ok := any(m).(interface{ seal() *sealed }); ok {
		text := s.seal()
		text.enc = nil
		text.enc = m.AppendJSON(make([]byte, 0, SizeOf(m)))
	}
	return m
}

// Unsealed is a copy of the message that may be changed.
func (m *AssistantMessage) Unsealed() *AssistantMessage {
	c := *m
	c.enc = nil
	return &c
}

// appendMessage appends a message by its tags, behind its role, or as it was
// encoded before.
func appendMessage(dst []byte, m Message, enc []byte) []byte {
	if enc != nil {
		return append(dst, enc...)
	}
	o := OpenObject(dst)
	o.Str("role", m.Role())
	o.Members(m, "")
	return o.Close()
}

func (m *UserMessage) AppendJSON(dst []byte) []byte              { return appendMessage(dst, m, m.enc) }
func (m *AssistantMessage) AppendJSON(dst []byte) []byte         { return appendMessage(dst, m, m.enc) }
func (m *ToolResultMessage) AppendJSON(dst []byte) []byte        { return appendMessage(dst, m, m.enc) }
func (m *BashExecutionMessage) AppendJSON(dst []byte) []byte     { return appendMessage(dst, m, m.enc) }
func (m *CustomMessage) AppendJSON(dst []byte) []byte            { return appendMessage(dst, m, m.enc) }
func (m *BranchSummaryMessage) AppendJSON(dst []byte) []byte     { return appendMessage(dst, m, nil) }
func (m *CompactionSummaryMessage) AppendJSON(dst []byte) []byte { return appendMessage(dst, m, nil) }

func (m *UnknownMessage) AppendJSON(dst []byte) []byte { return AppendRaw(dst, m.Raw) }

// AppendAs appends the message as a dialect has it.
func (m *UserMessage) AppendAs(dst []byte, d Dialect) []byte {
	if d != DialectS1 {
		return m.AppendJSON(dst)
	}
	return appendPisces(dst, m.AppendJSON(nil))
}

// AppendAs appends the message as a dialect has it.
func (m *CustomMessage) AppendAs(dst []byte, d Dialect) []byte {
	if d != DialectS1 {
		return m.AppendJSON(dst)
	}
	return appendPisces(dst, m.AppendJSON(nil))
}

// appendMessageAs appends a message that is JSON already as a dialect has it.
func appendMessageAs(dst, raw []byte, d Dialect) []byte {
	if d != DialectS1 {
		return append(dst, raw...)
	}
	return appendPisces(dst, raw)
}

// appendPisces appends a message in the form of s1: it says who has said what no model said,
// and a reminder of todos is a message of the role developer.
func appendPisces(dst, raw []byte) []byte {
	role, by := gjson.GetBytes(raw, "role").Str, "agent"
	switch {
	case role != RoleUser && role != RoleCustom, gjson.GetBytes(raw, "attribution").Exists():
		return append(dst, raw...)
	case role == RoleUser:
		by = RoleUser
	default:
		var m CustomMessage
		if Unmarshal(raw, &m) != nil {
			return append(dst, raw...)
		}
		switch m.CustomType {
		case NoteTodos:
			return AppendValue(dst, developerMessage{"developer", m.Content, by, m.Timestamp})
		case NoteRules:
			return AppendValue(dst, ruleMessage{role, m.CustomType, m.Content.Text("\n"), m.Display, m.Details, by, m.Timestamp})
		}
	}
	dst = append(append(append(dst, `{"attribution":"`...), by...), `",`...)
	return append(dst, raw[1:]...)
}

// developerMessage is a reminder of todos in s1.
type developerMessage struct {
	Role        string  `json:"role"`
	Content     Content `json:"content"`
	Attribution string  `json:"attribution"`
	Timestamp   int64   `json:"timestamp"`
}

// ruleMessage is what stream rules have said in s1.
type ruleMessage struct {
	Role        string          `json:"role"`
	CustomType  string          `json:"customType"`
	Content     string          `json:"content"`
	Display     bool            `json:"display"`
	Details     json.RawMessage `json:"details,omitempty"`
	Attribution string          `json:"attribution"`
	Timestamp   int64           `json:"timestamp"`
}

// DecodeMessage reads a stored message. A role that troupe does not know, or a
// message whose shape does not fit its role, comes back as [UnknownMessage];
// only something that is no JSON object with a role is an error. Members of wrong types are read
// as far as they have a meaning: the message is part of a conversation and cannot be refused.
func DecodeMessage(raw []byte) (Message, error) { return decodeMessage(string(raw)) }

// DecodeExactMessage reads a message that can still be refused, such as the result of an extension's
// handler: with a member of a wrong type it comes back as [UnknownMessage].
func DecodeExactMessage(raw []byte) (Message, error) { return decodeMessageAs(string(raw), Unmarshal) }

func decodeMessage(raw string) (Message, error) { return decodeMessageAs(raw, unmarshalMended) }

func decodeMessageAs(raw string, unmarshal func([]byte, any) error) (Message, error) {
	role := gjson.Get(raw, "role")
	if role.Type != gjson.String {
		return nil, errors.New("message without role")
	}
	var m Message
	switch role.Str {
	case RoleUser:
		m = new(UserMessage)
	case RoleAssistant:
		m = new(AssistantMessage)
	case RoleToolResult:
		m = new(ToolResultMessage)
	case RoleBashExecution:
		m = new(BashExecutionMessage)
	case RoleCustom, "hookMessage": // the role's name before session version 3
		m = new(CustomMessage)
	case RoleBranchSummary:
		m = new(BranchSummaryMessage)
	case RoleCompactionSummary:
		m = new(CompactionSummaryMessage)
	}
	if m != nil && unmarshal([]byte(raw), m) == nil {
		return m, nil
	}
	return &UnknownMessage{strings.Clone(role.Str), json.RawMessage(raw)}, nil
}

// Content is the list of blocks of a message. In JSON it is an array; a string
// is accepted and read as one text block.
type Content []Block

// Block is one piece of a message's content.
//
//sumtype:decl
type Block interface {
	Appender
	block()
}

// Text is prose. Signature is opaque provider data, kept byte for byte.
type Text struct {
	Text      string `json:"text"`
	Signature string `json:"textSignature,omitempty"`
}

// Thinking is a model's reasoning. Signature is opaque provider data that is
// valid only for the model that wrote it; Redacted reasoning has no readable
// text.
type Thinking struct {
	Thinking  string `json:"thinking"`
	Signature string `json:"thinkingSignature,omitempty"`
	Redacted  bool   `json:"redacted,omitempty"`
}

// ToolCall asks for one tool to be run. Arguments is always a JSON object.
type ToolCall struct {
	ID               string          `json:"id"`
	Name             string          `json:"name"`
	Arguments        json.RawMessage `json:"arguments"`
	ThoughtSignature string          `json:"thoughtSignature,omitempty"`
}

// Image is a picture: base64 without a data URL prefix, and its media type.
type Image struct {
	Data     string `json:"data"`
	MimeType string `json:"mimeType"`
}

// UnknownBlock is a block of a type this version does not know.
type UnknownBlock struct {
	Type string
	Raw  json.RawMessage
}

func (Text) block()         {}
func (Thinking) block()     {}
func (ToolCall) block()     {}
func (Image) block()        {}
func (UnknownBlock) block() {}

// appendBlock appends a block by its tags, behind its type.
func appendBlock(dst []byte, kind string, b any) []byte {
	o := OpenObject(dst)
	o.Str("type", kind)
	o.Members(b, "")
	return o.Close()
}

func (b Text) AppendJSON(dst []byte) []byte         { return appendBlock(dst, "text", b) }
func (b Thinking) AppendJSON(dst []byte) []byte     { return appendBlock(dst, "thinking", b) }
func (b ToolCall) AppendJSON(dst []byte) []byte     { return appendBlock(dst, "toolCall", b) }
func (b Image) AppendJSON(dst []byte) []byte        { return appendBlock(dst, "image", b) }
func (b UnknownBlock) AppendJSON(dst []byte) []byte { return AppendRaw(dst, b.Raw) }

func (c Content) AppendJSON(dst []byte) []byte { return AppendList(dst, c) }

func (c Content) MarshalJSON() ([]byte, error) { return c.AppendJSON(nil), nil }

func (c *Content) UnmarshalJSON(raw []byte) error {
	v := gjson.ParseBytes(raw)
	switch {
	case v.Type == gjson.Null:
		*c = nil
		return nil
	case v.Type == gjson.String:
		*c = Content{Text{Text: v.Str}}
		return nil
	case !v.IsArray():
		return fmt.Errorf("content is neither string nor array")
	}
	list := Content{}
	var err error
	v.ForEach(func(_, item gjson.Result) bool {
		var b Block
		if b, err = decodeBlock(item); err == nil {
			list = append(list, b)
		}
		return err == nil
	})
	*c = list
	return err
}

func decodeBlock(v gjson.Result) (Block, error) {
	if !v.IsObject() {
		return nil, errors.New("content block is not an object")
	}
	kind := v.Get("type").String()
	raw := []byte(v.Raw)
	switch kind {
	case "text":
		return decodeAs[Text](raw)
	case "thinking":
		return decodeAs[Thinking](raw)
	case "image":
		return decodeAs[Image](raw)
	case "toolCall":
		call, err := decodeAs[ToolCall](raw)
		return call.withObject(), err
	}
	if text := v.Get("text"); kind == "" && text.Type == gjson.String {
		return Text{Text: text.Str}, nil
	}
	return UnknownBlock{kind, raw}, nil
}

func decodeAs[T any](raw []byte) (v T, err error) {
	err = Unmarshal(raw, &v)
	return v, err
}

// Text joins the text blocks, putting sep between two of them.
func (c Content) Text(sep string) string {
	var parts []string
	for _, t := range blocks[Text](c) {
		parts = append(parts, t.Text)
	}
	return strings.Join(parts, sep)
}

// ToolCalls lists the tool calls in order.
func (c Content) ToolCalls() []ToolCall { return blocks[ToolCall](c) }

// Images lists the images in order.
func (c Content) Images() []Image { return blocks[Image](c) }

func blocks[T Block](c Content) (list []T) {
	for _, b := range c {
		if is, ok := b.(T); ok {
			list = append(list, is)
		}
	}
	return list
}

// ModelText is how a model reads about the command.
func (m *BashExecutionMessage) ModelText() string {
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

// TextContent is content of one text block.
func TextContent(text string) Content { return Content{Text{Text: text}} }

// Usage counts the tokens of one answer. Input excludes what came from or went
// to the cache.
type Usage struct {
	Input       int64 `json:"input"`
	Output      int64 `json:"output"`
	CacheRead   int64 `json:"cacheRead"`
	CacheWrite  int64 `json:"cacheWrite"`
	TotalTokens int64 `json:"totalTokens"`
	Cost        Cost  `json:"cost"`
}

// Cost is in US dollars.
type Cost struct {
	Input      float64 `json:"input"`
	Output     float64 `json:"output"`
	CacheRead  float64 `json:"cacheRead"`
	CacheWrite float64 `json:"cacheWrite"`
	Total      float64 `json:"total"`
}

// Sum is the size of the context after the answer, in tokens: the reported
// total, or the sum of the four classes where a provider reports none.
func (u Usage) Sum() int64 {
	if u.TotalTokens != 0 {
		return u.TotalTokens
	}
	return u.Input + u.Output + u.CacheRead + u.CacheWrite
}

// Bounds of what somebody else says that one answer has used: beyond them sums are no
// numbers any more, and no limit is ever reached.
const (
	mostTokens  = 1 << 40 // of each class
	mostDollars = 1e15
)

// Bounded is what may be believed of a usage that somebody else has reported: no number is
// negative, beyond all bounds, or none.
func (u Usage) Bounded() Usage {
	for _, n := range []*int64{&u.Input, &u.Output, &u.CacheRead, &u.CacheWrite, &u.TotalTokens} {
		*n = min(max(*n, 0), mostTokens)
	}
	for _, x := range []*float64{&u.Cost.Input, &u.Cost.Output, &u.Cost.CacheRead, &u.Cost.CacheWrite, &u.Cost.Total} {
		if *x = min(max(*x, 0), mostDollars); math.IsNaN(*x) {
			*x = 0
		}
	}
	return u
}

// Add returns the sum of two usages, field by field.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		u.Input + v.Input, u.Output + v.Output, u.CacheRead + v.CacheRead, u.CacheWrite + v.CacheWrite,
		u.TotalTokens + v.TotalTokens,
		u.Cost.Add(v.Cost),
	}
}

// Minus is what u has more than v, field by field.
func (u Usage) Minus(v Usage) Usage {
	return Usage{
		u.Input - v.Input, u.Output - v.Output, u.CacheRead - v.CacheRead, u.CacheWrite - v.CacheWrite,
		u.TotalTokens - v.TotalTokens,
		u.Cost.Minus(v.Cost),
	}
}

// Minus is what c has more than d.
func (c Cost) Minus(d Cost) Cost {
	return Cost{c.Input - d.Input, c.Output - d.Output, c.CacheRead - d.CacheRead, c.CacheWrite - d.CacheWrite, c.Total - d.Total}
}

// Add is the sum of both.
func (c Cost) Add(d Cost) Cost {
	return Cost{c.Input + d.Input, c.Output + d.Output, c.CacheRead + d.CacheRead, c.CacheWrite + d.CacheWrite, c.Total + d.Total}
}
