package extension

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"troupe/actors/core"
	"troupe/protocol"
)

// Hook names, as extensions listen to them.
var hookNames = map[core.HookSet]string{
	core.HookInput: "input", core.HookBeforeAgentStart: "before_agent_start",
	core.HookToolCall: "tool_call", core.HookToolResult: "tool_result",
	core.HookMessageEnd: "message_end", core.HookTurnEnd: "turn_end", core.HookAgentEnd: "agent_end", core.HookBeforeSettle: "agent_before_settle",
}

// prepareArguments is what a [core.PrepareHook] is reported as.
const prepareArguments = "prepareArguments"

// Listens is which hooks of the machine somebody listens to.
func Listens(events []string) (set core.HookSet) {
	for hook, name := range hookNames {
		if slices.Contains(events, name) {
			set |= hook
		}
	}
	return set
}

// inputEvent is the payload of input.
type inputEvent struct {
	Type     string                     `json:"type"`
	Text     string                     `json:"text"`
	Images   protocol.Content           `json:"images,omitempty"`
	Source   string                     `json:"source"`
	Behavior protocol.StreamingBehavior `json:"streamingBehavior,omitempty"`
}

// beforeEvent is the payload of before_agent_start.
type beforeEvent struct {
	Type         string           `json:"type"`
	MessageType  string           `json:"messageType"`
	Prompt       *string          `json:"prompt,omitempty"`
	Images       protocol.Content `json:"images,omitempty"`
	SystemPrompt string           `json:"systemPrompt"`
	Options      json.RawMessage  `json:"systemPromptOptions,omitempty"`
	Message      json.RawMessage  `json:"message,omitempty"` // of an extension, which has no prompt
}

// callEvent is the payload of tool_call and tool_result.
type callEvent struct {
	Type       string          `json:"type"`
	ToolName   string          `json:"toolName"`
	ToolCallID string          `json:"toolCallId"`
	Input      json.RawMessage `json:"input"`
	Parent     string          `json:"parentToolCallId,omitempty"`
	*resultEvent
}

type resultEvent struct {
	Content    json.RawMessage `json:"content"`
	Details    json.RawMessage `json:"details,omitempty"`
	IsError    bool            `json:"isError"`
	Structured json.RawMessage `json:"structuredContent,omitempty"`
	Usage      json.RawMessage `json:"usage,omitempty"`
}

// images are images as they lie in a message.
func images(list []protocol.Image) (out protocol.Content) {
	for _, img := range list {
		out = append(out, img)
	}
	return out
}

// payload is a hook as extensions see it. system is the system prompt in force and
// what it was made of, which only before_agent_start shows.
func payload(h core.Hook, system SystemPrompt) json.RawMessage {
	var ev any
	switch h := h.(type) {
	case core.InputHook:
		text, imgs, behavior := message(h.Command.Cmd)
		ev = inputEvent{"input", text, images(imgs), source(h.Command), behavior}
	case core.BeforeAgentStartHook:
		ev = beforeAgentStart(h.Command, system)
	case core.ToolCallHook:
		ev = callEvent{"tool_call", h.Call.Name, h.Call.ID, h.Call.Arguments, h.Parent, nil}
	case core.ToolResultHook:
		ev = callEvent{"tool_result", h.Call.Name, h.Call.ID, h.Call.Arguments, h.Parent, &resultEvent{
			protocol.AppendValue(nil, h.Result.Content), h.Result.Details, h.IsError, h.Result.StructuredContent, h.Result.Usage,
		}}
	case core.MessageEndHook:
		ev = map[string]any{"type": "message_end", "message": json.RawMessage(protocol.AppendValue(nil, h.Message))}
	case core.TurnEndHook:
		ev = turnEndEvent(h)
	case core.AgentEndHook:
		ev = map[string]any{"type": "agent_end", "messages": rawMessages(h.Messages)}
	case core.BeforeSettleHook:
		ev = map[string]any{"type": "agent_before_settle", "outcome": outcome(h.Outcome), "entries": []any{}, "continue": false}
	case core.PrepareHook: // a question of its own
	}
	return protocol.JSON(ev)
}

// beforeAgentStart is about the message that begins a run.
func beforeAgentStart(c core.Command, system SystemPrompt) beforeEvent {
	e := beforeEvent{Type: "before_agent_start", MessageType: "user", SystemPrompt: system.Text, Options: system.Options}
	if note := c.Note; note != nil {
		m := note.Message
		e.MessageType = "custom"
		e.Message = protocol.AppendValue(nil, &protocol.CustomMessage{CustomType: m.CustomType, Content: m.Content, Display: m.Display, Details: m.Details, Timestamp: time.Now().UnixMilli()})
		return e
	}
	text, imgs, _ := message(c.Cmd)
	e.Prompt, e.Images = &text, images(imgs)
	return e
}

// source is who wrote a message.
func source(c core.Command) string {
	if c.FromExtension {
		return "extension"
	}
	return "rpc"
}

func message(cmd protocol.Command) (string, []protocol.Image, protocol.StreamingBehavior) {
	switch cmd := cmd.(type) {
	case protocol.Prompt:
		return cmd.Message, cmd.Images, cmd.StreamingBehavior
	case protocol.Steer:
		return cmd.Message, cmd.Images, protocol.BehaviorSteer
	case protocol.FollowUp:
		return cmd.Message, cmd.Images, protocol.BehaviorFollowUp
	default:
		panic(fmt.Sprintf("extension: no message in %T", cmd))
	}
}

// withMessage is a command with another text and images.
func withMessage(cmd protocol.Command, text string, imgs []protocol.Image) protocol.Command {
	switch cmd := cmd.(type) {
	case protocol.Prompt:
		cmd.Message, cmd.Images = text, imgs
		return cmd
	case protocol.Steer:
		cmd.Message, cmd.Images = text, imgs
		return cmd
	case protocol.FollowUp:
		cmd.Message, cmd.Images = text, imgs
		return cmd
	default:
		panic(fmt.Sprintf("extension: no message in %T", cmd))
	}
}

// answer reads what extensions say to a hook. What cannot be read is an error of
// theirs; the hook has its default then.
func answer(c Call, raw json.RawMessage) (core.HookAnswer, error) {
	if len(raw) == 0 || string(raw) == "null" {
		raw = json.RawMessage("{}")
	}
	switch h := c.Hook.(type) {
	case core.InputHook:
		return readInput(h, raw)
	case core.BeforeAgentStartHook:
		return readBefore(raw, c.SystemPrompt)
	case core.ToolCallHook:
		return readGate(raw)
	case core.ToolResultHook:
		return readPatch(h, raw)
	case core.MessageEndHook:
		return readMessage(raw)
	case core.TurnEndHook, core.BeforeSettleHook:
		return readProposal(raw)
	case core.PrepareHook:
		return core.Arranged{Args: raw}, nil
	case core.AgentEndHook:
		return nil, nil
	}
	panic("extension: unknown hook")
}

func readInput(h core.InputHook, raw json.RawMessage) (core.HookAnswer, error) {
	var r struct {
		Action string            `json:"action"`
		Text   *string           `json:"text"`
		Images *[]protocol.Image `json:"images"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	taken := core.Taken{Command: h.Command, Handled: r.Action == "handled"}
	if r.Action == "transform" && r.Text != nil {
		_, imgs, _ := message(h.Command.Cmd)
		if r.Images != nil {
			imgs = append([]protocol.Image(nil), *r.Images...) // nil for none
		}
		taken.Command.Cmd = withMessage(h.Command.Cmd, *r.Text, imgs)
	}
	return taken, nil
}

func readBefore(raw json.RawMessage, system SystemPrompt) (core.HookAnswer, error) {
	var r struct {
		Messages     []json.RawMessage `json:"messages"`
		SystemPrompt *string           `json:"systemPrompt"`
		Options      *PromptOptions    `json:"systemPromptOptions"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, fmt.Errorf("before_agent_start: %w", err)
	}
	p := core.Prepared{SystemPrompt: r.SystemPrompt}
	if r.Options != nil && r.SystemPrompt == nil && system.Make != nil {
		p.SystemPrompt = new(system.Make(*r.Options))
	}
	for _, raw := range r.Messages {
		m, err := CustomMessage(raw)
		if err != nil {
			return nil, fmt.Errorf("before_agent_start: %w", err)
		}
		p.Messages = append(p.Messages, m)
	}
	return p, nil
}

func readGate(raw json.RawMessage) (core.HookAnswer, error) {
	var r struct {
		Block  bool            `json:"block"`
		Reason string          `json:"reason"`
		Input  json.RawMessage `json:"input"`
		Final  bool            `json:"terminate"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, fmt.Errorf("tool_call: %w", err)
	}
	return core.Gated{Blocked: r.Block, Reason: bounded(r.Reason), Args: r.Input, Final: r.Final}, nil
}

func readPatch(h core.ToolResultHook, raw json.RawMessage) (core.HookAnswer, error) {
	var r struct {
		Content    json.RawMessage `json:"content"`
		Details    json.RawMessage `json:"details"`
		IsError    *bool           `json:"isError"`
		Structured json.RawMessage `json:"structuredContent"`
		Usage      json.RawMessage `json:"usage"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, fmt.Errorf("tool_result: %w", err)
	}
	p := core.Patched{Result: h.Result, IsError: h.IsError}
	if len(r.Content) > 0 {
		content, err := contentOf(r.Content)
		if err != nil {
			return nil, fmt.Errorf("tool_result: %w", err)
		}
		p.Result.Content, p.Result.Structured = content, nil
	}
	if len(r.Details) > 0 {
		p.Result.Details = r.Details
	}
	if len(r.Structured) > 0 { // null takes it away
		p.Result.StructuredContent, p.Result.Structured = orNothing(r.Structured), nil
	}
	if len(r.Usage) > 0 {
		p.Result.Usage = orNothing(r.Usage)
	}
	if r.IsError != nil {
		p.IsError = *r.IsError
	}
	return p, nil
}

// orNothing is a value, nil for null.
func orNothing(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return nil
	}
	return raw
}

// turnEndEvent is the payload of turn_end, where handlers may say what follows.
func turnEndEvent(h core.TurnEndHook) any {
	return map[string]any{
		"type": "turn_end", "turnIndex": h.Turn, "message": json.RawMessage(protocol.AppendValue(nil, h.Message)),
		"toolResults": json.RawMessage(protocol.AppendValue(nil, append([]*protocol.ToolResultMessage{}, h.Results...))), "messageEntryId": h.MessageID,
		"toolResultEntryIds": append([]string{}, h.ResultIDs...), "outcome": "completed", "entries": []any{}, "continue": h.Continue,
	}
}

// outcome is that of a run in the words of pi.
func outcome(of string) string {
	if of == "failed" {
		return "error"
	}
	return of
}

func readMessage(raw json.RawMessage) (core.HookAnswer, error) {
	var r struct {
		Message json.RawMessage `json:"message"`
	}
	if err := json.Unmarshal(raw, &r); err != nil || len(r.Message) == 0 {
		return core.Rewritten{}, err
	}
	m, err := protocol.DecodeExactMessage(r.Message)
	if err != nil {
		return nil, fmt.Errorf("message_end: %w", err)
	}
	msg, ok := m.(*protocol.AssistantMessage)
	if !ok {
		return nil, errors.New("message_end handlers must return a message with the same role")
	}
	return core.Rewritten{Message: msg}, nil
}

func readProposal(raw json.RawMessage) (core.HookAnswer, error) {
	var r struct {
		Entries  []json.RawMessage `json:"entries"`
		Continue *bool             `json:"continue"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, err
	}
	p := core.Proposed{Continue: r.Continue}
	for _, raw := range r.Entries {
		e, err := readDraft(raw)
		if err != nil {
			return nil, err
		}
		p.Entries = append(p.Entries, e)
	}
	return p, nil
}

// readDraft reads an entry that handlers want at the end of something.
func readDraft(raw json.RawMessage) (protocol.Entry, error) {
	var d struct {
		Type        string          `json:"type"`
		CustomType  string          `json:"customType"`
		Data        json.RawMessage `json:"data"`
		TargetID    string          `json:"targetId"`
		Replacement json.RawMessage `json:"replacement"`
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		return nil, fmt.Errorf("entries: %w", err)
	}
	switch d.Type {
	case "custom":
		return protocol.Custom{CustomType: d.CustomType, Data: d.Data}, nil
	case "custom_message":
		return CustomMessage(raw)
	case "context_edit":
		return protocol.ContextEdit{TargetID: d.TargetID, Replacement: d.Replacement}, nil
	default:
		return nil, fmt.Errorf("entries: a %s cannot be added here", d.Type)
	}
}

// CustomMessage reads {customType, content, display, details?}, whose content is
// a text, blocks, or nothing.
func CustomMessage(raw json.RawMessage) (protocol.CustomMessageEntry, error) {
	var m struct {
		CustomType string          `json:"customType"`
		Content    json.RawMessage `json:"content"`
		Display    bool            `json:"display"`
		Details    json.RawMessage `json:"details"`
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return protocol.CustomMessageEntry{}, fmt.Errorf("message: %w", err)
	}
	content, err := contentOf(m.Content)
	if err != nil {
		return protocol.CustomMessageEntry{}, fmt.Errorf("message: %w", err)
	}
	return protocol.CustomMessageEntry{CustomType: m.CustomType, Content: content, Display: m.Display, Details: m.Details}, nil
}

func contentOf(raw json.RawMessage) (protocol.Content, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return protocol.Content{}, nil
	}
	content := protocol.Content{}
	if err := json.Unmarshal(raw, &content); err != nil {
		return nil, fmt.Errorf("content: %w", err)
	}
	return content, nil
}

// maxReason bounds what an extension says about a blocked call, in bytes.
const maxReason = 64 << 10

func bounded(text string) string {
	if len(text) <= maxReason {
		return text
	}
	return strings.ToValidUTF8(text[:maxReason], "") + " …"
}
