package extension

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"troupe/protocol"
)

// What jobs ask extensions about, before they do what they are for. Each question is
// asked only if somebody listens.

// Context is what extensions make of the messages that a model is to be shown.
func (t *Tools) Context(ctx context.Context, messages []protocol.Message) ([]protocol.Message, error) {
	list := make([]json.RawMessage, len(messages))
	for i, m := range messages {
		list[i] = m.AppendJSON(nil)
	}
	raw, err := t.Ask(ctx, map[string]any{"type": "context", "messages": list})
	if err != nil {
		return messages, err
	}
	var r struct {
		Messages *[]json.RawMessage `json:"messages"`
	}
	if err := unmarshal(raw, &r); err != nil || r.Messages == nil {
		return messages, err
	}
	out := make([]protocol.Message, 0, len(*r.Messages))
	for _, raw := range *r.Messages {
		m, err := protocol.DecodeMessage(raw)
		if err != nil {
			return messages, fmt.Errorf("context: %w", err)
		}
		out = append(out, m)
	}
	return out, nil
}

// unmarshal reads an answer; none leaves v as it is.
func unmarshal(raw json.RawMessage, v any) error {
	if len(raw) == 0 {
		return nil
	}
	return json.Unmarshal(raw, v)
}

// UserBash is what extensions say to a command of the client: its result, if one of
// them ran it, or why it must not run.
func (t *Tools) UserBash(ctx context.Context, command, cwd string) (*protocol.BashResult, error) {
	raw, err := t.Ask(ctx, map[string]any{"type": "user_bash", "command": command, "cwd": cwd, "excludeFromContext": false})
	if err != nil {
		return nil, err
	}
	var r struct {
		Result     *protocol.BashResult `json:"result"`
		Operations json.RawMessage      `json:"operations"`
		Block      bool                 `json:"block"` // a handler threw, so nobody has said yes
		Reason     string               `json:"reason"`
	}
	if err := unmarshal(raw, &r); err != nil {
		return nil, fmt.Errorf("user_bash: %w", err)
	}
	if r.Block {
		return nil, errors.New(bounded(cmp.Or(r.Reason, "user_bash: the command was blocked")))
	}
	if r.Result == nil && len(r.Operations) > 0 && string(r.Operations) != "null" {
		return nil, fmt.Errorf("user_bash: operations of an extension are not available in this host; it can return a result")
	}
	return r.Result, nil
}

// before is a question to which extensions may say {cancel: true}.
func (t *Tools) before(ctx context.Context, event map[string]any) (cancelled bool, raw json.RawMessage, err error) {
	raw, err = t.Ask(ctx, event)
	if err != nil {
		return false, nil, err
	}
	var r struct {
		Cancel bool `json:"cancel"`
	}
	if err := unmarshal(raw, &r); err != nil {
		return false, nil, fmt.Errorf("%s: %w", event["type"], err)
	}
	return r.Cancel, raw, nil
}

// BeforeSwitch says whether extensions want the session to stay, when a command is
// about to replace it or to go elsewhere in it. name is the event's, "" for a command
// that does neither.
func BeforeSwitch(cmd protocol.Command) (name string, event map[string]any) {
	switch cmd := cmd.(type) {
	case protocol.NewSession:
		return "session_before_switch", map[string]any{"type": "session_before_switch", "reason": "new"}
	case protocol.SwitchSession:
		return "session_before_switch", map[string]any{"type": "session_before_switch", "reason": "resume", "targetSessionFile": cmd.SessionPath}
	case protocol.Fork:
		return "session_before_fork", map[string]any{"type": "session_before_fork", "entryId": cmd.EntryID, "position": "before"}
	case protocol.Clone:
		return "session_before_fork", map[string]any{"type": "session_before_fork", "position": "at"}
	case protocol.NavigateTree:
		return "session_before_tree", map[string]any{"type": "session_before_tree", "preparation": map[string]any{
			"targetId": cmd.TargetID, "userWantsSummary": cmd.Summarize, "customInstructions": cmd.CustomInstructions,
			"replaceInstructions": cmd.ReplaceInstructions, "label": cmd.Label,
		}}
	default:
		return "", nil
	}
}

// Vetoes says whether extensions say {cancel: true}.
func (t *Tools) Vetoes(ctx context.Context, event map[string]any) (bool, error) {
	cancelled, _, err := t.before(ctx, event)
	return cancelled, err
}
