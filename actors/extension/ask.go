package extension

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"troupe/actors/worker"
	"troupe/protocol"
)

// What jobs ask extensions about, before they do what they are for. Each question is
// asked only if somebody listens.

// Context is what extensions make of the messages that a model is to be shown.
func (t *Tools) Context(ctx context.Context, messages []protocol.Message) ([]protocol.Message, error) {
	raw, err := t.Ask(ctx, map[string]any{"type": "context", "messages": rawMessages(messages)})
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
func (t *Tools) UserBash(ctx context.Context, command, cwd string, exclude bool) (*protocol.BashResult, error) {
	raw, err := t.Ask(ctx, map[string]any{"type": "user_bash", "command": command, "cwd": cwd, "excludeFromContext": exclude})
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

// BeforeCompact asks extensions about a compaction: they may make it themselves, or
// not let it be. Nil and false leave it to a model.
func (t *Tools) BeforeCompact(ctx context.Context, k *worker.Compactor, enabled bool) (made *protocol.Compaction, cancelled bool, err error) {
	lists := k.FilesOf(slices.Concat(k.Cut.History, k.Cut.Prefix))
	preparation := map[string]any{
		"firstKeptEntryId": k.Cut.FirstKept, "messagesToSummarize": rawMessages(k.Cut.History), "turnPrefixMessages": rawMessages(k.Cut.Prefix),
		"isSplitTurn": len(k.Cut.Prefix) > 0, "tokensBefore": k.Tokens,
		"fileOps":  map[string]any{"read": lists.ReadFiles, "written": []string{}, "edited": lists.ModifiedFiles},
		"settings": map[string]any{"enabled": enabled, "reserveTokens": k.Reserve, "keepRecentTokens": k.Keep},
	}
	if k.Cut.Previous != "" {
		preparation["previousSummary"] = k.Cut.Previous
	}
	event := map[string]any{"type": "session_before_compact", "preparation": preparation, "reason": k.Ask.Reason, "willRetry": k.Ask.Retries}
	if k.Ask.Instructions != "" {
		event["customInstructions"] = k.Ask.Instructions
	}
	cancelled, raw, err := t.before(ctx, event)
	var r struct {
		Compaction *struct {
			Summary          string          `json:"summary"`
			FirstKeptEntryID string          `json:"firstKeptEntryId"`
			TokensBefore     int64           `json:"tokensBefore"`
			Details          json.RawMessage `json:"details"`
			Usage            *protocol.Usage `json:"usage"`
		} `json:"compaction"`
	}
	if err == nil {
		err = unmarshal(raw, &r)
	}
	if err != nil || cancelled || r.Compaction == nil {
		return nil, cancelled, err
	}
	c := r.Compaction
	return &protocol.Compaction{
		Summary: c.Summary, FirstKeptEntryID: cmp.Or(c.FirstKeptEntryID, k.Cut.FirstKept), TokensBefore: cmp.Or(c.TokensBefore, k.Tokens),
		Details: c.Details, Usage: c.Usage, FromHook: true,
	}, false, nil
}

// Resources are the paths of what extensions bring along for a person to lay out.
type Resources struct{ Skills, Prompts []string }

// Discover asks extensions for resources. reason is startup or reload.
func (t *Tools) Discover(ctx context.Context, cwd, reason string) (Resources, error) {
	raw, err := t.Ask(ctx, map[string]any{"type": "resources_discover", "cwd": cwd, "reason": reason})
	if err != nil {
		return Resources{}, err
	}
	type found struct{ Path, ExtensionPath string }
	var r struct{ SkillPaths, PromptPaths []found }
	if err := unmarshal(raw, &r); err != nil {
		return Resources{}, fmt.Errorf("resources_discover: %w", err)
	}
	paths := func(list []found) (out []string) {
		for _, f := range list {
			if !filepath.IsAbs(f.Path) && !strings.HasPrefix(f.Path, "~") {
				f.Path = filepath.Join(filepath.Dir(f.ExtensionPath), f.Path)
			}
			out = append(out, f.Path)
		}
		return out
	}
	return Resources{paths(r.SkillPaths), paths(r.PromptPaths)}, nil
}

// rawMessages are messages as extensions see them.
func rawMessages(messages []protocol.Message) []json.RawMessage {
	list := make([]json.RawMessage, len(messages))
	for i, m := range messages {
		list[i] = m.AppendJSON(nil)
	}
	return list
}

// BeforeSwitch says whether extensions want the session to stay, when a command is
// about to replace it or to go elsewhere in it. name is the event's, "" for a command
// that does neither.
func BeforeSwitch(cmd protocol.Command, more Replacing) (name string, event map[string]any) {
	switch cmd := cmd.(type) {
	case protocol.NewSession:
		return "session_before_switch", map[string]any{"type": "session_before_switch", "reason": "new"}
	case protocol.SwitchSession:
		return "session_before_switch", map[string]any{"type": "session_before_switch", "reason": "resume", "targetSessionFile": cmd.SessionPath}
	case protocol.Fork:
		position := "before"
		if more.At {
			position = "at"
		}
		return "session_before_fork", map[string]any{"type": "session_before_fork", "entryId": cmd.EntryID, "position": position}
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

// BeforeTree asks extensions about a navigation: they may cancel it, change what it
// says about its summary, or make that themselves.
func (t *Tools) BeforeTree(ctx context.Context, cmd protocol.NavigateTree, leaf string) (cancelled bool, changed protocol.NavigateTree, made *protocol.BranchSummary, err error) {
	changed = cmd
	_, event := BeforeSwitch(cmd, Replacing{})
	event["preparation"].(map[string]any)["oldLeafId"] = leaf
	cancelled, raw, err := t.before(ctx, event)
	var r struct {
		Summary *struct {
			Summary string          `json:"summary"`
			Details json.RawMessage `json:"details"`
			Usage   *protocol.Usage `json:"usage"`
		} `json:"summary"`
		Instructions *string `json:"customInstructions"`
		Replace      *bool   `json:"replaceInstructions"`
		Label        *string `json:"label"`
	}
	if err == nil {
		err = unmarshal(raw, &r)
	}
	if err != nil || cancelled {
		return cancelled, cmd, nil, err
	}
	if r.Instructions != nil {
		changed.CustomInstructions = *r.Instructions
	}
	if r.Replace != nil {
		changed.ReplaceInstructions = *r.Replace
	}
	if r.Label != nil {
		changed.Label = *r.Label
	}
	if s := r.Summary; s != nil && cmd.Summarize {
		made = &protocol.BranchSummary{FromID: leaf, Summary: s.Summary, Details: s.Details, Usage: s.Usage, FromHook: true}
	}
	return false, changed, made, nil
}
